"""Arrays of other libraries as arguments, without a copy, and devmod's arrays in other libraries."""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from typing import Any

import numpy as np
import pytest
from cuda_kernels import adder
from foreign_context import foreign_context
from standin_cuda import Standin

import devmod
from devmod_cuda._adopt import adopt_array

STRIDES = {"shape": (8, 8), "typestr": "<f4", "strides": (4, 32)}


@pytest.fixture
def add(device: Any) -> Any:
    return adder()["add"]


@pytest.fixture
def b(device: Any) -> Any:
    return device.from_numpy(np.ones(64, "float32"))


@pytest.fixture
def c(device: Any) -> Any:
    return device.zeros(64, "float32")


class Tensor:
    """An array of a library with DLPack. It is a view of one of devmod's."""

    kind = 2

    def __init__(self, array: Any) -> None:
        self.array = array
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.array.device.index

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


class OldTensor(Tensor):
    """An array of a library that is older than DLPack 1."""

    def __dlpack__(self, *, stream: Any = None) -> object:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


class ManagedTensor(Tensor):
    """An array in managed memory."""

    kind = 13


class Described:
    """An array with __cuda_array_interface__."""

    __module__ = "numba.cuda"

    def __init__(self, array: Any, **values: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **values}


def of_library(kind: type, module: str, array: Any, **values: Any) -> Any:
    """Return an array of a class that another library could have."""
    return type("ndarray", (kind,), {"__module__": module})(array, **values)


@pytest.mark.parametrize("kind", [Tensor, OldTensor, ManagedTensor, Described])
def test_an_array_of_another_library(device: Any, add: Any, b: Any, c: Any, kind: Any, standin: Standin) -> None:
    root = device.from_numpy(np.arange(72, dtype="float32"))
    view = kind(root[8:])
    copies = standin.calls("cuMemcpyHtoDAsync") + standin.calls("cuMemcpyDtoHAsync")
    add(view, b, c, 64, grid=1, block=64)
    launch = add.bind(kind(root[:64]), b, kind(c), 64, grid=1, block=64)
    assert standin.calls("cuMemcpyHtoDAsync") + standin.calls("cuMemcpyDtoHAsync") == copies
    np.testing.assert_array_equal(c.numpy(), np.arange(8, 72) + 1)
    del root, view
    gc.collect()
    launch()
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)


def test_the_array_of_a_capsule_lives_as_long_as_the_launch(device: Any, add: Any, b: Any, c: Any) -> None:
    gc.collect()
    add.bind(Tensor(b), b, c, 64, grid=1, block=64)  # an export frees the capsules of earlier tests
    gc.collect()
    count = len(device.context.memory)
    launch = add.bind(Tensor(device.zeros(64, "float32")), b, c, 64, grid=1, block=64)
    gc.collect()
    assert len(device.context.memory) == count + 1
    launch()
    assert c.numpy().tolist() == [1] * 64
    del launch
    gc.collect()
    device.zeros(1, "uint8").__dlpack__()
    gc.collect()
    assert len(device.context.memory) <= count + 1


def test_a_library_without_a_current_stream_orders_its_work_and_the_call_waits(
    device: Any, add: Any, b: Any, c: Any, standin: Standin
) -> None:
    tensor = Tensor(device.zeros(64, "float32"))
    waits = standin.calls("cuStreamSynchronize")
    add(tensor, b, c, 64, grid=1, block=64)
    assert standin.calls("cuStreamSynchronize") == waits + 1
    with device.stream() as stream:
        add(tensor, b, c, 64, grid=1, block=64)
        add(tensor, b, c, 64, grid=1, block=64, stream=stream)
    assert standin.calls("cuStreamSynchronize") == waits + 2  # with stream= the caller orders the work
    assert tensor.streams == [1, stream.handle, stream.handle]


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("is_default", [True, False])
def test_the_current_stream_of_another_library(
    device: Any, add: Any, b: Any, c: Any, library: str, is_default: bool, standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = device.stream()
    handle = 0 if is_default else own.handle
    name = {"torch": "cuda_stream", "cupy": "ptr"}[library]
    cuda = types.SimpleNamespace(
        current_stream=lambda index: types.SimpleNamespace(**{name: handle}),
        get_current_stream=lambda index: types.SimpleNamespace(**{name: handle}),
    )
    monkeypatch.setitem(sys.modules, library, types.SimpleNamespace(cuda=cuda))
    tensor = of_library(Tensor, library, device.zeros(64, "float32"))
    waits = standin.calls("cuStreamSynchronize")
    add(tensor, b, c, 64, grid=1, block=64)
    assert standin.calls("cuStreamSynchronize") == waits
    assert tensor.streams == [-1]
    adopted = adopt_array(tensor)
    assert adopted is not None
    assert adopted[1] is device.default_stream if is_default else adopted[1].handle == own.handle
    with device.stream() as other:
        add(tensor, b, c, 64, grid=1, block=64)  # core orders the library's stream before `other`, and waits
    assert standin.calls("cuStreamSynchronize") == waits + 1
    del other
    assert c.numpy().tolist() == [1] * 64


def test_the_stream_of_an_array_interface(device: Any, add: Any, b: Any, c: Any, standin: Standin) -> None:
    own = device.stream()
    a = device.from_numpy(np.arange(64, dtype="float32"))
    waits = standin.calls("cuStreamSynchronize")
    for stream in (own.handle, 1):
        add(Described(a, stream=stream), b, c, 64, grid=1, block=64)
    assert standin.calls("cuStreamSynchronize") == waits
    add(Described(a, stream=None), b, c, 64, grid=1, block=64)
    assert standin.calls("cuStreamSynchronize") == waits + 1
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)


