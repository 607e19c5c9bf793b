"""`devmod.verify`: whether the payloads of a module are intact, and its candidates agree on the
devices of this machine.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from contextlib import suppress
from functools import cache, partial
from itertools import chain, count
from math import lcm
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devmod import Image, Local, Param, devices, dumps, explain
from devmod import device as find_device
from devmod._modules.agreement import by_node, kernel_nodes
from devmod._modules.bundle import BundleModule
from devmod._modules.choice import describe_candidate, program_kernels
from devmod._modules.module import owner_of
from devmod._modules.programs import check_program
from devmod._modules.stored import StoredModule
from devmod._plugins.devices import default_device, device_label
from devmod._plugins.registry import local_kinds
from devmod._util.text import escape_line, shorten_repeat
from devmod._values.param import numpy_dtype
from devmod.backend import (
    BINARY_SERIALIZABLE,
    loads_own,
    payload_of,
    tag_problem,
    temporary_folder,
    walk,
)
from devmod.errors import (
    ArgumentError,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    GuardError,
    describe_error,
    function_not_found,
)
from devmod.targets import PROGRAM
from devmod.worker import answer_items, answers
from devmod_runtime._module import shader_entry, source_text
from devmod_runtime.tools.difference import default_rtol, worst_difference
from devmod_runtime.tools.doctor import device_problems
from devmod_runtime.tools.guard import GuardedCall, GuardedMemory, guarded_twice
from devmod_runtime.tools.inputs import (
    Invented,
    NotFromInterfaceError,
    arguments_of,
    call_once,
    declared_params,
    distinct_numbers,
    equal_numbers,
    has_argument,
    has_grid,
    interface_of,
    on_device,
    program_of,
    results_of,
    threads_of_images,
)
from devmod_runtime.tools.lengths import known_lengths
from devmod_runtime.tools.observed import replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod import Device, Function, FunctionInfo, Interface, Module, TargetSpec
    from devmod_runtime.tools.inputs import Arguments
    from devmod_runtime.tools.observed import Methods

_OUTCOMES = (
    "reference",
    "agrees",
    "ran",
    "differs",
    "unwritten",
    "writes outside",
    "reads outside",
    "failed",
    "left out",
    "not compared",
)
_UNLAUNCHED, _OUTSIDE = ("left out", "not compared"), ("writes outside", "reads outside")
_FAULTS = {"write": "writes outside", "read": "reads outside", "unwritten": "unwritten"}
_COMPARED, _ERRORS = ("reference", "agrees", "differs"), ("differs", *_FAULTS.values(), "failed")
#: The block of a kernel with an open one, if no other candidate has a block; and the most threads
#: of a block for all candidates.
_OPEN_BLOCK, _MOST_THREADS = (64, 1, 1), 1 << 12
#: The bytes and the number of the arrays that the steps of a program write, with which its steps
#: are compared one by one.
_MOST_RECORDED, _MOST_STEPS = 1 << 26, 1024


class Payload(NamedTuple):
    """The check of one module's payload.

    Attributes
    ----------
    name
        The module: its kind, format and variant.
    digest
        Whether its bytes were compared with a digest; False for a file without digests.
    damage
        What is wrong with its bytes; "" if they are intact.
    problem
        Why intact bytes cannot be compiled or called, such as an error in a source, or a function
        that they lack; "" without a reason.
    checked
        Whether its contents were read. A kind of another wheel may have no check, and only a driver
        reads some formats.
    """

    name: str
    digest: bool
    damage: str
    problem: str
    checked: bool


class Comparison(NamedTuple):
    """The check of one candidate of a function on one device.

    Attributes
    ----------
    candidate
        The kind, the format and the variant, such as ``cuda/cubin for sm_90``.
    device
        The device such as "cuda:0"; "" if it was not launched.
    outcome
        "reference" for the first, with which the others are compared; "agrees"; "ran" alone;
        "differs"; "unwritten" for a program that returns or reads memory that nothing wrote;
        "writes outside" of an array; "reads outside" of its arrays; "failed"; "left out" for a
        device that runs no small kernel either, or lacks what the candidate needs; "not compared".
    text
        Why, or the worst error.
    """

    candidate: str
    device: str
    outcome: str
    text: str


class Verification:
    """The result of `devmod.verify`. Its text is a table.

    Attributes
    ----------
    payloads
        A `Payload` for each module with bytes.
    functions
        Function name to a `Comparison` for each candidate and device.
    """

    def __init__(
        self, payloads: Sequence[Payload], functions: Mapping[str, tuple[Comparison, ...]]
    ) -> None:
        self.payloads, self.functions = tuple(payloads), functions

    @property
    def ok(self) -> bool:
        """Whether no payload has a problem, no candidate is wrong or fails, and one was launched if
        there is one.
        """
        checked = [each for comparisons in self.functions.values() for each in comparisons]
        return (
            not any(each.damage or each.problem for each in self.payloads)
            and not any(each.outcome in _ERRORS for each in checked)
            and (not checked or any(each.device for each in checked))
        )

    @property
    def uncompared(self) -> list[str]:
        """The functions of which no result was compared with another one: one candidate ran, or
        none, or they write to no array.
        """
        return [
            name
            for name, checked in self.functions.items()
            if not {each.outcome for each in checked} & {"agrees", "differs"}
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the verification as plain data."""
        return {
            "ok": self.ok,
            "uncompared": self.uncompared,
            "payloads": [each._asdict() for each in self.payloads],
            "functions": {
                name: [each._asdict() for each in checked]
                for name, checked in self.functions.items()
            },
        }

    def __str__(self) -> str:
        intact = [each for each in self.payloads if not each.damage]
        digests = sum(each.digest for each in intact)
        lines = [
            f"payloads: {len(intact)} of {len(self.payloads)} intact, {digests} compared with a digest"
        ]
        lines += [f"  damaged {each.name}: {each.damage}" for each in self.payloads if each.damage]
        lines += [
            f"  invalid {each.name}: {each.problem}" for each in self.payloads if each.problem
        ]
        for payload in self.payloads:
            if not payload.checked:
                lines.append(f"  intact, contents not checked: {payload.name}")
        seen: set[str] = set()
        for name, checked in self.functions.items():
            lines.append(f"{name}:")
            places = [
                f"{each.candidate}{' on ' + each.device if each.device else ''}" for each in checked
            ]
            width, wide = max(map(len, _OUTCOMES)), max(map(len, places), default=0)
            for each, place in zip(
                checked, places, strict=True
            ):  # what a machine lacks is the same for each function
                text = each.text if each.device else shorten_repeat(each.text, seen)
                lines.append(f"  {each.outcome:<{width}}  {place:<{wide}}  {text}".rstrip())
        if self.functions:
            lines.append(self._summary())
        return "\n".join(map(escape_line, lines))

    def _summary(self) -> str:
        """Return how many candidates were compared on how many devices."""
        if not any(each.device for checked in self.functions.values() for each in checked):
            return "no candidate could be launched"
        candidates, devices_used = 0, set()
        for checked in self.functions.values():
            # Two candidates may have one name: on a device each has a comparison.
            places = Counter(
                (each.candidate, each.device) for each in checked if each.outcome in _COMPARED
            )
            counts: dict[str, int] = {}
            for (candidate, device), number in places.items():
                counts[candidate] = max(counts.get(candidate, 0), number)
                devices_used.add(device)
            candidates += sum(counts.values())
        return f"{candidates} candidate{'s' * (candidates != 1)} compared on {len(devices_used)} device{'s' * (len(devices_used) != 1)}"

    __repr__ = __str__


