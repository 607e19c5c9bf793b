"""Files that a later devmod may write: records with features that version 1 does not have, sections
behind the records, and functions with needs and values that it does not have. Version 1 lists them,
and uses everything else of the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]

import devmod
from handmade import file_of, headed, row

EXPECTATIONS = "expectations.json"
ABOUT = (
    "What this devmod reads in files that a later one may write: each module with its functions, "
    "the error of its use if it needs a newer devmod, and that of its sources; the unknown needs of "
    "newer functions, and the errors of damaged ones. Written by `make golden` alone, from "
    "tools/golden_later.py."
)
_FUNCTION = b"\x94\xa1k\x90\x90\x90"
#: The bytes of an opencl module with the function "g".
PLAIN = b"\xa2cl\x81\xa1g" + _FUNCTION + b"\xc4\x03abc"
#: Bytes of which version 1 knows nothing.
LATER = b"\xff bytes in a form of tomorrow"
#: The bytes of constants "w" and "v", of which each is a part of two float32.
CONSTANTS = (
    b"\x82\xa1v\x93\x93\x02\x20\x01\x91\x02\x00\xa1w\x93\x93\x02\x20\x01\x91\x02\x01"
    b"\x81\xa4init\x91\xa1w"
)


def _record(data: bytes, **fields: Any) -> dict[str, Any]:
    return {**fields, "size": len(data), "sha256": hashlib.sha256(data).digest()}


def _file(
    modules: list[tuple[dict[str, Any], bytes]],
    sources: list[tuple[dict[str, Any], bytes]] | None = None,
    parts: list[tuple[dict[str, Any], bytes]] | None = None,
) -> bytes:
    """Return a file whose roots are the modules, from the fields of each record and its bytes."""
    page: dict[str, Any] = {"roots": list(range(len(modules)))}
    body = b""
    for key, records in (("modules", modules), ("sources", sources), ("parts", parts)):
        for fields, data in records or ():
            page.setdefault(key, []).append(_record(data, **fields))
            body = body.ljust(-(-len(body) // 64) * 64, b"\0") + data
    return file_of(page, body)


def _cases() -> Iterator[tuple[str, bytes]]:
    plain = {"kind": "opencl", "format": "cl", "functions": ["g"]}, PLAIN
    later = {"functions": ["f"], "features": ["brotli"], "brotli": [4096, bytes(32)]}
    yield "of a kind", _file([({"kind": "opencl", "format": "cl", **later}, LATER), plain])
    yield "of a kind that nobody has", _file([({"kind": "npu", **later}, LATER), plain])
    yield "of constants", _file([({"kind": "const_loader", **later}, LATER), plain])
    yield "of a program", _file([({"kind": "program", "format": "steps1", **later}, LATER), plain])
    two = {"kind": "opencl", "functions": ["f"], "features": ["a", "b"]}
    yield "two features", _file([(two, LATER), plain])
    # Each of these keys keeps its form. What it means may be another thing.
    large = {"zstd": [2**40, bytes(32)], "repeats": [[9, 0, 1]], "shift": 0}
    yield "other limits", _file([({**two, **large}, LATER), plain])
    text = {"kind": "opencl", "format": "cl", "functions": ["g"], "sources": 1}
    yield "of sources", _file([(text, PLAIN)], [({"features": ["brotli"]}, LATER)])
    elements = bytes(range(8))
    loader = {"kind": "const_loader", "functions": ["init"], "parts": [1, 2]}
    parts = [({"features": ["brotli"]}, LATER), ({}, elements)]
    yield "of a part", _file([(loader, CONSTANTS)], None, parts)
    empty = {"kind": "opencl", "format": "cl", "functions": ["g"], "features": []}
    yield "no features", _file([(empty, PLAIN)])
    record = _record(PLAIN, kind="opencl", format="cl", functions=["g"], rank=0)
    yield "sections", _with_sections(record)

    yield "newer functions", _functions(["fp16", "later"])
    yield "damaged functions", _functions(["fp16"])


#: Values that version 1 does not have, in an interface or in its parameter `x`.
_LATER: dict[str, dict[str, Any]] = {
    "kind": {"kind": "tensor"},
    "access": {"access": "atomic"},
    "type": {"type": "float4_e3m0"},
    "default": {"kind": "scalar", "type": "int32", "default": {"expression": ["n"]}},
    "block": {"block": [1, 1, 1, 1]},
    "fewer": {"params": []},
}


def _functions(needs: list[str]) -> bytes:
    """Return a file with a function of each value of `_LATER`, and others with a valid interface,
    of which some have these needs too.
    """
    functions = {"good": _function(), "need": _function(needs)}
    for name, changes in _LATER.items():
        functions[name] = _function(needs, changes)
    data = b"".join([_pack("cl"), _pack(functions), _pack(b"abc")])
    fields = {"kind": "opencl", "format": "cl", "functions": [*functions]}
    plain = {"kind": "opencl", "format": "cl", "functions": ["g"]}, PLAIN
    return _file([(fields, data), plain])


def _function(needs: Sequence[str] = (), changes: dict[str, Any] | None = None) -> list[Any]:
    """Return the items of a function, with changes to its interface or to its parameter `x`."""
    param = {"name": "x", "kind": "buffer", "type": "float32", "access": "rw"}
    interface: dict[str, Any] = {"params": [param], "needs": [*needs]}
    for key, value in (changes or {}).items():
        if key in ("params", "block"):
            interface[key] = value
        else:
            param[key] = value
    return ["k", [[3, 64, 1]], [], [], interface]


def _pack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def _with_sections(record: dict[str, Any]) -> bytes:
    page = msgpack.packb({"modules": [record]})
    bodies = [b"notes", b"", b"more of tomorrow"]
    sections = [
        [name, len(data), hashlib.sha256(data).digest()]
        for name, data in zip(("notes", "nothing", "more"), bodies, strict=True)
    ]
    body = PLAIN.ljust(64, b"\0") + bodies[0].ljust(64, b"\0") + bodies[2]
    head = {"candidates": 1, "pages": [row(page, 1, len(PLAIN))], "sections": sections}
    return headed(head, page, body)


def cases() -> dict[str, bytes]:
    """Return each file by its name."""
    return {f"{name.replace(' ', '-')}.devmod": data for name, data in _cases()}


def describe(data: bytes) -> list[dict[str, Any]]:
    """Return what devmod reads in a file."""
    root = devmod.loads(data)
    modules = root.imports if root.kind == "bundle" else (root,)
    result = []
    for module in modules:
        found: dict[str, Any] = {"kind": module.kind, "functions": list(module)}
        for key, use in (("error", module.save_to_bytes), ("sources", lambda: module.source)):  # noqa: B023
            try:
                use()
            except devmod.FormatError as error:
                found[key] = str(error)
        result.append(found | _described_functions(module))
    return result


def _described_functions(module: Any) -> dict[str, Any]:
    """Return the unknown needs of the newer functions of a module, and the errors of the damaged
    ones.
    """
    newer = {}
    damaged = {}
    for name in module:
        try:
            interface = module.functions[name].interface
        except devmod.FormatError as error:
            damaged[name] = str(error)
            continue
        if interface is not None and interface.newer:
            newer[name] = list(interface.newer)
    result: dict[str, Any] = {}
    if newer:
        result["newer"] = newer
    if damaged:
        result["damaged"] = damaged
    return result


def write(folder: Path) -> None:
    """Write the files and what devmod reads in them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = cases()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    found = {name: describe(data) for name, data in files.items()}
    text = json.dumps({"about": ABOUT, "files": found}, ensure_ascii=False, indent=1)
    (folder / EXPECTATIONS).write_text(text + "\n", encoding="utf-8")
