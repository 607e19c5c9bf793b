"""Times of events and of launches."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter, sleep

import devmod
from devmod_conformance._case import Conformance
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    get_function,
    list_devices,
    require,
    row,
    runtime_module,
    samples_with_calls,
    to_device,
)
from devmod_conformance._turn import device_turn

_IDLE_SECONDS = 0.05
#: The launches between two events take about this long, if `_MAX_LAUNCHES` are enough.
_BUSY_SECONDS = 0.02
_MAX_LAUNCHES = 5000
_ROUNDS, _TIMES = 20, 4
#: The device's clock may be this much faster or slower than the host's, and may have steps of `_STEP` seconds.
_DRIFT, _STEP = 0.05, 0.0005
#: The seconds of equal launches may differ by this factor, since other processes may use the device.
_SPREAD = 10


@row("R37-elapsed")
def elapsed(case: Conformance) -> None:
    """Event.elapsed and Launch.time are at most what the host measures around them, and at least what the work between takes."""
    device = list_devices(case)[0]
    with device_turn(case.kind):
        device.synchronize()
        try:
            _check_idle(device.default_stream)
        except devmod.LaunchError as error:
            raise Skip(f"the device has no times of events: {error}") from error
        launch, seconds = max(map(_measure, _launches(case, device)), key=lambda pair: pair[1])
        # A slow launch is alone between its events: an event that comes after the first of several launches is wrong by less.
        count = min(max(1, int(_BUSY_SECONDS / (seconds + 1e-9))), _MAX_LAUNCHES)
        for _ in range(_ROUNDS):
            _check_busy(launch, count, seconds)


def _launches(case: Conformance, device: devmod.Device) -> Iterator[devmod.Launch]:
    try:
        pairs = samples_with_calls(case, [case.slow] if case.slow else ())
    except Skip:  # the compiler of the slow sample is not installed
        pairs = samples_with_calls(case)
    for sample, call in pairs:
        arguments = to_device(device, call.make_arguments())
        yield get_function(runtime_module(case, sample), call.function).bind(*arguments, **call.keywords)


def _check_idle(stream: devmod.Stream) -> None:
    """Check the time between two events while the device has no work: the host's clock bounds it on both sides."""
    first = perf_counter()
    begin = stream.record()
    begin.synchronize()
    second = perf_counter()
    sleep(_IDLE_SECONDS)
    third = perf_counter()
    end = stream.record()
    end.synchronize()
    fourth = perf_counter()
    _require_between(end.elapsed(begin), third - second, fourth - first, "two events of an idle device")


def _measure(launch: devmod.Launch) -> tuple[devmod.Launch, float]:
    """Return the launch and the least of several times of it. Each is checked against the host's clock."""
    subject = f"one launch of {launch.function.name!r} by Launch.time"
    _clock(launch)  # the first launch may allocate
    times = []
    for _ in range(_TIMES):
        start = perf_counter()
        times.append(launch.time())
        _require_between(times[-1], 0, perf_counter() - start, subject)
    least = min(_clock(launch) for _ in range(_TIMES))
    _require_between(min(times), least / _SPREAD - _STEP, least * _SPREAD, subject)
    return launch, min(times)


def _clock(launch: devmod.Launch) -> float:
    """Launch, wait, and return the seconds on the host's clock."""
    start = perf_counter()
    launch()
    launch.stream.synchronize()
    return perf_counter() - start


def _check_busy(launch: devmod.Launch, count: int, seconds: float) -> None:
    """Check the time between two events with `count` launches between them, each of which takes about `seconds`."""
    start = perf_counter()
    begin = launch.stream.record()
    for _ in range(count):
        launch()
    end = launch.stream.record()
    end.synchronize()
    host = perf_counter() - start
    _require_between(end.elapsed(begin), count * seconds / _SPREAD, host, f"{count} × {launch.function.name!r} between two events")


def _require_between(seconds: float, least: float, most: float, subject: str) -> None:
    require(
        isinstance(seconds, float) and least * (1 - _DRIFT) - _STEP <= seconds <= most * (1 + _DRIFT) + _STEP,
        f"the seconds of {subject}: expected {least:.4f} to {most:.4f}, got {seconds!r}",
    )
