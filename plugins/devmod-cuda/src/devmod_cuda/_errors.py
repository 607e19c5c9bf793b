"""The errors for what the driver reports."""

from __future__ import annotations

from devmod.errors import DeviceMemoryError, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._interface import DriverError

#: The errors after which a context returns the same error for every call: the process has lost the device. Source: the descriptions of
#: CUresult in CUDA's driver API.
_STICKY = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        *("ILLEGAL_ADDRESS", "LAUNCH_TIMEOUT", "LAUNCH_FAILED", "ASSERT", "HARDWARE_STACK_ERROR", "ILLEGAL_INSTRUCTION"),
        *("MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC", "ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "CONTAINED"),
        *("TENSOR_MEMORY_LEAK", "EXTERNAL_DEVICE", "MPS_CLIENT_TERMINATED"),
    )
)
_MEMORY = frozenset(("CUDA_ERROR_OUT_OF_MEMORY",))


def is_sticky(error: DriverError) -> bool:
    """Return whether every later call of the driver on the device fails with the same error."""
    return error.name in _STICKY


def is_memory_error(error: DriverError) -> bool:
    """Return whether the device or the host has too little memory."""
    return error.name in _MEMORY


def device_error(what: str, error: DriverError, function: str = "") -> LaunchError:
    """Return the LaunchError for an error of the driver.

    Parameters
    ----------
    what
        What failed, with the device: "cuda device 0 (NVIDIA H100) reports a fault of a launch".
    error
        The driver's error.
    function
        The kernel that was launched.
    """
    text = f"{what}: {error.name}"
    if error.text:
        text += f" ({error.text})"
    if is_sticky(error):
        text += (
            ". A kernel that ran before has failed, and nothing in this process can use the device any more: its arrays are lost. "
            "Start a new process. compute-sanitizer finds the access at fault"
        )
    kind = DeviceMemoryError if is_memory_error(error) else LaunchError
    return kind(text, kind="cuda", function=function)
