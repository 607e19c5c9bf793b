"""The reader of Metal's libraries. `fuzzing.seeds.metallib` writes them."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal

from devmod import Param
from devmod.errors import FormatError
from devmod_readers.metallib import read_metallib

sys.path.append(str(Path(__file__).resolve().parents[3] / "tools"))
from fuzzing import seeds

BUFFER = 0x40000
UNKNOWN = ([""], [Param("", "scalar")])


def argument(*absent: int, **changed: Any) -> dict[int, Any]:
    """Return the node of a buffer of float32, with other fields (`f5=3`) and without some."""
    fields = {2: 6, 3: 1, 4: 3, 5: 1, 8: 20, 9: 16, 10: "float", 11: "x"}
    fields |= {int(name[1:]): value for name, value in changed.items()}
    return {0: BUFFER, 1: {key: each for key, each in fields.items() if key not in absent}}


def library(*nodes: dict[int, Any]) -> bytes:
    return seeds.metallib({"k": nodes})


#: The node of an argument, and its param.
ARGUMENTS: dict[str, tuple[dict[int, Any], Param]] = {
    "a buffer": (argument(), Param("x", "buffer", "float32", "rw", at=6)),
    "one that is read": (argument(f4=1), Param("x", "buffer", "float32", "r", at=6)),
    "one that is written": (argument(f4=2), Param("x", "buffer", "float32", "w", at=6)),
    "an unknown access": (argument(f4=9), Param("x", "buffer", "float32", "rw", at=6)),
    "no access": (argument(4), Param("x", "buffer", "float32", "rw", at=6)),
    "an access of one byte": (argument(f4=0x301), Param("x", "buffer", "float32", "r", at=6)),
    "an active one without a field": (argument(3), Param("x", "buffer", "float32", "rw", at=6)),
    "no space": (argument(5, f4=1), Param("x", "buffer", "float32", "r", at=6)),
    "the constant space": (argument(f5=2, f4=1), Param("x", "buffer", "float32", "r", at=6)),
    "a value": (argument(f1=[7], f5=2), Param("x", "scalar", "float32", at=6)),
    "a value of a space of one byte": (
        argument(f1=[7], f5=0x102),
        Param("x", "scalar", "float32", at=6),
    ),
    "a reference": (argument(f1=[7]), Param("x", "buffer", "float32", "rw", at=6, size=20)),
    "threadgroup memory": (argument(f5=3), Param("x", "local", "float32", at=6)),
    "threadgroup memory of structs": (
        argument(f5=3, f10="S"),
        Param("x", "local", "uint8x20", at=6, align=16),
    ),
    "a struct": (
        argument(f1=[7], f5=2, f10="S"),
        Param("x", "scalar", "uint8x20", at=6, align=16),
    ),
    "a buffer of structs": (
        argument(f10="S"),
        Param("x", "buffer", "uint8x20", "rw", at=6, align=16),
    ),
    "a vector": (argument(f10="half4"), Param("x", "buffer", "float16x4", "rw", at=6)),
    "a bfloat": (argument(f10="bfloat"), Param("x", "buffer", "bfloat16", "rw", at=6)),
    "a long name": (argument(f11="x" * 1025), Param("x" * 1024, "buffer", "float32", "rw", at=6)),
    "no name": (argument(11), Param("", "buffer", "float32", "rw", at=6)),
    "the index 0": (argument(2), Param("x", "buffer", "float32", "rw", at=0)),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument(name: str) -> None:
    node, param = ARGUMENTS[name]
    (function,) = read_metallib(library(node)).values()
    assert function.params == (param,)


def test_the_order_of_arguments() -> None:
    """By their indices; threadgroup memory has indices of its own."""
    nodes = [
        argument(f2=0, f5=3, f11="t", f4=1),
        argument(f2=3, f11="c"),
        argument(f2=1, f5=3, f11="u"),
        argument(f2=2, f11="b"),
    ]
    (function,) = read_metallib(library(*nodes)).values()
    assert [(each.name, each.at) for each in function.params] == [
        ("b", 2),
        ("c", 3),
        ("t", 0),
        ("u", 1),
    ]


def constant(type_: str, name: str, *ids: int) -> dict[int, Any]:
    return {0: 0x80000, 1: dict(enumerate((type_, name, *ids)))}


def test_the_constants_and_the_most_threads() -> None:
    nodes = [
        {0: 0x1003, 1: {0: 96}},
        constant("half", "scale", 5),
        constant("bfloat", "other", 6),
        constant("float4", "vector", 7),
        constant("bool", "flag"),
    ]
    (function,) = read_metallib(library(*nodes)).values()
    assert function.extra == {
        "max_total_threads_per_threadgroup": 96,
        "constants": [
            {"name": "scale", "type": "float16", "id": 5},
            {"name": "flag", "type": "bool", "id": 0},
        ],
    }


@pytest.mark.parametrize(
    ("node", "is_known"),
    [
        ({0: BUFFER - 1, 1: {2: 0}}, True),
        (argument(f3=0), False),
        (argument(f3=2), False),
        ({0: BUFFER + 1, 1: {2: 0}}, False),
        ({0: 0x40FFF, 1: {2: 0}}, False),
        ({0: 0x41000, 1: {2: 0}}, True),
        ({0: 0x7FFFF, 1: {2: 0}}, True),
    ],
)
def test_a_node_that_is_no_buffer(node: dict[int, Any], is_known: bool) -> None:
    (function,) = read_metallib(library(argument(), node)).values()
    found = ([*function.types], [*function.params])
    assert (found != UNKNOWN) is is_known


def test_functions_that_are_no_kernels_and_kernels_that_are_not_described() -> None:
    data = seeds.metallib({"a": [argument()], "b": [argument(f11="y")], "c": None})
    functions = read_metallib(data)
    assert [(name, each.symbol) for name, each in functions.items()] == [
        *zip("abc", "abc", strict=True)
    ]
    assert [each.params[0].name for each in functions.values()] == ["x", "y", ""]
    assert ([*functions["c"].types], [*functions["c"].params]) == UNKNOWN
    vertex = data.replace(b"TYPE\1\0\2", b"TYPE\1\0\1", 1)
    assert [*read_metallib(vertex)] == ["b", "c"]
    # A compiler that writes no lists behind the functions, or other ones.
    (lists,) = struct.unpack_from("<Q", data, 40)
    old = data[:40] + struct.pack("<Q", lists - 26) + data[48:]
    other = data.replace(b"RLST", b"OTHR")
    for changed in (old, other):
        assert {*(each.params[0].name for each in read_metallib(changed).values())} == {""}


def test_the_place_of_a_description() -> None:
    """The FlatBuffer is found in the first 64 bytes."""
    data = library(argument())
    place = data.index(b"RBUF")
    start = data.index(b"AIRR") - 4
    for added, is_found in ((0, True), (place + 56 - start, True), (place + 57 - start, False)):
        changed = data[:start] + bytes(added) + data[start:]
        (function,) = read_metallib(changed).values()
        assert (function.params[0].name == "x") is is_found
    assert ([*function.types], [*function.params]) == UNKNOWN
    for absent in (
        data.replace(b"RBUF", b"XBUF"),
        data[: place + 4] + bytes(4) + data[place + 8 :],
    ):
        (function,) = read_metallib(absent).values()
        assert ([*function.types], [*function.params]) == UNKNOWN


def test_the_limit_on_the_work() -> None:
    """Each 256 bytes of a description count as a node, and a kernel as one."""
    data = seeds.metallib({"k": [argument(), argument(f2=7)], "l": None})
    place = data.index(b"RBUF") + 4
    for units, is_refused in (((1 << 20) - 4, False), ((1 << 20) - 3, True)):
        size = struct.pack("<I", 256 * units + 255)
        changed = data[:place] + size + data[place + 4 :]
        if is_refused:
            problem = "the metallib describes more than 1048576 arguments"
            assert refusal(FormatError, read_metallib, changed) == problem
        else:
            assert len(read_metallib(changed)["k"].params) == 2


def test_a_damaged_library() -> None:
    data = library(argument())
    whole = data[:-4]  # the name of the argument is the last that is read
    assert read_metallib(whole)["k"].params[0].name == "x"
    problem = (
        f"the metallib is damaged: expected 1 byte at {len(whole) - 1}, it has {len(whole) - 1}"
    )
    assert refusal(FormatError, read_metallib, whole[:-1]) == problem
    described = data.index(b"AIRR") + 4
    for end in (*range(data.index(b"RBUF") + 4), *range(described, len(whole))):
        with pytest.raises(FormatError):
            read_metallib(data[:end])
    # The table of the root's fields begins before the file.
    root = data.index(b"AIRR") + 4
    (fields,) = struct.unpack_from("<H", data, root)
    before = data[: root + fields] + struct.pack("<i", len(data)) + data[root + fields + 4 :]
    assert refusal(FormatError, read_metallib, before) == (
        f"the metallib is damaged: expected 2 bytes at {root + fields - len(data)}, "
        f"it has {len(data)}"
    )
    magic = "it is no metallib: expected b'MTLB' at its start, got b'MTLA'"
    assert refusal(FormatError, read_metallib, b"MTLA" + data[4:]) == magic


def test_the_size_of_a_group_of_tags() -> None:
    """A group may be longer than its tags, and not shorter."""
    data = seeds.metallib({"a": None, "b": None})
    end = data.index(b"ENDT") + 4
    (size,) = struct.unpack_from("<I", data, 92)
    longer = data[:92] + struct.pack("<I", size + 3) + data[96:end] + b"???" + data[end:]
    longer = (
        longer[:40] + struct.pack("<Q", struct.unpack_from("<Q", data, 40)[0] + 3) + longer[48:]
    )
    assert [*read_metallib(longer)] == ["a", "b"]
    shorter = data[:92] + struct.pack("<I", size - 1) + data[96:]
    problem = f"the metallib is damaged: a function ends at byte {end - 1}, and its tags at {end}"
    assert refusal(FormatError, read_metallib, shorter) == problem


def test_each_byte_that_is_read_matters() -> None:
    """A change of its highest bit is refused, or changes the function."""
    node = argument(f10="S", f4=1, f5=1)
    data = library({0: 0x1003, 1: {0: 96}}, node, constant("half", "scale", 5))
    # The sizes of the file, of its lists, of descriptions and of tables; behind the numbers of one
    # byte; the text of an unknown type.
    ignored = [(4, 24), (32, 40), (41, 88), (143, 151), (155, 159), (163, 166), (175, 181)]
    ignored += [(207, 211), (227, 231), (241, 245), (261, 267), (277, 281), (302, 309)]
    ignored += [(329, 330), (335, 339), (343, 344), (355, 359), (398, 402)]
    function = read_metallib(data)["k"]
    places = {place for first, end in ignored for place in range(first, end)}
    for place in sorted({*range(len(data))} - places):
        changed = bytearray(data)
        changed[place] ^= 0x80
        try:
            found = read_metallib(bytes(changed)).get("k")
        except FormatError:
            continue
        assert found != function, place


def test_the_type_of_a_function_has_more_bytes() -> None:
    data = seeds.metallib({"k": None})
    (size,) = struct.unpack_from("<I", data, 92)
    longer = data[:92] + struct.pack("<I", size + 1) + data[96:]
    assert [*read_metallib(longer.replace(b"TYPE\1\0\2", b"TYPE\2\0\2\1"))] == ["k"]
