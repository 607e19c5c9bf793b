"""Discovery of installed distributions, after changes, with damaged caches, and with unreliable
folder times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from distributions import (
    AN_HOUR_LATER,
    GOOD,
    LIST,
    PYTHON,
    Session,
    entry_points,
    environment,
    folders_read,
    indexes,
    install,
    npu,
    run,
    seen,
    stop_clock,
    uninstall,
)

from devmod._plugins.claim import Claim, Distribution, normalize_name

NPU = {"devmod.create": {"npu": "devmod_npu:create"}}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder like site-packages, with devmod-npu 1.0 and distributions without devmod
    entries.
    """
    folder = tmp_path.resolve() / "site"
    npu(folder)
    install(folder, "other", groups={"console_scripts": {"other": "other:main"}})
    install(folder, "plain")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def indexed(site: Path, cache: Path) -> Path:
    """Return `site` after its index was written."""
    assert seen([site], cache) == {"npu": "devmod-npu 1.0"}
    assert folders_read([site], cache) == []
    return site


def seen_twice(path: list[Path], cache: Path) -> dict[str, str]:
    """Return what a first process finds, and another one by its index."""
    first = seen(path, cache)
    assert seen(path, cache) == first
    return first


# -- the index
# --------------------------------------------------------------------------------------------------


def test_a_folder_is_read_once_and_other_processes_use_its_index(site: Path, cache: Path) -> None:
    assert folders_read([site], cache) == [str(site)]
    assert folders_read([site], cache) == []
    assert seen([site], cache) == {"npu": "devmod-npu 1.0"}
    miss = "try:\n    devmod.create('tpu', b'', 'x', {})\nexcept devmod.NotRegisteredError:\n    print('miss')\n"
    out, log = run(AN_HOUR_LATER + "import devmod\n" + miss, [site], cache, {"DEVMOD_LOG": "debug"})
    assert out == "miss\n"
    assert f"read {str(site)!r}" not in log


def test_a_folder_that_has_just_changed_is_read_each_time(site: Path, cache: Path) -> None:
    for _ in range(2):
        assert folders_read([site], cache, before=stop_clock(site)) == [str(site)]
    assert seen([site], cache, before=stop_clock(site)) == {"npu": "devmod-npu 1.0"}


def test_no_index_is_written_for_an_old_folder_with_a_new_distribution(
    tmp_path: Path, cache: Path
) -> None:
    """An installer may make the metadata folder and write its files later."""
    site = tmp_path.resolve() / "site"
    install(site, "plain")
    program = f"""
        import os
        real = os.stat
        def stat(path, *args, **more):
            found = real(path, *args, **more)
            if str(path) != {str(site)!r}:
                return found
            old = found.st_ctime_ns - 3600 * 10**9
            return os.stat_result(found[:10], {{"st_mtime_ns": old, "st_ctime_ns": old}})
        os.stat = stat
        """
    clock = stop_clock(site)
    for _ in range(2):
        assert folders_read([site], cache, before=clock + textwrap.dedent(program)) == [str(site)]
    folders_read([site], cache, before=textwrap.dedent(program) + AN_HOUR_LATER)
    assert folders_read([site], cache, before=textwrap.dedent(program)) == []


def test_folders_without_metadata_get_no_index(tmp_path: Path, cache: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "tool.py").write_text("")
    seen([scripts], cache)
    assert not _index_of(cache, scripts).exists()


LISTED = """
import sys
listed = []
sys.addaudithook(lambda event, values: listed.append(values[0]) if event == "os.listdir" else None)
"""


def test_a_folder_without_metadata_is_listed_again_after_a_change(
    indexed: Path, tmp_path: Path, cache: Path
) -> None:
    scripts = tmp_path.resolve() / "scripts"
    scripts.mkdir()
    (scripts / "tool.py").write_text("")
    with Session([scripts, indexed], cache, before=AN_HOUR_LATER + LISTED) as running:
        for _ in range(3):
            assert running.seen() == {"npu": "devmod-npu 1.0"}
        assert running.ask(f"listed.count({str(scripts)!r})") == 1
        npu(scripts, name="acme-tpu", kind="tpu")
        assert running.seen() == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}


def test_a_folder_without_metadata_that_has_just_changed_is_listed_each_time(
    indexed: Path, tmp_path: Path, cache: Path
) -> None:
    scripts = tmp_path.resolve() / "scripts"
    scripts.mkdir()
    (scripts / "tool.py").write_text("")
    with Session([scripts, indexed], cache, before=stop_clock(scripts) + LISTED) as running:
        for _ in range(3):
            assert running.seen() == {"npu": "devmod-npu 1.0"}
        assert running.ask(f"listed.count({str(scripts)!r})") == 3


