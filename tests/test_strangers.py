"""The bare systems of `make strangers`: a killed run leaves no mount and no process, and deleting
one touches nothing that was mounted in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import strangers  # noqa: E402

pytestmark = pytest.mark.once

#: In a process of its own, which is killed: a system with a command that does not end.
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import strangers
strangers.run_apart([sys.executable, "-c", sys.argv[2], *sys.argv[1:]])
"""
INSIDE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import strangers
folder = Path(sys.argv[3])
strangers.mount(folder)
strangers.enter(folder, "root", "touch started; sleep 1000")
"""


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def processes_of(folder: Path) -> list[str]:
    """Return the processes whose root is a folder."""
    results = []
    for link in Path("/proc").glob("[0-9]*/root"):
        try:
            is_in_folder = os.path.samefile(link, folder)
        except OSError:
            continue  # it has ended
        if is_in_folder:
            results.append(link.parent.name)
    return results


def tiny_system(folder: Path) -> None:
    """Put a shell and two programs into a folder, with their libraries."""
    for name in ("sh", "env", "sleep", "touch"):
        program = shutil.which(name)
        assert program is not None
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
        libraries = re.findall(r"(/\S+) \(0x", listed.stdout)
        for path in libraries:
            (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / path[1:])
        (folder / "usr" / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(program, folder / "usr" / "bin" / name)
    (folder / "root").mkdir()
    (folder / "etc").mkdir(exist_ok=True)
    (folder / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (folder / "etc" / "group").write_text("root:x:0:\n")


def test_a_killed_run_leaves_no_mount_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    possible = subprocess.run(strangers.apart(["true"]), capture_output=True, check=False)
    if possible.returncode:
        pytest.skip("this machine allows no namespace of mounts")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    kept = tmp_path / "home" / ".cache" / "pip" / "kept"
    kept.parent.mkdir(parents=True)
    kept.touch()
    folder = tmp_path / "system"
    tiny_system(folder)
    command = [sys.executable, "-c", RUN, str(ROOT / "tools"), INSIDE, str(folder)]
    with subprocess.Popen(command) as process:
        wait_until((folder / "root" / "started").exists)
        assert processes_of(folder)
        process.kill()
    wait_until(lambda: not processes_of(folder))
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert not list((folder / "dev").iterdir())
    strangers.delete(folder)
    assert not folder.exists()
    assert kept.exists()


def test_where_bare_systems_cannot_be_made_the_reason_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(strangers.sys, "argv", ["strangers.py", "bookworm"])
    monkeypatch.setattr(strangers.os, "geteuid", lambda: 1000)
    assert strangers.main() == strangers.CANNOT
    expected = "setup: bare systems cannot be made here: it needs root\n"
    assert capsys.readouterr().err == expected


def test_folders_of_packages_in_pips_configuration_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wheels", "one/simple", "one/files", "two/simple"):
        (tmp_path / name).mkdir(parents=True)
    settings = tmp_path / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f"[global]\nproxy = http://proxy.example:3128/\nfind-links = {tmp_path}/wheels {tmp_path}/none\n"
        f"extra-index-url: file://{tmp_path}/one/simple\n    file://{tmp_path}/two/simple\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(strangers, "OF_THE_SYSTEM", ())
    assert list(strangers.local_indexes()) == [tmp_path / name for name in ("wheels", "one", "two")]
