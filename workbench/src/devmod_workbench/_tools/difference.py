"""The comparison of a kernel's arrays with expected ones, for `devmod run`, `devmod.verify` and
`devmod.testing`.
"""

from __future__ import annotations

from typing import NamedTuple

from devmod.backend import describe_value
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._device.host import NumPyArray, Shape
    from devmod_workbench._tools.draws import NumPyType
else:
    from devmod.backend import np

#: The relative tolerance of verify by the bytes of a float: a sum in another order passes, a result
#: that went through a smaller type fails.
_RTOL = {8: 1e-10, 4: 2e-5, 2: 1e-2, 1: 0.25}
_RTOL_BFLOAT16 = 5e-2


class Difference(NamedTuple):
    """The worst error of an array.

    Attributes
    ----------
    error
        The absolute difference of the two values: nan if one of them is no number.
    place
        Its index.
    value, expected
        The two values.
    is_error
        Whether it is more than the tolerance.
    shape
        The shape of the array.
    """

    error: float
    place: Shape
    value: Any
    expected: Any
    is_error: bool
    shape: Shape = ()

    @property
    def subscript(self) -> str:
        """The index as text, such as ``[3, 4]``."""
        return f"[{', '.join(map(str, self.place))}]"


def default_rtol(array: NumPyArray, expected: NumPyArray) -> float:
    """Return the tolerance for two arrays by the less exact of their types."""
    return max(_rtol_of(array.dtype), _rtol_of(expected.dtype))


def _rtol_of(dtype: NumPyType) -> float:
    if dtype.kind in "biu":
        return 0.0
    if dtype.name == "bfloat16":
        return _RTOL_BFLOAT16
    size = dtype.itemsize
    if dtype.kind == "c":
        size //= 2
    return _RTOL.get(size, _RTOL[8])


def worst_difference(
    name: str,
    array: NumPyArray,
    expected: NumPyArray,
    rtol: float | None,
    atol: float | None,
    moved: Sequence[NumPyArray] = (),
    *,
    is_finite: bool = False,
) -> Difference:
    """Return the element that exceeds the tolerance ``atol + rtol * abs(expected)`` most; without
    one, that of the largest error.

    None is the tolerance of the type: `default_rtol`, and for `atol` the same number. Integers have
    no relative tolerance. `moved` are expected arrays for inputs that are moved by one unit in the
    last place: 16 times their change is allowed too. With `is_finite`, elements are judged whose
    expected value is finite.

    Raises
    ------
    ArgumentError
        The arrays have other numbers of elements, or structs of other types.
    """
    is_flat = 1 in (array.ndim, expected.ndim)
    if array.size != expected.size or (array.shape != expected.shape and not is_flat):
        raise ArgumentError(
            f"{name} has the shape {array.shape}, and the expected array {expected.shape}",
            argument=name,
        )
    expected = expected.reshape(array.shape)
    if not array.size:
        return Difference(0.0, (), None, None, False)
    if array.dtype.names != expected.dtype.names:
        raise ArgumentError(
            f"{name} is of {array.dtype}, and the expected array of {expected.dtype}",
            argument=name,
        )
    if array.dtype.names:
        differences = []
        for each in array.dtype.names:
            others = [other[each] for other in moved]
            differences.append(
                worst_difference(
                    f"{name}.{each}",
                    array[each],
                    expected[each],
                    rtol,
                    atol,
                    others,
                    is_finite=is_finite,
                )
            )
        return max(differences, key=lambda each: (each.is_error, each.error))

    if array.dtype.kind in "biu" and expected.dtype.kind in "biu":
        rtol = 0.0
    elif rtol is None:
        rtol = default_rtol(array, expected)
    if atol is None:
        atol = rtol
    with np.errstate(invalid="ignore"):
        # Most elements are equal, and those of other types may be so after rounding alone.
        places = np.flatnonzero((array != expected) | (array.dtype != expected.dtype))
        left, right, *others = [each.reshape(-1)[places] for each in (array, expected, *moved)]
        error, allowed = errors_and_allowed(left, right, rtol, atol)
        change = _change(right, others, is_finite=is_finite)
        error[change == np.inf] = 0
        excess = error - allowed - 16 * change
    if not error.any():
        return worst_element(array, expected, 0, 0, is_error=False)
    excess[np.isnan(excess)] = np.inf
    worst = np.argmax(excess)
    is_error = bool(excess[worst] > 0)
    if not is_error:
        worst = np.argmax(error)
    return worst_element(array, expected, places[worst], error[worst], is_error=is_error)


def _change(expected: NumPyArray, moved: Sequence[NumPyArray], *, is_finite: bool) -> NumPyArray:
    """Return how much each element differs for inputs that are moved; infinity for one that is not
    judged.
    """
    change = np.zeros(expected.shape)
    for each in moved:
        other, _ = errors_and_allowed(each, expected, 0, 0)
        change = np.maximum(change, np.where(np.isnan(other), np.inf, other))
    if is_finite and expected.dtype.kind not in "biu":
        change = np.where(np.isfinite(expected), change, np.inf)
    return change


def errors_and_allowed(
    array: NumPyArray, expected: NumPyArray, rtol: float, atol: float
) -> tuple[NumPyArray, NumPyArray]:
    """Return the absolute error of each element, which is nan if one value of two is no number, and
    the tolerance for it.
    """
    # Integers of 64 bits as objects: neither they nor the difference of int64 and uint64 have a
    # type without rounding.
    kinds = {array.dtype.kind, expected.dtype.kind}
    exact = kinds <= {"b", "i", "u"} and 8 in (array.dtype.itemsize, expected.dtype.itemsize)
    wide: Any = float
    if exact:
        wide = object
    elif "c" in kinds:
        wide = complex
    # A signalling nan, such as memory that no kernel wrote, makes the conversion itself warn.
    with np.errstate(all="ignore"):
        left = array.astype(wide)
        right = expected.astype(wide)
        error = np.asarray(np.where(left == right, 0, abs(left - right)), float)
        allowed = np.array(atol + rtol * abs(right), float)
        if not exact:
            error[np.isnan(left) & np.isnan(right)] = 0
        allowed[~np.isfinite(allowed)] = atol
    return error, allowed


def worst_element(
    array: NumPyArray, expected: NumPyArray, index: int, error: float, *, is_error: bool
) -> Difference:
    """Return the difference of the element with an index in the flat array."""
    place = tuple(map(int, np.unravel_index(index, array.shape)))
    value = _number(array[place])
    return Difference(float(error), place, value, _number(expected[place]), is_error, array.shape)


def _number(value: Any) -> Any:
    if value.dtype.type is np.void:
        return describe_value(value)
    return value.tolist()
