"""The versions of everything that a compile runs, found without an import of a compiler and without a process.

The version of a wheel is in the name of its metadata folder. The version of a program of the system is the digest of its file.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from hashlib import sha256
from importlib import import_module

from devmod.backend import DiskCache, environment_text, find_program, open_regular
from devmod.plugins import CORE, find_spec, registered
from devmod_targets.webgpu._naga import find_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devmod_targets.build.plan import Job

_CLANG = ("libclang",)
_NVIDIA = ("cuda-bindings", *(f"nvidia-{part}" for part in ("cuda-nvrtc", "cuda-runtime", "cuda-cccl", "cuda-crt", "nvfatbin", "nvvm")))
#: The wheels whose versions a kind's payloads depend on. Older wheels of NVIDIA have CUDA's version in their names.
_WHEELS = {
    "cuda": (*_CLANG, "ziglang", *(name + suffix for name in _NVIDIA for suffix in ("", "-cu11", "-cu12", "-cu13"))),
    "hexagon": (*_CLANG, "ziglang"),
    "metal": _CLANG,
    "opencl": _CLANG,
    "rocm": (*_CLANG, "ziglang"),
    "vulkan": (),
    "webgpu": (),
}
#: The programs in PATH that a kind's payloads depend on.
_PROGRAMS = {"vulkan": ("glslangValidator", "glslang", "glslc", "dxc", "spirv-opt", "spirv-val", "spirv-dis"), "webgpu": ("naga",)}
#: The kinds that devmod-targets compiles with the clang of an option or a variable.
_OWN_CLANG = ("rocm", "hexagon")
_DEVICE_LIBS = ("ocml.bc", "ockl.bc", "ocml.amdgcn.bc", "ockl.amdgcn.bc")
_DEVELOPMENT = re.compile(r"\.dev\d*")
#: Digests of files, by their state. Hashing a compiler takes longer than a build in which nothing changed.
_DIGESTS = DiskCache("build")


def toolchain_of(job: Job) -> str:
    """Return the versions of what a job runs, as one text; "" if they are unknown: its result is then not cached.

    A compiler of another distribution may have a function ``toolchain_key(target, options)`` in its module: it returns such a text.
    """
    return _toolchain_of(job.kind, job.target, _toolchain_options(job.options))


def _toolchain_options(options: Sequence[str]) -> tuple[str, ...]:
    return tuple(option for option in options if option.startswith(("-toolchain=", "-device-libs=")))


@cache
def _toolchain_of(kind: str, target: str, options: tuple[str, ...]) -> str:
    parts = [f"{name} {version}" for name, version in _own_versions()]
    if kind not in _WHEELS:
        own = _plugin_toolchain(kind, target, options)
        return "\n".join([*parts, own]) if own else ""
    if kind == "metal" and "metallib" in target:
        return ""  # the version of Xcode cannot be read without running it
    installed = _installed()
    parts += [f"{name} {installed[name]}" for name in _WHEELS[kind] if name in installed]
    parts += [f"{name} {file_digest(path)}" for name in _PROGRAMS.get(kind, ()) if (path := find_program(name))]
    if kind == "webgpu":
        package = find_package()
        parts += [f"naga-wasm {file_digest(os.path.join(package, 'dist', 'wasm', 'naga_bg.wasm'))}"] if package else []
    if kind in _OWN_CLANG:
        named = _option_value(options, "-toolchain=") or environment_text("DEVMOD_CLANG")
        parts += [f"{os.path.basename(path)} {file_digest(path)}" for path in _clang_files(named)]
    if kind == "rocm":
        folder = _option_value(options, "-device-libs=") or environment_text("DEVMOD_ROCM_DEVICE_LIBS")
        paths = [os.path.join(folder, name) for name in _DEVICE_LIBS] if folder else []
        parts += [f"{os.path.basename(path)} {file_digest(path)}" for path in paths if os.path.isfile(path)]
    return "\n".join(parts)


def clear() -> None:
    """Clear the cached versions: the environment may change between two builds of one process."""
    for each in (_toolchain_of, _own_versions, _installed):
        each.cache_clear()


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file. The digest is cached on the disk by the file's state, so an unchanged file is hashed once."""
    path = os.path.realpath(path)
    about = os.stat(path)
    return _cached_digest(("file", path, _state(about)), [path])


def _cached_digest(state: tuple[str, ...], paths: Sequence[str]) -> str:
    """Return the SHA-256 of files, one after the other. Another text in `state` means other contents."""
    name = _DIGESTS.key(*state)
    known = _DIGESTS.read(name)
    if known is not None:
        return known.decode("ascii", "replace")
    digest = sha256()
    for path in paths:
        with open_regular(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    result = digest.hexdigest()
    _DIGESTS.write(name, result.encode())
    return result


def _state(about: os.stat_result) -> str:
    return f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_dev} {about.st_ino}"


def _plugin_toolchain(kind: str, target: str, options: tuple[str, ...]) -> str:
    """Return the versions for a kind that another distribution compiles; "" if its compiler has no function for them."""
    spec = find_spec(kind)
    claim = registered("devmod.targets").get(kind)
    if spec is None or claim is None or not spec.compiler:
        return ""
    try:
        function = getattr(import_module(spec.compiler.partition(":")[0]), "toolchain_key", None)
        key = function(target, options) if function is not None else ""
    except Exception:  # noqa: BLE001 - a job of that kind fails with the reason
        return ""
    return f"{claim.provider}\n{key}" if key and isinstance(key, str) else ""


def _option_value(options: Sequence[str], prefix: str) -> str:
    """Return the value of the last option with a prefix; "" without one."""
    return next((option.removeprefix(prefix) for option in reversed(options) if option.startswith(prefix)), "")


def _clang_files(name: str) -> list[str]:
    """Return the files of the clang that the user names, and of the linkers beside it."""
    path = find_program(name) if name else ""
    if not path:
        return []
    result = [path]
    for folder in dict.fromkeys((os.path.dirname(path), os.path.dirname(os.path.realpath(path)))):
        result += [file for each in ("ld.lld", "lld") if (file := find_program(os.path.join(folder, each)))]
    return result


@cache
def _own_versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of devmod's own distributions. A development version has a digest of its files too."""
    import devmod
    import devmod_targets

    result = []
    for name, module in ((CORE, devmod), ("devmod-targets", devmod_targets)):
        version = devmod.__version__
        if _DEVELOPMENT.search(version):
            version += " " + _tree_digest(os.path.dirname(str(module.__file__)))
        result.append((name, version))
    return tuple(result)


def _tree_digest(folder: str) -> str:
    files = sorted(_files(folder))
    state = "\n".join(f"{path} {_state(os.stat(path))}" for path in files)
    return _cached_digest(("folder", folder, state), files)


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if each.name != "__pycache__":
                    yield from _files(each.path)
            elif each.is_file():
                yield each.path


@cache
def _installed() -> dict[str, str]:
    """Return the version of each installed distribution, from the names of the metadata folders. The first one in sys.path is used."""
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
