"""The hints of errors and warnings about several candidates, followed on the command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import devmod
from devmod_workbench._cli import main

CUDA = ("-t", "cuda -arch=compute_80")
SOURCES = {
    "k.cl": """
        kernel void sum(global float *x, local float *part) { part[0] = x[0]; x[0] = part[0]; }
        kernel void mean(global float *x, local float4 *part) { part[0] = x[0]; x[0] = part[0].x; }
    """,
    "k.cu": """
        extern "C" __global__ void sum(float *x) { x[threadIdx.x] = 1; }
        extern "C" __global__ void mean(float *x) { x[threadIdx.x] = 1; }
    """,
    "n.cu": 'extern "C" __global__ void sum(float *x, int n) { x[0] = n; }',
    "sum.comp": "#version 450\nlayout(local_size_x = 64) in; layout(binding = 0) buffer X { float x[]; };"
    "void main() { x[0] = 1; }",
    "mean.comp": "#version 450\nlayout(local_size_x = 8, local_size_y = 4) in; layout(binding = 0) buffer X { float x[]; };"
    "void main() { x[0] = 1; }",
    "half.cl": """
        kernel void f(global float *x) { x[0] = 1; }
        #ifdef cl_acme_tiles
        kernel void g(global float *x) { x[0] = 1; }
        #endif
    """,
}


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in SOURCES.items():
        Path(name).write_text(text)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main([*words])
    return code, capsys.readouterr().err


def hint(pattern: str, text: str) -> list[str]:
    """Return the words of a hint, which follows a pattern."""
    found = re.findall(rf"{pattern}(.*)", text)
    assert found, text
    return [word for each in found for word in shlex.split(each.replace(", --", " --"))]


def test_the_default_size_of_local_memory_for_several_sources(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("compile", "-q", "k.cl", "k.cu", "-t", "opencl", *CUDA, "-o", "k.devmod")
    code, error = run(capsys, *words)
    assert code == 1
    options = hint("calls omit them: ", error)
    assert options == ["--local", "sum.part=4/thread", "--local", "mean.part=16/thread"]
    assert run(capsys, *words, *options) == (0, "")
    (opencl, _) = devmod.load("k.devmod").imports
    sizes = [
        info.interface and info.interface.params[1].default for info in opencl.functions.values()
    ]
    assert sizes == [devmod.Local(per_thread=4), devmod.Local(per_thread=16)]


def test_the_default_size_of_local_memory_for_files_to_join(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for source, target in (("k.cl", ("-t", "opencl")), ("k.cu", CUDA)):
        assert run(capsys, "compile", "-q", source, *target, "-o", f"{source}.devmod") == (0, "")
    join = ("bundle", "-q", "k.cl.devmod", "k.cu.devmod", "-o", "k.devmod")
    code, error = run(capsys, *join)
    assert code == 1
    options = hint("calls omit them: devmod compile … ", error.replace(", devmod compile …", ""))
    again = ("compile", "-q", "k.cl", "-t", "opencl", "-o", "k.cl.devmod", *options)
    assert run(capsys, *again) == run(capsys, *join) == (0, "")


def test_the_function_of_a_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compile", "-q", "k.cl", "-t", "opencl", "-o", "k.devmod")
    code, error = run(capsys, *words, "--local", "part=8")
    assert code == 1
    assert run(capsys, *words, *hint("give it by function, as in ", error)) == (0, "")


def test_different_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compile", "-q", "k.cl", "n.cu", "-t", "opencl", *CUDA, "-o", "k.devmod")
    code, error = run(capsys, *words)
    assert code == 1
    assert "or use --mixed and call each by its own signature" in error
    assert run(capsys, *words, "--mixed") == (0, "")


def test_the_blocks_of_other_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    files = ("sum.comp", "mean.comp", "k.cu")
    words = ("compile", "-q", *files, "-t", "vulkan", *CUDA, "-o", "k.devmod")
    code, error = run(capsys, *words)
    assert code == 0
    options = hint("Compile it with this block: ", error)
    assert options == ["--block", "sum=64", "--block", "mean=8,4"]
    assert run(capsys, *words, *options) == (0, "")
    blocks = [
        info.interface.block or info.interface.default_block
        for each in devmod.load("k.devmod").imports
        for info in each.functions.values()
        if info.interface
    ]
    assert blocks == [(64, 1, 1), (8, 4, 1)] * 2


def test_the_define_of_a_branch(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compile", "-q", "half.cl", "-t", "opencl", "-o", "half.devmod")
    assert run(capsys, *words) == (0, "")
    code, error = run(capsys, "run", "half.devmod", "g", "x=zeros[1]", "--threads", "1")
    assert code == 1
    (_, _, *options, _, _, _) = hint("own macros: ", error)
    assert options == ["-D", "cl_acme_tiles=1"]
    assert run(capsys, *words, *options) == (0, "")
    assert list(devmod.load("half.devmod")) == ["f", "g"]
