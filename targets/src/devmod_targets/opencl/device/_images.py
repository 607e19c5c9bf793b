"""Write definitions of the functions of images in OpenCL C, for cuda. `headers/devmod_images.h` has the instructions."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_targets.opencl.device._names import Type

#: PTX's geometries by the type of an image, and the dimensions of a place.
GEOMETRIES = {"1d": ("1d", 1), "2d": ("2d", 2), "3d": ("3d", 3), "1d_array": ("a1d", 1), "2d_array": ("a2d", 2)}
#: A type of images in a mangled name.
_IMAGE = re.compile(r"ocl_image(?P<type>[123]d(?:_array)?)_(?P<access>ro|wo|rw)")
_ACCESS = re.compile(r"(?P<way>read|write)_image(?P<suffix>f|h|i|ui)")
_SAMPLER = "ocl_sampler"
#: The function that clang calls for a sampler in the source, with the bits CLK_….
SAMPLER_FUNCTION = "__translate_sampler_initializer"
_NUMBERS = {"f": "float", "h": "float", "i": "int", "ui": "uint"}
#: The functions that return a number of an image.
_FIELDS = {
    "get_image_width": "width",
    "get_image_height": "height",
    "get_image_depth": "depth",
    "get_image_array_size": "layers",
    "get_image_channel_data_type": "type",
    "get_image_channel_order": "order",
}
FUNCTIONS = sorted(
    (*(f"{way}_image{suffix}" for way in ("read", "write") for suffix in _NUMBERS), *_FIELDS, "get_image_dim"),
)
#: The bits of the sampler of a read without one: CLK_ADDRESS_CLAMP_TO_EDGE, nearest, in texels.
_NO_SAMPLER = "2"


def spelling(base: str) -> str:
    """Return the type in OpenCL C of an image or a sampler; "" for other types. LLVM has pointers for both."""
    return "devmod_image_ptr" if _IMAGE.fullmatch(base) else "constant void *" if base == _SAMPLER else ""


def image_body(name: str, params: Sequence[Type], result: Type) -> str | None:
    """Return the statements of a function of images; None if it is unknown."""
    image = _IMAGE.fullmatch(params[0].base) if params else None
    if image is None:
        return None
    geometry, dimensions = GEOMETRIES[image["type"]]
    if name in _FIELDS:
        return f"return DEVMOD_FIELD(a0, {_FIELDS[name]});"
    if name == "get_image_dim":
        rest = {4: ["DEVMOD_FIELD(a0, depth)", "0"]}.get(result.lanes, [])
        return f"return ({result.spelling})({', '.join(['DEVMOD_FIELD(a0, width)', 'DEVMOD_FIELD(a0, height)', *rest])});"
    access = _ACCESS.fullmatch(name)
    if not access or len(params) > 3:
        return None
    number = _NUMBERS[access["suffix"]]
    has_sampler = params[1].base == _SAMPLER
    coordinate = params[2 if has_sampler else 1]
    place = [f"a{2 if has_sampler else 1}{f'.{axis}' if coordinate.lanes > 1 else ''}" for axis in "xyz"]
    axes, layer = place[:dimensions], place[dimensions] if geometry.startswith("a") else "0"
    if access["way"] == "write":
        bits = "devmod_bits" if number == "float" else f"devmod_{number}_bits"
        words = ", ".join(f"{bits}(type, a2.{channel})" for channel in "xyzw")
        stored = f"devmod_packed(DEVMOD_FIELD(a0, bytes), (uint4)({words}))"
        return f"uint type = DEVMOD_FIELD(a0, type);\ndevmod_store_{geometry}(a0, {_texel(axes, layer, geometry)}, {stored});"
    lines = ["uint channels = DEVMOD_FIELD(a0, channels);"]
    if image["access"] == "rw":
        loaded = f"devmod_load_{geometry}(a0, {_texel(axes, layer, geometry)})"
        lines.append(f"uint type = DEVMOD_FIELD(a0, type);\nuint4 v = devmod_unpacked(DEVMOD_FIELD(a0, bytes), {loaded});")
        values = [f"devmod_{number}(type, v.{channel})" for channel in "xyzw"]
        values[1:3] = [f"channels > {index} ? {value} : 0" for index, value in zip((1, 2), values[1:3], strict=True)]
    else:
        is_whole = coordinate.base == "int"
        sampler = "(uint)(size_t)a1" if has_sampler else _NO_SAMPLER
        middle = [f"(float){each} + 0.5f" if is_whole else each for each in axes] + ["0"] * (3 - dimensions)
        level = (f"(uint)({layer} < 0 ? 0 : {layer})" if is_whole else f"devmod_layer({layer})") if geometry.startswith("a") else "0"
        lines.append(f"{number}4 v = devmod_sample_{geometry}_{number}(devmod_texture(a0, {sampler}), {', '.join(middle)}, {level});")
        values = [f"v.{channel}" for channel in "xyzw"]
    # An image without an alpha channel has the alpha 1, also outside.
    values[3] = f"channels < 4 ? 1 : {values[3]}"
    cast = "(half)" if result.base == "half" else ""
    # The result of the declaration has no sign.
    vector = f"({'half' if cast else number}4)({', '.join(f'{cast}({value})' for value in values)})"
    return "\n".join([*lines, f"return as_{result.spelling}({vector});"])


def _texel(axes: Sequence[str], layer: str, geometry: str) -> str:
    """Return the place of a texel in a surface. The layer is behind the other numbers."""
    numbers = [*axes, layer] if geometry.startswith("a") else [*axes]
    return ", ".join([*numbers, "0", "0"][:3])
