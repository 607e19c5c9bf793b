"""Programs: a bound program, its calls, and its first call beside the same launches by hand, and
the memory of temporaries.

    python tools/benchmarks/bench_programs.py [--rounds 101] [--kinds opencl,vulkan,webgpu,hexagon]
    [--before PYTHON] [--clock processor]

The program is a chain of 20 launches of three kernels on arrays of 4 kB, with 19 temporaries, of
which three live at once. By hand, the user has four arrays for them, and launches the functions of
the same file. "Prepared" launches were bound before, and run in `stream.batch()`. A general call
passes the arguments, and allocates the result as the program does. With new shapes, each call has
another number of elements, by hand in a batch where the kind has one; the arrays by hand are large
enough for all. "Load and first call" is the processor time of a new process, from the imports to a
result in NumPy. Each round runs all contenders in an order of its own; figures are medians over the
rounds. Other times are until the device is done. `--clock processor` is for a machine with other
work: the processor time of the host, and of a device on the same processor in the same process (not
the emulator of Hexagon).

The second program is the step of the example's transformer, 76 launches. It takes these devices 4
to 300 ms on the same processors, so its times are the processor time of the thread that queues it.
`--before PYTHON` compares the bound chain with the batch of another devmod: two processes, one of
them with that Python, take turns. On the stand-in drivers of CUDA and ROCm the calls of the driver
are counted. The memory of temporaries is that of their buffers, for both programs and for random
ones: whole buffers are shared. The exit code is 1 if a ratio is over its bound.
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
import time
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

import numpy as np
from timing import check, each_kind, in_new_process, medians_of, note, timed

import devmod

KINDS = "opencl,vulkan,webgpu,hexagon"
N = 1024
BLOCKS = 5
LAUNCHES = 20
#: The bounds of a bound program, of the batch of the commit before programs.
MOST_OF_BEFORE = {"opencl": 1.05, "vulkan": 0.85, "webgpu": 0.65, "hexagon": 1.05}
MOST_OF_BATCH = 1.05
MOST_NEW_SHAPES = 1.5
MOST_FIRST = 1.05
MOST_MEMORY = 1.25
#: The bounds of a general call. On Hexagon nine tenths of the time are the emulator's. On OpenCL
#: half of the time is the wait for the device, which is the same for both.
MOST_CALL = {"opencl": 1.0, "vulkan": 0.9, "webgpu": 0.9}
#: The kinds on which a batch costs less than its launches one by one.
BATCHING = ("vulkan", "webgpu", "hexagon")

C = """
{start}void add({input}const float *a, {input}const float *b, {input}float *y, int n) {{ {loop} y[i] = a[i] + b[i]; }}
{start}void square({input}const float *a, {input}float *y, int n) {{ {loop} y[i] = a[i] * a[i]; }}
{start}void scale({input}const float *a, {input}float *y, int n, float factor) {{ {loop} y[i] = a[i] * factor; }}
"""
OPENCL = C.format(start="kernel ", input="global ", loop="int i = get_global_id(0); if (i < n)")
HEXAGON = C.format(start="", input="", loop="for (int i = 0; i < n; i++)")
#: For each kernel of the shading languages: the arrays that it reads, its last scalar, and its
#: expression.
SHADERS = {
    "add": ("ab", "", "a[i] + b[i]"),
    "square": ("a", "", "a[i] * a[i]"),
    "scale": ("a", "factor", "a[i] * {}factor"),
}

BATCH = "20 prepared launches in a batch"
BOUND = "bound program"
CALLS = "20 general calls"
BATCHED = "20 general calls in a batch"
CALL = "program, general call"
NEW_CALLS = "20 general calls, new shapes"
NEW_CALL = "program, new shapes"
BEFORE = "20 prepared launches in a batch, before"
FIRST_CALL = "load and first call"
FIRST_BY_HAND = "load and first call by hand"
BOUND_NOW = "bound program, alone in a process"
WARM_UP = 5
TURN = 25
PAIRS = 5
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}

#: Load a file and print the milliseconds of processor time until the result, from the imports on.
FIRST = """
import time
began = time.process_time()
import sys
import numpy as np
import devmod
path, kind, n = sys.argv[1], sys.argv[2], 1024
x = np.linspace(0, 0.1, n, dtype=np.float32)
module = devmod.load(path)
{}
print((time.process_time() - began) * 1e3)
"""
SCRIPT_OF_PROGRAM = 'y = module["chain"](x, x, 0.5)'
SCRIPT_BY_HAND = """
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


