"""Stand-ins for NVIDIA's driver and its devices: CUDA programs run on a machine without a GPU.
docs/design/simulators.md has the reasons.

`ptx` is a module of this package: the interpreter of PTX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devmod_simulators.drivers.build import BuildError, UnavailableError
from devmod_simulators.drivers.driver import StandinDriver, ViolationError
from devmod_simulators.drivers.library import DriverLibrary, StandinLibrary, libcuda

if TYPE_CHECKING:
    from devmod_simulators._sanitize import SanitizeError, sanitize

__all__ = [
    "BuildError",
    "DriverLibrary",
    "SanitizeError",
    "StandinDriver",
    "StandinLibrary",
    "UnavailableError",
    "ViolationError",
    "libcuda",
    "sanitize",
]


def __getattr__(name: str) -> Any:
    """Import the checks with their first use: they need devmod-core, and a build of this wheel has
    none.
    """
    if name not in ("SanitizeError", "sanitize"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from devmod_simulators import _sanitize

    return getattr(_sanitize, name)
