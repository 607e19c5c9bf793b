"""`devmod.tune`: the fastest variant of tuned functions on a device of this machine, by sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, product
from math import exp, inf, isnan, log, nan
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple

from devmod import Device, Module, TuningRecord, dumps
from devmod._plugins.devices import device_label
from devmod.backend import duration_text, escape_line, is_tuned, temporary_folder, walk
from devmod.errors import (
    ArgumentError,
    DevmodError,
    count_text,
    function_not_found,
    list_names,
)
from devmod_runtime._tuning.choice import pairs_text
from devmod_runtime._tuning.noise import Estimate
from devmod_workbench._arguments import check_module, check_names
from devmod_workbench._tables import aligned
from devmod_workbench._tools.bench import Benchmark, Measurement, size_cases
from devmod_workbench._tools.launches import Conversation, Settings, is_local
from devmod_workbench._tools.program_steps import kernels_of
from devmod_workbench._tools.search import Search, Timing
from devmod_workbench._tools.trials import argument_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod_workbench._tools.values import Dims

    Report = Callable[[str, float], object]

#: The most rows of a table, and the most lines of a plot. `to_dict` has all.
_MOST_ROWS = 20
_MOST_LINES = 8
#: The most variants that a line names.
_MOST_RIVALS = 3
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
        The seconds of a turn, by those of the fastest variant in the same turns; nan if it failed.
    launches
        The number of launches that were timed; 0 if the time is one of an earlier record.
    problem
        Why it failed; "" if it did not.
    is_settled
        Whether the times tell if this variant is the fastest one.
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
    is_settled: bool = True

    @property
    def label(self) -> str:
        """The constants as text."""
        return pairs_text(self.constants)

    @property
    def size_label(self) -> str:
        """The sizes as text."""
        return pairs_text(self.sizes)


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
        self, times: Iterable[VariantTimes] = (), records: Iterable[TuningRecord] = ()
    ) -> None:
        self.times = tuple(times)
        self.records = tuple(records)
        self.is_complete = True
        self.is_interrupted = False

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
            title = ""
            if len(groups) > 1:
                title = group.title
            shown = group.shown(_MOST_LINES)
            for each in group.times:
                if each.label not in shown or each.problem:
                    continue
                sizes = each.size_label.replace(" ", "")
                seconds = (each.median, each.quartile1, each.quartile3)
                row = Measurement(each.label, title, "", sizes, "", *seconds, None, "", "")
                measurements.append(row)
        Benchmark(measurements).plot(path)

    def _groups(self) -> list[_Group]:
        groups: dict[str, _Group] = {}
        for each in self.times:
            title = f"{each.function} on {each.device}"
            groups.setdefault(title, _Group(title, [])).times.append(each)
        return [*groups.values()]

    def __str__(self) -> str:
        lines: list[str] = []
        for group in self._groups():
            lines.extend(group.lines())
            if self.is_complete:
                lines.extend(group.unsettled())
        if not self.is_complete:
            lines.append(
                "the search has not come to its end; run it again for the times that are missing or not settled"
            )
        return "\n".join(lines)

    __repr__ = __str__


class _Group(NamedTuple):
    """The times of one function on one device, and its title."""

    title: str
    times: list[VariantTimes]

    def seconds(self) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
        """Return the seconds by the variant and the size, inf of one that failed, and the shortest
        by the size. The fastest variant over all sizes comes first, and those that failed last.
        """
        found: dict[str, dict[str, float]] = {}
        best: dict[str, float] = {}
        for each in self.times:
            seconds = each.median
            if each.problem:
                seconds = inf
            size = each.size_label
            found.setdefault(each.label, {})[size] = seconds
            best[size] = min(best.get(size, inf), seconds)
        ranking = sorted(found, key=lambda label: _ratio(found[label], best))
        return {label: found[label] for label in ranking}, best

    def shown(self, count: int) -> list[str]:
        """Return the labels of the fastest variants, and of the first."""
        labels = [*self.seconds()[0]][:count]
        if self.times[0].label not in labels:
            labels.append(self.times[0].label)
        return labels

    def lines(self) -> Iterator[str]:
        """Yield a title, the table, and why variants failed."""
        seconds, best = self.seconds()
        first = self.times[0].label
        yield f"{self.title}: {count_text(len(seconds), 'variant')}"
        rows = [["variant", *(each or "time" for each in best), "to first", "wins"]]
        shown = self.shown(_MOST_ROWS)
        for label in shown:
            name = label
            if label == first:
                name += " (first)"
            own = seconds[label]
            ratio = f"{_ratio(own, seconds[first]):.2f}".replace("inf", "")
            wins = sum(own.get(size) == time < inf for size, time in best.items())
            rows.append([name, *(_cell(own.get(size)) for size in best), ratio, str(wins)])
        for line in aligned(rows):
            yield f"  {line}"
        if len(shown) < len(seconds):
            yield f"  and {count_text(len(seconds) - len(shown), 'other')}"
        yield from self._failures()

    def unsettled(self) -> Iterator[str]:
        """Yield the sizes at which it is not known which variant is the fastest."""
        by_size: dict[str, list[VariantTimes]] = {}
        for each in self.times:
            by_size.setdefault(each.size_label, []).append(each)
        for size, times in by_size.items():
            rivals = [each.label for each in times if not each.is_settled]
            if not rivals:
                continue
            text = " or ".join(rivals[:_MOST_RIVALS])
            if len(rivals) > _MOST_RIVALS:
                text += f" or {len(rivals) - _MOST_RIVALS} more"
            where = ""
            if size:
                where = f" at {size}"
            yield (
                f"not settled: this machine was busy. The fastest variant of {times[0].function}{where} is {text}; run it again. "
                "Until then, calls take the first variant unless another one is certainly faster"
            )

    def _failures(self) -> Iterator[str]:
        failed: dict[str, dict[str, None]] = {}
        for each in self.times:
            if each.problem:
                failed.setdefault(" ".join(each.problem.split()), {})[each.label] = None
        for problem, (name, *others) in failed.items():
            if others:
                name += f" and {len(others)} more"
            yield escape_line(f"  {name} failed: {problem}")


def _ratio(times: Mapping[str, float], others: Mapping[str, float]) -> float:
    """Return the geometric mean of times by others of the same sizes; inf for a variant that
    failed, and if there are none.
    """
    ratios = [inf]
    for size, seconds in times.items():
        if others.get(size, inf) < inf:
            ratios.append(log(seconds / others[size]))
    return exp(fmean(ratios[1:] or ratios))


def _cell(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds == inf:
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
    devices: str | Sequence[Device | str | None] = (None,),
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
        The function, or a program, whose tuned kernels are measured as their first steps launch
        them. Default: all tuned functions of the module.
    arguments
        Name to value, as for `devmod.bench`: a str is a text as of ``devmod run``, in which the
        names of `sizes` stand for numbers. Missing arguments are made from the interface.
    threads, grid
        As for a call, for a function without a grid of its own that no program launches; a str is a
        text such as "N,N".
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
        The limit in seconds for four launches of a variant, the first with its build.
    rtol, atol
        The tolerance, as for `devmod.verify`.

    Returns
    -------
    TuningResult
        The times, and `TuningResult.records`, which ``module.tuning_records`` may get.

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
    The launches are in another process. The results of each variant are compared with those of the
    first one. A variant that differs, ends the process or takes longer than
    `timeout` has failed, and the search goes on. The others are timed in turns with the same
    inputs, by the device's clock if it has one, until no other variant may be faster than the best
    one by 3 %, or each had 60 turns. What is not settled then is measured again by the next search.
    Of more than 200 variants, a sample is measured, and then those that differ from the best in one
    constant. KeyboardInterrupt ends the search: the result has what was measured.
    """
    check_module("tune", module)
    check_names("tune", name)
    if records is None:
        records = module.tuning_records
    if isinstance(devices, str):
        devices = [devices]
    options = {"threads": threads, "grid": grid, "rtol": rtol, "atol": atol}
    tuner = Tuner(module, name, sizes or {}, devices, tuple(records), timeout)
    tuner.run(arguments or {}, options, budget)
    return tuner.result


