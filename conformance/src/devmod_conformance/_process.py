"""Runs a task of `_probe` in a new process, and returns what it sent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from devmod import plugins
from devmod.worker import Worker, can_start_python, describe_exit
from devmod_conformance._case import Call, Conformance, Sample
from devmod_conformance._payload import portable_call, portable_sample
from devmod_conformance._row import Skip, require

#: Variables that are removed from the new process: they would force the fallback, or fix the clock
#: of a toolchain.
_REMOVED_VARIABLES = ("DEVMOD_COMPILE_FORCE_FALLBACK", "SOURCE_DATE_EPOCH")
#: What the task "steps" has sent in this process, which also keeps the backend as it was imported.
_steps: dict[object, Any] = {}


@dataclass(frozen=True)
class Answer:
    """The outcome of a process.

    Attributes
    ----------
    steps : list
        The JSON values that it sent. The last is its answer, if the task was completed.
    code : int
        Its exit status. A negative number is the signal that ended it.
    stderr : str
        The end of what it wrote to standard error. What a backend prints is there too.
    timed_out : bool
        Whether it was killed at its time limit.
    """

    steps: list[Any]
    code: int
    stderr: str
    timed_out: bool

    @property
    def end(self) -> str:
        """How the process ended, for a message."""
        if self.timed_out:
            return "does not end"
        last = self.stderr.strip().splitlines()[-1:] or ["no output"]
        return describe_exit(self.code) + (f": {last[0]}" if self.code >= 0 else "")

    @property
    def finished_steps(self) -> list[Any]:
        """All that the process sent. Raise AssertionError if the task was not completed."""
        require(
            self.code == 0 and not self.timed_out and self.steps,
            f"a process that uses the backend {self.end}",
        )
        return self.steps

    @property
    def value(self) -> Any:
        """The last value that the process sent.

        Raise AssertionError if the task was not completed.
        """
        return self.finished_steps[-1]


def steps_of(case: Conformance, samples: Iterable[Sample], hide: bool = False) -> Any:
    """Return what the task "steps" sends for samples: names and outcomes. Rows share it."""
    key = (case.kind, hide, *samples)
    if key not in _steps:
        _steps[key] = probe(case, "steps", samples, hide=hide).value
    return _steps[key]


def probe(
    case: Conformance,
    task: str,
    samples: Iterable[Sample] = (),
    *,
    pairs: Iterable[tuple[Sample, Call]] = (),
    hide: bool = False,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    other_host: bool = False,
    timeout: float = 0,
    **more: Any,
) -> Answer:
    """Run a task of `_probe` in a new process.

    Parameters
    ----------
    case
        The cases of the backend.
    task
        The name of a function of `_probe`.
    samples
        The payloads of the task.
    pairs
        The calls of the task, with the sample of each.
    hide
        Whether the driver is hidden from the process.
    environment
        Variables that are added to those of this process.
    folder
        The working folder of the process.
    other_host
        Whether Python's clock and host name are replaced (`_fake_host.replace_clock_and_host`).
    timeout
        The time limit of the process in seconds; 0 is `Conformance.timeout`.
    more
        The other values of the task, which are sent as JSON.
    """
    claim = plugins.registered("devmod.create").get(case.kind)
    if claim is None or not claim.distribution:
        raise Skip(
            "the backend is registered in this process only, and this row needs a new process"
        )
    if not can_start_python():
        raise Skip("this program is frozen, so it cannot start a new Python process")
    pairs = list(pairs)
    samples = [*samples, *dict.fromkeys(sample for sample, _ in pairs)]
    request = {
        "task": task,
        "kind": case.kind,
        "modules": list(case.driver_modules),
        "libraries": list(case.driver_libraries),
        "programs": list(case.driver_programs),
        "hide": hide,
        "other_host": other_host,
        "samples": [portable_sample(sample) for sample in samples],
        "calls": [
            {"sample": samples.index(sample), **portable_call(call)} for sample, call in pairs
        ],
        **more,
    }
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", **(environment or {})}
    for name in _REMOVED_VARIABLES:
        env.pop(name, None)
    with Worker(
        "devmod_conformance._probe", request, environment=env, folder=folder, captures=True
    ) as process:
        seconds = timeout or case.timeout
        end = monotonic() + seconds
        steps = process.all_answers(seconds)
        process.wait(end - monotonic())  # what the backend does at exit is a part of the task
        code = process.process.returncode
        return Answer(steps, code or 0, process.printed, code is None)
