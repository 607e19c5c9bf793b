"""Keep LLVM from writing variables to PTX without the bytes between vectors of three elements.

LLVM 22 pads the members of a struct, and not the elements of an array. Such a vector takes the
memory of four elements.
"""

from __future__ import annotations

import re

_ARRAY_OF_THREE = re.compile(r"^[@%][^\n]* x <3 x ", re.MULTILINE)
_VARIABLE = re.compile(r"^@[^\n]*", re.MULTILINE)
_TYPE = re.compile(r"^(%[^\n]*) = type [^\n]*", re.MULTILINE)
#: A text, the name of a type, or a vector of three elements and its value.
_PART = re.compile(
    r'c"[^"]*"|(?P<name>%(?:[\w.$-]+|"[^"]*"))|<3 x (?P<type>\w+)>(?: <(?P<value>[^<>]*)>)?'
)


def with_padding(text: str) -> str:
    """Return LLVM IR with vectors of four elements in place of those of three, in variables that
    have arrays of them.
    """
    if not _ARRAY_OF_THREE.search(text):
        return text
    types = set(_TYPE.findall(text))

    def padded(match: re.Match[str]) -> str:
        type_, value = match["type"], match["value"]
        if match["name"] in types:
            own = match["name"][1:].strip('"')
            return f'%"{own}.padded"'
        if type_ is None:
            return match[0]
        if value is None:
            return f"<4 x {type_}>"
        return f"<4 x {type_}> <{value}, {type_} zeroinitializer>"

    # The code keeps the types, since it has values of them, and each statement keeps its line.
    text = _TYPE.sub(lambda type_: f"{type_[0]} {_PART.sub(padded, type_[0])}", text)
    return _VARIABLE.sub(lambda variable: _PART.sub(padded, variable[0]), text)
