"""`make peers-simulated`: what a suite's row counts."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import environments  # noqa: E402
import peers_simulated  # noqa: E402

HEAD = "| suite | passed | failed | skipped | causes |\n|---|---|---|---|---|\n"

TESTS = """
import os, sys, time, pytest
def test_right(): pass
def test_of_the_device(): assert sys.modules.setdefault("fault", None)
@pytest.mark.parametrize("number", range(20))
def test_after(number): assert "fault" not in sys.modules
def test_wrong(): assert os.system("printf . >> runs.txt") == 2
def test_hangs(): time.sleep(20)
def test_skipped(): pytest.skip("no reason")
def test_last(): assert os.environ["DEVMOD_STANDIN_ARCH"] == "90"
"""
#: It ends its process too, at once.
CRASHES = "def test_crashes(): os.abort()\n"


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Return a function that runs suites of a data file and returns what is printed."""
    monkeypatch.setattr(peers_simulated, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(peers_simulated, "environment", lambda name, suite: Path(sys.executable))
    monkeypatch.setenv("PEER", str(tmp_path / "sources"))
    monkeypatch.delenv("OTHER", raising=False)
    # Each process of pytest would import Hypothesis for its plugin, half of its time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")

    def call(text: str, *names: str) -> str:
        data = tmp_path / "data.toml"
        data.write_text(text, encoding="utf-8")
        assert peers_simulated.main(list(names), data) == 0
        return capfd.readouterr().out

    return call


@pytest.mark.parametrize(
    ("tests", "causes"),
    [
        (TESTS, "3 | 1 | 1: a fault; 1: sums; 1: no result"),
        pytest.param(
            TESTS + CRASHES,
            "4 | 1 | 2: no result; 1: a fault; 1: sums",
            marks=pytest.mark.volume,
        ),
    ],
)
def test_a_test_that_crashes_or_hangs_or_spoils_its_process_is_one_failure(
    run: Callable[..., str], tmp_path: Path, tests: str, causes: str
) -> None:
    """Those behind a fault of the device run again together."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "test_it.py").write_text(tests, encoding="utf-8")
    output = run("""
[peer]
title = "A peer"
source = "PEER"
run = "$python -m pytest $pytest $source"
seconds = 2
causes = [["== 2", "sums"], ["crashed", "no result"], ["of_the_device", "a fault"]]
""")
    assert output.endswith(f"{HEAD}| A peer | 22 | {causes} |\n")
    # The wrong one with all, behind the 20, and alone.
    assert (tmp_path / "build" / "peer-work" / "runs.txt").read_text() == "..."


PROGRAMS = """
[peer]
title = "Programs"
source = "PEER"
run = 'echo > output; sh ./$script'
seconds = 2
causes = [["wrong\\ngot 4", "sums"], ["no result in 2 s", "too slow"]]
default = {{ folder = "$source/one", expect = "^PASS", script = "main.sh" }}
{}
"""


def test_programs_are_judged_by_exit_code_and_output(
    run: Callable[..., str], tmp_path: Path
) -> None:
    folder = tmp_path / "sources" / "one"
    folder.mkdir(parents=True)
    (tmp_path / "sources" / "beside").mkdir()
    (folder / "main.sh").write_text("test -d ../beside && echo PASS")
    (folder / "wrong.sh").write_text("echo got 4")
    (folder / "fails.sh").write_text("echo PASS; exit 3")
    (folder / "hangs.sh").write_text("echo PASS; sleep 100")
    table = "[peer.programs]\nright = {}\n"
    for name in ("wrong", "fails", "hangs"):
        table += f'{name} = {{ script = "{name}.sh" }}\n'
    output = run(PROGRAMS.format(table))
    assert re.search(r"^passed right: PASS, exit code 0, \d+ s$", output, re.MULTILINE)
    assert "Programs: fails: the cause is not known: PASS\n\nexit code 3\n" in output
    reasons = "1: sums; 1: unknown; 1: too slow"
    assert output.endswith(f"{HEAD}| Programs | 1 | 3 | 0 | {reasons} |\n")
    assert [path.name for path in folder.iterdir()].count("output") == 0


def test_programs_are_found_by_a_pattern(run: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "one"
    folder.mkdir(parents=True)
    for name in ("a.sh", "b.sh", "c.txt"):
        (folder / name).write_text("echo PASS")
    text = (
        PROGRAMS.replace("$script", "$name").replace("= 2\n", "= 120\n").format('files = "*/*.sh"')
    )
    assert run(text).endswith(f"{HEAD}| Programs | 2 | 0 | 0 |  |\n")


def test_a_program_without_a_folder_has_an_empty_one(
    run: Callable[..., str], tmp_path: Path
) -> None:
    output = run("""
[peer]
title = "Programs"
run = 'pwd; test -z "$(find . -name "*.sh")" && echo PASS'
seconds = 120
default = { expect = "peer-work/right\\nPASS" }
programs = { right = {} }
""")
    assert output.endswith(f"{HEAD}| Programs | 1 | 0 | 0 |  |\n")


def test_a_suite_without_sources_is_not_run(run: Callable[..., str]) -> None:
    text = '[{0}]\ntitle = "{0}"\nsource = "OTHER"\n'
    expected = "| b | 0 | 0 | 0 | not run: OTHER names no folder |\n"
    assert run(text.format("a") + text.format("b"), "b") == HEAD + expected


def test_an_unknown_suite_is_refused_before_the_others_run(run: Callable[..., str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run('[a]\ntitle = "a"\nsource = "OTHER"\n[b]\n', "a", "c")
    assert str(caught.value) == "there is no suite 'c'; there is: a, b"


def test_a_suite_that_cannot_be_installed_is_not_run(
    run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, suite: peers_simulated.Suite) -> Path:
        raise environments.InstallError("no such package\nand more")

    monkeypatch.setattr(peers_simulated, "environment", fail)
    expected = "| a | 0 | 0 | 0 | not run: no such package |\n"
    assert run('[a]\ntitle = "a"\n') == HEAD + expected


def test_an_environment_has_what_its_distributions_require() -> None:
    """No index has them yet."""
    names = set()
    needed = set()
    for each in peers_simulated.DISTRIBUTIONS:
        folder, _, extra = each.rstrip("]").partition("[")
        text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        names.add(project["name"])
        requirements = list(project["dependencies"])
        if extra:
            requirements += project["optional-dependencies"][extra]
        needed |= {re.split(r"[^\w-]", each)[0] for each in requirements}
    assert {name for name in needed if name.startswith("devmod-")} - names == set()
    assert "llvmlite" in needed


def test_the_data_file_names_what_its_scripts_use() -> None:
    data = tomllib.loads(peers_simulated.DATA.read_text(encoding="utf-8"))
    assert {name: len(suite.get("programs", "")) for name, suite in data.items()} == {
        "numba-cuda": 0,
        "cuda-core": 0,
        "cuda-bindings": 0,
        "pycuda": 0,
        "taichi": 4,
        "tinygrad": 0,
        "triton": 0,
        "hecbench": 65,
        "cuda-samples": 29,
        "rodinia": 7,
        "cub": 8,
    }
    for suite in data.values():
        assert ("$pytest" in suite["run"]) != ("default" in suite)
        for pattern, _ in suite.get("causes", []):
            re.compile(pattern)
