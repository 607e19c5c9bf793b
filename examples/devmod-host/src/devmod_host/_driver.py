"""cffi and the system's C compiler: this is the only file that opens either.

Importing it imports cffi; where that cannot be done it raises DeviceNotFoundError, and trying again later is fine.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile

from devmod.errors import CompileError, DeviceNotFoundError, FormatError, LaunchError

try:
    import cffi
except ImportError as error:
    raise DeviceNotFoundError(
        f"cffi cannot be imported, so no host function can be called ({error}). To add it: pip install cffi", kind="host"
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ffi = cffi.FFI()
# One signature for every kernel: what `_launch.stubs` writes in C, and a table of them, so that nothing is parsed a library.
ffi.cdef("typedef void (*devmod_launch)(void *const *values, const unsigned int *shape); extern devmod_launch devmod_launches[];")

#: The names of the two parts of a translation unit in the compiler's messages: whose fault an error is.
SOURCE, LAUNCH = "<source>", "<launch>"

_FLAGS = (
    *("-x", "c", "-std=gnu11", "-O2", "-fPIC", "-shared"),
    "-ffp-contract=off",  # the same numbers as NumPy, also where the processor could fuse a multiply and an add
    # What would only show as a crash: better an error of the compiler.
    *(f"-Werror={name}" for name in ("implicit-function-declaration", "incompatible-pointer-types", "int-conversion")),
)
_NO_COMPILER = (
    "no C compiler was found, and the host backend runs C: {why}. Install one (Debian, Ubuntu: apt-get install gcc; "
    "Fedora: dnf install gcc; macOS: xcode-select --install), or name one in the environment variable CC"
)


class Compiler:
    """The system's C compiler.

    Attributes
    ----------
    command
        The words that start it.
    version
        The first line that it says of itself.
    identity
        What its output depends on beside the source and the options.
    """

    def __init__(self, command: list[str], version: str) -> None:
        self.command = command
        self.version = version
        self.identity = "\n".join((*command, version, platform.machine(), *_FLAGS))

    def build(self, text: str, options: tuple[str, ...]) -> bytes:
        """The shared library of a translation unit.

        Raises
        ------
        CompileError
            The compiler refuses the source; `log` has all it said.
        FormatError
            The source is sound, and the functions that its payload's fmap describes are not in it.
        """
        with tempfile.TemporaryDirectory(prefix="devmod-host-") as folder:
            out = os.path.join(folder, "out.so")
            command = [*self.command, *_FLAGS, *options, "-o", out, "-", "-lm"]
            done = subprocess.run(
                command, input=text.encode(), capture_output=True, check=False, cwd=folder, env=os.environ | {"LC_ALL": "C"}
            )
            log = done.stderr.decode(errors="replace").strip()
            if done.returncode == 0:
                with open(out, "rb") as file:
                    return file.read()
        errors = [line for line in log.splitlines() if "error:" in line or "undefined reference" in line]
        if errors and all(line.startswith(LAUNCH) for line in errors):
            raise FormatError(f"the host payload's fmap does not fit its source: {errors[0].partition('error: ')[2]}", kind="host")
        said = "\n  ".join(["", *errors[:3]]) if errors else f" exit code {done.returncode}; {log[:200] or 'it said nothing'}"
        raise CompileError(f"{self.command[0]} cannot compile the host source:{said}", kind="host", log=log)


def find_compiler() -> Compiler:
    """The compiler that CC names, else the first of cc, gcc and clang.

    Raises
    ------
    DeviceNotFoundError
        There is none: to this backend the compiler is the driver.
    """
    named = shlex.split(os.environ.get("CC", ""))
    for command in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            break
    else:
        why = f"CC names {named[0]!r}, which is no program here" if named else "none of cc, gcc and clang is on PATH"
        raise DeviceNotFoundError(_NO_COMPILER.format(why=why), kind="host")
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace", check=False)
        why = f"{command[0]} --version ended with exit code {done.returncode}" if done.returncode else ""
    except OSError as error:
        why = f"{command[0]} cannot be run ({error.strerror})"
    if why:
        raise DeviceNotFoundError(_NO_COMPILER.format(why=why), kind="host")
    return Compiler(command, done.stdout.partition("\n")[0].strip())


class Library:
    """A shared library in this process, with variables of its own: the same bytes opened twice are two libraries."""

    def __init__(self, binary: bytes) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="devmod-host-") as folder:
                path = os.path.join(folder, "kernels.so")
                with open(path, "wb") as file:
                    file.write(binary)
                # Everything is resolved now: a function that is nowhere must be an error here, not the end of the process later.
                self._library = ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_LOCAL)
        except OSError as error:
            raise CompileError(f"the compiled host source does not load: {_why(error, path)}", kind="host") from error

    def launch(self, number: int) -> Any:
        """The function that launches a kernel, by its place in the table; it takes the values' addresses and the shape."""
        return self._library.devmod_launches[number]


def _why(error: OSError, path: str) -> str:
    """What the loader said, without the path, which is gone by the time that anyone reads it, and without cffi's search for other files."""
    return str(error).partition(".  Additionally")[0].replace(f"cannot load library '{path}': ", "").replace(path, "it")


def allocate(nbytes: int) -> Any:
    """Memory of so many bytes, all zero, freed with the object.

    Raises
    ------
    LaunchError
        The system has no such memory left.
    """
    try:
        return ffi.new("unsigned char[]", nbytes)
    except (MemoryError, OverflowError):
        raise LaunchError(f"the host has no memory of {nbytes} bytes left", kind="host") from None