def test_a_large_folder_without_metadata_gets_one(tmp_path: Path, cache: Path) -> None:
    many = tmp_path.resolve() / "many"
    many.mkdir()
    for number in range(600):
        (many / f"m{number}.py").touch()
    assert folders_read([many], cache) == [str(many)]
    assert folders_read([many], cache) == []


def test_the_oldest_indexes_are_removed(site: Path, cache: Path) -> None:
    (cache / "discovery").mkdir(parents=True, mode=0o700)
    for number in range(300):
        (cache / "discovery" / f"{number:032x}.bin").write_text("")
    assert seen([site], cache) == {"npu": "devmod-npu 1.0"}
    assert len(indexes(cache)) == 256
    assert folders_read([site], cache) == []


def test_the_index_preserves_names_with_any_character(tmp_path: Path, cache: Path) -> None:
    site = tmp_path.resolve() / "a\tb\\tc\\\\d\ne é"
    npu(site)
    (site / "devmod_npu-1.0.dist-info" / "METADATA").write_text(
        "Name: devmod-npu\nVersion: 1.0 \\t\\\\n\n"
    )
    assert seen_twice([site], cache) == {"npu": "devmod-npu 1.0 \\t\\\\n"}
    assert folders_read([site], cache) == []


@pytest.mark.skipif(
    os.name != "posix" or sys.platform == "darwin", reason="file names are text on this system"
)
def test_a_path_with_invalid_utf8_is_indexed(tmp_path: Path, cache: Path) -> None:
    raw = os.fsencode(tmp_path.resolve()) + b"/\xff\xfe"
    site = Path(os.fsdecode(raw))
    npu(site)
    assert seen_twice([site], cache) == {"npu": "devmod-npu 1.0"}
    assert folders_read([site], cache) == []


# -- changes
# --------------------------------------------------------------------------------------------------


def _upgrade(site: Path) -> None:
    uninstall(site / "devmod_npu-1.0.dist-info")
    install(site, "devmod-npu", "1.1", NPU)


def _reinstall_with_another_kind(site: Path) -> None:
    uninstall(site / "devmod_npu-1.0.dist-info")
    install(site, "devmod-npu", "1.0", {"devmod.create": {"tpu": "devmod_npu:create"}})


def _rewrite_entry_points(site: Path) -> None:
    file = site / "devmod_npu-1.0.dist-info" / "entry_points.txt"
    file.write_text(file.read_text().replace("npu =", "tpu ="))  # of the same length


def _rewrite_metadata(site: Path) -> None:
    (site / "devmod_npu-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: devmod-npu\nVersion: 2.0\n"
    )


def _set_the_times_back(site: Path) -> None:
    about = os.stat(site)
    npu(site, name="acme-tpu", kind="tpu")
    os.utime(site, ns=(about.st_atime_ns, about.st_mtime_ns))


def _set_a_files_times_back(site: Path) -> None:
    file = site / "devmod_npu-1.0.dist-info" / "entry_points.txt"
    about = os.stat(file)
    _rewrite_entry_points(site)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


def _put_another_folder_in_its_place(site: Path) -> None:
    site.rename(site.with_name("old"))
    npu(site, name="acme-tpu", kind="tpu")


def _give_ours_entries_in_place(site: Path) -> None:
    (site / "devmod_tpu-1.0.dist-info" / "entry_points.txt").write_text(
        entry_points({"devmod.create": {"tpu": "devmod_tpu:create"}})
    )


def _give_egg_info_entries_in_place(site: Path) -> None:
    (site / "acme.egg-info" / "entry_points.txt").write_text(
        entry_points({"devmod.create": {"tpu": "acme:create"}})
    )


def _finish_an_install(site: Path) -> None:
    (site / "half-1.0.dist-info" / "entry_points.txt").write_text(
        entry_points({"devmod.create": {"tpu": "half:create"}})
    )
    (site / "half-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: half\nVersion: 1.0\n"
    )


