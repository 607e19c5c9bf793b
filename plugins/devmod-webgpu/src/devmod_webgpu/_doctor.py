"""The check of devmod-webgpu for `devmod.doctor`: wgpu-native, and on Linux the Vulkan loader that
it opens.
"""

from __future__ import annotations

import os
import sys
from glob import escape, glob
from importlib.util import find_spec

from pluggy import HookimplMarker

from devmod_runtime import RENDER_NODES, Attempt, driver_row, open_library, permission_rows

#: The variable by which wgpu opens another wgpu-native.
_VARIABLE = "WGPU_LIB_PATH"


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where wgpu-native and the Vulkan loader were looked for, and the devices that the user
    may not open.
    """
    spec = find_spec("wgpu")
    folders: list[str] = []
    if spec is not None and spec.submodule_search_locations:
        for folder in spec.submodule_search_locations:
            folders.append(os.path.join(folder, "resources"))
    files: list[str] = []
    chosen = os.environ.get(_VARIABLE, "").strip()
    if chosen:
        files.append(chosen)
    else:
        for folder in folders:
            files += sorted(glob(os.path.join(escape(folder), "*wgpu_native*.*")))
    drivers = [open_library(files) or [Attempt(folder) for folder in folders]]
    if sys.platform == "linux":
        drivers.append(open_library(["libvulkan.so.1"]))
    return [driver_row(*drivers), *permission_rows(RENDER_NODES)]
