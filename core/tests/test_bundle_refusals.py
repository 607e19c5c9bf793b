"""The .devmod files that are refused, and the texts of the errors. tests/golden/bad has files that
were refused before, in the same words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest
from each_case import raised, refusal
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


FILE = "devmod.load_from_file(%r) reads a payload that has a metadata file beside it"


SIZED, SOURCE = entry(BLOB), {"size": 0, "sha256": bytes(32)}
ROW = row(b"\x80", 0, 0)
#: Errors, and heads and pages that have them. tests/golden/bad has most.
INVALID = {
    ": candidates: -1 is not between 0 and 4294967295, at byte 12": headed(
        {"candidates": -1, "pages": [ROW]}, b"\x80"
    ),
    f": pages, 0: {2**63} is not between 0 and {2**63 - 1}, at byte 23": headed(
        {"candidates": 1, "pages": [[0, 1, 2**63, *ROW[3:]]]}, b"\x80"
    ),
    " has no sources of the number 0": file_of({"modules": [entry(BLOB, sources=0)]}, BLOB),
}


@pytest.mark.parametrize("message", INVALID)
def test_an_error_in_an_index_names_the_place(message: str) -> None:
    assert refused(INVALID[message]) == f"the index of the bundle in memory{message}"


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
        text = refusal(devmod.FormatError, lambda: devmod.load(path)["f"])
        if at >= len(data) - len(BLOB):
            assert text == (
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
        error = raised(devmod.ArgumentError, load, path)
        told = f". {hint}" if isinstance(path, (bytes, bytearray, memoryview)) else ""
        assert (
            str(error)
            == f"{call}: path is a str or an os.PathLike, not {type(path).__name__}{told}"
        )
        assert error.argument == "path"


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
    text = refusal(devmod.FormatError, devmod.load, path)
    told = f". {takes}".replace("%r", repr(str(path))) if takes else ""
    assert (
        text
        == f"{str(path)!r} is not a bundle: it does not begin with the magic bytes of a .devmod file{told}"
    )


@pytest.mark.parametrize("data", [1, None, "text", [1]])
def test_a_value_that_is_no_buffer_is_an_argument_error(data: Any) -> None:
    error = raised(devmod.ArgumentError, devmod.loads, data)
    path = ". devmod.load(path) takes a path" if isinstance(data, str) else ""
    assert (
        str(error)
        == f"loads(data): data is bytes or another buffer, not {type(data).__name__}{path}"
    )
    assert error.argument == "data"
