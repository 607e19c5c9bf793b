"""The one function of the CUDA runtime that cuda.core calls: `Device.sync` waits with it.

cuda-bindings has the CUDA runtime within, which calls private functions of NVIDIA's driver. Below
the simulated GPU, this function of `cuda.bindings.runtime` is one of the driver's API.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_MODULE = "cuda.bindings.runtime"
_INVALID_CONTEXT = 201


def replace(runtime: ModuleType) -> None:
    """Replace the function in the module."""

    def cudaDeviceSynchronize() -> tuple[Any]:
        """Wait for the work of the current device."""
        driver = import_module("cuda.bindings.driver")
        status = int(driver.cuCtxSynchronize()[0])
        if status == _INVALID_CONTEXT:  # the device has no work yet
            status = 0
        return (runtime.cudaError_t(status),)

    runtime.cudaDeviceSynchronize = cudaDeviceSynchronize  # type: ignore[attr-defined]


class _Finder:
    """Finds the module as others do, and replaces its function when it is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of the module, and None for others."""
        if name != _MODULE or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        loader: Any = spec and spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                replace(module)

            loader.exec_module = exec_module
        return spec


def install() -> None:
    """Replace the function now, or when the module is imported."""
    if _MODULE in sys.modules:
        replace(sys.modules[_MODULE])
    elif not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
