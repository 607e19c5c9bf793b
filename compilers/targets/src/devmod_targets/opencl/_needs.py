"""Find what a device must have to build an OpenCL C program: clang parses the program once more as
for a device without the feature.

A driver builds the whole program. So a feature without which the program has errors is a need of
all its kernels. Code in a branch that is compiled only with the feature (``#ifdef cl_khr_fp16``)
needs nothing, unless it has a kernel: only that kernel needs the feature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

_Strings = tuple[str, ...]

_SUBGROUPS = "subgroups"

_SUBGROUP_EXTENSION = re.compile(r"\bcl_\w*subgroup\w*")
_SUBGROUP_CALL = re.compile(r"sub_group_")


class _Feature(NamedTuple):
    """A feature: its words in a program, clang's extensions, the arguments that remove what
    devmod's header has of it, and those that make errors of warnings.
    """

    words: re.Pattern[str]
    extensions: _Strings
    arguments: _Strings = ()
    strict: _Strings = ()


_FEATURES = {
    "fp16": _Feature(
        re.compile(
            r"\b(?:half(?:2|3|4|8|16)?|as_half\d*|convert_half\w*|(?:read|write)_imageh|cl_khr_fp16)\b|\d[hH]\b"
        ),
        ("cl_khr_fp16",),
    ),
    "fp64": _Feature(
        re.compile(r"\b(?:double(?:2|3|4|8|16)?|as_double\d*|convert_double\w*|cl_khr_fp64)\b"),
        ("cl_khr_fp64", "__opencl_c_fp64"),
    ),
    "image_writes_3d": _Feature(
        re.compile(r"\b(?:image3d_t|cl_khr_3d_image_writes)\b"),
        ("cl_khr_3d_image_writes", "__opencl_c_3d_image_writes"),
    ),
    "int64_atomics": _Feature(
        re.compile(
            r"\b(?:atom_\w+|atomic_(?:u?long|double|size_t|u?intptr_t|ptrdiff_t)|cl_khr_int64_\w+)\b"
        ),
        ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"),
        # atom_add(p, 1) of a long *p is otherwise a call of the function of ints.
        strict=("-Werror=incompatible-pointer-types",),
    ),
    _SUBGROUPS: _Feature(
        re.compile(r"sub_?group"),
        ("cl_khr_subgroups", "__opencl_c_subgroups"),
        ("-DDEVMOD_NO_SUBGROUPS",),
    ),
}


def find_needs(
    text: str,
    kernels: Iterable[str],
    calls: Iterable[str],
    parse: Callable[[list[str]], tuple[bool, Iterable[str], Collection[str]]],
) -> dict[str, set[str]]:
    """Return the needs of each kernel.

    Parameters
    ----------
    text
        The program with its includes, defines and all branches.
    kernels
        The kernels.
    calls
        The undeclared functions that the program calls.
    parse
        Parses the program with further arguments of clang, and returns whether it has errors, the
        undeclared functions and the kernels.
    """
    needs: dict[str, set[str]] = {name: set() for name in kernels}
    for feature, (words, extensions, arguments, strict) in _FEATURES.items():
        if not words.search(text):
            continue
        if strict and not parse([*strict])[0]:  # the program itself has no such warning
            arguments += strict
        names = list(extensions)
        if feature == _SUBGROUPS:
            names += sorted(set(_SUBGROUP_EXTENSION.findall(text)))
        removed = ",".join(f"-{name}" for name in names)
        is_needed, undeclared, present = parse([*arguments, "-Xclang", f"-cl-ext={removed}"])
        for name in undeclared:
            # clang knows no vendor's functions, with the feature or without it.
            if name not in calls or (feature == _SUBGROUPS and _SUBGROUP_CALL.search(name)):
                is_needed = True
        for name, of_kernel in needs.items():
            if is_needed or name not in present:
                of_kernel.add(feature)
    return needs
