"""What backends keep in the folder of caches: found again by all that determines it, and by nothing else; never damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmod.backend import Kept


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_it_is_found_by_all_its_parts_alone(folder: Path) -> None:
    assert Kept("npu", "compiler 1", "source").read() == b""
    Kept("npu", "compiler 1", "source").write(b"\0binary\n")
    assert Kept("npu", "compiler 1", "source").read() == b"\0binary\n"
    for other in (("npu", "compiler 1s", "ource"), ("npu", "source", "compiler 1"), ("npu", "compiler 1"), ("gpu", "compiler 1", "source")):
        assert Kept(*other).read() == b""
    (kept,) = (folder / "npu").iterdir()
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:20], lambda data: b"", lambda data: b"x" + data[1:]])
def test_a_damaged_one_is_none_and_is_written_anew(damage: object, folder: Path) -> None:
    kept = Kept("npu", "source")
    kept.write(b"binary")
    file = Path(kept.path)
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    assert kept.read() == b""
    kept.write(b"binary")
    assert kept.read() == b"binary"


def test_without_a_place_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "npu").write_text("no folder")
    kept = Kept("npu", "source")
    kept.write(b"binary")
    assert kept.read() == b""
    monkeypatch.setattr("devmod._kept.cache_dir", lambda: "")
    kept = Kept("npu", "source")
    kept.write(b"binary")
    assert (kept.path, kept.read()) == ("", b"")
