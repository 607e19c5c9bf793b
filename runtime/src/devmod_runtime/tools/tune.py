"""`devmod.tune`: the fastest variant of tuned functions on a device of this machine, by sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, product
from math import exp, log
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple

from devmod import Device, Module, TuningRecord, dumps
from devmod._plugins.devices import device_label
from devmod._util.text import escape_line
from devmod.backend import temporary_folder, tuning_of
from devmod.errors import ArgumentError, DevmodError, function_not_found, list_names
from devmod_runtime._tuning.choice import constants_text, duration_text, pairs_text
from devmod_runtime.tools.bench import Benchmark, Measurement
from devmod_runtime.tools.launches import Conversation, is_local
from devmod_runtime.tools.program_steps import kernels_of
from devmod_runtime.tools.search import Failure, Progress, Search
from devmod_runtime.tools.trials import argument_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Dims = int | str | Sequence[int] | None
    Report = Callable[[str, float], object]

#: The most rows of a table, and the most lines of a plot. `to_dict` has all.
_MOST_ROWS = 20
_MOST_LINES = 8
#: The seconds that the launches of one question may take by default, the first with its build.
TIMEOUT = 60.0


class VariantTimes(NamedTuple):
    """The times of one variant of a function with one combination of sizes.

    Attributes
    ----------
    function, device
        The function, and the kind and the number of the device.
    sizes
        The sizes by name.
    constants
        The constants of the variant by name.
    median, quartile1, quartile3
        The seconds of a launch; nan if it failed.
    launches
        The number of launches that were timed; 0 if the time is one of an earlier record.
    problem
        Why it failed; "" if it did not.
    """

    function: str
    device: str
    sizes: dict[str, int]
    constants: dict[str, Any]
    median: float
    quartile1: float
    quartile3: float
    launches: int
    problem: str

    @property
    def label(self) -> str:
        """The constants as text."""
        return constants_text(self.constants)

    @property
    def size_label(self) -> str:
        """The sizes as text."""
        return pairs_text(self.sizes, self.sizes.values())


class TuningResult:
    """The result of `devmod.tune`. Its text is a table for each function and device.

    Attributes
    ----------
    times
        The `VariantTimes` of each variant and combination of sizes.
    records
        A `devmod.TuningRecord` for each function and device, with the times that were known before.
    is_complete
        Whether the search came to its end. Otherwise Ctrl-C or the limit on its time ended it.
    is_interrupted
        Whether Ctrl-C did.
    """

    def __init__(
        self,
        times: Sequence[VariantTimes],
        records: Sequence[TuningRecord],
        *,
        is_complete: bool = True,
        is_interrupted: bool = False,
    ) -> None:
        self.times = tuple(times)
        self.records = tuple(records)
        self.is_complete = is_complete
        self.is_interrupted = is_interrupted

    def to_dict(self) -> dict[str, Any]:
        """Return the times and the records as plain data."""
        return {
            "times": [each._asdict() for each in self.times],
            "records": [each.to_dict() for each in self.records],
            "is_complete": self.is_complete,
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a plot: the times of the fastest variants and of the first, by the size.

        The suffix of `path` is the format, as for `Benchmark.plot`, whose errors it raises.
        """
        measurements = []
        groups = self._groups()
        for group in groups:
            shown = group.ranking[:_MOST_LINES]
            for each in group.times:
                is_shown = each.label in shown or each.label == group.default
                if is_shown and not each.problem:
                    measurements.append(_plotted(each, len(groups) > 1))
        Benchmark(measurements).plot(path)

    def _groups(self) -> list[_Group]:
        groups: dict[tuple[str, str], list[VariantTimes]] = {}
        for each in self.times:
            groups.setdefault((each.function, each.device), []).append(each)
        return [_Group(times) for times in groups.values()]

    def __str__(self) -> str:
        lines: list[str] = []
        for group in self._groups():
            lines.extend(group.lines())
        if not self.is_complete:
            lines.append("the search has not come to its end; run it again for the other variants")
        return "\n".join(lines)

    __repr__ = __str__


