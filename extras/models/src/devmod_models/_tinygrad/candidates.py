"""Optimizations of a kernel that may be faster on a device than those of tinygrad's heuristic.

tinygrad's own search tries all of its actions at each level, which takes minutes for one product.
These are few: each axis in turn is that of neighbouring threads, and another one that of the
registers of a thread; then the neighbours of the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tinygrad.codegen.opt import KernelOptError, heuristic
from tinygrad.uop.ops import AxisType, Ops

from devmod_models._patched import patched
from devmod_models._tinygrad.products import NAME, ROWS
from devmod_models._tinygrad.render import HEURISTIC, optimize, render
from devmod_models._tinygrad.tiles import NAME as TILES
from devmod_models._tinygrad.tiles import sizes_of

#: What identifies a range. Optimizations do not change it; they do change the place of its axis.
Number = tuple[int, ...]
#: The amounts of a kernel's optimizations, by the optimization and the range.
Amounts = Mapping[tuple[str, Number], int]
#: The optimizations in the order in which a kernel gets them, each with the type of its ranges.
_TYPES = {
    "CLAMP": AxisType.REDUCE,
    "UPCAST": AxisType.GLOBAL,
    "UNROLL": AxisType.REDUCE,
    "LOCAL": AxisType.GLOBAL,
}
#: The most of each along one range, and of a range that had none.
_MOST = {"CLAMP": 1, "UPCAST": 16, "UNROLL": 16, "LOCAL": 64}
_FIRST = {"CLAMP": 1, "UPCAST": 4, "UNROLL": 8, "LOCAL": 8}
#: The most results of a thread, copies of a loop's body, and threads of a block.
_MOST_RESULTS = 64
_MOST_COPIES = 144
_MOST_THREADS = 256
#: A good number of neighbouring threads: the lanes of a processor's vector.
_LANES = 16


class Candidates:
    """The optimizations of a kernel.

    Parameters
    ----------
    kind
        The kind, its architecture, and the name of the kernel, as `render` takes them.
    rendered
        What `render` has returned for the heuristic's optimizations, with the kernel's "tree".

    Attributes
    ----------
    kernel
        The name of the kernel.
    tree
        The kernel, as `render` takes it.
    rendered
        What `render` has returned by the optimizations, a text. Those that cannot be rendered are
        {}.
    times
        The seconds that a device takes by the optimizations, without those with which it failed.
    default
        The optimizations of a kernel without variants: the heuristic's, or those of one that is
        written by hand.
    others
        Optimizations that are no `Amounts`: the heuristic's, and other tiles of a kernel that is
        written by hand.
    form
        The lengths of the kernel's loops: what is the fastest for one kernel is likely so for
        another one with the same.
    """

    def __init__(self, kind: list[str], rendered: dict[str, Any]) -> None:
        self.kernel = kind[2]
        self.tree = rendered["tree"]
        self.times: dict[str, float] = {}
        self.default = self.form = ""
        self._start: Any = None
        own = heuristic.hand_coded_optimizations

        def observed(scheduler: Any) -> Any:
            self._start = scheduler.copy()
            result = own(scheduler)
            texts = (f"{each.op.name} {each.axis} {each.arg}" for each in result.applied_opts)
            self.default = ", ".join(texts)
            return result

        with patched(heuristic, "hand_coded_optimizations", observed):
            _, product, tiles = render(
                [self.tree, [[*kind, HEURISTIC], [*kind, NAME], [*kind, TILES]]]
            )
        self.others: list[str] = []
        if "optimizations" in product:
            self.others = [NAME, *(f"{NAME} {rows}" for rows in ROWS)]
        if "optimizations" in tiles:
            self.others += map(str, sizes_of(kind[0]))
        if "optimizations" in rendered:
            self.default = rendered["optimizations"]
            self.others = [HEURISTIC, *(each for each in self.others if each != self.default)]
        self.rendered = {self.default: rendered}
        self._amounts: dict[str, Amounts] = {}
        #: The ranges that may have each, with their lengths.
        self._ranges: dict[str, dict[Number, int]] = {name: {} for name in _TYPES}
        if self._start is None:
            return
        self.form = self._start.colored_shape()
        for name, type_ in _TYPES.items():
            for each in self._start.ranges_of(type_):
                number = each.arg[:-1]
                length = int(each.vmax) + 1
                if each.src[0].op is not Ops.CONST:  # a length that a call chooses
                    continue
                if name != "CLAMP" or self._is_awkward(number, length):
                    self._ranges[name][number] = length

    def _is_awkward(self, number: Number, length: int) -> bool:
        """Return whether a range of a maximum has a length that no loop can be unrolled by."""
        if length < _LANES or _most(length, _MOST["UNROLL"]) >= _LANES // 2:
            return False
        for each in self._start.reduceops:
            numbers = [part.arg[:-1] for part in each.src[1:] if part.op is Ops.RANGE]
            if number in numbers and each.arg[0] is not Ops.MAX:
                return False
        return True

    def first(self) -> Iterator[Amounts]:
        """Yield those with which a search begins."""
        ranges = self._ranges["LOCAL"]
        for lanes, length in ranges.items():
            threads = _most(length, _MOST["LOCAL"])
            if length % _LANES == 0:
                threads = _LANES
            local = {("LOCAL", lanes): threads}
            if len(ranges) == 1:
                yield local
            for each in self._ranges["CLAMP"]:
                yield {**local, ("CLAMP", each): _LANES, ("UNROLL", each): _LANES}
            for other, other_length in ranges.items():
                results = _most(other_length, _MOST["UPCAST"])
                if other != lanes and threads > 3 and results > 1:
                    yield {**local, ("UPCAST", other): results}

    @property
    def fastest(self) -> list[str]:
        """Those that were measured, the fastest first, without the default."""
        return sorted(self.times.keys() - {self.default}, key=self.times.__getitem__)

    def neighbours(self) -> Iterator[Amounts]:
        """Yield those that differ from the fastest in one amount."""
        fastest = [each for each in self.fastest if each in self._amounts]
        if not fastest:
            return
        amounts = self._amounts[fastest[0]]
        for name, ranges in self._ranges.items():
            for number, length in [*ranges.items()][-3:]:
                for amount in _next(amounts, name, number, length):
                    changed = {**amounts, (name, number): amount}
                    if amount == 1:
                        del changed[name, number]
                    yield changed

    def text(self, amounts: Amounts) -> str:
        """Return optimizations as a text; "" if the kernel cannot have them, or they are too
        many.
        """
        totals = dict.fromkeys(_TYPES, 1)
        for (name, _), amount in amounts.items():
            totals[name] *= amount
        if totals["UPCAST"] > _MOST_RESULTS or totals["LOCAL"] > _MOST_THREADS:
            return ""
        if totals["UPCAST"] * totals["UNROLL"] > _MOST_COPIES:
            return ""
        scheduler = self._start.copy()
        applied = []
        try:
            for name in _TYPES:
                for (own, number), amount in amounts.items():
                    if own == name:
                        axis = _axis(scheduler, name, number)
                        optimize(scheduler, name, axis, amount)
                        applied.append(f"{name} {axis} {amount}")
        except KernelOptError:
            return ""
        result = ", ".join(applied)
        self._amounts[result] = amounts
        return result


def _next(amounts: Amounts, name: str, number: Number, length: int) -> list[int]:
    """Return the next amounts of one range."""
    length += -length % amounts.get(("CLAMP", number), 1)
    if name == "LOCAL":
        length //= amounts.get(("UPCAST", number), 1)
    present = amounts.get((name, number))
    if present is None:
        return [each for each in [_most(length, _FIRST[name])] if each > 1]
    choices = _divisors(length, _MOST[name])
    lower = [each for each in choices if each < present][-1:]
    higher = [each for each in choices if each > present][:1]
    return [*lower, *higher]


def _axis(scheduler: Any, name: str, number: Number) -> int:
    """Return the present axis of a range, as an optimization has it."""
    for axis, each in enumerate(scheduler.rngs):
        if each.arg == (*number, _TYPES[name]):
            if name == "UNROLL":
                return int(scheduler.unrollable_dims.index(axis))
            return axis
    raise KernelOptError(f"no range {number}")


def _divisors(length: int, most: int) -> list[int]:
    """Return the divisors of a length up to a number."""
    return [each for each in range(1, most + 1) if length % each == 0]


def _most(length: int, most: int) -> int:
    """Return the largest divisor of a length up to a number."""
    return _divisors(length, most)[-1]
