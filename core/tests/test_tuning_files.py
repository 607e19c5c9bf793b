"""Tuning records in ``.devmod`` files and in JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checker import checker as checker
from checker import policy as policy
from each_case import error_of
from stored import CountedFile, blobs_of, pages_of, tuning_file
from support import sample

import devmod
from devmod import TuningRecord
from devmod.backend import read_tuning_file, walk
from devmod_workbench._cli import main
from devmod_workbench._tools.tuning_files import add_tuning_records, write_tuning_file

TIMES = {((100_000,), ("x",)): 1e-5, ((100_000,), ("y",)): None}
ONE = TuningRecord("add", "opencl", "", "AMD EPYC", constants=("B",), sizes=("n",), measured=TIMES)
TWO = ONE.replace(device="H100")


def module(kind: str = "opencl", *records: TuningRecord) -> devmod.Module:
    root = devmod.create_with_fallback(kind, *sample(kind))
    if records:
        root.tuning_records = records
    return root


def reloaded(root: devmod.Module) -> Any:
    return devmod.loads(devmod.dumps(root))


@pytest.mark.parametrize("roots", [1, 2])
def test_each_module_of_a_file_has_its_records_and_no_other_bytes_change(roots: int) -> None:
    root = devmod.bundle(*[module(kind) for kind in ("opencl", "cuda")[:roots]])
    plain = devmod.dumps(root)
    assert devmod.loads(plain).tuning_records == ()
    root.tuning_records = [ONE, TWO]
    loaded = reloaded(root)
    found = [each.tuning_records for each in walk(loaded)]
    assert found == [(ONE, TWO)] * (roots + (roots > 1))
    assert devmod.dumps(loaded) == devmod.dumps(root) != plain
    loaded.tuning_records = []
    assert devmod.dumps(loaded) == plain


def test_a_look_up_does_not_read_the_records_and_the_module_that_it_finds_has_them() -> None:
    many = []
    for number in range(1000):
        functions = {f"f{number}": sample("opencl")[2]["add"]}
        many.append(devmod.create_with_fallback("opencl", f"// {number}".encode(), "cl", functions))
    root = devmod.bundle(*many)
    records = tuple([ONE.replace(function=f"f{number}") for number in range(1000)])
    root.tuning_records = records
    data = devmod.dumps(root)
    assert len(pages_of(data)) > 5
    found: Any = devmod.loads(data)._owners["f7"]
    assert found._records_of("f7") == (records[7],)
    assert sorted(found.tuning_records) == sorted(records)

    at = loaded_place(data, "f7") + 3
    damaged = devmod.loads(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert damaged._owners["f7"].functions["f7"].name == "add_kernel"
    problem = "is damaged: its SHA-256 is not the one in the index. Nothing of it was used. Get the file again from where it came"
    assert str(error_of(getattr, damaged, "tuning_records")).endswith(problem)
    assert str(error_of(devmod.dumps, damaged)).endswith(problem)


@pytest.mark.row("R50", "R52")
@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.volume)])
def test_a_first_call_of_one_of_many_tuned_functions_reads_its_page_and_its_records(
    count: int,
) -> None:
    many = []
    for number in range(count):
        functions = {f"kernel_{number}": sample("opencl")[2]["add"]}
        code = f"// {number}".encode()
        many.append(devmod.create_with_fallback("opencl", code, "cl", functions))
    root = devmod.bundle(*many)
    records = []
    for number in range(count):
        one = ONE.replace(function=f"kernel_{number}")
        records += [one.replace(device=f"device {each}") for each in range(4)]
    root.tuning_records = records
    file = CountedFile(devmod.dumps(root))
    loaded: Any = devmod.load(file)
    module = loaded._owners["kernel_711"]
    assert len(module._records_of("kernel_711")) == 4
    assert module.save_to_bytes()
    assert (len(file.sizes), sum(file.sizes) < 100_000) == (4, True), file.sizes


def test_the_records_of_imports_are_saved_unless_the_importer_has_some() -> None:
    root = module()
    root.import_module(module("cuda", TWO))
    assert root.tuning_records == reloaded(root).tuning_records == (TWO,)
    root.tuning_records = [ONE]
    assert root.tuning_records == (ONE,)
    error = error_of(setattr, root, "tuning_records", [3])
    assert str(error) == "tuning_records: expected TuningRecords, got (3,)"


def test_a_module_with_other_constants_has_the_records() -> None:
    root = module("opencl", ONE)
    root.import_module(devmod.const_loader({"w": np.zeros(2)}, {}))
    replaced = devmod.replace_constants(reloaded(root), {"w": np.ones(2)})
    assert replaced.tuning_records == (ONE,)


@pytest.mark.usefixtures("checker")
def test_records_of_a_signed_file_are_read_under_a_policy() -> None:
    data = devmod.dumps(module("opencl", ONE))
    assert devmod.loads(data, signature=b"signed").tuning_records == (ONE,)
    with pytest.raises(devmod.TrustError):
        devmod.loads(data)


def loaded_place(data: bytes, function: str) -> int:
    """The offset of the records of a function in a file."""
    (attachment,) = devmod.loads(data)._devmod_file.attached(function)
    return int(attachment.entry.offset)


def test_records_of_no_function_of_the_file_are_left_out() -> None:
    other = ONE.replace(function="other")
    assert reloaded(module("opencl", ONE, other)).tuning_records == (ONE,)


def test_new_records_join_those_of_a_function_and_leave_the_others_as_they_are(
    tmp_path: Path,
) -> None:
    path = tmp_path / "k.devmod"
    _, _, functions = sample("opencl")
    info = functions["add"]
    root = devmod.create_with_fallback("opencl", b"//", "cl", {"add": info, "sub": info})
    other = ONE.replace(function="sub", turns={((100_000,), ("x",)): (7, 1e-7)})
    root.tuning_records = [ONE, other]
    devmod.save(root, path)
    later = ONE.replace(measured={((100_000,), ("x",)): 5e-6})
    add_tuning_records(path, [later])
    joined = ONE.replace(measured=TIMES | later.measured)
    assert devmod.load(path).tuning_records == (joined, other)


# -- bytes of strangers

GOOD = {"devmod_tuning": 1, "records": [ONE.to_dict()]}
WHERE = "the bundle in memory: the attachment 'tuning+' of 'f'"
SKIPPED = "It is skipped"


def map_of(record: TuningRecord) -> dict[str, Any]:
    """The map of a record in the page of its function."""
    fields = record.to_dict()
    del fields["function"]
    return fields


def test_records_of_one_function_are_read_from_its_attachment() -> None:
    loaded = devmod.loads(tuning_file([map_of(ONE) | {"of tomorrow": {}}, map_of(TWO)]))
    assert loaded.tuning_records == (ONE.replace(function="f"), TWO.replace(function="f"))


def test_bytes_that_are_no_records_are_skipped_with_a_warning() -> None:
    cases = {
        f"{WHERE}: the bytes end where an object should begin, at byte 0. {SKIPPED}": b"",
        f"{WHERE} takes 4194305 bytes; the limit is 4194304. {SKIPPED}": bytes(2**22 + 1),
        f"{WHERE}: the records are a list, not dict. {SKIPPED}": b"\x80",
        f"{WHERE}: 1 more byte follows the last field, at byte 1. {SKIPPED}": b"\x90\xc0",
        f"{WHERE}: a count of 9, and 0 bytes are left, at byte 1. {SKIPPED}": b"\x99",
    }
    for text, data in cases.items():
        loaded = devmod.loads(tuning_file(data))
        with pytest.warns(UserWarning, match=SKIPPED) as caught:
            assert loaded.tuning_records == ()
        assert [str(each.message) for each in caught] == [text]
        check_kept(loaded, tuning_file(data))  # a save does not read them


@pytest.mark.row("R56")
def test_a_record_that_is_invalid_is_skipped_with_a_warning_and_saved() -> None:
    """So is one of a later devmod."""
    later = map_of(ONE)
    later["measured"] = [{"sizes": [1], "times": [[["x"], {"median": 1e-5}]]}]
    data = tuning_file([later, map_of(TWO), "none"])
    loaded = devmod.loads(data)
    with pytest.warns(UserWarning, match=SKIPPED) as caught:
        assert loaded.tuning_records == (TWO.replace(function="f"),)
    time = "expected an integer for each size, a value for each constant, and a time in seconds or None or False, got"
    assert [str(each.message) for each in caught] == [
        f"{WHERE}: the tuning record of 'f' on 'AMD EPYC': {time} (1,), ('x',) and {{'median': 1e-05}}. {SKIPPED}",
        f"{WHERE}: a tuning record is a map with string keys, not str. {SKIPPED}",
    ]
    check_kept(loaded, data)


def check_kept(loaded: devmod.Module, data: bytes) -> None:
    """Check that a save keeps the records of a file as they are."""
    saved = devmod.dumps(loaded)
    assert pages_of(saved)[0]["attached"] == pages_of(data)[0]["attached"]
    assert blobs_of(saved) == blobs_of(data)


def test_the_limits_of_the_records_of_a_function() -> None:
    most = ONE.replace(measured={((n,), ("x",)): 1.0 for n in range(2**16)})
    assert reloaded(module("opencl", most)).tuning_records == (most,)
    more = map_of(most)
    more["measured"][0]["sizes"] = [0]
    loaded = devmod.loads(tuning_file([more, map_of(TWO)]))
    with pytest.warns(UserWarning, match="'f' has 65538 times; the limit for a function is 65536"):
        assert loaded.tuning_records == ()
    large = ONE.replace(measured={((n,), ("x" * 1000,)): 1.0 for n in range(5000)})
    error = error_of(devmod.dumps, module("opencl", large))
    assert str(error).startswith("the tuning records of 'add' cannot be written: they take 5"), str(
        error
    )
    assert str(error).endswith(" bytes; the limit is 4194304")


# -- files of JSON


def test_records_survive_a_round_trip_through_a_file_of_json(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_tuning_file(path, [ONE, TWO])
    assert read_tuning_file(path) == (ONE, TWO)
    text = path.read_text()
    assert json.loads(text) == {"devmod_tuning": 1, "records": [ONE.to_dict(), TWO.to_dict()]}
    assert text.count("\n") == 4
    for encoding in ("utf-8-sig", "utf-16"):  # as editors and shells of Windows write it
        path.write_text(text, encoding)
        assert read_tuning_file(path) == (ONE, TWO)


def test_an_invalid_file_of_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    good = json.dumps(GOOD)
    texts = {
        " is not JSON: Expecting value: line 1 column 1 (char 0)": "",
        " is not JSON: ": "[" * 200_000,
        " is not JSON: 'utf-8' codec can't decode byte 0xff in position 0": "\xff",
        ": the value is a map with string keys, not list": "[]",
        ": the tuning record of 'add' on 'AMD EPYC'": good.replace("1e-05", "1e400"),
        " is not JSON: NaN is no number of JSON": good.replace("1e-05", "NaN"),
        " is not JSON: the key 'kind' is there twice": good.replace('"kind"', '"kind": "", "kind"'),
        " is not JSON: Exceeds the limit": good.replace("1e-05", "1" * 5000),
        " has more than 67108864 bytes, the limit of tuning records": " " * (2**26 + 1),
    }
    for message, text in texts.items():
        path.write_bytes(text.encode("latin-1"))
        assert str(error_of(read_tuning_file, path)).startswith(f"{str(path)!r}{message}")


ADD = """
import sys
from devmod import TuningRecord
from devmod_workbench._tools.tuning_files import add_tuning_records, write_tuning_file
record = TuningRecord("add", "opencl", device="other", measured={((), ()): 1.0})
print("begins", flush=True)
if sys.argv[1].endswith(".json"):
    write_tuning_file(sys.argv[1], [record], adds=True)
