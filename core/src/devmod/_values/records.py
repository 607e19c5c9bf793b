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

    #: The number of turns of a measurement, and its spread in seconds.
    Turns = tuple[int, float]

#: The sizes of a call, and the values of a variant's constants.
Case = tuple[tuple[int, ...], tuple[Any, ...]]

#: The limits on the records of a function, on its times, on the characters of a text, on a time in
#: seconds (about 30 years), and on the turns of a measurement.
MAX_RECORDS = 4096
MAX_TIMES = 1 << 16
MAX_TEXT = 1024
MAX_SECONDS = 10**9
MAX_TURNS = 2**32 - 1
#: The key of a record in JSON that those in the page of a function do not have.
FUNCTION = "function"


# Where to change: a key of tuning records
#   here: `core/src/devmod/_formats/tuning.py`, those of a function in a file, and
#     `core/src/devmod/_files/tuning_files.py`, JSON
#   also: `docs/formats.md`, `tests/spec_reader.py` (`tuning_record`);
#     `workbench/src/devmod_workbench/_cli/inspect.py`
#   tests: `tests/test_tuning_verdicts.py`, `core/tests/test_tuning_files.py`
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
        Of several turns, the time is their median.
    turns
        For pairs of `measured` the number of turns, and the spread in seconds: the third quartile
        of the turns' times minus the first. Others have unknown ones.
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
    turns: Mapping[Case, Turns] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have."""
        by_sizes: dict[tuple[int, ...], list[Any]] = {}
        for case, seconds in self.measured.items():
            sizes, values = case
            time = [list(values), seconds, *self.turns.get(case, ())]
            by_sizes.setdefault(sizes, []).append(time)
        measured = [{"sizes": list(sizes), "times": times} for sizes, times in by_sizes.items()]
        names = {"constants": list(self.constants), "sizes": list(self.sizes)}
        fields = self._asdict() | names | {"measured": measured}
        del fields["turns"]
        return fields

    @classmethod
    def from_dict(cls, data: object) -> TuningRecord:
        """Return the record of a map from `to_dict`. Raise FormatError for other objects."""
        fields = read_map(data, "a tuning record", FUNCTION, "kind")
        texts = [_check_text(fields.get(name, "")) for name in cls._fields[:6]]
        measured = {}
        turns = {}
        try:
            constants = read_names(fields, "constants")
            names = read_names(fields, "sizes")
            for entry in read_list(fields.get("measured", []), "the measurements"):
                sizes = tuple(read_list(entry["sizes"], "sizes"))
                for time in read_list(entry["times"], "times"):
                    values, seconds, *more = read_list(time, "the items of a time")
                    case = (sizes, tuple(read_list(values, "values")))
                    _check_time(case, seconds, (len(names), len(constants)))
                    if case in measured:
                        raise FormatError(f"two times of {case!r:.80}")
                    measured[case] = seconds
                    own = _read_turns(more)
                    if own[0]:
                        turns[case] = own
        except (TypeError, ValueError, LookupError, FormatError) as error:
            raise FormatError(
                f"the tuning record of {texts[0]!r} on {texts[3]!r}: {error}"
            ) from None
        given: list[Any] = [*texts, constants, names, measured, turns]
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
        turns = {}
        for before, seconds in self.measured.items():
            key, values = before
            case = (tuple([key[at] for at in rows]), tuple([values[at] for at in columns]))
            measured[case] = seconds
            if before in self.turns:
                turns[case] = self.turns[before]
        return self.replace(
            constants=tuple(constants), sizes=tuple(sizes), measured=measured, turns=turns
        )


def join_records(records: Iterable[TuningRecord]) -> tuple[TuningRecord, ...]:
    """Join the records that differ in their times alone. Later times replace earlier ones."""
    joined: dict[tuple[object, ...], TuningRecord] = {}
    for record in records:
        key = (*record[:6], tuple(record.constants), tuple(record.sizes))
        before = joined.get(key)
        if before is None:
            joined[key] = record
            continue
        turns = {case: own for case, own in before.turns.items() if case not in record.measured}
        joined[key] = record.replace(
            measured={**before.measured, **record.measured}, turns=turns | {**record.turns}
        )
    return tuple(joined.values())


def read_records(data: object, subject: str) -> tuple[TuningRecord, ...]:
    """Return the records of the map that a file of JSON has. FormatError names `subject`."""
    try:
        fields = read_map(data, "the value", "devmod_tuning", "records")
        version = fields["devmod_tuning"]
        if type(version) is not int or version != 1:
            raise FormatError(f"the version is {version!r}, and this devmod reads version 1")
        found = [*map(TuningRecord.from_dict, read_list(fields["records"], "the records"))]
        by_function: dict[str, list[TuningRecord]] = {}
        for record in found:
            by_function.setdefault(record.function, []).append(record)
        for function, records in by_function.items():
            _check_counts(records, repr(function))
        return join_records(found)
    except FormatError as error:
        raise FormatError(f"{subject}: {error}") from None


def read_each(
    maps: object, subject: str, function: str
) -> tuple[tuple[TuningRecord, ...], list[str]]:
    """Return the records of one function in a list of maps without its name, and what is wrong with
    each of the others. Messages name `subject`.
    """
    found = []
    problems = []
    try:
        rows = read_list(maps, "the records")
    except FormatError as error:
        return (), [f"{subject}: {error}"]
    for each in rows:
        try:
            fields = read_map(each, "a tuning record")
            found.append(TuningRecord.from_dict({**fields, FUNCTION: function}))
        except FormatError as error:
            problems.append(f"{subject}: {error}")
    try:
        _check_counts(found, repr(function))
    except FormatError as error:
        return (), [f"{subject}: {error}"]
    return join_records(found), problems


def _check_counts(records: Sequence[TuningRecord], name: str) -> None:
    """Check the limits on the records of one function."""
    times = sum(len(record.measured) for record in records)
    for count, noun, most in (
        (len(records), "records", MAX_RECORDS),
        (times, "times", MAX_TIMES),
    ):
        if count > most:
            raise FormatError(f"{name} has {count} {noun}; the limit for a function is {most}")


def _read_turns(items: Sequence[Any]) -> Turns:
    """Return the number of turns and the spread from the further items of a time."""
    count, spread = (*items, 0, 0)[:2]
    is_valid = type(count) is int and 0 <= count <= MAX_TURNS
    if not is_valid or type(spread) not in (int, float) or not 0 <= spread <= MAX_SECONDS:
        raise FormatError(f"expected a number of turns and a spread in seconds, got {items!r:.80}")
    return count, float(spread)


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
