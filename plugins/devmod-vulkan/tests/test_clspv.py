"""Kernels of OpenCL C that clspv has compiled: the sizes of a call are those of its launch, and
arguments, samplers and constants are where the kernel reads them.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_kernels import packed

import devmod
from devmod import FunctionInfo, Local

FOLDER = Path(__file__).parent / "clspv"
KERNELS = FOLDER / "kernels.spv"
needs_wheel = pytest.mark.skipif(
    find_spec("clang") is None or find_spec("pyclspv") is None,
    reason="libclang or pyclspv is not installed",
)
OPTIONS = np.dtype(
    {
        "names": ["scale", "shift", "steps"],
        "formats": ["f4", ("f4", 3), ("i4", 2)],
        "offsets": [0, 16, 32],
        "itemsize": 48,
    }
)


def kernel(name: str, source: Path | str = KERNELS) -> devmod.Function:
    """Return a kernel. Skip on SwiftShader, which has no numbers of 8 and of 64 bits."""
    language = {str: "OpenCL C"}.get(type(source))
    try:
        return devmod.compile(source, "vulkan", language=language)[name]
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))


def refused(function: devmod.Function, *args: Any, **given: Any) -> str:
    with pytest.raises((devmod.ArgumentError, devmod.LaunchError)) as caught:
        function(*args, **given)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _needs_device(device: Any) -> None:
    """Skip without a device."""


def dot(f: devmod.Function, block: int, scratch: Local, blocks: int = 3) -> float:
    x = np.arange(1000, dtype=np.float32) % 7
    y = np.arange(1000, dtype=np.float32) % 5
    parts = np.full(blocks, np.nan, np.float32)
    f(x, y, parts, 1000, scratch, grid=blocks, block=block)
    assert float(x @ y) == parts.sum()
    return float(parts[0])


@pytest.mark.row("R34")
def test_the_block_and_the_local_memory_of_each_call_are_those_of_its_launch() -> None:
    f = kernel("dot_parts")
    parts = {dot(f, block, Local(4 * block)) for block in (1, 2, 16, 64, 128)}
    assert len(parts) == 5  # each block has its own parts
    # More memory than the kernel uses, and bytes for each thread.
    assert dot(f, 32, Local(4096)) == dot(f, 32, Local(per_thread=4))
    dot(f, 16, Local(61))  # rounded up to elements


@needs_wheel
def test_arrays_of_local_memory_have_their_last_element() -> None:
    """The sizes are no multiples of an element. Each array has its first and its last element, so
    one that is too short has one of them in the other array.
    """
    source = """kernel void k(global int *x, int last, local int *a, local int *b) {
    int thread = get_local_id(0);
    a[thread] = 100 + thread;
    b[thread] = 200 + thread;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thread == 0) {
        a[last] = 300;
        b[last] = 400;
        for (int i = 0; i < last; i++) {
            x[i] = a[i];
            x[last + i] = b[i];
        }
        x[2 * last] = a[last];
        x[2 * last + 1] = b[last];
    }
}"""
    k = kernel("k", source)
    for size in (57, 58, 59, 60):  # 15 elements
        x = np.zeros(30, np.int32)
        k(x, 14, Local(size), Local(size), grid=1, block=14)
        expected = [*range(100, 114), *range(200, 214), 300, 400]
        assert (size, x.tolist()) == (size, expected)


@needs_wheel
def test_local_memory_beside_the_kernels_own(device: Any) -> None:
    source = """kernel void k(global int *x, local int *a) {
    local int own[48];
    int thread = get_local_id(0);
    own[thread] = x[thread];
    a[thread] = own[thread] + 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    x[thread] = a[1 - thread] + own[1 - thread];
}"""
    k = kernel("k", source)
    memory = device.limits["maxComputeSharedMemorySize"]
    x = np.array([3, 5], np.int32)
    k(x, Local(memory - 192), grid=1, block=2)
    assert x.tolist() == [11, 7]
    assert refused(k, x, Local(memory - 191), grid=1, block=2) == (
        f"the vulkan function 'k' cannot be launched on {device}: its maxComputeSharedMemorySize is {memory}, got devmod.Local arguments of "
        f"{memory - 191} bytes, beside 192 bytes of the kernel"
    )


def test_calls_in_turn_and_prepared_launches_keep_their_sizes(device: Any) -> None:
    f = kernel("dot_parts")
    x = device.from_numpy(np.ones(256, np.float32))
    parts = device.zeros(2, "float32")
    wide = f.bind(x, x, parts, 256, Local(per_thread=4), grid=2, block=64)
    narrow = f.bind(x, x, parts, 128, Local(per_thread=4), grid=2, block=16)
    for launch, expected in ((wide, 256), (narrow, 128), (wide, 256)):
        launch()
        assert parts.numpy().sum() == expected
    for block in (64, 16, 64):  # plain calls
        for local in (Local(per_thread=4), Local(1024)):
            f(x, x, parts, 256, local, grid=2, block=block)
            assert parts.numpy().sum() == 256
    assert wide.time() >= 0


def test_many_sizes_work_though_few_pipelines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmod_vulkan._sized._MOST", 4)
    f = kernel("dot_parts")
    for size in (*range(16, 24), 16):
        dot(f, 4, Local(4 * size), blocks=1)


def test_threads_may_call_with_other_sizes_at_once() -> None:
    f = kernel("dot_parts")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda block: dot(f, block, Local(4 * block)), [8, 16, 32, 64] * 4))


def test_a_call_gives_the_block_unless_the_kernel_requires_one() -> None:
    assert refused(kernel("launch"), np.zeros(5, np.uint32), grid=1) == (
        "the vulkan function 'launch' needs block=, the number of threads in a block: an int, or up to three ints for x, y, z"
    )
    f = kernel("fixed_block")
    assert f.block == (4, 2, 1)
    x = np.zeros(16, np.int32)
    f(x, -3, grid=(2, 1))
    assert x.tolist() == [-12] * 16
    assert refused(f, x, 1, grid=1, block=8) == (
        "the vulkan function 'fixed_block' is built for blocks of (4, 2, 1) threads, and (8, 1, 1) was given; omit block="
    )


@pytest.mark.parametrize(
    ("grid", "block", "seen"),
    [
        (1, 1, [1, 1, 1, 1, 0]),
        ((2, 1), (4, 1), [1, 4, 1, 1, 0]),
        ((2, 3), (4, 2), [2, 4, 2, 3, 0]),
        ((1, 1, 2), 2, [3, 2, 1, 1, 0]),
    ],
)
def test_the_functions_of_work_items(grid: Any, block: Any, seen: list[int]) -> None:
    x = np.zeros(5, np.uint32)
    kernel("launch")(x, grid=grid, block=block)
    assert x.tolist() == seen  # the dimensions, the block in x and y, the blocks in y, the offset


def test_blocks_and_local_memory_beyond_the_device(device: Any) -> None:
    f = kernel("dot_parts")
    x = np.zeros(4, np.float32)
    limits = device.limits
    most = limits["maxComputeWorkGroupInvocations"]
    text = refused(f, x, x, x, 4, Local(4), grid=1, block=(most, 2))
    assert re.search(r"its maxComputeWorkGroup(?:Size\[0\]|Invocations) is \d+", text)
    depth = limits["maxComputeWorkGroupSize[2]"]
    text = refused(f, x, x, x, 4, Local(4), grid=1, block=(1, 1, depth + 1))
    assert f"its maxComputeWorkGroupSize[2] is {depth}, got block=(1, 1, {depth + 1})" in text
    memory = limits["maxComputeSharedMemorySize"]
    assert refused(f, x, x, x, 4, Local(memory + 4), grid=1, block=1) == (
        f"the vulkan function 'dot_parts' cannot be launched on {device}: its maxComputeSharedMemorySize is {memory}, got devmod.Local "
        f"arguments of {memory + 4} bytes"
    )


def test_numbers_vectors_and_structs_by_value() -> None:
    f = kernel("values", FOLDER / "values.spv")
    options = np.zeros((), OPTIONS)
    options["scale"] = 1.5
    options["shift"] = 1, 2, 3
    options["steps"] = 4, 5
    x = np.zeros(5, np.float32)
    v = (1.0, 2.0, 7.0)
    f(x, options.tobytes(), -3, -(1 << 33), (1, 2, 3, 4), v, grid=1, block=1)
    assert x.tolist() == [6.5, 10.0, -3.0, -(2.0**33), 4.0]


def test_a_struct_that_is_too_large_for_push_constants() -> None:
    x = np.zeros(1, np.float32)
    table = np.arange(40, dtype=np.float32)
    kernel("table")(x, table.tobytes(), 39, grid=1, block=1)
    assert x[0] == 39


@needs_wheel
def test_threads_of_several_subgroups_add_floats_by_compare_and_exchange() -> None:
    source = """kernel void add(global float *sum, global const float *x) {
    volatile global int *bits = (volatile global int *)sum;
    int old;
    do {
        old = *bits;
    } while (atomic_cmpxchg(bits, old, as_int(as_float(old) + x[get_global_id(0)])) != old);
}"""
    add = kernel("add", source)
    total = np.zeros(1, np.float32)
    add(total, np.arange(64, dtype=np.float32), grid=2, block=32)
    assert total[0] == 2016


@needs_wheel
@pytest.mark.parametrize("order", ["", "_explicit", "_relaxed"])
@pytest.mark.parametrize("space", ["global", "local"])
def test_threads_of_several_subgroups_take_turns_of_atomics_with_an_order(
    space: str, order: str
) -> None:
    """Mesa's CPU device lost threads of these loops."""
    first = last = ""
    if order == "_explicit":
        first, last = ", memory_order_acquire", ", memory_order_acq_rel, memory_order_acquire"
    if order == "_relaxed":
        first, last = ", memory_order_relaxed", ", memory_order_relaxed, memory_order_relaxed"
    suffix = "_explicit" if order else ""
    atomic = "(volatile global atomic_int *)x" if space == "global" else "&own"
    source = f"""kernel void k(global int *x) {{
    local atomic_int own;
    if (get_local_id(0) == 0) atomic_store(&own, 0);
    barrier(CLK_LOCAL_MEM_FENCE);
    int old = atomic_load{suffix}({atomic}{first});
    for (int turn = 0; turn < 1000; turn++)
        if (atomic_compare_exchange_weak{suffix}({atomic}, &old, old + 2{last})) break;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) x[1 + get_group_id(0)] = atomic_load({atomic});
}}"""
    x = np.zeros(3, np.int32)
    devmod.compile(source, "vulkan", language="OpenCL C", options="-cl-std=CL2.0")["k"](
        x, grid=2, block=32
    )
    if space == "global":
        assert x[0] == 128
    else:
        assert x.tolist() == [0, 64, 64]


