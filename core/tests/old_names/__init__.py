"""A package that has renamed a function, a parameter and a module, and keeps the old names for two
minor versions.
"""

from __future__ import annotations

from typing import Any

from devmod.backend import warn_deprecated
from old_names._filters import blur, smooth

__all__ = ["blur", "smooth"]


def __getattr__(name: str) -> Any:
    if name == "RADIUS":
        warn_deprecated("old_names.RADIUS", new="old_names.blur.radius", removed_in="pictures 0.4")
        return 3
    raise AttributeError(name)
