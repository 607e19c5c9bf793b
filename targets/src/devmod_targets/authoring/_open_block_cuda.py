"""Find the CUDA and HIP kernels that give the same result with every block of threads.

Such a kernel uses the block only to compute the number of its thread: ``blockIdx.x * blockDim.x + threadIdx.x``, in any of the usual forms.
Each form is replaced by a function that the search recognizes (`devmod_targets.authoring`).
"""

from __future__ import annotations

import re

from devmod_targets.authoring._open_block import open_functions


def _forms(axis: str) -> str:
    """Return the pattern of the number of a thread along an axis."""

    def word(name: str) -> str:
        plain = rf"{name}\s*\.\s*{axis}"
        return rf"(?:{plain}|\(\s*(?:int|unsigned|unsigned\s+int|size_t)\s*\)\s*{plain}|\(\s*{plain}\s*\))"

    block, size, thread = word("blockIdx"), word("blockDim"), word("threadIdx")
    product = rf"(?:{block}\s*\*\s*{size}|{size}\s*\*\s*{block})"
    product = rf"(?:{product}|\(\s*{product}\s*\)|__u?mul24\s*\(\s*(?:{block}\s*,\s*{size}|{size}\s*,\s*{block})\s*\))"
    return rf"(?:{product}\s*\+\s*{thread}|{thread}\s*\+\s*{product})(?!\s*[.*/%\w])"


_NUMBER = re.compile("|".join(_forms(axis) for axis in "xyz"))
#: What binds tighter than the sum, or is a cast, if it precedes the sum.
_TIGHTER = frozenset("*/%-~!&.)")


def open_kernels(text: str) -> set[str]:
    """Return the names of the functions in `text` that give the same result with every block."""
    return open_functions(_NUMBER.sub(_replace, text))


def _replace(match: re.Match[str]) -> str:
    text, at = match.string, match.start() - 1
    while at >= 0 and text[at].isspace():
        at -= 1
    is_part = at >= 0 and (text[at] in _TIGHTER or (at == match.start() - 1 and (text[at].isalnum() or text[at] == "_")))
    return match[0] if is_part else " get_global_id(0) "
