"""Saving over a file: its permissions, a full disk, and what earlier saves have left."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal, some
from forked import python
from stored import module_of

import devmod

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can mount a file system or give a file to another user"
)


def payload(code: bytes, names: tuple[str, ...] = ("f",)) -> devmod.Module:
    return devmod.create_with_fallback(
        "cuda", code, "ptx", {name: devmod.FunctionInfo(name, ["handle"]) for name in names}
    )


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# -- permissions

WATCHED = """
import os, sys
import devmod
folder, act = sys.argv[1:]
modes = set()
def look(event, _):
    if event in ("os.chmod", "os.chown", "os.rename", "open", "fcntl.flock"):
        for entry in os.scandir(folder):
            if entry.name.endswith(".partial"):
                modes.add(entry.stat().st_mode & 0o777)
module = devmod.create_with_fallback("cuda", b"code" * 100, "ptx", {"f": devmod.FunctionInfo("f", ["handle"])})
sys.addaudithook(look)
os.umask(0o022)
if act == "save":
    devmod.save(module, os.path.join(folder, "k.devmod"))
else:
    module.write_to_file(os.path.join(folder, "k.ptx"))
print(*sorted(f"{mode:04o}" for mode in modes))
"""


@pytest.mark.parametrize("act", ["save", "write_to_file"])
@pytest.mark.parametrize(
    ("mode", "seen"),
    [(0o600, {"0600"}), (0o640, {"0600", "0640"}), (0o751, {"0600", "0751"}), (None, {"0644"})],
)
def test_the_temporary_file_is_never_wider_than_the_file_that_it_replaces(
    act: str, mode: int | None, seen: set[str], tmp_path: Path
) -> None:
    target = tmp_path / ("k.devmod" if act == "save" else "k.ptx")
    if mode is not None:
        payload(b"old").write_to_file(tmp_path / "k.ptx")
        devmod.save(payload(b"old"), tmp_path / "k.devmod")
        for file in some(tmp_path.iterdir()):
            file.chmod(mode)
    process = python("-c", WATCHED, str(tmp_path), act)
    assert set(process.stdout.split()) <= seen
    assert process.stdout.strip()
    assert stat.S_IMODE(target.stat().st_mode) == (0o644 if mode is None else mode)


@as_root
def test_the_owner_and_the_group_of_the_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    devmod.save(module_of("cuda"), path)
    result = path.stat()
    assert (result.st_uid, result.st_gid, stat.S_IMODE(result.st_mode)) == (12345, 23456, 0o640)


AS_NOBODY = """
import os, sys
import devmod
path = sys.argv[1]
module = devmod.create_with_fallback("opencl", b"", "cl", {})
devmod.save(module, path + ".other")  # imports what saving needs: nobody may not be allowed to
os.setgroups([*map(int, sys.argv[2:])])
os.setgid(12345)
os.setuid(12345)
devmod.save(module, path)
"""


@as_root
@pytest.mark.parametrize(
    ("groups", "group", "mode"), [([], 12345, 0o622), (["23456"], 23456, 0o662)]
)
def test_permissions_of_a_group_are_not_passed_to_another_group(
    groups: list[str], group: int, mode: int
) -> None:
    """A member of the group keeps the group, but not the owner."""
    # Each pytest that starts closes the folder above `tmp_path` for others.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = Path(folder, "k.devmod")
        path.write_bytes(b"")
        os.chown(path, 0, 23456)
        path.chmod(0o662)  # others may write to it, and its group may read it
        subprocess.run([sys.executable, "-c", AS_NOBODY, str(path), *groups], check=True)
        result = path.stat()
    assert (result.st_uid, result.st_gid, stat.S_IMODE(result.st_mode)) == (12345, group, mode)


# -- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
    )
    if process.returncode:
        pytest.skip(f"no file system can be mounted here: {process.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@as_root
@pytest.mark.row("R22")
def test_a_full_disk_leaves_neither_a_payload_nor_its_metadata(small_disk: Path) -> None:
    path = small_disk / "k.ptx"
    many = tuple(
        f"f{number}" for number in range(400)
    )  # the payload would fit, and its metadata does not
    with pytest.raises(OSError, match="No space left on device") as caught:
        payload(bytes(200 << 10), many).write_to_file(path)
    assert str(caught.value) in {
        f"[Errno 28] No space left on device: {str(small_disk / name)!r}"
        for name in ("k.ptx", "k.tvm_meta.json")
    }
    assert names_in(small_disk) == []
    payload(b"old").write_to_file(path)
    before = {name: (small_disk / name).read_bytes() for name in names_in(small_disk)}
    with pytest.raises(OSError, match="No space left on device"):
        payload(bytes(400 << 10)).write_to_file(path)
    assert {name: (small_disk / name).read_bytes() for name in names_in(small_disk)} == before


@as_root
@pytest.mark.parametrize("reserved", [True, False])
def test_a_full_disk_leaves_the_old_bundle(
    reserved: bool, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_disk / "k.devmod"
    devmod.save(module_of(), path)
    before = path.read_bytes()
    if not reserved:  # a file system that cannot reserve space: it is full while it is written to
        monkeypatch.delattr(os, "posix_fallocate")
    with pytest.raises(OSError, match="No space left on device") as caught:
        devmod.save(module_of("cuda", code=bytes(3 << 20)), path)
    assert str(caught.value) == f"[Errno 28] No space left on device: {str(path)!r}"
    assert path.read_bytes() == before
    assert names_in(small_disk) == ["k.devmod"]


LIMITED = """
import resource, sys
import devmod
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
names = [f"f{number}" for number in range(100)]
module = devmod.create_with_fallback("cuda", b"code", "ptx", {name: devmod.FunctionInfo(name, ["handle"]) for name in names})
try:
    module.write_to_file(sys.argv[1])
