"""Running: results against NumPy, arguments that are wrong, shapes, arrays and devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import devmod
from devmod.targets import find_spec
from devmod.testing._case import Call, Conformance
from devmod.testing._row import Skip
from devmod.testing._rows._tools import (
    called_samples,
    compare,
    devices_of,
    expected,
    function_of,
    launch,
    must,
    numpy,
    real,
    row,
    same,
    samples_of,
    written,
)
from devmod.testing._turn import device_turn

#: The launch tags that take a value (R35); the others take none.
_DIMENSIONS = {"blockIdx": "grid", "threadIdx": "block"}
_SHARED_MEMORY = "tirx.use_dyn_shared_memory"


@row("R33-functions")
def several_functions(case: Conformance) -> None:
    """A module holds several functions, each under the name that callers use."""
    for sample in samples_of(case):
        module = real(case, sample)
        for name in sample.fmap:
            function_of(module, name)
    for sample, call in called_samples(case):
        other = f"{call.function}_by_another_name"
        info = sample.fmap[call.function]
        code: Any = sample.code
        if not isinstance(code, (bytes, memoryview)):
            code = {**code, other: code[call.function if call.function in code else info.name]}
        module = devmod.create(case.kind, code, sample.fmt, {**sample.fmap, other: info})
        for name in (call.function, other):
            arguments, wanted = call.make_arguments(), expected(call)
            launch(case, function_of(module, name), arguments, **call.shape)
            compare(call, arguments, wanted, f"under the name {name!r}")


@row("R33-devices")
def devices(case: Conformance) -> None:
    """The devices of the kind are numbered, stay the same objects, and hold arrays."""
    np = numpy()
    found = devices_of(case)
    for index, device in enumerate(found):
        same((device.kind, device.index), (case.kind, index), "kind and number of a device")
        must(devmod.device(case.kind, index) is device, f"devmod.device({case.kind!r}, {index}) gives another object each time")
        must(device.default_stream is device.default_stream, "default_stream gives another object each time")
        must(device.name and str(index) in repr(device), f"a device has no name, or does not show its number: {device!r}")
        for dtype in ("float32", "int8", "uint16", "int64"):
            values = np.arange(21, dtype=dtype).reshape(3, 7)
            array = device.from_numpy(values)
            same((array.shape, array.dtype), ((3, 7), dtype), "shape and type of an array")
            must(np.array_equal(array.numpy(), values), f"an array of {dtype} does not come back from {device} as it was")
        empty = device.empty((0, 4), "float32")
        same((empty.numpy().shape, empty.nbytes), ((0, 4), 0), "shape and size of an empty array")
        device.synchronize()
    for wrong in (len(found), -1):
        try:
            devmod.device(case.kind, wrong)
        except devmod.DeviceNotFoundError:
            continue
        raise AssertionError(f"there is a device {wrong} of {len(found)}")


@row("R33-several")
def several_devices(case: Conformance) -> None:
    """One module serves several devices."""
    found = devices_of(case)
    if len(found) < 2:
        raise Skip(f"there is one {case.kind} device here")
    for sample, call in called_samples(case):
        function = function_of(real(case, sample), call.function)
        for device in found:
            _on_device(case, function, call, device, f"on {device}")


@row("R34")
def arguments(case: Conformance) -> None:
    """A wrong argument is an ArgumentError that names it, before anything is launched."""
    np = numpy()
    for sample, call in called_samples(case):
        function = function_of(real(case, sample), call.function)
        info = sample.fmap[call.function]
        spec = find_spec(case.kind)
        has_grid = spec is None or spec.has_grid
        for what, number, given, keywords in _wrong_calls(info, call, has_grid):
            before = [np.copy(each) if isinstance(each, np.ndarray) else each for each in given]
            how = f"{call.function!r} given {what}"
            try:
                launch(case, function, given, **keywords)
            except devmod.ArgumentError as error:
                _check_error(case, error, how, call.function, "" if number is None else _name(info, number))
            except devmod.DeviceNotFoundError as error:
                raise Skip(f"there is no {case.kind} device here: {error}") from error
            except Exception as error:
                raise AssertionError(f"{how} raises {type(error).__name__} and not ArgumentError: {error}") from error
            else:
                raise AssertionError(f"{how} is launched; it must raise ArgumentError")
            for one, two in zip(given, before, strict=True):
                if isinstance(one, np.ndarray):
                    must(np.array_equal(one, two, equal_nan=one.dtype.kind in "fc"), f"{how} has changed an array")
        right, wanted = call.make_arguments(), expected(call)
        launch(case, function, right, **call.shape)
        compare(call, right, wanted, "called rightly after wrong calls")


@row("R35")
def launch_values(case: Conformance) -> None:
    """TVM's launch values may follow the arguments."""
    found = False
    for sample, call in called_samples(case):
        values = _launch_values(sample.fmap[call.function], call)
        if values is None:
            continue
        found = True
        given, wanted = call.make_arguments(), expected(call)
        launch(case, function_of(real(case, sample), call.function), [*given, *values])
        compare(call, given, wanted, f"called with the launch values {values}")
    if not found:
        raise Skip("no function that is called has launch_param_tags for its grid and block")


