"""Programs: a bound program, its calls, and its first call beside the same launches by hand, and the memory of temporaries.

    python benchmarks/bench_programs.py [--rounds 101] [--kinds opencl,vulkan,webgpu,hexagon] [--before PYTHON]

The program is a chain of 20 launches of three kernels on arrays of 4 kB, with 19 temporaries, of which three live at once. By hand, the
user has four arrays for them, and launches the functions of the same file. "Prepared" launches were bound before, and run in
`stream.batch()`. A general call passes the arguments, and allocates the result as the program does. With new shapes, each call has another
number of elements, by hand in a batch where the kind has one; the arrays by hand are large enough for all. "Load and first call" is a new
process for each figure, from the imports to a result in NumPy. Each round runs all contenders in an order of its own, and the figures are
medians over the rounds. A time is until the device is done.

`--before PYTHON` compares a bound program with the batch of another devmod: two processes, one of them with that Python, take turns.
On the stand-in drivers of CUDA and ROCm the calls of the driver are counted. The memory of temporaries is that of buffers for the chain,
for the steps of a transformer, and for random programs. The exit code is 1 if a ratio is over its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

import numpy as np
from timing import check, each_kind, in_new_process, note, timed

import devmod

KINDS = "opencl,vulkan,webgpu,hexagon"
N, BLOCKS, LAUNCHES = 1024, 5, 20
#: The bounds of a bound program, of the batch of the commit before programs.
MOST_OF_BEFORE = {"opencl": 1.05, "vulkan": 0.85, "webgpu": 0.65, "hexagon": 1.05}
MOST_OF_BATCH, MOST_CALL, MOST_NEW_SHAPES, MOST_FIRST, MOST_MEMORY = 1.05, 0.9, 1.5, 1.05, 1.25
#: The bound of a general call, of general calls in a batch by hand.
MOST_BATCHED = 1.0
#: The kinds on which a batch costs less than its launches one by one.
BATCHING = ("vulkan", "webgpu", "hexagon")

C = """
{start}void add({input}const float *a, {input}const float *b, {input}float *y, int n) {{ {loop} y[i] = a[i] + b[i]; }}
{start}void square({input}const float *a, {input}float *y, int n) {{ {loop} y[i] = a[i] * a[i]; }}
{start}void scale({input}const float *a, {input}float *y, int n, float factor) {{ {loop} y[i] = a[i] * factor; }}
"""
OPENCL = C.format(start="kernel ", input="global ", loop="int i = get_global_id(0); if (i < n)")
HEXAGON = C.format(start="", input="", loop="for (int i = 0; i < n; i++)")
#: For each kernel of the shading languages: the arrays that it reads, its last scalar, and its expression.
SHADERS = {"add": ("ab", "", "a[i] + b[i]"), "square": ("a", "", "a[i] * a[i]"), "scale": ("a", "factor", "a[i] * {}factor")}


def glsl(name: str) -> str:
    """Return a kernel in GLSL."""
    inputs, scalar, expression = SHADERS[name]
    buffers = "".join(
        f"layout(set = 0, binding = {place}) readonly buffer _{each} {{ float {each}[]; }};\n" for place, each in enumerate(inputs)
    )
    push = "layout(push_constant) uniform Push { int n; " + (f"float {scalar}; " if scalar else "") + "};\n"
    return (
        f"#version 450\nlayout(local_size_x = 64) in;\n{buffers}"
        f"layout(set = 0, binding = {len(inputs)}) writeonly buffer _y {{ float y[]; }};\n{push}"
        f"void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = {expression.format('')}; }}\n"
    )


def wgsl(name: str) -> str:
    """Return a kernel in WGSL."""
    inputs, scalar, expression = SHADERS[name]
    buffers = "".join(f"@group(0) @binding({place}) var<storage, read> {each}: array<f32>;\n" for place, each in enumerate(inputs))
    last = len(inputs)
    return (
        f"struct Scalars {{ n: i32, {f'{scalar}: f32' if scalar else ''} }}\n{buffers}"
        f"@group(0) @binding({last}) var<storage, read_write> y: array<f32>;\n"
        f"@group(0) @binding({last + 1}) var<uniform> scalars: Scalars;\n"
        f"@compute @workgroup_size(64) fn {name}(@builtin(global_invocation_id) id: vec3u) "
        f"{{ let i = i32(id.x); if i < scalars.n {{ y[i] = {expression.format('scalars.')}; }} }}\n"
    )


def kernels_of(kind: str) -> devmod.Module:
    """Return a module of the three kernels for a kind."""
    if kind == "opencl":
        return devmod.compile(OPENCL, kind, block=64)
    if kind == "hexagon":
        return devmod.compile(HEXAGON, f"{kind} -arch={devmod.device(kind).arch}", language="C")
    if kind == "vulkan":
        return devmod.bundle(*[devmod.compile(glsl(name), kind, name=name, language="GLSL") for name in SHADERS])
    return devmod.bundle(*[devmod.compile(wgsl(name), kind, language="WGSL") for name in SHADERS])


def chain() -> list[tuple[str, dict[str, str]]]:
    """Return the kernel and the arrays of each launch. The last one writes y."""
    result, current = [], "x"
    for number in range(BLOCKS):
        square, scaled, sum_, following = (f"{each}{number}" for each in "stuh")
        result += [
            ("square", {"a": current, "y": square}),
            ("scale", {"a": square, "y": scaled}),
            ("add", {"a": scaled, "b": "weight", "y": sum_}),
            ("add", {"a": sum_, "b": current, "y": "y" if number == BLOCKS - 1 else following}),
        ]
        current = following
    return result


def program_of(kernels: devmod.Module) -> devmod.Module:
    """Return the chain as a program."""
    temporaries = {each["y"]: None for _, each in chain()[:-1]}
    steps = []
    for kernel, arrays in chain():
        extra = {"factor": "factor"} if kernel == "scale" else {}
        steps.append(devmod.step(kernel, **arrays, n="n", **extra, threads="n"))
    return devmod.program(
        "chain",
        kernels,
        inputs=["x: float32[n]", "weight: float32[n]", "factor: float32 = 0.5"],
        outputs=["y: float32[n]"],
        temporaries=[f"{name}: float32[n]" for name in temporaries],
        steps=steps,
    )


def expected(x: Any, weight: Any, factor: float) -> Any:
    """Return the chain in NumPy."""
    for _ in range(BLOCKS):
        x = x * x * np.float32(factor) + weight + x
    return x


class ByHand:
    """The chain as a user writes it: four temporaries, and a loop of launches, in a batch where that is faster.

    Parameters
    ----------
    kernels
        The kernels by name.
    device
        Where they run.
    most
        The length of the temporaries.
    """

    def __init__(self, kernels: Mapping[str, Any], device: Any, most: int) -> None:
        self.device, self.stream = device, device.default_stream
        self._threads = device.kind != "hexagon"
        one, two, even, odd = (device.empty(most, "float32") for _ in range(4))
        #: The function, the arrays by name or in order, and whether it takes the factor.
        self._launches: list[tuple[Any, list[Any], bool]] = []
        places = {"s": one, "t": two, "u": one}
        for kernel, names in chain():
            arrays = [(even, odd)[int(each[1:]) % 2] if each[0] == "h" else places.get(each[0], each) for each in names.values()]
            self._launches.append((kernels[kernel], arrays, kernel == "scale"))

    def prepare(self, x: Any, weight: Any, y: Any, factor: float) -> Callable[[], None]:
        """Return a function that launches the prepared chain in a batch, and waits."""
        n, named = x.shape[0], {"x": x, "weight": weight, "y": y}
        threads = {"threads": n} if self._threads else {}
        launches = []
        for function, arrays, scaled in self._launches:
            values = [named[each] if isinstance(each, str) else each for each in arrays]
            launches.append(function.bind(*values, n, *([factor] if scaled else []), **threads))

        def run() -> None:
            with self.stream.batch():
                for launch in launches:
                    launch()
            self.stream.synchronize()

        return run

    def in_batch(self, x: Any, weight: Any, factor: float) -> Any:
        """Do the same in a batch."""
        with self.stream.batch():
            return self(x, weight, factor)

    def __call__(self, x: Any, weight: Any, factor: float) -> Any:
        """Launch the chain by general calls, and return the new result."""
        n = x.shape[0]
        y = self.device.empty(n, "float32")
        named = {"x": x, "weight": weight, "y": y}
        for function, arrays, scaled in self._launches:
            values = [named[each] if each.__class__ is str else each for each in arrays]
            if scaled:
                values += (n, factor)
            else:
                values.append(n)
            if self._threads:
                function(*values, threads=n)
            else:
                function(*values)
        return y


def contenders(kind: str, file: Path, rounds: int) -> dict[str, Callable[[], object]]:
    """Return the functions to measure by name, which wait for the device."""
    module = devmod.load(file)
    device: Any = devmod.device(kind)
    program, hand = module["chain"], ByHand(module, device, N)
    host, factor = np.linspace(0, 0.1, N, dtype=np.float32), 0.5
    x, weight, y = device.from_numpy(host), device.from_numpy(host[::-1].copy()), device.empty(N, "float32")
    bound = program.bind(x, weight, y=y)
    wanted = expected(host, host[::-1], factor)
    lengths = [N - 1 - number for number in range(min(rounds + WARM_UP, N - 1))] * 2
    shorter = [(x[:length], weight[:length]) for length in lengths]
    new = {"program": iter(shorter), "hand": iter(shorter)}
    wait = device.default_stream.synchronize

    def run_bound() -> None:
        bound()
        wait()

    def waited(call: Callable[..., Any], arguments: Callable[[], Any] = lambda: (x, weight)) -> Callable[[], Any]:
        def run() -> Any:
            result = call(*arguments(), factor)
            wait()
            return result

        return run

    by_hand = hand.in_batch if kind in BATCHING else hand
    prepared = hand.prepare(x, weight, y, factor)
    result = {
        BATCH: prepared,
        BOUND: run_bound,
        CALLS: waited(hand),
        BATCHED: waited(hand.in_batch),
        CALL: waited(program),
        NEW_CALLS: waited(by_hand, new["hand"].__next__),
        NEW_CALL: waited(program, new["program"].__next__),
    }
    for name in (BATCH, BOUND):
        y.copy_from(np.zeros(N, np.float32))
        result[name]()
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, err_msg=name)
    for call in (hand, program):
        np.testing.assert_allclose(call(x, weight, factor).numpy(), wanted, rtol=1e-4)
    return result


BATCH, BOUND = "20 prepared launches in a batch", "bound program"
CALLS, BATCHED, CALL = "20 general calls", "20 general calls in a batch", "program, general call"
NEW_CALLS, NEW_CALL = "20 general calls, new shapes", "program, new shapes"
BEFORE = "20 prepared launches in a batch, before"
BOUND_NOW = "bound program, alone in a process"
WARM_UP, TURN = 5, 25

#: Load a file and print the milliseconds until the result, from the imports on.
FIRST = """
import time
began = time.perf_counter()
import sys
import numpy as np
import devmod
path, kind, n = sys.argv[1], sys.argv[2], 1024
x = np.linspace(0, 0.1, n, dtype=np.float32)
module = devmod.load(path)
{}
print((time.perf_counter() - began) * 1e3)
"""
FIRST_OF_PROGRAM = 'y = module["chain"](x, x, 0.5)'
FIRST_BY_HAND = """
device, extent = devmod.device(kind), {} if kind == "hexagon" else {"threads": n}
add, square, scale = (module[name] for name in ("add", "square", "scale"))
weight = current = device.from_numpy(x)
one, two, even, odd = (device.empty(n, "float32") for _ in range(4))
with device.default_stream.batch():
    for number in range(5):
        following = odd if number % 2 else even
        square(current, one, n, **extent)
        scale(one, two, n, 0.5, **extent)
        add(two, weight, one, n, **extent)
        add(one, current, following, n, **extent)
        current = following
