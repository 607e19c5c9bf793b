"""Copies between arrays: on the host, of one device, of two devices of a kind, and between a device and the host."""

from __future__ import annotations

from devmod import Array
from devmod._arrays.elements import count_of, scalar_shape
from devmod._values.dtypes import describe_value
from devmod.backend import ConversionError
from devmod.errors import ArgumentError
from devmod_runtime._device.host import HostView, host_view
from devmod_runtime._device.stream import Stream
from devmod_runtime._fork import check_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    from devmod_runtime._device.device import Device
    from devmod_runtime._device.device_array import DeviceArray
    from devmod_runtime._device.stream import Event
else:
    from devmod._util.numpy import np


def copy(source: object, target: object, name: str, stream: object = None, wait: bool = True) -> Event | None:
    """Copy one array to another; at least one of them is devmod's.

    Parameters
    ----------
    source, target
        The arrays.
    name
        The function's name in messages.
    stream, wait
        As in `Array.copy_from`.

    Raises
    ------
    ArgumentError, LaunchError
        As for `Array.copy_from`.
    """
    return _Copy(source, target, name).run(stream, wait)


def copy_to_numpy(array: Array, out: Any) -> np.ndarray[Any, Any]:
    """Copy the elements to a NumPy array, after all work queued on the array's device. Return it.

    Raises
    ------
    ArgumentError
        `out` is not a writable NumPy array of the same type and shape.
    """
    if not isinstance(out, np.ndarray):
        raise ArgumentError(f"numpy: expected a NumPy array as out, got {describe_value(out)}", argument="out")
    copy = _Copy(array, out, "numpy")
    if copy.device is not None:
        copy.device.synchronize()
    copy.run(None, True)
    return out


def _device_array(value: Any) -> DeviceArray | None:
    return value if isinstance(value, Array) and value._host_bytes is None else None  # type: ignore[return-value]


class _Copy:
    """A checked copy. At least one of its arrays is devmod's.

    Parameters
    ----------
    source, target
        The arrays.
    name
        The function's name in messages.

    Attributes
    ----------
    source, target
        Device arrays, or views of host arrays.
    device : Device or None
        The device that copies; None for a copy on the host.

    Raises
    ------
    ArgumentError
        As for `Array.copy_from`.
    """

    def __init__(self, source: object, target: object, name: str) -> None:
        self._name = name
        on_devices = [each for each in map(_device_array, (target, source)) if each is not None]
        self.device: Device | None = on_devices[0].device if on_devices else None
        self.source = self._end(source, "source")
        self.target = self._end(target, "target")
        self._check()

    def run(self, stream: object, wait: bool) -> Event | None:
        """Copy, in the order of a stream. Return the event at the end if `wait` is false."""
        source, target, device = self.source, self.target, self.device
        if isinstance(source, HostView) and isinstance(target, HostView):
            if stream is not None:
                raise self._error("stream= is given, and both arrays are in the host's memory", "stream")
            target.write_target()[:] = source.read()
            target.finish()
            return None
        assert device is not None
        check_driver(device.kind)
        copy_stream = self._stream(stream, device)
        if target.nbytes:
            if isinstance(source, HostView):
                assert not isinstance(target, HostView)
                (device.write if wait else device.start_write)(target.region, source.read(), copy_stream)
            elif isinstance(target, HostView):
                _copy_to_host(source, target, copy_stream, wait)
            else:
                _copy_on_devices(source, target, copy_stream)
        if wait:
            copy_stream.synchronize()
            return None
        return copy_stream.record()

    def _end(self, value: object, role: str) -> DeviceArray | HostView:
        array = _device_array(value)
        if array is not None:
            return array
        try:
            view = host_view(value)
        except ConversionError as error:
            raise self._error(f"the {role} {error}", role) from None
        if view is None:
            raise self._error(f"the {role} is {describe_value(value)}, expected an array of devmod or of the host", role)
        return view

    def _check(self) -> None:
        source, target = self.source, self.target
        (source_type, source_shape), (target_type, target_shape) = (scalar_shape(each.dtype, each.shape)[:2] for each in (source, target))
        if source_type != target_type:
            raise self._error(
                f"the source has elements of {source.dtype}, and the target of {target.dtype}; devmod converts no elements: convert "
                "them on the host, as in device.from_numpy(array.numpy().astype(dtype)), or with a kernel",
                "source",
            )
        if source_shape != target_shape:
            advice = "; reshape one of them" if count_of(source_shape) == count_of(target_shape) else ""
            raise self._error(f"the source has the shape {source_shape}, and the target {target_shape}{advice}", "source")
        if not isinstance(target, HostView):
            read_only = target.read_only
            if not isinstance(source, HostView) and source.device.kind != target.device.kind:
                raise self._error(
                    f"the source is on {source.device}, and the target on {target.device}; devices of two kinds share no memory: copy "
                    "through the host, as in target.copy_from(source.numpy())",
                    "source",
                )
        else:
            read_only = not target.array.flags.writeable
        if read_only:
            raise self._error("the target is read-only", "target")

    def _stream(self, stream: object, device: Device) -> Stream:
        """Return the stream of the copy."""
        if stream is None:
            return device.current_stream
        if not isinstance(stream, Stream) or stream.device is not device:
            description = f"a stream of {stream.device}" if isinstance(stream, Stream) else describe_value(stream)
            raise self._error(f"stream= is {description}, expected a stream of {device}", "stream")
        return stream

    def _error(self, text: str, argument: str) -> ArgumentError:
        return ArgumentError(f"{self._name}: {text}", kind=self.device.kind if self.device is not None else "", argument=argument)


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
