"""WGSL's types and how they lie in memory ("Memory Layout" of the specification)."""

from __future__ import annotations

from devmod_targets.webgpu._values import Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod.errors import CompileError
    from devmod_targets.webgpu._parse import Declaration, Expression, Module
    from devmod_targets.webgpu._values import Values

_SCALARS = {"i32": ("int32", 4), "u32": ("uint32", 4), "f32": ("float32", 4), "f16": ("float16", 2)}
_SUFFIXES = {"i": "i32", "u": "u32", "f": "f32", "h": "f16"}
_SIXTY_FOUR = ("i64", "u64", "f64")
#: The names that need ``enable f16``.
HALVES = frozenset(("f16", *(f"vec{n}h" for n in "234"), *(f"mat{c}x{r}h" for c in "234" for r in "234")))
_ACCESS = {"read": "r", "write": "w", "read_write": "rw"}
_MOST_BYTES = 1 << 62

SCALAR, VECTOR, MATRIX, ATOMIC, ARRAY, STRUCT, IMAGE, SAMPLER, OTHER = (
    "scalar",
    "vector",
    "matrix",
    "atomic",
    "array",
    "struct",
    "image",
    "sampler",
    "other",
)


class Type:
    """A type.

    Attributes
    ----------
    kind : str
        One of the kinds above.
    name : str
        As messages show it.
    size, align : int
        In bytes; 0 where it has none. Of an array without a length, the size is 0.
    dtype : str
        The type of its numbers, where they all have one: "float32".
    lanes : int
        How many of these it takes, the gaps of three-vectors in a matrix with them.
    element : Type
        That of an array.
    count : int or None
        The length of an array; None where the buffer's size gives it. -1: it hangs on an override.
    members : list
        Of a struct: (declaration, type, offset).
    shareable : bool
        Whether it may lie in memory that the host sees.
    unsized : bool
        Whether it is, or ends with, an array without a length.
    access : str
        Of an image: "r", "w" or "rw".
    natural : int
        The alignment that it would have without any @align: that of naga (wgpu, Firefox), where what stands in a struct asks for no more.
    misplaced : tuple or None
        Of a struct that naga lays out otherwise: the member because of which, and its type.
    """

    __slots__ = (
        "access",
        "align",
        "count",
        "dtype",
        "element",
        "kind",
        "lanes",
        "members",
        "misplaced",
        "name",
        "natural",
        "shareable",
        "size",
        "unsized",
    )

    def __init__(self, kind: str, name: str, size: int = 0, align: int = 0, dtype: str = "", lanes: int = 1) -> None:
        self.kind, self.name, self.size, self.align, self.dtype, self.lanes = kind, name, size, align, dtype, lanes
        self.element: Type | None = None
        self.count: int | None = None
        self.members: list[tuple[Declaration, Type, int]] = []
        self.shareable = size > 0
        self.unsized = False
        self.access = ""
        self.natural = align
        self.misplaced: tuple[Declaration, Type] | None = None

    @property
    def stride(self) -> int:
        """From one element of an array of this to the next."""
        return _up(self.size, self.align)


