"""`devmod.bench`: functions of several files, on several devices, with several sizes and blocks,
side by side.
"""

from __future__ import annotations

import csv
import os
from contextlib import suppress
from io import BytesIO, StringIO
from itertools import product
from operator import index
from pathlib import Path
from re import split
from shlex import quote
from time import perf_counter
from typing import NamedTuple

from devmod import Module
from devmod import device as find_device
from devmod._plugins.devices import device_label
from devmod.backend import duration_text, replacing, usable_functions, walk
from devmod.errors import (
    ArgumentError,
    DevmodError,
    FunctionNotFoundError,
    ToolchainNotFoundError,
    pip_install,
)
from devmod_workbench._arguments import check_names, check_values, modules_of
from devmod_workbench._tables import aligned
from devmod_workbench._tools.draws import NotFromInterfaceError
from devmod_workbench._tools.inputs import (
    Invented,
    RandomImage,
    arguments_of,
    call_once,
    call_with,
    has_argument,
    has_grid,
    on_device,
    parameters,
    program_of,
)
from devmod_workbench._tools.launches import (
    Answer,
    Settings,
    argument_error,
    describe_argument_error,
    describe_launch,
    launched,
    open_modules,
)
from devmod_workbench._tools.profile import profile
from devmod_workbench._tools.program_steps import first_launch, kernels_of, program_with
from devmod_workbench._tools.values import read_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod import Device, Function, Launch, ProgramFunction
    from devmod.worker import End
    from devmod_workbench._tools.inputs import Arguments, Given
    from devmod_workbench._tools.values import Dims

    #: The fields of each `Measurement`, and what `describe_argument_error` returns of the error of
    #: the arguments, if it is one.
    Measured = tuple[Sequence[Sequence[Any]], Sequence[str] | None]
else:
    from devmod.backend import np

_TITLES = (
    "file",
    "function",
    "device",
    "sizes",
    "block",
    "median",
    "25 %",
    "75 %",
    "GB/s",
    "clock",
    "share",
)
#: The columns that a table leaves out if none of its rows has them.
_SPARSE = ("sizes", "block", "share")

_PLOTS = (".svg", ".png", ".pdf")


class Measurement(NamedTuple):
    """The times of one function on one device.

    Attributes
    ----------
    file, function
        The label of the module, and the function; for a kernel in the calls of a program both
        names, as in "normalize: scale".
    device
        The kind and the number of the device, such as "opencl:0".
    sizes
        The sizes, as in "N=1024"; "" without sizes.
    block
        The block that was given, as in "16,16"; "" for the function's own.
    median, quartile1, quartile3
        The seconds of a launch, or of all launches of a kernel in a call of a program; nan if there
        is a problem.
    gb_per_s
        The bytes of the arrays that the kernel reads and writes, in 1e9 bytes for each second of
        the median. An array that it may both read and write counts twice; of a program the
        constants too, without the temporaries; of a kernel in its calls each array once. None if an
        array of a kernel was made from the interface, or if there is a problem.
    clock
        "device" for its own time stamps; "host" for the time from the launch to the end of the
        wait, if the device has none.
    problem
        Why there are no times; "" if there are.
    share
        The part of the time of all kernels of a program that its kernel takes, such as 0.25; None
        for other rows.
    """

    file: str
    function: str
    device: str
    sizes: str
    block: str
    median: float
    quartile1: float
    quartile3: float
    gb_per_s: float | None
    clock: str
    problem: str
    share: float | None = None

    @property
    def label(self) -> str:
        """What was measured, as one text."""
        block = self.block and f"block {self.block}"
        parts = (self.file, self.function, self.device, self.sizes, block)
        return " ".join(filter(None, parts))


