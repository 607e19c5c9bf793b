"""Run the clang of the wheel ziglang on OpenCL C."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from devmod.errors import compile_error
from devmod_targets._text import header_text
from devmod_targets.authoring import warn_caller
from devmod_targets.authoring.zig import run_zig, toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from devmod_targets.authoring import CompileRequest, SelfContainedSource
    from devmod_targets.authoring.zig import ZigResult


_BASE = "opencl-c-base.h"
_PROGRAM = "program.cl"
_DIAGNOSTIC = re.compile(r"^(?P<place>[^\n:]+:\d+:\d+: |)(?P<level>fatal error|error|warning): (?P<text>.*)$", re.MULTILINE)
#: The extensions that every target has here. Whether a device has them is among the needs of a kernel.
_EXTENSIONS = ("cl_khr_fp16", "cl_khr_fp64", "__opencl_c_fp64", "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
_WRITES = ("cl_khr_3d_image_writes", "__opencl_c_3d_image_writes")
_SUBGROUPS = ("cl_khr_subgroups", "__opencl_c_subgroups", "cl_khr_subgroup_shuffle", "cl_khr_subgroup_shuffle_relative")
#: The extras of devmod-core with clang, by kind.
_EXTRAS = {"opencl": "build-opencl-il", "cuda": "build-cuda-opencl", "rocm": "build-rocm"}
_LEVEL = re.compile(r"-O[0-3sz]?")


#: With -fgnu89-inline, an inline function has its body here and not elsewhere, unless it is extern. Without it, one that is extern has.
_EXTERN_INLINE = re.compile(r"\bextern\b[^;{}]*\binline\b|\binline\b[^;{}]*\bextern\b")

#: clang's flags without LLVM's optimizations: devmod changes the program first, or a device's compiler optimizes it.
UNOPTIMIZED = ("-O2", "-Xclang", "-disable-llvm-passes")


def has_level(options: Iterable[str]) -> bool:
    """Return whether the options have a level of optimization."""
    return any(map(_LEVEL.fullmatch, options))


def front_end(
    request: CompileRequest,
    text: str,
    flags: Sequence[str],
    output: Sequence[str],
    *,
    standard: str,
    headers: Mapping[str, str] | None = None,
    declared: bool = True,
) -> ZigResult:
    """Run clang on a text. LLVM optimizes nothing.

    Parameters
    ----------
    request
        The compile request, for the kind.
    text
        The program.
    flags, output
        clang's flags of the target and of the source, and those of the output.
    standard
        The version of OpenCL C, such as "1.2"; "" if the flags have it.
    headers
        Headers that precede the text, in their order.
    declared
        Whether clang declares the built-in functions of OpenCL C.
    """
    own = {_BASE: header_text("devmod_targets.opencl", f"headers/{_BASE}"), **(headers or {})}
    arguments = ["clang", "--no-default-config", "-x", "cl", *([f"-cl-std=CL{standard}"] if standard else []), *flags]
    arguments += [
        *UNOPTIMIZED,
        *([] if _EXTERN_INLINE.search(text) else ["-fgnu89-inline"]),
        "-cl-no-stdinc",
        "-nostdinc",
        "-fno-ident",
        "-fgnu-keywords",
    ]
    arguments += ["-Xclang", "-cl-ext=" + ",".join(f"+{name}" for name in (*_EXTENSIONS, *_WRITES, *_SUBGROUPS))]
    arguments += ["-Xclang", "-fdeclare-opencl-builtins"] if declared else []
    arguments += [part for name in own for part in ("-include", name)]
    files = {name: content.encode() for name, content in own.items()}
    kind = request.target.kind
    return run_zig(
        [*arguments, *output, _PROGRAM, "-o", "program.out"],
        {**files, _PROGRAM: text.encode()},
        "program.out",
        kind=kind,
        distribution=f"devmod-core[{_EXTRAS[kind]}]",
    )


class ClangProgram(NamedTuple):
    """A program, as clang compiles it: the request, the self-contained source, and the version of OpenCL C ("" if its options have it)."""

    request: CompileRequest
    source: SelfContainedSource
    standard: str

    def compile(self, flags: Sequence[str], output: str) -> tuple[bytes, list[str]]:
        """Return clang's output and its warnings.

        Raises
        ------
        CompileError
            The program has errors.
        """
        request = self.request
        result = front_end(
            request,
            self.source.text,
            [*flags, *self.source.options],
            ["-c" if output == "-c" else "-S", *([] if output == "-c" else [output])],
            standard=self.standard,
        )
        log = re.sub(rf"(?m)^{re.escape(_PROGRAM)}(?=:)", lambda _: request.name, result.log)
        if result.status:
            errors = [f"{each['place']}error: {each['text']}" for each in _DIAGNOSTIC.finditer(log) if each["level"] != "warning"]
            raise compile_error(request.target.kind, "OpenCL C", errors or [f"clang ended with status {result.status}"], log)
        warnings = [each[0] for each in _DIAGNOSTIC.finditer(log) if each["level"] == "warning" and each["place"]]
        return result.output, [each for each in warnings if not each.startswith(f"./{_BASE}")]

    def warn(self, warnings: Sequence[str], frames: int = 0) -> None:
        """Issue clang's warnings about the program. `frames` is as in `warn_caller`, from the caller of this method."""
        text = "\n".join(["clang has warnings about the OpenCL C source:", *warnings])
        warn_caller(self.request, [text] if warnings else [], frames=frames + 1)

    @property
    def toolchain(self) -> str:
        """The name and the version of the wheel."""
        return toolchain()


_LINE = re.compile(r'^#line (\d+) "(.*)"$')
_QUOTED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def call_place(request: CompileRequest, source: SelfContainedSource, name: str) -> str:
    """Return the file and the line of the first call of a function; the file alone if a macro has the name."""
    text = _QUOTED.sub(
        lambda quoted: quoted[0] if "\n" not in quoted[0] and quoted[0][0] == '"' else re.sub(r"[^\n]", " ", quoted[0]), source.text
    )
    file, number = request.name, 0
    call = re.compile(rf"\b{re.escape(name)}\s*\(")
    for line in text.split("\n"):
        number += 1
        directive = _LINE.match(line)
        if directive:
            file, number = directive[2], int(directive[1]) - 1
        elif call.search(line):
            return f"{file}:{number}"
    return request.name


#: A function of a module in LLVM IR with its body, a call there, and the name in a mangled symbol.
_BODY = re.compile(r"^define [^\n]*?@([\w.$]+)\((.*?)^\}", re.MULTILINE | re.DOTALL)
_CALLED = re.compile(r"@([\w.$]+)\(")
_MANGLED = re.compile(r"_Z(\d+)")


def calls_of(text: str) -> dict[str, list[str]]:
    """Return the functions that each function of a module in LLVM IR text calls, by their symbols."""
    return {match[1]: [*dict.fromkeys(_CALLED.findall(match[2]))] for match in _BODY.finditer(text)}


def check_calls(request: CompileRequest, source: SelfContainedSource, calls: Mapping[str, Iterable[str]]) -> None:
    """Raise CompileError for a function that calls itself, also through others. Compilers of devices refuse it, or never end.

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
        names.append(symbol[mangled.end() :][: int(mangled[1])] if mangled else symbol)
    through = f" through {' and '.join(map(repr, names[1:-1]))}" if names[1:-1] else ""
    raise request.error(
        f"{call_place(request, source, names[0])}: error: the function {names[0]!r} calls itself{through}, and OpenCL C has no recursion: "
        "use a loop"
    )
