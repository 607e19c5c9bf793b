"""Each file of tests can be collected by itself, on a machine that has nothing but Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: What the next files do while they are collected.
FAULTS = {
    "program": "import subprocess\nsubprocess.run(['true'], check=True)\n",
    "network": "import socket\nsocket.create_connection(('127.0.0.1', 9))\n",
    "home": "from pathlib import Path\n(Path.home() / 'settings').touch()\n",
    "nothing": "def test(): pass\n",
    "a-package": "import pytest\npytest.importorskip('no_such_package')\n",
}


def collect(folder: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    """Collect files without programs, network and a home: `folder` is empty."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "collect_each.py"), *map(str, files)],
        cwd=ROOT,
        # The program forks, so NumPy must not start threads.
        env={"PATH": str(folder), "HOME": os.devnull, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")
def test_each_file_is_collected_alone_without_programs_network_and_home(tmp_path: Path) -> None:
    done = collect(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")
def test_work_at_collection_is_noticed(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    files = []
    for name, source in FAULTS.items():
        path = tmp_path / f"test_{name}.py"
        path.write_text(source)
        files.append(path)
    done = collect(empty, *files)
    errors = re.findall(r" ERROR collecting test_(\S+)\.py ", done.stdout)
    assert {*errors} == {"program", "network", "home"}, done.stdout + done.stderr
    assert done.returncode == 1
