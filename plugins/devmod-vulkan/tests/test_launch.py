"""Launching on a real device: arguments of every kind, limits, streams, events, batches."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import (
    check_scalar,
    host_arrays,
    run_in_threads,
    run_python,
)
from each_case import refusal
from vulkan_kernels import (
    ADD,
    SLOW,
    TWICE,
    blocked,
    free_command_buffers,
    is_done,
    is_memory_error,
    kernel,
    packed,
    shader,
    words,
)

import devmod
from devmod import Block, FunctionInfo, Interface, Param

EXPLICIT = """
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
"""


# -- arguments


#: The capability that a type in a buffer needs.
_NEEDED = {
    "int8": "StorageBuffer8BitAccess",
    "int16": "StorageBuffer16BitAccess",
    "int64": "Int64",
    "float16": "Float16",
    "float64": "Float64",
}


@pytest.mark.row("R34")
@pytest.mark.parametrize("place", ["push_constant", "binding = 1"])
@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
    ],
)
def test_scalars_and_elements_of_every_type(dtype: str, place: str, device: Any) -> None:
    bits = "".join(each for each in dtype if each.isdigit())
    if _NEEDED.get(dtype.removeprefix("u"), "") not in device.arch:
        pytest.skip(f"the device has no {dtype}")
    if (
        place != "push_constant"
        and bits == "8"
        and "UniformAndStorageBuffer8BitAccess" not in device.arch
    ):
        pytest.skip("the device has no bytes in uniform blocks")
    name = {"u": "uint", "i": "int", "f": "float"}[dtype[0]] + bits + "_t"
    source = f"""{EXPLICIT}
        layout(local_size_x = 4) in;
        layout(binding = 0) buffer X {{ {name} x[]; }};
        layout({place}) uniform S {{ int before; {name} s; int behind; }};
        void main() {{ x[gl_GlobalInvocationID.x] = s; }}
    """
    f = kernel(source)
    assert [param.type for param in f.info.interface.params] == [dtype, "int32", dtype, "int32"]  # type: ignore[union-attr]
    check_scalar(lambda x, value: f(x, -1, value, -1, grid=1), dtype)


@pytest.mark.row("R34")
def test_bools_are_words(device: Any) -> None:
    source = """
        #version 450
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer X { uint x[]; };
        layout(push_constant) uniform P { bool first; bool second; };
        void main() { x[0] = (first ? 1 : 0) + (second ? 2 : 0); }
    """
    params = [
        Param("x", "buffer", "uint32", "rw", (0, 0)),
        Param("first", "scalar", "bool", at=(0, 0)),
        Param("second", "scalar", "bool", at=(0, 4)),
    ]
    info = FunctionInfo(
        "main", ["handle", "bool", "bool"], (), (), Interface(params, [Block("push", 8)], (1, 1, 1))
    )
    f = devmod.create("vulkan", {"k": shader(source)}, "spv", {"k": info})["k"]
    for first in (False, True):
        for second in (False, np.bool_(True)):
            x = np.full(1, 9, "uint32")
            f(x, first, second, grid=1)
            assert x[0] == first + 2 * bool(second)


@pytest.mark.row("R34")
@pytest.mark.parametrize("place", ["push_constant", "set = 0, binding = 1"])
def test_three_vectors_take_twelve_bytes_in_blocks(place: str, device: Any) -> None:
    f = kernel(f"""
        #version 450
        layout(local_size_x = 1) in;
        layout(binding = 0) writeonly buffer X {{ float x[]; }};
        layout({place}) uniform P {{ vec3 v; float after; vec4 w; ivec2 i; }};
        void main() {{ x[0] = v.x + 10 * v.y + 100 * v.z; x[1] = after; x[2] = w.x + w.w; x[3] = i.x - i.y; }}
    """)
    x = np.zeros(4, "float32")
    f(x, (1, 2, 3), 7.5, np.array([1, 0, 0, 4], "float32"), (9, 2), grid=1)
    assert x.tolist() == [321, 7.5, 5, 7]


@pytest.mark.row("R34")
def test_uniform_blocks_as_bytes_and_buffers_of_structs(device: Any) -> None:
    f = kernel("""
        #version 450
        layout(local_size_x = 2) in;
        struct S { int a; float b; };
        layout(set = 2, binding = 1) buffer X { S s[]; };
        layout(set = 0, binding = 3) uniform M { mat4 m; float rest[2]; };
        void main() { s[gl_GlobalInvocationID.x].b += s[gl_GlobalInvocationID.x].a + m[3][1] + rest[1]; }
    """)
    assert [(param.kind, param.at) for param in f.info.interface.params] == [
        ("uniform", (0, 3)),
        ("buffer", (2, 1)),
    ]  # type: ignore[union-attr]
    block = np.zeros(24, "float32")
    block[3 * 4 + 1], block[16 + 4] = 10, 100
    records = np.array([(1, 0.5), (2, 0.25)], "i4,f4")
    f(block.tobytes(), records, grid=1)
    assert records.tolist() == [(1, 111.5), (2, 112.25)]


@pytest.mark.row("R34")
def test_several_sets_uniform_blocks_and_push_constants(device: Any) -> None:
    f = kernel("""
        #version 450
        layout(local_size_x = 4) in;
        layout(set = 3, binding = 7) readonly buffer A { int a[]; };
        layout(set = 1, binding = 2) writeonly buffer B { int b[]; };
        layout(set = 1, binding = 0) uniform U { int times; int plus; };
        layout(push_constant) uniform P { int minus; };
        void main() { uint i = gl_GlobalInvocationID.x; b[i] = a[i] * times + plus - minus; }
    """)
    a, b = np.arange(4, dtype="int32"), np.zeros(4, "int32")
    f(3, 100, b, a, 7, grid=1)  # by (set, binding), then push constants
    assert b.tolist() == [93, 96, 99, 102]
    x, y = device.from_numpy(a), device.from_numpy(b)
    launch = f.bind(2, 1, y, x, 0, grid=1)
    f(3, 100, y, x, 7, grid=1)
    assert y.numpy().tolist() == [93, 96, 99, 102]
    launch()
    assert y.numpy().tolist() == [1, 3, 5, 7]


def test_a_function_without_arguments(device: Any) -> None:
    f = kernel("#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}")
    f(grid=1)
    launch = f.bind(grid=1)
    launch()
    assert launch.time() >= 0
    g = kernel("""
        #version 450
        layout(local_size_x = 1) in;
        layout(push_constant) uniform P { int n; };
        shared int x;
        void main() { x = n; }
    """)
    g(3, grid=1)
    g.bind(3, grid=1)()
    device.synchronize()


def test_three_vectors_in_arrays_take_four_lanes(device: Any) -> None:
    f = kernel("""
        #version 450
        layout(local_size_x = 2) in;
        layout(binding = 0) buffer X { vec3 x[]; };
        void main() { x[gl_GlobalInvocationID.x] = x[gl_GlobalInvocationID.x].zyx; }
    """)
    x = np.arange(8, dtype="float32").reshape(2, 4)
    f(x, grid=1)
    assert x[:, :3].tolist() == [[2, 1, 0], [6, 5, 4]]


def test_empty_arrays_and_three_dimensions(device: Any) -> None:
    f = kernel("""
        #version 450
        layout(local_size_x = 2) in;
        layout(binding = 0) buffer X { int x[]; };
        layout(push_constant) uniform P { int w; };
        void main() {
            uvec3 at = gl_GlobalInvocationID;
            x[(at.z * 2 + at.y) * w + at.x] = int(100 * gl_WorkGroupID.z + 10 * gl_WorkGroupID.y + gl_LocalInvocationID.x);
        }
    """)
    x = np.full((2, 2, 4), -1, "int32")
    f(x, 4, grid=(2, 2, 2))
    assert x.tolist() == [
        [[0, 1, 0, 1], [10, 11, 10, 11]],
        [[100, 101, 100, 101], [110, 111, 110, 111]],
    ]
    g = kernel("""
        #version 450
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer X { float x[]; };
        layout(binding = 1) buffer Y { int y[]; };
        void main() { y[0] = x.length(); }
    """)
    y = np.full(1, 9, "int32")
    g(np.zeros((0, 3), "float32"), y, grid=1)
    assert y[0] == 0
    g(np.zeros((5, 3), "float32"), y, grid=1)
    assert y[0] == 15
    assert device.empty((0, 3), "float32").numpy().shape == (0, 3)


@pytest.mark.row("R34")
def test_read_only_arrays_and_repeated_arrays(device: Any, add: Any) -> None:
    a, b, c = host_arrays()
    a.setflags(write=False)
    add(a, b, c, 64, grid=1)
    np.testing.assert_array_equal(c, a + b)
    add(b, b, b, 64, grid=1)
    assert b.tolist() == [2] * 64
    x = device.from_numpy(b)
    add(x, x, x, 64, grid=1)
    assert x.numpy().tolist() == [4] * 64


@pytest.mark.row("R34", "R35")
@pytest.mark.row("R14")
@pytest.mark.parametrize(("flag", "fmt"), [(0, "spv"), (1, "spv"), (0, "vulkan")])
def test_without_an_interface_tvms_rule_applies(flag: int, fmt: str, device: Any) -> None:
    if "Float64" not in device.arch:
        pytest.skip("the device has no float64")
    block = "std140, binding = 2" if flag else "push_constant"
    source = f"""
        #version 450
        layout(local_size_x = 8) in;
        layout(binding = 0) buffer X {{ float x[]; }};
        layout(binding = 1) buffer Y {{ float y[]; }};
        layout({block}) uniform P {{ layout(offset = 0) int n; layout(offset = 8) float a; layout(offset = 16) double d; }};
        void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = a * x[i] + float(d); }}
    """
    info = FunctionInfo(
        "main", ["handle", "handle", "int32", "float32", "float64"], ["blockIdx.x", "threadIdx.x"]
    )
    f = devmod.loads(
        devmod.dumps(devmod.create("vulkan", {"k": packed(words(source), flag)}, fmt, {"k": info}))
    )["k"]
    x, y = np.arange(20, dtype="float32"), np.zeros(20, "float32")
    f(x, y, 17, 2.5, 100.0, 3, 8)  # TVM's calling convention
    np.testing.assert_array_equal(y, np.where(x < 17, 2.5 * x + 100, 0))
    y[:] = 0
    f(x, y, 20, 0.5, 1.0, grid=3)
    np.testing.assert_array_equal(y, 0.5 * x + 1)
    assert f.block == (8, 1, 1)


HLSL = """
RWStructuredBuffer<float> x : register(u0);
cbuffer C : register(b1) { float by; int n; };
[numthreads(4, 1, 1)] void scale(uint3 id : SV_DispatchThreadID) { if (id.x < n) x[id.x] *= by; }
[numthreads(2, 1, 1)] void shift(uint3 id : SV_DispatchThreadID) { if (id.x < n) x[id.x] += by; }
"""

#: One module with two entries, each with a buffer of its own: `first` writes 1 to binding 0,
#: `second` 2 to binding 1.
TWO_ENTRIES = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %first "first"
OpEntryPoint GLCompute %second "second"
OpExecutionMode %first LocalSize 1 1 1
OpExecutionMode %second LocalSize 1 1 1
OpName %a "a"
OpName %b "b"
OpDecorate %array ArrayStride 4
OpMemberDecorate %block 0 Offset 0
OpDecorate %block BufferBlock
OpDecorate %a DescriptorSet 0
OpDecorate %a Binding 0
OpDecorate %b DescriptorSet 0
OpDecorate %b Binding 1
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%zero = OpConstant %uint 0
%one = OpConstant %uint 1
%two = OpConstant %uint 2
%array = OpTypeRuntimeArray %uint
%block = OpTypeStruct %array
%pointer = OpTypePointer Uniform %block
%element = OpTypePointer Uniform %uint
%a = OpVariable %pointer Uniform
%b = OpVariable %pointer Uniform
%first = OpFunction %void None %function
%l1 = OpLabel
%p1 = OpAccessChain %element %a %zero %zero
OpStore %p1 %one
OpReturn
OpFunctionEnd
%second = OpFunction %void None %function
%l2 = OpLabel
%p2 = OpAccessChain %element %b %zero %zero
OpStore %p2 %two
OpReturn
OpFunctionEnd
"""


