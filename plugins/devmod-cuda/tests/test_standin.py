"""The stand-in CUDA driver itself, through cuda-bindings."""

import ctypes

import numpy as np
import pytest
from ptx_sources import AXPY, ptx_of
from standin_cuda import Standin

driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")


def check(result):
    """Return the values of a call, or raise its error."""
    assert result[0] == 0, result
    return result[1] if len(result) == 2 else result[1:]


@pytest.fixture
def context(standin: Standin):
    """The primary context of the first device, current."""
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    handle = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(handle))
    yield handle
    check(driver.cuCtxSetCurrent(driver.CUcontext(0)))
    check(driver.cuDevicePrimaryCtxRelease(device))


def test_a_kernel_of_ptx_runs_in_the_worker(standin, context):
    module = check(driver.cuModuleLoadData(ptx_of(AXPY).encode() + b"\0"))
    function = check(driver.cuModuleGetFunction(module, b"k"))
    x, y, result = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32), np.zeros(1000, np.float32)
    x_pointer, y_pointer = (check(driver.cuMemAlloc(x.nbytes)) for _ in range(2))
    check(driver.cuMemcpyHtoD(x_pointer, x.ctypes.data, x.nbytes))
    check(driver.cuMemcpyHtoD(y_pointer, y.ctypes.data, y.nbytes))
    values = ((2.0, int(x_pointer), int(y_pointer), 1000), (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
    check(driver.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, 0, values, 0))
    check(driver.cuMemcpyDtoH(result.ctypes.data, y_pointer, y.nbytes))
    assert np.array_equal(result, 2 * x + 1)
