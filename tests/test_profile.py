"""The command `devmod profile`, and the hook `devmod_launch`. The plugins' tests show what a
profile records on each kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import cache
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device, run_python
from distributions import install
from each_case import some
from forked import python
from pluggy import HookimplMarker
from work import frames

import devmod
from devmod_runtime import Device, Function, Launch, Stream

SOURCE = "__kernel void add(__global float *x, float v) { x[get_global_id(0)] += v; }"
SCRIPT = f"""
import sys
import numpy as np
import devmod
add = devmod.compile({SOURCE!r}, "opencl")["add"]
x = np.zeros(64, "float32")
for _ in range(int(sys.argv[1])):
    add(x, 1.0, threads=64)
print(x[0], sys.argv, __name__)
"""


@cache
def adding() -> Any:
    """Return the kernel, whose module the tests share."""
    return devmod.compile(SOURCE, "opencl")["add"]


def profile(
    folder: Path, end: str, *arguments: object, start: str = SCRIPT, flags: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command on a script. With flags of Python its process is new, and ends as such."""
    (folder / "script.py").write_text(start + end)
    return python(*flags.split(), "-m", "devmod", "profile", *map(str, arguments), cwd=folder)


#: Another folder does not take the trace, and libraries print what is not freed at the end of
#: Python.
END = """
import os
os.chdir("other")
class Cycle:
    def __init__(self): self.own = self
    def __del__(self, stop=print): stop("freed")
kept = Cycle()
"""


def test_the_command_runs_a_script_and_its_end_and_prints_the_table(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = profile(tmp_path, END, "-o", "trace.json", "script.py", 3, "--verbose", flags="-s")
    printed = "3.0 ['script.py', '3', '--verbose'] __main__\nfreed\n"
    assert (done.returncode, done.stdout) == (0, printed)
    rows = [line.split() for line in done.stderr.splitlines()]
    assert [row[:3] for row in rows if row[0] == "add"] == [["add", "opencl:0", "3"]]
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert done.stderr.endswith(
        f"trace.json: a trace of {len([each for each in events if each['pid'] == 1]) - 1} records\n"
    )


def test_a_trace_is_not_written_to_standard_output(tmp_path: Path) -> None:
    done = profile(tmp_path, "", "-o", "-", "script.py", 3)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "devmod: error: Invalid value for '-o' / '--output': '-' is standard output, to which `devmod compile` alone writes. "
        "Give the name of a file\n"
    )
    assert os.listdir(tmp_path) == ["script.py"]


@pytest.mark.parametrize(
    ("end", "status"), [pytest.param("", 0, marks=pytest.mark.volume), ("sys.exit('no data')", 1)]
)
def test_the_table_as_json_is_all_of_standard_output(tmp_path: Path, end: str, status: int) -> None:
    done = profile(tmp_path, end, "--json", "script.py", 3, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"], report["script"]) == (status, status, "script.py")
    (launches,) = (row for row in report["rows"] if row["action"] == "launch")
    assert (launches["name"], launches["device"], launches["number"]) == ("add", "opencl:0", 3)
    assert 0 < launches["on_device"] < 100
    assert launches["gb_per_s"] == pytest.approx(3 * 256e-9 / launches["on_device"])
    assert done.stderr.startswith(
        "3.0 ['script.py', '3', '--json'] __main__\n"
    )  # what the script prints, and no table
    assert " opencl:0 " not in done.stderr


@pytest.mark.parametrize(
    ("script", "status", "text"),
    [
        ("exit(7)", 7, ""),
        ("raise KeyboardInterrupt", 130, "\ninterrupted\n"),
        (
            "raise ValueError('no')",
            1,
            'Traceback (most recent call last):\n  File "script.py", line 1, in <module>\n',
        ),
    ],
)
def test_the_exit_status_is_that_of_the_script(
    tmp_path: Path, script: str, status: int, text: str
) -> None:
    done = profile(tmp_path, script, "script.py", 1, start="")
    assert done.returncode == status
    assert done.stderr.startswith(text)
    assert "  device  count" in done.stderr


def test_a_file_of_kernels_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "k.devmod").write_bytes(b"\0")
    done = python("-m", "devmod", "profile", "k.devmod", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "devmod: error: k.devmod is a file of kernels: give a Python script that calls them. `devmod bench` measures the functions of a file\n"
    )


