"""Slices and shapes of views: which part of an array's memory a view has."""

from __future__ import annotations

from devmod._arrays.elements import count_of
from devmod._values.conversion import describe_value
from devmod._values.dtypes import array_bytes, parse_dtype
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._arrays.array import Array


def slice_of(array: Array, key: object) -> tuple[int, tuple[int, ...]]:
    """Return the first byte and the shape of ``array[key]``.

    Raises
    ------
    ArgumentError
        `key` is not a contiguous slice within the first axis.
    """
    shape = array.shape
    if not shape:
        raise _index_error("an array without dimensions has no slices")
    if not isinstance(key, slice):
        hint = "; array[i:i+1] is the view of one element, and array.numpy()[i] its value" if _integer(key) is not None else ""
        raise _index_error(f"an array takes one slice of the first axis, such as array[2:5], not {_describe(key)}{hint}")
    if key.step is not None and _integer(key.step) != 1:
        raise _index_error(f"a slice of an array has no step, got {_describe(key.step)}; copy the elements: array.numpy()[start:stop:step]")
    length = shape[0]
    start, stop = _bound(key.start, 0, length, "begins"), _bound(key.stop, length, length, "ends")
    if start > stop:
        raise _index_error(f"the slice begins at {start} and ends before it, at {stop}")
    dtype, row = parse_dtype(array.dtype), shape[1:]
    first, count = start * count_of(row), (stop - start) * count_of(row)
    offset = array_bytes(dtype, (first,))
    if array_bytes(dtype, (first + count,)) != offset + array_bytes(dtype, (count,)) or first * dtype[1] * dtype[2] % 8:
        raise _index_error(f"the slice begins within a byte: elements of {array.dtype} are packed")
    return offset, (stop - start, *row)


def _bound(value: object, default: int, length: int, verb: str) -> int:
    if value is None:
        return default
    number = _integer(value)
    if number is None:
        raise _index_error(f"the bounds of a slice are integers, not {_describe(value)}")
    if number > length:
        raise _index_error(f"the slice {verb} at {number}, past the end of the first axis, which has {length}")
    if number < -length:
        raise _index_error(f"the slice {verb} at {number}, before the start of the first axis, which has {length}")
    return number + length if number < 0 else number


def shape_for(array: Array, lengths: tuple[object, ...]) -> tuple[int, ...]:
    """Return the shape that ``array.reshape(*lengths)`` requests.

    Raises
    ------
    ArgumentError
        It is not a shape, or has another number of elements.
    """
    if len(lengths) == 1 and isinstance(lengths[0], (tuple, list)):
        lengths = tuple(lengths[0])
    numbers = [_integer(each) for each in lengths]
    valid_lengths = [each for each in numbers if each is not None and each >= 0]
    unknown = numbers.count(-1)
    if unknown > 1 or len(valid_lengths) + unknown != len(numbers):
        raise ArgumentError(
            f"{lengths!r} is not a shape; a shape has lengths from 0 up, and at most one -1 for the length that follows from the others",
            argument="shape",
        )
    count = count_of(valid_lengths)
    shape = tuple(array.size // count if each == -1 and count else each for each in numbers)
    if -1 in shape or count_of(shape) != array.size:  # type: ignore[arg-type]  # none is None
        raise ArgumentError(
            f"an array of shape {array.shape} has {array.size} elements, which do not fill the shape {tuple(numbers)}", argument="shape"
        )
    return shape  # type: ignore[return-value]


def _integer(value: object) -> int | None:
    try:
        return value.__index__()  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, TypeError):
        return None


def _describe(value: object) -> str:
    return {tuple: "a tuple", type(Ellipsis): "an ellipsis"}.get(type(value)) or describe_value(value)


def _index_error(text: str) -> ArgumentError:
    return ArgumentError(text, argument="index")
