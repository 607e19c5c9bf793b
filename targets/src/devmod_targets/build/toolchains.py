"""The versions of everything that a compile runs, found without an import of a compiler and without
a process.

The exception is g++, which prints the folders of its headers. The version of a wheel is in the name
of its metadata folder. The version of a program of the system is the digest of its file and of its
libraries.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module

import devmod
import devmod_readers
import devmod_targets
from devmod.backend import environment_text, find_program
from devmod.errors import DevmodError
from devmod.plugins import CORE, find_spec, registered
from devmod_targets._executables import (
    SHADER_LIBRARIES,
    file_digest,
    files_digest,
    libraries_in,
    libraries_of,
    library_folders,
    package_folders,
)
from devmod_targets._text import header_files
from devmod_targets.build.closure import SystemHeaders
from devmod_targets.build.matrix import suffix_of
from devmod_targets.build.plan import Job

_CLANG = ("libclang",)
_NVIDIA = (
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvcc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-cccl",
    "nvidia-cuda-crt",
    "nvidia-nvfatbin",
    "nvidia-nvjitlink",
    "nvidia-nvvm",
)
#: The wheels whose versions a kind's payloads depend on. Older wheels of NVIDIA have CUDA's version
#: in their names.
_WHEELS = {
    "cuda": (
        *_CLANG,
        "ziglang",
        *(name + suffix for name in _NVIDIA for suffix in ("", "-cu11", "-cu12", "-cu13")),
    ),
    "hexagon": (*_CLANG, "ziglang"),
    "metal": _CLANG,
    "opencl": (*_CLANG, "ziglang"),
    "rocm": (*_CLANG, "ziglang"),
    "vulkan": ("slangpy",),
    "webgpu": (),
}
#: The programs in PATH that a kind's payloads depend on.
PROGRAMS = {
    "vulkan": (
        "glslangValidator",
        "glslang",
        "glslc",
        "dxc",
        "spirv-opt",
        "spirv-val",
        "spirv-dis",
    ),
    "webgpu": ("naga",),
}
#: The shared libraries of clang.
_CLANG_LIBRARIES = r"lib(?:LLVM|clang-cpp|lld).*\.(?:so|dylib)"
#: The kinds that devmod-targets compiles with the clang of the wheel ziglang, of an option or of a
#: variable.
_OWN_CLANG = ("rocm", "hexagon")
#: The kinds whose compiler gets a text that contains the includes. A name in it leads to no file of
#: the user.
EMBEDDED = ("cuda", "metal", "vulkan", "webgpu")
#: The headers of devmod that clang includes before each source.
_FIRST = {"rocm": ("devmod_hip.h",)}
#: A folder that does not exist, for the headers of devmod, which are not on the disk.
_NO_FOLDER = os.path.join(os.path.abspath(os.sep), "devmod.invalid")
_DEVICE_LIBS = ("ocml.bc", "ockl.bc", "ocml.amdgcn.bc", "ockl.amdgcn.bc")


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


def system_headers(job: Job) -> SystemHeaders:
    """Return the headers of a job's compiler whose includes may find files in the user's
    folders.
    """
    if job.kind not in _OWN_CLANG or _language_of(job) == "Triton":
        return SystemHeaders()
    folder = os.path.join(_NO_FOLDER, job.kind)
    headers = header_files(f"devmod_targets.{job.kind}")
    texts = {os.path.join(folder, *name.split("/")): text for name, text in headers.items()}
    folders = [folder]
    own = _clang_headers(_toolchain_options(job.options))
    if own:
        folders.append(own)
    if job.kind == "hexagon":
        folders += _library_headers()
    return SystemHeaders(tuple(folders), texts, _FIRST.get(job.kind, ()))


def knows_headers(job: Job) -> bool:
    """Return whether this machine has the headers of a job's compiler. Otherwise it is unknown
    which files they include.
    """
    return (
        job.kind not in _OWN_CLANG
        or _language_of(job) == "Triton"
        or bool(_clang_headers(_toolchain_options(job.options)))
    )


def executes_source(job: Job) -> bool:
    """Return whether a job is in the language of Python files: its compile executes the source."""
    spec = find_spec(job.kind)
    return spec is not None and _language_of(job) == spec.languages.get("py")


def _toolchain_options(options: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        option for option in options if option.startswith(("-toolchain=", "-device-libs="))
    )


@cache
def _toolchain_of(kind: str, target: str, options: tuple[str, ...], *, is_slang: bool) -> str:
    parts = _own_versions().copy()
    if kind not in _WHEELS:
        own = _plugin_toolchain(kind, target, options)
        return "\n".join([*parts, own]) if own else ""
    if kind == "metal" and "metallib" in target:
        return ""  # the version of Xcode cannot be read without running it

    wheels = [*_WHEELS[kind]]
    if is_slang and "slangpy" not in wheels:
        wheels.append("slangpy")
    if wheels:
        installed = _installed()
        if "libclang" in wheels and "libclang" not in installed and package_folders("clang"):
            return ""  # the library of another package, whose version is unknown
        parts += [f"{name} {installed[name]}" for name in wheels if name in installed]
    if kind == "cuda":
        parts += _cuda_headers()
        if "-compiler=nvcc" in target.split():
            parts += _host_compiler()
    for path in _toolchain_files(kind, options):
        parts.append(f"{os.path.basename(path)} {file_digest(path)}")
    return "\n".join(parts)


def _cuda_headers() -> list[str]:
    """Return the digests of NVIDIA's headers. Its wheels have a folder for each version of CUDA."""
    result = []
    for folder in package_folders("nvidia"):
        for each in sorted(glob.glob(f"{glob.escape(folder)}/cu*/include")):
            result.append(f"headers {_tree_digest(each)}")
    return result


