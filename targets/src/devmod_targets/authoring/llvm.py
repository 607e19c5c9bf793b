"""clang and lld for devices: those of the wheel ziglang, or those that the user names. No other clang is searched for.

The wheel's program `zig` is clang and lld for every target of LLVM (``zig clang``, ``zig ld.lld``). Each run has a temporary folder, an
environment without the user's variables, and files with fixed names, so that its output depends on its inputs alone.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from devmod.backend import environment_text, find_program
from devmod.errors import ToolchainNotFoundError
from devmod_targets.authoring._process import own_environment, run_program
from devmod_targets.authoring.zig import find_zig, toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import TargetSpec

#: The environment variable that names a clang.
VARIABLE = "DEVMOD_CLANG"
_VERSION = re.compile(r"clang version (\d+(?:\.\d+)+)")


class LlvmToolchain:
    """A clang with its lld.

    Attributes
    ----------
    name
        The names and versions for an origin, such as "clang 22.1.8 (ziglang 0.17.0)".
    include
        The folder of clang's own headers, such as stdint.h.
    version
        The major version of clang; 0 if it is unknown.
    """

    __slots__ = ("_clang", "_linker", "include", "name", "version")

    def __init__(self, clang: Sequence[str], linker: Sequence[str], name: str, include: str) -> None:
        self._clang, self._linker, self.name, self.include = tuple(clang), tuple(linker), name, include
        number = re.match(r"clang (\d+)", name)
        self.version = int(number[1]) if number else 0

    def clang(self, arguments: Sequence[str], folder: str, kind: str) -> tuple[int, str]:
        """Run clang in a folder. Return its exit status and its output.

        Raises
        ------
        CompileError
            It cannot be run, or exceeds the time limit.
        """
        # A distribution's file with default options would be another input. clang 16 has the option.
        own = ["--no-default-config"] if self.version >= 16 else []
        return _run([*self._clang, *own, *arguments], folder, kind, "clang")

    def link(self, arguments: Sequence[str], folder: str, kind: str) -> tuple[int, str]:
        """Run ld.lld in a folder. The result and the errors are those of `clang`."""
        return _run([*self._linker, *arguments], folder, kind, "ld.lld")


def find_toolchain(spec: TargetSpec, language: str, program: str = "") -> LlvmToolchain:
    """Return the toolchain.

    Parameters
    ----------
    spec
        The target, for the error's install command.
    language
        The language of the source, for the error.
    program
        A clang, as a path or as a name in PATH. By default that of DEVMOD_CLANG, else that of the wheel ziglang.

    Raises
    ------
    ToolchainNotFoundError
        It is not installed.
    """
    name = program or environment_text(VARIABLE)
    if name:
        path = find_program(name)
        linker = path and _linker_beside(path)
        if linker:
            return _named_toolchain(path, linker, os.stat(path).st_mtime_ns)
        source = f"the option -toolchain={name}" if program else f"{VARIABLE}={name}"
        problem = "has no ld.lld beside it; install lld of the same version" if path else "is not a program"
        raise ToolchainNotFoundError(f"cannot compile the {language} source: {source} {problem}", kind=spec.kind)
    return _zig_toolchain(find_zig(kind=spec.kind, distribution=spec.build_distribution))


@cache
def _zig_toolchain(zig: str) -> LlvmToolchain:
    clang = [zig, "clang"]
    return LlvmToolchain(clang, [zig, "ld.lld"], f"{_clang_version(clang)} ({toolchain()})", str(Path(zig).parent / "lib" / "include"))


@cache
def _named_toolchain(path: str, linker: str, _: int) -> LlvmToolchain:
    folder = _query([path, "-print-resource-dir"])
    return LlvmToolchain([path], [linker], _clang_version([path]), os.path.join(folder, "include"))


def _clang_version(clang: Sequence[str]) -> str:
    match = _VERSION.search(_query([*clang, "--version"]))
    return f"clang {match[1] if match else 'unknown'}"


def _linker_beside(clang: str) -> str:
    """Return the ld.lld of a clang: with the same suffix (clang-19 and ld.lld-19), in its folder or in PATH; "" if it is missing."""
    real = os.path.realpath(clang)
    suffix = re.search(r"-\d+(?=$|\.exe$)", os.path.basename(clang))
    names = [f"ld.lld{suffix[0]}"] if suffix else []
    for name in (*names, "ld.lld"):
        for folder in (os.path.dirname(clang), os.path.dirname(real)):
            path = find_program(os.path.join(folder, name))
            if path:
                return path
    return next(filter(None, map(find_program, names)), "")


def _run(command: Sequence[str], folder: str, kind: str, name: str) -> tuple[int, str]:
    # A clang that the user names may be a script.
    return run_program(command, folder, name=name, kind=kind, environment=own_environment(folder, os.environ.get("PATH", "")))


def _query(command: Sequence[str]) -> str:
    """Return the output of a command of clang that compiles nothing."""
    with TemporaryDirectory(prefix="devmod-") as folder:
        return _run(command, folder, "", "clang")[1].strip()
