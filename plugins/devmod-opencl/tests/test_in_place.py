"""Host arrays that kernels use where they are: what is true of a call with copies stays true."""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_programs
from backend_checks import first_device, run_python
from interruptible import HANGS, interruptible_python

import devmod
from devmod.testing import assert_kernel
from devmod_opencl import devices
from devmod_workbench._cli import main

SOURCE = """
kernel void twice(global const float *x, global float *y) { int i = get_global_id(0); y[i] = 2 * x[i]; }
kernel void sum(global const float *x, global const float *y, global float *z) { int i = get_global_id(0); z[i] = x[i] + y[i]; }
kernel void wide(global const float16 *x, global float16 *y) { int i = get_global_id(0); y[i] = 2 * x[i]; }
kernel void cast(global const float *x, global float *y) { int i = get_global_id(0); ((global float8 *)y)[i] = 2 * ((global float8 *)x)[i]; }
kernel void past(global float *y, int n) { y[get_global_id(0) + n] = 1; }
kernel void wait(global volatile float *x) { while (x[0] == 0) { } x[1] = 3; }
kernel void hold(global const float *x, global volatile float *y) { y[1] = 5; while (y[0] == 0) { } y[2] = x[0]; }
kernel void slow(global float *x, int n) { float a = 1; for (int i = 0; i < n; i++) a = a * 1.0001f + x[0]; x[0] = a > 0 ? 0 : a; }
"""
#: More than the bytes from which on arrays are used where they are.
N = 1 << 18


@pytest.fixture(scope="module")
def module() -> Any:
    return devmod.compile(SOURCE, "opencl")


OVERWRITES = """
import numpy as np, devmod
f = devmod.compile("kernel void fill(global float *x) { x[get_global_id(0)] = 7; }", "opencl")["fill"]
for size in (1000, 1 << 20):
    whole = devmod.empty(2 * size, "float32")
    whole[:] = 0
    for _ in range(20):
        with devmod.profile() as profile:
            f(whole[:size], threads=size + 8)
    copies = sum(each.action == "copy" for each in profile.records)
    print(copies, (whole[:size] == 7).all(), whole[size:].any())
"""


@pytest.mark.usefixtures("device")
def test_a_write_behind_a_copied_array_reaches_no_memory_of_the_program() -> None:
    """The environment variable decides that all arrays are copied."""
    assert run_python(OVERWRITES, DEVMOD_IN_PLACE="False") == "2 True False\n" * 2


@pytest.fixture
def kernels(device: Any, module: Any) -> Any:
    return {name: module[name].on(device) for name in module.functions}


def ones(offset: int = 0, count: int = N) -> np.ndarray[Any, Any]:
    """Return an array of ones that begins so many bytes behind a page."""
    array: np.ndarray[Any, Any] = devmod.empty(4 * count + offset, "uint8")[offset:].view("float32")
    array[:] = 1
    return array


def copies(call: Any) -> list[int]:
    """Return the bytes of each copy of a call."""
    with devmod.profile() as profile:
        call()
    return [each.nbytes for each in profile.records if each.action == "copy"]


