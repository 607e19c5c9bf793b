"""Valid and nearly valid files, made by structure: each part of each map of docs/formats.md is left
out, doubled or replaced, and the digests are right.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from fuzzing import seeds
from fuzzing.mutation import Pairs, _json_text, copy_tree, pack, pack_all, split_bundle, unpack_all
from handmade import aligned, blobs_of, headed, row

#: Values at limits, beyond them, and of other types.
VALUES: list[Any] = [
    *(None, False, True, 0, 1, -1, 2, 63, 64, 255, 256, 65535, 65536, 2**31, 2**32 - 1, 2**32),
    *(2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**31) - 1, 10**9, 10**9 + 1),
    *(0.0, 1.0, 2.0, -0.0, 0.5, 1e-300, 1e300, float("nan"), float("inf")),
    *("", "x", "n", "BLOCK", "toString", "__proto__", "int32", "float32x2", "uint1", "handle"),
    *("r", "push", "buffer", "later", "tuned", "é", "if", "min", "\ufeffx", "\udcff", "a" * 1025),
    *(b"", b"x", bytes(32), [], [0], [0, 0], [1, 2, 3], ["n"], [[]], ["+", "n", 1], Pairs()),
    *(Pairs([("per_thread", 1)]), Pairs([("value", 0)]), Pairs([("later", 1)])),
    *(msgpack.ExtType(1, bytes(4)), list(range(17))),
]
Tree = Any
#: A change of an item of an array or a map.
Change = Callable[[list[Any], int], None]

_BUFFER = [3, 64, 1]
_PLAIN = ["g", [_BUFFER], ["blockIdx.x"], [-1]]
_PARAMS: list[dict[str, Any]] = [
    {"name": "x", "kind": "buffer", "type": "float32x2", "access": "rw", "at": [0, 1], "size": 64},
    {"name": "n", "kind": "scalar", "type": "uint32", "default": {"value": 7}, "at": [1, 4]},
    {"name": "m", "kind": "scalar", "type": "int64", "at": 3},
]
_POINT = [
    {"name": "a", "type": "float32x3", "offset": 0, "shape": [2], "strides": [16]},
    {"name": "b", "offset": 32, "size": 8, "members": [{"name": "c", "type": "bool", "offset": 1}]},
]
_MORE = [
    {"name": "s", "kind": "uniform", "type": "uint8x48", "align": 16, "members": _POINT},
    {"name": "v", "kind": "buffer", "type": "int8", "access": "r"}
    | {"pack": ["ptr:handle", "count:int64", "shape0:int32", "stride0:uint64"]},
    {"name": "i", "kind": "image", "type": "2d", "access": "w", "format": "r8unorm"}
    | {"sample": "float"},
    {"name": "l", "kind": "local", "type": "float32", "default": {"per_thread": 4}},
    {"name": "t", "kind": "sampler"},
]
_INTERFACE: dict[str, Any] = {
    "params": _PARAMS + _MORE,
    "blocks": [{"at": [2, 0], "size": 16, "name": "u"}, {"at": "push", "size": 8}],
    "block": [64, 1, 1],
    "default_block": [32, 2, 1],
    "open_block": True,
    "shared_memory": {"per_thread": 4},
    "needs": ["fp16", "images"],
    "subgroup": 32,
    "max_threads": 256,
    "later": {"a": [1.5]},
}
_TUNE: dict[str, Any] = {
    "constants": ["BLOCK", "MODE"],
    "variants": [
        {"values": [64, 0.5]},
        {"values": [128, True], "block": [["//", "BLOCK", 2], 2], "grid": ["n", 1, "m"]},
        {"values": [32, "fast"], "interface": {"params": _PARAMS, "block": [8, 1, 1]}},
    ],
    "specialized": True,
    "sizes": ["n", "m"],
    "grid": [["ceildiv", "n", "BLOCK"], ["max", "m", 1, ["-", "BLOCK", 40]]],
    "block": ["BLOCK"],
    "later": 1,
}
_CONSTANTS = {"c": [[2, 16, 2], [3, 1], bytes(12)], "d": [[1, 1, 1], [], b"\1"]}
_RECORDS: list[dict[str, Any]] = [
    {"kind": "opencl", "platform": "p", "device": "d", "driver": "1", "arch": "a"}
    | {"constants": ["B", "M"], "sizes": ["n"]}
    | {"measured": [{"sizes": [9], "times": [[[64, "x"], 0.5, 7, 0.25], [[1, True], None]]}]},
    {"kind": "cuda", "measured": [{"sizes": [], "times": [[[], False]]}]},
]


class Sample(NamedTuple):
    """A valid value by its name, and what writes a file with it or with a changed one."""

    name: str
    tree: Tree
    write: Callable[[Tree, Random | None], bytes]


def _tree(value: Any) -> Tree:
    """Return a value with Pairs for its maps."""
    if isinstance(value, dict):
        return Pairs([[key, _tree(each)] for key, each in value.items()])
    if isinstance(value, list):
        return [_tree(each) for each in value]
    return value


def _record(data: bytes, **fields: Any) -> dict[str, Any]:
    return fields | {"size": len(data), "sha256": hashlib.sha256(data).digest()}


def _names(functions: Any) -> list[Any]:
    """Return the names in a map of functions, as far as it is one."""
    if not isinstance(functions, Pairs):
        return []
    return [key for key, _ in functions if isinstance(key, str)]


def _file(data: bytes, record: dict[str, Any], attached: bytes | None = None) -> bytes:
    """Return a file with one module, and with an attachment of its function `f`."""
    blobs = data
    page: dict[str, Any] = {"modules": [_record(data, **record, rank=0)]}
    if attached is not None:
        blobs = data.ljust(aligned(len(data)), b"\0") + attached if attached else data
        page["attached"] = [_record(attached, function="f", tag="tuning+")]
    packed = pack(_tree(page))
    return headed({"candidates": 1, "pages": [row(packed, 1, len(blobs))]}, packed, blobs)


def _module(name: str, kind: str, fields: list[Any]) -> Sample:
    """Return a sample of a module's bytes."""

    def write(tree: Tree, random: Random | None) -> bytes:
        return file_of_module(kind, pack_all(tree, random))

    return Sample(name, _tree(fields), write)


