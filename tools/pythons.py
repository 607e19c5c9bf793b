"""Run the tests of core, runtime, readers, build side and conformance kit with each Python from
3.11 to 3.14 on this machine.

    python tools/pythons.py [--prepare] [pytest options]

Each Python has an environment of its own; --prepare makes the environments and runs nothing. The
Python of `.venv` is left out: `make test` has run the tests there. So are tests with the marker
`once`, whose results no version of Python changes, and those with `volume`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from environments import ROOT, InstallError, install, kept
from setup import fingerprint, group

TESTED = ((3, 11), (3, 12), (3, 13), (3, 14))
#: The distributions whose tests run. They pin core and each other, so all are installed.
PACKAGES = ("core", "runtime", "readers", "targets", "models", "conformance", "remote", "trust")
#: Those of the runtime that need no backend.
TESTS = ("runtime/tests/toy", *(f"{each}/tests" for each in PACKAGES if each != "runtime"))


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
    """Install the tested distributions and the test tools into an environment."""
    editable: list[str] = []
    for name in (*PACKAGES[1:], "simulators", "view"):
        editable += ["--editable", str(ROOT / name)]
    install(
        python,
        [
            *editable,
            "--editable",
            f"{ROOT / 'core'}[build,cli,conformance,onnx,tvm]",
            *group("test"),
        ],
        cached=True,
    )


def main() -> int:
    """Run the tests and return the exit code."""
    failed = []
    arguments = [each for each in sys.argv[1:] if each != "--prepare"]
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
        except InstallError as error:
            print(error)
            failed.append(name)
            continue
        if "--prepare" in sys.argv:
            continue
        print(f"== {name}: the tests of {', '.join(PACKAGES)}", flush=True)
        command = [str(python), "-m", "pytest", *TESTS]
        if subprocess.call(
            [*command, "-q", "--dist", "worksteal", "-m", "not once and not volume", *arguments],
            cwd=ROOT,
        ):
            failed.append(name)
    if failed:
        print(f"failed with {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
