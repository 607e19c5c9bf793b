"""A reader of WGSL for compilers and runtimes. It returns the compute entry points of a text with
their parameters.

It needs no toolchain and no device. Each function raises `devmod.CompileError` with the file, the
line and the column.
"""

from __future__ import annotations

from devmod_wgsl._lines import LINE_BREAKS as LINE_BREAKS
from devmod_wgsl._lines import NAME as NAME
from devmod_wgsl._lines import end_of_comment as end_of_comment
from devmod_wgsl._lines import line_marker as line_marker
from devmod_wgsl._naga import check_depth, naga_message
from devmod_wgsl._reflect import check_matrices, read_wgsl, survey_wgsl

__all__ = ["check_for_naga", "naga_message", "read_wgsl", "survey_wgsl"]


def check_for_naga(text: str, name: str) -> None:
    """Raise CompileError for a text on which naga, the compiler of wgpu, ends the process.

    Parameters
    ----------
    text, name
        The text, and its name in messages.

    Raises
    ------
    CompileError
        Brackets or operators are nested too deeply, or a uniform contains matrices that naga cannot
        compile.
    """
    check_depth(text, name)
    check_matrices(text, name)