def test_a_large_array_of_empty_is_not_copied(kernels: Any) -> None:
    x, y = ones(), ones()
    for _ in range(3):
        assert copies(lambda: kernels["twice"](x, y, threads=N)) == []
        assert (y == 2).all()
        y[:] = 1
    assert copies(lambda: kernels["twice"](x[::2], y, threads=N // 2)) == [
        2 * N
    ]  # a strided array is
    small = ones(count=64)
    assert copies(lambda: kernels["twice"](small, small.copy(), threads=64)) == [256, 256, 256]


VECTORS = f"""
import sys, numpy as np, devmod
for device in devmod.devices("opencl"):
    for name, width in (("wide", 16), ("cast", 8)):
        f = devmod.load(sys.argv[1])[name].on(device)
        for offset in (0, 4, 16, 64, 128):
            x, y = (devmod.empty({4 * N} + offset, "uint8")[offset:].view("float32") for _ in range(2))
            x[:], y[:] = 1, 0
            plain = np.zeros({N} + 1, "float32")[1:]
            print(device.index, name, offset, flush=True)
            for out in (y, plain):
                f(x, out, threads={N} // width)
                assert (out == 2).all()
"""


def test_vectors_in_arrays_that_begin_anywhere(tmp_path: Path, module: Any) -> None:
    """A driver may take any address for one of a multiple of its vectors' size, and end the
    process. The last line is the case that did.
    """
    devmod.save(module, file := tmp_path / "kernels.devmod")
    done = subprocess.run(
        interruptible_python("-W", "ignore", "-c", VECTORS, str(file)),
        capture_output=True,
        text=True,
        env={**os.environ, "DEVMOD_OPENCL_POCL_CPU": "1"},
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    cases = itertools.product(devices(), ("wide", "cast"), (0, 4, 16, 64, 128))
    expected = [f"{device.index} {name} {offset}" for device, name, offset in cases]
    assert done.stdout.splitlines() == expected


@pytest.mark.row("R20")
def test_a_read_only_array_is_never_written(kernels: Any, tmp_path: Path) -> None:
    ones().tofile(tmp_path / "ones")
    x, y = np.memmap(tmp_path / "ones", "float32", "r"), ones()
    assert copies(lambda: kernels["twice"](x, y, threads=N)) == []
    assert (y == 2).all()
    with pytest.raises(devmod.ArgumentError, match="is read-only, and the kernel may write to it"):
        kernels["twice"](y, x, threads=N)
    assert (x == 1).all()


def test_overlaps_are_copied(kernels: Any) -> None:
    x, z = ones(count=2 * N), ones()
    x[:] = np.arange(2 * N)
    first, second = x[:N], x[32 : 32 + N]
    assert copies(lambda: kernels["sum"](first, second, z, threads=N)) == [4 * N]  # one of them
    assert (z == first + second).all()
    # It is one object of the driver.
    assert copies(lambda: kernels["sum"](first, first, z, threads=N)) == []
    assert (z == 2 * first).all()
    with pytest.raises(
        devmod.ArgumentError, match="overlaps argument 1 'x', and the kernel writes to one of them"
    ):
        kernels["sum"](first, first, second, threads=N)


def test_an_array_of_a_call_in_flight_is_copied(device: Any, kernels: Any) -> None:
    flag, y = ones(), ones()
    flag[:] = 0
    thread = threading.Thread(
        target=lambda: kernels["wait"](flag, grid=1, block=1, stream=device.stream())
    )
    thread.start()
    while not copies(lambda: kernels["twice"](flag, y, threads=N, stream=device.stream())):
        assert thread.is_alive()
    flag[0] = 1  # the kernel sees it, and ends
    thread.join()
    assert (flag[:2] == [1, 3]).all()
    assert copies(lambda: kernels["twice"](flag, y, threads=N)) == []
    assert (y[:2] == [2, 6]).all()


#: The begin of a process: a call that an interrupt ends while its kernel runs, in which the arrays
#: are used where they are. The kernel ends when `release` has been called.
HELD = """
import ctypes, functools, gc, os, signal, sys, threading, time, weakref
import numpy as np, devmod

def array_of(first):
    result = devmod.empty(1 << 20, "uint8").view("float32")
    result[:] = first
    return result

def interrupt(y):
    while y[1] != 5:  # the kernel has not begun
        time.sleep(0.01)
    while not caught:  # an interrupt in a finalizer is lost
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

file, name, when, device = sys.argv[1:]
f = devmod.load(file)[name].on(devmod.device("opencl", int(device)))
x, y = array_of(7), array_of(1)
shape = {} if name == "program" else {"grid": 1, "block": 1}
if when == "again":
    f(x, y, **shape)
x, y = array_of(7), array_of(0)
used = [weakref.ref(each) for each in (x, x.base, y, y.base)]
address, one = y.ctypes.data, np.ones(1, "float32")
signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # LLVM's handler may wait for a lock of the kernel
release = functools.partial(ctypes.memmove, address, one.ctypes.data, 4)
caught = []
threading.Thread(target=interrupt, args=(y[:2],), daemon=True).start()
try:
    f(x, y, **shape)
except KeyboardInterrupt as error:
    caught.append(True)
    print(*error.__notes__, flush=True)
"""
FREED = """
del x, y
gc.collect()
print([each() is not None for each in used], flush=True)
release()
while any(each() is not None for each in used):
    time.sleep(0.01)
print("freed", flush=True)
os._exit(0)
"""
#: The kernel ends when Python does not wait for it any more, and deletes its objects.
RELEASED = """
class Last:
    def __del__(self, release=release, sleep=time.sleep):
        release()
        sleep(0.5)

sys.last = Last()
del x, y
sys.exit(3)
"""
NOTE = (
    "a kernel of this call may still run, and write to the call's arrays; devmod keeps them until "
    "it has ended"
)


@pytest.fixture
def held(module: Any, tmp_path: Path) -> Any:
    """Return the function that executes `HELD` and a program after it, with the name of the
    function, "first" or "again", and a device's number.
    """
    program = devmod.program(
        "program",
        module,
        inputs=["x: float32[n]"],
        updates=["y: float32[n]"],
        steps=["hold(x=x, y=y, grid=1, block=1)"],
    )
    devmod.save(program, file := tmp_path / "kernels.devmod")

    def run(text: str, name: str, when: str, index: int) -> tuple[int, list[str], str]:
        first_device("opencl")
        device = devices()[index].index
        command = ["-W", "ignore", "-c", HELD + text, str(file), name, when, str(device)]
        done = subprocess.run(
            interruptible_python(*command),
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    return run


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent to the process")
@pytest.mark.parametrize(
    ("name", "when", "index"), [("hold", "again", 0), ("program", "first", -1)]
)
def test_an_interrupted_call_keeps_its_arrays_until_the_kernel_has_ended(
    name: str, when: str, index: int, held: Any
) -> None:
    """Those that it reads, and those that it writes."""
    code, lines, errors = held(FREED, name, when, index)
    assert (code, lines) == (0, [NOTE, "[True, True, True, True]", "freed"]), errors


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent to the process")
@pytest.mark.parametrize("index", [0, -1])
def test_a_kernel_that_ends_with_python_does_not_end_the_process(index: int, held: Any) -> None:
    """A thread that waits in the driver's code then comes back to a Python that ends."""
    code, lines, errors = held(RELEASED, "hold", "first", index)
    assert (code, lines) == (3, [NOTE]), errors


@pytest.fixture
def program(device: Any, module: Any) -> Any:
    steps = ["slow(x=t, n=turns, grid=1, block=1)", "twice(x=x, y=y, threads=n)"]
    return devmod.program(
        "program",
        module,
        inputs=["x: float32[n]", "turns: int32"],
        updates=["t: float32[1]"],
        outputs=["y: float32[n]"],
        steps=steps,
    )["program"].on(device)


def test_a_program_that_returns_before_its_kernels_copies_its_arrays(
    device: Any, program: Any
) -> None:
    x, t, y = ones(), device.zeros(1, "float32"), device.empty(N, "float32")
    program(x, 1, t, y=y)
    for _ in range(2):
        program(x, 200_000_000, t, y=y)
        assert device.default_stream.record().handle.command_execution_status > 0  # it runs
        x[:] = 5
        assert (y.numpy() == 2).all()
        x[:] = 1


def test_the_outputs_of_a_program_are_not_copied(program: Any) -> None:
    x, t = ones(), np.zeros(1, "float32")
    assert copies(lambda: program(x, 1, t)) == [4, 4]
    results = [program(x, 1, t) for _ in range(3)]
    assert all((each == 2).all() and each.flags.writeable for each in results)
    assert not np.may_share_memory(results[0], results[1])
    assert copies(lambda: program(x, 1, t, y=results[0])) == [4, 4]


def test_tools_that_judge_use_memory_of_their_own(kernels: Any) -> None:
    y = ones()
    with (
        devmod.guard(),
        pytest.raises(devmod.GuardError, match="has written outside of argument 1 'y'"),
    ):
        kernels["past"](y, N - 4, threads=8)


def test_a_guard_of_a_program_uses_memory_of_its_own(device: Any, module: Any) -> None:
    steps = ["past(y=y, n=shift, threads=8)"]
    program = devmod.program(
        "program", module, inputs=["shift: int32"], updates=["y: float32[n]"], steps=steps
    )["program"].on(device)
    with (
        devmod.guard(),
        pytest.raises(devmod.GuardError, match="has written outside of argument 1 'y'"),
    ):
        program(N - 4, ones())


OUTSIDE = "the opencl function 'past' has written outside of argument 1 'y': y[262144] is 1.0"


def test_run_with_a_guard_finds_a_write_outside(
    device: Any, module: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devmod.save(module, file := str(tmp_path / "kernels.devmod"))
    words = [file, "past", f"y=zeros[{N}]", f"n={N - 4}", "--threads", "8"]
    assert main(["run", *words, "--guard"]) == 1
    assert OUTSIDE in capsys.readouterr().err
    assert main(["verify", *words]) == 1
    assert OUTSIDE in capsys.readouterr().out


def test_assert_kernel_finds_a_write_outside(kernels: Any) -> None:
    case = {"y": ones(), "n": N - 4, "threads": 8}
    with pytest.raises(devmod.GuardError, match=re.escape(OUTSIDE)):
        assert_kernel(kernels["past"], lambda y, n: y, [case])


def test_arrays_are_copied_where_the_device_is_told_so(
    kernels: Any, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copies(lambda: kernels["twice"](ones(), ones(), threads=N)) == []
    monkeypatch.setattr(device, "in_place_from", math.inf)
    assert copies(lambda: kernels["twice"](ones(), ones(), threads=N)) == [4 * N] * 3


@pytest.fixture
def everywhere(device: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device, which uses arrays of each size where they are."""
    monkeypatch.setattr(device, "in_place_from", 1, raising=False)
    return device


def test_random_programs(everywhere: Any) -> None:
    random_programs.check(everywhere, "few")


CALLS_IN_A_HANDLER = """
import signal, sys
import devmod
f = devmod.load(sys.argv[1])["twice"]
f.open(f.default_device())
devmod.device("opencl").in_place_from = 1
x, y, z = (devmod.empty(64, "float32") for _ in range(3))
x[:] = 1
calls = []

def handle(*_):
    f(x, z, grid=64, block=1)
    calls.append((z == 2).all())

signal.signal(signal.SIGALRM, handle)
while len(calls) < 100:
    signal.setitimer(signal.ITIMER_REAL, 1e-6 + 1e-6 * (len(calls) % 50))
    f(x, y, grid=64, block=1)
signal.setitimer(signal.ITIMER_REAL, 0)
assert all(calls) and (y == 2).all()
"""


@pytest.mark.skipif(os.name != "posix", reason="timers are POSIX's")
def test_the_handler_of_a_signal_may_call(device: Any, module: Any, tmp_path: Path) -> None:
    devmod.save(module, file := tmp_path / "kernels.devmod")
    command = interruptible_python("-W", "ignore", "-c", CALLS_IN_A_HANDLER, str(file))
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr


def test_calls_at_random(everywhere: Any, kernels: Any) -> None:
    """Views, strides, overlaps, read-only arrays and threads: the results are NumPy's."""

    def run(seed: int) -> None:
        rng, stream = np.random.default_rng(seed), everywhere.stream()
        memory = [ones(int(rng.integers(0, 2)) * 4, 4096) for _ in range(2)]
        for _ in range(50):
            count = int(rng.integers(1, 1000))
            arrays = []
            for _ in range(3):
                start, step = (
                    int(rng.integers(0, 1000)) * int(rng.integers(1, 3)),
                    int(rng.integers(1, 3)),
                )
                arrays.append(memory[int(rng.integers(0, 2))][start : start + count * step : step])
            *inputs, out = arrays
            memory[0][:], memory[1][:] = rng.random(4096), rng.random(4096)
            if any(np.shares_memory(each, out) for each in inputs):
                out = np.zeros(count, "float32")
            inputs[0].flags.writeable = bool(rng.integers(0, 2))
            expected = inputs[0] + inputs[1]
            kernels["sum"](*inputs, out, grid=count, block=1, stream=stream)
            assert (out == expected).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