class Benchmark:
    """The result of `devmod.bench`. Its text is a table.

    Attributes
    ----------
    measurements
        A `Measurement` for each combination.
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self.measurements = tuple(measurements)

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements as plain data."""
        return {"measurements": [each._asdict() for each in self.measurements]}

    def to_csv(self) -> str:
        """Return the measurements as CSV, with the names of the columns in the first line and times
        in seconds.
        """
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Measurement._fields)
        writer.writerows(self.measurements)
        return text.getvalue()

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a plot: the median of each measurement with its quartiles. A single size with
        several values is the axis of lines.

        The suffix of `path` is the format: .svg, .png or .pdf. The file is written whole, or it is
        unchanged.

        Raises
        ------
        ArgumentError
            The suffix is another one.
        ToolchainNotFoundError
            matplotlib is not installed.
        """
        form = plot_format(path)
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ToolchainNotFoundError(
                f"a plot needs matplotlib, which is not installed: {pip_install('matplotlib')}"
            ) from None
        good = [each for each in self.measurements if not each.problem]
        lines: dict[str, dict[int, Measurement]] = {}
        for each in good:
            if each.sizes.count("=") == 1:
                size = int(each.sizes.partition("=")[2])
                lines.setdefault(each._replace(sizes="").label, {})[size] = each
        if lines and all(len(points) > 1 for points in lines.values()):
            figure = Figure(figsize=(8, 4.5), layout="constrained")
            _draw_curves(figure.add_subplot(), lines, good[0].sizes.partition("=")[0])
        else:
            figure = Figure(figsize=(8, 1 + 0.4 * len(good)), layout="constrained")
            _draw_bars(figure.add_subplot(), good)
        content = BytesIO()
        figure.savefig(content, format=form)
        with replacing(path) as file:
            file.write(content.getbuffer())

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [_TITLES]
        problems: dict[str, list[str]] = {}
        for each in self.measurements:
            figures = ["not measured", "", "", "", "", ""]
            if each.problem:
                problems.setdefault(each.problem, []).append(each.label)
            else:
                times = map(duration_text, (each.median, each.quartile1, each.quartile3))
                rate = share = ""
                if each.gb_per_s is not None:
                    rate = f"{each.gb_per_s:.3g}"
                if each.share is not None:
                    share = f"{each.share:.1%}"
                figures = [*times, rate, each.clock, share]
            rows.append((each.file, each.function, each.device, each.sizes, each.block, *figures))

        columns = []
        for column in zip(*rows, strict=True):
            title, *cells = column
            if any(cells) or title not in _SPARSE:
                columns.append(column)
        lines = aligned([*zip(*columns, strict=True)])
        # A cell of a problem would be wider than the rest of the table.
        for problem, labels in problems.items():
            lines += ["", f"{', '.join(labels)}: {problem}"]
        return "\n".join(lines)

    __repr__ = __str__


def _milliseconds(measurements: Iterable[Measurement]) -> np.ndarray[Any, Any]:
    """Return the first quartiles, the medians and the third quartiles."""
    rows = [(each.quartile1, each.median, each.quartile3) for each in measurements]
    return np.reshape(rows, (-1, 3)).T * 1e3


def _draw_curves(axes: Any, lines: Mapping[str, Mapping[int, Measurement]], size_name: str) -> None:
    """Draw a line for each label, over the values of one size."""
    for label, points in lines.items():
        sizes = [*points]
        low, median, high = _milliseconds(points.values())
        axes.plot(sizes, median, marker="o", label=label)
        axes.fill_between(sizes, low, high, alpha=0.2)
    axes.set(xlabel=size_name, ylabel="milliseconds", xscale="log", yscale="log")
    axes.legend()


def _draw_bars(axes: Any, measurements: Sequence[Measurement]) -> None:
    """Draw a bar for each measurement, with its quartiles."""
    labels = [each.label for each in measurements]
    low, median, high = _milliseconds(measurements)
    axes.barh(labels, median, xerr=[median - low, high - median], height=0.6)
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds")


def plot_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a plot by its suffix, or raise ArgumentError."""
    suffix = Path(path).suffix.lower()
    if suffix not in _PLOTS:
        raise ArgumentError(
            f"plot({os.fspath(path)!r}): expected a file {', '.join(_PLOTS)}", argument="path"
        )
    return suffix[1:]


