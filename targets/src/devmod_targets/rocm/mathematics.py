"""The functions of mathematics for programs in other languages than HIP: bitcode of those that devmod's headers of HIP define."""

from __future__ import annotations

import re

from devmod.targets.rocm import SPEC
from devmod_targets.authoring._process import compiler_folder
from devmod_targets.authoring.clang_build import ClangBuild, clang_options, split_option
from devmod_targets.rocm._headers import headers
from devmod_targets.rocm.compile import (
    DEVICE_LIBS,
    describe_modules,
    find_modules,
    hip_flags,
    link_flags,
    object_version,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_targets.authoring import CompileRequest

_SMALL = "devmod_hip_math.h"
_CALL = re.compile(r"return (\w+)\(")
_LIBRARY = re.compile(rb"__(?:ocml|ockl)_")
_UNDEFINED = re.compile(r"^declare [^@\n]*@(__(?:ocml|ockl)_\w+)\(", re.MULTILINE)


def processor_flags(request: CompileRequest) -> list[str]:
    """Return clang's flags for the processor of a request."""
    wave = [option for option in request.options if option.endswith("wavefrontsize64")]
    return [f"-mcpu={request.target.arch}", "-nogpulib", object_version(request.target.arch), *wave]


def compile_functions(request: CompileRequest, functions: Mapping[str, str]) -> tuple[bytes, list[str], set[str]]:
    """Compile functions of HIP.

    Parameters
    ----------
    request
        The compile request, with rocm's options of LLVM IR and a target with one architecture.
    functions
        The definition of each function in HIP, by its symbol.

    Returns
    -------
    bytes
        The functions in LLVM bitcode.
    list of str
        The library, for an origin.
    set of str
        The functions that need ROCm's device library, which the request does not name.
    """
    request, libs_folder = split_option(request, DEVICE_LIBS)
    text = "".join(f'extern "C" __device__ {each}\n' for each in functions.values())
    unit = request.replace(
        text=text,
        data=b"",
        name="mathematics.hip",
        language="HIP",
        fmap=None,
        folder="",
        defines={},
        include=(),
        options=_toolchain(request),
    )
    options = clang_options(unit, SPEC, "gnu++20")
    modules = find_modules(libs_folder)
    arch = str(request.target.arch)
    with compiler_folder() as folder:
        build = ClangBuild(unit, options.toolchain, "hip", headers("HIP"), folder)
        libraries = link_flags(modules, arch, options.toolchain, folder)
        flags = [*hip_flags(arch, request.options, _header(text)), object_version(arch), "-DDEVMOD_COMPLETE", "-fgpu-rdc"]
        flags += [*libraries, *options.flags]
        flags += ["-DDEVMOD_DEVICE_LIBS"] if modules else []
        code = build.llvm_bitcode(flags, options.defines)
        text = build.llvm_ir(flags, options.defines) if _LIBRARY.search(code) else ""
    needed = {symbol for symbol in functions if _UNDEFINED.search(_reached(text, symbol))}
    return code, [describe_modules(modules)] if modules else [], needed


def _header(text: str) -> str:
    """Return the smallest header that has the functions that a text calls. clang takes 35 ms for all."""
    own = headers("HIP")[_SMALL]
    return _SMALL if all(f" {name}(" in own for name in _CALL.findall(text)) else "devmod_hip.h"


def _toolchain(request: CompileRequest) -> Sequence[str]:
    return [option for option in request.options if option.startswith("-toolchain=")]


def _reached(code: str, symbol: str) -> str:
    """Return the declarations that the definition of a function uses: LLVM has inlined all other functions."""
    start = code.find(f"@{symbol}(")
    end = code.find("\n}", start)
    names = set(re.findall(r"@(__(?:ocml|ockl)_\w+)\(", code[start:end]))
    return "".join(f"declare void @{name}()\n" for name in names)