@pytest.mark.row("R33")
def test_several_entries_of_one_file(device: Any) -> None:
    try:
        module = devmod.compile(HLSL, "vulkan", language="HLSL")
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))
    x = np.arange(8, dtype="float32")
    module["scale"](x, 3.0, 8, grid=2)
    module["shift"](x, 0.5, 8, grid=4)
    np.testing.assert_array_equal(x, 3 * np.arange(8) + 0.5)


@pytest.mark.parametrize(
    "bindings", [(0, 1), (0, 0)], ids=["other arguments", "the same arguments"]
)
@pytest.mark.row("R12", "R33")
def test_several_entries_of_one_module(
    bindings: tuple[int, int], device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_vulkan._pipeline import Pipeline

    keys: list[str] = []
    cache = Pipeline._cache
    monkeypatch.setattr(Pipeline, "_cache", lambda self, key: keys.append(key) or cache(self, key))
    assembler = shutil.which("spirv-as")
    if assembler is None:
        pytest.skip("spirv-as is not installed (Debian: apt install spirv-tools)")
    spirv = subprocess.run(
        [assembler, "--target-env", "spv1.0", "-o", "-", "-"],
        input=(
            TWO_ENTRIES if bindings[1] else TWO_ENTRIES.replace("%element %b", "%element %a")
        ).encode(),
        capture_output=True,
        check=True,
    ).stdout
    infos = {
        name: FunctionInfo(
            name,
            ["handle"],
            (),
            (),
            Interface([Param("x", "buffer", "uint32", "w", (0, binding))], (), (1, 1, 1)),
        )
        for binding, name in zip(bindings, ("first", "second"), strict=True)
    }
    module = devmod.create("vulkan", dict.fromkeys(infos, packed(spirv)), "spv", infos)
    for number, name in enumerate(infos, 1):
        x = np.zeros(2, "uint32")
        module[name](x, grid=1)
        assert x.tolist() == [number, 0]
    assert len({*keys}) == 2  # of the cache on the disk


# -- constants


def test_specialize(device: Any, add: Any) -> None:
    a, b, c = host_arrays()
    three = add.specialize(SCALE=3)
    three(a, b, c, 64, grid=1)
    np.testing.assert_array_equal(c, 3 * (a + b))
    add(a, b, c, 64, grid=1)
    np.testing.assert_array_equal(c, a + b)
    add.specialize(**{"3": 0.5})(a, b, c, 64, grid=1)
    np.testing.assert_array_equal(c, 0.5 * (a + b))
    three.specialize(SCALE=4)(a, b, c, 64, grid=1)
    np.testing.assert_array_equal(c, 4 * (a + b))


def test_a_block_size_from_constants(device: Any) -> None:
    f = kernel("""
        #version 450
        layout(local_size_x_id = 0, local_size_y = 2) in;
        layout(constant_id = 1) const bool UP = true;
        layout(constant_id = 2) const int LENGTH = 4;
        shared int total[LENGTH];
        layout(binding = 0) buffer X { int x[]; };
        void main() { total[0] = LENGTH; barrier(); x[gl_LocalInvocationIndex] += UP ? int(gl_WorkGroupSize.x) : -total[0]; }
    """)
    x = np.zeros(16, "int32")
    f.specialize(local_size_x=8)(x, grid=1)
    assert x.tolist() == [8] * 16
    f.specialize(local_size_x=2, UP=False, LENGTH=7)(x, grid=1)
    assert x.tolist() == [1] * 4 + [8] * 12
    most = device.limits["maxComputeWorkGroupInvocations"]
    assert refusal(devmod.DeviceNotFoundError, f.specialize(local_size_x=most), x, grid=1) == (
        f"the vulkan function 'k' cannot run on {device}: its maxComputeWorkGroupInvocations is {most}, but the kernel is built for blocks of "
        f"{2 * most} threads"
    )


# -- limits


@pytest.mark.row("R34")
def test_limits_are_checked_before_the_driver_is_called(device: Any, add: Any) -> None:
    a, b, c = host_arrays()
    for axis in range(3):
        most = device.limits[f"maxComputeWorkGroupCount[{axis}]"]
        grid = tuple(most + 1 if each == axis else 1 for each in range(3))
        assert refusal(devmod.LaunchError, add, a, b, c, 64, grid=grid) == (
            f"the vulkan function 'add' cannot be launched on {device}: its maxComputeWorkGroupCount[{axis}] is {most}, got grid={grid}; "
            "launch in several parts, or let the kernel index more dimensions"
        )
    most = device.limits["maxComputeWorkGroupCount[0]"]
    for call in (
        lambda: add(a, b, c, 64, threads=64 * most + 1),
        lambda: add.launch_config(threads=64 * most + 1),
    ):
        assert refusal(devmod.LaunchError, call) == (
            f"the vulkan function 'add' cannot be launched on {device}: its maxComputeWorkGroupCount[0] is {most}, "
            f"got grid=({most + 1}, 1, 1). threads={64 * most + 1} in blocks of 64 needs grid={most + 1}; launch in several parts, or let "
            "the kernel index more dimensions"
        )
    assert refusal(devmod.ArgumentError, add, a, b, c, 64, grid=1, shared_memory=64) == (
        "the vulkan function 'add' cannot be given shared_memory=64: a shader's shared memory has its size in the shader"
    )


def test_push_constants_and_blocks_beyond_the_limit(device: Any) -> None:
    most = device.limits["maxPushConstantsSize"]
    source = f"""
        #version 450
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer X {{ int x[]; }};
        layout(push_constant) uniform P {{ {" ".join(f"int p{i};" for i in range(most // 4 + 1))} }};
        void main() {{ x[0] = p0 + p{most // 4}; }}
    """
    assert refusal(devmod.DeviceNotFoundError, kernel, source) == (
        f"the vulkan function 'k' cannot run on {device}: its maxPushConstantsSize is {most}, but the kernel uses {most + 4} bytes of push "
        "constants"
    )
    # Compilers refuse this size, so the test patches the words: OpConstant and OpExecutionMode
    # LocalSize contain 4 in this shader.
    threads = device.limits["maxComputeWorkGroupSize[0]"] + 1
    spirv = np.frombuffer(words(TWICE), "uint32").copy()
    for at in np.flatnonzero(spirv == 4):
        if spirv[at - 1] == 17 or spirv[at - 3] == 4 << 16 | 43:
            spirv[at] = threads
    assert refusal(
        devmod.DeviceNotFoundError,
        devmod.create(
            "vulkan", {"k": packed(spirv.tobytes())}, "spv", {"k": FunctionInfo("main", ["handle"])}
        ).get_function,
        "k",
    ) == (
        f"the vulkan function 'k' cannot run on {device}: its maxComputeWorkGroupSize[0] is {threads - 1}, but the kernel is built for blocks of "
        f"{threads} threads in x"
    )


def test_shared_memory_beyond_the_limit(device: Any) -> None:
    most = device.limits["maxComputeSharedMemorySize"]
    f = kernel("""
        #version 450
        layout(local_size_x = 1) in;
        layout(constant_id = 0) const int LENGTH = 4;
        struct S { vec4 a; int b[4]; };
        shared S tile[LENGTH];
        layout(binding = 0) buffer X { int x[]; };
        void main() { tile[0].b[1] = 7; barrier(); x[0] = tile[0].b[1]; }
    """)
    x = np.zeros(1, "int32")
    f.specialize(LENGTH=most // 32)(x, grid=1)
    assert x[0] == 7
    assert refusal(devmod.DeviceNotFoundError, f.specialize(LENGTH=most // 32 + 1), x, grid=1) == (
        f"the vulkan function 'k' cannot run on {device}: its maxComputeSharedMemorySize is {most}, but the kernel uses {most + 32} bytes of shared "
        "memory"
    )


def test_an_array_over_max_storage_buffer_range(device: Any, add: Any) -> None:
    most = device.limits["maxStorageBufferRange"]
    if most > 1 << 28:
        pytest.skip("the limit is too large for a test")
    _, b, c = host_arrays()
    large = device.empty(most // 4 + 1, "float32")
    assert refusal(
        devmod.LaunchError, add, large, device.from_numpy(b), device.from_numpy(c), 64, grid=1
    ) == (
        f"the vulkan function 'add' cannot be launched on {device}: its maxStorageBufferRange is {most}, but argument 1 'a' has {most + 4} bytes"
    )


# -- streams, events, time, batches


def is_running(stream: Any) -> bool:
    """Return whether the device has not done all that is queued to a stream."""
    from devmod_vulkan._driver import ffi

    out = ffi.new("uint64_t *")
    assert (
        stream.logical.calls.vkGetSemaphoreCounterValue(
            stream.logical.handle, stream.semaphore, out
        )
        == 0
    )
    return bool(out[0] < stream._value)


def test_queued_launches_return_before_they_are_done(device: Any) -> None:
    f = kernel(SLOW)
    x = device.from_numpy(np.zeros(1000, "uint32"))
    launch = f.bind(x, 3, grid=1000)
    with blocked(device.default_stream):
        launch()
        f(x, 3, grid=1000)
        assert is_running(device.default_stream)
    device.synchronize()
    assert not is_running(device.default_stream)


def test_queued_launches_run_in_order(device: Any) -> None:
    f = kernel(SLOW)
    x = device.from_numpy(np.zeros(1, "uint32"))
    long, short = f.bind(x, 60_000, grid=1), f.bind(x, 3, grid=1)
    results = []
    for way in ("plain", "bound", "timed", "batch"):
        x = device.from_numpy(np.zeros(1, "uint32"))
        long, short = f.bind(x, 60_000, grid=1), f.bind(x, 3, grid=1)
        for _ in range(3):
            if way == "plain":
                for n in (60_000, 3, 60_000):
                    f(x, n, grid=1)
            elif way == "batch":
                with device.default_stream.batch():
                    long()
                    f(x, 3, grid=1)
                    long()
            else:
                long()
                assert short.time() > 0 if way == "timed" else short() or True
                long()
        results.append(int(x.numpy()[0]))
    assert results == results[:1] * 4


@pytest.mark.parametrize("way", ["bound", "plain", "batch"])
def test_an_interrupt_after_a_submission_leaves_the_stream_usable(way: str, device: Any) -> None:
    """Ctrl-C in a loop of launches raises mostly when the driver's function returns."""
    f = kernel(TWICE)
    stream = device.stream()
    x = device.from_numpy(np.ones(4, "float32"))
    launch = f.bind(x, grid=1, stream=stream)
    values = []
    real, first = stream._submit, stream._value

    def submit(queue: Any, count: int, info: Any, fence: Any) -> int:
        values.append(stream._cell[0])
        assert real(queue, count, info, fence) == 0
        raise KeyboardInterrupt

    def once() -> None:
        if way == "plain":
            f(x, grid=1, stream=stream)
        elif way == "bound":
            launch()
        else:
            with stream.batch():
                launch()
                launch()

    stream._submit = submit
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            once()
    stream._submit = real
    once()
    stream.synchronize()
    assert ([value - first for value in values], stream._value - first, len(stream.pending)) == (
        [1, 2, 3],
        4,
        0,
    )
    np.testing.assert_array_equal(x.numpy(), np.full(4, 2.0 ** (8 if way == "batch" else 4)))


def test_an_interrupt_before_a_submission_leaves_no_value_that_is_never_signalled(
    device: Any,
) -> None:
    """The release of a collected stream waits for the value in its cell."""
    f = kernel(TWICE)
    first, stream = device.stream(), device.stream()
    x = device.from_numpy(np.ones(4, "float32"))
    f(x, grid=1, stream=first)
    before = stream._value
    reads = []

    class Interrupted(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            reads.append(stream._cell[0])
            if len(reads) == 3:
                raise KeyboardInterrupt
            return super().__iter__()

    stream.wait(first.record())
    stream._waits = [Interrupted(each) for each in stream._waits]
    with pytest.raises(KeyboardInterrupt):
        f(x, grid=1, stream=stream)
    assert (reads, stream._cell[0], stream._value) == ([before] * 3, before, before)
    stream.synchronize()
    np.testing.assert_array_equal(x.numpy(), np.full(4, 4.0))


def test_a_command_buffer_with_an_interrupted_recording_is_not_reused(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = kernel(TWICE)
    x = device.from_numpy(np.ones(4, "float32"))
    f(x, grid=1)
    device.synchronize()
    ended = []

    def end(handle: Any) -> int:
        ended.append(handle)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device.logical.calls, "vkEndCommandBuffer", end)
        for ask in (lambda: f(x, grid=1), lambda: f.bind(x, grid=1)):
            with pytest.raises(KeyboardInterrupt):
                ask()
    assert not free_command_buffers(device) & {*ended}
    f(x, grid=1)
    np.testing.assert_array_equal(x.numpy(), np.full(4, 4.0))


def test_waiting_for_another_stream_passes_its_semaphore_to_the_driver(
    device: Any, add: Any
) -> None:
    """A device with one queue keeps the order in any case, so the test checks the arguments of
    vkQueueSubmit.
    """
    a, b, c = (device.from_numpy(each) for each in host_arrays())
    first, second = device.stream(), device.stream()
    seen = []
    real = second._submit

    from devmod_vulkan._driver import ffi

    def record_waits(queue: Any, count: int, info: Any, fence: Any) -> int:
        waits = info.waitSemaphoreCount
        values = ffi.cast("VkTimelineSemaphoreSubmitInfo *", info.pNext)
        seen.append(
            [
                (info.pWaitSemaphores[number], values.pWaitSemaphoreValues[number])
                for number in range(waits)
            ]
        )
        return int(real(queue, count, info, fence))

    second._submit = record_waits
    event = first.record()
    add(a, b, c, 64, grid=1, stream=second)
    second.wait(event)
    second.wait(event)
    add(a, b, c, 64, grid=1, stream=second)
    add(a, b, c, 64, grid=1, stream=second)
    second.synchronize()
    assert seen == [[], [(first.semaphore, event.value)] * 2, []]


@pytest.mark.parametrize("way", ["bound", "plain"])
def test_a_copy_to_the_device_waits_for_the_launches_before_it(way: str, device: Any) -> None:
    f = kernel(SLOW)
    x = device.from_numpy(np.zeros(300, "uint32"))
    launch = f.bind(x, 20_000, grid=300)
    for turn in range(3):
        if way == "bound":
            launch()
        else:
            f(x, 20_000, grid=300)
        device.write(
            x.memory, memoryview(np.full(300, turn, "uint32")).cast("B"), device.default_stream
        )
        assert x.numpy().tolist() == [turn] * 300


def test_every_command_buffer_has_a_barrier_at_both_ends(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submission order is no memory dependency. CPU drivers and the layers do not report a missing
    barrier.
    """
    from devmod_vulkan._driver import vk

    calls = device.logical.calls
    calls_made: list[Any] = []

    def record_calls(name: str) -> None:
        real = getattr(calls, name)

        def call(*args: Any) -> Any:
            calls_made.append(
                (name, args[1:3], args[5].srcAccessMask, args[5].dstAccessMask)
                if "Barrier" in name
                else name
            )
            return real(*args)

        monkeypatch.setitem(vars(calls), name, call)

    for name in (
        "vkBeginCommandBuffer",
        "vkCmdPipelineBarrier",
        "vkCmdDispatch",
        "vkCmdCopyBuffer",
        "vkEndCommandBuffer",
    ):
        record_calls(name)
    shader, copy, host = (
        vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
        vk.VK_PIPELINE_STAGE_TRANSFER_BIT,
        vk.VK_PIPELINE_STAGE_HOST_BIT,
    )
    writes = vk.VK_ACCESS_SHADER_WRITE_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
    both = writes | vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_TRANSFER_READ_BIT
    begin = (
        "vkCmdPipelineBarrier",
        (shader | copy, shader | copy),
        writes,
        both | vk.VK_ACCESS_UNIFORM_READ_BIT,
    )
    end = (
        "vkCmdPipelineBarrier",
        (shader | copy, shader | copy | host),
        writes,
        both | vk.VK_ACCESS_HOST_READ_BIT,
    )
    a, b, c = (device.from_numpy(each) for each in host_arrays())
    for record in (
        lambda: add.bind(a, b, c, 64, grid=1),
        lambda: add(a, b, c, 64, grid=1),
        lambda: device.copy(a.memory, b.memory, 4, device.default_stream),
    ):
        calls_made.clear()
        record()
        assert (calls_made[0], calls_made[1], calls_made[-2], calls_made[-1]) == (
            "vkBeginCommandBuffer",
            begin,
            end,
            "vkEndCommandBuffer",
        )
        assert calls_made[2] in ("vkCmdDispatch", "vkCmdCopyBuffer")
        assert len(calls_made) == 5


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_time_between_events_waits_for_both(is_reversed: bool, device: Any) -> None:
    """A timestamp has the value of its last use until the device writes it: the command that reads
    it is behind it in the queue.
    """
    slow, x, stream = kernel(SLOW), device.zeros(256, "uint32"), device.stream()
    stream.record().elapsed(stream.record())  # the slots have values
    first = stream.record()
    slow(x, 60_000, grid=256, stream=stream)
    last = stream.record()
    seconds = first.elapsed(last) if is_reversed else last.elapsed(first)
    assert is_done(first)
    assert is_done(last)
    assert (seconds < 0) == is_reversed


def test_a_stream_uses_the_semaphore_of_a_collected_one(device: Any, add: Any) -> None:
    """Mesa hangs if a semaphore is destroyed at once when its last value is seen."""
    a, b, c = (device.from_numpy(each) for each in host_arrays())
    device.stream()  # creating a stream removes the collected ones
    before, owned = len(device.logical.streams), semaphores(device.logical)
    for _ in range(50):
        stream = device.stream()
        assert not is_running(stream)
        add.bind(a, b, c, 64, grid=1, stream=stream)()
        done = stream.record()
        device.default_stream.wait(done)
        done.synchronize()
        stream.synchronize()
        del stream, done
        device.synchronize()
    assert len(device.logical.streams) <= before + 1
    assert semaphores(device.logical) <= owned | {device.stream().semaphore}
    for _ in range(200):
        add(a, b, c, 64, grid=1)
    while is_running(device.default_stream):  # devmod itself waits for none of them
        time.sleep(0.01)
    for _ in range(64):
        add(a, b, c, 64, grid=1)
    assert len(device.default_stream.pending) < 200


def test_deleted_objects_stay_alive_until_their_launch_is_done(device: Any) -> None:
    f = kernel(SLOW)
    for _ in range(10):
        x = device.from_numpy(np.zeros(1, "uint32"))
        launch = f.bind(x, 3, grid=1)
        with blocked(device.default_stream):
            launch()
            f(x, 3, grid=1)
            memory = x.memory
            place = (memory.buffer, memory.offset)
            del x, launch, memory
            others = [device.empty(1, "uint32") for _ in range(4)]
            assert place not in [(each.memory.buffer, each.memory.offset) for each in others]
        device.synchronize()


@pytest.mark.parametrize("way", ["bound", "plain"])
@pytest.mark.parametrize("cycle", [True, False])
def test_objects_deleted_with_their_stream_stay_alive_until_the_launch_is_done(
    way: str, cycle: bool, device: Any
) -> None:
    """Function, stream, launch and array are dropped together while the launch is queued."""
    logical = device.logical
    device.synchronize()
    gc.collect()  # garbage of other tests
    f: Any = kernel(SLOW)
    x: Any = device.from_numpy(np.zeros(4096, "uint32"))
    stream: Any = device.stream()
    launch: Any = f.bind(x, 3, grid=4096, stream=stream) if way == "bound" else None
    with blocked(stream):
        if way == "bound":
            launch()
        else:
            f(x, 3, grid=4096, stream=stream)
        references: Any = [f, x, launch, stream]
        if cycle:
            references.append(references)
            stream.user = references
        there = pipelines(logical), len(logical.commands.recorders)
        del f, x, launch, stream, references
        gc.collect()
        device.stream()  # creating a stream removes the collected ones
        assert (pipelines(logical), len(logical.commands.recorders)) == there
    device.synchronize()
    gc.collect()
    device.synchronize()  # destroys what was collected
    assert pipelines(logical) < there[0]


def semaphores(logical: Any) -> set[Any]:
    return {
        handle
        for (function, _), handle in logical._owned.items()
        if function == "vkDestroySemaphore"
    }


def pipelines(logical: Any) -> int:
    return sum(function == "vkDestroyPipeline" for function, _ in logical._owned)


@pytest.mark.parametrize(
    "fence",
    ["", "memoryBarrier();", "memoryBarrierShared();", "groupMemoryBarrier();"],
)
def test_threads_at_a_fence_wait_for_no_other_threads(fence: str) -> None:
    """Mesa's CPU device waited for the block, and ended threads with more turns than others."""
    f = kernel(f"""
        #version 450
        layout(local_size_x = 32) in;
        layout(binding = 0) buffer X {{ uint x[]; }};
        shared uint sum;
        void main() {{
            uint i = gl_LocalInvocationID.x;
            if (i == 0) sum = 0;
            barrier();
            for (uint turn = 0; turn <= i; turn++) {{
                atomicAdd(x[0], 1);
                atomicAdd(sum, 1);
                {fence}
            }}
            if (i % 16 == 3) {{ {fence} atomicAdd(x[1], 1); }}
            barrier();
            x[2 + i] = sum;
        }}
    """)
    x = np.zeros(34, "uint32")
    f(x, grid=3)
    assert x.tolist() == [3 * 528, 6, *[528] * 32]


def test_a_block_sees_what_another_one_wrote_before_a_fence() -> None:
    """The last block adds the parts of all."""
    f = kernel("""
        #version 450
        layout(local_size_x = 32) in;
        layout(binding = 0) buffer X { uint x[]; };
        shared uint order;
        void main() {
            uint i = gl_LocalInvocationID.x;
            if (i == 0) {
                x[gl_WorkGroupID.x] = gl_WorkGroupID.x;
                memoryBarrier();
                order = atomicAdd(x[64], 1);
            }
            barrier();
            if (order != 63) return;
            memoryBarrier();
            atomicAdd(x[65], x[i] + x[i + 32]);
        }
    """)
    for _ in range(20):
        x = np.full(66, 99, "uint32")
        x[64:] = 0
        f(x, grid=64)
        assert x[64:].tolist() == [64, 2016]


@pytest.mark.row("R32")
def test_threads_launch_at_once(device: Any) -> None:
    """One function, one bound launch, streams of their own and the same stream, from eight
    threads.
    """
    f = kernel("""
        #version 450
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer X { uint x[]; };
        layout(push_constant) uniform P { uint at; };
        void main() { atomicAdd(x[at], 1); }
    """)
    shared = device.from_numpy(np.zeros(8, "uint32"))
    bound = f.bind(shared, 7, grid=1)

    def work(number: int) -> None:
        stream = device.stream() if number % 2 else device.default_stream
        own = device.from_numpy(np.zeros(1, "uint32"))
        for turn in range(50):
            f(own, 0, grid=2, stream=stream)
            f(shared, number % 7, grid=1, stream=stream)
            bound()
            if turn % 10 == 0:
                host = np.zeros(2, "uint32")
                f(host, 1, grid=3)
                assert host.tolist() == [0, 3]
        stream.synchronize()
        assert own.numpy()[0] == 100

    assert run_in_threads(work, range(8)) == [None] * 8
    assert shared.numpy().tolist() == [100, 50, 50, 50, 50, 50, 50, 400]


def test_threads_create_and_delete_streams_at_once(device: Any) -> None:
    """Two threads that remove collected streams must not both take a semaphore."""
    program = f"""
    import threading
    import numpy as np, devmod
    device = devmod.device("vulkan")
    f = devmod.create("vulkan", {{"k": bytes.fromhex({shader(TWICE).hex()!r})}}, "spv", {{"k": devmod.FunctionInfo("main", ["handle"])}})["k"]
    x = device.from_numpy(np.zeros(4, "float32"))
    def work():
        for _ in range(100):
            stream = device.stream()
            f(x, grid=1, stream=stream)
            del stream
            device.stream()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(x.numpy())
    """
    assert run_python(textwrap.dedent(program)) == "[0. 0. 0. 0.]\n"


# -- what the driver reports


def test_errors_of_the_driver_are_launch_errors(device: Any, add: Any) -> None:
    """Doubles that fail replace vkQueueSubmit and vkWaitSemaphores, for one stream."""
    out_of_memory, lost = -2, -4
    a, b, c = (device.from_numpy(each) for each in host_arrays())
    stream = device.stream()
    real, stream._submit = stream._submit, lambda *_: out_of_memory
    text = refusal(devmod.LaunchError, add, a, b, c, 64, grid=1, stream=stream)
    start = f"{device} has too little free memory: vkQueueSubmit failed on {device} (VK_ERROR_OUT_OF_DEVICE_MEMORY)"
    assert is_memory_error(text, start, device), text
    stream._submit = lambda *_: lost
    text = (
        f"{device} is lost: a launch ran too long or accessed memory out of bounds, or the driver was reset. The contents of its memory "
        "are lost. Start a new process to use the device again (VK_ERROR_DEVICE_LOST)"
    )
    launch = add.bind(a, b, c, 64, grid=1, stream=stream)
    for call in (launch, launch.time, stream.record):
        assert refusal(devmod.LaunchError, call) == text
    stream._submit = real
    add(a, b, c, 64, grid=1, stream=stream)
    stream.synchronize()
    (waiter,) = stream._waiters
    waiting, waiter._wait = waiter._wait, lambda *_: lost
    add(a, b, c, 64, grid=1, stream=stream)
    assert refusal(devmod.LaunchError, stream.synchronize) == text
    waiter._wait = waiting
    stream.synchronize()
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 1)


# -- devices


@pytest.mark.row("R40")
def test_the_architecture_of_a_device_ranks_the_shaders_it_runs(device: Any) -> None:
    from devmod._plugins.specs import find_spec

    spec = find_spec("vulkan")
    assert spec is not None
    assert spec.rank is not None
    assert spec.architecture is not None
    assert spec.rank(spec.architecture("spv", shader(ADD)), device.arch) is not None
    assert spec.rank("spirv1.0:Int8+Kernel", device.arch) is None
    assert spec.rank("spirv1.9", device.arch) is None


EXIT = """
import atexit, sys
atexit.register(lambda: print(destroyed))  # the last one that is called
import devmod
from devmod_vulkan import _driver

class Library:
    def __getattr__(self, name):
        return getattr(library, name)

    def vkDestroyInstance(self, *arguments):
        destroyed.append("instance")

def interrupt(*arguments):
    raise KeyboardInterrupt

library, destroyed = _driver.lib, []
_driver.lib = Library()
device = devmod.device("vulkan")
device.zeros(1, "float32")  # it has memory to free
calls = device.logical.calls
if sys.argv[1]:
    setattr(calls, sys.argv[1], interrupt)
"""


@pytest.mark.row("R61")
@pytest.mark.parametrize("interrupted", ["vkDeviceWaitIdle", "vkFreeMemory", "vkDestroyDevice", ""])
def test_an_interrupted_exit_keeps_the_instance_of_a_device(device: Any, interrupted: str) -> None:
    """SwiftShader ends the process by a signal if the instance is destroyed before its device."""
    command = [sys.executable, "-c", EXIT, interrupted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = ["instance"]
    if interrupted:
        expected = []
    assert done.stdout == f"{expected}\n", done.stderr
    assert done.returncode == 0, done.stderr


TWO_DEVICES = """
import devmod
from backend_checks import check_two_devices
from vulkan_kernels import SLOW, adder, is_done, kernel
devices = devmod.devices("vulkan")
assert [each.index for each in devices] == [0, 1], devices
check_two_devices(adder()["add"], *devices, grid=1)
kernel(SLOW)(devices[0].zeros(256, "uint32"), 60_000, grid=256)
event = devices[0].default_stream.record()
devices[1].default_stream.wait(event)
assert is_done(event)
"""


@pytest.mark.volume  # that of devmod-opencl is in make test
@pytest.mark.row("R33", "R34")
def test_two_devices(device: Any, tmp_path: Path) -> None:
    """Mesa's driver for the CPU under two names is two devices."""
    drivers = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    if not drivers:
        pytest.skip("Mesa's driver for the CPU is not where Debian has it")
    second = tmp_path / "second.json"
    second.write_bytes(drivers[0].read_bytes())
    both = f"{drivers[0]}:{second}"
    environment = {
        "VK_ICD_FILENAMES": both,
        "VK_DRIVER_FILES": both,
        "DEVMOD_VULKAN_DEVICE": "",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    run_python(TWO_DEVICES, **environment)


@pytest.mark.row("R34")
def test_more_blocks_than_a_device_counts(device: Any, add: Any) -> None:
    name = device.name.partition(" ")[0]
    if name not in ("llvmpipe", "SwiftShader"):
        pytest.skip("the device is not llvmpipe or SwiftShader, which count blocks in 32 bits")
    assert refusal(devmod.LaunchError, add, *host_arrays(), 64, grid=(32768, 32768, 4)) == (
        f"the vulkan function 'add' cannot be launched on {device}: {name} counts blocks in 32 bits, but grid=(32768, 32768, 4) has "
        f"{2**32} blocks"
    )


def test_the_times_of_events_are_read_together(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mesa's CPU device waits in each vkGetQueryPoolResults until no thread has work: a profile
    ended late, or never.
    """
    from devmod_vulkan import _device

    reads: list[int] = []
    real = _device.read_timers

    def counting(stream: Any, timers: Any) -> None:
        reads.append(len(timers))
        real(stream, timers)

    monkeypatch.setattr(_device, "read_timers", counting)
    arrays = [device.zeros(64, "float32") for _ in range(3)]
    add(*arrays, 64, grid=1)
    with devmod.profile() as recorded:
        for _ in range(20):
            add(*arrays, 64, grid=1)
    assert reads == [40, 1]  # the last one compares the clocks
    assert sum(each.on_device is not None for each in recorded.records) == 20
    reads.clear()
    streams = device.stream(), device.stream()
    events = []
    for stream in (*streams, *streams):
        with stream:
            add(*arrays, 64, grid=1)
            events.append(stream.record())
    seconds = [each.elapsed(events[0]) for each in events[1:]]
    assert [each.elapsed(events[0]) for each in events[1:]] == seconds
    assert reads == [1, 1, 1, 1]
    assert events[0].elapsed(events[3]) == -seconds[2]
