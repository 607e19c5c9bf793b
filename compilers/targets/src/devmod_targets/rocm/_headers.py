"""devmod's headers of HIP, and those of CUDA that include them: a CUDA C++ source for rocm is HIP
with CUDA's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from devmod.errors import CompileError
from devmod_targets._text import header_files
from devmod_targets.authoring import CompileRequest
from devmod_targets.authoring.hip_names import renaming_header

#: The names of the headers that a HIP source may include, and of those that devmod includes.
_OF_HIP = ("hip/", "devmod_hip", "devmod_arithmetic")
_MISSING = re.compile(r"fatal error: '([^']+)' file not found")
_NVIDIA = re.compile(
    r"(?:cuda|cooperative_groups|cub|thrust|nv|crt|nvtx3|cutlass|cute)/|(?:cu|nv)\w+\.h$|mma\.h$|(?:sm_|surface_|texture_)\w+\.h$"
)
_ASSEMBLY = re.compile(
    r":(\d+):\d+: error: (?:invalid instruction|invalid operand|not a valid operand|unknown token in expression|unexpected token)"
)
_CONSTRAINT = re.compile(
    r"error: (?:couldn't allocate (?:in|out)put reg(?:ister)?|invalid (?:in|out)put constraint|value size does not match register size)"
)


@cache
def headers(language: str) -> Mapping[str, str]:
    """Return the headers for a language of rocm, name to text. Those of CUDA are for CUDA C++."""
    texts = header_files(__package__) | header_files("devmod_targets.authoring")
    if language != "CUDA C++":
        return {name: text for name, text in texts.items() if name.startswith(_OF_HIP)}
    return {**texts, "devmod_cuda_names.h": renaming_header(to_hip=True)}


def explain_cuda(error: CompileError, request: CompileRequest) -> CompileError:
    """Return the error for a CUDA C++ source with what no AMD processor has: PTX, or a header of
    NVIDIA's; another error unchanged.
    """
    if request.language != "CUDA C++":
        return error
    missing = _MISSING.search(error.log)
    if missing and _NVIDIA.match(missing[1]):
        return request.error(
            f"{error}. {missing[1]} is a header of CUDA that devmod does not have for rocm: docs/rocm.md lists its headers",
            log=error.log,
        )
    if _ASSEMBLY.search(error.log) or _CONSTRAINT.search(error.log):
        return request.error(
            f"{error}. Inline assembly of CUDA C++ is PTX, which AMD's processors do not have. Keep it for CUDA alone, with "
            "#ifndef __HIP_PLATFORM_AMD__",
            log=error.log,
        )
    return error
