"""Reading and writing module formats of other systems.

- ``devmod.interop.tvm``: Apache TVM;
- ``devmod.interop.triton`` and ``devmod.interop.warp``: kernels of Triton and modules of Warp;
- ``devmod.interop.offload``: fatbins, offload bundles and other containers of device code.
"""

from __future__ import annotations

from importlib import import_module

from devmod.errors import ToolchainNotFoundError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import devmod.interop.offload as offload
    import devmod.interop.triton as triton
    import devmod.interop.tvm as tvm
    import devmod.interop.warp as warp

__all__ = ["offload", "triton", "tvm", "warp"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'devmod.interop' has no attribute {name!r}")
    return import_module(f"devmod.interop.{name}")


def __dir__() -> list[str]:
    return __all__


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
