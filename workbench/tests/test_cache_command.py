"""`devmod cache`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import call

import devmod
from devmod.backend import DiskCache, program_cache


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "caches"
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(path))
    monkeypatch.delenv("DEVMOD_CACHE_SIZE", raising=False)
    return path


@pytest.fixture
def filled(folder: Path) -> Path:
    for kind, count in (("npu", 3), ("gpu", 1)):
        cache = DiskCache(kind)
        for number in range(count):
            cache.write(cache.key(str(number)), bytes(5000))
    (folder / "discovery").mkdir(mode=0o700)
    (folder / "discovery" / f"{1:032x}.bin").write_text("an index")
    (folder / "npu" / "notes").write_text("no entry")
    (folder / "photos").mkdir()
    (folder / "photos" / "one.bin").write_text("no entry")
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return call(capsys, "cache", *arguments)


def test_cache_prints_the_folder_and_each_kind(
    filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys) == (
        0,
        f"{filled}: 5 entries, 36.9 kB; DEVMOD_CACHE_SIZE allows 1.1 GB\n"
        "kind       entries  size\n"
        "discovery  1        4.1 kB\n"
        "gpu        1        8.2 kB\n"
        "npu        3        24.6 kB\n",
        "",
    )


def test_cache_prints_json(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--json")
    assert code == 0
    assert json.loads(out) == {
        "folder": str(filled),
        "entries": 5,
        "bytes": 36864,
        "bound": 1 << 30,
        "kinds": [
            {"kind": "discovery", "entries": 1, "bytes": 4096},
            {"kind": "gpu", "entries": 1, "bytes": 8192},
            {"kind": "npu", "entries": 3, "bytes": 24576},
        ],
        "problems": [],
    }


def test_an_empty_cache(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys) == (0, f"{folder}: 0 entries, 0 B; DEVMOD_CACHE_SIZE allows 1.1 GB\n", "")
    assert run(capsys, "clear") == (0, "Removed 0 entries, 0 B.\n", "")
    assert not folder.exists()
    monkeypatch.setattr("devmod_workbench._cli.cache.cache_dir", lambda: "")
    assert (
        run(capsys)[1]
        == "There is no cache folder: this user has no home folder, and DEVMOD_CACHE_DIR is not set.\n"
    )


def test_one_kind_is_cleared(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "clear", "npu") == (0, "Removed 3 entries, 24.6 kB.\n", "")
    assert sorted(os.listdir(filled / "npu")) == ["notes"]
    assert len(os.listdir(filled / "gpu")) == 1
    assert run(capsys, "clear", "npu") == (
        1,
        "",
        f"devmod: error: there is no cache of the kind 'npu' in {str(filled)!r}; there are: 'discovery', 'gpu'\n",
    )


def test_clear_removes_all_entries_and_no_other_files(
    filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (filled / "npu" / f"{1:064x}.bin.1.17a.tmp").write_bytes(b"of a process that was killed")
    code, out, _ = run(capsys, "clear", "--json")
    assert (code, json.loads(out)) == (0, {"entries": 5, "bytes": 36864})
    assert sorted(
        str(each.relative_to(filled)) for each in filled.rglob("*") if each.is_file()
    ) == ["npu/notes", "photos/one.bin"]


def test_files_that_cannot_be_removed_are_counted(
    filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = sorted(str(path) for path in (filled / "npu").glob("*.bin"))
    assert len(entries) == 3
    unlink = os.unlink

    def refuse(path: str) -> None:
        if path in entries[:2]:
            raise PermissionError(13, "Permission denied", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refuse)
    code, out, error = run(capsys, "clear", "npu")
    assert (code, out) == (1, "Removed 1 entry, 8.2 kB.\n")
    assert error.startswith("devmod: error: 2 files cannot be removed, among them ")
    assert any(repr(path) in error for path in entries[:2])


def test_a_folder_writable_by_others_is_not_cleared(
    filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (filled / "npu").chmod(0o777)
    why = f"other users can write to {str(filled / 'npu')!r} (mode 0777); to mend it: chmod go-w {filled / 'npu'}"
    assert run(capsys)[1].splitlines()[-1] == f"! not used: {why}"
    assert json.loads(run(capsys, "--json")[1])["problems"] == [why]
    code, _, err = run(capsys, "clear", "npu")
    assert (code, err) == (
        1,
        f"devmod: error: the cache folder {str(filled / 'npu')!r} is not cleared: {why}\n",
    )
    assert len(os.listdir(filled / "npu")) == 4


# -- caches of other programs


def test_caches_of_other_programs_are_shown_and_cleared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numba = Path(program_cache("tools", "numba"))
    assert numba == folder / "tools" / "numba"
    (numba / "deep").mkdir()
    (numba / "deep" / "f.nbi").write_bytes(bytes(5000))
    (numba / "link").symlink_to(__file__)
    assert run(capsys)[1].splitlines()[1:] == ["kind   entries  size", "tools  1        8.2 kB"]
    assert run(capsys, "clear") == (0, "Removed 1 entry, 8.2 kB.\n", "")
    assert not (numba / "deep" / "f.nbi").exists()
    assert (numba / "link").exists()
    assert run(capsys)[1].splitlines()[1:] == []
    assert program_cache("tools", "numba") == str(numba)


def test_caches_of_other_programs_count_for_the_bound(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "100K")
    numba = Path(program_cache("tools", "numba"))
    for number in range(40):
        path = numba / f"{number}.nbi"
        path.write_bytes(bytes(4096))
        os.utime(path, (number, number))
    monkeypatch.setattr("devmod._util.program_cache._bounded", set())  # as in another process
    program_cache("tools", "numba")
    left = {each.name for each in numba.iterdir()}
    assert 0 < len(left) <= 24
    assert left == {f"{number}.nbi" for number in range(40 - len(left), 40)}


@pytest.mark.parametrize("place", ["", "tools", "tools/numba"])
def test_caches_of_other_programs_that_others_can_write_to_are_not_used(
    folder: Path, place: str
) -> None:
    program_cache("tools", "numba")
    (folder / place).chmod(0o777)
    with pytest.raises(devmod.DevmodError, match=r"is not used: other users can write to .*0777"):
        program_cache("tools", "numba")


def test_a_folder_with_a_users_files_is_no_cache_of_other_programs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)  # `parents` alone leaves it to the umask
    (folder / "tools").mkdir(mode=0o700)
    (folder / "tools" / "notes").write_text("a user's")
    with pytest.raises(
        devmod.DevmodError, match="it has the file 'notes', which is not of a cache"
    ):
        program_cache("tools")
    assert run(capsys, "clear")[0] == 0
    assert (folder / "tools" / "notes").exists()
