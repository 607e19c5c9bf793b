"""One WGSL type with its memory layout."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_readers.wgsl._parse import Declaration

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
        The length of an array, or the columns of a matrix; None for a runtime-sized array, -1 if it depends on an override.
    members : list
        The members of a struct: (declaration, type, offset).
    host_shareable : bool
        Whether it is host-host_shareable, as WGSL defines it.
    runtime_sized : bool
        Whether it is a runtime-sized array, or ends with one.
    access : str
        The access of an image: "r", "w" or "rw".
    natural_align : int
        Its alignment without any @align. naga (wgpu, Firefox) uses it for members of a struct.
    naga_misplaced : tuple or None
        For a struct that naga lays out incorrectly: the member that causes it, and its type.
    first_misplaced : Type or None
        The first struct with such a member: this type or a part of it.
    two_rows : bool
        Whether it is or contains a matrix of two rows.
    nested_two_rows : tuple or None
        The first struct in it with a member struct that contains such a matrix, and the type of that member.
    override_length : bool
        Whether the length of an array in it depends on an override.
    unshareable_part : str
        The name of the part that is not host-host_shareable; "" if there is none.
    innermost : Type
        The type of the innermost elements of nested arrays; else the type itself.
    declared_size : int
        Its size in bytes, without a runtime-sized array.
    min_binding_size : int
        The minimum size of a buffer for it, as WebGPU defines it.

    Attributes that depend on a type's parts are computed once, when the type is made. Structs refer to structs, so a walk over all
    paths takes time that is exponential in the text.
    """

    __slots__ = (
        "access",
        "align",
        "count",
        "declared_size",
        "dtype",
        "element",
        "first_misplaced",
        "host_shareable",
        "innermost",
        "kind",
        "lanes",
        "members",
        "min_binding_size",
        "naga_misplaced",
        "name",
        "natural_align",
        "nested_two_rows",
        "override_length",
        "runtime_sized",
        "size",
        "two_rows",
        "unshareable_part",
    )

    def __init__(self, kind: str, name: str, size: int = 0, align: int = 0, dtype: str = "", lanes: int = 1) -> None:
        self.kind, self.name, self.size, self.align, self.dtype, self.lanes = kind, name, size, align, dtype, lanes
        self.element: Type | None = None
        self.count: int | None = None
        self.members: list[tuple[Declaration, Type, int]] = []
        self.host_shareable = size > 0
        self.runtime_sized = False
        self.access = ""
        self.natural_align = align
        self.naga_misplaced: tuple[Declaration, Type] | None = None
        self.first_misplaced: Type | None = None
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


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple if multiple else number
