"""The call on real devices: names, threads, default and chosen blocks, defaults of local memory,
the current stream.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import raised, some
from interruptible import HANGS, interruptible_python

import devmod
from devmod import Local

SOURCE = """
__kernel void axpy(__global const float *x, __global float *y, float alpha, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] += alpha * x[i];
}
__kernel void threads(__global int *size, __global int *count)
{
    if (get_global_id(0) == 0 && get_global_id(1) == 0) { size[0] = get_local_size(0); size[1] = get_local_size(1); }
    atomic_inc(count);
}
__kernel void sum(__global const float *x, __global float *out, __local float *scratch, int n)
{
    int t = get_local_id(0), width = get_local_size(0);
    float total = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) total += x[i];
    scratch[t] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t) return;
    for (int i = 1; i < width; i++) total += scratch[i];
    out[get_group_id(0)] = total;
}
"""


@pytest.fixture
def module(device: Any) -> Any:
    return devmod.compile(
        SOURCE, "opencl", block={"axpy": 32}, local={"scratch": Local(per_thread=4)}
    )


def test_no_call_after_the_first_makes_a_kernel_object(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither to ask for the preferred block, nor where the arguments are checked again: the
    strided array is.
    """
    f = devmod.compile(SOURCE, "opencl")["axpy"]
    x, y = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    arguments = [(x, y), (x.data, y.data), (np.arange(128, dtype="float32")[::2], y)]
    for first, second in arguments:
        f(first, second, 1.0, 64, threads=64)
    made = []
    monkeypatch.setattr("devmod_opencl._launch.call_uninterrupted", lambda *args: made.append(args))
    for first, second in arguments * 3:
        f(first, second, 1.0, 64, threads=64)
    assert not made
    assert y.tolist() == (4 * (2 * x + arguments[2][0])).tolist()


@pytest.mark.row("R35")
def test_the_device_chooses_an_open_block(device: Any) -> None:
    found = devmod.compile(SOURCE, "opencl")
    functions = {}
    for name, info in found.functions.items():
        assert info.interface is not None
        functions[name] = devmod.FunctionInfo(
            info.name,
            info.arg_types,
            info.launch_param_tags,
            (),
            info.interface.replace(open_block=name != "sum"),
        )
    f = devmod.create("opencl", SOURCE.encode(), "cl", functions)["threads"]
    for threads in (1, 7, 100000, (1000, 1000), (3, 500)):
        size, count = np.zeros(2, "int32"), np.zeros(1, "int32")
        f(size, count, threads=threads)
        config = f.launch_config(threads=threads)
        assert config.block[:2] == tuple(size)
        assert config.block[2] == 1
        x, y, _ = (blocks * each for blocks, each in zip(config.grid, config.block, strict=True))
        wanted = (*threads, 1)[:2] if isinstance(threads, tuple) else (threads, 1)
        assert count[0] == x * y
        assert all(
            0 <= given - least < each
            for given, least, each in some(zip((x, y), wanted, config.block, strict=False))
        )
        assert config.block[0] * config.block[1] <= device.limits["max_work_group_size"]
    assert f.launch_config(threads=1).block == (1, 1, 1)


@pytest.mark.row("R34")
@pytest.mark.parametrize("block", [1, 8, 64])
def test_the_default_of_a_local_parameter_follows_the_block(
    block: int, module: Any, device: Any
) -> None:
    x = np.arange(1000, dtype="float32")
    out = np.zeros(4, "float32")
    for _ in range(2):
        module["sum"](x, out, 1000, grid=4, block=block)
        assert out.sum() == x.sum()
        module["sum"](x, out, 1000, scratch=Local(4 * block), grid=4, block=block)
        assert out.sum() == x.sum()
    a, b = device.from_numpy(x), device.empty(4, "float32")
    module["sum"].bind(n=1000, x=a, out=b, grid=4, block=block)()
    assert b.numpy().sum() == x.sum()


