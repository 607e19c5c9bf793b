"""The check of devmod-opencl for `devmod.doctor`: the drivers that the OpenCL loader and devmod
open.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from glob import escape, glob
from importlib.util import find_spec

from pluggy import HookimplMarker

from devmod_opencl._intel import LOADER_VARIABLES, library_path
from devmod_runtime import RENDER_NODES, Attempt, driver_row, open_library, permission_rows

#: The folder of the loaders, without their variables.
_VENDORS = "/etc/OpenCL/vendors"
#: The longest path that is read from an `.icd` file.
_LONGEST = 4096


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where the drivers were looked for, and the devices that the user may not open."""
    return [driver_row(_drivers()), *permission_rows(RENDER_NODES)]


def _drivers() -> Iterator[Attempt]:
    """Yield the driver of each `.icd` file, and that of Intel's wheel. A folder without such a file
    is a place without a driver.
    """
    chosen = next((value for value in map(os.environ.get, LOADER_VARIABLES) if value), "")
    places = [_VENDORS]
    if chosen:
        places = chosen.split(os.pathsep)
    if os.path.isdir(places[0]) or not chosen:
        places += _loader_folders()
    for place in places:
        files = _files_of(place)
        if not files:
            yield Attempt(os.path.abspath(place))
        for file in files:
            yield from open_library([_library_of(file)])
    if not chosen and (path := library_path()):
        yield from open_library([path])


def _loader_folders() -> list[str]:
    """Return the folder that the loader of pyopencl's wheels reads too."""
    with suppress(ImportError, ValueError):
        spec = find_spec("pyopencl")
        if spec is not None:
            folders = spec.submodule_search_locations or ()
            return [os.path.join(folder, ".libs") for folder in folders]
    return []


def _files_of(place: str) -> list[str]:
    """Return the `.icd` files of a folder, or a file itself."""
    if os.path.isdir(place):
        return sorted(glob(os.path.join(escape(place), "*.icd")))
    if os.path.exists(place):
        return [place]
    return []


def _library_of(file: str) -> str:
    """Return the library that an `.icd` file names; the file if it is a library."""
    if not file.endswith(".icd"):
        return file
    with open(file, encoding="utf-8", errors="replace") as lines:
        name = lines.read(_LONGEST).partition("\n")[0].strip()
    beside = os.path.join(os.path.dirname(file), name)  # PoCL's wheel
    if os.path.exists(beside):
        return beside
    return name
