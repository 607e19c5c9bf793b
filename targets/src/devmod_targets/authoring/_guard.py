"""Process groups that end with this process: a compiler and the programs that it starts may run on without it."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from devmod.worker import can_start_python

#: The code of a process that kills its process group when its input ends.
_GUARD = "import os, signal; os.read(0, 1); os.killpg(0, signal.SIGKILL)"
#: The processes without a program to guard: the process group, and the pipe that keeps it.
_guards: list[tuple[int, int]] = []


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
        _end_guard(*guard)
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


def _end_guard(group: int, pipe: int) -> None:
    os.close(pipe)
    with suppress(OSError):  # the program of this process may wait for any child
        os.waitpid(group, 0)


def _end_guards() -> None:
    """At the end of this process: the first process of a container may wait for no child of another, which stays a zombie there."""
    while _guards:
        _end_guard(*_guards.pop())


def _leave_guards() -> None:
    """In the child of a fork, close the pipes, which the parent has too."""
    while _guards:
        os.close(_guards.pop()[1])


atexit.register(_end_guards)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_guards)
