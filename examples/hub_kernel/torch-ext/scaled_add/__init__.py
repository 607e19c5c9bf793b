"""A kernel of Triton for Hugging Face's `kernels`, with its compiled code beside it.

`kernels` imports the package under another name, which has a digest of the build. The record has
"scaled_add".
"""

from __future__ import annotations

from pathlib import Path

import triton
import triton.language as tl

COMPILED = Path(__file__).with_name("kernels.devmod")
try:
    from devmod_runtime.triton import serve
except ImportError:  # Triton compiles the kernel.
    pass
else:
    if COMPILED.exists():
        serve(COMPILED, names={__name__: "scaled_add"})


@triton.jit
def scaled_add_kernel(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = scale * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(out + i, total, mask=inside)


def scaled_add(x, y, out, scale):
    """Write scale * x + y to `out`. The three are contiguous tensors of one length."""
    n = out.numel()
    scaled_add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, scale, BLOCK=1024)
    return out
