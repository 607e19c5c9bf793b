"""Checks of whole programs: through the driver, a command, Python and pytest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import pytest

from devmod_simulators import UnavailableError, libcuda

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
KERNEL = """extern "C" __global__ void twice(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] = x[i] * 2;
}
"""
NO_LAUNCH = "devmod-simulators: nothing was checked: no launch ran to its end\n"
BEGIN = f"""
import ctypes, sys
import numpy as np
from cuda.bindings import driver as cuda, nvrtc
def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) == 2 else result[1:]
check(cuda.cuInit(0))
check(cuda.cuCtxSetCurrent(check(cuda.cuDevicePrimaryCtxRetain(check(cuda.cuDeviceGet(0))))))
def load(source, name):
    program = check(nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
    ptx = bytearray(check(nvrtc.nvrtcGetCUBINSize(program)))
    check(nvrtc.nvrtcGetCUBIN(program, ptx))
    return check(cuda.cuModuleGetFunction(check(cuda.cuModuleLoadData(bytes(ptx))), name))
def twice():
    return load({KERNEL!r}, b"twice")
def launch(function, *values, grid=1, block=32, stream=0):
    kinds = tuple(ctypes.c_int if isinstance(value, int) else ctypes.c_void_p for value in values)
    check(cuda.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, (tuple(map(int, values)), kinds), 0))
"""


@pytest.fixture(autouse=True)
def _built() -> None:
    try:
        libcuda.build()
    except UnavailableError as error:
        pytest.skip(str(error))


def start(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder to its end, with environment variables."""
    how: Any = {"cwd": folder, "env": os.environ | variables, "timeout": 120}
    if words[:2] == ("-m", "devmod"):
        return forked.python(*words, **how)
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def run(folder: Path, program: str, checks: str = "", *, exits: int = 1) -> str:
    """Run a program with checks and return the reports."""
    (folder / "app.py").write_text(BEGIN + program + "\ncheck(cuda.cuCtxSynchronize())\n")
    option = f"--sanitize={checks}" if checks else "--sanitize"
    done = start(folder, "-m", "devmod", "simulate", option, "--", sys.executable, "app.py")
    assert done.returncode == exits, done.stderr
    return done.stderr


def line(program: str, mark: str) -> int:
    """Return the line of the program that has a mark."""
    return 1 + (BEGIN + program).split("\n").index(
        next(each for each in (BEGIN + program).split("\n") if mark in each)
    )


def test_a_write_out_of_bounds(tmp_path: Path) -> None:
    program = """
x = check(cuda.cuMemAlloc(4004))
y = check(cuda.cuMemAlloc(4000))  # here
check(cuda.cuMemsetD8(x, 0, 4004))
launch(twice(), x, y, 1000, grid=4, block=256)
check(cuda.cuCtxSynchronize())
check(cuda.cuMemFree(x)), check(cuda.cuMemFree(y))
"""
    assert run(tmp_path, program) == (
        "out of bounds (write): k.cu:5  y[i] = x[i] * 2;\n"
        "  block (3, 0, 0), thread (232, 0, 0): 4 bytes at y[1000]; y is float32[1000] of argument 2 ('y'), "
        f"allocated at app.py:{line(program, '# here')}\n"
        "devmod-simulators: 1 report\n"
    )


def test_memory_that_was_freed_and_memory_that_was_not(tmp_path: Path) -> None:
    program = """
x = check(cuda.cuMemAlloc(132))  # x
y = check(cuda.cuMemAlloc(128))  # y
check(cuda.cuMemFree(x))  # freed
launch(twice(), x, y, 31)
"""
    assert run(tmp_path, program, "all") == (
        "use after free (read): k.cu:5  y[i] = x[i] * 2;\n"
        "  block (0, 0, 0), thread (0, 0, 0): 4 bytes at x[0]; x was float32[33] of argument 1 ('x'), "
        f"allocated at app.py:{line(program, '# x')}, freed at app.py:{line(program, '# freed')}\n"
        "  31 more threads at this line\n"
        f"leak: 128 bytes, allocated at app.py:{line(program, '# y')}\n"
        "devmod-simulators: 2 reports\n"
    )