def bench(
    modules: Module | Mapping[str, Module],
    names: str | Sequence[str] | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    threads: Dims = None,
    grid: Dims = None,
    blocks: Sequence[Dims] = (None,),
    devices: str | Sequence[Device | str | None] = (None,),
    sizes: Mapping[str, Sequence[int]] | None = None,
    repeat: int = 20,
    warmup: int = 3,
    kernels: bool = False,
) -> Benchmark:
    """Measure functions by prepared launches: each module, function, device, combination of sizes,
    and block.

    Parameters
    ----------
    modules
        A module, or several by the labels of their rows.
    names
        The functions. Default: all functions of the modules, without the kernels that their
        programs launch. Such a kernel is measured as in the first call of its program, unless its
        threads, its grid, its block or an argument that its program lacks is given.
    arguments
        Name to value. A str is a text as of ``devmod run``, in which the names of `sizes` stand for
        numbers: "random:float32[N,N]". They are used for each function that has such a parameter.
        Missing arguments are made from the interface: arrays of 262,144 random numbers, integers of
        16, floats of 0.5. The name of a program's length has a number; arrays of a program have the
        declared shapes, for the lengths of `arguments` and `sizes`, and for small ones that it
        accepts.
    threads, grid
        As for a call; a str is a text such as "N,N".
    blocks
        The blocks; None for the function's own.
    devices
        The devices or their names; None for that of a call.
    sizes
        The values of each size by its name. Each combination is measured.
    repeat, warmup
        The measured launches, and those before them.
    kernels
        Whether to add a row for each kernel that a program launches, with its share of the time.

    Raises
    ------
    ArgumentError
        An argument is invalid in every combination, or no function has it.
    FunctionNotFoundError
        No module has such a function.
    DevmodError
        As for `devmod.device`.

    Notes
    -----
    Each array is copied to the device once, and each launch gets what the one before has written. A
    combination that cannot be measured, such as a function without a candidate for a device or a
    block beyond its limit, has a `problem`.
    """
    for name, count, least in (("repeat", repeat, 1), ("warmup", warmup, 0)):
        if not isinstance(count, int) or count < least:
            raise ArgumentError(
                f"bench({name}): expected an int of {least} or more, got {count!r}", argument=name
            )
    labelled = modules_of("bench", modules)
    check_names("bench", names)
    check_values("bench", arguments)
    if isinstance(names, str):
        names = [names]
    if isinstance(devices, str):
        devices = [devices]
    targets = [_device(each) for each in devices]
    functions = functions_of(labelled, names)
    measure = Measure(labelled, functions, arguments or {}, threads, grid, repeat, warmup, kernels)
    return benchmark_of(
        [measure(each) for each in combinations(labelled, functions, targets, sizes or {}, blocks)]
    )


def _device(device: Device | str | None) -> Device | None:
    if isinstance(device, str):
        return find_device(device)
    return device


def functions_of(
    modules: Mapping[str, Module], wanted: Sequence[str] | None
) -> list[tuple[str, str]]:
    """Return the label and the name of each function to measure; of a module with programs, none of
    the kernels that they launch, unless they are wanted.
    """
    functions = []
    for label, module in modules.items():
        names: Iterable[str] = wanted or ()
        if wanted is None:
            launched: set[str] = set()
            for part in walk(module):  # a program of another kind has kernels of its own
                for _, info in usable_functions(part.functions):
                    launched.update(kernels_of(info))
            names = [name for name in module if name not in launched]
        for name in names:
            # Of several files, another one may have it.
            is_elsewhere = any(name in each for each in modules.values())
            if name in module or not is_elsewhere:
                functions.append((label, name))
    return functions


