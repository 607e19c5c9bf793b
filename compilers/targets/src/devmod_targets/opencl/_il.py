"""Compile OpenCL C to SPIR-V for OpenCL (``-format=il``), with the clang of the wheel ziglang."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from devmod.backend import FEATURES
from devmod.errors import CompileError, FormatError
from devmod_readers.reflection import ReflectedFunction
from devmod_readers.spirv import (
    KernelArgument,
    SpirvModule,
    read_imports,
    read_kernels,
    read_module,
)
from devmod_targets._text import find_code
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    SelfContainedSource,
    merge_declared,
    warn_caller,
)
from devmod_targets.authoring._declared import argument_bytes
from devmod_targets.authoring._types import Reflected
from devmod_targets.authoring.zig import run_zig, toolchain
from devmod_targets.opencl._definitions import define, is_miscompiled
from devmod_targets.opencl._names import read_builtins, rename
from devmod_targets.opencl.clang import ClangProgram, call_place, check_calls, compile_definitions

#: Every device that takes SPIR-V takes this version. Some functions need a newer one, such as the
#: shuffles of sub-groups.
_VERSIONS = ("1.0", "1.4")
#: The functions for which clang's SPIR-V does not work: it gives copies a stride of 32 bits, which
#: SPIR-V does not allow.
_OWN = re.compile(r"\b(?:async_work_group_\w+|wait_group_events)\b")
#: What a text has that calls such a function, or a wrong one. A macro may join the name.
_MAY_CALL_OWN = re.compile(
    f"{_OWN.pattern}|\\bconvert_|\\batomic_|\\bvloada_half3|\\b(?:all|any|mad_sat|shuffle2?)\\b"
)
#: clang's message when a signal ends it, which names no function.
_CRASH = re.compile(r"clang frontend command failed (?:with exit code|due to signal)")
#: clang's message for a function that needs a newer version of SPIR-V. It ends as a crash does.
_REQUIREMENTS = "Unable to meet SPIR-V requirements"
#: The definition of a function in LLVM IR text, and what its declaration does not have.
_DEFINITION = re.compile(r"^define ([^\n]*?@([\w.$]+)\([^\n]*) \{\n(?s:.*?)^\}", re.MULTILINE)
_OF_DEFINITIONS = re.compile(
    r"\b(?:internal|private|linkonce_odr|available_externally|dso_local) | ![\w.]+ !\d+"
)
#: The calls of `to_global`, `to_local` and `to_private`, whose symbols LLVM's SPIR-V does not know.
_CASTS = re.compile(r"@__(to_(?:global|local|private))(?=\()")
#: The definitions have pointers to any address space, which LLVM replaces when it inlines them. A
#: device chooses its vectors itself.
_OUTPUT = (
    "-c",
    "-O2",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-fno-unroll-loops",
    "-Xclang",
    "-mlink-builtin-bitcode",
    "-Xclang",
    "definitions.bc",
)
_SPACES = {
    "buffer": ("GLOBAL", "CONSTANT"),
    "local": ("LOCAL",),
    "scalar": ("PRIVATE",),
    "image": ("GLOBAL",),
    "sampler": ("PRIVATE",),
}


def compile_il(
    request: CompileRequest,
    source: SelfContainedSource,
    kernels: Reflected,
    reader: str,
    standard: str,
) -> Payload:
    """Return the SPIR-V of a program as a payload of the format "il".

    Parameters
    ----------
    request, source
        The compile request and the self-contained source.
    kernels, reader, standard
        The kernels of the source, the program that read them, and the version of OpenCL C in which
        it did.

    Raises
    ------
    ToolchainNotFoundError
        ziglang is not installed.
    CompileError
        The source has errors, or calls a function that clang does not compile to SPIR-V.
    """
    program = ClangProgram(request, source, standard)
    code = b""
    warnings: list[str] = []
    for version in _VERSIONS:
        flags = [f"--target=spirv64v{version}-unknown-unknown"]
        try:
            code, warnings = program.compile(flags, "-c")
            break
        except CompileError as error:
            if version != _VERSIONS[-1] and _REQUIREMENTS in error.log:
                continue
            if _CRASH.search(error.log):
                code = _without_crash(program, flags, error)
                break
            if version == _VERSIONS[-1] or "SPIR-V" not in error.log:
                raise
    try:
        missing = read_imports(read_module(code))
        if missing or _MAY_CALL_OWN.search(source.text):
            code = _define(program, flags, missing) or code
        module = read_module(code)
        calls = {}
        for caller, callees in module.calls.items():
            calls[_name(module, caller)] = [_name(module, callee) for callee in sorted(callees)]
        check_calls(request, source, calls)
        _check_kernels(request, kernels, module)
    except FormatError as error:
        raise request.error(f"clang's SPIR-V of {request.name} {error}") from None
    if warnings:
        title = "clang has warnings about the OpenCL C source:"
        warn_caller(request, ["\n".join([title, *warnings])], frames=1)
    needs = set()
    for name, feature in FEATURES.items():
        if not set(feature.spirv).isdisjoint(module.capabilities):
            needs.add(name)
    kernels = {
        name: each.replace(needs=tuple(sorted({*each.needs, *needs})))
        for name, each in kernels.items()
    }
    return Payload(
        request.target.kind,
        code,
        "il",
        merge_declared(request.spec, kernels, request.fmap),
        {"cl": source.text},
        source.origin(request, f"{toolchain()}, {reader}"),
        source.files,
    )


def _define(program: ClangProgram, flags: Sequence[str], missing: Sequence[str]) -> bytes:
    """Return the SPIR-V of a program with devmod's definitions of the functions that clang does not
    compile to SPIR-V, or compiles to a wrong one; b"" if it calls none of them.

    Raises
    ------
    CompileError
        devmod has no definition of a function, or LLVM refuses the program.
    """
    request = program.request
    text = _optimizable(program, flags)
    text = _CASTS.sub(lambda match: f"@_Z{len(match[1])}{match[1]}PU3AS4v", text)
    builtins = [
        each
        for each in read_builtins(text)
        if each.symbol in missing or _OWN.fullmatch(each.name) or is_miscompiled(each)
    ]
    if not builtins and not missing:
        return b""
    text, renamed = rename(text, builtins)
    definitions, unknown = define(renamed)
    if unknown:
        name = unknown[0]
        problem = (
            f"built-in function {name!r} with types for which clang has no SPIR-V. "
            f"Use the source (the target {request.target.kind!r})"
        )
        # A function of the program has no mangled symbol.
        if next(each for each in builtins if each.name == name).symbol == name:
            problem = f"function {name!r}, which it does not define"
        place = call_place(request, program.source, name)
        raise request.error(f"{place}: error: the program calls the {problem}")
    files = {"program.ll": text.encode(), "definitions.bc": compile_definitions(definitions, flags)}
    command = [
        "clang",
        "--no-default-config",
        "-x",
        "ir",
        "-Wno-override-module",
        *flags,
        *_OUTPUT,
        "program.ll",
        "-o",
        "out",
    ]
    result = run_zig(command, files, "out", kind=request.target.kind)
    if result.status:
        raise request.error(
            f"LLVM cannot link {request.name} for {request.target.kind}: {result.log[:500]}",
            log=result.log,
        )
    return result.output


def _without_crash(program: ClangProgram, flags: Sequence[str], error: CompileError) -> bytes:
    """Return the SPIR-V of a program on which a signal ends clang, if inline functions are why:
    clang's SPIR-V has no linkage for those that another file defines.

    Raises
    ------
    CompileError
        Another function ends clang. The error names the first one that ends it alone, if one does.
    """
    request = program.request
    text = _optimizable(program, flags)
    code = _spirv(text, flags)
    if code:
        return code
    place, what = request.name, "the program"
    for symbol in [match[2] for match in _DEFINITION.finditer(text)]:
        if not _spirv(_DEFINITION.sub(partial(_without_body, symbol), text), flags):
            name = symbol.removeprefix("__clang_ocl_kern_imp_")
            place, _ = find_code(rf"\b{re.escape(name)}\s*\(", program.source.text, request.name)
            what = f"the function {name!r}"
            break
    raise request.error(
        f"{place}: error: clang crashes on {what} when it writes SPIR-V. Compile the source instead (the target "
        f"{request.target.kind!r} without -format=il), or change the function",
        log=error.log,
    )


def _optimizable(program: ClangProgram, flags: Sequence[str]) -> str:
    """Return a program in LLVM IR text, with the definitions of its inline functions."""
    text = program.compile(flags, "-emit-llvm")[0].decode()
    return text.replace("define available_externally ", "define internal ")


def _spirv(text: str, flags: Sequence[str]) -> bytes:
    """Return the SPIR-V of a program in LLVM IR text; b"" if clang refuses it or crashes."""
    command = ["clang", "--no-default-config", "-x", "ir", "-Wno-override-module", *flags]
    output = ["-c", "program.ll", "-o", "out"]
    result = run_zig([*command, *output], {"program.ll": text.encode()}, "out", kind="opencl")
    return b"" if result.status else result.output


def _without_body(kept: str, match: re.Match[str]) -> str:
    """Return the definition of a function as a declaration, unless it is the one that is kept."""
    if match[2] == kept:
        return match[0]
    return f"declare {_OF_DEFINITIONS.sub(' ', match[1])}"


def _name(module: SpirvModule, id_: int) -> str:
    return module.names.get(id_) or str(id_)


def _check_kernels(request: CompileRequest, kernels: Reflected, module: SpirvModule) -> None:
    """Raise CompileError if the arguments of a kernel are not those of the SPIR-V."""
    compiled = read_kernels(module)
    for name, kernel in kernels.items():
        arguments: Sequence[KernelArgument] = ()
        if name in compiled:
            arguments = compiled[name].arguments
        if not _agree(kernel, arguments):
            raise request.error(
                f"{kernel.location}: the arguments of the kernel {name!r} differ in clang's SPIR-V, which has {[*map(tuple, arguments)]}",
                function=name,
            )


def _agree(kernel: ReflectedFunction, arguments: Sequence[KernelArgument]) -> bool:
    """Return whether the arguments of the SPIR-V are those of the source. A vector of three has
    four lanes.
    """
    if len(arguments) != len(kernel.params):
        return False
    for argument, type_, param in zip(arguments, kernel.types, kernel.params, strict=True):
        if argument.space not in _SPACES[param.kind]:
            return False
        if param.kind == "scalar" and argument.size:
            size = argument_bytes(type_)
            if size and argument.size not in (size, size // 3 * 4):
                return False
    return True
