"""Interrupts by the thousand (docs/reliability.md): each process raises KeyboardInterrupt at random
places while arrays come and go.

``DEVMOD_TEST_INTERRUPTS=20000`` sets the interrupts of each process, and
``DEVMOD_TEST_INTERRUPTS_SEEDS=10`` the processes of each kind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import standin_cuda
import standin_rocm
from backend_checks import first_device
from interruptible import interruptible_python

import devmod

INTERRUPTS = int(os.environ.get("DEVMOD_TEST_INTERRUPTS", "200"))
SEEDS = range(1, 1 + int(os.environ.get("DEVMOD_TEST_INTERRUPTS_SEEDS", "2")))
#: Seconds after which a process hangs.
HANGS = 600 + INTERRUPTS
#: Seconds after which a first use hangs. The stacks of all threads are then printed.
IMPORT_HANGS = 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals that come at a set time are POSIX's")
@pytest.mark.volume_but("opencl-1", "webgpu-1", "cuda with ctypes-1")
@pytest.mark.row("R32", "R34")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "kind",
    [
        "opencl",
        "vulkan",
        "webgpu",
        "metal",
        "hexagon",
        "host",
        "cuda with ctypes",
        "cuda with pycuda",
        "rocm",
    ],
)
def test_interrupts_leave_arrays_streams_and_locks_whole(
    kind: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, _, driver = kind.partition(" with ")
    environment = dict(os.environ)
    if kind == "rocm":
        standin_rocm.needs_emulator()
        if "DEVMOD_TEST_INTERRUPTS" not in os.environ:
            pytest.skip(
                "make interrupts runs it: the emulator is slow, and the handles are those of CUDA"
            )
        environment |= standin_rocm.ROCM.environment()
    elif driver:
        reason = standin_cuda.missing_driver(driver)
        if reason:
            pytest.skip(reason)
        environment |= {
            **standin_cuda.CUDA.environment(),
            **standin_cuda.CUDA.driver_variables(driver),
        }
    if kind in ("opencl", "vulkan", "webgpu", "hexagon"):
        try:
            devmod.device(kind)
        except devmod.DeviceNotFoundError as error:
            pytest.skip(str(error))
    command = [
        sys.executable,
        str(Path(__file__).with_name("interrupts.py")),
        kind,
        str(seed),
        str(INTERRUPTS),
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with capsys.disabled():
        if "DEVMOD_TEST_INTERRUPTS" in os.environ:
            print(f"\n{done.stdout.strip()}")


INTERRUPTED_IMPORT = """
import _imp, faulthandler, sys
from _thread import get_ident
faulthandler.dump_traceback_later(int(sys.argv[3]), exit=True)
import devmod, numpy
kind, place = sys.argv[1:3]
sys.unraisablehook = lambda _: None  # the interrupt of a callback is lost
acquire, main = _imp.acquire_lock, get_ident()

def interrupt():
    acquire()
    if sys._getframe(1).f_code.co_name == place and get_ident() == main:
        _imp.acquire_lock = acquire
        raise KeyboardInterrupt

_imp.acquire_lock = interrupt
try:
    devmod.device(kind)
except KeyboardInterrupt:
    assert _imp.lock_held()
assert _imp.acquire_lock is acquire
print(devmod.device(kind).kind)
"""


@pytest.mark.row("R37", "R61")
@pytest.mark.parametrize("place", ["_get_module_lock", "__enter__", "cb"])
@pytest.mark.parametrize("kind", ["opencl", "vulkan", "webgpu", "hexagon"])
def test_a_first_use_works_after_an_interrupt_that_left_the_import_lock_held(
    kind: str, place: str
) -> None:
    """CPython may raise KeyboardInterrupt between the acquisition and importlib's ``try``. In the
    callback of a weak reference, `cb`, it is lost: then the first use itself must work.
    """
    first_device(kind)
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, kind, place, str(IMPORT_HANGS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{kind}\n", done.stderr


#: Kernels that run for many seconds. lavapipe ends a loop after 65,535 rounds, so many threads run.
SLOW = {
    "opencl": """kernel void slow(global float *y) {
  for (int i = 0; i < 2000000; i++) for (int j = 0; j < 10000; j++) y[0] = y[0] * 0.9f + 1; }""",
    "vulkan": """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer Y { float y[]; };
void main() { float a = y[0]; for (int i = 0; i < 60000; i++) a = a * 0.9 + 1; y[gl_LocalInvocationID.x] = a; }""",
    "webgpu": """@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn slow(@builtin(local_invocation_id) id: vec3u) {
  var a = y[0]; for (var i = 0; i < 60000; i++) { a = a * 0.9 + 1; } y[id.x] = a; }""",
}
#: The end of a program after the interrupt, and the exit code.
ENDS = {
    "exit": ("sys.exit(3)", 3),
    "error": ("raise ValueError", 1),
    "interrupt": ("raise", -signal.SIGINT),
}
INTERRUPTED = """
import os, signal, sys, threading, time
import devmod
from devmod_runtime import _uninterrupted
_uninterrupted._LAST_WAIT = 0.2  # the kernel takes a processor meanwhile

def interrupt():
    while not landed:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

kind, text, shape = sys.argv[1], sys.argv[2], {"threads": 64 << 13}
landed = []
options = {}
if kind == "opencl":
    shape = {"grid": 1, "block": 1}
elif kind == "vulkan":
    options = {"name": "slow"}
device = devmod.device(kind)
function = devmod.compile(text, kind, **options)["slow"].on(device)
y = device.zeros(64, "float32")
try:
    function(y, **shape)
    threading.Thread(target=interrupt, daemon=True).start()
    device.synchronize()
except KeyboardInterrupt:
    landed.append(True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent to the process")
@pytest.mark.row("R32")
@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("opencl", "error"),
        ("vulkan", "exit"),
        ("webgpu", "error"),
        ("webgpu", "interrupt"),
    ],
)
def test_a_process_that_was_interrupted_in_a_kernel_ends_with_its_code(kind: str, end: str) -> None:
    """The kernel runs on for longer than the end of Python waits."""
    first_device(kind)
    statement, code = ENDS[end]
    program = f"{INTERRUPTED}    {statement}\n"
    command = interruptible_python("-W", "ignore", "-c", program, kind, SLOW[kind])
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == code, done.stderr
