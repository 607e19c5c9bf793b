"""The stand-in HIP runtime beside HIP's own, Debian's libamdhip64-5: the same answers and error
texts without a device.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from vendor_runtime import VendorRuntime, run_program

from devmod_standins import libamdhip64

LIBRARY = "libamdhip64.so.5"
RUNTIME = VendorRuntime("libamdhip64")
pytestmark = [
    pytest.mark.skipif(bool(RUNTIME.reason), reason=RUNTIME.reason),
    pytest.mark.skipif(
        Path("/dev/kfd").exists(), reason="there may be an AMD card, which make gpu KIND=rocm uses"
    ),
]

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


def test_it_answers_as_the_runtime_does_without_a_device() -> None:
    real = RUNTIME.run(PROBE.format(library=LIBRARY))
    settings = {"DEVMOD_STANDIN_DEVICES": "0", "DEVMOD_STANDIN_DRIVER_VERSION": "50221153"}
    assert run_program(PROBE.format(library=str(libamdhip64.build())), **settings) == real
