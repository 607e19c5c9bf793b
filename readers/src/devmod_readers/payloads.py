"""The checks of payloads of core's kinds. A kind's TargetSpec names its own as `check`.

A check is called as ``check(fmt, data, functions)`` with one binary and the functions that it must
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
from devmod_readers.spirv import GL_COMPUTE, KERNEL, read_module
from devmod_readers.wgsl import read_wgsl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from devmod import FunctionInfo
    from devmod.backend import Binary

    Functions = Mapping[str, FunctionInfo]

__all__ = ["check", "check_hexagon", "check_names", "check_source"]

_WORD = re.compile(r"[^\W\d]\w*")
#: The bytes of a Vulkan shader before its SPIR-V: a flag, and the number of words.
_SHADER_HEADER = 12


def check_names(kind: str, fmt: str, names: Iterable[str], functions: Functions) -> None:
    """Raise FormatError unless `names`, the kernels of a binary, have those of `functions`."""
    known = dict.fromkeys(names)
    for name, info in functions.items():
        if info.name not in known:
            raise FormatError(
                f"the {kind} payload of format {fmt!r} has no kernel {info.name!r}, which its "
                f"fmap names; it has: {list_names(known)}. Compile it again",
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


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload of one of core's kinds."""
    if fmt in _SOURCES:
        return check_source(_SOURCES[fmt], fmt, data, functions)
    if fmt not in _READERS:
        return False
    kind, read = _READERS[fmt]
    try:
        names = read(data)
    except ToolchainNotFoundError:  # what decompresses it is not installed here
        return False
    if names is None:
        return False
    check_names(kind, fmt, names, functions)
    return True


def check_hexagon(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a shared object of Hexagon."""
    problem = find_damage(data)
    if problem:
        raise FormatError(f"the hexagon payload of format {fmt!r} is damaged: {problem}")
    wanted = [info.name for info in functions.values()]
    check_names("hexagon", fmt, dynamic_symbols(ElfFile(data), wanted), functions)
    return True


def _fatbin_names(data: Binary) -> list[str] | None:
    names: list[str] = []
    for member in fatbin_members(data):
        if member.kind not in ("ptx", "cubin"):
            return None
        _, read = _READERS[member.kind]
        names += read(member.data) or ()
    return names


def _hsaco_names(data: Binary) -> list[str]:
    images: list[Binary] = [data]
    if is_container(data):
        images = [each.data for each in read_images(data) if each.fmt == "hsaco"]
    names: list[str] = []
    for image in images:
        kernels = read_code_object(image)
        check_code_object(image, [each.symbol for each in kernels.values()])
        names += kernels
    return names


def _spirv_names(subject: str, data: Binary, model: int) -> list[str]:
    try:
        module = read_module(bytes(data))
    except FormatError as error:
        raise FormatError(f"the SPIR-V of the {subject} {error}") from None
    return [entry.name for entry in module.entries if entry.model == model]


#: The kind of a format of sources.
_SOURCES = {"cuda": "cuda", "hip": "rocm", "cl": "opencl", "metal": "metal"}
#: The kind of a format, and what returns the kernels of a binary; None for one that it cannot read.
#: Only a driver reads other formats.
_READERS: dict[str, tuple[str, Callable[[Binary], Iterable[str] | None]]] = {
    "ptx": ("cuda", lambda data: read_ptx(str(data, "utf-8"))),
    "cubin": ("cuda", index_cubin),
    "fatbin": ("cuda", _fatbin_names),
    "hsaco": ("rocm", _hsaco_names),
    "spv": (
        "vulkan",
        lambda data: _spirv_names("vulkan shader", data[_SHADER_HEADER:], GL_COMPUTE),
    ),
    "il": ("opencl", lambda data: _spirv_names("opencl payload", data, KERNEL)),
    "wgsl": ("webgpu", lambda data: read_wgsl(str(data, "utf-8"), "the webgpu shader")),
    "metallib": ("metal", lambda data: read_metallib(bytes(data))),
}
