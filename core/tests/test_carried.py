"""What a save does with what a newer devmod has written: keep it, drop it with a warning, or refuse
to save.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import msgpack
import pytest
from each_case import error_of
from stored import blobs_of, entry, head_of, headed, location_of, pages_of, row

import devmod
from devmod.backend import verify_rest, walk
from devmod_workbench._cli import main

pytestmark = pytest.mark.row("R56")

UPGRADE = "pip install --upgrade devmod-core"
PLACE = "the bundle in memory"


def code_of(name: str) -> bytes:
    """The bytes of an opencl module with one function."""
    return msgpack.packb("cl") + msgpack.packb({name: ["k", [], [], []]}) + msgpack.packb(b"//")


class File:
    """The parts of a file of one module with a function, which a test adds to."""

    def __init__(self, name: str = "f") -> None:
        code = code_of(name)
        self.record = entry(code, rank=0, functions=[name])
        self.page: dict[str, Any] = {"modules": [self.record]}
        self.head: dict[str, Any] = {"candidates": 1}
        self.blobs = [code]
        self.attached: list[bytes] = []
        self.sections: dict[str, bytes] = {}

    def attach(self, function: str, tag: str, data: bytes, **more: Any) -> File:
        rows = self.page.setdefault("attached", [])
        rows.append({"function": function, "tag": tag, **location_of(data), **more})
        self.attached.append(data)
        return self

    def build(self) -> bytes:
        body = b""
        for data in (*self.blobs, *self.attached):
            body = body.ljust(-(-len(body) // 64) * 64, b"\0") + data
        page = msgpack.packb(self.page)
        head = {**self.head, "pages": [row(page, 1, len(body))]}
        if self.sections:
            head["sections"] = [
                [name, len(data), location_of(data)["sha256"]]
                for name, data in self.sections.items()
            ]
        for data in self.sections.values():
            body = body.ljust(-(-len(body) // 64) * 64, b"\0") + data
        return headed(head, page, body)


def with_name(what: str, name: str, value: str = "x") -> File:
    """A file that has something of an unknown name, with a value."""
    file = File()
    if what == "head":
        file.head[name] = [value, {"a": 1.5}]
    elif what == "record":
        file.record[name] = [value, None, b"\1"]
    elif what == "section":
        file.sections[name] = value.encode() * 100
    else:
        file.attach("f", name, value.encode() * 70)
    return file


def value_of(data: bytes, what: str, name: str) -> Any:
    """What a file has of a name; None if it has nothing."""
    if what == "head":
        return head_of(data).get(name)
    (page,) = pages_of(data)
    if what == "record":
        return page["modules"][0].get(name)
    if what == "section":
        rows = {row[0]: row for row in head_of(data).get("sections", ())}
        if name not in rows:
            return None
        return blobs_of(data)[-rows[name][1] :], rows[name][2]
    rows = {row["tag"]: row for row in page.get("attached", ())}
    if name not in rows:
        return None
    return rows[name], rows[name]["size"]


WHAT = ("head", "record", "section", "attachment")
#: How messages name it, and where.
NOUNS = {
    "head": f"{PLACE} has the key",
    "record": f"{PLACE}: the opencl module with 'f' has the key",
    "section": f"{PLACE} has the section",
    "attachment": f"{PLACE} has for the function 'f' the attachment",
}


@pytest.mark.parametrize("what", WHAT)
def test_a_name_with_a_plus_is_kept(what: str) -> None:
    data = with_name(what, "lora+").build()
    assert value_of(data, what, "lora+") is not None
    saved = devmod.dumps(devmod.loads(data))
    assert value_of(saved, what, "lora+") == value_of(data, what, "lora+")
    assert devmod.dumps(devmod.loads(saved)) == saved
    # Also in a bundle with a file that has none of it.
    other = devmod.loads(File("g").build())
    joined = devmod.dumps(devmod.bundle(devmod.loads(data), other))
    assert value_of(joined, what, "lora+") == value_of(data, what, "lora+")


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", ["lora", "lora+x", "+lora", ""])
def test_another_name_is_dropped_with_a_warning(what: str, name: str) -> None:
    data = with_name(what, name).build()
    with pytest.warns(UserWarning, match="It is not saved") as caught:
        saved = devmod.dumps(devmod.loads(data))
    text = f"{NOUNS[what]} {name!r}, which a newer devmod wrote. It is not saved"
    assert [str(each.message) for each in caught] == [text]
    assert value_of(saved, what, name) is None
    assert devmod.loads(saved).save_to_bytes() == code_of("f")


@pytest.mark.parametrize("what", WHAT)
def test_a_name_with_an_exclamation_mark_makes_the_save_an_error(what: str, tmp_path: Path) -> None:
    module = devmod.loads(with_name(what, "lora!").build())
    assert list(module) == ["f"]
    assert module.save_to_bytes() == code_of("f")
    path = tmp_path / "k.devmod"
    path.write_bytes(b"before")
    text = f"{NOUNS[what]} 'lora!', which a newer devmod wrote and this one cannot save: {UPGRADE}"
    assert str(error_of(devmod.save, module, path)) == text
    assert path.read_bytes() == b"before"
    bundle = devmod.bundle(module, devmod.loads(File("g").build()))
    assert str(error_of(devmod.dumps, bundle)) == text


def test_several_that_are_dropped_are_one_warning() -> None:
    file = with_name("head", "a")
    file.record["b"] = 1
    file.sections["c"] = b"c"
    with pytest.warns(UserWarning, match="So it is with 2 more$"):
        devmod.dumps(devmod.loads(file.build()))


@pytest.mark.parametrize("what", ["head", "section", "attachment"])
def test_two_files_that_differ_in_what_is_kept_are_not_joined(what: str) -> None:
    one, same, other = (
        devmod.loads(with_name(what, "lora+", value).build()) for value in ("x", "x", "y")
    )
    assert devmod.dumps(devmod.bundle(one, same))
    names = {
        "head": "the key 'lora+'",
        "section": "the section 'lora+'",
        "attachment": "the attachment 'lora+' of 'f'",
    }
    assert str(error_of(devmod.dumps, devmod.bundle(one, other))) == (
        f"{PLACE} and another file differ in {names[what]}, which this devmod does not know and cannot join. "
        f"A newer one may: {UPGRADE}"
    )


def test_keys_of_a_page_are_dropped_without_a_word() -> None:
    file = File()
    file.page |= {"later!": 1, "kept+": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saved = devmod.dumps(devmod.loads(file.build()))
    assert set(pages_of(saved)[0]) == {"modules"}


def test_attachments_of_functions_that_are_not_saved_are_left_out() -> None:
    file = File().attach("f", "a+", b"1").attach("g", "a+", b"2").attach("g", "b!", b"3")
    (page,) = pages_of(devmod.dumps(devmod.loads(file.build())))
    assert [(each["function"], each["tag"]) for each in page["attached"]] == [("f", "a+")]


def test_records_of_tomorrow_are_saved_with_all_that_they_have() -> None:
    """The kind of a module is opencl, its bytes are in a form of tomorrow, and it has parts."""
    later = b"\xff\xfe in a form of tomorrow" * 3
    part = b"a payload of tomorrow" * 5000
    record = {
        "kind": "opencl",
        "format": "cl",
        "functions": ["h"],
        "rank": 0,
        "features": ["brotli"],
        **location_of(later),
        "shift": 5,
        "zstd": [2**40, bytes(32)],
        "parts": [1],
        "brotli": [7, b"key"],
    }
    body = bytes(5) + later
    body = body.ljust(-(-len(body) // 64) * 64, b"\0") + part
    page = msgpack.packb(
        {"modules": [record], "parts": [{"features": ["aes"], **location_of(part)}]}
    )
    data = headed({"candidates": 1, "pages": [row(page, 2, len(body))]}, page, body)
    module = devmod.loads(data)
    text = (
        f"{PLACE}: the opencl module with 'h' needs 'brotli', which a newer devmod reads: {UPGRADE}"
    )
    assert str(error_of(module.save_to_bytes)) == text
    saved = devmod.dumps(devmod.bundle(devmod.loads(File().build()), module, mixed=True))
    (page,) = pages_of(saved)
    found = next(each for each in page["modules"] if each["functions"] == ["h"])
    assert found == record | {"rank": 1, "parts": [2]}
    assert page["parts"][0]["features"] == ["aes"]
    assert page["parts"][0]["sha256"] == location_of(part)["sha256"]
    for each in (module, devmod.loads(saved)):
        for one in walk(each):
            if one.kind == "opencl":
                one.verify()
        verify_rest(each)
    damaged = saved.replace(b"payload of tomorrow", b"Payload of tomorrow", 1)
    _, found = devmod.loads(damaged).imports
    assert "is damaged" in str(error_of(found.verify))


def test_parts_of_another_kind_need_a_feature() -> None:
    file = File()
    file.record["parts"] = [1]
    assert str(error_of(devmod.loads, file.build())) == (
        "the index of the bundle in memory: modules, 0: a module of kind 'opencl' has parts, which only constants and "
        "modules with features have, at byte 10"
    )


def changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_check_of_the_whole_file_finds_each_changed_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = with_name("section", "lora+")
    file.attach("f", "notes+", b"n" * 100)
    file.head["align"] = 4096
    data = file.build()
    verify_rest(devmod.loads(data))
    start = len(data) - len(blobs_of(data))
    assert start == 4096
    path = tmp_path / "k.devmod"
    places = {
        "the SHA-256 of its section 'lora+' is not": len(data) - 3,
        "the attachment 'notes+' of 'f' is damaged: its SHA-256": start + 70,
        "the bytes between two of its parts are not zero": start - 100,
    }
    for text, at in places.items():
        damaged = changed(data, at)
        assert text in str(error_of(verify_rest, devmod.loads(damaged))), text
        path.write_bytes(damaged)
        assert main(["inspect", "--verify", str(path)]) == 1
        assert text in capsys.readouterr().err


def test_inspect_lists_what_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = with_name("section", "lora+")
    file.head |= {"made_for": 1, "licence!": 2}
    file.attach("f", "notes", b"n" * 100)
    path = tmp_path / "k.devmod"
    path.write_bytes(file.build())
    assert main(["inspect", str(path)]) == 0
    assert (
        f"""Not known to this devmod; a newer one may: {UPGRADE}
  the key 'made_for': a save drops it
  the key 'licence!': a save is refused
  the section 'lora+', 100 B: a save keeps it
  the attachment 'notes' of 'f', 100 B: a save drops it
