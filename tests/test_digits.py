"""The digit classifier of examples/applications: a model that tinygrad trained, in one file for
five kinds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import metal_standin
import numpy as np
import pytest
from backend_checks import first_device, run_python
from metal_double import replace_metal

import devmod

FOLDER = Path(__file__).parents[1] / "examples" / "applications" / "digits"


@pytest.mark.row("R47")
def test_the_committed_file_reads_digits_without_tinygrad() -> None:
    first_device("opencl")
    printed = run_python(
        "import runpy, sys; sys.modules['tinygrad'] = None; sys.argv = ['', 'opencl']\n"
        f"runpy.run_path({str(FOLDER / 'run.py')!r}, run_name='__main__')",
        PYTHONUTF8="1",
    )
    lines = [line.split("  ")[1:] for line in printed.splitlines() if "are right" in line]
    assert "opencl:0" in {device for device, _ in lines}
    assert {text for _, text in lines} == {"the first picture is a 0 (100%); 349 of 360 are right"}


@pytest.mark.row("R47")
@pytest.mark.skipif(bool(metal_standin.missing()), reason=metal_standin.missing())
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
def test_two_kinds_read_any_number_of_pictures() -> None:
    classify: Any = devmod.load(FOLDER / "digits.devmod")["classify"]
    pictures = np.load(FOLDER / "test.npz")["pictures"]
    one, other = (classify.on(first_device(kind)) for kind in ("opencl", "webgpu"))
    for count in (1, 3, 7, 32):
        for got, wanted in zip(one(pictures[:count]), other(pictures[:count]), strict=True):
            assert len(got) == count
            np.testing.assert_allclose(got, wanted, atol=1e-6)
