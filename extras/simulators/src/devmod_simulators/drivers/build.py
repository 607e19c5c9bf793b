"""Build a stand-in: C files become one shared library. A wheel has it built; in a source tree it is
built once for the same contents.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

#: The libraries in a wheel, by machine.
PACKAGED = Path(__file__).resolve().parent / "built"
#: `make clean` removes it.
CACHE = Path(__file__).resolve().parents[5] / "build" / "simulators"
FLAGS = (
    "-std=gnu11",
    "-O1",
    "-fPIC",
    "-shared",
    "-pthread",
    "-D_GNU_SOURCE=",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-deprecated-declarations",
    "-Wno-unused-parameter",  # they are those of the vendor's header
    "-Wredundant-decls",  # two files may have a variable of one name, which would be one variable
)
#: A file that includes the C files of a library: each by itself would parse the vendor's header.
#: Those in a folder `alone` have names that are other functions or macros in others.
_TOGETHER = "together.c"
#: What it includes behind the headers.
_PROTOTYPES = "prototypes.h"
#: The head of a function of C and its name, where it is not of the API; and a prototype.
_HEAD = r"^((?!static\b|typedef\b)(?:\w+[ *]+)+(?<!API )(\w+)\((?:[^;{}()]|\([^()]*\))*\))"
_DEFINITION = re.compile(rf"{_HEAD} \{{$", re.MULTILINE)
_DECLARATION = re.compile(rf"{_HEAD}[^;{{}}]*;", re.MULTILINE)
#: More options of the compiler, such as -fsanitize=address,undefined.
VARIABLE = "DEVMOD_STANDIN_CFLAGS"


class UnavailableError(Exception):
    """A program or a package that a stand-in needs is not installed."""


class BuildError(Exception):
    """The C files of a stand-in do not compile, or cannot be written."""


# Where to change: a function of the stand-in driver of CUDA
#   here: `extras/simulators/src/devmod_simulators/drivers/libcuda/*.c`, by family;
#     `drivers/common/*.c` for what another vendor's stand-in needs too; `drivers/libcudart/*.c` for
#     the runtime, or `forwards.txt` there if it is one of the driver
#   tests: `extras/simulators/tests/libcuda/`, by family
def build(
    soname: str,
    folders: Sequence[Path],
    includes: Callable[[], Sequence[Path]],
    needs: Sequence[Path],
    generate: Callable[[Sequence[Path]], Mapping[str, str]],
    options: Sequence[str] = (),
) -> Path:
    """Return the path of a shared library: the one in the wheel, or one that is built once for the
    same contents.

    Parameters
    ----------
    soname
        The name by which programs load the library.
    folders
        The folders of C files. The last one may have ``exports.map``.
    includes
        A function that returns the folders of the vendor's headers. A change in them is not
        noticed.
    needs
        The libraries that it is linked with.
    generate
        A function that returns files to include, by their names, from the folders of headers.
    options
        More options of the compiler.

    Raises
    ------
    UnavailableError
        No C compiler is installed, or no header.
    BuildError
        The files do not compile.
    """
    packaged = PACKAGED / platform.machine() / soname
    if packaged.exists():
        return packaged
    headers = includes()
    # It searches no current folder; a wheel's build has no devmod.
    from devmod.backend import find_program
    from devmod.commands import progress

    compiler = find_program(os.environ.get("CC", "cc"))
    if not compiler:
        raise UnavailableError(
            f"no C compiler is installed (cc), which builds the stand-in for {soname}; Debian and Ubuntu: apt-get install gcc libc6-dev"
        )
    command = [
        compiler,
        *arguments(soname, folders, headers, needs),
        "-g",
        "-O0",  # a tree is changed more often than its driver has much to do
        *options,
        *os.environ.get(VARIABLE, "").split(),
    ]
    digest = hashlib.sha256("\n".join(command).encode())
    makers = (Path(__file__), Path(__file__).with_name("generated.py"))
    for path in (*makers, *_files(folders, "**/*.*")):
        digest.update(path.read_bytes())
    library = CACHE / digest.hexdigest()[:16] / soname
    if not library.exists():
        with progress(f"building {soname}, once"), new_folder(library.parent) as folder:
            compile_library(command, folder / soname, folders, generate(headers))
    return library


def _prototypes(folders: Sequence[Path]) -> str:
    """Return the prototypes of functions with a call before them or in another file, which no file
    declares.
    """
    texts = [path.read_text("utf-8") for path in _files(folders, "**/*.[ch]")]
    files_of = Counter(word for text in texts for word in set(re.findall(r"\w+", text)))
    declared = {match[2] for text in texts for match in _DECLARATION.finditer(text)}
    prototypes = []
    for text in texts:
        for match in _DEFINITION.finditer(text):
            head, name = match.groups()
            is_called = files_of[name] > 1 or re.search(rf"\b{name}\(", text[: match.start()])
            if is_called and name not in declared:
                prototypes.append(f"{head};\n")
    return "".join(prototypes)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill. It gets the path afterwards, unless another process was first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        folder = Path(temporary, path.name)
        folder.mkdir()
        yield folder
        try:
            folder.rename(path)
        except OSError:
            if not path.exists():
                raise


def arguments(
    soname: str,
    folders: Sequence[Path],
    includes: Sequence[Path],
    needs: Sequence[Path],
    origin: str = "",
) -> list[str]:
    """Return the arguments of a C compiler for a library. It finds those that it needs in their
    folder, or in `origin`.
    """
    return [
        *FLAGS,
        *(f"-I{path}" for path in (*folders, *includes)),
        f"-Wl,-soname,{soname}",
        *map("-Wl,--version-script={}".format, _files(folders, "exports.map")),
        "-Wl,-Bsymbolic",  # a process may have the stand-in drivers of two vendors
        "-Wl,-z,defs",
        "-Wl,-z,nodelete",  # a thread runs its code
        _TOGETHER,
        *map(str, _files(folders, "alone/*.c")),
        *map(str, needs),
        *(f"-Wl,-rpath,{origin or path.parent}" for path in needs),
        "-ldl",
        "-lm",
    ]


def _files(folders: Sequence[Path], pattern: str) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.glob(pattern))]


def compile_library(
    command: Sequence[str], target: Path, folders: Sequence[Path], generated: Mapping[str, str]
) -> None:
    """Run a C compiler, with files to include.

    Raises
    ------
    BuildError
        The files do not compile.
    """
    sources = [*_files(folders, "*.h"), _PROTOTYPES, *_files(folders, "*.c")]
    lines = map('#include "{}"\n'.format, sources)
    files = {_TOGETHER: "".join(lines), _PROTOTYPES: _prototypes(folders), **generated}
    # zig compiles once for the same command, if the files that it has read are still there.
    included = CACHE / "included" / hashlib.sha256(str(files).encode()).hexdigest()[:16]
    if not included.exists():
        with new_folder(included) as folder:
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")

    process = subprocess.run(
        [*command, "-I.", "-o", target],
        cwd=included,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise BuildError(f"the stand-in for {target.name} does not compile:\n{process.stderr}")
