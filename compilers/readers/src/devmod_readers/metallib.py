"""The reader of Metal's libraries. It needs no Mac.

`read_metallib` returns the kernels of a library with their arguments.

The format is not documented. A list has a group of tags for each function, with its name and type.
Newer compilers, such as those of Metal 3.1, also write what Metal's reflection returns: a
FlatBuffer for each function, with a node for each argument. The file comes from a stranger, so each
number is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from devmod import Param
from devmod.backend import PipelineConstant
from devmod.errors import FormatError, count_text
from devmod_readers.c_numbers import C_NUMBERS, bytes_type, number_type
from devmod_readers.reflection import ReflectedFunction, argument_types

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["read_metallib"]

#: The places of the offsets of the list of functions, and of what follows it.
_FUNCTIONS = 24
_METADATA = 40
_KERNEL = b"\2"
#: The limits on the kernels and nodes together, and on the bytes of a name: all tables may be at
#: one place.
_MAX_WORK = 1 << 20
_MAX_NAME = 1 << 10
#: The nodes of a function. Those between `_BUFFER` and `_FILLED` are textures, samplers and others;
#: Metal itself fills in the later ones.
_MOST_THREADS = 0x1003
_BUFFER = 0x40000
_FILLED = 0x41000
_CONSTANT = 0x80000
#: Address spaces.
_CONSTANT_SPACE = 2
_THREADGROUP = 3
_ACCESS = {1: "r", 2: "w", 3: "rw"}
_SCALARS = {"bool": "bool", **C_NUMBERS, "half": "float16", "bfloat": "bfloat16"}


class _Table(NamedTuple):
    """A table of a FlatBuffer: fields by their numbers."""

    data: bytes
    at: int

    def field(self, number: int) -> int:
        """Return the place of a field; 0 if the table does not have it."""
        start = self.at - _number(self.data, self.at, 4, signed=True)
        place = 4 + 2 * number
        if place >= _number(self.data, start, 2):
            return 0
        offset = _number(self.data, start + place, 2)
        if not offset:
            return 0
        return self.at + offset

    def number(self, number: int, size: int = 4, default: int = 0) -> int:
        """Return a field that is a number."""
        place = self.field(number)
        if not place:
            return default
        return _number(self.data, place, size)

    def target(self, number: int) -> int:
        """Return the place that a field refers to; 0 if the table does not have it."""
        place = self.field(number)
        if not place:
            return 0
        return place + _number(self.data, place, 4)

    def text(self, number: int) -> str:
        """Return a field that is a text."""
        place = self.target(number)
        if not place:
            return ""
        size = min(_number(self.data, place, 4), _MAX_NAME)
        return _slice(self.data, place + 4, size).decode("utf-8", "replace")

    def tables(self, number: int) -> Iterator[_Table]:
        """Return the tables of a field that is a vector."""
        place = self.target(number)
        if not place:
            return
        count = _number(self.data, place, 4)
        for each in range(place + 4, place + 4 + 4 * count, 4):
            yield _Table(self.data, each + _number(self.data, each, 4))


def read_metallib(data: bytes) -> dict[str, ReflectedFunction]:
    """Return the kernels of a library by name. The type "" of one argument says that the library
    does not describe the arguments.

    Raises
    ------
    FormatError
        The library is damaged.
    """
    if data[:4] != b"MTLB":
        raise FormatError(
            f"it is no metallib: expected b'MTLB' at its start, got {data[:4]!r}", kind="metal"
        )
    groups, first = _groups(data)
    functions: dict[str, ReflectedFunction] = {}
    left = _MAX_WORK
    for tags in groups:
        if tags.get(b"TYPE", b"")[:1] != _KERNEL:
            continue
        name = tags.get(b"NAME", b"").rstrip(b"\0").decode("utf-8", "replace")
        functions[name] = ReflectedFunction(name, [""], [Param("", "scalar")])
        place = 0
        if first and b"RFLT" in tags:
            place = first + _number(tags[b"RFLT"], 0, 8) + 4
        size, start = _reflection(data, place)
        left -= 1 + size // 256
        if start > place:
            root = _Table(data, start + _number(data, start, 4))
            nodes = []
            # One more than what is left is enough to know that they are too many.
            for node, _ in zip(root.tables(1), range(left + 1), strict=False):
                nodes.append((node.number(0), _Table(data, node.target(1))))
            left -= len(nodes)
            functions[name] = _function(name, nodes)
        if left < 0:
            raise FormatError(
                f"the metallib describes more than {_MAX_WORK} arguments", kind="metal"
            )
    return functions


def _groups(data: bytes) -> tuple[list[dict[bytes, bytes]], int]:
    """Return the tags of each function, and the place of what Metal's reflection returns; 0
    without it.
    """
    groups = []
    at = _number(data, _FUNCTIONS, 8)
    count = _number(data, at, 4)
    at += 4
    for _ in range(count):
        tags, end = _tags(data, at + 4)
        groups.append(tags)
        at += _number(data, at, 4)
        if at < end:
            raise FormatError(
                f"the metallib is damaged: a function ends at byte {at}, and its tags at {end}",
                kind="metal",
            )
    if at >= _number(data, _METADATA, 8):
        # An older library has no other lists.
        return groups, 0
    lists, _ = _tags(data, at)
    if b"RLST" not in lists:
        return groups, 0
    return groups, _number(lists[b"RLST"], 0, 8)


def _reflection(data: bytes, place: int) -> tuple[int, int]:
    """Return the size and the start of the FlatBuffer at a place; the start is -1 without one."""
    if not place or _slice(data, place, 4) != b"RBUF":
        return 0, -1
    size = _number(data, place + 4, 4)
    if not size:
        return 0, -1
    return size, data.find(b"AIRR", place, place + 64) - 4


def _function(name: str, nodes: list[tuple[int, _Table]]) -> ReflectedFunction:
    buffers = []
    extra: dict[str, Any] = {}
    for kind, node in nodes:
        if kind == _MOST_THREADS:
            extra["max_total_threads_per_threadgroup"] = node.number(0)
        elif kind == _CONSTANT:
            type_ = _SCALARS.get(node.text(0), "bfloat16")
            if type_ != "bfloat16":
                constant = PipelineConstant(node.text(1), type_, node.number(2))
                extra.setdefault("constants", []).append(constant.to_dict())
        elif kind == _BUFFER and node.number(3, default=1) == 1:
            buffers.append(node)
        elif _BUFFER <= kind < _FILLED:
            return ReflectedFunction(name, [""], [Param("", "scalar")])
    buffers.sort(key=lambda node: (node.number(5, 1, 1) == _THREADGROUP, node.number(2)))
    params = [_param(node) for node in buffers]
    return ReflectedFunction(name, argument_types(params), params, extra=extra)


def _param(node: _Table) -> Param:
    written = node.text(10)
    name = node.text(11)
    index = node.number(2)
    size = node.number(8)
    is_object = node.target(1) > 0
    element = number_type(written, _SCALARS)
    align = 0
    if not element:
        element = bytes_type(size)
        align = node.number(9)
    space = node.number(5, 1, 1)
    if space == _THREADGROUP:
        return Param(name, "local", element, at=index, align=align)
    if space == _CONSTANT_SPACE and is_object:
        return Param(name, "scalar", element, at=index, align=align)
    access = _ACCESS.get(node.number(4, 1), "rw")
    if not is_object:
        size = 0
    return Param(name, "buffer", element, access, at=index, align=align, size=size)


def _tags(data: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """Return the tags of a group, and their end."""
    tags: dict[bytes, bytes] = {}
    while (tag := _slice(data, at, 4)) != b"ENDT":
        size = _number(data, at + 4, 2)
        tags[tag] = _slice(data, at + 6, size)
        at += 6 + size
    return tags, at + 4


def _number(data: bytes, at: int, size: int, *, signed: bool = False) -> int:
    return int.from_bytes(_slice(data, at, size), "little", signed=signed)


def _slice(data: bytes, at: int, size: int) -> bytes:
    if not 0 <= at <= len(data) - size:
        raise FormatError(
            f"the metallib is damaged: expected {count_text(size, 'byte')} at {at}, it has {len(data)}",
            kind="metal",
        )
    return data[at : at + size]
