"""Build a stand-in driver: the C files of this folder and those of a vendor's folder become one shared library."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

SHARED = Path(__file__).resolve().parent
#: `make clean` removes it.
CACHE = SHARED.parents[1] / "build" / "standin"
FLAGS = ("-std=gnu11", "-O1", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations")


#: More options of the compiler, such as -fsanitize=address,undefined.
VARIABLE = "DEVMOD_STANDIN_CFLAGS"


class BuildError(Exception):
    """What is missing to build a stand-in driver, or the compiler's errors."""


def build(folder: Path, soname: str, includes: Sequence[Path]) -> Path:
    """Build the stand-in driver of a folder and return its path. The same contents are built once.

    Parameters
    ----------
    folder
        The vendor's C files and ``exports.map``.
    soname
        The name by which programs load the library.
    includes
        The folders of the vendor's headers. A change in them is not noticed: their versions are part of their paths or of `folder`.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise BuildError(
            "no C compiler is installed (cc), which builds the stand-in driver; Debian and Ubuntu: apt-get install gcc libc6-dev"
        )
    sources = sorted([*SHARED.glob("*.c"), *folder.glob("*.c")])
    exports = folder / "exports.map"
    flags = [
        *FLAGS,
        *os.environ.get(VARIABLE, "").split(),
        *(f"-I{path}" for path in (SHARED, *includes)),
        f"-Wl,-soname,{soname}",
        f"-Wl,--version-script={exports}",
        "-Wl,-Bsymbolic",  # a process may have the stand-in drivers of two vendors
        "-Wl,-z,defs",
    ]
    digest = hashlib.sha256("\n".join([compiler, *flags]).encode())
    for path in [*sources, *sorted(SHARED.glob("*.h")), *sorted(folder.glob("*.h")), exports]:
        digest.update(path.read_bytes())
    library = CACHE / digest.hexdigest()[:16] / soname
    if not library.exists():
        library.parent.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent.parent) as temporary:
            target = Path(temporary) / "library" / soname
            target.parent.mkdir()
            process = subprocess.run(
                [compiler, *flags, "-o", str(target), *map(str, sources), "-ldl"], capture_output=True, text=True, check=False
            )
            if process.returncode:
                raise BuildError(f"the stand-in driver does not compile:\n{process.stderr}")
            try:
                target.parent.rename(library.parent)
            except OSError:  # another process was first
                if not library.exists():
                    raise
    return library
