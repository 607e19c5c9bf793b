"""`devmod.profile` on a device: what it records of calls, launches, copies, builds and waits. The
same test for each kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from ctypes import byref, c_float, c_void_p
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from guarded import SOURCES

import devmod


def check_profile(device: Any, target: str, folder: Path) -> None:
    """Profile calls with arrays of the host and of the device, and prepared launches that were made
    before and in the context.
    """
    kind, name = device.kind, f"{device.kind}:{device.index}"
    put = devmod.compile(SOURCES[kind], target, name="put")["put"].on(device)
    launch: dict[str, Any] = {} if kind == "hexagon" else {"grid": 1, "block": 1}
    x, y = device.zeros(8, "float32"), device.from_numpy(np.float32([2.5]))
    before = put.bind(x, y, 1, **launch)
    put(x, y, 0, **launch)  # its cached path is recorded as well
    with devmod.profile() as profile:
        put(x, y, 2, **launch)
        before()
        put.bind(x, y, 3, **launch)()
        put(np.zeros(8, "float32"), np.float32([2.5]), 4, **launch)
        device.synchronize()
        assert x.numpy().tolist() == [2.5] * 4 + [0] * 4
        x.copy_from(np.zeros(8, "float32"))
        fresh = devmod.compile(SOURCES[kind], target, name="put")["put"].on(device)
    count = len(profile.records)
    put(x, y, 0, **launch)
    before()
    fresh(x, y, 2, **launch)
    assert x.numpy().tolist() == [2.5] * 3 + [0] * 5
    assert len(profile.records) == count  # nothing outside of the context

    launches = [each for each in profile.records if each.action == "launch"]
    assert [(each.name, each.device, each.nbytes) for each in launches] == [("put", name, 36)] * 4
    assert all(each.on_device is not None and 0 <= each.on_device < 60 for each in launches)
    calls = [each for each in profile.records if each.action == "call"]
    assert [(each.name, each.device, each.nbytes) for each in calls] == [("put", name, 36)] * 2
    for call, inside in zip(calls, (launches[0], launches[3]), strict=True):
        assert call.start <= inside.start
        assert inside.start + inside.host <= call.start + call.host
    copies = [(each.name, each.nbytes) for each in profile.records if each.action == "copy"]
    assert copies == [
        ("copy to the device", 32),
        ("copy to the device", 4),
        ("copy to the host", 32),
        ("copy to the host", 32),
        ("copy to the device", 32),
    ]
    assert ("wait", "the device", name) in [each[:3] for each in profile.records]
    assert [each[:3] for each in profile.records if each.action == "build"] == [
        ("build", "put", name)
    ]

    table = [line.split() for line in profile.table().splitlines()]
    assert table[0] == ["device", "count", "host", "device", "GB/s"]
    assert [row[1:3] for row in table if row[0] == "put"] == [[name, "4"]]
    profile.save(folder / "trace.json")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert [each["args"]["name"] for each in events if each["name"] == "thread_name"] == [name]
    assert (
        len(
            [
                each
                for each in events
                if each["ph"] == "X" and each["pid"] == 2 and each["name"] == "put"
            ]
        )
        == 4
    )

    with devmod.profile(device_times=False) as profile:
        put(x, y, 0, **launch)
    assert [each.on_device for each in profile.records if each.action == "launch"] == [None]


_SPIN = "float a = x[0]; for (int i = 0; i < n; i++) a = a * 0.999f + 0.5f; x[0] = a;"
#: Kernels whose time grows with the number `n`.
SPINS = {
    "opencl": f"__kernel void spin(__global float *x, int n) {{ {_SPIN} }}",
    "cuda": f'extern "C" __global__ void spin(float *x, int n) {{ {_SPIN} }}',
    "metal": f"kernel void spin(device float *x [[buffer(0)]], constant int &n [[buffer(1)]]) {{ {_SPIN} }}",
    "hexagon": f"void spin(float *x, int n) {{ {_SPIN} }}",
    "vulkan": f"""#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer X {{ float x[]; }};
layout(push_constant) uniform P {{ int n; }};
void main() {{ {_SPIN} }}
""",
    "webgpu": """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<uniform> n: i32;
