"""Results of kernels, globals, arrays, streams, devices and times."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from math import inf
from time import perf_counter, sleep
from typing import Any

import devmod
from devmod import plugins
from devmod_conformance._case import Call, Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    UNKNOWN_NAME,
    applicable,
    both_modules,
    called_functions,
    check_call,
    check_draws,
    compare_arrays,
    default_device,
    expect_error,
    get_function,
    import_numpy,
    launch,
    list_devices,
    module_with,
    reference_arrays,
    require,
    require_equal,
    row,
    runnable_samples,
    runtime_module,
    samples_with_calls,
    skip_without_device,
    to_device,
    to_host,
    with_interfaces,
    written_arrays,
)
from devmod_conformance._turn import device_turn
from devmod_runtime import identity_of
from devmod_workbench import device_problem

_IDLE_SECONDS = 0.05
#: The launches between two events take about this long, if `_MAX_LAUNCHES` are enough.
_BUSY_SECONDS = 0.02
_MAX_LAUNCHES = 5000
_ROUNDS = 8
#: The times of a launch that must agree with the host's clock, and the launches that are timed for
#: them. Other processes may slow down some of the launches, on either clock.
_AGREEING = 3
_ATTEMPTS = 12
#: The device's clock may be this much faster or slower than the host's, and may have steps of
#: `_STEP` seconds.
_DRIFT = 0.05
_STEP = 0.0005
#: The seconds of equal launches may differ by this factor, since other processes may use the
#: device.
_SPREAD = 10

#: More bytes than any device has.
_ABSURD_SIZE = 1 << 56

#: The launches that are queued before a copy over what the last of them reads.
_QUEUED = 10

#: The arrays that are free at the same time. A backend may use one again after others.
_FREED = 24

#: Two variants that one payload is: each computes what the function computes.
_TUNE = {"constants": ["variant"], "variants": [{"values": [1]}, {"values": [2]}]}


@row("R20-unknown")
def unknown_global(case: Conformance) -> None:
    """get_global of an unknown name raises FunctionNotFoundError, which names it."""
    for sample in runnable_samples(case):
        for state, module in both_modules(case, sample):
            with expect_error(
                devmod.FunctionNotFoundError, f"get_global({UNKNOWN_NAME!r}) of a {state} module"
            ) as caught:
                module.get_global(UNKNOWN_NAME)
            require_equal(
                (caught[0].kind, caught[0].function),
                (case.kind, UNKNOWN_NAME),
                f"the kind and the name in the error of get_global of a {state} module",
            )
            require(
                repr(UNKNOWN_NAME) in str(caught[0]),
                f"the error of get_global of a {state} module does not name the global: {caught[0]}",
            )


@row("R20-values")
def global_arrays(case: Conformance) -> None:
    """get_global returns an Array with the values of the payload."""
    np = import_numpy()
    globals_ = [
        (sample, name, make)
        for sample in runnable_samples(case)
        for name, make in sample.global_arrays.items()
    ]
    for sample, name, make in applicable(globals_, "no sample has global_arrays"):
        for state, module in both_modules(case, sample):
            expected = np.asarray(make())
            for time in ("", ", read again,"):
                with skip_without_device():
                    array = module.get_global(name)
                subject = f"the global {name!r} of a {state} module{time}"
                require(
                    isinstance(array, devmod.Array),
                    f"{subject}: expected a devmod.Array, got {type(array).__name__}",
                )
                actual = array.numpy()
                require_equal(
                    (actual.shape, str(actual.dtype)),
                    (expected.shape, str(expected.dtype)),
                    f"the shape and dtype of {subject}",
                )
                require(
                    actual.tobytes() == expected.tobytes(),
                    f"{subject}: expected the values of global_arrays, got {actual!r}",
                )


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
            entry = call.function if call.function in code else info.name
            code = {**code, other: code[entry]}
        module = devmod.create(case.kind, code, sample.fmt, {**sample.fmap, other: info})
        for name in (call.function, other):
            check_call(case, call, get_function(module, name), f"under the name {name!r}")


@row("R33-freed")
def freed(case: Conformance) -> None:
    """A module is freed with its last reference, and with it what it has on a device: no object of
    the backend waits for the garbage collector.
    """
    for sample, call in samples_with_calls(case):
        _use(case, sample, call)  # what is made once for the process stays
        waiting = set()
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)  # a collection during the call keeps objects too
        try:
            package = _use(case, sample, call)
            gc.collect()
            for each in gc.garbage:
                if type(each).__module__.partition(".")[0] in (package, "devmod_runtime"):
                    waiting.add(type(each).__qualname__)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
        require(
            not waiting,
            f"after a call of {call.function!r} and the last reference to its module, objects refer to each other, and wait for the "
            f"garbage collector: {', '.join(sorted(waiting))}. Let what a launcher refers to have no reference to the module",
        )


def _use(case: Conformance, sample: Sample, call: Call) -> str:
    """Run a call of a new module. Return the package of the module's class."""
    module = runtime_module(case, sample)
    check_call(case, call, get_function(module, call.function), "of a module that is freed")
    return type(module).__module__.partition(".")[0]