def _names_to_tune(module: Module, name: str | None) -> list[str]:
    """Return the names of the functions to tune. Those of a program are its tuned kernels."""
    infos = module.functions
    if name is not None and name not in infos:
        raise function_not_found(module.kind, name, list(infos))
    tuned = []
    for each in infos:
        if any(is_tuned(each, leaf) for leaf in walk(module)):
            tuned.append(each)
    wanted = tuned
    if name is not None:
        wanted = [each for each in (name, *kernels_of(infos[name])) if each in tuned]
    if wanted:
        return wanted
    if name is None:
        raise ArgumentError(
            "tune: the module has no tuned function: build one with tune={…} or --tune"
        )
    others = ""
    if tuned:
        others = f"; those that have: {list_names(tuned)}"
    raise ArgumentError(
        f"tune: {name!r} has no variants{others}; build it with tune={{…}} or --tune", function=name
    )


class Tuner:
    """Tunes functions of a module. The parameters are as for `tune`; `report` is called with a text
    about what is measured, and how much of all was.

    Attributes
    ----------
    result
        What was measured. Functions of which no variant can be used have no record.
    """

    def __init__(
        self,
        module: Module,
        name: str | None,
        sizes: Mapping[str, Sequence[int]],
        devices: Sequence[Device | str | None],
        known: Sequence[TuningRecord],
        timeout: float,
        report: Report = lambda *_: None,
    ) -> None:
        self._module = module
        self._tasks = list(product(_names_to_tune(module, name), devices))
        self._cases = size_cases(sizes)
        self._known = known
        self._timeout = timeout
        self._report = report
        self._end = inf
        #: The number of searches that were begun.
        self._begun = 0
        self.result = TuningResult()

    def run(
        self, arguments: Mapping[str, Any], options: Mapping[str, Any], budget: float | None
    ) -> None:
        """Measure. After an error too, `result` has what was measured before."""
        result = self.result
        if budget is not None:
            self._end = monotonic() + budget
        with temporary_folder() as name:
            folder = Path(name)
            path = folder / "module.devmod"
            path.write_bytes(dumps(self._module))
            settings = {
                **options,
                "module": str(path),
                "given": argument_texts(arguments, folder, count()),
                "functions": [name for name, _ in self._tasks],
            }
            try:
                for function, device in self._tasks:
                    if isinstance(device, Device):
                        device = device_label(device)
                    self._tune({**settings, "function": function, "device": device})
            except KeyboardInterrupt:
                result.is_interrupted = True
                result.is_complete = False
        if result.times and result.is_complete and not result.records:
            first = result.times[0]
            raise DevmodError(
                f"tune: no variant of {first.function!r} can be used on {first.device}: {first.problem}",
                function=first.function,
            )

    def _tune(self, settings: Settings) -> None:
        """Measure a function on a device."""
        keys = set()
        measured: dict[Any, Estimate] = {}
        with _Launches(
            "devmod_workbench._tools.tune_launches",
            settings,
            self._timeout,
            is_here=is_local([self._module]),
            captures=True,  # a driver prints why it ends, which is a result here
        ) as launches:
            try:
                for case in self._cases:
                    launches.open(case)
                    if launches.key in keys:
                        raise ArgumentError(
                            f"tune: {launches.record.function!r} is tuned by {list_names(launches.record.sizes) or 'no sizes'}, and two "
                            "combinations of sizes are equal in that; give one of them"
                        )
                    keys.add(launches.key)
                    self._run_search(launches, measured)
            finally:
                if any(each.seconds for each in measured.values()):
                    self.result.records += (_with_times(launches.record, measured),)

    def _run_search(self, launches: _Launches, measured: dict[Any, Estimate]) -> None:
        """Search with the inputs that are open, and add the times by key and values."""
        done = self._begun
        total = len(self._tasks) * len(self._cases)
        subject = f"{launches.record.function} {pairs_text(launches.case)}".rstrip()

        def report(share: float, best: int | None, seconds: float) -> None:
            text = subject
            if best is not None:
                constants = pairs_text(launches.variants[best])
                text += f": best {constants}, {duration_text(seconds)}"
            self._report(text, (done + share) / total)

        search = Search(
            launches.times,
            launches.variants,
            known=launches.known(self._known),
            seconds=max(self._end - monotonic(), 0.0) / (total - done),
            report=report,
        )
        self._begun += 1
        try:
            search.run()
        finally:
            self.result.is_complete &= search.is_complete
            rivals: set[int | None] = {*search.unsettled()}
            if rivals:
                rivals.add(search.best)
            for variant, time in search.results().items():
                row = launches.row(search, variant, time)
                self.result.times += (row._replace(is_settled=variant not in rivals),)
                values = tuple(launches.variants[variant].values())
                measured[launches.key, values] = time


