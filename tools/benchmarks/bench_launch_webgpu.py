"""The host's time of a WebGPU launch: devmod's prepared launch and its general call beside wgpu
alone.

    python tools/benchmarks/bench_launch_webgpu.py [--rounds 101] [--launches 50]

The kernel adds 64 floats and takes three buffers and a number. For wgpu alone the pipeline, the
bind group and the uniform buffer with the number are prepared. An encoder, a pass, the dispatch and
the submission remain, because a command buffer of WebGPU can be submitted once. "wgpu, new bind
group" also writes the number and makes the bind group, as a call with other arguments must.
devmod's general call has the number of the call before, or another one each time. "In a batch" is a
body of `stream.batch()` with all the launches of a round, beside one pass of wgpu with as many.
Each round runs every contender on one device, in an order of its own. The queue is drained before
and after each contender, outside the measured time. (On lavapipe the device's work is on the same
cores, and it is the same for all.) The figures are medians over the rounds. The exit code is 1 if a
ratio is over its bound.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from timing import check, medians_of

import devmod

SOURCE = """
struct Scalars { n: u32 }
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<uniform> scalars: Scalars;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3u) {
    if id.x < scalars.n {
        c[id.x] = a[id.x] + b[id.x];
    }
}
"""
N = 64
BARE = "wgpu, everything prepared"
NEW_GROUP = "wgpu, new bind group"
BARE_PASS = f"{BARE}, in one pass"
NEW_GROUPS_PASS = "wgpu, new bind groups, in one pass"
#: The most that the ratio of a contender's time to another's may be, and that other contender.
MOST = {
    "devmod, prepared": (1.1, BARE),
    "devmod, general call": (1.1, NEW_GROUP),
    # 5 µs of 3.3: a launch is gathered, and encoded at the end.
    "devmod, prepared, in a batch": (1.9, BARE_PASS),
    "devmod, general, in a batch": (1.45, NEW_GROUPS_PASS),
}


def contenders() -> tuple[devmod.Device, dict[str, Callable[[int], None]]]:  # noqa: C901, PLR0915 - each shares objects of wgpu with the next
    """Return the device, and the loops of launches by name."""
    device: Any = devmod.device("webgpu")
    import wgpu

    function = devmod.compile(SOURCE, "webgpu")["add"]
    ones = np.ones(N, "float32")
    a = device.from_numpy(ones)
    b = device.from_numpy(ones)
    c = device.from_numpy(ones)
    prepared = function.bind(a, b, c, N, grid=1)

    gpu = device.gpu
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC
    buffers = [gpu.create_buffer(size=4 * N, usage=usage) for _ in range(3)]
    scalars = gpu.create_buffer(size=16, usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST)
    gpu.queue.write_buffer(scalars, 0, np.uint32(N).tobytes())
    types = ("read-only-storage", "read-only-storage", "storage", "uniform")
    layout = gpu.create_bind_group_layout(
        entries=[
            {"binding": place, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": each}}
            for place, each in enumerate(types)
        ]
    )
    pipeline = gpu.create_compute_pipeline(
        layout=gpu.create_pipeline_layout(bind_group_layouts=[layout]),
        compute={"module": gpu.create_shader_module(code=SOURCE), "entry_point": "add"},
    )

    def bind(*resources: Any) -> Any:
        return gpu.create_bind_group(
            layout=layout,
            entries=[{"binding": place, "resource": each} for place, each in enumerate(resources)],
        )

    group = bind(*buffers, scalars)

    # A loop of its own for each, as a program would write it.
    def call_wgpu(launches: int) -> None:
        for _ in range(launches):
            encoder = gpu.create_command_encoder()
            run = encoder.begin_compute_pass()
            run.set_pipeline(pipeline)
            run.set_bind_group(0, group)
            run.dispatch_workgroups(1)
            run.end()
            gpu.queue.submit([encoder.finish()])

    def call_wgpu_with_new_group(launches: int) -> None:
        for _ in range(launches):
            gpu.queue.write_buffer(scalars, 0, N.to_bytes(4, "little"))
            encoder = gpu.create_command_encoder()
            run = encoder.begin_compute_pass()
            run.set_pipeline(pipeline)
            run.set_bind_group(0, bind(*buffers, scalars))
            run.dispatch_workgroups(1)
            run.end()
            gpu.queue.submit([encoder.finish()])

    def call_wgpu_in_one_pass(launches: int) -> None:
        encoder = gpu.create_command_encoder()
        run = encoder.begin_compute_pass()
        run.set_pipeline(pipeline)
        for _ in range(launches):
            run.set_bind_group(0, group)
            run.dispatch_workgroups(1)
        run.end()
        gpu.queue.submit([encoder.finish()])

    #: A pass has all launches, so each number needs a buffer of its own.
    numbers: list[Any] = []

    def call_wgpu_with_new_groups_in_one_pass(launches: int) -> None:
        while len(numbers) < launches:
            numbers.append(
                gpu.create_buffer(
                    size=16, usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
                )
            )
        encoder = gpu.create_command_encoder()
        run = encoder.begin_compute_pass()
        run.set_pipeline(pipeline)
        for number in range(launches):
            gpu.queue.write_buffer(numbers[number], 0, (N - number % 8).to_bytes(4, "little"))
            run.set_bind_group(0, bind(*buffers, numbers[number]))
            run.dispatch_workgroups(1)
        run.end()
        gpu.queue.submit([encoder.finish()])

    def call_prepared(launches: int) -> None:
        for _ in range(launches):
            prepared()

    def call_devmod(launches: int) -> None:
        for _ in range(launches):
            function(a, b, c, N, grid=1)

    def call_devmod_with_other_numbers(launches: int) -> None:
        for number in range(launches):
            function(a, b, c, N - number % 8, grid=1)

    def call_in_batch(call: Callable[[int], None], launches: int) -> None:
        with device.default_stream.batch():
            call(launches)

    return device, {
        BARE: call_wgpu,
        NEW_GROUP: call_wgpu_with_new_group,
        BARE_PASS: call_wgpu_in_one_pass,
        NEW_GROUPS_PASS: call_wgpu_with_new_groups_in_one_pass,
        "devmod, prepared": call_prepared,
        "devmod, general call": call_devmod,
        "devmod, another number each": call_devmod_with_other_numbers,
        "devmod, prepared, in a batch": partial(call_in_batch, call_prepared),
        "devmod, general, in a batch": partial(call_in_batch, call_devmod_with_other_numbers),
    }


def launch_time(device: devmod.Device, loop: Callable[[int], None], launches: int) -> float:
    """Return the microseconds of one launch, the mean of so many."""
    device.synchronize()
    start = time.perf_counter()
    loop(launches)
    took = time.perf_counter() - start
    device.synchronize()
    return took / launches * 1e6


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--launches", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # Mesa prints a warning without it
        device, result = contenders()
        durations: dict[str, list[float]] = {name: [] for name in result}
        order = list(result)
        for round_ in range(options.rounds + 2):
            # The order changes a time by a tenth: a contender finds wgpu's queue and caches as the
            # one before it left them.
            random.Random(round_).shuffle(order)
            for name in order:
                took = launch_time(device, result[name], options.launches)
                if round_ >= 2:  # the first two warm up
                    durations[name].append(took)
    medians = medians_of(durations)
    missed = False
    print(f"{'launch':<34} {'µs':>7}  ratios   on {device.name}")
    for name, median in medians.items():
        ratios = ", ".join(f"{median / medians[unit]:.2f} of {unit}" for unit in (BARE, NEW_GROUP))
        most, unit = MOST.get(name, (None, BARE))
        over = most is not None and check(
            f"WebGPU, {name.removeprefix('devmod, ')}", median / medians[unit], most, of=unit
        )
        missed |= over
        bound = "" if most is None else f"; at most {most:g} of {unit}{'  over' * over}"
        print(f"{name:<34} {median:7.2f}  {ratios}{bound}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
