"""Running: results against NumPy, shapes, arrays, streams and devices."""

from __future__ import annotations

from typing import Any

import devmod
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