def glsl(name: str) -> str:
    """Return a kernel in GLSL."""
    inputs, scalar, expression = SHADERS[name]
    buffers = "".join(
        f"layout(set = 0, binding = {place}) readonly buffer _{each} {{ float {each}[]; }};\n"
        for place, each in enumerate(inputs)
    )
    push = (
        "layout(push_constant) uniform Push { int n; "
        + (f"float {scalar}; " if scalar else "")
        + "};\n"
    )
    return (
        f"#version 450\nlayout(local_size_x = 64) in;\n{buffers}"
        f"layout(set = 0, binding = {len(inputs)}) writeonly buffer _y {{ float y[]; }};\n{push}"
        f"void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = {expression.format('')}; }}\n"
    )


def wgsl(name: str) -> str:
    """Return a kernel in WGSL."""
    inputs, scalar, expression = SHADERS[name]
    buffers = "".join(
        f"@group(0) @binding({place}) var<storage, read> {each}: array<f32>;\n"
        for place, each in enumerate(inputs)
    )
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
    modules = []
    for name in SHADERS:
        if kind == "vulkan":
            modules.append(devmod.compile(glsl(name), kind, name=name, language="GLSL"))
        else:
            modules.append(devmod.compile(wgsl(name), kind, language="WGSL"))
    return devmod.bundle(*modules)


def chain() -> list[tuple[str, dict[str, str]]]:
    """Return the kernel and the arrays of each launch. The last one writes y."""
    result = []
    current = "x"
    for number in range(BLOCKS):
        square = f"s{number}"
        scaled = f"t{number}"
        sum_ = f"u{number}"
        following = f"h{number}"
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
    """The chain as a user writes it: four temporaries, and a loop of launches, in a batch where
    that is faster.

    Parameters
    ----------
    kernels
        The kernels by name.
    device
        Where they run.
    most
        The length of the temporaries.
    """

    def __init__(self, kernels: Any, device: Any, most: int) -> None:
        self.device = device
        self.stream = device.default_stream
        self._threads = device.kind != "hexagon"
        one = device.empty(most, "float32")
        two = device.empty(most, "float32")
        even = device.empty(most, "float32")
        odd = device.empty(most, "float32")
        #: The function, the arrays by name or in order, and whether it takes the factor.
        self._launches: list[tuple[Any, list[Any], bool]] = []
        places = {"s": one, "t": two, "u": one}
        for kernel, names in chain():
            arrays = []
            for each in names.values():
                if each[0] != "h":
                    arrays.append(places.get(each[0], each))
                elif int(each[1:]) % 2:
                    arrays.append(odd)
                else:
                    arrays.append(even)
            self._launches.append((kernels[kernel], arrays, kernel == "scale"))

    def prepare(self, x: Any, weight: Any, y: Any, factor: float) -> Callable[[], None]:
        """Return a function that launches the prepared chain in a batch, and waits."""
        n = x.shape[0]
        named = {"x": x, "weight": weight, "y": y}
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
    program = module["chain"]
    hand = ByHand(module, device, N)
    host = np.linspace(0, 0.1, N, dtype=np.float32)
    factor = 0.5
    x = device.from_numpy(host)
    weight = device.from_numpy(host[::-1].copy())
    y = device.empty(N, "float32")
    bound = program.bind(x, weight, y=y)
    wanted = expected(host, host[::-1], factor)
    shorter = []
    for _ in range(2):
        for number in range(min(rounds + WARM_UP, N - 1)):
            length = N - 1 - number
            shorter.append((x[:length], weight[:length]))
    new = {"program": iter(shorter), "hand": iter(shorter)}
    wait = device.default_stream.synchronize

    def run_bound() -> None:
        bound()
        wait()

    def waited(
        call: Callable[..., Any], arguments: Callable[[], Any] = lambda: (x, weight)
    ) -> Callable[[], Any]:
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


def first_call(kind: str, files: Mapping[str, Path], rounds: int) -> bool:
    """Compare the load and the first call, each in a new process."""
    scripts = {FIRST_CALL: SCRIPT_OF_PROGRAM, FIRST_BY_HAND: SCRIPT_BY_HAND}
    works = {
        name: partial(_first, FIRST.format(script), files[name], kind)
        for name, script in scripts.items()
    }
    medians = in_turns(works, rounds)
    show(kind, medians, "ms")
    return report(kind, FIRST_CALL, medians, FIRST_BY_HAND, MOST_FIRST)


