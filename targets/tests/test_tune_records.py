"""The key `tune_records` of a manifest: a build on a machine without devices writes the records of
other machines into its file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import devmod
from devmod import TuningRecord
from devmod._cli import main
from devmod.backend import write_tuning_file

MANIFEST = """
targets = ["opencl"]
tune_records = ["lab.json", "office.json"]

[kernels.scale]
sources = ["scale.cl"]
tune = { BLOCK = [64, 128] }
sizes = ["n"]
grid = "ceildiv(n, BLOCK)"
block = "BLOCK"
"""
SOURCE = """
kernel void scale(global float *x, uint n) {
    if (get_global_id(0) < n) { x[get_global_id(0)] *= BLOCK; }
}
"""


def record(device: str, seconds: float) -> TuningRecord:
    return TuningRecord(
        "scale",
        "opencl",
        "Intel",
        device,
        constants=("BLOCK",),
        sizes=("n",),
        measured={((1000,), (64,)): seconds, ((1000,), (128,)): None},
    )


LAB = record("Iris", 1e-5)
OFFICE = record("Arc", 2e-6)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "devmod.toml").write_text(MANIFEST)
    (tmp_path / "scale.cl").write_text(SOURCE)
    write_tuning_file(tmp_path / "lab.json", [LAB])
    write_tuning_file(tmp_path / "office.json", [OFFICE])
    return tmp_path


def build(folder: Path) -> devmod.Module:
    result = devmod.build(folder, workers=1, cache=folder / "cache")
    result.raise_for_failures()
    return devmod.load(result.output)


def test_a_build_has_the_records_of_two_machines(project: Path) -> None:
    module = build(project)
    assert module.tuning_records == (LAB, OFFICE)
    assert list(module) == ["scale"]

    # Other records are another file, although nothing is compiled again.
    write_tuning_file(project / "office.json", [record("Arc", 3e-6)])
    again = build(project)
    assert again.tuning_records == (LAB, record("Arc", 3e-6))
    assert again.save_to_bytes() == module.save_to_bytes()

    # A record that a tuned file exported goes into the next build.
    (project / "scale.cl").write_text(SOURCE.replace("*=", "+="))
    write_tuning_file(project / "lab.json", again.tuning_records)
    after = build(project)
    assert after.tuning_records == again.tuning_records
    assert after.save_to_bytes() != module.save_to_bytes()


def test_an_invalid_file_of_records_is_a_mistake_of_the_manifest(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "lab.json").write_text("{}")
    (project / "office.json").unlink()
    assert main(["build", str(project), "--dry-run"]) == 1
    text = capsys.readouterr().err
    assert f"'{project / 'lab.json'}': the value has no 'devmod_tuning'" in text
    assert "'office.json' does not exist" in text
