"""The stand-in CUDA driver for tests: building and loading it, its settings, and what it has noticed.

`DEVMOD_TEST_CUDA=hardware` runs the tests with the real driver.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from standin_build import BuildError, build
from standin_driver import PREFIX, StandinDriver

FOLDER = Path(__file__).resolve().parent
SONAME = "libcuda.so.1"


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


class Standin(StandinDriver):
    """The stand-in CUDA driver in this process: cuda-bindings, cuda.core and pycuda load the library by its soname, and get this one."""

    def __init__(self) -> None:
        super().__init__(library(), worker())


@cache
def standin() -> Standin:
    """Return the stand-in driver of this process, loaded with the first call."""
    return Standin()