def _plotted(times: VariantTimes, is_named: bool) -> Measurement:
    """Return what `Benchmark.plot` draws. The label has the function if there are several."""
    function = ""
    device = ""
    if is_named:
        function = times.function
        device = times.device
    return Measurement(
        file=times.label,
        function=function,
        device=device,
        sizes=",".join(f"{name}={value}" for name, value in times.sizes.items()),
        block="",
        median=times.median,
        quartile1=times.quartile1,
        quartile3=times.quartile3,
        gb_per_s=None,
        clock="",
        problem="",
    )


class _Group:
    """The times of one function on one device.

    Attributes
    ----------
    times
        The times.
    default
        The label of the first variant.
    ranking
        The labels of the variants, the fastest over all sizes first and those that failed last.
    """

    def __init__(self, times: Sequence[VariantTimes]) -> None:
        self.times = times
        self.default = times[0].label
        #: The seconds by the variant and the size; None if it failed.
        self._seconds: dict[str, dict[str, float | None]] = {}
        #: The shortest time by the size.
        self._best: dict[str, float] = {}
        for each in times:
            size = each.size_label
            seconds = None
            shortest = self._best.setdefault(size, float("inf"))
            if not each.problem:
                seconds = each.median
                self._best[size] = min(shortest, seconds)
            self._seconds.setdefault(each.label, {})[size] = seconds
        self.ranking = sorted(self._seconds, key=self._cost)

    def _cost(self, label: str) -> tuple[bool, float]:
        """Return whether a variant failed, and how much slower than the best it is."""
        times = self._seconds[label]
        return None in times.values(), self._ratio(times, self._best)

    def _ratio(
        self, times: Mapping[str, float | None], others: Mapping[str, float | None]
    ) -> float:
        """Return the geometric mean of times by others of the same sizes; inf without any."""
        ratios = []
        for size, seconds in times.items():
            other = others.get(size)
            if seconds is not None and other is not None:
                ratios.append(log(seconds / other))
        if not ratios:
            return float("inf")
        return exp(fmean(ratios))

    def lines(self) -> Iterator[str]:
        """Yield a title, the table, and why variants failed."""
        first = self.times[0]
        yield f"{first.function} on {first.device}: {len(self.ranking)} variants"
        titles = [each or "time" for each in self._best]
        rows = [["variant", *titles, "to first", "wins"]]
        shown = self.ranking[:_MOST_ROWS]
        if self.default not in shown:
            shown.append(self.default)
        for label in shown:
            rows.append(self._row(label))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            yield "  " + "  ".join(map(str.ljust, row, widths)).rstrip()
        if len(shown) < len(self.ranking):
            yield f"  and {len(self.ranking) - len(shown)} others"
        yield from self._problems()

    def _row(self, label: str) -> list[str]:
        times = self._seconds[label]
        row = [escape_line(label)]
        if label == self.default:
            row[0] += " (first)"
        wins = 0
        for size, shortest in self._best.items():
            row.append("")
            if size in times:
                row[-1] = _time_text(times[size])
            wins += times.get(size) == shortest
        ratio = self._ratio(times, self._seconds[self.default])
        row.append("")
        if ratio < float("inf"):
            row[-1] = f"{ratio:.2f}"
        return [*row, str(wins)]

    def _problems(self) -> Iterator[str]:
        """Yield each problem once, with its first variant."""
        labels: dict[str, dict[str, None]] = {}
        for each in self.times:
            if each.problem:
                problem = " ".join(each.problem.split())
                labels.setdefault(problem, {})[each.label] = None
        for problem, failed in labels.items():
            first, *others = failed
            if others:
                first += f" and {len(others)} more"
            yield escape_line(f"  {first} failed: {problem}")


def _time_text(seconds: float | None) -> str:
    if seconds is None:
        return "failed"
    return duration_text(seconds)


