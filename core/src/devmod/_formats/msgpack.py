"""A strict reader of msgpack for untrusted bytes.

It accepts every valid form of msgpack, the longer ones too. It refuses what the formats of devmod
do not contain: extension types, keys that are not strings, duplicate keys, strings that are not
UTF-8. It compares each length with the number of bytes left before it allocates anything. A binary
is a slice of the buffer, not a copy. The msgpack library writes; its reader accepts duplicate keys,
copies binaries and reports no offsets.
"""

from __future__ import annotations

from devmod.errors import FormatError, count_text, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from devmod._values.code import Fields

#: The maximum depth of arrays and maps in a value of any type.
MAX_DEPTH = 32
#: The limit on arrays and maps in values of any type: a fixed number, and one more for so many
#: bytes of the data. An empty map takes one byte in the file and 64 in memory.
FREE_CONTAINERS = 1024
BYTES_A_CONTAINER = 8
#: The limit on those of one ``tune``, which is apart: one for so many bytes of it. A variant with
#: one value takes ten bytes and two of them.
BYTES_A_CONTAINER_APART = 4

_STR = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BIN = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_ARRAY = {0xDC: 2, 0xDD: 4}
_MAP = {0xDE: 2, 0xDF: 4}
#: The bytes of an integer, and whether it has a sign.
_INT = {0xCC + number: (1 << number % 4, number > 3) for number in range(8)}
#: Integers that are not negative and not of 8 bytes: how many bytes follow the first.
_UINT = dict.fromkeys(range(0x80), 0) | {0xCC: 1, 0xCD: 2, 0xCE: 4}

#: The type of the object; None for an extension type and for 0xC1.
_TYPES: tuple[type | None, ...] = (
    *((int,) * 0x80 + (dict,) * 0x10 + (list,) * 0x10 + (str,) * 0x20),
    *(type(None), None, bool, bool, bytes, bytes, bytes, None, None, None, float, float),
    *((int,) * 8 + (None,) * 5 + (str,) * 3 + (list, list, dict, dict) + (int,) * 0x20),
)
#: The names of the types in messages.
_NAMES = {
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    str: "a string",
    bytes: "a binary",
    list: "an array",
    dict: "a map",
    type(None): "nil",
    None: "an extension type",
}

#: The size of an object without parts, with its first byte, if that byte alone gives the size; else
#: 0.
_LEAF_SIZES = (
    *(1,) * 0x80,
    *(0,) * 0x20,
    *range(1, 0x21),
    *(1, 0, 1, 1),
    *(0,) * 6,
    *(5, 9),
    *(2, 3, 5, 9, 2, 3, 5, 9),
    *(0,) * 12,
    *(1,) * 0x20,
)
#: How many objects a short array or a short map holds; -1 for another object.
_SMALL_COUNTS = (*(-1,) * 0x80, *range(0, 0x20, 2), *range(0x10), *(-1,) * 0x60)


