"""HIP's runtime API: its names in messages, its error codes, its functions."""

from __future__ import annotations

from devmod_rocm._functions import FUNCTIONS
from devmod_runtime.driver_api.api import Api

#: The handle of a device's null stream, which PyTorch and CuPy use by default.
NULL_STREAM = 0

HIP = Api(
    kind="rocm",
    title="ROCm",
    name="HIP",
    functions=FUNCTIONS,
    error_name="hipGetErrorName",
    error_text="hipGetErrorString",
    out_of_memory="hipErrorOutOfMemory",
    not_ready="hipErrorNotReady",
    not_supported="hipErrorNotSupported",
    not_found="hipErrorNotFound",
    implicit_capture="hipErrorStreamCaptureImplicit",
    # The stream's device is not the thread's current one (HIP 7), or the function is of another device.
    wrong_context=("hipErrorInvalidHandle", "hipErrorInvalidResourceHandle", "hipErrorInvalidDevice", "hipErrorInvalidContext"),
    sticky=frozenset(
        f"hipError{name}" for name in ("Assert", "ECCNotCorrectable", "IllegalAddress", "IllegalState", "LaunchFailure", "LaunchTimeOut")
    ),
    legacy_stream=NULL_STREAM,
    legacy_handles=(NULL_STREAM, 1),  # 1 is hipStreamLegacy
    dlpack_type=10,  # kDLROCM
    dlpack_types=(10,),
    dlpack_streams={0: NULL_STREAM},
    dlpack_stream_text="None or 0 (the default stream), the handle of a stream, or -1 for no order",
    parameters_end=3,  # HIP_LAUNCH_PARAM_END
)
