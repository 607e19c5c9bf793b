"""The tests of the command line see core and the workbench, and no installed backend."""

from __future__ import annotations

from alone import no_installed_runtimes, register

__all__ = ["no_installed_runtimes", "register"]