def test_tracers_get_each_launch_by_a_hook() -> None:
    class Tracer:
        records: list[Any] = []

        @HookimplMarker("devmod")
        def devmod_launch(self, record: Any) -> None:
            self.records.append(record)

    add = adding()
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
    assert [(each.action, each.name, each.device, each.nbytes) for each in Tracer.records] == [
        ("launch", "add", "opencl:0", 256)
    ]


FAILING_HOOK = """
from pluggy import HookimplMarker
@HookimplMarker("devmod")
def devmod_launch(record):
    raise ValueError(f"no tracer for {record.name}")
"""


def test_a_hook_that_fails_is_one_warning_and_the_launches_go_on(tmp_path: Path) -> None:
    install(
        tmp_path,
        "acme-tracer",
        groups={"devmod.hooks": {"devmod_launch": "acme_tracer"}},
        modules={"acme_tracer": FAILING_HOOK},
    )
    program = f"""
import warnings
import devmod
add = devmod.compile({SOURCE!r}, "opencl")["add"]
x = devmod.device("opencl").zeros(64, "float32")
for launch in (lambda: add(x, 1.0, threads=64), add.bind(x, 1.0, threads=64)):
    with warnings.catch_warnings(record=True) as found, devmod.profile() as p:
        warnings.simplefilter("always")
        for _ in range(3):
            launch()
    print(x.numpy()[0], [each.action for each in p.records].count("launch"))
    print(*(f"{{each.category.__name__}}: {{each.message}}" for each in found), sep="\\n")
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    text = (
        "RuntimeWarning: the hook devmod_launch of acme-tracer 1.0 failed: ValueError: no tracer for add. The launch is not affected; the "
        "profile hides further errors of the hook"
    )
    assert run_python(program, PYTHONPATH=path).splitlines() == ["3.0 3", text, "6.0 3", text]


def test_a_hook_that_fails_stops_no_other(tmp_path: Path) -> None:
    for name in ("acme", "bad", "worse"):
        source = (
            FAILING_HOOK if name != "acme" else FAILING_HOOK.replace("raise ValueError(f", "print(")
        )
        groups = {
            "devmod.hooks": {
                "devmod_launch": f"{name}_tracer",
                "devmod_launch.opencl": f"{name}_tracer",
            }
        }  # one plugin, called once
        install(tmp_path, f"{name}-tracer", groups=groups, modules={f"{name}_tracer": source})
    program = f"""
import warnings
import devmod
add = devmod.compile({SOURCE!r}, "opencl")["add"]
x = devmod.device("opencl").zeros(64, "float32")
with warnings.catch_warnings(record=True) as found, devmod.profile():
    warnings.simplefilter("always")
    for _ in range(2):
        add(x, 1.0, threads=64)
print(*sorted(str(each.message).partition(":")[0] for each in found), sep="\\n")
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert run_python(program, PYTHONPATH=path).splitlines() == [
        *["no tracer for {record.name}"] * 2,
        *[f"the hook devmod_launch of {name}-tracer 1.0 failed" for name in ("bad", "worse")],
    ]


def test_a_launch_by_a_tracer_is_passed_to_no_tracer() -> None:
    module = devmod.compile(SOURCE, "opencl")
    x = devmod.device("opencl").zeros(64, "float32")

    class Tracer:
        count = 0

        @HookimplMarker("devmod")
        def devmod_launch(self, record: Any) -> None:
            Tracer.count += 1
            module["add"](x, 1.0, threads=64)

    devmod.register("devmod.hooks", "devmod_launch.opencl", Tracer())
    try:
        with devmod.profile() as p:
            for _ in range(2):
                module["add"](x, 1.0, threads=64)
    finally:
        devmod.register("devmod.hooks", "devmod_launch.opencl", None, replace=True)
    assert (Tracer.count, [each.action for each in p.records].count("launch"), x.numpy()[0]) == (
        2,
        4,
        4,
    )


def test_a_profile_of_several_threads_has_all_launches() -> None:
    add = adding()
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
            assert [
                record.name for record in each.records if record.action in ("launch", "call")
            ] == ["put", "put"]
    put(np.zeros(5, "float32"), threads=1)


@pytest.fixture(name="methods")
def all_methods() -> Iterator[None]:
    """Check that the test leaves each class of devices, streams and functions as it was, in the
    order of its names too.
    """

    def classes(base: type) -> Iterator[type]:
        yield base
        subclasses: list[type] = base.__subclasses__()
        for each in subclasses:
            yield from classes(each)

    def attributes() -> dict[type, list[tuple[str, int]]]:
        bases: tuple[type, ...] = (Device, Stream, Function, Launch)
        return {
            owner: [(name, id(value)) for name, value in vars(owner).items()]
            for base in bases
            for owner in classes(base)
        }

    devmod.device("opencl")
    with devmod.guard():
        pass  # its module has a class of its own
    before = attributes()
    yield
    assert attributes() == before


