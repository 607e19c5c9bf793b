"""Structs by value in the npm package: the interface's maps, the layouts and the bytes are those of
devmod in Python, and so are the messages.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import refusal

import devmod
from devmod import FunctionInfo, Interface, Member, Param

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

import toy_backend as toy  # noqa: E402
from browser_driver import run_in_node  # noqa: E402

PRELUDE = """
const { readInterface } = await import("./interface.js");
const { recordPacker } = await import("./records.js");
const { ConversionError } = await import("./scalars.js");
const { isMap } = await import("./head.js");
const map = (value) => {
  if (Number.isInteger(value)) return BigInt(value); // as msgpack is read
  if (Array.isArray(value)) return value.map(map);
  if (typeof value !== "object" || value === null) return value;
  return Object.assign(Object.create(null), Object.fromEntries(Object.entries(value).map(([key, each]) => [key, map(each)])));
};
const read = (found) => readInterface(map(found), (problem) => Object.assign(new Error(problem), { refused: true }));
const pack = (param, value) => {
  const { name, type, members } = read({ params: [param] }).params[0];
  try {
    return Buffer.from(recordPacker(name, members, Number(type.slice(6)))(value)).toString("hex");
  } catch (error) {
    if (!(error instanceof ConversionError)) throw error;
    return error.message;
  }
};
"""


def packed(param: Param, value: Any) -> bytes:
    """Return the bytes that a kernel of Python receives for a value."""
    seen: list[bytes] = []
    info = FunctionInfo("f", [param.type], (), (), Interface([param]))
    toy.module({"f": info}, {"f": lambda shape, value: seen.append(value)})["f"](
        value, grid=1, block=1
    )
    return seen[0]


def as_json(value: Any) -> Any:
    """Return a value for JavaScript: a tuple is an array there."""
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, (list, tuple)) else value


# -- layouts and bytes

SIZES = {"int32": 4, "uint32": 4, "float32": 4, "float16": 2, "bool": 1, "uint8": 1, "int16": 2}


class Layouts:
    """Structs with members, gaps, vectors, arrays and nested structs at random, and values for
    them.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def param(self) -> Param:
        members, size = self._members(0)
        return Param("p", "uniform", f"uint8x{size + 2}", align=16, members=members)

    def value(self, members: tuple[Member, ...]) -> Any:
        """Return a value: a mapping in another order, or a tuple."""
        values = [(each.name, self._array(each, each.shape)) for each in members]
        if self._random.random() < 0.4:
            return tuple(value for _, value in values)
        return dict(self._random.sample(values, len(values)))

    def _members(self, depth: int) -> tuple[list[Member], int]:
        members, end = [], 0
        for number in range(self._random.randint(1, 4)):
            inner, size, type_ = [], 0, ""
            if depth < 3 and self._random.random() < 0.3:
                inner, size = self._members(depth + 1)
                length = size
            else:
                one, lanes = self._random.choice(list(SIZES)), self._random.choice([1, 1, 2, 3, 4])
                type_, length = one if lanes == 1 else f"{one}x{lanes}", SIZES[one] * lanes
            shape: list[int] = []
            strides: list[int] = []
            for _ in range(self._random.choice([0, 0, 0, 1, 2])):
                shape, strides = (
                    [self._random.randint(1, 3), *shape],
                    [length + self._random.choice([0, 4]), *strides],
                )
                length += (shape[0] - 1) * strides[0]
            offset = end + self._random.choice([0, 0, 4, 12])
            members.append(Member(f"m{number}", type_, offset, inner, size, shape, strides))
            end = offset + length
        return members, end

    def _array(self, member: Member, shape: tuple[int, ...]) -> Any:
        if shape:
            return [self._array(member, shape[1:]) for _ in range(shape[0])]
        if member.members:
            return self.value(member.members)
        one, _, lanes = member.type.partition("x")
        numbers = [self._number(one) for _ in range(int(lanes or 1))]
        return numbers if lanes else numbers[0]

    def _number(self, one: str) -> Any:
        if one == "bool":
            return self._random.random() < 0.5
        if one.startswith("float"):
            return self._random.uniform(-1000, 1000)
        bits = 8 * SIZES[one]
        return (
            self._random.randrange(-(1 << bits - 1), 1 << bits - 1)
            if one.startswith("int")
            else self._random.randrange(1 << bits)
        )


