"""The WGSL examples, built, saved, loaded and run on a device, with the calls and the NumPy
references of the demo.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guarded import check_lengths
from kind_programs import RANDOM, each_program
from profiled import check_busy_queue

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import compile_kind  # noqa: E402
from cases import CASES  # noqa: E402


@pytest.fixture(scope="module")
def module() -> devmod.Module:
    return devmod.loads(
        devmod.dumps(devmod.bundle(*(made for _, made in compile_kind(REPOSITORY, "webgpu"))))
    )


@pytest.mark.row("R37")
@pytest.mark.parametrize("name", CASES)
def test_example(name: str, module: devmod.Module, device: Any) -> None:
    case, _ = CASES[name]
    found = case(module, device, REPOSITORY)
    assert found.error <= found.tolerance


def test_the_tile_is_an_override(device: Any) -> None:
    f = devmod.compile(REPOSITORY / "examples" / "webgpu" / "matmul.wgsl", "webgpu")[
        "matmul_tiled"
    ].specialize(TILE=8)
    a, b = np.random.default_rng(0).random((2, 30, 30), "float32")
    c = np.zeros((30, 30), "float32")
    f(a=a, b=b, c=c, m=30, n=30, k=30, threads=(30, 30))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_a_guard_leaves_the_run_time_length_of_an_array(device: Any) -> None:
    source = """@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1) fn count() { x[0] = arrayLength(&x); }
"""
    check_lengths(device, source)
    check_lengths(
        device, source.replace("arrayLength(&x)", "arrayLength /* of the array */ (// x\n & x)")
    )
    # A pointer that is a variable may be to any array.
    check_lengths(
        device, source.replace("x[0] = arrayLength(&x);", "let p = &x; x[0] = arrayLength(p);")
    )
    check_lengths(
        device, source.replace("x[0] = arrayLength(&x);", "let p = &x; x[0] = arrayLength(&*p);")
    )


@each_program(
    "one source",
    "transformer",
    "pictures",
    "guard",
    "profile",
    "entry points",
    "parameters",
    "matrices",
    "images",
    *RANDOM,
)
def test_programs(program: Any, device: Any, tmp_path: Path) -> None:
    program(device, "webgpu", tmp_path)


def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    gpu = device.gpu
    queries = gpu.create_query_set(type="timestamp", count=16)
    marks = []

    def mark() -> int:
        encoder = gpu.create_command_encoder()
        encoder.begin_compute_pass(
            timestamp_writes={"query_set": queries, "beginning_of_pass_write_index": len(marks)}
        ).end()
        gpu.queue.submit([encoder.finish()])
        marks.append(encoder)
        return len(marks) - 1

    from devmod_webgpu._driver import timestamp_period  # starts the driver

    def between(earlier: int, later: int) -> float:
        buffer = gpu.create_buffer(size=16 * 8, usage="COPY_SRC|QUERY_RESOLVE")
        encoder = gpu.create_command_encoder()
        encoder.resolve_query_set(queries, 0, len(marks), buffer, 0)
        gpu.queue.submit([encoder.finish()])
        ticks = gpu.queue.read_buffer(buffer).cast("Q")
        return (ticks[later] - ticks[earlier]) * timestamp_period(gpu.queue) * 1e-9

    check_busy_queue(device, "webgpu", 3000, tmp_path, mark, between, grid=256)
