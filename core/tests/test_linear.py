"""Work and memory in proportion to a file, with files that once took minutes or a hundred times
their size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from each_case import refusal
from stored import file_of
from work import MOST_MEMORY, assert_linear, check_reader, work

import devmod
from devmod._plugins import discovery as _discovery
from devmod.interop import tvm
from devmod_workbench._cli import main

pytestmark = pytest.mark.once


def array(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big")


def table(count: int) -> bytes:
    return b"\xdf" + count.to_bytes(4, "big")


def names(count: int, behind: bytes = b"") -> bytes:
    return b"".join(b"\xa6%06d" % number + behind for number in range(count))


ROOT = b"\xa7modules\x91"
LIBRARY = b"\xa4kind\xa4_lib\xa4rank\x00"
INDEXES: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "empty maps under an unknown key": (
        300_000,
        lambda count: (
            b"\x82" + ROOT + b"\x82" + LIBRARY + b"\xa1x" + array(count) + b"\x80" * count
        ),
    ),
    "numbers under an unknown key": (
        300_000,
        lambda count: (
            b"\x82" + ROOT + b"\x82" + LIBRARY + b"\xa1x" + array(count) + b"\x01" * count
        ),
    ),
    "empty arrays in an origin": (
        300_000,
        lambda count: (
            b"\x81"
            + ROOT
            + b"\x83"
            + LIBRARY
            + b"\xa6origin\x81\xa1x"
            + array(count)
            + b"\x90" * count
        ),
    ),
    "small maps in an origin": (
        75_000,
        lambda count: (
            b"\x81"
            + ROOT
            + b"\x83"
            + LIBRARY
            + b"\xa6origin\x81\xa1x"
            + array(count)
            + b"\x81\xa1x\xc0" * count
        ),
    ),
    "nodes": (
        20_000,
        lambda count: b"\x81" + ROOT[:-1] + array(count) + b"\x81\xa4kind\xa4_lib" * count,
    ),
    "imports": (
        300_000,
        lambda count: (
            b"\x81\xa7modules\x92\x83"
            + LIBRARY
            + b"\xa7imports"
            + array(count)
            + b"\x01" * count
            + b"\x81\xa4kind\xa4_lib"
        ),
    ),
}
MODULES: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "functions": (20_000, lambda count: table(count) + names(count, b"\x94\xa0\x90\x90\x90")),
    "types": (
        60_000,
        lambda count: (
            b"\x81\xa1f\x94\xa1f" + array(count) + b"\x93\x03\x40\x01" * count + b"\x90\x90"
        ),
    ),
    "empty maps in an interface": (
        300_000,
        lambda count: b"\x81\xa1f\x95\xa1f\x90\x90\x90\x81\xa1x" + array(count) + b"\x80" * count,
    ),
    "keys of an interface": (
        40_000,
        lambda count: b"\x81\xa1f\x95\xa1f\x90\x90\x90" + table(count) + names(count, b"\x80"),
    ),
}


def test_what_the_first_call_imports_is_no_memory_of_a_file() -> None:
    imported: list[bytes] = []

    def read(data: bytes) -> None:
        if not imported:
            imported.append(bytes(10 << 20))
        for _ in data:
            pass

    check_reader(bytes, 1000, read)
    with pytest.raises(AssertionError):
        check_reader(bytes, 1_000_000, lambda data: data * (MOST_MEMORY + 10))


@pytest.mark.parametrize(("count", "index"), INDEXES.values(), ids=INDEXES)
def test_an_index_is_read_in_proportion_to_its_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, count: int, index: Callable[[int], bytes]
) -> None:
    path = tmp_path / "k.devmod"

    def inspect(number: int) -> None:
        path.write_bytes(file_of(index(number)))
        for options in ((), ("--json",)):
            main(["inspect", *options, str(path)])
        capsys.readouterr()

    check_reader(
        lambda number: file_of(index(number)), count, lambda data: devmod.dumps(devmod.loads(data))
    )
    inspect(count // 8)
    assert_linear(lambda number: lambda: inspect(number), count // 200)


@pytest.mark.row("R19")
@pytest.mark.parametrize(("count", "fmap"), MODULES.values(), ids=MODULES)
def test_a_modules_bytes_are_read_in_proportion_to_their_size(
    count: int, fmap: Callable[[int], bytes]
) -> None:
    from devmod.backend import decode

    spec = devmod.backend.find_spec("opencl")
    assert spec is not None
    check_reader(
        lambda number: b"\xa2cl" + fmap(number) + b"\xc4\x00",
        count,
        lambda data: dict(decode(spec, memoryview(data))[1]),
    )


# -- unknown kinds


def unknown_kinds(count: int) -> bytes:
    digest = hashlib.sha256(b"x").digest()
    modules: list[dict[str, Any]] = [
        {"kind": f"k{number}", "format": "x", "functions": ["f"], "size": 1, "sha256": digest}
        for number in range(count)
    ]
    return file_of(
        {"roots": list(range(count)), "modules": modules}, (b"x" + bytes(63)) * (count - 1) + b"x"
    )


def tvm_kinds(count: int) -> bytes:
    def text(value: bytes) -> bytes:
        return len(value).to_bytes(8, "little") + value

    numbers = [count, 0, *[count - 1] * count]
    body = b"".join(
        number.to_bytes(8, "little")
        for number in ([count + 1, *numbers[1:], count - 1, *range(1, count)])
    )
    body += text(b"_lib") + b"".join(
        text(b"k%d" % number) + text(b"") for number in range(count - 1)
    )
    return len(body).to_bytes(8, "little") + body


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One item for each listing of the distributions."""
    made: list[None] = []
    scan_all = _discovery._scan_all

    def counted() -> Any:
        made.append(None)
        return scan_all()

    monkeypatch.setattr(_discovery, "_scan_all", counted)
    return made