CHANGES: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "install": (
        lambda site: npu(site, name="acme-tpu", kind="tpu"),
        {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"},
    ),
    "uninstall": (lambda site: uninstall(site / "devmod_npu-1.0.dist-info"), {}),
    "upgrade": (_upgrade, {"npu": "devmod-npu 1.1"}),
    "reinstall": (_reinstall_with_another_kind, {"tpu": "devmod-npu 1.0"}),
    "entry points in place": (_rewrite_entry_points, {"tpu": "devmod-npu 1.0"}),
    "metadata in place": (_rewrite_metadata, {"npu": "devmod-npu 2.0"}),
    "folder time set back": (_set_the_times_back, {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}),
    "file time set back": (_set_a_files_times_back, {"tpu": "devmod-npu 1.0"}),
    "another folder of that name": (_put_another_folder_in_its_place, {"tpu": "acme-tpu 1.0"}),
    "entry points come in place": (
        _give_ours_entries_in_place,
        {"npu": "devmod-npu 1.0", "tpu": "devmod-tpu 1.0"},
    ),
    "egg-info in place": (
        _give_egg_info_entries_in_place,
        {"npu": "devmod-npu 1.0", "tpu": "acme 1.0"},
    ),
    "half an install": (_finish_an_install, {"npu": "devmod-npu 1.0", "tpu": "half 1.0"}),
}


@pytest.mark.row("R3")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed_by_new_and_running_processes(
    site: Path, cache: Path, change: str
) -> None:
    install(site, "devmod-tpu")
    install(site, "acme", kind="egg-info")
    (site / "half-1.0.dist-info").mkdir()
    make, after = CHANGES[change]
    with Session([site], cache) as running:
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        assert folders_read([site], cache) == []
        time.sleep(
            0.02
        )  # the clock of a file system may have 100 ticks a second; devmod itself waits 2 s
        make(site)
        assert running.seen() == after
    assert seen([site], cache) == after


@pytest.mark.row("R3")
def test_a_changed_sys_path_is_noticed(indexed: Path, tmp_path: Path, cache: Path) -> None:
    other = tmp_path / "other"
    npu(other, "3.0")
    npu(other, name="acme-tpu", kind="tpu")
    with Session([indexed], cache) as running:
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        running.do(f"import sys; sys.path.append({str(other)!r})")
        assert running.seen() == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}
        running.do(f"sys.path.remove({str(indexed)!r})")
        assert running.seen() == {"npu": "devmod-npu 3.0", "tpu": "acme-tpu 1.0"}
        running.do(
            "sys.path.append(1); sys.path.append('a\\0b'); sys.path.append('/does/not/exist')"
        )
        assert running.seen() == {"npu": "devmod-npu 3.0", "tpu": "acme-tpu 1.0"}
    assert seen([other, indexed], cache) == {"npu": "devmod-npu 3.0", "tpu": "acme-tpu 1.0"}


@pytest.mark.parametrize("entry", ["", ".", "site"])
def test_relative_entries_are_folders_of_the_working_directory(
    site: Path, cache: Path, tmp_path: Path, entry: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "site").mkdir(parents=True)
    with Session([], cache) as running:
        running.do(
            f"import os, sys; os.chdir({str(site.parent if entry == 'site' else site)!r}); sys.path.insert(0, {entry!r})"
        )
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        running.do(f"os.chdir({str(elsewhere)!r})")
        assert running.seen() == {}


# -- unreliable times
# --------------------------------------------------------------------------------------------------

#: All files in `folder` get one time in whole seconds, one inode and one size, as in a reproducible
#: image.
NORMALIZED = """
import os
real = os.stat
def stat(path, *args, **more):
    found = real(path, *args, **more)
    if not str(path).startswith({0!r}):
        return found
    fixed = [found.st_mode, 7, 7, 1, 0, 0, 4096 if not isinstance(path, int) else found.st_size, 0, 0, 0]
    return os.stat_result(fixed, {{"st_mtime_ns": 315532800 * 10**9, "st_ctime_ns": 315532800 * 10**9}})
os.stat = stat
"""


@pytest.mark.row("R3")
@pytest.mark.volume_but("metadata in place", "file time set back")
@pytest.mark.parametrize("change", CHANGES)
def test_each_process_reads_a_folder_with_normalized_times(
    site: Path, cache: Path, change: str
) -> None:
    install(site, "devmod-tpu")
    install(site, "acme", kind="egg-info")
    (site / "half-1.0.dist-info").mkdir()
    make, after = CHANGES[change]
    before = NORMALIZED.format(str(site)) + AN_HOUR_LATER
    with Session([site], cache, before=before) as running:
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        make(site)
        assert running.seen() == after
    assert seen([site], cache, before=before) == after
    assert folders_read([site], cache, before=before) == [str(site)]


