"""`devmod.bench`: functions of several files, on several devices, with several sizes and blocks,
side by side.
"""

from __future__ import annotations

import csv
import os
from contextlib import suppress
from io import BytesIO, StringIO
from itertools import product
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import NamedTuple

from devmod import Module
from devmod import device as find_device
from devmod._plugins.devices import device_label
from devmod._util.atomic import replacing
from devmod._util.text import escape_line
from devmod.errors import (
    ArgumentError,
    DevmodError,
    FunctionNotFoundError,
    ToolchainNotFoundError,
    pip_install,
)
from devmod_runtime.tools.draws import NotFromInterfaceError
from devmod_runtime.tools.inputs import (
    Invented,
    RandomImage,
    arguments_of,
    call_once,
    has_argument,
    has_grid,
    on_device,
    parameters,
    program_of,
    read_counts,
)
from devmod_runtime.tools.launches import describe_launch, launched, open_modules
from devmod_runtime.tools.profile import duration_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod import Device, Function, Launch
    from devmod_runtime.tools.inputs import Arguments

    Dims = int | str | Sequence[int] | None
else:
    from devmod._util.numpy import np

_COLUMNS = (
    "file",
    "function",
    "device",
    "sizes",
    "block",
    "median",
    "quartile1",
    "quartile3",
    "gb_per_s",
    "clock",
    "problem",
)
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
)


_PLOTS = (".svg", ".png", ".pdf")


class Measurement(NamedTuple):
    """The times of one function on one device.

    Attributes
    ----------
    file, function
        The label of the module, and the function.
    device
        The kind and the number of the device, such as "opencl:0".
    sizes
        The sizes, as in "N=1024"; "" without sizes.
    block
        The block that was given, as in "16,16"; "" for the function's own.
    median, quartile1, quartile3
        The seconds of a launch; nan if there is a problem.
    gb_per_s
        The bytes of the arrays that the kernel reads and writes, in 1e9 bytes for each second of
        the median. An array that it may both read and write counts twice; of a program the
        constants too, without the temporaries. None if an array of a kernel was made from the
        interface, or if there is a problem.
    clock
        "device" for its own time stamps; "host" for the time from the launch to the end of the
        wait, if the device has none.
    problem
        Why there are no times; "" if there are.
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

    @property
    def label(self) -> str:
        """What was measured, as one text."""
        return " ".join(
            filter(
                None,
                (
                    self.file,
                    self.function,
                    self.device,
                    self.sizes,
                    self.block and f"block {self.block}",
                ),
            )
        )


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
        writer.writerow(_COLUMNS)
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
        lines: dict[str, list[tuple[int, Measurement]]] = {}
        for each in good:
            if each.sizes.count("=") == 1:
                lines.setdefault(each._replace(sizes="").label, []).append(
                    (int(each.sizes.partition("=")[2]), each)
                )
        is_curve = bool(lines) and all(len(points) > 1 for points in lines.values())
        figure = Figure(figsize=(8, 4.5 if is_curve else 1 + 0.4 * len(good)), layout="constrained")
        axes = figure.add_subplot()
        if is_curve:
            for label, points in lines.items():
                numbers = [size for size, _ in points]
                axes.plot(
                    numbers, [each.median * 1e3 for _, each in points], marker="o", label=label
                )
                axes.fill_between(
                    numbers,
                    [each.quartile1 * 1e3 for _, each in points],
                    [each.quartile3 * 1e3 for _, each in points],
                    alpha=0.2,
                )
            axes.set(
                xlabel=good[0].sizes.partition("=")[0],
                ylabel="milliseconds",
                xscale="log",
                yscale="log",
            )
            axes.legend()
        else:
            errors = [
                [each.median - each.quartile1 for each in good],
                [each.quartile3 - each.median for each in good],
            ]
            axes.barh(
                [each.label for each in good],
                [each.median * 1e3 for each in good],
                xerr=np.array(errors) * 1e3,
                height=0.6,
            )
            axes.invert_yaxis()
            axes.set(xlabel="milliseconds")
        content = BytesIO()
        figure.savefig(content, format=form)
        with replacing(path) as file:
            file.write(content.getbuffer())

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [_TITLES]
        for each in self.measurements:
            times = [
                duration_text(seconds) for seconds in (each.median, each.quartile1, each.quartile3)
            ]
            rate = "" if each.gb_per_s is None else f"{each.gb_per_s:.3g}"
            figures = ["", "", "", "", each.problem] if each.problem else [*times, rate, each.clock]
            rows.append((each.file, each.function, each.device, each.sizes, each.block, *figures))
        used = [
            number
            for number in range(len(_TITLES))
            if number not in (3, 4) or any(row[number] for row in rows[1:])
        ]
        table = [[escape_line(row[number]) for number in used] for row in rows]
        widths = [
            max(map(len, column)) for column in zip(*(row[:-1] for row in table), strict=True)
        ]
        return "\n".join(
            "  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in table
        )

    __repr__ = __str__


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
    devices: Sequence[Device | str | None] = (None,),
    sizes: Mapping[str, Sequence[int]] | None = None,
    repeat: int = 20,
    warmup: int = 3,
) -> Benchmark:
    """Measure functions by prepared launches: each module, function, device, combination of sizes,
    and block.

    Parameters
    ----------
    modules
        A module, or several by the labels of their rows.
    names
        The functions. Default: all functions of the modules.
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
    labelled = {"": modules} if isinstance(modules, Module) else dict(modules)
    wanted = [names] if isinstance(names, str) else names
    targets = [find_device(each) if isinstance(each, str) else each for each in devices]
    functions = functions_of(labelled, wanted)
    measure = Measure(labelled, functions, arguments or {}, threads, grid, repeat, warmup)
    return benchmark_of(
        [measure(each) for each in combinations(functions, targets, sizes or {}, blocks)]
    )