y = current.numpy()
"""


def first_call(kind: str, files: Mapping[str, Path], rounds: int) -> bool:
    """Compare the load and the first call, each in a new process."""
    scripts = {"program": FIRST_OF_PROGRAM, "hand": FIRST_BY_HAND}
    works = {name: partial(_first, FIRST.format(script), files[name], kind) for name, script in scripts.items()}
    took = in_turns(works, rounds)
    print(f"{kind:8} load and first call: {took['program']:.1f} ms; by hand: {took['hand']:.1f} ms")
    return report(kind, "load and first call", took["program"] / took["hand"], MOST_FIRST, "load and first call, by hand")


def _first(script: str, file: Path, kind: str) -> float:
    return in_new_process(script, file, kind)[0]


def memory_of_temporaries() -> bool:
    """Compare the buffers of temporaries with the largest set that is alive at once."""
    programs: dict[str, list[dict[str, tuple[int, int, int]]]] = {"the chain": [chain_temporaries()]}
    programs["a decoder of 4, 12 and 32 layers"] = [decoder_temporaries(layers) for layers in (4, 12, 32)]
    failed = False
    for name, each in programs.items():
        ratio = max(_memory_ratio(temporaries) for temporaries in each)
        failed |= report("memory", f"temporaries of {name}", ratio, MOST_MEMORY, "the largest set alive at once")
    numbers = random.Random(0)
    ratios = []
    for _ in range(200):
        steps = numbers.randint(2, 100)
        temporaries = {}
        for number in range(numbers.randint(2, 60)):
            first = numbers.randrange(steps)
            temporaries[str(number)] = (numbers.randint(1, 1 << 20), first, min(first + int(numbers.expovariate(0.3)), steps - 1))
        ratios.append(_memory_ratio(temporaries))
    text = f"200 random programs: median {statistics.median(ratios):.2f}, at most {max(ratios):.2f} of the largest set alive at once"
    print(f"memory   {text}")
    note(text)
    return failed


def _memory_ratio(temporaries: Mapping[str, tuple[int, int, int]]) -> float:
    from devmod_runtime._program.temporaries import share

    _, sizes = share({name: size for name, (size, _, _) in temporaries.items()}, {name: each[1:] for name, each in temporaries.items()})
    ends = {last for _, _, last in temporaries.values()} | {first for _, first, _ in temporaries.values()}
    alive = max(sum(size for size, first, last in temporaries.values() if first <= step <= last) for step in ends)
    return sum(sizes) / alive


def chain_temporaries() -> dict[str, tuple[int, int, int]]:
    """Return the bytes, the first and the last step of each temporary of the chain."""
    return _lives([(arrays, 4 * N) for arrays in ([*each.values()] for _, each in chain())], {"x", "weight", "y"})


def _lives(steps: Sequence[tuple[Sequence[str], int]], arguments: set[str]) -> dict[str, tuple[int, int, int]]:
    """Return them for steps, each with its arrays, the written one last, and the bytes of that one."""
    result: dict[str, tuple[int, int, int]] = {}
    for number, (arrays, nbytes) in enumerate(steps):
        for name in arrays:
            if name not in arguments:
                size, first, _ = result.get(name, (nbytes, number, number))
                result[name] = (size, first, number)
    return result


def decoder_temporaries(layers: int, size: int = 2048, hidden: int = 5632, heads: int = 32, context: int = 2048) -> dict[str, Any]:
    """Return them for a step of a transformer: attention and a gated layer, each with its norm."""
    steps: list[tuple[list[str], int]] = []

    def step(written: str, length: int, *read: str) -> None:
        steps.append(([*read, written], 4 * length))

    current = "x0"
    step(current, size)
    for number in range(layers):
        names = ("norm", "query", "key", "value", "scores", "mixed", "attended", "sum", "norm2", "gate", "up", "act", "down", "next")
        norm, query, key, value, scores, mixed, attended, sum_, norm2, gate, up, act, down, following = (
            f"{each}{number}" for each in names
        )
        step(norm, size, current)
        step(query, size, norm)
        step(key, size // 8, norm)
        step(value, size // 8, norm)
        step(scores, heads * context, query, key)
        step(mixed, size, scores, value)
        step(attended, size, mixed)
        step(sum_, size, attended, current)
        step(norm2, size, sum_)
        step(gate, hidden, norm2)
        step(up, hidden, norm2)
        step(act, hidden, gate, up)
        step(down, size, act)
        step(following, size, down, sum_)
        current = following
    step("logits", 32000, current)
    return _lives(steps, {"logits"})


def driver_calls(kind: str) -> bool:
    """Count the calls of the driver in one call of a bound program, on the stand-in driver of CUDA or ROCm."""
    from vendor_driver import VendorDriver

    driver = VendorDriver(kind)
    if driver.on_hardware() or (reason := driver.missing()):
        print(f"{kind}: no calls counted: {'this is no stand-in driver' if driver.on_hardware() else reason}")
        return False
    command = [sys.executable, __file__, "--count", kind]
    process = subprocess.run(command, env=driver.environment(), check=True, stdout=subprocess.PIPE, text=True)
    calls = json.loads(process.stdout)
    print(f"{kind:8} calls of the driver: {calls}")
    return report(kind, "graph launches and kernel launches of a bound program", calls["graphs"] + calls["launches"], 1, "one graph launch")


def count(kind: str) -> int:
    """Print the calls of the stand-in driver in one call of a bound program of 20 launches, as JSON."""
    from vendor_driver import VendorDriver

    driver = VendorDriver(kind)
    driver.show()
    names = ["x", *(f"t{number}" for number in range(LAUNCHES - 1)), "y"]
    program = devmod.program(
        "chain",
        driver.add_kernel(),
        inputs=["x: float32[n]"],
        outputs=["y: float32[n]"],
        temporaries=[f"{name}: float32[n]" for name in names[1:-1]],
        steps=[devmod.step("add", a=one, b="x", c=two, n="n", threads="n", block=64) for one, two in pairwise(names)],
    )["chain"]
    device: Any = devmod.device(kind)
    bound = program.bind(device.zeros(N, "float32"), y=device.empty(N, "float32"), stream=device.stream())
    bound()
    before = {name: driver.calls(name) for name in driver.functions}
    bound()
    made = {name: driver.calls(name) - number for name, number in before.items()}
    graphs, launches = made.pop("launch_graph"), made.pop("launch")
    print(json.dumps({"graphs": graphs, "launches": launches, **{name: number for name, number in made.items() if number}}))
    return 0


def report(kind: str, name: str, ratio: float, most: float, base: str) -> bool:
    """Print and record a ratio. Return whether it is over its bound."""
    over = check(f"{kind}, {name}", ratio, most, of=base)
    print(f"{kind:8} {name:36} of {base:42} {ratio:5.2f}   (at most {most:g}){'  over' * over}", flush=True)
    return over


def serve(kind: str, file: str) -> int:
    """Launch the chain `TURN` times for each line of the input, and print the median of the microseconds.

    A file with the program runs it, bound. Another one has the kernels alone: the launches are prepared, and run in a batch.
    """
    module = devmod.load(file)
    device: Any = devmod.device(kind)
    x, weight, y = (device.from_numpy(np.zeros(N, np.float32)) for _ in range(3))
    if "chain" in module:
        bound, wait = module["chain"].bind(x, weight, y=y), device.default_stream.synchronize

        def run() -> None:
            bound()
            wait()

    else:
        run = ByHand(module, device, N).prepare(x, weight, y, 0.5)
    for _ in range(TURN):
        run()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(statistics.median(timed(run) for _ in range(TURN)) * 1e3, flush=True)
    return 0


class Process:
    """A process of `serve`."""

    def __init__(self, python: str, kind: str, file: Path) -> None:
        command = [python, __file__, "--serve", kind, str(file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=file.parent)
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def turn(self) -> float:
        """Return the microseconds of a turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("turn\n")
        self._process.stdin.flush()
        return float(self._read())

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def in_turns(works: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median of each contender over the rounds. Each round runs all of them, in an order of its own."""
    durations: dict[str, list[float]] = {name: [] for name in works}
    order = list(works)
    for round_ in range(rounds + WARM_UP):
        random.shuffle(order)
        for name in order:
            took = works[name]()
            if round_ >= WARM_UP:
                durations[name].append(took)
    return {name: statistics.median(times) for name, times in durations.items()}


def measure(kind: str, folder: Path, rounds: int, before: str) -> bool:
    """Measure a kind, print its figures, and return whether one is over its bound."""
    kernels = kernels_of(kind)
    file, plain = folder / f"{kind}.devmod", folder / f"{kind}-kernels.devmod"
    devmod.save(program_of(kernels), file)
    devmod.save(kernels, plain)
    medians = in_turns({name: lambda run=run: timed(run) * 1e3 for name, run in contenders(kind, file, rounds).items()}, rounds)
    if before:
        processes = {BOUND_NOW: Process(sys.executable, kind, file), BEFORE: Process(before, kind, plain)}
        medians |= in_turns({name: process.turn for name, process in processes.items()}, max(rounds // 4, 1))
        for process in processes.values():
            process.end()
    for name, median in medians.items():
        print(f"{kind:8} {name:42} {median:9.1f} µs")
    failed = False
    rows = [
        (BOUND, BATCH, MOST_OF_BATCH),
        *([(BOUND_NOW, BEFORE, MOST_OF_BEFORE[kind])] if before else []),
        (CALL, CALLS, MOST_CALL),
        *([(CALL, BATCHED, MOST_BATCHED)] if kind in BATCHING else []),
        (NEW_CALL, NEW_CALLS, MOST_NEW_SHAPES),
    ]
    for name, base, most in rows:
        failed |= report(kind, name, medians[name] / medians[base], most, base)
    failed |= first_call(kind, {"program": file, "hand": plain}, max(rounds // 5, 1))
    return failed


def main() -> int:
    """Measure, print, and return the exit code."""
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    if sys.argv[1:2] == ["--count"]:
        return count(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--before", default="")
    options = parser.parse_args()
    failed = memory_of_temporaries()
    for vendor in ("cuda", "rocm"):
        failed |= driver_calls(vendor)
    return int(each_kind(options.kinds, lambda kind, folder: measure(kind, folder, options.rounds, options.before)) or failed)


if __name__ == "__main__":
    sys.exit(main())
