"""The launches of `devmod.verify`: the inputs that each candidate gets, and what it does with them,
in another process.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import chain, count
from math import lcm, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devmod import Image, Local, Param, devices, dumps, explain
from devmod import device as find_device
from devmod._modules.choice import describe_candidate, program_kernels
from devmod._plugins.devices import device_label
from devmod._plugins.registry import local_kinds
from devmod.backend import default_device, interface_of, loads_own, numpy_dtype
from devmod.errors import (
    ArgumentError,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    GuardError,
)
from devmod.targets import PROGRAM
from devmod.worker import can_start_python
from devmod_workbench._tools.device_checks import device_problems
from devmod_workbench._tools.devices import text_of
from devmod_workbench._tools.draws import (
    RANGES,
    NotFromInterfaceError,
    has_integers,
    is_size,
    random_array,
)
from devmod_workbench._tools.guard import GuardedCall, GuardedMemory, guarded_twice
from devmod_workbench._tools.inputs import (
    Invented,
    arguments_of,
    call_once,
    declared_params,
    describe_inputs,
    distinct_numbers,
    equal_numbers,
    has_argument,
    has_grid,
    kinds_of_numbers,
    moved_arguments,
    negative_numbers,
    numbers_of_many_blocks,
    on_device,
    params_of,
    program_of,
    results_of,
    threads_of_images,
)
from devmod_workbench._tools.launches import Conversation, describe_launch
from devmod_workbench._tools.lengths import known_lengths
from devmod_workbench._tools.observed import replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from devmod import Device, Function, Interface, Module
    from devmod_runtime import Argument
    from devmod_runtime._device.host import NumPyArray, Shape
    from devmod_workbench._tools.draws import NumPyType
    from devmod_workbench._tools.inputs import Arguments, Given
    from devmod_workbench._tools.launches import Answer, Settings
    from devmod_workbench._tools.observed import Methods

    #: The inputs, the request and the outcome of a launch, of JSON's types.
    Fields = dict[str, Any]
    #: The name of an array that a launch has written, and whether it is an image of floats.
    Result = tuple[str, NumPyArray, bool]

#: The next step after a launch that ends its process.
_GIVE = "Give arguments whose sizes the kernel requires to fit each other, such as n=64"
#: The outcomes by the faults that a guard finds.
FAULTS = {"write": "writes outside", "read": "reads outside", "unwritten": "unwritten"}
#: The block of a kernel with an open one, if no other candidate has a block; and the most threads
#: of a block for all candidates.
_OPEN_BLOCK = (64, 1, 1)
_MOST_THREADS = 1 << 12
#: The blocks of a launch with a further draw: in a kernel of one dimension, and in each of several.
_MANY_BLOCKS = 16
_SEVERAL_BLOCKS = 5
#: The seeds of the launches of the reference with inputs that are moved by one unit in the last
#: place: what its results change by is no error of another candidate.
SEEDS = (1, 1 << 20)
#: The bytes and the number of the arrays that the steps of a program write, with which its steps
#: are compared one by one.
_MOST_RECORDED = 1 << 26
_MOST_STEPS = 1024
#: The most bytes of a random array that is stored for further launches.
_MOST_STORED = 1 << 23


class Draw(NamedTuple):
    """The inputs of one launch of each candidate of a function.

    Attributes
    ----------
    values
        The range of the random values, such as "-8 to 8".
    numbers
        The integers that devmod chose, by name.
    problem
        Why the results are not compared; "" if they are.
    """

    values: str
    numbers: dict[str, int]
    problem: str


class Planned(NamedTuple):
    """A candidate on a device, or a candidate without one and the reason.

    Attributes
    ----------
    label, device, reason
        The candidate, its device or "", and why it is not launched.
    request
        What all of its launches get; empty without a device.
    outcomes
        The outcome of each launch by its number, without those that were left out.
    """

    label: str
    device: str
    reason: str
    request: Fields
    outcomes: dict[int, Fields]

    @property
    def first_outcomes(self) -> list[Fields]:
        """The outcomes of the first draw. The one without results is the last."""
        return [
            each
            for number, each in self.outcomes.items()
            if self.request["launches"][number]["is_first"]
        ]

    def has_results(self, launch: int) -> bool:
        """Return whether a launch was made, and has not failed."""
        return self.outcomes.get(launch, {}).get("outcome") == "launched"

    def is_sound(self, launch: int) -> bool:
        """Return whether each launch of the first draw before another one had results."""
        before = enumerate(self.request["launches"][:launch])
        return all(self.has_results(number) for number, each in before if each["is_first"])

    def draw(self, launch: int, problem: str = "") -> Draw:
        """Return the draw of a launch, with the integers that devmod chose."""
        inputs = self.request["launches"][launch]
        outcome = self.outcomes.get(launch, {})
        # A program has the lengths that it accepts.
        chosen = outcome.get("numbers", inputs["numbers"])
        numbers = {name: number for name, number in chosen.items() if isinstance(number, int)}
        return Draw(RANGES[inputs["word"]], numbers, problem)

    def describe(self, launch: int) -> str:
        """Return the integers and the values of a launch, for messages: " for n=16, with values
        from -8 to 8". The values of the first draw have no text.
        """
        draw = self.draw(launch)
        text = ", ".join(f"{name}={number}" for name, number in draw.numbers.items())
        if text:
            text = f" for {text}"
        if not self.request["launches"][launch]["is_first"]:
            text += f", with values from {draw.values}"
        return text


def _candidates(name: str, modules: Sequence[Module]) -> Iterator[tuple[Module, str, str]]:
    """Yield the candidates of a function: the module, the kind and the label. A program has one for
    each kind of its kernels.
    """
    for module in modules:
        if module.kind != PROGRAM:
            yield module, module.kind, describe_candidate(module)
            continue
        kernels = chain.from_iterable(program_kernels(name, module).values())
        for kind in dict.fromkeys(each.kind for each in kernels):
            yield module, kind, kind


def _interfaces(functions: Iterable[tuple[Module, str]]) -> list[Interface]:
    """Return the interfaces of functions, each a module and a name. Some have none."""
    found = []
    for module, name in functions:
        interface = interface_of(module, name)
        if interface is not None:
            found.append(interface)
    return found


def _explained(module: Module, name: str, kind: str, device: Device | None = None) -> Any:
    return next(each for each in explain(module, name, device).functions[name] if each.kind == kind)


def argument_texts(given: Given, folder: Path, numbers: Iterator[int]) -> dict[str, str]:
    """Return the values of arguments as texts of `devmod run`. Arrays are files in a folder, with
    the next of `numbers` as their names.
    """
    return {name: _argument_text(value, folder, numbers) for name, value in given.items()}


def _argument_text(value: Any, folder: Path, numbers: Iterator[int]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Local) and value.per_thread:
        return f"local:{value.per_thread}/thread"
    if isinstance(value, Local):
        return f"local:{value.nbytes}"
    if hasattr(value, "numpy"):  # an array or an image of devmod
        value = value.numpy()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        path = folder / f"{next(numbers)}.npy"
        np.save(path, value, allow_pickle=False)
        return str(path)
    return repr(value)


class Trials:
    """The launches of all candidates. Their process gets text, numbers and files in `folder`.
    `shape` has the threads, the grid and the block.

    Attributes
    ----------
    unused
        The names of arguments that no function has.
    """

    def __init__(self, folder: Path, given: Given, **shape: Any) -> None:
        self._folder = folder
        self.unused = set(given)
        self._shape: dict[str, list[int]] = {}
        for word, each in shape.items():
            if each is not None:
                self._shape[word] = np.atleast_1d(each).tolist()
        self._block = self._shape.pop("block", None)
        self._number = count()
        self._listed = cache(devices)
        self._given = argument_texts(given, folder, self._number)
        self._file = cache(self._write)
        self._groups: list[tuple[str, list[Planned]]] = []
        #: Why a device runs no small kernel, by its name.
        self._problem = cache(lambda place: device_problems([place]).get(place))

    def add_function(self, name: str, candidates: Sequence[Module]) -> None:
        """Plan the launches of one function."""
        interfaces = _interfaces((each, name) for each in candidates)
        programs = [each for each in candidates if each.kind == PROGRAM]
        kernels = []
        for program in programs:
            for kernel, modules in program_kernels(name, program).items():
                kernels += [(each, kernel) for each in modules]
        request = self._request(name, interfaces, _interfaces(kernels) or interfaces)
        request["is_whole"] = len(programs) > 1

        group = []
        for module, kind, label in _candidates(name, candidates):
            reason = ""
            planned = []
            for device in self._devices(kind):
                candidate = _explained(module, name, kind, device)
                if candidate.outcome == "refused":
                    reason = candidate.text
                else:
                    planned.append(self._plan(module, name, device, label, request))
            if not planned:
                reason = reason or _explained(module, name, kind).text
                planned.append(Planned(label, "", reason, {}, {}))
            group += planned
        self._groups.append((name, group))

    def _devices(self, kind: str) -> list[Device]:
        default = default_device(kind)
        if default is not None:
            return [default]
        return [device for device in self._listed() if device.kind == kind]

    def _request(
        self, name: str, interfaces: Sequence[Interface], launched: Sequence[Interface]
    ) -> Fields:
        """Return what the launches of all candidates of a function have in common. `launched` are
        the interfaces of its kernels.
        """
        # The block of a candidate that has none of its own.
        block: Any = self._block
        for each in interfaces:
            block = block or each.block or each.default_block
        blocks = []
        for each in launched:
            lengths = each.block or each.default_block or block or _OPEN_BLOCK
            blocks.append((*lengths, 1, 1)[:3])
        written = []
        for param in params_of(interfaces):
            if param.access != "r" and param.name:
                written.append(param.name)
        return {
            "name": name,
            "declared": [each.to_dict() for each in declared_params(interfaces).values()],
            "launches": _launches(interfaces, blocks, self._given),
            "written": written,
            "shape": self._shape,
            "block": block,
        }

    def _plan(
        self, module: Module, name: str, device: Device, label: str, request: Fields
    ) -> Planned:
        """Return a candidate on a device; `request` is what it has in common with the others."""
        arguments = {}
        with suppress(DevmodError):  # its process has the error
            function = module._unopened(name)
            arguments = {
                each: text for each, text in self._given.items() if has_argument(function, each)
            }
            self.unused.difference_update(arguments)
        place = device_label(device)
        own = {
            "module": self._file(module),
            "kind": device.kind,
            "device": place,
            "arguments": arguments,
            "results": str(self._folder / str(next(self._number))),
        }
        return Planned(label, place, "", {**request, **own}, {})

    def _write(self, module: Module) -> str:
        path = self._folder / f"{next(self._number)}.devmod"
        path.write_bytes(dumps(module))
        return str(path)

    def run(self, timeout: float) -> Iterator[tuple[str, list[Planned]]]:
        """Launch all: each in another process, but runtimes that were registered in this process
        alone. Yield the name and the candidates of a function after its launches. Its files are
        removed then, since a module may have many functions.
        """
        in_process = local_kinds()
        quiet = {"is_quiet": can_start_python()}
        with (
            Conversation(__name__, quiet, timeout, is_here=False) as others,
            Conversation(__name__, {"is_quiet": False}, timeout, is_here=True) as here,
        ):
            for name, group in self._groups:
                launched = [each for each in group if each.request]
                for candidate, number, request in _requests(launched):
                    conversation = others
                    if request["kind"] in in_process:
                        conversation = here
                    outcome, end = conversation.ask(request)
                    if end is not None:
                        outcome = {"outcome": "failed", "text": describe_launch(end, _GIVE)}
                    candidate.outcomes[number] = outcome
                self._leave_out(launched)
                yield name, group
                for each in launched:
                    for path in self._folder.glob(f"{Path(each.request['results']).name}-*"):
                        path.unlink()
        _open.cache_clear()
        _stored_draw.cache_clear()

    def _leave_out(self, launched: Sequence[Planned]) -> None:
        """Leave out candidates that failed on a device that runs no small kernel either."""
        for each in launched:
            if each.first_outcomes[-1]["outcome"] != "failed":
                continue
            problem = self._problem(each.device)
            if problem:
                text = f"{each.device} runs no small kernel either: {problem}"
                each.outcomes[0] = {"outcome": "left out", "text": text}


def _requests(launched: Sequence[Planned]) -> Iterator[tuple[Planned, int, Fields]]:
    """Yield the launches of one function: each draw of all candidates, since the outcomes of one
    decide about the next. A request has what the reference has written; None for the reference.
    """
    for number, inputs in enumerate(launched and launched[0].request["launches"]):
        peers = [each for each in launched if each.is_sound(number)]
        is_first = inputs["is_first"]
        if len(peers) < 2 and not is_first:
            return
        for each in peers:
            reference = next((peer for peer in peers if peer.has_results(number)), None)
            if reference is None and each is not peers[0] and not is_first:
                break
            request = {**each.request, "inputs": inputs, "reference": None, "seeds": ()}
            request["results"] += f"-{number}"
            if reference is not None:
                request["reference"] = reference.outcomes[number]["results"]
            elif len(launched) > 1:
                request["seeds"] = SEEDS
            yield each, number, request


def _launches(
    interfaces: Sequence[Interface], blocks: Sequence[Sequence[int]], given: Collection[str]
) -> list[Fields]:
    """Return the inputs of each launch of a function: two with values from 0 to 1, and one for each
    further draw.
    """
    largest = [min(lcm(*lengths), _MOST_THREADS) for lengths in zip(*blocks, strict=True)]
    largest = largest or [*_OPEN_BLOCK]
    few, many = _few_and_many(largest)
    kinds = kinds_of_numbers(interfaces)
    distinct = distinct_numbers(kinds, {*largest, *chain(*blocks)})
    negative = negative_numbers(kinds)
    plans = [
        ("random", equal_numbers(kinds), few),
        ("random", distinct, few),
        ("signed", numbers_of_many_blocks(distinct, kinds, many, largest, 0), many),
        # Sums of negative numbers alone are large, so that one of many has large errors.
        ("negative", distinct._replace(numbers={**distinct.numbers, **negative}), few),
        ("wide", numbers_of_many_blocks(distinct, kinds, many, largest, 1), many),
    ]
    open_params = [each for each in params_of(interfaces) if each.name not in given]
    if not open_params:
        del plans[2:]
    has_data = any(map(_is_data, open_params))
    images = threads_of_images(interfaces)
    launches: list[Fields] = []
    for word, invented, threads in plans:
        if images and word in ("signed", "wide"):
            invented = distinct
        # Without those that are parts of given arguments.
        numbers = {
            name: number
            for name, number in invented.numbers.items()
            if name.partition("[")[0] not in given
        }
        if launches and (launches[-1]["word"], launches[-1]["numbers"]) == (word, numbers):
            continue  # the results would be the same
        may_fail = has_data and word in ("negative", "wide")
        if word == "negative":
            may_fail |= any(isinstance(numbers.get(name), int) for name in negative)
        launches.append(
            {
                "word": word,
                "is_first": word == "random",
                "numbers": numbers,
                "length": invented.length,
                "threads": images or threads,
                "may_fail": may_fail,
            }
        )
    return launches


def _few_and_many(block: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the threads of a launch of two blocks in each dimension in which a block has threads,
    and of one of many.
    """
    axes = 1
    for axis, length in enumerate(block, 1):
        if length > 1:
            axes = axis
    few = [2 * block[0]]
    for length in block[1:axes]:
        if length > 1:
            few.append(2 * length)
        else:
            few.append(1)

    blocks = _SEVERAL_BLOCKS
    if axes == 1:
        blocks = _MANY_BLOCKS
    return few, [blocks * length for length in block[:axes]]


