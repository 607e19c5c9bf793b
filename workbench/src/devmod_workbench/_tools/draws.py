"""Random values of arguments. Each draw has a word, which `devmod run` takes too.

docs/command-line.md has the values. An array depends on its name, the word, its shape and
its type alone.
"""

from __future__ import annotations

import re
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._device.host import NumPyArray, Shape

    NumPyType = np.dtype[Any]
else:
    from devmod.backend import np

#: The word of each draw, and the range of its floats.
RANGES = {
    "random": "0 to 1",
    "signed": "-8 to 8",
    "negative": "-8 to 0",
    "wide": "-1e5 to 1e5",
}
#: The draws of integers of their whole range. Normalized texels have each number as often.
_WHOLE = ("wide", "texels")
#: How much larger than those of `random` the values are, for the absolute tolerance.
SCALES = {"signed": 8, "negative": 8}
#: The integers of `random` are below this, so that they are indices of most arrays.
INTEGERS = 16
_SMALL = 8
#: The largest integers and floats of a draw; the least is -8.
_HIGHEST = {"signed": _SMALL, "negative": 0, "wide": _SMALL}
#: The largest floats of `wide` by the bytes of a float: their squares are finite. bfloat16 has
#: those of float32.
_LARGEST = {1: 4.0, 2: 100.0}
_WIDE = 1e5
#: Names of sizes, counts and indices. Their numbers are not negative, and their arrays stay in the
#: range of `random`.
_SIZE = re.compile(
    "num|size|count|len|width|height|depth|row|col|stride|pitch|batch|channel|dim|total|limit|step"
    "|iter|radius|window|block|tile|off|start|begin|end|first|last|ind[ei]|idx|shift|bit|order|axis"
    "|lane|group|head|seq|elem|item|point|level|perm|ptr|pos|map|label|seg|neigh|table|page|slot"
    r"|ids?$|^n[a-z]?$|^n_",
    re.IGNORECASE,
)
#: Names of scalars alone that are usually sizes.
_SIZE_LETTERS = re.compile(r"[nmkwhdlij]\d?", re.IGNORECASE)


class NotFromInterfaceError(Exception):
    """An argument cannot be made from the interface alone. The text is the reason."""


def is_size(name: str, *, is_scalar: bool) -> bool:
    """Return whether a name suggests a size, a count or an index."""
    if is_scalar and _SIZE_LETTERS.fullmatch(name):
        return True
    return _SIZE.search(name) is not None


def has_integers(dtype: NumPyType) -> bool:
    """Return whether elements are integers, or structs with one."""
    return any(each.dtype.kind in "iu" for each in parts_of(np.zeros((), dtype)))


def parts_of(array: NumPyArray) -> Iterator[NumPyArray]:
    """Yield views of an array's numbers: one for each member of structs, or the array itself."""
    if not array.dtype.names:
        yield array
        return
    for member in array.dtype.names:
        yield from parts_of(array[member])


def draw_of(name: str, dtype: NumPyType, word: str) -> str:
    """Return the draw of an array: integers whose name suggests indices have those of "random"."""
    if has_integers(dtype) and is_size(name, is_scalar=False):
        return "random"
    return word


def random_array(
    name: str, shape: Sequence[int], dtype: NumPyType, word: str = "random"
) -> NumPyArray:
    """Return an array of the values of a draw.

    Raises
    ------
    NotFromInterfaceError
        The elements are bytes of unknown meaning.
    """
    generator = np.random.default_rng(crc32(name.encode()))
    result = np.zeros(shape, dtype)
    for each in parts_of(result):
        each[...] = _random(generator, each.shape, each.dtype, word)
    return result


def _random(
    generator: np.random.Generator, shape: Shape, dtype: NumPyType, word: str
) -> NumPyArray:
    if dtype.type is np.void:
        raise NotFromInterfaceError(f"its elements are {dtype.itemsize} bytes of unknown meaning")
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return _integers(generator, shape, dtype, word)
    if word == "random":
        return generator.random(shape, np.float32).astype(dtype)
    return _floats(generator, shape, dtype, word)


def _integers(
    generator: np.random.Generator, shape: Shape, dtype: NumPyType, word: str
) -> NumPyArray:
    if word == "random" or (dtype.kind == "u" and word not in _WHOLE):
        return generator.integers(0, INTEGERS, shape).astype(dtype)
    if word not in _WHOLE:
        return generator.integers(-_SMALL, _HIGHEST[word], shape, endpoint=True).astype(dtype)

    limits = np.iinfo(dtype)
    result = generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if word == "texels":
        return result
    # A shift makes small numbers as frequent as large ones.
    result >>= generator.integers(0, 8 * dtype.itemsize, shape).astype(dtype)
    special = np.array([limits.min, limits.max, limits.max - 1, 0, 1], dtype)
    return np.where(generator.random(shape) < 1 / 8, generator.choice(special, shape), result)


def _floats(
    generator: np.random.Generator, shape: Shape, dtype: NumPyType, word: str
) -> NumPyArray:
    """Return floats with zeros and exact halves."""
    values = generator.uniform(-_SMALL, _HIGHEST[word], shape)
    halves = np.floor(values) + 0.5
    if word == "wide":
        largest = _WIDE
        if dtype.name != "bfloat16":
            largest = _LARGEST.get(dtype.itemsize, _WIDE)
        # Most have any order of magnitude, and others are near the largest.
        sizes = np.where(
            generator.random(shape) < 0.75, 10.0 ** generator.uniform(-10, 0, shape), 1.0
        )
        values = largest * sizes * generator.uniform(-1, 1, shape)
    choice = generator.random(shape)
    values = np.where(choice < 1 / 8, halves, values)
    return np.where(choice > 15 / 16, 0.0, values).astype(dtype)


def moved(array: NumPyArray, seed: int) -> NumPyArray:
    """Return an array whose floats are moved by one unit in the last place, up or down; a copy for
    the seed 0.

    Small multiples of 0.5 stay: most of them are exact, and a kernel that rounds changes there.
    """
    result = array.copy()
    for each in parts_of(result):
        is_float = each.dtype.kind == "f" or each.dtype.name == "bfloat16"
        if seed and is_float and each.dtype.itemsize > 1:
            each[...] = _moved(each, seed)
    return result


def _moved(array: NumPyArray, seed: int) -> NumPyArray:
    generator = np.random.default_rng(seed + array.size)
    is_away_from_zero = generator.integers(0, 2, array.shape, np.int8) ^ np.signbit(array)
    with np.errstate(all="ignore"):
        # A unit in the last place is 1 in the bits of each finite float but zero.
        bits = array.view(f"i{array.dtype.itemsize}") + (2 * is_away_from_zero - 1)
        double = array + array
        is_exact = (abs(array) <= _SMALL) & (double == np.rint(double))
    return np.where(is_exact | ~np.isfinite(array), array, bits.view(array.dtype))
