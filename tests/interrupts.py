"""Arrays come and go and launches run while KeyboardInterrupt is raised at random places: one
process of `test_interrupts.py`.

usage: interrupts.py KIND SEED INTERRUPTS

It ends with a line of figures, or with AssertionError where a promise is broken.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import release_import_lock
from devmod_runtime import _fork
from devmod_runtime._device import in_place

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    "opencl": "__kernel void add(__global unsigned *y, __global const unsigned *x) { y[get_global_id(0)] += x[get_global_id(0)]; }",
    "vulkan": "#version 450\nlayout(local_size_x = 64) in;\nlayout(set = 0, binding = 0) buffer Y { uint y[]; };\n"
    "layout(set = 0, binding = 1) readonly buffer X { uint x[]; };\nvoid main() { y[gl_GlobalInvocationID.x] += x[gl_GlobalInvocationID.x]; }\n",
    "webgpu": "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
    "@group(0) @binding(1) var<storage, read> x: array<u32>;\n"
    "@compute @workgroup_size(64) fn add(@builtin(global_invocation_id) i: vec3<u32>) { y[i.x] += x[i.x]; }\n",
    "metal": "#include <metal_stdlib>\nusing namespace metal;\nkernel void add(device uint *y [[buffer(0)]], "
    "device const uint *x [[buffer(1)]], uint i [[thread_position_in_grid]]) { y[i] += x[i]; }\n",
    "cuda": 'extern "C" __global__ void add(unsigned *y, const unsigned *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] += x[i]; }\n',
    "rocm": 'extern "C" __global__ void add(unsigned *y, const unsigned *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] += x[i]; }\n',
    "hexagon": "void add(unsigned *y, const unsigned *x, int n) { for (int i = 0; i < n; i++) y[i] += x[i]; }\n",
    "host": "void add(unsigned *y, const unsigned *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] += x[i]; }\n",
}
BLOCK = 64
PARAMS = [Param("y", "buffer", "uint32", "rw", 0), Param("x", "buffer", "uint32", "r", 1)]
#: The elements of the longest array.
MOST = 200 * BLOCK
#: The most interrupts of the first use of a driver.
OPENINGS = 20


def module_of(kind: str) -> Any:
    """A new module with the function `add`, which adds an array to another one."""
    if kind == "vulkan":
        return devmod.compile(SOURCES[kind], "vulkan", name="add")
    if kind in ("opencl", "webgpu"):
        return devmod.compile(SOURCES[kind], kind)
    if kind == "cuda":
        return devmod.compile(SOURCES[kind], "cuda -arch=compute_90")
    if kind == "rocm":
        return devmod.compile(SOURCES[kind], "rocm -arch=gfx1100", language="HIP")
    if kind == "hexagon":
        return devmod.compile(SOURCES[kind], "hexagon -arch=v66", language="C")
    info = FunctionInfo("add", ["handle"] * 2, ["blockIdx.x", "threadIdx.x"], (), Interface(PARAMS))
    if kind == "metal":
        if sys.platform != "darwin":
            sys.path.insert(0, str(ROOT / "plugins" / "devmod-metal" / "tests"))
            from metal_double import KERNELS, Double

            from devmod_metal import _device

            KERNELS["add"] = _add
            if not _device._opened:
                _device._opened.append(Driver(Double()))  # type: ignore[arg-type]  # as good as a driver
        return devmod.create("metal", {"add": SOURCES[kind].encode()}, "metal", {"add": info})
    sys.path.insert(0, str(ROOT / "examples" / "devmod-host" / "src"))
    import devmod_host
    from devmod_host.target import SPEC

    devmod.register("devmod.targets", "host", SPEC, replace=True)
    devmod.register("devmod.create", "host", devmod_host.create, replace=True)
    devmod.register("devmod.device", "host", devmod_host.devices, replace=True)
    return devmod.create("host", SOURCES[kind].encode(), "c", {"add": info})


def _add(arguments: dict[str, Any], _: object, threads: Any) -> None:
    arguments["y"][: threads[0]] += arguments["x"][: threads[0]]


class Driver:
    """A driver in Python whose functions are as those of C: an interrupt that comes while one runs
    lands when it returns.
    """

    running = False
    interrupted = False

    def __init__(self, double: Any) -> None:
        self._double = double

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._double, name)

        def call(*args: Any) -> Any:
            Driver.running = True
            try:
                return function(*args)
            finally:
                Driver.running = False
                if Driver.interrupted:
                    Driver.interrupted = False
                    raise KeyboardInterrupt

        return call


class Entry:
    """An array, and what is in it."""

    def __init__(self, array: Any, value: int) -> None:
        self.array = array
        self.value = value
        #: Launches that an interrupt may have prevented.
        self.doubtful = 0
        self.launch: Any = None

    def check(self) -> None:
        """Compare the content."""
        found = self.array.numpy()
        first = int(found[0])
        assert (found == first).all(), (
            f"an array of {self.value} has {sorted(set(found.tolist()))[:4]}"
        )
        assert self.value <= first <= self.value + self.doubtful, (first, self.value, self.doubtful)
        self.value, self.doubtful = first, 0


class Storm:
    """The arrays and the launches."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.chosen = random.Random(seed)
        self.module = module_of(kind)
        self.entries: list[Entry] = []
        self.number = 0
        self.steps = 0
        #: The calls with host arrays, and what they read.
        self.calls = 0
        self.host = devmod.empty(3 * MOST, "uint32")
        self.host[:] = np.random.default_rng(seed).integers(0, 1 << 32, len(self.host))
        #: The host arrays of calls that an interrupt may have ended, before and after the call.
        self.interrupted: list[Any] = []
        self.pool, self.ended = ThreadPoolExecutor(1), threading.Event()
        if kind == "metal":  # the interrupts of `Driver` are those of one thread
            self.ended.set()

    def arguments(self, array: Any, added: Any = None) -> dict[str, Any]:
        """Return the arguments of a call of `add`, which adds ones by default."""
        extent = (
            {"n": array.shape[0]}
            if self.kind == "hexagon"
            else {"grid": array.shape[0] // BLOCK, "block": BLOCK}
        )
        return {"y": array, "x": self.ones if added is None else added, **extent}

    def open(self) -> None:
        """The first use of the driver. An interrupt may land anywhere in it."""
        self.device = devmod.device(self.kind)
        if self.chosen.random() < 0.7 and self.device.in_place_from != inf:
            self.device.in_place_from = 1
        self.function = self.module["add"]
        step = (
            "add(y=y, x=x, n=n)"
            if self.kind == "hexagon"
            else f"add(y=y, x=x, grid=n // {BLOCK}, block={BLOCK})"
        )
        self.program = devmod.program(
            "program", self.module, inputs=["x: uint32[n]"], updates=["y: uint32[n]"], steps=[step]
        )["program"]
        self.stream = self.device.default_stream
        self.ones = self.device.from_numpy(np.ones(MOST, "uint32"))
        array = self.device.from_numpy(np.zeros(BLOCK, "uint32"))
        self.function(**self.arguments(array))
        assert array.numpy().tolist() == [1] * BLOCK

    def step(self) -> None:
        """One random step. An interrupt may land anywhere in it."""
        self.steps += 1
        entries, chosen = self.entries, self.chosen
        what = chosen.randrange(14) if len(entries) > 3 else 0
        if what <= 2:
            self.number += 1
            value = self.number * 1000
            size = BLOCK * chosen.choice((1, 1, 2, 16, 200))
            entries.append(Entry(self.device.from_numpy(np.full(size, value, "uint32")), value))
            if len(entries) > 24:
                entries.pop(chosen.randrange(len(entries)))
        elif what == 3:
            del entries[chosen.randrange(len(entries))]
        elif what == 4:
            chosen.choice((self.stream, self.device)).synchronize()
            self.stream = (
                self.device.stream() if chosen.random() < 0.3 else self.device.default_stream
            )
        elif what == 5:
            chosen.choice(entries).check()
        elif what == 6:
            with self.stream.batch():
                for entry in chosen.sample(entries, 3):
                    self.launch(entry)
        elif what == 7:
            entry = chosen.choice(entries)
            entry.launch = self.function.bind(
                **self.arguments(entry.array), stream=self.device.default_stream
            )
        elif what == 8:
            self.copy(chosen.choice(entries))
        elif what == 9:
            self.read(chosen.choice(entries))
        elif what <= 11:
            self.call(chosen, self.stream, self.interrupted)
        else:
            self.launch(chosen.choice(entries))

    def copy(self, entry: Entry) -> None:
        """Copy an array to a view of a new one."""
        self.wait_for_other_streams(entry)
        size = entry.array.shape[0]
        view = self.device.zeros(2 * size, "uint32")[size:]
        if self.chosen.random() < 0.5:
            view.copy_from(entry.array, wait=self.chosen.random() < 0.5)
            copied = Entry(view, entry.value)
            copied.doubtful = entry.doubtful
        else:
            self.number += 1
            copied = Entry(view, self.number * 1000)
            view.copy_from(np.full(size, copied.value, "uint32"), wait=self.chosen.random() < 0.5)
        # A copy that is not waited for is in the default stream: launches in another one wait for
        # it.
        entry.stream = copied.stream = self.device.default_stream  # type: ignore[attr-defined]
        self.entries.append(copied)

    def read(self, entry: Entry) -> None:
        """Start a read, and check what it read."""
        self.wait_for_other_streams(entry)
        host = np.zeros(entry.array.shape, "uint32")
        event = entry.array.copy_to(host, wait=False)
        event.synchronize()
        assert (host == host[0]).all(), sorted(set(host.tolist()))[:4]
        assert entry.value <= host[0] <= entry.value + entry.doubtful, (
            host[0],
            entry.value,
            entry.doubtful,
        )

    def call(self, chosen: random.Random, stream: Any, interrupted: list[Any]) -> None:
        """Call with views of host arrays, aligned or not, strided, read-only or both. The result is
        NumPy's.
        """
        self.check_interrupted(interrupted)
        size = BLOCK * chosen.choice((1, 2, 16, 200))
        start, other, step, other_step = (
            chosen.choice(each) for each in ((0, 1, 32, MOST), (0, 1, 32), (1, 1, 2), (1, 1, 2))
        )
        # Calls of both threads read the same memory: some parts of it twice, from other places.
        x = self.host[start:][: size * step : step]
        y = devmod.empty(2 * size + 32, "uint32")[other:][: size * other_step : other_step]
        x.flags.writeable = chosen.random() < 0.5
        y[:] = before = chosen.randrange(1 << 32)
        after = x + y
        self.calls += 1
        if chosen.random() < 0.5:  # else the call alone has the array
            interrupted.append((y, before, after))
        if chosen.random() < 0.5:
            self.program(x, y, stream=stream)
        else:
            self.function(**self.arguments(y, x), stream=stream)
        assert (y == after).all()
        interrupted.clear()

    def check_interrupted(self, interrupted: list[Any]) -> None:
        """Check that arrays of interrupted calls have their old or their new elements when the
        kernels have ended.
        """
        if interrupted:
            self.device.synchronize()
            for y, before, after in interrupted:
                assert ((y == before) | (y == after)).all(), (y, before, after)
            interrupted.clear()

    def call_until_end(self) -> None:
        """Call in another thread, which no interrupt reaches."""
        chosen, stream = random.Random(self.number), self.device.stream()
        while not self.ended.is_set():
            self.call(chosen, stream, [])

    def wait_for_other_streams(self, entry: Entry) -> None:
        """Wait for launches that are not on the stream of copies."""
        if getattr(entry, "stream", self.device.default_stream) is not self.device.default_stream:
            self.device.synchronize()

    def launch(self, entry: Entry) -> None:
        """Launch on one array. On another stream than the last launch on it, what was queued is
        waited for.
        """
        if getattr(entry, "stream", self.stream) is not self.stream:
            self.device.synchronize()
        entry.stream = self.stream  # type: ignore[attr-defined]
        entry.doubtful += 1
        if entry.launch is not None and self.stream is self.device.default_stream:
            entry.launch()
        else:
            self.function(**self.arguments(entry.array), stream=self.stream)
        entry.value, entry.doubtful = entry.value + 1, entry.doubtful - 1


def run(kind: str, seed: int, interrupts: int) -> str:
    """Run until so many interrupts have landed, and check what is left."""
    storm = Storm(kind, seed)
    landed, armed, opened = 0, False, False

    def interrupt(_: int, frame: Any) -> None:
        nonlocal landed, armed
        if armed:
            armed = False
            landed += 1
            if Driver.running:
                Driver.interrupted = True
            else:
                raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    lost = 0

    def count_lost(
        _: object,
    ) -> None:  # an interrupt in a finalizer, or a callback, of another library
        nonlocal lost
        lost += 1

    sys.unraisablehook = count_lost

    def repeat() -> (
        None
    ):  # a function: Python 3.13 has the end of a loop outside of the try around it
        nonlocal armed, opened
        if not opened:
            storm.open()
            armed, opened = False, True
            storm.other = storm.pool.submit(storm.call_until_end)
        while armed:
            storm.step()

    while landed < interrupts:
        try:
            armed = opened or landed < OPENINGS
            # Opening a driver takes longer than a step.
            signal.setitimer(
                signal.ITIMER_REAL, storm.chosen.uniform(2e-6, 1e-3 if opened else 0.5)
            )
            repeat()
        except KeyboardInterrupt:
            pass
        except BaseException:
            armed = False
            storm.ended.set()
            raise
    signal.setitimer(signal.ITIMER_REAL, 0)
    check(storm)
    counts = f"{storm.steps} steps, {storm.number} arrays, {storm.calls} calls with host arrays"
    return f"{kind} seed {seed}: {landed} interrupts, {counts}, {lost} lost in finalizers"


def check(storm: Storm) -> None:
    """Check that no lock is held, that every array holds its own, and that new ones can be had."""
    storm.ended.set()
    release_import_lock()
    storm.other.result()
    storm.check_interrupted(storm.interrupted)
    while in_place._calls:  # other threads wait for the kernels of interrupted calls
        storm.device.synchronize()

    def look(lock: Any) -> None:
        assert lock is None or lock.acquire(timeout=300), lock
        if lock is not None:
            lock.release()

    list(storm.pool.map(look, [reference() for reference in tuple(_fork._locks)]))
    storm.device.synchronize()
    for entry in storm.entries:
        entry.check()
    places = [
        (entry.array.memory.buffer, entry.array.memory.offset)
        for entry in storm.entries
        if storm.kind == "vulkan"
    ]
    assert len(set(places)) == len(places)
    fresh = storm.device.from_numpy(np.zeros(BLOCK, "uint32"))
    module_of(storm.kind)["add"](**storm.arguments(fresh))
    storm.function(**storm.arguments(fresh))
    assert fresh.numpy().tolist() == [2] * BLOCK
    for entry in storm.entries:
        entry.check()
    storm.entries.clear()
    gc.collect()
    storm.device.synchronize()


if __name__ == "__main__":
    print(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    # An interrupt may have landed in the text of a dataclass. CPython notes that, ends by SIGINT,
    # and forgets it when it runs another text.
    exec("pass")
