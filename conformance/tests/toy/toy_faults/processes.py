"""Faults of processes: what an import does, the driver, forks, interrupts, crashes and hangs."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import threading
import time
from importlib import import_module
from importlib.machinery import ModuleSpec

import devmod_toy._entries as entries
from devmod_toy._device import ToyDevice, driver
from devmod_toy._module import ToyKernel, ToyModule

import devmod
from devmod_runtime import open_driver
from toy_faults._fault import at_import, replaces

INTERRUPTED = " An interrupt may come after every call in Python: …"
MISSING = "DeviceNotFoundError: the toy's driver is missing. To add it: pip install toydriver"

# -- imports


@at_import(
    "R1-keys",
    "R11",
    "R38-saved",
    reason="PluginError: devmod.create.toy is broken: devmod-toy 1.0: importing devmod_toy._entries failed (OSError: libtoy.so.1 is not "
    "there). Install it again (pip install --force-reinstall devmod-toy==1.0), or report it to its publisher",
    own_process=True,
)
def raising_import():
    """The import raises."""
    raise OSError("libtoy.so.1 is not there")


@at_import("R6", "R23-lazy", reason="the look-up of devmod.create imports toydriver")
def eager_import():
    """The package imports the driver."""
    import toydriver

    assert toydriver


class Parts:
    """A finder of modules of the driver."""

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name.startswith("toydriver.") else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pass


@at_import(
    "R6",
    reason="the look-up of devmod.create imports toydriver; imports toydriver.part_0; imports toydriver.part_1; and 198 more",
)
def imports_much():
    """The package imports a driver with many modules."""
    import toydriver

    toydriver.__path__ = []
    sys.meta_path.append(Parts())
    for number in range(200):
        __import__(f"toydriver.part_{number}")


@at_import("R39", reason="the look-up of devmod.create does socket.getaddrinfo(127.0.0.1, …")
def network():
    """The import accesses the network."""
    socket.getaddrinfo("127.0.0.1", 80)


@at_import("R8", reason="a process that used the backend prints an error at exit: …")
def loud_exit():
    """A handler at exit raises."""

    @atexit.register
    def close():
        raise RuntimeError("the context is gone already")


# -- the driver


@replaces(ToyModule, "__init__", "R23-lazy", reason="create fails without the driver: " + MISSING)
def eager_create(before, self, *args, **keywords):
    """Creating a module opens the driver."""
    before(self, *args, **keywords)
    driver()


@replaces(
    ToyModule,
    "get_function",
    "R23-lazy",
    reason="get_function of an unknown name fails without the driver: " + MISSING,
)
def eager_unknown(before, self, name, query_imports=False):
    """get_function opens the driver before it checks the name."""
    driver()
    return before(self, name, query_imports)


@replaces(
    ToyModule,
    "launcher",
    "R23-absent",
    reason="get_function of sample 1 without the driver: expected DeviceNotFoundError, got ModuleNotFoundError: No module named 'toydriver'",
)
def driver_error(before, self, name, info):
    """A missing driver raises Python's ModuleNotFoundError."""
    import toydriver

    assert toydriver
    return before(self, name, info)


@replaces(
    ToyModule,
    "launcher",
    "R23-absent",
    reason="the error of get_function of sample 1 without the driver does not name what to install: 'no toy driver'",
)
def no_remedy(before, self, name, info):
    """The error for a missing driver does not name what to install."""
    try:
        return before(self, name, info)
    except devmod.DeviceNotFoundError:
        raise devmod.DeviceNotFoundError("no toy driver", kind="toy") from None


# -- forks


@at_import(
    "R37-forks",
    reason="a child of a process that has used the backend: expected exit status 87, but it ends with exit status 3",
)
def forks_exit_status():
    """A handler at exit ends a forked child with another status."""
    parent = os.getpid()

    @atexit.register
    def close():
        if os.getpid() != parent:
            os._exit(3)


OPENED: set[int] = set()


@replaces(
    ToyKernel,
    "caller",
    "R37-forks",
    reason="a child of a process that has used the backend hangs. Call devmod_runtime.open_driver before the driver's first call, and "
    "check_driver in each method of a device, stream or event that calls the driver",
    timeout=6,
)
def forks_hang(before, self, stream, shape):
    """A forked child waits for a thread of its parent."""
    enqueue = before(self, stream, shape)

    def call(values):
        OPENED.add(os.getpid())
        if len(OPENED) > 1:
            time.sleep(1000)
        return enqueue(values)

    return call


@replaces(
    entries,
    "devices",
    "R37-forks",
    reason="Device.empty, Device.from_numpy, Device.zeros, Array.numpy, Device.stream, Device.synchronize, Stream.synchronize, "
    "Stream.record, Stream.wait, Event.synchronize, in a child of a process that has "
    "used the backend: expected LaunchError, but no error was raised; call devmod_runtime.check_driver there",
)
def forks_unchecked(before):
    """It calls open_driver, and its devices do not call check_driver."""
    open_driver("toy")
    return before()


