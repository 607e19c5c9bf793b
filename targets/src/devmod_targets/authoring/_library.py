"""Shared libraries of wheels, which run in processes of their own: a crash of a library ends such a process alone.

A process is kept for the next request, because a library may need 0.1 to 0.2 s before its first answer.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import tempfile
from collections import deque
from contextlib import suppress
from functools import cache
from threading import Timer
from typing import TYPE_CHECKING, Any

from devmod.errors import CompileError
from devmod.worker import can_start_python, describe_exit, python_command, search_path
from devmod_targets._executables import package_folders
from devmod_targets.authoring import _process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The processes that wait for a request, by how they have started.
_IDLE: dict[bytes, deque[_LibraryProcess]] = {}
#: Each takes 40 MB or more, and sources of strangers may have many versions.
_MAX_IDLE = 8
#: The limit on the numbers and on the bytes of an answer, which the library determines.
_MAX_HEAD, _MAX_ANSWER = 1 << 16, 1 << 30


def find_library(wheel: str, names: str) -> str:
    """Return the path of the first library of an installed wheel whose name matches a pattern.

    It is "" if the wheel is not installed, or if this program is frozen and can start no Python.
    """
    for folder in package_folders(wheel) if can_start_python() else ():
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
    first = json.dumps({"path": search_path(), **start}).encode() + b"\n"
    idle = _IDLE.setdefault(first, deque())
    try:
        process = _take(idle) or _LibraryProcess(first, settings or {})
    except OSError as error:
        raise CompileError(f"{subject}: its process cannot be started: {error.strerror}", kind=kind) from error
    try:
        answer = process.answer(json.dumps({**request, "size": len(data)}).encode() + b"\n" + data, meanwhile)
        if answer is None:
            raise CompileError(f"{subject}: its process {process.end}. {advice}", kind=kind)
    except BaseException:
        process.close()
        raise
    # Windows has no forks, so the state of its process is no longer that of a new one.
    if hasattr(os, "fork") and sum(map(len, list(_IDLE.values()))) < _MAX_IDLE:
        idle.append(process)
    else:
        process.close()
    return answer


class _LibraryProcess:
    """A process of the library."""

    def __init__(self, start: bytes, settings: Mapping[str, str]) -> None:
        self._printed = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` closes it
        self._timed_out = False
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very Python
                python_command("devmod_targets._library_server"),
                env=os.environ | dict(settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
            )
        except BaseException:
            self._printed.close()
            raise
        self._start = start

    def answer(self, request: bytes, meanwhile: Callable[[], None]) -> Answer | None:
        """Return the answer to a request; None if the process ends, or exceeds the time limit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = Timer(_process.TIMEOUT, self._stop)
        timer.daemon = True
        timer.start()
        try:
            with suppress(OSError):  # it has ended: there is no answer
                self._process.stdin.write(self._start + request)
                self._process.stdin.flush()
            self._start = b""
            meanwhile()
            head = self._process.stdout.readline(_MAX_HEAD)
            if not head.endswith(b"\n"):
                return None
            status, *sizes = map(int, head.split())
            if sum(sizes) > _MAX_ANSWER:
                return None
            *parts, messages = map(self._process.stdout.read, sizes)
            if [*map(len, parts), len(messages)] != sizes:
                return None
        finally:
            timer.cancel()
        return status, parts, messages.decode("utf-8", "replace") + self._take_printed()

    @property
    def end(self) -> str:
        """How the process has ended, with the last line that it has printed."""
        if self._timed_out:
            return f"exceeded the time limit of {_process.TIMEOUT} seconds"
        last = next(filter(str.strip, reversed(self._take_printed().splitlines())), "")
        return describe_exit(self._process.wait()) + (last and f" ({last})")

    def is_alive(self) -> bool:
        """Return whether the process can answer."""
        return self._process.poll() is None

    def _stop(self) -> None:
        self._timed_out = True
        self._process.terminate()

    def _take_printed(self) -> str:
        """Return what the library has printed since the last answer, and remove it. Both processes have one position in the file."""
        if not self._printed.seek(0, os.SEEK_END):
            return ""
        self._printed.seek(0)
        data = self._printed.read()
        self._printed.seek(0)
        self._printed.truncate()
        return data.decode("utf-8", "replace")

    def close(self) -> None:
        """End the process. In the child of a fork, whose parent has the process, only close the child's files."""
        self._process.terminate()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):  # a request that was not read
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._printed.close()


def _take(idle: deque[_LibraryProcess]) -> _LibraryProcess | None:
    """Return a process that can answer, if there is one. What ended it while it was idle has no part in the next request."""
    with suppress(IndexError):
        while True:
            process = idle.pop()
            if process.is_alive():
                return process
            process.close()
    return None


@cache
def wheel_version(wheel: str, library: str) -> str:
    """Return the name and the version of a library's wheel, such as "slangpy 0.43.1".

    The version is in the name of the wheel's metadata folder: importing importlib.metadata takes 30 ms.
    """
    names = os.listdir(os.path.dirname(os.path.dirname(library)))
    match = next(filter(None, (re.fullmatch(rf"{wheel}-([\w.+!-]+)\.dist-info", name) for name in sorted(names))), None)
    return f"{wheel} {match[1]}" if match else wheel


@atexit.register
def close_idle() -> None:
    """End the processes that wait for a request."""
    for processes in _IDLE.values():
        while processes:
            processes.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=close_idle)
