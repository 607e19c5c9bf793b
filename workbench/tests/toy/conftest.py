"""The tests see core, devmod-runtime and the workbench, and no backend but the toy."""

from __future__ import annotations

from toy_devices import devices

__all__ = ["devices"]
