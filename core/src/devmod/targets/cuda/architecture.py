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
        result, exact = header.flags & 0xFF, bool(header.flags & 0x800)
    else:
        result, exact = header.flags >> 8 & 0xFF, _accelerated(header.section(b".nv.compat"))
    return f"sm_{result}{'a' if exact else ''}" if result >= 10 else ""


def _accelerated(compat: bytes) -> bool:
    """Return whether .nv.compat has the attribute of ``a``. An attribute is a format, a number, and
    two bytes of value or size.
    """
    at = 0
    while at + 4 <= len(compat):
        form, attribute = compat[at], compat[at + 1]
        if attribute == 9:
            return form == 2 and compat[at + 2] == 1
        at += 4 + (read_uint(compat, at + 2, 2) if form == 4 else 0)
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
    if len(code) < 16 or read_uint(code, 0, 4) != _FATBIN_MAGIC:
        return ""
    at = read_uint(code, 6, 2)
    end = min(len(code), at + read_uint(code, 8, 8))
    results: dict[str, None] = {}
    for _ in range(_MAX_ENTRIES):
        if at + 48 > end:
            break
        kind, head, size = (
            read_uint(code, at, 2),
            read_uint(code, at + 4, 4),
            read_uint(code, at + 8, 8),
        )
        if head < 48 or at + head + size > end:
            break
        arch, flags = read_uint(code, at + 28, 4), read_uint(code, at + 40, 8)
        letter = "a" if flags >> 20 & 1 else "f" if flags >> 21 & 1 else ""
        if kind in (1, 2) and 10 <= arch <= 999:
            plain = (
                _cubin(code[at + head : at + head + size])
                if kind == 2
                else _ptx(bytes(code[at + head : at + head + size][:_PTX_HEAD]))
            )
            results[plain or f"{('compute', 'sm')[kind - 1]}_{arch}{letter}"] = None
        at += head + size
    return ",".join(results)


def rank(variant: str, arch: str) -> int | None:
    """Return the rank of a variant for a device such as "sm_90" or "sm_90:ptx8.3". The greatest is
    the best; None: it cannot run.
    """
    if not variant:
        return 0
    device = _parse(arch)
    if device is None:
        return None
    fits = [
        result for part in variant.split(",") if (result := _rank_one(part, device)) is not None
    ]
    return max(fits, default=None)


_Parsed = tuple[bool, int, str, tuple[int, int] | None]


def _rank_one(part: str, device: _Parsed) -> int | None:
    parsed = _parse(part)
    if parsed is None:
        return None
    is_ptx, needed, letter, ptx = parsed
    has, reads = device[1], device[3]
    if ptx is not None and reads is not None and ptx > reads:
        return None
    family = has // 10 == needed // 10 and has >= needed
    if letter == "a":
        fits = has == needed
    elif is_ptx and not letter:
        fits = has >= needed
    elif not is_ptx and (has in _INTEGRATED or needed in _INTEGRATED):
        fits = has == needed
    else:
        fits = family
    return (
        (0 if is_ptx else _CUBIN) + needed * 4 + ("", "f", "a").index(letter) + 1 if fits else None
    )


def _parse(text: str) -> _Parsed | None:
    """Return (whether it is PTX, number, letter, PTX version) of one part of a variant."""
    name, _, version = text.partition(":ptx")
    head, _, rest = name.partition("_")
    letter = rest[-1:] if rest[-1:] in ("a", "f") else ""
    digits = rest.removesuffix(letter)
    if head not in ("sm", "compute") or not _is_number(digits):
        return None
    major, _, minor = version.partition(".")
    if version and not (_is_number(major) and _is_number(minor)):
        return None
    return head == "compute", int(digits), letter, (int(major), int(minor)) if version else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
