"""The part of `devmod_targets._library_server` that calls the library of `_slangpy`.

A request has an action and three numbers: "level" (of optimization), "debug" and "minor" (of
SPIR-V's version). The parts of the answer are the output and the messages. The library prints the
validator's messages itself, to the standard error of the process.
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The actions of the library's struct, by their numbers. There is one more, "validate".
_ACTIONS = ("compile", "disassemble", "optimize")
#: SLANG_STAGE_COMPUTE.
_COMPUTE = 6
_FILE = b"source.comp"


class _GlslangRequest(ctypes.Structure):
    """``glslang_CompileRequest_1_2`` of slang-glslang.h. The library reads as many bytes as the
    first field has.
    """

    _fields_ = (
        ("sizeInBytes", ctypes.c_size_t),
        ("sourcePath", ctypes.c_char_p),
        ("inputBegin", ctypes.c_void_p),
        ("inputEnd", ctypes.c_void_p),
        ("diagnosticFunc", ctypes.c_void_p),
        ("diagnosticUserData", ctypes.c_void_p),
        ("outputFunc", ctypes.c_void_p),
        ("outputUserData", ctypes.c_void_p),
        ("slangStage", ctypes.c_int),
        ("action", ctypes.c_uint),
        ("optimizationLevel", ctypes.c_uint),
        ("debugInfoType", ctypes.c_uint),
        ("spirvTargetName", ctypes.c_char_p),
        ("spirvMajor", ctypes.c_int),
        ("spirvMinor", ctypes.c_int),
        ("spirvPatch", ctypes.c_int),
        ("entryPointName", ctypes.c_char_p),
    )


_Receiver = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def load(start: dict[str, Any]) -> Callable[[dict[str, Any], bytes], tuple[int, bytes, bytes]]:
    """Open the library, and compile an empty shader: glslang makes its tables for a version of GLSL
    then.
    """
    library = ctypes.CDLL(start["library"])
    library.glslang_validateSPIRV.restype = ctypes.c_bool
    _call(library, 0, 0, 0, start["minor"], start["first"].encode())

    def answer(request: dict[str, Any], data: bytes) -> tuple[int, bytes, bytes]:
        if request["action"] == "validate":
            return int(not library.glslang_validateSPIRV(data, len(data) // 4)), b"", b""
        return _call(
            library,
            _ACTIONS.index(request["action"]),
            request["level"],
            request["debug"],
            start["minor"],
            data,
        )

    return answer


def _call(
    library: ctypes.CDLL, action: int, level: int, debug: int, minor: int, data: bytes
) -> tuple[int, bytes, bytes]:
    output = bytearray()
    messages = bytearray()

    receive = _Receiver(lambda start, size, _: output.extend(ctypes.string_at(start, size)))
    report = _Receiver(lambda start, size, _: messages.extend(ctypes.string_at(start, size)))
    text = ctypes.create_string_buffer(data, len(data) + 1)
    start = ctypes.addressof(text)
    request = _GlslangRequest(
        sizeInBytes=ctypes.sizeof(_GlslangRequest),
        sourcePath=_FILE,
        inputBegin=start,
        inputEnd=start + len(data),
        diagnosticFunc=ctypes.cast(report, ctypes.c_void_p),
        outputFunc=ctypes.cast(receive, ctypes.c_void_p),
        slangStage=_COMPUTE,
        action=action,
        optimizationLevel=level,
        debugInfoType=debug,
        spirvMajor=1,
        spirvMinor=minor,
    )
    return library.glslang_compile_1_2(ctypes.byref(request)), bytes(output), bytes(messages)