def verify(
    module: Module,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    threads: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 120,
) -> Verification:
    """Check the payloads of a module, and compare the results of each function's candidates on the
    devices of this machine.

    Each candidate is launched with two inputs on each device that it fits, in another process, each
    in two guards that have other bytes around the arrays (`devmod.guard`). The inputs are made from
    the interface: arrays and images of random numbers, first with integers of 16 and floats of 0.5,
    then with a different number for each scalar, one of which is greater than a block and no
    multiple of it. Each array that a candidate may write is compared with that of the first
    candidate. A candidate that ends the process has failed. A write or read outside that every
    candidate makes with such sizes is no error; the function is not compared then.
    ``DEVMOD_DEVICE`` restricts a kind to one device. The candidates of a program are the kinds of
    its kernels: each step gets the arrays of the first kind, and the arrays that it writes are
    compared. Programs of one name with kernels of their own have other steps, so their outputs,
    updates and states are compared, by default with five times the tolerance, of the largest
    number. A program has one guard, and is called twice more with other bytes in its new outputs
    and temporaries: results that depend on them return or read memory that nothing wrote. A program
    of more than 1,024 steps is compared as a whole.

    Parameters
    ----------
    module
        Any module. The candidates are those of its bundles.
    name
        The function. Default: all functions.
    arguments
        Name to value, in place of inputs from the interface; a str is a text as of ``devmod run``,
        such as "random:float32[64,64]". They are used for each function that has such a parameter.
        The name of a program's length has a number; the others get numbers that the program
        accepts.
    threads
        The threads of each launch. Default: two of the candidates' largest blocks in each dimension
        in which a block has threads.
    grid
        The blocks of each launch, in place of `threads`.
    block
        The block of threads of a candidate that has none of its own. Default: that of another
        candidate.
    rtol, atol
        The tolerance: ``atol + rtol * abs(expected)``. The default of `rtol` follows the type of
        the elements: 1e-10 for float64, 2e-5 for float32, 1e-2 for float16, 5e-2 for bfloat16. That
        of `atol` is `rtol`. Integers and bools must be equal: `rtol` does not apply to them, and
        `atol` has the default 0. Numbers that an image stores as integers for floats may differ by
        1.
    timeout
        The limit for the two launches of a candidate with its build, in seconds.

    Raises
    ------
    FunctionNotFoundError
        The module has no such function.
    ArgumentError
        An argument of `arguments` is invalid, or no function has it.
    DevmodError
        The temporary folder has too little free space for the results.
    """
    modules = list(walk(module))
    leaves = [each for each in modules if each.property_mask & BINARY_SERIALIZABLE]
    payloads = [_payload(each) for each in leaves]
    damaged = {
        id(each)
        for each, payload in zip(leaves, payloads, strict=True)
        if payload.damage or payload.problem
    }
    sound = [each for each in leaves if id(each) not in damaged and each.kind != "const_loader"]
    names = dict.fromkeys(each for leaf in sound for each in leaf.function_names)
    if name is not None and name not in names:
        raise function_not_found(module.kind, name, list(names))
    given = dict(arguments or {})
    unused = set(given)
    functions: dict[str, list[list[_Planned]]] = {}
    nodes = kernel_nodes([module])
    with temporary_folder() as folder:
        trials = _Trials(Path(folder), given, unused, threads, grid, block)
        for each in names if name is None else [name]:
            owner = owner_of(each, module)
            among = owner.candidates if isinstance(owner, BundleModule) else [owner]
            candidates = [leaf for leaf in sound if each in leaf.function_names and leaf in among]
            functions[each] = [
                trials.of_function(each, group) for group in by_node(candidates, nodes)
            ]
        trials.run(timeout, rtol, atol)
        comparisons = {
            each: tuple(chain(*(_compare(own, rtol, atol) for own in planned)))
            for each, planned in functions.items()
        }
    if unused:
        raise ArgumentError(
            f"verify: no compared function has an argument {min(unused)!r}", argument=min(unused)
        )
    return Verification(payloads, comparisons)


