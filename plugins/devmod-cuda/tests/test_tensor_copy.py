"""A kernel copies boxes of arrays with the tensor maps of devmod_cuda."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_sources import ptx_of

import devmod
import devmod_cuda
from devmod import FunctionInfo

SOURCE = """struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void k(const __grid_constant__ Map from, const __grid_constant__ Map to, int x, int y) {
    __shared__ alignas(128) float s[4][8];
    __shared__ unsigned long long barrier;
    unsigned place = __cvta_generic_to_shared(s), b = __cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(b));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            :: "r"(place), "l"(&from), "r"(x), "r"(y), "r"(b) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(b) : "memory");
    s[threadIdx.x / 8][threadIdx.x % 8] += 1000;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" :: "l"(&to), "r"(0), "r"(4), "r"(place) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


@pytest.mark.row("R35")
def test_a_box_goes_through_shared_memory(device: Any) -> None:
    if not device.limits["tensor_map_access_supported"]:
        pytest.skip(f"{device.arch} copies no boxes of tensors")
    numbers = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    source, target = device.from_numpy(numbers), device.zeros((8, 8), "float32")
    info = FunctionInfo(
        "k", ["handle", "handle", "int32", "int32"], ["blockIdx.x", "threadIdx.x"], [1, 1, 0, 0]
    )
    function = devmod.create("cuda", ptx_of(SOURCE).encode(), "ptx", {"k": info})["k"]
    maps = [devmod_cuda.tensor_map(array, (4, 8)) for array in (source, target)]
    function(*maps, 28, 3, grid=1, block=32)
    expected = np.zeros((8, 8), np.float32)
    expected[4:, :4] = numbers[3:7, 28:]  # the columns past the end are zeros
    expected[4:] += 1000
    np.testing.assert_array_equal(target.numpy(), expected)