def _is_data(param: Param) -> bool:
    """Return whether a parameter is an array of integers whose name does not suggest indices."""
    if param.kind != "buffer" or is_size(param.name, is_scalar=False):
        return False
    with suppress(FormatError):
        return param.dtype is not None and has_integers(param.dtype)
    return False


def launcher(settings: Settings) -> Answer:
    """Return the function that launches a candidate once."""
    if not settings["is_quiet"]:
        return _outcome
    own = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)

    def launch(request: Fields) -> Fields:
        os.dup2(own, 2)
        if not request["inputs"]["is_first"]:
            os.dup2(null, 2)  # the values may make a driver fail, which prints that
        return _outcome(request)

    return launch


@lru_cache(maxsize=32)
def _open(path: str) -> Module:
    """Return the module of a file. The launches of its functions share what is built."""
    return loads_own(Path(path).read_bytes())


def _draw(name: str, shape: Shape, dtype: NumPyType, word: str) -> NumPyArray:
    """Return a random array. Other candidates, and functions whose arguments have these names, get
    the same one: drawing it takes longer than a launch.
    """
    if prod(shape) * dtype.itemsize > _MOST_STORED:
        return random_array(name, shape, dtype, word)
    return _stored_draw(name, shape, dtype, word)


@lru_cache(maxsize=16)
def _stored_draw(name: str, shape: Shape, dtype: NumPyType, word: str) -> NumPyArray:
    array = random_array(name, shape, dtype, word)
    array.flags.writeable = False
    return array


