"""Several devices of a kind, in a process of their own."""

from __future__ import annotations

from devmod_conformance._case import Conformance
from devmod_conformance._payload import portable_argument, read_argument
from devmod_conformance._process import probe
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    compare_arrays,
    list_devices,
    reference_arrays,
    require,
    require_equal,
    row,
    samples_with_calls,
)


@row("R33-several")
def several_devices(case: Conformance) -> None:
    """One module runs on several devices: those of its arrays, that of Function.on, or that of DEVMOD_DEVICE."""
    list_devices(case)
    pairs = samples_with_calls(case)
    samples = list(dict.fromkeys(sample for sample, _ in pairs))
    calls = []
    for sample in samples:
        calls.append([
            [number, {
                "function": call.function,
                "arguments": [portable_argument(each) for each in call.make_arguments()],
                "keywords": call.keywords,
            }]
            for number, (owner, call) in enumerate(pairs) if owner is sample
        ])  # fmt: skip
    environment = {**case.several_devices, "DEVMOD_DEVICE": f"{case.kind}:1"}
    steps = probe(case, "several", samples, calls=calls, environment=environment).finished_steps
    if steps[0]["devices"] < 2:
        raise Skip(f"this machine has one {case.kind} device")
    for step in steps:
        for choice in ("default", "of function"):
            if choice in step:
                shown = f"devmod.device({case.kind!r})" if choice == "default" else "the device of a call that names none"
                require_equal(step[choice], 1, f"with DEVMOD_DEVICE={case.kind}:1, the number of {shown}")
        if "call" not in step:
            continue
        call, types, use = pairs[step["call"]][1], step["error"]["types"], f"a call of {pairs[step['call']][1].function!r} {step['use']}"
        raised = f"{types[0]}: {step['error']['text']}" if types else "no error was raised"
        if step["refused"]:
            require("ArgumentError" in types, f"{use}: expected ArgumentError, but {raised}")
            continue
        require(not types, f"{use} raises {raised}")
        expected = reference_arrays(call)
        actual = [two if one is None else read_argument(one) for one, two in zip(step["arrays"], expected, strict=True)]
        compare_arrays(call, actual, expected, step["use"])