def _toolchain_files(kind: str, options: tuple[str, ...]) -> list[str]:
    """Return the programs and the libraries that a kind's payloads depend on."""
    files = [path for path in map(find_program, PROGRAMS.get(kind, ())) if path]
    files += libraries_of(files, SHADER_LIBRARIES)
    if kind == "webgpu":
        from devmod_targets.webgpu._naga import find_package

        package = find_package()
        if package:
            files.append(os.path.join(package, "dist", "wasm", "naga_bg.wasm"))
    if kind in _OWN_CLANG:
        files += _clang_files(_named_clang(options))
    if kind == "rocm":
        files += _device_libraries(options)
    return files


def _device_libraries(options: tuple[str, ...]) -> list[str]:
    folder = _option_value(options, "-device-libs=")
    folder = folder or environment_text("DEVMOD_ROCM_DEVICE_LIBS")
    if not folder:
        return []
    paths = [os.path.join(folder, name) for name in _DEVICE_LIBS]
    return [*filter(os.path.isfile, paths)]


def clear() -> None:
    """Clear the cached versions: the environment may change between two builds of one process."""
    for each in (
        _toolchain_of,
        _own_versions,
        _installed,
        _clang_headers,
        _library_headers,
        _host_compiler,
        libraries_in,
    ):
        each.cache_clear()


def _plugin_toolchain(kind: str, target: str, options: tuple[str, ...]) -> str:
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


def _option_value(options: Sequence[str], prefix: str) -> str:
    """Return the value of the last option with a prefix; "" without one."""
    for option in reversed(options):
        if option.startswith(prefix):
            return option.removeprefix(prefix)
    return ""


def _named_clang(options: Sequence[str]) -> str:
    """Return the path of the clang that the user names, or the name if there is none; "" for that
    of the wheel ziglang.
    """
    name = _option_value(options, "-toolchain=") or environment_text("DEVMOD_CLANG")
    return find_program(name) or name


def _clang_files(clang: str) -> list[str]:
    """Return the files of a clang that the user names, and of the linkers beside it."""
    if not os.path.isfile(clang):
        return []
    result = [clang]
    for folder in dict.fromkeys((os.path.dirname(clang), os.path.dirname(os.path.realpath(clang)))):
        for each in ("ld.lld", "lld"):
            file = find_program(os.path.join(folder, each))
            if file:
                result.append(file)
    return result + libraries_of(result, _CLANG_LIBRARIES)


@cache
def _clang_headers(options: tuple[str, ...]) -> str:
    """Return the folder of the headers of a job's clang; "" if it is unknown."""
    clang = _named_clang(options)
    if not clang:
        folders = [os.path.join(each, "lib", "include") for each in package_folders("ziglang")]
    else:
        clang = os.path.realpath(clang)
        number = re.search(r"-(\d+)", os.path.basename(clang))
        version = f"{number[1]}*" if number else "*"
        root = glob.escape(os.path.dirname(os.path.dirname(clang)))
        folders = glob.glob(os.path.join(root, "lib*", "clang", version, "include"))
    if len(folders) == 1 and os.path.isdir(folders[0]):
        return folders[0]
    return ""


@cache
def _library_headers() -> tuple[str, ...]:
    """Return the folders of the headers of C and C++ for Hexagon; () if they are not installed."""
    for folder in package_folders("ziglang"):
        of_c, of_cpp = library_folders(folder, "hexagon")
        return (*of_cpp, *of_c)
    return ()


@cache
def _host_compiler() -> list[str]:
    """Return the digests of the host's C++ compiler, which nvcc runs, and of its headers; [] if it
    is missing: the job has the error.
    """
    from devmod_targets.cuda.nvcc import host_compiler

    try:
        compiler = host_compiler()
    except DevmodError:
        return []
    folders = {os.path.realpath(folder) for folder in compiler.folders if os.path.isdir(folder)}
    name = os.path.basename(compiler.path)
    result = [f"{name} {compiler.version} {file_digest(compiler.path)}"]
    for folder in sorted(folders):
        is_inside = any(folder.startswith(os.path.join(other, "")) for other in folders)
        if not is_inside:
            result.append(f"host headers {_tree_digest(folder)}")
    return result


@cache
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
            text += " " + _tree_digest(os.path.dirname(str(module.__file__)))
        result.append(text)
    return result


def _tree_digest(folder: str) -> str:
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


@cache
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
