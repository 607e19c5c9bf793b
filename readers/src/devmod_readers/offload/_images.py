"""The images of a container of device code.

- NVIDIA's fatbins (nvcc, fatbinary, nvfatbin), with their PTX and cubins;
- LLVM's OffloadBinary, and clang's offload bundles, plain and compressed (hipcc writes them, also under the name ``.hsaco``);
- AMD's archives of ROCm's libraries (``.kpack``);
- 64-bit ELF files of a host with such contents: objects, libraries and programs;
- single images: PTX, a cubin, an AMD code object.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from devmod.backend import detect_form, open_regular
from devmod.errors import ArgumentError, FormatError
from devmod_readers.elf import NO_BITS, ElfFile
from devmod_readers.nvidia import fatbin_members
from devmod_readers.offload import _containers, _kpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer


_CUDA, _AMDGPU = 190, 224
_MAX_IMAGES, _MAX_DEPTH = 4096, 8
#: The reader of each container, by its magic.
_READERS = (*_containers.READERS, (_kpack.MAGIC, _kpack.read_kpack))


class OffloadImage(NamedTuple):
    """One image of a container.

    Attributes
    ----------
    kind, fmt
        The kind of module that it is, and the format; "" for an image that devmod does not run, such as LLVM bitcode.
    name
        Its target in the container, such as "hipv4-amdgcn-amd-amdhsa--gfx1100"; "" if the container has none.
    data
        The bytes.
    """

    kind: str
    fmt: str
    name: str
    data: memoryview


def read_images(data: Buffer | str | os.PathLike[str]) -> list[OffloadImage]:
    """Return the images of a container in their order. Containers inside a container are taken apart too.

    Parameters
    ----------
    data
        The container, or the path of its file.

    Raises
    ------
    FormatError
        The container is damaged.
    ToolchainNotFoundError
        The container is compressed with zstd, and Python has no decompressor.
    ArgumentError
        `data` is neither a buffer nor a path.
    OSError
        The file cannot be read.
    """
    if isinstance(data, (str, os.PathLike)):
        with open_regular(data) as file:
            view = memoryview(file.read())
    else:
        try:
            view = memoryview(data).cast("B")
        except TypeError:
            raise ArgumentError(f"a container is bytes, another buffer or a path; got {type(data).__name__}", argument="data") from None
    images: list[OffloadImage] = []
    for image in _expand("", view, 0, _containers.Limits(len(view))):
        images.append(image)
        if len(images) > _MAX_IMAGES:
            raise FormatError(f"the container has more than {_MAX_IMAGES} images")
    return images


def is_container(data: bytes | memoryview) -> bool:
    """Return whether the bytes begin with the magic of a container of several images. A CUDA fatbin and a host's ELF file do not count."""
    return any(bytes(data[: len(magic)]) == magic for magic, _ in _READERS)


def _expand(name: str, view: memoryview, depth: int, limits: _containers.Limits) -> Iterator[OffloadImage]:
    """Yield the images in a container, or the image itself."""
    if depth:
        limits.enclose(len(view))
    if depth > _MAX_DEPTH:
        raise FormatError(f"the container is invalid: more than {_MAX_DEPTH} containers enclose an image")
    if not len(view):  # the host's entry of a bundle
        return
    reader = next((reader for magic, reader in _READERS if bytes(view[: len(magic)]) == magic), None)
    form = "" if reader is not None else detect_form(view)
    if reader is not None:
        yield from _expand_all(name, view, depth, limits)
    elif form == "fatbin":
        for member in fatbin_members(view):
            if member.compression:
                limits.unpack(member.size, "the CUDA fatbin")
            known = member.kind in ("ptx", "cubin")
            yield OffloadImage("cuda" if known else "", member.kind if known else "", member.arch, memoryview(member.data))
    elif form == "elf":
        machine = int.from_bytes(view[18:20], "little")
        if machine == _CUDA:
            yield OffloadImage("cuda", "cubin", name, view)
        elif machine == _AMDGPU:
            yield OffloadImage("rocm", "hsaco", name, view)
        else:
            yield from _expand_host(view, depth, limits)
    elif form == "text" and b".version" in bytes(view[:65536]) and b".target" in bytes(view[:65536]):
        yield OffloadImage("cuda", "ptx", name, view)
    elif depth:
        yield OffloadImage("", "", name, view)
    else:
        raise FormatError(
            "the container is not supported: expected a CUDA fatbin, an offload bundle, an OffloadBinary, a kpack archive, PTX, or an ELF "
            f"file, got {bytes(view[:16])!r} at its start"
        )


def _expand_all(name: str, view: memoryview, depth: int, limits: _containers.Limits) -> Iterator[OffloadImage]:
    """Yield the images in containers that follow each other, with zeros between them."""
    at = 0
    while at < len(view):
        reader = next((reader for magic, reader in _READERS if bytes(view[at : at + len(magic)]) == magic), None)
        if reader is None:
            raise FormatError(f"the container is invalid: expected the magic of a container at byte {at}, got {bytes(view[at : at + 8])!r}")
        entries, end = reader(view, at, limits)
        for entry, data in entries:
            if not entry.startswith("host-"):
                yield from _expand(entry or name, data, depth + 1, limits)
        at = _containers.skip_zeros(view, end)


def _expand_host(view: memoryview, depth: int, limits: _containers.Limits) -> Iterator[OffloadImage]:
    empty = True
    for section, data in device_sections(view):
        empty = False
        yield from _expand(section, data, depth + 1, limits)
    if empty:
        raise FormatError("the host's ELF file has no device code: expected a section .nv_fatbin, .hip_fatbin or .llvm.offloading")


# -- The sections of a host's ELF file (an object, a library or a program) in which compilers put device code.


#: NVIDIA's fatbins, of a whole program and of objects to link; HIP's bundles; LLVM's OffloadBinaries.
DEVICE_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin", b".hip_fatbin", b".llvm.offloading")


def device_sections(view: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield the names and the contents of the sections with device code.

    Raises
    ------
    FormatError
        The file is not a 64-bit little-endian ELF file, or is damaged.
    """
    if len(view) < 64 or view[4] != 2 or view[5] != 1:
        raise FormatError("the host's file is not supported: expected a 64-bit little-endian ELF file")
    longest = max(map(len, DEVICE_SECTIONS)) + 1
    total = 0
    try:
        tables = ElfFile(view)
        names = tables.names()
        for number, (name, kind, *_) in enumerate(tables.sections()):
            data = tables.contents(number)
            text = bytes(names[name : name + longest]).partition(b"\0")[0]
            if text in DEVICE_SECTIONS and kind != NO_BITS:
                total += len(data)
                if total > len(view):
                    raise ValueError("its sections overlap")
                yield text.decode(), data
    except ValueError as problem:
        raise FormatError(f"the host's ELF file is damaged: {problem}") from None
