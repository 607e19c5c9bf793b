"""Forks (docs/reliability.md): what a child may do with what its parent has opened, and how it
ends; and launches at the interpreter's exit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import devmod

HERE = str(Path(__file__).parent)
REFUSED = (
    "{kind} devices cannot be used in this process: it was forked after their driver was opened, and a driver works only in the process "
    "that opened it. Start processes that use devices with multiprocessing's 'spawn' or 'forkserver'"
)
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")


def run(program: str, kind: str, code: int = 0) -> str:
    """What a program prints; its exit status is looked at too."""
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {HERE!r}); KIND = {kind!r}\n{program}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    noise = "error: XDG_RUNTIME_DIR is invalid or not set in the environment.\n"
    assert done.stderr.replace(noise, "") == ""
    return done.stdout


@pytest.fixture(params=["opencl", "vulkan", "webgpu"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind with a driver and a device."""
    try:
        devmod.device(request.param)
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))
    return str(request.param)


USED = """
import os, signal, threading, time, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
import numpy as np, devmod
from bump import module_of
module = module_of(KIND)
function, device = module["bump"], devmod.device(KIND)
array = device.from_numpy(np.zeros(64, "uint32"))
function(array, grid=1, block=64)
launch = function.bind(array, grid=1, block=64)
launch()
stream = device.stream()
event = stream.record()
host = np.zeros(64, "uint32")
image, sampler = device.image((4, 4), "r32float"), device.sampler()
busy, done = function.bind(device.zeros(64, "uint32"), grid=1, block=64), threading.Event()
may_go = threading.Event()

def keep_going():
    while may_go.wait() and not done.is_set():
        busy()
        device.synchronize()

threads = [threading.Thread(target=keep_going, daemon=True) for _ in range(2)]
for each in threads:
    each.start()

def refused():
    return (
        lambda: function(array, grid=1, block=64), launch, launch.time, lambda: function(host, grid=1, block=64),
        lambda: function.bind(array, grid=1, block=64), array.numpy, lambda: device.empty(4, "uint32"), lambda: device.from_numpy(host),
        lambda: array.copy_from(host), lambda: array.copy_to(host), lambda: array[8:24].numpy(), lambda: device.zeros(4, "uint32"),
        device.stream, device.synchronize, device.default_stream.synchronize, stream.record, lambda: stream.wait(event), event.synchronize,
        lambda: module_of(KIND)["bump"], lambda: devmod.loads(module.save_to_bytes() and devmod.dumps(module))["bump"],
        image.numpy, lambda: device.image(4, "r32float"), device.sampler, lambda: device.sampler(filter="linear"),
    )

def allowed():
    assert module.inspect_source() is not None and list(module.functions) == ["bump"]
    assert list(devmod.loads(devmod.dumps(module)).functions) == ["bump"]
    assert module_of(KIND).save_to_bytes() == module.save_to_bytes()
    assert repr(device) and devmod.device(KIND) is device

for deletes in (True, False):
    may_go.set()
    time.sleep(0.05)
    child = os.fork()
    if not child:
        signal.alarm(300)
        said = []
        for each in refused():
            try: each(); said.append(f"{each} was done")
            except devmod.LaunchError as error: said.append(str(error))
        allowed()
        print(*dict.fromkeys(said), sep="|", flush=True)
        if deletes:
            del function, launch, busy, array, stream, event, image, sampler, each
            device._once._values.clear()  # the driver's device
        sys.exit(3)  # with all that runs at the end
    may_go.clear()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
done.set()
may_go.set()
for each in threads:
    each.join()
launch()
print(array.numpy().tolist() == [3] * 64)
"""


@posix
@pytest.mark.row("R32")
def test_a_child_of_a_process_that_used_a_driver_is_refused_and_ends_well(kind: str) -> None:
    assert run(USED, kind) == f"{REFUSED.format(kind=kind)}\n" * 2 + "True\n"


EVENT = """
import os, sys, warnings
warnings.simplefilter("ignore")
import devmod
event = devmod.device("opencl").default_stream.record()
before = sys.getrefcount(event)
child = os.fork()
if not child:
    os._exit(sys.getrefcount(event) - before)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sys.getrefcount(event) - before)
"""


@posix
def test_a_child_deletes_no_event_of_opencl() -> None:
    """PoCL's threads may have had the lock that the deletion needs."""
    assert run(EVENT, "opencl") == "1 0\n"


