"""DLPack exports memory shared by device and host without a copy."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from support import needs_dlpack_1

import devmod


class Bytes(bytearray):
    """Memory that supports weak references."""


class SharingDevice(devmod.Device):
    """A device whose memory is the host's."""

    kind, index, name = "sharing", 0, "one"
    shares = True
    waited = 0

    @property
    def default_stream(self) -> Any:
        return None

    def stream(self) -> Any:
        return None

    def synchronize(self) -> None:
        self.waited += 1

    def allocate(self, nbytes: int) -> Any:
        return Bytes(nbytes)

    def write(self, memory: Any, data: memoryview, stream: Any) -> None:
        memory[: data.nbytes] = data.cast("B")

    def read(self, memory: Any, out: memoryview, stream: Any) -> None:
        out.cast("B")[:] = memory[: out.nbytes]

    def view(self, memory: Any) -> memoryview | None:
        return memoryview(memory) if self.shares else None


@needs_dlpack_1
@pytest.mark.parametrize("copy", [None, False])
def test_a_view_shares_the_arrays_memory(copy: bool | None) -> None:
    device = SharingDevice()
    array = device.from_numpy(np.arange(6, dtype="float32").reshape(2, 3))
    view = np.from_dlpack(array, device="cpu", copy=copy)
    assert device.waited == 1
    assert (view.shape, view.dtype) == ((2, 3), np.float32)
    view[0, 0] = 9
    assert array.numpy()[0, 0] == 9


@needs_dlpack_1
def test_a_view_keeps_the_memory_alive() -> None:
    device = SharingDevice()
    array: Any = device.from_numpy(np.arange(6, dtype="float32"))
    memory = weakref.ref(array.memory)
    view = np.from_dlpack(array, device="cpu")
    del array
    gc.collect()
    assert memory() is not None
    assert view.tolist() == [0, 1, 2, 3, 4, 5]
    del view
    gc.collect()
    assert memory() is None


@needs_dlpack_1
def test_a_requested_copy() -> None:
    array = SharingDevice().from_numpy(np.arange(6, dtype="float32"))
    copied = np.from_dlpack(array, device="cpu", copy=True)
    np.from_dlpack(array, device="cpu")[0] = 9
    assert copied[0] == 0


def test_consumers_before_version_1_get_a_view() -> None:
    array = SharingDevice().from_numpy(np.arange(6, dtype="float32"))
    assert "dltensor" in repr(array.__dlpack__(dl_device=(1, 0), copy=False))


@needs_dlpack_1
def test_without_shared_memory_there_is_no_view() -> None:
    device = SharingDevice()
    device.shares = False
    array = device.from_numpy(np.arange(6, dtype="float32"))
    assert np.from_dlpack(array, device="cpu").tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(BufferError, match="this array is in the memory of sharing device 0"):
        np.from_dlpack(array, device="cpu", copy=False)
    with pytest.raises(BufferError, match="this array is in the memory of sharing device 0"):
        array.__dlpack__()
