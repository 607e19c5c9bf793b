"""Calls of the npm package and of devmod in Python: names, counts and launch sizes have the same
meaning and the same messages.
"""

from __future__ import annotations

import itertools
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from each_case import raised

import devmod
from devmod import FunctionInfo, Interface, Member, Param
from devmod._values.tags import (
    COOPERATIVE_TAG,
    DIMENSIONS,
    DYNAMIC_SHARED_MEMORY,
    PROGRAMMATIC_TAG,
    REQUIRED_BLOCK_TAG,
    SCOPES,
    WRITE_ACCESS_TAG,
    tag_problem,
    value_tags,
)
from devmod.errors import did_you_mean

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

import toy_backend as toy  # noqa: E402
from browser_driver import run_in_node  # noqa: E402

#: Refused by both with the same text: the parameters, the launch tags, the arguments by position or
#: by name, and the launch options.
SCALARS = [
    Param(name, "scalar", "int32", at=(0, 4 * number))
    for number, name in enumerate(("width", "height", "n", "steps"))
]
NONE = [Param("", "scalar", "int32", at=(0, 0)), Param("", "scalar", "int32", at=(0, 4))]
TWICE = [
    Param("n", "scalar", "int32", at=(0, 0)),
    Param("n", "scalar", "int32", at=(0, 4)),
    Param("m", "scalar", "int32", at=(0, 8)),
]
INHERITED = [
    Param("toString", "scalar", "int32", at=(0, 0)),
    Param("constructor", "scalar", "int32", at=(0, 4)),
]
STRUCT = [
    Param("n", "scalar", "int32", at=(0, 0)),
    Param("p", "scalar", "uint8x8", at=(0, 8), members=[Member("wide", "float32", 0)]),
]
TAGS = ("blockIdx.x", "threadIdx.x")
WRONG: dict[str, tuple[list[Param] | None, tuple[str, ...], Any, dict[str, Any]]] = {
    "an unknown name": (SCALARS, (), {"width": 1, "height": 1, "n": 1, "stepps": 1}, {"grid": 1}),
    "an unknown name with launch values": (SCALARS, TAGS, {"wide": 1}, {"grid": 1}),
    "an unknown name like no other": (
        SCALARS,
        (),
        {"width": 1, "height": 1, "n": 1, "q": 1},
        {"grid": 1},
    ),
    "a member of a struct": (STRUCT, (), {"n": 1, "wide": 1}, {"grid": 1}),
    "an unknown name beside a struct": (STRUCT, (), {"n": 1, "width": 1}, {"grid": 1}),
    "a missing argument": (SCALARS, (), {"width": 1, "n": 1, "steps": 1}, {"grid": 1}),
    "missing arguments": (SCALARS, TAGS, {"width": 1, "n": 1}, {"grid": 1}),
    "missing arguments with names of every object": (
        INHERITED,
        (),
        {"constructor": 1},
        {"grid": 1},
    ),
    "too few by position": (SCALARS, (), [1, 2], {"grid": 1}),
    "one too few without names": (None, (), [1], {"grid": 1}),
    "a name without names": (None, (), {"n": 1}, {"grid": 1}),
    "too many": (SCALARS, TAGS, [1, 2, 3, 4, 5], {"grid": 1}),
    "no name": (NONE, (), {}, {"grid": 1}),
    "a name of two": (TWICE, (), {"n": 1, "m": 1}, {"grid": 1}),
    "the other name": (TWICE, (), {"m": 1}, {"grid": 1}),
    "a value": (SCALARS, (), {"width": 1, "height": 2**31, "n": 1, "steps": 1}, {"grid": 1}),
    "a negative grid": (SCALARS, (), [1, 2, 3, 4], {"grid": -1}),
    "a grid of fractions": (SCALARS, (), [1, 2, 3, 4], {"grid": [1, 1.5]}),
    "neither": (SCALARS, (), [1, 2, 3, 4], {}),
    "both": (SCALARS, (), [1, 2, 3, 4], {"grid": [1, 2], "threads": 64}),
    "negative threads": (SCALARS, (), [1, 2, 3, 4], {"threads": [64, -1]}),
    "no number of threads": (SCALARS, (), [1, 2, 3, 4], {"threads": "64"}),
    "four numbers of threads": (SCALARS, (), [1, 2, 3, 4], {"threads": [1, 1, 1, 1]}),
    "threads without a block": (None, (), [1, 2], {"threads": 64}),
    "launch values and a grid": (SCALARS, TAGS, [1, 2, 3, 4, 1, 64], {"grid": 1}),
    "launch values and threads": (SCALARS, TAGS, [1, 2, 3, 4, 1, 64], {"threads": 1}),
    "another block": (SCALARS, (), [1, 2, 3, 4], {"grid": 1, "block": 32}),
}
RUN = """
const { DevmodError } = await import("./errors.js");
const { makePlan } = await import("./plan.js");
const { readShape } = await import("./shape.js");
const { ConversionError } = await import("./scalars.js");
return argument.map(({ info, args, options, block }) => {
  const plan = makePlan("f", info, "");
  try {
    const { values } = readShape(plan, args, options, block, 65535);
    plan.args.forEach(({ pack, number, name }) => {
      try {
        pack(values[number]);
      } catch (error) {
        throw new DevmodError(`${plan.description}: argument ${number + 1} '${name}': ${error.message}`, { argument: name });
      }
    });
    return null;
  } catch (error) {
    if (!(error instanceof DevmodError)) throw error;
    return [error.message, error.argument];
  }
});
"""


