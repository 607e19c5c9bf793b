"""The glslang and the SPIRV-Tools of the wheel slangpy: one library, which runs in processes of its own.

A crash of the library ends such a process alone. A process is kept for the next shader, because glslang needs 0.1 s for its tables before
the first one, and 2 ms for a small shader after it. slangpy itself is never imported: it loads a library of devices.
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

from devmod.errors import CompileError
from devmod.worker import can_start_python, describe_exit, python_command, search_path
from devmod_targets.authoring import _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAME = "slangpy"
#: Its malloc asks for huge pages: glslang's tables take 40 MB, and a quarter of their time are page faults of 4 KiB.
#: It also fills memory that it gives out, since glslang reads some that it has not written: its output depends on what was there before.
_SETTINGS = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864:glibc.malloc.perturb=255:glibc.malloc.tcache_count=0"}
_LIBRARY = r"(?:lib)?slang-glslang[\w.-]*\.(?:so|dylib|dll)"
#: SLANG_OPTIMIZATION_LEVEL_HIGH, the passes of ``spirv-opt -O``.
_OPTIMIZED = 2
#: The options of glslang for which the library has a debug level.
DEBUG_LEVELS = {"-g": 1, "-gV": 2, "-gVS": 3}
#: The processes that wait for a request, by how they have started.
_IDLE: dict[bytes, deque[_LibraryProcess]] = {}
#: Each takes 40 MB, and sources of strangers may have many versions.
_MAX_IDLE = 8
#: The version of GLSL, for which glslang makes its tables. Comments may contain it too.
_VERSION = re.compile(r"(?m)^[ \t]*#[ \t]*version[ \t]+(\d+)(?:[ \t]+(es|core|compatibility)\b)?")


def find_library(source: str) -> Library | None:
    """Return the library for a source; None if slangpy is not installed, or if this program is frozen and can start no Python."""
    from importlib.util import find_spec

    spec = find_spec(NAME) if can_start_python() else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        with suppress(OSError):
            for name in sorted(os.listdir(folder)):
                if re.fullmatch(_LIBRARY, name):
                    return Library(os.path.join(folder, name), source)
    return None


#: The output of a request, the messages, and if it failed the first of them.
Answer = tuple[bytes, str, str]


class Library:
    """The library of an installed wheel.

    Parameters
    ----------
    path
        The path of the library.
    source
        The name of the source that it processes, for errors.
    """

    def __init__(self, path: str, source: str) -> None:
        self._path, self._source = path, source
        self._first, self._minor = "", 0

    @property
    def toolchain(self) -> str:
        """The name and the version of the wheel for an origin, such as "slangpy 0.43.1"."""
        return _toolchain(self._path)

    def compile(self, text: str, spirv: str, options: Sequence[str], meanwhile: Callable[[], None]) -> Answer:
        """Compile GLSL to a version of SPIR-V such as "1.3", not optimized. `options` has keys of `DEBUG_LEVELS`."""
        debug = max((DEBUG_LEVELS[option] for option in options), default=0)
        version = _VERSION.search(text)
        self._first = f"#version {' '.join(filter(None, version.groups()))}\nvoid main() {{}}\n" if version else ""
        self._minor = int(spirv.partition(".")[2])
        return self._answer("compile", text.encode(), debug=debug, meanwhile=meanwhile)

    def optimize(self, data: bytes) -> Answer:
        """Optimize SPIR-V as ``spirv-opt -O`` does."""
        return self._answer("optimize", data, level=_OPTIMIZED)

    def validate(self, data: bytes) -> Answer:
        """Validate SPIR-V by the rules of the newest Vulkan that the library knows."""
        return self._answer("validate", data)

    def disassemble(self, data: bytes) -> Answer:
        """Return the text of SPIR-V as the output."""
        return self._answer("disassemble", data)

    def _answer(self, action: str, data: bytes, *, level: int = 0, debug: int = 0, meanwhile: Callable[[], None] = lambda: None) -> Answer:
        start = json.dumps({"path": search_path(), "library": self._path, "first": self._first, "minor": self._minor}).encode() + b"\n"
        idle = _IDLE.setdefault(start, deque())
        try:
            process = _take(idle) or _LibraryProcess(start)
        except OSError as error:
            raise CompileError(
                f"the library of {self.toolchain} cannot process {self._source}: its process cannot be started: {error.strerror}",
                kind="vulkan",
            ) from error
        try:
            answer = process.answer(f"{action} {level} {debug} {self._minor} {len(data)}\n".encode() + data, meanwhile)
            if answer is None:
                raise CompileError(
                    f"the library of {self.toolchain} cannot process {self._source}: its process {process.end}. To use the system's tools, "
                    "pass another --compiler=",
                    kind="vulkan",
                )
        except BaseException:
            process.close()
            raise
        # Without forks, its state is no longer that of a new one.
        if hasattr(os, "fork") and sum(map(len, list(_IDLE.values()))) < _MAX_IDLE:
            idle.append(process)
        else:
            process.close()
        return answer


class _LibraryProcess:
    """A process of the library."""

    def __init__(self, start: bytes) -> None:
        self._printed = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` closes it
        self._timed_out = False
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very Python
                python_command("devmod_targets.vulkan._glslang_process"),
                env=os.environ | _SETTINGS,
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
            head = self._process.stdout.readline()
            if not head.endswith(b"\n"):
                return None
            status, *sizes = map(int, head.split())
            output, messages = map(self._process.stdout.read, sizes)
            if [len(output), len(messages)] != sizes:
                return None
        finally:
            timer.cancel()
        log = messages.decode("utf-8", "replace") + self._take_printed()
        return output, log, (next(filter(str.strip, log.splitlines()), f"status {status}") if status else "")

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
def _toolchain(library: str) -> str:
    """Return the name and the version of the wheel, from the name of its metadata folder: importing importlib.metadata takes 30 ms."""
    names = os.listdir(os.path.dirname(os.path.dirname(library)))
    match = next(filter(None, (re.fullmatch(rf"{NAME}-([\w.+!-]+)\.dist-info", name) for name in sorted(names))), None)
    return f"{NAME} {match[1]}" if match else NAME


@atexit.register
def _close_idle() -> None:
    for processes in _IDLE.values():
        while processes:
            processes.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_idle)
