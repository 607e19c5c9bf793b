"""The check of devmod-vulkan for `devmod.doctor`: the loader, and the folders with the manifests of
drivers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    loader = open_library(_LOADERS)
    return [
        driver_row(loader, _manifests()) if os.name == "posix" else driver_row(loader),
        *permission_rows(RENDER_NODES),
    ]


def _manifests() -> Iterator[Attempt]:
    """Yield each place where the loader looks for manifests. One without a manifest is a place
    without a driver.
    """
    chosen = next((value for value in map(os.environ.get, _VARIABLES) if value), "")
    for place in chosen.split(os.pathsep) if chosen else _folders():
        is_found = (
            glob(os.path.join(escape(place), "*.json"))
            if os.path.isdir(place)
            else os.path.exists(place)
        )
        yield Attempt(os.path.abspath(place), place if is_found else None)


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
