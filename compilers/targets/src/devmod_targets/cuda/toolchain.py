"""What the payloads of CUDA depend on, and its smallest kernels."""

from __future__ import annotations

import glob
import os
from itertools import product

from devmod.errors import DevmodError
from devmod_targets._executables import cache_for_build, file_digest, package_folders, tree_digest
from devmod_targets._toolchain import SmallKernel, Toolchain

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
#: Older wheels of NVIDIA have CUDA's version in their names.
_VERSIONS = ("", "-cu11", "-cu12", "-cu13")


def _versions(target: str) -> list[str]:
    """Return the digests of NVIDIA's headers. Its wheels have a folder for each version of CUDA."""
    result = []
    for folder in package_folders("nvidia"):
        for each in sorted(glob.glob(f"{glob.escape(folder)}/cu*/include")):
            result.append(f"headers {tree_digest(each)}")
    if "-compiler=nvcc" in target.split():
        result += _host_compiler()
    return result


@cache_for_build
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
            result.append(f"host headers {tree_digest(folder)}")
    return result


TOOLCHAIN = Toolchain(
    __package__,
    SmallKernel("small_kernel.cu", "-arch=compute_80"),
    SmallKernel("small_kernel.ptx"),
    entries={"cu": "__global__"},
    ambiguous=("ll", "bc"),
    declared=("ptx", "cubin", "fatbin", "py"),
    wheels=("libclang", "ziglang", *map("".join, product(_NVIDIA, _VERSIONS))),
    versions=_versions,
    subgroup=32,
    has_shared_memory=True,
    is_embedded=True,
)