def _outcome(request: Fields) -> Fields:
    """Return the outcome of a launch, "launched" or one of a `Comparison`, and the text."""
    about = {"is_invented": False, "numbers": {}}
    try:
        return _launched(request, about)
    except NotFromInterfaceError as error:
        return {"outcome": "not compared", "text": str(error)}
    except GuardError as error:
        return {"outcome": FAULTS[error.fault], "text": str(error), **about}
    except ArgumentError as error:
        if request["inputs"]["is_first"]:
            raise
        return {"outcome": "error", "text": str(error)}
    except DeviceNotFoundError as error:
        return {"outcome": "left out", "text": f"{request['device']}: {error}"}
    except (KeyboardInterrupt, _UnsavedError):
        raise
    except BaseException as error:  # noqa: BLE001 - also a driver's own, which is the result of this candidate
        return {"outcome": "failed", "text": text_of(error)}


class _UnsavedError(DevmodError):
    """The results of a launch cannot be written."""


def _launched(request: Fields, about: Fields) -> Fields:
    """Launch. Add to `about` the numbers, and whether inputs are invented."""
    given = request["arguments"]
    inputs = request["inputs"]
    device = find_device(request["device"])
    function = _open(request["module"])._function_on(request["name"], device)
    program = program_of(function)
    if program is None and function._signature.interface is None:
        raise NotFromInterfaceError("the function has no interface")

    declared = {each.name: each for each in map(Param.from_dict, request["declared"])}
    invented = Invented(inputs["numbers"], inputs["length"], declared, inputs["word"], _draw)
    host = arguments_of(function, given, {}, invented)
    launch = _launch_shape(function, request)
    made = {name: value for name, value in host.items() if name not in given}
    about["numbers"] = inputs["numbers"]
    if program is not None:
        about["numbers"], _ = known_lengths(program, host, {})
    about["is_invented"] = any(not isinstance(value, float) for value in made.values())
    about["is_invented"] |= bool(launch) and not request["shape"]

    expected = request["reference"] or ()
    if request["is_whole"]:
        expected = None

    called = partial(_results, function, launch, request["written"])
    others = []
    with warnings.catch_warnings(record=True, action="always") as caught:
        if program is None:
            results = guarded_twice(function, partial(called, host, expected))
        else:
            results = _results_of_program(function, partial(called, host), expected)
        for seed in request["seeds"]:
            call = partial(called, moved_arguments(function, host, seed), expected)
            arrays = guarded_twice(function, call, again=False)
            others.append({name: array for name, array, _ in arrays})

    return {
        "outcome": "launched",
        "text": "; ".join(_notes(caught)),
        "results": _save(request, results, others),
        "inputs": describe_inputs(made, invented),
        **about,
    }


