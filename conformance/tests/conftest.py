"""The kit's tests see core and the kit alone."""

from __future__ import annotations

from alone import no_installed_runtimes, register

__all__ = ["no_installed_runtimes", "register"]
