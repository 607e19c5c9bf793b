"""What only CUDA's driver has: the errors of opening it, its own calls;
plugins/driver-api/tests has the tests of drivers.
"""

from __future__ import annotations

import _ctypes
import ctypes
import sys
from pathlib import Path
from typing import Any

import pytest
from backend_checks import run_python
from ptx_sources import ptx_of
from standin_cuda import CUDA, Standin, on_hardware

from devmod_cuda._calls import ptx_version
from devmod_driver_api.driver import DriverLaunchConfig

NO_DEVICE = "no CUDA device can be used"
COUNT = 'extern "C" __global__ void count(int *x, int n) { x[blockIdx.x * blockDim.x + threadIdx.x] += n; }'


# -- the choice


NO_PACKAGE = """
import sys
import devmod
from devmod_cuda._conformance import PTX
info = devmod.FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], ["blockIdx.x", "threadIdx.x"])
axpy = devmod.create("cuda", PTX.encode(), "ptx", {"axpy": info})["axpy"]
device = devmod.device("cuda")
x = device.zeros(64, "float32")
with device.stream() as stream, stream.batch():
    axpy(x, x, 2.0, 64, grid=1, block=64, stream=stream)
print(device.driver.name, sorted({"pycuda", "cuda.bindings.driver", "cuda.core"} & set(sys.modules)))
"""


def test_the_driver_by_default_imports_no_package_of_the_vendor(
    cuda_environment: dict[str, str],
) -> None:
    assert run_python(NO_PACKAGE, **cuda_environment, DEVMOD_CUDA_DRIVER="") == "ctypes []\n"


@pytest.mark.each_driver
def test_the_driver_that_the_variable_names(cuda_driver: str, device: Any) -> None:
    assert device.driver.name == cuda_driver
    assert cuda_driver == "ctypes" or f"{cuda_driver}.driver" in sys.modules


def test_an_unknown_driver() -> None:
    assert CUDA.error_of_opening(DEVMOD_CUDA_DRIVER="cupy") == (
        f"{NO_DEVICE}: DEVMOD_CUDA_DRIVER='cupy' names no driver; set it to 'ctypes', 'pycuda' or 'simulator', or unset it"
    )


