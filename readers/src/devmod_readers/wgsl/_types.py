"""The types of a WGSL module with their memory layouts ("Memory Layout" in the specification)."""

from __future__ import annotations

from devmod_readers.wgsl._arithmetic import Unknown, shown_value
from devmod_readers.wgsl._scalars import INTEGER_SUFFIXES, INTEGERS, SCALARS, SUFFIXES, UNSUPPORTED
from devmod_readers.wgsl._type import ARRAY, ATOMIC, IMAGE, MATRIX, OTHER, SAMPLER, SCALAR, STRUCT, VECTOR, Type, round_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod.errors import CompileError
    from devmod_readers.wgsl._parse import Declaration, Expression, WgslModule
    from devmod_readers.wgsl._values import Values

_ACCESS = {"read": "r", "write": "w", "read_write": "rw"}
_MAX_BYTES = 1 << 62
#: The name of an array contains its element's name up to this length.
_LONGEST_NAME = 100


class Types:
    """The types of a module."""

    def __init__(self, module: WgslModule, values: Values) -> None:
        self._module = module
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
            raise self._module.source.error(expression[-1], "expected a type, got an expression")
        _, name, arguments, at = expression
        declared = self._module.declared.get(name)
        if declared is None:
            return self._predeclared(name, arguments, at)
        if declared.kind not in ("alias", "struct"):
            raise self._module.source.error(at, f"expected a type, got the {declared.kind} {name!r}")
        if arguments is not None:
            raise self._module.source.error(at, f"the {declared.kind} {name!r} accepts no template list")
        if name not in self._named:
            if name in self._busy:
                raise self._module.source.error(declared.at, f"the {declared.kind} {name!r} contains itself")
            self._busy.add(name)
            if declared.kind == "alias":
                assert declared.type is not None
                type_ = self.of(declared.type)
            else:
                type_ = self._struct(declared)
            self._busy.discard(name)
            self._named[name] = type_
        return self._named[name]

    def _predeclared(self, name: str, arguments: list[Expression] | None, at: int) -> Type:
        items = arguments or []
        if name in SCALARS and arguments is None:
            scalar = SCALARS[name]
            return Type(SCALAR, name, scalar.size, scalar.size, scalar.dtype)
        if name == "bool" and arguments is None:
            return Type(OTHER, name)
        if name in UNSUPPORTED:
            raise self._module.source.error(
                at, f"the type {name} has 64 bits, which WGSL does not support; use two u32, or the target vulkan"
            )
        if name == "array":
            return self._array(items, at)
        if name == "atomic":
            of = self._one(name, items, at)
            if of.kind != SCALAR or of.dtype not in ("int32", "uint32"):
                raise self._module.source.error(at, f"expected atomic<i32> or atomic<u32>, got atomic<{of.name}>")
            return Type(ATOMIC, f"atomic<{of.name}>", of.size, of.align, of.dtype)
        shape = name[3:4] if name.startswith("vec") else name[3:6] if name.startswith("mat") else ""
        if shape and _is_shape(shape, name[:3]) and name[3 + len(shape) :] in ("", *SUFFIXES):
            suffix = name[3 + len(shape) :]
            if suffix and (arguments is not None or (suffix in INTEGER_SUFFIXES and name.startswith("mat"))):
                raise self._unknown(name, at)
            of = self._predeclared(SUFFIXES[suffix], None, at) if suffix else self._one(name, items, at)
            return self._vector(of, int(shape), at) if name.startswith("vec") else self._matrix(of, int(shape[0]), int(shape[2]), at)
        if name == "ptr":
            return Type(OTHER, name)
        if name in ("sampler", "sampler_comparison"):
            return Type(SAMPLER, name)
        if name.startswith("texture_"):
            type_ = Type(IMAGE, name)
            words = [each[1] for each in items if each[0] == "name"]
            type_.access = next((_ACCESS[word] for word in words if word in _ACCESS), "r")
            return type_
        raise self._unknown(name, at)

    def _unknown(self, name: str, at: int) -> CompileError:
        return self._module.source.error(at, f"unknown type {name!r}: it is neither declared nor predeclared in WGSL")

    def _one(self, name: str, arguments: list[Expression], at: int) -> Type:
        if len(arguments) != 1:
            raise self._module.source.error(at, f"{name} requires one type, for example {name}<{'u32' if name == 'atomic' else 'f32'}>")
        return self.of(arguments[0])

    def _vector(self, of: Type, lanes: int, at: int) -> Type:
        name = f"vec{lanes}<{of.name}>"
        if of.name == "bool":
            return Type(OTHER, name)
        if of.kind != SCALAR:
            raise self._module.source.error(at, f"expected a vector of i32, u32, f32, f16 or bool, got {of.name}")
        return Type(VECTOR, name, of.size * lanes, of.size * (2 if lanes == 2 else 4), of.dtype, lanes)

    def _matrix(self, of: Type, columns: int, rows: int, at: int) -> Type:
        if not of.dtype.startswith("float"):
            raise self._module.source.error(at, f"expected a matrix of f32 or f16, got {of.name}")
        column = self._vector(of, rows, at)
        type_ = Type(MATRIX, f"mat{columns}x{rows}<{of.name}>", columns * column.stride, column.align, of.dtype)
        type_.lanes = type_.size // of.size
        type_.two_rows = rows == 2
        type_.element, type_.count = column, columns
        return type_

    def _array(self, arguments: list[Expression], at: int) -> Type:
        if not 1 <= len(arguments) <= 2:
            raise self._module.source.error(at, "array requires an element type and an optional length, for example array<f32, 4>")
        element = self.of(arguments[0])
        if element.runtime_sized:
            raise self._module.source.error(at, f"the array's element type {element.name} has no fixed size")
        shown = element.name if len(element.name) <= _LONGEST_NAME else "…"
        type_ = Type(ARRAY, f"array<{shown}>", 0, element.align, element.dtype)
        type_.element, type_.host_shareable, type_.natural_align = element, element.host_shareable, element.natural_align
        type_.first_misplaced, type_.two_rows, type_.nested_two_rows = (
            element.first_misplaced,
            element.two_rows,
            element.nested_two_rows,
        )
        type_.override_length, type_.unshareable_part, type_.innermost = (
            element.override_length,
            element.unshareable_part,
            element.innermost,
        )
        type_.min_binding_size = element.stride
        if len(arguments) == 1:
            type_.runtime_sized = True
            return type_
        try:
            kind, count = self._values.size(arguments[1])
        except Unknown:
            kind, count = "int", -1
        if kind not in INTEGERS or (count < 1 and count != -1):
            raise self._module.source.error(at, f"the length of the array is {shown_value(count)}; expected an integer from 1")
        type_.count, type_.name = count, f"array<{shown}, {count if count > 0 else '?'}>"
        type_.override_length = type_.override_length or count == -1
        type_.size = max(count, 0) * element.stride
        if type_.size > _MAX_BYTES:
            raise self._module.source.error(at, f"the array has {type_.size} bytes; expected at most {_MAX_BYTES}")
        type_.min_binding_size, type_.declared_size = type_.size or element.stride, type_.size
        return type_

    def _struct(self, declared: Declaration) -> Type:
        source = self._module.source
        if not declared.members:
            raise source.error(declared.at, f"the struct {declared.name!r} has no members")
        type_ = Type(STRUCT, declared.name)
        type_.host_shareable, type_.unshareable_part = True, ""
        end, align = 0, 1
        end_of_naga, align_of_naga = 0, 1
        ignored_align: tuple[Declaration, Type] | None = None
        for number, member in enumerate(declared.members):
            assert member.type is not None
            of = self.of(member.type)
            if of.runtime_sized and number < len(declared.members) - 1:
                raise source.error(member.at, f"the member {member.name!r} has no fixed size, which is allowed for the last member only")
            own_align = self.number(member, "align", of.align)
            if of.align and (own_align < 1 or own_align & (own_align - 1) or own_align % of.align):
                raise source.error(
                    member.at,
                    f"the member {member.name!r} has @align({own_align}); expected a power of two that is a multiple of {of.align}",
                )
            own_size = self.number(member, "size", of.size)
            if own_size < of.size:
                raise source.error(
                    member.at, f"the member {member.name!r} has @size({own_size}); expected at least {of.size} for {of.name}"
                )
            offset = round_up(end, own_align or 1)
            naga_align = own_align if "align" in member.attributes else of.natural_align
            if naga_align < own_align:
                ignored_align = ignored_align or (member, of)
            end_of_naga, align_of_naga = round_up(end_of_naga, naga_align or 1) + own_size, max(align_of_naga, naga_align)
            type_.natural_align = max(type_.natural_align, of.natural_align)
            if ignored_align and end_of_naga != offset + own_size:
                type_.naga_misplaced = ignored_align
            type_.members.append((member, of, offset))
            end, align = offset + own_size, max(align, own_align)
            type_.host_shareable &= of.host_shareable
            type_.runtime_sized |= of.runtime_sized
            type_.two_rows |= of.two_rows
            type_.override_length |= of.override_length
            if not of.host_shareable:
                type_.unshareable_part = type_.unshareable_part or of.unshareable_part
            if of.kind == STRUCT and of.two_rows and type_.nested_two_rows is None:
                type_.nested_two_rows = (type_, of)
            if end > _MAX_BYTES:
                raise source.error(member.at, f"the struct has {end} bytes; expected at most {_MAX_BYTES}")
        type_.size, type_.align = round_up(end, align), align
        if ignored_align and round_up(end_of_naga, align_of_naga) != type_.size:
            type_.naga_misplaced = ignored_align
        inside = [of for _, of, _ in type_.members]
        type_.nested_two_rows = type_.nested_two_rows or next((of.nested_two_rows for of in inside if of.nested_two_rows), None)
        type_.first_misplaced = type_ if type_.naga_misplaced else next((of.first_misplaced for of in inside if of.first_misplaced), None)
        _, last, offset = type_.members[-1]
        type_.min_binding_size = round_up(offset + last.min_binding_size, type_.align) if type_.runtime_sized else type_.size
        type_.declared_size = offset + last.declared_size if type_.runtime_sized else type_.size
        dtypes = {of.dtype for _, of, _ in type_.members}
        type_.dtype = dtypes.pop() if len(dtypes) == 1 else ""
        return type_

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
        try:
            kind, number = self._values.evaluate(arguments[0]) if len(arguments) == 1 else ("", -1)
        except Unknown:
            kind, number = "", -1
        if kind not in INTEGERS or not 0 <= number < 2**31:
            raise self._module.source.error(
                declared.at, f"the @{attribute} of {declared.name!r} is invalid; expected one constant integer from 0"
            )
        return int(number)


def _is_shape(shape: str, kind: str) -> bool:
    if kind == "vec":
        return shape in ("2", "3", "4")
    return len(shape) == 3 and shape[0] in "234" and shape[1] == "x" and shape[2] in "234"
