"""A process that calls one shared library for `devmod_targets.authoring._library`.

A request is a map with "data", bytes in base 64. An answer is an array of the status and of the
parts of the answer, in base 64. The last part are the messages. The library's own output goes to
the standard error of the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from base64 import b64decode, b64encode
from importlib import import_module
from typing import Any

from devmod.worker import answer_writer, end_group_with


def main(start: dict[str, Any]) -> None:
    """Answer requests until the other process ends this one.

    A library may read memory that it has not written, so its output would depend on what the
    process did before. Such a library answers each request in a fork of one state. On Windows,
    which has no forks, the other process ends this one after one answer.

    Parameters
    ----------
    start
        "module" is the name of the module with the function ``load(start)``. That function opens
        the library, and returns a function of a request and its bytes, which returns the status and
        the parts of the answer. "forks" is whether each request has a fork.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows has no sessions
    answer = answer_writer()
    os.dup2(
        os.open(os.devnull, os.O_WRONLY), 1
    )  # the library prints notes to it, and at the end what it has buffered
    call = import_module(start["module"]).load(start)
    forks = start["forks"] and sys.platform != "win32"
    lifeline, alive = os.pipe()
    end_group_with(lifeline)  # a SIGKILL of this process ends its fork
    while line := sys.stdin.buffer.readline():
        if sys.platform != "win32" and forks:
            if child := os.fork():
                if status := os.waitpid(child, 0)[1]:  # this process ends as its child did
                    os.kill(os.getpid(), os.WTERMSIG(status) or signal.SIGTERM)
                continue
            os.close(alive)
        request = json.loads(line)
        status, *parts = call(request, b64decode(request["data"]))
        answer([status, *[b64encode(part).decode() for part in parts]])
        if forks:
            os._exit(0)
