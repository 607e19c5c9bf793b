"""The executables that compile: their libraries, and what is cached on the disk by the state of
files, such as digests and versions.
"""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from devmod.backend import DiskCache, open_regular

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

R = TypeVar("R")
#: The shared libraries of the executables that process shaders.
SHADER_LIBRARIES = r"lib(?:glslang|SPIRV|shaderc|dx).*\.(?:so|dylib)"
#: The longest step of the clock of a file system, that of FAT, in nanoseconds. Two changes within
#: one step give one state.
_TIME_STEP = 2_000_000_000
#: Texts by the state of files. Hashing a compiler takes longer than a build in which nothing
#: changed.
_TEXTS = DiskCache("build")
#: The functions whose results hold for one build.
_of_a_build: list[_lru_cache_wrapper[Any]] = []


def cache_for_build(function: Callable[..., R]) -> _lru_cache_wrapper[R]:
    """Cache the results of a function until `clear_caches`: the environment may change between two
    builds of one process.
    """
    result = cache(function)
    _of_a_build.append(result)
    return result


def clear_caches() -> None:
    """Clear what `cache_for_build` has cached."""
    for each in _of_a_build:
        each.cache_clear()


def state_of(path: str) -> tuple[int, int, int, int, int]:
    """Return what changes with the contents of a file: its size, its times, and its number in the
    file system.
    """
    return state_from_stat(os.stat(path))


def state_from_stat(about: os.stat_result) -> tuple[int, int, int, int, int]:
    """Return the same of what the system has returned about a file."""
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_dev, about.st_ino


def text_of_files(name: str, paths: Sequence[str], make: Callable[[], str]) -> str:
    """Return ``make()``, a text that depends on the contents of files alone. It is cached on the
    disk by the state of the files.

    An empty text is not cached.

    Parameters
    ----------
    name
        The name of the text.
    paths
        The paths of the files.
    make
        Returns the text.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    states = [state_of(path) for path in paths]
    lines = [" ".join((path, *map(str, state))) for path, state in zip(paths, states, strict=True)]
    key = _TEXTS.key("text", name, *lines)
    known = _TEXTS.read(key)
    if known is not None:
        return known.decode("utf-8", "replace")
    started = time.time_ns()
    result = make()
    if result and all(
        max(changed, changed_state) < started - _TIME_STEP
        for _, changed, changed_state, *_ in states
    ):
        _TEXTS.write(key, result.encode())
    return result


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file. An unchanged file is hashed once."""
    return files_digest([os.path.realpath(path)])


def files_digest(paths: Sequence[str], folder: str = "") -> str:
    """Return the SHA-256 of files, one after the other, each after its name in the folder."""

    def make() -> str:
        digest = sha256()
        for path in paths:
            digest.update(os.fsencode(f"\0{os.path.relpath(path, folder)}\0") if folder else b"")
            with open_regular(path) as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()

    return text_of_files(f"digest {folder}", paths, make)


def tree_digest(folder: str) -> str:
    """Return the SHA-256 of the files below a folder."""
    return files_digest(sorted(_files(folder)), folder)


def _files(folder: str, parents: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the files below a folder, also those below linked folders. A link to a folder that
    contains it adds nothing.
    """
    real = os.path.realpath(folder)
    if real in parents:
        return
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir():
                if each.name != "__pycache__":
                    yield from _files(each.path, parents | {real})
            elif each.is_file():
                yield each.path


def version_of(program: str, ask: Callable[[], str]) -> str:
    """Return ``ask()``, the version that a program prints; "" if it prints none.

    An unchanged program with unchanged libraries is asked once. A script is asked each time: the
    program that it runs may change without it.
    """
    path = os.path.realpath(program)
    with open(path, "rb") as file:
        if file.read(2) == b"#!":
            return ask()
    return text_of_files(f"version {program}", [path, *libraries_of([path], SHADER_LIBRARIES)], ask)


def libraries_of(executables: Iterable[str], names: str) -> list[str]:
    """Return the shared libraries that match a pattern, in the folders of libraries beside
    executables.
    """
    prefixes = dict.fromkeys(
        os.path.dirname(os.path.dirname(os.path.realpath(path))) for path in executables
    )
    result = set()
    for prefix in prefixes:
        result.update(libraries_in(prefix, names))
    return sorted(result)


@cache_for_build
def libraries_in(prefix: str, names: str) -> list[str]:
    """Return the shared libraries of a prefix such as ``/usr``. Cached: a build looks them up for
    several executables.
    """
    result = []
    matches = re.compile(names).match
    for folder in (
        f"{prefix}/lib",
        f"{prefix}/lib64",
        *glob.glob(f"{glob.escape(prefix)}/lib/*-linux-*"),
    ):
        if os.path.isdir(folder):
            found = filter(matches, os.listdir(folder))
            result += [os.path.realpath(os.path.join(folder, name)) for name in found]
    return [*filter(os.path.isfile, result)]


def package_folders(name: str) -> Sequence[str]:
    """Return the folders of an installed package, which is not imported; () if it is not
    installed.
    """
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is None:
        return ()
    return spec.submodule_search_locations or ()


@cache
def version(distribution: str) -> str:
    """Return the version of a wheel; "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version(distribution)
    except PackageNotFoundError:
        return ""


def library_folders(zig: str, processor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of the headers of C and those of C++ for a processor, such as "hexagon",
    in the folder of the wheel ziglang.
    """
    musl = tuple(
        os.path.join(zig, "lib", "libc", "include", each)
        for each in (f"{processor}-linux-musl", "generic-musl")
    )
    return musl, (os.path.join(zig, "lib", "libcxx", "include"),)
