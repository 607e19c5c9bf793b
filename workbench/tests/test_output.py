"""What commands print: sizes, and texts of JSON that are printed in pieces."""

from __future__ import annotations

import json

import pytest

from devmod.commands import print_json, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_900, "999.9 kB"),
        (1_000_000, "1.0 MB"),
        (123_456_789, "123.5 MB"),
        (1_000_000_000, "1.0 GB"),
        (2_500_000_000_000, "2500.0 GB"),
    ],
)
def test_a_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize("count", [1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 3 << 16])
@pytest.mark.parametrize("character", ["x", '"', "é", "\x7f"])
def test_a_text_of_any_length_is_json(
    capsys: pytest.CaptureFixture[str], count: int, character: str
) -> None:
    text = "<" + character * (count - 1)
    print_json({"text": text, "empty": ""})
    assert json.loads(capsys.readouterr().out) == {"text": text, "empty": ""}
