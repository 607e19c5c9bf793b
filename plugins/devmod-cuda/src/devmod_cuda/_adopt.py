"""Arrays and streams of other libraries as devmod's, without a copy: PyTorch, CuPy, JAX, Numba, pycuda, cuda.core.

An array comes with the stream in which its library queues its work, so that a launch in that stream needs no wait. PyTorch and CuPy have a
current stream; ``__cuda_array_interface__`` names one. Other libraries order their work before devmod's stream by DLPack, and the call
waits.
"""

from __future__ import annotations

import sys

import numpy as np

from devmod import Stream
from devmod.backend import ConversionError, DeviceArray, array_bytes, dtype_name, dtype_name_of, parse_dtype
from devmod.errors import ArgumentError, FormatError
from devmod_cuda._device import devices
from devmod_cuda._dlpack import CUDA_TYPES, DeviceTensor, export, is_contiguous
from devmod_cuda._interface import LEGACY_STREAM, DriverError
from devmod_cuda._memory import Memory
from devmod_cuda._stream import CudaStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_cuda._device import CudaDevice

    Adopted = tuple[DeviceArray, Stream | None]

#: CUpointer_attribute: CONTEXT, MEMORY_TYPE and DEVICE_ORDINAL.
_ATTRIBUTES = (1, 2, 9)
#: CU_MEMORYTYPE_HOST and CU_MEMORYTYPE_DEVICE.
_HOST, _DEVICE = 1, 2
#: The handles of the default streams: legacy by two names, and that of each thread (CU_STREAM_PER_THREAD).
_LEGACY_HANDLES, _PER_THREAD = (0, LEGACY_STREAM), 2


def adopt_array(value: Any) -> Adopted | None:
    """Return a devmod array over the memory of another library's array, and the stream of its work; None for other objects.

    Raises
    ------
    ConversionError
        The array cannot be used; the text ends a sentence that begins with the argument.
    """
    library = type(value).__module__.partition(".")[0]
    if library == "pycuda" and type(value).__name__ in _ALLOCATIONS:
        return _adopt_allocation(value)
    if library == "cuda" and type(value).__name__ == "Buffer" and hasattr(value, "handle"):
        return _adopt_untyped(value, int(value.handle), value.size), None
    if library != "torch":
        interface = getattr(value, "__cuda_array_interface__", None)
        if isinstance(interface, dict) and (interface.get("stream") is not None or library == "pycuda" or not _has_dlpack(value)):
            return _adopt_interface(value, interface)
    return _adopt_tensor(value, library) if _has_dlpack(value) else None


def adopt_stream(value: Any) -> CudaStream | None:
    """Return the stream over another library's stream, always the same object for the same stream; None for other objects.

    Raises
    ------
    ArgumentError
        The stream belongs to a context that is not a device's primary one.
    """
    handle = _stream_handle(value)
    if handle is None:
        return None
    return stream_over(handle, value, _device_of_stream(value, handle))


def stream_over(handle: int, owner: object, device: CudaDevice) -> CudaStream:
    """Return the stream of `device` over a driver's handle. `owner` keeps the handle valid."""
    if handle in _LEGACY_HANDLES:
        return device.default_stream
    return device.foreign_stream(handle, owner)


# -- arrays


#: pycuda's objects for untyped memory.
_ALLOCATIONS = ("DeviceAllocation", "PooledDeviceAllocation", "ManagedAllocation")


def _has_dlpack(value: Any) -> bool:
    find = getattr(type(value), "__dlpack_device__", None)
    return find is not None and hasattr(type(value), "__dlpack__") and int(value.__dlpack_device__()[0]) in CUDA_TYPES


def _adopt_tensor(value: Any, library: str) -> Adopted:
    """Adopt an array by DLPack."""
    device = _device(int(value.__dlpack_device__()[1]))
    stream = _current_stream(library, device)
    # A known stream needs no order here: the launch runs in it, or core orders the streams.
    order = device.current_stream if stream is None else None
    assert order is None or isinstance(order, CudaStream)
    capsule = export(value, -1 if order is None else order.handle)
    tensor = DeviceTensor(capsule)
    if not tensor.contiguous:
        raise _strided(value)
    array = _array(device, tensor.address, tensor.shape, dtype_name(tensor.dtype), (value, capsule), read_only=tensor.read_only)
    return array, stream


def _adopt_interface(value: Any, interface: dict[str, Any]) -> Adopted:
    """Adopt an array by ``__cuda_array_interface__``."""
    version = interface.get("version", 0)
    if version < 2:
        raise ConversionError(f"has a __cuda_array_interface__ of version {version}, expected 2 or 3")
    if interface.get("mask") is not None:
        raise ConversionError("has a mask, which kernels do not take")
    shape, (address, read_only) = tuple(interface["shape"]), interface["data"]
    dtype = np.dtype(interface["typestr"])
    try:
        name = dtype_name_of(dtype)
    except FormatError as error:
        raise ConversionError(f"has elements of a type that devices do not support: {error}") from None
    strides = interface.get("strides")
    if strides is not None and not is_contiguous(shape, tuple(strides), dtype.itemsize):
        raise _strided(value)
    array = _array(None, int(address or 0), shape, name, value, read_only=bool(read_only))
    assert array.device.kind == "cuda"
    handle = interface.get("stream")
    if handle is None and type(value).__module__.partition(".")[0] == "pycuda":
        handle = LEGACY_STREAM  # pycuda's arrays use the default stream, unless each call names another one
    return array, stream_over(int(handle), value, array.device) if handle is not None else None  # type: ignore[arg-type]


