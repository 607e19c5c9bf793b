"""Read the signatures of the functions that a C or C++ source exports, with libclang.

The compiler has accepted the source before, so libclang's errors are those of an older clang: they matter only where they concern
the types of a function's parameters.
"""

from __future__ import annotations

import os

from devmod import Param
from devmod.errors import CompileError
from devmod.targets.hexagon.spec import SPEC
from devmod_targets.authoring import ReflectedFunction, with_members
from devmod_targets.authoring._clang_records import record_members, uses_location
from devmod_targets.authoring.clang import VIRTUAL_FOLDER, LocationSet, element_type, load_libclang
from devmod_targets.hexagon import _headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.clang import Libclang
    from devmod_targets.authoring.llvm import LlvmToolchain

_ARRAYS = ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
_SCOPES = ("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL")
_FRONTEND_OPTIONS = ("-std=", "-U", "-f", "-mhvx")


def read_functions(
    request: CompileRequest,
    language: str,
    toolchain: LlvmToolchain,
    flags: Sequence[str],
    defines: Mapping[str, str],
    symbols: Sequence[str],
) -> tuple[dict[str, ReflectedFunction], str]:
    """Read the exported functions of a source.

    Parameters
    ----------
    request, language, toolchain, flags, defines
        The source, and how clang has compiled it.
    symbols
        The exported symbols.

    Returns
    -------
    dict of str to ReflectedFunction
        The functions by name, qualified in C++, in the order of the source.
    str
        The reader, such as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        A function has a parameter that devmod does not support.
    """
    library = load_libclang(SPEC, request.language)
    main = os.path.join(request.folder or VIRTUAL_FOLDER, os.path.basename(request.name))
    arguments = ["-x", language, "-target", "hexagon-unknown-none-elf", "-ffreestanding", "-nostdinc", "-w", "-ferror-limit=0"]
    arguments += [option for option in flags if option.startswith(_FRONTEND_OPTIONS)]
    arguments += [f"-D{name}={value}" for name, value in defines.items()]
    arguments += [f"-I{folder}" for folder in request.include]
    arguments += ["-isystem", VIRTUAL_FOLDER, "-isystem", toolchain.include]
    files = [(main, request.text), *((os.path.join(VIRTUAL_FOLDER, name), text) for name, text in _headers.files().items())]
    unit = library.parse(main, arguments, files, kind="hexagon", description=f"the {request.language} source {request.name}")
    unknown = LocationSet(
        (str(each.location.file), each.location.line, each.location.column) for each in unit.diagnostics if each.severity >= each.Error
    )
    functions: dict[str, ReflectedFunction] = {}
    for cursor in _definitions(library, unit.cursor):
        symbol = cursor.mangled_name if language == "c++" else cursor.spelling
        if symbol in symbols:
            name = _qualified_name(cursor)
            functions[symbol if name in functions else name] = _function(library, cursor, symbol, unknown)
    return functions, library.toolchain


def _definitions(library: Libclang, parent: Any) -> Iterator[Any]:
    for cursor in parent.get_children():
        kind = cursor.kind.name
        if kind == "FUNCTION_DECL" and cursor.is_definition():
            yield cursor
        elif kind in _SCOPES:
            yield from _definitions(library, cursor)


def _qualified_name(cursor: Any) -> str:
    parts = [cursor.spelling]
    scope = cursor.semantic_parent
    while scope is not None and scope.kind.name == "NAMESPACE":
        parts.append(scope.spelling)
        scope = scope.semantic_parent
    return "::".join(reversed(parts))


def _function(library: Libclang, cursor: Any, symbol: str, unknown: LocationSet) -> ReflectedFunction:
    file, line, _ = library.location(cursor.location)
    location = f"{os.path.basename(file)}:{line}"
    types: list[str] = []
    params: list[Param] = []
    for number, argument in enumerate(cursor.get_arguments(), 1):
        type_, param = _param(argument, unknown)
        if not type_:
            raise _unsupported(cursor, location, f"takes {argument.type.spelling!r} as argument {number} {argument.spelling!r}", argument)
        types.append(type_)
        params.append(param)
    result = cursor.result_type.get_canonical()
    extra = {}
    if result.spelling != "void":
        dtype, align = element_type(result)
        if not dtype or align or "x" in dtype:
            raise _unsupported(cursor, location, f"returns {cursor.result_type.spelling!r}", None)
        extra = {"result": dtype}
    return ReflectedFunction(symbol, types, params, None, location, extra=extra)


def _unsupported(cursor: Any, location: str, what: str, argument: Any) -> CompileError:
    return CompileError(
        f"{location}: the function {cursor.spelling!r} {what}, which devmod cannot pass; expected a number, a struct, or a pointer. "
        "A helper that is no kernel is static",
        kind="hexagon",
        function=cursor.spelling,
        argument=argument.spelling if argument is not None else "",
    )


def _param(argument: Any, unknown: LocationSet) -> tuple[str, Param]:
    """Return the type for arg_types ("" if devmod cannot pass it) and the Param of one argument."""
    name, type_ = argument.spelling, argument.type.get_canonical()
    is_unknown = unknown.intersects(argument.extent)
    is_array = type_.kind.name in _ARRAYS
    if type_.kind.name in ("POINTER", "LVALUEREFERENCE") or is_array:
        target = type_.element_type if is_array else type_.get_pointee()
        const = target.is_const_qualified()
        while target.kind.name in _ARRAYS:
            target = target.element_type
            const = const or target.is_const_qualified()
        element, align = ("", 0) if is_unknown else element_type(target.get_canonical())
        size = type_.get_size() if type_.kind.name == "CONSTANTARRAY" and not is_unknown else 0
        return "handle", Param(name, "buffer", element, "r" if const else "rw", align=align, size=max(size, 0))
    if is_unknown or uses_location(type_, unknown):
        return "", Param(name, "scalar")
    element, align = element_type(type_)
    param = Param(name, "scalar", element, align=align)
    return element, with_members(param, record_members(type_)) if align else param
