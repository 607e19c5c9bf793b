"""Code objects: their kernels and globals, and loading them at an address."""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass, field
from typing import Any

import msgpack  # type: ignore[import-untyped]
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from devmod_simulators.drivers.worker_process import Failure

INVALID_IMAGE = 200
NOT_SUPPORTED = 801
_METADATA = 32  # NT_AMDGPU_METADATA
_RELATIVE64 = 13  # R_AMDGPU_RELATIVE64
#: The triple before the processor: Triton writes "amdgpu11.00-amd-amdhsa-unknown-gfx1100".
_TRIPLE = re.compile(r"[^-]*-amd-amdhsa-[^-]*-")
#: Instructions are read in pieces of 16 bytes, also the last one.
_TAIL = 16
_PAGE = 4096


@dataclass
class Kernel:
    """A kernel as the metadata describes it."""

    name: str
    descriptor: int  # its offset in the loaded image
    metadata: dict[str, Any]
    arguments: list[tuple[str, int, int]] = field(default_factory=list)  # kind, offset and size

    def number(self, key: str) -> int:
        """Return a number of the metadata, 0 without one."""
        return int(self.metadata.get(key, 0))


class CodeObject:
    """A code object.

    Parameters
    ----------
    data
        The bytes of an ELF file for AMD's GPUs.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._elf = ELFFile(io.BytesIO(data))
            self._loads = [
                segment for segment in self._elf.iter_segments() if segment["p_type"] == "PT_LOAD"
            ]
            metadata = self._metadata()
            symbols: Any = self._elf.get_section_by_name(".dynsym")
            self.symbols = {each.name: each for each in symbols.iter_symbols()} if symbols else {}
        except (ELFError, ValueError, KeyError, AttributeError, UnicodeDecodeError) as error:
            raise Failure(INVALID_IMAGE, f"the code object cannot be read: {error}") from error
        self.target = _TRIPLE.sub("", str(metadata.get("amdhsa.target", "")), count=1)
        end = max((segment["p_vaddr"] + segment["p_memsz"] for segment in self._loads), default=0)
        self.size = -(-(end + _TAIL) // _PAGE) * _PAGE
        self.kernels = [self._kernel(each) for each in metadata.get("amdhsa.kernels", ())]
        self.globals = [
            (name, symbol["st_value"], symbol["st_size"])
            for name, symbol in self.symbols.items()
            if symbol["st_info"]["type"] == "STT_OBJECT"
            and not name.endswith(".kd")
            and symbol["st_shndx"] != "SHN_UNDEF"
        ]

    def _metadata(self) -> dict[str, Any]:
        notes: Any = self._elf.iter_segments("PT_NOTE")
        for segment in notes:
            for note in segment.iter_notes():
                if note["n_name"] == "AMDGPU" and note["n_type"] in {
                    _METADATA,
                    "NT_AMDGPU_METADATA",
                }:
                    return dict(msgpack.unpackb(_description(note)))
        raise ValueError("it has no note with AMD's metadata")

    def _kernel(self, metadata: dict[str, Any]) -> Kernel:
        symbol = self.symbols.get(str(metadata[".symbol"]))
        if symbol is None:
            raise Failure(INVALID_IMAGE, f"the code object has no symbol {metadata['.symbol']}")
        kernel = Kernel(str(metadata[".name"]), symbol["st_value"], metadata)
        for argument in metadata.get(".args", ()):
            kind = str(argument[".value_kind"])
            offset = int(argument[".offset"])
            size = int(argument[".size"])
            if offset + size > kernel.number(".kernarg_segment_size"):
                raise Failure(
                    INVALID_IMAGE, f"{kernel.name}: an argument lies behind the end of the buffer"
                )
            kernel.arguments.append((kind, offset, size))
        return kernel

    def load(self, image: memoryview, base: int) -> None:
        """Write the segments to `image`, which is at the address `base`, and relocate them."""
        image[:] = bytes(len(image))
        for segment in self._loads:
            data = segment.data()
            image[segment["p_vaddr"] : segment["p_vaddr"] + len(data)] = data
        tables: Any = self._elf.iter_sections("SHT_RELA")
        for section in tables:
            for relocation in section.iter_relocations():
                if relocation["r_info_type"] != _RELATIVE64:
                    raise Failure(
                        NOT_SUPPORTED,
                        f"the relocation {relocation['r_info_type']} is not supported",
                    )
                struct.pack_into("<Q", image, relocation["r_offset"], base + relocation["r_addend"])

    def code_ranges(self) -> list[tuple[int, int]]:
        """Return the places of machine code in the image: offset and size."""
        return [(each["p_vaddr"], each["p_filesz"]) for each in self._loads if each["p_flags"] & 1]


def _description(note: Any) -> bytes:
    data = note["n_desc"]
    return data if isinstance(data, bytes) else data.encode("latin-1")
