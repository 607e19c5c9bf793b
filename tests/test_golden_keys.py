"""The golden files of version 1 together have every key of docs/formats.md, and each of the values
that it lists. They are read here with msgpack alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
from each_case import some

ROOT = Path(__file__).resolve().parent.parent
V1 = ROOT / "tests" / "golden" / "v1"
sys.path.insert(0, str(ROOT / "tools"))

from handmade import aligned, blobs_of, head_of, pages_of  # noqa: E402 - tools/handmade.py

TEXT = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
#: What each table of keys describes, by the section of the page.
TABLES = {
    "The interface": ("interface", "constant", "parameter", "member"),
    "Tuned functions": ("tune", "variant"),
    "Programs": ("interface", "parameter", "steps"),
    "The head": ("head",),
    "A page": ("page", "module"),
    "Origins": ("origin",),
    "Tuning records": ("tuning",),
}
#: The rows of these tables that list values.
LISTED = (
    "parameter.kind",
    "parameter.access",
    "parameter.sample",
    "parameter.filter",
    "parameter.address",
)
_PLACE = "size sha256 shift zstd"
#: The keys, values and forms that sentences of the page define.
SENTENCES = {
    "block": "at size name at=push",
    "parameter": "type=1d type=2d type=3d type=1d_array type=2d_array type=1d_buffer type=handle",
    "default": "bytes per_thread value",
    "shared_memory": "per_thread",
    "block_constants": "-1 position array",
    "sources": _PLACE,
    "parts": _PLACE,
    "attached": f"function tag tag=tuning+ {_PLACE}",
    "measured": "sizes times",
    "time": "seconds nil false turns spread",
    "launch": "grid threads block",
    "value": "name expression float boolean view",
    "comparison": "== != < <= > >=",
    "expression": "+ - * // % ceildiv min max",
    "function": "4 5 6",
    "calls": "order structs",
    "section": "keep",
}
#: What devmod does not write, and the reason. tests/golden/later has each.
EXCEPTIONS = {
    "module.features": "version 1 has none",
    "sources.shift": "text needs no alignment",
    "attached.shift": "tuning records need no alignment",
}

Fields = Mapping[str, Any]


def rows_of(section: str) -> list[list[list[str]]]:
    """Return the tables of keys in a section of the page, as the cells of their rows."""
    text = re.split(rf"^#+ {re.escape(section)}$", TEXT, flags=re.MULTILINE)[1]
    text = re.split(r"^#+ ", text, flags=re.MULTILINE)[0]
    tables = re.findall(r"^\| key \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[line.strip("| ").split(" | ", 1) for line in table.splitlines()] for table in tables]


def words(text: str) -> list[str]:
    """Return what is between backticks."""
    return re.findall(r"`([^`]+)`", text)


def keys_of_the_page() -> set[str]:
    """Return each key as "place.key", and each value as "place.key=value"."""
    found = set()
    for section, places in TABLES.items():
        for place, rows in zip(places, rows_of(section), strict=True):
            for cell, text in rows:
                names = [f"{place}.{key}" for key in words(cell)]
                found.update(names)
                lists = [part for part in text.split("; ") if words(part)]
                for name, listed in zip(names, lists, strict=False):
                    if name in LISTED:
                        found.update(f"{name}={value}" for value in words(listed))
    for place, names in SENTENCES.items():
        found.update(f"{place}.{name}" for name in names.split())
    return found | roles_of_the_page() | types_of_the_page()


def roles_of_the_page() -> set[str]:
    """Return each role with each of its kinds, and the access."""
    found = set()
    text = TEXT.partition("| `role` | `kind` | `access` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([`\w, ]+) \| (?:`(\w+)`)? ?\|", text, re.MULTILINE)
    for role, kinds, access in rows:
        found.update(f"role.{role} {kind} {access}" for kind in words(kinds))
    return found


def types_of_the_page() -> set[str]:
    """Return the code of each type in the table of types."""
    text = TEXT.partition("\n### A type\n")[2].partition("\n### ")[0]
    found = {"type.another"}
    for cell in re.findall(r"^\| (\d[\d, to]*) \|", text, re.MULTILINE):
        first, *_, last = map(int, re.findall(r"\d+", f"{cell} {cell}"))
        found.update(f"type.{code}" for code in range(first, max(first, last) + 1))
    return found


def keys_of_the_files() -> set[str]:
    found = set()
    for path in sorted(V1.iterdir()):
        if path.suffix == ".bytes":
            found.update(of_module(path.stem, path.read_bytes()))
        elif path.suffix == ".devmod":
            found.update(of_file(path.read_bytes()))
        elif path.name == "records.json":
            for record in json.loads(path.read_text(encoding="utf-8"))["records"]:
                found.update(of_record(record))
    return found


def of_file(data: bytes, *, with_bytes: bool = True) -> Iterator[str]:
    """Yield the keys in the index of a file, and those in the bytes of its records."""
    head = head_of(data)
    yield from named("head", head)
    if any(name.endswith("+") for name, *_ in head.get("sections", [])):
        yield "section.keep"
    blobs = blobs_of(data)
    end = 0
    for page, (_, _, total, *_) in zip(pages_of(data), head["pages"], strict=True):
        yield from named("page", page)
        for differs, *structs in page.get("calls", {}).values():
            if differs:
                yield "calls.order"
            if structs:
                yield "calls.structs"
        begin = end = aligned(end)
        for place in ("modules", "sources", "parts", "attached"):
            for record in page.get(place, []):
                yield from named(place.replace("modules", "module"), record)
                yield from named("origin", record.get("origin", {}))
                if not record.get("size"):
                    continue
                at = aligned(end) + record.get("shift", 0)
                end = at + record["size"]
                if with_bytes and "zstd" not in record:
                    yield from of_bytes(place, record, blobs[at:end])
        end = begin + total


def of_bytes(place: str, record: Fields, data: bytes) -> Iterator[str]:
    """Yield the keys in the bytes of a record."""
    if place == "modules":
        yield from of_module(record["kind"], data)
    elif record.get("tag") == "tuning+":
        for each in msgpack.unpackb(data):
            yield from of_record(each)


def of_module(kind: str, data: bytes) -> Iterator[str]:
    """Yield the keys in a module's bytes. The shaders behind the functions may have repeats."""
    objects = msgpack.Unpacker(strict_map_key=False)
    objects.feed(data)
    if kind == "const_loader":
        for type_, _, _ in objects.unpack().values():
            yield of_type(type_)
        return
    if kind not in KINDS:
        return
    if kind != "webgpu":
        objects.skip()
    functions = objects.unpack()
    for _, types, _, _, *more in functions.values():
        yield f"function.{4 + len(more)}"
        yield from map(of_type, types)
        if more:
            yield from of_interface(more[0])
        if len(more) > 1:
            yield from of_tune(more[1])
    if kind == "program":
        for steps in objects.unpack().values():
            yield from of_steps(msgpack.unpackb(steps))


