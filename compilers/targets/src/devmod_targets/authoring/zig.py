"""Run the compilers of the wheel ziglang: clang and lld for GPUs and DSPs, on any machine and
without a toolkit.

A program runs in an empty temporary folder with an environment of its own, so its output depends on
its arguments, its files and the version of the wheel alone. Nothing is written to the wheel's
folder or to the home directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from devmod.backend import temporary_folder
from devmod.errors import ToolchainNotFoundError, not_installed
from devmod_targets._executables import library_folders, package_folders
from devmod_targets.authoring._library import wheel_version
from devmod_targets.authoring._process import own_environment, run_program

__all__ = ["LibraryHeaders", "ZigResult", "find_zig", "library_headers", "run_zig", "toolchain"]


class LibraryHeaders(NamedTuple):
    """The headers of C and C++ in the wheel: musl's and libc++'s.

    Attributes
    ----------
    version
        The name and the version of the wheel.
    c, cpp
        The folders, in the order of the search. Those of C++ precede clang's own headers, and those
        of C follow them.
    """

    version: str
    c: tuple[str, ...]
    cpp: tuple[str, ...]


class ZigResult(NamedTuple):
    """The result of one program: its exit status, its messages, and the bytes of the output file
    (b"" if there is none).
    """

    status: int
    log: str
    output: bytes


def find_zig(*, kind: str, distribution: str = "ziglang") -> str:
    """Return the path of zig in the wheel. No other zig is searched.

    Raises
    ------
    ToolchainNotFoundError
        The wheel is not installed; the message has the command that installs `distribution`.
    """
    for folder in package_folders("ziglang"):
        path = os.path.join(folder, "zig.exe" if os.name == "nt" else "zig")
        if os.path.isfile(path):
            return path
    missing = not_installed("the compiler clang of the wheel ziglang", distribution, "ziglang")
    raise ToolchainNotFoundError(f"{kind} cannot be compiled here: {missing}", kind=kind)


def toolchain() -> str:
    """Return the name and the version of the wheel for an origin, such as "ziglang 0.17.0"."""
    folders = package_folders("ziglang")
    if not folders:
        return "ziglang"
    return wheel_version("ziglang", os.path.join(folders[0], "zig"))


def library_headers(zig: str, processor: str) -> LibraryHeaders:
    """Return the headers of C and C++ for a processor, such as "hexagon". `zig` is the path of zig
    in the wheel.
    """
    return LibraryHeaders(toolchain(), *library_folders(os.path.dirname(zig), processor))


def run_zig(
    arguments: Sequence[str],
    files: Mapping[str, bytes],
    output: str = "",
    *,
    kind: str,
    distribution: str = "ziglang",
) -> ZigResult:
    """Run one of zig's programs on files, in a temporary folder that contains nothing else.

    Parameters
    ----------
    arguments
        The program and its arguments, such as ``["clang", "-c", "k.s", "-o", "k.o"]``. Paths are
        relative to the temporary folder.
    files
        The content of each input file, by its name without folders.
    output
        The name of the file to return; "" for none.
    kind
        The target's kind, for errors.
    distribution
        What pip installs, for the error.

    Raises
    ------
    ToolchainNotFoundError
        The wheel is not installed.
    CompileError
        The program cannot be run, or exceeds the time limit.
    """
    path = find_zig(kind=kind, distribution=distribution)
    with temporary_folder() as folder:
        for name, data in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        home = os.path.join(folder, "home")
        os.mkdir(home)
        status, log = run_program(
            [path, *arguments],
            folder,
            name=f"zig {arguments[0]}",
            kind=kind,
            environment=own_environment(home),
        )
        result = b""
        place = os.path.join(folder, output)
        if output and os.path.isfile(place):
            with open(place, "rb") as file:
                result = file.read()
    return ZigResult(status, log.replace(folder + os.sep, ""), result)