def _first(script: str, file: Path, kind: str) -> float:
    return in_new_process(script, file, kind)[0]


def memory_of_random_programs() -> None:
    """Print the memory of the temporaries of random programs, of the largest set that is alive at
    once.
    """
    numbers = random.Random(0)
    ratios = []
    for _ in range(200):
        steps = numbers.randint(2, 100)
        sizes = {}
        lifetimes = {}
        for number in range(numbers.randint(2, 60)):
            first = numbers.randrange(steps)
            sizes[str(number)] = numbers.randint(1, 1 << 20)
            lifetimes[str(number)] = first, min(first + int(numbers.expovariate(0.3)), steps - 1)
        ratios.append(memory_ratio(sizes, lifetimes))
    text = f"Temporaries of 200 random programs: median {statistics.median(ratios):.2f}, at most {max(ratios):.2f} of the largest set alive"
    print(text)
    note(f"{text}.")


def memory_ratio(sizes: Mapping[str, int], lifetimes: Mapping[str, tuple[int, int]]) -> float:
    """Return the bytes of the buffers of temporaries, of the largest set that is alive at once."""
    from devmod_runtime._program.temporaries import share

    most = 0
    for step, _ in lifetimes.values():
        alive = 0
        for name, (first, last) in lifetimes.items():
            if first <= step <= last:
                alive += sizes[name]
        most = max(most, alive)
    return sum(share(sizes, lifetimes)[1]) / most


def report_memory(
    what: str, program: Any, lengths: Mapping[str, int], most: float | None = MOST_MEMORY
) -> bool:
    """Report it for a program. Return whether it is over its bound."""
    from devmod_runtime._program.plan import Shapes

    shapes = Shapes(program.program, program.forms, program.lifetimes, dict(lengths), program.error)
    sizes = {name: shapes.nbytes[name] for name in program.lifetimes}
    ratio = memory_ratio(sizes, program.lifetimes)
    print(
        f"Temporaries of {what}: {ratio:.2f} of the largest set alive{f', at most {most}' if most else ''}"
    )
    return most is not None and check(
        f"temporaries of {what}", ratio, most, of="the largest set alive at once"
    )


class Transformer:
    """The step of the example: 76 launches, as a program and by hand.

    Parameters
    ----------
    kind
        The kind.
    folder
        For its files.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        project = Path(__file__).resolve().parents[2] / "examples" / "applications" / "transformer"
        sys.path.insert(0, str(project))
        from transformer import Config, add_model, new_text, random_weights  # type: ignore[import-not-found]

        target = next(
            each
            for each in tomllib.loads((project / "devmod.toml").read_text())["targets"]
            if each.split()[0] == kind
        )
        built = devmod.build(
            project, targets=[target], output=folder / f"{kind}-transformer.devmod"
        )
        built.raise_for_failures()
        config = Config()
        module = add_model(devmod.load(built.output), config, random_weights(config))
        self.program: Any = module["step"]
        self.device: Any = self.program.device
        self.stream = self.device.default_stream
        self.lengths = {"context": config.context, "prompt": 5}
        self.text: dict[str, Any] = new_text(self.program, config, (1, 5, 25, 125, 625))
        self.new_logits = partial(self.device.empty, config.vocabulary, "float32")
        self.bound = self.program.bind(**self.text, logits=self.new_logits())
        #: For each launch by hand the function, the arguments, where None is the logits, and the
        #: grid.
        self.launches: list[tuple[Any, list[Any], dict[str, Any]]] = []
        from devmod_runtime._program.plan import Shapes

        program = self.program
        shapes = Shapes(
            program.program, program.forms, program.lifetimes, dict(self.lengths), program.error
        )
        arrays: dict[str, Any] = {
            **program.constants,
            **self.text,
            **self.text["state"],
            "logits": None,
        }
        for name in program.lifetimes:
            arrays[name] = self.device.empty(
                shapes.lengths[name], program.program.declared[name].type
            )
        for step in program.steps:
            named = {**shapes.values, **arrays, **self.text}
            values = [step.value(each.value, named) for each in step.arguments]
            extent = {}
            if kind != "hexagon":
                dims = step.dims(shapes.values)[:3]
                words = zip(("grid", "block", "threads"), dims, strict=True)
                extent = {word: each for word, each in words if each is not None}
            self.launches.append((step.function, values, extent))

    def prepare(self) -> list[Any]:
        """Return the prepared launches."""
        logits = self.new_logits()
        prepared = []
        for function, values, extent in self.launches:
            arguments = [logits if each is None else each for each in values]
            prepared.append(function.bind(*arguments, **extent))
        return prepared

    def launch(self) -> Any:
        """Launch by general calls, and return the new logits."""
        logits = self.new_logits()
        for function, values, extent in self.launches:
            function(*(logits if each is None else each for each in values), **extent)
        return logits

    def timed(self, run: Callable[[], Any]) -> float:
        """Return the microseconds of the thread's processor time in which a step from the first
        position is queued.
        """
        self.text["position"].copy_from(np.zeros(1, np.int32))
        took = timed(run, time.thread_time) * 1e3
        self.stream.synchronize()
        return took


def transformer(kind: str, folder: Path, rounds: int) -> bool:
    """Measure the transformer's step, and return whether a figure is over its bound."""
    model = Transformer(kind, folder)
    prepared = model.prepare()

    def batch() -> None:
        with model.stream.batch():
            for launch in prepared:
                launch()

    def batch_of_calls() -> None:
        with model.stream.batch():
            model.launch()

    what = f"{kind}, transformer"
    batch_name = BATCH.replace("20", "76")
    calls = CALLS.replace("20", "76")
    in_batch = BATCHED.replace("20", "76")
    works = {
        batch_name: batch,
        BOUND: model.bound,
        calls: model.launch,
        CALL: lambda: model.program(**model.text),
    }
    if kind in BATCHING:
        works[in_batch] = batch_of_calls
    medians = in_turns({name: partial(model.timed, run) for name, run in works.items()}, rounds)
    show(what, medians)
    failed = report(what, BOUND, medians, batch_name, MOST_OF_BATCH)
    failed |= report(what, CALL, medians, calls, MOST_CALL.get(kind))
    if kind in BATCHING:
        report(what, CALL, medians, in_batch, None)
    for context, most in ((model.lengths["context"], None), (2048, MOST_MEMORY)):
        failed |= report_memory(
            f"the transformer, {context} tokens",
            model.program,
            model.lengths | {"context": context},
            most,
        )
    return failed


