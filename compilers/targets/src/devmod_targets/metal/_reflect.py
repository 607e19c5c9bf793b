"""Read the kernels of a program in the Metal shading language with libclang, on any machine.

libclang reads the payload's text, whose ``#line`` directives give the lines of the sources. Syntax
errors are errors. Of the other diagnostics only unknown names are reported, as warnings: devmod
declares Metal's functions incompletely, so Metal's compiler decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any

from devmod import Param
from devmod.backend import PipelineConstant
from devmod.errors import CompileError, compile_error
from devmod.targets.metal import SPEC
from devmod_readers.reflection import MAX_ARGUMENTS, ReflectedFunction, with_members
from devmod_readers.uses import bits
from devmod_targets.authoring import CompileRequest, SelfContainedSource
from devmod_targets.authoring._open_block import open_functions
from devmod_targets.authoring._types import Reflected, Threads
from devmod_targets.authoring.c_functions import declarations, is_in
from devmod_targets.authoring.clang import (
    POINTERS,
    RECORD,
    REFERENCES,
    Libclang,
    LocationSet,
    element_type,
    load_libclang,
    type_kind,
)
from devmod_targets.authoring.const_casts import may_cast, written_param, written_parameters
from devmod_targets.authoring.instances import template_of
from devmod_targets.metal._element_types import (
    buffer_element,
    metal_element_type,
    metal_spelling,
    size_of,
    struct_members,
)
from devmod_targets.metal._names import Names
from devmod_targets.metal._parse import (
    ARRAY_PARAMETER,
    MAIN,
    address_spaces,
    diagnostics,
    parse_program,
)
from devmod_targets.metal._rewrite import Rewritten

_LARGEST_SCALAR = 4096
_VALUE = re.compile(r"=\s*(\d+)[uUlL]*\s*\Z")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_OPERATORS = {"Add": int.__add__, "Sub": int.__sub__, "Mult": int.__mul__}
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__global|__local|__global_host) ")
_TEXTURE = re.compile(
    r"^(?:const )?(?P<array>metal::array<)?metal::(?P<name>(?:texture|depth)\w*)<(?P<texel>[^,>]+)"
    r"(?:, (?:metal::access::|\(metal::access\))(?P<access>\w+))?"
)
_SAMPLER = re.compile(r"^(?:const )?(?P<array>metal::array<)?metal::sampler\b")
_ACCESS = {
    "sample": "r",
    "read": "r",
    "write": "w",
    "read_write": "rw",
    "0": "r",
    "1": "r",
    "2": "w",
    "3": "rw",
}
_IMAGE_TYPES = {f"texture{type_}": type_ for type_ in ("1d", "2d", "3d", "1d_array", "2d_array")}
_SAMPLES = {
    "float": "float",
    "_Float16": "float",
    "int": "int",
    "short": "int",
    "unsigned int": "uint",
    "unsigned short": "uint",
}
#: The keys of a parameter's `extra`: a type that devmod does not support, and whether the kernel
#: may read the texture with a sampler.
UNSUPPORTED = "unsupported"
SAMPLED = "sampled"
#: The tables of arguments, by their attributes.
_TABLES = ("buffer", "texture", "sampler", "threadgroup")
#: The attributes of a declaration: each word, with the text in its parentheses.
_Attributes = dict[str, str]
#: The name, the attributes and the place of a parameter; and all of those of a kernel.
_Parameter = tuple[str, _Attributes, Any]
_Parameters = Sequence[_Parameter]
#: The table of an argument, its index if one is given, its type for arg_types, and its param.
_Argument = tuple[str, int | None, str, Param]
#: The number of indices of each table.
_TABLE_SIZES = {"buffer": 31, "texture": 128, "sampler": 16, "threadgroup": 31}
_ARGUMENT_ATTRIBUTES = (*_TABLES, "function_constant", "raster_order_group", "user")


def read(request: CompileRequest, source: SelfContainedSource) -> tuple[Reflected, list[str], str]:
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
        The program has syntax errors, or a kernel with an argument that devmod does not support.
    """
    library = load_libclang(SPEC, "Metal")
    program = Rewritten(source.text)
    unit = parse_program(library, request, source, program.text)
    for _ in range(3):  # clang may report one of two such parameters of a function
        places = [
            diagnostic.location.offset
            for diagnostic in unit.diagnostics
            if diagnostic.spelling == ARRAY_PARAMETER
        ]
        if not places or not program.rewrite_arrays(places):
            break
        unit = parse_program(library, request, source, program.text)
    errors, warnings, unknown = diagnostics(library, unit, request.name, source.text, program)
    if errors:
        raise compile_error("metal", "Metal", errors, "\n".join((*errors, *warnings)))
    messages = []
    if warnings:
        title = "the Metal source has names that Metal does not define:"
        messages.append("\n".join((title, *warnings)))

    open_names = set()
    if not unknown:
        open_names = open_functions(source.text)
    reader = KernelReader(library, unit, request.name, program.text, unknown, open_names)
    kernels = reader.kernels()
    if reader.incomplete_types:
        # clang does not lay out a type that only a reference uses. An assertion after the program
        # forces the layout.
        assertions = "".join(
            f"\nstatic_assert(sizeof({name}));" for name in sorted(reader.incomplete_types)
        )
        unit = parse_program(library, request, source, program.text + assertions)
        kernels = KernelReader(
            library, unit, request.name, program.text, unknown, open_names
        ).kernels()
    return kernels, messages, library.toolchain


