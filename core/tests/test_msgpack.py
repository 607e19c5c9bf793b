"""The reader of msgpack: each form of an object, each bound, and the errors."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from each_case import refusal
from hypothesis import given
from hypothesis import strategies as st

from devmod._formats.msgpack import Reader
from devmod.errors import FormatError

pytestmark = pytest.mark.once  # bytes alone


def reader(data: bytes, **options: Any) -> Reader:
    return Reader(memoryview(data), "S", **options)


def problem(act: Callable[[Reader], object], data: bytes, **options: Any) -> str:
    """Return the text of the error, without the subject."""
    text = refusal(FormatError, act, reader(data, **options))
    assert text.startswith("S: ")
    return text.removeprefix("S: ")


def count(value: object) -> int:
    """Return the number of objects in a value."""
    if isinstance(value, list):
        return 1 + sum(map(count, value))
    if isinstance(value, dict):
        return 1 + sum(1 + count(each) for each in value.values())
    return 1


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=9), inner, max_size=20)
    ),
    max_leaves=40,
)


@given(VALUES, st.binary(max_size=3))
def test_a_value_is_what_was_packed(value: Any, rest: bytes) -> None:
    data = msgpack.packb(value)
    for made in (data + rest, memoryview(data + rest)):
        read = Reader(made, "S")
        assert read.read_value() == value
        assert read.at == len(data)
        skipped = Reader(made, "S")
        assert skipped.skip() == count(value)
        assert skipped.at == len(data)
    assert reader(data[:-1]).skip() == 0


#: Each form of an object: its bytes, its value, and how often the value is a part of it.
FORMS: list[tuple[bytes, Any]] = [
    *[(bytes((each,)), each) for each in (0, 1, 0x7E, 0x7F)],
    *[(bytes((256 + each,)), each) for each in (-1, -2, -31, -32)],
    (b"\xcc\x80", 128),
    (b"\xcc\xff", 255),
    (b"\xcd\x01\x02", 258),
    (b"\xce\x01\x02\x03\x04", 0x01020304),
    (b"\xcf\x01\x02\x03\x04\x05\x06\x07\x08", 0x0102030405060708),
    (b"\xcf" + b"\xff" * 8, 2**64 - 1),
    (b"\xd0\x80", -128),
    (b"\xd0\x7f", 127),
    (b"\xd1\x80\x01", -32767),
    (b"\xd2\x80\0\0\1", 1 - 2**31),
    (b"\xd3\x80" + bytes(6) + b"\1", 1 - 2**63),
    (b"\xc0", None),
    (b"\xc2", False),
    (b"\xc3", True),
    (b"\xca" + struct.pack(">f", 1.5), 1.5),
    (b"\xcb" + struct.pack(">d", 0.1), 0.1),
    *[(bytes((0xA0 + size,)) + b"x" * size, "x" * size) for size in (0, 1, 30, 31)],
    (b"\xd9\x03abc", "abc"),
    (b"\xda\x01\x02" + b"y" * 258, "y" * 258),
    (b"\xdb\0\1\0\2" + b"z" * 65538, "z" * 65538),
    (b"\xc4\x03abc", b"abc"),
    (b"\xc5\x01\x02" + b"y" * 258, b"y" * 258),
    (b"\xc6\0\1\0\2" + b"z" * 65538, b"z" * 65538),
    *[(bytes((0x90 + size,)) + b"\5" * size, [5] * size) for size in (0, 1, 14, 15)],
    (b"\xdc\x01\x02" + b"\5" * 258, [5] * 258),
    (b"\xdd\0\1\0\2" + b"\5" * 65538, [5] * 65538),
    (b"\x80", {}),
    (b"\x82\xa1a\5\xa1b\6", {"a": 5, "b": 6}),
    (
        b"\x8f" + b"".join(b"\xa1" + bytes((97 + each, each)) for each in range(15)),
        {chr(97 + each): each for each in range(15)},
    ),
    (
        b"\xde\x01\x02" + b"".join(b"\xa3%03d\7" % each for each in range(258)),
        {f"{each:03}": 7 for each in range(258)},
    ),
    (
        b"\xdf\0\1\0\2" + b"".join(b"\xa5%05d\7" % each for each in range(65538)),
        {f"{each:05}": 7 for each in range(65538)},
    ),
]


@pytest.mark.parametrize(("data", "value"), FORMS)
def test_each_form_of_an_object(data: bytes, value: Any) -> None:
    assert msgpack.unpackb(data) == value
    for made in (data + b"\1", memoryview(data + b"\1")):
        read = Reader(made, "S", most=9)
        found = read.read_value()
        assert (found, type(found), read.at) == (value, type(value), len(data))
        skipped = Reader(made, "S")
        assert (skipped.skip(), skipped.at) == (count(value), len(data))
        assert Reader(made, "S").skip(2) == count(value) + 1
    for cut in {len(data) - 1, len(data) // 2} - {0}:
        short = reader(data[:cut])
        assert (short.skip(), short.at) == (0, 0)
        if cut < len(data):
            with pytest.raises(FormatError):
                reader(data[:cut]).read_value()


def test_other_bytes_are_no_object() -> None:
    names = dict.fromkeys((0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)), "an extension type")
    names[0xC1] = "the byte 0xC1, which msgpack does not use"
    for mark, name in names.items():
        data = bytes((mark,)) + bytes(20)
        text = f"found {name}, which is not supported here, at byte 0"
        assert problem(Reader.read_value, data) == text
        assert problem(Reader.read_str, data) == f"expected a string, found {name}, at byte 0"
        assert reader(data).skip() == 0
    assert reader(b"").skip() == 0
    text = "the bytes end where an object should begin, at byte 0"
    assert problem(Reader.read_value, b"") == text


READS: dict[str, Callable[[Reader], object]] = {
    "a string": Reader.read_str,
    "a binary": Reader.read_bin,
    "an array": Reader.read_array,
    "a map": Reader.read_map,
    "an integer": lambda read: read.read_int(-(2**63), 2**64),
}
TYPES = {
    "a string": "a0 bf d9 da db",
    "a binary": "c4 c5 c6",
    "an array": "90 9f dc dd",
    "a map": "80 8f de df",
    "an integer": "00 7f cc cd ce cf d0 d1 d2 d3 e0 ff",
    "a float": "ca cb",
    "a boolean": "c2 c3",
    "nil": "c0",
}


@pytest.mark.parametrize("expected", READS)
def test_an_object_of_another_type(expected: str) -> None:
    for name, marks in TYPES.items():
        for mark in bytes.fromhex(marks):
            read = reader(b"\1" + bytes((mark,)) + bytes(40))
            read.at = 1
            if name == expected:
                READS[expected](read)
                continue
            text = f"S: expected {expected}, found {name}, at byte 1"
            assert refusal(FormatError, READS[expected], read) == text


@pytest.mark.parametrize(
    ("act", "data", "text"),
    [
        (Reader.read_str, b"\xa2\xc3", "a length of 2 bytes, and 1 are left, at byte 1"),
        (Reader.read_str, b"\xd9\3ab", "a length of 3 bytes, and 2 are left, at byte 2"),
        (Reader.read_str, b"\xda\1", "a length of 2 bytes, and 1 are left, at byte 1"),
        (Reader.read_str, b"\xa3a\xff\xff", "a string is not UTF-8, at byte 2"),
        (Reader.read_str, b"\xd9\3ab\xff", "a string is not UTF-8, at byte 4"),
        (Reader.read_bin, b"\xc4\3ab", "a length of 3 bytes, and 2 are left, at byte 2"),
        (Reader.read_array, b"\x93\1\2", "a count of 3, and 2 bytes are left, at byte 1"),
        (Reader.read_array, b"\xdc\1\0\1", "a count of 256, and 1 byte is left, at byte 3"),
        (Reader.read_map, b"\x82\xa0\1\xa0", "a count of 2, and 3 bytes are left, at byte 1"),
        (Reader.read_map, b"\xde\0\1\xa0", "a count of 1, and 1 byte is left, at byte 3"),
        (Reader.read_value, b"\x92\1\xa1", "a length of 1 byte, and 0 are left, at byte 3"),
        (Reader.read_value, b"\xca\0\0\0", "a length of 4 bytes, and 3 are left, at byte 1"),
        (Reader.read_value, b"\x81\1\1", "expected a string, found an integer, at byte 1"),
        (Reader.read_value, b"\x82\xa1a\1\xa1a\1", "the key 'a' is repeated, at byte 4"),
    ],
)
def test_a_damaged_object(act: Callable[[Reader], object], data: bytes, text: str) -> None:
    assert problem(act, data) == text


def test_heads_of_containers_that_just_fit() -> None:
    assert reader(b"\x93\1\2\3").read_array() == 3
    assert reader(b"\x82\xa0\1\xa0\1").read_map() == 2
    read = reader(b"\xc4\2abc")
    assert (read.is_at_bin(), read.read_bin_head(), bytes(read.take(2))) == (True, 2, b"ab")
    assert not read.is_at_bin()
    assert not reader(b"").is_at_bin()
    assert reader(b"\xc5\0\1\xff").read_bin() == b"\xff"


@pytest.mark.parametrize(
    ("low", "high", "fits", "others"),
    [
        (0, 0x7F, [0, 127], [-1, 128, 255, 2**63]),
        (3, 5, [3, 4, 5], [2, 6, 259]),
        (200, 300, [200, 255, 256, 300], [0, 199, 301, -57]),
        (0, 2**16, [65535, 65536], [65537, 2**32]),
        (0, 2**32, [2**32 - 1, 2**32], [2**32 + 1]),
        (-40, -1, [-1, -32, -33, -40], [0, -41, 200]),
        (-(2**63), 2**64 - 1, [-(2**63), 2**64 - 1, -129, -32769], []),
    ],
)
def test_an_integer_is_within_bounds(
    low: int, high: int, fits: list[int], others: list[int]
) -> None:
    for value in fits:
        data = msgpack.packb(value)
        read = reader(data)
        assert (read.read_int(low, high), read.at) == (value, len(data))
        assert Reader(data + b"\0", "S").read_int(low, high) == value
    for value in others:
        text = f"{value} is not between {low} and {high}, at byte 0"
        assert problem(lambda read: read.read_int(low, high), msgpack.packb(value)) == text


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [0, 127, 5],
        [128],
        [1, 255, 256, 65535, 2],
        [258, 258],
        [300] * 20,
        [65536, 1],
        [2**32, 0x7F],
    ],
)
def test_an_array_of_numbers(numbers: list[int]) -> None:
    data = msgpack.packb(numbers)
    for made in (data, data + b"\x05\x06"):
        read = reader(made)
        assert (read.read_numbers(2**40), read.at) == (tuple(numbers), len(data))
    most = max(numbers, default=0)
    assert reader(data).read_numbers(most) == tuple(numbers)
    if most:
        at = data.index(msgpack.packb(most))
        if numbers == [258, 258] or numbers == [300] * 20:
            at = 1 if len(numbers) < 16 else 3
        text = f"{most} is not between 0 and {most - 1}, at byte {at}"
        assert problem(lambda read: read.read_numbers(most - 1), data) == text


def test_an_array_of_texts() -> None:
    read = reader(b"\x92\xa1a\xd9\1b\5")
    assert (read.read_texts(), read.at) == (("a", "b"), 6)
    text = "expected a string, found an integer, at byte 3"
    assert problem(Reader.read_texts, b"\x92\xa1a\5") == text


KNOWN = {
    b"\xa1n": ("n", lambda read: read.read_int(0, 9)),
    b"\xa4text": ("text", lambda read: read.read_str().upper()),
}


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b"\x80", {}),
        (b"\x82\xa4text\xa1x\xa1n\5", {"text": "X", "n": 5}),
        (b"\x82\xa1m\x91\5\xa1n\5", {"m": [5], "n": 5}),
        (b"\x82\xd9\x04text\xa1x\xd9\1n\5", {"text": "X", "n": 5}),  # a longer form of the key
        (b"\x82\xd9\x04tex_\xa1x\xda\0\1n\5", {"tex_": "x", "n": 5}),
    ],
)
def test_the_fields_of_a_map(data: bytes, fields: dict[str, Any]) -> None:
    read = Reader(data + b"\5", "S")
    assert (read.read_fields(KNOWN), read.at, read.field) == (fields, len(data), "")
    assert [*fields] == [*Reader(data, "S").read_fields(KNOWN)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x82\xa1n\5\xa1n\5", "the key 'n' is repeated, at byte 4"),
        (b"\x82\xd9\1n\5\xa1n\5", "the key 'n' is repeated, at byte 5"),
        (b"\x82\xa1m\5\xa1m\5", "the key 'm' is repeated, at byte 4"),
        (b"\x81\xa1n\x10", "n: 16 is not between 0 and 9, at byte 3"),
        (b"\x81\xd9\1n\x10", "n: 16 is not between 0 and 9, at byte 4"),
        (
            b"\x81\xa1m\xc1",
            "m: found the byte 0xC1, which msgpack does not use, which is not supported here, at byte 3",
        ),
        (b"\x82\xa1m\5\5\5", "expected a string, found an integer, at byte 4"),
        (b"\x81\xa1", "a count of 1, and 1 byte is left, at byte 1"),
    ],
)
def test_damaged_fields_of_a_map(data: bytes, text: str) -> None:
    read = Reader(data, "S")
    assert refusal(FormatError, read.read_fields, KNOWN) == f"S: {text}"


def test_an_error_has_the_place() -> None:
    read = reader(b"\xa1a", kind="opencl")
    read.base = 100
    read.within, read.field = "the function 'f'", "name"
    error = read.error("it is wrong")
    assert (str(error), error.kind) == (
        "S: the function 'f', name: it is wrong, at byte 100",
        "opencl",
    )
    read.within = ""
    read.at = 2
    assert str(read.error("no")) == "S: name: no, at byte 102"
    assert str(read.error("no", 0)) == "S: name: no, at byte 100"
    read.field = ""
    assert str(read.error("no", 7)) == "S: no, at byte 107"


def test_bytes_behind_the_last_field() -> None:
    for extra, text in (
        (b"", ""),
        (b"\0", "1 more byte follows the last field, at byte 1"),
        (bytes(3), "3 more bytes follow the last field, at byte 1"),
    ):
        read = reader(b"\5" + extra)
        read.field = "x"
        read.read_value()
        if not text:
            read.finish()
            continue
        assert refusal(FormatError, read.finish) == f"S: {text}"


def test_values_are_nested_at_most_32_deep() -> None:
    for within, wrap in ((b"\x91", list), (b"\x81\xa0", dict)):
        value = reader(within * 32 + b"\5").read_value()
        for _ in range(32):
            assert isinstance(value, wrap)
            (value,) = value.values() if isinstance(value, dict) else value
        assert value == 5
        text = "arrays and maps are nested more than 32 deep, at byte "
        assert problem(Reader.read_value, within * 33 + b"\5").startswith(text)


def too_many(most: int, size: int) -> str:
    return f"more than {most} arrays and maps in values of any type, too many for {size} byte{'' if size == 1 else 's'}, at byte "


def test_the_number_of_arrays_and_maps_has_a_limit() -> None:
    for size, most in ((0, 1024), (7, 1024), (8, 1025), (8007, 2024)):
        data = msgpack.packb([[]] * (most - 1))
        assert len(reader(data, size=size).read_value()) == most - 1
        text = problem(Reader.read_value, msgpack.packb([{}] * most), size=size)
        assert text.startswith(too_many(most, size))
    data = msgpack.packb([[]] * 1169)
    assert len(data) == 1172
    assert len(reader(data).read_value()) == 1024 + 1172 // 8 - 1
    text = problem(Reader.read_value, msgpack.packb([[]] * 1170))
    assert text.startswith(too_many(1024 + 1173 // 8, 1173))
    assert problem(Reader.read_value, b"\x92\x90\x80", most=2).startswith(too_many(2, 3))
    assert reader(b"\x91\x80", most=2).read_value() == [{}]


def test_skipped_objects_count() -> None:
    data = b"\x93\x90\x81\xa1a\x90\5"  # four arrays and maps of six objects
    assert msgpack.unpackb(data) == [[], {"a": []}, 5]
    for most, result in ((4, 6), (3, 0)):
        read = reader(data, most=most)
        assert read.skip(free=True) == result
        assert read.at == (len(data) if result else 0)
        if result:  # nothing is left
            text = refusal(FormatError, read.count_container)
            assert text.startswith(f"S: {too_many(4, 7)}")
    assert reader(data, most=0).skip() == 6
    for most, result in ((6, 6), (5, -1), (3, -1)):
        read = reader(data)
        assert read.skip(most=most) == result
        assert read.at == (len(data) if result > 0 else 0)
    read = reader(data * 2)
    assert (read.skip(2), read.at) == (12, 14)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"a": "123456", "b": []}, True),  # 12 bytes: three
        ({"a": "12345", "b": []}, True),
        ({"a": "", "b": []}, False),
        ({"a": "12", "b": []}, True),
        ({"a": "1", "b": []}, True),  # 8 bytes: two
        ({"a": "1234567"}, True),
        ({}, False),
    ],
)
def test_a_map_with_a_limit_of_its_own(value: dict[str, Any], fits: bool) -> None:
    part = msgpack.packb(value)
    data = b"\5" + part + b"\x90" * 3
    containers = 1 + len(value) - ("a" in value)
    assert (containers <= len(part) // 4) is fits
    read = reader(data, most=0)
    read.at = 1
    assert read.skip_apart() is fits
    assert read.at == (1 + len(part) if fits else 1)
    read.at = 1
    if fits:
        assert (read.read_map_apart(), read.at) == (value, 1 + len(part))
        return
    read.base = 100
    read.within, read.field = "w", "f"
    text = refusal(FormatError, read.read_map_apart)
    assert text.startswith(
        f"S: w, f: {too_many(len(part) // 4, len(part)).removesuffix('at byte ')}"
    )


def test_a_damaged_map_with_a_limit_of_its_own() -> None:
    for data, text in (
        (b"\5\x81\xa1a\xa2b", "a length of 2 bytes, and 1 are left, at byte 5"),
        (
            b"\5\x81\xa1a\xc1\0\0\0",
            "found the byte 0xC1, which msgpack does not use, which is not supported here, at byte 4",
        ),
        (b"\5\x91\5", "expected a map, found an array, at byte 1"),
    ):
        read = reader(data)
        read.at = 1
        assert refusal(FormatError, read.read_map_apart) == f"S: {text}"
        read = reader(data)
        read.at = 1
        if data[1] == 0x81:
            assert not read.skip_apart()
            assert read.at == 1
