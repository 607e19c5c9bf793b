"""The reader in C, built with sanitizers, and compared with Python: both must accept the same
bundles.
"""

from __future__ import annotations

import atexit
import ctypes
import ctypes.util
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import devmod
from fuzzing.readers import Breach, index_problem, walk
from fuzzing.seeds import ROOT

FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
#: The calls of the reader by which verdict.c counts its memory.
COUNTED = ("-Dcalloc=counted_calloc", "-Dfree=counted_free")
#: The most memory that the index of a file of n bytes takes: `n * MEMORY`, and `FREE_MEMORY` more.
MEMORY = 100
FREE_MEMORY = 1 << 14
#: The most memory that it takes to copy a module into a buffer: a piece of the file, and for its
#: repeats `COPYING` times the memory of the index.
COPYING = 3
PIECE = 1 << 20
FOLDER = ROOT / "compilers" / "readers" / "c"
READER = FOLDER / "devmod_reader.c"
TESTS = ROOT / "compilers" / "readers" / "tests"
#: The results of verdict.c that are no results of the reader.
PROBLEMS = {
    96: "takes memory for a second use of a module's contents",
    97: "keeps memory of a module that is forgotten",
    98: "copies other bytes of a module than it gives",
    99: "does not find a candidate by a name in its record",
}
#: The result of the reader for what a caller asks for and a file lacks.
NOT_FOUND = 5
#: What is built, by the digest of its sources: a sanitized program takes two seconds.
CACHE = ROOT / "build" / "c-reader"


def compiler() -> str | None:
    """Return a compiler of C with sanitizers; None on Windows."""
    if sys.platform == "win32":
        return None
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def build(sources: Sequence[Path], *options: str) -> Path:
    """Return what the compiler makes of C files. It is built once for the same contents, also for
    other processes.
    """
    program = str(compiler())
    digest = hashlib.sha256("\n".join((os.path.realpath(program), *FLAGS, *options)).encode())
    for path in (*sources, *sorted(FOLDER.iterdir()), *sorted(TESTS.glob("*.[ch]"))):
        digest.update(path.read_bytes())
    target = CACHE / digest.hexdigest()[:16]
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    part = CACHE / f"{target.name}.{os.getpid()}"
    command = [program, *FLAGS, f"-I{FOLDER}", *map(str, sources), *options, "-o", str(part)]
    subprocess.run(command, check=True)
    part.replace(target)
    return target


def _unlimited() -> None:
    """Lift the worker's limit on addresses: the sanitizer reserves more, for its shadow of all
    memory.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)


@cache
def zstd() -> tuple[str, ...]:
    """Return the options that add zstd: the library of the system or that of the wheel of Pillow;
    () without both.
    """
    if name := ctypes.util.find_library("zstd"):
        library = [f"-l:{name}"]
    else:
        library = [
            str(path)
            for path in Path(sysconfig.get_path("platlib"), "pillow.libs").glob("libzstd*")
        ][:1]
    # the tests' zstd.h has the part that the reader uses, where the system has none
    return (
        ("-DDEVMOD_READER_ZSTD", f"-idirafter{TESTS}", *library)
        if library and sys.platform == "linux"
        else ()
    )


@cache
def _process(*options: str) -> subprocess.Popen[bytes] | None:
    if compiler() is None:
        return None
    built = build([READER, TESTS / "verdict.c"], *SANITIZERS, *COUNTED, *options)
    process = subprocess.Popen(
        [str(built)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=_unlimited
    )

    def close() -> None:
        process.kill()
        process.communicate()

    atexit.register(close)
    return process


def ask(data: bytes, *options: str) -> tuple[int, int, int, str]:
    """Return the results of a file in memory and by ranges, how many modules are not supported, and
    the error.

    Breach: the index or a copy takes more memory than the file allows, a second use takes more, a
    module's memory is not freed, a copy has other bytes, or a name is not found.
    """
    process = _process(*options)
    assert process is not None
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(struct.pack("<I", len(data)) + data)
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = b""
    if not line:
        raise Breach(f"the reader in C ended with {process.wait()}")
    *numbers, error = line.decode(errors="replace").rstrip("\n").split(" ", 6)
    first, second, unsupported, index, copying, added = map(int, numbers)
    for result, problem in PROBLEMS.items():
        if result in (first, second):
            raise Breach(f"the reader in C {problem}")
    if copying > index * COPYING + PIECE:
        raise Breach(f"the reader in C takes {copying} bytes to copy a module into a buffer")
    if index > len(data) * MEMORY + FREE_MEMORY:
        raise Breach(f"the reader in C takes {index} bytes for the index of {len(data)} bytes")
    if added:
        raise Breach(f"the reader in C takes {added} bytes more for the second use of a file")
    return first, second, unsupported, error


class Slice(ctypes.Structure):
    """A devmod_slice."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


