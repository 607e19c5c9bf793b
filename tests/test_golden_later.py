"""Files of a later devmod: this one lists what it cannot use, and uses everything else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from alone import core_alone as core_alone
from command_line import printed_by
from each_case import refusal

import devmod

ROOT = Path(__file__).resolve().parent.parent
LATER = ROOT / "tests" / "golden" / "later"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import golden_later  # noqa: E402 - tools/golden_later.py, which makes the files
import golden_readers  # noqa: E402 - tools/golden_readers.py, which has the other readers
from handmade import pages_of  # noqa: E402 - tools/handmade.py

pytestmark = pytest.mark.row("R41", "R50")
EXPECTED: dict[str, Any] = golden_readers.entries_of(LATER / golden_later.EXPECTATIONS)
REFUSED = "keys-that-refuse-a-save.devmod"
NEEDS = "needs 'brotli', which a newer devmod reads: pip install --upgrade devmod-core"


def test_the_committed_files_are_those_of_the_tool() -> None:
    assert {path.name for path in LATER.iterdir()} == {*EXPECTED, golden_later.EXPECTATIONS}
    for name, data in golden_later.cases().items():
        assert (LATER / name).read_bytes() == data, name


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_read_as_before(name: str) -> None:
    assert golden_later.describe((LATER / name).read_bytes()) == EXPECTED[name]["python"]


@pytest.mark.parametrize("reader", golden_readers.READERS)
def test_each_reader_reads_a_file_as_before(reader: str) -> None:
    reason = golden_readers.missing(reader)
    if reason:
        pytest.skip(reason)
    files = {name: (LATER / name).read_bytes() for name in EXPECTED}
    found = golden_readers.read_all(reader, files)
    assert found == {name: each[reader] for name, each in EXPECTED.items()}


@pytest.mark.parametrize("reader", golden_readers.READERS)
def test_the_readers_list_the_same_modules(reader: str) -> None:
    for name, entry in EXPECTED.items():
        modules = [each for each in entry["python"] if "kind" in each]
        for mine, theirs in zip(modules, entry[reader], strict=False):
            assert (theirs["kind"], theirs["functions"]) == (mine["kind"], mine["functions"])
            newer = [*mine.get("newer", ())]
            if reader == "c":  # it has no device that may have a need, and reads no interface
                assert {*newer} <= {*theirs.get("newer", ())}, name
            else:
                assert [*theirs.get("newer", ())] == newer, name
                assert [*theirs.get("damaged", ())] == [*mine.get("damaged", ())], name
            if reader != "specification":  # it reads no bytes that need a feature
                for key in ("error", "sources"):
                    assert (key in mine) == (key in theirs), name


def test_both_readers_of_tuning_records_skip_the_same() -> None:
    *_, mine = EXPECTED["tuning-records.devmod"]["python"]
    *_, theirs = EXPECTED["tuning-records.devmod"]["specification"]
    assert (mine["tuning"], len(mine["skipped"])) == (4, 6)
    assert (theirs["tuning"], len(theirs["skipped"])) == (4, 6)


def test_a_reader_that_is_not_here_keeps_its_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = json.loads((LATER / golden_later.EXPECTATIONS).read_text(encoding="utf-8"))
    before["files"]["shifts.devmod"]["c"] = "as it was"
    path = tmp_path / golden_later.EXPECTATIONS
    golden_readers.write_entries(path, before["about"], before["files"])
    monkeypatch.setenv("PATH", "")
    golden_later.write(tmp_path)
    assert json.loads(path.read_text(encoding="utf-8")) == before


def test_the_committed_text_is_that_of_the_tool(tmp_path: Path) -> None:
    path = LATER / golden_later.EXPECTATIONS
    golden_readers.write_entries(tmp_path / "e.json", golden_later.ABOUT, EXPECTED)
    assert (tmp_path / "e.json").read_bytes() == path.read_bytes()


def test_each_use_is_an_error_that_names_the_feature(tmp_path: Path) -> None:
    root = devmod.load(LATER / "of-a-kind.devmod")
    later: Any = root.imports[0]
    path = repr(str(LATER / "of-a-kind.devmod"))
    text = f"{path}: the opencl module with 'f' {NEEDS}"
    assert dict(later.functions) == {"f": devmod.FunctionInfo("f", ())}
    uses = (
        lambda: later.get_function("f"),
        lambda: later.get_global("g"),
        lambda: later.code,
        later.inspect_source,
        later.save_to_bytes,
        later.wire_parts,
        lambda: later.write_to_file(str(tmp_path / "k.cl")),
        lambda: devmod.interop.tvm.dump_module_bytes(later),
    )
    for use in uses:
        assert refusal(devmod.FormatError, use) == text
    assert not list(tmp_path.iterdir())
    assert root.imports[1].save_to_bytes() == golden_later.PLAIN


@pytest.mark.row("R56")
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("compress", [None, "none", "zstd"])
@pytest.mark.filterwarnings("ignore:.*It is not saved:UserWarning")  # the sections have no mark
def test_a_save_keeps_what_it_does_not_know(name: str, compress: str | None) -> None:
    data = (LATER / name).read_bytes()
    expected = EXPECTED[name]["python"]
    if name == REFUSED:
        text = refusal(
            devmod.FormatError, lambda: devmod.dumps(devmod.loads(data), compress=compress)
        )
        assert [text] == expected[-1]["save"]
        return
    saved = devmod.dumps(devmod.loads(data), compress=compress)
    # What a save says of keys that it drops is said once.
    modules = [each for each in expected if "save" not in each]
    assert golden_later.describe(saved) == modules
    before, after = pages_of(data)[0], pages_of(saved)[0]
    for key in ("modules", "sources", "parts"):
        old, new = (
            [
                {name: value for name, value in each.items() if value != 0}
                for each in page.get(key, ())
                if each.get("features")
            ]
            for page in (before, after)
        )
        assert new == old
    assert saved.count(golden_later.LATER) == data.count(golden_later.LATER)


def test_a_module_of_a_program_is_explained_and_others_work() -> None:
    for name in ("of-a-kind", "of-a-kind-that-nobody-has", "of-a-program", "of-constants"):
        root = devmod.load(LATER / f"{name}.devmod")
        text = str(devmod.explain(root))
        kind = root.imports[0].kind
        (line,) = (
            line
            for line in text.splitlines()
            if line.lstrip().startswith("refused") and "brotli" in line
        )
        assert (
            line.split() == f"refused {describe(kind, root.imports[0].format)} it {NEEDS}".split()
        )
        assert "g on this machine:" in text


def describe(kind: str, fmt: str) -> str:
    if kind == "program" or not fmt:
        return kind
    return f"{kind}/{fmt}"


def test_damage_of_what_is_not_used_is_no_other_error() -> None:
    """Also of a record that says how its bytes unpack."""
    data = (LATER / "other-limits.devmod").read_bytes()
    damaged = data.replace(golden_later.LATER, golden_later.LATER[::-1])
    for each in (data, damaged):
        with pytest.raises(devmod.FormatError, match="needs 'a', 'b', which a newer devmod reads"):
            devmod.loads(each).imports[0].save_to_bytes()


def test_a_bundle_chooses_another_candidate() -> None:
    later = devmod.load(LATER / "of-a-kind.devmod").imports[0]
    assert f"1. opencl/cl: it {NEEDS}" in refusal(
        devmod.NotRegisteredError, devmod.bundle(later, mixed=True).get_function, "f"
    )
    w = memoryview(b"1234")
    other = devmod.const_loader({"w": w}, {"f": ["w"]})
    (found,) = devmod.bundle(later, other, mixed=True).get_function("f")()
    assert bytes(found) == b"1234"


def test_inspect_names_the_feature(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(LATER / "of-a-kind.devmod")
    for options in ([], ["--verify"], ["--source"]):
        lines = printed_by(capsys, "inspect", path, *options).out.splitlines()
        (line,) = (each for each in lines if "brotli" in each)
        assert f" — {NEEDS}" in line
        assert lines[lines.index(line) + 1].strip() == "f(…)"
    found = json.loads(printed_by(capsys, "inspect", path, "--json").out)["module"]["imports"]
    assert [each.get("features") for each in found] == [["brotli"], None]
    damaged = tmp_path / "damaged.devmod"
    data = (LATER / "of-a-kind.devmod").read_bytes()
    damaged.write_bytes(data.replace(golden_later.LATER, golden_later.LATER[::-1]))
    assert (
        "its SHA-256 is not the one in the index"
        in printed_by(capsys, "inspect", damaged, "--verify", status=1).err
    )
