"""The process that calls the library of `_slangpy`. It imports nothing else of devmod, since it may start for one shader.

A request is a line with an action and four numbers (optimization level, debug level, minor version of SPIR-V, size) and that many bytes.
An answer is a line with three numbers (status, size of the output, size of the messages), the output and the messages. The library
prints the validator's messages itself, to the standard error of the process.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from threading import Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The actions of the library's struct, by their numbers. There is one more, "validate".
_ACTIONS = ("compile", "disassemble", "optimize")
#: SLANG_STAGE_COMPUTE.
_COMPUTE = 6
_FILE = b"source.comp"
#: How often in seconds a process looks for its parent: other forks of the parent may keep the standard input open.
_INTERVAL = 1
#: PR_SET_PDEATHSIG of Linux.
_PARENT_DEATH_SIGNAL = 1


class _Request(ctypes.Structure):
    """``glslang_CompileRequest_1_2`` of slang-glslang.h. The library reads as many bytes as the first field has."""

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


def main(start: dict[str, Any]) -> None:
    """Answer requests until the standard input ends, each in a fork of one state. The end of the parent ends both during a request too.

    glslang reads memory that it has not written (the upper half of an integer constant that becomes a float16_t), so its output depends on
    what the process did before. Without forks (Windows), the other process ends this one after one answer.
    """
    own, parent = os.getpid(), os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process receives it as well, and ends this one
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the library prints notes to it, and at the end what it has buffered
    library = ctypes.CDLL(start["library"])
    library.glslang_validateSPIRV.restype = ctypes.c_bool
    _call(library, 0, 0, 0, start["minor"], start["first"].encode())
    child = 0
    if sys.platform == "linux":
        control = ctypes.CDLL(None).prctl

    def stop(*_: object) -> None:
        if child:
            os.kill(child, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    while line := requests.readline():
        action, *numbers = line.decode().split()
        level, debug, minor, size = map(int, numbers)
        data = requests.read(size)
        if hasattr(os, "fork"):
            ended, alive = os.pipe()  # the child closes `alive` before it answers: the next request may come at once
            child = os.fork()
        else:
            Thread(target=_end_with_input, daemon=True).start()
        if child:
            os.close(alive)
            ready: list[int] = []
            while not ready and os.getppid() == parent:
                ready = select.select([ended, requests.fileno()], [], [], _INTERVAL)[0]
            if ended not in ready:  # the parent has ended
                stop()
            os.close(ended)
            status = os.waitpid(child, 0)[1]
            child = 0
            if status:  # this process ends as its child did
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.kill(os.getpid(), os.WTERMSIG(status) or signal.SIGTERM)
            continue
        if sys.platform == "linux":  # this process alone would survive a SIGKILL of its parent
            control(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() != own:  # its parent has ended before
                os._exit(1)
        if action == "validate":
            status, output, messages = int(not library.glslang_validateSPIRV(data, size // 4)), b"", b""
        else:
            status, output, messages = _call(library, _ACTIONS.index(action), level, debug, minor, data)
        if hasattr(os, "fork"):
            os.close(alive)
        answers.write(b"%d %d %d\n" % (status, len(output), len(messages)) + output + messages)
        answers.flush()
        if hasattr(os, "fork"):
            os._exit(0)


def _end_with_input() -> None:
    """End this process at the end of its standard input, also during a call of the library."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _call(library: ctypes.CDLL, action: int, level: int, debug: int, minor: int, data: bytes) -> tuple[int, bytes, bytes]:
    output, messages = bytearray(), bytearray()

    receive = _Receiver(lambda start, size, _: output.extend(ctypes.string_at(start, size)))
    report = _Receiver(lambda start, size, _: messages.extend(ctypes.string_at(start, size)))
    text = ctypes.create_string_buffer(data, len(data) + 1)
    start = ctypes.addressof(text)
    request = _Request(
        sizeInBytes=ctypes.sizeof(_Request),
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
    status = library.glslang_compile_1_2(ctypes.byref(request))
    return status, bytes(output), bytes(messages)
