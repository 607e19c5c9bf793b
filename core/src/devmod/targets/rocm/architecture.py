"""The variant of a ROCm code object, read from its bytes (R40), and its rank for a device.

Variants are AMD's target IDs: ``gfx1030``, ``gfx90a:sramecc+:xnack-``, ``gfx11-generic``; for a
bundle of clang's offload bundler, those of its entries, joined by commas. A feature that is not
named may be on or off. The ELF flags have the processor and the features: two bits in code object
version 3, four states each from version 4 on. Objects of version 2 have the processor in notes of
another form; their variant is "".

The architecture of a device is its complete target ID. A variant runs on the same processor, or on
the processors of a generic one, if the device has all features of the variant in the same state.
"""

from __future__ import annotations

from devmod._util.elf import AMDGPU, elf_header, read_uint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The processor's number in the ELF flags (EF_AMDGPU_MACH) to its name, as LLVM's AMDGPU usage
#: guide lists them.
_FROM_20 = "600 601 700 701 702 703 704 - 801 802 803 810 900 902 904 906 908 909 90c 1010 1011 1012 1030 1031 1032 1033"
_FROM_3A = "602 705 805 1035 1034 90a 940 1100 1013 1150 1103 1036 1101 1102 1200 1250 1151 941 942 - 1201 950"
# Where to change: an architecture of devices
#   here: ROCm: `core/src/devmod/targets/rocm/architecture.py` (`_MACH`, `_GENERIC`). Hexagon:
#     `compilers/targets/src/devmod_targets/hexagon/compile.py` (`ARCHS`);
#     `plugins/devmod-hexagon/src/devmod_hexagon/_emulator.py` (`_ARCHS`), if the emulator runs it.
#     Vulkan and SPIR-V: `compilers/targets/src/devmod_targets/vulkan/compile.py` (`_ENVIRONMENTS`).
#     CUDA's have no list
#   tests: `core/tests/test_architecture.py`, `compilers/targets/tests/test_target_options.py`
_MACH = dict(enumerate(_FROM_20.split(), 0x20)) | dict(enumerate(_FROM_3A.split(), 0x3A))
_MACH |= {
    0x50: "1310",
    0x51: "9-generic",
    0x52: "10-1-generic",
    0x53: "10-3-generic",
    0x54: "11-generic",
    0x55: "1152",
    0x58: "1153",
}
_MACH |= {
    0x59: "12-generic",
    0x5A: "1251",
    0x5B: "12-5-generic",
    0x5C: "1172",
    0x5D: "1170",
    0x5E: "1171",
    0x5F: "9-4-generic",
}

#: The processors of each generic processor.
_GENERIC = {
    "gfx9-generic": "gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c",
    "gfx9-4-generic": "gfx940 gfx941 gfx942 gfx950",
    "gfx10-1-generic": "gfx1010 gfx1011 gfx1012 gfx1013",
    "gfx10-3-generic": "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036",
    "gfx11-generic": "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153",
    "gfx12-generic": "gfx1200 gfx1201",
    "gfx12-5-generic": "gfx1250 gfx1251",
}
_BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_MAX_ENTRIES = 256


def architecture(fmt: str, code: bytes | memoryview) -> str:
    """Return the variant of a ROCm payload; "" for source, and if it cannot be read. It never
    raises.
    """
    if fmt != "hsaco":
        return ""
    if bytes(code[: len(_BUNDLE_MAGIC)]) == _BUNDLE_MAGIC:
        return _bundle(code)
    header = elf_header(code)
    if header is None or header.machine != AMDGPU:
        return ""
    name = _MACH.get(header.flags & 0xFF, "-")
    if name == "-" or header.osabi != 64 or header.abi_version < 1:
        return ""
    return ":".join([f"gfx{name}", *_features(header.flags, header.abi_version)])


def _features(flags: int, abi_version: int) -> Iterator[str]:
    """Yield the features in the ELF flags, with their states."""
    if abi_version == 1:
        if flags >> 9 & 1:
            yield "sramecc+"
        if flags >> 8 & 1:
            yield "xnack+"
        return
    for feature, state in (("sramecc", flags >> 10 & 3), ("xnack", flags >> 8 & 3)):
        if state == 2:
            yield f"{feature}-"
        elif state == 3:
            yield f"{feature}+"


def _bundle(code: bytes | memoryview) -> str:
    """Return the variants of the entries of a clang offload bundle.

    After the magic: number of entries u64; each entry is offset u64, size u64, length of its ID
    u64, the ID such as ``hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+``.
    """
    at = len(_BUNDLE_MAGIC) + 8
    results: dict[str, None] = {}
    for _ in range(min(read_uint(code, at - 8, 8), _MAX_ENTRIES)):
        length = read_uint(code, at + 16, 8)
        if length > 256 or at + 24 + length > len(code):
            break
        name = bytes(code[at + 24 : at + 24 + length]).decode("ascii", "replace")
        if "amdgcn" in name and "gfx" in name:
            target = name[name.find("gfx") :]
            letters = target.replace(":", "").replace("+", "").replace("-", "")
            if letters.isalnum() and letters.isascii():
                results[target] = None
        at += 24 + length
    return ",".join(results)


def rank(variant: str, arch: str) -> int | None:
    """Return the rank of a variant for a device such as "gfx90a:sramecc+:xnack-". The greatest is
    the best; None: it cannot run.
    """
    if not variant:
        return 0
    processor, *settings = arch.split(":")
    ranks = []
    for part in variant.split(","):
        name, *features = part.split(":")
        if not set(features) <= set(settings):
            continue
        if name == processor and name.startswith("gfx"):
            ranks.append(100 + len(features))
        elif processor in _GENERIC.get(name, "").split():
            ranks.append(50 + len(features))
    return max(ranks, default=None)
