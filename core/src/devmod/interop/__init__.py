"""Reading and writing module formats of other systems.

- ``devmod.interop.tvm``: Apache TVM;
- ``devmod.interop.triton``: kernels of Triton;
- ``devmod.interop.tinygrad``: functions of tinygrad's Tensors;
- ``devmod.interop.offload``: fatbins, offload bundles and other containers of device code.

All but the first are modules of devmod-targets, in `devmod_targets.interop`. docs/design/targets.md
has the reasons.
"""

from __future__ import annotations

from importlib import import_module

from devmod import _can_import, _import_wheel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import devmod.interop.tvm as tvm
    from devmod_targets.interop import offload, tinygrad, triton

    __all__ = ["offload", "tinygrad", "triton", "tvm"]

_NAMES = ("offload", "tinygrad", "triton", "tvm")
#: The packages with the modules of the other names.
_WHEELS = ("devmod_readers", "devmod_targets")


def __getattr__(name: str) -> object:
    if name == "__all__":  # of `from devmod.interop import *`
        return __dir__()
    if name not in _NAMES:
        raise AttributeError(f"module 'devmod.interop' has no attribute {name!r}")
    if name == "tvm":
        return import_module("devmod.interop.tvm")
    return reader(f"devmod_targets.interop.{name}")


def __dir__() -> list[str]:
    """Return the names that exist here: help() and inspect.getmembers() read each of them."""
    if not all(map(_can_import, _WHEELS)):
        return ["tvm"]
    return list(_NAMES)


def reader(module: str) -> Any:
    """Return a module of devmod-readers or devmod-targets.

    Raises
    ------
    ToolchainNotFoundError
        The wheel is not installed.
    """
    return _import_wheel(
        module, f"devmod.interop.{module.rpartition('.')[2]} cannot be used here", *_WHEELS
    )
