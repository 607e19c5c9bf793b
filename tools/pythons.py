"""Run the tests of core and of the build side with every Python from 3.11 to 3.13 on this machine, each in an environment of its own.

    python tools/pythons.py [pytest options]

The Python of `.venv` is left out: `make test` has run them there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from environments import ROOT, InstallError, install, make_venv, python_of
from setup import fingerprint, group

TESTED = ((3, 11), (3, 12), (3, 13))


def find() -> dict[tuple[int, int], str]:
    """One working interpreter for each version: on PATH, or one that pyenv has built."""
    found: dict[tuple[int, int], str] = {sys.version_info[:2]: sys.executable}
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in TESTED:
        name = "python{}.{}".format(*version)
        built = sorted(root.glob("versions/{}.{}.*/bin/python".format(*version)), reverse=True)
        for candidate in [shutil.which(name), *map(str, built)]:
            if candidate and version not in found and works(candidate):
                found[version] = candidate
    return found


def works(interpreter: str) -> bool:
    """Whether it can make environments. pyenv's shims are on PATH also for versions that are not chosen, and then fail."""
    return subprocess.call([interpreter, "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL) == 0


def environment(version: tuple[int, int], interpreter: str) -> Path:
    """An environment with core, its toolchain extras and the test tools; kept between runs."""
    venv = ROOT / "build" / "python-{}.{}".format(*version)
    stamp, wanted = venv / "devmod-setup", hashlib.sha256(f"{interpreter}\n{ROOT}\n{fingerprint()}".encode()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted and python_of(venv).exists()):
        make_venv(venv, python=interpreter)
        install(
            python_of(venv),
            ["--editable", str(ROOT / "targets"), "--editable", f"{ROOT / 'core'}[build,cli,tvm]", *group("test")],
            cached=True,
        )
        stamp.write_text(wanted)
    return python_of(venv)


def main() -> int:
    """Run the tests; gives the exit code."""
    failed = []
    found = find()
    for version in TESTED:
        name = "Python {}.{}".format(*version)
        if version == sys.version_info[:2]:
            continue
        if version not in found:
            print(f"== {name}: not on this machine, the tests of core and the build side were not run with it", flush=True)
            continue
        print(f"== {name}: the tests of core and the build side", flush=True)
        try:
            python = environment(version, found[version])
        except InstallError as error:
            print(error)
            failed.append(name)
            continue
        if subprocess.call([str(python), "-m", "pytest", "core/tests", "targets/tests", "-q", "-n", "2", *sys.argv[1:]], cwd=ROOT):
            failed.append(name)
    if failed:
        print(f"failed with {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
