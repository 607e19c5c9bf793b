"""Loads of large vectors in LLVM IR."""

from __future__ import annotations

import re

#: LLVM's NVPTXLowerAggrCopies makes a copy of each load of 128 bytes or more whose value is only
#: stored. The copy is in the place of the store, so it reads what was stored in between: a swap of
#: two long16 was none.
_LOAD = re.compile(
    r"^(?P<indent> *)(?P<name>%(?:[\w.$-]+|\"[^\"]*\")) = load (?P<kind>volatile )?<16 x (?P<type>i64|double)>, "
    r"(?P<pointer>ptr(?: addrspace\(\d+\))?) (?P<place>\S.*?), align (?P<align>\d+)(?:, !.*)?$",
    re.MULTILINE,
)
_LANES = ", ".join(f"i32 {lane}" for lane in range(16))


def with_halves(text: str) -> str:
    """Return LLVM IR that loads vectors of 128 bytes as two halves."""
    return _LOAD.sub(_halves, text)


def _halves(match: re.Match[str]) -> str:
    parts = match.groupdict()
    indent, type_, pointer, place = (parts[each] for each in ("indent", "type", "pointer", "place"))
    volatile = parts["kind"] or ""
    stem = parts["name"][1:].strip('"')
    low, high, above = (f'%"{stem}.devmod.{part}"' for part in ("low", "high", "above"))
    align = min(int(parts["align"]), 64)
    load = f"load {volatile}<8 x {type_}>, {pointer}"
    lines = [
        f"{low} = {load} {place}, align {parts['align']}",
        f"{above} = getelementptr inbounds i8, {pointer} {place}, i64 64",
        f"{high} = {load} {above}, align {align}",
        f"{parts['name']} = shufflevector <8 x {type_}> {low}, <8 x {type_}> {high}, <16 x i32> <{_LANES}>",
    ]
    return indent + " ".join(lines)  # each statement keeps its line
