"""The cache on the disk: its keys, trust, bounds, and behaviour on errors."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from each_case import refusal
from forked import python

import devmod
from devmod.backend import DiskCache, size_bound

BINARY = b"\0binary\n"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("DEVMOD_CACHE_SIZE", raising=False)
    return tmp_path


@pytest.fixture
def cache() -> DiskCache:
    return DiskCache("npu")


def test_an_entry_is_found_by_all_parts_of_its_key(folder: Path, cache: DiskCache) -> None:
    key = cache.key("compiler 1", "source")
    assert cache.read(key) is None
    cache.write(key, BINARY)
    assert cache.read(key) == BINARY
    assert DiskCache("npu").read(DiskCache.key("compiler 1", b"source")) == BINARY
    for parts in (("compiler 1s", "ource"), ("source", "compiler 1"), ("compiler 1",)):
        assert cache.read(cache.key(*parts)) is None
    assert DiskCache("gpu").read(key) is None
    (file,) = (folder / "npu").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_an_entry_may_be_empty(cache: DiskCache) -> None:
    key = cache.key("verdict")
    cache.write(key, b"")
    assert cache.read(key) == b""


@pytest.mark.parametrize("kind", ["", "Npu", "../up", "discovery", "n" * 33])
def test_an_invalid_kind_is_rejected(kind: str) -> None:
    assert (
        refusal(devmod.ArgumentError, DiskCache, kind)
        == f"a cache's kind is a name such as 'opencl', not {kind!r}"
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:20],
        lambda data: b"",
        lambda data: b"x" + data[1:],
        lambda data: data + b"x",
    ],
)
def test_a_damaged_entry_is_a_miss_and_is_replaced(damage: object, cache: DiskCache) -> None:
    key = cache.key("source")
    cache.write(key, BINARY)
    file = Path(cache.path(key))
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    assert cache.read(key) is None
    cache.write(key, BINARY)
    assert cache.read(key) == BINARY


def test_the_file_of_another_entry_is_a_miss(cache: DiskCache) -> None:
    cache.write(cache.key("one"), BINARY)
    os.rename(cache.path(cache.key("one")), cache.path(cache.key("two")))
    assert cache.read(cache.key("two")) is None


def test_without_a_cache_folder_nothing_is_stored(
    folder: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "npu").write_text("no folder")
    key = cache.key("source")
    cache.write(key, BINARY)
    assert cache.read(key) is None
    monkeypatch.setattr("devmod._util.disk_cache.cache_dir", lambda: "")
    cache.write(key, BINARY)
    assert (cache.path(key), cache.read(key)) == ("", None)


@pytest.mark.parametrize("error", [OSError("no space"), MemoryError(), RuntimeError("anything")])
@pytest.mark.parametrize("name", ["read_private", "write_private"])
def test_a_failure_of_the_cache_raises_nothing(
    name: str, error: Exception, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"devmod._util.disk_cache.{name}", fail)
    cache.write(cache.key("source"), BINARY)
    assert cache.read(cache.key("source")) is None


# -- trust

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can give a file to another user"
)


@posix
@pytest.mark.parametrize("which", ["entry", "kind", "base", "above"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_files_that_others_can_write_are_not_read(
    which: str, mode: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == 0o770 and which in ("base", "above") and os.geteuid() == os.getegid() != 0:
        pytest.skip(
            "a folder above of the user's private group is used, and only root can give one to another group"
        )
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(folder / "above" / "base"))
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    cache = DiskCache("npu")
    key = cache.key("source")
    file = Path(cache.path(key))
    loose = {
        "entry": file,
        "kind": file.parent,
        "base": file.parent.parent,
        "above": file.parent.parent.parent,
    }[which]
    cache.write(key, BINARY)
    loose.chmod(mode)
    if os.geteuid() == 0:
        os.chown(loose, 0, 12345)  # a group of other users
    done = python("-c", READ, key)
    assert done.stdout == "None\nNone\n" if which != "entry" else f"None\n{BINARY!r}\n"
    if which != "entry":
        assert done.stderr.splitlines() == [
            f"devmod: the cache folder {str(file.parent)!r} is not used: other users can write to {str(loose)!r} "
            f"(mode {mode:04o}); to mend it: chmod go-w {loose}",
            f"devmod: cannot write the entry {str(file)!r}",
        ]
    loose.chmod(0o600 if which == "entry" else 0o700)
    assert cache.read(key) == BINARY


READ = """
import sys
from devmod.backend import DiskCache
cache, key = DiskCache("npu"), sys.argv[1]
print(cache.read(key))
cache.write(key, b"\\0binary\\n")
print(cache.read(key))
"""


@as_root
@pytest.mark.parametrize("which", ["entry", "kind", "base"])
def test_files_of_another_user_are_not_read(which: str, folder: Path, cache: DiskCache) -> None:
    key = cache.key("source")
    cache.write(key, BINARY)
    file = Path(cache.path(key))
    other = {"entry": file, "kind": file.parent, "base": folder}[which]
    os.chown(other, 12345, 12345)
    if which == "base":  # this process has already checked the folders above the entry
        assert python("-c", READ, key).stdout == "None\nNone\n"
    else:
        assert cache.read(key) is None
    os.chown(other, 0, 0)
    assert cache.read(key) == BINARY


@posix
def test_a_private_folder_in_a_sticky_one_is_used() -> None:
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o1777)
        env = {**os.environ, "DEVMOD_CACHE_DIR": str(Path(above, "mine"))}
        done = python("-c", READ, DiskCache.key("x"), env=env)
        assert done.stdout == f"None\n{BINARY!r}\n"


@posix
@pytest.mark.skipif(
    os.name == "posix" and os.geteuid() != os.getegid(),
    reason="this user has no group of the same number",
)
def test_a_parent_folder_writable_by_the_private_group_of_the_user_is_trusted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders have these permissions with umask 002."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(folder / "above" / "base"))
    (folder / "above").mkdir()
    (folder / "above").chmod(0o775)
    cache = DiskCache("npu")
    cache.write(cache.key("source"), BINARY)
    assert cache.read(cache.key("source")) == BINARY


@posix
def test_folders_are_made_for_this_user_alone_under_any_umask(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(folder / "a" / "b"))
    cache = DiskCache("npu")
    mask = os.umask(0o002)
    try:
        cache.write(cache.key("source"), BINARY)
    finally:
        os.umask(mask)
    assert cache.read(cache.key("source")) == BINARY
    assert {
        each.stat().st_mode & 0o777
        for each in (folder / "a", folder / "a" / "b", folder / "a" / "b" / "npu")
    } == {0o700}


@posix
@pytest.mark.parametrize("strange", ["pipe", "link", "folder"])
def test_only_a_regular_file_is_read(strange: str, folder: Path, cache: DiskCache) -> None:
    key = cache.key("source")
    cache.write(key, BINARY)
    path = Path(cache.path(key))
    path.rename(folder / "elsewhere")
    if strange == "pipe":
        os.mkfifo(path)
    elif strange == "link":
        path.symlink_to(folder / "elsewhere")
    else:
        path.mkdir()
    assert cache.read(key) is None


@posix
def test_the_folders_above_are_checked_even_if_the_folder_was_missing_at_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(folder / "above" / "base"))
    cache = DiskCache("npu")
    key = cache.key("source")
    assert cache.read(key) is None
    python("-c", READ, key)
    (folder / "above").chmod(0o707)
    assert cache.read(key) is None
    (folder / "above").chmod(0o700)
    assert cache.read(key) == BINARY


# -- size


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each use of an entry its own time, independent of the resolution of the file system."""
    now = time.time_ns() - 3_600_000_000_000

    def touch(file: int) -> None:
        nonlocal now
        now += 10_000_000
        real(file, ns=(now, now))

    real = os.utime
    monkeypatch.setattr("devmod._util.cache_folder.os.utime", touch)
    monkeypatch.setattr("devmod._util.cache_folder.os.supports_fd", {touch})