@row("R37-host")
def host_arrays(case: Conformance) -> None:
    """Arrays of the host are computed as NumPy computes them."""
    for sample, call in called_samples(case):
        made = real(case, sample)
        for how, module in (("created", made), ("loaded", devmod.load_from_bytes(case.kind, made.save_to_bytes()))):
            given, wanted = call.make_arguments(), expected(call)
            launch(case, function_of(module, call.function), given, **call.shape)
            compare(call, given, wanted, f"of a {how} module")
            must(written(call) or not given, f"the reference of {call.function!r} changes no array, so the call shows nothing")


@row("R37-strided")
def strided_arrays(case: Conformance) -> None:
    """Arrays of the host that are not contiguous are copied through."""
    np = numpy()
    found = False
    for sample, call in called_samples(case):
        function = function_of(real(case, sample), call.function)
        given = [
            np.repeat(each, 2, axis=-1)[..., ::2] if isinstance(each, np.ndarray) and each.ndim else each for each in call.make_arguments()
        ]
        found = found or any(isinstance(each, np.ndarray) and not each.flags.c_contiguous for each in given)
        launch(case, function, given, **call.shape)
        compare(call, given, expected(call), "with arrays that are not contiguous")
    if not found:
        raise Skip("no call has an array with dimensions")


@row("R37-device")
def device_arrays(case: Conformance) -> None:
    """Device arrays stay on the device, launches follow each other in order, and .numpy() waits for them."""
    device = devices_of(case)[0]
    for sample, call in called_samples(case):
        _on_device(case, function_of(real(case, sample), call.function), call, device, "with device arrays")


@row("R37-bind")
def bound(case: Conformance) -> None:
    """A bound launch does what the call does, each time it is launched."""
    device = devices_of(case)[0]
    for sample, call in called_samples(case):
        function = function_of(real(case, sample), call.function)
        arrays = _to_device(device, call.make_arguments())
        wanted = _twice(call)
        bound_launch = function.bind(*arrays, **call.shape)
        with device_turn(case.kind):
            bound_launch()
            bound_launch()
            device.synchronize()
        compare(call, _to_host(arrays), wanted, "bound and launched twice")
        with device_turn(case.kind):
            seconds = bound_launch.time()
        must(isinstance(seconds, float) and 0 <= seconds < 60, f"the time of a launch is {seconds!r}; it is seconds on the device")


@row("R37-stream")
def streams(case: Conformance) -> None:
    """A launch on a stream of its own is done when the stream is, and events tell the time."""
    device = devices_of(case)[0]
    for sample, call in called_samples(case):
        function = function_of(real(case, sample), call.function)
        arrays = _to_device(device, call.make_arguments())
        device.synchronize()
        with device_turn(case.kind):
            stream = device.stream()
            begin = stream.record()
            function(*arrays, **call.shape, stream=stream)
            end = stream.record()
            device.default_stream.wait(end)
            end.synchronize()
            stream.synchronize()
        must(end.elapsed(begin) >= 0, f"a launch took {end.elapsed(begin)} seconds by its events")
        compare(call, _to_host(arrays), expected(call), "on a stream of its own")


@row("R37-nothing")
def empty_grid(case: Conformance) -> None:
    """A grid with a zero in it launches nothing."""
    found = False
    for sample, call in called_samples(case):
        if call.grid is None:
            continue
        found = True
        given = call.make_arguments()
        launch(case, function_of(real(case, sample), call.function), given, **{**call.shape, "grid": 0})
        compare(call, given, call.make_arguments(), "launched with a grid of 0")
    if not found:
        raise Skip("no call has a grid")


# -- inside


def _on_device(case: Conformance, function: Any, call: Call, device: devmod.Device, how: str) -> None:
    arrays = _to_device(device, call.make_arguments())
    with device_turn(case.kind, device.index):
        function(*arrays, **call.shape)
    compare(call, _to_host(arrays), expected(call), how)
    with device_turn(case.kind, device.index):
        function(*arrays, **call.shape)
    compare(call, _to_host(arrays), _twice(call), f"{how}, a second time")


