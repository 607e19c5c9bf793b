"""Metadata files: any text is an fmap or a FormatError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from each_case import refusal
from hypothesis import given, settings
from hypothesis import strategies as st

import devmod

pytestmark = pytest.mark.once  # a text and what core reads of it

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["float32", "handle", "rw", "buffer", "push"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


def mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 5).flatmap(lambda number: values if number == 0 else strategy)


places = mostly(st.none() | st.integers(0, 9) | st.lists(st.integers(0, 9), min_size=2, max_size=2))
params = st.fixed_dictionaries(
    {
        "name": mostly(st.text(max_size=4)),
        "kind": mostly(st.sampled_from(["buffer", "scalar", "local"])),
    },
    optional={
        "type": mostly(st.sampled_from(["float32", "int32x4", ""])),
        "access": mostly(st.sampled_from(["r", "w", "rw", ""])),
        "at": places,
        "align": mostly(st.integers(0, 16)),
        "size": mostly(st.integers(0, 64)),
        "more": values,
    },
)
blocks = st.fixed_dictionaries(
    {"at": mostly(st.just("push")) | places, "size": mostly(st.integers(0, 64))},
    optional={"more": values},
)
interfaces = st.fixed_dictionaries(
    {},
    optional={
        "params": mostly(st.lists(mostly(params), max_size=3)),
        "blocks": mostly(st.lists(mostly(blocks), max_size=2)),
        "block": mostly(st.lists(st.integers(1, 64), min_size=3, max_size=3)),
        "constants": mostly(st.lists(values, max_size=2)),
        "more": values,
    },
)
functions = st.fixed_dictionaries(
    {
        "name": mostly(st.text(max_size=4)),
        "arg_types": mostly(st.lists(mostly(st.sampled_from(["handle", "int32"])), max_size=3)),
    },
    optional={
        "launch_param_tags": mostly(st.lists(mostly(st.just("blockIdx.x")), max_size=2)),
        "arg_extra_tags": mostly(st.lists(mostly(st.integers(0, 3)), max_size=2)),
        "interface": mostly(interfaces),
        "more": values,
    },
)
metadata = mostly(
    st.fixed_dictionaries(
        {"func_info": mostly(st.dictionaries(st.text(max_size=4), mostly(functions), max_size=3))},
        optional={"shader": values},
    )
)


@pytest.mark.row("R22")
@settings(max_examples=120, deadline=None)
@given(metadata)
def test_any_json_is_an_fmap_or_a_format_error(data: Any) -> None:
    try:
        result = devmod.load_metadata_from_json(json.dumps(data))
    except devmod.FormatError:
        return
    for name, info in result.items():
        assert isinstance(name, str)
        repr(info)
        assert (
            devmod.FunctionInfo(
                info.name,
                info.arg_types,
                info.launch_param_tags,
                info.arg_extra_tags,
                info.interface,
            )
            == info
        )


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=60) | st.text(max_size=60).filter(lambda text: not text.endswith(".json"))
)  # that is a path
def test_any_text_is_a_format_error_or_an_fmap(text: str | bytes) -> None:
    with pytest.raises(devmod.FormatError):
        devmod.load_metadata_from_json(text)


@pytest.mark.parametrize("wrong", [[], {}, [[]], None, 1, 1.5, True])
def test_the_error_for_a_type_that_is_not_a_string(wrong: object) -> None:
    assert refusal(
        devmod.FormatError,
        devmod.load_metadata_from_json,
        json.dumps({"func_info": {"f": {"name": "f", "arg_types": [wrong]}}}),
    ) == (
        f"the metadata of the function 'f': a type is a string such as 'float32' or 'handle', not {type(wrong).__name__}"
    )