def info_of(params: list[Param] | None, tags: tuple[str, ...]) -> FunctionInfo:
    if params is None:
        return FunctionInfo("f", ["int32", "int32"], tags)
    return FunctionInfo(
        "f",
        [each.type for each in params],
        tags,
        (),
        Interface(params, [devmod.Block((0, 0), 64)], (64, 1, 1)),
    )


def in_javascript(info: FunctionInfo) -> dict[str, Any]:
    """Return the signature as the package reads it from a file."""
    known = info.interface
    interface = known and {
        "params": [
            {
                **each.to_dict(),
                "align": 0,
                "size": 0,
                "least": 0,
                "pack": [],
                "members": [
                    {"name": one.name, "type": one.type, "offset": one.offset}
                    | {"members": [], "size": one.size, "shape": [], "strides": []}
                    for one in each.members
                ],
            }
            for each in known.params
        ],
        "blocks": [each.to_dict() for each in known.blocks],
        "block": known.block,
        "extra": {},
    }
    return {
        "name": "f",
        "argTypes": info.arg_types,
        "launchParamTags": info.launch_param_tags,
        "argExtraTags": [],
        "interface": interface,
    }


@pytest.fixture(scope="module")
def refused() -> dict[str, Any]:
    """The errors of the package."""
    calls = [
        {
            "info": in_javascript(info_of(params, tags)),
            "args": args,
            "options": options,
            "block": (64, 1, 1) if params else None,
        }
        for params, tags, args, options in WRONG.values()
    ]
    return dict(zip(WRONG, run_in_node(RUN, calls), strict=True))


@pytest.mark.row("R34")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_have_the_messages_of_python(name: str, refused: dict[str, Any]) -> None:
    params, tags, args, options = WRONG[name]
    f = toy.module({"f": info_of(params, tags)})["f"]
    given, named = ((), args) if isinstance(args, dict) else (args, {})
    error = raised(devmod.ArgumentError, f, *given, **named, **options)
    assert refused[name] == [as_in_javascript(str(error)), error.argument]


def as_in_javascript(message: str) -> str:
    """Return a message of Python in the words of JavaScript: options have no equals sign, and
    numbers are not ints.
    """
    message = re.sub(
        r"\b(grid|threads|block)=(?![\w\[('-])",
        r"\1",
        message.replace("the toy function", "the webgpu function"),
    )
    return message.replace("an int, or up to three ints", "a number, or up to three numbers")


# -- records: the scalars of a block as one argument

