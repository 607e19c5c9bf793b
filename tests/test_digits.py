"""The digit classifier of examples/applications: a model that tinygrad trained, in one file for
five kinds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device, run_python
from metal_double import replace_metal

import devmod
from devmod_standins import metal

FOLDER = Path(__file__).parents[1] / "examples" / "applications" / "digits"


@pytest.mark.row("R47")
def test_the_committed_file_reads_digits_on_each_device(tmp_path: Path) -> None:
    for kind in ("opencl", "webgpu"):
        first_device(kind)
    command = [sys.executable, str(FOLDER / "run.py"), "opencl", "webgpu"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("  ")[1:] for line in done.stdout.splitlines() if "are right" in line]
    assert {"opencl:0", "webgpu:0"} <= {device for device, _ in lines}
    assert {text for _, text in lines} == {"the first picture is a 0 (100%); 349 of 360 are right"}


@pytest.mark.row("R47")
@pytest.mark.skipif(bool(metal.missing()), reason=metal.missing())
def test_the_double_of_metal_reads_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs the kernels as C++ on the CPU, 40 ms for each picture."""
    replace_metal(monkeypatch)
    classify: Any = devmod.load(FOLDER / "digits.devmod")["classify"]
    pictures = np.load(FOLDER / "test.npz")["pictures"][:16]
    (digits, scores), (expected, other) = (
        classify.on(kind)(pictures) for kind in ("metal", first_device("opencl"))
    )
    np.testing.assert_array_equal(digits, expected)
    np.testing.assert_allclose(scores, other, atol=1e-6)


@pytest.mark.row("R47", "R38")
def test_the_file_has_each_kind_and_the_weights_once() -> None:
    module = devmod.load(FOLDER / "digits.devmod")
    modules = [*devmod.backend.walk(module)]
    assert {each.kind for each in modules} == {
        "bundle",
        "program",
        "const_loader",
        "opencl",
        "webgpu",
        "cuda",
        "rocm",
        "metal",
    }
    assert sum(each.kind == "const_loader" for each in modules) == 1
    assert devmod.dumps(module) == (FOLDER / "digits.devmod").read_bytes()


@pytest.mark.row("R47")
def test_a_process_without_tinygrad_runs_the_file() -> None:
    first_device("opencl")
    run_python(
        "import sys; sys.modules['tinygrad'] = None\n"
        "import devmod, numpy as np\n"
        f"test = np.load(r'{FOLDER / 'test.npz'}')\n"
        f"classify = devmod.load(r'{FOLDER / 'digits.devmod'}')['classify'].on('opencl')\n"
        "for count in (1, 3, 7, 32):\n"
        "    digits, scores = classify(test['pictures'][:count])\n"
        "    assert digits.shape == (count,) and scores.shape == (count, 10)\n"
        "    assert (digits == scores.argmax(1)).all() and np.allclose(scores.sum(1), 1)\n"
    )


def test_a_call_of_more_pictures_than_the_file_has_launches_for_is_refused() -> None:
    first_device("opencl")
    classify: Any = devmod.load(FOLDER / "digits.devmod")["classify"].on("opencl")
    with pytest.raises(
        devmod.ArgumentError, match=r"it requires count <= 400, and that is 401 <= 400"
    ):
        classify(np.zeros((401, 8, 8), "uint8"))
