"""The rows in a process of their own: a backend that ends it, or never answers, fails the row in hand and no other."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from devmod import _registry
from devmod.errors import PluginError
from devmod.testing._case import Conformance
from devmod.testing._probe import answering
from devmod.testing._process import beginning, ending, path_here
from devmod.testing._row import FAILED, GROUP, Result, Row, chosen, find, rows, run

#: How often a row's time is that of one process: R38 begins three.
_PROCESSES = 3
#: The seconds that the process has to leave, once it has told of every row. What it does then is R8's.
_LEAVING = 10


def run_apart(kind: str, only: Iterable[str] = ()) -> list[Result]:
    """As `run`, in a new process: what the backend prints goes to standard error, and nothing that it does ends this one.

    Where there can be no such process (a frozen program, a backend registered in this process), it is `run`.
    """
    wanted = chosen(only)
    claim = _registry.registered(GROUP).get(kind)
    if claim is None or not claim.distribution or getattr(sys, "frozen", False):
        return run(kind, only)
    results: list[Result] = []
    while len(results) < len(wanted):
        results += _survived(kind, wanted[len(results) :], claim.who)
    return results


def _survived(kind: str, wanted: Sequence[Row], who: str) -> list[Result]:
    """The results of these rows, up to and with the one that a process does not survive."""
    with _Process(kind, wanted) as process:
        begun = process.told(_PROCESSES * Conformance.patience)
        if begun is None:
            raise PluginError(
                f"{GROUP}.{kind} is broken: {who}: a process that imports its cases {process.end}", kind=kind, key=f"{GROUP}.{kind}"
            )
        if "refused" in begun:
            find(kind)  # it raises here as it did there, with its cause
            raise PluginError(begun["refused"], kind=kind, key=f"{GROUP}.{kind}")
        results: list[Result] = []
        for row in wanted:
            told = process.told(_PROCESSES * begun["patience"])
            if told is None:
                return [*results, Result(row, FAILED, f"the process that checks it {process.end}")]
            results.append(Result(row, told["outcome"], told["reason"]))
        process.leave()
    return results


class _Process:
    """A process that runs `main`."""

    def __init__(self, kind: str, wanted: Sequence[Row]) -> None:
        self._process = subprocess.Popen(beginning(__name__), stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - this very Python
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._late = False
        threading.Thread(target=self._read, daemon=True).start()
        request = {"path": path_here(), "kind": kind, "rows": [row.id for row in wanted]}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.close()

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def told(self, seconds: float) -> dict[str, Any] | None:
        """What it tells next; None where it ends instead, or takes too long."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            line, self._late = b"", self._process.poll() is None
        if not line.endswith(b"\n"):  # its end may have cut a line off
            return None
        told: dict[str, Any] = json.loads(line)
        return told

    @property
    def end(self) -> str:
        """How it ended, for a message."""
        return "does not end" if self._late else ending(self._process.wait())

    def leave(self) -> None:
        """Let it end by itself."""
        try:
            self._process.wait(_LEAVING)
        except subprocess.TimeoutExpired:
            return


def main(request: dict[str, Any]) -> None:
    """In the new process: tell the cases' patience, or why there are none, and then of each row."""
    tell = answering()
    try:
        case = find(request["kind"])
    except Exception as error:  # noqa: BLE001 - the other process raises it
        tell({"refused": str(error)})
        return
    tell({"patience": case.patience})
    known = {row.id: row for row in rows()}
    try:
        for name in request["rows"]:
            result = known[name].run(case)
            tell({"outcome": result.outcome, "reason": result.reason})
    except KeyboardInterrupt:  # the other process has it too, and speaks
        sys.exit(130)
