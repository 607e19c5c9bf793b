"""The host's time of an OpenCL launch: devmod's prepared launch, general call and call by keywords
beside pyopencl's own. In "other numbers" each call has other numbers than the one before; in the
other calls they are the same, and devmod does not set them again. "On an adopted queue" is the
queue of the pyopencl calls, by `devmod.device(queue)`, with devmod's arrays or pyopencl's buffers.
"Followed" is a function for Vulkan that follows its arrays to OpenCL, beside that of `f.on`.

    python tools/benchmarks/bench_launch_opencl.py [--rounds 101] [--launches 100]

The kernels take 1 to 32 arguments, with names and types as in the kernels of ggml: float buffers,
offsets of 64 bits, sizes, a float. The scalar types of pyopencl's ``kernel(queue, …)`` are
declared, which is its fastest way. A prepared launch is beside ``enqueue_nd_range_kernel``, whose
arguments were set before. Each round runs every contender once. While one is measured, a user event
holds its queue. The launches then wait in the queue, and the device's work is not in the time:
PoCL's threads are on the same cores. The figures are medians over the rounds.

Recording: the same launches in `devmod.profile(device_times=False)`, by turns with those without
it. The figure is what the profile adds.

Threads: each calls the kernel of four arguments on a queue of its own. With pyopencl each has a
kernel object of its own, because clSetKernelArg is not thread-safe; with devmod all call one
function. The figure is devmod's throughput, of pyopencl's with as many threads.

The exit code is 1 if a figure exceeds its bound.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
from timing import check, medians_of

import devmod

N = 64
PYOPENCL = "pyopencl, kernel(queue, …)"
ENQUEUE = "pyopencl, enqueue_nd_range_kernel"
PREPARED = "devmod, prepared"
GENERAL = "devmod, general call"
KEYWORDS = "devmod, call by keywords"
OTHERS = "devmod, call, other numbers"
ADOPTED_PREPARED = "devmod, prepared on an adopted queue"
ADOPTED = "devmod, general call on an adopted queue"
BUFFERS = "devmod, buffers on an adopted queue"
ON_DEVICE = "devmod, f.on(device)"
FOLLOWED = "devmod, followed from Vulkan"
#: For each number of arguments: the buffers, 64-bit offsets, ints and floats, and the most that the
#: general call, that by keywords and that with other numbers take. On one machine the general call
#: took 0.85 to 1.28 of pyopencl's, that by keywords 1.1 to 1.3, and that with other numbers 1.15 to
#: 1.36; another one has a tenth more.
SHAPES = {
    1: ((1, 0, 0, 0), 1.45, 1.45, None),
    4: ((3, 0, 1, 0), 1.45, 1.55, 1.45),
    8: ((3, 0, 4, 1), 1.4, 1.5, 1.55),
    16: ((3, 3, 9, 1), 1.25, 1.4, 1.4),
    32: ((3, 3, 25, 1), 1.1, 1.35, 1.3),
}
#: A prepared launch took 1.05 to 1.11 of pyopencl's. On Intel's runtime, 0.7 of the 0.9 µs are the
#: driver's own.
MOST_PREPARED = 1.25
#: A prepared launch on an adopted queue took 0.5 of pyopencl's typed call, and a general call there
#: 0.88 to 1.07 on Python 3.11 to 3.13. With buffers of pyopencl it took 1.7 to 2, since it asks
#: each for its context.
MOST_ADOPTED = 1.1
MOST_ADOPTED_CALL = 1.1
MOST_BUFFERS = 2.4
#: Of the call of `f.on(device)`. It took 0.99 to 1.01.
MOST_FOLLOWED = 1.06
THREADS = (1, 2, 4, 8)
#: The most that the record of a launch adds, of pyopencl's launch with as many arguments. Both are
#: a few steps of Python.
MOST_RECORDING = 2.0
#: pyopencl's throughput of devmod's, at most.
MOST_THREADS = 1.8


class Contenders(NamedTuple):
    """What is measured of one kernel: the queues and the loops of launches by name. Intel's queues
    do not keep their context.
    """

    context: cl.Context
    loops: dict[str, tuple[cl.CommandQueue, Callable[[int], None]]]
    function: Any
    arguments: list[Any]
    source: str


def params_of(buffers: int, offsets: int, sizes: int, floats: int) -> list[tuple[str, str]]:
    """Return the type and the name of each parameter."""
    params = _numbered("global const float *", "src", buffers - 1)
    params.append(("global float *", "dst"))
    params += _numbered("ulong ", "offset", offsets)
    params += [("int ", f"ne{number // 4}{number % 4}") for number in range(sizes)]
    return params + _numbered("float ", "scale", floats)


def _numbered(type_name: str, name: str, count: int) -> list[tuple[str, str]]:
    return [(type_name, f"{name}{number}") for number in range(count)]


def call_loop(
    call: Callable[..., object],
    arguments: Sequence[Any],
    keywords: dict[str, Any],
    others: Sequence[Any] = (),
) -> Callable[[int], None]:
    """Return a loop of calls with the arguments as variables, as a program writes them. Each second
    call has `others` in their place.
    """
    # `call(*arguments)` would pass a tuple that exists already, and a look-up for each keyword has
    # the time of what the call does for it.
    values = [*arguments, *keywords.values(), *others]
    variables = [f"a{number}" for number in range(len(values))]
    count = len(arguments)
    named = []
    for name, variable in zip(keywords, variables[count:], strict=False):
        named.append(f"{name}={variable}")
    calls = [f"call({', '.join(variables[:count] + named)})"]
    if others:
        calls.append(f"call({', '.join(variables[-count:] + named)})")
    text = (
        f"def loop(launches):\n    {', '.join(variables)}, = values\n"
        f"    for _ in range(launches // {len(calls)}):\n        {'; '.join(calls)}\n"
    )
    space: dict[str, Any] = {"call": call, "values": values}
    exec(text, space)
    loop: Callable[[int], None] = space["loop"]
    return loop


def contenders(shape: tuple[int, int, int, int]) -> Contenders:
    """Return the contenders for a kernel."""
    params = params_of(*shape)
    source = (
        f"kernel void kernel_op({', '.join(map(''.join, params))}) {{ dst[get_global_id(0)] = 1; }}"
    )
    function: Any = devmod.compile(source, "opencl")["kernel_op"]
    device: Any = devmod.device("opencl")
    buffers, offsets, sizes, floats = shape
    numbers = [
        *range(0, 8 * offsets, 8),
        *range(3, 3 + sizes),
        *(0.5 + each for each in range(floats)),
    ]
    ours = [*(device.from_numpy(np.ones(N, np.float32)) for _ in range(buffers)), *numbers]
    prepared = function.bind(*ours, grid=1, block=N)

    context = cl.Context([device.handle])
    queue = cl.CommandQueue(context)
    kernel = kernel_of(context, source, shape)
    theirs = [
        *(cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * N) for _ in range(buffers)),
        *numbers,
    ]
    kernel.set_args(*theirs)

    def call_prepared(launches: int) -> None:
        for _ in range(launches):
            prepared()

    launch = {"grid": 1, "block": N}
    own_queue = device.default_stream.queue
    loops = {
        PYOPENCL: (queue, call_loop(kernel, [queue, (N,), (N,), *theirs], {})),
        ENQUEUE: (queue, call_loop(cl.enqueue_nd_range_kernel, [queue, kernel, (N,), (N,)], {})),
        PREPARED: (own_queue, call_prepared),
        GENERAL: (own_queue, call_loop(function, ours, launch)),
        KEYWORDS: (
            own_queue,
            call_loop(
                function,
                [],
                {name: value for (_, name), value in zip(params, ours, strict=True)} | launch,
            ),
        ),
    }
    adopted = devmod.device(queue)
    on_adopted = function.on(adopted)
    arrays = [*(adopted.from_numpy(np.ones(N, np.float32)) for _ in range(buffers)), *numbers]
    adopted_prepared = on_adopted.bind(*arrays, grid=1, block=N)

    def call_adopted(launches: int) -> None:
        for _ in range(launches):
            adopted_prepared()

    loops[ADOPTED_PREPARED] = (queue, call_adopted)
    loops[ADOPTED] = (queue, call_loop(on_adopted, arrays, launch))
    takes_buffers: Any = devmod.compile(source, "opencl")["kernel_op"].on(adopted)
    loops[BUFFERS] = (queue, call_loop(takes_buffers, theirs, launch))
    if numbers:
        others = [*ours[:buffers], *(each + 1 for each in numbers)]
        loops[OTHERS] = (own_queue, call_loop(function, ours, launch, others))
    return Contenders(context, loops, function, ours, source)


def kernel_of(context: cl.Context, source: str, shape: tuple[int, int, int, int]) -> Any:
    """Return a kernel of pyopencl with its declared types."""
    buffers, offsets, sizes, floats = shape
    kernel: Any = cl.Kernel(cl.Program(context, source).build(), "kernel_op")
    kernel.set_scalar_arg_dtypes(
        [None] * buffers + [np.uint64] * offsets + [np.int32] * sizes + [np.float32] * floats
    )
    return kernel


def launch_time(queue: cl.CommandQueue, loop: Callable[[int], None], launches: int) -> float:
    """Return the microseconds of one launch, the mean of so many."""
    hold = cl.UserEvent(queue.context)
    cl.enqueue_barrier(queue, wait_for=[hold])
    start = time.perf_counter()
    loop(launches)
    took = time.perf_counter() - start
    hold.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    return took / launches * 1e6


def launches_of(arguments: int, rounds: int, launches: int) -> bool:
    """Measure a kernel with so many arguments and print its lines. Return whether a bound is
    exceeded.
    """
    shape, general, keywords, others = SHAPES[arguments]
    measured = contenders(shape)
    durations: dict[str, list[float]] = defaultdict(list)
    for round_ in range(rounds + 2):
        for name, (queue, loop) in measured.loops.items():
            took = launch_time(queue, loop, launches)
            if round_ >= 2:  # the first two warm up
                durations[name].append(took)
    medians = medians_of(durations)
    missed = False
    print(f"\n{f'{arguments} arguments':<41} {'µs':>7} {'ratio':>6} {'most':>5}")
    rows = (
        (PYOPENCL, None),
        (ENQUEUE, None),
        (PREPARED, MOST_PREPARED),
        (GENERAL, general),
        (KEYWORDS, keywords),
        (OTHERS, others),
        (ADOPTED_PREPARED, MOST_ADOPTED),
        (ADOPTED, MOST_ADOPTED_CALL),
        (BUFFERS, MOST_BUFFERS),
    )
    for name, most in rows:
        if name not in medians:
            continue
        peer = ENQUEUE if name == PREPARED else PYOPENCL
        ratio = medians[name] / medians[peer]
        over = most is not None and check(
            f"OpenCL, {name[8:]}, {arguments} arguments", ratio, most, of=peer
        )
        missed |= over
        print(
            f"{name:<41} {medians[name]:7.2f} {ratio:6.2f} {most if most is not None else '':>5}{'  over' if over else ''}"
        )
    return missed


def followed(rounds: int, launches: int) -> bool:
    """Measure a call that follows its arrays to OpenCL. Return whether the bound is exceeded."""
    source = "kernel void scale(global float *x, float a, int n) { if (get_global_id(0) < n) x[get_global_id(0)] *= a; }"
    kinds = ("vulkan", "opencl")
    modules = [devmod.compile(source, each, language="OpenCL C", block=N) for each in kinds]
    function: Any = devmod.bundle(*modules)["scale"]
    device: Any = devmod.device("opencl")
    arguments = [device.from_numpy(np.ones(N, np.float32)), 1.0, N]
    loops = {
        ON_DEVICE: call_loop(function.on(device), arguments, {"threads": N}),
        FOLLOWED: call_loop(function, arguments, {"threads": N}),
    }
    durations: dict[str, list[float]] = defaultdict(list)
    for round_ in range(rounds + 2):
        for name, loop in loops.items():
            took = launch_time(device.default_stream.queue, loop, launches)
            if round_ >= 2:  # the first two warm up
                durations[name].append(took)
    medians = medians_of(durations)
    ratio = medians[FOLLOWED] / medians[ON_DEVICE]
    over = check("OpenCL, a call that follows from Vulkan", ratio, MOST_FOLLOWED, of=ON_DEVICE)
    print(
        f"\n{FOLLOWED:<41} {medians[FOLLOWED]:7.2f} {ratio:6.2f} {MOST_FOLLOWED:>5}{'  over' * over}"
    )
    return over


def recording_of(arguments: int, rounds: int, launches: int) -> bool:
    """Measure what a profile adds to launches with so many arguments. Return whether the bound is
    exceeded.
    """
    measured = contenders(SHAPES[arguments][0])
    missed = False
    for name in (PREPARED, GENERAL):
        queue, loop = measured.loops[name]
        peer = ENQUEUE if name == PREPARED else PYOPENCL
        added = []
        units = []
        for _ in range(rounds):
            units.append(launch_time(*measured.loops[peer], launches))
            alone = launch_time(queue, loop, launches)
            with devmod.profile(device_times=False):
                loop(1)  # the first call in a profile prepares the next ones
                added.append(launch_time(queue, loop, launches) - alone)
        took = statistics.median(added)
        ratio = took / statistics.median(units)
        over = check(
            f"OpenCL, recording of {name[8:]}, {arguments} arguments",
            ratio,
            MOST_RECORDING,
            of=peer,
        )
        missed |= over
        print(
            f"{f'recorded {name[8:]}, {arguments} arguments':<38} {took:5.2f} µs more, {ratio:.2f} (most {MOST_RECORDING}){'  over' * over}"
        )
    return missed


def throughput(
    threads: int,
    launches: int,
    queues: Sequence[cl.CommandQueue],
    loops: Sequence[Callable[[int], None]],
) -> float:
    """Return the launches in a microsecond of so many threads, while events hold their queues."""
    holds = [cl.UserEvent(queue.context) for queue in queues]
    for queue, hold in zip(queues, holds, strict=True):
        cl.enqueue_barrier(queue, wait_for=[hold])
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: time.sleep(0.001), range(threads)))  # the threads have started
        start = time.perf_counter()
        list(pool.map(lambda loop: loop(launches), loops))
        took = time.perf_counter() - start
    for queue, hold in zip(queues, holds, strict=True):
        hold.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()
    return threads * launches / took * 1e-6


def threads_of(rounds: int, launches: int) -> bool:
    """Measure calls from several threads and print a line for each number. Return whether a bound
    is exceeded.
    """
    shape = SHAPES[4][0]
    *_, function, arguments, source = contenders(shape)
    device: Any = devmod.device("opencl")
    context = cl.Context([device.handle])
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * N) for _ in range(shape[0])]
    our_queues = []
    their_queues = []
    ours = []
    theirs = []
    for _ in range(max(THREADS)):
        stream = device.stream()
        our_queues.append(stream.queue)
        ours.append(call_loop(function, arguments, {"grid": 1, "block": N, "stream": stream}))
        queue = cl.CommandQueue(context)
        kernel = kernel_of(context, source, shape)
        given = [queue, (N,), (N,), *buffers, *arguments[shape[0] :]]
        their_queues.append(queue)
        theirs.append(call_loop(kernel, given, {}))
    missed = False
    print(f"\n{'threads':<28} {'pyopencl':>9} {'devmod':>9}  launches in a µs")
    for threads in THREADS:
        figures: dict[str, list[float]] = {"pyopencl": [], "devmod": []}
        for round_ in range(rounds + 1):
            their = throughput(threads, launches, their_queues[:threads], theirs[:threads])
            our = throughput(threads, launches, our_queues[:threads], ours[:threads])
            if round_:
                figures["pyopencl"].append(their)
                figures["devmod"].append(our)
        their = statistics.median(figures["pyopencl"])
        our = statistics.median(figures["devmod"])
        over = check(
            f"OpenCL, pyopencl's launches in a µs from {threads} threads",
            their / our,
            MOST_THREADS,
            of="devmod's",
        )
        missed |= over
        print(
            f"{threads:<28} {their:9.3f} {our:9.3f}  devmod has {our / their:.2f} of pyopencl's{'  over' if over else ''}"
        )
    return missed


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--launches", type=int, default=100)
    options = parser.parse_args()
    missed = False
    for arguments in SHAPES:
        missed |= launches_of(arguments, options.rounds, options.launches)
    missed |= followed(options.rounds, options.launches)
    for arguments in (4, 8, 16):
        missed |= recording_of(arguments, options.rounds, options.launches)
    missed |= threads_of(max(options.rounds // 5, 3), 5 * options.launches)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
