"""A part of `make fuzz` with fixed inputs: every reader of strangers' bytes, its past findings, and
files that once took too long.

`make test` has a thirty-second of the inputs of `make test-all`, and no large files.

They run in processes of their own, which may end in any way, and alone in `make test-all`.
`tools/fuzzing/readers.py` has the readers and the properties.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from work import assert_linear

import devmod

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from fuzzing.c_reader import compiler  # noqa: E402
from fuzzing.large import LARGE  # noqa: E402
from fuzzing.process import Run, run_reader, run_readers  # noqa: E402
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
    if reader == "c-reader" and compiler() is None:
        pytest.skip("there is no C compiler on PATH")


def groups() -> Iterator[list[str]]:
    """Yield the readers that run in one process, which takes as long to start as most of them run.

    The peak of a library's memory would hide that of the readers after it.
    """
    native = [reader.name for reader in READERS.values() if reader.native]
    yield [name for name in READERS if name not in native]
    for javascript in (False, True):
        yield [name for name in native if name.startswith("javascript") is javascript]


def check(run: Run, executions: int) -> None:
    assert run.findings == []
    assert run.executions == executions


@pytest.mark.row("R4", "R18", "R19", "R24", "R41")
@pytest.mark.parametrize("group", [*groups()], ids=lambda group: f"{group[0]} to {group[-1]}")
def test_past_findings_and_mutated_files(group: list[str], tmp_path: Path) -> None:
    arguments, counts = {}, {}
    for reader in group:
        needed(reader, "mutated")
        count, files = READERS[reader].executions // 32, sorted((CORPUS / reader).glob("*"))
        arguments[reader] = [
            "--executions",
            str(count),
            "--untimed",
            *(["--files", *map(str, files)] if files else []),
        ]
        counts[reader] = count + (1 + len(files) if files else 0)
    assert run_readers(arguments, tmp_path, timeout=1200) == [
        Run(reader, count, []) for reader, count in counts.items()
    ]


@pytest.mark.volume
@pytest.mark.parametrize("reader", READERS)
def test_many_mutated_files(reader: str, tmp_path: Path) -> None:
    needed(reader, "mutated")
    executions = READERS[reader].executions
    check(
        run_reader(
            reader,
            tmp_path,
            "--executions",
            str(executions),
            "--seed",
            "1",
            "--untimed",
            timeout=1200,
        ),
        executions,
    )


@pytest.mark.volume
@pytest.mark.row("R41")
@pytest.mark.parametrize("reader", sorted({reader for reader, _, _ in LARGE.values()}))
def test_memory_is_linear_in_the_size(reader: str, tmp_path: Path) -> None:
    needed(reader, "large")
    names = [name for name, (its, _, _) in LARGE.items() if its == reader]
    check(
        run_reader(reader, tmp_path, "--large", *names, "--untimed", timeout=1200), 1 + len(names)
    )


#: The size of the smaller file. Up to 1,024 entry points, the reader of SPIR-V reads the module
#: again for each.
SIZES = {name: max(size // 400, 1000) for name, (_, _, size) in LARGE.items()} | {
    "SPIR-V: entries": 100_000
}
#: The readers of these do less for small files.
SIZES |= dict.fromkeys(("WGSL: entries", "WGSL: calls", "WGSL: statements"), 4000) | {
    "WGSL: a sum": 2000,
    "bundle: tiny maps in an origin": 5000,
}


@pytest.mark.row("R41")
@pytest.mark.parametrize(
    "name", [name for name, (reader, _, _) in LARGE.items() if not READERS[reader].native]
)
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
