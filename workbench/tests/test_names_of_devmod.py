"""The names of devmod that the workbench has."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.row("R4")
def test_threads_import_the_names_of_the_workbench_at_once() -> None:
    """Python gives core's module to an import that has waited for that of another thread."""
    code = (
        "import sys, threading\n"
        "import devmod\n"
        "found = []\n"
        "def use():\n"
        "    from devmod.commands import progress\n"
        "    from devmod.testing import draws\n"
        "    found.append((progress.__module__[:6], draws.__module__[:6]))\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "sys.setswitchinterval(1e-5)\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "print(len(found), {*found})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("8 {('devmod', 'devmod')}\n", "")
