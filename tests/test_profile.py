"""The command `devmod profile`, and the hook `devmod_launch`. The plugins' tests show what a profile records on each kind."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pluggy import HookimplMarker

import devmod

SOURCE = "__kernel void add(__global float *x, float v) { x[get_global_id(0)] += v; }"
PROGRAM = f"""
import sys
import numpy as np
import devmod
add = devmod.compile({SOURCE!r}, "opencl")["add"]
x = np.zeros(64, "float32")
for _ in range(int(sys.argv[1])):
    add(x, 1.0, threads=64)
print(x[0], sys.argv, __name__)
"""


def profile(folder: Path, end: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM + end)
    command = [sys.executable, "-m", "devmod", "profile", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_command_runs_a_program_and_prints_the_table(tmp_path: Path) -> None:
    done = profile(tmp_path, "", "-o", "trace.json", "program.py", 3, "--verbose")
    assert (done.returncode, done.stdout) == (0, "3.0 ['program.py', '3', '--verbose'] __main__\n")
    rows = [line.split() for line in done.stderr.splitlines()]
    assert [row[:3] for row in rows if row[0] == "add"] == [["add", "opencl:0", "3"]]
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert done.stderr.endswith(f"trace.json: a trace of {len([each for each in events if each['pid'] == 1]) - 1} records\n")


@pytest.mark.parametrize(
    ("end", "status", "text"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no data')", 1, "no data\n"),
        ("raise ValueError('no')", 1, 'Traceback (most recent call last):\n  File "program.py", line 10, in <module>\n'),
    ],
)
def test_the_exit_status_is_that_of_the_program(tmp_path: Path, end: str, status: int, text: str) -> None:
    done = profile(tmp_path, end, "--no-device-times", "program.py", 1)
    assert done.returncode == status
    assert done.stderr.startswith(text)
    assert "add" in done.stderr


def test_tracers_get_each_launch_by_a_hook() -> None:
    class Tracer:
        records: list[Any] = []

        @HookimplMarker("devmod")
        def devmod_launch(self, record: Any) -> None:
            self.records.append(record)

    add = devmod.compile(SOURCE, "opencl")["add"]
    x = np.zeros(64, "float32")
    devmod.register("devmod.hooks", "devmod_launch.opencl", Tracer())
    try:
        add(x, 1.0, threads=64)
        with devmod.profile(device_times=False):
            add(x, 1.0, threads=64)
    finally:
        devmod.register("devmod.hooks", "devmod_launch.opencl", None, replace=True)
    with devmod.profile():
        add(x, 1.0, threads=64)
    assert [(each.action, each.name, each.device, each.nbytes) for each in Tracer.records] == [("launch", "add", "opencl:0", 256)]


def test_a_profile_of_several_threads_has_all_launches() -> None:
    add = devmod.compile(SOURCE, "opencl")["add"]
    device = devmod.device("opencl")
    arrays = [device.zeros(64, "float32") for _ in range(4)]

    def work(array: devmod.Array) -> None:
        for _ in range(50):
            add(array, 1.0, threads=64)

    with devmod.profile() as p:
        threads = [threading.Thread(target=work, args=(each,)) for each in arrays]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    launches = [each for each in p.records if each.action == "launch"]
    assert len(launches) == 200
    assert all(each.on_device is not None for each in launches)


def test_a_guard_and_a_profile_work_together() -> None:
    put = devmod.compile("__kernel void put(__global float *x) { x[4] = 1; }", "opencl")["put"]
    for _ in range(2):
        with devmod.profile() as p, devmod.guard(), pytest.raises(devmod.GuardError):
            put(np.zeros(4, "float32"), threads=1)
        with devmod.guard(), devmod.profile() as q, pytest.raises(devmod.GuardError):
            put(np.zeros(4, "float32"), threads=1)
        for each in (p, q):
            assert [record.name for record in each.records if record.action in ("launch", "call")] == ["put", "put"]
    put(np.zeros(5, "float32"), threads=1)


def test_a_profile_is_used_once() -> None:
    with devmod.profile() as p:
        pass
    with pytest.raises(devmod.ArgumentError) as caught, p:
        pass
    assert str(caught.value) == "a profile is used once: call devmod.profile() again"
    assert p.table() == "  device  count  host  device  GB/s"
