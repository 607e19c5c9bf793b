"""`devmod.verify`: whether the payloads of a module are intact, and its candidates agree on the devices of this machine."""

from __future__ import annotations

import warnings
from functools import cache
from typing import NamedTuple

from devmod import devices, explain
from devmod._modules.bundle import BundleModule
from devmod._modules.choice import describe_candidate
from devmod._modules.module import owner_of
from devmod._modules.stored import StoredModule
from devmod._plugins.devices import default_device, device_label
from devmod._util.text import escape_line
from devmod.backend import BINARY_SERIALIZABLE, payload_of, tag_problem, walk
from devmod.errors import ArgumentError, DevmodError, FormatError, GuardError, describe_error, function_not_found
from devmod_runtime._difference import worst_difference
from devmod_runtime._guard import guard
from devmod_runtime._inputs import INTEGER, NotFromInterfaceError, arguments_of, on_device, results_of
from devmod_runtime._module import source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod import Device, Function, FunctionInfo, Module

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
        for name, checked in self.functions.items():
            lines.append(f"{name}:")
            places = [f"{each.candidate}{' on ' + each.device if each.device else ''}" for each in checked]
            width, wide = max(map(len, _OUTCOMES)), max(map(len, places), default=0)
            lines += [
                f"  {each.outcome:<{width}}  {place:<{wide}}  {each.text}".rstrip() for each, place in zip(checked, places, strict=True)
            ]
        return "\n".join(map(escape_line, lines))

    def __repr__(self) -> str:
        return str(self)


def verify(
    module: Module,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    threads: int | Sequence[int] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
) -> Verification:
    """Check the payloads of a module, and compare the results of each function's candidates on the devices of this machine.

    Each candidate is launched on each device that it fits, under `devmod.guard`, with the same inputs from its interface: arrays of random
    numbers, integers of 16, floats of 0.5. The results are compared with those of the first. ``DEVMOD_DEVICE`` restricts a kind to one
    device.

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
    rtol, atol
        The tolerance: ``atol + rtol * abs(expected)``.

    Raises
    ------
    FunctionNotFoundError
        The module has no such function.
    ArgumentError
        An argument of `arguments` is invalid, or no function has it.
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
    listed = cache(devices)
    for each in names if name is None else [name]:
        owner = owner_of(each, module)
        among = owner.candidates if isinstance(owner, BundleModule) else [owner]
        candidates = [leaf for leaf in sound if each in leaf.function_names and leaf in among]
        functions[each] = tuple(_Comparer(each, candidates, listed, given, unused, threads, rtol, atol).compare())
    if unused:
        raise ArgumentError(f"verify: no compared function has an argument {min(unused)!r}", argument=min(unused))
    return Verification(payloads, functions)


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


class _Comparer:
    """The comparison of one function's candidates on listed devices. The parameters are those of `verify`; used names leave `unused`."""

    def __init__(
        self,
        name: str,
        candidates: Sequence[Module],
        listed: Callable[[], Sequence[Device]],
        given: dict[str, Any],
        unused: set[str],
        threads: Any,
        rtol: float,
        atol: float,
    ) -> None:
        self._name, self._candidates, self._listed, self._given, self._unused = name, candidates, listed, given, unused
        self._threads, self._rtol, self._atol = threads, rtol, atol
        interfaces = [info.interface for each in candidates if (info := _info(each, name)) is not None and info.interface is not None]
        #: The block of a candidate that has none of its own.
        self._block = next((block for each in interfaces if (block := each.block or each.default_block)), None)
        self._expected: dict[str, np.ndarray[Any, Any]] | None = None
        self._reference = ""

    def compare(self) -> Iterator[Comparison]:
        """Yield the comparisons."""
        for module in self._candidates:
            default = default_device(module.kind)
            here = [device for device in self._listed() if device.kind == module.kind] if default is None else [default]
            label = describe_candidate(module)
            fits = False
            reason = ""
            for device in here:
                candidate = explain(module, self._name, device).functions[self._name][0]
                if candidate.outcome == "refused":
                    reason = candidate.text
                    continue
                fits = True
                yield Comparison(label, device_label(device), *self._launch(module, device))
            if not fits:
                reason = reason or explain(module, self._name).functions[self._name][0].text
                yield Comparison(label, "", "not compared", reason)

    def _launch(self, module: Module, device: Device) -> tuple[str, str]:
        """Return the outcome of a candidate on a device, and the text."""
        try:
            function = module.get_function(self._name).on(device)
            results, note = self._results(function, device)
        except NotFromInterfaceError as error:
            return "not compared", str(error)
        except GuardError as error:
            return "writes outside", str(error)
        except ArgumentError:
            raise
        except DevmodError as error:
            return "failed", str(error)
        except Exception as error:  # noqa: BLE001 - a driver's own, which is the result of this candidate
            return "failed", describe_error(error)
        if self._expected is None:
            self._expected, self._reference = results, f"{describe_candidate(module)} on {device_label(device)}"
            return "reference", note
        return self._compared(results, note)

    def _results(self, function: Function, device: Device) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
        interface = function._signature.interface
        if interface is None:
            raise NotFromInterfaceError("the function has no interface")
        mine = {name: value for name, value in self._given.items() if name in function._order.names or name in function._order.records}
        self._unused.difference_update(mine)
        host = arguments_of(function, mine, {}, fill=True)
        launch: dict[str, Any] = {}
        if function._launcher.has_grid:
            block = function.block
            if block is None and not (interface.open_block and self._block is None):
                if self._block is None:
                    raise NotFromInterfaceError("its interface has no block of threads")
                launch["block"] = block = self._block
            launch["threads"] = self._threads if self._threads is not None else _threads(block)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with guard():
                call = on_device(function, host, device)
                result = function(*call.positional, **call.named, **launch)
                results = results_of(function, call)
        if result is not None:
            results["the returned value"] = _array(result)
        return results, "; ".join(str(each.message) for each in caught if str(each.message).count("guard cannot see"))

    def _compared(self, results: Mapping[str, np.ndarray[Any, Any]], note: str) -> tuple[str, str]:
        assert self._expected is not None
        worst = None
        for name in [each for each in results if each in self._expected]:  # reflection may know of one candidate alone that it only reads
            try:
                difference = worst_difference(name, results[name], self._expected[name], self._rtol, self._atol)
            except ArgumentError as error:
                return "differs", str(error)
            if worst is None or (difference.is_error, difference.error) > (worst[1].is_error, worst[1].error):
                worst = name, difference
        if worst is None:
            return "not compared", "it writes to no array"
        name, difference = worst
        if difference.is_error:
            return "differs", (
                f"{name}{difference.subscript} is {difference.value!r}, and {difference.expected!r} with {self._reference}; they differ by "
                f"{difference.error:.3g}"
            )
        return "agrees", "; ".join(filter(None, (f"worst error {difference.error:.3g}", note)))


def _threads(block: Sequence[int] | None) -> tuple[int, ...]:
    """Return two blocks in each dimension in which a block has threads; without a block, threads in one dimension."""
    return tuple(2 * length if length > 1 or not axis else 1 for axis, length in enumerate(block)) if block else (4 * INTEGER,)


def _array(value: Any) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.asarray([value])


def _info(module: Module, name: str) -> FunctionInfo | None:
    try:
        return module.functions.get(name)
    except DevmodError:
        return None
