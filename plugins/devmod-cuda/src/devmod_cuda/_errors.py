"""The errors of devmod for error codes of the driver."""

from __future__ import annotations

from devmod.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._interface import DriverError

#: The errors after which the driver refuses every later call of the process on the device.
STICKY = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ASSERT",
        "CONTAINED",
        "ECC_UNCORRECTABLE",
        "EXTERNAL_DEVICE",
        "HARDWARE_STACK_ERROR",
        "ILLEGAL_ADDRESS",
        "ILLEGAL_INSTRUCTION",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "MISALIGNED_ADDRESS",
        "MPS_CLIENT_TERMINATED",
        "NVLINK_UNCORRECTABLE",
        "TENSOR_MEMORY_LEAK",
    )
)
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


def describe(error: DriverError) -> str:
    """Return CUDA's name and description of an error: ``CUDA_ERROR_INVALID_VALUE (invalid argument)``."""
    return f"{error.name} ({error.text})" if error.text else error.name


def driver_error(what: str, error: DriverError, device: object) -> LaunchError:
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
    text = f"{what}: {describe(error)}"
    if error.name in STICKY:
        text += (
            f". A kernel has failed on {device}: CUDA refuses every later call of this process on it, also of other libraries. Its arrays "
            "are lost. Start a new process"
        )
    return LaunchError(text, kind="cuda")
