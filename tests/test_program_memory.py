"""The memory of programs as their kernels see it: the run-time length of arrays, and addresses in
structs.
"""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal
from http_server import http_server

import devmod

pytestmark = pytest.mark.row("R45")

# -- run-time lengths


#: `copy` writes as many elements as both arrays have. `count` gives the sum of an array's elements,
#: and their number.
GLSL = {
    "copy": """layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { T x[]; };
layout(binding = 1) buffer Y { T y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < min(x.length(), y.length())) y[i] = x[i]; }""",
    "count": """layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { T x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() { y[0] = 0; for (uint i = 0; i < x.length(); i++) y[0] += float(x[i]); y[1] = float(x.length()); y[2] = float(y.length()); }""",
}
WGSL = {
    "copy": """@group(0) @binding(0) var<storage> x: array<T>;
@group(0) @binding(1) var<storage, read_write> y: array<T>;
@compute @workgroup_size(1) fn copy(@builtin(global_invocation_id) id: vec3u) {
  if id.x < min(arrayLength(&x), arrayLength(&y)) { y[id.x] = x[id.x]; }
}""",
    "count": """@group(0) @binding(0) var<storage> x: array<T>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn count() {
  y[0] = 0; for (var i = 0u; i < arrayLength(&x); i++) { y[0] += f32(x[i]); }
  y[1] = f32(arrayLength(&x)); y[2] = f32(arrayLength(&y));
}""",
}
#: The language's type and the line that a shader begins with.
TYPES = {
    ("vulkan", "int32"): ("int", "#version 450"),
    ("vulkan", "float16"): (
        "float16_t",
        "#version 450\n#extension GL_EXT_shader_16bit_storage : require",
    ),
    ("vulkan", "uint8"): (
        "uint8_t",
        "#version 450\n#extension GL_EXT_shader_8bit_storage : require\n#define float(x) float(int(x))",
    ),
    ("webgpu", "int32"): ("i32", ""),
    ("webgpu", "float16"): ("f16", "enable f16;"),
}
cases = pytest.mark.parametrize(("kind", "dtype"), TYPES)


def kernels(kind: str, dtype: str) -> devmod.Module:
    type_, head = TYPES[kind, dtype]
    texts = {
        name: text.replace("<T>", f"<{type_}>").replace("T ", f"{type_} ")
        for name, text in (GLSL if kind == "vulkan" else WGSL).items()
    }
    return devmod.bundle(
        *[devmod.compile(f"{head}\n{text}", kind, name=name) for name, text in texts.items()]
    )


def loaded(module: devmod.Module, **declared: Any) -> Any:
    return devmod.loads(devmod.dumps(devmod.program("p", module, **declared)))["p"]


