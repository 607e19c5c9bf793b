"""A process that calls one shared library for `devmod_targets.authoring._library`. It imports nothing else of devmod.

A request is a line of JSON, a map with "size", and that many bytes. An answer is a line of numbers, the status and the sizes of the parts
of the answer, and the parts. The last part are the messages. The library's own output goes to the standard error of the process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from importlib import import_module
from threading import Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How often in seconds a process looks for its parent: other forks of the parent may keep the standard input open.
_INTERVAL = 1
#: PR_SET_PDEATHSIG of Linux.
_PARENT_DEATH_SIGNAL = 1


def main(start: dict[str, Any]) -> None:
    """Answer requests until the standard input ends. The end of the parent ends this process during a request too.

    A library may read memory that it has not written, so its output would depend on what the process did before. Such a library answers
    each request in a fork of one state. On Windows, which has no forks, the other process ends this one after one answer.

    Parameters
    ----------
    start
        "module" is the name of the module with the function ``load(start)``. That function opens the library, and returns a function of
        a request and its bytes, which returns the status and the parts of the answer. "forks" is whether each request has a fork.
    """
    own, parent = os.getpid(), os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process receives it as well, and ends this one
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the library prints notes to it, and at the end what it has buffered
    answer = import_module(start["module"]).load(start)
    child = 0
    if sys.platform == "linux":
        import ctypes

        control = ctypes.CDLL(None).prctl

    def stop(*_: object) -> None:
        if child:
            os.kill(child, signal.SIGKILL)
        os._exit(1)

    forks = start["forks"] and hasattr(os, "fork")
    if forks:
        signal.signal(signal.SIGTERM, stop)
    watch = Thread(target=_end_with_parent, args=(parent,), daemon=True)
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["size"])
        if forks:
            ended, alive = os.pipe()  # the child closes `alive` before it answers: the next request may come at once
            child = os.fork()
        elif not watch.is_alive():
            watch.start()
        if child:
            os.close(alive)
            ready: list[int] = []
            while not ready and os.getppid() == parent:
                ready = select.select([ended, requests.fileno()], [], [], _INTERVAL)[0]
            if ended not in ready:  # the parent has ended
                stop()
            os.close(ended)
            status = os.waitpid(child, 0)[1]
            child = 0
            if status:  # this process ends as its child did
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.kill(os.getpid(), os.WTERMSIG(status) or signal.SIGTERM)
            continue
        if forks and sys.platform == "linux":  # this process alone would survive a SIGKILL of its parent
            control(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() != own:  # its parent has ended before
                os._exit(1)
        status, *parts = answer(request, data)
        if forks:
            os.close(alive)
        answers.write(" ".join(map(str, (status, *map(len, parts)))).encode() + b"\n" + b"".join(parts))
        answers.flush()
        if forks:
            os._exit(0)


def _end_with_parent(parent: int) -> None:
    """End this process after its parent, also during a call of the library."""
    if hasattr(os, "fork"):
        while os.getppid() == parent:
            time.sleep(_INTERVAL)
    else:
        os.read(sys.stdin.fileno(), 1)
    os._exit(1)