@row("R57")
def adopted(case: Conformance) -> None:
    """devmod.device(object) is one device of the kind, which ends with its last user, and the
    backend adopts no object of others.
    """
    with skip_without_device():
        handle = case.new_handle()
    if handle is None:
        raise Skip("the backend adopts no objects, or the case gives none")
    sample, call = samples_with_calls(case)[0]
    adopt = plugins.lookup("devmod.adopt", case.kind)
    for other in (object(), 3, b"", type("Queue", (), {"__module__": "acme"})()):
        require(
            adopt(other) is None,
            f"devmod.adopt.{case.kind} takes an object of another library: expected None",
        )
    function = get_function(runtime_module(case, sample), call.function)
    before = sys.getrefcount(handle)
    reference = _use_adopted(case, call, function, handle)
    gc.collect()
    require(
        reference() is None,
        "the device over an object is alive after its last reference: a function or the backend keeps it",
    )
    require_equal(
        sys.getrefcount(handle), before, "the references to an object after its device is gone"
    )
    del handle


def _use_adopted(case: Conformance, call: Call, function: Any, handle: object) -> Any:
    """Check the device over an object, and return a weak reference to it."""
    device = devmod.device(handle)
    require_equal(device.kind, case.kind, "the kind of the device over an object")
    require(
        devmod.device(handle) is device,
        "devmod.device returns another device for the same object at each call",
    )
    require(
        device not in devmod.devices(case.kind),
        "the device over a new object is one of devmod.devices()",
    )
    expected = reference_arrays(call)
    for use in ("first", "second"):
        arguments = to_device(device, call.make_arguments())
        launch(case, function, arguments, **call.keywords)
        compare_arrays(
            call, to_host(arguments), expected, f"on the device over an object, in the {use} call"
        )
    return weakref.ref(device)


@row("R33-devices")
def devices(case: Conformance) -> None:
    """Devices have numbers, are the same objects, store arrays, and run a small kernel."""
    np = import_numpy()
    all_devices = list_devices(case)
    for index, device in enumerate(all_devices):
        require_equal(
            (device.kind, device.index), (case.kind, index), "the kind and the index of a device"
        )
        require(
            devmod.device(case.kind, index) is device,
            f"devmod.device({case.kind!r}, {index}) returns another object at each call",
        )
        require(
            device.default_stream is device.default_stream,
            "Device.default_stream returns another object at each access",
        )
        require(
            device.name and str(index) in repr(device),
            f"the name and the repr of a device: expected a name, and the index in the repr, got {device!r}",
        )
        for dtype in ("float32", "int8", "uint16", "int64"):
            values = np.arange(21, dtype=dtype).reshape(3, 7)
            array = device.from_numpy(values)
            require_equal(
                (array.shape, array.dtype), ((3, 7), dtype), "the shape and dtype of an array"
            )
            require(
                np.array_equal(array.numpy(), values),
                f"an array of {dtype} has other values after a copy to {device} and back",
            )
        empty = device.empty((0, 4), "float32")
        require_equal(
            (empty.numpy().shape, empty.nbytes), ((0, 4), 0), "the shape and size of an empty array"
        )
        device.synchronize()
        problem = device_problem(f"{case.kind}:{index}")
        require(
            not problem, f"{device!r} does not run the small kernel of devmod.doctor: {problem}"
        )
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
        for state, module in both_modules(case, sample):
            function = get_function(module, call.function)
            check_call(case, call, function, f"of a {state} module")
            check_draws(case, call, function)
            require(
                written_arrays(call)
                or not call.make_arguments()
                or call.reference(*call.make_arguments()) is not None,
                f"the reference of {call.function!r} changes no array and returns nothing, so its result cannot be checked",
            )


