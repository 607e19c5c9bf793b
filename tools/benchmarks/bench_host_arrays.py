"""The time of a call with NumPy arrays, ``f(x, y, n)``: devmod beside the bare packages pyopencl,
wgpu and vulkan.

    python tools/benchmarks/bench_host_arrays.py [--rounds 101] [--kinds opencl,webgpu,vulkan]

The kernel adds x to y. A call copies both arrays to the device, launches, and copies y back. With
pyopencl and wgpu each call makes its buffers; with vulkan the mapped buffers and the descriptor set
are reused. The line without a bound is for wgpu with everything reused. On each device of OpenCL,
the call with arrays of other libraries is beside that with NumPy arrays: buffers, DLPack, and JAX
where it is. The calls with large arrays are beside copies by hand. Each round runs every contender
several times, in an order of its own. The figures are the least over the rounds: the calls pass
work between threads, so other programs on the machine add more than their share. Those with large
arrays are medians: in few rounds the allocator has pages of the host for the copies. The exit code
is 1 if a ratio is over its bound.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import bare
import numpy as np
from timing import check, each_kind

import devmod

SOURCES = {
    "opencl": """
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void add(__global const float *x, __global float *y, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] += x[i];
}
""",
    "webgpu": """
struct Scalars { n: i32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> scalars: Scalars;
@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3u) {
    if i32(id.x) < scalars.n { y[id.x] += x[id.x]; }
}
""",
    "vulkan": """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { int n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] += x[i]; }
""",
}
#: The bytes of each array.
SIZES = (64, 4 << 10, 64 << 10, 1 << 20)
#: The most that the ratio to the bare package may be, up to a size and above it. Python and the
#: drivers have other proportions on each processor: with 64 B, WebGPU has 1.15 and 1.32, and Vulkan
#: 0.93 and 1.30, on two machines.
MOST = {
    "opencl": (1.8, 64 << 10, 1.25),
    "webgpu": (1.45, 64 << 10, 1.2),
    "vulkan": (1.45, 64 << 10, 1.15),
}
#: The same for arrays of another library, of the call with NumPy arrays.
MOST_OTHER = (1.4, 64 << 10, 1.2)

#: The most of a call without copies by hand, of a call that needs none.
MOST_PLACED = 1.3
#: The sizes of arrays that a device with the host's memory uses where they are, and the most of a
#: call with copies by hand.
LARGE = (1 << 20, 16 << 20)
COPIED = "with copies by hand"
PLACED = "in place by hand"
PLAIN = "NumPy's arrays"
EMPTY = "arrays of devmod.empty"
MOST_LARGE = {
    ("Intel(R) OpenCL", EMPTY): {1 << 20: 0.3, 16 << 20: 0.2},
    ("Intel(R) OpenCL", PLAIN): {1 << 20: 0.7, 16 << 20: 0.6},
    # By hand without copies, PoCL takes 0.27 and 0.24 on an Intel core, and 0.49 and 0.30 on AMD's,
    # where a copy costs less.
    ("Portable Computing Language", EMPTY): {1 << 20: 0.55, 16 << 20: 0.4},
    ("Portable Computing Language", PLAIN): {
        1 << 20: 1.25,
        16 << 20: 1.15,
    },  # they are copied: NumPy's alignment is less than PoCL's
}


def contenders(kind: str, size: int) -> dict[str, Callable[[], None]]:
    """Return the functions to measure by name. Each has arrays of its own, of `size` bytes."""
    module = devmod.compile(
        SOURCES[kind], kind, name="add", language="GLSL" if kind == "vulkan" else None
    )
    function = module["add"]
    n = size // 4
    grid = -(-n // bare.BLOCK)
    code = bytes(module.code["add"])[12:] if kind == "vulkan" else SOURCES[kind].encode()  # type: ignore[attr-defined]
    peer_type, package = bare.PEERS[kind]
    peer_types = {
        package: peer_type,
        **({"wgpu, reused": bare.WgpuReused} if kind == "webgpu" else {}),
    }
    x = np.ones(n, np.float32)
    y = np.zeros(n, np.float32)
    calls: dict[str, Callable[[], Any]] = {"devmod": lambda: function(x, y, n, grid=grid)}
    for name, make in peer_types.items():
        peer = make(code, module.functions["add"].name)
        result = np.zeros(n, np.float32)
        calls[name] = partial(peer, x, result, n, grid)
        for call in (calls["devmod"], calls[name]):
            y[:] = result[:] = 0
            for _ in range(3):
                call()
            assert (y if call is calls["devmod"] else result).min() == 3
    return calls


class Exporter:
    """An array of a library that has DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.__dlpack__ = array.__dlpack__
        self.__dlpack_device__ = array.__dlpack_device__


