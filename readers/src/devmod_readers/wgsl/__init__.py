"""A reader of WGSL for compilers and runtimes. It returns the compute entry points of a text with their parameters.

It needs no toolchain and no device. Each function raises `devmod.CompileError` with the file, the line and the column.
"""

from __future__ import annotations

from devmod_readers.wgsl._lines import LINE_BREAKS as LINE_BREAKS
from devmod_readers.wgsl._lines import NAME as NAME
from devmod_readers.wgsl._lines import line_marker as line_marker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod_readers.reflection import ReflectedFunction


def read_wgsl(text: str, name: str, constants: Mapping[str, Any] | None = None) -> dict[str, ReflectedFunction]:
    """Read the compute entry points of a WGSL text.

    Parameters
    ----------
    text, name
        The text, and its name in messages.
    constants
        Values of its overrides by name, which replace the defaults in workgroup sizes.

    Returns
    -------
    dict of str to ReflectedFunction
        The compute entry points by name, in the order of the text.

    Raises
    ------
    CompileError
        The text is not valid WGSL, or devmod cannot call one of its entry points.
    """
    from devmod_readers.wgsl._reflect import read

    return read(text, name, constants)[0]


def survey_wgsl(text: str, name: str) -> tuple[dict[str, ReflectedFunction], str, str]:
    """Read the compute entry points of a WGSL text, and collect warnings about it.

    Parameters
    ----------
    text, name
        The text, and its name in messages.

    Returns
    -------
    dict of str to ReflectedFunction
        The entry points, as from `read_wgsl`.
    str
        A warning about unknown identifiers; "" if there are none.
    str
        A warning about a memory layout on which naga fails; "" if there is none.

    Raises
    ------
    CompileError
        As `read_wgsl`.
    """
    from devmod_readers.wgsl._reflect import survey

    return survey(text, name)


def check_for_naga(text: str, name: str) -> None:
    """Raise CompileError for a text on which naga, the compiler of wgpu, ends the process.

    Parameters
    ----------
    text, name
        The text, and its name in messages.

    Raises
    ------
    CompileError
        Brackets or operators are nested too deeply, or a uniform contains matrices that naga cannot compile.
    """
    from devmod_readers.wgsl._naga import check_depth
    from devmod_readers.wgsl._reflect import check_matrices

    check_depth(text, name)
    check_matrices(text, name)


def naga_message(report: str, name: str, text: str) -> str:
    """Turn a report of naga into a message.

    Parameters
    ----------
    report
        naga's output, as wgpu returns it.
    name
        The source's name.
    text
        The source. Its `line_marker` comments give the user's file and line.

    Returns
    -------
    str
        The location, the error and its reasons in the first line, then the source line.
    """
    from devmod_readers.wgsl._naga import message

    return message(report, name, text)
