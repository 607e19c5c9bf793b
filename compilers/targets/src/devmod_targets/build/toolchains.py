"""The versions of everything that a compile runs, found without an import of a compiler and without
a process.

The exception is g++, which prints the folders of its headers. The version of a wheel is in the name
of its metadata folder. The version of a program of the system is the digest of its file and of its
libraries.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

import devmod
import devmod_readers
import devmod_targets
from devmod.backend import find_program
from devmod.plugins import CORE, find_spec, registered
from devmod_targets._executables import (
    SHADER_LIBRARIES,
    cache_for_build,
    file_digest,
    libraries_of,
    package_folders,
    tree_digest,
)
from devmod_targets._paths import below
from devmod_targets._text import header_files
from devmod_targets._toolchain import Toolchain, clang_files, clang_headers, find_toolchain
from devmod_targets.build.closure import SystemHeaders
from devmod_targets.build.matrix import suffix_of
from devmod_targets.build.options import Strings
from devmod_targets.build.plan import Job

#: A folder that does not exist, for the headers of devmod, which are not on the disk.
_NO_FOLDER = os.path.join(os.path.abspath(os.sep), "devmod.invalid")


def toolchain_of(job: Job) -> str:
    """Return the versions of what a job runs, as one text; "" if they are unknown: its result is
    then not cached.

    A compiler of another distribution may have a function ``toolchain_key(target, options)`` in its
    module: it returns such a text.
    """
    if _language_of(job) == "Triton":
        # The file of the job may import any package.
        packages = [f"{name} {version}" for name, version in sorted(_installed().items())]
        return "\n".join([*_own_versions(), sys.version, *packages])
    is_slang = _language_of(job) == "Slang"
    return _toolchain_of(job.kind, job.target, _toolchain_options(job.options), is_slang=is_slang)


def _language_of(job: Job) -> str:
    spec = find_spec(job.kind)
    name = job.language or suffix_of(job.source)
    if spec is None:
        return name
    return spec.languages.get(name, name)


def _clang_toolchain(job: Job) -> Toolchain | None:
    """Return the toolchain of a job whose source clang compiles; None for another job."""
    toolchain = find_toolchain(job.kind)
    if toolchain is None or toolchain.clang is None or _language_of(job) == "Triton":
        return None
    return toolchain


def system_headers(job: Job) -> SystemHeaders:
    """Return the headers of a job's compiler whose includes may find files in the user's
    folders.
    """
    toolchain = _clang_toolchain(job)
    if toolchain is None or toolchain.clang is None:
        return SystemHeaders()
    folder = os.path.join(_NO_FOLDER, job.kind)
    headers = header_files(toolchain.package)
    texts = {below(folder, name): text for name, text in headers.items()}
    folders = [folder]
    own = clang_headers(_toolchain_options(job.options))
    if own:
        folders.append(own)
    folders += toolchain.clang.folders()
    return SystemHeaders(tuple(folders), texts, toolchain.clang.first)


def knows_headers(job: Job) -> bool:
    """Return whether this machine has the headers of a job's compiler. Otherwise it is unknown
    which files they include.
    """
    if _clang_toolchain(job) is None:
        return True
    return bool(clang_headers(_toolchain_options(job.options)))


def is_embedded(job: Job) -> bool:
    """Return whether a job's compiler gets a text that contains the includes."""
    toolchain = find_toolchain(job.kind)
    return toolchain is not None and toolchain.is_embedded


def is_process(job: Job) -> bool:
    """Return whether a job's compiler runs in a process of its own."""
    toolchain = find_toolchain(job.kind)
    return toolchain is not None and bool(toolchain.programs)


def executes_source(job: Job) -> bool:
    """Return whether a job is in the language of Python files: its compile executes the source."""
    spec = find_spec(job.kind)
    return spec is not None and _language_of(job) == spec.languages.get("py")


def _toolchain_options(options: Sequence[str]) -> Strings:
    return tuple(
        option for option in options if option.startswith(("-toolchain=", "-device-libs="))
    )


@cache_for_build
def _toolchain_of(kind: str, target: str, options: Strings, *, is_slang: bool) -> str:
    parts = _own_versions().copy()
    toolchain = find_toolchain(kind)
    if toolchain is None:
        own = _plugin_toolchain(kind, target, options)
        return "\n".join([*parts, own]) if own else ""
    try:
        versions = toolchain.versions(target)
        files = toolchain.files(options)
    except Exception:  # noqa: BLE001 - as for `toolchain_key`
        return ""
    if versions is None:
        return ""

    claim = registered("devmod.targets").get(kind)
    if claim is not None and claim.distribution != CORE:
        parts.append(claim.provider)
    wheels = [*toolchain.wheels]
    if is_slang and "slangpy" not in wheels:
        wheels.append("slangpy")
    if wheels:
        installed = _installed()
        if "libclang" in wheels and "libclang" not in installed and package_folders("clang"):
            return ""  # the library of another package, whose version is unknown
        parts += [f"{name} {installed[name]}" for name in wheels if name in installed]
    parts += versions
    for path in [*_toolchain_files(toolchain, options), *files]:
        parts.append(f"{os.path.basename(path)} {file_digest(path)}")
    return "\n".join(parts)


def _toolchain_files(toolchain: Toolchain, options: Strings) -> list[str]:
    """Return the programs and the libraries that payloads depend on."""
    files = [path for path in map(find_program, toolchain.programs) if path]
    files += libraries_of(files, SHADER_LIBRARIES)
    if toolchain.clang is not None:
        files += clang_files(options)
    return files


def _plugin_toolchain(kind: str, target: str, options: Strings) -> str:
    """Return the versions for a kind that another distribution compiles; "" if its compiler has no
    function for them.
    """
    spec = find_spec(kind)
    claim = registered("devmod.targets").get(kind)
    if spec is None or claim is None or not spec.compiler:
        return ""
    try:
        function = getattr(import_module(spec.compiler.partition(":")[0]), "toolchain_key", None)
        if function is None:
            return ""
        key = function(target, options)
    except Exception:  # noqa: BLE001 - a job of that kind fails with the reason
        return ""
    if key and isinstance(key, str):
        return f"{claim.provider}\n{key}"
    return ""


@cache_for_build
def _own_versions() -> list[str]:
    """Return devmod's own distributions with their version, which all have. A development version
    has a digest of its files too.
    """
    result = []
    for name, module in (
        (CORE, devmod),
        ("devmod-readers", devmod_readers),
        ("devmod-targets", devmod_targets),
    ):
        text = f"{name} {devmod.__version__}"
        if ".dev" in devmod.__version__:
            text += " " + tree_digest(os.path.dirname(str(module.__file__)))
        result.append(text)
    return result


@cache_for_build
def _installed() -> dict[str, str]:
    """Return the version of each installed distribution, from the names of the metadata folders.
    The first one in sys.path is used.
    """
    result: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for each in names:
            if each.endswith(".dist-info"):
                name, _, version = each.removesuffix(".dist-info").rpartition("-")
                result.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return result
