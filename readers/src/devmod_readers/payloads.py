"""The checks of payloads, one for each kind of core's. The kind's TargetSpec names it as `check`.

Each is called as ``check(fmt, data, functions)`` with one binary and the functions that it must
have. It raises an error for a binary that no device can use, and returns whether it can read the
format.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devmod.errors import FormatError, ToolchainNotFoundError, list_names
from devmod_readers.amdgpu import check_code_object, read_code_object
from devmod_readers.elf import ElfFile, dynamic_symbols, find_damage
from devmod_readers.metallib import read_metallib
from devmod_readers.nvidia import fatbin_members, index_cubin, read_ptx
from devmod_readers.offload import is_container, read_images
from devmod_readers.spirv import GL_COMPUTE, KERNEL, SpirvModule, read_module
from devmod_readers.wgsl import read_wgsl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod import FunctionInfo
    from devmod.backend import Binary

    Functions = Mapping[str, FunctionInfo]

__all__ = [
    "check_cuda",
    "check_hexagon",
    "check_metal",
    "check_names",
    "check_opencl",
    "check_rocm",
    "check_source",
    "check_vulkan",
    "check_webgpu",
]

_WORD = re.compile(r"[^\W\d]\w*")
#: The bytes of a Vulkan shader before its SPIR-V: a flag, and the number of words.
_SHADER_HEADER = 12


def check_names(kind: str, fmt: str, names: Iterable[str], functions: Functions) -> None:
    """Raise FormatError unless `names`, the kernels of a binary, have those of `functions`."""
    found = list(names)
    known = set(found)
    for name, info in functions.items():
        if info.name not in known:
            raise FormatError(
                f"the {kind} payload of format {fmt!r} has no kernel {info.name!r}, which its "
                f"fmap names; it has: {list_names(found)}. Compile it again",
                kind=kind,
                function=name,
            )


def check_source(kind: str, fmt: str, data: Binary, functions: Functions) -> bool:
    """Raise FormatError for a source in which the name of a function is no word.

    A source may also make a name of parts (``##``), and a compiler makes those of C++.
    """
    text = str(data, "utf-8")
    if "##" in text:
        return True
    words = set(_WORD.findall(text))
    for name, info in functions.items():
        if info.name not in words and not info.name.startswith("_Z"):
            raise FormatError(
                f"the {kind} source of format {fmt!r} does not have the word {info.name!r}, and "
                "its fmap names such a kernel. Compile it again",
                kind=kind,
                function=name,
            )
    return True


def check_cuda(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload of CUDA."""
    if fmt == "cuda":
        return check_source("cuda", fmt, data, functions)
    if fmt == "fatbin":
        return _check_fatbin(data, functions)

    if fmt == "ptx":
        names: Iterable[str] = read_ptx(str(data, "utf-8"))
    else:
        names = index_cubin(data)
    check_names("cuda", fmt, names, functions)
    return True


def _check_fatbin(data: Binary, functions: Functions) -> bool:
    names: list[str] = []
    for member in fatbin_members(data):
        try:
            if member.kind == "ptx":
                names += read_ptx(str(member.data, "utf-8"))
            elif member.kind == "cubin":
                names += index_cubin(member.data)
            else:
                return False
        except ToolchainNotFoundError:  # what decompresses it is not installed here
            return False
    check_names("cuda", "fatbin", dict.fromkeys(names), functions)
    return True


def check_rocm(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload of ROCm."""
    if fmt == "hip":
        return check_source("rocm", fmt, data, functions)

    images: list[Binary] = [data]
    if is_container(data):
        try:
            images = [each.data for each in read_images(data) if each.fmt == fmt]
        except ToolchainNotFoundError:
            return False

    names: list[str] = []
    for image in images:
        kernels = read_code_object(image)
        check_code_object(image, [each.symbol for each in kernels.values()])
        names += kernels
    check_names("rocm", fmt, dict.fromkeys(names), functions)
    return True


def check_vulkan(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a shader of Vulkan."""
    module = _read_spirv("vulkan shader", bytes(data)[_SHADER_HEADER:])
    names = [entry.name for entry in module.entries if entry.model == GL_COMPUTE]
    check_names("vulkan", fmt, names, functions)
    return True


def check_opencl(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload of OpenCL. Only a driver reads program binaries."""
    if fmt == "cl":
        return check_source("opencl", fmt, data, functions)
    if fmt != "il":
        return False
    module = _read_spirv("opencl payload", bytes(data))
    names = [entry.name for entry in module.entries if entry.model == KERNEL]
    check_names("opencl", fmt, names, functions)
    return True


def _read_spirv(subject: str, data: bytes) -> SpirvModule:
    try:
        return read_module(data)
    except FormatError as error:
        raise FormatError(f"the SPIR-V of the {subject} {error}") from None


def check_webgpu(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a shader of WebGPU."""
    shaders = read_wgsl(str(data, "utf-8"), "the webgpu shader")
    check_names("webgpu", fmt, shaders, functions)
    return True


def check_metal(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a shader of Metal."""
    if fmt == "metal":
        return check_source("metal", fmt, data, functions)
    check_names("metal", fmt, read_metallib(bytes(data)), functions)
    return True


def check_hexagon(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a shared object of Hexagon."""
    problem = find_damage(data)
    if problem:
        raise FormatError(f"the hexagon payload of format {fmt!r} is damaged: {problem}")
    wanted = [info.name for info in functions.values()]
    check_names("hexagon", fmt, dynamic_symbols(ElfFile(data), wanted), functions)
    return True
