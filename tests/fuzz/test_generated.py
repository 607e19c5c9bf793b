"""Files that hypothesis makes from the words of the formats: all readers agree on them, and refuse
with devmod's errors alone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import devmod  # noqa: E402
from fuzzing import differential, javascript, mutation, readers, specification  # noqa: E402

fixed = settings(
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

words = st.sampled_from(
    [
        "f",
        "g",
        "main",
        "",
        "\x1b[2J",
        "\u202e",
        "__proto__",
        "blockIdx.x",
        "float32",
        "handle",
        "uint1x64",
        "int4",
        "push",
    ]
)
numbers = st.integers(0, 8) | st.sampled_from(
    [64, 255, 65528, 2**31, 2**53, 2**63 - 1, 2**64 - 1, -1]
)
scalars = st.none() | st.booleans() | numbers | words | st.floats() | st.binary(max_size=33)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
dtypes = (
    st.tuples(
        st.integers(0, 20),
        st.sampled_from([0, 1, 4, 6, 8, 16, 33, 64]),
        st.sampled_from([0, 1, 2, 3, 64, 65528]),
    )
    | anything
)
places = st.integers(0, 3) | st.lists(st.integers(0, 9), min_size=2, max_size=2) | anything
leaf = st.fixed_dictionaries(
    {
        "name": words,
        "offset": numbers,
        "type": st.sampled_from(["float32", "uint8x4", "bool", "int4"]),
    },
    optional={
        "shape": st.lists(numbers, max_size=2),
        "strides": st.lists(numbers, max_size=2),
        "size": numbers,
        "new": anything,
    },
)
members = st.recursive(
    leaf,
    lambda inner: st.fixed_dictionaries(
        {"name": words, "offset": numbers, "members": st.lists(inner, max_size=3)},
        optional={"type": words, "size": numbers},
    ),
    max_leaves=4,
)
params = st.fixed_dictionaries(
    {
        "name": words,
        "kind": st.sampled_from(["buffer", "scalar", "uniform", "local", "image", "sampler"]),
    },
    optional={
        "type": words | st.sampled_from(["uint8x64", "uint8"]),
        "access": st.sampled_from(["r", "w", "rw", "x"]),
        "at": places,
        "align": numbers,
        "members": st.lists(members, max_size=3) | anything,
        "default": st.dictionaries(
            st.sampled_from(["bytes", "per_thread", "value"]), numbers, max_size=2
        )
        | anything,
        "new": anything,
    },
)
interfaces = st.fixed_dictionaries(
    {"params": st.lists(params, max_size=2)},
    optional={
        "blocks": st.lists(st.fixed_dictionaries({"at": places, "size": numbers}), max_size=2),
        "block": st.lists(numbers, min_size=3, max_size=3) | anything,
        "default_block": st.lists(numbers, min_size=3, max_size=3) | anything,
        "open_block": st.booleans() | anything,
        "shared_memory": numbers | st.fixed_dictionaries({"per_thread": numbers}) | anything,
        "constants": st.lists(
            st.fixed_dictionaries(
                {"name": words}, optional={"id": numbers, "type": dtypes, "default": scalars}
            ),
            max_size=2,
        ),
        "block_constants": st.lists(numbers, max_size=3) | anything,
        "x": anything,
    },
)


@st.composite
def functions(draw: st.DrawFn) -> list[Any]:
    interface = draw(st.none() | interfaces)
    types = [
        draw(dtypes)
        for _ in (interface or {"params": draw(st.lists(st.none(), max_size=2))})["params"]
    ]
    return [
        draw(words),
        types,
        draw(st.lists(words, max_size=2)),
        draw(st.lists(numbers, max_size=2)),
        *([interface] if interface else []),
    ]


fmaps = st.dictionaries(words, functions() | anything, max_size=2)
shaders = st.dictionaries(words, st.binary(max_size=20), max_size=2)
constants = st.tuples(
    st.dictionaries(
        words,
        st.tuples(dtypes, st.lists(numbers, max_size=3), st.binary(max_size=64)) | anything,
        max_size=2,
    ),
    st.dictionaries(words, st.lists(words, max_size=2), max_size=2),
)


def packed(value: Any) -> bytes:
    if isinstance(value, dict):
        value = mutation.Pairs((key, plain(each)) for key, each in value.items())
    return mutation.pack(value)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return mutation.Pairs((key, plain(each)) for key, each in value.items())
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def agreed(kind: str, data: bytes) -> None:
    differential.compare_module(kind, data)


@pytest.mark.row("R4", "R19")
@fixed
@given(fmap=fmaps, code=shaders)
def test_modules_of_shaders(fmap: Any, code: Any) -> None:
    data = packed(fmap) + packed(code)
    agreed("webgpu", data)
    readers.read_wire("webgpu", data)


@pytest.mark.row("R4", "R19")
@fixed
@given(fmt=words, fmap=fmaps)
def test_modules_of_one_binary(fmt: str, fmap: Any) -> None:
    data = packed(fmt) + packed(fmap) + packed(b"code")
    agreed("opencl", data)
    readers.read_wire("opencl", data)


@pytest.mark.row("R19", "R20")
@fixed
@given(maps=constants)
def test_constants(maps: Any) -> None:
    data = b"".join(map(packed, maps))
    agreed("const_loader", data)
    readers.attempt(lambda: readers.read_constants(data))


@pytest.mark.row("R41")
@fixed
@given(
    roots=st.lists(numbers, max_size=3),
    modules=st.lists(
        st.fixed_dictionaries(
            {"kind": st.sampled_from(["bundle", "_lib", "opencl", "npu", "const_loader"])},
            optional={
                "imports": st.lists(numbers, max_size=3),
                "format": words,
                "functions": st.lists(words, max_size=2),
                "variant": words,
                "origin": st.dictionaries(
                    st.sampled_from(["target", "toolchain", "options", "sources", "x"]),
                    anything,
                    max_size=2,
                ),
                "y": anything,
            },
        ),
        max_size=5,
    ),
    blobs=st.lists(
        st.none() | st.just(b"\xa2cl\x80\xc4\x03abc") | st.just(b"\x80\x80"), min_size=5, max_size=5
    ),
)
def test_bundles(roots: Any, modules: Any, blobs: Any) -> None:
    index = [plain({"roots": roots, "modules": modules})]
    held = [
        None if each["kind"] in ("bundle", "_lib") else blob
        for each, blob in zip(modules, blobs, strict=False)
    ]
    data = mutation.bundle_of(*mutation.assemble(index, held))
    specification.compare_bundle(data)
    javascript.compare_bundle(data)
    readers.attempt(lambda: readers.read_bundle(data))


def test_valid_modules_are_generated_too() -> None:
    devmod.load_from_bytes("const_loader", packed({"w": ((2, 32, 1), (1,), b"1234")}) + packed({}))