class Types:
    """The types of a module."""

    def __init__(self, module: Module, values: Values) -> None:
        self._module = module
        self._values = values
        self._named: dict[str, Type] = {}
        self._busy: set[str] = set()

    def of(self, expression: Expression) -> Type:
        """The type that an expression names.

        Raises
        ------
        CompileError
            It names none, or one that WGSL does not have.
        """
        if expression[0] != "name":
            raise self._module.source.wrong(expression[-1], "a type is due")
        _, name, arguments, at = expression
        declared = self._module.declared.get(name)
        if declared is None:
            return self._predeclared(name, arguments, at)
        if declared.kind not in ("alias", "struct"):
            raise self._module.source.wrong(at, f"a type is due, and {name!r} is a {declared.kind}")
        if arguments is not None:
            raise self._module.source.wrong(at, f"the {declared.kind} {name!r} takes no template list")
        if name not in self._named:
            if name in self._busy:
                raise self._module.source.wrong(declared.at, f"the {declared.kind} {name!r} holds itself")
            self._busy.add(name)
            if declared.kind == "alias":
                assert declared.type is not None
                made = self.of(declared.type)
            else:
                made = self._struct(declared)
            self._busy.discard(name)
            self._named[name] = made
        return self._named[name]

    def _predeclared(self, name: str, arguments: list[Expression] | None, at: int) -> Type:
        given = arguments or []
        if name in _SCALARS and arguments is None:
            dtype, size = _SCALARS[name]
            return Type(SCALAR, name, size, size, dtype)
        if name == "bool" and arguments is None:
            return Type(OTHER, name)
        if name in _SIXTY_FOUR:
            raise self._module.source.wrong(at, f"WGSL has no 64-bit types, and this is {name}; take two u32, or the kind vulkan or cuda")
        if name == "array":
            return self._array(given, at)
        if name == "atomic":
            of = self._one(name, given, at)
            if of.kind != SCALAR or of.dtype not in ("int32", "uint32"):
                raise self._module.source.wrong(at, f"an atomic is one of i32 or u32, not of {of.name}")
            return Type(ATOMIC, f"atomic<{of.name}>", of.size, of.align, of.dtype)
        shape = name[3:4] if name.startswith("vec") else name[3:6] if name.startswith("mat") else ""
        if shape and _is_shape(shape, name[:3]) and name[3 + len(shape) :] in ("", *_SUFFIXES):
            suffix = name[3 + len(shape) :]
            if suffix and (arguments is not None or (suffix in "iu" and name.startswith("mat"))):
                raise self._unknown(name, at)
            of = self._predeclared(_SUFFIXES[suffix], None, at) if suffix else self._one(name, given, at)
            return self._vector(of, int(shape), at) if name.startswith("vec") else self._matrix(of, int(shape[0]), int(shape[2]), at)
        if name == "ptr":
            return Type(OTHER, name)
        if name in ("sampler", "sampler_comparison"):
            return Type(SAMPLER, name)
        if name.startswith("texture_"):
            made = Type(IMAGE, name)
            words = [each[1] for each in given if each[0] == "name"]
            made.access = next((_ACCESS[word] for word in words if word in _ACCESS), "r")
            return made
        raise self._unknown(name, at)

    def _unknown(self, name: str, at: int) -> CompileError:
        return self._module.source.wrong(at, f"{name!r} is no type: it is declared nowhere, and WGSL has none of that name")

    def _one(self, name: str, given: list[Expression], at: int) -> Type:
        if len(given) != 1:
            raise self._module.source.wrong(at, f"{name} takes one type, as in {name}<{'u32' if name == 'atomic' else 'f32'}>")
        return self.of(given[0])

    def _vector(self, of: Type, lanes: int, at: int) -> Type:
        name = f"vec{lanes}<{of.name}>"
        if of.name == "bool":
            return Type(OTHER, name)
        if of.kind != SCALAR:
            raise self._module.source.wrong(at, f"a vector is of i32, u32, f32, f16 or bool, not of {of.name}")
        return Type(VECTOR, name, of.size * lanes, of.size * (2 if lanes == 2 else 4), of.dtype, lanes)

    def _matrix(self, of: Type, columns: int, rows: int, at: int) -> Type:
        if not of.dtype.startswith("float"):
            raise self._module.source.wrong(at, f"a matrix is of f32 or f16, not of {of.name}")
        column = self._vector(of, rows, at)
        made = Type(MATRIX, f"mat{columns}x{rows}<{of.name}>", columns * column.stride, column.align, of.dtype)
        made.lanes = made.size // of.size
        return made

    def _array(self, given: list[Expression], at: int) -> Type:
        if not 1 <= len(given) <= 2:
            raise self._module.source.wrong(at, "array takes the type of its elements, and a length: array<f32, 4>")
        element = self.of(given[0])
        if element.unsized:
            raise self._module.source.wrong(at, f"an array's elements have a size, and {element.name} has none of its own")
        made = Type(ARRAY, f"array<{element.name}>", 0, element.align, element.dtype)
        made.element, made.shareable, made.natural = element, element.shareable, element.natural
        if len(given) == 1:
            made.unsized = True
            return made
        try:
            kind, count = self._values.evaluate(given[1])
        except Unknown:
            kind, count = "int", -1
        if kind not in ("int", "i32", "u32") or (count < 1 and count != -1):
            raise self._module.source.wrong(at, f"the length of an array is a whole number from 1 up, not {count!r}")
        made.count, made.name = count, f"array<{element.name}, {count if count > 0 else '?'}>"
        made.size = max(count, 0) * element.stride
        if made.size > _MOST_BYTES:
            raise self._module.source.wrong(at, f"an array of {made.size} bytes is no array of a shader")
        return made

    def _struct(self, declared: Declaration) -> Type:
        source = self._module.source
        if not declared.members:
            raise source.wrong(declared.at, f"the struct {declared.name!r} has no members")
        made = Type(STRUCT, declared.name)
        made.shareable = True
        end, align = 0, 1
        end_of_naga, align_of_naga = 0, 1
        unheeded: tuple[Declaration, Type] | None = None
        for number, member in enumerate(declared.members):
            assert member.type is not None
            of = self.of(member.type)
            if of.unsized and number < len(declared.members) - 1:
                raise source.wrong(member.at, f"the member {member.name!r} has no size of its own, which only the last member may lack")
            own_align = self.number(member, "align", of.align)
            if of.align and (own_align < 1 or own_align & (own_align - 1) or own_align % of.align):
                raise source.wrong(member.at, f"@align({own_align}) of {member.name!r} is no power of two that is a multiple of {of.align}")
            own_size = self.number(member, "size", of.size)
            if own_size < of.size:
                raise source.wrong(member.at, f"@size({own_size}) of {member.name!r} is less than the {of.size} bytes of {of.name}")
            offset = _up(end, own_align or 1)
            heeded = own_align if "align" in member.attributes else of.natural
            if heeded < own_align:
                unheeded = unheeded or (member, of)
            end_of_naga, align_of_naga = _up(end_of_naga, heeded or 1) + own_size, max(align_of_naga, heeded)
            made.natural = max(made.natural, of.natural)
            if unheeded and end_of_naga != offset + own_size:
                made.misplaced = unheeded
            made.members.append((member, of, offset))
            end, align = offset + own_size, max(align, own_align)
            made.shareable &= of.shareable
            made.unsized |= of.unsized
            if end > _MOST_BYTES:
                raise source.wrong(member.at, f"a struct of {end} bytes is no struct of a shader")
        made.size, made.align = _up(end, align), align
        if unheeded and _up(end_of_naga, align_of_naga) != made.size:
            made.misplaced = unheeded
        dtypes = {of.dtype for _, of, _ in made.members}
        made.dtype = dtypes.pop() if len(dtypes) == 1 else ""
        return made

    def number(self, declared: Declaration, attribute: str, default: int) -> int:
        """The number that an attribute gives, such as a binding.

        Raises
        ------
        CompileError
            It is no whole number from 0 up.
        """
        given = declared.attributes.get(attribute)
        if given is None:
            return default
        try:
            kind, number = self._values.evaluate(given[0]) if len(given) == 1 else ("", -1)
        except Unknown:
            kind, number = "", -1
        if kind not in ("int", "i32", "u32") or not 0 <= number < 2**31:
            raise self._module.source.wrong(
                declared.at, f"@{attribute} of {declared.name!r} takes one whole number from 0 up that is a constant"
            )
        return int(number)


def _is_shape(shape: str, kind: str) -> bool:
    if kind == "vec":
        return shape in ("2", "3", "4")
    return len(shape) == 3 and shape[0] in "234" and shape[1] == "x" and shape[2] in "234"


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple if multiple else number
