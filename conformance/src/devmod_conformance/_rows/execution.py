"""Results of kernels, globals, arrays, streams and devices."""

from __future__ import annotations

from typing import Any

import devmod
from devmod_conformance._case import Call, Conformance
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    UNKNOWN_NAME,
    compare_arrays,
    expect_error,
    get_function,
    import_numpy,
    launch,
    list_devices,
    reference_arrays,
    require,
    require_equal,
    row,
    runnable_samples,
    runtime_module,
    samples_with_calls,
    skip_without_device,
    to_device,
    written_arrays,
)
from devmod_conformance._turn import device_turn


@row("R20-unknown")
def unknown_global(case: Conformance) -> None:
    """get_global of an unknown name raises FunctionNotFoundError, which names it."""
    for sample in runnable_samples(case):
        original = runtime_module(case, sample)
        for state, module in (("created", original), ("loaded", devmod.load_from_bytes(case.kind, original.save_to_bytes()))):
            with expect_error(devmod.FunctionNotFoundError, f"get_global({UNKNOWN_NAME!r}) of a {state} module") as caught:
                module.get_global(UNKNOWN_NAME)
            require_equal(
                (caught[0].kind, caught[0].function),
                (case.kind, UNKNOWN_NAME),
                f"the kind and the name in the error of get_global of a {state} module",
            )
            require(
                repr(UNKNOWN_NAME) in str(caught[0]), f"the error of get_global of a {state} module does not name the global: {caught[0]}"
            )


@row("R20-values")
def global_arrays(case: Conformance) -> None:
    """get_global returns an Array with the values of the payload."""
    np = import_numpy()
    applies = False
    for sample in runnable_samples(case):
        for name, make in sample.global_arrays.items():
            applies = True
            original = runtime_module(case, sample)
            for state, module in (("created", original), ("loaded", devmod.load_from_bytes(case.kind, original.save_to_bytes()))):
                expected = np.asarray(make())
                for time in ("", ", read again,"):
                    with skip_without_device():
                        array = module.get_global(name)
                    subject = f"the global {name!r} of a {state} module{time}"
                    require(isinstance(array, devmod.Array), f"{subject}: expected a devmod.Array, got {type(array).__name__}")
                    actual = array.numpy()
                    require_equal(
                        (actual.shape, str(actual.dtype)), (expected.shape, str(expected.dtype)), f"the shape and dtype of {subject}"
                    )
                    require(actual.tobytes() == expected.tobytes(), f"{subject}: expected the values of global_arrays, got {actual!r}")
    if not applies:
        raise Skip("no sample has global_arrays")


@row("R33-functions")
def several_functions(case: Conformance) -> None:
    """A module has several functions, under the names of the fmap."""
    for sample in runnable_samples(case):
        module = runtime_module(case, sample)
        for name in sample.fmap:
            get_function(module, name)
    for sample, call in samples_with_calls(case):
        other = f"{call.function}_by_another_name"
        info = sample.fmap[call.function]
        code: Any = sample.code
        if not isinstance(code, (bytes, memoryview)):
            code = {**code, other: code[call.function if call.function in code else info.name]}
        module = devmod.create(case.kind, code, sample.fmt, {**sample.fmap, other: info})
        for name in (call.function, other):
            arguments, expected = call.make_arguments(), reference_arrays(call)
            launch(case, get_function(module, name), arguments, **call.keywords)
            compare_arrays(call, arguments, expected, f"under the name {name!r}")


@row("R33-devices")
def devices(case: Conformance) -> None:
    """Devices have numbers, are the same objects at each call, and store arrays."""
    np = import_numpy()
    all_devices = list_devices(case)
    for index, device in enumerate(all_devices):
        require_equal((device.kind, device.index), (case.kind, index), "the kind and the index of a device")
        require(devmod.device(case.kind, index) is device, f"devmod.device({case.kind!r}, {index}) returns another object at each call")
        require(device.default_stream is device.default_stream, "Device.default_stream returns another object at each access")
        require(
            device.name and str(index) in repr(device),
            f"the name and the repr of a device: expected a name, and the index in the repr, got {device!r}",
        )
        for dtype in ("float32", "int8", "uint16", "int64"):
            values = np.arange(21, dtype=dtype).reshape(3, 7)
            array = device.from_numpy(values)
            require_equal((array.shape, array.dtype), ((3, 7), dtype), "the shape and dtype of an array")
            require(np.array_equal(array.numpy(), values), f"an array of {dtype} has other values after a copy to {device} and back")
        empty = device.empty((0, 4), "float32")
        require_equal((empty.numpy().shape, empty.nbytes), ((0, 4), 0), "the shape and size of an empty array")
        device.synchronize()
    for wrong in (len(all_devices), -1):
        try:
            devmod.device(case.kind, wrong)
        except devmod.DeviceNotFoundError:
            continue
        raise AssertionError(
            f"devmod.device({case.kind!r}, {wrong}) with {len(all_devices)} devices: expected DeviceNotFoundError, but no error was raised"
        )


