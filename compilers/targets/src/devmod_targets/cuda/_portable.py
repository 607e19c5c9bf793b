"""Compile so that the output contains no folder of this machine (R38).

Line and debug information contain the process's current folder, so NVRTC then runs in another
process, whose folder is the root. The folders of headers are in that information too, and in the
messages of ``assert``, so the headers are then in memory.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from devmod.errors import CompileError, ToolchainNotFoundError
from devmod.worker import Worker, answer_writer, can_start_python
from devmod_readers.options.cuda import writes_folders
from devmod_targets.cuda import nvrtc
from devmod_targets.cuda._headers import headers_in_memory


def compile_portable(
    text: str, name: str, options: Sequence[str], name_expressions: Sequence[str]
) -> nvrtc.Program:
    """Compile a program as `nvrtc.compile_program` does. The result is the same in every folder and
    with every location of the wheels.
    """
    folders = nvrtc.include_folders()
    if writes_folders(options):
        return _compile_at_root(
            text, name, options, name_expressions, headers_in_memory(text, folders)
        )
    program = nvrtc.compile_program(text, name, options, name_expressions=name_expressions)
    if not _has_folder(program, folders):
        return program
    headers = headers_in_memory(text, folders)
    return nvrtc.compile_program(
        text, name, options, name_expressions=name_expressions, headers=headers, folders=()
    )


def _has_folder(program: nvrtc.Program, folders: Sequence[str]) -> bool:
    """Return whether a folder is a string in the program: as bytes in a cubin, as a list of numbers
    in PTX.
    """
    for path in (os.fsencode(folder) for folder in folders):
        numbers = ", ".join(map(str, path)).encode()
        if path in program.cubin or path in program.ptx or numbers in program.ptx:
            return True
    return False


def _compile_at_root(
    text: str,
    name: str,
    options: Sequence[str],
    name_expressions: Sequence[str],
    headers: dict[str, str],
) -> nvrtc.Program:
    if not can_start_python():
        raise CompileError(
            "line and debug information need a Python interpreter, and this program is frozen; leave out -lineinfo and -G",
            kind="cuda",
        )
    request = {
        "text": text,
        "name": name,
        "options": list(options),
        "expressions": list(name_expressions),
        "headers": headers,
    }
    try:
        with Worker(__name__, request) as worker:
            answer = worker.answer()
            if answer is None:
                raise CompileError(
                    f"the process that compiles with line information {worker.end}", kind="cuda"
                )
    except OSError as error:
        raise CompileError(
            f"the process that compiles with line information cannot be started: {error.strerror}",
            kind="cuda",
        ) from error
    if "error" in answer:
        error_type = CompileError
        if answer["missing"]:
            error_type = ToolchainNotFoundError
        raise error_type(answer["error"], kind="cuda", log=answer["log"])
    major, minor = answer["version"]
    return nvrtc.Program(
        answer["ptx"].encode(),
        b64decode(answer["cubin"]),
        answer["log"],
        answer["lowered"],
        (major, minor),
    )


def main(request: dict[str, Any]) -> None:
    """Compile the program of a request at the root, and answer with the result."""
    answer = answer_writer()
    os.chdir(os.sep)
    try:
        program = nvrtc.compile_program(
            request["text"],
            request["name"],
            request["options"],
            name_expressions=request["expressions"],
            headers=request["headers"],
            folders=(),
        )
    except CompileError as error:
        answer(
            {
                "error": str(error),
                "log": error.log,
                "missing": isinstance(error, ToolchainNotFoundError),
            }
        )
    else:
        cubin = b64encode(program.cubin).decode()
        answer(
            {
                "ptx": program.ptx.decode(),
                "cubin": cubin,
                "log": program.log,
                "lowered": dict(program.lowered),
                "version": program.version,
            }
        )
