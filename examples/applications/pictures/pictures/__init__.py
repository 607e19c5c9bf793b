"""An image pipeline on images and samplers, and its reference in NumPy."""

from pictures.pipeline import Pipeline
from pictures.reference import TOLERANCES, check, make_picture

__all__ = ["TOLERANCES", "Pipeline", "check", "make_picture"]
