"""The reference of the image pipeline in NumPy."""

from __future__ import annotations

from pictures.reference import TOLERANCES, check, make_picture

__all__ = ["TOLERANCES", "check", "make_picture"]
