"""Trials: a separate process compiles a new shader first, because naga and drivers crash on some
texts.

No check of a text can find all of these. The result of a trial is stored in the disk cache, under a
key of everything it depends on. The process of a text that is new on this machine starts before
this process loads wgpu, so both load it at once. This file loads no driver. A program that cannot
start processes, or that runs only its own shaders, sets ``DEVMOD_WEBGPU_TRIAL=0``. Frozen programs
have no interpreter to start, and skip the trial.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress

from devmod.backend import DiskCache
from devmod.errors import CompileError
from devmod.worker import IdleWorkers, Worker
from devmod_runtime import Trial, was_killed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod_webgpu._device import WebGPUDevice
    from devmod_webgpu._pipeline import Groups

#: The seconds after which a trial is killed, at its start and for each shader.
TIMEOUT = 120.0
_PASSED = b"done\n"
_CRASHED = b"ended\n"
_CACHE = DiskCache("webgpu")
_TRIAL = Trial("webgpu", "shader")

_tried: set[str] = set()


class _Process(Worker):
    """A process that tries shaders. It is ready after its first answer."""

    def __init__(self) -> None:
        self.is_ready = False
        super().__init__("devmod_webgpu._trial_process", {}, captures=True)

    def compile(self, request: Mapping[str, Any]) -> dict[str, str] | None:
        """Send a request and return its answer; None if the process has ended, or took too long."""
        self.is_ready = self.is_ready or self.answer(TIMEOUT) is not None
        if not self.is_ready:
            return None
        return self.ask(request, TIMEOUT)  # type: ignore[no-any-return]


#: The processes that wait for the next shader.
_idle: IdleWorkers[_Process] = IdleWorkers(2)


def expect(text: str) -> None:
    """Start a process if no process of this user has expected this text. A trial that fails to
    start raises its error in `try_shader`.
    """
    if not _TRIAL.is_enabled:
        return
    key = _CACHE.key("expected 1", text)
    if _CACHE.read(key) is None:
        _CACHE.write(key, b"")
        with suppress(OSError):
            _idle.add(_idle.take() or _Process())


def try_shader(
    device: WebGPUDevice,
    name: str,
    text: str,
    entry: str,
    groups: Groups,
    constants: Mapping[str, bool | int | float],
) -> None:
    """Compile a shader in another process, unless a trial has passed before.

    Raises
    ------
    CompileError
        The process crashes, or cannot be started.
    """
    if not _TRIAL.is_enabled:
        return
    from devmod_webgpu._driver import version

    request = {"text": text, "entry": entry, "groups": groups, "constants": dict(constants)}
    identity = json.dumps(request, sort_keys=True)
    key = _CACHE.key("trial 1", version(), device.summary, device.driver_version, identity)
    if key in _tried:
        return
    stored = _CACHE.read(key)
    if stored != _PASSED:
        printed = None
        if stored and stored.startswith(_CRASHED):
            printed = stored[len(_CRASHED) :].decode("utf-8", "replace")
        else:
            printed = _try(device, name, request)
            result = _PASSED
            if printed is not None:
                result = _CRASHED + printed.encode("utf-8", "replace")
            _CACHE.write(key, result)
        if printed is not None:
            raise _crash_error(device, name, printed)
    _tried.add(key)


def _crash_error(device: WebGPUDevice, name: str, printed: str) -> CompileError:
    panic = next((line.strip() for line in printed.splitlines() if "panicked at" in line), "")
    detail = ""
    if panic:
        detail = f" ({panic})"
    return CompileError(
        f"the webgpu shader of {name!r} crashes wgpu or the driver of {device}{detail}. A separate process compiled it first, so this "
        "process is not affected. Change the shader: use simpler expressions, or avoid the construct that the log names",
        kind="webgpu",
        function=name,
        log=printed,
    )


def _try(device: WebGPUDevice, name: str, request: Mapping[str, Any]) -> str | None:
    """Return None if a process compiles the shader, and the end of its output if it crashes."""
    request = {**request, "adapter": device.summary}
    for _ in range(3):
        idle = _idle.take()
        process = idle or _start_process(name)
        with ExitStack() as ending:
            ending.push(process)
            answer = process.compile(request)
            if answer == {}:
                ending.pop_all()
                _idle.add(process)
                return None
            if answer is not None:
                if "problem" in answer:
                    raise _trial_error(name, answer["problem"])
                return answer["lost"]
            process.kill()
            code = process.process.wait()
            printed = process.printed
        if code == 0 or (idle and (was_killed(code) or not process.is_ready)):
            continue  # an idle process ends after a while
        if not process.is_ready:
            raise _trial_error(
                name,
                f"it ended with status {code} at its start: {printed.strip().rpartition(chr(10))[2]}",
            )
        if was_killed(code):
            raise _trial_error(
                name,
                f"it ended with status {code} (it took over {TIMEOUT:g} seconds, or was killed)",
            )
        return printed
    raise _trial_error(name, "it ends before it compiles anything")


def _start_process(name: str) -> _Process:
    try:
        return _Process()
    except OSError as error:
        raise _trial_error(name, str(error)) from error


def _trial_error(name: str, why: str) -> CompileError:
    return CompileError(
        _TRIAL.failure(f"the webgpu shader of {name!r}", why), kind="webgpu", function=name
    )