VECTOR = [
    Param("n", "scalar", "int32", at=(0, 0)),
    Param("a", "scalar", "float32", at=(0, 4)),
    Param("v", "scalar", "float32x3", at=(0, 16)),
    Param("p", "scalar", "uint32", at=(1, 4)),
    Param(
        "view",
        "scalar",
        "uint8x8",
        at=(1, 8),
        align=4,
        members=[devmod.Member("on", "uint32"), devmod.Member("w", "float32", 4)],
    ),
    Param(
        "m",
        "scalar",
        "uint8x16",
        at=(1, 16),
        align=8,
        members=[devmod.Member("", "float32x2", shape=[2], strides=[8])],
    ),
    Param("rest", "scalar", "uint8x4", at=(1, 32), align=4),
]
BLOCKS = [
    devmod.Block((0, 0), 32, name="q"),
    devmod.Block((0, 1), 48, name="p"),
    devmod.Block((0, 2), 16, name="none"),
]
Q = {"n": 1, "a": 2, "v": [3, 4, 5]}
P = {"p": 6, "view": {"on": 7, "w": 8}, "m": [[1, 2], [3, 4]], "rest": [1, 2, 3, 4]}
OVERLAPPING = [Param("n", "scalar", "int32", at=(0, 0)), Param("m", "scalar", "int32", at=(0, 2))]
NAMELESS = [Param("", "scalar", "int32", at=(0, 0)), Param("", "scalar", "int32", at=(0, 4))]
WRONG_RECORDS: list[tuple[list[Param], dict[str, Any]]] = [
    *(
        (VECTOR, given)
        for given in (
            Q | {"q": Q} | P,
            {"q": Q, "n": 1} | P,
            {"n": 1, "q": Q, "p_": P},
            {"q": Q, "p_": P, "p": 6},
            {"q": Q},
            {"q": Q, "p": 6},
            {"qq": Q, "p_": P},
            {"none": {}, "q": Q, "p_": P},
            {"q": {**Q, "n": 0.5}, "p_": P},
            {"q": {**Q, "w": 1}, "p_": P},
            {"q": {"n": 1, "a": 2}, "p_": P},
            {"q": {}, "p_": P},
            {"q": 7, "p_": P},
            {"q": None, "p_": P},
            {"q": (1, 2), "p_": P},
            {"q": {**Q, "v": [1, 2]}, "p_": P},
            {"q": {**Q, "v": [1, 2, "3"]}, "p_": P},
            {"q": Q, "p_": {**P, "view": {"on": -1, "w": 0}}},
            {"q": Q, "p_": {**P, "m": [[1, 2], [3, "4"]]}},
            {"q": Q, "p_": {**P, "rest": [1, 2, 3]}},
        )
    ),
    (OVERLAPPING, {"q": {"n": 1, "m": 2}}),
    (NAMELESS, {"q": {"n": 1}}),
    (NAMELESS, {}),
]
RECORDS = """
const { makePlan } = await import("./plan.js");
const { readInterface } = await import("./interface.js");
const { readShape } = await import("./shape.js");
const { packBlocks } = await import("./arguments.js");
const { BlockBytes } = await import("./records.js");
const { DevmodError } = await import("./errors.js");
const map = (value) => {
  if (Number.isInteger(value)) return BigInt(value); // as msgpack is read
  if (Array.isArray(value)) return value.map(map);
  if (typeof value !== "object" || value === null) return value;
  return Object.assign(Object.create(null), Object.fromEntries(Object.entries(value).map(([key, each]) => [key, map(each)])));
};
const blocksOf = (known, args) => {
  const found = readInterface(map(known), (problem) => new Error(problem));
  const plan = makePlan("f", { name: "f", argTypes: [], launchParamTags: [], argExtraTags: [], interface: found }, "");
  const { values, shape } = readShape(plan, args, { grid: 1 }, null, 65535);
  const [scalars, contents] = [new Map(), new Map()];
  plan.args.forEach((argument, number) => {
    const value = values[number];
    if (value instanceof BlockBytes) contents.set(argument.block, value.bytes);
    else scalars.set(argument, argument.pack(value));
  });
  return packBlocks(plan, scalars, contents, shape).map(({ data }) => Buffer.from(data).toString("hex"));
};
"""


def known_of(params: list[Param]) -> Interface:
    return Interface(params, BLOCKS)


@pytest.mark.row("R34")
def test_a_record_has_the_bytes_of_its_members() -> None:
    """A block with the name of an argument has an underscore behind its name. Bytes are passed
    unchanged, with the padding.
    """
    body = """
    const [known, q, record] = argument;
    const p = { ...record, rest: Uint8Array.from(record.rest) }; // bytes by themselves, and a list in a record
    const data = Uint8Array.from({ length: 32 }, (_, at) => at);
    const given = [
      { ...q, ...p }, { q, p_: record }, { p_: Object.values(p), ...q }, { q: Object.values(q), ...p }, { q: { v: new Float32Array([3, 4, 5]), a: 2n, n: true }, p_: p },
      { q: data, ...p }, { ...p, q: data.buffer }, { q: new Float32Array(data.buffer), p_: p },
    ];
    return given.map((each) => blocksOf(known, each));
    """
    found = run_in_node(RECORDS + body, [known_of(VECTOR).to_dict(), Q, P])
    q = struct.pack("<if8x3f4x", 1, 2, 3, 4, 5).hex()
    p = struct.pack("<4xIIf4f4B12x", 6, 7, 8, 1, 2, 3, 4, 1, 2, 3, 4).hex()
    none = bytes(16).hex()
    assert found == [[q, p, none]] * 5 + [[bytes(range(32)).hex(), p, none]] * 3


