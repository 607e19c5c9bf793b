"""Compile CUDA C++ with NVRTC, the compiler library of the wheel nvidia-cuda-nvrtc. No driver and
no toolkit is needed.

The result depends only on the arguments and the versions of the wheels. NVRTC does not read its
cache in the home directory and does not call the driver. It searches no folder of the system or of
the current directory. `_headers` has the standard headers that it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from devmod.backend import RLock, compile_error
from devmod.errors import CompileError, ToolchainNotFoundError, pip_install
from devmod_targets._text import check_source_text
from devmod_targets.authoring import line_directive
from devmod_targets.authoring._types import Messages
from devmod_targets.authoring.instances import expression_error
from devmod_targets.cuda import _wheels
from devmod_targets.cuda._headers import header_of, host_headers, missing_header, predefined
from devmod_targets.cuda.carried import carries_sources, is_checked, with_sources

__all__ = [
    "DISTRIBUTION",
    "Program",
    "arch_names",
    "compile_program",
    "include_folders",
    "toolchain",
    "version",
]

#: The compiler's name in messages.
TITLE = "NVRTC"
#: What pip installs for the compiler where kernels are built.
DISTRIBUTION = "devmod-core[build-cuda]"
#: The same for nvcc.
_WITH_NVCC = "devmod-core[build-cuda-nvcc]"
#: The folder of the program's name. NVRTC searches the folder of a program for its includes, and
#: this one does not exist.
_FOLDER = "/devmod.invalid/"
#: The oldest NVRTC with all functions that this module calls.
_OLDEST = (13, 0)
MISSING_HEADER = re.compile(r'open source file "([^"]+)"')
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
#: The errors about functions of the host, CUDA's functions for the host, and names of the host's
#: headers.
_HOST_CODE = re.compile(
    r'not allowed in JIT mode|identifier "(?:cuda(?=[A-Z])\w+|f?printf|std(?:err|out)|main)" is undefined|namespace "std" has no member'
)
_load_lock = RLock()

#: ``k.cu(3): error: identifier "x" is undefined``, with a number ``k.cu(3): warning #177-D: …``,
#: and of the later stages ``k.cu(3): Error: Formal parameter space overflowed`` and ``Warning
#: #20208-D: …``, which has no place.
_DIAGNOSTIC = re.compile(
    r"^(?:(?P<file>.+?)\((?P<line>\d+)\): )?(?P<level>[A-Za-z ]*error|Error|[Ww]arning)(?P<number> #[\w-]+)?: (?P<text>.*)$"
)
#: ``ptxas application ptx input, line 26; error   : Not a name of any known instruction``, of an
#: asm statement.
_ASSEMBLER = re.compile(
    r"^ptxas application ptx input, line (?P<line>\d+); (?P<level>fatal|error|warning)\s*: (?P<text>.*)$"
)
#: The last message of the assembler after an error.
_END = "Ptx assembly aborted due to errors"
#: ``ptxas error   : Entry function 'k' uses too much shared data``,
#: ``nvrtc: error: unrecognized option --foo found``.
_TOOL = re.compile(r"^(?P<tool>\w+)\s*:?\s+(?P<level>fatal|error|warning)\s*: (?P<text>.*)$")
#: ``ptxas info    : Used 8 registers, …`` and ``ptxas         .     0 bytes stack frame, …``;
#: ``remark: k.cu:2:18: _Z1gf not inlined …``
_REPORT = re.compile(r"ptxas +(?:info +: |\. )|remark: ")
#: The time differs between equal compiles.
_TIME = re.compile(r"ptxas info +: Compile time = ")
#: The file in which NVRTC reads name expressions.
EXPRESSIONS = "__nv_name_map"


class Program(NamedTuple):
    """The output of NVRTC for one program.

    Parameters
    ----------
    ptx
        The PTX; b"" if NVRTC made none.
    cubin
        The cubin; b"" for a virtual architecture (``compute_90``).
    log
        The compiler's output, with its warnings.
    lowered
        The mangled name of each name expression.
    version
        The version of NVRTC.
    """

    ptx: bytes
    cubin: bytes
    log: str
    lowered: Mapping[str, str]
    version: tuple[int, int]


class _Nvrtc:
    """cuda.bindings.nvrtc with the library of the wheel."""

    def __init__(self, distribution: str) -> None:
        try:
            bindings_version = str(import_module("cuda.bindings").__version__)
            self.api: Any = import_module("cuda.bindings.nvrtc")
        except ImportError as error:
            raise _missing("cuda-bindings, through which NVRTC is called,", distribution) from error
        major = int(bindings_version.partition(".")[0])
        path = _wheels.library(major)
        if not path:
            raise _missing(
                f"NVRTC (the wheel nvidia-cuda-nvrtc, for cuda-bindings {bindings_version})",
                distribution,
            )
        try:
            _wheels.preload(path)
            self.version: tuple[int, int] = self.call("nvrtcVersion")
            numbers: Sequence[int] = self.call("nvrtcGetSupportedArchs")
        except (OSError, RuntimeError, AttributeError) as error:
            raise ToolchainNotFoundError(
                f"CUDA C++ cannot be compiled here: NVRTC cannot be loaded ({error}). "
                f"To repair it: {pip_install(distribution, '--force-reinstall')}",
                kind="cuda",
            ) from error
        if self.version < _OLDEST:
            raise ToolchainNotFoundError(
                f"CUDA C++ cannot be compiled here: this process has loaded NVRTC {_dotted(self.version)}, and devmod needs "
                f"{_dotted(_OLDEST)} or newer. To upgrade it: {pip_install(distribution, '--upgrade')}",
                kind="cuda",
            )
        self.archs = tuple(sorted(int(number) for number in numbers))
        self.folders = _wheels.include_folders(major)

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function of NVRTC and return its values without the status. Raise RuntimeError for
        a failure.
        """
        status, *values = getattr(self.api, name)(*arguments)
        if status.value:
            raise RuntimeError(f"{name} returned {status.name}")
        if len(values) == 1:
            return values[0]
        return tuple(values)

    def output(self, name: str, program: Any) -> bytes:
        """Return one output of a program: its log, PTX or cubin."""
        size = self.call(f"nvrtcGet{name}Size", program)
        if size <= 1:
            return b""
        data = bytes(size)
        self.call(f"nvrtcGet{name}", program, data)
        return data


