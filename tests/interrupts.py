"""Arrays come and go and launches run while KeyboardInterrupt is raised at random places: one process of `test_interrupts.py`.

usage: interrupts.py KIND SEED INTERRUPTS    ends with a line of figures; AssertionError where a promise is broken
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod_runtime import _fork

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    "opencl": "__kernel void bump(__global unsigned *x) { x[get_global_id(0)] += 1; }",
    "vulkan": "#version 450\nlayout(local_size_x = 64) in;\nlayout(set = 0, binding = 0) buffer X { uint x[]; };\n"
    "void main() { x[gl_GlobalInvocationID.x] += 1u; }\n",
    "webgpu": "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
    "@compute @workgroup_size(64) fn bump(@builtin(global_invocation_id) i: vec3<u32>) { x[i.x] += 1u; }\n",
    "metal": "#include <metal_stdlib>\nusing namespace metal;\n"
    "kernel void bump(device uint *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] += 1; }\n",
    "cuda": 'extern "C" __global__ void bump(unsigned *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }\n',
    "rocm": 'extern "C" __global__ void bump(unsigned *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }\n',
    "hexagon": "void bump(unsigned *x, int n) { for (int i = 0; i < n; i++) x[i] += 1; }\n",
    "host": "void bump(unsigned *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }\n",
}
BLOCK = 64
#: The most interrupts of the first use of a driver.
OPENINGS = 20


def module_of(kind: str) -> Any:
    """A new module with the function `bump`, which adds 1 to each element."""
    if kind == "vulkan":
        return devmod.compile(SOURCES[kind], "vulkan", name="bump")
    if kind in ("opencl", "webgpu"):
        return devmod.compile(SOURCES[kind], kind)
    if kind == "cuda":
        return devmod.compile(SOURCES[kind], "cuda -arch=compute_90")
    if kind == "rocm":
        return devmod.compile(SOURCES[kind], "rocm -arch=gfx1100", language="HIP")
    if kind == "hexagon":
        return devmod.compile(SOURCES[kind], "hexagon -arch=v66", language="C")
    info = FunctionInfo("bump", ["handle"], ["blockIdx.x", "threadIdx.x"], (), Interface([Param("x", "buffer", "uint32", "rw", 0)]))
    if kind == "metal":
        if sys.platform != "darwin":
            sys.path[:0] = [str(ROOT / "plugins" / "devmod-metal" / "tests"), str(ROOT / "simulators" / "src")]
            from metal_double import KERNELS, Double

            from devmod_metal import _device

            KERNELS["bump"] = _bump
            if not _device._opened:
                _device._opened.append(Driver(Double()))  # type: ignore[arg-type]  # as good as a driver
        return devmod.create("metal", {"bump": SOURCES[kind].encode()}, "metal", {"bump": info})
    sys.path.insert(0, str(ROOT / "examples" / "devmod-host" / "src"))
    import devmod_host
    from devmod_host.target import SPEC

    devmod.register("devmod.targets", "host", SPEC, replace=True)
    devmod.register("devmod.create", "host", devmod_host.create, replace=True)
    devmod.register("devmod.device", "host", devmod_host.devices, replace=True)
    return devmod.create("host", SOURCES[kind].encode(), "c", {"bump": info})


def call_of(array: Any) -> tuple[list[Any], dict[str, int]]:
    """The arguments and the keywords of a call of `bump`."""
    if array.device.kind == "hexagon":
        return [array, array.shape[0]], {}
    return [array], {"grid": array.shape[0] // BLOCK, "block": BLOCK}


def _bump(arguments: dict[str, Any], _: object, threads: Any) -> None:
    arguments["x"][: threads[0]] += 1


class Driver:
    """A driver in Python whose functions are as those of C: an interrupt that comes while one runs lands when it returns."""

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
        assert (found == first).all(), f"an array of {self.value} has {sorted(set(found.tolist()))[:4]}"
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

    def open(self) -> None:
        """The first use of the driver. An interrupt may land anywhere in it."""
        self.device = devmod.device(self.kind)
        self.function = self.module["bump"]
        self.stream = self.device.default_stream
        array = self.device.from_numpy(np.zeros(BLOCK, "uint32"))
        arguments, keywords = call_of(array)
        self.function(*arguments, **keywords)
        assert array.numpy().tolist() == [1] * BLOCK

    def step(self) -> None:
        """One random step. An interrupt may land anywhere in it."""
        self.steps += 1
        entries, chosen = self.entries, self.chosen
        what = chosen.randrange(12) if len(entries) > 3 else 0
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
            self.stream = self.device.stream() if chosen.random() < 0.3 else self.device.default_stream
        elif what == 5:
            chosen.choice(entries).check()
        elif what == 6:
            with self.stream.batch():
                for entry in chosen.sample(entries, 3):
                    self.launch(entry)
        elif what == 7:
            entry = chosen.choice(entries)
            arguments, keywords = call_of(entry.array)
            entry.launch = self.function.bind(*arguments, **keywords, stream=self.device.default_stream)
        elif what == 8:
            self.copy(chosen.choice(entries))
        elif what == 9:
            self.read(chosen.choice(entries))
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
        # A copy that is not waited for is in the default stream: launches in another one wait for it.
        entry.stream = copied.stream = self.device.default_stream  # type: ignore[attr-defined]
        self.entries.append(copied)

    def read(self, entry: Entry) -> None:
        """Start a read, and check what it read."""
        self.wait_for_other_streams(entry)
        host = np.zeros(entry.array.shape, "uint32")
        event = entry.array.copy_to(host, wait=False)
        event.synchronize()
        assert (host == host[0]).all(), sorted(set(host.tolist()))[:4]
        assert entry.value <= host[0] <= entry.value + entry.doubtful, (host[0], entry.value, entry.doubtful)

    def wait_for_other_streams(self, entry: Entry) -> None:
        """Wait for launches that are not on the stream of copies."""
        if getattr(entry, "stream", self.device.default_stream) is not self.device.default_stream:
            self.device.synchronize()

    def launch(self, entry: Entry) -> None:
        """Launch on one array. On another stream than the last launch on it, what was queued is waited for."""
        if getattr(entry, "stream", self.stream) is not self.stream:
            self.device.synchronize()
        entry.stream = self.stream  # type: ignore[attr-defined]
        entry.doubtful += 1
        if entry.launch is not None and self.stream is self.device.default_stream:
            entry.launch()
        else:
            arguments, keywords = call_of(entry.array)
            self.function(*arguments, **keywords, stream=self.stream)
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

    def count_lost(_: object) -> None:  # an interrupt in a finalizer, or a callback, of another library
        nonlocal lost
        lost += 1

    sys.unraisablehook = count_lost

    def repeat() -> None:  # a function: Python 3.13 has the end of a loop outside of the try around it
        nonlocal armed, opened
        if not opened:
            storm.open()
            armed, opened = False, True
        while armed:
            storm.step()

    while landed < interrupts:
        try:
            armed = opened or landed < OPENINGS
            # Opening a driver takes longer than a step.
            signal.setitimer(signal.ITIMER_REAL, storm.chosen.uniform(2e-6, 1e-3 if opened else 0.5))
            repeat()
        except KeyboardInterrupt:
            pass
        except BaseException:
            armed = False
            raise
    signal.setitimer(signal.ITIMER_REAL, 0)
    check(storm)
    return f"{kind} seed {seed}: {landed} interrupts, {storm.steps} steps, {storm.number} arrays, {lost} lost in finalizers"


def check(storm: Storm) -> None:
    """Check that no lock is held, that every array holds its own, and that new ones can be had."""
    held: list[object] = []

    def look() -> None:
        for reference in tuple(_fork._locks):
            lock = reference()
            if lock is not None and not lock.acquire(timeout=300):
                held.append(lock)
            elif lock is not None:
                lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert held == []
    storm.device.synchronize()
    for entry in storm.entries:
        entry.check()
    places = [(entry.array.memory.buffer, entry.array.memory.offset) for entry in storm.entries if storm.kind == "vulkan"]
    assert len(set(places)) == len(places)
    fresh = storm.device.from_numpy(np.zeros(BLOCK, "uint32"))
    arguments, keywords = call_of(fresh)
    module_of(storm.kind)["bump"](*arguments, **keywords)
    storm.function(*arguments, **keywords)
    assert fresh.numpy().tolist() == [2] * BLOCK
    for entry in storm.entries:
        entry.check()
    storm.entries.clear()
    gc.collect()
    storm.device.synchronize()


if __name__ == "__main__":
    print(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