def _adopt_allocation(value: Any) -> Adopted:
    """Adopt untyped memory of pycuda."""
    address = int(value)
    device = _check_pointer(address, None)
    if hasattr(value, "__len__"):
        nbytes = len(value)
    else:
        with device.context:
            start, size = device.driver.memory_range(address)
        nbytes = start + size - address
    return _adopt_untyped(value, address, nbytes), device.default_stream


def _adopt_untyped(value: object, address: int, nbytes: int) -> DeviceArray:
    return _array(None, address, (nbytes,), "void", value)


def _array(
    device: CudaDevice | None, address: int, shape: tuple[int, ...], dtype: str, owner: object, *, read_only: bool = False
) -> DeviceArray:
    """Return the array over checked memory."""
    if array_bytes(parse_dtype(dtype), shape) == 0:
        device = device or devices()[0]
        return DeviceArray(device, device.allocate(1), shape, dtype, owner, read_only=read_only)
    device = _check_pointer(address, device)
    return DeviceArray(device, Memory(address, owner), shape, dtype, owner, read_only=read_only)


def _check_pointer(address: int, expected: CudaDevice | None) -> CudaDevice:
    """Return the device whose kernels may use an address.

    Raises
    ------
    ConversionError
        The address is unknown to the driver, or it belongs to another context.
    """
    try:
        context, kind, ordinal = devices()[0].driver.pointer_attributes(address, _ATTRIBUTES)
    except DriverError as error:
        raise ConversionError(f"has an address that the driver refuses: {error}") from None
    if kind not in (_HOST, _DEVICE):
        raise ConversionError(f"is at {address:#x}, which is no address of CUDA's memory: its library may have freed it")
    # Page-locked memory of the host, and memory of no context (managed, from a pool), is for every device.
    device = expected if expected is not None and kind == _HOST else _device(ordinal)
    if context and kind == _DEVICE and context != device.context.handle:
        raise ConversionError(
            f"belongs to another CUDA context of {device}, and devmod uses the primary one, as PyTorch and CuPy do; make it in the primary "
            "context (pycuda: import pycuda.autoprimaryctx in place of pycuda.autoinit)"
        )
    return device


def _device(ordinal: int) -> CudaDevice:
    items = devices()
    if not 0 <= ordinal < len(items):
        raise ConversionError(f"is on CUDA device {ordinal}, and this process has {len(items)}")
    return items[ordinal]


def _strided(value: object) -> ConversionError:
    library, name = type(value).__module__.partition(".")[0], type(value).__name__
    advice = {"torch": "pass tensor.contiguous()", "cupy": "pass cupy.ascontiguousarray(array)"}.get(library, "pass array.copy()")
    return ConversionError(f"is a strided {library} {name}; {advice}")


# -- streams


def _current_stream(library: str, device: CudaDevice) -> CudaStream | None:
    """Return the stream in which a library queues its work now; None if it has no current stream."""
    if library == "torch":
        stream = sys.modules["torch"].cuda.current_stream(device.index)
        return stream_over(stream.cuda_stream, stream, device)
    if library == "cupy":
        stream = sys.modules["cupy"].cuda.get_current_stream(device.index)
        return stream_over(stream.ptr, stream, device)
    return None


def _stream_handle(value: Any) -> int | None:
    """Return the driver's handle of another library's stream; None for other objects."""
    protocol = getattr(type(value), "__cuda_stream__", None)
    if protocol is not None:
        _, handle = value.__cuda_stream__()
        return int(handle)
    library = type(value).__module__.partition(".")[0]
    attribute = {"torch": "cuda_stream", "cupy": "ptr", "pycuda": "handle"}.get(library)
    handle = getattr(value, attribute, None) if attribute is not None and "Stream" in type(value).__name__ else None
    return int(handle) if handle is not None else None


def _device_of_stream(value: Any, handle: int) -> CudaDevice:
    """Return the device of another library's stream."""
    items = devices()
    if handle in _LEGACY_HANDLES or handle == _PER_THREAD:
        # These handles mean a stream of each device: that of the object, else of the thread's current context.
        index = getattr(value, "device_index", getattr(value, "device_id", None))
        if isinstance(index, int) and 0 <= index < len(items):
            return items[index]
        current = items[0].driver.current_context()
        return next((each for each in items if current and each.is_open and each.context.handle == current), items[0])
    driver = items[0].driver
    try:
        context = driver.stream_context(handle)
        device = items[driver.context_device(context)]
    except DriverError as error:
        raise ArgumentError(f"stream= is a stream that the driver refuses: {error}", kind="cuda", argument="stream") from error
    if device.context.handle == context:
        return device
    raise ArgumentError(
        "stream= is a stream of a CUDA context that is not a device's primary one, and devmod uses the primary contexts, as PyTorch and "
        "CuPy do (pycuda: import pycuda.autoprimaryctx in place of pycuda.autoinit)",
        kind="cuda",
        argument="stream",
    )