def other_arrays(index: int, size: int) -> dict[str, Callable[[], None]]:
    """Return calls on one OpenCL device, which chooses the block, by what holds the arrays: NumPy's
    first.
    """
    source = SOURCES["opencl"].replace("__attribute__((reqd_work_group_size(64, 1, 1))) ", "")
    function = devmod.compile(source, "opencl")["add"].on(devmod.device("opencl", index))
    n = size // 4
    x = np.ones(n, np.float32)
    y = np.zeros(n, np.float32)
    pairs: dict[str, tuple[Any, Any]] = {
        "NumPy": (x, y),
        "buffers": (x.data, y.data),
        "DLPack": (Exporter(x), Exporter(y)),
    }
    with suppress(ImportError):
        import jax.numpy

        pairs["JAX and NumPy"] = (jax.numpy.ones(n), y)
    return {name: partial(function, *pair, n, threads=n) for name, pair in pairs.items()}


def large_arrays(device: Any, size: int) -> dict[str, Callable[[], None]]:
    """Return calls on one OpenCL device: with copies by hand first, then without by hand, and
    devmod's by what made the arrays.
    """
    import pyopencl as cl

    n = size // 4
    flags = cl.mem_flags
    queue = device.default_stream.queue
    function = devmod.compile(SOURCES["opencl"], "opencl")["add"].on(device)
    function.open(device)  # devmod names a processor that PoCL does not know
    kernel = cl.Kernel(cl.Program(device.context, SOURCES["opencl"]).build(), "add")
    pairs = {
        PLAIN: (np.ones(n, np.float32), np.zeros(n, np.float32)),
        EMPTY: (devmod.empty(n, "f4"), devmod.empty(n, "f4")),
    }
    x, y = pairs[EMPTY]
    x[:] = 1
    y[:] = 0

    def by_hand(how: int) -> Any:
        source = cl.Buffer(device.context, flags.READ_ONLY | how, hostbuf=x)
        result = cl.Buffer(device.context, flags.READ_WRITE | how, hostbuf=y)
        kernel(queue, (n,), (bare.BLOCK,), source, result, np.int32(n))
        return result

    def copied() -> None:
        cl.enqueue_copy(queue, y, by_hand(flags.COPY_HOST_PTR))

    def in_place() -> None:
        mapped: Any = cl.enqueue_map_buffer(
            queue, by_hand(flags.USE_HOST_PTR), cl.map_flags.READ, 0, (n,), np.dtype("f4")
        )[0]
        mapped.base.release(queue)

    return {
        COPIED: copied,
        PLACED: in_place,
        **{name: partial(function, *pair, n, threads=n) for name, pair in pairs.items()},
    }


