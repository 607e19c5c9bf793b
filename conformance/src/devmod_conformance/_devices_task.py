"""The task of a process with several devices: each call on each of them, and the calls that mix them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from devmod_conformance._payload import Payload, error_of, portable_argument, read_argument


def several(request: dict[str, Any], send: Callable[[object], None]) -> None:
    """Send the number of devices, the number of the default one, and the outcome of each use."""
    import devmod

    kind = request["kind"]
    devices = [each for each in devmod.devices() if each.kind == kind]
    send({"devices": len(devices)})
    if len(devices) < 2:
        return
    send({"default": devmod.device(kind).index})
    for sent, calls in zip(request["samples"], request["calls"], strict=True):
        module = Payload(sent).create(kind)
        for number, call in calls:
            function = module[call["function"]]
            send({"of function": function.default_device().index})
            _send_uses(send, number, _Call(function, call), devices)


class _Call:
    """A call of a function, with new arguments each time."""

    def __init__(self, function: Any, call: Mapping[str, Any]) -> None:
        self.function, self._call = function, call

    def run(self, *devices: Any, on: Any = None) -> list[Any]:
        """Call with host arrays, or with arrays on the devices in turn. Return the arrays after the call, as JSON."""
        import numpy as np

        arguments = [read_argument(each) for each in self._call["arguments"]]
        arrays = [number for number, each in enumerate(arguments) if isinstance(each, np.ndarray)]
        for place, number in enumerate(arrays):
            if devices:
                arguments[number] = devices[place % len(devices)].from_numpy(arguments[number])
        function = self.function if on is None else self.function.on(on)
        function(*arguments, **self._call["keywords"])
        return [portable_argument(each.numpy() if devices else each) if number in arrays else None for number, each in enumerate(arguments)]

    @property
    def arrays(self) -> int:
        """The number of arrays among the arguments."""
        return sum(isinstance(each, dict) and "data" in each for each in self._call["arguments"])


def _send_uses(send: Callable[[object], None], number: int, call: _Call, devices: list[Any]) -> None:
    uses: dict[str, Callable[[], list[Any]]] = {"with host arrays": call.run}
    refused: dict[str, Callable[[], list[Any]]] = {}
    for device in devices:
        uses[f"with arrays on {device}"] = partial(call.run, device)
        uses[f"of f.on({device}) with host arrays"] = partial(call.run, on=device)
        other = devices[0] if device is not devices[0] else devices[1]
        if call.arrays:
            refused[f"of f.on({device}) with arrays on {other}"] = partial(call.run, other, on=device)
        if call.arrays > 1:
            refused[f"with arrays on {device} and {other}"] = partial(call.run, device, other)
    for use, action in (uses | refused).items():
        send({"call": number, "use": use, "refused": use in refused, **_outcome(action)})


def _outcome(action: Callable[[], list[Any]]) -> dict[str, Any]:
    results: list[list[Any]] = []
    error = error_of(lambda: results.append(action()))
    return {"error": error, "arrays": results[0] if results else None}
