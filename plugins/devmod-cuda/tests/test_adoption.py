"""Arrays of libraries for CUDA alone: `__cuda_array_interface__`, pycuda, memory of other contexts.
plugins/driver-api/tests has DLPack.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
from each_case import check_texts, refusal
from foreign_arrays import Tensor, check_foreign_array, collect_exports, of_library
from foreign_context import foreign_context
from standin_cuda import CUDA, Standin

import devmod

STRIDES = {"shape": (8, 8), "typestr": "<f4", "strides": (4, 32)}


@pytest.fixture
def b(device: Any) -> Any:
    return device.from_numpy(np.ones(64, "float32"))


@pytest.fixture
def c(device: Any) -> Any:
    return device.zeros(64, "float32")


class ManagedTensor(Tensor):
    """An array in managed memory."""

    def __init__(self, array: Any) -> None:
        super().__init__(array, kind=13)


class Described:
    """An array with __cuda_array_interface__."""

    __module__ = "numba.cuda"

    def __init__(self, array: Any, **values: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **values}


@pytest.mark.each_driver
@pytest.mark.parametrize("kind", [ManagedTensor, Described])
def test_an_array_of_another_library(device: Any, add: Any, kind: Any, standin: Standin) -> None:
    check_foreign_array(CUDA, device, add, kind)


def test_the_stream_of_an_array_interface(
    device: Any, add: Any, b: Any, c: Any, standin: Standin
) -> None:
    own = device.stream()
    a = device.from_numpy(np.arange(64, dtype="float32"))
    _kept = collect_exports(device)
    waits = standin.calls("cuStreamSynchronize")
    for stream in (own.handle, 1):
        add(Described(a, stream=stream), b, c, 64, grid=1, block=64)
    assert standin.calls("cuStreamSynchronize") == waits
    add(Described(a, stream=None), b, c, 64, grid=1, block=64)
    assert standin.calls("cuStreamSynchronize") == waits + 1
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)


@pytest.mark.each_driver
def test_untyped_memory_and_empty_arrays(device: Any, add: Any, b: Any, c: Any) -> None:
    root = device.from_numpy(np.arange(64, dtype="float32"))

    class Buffer:
        __module__ = "cuda.core._memory"
        handle, size = int(root.memory), root.nbytes

    add(Buffer(), b, c, 64, grid=1, block=64)
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)
    empty = device.empty((0, 4), "float32")
    add(Described(empty), Described(empty), Described(empty), 0, grid=1, block=64)


@pytest.mark.each_driver
def test_page_locked_and_managed_memory(device: Any, add: Any, b: Any, c: Any) -> None:
    driver, pointer = device.driver, ctypes.c_uint64()
    with device.context:
        host = driver.call("allocate_host", 256, 1)
        library = driver.library
        size = ctypes.c_size_t(256)
        assert not library.cuMemAllocManaged(ctypes.byref(pointer), size, ctypes.c_uint(1))
        driver.call("fill", pointer.value, 0, 256, 1)
        ctypes.memset(host, 0, 256)
        driver.call("synchronize_stream", 1)
    for address in (host, pointer.value):
        array = Described(c, data=(address, False))
        add(array, b, c, 64, grid=1, block=64)
        assert c.numpy().tolist() == [1] * 64
    with device.context:
        driver.call("free_host", host)
        driver.call("free", pointer.value)


def test_read_only_arrays(device: Any, add: Any, b: Any, c: Any) -> None:
    a = device.zeros(64, "float32")
    add(Described(a, data=(int(a.memory), True)), b, c, 64, grid=1, block=64)
    assert refusal(
        devmod.ArgumentError,
        add,
        a,
        b,
        Described(a, data=(int(a.memory), True)),
        64,
        grid=1,
        block=64,
    ).startswith("the cuda function 'add': argument 3 'c' is a Described that is read-only")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda a: of_library(Described, "cupy", a, **STRIDES),
            "is a strided cupy ndarray; pass cupy.ascontiguousarray(array)",
        ),
        (lambda a: Described(a, **STRIDES), "is a strided numba Described; pass array.copy()"),
        (
            lambda a: Described(a, version=1),
            "has a __cuda_array_interface__ of version 1, expected 2 or 3",
        ),
        (lambda a: Described(a, mask=a), "has a mask, which kernels do not take"),
        (
            lambda a: Described(a, data=(4096, False)),
            "is at 0x1000, which is no address of CUDA's memory: its library may have freed it",
        ),
    ],
    ids=["cupy", "strided", "version", "mask", "address"],
)
def test_an_array_that_is_refused(
    device: Any, add: Any, b: Any, c: Any, make: Any, text: str
) -> None:
    assert (
        refusal(
            devmod.ArgumentError, add, make(device.zeros(64, "float32")), b, c, 64, grid=1, block=64
        )
        == f"the cuda function 'add': argument 1 'a' {text}"
    )


def test_elements_that_no_device_supports(device: Any, add: Any, b: Any, c: Any) -> None:
    assert refusal(
        devmod.ArgumentError,
        add,
        Described(device.zeros(64, "float32"), typestr=">f4"),
        b,
        c,
        64,
        grid=1,
        block=64,
    ).startswith(
        "the cuda function 'add': argument 1 'a' has elements of a type that devices do not support: "
    )


class Closed:
    """An array and a stream of a library that has freed them."""

    def __dlpack_device__(self) -> Any:
        raise RuntimeError("it is closed")

    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("it is closed")

    def __cuda_stream__(self) -> Any:
        raise RuntimeError("it is closed")


class OfNothing(Closed):
    """An array and a stream that do not have the form of their protocols."""

    def __dlpack_device__(self) -> Any:
        return None

    def __cuda_stream__(self) -> Any:
        return None


def test_an_array_that_its_library_does_not_export(device: Any, add: Any, b: Any, c: Any) -> None:
    check_texts(
        {
            "RuntimeError: it is closed": lambda array: Closed(),
            "TypeError: 'NoneType' object is not subscriptable": lambda array: OfNothing(),
            "TypeError: cannot unpack non-iterable NoneType object": lambda array: Described(
                array, data=None
            ),
            "TypeError: data type 'zz' not understood": lambda array: Described(
                array, typestr="zz"
            ),
            "TypeError: '<' not supported between instances of 'str' and 'int'": lambda array: (
                Described(array, version="3")
            ),
            "ValueError: zip() argument 2 is longer than argument 1": lambda array: Described(
                array, strides=(4, 4)
            ),
        },
        lambda make: refusal(devmod.ArgumentError, add, make(b), b, c, 64, grid=1, block=64),
        start="the cuda function 'add': argument 1 'a' is not exported by its library: ",
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Closed, "RuntimeError: it is closed"),
        (OfNothing, "TypeError: cannot unpack non-iterable NoneType object"),
    ],
)
def test_a_stream_that_its_library_does_not_export(
    device: Any, add: Any, b: Any, c: Any, make: Any, text: str
) -> None:
    message = refusal(devmod.ArgumentError, add, b, b, c, 64, grid=1, block=64, stream=make())
    subject = "a Closed" if make is Closed else "an OfNothing"
    assert message == f"stream= is {subject} that is not exported by its library: {text}"


def test_a_closed_stream_of_cuda_core(device: Any, add: Any, b: Any, c: Any) -> None:
    core = pytest.importorskip("cuda.core")
    core.Device(0).set_current()
    stream = core.Device(0).create_stream()
    add(b, b, c, 64, grid=1, block=64, stream=stream)
    stream.close()
    with pytest.raises(
        devmod.ArgumentError, match="stream= is a Stream that is not exported by its library: "
    ):
        add(b, b, c, 64, grid=1, block=64, stream=stream)


@pytest.mark.each_driver
def test_an_array_of_another_context(device: Any, add: Any, b: Any, c: Any) -> None:
    with foreign_context(device):
        pointer = device.driver.call("allocate", 256)
        with pytest.raises(devmod.ArgumentError) as caught:
            add(Described(c, data=(pointer, False)), b, c, 64, grid=1, block=64)
    assert str(caught.value) == (
        f"the cuda function 'add': argument 1 'a' belongs to another CUDA context of {device}, which has no device of devmod: make one with "
        "devmod.device(context), or with devmod_cuda.current_device() while the context is current, and keep it during the call"
    )


# -- pycuda


@pytest.fixture
def pycuda_context(device: Any) -> Any:
    """pycuda with the primary context."""
    pycuda = pytest.importorskip("pycuda.driver", reason=CUDA.missing_driver("pycuda"))
    pycuda.init()
    context = pycuda.Device(0).retain_primary_context()
    context.push()
    yield context
    gc.collect()
    context.pop()


@pytest.mark.each_driver
def test_arrays_and_memory_of_pycuda(
    pycuda_context: Any, device: Any, add: Any, b: Any, c: Any, standin: Standin
) -> None:
    import pycuda.driver
    import pycuda.tools
    from pycuda import gpuarray

    host = np.arange(64, dtype="float32")
    array, memory = gpuarray.to_gpu(host), pycuda.driver.mem_alloc(256)
    pooled = pycuda.tools.DeviceMemoryPool().allocate(256)
    pycuda.driver.memcpy_htod(memory, host)
    pycuda.driver.memcpy_htod(int(pooled), host)
    _kept = collect_exports(device)
    waits = standin.calls("cuStreamSynchronize")
    for value in (array, memory, pooled):
        c.copy_from(b, wait=False)
        add(value, b, c, 64, grid=1, block=64)
        add(c, b, c, 64, grid=1, block=64)
        assert standin.calls("cuStreamSynchronize") == waits
        np.testing.assert_array_equal(c.numpy(), host + 2)
        _kept = collect_exports(device)
        waits = standin.calls("cuStreamSynchronize")
    assert (
        refusal(devmod.ArgumentError, add, array.reshape(8, 8).T, b, c, 64, grid=1, block=64)
        == "the cuda function 'add': argument 1 'a' is a strided pycuda GPUArray; pass array.copy()"
    )
    del array, memory, pooled, value


@pytest.mark.each_driver
def test_pycuda_takes_devmods_arrays(pycuda_context: Any, device: Any, b: Any) -> None:
    import pycuda.driver
    from pycuda import gpuarray

    back = np.zeros(64, "float32")
    array = gpuarray.GPUArray(
        b.shape, np.float32, base=b, gpudata=b.__cuda_array_interface__["data"][0]
    )
    pycuda.driver.memcpy_dtoh(back, array.gpudata)
    assert back.tolist() == [1] * 64


# -- devmod's arrays in other libraries


@pytest.mark.parametrize("stream", [0, -2, "1", 1.0, True])
def test_a_stream_that_dlpack_does_not_have(device: Any, c: Any, stream: Any) -> None:
    assert refusal(BufferError, c.__dlpack__, stream=stream) == (
        f"stream={stream!r} is no stream of CUDA in DLPack: expected None, 1 (the legacy default stream), 2 (the thread's default stream), "
        "the handle of a stream, or -1 for no order"
    )
