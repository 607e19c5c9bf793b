"""Write tools/constraints.txt anew: the versions of the packages that development installs, the
newest that suit each other on every Python from 3.11 to 3.14.

    python tools/constraints.py

`make setup`, `make pythons` and `make frameworks` install these versions. With NEWEST=1 they
install the newest ones. It needs uv, which alone resolves for several Pythons at once.
"""

from __future__ import annotations

import subprocess
import sys

from environments import CONSTRAINTS, ROOT, find_uv, uv_settings
from setup import editable, group

# Where to change: a dependency of a wheel, or a bound of one
#   here: `make constraints` writes `tools/constraints.txt`
#   also: the wheel's `pyproject.toml`, whose lower bound `make lowest` installs
#   tests: `tests/test_tools.py`, `tests/test_wheels.py`
HEAD = "# The versions that development installs. `make constraints` writes this file.\n"


def main() -> int:
    """Write the file and return the exit code."""
    uv = find_uv()
    if uv is None:
        print("constraints: uv is not installed; run make setup where pip can install it")
        return 1
    projects = [each for each in editable() if each != "--editable"]
    process = subprocess.run(
        [
            *(uv, "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"),
            *("--universal", "--python-version", "3.11", "--no-python-downloads", "-"),
        ],
        input="\n".join([*projects, *group("dev")]),
        cwd=ROOT,
        env=uv_settings(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        return process.returncode
    # The other lines are the paths of this repository.
    fixed = [line for line in process.stdout.splitlines() if "==" in line.partition(";")[0]]
    CONSTRAINTS.write_text(HEAD + "".join(f"{line}\n" for line in fixed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
