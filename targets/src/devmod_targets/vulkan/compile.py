"""The compiler of Vulkan: it compiles GLSL and HLSL to SPIR-V, and reflects, validates and optimizes SPIR-V."""

from __future__ import annotations

import os
import re

from devmod import Origin
from devmod.errors import CompileError
from devmod.targets.vulkan import SPEC
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    check_target_options,
    merge_declared,
    options_and_defines,
    warn_caller,
)
from devmod_targets.authoring._process import compiler_folder
from devmod_targets.vulkan._build import Build, Environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The architectures of the target: a version of Vulkan with its newest SPIR-V, or a version of SPIR-V.
_ENVIRONMENTS = {
    "vulkan1.0": Environment("1.0", "1.0"),
    "vulkan1.1": Environment("1.1", "1.3"),
    "vulkan1.2": Environment("1.2", "1.5"),
    "vulkan1.3": Environment("1.3", "1.6"),
    "spirv1.0": Environment("1.0", "1.0"),
    "spirv1.3": Environment("1.1", "1.3"),
    "spirv1.4": Environment("1.1", "1.4"),
    "spirv1.5": Environment("1.2", "1.5"),
    "spirv1.6": Environment("1.3", "1.6"),
}
_DEFAULT = "vulkan1.1"
_OPTIMIZE = ("-O", "-Os", "-O0")
#: Compiler options that devmod sets itself, or that change the output format.
_RESERVED_OPTIONS = re.compile(
    r"-(?:V|G|H|S|e|E|l|c|h|i|m|q|s|t|v|x|S.*|o.*|V\d*|G\d*|Fo.*|Fc.*|Fh.*|Fi.*|P|spirv|M.*|mfmt.*|std=.*)$"
    r"|--(?:target-env|target-spv|client|source-entrypoint|sep|entry-point|stdin|version|help|depfile|vn|variable-name|dump.*)(?:=.*)?$"
    r"|-f(?:shader-stage|entry-point|spv-target-env)=.*$"
)
#: The options of glslang, glslc and dxc that change the code or the diagnostics, and their values. Others name files and libraries.
_SUPPORTED = re.compile(
    r"-(?:g0?|gVS?|w|r|R|C|d|Od)|-U[A-Za-z_]\w*|-W[A-Za-z0-9-]*"
    r"|--(?:auto|enhanced|flatten|hlsl|invert|keep|nan|no|relaxed|resource|set|shift|suppress|uniform)-[\w-]+(?:=\w+)?"
    r"|--(?:quiet|glsl-version|ku|nsf|iy|am[bl]|fua|rsb|s[a-z]{2,4})"
    r"|-f(?:auto|cbuffer|finite|hlsl|image|invert|nan|no|preserve|resource|sampler|spv|ssbo|texture|uav|ubo|vk)-[\w-]+(?:=[\w.,-]+)?"
    r"|-O[1-3]|-T\w+|-HV|-Z[a-z]{1,2}|-G[a-z]{2}|-enable-16bit-types|-no-warnings"
    r"|\w+",
    re.ASCII,
)
_STAGES = {
    "vert": "a vertex",
    "frag": "a fragment",
    "geom": "a geometry",
    "tesc": "a tessellation control",
    "tese": "a tessellation evaluation",
    "mesh": "a mesh",
    "task": "a task",
    "rgen": "a ray generation",
    "rint": "an intersection",
    "rahit": "an any-hit",
    "rchit": "a closest-hit",
    "rmiss": "a miss",
    "rcall": "a callable",
}


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a shader.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the functions that are reflected from the SPIR-V.

    Returns
    -------
    Payload
        The SPIR-V of each compute entry point, of kind "vulkan".

    Raises
    ------
    ToolchainNotFoundError
        No compiler for the language is installed, or spirv-opt is missing.
    CompileError
        The source has errors, no compute entry point, or one that devmod cannot call. `log` contains the tools' output.
    """
    if request.name_expressions:
        raise CompileError("name_expressions= is not supported for shaders, which have no templates", kind="vulkan")
    check_target_options(request.target, ("arch",))
    environment = _environment(request)
    stage = _STAGES.get(os.path.splitext(request.name)[1][1:].lower())
    if stage:
        raise CompileError(f"{request.name} is {stage} shader by its suffix; expected a compute shader (.comp)", kind="vulkan")
    options, defines = options_and_defines(request)
    level, compiler, options = _own_options(options)
    build = Build(request, environment, level)
    with compiler_folder() as folder:
        if request.language == "SPIR-V":
            compiled = build.spirv(folder, options, defines)
        else:
            compiled = build.source(folder, options, defines, compiler)
    reflected, codes = compiled
    fmap = merge_declared(SPEC, reflected, request.fmap)
    assert SPEC.unpack is not None
    packed = {symbol: SPEC.unpack(data) for symbol, data in codes.items()}
    recorded_options = (*(f"--compiler={name}" for name in (compiler,) if name), *(one for one in (level,) if one), *options)
    origin = Origin(
        str(request.target),
        ", ".join(build.toolchain),
        (*recorded_options, *(f"-D{name}={value}" for name, value in defines.items())),
        build.sources,
    )
    code = {name: packed[info.name] for name, info in fmap.items()}
    warn_caller(request, build.warnings, doubts=build.doubts)
    texts = {"spv": "\n".join(build.texts)} if build.texts else {}
    return Payload("vulkan", code, "spv", fmap, texts, origin, build.files, unvalidated=build.unvalidated)


def _environment(request: CompileRequest) -> Environment:
    target = request.target
    arch = target.arch or _DEFAULT
    if arch not in _ENVIRONMENTS:
        raise CompileError(
            f"the target {str(target)!r} has the unknown architecture {arch!r}; expected {', '.join(_ENVIRONMENTS)} (default {_DEFAULT})",
            kind="vulkan",
        )
    return _ENVIRONMENTS[arch]


def _own_options(options: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the optimization level and the compiler from the options, "" if not given, and the other options."""
    level, compiler, rest = "", "", []
    for option in options:
        if option in _OPTIMIZE:
            level = option
        elif option.startswith("--compiler="):
            compiler = option.partition("=")[2]
        elif _RESERVED_OPTIONS.match(option):
            reason = "the target sets the versions of Vulkan and SPIR-V, for example 'vulkan -arch=vulkan1.2'"
            if not re.search("target|client|^-[VG]", option):
                reason = "devmod sets the compiler's files, stage and entry points itself"
            raise CompileError(f"the vulkan option {option!r} is not supported: {reason}", kind="vulkan")
        elif not _SUPPORTED.fullmatch(option):
            raise CompileError(
                f"the vulkan option {option!r} is not supported; expected an option of the compiler for the code or its diagnostics, such "
                "as -g, -Werror or --auto-map-bindings",
                kind="vulkan",
            )
        else:
            rest.append(option)
    return level, compiler, rest