def test_an_index_is_not_used_after_times_are_normalized(indexed: Path, cache: Path) -> None:
    before = NORMALIZED.format(str(indexed)) + AN_HOUR_LATER
    assert folders_read([indexed], cache, before=before) == [str(indexed)]


def test_files_with_whole_seconds_on_a_file_system_with_fractions_are_indexed(
    site: Path, cache: Path
) -> None:
    """Installers and archives set modification times. The file system sets the change time, which
    shows a change.
    """
    for file in [*site.rglob("*"), site]:
        os.utime(file, (315532800, 315532800))
    assert seen([site], cache) == {"npu": "devmod-npu 1.0"}
    assert folders_read([site], cache) == []


# -- damaged caches
# --------------------------------------------------------------------------------------------------


def _index_of(cache: Path, site: Path) -> Path:
    from devmod._plugins.index_file import check_value

    return cache / "discovery" / f"{check_value(os.fsencode(site))}.bin"


def _cut(file: Path, at: float) -> None:
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * at)])


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _swap(file: Path) -> None:
    """Replace an index by the valid index of another folder."""
    other = next(each for each in file.parent.iterdir() if each != file)
    file.write_bytes(other.read_bytes())


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": lambda file: _cut(file, 0),
    "cut in the head": lambda file: _cut(file, 0.02),
    "cut in the middle": lambda file: _cut(file, 0.5),
    "cut at the end": lambda file: _cut(file, 0.999),
    "one bit": _flip,
    "longer": lambda file: file.write_bytes(
        file.read_bytes() + b"E\tdevmod.create\ttpu\tevil:create\n"
    ),
    "another version": lambda file: file.write_bytes(
        file.read_bytes().replace(b"devmod-index-2", b"devmod-index-9")
    ),
    "another folder's": _swap,
    "random": lambda file: file.write_bytes(os.urandom(300)),
    "written by others": lambda file: file.chmod(0o666),
    "a pipe": _pipe,
    "a folder": _folder,
}


def _sparse(file: Path) -> None:
    """Make a file huge without using space."""
    os.truncate(file, 1 << 40)


def _device(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


#: Metadata files that no installer writes. Reading the first waits for a writer, reading the others
#: does not end.
UNREADABLE: dict[str, Callable[[Path], None]] = {
    "a pipe": _pipe,
    "a device": _device,
    "a huge file": _sparse,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
@pytest.mark.volume_but(
    "entry_points.txt-a pipe", "METADATA-a device", "METADATA-a huge file", "PKG-INFO-a pipe"
)
@pytest.mark.parametrize("damage", UNREADABLE)
@pytest.mark.parametrize("file", ["entry_points.txt", "METADATA", "PKG-INFO"])
def test_a_metadata_file_that_cannot_be_read_to_its_end_is_not_read(
    site: Path, cache: Path, file: str, damage: str
) -> None:
    info = install(
        site,
        "acme-bad",
        "1.0",
        {"devmod.create": {"bad": "acme:create"}},
        kind="egg-info" if file == "PKG-INFO" else "dist-info",
    )
    UNREADABLE[damage](info / file)
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
    broken = {} if file == "entry_points.txt" else {"bad": "acme_bad"}
    assert seen([site], cache, before=limit) == {"npu": "devmod-npu 1.0"} | broken
    out, log = run(CREATE.format("bad"), [site], cache, {"DEVMOD_LOG": "debug"})
    reason = {
        "a pipe": "it is a pipe (FIFO)",
        "a device": "it is a character device",
        "a huge file": "it has 1099511627776 bytes",
    }[damage]
    if file == "entry_points.txt":
        assert f"cannot read {str(info / file)!r}: {reason}\n" in log
    else:
        assert (
            f"devmod.create.bad is broken: the METADATA in {info.name} cannot be read ({reason}). Remove {str(info)!r}, and install"
            in out
        )


@pytest.mark.once
@pytest.mark.volume_but(
    "cut in the middle",
    "written by others",
    "another version",
    "another folder's",
    "a pipe",
    "a folder",
)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_ignored(site: Path, cache: Path, tmp_path: Path, damage: str) -> None:
    other = tmp_path.resolve() / "other"
    npu(other, name="acme-tpu", kind="tpu")
    assert len(seen([site, other], cache)) == 2
    file = _index_of(cache, site)
    if damage in ("written by others", "another version"):
        _plant(file)
    DAMAGE[damage](file)
    assert seen([site, other], cache) == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}
    # The index was written again. A pipe or folder in its place stays.
    assert folders_read([site], cache) == ([str(site)] if damage == "a folder" else [])


def _plant(file: Path) -> None:
    """Write a valid index with the name of other code."""
    from devmod._plugins.index_file import MAGIC, check_value

    body = file.read_bytes().partition(b"\n")[2].replace(b"devmod-npu", b"devmod-bad")
    file.write_bytes(f"{MAGIC} {check_value(body)} {len(body)}\n".encode() + body)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can give a file to another user",
)
def test_an_index_of_another_user_is_not_read(indexed: Path, cache: Path) -> None:
    file = _index_of(cache, indexed)
    _plant(file)
    os.chown(file, 12345, 12345)
    assert seen([indexed], cache) == {"npu": "devmod-npu 1.0"}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o777, 0o1777])
