"""The compiler of Metal. The payload is the self-contained source for each kernel; libclang reads
the kernels on any machine.

A runtime uses these parts of a function's interface:

- The arguments are ordered by table: buffers and scalars by their indices, then threadgroup memory,
  textures and samplers. ``at`` is the index in the table. The param's `kind` determines the table:
  "buffer" and "scalar" share one; "local", "image" and "sampler" have one each. A ``constant T &``
  is one scalar, which is set as bytes.
- The params of a texture have two keys in their `extra`: "sampled" for a texture that the kernel
  may read with a sampler (``access::sample``), and "unsupported", the name of a type that devmod
  cannot pass: a call of the kernel is an error.
- ``block`` is the block that the kernel requires (``[[required_threads_per_threadgroup]]``).
  ``extra`` contains "max_total_threads_per_threadgroup" if the kernel declares it, and "constants",
  the function constants that it uses, by `id`.
- The shader map contains the whole source under each function's name. FunctionInfo.name is the
  kernel's name in the library.

With the target ``metal -format=metallib``, Apple's compiler builds a library of the source, on a
Mac only. Without that option the payload is the source, also on a Mac. So the output never depends
on the installed tools.
"""

from __future__ import annotations

import os
import re

from devmod import Origin
from devmod.backend import find_program, temporary_folder
from devmod.errors import ToolchainNotFoundError
from devmod.targets.metal import SPEC
from devmod_readers.options.metal import TABLE
from devmod_targets._included import unresolved_names
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    SelfContainedSource,
    complete_source,
    source_payload,
    warn_caller,
)
from devmod_targets.authoring._process import run_program
from devmod_targets.authoring._request import target_format
from devmod_targets.authoring._types import Reflected
from devmod_targets.metal._parse import HEADERS, version_option
from devmod_targets.metal._reflect import read

_INSTANCE = re.compile(r"[A-Za-z_][\w:]*\s*<[^\"\\;{}]*>")
#: spirv-cross's name of the entry point ``main``, which Metal does not allow as a function's name.
_MAIN = "main0"

_METAL = ("-sdk", "macosx", "metal")
_ERROR = re.compile(r"error:")


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a source in the Metal shading language.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the kernels that libclang reads, and replaces
        them if libclang is missing.

    Returns
    -------
    Payload
        The source, or the library, as a payload of kind "metal".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and no fmap is declared; or a metallib is requested, and Apple's
        compiler is not installed.
    CompileError
        The source has syntax errors, no kernel, or a kernel that devmod cannot call. `log` contains
        all diagnostics.
    """
    as_library = target_format(request.target, ("metal", "metallib")) == "metallib"
    source = _with_instances(
        request,
        complete_source(
            request, HEADERS.__contains__, dialect=("-x", "c++", version_option(request.options))
        ),
    )
    if as_library:
        from devmod_targets.authoring.clang_build import check_supported

        check_supported(request, source.options)
    else:
        for option in source.options:
            if option not in TABLE:
                raise request.error(
                    f"the Metal option {option!r} is not supported by the receiver's compiler; expected -std=metalX.Y, -ffast-math "
                    f"or -fno-fast-math{TABLE.hint(option)}"
                )
    warnings = []

    def read_kernels() -> tuple[Reflected, str]:
        kernels, texts, toolchain = read(request, source)
        warnings.extend(texts)
        if _MAIN not in kernels or request.stem in kernels:
            return kernels, toolchain
        renamed = {}
        for name, kernel in kernels.items():
            if name == _MAIN:
                name = request.stem
            renamed[name] = kernel
        return renamed, toolchain

    empty_error = (
        f"the Metal source {request.name} has no kernel: mark a function with kernel, "
        "or instantiate a template that is marked with it"
    )
    payload = source_payload(SPEC, "metal", request, source, read_kernels, empty_error=empty_error)
    if as_library:
        payload = as_metallib(payload, request, source)
    payload = payload.replace(files={**source.files, **unresolved_names(source.text)})
    # No error, because Metal's own compiler decides. It has accepted a library.
    if as_library:
        warn_caller(request, warnings, doubts=[])
    else:
        warn_caller(request, [], doubts=warnings)
    return payload


def _with_instances(request: CompileRequest, source: SelfContainedSource) -> SelfContainedSource:
    """Append the template instances of `name_expressions` to the source, each with its expression
    as its name.
    """
    lines = []
    for text in request.name_expressions:
        if not _INSTANCE.fullmatch(text) or not text.isprintable():
            raise request.error(
                f"name_expressions= contains {text!r}; expected a template instance such as 'scale<float>'"
            )
        lines.append(f'template [[host_name("{text}")]] [[kernel]] decltype({text}) {text};\n')
    return source.with_lines("".join(lines))


# -- Build a metallib with Apple's compiler. xcrun exists only on a Mac with Xcode.


def as_metallib(
    payload: Payload, request: CompileRequest, source_text: SelfContainedSource
) -> Payload:
    """Compile the payload of a source to a library.

    Raises
    ------
    ToolchainNotFoundError
        Apple's compiler is not installed.
    CompileError
        The source has errors; `log` contains the compiler's output.
    """
    program = find_program("xcrun")
    if not program:
        raise ToolchainNotFoundError(
            "cannot build a metallib: xcrun, a part of Xcode with Apple's Metal compiler, is not installed. Compile on a Mac with Xcode, "
            "or for the target 'metal', whose payload is the source that the receiver's Metal compiles",
            kind="metal",
        )
    status, output = run_program(
        [program, *_METAL, "--version"], os.sep, name="xcrun", kind="metal"
    )
    if status:
        raise ToolchainNotFoundError(
            f"cannot build a metallib: xcrun finds no Metal compiler ({output.strip() or f'status {status}'}). Install Xcode with its "
            "Metal toolchain, or compile for the target 'metal'",
            kind="metal",
        )
    version = output.strip().partition("\n")[0]
    with temporary_folder() as folder:
        source = os.path.join(folder, "program.metal")
        library = os.path.join(folder, "program.metallib")
        with open(source, "w", encoding="utf-8", newline="") as file:
            file.write(source_text.text)
        command = [program, *_METAL, *source_text.options, "-o", library, source]
        status, output = run_program(command, os.sep, name="xcrun", kind="metal")
        output = output.replace(source, request.name)
        if status:
            log = output.strip()
            reason = next(filter(_ERROR.search, output.splitlines()), log[:200])
            raise request.error(f"the Metal source does not compile: {reason}", log=log)
        with open(library, "rb") as file:
            data = file.read()
    origin = payload.origin
    assert origin is not None
    toolchain = "; ".join(filter(None, (version, origin.toolchain)))
    return payload.replace(
        code=dict.fromkeys(payload.fmap, data),
        fmt="metallib",
        origin=Origin(origin.target, toolchain, origin.options, origin.sources),
        unvalidated="",
    )
