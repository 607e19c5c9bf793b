"""What only ROCm's driver has: the errors of opening it, its own calls;
plugins/driver-api/tests has the tests of drivers.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pytest
from backend_checks import run_python
from standin_rocm import ROCM, SONAME, Standin, library, on_hardware

from devmod_driver_api.api import DriverError
from devmod_rocm import _device

NO_DEVICE = "no ROCm device can be used"
SEARCH = (
    "It is HIP's runtime, a part of ROCm: install AMD's package hip-runtime-amd (Debian, Ubuntu: apt install libamdhip64-5), or name the folder "
    "of ROCm in ROCM_PATH. devmod searches the system's libraries as libamdhip64.so, libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5, and "
)


def runtime(folder: Path, name: str) -> str:
    """Write the stand-in runtime as a library with that name and a soname of its own to a new
    folder, and return the folder.
    """
    folder.mkdir(parents=True)
    soname = SONAME if name == SONAME else f"{SONAME[:-1]}{name[-1]}"  # of the same length
    (folder / name).write_bytes(
        library().read_bytes().replace(SONAME.encode() + b"\0", soname.encode() + b"\0")
    )
    return str(folder)


# -- the library


@pytest.mark.volume_but("libamdhip64.so", "libamdhip64.so.6")
@pytest.mark.parametrize(
    "name", ["libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"]
)
def test_the_names_of_the_library(
    rocm_environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    if on_hardware():
        pytest.skip("the hardware has one runtime")
    program = "import sys, devmod\nprint(devmod.device('rocm').driver.library._name, {'hip', 'rocm'} & set(sys.modules))"
    env = {**rocm_environment, "LD_LIBRARY_PATH": runtime(tmp_path / "lib", name)}
    assert run_python(program, **env) == f"{name} set()\n"


def test_the_library_in_the_folder_of_rocm(
    rocm_environment: dict[str, str], tmp_path: Path
) -> None:
    if on_hardware():
        pytest.skip("the hardware has one runtime")
    folder = tmp_path / "rocm" / "lib"
    runtime(folder, "libamdhip64.so.6")
    env = {**rocm_environment, "LD_LIBRARY_PATH": "", "ROCM_PATH": str(folder.parent)}
    assert (
        run_python("import devmod\nprint(devmod.device('rocm').driver.library._name)", **env)
        == f"{folder}/libamdhip64.so.6\n"
    )


def test_a_process_uses_the_library_that_it_has_loaded(
    rocm_environment: dict[str, str], tmp_path: Path
) -> None:
    """PyTorch for ROCm loads a library of its own."""
    if on_hardware():
        pytest.skip("the hardware has one runtime")
    folder = runtime(tmp_path / "torch", "libamdhip64.so")
    program = f"import ctypes\nctypes.CDLL('{folder}/libamdhip64.so')\nimport devmod\nprint(devmod.device('rocm').driver.library._name)"
    assert run_python(program, **rocm_environment) == f"{folder}/libamdhip64.so\n"


def test_no_library(tmp_path: Path) -> None:
    if on_hardware():
        pytest.skip("the hardware has the runtime")
    text = ROCM.error_of_opening(LD_LIBRARY_PATH="", ROCM_PATH=str(tmp_path))
    assert text == f"{NO_DEVICE}: libamdhip64.so is not installed. {SEARCH}{tmp_path}/lib"


def test_a_library_that_cannot_be_opened(tmp_path: Path) -> None:
    if on_hardware():
        pytest.skip("the hardware has the runtime")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libamdhip64.so.6").write_bytes(b"no ELF file")
    assert ROCM.error_of_opening(LD_LIBRARY_PATH="", ROCM_PATH=str(tmp_path)) == (
        f"{NO_DEVICE}: libamdhip64.so cannot be opened ({tmp_path}/lib/libamdhip64.so.6: file too short). {SEARCH}{tmp_path}/lib"
    )


# -- opening it


def test_no_device(environment: dict[str, str]) -> None:
    why = "no ROCm device was found: hipGetDeviceCount: hipErrorNoDevice (no device)"
    env = {name: value for name, value in environment.items() if name not in _device._VISIBLE}
    text = ROCM.error_of_opening(**env, DEVMOD_STANDIN_HIDDEN="1")
    if not os.path.exists("/dev/kfd"):
        assert (
            text
            == f"{why}; /dev/kfd is missing: load the kernel module amdgpu; in a container, pass --device=/dev/kfd --device=/dev/dri"
        )
    assert text.startswith(f"{why}; ")
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        assert (
            ROCM.error_of_opening(**env, DEVMOD_STANDIN_HIDDEN="1", **{variable: ""})
            == f"{why}; {variable} is ''"
        )


@pytest.mark.parametrize(
    ("exists", "is_allowed", "advice"),
    [
        (
            True,
            False,
            "this user may not open /dev/kfd: sudo usermod -a -G render,video $LOGNAME, then log in again",
        ),
        (True, True, "rocminfo lists the devices of the driver"),
    ],
)
def test_no_device_with_a_kernel_driver(
    monkeypatch: pytest.MonkeyPatch, exists: bool, is_allowed: bool, advice: str
) -> None:
    for variable in _device._VISIBLE:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os.path, "exists", lambda path: exists)
    monkeypatch.setattr(os, "access", lambda path, mode: is_allowed)
    assert str(_device._no_device("reason")) == f"no ROCm device was found: reason; {advice}"


def test_a_driver_that_does_not_start(environment: dict[str, str]) -> None:
    text = ROCM.error_of_opening(**environment, DEVMOD_STANDIN_FAIL="hipInit=999")
    assert text.startswith(f"{NO_DEVICE}: the runtime does not start: hipInit: hipErrorUnknown")
    assert text.endswith(". Run rocminfo to test it")


def test_a_library_without_a_function() -> None:
    program = (
        "import ctypes, devmod\nfrom devmod_rocm import _device\n"
        "_device.open_library = lambda: ctypes.CDLL(None)\n"
        "try:\n    devmod.device('rocm')\nexcept devmod.DeviceNotFoundError as error:\n    print(error)\n"
    )
    assert run_python(program) == (
        f"{NO_DEVICE}: the runtime does not start: hipModuleLaunchKernel: hipErrorNotSupported (this driver has no such function). Run "
        "rocminfo to test it\n"
    )


# -- the calls


@pytest.fixture
def driver(device: Any) -> Any:
    """The driver's object; the device is the current one."""
    with device.context:
        yield device.driver


