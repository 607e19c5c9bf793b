"""The default of dynamic shared memory that `devmod.compile` stores, and the record of its use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from each_case import raised, refusal

import devmod
from devmod import Local
from devmod_workbench._cli import main

CUDA = """
extern "C" __global__ void sum(float *x) {
    extern __shared__ float t[]; t[threadIdx.x] = x[0]; __syncthreads(); x[0] = t[1];
}
extern "C" __global__ void plain(float *x) { x[0] = 1; }
"""
OPENCL = """
kernel void sum(global float *x, local float *t) { t[0] = x[0]; x[0] = t[0]; }
kernel void plain(global float *x) { x[0] = 1; }
"""
TAG = "tirx.use_dyn_shared_memory"


def defaults(module: devmod.Module) -> dict[str, Any]:
    return {
        name: info.interface.shared_memory
        for name, info in module.functions.items()
        if info.interface is not None
    }


@pytest.mark.row("R34", "R35")
@pytest.mark.parametrize(
    ("target", "language"),
    [
        ("cuda -arch=compute_80", "cu"),
        ("cuda -arch=sm_80", "cu"),
        ("cuda -arch=sm_80,sm_90 -format=fatbin", "cu"),
        ("cuda -format=cuda", "cu"),
        ("rocm -arch=gfx1100", "hip"),
        ("rocm -arch=gfx1100", "cu"),
    ],
)
def test_a_build_records_the_use_and_the_default(target: str, language: str) -> None:
    source = CUDA if language == "cu" else f"#include <hip/hip_runtime.h>\n{CUDA}"
    cases = (
        (None, {"sum": 0, "plain": 0}),
        (1, {"sum": 1, "plain": 0}),
        (Local(per_thread=4), {"sum": Local(per_thread=4), "plain": 0}),
        ({"plain": 2**63 - 1}, {"sum": 0, "plain": 2**63 - 1}),
    )
    # The default is the same for all kinds, and a compile for ROCm takes longer.
    for given, stored in cases[1:2] if target.startswith("rocm") else cases:
        module = devmod.compile(source, target, language=language, shared_memory=given)
        loaded = devmod.loads(devmod.dumps(module))
        assert defaults(loaded) == stored
        uses = {name: TAG in info.launch_param_tags for name, info in loaded.functions.items()}
        assert uses == {"sum": True, "plain": False}


def test_a_kind_without_dynamic_shared_memory_ignores_the_default() -> None:
    for given in (64, Local(per_thread=4), {"sum": 64}):
        module = devmod.compile(OPENCL, "opencl", shared_memory=given)
        assert defaults(module) == {"sum": 0, "plain": 0}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            0,
            "shared_memory=: expected bytes of 1 or more, such as 1024, or devmod.Local(per_thread=4), got 0",
        ),
        (
            True,
            "shared_memory=: expected bytes of 1 or more, such as 1024, or devmod.Local(per_thread=4), got True",
        ),
        (
            "4",
            "shared_memory=: expected bytes of 1 or more, such as 1024, or devmod.Local(per_thread=4), got '4'",
        ),
        (
            {"sum": 2**63},
            f"shared_memory= of 'sum': expected bytes of 1 or more, such as 1024, or devmod.Local(per_thread=4), got {2**63}",
        ),
        (
            {"som": 4},
            "shared_memory= has 'som', and the source has no such function; it has: 'sum', 'plain'. Did you mean 'sum'?",
        ),
    ],
)
def test_wrong_defaults(given: Any, text: str) -> None:
    for source, target in ((CUDA, "cuda -arch=compute_80"), (OPENCL, "opencl")):
        error = raised(devmod.CompileError, devmod.compile, source, target, shared_memory=given)
        assert (str(error), error.argument) == (text, "shared_memory")


def test_a_default_for_no_function_is_an_error() -> None:
    plain = CUDA[CUDA.index('extern "C" __global__ void plain') :]
    assert refusal(
        devmod.CompileError,
        devmod.compile,
        plain,
        "cuda -arch=compute_80",
        shared_memory=Local(per_thread=4),
    ) == (
        "shared_memory= is given, and no function of the source shows that it uses dynamic shared memory. Give it by function, as in "
        "shared_memory={'plain': Local(per_thread=4)}"
    )


def test_a_cubin_from_a_file_takes_a_default_by_function(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(devmod.compile(CUDA, "cuda -arch=sm_80").code)  # type: ignore[attr-defined]
    fmap = {name: devmod.FunctionInfo(name, ["handle"]) for name in ("sum", "plain")}
    module = devmod.compile(
        tmp_path / "k.cubin", "cuda -arch=sm_80", fmap=fmap, shared_memory={"sum": 64}
    )
    assert defaults(module) == {"sum": 64, "plain": 0}


@pytest.mark.parametrize(
    ("options", "stored"),
    [
        (["--shared-memory", "64"], {"sum": 64, "plain": 0}),
        (["--shared-memory", "4/thread"], {"sum": Local(per_thread=4), "plain": 0}),
        (
            ["--shared-memory", "sum=1", "--shared-memory", "plain=2/thread"],
            {"sum": 1, "plain": Local(per_thread=2)},
        ),
    ],
)
def test_the_option_of_the_command_line(
    options: list[str], stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(CUDA)
    (tmp_path / "k.cl").write_text(OPENCL.replace(", local float *t", "").replace("t[0]", "x[1]"))
    output = str(tmp_path / "k.devmod")
    words = ["compile", "-q", str(tmp_path / "k.cu"), "-t", "cuda -arch=compute_80", "-o", output]
    assert main([*words, *options]) == 0
    assert defaults(devmod.load(output)) == stored
    # Beside a source of another kind, which has no use for it.
    assert main([*words, str(tmp_path / "k.cl"), "-t", "opencl", *options]) == 0
    cuda, opencl = devmod.load(output).imports
    assert (defaults(cuda), defaults(opencl)) == (stored, {"sum": 0, "plain": 0})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["0"], "--shared-memory 0: expected bytes, such as 1024, 4/thread or reduce=4/thread"),
        (["=4"], "--shared-memory =4: expected bytes, such as 1024, 4/thread or reduce=4/thread"),
        (
            ["4/lane"],
            "--shared-memory 4/lane: expected bytes, such as 1024, 4/thread or reduce=4/thread",
        ),
        (["4", "8"], "--shared-memory is given twice for all functions"),
        (["f=4", "f=8"], "--shared-memory is given twice for the function 'f'"),
        (
            ["4", "f=8"],
            "--shared-memory is given for all functions and for one; give it for each function",
        ),
    ],
)
def test_wrong_options(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(CUDA)
    words = ["compile", str(tmp_path / "k.cu"), "-t", "cuda -arch=compute_80"]
    given = [word for each in options for word in ("--shared-memory", each)]
    assert main([*words, *given, "-o", str(tmp_path / "k.devmod")]) == 2
    assert capsys.readouterr().err.endswith(f"\ndevmod: error: {text}\n")


def test_the_hint_of_the_command_line_can_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(CUDA[CUDA.index('extern "C" __global__ void plain') :])
    output = str(tmp_path / "k.devmod")
    words = ["compile", "-q", str(tmp_path / "k.cu"), "-t", "cuda -arch=compute_80", "-o", output]
    assert main([*words, "--shared-memory", "4/thread"]) == 1
    hint = capsys.readouterr().err.rpartition("as in ")[2].split()
    assert hint == ["--shared-memory", "plain=4/thread"]
    assert main([*words, *hint]) == 0
    assert defaults(devmod.load(output)) == {"plain": Local(per_thread=4)}


def test_the_ptx_of_a_container_records_the_use_for_its_cubins() -> None:
    from devmod.interop import offload

    text = CUDA.replace('extern "C" ', "")  # C++ names have the types in the cubin too
    fatbin = devmod.compile(text, "cuda -arch=sm_80,compute_90 -format=fatbin").code  # type: ignore[attr-defined]
    module = offload.load(fatbin, ["sum", "plain"])
    for each in module.imports:
        uses = {name: TAG in info.launch_param_tags for name, info in each.functions.items()}
        assert uses == {"sum": True, "plain": False}
    assert {each.format for each in module.imports} == {"cubin", "ptx"}
