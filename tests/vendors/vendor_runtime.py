"""Vendors' own libraries, which `make test-setup` fetches (tools/vendor_runtimes.py): where they
are, and a program that runs with one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class VendorRuntime:
    """A fetched library.

    Parameters
    ----------
    name
        Its name in the list of tools/vendor_runtimes.py.

    Attributes
    ----------
    folder : Path or None
        The folder that has the library; None if it is missing.
    reason : str
        Why it is missing; "" if it is not.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        stamp = Path(sys.prefix, f"devmod-{name}")
        _, folder, reason = (
            [*stamp.read_text().split("\n", 2), "", ""][:3]
            if stamp.exists()
            else ("", "", "make test-setup fetches it")
        )
        self.folder = Path(folder) if folder and Path(folder).is_dir() else None
        self.reason = (
            ""
            if self.folder
            else f"{name} is not here: {reason.partition(chr(10))[0] or 'its folder is gone'}"
        )

    @property
    def path(self) -> Path:
        """The folder of a library that is not missing."""
        assert self.folder is not None
        return self.folder

    def run(self, program: str, *arguments: str, **environment: str) -> str:
        """Run a program of Python in a process that finds the library, and return its output. It
        writes no errors.
        """
        return run_program(program, *arguments, LD_LIBRARY_PATH=str(self.path), **environment)


def run_program(program: str, *arguments: str, **environment: str) -> str:
    """Run a program of Python and return its output. It writes no errors."""
    process = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout
