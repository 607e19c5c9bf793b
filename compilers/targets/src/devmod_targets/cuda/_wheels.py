"""The folders and versions of NVIDIA's wheels: NVRTC and the headers of CUDA. No toolkit of the
system is searched.
"""

from __future__ import annotations

import glob
import os
import sys

from devmod.errors import not_installed
from devmod_targets._executables import package_folders
from devmod_targets._executables import version as version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: The distributions that contain the headers, and the part of their names in an origin.
HEADERS = {
    "cuda headers": "nvidia-cuda-runtime",
    "cccl": "nvidia-cuda-cccl",
    "crt": "nvidia-cuda-crt",
}


def missing(subject: str, distribution: str) -> str:
    """Return the sentences about a missing library of NVIDIA's wheels, with the command that
    installs it where it can be installed.
    """
    if sys.platform == "darwin":
        return f"{subject} is not installed. NVIDIA has wheels for Linux and Windows, none for macOS: compile on one of these"
    return not_installed(subject, distribution, "cuda", "nvidia")


def folders(major: int) -> tuple[str, ...]:
    """Return the folders of the wheels for one major version of CUDA."""
    own = [os.path.join(package, f"cu{major}") for package in package_folders("nvidia")]
    return tuple(filter(os.path.isdir, own))


def folder_of(program: str) -> str:
    """Return the folder of the newest wheels with a program, such as "bin/nvcc"; "" if it is not
    installed.
    """
    roots = []
    for package in package_folders("nvidia"):
        roots += glob.glob(os.path.join(glob.escape(package), "cu[0-9]*"))
    found = [root for root in roots if os.path.isfile(os.path.join(root, program))]
    return max(found, default="", key=lambda root: int("0" + os.path.basename(root)[2:]))


def include_folders(major: int) -> tuple[str, ...]:
    """Return the folders with headers: CUDA's own, then those of CCCL, which are a folder lower."""
    own = _subfolders(folders(major), "include")
    return (*own, *_subfolders(own, "cccl"))


def _subfolders(parents: Iterable[str], name: str) -> list[str]:
    """Return the folders of this name, those that exist."""
    return list(filter(os.path.isdir, (os.path.join(parent, name) for parent in parents)))


def library(major: int, name: str = "nvrtc") -> str:
    """Return the path of a library in its wheel; "" if the wheel is not installed."""
    for folder in folders(major):
        for pattern in (
            f"lib/lib{name}.so.{major}",
            f"bin/**/{name}*_{major}*_0.dll",
            f"bin/**/{name}64_{major}*_0.dll",
        ):
            paths = glob.glob(pattern, root_dir=glob.escape(folder), recursive=True)
            if paths:
                return os.path.join(folder, min(paths, key=len))
    return ""


def preload(path: str) -> None:
    """Load a library of a wheel, so that cuda-bindings uses it and searches no toolkit of the
    system.
    """
    import ctypes

    folder, name = os.path.split(path)
    # NVRTC opens the library of its built-in functions by name. That of CUDA 13.0 has no run path,
    # so it finds only a loaded one.
    for builtins in glob.glob(
        f"{name.partition('.so')[0]}-builtins.so.*", root_dir=glob.escape(folder)
    ):
        ctypes.CDLL(os.path.join(folder, builtins))
    ctypes.CDLL(path)


def load(name: str) -> Any:
    """Return a module of cuda-bindings, such as "nvfatbin", that uses the library of the wheel.

    Raises
    ------
    ImportError
        cuda-bindings or the wheel is not installed.
    OSError
        The library cannot be loaded.
    """
    from importlib import import_module

    path = library(int(str(import_module("cuda.bindings").__version__).partition(".")[0]), name)
    if not path:
        raise ImportError("the wheel is not installed")
    preload(path)
    return import_module(f"cuda.bindings.{name.lower()}")
