"""The choice among the variants of a tuned function (R52).

Records choose in this order: those of the user for the device, those of the file for it, then the
user's and the file's for its architecture. Among them, the sizes nearest to those of the call
decide, and of these the shortest time. A device without records takes the first variant, unless
`_MIN_DEVICES` devices of its kind show one that is always good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, log
from typing import Any, NamedTuple

from devmod import TuningRecord
from devmod.backend import Tuning, environment_text

Constant = bool | int | float | str
#: The values of a variant's constants.
Values = tuple[Constant, ...]
#: The seconds of each variant, inf if it failed, and the record that has them.
Times = dict[Values, tuple[float, TuningRecord]]
#: The times for each tuple of sizes.
Measurements = dict[tuple[int, ...], Times]

#: The environment variable that turns records off, and its values that do.
VARIABLE = "DEVMOD_TUNE"
_OFF = ("off", "0", "false")
#: How many devices decide for one without records, and how much of the best variant's time another
#: one may take on each.
_MIN_DEVICES = 3
_MAX_RATIO = 1.05


class Identity(NamedTuple):
    """A device, by the fields of a `devmod.TuningRecord`.

    Attributes
    ----------
    kind
        Its kind.
    platform, device, driver
        The texts of its driver: the platform ("" for a kind without platforms), the device's name,
        and the driver's version.
    arch
        The architecture of its hardware; "" if the kind has none.
    """

    kind: str
    platform: str = ""
    device: str = ""
    arch: str = ""
    driver: str = ""


def identity_of(device: Any) -> Identity:
    """Return how records name a device."""
    platform = getattr(device, "platform", "")
    return Identity(device.kind, platform, device.name, device.hardware, device.driver_version)


class VariantChoice(NamedTuple):
    """A chosen variant: the values of its constants, and why, as a clause."""

    values: Values
    why: str


class VariantChooser:
    """Chooses among the variants of one function on one device.

    Parameters
    ----------
    function, tuning
        The function's name, and its variants.
    variants
        The values of the variants that fit the device. The first is the default.
    device
        The device.
    own, records
        The user's records, and those of the file.
    """

    def __init__(
        self,
        function: str,
        tuning: Tuning,
        variants: Iterable[Values],
        device: Identity,
        own: Iterable[TuningRecord],
        records: Iterable[TuningRecord],
    ) -> None:
        self._sizes = tuning.sizes
        self._variants = tuple(variants)
        self._device = device
        groups: dict[str, list[TuningRecord]] = {"user": [], "file": []}
        for owner, group in zip(groups, (own, records), strict=True):
            for record in group:
                arranged = record.arranged(tuning.constants, tuning.sizes)
                if arranged and (record.function, record.kind) == (function, device.kind):
                    groups[owner].append(arranged)
        #: The measurements that count on the device, in the order in which they decide, and where
        #: they are from.
        self._sources: dict[str, Measurements] = {}
        for noun, test in (
            ("this device", self._is_device),
            (f"the architecture {device.arch}", self._is_sister),
        ):
            for owner, group in groups.items():
                measurements = self._joined(filter(test, group))
                if measurements:
                    self._sources[f"the {owner}'s records of {noun}"] = measurements
        self._common: Values | None = None
        if not self._sources:
            self._common = self._find_common([*groups["user"], *groups["file"]])

    @property
    def measured(self) -> list[tuple[int, ...]]:
        """The sizes in the first of the records that count on the device, in ascending order."""
        for measurements in self._sources.values():
            return sorted(measurements)
        return []

    def choose(self, sizes: tuple[int, ...], unusable: Collection[Values] = ()) -> VariantChoice:
        """Return the variant for a call.

        Parameters
        ----------
        sizes
            The values of the arguments that decide.
        unusable
            The variants that cannot be built here, not all.
        """
        usable = [each for each in self._variants if each not in unusable]
        if environment_text(VARIABLE).lower() in _OFF:
            return VariantChoice(usable[0], f"the first variant, by {VARIABLE}")
        working = usable
        for label, measurements in self._sources.items():
            nearest = sorted(measurements, key=lambda each: (_distance(each, sizes), each))
            at_nearest = measurements[nearest[0]]
            working = [each for each in working if _seconds(at_nearest, each, 0) < inf]
            for measured in nearest:
                times = measurements[measured]
                best = _fastest(working, times)
                if best is not None:
                    return VariantChoice(best, self._reason(label, measured, times, best))
        if self._common is not None and self._common in usable:
            return VariantChoice(
                self._common,
                f"no record is of this device, and at least {_MIN_DEVICES} {self._device.kind} devices took at most {_MAX_RATIO} of their "
                "best time with it",
            )
        if len(working) == len(usable):
            return VariantChoice(usable[0], "the first variant: no record is of this device")
        if not working:
            return VariantChoice(usable[0], "the first variant: each one failed on this device")
        return VariantChoice(working[0], "the first variant that did not fail on this device")

    def _is_device(self, record: TuningRecord) -> bool:
        device = self._device
        return (record.platform, record.device) == (device.platform, device.device)

    def _is_sister(self, record: TuningRecord) -> bool:
        arch = self._device.arch
        return bool(arch) and record.arch == arch and not self._is_device(record)

    def _joined(self, records: Iterable[TuningRecord]) -> Measurements:
        """Return the times of several records. Those of the device's driver replace others."""
        result: Measurements = {}
        for record in sorted(records, key=lambda each: each.driver == self._device.driver):
            for (sizes, values), seconds in record.measured.items():
                if seconds is None:
                    seconds = inf
                result.setdefault(sizes, {})[values] = (seconds, record)
        return result

    def _reason(self, label: str, sizes: Sequence[int], times: Times, best: Values) -> str:
        """Return why a time chose a variant."""
        where = ""
        if sizes:
            where = f" at {pairs_text(self._sizes, sizes)}"
        seconds, record = times[best]
        text = f"the fastest in {label}{where}: {duration_text(seconds)}"
        first = _seconds(times, self._variants[0], inf)
        if best != self._variants[0] and first < inf:
            text += f", and the first variant {duration_text(first)}"
        if record.device != self._device.device:
            text += f", on {record.device}"
        elif record.driver != self._device.driver:
            text += f"; the driver was {record.driver}, and is {self._device.driver} now"
        return text

    def _find_common(self, records: Iterable[TuningRecord]) -> Values | None:
        """Return the first variant that failed nowhere and was nowhere much slower than the best;
        None if too few devices show one.
        """
        devices = set()
        good = list(self._variants)
        for record in records:
            for times in self._joined([record]).values():
                best = _fastest(self._variants, times)
                if best is not None:
                    devices.add((record.platform, record.device))
                    most = times[best][0] * _MAX_RATIO
                    good = [each for each in good if _seconds(times, each, inf) <= most]
        if len(devices) < _MIN_DEVICES or not good:
            return None
        return good[0]


def _seconds(times: Times, variant: Values, missing: float) -> float:
    """Return the time of a variant, inf if it failed; `missing` if it was not measured."""
    if variant not in times:
        return missing
    return times[variant][0]


def _fastest(variants: Iterable[Values], times: Times) -> Values | None:
    """Return the variant with the shortest time, the first of equal ones; None without a time."""
    timed = [each for each in variants if _seconds(times, each, inf) < inf]
    return min(timed, key=lambda each: times[each][0], default=None)


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


def duration_text(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def pairs_text(names: Iterable[str], values: Iterable[object]) -> str:
    """Return names and values as text: ``BLOCK=64, TILE=2``."""
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))


def constants_text(constants: Mapping[str, Constant]) -> str:
    return pairs_text(constants, constants.values())
