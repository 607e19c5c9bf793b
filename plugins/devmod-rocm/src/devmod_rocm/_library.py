"""Find and open libamdhip64, HIP's runtime. A process uses only one, and PyTorch for ROCm has its own."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from importlib.util import find_spec

from devmod.errors import DeviceNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: The names of the library. The first is a link of the development files to the version in use; the others name a version.
NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
#: The folder of ROCm, unless an environment variable names another one.
_ROCM, _VARIABLES = "/opt/rocm", ("ROCM_PATH", "HIP_PATH")
#: The package of ROCm's runtime as a wheel.
_WHEEL = "_rocm_sdk_core"


def open_library() -> Any:
    """Return ctypes' object of libamdhip64: the one that the process has loaded, else the first one that the search finds.

    Raises
    ------
    DeviceNotFoundError
        It is missing, or cannot be opened.
    """
    failure = ""
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            # "file not found" is the answer for a name; another text is the reason why the library that exists cannot be used.
            if os.path.isabs(path) or "cannot open shared object file" not in str(error) or not str(error).startswith(path):
                failure = failure or str(error)
    what = f"{NAMES[0]} cannot be opened ({failure})" if failure else f"{NAMES[0]} is not installed"
    raise DeviceNotFoundError(
        f"no ROCm device can be used: {what}. It is HIP's runtime, a part of ROCm: install AMD's package hip-runtime-amd (Debian, Ubuntu: "
        f"apt install libamdhip64-5), or name the folder of ROCm in {_VARIABLES[0]}. devmod searches the system's libraries as "
        f"{', '.join(NAMES)}, and {_folder()}/lib",
        kind="rocm",
    )


def loaded_library() -> str:
    """Return the path of the libamdhip64 that this process has loaded; "" if there is none."""
    with suppress(OSError), open("/proc/self/maps") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith(NAMES[0]):
                return f"/{path}"
    return ""


def _folder() -> str:
    return next((value for value in map(os.environ.get, _VARIABLES) if value), _ROCM)


def _candidates() -> Iterator[str]:
    """Return the paths and names in their order."""
    loaded = loaded_library()
    if loaded:
        yield loaded
    yield from NAMES
    folders = [os.path.join(_folder(), "lib")]
    with suppress(ImportError, ValueError):
        spec = find_spec(_WHEEL)
        folders += [os.path.join(folder, "lib") for folder in (spec.submodule_search_locations if spec else None) or ()]
    for folder in folders:
        for name in NAMES:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                yield path
