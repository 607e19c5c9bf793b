"""The types of C's numbers."""

from __future__ import annotations

import pytest

from devmod_readers.c_numbers import bytes_type, quotient

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("size", "name"), [(0, "uint8"), (1, "uint8"), (2, "uint8x2"), (24, "uint8x24")]
)
def test_the_type_of_some_bytes(size: int, name: str) -> None:
    assert bytes_type(size) == name


@pytest.mark.parametrize(
    ("dividend", "divisor", "result"), [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3)]
)
def test_a_quotient_is_truncated(dividend: int, divisor: int, result: int) -> None:
    assert quotient(dividend, divisor) == result
