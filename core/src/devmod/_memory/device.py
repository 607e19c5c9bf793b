"""Devices, streams and events: what a backend derives from, and how a program finds them.

A backend's Device gives `allocate`, `write`, `read` and the streams; arrays are core's own (`DeviceArray`) and hold what
`allocate` returned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from devmod import _registry
from devmod._dtypes import dtype_bytes, parse_dtype
from devmod._memory.array import Array as Array
from devmod._memory.array import DeviceArray as DeviceArray
from devmod._memory.array import HostArray as HostArray
from devmod._memory.array import bytes_of, count_of, dtype_of, name_of, shape_of
from devmod.errors import ArgumentError, DeviceNotFoundError, DevmodError, FormatError, NotRegisteredError, PluginError, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    import numpy as np

    Own = TypeVar("Own", bound="Event")

GROUP = "devmod.device"


class Event(ABC):
    """A point in a stream, made by `Stream.record`."""

    __slots__ = ()

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has come to this point; LaunchError for what it reports."""

    @abstractmethod
    def elapsed(self, earlier: Event) -> float:
        """The seconds on the device from `earlier` to this event. Waits for both.

        Raises
        ------
        ArgumentError
            `earlier` is of another kind of device.
        """


class Stream(ABC):
    """An in-order queue of a device's work, made by `Device.stream`.

    Attributes
    ----------
    device : Device
        Whose queue it is.
    """

    device: Device

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all that was queued is done; LaunchError for what the device reports."""

    @abstractmethod
    def record(self) -> Event:
        """An event at the present end of the queue."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Hold what is queued from now on until the device has come to `event`, which may be another stream's.

        Raises
        ------
        ArgumentError
            `event` is of another kind of device.
        """

    def batch(self) -> AbstractContextManager[object]:
        """Hand the launches of a ``with`` body to the driver together, where the kind can do that; else one by one, as ever.

        They run in their order, as they would without; where the body raises, those before it run. What waits for the stream inside the
        body (`synchronize`, `record`, an array's ``numpy()``) sends what was queued until then.
        """
        from contextlib import nullcontext

        return nullcontext()


class Device(ABC):
    """A device of one kind. `devmod.device` finds it; nothing is allocated on it before it is used.

    Attributes
    ----------
    kind : str
        The backend's kind, such as "opencl".
    index : int
        Its number among the devices of that kind.
    name, vendor, driver_version : str
        As the driver has them.
    memory : int
        The device's memory in bytes; 0 where its interface does not tell (WebGPU).
    limits : Mapping[str, int]
        The limits of a launch by name, as errors name them.
    arch : str
        The architecture that variants are chosen by (R40), such as "sm_90"; "" where the kind has none.
    dlpack_type : int
        DLPack's device type.
    """

    kind: str
    index: int
    name: str = ""
    vendor: str = ""
    driver_version: str = ""
    memory: int = 0
    limits: Mapping[str, int] = {}
    arch: str = ""
    dlpack_type: int = 12  # kDLExtDev: a kind that DLPack has no number for

    # -- what a backend gives

    @property
    @abstractmethod
    def default_stream(self) -> Stream:
        """The stream of every launch that names none; the same object each time."""

    @abstractmethod
    def stream(self) -> Stream:
        """A new stream."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all streams of the device are done; LaunchError for what the device reports."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Memory of at least `nbytes` (1 or more) bytes, freed with the object that is returned.

        Raises
        ------
        LaunchError
            The device has no such memory left; the message has the number of bytes.
        """

    @abstractmethod
    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        """Copy `data` (bytes, contiguous, not empty) to the start of `memory`, in the stream's order.

        `data` may change again as soon as this returns.
        """

    @abstractmethod
    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        """Copy the start of `memory` to `out` (bytes, contiguous, not empty), in the stream's order, and wait for it."""

    def view(self, memory: Any) -> memoryview | None:
        """The bytes of `memory` as the host sees them, writable and not copied, where host and device share it; None where they do not.

        What is returned holds the memory.
        """
        return None

    # -- what core makes of it

    def empty(self, shape: int | Sequence[int], dtype: object) -> Array:
        """An array of that shape and element type whose elements are not set.

        Parameters
        ----------
        shape
            A length, or one for each dimension.
        dtype
            A name such as "float32" or "float32x4", or a NumPy dtype.

        Raises
        ------
        ArgumentError
            One of them is none.
        LaunchError
            The device's memory does not hold it.
        """
        lengths, name = shape_of(shape), dtype_of(dtype)
        nbytes = count_of(lengths) * dtype_bytes(parse_dtype(name))
        return DeviceArray(self, self.allocate(max(nbytes, 1)), lengths, name)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Array:
        """A copy of a NumPy array, or of what ``numpy.asarray`` takes, on this device.

        Raises
        ------
        ArgumentError
            Its elements are of a type that no device knows.
        LaunchError
            The device's memory does not hold it.
        """
        import numpy as np

        if isinstance(array, HostArray):
            data, shape, dtype = array.data, array.shape, array.dtype
        else:
            try:
                flat = np.asarray(array)
                dtype = name_of(flat.dtype)
            except (FormatError, TypeError, ValueError) as error:  # NumPy's own are for what is no array
                raise ArgumentError(f"from_numpy takes an array of numbers: {error}", argument="array") from None
            shape, data = flat.shape, bytes_of(np.ascontiguousarray(flat))
        made = DeviceArray(self, self.allocate(max(data.nbytes, 1)), shape, dtype)
        if data.nbytes:
            self.write(made.memory, data, self.default_stream)
        return made

    def __repr__(self) -> str:
        return f"{self.kind} device {self.index} ({self.name})"


def waited_for(event: Event, own: type[Own], device: Device) -> Own:
    """The event that a stream of `device` is to wait for.

    Raises
    ------
    ArgumentError
        It is none of the class `own`.
    """
    if not isinstance(event, own):
        raise ArgumentError(
            f"a stream of {device} cannot wait for {event!r}, which is no event of kind {device.kind}", kind=device.kind, argument="event"
        )
    return event


def begun_at(earlier: Event, own: type[Own], device: Device) -> Own:
    """The event that the time of another one of `device` is to be counted from.

    Raises
    ------
    ArgumentError
        It is none of the class `own`, or its `device` is another one.
    """
    whose: Device | None = getattr(earlier, "device", None) if isinstance(earlier, own) else None
    if not isinstance(earlier, own) or whose is not device:
        what = f"one of {whose}" if whose else repr(earlier)
        raise ArgumentError(f"elapsed takes an event of {device}, not {what}", kind=device.kind, argument="earlier")
    return earlier


def device(kind: str, index: int = 0) -> Device:
    """A device by its kind and number.

    Parameters
    ----------
    kind
        The backend's kind, such as "opencl".
    index
        Its number among the devices of that kind, from 0.

    Raises
    ------
    NotRegisteredError
        The kind's runtime is not installed; the message has the command that adds it.
    DeviceNotFoundError
        There is no driver, or no device of that number.
    """
    found = _devices_of(kind, _registry.lookup(GROUP, kind))
    if type(index) is not int or not 0 <= index < len(found):
        listed = "; ".join(f"{each.index} {each.name}" for each in found) or "none"
        raise DeviceNotFoundError(f"there is no {kind} device {index!r}; there are: {listed}", kind=kind)
    return found[index]


def devices() -> list[Device]:
    """All devices of all installed kinds, by kind and number.

    A kind whose driver or devices are missing adds none. A plugin that is broken, or whose driver raises something of its
    own, adds none and is told of by a RuntimeWarning, so that the other kinds' devices are found.
    """
    found: list[Device] = []
    for kind in _registry.registered(GROUP):
        try:
            found.extend(probe(kind))
        except (DeviceNotFoundError, NotRegisteredError):  # the latter: it was uninstalled just now
            continue
        except DevmodError as error:
            import warnings

            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return found


def probe(kind: str) -> list[Device]:
    """The devices of one kind among others, whose driver must not take the others down.

    Raises
    ------
    DevmodError
        As for `device`; what the driver itself raises becomes a PluginError that names whose it is, with the cause chained.
    """
    find = _registry.lookup(GROUP, kind)
    try:
        return _devices_of(kind, find)
    except DevmodError:
        raise
    except (Exception, SystemExit) as error:
        claim = _registry.owner(GROUP, kind)
        who = f"{GROUP}.{kind} of {claim.who}" if claim else f"{GROUP}.{kind}, registered in this process,"
        raise PluginError(
            f"{who} failed: {said(error)}", kind=kind, key=f"{GROUP}.{kind}", distribution=claim.distribution if claim else ""
        ) from error


def _devices_of(kind: str, find: Any) -> list[Device]:
    made = _registry.called(GROUP, kind, find)
    found = list(made) if isinstance(made, (list, tuple)) else [made]
    wrong = [type(each).__name__ for each in found if not isinstance(each, Device)]
    if wrong:
        from devmod._refusals import answered_wrong

        raise answered_wrong(GROUP, kind, f"returned {wrong[0]}, not a sequence of devmod.Device", kind)
    return found
