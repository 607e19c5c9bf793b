"""A part of `make fuzz` with fixed inputs: every reader of strangers' bytes, its past findings, and files that once took too long.

`make test` has an eighth of the inputs of `make test-all`, and no large files.

Each runs in a process of its own, which may end in any way. `tools/fuzzing/readers.py` has the readers and the properties.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from work import assert_linear

import devmod

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from fuzzing.large import LARGE  # noqa: E402
from fuzzing.process import Run, run_reader  # noqa: E402
from fuzzing.readers import READERS  # noqa: E402
from fuzzing.seeds import CORPUS  # noqa: E402

ABOUT: dict[str, str] = tomllib.loads((CORPUS / "corpus.toml").read_text(encoding="utf-8"))
FOLDERS = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())

#: What is being mended, by test and reader.
OPEN: set[tuple[str, str]] = set()


def needed(reader: str, test: str) -> None:
    """Skip where the program is missing that a reader is."""
    if (test, reader) in OPEN:
        pytest.xfail("being mended")
    if reader.startswith("javascript") and not shutil.which("node"):
        pytest.skip("node is not installed")


def check(run: Run, executions: int) -> None:
    assert run.findings == []
    assert run.executions == executions


def mutate(reader: str, count: int, seed: str, folder: Path, *files: Path) -> None:
    needed(reader, "mutated")
    arguments = ["--files", *map(str, files)] if files else []
    run = run_reader(reader, folder, "--executions", str(count), "--seed", seed, "--untimed", *arguments, timeout=1200)
    check(run, count + (1 + len(files) if files else 0))


@pytest.mark.row("R4", "R18", "R19", "R24", "R41")
@pytest.mark.parametrize("reader", READERS)
def test_past_findings_and_mutated_files(reader: str, tmp_path: Path) -> None:
    """The process of a reader starts once for both."""
    mutate(reader, READERS[reader].executions // 8, "0", tmp_path, *sorted((CORPUS / reader).glob("*")))


@pytest.mark.volume
@pytest.mark.parametrize("reader", READERS)
def test_many_mutated_files(reader: str, tmp_path: Path) -> None:
    mutate(reader, READERS[reader].executions, "1", tmp_path)


@pytest.mark.volume
@pytest.mark.row("R41")
@pytest.mark.parametrize("reader", sorted({reader for reader, _, _ in LARGE.values()}))
def test_memory_is_linear_in_the_size(reader: str, tmp_path: Path) -> None:
    needed(reader, "large")
    names = [name for name, (its, _, _) in LARGE.items() if its == reader]
    check(run_reader(reader, tmp_path, "--large", *names, "--untimed", timeout=1200), 1 + len(names))


#: The size of the smaller file. Up to 1,024 entry points, the reader of SPIR-V reads the module again for each.
SIZES = {name: max(size // 100, 4000) for name, (_, _, size) in LARGE.items()} | {"SPIR-V: entries": 100_000}


@pytest.mark.row("R41")
@pytest.mark.parametrize("name", [name for name, (reader, _, _) in LARGE.items() if not READERS[reader].native])
def test_work_is_linear_in_the_size(name: str) -> None:
    its, make, _ = LARGE[name]
    needed(its, "work")

    def call(size: int) -> Callable[[], object]:
        data = make(size)

        def read() -> None:
            with suppress(devmod.DevmodError):
                READERS[its].read(data)

        return read

    assert_linear(call, SIZES[name])


def test_every_past_finding_is_described() -> None:
    assert set(FOLDERS) <= set(READERS)
    assert sorted(ABOUT) == sorted(f"{path.parent.name}/{path.name}" for path in CORPUS.glob("*/*"))
    assert all(len(text) > 10 for text in ABOUT.values())