@needs_wheel
def test_a_thread_keeps_the_values_of_its_last_turn_of_a_loop() -> None:
    source = """kernel void k(global const uint *x, global uint *sums, global uint *y) {
    uint i = get_global_id(0), left = i, n = i % 7, bits = 0, loaded, sum;
    do {
        bits = bits << 1 | (left & 1);
        left >>= 1;
        loaded = x[i + n];
        sum = atomic_add(sums + i, n);
    } while (n-- > 0);
    y[i] = bits * 10000 + loaded * 100 + sum;
}"""
    k = kernel("k", source)
    x = np.arange(80, dtype=np.uint32)
    y = np.zeros(64, np.uint32)
    k(x, np.zeros_like(y), y, grid=2, block=32)
    for i, result in enumerate(y.tolist()):
        n = i % 7
        bits = int(f"{i:07b}"[::-1][: n + 1], 2)
        assert result == bits * 10000 + i * 100 + n * (n + 1) // 2


@needs_wheel
def test_an_address_of_the_last_turn_of_a_loop_is_computed_again_after_it() -> None:
    """A phi of an address needs a device with variable pointers."""
    source = """kernel void k(global const uint *x, global uint *turns, global uint *y) {
    uint i = get_global_id(0), n = i % 7, a = n, b, c;
    do {
        b = i ^ a;
        a = x[b];
    } while (n-- > 0);
    do {
        c = x[b];
        a += atomic_add(turns + i, 1);
    } while (a < 20);
    y[i] = a + c;
}"""
    x = np.arange(64, dtype=np.uint32) % 8
    y = np.zeros(64, np.uint32)
    kernel("k", source)(x, np.zeros_like(y), y, grid=2, block=32)
    for i, result in enumerate(y.tolist()):
        a = i % 7
        for _ in range(i % 7 + 1):
            a = (i ^ a) % 8
        c = a
        turn = 0
        while a < 20:
            a += turn
            turn += 1
        assert result == a + c


