"""Launching on a real device: arguments of every kind, limits, constants, buffers of wgpu, streams,
events, lost devices.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import check_scalar, host_arrays, run_python
from each_case import raised, refusal
from tvm_vectors import check_matmul, check_vadd, only_function
from webgpu_shaders import ADD, ALONE, function

import devmod
from devmod import Block, FunctionInfo, Interface, Param


def python(program: str) -> str:
    return run_python(program, "-W", "error", **ALONE)


# -- arguments


@pytest.mark.row("R34")
def test_a_scalar_and_elements_of_f16(device: Any) -> None:
    if "shader-f16" not in device.features:
        pytest.skip("the device has no f16")
    f = function(
        "enable f16; struct S { s: f16 } @group(0) @binding(1) var<uniform> u: S;"
        "@group(0) @binding(0) var<storage, read_write> x: array<f16>;",
        "x[id.x] = u.s;",
    )
    # Ten bytes are not a whole number of words.
    check_scalar(lambda x, value: f(x, value, grid=5), "float16", size=5)


def test_each_call_gets_its_scalars(device: Any) -> None:
    f = function(
        "@group(0) @binding(1) var<uniform> a: u32; @group(0) @binding(2) var<uniform> b: vec2u;",
        "x[id.x] = 10000 * a + 100 * b.x + b.y;",
    )
    x = device.zeros(1, "uint32")
    for a, b in [
        (1, (2, 3)),
        (1, (2, 3)),
        (1, (2, 4)),
        (5, (2, 4)),
        (1, (2, 3)),
        (5, (2, 4)),
        (5, (2, 4)),
    ]:
        f(x, a, b, grid=1)
        assert x.numpy() == 10000 * a + 100 * b[0] + b[1]


@pytest.mark.parametrize(
    "members",
    ["n: u32, @align(32) m: In", "@align(32) m: In, n: u32", "n: u32, @align(32) m: array<In, 2>"],
)
def test_alignments_inside_structs(members: str, device: Any) -> None:
    which = "m[1].b" if "array" in members else "m.b"
    f = function(
        f"struct In {{ a: f32, @align(32) b: f32 }} struct Out {{ {members} }} @group(0) @binding(0) var<storage, read_write> x: array<Out>;",
        f"x[id.x].n = 5u; x[id.x].{which} = 2.0;",
    )
    size, n, b = (
        {"n": (160, 0, 128), "@": (96, 64, 32)}[members[0]]
        if "array" in members or members[0] == "@"
        else (96, 0, 64)
    )
    x = np.zeros(
        2,
        np.dtype(
            {"names": ["n", "b"], "formats": ["u4", "f4"], "offsets": [n, b], "itemsize": size}
        ),
    )
    f(x, grid=2)
    assert (x["n"].tolist(), x["b"].tolist()) == ([5, 5], [2, 2])


def test_empty_arrays_and_zero_grids(device: Any) -> None:
    f = function(
        "struct P { a: vec4f, b: mat4x4f } @group(0) @binding(0) var<storage, read_write> x: array<f32>; @group(0) @binding(1) "
        "var<storage, read> p: array<P>; @group(0) @binding(2) var<storage, read> n: array<u32>;",
        "if arrayLength(&x) > 3u { x[id.x] = p[0].a.x + f32(n[0]); }",
    )
    x = np.full(4, 7, "float32")
    empty = np.zeros(0, "float32")
    f(x, np.zeros(0, np.dtype("V80")), np.zeros(0, "uint32"), grid=(0, 2))
    assert x.tolist() == [7] * 4
    f(x, np.zeros(0, np.dtype("V80")), np.zeros(0, "uint32"), grid=4)
    assert x.tolist() == [0] * 4
    f(empty, device.empty(0, "uint8x80"), device.empty(0, "uint32"), grid=4)
    f.bind(
        device.empty(0, "float32"), device.empty(0, "uint8x80"), device.empty(0, "uint32"), grid=4
    )()
    assert device.empty((0, 3), "float32").numpy().shape == (0, 3)


@pytest.mark.parametrize("nbytes", [1, 2, 3, 5, 7, 4097])
def test_arrays_of_bytes_that_are_not_whole_words(nbytes: int, device: Any) -> None:
    info = FunctionInfo("k", ["handle"], ["blockIdx.x", "paramWriteAccess:[1]"])
    text = b"@group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(1) fn k() { x[0] ^= 0xff; }"
    f = devmod.create("webgpu", {"k": text}, "wgsl", {"k": info})["k"]
    x = np.arange(nbytes, dtype="uint8")
    f(x, grid=1)
    assert x.tolist() == [255, *(each % 256 for each in range(1, nbytes))]
    assert device.from_numpy(x).numpy().tolist() == x.tolist()


@pytest.mark.row("R34")
def test_without_sizes_in_the_interface_the_binding_is_checked(device: Any) -> None:
    source = b"@group(0) @binding(0) var<storage, read_write> x: array<f32, 64>; @compute @workgroup_size(1) fn k() { x[0] = 1; }"
    interface = Interface([Param("x", "buffer", "float32", "rw", (0, 0), extra={"least": 256})])
    f = devmod.create(
        "webgpu", {"k": source}, "wgsl", {"k": FunctionInfo("k", ["handle"], interface=interface)}
    )["k"]
    text = "the webgpu function 'k' cannot be launched: argument 1 'x' has 128 bytes, but the shader's variable needs at least 256"
    assert refusal(devmod.LaunchError, f, np.zeros(32, "float32"), grid=1, block=1) == text


# -- launch configuration


@pytest.mark.row("R34")
def test_limits_are_checked_before_the_driver_is_called(device: Any, add: Any) -> None:
    start = f"the webgpu function 'add' cannot be launched on {device}: "
    most = device.limits["maxComputeWorkgroupsPerDimension"]
    name = device.name.partition(" ")[0]
    if name in ("llvmpipe", "SwiftShader"):
        assert refusal(devmod.LaunchError, add, *host_arrays(), 64, grid=(32768, 32768, 4)) == (
            f"{start}{name} counts blocks in 32 bits, but grid=(32768, 32768, 4) has {2**32} blocks"
        )
    for grid, axis in (((most + 1,), "x"), ((1, 2**40), "y"), ((1, 1, most + 1), "z")):
        shown = (*grid, 1, 1)[:3]
        assert refusal(devmod.LaunchError, add, *host_arrays(), 64, grid=grid) == (
            f"{start}its maxComputeWorkgroupsPerDimension is {most}, but grid={shown} has more blocks in {axis}; launch in several parts, or "
            "let the kernel index more dimensions"
        )
    assert refusal(devmod.LaunchError, add, *host_arrays(), 64, threads=64 * most + 1) == (
        f"{start}its maxComputeWorkgroupsPerDimension is {most}, but grid=({most + 1}, 1, 1) has more blocks in x. threads={64 * most + 1} in "
        f"blocks of 64 needs grid={most + 1}; launch in several parts, or let the kernel index more dimensions"
    )
    assert refusal(devmod.ArgumentError, add, *host_arrays(), 64, grid=1, shared_memory=4) == (
        "the webgpu function 'add' cannot be given shared_memory=4: the shader fixes the size of its workgroup memory; declare the size "
        "as an override, and specialize it"
    )


@pytest.mark.row("R34")
def test_workgroups_and_bindings_over_the_limits(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that no text can exceed, such as 1,000,000 buffers, is lowered."""
    for name in ("maxUniformBuffersPerShaderStage", "maxStorageBuffersPerShaderStage"):
        monkeypatch.setitem(device.limits, name, min(device.limits[name], 64))
    start = f"the webgpu function 'k' cannot run on {device}: its "
    limits = device.limits
    x, threads = limits["maxComputeWorkgroupSizeX"], limits["maxComputeInvocationsPerWorkgroup"]
    assert refusal(devmod.DeviceNotFoundError, function, "", "", str(x + 1)) == (
        f"{start}maxComputeWorkgroupSizeX is {x}, but the kernel is built for blocks of {x + 1} threads in x"
    )
    assert refusal(devmod.DeviceNotFoundError, function, "", "", f"2, {threads}") == (
        f"{start}maxComputeInvocationsPerWorkgroup is {threads}, but the kernel is built for blocks of {2 * threads} threads"
    )
    most = limits["maxUniformBuffersPerShaderStage"]
    many = "".join(f"@group(0) @binding({n}) var<uniform> c{n}: u32;" for n in range(most + 1))
    text = refusal(
        devmod.DeviceNotFoundError, function, many, "".join(f"_ = c{n};" for n in range(most + 1))
    )
    assert (
        text == f"{start}maxUniformBuffersPerShaderStage is {most}, but the kernel uses {most + 1}"
    )
    most = limits["maxStorageBuffersPerShaderStage"]
    many = "".join(
        f"@group(0) @binding({n}) var<storage> b{n}: array<u32>;" for n in range(most + 1)
    )
    text = refusal(
        devmod.DeviceNotFoundError,
        function,
        many,
        "".join(f"_ = b{n}[0];" for n in range(most + 1)),
    )
    assert (
        text == f"{start}maxStorageBuffersPerShaderStage is {most}, but the kernel uses {most + 1}"
    )
    most = limits["maxComputeWorkgroupStorageSize"]
    memory = f"var<workgroup> m: array<f32, {most // 4}>; var<workgroup> n: u32;"
    text = f"{start}maxComputeWorkgroupStorageSize is {most}, but the kernel uses {most + 16} bytes of shared memory"
    assert (
        refusal(
            devmod.DeviceNotFoundError, function, memory, "m[0] = 1; n = 2; x[0] = n + u32(m[1]);"
        )
        == text
    )
    f = function(
        "override N = 16; var<workgroup> m: array<vec4f, N>;", "m[id.x].x = 1; x[0] = u32(m[1].x);"
    )
    text = f"{start}maxComputeWorkgroupStorageSize is {most}, but the kernel uses {most + 16} bytes of shared memory"
    assert (
        refusal(
            devmod.DeviceNotFoundError,
            f.specialize(N=most // 16 + 1),
            np.zeros(1, "uint32"),
            grid=1,
        )
        == text
    )
    f.specialize(N=4)(np.zeros(1, "uint32"), grid=1)
    most = limits["maxUniformBufferBindingSize"]
    members = ", ".join(f"m{n}: vec4f" for n in range(most // 16 + 1))
    text = f"{start}maxUniformBufferBindingSize is {most}, but the kernel uses a uniform block of {most + 16} bytes"
    assert (
        refusal(
            devmod.DeviceNotFoundError,
            function,
            f"struct U {{ {members} }} @group(0) @binding(1) var<uniform> u: U;",
            "_ = u.m0;",
        )
        == text
    )


def test_arrays_over_the_limit_of_a_binding(device: Any, add: Any) -> None:
    most = device.limits["maxStorageBufferBindingSize"]
    if most < device.limits["maxBufferSize"] - 4:
        large, small, out = (
            device.empty(most + 4, "uint8"),
            device.empty(64, "float32"),
            device.empty(64, "float32"),
        )
        large.dtype = "float32"
        text = (
            f"the webgpu function 'add' cannot be launched on {device}: its maxStorageBufferBindingSize is {most}, but argument 1 'a' has "
            f"{most + 4} bytes"
        )
        assert refusal(devmod.LaunchError, add, large, small, out, 64, grid=1) == text
        assert refusal(devmod.LaunchError, add.bind, large, small, out, 64, grid=1) == text


# -- constants


TILED = """
@id(4) override WIDTH: u32 = 8;
override HEIGHT = WIDTH / 4;
override by: f32;
override on = true;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(WIDTH, HEIGHT) fn k(@builtin(local_invocation_index) i: u32) { if on { x[i] = by * f32(i); } }
"""


def test_specialize(device: Any) -> None:
    f = devmod.compile(TILED, "webgpu")["k"]
    x = np.zeros(64, "float32")
    assert refusal(devmod.LaunchError, f, x, grid=1) == (
        "the webgpu function 'k' has constants without a value; set them: f.specialize(by=…)"
    )
    twice = f.specialize(by=2)
    twice(x, grid=1, block=(8, 2))
    assert x.tolist() == [2.0 * i for i in range(16)] + [0] * 48
    x[:] = 0
    wide = twice.specialize(WIDTH=16)
    wide(x, grid=1, block=(16, 4))
    assert x.tolist() == [2.0 * i for i in range(64)]
    x[:] = 0
    wide.specialize(on=False)(x, grid=1)
    assert not x.any()
    x[:] = 0
    f.specialize(WIDTH=16).specialize(by=2)(x, grid=1, block=(16, 4))
    assert x.tolist() == [2.0 * i for i in range(64)]
    x[:] = 0
    by_number = f.specialize(**{"4": 4, "by": 1.5})
    by_number(x, grid=1, block=(4, 1))
    assert x.tolist()[:5] == [0, 1.5, 3, 4.5, 0]
    most = device.limits["maxComputeWorkgroupSizeX"]
    assert refusal(
        devmod.DeviceNotFoundError, f.specialize(WIDTH=most + 4, by=1), x, grid=1
    ).endswith(
        f"its maxComputeWorkgroupSizeX is {most}, but the kernel is built for blocks of {most + 4} threads in x"
    )
    for constants, text in (
        (
            {"WIDE": 1},
            "has no constant 'WIDE' to specialize; it has: 'WIDTH', 'HEIGHT', 'by', 'on'. Did you mean 'WIDTH'?",
        ),
        (
            {"by": float("inf")},
            "cannot be specialized: the constant 'by' is inf, expected a finite number",
        ),
    ):
        assert (
            refusal(devmod.ArgumentError, f.specialize, **constants)
            == f"the webgpu function 'k' {text}"
        )


@pytest.mark.parametrize(
    ("declared", "size", "default", "constants", "block"),
    [
        ("override N: u32;", "N", None, {"N": 8}, (8, 1, 1)),
        ("override N: u32;", "2, N * N", None, {"N": 3}, (2, 9, 1)),
        ("override N = 4u;", "N, 2", (4, 2, 1), {"N": 8}, (8, 2, 1)),
        ("override N = 4u; override M = N * 2;", "M, N / 2", (8, 2, 1), {"N": 8}, (16, 4, 1)),
        ("override N = 4u; override M = N * 2;", "M", (8, 1, 1), {"N": 2, "M": 6}, (6, 1, 1)),
        ("override s: f32 = 0.29;", "u32(s * 100.0)", (29, 1, 1), {"s": 0.57}, (57, 1, 1)),
        (
            "override s: f32 = 16777216.0;",
            "u32(s + 1.0 - 16777210.0)",
            (6, 1, 1),
            {"s": 16777217},
            (6, 1, 1),
        ),
        (
            "override s: f32 = 1; const v: vec2f = vec2(0.29);",
            "u32(v.x * 100.0), u32(vec2(0.29, s).x * 100.0 - 21.0)",
            (29, 8, 1),
            {},
            (29, 8, 1),
        ),
        (
            "override N: u32 = 0;",
            "u32(array(0.29, 0.25)[N] * 100.0), u32(8.0 / 3 * 3)",
            (29, 8, 1),
            {"N": 1},
            (25, 8, 1),
        ),
        ("override N: u32 = 0;", "8u / N", None, {"N": 2}, (4, 1, 1)),
    ],
)
def test_the_reported_block_is_the_launched_block(
    declared: str, size: str, default: Any, constants: dict[str, int], block: Any, device: Any
) -> None:
    f = function(
        f"{declared} @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;",
        "atomicAdd(&x[0], 1u);",
        size,
    )
    assert f.block == default
    x = np.zeros(1, "uint32")
    if default is None:
        name = declared.partition(":")[0][-1]
        text = f"the webgpu function 'k' has constants without a value; set them: f.specialize({name}=…)"
        for options in ({"grid": 1}, {"grid": 1, "block": 8}, {"threads": 8}):
            assert refusal(devmod.LaunchError, f, x, **options) == text
    f = f.specialize(**constants)
    assert f.block == block
    f(x, grid=3)
    assert x[0] == 3 * block[0] * block[1] * block[2]


def test_a_block_of_the_interface_that_is_not_the_shaders() -> None:
    text = b"@group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(64) fn k() { x[0] = 1u; }"
    interface = devmod.Interface(
        [devmod.Param("x", "buffer", "uint32", "rw", (0, 0))], block=(8, 1, 1)
    )
    module = devmod.create(
        "webgpu", {"k": text}, "wgsl", {"k": FunctionInfo("k", ["handle"], interface=interface)}
    )
    assert refusal(devmod.FormatError, module.get_function, "k") == (
        "the WGSL of the webgpu function 'k' is built for blocks of (64, 1, 1) threads, but the payload's fmap gives (8, 1, 1)"
    )


@pytest.mark.parametrize(
    ("constants", "text"),
    [
        (
            {"N": 0},
            "1:55: this constant expression is invalid: its value is undefined or out of range",
        ),
        ({"N": 9}, "3:32: the @workgroup_size of 'k' contains 0; expected integers from 1"),
        ({"M": 0}, "1:78: the length of the array is 0; expected an integer from 1"),
    ],
)
def test_constants_with_which_the_shader_is_invalid(constants: dict[str, int], text: str) -> None:
    f = function(
        "override N: u32 = 4; override M = 8u; override D = 8u / N; var<workgroup> w: array<u32, M>;",
        "w[0] = D;",
        "D",
    )
    assert refusal(devmod.ArgumentError, f.specialize, **constants) == (
        f"the webgpu function 'k' cannot be specialized: with these constants, the WGSL source is refused at k:{text}"
    )


@pytest.mark.row("R34")
def test_one_buffer_as_read_only_and_writable_argument(device: Any) -> None:
    f = function(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>; @group(0) @binding(1) var<storage, read> y: array<u32>;",
        "x[0] = y[1];",
    )
    a = np.ones(4, "uint32")
    array = device.from_numpy(a)
    for call in (
        lambda: f(a, a, grid=1),
        lambda: f(array, array, grid=1),
        lambda: f.bind(array, array, grid=1),
    ):
        assert refusal(devmod.ArgumentError, call) == (
            "the webgpu function 'k': argument 2 'y' and argument 1 'x' are the same buffer, and the shader declares one of them as read-only. "
            "WebGPU forbids this in one launch; pass a copy for one of them"
        )


# -- modules of TVM


FOLDED = b"""
@group(0) @binding(0) var<storage, read_write> seen : array<atomic<u32>>;
struct PODArgs { n: i32, packGridDimX: u32 }
@group(0) @binding(1) var<uniform> podArgs : PODArgs;
@compute @workgroup_size(1, 1, 1)
fn k(@builtin(workgroup_id) blockIdx : vec3<u32>, @builtin(num_workgroups) gridDim : vec3<u32>) {
  if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.packGridDimX) { return; }
  atomicAdd(&seen[blockIdx.z * gridDim.x + blockIdx.x], u32(podArgs.n));
}
"""


@pytest.mark.row("R35", "R37")
def test_tvms_vadd(device: Any) -> None:
    f, info = only_function("vadd", "webgpu")
    assert info.launch_param_tags == ("blockIdx.x", "threadIdx.x", "paramWriteAccess:[0,0,1]")
    check_vadd(f, read_only=True)
    assert f.block == (64, 1, 1)


@pytest.mark.row("R35", "R37")
def test_tvms_matmul(device: Any) -> None:
    check_matmul(*only_function("matmul", "webgpu"), device)


@pytest.mark.row("R35")
@pytest.mark.parametrize("x", [1, 2, 65535, 65536, 65537, 131071, 200001])
def test_a_grid_is_folded_and_no_extra_block_runs(x: int, device: Any) -> None:
    info = FunctionInfo("k", ["handle", "int32"], ["blockIdx.x", "paramWriteAccess:[1]"])
    f = devmod.create("webgpu", {"k": FOLDED}, "wgsl", {"k": info})["k"]
    seen = device.from_numpy(np.zeros(x + 100, "uint32"))
    f(seen, 3, x)
    f.bind(seen, 4, grid=x)()
    found = seen.numpy()
    assert (found[:x] == 7).all()
    assert not found[x:].any()


@pytest.mark.row("R35")
def test_grids_that_cannot_be_folded(device: Any) -> None:
    info = FunctionInfo("k", ["handle", "int32"], ["blockIdx.x", "paramWriteAccess:[1]"])
    f = devmod.create("webgpu", {"k": FOLDED}, "wgsl", {"k": info})["k"]
    x = np.zeros(4, "uint32")
    start = f"the webgpu function 'k' cannot be launched on {device}: "
    assert refusal(devmod.LaunchError, f, x, 1, grid=(1, 1, 2)) == (
        start + "grid=(1, 1, 2) has 2 blocks in z, expected 1: TVM's shaders fold large x into z"
    )
    most = device.limits["maxComputeWorkgroupsPerDimension"]
    for grid, axis in (((2**40,), "x than fit into x and z"), ((1, most + 1), "y")):
        shown = (*grid, 1, 1)[:3]
        assert refusal(devmod.LaunchError, f, x, 1, grid=grid) == (
            start
            + f"its maxComputeWorkgroupsPerDimension is {most}, but grid={shown} has more blocks in {axis}"
        )


@pytest.mark.row("R34")
def test_tvms_scalars(device: Any) -> None:
    text = b"""
    @group(0) @binding(0) var<storage, read_write> x : array<f32>;
    struct PODArgs { a: i32, b: f32, c: u32, packGridDimX: u32 }
    @group(0) @binding(1) var<uniform> podArgs : PODArgs;
    @compute @workgroup_size(1) fn k() { x[0] = f32(podArgs.a); x[1] = podArgs.b; x[2] = f32(podArgs.c); x[3] = f32(podArgs.packGridDimX); }
    """
    f = devmod.create(
        "webgpu",
        {"k": text},
        "wgsl",
        {"k": FunctionInfo("k", ["int32", "handle", "float32", "bool"])},
    )["k"]
    x = np.zeros(4, "float32")
    f(-3, x, 0.5, True, grid=7)
    assert x.tolist() == [-3, 0.5, 1, 6]
    # Without the tag a buffer counts as written. The layout still follows the shader.
    reads = b"@group(0) @binding(0) var<storage, read> x: array<u32>; @group(0) @binding(1) var<storage, read_write> y: array<u32>; "
    info = FunctionInfo("k", ["handle", "handle"], ["blockIdx.x"])
    copies = devmod.create(
        "webgpu",
        {"k": reads + b"@compute @workgroup_size(1) fn k() { y[0] = x[0]; }"},
        "wgsl",
        {"k": info},
    )["k"]
    y = np.zeros(1, "uint32")
    copies(np.array([7], "uint32"), y, grid=1)
    assert y[0] == 7
    wrong = devmod.create(
        "webgpu", {"k": text}, "wgsl", {"k": FunctionInfo("k", ["handle", "int64"])}
    )
    assert refusal(devmod.FormatError, wrong.get_function, "k") == (
        "the webgpu function 'k' has no interface, and its argument 2 has type int64; without an interface, expected handle, int32, uint32, float32 or bool"
    )


# -- objects of wgpu


@pytest.mark.row("R34")
def test_buffers_of_wgpu(device: Any, add: Any) -> None:
    import wgpu

    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    a, b, c = host_arrays()
    buffers = [device.gpu.create_buffer_with_data(data=each, usage=usage) for each in (a, b, c)]
    add(*buffers, 64, grid=1)
    found = np.frombuffer(device.gpu.queue.read_buffer(buffers[2]), "float32")
    np.testing.assert_array_equal(found, a + b)
    add(buffers[2], device.from_numpy(b), c, 64, grid=1, stream=device.gpu.queue)
    np.testing.assert_array_equal(c, a + b + b)
    launch = add.bind(buffers[2], buffers[1], buffers[0], 64, grid=1)
    launch()
    found = np.frombuffer(device.gpu.queue.read_buffer(buffers[0]), "float32")
    np.testing.assert_array_equal(found, a + b + b)
    # A bound launch with a destroyed buffer raises, and does not end the process.
    buffers[1].destroy()
    assert "destroyed" in refusal(devmod.LaunchError, launch)
    assert "destroyed" in refusal(devmod.LaunchError, add, *buffers, 64, grid=1)
    add(a, b, c, 64, grid=1)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.row("R34")
def test_unusable_objects_of_wgpu_are_refused(device: Any, add: Any) -> None:
    import wgpu

    usage = wgpu.BufferUsage.STORAGE
    gpu = device.gpu
    other = wgpu.gpu.request_adapter_sync().request_device_sync()
    texture = gpu.create_texture(
        size=(4, 4, 1), format="r32float", usage=wgpu.TextureUsage.COPY_DST
    )
    mapped = gpu.create_buffer(size=256, usage=usage, mapped_at_creation=True)
    for value, text in (
        (
            other.create_buffer(size=256, usage=usage),
            "is a wgpu.GPUBuffer of a GPUDevice that no device of devmod is over; call devmod.device(gpu_device) first and keep the result, or create it on devmod.device('webgpu').gpu, or pass its content as a "
            "NumPy array",
        ),
        (
            gpu.create_buffer(size=256, usage=wgpu.BufferUsage.COPY_DST),
            "is a wgpu.GPUBuffer without BufferUsage.STORAGE; create it with that usage",
        ),
        (
            gpu.create_buffer(size=258, usage=usage),
            "is a wgpu.GPUBuffer of 258 bytes, expected a multiple of 4",
        ),
        (mapped, "is a wgpu.GPUBuffer that is mapped; call its unmap() first"),
        (texture, "is a GPUTexture, and the kernel takes an array of float32"),
    ):
        assert (
            refusal(devmod.ArgumentError, add, value, *host_arrays()[1:], 64, grid=1)
            == f"the webgpu function 'add': argument 1 'a' {text}"
        )
    mapped.unmap()
    add(mapped, *host_arrays()[1:], 64, grid=1)
    assert refusal(devmod.ArgumentError, add, *host_arrays(), 64, grid=1, stream=other.queue) == (
        "the webgpu function 'add' was given stream=, which is a GPUQueue: expected a stream of kind webgpu"
    )


# -- streams, events, time


def test_without_timestamps(device: Any, add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_webgpu._device import WebGPUDevice

    monkeypatch.setattr(WebGPUDevice, "timed", False)
    stream = device.default_stream
    event = stream.record()
    event.synchronize()
    assert refusal(devmod.LaunchError, stream.record().elapsed, event) == (
        f"{device} cannot time events: it does not support the feature timestamp-query"
    )
    assert (
        0 < add.bind(*(device.from_numpy(each) for each in host_arrays()), 64, grid=1).time() < 10
    )


# -- devices


LOST = """
import logging, numpy as np, devmod
from webgpu_shaders import adder
device = devmod.device("webgpu")
logging.getLogger("wgpu").setLevel(logging.CRITICAL)
f = adder()["add"]
a, b, c = (device.from_numpy(np.ones(64, "f4")) for _ in range(3))
launch = f.bind(a, b, c, 64, grid=1)
launch()
event = device.default_stream.record()
device.gpu.destroy()
for call in (
    lambda: f(a, b, c, 64, grid=1),
    lambda: f(np.ones(64, "f4"), b, c, 64, grid=1),
    lambda: f.bind(a, b, c, 64, grid=1),
    launch.time,
    c.numpy,
    lambda: device.from_numpy(np.ones(64, "f4")),
    lambda: device.empty(4, "f4"),
    device.synchronize,
    device.default_stream.record,
    lambda: device.default_stream.record().elapsed(event),
    lambda: adder()["add"],
    launch,
):
    try:
        call()
    except devmod.LaunchError as error:
        assert str(error).endswith(
            f": {device} is lost: its driver failed, was reset, or was closed. The contents of its memory are lost. Start a new process to use the device again"
        ), error
    else:
        print("no error")
"""


def test_a_lost_device(device: Any) -> None:
    assert python(LOST) == ""


USING = """
import threading
import numpy as np, devmod
from webgpu_shaders import function
f = function("@group(0) @binding(0) var<storage, read_write> x: array<f32>;", "x[id.x] *= 2;")
device = devmod.device("webgpu")
started = threading.Semaphore(0)
def use():
    while True:
        f(np.ones(64, "float32"), grid=1)
        array = device.from_numpy(np.ones(64, "float32"))
        f(array, grid=1)
        array.numpy()
        started.release()
for _ in range(3): threading.Thread(target=use, daemon=True).start()
for _ in range(30): started.acquire()
"""


def test_the_end_of_a_daemon_thread_at_interpreter_shutdown_is_silent(
    device: Any, tmp_path: Path
) -> None:
    """In a file, since wgpu writes to the standard error too."""
    for _ in range(2):
        program = f"import sys\nsys.stderr = open({str(tmp_path / 'log')!r}, 'w', 1)\n{USING}"
        assert python(program) == ""
        assert (tmp_path / "log").read_text() == ""


GROWTH = """
import gc, numpy as np
from pathlib import Path
import devmod
device = devmod.device("webgpu")
a = np.zeros(1024, "u4")
array = device.from_numpy(a)
def kilobytes():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4
def ask(times):
    for _ in range(times):
        array.numpy()
        device.from_numpy(a)
        device.synchronize()
ask(50)
before = kilobytes()
ask(300)
print(kilobytes() - before)
"""


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the test reads the memory use from Linux's /proc"
)
def test_reading_writing_and_waiting_do_not_leak_memory(device: Any) -> None:
    assert int(python(GROWTH)) < 6000  # KB; it was 100 for each time


NONE = """
import devmod, wgpu
from webgpu_shaders import adder
import devmod_webgpu._driver
wgpu.gpu.enumerate_adapters_sync = lambda: []
module = adder()
for call in (lambda: module["add"], lambda: devmod.device("webgpu")):
    try:
        call()
    except devmod.DeviceNotFoundError as error:
        print(error)
print(devmod.devices("webgpu"))
"""


def test_no_adapter(device: Any) -> None:
    text = (
        "no WebGPU adapter was found: wgpu sees no driver of Vulkan, Metal or Direct3D 12 here. For a GPU, install its vendor's driver; for a "
        "device on the CPU, on Linux: the Vulkan driver lavapipe (Debian: apt install mesa-vulkan-drivers)\n"
    )
    assert python(NONE) == 2 * text + "[]\n"


def test_listing_devices_suppresses_output_of_the_drivers(device: Any) -> None:
    """Mesa's layer looks for a Wayland display, and libwayland reports a missing XDG_RUNTIME_DIR
    each time.
    """
    clean = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    clean["DEVMOD_PLUGINS_ALLOW"] = "devmod-runtime,devmod-webgpu"
    done = subprocess.run(
        [sys.executable, "-m", "devmod", "devices"],
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "webgpu" in done.stdout


def test_wgpus_variable_selects_the_first_device(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_webgpu import _driver

    class Adapter:
        def __init__(self, name: str, kind: str) -> None:
            self.summary, self.info = name, {"adapter_type": kind, "backend_type": "Vulkan"}

    old = Adapter("old", "DiscreteGPU")
    old.info["backend_type"] = "OpenGL"
    listed = [
        old,
        Adapter("lavapipe", "CPU"),
        Adapter("small", "IntegratedGPU"),
        Adapter("odd", "Other"),
        Adapter("large", "DiscreteGPU"),
    ]
    monkeypatch.setattr(_driver.wgpu.gpu, "enumerate_adapters_sync", lambda: listed)
    assert [each.summary for each in _driver.adapters()] == ["large", "small", "odd", "lavapipe"]
    monkeypatch.setenv("WGPUPY_WGPU_ADAPTER_NAME", "lava")
    assert [each.summary for each in _driver.adapters()] == ["lavapipe", "large", "small", "odd"]
    del listed[1:]
    assert _driver.adapters() == [old]


@pytest.mark.row("R40")
def test_features_have_the_names_of_webgpu_and_of_needs(device: Any) -> None:
    from devmod_webgpu._device import WebGPUDevice

    assert "images" in device.features
    assert ("fp16" in device.features) == ("shader-f16" in device.features)
    assert "fp64" not in device.features
    same = WebGPUDevice(device._adapter, 5)
    assert same.features == device.features
    assert not same.opened  # a bundle that chooses a candidate opens no device


def subgroup_info(adapter: Any, **info: int) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(
        info={**adapter.info, "stackgroup_min_size": 0, **info},
        summary="",
        limits=adapter.limits,
        features=(),
    )


@pytest.mark.row("R40")
def test_a_required_subgroup_size_is_that_of_the_device(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_webgpu._device import WebGPUDevice

    for info, sizes in (
        ({"subgroup_min_size": 32, "subgroup_max_size": 32}, (32,)),
        ({"stackgroup_min_size": 64, "stackgroup_max_size": 64}, (64,)),
        ({"subgroup_min_size": 4, "subgroup_max_size": 32}, ()),
        ({}, ()),
    ):
        assert WebGPUDevice(subgroup_info(device._adapter, **info), 3).subgroup_sizes == sizes
    module = devmod.create(
        "webgpu",
        {"k": b"@compute @workgroup_size(1) fn k() {}"},
        "wgsl",
        {"k": FunctionInfo("k", [], interface=Interface(subgroup=16))},
    )
    monkeypatch.setattr(device, "subgroup_sizes", ())
    assert refusal(devmod.DeviceNotFoundError, module.get_function, "k") == (
        f"the webgpu function 'k' needs subgroups of 16 threads, and {device} chooses the size"
    )
    general = devmod.create(
        "webgpu",
        {"k": b"@compute @workgroup_size(1) fn k() {}"},
        "wgsl",
        {"k": FunctionInfo("k", [])},
    )
    assert devmod.bundle(module, general, mixed=True)["k"]  # a bundle skips the candidate
    monkeypatch.setattr(device, "subgroup_sizes", (16,))
    assert module.get_function("k")


@pytest.mark.parametrize(
    "enable",
    [
        "enable subgroups;",
        "enable\nsubgroups\n;",
        "enable f16, subgroups;",
        "enable subgroups, f16;",
        "/* enable subgroups; */ enable subgroups ,;",
    ],
)
def test_a_shader_that_enables_subgroups(enable: str, device: Any) -> None:
    if not {"subgroups", "fp16"} <= device.features:
        pytest.skip("the device has no subgroups, or no f16")
    module = devmod.compile(
        f"{enable} @group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(32)"
        "fn k(@builtin(local_invocation_index) i: u32, @builtin(subgroup_size) n: u32) { x[i] = 100 * n + subgroupAdd(i); }",
        "webgpu",
    )
    interface = module.functions["k"].interface
    assert interface is not None
    assert interface.needs == (("fp16", "subgroups") if "f16" in enable else ("subgroups",))
    x = np.zeros(32, "uint32")
    module["k"](x, grid=1)
    sums = {
        size: [100 * size + sum(range(i - i % size, i - i % size + size)) for i in range(32)]
        for size in (4, 8, 16, 32)
    }
    assert x.tolist() in sums.values()


def test_an_unsupported_feature(device: Any) -> None:
    interface = Interface(
        [Param("x", "buffer", "uint32", "rw", (0, 0))], extra={"features": ["shader-f128"]}
    )
    text = b"@group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(1) fn k() { x[0] = 1; }"
    module = devmod.create(
        "webgpu", {"k": text}, "wgsl", {"k": FunctionInfo("k", ["handle"], interface=interface)}
    )
    assert refusal(devmod.DeviceNotFoundError, module.get_function, "k") == (
        f"the webgpu function 'k' needs shader-f128, which {device} does not have"
    )


# -- payloads


def create(
    text: bytes,
    interface: Interface | None = None,
    types: tuple[str, ...] = ("handle",),
    entry: str = "k",
) -> Any:
    return devmod.create(
        "webgpu", {"k": text}, "wgsl", {"k": FunctionInfo(entry, types, interface=interface)}
    )


WRITES = b"@group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(1) fn k() { x[0] = 1; }"


@pytest.mark.row("R40", "R41")
@pytest.mark.parametrize(
    ("module", "text"),
    [
        (create(b"\xff"), "the webgpu shader 'k' is not UTF-8 text: byte 0 is 0xff"),
        (
            create(b"#version 450\nvoid main() {}"),
            "the webgpu shader 'k' has no compute entry point: expected a function with @compute",
        ),
        (
            devmod.create(
                "webgpu", {"other": WRITES}, "wgsl", {"k": FunctionInfo("k", ["handle"])}
            ),
            "the webgpu module has no shader for its function 'k'; it has those of 'other'",
        ),
        (
            create(WRITES, Interface([Param("x", "buffer", "uint32", "rw", 3)])),
            "the interface of the webgpu function 'k' is invalid: argument 1 'x' has the place 3, expected a group below 8 and a binding up to 65535",
        ),
        (
            create(WRITES, Interface([Param("x", "buffer", "uint32", "rw", (0, 1 << 16))])),
            "the interface of the webgpu function 'k' is invalid: argument 1 'x' has the place (0, 65536), expected a group below 8 and a binding up to 65535",
        ),
        (
            create(WRITES, Interface([Param("x", "local", "uint32")])),
            "the interface of the webgpu function 'k' is invalid: argument 1 'x' is of kind local, which WGSL does not support",
        ),
        (
            create(WRITES, Interface([Param("n", "scalar", "uint32", at=(0, 0))]), ("uint32",)),
            "the interface of the webgpu function 'k' is invalid: argument 1 'n' has the place (0, 0), which is in no block",
        ),
        (
            create(
                WRITES,
                Interface([Param("n", "scalar", "uint32", at=(0, 0))], [Block("push", 4)]),
                ("uint32",),
            ),
            "the interface of the webgpu function 'k' is invalid: block 0 has the place 'push', expected a group below 8 and a binding up to 65535",
        ),
        (
            create(
                WRITES,
                Interface([Param("x", "buffer", at=(0, 0)), Param("y", "buffer", at=(0, 0))]),
                ("handle", "handle"),
            ),
            "the interface of the webgpu function 'k' is invalid: two bindings use group 0, binding 0",
        ),
        (
            create(WRITES, Interface([Param("x", "buffer", at=(0, 0), extra={"least": -1})])),
            "the interface of the webgpu function 'k' is invalid: argument 1 'x' has the least size -1, expected a number of bytes",
        ),
        (
            create(WRITES, Interface([], [Block((0, 0), 0)]), ()),
            f"the interface of the webgpu function 'k' is invalid: block 0 has 0 bytes, expected 1 to {1 << 20}",
        ),
    ],
)
def test_invalid_payloads(module: Any, text: str, device: Any) -> None:
    for _ in range(2):
        assert refusal(devmod.FormatError, module.get_function, "k") == text


def test_an_entry_with_a_zero_byte(device: Any) -> None:
    text = "the webgpu function 'k' has the entry point 'k\\x00', expected a name without null characters"
    assert refusal(devmod.FormatError, create(WRITES, entry="k\0").get_function, "k") == text


#: naga overflows its stack on each.
DEEP = (
    "let a = " + "(" * 3000 + "1" + ")" * 3000 + "; }",
    "let a = 1" + "+1" * 3000 + "; }",
    "let a = b" + "[0]" * 3000 + "; }",
    "if b[0] == 0 {}" + " else if b[0] == 1 {}" * 3000 + " }",
    "let a = " + "( // )\r" * 3000,
    "let a = " + "( /* /* */ ) */" * 3000,
    "} var<private> p: " + "array<" * 3000 + "u32" + ", 1>" * 3000 + ";",
    "} @id(" + "abs(" * 3000 + "1" + ")" * 3000 + ") override a = 1;",
)
#: naga ends the process on it.
MATRICES = (
    "struct In { a: vec4f, m: mat4x2f } struct Out { i: In } @group(0) @binding(0) var<uniform> u: Out;"
    "@group(0) @binding(1) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k() { x[0] = u.i.m[i32(x[1])].y; }"
)


def test_shaders_that_crash_naga_are_refused_before_the_trial(device: Any) -> None:
    for text, refused in (
        *(
            (
                f"@compute @workgroup_size(1) fn k() {{ var b = array(1); {end}",
                "on which compilers overflow their stack",
            )
            for end in DEEP
        ),
        (MATRICES, "matrix of two rows"),
    ):
        assert refused in refusal(
            devmod.CompileError, create(text.encode(), Interface(), ()).get_function, "k"
        )


def test_bindings_that_do_not_match_the_shader(device: Any) -> None:
    start = f"{device.name} cannot build the webgpu function 'k' (entry 'k') with the arguments that the payload's fmap gives it: "
    for interface in (
        Interface([Param("x", "buffer", "uint32", "r", (0, 0))]),
        Interface([Param("x", "buffer", "uint32", "rw", (0, 1))]),
    ):
        text = refusal(devmod.FormatError, create(WRITES, interface).get_function, "k")
        assert text.startswith(start)
        assert "0" in text[len(start) :]
    text = refusal(
        devmod.FormatError,
        create(
            WRITES, Interface([Param("x", "buffer", "uint32", "rw", (0, 0))]), entry="j"
        ).get_function,
        "k",
    )
    assert text.startswith(start.replace("entry 'k'", "entry 'j'"))


def test_a_shader_that_does_not_compile(device: Any) -> None:
    text = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn k() { x[0].b = 1.0; }"
    error = raised(
        devmod.CompileError, lambda: create(text.encode(), Interface(), ()).get_function("k")
    )
    assert str(error) == (
        f"{device.name} cannot build the webgpu source: k.wgsl:2:43: invalid field accessor `b`\n"
        "   @compute @workgroup_size(1) fn k() { x[0].b = 1.0; }\n"
        "                                             ^ invalid accessor"
    )
    assert ":2:43" in error.log


@pytest.mark.row("R31", "R33")
def test_equal_texts_are_compiled_once(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_webgpu import _kernel

    seen: list[str] = []
    real = _kernel.compile_shader

    def compile_shader(device: Any, text: str, entry: str) -> Any:
        seen.append(text)
        return real(device, text, entry)

    monkeypatch.setattr(_kernel, "compile_shader", compile_shader)
    text = ADD + "@compute @workgroup_size(1) fn one() { c[0] = 1; }"
    module = devmod.compile(text, "webgpu")
    c = np.zeros(4, "float32")
    module["one"](c, grid=1)
    module["add"](np.ones(4, "float32"), np.ones(4, "float32"), c, 4, grid=1)
    module["add"].specialize()
    assert c.tolist() == [2] * 4
    assert seen == [text]


# -- interrupts


ALL_USES = """
import numpy as np, devmod
from webgpu_shaders import adder
device = devmod.device("webgpu")
from pycparser import CParser
CParser.parse = None
module = adder()
arrays = [device.from_numpy(np.ones(64, "float32")) for _ in range(3)]
module["add"](*arrays, 64, threads=64)
launch = module["add"].bind(*arrays, 64, threads=64)
launch(), launch.time()
begin, end = device.default_stream.record(), device.stream().record()
device.synchronize(), device.default_stream.wait(end), end.elapsed(begin)
host = np.zeros(64, "float32")
arrays[2].copy_to(host, wait=False).synchronize()
arrays[0][1:].copy_from(arrays[2][:63]), arrays[0].copy_from(host), device.zeros(3, "uint8")[1:2].numpy()
text = "override n: u32; @group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(1) fn k() { x[0] = n; }"
x = np.zeros(1, "uint32")
devmod.compile(text, "webgpu")["k"].specialize(n=7)(x, grid=1)
try: devmod.compile(text.replace("x[0] = n", "x[0] = n + 1.5"), "webgpu")["k"]
except devmod.CompileError: pass
print(x, host[0])
"""


def test_no_c_type_is_parsed_after_the_import_of_wgpu(device: Any) -> None:
    """An interrupt of the parser leaves the lock of cffi held, and each type takes 13 ms."""
    assert python(ALL_USES) == "[7] 2.0\n"


#: A thread sends signals until one has interrupted the main thread: a signal before its wait has
#: begun does not end the wait.
INTERRUPT = """
import os, signal, threading, time
landed, begun = [], threading.Event()

def interrupt(*_):
    if not landed:
        landed.append(True)
        raise KeyboardInterrupt

def send():
    begun.wait()
    while not landed:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

signal.signal(signal.SIGINT, interrupt)
threading.Thread(target=send, daemon=True).start()
"""
LOST_MAP = """
import numpy as np, devmod
device = devmod.device("webgpu")
import wgpu
array, hosts = device.from_numpy(np.arange(64)), [np.zeros(64, "int64") for _ in range(2)]
reads = [array.copy_to(each, wait=False) for each in hosts]
resume = threading.Event()
sync_wait = wgpu.GPUPromise.sync_wait

def wait(promise):
    begun.set()
    resume.wait()
    return sync_wait(promise)

wgpu.GPUPromise.sync_wait = wait
try:
    device.synchronize()
except KeyboardInterrupt:
    print("interrupted")
resume.set()
device.synchronize()
print((array.numpy() == np.arange(64)).all(), all((each == np.arange(64)).all() for each in hosts))
"""


@pytest.mark.row("R37")
def test_an_interrupt_of_a_wait_leaves_started_reads_valid(device: Any) -> None:
    assert python(INTERRUPT + LOST_MAP) == "interrupted\nTrue True\n"


@pytest.mark.row("R37")
def test_no_buffer_is_mapped_while_a_launch_is_submitted(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission calls the callbacks of other threads: an interrupt of one would be lost, and its
    thread would wait for ever.
    """
    import wgpu

    launch = add.bind(*(device.zeros(64, "float32") for _ in range(3)), 64, threads=64)
    read = threading.Thread(
        target=device.zeros(64, "float32").copy_to(np.zeros(64, "float32"), wait=False).synchronize
    )
    is_mapped, submit, map_sync = (
        threading.Event(),
        type(device.gpu.queue).submit,
        wgpu.GPUBuffer.map_sync,
    )

    def submit_late(queue: Any, commands: Any) -> None:
        if read.ident is None:
            read.start()
            assert not is_mapped.wait(0.3)
        submit(queue, commands)

    monkeypatch.setattr(type(device.gpu.queue), "submit", submit_late)
    monkeypatch.setattr(
        wgpu.GPUBuffer, "map_sync", lambda *args: (is_mapped.set(), map_sync(*args))[1]
    )
    launch()
    read.join()


LATE_SUBMISSION = """
import numpy as np, devmod
from devmod_runtime import call_uninterrupted, has_uninterrupted_calls
device = devmod.device("webgpu")
import wgpu
text = "@group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(1) fn k() { x[0] = 2 * x[0] + 1; }"
double, x = devmod.compile(text, "webgpu")["k"], device.zeros(1, "uint32")
double(x, grid=1)
resume, end = threading.Event(), threading.Event()
threading.Thread(target=call_uninterrupted, args=(end.wait,), daemon=True).start()  # as a wait of another thread
while not has_uninterrupted_calls(): pass
submit = type(device.gpu.queue).submit

def submit_late(queue, commands):
    if not begun.is_set():
        begun.set()
        resume.wait()
    return submit(queue, commands)

type(device.gpu.queue).submit = submit_late
try:
    double(x, grid=1)
except KeyboardInterrupt:
    print("interrupted")
threading.Timer(0.2, resume.set).start()
ASK
print(x.numpy())
end.set()
"""


@pytest.mark.row("R37")
@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        ("double(x, grid=1)", 7),
        pytest.param("pass", 3, marks=pytest.mark.volume),
        ("x.copy_from(np.zeros(1, 'uint32'))", 0),
    ],
)
def test_operations_after_an_interrupted_launch_follow_it(
    device: Any, ask: str, expected: int
) -> None:
    assert python(INTERRUPT + LATE_SUBMISSION.replace("ASK", ask)) == f"interrupted\n[{expected}]\n"