@row("R37-strided")
def strided_arrays(case: Conformance) -> None:
    """Launches accept NumPy arrays that are not contiguous."""
    np = import_numpy()
    applies = False
    for _, call, function in called_functions(case):
        arguments = list(call.make_arguments())
        for number, each in enumerate(arguments):
            if isinstance(each, np.ndarray) and each.ndim:
                arguments[number] = np.repeat(each, 2, axis=-1)[..., ::2]
                applies = applies or not arguments[number].flags.c_contiguous
        check_call(case, call, function, "with arrays that are not contiguous", arguments)
    if not applies:
        raise Skip("no call has an array with dimensions")


@row("R37-in-place")
def arrays_in_place(case: Conformance) -> None:
    """Launches on host arrays that kernels use where they are compute the reference's results."""
    np = import_numpy()
    device = default_device(case)
    least = device.in_place_from
    if least == inf:
        raise Skip("the device has memory of its own, so host arrays are copied")
    device.in_place_from = 1
    try:
        for _, call, function in called_functions(case):
            arguments = list(call.make_arguments())
            for number, each in enumerate(arguments):
                if isinstance(each, np.ndarray):
                    arguments[number] = devmod.empty(each.shape, each.dtype)
                    arguments[number][...] = each
            check_call(case, call, function, "with host arrays where they are", arguments)
    finally:
        device.in_place_from = least


@row("R37-device")
def device_arrays(case: Conformance) -> None:
    """Launches on device arrays run in order, and Array.numpy waits for them."""
    device = default_device(case)
    for _, call, function in called_functions(case):
        arrays = to_device(device, call.make_arguments())
        check_call(case, call, function, "with device arrays", arrays)
        launch(case, function, arrays, **call.keywords)
        compare_arrays(call, to_host(arrays), _twice(call), "with device arrays, a second time")


@row("R37-bind")
def bound_launches(case: Conformance) -> None:
    """A bound launch computes the result of a call at each launch."""
    device = default_device(case)
    for _, call, function in called_functions(case):
        arrays = to_device(device, call.make_arguments())
        bound_launch = function.bind(*arrays, **call.keywords)
        with device_turn(case.kind):
            bound_launch()
            bound_launch()
            device.synchronize()
        compare_arrays(call, to_host(arrays), _twice(call), "bound and launched twice")
        with device_turn(case.kind):
            seconds = bound_launch.time()
        require(
            isinstance(seconds, float) and seconds >= 0,
            f"the time of a launch: expected seconds as a float, got {seconds!r}",
        )


@row("R37-stream")
def streams(case: Conformance) -> None:
    """A launch on another stream is before the launches of a stream that waits for its event, and
    events measure its time.
    """
    device = default_device(case)
    for _, call, function in called_functions(case):
        arrays = to_device(device, call.make_arguments())
        device.synchronize()
        with device_turn(case.kind):
            stream = device.stream()
            begin = stream.record()
            function(*arrays, **call.keywords, stream=stream)
            end = stream.record()
            stream.wait(end)
            device.default_stream.wait(end)
            function(*arrays, **call.keywords, stream=device.default_stream)
            end.synchronize()
            stream.synchronize()
        for seconds in (end.elapsed(begin), -begin.elapsed(end)):
            require(
                seconds >= 0, f"the seconds between two events: expected 0 or more, got {seconds}"
            )
        compare_arrays(
            call,
            to_host(arrays),
            _twice(call),
            "on another stream, and then on the default stream, which waits for it",
        )


