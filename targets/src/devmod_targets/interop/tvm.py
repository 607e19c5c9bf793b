"""What `devmod.interop.tvm` needs only to read TVM's libraries and to write modules for TVM's runtime."""

from __future__ import annotations

from devmod_targets.interop._library import symbol_bytes as symbol_bytes
from devmod_targets.interop._tvm_calls import runnable_code as runnable_code

__all__ = ["runnable_code", "symbol_bytes"]
