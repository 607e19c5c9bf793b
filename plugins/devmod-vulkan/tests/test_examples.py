"""The GLSL examples, built, saved, loaded and run on a device, with the calls and the NumPy
references of the demo.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from guarded import check_lengths
from kind_programs import RANDOM, each_program
from profiled import check_busy_queue

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from cases import CASES  # noqa: E402


@pytest.fixture(
    scope="module", params=["slangpy", pytest.param("glslangValidator", marks=pytest.mark.volume)]
)
def module(request: pytest.FixtureRequest) -> devmod.Module:
    """The examples, compiled by the library of a wheel and by a program."""
    sources = sorted((REPOSITORY / "examples" / "vulkan").glob("*.comp"))
    try:
        made = [
            devmod.compile(source, "vulkan", options=f"--compiler={request.param}")
            for source in sources
        ]
        return devmod.loads(devmod.dumps(devmod.bundle(*made)))
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.row("R37")
@pytest.mark.parametrize("name", [name for name in CASES if name != "TVM's matmul"])
def test_example(name: str, module: devmod.Module, device: Any) -> None:
    case, _ = CASES[name]
    found = case(module, device, REPOSITORY)
    assert found.error <= found.tolerance


def test_a_guard_leaves_the_run_time_length_of_an_array(device: Any) -> None:
    source = """#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { uint x[]; };
void main() { x[0] = x.length(); }
"""
    check_lengths(device, source)


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
    program(device, "vulkan", tmp_path)


def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    """The driver's own time stamps are in command buffers of the test."""
    from devmod_vulkan._driver import array, ffi, make, vk  # opens the Vulkan loader

    logical, queue = device.logical, device.default_stream._queue
    pool = logical.create_owned(
        "vkCreateQueryPool",
        "VkQueryPool",
        make("VkQueryPoolCreateInfo", queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=16),
    )
    marks = []

    def mark() -> int:
        number = len(marks)
        (handle,) = logical.commands._command_buffers(1)
        logical.calls.vkBeginCommandBuffer(handle, make("VkCommandBufferBeginInfo"))
        logical.calls.vkCmdResetQueryPool(handle, pool, number, 1)
        logical.calls.vkCmdWriteTimestamp(
            handle, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, number
        )
        logical.calls.vkEndCommandBuffer(handle)
        submission = make(
            "VkSubmitInfo", commandBufferCount=1, pCommandBuffers=array("VkCommandBuffer", [handle])
        )
        assert logical.calls.vkQueueSubmit(queue, 1, submission, ffi.NULL) == 0
        marks.append(submission)
        return number

    def between(earlier: int, later: int) -> float:
        values = ffi.new("uint64_t[2]")
        for place, number in enumerate((earlier, later)):
            cell = values + place
            assert (
                logical.calls.vkGetQueryPoolResults(
                    logical.handle, pool, number, 1, 8, cell, 8, vk.VK_QUERY_RESULT_64_BIT
                )
                == 0
            )
        return float(values[1] - values[0]) * device.physical.timestamp_period * 1e-9

    check_busy_queue(device, "vulkan", 3000, tmp_path, mark, between, grid=256)
