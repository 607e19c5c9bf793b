"""Files that a released devmod wrote are read for ever, and the same payloads still give the same
bytes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alone import core_alone as core_alone

import devmod

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(ROOT / "tools"))

import golden  # noqa: E402 - tools/golden.py, which makes the payloads
import golden_readers  # noqa: E402 - tools/golden_readers.py, which has the other readers

#: Every version of the format that there ever was. Its folder is never removed.
VERSIONS = ("v1",)
#: What the folder of version 1 holds at least: a module of each kind, and a tree.
KINDS = (
    "cuda",
    "rocm",
    "opencl",
    "hexagon",
    "metal",
    "vulkan",
    "webgpu",
    "const_loader",
    "program",
)


def contents(version: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(
        (GOLDEN / version / golden.CONTENTS).read_text(encoding="utf-8")
    )["files"]
    return data


FILES = [GOLDEN / version / name for version in VERSIONS for name in contents(version)]


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def test_the_golden_files_are_complete_and_unchanged() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {*VERSIONS, "bad", "later", "README.md"}
    assert golden.VERSIONS == VERSIONS
    assert {f"{kind}.bytes" for kind in KINDS} | {"tree.devmod"} <= set(contents("v1"))
    for version in VERSIONS:
        items = contents(version)
        assert {path.name for path in (GOLDEN / version).iterdir()} == {*items, golden.CONTENTS}
        for name, entry in items.items():
            assert (
                hashlib.sha256((GOLDEN / version / name).read_bytes()).hexdigest()
                == entry["sha256"]
            ), name


@pytest.mark.row("R17", "R19", "R20", "R21", "R42")
@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_golden_file_has_its_contents(path: Path) -> None:
    assert golden.describe(path) == contents(path.parent.name)[path.name]["holds"]


@pytest.mark.row("R19", "R43")
@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".devmod"], ids=named)
def test_a_golden_file_is_saved_unchanged(path: Path, tmp_path: Path) -> None:
    assert devmod.dumps(devmod.load(path)) == path.read_bytes()
    devmod.save(devmod.loads(path.read_bytes()), tmp_path / "again.devmod")
    assert (tmp_path / "again.devmod").read_bytes() == path.read_bytes()


@pytest.mark.row("R17", "R19")
def test_a_golden_tree_has_the_golden_modules_in_it() -> None:
    results: dict[str, devmod.Module] = {}
    pending = [devmod.load(GOLDEN / "v1" / "tree.devmod")]
    while pending:
        module = pending.pop()
        pending += module.imports
        results[module.kind] = module
    assert results.pop("bundle").imports
    for kind, module in results.items():
        assert module.save_to_bytes() == (GOLDEN / "v1" / f"{kind}.bytes").read_bytes()
    assert {*results} == {*KINDS} - {"const_loader", "program"}
    assert results["cuda"].functions["add"] == golden.PLAIN
    assert results["webgpu"].functions["scale"] == golden.SHADER


def uses_this_library(path: Path) -> bool:
    """Whether a file is not compressed, or by the version of libzstd that is here: another version
    gives other bytes.
    """
    texts = {
        str(each.origin.extra.get("compression", ""))
        for each in devmod.load(path).imports
        if each.origin is not None
    }
    return all(golden.library().partition(" level")[0] in text for text in texts if text)


@pytest.mark.row("R17", "R18", "R38")
@pytest.mark.parametrize("path", FILES, ids=named)
def test_the_same_payload_gives_the_bytes_of_the_golden_file(path: Path) -> None:
    if path.suffix == ".devmod" and not uses_this_library(path):
        pytest.skip(
            f"the file was compressed by another version of libzstd than {golden.library()}"
        )
    assert golden.files(path.parent.name)[path.name] == path.read_bytes()


@pytest.mark.row("R19", "R50")
@pytest.mark.parametrize("reader", golden_readers.READERS)
def test_each_reader_reads_the_golden_trees(reader: str) -> None:
    """With their programs and the functions of their modules."""
    reason = golden_readers.missing(reader)
    if reason:
        pytest.skip(reason)
    trees = {named(path): path.read_bytes() for path in FILES if path.suffix == ".devmod"}
    found = golden_readers.read_all(reader, trees)
    assert [*found] == [*trees]
    for name, modules in found.items():
        text = golden_readers.first_error(modules)
        if name.endswith(("compressed.devmod", "both.devmod")):
            assert text == golden_readers.READ or "compressed with zstd" in text, name
        else:
            assert text == golden_readers.READ, name


@pytest.mark.row("R50")
def test_the_number_of_version_1_is_6() -> None:
    for path in FILES:
        if path.suffix == ".devmod":
            assert path.read_bytes()[8:12] == b"\x06\0\0\0", path


def test_a_replaced_file_is_kept_too() -> None:
    for version in VERSIONS:
        assert set(golden.files(version)) == set(contents(version))


@pytest.mark.row("R38")
@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_same_bytes_in_any_process(seed: str) -> None:
    script = "import hashlib, golden, json; print(json.dumps({n: hashlib.sha256(d).hexdigest() for n, d in golden.files('v1').items()}))"
    env = {
        "PYTHONPATH": str(ROOT / "tools"),
        "PYTHONHASHSEED": seed,
        "DEVMOD_COMPILE_FORCE_FALLBACK": "1",
    }
    data = json.loads(
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, env=env
        ).stdout
    )
    assert data == {name: entry["sha256"] for name, entry in contents("v1").items()}
