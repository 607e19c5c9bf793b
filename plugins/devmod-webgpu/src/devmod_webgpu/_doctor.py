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
    folders = [
        os.path.join(folder, "resources")
        for folder in (spec.submodule_search_locations if spec else None) or ()
    ]
    chosen = os.environ.get(_VARIABLE, "").strip()
    files = (
        [chosen]
        if chosen
        else [
            file
            for folder in folders
            for file in sorted(glob(os.path.join(escape(folder), "*wgpu_native*.*")))
        ]
    )
    native = open_library(files) or [Attempt(folder) for folder in folders]
    row = (
        driver_row(native, open_library(["libvulkan.so.1"]))
        if sys.platform == "linux"
        else driver_row(native)
    )
    return [row, *permission_rows(RENDER_NODES)]