def _missing(what: str, distribution: str) -> ToolchainNotFoundError:
    return ToolchainNotFoundError(
        f"CUDA C++ cannot be compiled here: {_wheels.missing(what, distribution)}",
        kind="cuda",
    )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _load(distribution: str) -> _Nvrtc:
    with _load_lock:
        # A failure is not cached, so that a call after an installation works.
        if not _loaded:
            _loaded[0] = _Nvrtc(distribution)
        return _loaded[0]


_loaded: dict[int, _Nvrtc] = {}


def version(*, distribution: str = DISTRIBUTION) -> tuple[int, int]:
    """Return the version of NVRTC, such as (13, 5).

    Raises
    ------
    ToolchainNotFoundError
        NVRTC is not installed; the message has the command that installs `distribution`.
    """
    return _load(distribution).version


def toolchain(*, distribution: str = DISTRIBUTION) -> str:
    """Return the versions of NVRTC and of the wheels with headers, for an origin."""
    library = _load(distribution)
    parts = [f"nvrtc {_wheels.version('nvidia-cuda-nvrtc') or _dotted(library.version)}"]
    for name, distribution in _wheels.HEADERS.items():
        number = _wheels.version(distribution)
        if number:
            parts.append(f"{name} {number}")
    return ", ".join(parts)


def include_folders() -> tuple[str, ...]:
    """Return the folders of the headers in NVIDIA's wheels."""
    return _load(DISTRIBUTION).folders


def arch_names(*, distribution: str = DISTRIBUTION) -> tuple[str, ...]:
    """Return the architectures that NVRTC compiles for, such as "sm_90", "sm_90a" and "compute_90",
    in ascending order.
    """
    return names_of_archs(_load(distribution).archs)


