"""Kernels that launch kernels, compiled with NVRTC."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_sources import run_source
from ptx_sources import ptx_of

from devmod_simulators.ptx import (
    Launch,
    Machine,
    PtxError,
    Sanitizer,
    launch_with_checks,
    run_ptx,
)

STREAMS = """
__global__ void child(int *y, int base) { y[base + threadIdx.x] += base + 1; }
__global__ void last(int *y) { y[63] = y[0] + y[56]; }
extern "C" __global__ void k(int *y)
{
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaEvent_t e;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    if (threadIdx.x == 0) last<<<1, 1, 0, cudaStreamTailLaunch>>>(y);
    child<<<1, 7, 0, s>>>(y, threadIdx.x * 8);
    cudaEventRecord(e, s);
    cudaStreamWaitEvent(0, e, 0);
    child<<<1, 4, 0, cudaStreamFireAndForget>>>(y, threadIdx.x * 8);
    cudaStreamDestroy(s);
    if (cudaGetLastError()) y[0] = -1;
}"""
DEPTH = """
extern "C" __global__ void k(int *y, int n)
{
    extern __shared__ int s[];
    s[threadIdx.x] = n;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(y, s[3]);
    if (n && threadIdx.x < LAUNCHES) k<<<1, 4, 16>>>(y, n - 1);
    if (cudaPeekAtLastError()) y[1] = cudaGetLastError();
}"""


def test_kernels_run_behind_their_grid_in_order() -> None:
    y = run_source(STREAMS, 1, 8, [np.zeros(64, np.int32)], "-rdc=true")
    expected = np.zeros(64, np.int32)
    for base in range(0, 64, 8):
        expected[base : base + 7] = base + 1
        expected[base : base + 4] *= 2
    expected[63] = expected[0] + expected[56]
    assert y.tolist() == expected.tolist()


@pytest.mark.parametrize(("depth", "launches", "error"), [(3, 2, 0), (24, 1, 0), (25, 1, 65)])
def test_a_kernel_launches_itself(depth: int, launches: int, error: int) -> None:
    source = DEPTH.replace("< LAUNCHES", f"< {launches}")
    y = run_source(source, 1, 4, [np.zeros(2, np.int32), depth], "-rdc=true", shared_memory=16)
    most = min(depth, 24)
    total = sum((depth - at) * launches**at for at in range(most + 1))
    assert y.tolist() == [total, error]


def test_a_launch_that_cannot_be_is_an_error() -> None:
    source = """
    extern "C" __global__ void k(int *y, int n, int threads)
    {
        if (n) k<<<1, threads>>>(y, n - 1, threads);
        *y = cudaGetLastError();
    }"""
    y = np.zeros(1, np.int32)
    assert run_source(source, 1, 1, [y, 1, 1025], "-rdc=true")[0] == 9
    assert run_source(source, 1, 1, [y, 1, 1], "-rdc=true")[0] == 0


def test_a_kernel_allocates_memory_for_those_that_it_launches() -> None:
    source = """
    __global__ void child(int *p, int *y) { y[threadIdx.x] = p[threadIdx.x] + 1; }
    extern "C" __global__ void k(int *y)
    {
        int *p, *none = y, id = threadIdx.x;
        y[8 + id] = cudaMalloc((void **)&p, 8);
        p[0] = id * 10;
        p[1] = id * 10 + 5;
        child<<<1, 2>>>(p, y + 2 * id);
        y[12 + id] = cudaMalloc((void **)&none, 1ull << 40);
        y[16 + id] = none != 0;
        int *other;
        cudaMalloc((void **)&other, 4);
        y[20 + id] = cudaFree(other) + cudaFree(0);
        y[24 + id] = cudaFree(other);
    }"""
    y = run_source(source, 1, 4, [np.zeros(28, np.int32)], "-rdc=true")
    errors = [0] * 4 + [2] * 4 + [0] * 4 + [0] * 4 + [1] * 4
    assert y.tolist() == [1, 6, 11, 16, 21, 26, 31, 36, *errors]


@pytest.mark.parametrize(("size", "kinds"), [(64, []), (32, ["out of bounds (write)"])])
def test_the_checks_see_the_kernels_that_a_kernel_launches(size: int, kinds: list[str]) -> None:
    machine = Machine(1 << 24)
    module = machine.load(ptx_of(STREAMS, "-rdc=true"))
    sanitizer = Sanitizer(machine.arena)
    address = machine.allocate(4 * size)
    sanitizer.allocated(address, 4 * size, "app.py:1", True)
    launch = Launch((1, 1, 1), (8, 1, 1), address.to_bytes(8, "little"))
    checks = frozenset({"bounds", "race", "sync", "init"})
    reports = launch_with_checks(sanitizer, module, "k", launch, checks, machine.ranges)
    found = {report.kind for report in reports if report.function == "_Z5childPii"}
    assert sorted(found - {"out of bounds (read)"}) == kinds


def test_what_is_no_kernel_is_not_launched() -> None:
    text = re.sub(r"(mov\.u64\s+%rd\d+), _Z5childPii;", r"\1, 5;", ptx_of(STREAMS, "-rdc=true"))
    with pytest.raises(PtxError, match="a kernel launches what is no kernel"):
        run_ptx(text, "k", 1, 8, [np.zeros(64, np.int32)])
