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
from backend_checks import first_device
from metal_double import replace_metal

import devmod
from devmod_standins import metal

FOLDER = Path(__file__).parents[1] / "examples" / "applications" / "digits"


@pytest.mark.row("R47")
def test_the_committed_file_reads_digits_without_tinygrad(tmp_path: Path) -> None:
    first_device("opencl")
    code = "import runpy, sys; sys.modules['tinygrad'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(FOLDER / "run.py"), "opencl"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("  ")[1:] for line in done.stdout.splitlines() if "are right" in line]
    assert "opencl:0" in {device for device, _ in lines}
    assert {text for _, text in lines} == {"the first picture is a 0 (100%); 349 of 360 are right"}


@pytest.mark.row("R47")
@pytest.mark.parametrize("kind", ["metal", "webgpu"])
def test_the_other_kinds_read_the_same_digits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The double of Metal runs the kernels as C++ on the CPU, 40 ms for each picture."""
    if kind != "metal":
        first_device(kind)
    elif reason := metal.missing():
        pytest.skip(reason)
    else:
        replace_metal(monkeypatch)
    classify: Any = devmod.load(FOLDER / "digits.devmod")["classify"]
    pictures = np.load(FOLDER / "test.npz")["pictures"][:16]
    digits, scores = classify.on(kind)(pictures)
    expected, other = classify.on(first_device("opencl"))(pictures)
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
def test_a_call_chooses_the_number_of_pictures() -> None:
    classify: Any = devmod.load(FOLDER / "digits.devmod")["classify"].on(first_device("opencl"))
    pictures = np.load(FOLDER / "test.npz")["pictures"]
    for count in (1, 3, 7, 32):
        digits, scores = classify(pictures[:count])
        assert (digits.shape, scores.shape) == ((count,), (count, 10))
        np.testing.assert_array_equal(digits, scores.argmax(1))
        np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-5)


def test_a_call_of_more_pictures_than_the_file_has_launches_for_is_refused() -> None:
    first_device("opencl")
    classify: Any = devmod.load(FOLDER / "digits.devmod")["classify"].on("opencl")
    with pytest.raises(
        devmod.ArgumentError, match=r"it requires count <= 400, and that is 401 <= 400"
    ):
        classify(np.zeros((401, 8, 8), "uint8"))