BLOCKED = """
import sys
import devmod
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("pycuda", "pycuda.driver", "devmod_simulators"):
            {error}
sys.meta_path.insert(0, Finder())
try:
    devmod.device("cuda")
except devmod.DeviceNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            "raise ModuleNotFoundError(f'No module named {name}', name=name)",
            'pycuda is not installed. To add it: pip install "devmod-cuda[pycuda]"',
        ),
        (
            "raise ImportError('undefined symbol')",
            "pycuda cannot be imported: undefined symbol. To repair it: pip install --force-reinstall --no-cache-dir --no-binary pycuda pycuda, "
            "or unset DEVMOD_CUDA_DRIVER",
        ),
    ],
    ids=["missing", "broken"],
)
def test_a_pycuda_that_is_missing_or_broken(
    error: str, text: str, cuda_environment: dict[str, str]
) -> None:
    if "ModuleNotFoundError" not in error and CUDA.missing_driver("pycuda"):
        pytest.skip(CUDA.missing_driver("pycuda"))
    output = run_python(
        BLOCKED.format(error=error), **cuda_environment, DEVMOD_CUDA_DRIVER="pycuda"
    )
    assert output == f"{NO_DEVICE}: {text}\n"


@pytest.mark.row("R4", "R49")
def test_the_simulator_is_asked_for_and_missing() -> None:
    blocked = BLOCKED.format(
        error="raise ModuleNotFoundError(f'No module named {name}', name=name)"
    )
    assert run_python(blocked, DEVMOD_CUDA_DRIVER="simulator") == (
        f"{NO_DEVICE}: devmod_simulators is not installed. To add it: pip install devmod-simulators\n"
    )


@pytest.mark.row("R49")
def test_the_simulator_is_asked_for_in_a_process_with_another_driver(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(_ctypes.__file__)
    program = (
        "import ctypes, devmod\nctypes.CDLL('libcuda.so.1')\n"
        "try:\n    devmod.device('cuda')\nexcept devmod.DeviceNotFoundError as error:\n    print(error)"
    )
    assert run_python(program, LD_LIBRARY_PATH=str(tmp_path), DEVMOD_CUDA_DRIVER="simulator") == (
        f"{NO_DEVICE}: DEVMOD_CUDA_DRIVER is 'simulator', and this process has loaded another libcuda.so.1 before. Run the program with: "
        "devmod simulate -- COMMAND\n"
    )


# -- opening it


def test_no_driver_library() -> None:
    if on_hardware():
        pytest.skip("the hardware has the driver")
    assert CUDA.error_of_opening(LD_LIBRARY_PATH="") == (
        f"{NO_DEVICE}: libcuda.so.1 cannot be opened (the system has no such library). It is part of NVIDIA's driver, which pip does not "
        "install (Ubuntu: sudo ubuntu-drivers install; Debian: apt install nvidia-driver). A container needs the option --gpus all"
    )


@pytest.mark.volume_but("ctypes")  # test_a_driver_that_does_not_start has an error of pycuda
@pytest.mark.each_driver
def test_no_device(environment: dict[str, str]) -> None:
    why = "no CUDA device was found: cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
    assert (
        CUDA.error_of_opening(**environment, DEVMOD_STANDIN_HIDDEN="1")
        == f"{why}; nvidia-smi lists the devices of the driver"
    )
    assert (
        CUDA.error_of_opening(**environment, DEVMOD_STANDIN_HIDDEN="1", CUDA_VISIBLE_DEVICES="")
        == f"{why}; CUDA_VISIBLE_DEVICES is ''"
    )


def test_an_old_driver(environment: dict[str, str]) -> None:
    assert CUDA.error_of_opening(**environment, DEVMOD_STANDIN_DRIVER_VERSION="11080") == (
        f"{NO_DEVICE}: the driver supports CUDA 11.8, and devmod-cuda needs a driver for CUDA 12.0 or newer (525.60 on Linux). Update "
        "NVIDIA's driver"
    )


@pytest.mark.each_driver
def test_a_driver_that_does_not_start(environment: dict[str, str]) -> None:
    assert CUDA.error_of_opening(**environment, DEVMOD_STANDIN_FAIL="cuInit=999") == (
        f"{NO_DEVICE}: the driver does not start: cuInit: CUDA_ERROR_UNKNOWN (unknown error). Run nvidia-smi to test the driver"
    )


def test_a_library_that_is_no_driver(tmp_path: Path) -> None:
    if on_hardware():
        pytest.skip("the hardware has the driver")
    (tmp_path / "libcuda.so.1").symlink_to(_ctypes.__file__)
    text = CUDA.error_of_opening(LD_LIBRARY_PATH=str(tmp_path))
    assert text.startswith(f"{NO_DEVICE}: the driver does not start: ")
    assert text.endswith(
        ": undefined symbol: cuDriverGetVersion. Run nvidia-smi to test the driver"
    )


def test_a_driver_without_a_function() -> None:
    program = (
        "import ctypes, types, devmod\nfrom devmod_cuda import _device\n"
        "_device._open_library = lambda: ctypes.CDLL(None)\n"
        "try:\n    devmod.device('cuda')\nexcept devmod.DeviceNotFoundError as error:\n    print(error)\n"
    )
    assert run_python(program) == (
        f"{NO_DEVICE}: the driver does not start: cuLaunchKernelEx: CUDA_ERROR_NOT_SUPPORTED (this driver has no such function). Run "
        "nvidia-smi to test the driver\n"
    )


def test_a_stub_of_the_driver(environment: dict[str, str]) -> None:
    assert CUDA.error_of_opening(
        **environment, DEVMOD_STANDIN_DRIVER_VERSION="0", DEVMOD_STANDIN_FAIL="cuInit=34"
    ).startswith(f"{NO_DEVICE}: the driver does not start: cuInit: CUDA_ERROR_STUB_LIBRARY")


MISSING = """
import sys
import devmod
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "pycuda.driver":
            raise ImportError("pycuda/_driver.so: undefined symbol: cuCtxCreate_v9")
sys.meta_path.insert(0, Finder())
try:
    devmod.device("cuda")
except devmod.DeviceNotFoundError as error:
    print(error)
