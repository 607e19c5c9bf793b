"""The variant of a CUDA payload, read from its bytes (R40), and its rank for a device.

Variants
    ``sm_90``, ``sm_90a``
        A cubin. It runs on devices of the same major and the same or a greater minor number; with
        ``a``, on that number alone. A cubin for an integrated device (Tegra: 5.3, 8.7, …) runs on
        that number alone, and such a device runs no other cubin.
    ``compute_90:ptx8.4``, ``compute_90a:ptx8.4``
        PTX and the version of its language. It runs on every device of at least that number; with
        ``a`` on that number alone, with ``f`` on the same major and the same or a greater minor
        number. A device may have the PTX version of its driver (``sm_90:ptx8.3``). Newer PTX does
        not run on it.
    ``sm_80,sm_90,compute_90``
        A fatbin: the variants of its entries, in their order.

The ELF flags of a cubin have its number: in the low byte up to ABI version 7 (with ``a`` in bit
11), in the second byte from version 8 on, where ``a`` is the attribute 9 of the section
``.nv.compat``. A cubin has no mark for ``f``; its rule is that of a cubin without a letter. Source:
the outputs of ptxas 12.4 and 13.5.
"""

from __future__ import annotations

from devmod._util.elf import CUDA, elf_header, read_uint
from devmod._util.text import is_number

#: The numbers of integrated devices. Their cubins run on no other device.
_INTEGRATED = frozenset((32, 53, 62, 72, 87, 101, 110))
#: The directives are searched in so many bytes of PTX. They are at its start, after comments.
_PTX_HEAD = 1 << 16
_FATBIN_MAGIC = 0xBA55ED50
_MAX_ENTRIES = 256
#: A cubin ranks above PTX, because the driver need not compile it.
_CUBIN = 1 << 20


def architecture(fmt: str, code: bytes | memoryview) -> str:
    """Return the variant of a CUDA payload; "" for source, and if it cannot be read. It never
    raises.
    """
    if fmt == "cubin":
        return _cubin(code)
    if fmt == "ptx":
        return _ptx(bytes(code[:_PTX_HEAD]))
    if fmt == "fatbin":
        return _fatbin(memoryview(code))
    return ""


def _cubin(code: bytes | memoryview) -> str:
    header = elf_header(code)
    if header is None or header.machine != CUDA:
        return ""
    if header.abi_version < 8:
        number = header.flags & 0xFF
        is_exact = bool(header.flags & 0x800)
    else:
        number = header.flags >> 8 & 0xFF
        is_exact = _accelerated(header.section(b".nv.compat"))
    if number < 10:
        return ""
    if is_exact:
        return f"sm_{number}a"
    return f"sm_{number}"


def _accelerated(compat: bytes) -> bool:
    """Return whether .nv.compat has the attribute of ``a``. An attribute is a format, a number, and
    two bytes of value or size.
    """
    at = 0
    while at + 4 <= len(compat):
        form = compat[at]
        attribute = compat[at + 1]
        if attribute == 9:
            return form == 2 and compat[at + 2] == 1
        if form == 4:
            at += read_uint(compat, at + 2, 2)
        at += 4
    return False


def _ptx(text: bytes) -> str:
    import re

    text = re.sub(rb"//[^\n]*|/\*.*?(?:\*/|\Z)", b" ", text, flags=re.DOTALL)
    version = re.search(rb"(?:^|\s)\.version\s+(\d{1,3}\.\d{1,3})\s", text)
    target = re.search(rb"(?:^|\s)\.target\s+(?:\w+\s*,\s*)*?sm_(\d{2,3}[af]?)\b", text)
    if version is None or target is None:
        return ""
    return f"compute_{target[1].decode()}:ptx{version[1].decode()}"


def _fatbin(code: memoryview) -> str:
    """Return the variants of a fatbin's entries.

    The header is magic u32, version u16, its size u16, size of the entries u64. An entry is kind
    u16 (1 PTX, 2 ELF), version u16, its header's size u32, its data's size u64, …, number of the
    architecture u32 at 28, flags u64 at 40 (bit 20 ``a``, 21 ``f``).
    """
    if read_uint(code, 0, 4) != _FATBIN_MAGIC:
        return ""
    at = read_uint(code, 6, 2)
    end = min(len(code), at + read_uint(code, 8, 8))
    results: dict[str, None] = {}
    for _ in range(_MAX_ENTRIES):
        head = read_uint(code, at + 4, 4)
        size = read_uint(code, at + 8, 8)
        if head < 48 or at + head + size > end:
            break
        variant = _entry_variant(code[at : at + head], code[at + head : at + head + size])
        if variant:
            results[variant] = None
        at += head + size
    return ",".join(results)


def _entry_variant(header: memoryview, data: memoryview) -> str:
    """Return the variant of an entry of a fatbin; that of its header, if its data has none."""
    kind = read_uint(header, 0, 2)
    arch = read_uint(header, 28, 4)
    flags = read_uint(header, 40, 8)
    if kind not in (1, 2) or not 10 <= arch <= 999:
        return ""
    letter = ""
    if flags >> 20 & 1:
        letter = "a"
    elif flags >> 21 & 1:
        letter = "f"
    if kind == 2:
        return _cubin(data) or f"sm_{arch}{letter}"
    return _ptx(bytes(data[:_PTX_HEAD])) or f"compute_{arch}{letter}"


def rank(variant: str, arch: str) -> int | None:
    """Return the rank of a variant for a device such as "sm_90" or "sm_90:ptx8.3". The greatest is
    the best; None: it cannot run.
    """
    if not variant:
        return 0
    device = _parse(arch)
    if device is None:
        return None
    ranks = []
    for part in variant.split(","):
        number = _rank_one(part, device)
        if number is not None:
            ranks.append(number)
    return max(ranks, default=None)


_Parsed = tuple[bool, int, str, tuple[int, int] | None]


def _rank_one(part: str, device: _Parsed) -> int | None:
    parsed = _parse(part)
    if parsed is None:
        return None
    is_ptx, needed, letter, ptx = parsed
    _, present, _, reads = device
    if ptx is not None and reads is not None and ptx > reads:
        return None
    if not _runs_on(is_ptx, needed, letter, present):
        return None
    result = needed * 4 + 1
    if letter == "f":
        result += 1
    elif letter == "a":
        result += 2
    if not is_ptx:
        result += _CUBIN
    return result


def _runs_on(is_ptx: bool, needed: int, letter: str, present: int) -> bool:
    """Return whether code for the number `needed` runs on a device of the number `present`."""
    if letter == "a":
        return present == needed
    if is_ptx and not letter:
        return present >= needed
    if not is_ptx and (present in _INTEGRATED or needed in _INTEGRATED):
        return present == needed
    return present // 10 == needed // 10 and present >= needed


def _parse(text: str) -> _Parsed | None:
    """Return (whether it is PTX, number, letter, PTX version) of one part of a variant."""
    name, _, version = text.partition(":ptx")
    head, _, rest = name.partition("_")
    letter = rest[-1:]
    if letter not in ("a", "f"):
        letter = ""
    digits = rest.removesuffix(letter)
    if head not in ("sm", "compute") or not is_number(digits, 4):
        return None
    is_ptx = head == "compute"
    if not version:
        return is_ptx, int(digits), letter, None
    major, _, minor = version.partition(".")
    if not is_number(major, 4) or not is_number(minor, 4):
        return None
    return is_ptx, int(digits), letter, (int(major), int(minor))
