"""Find what the kernels of an OpenCL C program read from each image and write to it: floats, ints
or uints.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import or_

from devmod_readers.uses import transitive_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from devmod_targets.authoring.clang import Libclang

    #: A parameter of a function: the function's identity in libclang, and the parameter's number.
    _Place = tuple[str, int]

_ACCESS = re.compile(r"\b(?:read|write)_image(f|h|i|ui)\b")
_BITS = {"f": 1, "h": 1, "i": 2, "ui": 4}
_NAMES = {1: "float", 2: "int", 4: "uint"}


#: The numbers of a function's images, by name.
Numbers = dict[str, int]


def read_samples(
    library: Libclang, definitions: Iterable[Any], text: str
) -> dict[tuple[str, int], str]:
    """Return the `sample` of each kernel's image, by the kernel's name and the number of the
    argument.

    An image that several types are read from, or none, has no entry. If branches that are not
    compiled here may have other types, no image has one: a receiver may compile them.

    Parameters
    ----------
    library, definitions
        libclang, and the functions of the program that have a body.
    text
        The program with its includes and all branches.
    """
    named = {_BITS[suffix] for suffix in _ACCESS.findall(text)}
    if not named:
        return {}
    kinds = library.cindex.CursorKind
    parts = {}
    uses: dict[_Place, set[_Place]] = {}
    functions = {}
    takers = []  # other functions have no image to pass on
    for function in definitions:
        numbers = {
            str(each.spelling): number
            for number, each in enumerate(function.get_arguments())
            if _is_image(each)
        }
        if numbers:
            takers.append((function, numbers))
    names_of_takers = {function.spelling for function, _ in takers}
    for function, numbers in takers:
        identity = function.get_usr()
        functions[identity] = str(function.spelling)
        for number in numbers.values():
            parts[identity, number] = 0
        for call in library.descendants(function, (kinds.CALL_EXPR,)):
            access = _ACCESS.fullmatch(call.spelling)
            if not access and call.spelling not in names_of_takers:
                continue
            callee = call.referenced
            for position, argument in enumerate(call.get_arguments()):
                if not _is_image(argument):
                    continue
                place = (identity, _number_of(library, argument, numbers))
                if access:
                    parts[place] = parts.get(place, 0) | _BITS[access[1]]
                elif callee is not None:
                    uses.setdefault(place, set()).add((callee.get_usr(), position))

    if reduce(or_, parts.values(), 0) != sum(named):
        return {}
    reached = transitive_parts(parts, uses)
    return {
        (functions[identity], number): _NAMES[value]
        for (identity, number), value in reached.items()
        if value in _NAMES
    }


def _number_of(library: Libclang, argument: Any, numbers: Numbers) -> int:
    """Return the number of the parameter that an argument of a call is; -1 if it is none.

    An image is always a parameter, in parentheses or not.
    """
    references = library.descendants(argument, (library.cindex.CursorKind.DECL_REF_EXPR,))
    for each in (argument, *references):
        if each.spelling in numbers:
            return numbers[each.spelling]
    return -1


def _is_image(cursor: Any) -> bool:
    return bool(cursor.type.get_canonical().kind.name.startswith("OCLIMAGE"))
