"""The stand-in driver beside NVIDIA's own libcuda: the same names, versions, error texts and
answers without a device.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest
from cuda_headers import cuda_header
from real_drivers import DRIVERS, OLD, WITHOUT_A_CARD, present, symbols, version_of
from vendor_runtime import VendorRuntime, run_program

from devmod_simulators import libcuda

pytestmark = WITHOUT_A_CARD
#: The first version of CUDA with a form of a function.
_FORM = re.compile(r"\*PFN_(\w+?)_v(\d+)(_pt[sd][sz])?\)")


def first_versions() -> dict[str, int]:
    """Return the first version of CUDA that has each symbol, from NVIDIA's header."""
    text = cuda_header("cudaTypedefs.h")
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for name, version, suffix in _FORM.findall(text):
        versions[name, suffix].add(int(version))
    results = {}
    for (name, suffix), numbers in versions.items():
        for form, version in enumerate(sorted(numbers), 1):
            middle = f"_v{form}" if form > 1 else ""
            results[f"{name}{middle}{suffix}"] = version
    return results


@pytest.fixture(params=DRIVERS, ids=lambda runtime: runtime.name)
def driver(request: pytest.FixtureRequest) -> VendorRuntime:
    """NVIDIA's driver of each supported version."""
    return present(request.param)


def answers(program: str, runtime: VendorRuntime, *arguments: str) -> tuple[Any, Any]:
    """Return what a program prints as JSON with NVIDIA's library, and with the stand-in driver of
    the same version without a device.
    """
    settings = {
        "DEVMOD_STANDIN_DEVICES": "0",
        "DEVMOD_STANDIN_DRIVER_VERSION": str(version_of(runtime)),
    }
    real, own = (
        runtime.run(program, libcuda.soname, *arguments),
        run_program(program, str(libcuda.build()), *arguments, **settings),
    )
    return json.loads(real), json.loads(own)


def test_each_name_of_the_stand_in_driver_is_one_of_cuda(driver: VendorRuntime) -> None:
    """It has functions of newer drivers too, which dlsym finds. cuGetProcAddress does not."""
    version = version_of(driver)
    own = symbols(libcuda.build())
    newer = {name for name, first in first_versions().items() if first > version}
    assert len(own & newer) > 90
    assert own - symbols(driver.path / libcuda.soname) == own & newer


ERRORS = """
import ctypes, json, sys
cuda = ctypes.CDLL(sys.argv[1])
def text(function, code):
    result = ctypes.c_char_p(b"unchanged")
    return [function(code, ctypes.byref(result)), result.value and result.value.decode()]
print(json.dumps({code: text(cuda.cuGetErrorName, code) + text(cuda.cuGetErrorString, code) for code in range(-1, 1200)}))
"""


@pytest.mark.parametrize("runtime", [OLD, *DRIVERS], ids=lambda runtime: runtime.name)
def test_errors_have_the_names_and_texts_of_cuda(runtime: VendorRuntime) -> None:
    real, own = answers(ERRORS, present(runtime))
    known = {code for code, answer in real.items() if answer[0] == 0}
    assert len(known) >= 87
    assert {code: own[code] for code in known} == {code: real[code] for code in known}
    # What no version knows. The stand-in driver has the codes of newer ones.
    assert own["-1"] == own["1100"] == real["-1"] == real["1100"] == [1, None, 1, None]


RUNTIME = """
import ctypes, glob, importlib.metadata, json, os, sys
os.close(2)  # where the stand-in tells that it does not run this library
(path,) = [str(file.locate()) for file in importlib.metadata.files("nvidia-cuda-runtime") if file.name.startswith("libcudart.so")]
runtime, cuda = ctypes.CDLL(path), ctypes.CDLL(sys.argv[1])
runtime.cudaGetErrorString.restype = ctypes.c_char_p
def text(code):
    result = ctypes.c_char_p()
    cuda.cuGetErrorString(code, ctypes.byref(result))
    return (result.value or b"").decode()
print(json.dumps({code: [text(code), runtime.cudaGetErrorString(code).decode()] for code in (36, 226, 227, 721, 917, 918, 919)}))
"""


def test_newer_errors_have_the_texts_of_cudas_runtime() -> None:
    pairs = json.loads(run_program(RUNTIME, str(libcuda.build())))
    assert len(pairs) == 7
    assert {code: own for code, (own, _) in pairs.items()} == {
        code: real for code, (_, real) in pairs.items()
    }


