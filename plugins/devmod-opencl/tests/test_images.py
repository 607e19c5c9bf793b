"""Images and samplers on OpenCL devices, against NumPy, and what a call refuses."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import numpy as np
import pytest
from each_case import refusal

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import IMAGE_FORMATS

TYPES = {
    "1d": ((7,), 0),
    "2d": ((7, 5), 0),
    "3d": ((7, 5, 3), 0),
    "1d_array": ((7,), 4),
    "2d_array": ((7, 5), 4),
}
#: OpenCL C's type of a coordinate, and the coordinate of the texel of a thread, by the type of an
#: image.
PLACES = {
    "1d": ("int", "x"),
    "2d": ("int2", "(int2)(x, y)"),
    "3d": ("int4", "(int4)(x, y, z, 0)"),
    "1d_array": ("int2", "(int2)(x, y)"),
    "2d_array": ("int4", "(int4)(x, y, z, 0)"),
}
RESIZE = """
__kernel void resize(read_only image2d_t source, write_only image2d_t result, sampler_t how, float2 scale, float2 offset) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    if (all(at < get_image_dim(result)))
        write_imagef(result, at, read_imagef(source, how, (convert_float2(at) + 0.5f) * scale + offset));
}
"""


@pytest.fixture(scope="module")
def resize() -> Any:
    return devmod.compile(RESIZE, "opencl")["resize"]


def texels(format: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return different texels for each place and channel."""
    dtype = np.dtype(IMAGE_FORMATS[format].dtype)
    values = np.random.default_rng(1).random(shape)
    return (
        values.astype(dtype) if dtype.kind == "f" else (values * np.iinfo(dtype).max).astype(dtype)
    )


error_of = partial(refusal, devmod.ArgumentError)


# -- the memory of images


@pytest.mark.parametrize("type_", TYPES)
def test_images_of_the_formats_of_the_device(device: Any, type_: str) -> None:
    shape, layers = TYPES[type_]
    formats = device.image_formats("READ_WRITE", type_)
    assert {"rgba8unorm", "rgba8uint", "rgba16float", "rgba32float", "r32float"} <= formats
    assert {device.image(shape, format, layers=layers).type for format in formats} == {type_}


@pytest.mark.parametrize("type_", TYPES)
def test_a_kernel_sees_each_texel_at_its_place(device: Any, type_: str) -> None:
    shape, layers = TYPES[type_]
    place, at = PLACES[type_]
    array = type_.endswith("_array")
    depth = (
        f"get_image_{'array_size' if array else 'depth'}(a)" if type_ in ("3d", "2d_array") else "1"
    )
    height = (
        "1"
        if type_ == "1d"
        else "get_image_array_size(a)"
        if type_ == "1d_array"
        else "get_image_height(a)"
    )
    source = f"""
    #pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable
    constant sampler_t S = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    __kernel void add(read_only image{type_}_t a, write_only image{type_}_t b) {{
        int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
        {place} at = {at};
        if (x < get_image_width(a) && y < {height} && z < {depth}) write_imageui(b, at, read_imageui(a, S, at) + (uint4)(x, y, z, 1));
    }}"""
    add = devmod.compile(source, "opencl")["add"]
    params = add.info.interface.params
    assert [(each.type, each.access, each.sample) for each in params] == [
        (type_, "r", "uint"),
        (type_, "w", "uint"),
    ]
    assert add.info.interface.needs == (
        ("image_writes_3d", "images") if type_ == "3d" else ("images",)
    )
    a, b = (device.image(shape, "rgba16uint", layers=layers) for _ in range(2))
    values = np.random.default_rng(2).integers(0, 1000, a.array_shape).astype("uint16")
    a.copy_from(values)
    counts = (*shape, layers)[: 2 + (depth != "1")] if array else shape
    add(a, b, threads=counts)
    grid = np.indices(values.shape[:-1])[::-1].astype("uint16")
    for axis, numbers in enumerate(grid):
        values[..., axis] += numbers
    values[..., 3] += 1
    np.testing.assert_array_equal(b.numpy(), values)


