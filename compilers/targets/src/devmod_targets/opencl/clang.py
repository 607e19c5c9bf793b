"""Run the clang of the wheel ziglang on OpenCL C, for SPIR-V and for LLVM's GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import NamedTuple

from devmod.errors import CompileError, compile_error
from devmod_targets._text import find_code, header_text
from devmod_targets.authoring import CompileRequest, SelfContainedSource
from devmod_targets.authoring.zig import ZigResult, run_zig

_BASE = "opencl-c-base.h"
_PROGRAM = "program.cl"
_DIAGNOSTIC = re.compile(
    r"^(?P<place>[^\n:]+:\d+:\d+: |)(?:zig: )?(?P<level>fatal error|error|warning): (?P<text>.*)$",
    re.MULTILINE,
)
#: The extensions that clang compiles. Whether a device has them is among the needs of a kernel.
_EXTENSIONS = (
    "cl_khr_fp16",
    "cl_khr_fp64",
    "__opencl_c_fp64",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
)
_WRITES = ("cl_khr_3d_image_writes", "__opencl_c_3d_image_writes")
_SUBGROUPS = (
    "cl_khr_subgroups",
    "__opencl_c_subgroups",
    "cl_khr_subgroup_shuffle",
    "cl_khr_subgroup_shuffle_relative",
)
#: The header of devmod's definitions of built-in functions for SPIR-V.
_DEFINITIONS = "devmod_spirv.h"
#: The extras of devmod-core with clang, by kind.
_EXTRAS = {"opencl": "build-opencl-il", "cuda": "build-cuda-opencl", "rocm": "build-rocm-opencl"}
#: With -fgnu89-inline, an inline function has its body here and not elsewhere, unless it is extern.
#: Without it, one that is extern has.
_EXTERN_INLINE = re.compile(r"\bextern\b[^;{}]*\binline\b|\binline\b[^;{}]*\bextern\b")

#: clang's flags without LLVM's optimizations: a device's compiler optimizes the program.
_UNOPTIMIZED = ("-O2", "-Xclang", "-disable-llvm-passes")

#: The name in a mangled symbol.
_MANGLED = re.compile(r"_Z(\d+)")


def run_front_end(
    text: str,
    flags: Sequence[str],
    output: Sequence[str],
    *,
    kind: str = "opencl",
    header: str = "",
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> ZigResult:
    """Run clang on a text. LLVM optimizes nothing.

    Parameters
    ----------
    text
        The program.
    flags, output
        clang's flags of the target and of the source, and those of the output.
    kind
        The target's kind.
    header
        A header of this package that precedes the text and declares what it needs of OpenCL C's
        built-in functions. Without one, clang declares them all.
    files
        Further files that the flags name.
    """
    arguments = ["clang", "--no-default-config", "-x", "cl", *flags, *_UNOPTIMIZED]
    is_cpp = any(flag.startswith("-cl-std=CLC++") for flag in flags)
    if not is_cpp and not _EXTERN_INLINE.search(text):
        arguments.append("-fgnu89-inline")
    arguments += ["-cl-no-stdinc", "-nostdinc", "-fno-ident", "-fgnu-keywords"]
    extensions = ",".join(f"+{name}" for name in (*_EXTENSIONS, *_WRITES, *_SUBGROUPS))
    arguments += ["-Xclang", f"-cl-ext={extensions}"]
    headers = [_BASE]
    if header:
        headers.append(header)
    else:
        arguments += ["-Xclang", "-fdeclare-opencl-builtins"]
    own = dict(files)
    for name in headers:
        arguments += ["-include", name]
        own[name] = header_text(__package__, f"headers/{name}").encode()
    own[_PROGRAM] = text.encode()
    return run_zig(
        [*arguments, *output, _PROGRAM, "-o", "program.out"],
        own,
        "program.out",
        kind=kind,
        distribution=f"devmod-core[{_EXTRAS[kind]}]",
    )


def compile_definitions(text: str, flags: Sequence[str]) -> bytes:
    """Return definitions of built-in functions as bitcode. `flags` are those of the target."""
    result = run_front_end(
        text, ["-cl-std=CL2.0", "-w", *flags], ["-c", "-emit-llvm"], header=_DEFINITIONS
    )
    if result.status:
        raise CompileError(
            f"devmod's definitions of the built-in functions of OpenCL C do not compile: {result.log[:500]}",
            kind="opencl",
            log=result.log,
        )
    return result.output


class ClangProgram(NamedTuple):
    """A program, as clang compiles it: the request, the self-contained source, and the version of
    OpenCL C ("" if its options have it).
    """

    request: CompileRequest
    source: SelfContainedSource
    standard: str

    def compile(
        self,
        flags: Sequence[str],
        output: str,
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> tuple[bytes, list[str]]:
        """Return clang's output and its warnings. `files` are those that the flags name.

        Raises
        ------
        CompileError
            The program has errors.
        """
        request = self.request
        flags = [*flags, *self.source.options]
        if self.standard:
            flags.insert(0, f"-cl-std=CL{self.standard}")
        outputs = ["-c"]
        if output != "-c":
            outputs = ["-S", output]
        kind = request.target.kind
        result = run_front_end(self.source.text, flags, outputs, kind=kind, files=files)
        log = re.sub(rf"(?m)^{re.escape(_PROGRAM)}(?=:)", lambda _: request.name, result.log)
        errors = []
        warnings = []
        for match in _DIAGNOSTIC.finditer(log):
            if match["level"] != "warning":
                errors.append(f"{match['place']}error: {match['text']}")
            elif match["place"] and not match["place"].startswith(f"./{_BASE}"):
                warnings.append(match[0])
        if result.status:
            if not errors:
                errors.append(f"clang ended with status {result.status}")
            raise compile_error(kind, "OpenCL C", errors, log)
        return result.output, warnings


def call_place(request: CompileRequest, source: SelfContainedSource, name: str) -> str:
    """Return the file and the line of the first call of a function; the file alone if a macro has
    the name.
    """
    return find_code(rf"\b{re.escape(name)}\s*\(", source.text, request.name)[0]


def check_calls(
    request: CompileRequest, source: SelfContainedSource, calls: Mapping[str, Iterable[str]]
) -> None:
    """Raise CompileError for a function that calls itself, also through others. Compilers of
    devices refuse it, or never end.

    Parameters
    ----------
    request, source
        The compile request and the self-contained source.
    calls
        The symbols that each function calls, by its symbol.
    """
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]  # of two neighbours, the first calls the second
    else:
        return
    names = []
    for symbol in circle:
        mangled = _MANGLED.match(symbol)
        if mangled:
            symbol = symbol[mangled.end() :][: int(mangled[1])]
        names.append(symbol)
    through = ""
    if names[1:-1]:
        through = f" through {' and '.join(map(repr, names[1:-1]))}"
    raise request.error(
        f"{call_place(request, source, names[0])}: error: the function {names[0]!r} calls itself{through}, and OpenCL C has no recursion: "
        "use a loop"
    )
