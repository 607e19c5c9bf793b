"""Stand-ins for devices and for the libraries of their vendors. Tests alone use them; README.md has what each executes, and its limits.

`ptx`, `rdna3` and `metal` are modules of this package: an interpreter of PTX, an emulator's launches, and stand-ins for Apple's Metal.

docs/design/simulators.md has the reasons.
"""

from .drivers.build import BuildError, UnavailableError
from .drivers.driver import StandinDriver, ViolationError
from .drivers.library import DriverLibrary, StandinLibrary, libamdhip64, libcuda, libhiprtc

__all__ = [
    "BuildError",
    "DriverLibrary",
    "StandinDriver",
    "StandinLibrary",
    "UnavailableError",
    "ViolationError",
    "libamdhip64",
    "libcuda",
    "libhiprtc",
]