@pytest.mark.parametrize("which", ["the indexes' folder", "the cache folder", "the folder above"])
def test_an_index_in_a_folder_that_others_can_write_to_is_not_read(
    site: Path, tmp_path: Path, which: str, mode: int
) -> None:
    cache = tmp_path / "above" / "cache"
    assert seen([site], cache) == {"npu": "devmod-npu 1.0"}
    _plant(_index_of(cache, site))
    {
        "the indexes' folder": cache / "discovery",
        "the cache folder": cache,
        "the folder above": cache.parent,
    }[which].chmod(mode)
    # No other user can rename this user's files there.
    sticky = mode == 0o1777 and which != "the indexes' folder"
    assert seen([site], cache) == {"npu": f"devmod-{'bad' if sticky else 'npu'} 1.0"}


def test_indexes_are_readable_by_their_user_alone(indexed: Path, cache: Path) -> None:
    file = _index_of(cache, indexed)
    assert file.stat().st_mode & 0o777 == 0o600
    assert (cache / "discovery").stat().st_mode & 0o777 == 0o700


@pytest.mark.volume_but("under a file", "no home", "read-only")
@pytest.mark.parametrize("how", ["a file", "under a file", "no home", "read-only"])
def test_without_a_usable_cache_folder_each_process_reads_the_folders(
    site: Path, tmp_path: Path, how: str
) -> None:
    place = tmp_path / "place"
    extra: dict[str, str] = {}
    if how == "no home":
        extra = {
            "DEVMOD_CACHE_DIR": "",
            "HOME": "/does/not/exist",
            "XDG_CACHE_HOME": "relative/is/ignored",
        }
    elif how == "read-only":
        place.mkdir(mode=0o500)
    else:
        place.write_text("in the way")
    cache = place / "below" if how == "under a file" else place
    for _ in range(2):
        assert seen([site], cache, extra) == {"npu": "devmod-npu 1.0"}
    if how in ("a file", "under a file"):
        assert place.read_text() == "in the way"
        assert folders_read([site], cache) == [str(site)]
    # The process uses its own cached folders, and checks them for changes.
    with Session([site], cache) as running:
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        time.sleep(0.02)
        npu(site, name="acme-tpu", kind="tpu")
        assert running.seen() == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}


