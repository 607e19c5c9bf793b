"""What only ROCm's streams have; plugins/driver-api/tests has the tests of streams, events
and graphs.
"""

from __future__ import annotations

from typing import Any

import pytest
from each_case import refusal
from standin_rocm import ROCM
from vendor import library_class

import devmod
from devmod_driver_api.api import DriverError


def test_the_default_stream_is_hips_null_stream(device: Any) -> None:
    assert device.default_stream.handle == 0
    assert not hasattr(device.default_stream, "__cuda_stream__")


def test_a_stream_of_hip_python(device: Any) -> None:
    hip = pytest.importorskip("hip", reason="hip-python is not installed").hip
    status, stream = hip.hipStreamCreate()
    assert not status
    adopted = ROCM.adopt_stream(stream)
    assert (adopted.handle, adopted.device, adopted.owner) == (int(stream), device, stream)
    adopted.record().synchronize()
    del adopted
    (status,) = hip.hipStreamDestroy(stream)
    assert not status


@pytest.mark.row("R57")
def test_a_stream_of_a_hip_without_numbers(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """HIP 7.1 is the first with hipStreamGetId. The handle alone then names a stream."""
    from devmod_rocm._calls import HIP

    def missing(operation: str, *arguments: Any) -> Any:
        if operation == "stream_id":
            raise DriverError(
                HIP.not_supported, "this driver has no such function", "hipStreamGetId"
            )
        return call(operation, *arguments)

    call = device.driver.call
    monkeypatch.setattr(device.driver, "call", missing)
    own = device.stream()
    first, second = (ROCM.foreign_stream("own", own.handle) for _ in range(2))
    adopted: Any = devmod.device(first)
    assert devmod.device(second) is adopted
    assert adopted.zeros(4, "float32").numpy().tolist() == [0] * 4
    assert ROCM.adopt_stream(second) is adopted.default_stream
    assert adopted.default_stream.last_owner is second


@pytest.mark.row("R57")
def test_a_stream_that_hip_refuses(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one device, it is that of every stream. With several, HIP names the device."""
    from devmod_rocm._calls import HIP
    from devmod_rocm._launch import RocmAdoption

    def refuse(operation: str, *arguments: Any) -> Any:
        if operation == "stream_context":
            raise DriverError("hipErrorInvalidHandle", "invalid handle", "hipStreamGetDevice")
        return call(operation, *arguments)

    own = device.stream()
    call = device.driver.call
    monkeypatch.setattr(device.driver, "call", refuse)
    adoption = RocmAdoption(HIP, lambda: [device, device])
    stream = ROCM.foreign_stream("own", own.handle)
    assert refusal(devmod.ArgumentError, adoption.adopt_device, stream) == (
        "device: an ihipStream_t of rocm is refused by the driver: hipStreamGetDevice: hipErrorInvalidHandle (invalid handle). "
        "Its library may have destroyed it"
    )


def test_the_device_of_a_stream_in_hip_5(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """HIP 5 has no hipStreamGetDevice. The objects of PyTorch and CuPy have the number of their
    device.
    """
    from devmod_rocm._calls import HIP
    from devmod_rocm._launch import RocmAdoption

    def missing(operation: str, *arguments: Any) -> Any:
        if operation == "stream_context":
            raise DriverError(
                HIP.not_supported, "this driver has no such function", "hipStreamGetDevice"
            )
        return call(operation, *arguments)

    call = device.driver.call
    monkeypatch.setattr(device.driver, "call", missing)
    own = device.stream()
    adoption, one = RocmAdoption(HIP, lambda: [device, device]), RocmAdoption(HIP, lambda: [device])
    known = library_class("Stream", "torch.cuda")(cuda_stream=own.handle, device_index=1)
    assert adoption.adopt_stream(known).handle == own.handle  # type: ignore[union-attr]
    unknown = library_class("ihipStream_t", "hip.hip", __int__=lambda self: self.handle)(
        handle=own.handle
    )
    assert one.adopt_stream(unknown).device is device  # type: ignore[union-attr]
    assert refusal(devmod.ArgumentError, adoption.adopt_stream, unknown) == (
        "stream= is a stream that the driver refuses: hipStreamGetDevice: hipErrorNotSupported (this driver has no such function)"
    )