def functions_of(
    modules: Mapping[str, Module], wanted: Sequence[str] | None
) -> list[tuple[str, str]]:
    """Return the label and the name of each function to measure."""
    return [
        (label, name)
        for label, module in modules.items()
        for name in (wanted if wanted is not None else list(module))
        # Of several files, another one may have it.
        if wanted is None
        or len(modules) == 1
        or name in module
        or not any(name in each for each in modules.values())
    ]


class Combination(NamedTuple):
    """What a row of a benchmark measures."""

    label: str
    name: str
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
        sizes = ",".join(f"{name}={value}" for name, value in self.sizes.items())
        block = (
            ""
            if self.block is None
            else self.block
            if isinstance(self.block, str)
            else ",".join(map(str, _dims(self.block)))
        )
        low, median, high = times
        return Measurement(
            self.label, self.name, device, sizes, block, median, low, high, gb_per_s, clock, problem
        )


def combinations(
    functions: Sequence[tuple[str, str]],
    devices: Sequence[Device | str | None],
    sizes: Mapping[str, Sequence[int]],
    blocks: Sequence[Dims],
) -> list[Combination]:
    """Return the combinations in the order of the rows."""
    each_size = [dict(zip(sizes, values, strict=True)) for values in product(*sizes.values())]
    return [
        Combination(label, name, device, values, block)
        for label, name in functions
        for device, values, block in product(devices, each_size, blocks)
    ]


def benchmark_of(measured: Sequence[tuple[Measurement, ArgumentError | None]]) -> Benchmark:
    """Return the benchmark, or raise the error of the arguments if each combination has one."""
    refused = [error for _, error in measured if error is not None]
    if len(refused) == len(measured) > 0:
        raise refused[0]
    return Benchmark([each for each, _ in measured])