@cache
def names_of_archs(numbers: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the architectures with these numbers, in ascending order."""
    # The compilers list the numbers. From 9.0 on there is the variant ``a``, from 10.0 on ``f``.
    suffixes = []
    for number in numbers:
        suffixes.append(f"{number}")
        if number >= 90:
            suffixes.append(f"{number}a")
        if number >= 100:
            suffixes.append(f"{number}f")
    real = [f"sm_{suffix}" for suffix in suffixes]
    virtual = [f"compute_{suffix}" for suffix in suffixes]
    return (*real, *virtual)


def compile_program(
    text: str,
    name: str,
    options: Iterable[str],
    *,
    name_expressions: Iterable[str] = (),
    headers: Mapping[str, str] | None = None,
    folders: Iterable[str] | None = None,
    distribution: str = DISTRIBUTION,
) -> Program:
    """Compile a CUDA C++ program.

    Parameters
    ----------
    text
        The program, which contains its user includes.
    name
        The program's file name, without folders, for diagnostics and ``__FILE__``.
    options
        NVRTC's options, such as "-arch=sm_90". They are not checked. ``--no-cache`` is added.
    name_expressions
        The expressions whose kernels are compiled and whose mangled names are returned, such as
        "scale<float>".
    headers
        Further headers in memory: include name to text. They precede the standard headers of this
        module.
    folders
        The folders of headers; None for those of NVIDIA's wheels.
    distribution
        What pip installs, for the errors about a missing NVRTC.

    Returns
    -------
    Program
        The PTX, and for a real architecture the cubin.

    Raises
    ------
    ToolchainNotFoundError
        NVRTC is not installed, too old or cannot be loaded.
    CompileError
        The program has errors. `log` is NVRTC's output.
    """
    library = _load(distribution)
    check_source_text(text, name, "cuda")
    expressions = tuple(name_expressions)
    in_memory = {**host_headers(), **(headers or {})}
    # Without a seed, the symbols of anonymous namespaces contain random numbers.
    arguments = [*options, "--no-cache", "-frandom-seed=devmod"]
    paths = library.folders
    if folders is not None:
        paths = tuple(folders)
    checked = is_checked()
    if checked and "-lineinfo" not in arguments:
        arguments.append("-lineinfo")
    arguments += [f"-I{folder}" for folder in paths]
    program = library.call(
        "nvrtcCreateProgram",
        (predefined(text) + line_directive(1, name) + text).encode(),
        (_FOLDER + name).encode("utf-8", "backslashreplace"),
        len(in_memory),
        [value.encode() for value in in_memory.values()],
        [key.encode() for key in in_memory],
    )
    try:
        for expression in expressions:
            library.call("nvrtcAddNameExpression", program, expression.encode())
        (status,) = library.api.nvrtcCompileProgram(
            program, len(arguments), [argument.encode() for argument in arguments]
        )
        log = library.output("ProgramLog", program).rstrip(b"\0").decode("utf-8", "replace")
        log = log.replace(_FOLDER, "").strip()
        if status.value:
            raise _compile_error(status.name, log, name, expressions, paths, distribution)
        lowered = {
            each: library.call("nvrtcGetLoweredName", program, each.encode()).decode()
            for each in expressions
        }
        ptx = library.output("PTX", program).rstrip(b"\0")
        if checked and not carries_sources(ptx.decode()):
            ptx = with_sources(ptx.decode(), {name: text}, ()).encode()
        cubin = b""
        if any("=sm_" in argument for argument in arguments):
            cubin = checked_cubin(library.output("CUBIN", program))
    finally:
        library.call("nvrtcDestroyProgram", program)
    return Program(ptx, cubin, log, lowered, library.version)


def checked_cubin(cubin: bytes) -> bytes:
    """Return a cubin, or refuse PTX, which the libraries of NVIDIA return below `devmod simulate`:
    no other machine would run that file.

    Raises
    ------
    CompileError
        It is no ELF file.
    """
    if cubin and not cubin.startswith(b"\x7fELF"):
        raise CompileError(
            "below `devmod simulate`, NVIDIA's compilers return PTX for a cubin: compile for compute_NN, or outside",
            kind="cuda",
        )
    return cubin


def _with_undefined_first(errors: list[str]) -> list[str]:
    """Return the errors. An undefined type in the declaration of a kernel precedes the errors that
    follow from it on its line.
    """
    if not errors or "__global__" not in errors[0]:
        return errors
    place = errors[0].partition(": error: ")[0]
    for number, error in enumerate(errors):
        if error.startswith(f"{place}: ") and _UNDEFINED.search(error):
            return [error, *errors[:number], *errors[number + 1 :]]
    return errors


def _without_host(limit: str, distribution: str) -> str:
    """Return what NVRTC lacks for host code, and where kernels are built, the compiler that takes
    it. A receiver has NVRTC alone.
    """
    text = f"NVRTC {limit}"
    if distribution == DISTRIBUTION:
        text += f". nvcc takes host code: run {pip_install(_WITH_NVCC)}, and add -compiler=nvcc to the target"
    return text


def _compile_error(
    status: str,
    log: str,
    name: str,
    expressions: tuple[str, ...],
    folders: Sequence[str],
    distribution: str,
) -> CompileError:
    errors, _ = diagnostics(log, name)
    if not errors:
        return CompileError(f"NVRTC failed: {status}", kind="cuda", log=log)
    errors = _with_undefined_first(errors)
    header = MISSING_HEADER.search(errors[0])
    if header:
        reason = _without_host("has no headers of the host's compiler", distribution)
        errors[0] += f". {missing_header(header[1], folders, distribution, reason)}"
    declaring = ""
    undefined = _UNDEFINED.search(errors[0])
    if undefined:
        declaring = header_of(undefined[1])
    if declaring:
        errors[0] += f". #include <{declaring}> declares it"
    elif not header and any(map(_HOST_CODE.search, errors)):
        errors[0] += f". {_without_host('compiles the code of the device alone', distribution)}"
    # Only an expression without an error in the program before it is at fault.
    if expressions and errors[0].startswith(f"{EXPRESSIONS}:"):
        return expression_error("cuda", expressions, errors[0].partition(": error: ")[2], log)
    return compile_error("cuda", "CUDA C++", errors, log)


# -- Read the diagnostics in NVRTC's log.


def read_reports(log: str, title: str, *, remarks: bool = False) -> list[str]:
    """Return the report of a log below a title, or no report. It has the assembler's lines, such as
    the registers of each kernel.

    With `remarks`, also the lines about inlining, each once. NVRTC prints them in later compiles of
    a process too, without the option.
    """
    inlining: dict[str, None] = {}
    lines = []
    for line in log.splitlines():
        if not _REPORT.match(line) or _TIME.match(line):
            continue
        if not line.startswith("remark: "):
            lines.append(line)
        elif remarks:
            inlining[line] = None
    report = [*inlining, *lines]
    if not report:
        return []
    return ["\n".join([f"{title}:", *report])]


def clock_error(place: str, macro: str, log: str = "") -> CompileError:
    """Return the error about a macro whose value is the time of the build (R38)."""
    return CompileError(
        f"{place}: {macro} is the time of the build, and equal sources give equal payloads; pass a text in defines= instead",
        kind="cuda",
        log=log,
    )


def diagnostics(log: str, name: str = "", ptx: str = "the PTX") -> Messages:
    """Return the errors and the warnings of a log, each as ``file:line: error: text`` or
    ``file:line: warning #177-D: text``.

    Parameters
    ----------
    log
        The log.
    name
        The name of the program, for a message without a place.
    ptx
        The name of the PTX, for a message of the assembler.
    """
    errors: list[str] = []
    warnings = []
    for line in log.splitlines():
        match = _DIAGNOSTIC.match(line) or _ASSEMBLER.match(line) or _TOOL.match(line)
        if match is None:
            continue
        groups = match.groupdict()
        place = groups.get("tool", "")
        if match.re is _DIAGNOSTIC:
            place = name
            if match["file"]:
                place = f"{match['file']}:{match['line']}"
        elif match["text"] == _END and errors:
            continue
        elif match.re is _ASSEMBLER:
            place = f"{ptx}:{match['line']}"
        if match["level"].lower() == "warning":
            # The number of a warning is that of --diag-suppress=.
            level = f"warning{groups.get('number') or ''}"
            warnings.append(f"{place}: {level}: {match['text']}".removeprefix(": "))
        else:
            errors.append(f"{place}: error: {match['text']}".removeprefix(": "))
    return errors, warnings
