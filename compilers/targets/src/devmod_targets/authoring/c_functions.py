"""Functions of a C or C++ source that libclang has parsed: their names, and their parameters as a
call passes them.

The compiler has accepted the source, so libclang's errors come from its older version. They matter
only in the types of a function's parameters.
"""

from __future__ import annotations

import os
from ctypes import c_void_p, cast
from functools import cached_property
from typing import TYPE_CHECKING, Any

from devmod import Param
from devmod.backend import array_bytes, parse_dtype
from devmod.errors import CompileError
from devmod_readers.reflection import MemberType, describe_members, with_members
from devmod_readers.variables import read_variables
from devmod_targets.authoring._process import digests_of
from devmod_targets.authoring._source import define_options
from devmod_targets.authoring._types import Reflected
from devmod_targets.authoring.clang import (
    ARRAYS,
    FIXED_ARRAY,
    POINTERS,
    RECORD,
    VIRTUAL_FOLDER,
    LocationSet,
    element_type,
    lane_type,
    load_libclang,
    type_kind,
)
from devmod_targets.authoring.const_casts import may_cast, written_param, written_parameters
from devmod_targets.authoring.instances import (
    expression_number,
    function_name,
    instance_variables,
    keys_of,
    parameter_names,
    referenced_function,
    source_instances,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from devmod import Member, TargetSpec
    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.clang_build import ClangOptions

    #: The element type and the lengths of global variables by name.
    _Globals = dict[str, list[Any]]
    #: A name and the cursor of its declaration.
    _Declaration = tuple[str, Any]
    #: Returns the element type and the alignment of a type, as `element_type`.
    _ElementType = Callable[[Any], tuple[str, int]]

# -- Describe the members of C structs that libclang has laid out.


#: clang's kinds of declarations.
_UNION = "UNION_DECL"
_BASE = "CXX_BASE_SPECIFIER"
_FIELD = "FIELD_DECL"

#: libclang's flag. Signatures do not depend on the bodies of functions, and the headers of a target
#: have hundreds.
_SKIP_BODIES = 0x40


def record_members(
    type_: Any,
    *,
    number_type: _ElementType = element_type,
    array_record: Callable[[Any], tuple[list[tuple[int, int]], Any] | None] = lambda _: None,
) -> tuple[Member, ...]:
    """Return the members of a struct for `devmod.Param`; () if they cannot be described.

    A union, a pointer and a struct with bit-fields are described as bytes. A matrix has one member
    without a name.

    Parameters
    ----------
    type_
        A canonical clang.cindex.Type.
    number_type
        Returns what `element_type` returns, for the types of one language.
    array_record
        Returns the dimensions and the element type of a record that is an array or a matrix in the
        language, or None.
    """

    def look_up(of: Any) -> MemberType:
        of = of.get_canonical()
        size = of.get_size()
        dims: list[tuple[int, int]] = []
        while True:
            if type_kind(of) == FIXED_ARRAY:
                inner = lane_type(of)
                record = [(of.element_count, inner.get_size())], inner
            elif type_kind(of) == RECORD and array_record(of) is not None:
                record = array_record(of) or ([], of)
            else:
                break
            dims += record[0]
            of = record[1]
            size = of.get_size()
        dtype, align = number_type(of)
        if dtype and not align:
            return MemberType(size, dtype, dims=dims)
        fields = _fields(of) if type_kind(of) == RECORD else None
        return MemberType(size, fields=fields, dims=dims)

    if array_record(type_) is not None:
        return describe_members([("", 0, type_)], look_up)
    return describe_members(_fields(type_) or (), look_up)


def with_struct(param: Param, type_: Any, number_type: _ElementType) -> Param:
    """Return a param with the members of its struct, if it has an alignment and so is one."""
    if not param.align:
        return param
    return with_members(param, record_members(type_.get_canonical(), number_type=number_type))


def uses_location(type_: Any, locations: LocationSet) -> bool:
    """Return whether the declaration of a struct, or of a struct in it, has one of the locations:
    clang then has no layout of it.
    """
    if not locations:
        return False
    pending = [type_]
    visited = set()
    while pending:
        of = pending.pop().get_canonical()
        while type_kind(of) == FIXED_ARRAY:
            of = lane_type(of)
        if type_kind(of) == RECORD and of.spelling not in visited:
            visited.add(of.spelling)
            declaration = of.get_declaration()
            if locations.intersects(declaration.extent):
                return True
            # An invalid struct has declarations of fields, and get_fields returns none of them.
            for each in declaration.get_children():
                if each.kind.name == _FIELD:
                    pending.append(each.type)
    return False


def _fields(type_: Any, start: int = 0) -> list[tuple[str, int, Any]] | None:
    """Return name, offset and type of a struct's members, with those of its anonymous structs; None
    if they cannot be described.
    """
    declaration = type_.get_declaration()
    if declaration.kind.name == _UNION:
        return None
    if any(each.kind.name == _BASE for each in declaration.get_children()):
        return None
    fields = []
    for field in type_.get_fields():
        bits = field.get_field_offsetof()
        if bits < 0 or bits % 8 or field.is_bitfield():
            return None
        offset = start + bits // 8
        of = field.type.get_canonical()
        if type_kind(of) == RECORD and not field.spelling.isidentifier():
            inner = _fields(of, offset)
            if inner is None:
                return None
            fields += inner
        else:
            fields.append((field.spelling, offset, of))
    return fields


def declarations(
    parent: Any, is_own: Callable[[Any], bool], scope: str = ""
) -> Iterator[_Declaration]:
    """Yield the declarations of a translation unit, also in namespaces, in the order of the source.

    Parameters
    ----------
    parent
        The cursor of the unit.
    is_own
        Returns whether a declaration is in a file of the source.

    Yields
    ------
    str, clang.cindex.Cursor
        The scope, such as "a::b::" without anonymous namespaces, and the declaration.
    """
    for cursor in filter(is_own, parent.get_children()):
        kind = cursor.kind.name
        if kind == "NAMESPACE":
            inner = f"{scope}{cursor.spelling}::" if cursor.spelling else scope
            yield from declarations(cursor, is_own, inner)
        elif kind in ("LINKAGE_SPEC", "UNEXPOSED_DECL"):
            yield from declarations(cursor, is_own, scope)
        else:
            yield scope, cursor


def qualified_name(cursor: Any) -> str:
    """Return a function's name with its namespaces. Anonymous ones are omitted."""
    parts = [cursor.spelling]
    scope = cursor.semantic_parent
    while scope is not None and scope.kind.name in ("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL"):
        if scope.kind.name == "NAMESPACE" and not scope.is_anonymous():
            parts.append(scope.spelling)
        scope = scope.semantic_parent
    return "::".join(reversed(parts))


def global_types(
    declared: Iterable[_Declaration],
    binary: bytes,
    number_type: _ElementType = element_type,
) -> _Globals:
    """Return the element type and the lengths of the global variables that a binary has, by name,
    for `Interface.extra`.

    Parameters
    ----------
    declared
        The `declarations` of the source.
    binary
        The binary, as `read_variables` takes it.
    number_type
        Returns what `element_type` returns, for the types of one language.
    """
    found: _Globals = {}
    variables = read_variables(binary)
    if not variables:
        return found
    for scope, cursor in declared:
        if cursor.kind.name != "VAR_DECL" or scope + cursor.spelling not in variables:
            continue
        type_ = cursor.type.get_canonical()
        nbytes = type_.get_size()
        lengths = []
        while type_kind(type_) == FIXED_ARRAY:
            lengths.append(type_.element_count)
            type_ = lane_type(type_)
        dtype, _ = number_type(type_)
        if dtype and nbytes == array_bytes(parse_dtype(dtype), tuple(lengths)):
            found[scope + cursor.spelling] = [dtype, *lengths]
    return found


def with_globals(functions: Reflected, types: _Globals) -> Reflected:
    """Return functions whose interfaces have the types of the module's global variables."""
    if not types:
        return functions
    return {
        name: each.replace(extra={**each.extra, "globals": types})
        for name, each in functions.items()
    }


def is_in(file: str) -> Callable[[Any], bool]:
    """Return the function that returns whether a cursor is in a file."""
    # libclang has one object for each file, and headers have thousands of declarations.
    names = {}

    def is_own(cursor: Any) -> bool:
        found = cursor.location.file
        key = None
        if found is not None:
            key = cast(found.obj, c_void_p).value
        if key not in names:
            names[key] = str(found)
        return names[key] == file

    return is_own


def _file_may_cast(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return may_cast(file.read())


class CFunctions:
    """The functions of a source that clang has compiled, as libclang reads them.

    Parameters
    ----------
    spec, noun
        The target's spec, and its word for a function in errors, such as "kernel".
    request, options
        The source, and the options with which clang compiled it.
    symbols
        The functions of the linked file.
    flags
        The target's own flags for libclang.
    prefixes
        The prefixes of the flags in `options` that libclang takes too.
    headers
        The target's own headers, name to text.
    number_type
        Returns what `element_type` returns, for the types of one language.
    pointee_type
        Returns the same for the elements behind a pointer.

    Attributes
    ----------
    toolchain
        The reader, such as "libclang 18.1.1".
    files
        The SHA-256 of each user header that libclang has read, by its path.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        libclang cannot parse the source.
    """

    def __init__(
        self,
        spec: TargetSpec,
        noun: str,
        request: CompileRequest,
        options: ClangOptions,
        symbols: Collection[str],
        *,
        flags: Sequence[str],
        prefixes: tuple[str, ...],
        headers: Mapping[str, str],
        number_type: _ElementType = element_type,
        pointee_type: _ElementType = element_type,
    ) -> None:
        library = load_libclang(spec, request.language)
        #: A variable for each follows the program. The first ones are those of the request.
        expressions = list(dict.fromkeys([*request.name_expressions, *source_instances(symbols)]))
        main = os.path.join(request.folder or VIRTUAL_FOLDER, os.path.basename(request.name))
        arguments = [*flags, "-nostdinc", "-w", "-ferror-limit=0"]
        arguments += [flag for flag in options.flags if flag.startswith(prefixes)]
        arguments += define_options(options.defines)
        arguments += [f"-I{folder}" for folder in request.include]
        for each in (VIRTUAL_FOLDER, *options.toolchain.include):
            arguments += ["-isystem", each]
        files = [(main, request.text + instance_variables(expressions))]
        for name, text in headers.items():
            # As system headers their hundreds of functions are skipped; a mangled name takes
            # libclang 14 µs.
            header = f"#pragma clang system_header\n{text}"
            files.append((os.path.join(VIRTUAL_FOLDER, name), header))
        description = f"the {request.language} source {request.name}"

        def parse(flags: int = 0) -> Any:
            return library.parse(
                main, arguments, files, kind=spec.kind, description=description, options=flags
            )

        unit = parse(_SKIP_BODIES)
        self._with_bodies = parse
        self.toolchain = library.toolchain
        own_folders = (VIRTUAL_FOLDER, *options.toolchain.own_folders)
        self.files = digests_of((str(each.include) for each in unit.get_includes()), own_folders)
        self._library = library
        self._unit = unit
        self._kind = spec.kind
        self._noun = noun
        self._text = request.text
        self._is_cpp = request.language != "C"
        self._symbols = symbols
        self._requested = request.name_expressions
        self._expressions = expressions
        self._type = number_type
        self._pointee_type = pointee_type
        self._unknown = LocationSet(
            (str(each.location.file), each.location.line, each.location.column)
            for each in unit.diagnostics
            if each.severity >= each.Error
        )

    def functions_by_name(self) -> dict[str, _Declaration]:
        """Return the symbol and the cursor of each function of the linked file, by its name for
        callers.

        Raises
        ------
        CompileError
            A name expression of the request names no function of the linked file.
        """
        instances = self._instances()
        named = self._named(instances)
        cursors: dict[str, _Declaration] = {}
        for _, cursor in _outside_system_headers(self._unit):
            if cursor.kind.name != "FUNCTION_DECL":
                continue
            symbol = cursor.mangled_name
            # A later declaration replaces the one before it, and keeps its place in the order. A
            # prototype may have no names.
            is_first = symbol not in cursors
            if symbol in self._symbols and (
                is_first or all(parameter_names(cursor, self._library))
            ):
                cursors[symbol] = (qualified_name(cursor), cursor)
        for name, cursor in instances.items():
            if name in self._requested or not cursor.location.is_in_system_header:
                cursors.setdefault(cursor.mangled_name, (name, cursor))

        unnamed = []
        for symbol, (name, _) in cursors.items():
            if symbol in self._symbols and symbol not in named:
                unnamed.append((symbol, name))
        keys = keys_of(unnamed) | named
        return {key: (symbol, cursors[symbol][1]) for symbol, key in keys.items()}

    def _instances(self) -> dict[str, Any]:
        """Return the function of each name expression that names one."""
        result: dict[str, Any] = {}
        if not self._expressions:
            return result
        for cursor in self._unit.cursor.get_children():
            number = expression_number(cursor)
            if number is not None:
                function = referenced_function(cursor, self._library)
                if function is not None:
                    result[self._expressions[number]] = function
        return result

    def _named(self, instances: Mapping[str, Any]) -> dict[str, str]:
        """Return the symbols of the request's name expressions, with the names for callers."""
        result = {}
        for expression in self._requested:
            symbol = ""
            if expression in instances:
                symbol = instances[expression].mangled_name
            if symbol not in self._symbols:
                raise CompileError(
                    f"name_expressions= contains {expression!r}, which names no {self._noun} of the source",
                    kind=self._kind,
                    function=function_name(expression),
                )
            result[symbol] = function_name(expression)
        return result

    def with_globals(self, functions: Reflected, binary: bytes) -> Reflected:
        """Return functions whose interfaces have the types of the global variables of the linked
        file.
        """
        declared = _outside_system_headers(self._unit)
        return with_globals(functions, global_types(declared, binary, self._type))

    def location(self, cursor: Any) -> str:
        """Return where a function is, such as "k.c:12"."""
        file, line, _ = self._library.location(cursor.location)
        return f"{os.path.basename(file)}:{line}"

    def parameters(self, cursor: Any) -> tuple[list[str], list[Param]]:
        """Return the types for arg_types and the params of a function.

        Raises
        ------
        CompileError
            devmod cannot pass a parameter.
        """
        types = []
        params = []
        names = parameter_names(cursor, self._library)
        arguments = zip(cursor.get_arguments(), names, strict=True)
        for number, (argument, name) in enumerate(arguments, 1):
            type_, param = self._param(argument, name)
            if param.access == "r":  # else the bodies are not read
                param = written_param(param, (cursor.spelling, number - 1), self._written)
            if not type_:
                raise self.unsupported(
                    cursor, f"takes {argument.type.spelling!r} as argument {number} {name!r}", name
                )
            types.append(type_)
            params.append(param)
        return types, params

    @cached_property
    def _written(self) -> Mapping[Any, str]:
        """The result of `written_parameters` for the program."""
        if self._is_cpp and not may_cast(self._text) and not any(map(_file_may_cast, self.files)):
            return {}
        own = _outside_system_headers(self._with_bodies())
        return written_parameters(self._library, (each for _, each in own))

    def unsupported(self, cursor: Any, problem: str, argument: str = "") -> CompileError:
        """Return the error for a function that devmod cannot call. `problem` follows the function's
        name.
        """
        return CompileError(
            f"{self.location(cursor)}: the {self._noun} {cursor.spelling!r} {problem}, which devmod cannot pass; expected a number, a "
            "struct, or a pointer. Declare helper functions static",
            kind=self._kind,
            function=cursor.spelling,
            argument=argument,
        )

    def _param(self, argument: Any, name: str) -> tuple[str, Param]:
        """Return the type for arg_types ("" if devmod cannot pass it) and the Param of one
        argument.
        """
        type_ = argument.type.get_canonical()
        is_unknown = self._unknown.intersects(argument.extent)
        if type_kind(type_) in (*POINTERS[:2], *ARRAYS):
            return "handle", self._buffer(type_, name, is_unknown)
        if is_unknown or uses_location(type_, self._unknown):
            return "", Param(name, "scalar")
        element, align = self._type(type_)
        return element, with_struct(Param(name, "scalar", element, align=align), type_, self._type)

    def _buffer(self, type_: Any, name: str, is_unknown: bool) -> Param:
        """Return the Param of a pointer, a reference or an array."""
        is_array = type_kind(type_) in ARRAYS
        target = type_.element_type if is_array else type_.get_pointee()
        const = target.is_const_qualified()
        while type_kind(target) in ARRAYS:
            target = target.element_type
            const = const or target.is_const_qualified()

        element = ""
        align = 0
        size = 0
        if not is_unknown:
            element, align = self._pointee_type(target.get_canonical())
            if type_kind(type_) == FIXED_ARRAY:
                size = max(type_.get_size(), 0)
        access = "r" if const else "rw"
        param = Param(name, "buffer", element, access, align=align, size=size)
        if uses_location(target, self._unknown):
            return param
        return with_struct(param, target, self._type)


def _outside_system_headers(unit: Any) -> Iterator[_Declaration]:
    """Yield the `declarations` of a unit that are not in the headers of the compiler."""
    return declarations(unit.cursor, lambda each: not each.location.is_in_system_header)
