"""`devmod.profile` on a device: what it records of calls, launches, copies, builds and waits. The same test for each kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from guarded import SOURCES

import devmod


def check_profile(device: Any, target: str, folder: Path) -> None:
    """Profile calls with arrays of the host and of the device, and prepared launches that were made before and in the context."""
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
    assert [each[:3] for each in profile.records if each.action == "build"] == [("build", "put", name)]

    table = [line.split() for line in profile.table().splitlines()]
    assert table[0] == ["device", "count", "host", "device", "GB/s"]
    assert [row[1:3] for row in table if row[0] == "put"] == [[name, "4"]]
    profile.save(folder / "trace.json")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert [each["args"]["name"] for each in events if each["name"] == "thread_name"] == [name]
    assert len([each for each in events if each["ph"] == "X" and each["pid"] == 2 and each["name"] == "put"]) == 4

    with devmod.profile(device_times=False) as profile:
        put(x, y, 0, **launch)
    assert [each.on_device for each in profile.records if each.action == "launch"] == [None]
