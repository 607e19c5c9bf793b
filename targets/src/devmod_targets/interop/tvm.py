"""What `devmod.interop.tvm` needs only to read TVM's libraries and to write modules for TVM's runtime."""

from __future__ import annotations

from devmod_targets.interop._library import symbol_bytes as symbol_bytes
from devmod_targets.interop._tvm_bytes import constants_parts as constants_parts
from devmod_targets.interop._tvm_bytes import module_parts as module_parts

__all__ = ["constants_parts", "module_parts", "symbol_bytes"]
