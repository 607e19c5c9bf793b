"""Devices: the base class of each backend's own.

A backend's Device implements `allocate`, `write`, `read` and the streams. `DeviceArray` is an
array; it holds the object that `allocate` returned. The other methods have defaults; a driver that
can do better overrides them.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from math import inf
from weakref import WeakKeyDictionary

from devmod.backend import (
    LAUNCH_KEYWORDS,
    Capabilities,
    ConversionError,
    Once,
    ProcessLocal,
    array_bytes,
    describe_value,
    environment_flag,
    escape_line,
    html_table,
    parse_dtype,
)
from devmod.errors import ArgumentError, DeviceMemoryError, LaunchError, list_names
from devmod_runtime._device.device_array import DeviceArray, dtype_of
from devmod_runtime._device.host import host_view
from devmod_runtime._device.stream import current_stream
from devmod_runtime._fork import check_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    import numpy as np

    from devmod import Array, Event
    from devmod_runtime._device.host import HostView
    from devmod_runtime._device.image import Image, Sampler
    from devmod_runtime._device.stream import Stream

    Result = TypeVar("Result")
else:
    from devmod.backend import np

#: No memory has so many elements. Python may refuse to convert much larger numbers to text.
_MAX_LENGTH = 2**63


# Where to change: a device attribute
#   here: `workbench/src/devmod_workbench/_tools/devices.py` (`FIELDS`), if `devmod devices` lists
#     it
#   tests: `plugins/runtime/tests/toy/test_device.py`, `workbench/tests/test_cli.py`
class Device(ProcessLocal, ABC):
    """A device of one kind. `devmod.device` returns one; the device allocates nothing before its
    first use.

    Attributes
    ----------
    kind : str
        The backend's kind, such as "opencl".
    index : int
        The device's number among the devices of its kind.
    name, vendor, driver_version : str
        The texts that the driver reports.
    memory : int
        The device's memory in bytes; 0 if the driver's interface does not report it (WebGPU).
    limits : Mapping[str, int]
        The limits of a launch by name, as errors name them. ``view_alignment`` is the alignment in
        bytes of a view's start, if the view is an argument of a kernel.
    arch : str
        The architecture by which variants are chosen (R40), such as "sm_90"; "" if the kind has
        none.
    dlpack_type : int
        DLPack's device type.
    features : frozenset of str or None
        What the device has of what interfaces name in `devmod.Interface.needs`; None if the backend
        does not report it.
    subgroup_sizes : sequence of int
        The numbers of threads with which a kernel's subgroups can be required to run; () if the
        backend does not report them.
    is_simulated : bool
        Whether a program stands in for the device, which is not here: the choice of a bundle says
        so.
    length_unit : int
        The bytes by which a kernel sees the length of an array grow, for a kind that binds each
        buffer with its size; 0 if kernels take pointers.
    in_place_from : float
        The bytes from which on a call that waits lets kernels use a host array where it is, if it
        can; inf for a device with memory of its own, and to turn it off for a device.
    in_place_unit : int
        The bytes at whose multiples the address of such an array is.
    upload_errors : tuple of types
        The errors of the driver that a function of `uploader` raises.
    is_adopted : bool
        Whether the device is over an object of the caller (``devmod.adopt``), which it references:
        a cache that outlives the device does not.
    is_callers_queue : bool
        Whether the default stream is a queue of the caller, in whose order the caller uses memory
        of other libraries: a call with such memory does not wait for its end.
    copies_all : bool
        Whether DEVMOD_IN_PLACE=0 has all host arrays copied, whatever `in_place_from` is.
    """

    _caches: WeakKeyDictionary[object, dict[Any, Any]] | None = None
    _pickle_advice = "pass its kind and number, and call devmod.device(kind, number) there"

    kind: str
    index: int
    name: str = ""
    vendor: str = ""
    driver_version: str = ""
    memory: int = 0
    limits: Mapping[str, int] = {}
    arch: str = ""
    dlpack_type: int = 12  # kDLExtDev: a kind without a number in DLPack
    features: frozenset[str] | None = None
    subgroup_sizes: Sequence[int] = ()
    is_simulated: bool = False
    length_unit: int = 0
    in_place_from: float = inf
    in_place_unit: int = 1
    is_adopted: bool = False
    is_callers_queue: bool = False
    upload_errors: tuple[type[Exception], ...] = ()
    # A kernel that writes outside of an array in place reaches memory of the program.
    copies_all: bool = not environment_flag("DEVMOD_IN_PLACE", default=True)

    @property
    def capabilities(self) -> Capabilities:
        """What the device has of what functions require; by default its `features` and its
        `subgroup_sizes`.

        A function is not built for a device that lacks something, and a bundle skips the candidate.
        The choice of a bundle, the option ``--here`` of ``devmod inspect`` and the first use of a
        function read it, so it must not build. `devmod.backend.fits` compares it.
        """
        return Capabilities(self)

    @property
    def memory_space(self) -> Device:
        """The device that has the memory: another one for a device over one of several queues of a
        context. Devices with one memory space share arrays, and one waits for the work of all.
        """
        return self

    def cache_of(self, owner: object) -> dict[Any, Any]:
        """Return what `owner` keeps of an adopted device. It ends with the device, and with
        `owner`.
        """
        caches = self._caches
        if caches is None:
            caches = self.__dict__.setdefault("_caches", WeakKeyDictionary())
        return caches.setdefault(owner, {})

    @property
    def generation(self) -> object:
        """An object that is another one after the device lost the contents of its memory and works
        again; by default always None.

        What keeps memory from call to call, such as a program, makes it again then.
        """
        return None

    @property
    def hardware(self) -> str:
        """The architecture by which a tuning record of another device counts (R52): `arch` without
        its features; "" if the kind has none.
        """
        return self.arch.partition(":")[0]

    # -- implemented by a backend. A `memory` is what `allocate` returned, a `stream` one that the
    # device made.

    @property
    @abstractmethod
    def default_stream(self) -> Stream:
        """The stream of a launch outside of ``with stream:`` that names none; the same object each
        time.
        """

    # Where to change: an option of `Device.stream`
    #   here: `Device`, `stream`
    #   also: `stream` in `_device.py` of each backend, and in
    #     `plugins/driver-api/src/devmod_driver_api/device.py` for CUDA and ROCm
    #   tests: `tests/test_two_places.py`, `plugins/runtime/tests/toy/test_device.py`
    @abstractmethod
    def stream(self) -> Stream:
        """Return a new stream."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all streams of the device are done. Raise LaunchError for a failure that the
        device reports.
        """

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Return memory of at least `nbytes` (1 or more) bytes. The memory is freed with the
        returned object.

        Raises
        ------
        DeviceMemoryError
            The device has too little free memory. `memory_error` makes it.
        """

    @abstractmethod
    def write(self, memory: Any, data: memoryview, stream: Any) -> None:
        """Copy `data` (bytes, contiguous, not empty) to the start of `memory`, in the stream's
        order.

        The caller may change `data` as soon as this method returns. Any stream may use new memory
        then: its first copy is done.
        """

    def upload(self, data: memoryview, stream: Any) -> Any:
        """Return new memory with a copy of `data` (bytes, contiguous, may be empty), as `allocate`
        and `write` do, which is the default.
        """
        memory = self.allocate(data.nbytes or 1)
        if data.nbytes:
            self.write(memory, data, stream)
        return memory

    def uploader(self, stream: Any) -> Callable[[memoryview], Any]:
        """Return a function that does what `upload` does, for calls that are repeated: the data has
        at least one byte, and elements of any type. The default calls `upload`.

        It may raise errors of the driver, `upload_errors`: the call then asks `upload`.
        """
        return lambda data: self.upload(data.cast("B"), stream)

    def reader(self, stream: Any) -> Callable[[Any, memoryview], None]:
        """Return a function that does what `read` does with a stream, for calls that are repeated:
        the bytes may be elements of any type. The default calls `read`.
        """
        return lambda memory, out: self.read(memory, out.cast("B"), stream)

    def use_in_place(self, data: memoryview, address: int, *, written: bool) -> Any:
        """Return memory that is `data` (bytes of the host, contiguous), without a copy; None if it
        needs a copy, which is the default.

        Nothing else uses `data` until the caller has waited for the kernels and called
        `finish_in_place`.

        Parameters
        ----------
        data, address
            The bytes, and the address of the first one.
        written
            Whether kernels may write to them. Otherwise the memory may be read-only.
        """
        return None

    def finish_in_place(self, memory: Any, stream: Any) -> None:
        """Wait for the kernels in the stream, after which the host has what they wrote to memory of
        `use_in_place`.
        """

    @abstractmethod
    def read(self, memory: Any, out: memoryview, stream: Any) -> None:
        """Copy the start of `memory` to `out` (bytes, contiguous, not empty), in the stream's
        order, and wait for the copy.
        """

    def start_write(self, memory: Any, data: memoryview, stream: Any) -> None:
        """Queue the copy of `write`. The caller does not change `data` before the copy is done;
        this method keeps it alive until then.
        """
        self.write(memory, data, stream)

    def start_read(self, memory: Any, out: memoryview, stream: Any) -> None:
        """Queue the copy of `read`. `out` has the bytes when the stream, the device or a later
        event is waited for, and is kept alive.
        """
        self.read(memory, out, stream)

    def start_clear(self, memory: Any, nbytes: int, stream: Any) -> None:
        """Queue setting the first `nbytes` (1 or more) bytes of memory from `allocate` to zero, in
        the stream's order; a batch gathers it.

        The bytes up to a multiple of 4 may become zero too: behind the whole memory of an array, or
        where `slice` returns memory that no kernel takes. By default, zeros are copied.
        """
        self.start_write(memory, memoryview(bytes(nbytes)), stream)

    def copy(self, source: Any, target: Any, nbytes: int, stream: Any) -> None:
        """Queue a copy of the first `nbytes` (1 or more) bytes of `source` to the start of
        `target`, in the stream's order.

        Both are memory of this device, and they do not overlap. They must stay valid in the driver
        until the copy is done. By default the bytes pass the host.
        """
        data = memoryview(bytearray(nbytes))
        self.read(source, data, stream)
        self.write(target, data, stream)

    def slice(self, memory: Any, offset: int, nbytes: int) -> Any:
        """Return the part of `memory` with `nbytes` (1 or more) bytes from byte `offset`. The part
        keeps `memory` alive.

        The other methods of the device take it like `memory`. Kernels take it if `offset` is a
        multiple of ``limits["view_alignment"]``. `memory` is what `allocate` returned, never a
        part.

        Raises
        ------
        ArgumentError
            The backend has no parts of memory, which is the default.
        """
        raise ArgumentError(
            f"the {self.kind} backend has no views of a part of an array; copy the part through the host",
            kind=self.kind,
        )

    def clear(self, memory: Any, nbytes: int, stream: Any) -> None:
        """Set the bytes of memory that `allocate` just returned to zero, and wait: any stream may
        use it next.
        """
        self.write(memory, memoryview(bytes(nbytes)), stream)

    def view(self, memory: Any) -> memoryview | None:
        """Return a writable view of `memory` from the host, without a copy; None if host and device
        do not share memory.

        The view keeps `memory` alive.
        """
        return None

    def pointer(self, memory: Any) -> tuple[int, int] | None:
        """Return DLPack's ``data`` and ``byte_offset`` of `memory`; None if other libraries cannot
        use the device's pointers.

        For CUDA and ROCm (`dlpack_type` 2, 10 and 13) arrays then have ``__cuda_array_interface__``
        too.
        """
        return None

    def place(self, memory: Any) -> tuple[int, int]:
        """Return a number of the allocation that `memory` lies in, and its first byte there: its id
        and 0 by default.

        `memory` is what `allocate` returned, `Image.memory`, or what the launcher's `adopt` took
        from another library, whose arrays and images have objects of their own for the same bytes.
        """
        return id(memory), 0

    def address(self, memory: Any) -> int:
        """Return the address of the first byte of `memory` in the device's kernels. Work that is
        queued later may access it.

        Raises
        ------
        ConversionError
            There is none, which is the default. The text ends a sentence that begins with the
            array.
        """
        raise ConversionError(f"is on {self}, which gives arrays no addresses")

    def share(self, stream: object) -> int | None:
        """Order all work queued on the device before the use of its memory by another library. By
        default, wait for it.

        Parameters
        ----------
        stream
            The consumer's stream as in ``__dlpack__``: None, or a number that the kind defines.

        Returns
        -------
        int or None
            The stream in whose order the memory is complete, as in ``__cuda_array_interface__``;
            None if it is complete now.
        """
        self.synchronize()
        return None

    def create_image(self, image: Image) -> Any:
        """Return the backend's object for a new image, whose texels are zero. It is `Image.handle`,
        and the memory is freed with it.

        Raises
        ------
        ArgumentError
            The device has no images of this type, format or size. `check_extent` checks the size.
            By default, it has none.
        DeviceMemoryError
            The device has too little free memory.
        """
        raise self._no_images("image")

    def create_sampler(self, sampler: Sampler) -> Any:
        """Return the backend's object for a new sampler, which is `Sampler.handle`. Raise
        ArgumentError if the device has none of it.
        """
        raise self._no_images("sampler")

    def write_image(self, image: Image, data: memoryview, stream: Any) -> None:
        """Copy `data` (the bytes of a NumPy array of `Image.array_shape`) to an image, in the
        stream's order, as `write` does.
        """
        raise NotImplementedError

    def read_image(self, image: Image, out: memoryview, stream: Any) -> None:
        """Copy an image to `out` (the bytes of a NumPy array of `Image.array_shape`), in the
        stream's order, and wait for the copy.
        """
        raise NotImplementedError

    def image_problem(self, format: str, access: str) -> str:  # noqa: A002 - the name of the caller's argument
        """Return why kernels cannot access images of a format in this way, as a clause; "" if they
        can.

        Parameters
        ----------
        format
            The format by its name in `IMAGE_FORMATS`.
        access
            "r", "w" or "rw" as in `devmod.Param`; "" if the access is unknown.
        """
        return ""

    def _no_images(self, method: str) -> ArgumentError:
        return ArgumentError(
            f"{method}: the {self.kind} backend does not support images", kind=self.kind
        )

    def free_memory(self) -> int | None:
        """Return the free bytes of the device; None if the driver does not report them."""
        return None

    def closed_error(self) -> LaunchError | SystemExit:
        """Return the exception for a use of the device at interpreter shutdown, after its driver
        was closed.

        In a daemon thread it is SystemExit, which ends the thread without a traceback.
        """
        # Python has a dummy for a thread that it did not start, and such a thread is no daemon.
        thread = threading.current_thread()
        if thread.daemon and not isinstance(thread, threading._DummyThread):
            return SystemExit()
        return LaunchError(f"{self} is closed: the interpreter is shutting down", kind=self.kind)

    def memory_error(self, nbytes: int, reason: str) -> DeviceMemoryError:
        """Return the error for a failed allocation.

        Parameters
        ----------
        nbytes
            The requested bytes; 0 if they are unknown.
        reason
            The reason, such as the driver's name of the error.
        """
        free = self.free_memory()
        subject = f"{self} has too little free memory"
        if nbytes:
            subject = f"{self} cannot allocate {nbytes} bytes"
        report = ""
        if free is not None:
            report = f"; {free} bytes are free"
            if self.memory:
                report += f" of {self.memory}"
        error = DeviceMemoryError(f"{subject}: {reason}{report}", kind=self.kind)
        error.requested = nbytes
        error.free = free
        return error

    def invalid_launch(self, function: str, problem: str, argument: str = "") -> LaunchError:
        """Return the error of a launch that the device does not support.

        Parameters
        ----------
        function
            The function's name.
        problem
            The reason, as the end of a sentence.
        argument
            The argument that is the reason, such as "grid".
        """
        text = f"the {self.kind} function {function!r} cannot be launched on {self}: {problem}"
        error = LaunchError(text, kind=self.kind, function=function, argument=argument)
        error.keywords = LAUNCH_KEYWORDS
        return error

    def read_times(self, events: Sequence[Event]) -> None:
        """Wait for events and read their times together, before `Event.elapsed` is called for each.
        By default, that reads them.
        """

    # -- implemented here

    @property
    def current_stream(self) -> Stream:
        """The stream of a launch that names none: that of the innermost ``with stream:`` in this
        context, else `default_stream`.
        """
        return current_stream(self) or self.default_stream

    def empty(self, shape: int | Sequence[int], dtype: object) -> Array:
        """Return an uninitialized array.

        Parameters
        ----------
        shape
            A length, or one for each dimension.
        dtype
            A name such as "float32" or "float32x4", or a NumPy dtype.

        Raises
        ------
        ArgumentError
            `shape` or `dtype` is invalid.
        DeviceMemoryError
            The device has too little free memory.
        """
        lengths = _shape_of(shape)
        name = dtype_of(dtype)
        nbytes = array_bytes(parse_dtype(name), lengths)
        return DeviceArray(self, self.allocate(max(nbytes, 1)), lengths, name)

    def zeros(self, shape: int | Sequence[int], dtype: object) -> Array:
        """Return an array of zeros. The parameters and errors are those of `empty`."""
        array = self.empty(shape, dtype)
        assert isinstance(array, DeviceArray)
        if array.nbytes:
            self.clear(array.memory, array.nbytes, self.current_stream)
        return array

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Array:
        """Copy an array of the host to this device: a NumPy array, any object with a buffer or
        DLPack, or what ``numpy.asarray`` accepts.

        Raises
        ------
        ArgumentError
            No device supports the element type, or the memory is not the host's.
        DeviceMemoryError
            The device has too little free memory.
        """
        view = _view_to_copy(array)
        return DeviceArray(
            self, self.upload(view.read(), self.current_stream), view.shape, view.dtype
        )

    def image(self, shape: int | Sequence[int], format: str, *, layers: int = 0) -> Image:  # noqa: A002 - a public name
        """Return an image of zeros.

        Parameters
        ----------
        shape
            The width, or the width, the height and the depth, in texels: x first, like a grid. The
            image's NumPy array has the reverse.
        format
            The format of the texels by WebGPU's name, such as "rgba8unorm" or "r32float".
        layers
            The number of layers of an array of images; 0 for no array.

        Raises
        ------
        ArgumentError
            The shape or the format is invalid, or the device has no such images.
        DeviceMemoryError
            The device has too little free memory.
        """
        from devmod_runtime._device.image import new_image

        check_driver(self.kind)
        image = new_image(self, _shape_of(shape), format, layers)
        image.handle = self.create_image(image)
        return image

    def image_from_numpy(self, array: np.ndarray[Any, Any], format: str | None = None) -> Image:  # noqa: A002 - a public name
        """Copy a picture to a new 2-D image: a NumPy array of height × width, or height × width ×
        channels with 1, 2 or 4 channels.

        Parameters
        ----------
        array
            The picture. Any object with a buffer or DLPack on the host is accepted.
        format
            The format; by default that of the element type: "8unorm" for uint8, "8snorm" for int8,
            "16uint" for uint16, "16float" for float16, "32float" for float32, and so on, for "r",
            "rg" or "rgba".

        Raises
        ------
        ArgumentError
            The array is no picture, or does not have the element type and the channels of the
            format.
        DeviceMemoryError
            The device has too little free memory.
        """
        try:
            view = host_view(array)
        except ConversionError as error:
            raise ArgumentError(
                f"image_from_numpy: the array {error}", kind=self.kind, argument="array"
            ) from None
        if view is None:
            raise ArgumentError(
                f"image_from_numpy takes an array of the host, got {describe_value(array)}",
                kind=self.kind,
                argument="array",
            )
        from devmod_runtime._device.image import format_of

        name = format
        if name is None:
            name = format_of(self, view.dtype, view.shape)
        image = self.image((*view.shape[1::-1],), name)
        if view.shape != image.array_shape and view.shape == (*image.array_shape, 1):
            array = np.asarray(array).reshape(image.array_shape)
        image.copy_from(array)
        return image

    def sampler(
        self,
        *,
        filter: str = "nearest",  # noqa: A002 - a public name
        address: str = "clamp",
        normalized: bool = True,
    ) -> Sampler:
        """Return a sampler.

        Parameters
        ----------
        filter
            "nearest" returns the nearest texel, "linear" the weighted mean of those around the
            place.
        address
            What is read outside of the image: "clamp" the texel at the edge, "repeat" the image
            again, "mirror" the image reversed, "border" zero.
        normalized
            Whether coordinates are from 0 to 1; otherwise they are in texels, and `address` is
            "clamp" or "border".

        Raises
        ------
        ArgumentError
            An option is unknown, or the device does not support it.
        """
        from devmod.backend import ADDRESS_MODES, FILTERS
        from devmod_runtime._device.image import Sampler

        check_driver(self.kind)
        for name, value, known in (
            ("filter", filter, FILTERS),
            ("address", address, ADDRESS_MODES),
        ):
            # Not `in` alone: the comparison of an array has no single truth value.
            if not isinstance(value, str) or value not in known:
                problem = (
                    f"sampler: {name} is {describe_value(value)}; expected {list_names(known)}"
                )
                raise ArgumentError(problem, kind=self.kind, argument=name)
        if not isinstance(normalized, bool):
            problem = f"sampler: normalized is {describe_value(normalized)}; expected True or False"
            raise ArgumentError(problem, kind=self.kind, argument="normalized")
        if not normalized and address in ("repeat", "mirror"):  # no driver has them
            raise ArgumentError(
                f"sampler: address is {address!r}; with normalized=False, expected 'clamp' or 'border'",
                kind=self.kind,
                argument="address",
            )
        sampler = Sampler(self, filter, address, normalized)
        sampler.handle = self.create_sampler(sampler)
        return sampler

    def __repr__(self) -> str:
        return escape_line(f"{self.kind} device {self.index} ({self.name})")

    def _repr_html_(self) -> str:
        rows = [
            ("name", self.name),
            ("vendor", self.vendor),
            ("driver", self.driver_version),
            ("architecture", self.arch),
        ]
        if self.memory:
            rows.append(("memory", f"{self.memory:,} bytes"))
        return html_table(f"{self.kind} device {self.index}", [row for row in rows if row[1]])


