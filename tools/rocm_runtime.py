"""Fetch Debian's libamdhip64-5, HIP's runtime, for the tests of devmod-rocm. It is unpacked into a folder, and not installed.

    .venv/bin/python tools/rocm_runtime.py

On a machine without an AMD card it reports no device, and its hiprtc compiles for several architectures. It is in the user's cache folder,
where the loader does not search, so the other tests find no runtime.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from environments import VENV, InstallError
from system import may_install, report

#: The packages to fetch. mesa-vulkan-drivers depends on the other libraries that they need.
PACKAGES = ("libamdhip64-5", "libhsa-runtime64-1", "libhsakmt1", "libamd-comgr2")
LIBRARY = "libamdhip64.so.5"
#: Its lines: the inputs, the folder of the library, and the reason if there is none.
STAMP = "devmod-libamdhip64"


def main() -> int:
    """Fetch the runtime if it is missing; return 0 also if it cannot be used: the tests skip what needs it."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return 0
    inputs = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    stamp = VENV / STAMP
    lines = stamp.read_text().split("\n", 2) if stamp.exists() else [""]
    if lines[0] == inputs and (not lines[1] or Path(lines[1]).is_dir()) and "--force" not in sys.argv:
        return 0
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "devmod-tests" / "libamdhip64" / inputs
    try:
        if not (folder / LIBRARY).exists():
            report("fetching Debian's libamdhip64-5 for the tests of devmod-rocm (25 MB, once)")
            fetch(folder)
        check(folder)
    except (InstallError, OSError, subprocess.CalledProcessError) as error:
        reason = f"{error}\n{getattr(error, 'stderr', '') or ''}".strip()
        report(f"libamdhip64-5 cannot be used, so its tests are skipped (tools/rocm_runtime.py --force tries again):\n{reason[-2000:]}")
        stamp.write_text(f"{inputs}\n\n{reason}")
        return 0
    stamp.write_text(f"{inputs}\n{folder}\n")
    return 0


def fetch(target: Path) -> None:
    """Download the packages with apt, and unpack their libraries into a folder."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise InstallError(f"{program} is not installed; the packages are Debian's")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        download(Path(name))
        for package in Path(name).glob("*.deb"):
            run(["dpkg-deb", "-x", str(package), f"{name}/files"])
        library = next(Path(name, "files").rglob(LIBRARY), None)
        if library is None:
            raise InstallError(f"{PACKAGES[0]} has no {LIBRARY}")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(library.parent, target, symlinks=True)


def download(folder: Path) -> None:
    """Download the packages. A machine that has never asked apt for anything needs its list of packages first."""
    command = ["apt-get", "download", *PACKAGES]
    try:
        run(command, folder)
    except subprocess.CalledProcessError:
        if not may_install():
            raise
        run([*(["sudo", "-n"] if os.geteuid() else []), "apt-get", "update"])
        run(command, folder)


def check(folder: Path) -> None:
    """Check that a process can open the library: the system may lack one that it needs."""
    run(
        [sys.executable, "-c", f"import ctypes; ctypes.CDLL({LIBRARY!r})"],
        environment={**os.environ, "LD_LIBRARY_PATH": str(folder)},
    )


def run(command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None) -> None:
    """Run a command; an error has its output."""
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