class _OtherEvent(devmod.Event):
    """An event of another backend."""

    def synchronize(self) -> None:
        pass

    def elapsed(self, earlier: devmod.Event) -> float:
        return 0.0


@row("R37-events")
def foreign_events(case: Conformance) -> None:
    """Stream.wait and Event.elapsed refuse an event of another backend by an ArgumentError."""
    stream = default_device(case).stream()
    own = stream.record()
    for name, call in (("Stream.wait", stream.wait), ("Event.elapsed", own.elapsed)):
        subject = f"{name} with an event of another backend"
        with expect_error(devmod.ArgumentError, subject) as caught:
            call(_OtherEvent())
        require_equal(caught[0].kind, case.kind, f"the kind in the error of {subject}")


@row("R37-deleted")
def deleted_streams(case: Conformance) -> None:
    """A copy to the host waits for the launches of a stream that is deleted."""
    device = default_device(case)
    for _, call, function in called_functions(case):
        arrays = to_device(device, call.make_arguments())
        with device_turn(case.kind):
            stream = device.stream()
            for _ in range(2):
                function(*arrays, **call.keywords, stream=stream)
            del stream
        compare_arrays(call, to_host(arrays), _twice(call), "on a stream that is deleted")


@row("R37-result")
def results(case: Conformance) -> None:
    """A function that returns a value returns it from the call, with host and with device arrays.
    Other calls return None.
    """
    np = import_numpy()
    device = default_device(case)
    for sample, call, function in called_functions(case):
        expected = call.reference(*call.make_arguments())
        interface = sample.fmap[call.function].interface
        dtype = None
        if interface is not None:
            dtype = interface.extra.get("result")
        for place, arguments in (
            ("host", call.make_arguments()),
            ("device", to_device(device, call.make_arguments())),
        ):
            actual = launch(case, function, arguments, **call.keywords)
            if dtype is None:  # the value of a reference such as `x.__imul__` does not count
                require(
                    actual is None,
                    f"{call.function!r} with {place} arrays: expected the result None, got {actual!r}",
                )
                continue
            equal = actual == expected
            if isinstance(expected, float):
                equal = np.isclose(actual, expected, rtol=call.rtol, atol=call.atol)
            require(
                type(actual) is type(expected) and equal,
                f"{call.function!r} with {place} arrays: expected the result {expected!r}, got {actual!r}",
            )
    device.synchronize()


@row("R37-nothing")
def empty_grid(case: Conformance) -> None:
    """A grid with a zero runs no thread."""
    pairs = [(sample, call) for sample, call in samples_with_calls(case) if call.grid is not None]
    for sample, call in applicable(pairs, "no call has a grid"):
        arguments = call.make_arguments()
        launch(
            case,
            get_function(runtime_module(case, sample), call.function),
            arguments,
            **{**call.keywords, "grid": 0},
        )
        compare_arrays(call, arguments, call.make_arguments(), "launched with grid=0")


def _twice(call: Call) -> list[Any]:
    expected = reference_arrays(call)
    call.reference(*expected)
    return expected


# -- Times of events and of launches.


@row("R37-elapsed")
def elapsed(case: Conformance) -> None:
    """Event.elapsed and Launch.time are at most what the host measures around them, and at least
    what the work between takes.

    No check depends on an idle machine. So these faults do not show: a time that is wrong by less
    than `_SPREAD`, a time of Launch.time that is too short where a launch takes less than 10 ms,
    and a time of Launch.time that is right in a quarter of the launches.
    """
    device = default_device(case)
    with device_turn(case.kind):
        device.synchronize()
        try:
            _check_idle(device.default_stream)
        except devmod.LaunchError as error:
            raise Skip(f"the device has no times of events: {error}") from error
        launch, seconds = max(map(_measure, _launches(case, device)), key=lambda pair: pair[1])
        # A slow launch is alone between its events: an event that comes after the first of several
        # launches is wrong by less.
        count = min(max(1, int(_BUSY_SECONDS / (seconds + 1e-9))), _MAX_LAUNCHES)
        for _ in range(_ROUNDS):
            seconds = _check_busy(launch, count, seconds)


