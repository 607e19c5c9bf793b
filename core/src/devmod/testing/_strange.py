"""Bytes for the rows about bytes: a module's in other forms of msgpack, and damaged ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgpack  # type: ignore[import-untyped]

from devmod.targets import TargetSpec

#: What the damaged bytes of one row may weigh together.
_MOST = 16 << 20
_WRONG: tuple[Any, ...] = (None, True, 0, -1, 2**63, 1.5, "", "x", b"", b"x", [], [[]], {}, {"x": 1}, {"x": []})
_LENGTHS = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01")


def fields_of(data: bytes) -> list[Any]:
    """The msgpack objects in a module's bytes; maps as lists of pairs, so that they can hold a key twice."""
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, object_pairs_hook=_Map, max_buffer_size=0)
    unpacker.feed(data)
    return list(unpacker)


class _Map(list[tuple[Any, Any]]):
    """A map as its pairs."""


def in_long_form(data: bytes) -> bytes:
    """The same objects, each in msgpack's longest form: valid, and not what devmod writes."""
    return b"".join(map(_long, fields_of(data)))


def _long(value: Any) -> bytes:
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
    """Bytes that are no module's, or might be none, each with what was done to it."""
    made = [*_by_field(spec, data), *_by_hand(data)]
    room = max(64, _MOST // max(len(data), 1))
    rest = list(_by_byte(data))
    if len(rest) > room:
        rest = random.Random(20260).sample(rest, room)  # noqa: S311 - the same each time is what is wanted
    return [*made, *rest]


def _by_field(spec: TargetSpec, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Whole fields and parts of the fmap put wrong, so that what is behind the first check is met too."""
    fields = fields_of(data)
    for number, field in enumerate(spec.fields):
        for wrong in _WRONG:
            yield f"{field} is {wrong!r}", b"".join(_long(wrong if at == number else each) for at, each in enumerate(fields))
        yield f"{field} is missing", b"".join(_long(each) for at, each in enumerate(fields) if at != number)
        if isinstance(fields[number], _Map):
            twice = _Map([*fields[number], *fields[number][:1]])
            yield f"{field} has a key twice", b"".join(_long(twice if at == number else each) for at, each in enumerate(fields))
    at = spec.fields.index("fmap")
    name, info = fields[at][0]
    for part in range(len(info)):
        for wrong in _WRONG:
            entry = [wrong if number == part else each for number, each in enumerate(info)]
            parts = [_Map([(name, entry)]) if number == at else each for number, each in enumerate(fields)]
            yield f"part {part} of a function is {wrong!r}", b"".join(map(_long, parts))


def _by_hand(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "nothing", b""
    yield "a byte more", data + b"\x00"
    yield "the bytes twice", data + data
    for length in _LENGTHS:
        yield "a length of 4 GiB", length
        yield "a length of 4 GiB behind the first field", msgpack.packb(fields_of(data)[0]) + length
    for opener in (b"\x91", b"\x81\xa1x", b"\x81"):
        yield "100,000 levels", opener * 100_000
        yield "100,000 levels behind the first field", msgpack.packb(fields_of(data)[0]) + opener * 100_000


def _by_byte(data: bytes) -> Iterator[tuple[str, bytes]]:
    chance = random.Random(20261)  # noqa: S311 - the same each time is what is wanted
    places = sorted({*range(min(len(data), 160)), *(chance.randrange(len(data)) for _ in range(64))})
    for at in places:
        yield f"the first {at} bytes", data[:at]
        for value in (data[at] ^ 1, data[at] ^ 0x80, 0xFF, 0xC1, 0x00):
            yield f"byte {at} is {value:#04x}", data[:at] + bytes([value]) + data[at + 1 :]
    for _ in range(64):
        yield "noise", chance.randbytes(chance.randrange(1, 200))
