"""Cubins as PTX whose kernels do nothing: they are described, and not executed."""

from __future__ import annotations

from collections.abc import Iterator

from devmod.errors import FormatError
from devmod.targets.cuda.architecture import architecture, rank
from devmod_readers.elf import ElfFile
from devmod_readers.nvidia import read_cubin
from devmod_simulators.ptx.errors import PtxError

#: The type of a section of symbols, the type of a symbol that is a variable, and the sections with
#: variables.
_SYMBOLS = 2
_OBJECT = 1
_VARIABLES = (b".nv.constant", b".nv.global")


def as_ptx(cubin: bytes, arch: int, is_taken: bool) -> tuple[str, str]:
    """Return the number of a cubin's architecture, and PTX with its kernels and variables. Raise an
    error for a device of another architecture, and if none is taken.
    """
    variant = architecture("cubin", cubin)
    number = variant.removeprefix("sm_").rstrip("a")
    if not is_taken:
        raise PtxError(
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            f"the simulated GPU executes PTX, and this is a cubin for sm_{number}. Compile for compute_{number} (NVRTC: "
            f"-arch=compute_{number}; nvcc: -gencode arch=compute_{number},code=compute_{number}). With `devmod simulate`, "
            "cuda.core, numba-cuda, pycuda and Triton compile to PTX",
        )
    if rank(variant, f"sm_{arch}") is None:
        raise PtxError("CUDA_ERROR_NO_BINARY_FOR_GPU", "")
    try:
        return number, "\n".join(_statements(cubin))
    except (FormatError, ValueError, IndexError) as error:
        raise PtxError("CUDA_ERROR_INVALID_IMAGE", "") from error


def _statements(cubin: bytes) -> Iterator[str]:
    yield ".version 8.0\n.target sm_90\n.address_size 64"
    for kernel in read_cubin(cubin).values():
        params = []
        for number, place in enumerate(kernel.params or ()):
            align = place.offset & -place.offset or 16
            params.append(f".param .align {align} .b8 p{number}[{place.size}]")
        limits = f".maxntid {kernel.max_threads}" if kernel.max_threads else ""
        if kernel.block:
            limits += f".reqntid {str(kernel.block)[1:-1]}"
        yield f".visible .entry {kernel.name}({', '.join(params)}) {limits} {{ ret; }}"
    for name, size, value in _variables(ElfFile(cubin)):
        first = f" = {{{', '.join(map(str, value))}}}" if value else ""
        yield f".visible .global .align 16 .b8 {name}[{size}]{first};"


def _variables(elf: ElfFile) -> Iterator[tuple[str, int, bytes]]:
    """Iterate over the variables of a cubin: name, size, and the first bytes."""
    names = bytes(elf.names())
    sections = list(elf.sections())
    for number, (_, kind, _, _, link, _, _) in enumerate(sections):
        if kind != _SYMBOLS:
            continue
        texts = bytes(elf.contents(link))
        for name, info, place, address, size in elf.symbols(elf.contents(number)):
            if info & 15 == _OBJECT and names.startswith(_VARIABLES, sections[place][0]):
                label = texts[name:].partition(b"\0")[0].decode()
                yield label, size, bytes(elf.contents(place)[address : address + size])
