"""The process in which hiprtc compiles a source: `devmod_rocm._hiprtc` starts it. hiprtc ends its process on some architectures."""

from __future__ import annotations

import ctypes
import os
from base64 import b64encode
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p

from devmod.worker import answer_writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Headers that programs include, and whose contents hiprtc predefines. An empty file of the name makes the include valid.
_BUILT_IN = ("hip/hip_runtime.h", "hip/hip_fp16.h")


def main(request: dict[str, Any]) -> None:
    """Compile the source of a request, and answer with the result of `compile_request`."""
    answer = answer_writer()
    answer(compile_request(request))
    os._exit(0)  # skips the destructors of hiprtc, which take time


def compile_request(request: dict[str, Any]) -> dict[str, str]:
    """Compile a source.

    Parameters
    ----------
    request
        "libraries": the files to open as hiprtc, the first that can be opened is used; "text", "name": the source and its name;
        "options": the options.

    Returns
    -------
    dict
        "missing": why no library can be opened; else "version", and "log" with hiprtc's output, and either "code" in base 64 or "error".
    """
    library, reasons = None, []
    for path in request["libraries"]:
        try:
            library = ctypes.CDLL(path)
            library.hiprtcCreateProgram  # noqa: B018 - AttributeError if the library is not hiprtc
            break
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
            library = None
    if library is None:
        return {"missing": reasons[0]}
    return _Compiler(library).compile(request["text"], request["name"], request["options"])


class _Compiler:
    """The functions of hiprtc (hiprtc.h)."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.hiprtcGetErrorString.restype = c_char_p

    def compile(self, text: str, name: str, options: list[str]) -> dict[str, str]:
        """Return the result of `compile_request`."""
        library, program = self._library, c_void_p()
        major, minor = c_int(), c_int()
        library.hiprtcVersion(byref(major), byref(minor))
        result = {"version": f"{major.value}.{minor.value}", "log": ""}
        headers = (c_char_p * len(_BUILT_IN))(*[b"#pragma once\n"] * len(_BUILT_IN))
        names = (c_char_p * len(_BUILT_IN))(*[each.encode() for each in _BUILT_IN])
        status = library.hiprtcCreateProgram(
            byref(program), c_char_p(text.encode()), c_char_p(name.encode()), len(_BUILT_IN), headers, names
        )
        if status:
            return result | {"error": self._describe(status)}
        words = (c_char_p * len(options))(*[option.encode() for option in options])
        status = library.hiprtcCompileProgram(program, len(options), words)
        result["log"] = self._bytes(program, "hiprtcGetProgramLog").rstrip(b"\0").decode("utf-8", "replace")
        if status:
            return result | {"error": self._describe(status)}
        return result | {"code": b64encode(self._bytes(program, "hiprtcGetCode")).decode()}

    def _bytes(self, program: c_void_p, name: str) -> bytes:
        """Return the bytes that a pair of functions has, such as hiprtcGetCodeSize and hiprtcGetCode."""
        size = c_size_t()
        getattr(self._library, f"{name}Size")(program, byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        getattr(self._library, name)(program, buffer)
        return buffer.raw[: size.value]

    def _describe(self, status: int) -> str:
        return (self._library.hiprtcGetErrorString(status) or b"").decode() or f"error {status}"