@pytest.mark.row("R32")
def test_many_processes_at_once(site: Path, cache: Path) -> None:
    started = [
        subprocess.Popen(
            [*PYTHON, AN_HOUR_LATER + LIST],
            env=environment([site], cache),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    assert {each.communicate()[0] for each in started} == {'{"npu": "devmod-npu 1.0"}\n'}
    assert [each.returncode for each in started] == [0] * 6
    assert [file.suffix for file in indexes(cache)] == [".bin"] * len(indexes(cache))
    assert folders_read([site], cache) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.row("R32")
def test_a_process_forked_during_a_look_up_scans_sys_path_itself(site: Path, cache: Path) -> None:
    program = f"""
        import os, sys
        from devmod._plugins.discovery import shared_scan
        import devmod
        with shared_scan():
            assert list(devmod.registered("devmod.create")) == ["const_loader", "npu"]
            sys.path.remove({str(site)!r})
            assert list(devmod.registered("devmod.create")) == ["const_loader", "npu"]
            child = os.fork()
            if child == 0:
                os._exit(len(devmod.registered("devmod.create")))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    assert run(program, [site], cache)[0] == "1\n"


# -- variants of metadata
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R9")
def test_the_first_of_two_distributions_of_one_name_is_used(
    site: Path, tmp_path: Path, cache: Path
) -> None:
    second = tmp_path / "second"
    npu(second, "2.0")
    for _ in range(2):
        assert seen([site, second], cache) == {"npu": "devmod-npu 1.0"}
        assert seen([second, site], cache) == {"npu": "devmod-npu 2.0"}


@pytest.mark.row("R9")
def test_the_later_install_of_two_versions_in_one_folder_is_used(site: Path, cache: Path) -> None:
    time.sleep(0.02)
    install(site, "devmod.NPU", "0.9", {"devmod.create": {"tpu": "devmod_npu:create"}})
    assert seen_twice([site], cache) == {"tpu": "devmod.NPU 0.9"}


@pytest.mark.row("R9")
@pytest.mark.parametrize("by", ["pip", "distutils"])
def test_the_first_distribution_of_a_name_is_used_even_without_entries(
    site: Path, tmp_path: Path, cache: Path, by: str
) -> None:
    first = tmp_path / "first"
    if by == "pip":
        install(first, "Devmod.NPU", "0.1")
    else:
        first.mkdir()
        (first / "devmod_npu-0.1-py3.11.egg-info").write_text(
            "Metadata-Version: 1.0\nName: devmod-npu\nVersion: 0.1\n"
        )
    assert seen_twice([first, site], cache) == {}


@pytest.mark.row("R9")
def test_a_folder_twice_on_the_path_is_read_once(site: Path, tmp_path: Path, cache: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(site)
    out, log = run(AN_HOUR_LATER + LIST, [link, site, link], cache, {"DEVMOD_LOG": "debug"})
    assert out == '{"npu": "devmod-npu 1.0"}\n'
    assert log.count("with devmod entries") == 1
    assert f"read {str(site)!r}" in log


def test_folders_that_pip_could_not_remove_are_ignored(site: Path, cache: Path) -> None:
    info = npu(site, "0.9", name="evmod-npu", kind="tpu")
    info.rename(site / "~evmod_npu-0.9.dist-info")
    assert seen_twice([site], cache) == {"npu": "devmod-npu 1.0"}


def _no_name(info: Path) -> None:
    (info / "METADATA").write_text("Metadata-Version: 2.1\nVersion: 1.0\n")


def _no_version(info: Path) -> None:
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-bad\n")


def _no_text(info: Path) -> None:
    (info / "METADATA").write_bytes(b"Name: acme-bad\nVersion: \xff\xfe\n")


CREATE = """
import devmod
try:
    devmod.create({0!r}, b"", "x", {{}})
except devmod.DevmodError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            lambda info: (info / "METADATA").unlink(),
            "acme_bad-1.0.dist-info has no METADATA, as an interrupted install or uninstall leaves it",
        ),
        (_no_name, "the METADATA in acme_bad-1.0.dist-info has no Name"),
        (_no_version, "the METADATA in acme_bad-1.0.dist-info has no Version"),
        (
            _no_text,
            "the METADATA in acme_bad-1.0.dist-info cannot be read (UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position "
            "24: invalid start byte)",
        ),
    ],
)
def test_broken_metadata_of_one_distribution_does_not_affect_others(
    site: Path, cache: Path, damage: Callable[[Path], object], problem: str
) -> None:
    info = npu(site, name="acme-bad", kind="bad")
    damage(info)
    for _ in range(2):
        assert run(AN_HOUR_LATER + CREATE.format("bad"), [site], cache)[0] == (
            f"PluginError devmod.create.bad is broken: {problem}. Remove {str(info)!r}, and install its distribution again\n"
        )
        assert seen([site], cache)["npu"] == "devmod-npu 1.0"


@pytest.mark.row("R9")
def test_the_metadata_of_an_interrupted_install_is_no_conflict(site: Path, cache: Path) -> None:
    for version in ("0.8", "0.9"):
        (npu(site, version, name="acme-npu") / "METADATA").unlink()
    for _ in range(2):
        assert seen([site], cache) == {"npu": "devmod-npu 1.0"}
        assert "devmod-npu 1.0 returned NoneType" in run(CREATE.format("npu"), [site], cache)[0]
    uninstall(site / "devmod_npu-1.0.dist-info")
    out = run(CREATE.format("npu"), [site], cache)[0]
    assert out.startswith("PluginError devmod.create.npu is broken: acme_npu-0.")