def test_a_format_that_the_device_lacks(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    has = frozenset(("r32float", "rgba32float", "rgba8unorm"))
    monkeypatch.setattr(type(device), "image_formats", lambda *_: has)
    for shape, name, type_, listed in (
        ((4, 4), "rg32float", "2d", "float32 it lists: r32float, rgba32float"),
        (4, "r8sint", "1d", "int8 it lists: none"),
    ):
        assert error_of(device.image, shape, name) == (
            f"image: {device} supports no image of {name}: clGetSupportedImageFormats does not list it for the type {type_}; of {listed}"
        )


def test_images_beyond_the_limits(device: Any) -> None:
    handle = device.handle
    width, depth, layers = (
        handle.image2d_max_width,
        handle.image3d_max_depth,
        handle.image_max_array_size,
    )
    for shape, options, name, limit in (
        ((width + 1, 1), {}, "image2d_max_width", width),
        ((width + 1,), {}, "image2d_max_width", width),
        ((1, handle.image2d_max_height + 1), {}, "image2d_max_height", handle.image2d_max_height),
        ((1, 1, depth + 1), {}, "image3d_max_depth", depth),
        ((1, 1), {"layers": layers + 1}, "image_max_array_size", layers),
    ):
        text = f" with {options['layers']} layers" if options else ""
        problem = (
            f"image: {device} supports no image of the shape {shape}{text}: its {name} is {limit}"
        )
        assert error_of(device.image, shape, "r32float", **options) == problem


def test_an_image_that_is_too_large_for_the_memory(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(device.limits, "max_mem_alloc_size", 1023)
    assert (
        refusal(devmod.DeviceMemoryError, device.image, (16, 16), "r32float")
        == f"{device} cannot allocate 1024 bytes: its max_mem_alloc_size is 1023"
    )


def test_a_device_without_images(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handle:
        image_support = 0

    with monkeypatch.context() as patch:
        patch.setattr(device, "handle", Handle())
        assert (
            error_of(device.image, 4, "r32float")
            == f"image: {device} has no images: its image_support is 0"
        )


# -- samplers


def test_a_sampler_reads_the_nearest_layer_of_an_array(device: Any) -> None:
    # With coordinates in texels: for normalized ones PoCL 3.0 multiplies the layer by the number of
    # layers.
    source = """__kernel void read(read_only image2d_array_t a, sampler_t how, __global const float4 *places, __global float *x) {
        x[get_global_id(0)] = read_imagef(a, how, places[get_global_id(0)]).x;
    }"""
    f = devmod.compile(source, "opencl")["read"]
    values = texels("r32float", (3, 5, 7))
    image = device.image((7, 5), "r32float", layers=3)
    image.copy_from(values)
    layers = {-1: 0, 0: 0, 1: 1, 1.4: 1, 1.6: 2, 2: 2, 9: 2}
    places = np.array(
        [[3, 2.5, layer, 0] for layer in layers], "float32"
    )  # between two texels of a row
    x = np.zeros(len(places), "float32")
    f(
        image,
        device.sampler(filter="linear", normalized=False),
        places,
        x,
        grid=len(places),
        block=1,
    )
    np.testing.assert_allclose(
        x, [values[layer, 2, 2:4].mean() for layer in layers.values()], rtol=1e-5
    )


def test_a_linear_sampler_does_not_read_whole_numbers(device: Any) -> None:
    source = RESIZE.replace("write_imagef", "write_imagei").replace("read_imagef", "read_imagei")
    f = devmod.compile(source, "opencl")["resize"]
    a, b = device.image((4, 4), "rgba8sint"), device.image((4, 4), "rgba8sint")
    arguments = {"scale": (0.25, 0.25), "offset": (0, 0), "threads": (4, 4)}
    assert error_of(f, a, b, device.sampler(filter="linear"), **arguments) == (
        "the opencl function 'resize': argument 1 'source' is an image of rgba8sint, which a linear sampler cannot read: OpenCL filters no "
        "integers; pass a sampler with filter='nearest'"
    )
    f(a, b, device.sampler(), **arguments)


@pytest.mark.parametrize("library", ["devmod", "pyopencl"])
def test_a_sampler_that_is_deleted_before_the_kernel_begins(
    pocl: Any, resize: Any, library: str
) -> None:
    """PoCL destroys it, and the kernel reads by the rules of another one at its address."""
    import pyopencl as cl

    modes, filters = cl.addressing_mode, cl.filter_mode
    picture = texels("r32float", (5, 7))
    source, result = pocl.image_from_numpy(picture), pocl.image((7, 5), "r32float")
    others = []
    for _ in range(10):
        gate = cl.UserEvent(pocl.context)
        cl.enqueue_barrier(pocl.default_stream.queue, wait_for=[gate])
        how: Any = pocl.sampler()
        if library == "pyopencl":
            how = cl.Sampler(pocl.context, True, modes.CLAMP_TO_EDGE, filters.NEAREST)
        resize(source, result, how, (1 / 7, 1 / 5), (0, 0), threads=(7, 5))
        del how
        for _ in range(8):
            others.append(cl.Sampler(pocl.context, False, modes.CLAMP, filters.LINEAR))
        gate.set_status(cl.command_execution_status.COMPLETE)
        np.testing.assert_array_equal(result.numpy(), picture)


# -- calls


def test_an_image_that_a_kernel_reads_and_writes(device: Any) -> None:
    if "rgba32float" not in device.image_formats("KERNEL_READ_AND_WRITE", "2d"):
        pytest.skip("the device has no images that a kernel reads and writes")
    source = """__kernel void iterate(read_write image2d_t a) {
        int2 at = (int2)(get_global_id(0), get_global_id(1));
        write_imagef(a, at, read_imagef(a, at) * 2.0f + 1.0f);
    }"""
    step = devmod.compile(source, "opencl", options=["-cl-std=CL2.0"])["iterate"]
    assert step.info.interface.params[0].access == "rw"
    picture = texels("rgba32float", (3, 5, 4))
    image = device.image_from_numpy(picture)
    launch = step.bind(image, grid=(5, 3), block=1)
    for _ in range(3):
        launch()
    np.testing.assert_allclose(image.numpy(), picture * 8 + 7, rtol=1e-5)


def test_a_prepared_launch_keeps_its_images_and_its_sampler(device: Any, resize: Any) -> None:
    picture = texels("rgba8unorm", (5, 7, 4))
    result = device.image((7, 5), "rgba8unorm")
    launch = resize.bind(
        source=device.image_from_numpy(picture),
        how=device.sampler(),
        result=result,
        scale=(1 / 7, 1 / 5),
        offset=(0, 0),
        threads=(7, 5),
    )
    gc.collect()
    others = [device.image((7, 5), "rgba8unorm") for _ in range(4)]
    launch()
    np.testing.assert_array_equal(result.numpy(), picture)
    assert launch.time() > 0
    assert not others[0].numpy().any()


def test_images_beside_arrays_locals_and_numbers(device: Any) -> None:
    source = """__kernel void blend(__global float *out, int a, read_only image1d_t image, int b, __local int *shared, int c, sampler_t how, int d) {
        shared[0] = a + b * 10 + c * 100 + d * 1000;
        out[0] = shared[0] + read_imagef(image, how, 1).x;
    }"""
    f = devmod.compile(source, "opencl")["blend"]
    image, out = device.image(3, "r32float"), np.zeros(1, "float32")
    image.copy_from(np.array([0, 0.5, 0], "float32"))
    how = device.sampler(normalized=False)
    on_device = device.zeros(1, "float32")
    for _ in range(3):
        f(out, 1, image, 2, devmod.Local(4), 3, how, 4, grid=1, block=1)
        f(on_device, 1, image, 2, devmod.Local(4), 3, how, 4, grid=1, block=1)
        assert out[0] == on_device.numpy()[0] == 4321.5
        out[0] = 0


def test_a_format_that_kernels_cannot_access(
    device: Any, resize: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [device.image((4, 4), name) for name in ("r32float", "rgba8unorm")]
    monkeypatch.setattr(
        type(device),
        "image_formats",
        lambda _, flags, __: {"WRITE_ONLY": {"r32float"}, "READ_ONLY": {"rgba8unorm"}}[flags],
    )
    for source, result, number, name, verb, flags in (
        (images[0], images[0], "1 'source'", "r32float", "read", "READ_ONLY"),
        (images[1], images[1], "2 'result'", "rgba8unorm", "write to", "WRITE_ONLY"),
    ):
        assert error_of(
            resize, source, result, device.sampler(), (0, 0), (0, 0), threads=(4, 4)
        ) == (
            f"the opencl function 'resize': argument {number} is an image of {name}: {device} does not list it for kernels that {verb} "
            f"images (clGetSupportedImageFormats, CL_MEM_{flags})"
        )


# -- images and samplers of pyopencl


def pyopencl_image(
    context: Any, flags: str, shape: tuple[int, ...], order: str = "R", **options: Any
) -> Any:
    import pyopencl as cl

    format_ = cl.ImageFormat(getattr(cl.channel_order, order), cl.channel_type.FLOAT)
    return cl.create_image(context, getattr(cl.mem_flags, flags), format_, shape, **options)


@pytest.mark.row("R34")
def test_images_and_samplers_of_pyopencl(device: Any, resize: Any) -> None:
    import pyopencl as cl

    context = device.context
    queue = cl.CommandQueue(context, device.handle)
    picture = texels("r32float", (5, 7))
    source, result = (
        pyopencl_image(context, "READ_ONLY", (7, 5)),
        pyopencl_image(context, "WRITE_ONLY", (7, 5)),
    )
    cl.enqueue_copy(queue, source, picture, origin=(0, 0), region=(7, 5))
    how = cl.Sampler(context, True, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST)
    resize(source, result, how, (1 / 7, 1 / 5), (0, 0), threads=(7, 5))
    back = np.zeros_like(picture)
    cl.enqueue_copy(queue, back, result, origin=(0, 0), region=(7, 5))
    np.testing.assert_array_equal(back, picture)
    own = device.image((7, 5), "r32float")  # together with devmod's own
    resize(source, own, device.sampler(), (1 / 7, 1 / 5), (0, 0), threads=(7, 5))
    np.testing.assert_array_equal(own.numpy(), picture)
    other = cl.Context([device.handle])
    foreign = (
        pyopencl_image(other, "READ_ONLY", (7, 5)),
        cl.Sampler(other, True, how.addressing_mode, how.filter_mode),
    )
    for arguments, number, name in (
        ((foreign[0], own, how), "1 'source'", "Image"),
        ((source, own, foreign[1]), "3 'how'", "Sampler"),
    ):
        assert error_of(resize, *arguments, (0, 0), (0, 0), threads=1) == (
            f"the opencl function 'resize': argument {number} is a pyopencl {name} in {other!r}, which no device of devmod "
            "is over; call devmod.device(queue) or devmod.device(context) first and keep the result, or create it in "
            f"devmod.device('opencl', {device.index}).context"
        )


@pytest.mark.row("R34")
def test_images_of_pyopencl_that_are_refused(device: Any, resize: Any) -> None:
    image, how = device.image((4, 4), "r32float"), device.sampler()
    read, write = (
        pyopencl_image(device.context, flags, (4, 4)) for flags in ("READ_ONLY", "WRITE_ONLY")
    )
    volume = pyopencl_image(device.context, "READ_WRITE", (4, 4, 4))
    alpha = pyopencl_image(device.context, "READ_WRITE", (4, 4), "A")
    for source, result, text in (
        (
            write,
            image,
            "1 'source' is write-only, and the kernel may read it; pass an image that kernels may read",
        ),
        (
            image,
            read,
            "2 'result' is read-only, and the kernel may write to it; pass an image that kernels may write to",
        ),
        (volume, image, "1 'source' is an image of type 3d, and the kernel takes 2d"),
    ):
        text = f"the opencl function 'resize': argument {text}"
        assert error_of(resize, source, result, how, (0, 0), (0, 0), threads=1) == text
    text = error_of(resize, alpha, image, how, (0, 0), (0, 0), threads=1)
    assert text.startswith(
        "the opencl function 'resize': argument 1 'source' is a pyopencl Image of a format that devmod does not support ("
    )


def test_an_image_over_a_buffer(device: Any) -> None:
    import pyopencl as cl

    source = "__kernel void k(read_only image1d_buffer_t a, __global float *x) { int i = get_global_id(0); x[i] = read_imagef(a, i).x; }"
    f = devmod.compile(source, "opencl")["k"]
    assert [param.type for param in f.info.interface.params] == ["1d_buffer", "float32"]
    values = np.arange(20000, dtype="float32")  # more than an image of one dimension has
    buffer = cl.Buffer(
        device.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values
    )
    image, x = (
        pyopencl_image(device.context, "READ_WRITE", (20000,), buffer=buffer),
        np.zeros_like(values),
    )
    f(image, x, grid=200, block=100)
    np.testing.assert_array_equal(x, values)
    assert error_of(f, device.image(64, "r32float"), x, grid=1, block=64) == (
        "the opencl function 'k': argument 1 'a' is an image of type 1d, and the kernel takes 1d_buffer"
    )
    g = devmod.compile("__kernel void k(read_only image1d_t a) {}", "opencl")["k"]
    assert error_of(g, image, grid=1, block=1) == (
        "the opencl function 'k': argument 1 'a' is an image of type 1d_buffer, and the kernel takes 1d"
    )


def test_the_drivers_type_counts_where_the_interface_has_none(device: Any) -> None:
    f = devmod.compile(
        "__kernel void k(read_only image2d_t a, read_only image2d_depth_t b) {}",
        "opencl",
        options=["-cl-std=CL2.0"],
    )
    functions = {
        "k": FunctionInfo(
            "k", ["handle"] * 2, (), (), Interface([Param("a", "image"), Param("b", "image")])
        )
    }
    module = devmod.create(
        "opencl", f.save_to_bytes() and f.inspect_source().encode(), "cl", functions
    )
    image = device.image((4, 4), "r32float")
    assert error_of(module["k"], device.image(4, "r32float"), image, grid=1, block=1) == (
        "the opencl function 'k': argument 1 'a' is an image of type 1d, and the kernel takes image2d_t"
    )
    assert error_of(module["k"], image, image, grid=1, block=1) == (
        "the opencl function 'k': argument 2 'b' is an image of type 2d, and the kernel takes image2d_depth_t"
    )


# -- an fmap that does not fit the program


@pytest.mark.parametrize(
    ("argument", "param", "text"),
    [
        (
            "__global float *x",
            Param("x", "image", "2d", "r"),
            "a __global pointer (float*) as argument 1, and the payload's fmap has image 2d",
        ),
        (
            "__global float *x",
            Param("x", "sampler"),
            "a __global pointer (float*) as argument 1, and the payload's fmap has sampler",
        ),
        (
            "ulong x",
            Param("x", "image", "2d", "r"),
            "a value (ulong) as argument 1, and the payload's fmap has image 2d",
        ),
        (
            "read_only image2d_t x",
            Param("x", "buffer", "float32", "r"),
            "an image (image2d_t) as argument 1, and the payload's fmap has buffer",
        ),
        (
            "read_only image2d_t x",
            Param("x", "image", "3d", "r"),
            "an image (image2d_t) as argument 1, and the payload's fmap has image 3d",
        ),
        (
            "read_only image2d_t x",
            Param("x", "sampler"),
            "an image (image2d_t) as argument 1, and the payload's fmap has sampler",
        ),
        (
            "read_only image2d_t x",
            Param("x", "scalar", "uint64"),
            "an image (image2d_t) as argument 1, and the payload's fmap has uint64",
        ),
        (
            "read_only image2d_t x",
            Param("x", "local", ""),
            "an image (image2d_t) as argument 1, and the payload's fmap has local",
        ),
        (
            "read_only image2d_t x",
            None,
            "an image (image2d_t) as argument 1, and the payload's fmap has handle",
        ),
        (
            "sampler_t x",
            Param("x", "image", "2d", "r"),
            "a sampler (sampler_t) as argument 1, and the payload's fmap has image 2d",
        ),
        (
            "sampler_t x",
            Param("x", "buffer", "float32", "r"),
            "a sampler (sampler_t) as argument 1, and the payload's fmap has buffer",
        ),
        (
            "sampler_t x",
            Param("x", "scalar", "uint64"),
            "a sampler (sampler_t) as argument 1, and the payload's fmap has uint64",
        ),
    ],
)
def test_a_wrong_fmap_never_reaches_the_driver(
    device: Any, argument: str, param: Param | None, text: str
) -> None:
    type_ = param.type if param is not None and param.kind == "scalar" else "handle"
    interface = Interface([param]) if param is not None else None
    functions = {"k": FunctionInfo("k", [type_], (), (), interface)}
    module = devmod.create("opencl", f"__kernel void k({argument}) {{}}".encode(), "cl", functions)
    assert (
        refusal(devmod.FormatError, lambda: module["k"].on(device))
        == f"the opencl kernel 'k' takes {text}"
    )


def test_typedefs_of_images_and_samplers(device: Any) -> None:
    source = """typedef image2d_t picture; typedef sampler_t rule;
    __kernel void k(picture a, rule how, __global float *x) { x[0] = read_imagef(a, how, (float2)(0.5f)).x; }"""
    x = np.zeros(1, "float32")
    image = device.image_from_numpy(np.full((3, 3), 2, "float32"))
    devmod.compile(source, "opencl")["k"](image, device.sampler(), x, grid=1, block=1)
    assert x[0] == 2


def test_images_of_a_binary(device: Any) -> None:
    from devmod_opencl import _driver

    module = devmod.compile(RESIZE, "opencl")
    program = module["resize"].on(device)._launcher.builds.get(device)
    binary = devmod.create("opencl", _driver.binary_of(program), "clbin", module.functions)
    picture = texels("r32float", (5, 7))
    result = device.image((7, 5), "r32float")
    binary["resize"](
        device.image_from_numpy(picture),
        result,
        device.sampler(),
        (1 / 7, 1 / 5),
        (0, 0),
        threads=(7, 5),
    )
    np.testing.assert_array_equal(result.numpy(), picture)


# -- needs


def pretend(
    monkeypatch: pytest.MonkeyPatch, device: Any, features: str, sizes: tuple[int, ...] = ()
) -> None:
    monkeypatch.setattr(device, "features", frozenset(features.split()))
    monkeypatch.setattr(device, "subgroup_sizes", sizes)


def test_the_features_of_a_device(device: Any) -> None:
    known = {
        "fp16",
        "fp64",
        "image_writes_3d",
        "images",
        "int64_atomics",
        "processor",
        "subgroup_size",
        "subgroups",
    }
    assert device.features <= known
    extensions = device.handle.extensions.split()
    assert ("fp16" in device.features) == ("cl_khr_fp16" in extensions)
    assert ("images" in device.features) == bool(device.handle.image_support)
    assert bool(device.subgroup_sizes) == ("subgroup_size" in device.features)
    assert ("processor" in device.features) == bool(device.handle.type & 2)  # CL_DEVICE_TYPE_CPU


HALF = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n__kernel void k(__global float *x) { half y = (half)x[0]; x[0] = y + (half)1; }"
SINGLE = "__kernel void k(__global float *x) { x[0] += 2; }"


def test_a_bundle_skips_what_the_device_cannot_run(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, single = devmod.compile(HALF, "opencl"), devmod.compile(SINGLE, "opencl")
    with monkeypatch.context() as patch:
        pretend(patch, device, "fp64 images")
        patch.setenv("DEVMOD_DEVICE", f"opencl:{device.index}")  # the others are not asked
        x = np.ones(1, "float32")
        devmod.bundle(half, single)["k"](x, grid=1, block=1)
        assert x[0] == 3
        assert f"needs fp16, which {device} does not have" in refusal(
            devmod.DeviceNotFoundError, devmod.bundle(half).get_function, "k"
        )
    if "fp16" in device.features:
        x = np.ones(1, "float32")
        devmod.bundle(half, single)["k"](x, grid=1, block=1)
        assert x[0] == 2


def test_a_bundle_chooses_by_the_size_of_subgroups(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [
        devmod.compile(
            f"__attribute__((intel_reqd_sub_group_size({size}))) __kernel void k(__global float *x) {{ x[0] = {size}; }}",
            "opencl",
        )
        for size in (16, 8)
    ]
    x = np.zeros(1, "float32")
    with monkeypatch.context() as patch:
        pretend(patch, device, "subgroups subgroup_size", (8, 32))
        devmod.bundle(*modules)["k"](x, grid=1, block=1)
        assert x[0] == 8
        assert refusal(devmod.DeviceNotFoundError, modules[0].get_function, "k") == (
            f"the opencl function 'k' needs subgroups of 16 threads (it has subgroups of 8, 32), which {device} does not have"
        )
    with monkeypatch.context() as patch:
        pretend(patch, device, "subgroups")
        assert (
            refusal(
                devmod.DeviceNotFoundError,
                devmod.compile(modules[0].inspect_source(), "opencl").get_function,
                "k",
            )
            == f"the opencl function 'k' needs subgroup_size, which {device} does not have"
        )