def _notes(caught: Iterable[warnings.WarningMessage]) -> Iterator[str]:
    """Yield the warnings about the launch itself, each once."""
    for text in dict.fromkeys(str(each.message) for each in caught):
        if "guard cannot see" in text or " dimensions, and" in text:
            yield text


def _save(
    request: Fields, results: Iterable[Any], others: Sequence[Fields]
) -> list[tuple[str, str, str, bool]]:
    """Write each array of results, with what it is for inputs that are moved, to a file. Return its
    name, the file, its type, and whether its integers stand for floats.
    """
    files: list[tuple[str, str, str, bool]] = []
    for name, array, is_image in results:
        path = f"{request['results']}-{len(files)}.npy"
        stacked = np.stack([array, *(each.get(name, array) for each in others)])
        try:
            np.save(path, stacked, allow_pickle=False)
        except OSError as error:
            raise _UnsavedError(
                f"verify: the results cannot be written to {path}: {error.strerror or error}. "
                "Free space there, or set TMPDIR to another folder"
            ) from None
        is_rounded = is_image and array.dtype.kind in "iu"
        files.append((name, path, array.dtype.name, is_rounded))
    return files


def _results(
    function: Function,
    launch: Fields,
    written: Sequence[str],
    host: Arguments,
    expected: Iterable[Any] | None,
    most_steps: int = 0,
) -> tuple[list[Result], dict[str, NumPyArray]]:
    """Launch. Return the name of each array that the launch, or a step of a program, has written,
    and whether it is an image of floats.

    `expected` are the results of the reference, which the steps of a program get; None for a call
    whose steps are not observed. Of more steps than `most_steps` (0: `_MOST_STEPS`) the zones are
    compared after the last one.
    """
    program = program_of(function)
    steps = _Steps(expected or ())
    methods: Methods = {}
    if program is not None and expected is not None:
        methods = {(GuardedCall, "check"): steps.observe}
    if program is not None and len(program.steps) > (most_steps or _MOST_STEPS):
        methods = {
            (GuardedCall, "keep"): lambda _: lambda call: None,
            (GuardedCall, "check"): lambda _: lambda call: steps.defer(call),
        }
    with replaced(methods, order=2):
        result, call = call_once(function, on_device(function, host), **launch)
        arrays = results_of(function, call, written)
    for name, argument in _writers(function).items():
        if name in arrays:
            _padding_of(argument, arrays[name])[:] = 0
    for each in dict.fromkeys(steps.deferred.values()):
        each.check()
    if result is not None:
        arrays["the returned value"] = np.asarray([result])
    if steps.results and steps.is_complete:
        entries = steps.results
    else:
        entries = [
            (name, array, _is_image_of_floats(call.get(name))) for name, array in arrays.items()
        ]
    return entries, {name: array for name, array, _ in entries}


