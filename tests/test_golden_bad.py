"""The corpus of bad files: each is refused in the very words that it was refused in when it was
written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from each_case import check_each, refusal

import devmod

ROOT = Path(__file__).resolve().parent.parent
BAD = ROOT / "tests" / "golden" / "bad"
sys.path.insert(0, str(ROOT / "tools"))

import golden_bad  # noqa: E402 - tools/golden_bad.py, which makes the files and reads them
import golden_readers  # noqa: E402 - tools/golden_readers.py, which has the other readers

FOUND = json.loads((BAD / golden_bad.EXPECTATIONS).read_text(encoding="utf-8"))
EXPECTED = FOUND["files"]
#: One for each thing that goes wrong with files in the world; the corpus may grow and never shrinks
#: below it.
ALWAYS = (
    "cut-in-the-header.devmod",
    "cut-in-a-module.devmod",
    "oversized-head.devmod",
    "oversized-module.devmod",
    "wrong-head-digest.devmod",
    "page-with-a-wrong-digest.devmod",
    "wrong-module-digest.devmod",
    "page-is-no-msgpack.devmod",
    "duplicate-key.devmod",
    "roots-of-another-type.devmod",
    "newer-version.devmod",
    "cycle.devmod",
    "nested-too-deep.devmod",
    "function-twice.opencl.bytes",
    "shader-twice.webgpu.bytes",
    "constant-twice.const_loader.bytes",
    "cycle.tvmimports",
    "length-at-the-end-of-numbers.tvmimports",
    "tensor-of-a-device.const_loader.tvmbytes",
    "not-JSON.tvm_meta.json",
)


def test_the_corpus_is_whole() -> None:
    assert {path.name for path in BAD.iterdir()} == {*EXPECTED, golden_bad.EXPECTATIONS}
    assert set(ALWAYS) <= set(EXPECTED)
    assert len(EXPECTED) >= 149
    assert FOUND["about"] == golden_bad.ABOUT
    for suffix in golden_bad.READERS:
        assert [name for name in EXPECTED if name.endswith(f".{suffix}")], (
            f"nothing for the reader of {suffix}"
        )


def test_the_committed_files_are_those_of_the_tool() -> None:
    for name, data in golden_bad.cases().items():
        assert (BAD / name).read_bytes() == data, name


@pytest.mark.row("R4", "R19", "R41")
def test_a_bad_file_is_refused_in_the_same_words() -> None:
    def check(name: str) -> None:
        error, message = golden_bad.refusal(name, (BAD / name).read_bytes())
        entry = EXPECTED[name]
        assert (error, message) == (entry["error"], entry["message"])

    check_each(EXPECTED, check)


@pytest.mark.row("R19", "R41")
@pytest.mark.parametrize("reader", golden_readers.READERS)
def test_each_reader_refuses_a_bad_file_in_the_same_words(reader: str) -> None:
    reason = golden_readers.missing(reader)
    if reason:
        pytest.skip(reason)
    found = golden_readers.read_all(reader, {name: (BAD / name).read_bytes() for name in EXPECTED})
    texts = {name: golden_readers.first_error(each) for name, each in found.items()}
    assert texts == {name: each[reader] for name, each in EXPECTED.items() if reader in each}


def test_only_the_reader_in_c_gives_bytes_unread() -> None:
    """Those of origins, sources and shaders."""
    for name, entry in EXPECTED.items():
        assert golden_readers.READ not in (entry.get("javascript"), entry.get("specification"))
        if entry.get("c") == golden_readers.READ:
            assert name.startswith(("origin-", "sources-", "repeat-")), name


def test_the_committed_text_is_that_of_the_tool(tmp_path: Path) -> None:
    golden_readers.write_entries(tmp_path / "e.json", golden_bad.ABOUT, EXPECTED)
    assert (tmp_path / "e.json").read_bytes() == (BAD / golden_bad.EXPECTATIONS).read_bytes()


@pytest.mark.row("R4")
def test_a_bad_bundle_in_a_file_is_refused_in_the_same_words_with_its_name() -> None:
    """From the disk it is mapped, and never a driver's matter; the words differ in the file's name
    alone.
    """

    def check(path: Path) -> None:
        assert refusal(devmod.FormatError, lambda: golden_bad.use(devmod.load(path))) == EXPECTED[
            path.name
        ]["message"].replace("the bundle in memory", repr(str(path)))

    check_each(sorted(BAD.glob("*.devmod")), check)


def test_every_message_is_complete_and_quotes_no_command_of_a_file() -> None:
    for name, entry in EXPECTED.items():
        assert entry["error"] == "FormatError", name
        assert 15 < len(entry["message"]) < 400, name
        assert "rm -rf" not in entry["message"], name
