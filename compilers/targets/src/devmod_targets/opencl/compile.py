"""The compiler of OpenCL C. The payload is the self-contained source, or SPIR-V (``-format=il``);
libclang reads the kernels.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from devmod import Param
from devmod.errors import CompileError, compile_error, condition_hint
from devmod_readers.options.opencl import TABLE, doubts_of, unsupported
from devmod_readers.reflection import ReflectedFunction
from devmod_targets._text import define_lines, header_text
from devmod_targets.authoring import (
    Payload,
    SelfContainedSource,
    complete_source,
    include_hint,
    source_payload,
    warn_caller,
)
from devmod_targets.authoring._mangled import BUILTINS
from devmod_targets.authoring._open_block import OPENCL_FUNCTIONS, open_functions
from devmod_targets.authoring._request import CompileRequest, target_format
from devmod_targets.authoring._types import Threads
from devmod_targets.authoring.c_functions import with_struct
from devmod_targets.authoring.clang import (
    MAX_ERRORS,
    SYNTAX_CATEGORIES,
    VIRTUAL_FOLDER,
    Libclang,
    element_type,
    load_libclang,
)
from devmod_targets.authoring.const_casts import written_param, written_parameters
from devmod_targets.opencl._needs import find_needs
from devmod_targets.opencl._samples import read_samples

# Where to change: a predeclared name of OpenCL C or Metal
#   here: `compilers/targets/src/devmod_targets/opencl/headers/`,
#     `compilers/targets/src/devmod_targets/metal/headers/`
#   tests: `compilers/targets/tests/test_compile_opencl.py`,
#     `compilers/targets/tests/test_compile_metal.py`
#: The header that libclang includes after it has declared the built-in functions
#: (``-fdeclare-opencl-builtins``). It has the types, the constants and the feature macros, from the
#: folder ``headers``. Only names and types matter: no program runs with these values.
NAME = "opencl-c-base.h"
#: The built-in functions whose names a kernel may have by mistake. PoCL's headers rename them by
#: macros, and other compilers refuse a second declaration.
FUNCTIONS = OPENCL_FUNCTIONS | {"barrier", "printf"}
_DEFINES = "defines"
#: Compiler options that change macros and types.
_FRONTEND_OPTIONS = (
    "-cl-std=",
    "-cl-fast-relaxed-math",
    "-cl-finite-math-only",
    "-cl-single-precision-constant",
    "-D",
    "-U",
)
#: The warnings that sources for several vendors have on purpose: the pragma of an extension that
#: clang does not know is in 118 of ggml's kernels, and an attribute of a vendor's subgroups in 32.
#: No other warning is in more than two of the files of ggml, MNN and CLBlast.
COMMON_WARNINGS = ("-Wno-ignored-pragmas", "-Wno-unknown-attributes")
_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
#: The prefixes and suffixes that Khronos's registry gives vendors, in names of functions and types
#: that clang does not declare.
_VENDORS = "altera|amd|arm|img|intel|nv|qcom"
#: The functions of extensions: those of vendors and compilers, and those of Khronos.
_EXTENSIONS = re.compile(
    rf"__\w+|(?:{_VENDORS})_\w+|\w+_(?:{_VENDORS}|ext)|(?:sub_group|work_group|clock_read)_\w+"
    r"|get_sub_group_\w+|async_work_group_copy_[23]D[23]D|dot_acc_sat(?:_\w+)?|dot_4x8packed_\w+|bit_reverse|bitfield_\w+"
)
#: An unknown name that is a type of a vendor's devices: Qualcomm's vectors of 32 lanes, and names
#: with a vendor's prefix.
_VENDOR_TYPE = re.compile(
    rf"(?:type name|identifier) '(?:(?:u?(?:char|short|int|long)|half|float|double)32|(?:{_VENDORS})_\w+)'",
    re.IGNORECASE,
)
_OF_A_VENDOR = (
    ". It may be of one vendor's devices, and devmod reads the types of OpenCL C alone: put its kernels under a macro of these devices, "
    "such as #ifdef cl_qcom_vector_image_ops"
)
#: The category of clang's errors about the operands of inline assembly, which depend on the device.
_ASSEMBLY = "Inline Assembly Issue"
_ASSEMBLY_WORD = re.compile(r"\b(?:asm|__asm|__asm__)\b")
_DEVICES_DECIDE = "some devices may refuse the OpenCL C source:"
_REPORTS = "clang has warnings about the OpenCL C source:"
#: What may be between a name and the parenthesis of a call.
_CALL = re.compile(rb"(?:\s|/\*.*?\*/|//[^\n]*\n|\\\n)*\(", re.DOTALL)
#: A parenthesis, or text in which one has no meaning.
_PARENTHESIS = re.compile(
    rb"""[()]|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
