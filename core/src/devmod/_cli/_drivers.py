"""Suppressing messages that drivers print and that are unrelated to a command."""

from __future__ import annotations

import os
import sys


def quiet_drivers() -> None:
    """Give libwayland the folder that it reports as missing on standard error.

    Mesa's Vulkan layer looks for a Wayland display whenever devices are listed, and libwayland prints an error line each time if
    XDG_RUNTIME_DIR is not set. In a folder without a display it finds none, as before. Only processes of the command line call
    this: a library must not change the environment of its program.
    """
    if sys.platform == "linux" and not os.environ.get("XDG_RUNTIME_DIR"):
        from tempfile import gettempdir

        os.environ["XDG_RUNTIME_DIR"] = gettempdir()