@pytest.mark.row("R34")
def test_wrong_records_have_the_messages_of_python() -> None:
    body = """
    return argument.map(([known, args]) => {
      try {
        return blocksOf(known, args);
      } catch (error) {
        if (!(error instanceof DevmodError)) throw error;
        return [error.name, error.message, error.argument];
      }
    });
    """
    found = run_in_node(
        RECORDS + body, [[known_of(params).to_dict(), given] for params, given in WRONG_RECORDS]
    )
    for (params, given), refused in zip(WRONG_RECORDS, found, strict=True):
        info = FunctionInfo("f", [param.type for param in params], (), (), known_of(params))
        with pytest.raises(devmod.DevmodError) as caught:
            toy.module({"f": info})["f"](**given, grid=1, block=1)
        message = re.sub(
            r"record (\w+)=",
            r"record \1",
            str(caught.value).replace("the toy function", "the webgpu function"),
        )
        for words, others in (
            ("a mapping, a tuple or a NumPy record of", "a record or an array of"),
            ("a tuple of", "an array of"),
        ):
            message = message.replace(words, others)
        message = message.replace("None", "null").replace(
            "0.5 is a float, and int32 takes an int", "0.5 is not a whole number"
        )
        expected = [type(caught.value).__name__, message, getattr(caught.value, "argument", "")]
        assert refused == expected, given


def test_bytes_of_another_size_are_no_record() -> None:
    body = """
    const [known, q, p] = argument;
    return [new ArrayBuffer(28), new Float32Array(9), new DataView(new ArrayBuffer(0))].map((each) => {
      try {
        return blocksOf(known, { p_: p, q: each });
      } catch (error) {
        return [error.message, error.argument];
      }
    });
    """
    found = run_in_node(RECORDS + body, [known_of(VECTOR).to_dict(), Q, P])
    end = "cannot be passed as uint8x32, which has 32 bytes"
    listed = [("an ArrayBuffer", 28), ("a Float32Array", 36), ("a DataView", 0)]
    assert found == [
        [f"the webgpu function 'f' got an invalid record q: {name} of {size} bytes {end}", "q"]
        for name, size in listed
    ]


READ_TAGS = """
const { tagProblem, valueTags } = await import("./tags.js");
return argument.map((tags) => [valueTags(tags).map(({ tag, triple, axis }) => [tag, triple, axis]), tagProblem(tags)]);
"""


@pytest.mark.row("R35")
def test_launch_tags_are_those_of_python() -> None:
    listed = [
        *DIMENSIONS,
        COOPERATIVE_TAG,
        PROGRAMMATIC_TAG,
        REQUIRED_BLOCK_TAG,
        f"{WRITE_ACCESS_TAG}[1,0]",
        DYNAMIC_SHARED_MEMORY,
    ]
    wrong = [
        ["vthread.q"],
        ["blockIdx.x", "vthread"],
        ["blockIdx"],
        ["blockIdx.w"],
        ["blockIdx.xy"],
        ["x.blockIdx.x"],
        [""],
        ["tirx."],
    ]
    cases = [
        listed,
        listed[::-1],
        [*listed, DYNAMIC_SHARED_MEMORY],
        [DYNAMIC_SHARED_MEMORY],
        [],
        *wrong,
    ]
    expected = [
        [
            [[tag, *DIMENSIONS.get(tag, (len(SCOPES), 0))] for tag in value_tags(tags)],
            tag_problem(tags),
        ]
        for tags in cases
    ]
    assert run_in_node(READ_TAGS, cases) == expected
    assert [bool(problem) for _, problem in expected] == [
        False,
        True,
        True,
        False,
        False,
        *[True] * len(wrong),
    ]


def test_the_nearest_name_is_that_of_python() -> None:
    known = [
        "width",
        "height",
        "n",
        "steps",
        "step",
        "threads",
        "left",
        "top",
        "pixel",
        "alpha",
        "beta",
        "weights",
        "a",
        "b",
        "ab",
        "ba",
    ]
    unknown = [
        *known,
        "widht",
        "hieght",
        "stepss",
        "stpe",
        "with",
        "weight",
        "thread",
        "pixels",
        "ahpla",
        "",
        "N",
        "x" * 300,
        "tops",
        "aab",
    ]
    pairs = [(name, [each for each in known if each != name]) for name in unknown]
    pairs += [
        (one, [other])
        for one, other in itertools.permutations(filter(None, unknown), 2)
        if one != other
    ]
    found = run_in_node(
        'const { didYouMean } = await import("./near.js"); return argument.map((pair) => didYouMean(...pair));',
        pairs,
    )
    assert found == [did_you_mean(name, names) for name, names in pairs]
    assert len(set(found)) > 10
