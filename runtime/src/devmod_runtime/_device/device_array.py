"""Arrays in a device's memory."""

from __future__ import annotations

from sys import intern

from devmod import Array
from devmod._arrays.elements import bytes_of, count_of, packing_problem, scalar_shape, unpack
from devmod._values.param import numpy_dtype
from devmod.backend import STRUCT_FORMATS, array_bytes, parse_dtype
from devmod_runtime._device.copies import copy, copy_to_numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    import numpy as np

    from devmod_runtime._device.device import Device
    from devmod_runtime._device.stream import Event, Stream
else:
    from devmod._util.numpy import np

#: DLPack's kDLCPU, and its number.
_CPU = (1, 0)
#: DLPack's kDLCUDA, kDLROCM and kDLCUDAManaged.
_CUDA_TYPES = (2, 10, 13)


class DeviceArray(Array):
    """A C-contiguous array in a device's memory, or a view of one. `Device.empty`, `Device.zeros` and `Device.from_numpy` return one.

    Attributes
    ----------
    device : Device
        The device that has the memory.
    memory
        The backend's object for the memory, as kernels take it; the memory is freed with it. A view whose start is not a multiple of the
        device's ``limits["view_alignment"]`` has none: it can be copied, and is no argument of a kernel.
    region
        The backend's object for the memory, as copies take it.
    owner
        The object of another library that owns the memory, or None. The array keeps it alive.
    read_only : bool
        Whether kernels and copies must not write to the memory.
    """

    __slots__ = ("_nbytes", "_offset", "_root", "device", "memory", "owner", "read_only", "region")

    def __init__(
        self, device: Device, memory: object, shape: Sequence[int], dtype: str, owner: object = None, *, read_only: bool = False
    ) -> None:
        # Interned, so that a call compares types by identity.
        self.shape, self.dtype = tuple(shape), intern(dtype)
        self.device, self.memory, self.owner, self.read_only = device, memory, owner, read_only
        self.region = memory
        self._nbytes = array_bytes(parse_dtype(dtype), self.shape)
        #: The array that this is a view of, and the first byte in its memory. None for an array with memory of its own.
        self._root: DeviceArray | None = None
        self._offset = 0

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def _base(self) -> DeviceArray:
        return self if self._root is None else self._root

    def _view(self, offset: int, shape: tuple[int, ...]) -> DeviceArray:
        root, device = self._base, self.device
        nbytes = array_bytes(parse_dtype(self.dtype), shape)
        if nbytes == self._nbytes:
            region = self.region
        elif nbytes:
            # Always a part of the root's memory: OpenCL has no part of a part.
            region = device.slice(root.memory, self._offset + offset, nbytes)
        else:
            offset, region = -self._offset, device.allocate(1)
        view = DeviceArray(device, region, shape, self.dtype, self.owner, read_only=self.read_only)
        view._root, view._offset = root, self._offset + offset
        if view.misaligned:
            del view.memory  # `Function.__call__` reads it, and leaves the error to `Call`
        return view

    @property
    def misaligned(self) -> str:
        """Return the reason why the array cannot be an argument of a kernel, as the end of a sentence; "" if it can."""
        if not self._offset:
            return ""
        alignment = self.device.limits.get("view_alignment", 1)
        if self._offset % alignment == 0:
            return ""
        return (
            f"is a view that begins {self._offset} bytes into its memory, and {self.device} takes arguments that begin at a multiple of "
            f"{alignment} bytes (view_alignment); copy it: array = device.empty(view.shape, view.dtype); array.copy_from(view)"
        )

    def overlaps(self, other: DeviceArray) -> bool:
        """Return whether two arrays share bytes."""
        if self._base.memory is not other._base.memory:
            return False
        return self._offset < other._offset + other._nbytes and other._offset < self._offset + self._nbytes

    def numpy(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return a copy of the elements, as `Array.numpy`, after all work queued on the device. Packed elements are unpacked."""
        if out is not None:
            return copy_to_numpy(self, out)
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        dtype = numpy_dtype(base)
        if packing_problem(self.dtype):
            packed = bytearray(self._nbytes)
            self.read(memoryview(packed))
            return unpack(memoryview(packed), parse_dtype(base)[1], count_of(shape)).view(dtype).reshape(shape)
        result = np.empty(shape, dtype)
        self.read(bytes_of(result))
        return result

    def read(self, out: memoryview) -> None:
        """Wait for all work queued on the device, and copy the bytes to `out`."""
        self.device.synchronize()
        if out.nbytes:
            self.device.read(self.region, out, self.device.default_stream)

    def copy_from(self, source: object, stream: Stream | None = None, wait: bool = True) -> Event | None:
        return copy(source, self, "copy_from", stream, wait)

    def copy_to(self, target: object, stream: Stream | None = None, wait: bool = True) -> Event | None:
        return copy(self, target, "copy_to", stream, wait)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Raise TypeError. Without this method NumPy would make an array with this object as its element."""
        raise TypeError(f"this array is in the memory of {self.device}, and NumPy does not copy it to the host; call .numpy()")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array for libraries that share memory of CUDA or ROCm, such as CuPy and Numba. Other arrays have no such attribute."""
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        pointer = self.device.pointer(self.region) if self.device.dlpack_type in _CUDA_TYPES and base in STRUCT_FORMATS else None
        if pointer is None:
            raise AttributeError(f"an array of {self.dtype} on {self.device} has no __cuda_array_interface__")
        stream = self.device.share(None)
        address = sum(pointer) if self._nbytes else 0
        data = (address, self.read_only)
        return {"shape": shape, "typestr": numpy_dtype(base).str, "data": data, "strides": None, "stream": stream, "version": 3}

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a DLPack capsule.

        The capsule is in the device's memory if other libraries can use its pointers (`Device.pointer`). For a consumer that requests
        the host's memory with ``dl_device=(1, 0)`` it shares the array's memory if host and device do (`Device.view`) and no copy is
        requested; otherwise it has a copy. The call waits for all work queued on the device, or orders it before the consumer's `stream`
        if the driver can (`Device.share`).
        """
        from devmod._arrays.dlpack import READ_ONLY, capsule, check_elements, host_capsule

        own_device = self.__dlpack_device__()
        target_device = own_device if dl_device is None else tuple(dl_device)
        dtype = parse_dtype(self.dtype)
        if target_device == _CPU:
            view = None if copy else self.device.view(self.region)
            if view is not None:
                self.device.synchronize()
                view = view[: self._nbytes]
                return host_capsule(view.toreadonly() if self.read_only else view, self.shape, dtype, max_version, _CPU, copy)
            if copy is not False:
                data = bytearray(self._nbytes)
                self.read(memoryview(data))
                return host_capsule(memoryview(data).toreadonly(), self.shape, dtype, max_version, _CPU, None)
        pointer = self.device.pointer(self.region) if target_device == own_device and not copy else None
        if pointer is None:
            raise BufferError(
                f"this array is in the memory of {self.device}, which DLPack consumers cannot use; request a copy on the host "
                "(dl_device=(1, 0), as numpy.from_dlpack(array, device='cpu') does), or call .numpy()"
            )
        self.device.share(stream)
        check_elements(dtype)
        versioned = max_version is not None and max_version[0] >= 1
        if self.read_only and not versioned:
            raise BufferError("this array is read-only, which DLPack before version 1 cannot express: pass max_version=(1, 0)")
        return capsule(self, own_device, *pointer, self.shape, dtype, READ_ONLY if self.read_only else 0, versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.dlpack_type, self.device.index)

    def __repr__(self) -> str:
        return f"<Array {self.dtype}{list(self.shape)} on {self.device}>"
