"""tools/triton_packages.py: what it says of two runs of a suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import triton_packages


def line(**changes: Any) -> dict[str, Any]:
    fields = {"digests": ["a", "b"], "seconds": [0.5, 0.25], "compiles": 2, "measured": 3}
    return fields | changes


def test_a_run_that_takes_all_from_the_file_has_no_problem() -> None:
    served = line(seconds=[0.002, 0.002], compiles=0, measured=0)
    # A test that ended its process is in one run alone.
    compiled = {"one": line(), "two": line(digests=[]), "ends": line(digests=["c"])}
    problems, row = triton_packages.judge(
        "s", compiled, {"one": served, "two": served | {"digests": []}}
    )
    assert problems == []
    assert row == "| s | 2 of 2 | 4 | 375.0 ms | 6 | 0 | 2.0 ms | 0 |"
    assert row.count("|") == triton_packages.HEAD.splitlines()[0].count("|")


def test_other_bits_a_missing_launch_and_a_compile_are_problems() -> None:
    compiled = {each: line() for each in ("bits", "launch", "compile")}
    served = {
        "bits": line(digests=["a", "c"], compiles=0),
        "launch": line(digests=["a"], compiles=0),
        "compile": line(compiles=1),
    }
    problems, row = triton_packages.judge("s", compiled, served)
    assert problems == ["s: bits: other bits", "s: compile: 1 compiles", "s: launch: other bits"]
    assert row.startswith("| s | 1 of 3 | 6 |")


def test_the_commands_of_the_suites(tmp_path: Path) -> None:
    (tmp_path / "python/tutorials").mkdir(parents=True)
    for name in ("01-add.py", "06-attention.py", "08-gemm.py", "10-scaled.py", "11-launch.py"):
        (tmp_path / "python/tutorials" / name).touch()
    program, *others = triton_packages.commands("tutorials", tmp_path)
    assert [Path(each).name for each in program] == ["triton_observed.py", "01-add.py"]
    assert [[Path(each).name for each in command[1:]] for command in others] == [
        ["triton_tutorials.py", "06-attention.py"],
        ["triton_tutorials.py", "08-gemm.py"],
    ]
    launches = triton_packages.commands("sm_90", tmp_path)
    assert [[Path(each).name for each in command[1:]] for command in launches] == [
        ["triton_tutorials.py", "06-attention.py"],
        ["triton_tutorials.py", "08-gemm.py"],
        ["triton_tutorials.py", "10-scaled.py"],
        ["triton_tutorials.py", "11-launch.py"],
    ]
    (language,) = triton_packages.commands("language", tmp_path)
    assert language[-1].endswith("test_core.py")
    assert f"faulthandler_timeout={triton_packages.SECONDS['test']}" in language
    assert language.index("triton_observed") < language.index("peers_torch")
    for name in ("liger", "fla"):
        ((_, program),) = triton_packages.commands(name, tmp_path)
        assert Path(program).is_file()