# -- Payloads.


def _payload(module: Module) -> Payload:
    label = describe_candidate(module)
    digest = isinstance(module, StoredModule) and module.has_digest
    damage = problem = ""
    is_checked = False
    try:
        try:
            if isinstance(module, StoredModule):
                module.verify()
        except DevmodError as error:
            damage = str(error)
        else:
            is_checked = _check(module)
    except Exception as error:  # noqa: BLE001 - the check may be another wheel's
        problem = _text_of(error)
    finally:
        if isinstance(module, StoredModule):
            module.release()
    return Payload(label, digest, damage, problem, is_checked or bool(damage or problem))


def _text_of(error: Exception) -> str:
    if isinstance(error, DevmodError):
        return str(error)
    return describe_error(error)


def _check(module: Module) -> bool:
    """Return whether a payload was read here. Raise FormatError or CompileError for one that no
    device can use, or launch tags with which a function cannot be called.
    """
    for name, info in module.functions.items():
        if problem := tag_problem(info.launch_param_tags):
            raise FormatError(
                f"the {module.kind} function {name!r} cannot be called: {problem}",
                kind=module.kind,
                function=name,
            )
    if module.kind == PROGRAM:
        for name, info in module.functions.items():
            # What a newer devmod runs is refused, and the others are compared.
            if info.interface is None or not info.interface.needs:
                check_program(name, module)
        return True
    payload = payload_of(module)
    if payload is None:
        return False

    spec, fmt, functions, code = payload
    if isinstance(code, (bytes, memoryview)):
        return _check_binary(spec, fmt, f"payload of format {fmt!r}", code, functions)
    entries = _shader_functions(spec.kind, functions, code)
    checked = [
        _check_binary(spec, fmt, f"shader {entry!r}", data, entries.get(entry, {}))
        for entry, data in code.items()
    ]
    return all(checked)


