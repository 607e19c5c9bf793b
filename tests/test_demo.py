"""`devmod demo` draws what its kernel computes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from devmod_workbench._cli import main


def test_the_picture(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_OPENCL_POCL_CPU", "1")
    assert main(["demo"]) == 0
    compiled, run, *picture = capfd.readouterr().out.splitlines()
    assert compiled.startswith("compiled, without a device, into a file of ")
    assert run.startswith("loaded, and run on ")
    c = (
        np.linspace(-2.2, 0.8, 76, endpoint=False)
        + 1j * np.linspace(-1.2, 1.2, 28, endpoint=False)[:, None]
    )
    z, stays = np.zeros_like(c), np.ones(c.shape, bool)
    for _ in range(74):
        z[stays] = z[stays] ** 2 + c[stays]
        stays &= abs(z) < 2
    drawn = np.array([[mark in "%@" for mark in row] for row in picture])
    assert drawn.shape == stays.shape
    assert (drawn != stays).mean() < 0.02


def test_a_box_without_a_runtime_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no NumPy: that comes with a runtime."""
    monkeypatch.setenv("DEVMOD_PLUGINS_DENY", "devmod-opencl")
    program = "import sys; sys.modules['numpy'] = None\nfrom devmod_workbench._cli import main\nsys.exit(main(['demo']))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.startswith(
        "devmod: error: devmod.load_from_bytes.opencl is not registered: devmod-opencl "
    ), done.stderr
