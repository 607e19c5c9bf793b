"""Temporary folders, and those that killed processes left."""

from __future__ import annotations

import binascii
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import python

from devmod.backend import temporary_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of folders")

#: Makes a folder with a file, prints it, and waits.
HOLDER = """
import sys
from devmod.backend import temporary_folder
with temporary_folder() as folder:
    open(folder + "/file", "w").close()
    print(folder, flush=True)
    sys.stdin.read()
"""
#: The name of a folder that another process of this machine made.
NAME = (
    f"devmod-tmp-{binascii.crc32(os.uname().nodename.encode()):08x}-0123456789abcdef"
    if hasattr(os, "uname")
    else ""
)


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, which no test has used."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder(above: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(above)},
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_folder_is_for_this_user_and_is_removed(above: Path) -> None:
    with temporary_folder() as name:
        folder = Path(name)
        assert folder.parent == above
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "a").mkdir()
        (folder / "a" / "b").touch()
    assert list(above.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed(
    above: Path, holder: tuple[subprocess.Popen[str], Path]
) -> None:
    process, folder = holder
    process.kill()
    process.wait()
    assert (folder / "file").exists()
    with temporary_folder() as name:
        assert list(above.iterdir()) == [Path(name)]


FORK = """
import os, sys
from devmod.backend import temporary_folder
with temporary_folder() as folder:
    child = os.fork()
    if child == 0:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.path.isdir(folder))
print(os.path.exists(folder))
"""


def test_a_fork_that_ends_leaves_the_folder_to_its_parent(above: Path) -> None:
    done = python("-c", FORK, env=os.environ | {"TMPDIR": str(above)})
    assert (done.stdout, done.stderr) == ("3 True\nFalse\n", "")
    assert list(above.iterdir()) == []


def test_the_folder_of_another_machine_stays(above: Path) -> None:
    """A network file system may keep the locks of each machine apart, so the folder of a running
    process there looks abandoned.
    """
    program = (
        "import os; os.uname = lambda: os.uname_result(('', 'another', '', '', ''))"
        + HOLDER.replace("sys.stdin.read()", "os._exit(0)")
    )
    done = python("-c", program, env=os.environ | {"TMPDIR": str(above)})
    with temporary_folder():
        assert (Path(done.stdout.strip()) / "file").exists()


def test_the_folder_of_a_running_process_stays(
    above: Path, holder: tuple[subprocess.Popen[str], Path]
) -> None:
    process, folder = holder
    with temporary_folder():
        assert (folder / "file").exists()
    process.communicate("")
    assert list(above.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["devmod-tmp-notes", f"{NAME}0", f"x{NAME}", "devmod-0123456789abcdef"]
)
def test_another_folder_stays(above: Path, name: str) -> None:
    (above / name).mkdir(0o700)
    with temporary_folder():
        pass
    assert (above / name).is_dir()


def test_what_is_not_a_folder_stays(above: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A stranger may make a link of that name to a folder of this user."""
    other = tmp_path_factory.mktemp("other") / NAME
    other.mkdir(0o700)
    (other / "file").touch()
    (above / NAME).symlink_to(other)
    (above / NAME.replace("-0", "-f")).touch(0o600)
    os.mkfifo(above / NAME.replace("-0", "-e"))
    with temporary_folder():
        pass
    assert len(list(above.iterdir())) == 3
    assert (other / "file").exists()


def test_the_folder_of_another_user_stays(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (above / NAME).mkdir(0o700)
    with monkeypatch.context() as patch:
        own = os.geteuid()
        patch.setattr(os, "geteuid", lambda: own + 1)
        with temporary_folder():
            pass
    assert (above / NAME).is_dir()


def test_a_folder_that_others_may_read_stays(above: Path) -> None:
    """devmod makes none."""
    (above / NAME).mkdir()
    (above / NAME).chmod(0o755)
    with temporary_folder():
        pass
    assert (above / NAME).is_dir()


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(
    above: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may find it without a lock in that moment."""
    make = os.mkdir
    made: list[str] = []

    def make_and_lose(path: str, mode: int) -> None:
        make(path, mode)
        made.append(path)
        if len(made) == 1:
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", make_and_lose)
    with temporary_folder() as folder:
        assert os.path.isdir(folder)
        assert [*made[1:]] == [folder]
    assert list(above.iterdir()) == []


def test_a_file_system_without_locks_has_temporary_folders(
    above: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is removed there, because nothing shows that its process has ended."""
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (above / NAME).mkdir(0o700)
    with temporary_folder() as folder:
        assert os.path.isdir(folder)
    assert list(above.iterdir()) == [above / NAME]