class Combination(NamedTuple):
    """What a row of a benchmark measures."""

    function: tuple[str, str]
    device: Device | str | None
    sizes: dict[str, int]
    block: Dims

    def measurement(
        self,
        device: str,
        times: Sequence[float] = (float("nan"),) * 3,
        gb_per_s: float | None = None,
        clock: str = "",
        problem: str = "",
    ) -> Measurement:
        """Return its row."""
        low, median, high = times
        sizes = ",".join(f"{name}={value}" for name, value in self.sizes.items())
        place = (*self.function, device, sizes, _dims_text(self.block))
        return Measurement(*place, median, low, high, gb_per_s, clock, problem)

    def kernel_measurements(
        self, function: ProgramFunction, call: Arguments, device: str, repeat: int
    ) -> list[Measurement]:
        """Call a program, and return a row for each kernel, the longest first."""
        times: dict[str, list[float]] = {}
        nbytes: dict[str, int] = {}
        with profile() as recorded:
            for _ in range(repeat):
                call_with(function, call, {})
        sums: dict[str, float] = {}
        for each in recorded.records:
            if each.action == "call":
                for name, seconds in sums.items():
                    times.setdefault(name, []).append(seconds)
                sums.clear()
            elif each.action == "launch":
                if each.on_device is None:
                    raise DevmodError(
                        f"{device} has no times of the kernels in a program: `devmod profile` shows those of the host"
                    )
                sums[each.name] = sums.get(each.name, 0.0) + each.on_device
                nbytes[each.name] = nbytes.get(each.name, 0) + each.nbytes

        medians = {name: float(np.median(each)) for name, each in times.items()}
        total = sum(medians.values())
        rows = []
        for name, median in sorted(medians.items(), key=lambda each: -each[1]):
            quartiles = np.percentile(times[name], (25, 50, 75)).tolist()
            rate = None
            if median > 0:
                rate = nbytes[name] / len(times[name]) / median * 1e-9
            share = None
            if total > 0:
                share = median / total
            kernel = self._replace(function=(self.function[0], name))
            row = kernel.measurement(device, quartiles, rate, "device")
            rows.append(row._replace(share=share))
        return rows


def combinations(
    modules: Mapping[str, Module],
    functions: Sequence[tuple[str, str]],
    devices: Sequence[Device | str | None],
    sizes: Mapping[str, Sequence[int]],
    blocks: Sequence[Dims],
) -> list[Combination]:
    """Return the combinations in the order of the rows. Beside kernels, a program has one without a
    block.
    """
    cases = size_cases(sizes)
    programs = _programs_of(modules, functions)
    rows: list[Combination] = []
    for each in functions:
        own_blocks = blocks
        if each in programs and len(programs) < len(functions):
            own_blocks = (None,)
        rows += [Combination(each, *rest) for rest in product(devices, cases, own_blocks)]
    return rows