@pytest.mark.parametrize("version", ["70200000", "50221153"])
def test_addresses(driver: Any, standin: Standin, version: str) -> None:
    """HIP 5 has other numbers for the types of memory, and an error for memory that it does not
    know.
    """
    standin.set("driver_version", version)
    pointer, host = driver.call("allocate", 64), driver.call("allocate_host", 64, 1)
    assert driver.locate(pointer + 8) == (0, 2, 0)
    assert driver.locate(host)[1] == 1
    assert driver.locate(ctypes.addressof(ctypes.c_int()))[1] == 0
    driver.call("free", pointer)
    driver.call("free_host", host)


def test_an_error_leaves_no_last_error(driver: Any, standin: Standin) -> None:
    """PyTorch reads the last error after each of its launches."""
    for work in (
        lambda: driver.call("allocate", 1 << 60),
        lambda: driver.call("synchronize_event", 1),
    ):
        with pytest.raises(DriverError):
            work()
        assert standin.api.hipGetLastError() == 0
    standin.reset()  # the handle is a violation


def test_a_function_that_an_older_runtime_lacks(environment: dict[str, str]) -> None:
    """Debian's HIP 5.2 has no hipStreamGetDevice: it is bound when it is used."""
    program = (
        "import devmod\n"
        "driver = devmod.device('rocm').driver\n"
        "driver.library = Without(driver.library)\n"
        "try:\n"
        "    driver.call('stream_context', driver.call('create_stream', 1))\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    lacking = (
        "class Without:\n"
        "    def __init__(self, library): self.library = library\n"
        "    def __getitem__(self, name):\n"
        "        if name == 'hipStreamGetDevice': raise AttributeError(name)\n"
        "        return self.library[name]\n"
    )
    text = "hipStreamGetDevice: hipErrorNotSupported (this driver has no such function)\n"
    assert run_python(lacking + program, **environment) == text