def compare_large_arrays(rounds: int) -> bool:
    """Measure the calls that need no copy on each OpenCL device. Return whether a bound is
    exceeded.
    """
    missed = False
    for device in (each for each in devmod.devices() if each.kind == "opencl"):
        platform = device.platform  # type: ignore[attr-defined]
        for size in LARGE:
            results = least(large_arrays(device, size), rounds, statistics.median)
            for name, peer, most in (
                (PLACED, COPIED, None),
                *(
                    (name, COPIED, MOST_LARGE.get((platform, name), {}).get(size))
                    for name in (PLAIN, EMPTY)
                ),
                (EMPTY, PLACED, MOST_PLACED),
            ):
                what = f"opencl:{device.index} ({platform}), a call of {size >> 20} MB, {name}"
                ratio = results[name] / results[peer]
                over = most is not None and check(what, ratio, most, of=f"the call {peer}")
                missed |= over
                bound = "" if most is None else f" (at most {most:g}){'  over' * over}"
                print(
                    f"{what:<82} {results[name]:8.1f} µs  {peer} {results[peer]:8.1f} µs  ratio {ratio:5.2f}{bound}",
                    flush=True,
                )
    return missed


def bound_of(most: tuple[float, int, float], size: int) -> float:
    """Return the bound for arrays of `size` bytes."""
    few, limit, many = most
    return few if size <= limit else many


def compare_arrays(rounds: int) -> bool:
    """Measure the calls with arrays of other libraries on each OpenCL device. Return whether a
    bound is exceeded.
    """
    missed = False
    for device in (each for each in devmod.devices() if each.kind == "opencl"):
        for size in SIZES:
            most = bound_of(MOST_OTHER, size)
            numpy, *others = (results := least(other_arrays(device.index, size), rounds)).values()
            for name, time_ in zip(list(results)[1:], others, strict=True):
                what = f"opencl:{device.index} ({device.platform}), a call with {name} of {size >> 10 or 1 / 16:g} kB"  # type: ignore[attr-defined]
                over = check(what, time_ / numpy, most, of="the call with NumPy arrays")
                missed |= over
                ratio = f"ratio {time_ / numpy:5.2f} (at most {most:g}){'  over' * over}"
                print(f"{what:<72} {time_:8.1f} µs  NumPy {numpy:8.1f} µs  {ratio}", flush=True)
    return missed


def least(
    calls: dict[str, Callable[[], None]],
    rounds: int,
    figure: Callable[[list[float]], float] = min,
) -> dict[str, float]:
    """Return the least time of each call in µs, or another figure of the rounds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    repeats = 3  # few, so that some rounds find the machine without other work
    order = list(calls)
    for round_ in range(rounds):
        random.Random(round_).shuffle(order)
        for name in order:
            call = calls[name]
            call()  # the other contender has replaced what the processor's caches had
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            times[name].append((time.perf_counter() - start) / repeats * 1e6)
    return {name: figure(each) for name, each in times.items()}


def compare(kind: str, size: int, rounds: int) -> bool:
    """Measure one kind and size, and print its lines. Return whether the bound is exceeded."""
    calls = contenders(kind, size)
    ours, *others = least(calls, rounds).values()
    most = bound_of(MOST[kind], size)
    what = f"{kind}, a call with two NumPy arrays of {f'{size} B' if size < 1024 else f'{size >> 10} kB'}"
    missed = False
    for package, theirs in zip(list(calls)[1:], others, strict=True):
        bound = ""
        if package == bare.PEERS[kind][1]:
            over = check(what, ours / theirs, most, of=f"{package} by hand")
            missed |= over
            bound = f" (at most {most:g}){'  over' * over}"
        print(
            f"{what:<48} {ours:8.1f} µs  {package:>12} {theirs:8.1f} µs  ratio {ours / theirs:5.2f}{bound}",
            flush=True,
        )
    return missed


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=401)
    parser.add_argument("--kinds", default=",".join(SOURCES))
    options = parser.parse_args()

    def measure(kind: str) -> bool:
        missed = [compare(kind, size, options.rounds) for size in SIZES]
        if kind == "opencl":
            missed += [compare_arrays(options.rounds), compare_large_arrays(options.rounds // 4)]
        return any(missed)

    with tempfile.TemporaryDirectory() as folder:
        if "opencl" in options.kinds:
            bare.share_device(Path(folder))
        return int(each_kind(options.kinds, lambda kind, _: measure(kind)))


if __name__ == "__main__":
    sys.exit(main())