def _check_binary(
    spec: TargetSpec,
    fmt: str,
    subject: str,
    data: bytes | memoryview,
    functions: Mapping[str, FunctionInfo],
) -> bool:
    if fmt in spec.text_formats:
        text: bytes | memoryview = data
        if fmt not in spec.source_formats:  # a driver reads it, and a zero byte may end it
            text = bytes(data).rstrip(b"\0")
        source_text(spec.kind, f"the {spec.kind} {subject}", text)
    return spec.check is not None and spec.check(fmt, data, functions)


def _shader_functions(
    kind: str, functions: Mapping[str, FunctionInfo], shaders: Collection[str]
) -> dict[str, dict[str, FunctionInfo]]:
    """Return the functions of each shader."""
    found: dict[str, dict[str, FunctionInfo]] = {}
    for name, info in functions.items():
        entry = shader_entry(kind, name, info, shaders)
        found.setdefault(entry, {})[name] = info
    return found


# -- Candidates.


class _Planned(NamedTuple):
    """A candidate on a device, or a candidate without one and the reason.

    Attributes
    ----------
    label, device, reason
        The candidate, its device or "", and why it is not launched.
    request
        What `_launch` is called with.
    outcomes
        What each of its launches has written, once it has run.
    """

    label: str
    device: str
    reason: str
    request: dict[str, Any]
    outcomes: list[dict[str, Any]]

    def is_compared(self, unsound: int | None) -> bool:
        """Whether each launch before an unsound one has results, and there is one."""
        outcomes = [each["outcome"] for each in self.outcomes[:unsound]]
        return bool(outcomes) and set(outcomes) == {"launched"}

    def numbers(self, launch: int) -> str:
        """Return the integers of a launch that devmod chose, as in " for n=16"; "" if there is
        none.
        """
        numbers = self.request["launches"][launch]["numbers"]
        if launch < len(self.outcomes):  # a program has the lengths that it accepts
            numbers = self.outcomes[launch].get("numbers", numbers)
        text = ", ".join(
            f"{name}={number}" for name, number in numbers.items() if isinstance(number, int)
        )
        return f" for {text}" if text else ""


def _candidates(name: str, modules: Sequence[Module]) -> Iterator[tuple[Module, str, str]]:
    """Yield the candidates of a function: the module, the kind and the label. A program has one for
    each kind of its kernels.
    """
    for module in modules:
        if module.kind != PROGRAM:
            yield module, module.kind, describe_candidate(module)
            continue
        kernels = program_kernels(name, module).values()
        yield from (
            (module, kind, kind)
            for kind in dict.fromkeys(each.kind for all_ in kernels for each in all_)
        )


def _explained(module: Module, name: str, kind: str, device: Device | None = None) -> Any:
    return next(each for each in explain(module, name, device).functions[name] if each.kind == kind)


