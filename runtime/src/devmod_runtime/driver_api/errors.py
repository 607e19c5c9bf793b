"""The errors of a driver, and the errors of devmod for them."""

from __future__ import annotations

from devmod.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime.driver_api.device import DriverDevice


class DriverError(Exception):
    """An error code of the driver.

    Attributes
    ----------
    name : str
        The vendor's name, such as "CUDA_ERROR_INVALID_VALUE".
    text : str
        The vendor's description of it.
    call : str
        The function that returned it, such as "cuLaunchKernelEx".
    log : str
        The error log of the driver's compiler and linker, for the load of a module.
    """

    def __init__(self, name: str, text: str, call: str, log: str = "") -> None:
        super().__init__(f"{call}: {name} ({text})" if text else f"{call}: {name}")
        self.name = name
        self.text = text
        self.call = call
        self.log = log


def describe(error: DriverError) -> str:
    """Return the vendor's name and description of an error: ``CUDA_ERROR_INVALID_VALUE (invalid argument)``."""
    return f"{error.name} ({error.text})" if error.text else error.name


def driver_error(what: str, error: DriverError, device: DriverDevice) -> LaunchError:
    """Return the LaunchError for an error of the driver.

    Parameters
    ----------
    what
        What failed, as the start of the message.
    error
        The driver's error.
    device
        The device that cannot be used any more if the error is sticky.
    """
    text, api = f"{what}: {describe(error)}", device.api
    if error.name in api.sticky:
        text += (
            f". A kernel has failed on {device}: {api.name} refuses every later call of this process on it, also of other libraries. Its "
            "arrays are lost. Start a new process"
        )
    return LaunchError(text, kind=api.kind)
