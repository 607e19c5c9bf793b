"""CUDA devices and streams. The devices are listed once; the first use of a device retains its
primary context.
"""

from __future__ import annotations

import ctypes
import os
import re

from devmod.backend import Once, environment_text
from devmod.errors import DeviceNotFoundError, pip_install
from devmod_cuda._calls import CUDA, CudaDriver
from devmod_driver_api.api import DriverError
from devmod_driver_api.device import DriverDevice, DriverStream, list_devices
from devmod_runtime import Attempt, driver_import_error, open_driver, open_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod import Image, Sampler
    from devmod_cuda._textures import ImageArray


# -- The driver of this process, by ctypes alone or with pycuda, or the simulated one, as
# ``DEVMOD_CUDA_DRIVER`` selects.


#: The environment variable that names the driver.
VARIABLE = "DEVMOD_CUDA_DRIVER"
#: The library of NVIDIA's driver.
LIBRARY = "libcuda.so.1"
#: The environment variable by which NVIDIA's driver hides devices.
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NAMES = ("ctypes", "pycuda", "simulator")
#: The oldest version of CUDA that a driver supports: the first one with tensor maps.
_OLDEST = 12000
_once = Once()
#: The process and the error of the last cuInit that failed. In a forked child of it, the libraries
#: for CUDA 12.4 and 12.5 return CUDA_ERROR_OPERATING_SYSTEM, for they have started a thread.
_failure: tuple[int, str] = (0, "")


def _open() -> CudaDriver:
    name = environment_text(VARIABLE) or _NAMES[0]
    if name not in _NAMES:
        raise DeviceNotFoundError(
            f"no CUDA device can be used: {VARIABLE}={name!r} names no driver; set it to 'ctypes', 'pycuda' or 'simulator', or unset it",
            kind="cuda",
        )
    process, text = _failure
    if process not in (0, os.getpid()):
        raise DeviceNotFoundError(
            f"{text}. That was in the parent of this process, and cuInit cannot be repeated in a forked child. Start processes that use "
            "devices with multiprocessing's 'spawn' or 'forkserver'",
            kind="cuda",
        )
    library = _open_library()
    driver = _start(library, _open_pycuda if name == "pycuda" else CudaDriver)
    open_driver("cuda")  # not before: a driver that does not start is not open in a forked child
    return driver


def _open_library() -> Any:
    """Open libcuda, and return ctypes' object of it.

    Raises
    ------
    DeviceNotFoundError
        It is missing, too old, or another library.
    """
    attempt = find_library()
    library = attempt.found
    if library is None:
        why = attempt.problem or "the system has no such library"
        raise DeviceNotFoundError(
            f"no CUDA device can be used: {LIBRARY} cannot be opened ({why}). It is part of NVIDIA's driver, which pip does not install "
            "(Ubuntu: sudo ubuntu-drivers install; Debian: apt install nvidia-driver). A container needs the option --gpus all",
            kind="cuda",
        )
    try:
        version = _version_of(library)
    except AttributeError as error:
        raise DeviceNotFoundError(_not_started(error), kind="cuda") from error
    if 0 < version < _OLDEST:  # 0: the driver does not start, and `_start` has the error
        raise DeviceNotFoundError(
            f"no CUDA device can be used: the driver supports CUDA {CUDA.version_text(version)}, and devmod-cuda needs a driver for CUDA "
            f"{CUDA.version_text(_OLDEST)} or newer (525.60 on Linux). Update NVIDIA's driver",
            kind="cuda",
        )
    return library


def find_library() -> Attempt:
    """Open libcuda: NVIDIA's, or that of devmod-simulators, which the whole process then has.

    Raises
    ------
    DeviceNotFoundError
        The simulated one cannot be used.
    """
    if environment_text(VARIABLE) != "simulator":
        return open_library([LIBRARY])[0]
    try:
        from devmod_simulators import UnavailableError, libcuda
    except ImportError as error:
        raise driver_import_error(
            error, "cuda", "CUDA", "devmod_simulators", distribution="devmod-simulators"
        ) from error
    if libcuda.is_taken:
        raise DeviceNotFoundError(
            f"no CUDA device can be used: {VARIABLE} is 'simulator', and this process has loaded another {LIBRARY} before. Run the "
            "program with: devmod simulate -- COMMAND",
            kind="cuda",
        )
    try:
        driver = libcuda.load()
    except UnavailableError as error:
        raise DeviceNotFoundError(f"no CUDA device can be used: {error}", kind="cuda") from error
    driver.show()
    return Attempt(LIBRARY, driver.api)


