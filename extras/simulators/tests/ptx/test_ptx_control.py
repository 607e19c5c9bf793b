"""Control flow in the interpreter of PTX: divergence, calls, barriers, and threads that wait for
each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_sources import error_of, run_source
from numpy.testing import assert_array_equal
from ptx_snippets import run_alike
from ptx_sources import ptx_of

from devmod_simulators.ptx import PtxError, execution, run_ptx

SWITCH = """extern "C" __global__ void k(const int *x, int *o) {
    int i = threadIdx.x, r = 0;
    for (int j = 0; j < x[i] % 7; j++) {
        switch ((x[i] + j) % 9) {
            case 0: r += 1; break;
            case 1: r *= 3;
            case 2: r ^= 5; break;
            case 3: r -= j; break;
            case 4: continue;
            case 5: r += 100; break;
            case 6: if (r > 50) { o[i] = -r; return; } r += 20; break;
            default: r = r * 2 + 1;
        }
        if (r > 1000) break;
    }
    o[i] = r;
}"""


def switch(x: int) -> int:
    r = 0
    for j in range(x % 7):
        case = (x + j) % 9
        if case == 4:
            continue
        if case == 6:
            if r > 50:
                return -r
            r += 20
        else:
            r = {0: r + 1, 1: r * 3 ^ 5, 2: r ^ 5, 3: r - j, 5: r + 100}.get(case, r * 2 + 1)
        if r > 1000:
            break
    return r


def test_a_switch_in_a_loop_with_early_returns() -> None:
    x = np.random.default_rng(1).integers(0, 1000, 512).astype(np.int32)
    out = run_source(SWITCH, 1, 512, [x, np.zeros_like(x)])
    assert_array_equal(out, [switch(int(each)) for each in x])


NESTED = """extern "C" __global__ void k(const int *x, int *o, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
    for (int a = 0; a < x[i] % 13; a++) {
        if (a == x[(i + 1) % n] % 5) continue;
        for (int b = a; b < x[(i + a) % n] % 7; b++) {
            if ((a * b + i) % 11 == 3) goto done;
            s += a * b + 1;
            if (s % 17 == 5) break;
        }
        s ^= a;
    }
done:
    o[i] = s;
}"""


def nested(x: Any, i: int) -> int:
    s = 0
    for a in range(x[i] % 13):
        if a == x[(i + 1) % len(x)] % 5:
            continue
        for b in range(a, x[(i + a) % len(x)] % 7):
            if (a * b + i) % 11 == 3:
                return s
            s += a * b + 1
            if s % 17 == 5:
                break
        s ^= a
    return s


def test_nested_loops_that_lanes_leave_at_different_places() -> None:
    x = np.random.default_rng(2).integers(0, 100, 2048).astype(np.int32)
    out = run_source(NESTED, 16, 128, [x, np.zeros_like(x), len(x)])
    numbers = x.tolist()
    assert_array_equal(out, [nested(numbers, i) for i in range(len(x))])


def test_an_indexed_branch() -> None:
    body = """targets: .branchtargets L0, L1, L2;
    rem.u32 %u, %a, 3; brx.idx %u, targets;
    L0: mov.u32 %o, 10; bra E; L1: mov.u32 %o, 20; bra E; L2: mov.u32 %o, 30; E:"""
    a = np.arange(100)
    assert_array_equal(run_alike(body, "u32", a), np.array([10, 20, 30])[a % 3])


def test_a_barrier_in_a_loop_orders_all_steps() -> None:
    source = """extern "C" __global__ void k(int *o, int n) {
        __shared__ int s[2][96];
        int i = threadIdx.x, *mine = s[0], *other = s[1];
        mine[i] = i;
        for (int k = 0; k < n; k++) {
            __syncthreads();
            other[i] = mine[(i + 1) % 96] + (i % 2 ? k : 0);
            int *t = mine; mine = other; other = t;
        }
        o[blockIdx.x * 96 + i] = mine[i];
    }"""
    out = run_source(source, 3, 96, [np.zeros((3, 96), np.int32), 20])
    expected = np.arange(96)
    for k in range(20):
        expected = np.roll(expected, -1) + np.arange(96) % 2 * k
    assert_array_equal(out, np.tile(expected, (3, 1)))


def test_threads_that_have_returned_are_not_missing_at_a_barrier() -> None:
    source = """extern "C" __global__ void k(int *o) {
        __shared__ int s[64];
        s[threadIdx.x] = threadIdx.x;
        if (threadIdx.x >= 40) return;
        __syncthreads();
        o[threadIdx.x] = s[63 - threadIdx.x] + __syncthreads_count(threadIdx.x % 3 == 0);
    }"""
    out = run_source(source, 1, 64, [np.zeros(64, np.int32)])
    assert_array_equal(out[:40], 63 - np.arange(40) + 14)
    assert not out[40:].any()


def test_reductions_over_a_block() -> None:
    source = """extern "C" __global__ void k(const int *x, int *o) {
        int v = x[blockIdx.x * blockDim.x + threadIdx.x];
        o[blockIdx.x * blockDim.x + threadIdx.x] = __syncthreads_count(v > 5) * 4 + __syncthreads_or(v > 98) * 2 + __syncthreads_and(v > 0);
    }"""
    x = np.random.default_rng(3).integers(0, 100, (8, 70)).astype(np.int32)
    out = run_source(source, 8, 70, [x, np.zeros_like(x)])
    expected = (x > 5).sum(1) * 4 + (x > 98).any(1) * 2 + (x > 0).all(1)
    assert_array_equal(out, np.repeat(expected[:, None], 70, 1))


def test_named_barriers_between_a_producer_and_consumers() -> None:
    source = """extern "C" __global__ void k(int *o) {
        __shared__ int s[32];
        if (threadIdx.x < 32) {
            for (int i = 0; i < 50; i++) s[threadIdx.x] = threadIdx.x * i;
            asm volatile("bar.arrive 3, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 3, 64;" ::: "memory");
            o[threadIdx.x - 32] = s[63 - threadIdx.x];
        }
    }"""
    out = run_source(source, 1, 64, [np.zeros(32, np.int32)])
    assert_array_equal(out, (31 - np.arange(32)) * 49)


def test_calls_recursion_function_pointers_and_virtual_functions() -> None:
    source = """struct A { __device__ virtual int f(int x) { return x + 1; } };
    struct B : A { __device__ int f(int x) override { return x * 2; } };
    __device__ int up(int x) { return x + 10; }
    __device__ int down(int x) { return x - 10; }
    __device__ int (*table[2])(int) = {up, down};
    __device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    extern "C" __global__ void k(int *o, int n) {
        int i = threadIdx.x;
        A a; B b;
        A *p = (i & 1) ? (A *)&b : &a;
        if (n > 100) p = 0;
        o[i] = p->f(i) + table[(i >> 1) & 1](i) * 1000 + fib(i % 10) * 1000000;
    }"""
    out = run_source(source, 1, 64, [np.zeros(64, np.int32), 3])
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    expected = [
        (i * 2 if i & 1 else i + 1)
        + (i - 10 if i >> 1 & 1 else i + 10) * 1000
        + fibonacci[i % 10] * 1000000
        for i in range(64)
    ]
    assert_array_equal(out, expected)


def test_structs_by_value_go_through_calls() -> None:
    source = """struct S { int a; double b; float c[3]; };
    __device__ __noinline__ S change(S s, int by) { s.a += by; s.b *= 2; s.c[by % 3] = by; return s; }
    extern "C" __global__ void k(double *o, S s) {
        S t = threadIdx.x % 2 ? change(s, threadIdx.x) : change(change(s, 5), 1);
        o[threadIdx.x] = t.a + t.b * 100 + t.c[0] * 1e4 + t.c[1] * 1e6 + t.c[2] * 1e8;
    }"""
    value = np.zeros((), np.dtype([("a", "i4"), ("b", "f8"), ("c", "f4", 3)], align=True))
    value["a"], value["b"], value["c"] = 3, 0.5, (1, 2, 3)
    out = run_source(source, 1, 64, [np.zeros(64), value])
    for i in range(64):
        a, b, c = 3, 0.5, [1, 2, 3]
        for by in [i] if i % 2 else [5, 1]:
            a, b, c[by % 3] = a + by, b * 2, by
        assert out[i] == a + b * 100 + c[0] * 1e4 + c[1] * 1e6 + c[2] * 1e8


def test_a_lock_that_threads_of_one_warp_hold_in_turn() -> None:
    source = """__device__ int mutex;
    extern "C" __global__ void k(volatile int *count) {
        for (int i = 0; i < 2; i++) {
            while (atomicCAS(&mutex, 0, 1) != 0);
            *count = *count + 1;
            __threadfence();
            atomicExch(&mutex, 0);
        }
    }"""
    count = run_source(source, 2, 32, [np.zeros(1, np.int32)])
    assert count[0] == 128


def test_blocks_wait_for_blocks_before_them() -> None:
    source = """__device__ volatile int flag;
    extern "C" __global__ void k(int *o) {
        if (threadIdx.x == 0) { while (flag != (int)blockIdx.x); }
        __syncthreads();
        o[blockIdx.x * blockDim.x + threadIdx.x] = flag;
        __syncthreads();
        if (threadIdx.x == 0) flag = blockIdx.x + 1;
    }"""
    out = run_source(source, 20, 32, [np.zeros((20, 32), np.int32)])
    assert_array_equal(out, np.repeat(np.arange(20)[:, None], 32, 1))


def test_warp_barriers_in_two_branches_wait_for_each_other() -> None:
    source = """extern "C" __global__ void k(volatile int *o) {
        __shared__ volatile int s[32];
        if (threadIdx.x < 16) { s[threadIdx.x] = threadIdx.x; __syncwarp(); o[threadIdx.x] = s[threadIdx.x + 16]; }
        else { s[threadIdx.x] = threadIdx.x * 2; __syncwarp(); o[threadIdx.x] = s[threadIdx.x - 16]; }
    }"""
    out = run_source(source, 1, 32, [np.zeros(32, np.int32)])
    assert_array_equal(out, [*(2 * np.arange(16, 32)), *range(16)])


def test_threads_that_wait_for_ever_are_an_error() -> None:
    source = """extern "C" __global__ void k(int *o) {
        if (threadIdx.x < 32) asm volatile("bar.sync 1, 96;"); else __syncthreads();
        o[0] = 1;
    }"""
    text = "64 threads wait at a barrier or a warp operation that other threads never reach, kernel k, block (0, 0, 0), thread (0, 0, 0)"
    name, message = error_of(source, 1, 64, [np.zeros(1, np.int32)])
    assert name == "CUDA_ERROR_LAUNCH_TIMEOUT"
    assert message in (text, text.replace("thread (0,", "thread (32,"))


@pytest.mark.volume_but
@pytest.mark.parametrize(
    ("seconds", "body", "reason"),
    [
        (0.1, "while (*(volatile int *)o == 0);", "its threads have waited for others for 0.1 s, "),
        (0.02, "for (;;) if (n > 0) n = n * 5 % 7;", "it has run for 0.2 s, 10 times "),
    ],
    ids=["it waits", "it computes"],
)
def test_an_endless_loop_is_an_error(seconds: float, body: str, reason: str) -> None:
    source = f'extern "C" __global__ void k(int *o, int n) {{ {body} *o = n; }}'
    name, text = error_of(source, 1, 1, [np.zeros(1, np.int32), 3], seconds=seconds)
    assert name == "CUDA_ERROR_LAUNCH_TIMEOUT"
    assert text == (
        f"the kernel does not end: {reason}the limit that DEVMOD_STANDIN_KERNEL_SECONDS sets "
        "(0 for no limit), kernel k, block (0, 0, 0), thread (0, 0, 0)"
    )


@pytest.mark.volume
def test_a_long_loop_ends() -> None:
    """It runs more blocks of instructions than 2**22."""
    source = 'extern "C" __global__ void k(int *o, int n) { for (int i = 0; i < n; i++) *o = *o * 5 + i; }'
    out = run_source(source, 1, 1, [np.zeros(1, np.int32), (1 << 22) + 4])
    assert out.tolist() != [0]


def test_a_trap_is_an_error() -> None:
    source = 'extern "C" __global__ void k(int *o) { if (threadIdx.x == 5) __trap(); o[threadIdx.x] = 1; }'
    assert error_of(source, 1, 32, [np.zeros(32, np.int32)]) == (
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "the kernel executed a trap instruction, kernel k, block (0, 0, 0), thread (5, 0, 0)",
    )


@pytest.mark.volume_but
def test_an_error_names_the_block_of_a_cluster() -> None:
    """The block above the first one is the second that runs in a cluster of two rows."""
    text = """.version 8.0 .target sm_90 .address_size 64
    .visible .entry k() {
        .reg .b32 %x, %y; .reg .pred %p;
        mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; sub.s32 %x, %y, %x;
        setp.eq.s32 %p, %x, 1; @%p trap; ret;
    }"""
    with pytest.raises(PtxError, match=r"kernel k, block \(0, 1, 0\), thread \(0, 0, 0\)"):
        run_ptx(text, "k", (2, 2), 1, [], cluster=(1, 2))


def test_an_assertion_is_an_error() -> None:
    source = (
        "#include <assert.h>\n"
        + 'extern "C" __global__ void k(int n) { assert(n + (int)threadIdx.x < 7 && "too many"); }'
    )
    assert error_of(source, 1, 32, [3]) == (
        "CUDA_ERROR_ASSERT",
        "kernel.cu:2: void k(int): assertion 'n + (int)threadIdx.x < 7 && \"too many\"' failed, kernel k, block (0, 0, 0), thread (4, 0, 0)",
    )


def test_a_stack_that_is_too_deep_is_an_error() -> None:
    source = """__device__ __noinline__ int down(int n, volatile int *p) { int a[64]; a[n % 64] = n; p[0] = n; return down(n + 1, p) + a[p[1] % 64] + a[3]; }
    extern "C" __global__ void k(int *o) { o[0] = down(0, o); }"""
    name, text = error_of(source, 1, 1024, [np.zeros(2, np.int32)])
    assert name == "CUDA_ERROR_LAUNCH_FAILED"
    assert text.startswith("the stack of a thread overflows at ")


def test_an_unknown_instruction_is_an_error_with_its_line() -> None:
    text = ptx_of('extern "C" __global__ void k(float *o) { o[0] = 1; }').replace(
        "ret;", "frobnicate.f32 %f1, %f1;\n\tret;"
    )
    line = text[: text.index("frobnicate")].count("\n") + 1
    with pytest.raises(PtxError) as caught:
        run_ptx(text, "k", 1, 1, [np.zeros(1, np.float32)])
    assert caught.value.name == "CUDA_ERROR_NOT_SUPPORTED"
    assert (
        caught.value.text == f"line {line}: frobnicate.f32: the interpreter lacks this instruction"
    )


def test_a_kernel_of_more_lanes_than_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "LANES", 100)
    source = 'extern "C" __global__ void k(int *o) { o[blockIdx.x * blockDim.x + threadIdx.x] = (blockIdx.z * gridDim.y + blockIdx.y) * 1000 + threadIdx.x + blockIdx.x; }'
    out = run_source(source, 7, 32, [np.zeros(7 * 32, np.int32)])
    assert_array_equal(out, [thread + block for block in range(7) for thread in range(32)])


def test_indices_of_three_dimensions() -> None:
    source = """extern "C" __global__ void k(int *o) {
        int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        o[block * blockDim.x * blockDim.y * blockDim.z + thread] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * threadIdx.x + 10000 * threadIdx.y + 100000 * threadIdx.z;
    }"""
    out = run_source(source, (2, 3, 4), (2, 3, 5), [np.zeros((4, 3, 2, 5, 3, 2), np.int32)])
    z, y, x, c, b, a = np.indices(out.shape)
    assert_array_equal(out, x + 10 * y + 100 * z + 1000 * a + 10000 * b + 100000 * c)
