"""Build a program binary in another process before this process loads it: a driver may crash on a damaged binary.

PoCL's binaries contain LLVM bitcode without a digest, so no check of the bytes can detect damage. Another process therefore builds each
new binary first, for PoCL down to the machine code of each kernel. The result is cached on disk by the binary's digest and the device.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile

from devmod.backend import DiskCache, array_bytes, parse_dtype
from devmod.errors import FormatError
from devmod.worker import Trial, python_command, read_answers, search_path, was_killed
from devmod_opencl import _driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import FunctionInfo
    from devmod_opencl._device import OpenCLDevice

#: The seconds after which the process is ended.
TIMEOUT = 120.0
#: What the process reports: the binary is built; a kernel is about to run; all kernels were run.
BUILT, RUNS, DONE = "built", "runs", "done"
_CACHE = DiskCache("opencl")
#: The cached result for a binary that the process has built.
_PASSED = b"done"
_TRIAL = Trial("opencl", "binary")


def try_binary(device: OpenCLDevice, binary: bytes, functions: Sequence[FunctionInfo]) -> None:
    """Build a binary in another process, unless a process has built it before.

    Parameters
    ----------
    device
        The device that the binary is for.
    binary
        The payload.
    functions
        The kernels to run.

    Raises
    ------
    FormatError
        The process crashed or could not be started.
    """
    if not _TRIAL.is_enabled:
        return
    request = {
        "device": device.identity,
        # Only for PoCL: other drivers' binaries are machine code, which is not compiled when it first runs.
        "kernels": [[info.name, _arguments(info)] for info in functions] if device.platform == _driver.POCL else [],
    }
    key = _CACHE.key("trial 1", json.dumps(request), binary)
    if _CACHE.read(key) == _PASSED:
        return
    with tempfile.TemporaryDirectory(prefix="devmod-opencl-") as folder:
        code, reports = _run(request, binary, folder)
        # A kernel that crashes on arrays of zeros may be valid. PoCL's cache then contains its machine code.
        valid = code == 0 or (reports[-1:] == [RUNS] and bool(machine_code(folder)))
    if not valid:
        raise FormatError(
            f"the opencl binary of {len(binary)} bytes is damaged: the process that built it for {device} crashed (exit status {code}). "
            "That was another process, so this one continues. Get the file again from its origin, or use the OpenCL C source "
            "(format 'cl')",
            kind="opencl",
        )
    _CACHE.write(key, _PASSED)


def _run(request: Mapping[str, object], binary: bytes, folder: str) -> tuple[int, list[str]]:
    """Return the exit status of the process and its reports. The status is also 0 if a kernel runs until the timeout."""
    try:
        process = subprocess.run(  # noqa: S603 - this interpreter
            python_command("devmod_opencl._trial_process"),
            input=json.dumps({**request, "path": search_path()}).encode() + b"\n" + binary,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            # What PoCL unpacks from a damaged binary must not enter the user's PoCL cache.
            env={**os.environ, "POCL_CACHE_DIR": folder},
            start_new_session=True,  # Ctrl-C in a terminal must reach only this process
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        if read_answers(error.stdout or b"")[-1:] == [RUNS]:
            return 0, [RUNS]
        raise _failure(f"it took longer than {TIMEOUT:g} seconds") from None
    except OSError as error:
        raise _failure(str(error)) from error
    if was_killed(process.returncode):
        raise _failure(f"it was killed (exit status {process.returncode})")
    return process.returncode, read_answers(process.stdout)


def machine_code(folder: str) -> list[str]:
    """Return the files of machine code in a cache of PoCL that are for one block size.

    The folder "0-0-0" has the code for any size, which is always part of a binary.
    """
    return [
        os.path.join(parent, name)
        for parent, _, files in os.walk(folder)
        if os.path.basename(parent) != "0-0-0"
        for name in files
        if name.endswith(".so")
    ]


def _arguments(info: FunctionInfo) -> list[str]:
    """Return the kind of each argument, or the size of a scalar in bytes. Kernels with images or samplers are not run."""
    kinds = [param.kind for param in info.interface.params] if info.interface is not None else [""] * len(info.arg_types)
    return [_argument(kind, dtype) for kind, dtype in zip(kinds, info.arg_types, strict=True)]


def _argument(kind: str, dtype: str) -> str:
    if kind in ("buffer", "local", "image", "sampler"):
        return kind
    if dtype == "handle":
        return "buffer"
    code, bits, lanes = parse_dtype(dtype)
    # A vector of three in OpenCL has the size of four; bytes may be a struct of any size.
    return str(array_bytes((code, bits, 4 if lanes == 3 and bits > 8 else lanes)))


def _failure(why: str) -> FormatError:
    return FormatError(_TRIAL.failure("the opencl binary", why), kind="opencl")