#: A macro whose value is a name, as for a function whose name depends on the device.
_OTHER_NAME = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\w+)[ \t]*$", re.MULTILINE)
#: Characters that precede a value and never the keyword of a vendor.
_VALUE_PREFIXES = b"=+-*%&|^<>!~?[(,"
_NOT_FOUND = re.compile("error: '[^']*' file not found$")
_LABEL = re.compile(": (?:error|warning): ")

_NEWER = "the OpenCL C source {name} is OpenCL C 2.0, but devices compile it as 1.2 by default: {why}. Add options=['-cl-std=CL2.0']"
_BUILTIN = (
    "{location}: warning: the kernel {name!r} has the name of a built-in function of OpenCL C. "
    "Some drivers refuse such a kernel. Rename it"
)
#: clang's target for a source: a source that needs a size_t of 32 bits fails on most devices.
_DEVICES = "spir64"
_SIZE_DIFFERS = ", where size_t has 64 bits, as on most devices of OpenCL"
#: The kinds of arrays. A parameter of such a type is a pointer to the elements.
_ARRAYS = ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
_UNSUPPORTED = {"PIPE": "a pipe", "OCLQUEUE": "a queue"}
#: libclang's names of the types of images.
_IMAGE = re.compile(r"OCLIMAGE([123])D(ARRAY|BUFFER)?(?:RO|WO|RW)")
_SUBGROUP = re.compile(r"\bintel_reqd_sub_group_size\((\d+)[uUlL]*\)")
#: clang's numbers of the address spaces of a kernel's pointers.
_LOCAL = 2
_CONSTANT = 3

