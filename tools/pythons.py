"""Run the tests of core, runtime, readers, build side, conformance kit and plugins with each Python
from 3.11 to 3.14 on this machine.

    python tools/pythons.py [--prepare] [--all] [pytest options]

Each Python has an environment of its own; --prepare makes the environments and runs nothing. The
Python of `.venv` is left out: `make test` has run the tests there. So are tests with the marker
`once`, whose results no version of Python changes, and those with `volume`. --all runs the tests of
every folder, also those with `once`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from environments import ROOT, InstallError, constraints, install, kept
from setup import editable, fingerprint, group
from vendor_runtimes import install_intel

# Where to change: a tested version of Python
#   also: the classifiers of each `pyproject.toml`; `.github/workflows/tests.yml`, `weekly.yml` and
#     `nightly.yml` there; `tools/strangers.py`; `Makefile`, `tools/constraints.py` and
#     `docs/support.md`, which name the range
#   tests: `tests/test_workflows.py`, `tests/test_new_members.py`
TESTED = ((3, 11), (3, 12), (3, 13), (3, 14))
#: The folders whose tests run without --all. pytest runs those of its configuration otherwise.
TESTS = (
    "core/tests",
    "workbench/tests",
    "compilers",
    "conformance/tests",
    "extras/remote/tests",
    "extras/models/tests",
    "extras/trust/tests",
    "plugins",
)
#: The options of this file. The others are pytest's.
OPTIONS = ("--prepare", "--all")


def find() -> dict[tuple[int, int], str]:
    """Return a working interpreter for each version: on PATH, or one that pyenv has built."""
    results: dict[tuple[int, int], str] = {sys.version_info[:2]: sys.executable}
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in TESTED:
        name = "python{}.{}".format(*version)
        built = sorted(root.glob("versions/{}.{}.*/bin/python".format(*version)), reverse=True)
        for candidate in [shutil.which(name), *map(str, built)]:
            if candidate and version not in results and works(candidate):
                results[version] = candidate
    return results


def works(interpreter: str) -> bool:
    """Return whether an interpreter can make environments. pyenv's shims for versions that are not
    selected fail.
    """
    return (
        subprocess.call([interpreter, "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL)
        == 0
    )


def fill(python: Path) -> None:
    """Install into an environment what setup.py installs into `.venv`."""
    install(python, [*constraints(), *editable(), *group("dev")], cached=True)


def pytest_options(arguments: list[str]) -> list[str]:
    """Return pytest's options for the arguments of the command line."""
    own = ["-q", "--dist", "worksteal"]
    others = [each for each in arguments if each not in OPTIONS]
    if "--all" in arguments:
        return [*own, "-m", "not volume", *others]
    return [*TESTS, *own, "-m", "not once and not volume", *others]


def main() -> int:
    """Run the tests and return the exit code."""
    failed = []
    options = pytest_options(sys.argv[1:])
    result = find()
    for version in TESTED:
        name = "Python {}.{}".format(*version)
        if version == sys.version_info[:2]:
            continue
        if version not in result:
            print(f"== {name}: not on this machine, no test was run with it", flush=True)
            continue
        try:
            venv = ROOT / "build" / "python-{}.{}".format(*version)
            python = kept(
                venv, f"{result[version]}\n{ROOT}\n{fingerprint()}", fill, python=result[version]
            )
            if "--all" in sys.argv:
                install_intel(python)
        except InstallError as error:
            print(error)
            failed.append(name)
            continue
        if "--prepare" in sys.argv:
            continue
        print(f"== {name}", flush=True)
        if subprocess.call([str(python), "-m", "pytest", *options], cwd=ROOT):
            failed.append(name)
    if failed:
        print(f"failed with {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
