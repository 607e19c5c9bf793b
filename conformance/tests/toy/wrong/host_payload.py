"""The format depends on the host."""

import os

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R38-saved",)
REASON = "the format of sample 1 with another hash seed and no visible device: expected 'toy', got 'toybin'"


def create(code, fmt, fmap, source):
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return ToyModule(TARGET, "toybin", fmap, b"TOY\0" + bytes(code).replace(b"\n", b"\0"), source)
    return ToyModule(TARGET, fmt, fmap, code, source)
