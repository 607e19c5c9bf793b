"""Run the programs of a compiler: their folder, their environment, and what they have read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from devmod.backend import open_regular, temporary_folder
from devmod.errors import CompileError, DevmodError

#: The time limit of one program in seconds.
TIMEOUT = 600

#: The limit on the bytes of a program's messages.
_MAX_LOG = 64 << 20
#: The variables of the parent that a program receives: Windows needs them to start any program.
_INHERITED = ("SYSTEMROOT", "SystemRoot", "WINDIR")

#: The depth of a compiler's folder.
_DEPTH = 12


class TimeLimitError(CompileError):
    """A compiler was stopped at the time limit."""


@contextmanager
def compiler_folder() -> Iterator[str]:
    """Create an empty folder for a compiler, and remove it at the end.

    A compiler looks for ``#include "../a.h"`` beside the copy of the source first. The folder is
    deep inside a temporary folder, so no such name leads to a file of another user.
    """
    with temporary_folder() as top:
        folder = os.path.join(top, *["d"] * _DEPTH)
        os.makedirs(folder)
        try:
            yield folder
        finally:
            # The removal of a tree opens a file for each level, and there may be too few.
            with suppress(OSError):
                files = os.path.join(top, "f")
                os.rename(folder, files)
                os.removedirs(os.path.dirname(folder))  # up to `top`
                os.rmdir(files)  # an error if the compiler has written files
                os.rmdir(top)


def dependencies(text: str) -> list[str]:
    """Return the files of a make rule, without its target. Compilers list in such a rule the files
    that they have read.
    """
    rule = text.partition(":")[2].replace("\\\n", " ")
    return [
        re.sub(r"\\([ #])", r"\1", each).replace("$$", "$")
        for each in re.findall(r"(?:\\ |\S)+", rule)
    ]


def digests_of(paths: Iterable[str], own: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the files that a compiler has read, by their paths; "" for a file that
    cannot be read now.

    Parameters
    ----------
    paths
        The paths as the compiler opened the files.
    own
        The folders of the compiler itself. The result has none of their files.
    """
    folders = tuple(os.path.join(os.path.normpath(folder), "") for folder in own)
    return {
        path: _digest(path)
        for path in dict.fromkeys(paths)
        if not os.path.normpath(path).startswith(folders)
    }


def _digest(path: str) -> str:
    from hashlib import sha256

    try:
        with open_regular(path) as file:
            return sha256(file.read()).hexdigest()
    except (DevmodError, OSError):
        return ""


def own_environment(home: str, path: str = "") -> dict[str, str]:
    """Return an environment that has none of the user's variables.

    Parameters
    ----------
    home
        The program's home and temporary folder, and that of zig's cache, which zig requires.
    path
        The program's PATH.
    """
    environment = {
        "HOME": home,
        "TMPDIR": home,
        "TMP": home,
        "TEMP": home,
        "LC_ALL": "C",
        "PATH": path,
    }
    environment |= {
        "ZIG_GLOBAL_CACHE_DIR": home,
        "ZIG_LOCAL_CACHE_DIR": home,
        "SOURCE_DATE_EPOCH": "0",
    }
    return environment | {
        variable: os.environ[variable] for variable in _INHERITED if variable in os.environ
    }


def run_program(
    command: Sequence[str],
    folder: str,
    *,
    name: str,
    kind: str,
    environment: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[int, str]:
    """Run a program and return its exit status and its messages.

    Parameters
    ----------
    command
        The path of the program, and its arguments.
    folder
        The current folder of the program.
    name, kind
        The program's name, and the target's kind, for errors.
    environment
        The program's environment, such as `own_environment`; None for that of this process.
    meanwhile
        What to do while the program runs.

    Raises
    ------
    CompileError
        The program cannot be run, or exceeds the time limit.
    """
    import subprocess

    from devmod.worker import guarded_group

    with guarded_group() as group:
        try:
            process = subprocess.Popen(  # noqa: S603 - a compiler of a wheel, of PATH or of the user, with checked arguments
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=group,
            )
        except OSError as error:
            raise CompileError(f"{name} cannot be run: {error.strerror}", kind=kind) from error
        with process:
            try:
                meanwhile()
                output, _ = process.communicate(timeout=TIMEOUT)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TimeLimitError(
                        f"{name} was stopped: it exceeded the time limit of {TIMEOUT} seconds",
                        kind=kind,
                    ) from None
                raise
    return process.returncode, output[:_MAX_LOG].decode("utf-8", "replace")