def tune(
    module: Module,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    threads: Dims = None,
    grid: Dims = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    devices: Sequence[Device | str | None] = (None,),
    records: Iterable[TuningRecord] | None = None,
    budget: float | None = None,
    timeout: float = TIMEOUT,
    rtol: float | None = None,
    atol: float | None = None,
) -> TuningResult:
    """Measure the variants of tuned functions on devices of this machine.

    Parameters
    ----------
    module
        The module.
    name
        The function, or a program, whose tuned kernels are measured with the arrays of their first
        steps. Default: all tuned functions of the module.
    arguments
        Name to value, as for `devmod.bench`: a str is a text as of ``devmod run``, in which the
        names of `sizes` stand for numbers. Missing arguments are made from the interface.
    threads, grid
        As for a call, for a function without a grid of its own; a str is a text such as "N,N".
    sizes
        The values of each size by its name. Each combination is measured. An integer argument of
        the same name gets the value.
    devices
        The devices or their names; None for that of a call.
    records
        The times that are known. They are not measured again. Default: the module's records.
    budget
        How long the search may take, in seconds. Default: no limit.
    timeout
        The limit in seconds for three launches of a variant, the first with its build.
    rtol, atol
        The tolerance, as for `devmod.verify`.

    Returns
    -------
    TuningResult
        The times, and `TuningResult.records` for ``module.replace_tuning_records``.

    Raises
    ------
    ArgumentError
        An argument is invalid or missing, or the function has no variants.
    FunctionNotFoundError
        The module has no such function.
    DevmodError
        A device is simulated, or no variant could be launched.

    Notes
    -----
    The launches are in another process. Each variant is launched once, and its results are compared
    with those of the first variant. A variant that differs, ends the process or takes longer than
    `timeout` has failed, and the search goes on. The others are timed in turns with the same
    inputs, by the device's clock if it has one, until the best two differ by more than their noise.
    Of more than 200 variants, a sample is measured, and then those that differ from the best in one
    constant. KeyboardInterrupt ends the search: the result has what was measured.
    """
    if records is None:
        records = module.tuning_records
    options = {"threads": threads, "grid": grid, "rtol": rtol, "atol": atol}
    tuner = Tuner(module, names_to_tune(module, name), sizes or {}, devices, records, timeout)
    return tuner.run(arguments or {}, options, budget)


def names_to_tune(module: Module, name: str | None) -> list[str]:
    """Return the names of the functions to tune. Those of a program are its tuned kernels."""
    infos = module.functions
    if name is not None and name not in infos:
        raise function_not_found(module.kind, name, list(infos))
    tuned = []
    for each, info in infos.items():
        if tuning_of(info.interface) is not None:
            tuned.append(each)
    if name is None and tuned:
        return tuned
    if name is not None:
        kernels = [each for each in kernels_of(infos[name]) if each in tuned]
        if kernels:
            return kernels
    if name in tuned:
        return [name]
    if name is None:
        raise ArgumentError("tune: the module has no tuned function: build one with tune={…}")
    others = ""
    if tuned:
        others = f"; those that have: {list_names(tuned)}"
    raise ArgumentError(
        f"tune: {name!r} has no variants{others}; build it with tune={{…}}", function=name
    )


class _Place(NamedTuple):
    """A function on a device, and what its process answers about it."""

    function: str
    variants: list[dict[str, Any]]
    sizes: tuple[str, ...]
    identity: dict[str, str]
    device: str

    def values(self, variant: int) -> tuple[Any, ...]:
        """Return the values of a variant's constants."""
        return tuple(self.variants[variant].values())

    def record(self, measured: Mapping[Any, float | None]) -> TuningRecord:
        """Return the record with times."""
        return TuningRecord(
            function=self.function,
            **self.identity,
            constants=tuple(self.variants[0]),
            sizes=self.sizes,
            measured=measured,
        )