class KernelReader:
    """Reads what a parsed program declares."""

    def __init__(
        self,
        library: Libclang,
        unit: Any,
        name: str,
        text: str,
        unknown: Sequence[tuple[int, int]],
        open_functions: set[str],
    ) -> None:
        self._library = library
        self._kinds = library.cindex.CursorKind
        self._unit = unit
        self._name = name
        self._text = text
        self._open_functions = open_functions
        self._unknown = LocationSet((MAIN, line, column) for line, column in unknown)
        self._names = Names(text)
        #: The names of types that clang has not laid out.
        self.incomplete_types: set[str] = set()
        self._device, self._constant, self._threadgroup = address_spaces(library)
        self._numbers: dict[str, int] = {}
        self._constants: dict[str, PipelineConstant] = {}
        self._used_constants: dict[str, int] | None = None
        self._may_cast = may_cast(text)
        self._count = 0
        #: The kernel that is read, and its place.
        self._function = self._location = ""

    def kernels(self) -> Reflected:
        """Return the kernels by their names in Metal."""
        kernels = {}
        first: dict[str, Any] = {}
        for name, cursor, attributes in self._kernel_cursors():
            # A declaration and its definition have one canonical cursor.
            if first.setdefault(name, cursor.canonical) != cursor.canonical:
                lines = " and ".join(
                    f"{self._name}:{self._library.location(each.location)[1]}"
                    for each in (first[name], cursor)
                )
                raise CompileError(
                    f"{lines}: two kernels have the name {name!r}; rename one of them",
                    kind="metal",
                    function=name,
                )
            kernels[name] = self._kernel(name, cursor, attributes)
        return kernels

    def _kernel_cursors(self) -> list[tuple[str, Any, _Attributes]]:
        """Return the name, the cursor and the attributes of each kernel.

        All other declarations are read too: constants, and the extents of names.
        """
        found: list[tuple[str, Any, _Attributes]] = []
        for scope, cursor in declarations(self._unit.cursor, is_in(MAIN)):
            kind = cursor.kind
            end = cursor.extent.end.offset
            if kind == self._kinds.ENUM_DECL:
                for each in cursor.get_children():
                    if each.kind == self._kinds.ENUM_CONSTANT_DECL:
                        self._numbers[each.spelling] = each.enum_value
            elif kind == self._kinds.VAR_DECL:
                self._variable(cursor)
                end = self._names.end_of_statement(end)  # clang drops an unknown value
            self._names.declare(cursor.spelling, cursor.extent.start.offset, end)
            if kind != self._kinds.FUNCTION_DECL:
                continue

            attributes = self._attributes(cursor)
            pattern = template_of(cursor, self._library)
            is_kernel = "kernel" in attributes or (
                pattern is not None and "kernel" in self._attributes(pattern)
            )
            host = attributes.get("host_name", "")
            if is_kernel and (host or pattern is None):
                found.append((host or scope + cursor.spelling, cursor, attributes))
        return found

    @cached_property
    def _written(self) -> Mapping[Any, str]:
        """The result of `written_parameters` for the program."""
        own = (each for _, each in declarations(self._unit.cursor, is_in(MAIN)))
        return {
            place: metal_spelling(each)
            for place, each in written_parameters(self._library, own, {MAIN: self._name}).items()
        }

    def _attributes(self, cursor: Any) -> _Attributes:
        """Return the attributes of a declaration, as `Rewritten` has written them: the word and the
        text in its parentheses.
        """
        attributes: _Attributes = {}
        for each in cursor.get_children():
            if each.kind == self._kinds.ANNOTATE_ATTR and each.spelling.startswith("metal."):
                word, _, text = each.spelling.removeprefix("metal.").partition("=")
                # Of two, the first one counts.
                attributes.setdefault(word, text)
        return attributes

    def _variable(self, cursor: Any) -> None:
        name = cursor.spelling
        type_ = cursor.type.get_canonical()
        number = self._attributes(cursor).get("function_constant")
        if number is not None:
            position = self._number(number)
            element, align = element_type(type_)
            # devmod does not set vectors; a kernel can test whether such a constant is defined.
            if (
                position is not None
                and element
                and not align
                and "x" not in element
                and element != "bfloat16"
            ):
                self._constants[name] = PipelineConstant(name, element, position)
        elif type_.is_const_qualified() and type_kind(type_) in (5, 8, 9, 10, 13, 14, 16, 17, 18):
            text = _VALUE.search(self._text[cursor.extent.start.offset : cursor.extent.end.offset])
            if text:
                self._numbers[name] = int(text[1])

    def _number(self, text: str) -> int | None:
        """Return the value of an attribute's expression of numbers and constants; None for any
        other expression.
        """
        import ast

        if not text:
            return None
        # In Python's spelling: a dot for `::`, and numbers without a suffix.
        expression = _SUFFIX.sub(r"\1", text.replace("::", ".")).strip()
        try:
            value = self._value(ast.parse(expression, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if not 0 <= value < 1 << 32:
            return None
        return value

    def _value(self, node: Any) -> int:
        import ast

        if isinstance(node, ast.BinOp) and type(node.op).__name__ in _OPERATORS:
            operator = _OPERATORS[type(node.op).__name__]
            return operator(self._value(node.left), self._value(node.right))
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        name = ""
        if isinstance(node, ast.Name):
            name = node.id
        elif isinstance(node, ast.Attribute):
            name = node.attr
        if name not in self._numbers:
            raise ValueError(name)
        return self._numbers[name]

    # -- one kernel

    def _kernel(self, name: str, cursor: Any, attributes: _Attributes) -> ReflectedFunction:
        file, line, _ = self._library.location(cursor.location)
        if file == MAIN:
            location = f"{self._name}:{line}"
        else:
            location = f"{os.path.basename(file)}:{line}"
        self._function = name
        self._location = location
        pattern = template_of(cursor, self._library)
        parameters = self._parameters(cursor)
        if pattern is not None:
            parameters = _with_declared(parameters, self._parameters(pattern))

        arguments = self._arguments(cursor, parameters)
        extent = (pattern or cursor.get_definition() or cursor).extent
        text = self._text[extent.start.offset : extent.end.offset]
        params = _order_arguments(
            [
                (table, index, kind, param.replace(extra=_sampled(param, text)))
                for table, index, kind, param in arguments
            ]
        )
        arg_types = [type_name for type_name, _ in params]
        arg_params = [param for _, param in params]
        is_selected = any("function_constant" in value for _, value, _ in parameters)
        self._check_indices(arg_params, is_selected)

        extra: dict[str, Any] = {}
        constants = self._used_by(cursor)
        if constants:
            extra["constants"] = constants
        if pattern is not None:
            attributes = self._attributes(pattern) | attributes
        most = self._number(attributes.get("max_total_threads_per_threadgroup", ""))
        if most:
            extra["max_total_threads_per_threadgroup"] = most
        return ReflectedFunction(
            name,
            arg_types,
            arg_params,
            self._block(attributes),
            location,
            extra=extra,
            open_block=cursor.spelling in self._open_functions,
        )

    def _arguments(
        self,
        cursor: Any,
        parameters: _Parameters,
    ) -> list[_Argument]:
        """Return the arguments of a kernel, each as `_argument` returns it."""
        arguments = []
        types = list(cursor.type.get_canonical().argument_types())
        for number, (parameter, type_) in enumerate(zip(parameters, types, strict=False)):
            name, attributes, extent = parameter
            unknown = extent is not None and self._unknown.intersects(extent)
            argument = self._argument(name, attributes, type_.get_canonical(), unknown)
            if argument is None:
                continue
            table, index, type_name, param = argument
            if param.access == "r" and self._may_cast:
                param = written_param(param, (cursor.spelling, number), self._written)
            arguments.append((table, index, type_name, param))
        return arguments

    def _used_by(self, cursor: Any) -> list[dict[str, object]]:
        """Return the function constants that a kernel uses."""
        if not self._constants:
            return []
        items = list(self._constants)
        if self._used_constants is None:
            self._used_constants = self._names.used_parts(items)
        used = self._used_constants.get(cursor.spelling, 0)
        constants = [self._constants[items[number]].to_dict() for number in bits(used)]
        self._count += len(constants)
        if self._count > MAX_ARGUMENTS:
            raise CompileError(
                f"{self._location}: the kernels up to {self._function!r} use more than {MAX_ARGUMENTS} function constants together; "
                "split the source",
                kind="metal",
                function=self._function,
            )
        return constants

    def _block(self, attributes: _Attributes) -> Threads | None:
        """Return the block that the attributes require; None if they require none."""
        sizes = attributes.get("required_threads_per_threadgroup", "").split(",")
        x, y, z = (*map(self._number, sizes), 1, 1)[:3]
        if x and y and z:
            return x, y, z
        return None

    def _check_indices(self, params: Sequence[Param], is_selected: bool) -> None:
        """Raise CompileError for indices that Metal does not support."""
        owners: dict[tuple[str, object], str] = {}
        for param in params:
            table = {"local": "threadgroup", "image": "texture", "sampler": "sampler"}.get(
                param.kind, "buffer"
            )
            assert isinstance(param.at, int)
            if param.at >= _TABLE_SIZES[table]:
                last = _TABLE_SIZES[table] - 1
                raise self._error(
                    param.name,
                    f"has the {table} index {param.at}; expected at most {last}",
                )
            other = owners.setdefault((table, param.at), param.name)
            # A function constant may select one of two arguments with the same index.
            if other != param.name and not is_selected:
                raise self._error(
                    param.name,
                    f"has the same {table} index {param.at} as {other!r}",
                )

    def _parameters(self, cursor: Any) -> list[_Parameter]:
        return [
            (each.spelling, self._attributes(each), each.extent)
            for each in cursor.get_children()
            if each.kind == self._kinds.PARM_DECL
        ]

    def _argument(
        self,
        name: str,
        attributes: _Attributes,
        type_: Any,
        unknown: bool,
    ) -> _Argument | None:
        """Return its table, its index if one is given, its type for arg_types, and its param; None
        for what Metal fills in itself.
        """
        if any(word not in _ARGUMENT_ATTRIBUTES for word in attributes):
            return None
        texture = _TEXTURE.match(type_.spelling)
        sampler = _SAMPLER.match(type_.spelling)
        is_pointer = type_kind(type_) in POINTERS
        table = "buffer"
        if sampler:
            table = "sampler"
        elif texture:
            table = "texture"
        if is_pointer:
            target = type_.get_pointee().get_canonical()
            if target.get_address_space() == self._threadgroup:
                table = "threadgroup"
        index = self._index(name, attributes)

        if table == "texture" or (unknown and "texture" in attributes):
            return "texture", index, "handle", _image_param(name, texture)
        if sampler:
            param = Param(name, "sampler")
            # Only a call is refused, so that other kernels of the source can be used.
            if sampler["array"]:
                param = param.replace(extra={UNSUPPORTED: "arrays of samplers"})
            return table, index, "handle", param
        if is_pointer:
            type_name, param = self._pointer(name, type_, table, unknown)
            return table, index, type_name, param
        if unknown:
            return table, index, "", Param(name, "scalar")
        raise self._error(
            name,
            f"has the type {metal_spelling(type_.spelling)!r}, which devmod does not support",
        )

    def _index(self, name: str, attributes: _Attributes) -> int | None:
        """Return the index that an argument's attributes give; None if they give none."""
        index = None
        for word in _TABLES:
            if word not in attributes:
                continue
            text = attributes[word]
            index = self._number(text)
            if index is None:
                if len(text) >= 100:
                    text = f"{text[:100]}…"
                raise self._error(
                    name,
                    f"has the attribute [[{word}({text})]], whose value is unknown; write a number",
                )
        return index

    def _pointer(self, name: str, type_: Any, table: str, unknown: bool) -> tuple[str, Param]:
        """Return the type and the param of an argument that is a pointer or a reference."""
        target = type_.get_pointee().get_canonical()
        is_reference = type_kind(type_) in REFERENCES
        if type_kind(target) == RECORD and size_of(target) < 0:
            self.incomplete_types.add(_QUALIFIERS.sub("", target.spelling))
        element = ""
        align = 0
        if not unknown:
            element, align = metal_element_type(target)
        if table == "threadgroup":
            return "handle", Param(name, "local", element, align=align)
        space = target.get_address_space()
        if space not in (self._device, self._constant):
            raise self._error(
                name,
                "points into no address space; expected device, constant or threadgroup",
            )

        if (
            is_reference
            and space == self._constant
            and element
            and size_of(target) <= _LARGEST_SCALAR
        ):
            param = Param(name, "scalar", element, align=align)
            if align:
                param = with_members(param, struct_members(target))
            return element, param

        access = "rw"
        if target.is_const_qualified():
            access = "r"
        if unknown:
            return "handle", Param(name, "buffer", "", access)
        element, align, size, members = buffer_element(target, is_reference)
        param = Param(name, "buffer", element, access, align=align, size=size)
        return "handle", with_members(param, members)

    def _error(self, name: str, text: str) -> CompileError:
        argument = "an argument"
        if name:
            argument = f"the argument {name!r}"
        return CompileError(
            f"{self._location}: {argument} of the kernel {self._function!r} {text}",
            kind="metal",
            function=self._function,
            argument=name,
        )


def _image_param(name: str, texture: re.Match[str] | None) -> Param:
    """Return the parameter of a texture; None is a texture whose type is unknown."""
    if texture is None:
        return Param(name, "image")
    access = texture["access"] or "sample"
    param = Param(name, "image", access=_ACCESS.get(access, ""))
    type_ = _IMAGE_TYPES.get(texture["name"], "")
    sample = _SAMPLES.get(texture["texel"], "")
    # Only a call is refused, so that other kernels of the source can be used.
    if texture["array"]:
        return param.replace(extra={UNSUPPORTED: "arrays of textures"})
    if not type_:
        return param.replace(extra={UNSUPPORTED: texture["name"]})
    if not sample:
        return param.replace(extra={UNSUPPORTED: f"{texture['name']} of {texture['texel']}"})
    param = param.replace(type=type_, sample=sample)
    if access in ("sample", "0"):
        return param.replace(extra={SAMPLED: True})
    return param


def _sampled(param: Param, text: str) -> Mapping[str, object]:
    """Return a parameter's extra, without `SAMPLED` if the kernel uses the texture only for methods
    that take no sampler.

    A texture has `access::sample` by default, and is often read by `read`.
    """
    if SAMPLED not in param.extra:
        return param.extra
    word = rf"\b{re.escape(param.name)}\b"
    other_uses = re.findall(rf"{word}(?!\s*\.\s*(?:read|write|get_\w+|fence)\b)", text)
    # The first one is its declaration.
    if len(other_uses) > 1:
        return param.extra
    return {key: value for key, value in param.extra.items() if key != SAMPLED}


def _with_declared(
    parameters: _Parameters,
    declared: _Parameters,
) -> list[_Parameter]:
    """Return the parameters of a template's instance, with what only the template declares of them.

    A template may have attributes that its instance does not repeat, and clang may give an instance
    no parameters at all.
    """
    if not parameters:
        return list(declared)
    merged = []
    for (name, attributes, extent), pattern in zip(parameters, declared, strict=False):
        merged.append((name or pattern[0], attributes or pattern[1], extent or pattern[2]))
    return merged


def _order_arguments(
    arguments: Sequence[_Argument],
) -> list[tuple[str, Param]]:
    """Return the arguments by table and index. An argument without an index gets the first free
    one, as in Metal.
    """
    result = []
    for table in ("buffer", "threadgroup", "texture", "sampler"):
        own = [argument for argument in arguments if argument[0] == table]
        taken = {index for _, index, _, _ in own}
        free = (number for number in count() if number not in taken)
        placed = []
        for _, index, type_name, param in own:
            if index is None:
                index = next(free)
            placed.append((index, type_name, param))
        placed.sort(key=lambda each: each[0])
        for index, type_name, param in placed:
            result.append((type_name, param.replace(at=index)))
    return result
