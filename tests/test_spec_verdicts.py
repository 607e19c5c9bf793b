"""devmod and the second reader have one verdict of what a writer of another project may get
wrong.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from stored import Raw

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from browser_driver import run_in_node  # noqa: E402

import golden_later  # noqa: E402
from fuzzing import differential, specification  # noqa: E402
from handmade import head_of, pages_of, with_pages  # noqa: E402

spec_reader = specification.spec_reader()
ACCESS = {"input": "r", "output": "w", "constant": "r", "state": "rw", "temporary": "rw"}


def packed(*values: Any) -> bytes:
    return b"".join(map(msgpack.packb, values))


def second_refuses(read: Callable[[], object]) -> bool:
    try:
        read()
    except spec_reader.SpecError:
        return True
    return False


# -- programs


def array(name: str, role: str, *shape: Any, **fields: Any) -> dict[str, Any]:
    """Return the declaration of an array of float32."""
    given = {"name": name, "kind": "buffer", "type": "float32", "role": role, "shape": [*shape]}
    return {**given, "access": ACCESS.get(role, ""), **fields}


def scalar(type_: str, value: Any = None, **fields: Any) -> dict[str, Any]:
    given = {"name": "a", "kind": "scalar", "type": type_, "role": "input", "value": value}
    return {**given, **fields}


def sampler(**fields: Any) -> dict[str, Any]:
    given = {"name": "how", "kind": "sampler", "role": "sampler"}
    return {**given, "filter": "linear", "address": "clamp", **fields}


X = array("x", "input", "n")
IMAGE = array("i", "input", "h", "w") | {
    "kind": "image",
    "type": "2d",
    "format": "rgba8unorm",
    "sample": "float",
}
FIRST = array("c", "constant", 4)
#: Declarations beside that of `x`, and whether a program can have them.
DECLARATIONS: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "a state": ([array("s", "state", "m"), array("t", "temporary", "m")], True),
    "a state of an image": ([IMAGE | {"role": "state", "access": "rw"}], False),
    "a state that is read alone": ([array("s", "state", "m", access="r")], False),
    "the name state": ([array("state", "temporary", 4)], True),
    "the name state beside a state": ([array("state", "temporary", 4), array("s", "state")], False),
    "a first value": ([FIRST, array("s", "state", 4, initial="c")], True),
    "a first value of another shape": ([FIRST, array("s", "state", 5, initial="c")], False),
    "a first value of another type": (
        [FIRST, array("s", "state", 4, initial="c", type="int32")],
        False,
    ),
    "a first value that is an input": ([array("s", "state", "n", initial="x")], False),
    "a first value that is missing": ([array("s", "state", 4, initial="c")], False),
    "a first value of a temporary": ([FIRST, array("t", "temporary", 4, initial="c")], False),
    "a first value that is no text": ([array("s", "state", 4, initial=1)], False),
    "no dimension": ([array("t", "temporary")], True),
    "no shape": ([array("t", "temporary", shape=None)], False),
    "an image of one dimension": ([IMAGE | {"shape": ["h"]}], False),
    "an unknown role": ([array("t", "later", 4)], False),
    "an unknown role of a scalar": ([scalar("int32", role="later")], False),
    "a sampler": ([sampler()], True),
    "an unknown role of a sampler": ([sampler(role="later")], False),
    "a sampler that is an input": ([sampler(role="input")], False),
    "an int that is no float16": ([scalar("float16", 65520)], False),
    "the largest int that is a float16": ([scalar("float16", 65519)], True),
    "a float that is no float32": ([scalar("float32", -3.5e38)], False),
    "a float that is no bfloat16": ([scalar("bfloat16", 511 * 2.0**119)], False),
    "the largest float of a bfloat16": ([scalar("bfloat16", 3.396e38)], True),
    "an infinite float": ([scalar("float16", float("inf"))], True),
    "no number": ([scalar("float32", float("nan"))], True),
}
#: Arguments of a step, and whether a step can have them.
ARGUMENTS: dict[str, tuple[Any, bool]] = {
    "a view": (["view", "x", "uint8"], True),
    "a view of bits": (["view", "x", "uint1"], True),
    "a view of nothing": (["view", "y", "uint8"], False),
    "a view of a length": (["view", "n", "uint8"], False),
    "a view of half a byte": (["view", "x", "int4"], False),
    "a view of lanes": (["view", "x", "float32x2"], False),
    "a view of addresses": (["view", "x", "handle"], False),
    "a view of an unknown type": (["view", "x", "number"], False),
    "a view in an expression": (["+", ["view", "x", "uint8"], 1], False),
    "a view with more": (["view", "x", "uint8", 1], False),
}
#: The needs of a program, and whether a reader uses it.
NEEDS: dict[str, tuple[list[str], bool]] = {
    "no need": ([], True),
    "repeats": (["repeat"], True),
    "variants": (["tuned"], False),
    "a need of a kernel": (["fp16", "repeat"], False),
}


def program(
    declared: list[dict[str, Any]] | None = None, argument: Any = "x", **interface: Any
) -> bytes:
    """Return the bytes of a module with one program of one step."""
    params = [X, *(declared or [])]
    types = [[3, 64, 1]] * len(params)
    fields = {"params": params, "kernels": ["k"], **interface}
    code = packed({"steps": [["k", {"x": argument}, {}]]})
    return packed("steps1", {"p": ["p", types, [], [], fields]}, {"p": code})


CASES = {
    **{name: (program(declared), good) for name, (declared, good) in DECLARATIONS.items()},
    **{name: (program(None, argument), good) for name, (argument, good) in ARGUMENTS.items()},
    **{name: (program(needs=needs), good) for name, (needs, good) in NEEDS.items()},
}


@pytest.mark.row("R45")
@pytest.mark.parametrize("name", CASES)
def test_a_program_has_one_verdict(name: str) -> None:
    data, is_good = CASES[name]
    differential.compare_module("program", data)
    found = spec_reader.read_module("program", data)
    (info,) = found["functions"].values()
    refused = second_refuses(lambda: spec_reader.read_program("p", info, found["code"]["p"]))
    assert refused is not is_good


# -- functions

IN_JAVASCRIPT = """
const { decode } = await import("./wire.js");
return argument.map((text) => {
  const { functions } = decode("webgpu", new Uint8Array(Buffer.from(text, "base64")), [], 0);
  return [...functions].map(([name, { error }]) => [name, error?.message ?? ""]);
});
"""


def deep(count: int) -> Any:
    """Return a value in so many arrays."""
    value: Any = 1
    for _ in range(count):
        value = [value]
    return value


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize("item", ["interface", "tune"])
def test_a_function_that_is_nested_too_deeply_is_refused_alone(item: str) -> None:
    tune = {"constants": ["B"], "variants": [{"values": [1]}], "text": "x" * 400}
    files = []
    for count in (31, 32):
        later = {"later": deep(count)}
        items: list[Any] = [{"needs": ["tuned"]}, tune | later]
        if item == "interface":
            items = [later]
        functions = {"f": ["f", [], [], [], *items], "g": ["g", [[0, 32, 1]], [], []]}
        data = packed(functions, {"f": b"f", "g": b"g"})
        module = devmod.loads(devmod.dumps(Raw("webgpu", data, "wgsl", ("f", "g"))))
        assert module.functions["g"].arg_types == ("int32",)
        found = spec_reader.read_module("webgpu", data)["functions"]
        assert [name for name in found if "damaged" in found[name]] == ["f"] * (count - 31)
        files.append((data, module))

    problem = f"fmap of 'f', {item}: arrays and maps are nested more than 32 deep"
    (_, good), (_, bad) = files
    assert good.functions["f"].name == "f"
    with pytest.raises(devmod.FormatError, match=problem):
        bad.functions["f"]
    both = run_in_node(IN_JAVASCRIPT, [b64encode(data).decode() for data, _ in files])
    assert both[0] == [["f", ""], ["g", ""]]
    (_, text), other = both[1]
    assert problem in text
    assert other == ["g", ""]


# -- metadata


@pytest.mark.row("R22", "R50")
def test_metadata_with_a_newer_function_has_one_verdict() -> None:
    later = {"params": [{"name": "x", "kind": "tensor"}]}
    for needs, newer in (["fp16", "later"], ["later"]), (["fp16"], None):
        fields = {"name": "f", "arg_types": ["handle"], "interface": {**later, "needs": needs}}
        data = json.dumps({"func_info": {"f": fields}}).encode()
        differential.compare(data)
        if newer is None:
            assert second_refuses(lambda data=data: spec_reader.read_metadata(data))
            continue
        function = spec_reader.read_metadata(data)["functions"]["f"]
        assert (function["newer"], function["arg_types"]) == (newer, ["handle"])


@pytest.mark.row("R22")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_the_encoding_of_metadata_has_one_verdict(encoding: str) -> None:
    data = '{"func_info": {"f": {"name": "f", "arg_types": []}}}'.encode(encoding)
    differential.compare(data)
    refused = second_refuses(lambda: spec_reader.read_metadata(data))
    assert refused is (encoding != "utf-8")


# -- files


@pytest.mark.row("R41", "R50")
def test_the_bytes_of_a_record_with_unknown_features_have_their_digest() -> None:
    for name in ("of-a-kind", "other-limits"):
        data = (ROOT / "tests" / "golden" / "later" / f"{name}.devmod").read_bytes()
        spec_reader.read_bundle(data)
        damaged = data.replace(golden_later.LATER, golden_later.LATER[::-1])
        with pytest.raises(spec_reader.SpecError, match="the digest of the bytes"):
            spec_reader.read_bundle(damaged)


@pytest.mark.row("R19")
@pytest.mark.parametrize(("kind", "is_good"), [("vulkan", True), ("opencl", False)])
def test_vulkan_is_another_name_of_spv_for_one_kind_alone(kind: str, is_good: bool) -> None:
    shader: Any = b"code"
    if kind == "vulkan":
        shader = {"f": bytes(12)}
    data = packed("vulkan", {"f": ["f", [], [], []]}, shader)
    saved = devmod.dumps(Raw(kind, data, "spv", ("f",)))
    specification.compare_bundle(saved)
    assert second_refuses(lambda: spec_reader.read_bundle(saved)) is not is_good


@pytest.mark.row("R19")
@pytest.mark.parametrize("origin", ["x", {"target": 1}, {"later": [[]]}])
def test_the_origin_of_a_node_without_bytes_is_ignored(origin: Any) -> None:
    kernel = Raw("opencl", packed("cl", {"f": ["f", [], [], []]}, b"code"), "cl", ("f",))
    data = devmod.dumps(devmod.bundle(kernel))
    (page,) = pages_of(data)
    head = head_of(data)
    head["pages"][0][0] += 1
    modules = [*page["modules"], {"kind": "bundle", "imports": [0], "origin": origin}]
    changed = with_pages(data, {**head, "roots": [1]}, [{**page, "modules": modules}])
    specification.compare_bundle(changed)
    assert spec_reader.read_bundle(changed)["candidates"] == [0]
