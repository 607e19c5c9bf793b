"""The .devmod files that are refused, and the texts of the errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest
from each_case import refusal
from stored import Raw, entry, file_of, head_of, headed, module_of, pages_of, row

import devmod

pytestmark = pytest.mark.once  # the bytes of files, and core's errors

# -- what is refused

BLOB = b"\xa2cl\x80\xc4\x03abc"
GOOD = file_of({"roots": [0], "modules": [entry(BLOB)]}, BLOB)


def refused(data: bytes) -> str:
    """Return the error of `devmod.loads`, or of the first use of an origin."""
    with pytest.raises(devmod.FormatError) as caught:
        _ = devmod.loads(data).origin
    return str(caught.value)


def test_a_file_made_by_hand_is_read() -> None:
    assert devmod.loads(GOOD).save_to_bytes() == BLOB


DEVELOPMENT = "is a development file, from before version 1 of the .devmod format: build it again"
FILE = "devmod.load_from_file(%r) reads a payload that has a metadata file beside it"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a bundle: it does not begin with the magic bytes of a .devmod file"),
        (
            b"\x7fELF" + bytes(100),
            "is not a bundle: it does not begin with the magic bytes of a .devmod file",
        ),
        (
            GOOD.replace(b"\n", b"\r\n", 1),
            "is not a bundle: it does not begin with the magic bytes of a .devmod file",
        ),
        (GOOD[:5], "is cut short: 5 bytes, and the header alone takes 48"),
        (GOOD[:47], "is cut short: 47 bytes, and the header alone takes 48"),
        (GOOD[:60], "is cut short: a head of 69 bytes, and 12 are left"),
        (GOOD[:170], "is cut short: 170 bytes, and its index alone takes 256"),
        (GOOD[:-1], "is cut short: 264 bytes; expected are 265"),
        (GOOD + b"!", "has 1 bytes more than its index describes; expected are 265"),
        (
            file_of({}, number=6),
            "is in version 2 of the .devmod format, and this devmod reads version 1: pip install -U devmod-core",
        ),
        *((file_of({}, number=number), DEVELOPMENT) for number in (1, 2, 3, 4)),
        (file_of({}, number=0), "is damaged: the number 0 of the .devmod format does not exist"),
        (
            file_of({}, length=2**32 - 1),
            "is damaged: its head has 4294967295 bytes; the limit is 67108864",
        ),
        (
            file_of({}, digest=bytes(32)),
            "is damaged: the SHA-256 of its head is not the one in its header. Get the file again",
        ),
        (
            GOOD.replace(b"opencl", b"openCL"),
            "is damaged: the SHA-256 of a page of its index is not the one in its head. Get the file again",
        ),
    ],
)
def test_an_error_in_the_head_names_the_fault(data: bytes, message: str) -> None:
    assert refused(data) == f"the bundle in memory {message}"


def test_a_file_is_named_in_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    path.write_bytes(b"")
    assert (
        refusal(devmod.FormatError, devmod.load, path)
        == f"{str(path)!r} is not a bundle: it does not begin with the magic bytes of a .devmod file"
    )


TREE = {"kind": "bundle"}
SIZED, SOURCE = entry(BLOB), {"size": 0, "sha256": bytes(32)}
ROW = row(b"\x80", 0, 0)
FOUR = "expected an array of 4, or of 6 for a page with names, and those with names first"
NAMES = "its first name is not behind that of the page before, or is not empty for the first page"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"", ": the bytes end where an object should begin, at byte 0"),
        (b"\x80\x80", ": 1 more byte follows the last field, at byte 1"),
        ([], ": expected a map, found an array, at byte 0"),
        ({}, " has no candidates"),
        ({"candidates": 1}, " has no pages"),
        (
            {"candidates": -1, "pages": [ROW]},
            ": candidates: -1 is not between 0 and 4294967295, at byte 12",
        ),
        ({"candidates": 0, "pages": [ROW]}, " has no root"),
        ({"candidates": 1, "roots": [], "pages": [ROW]}, " has no root"),
        (
            {"candidates": 1, "roots": 0, "pages": [ROW]},
            ": roots: expected an array, found an integer, at byte 19",
        ),
        ({"candidates": 1, "roots": [0, 0], "pages": [ROW]}, " names a root twice"),
        ({"candidates": 1, "pages": []}, ": pages: expected at least one page, at byte 20"),
        ({"candidates": 1, "pages": [ROW[:5]]}, f": pages, 0: {FOUR}, at byte 20"),
        ({"candidates": 1, "pages": [ROW[:4], ROW]}, f": pages, 1: {FOUR}, at byte 58"),
        ({"candidates": 1, "pages": [[*ROW[:4], 0, b"a"]]}, f": pages, 0: {NAMES}, at byte 20"),
        ({"candidates": 1, "pages": [ROW, ROW]}, f": pages, 1: {NAMES}, at byte 61"),
        (
            {"candidates": 1, "pages": [ROW, [*ROW[:4], 1, b"b"]]},
            ": pages, 1: 1 is not between 0 and 0, at byte 99",
        ),
        (
            {"candidates": 1, "pages": [[0, 0, *ROW[2:]]]},
            ": pages, 0: 0 is not between 1 and 67108864, at byte 22",
        ),
        (
            {"candidates": 1, "pages": [[0, 2**27, *ROW[2:]]]},
            ": pages, 0: 134217728 is not between 1 and 67108864, at byte 22",
        ),
        (
            {"candidates": 1, "pages": [[0, 1, 2**63, *ROW[3:]]]},
            f": pages, 0: {2**63} is not between 0 and {2**63 - 1}, at byte 23",
        ),
        (
            {"candidates": 1, "pages": [[2, *ROW[1:]]]},
            ": pages, 0: a SHA-256 of 32 bytes, or 2 records in 1 bytes, at byte 20",
        ),
        (
            {"candidates": 1, "pages": [[*ROW[:3], b"", *ROW[4:]]]},
            ": pages, 0: a SHA-256 of 0 bytes, or 0 records in 1 bytes, at byte 20",
        ),
        ({"candidates": 1, "roots": [0], "pages": [ROW]}, " has no module of the number 0"),
        (
            {"candidates": 1, "pages": [ROW]},
            ": two parts of it describe a candidate in different ways",
        ),
    ],
)
def test_an_error_in_the_parts_of_a_head_names_the_place(head: Any, message: str) -> None:
    assert refused(headed(head, b"\x80")) == f"the index of the bundle in memory{message}"


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"", ": pages, 0: 0 is not between 1 and 67108864, at byte 30"),
        (b"\x80\x80", ": 1 more byte follows the last field, at byte 1"),
        ([], ": expected a map, found an array, at byte 0"),
        ({"roots": [1], "modules": [entry(BLOB)]}, " has no module of the number 1"),
        ({"modules": [1]}, ": modules, 0: expected a map, found an integer, at byte 10"),
        (
            {"modules": [{}]},
            ": modules, 0: no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}, at byte 10",
        ),
        (
            {"modules": [entry(BLOB, kind="a; rm -rf")]},
            ": modules, 0: no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}, at byte 10",
        ),
        (
            {"modules": [entry(BLOB, kind=b"cuda")]},
            ": modules, 0, kind: expected a string, found a binary, at byte 16",
        ),
        (
            {"modules": [entry(BLOB, size=None)]},
            ": modules, 0: a module of kind 'opencl' has a size and sha256; found: sha256, at byte 10",
        ),
        (
            {"modules": [entry(BLOB, kind="bundle")]},
            ": modules, 0: a module of kind 'bundle' has no size and sha256; found: size, sha256, at byte 10",
        ),
        (
            {"modules": [entry(BLOB, sha256=bytes(31))]},
            ": modules, 0: a sha256 of 31 bytes, at byte 10",
        ),
        (
            {"modules": [entry(BLOB, size=-1)]},
            ": modules, 0, size: -1 is not between 0 and 9223372036854775807, at byte 51",
        ),
        (
            {"modules": [entry(BLOB, functions="f")]},
            ": modules, 0, functions: expected an array, found a string, at byte 43",
        ),
        (
            {"modules": [entry(BLOB, origin=[])]},
            ": modules, 0, origin: expected a map, found an array, at byte 100",
        ),
        (
            {"modules": [entry(BLOB, origin={"target": 1})]},
            ": modules, 0, origin: the target and the toolchain of an origin are strings, at byte 100",
        ),
        (
            {"modules": [entry(BLOB, size=8)]},
            ": the records of a page have 8 bytes, and the head says 9",
        ),
        (
            {"modules": [entry(BLOB, size=2**62)]},
            f": the records of a page have {2**62} bytes, and the head says 9",
        ),
        ({"modules": [entry(BLOB, sources=0)]}, " has no sources of the number 0"),
        ({"modules": [entry(BLOB, sources=1)]}, " has no sources of the number 1"),
        (
            {"modules": [SIZED, TREE | {"imports": [0]}], "roots": [0, 1], "sources": [SOURCE]},
            ": no module has the sources 2",
        ),
        (
            {"modules": [SIZED, TREE | {"imports": [2]}], "roots": [0, 1], "sources": [SOURCE]},
            " has no module of the number 2",
        ),
        (
            {"modules": [SIZED, TREE | {"imports": [1]}], "roots": [0, 1]},
            ": module 1 imports itself, directly or through others",
        ),
        (
            {"modules": [TREE | {"imports": [1, 2]}, TREE | {"imports": [0]}, SIZED]},
            ": module 0 imports itself, directly or through others",
        ),
        ({"modules": [TREE | {"imports": [3, 1]}, TREE, SIZED]}, " has no module of the number 3"),
        ({"modules": [SIZED, TREE]}, ": module 1 is neither a candidate nor imported"),
        (
            {"modules": [TREE | {"imports": [number + 1]} for number in range(70)] + [SIZED]},
            ": module 64 is more than 64 imports deep",
        ),
    ],
)
def test_an_error_in_a_page_names_the_place(index: Any, message: str) -> None:
    assert refused(file_of(index, BLOB)) == f"the index of the bundle in memory{message}"


@pytest.mark.parametrize("ranks", [(0, 0), (1, 0), (0, 2), (0, None), (None, None)])
def test_ranks_that_are_not_those_of_the_tree_are_refused(ranks: tuple[int | None, ...]) -> None:
    modules = [SIZED | {"rank": 0}, entry(b"") | {"rank": 1}]
    page = {"modules": modules}
    head = {"candidates": 2, "roots": [0, 1], "pages": [row(msgpack.packb(page), 2, len(BLOB))]}
    assert list(devmod.loads(headed(head, msgpack.packb(page), BLOB))) == ["f"]
    page = {
        "modules": [
            each | ({} if rank is None else {"rank": rank})
            for each, rank in zip((SIZED, entry(b"")), ranks, strict=True)
        ]
    }
    head = head | {"pages": [row(msgpack.packb(page), 2, len(BLOB))]}
    text = (
        "the index of the bundle in memory: two parts of it describe a candidate in different ways"
    )
    assert refused(headed(head, msgpack.packb(page), BLOB)) == text


def test_keys_that_are_not_known_are_skipped() -> None:
    index = {"roots": [0], "later": [{"x": 1}], "modules": [entry(BLOB, later={"y": [None]})]}
    assert devmod.loads(file_of(index, BLOB)).save_to_bytes() == BLOB
    again = b"\x82\xa7modules\x90\xa7modules\x90"
    assert (
        refused(file_of(again))
        == "the index of the bundle in memory: the key 'modules' is repeated, at byte 10"
    )
    assert (
        devmod.loads(
            headed(
                head_of(GOOD) | {"later": [{}]}, b"".join(map(msgpack.packb, pages_of(GOOD))), BLOB
            )
        ).save_to_bytes()
        == BLOB
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "metal"},
        {"format": "clbin", "variant": "a"},
        {"functions": ["f", "g"]},
        {"functions": None},
        {"later": [1, {"x": None}]},
    ],
    ids=lambda changes: ",".join(changes),
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_module_is_read_the_same_after_any_other(changes: dict[str, Any], order: int) -> None:
    own = dict(list(entry(BLOB, **changes).items())[::order])
    index = {"roots": [0, 1, 2], "modules": [entry(BLOB), own, entry(BLOB)]}
    first, second, third = devmod.loads(file_of(index, BLOB.ljust(64, b"\0") * 2 + BLOB)).imports
    (alone,) = [devmod.loads(file_of({"roots": [0], "modules": [own]}, BLOB))]
    told = [
        (each.kind, each.format, getattr(each, "function_names"), getattr(each, "variant"))  # noqa: B009
        for each in (first, second, alone, third)
    ]
    assert (
        told[1]
        == told[2]
        == (own["kind"], own["format"], tuple(own.get("functions", ())), own.get("variant", ""))
    )
    assert told[0] == told[3] == ("opencl", "cl", ("f",), "")


def test_a_duplicate_key_is_refused_after_a_module_with_the_same_key() -> None:
    pairs = [(key, msgpack.packb(key) + msgpack.packb(value)) for key, value in entry(BLOB).items()]
    twice = [pairs[1][1], pairs[1][1], *(pair for _, pair in pairs[2:])]
    modules = [
        bytes([0x80 + len(each)]) + b"".join(each) for each in ([pair for _, pair in pairs], twice)
    ]
    assert "modules, 1: the key 'format' is repeated, at byte " in refused(
        file_of(b"\x81\xa7modules\x92" + b"".join(modules), BLOB)
    )


@pytest.mark.row("R41")
def test_a_flipped_byte_anywhere_is_found_before_the_bytes_are_used(
    register: Any, tmp_path: Path
) -> None:
    used = []
    register(
        "devmod.load_from_bytes",
        "opencl",
        lambda data: used.append(bytes(data)) or Raw("opencl", bytes(data), functions=("f",)),
    )
    path = tmp_path / "k.devmod"
    data = file_of({"roots": [0], "modules": [entry(BLOB)]}, BLOB)
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        padding = (
            48 + int.from_bytes(data[12:16], "little") + head_of(data)["pages"][0][1]
            <= at
            < len(data) - len(BLOB)
        )
        if padding:
            continue
        with pytest.raises(devmod.FormatError) as caught:
            devmod.load(path).get_function("f")
        if at >= len(data) - len(BLOB):
            assert str(caught.value) == (
                f"{str(path)!r}: the opencl module with 'f' is damaged: its SHA-256 is not the one in the index. "
                "Nothing of it was used. Get the file again from where it came"
            )
    assert used == []
    path.write_bytes(data)
    devmod.load(path).get_function("f")
    assert used == [BLOB]


@pytest.mark.row("R41")
def test_damage_is_not_saved_as_if_it_were_sound(tmp_path: Path) -> None:
    damaged = devmod.loads(GOOD[:-1] + b"X")
    acts = [
        damaged.save_to_bytes,
        lambda: devmod.dumps(damaged),
        lambda: devmod.save(damaged, tmp_path / "k.devmod"),
    ]
    acts.append(
        lambda: devmod.dumps(devmod.bundle(module_of("cuda", code=bytes(2 << 20)), damaged))
    )
    for act in acts:
        with pytest.raises(
            devmod.FormatError,
            match=r"^the bundle in memory: the opencl module with 'f' is damaged: ",
        ):
            act()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [b"\x89devmod\n", bytearray(b"k"), memoryview(b"k"), 3, None])
def test_a_value_that_is_no_path_is_an_argument_error(path: Any) -> None:
    bundle = "devmod.loads(data) reads a bundle in memory"
    calls = {
        "load(path)": (devmod.load, bundle),
        "load_from_file(path)": (
            devmod.load_from_file,
            "devmod.load_from_bytes(kind, data) takes bytes in memory",
        ),
        "load_library(path)": (
            devmod.interop.tvm.load_library,
            "load_imports(data) takes an imports blob in memory",
        ),
    }
    for call, (load, hint) in calls.items():
        with pytest.raises(devmod.ArgumentError) as caught:
            load(path)
        told = f". {hint}" if isinstance(path, (bytes, bytearray, memoryview)) else ""
        assert (
            str(caught.value)
            == f"{call}: path is a str or an os.PathLike, not {type(path).__name__}{told}"
        )
        assert caught.value.argument == "path"


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("k.cl", "devmod.compile(pathlib.Path(%r), 'opencl') compiles a source; " + FILE),
        ("k.CU", "devmod.compile(pathlib.Path(%r), 'cuda') compiles a source; " + FILE),
        ("k.comp", "devmod.compile(pathlib.Path(%r), 'vulkan') compiles a source"),
        ("k.ptx", "devmod.compile(pathlib.Path(%r), 'cuda') compiles a source; " + FILE),
        ("k.so", FILE + "; devmod.interop.tvm.load_library(%r) reads a library that TVM exported"),
        ("k.txt", ""),
        ("k", ""),
        ("k.devmod", ""),
    ],
)
def test_a_file_of_another_form_is_refused_with_the_function_that_reads_it(
    name: str, takes: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text("a kernel of some sort")
    with pytest.raises(devmod.FormatError) as caught:
        devmod.load(path)
    told = f". {takes}".replace("%r", repr(str(path))) if takes else ""
    assert (
        str(caught.value)
        == f"{str(path)!r} is not a bundle: it does not begin with the magic bytes of a .devmod file{told}"
    )


@pytest.mark.parametrize("data", [1, None, "text", [1]])
def test_a_value_that_is_no_buffer_is_an_argument_error(data: Any) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        devmod.loads(data)
    path = ". devmod.load(path) takes a path" if isinstance(data, str) else ""
    assert (
        str(caught.value)
        == f"loads(data): data is bytes or another buffer, not {type(data).__name__}{path}"
    )
    assert caught.value.argument == "data"