def test_untyped_memory_and_empty_arrays(device: Any, add: Any, b: Any, c: Any) -> None:
    root = device.from_numpy(np.arange(64, dtype="float32"))

    class Buffer:
        __module__ = "cuda.core._memory"
        handle, size = int(root.memory), root.nbytes

    add(Buffer(), b, c, 64, grid=1, block=64)
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)
    empty = device.empty((0, 4), "float32")
    for kind in (Tensor, Described):
        add(kind(empty), kind(empty), kind(empty), 0, grid=1, block=64)


def test_page_locked_and_managed_memory(device: Any, add: Any, b: Any, c: Any) -> None:
    driver, pointer = device.driver, ctypes.c_uint64()
    with device.context:
        host = driver.allocate_host(256)
        driver.check("cuMemAllocManaged", ctypes.byref(pointer), ctypes.c_size_t(256), ctypes.c_uint(1))
        driver.fill(pointer.value, 0, 256, 1)
        ctypes.memset(host, 0, 256)
        driver.synchronize_stream(1)
    for address in (host, pointer.value):
        array = Described(c, data=(address, False))
        add(array, b, c, 64, grid=1, block=64)
        assert c.numpy().tolist() == [1] * 64
    with device.context:
        driver.free_host(host)
        driver.free(pointer.value)


def test_read_only_arrays(device: Any, add: Any, b: Any, c: Any) -> None:
    a = device.zeros(64, "float32")
    add(Described(a, data=(int(a.memory), True)), b, c, 64, grid=1, block=64)
    with pytest.raises(devmod.ArgumentError) as caught:
        add(a, b, Described(a, data=(int(a.memory), True)), 64, grid=1, block=64)
    assert str(caught.value).startswith("the cuda function 'add': argument 3 'c' is a Described that is read-only")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda a: of_library(Described, "cupy", a, **STRIDES), "is a strided cupy ndarray; pass cupy.ascontiguousarray(array)"),
        (lambda a: Described(a, **STRIDES), "is a strided numba Described; pass array.copy()"),
        (lambda a: Described(a, version=1), "has a __cuda_array_interface__ of version 1, expected 2 or 3"),
        (lambda a: Described(a, mask=a), "has a mask, which kernels do not take"),
        (
            lambda a: Described(a, data=(4096, False)),
            "is at 0x1000, which is no address of CUDA's memory: its library may have freed it",
        ),
    ],
    ids=["cupy", "strided", "version", "mask", "address"],
)
def test_an_array_that_is_refused(device: Any, add: Any, b: Any, c: Any, make: Any, text: str) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        add(make(device.zeros(64, "float32")), b, c, 64, grid=1, block=64)
    assert str(caught.value) == f"the cuda function 'add': argument 1 'a' {text}"


def test_elements_that_no_device_supports(device: Any, add: Any, b: Any, c: Any) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        add(Described(device.zeros(64, "float32"), typestr=">f4"), b, c, 64, grid=1, block=64)
    assert str(caught.value).startswith("the cuda function 'add': argument 1 'a' has elements of a type that devices do not support: ")


def test_a_tensor_that_its_library_does_not_export(device: Any, add: Any, b: Any, c: Any) -> None:
    class Gradient(Tensor):
        def __dlpack__(self, **_: Any) -> object:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    with pytest.raises(devmod.ArgumentError) as caught:
        add(Gradient(device.zeros(64, "float32")), b, c, 64, grid=1, block=64)
    assert str(caught.value) == (
        "the cuda function 'add': argument 1 'a' is not exported by its library: Can't export tensors that require gradient, use "
        "tensor.detach()"
    )


