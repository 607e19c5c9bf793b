"""Which times are settled: the rule by which `devmod.tune` ends.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt

from devmod_runtime._tuning.noise import CERTAIN, Estimate

#: A variant that takes this part of another one's time or more is as good.
_AS_GOOD = 0.97


def is_certain(ratios: Sequence[float], is_default: bool) -> bool:
    """Return whether the times of a variant by those of the fastest one in the same turns are
    enough: a sign test, since a busy machine may have two speeds, between which a median changes.
    """
    if not is_default:
        return _is_rare(ratios, lambda ratio: ratio < _AS_GOOD)
    return _is_rare(ratios, lambda ratio: ratio < 1) or _is_rare(
        ratios, lambda ratio: ratio * _AS_GOOD > 1
    )


def _is_rare(ratios: Sequence[float], holds: Callable[[float], bool]) -> bool:
    """Return whether something certainly holds for less than half of the turns."""
    count = sum(map(holds, ratios))
    turns = len(ratios)
    return count <= turns / 2 - CERTAIN * sqrt(turns) / 2


def fastest(times: Mapping[int, Estimate]) -> int | None:
    """Return the variant with the shortest time of enough turns; None without one."""
    timed = [variant for variant, time in times.items() if time.seconds and time.noise < inf]
    return min(timed, key=lambda variant: times[variant].seconds or inf, default=None)


def unsettled(times: Mapping[int, Estimate]) -> list[int]:
    """Return the variants whose times do not tell whether they are faster than the fastest one.

    Variant 0 is the default, which calls take unless it is certainly slower: it is settled if it is
    that, or certainly as good.
    """
    best = fastest(times)
    least = 0.0
    if best is not None:
        least = times[best].seconds or 0.0
    found = []
    for variant, time in times.items():
        if variant == best or not time.seconds:
            continue
        low = time.seconds * (1 - time.noise)
        high = time.seconds * (1 + time.noise)
        if variant == 0:
            is_settled = low > least or high * _AS_GOOD <= least
        else:
            is_settled = low >= least * _AS_GOOD
        if not is_settled:
            found.append(variant)
    return found