class Tuner:
    """Tunes functions of a module. The parameters are as for `tune`.

    Parameters
    ----------
    report
        Called with a text about what is measured, and how much of all was.
    """

    def __init__(
        self,
        module: Module,
        names: Sequence[str],
        sizes: Mapping[str, Sequence[int]],
        devices: Sequence[Device | str | None],
        records: Iterable[TuningRecord],
        timeout: float,
        report: Report = lambda *_: None,
    ) -> None:
        self._module = module
        self._names = names
        self._cases = [dict(zip(sizes, each, strict=True)) for each in product(*sizes.values())]
        self._devices = [_device_name(each) for each in devices]
        self._known = list(records)
        self._timeout = timeout
        self._report = report
        self._total = len(names) * len(self._devices) * len(self._cases)
        self._done = 0
        self._end: float | None = None
        self._is_complete = True
        self._times: list[VariantTimes] = []
        self._records: list[TuningRecord] = []

    def run(
        self, arguments: Mapping[str, Any], options: Mapping[str, Any], budget: float | None
    ) -> TuningResult:
        """Return the result."""
        if budget is not None:
            self._end = monotonic() + budget
        with temporary_folder() as name:
            folder = Path(name)
            path = folder / "module.devmod"
            path.write_bytes(dumps(self._module))
            given = argument_texts(arguments, folder, count())
            settings = {**options, "module": str(path), "given": given}
            is_interrupted = False
            try:
                for function, device in product(self._names, self._devices):
                    self._tune(function, {**settings, "function": function, "device": device})
            except KeyboardInterrupt:
                is_interrupted = True
        return TuningResult(
            self._times,
            self._records,
            is_complete=self._is_complete and not is_interrupted,
            is_interrupted=is_interrupted,
        )

    def _tune(self, function: str, settings: Mapping[str, Any]) -> None:
        """Measure a function on a device."""
        with Conversation(
            "devmod_runtime.tools.tune_launches",
            settings,
            ["describe"],
            self._timeout,
            is_here=is_local([self._module]),
        ) as conversation:
            launches = _Launches(conversation)
            about = launches.about()
            if about["is_simulated"]:
                raise DevmodError(
                    f"tune: {about['device']} is a simulated device, whose times mean nothing: tune {function!r} on another one"
                )
            place = _Place(
                function,
                about["variants"],
                tuple(about["sizes"]),
                about["identity"],
                about["device"],
            )
            measured: dict[Any, float | None] = {}
            wrong: set[Any] = set()
            try:
                for case in self._cases:
                    self._measure(place, launches, case, measured, wrong)
            finally:  # also after Ctrl-C
                for key, values in measured:
                    if values in wrong:
                        measured[key, values] = None
                if measured:
                    self._records.append(place.record(measured))

    def _measure(
        self,
        place: _Place,
        launches: _Launches,
        case: dict[str, int],
        measured: dict[Any, float | None],
        wrong: set[Any],
    ) -> None:
        """Measure the variants with one combination of sizes, and add their times."""
        key = launches.open(case)
        if any(each == key for each, _ in measured):
            raise ArgumentError(
                f"tune: {place.function!r} is tuned by {list_names(place.sizes) or 'no sizes'}, and two combinations of sizes are equal in "
                "that; give one of them"
            )
        known = self._known_times(place, key)

        def report(progress: Progress) -> None:
            text = f"{place.function} {pairs_text(case, case.values())}".rstrip()
            if progress.best is not None:
                label = constants_text(place.variants[progress.best])
                text += f": best {label}, {duration_text(progress.seconds)}"
            self._report(text, (self._done + progress.share) / self._total)

        search = Search(
            launches, place.variants, known=known, seconds=self._seconds_left(), report=report
        )
        search.run()
        self._done += 1
        self._is_complete &= search.is_complete
        times = search.seconds()
        for variant, seconds in times.items():
            measured[key, place.values(variant)] = seconds
            self._times.append(_times_of(place, case, variant, search, seconds))
            timing = search.timings.get(variant)
            if timing is not None and timing.is_wrong:
                wrong.add(place.values(variant))
        self._check_usable(place, search)
        if search.is_interrupted:
            raise KeyboardInterrupt

    def _known_times(self, place: _Place, key: tuple[int, ...]) -> dict[int, float | None]:
        """Return the known times of variants on the device of a place."""
        expected = place.record({})
        known: dict[int, float | None] = {}
        for each in self._known:
            record = each.arranged(expected.constants, expected.sizes)
            if record is None or record.replace(measured={}) != expected:
                continue
            for variant, _ in enumerate(place.variants):
                entry = (key, place.values(variant))
                if entry in record.measured:
                    known[variant] = record.measured[entry]
        return known

    def _seconds_left(self) -> float | None:
        """Return what the next search may take: its share of the rest."""
        if self._end is None:
            return None
        return max(self._end - monotonic(), 0.0) / (self._total - self._done)

    def _check_usable(self, place: _Place, search: Search) -> None:
        """Raise the first problem if no variant could be launched."""
        if not search.is_complete or any(not each.problem for each in self._times):
            return
        problem = search.timings[min(search.timings)].problem
        raise DevmodError(
            f"tune: no variant of {place.function!r} can be used on {place.device}: {problem}",
            function=place.function,
        )


