"""Calls in processes of their own: several devices, forked children, and interrupts."""

from __future__ import annotations

import base64
import math
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from devmod import plugins
from devmod.plugins import GROUPS
from devmod.worker import describe_exit
from devmod_conformance._case import Call, Conformance
from devmod_conformance._interrupts import HANGS
from devmod_conformance._payload import EXIT_STATUS, portable_argument, read_argument
from devmod_conformance._process import probe
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    called_functions,
    compare_arrays,
    list_devices,
    reference_arrays,
    require,
    require_equal,
    row,
    runtime_module,
    samples_with_calls,
)

#: The time of a child as a part of `Conformance.timeout`: the parent waits for two of them.
_CHILD_TIME = 1 / 3
_HANG_REMEDY = (
    ". Call devmod_runtime.open_driver before the driver's first call, and check_driver in each method of a device, stream or event that "
    "calls the driver"
)
_INTERRUPT_REMEDY = (
    ". An interrupt may come after every call in Python: acquire locks in `with` statements, change state in one step, and see the "
    "requirements of docs/backend.md"
)
_INTERRUPTS = 50
#: The uses of R61.
_USES = 6
#: The time of R61 as a multiple of `Conformance.timeout`. A row may take three times as long.
_PLACES_TIME = 2


@row("R33-several")
def several_devices(case: Conformance) -> None:
    """One module runs on several devices: those of its arrays, that of Function.on, or that of
    DEVMOD_DEVICE.
    """
    list_devices(case)
    pairs = samples_with_calls(case)
    environment = {**case.several_devices, "DEVMOD_DEVICE": f"{case.kind}:1"}
    steps = probe(case, "several", pairs=pairs, environment=environment).finished_steps
    if steps[0]["devices"] < 2:
        raise Skip(f"this machine has one {case.kind} device")
    for step in steps:
        for choice, shown in (
            ("default", f"devmod.device({case.kind!r})"),
            ("of function", "the device of a call that names none"),
        ):
            if choice in step:
                require_equal(
                    step[choice], 1, f"with DEVMOD_DEVICE={case.kind}:1, the number of {shown}"
                )
        if "call" not in step:
            continue
        _, call = pairs[step["call"]]
        types = step["types"]
        use = f"a call of {call.function!r} {step['use']}"
        raised = "no error was raised"
        if types:
            raised = f"{types[0]}: {step['text']}"
        if step["refused"]:
            require("ArgumentError" in types, f"{use}: expected ArgumentError, but {raised}")
            continue
        require(not types, f"{use} raises {raised}")
        _compare(call, step["arguments"], reference_arrays(call), step["use"])


@row("R37-forks")
def forked_children(case: Conformance) -> None:
    """A forked child runs kernels, or gets LaunchError if its parent opened the driver, and exits
    with its own status
    """
    if not hasattr(os, "fork"):
        raise Skip("this system has no fork")
    pairs = samples_with_calls(case)[:1]
    call = pairs[0][1]
    steps = probe(
        case, "forks", pairs=pairs, seconds=max(1, int(case.timeout * _CHILD_TIME))
    ).finished_steps
    parts: dict[str, Any] = {}
    for step in steps:
        parts |= step
    _check_child(
        case,
        call,
        "a child of a process that has not used the backend",
        parts["unused"],
        may_refuse=False,
    )
    if "no_device" in parts:
        raise Skip(f"this machine has no {case.kind} device: {parts['no_device']}")
    refuses = bool(parts["used"]["outcomes"].get("driver", {}).get("types"))
    _check_child(
        case,
        call,
        "a child of a process that has used the backend",
        parts["used"],
        may_refuse=refuses,
    )


