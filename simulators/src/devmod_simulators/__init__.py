"""Stand-ins for NVIDIA's driver and its devices: CUDA programs run on a machine without a GPU. docs/design/simulators.md has the reasons.

`ptx` is a module of this package: the interpreter of PTX.
"""

from .drivers.build import BuildError, UnavailableError
from .drivers.driver import StandinDriver, ViolationError
from .drivers.library import DriverLibrary, StandinLibrary, libcuda

__all__ = ["BuildError", "DriverLibrary", "StandinDriver", "StandinLibrary", "UnavailableError", "ViolationError", "libcuda"]
