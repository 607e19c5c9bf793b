"""A module's bytes in other forms of msgpack, and damaged bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from devmod import TargetSpec

#: The total size of the damaged bytes of one row.
_MAX_TOTAL = 16 << 20
_WRONG: tuple[Any, ...] = (None, True, 0, -1, 2**63, 1.5, "", "x", b"", b"x", [], [[]], {}, {"x": 1}, {"x": []})
_LENGTHS = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01")


def fields_of(data: bytes) -> list[Any]:
    """Return the msgpack objects in a module's bytes. Maps are lists of pairs, so that they can have duplicate keys."""
    import msgpack  # type: ignore[import-untyped]

    unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, object_pairs_hook=_Map, max_buffer_size=0)
    unpacker.feed(data)
    return list(unpacker)


class _Map(list[tuple[Any, Any]]):
    """A map as a list of pairs."""


def in_long_form(data: bytes) -> bytes:
    """Return the same objects in msgpack's longest forms. They are valid, and devmod does not write them."""
    return b"".join(map(_long, fields_of(data)))


def _long(value: Any) -> bytes:
    import msgpack

    if isinstance(value, bool) or value is None or isinstance(value, float):
        return bytes(msgpack.packb(value))
    if isinstance(value, int):
        return b"\xd3" + value.to_bytes(8, "big", signed=True) if value < 2**63 else b"\xcf" + value.to_bytes(8, "big")
    if isinstance(value, str):
        text = value.encode()
        return b"\xdb" + len(text).to_bytes(4, "big") + text
    if isinstance(value, bytes):
        return b"\xc6" + len(value).to_bytes(4, "big") + value
    if isinstance(value, _Map):
        return b"\xdf" + len(value).to_bytes(4, "big") + b"".join(_long(each) for pair in value for each in pair)
    return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(_long, value))


def damaged(spec: TargetSpec, data: bytes) -> list[tuple[str, bytes]]:
    """Return damaged bytes, each with a description of the damage. Some of them are still valid."""
    described = [*_by_field(spec, data), *_by_hand(data)]
    room = max(64, _MAX_TOTAL // max(len(data), 1))
    rest = list(_by_byte(data))
    if len(rest) > room:
        rest = random.Random(20260).sample(rest, room)  # noqa: S311 - reproducible on purpose
    return [*described, *rest]


def _by_field(spec: TargetSpec, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Replace fields, and parts of the fmap, so that the checks behind the first one run too."""
    fields = fields_of(data)
    for number, field in enumerate(spec.fields):
        for wrong in _WRONG:
            yield f"{field} is {wrong!r}", b"".join(_long(wrong if at == number else each) for at, each in enumerate(fields))
        yield f"{field} is missing", b"".join(_long(each) for at, each in enumerate(fields) if at != number)
        if isinstance(fields[number], _Map):
            duplicate = _Map([*fields[number], *fields[number][:1]])
            yield f"{field} has a duplicate key", b"".join(_long(duplicate if at == number else each) for at, each in enumerate(fields))
    at = spec.fields.index("fmap")
    name, info = fields[at][0]
    for part in range(len(info)):
        for wrong in _WRONG:
            entry = [wrong if number == part else each for number, each in enumerate(info)]
            parts = [_Map([(name, entry)]) if number == at else each for number, each in enumerate(fields)]
            yield f"part {part} of a function is {wrong!r}", b"".join(map(_long, parts))


def _by_hand(data: bytes) -> Iterator[tuple[str, bytes]]:
    import msgpack

    yield "empty", b""
    yield "one more byte", data + b"\x00"
    yield "the bytes twice", data + data
    for length in _LENGTHS:
        yield "a length of 4 GiB", length
        yield "a length of 4 GiB after the first field", msgpack.packb(fields_of(data)[0]) + length
    for opener in (b"\x91", b"\x81\xa1x", b"\x81"):
        yield "100,000 nested levels", opener * 100_000
        yield "100,000 nested levels after the first field", msgpack.packb(fields_of(data)[0]) + opener * 100_000


def _by_byte(data: bytes) -> Iterator[tuple[str, bytes]]:
    generator = random.Random(20261)  # noqa: S311 - reproducible on purpose
    places = sorted({*range(min(len(data), 160)), *(generator.randrange(len(data)) for _ in range(64))})
    for at in places:
        yield f"the first {at} bytes", data[:at]
        for value in (data[at] ^ 1, data[at] ^ 0x80, 0xFF, 0xC1, 0x00):
            yield f"byte {at} is {value:#04x}", data[:at] + bytes([value]) + data[at + 1 :]
    for _ in range(64):
        yield "random bytes", generator.randbytes(generator.randrange(1, 200))