#: The numbers in OpenCL's atomic types, as libclang prints them. libclang has no type kind for such
#: a type.
_ATOMICS = {
    name: dtype
    for name, dtype in BUILTINS.values()
    if name.removeprefix("unsigned ") in ("int", "long", "float", "double")
}


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile an OpenCL C source.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the kernels that libclang reads, and replaces
        them if libclang is missing.

    Returns
    -------
    Payload
        The source as a payload of the target's kind, or its SPIR-V for a target with
        ``-format=il``.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and no fmap is declared.
    CompileError
        The source has errors, no kernel, or a kernel that devmod cannot call. `log` contains all
        diagnostics.
    """
    fmt = target_format(request.target, ("cl", "il"))
    if request.name_expressions:
        raise request.error(
            "name_expressions= is not supported for OpenCL C, which has no templates"
        )
    source = complete_source(request, dialect=("-x", "cl", "-target", triple_of(request)))
    option = unsupported(source.options)
    if option:
        raise request.error(
            f"the {request.target.kind} option {option!r} is not supported: a receiver does not pass it to its driver. "
            f"Expected an option of OpenCL such as -cl-std=CL2.0, -cl-mad-enable or -w{TABLE.hint(option)}"
        )
    warnings: list[str] = []
    empty_error = f"the OpenCL C source {request.name} has no kernel: mark a function with __kernel"
    if fmt == "il":
        from devmod_targets.opencl._il import compile_il

        # clang decides here, not the device's compiler.
        kernels, reader, standard = read(request, source, [])
        if not kernels:
            raise request.error(empty_error)
        return compile_il(request, source, kernels, reader, standard)
    doubts = doubts_of(source.options)
    if doubts:
        warnings.append("\n".join([_DEVICES_DECIDE, *doubts]))
    payload = source_payload(
        request.spec,
        "cl",
        request,
        source,
        lambda: read(request, source, warnings)[:2],
        empty_error=empty_error,
    )
    warn_caller(request, [], doubts=warnings)  # no error, because the device's compiler decides
    return payload


# -- Read the kernels of an OpenCL C program with libclang. OpenCL is not needed.
#
# libclang parses the user's own text, so that diagnostics have the user's file, line and column. A
# separate header after the prelude contains the defines, which precede the program's text in the
# payload.


_Kernels = dict[str, ReflectedFunction]


def read(
    request: CompileRequest,
    source: SelfContainedSource,
    messages: list[str],
    check: Callable[[Libclang, Any], None] = lambda _library, _unit: None,
) -> tuple[_Kernels, str, str]:
    """Read the kernels of a program. Add the warnings to `messages`.

    Parameters
    ----------
    request, source, messages
        The compile request, the self-contained source, and the list.
    check
        Raises CompileError for a program without errors that the kind does not support.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name.
    str
        The toolchain, such as "libclang 18.1.1".
    str
        The version of OpenCL C in which the program was read, such as "1.2"; "" if its options name
        one.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The program has errors other than calls of an extension's functions and inline assembly.
    """
    library = load_libclang(request.spec, "OpenCL C")
    program, standard = _parse_in_version(library, request, source, messages)
    errors = program.errors
    if program.calls and not errors:
        errors = _hidden_errors(library, request, source, standard, program.calls)
    if not errors and triple_of(request) != _DEVICES:
        of_devices = _parse(library, request, source, standard, arguments=["-target", _DEVICES])
        errors = [f"{each}{_SIZE_DIFFERS}" for each in of_devices.errors]
    if errors:
        log = "\n".join([*errors, *program.warnings, *program.reports])
        if _NOT_FOUND.search(errors[0]):
            errors[0] += f". {include_hint(request.include)}"
        raise compile_error(request.target.kind, "OpenCL C", errors, log)
    _check_includes(request, source, program.unit)
    _check_definitions(library, request, source, standard, program.unit)
    check(library, program.unit)

    def parse_without(arguments: list[str]) -> tuple[bool, Iterable[str], set[str]]:
        # The first error decides, unless it may be one of the undeclared functions.
        if not program.calls:
            arguments = [*arguments, "-ferror-limit=1"]
        without = _parse(library, request, source, standard, arguments=arguments)
        defined = {str(each.spelling) for each in function_definitions(library, without.unit)}
        return bool(without.errors), without.calls, defined

    # A function that devmod does not know may depend on the block, so no kernel is open then.
    text = source.text
    if program.warnings:
        text = ""
    kernels = _with_written(library, program.unit, _kernels(library, program.unit, text))
    needs = find_needs(source.text, kernels, program.calls, parse_without)
    samples = read_samples(library, function_definitions(library, program.unit), source.text)
    for name, kernel in kernels.items():
        kernels[name] = _with_needs(name, kernel, needs[name], samples)
        if name in FUNCTIONS:
            messages.append(_BUILTIN.format(location=kernel.location, name=name))
    if program.warnings:
        messages.append("\n".join([_DEVICES_DECIDE, *program.warnings]))
    if program.reports:
        messages.append("\n".join([_REPORTS, *program.reports]))
    return kernels, library.toolchain, standard


def kernel_extents(
    request: CompileRequest, source: SelfContainedSource, standard: str
) -> dict[str, list[tuple[int, int]]]:
    """Return the first and last offset of each declaration of a kernel, by its name, in the UTF-8
    of a self-contained source.
    """
    library = load_libclang(request.spec, "OpenCL C")
    itself = request.replace(text=source.text, folder="", include=())
    unit = _parse(library, itself, source, standard).unit
    data = source.text.encode()
    extents: dict[str, list[tuple[int, int]]] = {}
    for cursor, _ in _kernel_declarations(library, unit):
        start = cursor.extent.start.offset
        end = cursor.extent.end.offset
        # The end of a declaration in an argument of a macro is that macro's first character.
        if end == start or data[end - 1 : end].isspace():
            end = _end_of_arguments(data, end)
        extents.setdefault(cursor.spelling, []).append((start, end))
    return extents


def _end_of_arguments(data: bytes, start: int) -> int:
    """Return the end of the arguments of a macro that starts at an offset."""
    depth = 0
    for bracket in _PARENTHESIS.finditer(data, start):
        if bracket[0] == b"(":
            depth += 1
        elif bracket[0] == b")":
            depth -= 1
            if depth == 0:
                return bracket.end()
    return start


def _parse_in_version(
    library: Libclang, request: CompileRequest, source: SelfContainedSource, messages: list[str]
) -> tuple[_Program, str]:
    """Return the program and its version of OpenCL C; "" if the options name one."""
    if any(option.startswith("-cl-std=") for option in source.options):
        return _parse(library, request, source, ""), ""
    # The default version of devices is OpenCL C 1.2. A source with fewer errors in 2.0 was written
    # for 2.0.
    program = _parse(library, request, source, "1.2")
    problems = program.errors or program.warnings
    if problems:
        newer = _parse(library, request, source, "2.0")
        if newer.problem_count() < program.problem_count():
            why = _LABEL.sub(": ", problems[0], count=1)
            messages.append(_NEWER.format(name=request.name, why=why))
            return newer, "2.0"
    return program, "1.2"


def _check_includes(request: CompileRequest, source: SelfContainedSource, unit: Any) -> None:
    """Raise CompileError for an include whose file is not in the source."""
    included_paths = {os.path.realpath(path) for path in source.names}
    for entry in unit.get_includes():
        path = os.path.realpath(str(entry.include))
        if path not in included_paths and not path.startswith(VIRTUAL_FOLDER):
            location = f"{os.path.basename(str(entry.source))}:{entry.location.line}"
            raise request.error(
                f"{location}: the file of this include cannot be embedded in the payload; write #include and its name in quotes"
            )


def _check_definitions(
    library: Libclang,
    request: CompileRequest,
    source: SelfContainedSource,
    standard: str,
    unit: Any,
) -> None:
    """Raise CompileError if a kernel calls a function that the program only declares, also through
    others. A built-in function may be declared, and for drivers of OpenCL also what begins with an
    underscore, such as `__ocml_sin_f32`.
    """
    undefined = _undefined_functions(library, unit)
    if request.target.kind == "opencl":
        undefined = [each for each in undefined if not each.spelling.startswith("_")]
    if not undefined:
        return
    numbers = {each.hash for each in undefined}
    bodies: dict[str, list[Any]] = {}
    for each in function_definitions(library, unit):
        bodies.setdefault(str(each.spelling), []).append(each)
    waiting = [str(each.spelling) for each, _ in _kernel_declarations(library, unit)]
    called: dict[str, Any] = {}
    visited = set()
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        for call in chain.from_iterable(_calls_in(library, body) for body in bodies.get(name, ())):
            waiting.append(str(call.spelling))
            if call.referenced is not None and call.referenced.canonical.hash in numbers:
                called.setdefault(str(call.spelling), call)
    names = dict(source.names)
    names[os.path.realpath(unit.spelling)] = request.name
    errors = []
    for name, call in called.items():
        text = f"void devmod_calls(void) {{ {name}(); }}"
        itself = request.replace(text=text, folder="", include=())
        problems = _parse(library, itself, source, standard).errors
        if any(_UNDECLARED.search(each) for each in problems):
            file, line, column = library.location(call.location)
            errors.append(
                f"{_name_of(file, names)}:{line}:{column}: error: the program calls the function {name!r}, which it does not define"
            )
    if errors:
        raise compile_error(request.target.kind, "OpenCL C", errors, "\n".join(errors))


def _undefined_functions(library: Libclang, unit: Any) -> list[Any]:
    """Return the functions that a program declares without a body."""
    undefined = []
    for cursor in unit.cursor.get_children():
        if cursor.kind != library.cindex.CursorKind.FUNCTION_DECL or cursor.location.file is None:
            continue
        if cursor.get_definition() is None:
            undefined.append(cursor.canonical)
    return undefined


def _calls_in(library: Libclang, body: Any) -> list[Any]:
    """Return the calls in a function. Those under a constant condition, which clang may leave out,
    are not among them.
    """
    kinds = library.cindex.CursorKind
    left_out: set[int] = set()
    for branch in library.descendants(body, (kinds.IF_STMT, kinds.CONDITIONAL_OPERATOR)):
        condition = next(branch.get_children())
        if not library.descendants(condition, (kinds.DECL_REF_EXPR, kinds.CALL_EXPR)):
            left_out.update(each.hash for each in library.descendants(branch, (kinds.CALL_EXPR,)))
    calls = library.descendants(body, (kinds.CALL_EXPR,))
    return [each for each in calls if each.hash not in left_out]


def _with_written(library: Libclang, unit: Any, kernels: _Kernels) -> _Kernels:
    """Return the kernels with the access of the buffers that they write in spite of const."""
    params = chain.from_iterable(kernel.params for kernel in kernels.values())
    if not any(param.kind == "buffer" and param.access == "r" for param in params):
        return kernels
    written = written_parameters(library, unit.cursor.get_children())
    result = {}
    for name, kernel in kernels.items():
        own = [
            written_param(param, (name, number), written)
            for number, param in enumerate(kernel.params)
        ]
        result[name] = kernel.replace(params=own)
    return result


#: The undeclared functions of extensions: each name with the character before each of its calls.
_Calls = dict[str, list[bytes]]


class _Program(NamedTuple):
    """A parsed program: its translation unit, its errors, the warnings of devmod, the undeclared
    functions of extensions, and the warnings of clang.
    """

    unit: Any
    errors: list[str]
    warnings: list[str]
    calls: _Calls
    reports: list[str]

    def problem_count(self) -> tuple[int, int]:
        return len(self.errors), len(self.warnings)


def _hidden_errors(
    library: Libclang,
    request: CompileRequest,
    source: SelfContainedSource,
    standard: str,
    calls: _Calls,
) -> list[str]:
    """Return the syntax errors after calls of undeclared functions, where clang skips the rest of a
    statement.

    The source is parsed again with the functions defined as values. A name that is not where a
    value is expected may be a vendor's keyword with any syntax.
    """
    head = ""
    for name, before in calls.items():
        if all(each and each in _VALUE_PREFIXES for each in before):
            head += f"#define {name}(...) (0)\n"
    if not head:
        return []
    return _parse(library, request, source, standard, head).errors


def _parse(
    library: Libclang,
    request: CompileRequest,
    source: SelfContainedSource,
    standard: str,
    stand_ins: str = "",
    arguments: Sequence[str] = (),
) -> _Program:
    """Parse a program.

    With `stand_ins`, the definitions of undeclared functions, only syntax errors count, because
    their types are unknown. `arguments` are further arguments of clang.
    """
    main = os.path.join(request.folder or VIRTUAL_FOLDER, request.name)
    defines = os.path.join(VIRTUAL_FOLDER, _DEFINES)
    files = [
        (main, request.text),
        (os.path.join(VIRTUAL_FOLDER, NAME), header_text(__package__, f"headers/{NAME}")),
        (defines, define_lines(source.defines) + stand_ins),
    ]
    description = f"the OpenCL C source {request.name}"
    if source.options:
        description += f" with the options {' '.join(source.options)}"
    unit = library.parse(
        main,
        _arguments(request, source, standard, arguments),
        files,
        kind=request.target.kind,
        description=description,
    )
    names = dict(source.names) | {os.path.realpath(main): request.name, defines: "<defines>"}
    functions = _Bodies(library, unit, source.text, {main: request.text.encode()})
    program = _Program(unit, [], [], {}, [])
    for diagnostic in unit.diagnostics:
        category = diagnostic.category_name
        if diagnostic.severity < diagnostic.Warning or category == _ASSEMBLY:
            continue
        if stand_ins and category not in SYNTAX_CATEGORIES:
            continue
        _add_diagnostic(program, diagnostic, source, functions, names)
        if len(program.errors) == MAX_ERRORS:
            break
    for each in functions.assembly():
        place = f"{_name_of(str(each.file), names)}:{each.line}:{each.column}"
        program.warnings.append(f"{place}: warning: inline assembly")
    if "-Werror" in source.options and not program.errors:
        errors = [_LABEL.sub(": error: ", each, count=1) for each in program.reports]
        return program._replace(errors=errors, reports=[])
    return program


def _arguments(
    request: CompileRequest, source: SelfContainedSource, standard: str, further: Sequence[str]
) -> list[str]:
    """Return the arguments of clang."""
    arguments = [
        "-x",
        "cl",
        "-target",
        triple_of(request),
        "-nostdinc",
        "-ferror-limit=0",
        *COMMON_WARNINGS,
        *further,
        "-Xclang",
        "-fdeclare-opencl-builtins",
        "-Xclang",
        "-fgnu-keywords",  # `asm` as well as `__asm__`
        "-isystem",
        VIRTUAL_FOLDER,
        "-include",
        os.path.join(VIRTUAL_FOLDER, _DEFINES),
    ]
    if standard:
        arguments.append(f"-cl-std=CL{standard}")
    for option in source.options:
        if option.startswith(_FRONTEND_OPTIONS) or option == "-w":
            arguments.append(option)
    arguments += [f"-I{folder}" for folder in request.include]
    return arguments


def _add_diagnostic(
    program: _Program,
    diagnostic: Any,
    source: SelfContainedSource,
    functions: _Bodies,
    names: Mapping[str, str],
) -> None:
    """Add a diagnostic of clang to the lists of a program."""
    place = diagnostic.location
    file = ""
    if place.file:
        file = str(place.file)
    start = f"{_name_of(file, names)}:{place.line}:{place.column}"
    hint = ""
    undeclared = _UNDECLARED.match(diagnostic.spelling)
    if undeclared:
        name = undeclared[1]
        if _EXTENSIONS.fullmatch(name):
            before = functions.call(name, file, place.offset)
            if before is not None:
                program.calls.setdefault(name, []).append(before)
                program.warnings.append(
                    f"{start}: warning: call of the undeclared function {name!r}"
                )
                return
        hint = condition_hint(source.text, name)
    if diagnostic.severity == diagnostic.Warning:
        program.reports.append(f"{start}: warning: {diagnostic.spelling}")
        return
    if not hint and _VENDOR_TYPE.search(diagnostic.spelling):
        hint = _OF_A_VENDOR
    program.errors.append(f"{start}: error: {diagnostic.spelling}{hint}")


def _name_of(file: str, names: Mapping[str, str]) -> str:
    """Return the name of a file for messages. `names` has those of the source, by path."""
    if not file:
        return "<options>"
    return names.get(os.path.realpath(file), os.path.basename(file))


class _Bodies:
    """The bodies of the functions of a program. `text` is the program with its includes, `files`
    has files that are in memory.
    """

    def __init__(self, library: Libclang, unit: Any, text: str, files: dict[str, bytes]) -> None:
        self._library = library
        self._unit = unit
        self._text = text
        self._files = files

    @cached_property
    def _extents(self) -> dict[str, list[tuple[int, int]]]:
        """The first and last offset of each body, by file, in order."""
        kinds = self._library.cindex.CursorKind
        extents: dict[str, list[tuple[int, int]]] = {}
        for cursor in function_definitions(self._library, self._unit):
            for child in cursor.get_children():
                if child.kind == kinds.COMPOUND_STMT:
                    extent = (child.extent.start.offset, child.extent.end.offset)
                    extents.setdefault(str(child.extent.start.file), []).append(extent)
        return {file: sorted(found) for file, found in extents.items()}

    @cached_property
    def _called(self) -> set[str]:
        """The names that a parenthesis follows, also in macros, and what stands for such a name as
        the whole value of a macro.
        """
        called = set(re.findall(r"\b(\w+)\s*\(", self._text))
        return called | {name for macro, name in _OTHER_NAME.findall(self._text) if macro in called}

    def call(self, name: str, file: str, offset: int) -> bytes | None:
        """Return the character before an undeclared name if it is called in a body, b"" if a macro
        has it; else None.
        """
        bodies = self._extents.get(file, [])
        number = bisect_right(bodies, (offset, sys.maxsize)) - 1
        if number < 0 or offset > bodies[number][1]:
            return None
        data = self._files.get(file)
        if data is None:
            with open(file, "rb") as stream:
                data = self._files[file] = stream.read()
        end = offset + len(name)
        if data[offset:end] != name.encode():
            return b"" if name in self._called else None
        if not _CALL.match(data, end):
            return None
        return data[max(offset - 200, 0) : offset].rstrip()[-1:]

    def assembly(self) -> Iterator[Any]:
        """Yield the location of each statement and each declaration of assembly."""
        if not _ASSEMBLY_WORD.search(self._text):
            return
        kinds = self._library.cindex.CursorKind
        statements = (kinds.ASM_STMT, kinds.UNEXPOSED_DECL)
        for cursor in self._library.descendants(self._unit.cursor, statements):
            if cursor.kind == kinds.ASM_STMT:
                yield cursor.location
                continue
            first = next(cursor.get_tokens(), None)
            if first is not None and _ASSEMBLY_WORD.match(str(first.spelling)):
                yield cursor.location


def _kernels(library: Libclang, unit: Any, text: str) -> _Kernels:
    kernels: _Kernels = {}
    #: The declarations of each kernel: an attribute of a prototype also applies to the definition.
    declared: dict[str, str] = {}
    for cursor, declaration in _kernel_declarations(library, unit):
        name = cursor.spelling
        declared[name] = f"{declaration}\n{declared.get(name, '')}"
        if cursor.is_definition():
            kernels[name] = _kernel(cursor)
    open_names = open_functions(text)
    for name, kernel in kernels.items():
        subgroup = _SUBGROUP.search(declared[name])
        if subgroup:
            kernel = kernel.replace(subgroup=int(subgroup[1]))
        kernels[name] = kernel.replace(
            block=_threads("reqd_work_group_size", declared[name]),
            default_block=_threads("work_group_size_hint", declared[name]),
            open_block=name in open_names,
        )
    return kernels


def _kernel_declarations(library: Libclang, unit: Any) -> Iterator[tuple[Any, str]]:
    """Yield each declaration of a kernel, with its text as clang prints it."""
    for cursor in unit.cursor.get_children():
        if cursor.kind != library.cindex.CursorKind.FUNCTION_DECL:
            continue
        declaration = library.declaration(cursor)
        if re.search(r"\b(?:__)?kernel\b", declaration):
            yield cursor, declaration


def _threads(attribute: str, declaration: str) -> Threads | None:
    """Return the block of threads of an attribute; None if a declaration has none."""
    size = re.search(rf"\b{attribute}\((\d+)[uUlL]*, (\d+)[uUlL]*, (\d+)[uUlL]*\)", declaration)
    if size is None:
        return None
    return int(size[1]), int(size[2]), int(size[3])


def triple_of(request: CompileRequest) -> str:
    """Return clang's target. clspv compiles for one whose size_t has 32 bits."""
    if request.target.kind == "vulkan":
        return "spir"
    return _DEVICES