def of_type(numbers: list[int]) -> str:
    code = numbers[0]
    return f"type.{code}" if code < 18 else "type.another"


def of_interface(fields: Fields) -> Iterator[str]:
    yield from named("interface", fields)
    for block in fields.get("blocks", []):
        yield from named("block", block)
    for constant in fields.get("constants", []):
        yield from named("constant", constant)
    for item in fields.get("block_constants", []):
        if item == -1:
            yield "block_constants.-1"
        elif isinstance(item, int):
            yield "block_constants.position"
        else:
            yield "block_constants.array"
    if isinstance(fields.get("shared_memory"), dict):
        yield from named("shared_memory", fields["shared_memory"])
    for parameter in fields.get("params", []):
        yield from named("parameter", parameter)
        if isinstance(parameter.get("default"), dict):
            yield from named("default", parameter["default"])
        if "role" in parameter:
            access = parameter.get("access", "")
            yield f"role.{parameter['role']} {parameter['kind']} {access}"
        for each in parameter.get("shape", []):
            yield from of_value(each)
        yield from of_members(parameter)


def of_members(fields: Fields) -> Iterator[str]:
    for member in fields.get("members", []):
        yield from named("member", member)
        yield from of_members(member)


def of_tune(fields: Fields) -> Iterator[str]:
    yield from named("tune", fields)
    for variant in fields["variants"]:
        yield from named("variant", variant)
    for dims in (fields, *fields["variants"]):
        for each in (*dims.get("grid", []), *dims.get("block", [])):
            yield from of_value(each)


def of_steps(fields: Fields) -> Iterator[str]:
    yield from named("steps", fields)
    for sign, *sides in fields.get("requires", []):
        yield f"comparison.{sign}"
        for side in sides:
            yield from of_value(side)
    for _, values, launch in fields["steps"]:
        yield from named("launch", launch)
        for dims in launch.values():
            for each in dims:
                yield from of_value(each)
        for value in values.values():
            yield from of_value(value)


def of_value(value: Any) -> Iterator[str]:
    """Yield the form of the value of an argument, and the operators in an expression."""
    if isinstance(value, list) and value[0] == "view":
        yield "value.view"
    elif isinstance(value, list):
        yield "value.expression"
        yield f"expression.{value[0]}"
        for each in value[1:]:
            yield from of_value(each)
    elif isinstance(value, bool):
        yield "value.boolean"
    elif isinstance(value, float):
        yield "value.float"
    elif isinstance(value, str):
        yield "value.name"


def of_record(fields: Fields) -> Iterator[str]:
    """Yield the keys of a tuning record."""
    yield from named("tuning", fields)
    for measured in fields.get("measured", []):
        yield from named("measured", measured)
        for _, seconds, *more in measured["times"]:
            if seconds is None:
                yield "time.nil"
            elif seconds is False:
                yield "time.false"
            else:
                yield "time.seconds"
            for name, value in zip(("turns", "spread"), more, strict=False):
                if value:
                    yield f"time.{name}"


def named(place: str, fields: Fields) -> Iterator[str]:
    """Yield the name of each key, and of each value that is a string."""
    for key, value in fields.items():
        yield f"{place}.{key}"
        if isinstance(value, str):
            yield f"{place}.{key}={value}"


KINDS = ("cuda", "rocm", "opencl", "hexagon", "metal", "vulkan", "webgpu", "program")


def test_the_tables_of_the_page_are_known() -> None:
    """A new table of keys is read here too."""
    known = sum(map(len, TABLES.values()))
    assert known == len(re.findall(r"^\| key \|", TEXT, re.MULTILINE))
    for section, places in TABLES.items():
        assert len(rows_of(section)) == len(places), section
    assert len(keys_of_the_page()) > 170


def test_each_key_of_the_page_is_in_a_golden_file() -> None:
    missing = keys_of_the_page() - keys_of_the_files()
    assert missing == {*EXCEPTIONS}


def test_the_files_of_later_versions_have_the_others() -> None:
    later = V1.parent / "later"
    found = set()
    for path in some(later.glob("*.devmod")):
        found.update(of_file(path.read_bytes(), with_bytes=False))
    assert {*EXCEPTIONS} <= found
