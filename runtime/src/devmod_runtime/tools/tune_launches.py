"""The launches of `devmod.tune`, in another process: a variant may end it, or hang."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from devmod import Image, Launch
from devmod._plugins.devices import device_label
from devmod.backend import loads_own
from devmod.errors import ArgumentError, DevmodError, list_names
from devmod_runtime.tools.bench import Measure, read_shape
from devmod_runtime.tools.difference import is_same, worst_difference
from devmod_runtime.tools.inputs import (
    Arguments,
    Invented,
    arguments_of,
    call_once,
    has_argument,
    moved_arguments,
    on_device,
    parameters,
    results_of,
)
from devmod_runtime.tools.program_steps import program_with, step_arguments
from devmod_runtime.tools.search import LAUNCHES, Timing
from devmod_runtime.tools.trials import text_of
from devmod_runtime.tools.tuning_results import record_on

#: The seeds of the launches of the reference with inputs that are moved by one unit in the last
#: place: what their results change by is no error of a variant.
_SEEDS = (1, 1 << 20)
#: The least time of a launch: records have no zero.
_LEAST_TIME = 1e-9

Array = np.ndarray[Any, Any]


def launcher(settings: Mapping[str, Any]) -> Callable[[Sequence[Any]], Any]:
    """Return the function that answers items, each a method of `_Launches` and its arguments, for
    `devmod_runtime.tools.launches.Conversation`.
    """
    launches = _Launches(settings)
    return lambda item: getattr(launches, item[0])(*item[1:])


class _Launches:
    """The launches of all variants of a function on a device, with one set of inputs.

    Parameters
    ----------
    settings
        "module": a file; "function", "device": its name, and a name or None; "given": the
        arguments; "functions": all that are measured, which have arguments of their own; "threads",
        "grid", "rtol", "atol": as for `devmod.tune`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._module = loads_own(Path(settings["module"]).read_bytes())
        function: Any = self._module[settings["function"]]
        device = settings["device"]
        if device is None:
            device = function.default_device()
        self._tuned: Any = function.on(device)
        self._device = self._tuned.default_device()
        variants = self._tuned.variants
        self._function = cache(lambda number: self._tuned.specialize(**variants[number]))
        #: The arguments on the host and on the device, the threads or the grid of a launch, the
        #: arrays that a launch may write with their copies from before, and the prepared launches.
        self._host = self._call = Arguments((), {})
        self._shape: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._bound: dict[int, Launch] = {}
        #: The results of the first variant, each with those for inputs that are moved; None before
        #: its launch.
        self._expected: dict[str, list[Array]] | None = None
        #: The variants whose results are those of the first.
        self._equal: set[int] = set()
        #: Whether the device has time stamps, and whether the first variant changes no array, so
        #: that no other can be compared with it.
        self._has_clock = True
        self._is_idle = False

    # -- the items

    def open(self, sizes: dict[str, int]) -> dict[str, Any]:
        """Make the inputs for sizes, and return what is measured: the variants, the device, a
        record without times, and the values of the arguments that decide.
        """
        label = device_label(self._device)
        name = self._tuned.name
        if self._device.is_simulated:
            raise ArgumentError(
                f"tune: {label} is a simulated device, whose times mean nothing: tune {name!r} on another one",
                argument="devices",
            )
        self._bound = {}  # frees the arrays of other sizes
        self._call = Arguments((), {})
        self._before = {}
        self._expected = None
        function = self._function(0)
        self._host = self._arguments(function, sizes)
        given = {name: self._settings[name] for name in ("threads", "grid")}
        self._shape = read_shape(given, sizes)
        values = dict(self._host.items())
        self._call = on_device(function, self._host, self._device)
        params = parameters(function)
        written = {}
        for each, value in self._call.items():
            param = params.get(each)
            if hasattr(value, "numpy") and (param is None or param.access != "r"):
                written[each] = values[each]
        self._before = on_device(function, Arguments((), written), self._device).named
        record = record_on(self._tuned)
        assert record is not None
        return {
            "variants": self._tuned.variants,
            "device": label,
            "record": record.to_dict(),
            "key": [int(values[size]) for size in record.sizes],
        }

    def times(self, variant: int, reference: int, limit: float) -> Timing:
        """Return the seconds of a turn: of launches with arrays as before the first, up to one of
        more than `limit`. None if the results of the variant differ from those of the reference.
        """
        times: list[float] = []
        problem = ""
        is_wrong = False
        try:
            self._expect(reference)
            problem = self._difference(variant)
            is_wrong = bool(problem)
            if not is_wrong:
                launch = self._bind(variant)
                while len(times) < LAUNCHES and max(times, default=0.0) <= limit:
                    self._reset()
                    times.append(self._seconds(launch))
        except Exception as error:  # noqa: BLE001 - also a driver's own, which is the result of this variant
            problem = text_of(error)
        if self._is_idle:
            raise ArgumentError(
                "tune: the first variant changes no array with these inputs, so that the others cannot be compared; give others, such as "
                "y=signed:float32[1024]"
            )
        if problem:
            times = []
        return Timing(tuple(times), problem, is_wrong)

    # -- the arguments

    def _arguments(self, function: Any, sizes: Mapping[str, int]) -> Arguments:
        """Return the arguments on the host. An integer argument with the name of a size is that
        size. A kernel that a program launches has those of its first step.
        """
        given = dict(self._settings["given"])
        name = program_with(self._module, self._tuned.name)
        if name:
            program: Any = self._module[name].on(self._device)
            host = arguments_of(program, given, sizes, Invented())
            return step_arguments(program, self._tuned.name, host, self._device)
        functions = [("", each) for each in self._settings["functions"]]
        measure = Measure({"": self._module}, functions, given, None, None, 1, 0)
        given = measure.own_arguments(function)
        texts = str([self._settings[each] for each in ("given", "threads", "grid")])
        for size, number in sizes.items():
            if has_argument(function, size):
                given.setdefault(size, str(number))
            elif not measure.is_known(size) and not re.search(rf"\b{re.escape(size)}\b", texts):
                raise ArgumentError(f"tune: no argument has the size {size!r}", argument=size)
        _check_given(function, given, [*sizes], self._tuned.tuning.sizes)
        return arguments_of(function, given, sizes, Invented())

    # -- the launches

    def _expect(self, variant: int) -> None:
        """Launch the variant with which the others are compared, once for the inputs."""
        if self._expected is not None:
            return
        function = self._function(variant)
        results = self._results(variant, self._call)
        before = {name: value.numpy() for name, value in self._before.items()}
        self._is_idle = all(is_same(array, before[name]) for name, array in results.items())
        expected = {name: [array] for name, array in results.items()}
        for seed in _SEEDS:
            moved = on_device(function, moved_arguments(function, self._host, seed), self._device)
            for name, array in self._launch(variant, moved).items():
                expected[name].append(array)
        self._expected = expected
        self._equal = {variant}
        try:
            self._has_clock = self._bind(variant).time() > 0
        except DevmodError:
            self._has_clock = False

    def _difference(self, variant: int) -> str:
        """Return how the results of a variant differ; "" if they agree."""
        assert self._expected is not None
        if variant in self._equal:
            return ""
        rtol = self._settings["rtol"]
        atol = self._settings["atol"]
        for name, array in self._results(variant, self._call).items():
            reference, *moved = self._expected[name]
            difference = worst_difference(name, array, reference, rtol, atol, moved)
            if difference.is_error:
                return f"{name}{difference.subscript} is {difference.value!r}, and {difference.expected!r} with the first variant"
        self._equal.add(variant)
        return ""

    def _seconds(self, launch: Launch) -> float:
        if self._has_clock:
            return max(launch.time(), _LEAST_TIME)
        self._device.synchronize()
        begin = perf_counter()
        launch()
        launch.stream.synchronize()
        return perf_counter() - begin

    def _bind(self, variant: int) -> Launch:
        launch = self._bound.get(variant)
        if launch is None:
            function = self._function(variant)
            launch = function.bind(*self._call.positional, **self._call.named, **self._shape)
            self._bound[variant] = launch
        return launch

    def _reset(self) -> None:
        """Give the arrays that a launch writes what they had before the first."""
        values = dict(self._call.items())
        for name, before in self._before.items():
            if isinstance(before, Image):
                before = before.numpy()
            values[name].copy_from(before)

    def _results(self, variant: int, call: Arguments) -> dict[str, Array]:
        self._reset()
        return self._launch(variant, call)

    def _launch(self, variant: int, call: Arguments) -> dict[str, Array]:
        function = self._function(variant)
        call_once(function, call, self._device, **self._shape)
        results = results_of(function, call, self._before)
        return {name: results[name] for name in self._before}


def _check_given(
    function: Any, given: Mapping[str, Any], sizes: Sequence[str], deciding: Sequence[str]
) -> None:
    """Raise ArgumentError for missing arguments that no tuning can invent."""
    for name in deciding:
        if name not in given:
            raise function._error(
                f"tune: {function.label} is tuned by {name}, which is missing; give some, as in --size {name}=1e5,1e6",
                name,
            )
    missing = []
    for name, param in parameters(function).items():
        if param.kind == "buffer" and name not in given:
            missing.append(name)
    names = [*sizes, *deciding]
    if missing and names:
        raise function._error(
            f"tune: {function.label} needs {list_names(missing)}, whose lengths do not follow from the sizes; give them, as in "
            f"{missing[0]}=random[{names[0]}]",
            missing[0],
        )
