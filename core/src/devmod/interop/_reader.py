"""The readers of devmod-targets, behind the functions of `devmod.interop`."""

from __future__ import annotations

from importlib import import_module

from devmod.errors import ToolchainNotFoundError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def reader(name: str, action: str = "be used") -> Any:
    """Return the module ``devmod_targets.interop.<name>``. `action` is the part of the error's text that follows "cannot".

    Raises
    ------
    ToolchainNotFoundError
        devmod-targets is not installed.
    """
    try:
        return import_module(f"devmod_targets.interop.{name}")
    except ModuleNotFoundError as error:
        if error.name != "devmod_targets":
            raise
        text = not_installed("devmod-targets", "pip install devmod-targets")
        raise ToolchainNotFoundError(f"devmod.interop.{name} cannot {action} here: {text}") from None