def driver_calls(kind: str) -> bool:
    """Count the calls of the driver in one call of a bound program, on the stand-in driver of CUDA
    or ROCm.
    """
    from vendor_driver import VendorDriver

    driver = VendorDriver(kind)
    if driver.on_hardware() or (reason := driver.missing()):
        print(
            f"{kind}: no calls counted: {'this is no stand-in driver' if driver.on_hardware() else reason}"
        )
        return False
    command = [sys.executable, __file__, "--count", kind]
    process = subprocess.run(
        command, env=driver.environment(), check=True, stdout=subprocess.PIPE, text=True
    )
    calls = json.loads(process.stdout)
    print(f"{kind}, calls of the driver for a bound program of 20 launches: {calls}")
    return (
        check(
            f"{kind}, launches of a bound program",
            calls["graphs"] + calls["launches"],
            1,
            of="one graph launch",
        )
        or calls["graphs"] != 1
    )


def count(kind: str) -> int:
    """Print the calls of the stand-in driver in one call of a bound program of 20 launches, as
    JSON.
    """
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
        steps=[
            devmod.step("add", a=one, b="x", c=two, n="n", threads="n", block=64)
            for one, two in pairwise(names)
        ],
    )["chain"]
    device: Any = devmod.device(kind)
    bound = program.bind(
        device.zeros(N, "float32"), y=device.empty(N, "float32"), stream=device.stream()
    )
    bound()
    before = {name: driver.calls(name) for name in driver.functions}
    bound()
    made = {name: driver.calls(name) - number for name, number in before.items()}
    graphs = made.pop("launch_graph")
    launches = made.pop("launch")
    print(
        json.dumps(
            {
                "graphs": graphs,
                "launches": launches,
                **{name: number for name, number in made.items() if number},
            }
        )
    )
    return 0


def show(what: str, medians: Mapping[str, float], unit: str = "µs") -> None:
    """Print times."""
    for name, median in medians.items():
        print(f"{what:20} {name:40} {median:9.1f} {unit}")


def report(
    what: str, name: str, medians: Mapping[str, float], base: str, most: float | None
) -> bool:
    """Print the ratio of two times, and record it if it has a bound. Return whether it is over the
    bound.
    """
    ratio = medians[name] / medians[base]
    over = most is not None and check(f"{what}, {name}", ratio, most, of=base)
    print(
        f"{what:20} {name:40} {ratio:9.2f} of {base}{f', at most {most:g}' if most else ''}{'  over' * over}",
        flush=True,
    )
    return over


