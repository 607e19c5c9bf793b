"""Make `.venv` with everything that the tasks of the Makefile need, from this source tree. A second
run starts at once.

    python3 tools/setup.py [--force]

A change of a pyproject.toml, of constraints.txt or of this file updates it. A change of the
interpreter or a move of the tree makes a new one. With the environment variable NEWEST, the newest
versions are installed instead of those of constraints.txt.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import system
from environments import (
    CONSTRAINTS,
    ROOT,
    VENV,
    InstallError,
    constraints,
    find_uv,
    install,
    make_venv,
    python_of,
)
from system import report
from task_lock import task_lock

with suppress(ImportError):  # an older Python; main reports it
    import tomllib

# Where to change: a new distribution, which is a wheel of its own
#   here: nothing, as `projects` finds each folder with a `pyproject.toml`
#   also: its `src` in `mypy_path` of the `pyproject.toml` at the root; the map in `CONTRIBUTING.md`
#   tests: `tests/test_house.py`, `tests/test_contributing.py`
STAMP = "devmod-setup"
#: Extras that other tasks install: pycuda is built from source, against CUDA's headers; Intel's
#: OpenCL runtime has 275 MB; PyTorch and JAX have 1 GB (`make frameworks`).
APART = ("pycuda", "intel", "torch", "jax")
OLDEST = (3, 11)


def main() -> int:
    """Make or update the environment and return the exit code."""
    if sys.version_info < OLDEST:
        return start_with_newer_python()
    expected = f"{interpreter()}\n{fingerprint()}\n"
    forced = "--force" in sys.argv
    if stamped() != expected or forced:
        with task_lock("setup"):
            # The task that had the lock may have installed the same.
            if stamped() != expected or forced:
                return update(expected, forced)
    system.provide(system.RUN)
    return 0


def stamped() -> str:
    """Return what the environment was made from; "" if there is none."""
    stamp = VENV / STAMP
    if stamp.exists() and python_of(VENV).exists():
        return stamp.read_text()
    return ""


def update(expected: str, forced: bool) -> int:
    """Make or update the environment, and return the exit code. `expected` becomes its stamp."""
    if not can_make_venvs():
        return 1
    start = time.monotonic()
    try:
        if forced or not stamped().startswith(interpreter() + "\n"):
            report(f"making .venv with Python {platform.python_version()}")
            make_venv(VENV, pip=True)
        find_uv(fetch=True)
        report(
            f"installing {' and '.join(names())} from source, and the tools for test, lint and types"
        )
        tool = install(python_of(VENV), [*constraints(), *editable(), *group("dev")])
    except InstallError as error:
        report(str(error))
        return 1
    (VENV / STAMP).write_text(expected)
    system.provide(system.RUN, again=True)
    report(f"done in {time.monotonic() - start:.0f} s (with {tool})")
    return 0


def interpreter() -> str:
    """Return a digest of the interpreter and the path of the tree: a different one needs a new
    environment.
    """
    return hashlib.sha256(f"{sys.version}\n{ROOT}\n".encode()).hexdigest()


def projects() -> list[Path]:
    """Return the folders of the distributions that have code, the plugins last."""
    return [
        ROOT / "core",
        ROOT / "compilers" / "readers",
        ROOT / "compilers" / "wgsl",
        ROOT / "compilers" / "targets",
        ROOT / "conformance",
        ROOT / "plugins" / "runtime",
        ROOT / "plugins" / "driver-api",
        ROOT / "extras" / "remote",
        ROOT / "extras" / "models",
        ROOT / "workbench",
        ROOT / "extras" / "frameworks",
        ROOT / "extras" / "trust",
        ROOT / "extras" / "simulators",
        *sorted(path.parent for path in (ROOT / "plugins").glob("devmod-*/pyproject.toml")),
    ]


def names() -> list[str]:
    """Return the names of those distributions."""
    return [
        str(tomllib.loads((path / "pyproject.toml").read_text())["project"]["name"])
        for path in projects()
    ]


def editable() -> list[str]:
    """Return each of them with its extras except `APART`, as arguments of an editable install."""
    results = []
    for path in projects():
        extras = tomllib.loads((path / "pyproject.toml").read_text())["project"].get(
            "optional-dependencies", {}
        )
        wanted = sorted(set(extras) - set(APART))
        results += ["--editable", f"{path}[{','.join(wanted)}]" if wanted else str(path)]
    return results


def group(name: str) -> list[str]:
    """Return a dependency group of the root pyproject.toml, with the groups that it includes."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    results: list[str] = []
    for entry in groups[name]:
        results += group(entry["include-group"]) if isinstance(entry, dict) else [entry]
    return results


def fingerprint() -> str:
    """Return the digest of the files on which the installation depends."""
    digest = hashlib.sha256(" ".join(constraints()).encode())
    for path in [
        CONSTRAINTS,
        ROOT / "pyproject.toml",
        *(folder / "pyproject.toml" for folder in projects()),
        Path(__file__),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def can_make_venvs() -> bool:
    """Return whether `python -m venv` works. Debian has it in a separate package, which is
    installed if allowed.
    """
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    system.provide([system.Need(package, "the module venv of this Python", has_venv)])
    if has_venv():
        return True
    report(
        f"this Python has no working 'venv' module; on Debian and Ubuntu it is in the package {package}. "
        "Install this first, then run the command again"
    )
    return False


def has_venv() -> bool:
    """Return whether this Python has what makes environments with pip."""
    return bool(importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv"))


def start_with_newer_python() -> int:
    """Run this file with a newer Python of PATH, if there is one."""
    for minor in (13, 12, 11, 14):
        result = shutil.which(f"python3.{minor}")
        if result and subprocess.call([result, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            return subprocess.call([result, *sys.argv])
    report(
        f"devmod needs Python 3.11 or newer; {sys.executable} is {platform.python_version()}, and there is no newer one on PATH.\n"
        "Install one (Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv), or name it: make PYTHON=python3.12 …"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
