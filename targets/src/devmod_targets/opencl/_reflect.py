"""Read the kernels of an OpenCL C program with libclang. OpenCL is not needed.

libclang parses the user's own text, so that diagnostics have the user's file, line and column. A separate header after the prelude
contains the defines, which precede the program's text in the payload.
"""

from __future__ import annotations

import os
import re

from devmod import Param
from devmod.errors import CompileError, compile_error
from devmod.targets.opencl import SPEC
from devmod_targets.authoring import ReflectedFunction, include_hint, with_members
from devmod_targets.authoring._clang_records import record_members, uses_location
from devmod_targets.authoring._open_block import open_functions
from devmod_targets.authoring.clang import MAX_ERRORS, SYNTAX_CATEGORIES, VIRTUAL_FOLDER, Libclang, LocationSet, element_type, load_libclang
from devmod_targets.opencl import _prelude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_targets.authoring import CompileRequest, SelfContainedSource

_DEFINES = "defines"
#: Compiler options that change macros and types.
_FRONTEND_OPTIONS = ("-cl-std=", "-cl-fast-relaxed-math", "-cl-finite-math-only", "-cl-single-precision-constant", "-D", "-U")
#: Errors about unknown names and types, which may be vendor extensions.
_UNKNOWN = re.compile(r"use of undeclared identifier|unknown type name")
_UNDECLARED = re.compile(r"(?P<file>.*):(?P<line>\d+):(?P<column>\d+): warning: use of undeclared identifier '(?P<name>\w+)'")
#: Characters that precede a value and never a type. A type may follow "(" in a cast, ":" after a label, and "/" after a comment.
_VALUE_PREFIXES = "=+-*%&|^<>!~?["
_NOT_FOUND = re.compile("error: '[^']*' file not found$")
_LABEL = re.compile(": (?:error|warning): ")
_NEWER = "the OpenCL C source {name} is OpenCL C 2.0, but devices compile it as 1.2 by default: {why}. Add the option -cl-std=CL2.0"
_BUILTIN = (
    "{location}: warning: the kernel {name!r} has the name of a built-in function of OpenCL C. Some drivers refuse such a kernel. Rename it"
)
#: The kinds of arrays. A parameter of such a type is a pointer to the elements.
_ARRAYS = ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
_UNSUPPORTED = {"PIPE": "a pipe", "OCLQUEUE": "a queue"}
#: clang's numbers of the address spaces of a kernel's pointers.
_LOCAL, _CONSTANT = 2, 3


def read(request: CompileRequest, source: SelfContainedSource) -> tuple[dict[str, ReflectedFunction], list[str], str]:
    """Read the kernels of a program.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name.
    list of str
        The warnings.
    str
        The toolchain, such as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The program has errors other than unknown names and types.
    """
    library = load_libclang(SPEC, "OpenCL C")
    has_standard = any(option.startswith("-cl-std=") for option in source.options)
    standard = "" if has_standard else "1.2"
    unit, errors, warnings = _parse(library, request, source, standard)
    messages = []
    if (errors or warnings) and not has_standard:
        # The default version of devices is OpenCL C 1.2. A source with fewer errors in 2.0 was written for 2.0.
        newer = _parse(library, request, source, "2.0")
        if (len(newer[1]), len(newer[2])) < (len(errors), len(warnings)):
            messages = [_NEWER.format(name=request.name, why=_LABEL.sub(": ", (errors or warnings)[0][1], count=1))]
            (unit, errors, warnings), standard = newer, "2.0"
    if warnings and not errors:
        errors = _hidden_errors(library, request, source, standard, [text for _, text in warnings])
    if errors:
        texts = [text for _, text in errors]
        if _NOT_FOUND.search(texts[0]):
            texts[0] += f". {include_hint(request.include)}"
        raise compile_error("opencl", "OpenCL C", texts, "\n".join(_lines(errors, warnings)))
    included_paths = {os.path.realpath(path) for path in source.names}
    for entry in unit.get_includes():
        path = os.path.realpath(str(entry.include))
        if path not in included_paths and not path.startswith(VIRTUAL_FOLDER):
            location = f"{request.name}:{entry.location.line}"
            raise CompileError(
                f"{location}: this include names its file by a macro, so it cannot be embedded in the payload; write the name in quotes",
                kind="opencl",
            )
    unknown = LocationSet(location for location, _ in warnings)
    kernels = _kernels(library, unit, unknown, "" if warnings else source.text)
    messages += [_BUILTIN.format(location=each.location, name=name) for name, each in kernels.items() if name in _prelude.FUNCTIONS]
    if warnings:
        messages.append("\n".join(["the OpenCL C source has names that OpenCL C does not define:", *_lines((), warnings)]))
    return kernels, messages, library.toolchain