@pytest.mark.parametrize(
    ("fill", "found"),
    [
        ("", "depends on x[0], which nothing wrote"),
        (
            "check(cuda.cuMemsetD32(x, 1, 16))",
            "thread (16, 0, 0): depends on x[16], which nothing wrote",
        ),
        ("check(cuda.cuMemsetD32(x, 1, 33))", ""),
        ("check(cuda.cuMemcpyHtoD(x, np.zeros(33, np.float32).ctypes.data, 132))", ""),
        (
            "z = check(cuda.cuMemAlloc(132)); check(cuda.cuMemcpyDtoD(x, z, 132))",
            "depends on x[0], which has a copy of memory that nothing wrote",
        ),
        ("x = check(cuda.cuMemAllocManaged(132, 1))", ""),
    ],
)
def test_values_that_the_host_wrote(tmp_path: Path, fill: str, found: str) -> None:
    program = f"""
x, y = check(cuda.cuMemAlloc(132)), check(cuda.cuMemAlloc(128))
{fill}
launch(twice(), x, y, 31)
"""
    text = run(tmp_path, program, "bounds,init", exits=int(bool(found)))
    assert found in text
    assert bool(found) == ("uninitialised (stored result): k.cu:5" in text)


def test_without_faults_the_exit_status_is_the_commands(tmp_path: Path) -> None:
    launched = """
x, y = check(cuda.cuMemAlloc(128)), check(cuda.cuMemAlloc(128))
check(cuda.cuMemsetD8(x, 0, 128))
launch(twice(), x, y, 31)
check(cuda.cuCtxSynchronize())
sys.exit(3)
"""
    assert run(tmp_path, launched, exits=3) == "devmod-simulators: 0 reports\n"


@pytest.mark.row("R59")
def test_without_a_launch_there_is_no_number_of_reports(tmp_path: Path) -> None:
    """Of a program that launches nothing, and of a kernel that cannot be launched."""
    assert run(tmp_path, "sys.exit(3)", exits=3) == NO_LAUNCH
    (tmp_path / "twice.cu").write_text(KERNEL)
    done = start(tmp_path, "-m", "devmod", "run", "twice.cu", "--sanitize", "twice", "n=1")
    assert done.returncode == 1
    first, rest = done.stderr.split("\n", 1)
    assert "is missing arguments: 'x', 'y'" in first
    assert rest == NO_LAUNCH


def test_an_unknown_check(tmp_path: Path) -> None:
    assert (
        "'speed' is no check; there are bounds, align, free, leak, race, sync, init, and the options"
        in run(tmp_path, "", "speed")
    )


PYTHON = f"""
import numpy as np, devmod, devmod_simulators
MODULE = devmod.compile({KERNEL!r}, "cuda -arch=compute_90")
def work(n):
    x, y = np.ones(101, np.float32), np.ones(100, np.float32)
    MODULE["twice"](x, y, n, grid=1, block=128)
    return y
"""


def test_an_error_in_python(tmp_path: Path) -> None:
    """Bodies may overlap, as those of two threads do: the checks end with the last one. An
    interrupt stays one.
    """
    program = f"""{PYTHON.replace("MODULE =", "with devmod_simulators.sanitize(): MODULE =")}
import os
with devmod_simulators.sanitize():
    assert work(99)[99] == 2
try:
    with devmod_simulators.sanitize("bounds"):
        work(100)
except devmod.LaunchError as error:
    print(type(error).__name__, error.function, error.argument, error.index, error.block, error.thread, error.source, len(error.reports))
try:
    with devmod_simulators.sanitize():
        work(100)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    one, other = devmod_simulators.sanitize("bounds"), devmod_simulators.sanitize("race")
    one.__enter__(), other.__enter__()
    for body in one, other:
        body.__exit__(None, None, None)
        print(os.environ["DEVMOD_STANDIN_SANITIZE"])
"""
    assert (
        start(tmp_path, "-c", program).stdout
        == "SanitizeError twice y 100 (0, 0, 0) (100, 0, 0) <text>:5  y[i] = x[i] * 2; 1\nrace\n\n"
    )