@replaces(
    ToyKernel,
    "caller",
    "R37-forks",
    reason="a call of a function of the parent, in a child of a process that has used the backend, raises RuntimeError: the context is of "
    "another process. Call devmod_runtime.open_driver before the driver's first call",
)
def forks_unsafe(before, self, stream, shape):
    """Its driver works only in the process that opened it, and open_driver is not called."""
    enqueue = before(self, stream, shape)

    def call(values):
        OPENED.add(os.getpid())
        if len(OPENED) > 1:
            raise RuntimeError("the context is of another process")
        return enqueue(values)

    return call


# -- interrupts


@replaces(
    ToyDevice,
    "write",
    "R37-interrupts",
    reason="after KeyboardInterrupt at random moments, … more open files are left." + INTERRUPTED,
)
def interrupted_file(before, self, memory, data, stream):
    """A copy leaves its files open if an interrupt comes."""
    files = os.pipe()
    time.sleep(0.005)
    before(self, memory, data, stream)
    for each in files:
        os.close(each)


RUNNING = []


@replaces(
    ToyKernel,
    "caller",
    "R37-interrupts",
    reason="…, called after KeyboardInterrupt at random moments, raises AssertionError: … is wrong in …",
)
def interrupted_launch(before, self, stream, shape):
    """After an interrupt of a launch, the next one does not run."""
    call = before(self, stream, shape)

    def call_alone(values):
        if RUNNING:
            RUNNING.clear()
            return
        RUNNING.append(True)
        time.sleep(0.005)
        call(values)
        RUNNING.clear()

    return call_alone


LOCK = threading.Lock()


@replaces(
    ToyDevice,
    "write",
    "R37-interrupts",
    reason="after KeyboardInterrupt at random moments a use of the backend hangs." + INTERRUPTED,
    timeout=2,
)
def interrupted_lock(before, self, memory, data, stream):
    """A copy leaves its lock held if an interrupt comes."""
    LOCK.acquire()
    time.sleep(0.005)
    before(self, memory, data, stream)
    LOCK.release()


AT = "after KeyboardInterrupt in {}, at … of … (…): {}"


@replaces(
    ToyDevice,
    "synchronize",
    "R61",
    reason=AT.format("a copy", "the process hangs." + INTERRUPTED),
    timeout=15,
)
def interrupted_wait(before, self):
    """A wait leaves its lock held if an interrupt comes at one place."""
    LOCK.acquire()
    try:
        before(self)
    finally:
        LOCK.release()


@replaces(
    entries,
    "devices",
    "R61",
    reason=AT.format("the first device", "the process hangs." + INTERRUPTED),
    timeout=9,
)
def interrupted_import(before):
    """The driver is imported in another thread, which waits for ever for the import lock that an
    interrupt has left with this one.
    """
    sys.modules.pop("toydriver", None)
    thread = threading.Thread(target=__import__, args=("toydriver",), daemon=True)
    thread.start()
    thread.join()
    return before()


@replaces(
    entries,
    "devices",
    "R61",
    reason=AT.format(
        "the first device",
        "a use raises RuntimeError: the toy is being opened already." + INTERRUPTED,
    ),
)
def interrupted_opening(before):
    """After an interrupt at one place, the second first use raises."""
    if not LOCK.acquire(blocking=False):
        raise RuntimeError("the toy is being opened already")
    try:
        return before()
    finally:
        LOCK.release()


BUILDING = []


@replaces(
    ToyModule,
    "launcher",
    "R61",
    reason=AT.format(
        "a load",
        "a use raises RuntimeError: a build has begun already." + INTERRUPTED,
    ),
)
def interrupted_build(before, self, name, info):
    """A build that an interrupt ends has begun for ever. It imports its compiler, at many places of
    other packages.
    """
    if BUILDING:
        raise RuntimeError("a build has begun already")
    BUILDING.append(True)
    import_module("asyncio")
    launcher = before(self, name, info)
    BUILDING.clear()
    return launcher


# -- crashes and hangs


def crash_process():
    """End this process with SIGSEGV."""
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


@replaces(
    entries,
    "load_from_bytes",
    "R19-refused",
    reason="loading damaged bytes (fmt is None): the process ends with signal 11",
)
def crash(before, data):
    """Damaged bytes end the process."""
    try:
        return before(data)
    except devmod.FormatError:
        crash_process()
        raise


@replaces(
    entries,
    "load_from_bytes",
    "R19-refused",
    reason="loading damaged bytes (fmt is None): the process does not end",
    timeout=2,
)
def hang(before, data):
    """load_from_bytes does not return for damaged bytes."""
    try:
        return before(data)
    except devmod.FormatError:
        time.sleep(1000)
        raise


@replaces(
    ToyKernel,
    "shape",
    "R37-host",
    "R34-invalid",
    "R37-bind",
    reason="the process that checks this row ends with signal 11",
    own_process=True,
)
def ends_in_call(before, self, launch):
    """A call ends the process; the rows without calls still run."""
    crash_process()


@replaces(
    ToyKernel,
    "shape",
    "R37-host",
    reason="the process that checks this row does not end",
    own_process=True,
    timeout=2,
)
def hangs_in_call(before, self, launch):
    """A call does not return."""
    time.sleep(1000)