class DeviceCache:
    """Values by device or by another key, each made once for all threads (`Once`). Those of an
    adopted device end with it.
    """

    __slots__ = ("__weakref__", "_once")

    def __init__(self) -> None:
        self._once = Once()

    def get(self, key: Any, make: Callable[[], Result]) -> Result:
        """Return the value of a key. If there is none, call ``make()``."""
        once = self._once
        if getattr(key, "is_adopted", False):
            once = key.cache_of(self).setdefault("once", Once())
        return once.get(key, make)


def _view_to_copy(array: object) -> HostView:
    """Return the view of an array that `Device.from_numpy` copies. Raise ArgumentError if it cannot
    be copied.
    """
    try:
        view = host_view(array)
        if view is None:
            view = host_view(np.asarray(array))
    except ConversionError as error:
        raise ArgumentError(f"from_numpy: the array {error}", argument="array") from None
    except (TypeError, ValueError) as error:  # NumPy's errors for an object that is no array
        raise ArgumentError(
            f"from_numpy takes an array of numbers: {error}", argument="array"
        ) from None
    assert view is not None
    return view


def _shape_of(value: object) -> tuple[int, ...]:
    """Return a shape given as a length or a sequence of lengths.

    Raises
    ------
    ArgumentError
        `value` is not a shape.
    """
    lengths: Sequence[Any] = (value,)
    if isinstance(value, (tuple, list)):
        lengths = value
    shape = []
    for length in lengths:
        try:
            number = length.__index__()
        except (AttributeError, TypeError):
            number = -1
        if number < 0:
            raise ArgumentError(
                f"{value!r} is not a shape; a shape is a length, or a tuple of lengths, from 0 up",
                argument="shape",
            )
        if number >= _MAX_LENGTH:
            raise ArgumentError(
                f"a length of a shape is {describe_value(number)}; expected less than 2**63",
                argument="shape",
            )
        shape.append(number)
    return tuple(shape)