class _Trials:
    """The launches of all candidates. Their process gets text, numbers and files in `folder`. Used
    names leave `unused`.
    """

    def __init__(
        self,
        folder: Path,
        given: Mapping[str, Any],
        unused: set[str],
        threads: Any,
        grid: Any,
        block: Any,
    ) -> None:
        self._folder, self._unused = folder, unused
        self._threads, self._grid, self._block = (
            [each] if isinstance(each, int) else each and [*map(int, each)]
            for each in (threads, grid, block)
        )
        self._number, self._listed = count(), cache(devices)
        self._given = {name: self._text(name, value) for name, value in given.items()}
        self._files: dict[int, Path] = {}
        self._planned: list[_Planned] = []

    def _text(self, name: str, value: Any) -> str:
        """Return the value of an argument as a text of `devmod run`."""
        if isinstance(value, str):
            return value
        if isinstance(value, Local):
            return f"local:{value.nbytes}"
        if hasattr(value, "numpy"):  # an array or an image of devmod
            value = value.numpy()
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, np.ndarray):
            path = self._folder / f"{next(self._number)}.npy"
            np.save(path, value, allow_pickle=False)
            return str(path)
        return repr(value)

    def of_function(self, name: str, candidates: Sequence[Module]) -> list[_Planned]:
        """Plan the launches of one function."""
        interfaces = [found for each in candidates if (found := _interface(each, name)) is not None]
        programs = [each for each in candidates if each.kind == PROGRAM]
        kernels = [
            _interface(each, kernel)
            for program in programs
            for kernel, all_ in program_kernels(name, program).items()
            for each in all_
        ]
        launched = [each for each in kernels if each is not None] or interfaces
        planned: list[_Planned] = []
        for module, kind, label in _candidates(name, candidates):
            default = default_device(kind)
            here = (
                [device for device in self._listed() if device.kind == kind]
                if default is None
                else [default]
            )
            reason, fits = "", False
            for device in here:
                candidate = _explained(module, name, kind, device)
                if candidate.outcome == "refused":
                    reason = candidate.text
                    continue
                fits = True
                planned.append(
                    self._plan(module, name, device, interfaces, launched, planned, label)
                )
                planned[-1].request["is_whole"] = len(programs) > 1
            if not fits:
                planned.append(
                    _Planned(label, "", reason or _explained(module, name, kind).text, {}, [])
                )
        self._planned += planned
        return planned

    def _plan(
        self,
        module: Module,
        name: str,
        device: Device,
        interfaces: Sequence[Interface],
        launched: Sequence[Interface],
        planned: Sequence[_Planned],
        label: str,
    ) -> _Planned:
        path = self._files.get(id(module))
        if path is None:
            path = self._files[id(module)] = self._folder / f"{next(self._number)}.devmod"
            path.write_bytes(dumps(module))
        arguments = {}
        try:
            function = module.get_function(name)
        except DevmodError:  # its process has the error
            pass
        else:
            arguments = {
                each: text for each, text in self._given.items() if has_argument(function, each)
            }
            self._unused.difference_update(arguments)
        place = device_label(device)
        # The block of a candidate that has none of its own.
        block = self._block or next(
            (block for each in interfaces if (block := each.block or each.default_block)), None
        )
        blocks = [
            (*(each.block or each.default_block or block or _OPEN_BLOCK), 1, 1)[:3]
            for each in launched
        ]
        largest = [min(lcm(*lengths), _MOST_THREADS) for lengths in zip(*blocks, strict=True)] or [
            *_OPEN_BLOCK
        ]
        launches = [
            equal_numbers(interfaces),
            distinct_numbers(interfaces, {*largest, *chain(*blocks)}),
        ]
        numbers = [
            {
                key: number
                for key, number in each.numbers.items()
                if key.partition("[")[0] not in arguments
            }
            for each in launches
        ]
        default = threads_of_images(interfaces) or [
            2 * each if each > 1 or not axis else 1 for axis, each in enumerate(largest)
        ]
        request = {
            "module": str(path),
            "kind": device.kind,
            "name": name,
            "device": place,
            "arguments": arguments,
            "declared": [each.to_dict() for each in declared_params(interfaces).values()],
            # A second launch with the same numbers has the same results.
            "launches": [
                {"numbers": each, "length": invented.length}
                for each, invented in zip(numbers, launches, strict=True)
                if invented is launches[0] or numbers[0] != numbers[1]
            ],
            "written": [
                param.name
                for each in interfaces
                for param in each.params
                if param.access != "r" and param.name
            ],
            "shape": {
                word: each
                for word, each in (("threads", self._threads), ("grid", self._grid))
                if each is not None
            },
            "threads": default[
                : max((axis for axis, each in enumerate(default, 1) if each > 1), default=1)
            ],
            "block": block,
            "results": str(self._folder / str(next(self._number))),
            "before": [each.request["results"] for each in planned if each.request],
        }
        return _Planned(label, place, "", request, [])

    def run(self, timeout: float, rtol: float | None, atol: float | None) -> None:
        """Launch all: each in another process, but runtimes that were registered in this process
        alone.
        """
        launched = [each for each in self._planned if each.request]
        in_process = local_kinds()
        requests = [{**each.request, "tolerance": (rtol, atol)} for each in launched]
        results = answers(
            __name__, requests, _launch, timeout, here=lambda request: request["kind"] in in_process
        )
        for each, (_, end) in zip(launched, results, strict=True):
            each.outcomes.extend(_read_outcomes(each.request, str(end or "")))
        failed = [each for each in launched if each.outcomes[-1]["outcome"] == "failed"]
        problems = (
            device_problems([*dict.fromkeys(each.device for each in failed)]) if failed else {}
        )
        for each in failed:
            if each.device in problems:
                text = f"{each.device} runs no small kernel either: {problems[each.device]}"
                each.outcomes[:] = [{"outcome": "left out", "text": text}]


