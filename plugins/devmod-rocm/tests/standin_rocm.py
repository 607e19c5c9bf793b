"""The stand-in HIP runtime for tests: building and loading it, its settings, and what it has noticed.

`DEVMOD_TEST_ROCM=hardware` runs the tests with the real runtime.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from rdna3_worker.emulator import TARGET
from rdna3_worker.emulator import missing as missing_emulator
from standin_build import BuildError, build
from standin_driver import PREFIX, StandinDriver

FOLDER = Path(__file__).resolve().parent
#: The name by which hip-python loads the runtime, and the first name that devmod-rocm tries.
SONAME = "libamdhip64.so"


def on_hardware() -> bool:
    """Return whether the tests run with the real runtime."""
    return os.environ.get("DEVMOD_TEST_ROCM") == "hardware"


@cache
def device_arch() -> str:
    """Return the processor that the tests compile for: the emulator's, or that of the first device, which another process asks for."""
    if not on_hardware():
        return TARGET
    code = "import devmod; print(devmod.device('rocm').arch)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    if process.returncode:
        pytest.skip(f"this machine has no ROCm device: {process.stderr.strip().splitlines()[-1]}")
    return process.stdout.strip()


@cache
def _built() -> Path | BuildError:
    try:
        return build(FOLDER / "standin", SONAME, [])
    except BuildError as error:
        return error


def library() -> Path:
    """Build the stand-in runtime and return its path, or skip the test with the reason."""
    result = _built()
    if isinstance(result, Path):
        return result
    if "does not compile" in str(result):
        raise result
    pytest.skip(str(result))


def worker() -> str:
    """Return the command of the worker, as the stand-in runtime takes it."""
    return "\x1f".join([sys.executable, "-W", "ignore", str(FOLDER / "rdna3_worker")])


def child_environment(**settings: object) -> dict[str, str]:
    """Return the environment variables by which a child process finds the stand-in runtime, with settings such as ``devices=2``."""
    paths = [str(library().parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(paths),
        PREFIX + "WORKER": worker(),
        **{PREFIX + name.upper(): str(value) for name, value in settings.items()},
    }


def needs_emulator() -> None:
    """Skip the test, with the reason, if no machine code of gfx1100 can be executed here."""
    reason = "" if on_hardware() else missing_emulator()
    if reason:
        pytest.skip(reason)


def missing_driver(name: str) -> str:
    """Return why a driver of Python cannot be used ("" if it can): the one by ctypes is a part of devmod-rocm."""
    if name == "ctypes" or find_spec("hip") is not None:
        return ""
    return f"{name} is not installed"


class Standin(StandinDriver):
    """The stand-in HIP runtime in this process: devmod-rocm and hip-python load the library by its name, and get this one."""

    def __init__(self) -> None:
        super().__init__(library(), worker())


@cache
def standin() -> Standin:
    """Return the stand-in runtime of this process, loaded with the first call."""
    assert not on_hardware(), "the stand-in runtime would take the name of the real one in this process"
    return Standin()
