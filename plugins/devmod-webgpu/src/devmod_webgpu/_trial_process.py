"""The separate process that compiles new shaders. naga or the driver may crash it on a text that
passes all checks.

Each line of its standard input is a request in JSON. It answers each with one line. It ends at the
end of its input, and after `IDLE_SECONDS` without a request. It runs no shader.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from devmod.worker import answer_writer

#: The process ends after this many seconds without a request, because it keeps a device open.
IDLE_SECONDS = 30.0
#: The stack size for compiling: less than that of the main process on Linux and macOS, which may
#: compile at a deeper call depth.
_STACK = 6 << 20


def main(_: dict[str, Any]) -> None:
    """Answer requests until there are no more."""
    import threading

    if os.name == "posix":
        threading.stack_size(_STACK)
    worker = threading.Thread(target=_work)
    worker.start()
    worker.join()
    os._exit(1)  # not reached: the worker ends the process


def _work() -> None:
    import json
    import threading

    answer = answer_writer()
    # The longest part of a trial: the other process may start this one before it loads wgpu itself.
    from devmod_webgpu import _driver

    adapters = _driver.all_adapters()
    gpus: dict[str, Any] = {}
    answer({"ready": True})
    while True:
        idle = threading.Timer(IDLE_SECONDS, os._exit, (0,))
        idle.daemon = True
        idle.start()
        line = sys.stdin.buffer.readline()
        idle.cancel()
        if not line:
            break
        answer(_answer(json.loads(line), adapters, gpus))
    os._exit(0)  # releasing a device at exit may wait for its driver's threads


def _answer(request: dict[str, Any], adapters: list[Any], gpus: dict[str, Any]) -> dict[str, str]:
    """Build the requested pipeline. Compile errors are ignored, because the main process compiles
    again and raises them.
    """
    from devmod_webgpu import _driver
    from devmod_webgpu._pipeline import build_pipeline, make_shader

    summary = request["adapter"]
    if summary not in gpus:
        adapter = next((each for each in adapters if each.summary == summary), None)
        if adapter is None:
            return {"problem": f"it cannot find the adapter {summary}"}
        gpus[summary] = _driver.open_device(adapter)
    gpu = gpus[summary]
    try:
        shader = make_shader(gpu, request["text"])
        build_pipeline(gpu, shader, request["entry"], request["groups"], request["constants"])
    except (_driver.Error, OverflowError, UnicodeError) as error:
        if _driver.is_lost(error):
            del gpus[summary]
            return {"lost": _driver.describe_error(error)}
    return {}
