"""CUDA's driver API: its names in messages, its error codes, its functions."""

from __future__ import annotations

from devmod_cuda._functions import FUNCTIONS
from devmod_runtime.driver_api.api import Api

#: The handle of the legacy default stream (CU_STREAM_LEGACY), which PyTorch and CuPy use by default.
LEGACY_STREAM = 1

CUDA = Api(
    kind="cuda",
    title="CUDA",
    name="CUDA",
    functions=FUNCTIONS,
    error_name="cuGetErrorName",
    error_text="cuGetErrorString",
    out_of_memory="CUDA_ERROR_OUT_OF_MEMORY",
    not_ready="CUDA_ERROR_NOT_READY",
    not_supported="CUDA_ERROR_NOT_SUPPORTED",
    not_found="CUDA_ERROR_NOT_FOUND",
    implicit_capture="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
    wrong_context=("CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    sticky=frozenset(
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
    ),
    legacy_stream=LEGACY_STREAM,
    legacy_handles=(0, LEGACY_STREAM),
    dlpack_type=2,  # kDLCUDA
    dlpack_types=(2, 13),  # and kDLCUDAManaged
    dlpack_streams={1: LEGACY_STREAM, 2: 2},
    dlpack_stream_text=("None, 1 (the legacy default stream), 2 (the thread's default stream), the handle of a stream, or -1 for no order"),
    parameters_end=0,
)
