"""The options that the source of a payload may have: those of NVRTC in ``cuda``, of clang in
``rocm``, and of drivers in ``opencl``.
"""

from __future__ import annotations

from devmod.errors import FormatError

#: The start of the line with the build options of a source payload.
OPTIONS_LINE = "//devmod:"
#: Options of C compilers whose value is a file or a folder, in one word or in two.
_PATH_OPTIONS = (
    "-I",
    "-L",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-isysroot",
    "--sysroot",
)


def split_options(text: str, kind: str = "") -> tuple[tuple[str, ...], str]:
    """Return the build options in a payload's first line, and the text for the compiler.

    The text keeps that line, a comment for the compiler, so that line numbers are right.

    Parameters
    ----------
    text
        A source payload.
    kind
        The kind of a FormatError.

    Raises
    ------
    FormatError
        The line has an option that names a path. An untrusted file must not cause the compiler to
        read other files.
    """
    if not text.startswith(OPTIONS_LINE):
        return (), text
    options = tuple(text.partition("\n")[0][len(OPTIONS_LINE) :].split())
    for option in options:
        if option.startswith("-D"):
            continue
        problem, _, _ = option_problem(option).partition(";")
        if problem:
            raise FormatError(
                f"the source's first line has the option {option!r}, which {problem}", kind=kind
            )
    return options, text


def option_problem(option: str) -> str:
    """Return why a payload must not have an option that is no define; "" if it may have it."""
    if option.startswith(_PATH_OPTIONS) or option == "-o" or not {"/", "\\"}.isdisjoint(option):
        return "names a path; a payload is complete in itself, and its receiver has no such path. Folders of includes go into include="
    if not option.startswith("-") and not option.isalnum():
        return "is no option and no value of one"
    return ""
