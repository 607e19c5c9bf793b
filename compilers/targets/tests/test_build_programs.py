"""The programs of a manifest: they are made from the kernels of the build, and each mistake has its
line and its key.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from command_line import printed_by
from each_case import raised

import devmod
from devmod_targets.build import ManifestError, read_manifest
from devmod_workbench._cli import main

PAGE = (Path(__file__).parents[3] / "docs" / "manifest.md").read_text()
NORMALIZE = re.search(r"```toml\n(\[programs\.normalize\]\n.*?)```", PAGE, re.DOTALL)[1]  # type: ignore[index]
KERNELS = """
kernel void square_sums(global const float *x, global float *sums, int columns) {
  for (int c = 0; c < columns; c++) sums[get_global_id(0)] += x[get_global_id(0) * columns + c] * x[get_global_id(0) * columns + c];
}
kernel void scale(global const float *x, global const float *sums, global const float *weight, global float *y, int columns, float epsilon) {
  int i = get_global_id(0);
  y[i] = x[i] * rsqrt(sums[i / columns] / columns + epsilon) * weight[i % columns];
}
"""
WGSL = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn other() { x[0] = 1; }\n"
HEAD = 'targets = ["opencl", "webgpu"]\n[kernels.normalize]\nsources = ["normalize.cl"]\nskip = ["webgpu"]\n'
HEAD += '[kernels.other]\nsources = ["other.wgsl"]\nskip = ["opencl"]\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "normalize.cl").write_text(KERNELS)
    (tmp_path / "other.wgsl").write_text(WGSL)
    np.save(tmp_path / "weight.npy", np.arange(8, dtype=np.float32))
    return tmp_path


def write(project: Path, text: str) -> Path:
    (project / "devmod.toml").write_text(HEAD + text)
    return project


def reference(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * weight)


@pytest.mark.row("R18", "R38")
def test_the_file_has_the_programs_its_kernels_and_the_constants(project: Path) -> None:
    inner = NORMALIZE.replace('"weight: float32[columns]", ', "").replace(
        "requires", 'constants = ["weight: float32[columns]"]\nrequires'
    )
    outer = '[programs.twice]\ninputs = ["x: float32[rows, columns]"]\noutputs = ["y: float32[rows, columns]"]\n'
    outer += 'temporaries = ["z: float32[rows, columns]"]\nbackward = "twice_gradient"\n'
    outer += 'steps = ["normalize(x=x, y=z)", "normalize(x=z, y=y)"]\n'
    outer += '[programs.twice_gradient]\ninputs = ["grad_y: float32[rows, columns]"]\noutputs = ["grad_x: float32[rows, columns]"]\n'
    outer += 'steps = ["normalize(x=grad_y, y=grad_x)"]\n[constants]\nfiles = ["weight.npy"]\n'
    result = devmod.build(write(project, inner + outer))
    assert result.written
    module = devmod.load(result.output)
    assert list(module) == ["normalize", "twice", "twice_gradient", "square_sums", "scale", "other"]
    assert module.functions["twice"].interface.extra["backward"] == "twice_gradient"  # type: ignore[union-attr]
    assert devmod.dumps(module) == Path(result.output).read_bytes()
    assert [each.kind for each in devmod.build(project).modules] == [
        "opencl",
        "webgpu",
    ]  # read from the file
    if devmod.devices("opencl"):
        x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
        weight = np.arange(8, dtype=np.float32)
        np.testing.assert_allclose(module["normalize"](x), reference(x, weight), rtol=1e-5)
        np.testing.assert_allclose(
            module["twice"](x), reference(reference(x, weight), weight), rtol=1e-5
        )


def test_a_changed_program_is_a_changed_build_of_the_same_compiles(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(project, NORMALIZE)
    assert main(["build", str(project)]) == 0
    first = (project / "kernels.devmod").read_bytes()
    capfd.readouterr()
    assert "up to date" in printed_by(capfd, "build", project).out
    write(project, NORMALIZE.replace("1e-5", "1e-3"))
    assert "2 from the cache" in printed_by(capfd, "build", project).out
    assert (project / "kernels.devmod").read_bytes() != first
    assert [
        line.split()[-1]
        for line in printed_by(capfd, "build", project, "--plan").out.splitlines()[1:]
    ] == [
        "cached",
        "cached",
    ]


def test_a_build_of_some_kernels_leaves_out_programs_without_one(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(
        project,
        NORMALIZE
        + '[programs.both]\ninputs = ["x: float32[n, m]", "w: float32[m]"]\noutputs = ["y: float32[n, m]"]\n'
        'steps = ["normalize(x=x, weight=w, y=y)"]\n',
    )
    assert "warning" not in printed_by(capfd, "build", project, "-t", "opencl").err
    assert "both" in devmod.load(project / "kernels.devmod")
    for _ in range(2):  # the second is not taken for an unchanged one, which would have no warning
        lines = [
            line
            for line in printed_by(capfd, "build", project, "-t", "webgpu").err.splitlines()
            if "warning" in line
        ]
        assert lines == [
            "devmod: warning: the program 'normalize' is not in the file: this build lacks 'scale', 'square_sums'",
            "devmod: warning: the program 'both' is not in the file: this build lacks 'normalize'",
        ]
    assert list(devmod.load(project / "kernels.devmod")) == ["other"]
    (project / "normalize.cl").write_text("kernel void broken(")
    result = devmod.build(project, partial=True)
    assert (len(result.failures), len(result.problems)) == (1, 2)
    assert "problems" in result.to_dict()


P = "[programs.p]\n"
#: Parts of a manifest from line 8 on, and the beginnings of its mistakes, after the file's name.
MISTAKES: list[tuple[str, list[str]]] = [
    (
        P,
        [
            ':8: programs.p: the program has no steps, such as steps = ["scale(x=x, y=y, threads=n)"]'
        ],
    ),
    (
        P + "steps = []\ninput = 1\n",
        [
            ':8: programs.p: the program has no steps, such as steps = ["scale(x=x, y=y, threads=n)"]',
            ":10: programs.p.input: unknown key. Did you mean 'inputs'?",
        ],
    ),
    (
        P + 'inputs = ["x"]\nsteps = ["k(x)",\n"k(x=y)"]\n',
        [
            ":9: programs.p.inputs[0]: 'x' is no declaration; expected one such as 'x: float32[rows, columns]'",
            ":10: programs.p.steps[0]: 'k(x)' gives an argument by position; give all by name",
        ],
    ),
    (
        P
        + 'inputs = ["x: float32[n]"]\nupdates = [\n"z: float32[n]",\n"x: int8[n]"]\nrequires = ["n"]\nsteps = ["k(x=x)"]\n',
        [
            ":12: programs.p.updates[1]: 'x' is declared twice",
            ":13: programs.p.requires[0]: 'n' is no comparison; expected one such as 'columns % 4 == 0'",
        ],
    ),
    (
        P + 'inputs = ["x: float32[n]"]\nsteps = [\n"k(x=x)",\n"k(x=x, n=m)"]\nbackward = "q"\n',
        [
            ":12: programs.p.steps[1]: step 2 ('k'), argument 'n': nothing binds 'm'",
            ":13: programs.p.backward: the manifest has no program 'q'",
        ],
    ),
    (
        P
        + 'inputs = ["x: float32[n]"]\noutputs = ["y: float32[n]"]\nsteps = ["k(x=x)"]\nbackward = "p"\n',
        [
            ":12: programs.p.backward: 'p' has 'y'; expected inputs of 'grad_y', 'y', 'x', and outputs of 'grad_x'",
        ],
    ),
    (
        P
        + 'inputs = ["x: float32[n]"]\noutputs = [\n"y: float32[n]",\n"z: float32[m]"]\nsteps = ["k(x=x)"]\n',
        [
            ":12: programs.p.outputs[1]: the shape of 'z': nothing binds 'm'",
        ],
    ),
    (
        P + 'inputs = ["x: float32[n]"]\nrequires = ["m > 1"]\nsteps = ["k(x=x)"]\n',
        [
            ":10: programs.p.requires: 'm > 1': nothing binds 'm'",
        ],
    ),
    (
        P + 'steps = ["q()"]\n[programs.q]\nsteps = ["q()", 3]\n',
        [
            ":9: programs.p.steps[0]: a step may call the programs above 'p', and 'q' is not one of them",
            ":11: programs.q.steps[1]: expected a string, got the integer 3",
        ],
    ),
    (
        P
        + 'inputs = ["x: float32[n]"]\nsteps = ["k(x=x)",\n{ repeat = 2, name = "i", steps = ["k(x=x)", "k(x=y)"] }]\n',
        [
            ":11: programs.p.steps[1].steps[1]: step 3 ('k'), argument 'x': nothing binds 'y'",
        ],
    ),
    (
        P
        + 'inputs = ["x: float32[n]"]\nsteps = [{ repeat = 2, steps = ["k(x=x)"], turns = 2 },\n{ repeat = "n", name = "i", steps = ["k(x)"] }]\n',
        [
            ":10: programs.p.steps[0].turns: unknown key; the keys here are 'repeat', 'name', 'steps'",
            ':10: programs.p.steps[0]: a repeat has a count, a name and steps, such as { repeat = "n", name = "i", steps = ["scale(x=x, y=y, threads=n)"] }',
        ],
    ),
    (
        P
        + 'inputs = ["x: float32[n]"]\nsteps = ["k(x=x)",\n{ repeat = "n", name = "i", steps = ["k(x=x)", "k(x)"] },\n{ repeat = "2.5", name = "j", steps = ["k(x=x)"] }]\n',
        [
            ":11: programs.p.steps[1].steps[1]: 'k(x)' gives an argument by position; give all by name",
            ":12: programs.p.steps[2].steps[0]: the count of its repeat: expected an integer or an expression, got '2.5'",
        ],
    ),
    # After the compiles:
    (
        P
        + 'inputs = ["x: float32[n]"]\noutputs = ["y: float32[n]"]\nsteps = ["scale(x=x, y=y, threads=n)"]\n',
        [
            ":11: programs.p.steps[0]: step 1 ('scale'): the kernel also takes 'sums'",
        ],
    ),
    (
        P
        + 'inputs = ["x: float32[n]"]\noutputs = [\n"y: float32[n]"]\nsteps = ["square_sums(x=x, sums=x, columns=4, threads=n)"]\n',
        [
            ":12: programs.p.steps[0]: step 1 ('square_sums'), argument 'sums': the kernel may write to it, and 'x' is an input",
        ],
    ),
    (
        NORMALIZE
        + '[programs.q]\ninputs = ["x: float32[n, m]"]\noutputs = ["y: float32[n, m]", "z: float32[n, m]"]\n'
        'steps = ["normalize(x=x, y=z, weight=x)", "nomalize(x=z)"]\n',
        [
            ":20: programs.q.steps[0]: step 1 ('normalize'): its argument 'weight' takes an array of float32",
        ],
    ),
    (
        NORMALIZE.replace('"weight: float32[columns]", ', "").replace(
            "requires", 'constants = ["weight: float32[columns]"]\nrequires'
        ),
        [
            ":12: programs.normalize.constants: the module of the kernels has no const_loader with 'weight'",
        ],
    ),
    (
        P.replace(".p", ".scale") + 'inputs = ["x: float32[n]"]\nupdates = ["y: float32[n]"]\n'
        'steps = ["square_sums(x=x, sums=y, columns=1, threads=n)"]\n',
        [
            ":8: programs.scale: the kernels have a function 'scale' too; take another name for the program",
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), MISTAKES)
def test_mistakes(text: str, expected: list[str], project: Path) -> None:
    error = raised(ManifestError, lambda: devmod.build(write(project, text)))
    problems = [f":{each.line}: {each.key}: {each.text}" for each in error.problems]
    assert len(problems) == len(expected), problems
    assert all(map(str.startswith, problems, expected)), problems


def test_a_step_in_a_called_program_counts_as_the_step_that_calls_it(project: Path) -> None:
    text = (
        NORMALIZE
        + '[programs.q]\ninputs = ["x: float32[n, m]", "w: float32[m]"]\noutputs = ["y: float32[n, m]"]\n'
    )
    text += 'temporaries = ["z: float32[n, m]"]\nsteps = [\n"normalize(x=x, weight=w, y=y)",\n"normalize(x=z, weight=w, y=y)"]\n'
    error = raised(ManifestError, lambda: devmod.build(write(project, text)))
    (problem,) = error.problems
    assert (problem.key, problem.line) == ("programs.q.steps[1]", 23)
    assert problem.text.startswith(
        "step 2 ('normalize'), its step 1 ('square_sums'), argument 'x': "
    )


def test_a_text_may_have_line_breaks(project: Path) -> None:
    (entry,) = read_manifest(write(project, NORMALIZE)).programs
    assert (entry.name, len(entry.steps), dict(entry.declared)["requires"]) == (
        "normalize",
        2,
        ("columns % 4 == 0",),
    )
    text = NORMALIZE.replace(
        '"square_sums(x=x, sums=sums, columns=columns, threads=rows)"',
        '"""\n  square_sums(x=x, sums=sums,\n    columns=columns, threads=rows)"""',
    )
    assert text != NORMALIZE
    assert read_manifest(write(project, text)).programs == (entry,)
