"""`devmod.worker`: processes and their answers, also those of a process that ends early, and the rules of trials."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devmod.worker import Worker, read_answers
from devmod_runtime import Trial, was_killed


@pytest.mark.parametrize(("value", "enabled"), [(None, True), ("", True), ("1", True), ("0", False), ("False", False)])
def test_an_environment_variable_disables_trials(value: str | None, enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEVMOD_TOY_TRIAL", raising=False)
    if value is not None:
        monkeypatch.setenv("DEVMOD_TOY_TRIAL", value)
    assert Trial("toy", "binary").is_enabled is enabled


def test_a_frozen_program_has_no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEVMOD_TOY_TRIAL", raising=False)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not Trial("toy", "binary").is_enabled


def test_the_message_of_a_trial_that_failed() -> None:
    assert Trial("toy", "binary").failure("the toy binary", "it took longer than 2 seconds") == (
        "the toy binary was not loaded: devmod builds a new binary in another process first, and it took longer than 2 seconds. "
        "If you trust the binary, set DEVMOD_TOY_TRIAL=0 to build it in this process only"
    )


def test_an_answer_that_the_end_of_the_process_cut_off_is_ignored() -> None:
    assert read_answers(b'"built"\n{"a": 1}\n"ru') == ["built", {"a": 1}]
    assert read_answers(b"") == []


def test_a_crash_is_not_a_kill() -> None:
    assert [was_killed(code) for code in (0, 1, -11, -6, -9, -15, -2)] == [False, False, False, False, True, True, True]


ANSWERING = """
import json, os, sys
from devmod.worker import answer_writer
def main(request):
    answer = answer_writer()
    for line in sys.stdin.buffer:
        answer([request["greeting"], json.loads(line), os.read(0, 10).decode()])
"""
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from devmod.worker import Worker
with Worker("answering", {"greeting": "hello"}) as worker:
    for item in (1, "\\ud800"):
        worker.send(item)
        print(ascii(worker.answer()))
"""


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_a_process_ignores_the_variables_that_this_one_ignores(flag: str, tmp_path: Path) -> None:
    """It answers any number of requests, and its standard input, which compilers may read, is empty."""
    (tmp_path / "answering.py").write_text(ANSWERING)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "json.py").write_text("raise SystemExit('the json.py of PYTHONPATH ran')\n")
    environment = os.environ | {"PYTHONPATH": str(stranger)}
    command = [sys.executable, flag, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['hello', 1, '']\n['hello', '\\ud800', '']\n", "")


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="the state of other processes is read from /proc")
def test_the_end_of_a_process_ends_the_programs_that_it_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "starting.py").write_text(
        "import subprocess\nfrom devmod.worker import answer_writer\n"
        "def main(request):\n    process = subprocess.Popen(['sleep', '1000'])\n    answer_writer()(process.pid)\n    process.wait()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Worker("starting", {}) as worker:
        status = Path(f"/proc/{worker.answer()}/stat")
        assert status.exists()
    _wait_for_end(status)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="the state of other processes is read from /proc")
def test_a_process_whose_item_hangs_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(
        "import os, time\nfrom devmod.worker import answer_items\n"
        "def main(request):\n    answer_items(request, lambda item: time.sleep(1000) if item else os.getpid())\n"
    )
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from devmod.worker import answers\n"
        "for answer, _ in answers('hanging', [0, 1], 1000): print(answer, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        status = Path(f"/proc/{int(process.stdout.readline())}/stat")
        assert status.exists()
        process.kill()
    _wait_for_end(status)


def _wait_for_end(status: Path) -> None:
    for _ in range(12000):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("the program runs after two minutes")
