"""The choice among the variants of a tuned function (R52).

Records choose in this order: those of the user for the device, those of the file for it, then the
user's and the file's for its architecture. Among them, the sizes nearest to those of the call
decide, and of these the shortest time, by the number of blocks, if it is certainly shorter than
that of the first variant. A device without records takes the first variant, unless `_MIN_DEVICES`
devices of its kind show one that is always good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, log, prod
from typing import Any, NamedTuple

from devmod import TuningRecord
from devmod.backend import ExpressionError, Tuning, duration_text, environment_text
from devmod.errors import count_text
from devmod_runtime._tuning.noise import Estimate
from devmod_runtime._tuning.offers import Offer

Constant = bool | int | float | str
#: The values of a variant's constants.
Values = tuple[Constant, ...]
#: The seconds of each variant with enough turns, inf if it failed.
Times = dict[Values, float]
Sizes = tuple[int, ...]
#: The numbers of blocks of variants, at measured sizes and at others.
Blocks = dict[Values, tuple[int, int]]
Measurements = dict[Sizes, dict[Values, Estimate]]

#: The environment variable that turns records off, and its values that do.
VARIABLE = "DEVMOD_TUNE"
_OFF = ("off", "0", "false")
#: How many devices decide for one without records, and how much of the best variant's time another
#: one may take on each.
_MIN_DEVICES = 3
_MAX_RATIO = 1.05
#: What a label of records of other devices has.
_SISTERS = "the architecture"


def identity_of(device: Any) -> dict[str, Any]:
    """Return how records name a device: the fields of a `devmod.TuningRecord` for its kind, its
    driver's names of the platform ("" for a kind without platforms) and of the device, the
    architecture of its hardware ("" if the kind has none), and the driver's version.
    """
    return {
        "kind": device.kind,
        "platform": getattr(device, "platform", ""),
        "device": device.name,
        "arch": device.hardware,
        "driver": device.driver_version,
    }


def record_of(function: str, tuning: Tuning, device: Any) -> TuningRecord:
    """Return the record of a function on a device, without times."""
    return TuningRecord(
        function, **identity_of(device), constants=tuning.constants, sizes=tuning.sizes
    )


class VariantChoice(NamedTuple):
    """A chosen variant: the values of its constants, and why, as a clause."""

    values: Values
    why: str


class VariantChooser:
    """Chooses among the variants of one function on one device.

    Parameters
    ----------
    like
        The `record_of` the function on the device.
    variants
        The variants that fit the device by their values. The first is the default.
    own, records
        The user's records, and those of the file.
    """

    def __init__(
        self,
        like: TuningRecord,
        variants: Mapping[Values, Offer],
        own: Iterable[TuningRecord],
        records: Iterable[TuningRecord],
    ) -> None:
        self._like = like
        self._variants = variants
        #: Why there is no record that chooses.
        self._without = ": no record is of this device"
        if environment_text(VARIABLE).lower() in _OFF:
            self._without = f", by {VARIABLE}"
            own = records = ()
        every = []
        groups: dict[str, list[TuningRecord]] = {}
        for owner, group in (("user", own), ("file", records)):
            for record in group:
                arranged = record.arranged(like.constants, like.sizes)
                if arranged is None or arranged[:2] != like[:2] or not arranged.measured:
                    continue
                every.append(arranged)
                groups.setdefault(self._label(owner, record), []).append(arranged)
        groups.pop("", None)
        #: The records that count on the device, in the order in which they decide, and their times.
        #: Those of the device's driver replace others.
        self._records = dict(sorted(groups.items(), key=lambda each: _SISTERS in each[0]))
        self._sources: dict[str, Measurements] = {}
        for label, group in self._records.items():
            group.sort(key=lambda each: each.driver == like.driver)
            self._sources[label] = _joined(group)
        self._common: Values = ()
        if not self._sources:
            self._common = self._find_common(every)
        else:
            self._without = ": the records of this device have no settled time"

    def _label(self, owner: str, record: TuningRecord) -> str:
        """Return where times are from; "" if they do not count on the device."""
        like = self._like
        if (record.platform, record.device) == (like.platform, like.device):
            return f"the {owner}'s records of this device"
        if like.arch and record.arch == like.arch:
            return f"the {owner}'s records of {_SISTERS} {like.arch}"
        return ""

    @property
    def measured(self) -> list[Sizes]:
        """The sizes in the first of the records that count on the device, in ascending order."""
        for measurements in self._sources.values():
            return sorted(measurements)
        return []

    def choose(self, sizes: Sizes, unusable: Collection[Values] = ()) -> VariantChoice:
        """Return the variant for a call.

        Parameters
        ----------
        sizes
            The values of the arguments that decide.
        unusable
            The variants that cannot be built here, not all.
        """
        usable = [each for each in self._variants if each not in unusable]
        working = usable
        for label, measurements in self._sources.items():
            nearest = sorted(measurements, key=lambda each: (_distance(each, sizes), each))
            at_nearest = measurements[nearest[0]]
            failed = [each for each, time in at_nearest.items() if not time.seconds]
            working = [each for each in working if each not in failed]
            for measured in nearest:
                times = _times_of(measurements[measured])
                blocks = self._blocks(times, measured, sizes)
                expected = _expected(times, blocks)
                fastest = _fastest(working, expected)
                if fastest is None:
                    continue
                best = fastest
                default = next(iter(self._variants))
                time = measurements[measured].get(default)
                if default in working and time is not None:
                    least = expected.get(default, 0.0) * (1 - min(time.noise, 1.0))
                    if least <= expected[fastest]:
                        best = default
                why = self._reason(label, measured, best, blocks, best == fastest)
                return VariantChoice(best, why)
        if self._common in usable:
            return VariantChoice(
                self._common,
                f"no record is of this device, and at least {_MIN_DEVICES} {self._like.kind} devices took at most {_MAX_RATIO} of their "
                "best time with it",
            )
        if not working:
            return VariantChoice(usable[0], "the first variant: each one failed on this device")
        if working == usable:
            return VariantChoice(usable[0], f"the first variant{self._without}")
        return VariantChoice(working[0], "the first variant that did not fail on this device")

    def _blocks(self, times: Times, measured: Sizes, sizes: Sizes) -> Blocks:
        """Return the numbers of blocks that variants have at measured sizes and at those of a call;
        {} if the sizes are not enough to tell.
        """
        found = {}
        try:
            for values in self._variants.keys() & times.keys():
                counts = []
                for each in (measured, sizes):
                    named = dict(zip(self._like.sizes, each, strict=True))
                    counts.append(max(prod(self._variants[values].variant.grid_of(named)), 1))
                found[values] = (counts[0], counts[1])
        except (ExpressionError, LookupError):
            return {}
        return found

    def _reason(
        self, label: str, measured: Sizes, best: Values, blocks: Blocks, is_fastest: bool
    ) -> str:
        """Return why a time chose a variant."""
        times = self._sources[label][measured]

        def time_text(values: Values) -> str:
            text = duration_text(times[values].seconds or inf)
            before, now = blocks.get(values, (1, 1))
            if before != now:
                text += f" for {count_text(before, 'block')}, {now} here"
            return text

        where = ""
        if measured:
            where = f" at {pairs_text(dict(zip(self._like.sizes, measured, strict=True)))}"
        text = "the fastest in"
        if not is_fastest:
            text = "none is certainly faster than the first variant in"
        text += f" {label}{where}: {time_text(best)}"
        default = next(iter(self._variants))
        if best != default and default in times and times[default].seconds:
            text += f", and the first variant {time_text(default)}"
        *_, record = [each for each in self._records[label] if (measured, best) in each.measured]
        if record.device != self._like.device:
            text += f", on {record.device}"
        elif record.driver != self._like.driver:
            before = record.driver or "unknown"
            text += f"; the driver was {before}, and is {self._like.driver} now"
        return text

    def _find_common(self, records: Iterable[TuningRecord]) -> Values:
        """Return the first variant that failed nowhere and was nowhere much slower than the best;
        () if too few devices show one.
        """
        devices = set()
        good = tuple(self._variants)
        for record in records:
            for measured in _joined([record]).values():
                times = _times_of(measured)
                best = _fastest(self._variants, times)
                if best is None:
                    continue
                devices.add((record.platform, record.device))
                most = times[best] * _MAX_RATIO
                good = tuple([each for each in good if times.get(each, inf) <= most])
        if len(devices) < _MIN_DEVICES or not good:
            return ()
        return good[0]


def _joined(records: Iterable[TuningRecord]) -> Measurements:
    """Return the times of several records. Later ones replace others. A variant that was wrong with
    some sizes has failed with all.
    """
    result: Measurements = {}
    wrong: set[Values] = set()
    for record in records:
        for (sizes, values), seconds in record.measured.items():
            if seconds is False:
                wrong.add(values)
            turns = record.turns.get((sizes, values), (0, 0.0))
            result.setdefault(sizes, {})[values] = Estimate(seconds, *turns)
    for times in result.values():
        times.update(dict.fromkeys(wrong, Estimate(False)))
    return result


def _times_of(measured: Mapping[Values, Estimate]) -> Times:
    return {values: time.seconds or inf for values, time in measured.items() if time.noise < inf}


def _expected(times: Times, blocks: Blocks) -> Times:
    """Return the times of variants with other sizes than the measured ones: as long as there for
    each block, so that one that is partly beyond the sizes counts as a whole one.

    A block that was partly beyond the measured sizes may have been faster than a whole one: no time
    grows by less than that of the variant with the most blocks.
    """
    before, now = max(blocks.values(), default=(1, 1))
    least = now / before
    expected = dict(times)
    for values, (before, now) in blocks.items():
        expected[values] *= max(now / before, least)
    return expected


def _fastest(variants: Iterable[Values], times: Times) -> Values | None:
    """Return the variant with the shortest time, the first of equal ones; None without a time."""
    timed = [each for each in variants if times.get(each, inf) < inf]
    return min(timed, key=times.__getitem__, default=None)


def _distance(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the sum of the |log ratio| of sizes, rounded so that equal ratios are equal."""
    total = sum(abs(_log(a) - _log(b)) for a, b in zip(one, other, strict=True))
    return round(total, 9)


def _log(size: int) -> float:
    """Return the logarithm of a size. Zero counts as a half; negative sizes lie beyond it."""
    if not size:
        return 0.0
    magnitude = log(2 * abs(size))
    if size < 0:
        return -magnitude
    return magnitude


def pairs_text(values: Mapping[str, object]) -> str:
    """Return values by name as text: ``BLOCK=64, TILE=2``."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