def _to_device(device: devmod.Device, given: list[Any]) -> list[Any]:
    np = numpy()
    return [device.from_numpy(each) if isinstance(each, np.ndarray) else each for each in given]


def _to_host(given: list[Any]) -> list[Any]:
    return [each.numpy() if isinstance(each, devmod.Array) else each for each in given]


def _twice(call: Call) -> list[Any]:
    wanted = expected(call)
    call.reference(*wanted)
    return wanted


def _check_error(case: Conformance, error: devmod.ArgumentError, how: str, function: str, argument: str) -> None:
    """Fail unless the error of a wrong call says what it is about, to people and to programs."""
    same(error.kind, case.kind, f"{how}: the error's kind")
    must(repr(function) in str(error), f"{how}: the error does not name the function: {error}")
    if argument:
        same(error.argument, argument, f"{how}: the error's argument")
        must(argument in str(error), f"{how}: the error does not name the argument: {error}")


def _name(info: devmod.FunctionInfo, number: int) -> str:
    """What an argument is called: its name where one is known, else its number from 1."""
    name = info.interface.params[number].name if info.interface is not None else ""
    return name or str(number + 1)


def _wrong_calls(info: devmod.FunctionInfo, call: Call, has_grid: bool) -> Iterator[tuple[str, int | None, list[Any], dict[str, Any]]]:
    """Calls that must be refused: what is wrong, the argument's number or None, the arguments and the keywords."""
    np = numpy()
    right = call.make_arguments
    count = len(right())
    if count:
        yield "an argument too few", None, right()[:-1], call.shape
    yield "an argument too many", None, [*right(), None], call.shape
    for number, value in enumerate(right()):
        for what, wrong in _wrong_values(info, number, value):
            given = right()
            given[number] = wrong
            yield f"{what} as argument {number + 1}", number, given, call.shape
    for number in written(call):
        given = right()
        if isinstance(given[number], np.ndarray):
            given[number].setflags(write=False)
            yield f"an array that cannot be written as argument {number + 1}", number, given, call.shape
    if has_grid and call.grid is not None:
        for grid in (-1, "4", 1.5, (1, 1, 1, 1), (), None):
            yield f"grid={grid!r}", None, right(), {**call.shape, "grid": grid}
    if has_grid and call.block is not None:
        for block in (0, -1, "4", (1, 1, 1, 1)):
            yield f"block={block!r}", None, right(), {**call.shape, "block": block}
    yield "a stream that is none", None, right(), {**call.shape, "stream": object()}


def _wrong_values(info: devmod.FunctionInfo, number: int, value: Any) -> Iterator[tuple[str, Any]]:
    np = numpy()
    if isinstance(value, np.ndarray):
        yield "a str", "text"
        yield "None", None
        yield "a number", 1.5
        known = info.interface.params[number].type if info.interface is not None else ""
        if known and value.dtype.kind in "iuf":
            yield "an array of another type", value.astype("float64" if value.dtype != np.float64 else "float32")
    elif isinstance(value, (bool, int, float)):
        yield "a str", "text"
        yield "None", None
        yield "an array", np.zeros(3, "float32")
        name = info.arg_types[number]
        if name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
            yield "half a number", 0.5
            yield "a number that is too large", 1 << 70
            if name.startswith("u"):
                yield "a number below zero", -1


def _launch_values(info: devmod.FunctionInfo, call: Call) -> list[int] | None:
    """The call's grid and block as TVM gives them; None where the tags do not say all of both."""
    if call.grid is None or not info.launch_param_tags:
        return None
    triples = {word: _triple(getattr(call, word)) for word in _DIMENSIONS.values()}
    values, said = [], set()
    for tag in info.launch_param_tags:
        name, _, axis = tag.partition(".")
        if tag == _SHARED_MEMORY:
            values.append(0)
        elif name == "clusterCtaIdx":
            values.append(1)
        elif name in _DIMENSIONS:
            said.add((_DIMENSIONS[name], axis))
            values.append(triples[_DIMENSIONS[name]]["xyz".index(axis)])
    fixed = info.interface is not None and info.interface.block is not None
    for word, triple in triples.items():
        for axis, length in zip("xyz", triple, strict=True):
            if length != 1 and (word, axis) not in said and not (word == "block" and fixed):
                return None
    return values


def _triple(given: Any) -> tuple[int, int, int]:
    x, y, z = (*((given,) if isinstance(given, int) else given or ()), 1, 1, 1)[:3]
    return x, y, z
