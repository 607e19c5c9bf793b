"""Copies between arrays of one device, of two devices of a kind, and between a device and the host."""

from __future__ import annotations

from devmod._arrays.copies import Copy
from devmod._arrays.host import HostView
from devmod._values.conversion import describe_value
from devmod_runtime._device.stream import Stream
from devmod_runtime._fork import check_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime._device.device import Device
    from devmod_runtime._device.device_array import DeviceArray
    from devmod_runtime._device.stream import Event


def copy(device: Device, source: object, target: object, name: str, stream: object, wait: bool) -> Event | None:
    """Copy by a device, in the order of a stream. Return the event at the end if `wait` is false.

    Parameters
    ----------
    device
        The target's device, or the source's if the target is in the host's memory.
    source, target
        The arrays. At least one is a device array.
    name
        The function's name in messages.
    stream, wait
        As in `Array.copy_from`.

    Raises
    ------
    ArgumentError, LaunchError
        As for `Array.copy_from`.
    """
    checked = Copy(source, target, name, device.kind)
    start, end = checked.source, checked.target
    check_driver(device.kind)
    if stream is None:
        stream = device.current_stream
    elif not isinstance(stream, Stream) or stream.device is not device:
        description = f"a stream of {stream.device}" if isinstance(stream, Stream) else describe_value(stream)
        raise checked.error(f"stream= is {description}, expected a stream of {device}", "stream")
    if name == "numpy":  # `Array.numpy` waits for all streams
        device.synchronize()
    if end.nbytes:
        if isinstance(start, HostView):
            (device.write if wait else device.start_write)(end.region, start.read(), stream)
        elif isinstance(end, HostView):
            _copy_to_host(start, end, stream, wait)
        else:
            _copy_on_devices(start, end, stream)
    if wait:
        stream.synchronize()
        return None
    return stream.record()


def _copy_on_devices(source: DeviceArray, target: DeviceArray, stream: Stream) -> None:
    device, nbytes = target.device, target.nbytes
    if source.device is not device:
        # Drivers keep the memory of two devices apart: OpenCL's have a context each.
        data = memoryview(bytearray(nbytes))
        source.read(data)
        device.write(target.region, data, stream)
    elif not source.overlaps(target):
        device.copy(source.region, target.region, nbytes, stream)
    elif source.region is not target.region:
        between = device.allocate(nbytes)  # no driver copies between overlapping parts
        device.copy(source.region, between, nbytes, stream)
        device.copy(between, target.region, nbytes, stream)


def _copy_to_host(source: DeviceArray, target: HostView, stream: Stream, wait: bool) -> None:
    if wait or not target.contiguous or target.packed:
        source.device.read(source.region, target.write_target(), stream)
        target.finish()
    else:
        source.device.start_read(source.region, target.write_target(), stream)