ADDRESSES = """
import ctypes, json, sys
cuda = ctypes.CDLL(sys.argv[1])
def ask(name, version, flags=0):
    address, status = ctypes.c_void_p(7), ctypes.c_int(-5)
    code = cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), version, ctypes.c_uint64(flags), ctypes.byref(status))
    return [code, {7: "unchanged", None: "null"}.get(address.value, "address"), status.value]
versions = [11000, 11040, 11060, 11070, *range(12000, 12060, 10), 13000, 14000]
result = {name: [(version, ask(name, version)) for version in versions] for name in json.loads(sys.argv[2])}
address = ctypes.c_void_p(7)
result["no status"] = [cuda.cuGetProcAddress_v2(b"cuMadeUp", ctypes.byref(address), 12000, ctypes.c_uint64(0), None), address.value]
result["unknown flags"] = ask("cuInit", 12000, 8)
print(json.dumps(result))
"""


def test_functions_are_found_by_name_and_version(driver: VendorRuntime) -> None:
    """Both have the same functions since the same versions."""
    names = {name.partition("_v")[0] for name in symbols(libcuda.build())} | {
        "cuMadeUp",
        "cuMemAlloc_v2",
        "cudaMalloc",
        "",
    }
    names -= {
        "cuGetProcAddress",
        "cuGraphAddKernelNode",
        "cuGraphExecKernelNodeSetParams",
        "cuGraphExecUpdate",
        "cuGraphKernelNodeGetParams",
        "cuGraphKernelNodeSetParams",
        "cuStreamGetCaptureInfo",
    }  # the stand-in driver lacks their older forms
    real, own = answers(ADDRESSES, driver, json.dumps(sorted(names)))
    assert len(real) > 180
    assert own == real


CALLS = """
import ctypes, json, os, resource, sys
from devmod_cuda._calls import FUNCTIONS
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.close(2)  # where the stand-in tells that it does not run the CUDA runtime
cuda = ctypes.CDLL(sys.argv[1])
room = ctypes.create_string_buffer(1 << 16)
start = ctypes.addressof(room) + -ctypes.addressof(room) % 64
place = ctypes.c_void_p(start)
calls = {}
for function in FUNCTIONS.values():
    values = [each(b"k") if each is ctypes.c_char_p else each() for each in function.parameters]
    places = [place for _ in function.results]
    calls[function.symbol or function.name] = values + places if function.results_last else places + values
calls["cuThreadExchangeStreamCaptureMode"] = [place]
calls["cuDeviceGetName"] = [place, 256, 0]
calls["cuModuleLoadDataEx"] = [place, place, 0, None, None]
calls["cuPointerGetAttributes"] = [0, place, place, ctypes.c_uint64(4096)]
calls["cuTensorMapEncodeTiled"] = [place] * 8 + [0, 0, 0, 0]
calls["cuEventElapsedTime"] = [place, None, None]
calls["cuOccupancyMaxActiveClusters"] = [place, place, place]
calls["cuDriverGetVersion"] = [None]
calls["cuProfilerInitialize"] = [b"", b"", 0]
calls["cuGetExportTable"] = [place, place]
for name in json.loads(sys.argv[2]):
    calls[name] = [place] * 10
def ask(name, begin):
    "Return the result of a call in a forked process: no call before it has changed the state of the library."
    read, write = os.pipe()
    child = os.fork()
    if not child:
        if begin:
            cuda.cuInit(0)
        os.write(write, str(cuda[name](*calls[name])).encode() if hasattr(cuda, name) else b"missing")
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        answer = file.read()
    return answer or f"signal {os.waitpid(child, 0)[1]}"
print(json.dumps({f"{name} {when}": ask(name, when == "after cuInit") for name in calls for when in ("before cuInit", "after cuInit")}))
"""
#: Functions that the stand-in driver has for pycuda to link with, and that return an error alone.
UNSUPPORTED = (
    "cuArrayCreate_v2",
    "cuCtxGetSharedMemConfig",
    "cuLinkCreate_v2",
    "cuMemcpy3DPeer",
    "cuModuleGetTexRef",
    "cuTexRefCreate",
)


def test_calls_have_the_same_answers_without_a_device(driver: VendorRuntime) -> None:
    """Every function that devmod calls, before cuInit and after one that failed; null handles, and
    places for results.
    """
    real, own = answers(CALLS, driver, json.dumps(UNSUPPORTED))
    newer = {name for name, answer in real.items() if answer == "missing"}
    lacking = set()
    if first_versions()["cuFuncGetParamInfo"] > version_of(driver):
        lacking = {"cuFuncGetParamInfo before cuInit", "cuFuncGetParamInfo after cuInit"}
    assert newer == lacking
    assert {real["cuInit before cuInit"], real["cuInit after cuInit"]} == {"100"}
    assert real["cuMemAlloc_v2 before cuInit"] == real["cuMemAlloc_v2 after cuInit"] == "3"
    assert {name: own[name] for name in own.keys() - newer} == {
        name: real[name] for name in real.keys() - newer
    }
