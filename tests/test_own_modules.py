"""A file of the user with the name of a package that devmod imports: the error names the file, and
not an installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CL = "'kernel void k(global int *x) {}'"
CUDA = "'__global__ void k(int *x) {}'"
CASES = {
    "cuda": (
        f"devmod.compile({CUDA}, 'cuda -arch=sm_90')",
        "CUDA C++ cannot be compiled here: cuda-bindings, through which NVRTC is called,",
    ),
    "nvidia": (
        f"devmod.compile({CUDA}, 'cuda -arch=sm_90')",
        "CUDA C++ cannot be compiled here: NVRTC",
    ),
    "clang": (
        f"devmod.compile({CL}, 'opencl')",
        "cannot read the kernels of the OpenCL C source: libclang",
    ),
    "ziglang": (
        f"devmod.compile({CUDA}, 'rocm -arch=gfx90a')",
        "rocm cannot be compiled here: the compiler clang of the wheel ziglang",
    ),
    "slangpy": (
        "devmod.compile('#version 450', 'vulkan', options='--compiler=slangpy')",
        "cannot compile the GLSL source <text>: slangpy cannot be imported",
    ),
    "pyopencl": ("devmod.device('opencl')", "no OpenCL device can be used: pyopencl"),
    "vulkan": ("devmod.device('vulkan')", "no Vulkan device can be used: vulkan"),
    "wgpu": ("devmod.device('webgpu')", "no WebGPU device can be used: wgpu"),
    "numpy": ("devmod.const_loader({'w': memoryview(b'ab')}, {}).get_global('w').numpy()", "NumPy"),
    "backports": (
        f"devmod.dumps(devmod.compile({CL}, 'opencl'), compress='zstd')",
        "the file cannot be compressed: backports.zstd",
    ),
    "fsspec": (
        "devmod.load('memory://k.devmod')",
        "'memory://k.devmod' cannot be read: ModuleNotFoundError: ",
    ),
    "devmod_opencl": (
        "devmod.device('opencl')",
        "devmod.device.opencl cannot be used: devmod-opencl ",
    ),
}
SCRIPT = """\
import devmod
try:
    {call}
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("name", CASES)
def test_the_error_names_the_file(name: str, tmp_path: Path) -> None:
    if find_spec(name) is None or (name == "backports" and sys.version_info >= (3, 14)):
        pytest.skip(f"{name} is not installed")
    call, begin = CASES[name]
    text = run(tmp_path, name, call)
    assert text.startswith(begin)
    assert text.endswith(
        f": the file {str(tmp_path / f'{name}.py')!r} hides the installed package {name!r}. Rename the file\n"
    )
    assert "pip install" not in text


def test_a_file_that_hides_no_package_is_not_named(tmp_path: Path) -> None:
    """The package is the mistake: it is missing, and the file is not in its place."""
    text = run(
        tmp_path,
        "kernels",
        "import devmod_runtime; raise devmod_runtime.driver_import_error(ModuleNotFoundError(name='kernels'), 'x', 'X', 'kernels')",
    )
    assert (
        text
        == "no X device can be used: kernels is not installed. To add it: pip install kernels\n"
    )


def run(folder: Path, name: str, call: str) -> str:
    """Return what a script prints that is beside a file of that name."""
    (folder / f"{name}.py").write_text("FACTOR = 2\n")
    (folder / "script.py").write_text(SCRIPT.format(call=call))
    environment = os.environ | {"DEVMOD_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