def test_the_samplers_of_the_source(device: Any) -> None:
    image = device.image_from_numpy(np.arange(16, dtype=np.float32).reshape(4, 4))
    x = np.zeros(4, np.float32)
    kernel("texels")(image, x, grid=1, block=1)
    # The edge's texel; between four texels of the mirrored image; the last of the row; the border.
    assert x.tolist() == [4.0, 2.5, 3.0, 0.0]


def test_numbers_and_constants_in_buffers_and_numbers_of_the_launch() -> None:
    f = kernel("modes", FOLDER / "modes.spv")
    x = np.zeros(6, np.int32)
    f(x.view(np.uint32), -2, grid=(3, 2), block=(4, 5))
    # The number, the constant, the blocks in x, the block in y, the threads in y, the offset.
    assert x.tolist() == [-2, 6, 3, 5, 10, 0]


def test_a_payload_without_an_interface_names_the_compile() -> None:
    module = devmod.create(
        "vulkan",
        {"launch": packed(KERNELS.read_bytes())},
        "spv",
        {"launch": FunctionInfo("launch", ["handle"])},
    )
    with pytest.raises(devmod.FormatError) as caught:
        module["launch"]
    assert str(caught.value) == (
        "the vulkan function 'launch' is a kernel of clspv, but the payload's fmap has no interface for it; compile the SPIR-V with devmod"
    )
