"""The part of `devmod_targets._library_server` that calls the clspv of the wheel pyclspv.

pyclspv's own function takes no options. Its library exports clspv's interface for C, which does. A
request has "options", a text, and the source as its bytes. The answer is the SPIR-V.
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def load(_start: dict[str, Any]) -> Callable[[dict[str, Any], bytes], tuple[int, bytes, bytes]]:
    """Open the library."""
    library = ctypes.CDLL(import_module("pyclspv").__file__)
    build = library.clspvCompileFromSourcesString

    def answer(request: dict[str, Any], data: bytes) -> tuple[int, bytes, bytes]:
        size = ctypes.c_size_t(len(data))
        source = ctypes.c_char_p(data)
        options = request["options"].encode()
        code = ctypes.c_void_p()
        code_size = ctypes.c_size_t()
        log = ctypes.c_char_p()
        results = byref(code), byref(code_size), byref(log)
        status = build(ctypes.c_size_t(1), byref(size), byref(source), options, *results)
        return status, ctypes.string_at(code, code_size.value), log.value or b""

    return answer
