"""HIP's own runtime on a machine without an AMD card: Debian's libamdhip64-5, which `make test-setup` fetches (tools/vendor_runtimes.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
from hip_calls import check, hip, made
from standin_rocm import Standin, library, missing_driver
from vendor_runtime import VendorRuntime, run_program

import devmod
from devmod.errors import CompileError
from devmod.plugins import find_spec
from devmod_conformance.checks import code_of
from devmod_readers.amdgpu import read_code_object

LIBRARY = "libamdhip64.so.5"
Compile = Callable[[str, str], bytes]


RUNTIME = VendorRuntime("libamdhip64")
pytestmark = [
    pytest.mark.skipif(bool(RUNTIME.reason), reason=RUNTIME.reason),
    pytest.mark.skipif(Path("/dev/kfd").exists(), reason="there may be an AMD card, which make test-rocm uses"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the runtime by the name that hip-python opens."""
    for file in RUNTIME.path.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    (tmp_path / "libamdhip64.so").symlink_to(RUNTIME.path / LIBRARY)
    return tmp_path


@pytest.mark.parametrize("driver", ["ctypes", "hip-python"])
def test_the_runtime_is_there_and_a_device_is_not(driver: str, folder: Path) -> None:
    if missing_driver(driver):
        pytest.skip(missing_driver(driver))
    program = "import devmod\ntry:\n    devmod.device('rocm')\nexcept devmod.DeviceNotFoundError as error:\n    print(error)"
    assert run_program(program, LD_LIBRARY_PATH=str(folder), DEVMOD_ROCM_DRIVER=driver) == (
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


@pytest.mark.parametrize("driver", ["ctypes", "hip-python"])
def test_a_forked_child_finds_no_device_either(driver: str, folder: Path) -> None:
    """Without the warning of a driver that was open when the process was forked."""
    if missing_driver(driver):
        pytest.skip(missing_driver(driver))
    error = (
        "DeviceNotFoundError no ROCm device was found: hipGetDeviceCount: hipErrorNoDevice; /dev/kfd is missing: load the kernel module "
        "amdgpu; in a container, pass --device=/dev/kfd --device=/dev/dri\n"
    )
    assert (
        run_program(FORK, LD_LIBRARY_PATH=str(folder), DEVMOD_ROCM_DRIVER=driver, DEVMOD_PLUGINS_ALLOW="devmod-rocm")
        == f"{error}{error}[]\n0\n"
    )


PROBE = """
import ctypes, sys
from ctypes import byref, c_int, c_size_t, c_void_p
hip = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else {library!r})
hip.hipGetErrorName.restype = hip.hipGetErrorString.restype = ctypes.c_char_p
number, pointer, size, room = c_int(), c_void_p(), c_size_t(), ctypes.create_string_buffer(4096)
calls = dict(
    hipInit=(0,), hipGetDeviceCount=(byref(number),), hipRuntimeGetVersion=(byref(number),), hipDriverGetVersion=(byref(number),),
    hipGetDevice=(byref(number),), hipSetDevice=(0,), hipDeviceGet=(byref(number), 0), hipGetDeviceProperties=(room, 0),
    hipDeviceGetAttribute=(byref(number), 23, 0), hipDeviceGetName=(room, 100, 0), hipDeviceTotalMem=(byref(size), 0),
    hipMalloc=(byref(pointer), c_size_t(16)), hipHostMalloc=(byref(pointer), c_size_t(16), 0), hipFree=(None,),
    hipStreamCreate=(byref(pointer),), hipEventCreate=(byref(pointer),), hipDeviceSynchronize=(), hipModuleLoadData=(byref(pointer), b"no image"),
    hipMemGetInfo=(byref(size), byref(size)), hipDevicePrimaryCtxRetain=(byref(pointer), 0), hipCtxGetCurrent=(byref(pointer),),
    hipGetLastError=(), hipPointerGetAttributes=(room, c_void_p(4096)), hipStreamSynchronize=(None,), hipModuleUnload=(None,),
)
print([(name, getattr(hip, name)(*arguments)) for name, arguments in calls.items()])
codes = (0, 1, 2, 3, 4, 9, 98, 100, 101, 200, 201, 209, 400, 401, 500, 600, 700, 701, 702, 709, 710, 801, 900, 901, 906, 910, 999, 1053, 4242)
print([(hip.hipGetErrorName(code), hip.hipGetErrorString(code)) for code in codes])
"""


def test_the_stand_in_answers_as_the_runtime_does_without_a_device() -> None:
    real = RUNTIME.run(PROBE.format(library=LIBRARY))
    settings = {"DEVMOD_STANDIN_DEVICES": "0", "DEVMOD_STANDIN_DRIVER_VERSION": "50221153"}
    assert run_program(PROBE.format(library=str(library())), **settings) == real


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
    """Return a function that compiles a source for an architecture, with the hiprtc in the runtime."""
    from devmod_rocm import _hiprtc

    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    return lambda text, arch: _hiprtc.compile_source(text, [], arch, str(folder / "libamdhip64.so"))


@pytest.mark.row("R30")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_hiprtc_compiles_without_a_device(compile_source: Compile, standin: Standin, arch: str) -> None:
    code = compile_source(SOURCE, arch)
    spec = find_spec("rocm")
    assert spec is not None
    assert spec.architecture is not None
    assert spec.architecture("hsaco", code) == arch
    standin.set("arch", arch)
    module, threads = made(hip.hipModuleLoadData, code), ctypes.c_int()
    check(hip.hipFuncGetAttribute(ctypes.byref(threads), 0, made(hip.hipModuleGetFunction, module, b"scale")))
    assert threads.value == 1024
    check(hip.hipModuleUnload(module))


def test_an_architecture_that_ends_hiprtc_is_an_error(compile_source: Compile) -> None:
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE, "gfx1100")
    assert str(error.value) == (
        "the rocm source was not compiled for gfx1100: the process of hiprtc ends with signal 6. This hiprtc may not support gfx1100. Update "
        "ROCm, or compile on another machine: devmod.compile(source, 'rocm -arch=gfx1100')"
    )


def test_an_error_of_the_source_has_its_line(compile_source: Compile) -> None:
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE.replace("factor;", "missing;"), "gfx90a")
    assert str(error.value) == (
        "the HIP source does not compile: kernel.hip:7:29: error: use of undeclared identifier 'missing'; did you mean 'using'? (and 1 more in .log)"
    )
    assert "comgr" not in error.value.log


@pytest.mark.row("R14", "R30")
def test_hiprtc_compiles_a_source_payload_of_devmod(compile_source: Compile, tmp_path: Path) -> None:
    (tmp_path / "numbers.h").write_text("#define TWO 2\n")
    text = """#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include "numbers.h"
template <class T> __global__ void scale(T *x, T f, bool twice) { x[threadIdx.x] *= f * (twice ? TWO : 1) * N; }
extern "C" __global__ void halves(const __half *x, float *y) { y[threadIdx.x] = __half2float(x[threadIdx.x]) + __shfl_xor(y[1], 1); }
"""
    module = devmod.compile(
        text, "rocm -format=hip", language="HIP", include=[tmp_path], defines={"N": "3"}, options=["-O1"], name_expressions=["scale<float>"]
    )
    kernels = read_code_object(compile_source(code_of(module).decode(), "gfx90a"))
    assert {info.name: [place.size for place in kernels[info.name].visible_arguments] for info in module.functions.values()} == {
        "halves": [8, 8],
        "_Z5scaleIfEvPT_S0_b": [8, 4, 1],
    }