def test_work_that_waits_at_the_end(tmp_path: Path) -> None:
    """The work of a process that ends without a wait, and of a body in a context that is not the
    primary one, is checked; a fork has none of it.
    """
    program = f"""
import devmod_simulators, os
check(cuda.cuCtxCreate(None, 0, 0))
function = load({KERNEL!r}, b"twice")
x, y = check(cuda.cuMemAlloc(132)), check(cuda.cuMemAlloc(132))
launch(function, x, y, 32, block=64)
if not os.fork():
    sys.exit()
os.wait()
try:
    with devmod_simulators.sanitize("bounds"):
        launch(function, x, y, 33, block=64)
except devmod_simulators.SanitizeError as error:
    print("caught", error.index, file=sys.stderr)
launch(function, x, y, 34, block=64)
"""
    *found, count = [
        line for line in run(tmp_path, program, "bounds,leak").splitlines() if line[0] != " "
    ]
    faults = ["out of bounds (read)", "out of bounds (write)"]
    assert [line.partition(":")[0] for line in found] == [
        "caught 33",
        *faults,
        *faults,
        "leak",
    ]
    assert count == "devmod-simulators: 6 reports"  # those of the body too


def test_a_kernel_that_does_not_end_when_the_program_has_ended(tmp_path: Path) -> None:
    source = 'extern "C" __global__ void wait(volatile int *x) { while (!*x); }'
    program = f"""
x = check(cuda.cuMemAlloc(4))
check(cuda.cuMemsetD32(x, 0, 1))
check(cuda.cuCtxSynchronize())
launch(load({source!r}, b"wait"), x)
"""
    (tmp_path / "app.py").write_text(BEGIN + program)
    command = ["-m", "devmod", "simulate", "--sanitize=race", "--", sys.executable, "app.py"]
    # On a slow machine the program ends after work without a call has begun.
    done = start(tmp_path, *command, DEVMOD_STANDIN_IDLE_MS="0")
    assert (
        "wait: the kernel does not end: its threads have waited for others for 6 s, the limit at "
        "the end of a program, less than DEVMOD_STANDIN_KERNEL_SECONDS sets (0 for no limit), "
        "kernel wait, block (0, 0, 0), thread (0, 0, 0)"
    ) in done.stderr


TESTS = f"""{PYTHON}
import pytest, subprocess, sys

def test_wrong():
    work(100)

@pytest.fixture
def wrong():
    work(100)

def test_with_a_wrong_fixture(wrong):
    pass

def test_in_another_process():
    subprocess.run([sys.executable, "-c", "import test_kernels; test_kernels.work(100)"], check=True)

def test_after():
    work(99)
"""


@pytest.mark.volume_but("-q")
@pytest.mark.parametrize("option", ["-q", "-n2", "-odevmod_sanitize=speed"])
def test_the_plugin_of_pytest(option: str, tmp_path: Path) -> None:
    (tmp_path / "test_kernels.py").write_text(TESTS)
    without = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:hypothesispytest")
    done = start(tmp_path, "-m", "pytest", option, *without, "--devmod-sanitize")
    found = (
        "ERROR: --devmod-sanitize: 'speed' is no check"
        if "speed" in option
        else "2 failed, 1 passed, 1 error in"
    )
    assert found in done.stdout + done.stderr


