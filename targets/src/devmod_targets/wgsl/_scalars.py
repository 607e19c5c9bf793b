"""The scalar types of WGSL, from which the rules for layouts, constants, suffixes and extensions follow.

A new scalar type is a line of `SCALARS`; if it requires a feature of the device, also a line of `FEATURES` in `_reflect`.
"""

from __future__ import annotations


class Scalar:
    """A scalar type of host-shareable memory.

    Attributes
    ----------
    name, dtype : str
        WGSL's name and devmod's.
    suffix : str
        The last letter of its numbers, vectors and matrices.
    size : int
        Its bytes.
    largest : float
        The largest value of a floating-point type; 0 for an integer.
    extension : str
        The extension that declares it; "" for a predeclared type.
    """

    __slots__ = ("dtype", "extension", "largest", "name", "size", "suffix")

    def __init__(self, name: str, dtype: str, suffix: str, *, largest: float = 0.0, extension: str = "") -> None:
        self.name, self.dtype, self.suffix, self.largest, self.extension = name, dtype, suffix, largest, extension
        self.size = int(name[1:]) // 8

    @property
    def names(self) -> list[str]:
        """Its name, and the short names of its vectors and matrices."""
        matrices = [f"mat{columns}x{rows}{self.suffix}" for columns in "234" for rows in "234"] if self.largest else []
        return [self.name, *(f"vec{lanes}{self.suffix}" for lanes in "234"), *matrices]


SCALARS = {
    scalar.name: scalar
    for scalar in (
        Scalar("i32", "int32", "i"),
        Scalar("u32", "uint32", "u"),
        Scalar("f32", "float32", "f", largest=3.4028234663852886e38),
        Scalar("f16", "float16", "h", largest=65504.0, extension="f16"),
    )
}
#: The types that WGSL does not support, to the suffixes of their numbers.
UNSUPPORTED = {"i64": "li", "u64": "lu", "f64": "lf"}

SUFFIXES = {scalar.suffix: name for name, scalar in SCALARS.items()}
FLOAT_SUFFIXES = "".join(scalar.suffix for scalar in SCALARS.values() if scalar.largest)
INTEGER_SUFFIXES = "".join(scalar.suffix for scalar in SCALARS.values() if not scalar.largest)
#: Integers with their bits, and floating-point types with their largest values. "int" and "float" are the abstract types.
INTEGERS = {"int": 64} | {name: 8 * scalar.size for name, scalar in SCALARS.items() if not scalar.largest}
FLOATS = {"float": 1.7976931348623157e308} | {name: scalar.largest for name, scalar in SCALARS.items() if scalar.largest}
#: The abstract types to the types that they convert to, in the order of preference.
CONVERSIONS = {"int": (*list(INTEGERS)[1:], *FLOATS), "float": tuple(FLOATS)[1:]}
#: The types of overrides.
OVERRIDES = {"bool": "bool"} | {name: scalar.dtype for name, scalar in SCALARS.items()}
#: The names that require an extension, to that extension.
EXTENSIONS = {name: scalar.extension for scalar in SCALARS.values() if scalar.extension for name in scalar.names}
