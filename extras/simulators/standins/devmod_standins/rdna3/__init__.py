"""Machine code of gfx1100, executed by an emulator of AMD's RDNA3 that this repository does not
contain.

DEVMOD_RDNA3_EMULATOR names the folder that has its ``rdna3.py``.
"""

from __future__ import annotations

from devmod_standins.rdna3.emulator import TARGET, VARIABLE, folder, missing
from devmod_standins.rdna3.runner import Emulator

__all__ = ["TARGET", "VARIABLE", "Emulator", "folder", "missing"]