@compute @workgroup_size(1) fn spin() { var a = x[0]; for (var i = 0; i < n; i++) { a = a * 0.999f + 0.5f; } x[0] = a; }
""",
}
SPINS["rocm"] = SPINS["cuda"]
#: The lengths of the kernels in the queue.
_LENGTHS = (1, 4, 2, 8, 1, 4)


def check_busy_queue(
    device: Any,
    target: str,
    unit: int,
    folder: Path,
    mark: Callable[[], Any] = lambda: None,
    between: Callable[[Any, Any], float] | None = None,
    *,
    grid: int = 1,
) -> None:
    """Queue kernels of different lengths without a wait, and compare a profile with the clock of
    the host and with the driver's figures.

    Parameters
    ----------
    device, target
        The device, and what to compile for.
    unit
        The shortest `n` of the kernels.
    folder
        For the trace.
    mark, between
        Put a time stamp of the driver into the queue of the default stream, without devmod; return
        the seconds between two of them.
    grid
        The threads, which do the same.
    """
    spin = devmod.compile(SPINS[device.kind], target, name="spin")["spin"].on(device)
    launch: dict[str, Any] = {} if device.kind == "hexagon" else {"grid": grid, "block": 1}
    x, y = device.zeros(8, "float32"), device.zeros(8, "float32")
    bound = {n: spin.bind(x, n * unit, **launch) for n in {*_LENGTHS}}
    for each in bound.values():
        each()
    device.synchronize()
    out = np.zeros(8, "float32")
    with devmod.profile() as profile:
        marks = [mark()]
        for n in _LENGTHS:
            bound[n]()
            marks.append(mark())
        y.copy_from(x, wait=False)
        y.copy_to(out)  # waits for the kernels
    seconds = max(each.start + each.host for each in profile.records)
    launches = [each for each in profile.records if each.action == "launch"]
    on_device = [each.on_device for each in launches]
    assert [(each.name, each.nbytes) for each in launches] == [("spin", 32)] * len(_LENGTHS)
    assert all(each >= 0 for each in on_device)
    # Each time is counted once, in seconds; two clocks differ by less.
    assert sum(on_device) <= seconds * 1.01
    if between is not None:
        gaps = [between(*pair) for pair in pairwise(marks)]
        # Each kernel has its own time, without those before it in the queue, and the driver finds
        # about as much.
        assert all(time <= gap + 2e-6 for time, gap in zip(on_device, gaps, strict=True)), (
            on_device,
            gaps,
        )
        assert sum(on_device[1:]) >= sum(gaps[1:]) / 4, (
            on_device,
            gaps,
        )  # the queue was empty before the first

    # The copy has its own time too: a record of a wait has that of the kernels.
    queued, wait, copy, *_ = (each for each in profile.records if each.action in ("copy", "wait"))
    assert [(each.name, each.nbytes) for each in (queued, wait, copy)] == [
        ("copy on the device", 32),
        ("the device", 0),
        ("copy to the host", 32),
    ]
    assert queued.on_device is not None
    assert 0 <= queued.on_device <= seconds
    profile.save(folder / "trace.json")
    events = [
        each
        for each in json.loads((folder / "trace.json").read_text())["traceEvents"]
        if each["ph"] == "X"
    ]
    track = [(each["ts"] * 1e-6, each["dur"] * 1e-6) for each in events if each["pid"] == 2]
    hosts = [each.start for each in (*launches, queued)]
    assert len(track) == len(hosts)
    for (start, length), following, host in zip(
        track, [*(each[0] for each in track[1:]), copy.start], hosts, strict=True
    ):
        assert host <= start + 1e-7, (track, hosts)
        assert start + length <= following + 1e-6, (track, hosts, copy)


def driver_marks(device: Any, prefix: str) -> tuple[Callable[[], Any], Callable[[Any, Any], float]]:
    """Return `mark` and `between` of `check_busy_queue` for CUDA's or HIP's library, whose
    functions begin with `prefix`.
    """
    context = device.context
    library, stream = context.driver.library, c_void_p(device.default_stream.handle)

    def call(name: str, *arguments: Any) -> None:
        with context:
            assert getattr(library, prefix + name)(*arguments) == 0

    def mark() -> Any:
        event = c_void_p()
        call("EventCreate", byref(event), *((0,) if prefix == "cu" else ()))
        call("EventRecord", event, stream)
        return event

    def between(earlier: Any, later: Any) -> float:
        milliseconds = c_float()
        call("EventSynchronize", later)
        call("EventElapsedTime", byref(milliseconds), earlier, later)
        return milliseconds.value * 1e-3

    return mark, between
