"""Tuning records in ``.devmod`` files and in JSON."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
from checker import checker as checker
from checker import policy as policy
from stored import entry, headed, row
from support import sample

import devmod
from devmod import TuningRecord
from devmod.backend import (
    add_tuning_records,
    join_records,
    read_tuning_file,
    walk,
    write_tuning_file,
)


def record(device: str = "AMD EPYC", **measured: float | None) -> TuningRecord:
    times = {((100_000,), (name,)): seconds for name, seconds in measured.items()}
    return TuningRecord(
        "add", "opencl", "Intel", device, constants=("B",), sizes=("n",), measured=times
    )


ONE = record(x=1e-5, y=None)
TWO = record("H100", x=2e-6)


def module(kind: str = "opencl") -> devmod.Module:
    return devmod.create_with_fallback(kind, *sample(kind))


def refusal(act: Any) -> str:
    with pytest.raises(devmod.FormatError) as caught:
        act()
    return str(caught.value)


def pages_and_bytes(data: bytes) -> bytes:
    """Return a file behind its head and before its sections, as they are without records."""
    length = int.from_bytes(data[12:16], "little")
    head = msgpack.unpackb(data[48 : 48 + length])
    pages = head["pages"]
    at = 48 + length
    start = -(-(at + sum(each[1] for each in pages)) // 64) * 64
    size = pages[-1][2]
    return data[at : at + sum(each[1] for each in pages)] + data[start : start + size]


@pytest.mark.parametrize("roots", [1, 2])
def test_records_go_into_a_file_and_no_other_bytes_change(roots: int) -> None:
    root = devmod.bundle(*[module(kind) for kind in ("opencl", "cuda")[:roots]])
    plain = devmod.dumps(root)
    assert devmod.loads(plain).tuning_records == ()
    root.tuning_records = [ONE, TWO]
    tuned = devmod.dumps(root)
    assert pages_and_bytes(tuned) == pages_and_bytes(plain)

    loaded = devmod.loads(tuned)
    assert loaded.tuning_records == (ONE, TWO)
    assert devmod.dumps(loaded) == tuned
    loaded.tuning_records = []
    assert devmod.dumps(loaded) == plain


@pytest.mark.parametrize("roots", [1, 2])
def test_each_module_of_a_file_has_its_records(roots: int, tmp_path: Path) -> None:
    root = devmod.bundle(*[module(kind) for kind in ("opencl", "cuda")[:roots]])
    root.tuning_records = [ONE]
    devmod.save(root, tmp_path / "k.devmod")
    loaded = devmod.load(tmp_path / "k.devmod")
    found = [each.tuning_records for each in walk(loaded)]
    assert found == [(ONE,)] * (roots + (roots > 1))
    if roots > 1:
        fresh = devmod.load(tmp_path / "k.devmod")
        assert fresh.candidates[0].tuning_records == (ONE,)  # type: ignore[attr-defined]


def test_a_look_up_does_not_read_the_records_and_the_module_that_it_finds_has_them() -> None:
    many = [
        devmod.create_with_fallback(
            "opencl", f"// {n}".encode(), "cl", {f"f{n}": sample("opencl")[2]["add"]}
        )
        for n in range(100)
    ]
    root = devmod.bundle(*many)
    root.tuning_records = [ONE]
    data = bytearray(devmod.dumps(root))
    loaded = devmod.loads(bytes(data))
    found = loaded._owners["f7"]  # type: ignore[attr-defined]
    assert found.tuning_records == (ONE,)

    data[-1] ^= 1
    damaged = devmod.loads(bytes(data))
    assert "f7" in damaged
    assert damaged._owners["f7"].functions["f7"].name == "add_kernel"  # type: ignore[attr-defined]
    assert refusal(lambda: damaged.tuning_records) == (
        "the bundle in memory is damaged: the SHA-256 of its tuning records is not the one in its head. Get the file again"
    )
    assert "the SHA-256 of its tuning records" in refusal(lambda: devmod.dumps(damaged))


def test_a_bundle_has_the_records_of_all_its_candidates() -> None:
    first = devmod.loads(devmod.dumps(with_records(module("cuda"), ONE)))
    other = devmod.loads(devmod.dumps(with_records(module(), record(x=3e-5), TWO)))
    joined = devmod.bundle(first, other)
    assert joined.tuning_records == (record(x=3e-5, y=None), TWO)
    assert devmod.loads(devmod.dumps(joined)).tuning_records == joined.tuning_records


def with_records(root: devmod.Module, *records: TuningRecord) -> devmod.Module:
    root.tuning_records = records
    return root


def test_the_records_of_imports_are_saved_unless_the_importer_has_some() -> None:
    root = module()
    root.import_module(with_records(module("cuda"), TWO))
    assert root.tuning_records == (TWO,)
    assert devmod.loads(devmod.dumps(root)).tuning_records == (TWO,)
    root.tuning_records = [ONE]
    assert root.tuning_records == (ONE,)


def test_a_module_with_other_constants_has_the_records() -> None:
    import numpy as np

    root = module()
    root.import_module(devmod.const_loader({"w": np.zeros(2)}, {}))
    loaded = devmod.loads(devmod.dumps(with_records(root, ONE)))
    replaced = devmod.replace_constants(loaded, {"w": np.ones(2)})
    assert replaced is not loaded
    assert replaced.tuning_records == (ONE,)


class Counting(io.BytesIO):
    """A file that counts the bytes that are read."""

    count = 0

    def readinto(self, buffer: Any) -> int:
        self.count += len(buffer)
        return super().readinto(buffer)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def test_records_are_read_at_their_first_use() -> None:
    many: Any = {((n,), ("x",)): 1.0 for n in range(50_000)}
    file = Counting(devmod.dumps(with_records(module(), ONE.replace(measured=many))))
    loaded = devmod.load(file)
    assert loaded.functions["add"].name == "add_kernel"
    assert file.count < 100_000 < len(file.getvalue())
    assert len(loaded.tuning_records[0].measured) == 50_000
    before = file.count
    assert loaded.tuning_records
    assert file.count == before > 500_000


@pytest.mark.usefixtures("checker")
def test_records_of_a_signed_file_are_read_under_a_policy(tmp_path: Path) -> None:
    data = devmod.dumps(with_records(module(), ONE))
    assert devmod.loads(data, signature=b"signed").tuning_records == (ONE,)
    with pytest.raises(devmod.TrustError):
        devmod.loads(data)


# -- bytes of strangers


def file_with(section: bytes) -> bytes:
    """Return a file with the section `tuning`."""
    code = b"\xa2cl\x80\xc4\x01x"
    page = msgpack.packb({"modules": [entry(code, rank=0)]})
    digest = hashlib.sha256(section).digest()
    head = {
        "candidates": 1,
        "pages": [row(page, 1, len(code))],
        "sections": [["tuning", len(section), digest]],
    }
    if not section:
        return headed(head, page, code)
    return headed(head, page, code.ljust(64, b"\0") + section)


GOOD: dict[str, Any] = {"devmod_tuning": 1, "records": [ONE.to_dict()]}
WHERE = "the tuning records of the bundle in memory"


def test_a_section_of_every_valid_form() -> None:
    assert devmod.loads(file_with(msgpack.packb(GOOD))).tuning_records == (ONE,)
    assert devmod.loads(file_with(msgpack.packb(GOOD | {"of tomorrow": {}}))).tuning_records == (
        ONE,
    )
    many = ONE.replace(measured={((n,), (1,)): 1 for n in range(2**16)})
    data = msgpack.packb({"devmod_tuning": 1, "records": [many.to_dict()]})
    assert devmod.loads(file_with(data)).tuning_records == (many,)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (b"", "the bytes end where an object should begin, at byte 0"),
        (
            msgpack.packb(GOOD) + b"\0",
            f"1 more byte follows the last field, at byte {len(msgpack.packb(GOOD))}",
        ),
        (b"\x91" * 40 + b"\x90", "arrays and maps are nested more than 32 deep, at byte 33"),
        (b"\xdd\xff\xff\xff\xff", "a count of 4294967295, and 0 bytes are left, at byte 5"),
        (b"\x82" + b"\xa1a\x01" * 2, "the key 'a' is repeated, at byte 4"),
    ],
)
def test_an_invalid_section_is_refused(section: bytes, message: str) -> None:
    loaded = devmod.loads(file_with(section))
    assert refusal(lambda: loaded.tuning_records) == f"{WHERE}: {message}"
    assert loaded.kind == "opencl"


def test_a_section_has_at_most_16_mib() -> None:
    big = file_with(bytes(2**24 + 1))
    assert refusal(lambda: devmod.loads(big).tuning_records) == (
        "the tuning records of the bundle in memory take 16777217 bytes; the limit is 16777216"
    )
    times: Any = {((n,), ("x" * 1000,)): 1.0 for n in range(17_000)}
    root = with_records(module(), ONE.replace(measured=times))
    assert refusal(lambda: devmod.dumps(root)).startswith("the tuning records take ")


# -- files of JSON


def test_records_survive_a_round_trip_through_a_file_of_json(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_tuning_file(path, [ONE, TWO])
    assert read_tuning_file(path) == (ONE, TWO)
    text = path.read_text()
    assert json.loads(text) == {"devmod_tuning": 1, "records": [ONE.to_dict(), TWO.to_dict()]}
    assert text.count("\n") == 4
    write_tuning_file(path, [])
    assert read_tuning_file(path) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[" * 200_000, "is not JSON: "),
        ("\xff", "is not JSON: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("[]", "the value is a map with string keys, not list"),
        (json.dumps(GOOD).replace("1e-05", "NaN"), "got (100000,), ('x',) and nan"),
        (json.dumps(GOOD).replace("1e-05", "1" * 5000), "is not JSON: Exceeds the limit"),
    ],
)
def test_an_invalid_file_of_json_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("latin-1"))
    found = refusal(lambda: read_tuning_file(path))
    assert found.startswith(repr(str(path)))
    assert message in found


def test_a_file_of_json_has_at_most_64_mib(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with path.open("wb") as file:
        file.truncate(2**26 + 1)
    assert (
        refusal(lambda: read_tuning_file(path))
        == f"'{path}' has more than 67108864 bytes, the limit of tuning records"
    )


def test_a_file_of_another_tool_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "t4.json"
    path.write_text('{"results": []}')
    assert read_tuning_file(path, lambda value: [ONE, TWO, record(x=1.0)]) == join_records(
        [ONE, TWO, record(x=1.0)]
    )
    write_tuning_file(path, [ONE])
    assert read_tuning_file(path, lambda value: []) == (ONE,)


# -- records for a .devmod file


def test_records_are_added_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(with_records(module(), ONE), path, compress="none")
    before = path.read_bytes()
    add_tuning_records(path, [record(y=2.0), TWO])
    assert devmod.load(path).tuning_records == (record(x=1e-5, y=2.0), TWO)
    assert pages_and_bytes(path.read_bytes()) == pages_and_bytes(before)


def test_a_signed_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module(), path)
    (tmp_path / "k.devmod.sig").touch()
    before = path.read_bytes()
    assert refusal(lambda: add_tuning_records(path, [ONE])) == (
        f"'{path}' is signed, and new tuning records make the signatures in '{path}.sig' invalid. Export the records "
        f"(devmod tune --export r.json). Where the key is, remove '{path}.sig', import them (devmod tune {path} --import r.json), "
        f"and sign the file again (devmod sign {path})"
    )
    assert path.read_bytes() == before


# -- devmod inspect


def test_inspect_shows_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from devmod._cli import main

    def inspected(*options: str) -> str:
        assert main(["inspect", str(path), *options]) == 0
        return capsys.readouterr().out

    times: Any = {((n,), ("x",)): n / 1e6 for n in range(1, 10)}
    measured = ONE.replace(driver="580.65", measured=times | {((1,), ("y",)): 5e-7})
    failed = ONE.replace(device="CPU", sizes=(), measured={((), ("x",)): None})
    path = tmp_path / "k.devmod"
    devmod.save(with_records(module(), measured, failed), path)
    lines = [
        "Tuning records: 2, which --json has",
        "  add for opencl on AMD EPYC, driver 580.65, tuples of sizes: 9",
        "    n=1: B=y takes 5e-07 s",
        *[f"    n={n}: B=x takes {n}e-06 s" for n in range(2, 9)],
        "  add for opencl on CPU, driver unknown, tuples of sizes: 1",
        "    any size: every variant failed",
        "",
    ]
    assert "\n".join(lines) in inspected()
    assert json.loads(inspected("--json"))["tuning"] == [measured.to_dict(), failed.to_dict()]

    devmod.save(with_records(module()), path)
    assert "uning" not in inspected()
    assert "tuning" not in json.loads(inspected("--json"))
