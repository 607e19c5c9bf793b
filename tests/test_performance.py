"""The tables of docs/performance.md are made from the figures of `make bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import performance  # noqa: E402

CALLING = {"what": "calling", "ratio": 3, "most": 2, "of": "a call", "runs": [1.5, 1.4, 3]}
RUNS = {
    "peers": {
        "date": "2026-11-22",
        "machine": "a box",
        "peers": "peer 1.0",
        "figures": [
            {"note": "Peer 1.0."},
            {"table": "A call", "row": "devmod", "value": 0.123, "unit": "µs", "column": 64},
            {
                "table": "A call",
                "row": "devmod",
                "value": 15621.4,
                "unit": "µs",
                "column": 16 << 20,
            },
            {"table": "A call", "row": "peer", "value": 96.54, "unit": "µs", "column": 16 << 20},
            {"table": "An import", "row": "devmod", "value": 0.0, "unit": "ms", "column": ""},
        ],
    },
    "save": {
        "date": "2026-11-21",
        "machine": "a box",
        "figures": [{"what": "saving", "ratio": 1.013, "most": 1.5, "of": "a write"}],
    },
    "runs": {
        "date": "2026-11-21",
        "machine": "a box",
        "peers": "peer 1.0, other 2",
        "figures": [CALLING],
    },
    "load": {
        "date": "2026-11-21",
        "machine": "a box",
        "figures": [{"what": "opening", "ratio": 0.2, "most": 0.00003, "of": "a read"}],
    },
}


def test_a_recorded_table_has_its_columns_and_its_origin() -> None:
    page = performance.fill(
        "a\n<!-- table: A call -->\nold\n<!-- end -->\nb <!-- table: An import -->\n<!-- end -->\n",
        RUNS,
    )
    assert page == (
        "a\n<!-- table: A call -->\n\n| µs | 64 B | 16 MiB |\n| --- | --: | --: |\n| devmod | 0.12 | 15,600 |\n| peer |  | 96.5 |\n"
        "\n*2026-11-22*\n\n<!-- end -->\n"
        "b <!-- table: An import -->\n\n|  | ms |\n| --- | --: |\n| devmod | 0 |\n\n*2026-11-22*\n\n<!-- end -->\n"
    )
    assert performance.fill(page, RUNS) == page


def test_a_table_of_bounds_has_the_ratios_of_its_benchmarks() -> None:
    page = performance.fill(
        "<!-- bounds: save absent load/open save/open -->\n<!-- end -->\n", RUNS
    )
    assert page == (
        "<!-- bounds: save absent load/open save/open -->\n\n| what | ratio | at most | of |\n| --- | --: | --: | --- |\n| saving | 1.01 | 1.5 | a write |\n| opening | **over:** 0.2 | 0.00003 | a read |\n"
        "\n*2026-11-21*\n\n<!-- end -->\n"
    )


def test_a_table_of_bounds_has_the_spread_of_several_runs() -> None:
    expected = "| calling | 1.5 (1.4 to 3) | 2 | a call |\n\n*2026-11-21*\n"
    assert expected in performance.fill("<!-- bounds: runs -->\n<!-- end -->\n", RUNS)


def test_rows_that_differ_in_one_word_are_one_row_with_the_least_and_the_greatest_ratio() -> None:
    text = (
        "cl: 4 kB, bound 1; vk: 4 kB, bound 2.5; cl: 1 MB, bound 1.2; cl: 9 B, bound 3; "
        "vk: 9 B, all 1; cl: 9 B, all 1.5; cl: 9 B, far 1; vk: 9 B, far 1.51"
    )
    checks = []
    for case in text.split("; "):
        what, _, ratio = case.rpartition(" ")
        checks.append({"what": what, "ratio": float(ratio), "most": 2.7, "of": "a call"})
    assert performance.markdown(performance.bounds_rows(checks)) == (
        "| cl: 4 kB/1 MB, bound | 1 to 1.2 | 2.7 | a call |\n| --- | --: | --: | --: |\n"
        "| vk: 4 kB, bound | 2.5 | 2.7 | a call |\n"
        "| cl: 9 B, bound | **over:** 3 | 2.7 | a call |\n"
        "| vk/cl: 9 B, all | 1 to 1.5 | 2.7 | a call |\n"
        "| cl: 9 B, far | 1 | 2.7 | a call |\n"
        "| vk: 9 B, far | 1.51 | 2.7 | a call |\n"
    )


@pytest.mark.parametrize("least", [0.0, -0.002])
def test_a_ratio_of_a_time_that_is_a_difference_may_be_0_or_below(least: float) -> None:
    checks = [
        {"what": f"{kind}: bound", "ratio": ratio, "most": 2, "of": "a call"}
        for kind, ratio in (("cl", 0.9), ("vk", least))
    ]
    assert [row[0] for row in performance.bounds_rows(checks)] == ["cl: bound", "vk: bound"]


def test_a_date_has_its_machine_where_another_machine_has_the_date_too() -> None:
    checked = {"figures": [{"what": "saving", "ratio": 1, "most": 2, "of": "a write"}]}
    runs = {
        name: {"date": "2026-11-21", "machine": machine, **checked}
        for name, machine in (("save", "a box"), ("load", "another"))
    }
    assert "\n*2026-11-21, a box*\n" in performance.bounds_text(["save"], runs)
    assert "\n*2026-11-21*\n" in performance.bounds_text(["save"], {"save": runs["save"]})


def test_the_notes_of_a_benchmark_and_the_versions_of_the_peers() -> None:
    page = performance.fill(
        "<!-- notes: peers -->\nold\n<!-- end -->\n<!-- versions: all -->\n<!-- end -->\n", RUNS
    )
    assert page == (
        "<!-- notes: peers -->\n\nPeer 1.0.\n\n<!-- end -->\n"
        "<!-- versions: all -->\n\n- 2026-11-21, a box; peer 1.0, other 2\n"
        "- 2026-11-22, a box; peer 1.0\n\n<!-- end -->\n"
    )


def test_a_table_without_figures_stays_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    page = "<!-- table: Another -->\n\nof another machine\n\n<!-- end -->\n<!-- bounds: peers -->\n<!-- end -->\n"
    assert performance.fill(page, RUNS) == page
    assert (
        capsys.readouterr().out
        == "no figures for the table: Another\nno figures for the table: peers\n"
    )
