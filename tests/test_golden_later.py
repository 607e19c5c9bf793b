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

import spec_reader  # noqa: E402 - the reader that is written from docs/formats.md

import golden_later  # noqa: E402 - tools/golden_later.py, which makes the files
from handmade import pages_of  # noqa: E402 - tools/handmade.py

pytestmark = pytest.mark.row("R41", "R50")
EXPECTED: dict[str, Any] = json.loads((LATER / golden_later.EXPECTATIONS).read_text())["files"]
NEEDS = "needs 'brotli', which a newer devmod reads: pip install --upgrade devmod-core"


def test_the_committed_files_are_those_of_the_tool() -> None:
    assert {path.name for path in LATER.iterdir()} == {*EXPECTED, golden_later.EXPECTATIONS}
    for name, data in golden_later.cases().items():
        assert (LATER / name).read_bytes() == data, name


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_read_as_before(name: str) -> None:
    data = (LATER / name).read_bytes()
    assert golden_later.describe(data) == EXPECTED[name]
    found = spec_reader.read_bundle(data)
    records = [found["records"][number] for number in found["candidates"]]
    for record, each in zip(records, EXPECTED[name], strict=True):
        assert (record["kind"], record["functions"]) == (each["kind"], each["functions"])
        assert record.get("newer") == each.get("newer")
        assert [*record.get("damaged", ())] == [*each.get("damaged", ())]


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
    saved = devmod.dumps(devmod.loads(data), compress=compress)
    assert golden_later.describe(saved) == EXPECTED[name]
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
