"""SPIR-V (format `il`): Intel's CPU runtime builds and runs it, and PoCL 3.0 does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import refusal

import devmod
from devmod import FunctionInfo
from devmod_opencl import _driver

SOURCE = """
ulong __attribute__((overloadable)) get_global_id(uint);
kernel void axpy(global const float *x, global float *y, float a, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] += a * x[i];
}
"""
TYPES = "typedef unsigned int uint;\ntypedef unsigned long ulong;\n"
AXPY = {
    "axpy": FunctionInfo(
        "axpy", ["handle", "handle", "float32", "int32"], ["blockIdx.x", "threadIdx.x"]
    )
}


@pytest.fixture(scope="session")
def spirv(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """`SOURCE` as clang compiles it."""
    pytest.importorskip("ziglang")
    folder = tmp_path_factory.mktemp("spirv")
    (folder / "k.cl").write_text(TYPES + SOURCE)
    options = "--target=spirv64-unknown-unknown -x cl -cl-std=CL2.0 -O2 -Xclang -disable-llvm-passes -cl-no-stdinc -c k.cl -o k.spv"
    subprocess.run(
        [sys.executable, "-m", "ziglang", "clang", *options.split()], cwd=folder, check=True
    )
    return (folder / "k.spv").read_bytes()


def wrap(code: bytes) -> devmod.Module:
    return devmod.create("opencl", code, "il", AXPY)


def run(function: Any) -> list[float]:
    x, y = np.arange(8, dtype="float32"), np.ones(8, "float32")
    function(x, y, 2.0, 8, grid=1, block=8)
    result: list[float] = y.tolist()
    return result


@pytest.fixture
def able(device: Any) -> Any:
    if not _driver.takes_il(device.handle):
        pytest.skip("the device builds no programs from SPIR-V")
    return device


@pytest.mark.row("R14", "R16")
def test_spirv_runs_where_the_driver_builds_it(able: Any, spirv: bytes, tmp_path: Path) -> None:
    module = wrap(spirv)
    assert run(module["axpy"]) == [1, 3, 5, 7, 9, 11, 13, 15]
    module.write_to_file(tmp_path / "axpy.il")
    assert (tmp_path / "axpy.il").read_bytes() == spirv
    for again in (devmod.load_from_file(tmp_path / "axpy.il"), devmod.loads(devmod.dumps(module))):
        assert (again.kind, again.format) == ("opencl", "il")
        assert run(again["axpy"]) == [1, 3, 5, 7, 9, 11, 13, 15]


@pytest.mark.row("R16")
def test_a_device_without_spirv_gets_the_next_candidate(
    device: Any, spirv: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_driver, "takes_il", lambda handle: False)
    hint = (
        "Install an OpenCL driver with the extension cl_khr_il_program (for a CPU with Linux: "
        "pip install \"devmod-opencl[intel]\"), or use the source (format 'cl')"
    )
    message = refusal(devmod.DeviceNotFoundError, wrap(spirv).get_function, "axpy")
    text = f"cannot run on {device}: it does not support the format 'il' (SPIR-V). {hint}"
    assert message == f"the opencl function 'axpy' {text}"
    assert [
        (each.outcome, each.text) for each in devmod.explain(wrap(spirv)).functions["axpy"]
    ] == [("refused", text)]
    source = devmod.create("opencl", SOURCE.partition(";\n")[2].encode(), "cl", AXPY)
    bundle = devmod.bundle(wrap(spirv), source)
    assert run(bundle["axpy"]) == [1, 3, 5, 7, 9, 11, 13, 15]
    assert [(each.format, each.outcome) for each in devmod.explain(bundle).functions["axpy"]] == [
        ("cl", "unknown"),
        ("il", "refused"),
    ]


def test_what_the_driver_builds_is_cached(
    able: Any, spirv: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    builds = []
    build = _driver.build_il
    monkeypatch.setattr(
        _driver, "build_il", lambda *arguments: builds.append(arguments) or build(*arguments)
    )
    for _ in range(2):
        assert run(wrap(spirv)["axpy"])[1] == 3
    assert len(builds) == 1


@pytest.mark.row("R41")
def test_damaged_spirv_is_an_error(able: Any, spirv: bytes) -> None:
    for damaged, text in (
        (
            spirv[:20] + bytes(len(spirv) - 20),
            "the opencl payload of format 'il' is truncated or damaged: the instruction at word 5 has the length 0",
        ),
        (
            spirv[:-2],
            f"the opencl payload of format 'il' is truncated: it has {len(spirv) - 2} bytes; expected a multiple of 4",
        ),
    ):
        assert refusal(devmod.FormatError, wrap(damaged).get_function, "axpy") == text
    # A pointer to the undefined type 60000, for which Intel's reader ends the process.
    with pytest.raises(
        devmod.FormatError,
        match=r"SPIR-V of [0-9]+ bytes is damaged: the process that built it for .* crashed",
    ):
        wrap(
            spirv[:-4]
            + (4 << 16 | 61).to_bytes(4, "little")
            + (60000).to_bytes(4, "little") * 3
            + spirv[-4:]
        )["axpy"]
    assert refusal(devmod.CompileError, wrap(spirv[:20]).get_function, "axpy").startswith(
        f"{able.name} cannot build the SPIR-V: "
    )
