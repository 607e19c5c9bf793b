"""Reading and writing module formats of other systems. ``devmod.interop.tvm``: Apache TVM."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import devmod.interop.tvm as tvm

__all__ = ["tvm"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'devmod.interop' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"devmod.interop.{name}")


def __dir__() -> list[str]:
    return __all__