def test_an_array_of_another_context(device: Any, add: Any, b: Any, c: Any) -> None:
    with foreign_context(device):
        pointer = device.driver.allocate(256)
        with pytest.raises(devmod.ArgumentError) as caught:
            add(Described(c, data=(pointer, False)), b, c, 64, grid=1, block=64)
    assert str(caught.value) == (
        f"the cuda function 'add': argument 1 'a' belongs to another CUDA context of {device}, and devmod uses the primary one, as PyTorch "
        "and CuPy do; make it in the primary context (pycuda: import pycuda.autoprimaryctx in place of pycuda.autoinit)"
    )


# -- pycuda


@pytest.fixture
def pycuda_context(cuda_driver: str, device: Any) -> Any:
    """pycuda with the primary context."""
    if cuda_driver != "pycuda":
        pytest.skip("arrays of pycuda come with pycuda")
    import pycuda.driver

    context = pycuda.driver.Device(0).retain_primary_context()
    context.push()
    yield context
    gc.collect()
    context.pop()


def test_arrays_and_memory_of_pycuda(pycuda_context: Any, device: Any, add: Any, b: Any, c: Any, standin: Standin) -> None:
    import pycuda.driver
    import pycuda.tools
    from pycuda import gpuarray

    host = np.arange(64, dtype="float32")
    array, memory = gpuarray.to_gpu(host), pycuda.driver.mem_alloc(256)
    pooled = pycuda.tools.DeviceMemoryPool().allocate(256)
    pycuda.driver.memcpy_htod(memory, host)
    pycuda.driver.memcpy_htod(int(pooled), host)
    waits = standin.calls("cuStreamSynchronize")
    for value in (array, memory, pooled):
        c.copy_from(b, wait=False)
        add(value, b, c, 64, grid=1, block=64)
        add(c, b, c, 64, grid=1, block=64)
        assert standin.calls("cuStreamSynchronize") == waits
        np.testing.assert_array_equal(c.numpy(), host + 2)
        waits = standin.calls("cuStreamSynchronize")
    with pytest.raises(devmod.ArgumentError) as caught:
        add(array.reshape(8, 8).T, b, c, 64, grid=1, block=64)
    assert str(caught.value) == "the cuda function 'add': argument 1 'a' is a strided pycuda GPUArray; pass array.copy()"
    del array, memory, pooled, value


def test_pycuda_takes_devmods_arrays(pycuda_context: Any, device: Any, b: Any) -> None:
    import pycuda.driver
    from pycuda import gpuarray

    back = np.zeros(64, "float32")
    array = gpuarray.GPUArray(b.shape, np.float32, base=b, gpudata=b.__cuda_array_interface__["data"][0])
    pycuda.driver.memcpy_dtoh(back, array.gpudata)
    assert back.tolist() == [1] * 64


# -- devmod's arrays in other libraries


def test_an_export_orders_the_work_of_all_streams(device: Any, add: Any, b: Any, c: Any, standin: Standin) -> None:
    own, other = device.stream(), device.stream()
    add(b, b, c, 64, grid=1, block=64, stream=own)
    waits = standin.calls("cuStreamSynchronize") + standin.calls("cuCtxSynchronize")
    for stream, expected in ((None, 1), (1, 1), (2, 2), (other.handle, other.handle)):
        ordered = standin.calls("cuStreamWaitEvent")
        c.__dlpack__(stream=stream)
        assert standin.calls("cuStreamWaitEvent") > ordered
        assert device.share(stream) == expected
    ordered = standin.calls("cuStreamWaitEvent")
    c.__dlpack__(stream=-1)
    assert device.share(-1) is None
    assert standin.calls("cuStreamWaitEvent") == ordered
    interface = c.__cuda_array_interface__
    assert (interface["stream"], interface["version"], interface["data"]) == (1, 3, (int(c.memory), False))
    assert standin.calls("cuStreamSynchronize") + standin.calls("cuCtxSynchronize") == waits
    # The consumer's copy in its stream is after the launch.
    back = np.zeros(64, "float32")
    with device.context:
        device.driver.copy_to_host(back.ctypes.data, interface["data"][0], 256, interface["stream"])
        device.driver.synchronize_stream(interface["stream"])
    assert back.tolist() == [2] * 64


@pytest.mark.parametrize("stream", [0, -2, "1", 1.0, True])
def test_a_stream_that_dlpack_does_not_have(device: Any, c: Any, stream: Any) -> None:
    with pytest.raises(BufferError) as caught:
        c.__dlpack__(stream=stream)
    assert str(caught.value) == (
        f"stream={stream!r} is no stream of CUDA in DLPack: expected None, 1 (the legacy default stream), 2 (the thread's default stream), "
        "the handle of a stream, or -1 for no order"
    )


def test_dlpack_of_a_device_array(device: Any, c: Any) -> None:
    assert c.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(np.from_dlpack(_OnHost(c)), np.zeros(64))


class _OnHost:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> object:
        return self._array.__dlpack__(**{**options, "dl_device": (1, 0)})
