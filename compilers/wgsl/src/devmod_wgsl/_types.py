"""The types of a WGSL module with their memory layouts ("Memory Layout" in the specification), and
the rules for variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from devmod.backend import IMAGE_FORMATS
from devmod.errors import CompileError
from devmod_wgsl._parse import Declaration, Expression, WgslModule
from devmod_wgsl._scalars import INTEGER_SUFFIXES, INTEGERS, SCALARS, SUFFIXES, UNSUPPORTED
from devmod_wgsl._tokens import Source
from devmod_wgsl._values import Unknown, Values, shown_value

SCALAR = "scalar"
VECTOR = "vector"
MATRIX = "matrix"
ATOMIC = "atomic"
ARRAY = "array"
STRUCT = "struct"
IMAGE = "image"
SAMPLER = "sampler"
OTHER = "other"

#: The types of textures that are images, and those that devmod does not have.
_SAMPLED = {f"texture_{name}": name for name in ("1d", "2d", "3d", "2d_array")}
_STORAGE = {f"texture_storage_{name}": name for name in _SAMPLED.values()}
_OTHER_TEXTURES = frozenset(
    (
        "texture_cube",
        "texture_cube_array",
        "texture_multisampled_2d",
        "texture_external",
        "texture_depth_2d",
        "texture_depth_2d_array",
        "texture_depth_cube",
        "texture_depth_cube_array",
        "texture_depth_multisampled_2d",
    )
)
#: The types of texels, to what a shader reads and writes.
_SAMPLES = {"f32": "float", "i32": "int", "u32": "uint"}
_ACCESS = {"read": "r", "write": "w", "read_write": "rw"}
#: The columns of a matrix, its rows or the lanes of a vector, and the suffix of its scalars.
_SHAPE = re.compile(rf"(?:vec|mat([234])x)([234])([{''.join(SUFFIXES)}]?)")
_MAX_BYTES = 1 << 62
#: The name of an array contains its element's name up to this length.
_LONGEST_NAME = 100

#: The attributes that an array has from its element.
_FROM_ELEMENT = (
    "natural_align",
    "naga_misplaced",
    "two_rows",
    "nested_two_rows",
    "override_length",
    "unshareable_part",
    "innermost",
)

_SPACES = ("storage", "uniform", "private", "workgroup", "")


class Type:
    """A type.

    Attributes
    ----------
    kind : str
        One of the kinds above.
    name : str
        Its name in messages.
    size, align : int
        Size and alignment in bytes; 0 if it has none. The size of a runtime-sized array is 0.
    dtype : str
        The common type of its numbers, such as "float32"; "" if they differ.
    lanes : int
        The number of its scalars, with the padding of three-vectors in a matrix.
    element : Type
        The element type of an array, or the column of a matrix.
    count : int or None
        The length of an array, or the columns of a matrix; None for a runtime-sized array, -1 if it
        depends on an override.
    members : list
        The members of a struct: (declaration, type, offset).
    runtime_sized : bool
        Whether it is a runtime-sized array, or ends with one.
    image : str
        The type of an image as in `devmod.Param`; "" if devmod has no such images.
    format, sample, access : str
        The fields of an image in `devmod.Param`.
    natural_align : int
        Its alignment without any @align. naga (wgpu, Firefox) uses it for members of a struct.
    naga_misplaced : tuple or None
        The first struct that naga lays out incorrectly, this type or a part of it: its name, the
        member that causes it, and the type of that.
    two_rows : bool
        Whether it is or contains a matrix of two rows.
    nested_two_rows : tuple or None
        The first struct in it with a member struct that contains such a matrix, and the type of
        that member.
    override_length : bool
        Whether the length of an array in it depends on an override.
    unshareable_part : str
        The name of the part that is not host-shareable, as WGSL defines it; "" if there is none.
    innermost : Type
        The type of the innermost elements of nested arrays; else the type itself.
    declared_size : int
        Its size in bytes, without a runtime-sized array.
    min_binding_size : int
        The minimum size of a buffer for it, as WebGPU defines it.

    Attributes that depend on a type's parts are computed once, when the type is made. Structs refer
    to structs, so a walk over all paths takes time that is exponential in the text.
    """

    def __init__(
        self, kind: str, name: str, size: int = 0, align: int = 0, dtype: str = "", lanes: int = 1
    ) -> None:
        self.kind = kind
        self.name = name
        self.size = size
        self.align = align
        self.dtype = dtype
        self.lanes = lanes
        self.element: Type | None = None
        self.count: int | None = None
        self.members: list[tuple[Declaration, Type, int]] = []
        self.runtime_sized = False
        self.image = self.format = self.sample = self.access = ""
        self.natural_align = align
        self.naga_misplaced: Misplaced | None = None
        self.two_rows = False
        self.nested_two_rows: tuple[Type, Type] | None = None
        self.override_length = False
        self.unshareable_part = "" if size else name
        self.innermost = self
        self.min_binding_size = self.declared_size = size

    @property
    def stride(self) -> int:
        """The distance between two elements in an array of this type."""
        return round_up(self.size, self.align)


#: A struct that naga lays out incorrectly: its name, the member that causes it, and its type.
Misplaced = tuple[str, Declaration, Type]


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is at least a number; the number itself for a multiple
    of 0.
    """
    if not multiple:
        return number
    return -(-number // multiple) * multiple


# Where to change: a layout rule of a WGSL type
#   tests: `compilers/wgsl/tests/test_wgsl.py`
class Types:
    """The types of a module."""

    def __init__(self, module: WgslModule, values: Values) -> None:
        self._module = module
        self._error = module.source.error
        self._values = values
        self._named: dict[str, Type] = {}
        self._busy: set[str] = set()

    def of(self, expression: Expression) -> Type:
        """Return the type that an expression names.

        Raises
        ------
        CompileError
            The expression is not a type, or the type is unknown or invalid.
        """
        if expression[0] != "name":
            raise self._error(expression[-1], "expected a type, got an expression")
        _, name, arguments, at = expression
        declared = self._module.declared.get(name)
        if declared is None:
            return self._predeclared(name, arguments, at)
        if declared.kind not in ("alias", "struct"):
            raise self._error(at, f"expected a type, got the {declared.kind} {name!r}")
        if arguments is not None:
            raise self._error(at, f"the {declared.kind} {name!r} accepts no template list")
        if name in self._named:
            return self._named[name]

        if name in self._busy:
            raise self._error(declared.at, f"the {declared.kind} {name!r} contains itself")
        self._busy.add(name)
        if declared.kind == "alias":
            assert declared.type is not None
            type_ = self.of(declared.type)
        else:
            type_ = self._struct(declared)
        self._busy.discard(name)
        self._named[name] = type_
        return type_

    def _predeclared(self, name: str, arguments: list[Expression] | None, at: int) -> Type:
        items = arguments or []
        if arguments is None and name in SCALARS:
            return _scalar(name)
        if arguments is None and name == "bool":
            return Type(OTHER, name)
        if name in UNSUPPORTED:
            raise self._error(
                at,
                f"the type {name} has 64 bits, which WGSL does not support; use two u32, or the target vulkan",
            )
        if name == "array":
            return self._array(items, at)
        if name == "atomic":
            return self._atomic(items, at)
        if shape := _SHAPE.fullmatch(name):
            return self._shaped(shape, arguments, at)
        if name == "ptr":
            return Type(OTHER, name)
        if name in ("sampler", "sampler_comparison"):
            return Type(SAMPLER, name)
        if name in _SAMPLED:
            return self._sampled(name, items, at)
        if name in _STORAGE:
            return self._storage(name, items, at)
        if name in _OTHER_TEXTURES or name == "binding_array":
            return Type(IMAGE, name)
        raise self._unknown(name, at)

    def _atomic(self, arguments: list[Expression], at: int) -> Type:
        of = self._one("atomic", arguments, at)
        if of.kind != SCALAR or of.dtype not in ("int32", "uint32"):
            raise self._error(at, f"expected atomic<i32> or atomic<u32>, got atomic<{of.name}>")
        return Type(ATOMIC, f"atomic<{of.name}>", of.size, of.align, of.dtype)

    def _shaped(self, shape: re.Match[str], arguments: list[Expression] | None, at: int) -> Type:
        """Return a vector or a matrix."""
        columns, rows, suffix = shape.groups()
        if not suffix:
            of = self._one(shape[0], arguments or [], at)
        elif arguments is not None or (columns and suffix in INTEGER_SUFFIXES):
            raise self._unknown(shape[0], at)
        else:
            of = _scalar(SUFFIXES[suffix])
        if columns:
            return self._matrix(of, int(columns), int(rows), at)
        return self._vector(of, int(rows), at)

    def _sampled(self, name: str, arguments: list[Expression], at: int) -> Type:
        texel = ""
        if len(arguments) == 1:
            texel = self.of(arguments[0]).name
        if texel not in _SAMPLES:
            raise self._error(
                at,
                f"{name} requires the type of its texels, f32, i32 or u32, for example {name}<f32>",
            )
        type_ = Type(IMAGE, f"{name}<{texel}>")
        type_.image = _SAMPLED[name]
        type_.sample = _SAMPLES[texel]
        type_.access = "r"
        return type_

    def _storage(self, name: str, arguments: list[Expression], at: int) -> Type:
        words = []
        for each in arguments:
            is_word = each[0] == "name" and each[2] is None
            words.append(each[1] if is_word else "")
        if len(words) != 2 or words[1] not in _ACCESS:
            raise self._error(
                at,
                f"{name} requires a format and the access read, write or read_write, for example {name}<rgba8unorm, write>",
            )
        texel, access = words
        hidden = next((word for word in words if word in self._module.declared), "")
        if hidden:
            raise self._error(
                at,
                f"{name} requires a format and an access of WGSL, and this source declares {hidden!r} itself",
            )
        if texel not in IMAGE_FORMATS:
            found = repr(texel) if texel else "the first argument"
            raise self._error(
                at,
                f"{found} is not a format of images in devmod; expected one such as rgba8unorm, r32float or rg16uint",
            )
        type_ = Type(IMAGE, f"{name}<{texel}, {access}>")
        type_.image = _STORAGE[name]
        type_.format = texel
        type_.access = _ACCESS[access]
        type_.sample = IMAGE_FORMATS[texel].sample
        return type_

    def _unknown(self, name: str, at: int) -> CompileError:
        return self._error(
            at, f"unknown type {name!r}: it is neither declared nor predeclared in WGSL"
        )

    def _one(self, name: str, arguments: list[Expression], at: int) -> Type:
        if len(arguments) != 1:
            example = "u32" if name == "atomic" else "f32"
            raise self._error(at, f"{name} requires one type, for example {name}<{example}>")
        return self.of(arguments[0])

    def _vector(self, of: Type, lanes: int, at: int) -> Type:
        name = f"vec{lanes}<{of.name}>"
        if of.name == "bool":
            return Type(OTHER, name)
        if of.kind != SCALAR:
            raise self._error(at, f"expected a vector of i32, u32, f32, f16 or bool, got {of.name}")
        aligned_lanes = 2 if lanes == 2 else 4
        return Type(VECTOR, name, of.size * lanes, of.size * aligned_lanes, of.dtype, lanes)

    def _matrix(self, of: Type, columns: int, rows: int, at: int) -> Type:
        if not of.dtype.startswith("float"):
            raise self._error(at, f"expected a matrix of f32 or f16, got {of.name}")
        column = self._vector(of, rows, at)
        name = f"mat{columns}x{rows}<{of.name}>"
        type_ = Type(MATRIX, name, columns * column.stride, column.align, of.dtype)
        type_.lanes = type_.size // of.size
        type_.two_rows = rows == 2
        type_.element = column
        type_.count = columns
        return type_

    def _array(self, arguments: list[Expression], at: int) -> Type:
        if not 1 <= len(arguments) <= 2:
            raise self._error(
                at,
                "array requires an element type and an optional length, for example array<f32, 4>",
            )
        element = self.of(arguments[0])
        if element.runtime_sized:
            raise self._error(at, f"the array's element type {element.name} has no fixed size")
        shown = element.name
        if len(shown) > _LONGEST_NAME:
            shown = "…"
        type_ = Type(ARRAY, f"array<{shown}>", 0, element.align, element.dtype)
        type_.element = element
        for name in _FROM_ELEMENT:
            setattr(type_, name, getattr(element, name))
        type_.min_binding_size = element.stride
        if len(arguments) == 1:
            type_.runtime_sized = True
            return type_

        type_.count = self._length(arguments[1], at)
        if type_.count < 0:
            type_.name = f"array<{shown}, ?>"
            type_.override_length = True
            return type_
        type_.name = f"array<{shown}, {type_.count}>"
        type_.size = type_.count * element.stride
        if type_.size > _MAX_BYTES:
            raise self._error(
                at, f"the array has {type_.size} bytes; expected at most {_MAX_BYTES}"
            )
        type_.min_binding_size = type_.size or element.stride
        type_.declared_size = type_.size
        return type_

    def _length(self, expression: Expression, at: int) -> int:
        """Return the length of an array; -1 if it depends on an override."""
        try:
            kind, count = self._values.size(expression)
        except Unknown:
            return -1
        if kind not in INTEGERS or (count < 1 and count != -1):
            raise self._error(
                at, f"the length of the array is {shown_value(count)}; expected an integer from 1"
            )
        return int(count)

    def _struct(self, declared: Declaration) -> Type:
        if not declared.members:
            raise self._error(declared.at, f"the struct {declared.name!r} has no members")
        type_ = Type(STRUCT, declared.name)
        type_.unshareable_part = ""
        layout = _StructLayout(declared.name)
        for number, member in enumerate(declared.members):
            assert member.type is not None
            of = self.of(member.type)
            if of.runtime_sized and number < len(declared.members) - 1:
                raise self._error(
                    member.at,
                    f"the member {member.name!r} has no fixed size, which is allowed for the last member only",
                )
            align = self._member_align(member, of)
            size = self._member_size(member, of)
            offset = layout.add(member, of, align, size)
            type_.members.append((member, of, offset))
            if layout.end > _MAX_BYTES:
                raise self._error(
                    member.at, f"the struct has {layout.end} bytes; expected at most {_MAX_BYTES}"
                )

        type_.align = layout.align
        type_.size = round_up(layout.end, layout.align)
        type_.naga_misplaced = layout.naga_misplaced()
        _set_from_members(type_)
        return type_

    def _member_align(self, member: Declaration, of: Type) -> int:
        align = self.number(member, "align", of.align)
        if of.align and (align < 1 or align & (align - 1) or align % of.align):
            raise self._error(
                member.at,
                f"the member {member.name!r} has @align({align}); expected a power of two that is a multiple of {of.align}",
            )
        return align

    def _member_size(self, member: Declaration, of: Type) -> int:
        size = self.number(member, "size", of.size)
        if size < of.size:
            raise self._error(
                member.at,
                f"the member {member.name!r} has @size({size}); expected at least {of.size} for {of.name}",
            )
        return size

    def number(self, declared: Declaration, attribute: str, default: int) -> int:
        """Return the value of an integer attribute such as ``@binding``.

        Raises
        ------
        CompileError
            The value is not a constant integer from 0.
        """
        arguments = declared.attributes.get(attribute)
        if arguments is None:
            return default
        if len(arguments) == 1:
            try:
                kind, number = self._values.evaluate(arguments[0])
            except Unknown:
                kind = ""
            if kind in INTEGERS and 0 <= number < 2**31:
                return int(number)
        raise self._error(
            declared.at,
            f"the @{attribute} of {declared.name!r} is invalid; expected one constant integer from 0",
        )


def _scalar(name: str) -> Type:
    scalar = SCALARS[name]
    return Type(SCALAR, name, scalar.size, scalar.size, scalar.dtype)


class _StructLayout:
    """The places of the members of a struct, in WGSL's layout and in naga's.

    Attributes
    ----------
    end, align : int
        The end of the last member, and the alignment.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.end = 0
        self.align = 1
        self._end_of_naga = 0
        self._align_of_naga = 1
        #: The first member with an alignment that naga ignores.
        self._ignored_align: Misplaced | None = None
        self._naga_differs = False

    def add(self, member: Declaration, of: Type, align: int, size: int) -> int:
        """Add a member, and return its offset."""
        naga_align = align if "align" in member.attributes else of.natural_align
        if naga_align < align:
            self._ignored_align = self._ignored_align or (self._name, member, of)
        offset = round_up(self.end, align)
        self.end = offset + size
        self.align = max(self.align, align)
        self._end_of_naga = round_up(self._end_of_naga, naga_align) + size
        self._align_of_naga = max(self._align_of_naga, naga_align)
        if self._end_of_naga != self.end:
            self._naga_differs = True
        return offset

    def naga_misplaced(self) -> Misplaced | None:
        """Return the member that causes another layout of naga; None if it has the same."""
        size = round_up(self.end, self.align)
        size_of_naga = round_up(self._end_of_naga, self._align_of_naga)
        if self._naga_differs or size_of_naga != size:
            return self._ignored_align
        return None


def _set_from_members(type_: Type) -> None:
    """Set the attributes of a struct that it has from its members."""
    for _, of, _ in type_.members:
        type_.natural_align = max(type_.natural_align, of.natural_align)
        type_.runtime_sized |= of.runtime_sized
        type_.two_rows |= of.two_rows
        type_.override_length |= of.override_length
        type_.unshareable_part = type_.unshareable_part or of.unshareable_part
        if of.kind == STRUCT and of.two_rows and type_.nested_two_rows is None:
            type_.nested_two_rows = (type_, of)
    # A member of the struct itself comes before one of its parts.
    for _, of, _ in type_.members:
        type_.nested_two_rows = type_.nested_two_rows or of.nested_two_rows
        type_.naga_misplaced = type_.naga_misplaced or of.naga_misplaced

    type_.min_binding_size = type_.declared_size = type_.size
    if type_.runtime_sized:
        _, last, offset = type_.members[-1]
        type_.min_binding_size = round_up(offset + last.min_binding_size, type_.align)
        type_.declared_size = offset + last.declared_size
    dtypes = {of.dtype for _, of, _ in type_.members}
    if len(dtypes) == 1:
        type_.dtype = dtypes.pop()


# -- The rules for the variables of a WGSL module: address spaces, bindings, and the memory layout
# of uniforms.


class VariableChecker:
    """Check the variables of one module, and collect the layouts on which naga fails.

    Attributes
    ----------
    layout_warning : str
        A message about the first struct that naga lays out incorrectly; "" if there is none.
    crash : tuple or None
        Place and message of the first uniform on which naga ends the process.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.layout_warning = ""
        self.crash: tuple[int, str] | None = None
        self._checked_uniforms: set[Type] = set()

    def check(self, declared: Declaration, of: Type) -> None:
        """Check a variable of the type `of`.

        Raises
        ------
        CompileError
            Its address space, access mode, bindings or layout are not valid.
        """
        problem = self._space_problem(declared, of) or self._type_problem(declared, of)
        if problem:
            raise self._source.error(declared.at, problem)
        # naga 29 replaces these types for SPIR-V, but not in a struct inside another struct.
        if of.nested_two_rows is not None and declared.space == "uniform" and self.crash is None:
            outer, inner = of.nested_two_rows
            self.crash = (
                declared.at,
                f"the uniform {declared.name!r} contains a matrix of two rows in {inner.name}, a member of {outer.name}. naga, the "
                "compiler of wgpu and Firefox, ends the process on it. Make it a storage variable, or replace the matrix by vectors",
            )
        if declared.space in ("storage", "uniform"):
            self.layout_warning = self.layout_warning or self._layout_warning(of)

    def _space_problem(self, declared: Declaration, of: Type) -> str:
        """Return why the address space or the binding of a variable is not valid; "" if they
        are.
        """
        variable = f"the variable {declared.name!r}"
        words = declared.words
        space = declared.space
        if space not in _SPACES:
            return f"{variable} has the address space {space!r}; expected storage, uniform, private or workgroup"
        if space != "storage" and len(words) > 1:
            return (
                f"{variable} has an access mode, which is allowed in the address space storage only"
            )
        if any(word not in ("read", "read_write") for word in words[1:]) or len(words) > 2:
            return f"{variable} has the access mode {words[1]!r}; expected read or read_write"
        has_no_space = of.kind in (IMAGE, SAMPLER)
        if space and has_no_space:
            return f"{variable} is a {of.name}, which has no address space; write 'var' without one"
        if not space and not has_no_space:
            return f"{variable} has no address space; write for example var<storage, read_write> or var<private>"
        if space in ("private", "workgroup"):
            return ""
        for attribute in ("group", "binding"):
            if attribute not in declared.attributes:
                return f"{variable} has no @{attribute}(…)"
        return ""

    def _type_problem(self, declared: Declaration, of: Type) -> str:
        """Return why the type of a variable is not allowed in its address space; "" if it is."""
        space = declared.space
        if space not in ("storage", "uniform"):
            return ""
        if of.unshareable_part:
            hint = "; use u32" if of.unshareable_part == "bool" else ""
            return f"the variable {declared.name!r} contains {of.unshareable_part}, which is not allowed in {space} memory{hint}"
        if of.override_length:
            return f"the length of the array {declared.name!r} depends on an override, which is allowed in workgroup memory only"
        if space == "storage":
            return ""
        return self._uniform_problem(f"the uniform {declared.name!r}", of)

    def _layout_warning(self, of: Type) -> str:
        if of.naga_misplaced is None:
            return ""
        struct, member, kind = of.naga_misplaced
        return (
            f"the struct {struct!r} at {self._source.location(member.at)} has the member {member.name!r} of {kind.name}, which "
            f"an @align inside it aligns to {kind.align} bytes. naga, the compiler of wgpu and Firefox, ignores that alignment here and "
            f"lays the struct out incorrectly. Write @align({kind.align}) before the member too"
        )

    def _uniform_problem(self, uniform: str, of: Type) -> str:
        if of.runtime_sized:
            return f"{uniform} contains an array without a length; make it a storage variable"
        for part, offset, next_offset in _parts(of, self._checked_uniforms):
            if part.kind == ATOMIC:
                return f"{uniform} contains {part.name}; make it a storage variable"
            if part.kind == ARRAY and part.element is not None and part.element.stride % 16:
                return (
                    f"{uniform} contains {part.name} with a stride of {part.element.stride} bytes; expected a multiple of 16. "
                    "Use vectors of four as elements, or a storage variable"
                )
            if part.kind in (STRUCT, ARRAY) and offset % 16:
                return f"{uniform} contains {part.name} at the offset {offset}; expected a multiple of 16. Add @align(16)"
            if next_offset is not None and next_offset % 16:
                return (
                    f"{uniform} has a member {next_offset} bytes after the start of {part.name}; expected a multiple of 16. "
                    "Add @align(16) to that member"
                )
        return ""


#: A type, its offset in its struct, and the distance to the next member.
Part = tuple[Type, int, int | None]


def _parts(of: Type, visited: set[Type]) -> Iterator[Part]:
    """Yield a type and its parts, each with its offset in its struct and, for a struct, the
    distance to the next member.

    The parts of each type are yielded once: types in `visited` are skipped, and new ones are added
    to it.
    """
    waiting: list[Part] = [(of, 0, None)]
    while waiting:
        part, offset_in_struct, distance = waiting.pop()
        yield part, offset_in_struct, distance
        if part in visited:
            continue
        inside: list[Part] = []
        if part.kind == ARRAY and part.element is not None:
            inside.append((part.element, 0, None))
        for number, (_, member, offset) in enumerate(part.members):
            distance_to_next = None
            if member.kind == STRUCT and number + 1 < len(part.members):
                _, _, next_offset = part.members[number + 1]
                distance_to_next = next_offset - offset
            inside.append((member, offset, distance_to_next))
        visited.add(part)
        waiting += reversed(inside)
