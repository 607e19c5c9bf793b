"""Reading the kernels of an OpenCL C program with libclang, which needs no OpenCL.

The program is parsed as the user wrote it, so that every diagnostic has the user's file, line and column; the defines come in a
header of their own behind the prelude, as they stand before the program's text in the payload.
"""

from __future__ import annotations

import os
import re

from devmod._info import Param
from devmod.errors import CompileError, source_refused
from devmod.targets._declared import Found
from devmod.targets._libclang import MOST_ERRORS, NOWHERE, Libclang, element, libclang
from devmod.targets.opencl.spec import SPEC
from devmod_targets.opencl import _prelude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod._payload import CompileRequest
    from devmod.targets._source import Complete

_DEFINES = "defines"
#: Options of OpenCL compilers that change what a program means before it is run: macros and types.
_UNDERSTOOD = ("-cl-std=", "-cl-fast-relaxed-math", "-cl-finite-math-only", "-cl-single-precision-constant", "-D", "-U")
#: What the prelude may lack, since vendors add to the language: names and types.
_UNKNOWN = re.compile(r"use of undeclared identifier|unknown type name")
_LABEL = re.compile(": (?:error|warning): ")
_NEWER = (
    "the OpenCL C source {name} is OpenCL C 2.0, and a device takes it for 1.2 unless it is told: {why}. "
    "To tell it, add the option -cl-std=CL2.0"
)
#: A parameter declared so is a pointer to the elements; a pointer may point to such, too.
_ARRAYS = ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
_UNSUPPORTED = {"PIPE": "a pipe", "OCLQUEUE": "a queue"}
#: clang's address spaces: what a kernel's pointer points into.
_LOCAL, _CONSTANT = 2, 3


def read(request: CompileRequest, done: Complete) -> tuple[dict[str, Found], list[str], str]:
    """The kernels of a program by name, the warnings that are due, and the toolchain, as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or does not load.
    CompileError
        The program has errors other than unknown names and types.
    """
    library = libclang(SPEC, "OpenCL C")
    chosen = any(option.startswith("-cl-std=") for option in done.options)
    unit, errors, warnings = _parse(library, request, done, "" if chosen else "1.2")
    told = []
    if (errors or warnings) and not chosen:
        # A device takes a source that names no version for OpenCL C 1.2, so that comes first. What fits 2.0 better was written for that.
        newer = _parse(library, request, done, "2.0")
        if (len(newer[1]), len(newer[2])) < (len(errors), len(warnings)):
            told = [_NEWER.format(name=request.name, why=_LABEL.sub(": ", (errors or warnings)[0][1], count=1))]
            unit, errors, warnings = newer
    if errors:
        raise source_refused("opencl", "OpenCL C", [text for _, text in errors], "\n".join(_lines(errors, warnings)))
    carried = {os.path.realpath(path) for path in done.names}
    for entry in unit.get_includes():
        path = os.path.realpath(str(entry.include))
        if path not in carried and not path.startswith(NOWHERE):
            where = f"{request.name}:{entry.location.line}"
            raise CompileError(
                f"{where}: this include is no name in quotes or angles but a macro, and cannot be carried in the payload", kind="opencl"
            )
    kernels = _kernels(library, request, unit, [location for location, _ in warnings])
    if warnings:
        told.append("\n".join(["the OpenCL C source has names that are not OpenCL's own:", *_lines((), warnings)]))
    return kernels, told, library.toolchain


_Diagnostic = tuple[tuple[str, int, int], str]


def _parse(library: Libclang, request: CompileRequest, done: Complete, standard: str) -> tuple[Any, list[_Diagnostic], list[_Diagnostic]]:
    """The translation unit, its errors, and the errors that are only worth a warning."""
    main = os.path.join(request.folder or NOWHERE, request.name)
    defines = os.path.join(NOWHERE, _DEFINES)
    arguments = ["-x", "cl", "-target", "spir64", "-nostdinc", "-w", "-ferror-limit=0", "-Xclang", "-fdeclare-opencl-builtins"]
    arguments += ["-isystem", NOWHERE, "-include", defines]
    arguments += [f"-cl-std=CL{standard}"] if standard else []
    arguments += [option for option in done.options if option.startswith(_UNDERSTOOD)]
    arguments += [f"-I{folder}" for folder in request.include]
    files = [
        (main, request.text),
        (os.path.join(NOWHERE, _prelude.NAME), _prelude.text()),
        (defines, "".join(f"#define {name} {value}\n" for name, value in done.defines.items())),
    ]
    with_options = f" with the options {' '.join(done.options)}" if done.options else ""
    unit = library.parse(main, arguments, files, kind="opencl", what=f"the OpenCL C source {request.name}{with_options}")
    names = dict(done.names) | {os.path.realpath(main): request.name, defines: "<defines>"}
    errors: list[_Diagnostic] = []
    warnings: list[_Diagnostic] = []
    for found in unit.diagnostics:
        if found.severity < found.Error:
            continue
        place = found.location
        file = str(place.file) if place.file else ""
        name = names.get(os.path.realpath(file), os.path.basename(file)) if file else "<options>"
        unknown = found.severity == found.Error and _UNKNOWN.search(found.spelling)
        line = f"{name}:{place.line}:{place.column}: {'warning' if unknown else 'error'}: {found.spelling}"
        (warnings if unknown else errors).append(((file, place.line, place.column), line))
        if len(errors) == MOST_ERRORS:
            break
    return unit, errors, warnings


