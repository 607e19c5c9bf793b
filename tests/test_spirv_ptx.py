"""Compute shaders in PTX: on the simulated GPU they have the results of lavapipe."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device

import devmod
from devmod_readers.reflection import ReflectedFunction
from devmod_simulators.ptx import run_ptx
from devmod_targets.spirv_ptx import translate

pytestmark = pytest.mark.skipif(
    not shutil.which("glslangValidator"), reason="glslangValidator is not installed"
)
CASES = Path(__file__).with_name("spirv_ptx_cases.glsl")
ELEMENTS = 256
THREADS = 256


def cases() -> dict[str, tuple[float, str]]:
    """Return the shaders of the file by their names, with the relative tolerance of floats."""
    found = {}
    parts = re.split(r"^//@ (\w+) ?(\S*)\n", CASES.read_text(), flags=re.MULTILINE)
    for name, tolerance, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        found[name] = (
            float(tolerance or 1e-6),
            f"#version 450\n#extension GL_KHR_shader_subgroup_arithmetic : enable\n{text}",
        )
    return found


def spirv_of(text: str, folder: Path, *options: str) -> bytes:
    """Return a shader as glslang compiles it, with its lines."""
    source = folder / "k.comp"
    source.write_text(text)
    command = [
        "glslangValidator",
        "-V",
        "--target-env",
        "vulkan1.2",
        *options,
        "-o",
        str(folder / "k.spv"),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout
    return (folder / "k.spv").read_bytes()


def values_of(dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return numbers without symmetry."""
    if dtype.subdtype is not None:
        inner, lanes = dtype.subdtype
        return values_of(inner, (*shape, *lanes), rng)
    if dtype.names is not None:
        result = np.zeros(shape, dtype)
        for name in dtype.names:
            result[name] = values_of(dtype[name], shape, rng)
        return result
    if dtype.kind == "f":
        return rng.normal(0.2, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def arguments_of(kernel: ReflectedFunction) -> dict[str, Any]:
    """Return arrays and numbers for a kernel."""
    rng = np.random.default_rng(7)
    arguments: dict[str, Any] = {}
    for param in kernel.params:
        dtype = param.dtype or np.dtype(np.float32)
        if param.kind == "buffer":
            arguments[param.name] = values_of(dtype, (ELEMENTS,), rng)
        elif dtype == np.int32:
            arguments[param.name] = np.int32(200)
        else:
            arguments[param.name] = values_of(dtype, (), rng)
    return arguments


def run_simulated(
    spirv: bytes, arguments: dict[str, Any], grid: tuple[int, ...], constants: Any = None
) -> None:
    """Run the translation of a shader on the simulated GPU."""
    translation = translate(spirv, constants)
    (kernel,) = translation.functions.values()
    values: list[Any] = []
    for param in kernel.params:
        value = arguments[param.name]
        if param.kind == "buffer":
            values.append(value)
        else:
            values.append(np.asarray(value).tobytes())
        if param.pack:
            assert param.dtype is not None
            values.append(value.nbytes // param.dtype.itemsize)
    assert kernel.block is not None
    run_ptx(translation.ptx, kernel.symbol, grid, kernel.block, values)


def check_same(expected: dict[str, Any], actual: dict[str, Any], tolerance: float) -> None:
    """Compare all arrays."""
    for name, array in expected.items():
        one, other = np.asarray(array), np.asarray(actual[name])
        if one.dtype.names is not None:
            for field in one.dtype.names:
                check_same({field: one[field]}, {field: other[field]}, tolerance)
        elif one.dtype.kind == "f":
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(other, one, err_msg=name)


@pytest.mark.parametrize("name", [name for name in cases() if name != "addresses"])
def test_a_shader_has_the_results_of_vulkan(name: str, tmp_path: Path) -> None:
    first_device("vulkan")
    tolerance, text = cases()[name]
    spirv = spirv_of(text, tmp_path, "-g")
    constants = {3: 7, 4: 1.25, 5: False, 6: 64} if name == "specialization" else None
    (kernel,) = translate(spirv, constants).functions.values()
    assert kernel.block is not None
    grid: tuple[int, ...] = (max(THREADS // int(np.prod(kernel.block)), 1),)
    if name == "built_ins":
        grid = (2, 3, 2)
    elif name in ("specialization", "layouts"):
        grid = (1,)
    arguments = arguments_of(kernel)
    simulated = {key: np.copy(value) for key, value in arguments.items()}
    run_simulated(spirv, simulated, grid, constants)

    module = devmod.compile(tmp_path / "k.spv", "vulkan")
    function = module["k"]
    if constants:
        function = function.specialize(FACTOR=7, SHIFT=1.25, NEGATE=False, local_size_x=64)
    function(**arguments, grid=grid)
    check_same(arguments, simulated, tolerance)
