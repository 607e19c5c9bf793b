"""Ranges of a length, each with kernels of its own, in one program.

The calls of each range are a repeat of one turn, or of none for a call with a length of another
range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devmod_models._tinygrad.record import Array, Calls, Recording, Repeat, expression, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tinygrad.uop.ops import UOp

    from devmod_models._buckets import Bucket, Buckets

__all__ = ["join"]


def join(
    recordings: Sequence[Recording],
    buckets: Buckets,
    variable: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> Recording:
    """Return the recording of all ranges. Those of each have the same names.

    Parameters
    ----------
    variable
        The name of the length in the program.
    inputs, outputs
        Tensors with the shapes of all ranges.
    """
    last = recordings[-1]
    names = last.names
    calls: Calls = []
    held = dict(last.held)
    for bucket, each in zip(buckets.ranges, recordings, strict=True):
        changed = _same_buffers(each, last)
        names.update(each.names)
        label = f"{variable}_{bucket.low}"
        if bucket.low < bucket.high:
            label += f"_to_{bucket.high}"
        turn = names.take(label)
        turns = _turns(variable, bucket, buckets.ranges)
        calls.append(Repeat(turns, turn, replaced(each.calls, changed)))
        held = {**each.held, **held}
    return last._replace(
        calls=calls,
        inputs=_with_shapes(last.inputs, inputs),
        outputs=_with_shapes(last.outputs, outputs),
        held=held,
        states=set[Any]().union(*[each.states for each in recordings]),
        fixed=set[Any]().union(*[each.fixed for each in recordings]),
    )


def _same_buffers(own: Recording, last: Recording) -> Callable[[UOp], Sequence[UOp]]:
    """Return a function that gives a call the buffers of the inputs and outputs of the last range,
    which are the largest.
    """
    buffers: dict[UOp, UOp] = {}
    rows = zip((*own.inputs, *own.outputs), (*last.inputs, *last.outputs), strict=True)
    for one, two in rows:
        buffers[one.buffer] = two.buffer

    def with_buffers(call: UOp) -> list[UOp]:
        tree, *others = call.src
        return [call.replace(src=(tree, *[buffers.get(each, each) for each in others]))]

    return with_buffers


def _turns(variable: str, bucket: Bucket, ranges: Sequence[Bucket]) -> str:
    """Return the expression that is 1 for a length within a range of several, and 0 for others."""
    begins = "1"
    if bucket != ranges[0]:
        begins = f"min(1, {variable} // {bucket.low})"
    if bucket == ranges[-1]:
        return begins
    return f"{begins} - min(1, {variable} // {bucket.high + 1})"


def _with_shapes(arrays: Iterable[Array], tensors: Mapping[str, Any]) -> list[Array]:
    """Return arrays with the shapes of tensors."""
    result = []
    for array, each in zip(arrays, tensors.values(), strict=True):
        result.append(array._replace(shape=tuple(map(expression, each.shape))))
    return result