def _lines(errors: Sequence[_Diagnostic], warnings: Sequence[_Diagnostic]) -> list[str]:
    return [line for _, line in errors] + [line for _, line in warnings]


def _kernels(library: Libclang, request: CompileRequest, unit: Any, unknown: Sequence[tuple[str, int, int]]) -> dict[str, Found]:
    kernels: dict[str, Found] = {}
    blocks: dict[str, tuple[int, int, int]] = {}
    for cursor in unit.cursor.get_children():
        if cursor.kind != library.cindex.CursorKind.FUNCTION_DECL:
            continue
        declaration = library.declaration(cursor)
        if not re.search(r"\b(?:__)?kernel\b", declaration):
            continue
        # An attribute of a prototype counts for the definition, which does not repeat it.
        size = re.search(r"reqd_work_group_size\((\d+)[uUlL]*, (\d+)[uUlL]*, (\d+)[uUlL]*\)", declaration)
        if size:
            blocks[cursor.spelling] = (int(size[1]), int(size[2]), int(size[3]))
        if cursor.is_definition():
            kernels[cursor.spelling] = _kernel(cursor, request, unknown)
    return {name: Found(found.symbol, found.types, found.params, blocks.get(name), found.where) for name, found in kernels.items()}


def _kernel(cursor: Any, request: CompileRequest, unknown: Sequence[tuple[str, int, int]]) -> Found:
    where = f"{os.path.basename(str(cursor.location.file))}:{cursor.location.line}"
    types: list[str] = []
    params: list[Param] = []
    for index, argument in enumerate(cursor.get_arguments()):
        try:
            type_name, param = _param(argument, any(_within(argument.extent, place) for place in unknown))
        except ValueError as error:
            name = repr(argument.spelling) if argument.spelling else str(index + 1)
            raise CompileError(
                f"{where}: the kernel {cursor.spelling!r} takes {error} as its argument {name}, which devmod cannot pass",
                kind="opencl",
                function=cursor.spelling,
                argument=argument.spelling,
            ) from None
        types.append(type_name)
        params.append(param)
    return Found(cursor.spelling, types, params, None, where)


def _within(extent: Any, place: tuple[str, int, int]) -> bool:
    start, end = extent.start, extent.end
    return str(start.file) == place[0] and (start.line, start.column) <= place[1:] <= (end.line, end.column)


def _param(argument: Any, unknown: bool) -> tuple[str, Param]:
    """The type for arg_types and the param of one argument. ValueError with what it is, where it cannot be passed."""
    name, type_ = argument.spelling, argument.type.get_canonical()
    kind = type_.kind.name
    if kind == "POINTER" or kind in _ARRAYS:
        target = type_.get_pointee() if kind == "POINTER" else type_
        space, const = target.get_address_space(), target.is_const_qualified()
        while target.kind.name in _ARRAYS:
            # Where the elements lie, and that they are const, stands at the array or at them.
            target = target.element_type
            space, const = space or target.get_address_space(), const or target.is_const_qualified()
        element, align = ("", 0) if unknown else _element(target.get_canonical())
        if space == _LOCAL:
            return "handle", Param(name, "local", element, align=align)
        access = "r" if space == _CONSTANT or const else "rw"
        return "handle", Param(name, "buffer", element, access, align=align)
    if kind.startswith("OCLIMAGE"):
        access = {"RO": "r", "WO": "w", "RW": "rw"}[kind[-2:]]
        return "handle", Param(name, "image", "", access)
    if kind == "OCLSAMPLER":
        return "handle", Param(name, "sampler")
    if unknown:
        return "", Param(name, "scalar")
    if kind in _UNSUPPORTED:
        raise ValueError(_UNSUPPORTED[kind])
    element, align = _element(type_)
    if not element:
        raise ValueError(f"a value of the type {argument.type.spelling.replace('__private ', '')!r}")
    return element, Param(name, "scalar", element, align=align)


def _element(type_: Any) -> tuple[str, int]:
    """As `element`, for OpenCL's atomic types too."""
    found, align = element(type_)
    atomic = None if found else re.search(r"_Atomic\((?:unsigned )?\w+\)", type_.spelling)
    return (_ATOMICS.get(atomic[0], "") if atomic else found), align


#: OpenCL's atomic types, as libclang prints them; they have no kind of their own there.
_ATOMICS = {
    "_Atomic(int)": "int32",
    "_Atomic(unsigned int)": "uint32",
    "_Atomic(long)": "int64",
    "_Atomic(unsigned long)": "uint64",
    "_Atomic(float)": "float32",
    "_Atomic(double)": "float64",
}