@pytest.mark.row("R34")
def test_a_default_that_the_device_cannot_give_is_named(device: Any) -> None:
    f = devmod.compile(SOURCE, "opencl", local={"scratch": Local(per_thread=1 << 30)})["sum"]
    out = np.zeros(1, "float32")
    error = raised(devmod.LaunchError, f, np.ones(8, "float32"), out, 8, grid=1, block=8)
    assert str(error) == (
        f"the opencl function 'sum' cannot be launched on {device}: its local_mem_size is {device.limits['local_mem_size']}, got "
        f"devmod.Local arguments of {8 << 30} bytes; argument 3 'scratch' takes {8 << 30} bytes by default, Local(per_thread={1 << 30}) with 8 "
        "threads in a block: give it by name, or a smaller block="
    )
    assert error.argument == "scratch"


@pytest.mark.filterwarnings(
    "ignore:Non-empty compiler output"
)  # of the kernels that pyopencl.array builds
def test_arrays_of_pyopencl_in_the_current_stream(module: Any, device: Any) -> None:
    cl_array = pytest.importorskip("pyopencl.array")
    import pyopencl as cl

    queue = cl.CommandQueue(device.default_stream.queue.context)
    x, y = cl_array.zeros(queue, 1 << 16, "float32"), cl_array.zeros(queue, 1 << 16, "float32")
    x += 1
    with device.stream():
        module["axpy"](x, y, 2.0, 1 << 16, threads=1 << 16)
        y += 1
        module["axpy"](x, y, 2.0, 1 << 16, threads=1 << 16)
    np.testing.assert_array_equal(y.get(), np.full(1 << 16, 5, "float32"))


def test_the_docstring_has_the_origin_and_the_candidates(module: Any) -> None:
    for each in (module, devmod.loads(devmod.dumps(module)), devmod.bundle(module)):
        lines = (each["axpy"].__doc__ or "").splitlines()
        assert lines[:7] == [
            "The opencl kernel axpy.",
            "",
            "Parameters",
            "----------",
            "x : float32* r",
            "y : float32* rw",
            "alpha : float32",
        ]
        assert lines[lines.index("Launch") + 2] == "    threads= or grid=; default block 32×1×1"
        assert lines[lines.index("Origin") + 2].startswith("    target 'opencl', libclang ")
        assert lines[-1] == "    from '<text>'"
    assert "Variants\n--------\n    opencl/cl\n" in (devmod.bundle(module)["axpy"].__doc__ or "")


#: Waits for a kernel that never ends, and ends at once after the interrupt: a runtime may wait for
#: the kernel at its own end.
ENDLESS = """
import os, signal, sys, threading
import numpy as np, devmod
device = devmod.device("opencl")
module = devmod.load(sys.argv[1])
endless, program = (module[name].on(device) for name in ("endless", "program"))
host = np.zeros(64, "int32")
x = device.from_numpy(host)
endless(x, 0, threads=64)  # it is built, and ends
device.synchronize()
waits = {
    "stream": device.default_stream.synchronize,
    "event": lambda: device.default_stream.record().synchronize(),
    "array": x.numpy,
    "time": lambda: endless.bind(x, 1, threads=64).time(),
    "host array": lambda: endless(host, 1, grid=1, block=64),
    "host array again": lambda: endless(host, 1, grid=1, block=64),
    "program": lambda: program(1, host),
    "program again": lambda: program(1, host),
}
if sys.argv[2] == "program again":
    program(0, host)
if sys.argv[2] == "host array again":
    endless(host, 0, grid=1, block=64)
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    if sys.argv[2] in ("stream", "event", "array"):
        endless(x, 1, threads=64)
    waits[sys.argv[2]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent to the process")
@pytest.mark.parametrize(
    "what",
    [
        "stream",
        pytest.param("event", marks=pytest.mark.volume),
        "array",
        "time",
        "host array",
        "host array again",
        "program",
        "program again",
    ],
)
def test_an_interrupt_ends_the_wait_for_a_kernel_that_never_ends(
    what: str, device: Any, tmp_path: Path
) -> None:
    source = "kernel void endless(global volatile int *x, int on) { while (on && x[0] == 0) { } x[1] = 1; }"
    steps = ["endless(x=x, on=on, grid=1, block=64)"]
    program = devmod.program(
        "program",
        devmod.compile(source, "opencl"),
        inputs=["on: int32"],
        updates=["x: int32[n]"],
        steps=steps,
    )
    devmod.save(program, file := tmp_path / "endless.devmod")
    done = subprocess.run(
        interruptible_python("-W", "ignore", "-c", ENDLESS, str(file), what),
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