@cache
def library() -> ctypes.CDLL:
    """Return the reader as a library."""
    loaded = ctypes.CDLL(str(build([READER], "-shared", "-fPIC")))
    loaded.devmod_error.restype = ctypes.c_char_p
    return loaded


class Candidate(ctypes.Structure):
    """A candidate of a look-up: `devmod_candidate`."""

    _fields_ = (
        ("rank", ctypes.c_int64),
        ("number", ctypes.c_uint32),
        ("kind", Slice),
        ("format", Slice),
        ("variant", Slice),
    )


def open_pinned(data: bytes, address: str) -> str:
    """Return the error of a file in memory with an address by digest; "" without one."""
    handle = ctypes.c_void_p()
    result = library().devmod_open_pinned(
        None, data, ctypes.c_uint64(len(data)), address.encode(), ctypes.byref(handle)
    )
    error: str = library().devmod_error(handle).decode()
    library().devmod_close(handle)
    return error if result else ""


class File:
    """A file in memory, and the functions of the reader in C for it."""

    def __init__(self, data: bytes) -> None:
        self.library = library()
        self.data = data
        self.handle = ctypes.c_void_p()
        size = ctypes.c_uint64(len(data))
        result = self.library.devmod_open(None, data, size, ctypes.byref(self.handle))
        if result:
            raise Breach(f"the reader in C cannot open the file: {result}")

    def get_bytes(self, number: int, most: int) -> tuple[int, bytes | str]:
        """Return the result, and the bytes or the error."""
        found = Slice()
        result = self.library.devmod_get_bytes(
            self.handle, number, ctypes.c_uint64(most), ctypes.byref(found)
        )
        if result:
            return result, self.library.devmod_error(self.handle).decode()
        return 0, ctypes.string_at(found.data, found.size)

    def copy_bytes(self, number: int, size: int) -> tuple[int, bytes | str]:
        """Return the result of a copy into a buffer of a size, and the bytes or the error."""
        buffer = ctypes.create_string_buffer(size)
        result = self.library.devmod_copy_bytes(self.handle, number, buffer, ctypes.c_size_t(size))
        if result:
            return result, self.library.devmod_error(self.handle).decode()
        return 0, buffer.raw

    def find(self, name: bytes) -> tuple[int, list[int] | str]:
        """Return the result, and the numbers of the candidates or the error."""
        candidates = ctypes.POINTER(Candidate)()
        count = ctypes.c_size_t()
        result = self.library.devmod_find(
            self.handle, name, ctypes.byref(candidates), ctypes.byref(count)
        )
        if result:
            return result, self.library.devmod_error(self.handle).decode()
        return 0, [candidates[at].number for at in range(count.value)]

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.devmod_close(self.handle)


def _problem_of_modules(data: bytes) -> str:
    """Return what is wrong with the modules of a bundle for Python's reader; "" if it reads
    them.
    """
    try:
        for module in walk(devmod.loads(data)):
            if module.kind not in ("bundle", "_lib"):
                module.save_to_bytes()
            sources = getattr(module, "sources", None)
            if sources is not None:
                sources.data()
    except devmod.FormatError as error:
        return str(error)
    return ""


def compare_bundle(data: bytes) -> None:
    """Read a bundle with the bytes of its modules in both readers."""
    if _process() is None:
        return
    mine = index_problem(data)
    in_index = bool(mine)
    if not in_index:
        mine = _problem_of_modules(data)
    for options in dict.fromkeys([(), zstd()]):
        first, second, unsupported, theirs = ask(data, *options)
        if first != second:
            raise Breach(
                f"the reader in C: {first} for a file in memory, {second} by ranges; {theirs}"
            )
        if first == NOT_FOUND:
            raise Breach(f"the reader in C does not find what it looks for itself: {theirs}")
        # Python's problem may be in the compressed bytes.
        if mine and not in_index and not first and unsupported and not options:
            continue
        if "which a newer devmod reads" in mine and not first and unsupported:
            continue
        if bool(mine) != bool(first):
            raise Breach(
                f"Python: {mine[:300] or 'accepted'}; C {' '.join(options[:1])}: {theirs or 'accepted'}"
            )
