"""Arrays on ROCm devices: copies, views, too little memory, and the arrays of other libraries."""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from typing import Any

import numpy as np
import pytest
from rocm_kernels import module
from standin_rocm import Standin

import devmod
from devmod_conformance.array_checks import check_copies, check_memory_error, check_new_arrays, check_views
from devmod_rocm._adopt import adopt_array


@pytest.fixture
def add(device: Any) -> Any:
    return module()["add"]


@pytest.fixture
def b(device: Any) -> Any:
    return device.from_numpy(np.ones(64, "float32"))


@pytest.fixture
def c(device: Any) -> Any:
    return device.zeros(64, "float32")


def test_copies(device: Any, add: Any) -> None:
    check_copies(device, add, grid=1, block=64)


def test_views(device: Any, add: Any) -> None:
    check_views(device, add, grid=1, block=64)


def test_new_arrays_are_complete_for_every_stream(device: Any) -> None:
    twice, x = module()["twice"], device.zeros(1 << 10, "float32")
    check_new_arrays(device, lambda: twice(x, grid=4, block=256))


def test_too_little_memory(device: Any, add: Any, standin: Standin) -> None:
    gc.collect()
    check_memory_error(device, add, 1 << 40, "hipErrorOutOfMemory (out of memory)", grid=1, block=64)


def test_large_copies_that_do_not_wait(device: Any) -> None:
    # Larger than the page-locked pieces of a copy in flight.
    host = np.random.default_rng(0).random(5 << 20)
    stream, back = device.stream(), np.empty_like(host)
    array = device.empty(host.shape, "float64")
    array.copy_from(host, stream=stream, wait=False)
    array.copy_to(back, stream=stream, wait=False).synchronize()
    np.testing.assert_array_equal(back, host)
    device.synchronize()
    assert len(device.transfers) == 0


@pytest.mark.parametrize("size", [16, 1 << 20])
def test_a_started_copy_to_the_device_keeps_the_host_array(device: Any, size: int) -> None:
    """HIP documents no size that a copy from pageable memory has read when the call returns, so small ones pass page-locked memory too."""
    target, stream = device.zeros(size, "float32"), device.stream()
    done = target.copy_from(np.ones(size, "float32"), stream=stream, wait=False)
    gc.collect()
    others = [np.full(size, 7, "float32") for _ in range(4)]  # may have the memory of the freed array
    assert len(device.transfers) > 0
    done.synchronize()
    assert (target.numpy() == 1).all()
    assert others[0][0] == 7


def test_page_locked_host_memory_is_not_copied_twice(device: Any, standin: Standin) -> None:
    driver, count = device.driver, 1 << 18
    with device.context:
        address = driver.allocate_host(4 * count)
    try:
        host = np.frombuffer((ctypes.c_char * (4 * count)).from_address(address), "float32")
        host[:] = np.arange(count)
        array = device.empty(count, "float32")
        device.transfers.release()
        pieces = standin.calls("hipHostMalloc")
        array.copy_from(host, wait=False).synchronize()
        host[:] = 0
        array.copy_to(host, wait=False).synchronize()
        np.testing.assert_array_equal(host, np.arange(count))
        assert standin.calls("hipHostMalloc") == pieces
    finally:
        with device.context:
            driver.free_host(address)


# -- arrays of other libraries


class Tensor:
    """An array of a library with DLPack. It is a view of one of devmod's."""

    def __init__(self, array: Any, kind: int = 10) -> None:
        self.array = array
        self.kind = kind
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.array.device.index

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


def of_library(library: str, array: Any) -> Any:
    """Return an array of a class that another library could have."""
    return type("Tensor", (Tensor,), {"__module__": library})(array)