def _with_times(record: TuningRecord, measured: Mapping[Any, Estimate]) -> TuningRecord:
    """Return a record with times."""
    seconds = {case: time.seconds for case, time in measured.items()}
    turns = {case: (time.turns, time.spread) for case, time in measured.items() if time.turns}
    return record.replace(measured=seconds, turns=turns)


class _Launches(Conversation):
    """Asks the process of a function's launches on a device.

    Attributes
    ----------
    case, key
        The sizes by name of the inputs that are open, and the values of the arguments by which the
        function is tuned.
    device, variants, record
        The name of the device, the constants of the variants, and a record without times.
    """

    case: dict[str, int]
    key: tuple[int, ...]
    device: str
    variants: list[dict[str, Any]]
    record: TuningRecord
    #: The variant with which the others are compared: the first that could be launched.
    _reference: int | None
    #: Whether the process has launched variants.
    _is_used = False

    def open(self, case: dict[str, int]) -> None:
        """Make the inputs for sizes."""
        self.first = ["open", case]
        about, end = self.ask(self.first)
        if end is not None:
            raise DevmodError(f"tune: opening the device and making the inputs {end}")
        self.case = case
        self.key = tuple(about["key"])
        self.device = about["device"]
        self.variants = about["variants"]
        self.record = TuningRecord.from_dict(about["record"])
        self._reference = None

    def times(self, variant: int, limit: float) -> Timing:
        """Return the seconds of a turn, unless the variant's results differ from the
        reference's.

        A variant that fails may have damaged its process, or was in one that another variant has
        damaged. So it is launched again in a new process, and the next variant is in another one.
        """
        timing = self._turn(variant, limit)
        if timing.is_refused:
            return timing
        if timing.problem and self._is_used:
            self.__exit__()
            timing = self._turn(variant, limit)
        self._is_used = not timing.problem
        if timing.problem:
            self.__exit__()
        return timing

    def _turn(self, variant: int, limit: float) -> Timing:
        reference = self._reference
        if reference is None:
            reference = variant
        answer, end = self.ask(["times", variant, reference, limit])
        if end is not None:
            return Timing((), f"its launch {end}")
        timing = Timing(*answer)
        if not timing.problem:
            self._reference = reference
        return timing

    def known(self, records: Iterable[TuningRecord]) -> dict[int, Estimate]:
        """Return the times of variants that records have of the same device and driver. A variant
        that was wrong is so with other sizes too.
        """
        numbers = {tuple(each.values()): number for number, each in enumerate(self.variants)}
        known = {}
        for each in records:
            record = each.arranged(self.record.constants, self.record.sizes)
            if record is None or record.replace(measured={}, turns={}) != self.record:
                continue
            for case, seconds in record.measured.items():
                key, values = case
                if values in numbers and (key == self.key or seconds is False):
                    turns = record.turns.get(case, (0, 0.0))
                    known[numbers[values]] = Estimate(seconds, *turns)
        return known

    def row(self, search: Search, variant: int, time: Estimate) -> VariantTimes:
        """Return what is known of a variant with the inputs that are open."""
        earlier = "it failed in an earlier search; --again launches it"
        timing = search.timings.get(variant, Timing((), earlier))
        launches = 0
        problem = ""
        times = (nan, nan, nan)
        seconds = time.seconds
        if not seconds:
            problem = timing.problem
        elif isnan(time.quartile1):
            times = (seconds, seconds, seconds)
        else:
            times = (seconds, time.quartile1, time.quartile1 + time.spread)
            launches = len(timing.times)
        about = (self.record.function, self.device, self.case, self.variants[variant])
        return VariantTimes(*about, *times, launches, problem)
