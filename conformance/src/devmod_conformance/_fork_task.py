"""The task of a process that forks: a child before it uses the backend, and another one after that."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from devmod_conformance._payload import Payload, error_of, portable_argument, read_argument

#: The exit status of a child. No signal and no failure of Python gives it.
EXIT_STATUS = 87


def forks(request: dict[str, Any], send: Callable[[object], None]) -> None:
    """Fork a child before the backend is used, and another one after that. Send the outcomes of both."""
    import devmod

    warnings.simplefilter("ignore")  # newer Pythons warn about forks in processes with threads
    uses = _Uses(request)
    send({"unused": _in_child(uses.launch_new, request["seconds"])})
    try:
        uses.prepare()
    except devmod.DeviceNotFoundError as error:
        send({"no_device": str(error)})
        return
    send({"used": _in_child(uses.run_all, request["seconds"])})


class _Uses:
    """The uses of a kind in a forked child: launches, arrays, streams and events."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.kind = request["kind"]
        self.calls = [(Payload(sent), call) for sent, calls in zip(request["samples"], request["calls"], strict=True) for call in calls]
        self.named: dict[str, Callable[[], object]] = {}

    def launch_new(self) -> dict[str, Any]:
        """Create a module in the child, and launch its function."""
        return {"a call of a new function": self._outcome(partial(self._launch, *self.calls[0], None))}

    def prepare(self) -> None:
        """Use the driver in the parent, and prepare the uses in the child."""
        import devmod
        from devmod import plugins

        payload, call = self.calls[0]
        function = payload.create(self.kind)[call["function"]]
        self._launch(payload, call, function)
        self.named["a call of a function of the parent"] = partial(self._launch, payload, call, function)
        self.named["get_function of a new module"] = lambda: payload.create(self.kind)[call["function"]]
        if not plugins.is_claimed("devmod.device", self.kind):
            return
        import numpy as np

        device = devmod.device(self.kind)
        stream = device.stream()
        event = stream.record()
        array, copied = device.from_numpy(np.arange(4, dtype="int32")), device.zeros(4, "int32")
        device.synchronize()
        self.named |= {
            "Device.empty": lambda: device.empty(4, "int32"),
            "Device.from_numpy": lambda: device.from_numpy(np.zeros(4, "int32")),
            "Device.zeros": lambda: device.zeros(4, "int32"),
            "Array.numpy": array.numpy,
            "Array.copy_from": lambda: array.copy_from(np.zeros(4, "int32")),
            "Array.copy_to": lambda: array.copy_to(np.zeros(4, "int32"), wait=False),
            "Array.copy_to within the device": lambda: array.copy_to(copied),
            "Device.stream": device.stream,
            "Device.synchronize": device.synchronize,
            "Stream.synchronize": stream.synchronize,
            "Stream.record": stream.record,
            "Stream.wait": lambda: stream.wait(event),
            "Event.synchronize": event.synchronize,
        }

    def run_all(self) -> dict[str, Any]:
        """Run every prepared use in the child."""
        from devmod_runtime import check_driver

        outcomes = {name: self._outcome(action) for name, action in self.named.items()}
        return {"driver": self._outcome(lambda: check_driver(self.kind)), **outcomes}

    def _launch(self, payload: Payload, call: Mapping[str, Any], function: Any) -> list[Any]:
        import numpy as np

        function = function or payload.create(self.kind)[call["function"]]
        arguments = [read_argument(each) for each in call["arguments"]]
        function(*arguments, **call["keywords"])
        return [portable_argument(each) if isinstance(each, np.ndarray) else None for each in arguments]

    def _outcome(self, action: Callable[[], object]) -> dict[str, Any]:
        """Return the types, the text and the kind of an error, and the arrays of a launch."""
        arrays: list[object] = []
        error = error_of(lambda: arrays.append(action()))
        return {**error, "arrays": arrays[0] if arrays and isinstance(arrays[0], list) else None}


def _in_child(action: Callable[[], object], seconds: int) -> dict[str, Any]:
    """Run an action in a forked child. Return its result, and the child's exit status or signal.

    The child then exits as any program does, by SystemExit. A signal ends it after `seconds`, also in a call of a C library.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        with os.fdopen(writing, "w") as file:
            json.dump(action(), file)
        sys.exit(EXIT_STATUS)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"outcomes": json.loads(text) if text else {}, "code": code, "timed_out": code == -signal.SIGALRM}
