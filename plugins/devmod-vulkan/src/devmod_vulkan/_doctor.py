"""The check of devmod-vulkan for `devmod.doctor`: the loader, and the folders with the manifests of
drivers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import escape, glob

from pluggy import HookimplMarker

from devmod_runtime import RENDER_NODES, Attempt, driver_row, open_library, permission_rows

#: The names by which the package `vulkan` opens the loader.
_LOADERS = ("libvulkan.so.1", "vulkan-1.dll", "libvulkan.dylib")
#: The variables of the loader that name manifests or their folders. The second is the older one.
_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where the loader and the manifests of its drivers were looked for, and the devices
    that the user may not open.
    """
    parts: list[Iterable[Attempt]] = [open_library(_LOADERS)]
    if os.name == "posix":
        parts.append(_manifests())
    return [driver_row(*parts), *permission_rows(RENDER_NODES)]


def _manifests() -> Iterator[Attempt]:
    """Yield each place where the loader looks for manifests. One without a manifest is a place
    without a driver.
    """
    places = _folders()
    chosen = next(filter(None, map(os.environ.get, _VARIABLES)), None)
    if chosen:
        places = chosen.split(os.pathsep)
    for place in places:
        if os.path.isdir(place):
            is_found = bool(glob(os.path.join(escape(place), "*.json")))
        else:
            is_found = os.path.exists(place)
        found = None
        if is_found:
            found = place
        yield Attempt(os.path.abspath(place), found)


def _folders() -> list[str]:
    """Return the folders of the loader on Linux, in its order."""

    def value(variable: str, default: str) -> list[str]:
        return (os.environ.get(variable) or os.path.expanduser(default)).split(os.pathsep)

    configuration = [
        *value("XDG_CONFIG_HOME", "~/.config"),
        *value("XDG_CONFIG_DIRS", "/etc/xdg"),
        "/etc",
    ]
    data = [
        *value("XDG_DATA_HOME", "~/.local/share"),
        *value("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
    ]
    return [os.path.join(folder, "vulkan", "icd.d") for folder in (*configuration, *data)]