except OSError as error:
    print(error)
"""


@pytest.mark.row("R22")
def test_metadata_that_cannot_be_written_leaves_no_payload(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    process = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True
    )
    assert process.stdout == f"[Errno 27] File too large: {str(tmp_path / 'k.tvm_meta.json')!r}\n"
    assert names_in(tmp_path) == []


@pytest.mark.row("R22")
def test_a_payload_that_cannot_be_moved_leaves_no_metadata_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "k.ptx", os.replace

    def replace(source: str, target: str) -> None:
        if target == str(path):
            raise PermissionError(13, "Permission denied")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert (
        refusal(PermissionError, payload(b"new").write_to_file, path)
        == f"[Errno 13] Permission denied: {str(path)!r}"
    )
    assert names_in(tmp_path) == []


# -- temporary files that other saves have left, or are writing


def stale(path: Path) -> Path:
    """The temporary file that a save to `path` leaves when it is killed."""
    script = (
        "import os, signal, sys, devmod\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "devmod.save(devmod.create_with_fallback('opencl', b'', 'cl', {}), sys.argv[1])\n"
    )
    before = set(path.parent.iterdir())
    assert subprocess.run([sys.executable, "-c", script, str(path)]).returncode == -9
    (left,) = set(path.parent.iterdir()) - before
    return left


@pytest.mark.parametrize("name", ["k.devmod", "k", "n" * 255, "ü" * 127, "a.b.0.partial"])
def test_the_next_save_removes_files_of_a_killed_save(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    left = stale(path)
    assert left.name.startswith(f".{name[:32]}.")
    assert left.name.endswith(".partial")
    devmod.save(module_of(), tmp_path / "other")  # a save to another name does not
    assert left.exists()
    devmod.save(module_of(), path)
    assert names_in(tmp_path) == sorted([name, "other"])


def test_the_file_of_a_save_that_still_writes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    left = stale(path)
    with left.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the save that writes it holds it
        devmod.save(module_of(), path)
        assert names_in(tmp_path) == sorted([left.name, "k.devmod"])
    devmod.save(module_of(), path)
    assert names_in(tmp_path) == ["k.devmod"]


@pytest.mark.parametrize("what", ["removed", "removed and made again", "locked"])
def test_a_temporary_file_that_another_save_removes_as_stale(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the moment between making it and locking it."""
    names: list[Path] = []
    holders = []

    def opened(number: int) -> Any:
        if not names:
            partial = os.readlink(f"/proc/self/fd/{number}")
            names.append(Path(partial))
            if what == "locked":
                holders.append(open(partial, "r+b"))  # noqa: SIM115 - closed below
                fcntl.flock(holders[0], fcntl.LOCK_EX)
            else:
                os.unlink(partial)
            if what == "removed and made again":
                names[0].write_bytes(b"of a third save")
        return io.FileIO(number)

    monkeypatch.setattr("devmod._util.atomic.FileIO", opened)
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    assert devmod.load(path).save_to_bytes() == module_of().save_to_bytes()
    left = [] if what == "removed" else [names[0].name]
    assert names_in(tmp_path) == sorted([*left, "k.devmod"])
    for each in holders:
        each.close()


