"""The launches of `devmod.tune`, in another process: a variant may end it, or hang."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from devmod import Device, Image, Launch, Module
from devmod._plugins.devices import device_label
from devmod.backend import loads_own
from devmod.errors import ArgumentError, DevmodError, list_names
from devmod_runtime import TunedFunction
from devmod_runtime._tuning.choice import record_of
from devmod_workbench._tools.bench import host_seconds, is_known, own_arguments
from devmod_workbench._tools.devices import text_of
from devmod_workbench._tools.difference import worst_difference
from devmod_workbench._tools.inputs import (
    Invented,
    arguments_of,
    call_with,
    has_argument,
    moved_arguments,
    on_device,
    parameters,
    results_of,
)
from devmod_workbench._tools.launches import Answer, Settings
from devmod_workbench._tools.program_steps import first_launch, program_with
from devmod_workbench._tools.search import LAUNCHES, Timing
from devmod_workbench._tools.trials import SEEDS
from devmod_workbench._tools.values import read_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime._device.host import NumPyArray
    from devmod_workbench._tools.inputs import Arguments, Given
    from devmod_workbench._tools.values import Numbers

#: The least time of a launch: records have no zero.
_LEAST_TIME = 1e-9


def launcher(settings: Settings) -> Answer:
    """Return the function that answers items: "open" and sizes by name, then "times" and the
    arguments of `_Launches.times`, for `devmod_workbench._tools.launches.Conversation`.

    Parameters
    ----------
    settings
        "module": a file; "function", "device": its name, and a name or None; "given": the
        arguments; "functions": all that are measured, which have arguments of their own; "threads",
        "grid", "rtol", "atol": as for `devmod.tune`.
    """
    module = loads_own(Path(settings["module"]).read_bytes())
    function = module[settings["function"]]
    device = settings["device"]
    if device is None:
        device = function.default_device()
    tuned = function.on(device)
    if not isinstance(tuned, TunedFunction):
        label = device_label(tuned.default_device())
        raise ArgumentError(
            f"tune: {tuned.name!r} has no variants on {label}: the candidate for it is not tuned. Give another device, or build that "
            "candidate with tune={…} or --tune too",
            argument="devices",
        )
    opened: list[_Launches] = []

    def answer(item: Sequence[Any]) -> Any:
        if item[0] == "times":
            return opened[0].times(*item[1:])
        opened.clear()  # frees the arrays of other sizes
        launches = _Launches(settings, module, tuned, item[1])
        opened.append(launches)
        return launches.describe()

    return answer


class _Launches:
    """The launches of all variants of a function on a device, with one set of inputs.

    Parameters
    ----------
    settings
        Those of `launcher`.
    module, tuned
        The module, and the function on the device.
    sizes
        The sizes by name.
    """

    def __init__(self, settings: Settings, module: Module, tuned: Any, sizes: Numbers) -> None:
        self._settings = settings
        self._tuned = tuned
        self._device: Device = tuned.default_device()
        label = device_label(self._device)
        if self._device.is_simulated:
            raise ArgumentError(
                f"tune: {label} is a simulated device, whose times mean nothing: tune {tuned.name!r} on another one",
                argument="devices",
            )
        function = self._function(0)
        #: The arguments on the host and on the device, and the threads or the grid.
        self._host, self._shape = _launch_of(settings, module, tuned, function, sizes)
        self._call = on_device(function, self._host)
        #: The arrays that a launch may write, as they are before it: on the host, and on the device
        #: if they are no images.
        self._written = results_of(function, self._call)
        self._before: dict[str, Any] = dict(self._written)
        for name, array in self._written.items():
            if not isinstance(self._call[name], Image):
                self._before[name] = self._device.from_numpy(array)
        self._bound: dict[int, Launch] = {}
        #: The results of the first variant, each with those for inputs that are moved.
        self._expected: dict[str, list[NumPyArray]] = {}
        #: The variants whose results are those of the first; empty before its launch.
        self._equal: set[int] = set()
        #: Whether the device has time stamps, and whether the first variant changes no array, so
        #: that no other can be compared with it.
        self._has_clock = False
        self._is_idle = False

    def _function(self, variant: int) -> Any:
        return self._tuned.specialize(**self._tuned.variants[variant])

    def describe(self) -> dict[str, Any]:
        """Return what is measured: the variants, the device, a record without times, and the values
        of the arguments that decide.
        """
        record = record_of(self._tuned.name, self._tuned.tuning, self._device)
        return {
            "variants": self._tuned.variants,
            "device": device_label(self._device),
            "record": record.to_dict(),
            "key": [int(self._host[size]) for size in record.sizes],
        }

    def times(self, variant: int, reference: int, limit: float) -> Timing:
        """Return the seconds of a turn: of launches with arrays as before the first, up to one of
        more than `limit`. None if the results of the variant differ from those of the reference.
        """
        times: list[float] = []
        problem = ""
        is_wrong = is_refused = False
        try:
            self._expect(reference)
            problem = self._difference(variant)
            is_wrong = bool(problem)
            if not is_wrong:
                launch = self._bind(variant)
                while len(times) < LAUNCHES and max(times, default=0.0) <= limit:
                    self._reset()
                    if self._has_clock:
                        times.append(max(launch.time(), _LEAST_TIME))
                    else:
                        times.append(host_seconds(launch))
        except ArgumentError as error:
            problem = text_of(error)
            is_refused = True
        except Exception as error:  # noqa: BLE001 - also a driver's own, which is the result of this variant
            problem = text_of(error)
        if self._is_idle:
            raise ArgumentError(
                "tune: the first variant changes no array with these inputs, so that the others cannot be compared; give others, such as "
                "y=signed:float32[1024]"
            )
        if problem:
            times = []
        return Timing(tuple(times), problem, is_wrong, is_refused)

    def _expect(self, variant: int) -> None:
        """Launch the variant with which the others are compared, once for the inputs."""
        if self._equal:
            return
        function = self._function(variant)
        results = self._results(variant)
        written = self._written
        self._is_idle = all(
            array.tobytes() == written[name].tobytes() for name, array in results.items()
        )
        self._expected = {name: [array] for name, array in results.items()}
        for seed in SEEDS:
            moved = on_device(function, moved_arguments(function, self._host, seed))
            for name, array in self._launch(variant, moved).items():
                self._expected[name].append(array)
        self._equal = {variant}
        with suppress(DevmodError):
            self._has_clock = self._bind(variant).time() > 0

    def _difference(self, variant: int) -> str:
        """Return how the results of a variant differ; "" if they agree."""
        if variant in self._equal:
            return ""
        rtol = self._settings["rtol"]
        atol = self._settings["atol"]
        for name, array in self._results(variant).items():
            reference, *moved = self._expected[name]
            difference = worst_difference(name, array, reference, rtol, atol, moved)
            if difference.is_error:
                return f"{name}{difference.subscript} is {difference.value!r}, and {difference.expected!r} with the first variant"
        self._equal.add(variant)
        return ""

    def _bind(self, variant: int) -> Launch:
        if variant not in self._bound:
            bind = self._function(variant).bind
            self._bound[variant] = call_with(bind, self._call, self._shape)
        return self._bound[variant]

    def _reset(self) -> None:
        """Give the arrays that a launch writes what they had before the first."""
        for name, before in self._before.items():
            self._call[name].copy_from(before)

    def _results(self, variant: int) -> dict[str, NumPyArray]:
        self._reset()
        return self._launch(variant, self._call)

    def _launch(self, variant: int, call: Arguments) -> dict[str, NumPyArray]:
        call_with(self._function(variant), call, self._shape)
        return {name: call[name].numpy() for name in self._before}


def _launch_of(
    settings: Settings, module: Module, tuned: Any, function: Any, sizes: Numbers
) -> tuple[Arguments, dict[str, Any]]:
    """Return the arguments on the host of a variant, and the keywords of its launch. A kernel that
    a program launches has those of its first step.
    """
    name = program_with(module, tuned.name)
    if not name:
        host = _arguments(settings, module, tuned, function, sizes)
        return host, read_launch(settings, sizes, "")
    program = module[name].on(tuned.default_device())
    host = arguments_of(program, settings["given"], sizes, Invented())
    return first_launch(program, tuned.name, host)


def _arguments(
    settings: Settings, module: Module, tuned: Any, function: Any, sizes: Numbers
) -> Arguments:
    """Return the arguments on the host of a variant. An integer argument with the name of a size is
    that size.
    """
    given = settings["given"]
    others = [(module, each) for each in settings["functions"]]
    given = own_arguments(function, given, others)
    texts = str([settings[each] for each in ("given", "threads", "grid")])
    for size, number in sizes.items():
        if has_argument(function, size):
            given.setdefault(size, str(number))
        elif not is_known(size, others) and not re.search(rf"\b{re.escape(size)}\b", texts):
            raise ArgumentError(f"tune: no argument has the size {size!r}", argument=size)
    _check_given(function, given, [*sizes], tuned.tuning.sizes)
    return arguments_of(function, given, sizes, Invented())


def _check_given(
    function: Any, given: Given, sizes: Sequence[str], deciding: Sequence[str]
) -> None:
    """Raise ArgumentError for missing arguments that no tuning can invent."""
    refusal = partial(ArgumentError, kind=function.kind, function=function.name)
    for name in deciding:
        if name not in given:
            raise refusal(
                f"tune: {function.label} is tuned by {name}, which is missing; give some, as in --size {name}=1e5,1e6",
                argument=name,
            )
    missing = []
    for name, param in parameters(function).items():
        if param.kind == "buffer" and name not in given:
            missing.append(name)
    names = [*sizes, *deciding]
    if missing and names:
        raise refusal(
            f"tune: {function.label} needs {list_names(missing)}, whose lengths do not follow from the sizes; give them, as in "
            f"{missing[0]}=random[{names[0]}]",
            argument=missing[0],
        )