@pytest.mark.row("R8")
def test_the_error_for_a_miss_names_distributions_with_unreadable_entry_points(
    site: Path, cache: Path
) -> None:
    info = install(site, "acme-bad")
    (info / "entry_points.txt").write_bytes(b"[devmod.create]\nbad = \xff:create\n")
    for _ in range(2):
        assert seen([site], cache) == {"npu": "devmod-npu 1.0"}
        assert run(AN_HOUR_LATER + CREATE.format("bad"), [site], cache)[0] == (
            "NotRegisteredError devmod.create.bad is not registered, and no known distribution provides it; by convention it would be "
            f"devmod-bad; install that only if you trust its publisher. The entry points of acme-bad at {str(info)!r} are unknown: the "
            "entry_points.txt in acme_bad-1.0.dist-info cannot be read (UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 22: invalid start byte)\n"
        )


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_read_permission_is_empty(site: Path, tmp_path: Path, cache: Path) -> None:
    closed = tmp_path / "closed"
    npu(closed, name="acme-tpu", kind="tpu")
    closed.chmod(0)
    try:
        assert seen([closed, site], cache) == {"npu": "devmod-npu 1.0"}
    finally:
        closed.chmod(0o700)


def _zip(folder: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as result:
        for file in sorted(folder.rglob("*")):
            result.write(file, str(file.relative_to(folder)))
    return archive


@pytest.mark.volume_but("lib.zip", "devmod_npu-1.0-py3.11.egg")
@pytest.mark.parametrize(
    "name", ["lib.zip", "devmod_npu-1.0-py3-none-any.whl", "devmod_npu-1.0-py3.11.egg"]
)
def test_archives_on_the_path(site: Path, tmp_path: Path, cache: Path, name: str) -> None:
    if name.endswith(".egg"):
        (site / "devmod_npu-1.0.dist-info").rename(site / "EGG-INFO")
        (site / "EGG-INFO" / "METADATA").rename(site / "EGG-INFO" / "PKG-INFO")
    archive = _zip(site, tmp_path.resolve() / name)
    with Session([archive], cache) as running:
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        assert folders_read([archive], cache) == []
        assert seen([archive], cache) == {"npu": "devmod-npu 1.0"}
        assert running.ask("devmod.create('npu', b'', 'x', {})") == (
            "PluginError: devmod.create.npu is broken: devmod-npu 1.0 returned NoneType, not a devmod.Module. Report it to its publisher, "
            "or uninstall it"
        )
        time.sleep(0.02)
        npu(site, name="acme-tpu", kind="tpu")
        about = archive.stat()
        _zip(site, archive)
        os.utime(archive, ns=(about.st_atime_ns, about.st_mtime_ns))
        assert running.seen() == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}
    assert seen([archive], cache) == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}


def test_an_unpacked_egg_on_the_path(site: Path, cache: Path) -> None:
    egg = site.rename(site.with_name("devmod_npu-1.0-py3.11.egg"))
    (egg / "devmod_npu-1.0.dist-info").rename(egg / "EGG-INFO")
    (egg / "EGG-INFO" / "METADATA").rename(egg / "EGG-INFO" / "PKG-INFO")
    assert seen_twice([egg], cache) == {"npu": "devmod-npu 1.0"}


def test_a_damaged_archive_is_empty(site: Path, tmp_path: Path, cache: Path) -> None:
    bad = tmp_path / "bad.zip"
    bad.write_bytes(b"PK\x03\x04" + b"\0" * 50)
    assert seen([bad, site], cache) == {"npu": "devmod-npu 1.0"}


def test_metadata_files_of_distutils_are_ignored(site: Path, cache: Path) -> None:
    (site / "old-1.0.egg-info").write_text("Metadata-Version: 1.0\nName: old\nVersion: 1.0\n")
    (site / "gone-1.0.dist-info").symlink_to(site / "nowhere")
    assert seen_twice([site], cache) == {"npu": "devmod-npu 1.0"}


FINDER = """
import importlib.metadata, pathlib, sys
class Finder:
    asked = 0
    def __init__(self, folder):
        self.folder = folder
    def find_spec(self, *args, **more):
        return None
    def find_distributions(self, context):
        Finder.asked += 1
        assert context.name is None and context.path == sys.path
        return [importlib.metadata.Distribution.at(each) for each in sorted(pathlib.Path(self.folder).glob("*.dist-info"))]
class Bad:
    def find_spec(self, *args, **more):
        return None
    def find_distributions(self, context):
        raise RuntimeError("no")
"""


def test_other_finders_are_called_at_each_look_up(site: Path, tmp_path: Path, cache: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    install(hidden, "plain")
    with Session([site], cache, before=AN_HOUR_LATER + FINDER) as running:
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        running.do(f"sys.meta_path += [Bad(), Finder({str(hidden)!r})]")
        assert running.seen() == {"npu": "devmod-npu 1.0"}
        npu(hidden, name="acme-tpu", kind="tpu")
        npu(hidden, "9.0")
        assert running.seen() == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}
        assert running.ask("Finder.asked") == 2
        running.do("sys.meta_path.insert(0, sys.meta_path.pop())")
        assert running.seen() == {"npu": "devmod-npu 9.0", "tpu": "acme-tpu 1.0"}