class Reader:
    """Read one msgpack object after the other.

    Parameters
    ----------
    data
        The bytes: a memoryview, or for many small objects bytes, which are sliced faster.
    subject
        The name of the data in messages: "the bytes of the opencl module".
    kind
        The kind of a FormatError.
    size
        The size to which the limit on arrays and maps is proportional; None: that of the data.
    most
        The limit on arrays and maps in values of any type; None: that of the size.

    Notes
    -----
    ``field`` is the field that is read, ``within`` the part that contains it, and ``at`` the offset
    of the next byte. Messages name them. ``base`` is added to the offsets in messages.
    """

    __slots__ = (
        "_end",
        "_most",
        "_room",
        "at",
        "base",
        "data",
        "field",
        "kind",
        "size",
        "subject",
        "within",
    )

    def __init__(
        self,
        data: memoryview | bytes,
        subject: str,
        kind: str = "",
        *,
        size: int | None = None,
        most: int | None = None,
    ) -> None:
        self.data: Any = data
        self.subject = subject
        self.kind = kind
        self.within = ""
        self.field = ""
        self.at = 0
        self.base = 0
        self._end = len(data)
        if size is None:
            size = self._end
        self.size = size
        if most is None:
            most = FREE_CONTAINERS + size // BYTES_A_CONTAINER
        self._most = self._room = most

    def error(self, problem: str, at: int | None = None) -> FormatError:
        """Return the error that names the field and the offset."""
        if at is None:
            at = self.at
        where = ", ".join(filter(None, (self.within, self.field)))
        if where:
            problem = f"{where}: {problem}"
        return FormatError(f"{self.subject}: {problem}, at byte {self.base + at}", kind=self.kind)

    def finish(self) -> None:
        """Raise FormatError if bytes follow the last object."""
        self.field = ""
        trailing = len(self.data) - self.at
        if trailing == 1:
            raise self.error("1 more byte follows the last field")
        if trailing:
            raise self.error(f"{trailing} more bytes follow the last field")

    # -- one object of a known type

    def read_str(self) -> str:
        """Read a string."""
        at = self.at
        mark = 0
        if at < self._end:
            mark = self.data[at]
        end = at + mark - 0x9F
        if 0xA0 <= mark <= 0xBF and end <= self._end:
            # Nearly every string in a file is this short, and an index of 1,000 modules has 10,000
            # of them.
            try:
                text = str(self.data[at + 1 : end], "utf-8")
            except UnicodeDecodeError:
                pass  # the general path raises the error
            else:
                self.at = end
                return text
        mark = self._mark()
        if 0xA0 <= mark <= 0xBF:
            return self._text(mark & 0x1F)
        if mark in _STR:
            return self._text(self._number(_STR[mark]))
        raise self._mistyped("a string", mark)

    def read_bin(self) -> memoryview:
        """Read a binary. Return a slice of the buffer."""
        return self.take(self.read_bin_head())

    def is_at_bin(self) -> bool:
        """Return whether the next object is a binary."""
        return self.at < self._end and self.data[self.at] in _BIN

    def read_bin_head(self) -> int:
        """Read the head of a binary. Return the number of its bytes, which follow."""
        mark = self._mark()
        if mark not in _BIN:
            raise self._mistyped("a binary", mark)
        return self._number(_BIN[mark])

    def read_array(self) -> int:
        """Read the head of an array. Return the number of its items, which follow."""
        return self._count("an array", 0x90, _ARRAY, 1)

    def read_map(self) -> int:
        """Read the head of a map. Return the number of its pairs, which follow: each a `read_str`
        and a value.
        """
        return self._count("a map", 0x80, _MAP, 2)

    def read_int(self, low: int, high: int) -> int:
        """Read an integer between two bounds, both included."""
        start = at = self.at
        mark = 0xC1
        if at < self._end:
            mark = self.data[at]
        size = _UINT.get(mark, 8)
        if size < 8 and at + size < self._end:
            # Nearly every integer in a file is of this form, and an index of 1,000 modules has
            # 3,000 of them.
            value = mark
            if size:
                value = int.from_bytes(self.data[at + 1 : at + 1 + size], "big")
            if low <= value <= high:
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

    def read_numbers(self, high: int) -> tuple[int, ...]:
        """Read an array of integers from 0 to `high`."""
        count = self.read_array()
        part = bytes(self.data[self.at : self.at + count])
        if part.isascii() and high >= 0x7F:  # each is one byte
            self.at += count
            return tuple(part)
        numbers = []
        data = self.data
        end = self._end
        for _ in range(count):
            at = self.at
            if at + 2 < end and data[at] == 0xCD and high >= 0xFFFF:
                # Nearly every number of a record in an index of 10,000 modules is of this form.
                numbers.append(data[at + 1] << 8 | data[at + 2])
                self.at = at + 3
            else:
                numbers.append(self.read_int(0, high))
        return tuple(numbers)

    def read_texts(self) -> tuple[str, ...]:
        """Read an array of strings."""
        return tuple([self.read_str() for _ in range(self.read_array())])

    def read_key(self, taken: Any) -> str:
        """Read a key of a map. `taken` is the map so far, which must not have the key."""
        start = self.at
        name = self.read_str()
        if name in taken:
            raise self.error(f"the key {quote_name(name)} is repeated", start)
        return name

    def read_fields(
        self, readers: Mapping[bytes, tuple[str, Callable[[Reader], Any]]]
    ) -> dict[str, Any]:
        """Read a map in data of the type bytes. `readers` has the packed form of each known key to
        the key and the reader of its value.

        The values of other keys are read by `read_value`.
        """
        fields: Fields = {}
        data = self.data
        end = self._end
        for _ in range(self.read_map()):
            at = self.at
            known = None
            if at < end:
                known = readers.get(data[at : at + data[at] - 0x9F])
            if known is not None and known[0] not in fields:
                key, read = known
                self.at = at + data[at] - 0x9F
            else:
                self.field = ""
                key = self.read_key(fields)
                read = Reader.read_value
                for each in readers.values():
                    if each[0] == key:
                        read = each[1]
            self.field = key
            fields[key] = read(self)
        self.field = ""
        return fields

    # -- one object of any type

    def read_value(self, depth: int = 0) -> Any:
        """Read an object of any type except an extension type. Binaries are copied to bytes."""
        if depth > MAX_DEPTH:
            raise self.error(f"arrays and maps are nested more than {MAX_DEPTH} deep")
        if self.at >= self._end:
            self._mark()
        mark = self.data[self.at]
        type_ = _TYPES[mark]
        if type_ is str:
            return self.read_str()
        if type_ is int:
            return self.read_int(-(2**63), 2**64 - 1)
        if type_ is list:
            self.count_container()
            return [self.read_value(depth + 1) for _ in range(self.read_array())]
        if type_ is dict:
            return self.read_map_object(depth)
        if type_ is bytes:
            return bytes(self.read_bin())
        if type_ is float:
            return self._float()
        if type_ is None:
            raise self.error(f"found {_name(mark)}, which is not supported here")
        return {0xC0: None, 0xC2: False, 0xC3: True}[self._mark()]

    def read_map_object(self, depth: int = 0) -> dict[str, Any]:
        """Read a map and its values, as `read_value` reads them."""
        self.count_container()
        values: Fields = {}
        for _ in range(self.read_map()):
            name = self.read_key(values)
            values[name] = self.read_value(depth + 1)
        return values

    def count_container(self) -> None:
        """Count an array or a map in a value of any type.

        Raises
        ------
        FormatError
            There are too many for the size of the data.
        """
        self._room -= 1
        if self._room < 0:
            raise self.error(
                f"more than {self._most} arrays and maps in values of any type, too many for {count_text(self.size, 'byte')}"
            )

    def read_map_apart(self) -> dict[str, Any]:
        """Read a map and its values, with a limit of their own on arrays and maps."""
        start = self.at
        self.read_map()  # raises the error of another type
        self.at = start
        self.skip()
        # If the framing is invalid, nothing was skipped, and reading the rest raises the error.
        part = self.data[start : self.at] or self.data[start:]
        apart = Reader(part, self.subject, self.kind, most=len(part) // BYTES_A_CONTAINER_APART)
        apart.base = self.base + start
        apart.within = self.within
        apart.field = self.field
        return apart.read_map_object()

    # -- framing

    def skip(self, count: int = 1, *, free: bool = False, most: int = 1 << 62) -> int:
        """Skip objects, if their framing is valid: each is of a form that a file may hold, and ends
        within the data.

        Parameters
        ----------
        count
            The number of objects.
        free
            Whether their arrays and maps count as those of `count_container`.
        most
            The limit on the objects with their parts.

        Returns
        -------
        int
            The number of objects with their parts. 0 if the framing is invalid or a limit is
            exceeded: `at` is then unchanged, and reading the objects raises the error, except that
            of `most`, for which the result is -1.
        """
        data = self.data
        at = self.at
        pending = values = count
        containers = 0
        try:
            while pending:
                pending -= 1
                mark = data[at]
                size = _LEAF_SIZES[mark]
                if size:
                    at += size
                    continue
                at += 1
                items = _SMALL_COUNTS[mark]
                if items < 0:
                    width = _STR.get(mark) or _BIN.get(mark)
                    if width:
                        at += width + int.from_bytes(data[at : at + width], "big")
                        continue
                    width = _ARRAY.get(mark) or _MAP.get(mark)
                    if not width:
                        return 0
                    items = int.from_bytes(data[at : at + width], "big") << (mark in _MAP)
                    at += width
                containers += 1
                values += items
                if values > most:
                    return -1
                pending += items
        except IndexError:  # an object begins behind the end
            return 0
        if at > self._end or (free and containers > self._room):
            return 0
        self.at = at
        if free:
            self._room -= containers
        return values

    def skip_apart(self) -> bool:
        """Skip an object, if its framing is valid and its arrays and maps are within the limit of
        `read_map_apart`. Return whether it was skipped.
        """
        start = self.at
        room = self._room
        self._room = self._end  # each takes a byte or more
        is_valid = self.skip(free=True)
        containers = self._end - self._room
        self._room = room
        if not is_valid or containers > (self.at - start) // BYTES_A_CONTAINER_APART:
            self.at = start
            return False
        return True

    # -- bytes

    def _mark(self) -> int:
        """Read the first byte of the next object."""
        at = self.at
        if at >= self._end:
            raise self.error("the bytes end where an object should begin")
        self.at = at + 1
        mark: int = self.data[at]
        return mark

    def take(self, size: int) -> memoryview:
        """Return the next bytes. They must be within the data."""
        left = self._end - self.at
        if size > left:
            raise self.error(f"a length of {count_text(size, 'byte')}, and {left} are left")
        part: memoryview = self.data[self.at : self.at + size]
        self.at += size
        return part

    def _number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def _text(self, size: int) -> str:
        start = self.at
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise self.error("a string is not UTF-8", start + error.start) from None

    def _float(self) -> float:
        import struct

        form = ">d"
        if self._mark() == 0xCA:
            form = ">f"
        return float(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def _count(self, expected: str, short: int, long: Mapping[int, int], size: int) -> int:
        """Read the head of an array or a map. Its items take at least `size` bytes each, and as
        many are left.

        `short` is the first byte of the forms with up to 15 items. `long` has those of the others,
        with the bytes of the count.
        """
        mark = self._mark()
        if short <= mark <= short + 0x0F:
            count = mark - short
        elif mark in long:
            count = self._number(long[mark])
        else:
            raise self._mistyped(expected, mark)
        left = self._end - self.at
        if count * size > left:
            raise self.error(
                f"a count of {count}, and {count_text(left, 'byte')} {'is' if left == 1 else 'are'} left"
            )
        return count

    def _mistyped(self, expected: str, mark: int) -> FormatError:
        return self.error(f"expected {expected}, found {_name(mark)}", self.at - 1)


# Tables over the first byte of an object, 0x00 to 0xFF. They are written out, since opening a file
# imports this module.


def _name(mark: int) -> str:
    """Return the name of the type of an object with such a first byte."""
    if mark == 0xC1:
        return "the byte 0xC1, which msgpack does not use"
    return _NAMES[_TYPES[mark]]