def main(request: dict[str, Any]) -> None:
    """Run in the new process: answer when the launches of each item have ended."""
    answer_items(request, _launch)


def _read_outcomes(request: Mapping[str, Any], end: str) -> list[dict[str, Any]]:
    """Return what the launches of a request have written, and the `end` of the process for a launch
    that has written nothing.
    """
    path = Path(request["results"] + ".json")
    outcomes = (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    )
    if end and all(each["outcome"] == "launched" for each in outcomes):
        outcomes.append({"outcome": "failed", "text": f"its launch {end}"})
    return outcomes


def _launch(request: dict[str, Any]) -> bool:
    """Launch a candidate with each of the inputs, and write each outcome to a file at once: the
    process may end because of the launch.
    """
    with open(request["results"] + ".json", "w", encoding="utf-8") as file:
        for outcome in _outcomes(request):
            file.write(json.dumps(outcome) + "\n")
            file.flush()
    return True


def _outcomes(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the outcome of each launch, "launched" or one of a `Comparison`, and the text. None
    follows one that is not "launched".
    """
    given, is_invented = request["arguments"], False
    numbers: dict[str, Any] = {}
    try:
        device = find_device(request["device"])
        function = (
            loads_own(Path(request["module"]).read_bytes()).get_function(request["name"]).on(device)
        )
        interface = interface_of(function)
        if interface is None:
            raise NotFromInterfaceError("the function has no interface")
        before = [_read_outcomes({"results": path}, "") for path in request["before"]]
        reference = next(
            (
                each
                for each in before
                if each and all(launch["outcome"] == "launched" for launch in each)
            ),
            [],
        )
        declared = {each.name: each for each in map(Param.from_dict, request["declared"])}
        for number, inputs in enumerate(request["launches"]):
            host = arguments_of(
                function, given, {}, Invented(inputs["numbers"], inputs["length"], declared)
            )
            launch = _launch_shape(function, interface, request)
            invented = [
                value
                for name, value in host.items()
                if name not in given and not isinstance(value, float)
            ]
            program = program_of(function)
            numbers = inputs["numbers"] if program is None else {}
            is_invented = bool(invented) or (bool(launch) and not request["shape"])
            if program is not None:
                known_lengths(program, host.named, numbers)
            called = partial(_results, function, host, device, launch, request["written"])
            expected = reference[number]["results"] if number < len(reference) else ()
            expected = None if request["is_whole"] else expected
            with warnings.catch_warnings(record=True, action="always") as caught:
                if program is None:
                    results = guarded_twice(function, partial(called, expected))
                else:
                    results = _results_of_program(function, called, expected)
            files: list[tuple[str, str, str, bool]] = []
            for name, array, is_image in results:
                path = f"{request['results']}-{number}-{len(files)}.npy"
                try:
                    np.save(path, array, allow_pickle=False)
                except OSError as error:
                    text = f"the results cannot be written to {path}: {error.strerror or error}"
                    yield {"outcome": "unsaved", "text": text}
                    return
                files.append((name, path, array.dtype.name, is_image and array.dtype.kind in "iu"))
            notes = [
                text
                for text in map(str, (each.message for each in caught))
                if "guard cannot see" in text or " dimensions, and" in text
            ]
            yield {
                "outcome": "launched",
                "text": "; ".join(notes),
                "results": files,
                "numbers": numbers,
            }
    except NotFromInterfaceError as error:
        yield {"outcome": "not compared", "text": str(error)}
    except GuardError as error:
        yield {
            "outcome": _FAULTS[error.fault],
            "text": str(error),
            "is_invented": is_invented,
            "numbers": numbers,
        }
    except ArgumentError as error:
        about = {"kind": error.kind, "function": error.function, "argument": error.argument}
        yield {"outcome": "error", "text": str(error), "about": about}
    except DeviceNotFoundError as error:
        yield {"outcome": "left out", "text": f"{request['device']}: {error}"}
    except Exception as error:  # noqa: BLE001 - also a driver's own, which is the result of this candidate
        yield {
            "outcome": "failed",
            "text": str(error) if isinstance(error, DevmodError) else describe_error(error),
        }


def _results(
    function: Function,
    host: Arguments,
    device: Device,
    launch: Mapping[str, Any],
    written: Sequence[str],
    expected: Iterable[Any] | None,
    most_steps: int = _MOST_STEPS,
) -> tuple[list[tuple[str, np.ndarray[Any, Any], bool]], dict[str, np.ndarray[Any, Any]]]:
    """Launch. Return the name of each array that the launch, or a step of a program, has written,
    and whether it is an image of floats.

    `expected` are the results of the reference, which the steps of a program get; None for a call
    whose steps are not observed. Of more steps than `most_steps` the zones are compared after the
    last one.
    """
    program = program_of(function)
    steps = _Steps(expected or ())
    methods: Methods = (
        {(GuardedCall, "check"): steps.observe}
        if program is not None and expected is not None
        else {}
    )
    if program is not None and len(program.steps) > most_steps:
        methods = {
            (GuardedCall, "keep"): lambda _: lambda call: None,
            (GuardedCall, "check"): lambda _: lambda call: steps.defer(call),
        }
    with replaced(methods, order=2):
        result, call = call_once(function, on_device(function, host, device), device, **launch)
        arrays = results_of(function, call, written)
    for each in dict.fromkeys(steps.deferred.values()):
        each.check()
    if result is not None:
        arrays["the returned value"] = np.asarray([result])
    images = {
        name
        for name, value in call.items()
        if isinstance(value, Image) and value.texel.sample == "float"
    }
    entries = [(name, array, name in images) for name, array in arrays.items()]
    entries = steps.results if steps.results and steps.is_complete else entries
    return entries, {name: array for name, array, _ in entries}


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
        if (
            error.fault == "write"
        ):  # raise the error with its step, unless a launch does not repeat it
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
        self.results: list[tuple[str, np.ndarray[Any, Any], bool]] = []
        self.is_complete, self._number, self._nbytes = True, 0, 0
        self.deferred: dict[int, GuardedCall] = {}

    def defer(self, call: GuardedCall) -> None:
        """Replace `GuardedCall.check`."""
        self.deferred |= dict.fromkeys([id(memory) for _, _, memory in call.guarded], call)

    def observe(self, check: Callable[[GuardedCall], None]) -> Callable[[GuardedCall], None]:
        """Return what replaces `GuardedCall.check`."""

        def observed(call: GuardedCall) -> None:
            check(call)
            self._number += 1
            arguments = call.function._signature.arguments
            images = [
                (arguments[number], each, None)
                for number, each in call._images.items()
                if isinstance(each, Image)
            ]
            for argument, value, memory in (*call.guarded, *images):
                if argument.written:
                    self._add(
                        f"step {self._number} ({call.function.name}): {argument.name}",
                        value,
                        memory,
                    )

        return observed

    def _add(self, name: str, value: Any, memory: GuardedMemory | None) -> None:
        self._nbytes += value.nbytes
        self.is_complete = self._nbytes <= _MOST_RECORDED and len(self.results) < _MOST_STEPS
        if not self.is_complete:
            return
        self.results.append((name, value.numpy(), memory is None and value.texel.sample == "float"))
        if name in self._reference:
            expected = _load(*self._reference[name])
            value.copy_from(expected) if memory is None else memory.assign(
                np.frombuffer(expected.tobytes(), np.uint8)
            )


def _launch_shape(
    function: Function, interface: Interface, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keywords of a launch."""
    if not has_grid(function):
        return {}
    launch = dict(request["shape"] or {"threads": request["threads"]})
    if function.block is None:
        block = request["block"] or (_OPEN_BLOCK if interface.open_block else None)
        if block is None:
            raise NotFromInterfaceError(
                "its interface has no block of threads; give one: --block, or block="
            )
        launch["block"] = tuple(block)
    return launch


# -- Comparisons.


def _compare(
    planned: Sequence[_Planned], rtol: float | None, atol: float | None
) -> Iterator[Comparison]:
    """Yield the comparisons of one function's launches."""
    unsound = _unsound_launch(planned)
    is_alone = sum(each.is_compared(unsound) for each in planned) == 1
    reference: _Planned | None = None
    for each in planned:
        if not each.request:
            yield Comparison(each.label, "", "not compared", each.reason)
            continue
        number, last = len(each.outcomes) - 1, each.outcomes[-1]
        outcome, text = last["outcome"], last["text"]
        if outcome == "error":
            raise ArgumentError(text, **last["about"])
        if outcome == "unsaved":
            raise DevmodError(f"verify: {text}. Free space there, or set TMPDIR to another folder")
        if number == unsound:
            outcome = "not compared"
            chosen = f"every candidate does this{each.numbers(number)} with sizes that devmod chose"
            text = f"{chosen}: {text}. Give the sizes: NAME=VALUE and --threads"
        notes = [*dict.fromkeys((*(each["text"] for each in each.outcomes[:number]), text))]
        if not each.is_compared(unsound):
            is_launched = outcome not in _UNLAUNCHED or number == unsound
            yield Comparison(each.label, each.device if is_launched else "", outcome, text)
        elif is_alone:
            yield Comparison(
                each.label,
                each.device,
                "ran",
                "; ".join(filter(None, ["nothing to compare with", *notes])),
            )
        elif reference is None:
            reference = each
            yield Comparison(each.label, each.device, "reference", "; ".join(filter(None, notes)))
        else:
            outcome, text = _compared(each, reference, rtol, atol)
            yield Comparison(
                each.label,
                each.device,
                outcome,
                text if outcome == "differs" else "; ".join(filter(None, [text, *notes])),
            )


def _unsound_launch(planned: Sequence[_Planned]) -> int | None:
    """Return the number of the launch in which every candidate is outside, or fails after an
    earlier launch, for invented sizes.
    """
    for number in range(2):
        # A process may also end after its last launch.
        outcomes = [
            each.outcomes[number]
            for each in planned
            if each.request and number < min(len(each.outcomes), len(each.request["launches"]))
        ]
        outcomes = [each for each in outcomes if each["outcome"] not in _UNLAUNCHED]
        names = {each["outcome"] for each in outcomes}
        if (
            names
            and names <= {*_OUTSIDE, "failed"}
            and all(each.get("is_invented", number) for each in outcomes)
        ):
            return number if number or names <= {*_OUTSIDE} else None
    return None


def _compared(
    candidate: _Planned, reference: _Planned, rtol: float | None, atol: float | None
) -> tuple[str, str]:
    """Return the outcome of a comparison, and the text."""
    worst = None
    for number, (launch, other) in enumerate(
        zip(candidate.outcomes, reference.outcomes, strict=True)
    ):
        files = {name: rest for name, *rest in other.get("results", ())}
        for name, path, dtype, is_rounded in launch.get("results", ()):
            if name not in files:  # reflection may know of one candidate alone that it only reads
                continue
            try:
                arrays = _load(path, dtype), _load(*files[name][:2])
                allowed = max(atol or 0, 1) if is_rounded else atol
                if (
                    candidate.request["is_whole"] and allowed is rtol is None
                ):  # the rounding of all steps adds up
                    allowed = (
                        5
                        * default_rtol(*arrays)
                        * np.max(np.abs(arrays[1]), initial=0, where=np.isfinite(arrays[1]))
                    )
                difference = worst_difference(name, *arrays, rtol, allowed)
            except ArgumentError as error:
                return "differs", str(error)
            if difference.is_error:
                return "differs", (
                    f"{name}{difference.subscript} is {difference.value!r}, and {difference.expected!r} with {reference.label} on "
                    f"{reference.device}{candidate.numbers(number)}; they differ by {difference.error:.3g}"
                )
            worst = difference.error if worst is None else max(worst, difference.error)
    return (
        ("not compared", "it writes to no array")
        if worst is None
        else ("agrees", f"worst error {worst:.3g}")
    )


def _interface(module: Module, name: str) -> Interface | None:
    with suppress(DevmodError):  # its process has the error
        return getattr(module.functions.get(name), "interface", None)
    return None


def _load(path: str, dtype: str) -> np.ndarray[Any, Any]:
    """Return an array of a file. NumPy stores types that are not its own, such as bfloat16, without
    their names.
    """
    array: np.ndarray[Any, Any] = np.load(path, allow_pickle=False)
    return (
        array.view(numpy_dtype(dtype))
        if array.dtype.type is np.void and not array.dtype.names
        else array
    )
