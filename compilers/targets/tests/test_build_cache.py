"""The cache of a build: damage is found, the bound holds, and a cache that cannot be used is an
error or a warning.
"""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import pytest
from build_project import write_kernels
from each_case import raised, refusal

import devmod
from devmod_targets.build.cache import CacheError, FolderEntries, open_entries
from devmod_targets.build.progress import Progress
from devmod_targets.build.result import BuildResult, JobResult

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

pytestmark = pytest.mark.usefixtures("own_cache")
KEYS = [f"{number:064x}" for number in range(9)]


def statuses(result: BuildResult) -> list[str]:
    return [each.status for each in result.results]


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "build").glob("*.devmod"))


def build_again(folder: Path, **options: object) -> BuildResult:
    """Build with the cache, without the record of an unchanged output."""
    (folder / "k.devmod").unlink()
    result: BuildResult = devmod.build(folder, **options)
    return result


# -- entries


def test_an_entry_is_the_file_of_one_module(tmp_path: Path, own_cache: Path) -> None:
    devmod.build(write_kernels(tmp_path / "p", 1))
    (entry,) = stored(own_cache)
    assert entry.read_bytes() == devmod.dumps(devmod.compile(tmp_path / "p" / "k0.cl", "opencl"))


def test_warnings_are_shown_again_for_results_from_the_cache(
    tmp_path: Path, own_cache: Path
) -> None:
    manifest = write_kernels(tmp_path / "p", 2)
    (tmp_path / "p" / "k1.cl").write_text(
        "kernel void k1(global float *x) { x[0] = amd_width(1); }\n"
    )
    first = devmod.build(manifest)
    text = "some devices may refuse the OpenCL C source:\nk1.cl:1:42: warning: call of the undeclared function 'amd_width'"
    assert [each.warnings for each in first.results] == [(), (text,)]
    unchanged = devmod.build(manifest)
    assert not unchanged.written
    again = build_again(tmp_path / "p")
    assert again.written
    for result in (unchanged, again):
        assert [(each.status, each.warnings) for each in result.results] == [
            ("cached", ()),
            ("cached", (text,)),
        ]
    # The warnings are not in the file of the build.
    assert b"undeclared" not in (tmp_path / "p" / "k.devmod").read_bytes()
    assert (tmp_path / "p" / "k.devmod").read_bytes() == devmod.dumps(devmod.bundle(*first.modules))


@pytest.mark.parametrize(
    "texts", [b"{}", b"[1]", b"7", b"[[], {}]", b"[[1], []]", b"no JSON", None]
)
def test_an_entry_with_invalid_warnings_is_damaged(
    tmp_path: Path, own_cache: Path, texts: bytes | None
) -> None:
    devmod.build(write_kernels(tmp_path / "p", 1))
    (entry,) = stored(own_cache)
    constants = devmod.const_loader(
        {"other": b"x"} if texts is None else {"devmod.build.texts": texts}, {}
    )
    entry.write_bytes(devmod.dumps(devmod.bundle(devmod.loads(entry.read_bytes()), constants)))
    result = build_again(tmp_path / "p")
    assert statuses(result) == ["compiled"]
    assert result.problems[0].startswith(
        "the cached result of k0.cl for opencl is damaged, and is compiled again: its warnings "
    )


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "one byte of the index", "one byte of the payload", "text"]
)
def test_a_damaged_entry_is_found_and_compiled_again(
    tmp_path: Path, own_cache: Path, damage: str
) -> None:
    devmod.build(write_kernels(tmp_path / "p", 1))
    good = (tmp_path / "p" / "k.devmod").read_bytes()
    (entry,) = stored(own_cache)
    data = entry.read_bytes()
    position = 60 if "index" in damage else len(data) - 5
    entry.write_bytes(
        {"empty": b"", "cut": data[:-1], "text": b"not a bundle"}.get(
            damage, data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        )
    )
    result = build_again(tmp_path / "p")
    assert statuses(result) == ["compiled"]
    (problem,) = result.problems
    assert problem.startswith(
        "the cached result of k0.cl for opencl is damaged, and is compiled again: "
    )
    assert (tmp_path / "p" / "k.devmod").read_bytes() == good
    assert entry.read_bytes() == data
    assert build_again(tmp_path / "p").problems == ()


