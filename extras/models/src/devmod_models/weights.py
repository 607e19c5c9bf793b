"""The weights of models in files, by name: safetensors and ONNX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from devmod.errors import ArgumentError
from devmod_models.onnx import read_constants
from devmod_targets.build.constants import read_safetensors

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_weights"]


def read_weights(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return the arrays of a file .safetensors or .onnx by name. Those of safetensors are in the
    mapped file, and are read when they are used.

    Raises
    ------
    ArgumentError
        The file has another suffix.
    FormatError
        The file is damaged, or has an element type that constants do not have.
    ToolchainNotFoundError
        The package that reads the file is not installed.
    OSError
        The file cannot be read.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".safetensors":
        return read_safetensors(os.fspath(path), os.fspath(path))
    if suffix == ".onnx":
        return read_constants(path)
    raise ArgumentError(
        f"{os.fspath(path)}: expected a file .safetensors or .onnx", argument="path"
    )
