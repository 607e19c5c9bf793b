"""Running one shader out of a bundle of 1,000, beside running it out of a bundle of one.

    python benchmarks/bench_many_shaders.py [--shaders 1000] [--rounds 15]

For Vulkan and WebGPU, and for two shapes of file: one module with 1,000 entries, and 1,000 modules of one entry. The time is that
from `devmod.load` to the result of the first call, in a process whose device is open and has run another shader; the two files are
taken in turns. The shaders differ, so that no driver's cache knows the next one. Exits with 1 when the difference is more than devmod
promises.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import devmod

MOST = 20.0  # milliseconds

GLSL = """#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Data {{ float x[]; }};
layout(push_constant) uniform Push {{ int n; }};
void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) x[i] = x[i] * {a}.0 + {b}.0; }}
"""
WGSL = """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<uniform> n: i32;
@compute @workgroup_size(64)
fn {name}(@builtin(global_invocation_id) id: vec3<u32>) {{ if (i32(id.x) < n) {{ x[id.x] = x[id.x] * {a}.0 + {b}.0; }} }}
"""
Entry = tuple[str, bytes, devmod.FunctionInfo]


def make(kind: str, count: int) -> list[Entry]:
    """So many shaders that differ, each with its function; those of Vulkan are one compiled shader with other constants."""
    if kind == "webgpu":
        texts = {f"k{i}": WGSL.format(name=f"k{i}", a=i % 37 + 2, b=i) for i in range(count)}
        first = devmod.compile(texts["k0"], kind).functions["k0"]
        return [
            (name, text.encode(), devmod.FunctionInfo(name, first.arg_types, first.launch_param_tags, (), first.interface))
            for name, text in texts.items()
        ]
    marker, other = 12345.0, 54321.0
    module = devmod.compile(GLSL.format(a=int(marker), b=int(other)), kind, name="k", language="GLSL")
    (code,), info = module.code.values(), module.functions["k"]
    made = []
    for i in range(count):
        words = np.frombuffer(code, np.uint8).copy().view(np.uint32)
        for value, new in ((marker, i % 37 + 2), (other, i)):
            (at,) = np.flatnonzero(words == np.float32(value).view(np.uint32))
            words[at] = np.float32(new).view(np.uint32)
        made.append((f"k{i}", words.tobytes(), devmod.FunctionInfo(info.name, info.arg_types, info.launch_param_tags, (), info.interface)))
    return made


def write(path: Path, kind: str, entries: Sequence[Entry], *, one_module: bool) -> None:
    """The file, with one module of all entries or with one for each."""
    fmt = {"vulkan": "spv", "webgpu": "wgsl"}[kind]
    groups = [entries] if one_module else [[entry] for entry in entries]
    modules = [
        devmod.create_with_fallback(kind, {name: code for name, code, _ in group}, fmt, {name: info for name, _, info in group})
        for group in groups
    ]
    devmod.save(devmod.bundle(*modules) if len(modules) > 1 else modules[0], path)


def first_call(path: Path, name: str) -> float:
    """Milliseconds from the file to the result."""
    x = np.ones(64, np.float32)
    began = time.perf_counter()
    devmod.load(path)[name](x, 64, grid=1)
    seconds = time.perf_counter() - began
    number = int(name[1:])
    assert x[0] == number % 37 + 2 + number, f"{name} gave {x[0]}"
    return seconds * 1e3


def main() -> int:
    """Measure and print; gives the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shaders", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("vulkan", "webgpu"):
            try:
                devmod.device(kind)
                entries = make(kind, options.shaders)
            except (devmod.DeviceNotFoundError, devmod.ToolchainNotFoundError) as error:
                print(f"{kind}: not measured: {error}")
                continue
            singles = []
            for entry in entries[-options.rounds - 1 :]:
                singles.append(Path(folder) / f"{kind}-{entry[0]}.devmod")
                write(singles[-1], kind, [entry], one_module=True)
            for one_module in (True, False):
                many = Path(folder) / f"{kind}-{one_module}.devmod"
                write(many, kind, entries, one_module=one_module)
                failed |= compare(kind, many, singles, len(entries), one_module=one_module)
    return int(failed)


def compare(kind: str, many: Path, singles: Sequence[Path], count: int, *, one_module: bool) -> bool:
    """Measure the two files in turns and print a line; whether the bound was missed."""
    with_many: list[float] = []
    with_one: list[float] = []
    step = max(1, count // len(singles))
    first_call(singles[0], singles[0].stem.partition("-")[2])
    for round_, single in enumerate(singles[1:]):
        turns = [(with_many, many, f"k{round_ * step}"), (with_one, single, single.stem.partition("-")[2])]
        for times, path, name in turns if round_ % 2 else reversed(turns):
            times.append(first_call(path, name))
    more = statistics.median(with_many) - statistics.median(with_one)
    shape = f"one module of {count:,} shaders" if one_module else f"{count:,} modules of one shader"
    print(
        f"{kind:8} {shape:30} {statistics.median(with_many):8.2f} ms   alone {statistics.median(with_one):7.2f} ms   "
        f"more {more:6.2f} ms   (at most {MOST:g})"
    )
    return more > MOST


if __name__ == "__main__":
    sys.exit(main())
