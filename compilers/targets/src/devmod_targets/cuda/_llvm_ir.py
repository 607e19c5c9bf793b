"""Compile LLVM IR to PTX with the clang of the wheel ziglang."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from devmod import Origin
from devmod.backend import compile_error
from devmod.targets.cuda import SPEC
from devmod_readers.nvidia import read_ptx
from devmod_targets.authoring import CompileRequest, Payload, merge_declared, options_and_defines
from devmod_targets.authoring.llvm_signatures import ir_kernels
from devmod_targets.authoring.zig import ZigResult, run_zig, toolchain
from devmod_targets.cuda._checks import unresolved_function
from devmod_targets.cuda._loads import with_halves
from devmod_targets.cuda._padding import with_padding
from devmod_targets.cuda.signatures.declared import with_entry, with_shared_memory

DISTRIBUTION = "devmod-core[build-llvm]"
_LANGUAGE = "LLVM IR"
_OPTIONS = re.compile(r"-O[0-3s]|--cuda-feature=\+ptx\d\d|-ffp-contract=(?:on|off|fast)")
_DIAGNOSTIC = re.compile(
    r"^(?:(?P<place>\S+?:\d+(?::\d+)?): )?(?:\w+: )?(?P<level>fatal error|error|warning): (?P<text>.*)$",
    re.MULTILINE,
)
_CPUS = re.compile(r"valid target CPU values are: (.*)")


def compile_ir(request: CompileRequest) -> tuple[Payload, list[str]]:
    """Compile LLVM IR, text or bitcode, to PTX. Return the payload and the warnings.

    Raises
    ------
    ToolchainNotFoundError
        ziglang is not installed.
    CompileError
        The target requests another format, or the IR has errors or no kernel. `log` contains
        clang's output.
    """
    arch = _arch(request)
    options, defines = options_and_defines(request)
    if defines or request.include or request.name_expressions:
        raise request.error(
            "defines=, include= and name_expressions= are not supported for LLVM IR, which has no preprocessor"
        )
    _check_options(request, options)
    clang = [
        "clang",
        "--no-default-config",
        "-target",
        "nvptx64-nvidia-cuda",
        "-Wno-override-module",
        "-S",
        "-x",
        "ir",
    ]
    if not any(option.startswith("-O") for option in options):
        options = ["-O3", *options]
    if not any(option.startswith("--cuda-feature") for option in options):
        # Clang's default is that of the CUDA on this machine, or PTX 4.2. A feature that is removed
        # leaves the lowest version of PTX that has the architecture.
        clang.append("--cuda-feature=-ptx42")
    source = {"program.ll": request.data or with_padding(with_halves(request.text)).encode()}
    arguments = [*clang, f"-march={arch}", *options, "program.ll", "-o", "program.ptx"]
    result = _run(request, arguments, source, "program.ptx")
    ptx = result.output.decode()
    text = request.text
    if not text:
        disassemble = [*clang, "-emit-llvm", "program.ll", "-o", "text.ll"]
        text = _run(request, disassemble, source, "text.ll").output.decode()
    _check_functions(request, ptx)
    entries = read_ptx(ptx)
    binary_kernels = {}
    for symbol, entry in entries.items():
        places = [(each.size, each.align) for each in entry.params or ()]
        binary_kernels[symbol] = (places, entry.block)
    kernels = {
        symbol: with_entry(kernel, entries[symbol])
        for symbol, kernel in ir_kernels(request, text, binary_kernels).items()
    }
    if not kernels:
        raise request.error(
            f"the LLVM IR {request.name} has no kernel: give a function the calling convention ptx_kernel"
        )
    fmap = with_shared_memory(merge_declared(SPEC, kernels, request.fmap), entries)
    sources = {request.name: request.digest}
    origin = Origin(str(request.target), toolchain(), options, sources)
    payload = Payload("cuda", ptx.encode(), "ptx", fmap, {"ll": text}, origin, files={})
    warnings = _messages(request, result, "warning")
    if not warnings:
        return payload, []
    return payload, ["\n".join(["clang has warnings about the LLVM IR:", *warnings])]


def _check_options(request: CompileRequest, options: Sequence[str]) -> None:
    for option in options:
        if not _OPTIONS.fullmatch(option):
            raise request.error(
                f"the option {option!r} is not supported for LLVM IR; expected -O0 to -O3, --cuda-feature=+ptx80 (the version of PTX) or "
                "-ffp-contract=off"
            )


def _check_functions(request: CompileRequest, ptx: str) -> None:
    """Raise CompileError for a function that the PTX calls and nothing defines."""
    unresolved = unresolved_function(ptx)
    if unresolved:
        hint = ""
        if unresolved.startswith("__nv_"):
            hint = " (a function of libdevice: link libdevice into the IR first)"
        raise request.error(
            f"{request.name} calls the function {unresolved!r}, which it does not define{hint}",
            log=ptx,
        )


def _arch(request: CompileRequest) -> str:
    """Return the architecture for clang."""
    target = request.target
    options = dict(target.options)
    fmt = options.pop("format", "")
    if options or fmt not in ("", "ptx") or len(target.archs) != 1:
        raise request.error(
            f"LLVM IR compiles to PTX for one architecture: expected a target such as 'cuda -arch=compute_80', got {str(target)!r}"
        )
    arch: str = target.archs[0]
    if arch.startswith("sm_") and not fmt:
        raise request.error(
            f"LLVM IR compiles to PTX, and {arch!r} alone requests a cubin: write -arch={arch.replace('sm_', 'compute_')}, or -format=ptx"
        )
    return arch.replace("compute_", "sm_")


def _run(
    request: CompileRequest, arguments: Sequence[str], files: Mapping[str, bytes], output: str
) -> ZigResult:
    result = run_zig(arguments, files, output, kind="cuda", distribution=DISTRIBUTION)
    result = type(result)(
        result.status, result.log.replace("program.ll", request.name), result.output
    )
    if result.status:
        check_arch(request, result.log)
        errors = _messages(request, result, "error")
        if not errors:
            errors.append(f"clang ended with status {result.status}")
        raise compile_error("cuda", _LANGUAGE, errors, result.log)
    return result


def check_arch(request: CompileRequest, log: str) -> None:
    """Raise CompileError if clang's messages are about an unknown architecture."""
    cpus = _CPUS.search(log)
    if cpus:
        known = ", ".join(name for name in cpus[1].split(", ") if name.startswith("sm_"))
        raise request.error(
            f"{toolchain()} does not support the architecture {request.target.arch!r}; it supports {known}"
        )


def _messages(request: CompileRequest, result: ZigResult, level: str) -> list[str]:
    """Return the messages of a level, each with its place in the IR."""
    messages = []
    for match in _DIAGNOSTIC.finditer(result.log):
        if match["level"].endswith(level):
            messages.append(f"{match['place'] or request.name}: {level}: {match['text']}")
    return messages
