"""Machine code of gfx1100, executed by an emulator of AMD's RDNA3 that this repository does not
contain.

DEVMOD_RDNA3_EMULATOR names the folder that has its ``rdna3.py``.
"""

from .emulator import TARGET, VARIABLE, folder, missing
from .runner import Emulator

__all__ = ["TARGET", "VARIABLE", "Emulator", "folder", "missing"]