def _writers(function: Any) -> dict[str, Argument]:
    """Return the argument of a kernel by which each array is written; in a program, that of the
    last step that writes it.
    """
    program = program_of(function)
    if program is None:
        return {each.name: each for each in function._signature.arguments}
    writers: dict[str, Argument] = {}
    for step in function.steps:
        for argument, given, *_ in step.arguments:
            if argument.written and isinstance(given, str):
                writers |= {given: argument}
    return writers


def _padding_of(argument: Argument, array: NumPyArray) -> NumPyArray:
    """Return the bytes of an array behind its vectors of three numbers: a kernel may write anything
    there.
    """
    if not argument.is_padded:
        return np.empty(0, np.uint8)
    vectors = array.reshape(-1).view(np.uint8).reshape(-1, argument.unit)
    return vectors[:, argument.unit // 4 * 3 :]


def _is_image_of_floats(value: object) -> bool:
    return isinstance(value, Image) and value.texel.sample == "float"


def _results_of_program(
    function: Function, called: Callable[..., Any], expected: Iterable[Any] | None
) -> Any:
    """Call a program in three guards, in the first of them with its steps observed, unless other
    candidates have other steps.
    """
    try:
        results = guarded_twice(function, partial(called, expected), again=False)
        guarded_twice(function, partial(called, None))
    except GuardError as error:
        if error.fault == "write":
            # Raise the error with its step, unless a launch does not repeat it.
            guarded_twice(function, partial(called, None, most_steps=1 << 16), again=False)
        raise
    return results


class _Steps:
    """The arrays that the steps of a program have written. Each step gets those of the reference,
    so that rounding does not add up.

    Parameters
    ----------
    reference
        The results of the reference, as in the outcome of a launch.

    Attributes
    ----------
    results
        The name with the step, the array, and whether it is an image of floats.
    is_complete
        Whether all are kept: they may be too large.
    deferred
        The last call of a long program with each memory, whose zones are not compared yet.
    """

    def __init__(self, reference: Iterable[Any]) -> None:
        self._reference = {name: (path, dtype) for name, path, dtype, _ in reference}
        self.results: list[Result] = []
        self.is_complete = True
        self._number = 0
        self._nbytes = 0
        self.deferred: dict[int, GuardedCall] = {}

    def defer(self, call: GuardedCall) -> None:
        """Replace `GuardedCall.check`."""
        self.deferred |= dict.fromkeys([id(memory) for _, _, memory in call.guarded], call)

    def observe(self, check: Callable[[GuardedCall], None]) -> Callable[[GuardedCall], None]:
        """Return what replaces `GuardedCall.check`."""

        def observed(call: GuardedCall) -> None:
            check(call)
            self._number += 1
            for argument, value, memory in call.guarded:
                self._add(call, argument, value, memory)
            arguments = call.function._signature.arguments
            for number, each in call._images.items():
                if isinstance(each, Image):
                    self._add(call, arguments[number], each, None)

        return observed

    def _add(
        self, call: GuardedCall, argument: Argument, value: Any, memory: GuardedMemory | None
    ) -> None:
        if not argument.written:
            return
        self._nbytes += value.nbytes
        self.is_complete = self._nbytes <= _MOST_RECORDED and len(self.results) < _MOST_STEPS
        if not self.is_complete:
            return
        name = f"step {self._number} ({call.function.name}): {argument.name}"
        array = value.numpy()
        self.results.append((name, array, _is_image_of_floats(value)))
        if name not in self._reference:
            return
        expected = load_result(*self._reference[name])[0]
        _padding_of(argument, array)[:] = _padding_of(argument, expected)
        if memory is None:
            value.copy_from(expected)
        else:
            memory.assign(np.frombuffer(expected.tobytes(), np.uint8))


def _launch_shape(function: Function, request: Fields) -> Fields:
    """Return the keywords of a launch."""
    if not has_grid(function):
        return {}
    launch = dict(request["shape"] or {"threads": request["inputs"]["threads"]})
    if function.block is None and "block" in function.launch_keywords:
        block = request["block"]
        interface = function._signature.interface
        if not block and interface is not None and interface.open_block:
            block = _OPEN_BLOCK
        if not block:
            raise NotFromInterfaceError(
                "its interface has no block of threads; give one: --block, or block="
            )
        launch["block"] = tuple(block)
    return launch


def load_result(path: str, dtype: str) -> NumPyArray:
    """Return an array of results and those for inputs that are moved, in one array of a file.

    NumPy stores types that are not its own, such as bfloat16, without their names.
    """
    array: NumPyArray = np.load(path, allow_pickle=False)
    if array.dtype.type is np.void and not array.dtype.names:
        return array.view(numpy_dtype(dtype))
    return array