def test_an_entry_under_the_key_of_another_source_is_not_used(
    tmp_path: Path, own_cache: Path
) -> None:
    devmod.build(write_kernels(tmp_path / "p", 1))
    (entry,) = stored(own_cache)
    (tmp_path / "p" / "k0.cl").write_text("kernel void evil(global float *x) {}\n")
    other = devmod.dumps(devmod.compile(tmp_path / "p" / "k0.cl", "opencl"))
    write_kernels(tmp_path / "p", 1)
    entry.write_bytes(other)
    result = build_again(tmp_path / "p")
    assert (list(result.modules[0]), result.problems) == (
        ["k0"],
        (
            "the cached result of k0.cl for opencl is damaged, and is compiled again: it was made from another source",
        ),
    )


def test_a_job_without_known_inputs_is_compiled_each_time(tmp_path: Path, own_cache: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    with open(tmp_path / "p" / "k0.cl", "a") as file:
        file.write("#if 0\n#include NAME(x)\n#endif\n")
    results = [devmod.build(manifest) for _ in range(2)]
    assert [(statuses(each), each.reports) for each in results] == [
        (
            ["compiled"],
            (
                "k0.cl is not cached: an include, or a test for a file, may name its file in a way that devmod does not evaluate, such as a macro",
            ),
        )
    ] * 2
    assert stored(own_cache) == []


def test_no_cache_reads_and_writes_nothing(tmp_path: Path, own_cache: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    assert [statuses(devmod.build(manifest, cache=False)) for _ in range(2)] == [["compiled"]] * 2
    assert stored(own_cache) == []


# -- folders


def test_a_folder_can_be_named_by_argument_and_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    devmod.build(manifest, cache=tmp_path / "mine")
    assert len(stored(tmp_path / "mine")) == 1
    monkeypatch.setenv("DEVMOD_BUILD_CACHE", str(tmp_path / "mine"))
    assert statuses(build_again(tmp_path / "p")) == ["cached"]


@pytest.mark.skipif(
    os.name != "posix", reason="Windows has access lists in place of these permissions"
)
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    text = refusal(
        CacheError, devmod.build, write_kernels(tmp_path / "p", 1), cache=tmp_path / "shared"
    )
    place = str(tmp_path / "shared")
    assert text == (
        f"the build cache {place!r} cannot be used: other users can write to {place!r} (mode 0777); to mend it: chmod go-w {place}"
    )


@pytest.mark.skipif(
    os.name != "posix", reason="Windows has access lists in place of these permissions"
)
@pytest.mark.parametrize("form", ["file://{}", "file:{}", "FILE://{}", "local://{}", "File:{}"])
def test_a_url_of_a_folder_is_the_folder(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "mine"
    manifest = write_kernels(tmp_path / "p", 1)
    devmod.build(manifest, cache=form.format(folder))
    assert len(stored(folder)) == 1
    folder.chmod(0o777)
    with pytest.raises(CacheError, match="other users can write to"):
        devmod.build(manifest, cache=form.format(folder))


@pytest.mark.parametrize(
    "chain", ["simplecache::file://{}", "filecache::LOCAL://{}", "zip://x::{}", "dir://x::file:{}"]
)
def test_a_chain_that_ends_in_a_folder_is_an_error(tmp_path: Path, chain: str) -> None:
    place = chain.format(tmp_path)
    assert refusal(CacheError, open_entries, place) == (
        f"the build cache {place!r} cannot be used: it is a folder of this machine; name it alone: {tmp_path}"
    )


@pytest.mark.parametrize("place", ["/proc/devmod", "/dev/null/devmod"])
def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, place: str) -> None:
    if not Path("/proc/self").exists():
        pytest.skip("this machine has no /proc, in which no folder can be made")
    text = refusal(CacheError, devmod.build, write_kernels(tmp_path / "p", 1), cache=place)
    reason = "a file in '/proc' cannot be written (No such file or directory)"
    if place.startswith("/dev"):
        reason = f"{place!r} cannot be read (Not a directory)"
    assert text == f"the build cache {place!r} cannot be used: {reason}"


def test_results_that_cannot_be_stored_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_kernels(tmp_path / "p", 3)
    written = []
    monkeypatch.setattr(
        "devmod_targets.build.cache.write_private", lambda path, _: written.append(path)
    )
    result = devmod.build(manifest, cache=tmp_path / "full")
    assert (result.written, result.problems) == (
        True,
        (
            f"{str(tmp_path / 'full' / 'build')!r} cannot be written: results are not cached, and the next build compiles them again",
        ),
    )
    assert len(written) == 1  # the others are not tried
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "file"))
    result = devmod.build(manifest, output=tmp_path / "other.devmod")
    assert result.problems == (
        f"{str(tmp_path / 'file' / 'build')!r} cannot be read (Not a directory): results are not cached, and the next build compiles "
        "them again",
    )