@pytest.mark.usefixtures("methods")
@pytest.mark.parametrize("first", [0, 1])
def test_profiles_that_overlap_may_end_in_any_order(first: int) -> None:
    add = adding()
    x = devmod.device("opencl").zeros(64, "float32")
    launch = add.bind(x, 1.0, threads=64)
    call = launch.__call__

    def run() -> None:
        launch()
        add(x, 1.0, threads=64)

    profiles = [devmod.profile(), devmod.profile()]
    profiles[0].__enter__()
    run()
    profiles[1].__enter__()
    run()
    profiles[first].__exit__()
    run()
    profiles[1 - first].__exit__()
    run()
    assert launch.__call__ is call
    counts = [sum(each.action == "launch" for each in p.records) for p in profiles]
    assert counts == ([4, 4] if first == 0 else [6, 2])


@pytest.mark.usefixtures("methods")
def test_guards_that_overlap_may_end_in_any_order() -> None:
    device = devmod.device("opencl")
    put = devmod.compile("__kernel void put(__global char *x, int at) { x[at] = 1; }", "opencl")[
        "put"
    ]

    def finds(after: int) -> bool:
        try:
            put(device.zeros(128, "int8"), 128 + after, threads=1)
        except devmod.GuardError:
            return True
        return False

    guards = [devmod.guard(each) for each in (1024, 4096, 1024, 2048)]
    for each in guards:
        each.__enter__()
    guards[2].__exit__(None, None, None)
    assert finds(2047)
    guards[3].__exit__(None, None, None)
    assert finds(4095)  # of the second guard
    guards[0].__exit__(None, None, None)
    assert finds(4095)
    guards[1].__exit__(None, None, None)
    put(device.zeros(256, "int8"), 128, threads=1)


def test_what_others_replace_between_two_guards_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with devmod.guard():
        pass
    called = []
    original = Device.zeros

    def zeros(*args: Any) -> devmod.Array:
        called.append(args[1:])
        return original(*args)

    monkeypatch.setattr(Device, "zeros", zeros)
    with devmod.profile(), devmod.guard():
        pass
    devmod.device("opencl").zeros(3, "float32")
    assert called == [(3, "float32")]


def test_the_child_of_a_fork_ends_a_profile_without_the_driver() -> None:
    program = f"""
import os
import devmod
add = devmod.compile({SOURCE!r}, "opencl")["add"]
launch = add.bind(devmod.device("opencl").zeros(64, "float32"), 1.0, threads=64)
launch()
launch.stream.synchronize()  # now PoCL has loaded the kernel: the child of a fork within the loader has its lock
with devmod.profile() as p:
    launch()
    child = os.fork()
try:
    launch()
except devmod.LaunchError as error:
    print("the child:", type(error).__name__, flush=True)
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), [each.on_device is None for each in p.records])
"""
    done = python("-c", program)
    assert (done.returncode, done.stdout) == (0, "the child: LaunchError\n0 [False]\n"), done.stderr


def test_the_trace_has_no_launch_before_the_host_queued_it(tmp_path: Path) -> None:
    source = "__kernel void slow(__global float *x) { for (int i = 0; i < 100000; i++) x[get_global_id(0)] += i; }"
    slow = devmod.compile(source, "opencl")["slow"]
    x = devmod.device("opencl").zeros(256, "float32")
    slow(x, threads=256)
    x.numpy()
    for _ in range(20):
        slow(x, threads=256)  # the queue is busy when the profile begins
    with devmod.profile() as p:
        for _ in range(3):
            slow(x, threads=256)
            x.numpy()
    p.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    on_host, on_device = (
        [each["ts"] for each in events if each.get("cat") == "launch" and each["pid"] == pid]
        for pid in (1, 2)
    )
    assert len(on_host) == len(on_device) == 3
    assert all(host <= device + 1e-3 for host, device in zip(on_host, on_device, strict=True))