def test_a_save_goes_on_where_all_usual_names_are_in_use(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    left = stale(path)
    start = left.name.removesuffix("0.partial")
    others = [tmp_path / f"{start}{number}.partial" for number in range(8)]
    for number, other in enumerate(others):
        other.unlink(missing_ok=True)
        if number % 2:
            other.mkdir()
        else:
            other.symlink_to("/etc/passwd")
    devmod.save(module_of(), path)
    assert names_in(tmp_path) == sorted([*(other.name for other in others), "k.devmod"])
    assert devmod.load(path).kind == "opencl"


def test_a_limit_on_the_size_of_files_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            devmod.save(module_of("cuda", code=bytes(3 << 20)), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value) == f"[Errno 27] File too large: {str(path)!r}"
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["k.devmod"]


# -- a folder that a stranger may have filled


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with links to another folder and to a file in it."""
    project, home = tmp_path / "project", tmp_path / "home"
    (project / "sub").mkdir(parents=True)
    home.mkdir()
    (home / "k.devmod").write_text("precious")
    (project / "link.devmod").symlink_to("../home/k.devmod")
    (project / "sub" / "out").symlink_to("../../home")
    return project


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../home/k.devmod", "it is outside of {project!r}"),
        ("link.devmod", "'{project}/link.devmod' is a symbolic link"),
        ("sub/out/k.devmod", "'{project}/sub/out' is a symbolic link"),
        ("sub/out/new.devmod", "'{project}/sub/out' is a symbolic link"),
    ],
)
def test_a_file_stays_in_its_folder(project: Path, path: str, problem: str) -> None:
    assert (
        refusal(devmod.FormatError, devmod.save, module_of(), project / path, within=project)
        == f"{str(project / path)!r} is not written: {problem.format(project=str(project))}"
    )
    assert names_in(project.parent / "home") == ["k.devmod"]
    assert (project.parent / "home" / "k.devmod").read_text() == "precious"


def test_links_above_the_folder_are_followed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.parent / "other").symlink_to("project")
    devmod.save(module_of(), project.parent / "other" / "k.devmod", within=project.parent / "other")
    monkeypatch.chdir(project.parent / "other" / "sub")
    devmod.save(module_of(), "k.devmod", within=".")
    assert (
        devmod.load(project / "k.devmod").kind
        == devmod.load(project / "sub" / "k.devmod").kind
        == "opencl"
    )


@pytest.mark.skipif(os.rename not in os.supports_dir_fd, reason="this system cannot open folders")
def test_a_link_that_appears_while_the_file_is_written_is_not_followed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmod._util.atomic.path_problem", lambda path, folder: "")
    with pytest.raises(
        OSError, match=r"Not a directory|Too many levels of symbolic links"
    ) as caught:
        devmod.save(module_of(), project / "sub" / "out" / "k.devmod", within=project)
    assert caught.value.filename == str(project / "sub" / "out" / "k.devmod")
    devmod.save(module_of(), project / "link.devmod", within=project)
    assert not (project / "link.devmod").is_symlink()
    assert names_in(project.parent / "home") == ["k.devmod"]
    assert (project.parent / "home" / "k.devmod").read_text() == "precious"


def test_the_metadata_of_a_payload_is_not_written_through_a_link(project: Path) -> None:
    (project / "k.tvm_meta.json").symlink_to("../home/new")
    assert refusal(devmod.FormatError, payload(b"code").write_to_file, project / "k.ptx") == (
        f"{str(project / 'k.tvm_meta.json')!r} is a symbolic link, and the metadata is written beside the payload; remove it"
    )
    assert names_in(project.parent / "home") == ["k.devmod"]