def _launches(case: Conformance, device: devmod.Device) -> Iterator[devmod.Launch]:
    slow = [case.slow] if case.slow else []
    try:
        pairs = samples_with_calls(case, slow)
    except Skip:  # the compiler of the slow sample is not installed
        pairs = samples_with_calls(case)
    for sample, call in pairs:
        arguments = to_device(device, call.make_arguments())
        yield get_function(runtime_module(case, sample), call.function).bind(
            *arguments, **call.keywords
        )


def _check_idle(stream: devmod.Stream) -> None:
    """Check the time between two events while the device has no work: the host's clock bounds it on
    both sides.
    """
    first = perf_counter()
    begin = stream.record()
    begin.synchronize()
    second = perf_counter()
    sleep(_IDLE_SECONDS)
    third = perf_counter()
    end = stream.record()
    end.synchronize()
    fourth = perf_counter()
    _require_between(
        end.elapsed(begin), third - second, fourth - first, "two events of an idle device"
    )


def _measure(launch: devmod.Launch) -> tuple[devmod.Launch, float]:
    """Return the launch and the least of several times of it. Each is at most what the host's clock
    measures around it, and some are near to what that measures of other launches. A single one may
    be too short: on a loaded machine, Mesa's lavapipe returned 69 µs for 36 ms once.
    """
    subject = f"one launch of {launch.function.name!r} by Launch.time"
    _clock(launch)  # the first launch may allocate
    times = []
    clocks = []
    for _ in range(_ATTEMPTS):
        start = perf_counter()
        times.append(launch.time())
        _require_between(times[-1], 0, perf_counter() - start, subject)
        clocks.append(_clock(launch))
        least = min(clocks) / _SPREAD - _STEP
        most = max(clocks) * _SPREAD
        agreeing = [each for each in times if _is_between(each, least, most)]
        if len(agreeing) >= _AGREEING:
            return launch, min(agreeing)
    wrong = next(each for each in times if each not in agreeing)
    raise AssertionError(_range_text(wrong, least, most, subject))


def _clock(launch: devmod.Launch) -> float:
    """Launch, wait, and return the seconds on the host's clock."""
    start = perf_counter()
    launch()
    launch.stream.synchronize()
    return perf_counter() - start


def _check_busy(launch: devmod.Launch, count: int, seconds: float) -> float:
    """Check the time between two events with `count` launches between them, each of which takes
    about `seconds`. Return the seconds of one, measured anew if the launches were faster.
    """
    start = perf_counter()
    begin = launch.stream.record()
    for _ in range(count):
        launch()
    end = launch.stream.record()
    end.synchronize()
    host = perf_counter() - start
    elapsed = end.elapsed(begin)
    for _ in range(_ATTEMPTS):
        # The launches cannot take longer than the host has measured.
        least = min(count * seconds, host) / _SPREAD
        if _is_between(elapsed, least, host):
            return seconds
        # `seconds` may be of a moment in which other processes used the device.
        seconds = min(seconds, _measure(launch)[1])
    _require_between(elapsed, least, host, f"{count} × {launch.function.name!r} between two events")
    return seconds


def _is_between(seconds: float, least: float, most: float) -> bool:
    if not isinstance(seconds, float):
        return False
    return least * (1 - _DRIFT) - _STEP <= seconds <= most * (1 + _DRIFT) + _STEP


def _require_between(seconds: float, least: float, most: float, subject: str) -> None:
    require(_is_between(seconds, least, most), _range_text(seconds, least, most, subject))


def _range_text(seconds: float, least: float, most: float, subject: str) -> str:
    return f"the seconds of {subject}: expected {least:.4f} to {most:.4f}, got {seconds!r}"


# -- Arrays: copies, zeros, views, the current stream, too little memory, DLPack.


