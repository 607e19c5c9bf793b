"""Compile so that the output contains no folder of this machine (R38).

Line and debug information contain the process's current folder, so NVRTC then runs in another process, whose folder is the root. The
folders of headers are in that information too, and in the messages of ``assert``, so the headers are then in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_targets.cuda import nvrtc
from devmod_targets.cuda._headers import headers_in_memory
from devmod_targets.cuda.options import writes_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Compiles the program on stdin and writes the result to stdout: a line of JSON, then the PTX and the cubin.
_WORKER = """
import json, sys
sys.path[:], text, name, options, expressions, headers = json.load(sys.stdin)
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_targets.cuda.nvrtc import compile_program
try:
    program = compile_program(text, name, options, name_expressions=expressions, headers=headers, folders=())
except CompileError as error:
    head, data = {"error": str(error), "log": error.log, "missing": isinstance(error, ToolchainNotFoundError)}, b""
else:
    head = {"size": len(program.ptx), "log": program.log, "lowered": dict(program.lowered), "version": program.version}
    data = program.ptx + program.cubin
sys.stdout.buffer.write(json.dumps(head).encode() + b"\\n" + data)
"""


def compile_portable(text: str, name: str, options: Sequence[str], name_expressions: Sequence[str]) -> nvrtc.Program:
    """Compile a program as `nvrtc.compile_program` does. The result is the same in every folder and with every location of the wheels."""
    folders = nvrtc.include_folders()
    if writes_folders(options):
        return _compile_at_root(text, name, options, name_expressions, headers_in_memory(text, folders))
    program = nvrtc.compile_program(text, name, options, name_expressions=name_expressions)
    if not _has_folder(program, folders):
        return program
    headers = headers_in_memory(text, folders)
    return nvrtc.compile_program(text, name, options, name_expressions=name_expressions, headers=headers, folders=())


def _has_folder(program: nvrtc.Program, folders: Sequence[str]) -> bool:
    """Return whether a folder is a string in the program: as bytes in a cubin, as a list of numbers in PTX."""
    for path in (os.fsencode(folder) for folder in folders):
        numbers = ", ".join(map(str, path)).encode()
        if path in program.cubin or path in program.ptx or numbers in program.ptx:
            return True
    return False


def _compile_at_root(
    text: str, name: str, options: Sequence[str], name_expressions: Sequence[str], headers: dict[str, str]
) -> nvrtc.Program:
    if getattr(sys, "frozen", False) or not sys.executable:
        raise CompileError(
            "line and debug information need a Python interpreter, and this program is frozen; leave out -lineinfo and -G", kind="cuda"
        )
    request = json.dumps([[os.path.abspath(path) for path in sys.path], text, name, list(options), list(name_expressions), headers])
    try:
        completed = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", _WORKER], input=request.encode(), capture_output=True, check=False, cwd=os.path.abspath(os.sep)
        )
    except OSError as error:
        raise CompileError(f"the process that compiles with line information cannot be started: {error.strerror}", kind="cuda") from error
    line, _, data = completed.stdout.partition(b"\n")
    if completed.returncode or not line:
        raise CompileError(
            f"the process that compiles with line information ended with status {completed.returncode}",
            kind="cuda",
            log=completed.stderr.decode("utf-8", "replace"),
        )
    head = json.loads(line)
    if "error" in head:
        raise (ToolchainNotFoundError if head["missing"] else CompileError)(head["error"], kind="cuda", log=head["log"])
    size = head["size"]
    major, minor = head["version"]
    return nvrtc.Program(data[:size], data[size:], head["log"], head["lowered"], (major, minor))