"""
        in capsys.readouterr().out
    )
    assert main(["inspect", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["unknown"] == [
        {"what": "key", "name": "made_for", "save": "drops it"},
        {"what": "key", "name": "licence!", "save": "is refused"},
        {"what": "section", "name": "lora+", "bytes": 100, "save": "keeps it"},
        {
            "what": "attachment",
            "function": "f",
            "name": "notes",
            "bytes": 100,
            "save": "drops it",
        },
    ]


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, "  and 1 more, which --json has\n")])
def test_inspect_lists_eight_unknown_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, more: str
) -> None:
    file = with_name("section", "lora+")
    file.head |= {f"key{number}": 1 for number in range(count - 1)}
    path = tmp_path / "k.devmod"
    path.write_bytes(file.build())
    assert main(["inspect", str(path)]) == 0
    _, _, listed = capsys.readouterr().out.partition("Not known to this devmod")
    shown = listed.split("\n\n")[0].partition("\n")[2] + "\n"
    assert shown.count(": a save ") == 8
    assert shown.endswith(f": a save drops it\n{more}" if more else "100 B: a save keeps it\n")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([{"function": "f", "tag": "a"}], "attached, 0: no size"),
        ([{"tag": "a", **location_of(b"")}], "attached, 0: no function"),
        ([{"function": "f", **location_of(b"")}], "attached, 0: no tag"),
        (
            [{"function": 1, "tag": "a", **location_of(b"")}],
            "attached, 0, function: expected a string, found an integer",
        ),
        (
            [{"function": "f", "tag": "a", **location_of(b"")}] * 2,
            "two attachments have the same function and tag",
        ),
        (
            [{"function": "f", "tag": "a", **location_of(b""), "shift": 65536}],
            "attached, 0, shift: 65536 is not between 0 and 65535",
        ),
    ],
)
def test_attachments_of_another_form_are_refused(rows: list[dict[str, Any]], text: str) -> None:
    file = File()
    file.page["attached"] = rows
    assert f"the index of {PLACE}: {text}, at byte" in str(error_of(devmod.loads, file.build()))


@pytest.mark.parametrize("align", [0, 32, 63, 96, 4095, 131072, "64", 4096.0])
def test_an_alignment_of_another_form_is_refused(align: Any) -> None:
    file = File()
    data = file.build()
    head = {**head_of(data), "align": align}
    page = msgpack.packb(file.page)
    packed = msgpack.packb(head)
    start = headed(packed, page)
    assert f"the index of {PLACE}: align: " in str(error_of(devmod.loads, start + bytes(1 << 18)))
