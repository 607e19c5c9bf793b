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
    places = chosen.split(os.pathsep) if chosen else [_VENDORS]
    if os.path.isdir(places[0]) or not chosen:
        with suppress(ImportError, ValueError):
            spec = find_spec("pyopencl")  # the loader of its wheels reads this folder too
            places += [
                os.path.join(folder, ".libs")
                for folder in (spec.submodule_search_locations if spec else None) or ()
            ]
    for place in places:
        files = (
            sorted(glob(os.path.join(escape(place), "*.icd")))
            if os.path.isdir(place)
            else [place]
            if os.path.exists(place)
            else []
        )
        if not files:
            yield Attempt(os.path.abspath(place))
        for file in files:
            yield from open_library([_library_of(file)])
    if not chosen:
        yield from open_library([library_path()] if library_path() else [])


def _library_of(file: str) -> str:
    """Return the library that an `.icd` file names; the file if it is a library."""
    if not file.endswith(".icd"):
        return file
    with open(file, encoding="utf-8", errors="replace") as lines:
        name = lines.read(_LONGEST).partition("\n")[0].strip()
    beside = os.path.join(os.path.dirname(file), name)  # PoCL's wheel
    return beside if os.path.exists(beside) else name
