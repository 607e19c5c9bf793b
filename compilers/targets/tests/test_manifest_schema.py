"""The JSON schema of manifests, compared with the validator: on every key, on valid and invalid
manifests, and on random ones.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from each_case import check_each
from hypothesis import given
from hypothesis import strategies as st

from devmod.backend import COMPRESS_LEVELS
from devmod_targets.build import ManifestError, read
from devmod_targets.build.document import Document
from devmod_targets.build.skeleton import schema_text

SCHEMA: dict[str, Any] = json.loads(schema_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

#: A manifest with every key.
FULL: dict[str, Any] = {
    "output": "kernels.devmod",
    "targets": ["opencl", "cuda -arch=sm_90"],
    "options": ["-O2"],
    "defines": {"A": 1, "F(x)": "x", "B": True, "C": 1.5},
    "include": ["include", "../include"],
    "aliases": {"a": ["b", "c"]},
    "target": {
        "cuda": {
            "options": ["-a"],
            "defines": {"D": ""},
            "include": ["own"],
            "aliases": {"a": ["d"]},
        }
    },
    "mixed": True,
    "with_sources": False,
    "strict": True,
    "tune_records": ["records.json", "../own/records.json"],
    "triton_records": ["kernels.json", "../own/kernels.json"],
    "compress": "zstd:19",
    "constants": {
        "files": [
            "w.npy",
            "W.NPZ",
            {"path": "m.safetensors", "names": ["a"]},
            {"path": "v.npy", "name": "b"},
        ],
        "functions": {"load": ["w"]},
    },
    "programs": {
        "p": {
            "inputs": ["x: float32[n]"],
            "outputs": ["y: float32[n]"],
            "updates": ["state: float32[n]"],
            "temporaries": ["sums: float32[n] = 0"],
            "constants": ["w: float32[n]"],
            "states": ["cache: float32[128] = 0"],
            "samplers": ["linear: linear clamp"],
            "requires": ["n % 4 == 0"],
            "steps": [
                "twice(x=x)",
                {"repeat": 2, "name": "i", "steps": ["twice(x=x)"]},
                {
                    "repeat": "n",
                    "name": "i",
                    "steps": [{"repeat": 2, "name": "j", "steps": ["twice(x=x)"]}],
                },
            ],
            "backward": "p",
        }
    },
    "kernels": {
        "twice": {
            "sources": ["twice.cl", {"path": "k.inc", "language": "OpenCL C", "name": "k"}],
            "language": "cl",
            "name": "twice",
            "options": ["-O2"],
            "defines": {"A": 2},
            "include": ["include"],
            "name_expressions": ["scale<float>"],
            "functions": {
                "a": {
                    "name": "_Z1a",
                    "arg_types": ["handle"],
                    "launch_param_tags": ["blockIdx.x"],
                    "arg_extra_tags": [1],
                },
                "b": {
                    "params": [{"name": "x", "kind": "buffer", "type": "float32", "access": "rw"}]
                },
                "c": {"interface": {"params": []}},
            },
            "block": [16, 4],
            "local": {"s": 4, "t": "4/thread", "f": {"u": 8}},
            "shared_memory": {"f": 4, "g": "4/thread"},
            "aliases": {"a": []},
            "subgroup": 32,
            "tune": {"BLOCK": [64, 128], "FAST": [True], "MODE": ["x", 0.5]},
            "constraints": ["BLOCK <= 512"],
            "sizes": ["n"],
            "grid": {"f": ["ceildiv(n, BLOCK)", 1]},
            "targets": ["opencl"],
            "skip": ["cuda"],
            "target": {
                "opencl": {
                    "sources": ["a.cl"],
                    "language": "cl",
                    "name": "a",
                    "options": ["-x"],
                    "defines": {"A": 3},
                    "include": ["own"],
                    "name_expressions": ["f<int>"],
                    "functions": {"a": {"arg_types": []}},
                    "block": {"f": 64},
                    "local": {"s": 4},
                    "shared_memory": "4/thread",
                    "aliases": {"a": ["b"]},
                    "subgroup": 16,
                    "tune": {"BLOCK": [32]},
                    "constraints": [],
                    "sizes": [],
                    "grid": "n",
                }
            },
        }
    },
}


@pytest.fixture(autouse=True, scope="module")
def shape_alone() -> Iterator[None]:
    """Leave out the checks that a schema cannot have: kinds, files, and which source a target
    takes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read.Checks, "run", lambda self: None)
        yield


def mistakes(data: dict[str, Any]) -> list[str]:
    try:
        read.manifest_of(Document("devmod.toml", "", data))
    except ManifestError as error:
        return [f"{each.key}: {each.text}" for each in error.problems]
    return []


def agree(data: dict[str, Any]) -> bool:
    """Return whether both accept or refuse a manifest; assert that they do."""
    error = next(VALIDATOR.iter_errors(data), None)
    found = mistakes(data)
    assert (error is not None) == bool(found), (error, found)
    return error is None


