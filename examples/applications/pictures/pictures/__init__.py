"""An image pipeline on images and samplers, and its reference in NumPy."""

from .pipeline import Pipeline
from .reference import TOLERANCES, check, make_picture

__all__ = ["TOLERANCES", "Pipeline", "check", "make_picture"]
