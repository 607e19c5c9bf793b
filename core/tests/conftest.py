"""Core's tests see core alone."""

from __future__ import annotations

from alone import no_installed_runtimes, register

__all__ = ["no_installed_runtimes", "register"]
