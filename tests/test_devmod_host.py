"""The wheel of examples/devmod-host in a clean environment: conformance, its own tests, and the
steps of its README.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOST = Path(__file__).resolve().parent.parent / "examples" / "devmod-host"

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler on PATH"
)


@pytest.mark.volume_but("some")
@pytest.mark.row("R18", "R24", "R28", "R37")
@pytest.mark.parametrize(
    "names", [("R11", "R18", "R24-runs", "R32-once", "R37-host"), ()], ids=["some", "all"]
)
def test_the_installed_wheel_conforms_and_runs_its_readme(
    names: tuple[str, ...], environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    box = environment(
        wheels.direct("devmod-core", "conformance"), wheels.direct("devmod-host", "build", "test")
    )
    chosen = [word for name in names for word in ("--row", name)]
    outcomes = [
        row["outcome"]
        for row in json.loads(box.run("-m", "devmod", "conformance", "host", "--json", *chosen))
    ]
    assert "failed" not in outcomes
    assert outcomes.count("passed") >= (len(names) or 40)

    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DEVMOD_", "PYTEST_", "PYTHON"))
    }
    command = [
        str(box.python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--deselect",
        "tests/test_conformance.py",
    ]
    shutil.copytree(HOST, tmp_path / "host", ignore=shutil.ignore_patterns("src", "__pycache__"))
    done = subprocess.run(
        command, cwd=tmp_path / "host", env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

    (code,) = re.findall(r"```python\n(.*?)```", (HOST / "README.md").read_text(), re.DOTALL)
    assert box.run("-W", "error", "-c", code + "\nprint(y.min(), y.max())\n") == "2.0 2.0\n"
    bundle = box.folder / "empty" / "axpy.devmod"
    before = bundle.read_bytes()
    box.run(
        "-W", "error", "-c", code.rpartition("\n\n")[0], env={"DEVMOD_COMPILE_FORCE_FALLBACK": "1"}
    )
    assert bundle.read_bytes() == before

    box.uninstall("devmod-host")
    assert box.run("-c", MISS) == (
        "devmod.load_from_bytes.host is not registered, and no known distribution provides it; by convention it would be devmod-host; "
        "install that only if you trust its publisher\n"
    )


MISS = """
import devmod
try:
    devmod.load("axpy.devmod")["axpy"]
except devmod.NotRegisteredError as error:
    print(error)
"""
