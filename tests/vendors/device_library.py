"""ROCm's device library on this machine: the folder that a package of Debian has, and a mark for
the tests that need it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from system import device_libs

_FOUND = device_libs()
#: A folder of that name exists nowhere where the library is missing.
DEVICE_LIBS = _FOUND or Path("no-device-library")
needs_device_libs = pytest.mark.skipif(
    _FOUND is None, reason="rocm-device-libs is not installed (make test-setup)"
)