@row("R37-copies")
def copies(case: Conformance) -> None:
    """Copies between arrays and with the host are complete, and in the order of a stream."""
    np = import_numpy()
    device = default_device(case)
    stream = device.stream()
    for dtype, rows, columns in (
        ("float32", 20, 15),
        ("int64", 20, 15),
        ("uint8", 20, 15),
        ("float32", 1 << 10, 1 << 10),
    ):
        values = np.arange(rows * columns).astype(dtype).reshape(rows, columns)
        one = device.from_numpy(values)
        two = device.empty(values.shape, dtype)
        require_equal(two.copy_from(one), None, "the result of copy_from, which waits")
        require(
            np.array_equal(two.numpy(), values),
            f"copy_from of an array of {dtype} has other values",
        )
        out = np.zeros_like(values)
        require(
            one.numpy(out=out) is out and np.array_equal(out, values),
            "numpy(out=…) does not return its argument with the values",
        )
        for number, waiter in enumerate((None, "event", stream, device)):
            _check_host_copies(one, two, values + number, stream, waiter)
        for wrong in (
            device.empty((rows, columns - 1), dtype),
            device.empty(values.shape, "float64"),
            values.tolist(),
        ):
            with expect_error(
                devmod.ArgumentError, "copy_from an array of another shape or type, or no array"
            ):
                one.copy_from(wrong)
    for _, call, function in called_functions(case):
        _check_queued_copies(case, call, function, device)


def _check_host_copies(one: Any, two: Any, values: Any, stream: Any, waiter: Any) -> None:
    """Copy values from the host by two arrays to the host again, and wait by `waiter`: None for
    each copy, "event" for the event of the last one, else an object to synchronize.
    """
    np = import_numpy()
    rows, columns = values.shape
    wide = np.zeros((rows, 2 * columns), values.dtype)
    how: Any = {"stream": stream, "wait": waiter is None}
    for form, host, order in (
        ("contiguous", np.zeros_like(values), 1),
        ("strided", wide[:, ::2], -1),
    ):
        one.copy_from(values.copy()[::order], **how)  # only the copy keeps the host array
        one.reshape(-1).copy_to(two.reshape(-1), **how)
        event: Any = two.copy_to(host, **how)
        if waiter is not None:
            require(
                isinstance(event, devmod.Event),
                f"copy_to with wait=False: expected an Event, got {type(event).__name__}",
            )
            awaited = event if waiter == "event" else waiter
            awaited.synchronize()
        right = np.array_equal(host, values[::order]) and not wide[:, 1::2].any()
        require(
            right,
            f"copies from and to a {form} host array of {values.dtype} are wrong after a wait for {waiter or 'each'}",
        )


def _check_queued_copies(case: Conformance, call: Call, function: Any, device: Any) -> None:
    """Queue launches, copies of what the last one writes, and copies over what it reads."""
    arguments = call.make_arguments()
    with device_turn(case.kind), device.stream() as stream:
        arrays, *others = (to_device(device, arguments) for _ in range(_QUEUED))
        results = [to_device(device, arguments) for _ in range(2)]
        for copied, sources in zip(results, (arguments, to_device(device, arguments)), strict=True):
            for queued in (*others, arrays):
                function(*queued, **call.keywords)
            for array, result, source in zip(arrays, copied, sources, strict=True):
                if isinstance(array, devmod.Array):
                    result.copy_from(array, wait=False)
                    # Over what the launch and the copy read.
                    array.copy_from(source, wait=False)
        stream.synchronize()
    for copied in results:
        compare_arrays(
            call, to_host(copied), reference_arrays(call), "copied on the stream of the launch"
        )
    compare_arrays(call, to_host(arrays), arguments, "copied to after the launch")


@row("R37-zeros")
def zeros(case: Conformance) -> None:
    """Device.zeros returns zeros, also in memory that was used before, and whichever of the freed
    memory a backend uses next.
    """
    np = import_numpy()
    device = default_device(case)
    for shape, dtype in (
        ((7,), "float32"),
        ((33, 5), "int64"),
        ((1 << 16,), "uint8"),
        ((13,), "uint8"),
        ((0, 3), "float32"),
    ):
        for _ in range(2):
            arrays = [device.zeros(shape, dtype) for _ in range(_FREED)]
            for array in arrays:
                require_equal(
                    (array.shape, array.dtype),
                    (shape, dtype),
                    "the shape and the dtype of Device.zeros",
                )
                require(
                    not array.numpy().any(),
                    f"Device.zeros({shape}, {dtype!r}) has other values than zero",
                )
                array.copy_from(np.full(shape, 77, dtype))
            del array, arrays
            device.synchronize()  # what a launch or a copy used may be free only then


