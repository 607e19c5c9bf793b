"""Trials: a separate process compiles a new shader first, because naga and drivers crash on some texts.

No check of a text can find all of these. The result of a trial is stored in the disk cache, under a key of everything it depends on.
The process of a text that is new on this machine starts before this process loads wgpu, so both load it at once. This file loads no driver.
A program that cannot start processes, or that runs only its own shaders, sets ``DEVMOD_WEBGPU_TRIAL=0``. Frozen programs have no
interpreter to start, and skip the trial.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from contextlib import suppress

from devmod.backend import DiskCache
from devmod.errors import CompileError
from devmod.worker import Worker
from devmod_runtime import Trial, was_killed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod_webgpu._device import WebGPUDevice
    from devmod_webgpu._pipeline import Groups

#: The seconds after which a trial is killed, at its start and for each shader.
TIMEOUT = 120.0
#: The most idle processes that wait for the next shader.
_MAX_IDLE = 2
_PASSED = b"done\n"
_CRASHED = b"ended\n"
_CACHE = DiskCache("webgpu")
_TRIAL = Trial("webgpu", "shader")

_idle: list[_Process] = []
_tried: set[str] = set()


class ProcessEndedError(Exception):
    """The process has ended. `code` is its exit status, `printed` the end of its output."""

    def __init__(self, code: int, printed: str) -> None:
        super().__init__(code, printed)
        self.code, self.printed = code, printed


class _Process(Worker):
    """A process that tries shaders. It is ready after its first answer."""

    def __init__(self) -> None:
        self.is_ready = False
        super().__init__("devmod_webgpu._trial_process", {}, captures=True)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer, as `_receive` does. A process that does not read it is killed too."""
        if not self.is_ready:
            self._receive()
            self.is_ready = True
        watchdog = threading.Timer(TIMEOUT, self.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            self.send(request)
        finally:
            watchdog.cancel()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        """Return the next answer.

        Raises
        ------
        ProcessEndedError
            The process has ended, or took too long.
        """
        answer: dict[str, Any] | None = self.answer(TIMEOUT)
        if answer is not None:
            return answer
        self.kill()
        raise ProcessEndedError(self.process.wait(), self.printed)

    def forget(self) -> None:
        """Close the files of a process of the parent. The file of answers stays open: a thread that a fork ends may have locked it."""
        self.process.returncode = 0
        self.close()

    def stop(self) -> None:
        """End the process."""
        self.__exit__()


def expect(text: str) -> None:
    """Start a process if no process of this user has expected this text. A trial that fails to start raises its error in `try_shader`."""
    if not _TRIAL.is_enabled:
        return
    key = _CACHE.key("expected 1", text)
    if _CACHE.read(key) is None:
        _CACHE.write(key, b"")
        with suppress(OSError):
            _idle.append(_Process())


def try_shader(device: WebGPUDevice, name: str, text: str, entry: str, groups: Groups, constants: Mapping[str, bool | int | float]) -> None:
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
        printed = stored[len(_CRASHED) :].decode("utf-8", "replace") if stored and stored.startswith(_CRASHED) else None
        if printed is None:
            printed = _try(device, name, request)
            _CACHE.write(key, _PASSED if printed is None else _CRASHED + printed.encode("utf-8", "replace"))
        if printed is not None:
            raise _crash_error(device, name, printed)
    _tried.add(key)


def _crash_error(device: WebGPUDevice, name: str, printed: str) -> CompileError:
    panic = next((line.strip() for line in printed.splitlines() if "panicked at" in line), "")
    detail = f" ({panic})" if panic else ""
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
        try:
            process, fresh = _idle.pop(), False
        except IndexError:
            process, fresh = _start_process(name), True
        try:
            answer = process.ask(request)
        except ProcessEndedError as ended:
            process.stop()
            if ended.code == 0 or (not fresh and (was_killed(ended.code) or not process.is_ready)):
                continue  # an idle process ends after a while
            if not process.is_ready:
                last = ended.printed.strip().rpartition("\n")[2]
                raise _trial_error(name, f"it ended with status {ended.code} at its start: {last}") from ended
            if was_killed(ended.code):
                raise _trial_error(name, f"it ended with status {ended.code} (it took over {TIMEOUT:g} seconds, or was killed)") from ended
            return ended.printed
        except BaseException:
            process.stop()
            raise
        if answer or len(_idle) >= _MAX_IDLE:
            process.stop()
        else:
            _idle.append(process)
        if "problem" in answer:
            raise _trial_error(name, answer["problem"])
        return answer.get("lost")
    raise _trial_error(name, "it ends before it compiles anything")


def _start_process(name: str) -> _Process:
    try:
        return _Process()
    except OSError as error:
        raise _trial_error(name, str(error)) from error


def _trial_error(name: str, why: str) -> CompileError:
    return CompileError(_TRIAL.failure(f"the webgpu shader of {name!r}", why), kind="webgpu", function=name)


def _stop_all() -> None:
    while _idle:
        _idle.pop().stop()


def _forget_in_child() -> None:
    """Forget the processes in a forked child, because they belong to the parent. They end when it has closed their standard input."""
    while _idle:
        _idle.pop().forget()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_forget_in_child)