def file_of_module(kind: str, data: bytes) -> bytes:
    """Return a file with a module's bytes, and with their functions and format in the index."""
    record: dict[str, Any] = {"kind": kind}
    try:
        fields = unpack_all(data)
    except ValueError:
        fields = []
    at = 1
    if kind == "webgpu":
        at = 0
        record["format"] = "wgsl"
    elif kind != "const_loader" and fields and isinstance(fields[0], str):
        record["format"] = "spv" if fields[0] == "vulkan" else fields[0]
    if names := _names([*fields, None, None][at]):
        record["functions"] = names
    return _file(data, record)


def _function(name: str, tree: Any, items: Callable[[Any], list[Any]]) -> Sample:
    """Return a sample of a part of a function `f`; the function `g` beside it is valid."""

    def write(changed: Tree, random: Random | None) -> bytes:
        functions = Pairs([["f", items(changed)], ["g", _PLAIN]])
        record = {"kind": "webgpu", "format": "wgsl", "functions": ["f", "g"]}
        fields = [functions, Pairs([["f", b"// f"], ["g", b"// g"]])]
        return _file(pack_all(fields, random), record)

    return Sample(name, _tree(tree), write)


def _program(name: str) -> Sample:
    """Return a sample of a program of the golden file: its interface and its steps."""
    path = seeds.ROOT / "tests" / "golden" / "v1" / "program.bytes"
    _, functions, codes = unpack_all(path.read_bytes())
    info, code = (dict(each)[name] for each in (functions, codes))

    def write(tree: Tree, random: Random | None) -> bytes:
        interface, steps = (*tree, None, None)[:2]
        codes = Pairs([[name, pack(steps, random)]])
        fields = ["steps1", Pairs([[name, [*info[:4], interface]]]), codes]
        record = {"kind": "program", "format": "steps1", "functions": [name]}
        return _file(pack_all(fields, random), record)

    lists = Pairs([list(pair) for pair in info[4]]), unpack_all(code)[0]
    return Sample(f"program {name}", copy_tree(list(lists)), write)


