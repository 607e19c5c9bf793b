"""Reading and writing module formats of other systems.

- ``devmod.interop.tvm``: Apache TVM;
- ``devmod.interop.triton`` and ``devmod.interop.warp``: kernels of Triton and modules of Warp;
- ``devmod.interop.offload``: fatbins, offload bundles and other containers of device code.

docs/design/targets.md has the reasons.
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


def reader(module: str, problem: str = "") -> Any:
    """Return a module of devmod-readers or devmod-targets. `problem` is the start of the error's text.

    Raises
    ------
    ToolchainNotFoundError
        The wheel is not installed.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        problem = problem or f"devmod.interop.{module.rpartition('.')[2]} cannot be used"
        wheel = package.replace("_", "-")
        raise ToolchainNotFoundError(f"{problem} here: {not_installed(wheel, wheel)}") from None