def _programs_of(
    modules: Mapping[str, Module], functions: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return those of the functions that are programs."""
    programs = []
    for label, name in functions:
        infos = dict(usable_functions(modules[label].functions))
        if name in infos and kernels_of(infos[name]):
            programs.append((label, name))
    return programs


def size_cases(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Return the combinations of sizes. Raise ArgumentError for values that are no lists."""
    try:
        values = [[*map(index, each)] for each in sizes.values()]
    except (AttributeError, TypeError):
        values = [[]]
    if not all(min(each, default=0) > 0 for each in values):
        raise ArgumentError(
            f"sizes: expected lists of positive whole numbers by name, such as {{'n': [1000]}}, got {sizes!r:.200}",
            argument="sizes",
        )
    return [dict(zip(sizes, each, strict=True)) for each in product(*values)]


def benchmark_of(measured: Sequence[Measured]) -> Benchmark:
    """Return the benchmark, or raise the error of the arguments if each combination has one."""
    refused = [error for _, error in measured if error is not None]
    if len(refused) == len(measured) > 0:
        raise argument_error(refused[0])
    return Benchmark([Measurement(*row) for rows, _ in measured for row in rows])


class Measure(NamedTuple):
    """Measures combinations. The fields are as for `bench`."""

    modules: Mapping[str, Module]
    functions: Sequence[tuple[str, str]]
    given: Given
    threads: Dims
    grid: Dims
    repeat: int
    warmup: int
    kernels: bool = False

    def __call__(self, combination: Combination) -> Measured:
        """Return the rows, one with the problem if there is one; and the error of the arguments, if
        it is one.
        """
        device = _device(combination.device)
        clock = problem = ""
        times = [np.nan]
        nbytes = 0
        refused = None
        rows: list[Measurement] = []
        try:
            label, name = combination.function
            function = self.modules[label][name]
            device = device or function.default_device()
            function = function.on(device)
            call, shape, is_sized = self._call(combination, function)
            program = program_of(function)
            if program is not None:
                # Its arrays have the sizes that it declares, and the outputs of a call.
                is_sized = True
                _, call = call_once(function, call)
            if is_sized:
                nbytes = _moved(function, call)
            launch = call_with(function.bind, call, shape)
            times, clock = _times(launch, self.repeat, self.warmup)
            if self.kernels and program is not None:
                rows = combination.kernel_measurements(
                    program, call, device_label(device), self.repeat
                )
        except FunctionNotFoundError:
            raise
        except (DevmodError, NotFromInterfaceError) as error:
            refused = describe_argument_error(error)
            problem = " ".join(str(error).split())  # of a bundle it has a line for each candidate

        low, median, high = np.percentile(times, (25, 50, 75)).tolist()
        rate = None
        if nbytes and median > 0:
            rate = nbytes / median * 1e-9
        place = ""
        if device:
            place = device_label(device)
        row = combination.measurement(place, (low, median, high), rate, clock, problem)
        return [row, *rows], refused

    def _call(
        self, combination: Combination, function: Function
    ) -> tuple[Arguments, dict[str, Any], bool]:
        """Return the arguments on the device, the keywords of the launch, and whether no array was
        made from the interface.
        """
        label, name = combination.function
        module = self.modules[label]
        others = [(self.modules[each], name) for each, name in self.functions]
        extent = (self.threads, self.grid, combination.block)
        owner = program_with(module, name)
        if owner and extent == (None, None, None):
            program = module[owner].on(function.default_device())
            others.append((module, owner))
            if all(
                has_argument(program, each) or not has_argument(function, each)
                for each in self.given
            ):
                self._check_sizes(combination, others)
                given = own_arguments(program, self.given, others)
                host = arguments_of(program, given, combination.sizes, Invented())
                step = first_launch(program, name, host)
                if not step.arguments:
                    raise ArgumentError(
                        f"{program.label} does not launch {name!r} with these arguments: give others, or those of {name!r} and the threads",
                        kind=function.kind,
                        function=name,
                    )
                return on_device(function, step.arguments), step.extent, True

        self._check_sizes(combination, others)
        given = own_arguments(function, self.given, others)
        host = arguments_of(function, given, combination.sizes, Invented())
        shape = {}
        # Without a kernel that takes them, they are an error of the program.
        programs = _programs_of(self.modules, self.functions)
        if has_grid(function) or len(programs) == len(self.functions):
            dims = dict(zip(("threads", "grid", "block"), extent, strict=True))
            shape = read_launch(dims, combination.sizes, "")
        return on_device(function, host), shape, _gives_arrays(host, given)

    def _check_sizes(
        self, combination: Combination, functions: Sequence[tuple[Module, str]]
    ) -> None:
        """Raise ArgumentError for a size that changes no launch: its rows would be wrong."""
        texts = (*self.given.values(), self.threads, self.grid, combination.block)
        parts: set[str] = set()
        for each in texts:
            if isinstance(each, str):
                parts.update(map(str.strip, split(r"[],*:()\[]", each)))
        for name in combination.sizes.keys() - parts:
            if _is_length(name, functions):
                continue
            advice = ""
            if is_known(name, functions):
                advice = f"; give {name}={name} for the argument of this name"
            error = ArgumentError(
                f"the size {name!r} is in no argument, threads=, grid= or block=, and is no length of a program{advice}",
                argument="sizes",
            )
            error.keywords = ("threads", "grid", "block")
            raise error


def own_arguments(
    function: Function, given: Given, others: Sequence[tuple[Module, str]]
) -> dict[str, Any]:
    """Return the arguments that a function has. A name that no function has is passed to all of
    them, which raise the error.
    """
    return {
        name: value
        for name, value in given.items()
        if has_argument(function, name) or not is_known(name, others)
    }


def is_known(name: str, functions: Iterable[tuple[Module, str]]) -> bool:
    """Return whether a function of a module has an argument of the name."""
    for module, each in functions:
        # One that fits no device here is the problem of its own rows.
        with suppress(DevmodError):
            if has_argument(module[each], name):
                return True
    return False


def _is_length(name: str, functions: Iterable[tuple[Module, str]]) -> bool:
    """Return whether a program among functions has a length of the name."""
    for module, each in functions:
        with suppress(DevmodError):
            program = program_of(module[each])
            if program is not None and name in program.program.length_names:
                return True
    return False


def _dims_text(value: Dims) -> str:
    """Return threads or blocks as in a text; "" for none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return ",".join(map(str, np.atleast_1d(value)))


def _gives_arrays(host: Arguments, given: Collection[str]) -> bool:
    """Return whether no array of a call was made from the interface."""
    made = [value for name, value in host.items() if name not in given]
    return not any(isinstance(value, (np.ndarray, RandomImage)) for value in made)


def _moved(function: Function, call: Arguments) -> int:
    """Return the bytes that a launch reads and writes, if it reads and writes each element once."""
    params = parameters(function)
    program = program_of(function)
    total = 0
    if program is not None:
        total = sum(each.nbytes for each in program.constants.values())
    for name, value in call.items():
        nbytes = getattr(value, "nbytes", 0)
        total += nbytes
        if name not in params or params[name].access not in ("r", "w"):
            total += nbytes  # it may be both read and written
    return total


def _times(launch: Launch, repeat: int, warmup: int) -> tuple[list[float], str]:
    """Return the seconds of each launch, and whose clock it is."""
    launches = range(warmup + repeat)
    try:
        times = [launch.time() for _ in launches]
        clock = "device"
    except DevmodError:  # a device without time stamps; other errors come again below
        times = [host_seconds(launch) for _ in launches]
        clock = "host"
    return times[warmup:], clock


def host_seconds(launch: Launch) -> float:
    """Return the seconds from a launch to the end of the wait."""
    launch.stream.synchronize()
    begin = perf_counter()
    launch()
    launch.stream.synchronize()
    return perf_counter() - begin


# -- `devmod bench` measures in another process.


def launcher(settings: Settings) -> Answer:
    """Return the function that measures a combination, for
    `devmod_workbench._tools.launches.launched`.
    """
    others = [settings[each] for each in Measure._fields[1:]]
    measure = Measure(open_modules(settings), *others)
    return lambda item: measure(Combination(*item))


def measure_elsewhere(
    planned: Sequence[Combination], timeout: float | None, settings: Settings
) -> Benchmark:
    """Return the benchmark of combinations, measured in another process. One that ends it has a
    problem.

    Parameters
    ----------
    planned
        The combinations; the labels are files.
    timeout
        The limit for a combination in seconds, or None.
    settings
        Those of the files, and "functions", "given", "threads", "grid", "repeat", "warmup" and
        "kernels", the fields of `Measure`.
    """
    measured: list[Measured] = []
    results = launched(__name__, planned, timeout, settings)
    for each, (answer, end) in zip(planned, results, strict=True):
        if end is not None:
            problem = describe_launch(end, _advice(each, end))
            answer = [each.measurement(str(each.device or ""), problem=problem)], None
        measured.append(answer)
    return benchmark_of(measured)


def _advice(combination: Combination, end: End) -> str:
    if end.code is None:
        return "Set a longer --timeout"
    run = f"devmod run {' '.join(map(quote, combination.function))}"
    return f"{run} with --guard finds the argument of a write outside of it"