_Diagnostic = tuple[tuple[str, int, int], str]


def _hidden_errors(
    library: Libclang, request: CompileRequest, source: SelfContainedSource, standard: str, warnings: Sequence[str]
) -> list[_Diagnostic]:
    """Return the syntax errors after unknown names, location clang skips the rest of a statement.

    The source is parsed again with unknown names defined as values, if they appear location a value is expected. Other unknown names may
    be vendor keywords with any syntax.
    """
    lines = request.text.splitlines()
    values: dict[str, bool] = {}
    calls: set[str] = set()
    for match in filter(None, map(_UNDECLARED.match, warnings)):
        line, name = int(match["line"]), match["name"]
        if match["file"] != request.name or line > len(lines):
            continue
        text = lines[line - 1].encode()  # clang counts bytes
        start = int(match["column"]) - 1
        before = text[:start].rstrip()[-1:].decode("ascii", "replace")
        call = text[start + len(name) :].lstrip().startswith(b"(")
        value = before != "" and (before in _VALUE_PREFIXES or (call and before in "(,"))
        values[name] = values.get(name, True) and value
        if call:
            calls.add(name)
    head = "".join(f"#define {name}{'(...)' if name in calls else ''} (0)\n" for name, value in values.items() if value)
    if not head:
        return []
    return _parse(library, request, source, standard, head)[1]


def _parse(
    library: Libclang, request: CompileRequest, source: SelfContainedSource, standard: str, stand_ins: str = ""
) -> tuple[Any, list[_Diagnostic], list[_Diagnostic]]:
    """Return the translation unit, its errors, and the errors that devmod reports as warnings.

    With `stand_ins`, the definitions of unknown names, only syntax errors count, because the types of these names are unknown.
    """
    main = os.path.join(request.folder or VIRTUAL_FOLDER, request.name)
    defines = os.path.join(VIRTUAL_FOLDER, _DEFINES)
    arguments = ["-x", "cl", "-target", "spir64", "-nostdinc", "-w", "-ferror-limit=0", "-Xclang", "-fdeclare-opencl-builtins"]
    arguments += ["-isystem", VIRTUAL_FOLDER, "-include", defines]
    arguments += [f"-cl-std=CL{standard}"] if standard else []
    arguments += [option for option in source.options if option.startswith(_FRONTEND_OPTIONS)]
    arguments += [f"-I{folder}" for folder in request.include]
    files = [
        (main, request.text),
        (os.path.join(VIRTUAL_FOLDER, _prelude.NAME), _prelude.text()),
        (defines, "".join(f"#define {name} {value}\n" for name, value in source.defines.items()) + stand_ins),
    ]
    with_options = f" with the options {' '.join(source.options)}" if source.options else ""
    unit = library.parse(main, arguments, files, kind="opencl", description=f"the OpenCL C source {request.name}{with_options}")
    names = dict(source.names) | {os.path.realpath(main): request.name, defines: "<defines>"}
    errors: list[_Diagnostic] = []
    warnings: list[_Diagnostic] = []
    for diagnostic in unit.diagnostics:
        if diagnostic.severity < diagnostic.Error or (stand_ins and diagnostic.category_name not in SYNTAX_CATEGORIES):
            continue
        place = diagnostic.location
        file = str(place.file) if place.file else ""
        name = names.get(os.path.realpath(file), os.path.basename(file)) if file else "<options>"
        unknown = diagnostic.severity == diagnostic.Error and _UNKNOWN.search(diagnostic.spelling)
        line = f"{name}:{place.line}:{place.column}: {'warning' if unknown else 'error'}: {diagnostic.spelling}"
        (warnings if unknown else errors).append(((file, place.line, place.column), line))
        if len(errors) == MAX_ERRORS:
            break
    return unit, errors, warnings


def _lines(errors: Sequence[_Diagnostic], warnings: Sequence[_Diagnostic]) -> list[str]:
    return [line for _, line in errors] + [line for _, line in warnings]