SILENT = f"""{PYTHON}
import contextlib, pytest, subprocess, sys
import devmod_simulators
STOP = 'extern "C" __global__ void stop(float *x) {{ __trap(); }}'

@pytest.fixture
def launch():
    work(99)

def test_with_a_launch_in_a_fixture(launch):
    pass

def test_with_a_launch_in_another_process():
    subprocess.run([sys.executable, "-c", "import test_kernels; test_kernels.work(99)"], check=True)

def test_with_a_launch_in_checks_of_its_own():
    with devmod_simulators.sanitize():
        work(99)

def test_without_a_launch():
    pass

def test_that_compiles_alone():
    devmod.compile(STOP, "cuda -arch=compute_90", language="CUDA C++")

def test_that_is_skipped():
    pytest.skip("no device")

@pytest.mark.xfail
def test_that_fails_as_expected():
    assert False

@pytest.mark.parametrize("i", range(2))
def test_each(i):
    pass

def test_with_a_launch_that_fails():
    with contextlib.suppress(devmod.LaunchError):
        devmod.compile(STOP, "cuda -arch=compute_90", language="CUDA C++")["stop"](np.zeros(1, "float32"), grid=1, block=1)
        devmod.device("cuda").synchronize()
"""


@pytest.mark.volume_but("-q")
@pytest.mark.parametrize("option", ["-q", "-v", "-n1", "below the command"])
def test_the_plugin_of_pytest_names_the_tests_in_which_nothing_was_checked(
    option: str, tmp_path: Path
) -> None:
    (tmp_path / "test_kernels.py").write_text(SILENT)
    words = [
        "-m",
        "pytest",
        *(f"-pno:{name}" for name in ("cacheprovider", "randomly", "hypothesispytest")),
    ]
    if option == "below the command":
        words = ["-m", "devmod", "simulate", "--sanitize", "--", sys.executable, *words]
    else:
        words += [option, "--devmod-sanitize"]
    done = start(tmp_path, *words)
    names = [
        *("test_kernels.py::test_each[0]", "test_kernels.py::test_each[1]"),
        *("test_kernels.py::test_that_compiles_alone", "and 2 more (-v)"),
    ]
    if option == "-v":
        names[3:] = [
            "test_kernels.py::test_that_fails_as_expected",
            "test_kernels.py::test_without_a_launch",
        ]
    assert (
        "3 of 9 tests had a launch that was checked\n"
        f"not checked: 5, no launch on the simulated GPU: {', '.join(names)}\n"
        "not checked: 1, no launch ran to its end: test_kernels.py::test_with_a_launch_that_fails\n"
    ) in done.stdout
    if option == "below the command":
        assert done.stderr.endswith("devmod-simulators: 0 reports\n"), done.stderr


WRONG = (
    "out of bounds (write): <text>:5  y[i] = x[i] * 2;\n"
    "  block (0, 0, 0), thread (100, 0, 0): 4 bytes at y[100]; y is float32[100] of argument 2 "
    "('y'), allocated at test_kernels.py:6\n"
)


@pytest.mark.volume_but("plugin")
@pytest.mark.parametrize(
    ("options", "result"),
    [
        ([], "2 failed, 1 passed, 1 error in"),
        (["-p", "no:devmod-simulators"], "1 failed, 3 passed in"),
    ],
    ids=["plugin", "no plugin"],
)
def test_pytest_below_the_command(options: list[str], result: str, tmp_path: Path) -> None:
    """The tests fail by themselves. What pytest hides is at the end of the command's output.

    A process with a report ends with 1.
    """
    (tmp_path / "test_kernels.py").write_text(TESTS)
    without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    pytest_words = [sys.executable, "-m", "pytest", "-q", *without, *options]
    done = start(tmp_path, "-m", "devmod", "simulate", "--sanitize", "--", *pytest_words)
    assert done.returncode == 1
    assert result in done.stdout
    assert done.stderr == f"{WRONG}  found 3 times\ndevmod-simulators: 3 reports\n"


