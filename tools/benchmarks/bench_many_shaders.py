"""The time of the first call of one shader from a bundle of 1,000, compared with a bundle of one.

    python tools/benchmarks/bench_many_shaders.py [--shaders 1000] [--rounds 15]

For Vulkan and WebGPU, and for two shapes of file: one module with 1,000 entries, and 1,000 modules
of one entry. The shaders have names, parameters, sizes, sources and origins of their own. The time
is from `devmod.load` to the result of the first call, in a process whose device is open and has run
another shader. The two files alternate. Each round runs another shader, so that no driver's cache
has it. The figures are lower quartiles, as other programs on the machine only add time: of the time
on the clock, and of the processor time of the thread. The bound is a multiple of the time in which
Python starts here. Exits with 1 if the difference exceeds it.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from timing import check, process_time

import devmod
from devmod.backend import Payload, module_of

#: The most time of a call from 1,000 shaders beyond that of one alone, of the start of Python.
MOST = 1.5

GLSL = """#version 450
{comment}
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Data {{ float x[]; }};
{buffers}
layout(push_constant) uniform Push {{ int n; {scalars} }};
void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) {{ x[i] = x[i] * {a}.0 + {b}.0{terms}; }} }}
"""
WGSL = """{comment}
struct Arguments {{ n: i32, {scalars} }}
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
{buffers}
@group(0) @binding({last}) var<uniform> arguments: Arguments;
@compute @workgroup_size(64)
fn {name}(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = id.x; let n = arguments.n;
  if (i32(i) < n) {{ x[i] = x[i] * {a}.0 + {b}.0{terms}; }}
}}
"""
#: Words that the names of parameters are made of.
WORDS = [
    *("input", "weight", "bias", "scale", "offset", "mask", "index", "stride"),
    *("state", "cache", "gate", "query", "value", "mean", "rows", "table"),
]
#: How many signatures there are for Vulkan: each is compiled once.
SIGNATURES = 16


class Shader(NamedTuple):
    """One shader with its function and its origin."""

    name: str
    code: bytes
    info: devmod.FunctionInfo
    origin: devmod.Origin


def text_of(kind: str, number: int, a: int, b: int) -> str:
    """Return the source of a shader. The count of its parameters, their names and its length depend
    on `number`.
    """
    extra = number % 5
    names = [f"{WORDS[(number + each) % 16]}_{number}_{each}" for each in range(extra)]
    scalars = [
        f"{WORDS[(number + each + 7) % 16]}_{number}_s{each}" for each in range(number // 5 % 4)
    ]
    shader = GLSL
    buffer = "layout(std430, binding = {place}) readonly buffer B{place} {{ float {name}[]; }};"
    scalar = "int {name};"
    between = " "
    number_term = " + float({name})"
    if kind == "webgpu":
        shader = WGSL
        buffer = "@group(0) @binding({place}) var<storage, read> {name}: array<f32>;"
        scalar = "{name}: i32"
        between = ", "
        number_term = " + f32(arguments.{name})"

    buffers = []
    declarations = []
    terms = ""
    for place, name in enumerate(names, 1):
        buffers.append(buffer.format(place=place, name=name))
        terms += f" + {name}[i]"
    for name in scalars:
        declarations.append(scalar.format(name=name))
        terms += number_term.format(name=name)
    return shader.format(
        buffers="\n".join(buffers),
        scalars=between.join(declarations),
        terms=terms,
        name=f"k{number}",
        a=a,
        b=b,
        comment=f"// The layer {number} of a model.\n" * (number % 23),
        last=extra + 1,
    )


def make(kind: str, count: int, folder: Path) -> list[Shader]:
    """Return `count` shaders of different names, parameters, sizes, sources and origins.

    Each WGSL shader is compiled from a file of its own. A GLSL compiler takes 0.1 s for a shader,
    so `SIGNATURES` shaders are compiled for Vulkan; the others have the code of one of them with
    other constants, and names and origins of their own.
    """
    if kind == "webgpu":
        return [compiled(folder, kind, number, number % 37 + 2, number) for number in range(count)]
    marker = 12345
    other = 54321
    signatures = [compiled(folder, kind, number, marker, other) for number in range(SIGNATURES)]
    shaders = []
    for number in range(count):
        first = signatures[number % SIGNATURES]
        words = np.frombuffer(first.code, np.uint8).copy().view(np.uint32)
        for value, new in ((marker, number % 37 + 2), (other, number)):
            (at,) = np.flatnonzero(words == np.float32(value).view(np.uint32))
            words[at] = np.float32(new).view(np.uint32)
        interface = first.info.interface
        assert interface is not None
        params = list(interface.params)
        for place, param in enumerate(params):
            if param.name not in ("x", "n"):
                renamed = param.to_dict() | {"name": f"{WORDS[number % 16]}_{number}_{place}"}
                params[place] = devmod.Param.from_dict(renamed)
        info = devmod.FunctionInfo(
            first.info.name,
            first.info.arg_types,
            first.info.launch_param_tags,
            (),
            devmod.Interface(params, interface.blocks, interface.block, interface.extra),
        )
        source = hashlib.sha256(text_of(kind, number, number % 37 + 2, number).encode()).hexdigest()
        origin = devmod.Origin(
            kind, first.origin.toolchain, [f"-DLAYER={number}"], {f"layers/k{number}.comp": source}
        )
        shaders.append(Shader(f"k{number}", words.tobytes(), info, origin))
    return shaders


def compiled(folder: Path, kind: str, number: int, a: int, b: int) -> Shader:
    """Return a shader that `devmod.compile` made of a file of its own."""
    path = folder / f"k{number}.comp"
    defines: dict[str, int] | None = {"LAYER": number}
    if kind == "webgpu":
        path = folder / f"k{number}.wgsl"
        defines = None
    path.write_text(text_of(kind, number, a, b), encoding="utf-8")
    module = devmod.compile(path, kind, defines=defines)
    ((name, info),) = module.functions.items()
    assert module.origin is not None
    return Shader(name, bytes(module.code[name]), info, module.origin)  # type: ignore[attr-defined]


def write(path: Path, kind: str, shaders: Sequence[Shader], *, one_module: bool) -> None:
    """Write a file with one module of all shaders, or with one module for each."""
    fmt = {"vulkan": "spv", "webgpu": "wgsl"}[kind]
    groups: list[Sequence[Shader]] = [[shader] for shader in shaders]
    if one_module:
        groups = [shaders]
    modules = []
    for group in groups:
        codes = {}
        infos = {}
        sources: dict[str, str] = {}
        for each in group:
            codes[each.name] = each.code
            infos[each.name] = each.info
            sources |= each.origin.sources
        first = group[0].origin
        origin = devmod.Origin(first.target, first.toolchain, first.options, sources)
        modules.append(module_of(Payload(kind, codes, fmt, infos, origin=origin)))
    whole = modules[0]
    if len(modules) > 1:
        whole = devmod.bundle(*modules)
    devmod.save(whole, path)


def first_call(path: Path, name: str) -> tuple[float, float]:
    """Return the milliseconds from the file to the result, and those of the processor in this
    thread.
    """
    x = np.ones(64, np.float32)
    zeros = np.zeros(64, np.float32)
    params = devmod.load(path).functions[name].interface.params  # type: ignore[union-attr]
    arguments: list[Any] = []
    for param in params:
        if param.name == "x":
            arguments.append(x)
        elif param.name == "n":
            arguments.append(64)
        elif param.kind == "buffer":
            arguments.append(zeros)
        else:
            arguments.append(0)
    start = time.perf_counter()
    busy = time.thread_time()
    devmod.load(path)[name](*arguments, grid=1)
    seconds = time.perf_counter() - start
    busy = time.thread_time() - busy
    number = int(name[1:])
    assert x[0] == number % 37 + 2 + number, f"{name} gave {x[0]}"
    return seconds * 1e3, busy * 1e3


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shaders", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("vulkan", "webgpu"):
            try:
                devmod.device(kind)
                shaders = make(kind, options.shaders, Path(folder))
            except (devmod.DeviceNotFoundError, devmod.ToolchainNotFoundError) as error:
                print(f"{kind}: not measured: {error}")
                continue
            singles = []
            for shader in shaders[-options.rounds - 1 :]:
                singles.append(Path(folder) / f"{kind}-{shader.name}.devmod")
                write(singles[-1], kind, [shader], one_module=True)
            for one_module in (True, False):
                many = Path(folder) / f"{kind}-{one_module}.devmod"
                write(many, kind, shaders, one_module=one_module)
                failed |= compare(kind, many, singles, len(shaders), one_module=one_module)
    return int(failed)


def compare(
    kind: str, many: Path, singles: Sequence[Path], count: int, *, one_module: bool
) -> bool:
    """Measure the two files in turns and print a line. Return whether the bound is exceeded."""
    with_many: list[tuple[float, float]] = []
    with_one: list[tuple[float, float]] = []
    starts: list[float] = []
    step = max(1, count // len(singles))
    first_call(singles[0], singles[0].stem.partition("-")[2])
    for round_, single in enumerate(singles[1:]):
        turns = [
            (with_many, many, f"k{round_ * step}"),
            (with_one, single, single.stem.partition("-")[2]),
        ]
        for times, path, name in turns if round_ % 2 else reversed(turns):
            times.append(first_call(path, name))
        starts.append(process_time())
    many_clock, many_busy = map(lower_quartile, zip(*with_many, strict=True))
    one_clock, one_busy = map(lower_quartile, zip(*with_one, strict=True))
    start = lower_quartile(starts)
    shape = f"one module of {count:,} shaders" if one_module else f"{count:,} modules of one shader"
    print(
        f"{kind:8} {shape:30} {many_clock:8.2f} ms   alone {one_clock:6.2f} ms   more {many_clock - one_clock:6.2f} ms   "
        f"{(many_clock - one_clock) / start:5.2f} of the start (at most {MOST:g}; processor: {many_busy - one_busy:.2f} ms more)"
    )
    ratio = (many_clock - one_clock) / start
    return check(
        f"{kind}: a call from {shape}, over one alone", ratio, MOST, of="the start of Python"
    )


def lower_quartile(times: Sequence[float]) -> float:
    """Return the lower quartile of some times."""
    return statistics.quantiles(times, n=4)[0]


if __name__ == "__main__":
    sys.exit(main())
