"""The scalar types of WGSL, from which the rules for layouts, constants, suffixes and extensions
follow.

A new scalar type is a line of `SCALARS`; if it requires a feature of the device, also a line of
`FEATURES` in core's `features.py`.
"""

from __future__ import annotations


class ScalarType:
    """A scalar type of host-shareable memory.

    Attributes
    ----------
    name, dtype : str
        WGSL's name and devmod's.
    suffix : str
        The last letter of its numbers, vectors and matrices.
    size : int
        Its bytes.
    struct_format : str
        The `struct` format of a floating-point type; "" for an integer.
    extension : str
        The extension that declares it; "" for a predeclared type.
    """

    def __init__(
        self, name: str, dtype: str, suffix: str, *, struct_format: str = "", extension: str = ""
    ) -> None:
        self.name, self.dtype, self.suffix, self.struct_format, self.extension = (
            name,
            dtype,
            suffix,
            struct_format,
            extension,
        )
        self.size = int(name[1:]) // 8

    @property
    def names(self) -> list[str]:
        """Its name, and the short names of its vectors and matrices."""
        matrices = (
            [f"mat{columns}x{rows}{self.suffix}" for columns in "234" for rows in "234"]
            if self.struct_format
            else []
        )
        return [self.name, *(f"vec{lanes}{self.suffix}" for lanes in "234"), *matrices]


SCALARS = {
    scalar.name: scalar
    for scalar in (
        ScalarType("i32", "int32", "i"),
        ScalarType("u32", "uint32", "u"),
        ScalarType("f32", "float32", "f", struct_format="<f"),
        ScalarType("f16", "float16", "h", struct_format="<e", extension="f16"),
    )
}
#: The types that WGSL does not support, to the suffixes of their numbers.
UNSUPPORTED = {"i64": "li", "u64": "lu", "f64": "lf"}

SUFFIXES = {scalar.suffix: name for name, scalar in SCALARS.items()}
FLOAT_SUFFIXES = "".join(scalar.suffix for scalar in SCALARS.values() if scalar.struct_format)
INTEGER_SUFFIXES = "".join(scalar.suffix for scalar in SCALARS.values() if not scalar.struct_format)
#: Integers with their bits, and floating-point types with their `struct` formats. "int" and "float"
#: are the abstract types.
INTEGERS = {"int": 64} | {
    name: 8 * scalar.size for name, scalar in SCALARS.items() if not scalar.struct_format
}
FLOATS = {"float": "<d"} | {
    name: scalar.struct_format for name, scalar in SCALARS.items() if scalar.struct_format
}
#: The abstract types to the types that they convert to, in the order of preference.
CONVERSIONS = {"int": (*list(INTEGERS)[1:], *FLOATS), "float": tuple(FLOATS)[1:]}
#: The types of overrides.
OVERRIDES = {"bool": "bool"} | {name: scalar.dtype for name, scalar in SCALARS.items()}
#: The names that require an extension, to that extension.
EXTENSIONS = {
    name: scalar.extension
    for scalar in SCALARS.values()
    if scalar.extension
    for name in scalar.names
}
