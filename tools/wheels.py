"""Build the wheel of every distribution of this repository into a folder, without the network.

python tools/wheels.py [folder]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from environments import ROOT
from setup import projects


def build(folder: Path) -> list[Path]:
    """Build core's, the plugins' and the metapackage's wheels anew; gives their paths."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for project in [*projects(), ROOT]:
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        # One date for all files: the same sources give the same wheel.
        env = {"SOURCE_DATE_EPOCH": "1700000000"} | os.environ
        done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"building the wheel of {project} failed:\n{done.stdout}{done.stderr}")
    return sorted(folder.glob("*.whl"))


if __name__ == "__main__":
    for wheel in build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "wheels").resolve()):
        print(f"{wheel.stat().st_size / 1000:8.1f} kB  {wheel.relative_to(Path.cwd()) if wheel.is_relative_to(Path.cwd()) else wheel}")
