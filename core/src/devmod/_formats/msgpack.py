"""A strict reader of msgpack, for bytes that strangers wrote.

It takes every valid form of msgpack, the longer ones too, and refuses what our formats never hold: extension types, keys
that are not strings, keys that stand twice, strings that are not UTF-8. Nothing is allocated on the word of a length:
each is held against the bytes that are left first. A binary is a slice of the buffer, never a copy.
(The msgpack library writes; its reader takes duplicate keys, copies binaries, and says no offsets.)
"""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    Value = TypeVar("Value")
    #: Bytes that were read, how many values they hold, and what was made of them; the newest first.
    Known = list[tuple[memoryview, int, Value]]

#: How deep arrays and maps may lie in each other where a value of any sort may stand.
MAX_DEPTH = 32
#: How many values a reader reads, where it is not told. A value is an object of up to some hundred bytes in memory for one in the file.
MAX_VALUES = 1 << 20
#: How many objects are remembered to be read again: looking through them must cost less than reading.
MAX_KNOWN = 4

_STR = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BIN = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_ARRAY = {0xDC: 2, 0xDD: 4}
_MAP = {0xDE: 2, 0xDF: 4}
_INT = {0xCC: (1, False), 0xCD: (2, False), 0xCE: (4, False), 0xCF: (8, False)} | {
    0xD0: (1, True),
    0xD1: (2, True),
    0xD2: (4, True),
    0xD3: (8, True),
}
#: Integers that are not negative and not of 8 bytes: how many bytes follow the first.
_UINT = dict.fromkeys(range(0x80), 0) | {0xCC: 1, 0xCD: 2, 0xCE: 4}


class Last:
    """What `Reader.read_fields` found in the maps that it read: all the bytes, and for each place in a map the bytes of a pair and of its
    key, how many values they hold, the key, and what was made of the value.
    """

    __slots__ = ("data", "pairs")

    def __init__(self, data: memoryview) -> None:
        self.data = bytes(data)
        self.pairs: list[tuple[bytes, bytes, int, str, Any]] = []


