"""Reading and writing module formats of other systems.

- ``devmod.interop.tvm``: Apache TVM;
- ``devmod.interop.triton``: kernels of Triton;
- ``devmod.interop.tinygrad``: functions of tinygrad's Tensors;
- ``devmod.interop.torch``: models of PyTorch;
- ``devmod.interop.offload``: fatbins, offload bundles and other containers of device code.

Those of tinygrad and PyTorch are modules of devmod-models, and those of Triton and of containers
are modules of devmod-targets, in `devmod_targets.interop`. Without that wheel, devmod-runtime has
a part of Triton's. docs/design/targets.md has the reasons.
"""

from __future__ import annotations

from importlib import import_module

from devmod import _can_import, _import_wheel
from devmod.errors import ToolchainNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import devmod.interop.tvm as tvm
    from devmod_models import tinygrad, torch
    from devmod_targets.interop import offload, triton

    __all__ = ["offload", "tinygrad", "torch", "triton", "tvm"]

_NAMES = ("offload", "tinygrad", "torch", "triton", "tvm")
#: The packages that the modules of the other names need.
_WHEELS = ("devmod_readers", "devmod_targets")
#: The package with the modules of models, which needs those too; and what installs it for each.
_MODELS = "devmod_models"
_EXTRAS = {"tinygrad": "devmod-core[tinygrad]", "torch": "devmod-core[onnx]"}


def __getattr__(name: str) -> object:
    if name == "__all__":  # of `from devmod.interop import *`
        return __dir__()
    if name not in _NAMES:
        raise AttributeError(f"module 'devmod.interop' has no attribute {name!r}")
    if name == "tvm":
        return import_module("devmod.interop.tvm")
    if name in _EXTRAS:
        return _of_models(name)
    try:
        return reader(f"devmod_targets.interop.{name}")
    except ToolchainNotFoundError:
        if name != "triton" or not _can_import("devmod_runtime"):
            raise
        return import_module("devmod_runtime.triton")


def __dir__() -> list[str]:
    """Return the names that exist here: help() and inspect.getmembers() read each of them."""
    if not all(map(_can_import, _WHEELS)):
        return ["triton", "tvm"] if _can_import("devmod_runtime") else ["tvm"]
    names = list(_NAMES)
    if not _can_import(_MODELS):
        names = [name for name in names if name not in _EXTRAS]
    return names


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


def _of_models(name: str) -> Any:
    install = None
    if not _can_import(_MODELS):
        install = ("devmod-models", _EXTRAS[name])
    return _import_wheel(
        f"{_MODELS}.{name}",
        f"devmod.interop.{name} cannot be used here",
        *_WHEELS,
        _MODELS,
        install=install,
    )