def test_the_schema_is_valid_and_takes_a_manifest_with_every_key() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert agree(FULL)
    assert keys_of(FULL) == keys_of(SCHEMA["properties"], SCHEMA)


def keys_of(data: Any, schema: dict[str, Any] | None = None) -> set[str]:
    """Return the fixed keys of a manifest, or of the schema. The keys of the user are left out."""
    if schema is not None:
        defs = schema["$defs"]
        tables = [
            data,
            *(
                defs[name]["properties"]
                for name in ("common", "section", "kernel", "function", "constants", "program")
            ),
        ]
        tables.append(defs["step"]["anyOf"][1]["properties"])
        return {key for table in tables for key in table} | {"path", "names"}
    result: set[str] = set()
    free = (
        "kernels",
        "target",
        "functions",
        "defines",
        "local",
        "shared_memory",
        "aliases",
        "tune",
        "grid",
        "block",
        "params",
        "interface",
    )
    for key, value in data.items():
        result.add(key)
        tables = (
            list(value.values())
            if isinstance(value, dict)
            else value
            if isinstance(value, list)
            else []
        )
        if key in ("kernels", "target", "functions", "programs"):
            result = result.union(*(keys_of(each) for each in tables if isinstance(each, dict)))
        elif key not in free:
            parts = [value] if isinstance(value, dict) else tables
            result = result.union(*(keys_of(each) for each in parts if isinstance(each, dict)))
    return result


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    ):
        yield (*path, key)
        yield from places(value, (*path, key))


def few_keys(path: tuple[Any, ...]) -> tuple[dict[str, Any], Any]:
    """Return a valid manifest with a place of `FULL` and little else, and the table of the place.

    jsonschema takes long for each key.
    """
    top, *_ = path
    names = {"sources", *path[2:3]}
    twice = {name: each for name, each in FULL["kernels"]["twice"].items() if name in names}
    data = {"targets": ["opencl"], top: FULL[top], "kernels": {"twice": twice}}
    data = table = copy.deepcopy(data)
    assert agree(data)
    for key in path[:-1]:
        table = table[key]
    return data, table


def test_each_key_is_refused_alike_with_another_type() -> None:
    check_each((path for path in places(FULL) if "opencl" not in path), check_other_types)


def check_other_types(path: tuple[Any, ...]) -> None:
    refused = 0
    data, table = few_keys(path)
    for value in (0, " ", "x", True, [], [0], {}, {"x": "y"}):
        table[path[-1]] = value
        refused += not agree(data)
    assert refused > 0


@pytest.mark.parametrize(
    "value", ["", *filter(None, COMPRESS_LEVELS), "zstd:0", "zstd:23", "zstd:01", "lzma"]
)
def test_the_compressions_are_those_of_a_save(value: str) -> None:
    assert agree({**FULL, "compress": value}) == (value == "" or value in COMPRESS_LEVELS)


def test_each_key_is_required_alike() -> None:
    check_each((path for path in places(FULL) if isinstance(path[-1], str)), check_without_key)


def check_without_key(path: tuple[Any, ...]) -> None:
    data, table = few_keys(path)
    last = path[-1]
    table[f"{last}x"] = table.pop(last)
    agree(data)
    del table[f"{last}x"]
    agree(data)


_junk = st.sampled_from(
    [
        0,
        1,
        -1,
        1.5,
        True,
        False,
        "",
        " ",
        "x",
        "a/b.cl",
        "zstd",
        [],
        ["x"],
        [1, 2],
        [[1]],
        {},
        {"x": "y"},
        {"path": "w.npy"},
    ]
).map(copy.deepcopy)  # a later change of the same manifest may be one of this value


@given(st.data())
def test_random_changes_are_judged_alike(data: st.DataObject) -> None:
    manifest = copy.deepcopy(FULL)
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(list(places(manifest)) or [("targets",)]))
        table: Any = manifest
        for key in path[:-1]:
            table = table[key]
        change = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace":
            table[path[-1]] = data.draw(_junk)
        elif change == "remove":
            del table[path[-1]]
        elif isinstance(table, dict):
            names = [
                *SCHEMA["properties"],
                *SCHEMA["$defs"]["kernel"]["properties"],
                "x",
                " ",
                "1x",
                "path",
                "a-b",
            ]
            table[data.draw(st.sampled_from(names))] = data.draw(_junk)
        else:
            table.append(data.draw(_junk))
    agree(manifest)


def test_the_page_describes_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "manifest.md").read_text()
    described = set()
    for row in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE):
        described |= set(re.findall(r"`(?:constants\.)?([a-z_]+)`", row))
    assert keys_of(SCHEMA["properties"], SCHEMA) - described == {
        "path",
        "names",
    }  # the tables describe them among the paths
