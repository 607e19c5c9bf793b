"""Operators of ONNX along lengths that each call chooses, which tinygrad's do not take."""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.helpers import flat_to_grouped, make_tuple
from tinygrad.nn.onnx import onnx_ops
from tinygrad.uop.ops import Ops, UOp, smax, ssimplify

from devmod.errors import ArgumentError, CompileError
from devmod_models._patched import patched
from devmod_models._tinygrad.record import are_fixed, expression, largest, polynomial
from devmod_models.onnx import FIXED_LENGTH

__all__ = [
    "arg_max",
    "arg_min",
    "ceil_pads",
    "concat",
    "cum_sum",
    "gather",
    "gather_nd",
    "largest_of_windows",
    "length_text",
    "pool",
    "reshape",
    "same_pads",
    "scatter_nd",
    "slice_of",
    "taken",
]

_own_max_pool = Tensor.max_pool2d
_own_pool = Tensor._pool
_own_ceil_pads = Tensor._apply_ceil_mode


def slice_of(data: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    """tinygrad's has no steps along a length of a call, and takes an end beyond it for the largest
    length.
    """
    axes = axes or range(len(starts))
    steps = steps or [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        length = data.shape[axis]
        if are_fixed((start, end, length)):
            if step == 1 or are_fixed(data.shape):
                data = onnx_ops["Slice"](data, [start], [end], [axis], [step])
            else:
                data = _each(data, axis, range(length)[start:end:step])
            continue
        if step < 0:
            data = data.flip(axis)
            start, end = _mirrored(start, length), _mirrored(end, length)
            step = -step
        first = _within(start, length)
        last = _largest_of(_within(end, length), first)
        bounds: list[Any] = [None] * data.ndim
        bounds[axis] = (first, last)
        data = data.shrink(tuple(bounds))
        if step > 1:
            data = pool(data.transpose(axis, -1), (1,), step).squeeze(-1).transpose(axis, -1)
    return data


def _each(data: Tensor, axis: int, places: range) -> Tensor:
    """Return the elements at places along an axis of a fixed length, where another one is open."""
    if places.step < 0:
        data = data.flip(axis)
        last = data.shape[axis] - 1
        places = range(last - places.start, last - places.stop, -places.step)
    bounds: list[Any] = [None] * data.ndim
    bounds[axis] = (places.start, max(places.start, places.stop))
    data = data.shrink(tuple(bounds)).transpose(axis, -1)
    return pool(data, (1,), places.step).squeeze(-1).transpose(axis, -1)


def _mirrored(bound: Any, length: Any) -> Any:
    """Return a bound of a slice for the elements in the reverse order."""
    if isinstance(bound, int):  # a negative bound counts from the other end
        return -1 - bound
    return length - 1 - bound


def _within(bound: Any, length: Any) -> Any:
    """Return a bound of a slice as a number from 0 to a length. Any may be one of a call."""
    if isinstance(bound, int) and bound < 0:
        bound = bound + length
    inner = _largest_of(bound, 0)
    if largest(ssimplify(_most(inner) - length)) <= 0:
        return inner
    # tinygrad's minimum has bits, which no expression of a program has.
    return ssimplify(inner - _largest_of(inner - length, 0))


def _most(number: Any) -> Any:
    """Return what a number from 0 on is at most: of a quotient, and of a multiple of one that is no
    larger than the divisor, what is divided.
    """
    factor = 1
    quotient = number
    if isinstance(number, UOp) and number.op is Ops.MUL and number.src[1].op is Ops.CONST:
        quotient = number.src[0]
        factor = int(number.src[1].val)
    if not isinstance(quotient, UOp) or quotient.op not in (Ops.CDIV, Ops.FLOORDIV):
        return number
    dividend, divisor = quotient.src
    if divisor.vmin > 0 and dividend.vmin >= 0 and 1 <= factor <= divisor.vmin:
        return dividend
    return number


def _largest_of(one: Any, two: Any) -> Any:
    """Return the larger number; of those of calls, an expression if it is not always the same."""
    difference = ssimplify(one - two)
    if getattr(difference, "vmin", difference) >= 0:
        return one
    if getattr(difference, "vmax", difference) <= 0:
        return two
    return ssimplify(two + smax(difference, 0))


def pool(self: Tensor, kernel: Any, stride: Any = 1, dilation: Any = 1) -> Tensor:
    """Return the windows of the last axes as `Tensor._pool` does. That computes how often it
    repeats an axis, which for a length of a call no rule of tinygrad simplifies.

    With as many more elements at its end as a window spans, one repeat more than the kernel's
    length has a window for each place, as its rows are shifted by the dilation.
    """
    count = len(kernel)
    lengths = self.shape[-count:]
    if are_fixed(lengths):
        return _own_pool(self, kernel, stride, dilation)
    steps = make_tuple(stride, count)
    gaps = make_tuple(dilation, count)
    lengths = [*map(_plain, lengths)]
    rest = [None] * (self.ndim - count)
    places: list[Any] = []
    sides: list[Any] = []
    more: list[Any] = []
    for length, size, step, gap in zip(lengths, kernel, steps, gaps, strict=True):
        windows = ssimplify((length - gap * (size - 1) + step - 1) // step)
        if getattr(windows, "vmin", windows) < 1:
            span = gap * (size - 1) + 1
            least = getattr(length, "vmin", length)
            if least < 1:  # a bound of a computed length, which it may not reach
                raise CompileError(
                    f"a window of {span} elements may be wider than a length that is computed from those of a call; a fixed length may do",
                    argument=FIXED_LENGTH,
                )
            raise CompileError(
                f"a window of {span} elements is wider than {least}, the least length that a call chooses"
            )
        places.append(windows)
        more.append((0, size * gap + step))
        sides.append(length + size * gap + step)
    x = self.pad((*rest, *more))
    x = x.repeat([1] * len(rest) + [each + 1 for each in kernel])
    rows = [(size, side + gap) for size, side, gap in zip(kernel, sides, gaps, strict=True)]
    x = x.shrink_to([*rest, *[size * width for size, width in rows]])
    x = x.reshape([*rest, *chain(*rows)])
    stepped = [*zip(kernel, places, steps, strict=True)]
    x = x.shrink_to([*rest, *chain(*[(size, own * step) for size, own, step in stepped])])
    x = x.reshape([*rest, *chain(*stepped)])
    x = x.shrink_to([*rest, *chain(*[(size, own, 1) for size, own, _ in stepped])])
    x = x.reshape([*rest, *chain(*[(size, own) for size, own, _ in stepped])])
    first = len(rest)
    order = [*range(first), *range(first + 1, x.ndim, 2), *range(first, x.ndim, 2)]
    return x.permute(order)


def _plain(length: Any) -> Any:
    """Return a length whose remainders are differences, so that those of its padding cancel."""
    if isinstance(length, int):
        return length
    remainders = {}
    for each in length.toposort():
        if each.op in (Ops.FLOORMOD, Ops.CMOD):
            whole, divisor = each.src
            remainders[each] = whole - whole // divisor * divisor
    if not remainders:
        return length
    result: Any = 0
    for factors, number in polynomial(length.substitute(remainders)).items():
        result = result + prod(factors) * number
    return ssimplify(result)


def ceil_pads(
    self: Tensor, pads: Any, kernel: Any, stride: Any = 1, dilation: Any = 1
) -> list[Any]:
    """Return padding with which windows cover all elements, as tinygrad's does, whose bounds of
    lengths that a call chooses are too wide.
    """
    count = len(kernel)
    lengths = self.shape[-count:]
    if are_fixed(lengths):
        return _own_ceil_pads(self, pads, kernel, stride, dilation)  # type: ignore[no-any-return]
    result = []
    steps = make_tuple(stride, count)
    gaps = make_tuple(dilation, count)
    rows = zip(lengths, kernel, steps, gaps, flat_to_grouped(pads), strict=True)
    for length, size, step, gap, (before, after) in rows:
        span = gap * (size - 1) + 1
        # No window begins behind the elements.
        more = min(after + step - span, 0)
        last = (length + (before + more - 1)) // step
        result.append((before, ssimplify(last * step - length + (span - before))))
    return [each for pair in reversed(result) for each in pair]


def same_pads(sides: Any, kernel: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a node with pads in the place of auto_pad, by which it has a window for
    each step of an axis. tinygrad's forget gaps, and crop an axis whose steps are wider than a
    window.
    """
    count = len(sides)
    own = dict(options)
    mode = own.pop("auto_pad")
    if "ceil_mode" in own:
        own["ceil_mode"] = 0
    pads = []
    steps = make_tuple(options.get("strides") or 1, count)
    gaps = make_tuple(options.get("dilations") or 1, count)
    for length, size, step, gap in zip(sides, kernel, steps, gaps, strict=True):
        # The last window begins so many elements before the end.
        rest = (length + step - 1) % step + 1
        excess = smax(gap * (size - 1) + 1 - rest, 0)
        before = (excess + (mode == "SAME_LOWER")) // 2
        after = excess - before
        if not isinstance(length, int) and step > 1:
            # No window has these: with them, each has an end, and their number is a simple one.
            after = gap * (size - 1) + step - rest - before
        pads.append((ssimplify(before), ssimplify(after)))
    own["pads"] = [each for pair in zip(*pads, strict=True) for each in pair]
    return own


def cum_sum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """tinygrad's has no lengths of a call: there each sum is one of all elements, of which those of
    other positions are 0.
    """
    at = int(_first(axis))
    length = x.shape[at]
    if isinstance(length, int):
        return onnx_ops["CumSum"](x, at, exclusive=exclusive, reverse=reverse)
    position = Tensor.arange(length)
    distance = position.unsqueeze(1) - position
    if reverse:
        distance = -distance
    own = x.transpose(at, -1).unsqueeze(-2)
    is_summed = distance >= exclusive
    return is_summed.where(own, 0).sum(-1, dtype=x.dtype).transpose(at, -1)


def _first(value: Any) -> Any:
    """Return a number, or the first one of a list."""
    if isinstance(value, (list, tuple)):
        return value[0]
    return value


def largest_of_windows(x: Tensor, **options: Any) -> Tensor:
    """Return what MaxPool gives without indices."""

    def without_indices(x: Tensor, *inputs: Any, **named: Any) -> Any:
        return _own_max_pool(x, *inputs, **named | {"return_indices": False}), x

    with patched(Tensor, "max_pool2d", without_indices):
        values, _ = onnx_ops["MaxPool"](x, **options)
    return values


def gather(x: Tensor, indices: Any, axis: int = 0) -> Tensor:
    """tinygrad's has a fixed length along the axis."""
    at = axis % x.ndim
    if isinstance(x.shape[at], int) or not isinstance(indices, Tensor):
        return onnx_ops["Gather"](x, indices, axis)
    return taken(x, indices, at)


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """tinygrad's has fixed lengths along the axes that it reads."""
    count = indices.shape[-1]
    sides = x.shape[:count]
    if batch_dims or are_fixed(sides):
        return onnx_ops["GatherND"](x, indices, batch_dims)
    return taken(x.reshape(prod(sides), *x.shape[count:]), _flat_places(indices, sides), 0)


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """tinygrad's assigns its first input, which others may use, one index after the other. Where a
    call chooses lengths, numbers are added alone: each sum is one of all updates, of which those of
    other places are 0.
    """
    count = indices.shape[-1]
    sides = x.shape[:count]
    if are_fixed((*sides, *indices.shape)):
        return onnx_ops["ScatterND"](x.clone(), indices, updates, reduction)
    if reduction != "add":
        raise CompileError(
            f"its reduction is {reduction!r} along a length that each call chooses, where only 'add' is possible; "
            "a fixed length may do",
            argument=FIXED_LENGTH,
        )
    rest = x.shape[count:]
    places = _flat_places(indices, sides)
    rows = updates.reshape(1, prod(places.shape), *rest)
    is_place = Tensor.arange(prod(sides)).unsqueeze(1) == places.reshape(1, prod(places.shape))
    is_place = is_place.reshape(*is_place.shape, *[1] * len(rest))
    sums = is_place.where(rows, 0).sum(1, dtype=x.dtype)
    return x + sums.reshape(x.shape)


def concat(*inputs: Tensor, axis: int) -> Tensor:
    """tinygrad's has an assertion without words for lengths that differ."""
    first, *others = inputs
    for number, each in enumerate(others, 1):
        for own, (one, two) in enumerate(zip(first.shape, each.shape, strict=False)):
            if own == axis % first.ndim or _is_equal(one, two):
                continue
            lengths = f"{length_text(one)} and {length_text(two)}"
            text = f"its inputs 0 and {number} have the lengths {lengths} along axis {own}: expected the same"
            if are_fixed((one, two)):
                raise CompileError(text)
            raise CompileError(
                f"{text} for each call. Crop or pad one to the Shape of the other, or choose multiples; a fixed length may do",
                argument=FIXED_LENGTH,
            )
    return onnx_ops["Concat"](*inputs, axis=axis)


def length_text(length: Any) -> Any:
    """Return a length for a person."""
    try:
        return expression(length)
    except ArgumentError:
        return "another one"


def _flat_places(indices: Tensor, sides: Any) -> Tensor:
    """Return the places of indices of several axes, if these are one."""
    places = Tensor(0, dtype=indices.dtype)
    for axis, side in enumerate(sides):
        own = indices[..., axis]
        places = places * side + (own < 0).where(own + side, own)
    return places


def taken(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return the elements at places along an axis: sums in which those of the others are 0."""
    length = x.shape[axis]
    places = (indices < 0).where(indices + length, indices)
    is_taken = places.unsqueeze(-1) == Tensor.arange(length)
    last = x.ndim - 1
    order = [*range(axis), *range(axis + 1, x.ndim), axis]
    rows = x.permute(order)
    dtype = x.dtype
    if dtype == dtypes.bool:
        rows = rows.cast(dtypes.int32)
    rows = rows.reshape(*rows.shape[:last], *[1] * indices.ndim, length)
    result = is_taken.where(rows, 0).sum(-1, dtype=rows.dtype).cast(dtype)
    before = [*range(axis)]
    new = [*range(last, last + indices.ndim)]
    return result.permute([*before, *new, *range(axis, last)])


def reshape(data: Tensor, shape: Any, allowzero: int = 0) -> Tensor:
    """tinygrad's divides products of lengths where a length is open (-1), and simplifies few."""
    sides = []
    for axis, side in enumerate(shape):
        is_kept = isinstance(side, int) and side == 0 and not allowzero
        sides.append(data.shape[axis] if is_kept else side)
    opens = [axis for axis, side in enumerate(sides) if isinstance(side, int) and side == -1]
    if len(opens) == 1 and not are_fixed((*data.shape, *sides)):
        others = [each for axis, each in enumerate(sides) if axis != opens[0]]
        sides[opens[0]] = _rest_of(data.shape, others)
    return data.reshape(sides)


def _rest_of(sides: Any, others: Any) -> Any:
    """Return the product of lengths, divided by others. Those that are equal cancel out."""
    rest = [*sides]
    divisor = 1
    for other in others:
        equal = [axis for axis, side in enumerate(rest) if _is_equal(side, other)]
        if equal:
            del rest[equal[0]]
        else:
            divisor = divisor * other
    return ssimplify(prod(rest) // divisor)


def _is_equal(one: Any, two: Any) -> bool:
    if isinstance(one, int) or isinstance(two, int):
        return isinstance(one, int) and isinstance(two, int) and one == two
    return polynomial(one) == polynomial(two)


def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """tinygrad's has a fixed length along the axis."""
    if isinstance(x.shape[axis], int):
        options = {"axis": axis, "keepdims": keepdims, "select_last_index": select_last_index}
        return onnx_ops["ArgMax"](x, **options)
    length = x.shape[axis]
    sides = [1] * x.ndim
    sides[axis] = length
    positions = Tensor.arange(length).reshape(sides)
    is_largest = x == x.max(axis, keepdim=True)
    if select_last_index:
        places = is_largest.where(positions, 0).max(axis, keepdim=bool(keepdims))
    else:
        places = is_largest.where(positions, largest(length)).min(axis, keepdim=bool(keepdims))
    return places.cast(dtypes.int64)


def arg_min(x: Tensor, **options: int) -> Tensor:
    """tinygrad's has a fixed length along the axis."""
    if isinstance(x.shape[options.get("axis", 0)], int):
        return onnx_ops["ArgMin"](x, **options)
    return arg_max(-x, **options)