@pytest.mark.row("R34")
def test_random_structs_have_the_bytes_of_python() -> None:
    vectors = []
    for seed in range(300):
        layouts = Layouts(seed)
        param = layouts.param()
        value = layouts.value(param.members)
        vectors.append((param, value, packed(param, value).hex()))
    given = [[param.to_dict(), as_json(value)] for param, value, _ in vectors]
    found = run_in_node(
        PRELUDE + "return argument.map(([param, value]) => pack(param, value));", given
    )
    for (param, value, data), each in zip(vectors, found, strict=True):
        assert each == data, (param.to_dict(), value)


def test_a_typed_array_may_have_the_numbers_of_a_matrix_in_one_row() -> None:
    columns = Member("m", "float32x3", 16, shape=[3], strides=[16])
    struct = Param("p", "uniform", "uint8x64", members=[Member("n", "int32"), columns])
    alone = Param(
        "p", "uniform", "uint8x48", members=[Member("", "float32x3", shape=[3], strides=[16])]
    )
    grid = Param(
        "p", "uniform", "uint8x32", members=[Member("", "int32", shape=[2, 4], strides=[16, 4])]
    )
    rows = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    body = """
    const [struct, alone, grid] = argument;
    const nine = Float32Array.from({ length: 9 }, (_, at) => at + 1);
    const eight = Int32Array.from({ length: 8 }, (_, at) => at + 1);
    return [pack(struct, { n: 7, m: nine }), pack(alone, nine), pack(grid, eight), pack(grid, [eight.subarray(0, 4), eight.subarray(4)]), pack(struct, new Float32Array(16)),
      pack(alone, Float32Array.from({ length: 12 }, (_, at) => at)), pack(alone, new Float32Array(8))];
    """
    found = run_in_node(PRELUDE + body, [struct.to_dict(), alone.to_dict(), grid.to_dict()])
    numbers = [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert found[:2] == [packed(struct, {"n": 7, "m": rows}).hex(), packed(alone, rows).hex()]
    assert found[2:5] == [packed(grid, numbers).hex()] * 2 + ["00" * 64]
    # As many bytes as the argument has are its bytes, with the padding.
    assert found[5:] == [
        np.arange(12, dtype="float32").tobytes().hex(),
        "expected 3 elements, got 8",
    ]


P = Param(
    "p",
    "uniform",
    "uint8x96",
    members=[
        Member("n", "int32"),
        Member(
            "view",
            offset=16,
            members=[Member("scale", "float32"), Member("at", "float32x3", 16)],
            size=32,
        ),
        Member("w", "float32", 48, shape=[2, 2], strides=[8, 4]),
        Member(
            "lights",
            offset=64,
            members=[Member("on", "bool"), Member("power", "float16", 2)],
            size=4,
            shape=[2],
            strides=[8],
        ),
    ],
)
GOOD = {
    "n": 1,
    "view": {"scale": 1, "at": [1, 2, 3]},
    "w": [[1, 2], [3, 4]],
    "lights": [{"on": True, "power": 1}, (False, 2)],
}
MATRIX = Param(
    "m", "uniform", "uint8x64", members=[Member("", "float32x4", shape=[4], strides=[16])]
)
NAMELESS = Param("p", "uniform", "uint8x8", members=[Member("", "int32"), Member("", "float32", 4)])
WRONG: list[tuple[Param, Any]] = [
    *(
        (P, GOOD | change)
        for change in (
            {"n": 2**31},
            {"n": "one"},
            {"view": {"scale": "a", "at": [1, 2, 3]}},
            {"view": {"scale": 1, "at": [1, 2]}},
            {"view": {"scale": 1, "at": [1, "b", 3]}},
            {"view": {"at": [1, 2, 3]}},
            {"view": {"scales": 1, "at": [1, 2, 3]}},
            {"view": (1,)},
            {"view": 7},
            {"w": [[1, 2]]},
            {"w": [[1, 2], [3, 4, 5]]},
            {"w": [[1, 2], 3]},
            {"w": 1},
            {"lights": [(True, 1), (2, 1)]},
            {"lights": [{"on": True, "power": 65520.5}, (True, 1)]},
            {"x": 1},
        )
    ),
    (P, {"n": 1}),
    (P, {}),
    (P, 7),
    (P, "p"),
    (P, (1, 2)),
    (P, None),
    (MATRIX, [[1, 2, 3, 4]] * 3),
    (MATRIX, 1),
    (MATRIX, [[1, 2, 3, 4]] * 3 + [[1, 2]]),
    (NAMELESS, {"a": 1}),
    (NAMELESS, (1,)),
]


@pytest.mark.row("R34")
def test_the_messages_for_wrong_structs_are_those_of_python() -> None:
    found = run_in_node(
        PRELUDE + "return argument.map((each) => pack(...each));",
        [[param.to_dict(), as_json(value)] for param, value in WRONG],
    )
    for (param, value), message in zip(WRONG, found, strict=True):
        expected = refusal(devmod.ArgumentError, packed, param, value).partition(
            f"argument 1 {param.name!r}: "
        )[2]
        for words, others in (
            ("a mapping, a tuple or a NumPy record of", "a record or an array of"),
            ("a tuple of", "an array of"),
        ):
            expected = expected.replace(words, others)
        assert message == expected.replace("None", "null"), value


# -- the interface's maps


def nested(depth: int) -> dict[str, Any]:
    member: dict[str, Any] = {"name": "m", "offset": 0, "type": "int32"}
    for _ in range(depth):
        member = {"name": "m", "offset": 0, "members": [member], "size": 4}
    return member


LEAF = nested(0)
#: Maps of a parameter that both readers refuse.
BAD_PARAMS: list[Any] = [
    *(
        {"members": members}
        for members in (
            [nested(16)],
            {},
            7,
            [7],
            [{"name": "m", "offset": 0}],
            [nested(1) | {"type": "int32"}],
            [{"name": "m", "type": "int32"}],
            [{"offset": 0}],
            [LEAF | {"name": 7}],
            [LEAF | {"type": 7}],
            [LEAF | {"type": "floot"}],
            [LEAF | {"offset": -1}],
            [LEAF | {"offset": "x"}],
            [LEAF | {"size": None}],
            [LEAF | {"shape": 3}],
            [LEAF | {"shape": [3]}],
            [LEAF | {"shape": [-3], "strides": [4]}],
            [LEAF | {"shape": [0], "strides": [4]}],
            [LEAF | {"shape": [2], "strides": [2]}],
            [LEAF | {"shape": [1] * 17, "strides": [4] * 17}],
            [LEAF | {"offset": 62}],
            [LEAF, LEAF],
            [LEAF, LEAF | {"name": "n", "offset": 2}],
            [LEAF | {"type": "int4"}],
            [LEAF | {"type": "int0"}],
            [{"name": "m", "offset": 0, "members": [LEAF]}],
            [nested(1) | {"size": 2}],
            [LEAF | {"shape": [9, 9], "strides": [36, 4]}],
        )
    ),
    {"kind": "image", "type": "2d", "members": [LEAF]},
    {"kind": "image"},
    {"kind": "image", "type": "4d"},
    {"kind": "image", "type": 7},
    {"kind": "image", "type": "2d", "sample": "half"},
    {"kind": "image", "type": "2d", "sample": None},
    {"kind": "image", "type": "2d", "format": 8},
    {"format": "rgba8unorm"},
    {"sample": "float"},
    {"format": None},
    {"kind": "sampler", "type": "", "sample": ["float"]},
    {"type": "float32x4", "members": [LEAF]},
    {"type": "", "members": [LEAF]},
    {"kind": "local", "default": 64},
    {"kind": "local", "default": {"bytes": 0}},
    {"kind": "local", "default": {"bytes": 1, "per_thread": 1}},
    {"default": {"bytes": 64}},
    {"default": {"per_thread": 4}},
    {"kind": "bufer"},
    {"kind": 7},
    {"access": "x"},
    {"access": None},
    {"name": 7},
    {"name": None},
    {"type": 7},
    {"type": "floot"},
    {"align": -1},
    {"align": True},
    {"size": "x"},
    {"size": [1]},
    {"at": -1},
    {"at": [1]},
    {"at": "push"},
    {"at": [0, {"a": None}]},
]
#: Maps of an interface that both readers refuse.
BAD_INTERFACES: list[Any] = [
    *(
        {"params": [{"name": "p", "kind": "scalar", "type": "uint8x64"} | each]}
        for each in BAD_PARAMS
    ),
    {"params": 7},
    {"params": [7]},
    {"params": [{"name": "p"}]},
    {"params": [{"kind": "buffer"}]},
    {"blocks": {}},
    {"blocks": [None]},
    {"blocks": [{"at": 0}]},
    {"blocks": [{"size": 4}]},
    {"blocks": [{"at": 0, "size": -4}]},
    {"blocks": [{"at": "x", "size": 4}]},
    {"blocks": [{"at": 0, "size": 4, "name": 7}]},
    {"block": [64]},
    {"block": 64},
    {"block": [1, 1, -1]},
    {"default_block": [64]},
    {"default_block": [0, 1, 1]},
    {"default_block": "x"},
    {"open_block": 1},
    {"open_block": None},
    {"shared_memory": -1},
    {"shared_memory": None},
    {"shared_memory": {}},
    {"shared_memory": {"per_thread": 0}},
    {"shared_memory": {"per_thread": None}},
    {"shared_memory": {"per_thread": True}},
    {"shared_memory": {"bytes": 4}},
    {"shared_memory": {"per_thread": 4, "bytes": 4}},
    {"needs": "fp16"},
    {"needs": None},
    {"needs": ["fp16", 7]},
    {"subgroup": 0},
    {"subgroup": "32"},
    {"subgroup": -1},
    {"subgroup": True},
]


def test_the_messages_for_bad_interfaces_are_those_of_python() -> None:
    body = """
    return argument.map((each) => {
      try {
        return [read(each)];
      } catch (error) {
        if (!error.refused) throw error;
        return error.message;
      }
    });
    """
    found = run_in_node(PRELUDE + body, BAD_INTERFACES)
    for data, message in zip(BAD_INTERFACES, found, strict=True):
        assert message == refusal(devmod.FormatError, Interface.from_dict, data), data


@pytest.mark.parametrize("size", [1, 4, 2**53 - 1])
def test_the_default_of_shared_memory_is_bytes_or_bytes_a_thread(size: int) -> None:
    for value, expected in ((size, size), ({"per_thread": size}, {"perThread": size})):
        data = {"params": [], "shared_memory": value}
        assert Interface.from_dict(data).to_dict() == data
        assert run_in_node(PRELUDE + "return read(argument);", data)["sharedMemory"] == expected


def test_a_good_interface_is_read_as_in_python() -> None:
    picture = Param("t", "image", "2d_array", "w", (0, 1), format="rgba8unorm", sample="float")
    options: dict[str, Any] = {
        "default_block": (4, 5, 6),
        "open_block": True,
        "needs": ["subgroups", "fp16"],
        "subgroup": 32,
    }
    known = Interface([P, picture], [devmod.Block((0, 0), 96)], (1, 2, 3), {"more": 1}, **options)
    found = run_in_node(PRELUDE + "return read(argument);", known.to_dict())
    assert (found["block"], found["defaultBlock"], found["openBlock"], found["extra"]) == (
        [1, 2, 3],
        [4, 5, 6],
        True,
        {"more": 1},
    )
    assert (found["needs"], found["subgroup"]) == (["fp16", "subgroups"], 32)
    param, image = found["params"]
    assert image == picture.to_dict() | {
        "align": 0,
        "size": 0,
        "members": [],
        "least": 0,
        "pack": [],
        "extra": {},
    }
    assert [each["name"] for each in param["members"]] == ["n", "view", "w", "lights"]
    assert param["members"][3]["members"][1] == {
        "name": "power",
        "type": "float16",
        "offset": 2,
        "members": [],
        "size": 0,
        "shape": [],
        "strides": [],
    }
    assert (
        param["members"][3]["shape"],
        param["members"][3]["strides"],
        param["members"][3]["size"],
    ) == ([2], [8], 4)
