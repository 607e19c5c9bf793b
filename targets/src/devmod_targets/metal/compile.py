"""Metal on the build side: the payload is the source itself, complete, for each of its kernels; libclang reads them, on any machine.

What a runtime follows, in the interface of each function:

- The arguments stand table by table: buffers and values in the order of their indices, then threadgroup memory, textures, samplers;
  each has ``at`` its index in its table. The table is told by `kind`: "buffer" and "scalar" share one, "local", "image" and "sampler" have
  their own. A ``constant T &`` is a scalar of its own, to be set as bytes.
- ``block`` where the kernel requires one (``[[required_threads_per_threadgroup]]``); ``extra`` has "max_total_threads_per_threadgroup"
  where it says one, and "constants", the function constants that it uses, by `id` (`devmod._launch.constants`).
- The shader map has the whole source under each function's name; FunctionInfo.name is the kernel's name in the library.

The target ``metal -format=metallib`` has Apple's compiler make a library of the source, on a Mac. What is written never hangs on what
is installed: without that option it is the source, on a Mac too.
"""

from __future__ import annotations

import re

from devmod._payload import CompileRequest, Payload
from devmod.errors import CompileError
from devmod.targets._declared import Found, source_payload, tell
from devmod.targets._source import Complete, complete
from devmod.targets.metal.spec import SPEC
from devmod_targets.metal._reflect import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a receiver can give to Metal's own compiler (MTLCompileOptions).
_TAKEN = re.compile(r"-std=(?:macos-|ios-)?metal[1-9]\.\d|-ffast-math|-fno-fast-math|-D.*")
_INSTANCE = re.compile(r"[A-Za-z_][\w:]*\s*<[^\"\\;{}]*>")
#: What spirv-cross calls the entry ``main``, which is no name for a function in Metal.
_MAIN = "main0"


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """The payload of a source in the Metal shading language.

    Parameters
    ----------
    request
        The source and what belongs to it. Its fmap is merged over what libclang reads, and is enough where libclang is missing.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and no fmap is declared; or a metallib is asked for, and Apple's compiler is not there.
    CompileError
        The source has syntax errors, no kernel, or a kernel that cannot be called; `log` has every diagnostic.
    """
    as_library = _format(request) == "metallib"
    done = _with_instances(request, complete(request))
    if not as_library:
        for option in done.options:
            if not _TAKEN.fullmatch(option):
                raise CompileError(
                    f"the Metal option {option!r} is none that a receiver can give to its compiler: those are -std=metalX.Y, -ffast-math "
                    "and -fno-fast-math",
                    kind="metal",
                )
    warnings: list[str] = []

    def found() -> tuple[Mapping[str, Found], str]:
        kernels, texts, toolchain = read(request, done)
        warnings.extend(texts)
        if _MAIN in kernels and request.stem not in kernels:
            kernels = {request.stem if name == _MAIN else name: each for name, each in kernels.items()}
        return kernels, toolchain

    nothing = f"the Metal source {request.name} has no kernel: no function in it is marked kernel, and no template of one is instantiated"
    payload = source_payload(SPEC, "metal", request, done, found, nothing=nothing)
    if as_library:
        from devmod_targets.metal._metallib import as_metallib

        payload = as_metallib(payload, request, done)
    tell(warnings)  # Metal's own compiler has the last word
    return payload


def _format(request: CompileRequest) -> str:
    """The format that the target asks for."""
    target = request.target
    if target.archs:
        raise CompileError(
            f"the target {str(target)!r} names an architecture; Metal source has none: it is built on the device", kind="metal"
        )
    options = dict(target.options)
    fmt: str = options.pop("format", "metal")
    if options or fmt not in SPEC.formats:
        what = f"-{next(iter(options))}" if options else f"-format={fmt}"
        raise CompileError(
            f"the target {str(target)!r} has the option {what}; metal takes -format=metal, the default, and -format=metallib", kind="metal"
        )
    return fmt


def _with_instances(request: CompileRequest, done: Complete) -> Complete:
    """The source with the template instances of `name_expressions`, each under the name that it is asked for by."""
    lines = []
    for text in request.name_expressions:
        if not _INSTANCE.fullmatch(text) or not text.isprintable():
            raise CompileError(f"name_expressions= has {text!r}, which is no instance of a template such as 'scale<float>'", kind="metal")
        lines.append(f'template [[host_name("{text}")]] [[kernel]] decltype({text}) {text};\n')
    if not lines:
        return done
    whole = done.text + ("" if done.text.endswith("\n") else "\n") + "".join(lines)
    return Complete(whole, done.options, done.defines, done.sources, done.names)
