"""`Device.start_clear` on each real device: in the order of the stream, in batches and without, and
no byte more.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import devmod


@pytest.mark.parametrize("kind", ["opencl", "vulkan", "webgpu", "hexagon"])
@pytest.mark.parametrize("in_batch", [False, True])
def test_a_queued_clear_is_in_order_and_ends_where_it_should(kind: str, in_batch: bool) -> None:
    device = devmod.device(kind)
    stream = device.stream()
    ones = np.arange(1, 65, dtype=np.uint8)
    source, target, after = (device.from_numpy(ones) for _ in range(3))
    with stream.batch() if in_batch else nullcontext():
        device.start_clear(target.region, 8, stream)
        target.copy_to(after, stream=stream, wait=False)
        device.start_clear(target.region, 64, stream)
        device.start_clear(target.region, 4, stream)
        target.copy_from(source, stream=stream, wait=False)
        device.start_clear(target.region, 12, stream)
    stream.synchronize()
    assert after.numpy().tolist() == [0] * 8 + ones[8:].tolist()
    assert target.numpy().tolist() == [0] * 12 + ones[12:].tolist()


@pytest.mark.parametrize(
    "kind", ["opencl", "vulkan", "hexagon"]
)  # a kernel of WebGPU takes no such view
@pytest.mark.parametrize("nbytes", [1, 3, 6, 8])
def test_a_queued_clear_of_a_view_changes_no_element_behind_it(kind: str, nbytes: int) -> None:
    device = devmod.device(kind)
    stream, ones = device.stream(), np.arange(1, 65, dtype=np.uint8)
    whole = device.from_numpy(ones)
    device.start_clear(whole[16 : 16 + nbytes].region, nbytes, stream)
    stream.synchronize()
    assert whole.numpy().tolist() == [*ones[:16], *[0] * nbytes, *ones[16 + nbytes :]]
