"""Build a stand-in: C files become one shared library, once for the same contents."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: `make clean` removes it.
CACHE = Path(__file__).resolve().parents[4] / "build" / "simulators"
FLAGS = ("-std=gnu11", "-O1", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations")
#: More options of the compiler, such as -fsanitize=address,undefined.
VARIABLE = "DEVMOD_STANDIN_CFLAGS"


class UnavailableError(Exception):
    """A program or a package that a stand-in needs is not installed."""


class BuildError(Exception):
    """The C files of a stand-in do not compile."""


def build(soname: str, folders: Sequence[Path], includes: Sequence[Path]) -> Path:
    """Build a shared library and return its path. The same contents are built once.

    Parameters
    ----------
    soname
        The name by which programs load the library.
    folders
        The folders of C files. The last one may have ``exports.map``.
    includes
        The folders of the vendor's headers. A change in them is not noticed: their versions are part of their paths or of `folders`.

    Raises
    ------
    UnavailableError
        No C compiler is installed.
    BuildError
        The files do not compile.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise UnavailableError(
            f"no C compiler is installed (cc), which builds the stand-in for {soname}; Debian and Ubuntu: apt-get install gcc libc6-dev"
        )
    files = [path for folder in folders for pattern in ("*.c", "*.h", "exports.map") for path in sorted(folder.glob(pattern))]
    flags = [
        *FLAGS,
        *os.environ.get(VARIABLE, "").split(),
        *(f"-I{path}" for path in (*folders, *includes)),
        f"-Wl,-soname,{soname}",
        *(f"-Wl,--version-script={path}" for path in files if path.name == "exports.map"),
        "-Wl,-Bsymbolic",  # a process may have the stand-in drivers of two vendors
        "-Wl,-z,defs",
    ]
    digest = hashlib.sha256("\n".join([compiler, *flags]).encode())
    for path in files:
        digest.update(path.read_bytes())
    library = CACHE / digest.hexdigest()[:16] / soname
    if not library.exists():
        sources = [str(path) for path in files if path.suffix == ".c"]
        library.parent.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent.parent) as temporary:
            target = Path(temporary) / "library" / soname
            target.parent.mkdir()
            process = subprocess.run([compiler, *flags, "-o", str(target), *sources, "-ldl"], capture_output=True, text=True, check=False)
            if process.returncode:
                raise BuildError(f"the stand-in for {soname} does not compile:\n{process.stderr}")
            try:
                target.parent.rename(library.parent)
            except OSError:  # another process was first
                if not library.exists():
                    raise
    return library
