"""The stand-in CUDA runtimes: what they export, and errors."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from devmod_simulators.drivers.library import StandinLibrary

pytestmark = pytest.mark.row("R55")


def real_library(library: StandinLibrary) -> Path:
    """Return the path of NVIDIA's library of the same soname."""
    suffix = "-cu12" if library.soname.endswith("12") else ""
    for file in metadata.files(f"nvidia-cuda-runtime{suffix}") or ():
        if file.name == library.soname:
            return Path(str(file.locate()))
    pytest.skip(f"{library.soname} is not in NVIDIA's wheel")


def exported(path: Path) -> dict[str, str]:
    """Return the exported symbols of a shared library with their version nodes."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        numbers = elf.get_section_by_name(".gnu.version")
        nodes = {
            number["vd_ndx"]: next(names).name
            for number, names in elf.get_section_by_name(".gnu.version_d").iter_versions()
        }
        return {
            symbol.name: nodes[numbers.get_symbol(index)["ndx"]]
            for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols())
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name
        }


def test_the_symbols_and_their_versions_are_those_of_nvidias_library(
    library: StandinLibrary,
) -> None:
    symbols = exported(real_library(library))
    assert len(symbols) > 430
    assert exported(library.build()) == symbols