def test_a_finder_with_the_name_of_a_known_one_is_called_too(
    site: Path, tmp_path: Path, cache: Path
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    npu(hidden, name="acme-tpu", kind="tpu")
    for name in ("MetadataPathFinder", "PathFinder"):
        with Session([site], cache, before=AN_HOUR_LATER + FINDER) as running:
            running.do(f"Other = type({name!r}, (Finder,), {{'__module__': 'acme'}})")
            running.do(f"sys.meta_path.append(Other({str(hidden)!r}))")
            assert running.seen() == {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}


def test_core_is_listed_once_with_and_without_metadata(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "site"
    install(
        folder,
        "devmod-core",
        "0.0.1",
        {"devmod.targets": {"cuda": "devmod.targets.cuda:SPEC", "nonsense": "a:b"}},
    )
    program = """
        import devmod
        print(devmod.registered("devmod.targets")["cuda"].provider == "devmod-core " + devmod.__version__)
        print(sorted(devmod.registered("devmod.targets")))
        print(devmod.backend.find_spec("cuda").kind)
        """
    kinds = ["cuda", "hexagon", "metal", "opencl", "program", "rocm", "vulkan", "webgpu"]
    expected = f"True\n{kinds}\ncuda\n"
    assert run(program, [folder], cache)[0] == expected
    assert run(program, [], cache)[0] == expected


@pytest.mark.row("R6", "R39")
@pytest.mark.parametrize("kind", ["npu", "cuda", "tpu"])
def test_a_warm_look_up_imports_few_modules(indexed: Path, cache: Path, kind: str) -> None:
    program = f"""
        import sys
        before = set(sys.modules)
        import devmod
        first = set(sys.modules) - before
        try:
            devmod.load_from_bytes({kind!r}, b"")
        except (devmod.NotRegisteredError, devmod.PluginError):
            pass
        print(" ".join(sorted(first)))
        print(" ".join(sorted(set(sys.modules) - before)))
        """
    (indexed / "devmod_npu-1.0.dist-info" / "entry_points.txt").write_text(
        entry_points({"devmod.load_from_bytes": {"npu": "devmod_npu:load"}})
    )
    (indexed / "devmod_npu.py").write_text(GOOD + "def load(data):\n    return None\n")
    seen([indexed], cache)
    command = [*PYTHON, textwrap.dedent(program)]
    imported, used = subprocess.check_output(
        command, env=environment([indexed], cache), text=True
    ).splitlines()
    assert imported.split() in (["devmod"], ["__future__", "devmod"])
    unwanted = {
        "typing",
        "dataclasses",
        "pathlib",
        "json",
        "inspect",
        "re",
        "enum",
        "tempfile",
        "hashlib",
        "logging",
        "numpy",
        "pluggy",
        "msgpack",
        "importlib.metadata",
        "importlib_metadata",
        "devmod._plugins.scan",
        "click",
    }
    assert not unwanted & set(used.split())
    specs = {
        f"devmod.targets.{name}"
        for name in ("cuda", "hexagon", "metal", "opencl", "rocm", "vulkan", "webgpu")
    }
    assert specs & set(used.split()) == ({"devmod.targets.cuda"} if kind == "cuda" else set())


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("devmod-npu", "devmod-npu"),
        ("Devmod_NPU", "devmod-npu"),
        ("devmod.npu", "devmod-npu"),
        ("devmod_.-__npu.--9", "devmod-npu-9"),
        ("a---b----c", "a-b-c"),
    ],
)
def test_names_of_distributions_are_normalized(name: str, normalized: str) -> None:
    assert normalize_name(name) == normalized


def test_the_text_of_an_entry_has_its_distribution() -> None:
    source = Distribution("devmod-npu", "1.0", "/site")
    claim = Claim("devmod.create", "npu", "devmod_npu:create", source)
    assert repr(claim) == "<Claim devmod.create.npu = devmod_npu:create of devmod-npu 1.0>"
    claim = Claim("devmod.create", "npu", "devmod_npu:create", Distribution("devmod-npu", "", "/"))
    assert repr(claim) == "<Claim devmod.create.npu = devmod_npu:create of devmod-npu>"