def _kernels(library: Libclang, unit: Any, unknown: LocationSet, text: str) -> dict[str, ReflectedFunction]:
    kernels: dict[str, ReflectedFunction] = {}
    blocks: dict[str, dict[str, tuple[int, int, int]]] = {"reqd_work_group_size": {}, "work_group_size_hint": {}}
    for cursor in unit.cursor.get_children():
        if cursor.kind != library.cindex.CursorKind.FUNCTION_DECL:
            continue
        declaration = library.declaration(cursor)
        if not re.search(r"\b(?:__)?kernel\b", declaration):
            continue
        # An attribute of a prototype also applies to the definition.
        for attribute, block in blocks.items():
            size = re.search(rf"\b{attribute}\((\d+)[uUlL]*, (\d+)[uUlL]*, (\d+)[uUlL]*\)", declaration)
            if size:
                block[cursor.spelling] = (int(size[1]), int(size[2]), int(size[3]))
        if cursor.is_definition():
            kernels[cursor.spelling] = _kernel(cursor, unknown)
    fixed, hints = blocks.values()
    open_names = open_functions(text)
    return {
        name: ReflectedFunction(
            kernel.symbol,
            kernel.types,
            kernel.params,
            fixed.get(name),
            kernel.location,
            default_block=hints[name] if all(hints.get(name, (0,))) else None,
            open_block=name in open_names,
        )
        for name, kernel in kernels.items()
    }


def _kernel(cursor: Any, unknown: LocationSet) -> ReflectedFunction:
    location = f"{os.path.basename(str(cursor.location.file))}:{cursor.location.line}"
    types: list[str] = []
    params: list[Param] = []
    for index, argument in enumerate(cursor.get_arguments()):
        try:
            type_name, param = _param(argument, unknown)
        except ValueError as error:
            name = repr(argument.spelling) if argument.spelling else str(index + 1)
            raise CompileError(
                f"{location}: the kernel {cursor.spelling!r} takes {error} as its argument {name}, which devmod does not support",
                kind="opencl",
                function=cursor.spelling,
                argument=argument.spelling,
            ) from None
        types.append(type_name)
        params.append(param)
    return ReflectedFunction(cursor.spelling, types, params, None, location)


def _param(argument: Any, locations: LocationSet) -> tuple[str, Param]:
    """Return the type for arg_types and the param of one argument. Raise ValueError with the type's name if it is not supported."""
    name, type_ = argument.spelling, argument.type.get_canonical()
    kind, unknown = type_.kind.name, locations.intersects(argument.extent)
    if kind == "POINTER" or kind in _ARRAYS:
        target = type_.get_pointee() if kind == "POINTER" else type_
        space, const = target.get_address_space(), target.is_const_qualified()
        while target.kind.name in _ARRAYS:
            # The address space and const are attributes of the array or of its elements.
            target = target.element_type
            space, const = space or target.get_address_space(), const or target.is_const_qualified()
        element, align = ("", 0) if unknown else _element_type(target.get_canonical())
        # ``uint hist[16]`` is a pointer in C; the declared length is the size that the kernel requires.
        size = type_.get_size() if kind == _ARRAYS[0] and not unknown else 0
        if space == _LOCAL:
            return "handle", Param(name, "local", element, align=align)
        access = "r" if space == _CONSTANT or const else "rw"
        param = Param(name, "buffer", element, access, align=align, size=max(size, 0))
        if align and not uses_location(target, locations):
            param = with_members(param, record_members(target.get_canonical(), number_type=_element_type))
        return "handle", param
    if kind.startswith("OCLIMAGE"):
        access = {"RO": "r", "WO": "w", "RW": "rw"}[kind[-2:]]
        return "handle", Param(name, "image", "", access)
    if kind == "OCLSAMPLER":
        return "handle", Param(name, "sampler")
    if unknown or uses_location(type_, locations):
        return "", Param(name, "scalar")
    if kind in _UNSUPPORTED:
        raise ValueError(_UNSUPPORTED[kind])
    element, align = _element_type(type_)
    if not element:
        raise ValueError(f"a value of the type {argument.type.spelling.replace('__private ', '')!r}")
    param = Param(name, "scalar", element, align=align)
    return element, with_members(param, record_members(type_, number_type=_element_type)) if align else param


def _element_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with OpenCL's atomic types."""
    diagnostic, align = element_type(type_)
    atomic = None if diagnostic else re.search(r"_Atomic\((?:unsigned )?\w+\)", type_.spelling)
    return (_ATOMICS.get(atomic[0], "") if atomic else diagnostic), align


#: OpenCL's atomic types as libclang prints them. libclang has no type kind for them.
_ATOMICS = {
    "_Atomic(int)": "int32",
    "_Atomic(unsigned int)": "uint32",
    "_Atomic(long)": "int64",
    "_Atomic(unsigned long)": "uint64",
    "_Atomic(float)": "float32",
    "_Atomic(double)": "float64",
}
