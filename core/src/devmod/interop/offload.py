"""Containers of device code.

`load` needs devmod-targets, whose `devmod_targets.interop.offload` describes it in full. `read_images` needs devmod-readers.
"""

from __future__ import annotations

from devmod.interop import reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike
    from typing import Any

    from typing_extensions import Buffer

    from devmod._modules.module import Module
    from devmod._values.info import FunctionInfo

__all__ = ["load", "read_images"]


def load(data: Buffer | str | PathLike[str], fmap: Mapping[str, FunctionInfo] | Iterable[str]) -> Module:
    """Return the module of a container: a bundle of variants. `fmap` has the functions, or names of kernels."""
    module: Module = reader("devmod_targets.interop.offload").load(data, fmap)
    return module


def read_images(data: Buffer | str | PathLike[str]) -> list[Any]:
    """Return the images of such a container: kind, format, name and data of each."""
    images: list[Any] = reader("devmod_readers.offload").read_images(data)
    return images