def _index(name: str, data: bytes) -> Sample:
    """Return a sample of the head and the pages of a file."""
    head, pages, _ = split_bundle(data)
    blobs = blobs_of(data)

    def write(tree: Tree, random: Random | None) -> bytes:
        parts = tree or [None]
        packed = [pack(each, random) for each in parts[1:]]
        top = copy_tree(parts[0])
        rows: Any = dict(top).get("pages") if isinstance(top, Pairs) else None
        for each, page in zip(rows if type(rows) is list else [], packed, strict=False):
            if type(each) is list and len(each) >= 4:
                each[1], each[3] = len(page), hashlib.sha256(page).digest()
        whole = headed(pack(top, random), b"".join(packed))
        align = dict(top).get("align") if isinstance(top, Pairs) else None
        if type(align) is not int or not 64 <= align <= 65536:
            align = 64
        return whole.ljust(-(-len(whole) // align) * align, b"\0") + blobs

    trees = [_tree(head), *(unpack_all(page)[0] for page in pages)]
    return Sample(f"index {name}", copy_tree(trees), write)


@cache
def samples() -> tuple[Sample, ...]:
    """Return all samples of files."""
    types = [_BUFFER, [1, 32, 1], [0, 64, 1]]
    more = [[1, 8, 48], _BUFFER, [0, 64, 1], [0, 32, 1], [1, 64, 1], *[_BUFFER] * 3]
    own = {"params": _PARAMS, "needs": ["tuned"]}
    function = ["k", types, ["threadIdx.x"], [1], {**own, "needs": ["fp16"]}]
    tuned = [*function[:4], own, _TUNE]
    both = {"f": function, "größe": tuned}

    def with_tune(interface: Tree) -> list[Any]:
        return ["k", types, [], [], interface, _tree(_TUNE)]

    found = [
        _function("interface", _INTERFACE, lambda tree: ["k", types + more, [], [], tree]),
        _function("tune", _TUNE, lambda tree: ["k", types, [], [], _tree(own), tree]),
        _function("tuned interface", own, with_tune),
        _function("needs", {**own, "needs": ["later", "tuned"]}, with_tune),
        _module("opencl", "opencl", ["cl", both, b"// k"]),
        _module("vulkan", "vulkan", ["vulkan", both, {"k": struct.pack("<IQI", 0, 1, 7)}]),
        _module("webgpu", "webgpu", [both, {"f": b"// f"}]),
        _module("constants", "const_loader", [_CONSTANTS, {"init": ["d", "c"]}]),
        _program("twice"),
        _program("show"),
        _attachment(),
    ]
    for path in sorted((seeds.ROOT / "tests" / "golden" / "v1").glob("*.devmod")):
        if path.stem != "library":
            found.append(_index(path.stem, path.read_bytes()))
    found += [_index(f"pages {at}", each) for at, each in enumerate(seeds.lookups())]
    later = seeds.ROOT / "tests" / "golden" / "later"
    for name in ("sections", "of-a-part", "two-features"):
        found.append(_index(name, (later / f"{name}.devmod").read_bytes()))
    return tuple(found)


def _attachment() -> Sample:
    code = b"\xa2cl\x81\xa1f\x94\xa1k\x90\x90\x90\xc4\x01x"
    record = {"kind": "opencl", "format": "cl", "functions": ["f"]}

    def write(tree: Tree, random: Random | None) -> bytes:
        return _file(code, record, pack(tree, random))

    return Sample("tuning records", _tree(_RECORDS), write)


@cache
def json_samples() -> tuple[Sample, ...]:
    """Return the samples of files of JSON: metadata, and tuning records."""
    named = [each | {"function": "f"} for each in _RECORDS]
    found = [_json("tuning file", {"devmod_tuning": 1, "records": named})]
    own = {"params": _PARAMS, "needs": ["tuned"], "tune": _TUNE}
    info: dict[str, Any] = {"name": "k", "arg_types": ["handle", "uint32", "int64"]}
    info["interface"] = own
    info |= {"launch_param_tags": ["blockIdx.x"], "arg_extra_tags": [1]}
    info["thread_axis_tags"] = info["launch_param_tags"]
    found.append(_json("metadata", {"func_info": {"f": info}, "shader": "f"}))
    return tuple(found)


def _json(name: str, value: Any) -> Sample:
    def write(tree: Tree, _: Random | None) -> bytes:
        return _json_text(_without_types(tree)).encode("utf-8", "surrogatepass")

    return Sample(name, _tree(value), write)


def _without_types(tree: Tree) -> Tree:
    """Return a tree without what JSON cannot have."""
    if isinstance(tree, (bytes, tuple)):
        return "x"
    if isinstance(tree, str):
        return tree.replace("\udcff", "\\")
    if isinstance(tree, Pairs):
        return Pairs([[key, _without_types(each)] for key, each in tree])
    return [*map(_without_types, tree)] if isinstance(tree, list) else tree


@cache
def all_samples() -> tuple[Sample, ...]:
    """Return the samples of files of each form."""
    return (*samples(), *json_samples())


def choose(random: Random) -> Sample:
    """Return a sample: of an index one time in a few, since many files have one."""
    maps = [each for each in all_samples() if not each.name.startswith("index")]
    return random.choice(maps if random.randrange(4) else all_samples())


# -- changes


def places(tree: Tree, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield the path to each item of each array and map."""
    if not isinstance(tree, list):
        return
    for at, each in enumerate(tree):
        yield (*path, at)
        value = each[1] if isinstance(tree, Pairs) else each
        yield from places(value, (*path, at))


def _owner(tree: Tree, path: tuple[int, ...]) -> list[Any]:
    """Return the array or map of an item."""
    for at in path[:-1]:
        tree = tree[at][1] if isinstance(tree, Pairs) else tree[at]
    owner: list[Any] = tree
    return owner


def _with(tree: Tree, path: tuple[int, ...], change: Change) -> Tree:
    """Return a copy of a tree with a change of an item of an array or a map."""
    result = copy_tree(tree)
    change(_owner(result, path), path[-1])
    return result


def _drop(owner: list[Any], at: int) -> None:
    del owner[at]


def _double(owner: list[Any], at: int) -> None:
    owner.insert(at, copy_tree(owner[at]))


def _swap(owner: list[Any], at: int) -> None:
    owner[at], owner[at - 1] = owner[at - 1], owner[at]


def _set(value: Any) -> Change:
    def change(owner: list[Any], at: int) -> None:
        owner[at] = [owner[at][0], value] if isinstance(owner, Pairs) else value

    return change


def _rename(key: Any) -> Change:
    def change(owner: list[Any], at: int) -> None:
        owner[at] = [key, owner[at][1]] if isinstance(owner, Pairs) else key

    return change


def near(value: Any) -> list[Any]:
    """Return values like another one."""
    if type(value) is bool:
        return [int(value), not value]
    if type(value) is int:
        return [value + 1, value - 1, -value, 0, True, float(value), str(value), [value]]
    if isinstance(value, float):
        return [-value, value + 1]
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        return [f"{value}x", value[:-1], f"{value}2", f" {value}", value.upper(), data]
    if isinstance(value, bytes):
        return [value + b"\0", value[:-1], value.decode("latin-1")]
    if isinstance(value, Pairs):
        return [Pairs([*value, ["later", 1]]), Pairs(value[::-1]), [*value]]
    return [[*value, 0], value[::-1]] if isinstance(value, list) else []


def changes(tree: Tree, path: tuple[int, ...]) -> list[list[Change]]:
    """Return the changes of an item: those of the structure, to values like it, and to others."""
    owner = _owner(tree, path)
    item = owner[path[-1]]
    structure: list[Change] = [_drop, _double, _swap]
    if isinstance(owner, Pairs):
        structure += map(_rename, ("later", "__proto__", f"{item[0]}x", 1, owner[0][0]))
        item = item[1]
    return [structure, [*map(_set, near(item))], [*map(_set, VALUES)]]


def every(sample: Sample) -> Iterator[Tree]:
    """Yield each tree with one change."""
    for path in places(sample.tree):
        for change in chain.from_iterable(changes(sample.tree, path)):
            yield _with(sample.tree, path, change)


def changed(tree: Tree, random: Random) -> Tree:
    """Return a tree with one change, or with a few."""
    for _ in range(random.choice((1, 1, 2, 2, 3))):
        paths = [*places(tree)]
        if not paths:
            break
        path = random.choice(paths)
        options = [each for each in changes(tree, path) if each]
        tree = _with(tree, path, random.choice(random.choice(options)))
    return tree


def smallest(tree: Tree, differs: Callable[[Tree], bool]) -> Tree:
    """Return a tree without what a difference does not need."""
    for path in sorted(places(tree), key=len):
        for change in (_drop, _set(0), _set("")):
            smaller = _with(tree, path, change)
            if len(repr(smaller)) < len(repr(tree)) and differs(smaller):
                return smallest(smaller, differs)
    return tree
