"""The launches of `devmod.tune`, in another process: a variant may end it, or hang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from devmod import Device, Function, Image, Launch
from devmod import device as find_device
from devmod._plugins.devices import device_label
from devmod.backend import loads_own
from devmod.errors import ArgumentError, DevmodError, list_names
from devmod_runtime._tuning.choice import identity_of
from devmod_runtime.tools.bench import read_shape
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
from devmod_runtime.tools.search import LAUNCHES
from devmod_runtime.tools.trials import text_of

#: The seeds of the launches of the reference with inputs that are moved by one unit in the last
#: place: what their results change by is no error of a variant.
_SEEDS = (1, 1 << 20)
#: The least time of a launch: records have no zero.
_LEAST_TIME = 1e-9


def launcher(settings: Mapping[str, Any]) -> Any:
    """Return the function that answers, for `devmod_runtime.tools.launches.Conversation`."""
    return _Launches(settings).answer


class _Launches:
    """The launches of one function on one device.

    Parameters
    ----------
    settings
        "module": a file; "function", "device": its name, and a name or None; "given": the
        arguments; "threads", "grid", "rtol", "atol": as for `devmod.tune`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        module = loads_own(Path(settings["module"]).read_bytes())
        self._module = module
        function: Any = module[settings["function"]]
        self._device: Device
        if settings["device"] is None:
            self._device = function.default_device()
        else:
            self._device = find_device(settings["device"])
        self._tuned = function.on(self._device)
        self._case: Case | None = None
        #: The sizes of the case, and the values of the arguments by which the function is tuned.
        self._opened: Mapping[str, int] = {}
        self._key: list[int] = []

    def answer(self, item: Sequence[Any]) -> dict[str, Any]:
        """Return the answer to an item: an action, and what it needs. An error in the arguments
        is "refused".
        """
        action, *values = item
        try:
            if action == "describe":
                return self._describe()
            case = self._open(values[0])
            if action == "open":
                return {"key": self._key}
            return _launch(case, action, *values[1:])
        except ArgumentError as error:
            return {"refused": [str(error), error.kind, error.function, error.argument]}

    def _describe(self) -> dict[str, Any]:
        """Return the variants, the device and the names of the sizes."""
        return {
            "variants": self._tuned.variants,
            "sizes": list(self._tuned.tuning.sizes),
            "identity": identity_of(self._device)._asdict(),
            "device": device_label(self._device),
            "is_simulated": self._device.is_simulated,
        }

    def _open(self, sizes: dict[str, int]) -> Case:
        """Return the inputs for sizes. Those before are freed."""
        if self._case is None or self._opened != sizes:
            self._case = None
            self._opened = sizes
            first = self._tuned.variant(**self._tuned.variants[0])
            host = self._arguments(first, sizes)
            values = dict(host.items())
            self._key = [int(values[name]) for name in self._tuned.tuning.sizes]
            given = {name: self._settings[name] for name in ("threads", "grid")}
            shape = read_shape(given, sizes)
            tolerances = (self._settings["rtol"], self._settings["atol"])
            self._case = Case(self._tuned, self._device, host, shape, tolerances)
        return self._case

    def _arguments(self, function: Function, sizes: Mapping[str, int]) -> Arguments:
        """Return the arguments on the host. An integer argument with the name of a size is that
        size. A kernel that a program launches has those of its first step.
        """
        name = program_with(self._module, self._tuned.name)
        if name:
            program: Any = self._module[name].on(self._device)
            host = arguments_of(program, self._settings["given"], sizes, Invented())
            return step_arguments(program, self._tuned.name, host, self._device)
        given = dict(self._settings["given"])
        for name, number in sizes.items():
            if has_argument(function, name):
                given.setdefault(name, str(number))
        _check_given(function, given, sizes, self._tuned.tuning.sizes)
        return arguments_of(function, given, sizes, Invented())


def _launch(
    case: Case, action: str, variant: int, reference: int, limit: float = 0.0
) -> dict[str, Any]:
    """Return the fields of a `Timing`: the seconds of a turn, or how a variant differs from the
    reference.
    """
    answer: dict[str, Any] = {}
    try:
        if case.expected is None:  # the first launch of a process
            case.expect(reference)
        if action == "times":
            return {"times": case.times(variant, limit)}
        if variant != reference:
            answer["problem"] = case.compare(variant)
            answer["is_wrong"] = bool(answer["problem"])
    except Exception as error:  # noqa: BLE001 - also a driver's own, which is the result of this variant
        answer["problem"] = text_of(error)
    if case.is_idle:
        raise ArgumentError(
            "tune: the first variant changes no array with these inputs, so that the others cannot be compared; give others, such as "
            "y=signed:float32[1024]"
        )
    return answer