@pytest.mark.row("R3", "R4")
def test_unknown_kinds_are_looked_up_by_one_listing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, listings: list[None]
) -> None:
    data = unknown_kinds(500)
    path = tmp_path / "k.devmod"
    path.write_bytes(data)
    root = devmod.load(path)
    acts: list[Callable[[], object]] = [
        lambda: dict(root.functions),
        lambda: devmod.dumps(root),
        lambda: main(["inspect", str(path)]),
        lambda: main(["inspect", "--json", str(path)]),
        lambda: tvm.dump_imports(tvm.load_imports(tvm_kinds(500))),
    ]
    for act in acts:
        listings.clear()
        act()
        assert len(listings) < 6, act
    capsys.readouterr()
    for ask in (
        lambda: root.get_function("f"),
        lambda: root.get_global("f"),
        lambda: root.get_function("f", query_imports=True),
    ):
        listings.clear()
        text = refusal(devmod.NotRegisteredError, ask)
        assert len(listings) == 1
        lines = text.splitlines()
        assert (len(lines), lines[-1]) == (14, "  and 488 more")


@pytest.mark.row("R3")
def test_a_miss_is_forgotten_when_the_call_ends(register: Callable[..., None]) -> None:
    root = devmod.loads(unknown_kinds(2))
    assert dict(root.functions).keys() == {"f"}
    spec = devmod.TargetSpec("k0", title="K", distribution="devmod-k0", formats=["x"])
    register("devmod.targets", "k0", spec)
    with pytest.raises(devmod.FormatError, match="the bytes of the k0 module"):
        dict(root.functions)


def test_the_work_of_other_threads_is_not_counted() -> None:
    def turn(count: int) -> None:
        for _ in range(count):
            pass

    def work_of(count: int) -> int:
        thread = Thread(target=turn, args=(count,))
        return work(lambda: (thread.start(), thread.join()))

    assert work_of(10_000) - work_of(1) < 1000
