"""libclc: OpenCL C's built-in functions as LLVM bitcode, which clang links into a kernel.

The files are those of Debian's package, compressed. `tools/libclc.py` writes them and their record.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from typing import Any

from devmod.backend import program_cache, read_private, write_private
from devmod.errors import DevmodError, ToolchainNotFoundError, pip_install
from devmod_targets.authoring.clang_build import LlvmToolchain

#: The libraries. The one for PTX has neither half nor work-item functions, barriers and fences, and
#: calls the work-item functions.
PTX = "nvptx64--"
AMDGPU = "amdgcn-amd-amdhsa"

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_CACHE = "libclc"
_RECORD = "record.json"


def _record() -> dict[str, Any]:
    """Return the version of LLVM and the size and the digest of each library."""
    with open(os.path.join(_FOLDER, _RECORD), encoding="utf-8") as file:
        result: dict[str, Any] = json.load(file)
    return result


def describe() -> str:
    """Return the name and the version, for an origin: "libclc 22.1.8"."""
    return f"libclc {_record()['version']}"


def check_clang(toolchain: LlvmToolchain, kind: str, distribution: str) -> None:
    """Check that a clang reads the bitcode.

    Raises
    ------
    ToolchainNotFoundError
        It is older than the clang that wrote the bitcode. A clang of unknown version is accepted.
    """
    required = int(_record()["version"].partition(".")[0])
    if toolchain.version == 0 or toolchain.version >= required:
        return
    raise ToolchainNotFoundError(
        f"{kind} cannot compile OpenCL C here: expected clang {required} or newer, because "
        f"{describe()}, the library of its built-in functions, is bitcode of LLVM {required}; got {toolchain.name}. "
        f"To update it: {pip_install('--upgrade', distribution)}, or name another clang with DEVMOD_CLANG",
        kind=kind,
    )


def read_library(library: str) -> bytes:
    """Return the bitcode of a library, for clang's option -mlink-builtin-bitcode.

    The unpacked file is kept in devmod's cache folder. One with another digest than that of the
    record is replaced.

    Parameters
    ----------
    library
        `PTX` or `AMDGPU`.

    Raises
    ------
    DevmodError
        The installed file is damaged.
    """
    entry = _record()["libraries"][library]
    size, digest = entry["size"], entry["sha256"]
    try:
        cache = program_cache(_CACHE)
    except DevmodError:
        return _unpack(library, size, digest)
    path = os.path.join(cache, f"{digest}.bc")
    data = read_private(path, size, touch=True)
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        data = _unpack(library, size, digest)
        write_private(path, data)
    return data


def _unpack(library: str, size: int, digest: str) -> bytes:
    source = os.path.join(_FOLDER, f"{library}.bc.xz")
    try:
        with lzma.open(source) as file:
            data = file.read(size + 1)
    except (OSError, lzma.LZMAError, EOFError) as error:
        problem = str(error)
    else:
        if hashlib.sha256(data).hexdigest() == digest:
            return data
        problem = "its digest is not that of its record"
    raise DevmodError(
        f"{source!r} is damaged: {problem}. Install devmod-targets again: {pip_install('--force-reinstall', 'devmod-targets')}"
    )
