"""The stand-in CUDA driver for tests: building and loading it, its settings, and what it has noticed.

`DEVMOD_TEST_CUDA=hardware` runs the tests with the real driver.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from standin_build import BuildError, build

FOLDER = Path(__file__).resolve().parent
SONAME = "libcuda.so.1"
#: The settings that `Standin.set` changes, with the name of the environment variable in a child process.
PREFIX = "DEVMOD_STANDIN_"


def on_hardware() -> bool:
    """Return whether the tests run with the real driver."""
    return os.environ.get("DEVMOD_TEST_CUDA") == "hardware"


def _headers() -> Path:
    """Return the folder of cuda.h, in the wheel nvidia-cuda-runtime."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nvidia-cuda-runtime") or ():
            if file.name == "cuda.h":
                return Path(str(file.locate())).resolve().parent
    raise BuildError("cuda.h is not installed, which the stand-in driver needs: pip install nvidia-cuda-runtime")


@cache
def _built() -> Path | BuildError:
    try:
        return build(FOLDER / "standin", SONAME, [_headers()])
    except BuildError as error:
        return error


def library() -> Path:
    """Build the stand-in driver and return its path, or skip the test with the reason."""
    result = _built()
    if isinstance(result, Path):
        return result
    if "does not compile" in str(result):
        raise result
    pytest.skip(str(result))


def worker() -> str:
    """Return the command of the interpreter, as the stand-in driver takes it."""
    return "\x1f".join([sys.executable, str(FOLDER / "ptx_interpreter")])


def child_environment(**settings: object) -> dict[str, str]:
    """Return the environment variables by which a child process finds the stand-in driver, with settings such as ``devices=2``."""
    paths = [str(library().parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(paths),
        PREFIX + "WORKER": worker(),
        "CUDA_FORCE_PTX_JIT": "1",  # a source is compiled to PTX: the stand-in driver runs no cubins
        **{PREFIX + name.upper(): str(value) for name, value in settings.items()},
    }


def missing_driver(name: str) -> str:
    """Return why a driver's package cannot be used ("" if it can): pycuda is built by `make test-setup`, where that works."""
    module = {"pycuda": "pycuda", "cuda-bindings": "cuda.bindings"}[name]
    if find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None:
        return ""
    return f"{name} is not installed" + (
        " (make test-setup builds it; .venv/devmod-pycuda has the reason of a failure)" if name == "pycuda" else ""
    )


class Standin:
    """The stand-in driver in this process. It has devices between `show` and `hide` alone, so that other tests see none."""

    def __init__(self) -> None:
        # cuda-bindings, cuda.core and pycuda load the library by its soname, and get this one, which is loaded already.
        self._library = ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)
        self._library.standin_report.restype = ctypes.c_char_p
        self._library.standin_last_launch.restype = ctypes.c_char_p
        self._library.standin_calls.restype = ctypes.c_uint64
        self._library.standin_launches.restype = ctypes.c_uint64
        self._library.standin_set.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self._settings: set[str] = set()
        self._library.standin_set(b"worker", worker().encode())
        self.hide()

    @property
    def api(self) -> ctypes.CDLL:
        """The library, for calls of CUDA's functions."""
        return self._library

    def set(self, name: str, value: object) -> None:
        """Set a setting (tests/standin/README.md has the list) until `reset`; None removes it."""
        self._settings.add(name)
        self._library.standin_set(name.encode(), None if value is None else str(value).encode())

    def reset(self) -> None:
        """Remove all settings and forget the violations."""
        for name in self._settings:
            self._library.standin_set(name.encode(), None)
        self._settings.clear()
        self._library.standin_forget()

    @property
    def failed(self) -> bool:
        """Whether a device has a sticky error."""
        return "failed" in self.report

    def forget_failures(self) -> None:
        """Forget sticky errors, as a new process would."""
        self._library.standin_forget_failures()

    def show(self) -> None:
        """Let the driver have its devices."""
        self._library.standin_set(b"hidden", None)

    def hide(self) -> None:
        """Let the driver have no device."""
        self._library.standin_set(b"hidden", b"1")

    def skip_launches(self, skip: bool = True) -> None:
        """Let launches return at once and do nothing."""
        self._library.standin_skip_launches(int(skip))

    @property
    def report(self) -> dict[str, int]:
        """The numbers of live objects by kind, and the blocks and bytes of memory by device."""
        pairs = (line.split(" ") for line in self._lines() if not line.startswith(("violation ", "reason ")))
        return {name: int(value) for name, value in pairs}

    @property
    def violations(self) -> list[str]:
        """The uses of the API that have no defined result with a real driver: stale handles, double frees, memory out of range."""
        return [line.removeprefix("violation ") for line in self._lines() if line.startswith("violation ")]

    @property
    def reason(self) -> str:
        """The reason of the last error that has a text of its own: a kernel's fault, PTX that cannot be loaded."""
        return next(line.removeprefix("reason ") for line in self._lines() if line.startswith("reason "))

    @property
    def last_launch(self) -> dict[str, str]:
        """The last launch: ``name``, ``grid``, ``block``, ``cluster``, ``shared`` and so on, ``params`` in hexadecimal."""
        name, *fields = self._library.standin_last_launch().decode().split(" ")
        return {"name": name, **dict(field.split("=") for field in fields)}

    @property
    def launches(self) -> int:
        """The number of launches so far."""
        return int(self._library.standin_launches())

    def calls(self, name: str) -> int:
        """Return how often a function of CUDA was called, by its name without a version."""
        return int(self._library.standin_calls(name.encode()))

    def _lines(self) -> list[str]:
        return self._library.standin_report().decode(errors="replace").splitlines()


@cache
def standin() -> Standin:
    """Return the stand-in driver of this process, loaded with the first call."""
    return Standin()