class Reader:
    """Reads one msgpack object after the other.

    Parameters
    ----------
    data
        The bytes.
    what
        What they are, for messages: "the bytes of the opencl module".
    kind
        The kind that a FormatError carries.
    most
        How many values are read.

    Notes
    -----
    ``field`` is what is being read, ``within`` what it is a part of, and ``at`` the offset of the next byte; messages name them.
    """

    __slots__ = ("_end", "_left", "_most", "at", "data", "field", "kind", "what", "within")

    def __init__(self, data: memoryview, what: str, kind: str = "", *, most: int = MAX_VALUES) -> None:
        self.data = data
        self.what = what
        self.kind = kind
        self.within = ""
        self.field = ""
        self.at = 0
        self._end = len(data)
        self._left = self._most = most

    def error(self, problem: str, at: int | None = None) -> FormatError:
        """The error that names the field and the offset."""
        where = ", ".join(filter(None, (self.within, self.field)))
        return FormatError(f"{self.what}: {where}{': ' if where else ''}{problem}, at byte {self.at if at is None else at}", kind=self.kind)

    def finish(self) -> None:
        """FormatError where bytes follow the last object."""
        self.field = ""
        trailing = len(self.data) - self.at
        if trailing:
            raise self.error(f"{trailing} more {'byte follows' if trailing == 1 else 'bytes follow'} the last field")

    # -- one object of a sort that is known

    def read_str(self) -> str:
        """A string."""
        at = self.at
        mark = self.data[at] if at < self._end and self._left > 0 else 0
        end = at + mark - 0x9F
        if 0xA0 <= mark <= 0xBF and end <= self._end:
            # Nearly every string of ours is this short, and an index of 1,000 modules is 10,000 of them.
            try:
                text = str(self.data[at + 1 : end], "utf-8")
            except UnicodeDecodeError:
                pass  # said below
            else:
                self._left -= 1
                self.at = end
                return text
        mark = self._mark()
        if 0xA0 <= mark <= 0xBF:
            return self._text(mark & 0x1F)
        if mark in _STR:
            return self._text(self._number(_STR[mark]))
        raise self._mistyped("a string", mark)

    def read_bin(self) -> memoryview:
        """A binary: a slice of the buffer."""
        at = self.at
        if at + 2 <= self._end and self.data[at] == 0xC4 and self._left > 0:  # a short one, as digests are
            end = at + 2 + self.data[at + 1]
            if end <= self._end:
                self._left -= 1
                self.at = end
                return self.data[at + 2 : end]
        mark = self._mark()
        if mark not in _BIN:
            raise self._mistyped("a binary", mark)
        return self._slice(self._number(_BIN[mark]))

    def read_array(self) -> int:
        """The number of items of an array, which follow."""
        mark = self._mark()
        if 0x90 <= mark <= 0x9F:
            return self._items(mark & 0x0F, 1)
        if mark in _ARRAY:
            return self._items(self._number(_ARRAY[mark]), 1)
        raise self._mistyped("an array", mark)

    def read_map(self) -> int:
        """The number of pairs of a map, which follow: each a `read_str` and a value."""
        mark = self._mark()
        if 0x80 <= mark <= 0x8F:
            return self._items(mark & 0x0F, 2)
        if mark in _MAP:
            return self._items(self._number(_MAP[mark]), 2)
        raise self._mistyped("a map", mark)

    def read_int(self, low: int, high: int) -> int:
        """An integer between two bounds, both included."""
        start = at = self.at
        mark = self.data[at] if at < self._end and self._left > 0 else 0xC1
        size = _UINT.get(mark, 8)
        if size < 8 and at + size < self._end:
            # Nearly every integer of ours, and an index of 1,000 modules is 3,000 of them.
            value = int.from_bytes(self.data[at + 1 : at + 1 + size], "big") if size else mark
            if low <= value <= high:
                self._left -= 1
                self.at = at + 1 + size
                return value
        mark = self._mark()
        if mark <= 0x7F:
            value = mark
        elif mark >= 0xE0:
            value = mark - 0x100
        elif mark in _INT:
            size, signed = _INT[mark]
            value = self._number(size, signed=signed)
        else:
            raise self._mistyped("an integer", mark)
        if not low <= value <= high:
            raise self.error(f"{value} is not between {low} and {high}", start)
        return value

    def read_key(self, taken: Any) -> str:
        """A key of a map, which `taken`, the map so far, must not have yet."""
        start = self.at
        name = self.read_str()
        if name in taken:
            raise self.error(f"the key {shown(name)} stands twice", start)
        return name

    # -- one object of any sort

    def read_value(self, depth: int = 0) -> Any:
        """Any object but an extension type; binaries are copied to bytes."""
        if depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} arrays and maps lie in each other")
        if self.at >= self._end:
            self._mark()
        mark = self.data[self.at]
        sort = _SORTS[mark]
        if sort == "a string":
            return self.read_str()
        if sort == "an integer":
            return self.read_int(-(2**63), 2**64 - 1)
        if sort == "an array":
            return [self.read_value(depth + 1) for _ in range(self.read_array())]
        if sort == "a map":
            return self.read_map_object(depth)
        if sort == "a binary":
            return bytes(self.read_bin())
        if sort == "a float":
            return self._float()
        if sort in ("nil", "a boolean"):
            return {0xC0: None, 0xC2: False, 0xC3: True}[self._mark()]
        raise self.error(f"found {sort}, which has no place here")

    def read_map_object(self, depth: int = 0) -> dict[str, Any]:
        """A map with its values, as `read_value` reads them."""
        made: dict[str, Any] = {}
        for _ in range(self.read_map()):
            name = self.read_key(made)
            made[name] = self.read_value(depth + 1)
        return made

    @property
    def at_array(self) -> bool:
        """Whether the next object is an array."""
        return self.at < self._end and _SORTS[self.data[self.at]] == "an array"

    # -- what stands in several places

    def shared(self, known: Known[Value], read: Callable[[], Value]) -> Value:
        """What `read` makes of the next object, or what it made before of the very same bytes.

        An object of msgpack says itself where it ends, so equal bytes are equal objects, whatever follows them. Functions
        share their types, tags and parameters: of 1,000 shaders, few are new.
        """
        at = self.at
        for part, values, value in known:
            if self.data[at : at + len(part)] == part and values <= self._left:
                self.at = at + len(part)
                self._left -= values
                return value
        left = self._left
        value = read()
        known.insert(0, (self.data[at : self.at], left - self._left, value))
        del known[MAX_KNOWN:]
        return value

    def read_fields(self, readers: Mapping[str, Callable[[Reader], Any]], last: Last) -> dict[str, Any]:
        """A map whose keys and sorts of values are known, one of many that look alike; values of other keys are skipped.

        What was made of a pair serves again where the next map has the very same bytes in that place, as the modules of a file
        mostly do, so values must be immutable.
        """
        fields: dict[str, Any] = {}
        data, pairs = last.data, last.pairs
        for place in range(self.read_map()):
            if place < len(pairs):
                pair, head, count, key, value = pairs[place]
                if key not in fields and self._left >= count:
                    if data.startswith(pair, self.at):
                        self.at += len(pair)
                        self._left -= count
                        fields[key] = value
                        continue
                    if data.startswith(head, self.at):  # the value alone is another
                        self.at += len(head)
                        self._left -= 1
                        self.field = key
                        fields[key] = readers.get(key, Reader.read_value)(self)
                        continue
            start, left = self.at, self._left
            self.field = ""
            self.field = key = self.read_key(fields)
            behind = self.at
            fields[key] = value = readers.get(key, Reader.read_value)(self)
            if place <= len(pairs):
                pairs[place : place + 1] = [(data[start : self.at], data[start:behind], left - self._left, key, value)]
        self.field = ""
        return fields

    # -- bytes

    def _mark(self) -> int:
        """The first byte of the next object."""
        self._left -= 1
        if self._left < 0:
            raise self.error(f"more than {self._most} values")
        at = self.at
        if at >= self._end:
            raise self.error("the bytes end where an object should begin")
        self.at = at + 1
        mark: int = self.data[at]
        return mark

    def _slice(self, size: int) -> memoryview:
        left = self._end - self.at
        if size > left:
            raise self.error(f"a length of {size} bytes, and {left} are left")
        part = self.data[self.at : self.at + size]
        self.at += size
        return part

    def _number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._slice(size), "big", signed=signed)

    def _text(self, size: int) -> str:
        start = self.at
        try:
            return str(self._slice(size), "utf-8")
        except UnicodeDecodeError as error:
            raise self.error("a string is not UTF-8", start + error.start) from None

    def _float(self) -> float:
        import struct

        form = ">f" if self._mark() == 0xCA else ">d"
        value: float = struct.unpack(form, self._slice(struct.calcsize(form)))[0]
        return value

    def _items(self, count: int, size: int) -> int:
        """`count`, held against the bytes that are left: an item takes at least one."""
        left = self._end - self.at
        if count * size > left:
            raise self.error(f"a count of {count}, and {left} bytes are left")
        return count

    def _mistyped(self, wanted: str, mark: int) -> FormatError:
        return self.error(f"expected {wanted}, found {_SORTS[mark]}", self.at - 1)


def shown(name: str) -> str:
    """A name from a file for a message, cut where it is long."""
    return repr(name) if len(name) <= 120 else f"{name[:100]!r}… ({len(name)} characters)"


def _sort(mark: int) -> str:
    """What sort of object begins with this byte."""
    if mark <= 0x7F or mark >= 0xE0 or mark in _INT:
        return "an integer"
    if 0xA0 <= mark <= 0xBF or mark in _STR:
        return "a string"
    if mark in _BIN:
        return "a binary"
    if 0x90 <= mark <= 0x9F or mark in _ARRAY:
        return "an array"
    if 0x80 <= mark <= 0x8F or mark in _MAP:
        return "a map"
    if mark in (0xCA, 0xCB):
        return "a float"
    if mark in (0xC2, 0xC3):
        return "a boolean"
    return {0xC0: "nil", 0xC1: "the byte 0xC1, which msgpack does not use"}.get(mark, "an extension type")


_SORTS = tuple(map(_sort, range(256)))
