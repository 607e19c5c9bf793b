"""Arrays of other libraries as arguments, without a copy, and devmod's arrays in other libraries,
for each vendor.
"""

from __future__ import annotations

import gc
import sys
import types
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from foreign_arrays import OldTensor, Tensor, check_foreign_array, collect_exports, of_library
from vendor import Vendor

import devmod
from devmod_simulators import StandinDriver


@pytest.mark.each_driver
@pytest.mark.parametrize("kind", [Tensor, OldTensor])
def test_an_array_of_another_library(
    device: Any, add: Any, kind: Any, vendor: Vendor, standin: StandinDriver
) -> None:
    check_foreign_array(vendor, device, add, kind)


class Exported(Tensor):
    """A tensor whose memory belongs to its capsule after the export."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, **options: Any) -> object:
        capsule = super().__dlpack__(**options)
        del self.array
        return capsule


@pytest.mark.parametrize("kind", [Tensor, Exported])
def test_the_array_of_a_capsule_lives_as_long_as_the_launch(
    kind: Any, device: Any, add: Any, b: Any, c: Any
) -> None:
    gc.collect()
    add.bind(Tensor(b), b, c, 64, grid=1, block=64)  # an export frees the capsules of earlier tests
    gc.collect()
    count = len(device.context.memory)
    launch = add.bind(kind(device.zeros(64, "float32")), b, c, 64, grid=1, block=64)
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
    device: Any, add: Any, b: Any, c: Any, standin: StandinDriver, vendor: Vendor
) -> None:
    tensor = Tensor(device.zeros(64, "float32"))
    _kept = collect_exports(device)
    waits = vendor.calls("synchronize_stream")
    add(tensor, b, c, 64, grid=1, block=64)
    assert vendor.calls("synchronize_stream") == waits + 1
    with device.stream() as stream:
        add(tensor, b, c, 64, grid=1, block=64)
        add(tensor, b, c, 64, grid=1, block=64, stream=stream)
    # With stream= the caller orders the work.
    assert vendor.calls("synchronize_stream") == waits + 2
    assert tensor.streams == [vendor.legacy_stream, stream.handle, stream.handle]


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("is_default", [True, False])
def test_the_current_stream_of_another_library(
    device: Any,
    add: Any,
    b: Any,
    c: Any,
    library: str,
    is_default: bool,
    standin: StandinDriver,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
) -> None:
    own = device.stream()
    handle = 0 if is_default else own.handle
    name = {"torch": "cuda_stream", "cupy": "ptr"}[library]
    # PyTorch and CuPy for ROCm have the names of CUDA.
    cuda = types.SimpleNamespace(
        current_stream=lambda index: types.SimpleNamespace(**{name: handle}),
        get_current_stream=lambda index: types.SimpleNamespace(**{name: handle}),
    )
    monkeypatch.setitem(sys.modules, library, types.SimpleNamespace(cuda=cuda))
    tensor = of_library(Tensor, library, device.zeros(64, "float32"))
    _kept = collect_exports(device)
    waits = vendor.calls("synchronize_stream")
    add(tensor, b, c, 64, grid=1, block=64)
    assert vendor.calls("synchronize_stream") == waits
    assert tensor.streams == [-1]
    adopted = vendor.adopt_array(tensor)
    assert adopted is not None
    assert adopted[1] is device.default_stream if is_default else adopted[1].handle == own.handle
    with device.stream() as other:
        add(
            tensor, b, c, 64, grid=1, block=64
        )  # core orders the library's stream before `other`, and waits
    assert vendor.calls("synchronize_stream") == waits + 1
    del other
    assert c.numpy().tolist() == [1] * 64


def test_an_empty_array_of_another_library(device: Any, add: Any) -> None:
    empty = device.empty((0, 4), "float32")
    add(Tensor(empty), Tensor(empty), Tensor(empty), 0, grid=1, block=64)


def test_an_array_on_a_device_of_another_kind(device: Any, b: Any, vendor: Vendor) -> None:
    assert vendor.adopt_array(Tensor(b, kind=8)) is None  # kDLMetal
    assert vendor.adopt_array(Tensor(b, kind={2: 10, 10: 2}[device.dlpack_type])) is None


def test_freed_memory(
    device: Any, add: Any, b: Any, c: Any, monkeypatch: pytest.MonkeyPatch, vendor: Vendor
) -> None:
    tensor = Tensor(b)
    monkeypatch.setattr(device.driver, "locate", lambda address: (0, 0, 0))
    assert refusal(devmod.ArgumentError, add, tensor, b, c, 64, grid=1, block=64) == (
        f"the {vendor.kind} function 'add': argument 1 'a' is at {int(b.memory):#x}, which is no address of {vendor.api}'s memory: its library may "
        "have freed it"
    )


def test_a_tensor_that_its_library_does_not_export(
    device: Any, add: Any, b: Any, c: Any, vendor: Vendor
) -> None:
    class Gradient(Tensor):
        def __dlpack__(self, **_: Any) -> object:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    assert refusal(
        devmod.ArgumentError, add, Gradient(device.zeros(64, "float32")), b, c, 64, grid=1, block=64
    ) == (
        f"the {vendor.kind} function 'add': argument 1 'a' is not exported by its library: Can't export tensors that require gradient, use "
        "tensor.detach()"
    )


# -- devmod's arrays in other libraries


@pytest.mark.each_driver
def test_an_export_orders_the_work_of_all_streams(
    device: Any, add: Any, b: Any, c: Any, standin: StandinDriver, vendor: Vendor
) -> None:
    gc.collect()  # modules of earlier tests: an unload waits
    own, other = device.stream(), device.stream()
    add(b, b, c, 64, grid=1, block=64, stream=own)
    _kept = collect_exports(device)
    waits = vendor.calls("synchronize_stream") + vendor.calls("synchronize_context")
    for stream, expected in (*vendor.dlpack_streams, (other.handle, other.handle)):
        ordered = vendor.calls("wait_event")
        c.__dlpack__(stream=stream)
        assert vendor.calls("wait_event") > ordered
        assert device.share(stream) == expected
    ordered = vendor.calls("wait_event")
    c.__dlpack__(stream=-1)
    assert device.share(-1) is None
    assert vendor.calls("wait_event") == ordered
    assert c.address == int(c.memory)
    interface = c.__cuda_array_interface__
    assert (interface["stream"], interface["version"], interface["data"]) == (
        1,
        3,
        (int(c.memory), False),
    )
    assert vendor.calls("synchronize_stream") + vendor.calls("synchronize_context") == waits
    # The consumer's copy in its stream is after the launch.
    for handle in (other.handle, vendor.legacy_stream):
        back = np.zeros(64, "float32")
        with device.context:
            device.driver.call("copy_to_host", back.ctypes.data, interface["data"][0], 256, handle)
            device.driver.call("synchronize_stream", handle)
        assert back.tolist() == [2] * 64


def test_dlpack_of_a_device_array(device: Any, c: Any, vendor: Vendor) -> None:
    assert c.__dlpack_device__() == (vendor.dlpack_type, 0)
    np.testing.assert_array_equal(np.from_dlpack(_OnHost(c)), np.zeros(64))


class _OnHost:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> object:
        return self._array.__dlpack__(**{**options, "dl_device": (1, 0)})
