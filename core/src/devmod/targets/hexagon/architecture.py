"""What a Hexagon shared object runs on, read from its ELF flags (R40), and how well that fits a device.

Variants are ``v68``, ``v73``, or with a ``t`` for the small cores (``v67t``). Code runs on its own version and on every later
one; code for a small core on that core alone.
"""

from __future__ import annotations

from devmod.targets._elf import HEXAGON, elf_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import Binary

_EARLY = {1: "v2", 2: "v3", 3: "v4", 4: "v5", 5: "v55"}


def architecture(fmt: str, code: Binary) -> str:
    """The variant of a Hexagon shared object; "" where it cannot be read. Never raises."""
    header = elf_header(code) if fmt == "so" else None
    if header is None or header.machine != HEXAGON:
        return ""
    version = header.flags & 0x3FF
    # As of v60 the number is written in the flags as it is read: 0x68 is v68.
    name = _EARLY.get(version) or (f"v{version:x}" if 0x60 <= version <= 0x99 and version & 15 < 10 else "")
    return name + "t" if name and header.flags & 0x8000 else name


def rank(variant: str, arch: str) -> int | None:
    """How well a variant fits a device such as "v73"; None: not at all. The greatest is the best."""
    if not variant:
        return 0
    needs, has = _number(variant), _number(arch)
    if needs is None or has is None:
        return None
    if variant.endswith("t") or arch.endswith("t"):
        return needs if variant == arch else None
    return needs if needs <= has else None


def _number(name: str) -> int | None:
    """The number of a version, which grows with it (v5, v55, v60)."""
    digits = name.removeprefix("v").removesuffix("t")
    sound = name.startswith("v") and digits.isascii() and digits.isdigit() and len(digits) <= 3
    return int(digits) if sound else None