"""


def test_a_pycuda_that_needs_a_newer_driver(tmp_path: Path) -> None:
    if on_hardware():
        pytest.skip("reads the settings of the stand-in driver")
    assert run_python(
        MISSING,
        **CUDA.driver_environment("pycuda", tmp_path),
        DEVMOD_STANDIN_DRIVER_VERSION="12020",
    ) == (
        f"{NO_DEVICE}: pycuda was built with headers of a newer CUDA than the driver supports. That is CUDA 12.2, and the driver has no "
        "cuCtxCreate_v9. Unset DEVMOD_CUDA_DRIVER, update NVIDIA's driver, or build pycuda with an older toolkit, which CUDA_ROOT names: "
        "pip install --force-reinstall --no-cache-dir --no-binary pycuda pycuda\n"
    )


@pytest.mark.volume_but("cuDeviceGetCount", "cuDeviceGetAttribute")
@pytest.mark.parametrize(
    "call",
    [
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceTotalMem",
        "cuDeviceGetAttribute",
    ],
)
def test_a_driver_that_does_not_describe_its_devices(
    call: str, environment: dict[str, str]
) -> None:
    assert CUDA.error_of_opening(**environment, DEVMOD_STANDIN_FAIL=f"{call}=46") == (
        f"{NO_DEVICE}: the devices cannot be listed: {call}: CUDA_ERROR_DEVICE_UNAVAILABLE (CUDA-capable device(s) is/are busy or "
        "unavailable). Run nvidia-smi to test the driver"
    )


def test_limits_that_the_driver_does_not_tell(environment: dict[str, str]) -> None:
    program = (
        "import ctypes, devmod\n"
        "device = devmod.device('cuda')\n"
        "ctypes.CDLL('libcuda.so.1').standin_set(b'fail', b'cuDeviceGetAttribute=46')\n"
        "try:\n"
        "    device.limits\n"
        "except devmod.LaunchError as error:\n"
        "    print(error)\n"
        "ctypes.CDLL('libcuda.so.1').standin_set(b'fail', None)\n"
        "print(device.limits['warp_size'])"
    )
    assert run_python(program, **environment) == (
        "the limits of cuda device 0 (simulated GPU (devmod-simulators)) cannot be read: CUDA_ERROR_DEVICE_UNAVAILABLE (CUDA-capable device(s) "
        "is/are busy or unavailable)\n32\n"
    )


@pytest.mark.parametrize(
    ("cuda", "ptx"),
    [
        (12000, "8.0"),
        (12040, "8.4"),
        (12050, "8.5"),
        (12060, "8.5"),
        (12080, "8.7"),
        (12090, "8.8"),
        (13000, "9.0"),
        (13020, "9.2"),
        (14000, ""),
    ],
)
def test_the_ptx_version_of_a_driver(cuda: int, ptx: str) -> None:
    assert ptx_version(cuda) == ptx


# -- the calls


@pytest.fixture
def driver(device: Any) -> Any:
    """The driver's object; the device's context is current."""
    with device.context:
        yield device.driver


def test_pointers_that_the_driver_knows(driver: Any) -> None:
    pointer, host = driver.call("allocate", 64), driver.call("allocate_host", 64, 1)
    assert driver.locate(pointer + 8)[1:] == (2, 0)
    assert driver.locate(host)[1] == 1
    assert driver.locate(ctypes.addressof(ctypes.c_int()))[:2] == (0, 0)
    driver.call("free", pointer)
    driver.call("free_host", host)


# -- the thread's context


@pytest.mark.each_driver
def test_a_launch_sets_a_missing_context(device: Any, standin: Standin) -> None:
    import threading

    driver, context = device.driver, device.context
    with context:
        module = driver.load_module(ptx_of(COUNT).encode())
        function, pointer = (
            driver.call("get_function", module, b"count"),
            driver.call("allocate", 256),
        )
        driver.call("fill", pointer, 0, 256, 1)
        driver.call("synchronize_stream", 1)
    data = pointer.to_bytes(8, "little") + (1).to_bytes(4, "little")
    block = ctypes.create_string_buffer(data, 12)
    config = DriverLaunchConfig((1, 1, 1), (64, 1, 1), 0)
    launch = driver.launch_call(config, 1, function, block, (0, 8))
    prepared = driver.prepare_launch(context.handle, launch, Exception)
    queries: list[int] = []

    def work() -> None:
        driver.call("set_context", 0)
        before = standin.calls("cuCtxGetCurrent")
        for _ in range(2):
            prepared()
            queries.append(standin.calls("cuCtxGetCurrent") - before)
        assert driver.call("current_context") == context.handle

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert queries == [1, 1]
    host = (ctypes.c_int * 64)()
    with context:
        driver.call("copy_to_host", ctypes.addressof(host), pointer, 256, 1)
        driver.call("synchronize_stream", 1)
        assert list(host) == [2] * 64
        driver.call("free", pointer)
        driver.unload_module(module)
