"""The table of architectures says what is right, wrong and refused."""

from __future__ import annotations

import architecture_table


def outcome(*differences: float, error: str = "") -> dict[str, object]:
    return {
        "is_right": bool(differences) and max(differences) < 1e-4,
        "error": error,
        "differences": dict(enumerate(differences)),
    }


def test_a_row_for_each_net_and_the_reasons() -> None:
    forms = {
        "one": ["fixed", "open", "cache"],
        "two": ["fixed", "open"],
        "three": ["fixed"],
        "four": ["fixed"],
    }
    outcomes = {
        ("one", "fixed"): outcome(1e-7, 3e-6),
        ("one", "open"): outcome(2e-7),
        ("one", "cache"): outcome(error="\x1b[96mno <cache>\nmore"),
        ("two", "fixed"): outcome(1e-7),
        ("three", "fixed"): outcome(0.5),
        ("four", "fixed"): outcome(2e-7, 1e-6),
    }
    assert architecture_table.table(forms, outcomes).splitlines() == [
        "1 of 4 nets are right in each form that they have.",
        "",
        "| net | fixed | open lengths | cache | greatest difference |",
        "|---|---|---|---|---|",
        "| one | right | right | refused | 3e-06 |",
        "| two | right | not run |  | 1e-07 |",
        "| three | wrong |  |  |  |",
        "| four | right |  |  | 1e-06 |",
        "",
        "Refused, with the start of the text:",
        "",
        "- one (cache): no \\<cache\\>",
    ]
