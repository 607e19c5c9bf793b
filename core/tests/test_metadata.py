"""Metadata files with a type that is not a string. tests/fuzz has any other text."""

from __future__ import annotations

import json

import pytest
from each_case import refusal

import devmod

pytestmark = [pytest.mark.once, pytest.mark.row("R22")]  # a text and what core reads of it


@pytest.mark.parametrize("wrong", [[], {}, [[]], None, 1, 1.5, True])
def test_the_error_for_a_type_that_is_not_a_string(wrong: object) -> None:
    assert refusal(
        devmod.FormatError,
        devmod.load_metadata_from_json,
        json.dumps({"func_info": {"f": {"name": "f", "arg_types": [wrong]}}}),
    ) == (
        f"the metadata of the function 'f': a type is a string such as 'float32' or 'handle', not {type(wrong).__name__}"
    )
