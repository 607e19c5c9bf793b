"""`devmod.tune`: the fastest variant of tuned functions on a device of this machine, by sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, product
from math import exp, inf, log, nan
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
from devmod_runtime.tools.bench import Benchmark, Measurement, aligned
from devmod_runtime.tools.launches import Conversation, is_local
from devmod_runtime.tools.program_steps import kernels_of
from devmod_runtime.tools.search import Search, Timing
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
            title = ""
            if len(groups) > 1:
                title = group.title
            shown = {group.default, *group.ranking[:_MOST_LINES]}
            for each in group.times:
                if each.label not in shown or each.problem:
                    continue
                sizes = ",".join(f"{name}={value}" for name, value in each.sizes.items())
                seconds = (each.median, each.quartile1, each.quartile3)
                row = Measurement(each.label, title, "", sizes, "", *seconds, None, "", "")
                measurements.append(row)
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


class _Group:
    """The times of one function on one device.

    Attributes
    ----------
    title, times
        The function with the device, and the times.
    default
        The label of the first variant.
    ranking
        The labels of the variants, the fastest over all sizes first and those that failed last.
    """

    def __init__(self, times: Sequence[VariantTimes]) -> None:
        self.title = f"{times[0].function} on {times[0].device}"
        self.times = times
        self.default = times[0].label
        #: The seconds by the variant and the size; inf if it failed. And the shortest by the size.
        self._seconds: dict[str, dict[str, float]] = {}
        self._best: dict[str, float] = {}
        for each in times:
            seconds = each.median
            if each.problem:
                seconds = inf
            size = each.size_label
            self._seconds.setdefault(each.label, {})[size] = seconds
            self._best[size] = min(self._best.get(size, inf), seconds)
        self.ranking = sorted(self._seconds, key=lambda each: self._ratio(each, self._best))

    def _ratio(self, label: str, others: Mapping[str, float]) -> float:
        """Return the geometric mean of a variant's times by others of the same sizes; inf if it
        failed, and if there are none.
        """
        ratios = []
        for size, seconds in self._seconds[label].items():
            if others.get(size, inf) < inf:
                ratios.append(log(seconds / others[size]))
        if not ratios:
            return inf
        return exp(fmean(ratios))

    def lines(self) -> Iterator[str]:
        """Yield a title, the table, and why variants failed."""
        yield f"{self.title}: {len(self.ranking)} variants"
        rows = [["variant", *(each or "time" for each in self._best), "to first", "wins"]]
        shown = self.ranking[:_MOST_ROWS]
        if self.default not in shown:
            shown.append(self.default)
        rows += map(self._row, shown)
        for line in aligned(rows):
            yield f"  {line}"
        if len(shown) < len(self.ranking):
            yield f"  and {len(self.ranking) - len(shown)} others"

        failed: dict[str, list[str]] = {}
        for each in self.times:
            if each.problem:
                failed.setdefault(" ".join(each.problem.split()), []).append(each.label)
        for problem, labels in failed.items():
            names = list(dict.fromkeys(labels))
            if len(names) > 1:
                names[0] += f" and {len(names) - 1} more"
            yield escape_line(f"  {names[0]} failed: {problem}")

    def _row(self, label: str) -> list[str]:
        row = [label]
        if label == self.default:
            row[0] += " (first)"
        wins = 0
        for size, shortest in self._best.items():
            seconds = self._seconds[label].get(size)
            text = ""
            if seconds == inf:
                text = "failed"
            elif seconds is not None:
                text = duration_text(seconds)
                wins += seconds == shortest
            row.append(text)
        ratio = f"{self._ratio(label, self._seconds[self.default]):.2f}"
        return [*row, ratio.replace("inf", ""), str(wins)]


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
    names = names_to_tune(module, name)
    tuner = Tuner(module, names, sizes or {}, devices, tuple(records), timeout)
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


class Tuner:
    """Tunes functions of a module. The parameters are as for `tune`; `report` is called with a text
    about what is measured, and how much of all was.
    """

    def __init__(
        self,
        module: Module,
        names: Sequence[str],
        sizes: Mapping[str, Sequence[int]],
        devices: Sequence[Device | str | None],
        known: Sequence[TuningRecord],
        timeout: float,
        report: Report = lambda *_: None,
    ) -> None:
        self._module = module
        self._tasks = list(product(names, devices))
        self._cases = [dict(zip(sizes, each, strict=True)) for each in product(*sizes.values())]
        self._known = known
        self._timeout = timeout
        self._report = report
        self._total = len(self._tasks) * len(self._cases)
        self._done = 0
        self._end = inf
        self._is_complete = True
        self._times: list[VariantTimes] = []
        self._records: list[TuningRecord] = []

    def run(
        self, arguments: Mapping[str, Any], options: Mapping[str, Any], budget: float | None
    ) -> TuningResult:
        """Return the result."""
        if budget is not None:
            self._end = monotonic() + budget
        is_interrupted = False
        with temporary_folder() as name:
            folder = Path(name)
            path = folder / "module.devmod"
            path.write_bytes(dumps(self._module))
            given = argument_texts(arguments, folder, count())
            settings = {**options, "module": str(path), "given": given}
            try:
                for function, device in self._tasks:
                    self._tune({**settings, "function": function, "device": _device_name(device)})
            except KeyboardInterrupt:
                is_interrupted = True
        return TuningResult(
            self._times,
            self._records,
            is_complete=self._is_complete and not is_interrupted,
            is_interrupted=is_interrupted,
        )

    def _tune(self, settings: Mapping[str, Any]) -> None:
        """Measure a function on a device."""
        with Conversation(
            "devmod_runtime.tools.tune_launches",
            settings,
            ["describe"],
            self._timeout,
            is_here=is_local([self._module]),
        ) as conversation:
            launches = _Launches(conversation, settings["function"])
            measured: dict[Any, float | None] = {}
            wrong: set[Any] = set()
            try:
                for case in self._cases:
                    self._measure(launches, case, measured, wrong)
            finally:  # also after Ctrl-C
                for key, values in measured:
                    if values in wrong:
                        measured[key, values] = None
                if measured:
                    self._records.append(launches.record(measured))

    def _measure(
        self,
        launches: _Launches,
        case: dict[str, int],
        measured: dict[Any, float | None],
        wrong: set[Any],
    ) -> None:
        """Measure the variants with one combination of sizes, and add their times."""
        key = launches.open(case)
        if any(each == key for each, _ in measured):
            raise ArgumentError(
                f"tune: {launches.function!r} is tuned by {list_names(launches.sizes) or 'no sizes'}, and two combinations of sizes are "
                "equal in that; give one of them"
            )

        def report(share: float, best: int | None, seconds: float) -> None:
            text = f"{launches.function} {pairs_text(case, case.values())}".rstrip()
            if best is not None:
                text += (
                    f": best {constants_text(launches.variants[best])}, {duration_text(seconds)}"
                )
            self._report(text, (self._done + share) / self._total)

        search = Search(
            launches,
            launches.variants,
            known=launches.known(self._known, key),
            seconds=max(self._end - monotonic(), 0.0) / (self._total - self._done),
            report=report,
        )
        search.run()
        self._done += 1
        self._is_complete &= search.is_complete
        for variant, seconds in search.seconds().items():
            constants = launches.variants[variant]
            values = tuple(constants.values())
            measured[key, values] = seconds
            timing = search.timings.get(variant, Timing((), "it failed in an earlier search"))
            times = _times_of(timing, seconds, is_known=variant in search.known)
            self._times.append(
                VariantTimes(launches.function, launches.device, case, constants, *times)
            )
            if timing.is_wrong:
                wrong.add(values)
        if search.is_complete and all(each.problem for each in self._times):
            raise DevmodError(
                f"tune: no variant of {launches.function!r} can be used on {launches.device}: {self._times[0].problem}",
                function=launches.function,
            )
        if search.is_interrupted:
            raise KeyboardInterrupt


def _device_name(device: Device | str | None) -> str | None:
    if isinstance(device, Device):
        return device_label(device)
    return device


def _times_of(
    timing: Timing, seconds: float | None, *, is_known: bool
) -> tuple[float, float, float, int, str]:
    """Return the median and the quartiles of a variant, scaled as `Search.seconds` is, its launches
    and its problem.
    """
    if seconds is None:
        return nan, nan, nan, 0, timing.problem
    if is_known:
        return seconds, seconds, seconds, 0, ""
    low, high = timing.quartiles
    scale = seconds / timing.median
    return seconds, low * scale, high * scale, len(timing.times), ""


class _Launches:
    """Asks the process of a function's launches on a device.

    Attributes
    ----------
    function, device, variants, sizes
        Its name, that of the device, the constants of its variants, and the names of the arguments
        by which it is tuned.
    """

    def __init__(self, conversation: Conversation, function: str) -> None:
        self._conversation = conversation
        self.function = function
        about = self._ask("opens the device", "describe")
        self.device: str = about["device"]
        self.variants: list[dict[str, Any]] = about["variants"]
        self.sizes: list[str] = about["sizes"]
        self._identity: dict[str, str] = about["identity"]
        if about["is_simulated"]:
            raise DevmodError(
                f"tune: {self.device} is a simulated device, whose times mean nothing: tune {function!r} on another one"
            )
        self._case: dict[str, int] = {}
        #: The variant with which the others are compared: the first that could be launched.
        self._reference: int | None = None

    def _ask(self, work: str, *item: Any) -> dict[str, Any]:
        """Return the answer to an item; without `work`, also the end of the process is one."""
        answer, end = self._conversation.ask([*item])
        if end is not None:
            if work:
                raise DevmodError(f"tune: the process that {work} {end}")
            return {"problem": f"its launch {end}"}
        if "refused" in answer:
            text, kind, function, argument = answer["refused"]
            raise ArgumentError(text, kind=kind, function=function, argument=argument)
        found: dict[str, Any] = answer
        return found

    def record(self, measured: Mapping[Any, float | None]) -> TuningRecord:
        """Return the record with times."""
        return TuningRecord(
            self.function,
            **self._identity,
            constants=tuple(self.variants[0]),
            sizes=tuple(self.sizes),
            measured=measured,
        )

    def known(
        self, records: Iterable[TuningRecord], key: tuple[int, ...]
    ) -> dict[int, float | None]:
        """Return the times of variants that records have of the same device and driver."""
        expected = self.record({})
        known: dict[int, float | None] = {}
        for each in records:
            record = each.arranged(expected.constants, expected.sizes)
            if record is None or record.replace(measured={}) != expected:
                continue
            for number, constants in enumerate(self.variants):
                entry = (key, tuple(constants.values()))
                if entry in record.measured:
                    known[number] = record.measured[entry]
        return known

    def open(self, case: dict[str, int]) -> tuple[int, ...]:
        """Make the inputs for sizes. Return the values of the arguments by which the function is
        tuned.
        """
        self._case = case
        self._reference = None
        return tuple(self._ask("makes the inputs", "open", case)["key"])

    def check(self, variant: int) -> Timing:
        """Launch a variant once, and compare its results with those of the reference."""
        reference = self._reference
        if reference is None:
            reference = variant
        timing = Timing(**self._ask("", "check", self._case, variant, reference))
        if not timing.problem:
            self._reference = reference
        return timing

    def times(self, variant: int, limit: float) -> Timing:
        """Return the seconds of a turn."""
        return Timing(**self._ask("", "times", self._case, variant, self._reference, limit))