def test_the_trace_has_no_launch_after_the_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have the processor between an event, which an idle device reaches at
    once, and the launch.
    """
    device = first_device("webgpu")  # its driver starts what is queued at once
    source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n@compute @workgroup_size(1) fn f() { y[0] += 1; }"
    launch = devmod.compile(source, "webgpu")["f"].bind(device.zeros(64, "float32"), grid=1)
    launch()
    device.synchronize()
    record, seconds = type(device.default_stream).record, [0.05]

    def slow(stream: Any) -> Any:
        event = record(stream)
        sleep(seconds.pop() if seconds else 0)
        return event

    with devmod.profile() as p:
        monkeypatch.setattr(type(device.default_stream), "record", slow)
        launch()
        monkeypatch.undo()
        device.synchronize()
    p.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (on_device,) = (each for each in events if each.get("cat") == "launch" and each["pid"] == 2)
    (wait,) = (each for each in events if each.get("cat") == "wait")
    assert on_device["ts"] + on_device["dur"] <= wait["ts"] + wait["dur"] + 1


def test_a_profile_does_not_record_what_it_does_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmod_workbench._tools.profile._MOST_EVENTS", 2)
    text = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn one() { x[0] = 1; }"
    one = devmod.compile(text, "webgpu")["one"]
    x = devmod.device("webgpu").zeros(64, "float32")
    with devmod.profile() as p:
        for _ in range(5):
            one(x, grid=1)
    assert {each.action for each in p.records} <= {"call", "launch", "build"}


def test_profiles_begin_and_end_while_other_threads_call() -> None:
    add = adding()
    device = devmod.device("opencl")
    done = threading.Event()
    counts = []

    def work() -> None:
        on_device, on_host, count = device.zeros(64, "float32"), np.zeros(64, "float32"), 0
        launch = add.bind(on_device, 1.0, threads=64)
        while not done.is_set():
            add(on_device, 1.0, threads=64)
            launch()
            add(on_host, 1.0, threads=64)
            count += 1
        assert (on_device.numpy()[0], on_host[0]) == (2 * count, count)
        counts.append(count)

    threads = [threading.Thread(target=work) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for each in threads:
            each.start()
        for number in range(30):
            with devmod.profile(device_times=number % 2 == 0):
                done.wait(0.01)
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for each in threads:
            each.join()
    assert len(counts) == 2


def test_an_observer_replaces_no_private_method() -> None:
    with devmod.guard():
        pass  # it imports the part of programs
    modules = [
        module for name, module in sys.modules.items() if name.startswith("devmod_runtime._")
    ]
    owners = {
        each for module in modules for each in vars(module).values() if isinstance(each, type)
    }

    def attributes() -> set[tuple[str, str, int]]:
        return {
            (owner.__qualname__, name, id(value))
            for owner in owners
            for name, value in vars(owner).items()
        }

    before = attributes()
    with devmod.guard(), devmod.profile():
        replaced = {name for _, name, _ in attributes() - before}
    assert {each for each in replaced if each.startswith("_")} == {"__call__", "__init_subclass__"}
    assert attributes() == before


@pytest.mark.parametrize(
    "made",
    ["a call", "a call with a host array", "a program", "a prepared launch", "a prepared program"],
)
def test_a_profile_that_begins_in_a_call_has_the_next_one_and_none_after_it(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, module = devmod.device("opencl"), devmod.compile(SOURCE, "opencl")
    steps = ["add(x=x, v=1, threads=n)", "add(x=x, v=1, threads=n - 1)"]
    functions = {
        "kernel": module["add"],
        "program": devmod.program("p", module, updates=["x: float32[n]"], steps=steps)["p"],
    }
    x, kernel, stack, p = (
        device.zeros(64, "float32"),
        type(functions["kernel"].open(device)),
        ExitStack(),
        devmod.profile(),
    )
    cases: dict[str, tuple[str, Any, int, Callable[[], Any]]] = {
        "a call": ("kernel", (Function, "keep_caller"), 1, lambda f: f(x, 1.0, threads=64)),
        "a call with a host array": (
            "kernel",
            (Function, "keep_caller"),
            1,
            lambda f: f(np.zeros(64, "float32"), 1.0, threads=64),
        ),
        "a program": ("program", (kernel, "caller"), 2, lambda f: f(x)),
        "a prepared launch": (
            "kernel",
            (kernel, "prepare"),
            1,
            lambda f: f.bind(x, 1.0, threads=64),
        ),
        "a prepared program": ("program", (kernel, "prepare"), 2, lambda f: f.bind(x)),
    }
    name, (owner, method), number, call = cases[made]
    function, original, calls = functions[name], getattr(owner, method), iter(range(1, 99))

    def begins(*args: Any) -> Any:
        if next(calls) == number:  # as in another thread
            stack.enter_context(p)
        return original(*args)

    monkeypatch.setattr(owner, method, begins)
    result = call(function)
    repeat = result if isinstance(result, Launch) else lambda: call(function)
    count = sum(each.action == "launch" for each in p.records)
    with stack:
        repeat()
    assert sum(each.action == "launch" for each in p.records) - count == (
        2 if made == "a program" else 1
    )
    length = len(p.records)
    repeat()
    assert len(p.records) == length


@pytest.mark.parametrize("called_before", [False, True])
def test_a_profile_has_the_launches_of_a_program_of_several_modules(called_before: bool) -> None:
    steps, x = ["add(x=x, v=1, threads=n)"], devmod.device("opencl").zeros(64, "float32")
    modules = [
        devmod.program(
            "p", devmod.compile(SOURCE, "opencl"), updates=["x: float32[n]"], steps=steps
        )
        for _ in range(2)
    ]
    if called_before:
        for module in modules:
            module["p"](x)
    function = devmod.bundle(*modules)["p"]
    function(x)
    with devmod.profile() as p:
        function(x)
    assert [each.name for each in p.records if each.action in ("launch", "call")] == ["p: add", "p"]


def test_a_launch_that_is_prepared_while_a_profile_begins_is_recorded() -> None:
    p, stack = devmod.profile(), ExitStack()

    class Number(float):
        @property
        def nbytes(self) -> int:
            if waiting:  # the first profile asks it
                stack.enter_context(waiting.pop())
            return 0

    waiting = [p]
    with devmod.profile(), stack:
        launch = devmod.compile(SOURCE, "opencl")["add"].bind(
            devmod.device("opencl").zeros(64, "float32"), Number(1), threads=64
        )
        launch()
    assert [each.action for each in p.records if each.action == "launch"] == ["launch"]


def test_a_guard_that_begins_in_a_call_finds_the_next_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = devmod.compile("__kernel void put(__global char *x, int at) { x[at] = 1; }", "opencl")[
        "put"
    ]
    device, stack, original = devmod.device("opencl"), ExitStack(), Function.keep_caller
    x = device.zeros(128, "int8")
    monkeypatch.setattr(
        Function,
        "keep_caller",
        lambda *args: (stack.enter_context(devmod.guard()), original(*args)),
    )
    put(x, 1, threads=1)
    monkeypatch.undo()
    with stack:
        for at in (129, 1, 129):  # no call is kept for the next one
            with pytest.raises(devmod.GuardError) if at > 128 else nullcontext():
                put(device.zeros(128, "int8"), at, threads=1)


def test_a_call_has_no_frame_of_an_observer_that_has_ended() -> None:
    device, module = devmod.device("opencl"), devmod.compile(SOURCE, "opencl")
    add, x, h = module["add"], device.zeros(64, "float32"), np.zeros(64, "float32")
    program = devmod.program(
        "p", module, updates=["x: float32[n]"], steps=["add(x=x, v=1, threads=n)"] * 2
    )["p"].on(device)
    launch, prepared = add.bind(x, 1.0, threads=64), program.bind(x)
    calls = (
        lambda: add(x, 1.0, threads=64),
        lambda: add(h, 1.0, threads=64),
        launch,
        lambda: program(x),
        lambda: program(h),
        prepared,
    )

    def fewest(call: Callable[[], object]) -> int:
        for _ in range(4):
            call()
        # A call after one that took long waits for its end first, and a wait of more than 10 µs is
        # another thread's.
        return min(len(frames(call)) for _ in range(20))

    before = [fewest(each) for each in calls]
    with devmod.guard(), devmod.profile() as p:
        during = [fewest(each) for each in calls]
    assert sum(each.action == "call" for each in p.records) == 4 * 24
    assert all(one < two for one, two in zip(before, during, strict=True))
    assert all(
        after <= one for after, one in zip([fewest(each) for each in calls], before, strict=True)
    )


def test_a_profile_is_used_once() -> None:
    with devmod.profile() as p:
        pass
    with pytest.raises(devmod.ArgumentError) as caught, p:
        pass
    assert str(caught.value) == "a profile is used once: call devmod.profile() again"
    assert p.table() == "  device  count  host  device  GB/s"


def test_launches_of_threads_in_one_stream_are_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = adding()
    device = devmod.device("opencl")
    launches = [add.bind(device.zeros(64, "float32"), 1.0, threads=64) for _ in range(4)]
    for each in launches:
        each()
    device.synchronize()
    record = type(device.default_stream).record

    def record_slowly(stream: Any) -> Any:
        event = record(stream)
        sleep(0.005)  # for the other threads
        return event

    monkeypatch.setattr(type(device.default_stream), "record", record_slowly)
    with devmod.profile() as p:
        threads = [threading.Thread(target=each) for each in launches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        device.synchronize()
    seconds = max(each.start + each.host for each in p.records)
    times = [each.on_device or 0 for each in p.records if each.action == "launch"]
    assert len(times) == 4
    assert sum(times) <= seconds * 1.01


def test_each_stream_has_its_track(tmp_path: Path) -> None:
    add = adding()
    device = devmod.device("opencl")
    x, streams = device.zeros(64, "float32"), [device.default_stream, device.stream()]
    with devmod.profile() as p:
        for _ in range(3):
            for each in streams:
                add(x, 1.0, threads=64, stream=each)
    p.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [each["args"]["name"] for each in events if each["name"] == "thread_name"] == [
        "opencl:0",
        "opencl:0, stream 2",
    ]
    assert [each["tid"] for each in events if each["ph"] == "X" and each["pid"] == 2] == [1, 2] * 3


def test_a_queue_without_time_stamps_leaves_those_of_others() -> None:
    cl = pytest.importorskip("pyopencl")
    add = adding()
    device: Any = devmod.device("opencl")
    x, queue = device.zeros(64, "float32"), cl.CommandQueue(device.context, device.handle)
    with devmod.profile() as p:
        for each in (queue, None, queue, None):
            add(x, 1.0, threads=64, stream=each)
    assert [each.on_device is not None for each in p.records if each.action == "launch"] == [
        False,
        True,
        False,
        True,
    ]


def test_the_bytes_of_a_launch_are_those_of_its_arrays() -> None:
    source = "__kernel void f(__global float *x, __global float *y, float a, __local float *l) { x[0] = a; l[0] = y[0]; }"
    f = devmod.compile(source, "opencl")["f"]
    x = devmod.device("opencl").zeros(4096, "float32")
    host = np.zeros(100, "float32")
    with devmod.profile() as p:
        f(x, x, np.float32(1), devmod.Local(4096), threads=1, block=1)  # one array, counted once
        f.bind(x[:1024], x[2048:], 1.0, devmod.Local(per_thread=4), threads=1, block=1)()
        f(host, np.zeros(6, "float32")[::2], 1.0, devmod.Local(4), threads=1, block=1)
    assert [each.nbytes for each in p.records if each.action == "launch"] == [
        16384,
        4096 + 8192,
        400 + 12,
    ]


def test_a_queued_copy_without_times_of_the_device_has_no_rate() -> None:
    device = devmod.device("opencl")
    x, y, host = (
        device.zeros(1 << 16, "float32"),
        device.zeros(1 << 16, "float32"),
        np.zeros(1 << 16, "float32"),
    )
    for device_times in (True, False):
        with devmod.profile(device_times=device_times) as p:
            y.copy_from(x, wait=False)
            y.copy_from(host, wait=False)
            y.copy_to(host)
        copies = {
            each.name: each.on_device is not None for each in p.records if each.action == "copy"
        }
        assert copies == {
            "copy on the device": device_times,
            "queued copy to the device": device_times,
            "copy to the host": False,
        }
        title, *rows = p.table().splitlines()
        with_rate = {
            row[: title.index("  device")].strip() for row in rows if len(row) == len(title)
        }
        assert with_rate == ({*copies} if device_times else {"copy to the host"})


def test_each_device_has_its_clock(tmp_path: Path) -> None:
    devices = devmod.devices("opencl")
    if len(devices) < 2:
        pytest.skip("one OpenCL device")
    add = adding()
    pairs = [(add.on(each), each.zeros(64, "float32")) for each in devices]
    with devmod.profile() as p:
        for _ in range(5):
            for function, x in pairs:
                function(x, 1.0, threads=64)
                x.numpy()
    p.save(tmp_path / "trace.json")
    events = [
        each
        for each in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        if each.get("cat") == "launch"
    ]
    queued = [each["ts"] for each in events if each["pid"] == 1]
    starts = [each["ts"] for each in events if each["pid"] == 2]
    ends = [each["ts"] + each["dur"] for each in events if each["pid"] == 2]
    assert len(queued) == len(starts) == 5 * len(devices)
    assert all(at <= start + 1 for at, start in zip(queued, starts, strict=True)), (queued, starts)
    # The host waited for each before it queued the next.
    assert all(end <= at + 1 for end, at in some(zip(ends, queued[1:], strict=False))), (
        ends,
        queued,
    )
