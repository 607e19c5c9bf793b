"""The linker that PoCL runs for each kernel. PoCL ends the process if that fails, so the linker is
tried first, once for a machine.

Each process imports this file, and only the first one needs the modules that try the linker.
"""

from __future__ import annotations

import os

from devmod.backend import DiskCache
from devmod_opencl import _driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_opencl._device import OpenCLDevice

#: What PoCL links kernels with.
_LIBRARIES = ("-lgcc", "--as-needed", "-lgcc_s", "--no-as-needed", "-lc")
_PROBE = b"kernel void probe(global int *x) { x[get_global_id(0)] = 1; }"
_CACHE = DiskCache("opencl")
#: The cached result for a linker that works.
_PASSED = b"done"
#: The keys of the successful trials.
_tried: set[str] = set()


def try_linker(device: OpenCLDevice) -> None:
    """Check the linker, if the device is PoCL's and no process has done so before: link a library,
    or else run a kernel in a process.

    Raises
    ------
    ToolchainNotFoundError
        The process crashed.
    """
    if device.platform != _driver.POCL:
        return
    key = _CACHE.key("linker 3", device.identity, repr(os.environ.get("PATH")))
    if key in _tried:
        return
    if _CACHE.read(key) != _PASSED:
        from devmod_opencl._trial import TRIAL

        if not TRIAL.is_enabled or (not _links() and not _runs_kernel(device)):
            return
        _CACHE.write(key, _PASSED)
    _tried.add(key)


def _links() -> bool:
    """Return whether the linker in PATH makes a library with gcc's library and C's, as PoCL's
    command does (30 ms; a kernel 1 s).
    """
    import subprocess
    from glob import glob

    from devmod.backend import find_program, temporary_folder
    from devmod.worker import guarded_group

    # PoCL looks into relative folders too, which `find_program` leaves out, and without PATH it
    # finds no linker.
    if not all(map(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))):
        return False
    linker = find_program("ld")
    folders = [f"-L{folder}" for folder in glob("/usr/lib*/gcc/*/*/")]
    if not linker or not folders:
        return False  # PoCL may find others
    try:
        with temporary_folder() as folder, guarded_group() as group:
            subprocess.run(  # noqa: S603 - a program of the user's PATH, as PoCL runs it
                [linker, "-shared", "-o", os.path.join(folder, "probe.so"), *folders, *_LIBRARIES],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=10,
                check=True,
                process_group=group,
            )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _runs_kernel(device: OpenCLDevice) -> bool:
    """Build and run a kernel in another process. Return False if it was not started or was killed,
    which shows nothing.
    """
    from devmod.backend import temporary_folder
    from devmod.errors import FormatError, ToolchainNotFoundError
    from devmod.worker import describe_exit
    from devmod_opencl import _trial

    request = {"device": device.identity, "source": True, "kernels": [["probe", ["buffer"]]]}
    try:
        with temporary_folder() as folder:
            code, _, log = _trial.run_trial(request, _PROBE, folder)
    except FormatError:
        return False
    if code:
        reason = log.strip()[-200:]
        for line in log.splitlines():
            if "error:" in line or line.startswith("/"):
                reason = line
                break
        raise ToolchainNotFoundError(
            f"{device} cannot run kernels: PoCL runs the system's linker (ld), which needs gcc's library, and the process that tried "
            f"it {describe_exit(code).replace('ends', 'ended', 1)} ({reason}). Install gcc (Debian, Ubuntu: apt-get install gcc; "
            "Fedora: dnf install gcc; macOS: xcode-select --install). DEVMOD_OPENCL_TRIAL=0 disables this check",
            kind="opencl",
        )
    return True
