"""The driver of this process: cuda-bindings or pycuda, as ``DEVMOD_CUDA_DRIVER`` names it. No other file chooses."""

from __future__ import annotations

from importlib.util import find_spec

from devmod.backend import Once, check_driver, environment_text, open_driver
from devmod.errors import DeviceNotFoundError
from devmod_cuda._interface import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._interface import Driver

__all__ = ["VARIABLE", "DriverError", "get_driver"]

#: The environment variable that names the driver.
VARIABLE = "DEVMOD_CUDA_DRIVER"
_NAMES = ("cuda-bindings", "pycuda")
_once = Once()


def get_driver() -> Driver:
    """Return the driver, always the same object. The first call opens it.

    Raises
    ------
    DeviceNotFoundError
        The driver is missing, too old, or has no device. The next call tries again.
    LaunchError
        This process was forked after the driver was opened.
    """
    check_driver("cuda")
    driver: Driver = _once.get("driver", _open)
    return driver


def driver_name() -> str:
    """Return the name of the driver's package: that of ``DEVMOD_CUDA_DRIVER``, else pycuda if it is installed, else cuda-bindings.

    Raises
    ------
    DeviceNotFoundError
        The variable has another value.
    """
    name = environment_text(VARIABLE)
    if not name:
        return "pycuda" if find_spec("pycuda") is not None else "cuda-bindings"
    if name not in _NAMES:
        raise DeviceNotFoundError(
            f"no CUDA device can be used: {VARIABLE}={name!r} names no driver; set it to 'cuda-bindings' or 'pycuda', or unset it",
            kind="cuda",
        )
    return name


def _open() -> Driver:
    name = driver_name()
    open_driver("cuda")
    if name == "pycuda":
        from devmod_cuda._pycuda import open_pycuda

        return open_pycuda()
    from devmod_cuda._bindings import open_bindings

    return open_bindings()
