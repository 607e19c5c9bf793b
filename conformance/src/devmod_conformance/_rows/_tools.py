"""Helpers of the rows: make modules of samples, get functions, launch and compare."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import devmod
from devmod import TargetSpec
from devmod.backend import FallbackModule
from devmod.errors import not_installed
from devmod.plugins import find_spec
from devmod_conformance._case import Call, Conformance, Sample
from devmod_conformance._row import NO_SAMPLE, Row, Skip
from devmod_conformance._row import require as require
from devmod_conformance._turn import device_turn
from devmod_workbench import RANGES, moved, random_array, worst_difference

_T = TypeVar("_T")

#: A name that no function of a sample has.
UNKNOWN_NAME = "no_such_function"

#: A payload that no backend can parse.
JUNK = b"\x00\xffno payload at all\x00"
#: The number of items that a message lists.
_LISTED_ITEMS = 3


def row(name: str) -> Callable[[Callable[[Conformance], None]], Row]:
    """Make a Row of a check; its title is the check's docstring."""

    def decorate(check: Callable[..., None]) -> Row:
        title = " ".join((check.__doc__ or name).split())
        return Row(name, title.rstrip("."), check)

    return decorate


def applicable(items: Iterable[_T], reason: str) -> Iterator[_T]:
    """Yield the items to which a row applies. Raise Skip with the reason if there are none."""
    applies = False
    for item in items:
        applies = True
        yield item
    if not applies:
        raise Skip(reason)


# -- samples


def usable_samples(case: Conformance, samples: Sequence[Sample] = ()) -> list[Sample]:
    """Return the samples, by default all of the case, that can be compiled here. Raise Skip if a
    toolchain is missing for all of them.
    """
    require(case.samples, "the Conformance has no samples; give it at least one Sample")
    usable = []
    missing = ""
    for sample in samples or case.samples:
        try:
            require(sample.fmap, f"a sample of format {sample.fmt!r} has no functions")
        except devmod.ToolchainNotFoundError as error:
            missing = str(error)
        else:
            usable.append(sample)
    if not usable:
        raise Skip(f"{NO_SAMPLE}{missing}")
    return usable


def runnable_samples(case: Conformance, samples: Sequence[Sample] = ()) -> list[Sample]:
    """Return the usable samples that the receiver has a compiler for, if it must compile them.
    Raise Skip if there is none.
    """
    result, missing = _with_compiler(case, usable_samples(case, samples))
    if not result:
        raise Skip(f"{NO_SAMPLE}{missing}")
    return result


def kernels_of_row(case: Conformance, samples: Sequence[Sample], absent: str) -> list[Sample]:
    """Return the samples of one row that can be compiled here. Raise Skip, with the text `absent`
    if the case has none for that row.
    """
    if not samples:
        raise Skip(absent)
    try:
        return runnable_samples(case, samples)
    except Skip as skip:  # the other rows have samples of their own
        raise Skip(f"the kernels of this row: {skip}") from None


def _with_compiler(case: Conformance, samples: Sequence[Sample]) -> tuple[list[Sample], str]:
    """Return the samples whose receiver's compiler is installed, if it has one, and the first error
    of another sample.
    """
    usable = []
    missing = ""
    for sample in samples:
        problem = _missing_compiler(case, sample)
        if not problem:
            usable.append(sample)
        elif not missing:
            missing = problem
    return usable, missing


def _missing_compiler(case: Conformance, sample: Sample) -> str:
    """Return the error of a receiver's compiler that is not installed; "" for other samples. It is
    asked once for each sample.
    """
    spec = find_spec(case.kind)
    if spec is None or sample.fmt not in spec.source_formats:
        return ""
    if sample.missing_compiler is None:
        sample.missing_compiler = ""
        try:
            runtime_module(case, sample).get_function(next(iter(sample.fmap)))
        except devmod.ToolchainNotFoundError as error:
            sample.missing_compiler = str(error)
        except Exception:  # noqa: BLE001, S110 - a row reports it
            pass
    return sample.missing_compiler


def target_spec(case: Conformance) -> TargetSpec:
    """Return the target spec of the kind. Raise Skip if there is none."""
    spec = find_spec(case.kind)
    if spec is None:
        raise Skip(
            f"the kind {case.kind!r} has no target spec (devmod.targets), so it has no fallback and no formats"
        )
    return spec


def has_grid(case: Conformance) -> bool:
    """Return whether a launch of the kind has a grid."""
    spec = find_spec(case.kind)
    return spec is None or spec.has_grid


def module_with(case: Conformance, sample: Sample, name: str, **fields: Any) -> devmod.Module:
    """Return the backend's module of a sample, with other fields in the description of a
    function.
    """
    fmap = {**sample.fmap, name: sample.fmap[name].replace(**fields)}
    return devmod.create(case.kind, sample.code, sample.fmt, fmap)


