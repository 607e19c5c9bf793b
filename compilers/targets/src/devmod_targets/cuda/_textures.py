"""Find how kernels use their texture and surface objects: from the types in the source, and from
the instructions in the PTX.

A parameter of type cudaTextureObject_t becomes an image and its sampler, and one of type
cudaSurfaceObject_t an image. The instructions have the dimensions and the type of the results, also
where an inlined function reads the texture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from devmod import Param

TEXTURE = "cudaTextureObject_t"
SURFACE = "cudaSurfaceObject_t"
#: The types of images by PTX's geometry.
_GEOMETRIES = {"1d": "1d", "2d": "2d", "3d": "3d", "a1d": "1d_array", "a2d": "2d_array"}
_SAMPLES = {"f32": "float", "f16": "float", "f16x2": "float", "s32": "int", "u32": "uint"}
_ACCESS = {"suld": "r", "sust": "w"}
_OPCODES = ("tex", "tld4", "suld", "sust", "sured")
#: The most typedefs of one type that are followed.
_MAX_TYPEDEFS = 16
#: What PTX has about objects: the start of a function, the load of a parameter, a move, and the
#: access of an object.
_TOKEN = re.compile(
    r"\.(?:entry|func)\b|"
    r"\bld\.param\.[bu]64\s+(?P<target>%\w+),\s*\[(?P<param>[\w$]+)\];|"
    r"\bmov\.[bu]64\s+(?P<copy>%\w+),\s*(?P<of>%\w+);|"
    rf"\b(?P<opcode>(?:{'|'.join(_OPCODES)})\.[\w.:]+)\s[^;\[]*\[(?P<object>%\w+),"
)


class ObjectUse(NamedTuple):
    """How a kernel uses the object of a parameter.

    Attributes
    ----------
    types, samples, access : set of str
        The types of the images, the types of the results of textures ("float", "int", "uint"), and
        "r" and "w" for surfaces.
    is_supported : bool
        Whether an image has all these types: a cube map and a texture of linear memory (tex1Dfetch)
        are no images.
    """

    types: set[str]
    samples: set[str]
    access: set[str]
    is_supported: bool = True


def object_uses(ptx: str) -> dict[str, ObjectUse]:
    """Return the uses of the parameters of all kernels of a PTX text, by the name of the
    parameter.
    """
    uses: dict[str, ObjectUse] = {}
    if not any(f"\t{word}." in ptx or f" {word}." in ptx for word in _OPCODES):
        return uses
    registers: dict[str, str] = {}
    for token in _TOKEN.finditer(ptx):
        if token["param"]:
            registers[token["target"]] = token["param"]
        elif token["copy"]:
            if token["of"] in registers:
                registers[token["copy"]] = registers[token["of"]]
        elif not token["opcode"]:
            registers.clear()
        elif token["object"] in registers:
            param = registers[token["object"]]
            use = uses.get(param) or ObjectUse(set(), set(), set())
            uses[param] = _with_access(use, token["opcode"].split("."))
    return uses


def _with_access(use: ObjectUse, parts: list[str]) -> ObjectUse:
    type_ = next((_GEOMETRIES[part] for part in parts if part in _GEOMETRIES), "")
    is_texture = parts[0] in ("tex", "tld4")
    use.types.add(type_)
    if is_texture:
        use.samples.add(_SAMPLES.get(parts[-2], ""))
    else:
        use.access.update(_ACCESS.get(parts[0], "rw"))
    # An integer coordinate is that of tex1Dfetch.
    if not type_ or (is_texture and parts[-1] == "s32"):
        return use._replace(is_supported=False)
    return use


def object_type(type_: Any) -> str:
    """Return CUDA's name for a texture or a surface object, if a clang.cindex.Type is one, also by
    another typedef; "" otherwise.
    """
    for _ in range(_MAX_TYPEDEFS):
        declaration = type_.get_declaration()
        if declaration.kind.name not in ("TYPEDEF_DECL", "TYPE_ALIAS_DECL"):
            return ""
        if declaration.spelling in (TEXTURE, SURFACE):
            return str(declaration.spelling)
        type_ = declaration.underlying_typedef_type
    return ""


def object_params(
    name: str, number: int, object_name: str, use: ObjectUse | None
) -> list[Param] | None:
    """Return the params of an object; None if no image can be the object.

    Parameters
    ----------
    name, number
        The name of the parameter, and its number among the kernel's.
    object_name
        `TEXTURE` or `SURFACE`.
    use
        Its use in the PTX; None if that is unknown.
    """
    use = use or ObjectUse(set(), set(), set())
    if not use.is_supported:
        return None
    type_ = _single(use.types)
    if object_name == SURFACE:
        access = "".join(letter for letter in "rw" if letter in use.access)
        return [Param(name, "image", type_, access or "rw", number)]
    image = Param(name, "image", type_, "r", number, sample=_single(use.samples))
    if name:
        name = f"{name}_sampler"
    return [image, Param(name, "sampler", at=number)]


def _single(values: set[str]) -> str:
    """Return the only value; "" for several ones and for none."""
    if len(values) == 1:
        return next(iter(values))
    return ""


def use_of(uses: Mapping[str, ObjectUse], symbol: str, number: int) -> ObjectUse | None:
    """Return the use of a kernel's parameter."""
    return uses.get(f"{symbol}_param_{number}")
