"""Run readers in a process of its own, and report how it ended."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fuzzing.worker import Current

TOOLS = Path(__file__).resolve().parent.parent


class Run(NamedTuple):
    """The result of one reader.

    Attributes
    ----------
    reader
        The reader's name.
    executions
        The number of inputs that it read; -1 if it ended without a result.
    findings
        A line for each.
    """

    reader: str
    executions: int
    findings: list[str]


def run_reader(
    reader: str, folder: Path, *arguments: str, guided: bool = False, timeout: float = 600
) -> Run:
    """Run a reader as `run_readers` does."""
    return run_readers({reader: arguments}, folder, guided=guided, timeout=timeout)[-1]


def run_readers(
    readers: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    guided: bool = False,
    timeout: float = 600,
) -> list[Run]:
    """Run readers one after the other in one process, which may end in any way. Return the results
    up to the reader that ended it.

    Parameters
    ----------
    readers, folder
        The arguments for each reader, as for `fuzzing.worker`.
    guided
        Whether atheris chooses the inputs.
    timeout
        Seconds, after which the process is killed.
    """
    module = "fuzzing.guided" if guided else "fuzzing.worker"
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DEVMOD_")}
    settings["PYTHONPATH"] = str(TOOLS)
    folder.mkdir(parents=True, exist_ok=True)
    words: list[str] = []
    for reader, arguments in readers.items():
        words += ["+", reader, str(folder), *arguments]
    command = [sys.executable, "-m", module, *words[1:]]
    with (folder / "log").open("wb") as log:
        try:
            process = subprocess.run(
                command,
                env=settings,
                stdout=subprocess.PIPE,
                stderr=log,
                check=False,
                timeout=timeout,
            )
            printed = process.stdout
            how = f"ended with {_exit_words(process.returncode)}"
        except subprocess.TimeoutExpired as error:
            printed = error.stdout or b""
            how = f"did not end within {timeout:.0f} s"
    runs = [*_results(printed.decode("utf-8", "replace"))]
    for reader in [*readers][len(runs) :][:1]:
        runs.append(Run(reader, -1, [_keep_input(folder, how)]))
    return runs


def _results(printed: str) -> Iterator[Run]:
    """Yield the results among the lines, which may have others of a driver."""
    for line in printed.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            data = json.loads(line)
            yield Run(data["reader"], data["executions"], data["findings"])


def _exit_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _keep_input(folder: Path, what: str) -> str:
    """Write the input that the process was reading when it ended, and return a line about it."""
    log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    if not (folder / "current").exists():
        return f"the process {what} before it read anything: {log[-2000:]}"
    data = Current.read(folder)
    name = hashlib.sha256(data).hexdigest()[:16]
    (folder / f"{name}.bin").write_bytes(data)
    (folder / f"{name}.txt").write_text(f"the process {what}\n{log[-20_000:]}", encoding="utf-8")
    return f"the process {what} [{name}.bin]: {_excerpt(log.splitlines())}"


def _excerpt(lines: Sequence[str]) -> str:
    """Return the first four and the last three lines, without information and warnings."""
    message = [line.strip() for line in lines if not line.startswith(("INFO", "WARNING"))]
    return " | ".join([*message[:4], *message[4:][-3:]])[:900]