def _device_name(device: Device | str | None) -> str | None:
    if isinstance(device, Device):
        return device_label(device)
    return device


def _times_of(
    place: _Place, case: dict[str, int], variant: int, search: Search, seconds: float | None
) -> VariantTimes:
    """Return the times of a variant, those of this search scaled as the median is."""
    timing = search.timings.get(variant)
    problem = ""
    launches = 0
    times = (float("nan"),) * 3
    if seconds is None:
        problem = "it failed in an earlier search"
        if timing is not None:
            problem = timing.problem
    elif timing is None or variant in search.known:
        times = (seconds,) * 3
    else:
        low, high = timing.quartiles
        scale = seconds / timing.median
        times = (seconds, low * scale, high * scale)
        launches = len(timing.times)
    return VariantTimes(
        place.function, place.device, case, place.variants[variant], *times, launches, problem
    )


class _Launches:
    """Asks the process of a function's launches."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._sizes: dict[str, int] = {}
        #: The variant with which the others are compared: the first that could be launched.
        self._reference: int | None = None

    def _ask(self, *item: Any) -> tuple[dict[str, Any], str]:
        """Return the answer and "", or how the process ended."""
        answer, end = self._conversation.ask([*item])
        if end is not None:
            return {}, str(end)
        if "refused" in answer:
            text, kind, function, argument = answer["refused"]
            raise ArgumentError(text, kind=kind, function=function, argument=argument)
        return answer, ""

    def about(self) -> dict[str, Any]:
        """Return the variants, the device and the names of the sizes."""
        answer, problem = self._ask("describe")
        if problem:
            raise DevmodError(f"tune: the process that opens the device {problem}")
        return answer

    def open(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """Make the inputs for sizes. Return the values of the arguments by which the function is
        tuned.
        """
        self._sizes = sizes
        self._reference = None
        answer, problem = self._ask("open", sizes)
        if problem:
            raise DevmodError(f"tune: the process that makes the inputs {problem}")
        return tuple(answer["key"])

    def check(self, variant: int) -> Failure | None:
        """Launch a variant once, and compare its results with those of the reference."""
        reference = self._reference
        if reference is None:
            reference = variant
        answer, problem = self._ask("check", self._sizes, variant, reference)
        if problem:
            return Failure(f"its launch {problem}")
        if answer["problem"]:
            return Failure(answer["problem"], answer["is_wrong"])
        self._reference = reference
        return None

    def times(self, variant: int, limit: float) -> Sequence[float] | Failure:
        """Return the seconds of a turn."""
        answer, problem = self._ask("times", self._sizes, variant, min(limit, 1e9), self._reference)
        if problem:
            return Failure(f"its launch {problem}")
        if "problem" in answer:
            return Failure(answer["problem"])
        times: list[float] = answer["times"]
        return times
