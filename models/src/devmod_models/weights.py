"""The weights of models in files, by name: safetensors and ONNX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from devmod.backend import HostArray, array_bytes, open_regular, parse_dtype
from devmod.errors import ArgumentError, FormatError, ToolchainNotFoundError, not_installed
from devmod_models.onnx import read_constants
from devmod_targets.build.constants import SAFETENSORS_TYPES

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
        return _read_safetensors(os.fspath(path))
    if suffix == ".onnx":
        return read_constants(path)
    raise ArgumentError(
        f"{os.fspath(path)}: expected a file .safetensors or .onnx", argument="path"
    )


def _read_safetensors(path: str) -> dict[str, HostArray]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        missing = not_installed(
            "the package safetensors", "devmod-models[safetensors]", "safetensors"
        )
        raise ToolchainNotFoundError(f"{path} cannot be read: {missing}") from error
    import mmap

    result: dict[str, HostArray] = {}
    with open_regular(path) as file:
        try:
            with safe_open(path, "numpy") as tensors:
                found = [(name, tensors.get_slice(name)) for name in tensors.offset_keys()]
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            # The library has checked that the tensors fill the file, in this order, to its end.
            for name, tensor in reversed(found):
                dtype = SAFETENSORS_TYPES[tensor.get_dtype()]
                at = len(data) - array_bytes(parse_dtype(dtype), tensor.get_shape())
                result[name] = HostArray(data[at:], tensor.get_shape(), dtype)
                data = data[:at]
        except SafetensorError as error:
            raise FormatError(f"{path}: this is no file of safetensors: {error}") from None
        except KeyError as error:
            raise FormatError(f"{path}: no constant has the element type {error}") from None
    return result