def seen(kind: str, dtype: str, n: int) -> int:
    """The length that a kernel sees of an array: WebGPU binds whole words, and no kind binds
    nothing.
    """
    size, unit = np.dtype(dtype).itemsize, 4 if kind == "webgpu" else 1
    return -(-max(n * size, 1) // unit) * unit // size


@cases
def test_a_kernel_sees_the_length_of_a_temporary(kind: str, dtype: str) -> None:
    device = first_device(kind)
    steps = [
        "copy(x=x, y=t, threads=n)",
        "copy(x=z, y=s, threads=m)",
        "count(x=t, y=y, threads=1)",
        "copy(x=s, y=u, threads=m)",
    ]
    f = loaded(
        kernels(kind, dtype),
        inputs=[f"x: {dtype}[n]", f"z: {dtype}[m]"],
        outputs=["y: float32[3]", "v: float32[3]"],
        temporaries=[
            f"{name}: {dtype}[{length}]" for name, length in (("t", "n"), ("s", "m"), ("u", "m"))
        ],
        steps=[*steps, "count(x=u, y=v, threads=1)"],
    ).on(device)
    other = device.stream()

    def check(y: Any, v: Any, n: int, m: int) -> None:
        for found, length in ((y, n), (v, m)):
            # The padding is zero: it has no elements of another array, call or program.
            assert np.asarray(found).tolist() == [length, seen(kind, dtype, length), 3]

    for n, m in ((100, 5), (5, 100), (7, 6), (0, 3), (3, 0), (100, 100), (1, 9)):
        x, z = np.ones(n, dtype), np.ones(m, dtype)
        for stream in (None, other):
            check(*f(x, z, stream=stream), n, m)
        y, v = device.zeros(3, "float32"), device.zeros(3, "float32")
        bound = f.bind(device.from_numpy(x), device.from_numpy(z), y=y, v=v)
        for _ in range(2):
            bound()
            check(y.numpy(), v.numpy(), n, m)


@cases
def test_a_temporary_shows_no_element_of_another_program(kind: str, dtype: str) -> None:
    device, module = first_device(kind), kernels(kind, dtype)
    declared: dict[str, Any] = {"outputs": ["y: float32[3]"], "temporaries": [f"t: {dtype}[n]"]}
    first, second = (
        loaded(
            module,
            inputs=[f"x: {dtype}[n]"],
            **declared,
            steps=["copy(x=x, y=t, threads=n)", "count(x=t, y=y, threads=1)"],
        ).on(device)
        for _ in range(2)
    )
    first(np.full(1000, 99, dtype))
    assert second(np.zeros(5, dtype)).tolist() == [0, seen(kind, dtype, 5), 3]


@cases
def test_the_padding_of_an_array_has_no_element_of_another(kind: str, dtype: str) -> None:
    device = first_device(kind)
    count = kernels(kind, dtype)["count"].on(device)
    full = device.from_numpy(np.full(64, 99, dtype))
    for _ in range(3):
        count(
            device.from_numpy(np.full(1, 99, dtype)), device.empty(3, "float32"), grid=1
        )  # freed memory with a number
    part, update = device.empty(5, dtype), np.zeros(3, "float32")
    part.copy_from(full[:5])
    arrays = {
        "copy": (part, 5),
        "view": (full[:6], 6),
        "empty view": (full[:0], 0),
        "host": (np.full(5, 99, dtype), 5),
    }
    arrays |= {
        "empty": (device.empty(0, dtype), 0),
        "no numbers": (np.zeros(0, dtype), 0),
        "zeros": (device.zeros(0, dtype), 0),
    }
    for name, (array, length) in arrays.items():
        count(array, update, grid=1)
        assert (name, update.tolist()) == (name, [99 * length, seen(kind, dtype, length), 3])


LENGTHS = {
    "vulkan": """#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { int x[]; };
layout(binding = 1) buffer Y { int y[]; };
void main() { y[6] = x.length(); y[7] = y.length(); }""",
    "webgpu": """@group(0) @binding(0) var<storage, read_write> x: array<i32>;
@group(0) @binding(1) var<storage, read_write> y: array<i32>;
@compute @workgroup_size(1) fn main() { y[6] = i32(arrayLength(&x)); y[7] = i32(arrayLength(&y)); }""",
}


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.row("R34")
def test_a_kernel_sees_the_lengths_of_two_arrays_with_one_start(kind: str) -> None:
    f = devmod.compile(LENGTHS[kind], kind)["main"].on(first_device(kind))
    memory = np.zeros(8, "int32")
    for _ in range(2):
        f(memory[:3], memory, grid=1)
        assert memory.tolist() == [0] * 6 + [3, 8]


# -- addresses in structs


ADDRESSES = """#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : enable
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Data { int x[]; };
struct Target { Data data; int n; };
layout(push_constant) uniform P { Target target; int value; };
void main() { int i = int(gl_GlobalInvocationID.x); if (i < target.n) target.data.x[i] += value; }"""


@pytest.mark.parametrize("count", ["n", "m"])  # a length, and a number of the call
def test_each_call_has_the_addresses_of_its_own_arrays(count: str) -> None:
    device = first_device("vulkan")
    f = loaded(
        devmod.compile(ADDRESSES, "vulkan", name="add"),
        inputs=["value: int32", "m: int32"],
        updates=["y: int32[n]"],
        temporaries=["t: int32[n] = 0"],
        steps=[f"add(data={name}, n={count}, value=value, threads=n)" for name in ("t", "y", "y")],
    ).on(device)
    kept = []
    for number in range(1, 6):
        length = 1000 if number == 3 else 5  # the buffers of temporaries grow
        for y in (device.zeros(length, "int32"), np.zeros(length, "int32")):
            kept.append(weakref.ref(y))
            f(number, length, y)
            assert (y if isinstance(y, np.ndarray) else y.numpy()).tolist() == [2 * number] * length
    device.synchronize()
    f(0, 1, device.zeros(1, "int32"))
    del y
    gc.collect()
    assert not [each for each in kept if each() is not None]
    bound = f.bind(7, 5, y := device.zeros(5, "int32"))
    bound()
    assert y.numpy().tolist() == [14] * 5


# -- the end of a program


def test_a_program_is_freed_with_its_last_reference(tmp_path: Path) -> None:
    """Its module, and a kernel of the bundle, have what refers to them."""
    device = first_device("opencl")
    source = (
        "kernel void add(global float *y, global const float *x) { y[get_global_id(0)] += *x; }"
    )
    weights = devmod.const_loader({"w": np.full(1, 2, "float32")}, {"init": ["w"]})
    module = devmod.program(
        "p",
        devmod.bundle(devmod.compile(source, "opencl"), weights, mixed=True),
        constants=["w: float32[1]"],
        inputs=["x: float32[n]"],
        outputs=["y: float32[n] = 0"],
        steps=["add(y=y, x=x, threads=n)", "add(y=y, x=w, threads=n)"],
    )
    devmod.save(module, tmp_path / "p.devmod")
    x = device.from_numpy(np.ones(3, "float32"))
    y = device.empty(3, "float32")
    gc.collect()
    gc.disable()
    try:
        loaded = devmod.load(tmp_path / "p.devmod")
        used = [loaded["p"], loaded["p"].on(device), loaded["add"]]
        assert used[0](np.ones(3, "float32")).tolist() == [3, 3, 3]
        bound = used[1].bind(x, y=y)
        bound()
        used[2](y, x, threads=3)
        assert y.numpy().tolist() == [4, 4, 4]
        kept = [weakref.ref(each) for each in (loaded, *used, bound)]
        del loaded, used, bound
        assert not [each for each in kept if each() is not None]
        f = devmod.load(tmp_path / "p.devmod")["p"].on(device)
        f = f.replace(
            modules=[], resolve=list, find_devices=list
        )  # the steps are those of the first
        assert f(x).numpy().tolist() == [3, 3, 3]
    finally:
        gc.enable()


# -- images of other libraries


INVERT = """kernel void invert(read_only image2d_t source, write_only image2d_t result) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(result, at, 1 - read_imagef(source, at));
}"""
INVERT_WGSL = """@group(0) @binding(0) var source: texture_2d<f32>;
@group(0) @binding(1) var result: texture_storage_2d<rgba8unorm, write>;
@compute @workgroup_size(1) fn invert(@builtin(global_invocation_id) id: vec3u) {
  textureStore(result, id.xy, 1 - textureLoad(source, id.xy, 0));
}"""


def invert(device: Any, source: str) -> Any:
    module = devmod.compile(
        source, device.kind, **({"block": 1} if device.kind == "opencl" else {})
    )
    declared: dict[str, Any] = {
        "inputs": ["a: rgba8unorm[h, w]"],
        "outputs": ["b: rgba8unorm[h, w]"],
    }
    return loaded(module, **declared, steps=["invert(source=a, result=b, threads=(w, h))"]).on(
        device
    )


def check_images(f: Any, good: Any, alias: Any, unusable: dict[str, tuple[Any, str]]) -> None:
    """Each call is checked with its own images, also behind a call of the same sizes."""
    own = f.device.image((9, 7), "rgba8unorm")
    f(good, b=own)
    assert (own.numpy() == 255).all()
    for name, (image, problem) in unusable.items():
        assert refusal(devmod.ArgumentError, f, **{"a": good, "b": own, name: image}).endswith(
            problem
        )
    for one, two in ((good, good), (good, alias), (alias, good)):
        assert refusal(devmod.ArgumentError, f, one, b=two) == (
            f"the {f.device.kind} program 'p': the argument 'b' overlaps the argument 'a', and the program writes to one of them; "
            "pass a copy of it"
        )
    f(own, b=good)


@pytest.mark.row("R34")
def test_images_of_pyopencl_are_checked_in_each_call() -> None:
    device = first_device("opencl")
    import pyopencl as cl

    def image(flags: int) -> Any:
        form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNORM_INT8)
        return cl.create_image(device.context, flags, form, (9, 7))

    good = image(cl.mem_flags.READ_WRITE)
    cl.enqueue_fill_image(
        device.default_stream.queue, good, np.zeros(4, "float32"), (0, 0, 0), (9, 7, 1)
    ).wait()
    alias = cl.MemoryObject.from_int_ptr(good.int_ptr)
    unusable = {
        "a": (
            image(cl.mem_flags.WRITE_ONLY),
            " is write-only, and the kernel may read it; pass an image that kernels may read",
        ),
        "b": (
            image(cl.mem_flags.READ_ONLY),
            " is read-only, and the kernel may write to it; pass an image that kernels may write to",
        ),
    }
    check_images(invert(device, INVERT), good, alias, unusable)


