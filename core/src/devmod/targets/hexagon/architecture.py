"""The variant of a Hexagon shared object, read from its ELF flags (R40), and its rank for a device.

Variants are ``v68``, ``v73``, or with a ``t`` for the small cores (``v67t``). Code runs on its own
version and on every later one; code for a small core runs on that core alone.
"""

from __future__ import annotations

from devmod._util.elf import HEXAGON, elf_header
from devmod._util.text import is_number

_EARLY = {1: "v2", 2: "v3", 3: "v4", 4: "v5", 5: "v55"}


def architecture(fmt: str, code: bytes | memoryview) -> str:
    """Return the variant of a Hexagon shared object; "" if it cannot be read. It never raises."""
    if fmt != "so":
        return ""
    header = elf_header(code)
    if header is None or header.machine != HEXAGON:
        return ""
    version = header.flags & 0x3FF
    if version in _EARLY:
        name = _EARLY[version]
    elif 0x60 <= version <= 0x99 and version & 15 < 10:
        # From v60 on the hexadecimal digits are the version: 0x68 is v68.
        name = f"v{version:x}"
    else:
        return ""
    if header.flags & 0x8000:
        name += "t"
    return name


def rank(variant: str, arch: str) -> int | None:
    """Return the rank of a variant for a device such as "v73". The greatest is the best; None: it
    cannot run.
    """
    if not variant:
        return 0
    needed = _number(variant)
    present = _number(arch)
    if needed is None or present is None:
        return None
    is_small = variant.endswith("t") or arch.endswith("t")
    if is_small and variant != arch:
        return None
    if needed > present:
        return None
    return needed


def _number(name: str) -> int | None:
    """Return the number of a version (v5, v55, v60); None for another text."""
    digits = name.removeprefix("v").removesuffix("t")
    if not name.startswith("v") or not is_number(digits, 3):
        return None
    return int(digits)
