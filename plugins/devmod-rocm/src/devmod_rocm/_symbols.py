"""HIP's runtime by ctypes alone."""

from __future__ import annotations

from devmod_rocm._calls import HipDriver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SymbolsDriver(HipDriver):
    """HIP's runtime by ctypes."""

    name = "ctypes"

    def call(self, operation: str, *arguments: Any) -> Any:
        return self.call_symbol(operation, *arguments)
