"""The scalar types of WGSL, from which the rules for layouts, constants, suffixes and extensions
follow.

A new scalar type is a line of `SCALARS`; if it requires a feature of the device, also a line of
`FEATURES` in core's `features.py`.
"""

from __future__ import annotations

from typing import NamedTuple

#: The types that WGSL does not support, to the suffixes of their numbers.
UNSUPPORTED = {"i64": "li", "u64": "lu", "f64": "lf"}


class ScalarType(NamedTuple):
    """A scalar type of host-shareable memory.

    Attributes
    ----------
    name, dtype : str
        WGSL's name and devmod's.
    suffix : str
        The last letter of its numbers, vectors and matrices.
    struct_format : str
        The `struct` format of a floating-point type; "" for an integer.
    extension : str
        The extension that declares it; "" for a predeclared type.
    """

    name: str
    dtype: str
    suffix: str
    struct_format: str = ""
    extension: str = ""

    @property
    def size(self) -> int:
        """Its bytes."""
        return int(self.name[1:]) // 8

    @property
    def names(self) -> list[str]:
        """Its name, and the short names of its vectors and matrices."""
        names = [self.name]
        names += [f"vec{lanes}{self.suffix}" for lanes in "234"]
        if self.struct_format:
            for columns in "234":
                names += [f"mat{columns}x{rows}{self.suffix}" for rows in "234"]
        return names


# Where to change: a scalar type of WGSL
#   also: `core/src/devmod/_values/features.py` (`FEATURES`), if the device needs a feature for it
#   tests: `tests/test_two_places.py`, `compilers/wgsl/tests/test_wgsl.py`
SCALARS = {
    scalar.name: scalar
    for scalar in (
        ScalarType("i32", "int32", "i"),
        ScalarType("u32", "uint32", "u"),
        ScalarType("f32", "float32", "f", "<f"),
        ScalarType("f16", "float16", "h", "<e", "f16"),
    )
}

SUFFIXES: dict[str, str] = {}
FLOAT_SUFFIXES = ""
INTEGER_SUFFIXES = ""
#: Integers with their bits, and floating-point types with their `struct` formats. "int" and "float"
#: are the abstract types.
INTEGERS = {"int": 64}
FLOATS = {"float": "<d"}
#: The types of overrides.
OVERRIDES = {"bool": "bool"}
#: The names that require an extension, to that extension.
EXTENSIONS: dict[str, str] = {}
for _scalar in SCALARS.values():
    SUFFIXES[_scalar.suffix] = _scalar.name
    OVERRIDES[_scalar.name] = _scalar.dtype
    if _scalar.struct_format:
        FLOAT_SUFFIXES += _scalar.suffix
        FLOATS[_scalar.name] = _scalar.struct_format
    else:
        INTEGER_SUFFIXES += _scalar.suffix
        INTEGERS[_scalar.name] = 8 * _scalar.size
    if _scalar.extension:
        EXTENSIONS |= dict.fromkeys(_scalar.names, _scalar.extension)
#: The abstract types to the types that they convert to, in the order of preference.
CONVERSIONS = {"int": (*list(INTEGERS)[1:], *FLOATS), "float": tuple(FLOATS)[1:]}
