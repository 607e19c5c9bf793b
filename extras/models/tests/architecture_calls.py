"""Export a net of `architectures`, and compare three calls on each kind with PyTorch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import architectures
import numpy as np
import torch
from architectures import Input, Net, Side

import devmod
from devmod.interop import torch as interop

#: The forms in which a net is exported.
FORMS = ("fixed", "open", "cache")
KINDS = ("opencl", "webgpu")
CALLS = 3
#: The part of the largest magnitude by which a result may differ.
ALLOWED = 1e-4
_CHECKED = re.compile(
    r"checked on tinygrad:CPU against PyTorch: worst error (\S+) of ([^\s,(]+)", re.ASCII
)


class Outcome(NamedTuple):
    """What came of a net in a form.

    Attributes
    ----------
    error
        Why there is no program, or "".
    differences
        The largest difference of its calls, as a part of the largest magnitude, by kind; or an
        error.
    """

    error: str
    differences: dict[str, float | str]

    @property
    def is_right(self) -> bool:
        """Whether all kinds are right."""
        if self.error or len(self.differences) <= len(KINDS):
            return False
        return all(
            isinstance(each, float) and each <= ALLOWED for each in self.differences.values()
        )


def forms_of(net: Net) -> list[str]:
    """Return the forms that a net has."""
    return [each for each in FORMS if each != "cache" or net.step is not None]


def sides_of(inputs: Mapping[str, Input]) -> dict[str, Side]:
    """Return the open lengths by their names."""
    shapes = [side for each in inputs.values() for side in each.shape]
    return {each.name: each for each in shapes if isinstance(each, Side)}


def outcome(name: str, form: str) -> Outcome:
    """Export a net, and compare three calls with fresh inputs."""
    net = architectures.NETS[name]
    torch.manual_seed(0)
    inputs = net.inputs
    made = net.make
    if form == "cache":
        assert net.step is not None
        inputs = net.step
        made = net.make_step or made
    model = made().eval()
    lines: list[str] = []
    try:
        module = _exported(model, net, inputs, form, lines)
    except devmod.DevmodError as error:
        return Outcome(str(error), {})

    own = next(filter(None, map(_CHECKED.match, lines)))
    differences: dict[str, float | str] = {"cpu": float(own[1]) / (float(own[2]) or 1)}
    calls = _calls(inputs, form)
    with torch.no_grad():
        wanted = _wanted(model, net, form, calls)
    for kind in KINDS:
        try:
            differences[kind] = _compared(module, kind, calls, wanted)
        except devmod.DevmodError as error:
            differences[kind] = str(error)
    return Outcome("", differences)


def _exported(model: Any, net: Net, inputs: Mapping[str, Input], form: str, lines: Any) -> Any:
    """Return the module with the program "net"."""
    arguments = {
        name: each.tensor(number, {}) for number, (name, each) in enumerate(inputs.items())
    }
    arguments |= net.options
    dynamic: dict[str, dict[int, tuple[str, int, int]]] = {}
    if form == "cache":
        arguments |= net.cache(model)
    elif form == "open":
        for name, each in inputs.items():
            for axis, side in enumerate(each.shape):
                if isinstance(side, Side):
                    own = dynamic.setdefault(name, {})
                    own[axis] = (side.name, side.low, side.high)
    return interop.export(
        model, (), arguments, targets=KINDS, dynamic=dynamic, name="net", report=lines.append
    )


def _calls(inputs: Mapping[str, Input], form: str) -> list[dict[str, Any]]:
    """Return the inputs of calls: with open lengths the least, the largest, and others."""
    result = []
    for call in range(CALLS):
        lengths = {}
        for side in sides_of(inputs).values():
            middle = (side.low + side.high) // 2
            lengths[side.name] = side.value
            if form == "open":
                lengths[side.name] = (side.low, side.high, middle)[call]
        own = {}
        for number, (name, each) in enumerate(inputs.items(), 1):
            own[name] = each.tensor(100 * (call + 1) + number, lengths)
        result.append(own)
    return result


def _wanted(
    model: Any, net: Net, form: str, calls: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return PyTorch's results by name."""
    caches: dict[str, Any] = {}
    if form == "cache":
        caches = net.cache(model)
    results = []
    for each in calls:
        found = model(**each, **net.options, **caches)
        named = interop.tensors_of_results(found, None, caches, [])
        results.append({key: value.detach().clone().numpy() for key, value in named.items()})
    return results


def _compared(
    module: Any, kind: str, calls: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]
) -> float:
    """Return the largest difference of calls on a kind, as a part of the largest magnitude."""
    f = module["net"].on(f"{kind}:0")
    state = {}
    if f.states:
        state["state"] = f.state()
    worst = 0.0
    for each, expected in zip(calls, wanted, strict=True):
        got = f(**{name: value.numpy() for name, value in each.items()}, **state)
        if not isinstance(got, tuple):
            got = (got,)
        for own, right in zip(got, expected.values(), strict=True):
            assert own.shape == right.shape, (own.shape, right.shape)
            assert own.dtype == right.dtype
            scale = float(np.abs(right).max(initial=0)) or 1.0
            difference = np.abs(own.astype(np.float64) - right.astype(np.float64))
            worst = max(worst, float(difference.max(initial=0)) / scale)
    return worst
