"""Python processes for work that may crash or hang. A process receives a request, and answers in lines of JSON."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

#: The code that the new process runs. It sets its sys.path to that of this process. The programs that it starts get no requests as input.
_START = (
    "import json,os,sys;sys.stdin=open(os.dup(0),encoding='utf-8');os.dup2(os.open(os.devnull,os.O_RDONLY),0);"
    "r=json.loads(sys.stdin.buffer.readline());sys.path[:]=r['path'];from {} import main;main(r)"
)

#: The code of a process that kills its process group when its input ends.
_GUARD = "import os, signal; os.read(0, 1); os.killpg(0, signal.SIGKILL)"
#: The processes without a program to guard: the process group, and the pipe that keeps it.
_guards: list[tuple[int, int]] = []


def python_command(module: str) -> list[str]:
    """Return the command of a process that calls ``main(request)`` of a module. It reads the request, a line of JSON with "path".

    The process does not import from the current folder, which may be a stranger's, unless `sys.path` names it.
    """
    flags = [flag for flag, is_set in (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site)) if is_set]
    return [sys.executable, "-P", *flags, "-c", _START.format(module)]


def search_path() -> list[str]:
    """Return the absolute folders of sys.path: the other process may have another working directory."""
    return [os.path.abspath(each) for each in sys.path]


def describe_exit(code: int) -> str:
    """Return a description of an exit status, for messages."""
    return f"ends with signal {-code}" if code < 0 else f"ends with exit status {code}"


def can_start_python() -> bool:
    """Return whether a Python process can be started. A frozen program has no interpreter."""
    return not getattr(sys, "frozen", False) and bool(sys.executable)


def answer_writer() -> Callable[[object], None]:
    """Return the function with which the new process sends a JSON value. Other output goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    return answer


def read_answers(output: bytes) -> list[Any]:
    """Return the answers in the standard output of a process. An incomplete last line is ignored."""
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


class Worker:
    """A process that runs ``main(request)`` of a module, in a session of its own. The end of the context kills it.

    Parameters
    ----------
    module
        The name of the module.
    request
        The argument of `main`, of JSON's types. The key "path" is added.
    stderr
        The file for other output than answers; by default the standard error of this process.

    Attributes
    ----------
    process
        The process.
    """

    def __init__(self, module: str, request: dict[str, Any], stderr: IO[bytes] | None = None) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - this very Python
            python_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C in a terminal must reach only this process, which ends the other
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._late = False
        threading.Thread(target=self._read, daemon=True).start()
        self.send({**request, "path": search_path()})

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self.process.stdin is not None
        with suppress(OSError):  # a request that was not read
            self.process.stdin.close()
        self.process.wait()

    def send(self, request: object) -> None:
        """Send a further request, a line of JSON. A process that has ended ignores it."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        """End the process and the programs that it has started."""
        if self.process.returncode is not None:  # its number may be another process's
            return
        with suppress(OSError):  # it has ended
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def answer(self, seconds: float | None = None) -> Any:
        """Return the next answer; None if the process ends before, or takes longer than `seconds` (default: no limit)."""
        try:
            line = self._lines.get(timeout=None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        except queue.Empty:
            line, self._late = b"", self.process.poll() is None
        if not line:
            self._lines.put(b"")  # for the next call
        return json.loads(line) if line.endswith(b"\n") else None  # the last line may be incomplete

    @property
    def end(self) -> str:
        """A description of the end of the process, for messages."""
        return "does not end" if self._late else describe_exit(self.process.wait())

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, at most so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)


def answers(module: str, items: Sequence[Any], seconds: float) -> Iterator[tuple[Any, str]]:
    """Yield for each item an answer and "", or None and how the process ended.

    ``main(request)`` of `module` calls `answer_items`. If its process ends, or takes longer than `seconds` for an item, another process
    continues with the next item.
    """
    position = 0
    while position < len(items):
        with Worker(module, {"items": items[position:]}) as worker:
            answer: Any = ""
            while answer is not None and position < len(items):
                answer = worker.answer(seconds)
                position += 1
                end = "" if answer is not None else worker.end
                yield answer, f"takes longer than {seconds:g} s" if end == "does not end" else end.replace("ends", "ends the process", 1)


def answer_items(request: dict[str, Any], function: Callable[[Any], object]) -> None:
    """Answer in the new process with ``function(item)`` for each item of ``request["items"]``."""
    answer = answer_writer()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        for item in request["items"]:
            answer(function(item))
    except KeyboardInterrupt:  # the first process receives it as well and reports it
        sys.exit(130)


def _end_with_parent() -> None:
    """End this process and its programs when the other process ends: a signal may kill that one while an item hangs here."""
    with suppress(OSError):
        os.read(sys.stdin.fileno(), 1)  # the end of the pipe, since there are no further requests
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


@contextmanager
def guarded_group() -> Iterator[int | None]:
    """Yield a process group for a program, as `process_group` of Popen. An exception, or the end of this process, kills the whole group.

    Windows has no groups. A frozen program has no interpreter to start, so only its programs' own ends end them.
    """
    if not hasattr(os, "killpg") or not can_start_python():
        yield None
        return
    guard = _guards.pop() if _guards else _start_guard()
    try:
        yield guard[0]
    except BaseException:
        os.close(guard[1])
        with suppress(OSError):  # the program of this process may wait for any child
            os.waitpid(guard[0], 0)
        raise
    _guards.append(guard)


def _start_guard() -> tuple[int, int]:
    """Start a process in a group of its own, so Ctrl-C in a terminal does not reach it, and return the group and the pipe to it."""
    reader, writer = os.pipe()
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    command = [sys.executable, "-I", "-S", "-c", _GUARD]
    group = os.posix_spawn(sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), *quiet], setpgroup=0)
    os.close(reader)
    return group, writer


def _leave_guards() -> None:
    """In the child of a fork, close the pipes, which the parent has too."""
    while _guards:
        os.close(_guards.pop()[1])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_guards)