@row("R37-views")
def views(case: Conformance) -> None:
    """A slice of the first axis and a reshaped array share the array's memory, and kernels take
    them.
    """
    np = import_numpy()
    device = default_device(case)
    step = max(device.limits.get("view_alignment", 1), 64)
    values = np.arange(4 * step, dtype="int32").reshape(-1, 4)
    root = device.from_numpy(values)
    try:
        view = root[step // 2 : step]
    except devmod.ArgumentError as error:
        raise Skip(f"the backend has no views: {error}") from error
    require(
        np.array_equal(view.numpy(), values[step // 2 : step]),
        "a slice of an array has other values",
    )
    flat = root[1:].reshape(-1)
    expected = values[1:].reshape(-1)
    for start, stop in ((1, 4), (3, step + 5), (0, 1), (2 * step + 3, 4 * step - 4)):
        for convert in (np.array, device.from_numpy):
            part = flat[start:stop]
            copied = device.empty(stop - start, "int32")
            expected[start:stop] -= 1
            part.copy_from(convert(expected[start:stop]))
            copied.copy_from(part)
            require(
                np.array_equal(root.numpy(), values),
                "a write to a slice does not change exactly its part of the array",
            )
            same = all(
                np.array_equal(each.numpy(), expected[start:stop]) for each in (part, copied)
            )
            require(same, "a slice of a reshaped slice has other values")
    for target, source in (
        (slice(0, 3), slice(1, 4)),
        (slice(step // 2, step), slice(step // 4, 3 * step // 4)),
    ):
        root[target].copy_from(root[source])
        values[target] = values[source].copy()
        require(np.array_equal(root.numpy(), values), "a copy between parts that overlap is wrong")
    for wrong in (slice(0, step + 1), slice(None, None, 2), 0):
        with expect_error(devmod.ArgumentError, f"array[{wrong!r}] of an array of {step} rows"):
            root[wrong]  # type: ignore[index]
    del root, part, flat
    require(
        np.array_equal(view.numpy(), values[step // 2 : step]),
        "a slice has other values after the array was deleted",
    )
    for _, call, function in called_functions(case):
        arrays = call.make_arguments()
        roots = []
        for number, each in enumerate(arrays):
            if isinstance(each, np.ndarray) and each.size:
                root = device.zeros((2 * step + each.size,), each.dtype)
                # It begins at a multiple of the alignment in bytes.
                arrays[number] = root[step:][: each.size].reshape(each.shape)
                arrays[number].copy_from(each)
                roots.append((root, each.size))
        check_call(case, call, function, "with slices of arrays", arrays)
        launch(case, function.bind(*arrays, **call.keywords), ())
        compare_arrays(
            call, to_host(arrays), _twice(call), "with slices of arrays, bound, after a call"
        )
        for root, size in roots:
            require(
                not root[:step].numpy().any() and not root[step + size :].numpy().any(),
                f"{call.function!r} writes beside a slice",
            )


@row("R37-current")
def current_stream(case: Conformance) -> None:
    """The body of ``with stream:`` has the stream as the device's current stream, and calls use
    it.
    """
    device = default_device(case)
    outer = device.stream()
    inner = device.stream()
    require(
        device.current_stream is device.default_stream,
        "Device.current_stream is not the default stream outside of a body",
    )
    with outer as entered:
        require(entered is outer, "the with statement of a stream binds another object")
        with inner:
            require(
                device.current_stream is inner,
                "Device.current_stream is not the stream of the innermost body",
            )
        require(
            device.current_stream is outer,
            "Device.current_stream is not the stream of the outer body again",
        )
    require(
        device.current_stream is device.default_stream,
        "Device.current_stream is not the default stream after the body",
    )
    for _, call, function in called_functions(case):
        with device_turn(case.kind), outer:
            arrays = to_device(device, call.make_arguments())
            function(*arrays, **call.keywords)
            outer.synchronize()
        compare_arrays(call, to_host(arrays), reference_arrays(call), "in the body of a stream")


@row("R37-memory")
def too_little_memory(case: Conformance) -> None:
    """An array that is too large raises DeviceMemoryError, and the device works afterwards."""
    device = default_device(case)
    for _ in range(2):
        with expect_error(devmod.DeviceMemoryError, f"an array of {_ABSURD_SIZE} bytes") as caught:
            device.empty(_ABSURD_SIZE, "uint8")
        error = caught[0]
        require_equal(error.kind, case.kind, "the kind in the DeviceMemoryError")
        require(
            str(_ABSURD_SIZE) in str(error),
            f"the DeviceMemoryError does not name the requested bytes: {error}",
        )
        _, call, function = next(called_functions(case))
        check_call(case, call, function, "after a DeviceMemoryError")


@row("R37-dlpack")
def dlpack(case: Conformance) -> None:
    """Arrays of the host enter by DLPack. An array leaves by DLPack as a copy on the host, in
    shared memory, or with BufferError.
    """
    np = import_numpy()
    device = default_device(case)
    values = np.arange(12, dtype="float32").reshape(3, 4)
    exported: Any = _Exporter(values, (1, 0))
    array = device.from_numpy(exported)
    require(
        np.array_equal(array.numpy(), values), "an array that entered by DLPack has other values"
    )
    unused = np.from_dlpack(_Exporter(array, (1, 0), dl_device=(1, 0)))
    require(np.array_equal(unused, values), "an array that left by DLPack has other values")
    view = device.view(array.memory)  # type: ignore[attr-defined]  # an array of a device
    if view is not None:
        array.copy_from(values + 1)
        device.synchronize()
        require(
            np.array_equal(unused, values + 1), "the view of an array's memory does not share it"
        )
    require_equal(
        array.__dlpack_device__()[0], device.dlpack_type, "DLPack's device type of an array"
    )
    try:
        array.__dlpack__()
    except BufferError as error:
        require(
            ".numpy()" in str(error),
            f"the BufferError of __dlpack__ does not name .numpy(): {error}",
        )
    for _, call, function in called_functions(case):
        arguments = call.make_arguments()
        given = list(arguments)
        for number, each in enumerate(arguments):
            if isinstance(each, np.ndarray):
                given[number] = _Exporter(each, (1, 0))
        launch(case, function, given, **call.keywords)
        compare_arrays(call, arguments, reference_arrays(call), "with arrays by DLPack")


class _Exporter:
    """An array of which only DLPack is visible."""

    def __init__(self, array: Any, device: tuple[int, int], **keywords: Any) -> None:
        self._array = array
        self._device = device
        self._keywords = keywords

    def __dlpack__(self, **keywords: Any) -> object:
        return self._array.__dlpack__(**keywords | self._keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


# -- tuned functions

_FIRST, _SECOND = ({"variant": 1}, {"variant": 2})


@row("R52-variants")
def variants(case: Conformance) -> None:
    """A function with two variants takes the one that is the fastest in the records of its device,
    and computes the same, with arrays of the host and of the device.
    """
    device = default_device(case)
    pairs = with_interfaces(samples_with_calls(case))
    for sample, call, own in applicable(pairs, "no called function has an interface"):
        interface = own.replace(extra={**own.extra, "tune": _TUNE}, needs=[*own.needs, "tuned"])
        module = module_with(case, sample, call.function, interface=interface)
        record = devmod.TuningRecord(
            call.function,
            **identity_of(device),
            constants=("variant",),
            measured={((), (1,)): 2.0, ((), (2,)): 1.0},
        )
        module.tuning_records = (record,)
        function = get_function(module, call.function)
        label = f"the tuned {call.function!r}"
        require_equal(function.variants, (_FIRST, _SECOND), f"the variants of {label}")
        chosen = devmod.explain(module, call.function, device).variants[call.function]
        require_equal(
            [each.constants for each in chosen],
            [_SECOND],
            f"what {label} takes with a record of {device}",
        )
        for each in (function, function.specialize(**_FIRST)):
            check_call(case, call, each, label)
            arguments = to_device(device, call.make_arguments())
            check_call(case, call, each, f"{label} with device arrays", arguments)