def function_definitions(library: Libclang, unit: Any) -> Iterator[Any]:
    """Yield the functions that have a body."""
    for cursor in unit.cursor.get_children():
        if cursor.kind == library.cindex.CursorKind.FUNCTION_DECL and cursor.is_definition():
            yield cursor


def _with_needs(
    name: str, kernel: ReflectedFunction, needs: set[str], samples: Mapping[tuple[str, int], str]
) -> ReflectedFunction:
    """Return a kernel with what the program needs, what its own arguments and attributes need, and
    the samples of its images.
    """
    params = []
    for number, param in enumerate(kernel.params):
        if (name, number) in samples:
            param = param.replace(sample=samples[name, number])
        params.append(param)
    if any(param.kind in ("image", "sampler") for param in params):
        needs = needs | {"images"}
    if kernel.subgroup is not None:
        needs = needs | {"subgroup_size"}
    return kernel.replace(params=tuple(params), needs=tuple(sorted(needs)))


def _kernel(cursor: Any) -> ReflectedFunction:
    location = f"{os.path.basename(str(cursor.location.file))}:{cursor.location.line}"
    types = []
    params = []
    for index, argument in enumerate(cursor.get_arguments()):
        try:
            type_name, param = _param(argument)
        except ValueError as error:
            name = str(index + 1)
            if argument.spelling:
                name = repr(argument.spelling)
            raise CompileError(
                f"{location}: the kernel {cursor.spelling!r} takes {error} as its argument {name}, which devmod does not support",
                function=cursor.spelling,
                argument=argument.spelling,
            ) from None
        types.append(type_name)
        params.append(param)
    return ReflectedFunction(cursor.spelling, types, params, None, location)