def runtime_module(case: Conformance, sample: Sample) -> devmod.Module:
    """Return the backend's module of a sample."""
    return devmod.create(case.kind, sample.code, sample.fmt, sample.fmap, sample.source)


def both_modules(case: Conformance, sample: Sample) -> list[tuple[str, devmod.Module]]:
    """Return the backend's module of a sample, as it is created and as it is loaded from its bytes,
    each with the word for it.
    """
    module = runtime_module(case, sample)
    return [
        ("created", module),
        ("loaded", devmod.load_from_bytes(case.kind, module.save_to_bytes())),
    ]


def fallback_module(case: Conformance, sample: Sample) -> FallbackModule:
    """Return core's fallback of a sample."""
    from devmod.backend import FallbackModule

    return FallbackModule(target_spec(case), sample.fmt, sample.fmap, sample.code, sample.source)


def source_samples(case: Conformance) -> list[Sample]:
    """Return the samples whose payload is source, which the receiver compiles."""
    spec = target_spec(case)
    samples = [sample for sample in usable_samples(case) if sample.fmt in spec.source_formats]
    result, missing = _with_compiler(case, samples)
    if result:
        return result
    reason = "no sample has a payload in a source format"
    if missing:
        reason += f" that this machine can compile: {missing}"
    raise Skip(reason)


def samples_with_calls(
    case: Conformance, samples: Sequence[Sample] = ()
) -> list[tuple[Sample, Call]]:
    """Return every call of the samples, by default all. Raise Skip without NumPy: arguments and
    references are its arrays.
    """
    import_numpy()
    pairs: list[tuple[Sample, Call]] = []
    for sample in runnable_samples(case, samples):
        pairs += [(sample, call) for call in sample.calls]
    if not pairs:
        raise Skip("no sample has calls")
    return pairs


def called_functions(
    case: Conformance, pairs: Iterable[tuple[Sample, Call]] | None = None
) -> Iterator[tuple[Sample, Call, Any]]:
    """Yield calls, by default those of `samples_with_calls`, with the function of a new module
    each.
    """
    if pairs is None:
        pairs = samples_with_calls(case)
    for sample, call in pairs:
        yield sample, call, get_function(runtime_module(case, sample), call.function)


def with_interfaces(
    pairs: Iterable[tuple[Sample, Call]],
) -> list[tuple[Sample, Call, devmod.Interface]]:
    """Return the calls whose function has an interface, with it."""
    described = []
    for sample, call in pairs:
        interface = sample.fmap[call.function].interface
        if interface is not None:
            described.append((sample, call, interface))
    return described


def plain_params(types: Sequence[str]) -> list[devmod.Param]:
    """Return params with these types, each a buffer or a scalar."""
    params = []
    for number, type_ in enumerate(types):
        if type_ == "handle":
            params.append(devmod.Param(f"p{number}", "buffer"))
        else:
            params.append(devmod.Param(f"p{number}", "scalar", type_))
    return params


def replace_code(sample: Sample, changed: Callable[[bytes | memoryview], bytes]) -> Sample:
    """Return the sample with the code that `changed` makes of its own. In a map of shaders, every
    shader is replaced.
    """
    code = sample.code
    if isinstance(code, (bytes, memoryview)):
        return Sample(changed(code), sample.fmt, sample.fmap)
    shaders = {name: changed(each) for name, each in code.items()}
    return Sample(shaders, sample.fmt, sample.fmap)


# -- launches


def import_numpy() -> Any:
    """Return the module NumPy. Raise Skip if it is not installed."""
    try:
        import numpy as np
    except ModuleNotFoundError:
        raise Skip(not_installed("NumPy", "numpy", "numpy")) from None
    return np


def get_function(module: devmod.Module, name: str) -> Any:
    """Return a function of a module. Raise Skip if there is no device."""
    with skip_without_device():
        return module.get_function(name)


def list_devices(case: Conformance) -> list[devmod.Device]:
    """Return the devices of the kind. Raise Skip if there are none."""
    from devmod.plugins import devices_of, find

    group = find("devmod.device", case.kind)
    if group is None:
        raise Skip(f"the backend lists no devices (devmod.device.{case.kind})")
    with skip_without_device():
        devices = devices_of(case.kind, group)
    if not devices:
        raise Skip(f"this machine has no {case.kind} device")
    return devices


def default_device(case: Conformance) -> devmod.Device:
    """Return the device of calls that name none. Raise Skip if there is none."""
    list_devices(case)
    return devmod.device(case.kind)


