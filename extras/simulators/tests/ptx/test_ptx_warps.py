"""Warp operations, atomics, clusters and cooperative grids in the interpreter of PTX."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from cuda_sources import run_source
from numpy.testing import assert_array_equal
from ptx_snippets import run_snippet
from ptx_sources import ptx_of

from devmod_simulators.ptx import Launch, Machine, PtxError, run_ptx


@pytest.fixture
def numbers() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 1000, 96).astype(np.int32)


def test_shuffles(numbers: np.ndarray) -> None:
    source = """extern "C" __global__ void k(const int *x, int *o) {
        int i = threadIdx.x, n = blockDim.x, v = x[i];
        o[i] = __shfl_sync(~0u, v, 5, 8);
        o[n + i] = __shfl_up_sync(~0u, v, 3, 16);
        o[2 * n + i] = __shfl_down_sync(~0u, v, 7);
        o[3 * n + i] = __shfl_xor_sync(~0u, v, 9);
        o[4 * n + i] = __shfl_sync(~0u, v, i * 7);
    }"""
    out = run_source(source, 1, 96, [numbers, np.zeros((5, 96), np.int32)])
    lane, warp = np.arange(96) % 32, np.arange(96) // 32 * 32
    assert_array_equal(out[0], numbers[np.arange(96) // 8 * 8 + 5])
    assert_array_equal(out[1], numbers[np.arange(96) - np.where(lane % 16 >= 3, 3, 0)])
    assert_array_equal(out[2], numbers[np.arange(96) + np.where(lane + 7 < 32, 7, 0)])
    assert_array_equal(out[3], numbers[warp + (lane ^ 9)])
    assert_array_equal(out[4], numbers[warp + np.arange(96) * 7 % 32])


def test_shuffles_tell_whether_the_source_is_in_range() -> None:
    source = """extern "C" __global__ void k(int *o) {
        int v, p;
        asm volatile("{.reg .pred q; shfl.sync.up.b32 %0|q, %2, 4, 0x0, -1; selp.s32 %1, 1, 0, q;}" : "=r"(v), "=r"(p) : "r"(threadIdx.x));
        o[threadIdx.x] = v * 10 + p;
    }"""
    out = run_source(source, 1, 32, [np.zeros(32, np.int32)])
    assert_array_equal(out, [i * 10 if i < 4 else (i - 4) * 10 + 1 for i in range(32)])


@pytest.mark.volume_but
def test_a_vote_without_a_mask_is_one_of_all_lanes_that_run() -> None:
    """PTX for processors before Volta has no masks."""
    flags = np.arange(32) % 3 == 0
    flags[30:] = True  # the lanes 24 to 31 do not vote
    body = """
        mov.u32 %o, 0; mov.u32 %p, 0; mov.u32 %q, 0; mov.u32 %r, 0;
        setp.gt.u32 %v, %b, 23; @%v bra END;
        vote.ballot.b32 %o, %qa;
        vote.any.pred %w, %qa; selp.u32 %p, 1, 0, %w;
        vote.all.pred %w, %qa; selp.u32 %q, 1, 0, %w;
        vote.uni.pred %w, !%qa; selp.u32 %r, 1, 0, %w;
        END:"""
    for each, expected in ((flags, (0x249249, 1, 0, 0)), (np.ones(32, bool), (0xFFFFFF, 1, 1, 1))):
        inputs = [("pred", each), ("u32", np.arange(32))]
        out = run_snippet(body, inputs, "u32", "u32", "u32", "u32")
        for result, value in zip(out, expected, strict=True):
            assert_array_equal(result, [value] * 24 + [0] * 8)


def test_votes_and_matches(numbers: np.ndarray) -> None:
    source = """extern "C" __global__ void k(const int *x, unsigned *o) {
        int i = threadIdx.x, n = blockDim.x, v = x[i], all;
        o[i] = __ballot_sync(~0u, v & 1);
        o[n + i] = __any_sync(~0u, v > 980);
        o[2 * n + i] = __all_sync(~0u, v > 10);
        o[3 * n + i] = __match_any_sync(~0u, v & 3);
        o[4 * n + i] = __match_all_sync(~0u, v > 2000, &all);
        o[5 * n + i] = all;
        o[6 * n + i] = __reduce_add_sync(~0u, v);
        o[7 * n + i] = __reduce_max_sync(~0u, v);
        if (v & 1) o[8 * n + i] = __activemask();
    }"""
    out = run_source(source, 1, 96, [numbers, np.zeros((9, 96), np.uint32)])
    warps = numbers.reshape(3, 32)

    def bits(flags: np.ndarray) -> np.ndarray:
        return (flags.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(-1)

    def each(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, 32)

    odd = bits(warps & 1)
    assert_array_equal(out[0], each(odd))
    assert_array_equal(out[1], each((warps > 980).any(1)))
    assert_array_equal(out[2], each((warps > 10).all(1)))
    same = (warps[:, :, None] & 3) == (warps[:, None, :] & 3)
    assert_array_equal(out[3], bits(same).reshape(-1))
    assert (out[4] == 0xFFFFFFFF).all()
    assert (out[5] == 1).all()
    assert_array_equal(out[6], each(warps.sum(1)))
    assert_array_equal(out[7], each(warps.max(1)))
    assert_array_equal(out[8], np.where(numbers & 1, each(odd), 0))


def test_lanes_wait_for_those_of_their_mask() -> None:
    source = """extern "C" __global__ void k(int *o, int n) {
        int v = threadIdx.x, upper = v / 16, mine = v % 16;
        unsigned mask = upper ? 0xffff0000u : 0x0000ffffu;
        for (int i = 0; i < mine % 4; i++) v = v * 3 + n;
        for (int i = 0; i < (upper ? 3 : 5); i++) v = __shfl_sync(mask, v, mine + 1, 16) + (mine % 4 == 0 ? i : 0);
        o[threadIdx.x] = v;
    }"""
    out = run_source(source, 1, 32, [np.zeros(32, np.int32), 1])
    expected = []
    for upper in (0, 1):
        values = [16 * upper + mine for mine in range(16)]
        for mine in range(16):
            for _ in range(mine % 4):
                values[mine] = values[mine] * 3 + 1
        for i in range(3 if upper else 5):
            values = [values[(mine + 1) % 16] + (i if mine % 4 == 0 else 0) for mine in range(16)]
        expected += values
    assert_array_equal(out, expected)


@pytest.mark.parametrize("lanes_per_address", [1, 3, 64, 4096])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_give_each_lane_the_old_value(lanes_per_address: int, space: str) -> None:
    total = 4096
    addresses = total // lanes_per_address
    source = """extern "C" __global__ void k(unsigned *m, unsigned *old, const unsigned *v, int per, int n) {
        extern __shared__ unsigned s[];
        for (int i = threadIdx.x; i < 6 * n; i += blockDim.x) s[i] = m[i];
        __syncthreads();
        for (int i = threadIdx.x; i < 4096; i += blockDim.x) {
            unsigned *p = PLACE + i % n;
            old[i] = atomicAdd(p, v[i]);
            old[4096 + i] = atomicMax(p + n, v[i]);
            old[8192 + i] = atomicMin((int *)p + 2 * n, (int)v[i]);
            old[12288 + i] = atomicExch(p + 3 * n, v[i]);
            old[16384 + i] = atomicXor(p + 4 * n, v[i]);
            old[20480 + i] = atomicInc(p + 5 * n, 10);
        }
        __syncthreads();
        if (SHARED) for (int i = threadIdx.x; i < 6 * n; i += blockDim.x) m[i] = s[i];
    }""".replace("PLACE", "m" if space == "global" else "s").replace(
        "SHARED", str(int(space == "shared"))
    )
    random = np.random.default_rng(4)
    memory = random.integers(0, 2**32, (6, addresses), dtype=np.uint32)
    memory[5] %= 11
    values = random.integers(0, 2**32, total, dtype=np.uint32)
    before, old = memory.copy(), np.zeros((6, total), np.uint32)
    run_source(
        source,
        1,
        1024,
        [memory, old, values, lanes_per_address, addresses],
        shared_memory=24 * addresses,
    )
    wrap = 2**32
    updates = [
        lambda m, v: (m + v) % wrap,
        max,
        lambda m, v: min(m, v, key=lambda x: x - wrap if x >= wrap // 2 else x),
        lambda m, v: v,
        lambda m, v: m ^ v,
        lambda m, v: 0 if m >= 10 else m + 1,
    ]
    for row, update in enumerate(updates):
        for address in range(addresses):
            mine = range(address, total, addresses)
            # The values in some order: each old value is the state after those before it, so both
            # sets agree.
            state, states = int(before[row, address]), []
            for lane in mine:
                states.append(state)
                state = update(state, int(values[lane]))
            assert int(memory[row, address]) == state or row == 3
            if row in (0, 4, 5):
                assert states == old[row, address::addresses].tolist()
            else:
                assert sorted(states) == sorted(old[row, address::addresses].tolist())


def test_floating_point_atomics() -> None:
    source = """#include <cuda_fp16.h>
    extern "C" __global__ void k(float *f, double *d, __half2 *h, float *old) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        old[i] = atomicAdd(f + i % 3, 0.5f);
        atomicAdd(d + i % 5, 0.25);
        atomicAdd(h + i % 7, __floats2half2_rn(1.f, 2.f));
    }"""
    f, d, h, old = (
        np.zeros(3, np.float32),
        np.zeros(5),
        np.zeros((7, 2), np.float16),
        np.zeros(256, np.float32),
    )
    run_source(source, 2, 128, [f, d, h, old])
    counts = [np.bincount(np.arange(256) % each) for each in (3, 5, 7)]
    assert_array_equal(f, counts[0] * 0.5)
    assert_array_equal(d, counts[1] * 0.25)
    assert_array_equal(h, counts[2][:, None] * np.array([1, 2]))
    for first in range(3):
        assert sorted(old[first::3].tolist()) == [
            0.5 * number for number in range(counts[0][first])
        ]


def test_compare_and_swap_loops() -> None:
    source = """extern "C" __global__ void k(double *sum) {
        unsigned long long *p = (unsigned long long *)(sum + threadIdx.x % 4), old = *p, seen;
        do { seen = old; old = atomicCAS(p, seen, __double_as_longlong(1.5 + __longlong_as_double(seen))); } while (seen != old);
    }"""
    total = run_source(source, 4, 64, [np.zeros(4)])
    assert (total == 96).all()


def test_a_cooperative_grid_synchronizes() -> None:
    source = """#include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(int *a, int *sums, int n) {
        auto grid = cg::this_grid();
        int i = grid.thread_rank();
        for (int r = 0; r < 3; r++) {
            a[i] += r + 1;
            grid.sync();
            int v = a[(i + 37) % n];
            grid.sync();
            a[i] = v;
            grid.sync();
        }
        auto warp = cg::tiled_partition<32>(cg::this_thread_block());
        int s = cg::reduce(warp, a[i], cg::plus<int>());
        if (warp.thread_rank() == 0) sums[i / 32] = s;
    }"""
    a = np.arange(512, dtype=np.int32)
    sums = np.zeros(16, np.int32)
    expected = a.copy()
    for r in range(3):
        expected = np.roll(expected + r + 1, -37)
    run_source(source, 8, 64, [a, sums, 512], cooperative=True)
    assert_array_equal(a, expected)
    assert_array_equal(sums, expected.reshape(-1, 32).sum(1))


def test_a_cluster_reads_the_shared_memory_of_its_blocks() -> None:
    source = """#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(2, 2, 1) k(int *o) {
        __shared__ int s[32];
        auto cluster = cg::this_cluster();
        int block = blockIdx.y * gridDim.x + blockIdx.x;
        s[threadIdx.x] = block * 100 + threadIdx.x;
        cluster.sync();
        int *p = cluster.map_shared_rank(s, (cluster.block_rank() + 1) % 4);
        o[block * 32 + threadIdx.x] = p[31 - threadIdx.x];
        cluster.sync();
    }"""
    out = run_source(source, (4, 4), 32, [np.zeros((4, 4, 32), np.int32)], cluster=(2, 2))
    for y, x in np.ndindex(4, 4):
        rank = (y % 2 * 2 + x % 2 + 1) % 4
        other = (y // 2 * 2 + rank // 2) * 4 + x // 2 * 2 + rank % 2
        assert_array_equal(out[y, x], other * 100 + 31 - np.arange(32))


def test_barriers_in_shared_memory() -> None:
    source = """#include <cuda/barrier>
    extern "C" __global__ void k(int *o) {
        __shared__ cuda::barrier<cuda::thread_scope_block> b;
        __shared__ int s[64];
        if (threadIdx.x == 0) init(&b, blockDim.x);
        __syncthreads();
        s[threadIdx.x] = threadIdx.x;
        b.arrive_and_wait();
        int v = s[63 - threadIdx.x];
        auto token = b.arrive();
        b.wait(std::move(token));
        s[threadIdx.x] = v * 2;
        b.arrive_and_wait();
        o[blockIdx.x * 64 + threadIdx.x] = s[(threadIdx.x + 1) % 64];
    }""".replace("std::move", "cuda::std::move")
    out = run_source(source, 3, 64, [np.zeros((3, 64), np.int32)])
    assert_array_equal(out, np.tile(2 * (63 - (np.arange(64) + 1) % 64), (3, 1)))


def test_asynchronous_copies() -> None:
    source = """#include <cuda/barrier>
    #include <cuda_pipeline.h>
    namespace ptx = cuda::ptx;
    extern "C" __global__ void k(const float4 *x, float4 *o, float4 *p) {
        __shared__ alignas(16) float4 s[64], t[64];
        __shared__ cuda::barrier<cuda::thread_scope_block> b;
        __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 16);
        __pipeline_commit();
        if (threadIdx.x == 0) init(&b, blockDim.x);
        __pipeline_wait_prior(0);
        __syncthreads();
        if (threadIdx.x == 0) cuda::memcpy_async(t, x, cuda::aligned_size_t<16>(sizeof t), b);
        b.arrive_and_wait();
        o[threadIdx.x] = s[63 - threadIdx.x];
        p[threadIdx.x] = t[threadIdx.x ^ 1];
    }"""
    x = np.random.default_rng(7).random((64, 4), np.float32)
    o, p = np.zeros_like(x), np.zeros_like(x)
    run_source(source, 1, 64, [x, o, p])
    assert_array_equal(o, x[::-1])
    assert_array_equal(p, x[np.arange(64) ^ 1])


POLICY = """.version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 x, .param .u64 o) {
    .reg .b64 %x, %o, %p; .reg .b32 %t, %s, %a, %b, %c, %d; .reg .pred %q;
    .shared .align 16 .b32 s[32];
    ld.param.u64 %x, [x]; ld.param.u64 %o, [o]; mov.u32 %t, %tid.x;
    mad.wide.u32 %x, %t, 16, %x; mad.wide.u32 %o, %t, 16, %o;
    shl.b32 %s, %t, 4; mov.u32 %a, s; add.u32 %s, %s, %a;
    mov.b64 %p, 5; setp.eq.u32 %q, %t, 3; """
POLICY_END = "cp.async.wait_all; ld.shared.v4.u32 {%a, %b, %c, %d}, [%s]; st.v4.b32 [%o], {%a, %b, %c, %d}; ret; }"
COPY = "cp.async.cg.shared.global"
ROW = np.arange(1, 33, dtype=np.uint32).reshape(8, 4) * 0x01030507
THIRD = np.arange(8)[:, None] == 3


@pytest.mark.volume_but
@pytest.mark.parametrize(
    ("body", "expected"),
    {
        "a copy": (f"{COPY}.L2::cache_hint.L2::128B [%s], [%x], 16, %p;", ROW),
        "a copy of some bytes": (
            f"mov.b32 %a, 8; {COPY}.L2::cache_hint [%s], [%x], 16, %a, %p;",
            ROW * [1, 1, 0, 0],
        ),
        "a copy of lanes": (f"{COPY}.L2::cache_hint [%s], [%x], 16, %q, %p;", ROW * ~THIRD),
        "a copy of other lanes": (f"{COPY} [%s], [%x], 16, !%q;", ROW * THIRD),
        "a load": (
            "ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 {%a, %b, %c, %d}, [%x], %p;"
            "st.shared.v4.b32 [%s], {%d, %c, %b, %a};",
            ROW[:, ::-1],
        ),
        "a store": (
            "st.global.L2::cache_hint.v2.b32 [%x], {%t, 7}, %p; ld.v4.u32 {%a, %b, %c, %d}, [%x];"
            "st.shared.v4.b32 [%s], {%a, %b, %c, %d};",
            np.column_stack([np.arange(8), np.full(8, 7), ROW[:, 2:]]),
        ),
        "atomics": (
            "red.global.L2::cache_hint.add.u32 [%x], 9, %p;"
            "atom.global.add.L2::cache_hint.u32 %a, [%x], 1, %p;"
            "atom.global.cas.L2::cache_hint.b32 %b, [%x+4], %t, 1, %p;"
            "ld.global.u32 %c, [%x]; st.shared.v4.b32 [%s], {%a, %b, %c, 0};",
            np.column_stack([ROW[:, 0] + 9, ROW[:, 1], ROW[:, 0] + 10, np.zeros(8)]),
        ),
        "a copy of a block": (
            f"{COPY} [%s], [%x], 16;"
            "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%o], [%s], 16, %p;"
            "cp.async.bulk.wait_group 0; ld.global.v4.u32 {%a, %b, %c, %d}, [%o];"
            "st.shared.v4.b32 [%s], {%b, %a, %d, %c};",
            ROW[:, [1, 0, 3, 2]],
        ),
    }.values(),
)
def test_a_policy_for_a_cache_changes_no_result(body: str, expected: np.ndarray) -> None:
    out = np.zeros((8, 4), np.uint32)
    run_ptx(POLICY + body + POLICY_END, "k", 1, 8, [ROW.copy(), out])
    assert_array_equal(out, expected)


@pytest.mark.parametrize("policy", ["", ", %a", ", [%x]"])
def test_a_policy_for_a_cache_is_a_register(policy: str) -> None:
    body = f"ld.global.L2::cache_hint.u32 %a, [%x]{policy};"
    with pytest.raises(PtxError) as raised:
        run_ptx(POLICY + body + POLICY_END, "k", 1, 8, [ROW.copy(), ROW.copy()])
    assert str(raised.value) == (
        "CUDA_ERROR_INVALID_PTX: line 8: ld.global.L2::cache_hint.u32: the last operand is no "
        "64-bit register with a cache policy"
    )


@pytest.mark.volume_but
@pytest.mark.parametrize("bytes_each", [0, 16])
def test_a_bulk_copy_may_have_no_bytes(bytes_each: int) -> None:
    source = """extern "C" __global__ void k(int4 *o, int bytes) {
        __shared__ int4 s[2];
        s[threadIdx.x] = {7, 7, 7, 7};
        unsigned place = __cvta_generic_to_shared(s + threadIdx.x);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
            :: "l"(o + threadIdx.x), "r"(place), "r"(bytes) : "memory");
    }"""
    out = run_source(source, 1, 2, [np.zeros(8, np.int32), bytes_each])
    assert_array_equal(out, [7 if bytes_each else 0] * 8)


TENSOR_COPY = """struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void k(const __grid_constant__ Map from, const __grid_constant__ Map to, float *o, int x, int y) {
    __shared__ alignas(1024) float s[8][8];
    __shared__ unsigned long long barrier;
    unsigned place = __cvta_generic_to_shared(s), b = __cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" :: "r"(b));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            :: "r"(place), "l"(&from), "r"(x), "r"(y), "r"(b) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(b) : "memory");
    o[threadIdx.x] = s[threadIdx.x / 8][threadIdx.x % 8];
    s[threadIdx.x / 8][threadIdx.x % 8] += 100;
    __syncthreads();
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %4, 0; @p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3]; }"
        :: "l"(&to), "r"(y), "r"(x), "r"(place), "r"(threadIdx.x) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}"""


@pytest.mark.volume_but("1")
@pytest.mark.parametrize("swizzle", [0, 1])
def test_boxes_of_tensors_are_copied(swizzle: int) -> None:
    machine = Machine()
    rows, columns = 20, 12
    tensor = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    source, target, out = (machine.allocate(size) for size in (tensor.nbytes, tensor.nbytes, 256))
    machine.write(source, tensor)
    machine.write(target, np.full_like(tensor, -1))

    def descriptor(address: int) -> bytes:
        """Return the fields of two dimensions; those of the others are zeros."""
        form = "<8sQ2Q24xQ24xII2H6x2H6x4B"
        sizes = columns, rows, columns * 4
        fields = b"standin", address, *sizes, 7, 2, 8, 8, 1, 1, 0, swizzle, 0, 0
        return struct.pack(form, *fields).ljust(128, b"\0")

    module = machine.load(ptx_of(TENSOR_COPY))
    x, y = 6, -3
    block = descriptor(source) + descriptor(target) + struct.pack("<Qii", out, x, y)
    machine.launch(module, "k", Launch((1, 1, 1), (64, 1, 1), block))
    wide = np.zeros((64, 64), np.float32)
    wide[16 : 16 + rows, 16 : 16 + columns] = tensor
    box = wide[16 + y : 24 + y, 16 + x : 24 + x]
    # The lines of 32 bytes in which a row lies are exchanged in every second group of four rows.
    stored = (
        box
        if not swizzle
        else np.array(
            [np.roll(row, 4) if number // 4 % 2 else row for number, row in enumerate(box)]
        )
    )
    assert_array_equal(machine.read(out, np.zeros((8, 8), np.float32)), stored)
    expected = np.full((64, 64), -1, np.float32)
    expected[16 + x : 24 + x, 16 + y : 24 + y] = box + 100
    assert_array_equal(machine.read(target, tensor), expected[16 : 16 + rows, 16 : 16 + columns])


MADE_MAP = """.version 8.6\n.target sm_90a\n.address_size 64
    .visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3) {
        .reg .b64 %x, %map, %out, %m, %a, %g; .reg .b32 %t, %i, %n; .reg .pred %p, %q;
        .shared .align 128 .b8 made[128]; .shared .align 128 .b8 box[96];
        .shared .align 8 .b64 barrier;
        ld.param.u64 %x, [p0]; ld.param.u64 %map, [p1]; ld.param.u64 %out, [p2];
        ld.param.u32 %n, [p3]; mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0;
        mov.u32 %i, %ctaid.x; mul.wide.u32 %a, %i, 128; add.u64 %map, %map, %a;
        mul.wide.u32 %a, %i, 96; add.u64 %out, %out, %a;
        mul.wide.u32 %a, %i, 96; add.u64 %x, %x, %a;
        mov.u64 %m, made; mul.wide.u32 %a, %t, 4; add.u64 %a, %m, %a; mov.u32 %i, 0;
        st.shared.u32 [%a], %i; bar.warp.sync -1;
        @%p bra COPY;
        cvta.shared.u64 %g, %m;
        tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%m], %x;
        tensormap.replace.tile.rank.shared::cta.b1024.b32 [%m], 1;
        tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%m], 0, 8;
        tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%m], 1, %n;
        tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%m], 0, 10;
        tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%m], 1, 7;
        tensormap.replace.tile.global_stride.b1024.b64 [%g], 0, 48;
        tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%m], 0, 1;
        tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%m], 1, 1;
        tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%m], 8;
        tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%m], 0;
        tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [%m], 0;
        tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%m], 0;
        mov.u64 %a, barrier; mbarrier.init.shared.b64 [%a], 1;
    COPY:
        bar.warp.sync -1;
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%map], [%m], 128;
        fence.proxy.tensormap::generic.acquire.gpu [%map], 128;
        @%p bra WAIT;
        tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%map], 1;
        mbarrier.arrive.expect_tx.shared.b64 %g, [%a], 96;
        mov.u64 %g, box;
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%g], [%map, {4, 1}], [%a];
    WAIT:
        bar.warp.sync -1; mov.u64 %a, barrier;
        mbarrier.test_wait.parity.shared.b64 %q, [%a], 0; @!%q trap;
        setp.ge.u32 %p, %t, 24; @%p ret;
        mul.wide.u32 %a, %t, 4; add.u64 %out, %out, %a; mov.u64 %g, box; add.u64 %a, %g, %a;
        ld.shared.u32 %i, [%a]; st.global.u32 [%out], %i; ret; }"""


@pytest.mark.volume_but
def test_a_kernel_makes_a_descriptor_in_zeros() -> None:
    """The tensor of the second block begins two rows further on. A box of 3 rows begins at column 4
    of row 1. The tensor ends behind column 9.
    """
    rows = np.arange(9 * 12, dtype=np.float32).reshape(9, 12)
    made = np.full((2, 16), 7, np.uint64)
    out = np.full((2, 3, 8), -1, np.float32)
    run_ptx(MADE_MAP, "k", 2, 32, [rows.reshape(-1), made, out, 3])
    boxes = np.zeros((2, 3, 8), np.float32)
    boxes[0, :, :6] = rows[1:4, 4:10]
    boxes[1, :, :6] = rows[3:6, 4:10]
    # The box lies in the second 128 bytes, where the swizzle exchanges the pieces of 16 bytes.
    assert_array_equal(out, np.roll(boxes, 4, axis=2))
    for each in made:
        fields = struct.unpack("<8s8x2Q24xQ24xII2H6x2H6x4B8x", each.tobytes())
        assert fields == (bytes(8), 10, 7, 48, 10, 2, 8, 3, 1, 1, 0, 1, 0, 0)


@pytest.mark.parametrize(
    ("change", "rows", "expected"),
    [
        (("", ""), 0, "expected a box of 1 to 256 elements in each dimension, got [8, 0]"),
        (("", ""), 65539, "expected a box of 1 to 256 elements in each dimension, got [8, 65535]"),
        (("rank.shared::cta.b1024.b32 [%m], 1", "rank.shared::cta.b1024.b32 [%m], 5"), 3, "the operand is no tensor map"),
        (("[%m], 1, 7", "[%m], 1, 0"), 3, "the operand is no tensor map"),
        (("[%m], 8;", "[%m], 13;"), 3, "the interpreter lacks tensor maps with"),
        (("swizzle_mode.global.b1024.b32 [%map], 1", "swizzle_mode.global.b1024.b32 [%map], 4"), 3, "the interpreter lacks tensor maps with"),
        (("swizzle_atomicity.shared::cta.b1024.b32 [%m], 0", "swizzle_atomicity.shared::cta.b1024.b32 [%m], 2"), 3, "the interpreter lacks tensor maps with"),
        (("fill_mode.shared::cta.b1024.b32 [%m], 0", "fill_mode.shared::cta.b1024.b32 [%m], 1"), 3, "the interpreter lacks tensor maps with"),
        (("[%g], 0, 48", "[%g], 4, 48"), 3, "expected a dimension of 0 to 3"),
        (("[%m], 128", "[%m], 64"), 3, "expected 128 bytes"),
    ],
)  # fmt: skip
def test_a_descriptor_that_a_kernel_makes_wrongly_is_an_error(
    change: tuple[str, str], rows: int, expected: str
) -> None:
    with pytest.raises(PtxError, match=re.escape(expected)):
        run_ptx(
            MADE_MAP.replace(*change),
            "k",
            1,
            32,
            [np.zeros(108, np.float32), np.zeros(16, np.uint64), np.zeros(24, np.float32), rows],
        )


@pytest.mark.volume_but
def test_a_shuffle_in_a_loop_takes_each_step_s_lane() -> None:
    source = """extern "C" __global__ void k(const int *x, int *o, int n) {
        int i = threadIdx.x, sum = 0;
        #pragma unroll 1
        for (int step = 0; step < n; step++) {
            sum = sum * 3 + __shfl_sync(~0u, x[i] + step, i + step * step) - __shfl_up_sync(~0u, x[i], step);
        }
        o[i] = sum;
    }"""
    x = np.random.default_rng(2).integers(0, 1000, 64)
    sums = np.zeros(64, np.int64)
    lane = np.arange(64)
    for step in range(20):
        warp = lane & ~31
        source_lane = warp + (lane + step * step) % 32
        above = np.where((lane & 31) >= step, lane - step, lane)
        sums = sums * 3 + x[source_lane] + step - x[above]
    out = run_source(source, 1, 64, [x.astype(np.int32), np.zeros(64, np.int32), 20])
    assert_array_equal(out, sums.astype(np.int32))


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_atomics_of_16_bytes(space: str) -> None:
    """Threads add one to both halves of a number, each with a loop around a comparison."""
    state = "" if space == "generic" else f".{space}"
    base = "%s" if space == "shared" else "%x"
    number = np.array([5, 2**63], np.uint64)
    out = np.zeros((40, 2), np.uint64)
    run_ptx(
        f""".version 8.4\n.target sm_90\n.address_size 64
    .visible .entry k(.param .u64 p0, .param .u64 p1) {{
        .reg .b64 %x, %y, %s, %lo, %hi, %lo2, %hi2; .reg .b32 %t; .reg .pred %q;
        .reg .b128 %old, %new, %was; .shared .align 16 .b8 area[16];
        ld.param.u64 %x, [p0]; ld.param.u64 %y, [p1]; mov.u64 %s, area; mov.u32 %t, %tid.x;
        mul.wide.u32 %lo, %t, 16; add.u64 %y, %y, %lo;
        ld.global.b128 %old, [%x]; st.shared.b128 [%s], %old; bar.sync 0;
    AGAIN:
        mov.b128 {{%lo, %hi}}, %old; add.u64 %lo2, %lo, 1; sub.u64 %hi2, %hi, 1;
        mov.b128 %new, {{%lo2, %hi2}};
        atom{state}.cas.b128 %was, [{base}], %old, %new;
        mov.b128 {{%lo2, %hi2}}, %was; setp.ne.u64 %q, %lo, %lo2; mov.b128 %old, %was;
        @%q bra AGAIN;
        st.global.b128 [%y], %old; bar.sync 0;
        setp.eq.u32 %q, %t, 0; ld{state}.b128 %old, [{base}];
        @%q st.global.b128 [%x], %old; ret; }}""",
        "k",
        1,
        40,
        [number, out],
    )
    assert number.tolist() == [45, 2**63 - 40]
    assert sorted(out[:, 0].tolist()) == list(range(5, 45))
    assert (out.sum(axis=1) == 5 + 2**63).all()


def test_an_exchange_of_16_bytes_gives_the_old_ones() -> None:
    number = np.array([1, 2], np.uint64)
    out = np.zeros(2, np.uint64)
    run_ptx(
        """.version 8.4\n.target sm_90\n.address_size 64
    .visible .entry k(.param .u64 p0, .param .u64 p1) {
        .reg .b64 %x, %y; .reg .b128 %old, %new;
        ld.param.u64 %x, [p0]; ld.param.u64 %y, [p1]; mov.b128 %new, {%x, %x};
        atom.global.exch.b128 %old, [%x], %new; st.global.b128 [%y], %old; ret; }""",
        "k",
        1,
        1,
        [number, out],
    )
    assert out.tolist() == [1, 2]
    assert number[0] == number[1] != 0


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("mbarrier.arrive.shared.b64 _, [%a];", "-1 arrivals and -2097152 bytes are missing"),
        (
            "mbarrier.init.shared.b64 [%a], 2; mbarrier.arrive.shared.b64 _, [%a], 3;",
            "-1 arrivals and 0 bytes are missing",
        ),
        (
            "mbarrier.init.shared.b64 [%a], 1; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%a], 1048576;",
            "1 arrivals and 1048576 bytes are missing",
        ),
        ("mbarrier.init.shared.b64 [%a], 1048576;", "1048576 arrivals and 0 bytes are missing"),
    ],
)
def test_an_mbarrier_without_room_for_its_numbers_is_an_error(body: str, missing: str) -> None:
    text = f""".version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k() {{ .reg .b32 %a; .shared .align 8 .b64 barrier;
    mov.u32 %a, barrier; {body} ret; }}"""
    with pytest.raises(PtxError) as caught:
        run_ptx(text, "k", 1, 1, [])
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_INSTRUCTION"
    assert caught.value.text.startswith(
        f"an mbarrier is not initialized, or has too many arrivals or bytes: {missing}, kernel k, block (0, 0, 0), thread (0, 0, 0)"
    )
