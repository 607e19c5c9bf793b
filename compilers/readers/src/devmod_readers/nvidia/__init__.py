"""Readers of NVIDIA's images: PTX, cubins and fatbins. They need no driver and no toolkit.

- `read_ptx` and `read_cubin` return the kernels of an image with the places of their parameters and
  their limits. `index_cubin` reads each of them when it is used.
- `check_declared` compares the declared signature of a kernel with its image.
- `fatbin_members` returns the images in a fatbin, and `fatbin_parts` those of each of several.
  `FATBIN_MAGIC` is the number at the start of one.
- `TENSOR_MAP_TAG` is TVM's extra tag of a tensor map, and `TENSOR_MAP_BYTES` its size.

All raise `devmod.FormatError` for an image that is damaged. They take time in proportion to the
size of the image.
"""

from __future__ import annotations

from devmod_readers.nvidia._cubin import index_cubin, read_cubin
from devmod_readers.nvidia._entry import (
    TENSOR_MAP_BYTES,
    TENSOR_MAP_TAG,
    KernelEntry,
    ParamPlace,
    check_declared,
)
from devmod_readers.nvidia._fatbin import (
    FATBIN_MAGIC,
    FatbinMember,
    fatbin_members,
    fatbin_parts,
)
from devmod_readers.nvidia._ptx import read_ptx

__all__ = [
    "FATBIN_MAGIC",
    "TENSOR_MAP_BYTES",
    "TENSOR_MAP_TAG",
    "FatbinMember",
    "KernelEntry",
    "ParamPlace",
    "check_declared",
    "fatbin_members",
    "fatbin_parts",
    "index_cubin",
    "read_cubin",
    "read_ptx",
]