def test_an_array_of_another_library(device: Any, add: Any, b: Any, c: Any, standin: Standin) -> None:
    root = device.from_numpy(np.arange(72, dtype="float32"))
    view = Tensor(root[8:])
    copies = standin.calls("hipMemcpyHtoDAsync") + standin.calls("hipMemcpyDtoHAsync")
    add(view, b, c, 64, grid=1, block=64)
    launch = add.bind(Tensor(root[:64]), b, Tensor(c), 64, grid=1, block=64)
    assert standin.calls("hipMemcpyHtoDAsync") + standin.calls("hipMemcpyDtoHAsync") == copies
    np.testing.assert_array_equal(c.numpy(), np.arange(8, 72) + 1)
    del root, view
    gc.collect()
    launch()
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("is_default", [True, False])
def test_the_current_stream_of_another_library(
    device: Any, add: Any, b: Any, c: Any, library: str, is_default: bool, standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch and CuPy for ROCm have the names of CUDA."""
    own = device.stream()
    handle = 0 if is_default else own.handle
    name = {"torch": "cuda_stream", "cupy": "ptr"}[library]
    current = types.SimpleNamespace(**{name: handle})
    cuda = types.SimpleNamespace(current_stream=lambda index: current, get_current_stream=lambda index: current)
    monkeypatch.setitem(sys.modules, library, types.SimpleNamespace(cuda=cuda))
    tensor = of_library(library, device.zeros(64, "float32"))
    waits = standin.calls("hipStreamSynchronize")
    add(tensor, b, c, 64, grid=1, block=64)
    assert standin.calls("hipStreamSynchronize") == waits
    assert tensor.streams == [-1]
    adopted = adopt_array(tensor)
    assert adopted is not None
    assert adopted[1] is device.default_stream if is_default else adopted[1].handle == own.handle
    assert c.numpy().tolist() == [1] * 64


def test_a_library_without_a_current_stream_orders_its_work_and_the_call_waits(
    device: Any, add: Any, b: Any, c: Any, standin: Standin
) -> None:
    tensor = Tensor(device.zeros(64, "float32"))
    waits = standin.calls("hipStreamSynchronize")
    add(tensor, b, c, 64, grid=1, block=64)
    assert standin.calls("hipStreamSynchronize") == waits + 1
    assert tensor.streams == [0]


def test_an_array_on_a_cuda_device_is_none_of_rocms(device: Any, add: Any, b: Any, c: Any) -> None:
    assert adopt_array(Tensor(b, kind=2)) is None


def test_freed_memory(device: Any, add: Any, b: Any, c: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.driver, "locate", lambda address: (0, 0, 0))
    with pytest.raises(devmod.ArgumentError) as caught:
        add(Tensor(b), b, c, 64, grid=1, block=64)
    assert str(caught.value) == (
        f"the rocm function 'add': argument 1 'a' is at {int(b.memory):#x}, which is no address of HIP's memory: its library may have freed it"
    )


# -- devmod's arrays in other libraries


def test_an_export_orders_the_work_of_all_streams(device: Any, add: Any, b: Any, c: Any, standin: Standin) -> None:
    own, other = device.stream(), device.stream()
    add(b, b, c, 64, grid=1, block=64, stream=own)
    assert c.__dlpack_device__() == (10, 0)
    for stream, expected in ((None, 1), (0, 1), (other.handle, other.handle)):
        ordered = standin.calls("hipStreamWaitEvent")
        c.__dlpack__(stream=stream)
        assert standin.calls("hipStreamWaitEvent") > ordered
        assert device.share(stream) == expected
    ordered = standin.calls("hipStreamWaitEvent")
    c.__dlpack__(stream=-1)
    assert device.share(-1) is None
    assert standin.calls("hipStreamWaitEvent") == ordered
    interface = c.__cuda_array_interface__
    assert (interface["stream"], interface["data"]) == (1, (int(c.memory), False))
    # The consumer's copy in its stream is after the launch.
    back = np.zeros(64, "float32")
    with device.context:
        device.driver.copy_to_host(back.ctypes.data, int(c.memory), 256, other.handle)
        device.driver.synchronize_stream(other.handle)
    assert back.tolist() == [2] * 64


@pytest.mark.parametrize("stream", [1, 2, -2, "0", 0.0, True])
def test_a_stream_that_dlpack_does_not_have(device: Any, c: Any, stream: Any) -> None:
    """DLPack gives 1 and 2 no meaning on ROCm."""
    with pytest.raises(BufferError) as caught:
        c.__dlpack__(stream=stream)
    assert str(caught.value) == (
        f"stream={stream!r} is no stream of HIP in DLPack: expected None or 0 (the default stream), the handle of a stream, or -1 for no order"
    )
