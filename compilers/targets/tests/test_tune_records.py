"""The key `tune_records` of a manifest: a build on a machine without devices writes the records of
other machines into its file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import devmod
from devmod import TuningRecord
from devmod_targets.build import read_manifest
from devmod_targets.build.build import input_files
from devmod_targets.build.plan import plan_of
from devmod_workbench._cli import main
from devmod_workbench._tools.tuning_files import write_tuning_file

MANIFEST = """
targets = ["opencl"]
tune_records = ["lab.json", "office.json"]

[kernels.scale]
sources = ["scale.cl"]
tune = { BLOCK = [64, 128] }
"""
SOURCE = "kernel void scale(global float *x) { x[get_global_id(0)] *= BLOCK; }"


def record(device: str, seconds: float) -> TuningRecord:
    times = {((), (64,)): seconds, ((), (128,)): None}
    return TuningRecord("scale", "opencl", "", device, constants=("BLOCK",), measured=times)


LAB = record("Iris", 1e-5)
OFFICE = record("Arc", 2e-6)


def build(folder: Path) -> devmod.Module:
    result = devmod.build(folder, cache=folder / "cache")
    result.raise_for_failures()
    return devmod.load(result.output)


def test_a_build_has_the_records_of_two_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "devmod.toml"
    manifest.write_text(MANIFEST)
    (tmp_path / "scale.cl").write_text(SOURCE)
    lab = tmp_path / "lab.json"
    lab.write_text("{}")
    assert main(["build", str(tmp_path), "--dry-run"]) == 1
    text = capsys.readouterr().err
    assert f"'{lab}': the value has no 'devmod_tuning'" in text
    assert "'office.json' does not exist" in text

    office = tmp_path / "office.json"
    write_tuning_file(lab, [LAB])
    write_tuning_file(office, [OFFICE])
    assert {str(lab), str(office)} <= set(input_files(plan_of(read_manifest(manifest))))
    module = build(tmp_path)
    assert module.tuning_records == (LAB, OFFICE)
    assert list(module) == ["scale"]

    # Other records are another file, although nothing is compiled again.
    write_tuning_file(office, [record("Arc", 3e-6)])
    again = build(tmp_path)
    assert again.tuning_records == (LAB, record("Arc", 3e-6))
    assert again.save_to_bytes() == module.save_to_bytes()