def _open_pycuda(library: Any) -> CudaDriver:
    try:
        from devmod_cuda._pycuda import PycudaDriver
    except ImportError as error:
        again = pip_install(
            "--force-reinstall", "--no-cache-dir", "--no-binary", "pycuda", "pycuda"
        )
        missing = re.search(r"undefined symbol: (cu[A-Z]\w*)", str(error))
        if missing:
            raise DeviceNotFoundError(
                f"no CUDA device can be used: pycuda was built with headers of a newer CUDA than the driver supports. That is CUDA "
                f"{CUDA.version_text(_version_of(library))}, and the driver has no {missing[1]}. Unset {VARIABLE}, update NVIDIA's "
                f"driver, or build pycuda with an older toolkit, which CUDA_ROOT names: {again}",
                kind="cuda",
            ) from error
        raise driver_import_error(
            error,
            "cuda",
            "CUDA",
            "pycuda",
            distribution="devmod-cuda[pycuda]",
            repair=f"{again}, or unset {VARIABLE}",
        ) from error
    return PycudaDriver(library)


def _start(library: Any, make_driver: Callable[[Any], CudaDriver]) -> CudaDriver:
    """Open a driver and initialize it.

    Raises
    ------
    DeviceNotFoundError
        It does not start, or has no device.
    """
    global _failure
    try:
        driver = make_driver(library)
        driver.initialize()
    except DriverError as error:
        if error.name == "CUDA_ERROR_NO_DEVICE":
            visible = os.environ.get(_VISIBLE)
            advice = (
                "nvidia-smi lists the devices of the driver"
                if visible is None
                else f"{_VISIBLE} is {visible!r}"
            )
            text = f"no CUDA device was found: {error}; {advice}"
        else:
            text = _not_started(error)
        _failure = os.getpid(), text
        raise DeviceNotFoundError(text, kind="cuda") from error
    _failure = 0, ""
    return driver


def _not_started(error: Exception) -> str:
    return f"no CUDA device can be used: the driver does not start: {error}. Run nvidia-smi to test the driver"


def _version_of(library: Any) -> int:
    """Return the version of CUDA that libcuda supports, such as 12080 for 12.8."""
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    return version.value


class CudaStream(DriverStream):
    """A stream of CUDA."""

    device: CudaDevice

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol, and the handle. Other libraries make streams of
        their own from it.
        """
        return 0, self.handle


class CudaDevice(DriverDevice):
    """A CUDA device. Its number is that of CUDA and of the other libraries of the process."""

    api = CUDA
    kind = CUDA.kind
    vendor = "NVIDIA"
    dlpack_type = 2  # kDLCUDA
    stream_type = CudaStream
    driver: CudaDriver
    #: Each device that the drivers support, sm_50 and newer, has all of these.
    features = frozenset(
        {"fp16", "fp64", "images", "image_writes_3d", "int64_atomics", "subgroups"}
    )
    subgroup_sizes = (32,)

    @property
    def is_simulated(self) -> bool:  # type: ignore[override]  # the library tells
        return hasattr(self.driver.library, "standin_report")

    def create_image(self, image: Image) -> ImageArray:
        from devmod_cuda._textures import new_array

        array = new_array(self, image)
        self._copy_image(
            image, array, memoryview(bytes(image.nbytes)), self.current_stream, to_device=True
        )
        return array

    def create_sampler(self, sampler: Sampler) -> None:
        """Return no object: a texture object contains its sampler."""

    def write_image(self, image: Image, data: memoryview, stream: Any) -> None:
        self._copy_image(image, image.handle, data, stream, to_device=True)

    def read_image(self, image: Image, out: memoryview, stream: Any) -> None:
        self._copy_image(image, image.handle, out, stream, to_device=False)

    def _copy_image(
        self, image: Image, array: Any, data: memoryview, stream: Any, *, to_device: bool
    ) -> None:
        from devmod_cuda._textures import copy_of

        what = f"a copy of {data.nbytes} bytes {'to' if to_device else 'from'} an image on {self} failed"
        self._queue(what, stream, "copy_array", copy_of(image, array, data, to_device=to_device))


def devices() -> list[CudaDevice]:
    """Return all devices in the driver's order, always the same objects. If there is none, the next
    call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no driver or no device.
    """
    return list_devices(_once, _open, CudaDevice, "nvidia-smi")


def open_devices() -> list[CudaDevice]:
    """Return the devices if they have been listed, else []. Nothing is opened."""
    return devices() if "devices" in _once else []