class Measure(NamedTuple):
    """Measures combinations. The fields are as for `bench`."""

    modules: Mapping[str, Module]
    functions: Sequence[tuple[str, str]]
    given: Mapping[str, Any]
    threads: Dims
    grid: Dims
    repeat: int
    warmup: int

    def _own_arguments(self, function: Function) -> dict[str, Any]:
        """Return the arguments that the function has. A name that no function has is passed to all
        of them, which raise the error.
        """

        def is_known(name: str) -> bool:
            for label, each in self.functions:
                with suppress(
                    DevmodError
                ):  # it fits no device here, which is the problem of its own rows
                    if has_argument(self.modules[label][each], name):
                        return True
            return False

        return {
            name: value
            for name, value in self.given.items()
            if has_argument(function, name) or not is_known(name)
        }

    def __call__(self, combination: Combination) -> tuple[Measurement, ArgumentError | None]:
        """Return the times, or the problem; and the error of the arguments, if it is one."""
        device = (
            find_device(combination.device)
            if isinstance(combination.device, str)
            else combination.device
        )
        sizes = combination.sizes
        clock, problem, times, nbytes = "", "", [np.nan], 0
        refused = None
        try:
            function = self.modules[combination.label][combination.name]
            device = device or function.default_device()
            function, given = function.on(device), self._own_arguments(function)
            host = arguments_of(function, given, sizes, Invented())
            call = on_device(function, host, device)
            is_sized = {
                name for name, value in host.items() if isinstance(value, (np.ndarray, RandomImage))
            } <= {*given}
            if (
                program_of(function) is not None
            ):  # its arrays have the sizes that it declares, and the outputs of a call
                is_sized, (_, call) = True, call_once(function, call, device)
            nbytes = _moved(function, call) if is_sized else 0
            launch = function.bind(
                *call.positional, **call.named, **self._launch(function, combination)
            )
            times, clock = _times(launch, self.repeat, self.warmup)
        except FunctionNotFoundError:
            raise
        except (DevmodError, NotFromInterfaceError) as error:
            if isinstance(error, ArgumentError):
                refused = error
            problem = " ".join(str(error).split())  # of a bundle it has a line for each candidate
        low, median, high = (float(each) for each in np.percentile(times, (25, 50, 75)))
        rate = nbytes / median * 1e-9 if nbytes and median > 0 else None
        return combination.measurement(
            device_label(device) if device else "", (low, median, high), rate, clock, problem
        ), refused

    def _launch(self, function: Function, combination: Combination) -> dict[str, Any]:
        if not has_grid(function):
            return {}
        given = {"threads": self.threads, "grid": self.grid, "block": combination.block}
        return {
            name: read_counts(value, combination.sizes, name) if isinstance(value, str) else value
            for name, value in given.items()
            if value is not None
        }


def _dims(value: int | Sequence[int]) -> Sequence[int]:
    return (value,) if isinstance(value, int) else value


def _moved(function: Function, call: Arguments) -> int:
    """Return the bytes that a launch reads and writes, if it reads and writes each element once."""
    params, program = parameters(function), program_of(function)
    total = sum(each.nbytes for each in program.constants.values()) if program is not None else 0
    for name, value in call.items():
        access = params[name].access if name in params else ""
        total += getattr(value, "nbytes", 0) * (1 if access in ("r", "w") else 2)
    return total


def _times(launch: Launch, repeat: int, warmup: int) -> tuple[list[float], str]:
    """Return the seconds of each launch, and whose clock it is."""
    clock = "device"
    try:
        for _ in range(warmup):
            launch.time()
        return [launch.time() for _ in range(repeat)], clock
    except DevmodError:  # a device without time stamps; other errors come again below
        times = []
        for _ in range(warmup + repeat):
            begin = perf_counter()
            launch()
            launch.stream.synchronize()
            times.append(perf_counter() - begin)
        return times[warmup:], "host"


# -- `devmod bench` measures in another process.


def launcher(settings: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return the function that measures a combination, for
    `devmod_runtime.tools.launches.launched`.
    """
    functions = [(label, name) for label, name in settings["functions"]]
    measure = Measure(
        open_modules(settings), functions, *(settings[each] for each in Measure._fields[2:])
    )

    def answer(item: Sequence[Any]) -> list[Any]:
        measurement, refused = measure(Combination(*item))
        return [
            measurement,
            refused and [str(refused), refused.kind, refused.function, refused.argument],
        ]

    return answer


def measure_elsewhere(
    planned: Sequence[Combination], timeout: float | None, settings: Mapping[str, Any]
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
        Those of the files, and "functions", "given", "threads", "grid", "repeat" and "warmup", the
        fields of `Measure`.
    """
    measured: list[tuple[Measurement, ArgumentError | None]] = []
    results = launched(__name__, planned, timeout, settings)
    for each, (answer, end) in zip(planned, results, strict=True):
        if end is not None:
            run = f"devmod run {quote(each.label)} {quote(each.name)}"
            advice = (
                "Set a longer --timeout"
                if end.code is None
                else f"{run} with --guard finds the argument of a write outside of it"
            )
            measured.append(
                (
                    each.measurement(str(each.device or ""), problem=describe_launch(end, advice)),
                    None,
                )
            )
        else:
            row, refused = answer
            error = (
                ArgumentError(refused[0], kind=refused[1], function=refused[2], argument=refused[3])
                if refused
                else None
            )
            measured.append((Measurement(*row), error))
    return benchmark_of(measured)