LISTED = """
import os, signal, warnings
warnings.simplefilter("ignore")
import devmod
from bump import module_of
devmod.device(KIND)
child = os.fork()
if not child:
    signal.alarm(300)
    try: print(module_of(KIND)["bump"])
    except devmod.LaunchError as error: print(error)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.volume_but("opencl", "vulkan")
@posix
def test_a_driver_is_open_once_its_devices_are_listed(kind: str) -> None:
    assert run(LISTED, kind) == f"{REFUSED.format(kind=kind)}\n3\n"


FIRST_USE = """
import os, signal, threading, warnings
warnings.simplefilter("ignore")
import devmod
from importlib import import_module
from bump import module_of
driver = import_module(f"devmod_{KIND}._driver")
name = {"opencl": "list_devices", "vulkan": "_make_instance", "webgpu": "adapters"}[KIND]
real, begun, end = getattr(driver, name), threading.Event(), threading.Event()
def slow():
    if KIND == "vulkan":
        found = real()
    begun.set()
    end.wait()
    return found if KIND == "vulkan" else real()
setattr(driver, name, slow)
thread = threading.Thread(target=lambda: devmod.device(KIND))
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(300)
    try: print(devmod.device(KIND))
    except devmod.LaunchError as error: print(error)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
end.set()
thread.join()
"""


@pytest.mark.volume_but("opencl")
@posix
@pytest.mark.row("R32")
def test_a_fork_in_the_middle_of_another_threads_first_use(kind: str) -> None:
    assert run(FIRST_USE, kind) == f"{REFUSED.format(kind=kind)}\n3\n"


CLEAN = """
import os, signal
import devmod
from bump import module_of
module = module_of(KIND)
data = devmod.dumps(module)
child = os.fork()
if not child:
    signal.alarm(300)
    import numpy as np
    array = np.zeros(64, "uint32")
    devmod.loads(data)["bump"](array, grid=1, block=64)
    print(array.tolist() == [1] * 64, flush=True)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.volume_but("opencl")
@posix
def test_a_child_of_a_process_that_used_no_driver_may_use_it(kind: str) -> None:
    assert run(CLEAN, kind) == "True\n3\n"


AT_EXIT = """
import numpy as np, devmod
from bump import module_of
class User:
    def __init__(self):
        self.function, self.device = module_of(KIND)["bump"], devmod.device(KIND)
        self.array = self.device.from_numpy(np.zeros(64, "uint32"))
        self.zeros = np.zeros(64, "uint32")
        self.me = self
    def __del__(self, print=print, closed=devmod.LaunchError):
        for call in (lambda: self.function(self.array, grid=1, block=64),
                     lambda: self.function(self.zeros, grid=1, block=64),
                     lambda: self.function.bind(self.array, grid=1, block=64)(),
                     lambda: self.array.numpy()):
            try: call(); print("done")
            except closed as error: print("closed" if "is closed: the interpreter is shutting down" in str(error) else error)
user = User()
"""


@pytest.mark.volume_but("opencl", "vulkan")
@pytest.mark.row("R34")
def test_a_finalizer_may_launch_at_the_interpreters_exit(kind: str) -> None:
    closed = {"opencl": (2,)}.get(kind, range(4))
    assert run(AT_EXIT, kind).split() == [
        "closed" if number in closed else "done" for number in range(4)
    ]


COPYING = """
import os, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
import numpy as np, devmod
from bump import module_of
function, device = module_of(KIND)["bump"], devmod.device(KIND)
size = 1 << 20
array, host = device.from_numpy(np.zeros(size, "uint32")), np.zeros(size, "uint32")
events = []
for _ in range(20):
    function(array, grid=size // 64, block=64)
    events.append(array.copy_to(host, wait=False))
    array.copy_from(np.ones(size, "uint32"), wait=False)
child = os.fork()
if not child:
    try:
        array.copy_to(host)
    except devmod.LaunchError:
        raise SystemExit(9)
    raise SystemExit(1)
_, status = os.waitpid(child, 0)
events[-1].synchronize()
print(os.waitstatus_to_exitcode(status), sorted({*host.tolist()}), sorted({*array.numpy().tolist()}))
"""


@pytest.mark.volume_but("opencl")
@posix
@pytest.mark.row("R37")
def test_a_fork_while_copies_run(kind: str) -> None:
    """The child refuses copies and ends, and those of the parent are done."""
    assert run(COPYING, kind) == "9 [2] [1]\n"