@pytest.mark.volume_but
def test_a_source_that_run_compiles(tmp_path: Path) -> None:
    """It has the name that was given, and lines of the source, in a file of devmod too."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "twice.cu").write_text(f'#include "own.h"\n{KERNEL}'.replace("* 2", "* TWO"))
    (folder / "own.h").write_text("#define TWO 2\n")
    arguments = ["twice", "x=zeros[33]", "y=zeros[32]", "n=32", "--grid", "1", "--block", "33"]
    compiled = tmp_path / "twice.devmod"
    target = ("-t", "cuda -format=cuda", "-o", str(compiled))
    assert not start(folder, "-m", "devmod", "compile", "twice.cu", *target).returncode
    for source in (["twice.cu"], ["twice.cu", "-t", "cuda -arch=sm_80"], [str(compiled)]):
        done = start(folder, "-m", "devmod", "run", "--sanitize=bounds", *source, *arguments)
        assert done.stderr == (
            "out of bounds (write): twice.cu:6  y[i] = x[i] * TWO;\n"
            "  block (0, 0, 0), thread (32, 0, 0): 4 bytes at y[32]; y is float32[32] of argument "
            "2 ('y')\n"
            "devmod-simulators: 1 report\n"
        )
        assert done.returncode == 1


@pytest.mark.volume_but
def test_the_error_of_a_launch_has_its_place(tmp_path: Path) -> None:
    program = PYTHON.replace("-arch=compute_90", "-format=cuda") + (
        "try:\n    work(100)\nexcept devmod.LaunchError as error:\n    print(error)\n"
    )
    done = start(tmp_path, "-c", program, DEVMOD_CUDA_DRIVER="simulator")
    place = re.search(r"\((an illegal memory access .*, )PTX line \d+ \(", done.stdout)
    assert place is not None, done.stdout
    assert re.sub("0x[0-9a-f]+", "0x…", place[1]) == (
        "an illegal memory access was encountered: twice: write of 4 bytes at global address 0x… is "
        "out of bounds, kernel twice, block (0, 0, 0), thread (100, 0, 0), <text>:5, "
    )


def logged(folder: Path, name: str, check: str) -> dict[str, Any]:
    """Run a file with a check and return the report that it writes to a file."""
    log = folder / "log"
    assert not start(
        folder, name, **libcuda.environment(sanitize=check, sanitize_log=log)
    ).returncode
    (report,) = (json.loads(text) for text in log.read_text().splitlines())
    return dict(report)


def test_reports_in_a_file(tmp_path: Path) -> None:
    program = """
x, y = check(cuda.cuMemAlloc(132)), check(cuda.cuMemAlloc(128))
launch(twice(), x, y, 32, block=64)
check(cuda.cuCtxSynchronize())
"""
    (tmp_path / "app.py").write_text(
        BEGIN.replace("CUBIN", "PTX").replace("sm_90", "compute_90") + program
    )
    report = logged(tmp_path, "app.py", "bounds")
    assert report["source"].startswith("PTX line ")
    advice = "for the line of the source, compile with -lineinfo (numba: @cuda.jit(lineinfo=True))"
    assert report["text"].splitlines()[-1] == f"  {advice}"
    assert (
        report["check"],
        report["kind"],
        report["function"],
        report["block"],
        report["thread"],
        report["index"],
        report["threads"],
    ) == (
        "bounds",
        "out of bounds (write)",
        "twice",
        [0, 0, 0],
        [32, 0, 0],
        32,
        1,
    )


@pytest.mark.volume_but
@pytest.mark.parametrize("name", ['a "quoted" app.py', "a back\\slash.py", "a line\nbreak.py"])
def test_a_leak_in_a_file_with_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(BEGIN + "check(cuda.cuMemAlloc(132))")
    report = logged(tmp_path, name, "leak")
    line = len(BEGIN.splitlines()) + 1
    text = f"leak: 132 bytes, allocated at {name}:{line}"
    assert report == {"check": "leak", "kind": "leak", "text": text}


STREAMS = """
function = load('''extern "C" __global__ void fill(float *y, int value) { y[threadIdx.x] = value + threadIdx.x; }''', b"fill")
a, b = (check(cuda.cuStreamCreate(FLAGS)) for _ in range(2))
event = check(cuda.cuEventCreate(0))
y, z = check(cuda.cuMemAlloc(128)), check(cuda.cuMemAlloc(128))
pinned = check(cuda.cuMemHostAlloc(128, 0))
def kernel(stream, at=y, value=1):
    launch(function, at, value, stream=stream)
def copy(stream, at=y):
    check(cuda.cuMemcpyDtoHAsync(pinned, at, 128, stream))
