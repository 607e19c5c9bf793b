"""Files that a later devmod may write: records with features that version 1 does not have, sections
behind the records, and functions with needs and values that it does not have. Version 1 lists them,
and uses everything else of the file.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]

import devmod
import golden_readers
from devmod._modules.choice import unknown_needs
from devmod_readers.programs import read_program
from handmade import file_of, headed, row

EXPECTATIONS = "expectations.json"
ABOUT = (
    "What each reader reads in files that a later devmod may write: each module with its functions, "
    "the error of its use if it needs a newer devmod, and that of its sources; newer functions, with "
    "their unknown needs or the errors of their use, and the errors of damaged ones; the tuning "
    "records, and why others are skipped; what a save says. Written by `make golden` alone, from "
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

#: Values that version 1 does not have, in an interface or in its parameter `x`.
_LATER: dict[str, dict[str, Any]] = {
    "kind": {"kind": "tensor"},
    "access": {"access": "atomic"},
    "type": {"type": "float4_e3m0"},
    "default": {"kind": "scalar", "type": "int32", "default": {"expression": ["n"]}},
    "block": {"block": [1, 1, 1, 1]},
    "fewer": {"params": []},
    "image": {"kind": "image", "type": "4d"},
    "sample": {"kind": "image", "type": "2d", "sample": "depth"},
    "place": {"at": {"space": 1}},
    "pack": {"pack": ["ptr:handle", "offset:int64"]},
    "members": {"type": "uint8x4", "members": [{"name": "a", "offset": 0, "type": "int3x4"}]},
    "shared": {"shared_memory": {"per_warp": 8}},
    "tune": {"tune": {"constants": ["B"], "variants": [{"values": [1]}]}},
}
_OF_INTERFACE = ("params", "block", "shared_memory", "tune")


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

    dictionary: list[tuple[dict[str, Any], bytes]] = [({}, b"a dictionary of several modules")]
    shared = {**later, "features": ["dictionary"], "dictionary": 0, "parts": [2]}
    yield (
        "part of another kind",
        _file([({"kind": "opencl", **shared}, LATER), plain], None, dictionary),
    )
    yield "keys and sections that a save drops or keeps", _marked("later", "later+")
    yield "keys that refuse a save", _marked("later!")
    yield "shifts", _shifts()
    yield "tuning records", _tuning()

    yield "newer functions", _functions(["fp16", "later"])
    yield "damaged functions", _functions(["fp16"])
    yield "newer programs", _programs(["later"])
    yield "damaged programs", _programs([])


def _functions(needs: list[str]) -> bytes:
    """Return a file with a function of each value of `_LATER`, and others with a valid interface,
    of which some have these needs too.
    """
    functions = {"good": _function(), "need": _function(needs)}
    functions["type200"] = ["k", [[200, 12, 9]], [], []]
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
        if key in _OF_INTERFACE:
            interface[key] = value
        else:
            param[key] = value
    return ["k", [[3, 64, 1]], [], [], interface]


def _programs(needs: Sequence[str]) -> bytes:
    """Return a file with programs with a role, a sampler's filter and an operator of a later
    devmod, and with the kernel that they run.
    """
    roles: dict[str, dict[str, Any]] = {
        "role": {"role": "stream", "access": "rw"},
        "scalar": {"role": "output", "kind": "scalar"},
        "shape": {"role": "update", "access": "rw", "shape": [["clamp", "n", 1]]},
    }
    functions = {"good": _program()}
    for name, fields in roles.items():
        functions[name] = _program(needs, fields)
    steps = _pack({"steps": [["k", {"x": "x"}, {"threads": ["n"]}]]})
    parts = [_pack("steps1"), _pack(functions), _pack(dict.fromkeys(functions, steps))]
    program = {"kind": "program", "format": "steps1", "functions": [*functions], "imports": [2]}
    kernel = _pack("cl") + _pack({"k": _function()}) + _pack(b"abc")
    opencl = {"kind": "opencl", "format": "cl", "functions": ["k"]}
    modules: list[tuple[dict[str, Any], bytes]] = [(program, b"".join(parts)), (opencl, kernel)]
    page: dict[str, Any] = {"roots": [0], "modules": []}
    body = b""
    for fields, data in modules:
        page["modules"].append(_record(data, **fields))
        body = _aligned(body) + data
    page["modules"].append({"kind": "bundle", "imports": [1]})
    return file_of(page, body)


def _program(needs: Sequence[str] = (), changes: dict[str, Any] | None = None) -> list[Any]:
    """Return the items of the function of a program, with changes to its declaration `x`."""
    given = {"role": "update", "access": "rw", "shape": ["n"], **(changes or {})}
    items = _function(needs, given)
    items[4]["kernels"] = ["k"]
    return items


def _marked(*names: str) -> bytes:
    """Return a file with keys of these names in its head, its page and all records, and with
    attachments and sections of these names.
    """
    values: dict[str, Any] = {name: [at, {"größe": None}] for at, name in enumerate(names)}
    text, listing = b"bytes of %d", b"\x81\xa2cl\xa2//"
    loader = {"kind": "const_loader", "functions": ["init"], "rank": 1, "parts": [3, 4]}
    opencl = {"kind": "opencl", "format": "cl", "functions": ["g"], "rank": 0, "sources": 2}
    page: dict[str, Any] = {
        "modules": [_record(PLAIN, **opencl, **values), _record(CONSTANTS, **loader, **values)],
        "sources": [_record(listing, **values)],
        "parts": [_record(bytes(8), **values), _record(bytes(range(8)), **values)],
        "attached": [],
        **values,
    }
    body = b""
    for data in (PLAIN, CONSTANTS, listing, bytes(8), bytes(range(8))):
        body = _aligned(body) + data
    sections = []
    behind = b""
    for at, name in enumerate(names):
        data = text % at
        page["attached"].append(_record(data, function="g", tag=name, **values))
        body = _aligned(body) + data
        behind = _aligned(behind) + data[::-1]
        sections.append([name, len(data), hashlib.sha256(data[::-1]).digest()])
    packed = msgpack.packb(page)
    head = {"candidates": 2, "pages": [row(packed, 5, len(body))], "sections": sections, **values}
    return headed(head, packed, _aligned(body) + behind)


def _aligned(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // 64) * 64, b"\0")


def _shifts() -> bytes:
    """Return a file of another writer: all of its bytes have a shift."""
    listing = b"\x81\xa2cl\xa2//"
    opencl = {"kind": "opencl", "format": "cl", "functions": ["g"], "rank": 0, "sources": 1}
    records = {
        "modules": [_record(PLAIN, **opencl, shift=4096)],
        "sources": [_record(listing, shift=129)],
        "attached": [_record(b"\x90", function="g", tag="tuning+", shift=3)],
    }
    body = b""
    for (record,), data in zip(records.values(), (PLAIN, listing, b"\x90"), strict=True):
        body = _aligned(body) + bytes(record["shift"]) + data
    page = msgpack.packb(records)
    return headed({"candidates": 1, "align": 4096, "pages": [row(page, 2, len(body))]}, page, body)


def _tuning() -> bytes:
    """Return a file with tuning records of six functions: of version 1 with more, and of forms that
    it does not have.
    """
    time = [[64], 0.5, 7, 0.25, "joules", 3]
    measured = [{"sizes": [9], "times": [time], "later": 1}]
    record = {"kind": "opencl", "constants": ["B"], "sizes": ["n"], "measured": measured}
    maps = [{"sizes": [9], "times": [{"values": [64], "median": 0.5}]}]
    forms: dict[str, Any] = {
        "known": [{**record, "device": "of today"}, {**record, "later": [None], "device": "other"}],
        "times": [{**record, "measured": maps}, record],
        "record": ["a record of tomorrow", record, {**record, "kind": ["opencl", "cuda"]}],
        "map": {"version": 2, "records": [record]},
        "bytes": LATER,
    }
    functions = dict.fromkeys([*forms, "feature"], _function())
    code = _pack("cl") + _pack(functions) + _pack(b"abc")
    fields = {"kind": "opencl", "format": "cl", "functions": [*functions], "rank": 0}
    attached = []
    body = code
    for name in sorted(functions):  # as a save writes them
        more = {}
        data = LATER
        if name == "feature":
            more = {"features": ["brotli"]}
        elif name != "bytes":
            data = _pack(forms[name])
        attached.append(_record(data, function=name, tag="tuning+", **more))
        body = _aligned(body) + data
    page = msgpack.packb({"modules": [_record(code, **fields)], "attached": attached})
    return headed({"candidates": 1, "pages": [row(page, 1, len(body))]}, page, body)


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
    """Return what devmod reads in a file: its modules, the tuning records and the save."""
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
        if module.kind == "program" and "error" not in found:
            found |= _described_programs(module)
        else:
            found |= _described_functions(module)
        result.append(found)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = len(root.tuning_records)
        skipped = [str(each.message) for each in caught]
        caught.clear()
        try:
            devmod.dumps(root)
            texts = [str(each.message) for each in caught]
        except devmod.FormatError as error:
            texts = [str(error)]
    if records or skipped:
        result.append({"tuning": records, "skipped": skipped})
    if texts:
        result.append({"save": texts})
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
    return _with_names(newer, damaged)


def _described_programs(module: Any) -> dict[str, Any]:
    """Return the unknown needs of programs, and the errors of the damaged ones."""
    newer = {}
    damaged = {}
    for name, info in module.functions.items():
        needs = unknown_needs(info.interface)
        if needs:
            newer[name] = needs
            continue
        try:
            read_program(name, info, module.code[name])
        except devmod.FormatError as error:
            damaged[name] = str(error)
    return _with_names(newer, damaged)


def _with_names(newer: dict[str, Any], damaged: dict[str, Any]) -> dict[str, Any]:
    named = {"newer": newer, "damaged": damaged}
    return {key: functions for key, functions in named.items() if functions}


def write(folder: Path) -> None:
    """Write the files and what the readers read in them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = cases()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    entries: dict[str, dict[str, Any]] = {
        name: {"python": describe(data)} for name, data in files.items()
    }
    path = folder / EXPECTATIONS
    golden_readers.add_readers(entries, files, path)
    golden_readers.write_entries(path, ABOUT, entries)
