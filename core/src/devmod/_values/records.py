"""Tuning records: the times that one device took for the variants of a tuned function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from devmod._values.tuning import check_constant, read_names
from devmod._values.value import read_list, read_map
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The sizes of a call, and the values of a variant's constants.
Case = tuple[tuple[int, ...], tuple[Any, ...]]

#: The limits on the records of a file, on the times of a function, on the characters of a text, and
#: on a time in seconds (about 30 years).
MAX_RECORDS = 4096
MAX_TIMES = 1 << 16
MAX_TEXT = 1024
MAX_SECONDS = 10**9


class TuningRecord(NamedTuple):
    """The times that one device took for the variants of a tuned function.

    A record names a variant by the values of its constants. It is valid for functions with other
    variants, or with another order of constants. `devmod.save` and `from_dict` check the fields.

    Attributes
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
        1.2e-5}``. None: the variant failed with these sizes. False: its results were wrong, so that
        no call takes it. Values that Python compares as equal are one variant, such as 1 and True.
    """

    function: str
    kind: str
    platform: str = ""
    device: str = ""
    arch: str = ""
    driver: str = ""
    constants: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    measured: Mapping[Case, float | None] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have."""
        by_sizes: dict[tuple[int, ...], list[Any]] = {}
        for (sizes, values), seconds in self.measured.items():
            by_sizes.setdefault(sizes, []).append([list(values), seconds])
        measured = [{"sizes": list(sizes), "times": times} for sizes, times in by_sizes.items()]
        names = {"constants": list(self.constants), "sizes": list(self.sizes)}
        return self._asdict() | names | {"measured": measured}

    @classmethod
    def from_dict(cls, data: object) -> TuningRecord:
        """Return the record of a map from `to_dict`. Raise FormatError for other objects."""
        fields = read_map(data, "a tuning record", "function", "kind")
        texts = [_check_text(fields.get(name, "")) for name in cls._fields[:6]]
        measured = {}
        try:
            constants = read_names(fields, "constants")
            names = read_names(fields, "sizes")
            for entry in read_list(fields.get("measured", []), "the measurements"):
                sizes = tuple(read_list(entry["sizes"], "sizes"))
                for values, seconds in read_list(entry["times"], "times"):
                    case = (sizes, tuple(read_list(values, "values")))
                    _check_time(case, seconds, (len(names), len(constants)))
                    if case in measured:
                        raise FormatError(f"two times of {case!r:.80}")
                    measured[case] = seconds
        except (TypeError, ValueError, LookupError, FormatError) as error:
            raise FormatError(
                f"the tuning record of {texts[0]!r} on {texts[3]!r}: {error}"
            ) from None
        given: list[Any] = [*texts, constants, names, measured]
        return cls(*given)

    def replace(self, **fields: Any) -> TuningRecord:
        """Return a copy with the given fields changed."""
        return self._replace(**fields)

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
        return self.replace(constants=tuple(constants), sizes=tuple(sizes), measured=measured)


def join_records(records: Iterable[TuningRecord]) -> tuple[TuningRecord, ...]:
    """Join the records that differ in their times alone. Later times replace earlier ones."""
    joined: dict[tuple[object, ...], TuningRecord] = {}
    for record in records:
        key = (*record[:6], tuple(record.constants), tuple(record.sizes))
        before = joined.get(key, record).measured
        joined[key] = record.replace(measured={**before, **record.measured})
    return tuple(joined.values())


def read_records(data: object, subject: str, function: str = "") -> tuple[TuningRecord, ...]:
    """Return the records of the map that files have, or those of one function. FormatError names
    `subject`.
    """
    try:
        fields = read_map(data, "the value", "devmod_tuning", "records")
        if fields["devmod_tuning"] != 1:
            raise FormatError(
                f"the version is {fields['devmod_tuning']!r}, and this devmod reads version 1"
            )
        records = read_list(fields["records"], "the records")
        if len(records) > MAX_RECORDS:
            raise FormatError(f"{len(records)} records; the limit is {MAX_RECORDS}")
        found = []
        counts: dict[str, int] = {}
        for each in records:
            if function and read_map(each, "a tuning record").get("function") != function:
                continue
            record = TuningRecord.from_dict(each)
            count = counts.get(record.function, 0) + len(record.measured)
            if count > MAX_TIMES:
                raise FormatError(
                    f"{record.function!r} has more than {MAX_TIMES} times, the limit for a function"
                )
            counts[record.function] = count
            found.append(record)
        return join_records(found)
    except FormatError as error:
        raise FormatError(f"{subject}: {error}") from None


def _check_text(value: Any) -> str:
    if type(value) is str and len(value) <= MAX_TEXT:
        return value
    raise FormatError(
        f"a text of a tuning record is a str of at most {MAX_TEXT} characters, got {value!r:.80}"
    )


def _check_time(case: Case, seconds: Any, lengths: tuple[int, int]) -> None:
    sizes, values = case
    for value in (*sizes, *values):
        check_constant(value)
    is_valid = (len(sizes), len(values)) == lengths and {*map(type, sizes)} <= {int}
    if seconds is not None and seconds is not False and is_valid:
        is_valid = type(seconds) in (int, float) and 0 < seconds <= MAX_SECONDS
    if not is_valid:
        raise FormatError(
            "expected an integer for each size, a value for each constant, and a time in seconds "
            f"or None or False, got {sizes!r:.80}, {values!r:.80} and {seconds!r:.80}"
        )
