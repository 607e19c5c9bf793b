"""Modules that Warp compiled. The functions need devmod-targets, whose `devmod_targets.interop.warp` describes them in full."""

from __future__ import annotations

from devmod.interop import reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import Any

    from devmod._modules.module import Module

__all__ = ["array", "bounds", "load"]


def load(folder: str | PathLike[str], name: str = "") -> Module:
    """Return the module in a folder that Warp wrote; `name` chooses one of several."""
    module: Module = reader("devmod_targets.interop.warp").load(folder, name)
    return module


def bounds(shape: int | Sequence[int]) -> dict[str, Any]:
    """Return the argument ``dim`` of a kernel of Warp: the threads of the launch in up to four dimensions."""
    value: dict[str, Any] = reader("devmod_targets.interop.warp").bounds(shape)
    return value


def array(array: Any, ndim: int = 0) -> dict[str, Any]:
    """Return the argument of a kernel of Warp for an array on the device. It does not keep the array alive."""
    value: dict[str, Any] = reader("devmod_targets.interop.warp").array(array, ndim)
    return value
