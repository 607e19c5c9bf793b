"""`devmod.verify`: whether the payloads of a module are intact, and its candidates agree on the devices of this machine."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devmod import Image, Local, devices, dumps, explain, loads
from devmod import device as find_device
from devmod._modules.bundle import BundleModule
from devmod._modules.choice import describe_candidate
from devmod._modules.module import owner_of
from devmod._modules.stored import StoredModule
from devmod._plugins.devices import default_device, device_label
from devmod._util.text import escape_line, shorten_repeat
from devmod.backend import BINARY_SERIALIZABLE, payload_of, tag_problem, temporary_folder, walk
from devmod.errors import ArgumentError, DevmodError, FormatError, GuardError, describe_error, function_not_found
from devmod.worker import answer_items, answers
from devmod_runtime._difference import worst_difference
from devmod_runtime._guard import guard
from devmod_runtime._inputs import (
    INTEGER,
    NotFromInterfaceError,
    arguments_of,
    image_formats,
    on_device,
    results_of,
    threads_of_images,
)
from devmod_runtime._launches import kinds_here
from devmod_runtime._module import source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Interface, Module

_OUTCOMES = ("reference", "agrees", "differs", "writes outside", "failed", "not compared")
_ERRORS = ("differs", "writes outside", "failed")


class Payload(NamedTuple):
    """The check of one module's payload.

    Attributes
    ----------
    name
        The module: its kind, format and variant.
    digest
        Whether its bytes were compared with a digest; False for a file without digests.
    problem
        What is wrong with it; "" if it is intact and can be parsed.
    """

    name: str
    digest: bool
    problem: str


class Comparison(NamedTuple):
    """The check of one candidate of a function on one device.

    Attributes
    ----------
    candidate
        The kind, the format and the variant, such as ``cuda/cubin for sm_90``.
    device
        The device such as "cuda:0"; "" if it was not launched.
    outcome
        "reference" for the first, with which the others are compared; "agrees"; "differs"; "writes outside" of an array; "failed";
        "not compared".
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

    def __init__(self, payloads: Sequence[Payload], functions: Mapping[str, tuple[Comparison, ...]]) -> None:
        self.payloads, self.functions = tuple(payloads), functions

    @property
    def ok(self) -> bool:
        """Whether no payload has a problem, and no candidate differs, writes outside or fails."""
        return not any(each.problem for each in self.payloads) and not any(
            each.outcome in _ERRORS for checked in self.functions.values() for each in checked
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the verification as plain data."""
        return {
            "ok": self.ok,
            "payloads": [each._asdict() for each in self.payloads],
            "functions": {name: [each._asdict() for each in checked] for name, checked in self.functions.items()},
        }

    def __str__(self) -> str:
        intact = [each for each in self.payloads if not each.problem]
        digests = sum(each.digest for each in intact)
        lines = [f"payloads: {len(intact)} of {len(self.payloads)} intact, {digests} compared with a digest"]
        lines += [f"  damaged {each.name}: {each.problem}" for each in self.payloads if each.problem]
        seen: set[str] = set()
        for name, checked in self.functions.items():
            lines.append(f"{name}:")
            places = [f"{each.candidate}{' on ' + each.device if each.device else ''}" for each in checked]
            width, wide = max(map(len, _OUTCOMES)), max(map(len, places), default=0)
            for each, place in zip(checked, places, strict=True):  # what a machine lacks is the same for each function
                text = each.text if each.device else shorten_repeat(each.text, seen)
                lines.append(f"  {each.outcome:<{width}}  {place:<{wide}}  {text}".rstrip())
        return "\n".join(map(escape_line, lines))

    def __repr__(self) -> str:
        return str(self)


def verify(
    module: Module,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    threads: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    timeout: float = 120,
) -> Verification:
    """Check the payloads of a module, and compare the results of each function's candidates on the devices of this machine.

    Each candidate is launched on each device that it fits, in another process and under `devmod.guard`, with the same inputs from its
    interface: arrays and images of random numbers, integers of 16, floats of 0.5. The results are compared with those of the first. A
    candidate that ends the process has failed. ``DEVMOD_DEVICE`` restricts a kind to one device.

    Parameters
    ----------
    module
        Any module. The candidates are those of its bundles.
    name
        The function. Default: all functions.
    arguments
        Name to value, in place of inputs from the interface; a str is a text as of ``devmod run``, such as "random:float32[64,64]".
        They are used for each function that has such a parameter.
    threads
        The threads of each launch. Default: two blocks in each dimension in which the block has threads.
    block
        The block of threads of a candidate that has none of its own. Default: that of another candidate.
    rtol, atol
        The tolerance: ``atol + rtol * abs(expected)``. Numbers that an image stores as integers for floats may differ by 1.
    timeout
        The limit for one launch with its build, in seconds.

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
    damaged = {id(each) for each, payload in zip(leaves, payloads, strict=True) if payload.problem}
    sound = [each for each in leaves if id(each) not in damaged and each.kind != "const_loader"]
    names = dict.fromkeys(each for leaf in sound for each in leaf.function_names)
    if name is not None and name not in names:
        raise function_not_found(module.kind, name, list(names))
    given = dict(arguments or {})
    unused = set(given)
    functions = {}
    with temporary_folder() as folder:
        trials = _Trials(Path(folder), given, unused, threads, block)
        for each in names if name is None else [name]:
            owner = owner_of(each, module)
            among = owner.candidates if isinstance(owner, BundleModule) else [owner]
            candidates = [leaf for leaf in sound if each in leaf.function_names and leaf in among]
            functions[each] = trials.of_function(each, candidates)
        trials.run(timeout)
        comparisons = {each: tuple(_compare(planned, rtol, atol)) for each, planned in functions.items()}
    if unused:
        raise ArgumentError(f"verify: no compared function has an argument {min(unused)!r}", argument=min(unused))
    return Verification(payloads, comparisons)


# -- Payloads.


def _payload(module: Module) -> Payload:
    label = describe_candidate(module)
    digest = isinstance(module, StoredModule) and module.has_digest
    try:
        if isinstance(module, StoredModule):
            module.verify()
        _parse(module)
    except DevmodError as error:
        return Payload(label, digest, str(error))
    finally:
        if isinstance(module, StoredModule):
            module.release()
    return Payload(label, digest, "")


def _parse(module: Module) -> None:
    """Raise FormatError or CompileError for a payload that cannot be read, or launch tags with which a function cannot be called."""
    for name, info in module.functions.items():
        if problem := tag_problem(info.launch_param_tags):
            raise FormatError(f"the {module.kind} function {name!r} cannot be called: {problem}", kind=module.kind, function=name)
    payload = payload_of(module)
    if payload is None:
        return
    spec, fmt, _, code = payload
    for name, data in code.items() if not isinstance(code, (bytes, memoryview)) else [("", code)]:
        subject = f"the {spec.kind} {f'shader {name!r}' if name else f'payload of format {fmt!r}'}"
        if fmt in spec.text_formats:
            text = source_text(spec.kind, subject, bytes(data).rstrip(b"\0") if fmt == "ptx" else data)
            if fmt == "wgsl":
                from devmod_readers.wgsl import read_wgsl

                read_wgsl(text, subject)
            elif fmt == "ptx":
                from devmod_readers.nvidia import read_ptx

                read_ptx(text)
        elif fmt == "spv":
            from devmod_readers.spirv import read_module

            read_module(bytes(data)[12:])  # behind TVM's header: a flag, and the number of words
        elif fmt in _BINARY_READERS:
            _BINARY_READERS[fmt](data)


def _read_cubin(data: bytes | memoryview) -> None:
    from devmod_readers.nvidia import index_cubin

    index_cubin(data)


def _read_fatbin(data: bytes | memoryview) -> None:
    from devmod_readers.nvidia import fatbin_members

    fatbin_members(data)


def _read_code_object(data: bytes | memoryview) -> None:
    from devmod_readers.amdgpu import check_code_object, read_code_object

    check_code_object(data, [each.symbol for each in read_code_object(data).values()])


def _read_elf(data: bytes | memoryview) -> None:
    from devmod_readers.elf import find_damage

    if problem := find_damage(data):
        raise FormatError(f"the hexagon payload of format 'so' is damaged: {problem}", kind="hexagon")


_BINARY_READERS = {"cubin": _read_cubin, "fatbin": _read_fatbin, "hsaco": _read_code_object, "so": _read_elf}


# -- Candidates.


class _Planned(NamedTuple):
    """A candidate on a device, or a candidate without one and the reason.

    Attributes
    ----------
    label, device, reason
        The candidate, its device or "", and why it is not launched.
    request
        What `_launch` is called with.
    answer
        What it has returned, once it has run.
    """

    label: str
    device: str
    reason: str
    request: dict[str, Any]
    answer: dict[str, Any]


class _Trials:
    """The launches of all candidates. Their process gets text, numbers and files in `folder`. Used names leave `unused`."""

    def __init__(self, folder: Path, given: Mapping[str, Any], unused: set[str], threads: Any, block: Any) -> None:
        self._folder, self._unused = folder, unused
        self._threads, self._block = ([each] if isinstance(each, int) else each and [*map(int, each)] for each in (threads, block))
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
        interfaces = [info.interface for each in candidates if (info := _info(each, name)) is not None and info.interface is not None]
        planned: list[_Planned] = []
        for module in candidates:
            default = default_device(module.kind)
            here = [device for device in self._listed() if device.kind == module.kind] if default is None else [default]
            reason, fits = "", False
            for device in here:
                candidate = explain(module, name, device).functions[name][0]
                if candidate.outcome == "refused":
                    reason = candidate.text
                    continue
                fits = True
                planned.append(self._plan(module, name, device, interfaces))
            if not fits:
                planned.append(_Planned(describe_candidate(module), "", reason or explain(module, name).functions[name][0].text, {}, {}))
        self._planned += planned
        return planned

    def _plan(self, module: Module, name: str, device: Device, interfaces: Sequence[Interface]) -> _Planned:
        path = self._files.get(id(module))
        if path is None:
            path = self._files[id(module)] = self._folder / f"{next(self._number)}.devmod"
            path.write_bytes(dumps(module))
        arguments = {}
        try:
            order = module.get_function(name)._order
        except DevmodError:  # its process has the error
            pass
        else:
            arguments = {each: text for each, text in self._given.items() if each in order.names or each in order.records}
            self._unused.difference_update(arguments)
        place = device_label(device)
        request = {
            "module": str(path),
            "kind": module.kind,
            "name": name,
            "device": place,
            "arguments": arguments,
            "formats": image_formats(interfaces),
            "threads": self._threads if self._threads is not None else threads_of_images(interfaces),
            # The block of a candidate that has none of its own.
            "block": self._block or next((block for each in interfaces if (block := each.block or each.default_block)), None),
            "results": str(self._folder / str(next(self._number))),
        }
        return _Planned(describe_candidate(module), place, "", request, {})

    def run(self, timeout: float) -> None:
        """Launch all: each in another process, but runtimes that were registered in this process alone."""
        launched = [each for each in self._planned if each.request]
        in_process = kinds_here()
        requests = [each.request for each in launched]
        results = answers(__name__, requests, _launch, timeout, here=lambda request: request["kind"] in in_process)
        for each, (answer, end) in zip(launched, results, strict=True):
            each.answer.update(answer if end is None else {"outcome": "failed", "text": f"its launch {end}"})


def main(request: dict[str, Any]) -> None:
    """Run in the new process: answer with the outcome of each launch."""
    answer_items(request, _launch)


def _launch(request: dict[str, Any]) -> dict[str, Any]:
    """Launch a candidate and write its results to files. Return the outcome, "launched" or one of a `Comparison`, and the text."""
    try:
        device = find_device(request["device"])
        results, note = _results(request, device)
        files: list[tuple[str, str, bool]] = []
        for name, (array, is_rounded) in results.items():
            path = f"{request['results']}-{len(files)}.npy"
            try:
                np.save(path, array, allow_pickle=False)
            except OSError as error:
                return {"outcome": "unsaved", "text": f"the results cannot be written to {path}: {error.strerror or error}"}
            files.append((name, path, is_rounded))
    except NotFromInterfaceError as error:
        return {"outcome": "not compared", "text": str(error)}
    except GuardError as error:
        return {"outcome": "writes outside", "text": str(error)}
    except ArgumentError as error:
        about = {"kind": error.kind, "function": error.function, "argument": error.argument}
        return {"outcome": "error", "text": str(error), "about": about}
    except DevmodError as error:
        return {"outcome": "failed", "text": str(error)}
    except Exception as error:  # noqa: BLE001 - a driver's own, which is the result of this candidate
        return {"outcome": "failed", "text": describe_error(error)}
    return {"outcome": "launched", "text": note, "results": files}


def _results(request: Mapping[str, Any], device: Device) -> tuple[dict[str, tuple[np.ndarray[Any, Any], bool]], str]:
    """Return the arrays that a candidate has written to, whether their numbers were rounded to integers, and a note."""
    function = loads(Path(request["module"]).read_bytes()).get_function(request["name"]).on(device)
    interface = function._signature.interface
    if interface is None:
        raise NotFromInterfaceError("the function has no interface")
    host = arguments_of(function, request["arguments"], {}, fill=True, formats=request["formats"])
    launch: dict[str, Any] = {}
    if function._launcher.has_grid:
        block = function.block
        if block is None and not (interface.open_block and request["block"] is None):
            if request["block"] is None:
                raise NotFromInterfaceError("its interface has no block of threads; give one: --block, or block=")
            launch["block"] = block = tuple(request["block"])
        launch["threads"] = request["threads"] if request["threads"] is not None else _threads(block)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with guard():
            call = on_device(function, host, device)
            result = function(*call.positional, **call.named, **launch)
            arrays = results_of(function, call)
    images = {name for name, value in call.items() if isinstance(value, Image) and value.texel.sample == "float"}
    results = {name: (array, name in images and array.dtype.kind in "iu") for name, array in arrays.items()}
    if result is not None:
        results["the returned value"] = _array(result), False
    return results, "; ".join(str(each.message) for each in caught if str(each.message).count("guard cannot see"))


def _compare(planned: Sequence[_Planned], rtol: float, atol: float) -> Iterator[Comparison]:
    """Yield the comparisons of one function's launches."""
    expected: dict[str, np.ndarray[Any, Any]] | None = None
    reference = ""
    for label, device, reason, _, answer in planned:
        if not answer:
            yield Comparison(label, device, "not compared", reason)
        elif answer["outcome"] == "error":
            raise ArgumentError(answer["text"], **answer["about"])
        elif answer["outcome"] == "unsaved":
            raise DevmodError(f"verify: {answer['text']}. Free space there, or set TMPDIR to another folder")
        elif answer["outcome"] != "launched":
            yield Comparison(label, device, answer["outcome"], answer["text"])
        else:
            results = {name: np.load(path, allow_pickle=False) for name, path, _ in answer["results"]}
            if expected is None:
                expected, reference = results, f"{label} on {device}"
                yield Comparison(label, device, "reference", answer["text"])
            else:
                rounded = {name for name, _, is_rounded in answer["results"] if is_rounded}
                yield Comparison(label, device, *_compared(results, expected, reference, rounded, answer["text"], rtol, atol))


def _compared(
    results: Mapping[str, np.ndarray[Any, Any]],
    expected: Mapping[str, np.ndarray[Any, Any]],
    reference: str,
    rounded: set[str],
    note: str,
    rtol: float,
    atol: float,
) -> tuple[str, str]:
    """Return the outcome of a comparison, and the text."""
    worst = None
    for name in [each for each in results if each in expected]:  # reflection may know of one candidate alone that it only reads
        try:
            difference = worst_difference(name, results[name], expected[name], rtol, max(atol, 1) if name in rounded else atol)
        except ArgumentError as error:
            return "differs", str(error)
        if worst is None or (difference.is_error, difference.error) > (worst[1].is_error, worst[1].error):
            worst = name, difference
    if worst is None:
        return "not compared", "it writes to no array"
    name, difference = worst
    if difference.is_error:
        return "differs", (
            f"{name}{difference.subscript} is {difference.value!r}, and {difference.expected!r} with {reference}; they differ by "
            f"{difference.error:.3g}"
        )
    return "agrees", "; ".join(filter(None, (f"worst error {difference.error:.3g}", note)))


def _threads(block: Sequence[int] | None) -> tuple[int, ...]:
    """Return two blocks in each dimension in which a block has threads; without a block, threads in one dimension."""
    return tuple(2 * length if length > 1 or not axis else 1 for axis, length in enumerate(block)) if block else (4 * INTEGER,)


def _array(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray([value])


def _info(module: Module, name: str) -> FunctionInfo | None:
    try:
        return module.functions.get(name)
    except DevmodError:
        return None
