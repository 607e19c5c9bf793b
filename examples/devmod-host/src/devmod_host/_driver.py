"""cffi and the system's C compiler. No other file uses either.

Importing this file imports cffi. It raises DeviceNotFoundError if that fails; a later import tries
again.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess

from devmod.backend import find_program, temporary_folder
from devmod.errors import CompileError, DeviceNotFoundError, FormatError
from devmod.worker import guarded_group
from devmod_runtime import call_uninterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FLAGS = (
    *("-x", "c", "-std=gnu11", "-O2", "-fPIC", "-shared"),
    "-ffp-contract=off",  # the same results as NumPy; a fused multiply-add rounds once
    # Errors of the compiler instead of crashes at run time.
    *(
        f"-Werror={name}"
        for name in (
            "implicit-function-declaration",
            "incompatible-pointer-types",
            "int-conversion",
        )
    ),
)
_NO_COMPILER = (
    "no C compiler was found, and the host backend runs C: {why}. Install one (Debian, Ubuntu: apt-get install gcc; "
    "Fedora: dnf install gcc; macOS: xcode-select --install), or name one in the environment variable CC"
)


def _declare() -> Any:
    """Return cffi's interface with the types of all calls."""
    import cffi

    result = cffi.FFI()
    # All kernels have the signature of the functions that `_program.stubs` writes, so cffi parses C
    # only once.
    result.cdef(
        "typedef void (*devmod_launch)(void *const *values, const unsigned int *shape); extern devmod_launch devmod_launches[];"
    )
    for each in ("unsigned char[]", "unsigned int[]", "void *[]"):
        result.typeof(each)
    return result


try:
    ffi = call_uninterrupted(_declare)  # an interrupt of cffi's parser leaves its lock held
except ImportError as error:
    raise DeviceNotFoundError(
        f"cffi cannot be imported, so no host function can be called ({error}). To add it: pip install cffi",
        kind="host",
    ) from error

#: The names of the two parts of a translation unit in the compiler's messages.
SOURCE, LAUNCH = "<source>", "<launch>"


class Compiler:
    """The system's C compiler.

    Attributes
    ----------
    command
        The command line, without options.
    version
        The first line of the output of ``--version``.
    identity
        Everything besides the source and the options that determines the output.
    """

    def __init__(self, command: list[str], version: str) -> None:
        self.command = command
        self.version = version
        self.identity = "\n".join((*command, version, platform.machine(), *_FLAGS))

    def build(self, text: str, options: tuple[str, ...]) -> bytes:
        """Compile a translation unit and return the shared library.

        Raises
        ------
        CompileError
            The source has errors; `log` is the compiler's output.
        FormatError
            The source is valid, but it does not contain the functions of the payload's fmap.
        """
        # The compiler ends with this process.
        with temporary_folder() as folder, guarded_group() as group:
            out = os.path.join(folder, "out.so")
            command = [*self.command, *_FLAGS, *options, "-o", out, "-", "-lm"]
            process = subprocess.run(
                command,
                input=text.encode(),
                capture_output=True,
                check=False,
                cwd=folder,
                env=os.environ | {"LC_ALL": "C"},
                process_group=group,
            )
            log = process.stderr.decode(errors="replace").strip()
            if process.returncode == 0:
                with open(out, "rb") as file:
                    return file.read()
        errors = [
            line for line in log.splitlines() if "error:" in line or "undefined reference" in line
        ]
        if errors and all(line.startswith(LAUNCH) for line in errors):
            raise FormatError(
                f"the host payload's fmap does not match its source: {errors[0].partition('error: ')[2]}",
                kind="host",
            )
        details = (
            "\n  ".join(["", *errors[:3]])
            if errors
            else f" exit code {process.returncode}; {log[:200] or 'no output'}"
        )
        raise CompileError(
            f"{self.command[0]} cannot compile the host source:{details}", kind="host", log=log
        )


def find_compiler() -> Compiler:
    """Return the compiler that CC names, or the first of cc, gcc and clang.

    Raises
    ------
    DeviceNotFoundError
        There is no compiler.
    """
    from_environment = shlex.split(os.environ.get("CC", ""))
    for command in [from_environment] if from_environment else [["cc"], ["gcc"], ["clang"]]:
        program = find_program(command[0])
        if program:
            break
    else:
        why = (
            f"CC names {from_environment[0]!r}, which is not an installed program"
            if from_environment
            else "none of cc, gcc and clang is on PATH"
        )
        raise DeviceNotFoundError(_NO_COMPILER.format(why=why), kind="host")
    try:
        process = subprocess.run(
            [program, *command[1:], "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        why = (
            f"{command[0]} --version ended with exit code {process.returncode}"
            if process.returncode
            else ""
        )
    except OSError as error:
        why = f"{command[0]} cannot be run ({error.strerror})"
    if why:
        raise DeviceNotFoundError(_NO_COMPILER.format(why=why), kind="host")
    return Compiler([program, *command[1:]], process.stdout.partition("\n")[0].strip())


class Library:
    """A shared library in this process. The same bytes loaded twice are two libraries with separate
    variables.
    """

    def __init__(self, binary: bytes) -> None:
        try:
            with temporary_folder() as folder:
                path = os.path.join(folder, "kernels.so")
                with open(path, "wb") as file:
                    file.write(binary)
                # RTLD_NOW: an undefined function must be an error here, and not crash the process
                # at the first call.
                self._library = ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_LOCAL)
        except OSError as error:
            raise CompileError(
                f"the compiled host source cannot be loaded: {_loader_message(error, path)}",
                kind="host",
            ) from error

    def launch(self, number: int) -> Any:
        """Return the function that launches kernel `number` of the table. It takes the addresses of
        the values and the shape.
        """
        return self._library.devmod_launches[number]


def _loader_message(error: OSError, path: str) -> str:
    """Return the message of the loader, without the path of the deleted file and without the other
    names that cffi tried.
    """
    return (
        str(error)
        .partition(".  Additionally")[0]
        .replace(f"cannot load library '{path}': ", "")
        .replace(path, "it")
    )


def allocate(nbytes: int) -> Any:
    """Allocate zeroed memory, which is freed with the returned object.

    Raises
    ------
    MemoryError, OverflowError
        The system does not have enough memory.
    """
    return ffi.new("unsigned char[]", nbytes)