def serve(kind: str, file: str, clock: str) -> int:
    """Launch the chain `TURN` times for each line of the input, and print the median of the
    microseconds.

    A file with the program runs it, bound. Another one has the kernels alone: the launches are
    prepared, and run in a batch.
    """
    module = devmod.load(file)
    device: Any = devmod.device(kind)
    x, weight, y = (device.from_numpy(np.zeros(N, np.float32)) for _ in range(3))
    if "chain" in module:
        bound = module["chain"].bind(x, weight, y=y)
        wait = device.default_stream.synchronize

        def run() -> None:
            bound()
            wait()

    else:
        run = ByHand(module, device, N).prepare(x, weight, y, 0.5)
    for _ in range(TURN):
        run()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(statistics.median(timed(run, CLOCKS[clock]) for _ in range(TURN)) * 1e3, flush=True)
    return 0


class Process:
    """A process of `serve`."""

    def __init__(self, python: str, kind: str, file: Path, clock: str) -> None:
        command = [python, __file__, "--serve", kind, str(file), clock]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=file.parent
        )
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
    """Return the median of each contender over the rounds. Each round runs all of them, in an order
    of its own.
    """
    durations: dict[str, list[float]] = {name: [] for name in works}
    order = list(works)
    for round_ in range(rounds + WARM_UP):
        random.shuffle(order)
        for name in order:
            took = works[name]()
            if round_ >= WARM_UP:
                durations[name].append(took)
    return medians_of(durations)


def against_before(
    kind: str, file: Path, plain: Path, rounds: int, before: str, clock: str
) -> dict[str, float]:
    """Return the times of the bound program and of the batch of another devmod: the medians of
    several pairs of processes.
    """
    results: dict[str, list[float]] = {BOUND_NOW: [], BEFORE: []}
    for _ in range(PAIRS):
        processes = {
            BOUND_NOW: Process(sys.executable, kind, file, clock),
            BEFORE: Process(before, kind, plain, clock),
        }
        for name, median in in_turns(
            {name: process.turn for name, process in processes.items()}, max(rounds // 8, 1)
        ).items():
            results[name].append(median)
        for process in processes.values():
            process.end()
    return medians_of(results)


def measure(kind: str, folder: Path, rounds: int, before: str, clock: str) -> bool:
    """Measure a kind, print its figures, and return whether one is over its bound."""
    kernels = kernels_of(kind)
    file = folder / f"{kind}.devmod"
    plain = folder / f"{kind}-kernels.devmod"
    devmod.save(program_of(kernels), file)
    devmod.save(kernels, plain)

    def microseconds(run: Callable[[], object]) -> float:
        return timed(run, CLOCKS[clock]) * 1e3

    medians = in_turns(
        {name: partial(microseconds, run) for name, run in contenders(kind, file, rounds).items()},
        rounds,
    )
    if before:
        medians |= against_before(kind, file, plain, rounds, before, clock)
    show(kind, medians)
    failed = False
    rows = [
        (BOUND, BATCH, MOST_OF_BATCH),
        *([(BOUND_NOW, BEFORE, MOST_OF_BEFORE[kind])] if before else []),
        (CALL, CALLS, MOST_CALL.get(kind)),
        *([(CALL, BATCHED, None)] if kind in BATCHING else []),
        (NEW_CALL, NEW_CALLS, MOST_NEW_SHAPES),
    ]
    for name, base, most in rows:
        failed |= report(kind, name, medians, base, most)
    failed |= report_memory("the chain", devmod.load(file)["chain"], {"n": N})
    failed |= transformer(kind, folder, max(rounds // 4, 1))
    failed |= first_call(kind, {FIRST_CALL: file, FIRST_BY_HAND: plain}, max(rounds // 5, 1))
    return failed


def main() -> int:
    """Measure, print, and return the exit code."""
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    if sys.argv[1:2] == ["--count"]:
        return count(*sys.argv[2:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--before", default="")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    memory_of_random_programs()
    failed = False
    for vendor in ("cuda", "rocm"):
        failed |= driver_calls(vendor)
    return int(
        each_kind(
            options.kinds,
            lambda kind, folder: measure(
                kind, folder, options.rounds, options.before, options.clock
            ),
        )
        or failed
    )


if __name__ == "__main__":
    sys.exit(main())