def test_the_least_recently_used_entry_is_removed_first(
    cache: DiskCache, clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "64K")  # sixteen blocks, one of them free
    keys = [cache.key(str(number)) for number in range(16)]
    for key in keys[:15]:
        cache.write(key, BINARY)
        cache.read(key)
    assert cache.read(keys[0]) == BINARY
    DiskCache("gpu").write(keys[15], BINARY)  # all kinds share the bound
    assert DiskCache("gpu").read(keys[15]) == BINARY
    assert [key for key in keys[:15] if cache.read(key) is None] == [keys[1]]


def test_an_entry_over_the_bound_is_not_stored(
    folder: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = cache.key("source")
    for text in ("100", "100B", "1k", "1KB", "1KiB"):
        monkeypatch.setenv("DEVMOD_CACHE_SIZE", text)
        cache.write(key, bytes(1024))
        assert not (folder / "npu").exists()
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "0")
    cache.write(key, b"")
    assert not (folder / "npu").exists()


def test_one_process_stays_within_the_bound(
    folder: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "1M")
    for number in range(300):
        cache.write(cache.key(str(number)), bytes(number * 100))
        assert (
            sum(-(-file.stat().st_size // 4096) * 4096 for file in (folder / "npu").iterdir())
            <= 1 << 20
        )
    assert cache.read(cache.key("299")) == bytes(29900)


def test_the_number_of_entries_has_a_bound(
    folder: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmod._util.cache_files._MAX_ENTRIES", 20)
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "127K")  # the cache is listed at every write
    for number in range(31):
        cache.write(cache.key(str(number)), b"")
        assert len(list((folder / "npu").iterdir())) == min(number + 1, 20)


def test_files_of_others_are_neither_counted_nor_removed(
    folder: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "16K")
    (folder / "npu").mkdir(mode=0o700)
    (folder / "notes").mkdir()
    mine = [folder / "npu" / "notes.bin", folder / "notes" / "big.txt", folder / "photo.bin"]
    for file in mine:
        file.write_bytes(bytes(1 << 16))
    for number in range(8):
        cache.write(cache.key(str(number)), BINARY)
    assert all(file.exists() for file in mine)
    assert cache.read(cache.key("7")) == BINARY


def test_temporary_files_of_killed_processes_are_removed_after_an_hour(
    folder: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "64K")
    (folder / "npu").mkdir(mode=0o700)
    old, young = (folder / "npu" / f"{cache.key('x')}.bin.{number}.17a.tmp" for number in (1, 2))
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.write(cache.key("source"), BINARY)
    assert (old.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("", 1 << 30),
        ("0", 0),
        ("500000001", 500_000_001),
        ("3k", 3 << 10),
        ("5MB", 5 << 20),
        ("7GiB", 7 << 30),
        ("2T", 2 << 40),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, 1 << 30),
    ],
)
def test_a_bound_is_a_number_of_bytes(
    text: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", text)
    assert size_bound() == bound


@pytest.mark.parametrize("text", ["lots", "1.5G", "-1", "1" * 19, "²"])
def test_an_invalid_bound_is_ignored(
    text: str, cache: DiskCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", text)
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    cache.write(cache.key("source"), BINARY)
    assert cache.read(cache.key("source")) == BINARY
    expected = f"devmod: DEVMOD_CACHE_SIZE={text} is ignored: expected a number of bytes such as 500000000, 500M or 2G"
    assert set(capsys.readouterr().err.splitlines()) == {expected}


# -- several processes

TOGETHER = """
import random, sys
from devmod.backend import DiskCache
cache, seed = DiskCache("npu"), int(sys.argv[1])
random.seed(seed)
hits = 0
for _ in range(400):
    number = random.randrange(40)
    key, data = cache.key(str(number)), bytes([number]) * (number * 300)
    if random.random() < 0.5:
        cache.write(key, data)
    else:
        found = cache.read(key)
        assert found is None or found == data, number
        hits += found is not None
print(hits > 0)
"""


def test_processes_write_read_and_remove_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "128K")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    assert [child.communicate(timeout=300) for child in children] == [("True\n", "")] * 4
    assert list((folder / "npu").glob("*.tmp")) == []
    space = sum(-(-file.stat().st_size // 4096) * 4096 for file in (folder / "npu").iterdir())
    assert space <= (128 << 10) + len(children) * (4 << 10)


def test_many_processes_with_few_writes_stay_within_the_bound(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "256K")
    for number in range(300):
        monkeypatch.setattr("devmod._util.cache_files._written", {})  # as in a new process
        cache = DiskCache("npu")
        cache.write(cache.key(str(number)), bytes(4000))
    assert len(list((folder / "npu").iterdir())) <= 64 + 64  # every second process removes entries
