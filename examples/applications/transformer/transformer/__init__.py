"""A transformer with weights in q4_0, on each kind of device."""

from .checks import check_decoding, check_kernels
from .decoder import Decoder
from .model import Config, Reference, Weights

__all__ = ["Config", "Decoder", "Reference", "Weights", "check_decoding", "check_kernels"]
