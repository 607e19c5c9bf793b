"""The demo's build machine: compile everything, for every kind, into one file, in an environment
without a runtime.

    python build.py <folder of the repository> <folder to write to>

It writes kernels.devmod, where each kind has a source of its own, slang.devmod and opencl_c.devmod,
where several kinds have the same source in Slang or in OpenCL C, and pictures.devmod, which has a
program: one function whose body is a list of launches. digests.json has the SHA-256 of the bytes of
each module in this environment.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import devmod

#: The pattern of each kind's sources, and the packages that could run them.
SOURCES = {
    "opencl": "*.cl",
    "vulkan": "*.comp",
    "webgpu": "*.wgsl",
    "metal": "*.metal",
    "cuda": "*.cu",
    "rocm": "*.hip",
}
#: The target of each kind, if it is more than the kind. PTX runs on every card of this architecture
#: or a later one. A code object runs on one processor, here Radeon RX 7900, or on those of a
#: generic one.
TARGETS = {"cuda": "cuda -arch=compute_75", "rocm": "rocm -arch=gfx1100"}
#: Values that a source cannot contain: the block of a Metal, CUDA or HIP kernel, and the size of
#: local memory behind a pointer.
OPTIONS: dict[str, dict[str, Any]] = {
    "reduction.cl": {"local": {"scratch": devmod.Local(per_thread=4)}},
    "reduction.metal": {"local": {"scratch": devmod.Local(per_thread=4)}, "block": 128},
    "softmax.metal": {"block": 64},
    "matmul.metal": {"block": (16, 16)},
    "reduction.cu": {"block": 128},
    "softmax.cu": {"block": 64},
    "matmul.cu": {"block": (16, 16)},
    "reduction.hip": {"block": 128},
    "softmax.hip": {"block": 64},
    "matmul.hip": {"block": (16, 16)},
}
#: The sources that several kinds have: the pattern of each language's, and what this demo compiles
#: them for. `make test` has further kinds.
LANGUAGES = {"Slang": "one_source/*.slang", "OpenCL C": "opencl/*.cl"}
ONE_SOURCE = {
    "Slang": (
        "vulkan",
        "webgpu",
        "cuda -arch=compute_75",
        "rocm -arch=gfx1100",
        "hexagon -arch=v66",
    ),
    "OpenCL C": ("opencl", "vulkan", "cuda -arch=compute_75", "rocm -arch=gfx1100"),
}
#: The sources that a kind cannot have: those with barriers, and with the length of a buffer.
NOT_FOR = {
    "hexagon": {"matmul.slang", "reduction.slang", "softmax.slang"},
    "metal": {"reduction.slang"},
    "rocm": {"resize.cl"},
}
#: A function of C for Hexagon is one call without a grid. Its calls differ from those of the kinds
#: above, so it is in another file.
DSP_TARGET, DSP_OPTIONS = "hexagon -arch=v66", {"brighten.c": ["-mhvx=v66"]}
BINDINGS = ("pyopencl", "vulkan", "wgpu", "Metal", "pycuda", "hip")


def compile_kind(repository: Path, kind: str) -> list[tuple[str, devmod.Module]]:
    """Return the example kernels of a kind, and TVM's matmul if TVM has that kind, each with the
    name of its source.
    """
    sources = sorted((repository / "examples" / kind).glob(SOURCES[kind]))
    modules = [
        (
            source.name,
            devmod.compile(source, TARGETS.get(kind, kind), **OPTIONS.get(source.name, {})),
        )
        for source in sources
    ]

    # TVM compiled its matmul on another machine. The imports blob of TVM contains it.
    blob = repository / "core" / "tests" / "vectors" / "tvm" / f"matmul.{kind}.tvmimports"
    if blob.exists():
        library = devmod.interop.tvm.load_imports(blob.read_bytes())
        modules += [
            (
                "TVM's matmul",
                devmod.create_with_fallback(
                    module.kind, module.code, module.format, module.functions
                ),
            )
            for module in library.imports
            if module.kind == kind
        ]
    return modules


def compile_one_source(
    repository: Path, language: str, target: str
) -> list[tuple[str, devmod.Module]]:
    """Return the kernels of a language that a target can have, each with the name of its source."""
    left_out = NOT_FOR.get(target.partition(" ")[0], ())
    sources = [
        source
        for source in sorted((repository / "examples").glob(LANGUAGES[language]))
        if source.name not in left_out
    ]
    return [
        (source.name, devmod.compile(source, target, **OPTIONS.get(source.name, {})))
        for source in sources
    ]


def compile_dsp(repository: Path) -> list[tuple[str, devmod.Module]]:
    """Return the examples for Hexagon, each with the name of its source."""
    sources = sorted((repository / "examples" / "hexagon").glob("*.c"))
    return [
        (source.name, devmod.compile(source, DSP_TARGET, options=DSP_OPTIONS.get(source.name, ())))
        for source in sources
    ]


def save(
    path: Path, kinds: dict[str, Callable[[], list[tuple[str, devmod.Module]]]]
) -> dict[str, dict[str, str]]:
    """Compile the modules of each kind, save them in one file, and return their digests."""
    modules: list[devmod.Module] = []
    digests: dict[str, dict[str, str]] = {}
    for kind, compile_modules in kinds.items():
        try:
            named_modules = compile_modules()
        except devmod.ToolchainNotFoundError as error:
            print(f"  not compiled, {kind}: {error}")
            continue
        for name, module in named_modules:
            assert type(module).__name__ == "FallbackModule", (
                f"{name} is {module!r}, not a fallback"
            )
            print(f"  {name:21} → {module.kind} {module.format}: {', '.join(module.functions)}")
            modules.append(module)
        digests[kind] = {
            next(iter(module.functions)): hashlib.sha256(module.save_to_bytes()).hexdigest()
            for _, module in named_modules
        }
    try:
        modules[0].get_function(next(iter(modules[0].functions)))
    except devmod.RuntimeNotLinkedError as error:
        print(f"  running one here raises: {error}")
    else:
        raise AssertionError("a fallback returned a function")
    devmod.save(devmod.bundle(*modules), path)
    print(
        f"  {len(modules)} modules of {len(digests)} kinds in {path.name}, {path.stat().st_size} bytes"
    )
    return digests


def main(repository: Path, out: Path) -> None:
    """Compile, save, and print a summary."""
    # This environment runs no kernel: no runtime is registered, and no binding of a driver is
    # installed.
    for kind in SOURCES:
        assert kind not in devmod.registered("devmod.create"), (
            f"the {kind} runtime is installed; expected an environment without runtimes"
        )
    for name in BINDINGS:
        assert importlib.util.find_spec(name) is None, (
            f"{name} is installed; expected an environment without runtimes"
        )

    digests = {
        "kernels.devmod": save(
            out / "kernels.devmod",
            {kind: partial(compile_kind, repository, kind) for kind in SOURCES},
        ),
    }
    for language, targets in ONE_SOURCE.items():
        name = f"{language.lower().replace(' ', '_')}.devmod"
        digests[name] = save(
            out / name,
            {
                target.partition(" ")[0]: partial(compile_one_source, repository, language, target)
                for target in targets
            },
        )
    (out / "digests.json").write_text(json.dumps(digests, indent=2))
    result = devmod.build(
        repository / "examples" / "applications" / "pictures",
        output=out / "pictures.devmod",
        cache=False,
        partial=True,
    )
    for failure in result.failures:
        print(f"  not compiled, {failure.job.kind}: {failure.message}")
    print(
        f"  {', '.join(devmod.load(result.output))} → pictures.devmod, {out.joinpath('pictures.devmod').stat().st_size} bytes"
    )
    try:
        dsp_modules = compile_dsp(repository)
    except devmod.ToolchainNotFoundError as error:
        print(f"  not compiled, hexagon: {error}")
    else:
        devmod.save(devmod.bundle(*(module for _, module in dsp_modules)), out / "dsp.devmod")
        print(
            f"  {', '.join(name for name, _ in dsp_modules)} → hexagon so, in another file: their calls have no grid"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