def test_the_least_recently_used_entries_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", str(5 * 4096))
    entries = FolderEntries(str(tmp_path / "cache"))
    for number, key in enumerate(KEYS[:3]):
        entries.write(key, bytes(4000))
        os.utime(tmp_path / "cache" / "build" / f"{key}.devmod", (number, number))
    assert entries.read(KEYS[0]) is not None  # it now counts as used
    for key in KEYS[3:6]:
        entries.write(key, bytes(4000))
    left = {path.stem for path in stored(tmp_path / "cache")}
    assert left == {
        KEYS[0],
        *KEYS[3:6],
    }  # a part of the bound stays free, so that not every write lists the folder


def test_an_entry_larger_than_the_bound_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "1000")
    entries = FolderEntries(str(tmp_path / "cache"))
    entries.write(KEYS[0], bytes(2000))
    assert entries.read(KEYS[0]) is None


def test_the_command_cache_lists_and_clears_the_entries(tmp_path: Path, own_cache: Path) -> None:
    from devmod_workbench._cli import main

    devmod.build(write_kernels(tmp_path / "p", 2))
    assert len(stored(own_cache)) == 2
    assert main(["cache", "clear", "build"]) == 0
    assert stored(own_cache) == []


def test_processes_that_build_one_output_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    write_kernels(tmp_path / "p", 4)
    program = "import sys, devmod; devmod.build(sys.argv[1], workers=1).raise_for_failures()"
    running = [subprocess.Popen([sys.executable, "-c", program, tmp_path / "p"]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [
        "devmod.toml",
        "k.devmod",
        "k0.cl",
        "k1.cl",
        "k2.cl",
        "k3.cl",
    ]
    assert list(devmod.load(tmp_path / "p" / "k.devmod")) == ["k0", "k1", "k2", "k3"]
    assert statuses(devmod.build(tmp_path / "p")) == ["cached"] * 4


# -- URLs


@pytest.fixture
def url() -> str:
    """A store in the memory of this process."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    return "memory://bucket/ci"


@pytest.mark.row("R46")
def test_a_policy_excludes_a_cache_at_a_url(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_kernels(tmp_path, 1)
    devmod.build(manifest, cache=url)
    (tmp_path / "trust.toml").touch()
    monkeypatch.setenv("DEVMOD_TRUST", str(tmp_path / "trust.toml"))
    assert refusal(CacheError, devmod.build, manifest, cache=url) == (
        "the build cache at a URL cannot be used under a policy: its entries have no signatures. Use a folder of this machine, or unset "
        "DEVMOD_TRUST for the build"
    )
    for folder in ("one", "two"):  # no policy is asked about a build's own results
        assert statuses(devmod.build(write_kernels(tmp_path / folder, 2), cache=tmp_path / "own"))[
            1:
        ] == [{"one": "compiled", "two": "cached"}[folder]]


def test_machines_share_a_cache_at_a_url(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_kernels(tmp_path / "one", 3)
    assert statuses(devmod.build(manifest, cache=url)) == ["compiled"] * 3
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "another machine"))
    write_kernels(tmp_path / "two", 3)
    result = devmod.build(tmp_path / "two", cache=url)
    assert statuses(result) == ["cached"] * 3
    assert (tmp_path / "one" / "k.devmod").read_bytes() == (
        tmp_path / "two" / "k.devmod"
    ).read_bytes()


def test_a_damaged_entry_at_a_url_is_compiled_again(tmp_path: Path, url: str) -> None:
    manifest = write_kernels(tmp_path / "p", 2)
    devmod.build(manifest, cache=url)
    files = fsspec.filesystem("memory")
    first = sorted(files.ls("/bucket/ci/build", detail=False))[0]
    files.pipe_file(first, files.cat_file(first)[:-1])
    result = build_again(tmp_path / "p", cache=url)
    assert sorted(statuses(result)) == ["cached", "compiled"]
    assert len(result.problems) == 1
    assert build_again(tmp_path / "p", cache=url).problems == ()


def test_the_oldest_entries_at_a_url_go_first(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "2500")
    for key in KEYS[:4]:
        entries = open_entries(url)
        assert entries is not None
        entries.write(key, bytes(1000))
        entries.close()
    assert entries is not None
    assert [entries.read(key) is not None for key in KEYS[:4]] == [False, False, True, True]


def test_files_of_the_user_at_a_url_are_never_removed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are they counted: only names of entries, in the cache's own folder, are its entries."""
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", "2500")
    files = fsspec.filesystem("memory")
    others = [
        *(f"/bucket/ci/{name}.devmod" for name in ("release-1", "f" * 64)),
        *(
            f"/bucket/ci/build/{name}"
            for name in (
                "release-2.devmod",
                "f" * 64,
                "f" * 64 + ".devmod.sig",
                f"{'f' * 64}.devmod/k.devmod",
            )
        ),
    ]
    for name in others:
        files.pipe_file(name, bytes(5000))
    entries = open_entries(url)
    assert entries is not None
    for key in KEYS[:2]:
        entries.write(key, bytes(1000))
    entries.close()
    assert [entries.read(key) is not None for key in KEYS[:2]] == [True, True]
    assert [name for name in others if not files.exists(name)] == []


def test_files_of_the_user_beside_a_cache_are_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A content-addressed store of another program has names like those of entries."""
    monkeypatch.setenv("DEVMOD_CACHE_SIZE", str(3 * 4096))
    blobs = [tmp_path / "data" / "blobs" / f"{key}.bin" for key in KEYS]
    blobs[0].parent.mkdir(parents=True, mode=0o700)
    for number, blob in enumerate(blobs):
        blob.write_bytes(bytes(4000))
        os.utime(blob, (number, number))
    entries = FolderEntries(str(tmp_path / "data"))
    for key in KEYS:
        entries.write(key, bytes(4000))
    assert [blob for blob in blobs if not blob.exists()] == []
    assert len(stored(tmp_path / "data")) == 2


def test_an_unknown_scheme_is_an_error_with_its_reason(tmp_path: Path) -> None:
    assert (
        refusal(CacheError, devmod.build, write_kernels(tmp_path / "p", 1), cache="nosuch://bucket")
        == "the build cache 'nosuch://bucket' cannot be reached: ValueError: Protocol not known: nosuch"
    )
    assert not (tmp_path / "p" / "k.devmod").exists()


def test_a_missing_package_of_a_file_system_is_an_error_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("devmod_remote", reason="devmod-remote is not installed")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert refusal(CacheError, open_entries, "s3://bucket/ci") == (
        "the build cache 's3://bucket/ci' cannot be reached: the package s3fs is not installed. To add it: pip install s3fs"
    )


def test_an_unreachable_cache_is_an_error_or_on_request_a_warning(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "exists", fail)
    manifest = write_kernels(tmp_path / "p", 1)
    error = raised(CacheError, devmod.build, manifest, cache=url)
    assert (
        str(error)
        == f"the build cache {url!r} cannot be reached: ConnectionError: no route to host"
    )
    result = devmod.build(manifest, cache=url, or_local=True)
    assert result.problems == (f"{error}. The local cache is used",)
    assert statuses(build_again(tmp_path / "p")) == ["cached"]


@pytest.mark.parametrize("call", ["exists", "pipe_file"])
def test_no_message_has_a_secret_of_the_url(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs of builds are often public."""

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError(
            "memory://user:password@cache/x?signature=hunter2 was reset: signature=hunter2 of user:password"
        )

    monkeypatch.setattr(type(fsspec.filesystem("memory")), call, fail)
    url = "memory://user:password@cache/x?signature=hunter2"
    try:
        (text,) = devmod.build(write_kernels(tmp_path / "p", 1), cache=url).problems
    except CacheError as error:
        text = "".join(traceback.format_exception(error))
    assert "the build cache 'memory://cache/x' cannot be " in text
    assert "ConnectionError: memory://cache/x was reset: … of …" in text
    assert "password" not in text
    assert "hunter2" not in text


def test_a_cache_that_fails_during_the_build_is_a_warning(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("the connection was reset")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", fail)
    result = devmod.build(write_kernels(tmp_path / "p", 2), cache=url)
    assert (statuses(result), result.written) == (["compiled"] * 2, True)
    assert result.problems == (
        f"the build cache {url!r} cannot be written, and is not used any more: ConnectionError: the connection was reset",
    )


class SlowWrites(Progress):
    """Interrupts the build when its last result is there. Its cache stores nothing before
    `begin_writes`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
        self._left = last
        self._open = threading.Event()
        self.notes: list[str] = []
        files = type(fsspec.filesystem("memory"))
        write = files.pipe_file

        def wait_and_write(*arguments: object) -> None:
            if self._open.wait(60):
                write(*arguments)

        monkeypatch.setattr(files, "pipe_file", wait_and_write)

    def add(self, result: JobResult) -> None:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.begin_writes()

    def begin_writes(self) -> None:
        self._open.set()


def interrupted_build(folder: Path, progress: SlowWrites, url: str) -> str:
    """Return the note of the interrupt."""
    with pytest.raises(KeyboardInterrupt) as caught:
        devmod.build(write_kernels(folder, 20), cache=url, progress=progress)
    (note,) = caught.value.__notes__
    return note


def test_ctrl_c_stores_what_is_compiled(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = SlowWrites(monkeypatch, 18)
    assert (
        interrupted_build(tmp_path / "p", progress, url)
        == "interrupted: 18 of 20 compiled; the results written so far are in the cache"
    )
    assert progress.notes == [
        "writing 18 results to the cache, for 10 seconds at most; Ctrl-C ends it"
    ]
    assert (
        sorted(statuses(devmod.build(tmp_path / "p", cache=url)))
        == ["cached"] * 18 + ["compiled"] * 2
    )


def test_a_second_ctrl_c_ends_the_wait_for_the_cache(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = SlowWrites(monkeypatch, 18)
    monkeypatch.setattr(progress, "begin_writes", _thread.interrupt_main)
    monkeypatch.setattr(
        "devmod_targets.build.build._GRACE", 300
    )  # without the second Ctrl-C, the writes end before
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a job in the background ignores SIGINT
    try:
        text = "interrupted: 18 of 20 compiled; 18 of the results were not written to the cache"
        assert interrupted_build(tmp_path / "p", progress, url) == text
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupted_build_waits_for_the_cache_for_a_time(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmod_targets.build.build._GRACE", 0.01)
    progress = SlowWrites(monkeypatch, 1)
    monkeypatch.setattr(progress, "begin_writes", lambda: None)
    text = "interrupted: 1 of 20 compiled; 1 of the results was not written to the cache"
    assert interrupted_build(tmp_path / "p", progress, url) == text
    assert progress.notes == [
        "writing 1 result to the cache, for 0.01 seconds at most; Ctrl-C ends it"
    ]


def test_a_url_without_fsspec_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("devmod_targets.build.cache.import_module", refuse)
    assert refusal(CacheError, open_entries, "s3://bucket") == (
        "the build cache 's3://bucket' cannot be used: fsspec, which reads URLs, is not installed. To add it: pip install "
        '"devmod-core[remote]"'
    )
