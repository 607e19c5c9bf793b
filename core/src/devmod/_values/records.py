"""Tuning records: the times that one device took for the variants of a tuned function."""

from __future__ import annotations

from math import isfinite

from devmod._values.value import Value, read_list, read_map
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    #: The sizes of a call, and the values of a variant's constants.
    Case = tuple[tuple[int, ...], tuple[int | float | str, ...]]

#: The limits on one file and on one record.
MAX_RECORDS = 4096
MAX_TIMES = 1 << 16
#: The limit on the names of constants, on those of sizes, and on the characters of a text.
MAX_NAMES = 16
MAX_TEXT = 1024
#: The limit on a time in seconds, about 30 years.
MAX_SECONDS = 10**9
_TEXTS = ("function", "kind", "platform", "device", "arch", "driver")


class TuningRecord(Value):
    """The times that one device took for the variants of a tuned function.

    A record names a variant by the values of its constants. It is valid for functions with other
    variants, or with another order of constants.

    Parameters
    ----------
    function, kind
        The function, and the kind of the payload that ran.
    platform, device, arch, driver
        The driver's names of its platform and of the device, the device's architecture ("" if the
        kind has none), and the driver's version.
    constants, sizes
        The names of the constants, and of the arguments whose values are the sizes.
    measured
        The time in seconds of each pair of sizes and values of constants: ``{((100000,), (64, 2)):
        1.2e-5}``. None: the variant failed. Values that Python compares as equal are one variant,
        such as 1 and True.

    Raises
    ------
    FormatError
        A field is invalid.
    """

    __slots__ = (
        *("arch", "constants", "device", "driver", "function"),
        *("kind", "measured", "platform", "sizes"),
    )
    function: str
    kind: str
    platform: str
    device: str
    arch: str
    driver: str
    constants: tuple[str, ...]
    sizes: tuple[str, ...]
    measured: Mapping[Case, float | None]

    def __init__(
        self,
        function: str,
        kind: str,
        platform: str,
        device: str,
        arch: str = "",
        driver: str = "",
        constants: Sequence[str] = (),
        sizes: Sequence[str] = (),
        measured: Mapping[Case, float | None] | None = None,
    ) -> None:
        texts = (function, kind, platform, device, arch, driver)
        for text in (*texts, *constants, *sizes):
            if not isinstance(text, str) or len(text) > MAX_TEXT:
                raise FormatError(
                    f"a text of a tuning record is a str of at most {MAX_TEXT} characters, got {text!r:.80}"
                )
        subject = f"the tuning record of {function!r} on {device!r}"
        for names in (constants, sizes):
            if len(names) > MAX_NAMES or len({*names}) < len(names):
                raise FormatError(
                    f"{subject}: expected at most {MAX_NAMES} different names, got {list(names)!r:.80}"
                )
        measured = dict(measured or {})
        if len(measured) > MAX_TIMES:
            raise FormatError(f"{subject} has {len(measured)} times; the limit is {MAX_TIMES}")
        lengths = (len(sizes), len(constants))
        for (key, values), seconds in measured.items():
            is_valid = (len(key), len(values)) == lengths and _is_time(seconds)
            if not is_valid or not all(map(_is_size, key)) or not all(map(_is_value, values)):
                raise FormatError(
                    f"{subject}: expected the sizes, the values of the constants and a time in "
                    f"seconds, got {list(key)}, {list(values)} and {seconds!r}"[:400]
                )
        self._set(**dict(zip(_TEXTS, texts, strict=True)))
        self._set(constants=tuple(constants), sizes=tuple(sizes), measured=measured)

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have."""
        by_sizes: dict[tuple[int, ...], list[Any]] = {}
        for (key, values), seconds in self.measured.items():
            by_sizes.setdefault(key, []).append([list(values), seconds])
        measured = [{"sizes": list(key), "times": times} for key, times in by_sizes.items()]
        names = (*type(self).__annotations__,)
        return self._written(names, names) | {"measured": measured}

    @classmethod
    def from_dict(cls, data: object) -> TuningRecord:
        """Return the record of a map from `to_dict`. Raise FormatError for other objects."""
        fields = read_map(data, "a tuning record", "function", "kind")
        measured = {}
        try:
            names = [read_list(fields.get(each, []), each) for each in ("constants", "sizes")]
            for entry in read_list(fields.get("measured", []), "the measurements"):
                key = tuple(read_list(entry["sizes"], "sizes"))
                for values, seconds in read_list(entry["times"], "times"):
                    measured[key, tuple(read_list(values, "values"))] = seconds
        except (TypeError, ValueError, LookupError, FormatError) as error:
            raise FormatError(f"the tuning record of {fields['function']!r:.80}: {error}") from None
        texts: list[Any] = [fields.get(name, "") for name in _TEXTS]
        values = [*texts, *names, measured]
        return cls(*values)

    def arranged(self, constants: Sequence[str], sizes: Sequence[str]) -> TuningRecord | None:
        """Return this record with its constants and sizes in another order, or None if it has
        others.
        """
        if {*self.constants} != {*constants} or {*self.sizes} != {*sizes}:
            return None
        columns = [self.constants.index(name) for name in constants]
        rows = [self.sizes.index(name) for name in sizes]
        measured = {}
        for (key, values), seconds in self.measured.items():
            case = (tuple([key[at] for at in rows]), tuple([values[at] for at in columns]))
            measured[case] = seconds
        return self.replace(constants=constants, sizes=sizes, measured=measured)


def join_records(records: Iterable[TuningRecord]) -> tuple[TuningRecord, ...]:
    """Join the records that differ in their times alone. Later times replace earlier ones."""
    joined: dict[TuningRecord, TuningRecord] = {}
    for record in records:
        key = record.replace(measured={})
        measured = {**joined.get(key, key).measured, **record.measured}
        joined[key] = record.replace(measured=measured)
    return tuple(joined.values())


def read_records(data: object, subject: str) -> tuple[TuningRecord, ...]:
    """Return the records of a map from `write_records`. FormatError names `subject`."""
    try:
        fields = read_map(data, "the value", "devmod_tuning", "records")
        if fields["devmod_tuning"] != 1:
            raise FormatError(
                f"the version is {fields['devmod_tuning']!r}, and this devmod reads version 1"
            )
        records = read_list(fields["records"], "the records")
        _check_count(len(records))
        return tuple(map(TuningRecord.from_dict, records))
    except FormatError as error:
        raise FormatError(f"{subject}: {error}") from None


def write_records(records: Sequence[TuningRecord]) -> dict[str, Any]:
    """Return the map that files have. FormatError if there are too many records."""
    _check_count(len(records))
    return {"devmod_tuning": 1, "records": [record.to_dict() for record in records]}


def _check_count(count: int) -> None:
    if count > MAX_RECORDS:
        raise FormatError(f"expected at most {MAX_RECORDS} tuning records, got {count}")


def _is_size(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**64


def _is_value(value: object) -> bool:
    """Return whether a file can have a value of a constant."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return isinstance(value, bool) or _is_size(value)


def _is_time(seconds: Any) -> bool:
    if seconds is None:
        return True
    return type(seconds) in (int, float) and 0 < seconds <= MAX_SECONDS
