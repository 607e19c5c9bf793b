"""Shaders that several tests use. devmod compiles them; if the compiler is missing, the tests skip
with its error as the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import devmod

ADD = """
#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Push { int n; };
layout(constant_id = 3) const float SCALE = 1.0;
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = SCALE * (a[i] + b[i]); }
""".strip()
TWICE = """
#version 450
layout(local_size_x = 4) in;
layout(binding = 0) buffer X { float x[]; };
void main() { x[gl_GlobalInvocationID.x] *= 2.0; }
""".strip()
#: Slow threads. (Mesa's CPU driver leaves any loop after 65,535 iterations.)
SLOW = """
#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform Push { uint n; };
void main() {
    uint value = x[gl_WorkGroupID.x];
    for (uint i = 0; i < n; i++) value = value * 1664525u + 1013904223u ^ (value >> 7);
    x[gl_WorkGroupID.x] = value;
}
""".strip()


@cache
def compiled(source: str, name: str = "k", target: str = "vulkan") -> devmod.Module:
    """Return the module of a GLSL text."""
    try:
        return devmod.compile(source.strip(), target, name=name, language="GLSL")
    except devmod.ToolchainNotFoundError as error:
        import pytest  # 0.3 s, which processes of tests need not take

        pytest.skip(str(error))


def fresh(source: str, name: str = "k", target: str = "vulkan") -> devmod.Module:
    """Return a new module of a GLSL text, with no pipeline built."""
    module: Any = compiled(source, name, target)
    return devmod.create("vulkan", module.code, "spv", module.functions)


def kernel(source: str, name: str = "k", target: str = "vulkan") -> devmod.Function:
    """Return the only function of a GLSL text."""
    return fresh(source, name, target)[name]


def shader(source: str, target: str = "vulkan") -> bytes:
    """Return the payload value of a GLSL text: flag, number of words, words."""
    module: Any = compiled(source, "k", target)
    return bytes(module.code["k"])


def words(source: str, target: str = "vulkan") -> bytes:
    """Return the SPIR-V of a GLSL text."""
    return shader(source, target)[12:]


def packed(spirv: bytes, flag: int = 0) -> bytes:
    """Return SPIR-V as a payload value."""
    return flag.to_bytes(4, "little") + (len(spirv) // 4).to_bytes(8, "little") + spirv


def adder() -> devmod.Module:
    """Return a new module with `add` and `twice`."""
    add: Any = compiled(ADD, "add")
    twice: Any = compiled(TWICE, "twice")
    return devmod.create(
        "vulkan", {**add.code, **twice.code}, "spv", {**add.functions, **twice.functions}
    )


def is_done(event: Any) -> bool:
    """Return whether the device has reached an event, without a wait."""
    from devmod_vulkan._driver import ffi

    logical, value = event.stream.logical, ffi.new("uint64_t *")
    logical.check(
        logical.calls.vkGetSemaphoreCounterValue(logical.handle, event.stream.semaphore, value), ""
    )
    return bool(value[0] >= event.value)


def free_command_buffers(device: Any) -> set[Any]:
    """Return the handles of the command buffers that the next recordings may use.

    Their number depends on other tests: interrupted recordings leave some that are not used again.
    """
    pool = device.logical.commands.recorders
    usable = []
    with suppress(IndexError):
        while commands := pool.take():
            if not commands.recording:
                usable.append(commands)
    pool.add(usable)
    return {commands.handle for commands in usable}


def is_memory_error(text: str, start: str, device: Any) -> bool:
    """Return whether the text of an error for too little memory is `start` and, if the driver
    reports its free memory, the two amounts.
    """
    end = ""
    if "VK_EXT_memory_budget" in device.physical.extensions:
        end = rf"; \d+ bytes are free of {device.memory}"
    return re.fullmatch(re.escape(start) + end, text) is not None


@contextmanager
def blocked(stream: Any) -> Iterator[None]:
    """Let the device wait before what is queued to a stream from here on, until the end of the
    body.
    """
    from devmod_vulkan._device import VulkanEvent
    from devmod_vulkan._driver import make

    gate, logical = stream.device.stream(), stream.logical
    value = gate._value + 1
    stream.wait(VulkanEvent(gate, value, None))
    try:
        yield
    finally:
        info = make("VkSemaphoreSignalInfo", semaphore=gate.semaphore, value=value)
        assert logical.calls.vkSignalSemaphore(logical.handle, info) == 0
