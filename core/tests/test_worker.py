"""`devmod.worker`: the rules of trials, and the answers of a process that ends early."""

from __future__ import annotations

import sys

import pytest

from devmod.worker import Trial, read_answers, was_killed


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
