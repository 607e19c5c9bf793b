"""The variant of a Hexagon shared object, read from its ELF flags (R40), and its rank for a device.

Variants are ``v68``, ``v73``, or with a ``t`` for the small cores (``v67t``). Code runs on its own
version and on every later one; code for a small core runs on that core alone.
"""

from __future__ import annotations

from devmod._util.elf import HEXAGON, elf_header

_EARLY = {1: "v2", 2: "v3", 3: "v4", 4: "v5", 5: "v55"}


def architecture(fmt: str, code: bytes | memoryview) -> str:
    """Return the variant of a Hexagon shared object; "" if it cannot be read. It never raises."""
    header = elf_header(code) if fmt == "so" else None
    if header is None or header.machine != HEXAGON:
        return ""
    version = header.flags & 0x3FF
    # From v60 on the hexadecimal digits are the version: 0x68 is v68.
    name = _EARLY.get(version) or (
        f"v{version:x}" if 0x60 <= version <= 0x99 and version & 15 < 10 else ""
    )
    return name + "t" if name and header.flags & 0x8000 else name


def rank(variant: str, arch: str) -> int | None:
    """Return the rank of a variant for a device such as "v73". The greatest is the best; None: it
    cannot run.
    """
    if not variant:
        return 0
    needed, present = _number(variant), _number(arch)
    if needed is None or present is None:
        return None
    if variant.endswith("t") or arch.endswith("t"):
        return needed if variant == arch else None
    return needed if needed <= present else None


def _number(name: str) -> int | None:
    """Return the number of a version (v5, v55, v60); None for another text."""
    digits = name.removeprefix("v").removesuffix("t")
    valid = name.startswith("v") and digits.isascii() and digits.isdigit() and len(digits) <= 3
    return int(digits) if valid else None
