"""The texts of NVIDIA's headers."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest


def cuda_header(name: str) -> str:
    """Return the text of a header of nvidia-cuda-runtime; skip the test where it is missing."""
    try:
        files = metadata.files("nvidia-cuda-runtime") or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == name:
            return Path(str(file.locate())).read_text("utf-8", "replace")
    pytest.skip(f"{name} is not installed (nvidia-cuda-runtime)")