def upload(stream, at=y):
    check(cuda.cuMemcpyHtoDAsync(at, pinned, 128, stream))
def clear(stream, at=y):
    check(cuda.cuMemsetD8Async(at, 0, 128, stream))
def move(stream):
    check(cuda.cuMemcpyDtoDAsync(z, y, 128, stream))
def record(stream):
    check(cuda.cuEventRecord(event, stream))
def wait(stream):
    check(cuda.cuStreamWaitEvent(stream, event, 0))
def sync(stream):
    check(cuda.cuStreamSynchronize(stream))
flag = check(cuda.cuMemAlloc(4))
check(cuda.cuMemsetD32(flag, 0, 1))
def post(stream):
    check(cuda.cuStreamWriteValue32(stream, flag, 1, 0))
def take(stream):
    check(cuda.cuStreamWaitValue32(stream, flag, 1, 1))
"""


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ("kernel(a); copy(b)", "race between streams (write and read)"),
        (
            "copy(a); kernel(b)",
            "(read and write): a copy or a fill of app.py:31\n  byte 0 of 128, allocated at app.py:26; the kernel",
        ),
        (
            "kernel(a); kernel(b, value=2)",
            "y[0]; the kernel fill of app.py:20, in another stream, writes it",
        ),
        ("clear(a); kernel(b)", "race between streams (write and write)"),
        ("kernel(a); clear(b)", "race between streams (write and write)"),
        ("upload(a); kernel(b)", "race between streams (write and write)"),
        ("copy(a); copy(b, z)", "race between streams (write and write)"),
        ("kernel(a); move(b)", "race between streams (write and read)"),
        ("record(a); kernel(a); wait(b); copy(b)", "race between streams"),
        ("kernel(a); record(a); wait(b); kernel(a, value=3); copy(b)", "race between streams"),
        ("kernel(a); record(b); wait(b); copy(b)", "race between streams"),
        ("kernel(a); sync(b); copy(b)", "race between streams"),
        ("kernel(a); kernel(0, z); copy(b)", "race between streams"),
        ("post(a); kernel(a); take(b); copy(b)", "race between streams"),
        ("kernel(a); record(a); wait(b); copy(b)", ""),
        ("kernel(a); post(a); take(b); copy(b)", ""),
        ("kernel(a); copy(a)", ""),
        ("kernel(a); sync(a); copy(b)", ""),
        ("kernel(a); check(cuda.cuCtxSynchronize()); copy(b)", ""),
        ("kernel(a); record(a); check(cuda.cuEventSynchronize(event)); copy(b)", ""),
        ("kernel(a); record(a)\nwhile cuda.cuEventQuery(event)[0]: pass\ncopy(b)", ""),
        ("kernel(a)\nwhile cuda.cuStreamQuery(a)[0]: pass\ncopy(b)", ""),
        ("kernel(a); record(a); sync(a); wait(b); copy(b)", ""),
        ("kernel(a); kernel(b, z); move(a) if FLAGS > 1 else None", ""),
        ("copy(a); copy(a, z); sync(a); copy(b)", ""),
        (
            "FLAGS = 0; kernel(c := check(cuda.cuStreamCreate(0))); kernel(0, z); copy(d := check(cuda.cuStreamCreate(0)))",
            "",
        ),
        (
            "kernel(a); record(a); wait(b); move(b); record(b); wait(a); clear(a); sync(a); kernel(b, z)",
            "",
        ),
        (
            "check(cuda.cuMemFree(z)); z = check(cuda.cuMemAlloc(128)); kernel(a, z); sync(a); kernel(b, z)",
            "",
        ),
    ],
)
def test_streams(tmp_path: Path, calls: str, found: str) -> None:
    program = (
        f"FLAGS = 1\n{STREAMS}\nclear(0); clear(0, z); check(cuda.cuCtxSynchronize())\n{calls}\n"
    )
    text = run(tmp_path, program, "race", exits=int(bool(found)))
    assert found in text
    assert ("race between streams" in text) == bool(found)
