"""The weights of models in files, by name: safetensors and ONNX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from devmod.backend import HostArray, open_regular
from devmod.errors import ArgumentError
from devmod_models.onnx import read_constants
from devmod_targets.safetensors import SafetensorsFile

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
        The package `onnx` is not installed, and the file is one of ONNX.
    OSError
        The file cannot be read.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".safetensors":
        return _read_safetensors(os.fspath(path))
    if suffix == ".onnx":
        return {name: each.value for name, each in read_constants(path).items()}
    raise ArgumentError(
        f"{os.fspath(path)}: expected a file .safetensors or .onnx", argument="path"
    )


def _read_safetensors(path: str) -> dict[str, HostArray]:
    import mmap

    result: dict[str, HostArray] = {}
    with open_regular(path) as file:
        tensors = SafetensorsFile(file, path)
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        for name in tensors.header:
            place = tensors.place(name)
            result[name] = HostArray(data[place.begin : place.end], place.shape, place.dtype)
    return result
