"""KeyboardInterrupt while a runner starts, calls and ends: no file is written to, no process and no
file is left, and no wait hangs.

`tests/test_interrupts.py` raises it at random places, and the kit's row R37-interrupts at random
moments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backend_checks import run_python

HERE = Path(__file__).resolve().parent
PRELUDE = (
    f"import sys; sys.path.insert(0, {str(HERE)!r})\nimport os, signal, threading, devmod, numpy as np\n"
    "from hexagon_kernels import module\ndevice = devmod.device('hexagon')\n"
)


def test_an_interrupt_ends_a_wait_and_not_the_kernel(device: Any) -> None:
    """Arrays keep their content. A time limit that is set later stops a kernel that does not
    end.
    """
    program = PRELUDE + (
        "import os, signal, threading\ndevice = devmod.device('hexagon')\narray, go = device.from_numpy(np.arange(3)), device.zeros(1, 'int32')\n"
        "def interrupt_wait():\n"
        "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    try:\n        device.synchronize()\n    except KeyboardInterrupt as error:\n        print(*error.__notes__)\n"
        "module()['wait_for'](go)\ninterrupt_wait()\n"
        "go.memory.runner.view(go.memory)[0] = 1\nprint(array.numpy(), go.numpy())\n"
        "module()['spin'](go)\ninterrupt_wait()\nos.environ['DEVMOD_HEXAGON_TIMEOUT'] = '0.3'\n"
        "try:\n    device.synchronize()\nexcept devmod.LaunchError as error:\n    print(error)\n"
        "print(device.zeros(1, 'int32').numpy())"
    )
    note = "the kernel continues. To stop it, set DEVMOD_HEXAGON_TIMEOUT to a number of seconds; the arrays of the device are then lost"
    assert run_python(program).splitlines() == [
        note,
        "[0 1 2] [1]",
        note,
        f"{device}: a kernel did not end within 0.3 seconds (DEVMOD_HEXAGON_TIMEOUT), so its runner was stopped. The next call starts a "
        "new runner; arrays of the old one are lost",
        "[0]",
    ]


@pytest.mark.row("R37", "R61")
def test_the_thread_of_a_runner_imports_after_an_interrupt_of_an_import(device: Any) -> None:
    """An interrupt may leave Python's import lock with the main thread, which waits for the
    runner.
    """
    program = PRELUDE + (
        "import _imp, faulthandler\nfaulthandler.dump_traceback_later(60, exit=True)\n"
        "_imp.acquire_lock()\nprint(device.zeros(1, 'int32').numpy())"
    )
    assert run_python(program) == "[0]\n"


ENDING = (
    PRELUDE
    + """
import subprocess, tempfile
os.environ["DEVMOD_HEXAGON_TIMEOUT"] = "0.3"
spin, add, x = module()["spin"], module()["add"], device.zeros(1, "int32")
end = subprocess.Popen.wait

def wait(process, timeout=None):
    subprocess.Popen.wait = end
    os.kill(os.getpid(), signal.SIGINT)
    return end(process, timeout)

subprocess.Popen.wait = wait
try:
    spin(x)
    device.synchronize()
except KeyboardInterrupt:
    print("interrupted")
with tempfile.TemporaryDirectory() as folder:
    files = [open(f"{folder}/{number}", "w+b", buffering=0) for number in range(8)]
    for _ in range(3):
        try:
            x = device.zeros(4, "float32")
            add(x, x, x, 4)
            print(x.numpy())
        except devmod.LaunchError as error:
            print("its runner was stopped" in str(error))
    print([os.path.getsize(file.name) for file in files])
"""
)


@pytest.mark.row("R37")
def test_an_interrupt_of_the_end_of_a_runner_writes_to_no_other_file(device: Any) -> None:
    printed = run_python(ENDING).splitlines()
    assert printed[0] == "interrupted"
    assert printed[-2:] == ["[0. 0. 0. 0.]", str([0] * 8)]
    assert set(printed[1:-1]) <= {"True", "[0. 0. 0. 0.]"}


STARTS = (
    PRELUDE
    + """
import random, time
chosen, landed, armed = random.Random(1), 0, False

def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)

def children():
    return open(f"/proc/self/task/{os.getpid()}/children").read().split()

device.zeros(1, "int32")
device.runner().close()
while len(children()) > 1:  # the process that guards the next runner
    time.sleep(0.1)
opened = len(os.listdir("/proc/self/fd"))

def start():
    global armed
    armed = True
    signal.setitimer(signal.ITIMER_REAL, chosen.uniform(1e-6, 0.06))
    device.zeros(4, "int32")
    armed = False
    device.runner().close()

while landed < 30:
    try:
        start()
    except KeyboardInterrupt:
        landed += 1
signal.setitimer(signal.ITIMER_REAL, 0)
device.zeros(1, "int32")
device.runner().close()
for _ in range(1200):  # until the thread of the runner has ended
    left = children()[1:], len(os.listdir("/proc/self/fd")) - opened
    if left == ([], 0):
        break
    time.sleep(0.1)
print(*left)
"""
)


@pytest.mark.row("R37")
def test_interrupts_of_the_start_leave_no_process_and_no_file(device: Any) -> None:
    assert run_python(STARTS) == "[] 0\n"