@contextmanager
def skip_without_device() -> Iterator[None]:
    """Raise Skip in the place of DeviceNotFoundError."""
    try:
        yield
    except devmod.DeviceNotFoundError as error:
        raise no_device(error) from error


def no_device(error: devmod.DeviceNotFoundError) -> Skip:
    """Return the Skip for a missing device."""
    return Skip(f"this machine has no {error.kind or 'such'} device: {error}")


def to_device(device: devmod.Device, arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments with the arrays on a device."""
    np = import_numpy()
    moved_arguments = list(arguments)
    for number, each in enumerate(arguments):
        if isinstance(each, np.ndarray):
            moved_arguments[number] = device.from_numpy(each)
    return moved_arguments


def to_host(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments with the arrays of devices as NumPy arrays."""
    moved_arguments = list(arguments)
    for number, each in enumerate(arguments):
        if isinstance(each, devmod.Array):
            moved_arguments[number] = each.numpy()
    return moved_arguments


def reference_arrays(call: Call) -> list[Any]:
    """Return the arguments after the reference changed them."""
    import_numpy()
    arguments = call.make_arguments()
    call.reference(*arguments)
    return arguments


def launch(case: Conformance, function: Any, arguments: Sequence[Any], **keywords: Any) -> Any:
    """Call a function while this process holds the device. Return its result."""
    with device_turn(case.kind):
        return function(*arguments, **keywords)


def run_in_threads(
    work: Callable[[_T], object], arguments: Iterable[_T], timeout: float | None = None
) -> list[Any]:
    """Call a function with each argument, in a thread each. All threads start together.

    Returns
    -------
    list
        What each call returned, or the exception that it raised, in the order of the arguments.

    Raises
    ------
    AssertionError
        The threads do not end within `timeout` seconds.
    """
    values = list(arguments)
    results: list[Any] = [None] * len(values)
    start = threading.Barrier(len(values))

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = work(values[number])
        except BaseException as error:  # noqa: BLE001 - it is the result
            results[number] = error

    threads = []
    for number in range(len(values)):
        threads.append(threading.Thread(target=run, args=(number,), daemon=True))
    for thread in threads:
        thread.start()
    end = time.monotonic() + (timeout or 0)
    for thread in threads:
        if timeout is None:
            thread.join()
        else:
            thread.join(max(0.0, end - time.monotonic()))
    require(
        not any(thread.is_alive() for thread in threads),
        f"{len(values)} threads that run at the same time do not end",
    )
    return results


def check_call(
    case: Conformance,
    call: Call,
    function: Any,
    description: str,
    arguments: Sequence[Any] | None = None,
    **keywords: Any,
) -> None:
    """Raise AssertionError unless a call computes the reference's arrays.

    The arguments and the keywords are those of `call` by default.
    """
    if arguments is None:
        arguments = call.make_arguments()
    launch(case, function, arguments, **keywords or call.keywords)
    compare_arrays(call, to_host(arguments), reference_arrays(call), description)


def check_draws(case: Conformance, call: Call, function: Any) -> None:
    """Raise AssertionError unless a call computes the reference's arrays for the draws of floats
    that `devmod verify` has. What is not finite is not compared.
    """
    np = import_numpy()
    for word, values in RANGES.items():
        arguments = call.make_arguments()
        for number, each in enumerate(arguments):
            if isinstance(each, np.ndarray) and each.dtype.kind == "f":
                arguments[number] = random_array(str(number), each.shape, each.dtype, word)
        expected, *others = [_referenced(call, arguments, seed) for seed in range(3)]
        launch(case, function, arguments, **call.keywords)
        for number, actual in enumerate(to_host(arguments)):
            if not isinstance(actual, np.ndarray):
                continue
            name = f"argument {number + 1}"
            worst = worst_difference(
                name,
                actual,
                expected[number],
                call.rtol,
                call.atol,
                [each[number] for each in others],
                is_finite=True,
            )
            require(
                not worst.is_error,
                f"{call.function!r} with values from {values}: {name} is wrong at "
                f"{worst.subscript}: expected {worst.expected!r}, got {worst.value!r}",
            )


def _referenced(call: Call, arguments: Sequence[Any], seed: int) -> list[Any]:
    """Return what the reference makes of arguments, whose floats are moved with a seed."""
    np = import_numpy()
    copies = list(arguments)
    for number, each in enumerate(arguments):
        if isinstance(each, np.ndarray):
            copies[number] = moved(each, seed)
    with np.errstate(all="ignore"):
        call.reference(*copies)
    return copies


def compare_arrays(
    call: Call, actual: Sequence[Any], expected: Sequence[Any], description: str
) -> None:
    """Raise AssertionError if an array differs from the reference's."""
    np = import_numpy()
    for number, (one, two) in enumerate(zip(actual, expected, strict=True), 1):
        if not isinstance(two, np.ndarray):
            continue
        if two.dtype.kind in "biu":
            equal = one == two
        else:
            equal = np.isclose(one, two, rtol=call.rtol, atol=call.atol, equal_nan=True)
        if not np.all(equal):
            at = tuple(int(each) for each in np.argwhere(~equal)[0])
            index = at[0] if len(at) == 1 else at
            raise AssertionError(
                f"{call.function!r} {description}: argument {number} is wrong in {int(np.size(equal) - np.count_nonzero(equal))} of "
                f"{np.size(equal)} elements; at {index}: expected {two[at]!r}, got {one[at]!r}"
            )


def written_arrays(call: Call) -> list[int]:
    """Return the numbers, from 0, of the arrays that the reference changes."""
    np = import_numpy()
    before = call.make_arguments()
    after = reference_arrays(call)
    numbers = []
    for number, (one, two) in enumerate(zip(before, after, strict=True)):
        if not np.array_equal(one, two):
            numbers.append(number)
    return numbers


def triple(value: Any) -> tuple[int, int, int]:
    """Return a grid or a block in x, y, z."""
    if value is None:
        return 1, 1, 1
    if isinstance(value, int):
        return value, 1, 1
    x, y, z = (*value, 1, 1, 1)[:3]
    return x, y, z


# -- failures


@contextmanager
def expect_argument_error(
    case: Conformance, call: Call, fault: str, argument: str, otherwise: str = "no error was raised"
) -> Iterator[list[Any]]:
    """Raise AssertionError unless the body raises an ArgumentError whose text and attributes name
    kind, function and argument.
    """
    description = f"{call.function!r} {fault}"
    with expect_error(devmod.ArgumentError, description, otherwise) as caught:
        yield caught
    (error,) = caught
    require_equal(error.kind, case.kind, f"{description}: the kind in the error")
    require(
        repr(call.function) in str(error),
        f"{description}: the error does not name the function: {error}",
    )
    if argument:
        require_equal(error.argument, argument, f"{description}: the argument in the error")
        require(
            argument in str(error), f"{description}: the error does not name the argument: {error}"
        )


def check_refused_call(
    case: Conformance,
    call: Call,
    function: Any,
    arguments: list[Any],
    fault: str,
    argument: str,
    *,
    count: int | None = None,
    **keywords: Any,
) -> None:
    """Raise AssertionError unless a launch with a fault raises an ArgumentError that names
    `argument`, and changes no array.

    The first `count` arguments are given by position, by default all.
    """
    with expect_argument_error(case, call, f"with {fault}", argument):
        launch(case, function, arguments[:count], **keywords)
    compare_arrays(call, arguments, call.make_arguments(), f"with {fault}")


@contextmanager
def expect_error(
    kind: type[BaseException], description: str, otherwise: str = "no error was raised"
) -> Iterator[list[Any]]:
    """Raise AssertionError unless the body raises an error of this type. The error is appended to
    the list that is yielded.

    A missing device raises Skip, unless DeviceNotFoundError is the expected type.
    """
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    except (Skip, AssertionError):
        raise
    except devmod.DeviceNotFoundError as error:
        raise no_device(error) from error
    except Exception as error:
        raise AssertionError(
            f"{description}: expected {kind.__name__}, got {type(error).__name__}: {error}"
        ) from error
    raise AssertionError(f"{description}: expected {kind.__name__}, but {otherwise}")


def require_equal(actual: object, expected: object, subject: str) -> None:
    """Raise AssertionError with both values unless they are equal."""
    require(actual == expected, f"{subject}: expected {_shorten(expected)}, got {_shorten(actual)}")


def require_equal_bytes(actual: bytes, expected: bytes, subject: str) -> None:
    """Raise AssertionError with the first difference unless the bytes are equal."""
    if actual == expected:
        return
    at = 0
    while actual[at : at + 1] == expected[at : at + 1]:
        at += 1
    raise AssertionError(
        f"{subject}: expected {len(expected)} bytes, got {len(actual)}; they differ from byte {at} on: "
        f"expected {expected[at : at + 12]!r}, got {actual[at : at + 12]!r}"
    )


def summarize(items: Sequence[str]) -> str:
    """Return the first items of a list, and the number of the others."""
    listed = []
    for each in items[:_LISTED_ITEMS]:
        if len(each) > 200:
            each = f"{each[:199]}…"
        listed.append(each)
    if len(items) > _LISTED_ITEMS:
        listed.append(f"and {len(items) - _LISTED_ITEMS} more")
    return "; ".join(listed)


def _shorten(value: object) -> str:
    text = repr(value)
    if len(text) > 300:
        return text[:297] + "..."
    return text