@row("R37-host")
def host_arrays(case: Conformance) -> None:
    """Launches on NumPy arrays compute the reference's results."""
    for sample, call in samples_with_calls(case):
        original = runtime_module(case, sample)
        for state, module in (("created", original), ("loaded", devmod.load_from_bytes(case.kind, original.save_to_bytes()))):
            arguments, expected = call.make_arguments(), reference_arrays(call)
            launch(case, get_function(module, call.function), arguments, **call.keywords)
            compare_arrays(call, arguments, expected, f"of a {state} module")
            require(
                written_arrays(call) or not arguments or call.reference(*call.make_arguments()) is not None,
                f"the reference of {call.function!r} changes no array and returns nothing, so its result cannot be checked",
            )


@row("R37-strided")
def strided_arrays(case: Conformance) -> None:
    """Launches accept NumPy arrays that are not contiguous."""
    np = import_numpy()
    applies = False
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        arguments = [
            np.repeat(each, 2, axis=-1)[..., ::2] if isinstance(each, np.ndarray) and each.ndim else each for each in call.make_arguments()
        ]
        applies = applies or any(isinstance(each, np.ndarray) and not each.flags.c_contiguous for each in arguments)
        launch(case, function, arguments, **call.keywords)
        compare_arrays(call, arguments, reference_arrays(call), "with arrays that are not contiguous")
    if not applies:
        raise Skip("no call has an array with dimensions")


@row("R37-device")
def device_arrays(case: Conformance) -> None:
    """Launches on device arrays run in order, and Array.numpy waits for them."""
    device = list_devices(case)[0]
    for sample, call in samples_with_calls(case):
        _on_device(case, get_function(runtime_module(case, sample), call.function), call, device, "with device arrays")


@row("R37-bind")
def bound_launches(case: Conformance) -> None:
    """A bound launch computes the result of a call at each launch."""
    device = list_devices(case)[0]
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        arrays = to_device(device, call.make_arguments())
        expected = _twice(call)
        bound_launch = function.bind(*arrays, **call.keywords)
        with device_turn(case.kind):
            bound_launch()
            bound_launch()
            device.synchronize()
        compare_arrays(call, _to_host(arrays), expected, "bound and launched twice")
        with device_turn(case.kind):
            seconds = bound_launch.time()
        require(isinstance(seconds, float) and seconds >= 0, f"the time of a launch: expected seconds as a float, got {seconds!r}")


@row("R37-stream")
def streams(case: Conformance) -> None:
    """A launch on another stream is complete after Stream.synchronize, and events measure its time."""
    device = list_devices(case)[0]
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        arrays = to_device(device, call.make_arguments())
        device.synchronize()
        with device_turn(case.kind):
            stream = device.stream()
            begin = stream.record()
            function(*arrays, **call.keywords, stream=stream)
            end = stream.record()
            device.default_stream.wait(end)
            end.synchronize()
            stream.synchronize()
        require(end.elapsed(begin) >= 0, f"the seconds between two events: expected 0 or more, got {end.elapsed(begin)}")
        compare_arrays(call, _to_host(arrays), reference_arrays(call), "on another stream")


@row("R37-result")
def results(case: Conformance) -> None:
    """A function that returns a value returns it from the call, with host and with device arrays. Other calls return None."""
    np = import_numpy()
    device = list_devices(case)[0]
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        expected = call.reference(*call.make_arguments())
        interface = sample.fmap[call.function].interface
        dtype = interface.extra.get("result") if interface is not None else None
        for place, arguments in (("host", call.make_arguments()), ("device", to_device(device, call.make_arguments()))):
            actual = launch(case, function, arguments, **call.keywords)
            if dtype is None:  # the value of a reference such as `x.__imul__` does not count
                require(actual is None, f"{call.function!r} with {place} arrays: expected the result None, got {actual!r}")
                continue
            equal = np.isclose(actual, expected, rtol=call.rtol, atol=call.atol) if isinstance(expected, float) else actual == expected
            require(
                type(actual) is type(expected) and equal,
                f"{call.function!r} with {place} arrays: expected the result {expected!r}, got {actual!r}",
            )
    device.synchronize()


@row("R37-nothing")
def empty_grid(case: Conformance) -> None:
    """A grid with a zero runs no thread."""
    applies = False
    for sample, call in samples_with_calls(case):
        if call.grid is None:
            continue
        applies = True
        arguments = call.make_arguments()
        launch(case, get_function(runtime_module(case, sample), call.function), arguments, **{**call.keywords, "grid": 0})
        compare_arrays(call, arguments, call.make_arguments(), "launched with grid=0")
    if not applies:
        raise Skip("no call has a grid")


# -- inside


def _on_device(case: Conformance, function: Any, call: Call, device: devmod.Device, description: str) -> None:
    arrays = to_device(device, call.make_arguments())
    with device_turn(case.kind, device.index):
        function(*arrays, **call.keywords)
    compare_arrays(call, _to_host(arrays), reference_arrays(call), description)
    with device_turn(case.kind, device.index):
        function(*arrays, **call.keywords)
    compare_arrays(call, _to_host(arrays), _twice(call), f"{description}, a second time")


def _to_host(arguments: list[Any]) -> list[Any]:
    return [each.numpy() if isinstance(each, devmod.Array) else each for each in arguments]


def _twice(call: Call) -> list[Any]:
    expected = reference_arrays(call)
    call.reference(*expected)
    return expected