class Case:
    """The launches of all variants with one set of inputs.

    Parameters
    ----------
    tuned
        The function.
    device
        The device.
    host
        The arguments on the host.
    shape
        The threads or the grid of a launch; empty for variants with a grid of their own.
    tolerances
        Relative and absolute, as for `devmod.verify`.

    Attributes
    ----------
    expected
        The results of the first variant, each with those for inputs that are moved; None before its
        launch.
    clock
        "device" for its time stamps, "host" without them.
    is_idle
        Whether the first variant changes no array, so that no other can be compared with it.
    """

    def __init__(
        self,
        tuned: Any,
        device: Device,
        host: Arguments,
        shape: Mapping[str, Any],
        tolerances: tuple[float | None, float | None] = (None, None),
    ) -> None:
        variants = tuned.variants
        self._function = cache(lambda number: tuned.variant(**variants[number]))
        self._device = device
        self._host = host
        self._shape = shape
        self._tolerances = tolerances
        function = self._function(0)
        self._call = on_device(function, host, device)
        #: The arrays that a launch may write, and their copies from before.
        self._written = _written(function, self._call)
        before = {name: value for name, value in host.items() if name in self._written}
        self._before = on_device(function, Arguments((), before), device).named
        self._bound: dict[int, Launch] = {}
        self.expected: dict[str, list[np.ndarray[Any, Any]]] | None = None
        self.clock = "device"
        self.is_idle = False

    def expect(self, variant: int) -> None:
        """Launch the variant with which the others are compared."""
        function = self._function(variant)
        results = self._results(variant, self._call)
        before = {name: value.numpy() for name, value in self._before.items()}
        self.is_idle = all(is_same(array, before[name]) for name, array in results.items())
        expected = {name: [array] for name, array in results.items()}
        for seed in _SEEDS:
            moved = on_device(function, moved_arguments(function, self._host, seed), self._device)
            for name, array in self._launch(variant, moved).items():
                expected[name].append(array)
        self.expected = expected
        try:
            if self._bind(variant).time() <= 0:
                self.clock = "host"
        except DevmodError:  # a device without time stamps
            self.clock = "host"

    def compare(self, variant: int) -> str:
        """Return how the results of a variant differ; "" if they agree."""
        assert self.expected is not None
        for name, array in self._results(variant, self._call).items():
            reference, *moved = self.expected[name]
            difference = worst_difference(name, array, reference, *self._tolerances, moved)
            if difference.is_error:
                return f"{name}{difference.subscript} is {difference.value!r}, and {difference.expected!r} with the first variant"
        return ""

    def times(self, variant: int, limit: float) -> list[float]:
        """Return the seconds of a turn: of launches with arrays as before the first, up to one of
        more than `limit`.
        """
        launch = self._bind(variant)
        times: list[float] = []
        while len(times) < LAUNCHES and max(times, default=0.0) <= limit:
            self._reset()
            if self.clock == "device":
                times.append(max(launch.time(), _LEAST_TIME))
                continue
            self._device.synchronize()
            begin = perf_counter()
            launch()
            launch.stream.synchronize()
            times.append(perf_counter() - begin)
        return times

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
                values[name].copy_from(before.numpy())
            else:
                values[name].copy_from(before)

    def _results(self, variant: int, call: Arguments) -> dict[str, np.ndarray[Any, Any]]:
        self._reset()
        return self._launch(variant, call)

    def _launch(self, variant: int, call: Arguments) -> dict[str, np.ndarray[Any, Any]]:
        function = self._function(variant)
        call_once(function, call, self._device, **self._shape)
        results = results_of(function, call, self._written)
        return {name: results[name] for name in self._written}


def _check_given(
    function: Function, given: Mapping[str, Any], sizes: Mapping[str, int], deciding: Sequence[str]
) -> None:
    """Raise ArgumentError for missing arguments that no tuning can invent."""
    for name in deciding:
        if name not in given:
            raise ArgumentError(
                f"tune: {function.label} is tuned by {name}, which is missing; give some, as in --size {name}=1e5,1e6",
                kind=function.kind,
                function=function.name,
                argument=name,
            )
    missing = []
    for name, param in parameters(function).items():
        if param.kind == "buffer" and name not in given:
            missing.append(name)
    if missing and (deciding or sizes):
        size = next(iter([*sizes, *deciding]))
        raise ArgumentError(
            f"tune: {function.label} needs {list_names(missing)}, whose lengths do not follow from the sizes; give them, as in "
            f"{missing[0]}=random[{size}]",
            kind=function.kind,
            function=function.name,
            argument=missing[0],
        )


def _written(function: Function, call: Arguments) -> list[str]:
    """Return the names of the arrays and images that a launch may write."""
    params = parameters(function)
    names = []
    for name, value in call.items():
        param = params.get(name)
        if hasattr(value, "numpy") and (param is None or param.access != "r"):
            names.append(name)
    return names