def _param(argument: Any) -> tuple[str, Param]:
    """Return the type for arg_types and the param of one argument. Raise ValueError with the type's
    name if it is not supported.
    """
    name = argument.spelling
    type_ = argument.type.get_canonical()
    kind = type_.kind.name
    if kind == "POINTER":
        return "handle", _pointer_param(name, type_.get_pointee(), 0)
    if kind in _ARRAYS:
        # ``uint hist[16]`` is a pointer in C; the declared length is the size that the kernel
        # requires.
        size = 0
        if kind == _ARRAYS[0]:
            size = max(type_.get_size(), 0)
        return "handle", _pointer_param(name, type_, size)
    if kind.startswith("OCLIMAGE"):
        image = _IMAGE.fullmatch(kind)
        shape = ""  # depth or several samples
        if image:
            shape = f"{image[1]}d"
            if image[2]:
                shape += f"_{image[2].lower()}"
        return "handle", Param(name, "image", shape, {"RO": "r", "WO": "w", "RW": "rw"}[kind[-2:]])
    if kind == "OCLSAMPLER":
        return "handle", Param(name, "sampler")
    if kind in _UNSUPPORTED:
        raise ValueError(_UNSUPPORTED[kind])
    element, align = _element_type(type_)
    if not element:
        raise ValueError(
            f"a value of the type {argument.type.spelling.replace('__private ', '')!r}"
        )
    return element, with_struct(Param(name, "scalar", element, align=align), type_, _element_type)


def _pointer_param(name: str, target: Any, size: int) -> Param:
    """Return the param of a pointer; `size` is that of the memory which the kernel requires."""
    space = target.get_address_space()
    const = target.is_const_qualified()
    while target.kind.name in _ARRAYS:
        # The address space and const are attributes of the array or of its elements.
        target = target.element_type
        space = space or target.get_address_space()
        const = const or target.is_const_qualified()
    element, align = _element_type(target.get_canonical())
    if space == _LOCAL:
        return Param(name, "local", element, align=align)
    access = "rw"
    if space == _CONSTANT or const:
        access = "r"
    param = Param(name, "buffer", element, access, align=align, size=size)
    return with_struct(param, target, _element_type)


def _element_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with OpenCL's atomic types."""
    dtype, align = element_type(type_)
    if not dtype:
        atomic = re.search(r"_Atomic\(((?:unsigned )?\w+)\)", type_.spelling)
        if atomic:
            dtype = _ATOMICS.get(atomic[1], "")
    return dtype, align
