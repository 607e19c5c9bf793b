"""The errors of the interpreter, each with the number and the name that the CUDA driver uses."""

from __future__ import annotations

from devmod_simulators.drivers.worker_process import Failure

CODES = {
    "CUDA_ERROR_INVALID_VALUE": 1,
    "CUDA_ERROR_INVALID_IMAGE": 200,
    "CUDA_ERROR_NO_BINARY_FOR_GPU": 209,
    "CUDA_ERROR_INVALID_PTX": 218,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": 222,
    "CUDA_ERROR_NOT_FOUND": 500,
    "CUDA_ERROR_ILLEGAL_ADDRESS": 700,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": 701,
    "CUDA_ERROR_LAUNCH_TIMEOUT": 702,
    "CUDA_ERROR_ASSERT": 710,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": 715,
    "CUDA_ERROR_MISALIGNED_ADDRESS": 716,
    "CUDA_ERROR_LAUNCH_FAILED": 719,
    "CUDA_ERROR_NOT_SUPPORTED": 801,
}


class PtxError(Failure):
    """An error of a module or a launch: `name` is CUDA's name of the error, `code` its number,
    `text` the reason.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(CODES[name], text)
        self.name = name

    def __str__(self) -> str:
        """Return the name and the reason."""
        return f"{self.name}: {self.text}"


class UnsupportedError(Exception):
    """The engine does not compile a kernel: the interpreter executes it."""


def invalid_ptx(line: int, text: str) -> PtxError:
    """Return the error for text that is no valid PTX."""
    return PtxError("CUDA_ERROR_INVALID_PTX", f"line {line}: {text}")
