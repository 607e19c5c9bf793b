"""The names of HIP and of CUDA that differ by their first part: functions for the host, constants,
complex numbers.
"""

from __future__ import annotations

import re
from functools import cache

from devmod_targets._text import header_text

#: Pairs of names with another difference, of HIP and of CUDA.
_PAIRS = {
    "hipDeviceProp_t": "cudaDeviceProp",
    "hipErrorOutOfMemory": "cudaErrorMemoryAllocation",
    "hipFuncCache_t": "cudaFuncCache",
    "hipHostFree": "cudaFreeHost",
    "hipHostMalloc": "cudaMallocHost",
    **{
        f"hipHostMalloc{flag}": f"cudaHostAlloc{flag}"
        for flag in ("Default", "Mapped", "Portable", "WriteCombined")
    },
    **{
        f"{start}hip{name}Complex": f"{start}cu{name}Complex"
        for start in ("", "make_")
        for name in ("", "Float", "Double")
    },
    **{
        f"hip{name}{f}": f"cu{name}{f}"
        for name in ["Creal", "Cimag", "Conj", "Cabs", "Cadd", "Csub", "Cmul", "Cdiv", "Cfma"]
        for f in ("", "f")
    },
}
#: Objects that devmod's headers of HIP do not have.
_OBJECTS = {
    "hipSurfaceObject_t": "cudaSurfaceObject_t",
    "hipTextureObject_t": "cudaTextureObject_t",
}


@cache
def renaming_header(*, to_hip: bool) -> str:
    """Return a header that defines CUDA's names as those of HIP, or HIP's names as those of
    CUDA.
    """
    names = re.findall(
        r"\bhip[A-Z]\w*", header_text("devmod_targets.rocm", "headers/hip/hip_runtime_api.h")
    )
    names = [
        name for name in names if name != "hipLaunchKernelGGL"
    ]  # a macro of each side's own header
    pairs = {
        name: f"cuda{name[3:]}".replace("cudaDeviceAttribute", "cudaDevAttr") for name in names
    }
    constants = re.findall(
        r"#define (HIP_\w+)", header_text("devmod_targets.rocm", "headers/hip/hip_math_constants.h")
    )
    pairs |= {name: f"CUDART_{name[4:]}" for name in constants} | _PAIRS
    defines = {cuda: hip for hip, cuda in pairs.items()} if to_hip else pairs | _OBJECTS
    return "".join(
        [
            "#pragma once\n",
            *(f"#define {name} {other}\n" for name, other in sorted(defines.items())),
        ]
    )
