"""The part of `devmod_targets.authoring._library_server` that calls pyclspv.

A request has nothing but its bytes, the source. The answer is the SPIR-V. clspv prints its messages
to the standard error of the process.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def load(_start: dict[str, Any]) -> Callable[[dict[str, Any], bytes], tuple[int, bytes, bytes]]:
    """Import pyclspv."""
    pyclspv = import_module("pyclspv")

    def answer(_request: dict[str, Any], data: bytes) -> tuple[int, bytes, bytes]:
        try:
            return 0, pyclspv.compile(data.decode()), b""
        except RuntimeError as error:
            return 1, b"", str(error).encode()

    return answer
