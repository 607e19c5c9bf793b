"""A transformer with weights in q4_0: the program of a step, and its reference in NumPy."""

from .checks import check_decoding, check_kernels
from .model import Config, Reference, random_weights
from .program import add_model, new_text

__all__ = [
    "Config",
    "Reference",
    "add_model",
    "check_decoding",
    "check_kernels",
    "new_text",
    "random_weights",
]