def _check_child(
    case: Conformance, call: Call, child: str, part: Mapping[str, Any], *, may_refuse: bool
) -> None:
    """Raise AssertionError unless every use in the child had the right outcome and the child exited
    with its own status.
    """
    require(not part["timed_out"], f"{child} hangs{_HANG_REMEDY}")
    require(
        part["code"] == EXIT_STATUS,
        f"{child}: expected exit status {EXIT_STATUS}, but it {describe_exit(part['code'])}",
    )
    unchecked = []
    for use, outcome in part["outcomes"].items():
        types = outcome["types"]
        text = outcome["text"]
        if may_refuse and not types:
            unchecked.append(use)
            continue
        if may_refuse:
            require(
                "LaunchError" in types and outcome["kind"] == case.kind,
                f"{use}, in {child}: expected LaunchError, got {types[0]}: {text}",
            )
            continue
        if "DeviceNotFoundError" in types:
            raise Skip(f"this machine has no {case.kind} device: {text}")
        if types:
            raise AssertionError(
                f"{use}, in {child}, raises {types[0]}: {text}. Call devmod_runtime.open_driver before the driver's first call"
            )
        if outcome["arguments"] is not None:
            expected = reference_arrays(call)
            _compare(call, outcome["arguments"], expected, f"launched in {child}")
    require(
        not unchecked,
        f"{', '.join(unchecked)}, in {child}: expected LaunchError, but no error was raised; call devmod_runtime.check_driver there",
    )


@row("R37-interrupts")
def interrupted_process(case: Conformance) -> None:
    """After KeyboardInterrupt at any moment calls, copies and streams have right results, none
    hangs, and no process or file is left
    """
    if not hasattr(signal, "setitimer"):
        raise Skip("this system has no timers that send signals")
    pairs = samples_with_calls(case)
    answer = probe(case, "interrupts", pairs=pairs, interrupts=_INTERRUPTS)
    require(
        not answer.timed_out,
        f"after KeyboardInterrupt at random moments a use of the backend hangs{_INTERRUPT_REMEDY}",
    )
    for step in answer.finished_steps:
        if "no_device" in step:
            raise Skip(f"this machine has no {case.kind} device: {step['no_device']}")
        if "left" in step:
            for name, count in step["left"].items():
                require(
                    count <= 0,
                    f"after KeyboardInterrupt at random moments, {count} more {name} are left{_INTERRUPT_REMEDY}",
                )
            continue
        _, call = pairs[step["call"]]
        types = step["error"]["types"]
        if types:
            wrong = f"{types[0]}: {step['error']['text']}"
            raise AssertionError(
                f"{call.function!r}, called after KeyboardInterrupt at random moments, raises {wrong}{_INTERRUPT_REMEDY}"
            )
        expected = [reference_arrays(call)] * 2 + [call.make_arguments()]
        for sent, arrays in zip(step["results"], expected, strict=False):
            _compare(call, sent, arrays, "called after KeyboardInterrupt at random moments")


@row("R61")
def interrupted_places(case: Conformance) -> None:
    """After KeyboardInterrupt at any place of the first device, a load, a call, a copy or a wait,
    each of them works in the same process, and after one at the exit the process ends
    """
    if not hasattr(os, "fork"):
        raise Skip("this system has no fork")
    pairs = samples_with_calls(case)[:1]
    ((sample, call, _),) = called_functions(case, pairs)
    packages = set()
    for group in GROUPS:
        for claim in plugins.claims(group, case.kind):
            packages.add(claim.value.partition(":")[0].partition(".")[0])
    answer = probe(
        case,
        "places",
        pairs=pairs,
        timeout=_PLACES_TIME * case.timeout,
        data=base64.b64encode(runtime_module(case, sample).save_to_bytes()).decode(),
        expected=list(map(portable_argument, reference_arrays(call))),
        packages=sorted(packages),
        places=math.ceil(case.interrupt_places / _USES),
        seconds=min(HANGS, case.timeout * _CHILD_TIME),
    )
    for step in answer.finished_steps:
        if "no_device" in step:
            raise Skip(f"this machine has no {case.kind} device: {step['no_device']}")
        if "failure" in step:
            place = step["place"]
            sys.stderr.write(step["log"])
            raise AssertionError(
                f"after KeyboardInterrupt in {step['use']}, at {place['function']} of {place['file']} ({place['event']}): "
                f"{step['failure']}{_INTERRUPT_REMEDY}"
            )


def _compare(call: Call, sent: list[Any], expected: list[Any], description: str) -> None:
    compare_arrays(call, list(map(read_argument, sent)), expected, description)
