"""Shared libraries of wheels, which run in processes of their own: a crash of a library ends such a
process alone.

A process is kept for the next request, because a library may need 0.1 to 0.2 s before its first
answer.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from devmod.errors import CompileError
from devmod.worker import IdleWorkers, Worker, can_start_python, search_path
from devmod_targets._executables import package_folders
from devmod_targets.authoring import _process

#: The processes that wait for a request. Each takes 40 MB or more, and sources of strangers may
#: have many versions.
IDLE: IdleWorkers[Worker] = IdleWorkers(8)


def find_library(wheel: str, names: str) -> str:
    """Return the path of the first library of an installed wheel whose name matches a pattern.

    It is "" if the wheel is not installed, or if this program is frozen and can start no Python.
    """
    if not can_start_python():
        return ""
    for folder in package_folders(wheel):
        with suppress(OSError):
            for name in sorted(os.listdir(folder)):
                if re.fullmatch(names, name):
                    return os.path.join(folder, name)
    return ""


#: The status of an answer, its parts, and the messages with what the library has printed.
Answer = tuple[int, "Sequence[bytes]", str]


def ask_library(
    kind: str,
    subject: str,
    advice: str,
    start: Mapping[str, Any],
    request: Mapping[str, Any],
    data: bytes = b"",
    *,
    settings: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Answer:
    """Return the answer of a library.

    Parameters
    ----------
    kind, subject, advice
        The target's kind, "the library … cannot process …" and what to do then, for errors.
    start
        The argument of `devmod_targets._library_server.main`.
    request, data
        The request, and its bytes.
    settings
        The environment variables of the process, beside those of this one.
    meanwhile
        What to do while the library runs.

    Raises
    ------
    CompileError
        The process cannot be started, ends, or exceeds the time limit.
    """
    key = json.dumps({"path": search_path(), **start})
    try:
        worker = IDLE.take(key) or Worker(
            "devmod_targets._library_server",
            dict(start),
            environment={**os.environ, **(settings or {})},
            captures=True,
        )
    except OSError as error:
        raise CompileError(
            f"{subject}: its process cannot be started: {error.strerror}", kind=kind
        ) from error
    try:
        answer = worker.ask(
            {**request, "data": b64encode(data).decode()}, _process.TIMEOUT, meanwhile
        )
        if answer is None:
            text = f"{subject}: its process {_end_of(worker)}. {advice}"
            if worker.is_late:
                raise _process.TimeLimitError(text, kind=kind)
            raise CompileError(text, kind=kind)
        printed = worker.take_printed()
    except BaseException:
        worker.__exit__()
        raise
    if hasattr(os, "fork"):
        IDLE.add(worker, key)
    else:  # Windows has no forks, so the state of its process is no longer that of a new one
        worker.__exit__()
    status, *parts = answer
    *parts, messages = map(b64decode, parts)
    return status, parts, messages.decode("utf-8", "replace") + printed


def _end_of(worker: Worker) -> str:
    """Return how a process has ended, with the last line that it has printed."""
    if worker.is_late:
        return f"exceeded the time limit of {_process.TIMEOUT} seconds"
    end = worker.end
    last = next(filter(str.strip, reversed(worker.printed.splitlines())), "")
    return end + (last and f" ({last})")


@cache
def wheel_version(wheel: str, library: str) -> str:
    """Return the name and the version of a library's wheel, such as "slangpy 0.43.1".

    The version is in the name of the wheel's metadata folder: importing importlib.metadata takes 30
    ms.
    """
    names = os.listdir(os.path.dirname(os.path.dirname(library)))
    for name in sorted(names):
        match = re.fullmatch(rf"{wheel}-([\w.+!-]+)\.dist-info", name)
        if match:
            return f"{wheel} {match[1]}"
    return wheel
