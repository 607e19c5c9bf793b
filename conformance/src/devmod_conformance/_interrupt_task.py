"""The task of a process that raises KeyboardInterrupt at random moments of its use of a backend."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from devmod_conformance._payload import Payload, error_of, portable_argument, read_argument

#: The interrupts of the first use, which opens the driver, and the limit on the seconds before each.
_FIRST, _FIRST_SECONDS = 4, 0.2
#: The most uses for each interrupt: a use may end before its interrupt comes.
_MAX_USES = 20
#: The most seconds until the calls are complete whose waits were interrupted.
_COMPLETION_SECONDS = 15


def interrupts(request: dict[str, Any], send: Callable[[object], None]) -> None:
    """Interrupt the uses of a backend. Send the first failure of a use without an interrupt, or the results of a last one of each."""
    import numpy  # noqa: F401 - its import cannot be repeated after an interrupt

    import devmod

    sys.unraisablehook = lambda _: None  # an interrupt of a finalizer
    alarm = _Alarm()
    uses = [
        _Use(request["kind"], Payload(sent), call)
        for sent, calls in zip(request["samples"], request["calls"], strict=True)
        for call in calls
    ]
    try:
        for _ in range(_FIRST):
            with suppress(KeyboardInterrupt):
                alarm.interrupt(uses[0].run, _FIRST_SECONDS)
        for use in uses:
            use.prepare()
    except devmod.DeviceNotFoundError as error:
        send({"no_device": str(error)})
        return
    before = _open_resources()
    landed = 0
    for number in range(_MAX_USES * request["interrupts"]):
        number %= len(uses)
        failure = error_of(partial(uses[number].interrupt, alarm))
        landed += "KeyboardInterrupt" in failure["types"]
        if failure["types"] and "KeyboardInterrupt" not in failure["types"]:
            send({"call": number, "error": failure})
            return
        if landed == request["interrupts"]:
            break
    # In another thread: it cannot acquire a lock that the main thread has not released.
    last: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: last.extend(use.last() for use in uses))
    thread.start()
    thread.join()
    for number, result in enumerate(last):
        send({"call": number, **result})
    # A call whose wait was interrupted may still be completed in another thread, with files and processes of its own.
    deadline = time.monotonic() + _COMPLETION_SECONDS
    while True:
        left = {name: count - before[name] for name, count in _open_resources().items()}
        if not any(count > 0 for count in left.values()) or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    send({"left": left})


class _Alarm:
    """Raises KeyboardInterrupt at random moments of the calls of `interrupt`."""

    def __init__(self) -> None:
        self._random = random.Random(1)  # noqa: S311 - no secret
        self._is_armed = False
        signal.signal(signal.SIGALRM, self._raise)

    def _raise(self, *_: object) -> None:
        if self._is_armed:
            self._is_armed = False
            raise KeyboardInterrupt

    def interrupt(self, action: Callable[[], Any], seconds: float) -> Any:
        """Return the result of `action`, unless KeyboardInterrupt comes before its end. It comes in at most so many seconds."""
        self._is_armed = True
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, seconds))
        try:
            return action()
        finally:
            self._is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)


class _Use:
    """A use of a function: a new module, a call with host arrays, and one with device arrays in a batch of a stream.

    Attributes
    ----------
    seconds
        The time of a use.
    """

    def __init__(self, kind: str, payload: Payload, call: Mapping[str, Any]) -> None:
        self._kind, self._payload, self._call = kind, payload, call
        self._expected: list[list[Any]] = []
        self._kept: list[Any] = []
        self.seconds = 0.0

    def run(self) -> list[list[Any]]:
        """Return the arrays after each call."""
        import devmod
        from devmod import plugins

        function = self._payload.create(self._kind)[self._call["function"]]
        arguments = self._arguments()
        function(*arguments, **self._call["keywords"])
        results = [_arrays(arguments)]
        if plugins.is_claimed("devmod.device", self._kind):
            device = devmod.device(self._kind)
            arguments = _on_device(device, self._arguments())
            device.synchronize()
            stream = device.stream()
            with stream.batch():
                function(*arguments, **self._call["keywords"], stream=stream)
            done = stream.record()
            device.default_stream.wait(done)
            results.append(_arrays(arguments))
            done.synchronize()
            stream.synchronize()
        return results

    def prepare(self) -> None:
        """Run without an interrupt, and keep arrays whose content must not change."""
        import devmod
        from devmod import plugins

        self._expected = self.run()
        start = time.perf_counter()
        self.run()
        self.seconds = time.perf_counter() - start
        if plugins.is_claimed("devmod.device", self._kind):
            self._kept = _on_device(devmod.device(self._kind), self._arguments())

    def interrupt(self, alarm: _Alarm) -> None:
        """Run, unless KeyboardInterrupt comes. Raise AssertionError unless the arrays are those of the run without an interrupt."""
        import numpy as np

        results = alarm.interrupt(self.run, 1.2 * self.seconds)
        for one, two in zip(chain(*results), chain(*self._expected), strict=True):
            is_exact = two.dtype.kind in "biu"
            is_equal = one == two if is_exact else np.isclose(one, two, rtol=self._call["rtol"], atol=self._call["atol"], equal_nan=True)
            if not np.all(is_equal):
                raise AssertionError(f"wrong in {int(np.size(is_equal) - np.count_nonzero(is_equal))} of {np.size(is_equal)} elements")

    def last(self) -> dict[str, Any]:
        """Return the error, or the arrays, of a last use, and those that were kept."""
        results: list[list[Any]] = []
        error = error_of(lambda: results.extend([*self.run(), *([_arrays(self._kept)] if self._kept else [])]))
        self._kept.clear()
        return {"error": error, "results": [list(map(portable_argument, each)) for each in results]}

    def _arguments(self) -> list[Any]:
        return [read_argument(each) for each in self._call["arguments"]]


def _on_device(device: Any, arguments: list[Any]) -> list[Any]:
    import numpy as np

    return [device.from_numpy(each) if isinstance(each, np.ndarray) else each for each in arguments]


def _arrays(arguments: list[Any]) -> list[Any]:
    """Return the arrays among arguments, copied to the host."""
    import numpy as np

    import devmod

    return [each if isinstance(each, np.ndarray) else each.numpy() for each in arguments if isinstance(each, (np.ndarray, devmod.Array))]


def _open_resources() -> dict[str, int]:
    """Return the numbers of open files and of child processes. Linux lists both, macOS the first."""
    gc.collect()
    result = {}
    for name, folder in (("open files", "/proc/self/fd"), ("open files", "/dev/fd")):
        with suppress(OSError):
            result[name] = len(os.listdir(folder))
            break
    with suppress(OSError):
        children = []
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
                children += file.read().split()
        result["child processes"] = len(children)
    return result
