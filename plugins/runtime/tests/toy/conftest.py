"""The tests see core and devmod-runtime, and no backend but the toy."""

from __future__ import annotations

from alone import no_installed_runtimes, register
from toy_devices import devices

__all__ = ["devices", "no_installed_runtimes", "register"]
