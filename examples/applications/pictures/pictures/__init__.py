"""The reference of the image pipeline in NumPy."""

from .reference import TOLERANCES, check, make_picture

__all__ = ["TOLERANCES", "check", "make_picture"]