else:
    add_tuning_records(sys.argv[1], [record])
"""


@pytest.mark.parametrize("name", ["k.devmod", "new.json", "old.json"])
def test_records_that_two_processes_add_at_once_are_both_in_the_file(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    devmod.save(module(), tmp_path / "k.devmod")
    write_tuning_file(tmp_path / "old.json", [])
    others: list[subprocess.Popen[bytes]] = []

    def records() -> Iterator[TuningRecord]:
        """Yield a record. The file has been read then, and another process adds its own."""
        other = subprocess.Popen([sys.executable, "-c", ADD, path], stdout=subprocess.PIPE)
        others.append(other)
        assert other.stdout is not None
        other.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            other.wait(1)
        yield ONE

    if path.suffix == ".json":
        write_tuning_file(path, records(), adds=True)
    else:
        add_tuning_records(path, records())
    others[0].communicate()
    assert others[0].returncode == 0
    if path.suffix == ".json":
        found = read_tuning_file(path)
    else:
        found = devmod.load(path).tuning_records
    assert {each.device for each in found} == {ONE.device, "other"}


def test_a_file_that_is_signed_behind_a_link_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module(), path)
    (tmp_path / "k.devmod.sig").touch()
    (tmp_path / "link.devmod").symlink_to(path)
    error = error_of(add_tuning_records, tmp_path / "link.devmod", [ONE])
    assert str(error).startswith(f"'{path}' is signed, ")


# -- devmod inspect


def test_inspect_shows_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.devmod"

    def inspected(*options: str) -> str:
        assert main(["inspect", str(path), *options]) == 0
        return capsys.readouterr().out

    times = {((n,), ("x",)): n / 1e6 for n in range(1, 10)}
    turns = {((1,), ("y",)): (7, 1e-8)}
    measured = ONE.replace(driver="580.65", measured=times | {((1,), ("y",)): 5e-7}, turns=turns)
    failed = ONE.replace(device="CPU", sizes=(), measured={((), ("x",)): None})
    devmod.save(module("opencl", measured, failed), path)
    lines = [
        "Tuning records: 2, which --json has",
        "  add for opencl on AMD EPYC, driver 580.65, tuples of sizes: 9",
        "    n=1: B=y takes 500 ns",
        *[f"    n={n}: B=x takes {n} us" for n in range(2, 9)],
        "  add for opencl on CPU, driver unknown, tuples of sizes: 1",
        "    any size: every variant failed",
        "",
    ]
    assert "\n".join(lines) in inspected()
    assert json.loads(inspected("--json"))["tuning"] == [measured.to_dict(), failed.to_dict()]

    devmod.save(module(), path)
    assert "uning" not in inspected() + inspected("--json")
