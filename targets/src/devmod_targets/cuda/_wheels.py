"""The folders and versions of NVIDIA's wheels: NVRTC and the headers of CUDA. No toolkit of the system is searched."""

from __future__ import annotations

import os
import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The distributions that contain the headers, and the part of their names in an origin.
HEADERS = {"runtime": "nvidia-cuda-runtime", "cccl": "nvidia-cuda-cccl", "crt": "nvidia-cuda-crt"}
_SUFFIX = re.compile(r"cu(\d+)")
#: The folders of the wheels for CUDA 12 and older, one for each distribution.
_OLD_FOLDERS = ("cuda_nvrtc", "cuda_runtime", "cuda_cccl", "cuda_nvcc")


def _packages() -> Iterator[str]:
    """Yield the folders of the namespace package ``nvidia``."""
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    yield from (spec.submodule_search_locations or ()) if spec else ()


@cache
def folders(major: int) -> tuple[str, ...]:
    """Return the folders of the wheels for one major version of CUDA."""
    names = [f"cu{major}"] if major >= 13 else list(_OLD_FOLDERS)
    found = [os.path.join(package, name) for package in _packages() for name in names]
    return tuple(folder for folder in found if os.path.isdir(folder))


@cache
def include_folders(major: int) -> tuple[str, ...]:
    """Return the folders with headers: CUDA's own, then those of CCCL, which are a folder lower."""
    own = [path for folder in folders(major) if os.path.isdir(path := os.path.join(folder, "include"))]
    cccl = [path for folder in own if os.path.isdir(path := os.path.join(folder, "cccl"))]
    return (*own, *cccl)


def library(major: int) -> str:
    """Return the path of NVRTC in its wheel; "" if the wheel is not installed."""
    import glob

    for folder in folders(major):
        for pattern in (f"lib/libnvrtc.so.{major}", f"bin/**/nvrtc64_{major}*_0.dll"):
            paths = glob.glob(pattern, root_dir=glob.escape(folder), recursive=True)
            if paths:
                return os.path.join(folder, min(paths, key=len))
    return ""


@cache
def version(distribution: str, major: int) -> str:
    """Return the version of a wheel; "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    for name in (distribution, f"{distribution}-cu{major}"):
        try:
            return installed_version(name)
        except PackageNotFoundError:
            continue
    return ""