@pytest.mark.row("R34")
def test_textures_of_wgpu_are_checked_in_each_call() -> None:
    device = first_device("webgpu")
    import wgpu

    use = wgpu.TextureUsage

    def texture(usage: int) -> Any:
        return device.gpu.create_texture(size=(9, 7, 1), format="rgba8unorm", usage=usage)

    good = texture(use.TEXTURE_BINDING | use.STORAGE_BINDING | use.COPY_SRC)
    unusable = {
        "a": (
            texture(use.STORAGE_BINDING),
            " is a wgpu.GPUTexture without TextureUsage.TEXTURE_BINDING; create it with that usage",
        ),
        "b": (
            texture(use.TEXTURE_BINDING),
            " is a wgpu.GPUTexture without TextureUsage.STORAGE_BINDING; create it with that usage",
        ),
    }
    check_images(invert(device, INVERT_WGSL), good, good.create_view(), unusable)


# -- constants at a URL


ADD = "kernel void add(global float *y, global const float *x) { y[0] += x[5000]; }"


@pytest.mark.row("R20", "R45")
def test_the_constants_of_a_program_are_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    device = first_device("opencl")
    values = {f"w{number}": np.full(5001, number, np.float32) for number in range(8)}
    kernels = devmod.compile(ADD, "opencl", block=1)
    constants = devmod.const_loader(values, {"init": [*values]})
    program = devmod.program(
        "p",
        devmod.bundle(kernels, constants, mixed=True),
        updates=["y: float32[1]"],
        constants=[f"{name}: float32[5001]" for name in values],
        steps=[f"add(y=y, x={name}, grid=1)" for name in values],
    )
    with http_server() as server:
        server.files["k.devmod"] = devmod.dumps(program)
        f = devmod.load(server.url())["p"].on(device)
        f(y := np.zeros(1, np.float32))
        assert y == sum(range(8))
        assert len(server.requests) == 2
