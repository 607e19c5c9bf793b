"""Ranges of a length that each call chooses, each with kernels of its own.

Importing this imports no tinygrad.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod.errors import ArgumentError, did_you_mean, list_names
from devmod_models.onnx import SMALLER_LENGTHS, Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from devmod_models.onnx import Model

__all__ = ["Bucket", "Buckets", "read_buckets"]


class Bucket(NamedTuple):
    """A range of a length, both ends included."""

    low: int
    high: int


class Buckets(NamedTuple):
    """The name of a length in the model, and its ranges in ascending order."""

    name: str
    ranges: tuple[Bucket, ...]

    def bucket_of(self, length: int) -> Bucket:
        """Return the range that has a length."""
        return next(each for each in self.ranges if length <= each.high)

    def model_of(self, model: Model, bucket: Bucket) -> Model:
        """Return a model whose length is within a range. One that has a single length is fixed."""
        inputs = {}
        for name, (dtype, shape) in model.inputs.items():
            inputs[name] = (dtype, tuple([self._side(side, bucket) for side in shape]))
        return model._replace(inputs=inputs)

    def _side(self, side: Any, bucket: Bucket) -> int | Range:
        own: int | Range = side
        if isinstance(side, Range) and side.name == self.name:
            own = side._replace(low=bucket.low, high=bucket.high)
            if bucket.low == bucket.high:
                own = bucket.low
        return own

    @property
    def text(self) -> str:
        """What each range has, for a person."""
        texts = []
        for low, high in self.ranges:
            texts.append(str(low) if low == high else f"{low} to {high}")
        return f"{self.name} has kernels of its own for {', '.join(texts[:-1])} and {texts[-1]}"


def read_buckets(given: Mapping[str, Sequence[int]], ranges: Iterable[Range]) -> Buckets | None:
    """Return the ranges of a length; None if none are wanted.

    Parameters
    ----------
    given
        The last length of each range in ascending order, such as 32, 128 and 512, by the name of
        the length; "" is the only one.
    ranges
        The lengths that each call chooses.

    Raises
    ------
    ArgumentError
        No call chooses the length, or the ends do not divide it.
    """
    if not given:
        return None
    if len(given) > 1:
        raise _error(
            f"one length alone has ranges with kernels of their own, got {list_names(given)}"
        )
    name, ends = next(iter(given.items()))
    known = {each.name: each for each in ranges}
    if not name and len(known) == 1:
        name = next(iter(known))
    if not known:
        raise ArgumentError(
            "no length is chosen by each call: give one its first and last value, such as 1 and 64",
            argument=SMALLER_LENGTHS,
        )
    if name not in known:
        raise _error(_unknown(name, known))
    whole = known[name]
    got = f"got {', '.join(map(str, ends)) or 'none'}"
    where = f"the length {name!r}, which is {whole.low} to {whole.high}"
    expected = f"{where}: expected the last lengths of two or more ranges in ascending order"
    if len(ends) < 2 or any(one >= two for one, two in pairwise(ends)):
        raise _error(f"{expected}, {got}")
    if ends[0] < whole.low or ends[-1] != whole.high:
        raise _error(f"{expected}, from {whole.low} on and {whole.high} last, {got}")
    if any(each % whole.step for each in ends):
        raise _error(f"{expected}, multiples of {whole.step}, {got}")
    lows = [whole.low, *[each + whole.step for each in ends[:-1]]]
    pairs = zip(lows, ends, strict=True)
    return Buckets(name, tuple([Bucket(low, high) for low, high in pairs]))


def _unknown(name: str, known: Mapping[str, Range]) -> str:
    """Return why a name is no length that each call chooses."""
    if name:
        return f"no length that each call chooses has the name {name!r}{did_you_mean(name, known) or '.'} Those are {list_names(known)}"
    return f"each call chooses several lengths; name the one: {list_names(known)}"


def _error(text: str) -> ArgumentError:
    return ArgumentError(text, argument="buckets")
