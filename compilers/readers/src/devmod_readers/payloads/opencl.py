"""The payloads of OpenCL: C source, SPIR-V and binaries, which only a driver reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from devmod_readers.payloads import check_names, check_source, spirv_names
from devmod_readers.payloads._dimensions import Language, text_dimensions
from devmod_readers.spirv import KERNEL

if TYPE_CHECKING:
    from devmod.backend import Binary
    from devmod_readers.payloads import Functions

_OPENCL_C = Language(
    r"\b(?:__)?kernel\b",
    "get_global_size|get_num_groups",
    call=r"\bget_(?:global|group)_id\s*\(\s*([12])\s*\)",
)


# Where to change: what `devmod verify` and `devmod.guard` read of a payload
#   here: the file of the kind beside `compilers/readers/src/devmod_readers/payloads/opencl.py`
#     (`check`, `dimensions`), which the kind's `SPEC` names
#   tests: `tests/test_verify_payloads.py`, `tests/test_twin.py`
def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    if fmt == "cl":
        return check_source("opencl", fmt, data, functions)
    if fmt != "il":
        return False
    check_names("opencl", fmt, spirv_names("opencl payload", data, KERNEL), functions)
    return True


#: The dimensions in which a function reads its place.
dimensions = partial(text_dimensions, {"cl": _OPENCL_C})
