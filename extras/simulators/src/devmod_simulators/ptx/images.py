"""Images of modules: the member of a fatbin that a device takes, and the header of PTX."""

from __future__ import annotations

import re

from devmod.errors import FormatError, ToolchainNotFoundError
from devmod.targets.cuda.architecture import architecture, rank
from devmod_readers.nvidia import FATBIN_MAGIC, FatbinMember, fatbin_parts
from devmod_simulators.ptx.errors import PtxError


def choose(image: bytes, arch: int, takes_cubins: bool) -> bytes:
    """Return an image; of a fatbin, the best member for a device."""
    if int.from_bytes(image[:4], "little") != FATBIN_MAGIC:
        return image
    try:
        return _best_member(image, arch, takes_cubins)
    except FormatError as error:
        raise PtxError("CUDA_ERROR_INVALID_IMAGE", str(error)) from error
    except ToolchainNotFoundError as error:
        raise PtxError("CUDA_ERROR_NOT_SUPPORTED", str(error)) from error


def _best_member(data: bytes, arch: int, takes_cubins: bool) -> bytes:
    """Return the best member of a fatbin. A program of nvlink has several fatbins, and the PTX of
    all is one text; one without PTX is of NVIDIA's library for device code, whose functions the
    driver has.
    """

    def rank_of(member: FatbinMember) -> int:
        if member.kind != "ptx" and not takes_cubins:
            return 0
        return rank(member.header_arch, f"sm_{arch}") or 0

    images = []
    names = []
    for members in fatbin_parts(data):
        names += [member.header_arch for member in members]
        best = max(members, key=rank_of, default=None)
        if best and rank_of(best):
            images.append(best.data)
    if images:
        return b"\n".join(images)
    raise PtxError(
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        f"the program has no PTX that the simulated GPU, sm_{arch}, takes: its fatbin has {', '.join(names) or 'nothing'}. "
        f"Build it below `devmod simulate`, or with -gencode arch=compute_{arch},code=compute_{arch} of nvcc "
        f"(CMake: -DCMAKE_CUDA_ARCHITECTURES={arch})",
    )


def check_header(ptx: str, arch: int, newest: int) -> None:
    """Raise an error if PTX is not for a device, or newer than that of the driver, whose number has
    two digits.
    """
    variant, _, version = architecture("ptx", ptx.encode()).partition(":ptx")
    if not variant:
        raise PtxError(
            "CUDA_ERROR_INVALID_PTX", "the text has no .version and .target: it is not PTX"
        )
    major, minor = map(int, version.split("."))
    if major * 10 + minor > newest:
        line = ptx.count("\n", 0, ptx.index(".version")) + 1
        raise PtxError(
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            f"ptxas application ptx input, line {line}; fatal   : Unsupported .version {version}; current version is "
            f"'{newest // 10}.{newest % 10}'\n",
        )
    if rank(variant, f"sm_{arch}") is None:
        name = "CUDA_ERROR_NO_BINARY_FOR_GPU"
        if variant[-1].isdigit():
            name = "CUDA_ERROR_INVALID_PTX"
        target = variant.replace("compute", "sm")
        raise PtxError(name, f"the PTX is for {target}, the device is sm_{arch}")
    if not re.search(r"\.address_size\s+64\b", ptx):
        raise PtxError("CUDA_ERROR_INVALID_PTX", "expected .address_size 64")
