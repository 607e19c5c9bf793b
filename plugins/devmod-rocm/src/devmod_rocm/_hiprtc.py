"""Compile HIP at the receiver (R30), with the hiprtc of ROCm and a cache on the disk.

hiprtc runs in a process of its own: it ends its process for an architecture that it does not
support.
"""

from __future__ import annotations

import ctypes
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_size_t, c_void_p
from typing import Any

from devmod.backend import DiskCache, compile_error
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod.worker import Worker, answer_writer, can_start_python, describe_exit
from devmod_runtime import was_killed

#: The seconds after which the process is ended.
TIMEOUT = 600.0
#: The name of the source in messages.
_NAME = "kernel.hip"
_CACHE = DiskCache("rocm")
#: The contents of a cache entry. The text is a part of the key: other contents need another text.
_FORM = "code object"
_ERROR = re.compile(r"\b(?:fatal )?error: ")
#: The file to which hiprtc writes the source, as its messages name it.
_TEMPORARY = re.compile(r"(?:/[^\s:]*)?/comgr-\w+/input/[^\s:]+")

#: Headers that programs include, and whose contents hiprtc predefines. An empty file of the name
#: makes the include valid.
_BUILT_IN = ("hip/hip_runtime.h", "hip/hip_fp16.h")


def compile_source(text: str, options: Sequence[str], arch: str, library: str) -> bytes:
    """Compile a source for a device.

    Parameters
    ----------
    text, options
        The source and its build options.
    arch
        The target ID of the device, such as "gfx90a:sramecc+:xnack-".
    library
        The file of libamdhip64. hiprtc is beside it, or in it.

    Returns
    -------
    bytes
        The code object.

    Raises
    ------
    CompileError, ToolchainNotFoundError
        The source has errors, hiprtc does not support the architecture, or is missing.
    """
    libraries = _candidates(library)
    key = _CACHE.key(_FORM, *map(_identity, [library, *libraries]), arch, "\0".join(options), text)
    code = _CACHE.read(key)
    if code:
        return code
    answer = _run(
        {
            "libraries": libraries,
            "text": text,
            "name": _NAME,
            "options": [*options, f"--offload-arch={arch}"],
        },
        arch,
    )
    if "missing" in answer:
        raise ToolchainNotFoundError(
            f"the rocm source cannot be compiled: {answer['missing']}. ROCm's compiler at run time, libhiprtc, is missing. AMD's package "
            f"hip-runtime-amd contains it. A code object needs no compiler: devmod.compile(source, 'rocm -arch={arch.partition(':')[0]}')",
            kind="rocm",
        )
    if "error" in answer:
        log = _TEMPORARY.sub(_NAME, answer["log"]).strip()
        lines = [line.strip() for line in log.splitlines() if _ERROR.search(line)]
        reason = [f"{answer['error']}{f': {log.splitlines()[0]}' if log else ''}"]
        raise compile_error("rocm", "HIP", lines or reason, log)
    code = b64decode(answer["code"])
    _CACHE.write(key, code)
    return code


def _candidates(library: str) -> list[str]:
    """Return the files to open as hiprtc. Up to ROCm 5 it was part of libamdhip64."""
    folder, name = os.path.split(library)
    suffix = name.partition(".so")[2]
    version = suffix.split(".")[1] if suffix.startswith(".") else ""
    names = [f"libhiprtc.so.{version}"] if version else []
    names.append("libhiprtc.so")
    beside = [
        os.path.join(folder, each)
        for each in names
        if folder and os.path.exists(os.path.join(folder, each))
    ]
    return [*beside, *names, library]


def _identity(path: str) -> str:
    """Return a text that differs for another file of a library: its path, size and time; only the
    path if the linker searches for it.
    """
    try:
        status = os.stat(path)
    except OSError:
        return path
    return f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"


def _run(request: dict[str, Any], arch: str) -> dict[str, str]:
    """Return the answer of the process. A frozen program has no interpreter, and compiles itself.

    Raises
    ------
    CompileError
        The process ended without an answer.
    """
    if not can_start_python():
        return compile_request(request)
    try:
        worker = Worker(__name__, request, captures=True)
    except OSError as error:
        raise CompileError(
            f"the rocm source was not compiled: no process for hiprtc can be started: {error}",
            kind="rocm",
        ) from error
    with worker:
        answer: dict[str, str] | None = worker.answer(TIMEOUT)
        if answer is not None:
            return answer
        if worker.is_late:
            raise CompileError(
                f"the rocm source was not compiled for {arch}: hiprtc took longer than {TIMEOUT:g} seconds",
                kind="rocm",
            )
        code = worker.process.wait()
        output = worker.printed.strip()
    advice = (
        "Free memory and try again"
        if was_killed(code)
        else f"This hiprtc may not support {arch}. Update ROCm, or compile on another machine: devmod.compile(source, "
        f"'rocm -arch={arch.partition(':')[0]}')"
    )
    raise CompileError(
        f"the rocm source was not compiled for {arch}: the process of hiprtc {describe_exit(code)}. {advice}",
        kind="rocm",
        log=output,
    )


# -- In the other process: hiprtc compiles a source.


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
        "libraries": the files to open as hiprtc, the first that can be opened is used; "text",
        "name": the source and its name; "options": the options.

    Returns
    -------
    dict
        "missing": why no library can be opened; else "log" with hiprtc's output, and either "code"
        in base 64 or "error".
    """
    library = None
    reasons = []
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
    library.hiprtcGetErrorString.restype = c_char_p
    program = c_void_p()

    def describe(status: int) -> str:
        return (library.hiprtcGetErrorString(status) or b"").decode() or f"error {status}"

    def read(name: str) -> bytes:
        """Return the bytes that a pair of functions has, such as hiprtcGetCodeSize and
        hiprtcGetCode.
        """
        size = c_size_t()
        getattr(library, f"{name}Size")(program, byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        getattr(library, name)(program, buffer)
        return buffer.raw[: size.value]

    result = {"log": ""}
    text = c_char_p(request["text"].encode())
    name = c_char_p(request["name"].encode())
    options = request["options"]
    headers = (c_char_p * len(_BUILT_IN))(*[b"#pragma once\n"] * len(_BUILT_IN))
    names = (c_char_p * len(_BUILT_IN))(*[each.encode() for each in _BUILT_IN])
    status = library.hiprtcCreateProgram(byref(program), text, name, len(_BUILT_IN), headers, names)
    if status:
        return result | {"error": describe(status)}
    words = (c_char_p * len(options))(*[option.encode() for option in options])
    status = library.hiprtcCompileProgram(program, len(options), words)
    result["log"] = read("hiprtcGetProgramLog").rstrip(b"\0").decode("utf-8", "replace")
    if status:
        return result | {"error": describe(status)}
    return result | {"code": b64encode(read("hiprtcGetCode")).decode()}
