"""HIP's own runtime on a machine without an AMD card: Debian's libamdhip64-5, which `make
test-setup` fetches (tools/vendor_runtimes.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
from backend_checks import code_of
from each_case import raised, refusal
from standin_rocm import Standin
from vendor_runtime import VendorRuntime, run_program

import devmod
from devmod.errors import CompileError
from devmod.plugins import find_spec
from devmod_readers.amdgpu import read_code_object

LIBRARY = "libamdhip64.so.5"
Compile = Callable[[str, str], bytes]


RUNTIME = VendorRuntime("libamdhip64")
pytestmark = [
    pytest.mark.skipif(bool(RUNTIME.reason), reason=RUNTIME.reason),
    pytest.mark.skipif(
        Path("/dev/kfd").exists(), reason="there may be an AMD card, which make gpu KIND=rocm uses"
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the runtime by the name without a version."""
    for file in RUNTIME.path.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    (tmp_path / "libamdhip64.so").symlink_to(RUNTIME.path / LIBRARY)
    return tmp_path


def test_the_runtime_is_there_and_a_device_is_not(folder: Path) -> None:
    program = "import devmod\ntry:\n    devmod.device('rocm')\nexcept devmod.DeviceNotFoundError as error:\n    print(error)"
    assert run_program(program, LD_LIBRARY_PATH=str(folder)) == (
        "no ROCm device was found: hipGetDeviceCount: hipErrorNoDevice; /dev/kfd is missing: load the kernel module amdgpu; in a container, "
        "pass --device=/dev/kfd --device=/dev/dri\n"
    )


FORK = """
import os, sys, warnings
import devmod
warnings.simplefilter("error")
def show():
    try:
        devmod.device("rocm")
    except devmod.DevmodError as error:
        print(type(error).__name__, error, flush=True)
show()
child = os.fork()
if child:
    print(os.waitpid(child, 0)[1])
else:
    show()
    print(devmod.devices())
"""


def test_a_forked_child_finds_no_device_either(folder: Path) -> None:
    """Without the warning of a driver that was open when the process was forked."""
    error = (
        "DeviceNotFoundError no ROCm device was found: hipGetDeviceCount: hipErrorNoDevice; /dev/kfd is missing: load the kernel module "
        "amdgpu; in a container, pass --device=/dev/kfd --device=/dev/dri\n"
    )
    assert (
        run_program(FORK, LD_LIBRARY_PATH=str(folder), DEVMOD_PLUGINS_ALLOW="devmod-rocm")
        == f"{error}{error}[]\n0\n"
    )


SOURCE = """
#include <hip/hip_runtime.h>
extern "C" __global__ void scale(float *x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = expf(x[i]) * factor;
}
"""


@pytest.fixture
def compile_source(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Return a function that compiles a source for an architecture, with the hiprtc in the
    runtime.
    """
    from devmod_rocm import _hiprtc

    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    return lambda text, arch: _hiprtc.compile_source(text, [], arch, str(folder / "libamdhip64.so"))


@pytest.mark.row("R30")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_hiprtc_compiles_without_a_device(
    compile_source: Compile, standin: Standin, arch: str
) -> None:
    code = compile_source(SOURCE, arch)
    spec = find_spec("rocm")
    assert spec is not None
    assert spec.architecture is not None
    assert spec.architecture("hsaco", code) == arch
    standin.set("arch", arch)
    module, function, threads = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    assert standin.api.hipModuleLoadData(ctypes.byref(module), code) == 0
    assert standin.api.hipModuleGetFunction(ctypes.byref(function), module, b"scale") == 0
    assert standin.api.hipFuncGetAttribute(ctypes.byref(threads), 0, function) == 0
    assert threads.value == 1024
    assert standin.api.hipModuleUnload(module) == 0


def test_an_architecture_that_ends_hiprtc_is_an_error(compile_source: Compile) -> None:
    assert refusal(CompileError, compile_source, SOURCE, "gfx1100") == (
        "the rocm source was not compiled for gfx1100: the process of hiprtc ends with signal 6. This hiprtc may not support gfx1100. Update "
        "ROCm, or compile on another machine: devmod.compile(source, 'rocm -arch=gfx1100')"
    )


def test_an_error_of_the_source_has_its_line(compile_source: Compile) -> None:
    refused = raised(
        CompileError, lambda: compile_source(SOURCE.replace("factor;", "missing;"), "gfx90a")
    )
    assert str(refused) == (
        "the HIP source does not compile: kernel.hip:7:29: error: use of undeclared identifier 'missing'; did you mean 'using'? (and 1 more in .log)"
    )
    assert "comgr" not in refused.log


@pytest.mark.row("R14", "R30")
def test_hiprtc_compiles_a_source_payload_of_devmod(
    compile_source: Compile, tmp_path: Path
) -> None:
    (tmp_path / "numbers.h").write_text("#define TWO 2\n")
    text = """#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include "numbers.h"
template <class T> __global__ void scale(T *x, T f, bool twice) { x[threadIdx.x] *= f * (twice ? TWO : 1) * N; }
extern "C" __global__ void halves(const __half *x, float *y) { y[threadIdx.x] = __half2float(x[threadIdx.x]) + __shfl_xor(y[1], 1); }
"""
    module = devmod.compile(
        text,
        "rocm -format=hip",
        language="HIP",
        include=[tmp_path],
        defines={"N": "3"},
        options=["-O1"],
        name_expressions=["scale<float>"],
    )
    kernels = read_code_object(compile_source(code_of(module).decode(), "gfx90a"))
    assert {
        info.name: [place.size for place in kernels[info.name].visible_arguments]
        for info in module.functions.values()
    } == {
        "halves": [8, 8],
        "_Z5scaleIfEvPT_S0_b": [8, 4, 1],
    }
