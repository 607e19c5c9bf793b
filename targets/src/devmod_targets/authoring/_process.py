"""Run a compiler in a folder, with an environment that has none of the user's variables."""

from __future__ import annotations

import os

from devmod.errors import CompileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The time limit of one program in seconds.
TIMEOUT = 600
#: The limit on the bytes of a program's messages.
_MAX_LOG = 64 << 20
#: The variables of the parent that a program receives: Windows needs them to start any program.
_INHERITED = ("SYSTEMROOT", "SystemRoot", "WINDIR")


def run_program(command: Sequence[str], folder: str, *, name: str, kind: str, home: str = "", path: str = "") -> tuple[int, str]:
    """Run a program and return its exit status and its messages.

    Parameters
    ----------
    command
        The path of the program, and its arguments.
    folder
        The current folder of the program.
    name, kind
        The program's name, and the target's kind, for errors.
    home
        The program's home and temporary folder, and that of zig's cache, which zig requires; by default `folder`.
    path
        The program's PATH.

    Raises
    ------
    CompileError
        The program cannot be run, or exceeds the time limit.
    """
    import subprocess

    home = home or folder
    environment = {"HOME": home, "TMPDIR": home, "TMP": home, "TEMP": home, "LC_ALL": "C", "PATH": path}
    environment |= {"ZIG_GLOBAL_CACHE_DIR": home, "ZIG_LOCAL_CACHE_DIR": home}
    environment |= {variable: os.environ[variable] for variable in _INHERITED if variable in os.environ}
    try:
        completed = subprocess.run(  # noqa: S603 - a compiler, with checked arguments
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name} was stopped: it exceeded the time limit of {TIMEOUT} seconds", kind=kind) from None
    except OSError as error:
        raise CompileError(f"{name} cannot be run: {error.strerror}", kind=kind) from error
    return completed.returncode, completed.stdout[:_MAX_LOG].decode("utf-8", "replace")
