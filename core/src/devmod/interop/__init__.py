"""Reading and writing module formats of other systems.

- ``devmod.interop.tvm``: Apache TVM;
- ``devmod.interop.triton`` and ``devmod.interop.warp``: kernels of Triton and modules of Warp;
- ``devmod.interop.offload``: fatbins, offload bundles and other containers of device code.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import devmod.interop.offload as offload
    import devmod.interop.triton as triton
    import devmod.interop.tvm as tvm
    import devmod.interop.warp as warp

__all__ = ["offload", "triton", "tvm", "warp"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'devmod.interop' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"devmod.interop.{name}")


def __dir__() -> list[str]:
    return __all__
