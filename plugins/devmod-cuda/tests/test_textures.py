"""Images: kernels that read textures and write surfaces."""

from __future__ import annotations

import gc
import sys
from ctypes import memmove
from functools import cache, partial
from struct import pack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backend_checks import sample_image
from each_case import refusal
from standin_cuda import library_class

import devmod
from devmod.backend import ConversionError
from devmod_cuda._launch import ADOPTION
from devmod_cuda._textures import image_over

RESAMPLE = """
__device__ float4 fetch(cudaTextureObject_t picture, float x, float y) { return tex2D<float4>(picture, x, y); }
extern "C" __global__ void resample(cudaTextureObject_t source, cudaSurfaceObject_t target, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        surf2Dwrite(fetch(source, (x + .5f) / width, (y + .5f) / height), target, x * 16, y);
}
extern "C" __global__ void read_at(cudaTextureObject_t source, const float2 *places, float4 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex2D<float4>(source, places[i].x, places[i].y);
}
"""


@cache
def saved(source: str = RESAMPLE) -> bytes:
    return devmod.dumps(devmod.compile(source, "cuda -arch=compute_80"))


def module(source: str = RESAMPLE) -> devmod.Module:
    return devmod.loads(saved(source))


def test_the_signature_has_the_images() -> None:
    f = module().functions["resample"]
    assert f.interface is not None
    assert str(f) == (
        "<FunctionInfo resample(source: image 2d float r, source_sampler: sampler, target: image 2d w, width: int32, height: int32) any block>"
    )
    assert [(param.at, param.sample) for param in f.interface.params[:3]] == [
        (0, "float"),
        (0, ""),
        (1, ""),
    ]
    assert f.arg_types == ("handle", "handle", "handle", "int32", "int32")


@pytest.mark.each_driver
def test_a_resampler_with_a_linear_filter(device: Any) -> None:
    rng = np.random.default_rng(1)
    picture = rng.random((5, 7, 4), "float32")
    source, target = device.image_from_numpy(picture), device.image((13, 9), "rgba32float")
    assert not target.numpy().any()
    module()["resample"](
        source, device.sampler(filter="linear"), target, 13, 9, threads=(13, 9), block=(8, 4)
    )
    x, y = np.meshgrid((np.arange(13) + 0.5) / 13, (np.arange(9) + 0.5) / 9)
    expected = sample_image(
        picture, np.stack([x.ravel(), y.ravel()], 1), filter="linear", address="clamp"
    )
    # CUDA's weights have 8 bits behind the point.
    assert np.abs(target.numpy().reshape(-1, 4) - expected).max() < 2 / 512 + 1e-5
    # The same size gives the picture itself.
    same = device.image((7, 5), "rgba32float")
    module()["resample"](
        source=source,
        source_sampler=device.sampler(),
        target=same,
        width=7,
        height=5,
        threads=(7, 5),
        block=(8, 4),
    )
    assert np.array_equal(same.numpy(), picture)


@pytest.mark.parametrize(
    ("format_", "dtype", "scale"),
    [
        ("rgba8unorm", "uint8", 255),
        ("rgba8snorm", "int8", 127),
        ("rgba16unorm", "uint16", 65535),
        ("rgba16snorm", "int16", 32767),
        ("rgba16float", "float16", 1),
        ("rgba32float", "float32", 1),
        ("rg8unorm", "uint8", 255),
        ("r32float", "float32", 1),
    ],
)
def test_formats_that_a_kernel_reads_as_floats(
    format_: str, dtype: str, scale: int, device: Any
) -> None:
    image = device.image((3, 2), format_)
    texels = np.random.default_rng(3).integers(0, 100, image.array_shape).astype(dtype)
    if dtype.startswith("int"):
        texels[0, 0, 0] = np.iinfo(dtype).min
    image.copy_from(texels)
    assert np.array_equal(image.numpy(), texels)
    x, y = np.meshgrid(np.arange(3) + 0.5, np.arange(2) + 0.5)
    out = np.zeros((6, 4), "float32")
    module()["read_at"](
        image,
        device.sampler(normalized=False),
        np.stack([x.ravel(), y.ravel()], 1).astype("f4"),
        out,
        6,
        threads=6,
    )
    channels = image.texel.channels
    expected = np.zeros((6, 4))
    expected[:, 3] = 1
    expected[:, :channels] = np.maximum(texels.reshape(6, channels).astype("f8") / scale, -1)
    assert np.abs(out - expected).max() < 1e-6


def test_images_in_batches_graphs_and_specialized_functions(device: Any) -> None:
    """The receiver compiles the source; a capture creates the objects, and the images live until
    the graph has run.
    """
    source = RESAMPLE.replace(
        "float4 fetch",
        "float4 scaled(float4 v) { v.x *= FACTOR; return v; }\n__device__ float4 fetch",
    )
    source = source.replace("surf2Dwrite(fetch(", "surf2Dwrite(scaled(fetch(").replace(
        "/ height), target", "/ height)), target"
    )
    f = devmod.compile(source, "cuda -format=cuda", defines={"FACTOR": 2})["resample"]
    picture = np.random.default_rng(6).random((4, 4, 4), "float32")
    stream, target = device.stream(), device.image((4, 4), "rgba32float")
    with stream.batch():
        f(
            device.image_from_numpy(picture),
            device.sampler(),
            target,
            4,
            4,
            threads=(4, 4),
            block=4,
            stream=stream,
        )
        gc.collect()
    assert np.array_equal(target.numpy(), picture * np.float32([2, 1, 1, 1]))
    tripled = f.specialize(FACTOR=3)
    launch = tripled.bind(
        device.image_from_numpy(picture),
        device.sampler(),
        target,
        4,
        4,
        threads=(4, 4),
        block=4,
        stream=stream,
    )
    graph = stream.graph([launch])
    del launch
    gc.collect()
    graph()
    assert np.array_equal(target.numpy(), picture * np.float32([3, 1, 1, 1]))


KINDS = """
extern "C" __global__ void kinds(cudaTextureObject_t line, cudaTextureObject_t cube, cudaTextureObject_t pages, cudaTextureObject_t lines,
                                 cudaSurfaceObject_t volume, cudaSurfaceObject_t layers, cudaSurfaceObject_t row, int4 *out)
{
    out[0] = tex1D<int4>(line, 2);
    out[1] = tex3D<int4>(cube, 1, 2, 3);
    uint4 page = tex2DLayered<uint4>(pages, 1, 2, 1);
    out[2] = make_int4(page.x, page.y, page.z, page.w);
    out[3] = make_int4(tex1DLayered<int>(lines, 2, 1), 0, 0, 0);
    ushort4 texel;
    surf3Dread(&texel, volume, 1 * sizeof texel, 2, 3);
    texel.x += 1;
    surf3Dwrite(texel, volume, 0 * sizeof texel, 1, 2);
    surf2DLayeredwrite((unsigned char)7, layers, 1, 2, 1);
    int value;
    surf1Dread(&value, row, 3 * sizeof value);
    surf1Dwrite(value * 2, row, 0);
    surf1Dread(&value, row, 99 * sizeof value, cudaBoundaryModeZero);
    surf1Dwrite(value + 5, row, 1 * sizeof value);
    surf1Dwrite(value + 9, row, 99 * sizeof value, cudaBoundaryModeClamp);
    surf1Dwrite(value + 9, row, 99 * sizeof value, cudaBoundaryModeZero);
}
"""


def test_all_types_of_images(device: Any) -> None:
    """An image with 1, 2 or 3 dimensions or with layers, as a texture and as a surface."""
    rng = np.random.default_rng(4)

    def image(shape: tuple[int, ...], format_: str, layers: int = 0) -> tuple[Any, Any]:
        result = device.image(shape, format_, layers=layers)
        texels = rng.integers(0, 100, result.array_shape).astype(result.texel.dtype)
        result.copy_from(texels)
        return result, texels

    line, of_line = image((5,), "rgba32sint")
    cube, of_cube = image((4, 5, 6), "rgba8sint")
    pages, of_pages = image((3, 4), "rgba16uint", 2)
    lines, of_lines = image((3,), "r16sint", 2)
    volume, of_volume = image((3, 4, 5), "rgba16uint")
    layers, of_layers = image((3, 4), "r8uint", 2)
    row, of_row = image((6,), "r32sint")
    pixels = device.sampler(normalized=False)
    out = np.zeros((4, 4), "int32")
    module(KINDS)["kinds"](
        line,
        pixels,
        cube,
        pixels,
        pages,
        pixels,
        lines,
        pixels,
        volume,
        layers,
        row,
        out,
        grid=1,
        block=1,
    )
    assert out[:3].tolist() == [
        of_line[2].tolist(),
        of_cube[3, 2, 1].tolist(),
        of_pages[1, 2, 1].tolist(),
    ]
    assert out[3, 0] == of_lines[1, 2]
    of_volume[2, 1, 0] = of_volume[3, 2, 1] + np.array([1, 0, 0, 0], "uint16")
    assert np.array_equal(volume.numpy(), of_volume)
    of_layers[1, 2, 1] = 7
    assert np.array_equal(layers.numpy(), of_layers)
    of_row[0], of_row[1], of_row[5] = 2 * of_row[3], 5, 9
    assert row.numpy().tolist() == of_row.tolist()


def test_threads_that_read_different_textures(device: Any) -> None:
    """The object is chosen in the kernel, so its type is unknown before the launch."""
    source = """
extern "C" __global__ void k(cudaTextureObject_t a, cudaTextureObject_t b, float *out)
{
    out[threadIdx.x] = tex1D<float>(threadIdx.x % 3 ? a : b, threadIdx.x + .5f);
}
"""
    f = module(source)["k"]
    assert (
        str(f.info.interface)
        == "<Interface (a: image r, a_sampler: sampler, b: image r, b_sampler: sampler, out: float32* rw)>"
    )
    images = [device.image(8, "r32float") for _ in range(2)]
    for number, image in enumerate(images):
        image.copy_from(np.arange(8, dtype="float32") + 10 * number)
    out, pixels = np.zeros(8, "float32"), device.sampler(normalized=False)
    f(images[0], pixels, images[1], pixels, out, grid=1, block=8)
    assert out.tolist() == [10, 1, 2, 13, 4, 5, 16, 7]


def test_one_texture_object_for_each_sampler(device: Any, standin: Any) -> None:
    image, target = (
        device.image_from_numpy(np.ones((4, 4, 4), "float32")),
        device.image((4, 4), "rgba32float"),
    )
    before = [
        standin.calls(name)
        for name in (
            "cuTexObjectCreate",
            "cuSurfObjectCreate",
            "cuTexObjectDestroy",
            "cuArrayDestroy",
        )
    ]
    f = module()["resample"]
    for _ in range(3):
        f(image, device.sampler(filter="linear"), target, 4, 4, threads=(4, 4), block=4)
        f(image, device.sampler(), target, 4, 4, threads=(4, 4), block=4)

    def calls() -> list[int]:
        names = ("cuTexObjectCreate", "cuSurfObjectCreate", "cuTexObjectDestroy", "cuArrayDestroy")
        return [standin.calls(name) - count for name, count in zip(names, before, strict=True)]

    assert calls() == [2, 1, 0, 0]
    # The launches are queued, and use the array and the objects.
    stream = device.stream()
    launch = f.bind(image, device.sampler(), target, 4, 4, threads=(4, 4), block=4, stream=stream)
    launch()
    del image
    gc.collect()
    launch()
    assert calls() == [2, 1, 0, 0]
    assert (target.numpy() == 1).all()
    del launch
    gc.collect()
    assert calls() == [2, 1, 2, 1]


def test_an_image_in_a_cycle_of_references(standin: Any, device: Any) -> None:
    """The stand-in driver refuses to destroy an array before the objects that read it."""
    f = devmod.compile(RESAMPLE, "cuda -arch=compute_80")["resample"]
    gc.collect()  # images of other tests
    count = standin.calls("cuArrayDestroy")
    for _ in range(10):
        cycle: list[Any] = [
            device.image((4, 4), "rgba32float"),
            device.image((4, 4), "rgba32float"),
        ]
        cycle.append(cycle)
        f(cycle[0], device.sampler(), cycle[1], 4, 4, threads=(4, 4), block=4)
        del cycle
    gc.collect()
    assert standin.calls("cuArrayDestroy") == count + 20


error_of = partial(refusal, devmod.ArgumentError)


@pytest.mark.row("R34")
def test_misuse_is_refused_before_the_driver(device: Any) -> None:
    integers = module(KINDS)["kinds"]
    whole, pixels = (
        device.image((4,), "rgba32sint"),
        device.sampler(filter="linear", normalized=False),
    )
    arguments = (
        whole,
        pixels,
        device.image((4, 4, 4), "rgba8sint"),
        pixels,
        device.image((3, 4), "rgba16uint", layers=2),
        pixels,
        device.image((3,), "r16sint", layers=2),
        pixels,
        device.image((3, 4, 5), "rgba16uint"),
        device.image((3, 4), "r8uint", layers=2),
        device.image(6, "r32sint"),
        np.zeros((4, 4), "int32"),
    )
    assert error_of(integers, *arguments, grid=1, block=1) == (
        "the cuda function 'kinds': argument 1 'line' is an image of rgba32sint, which a linear sampler cannot read: CUDA filters no "
        "integers (CU_TR_FILTER_MODE_LINEAR); pass a sampler with filter='nearest'"
    )
    assert error_of(device.image, (4, 4), "bgra8unorm") == (
        f"image: {device} supports no image of bgra8unorm: CUDA has no array format (CUarray_format) for it; use rgba8unorm"
    )
    assert error_of(device.image, (200_000, 4), "r8unorm") == (
        f"image: {device} supports no image of the shape (200000, 4): its maximum_surface2d_width is 131072"
    )
    assert error_of(device.image, (4, 4), "r8unorm", layers=3000) == (
        f"image: {device} supports no image of the shape (4, 4) with 3000 layers: its maximum_surface2d_layered_layers is 2048"
    )


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("params", "text"),
    [
        (
            [("source", "image", 1), ("s", "sampler", 0)],
            "has the image 'source' at 1; expected the number of the kernel's parameter, 0, and a",
        ),
        (
            [("source", "image", 0), ("s", "sampler", None)],
            "has the sampler 's' at None; expected the number of the kernel's parameter, 0",
        ),
        (
            [("s", "sampler", 0), ("source", "image", 0)],
            "has the sampler 's' at 0; expected the number of the kernel's parameter, 0, and a",
        ),
        (
            [("a", "image", 0), ("s", "sampler", 0), ("t", "sampler", 0)],
            "has the sampler 't' at 0; expected the number",
        ),
    ],
)
def test_a_wrong_interface_never_reaches_the_driver(
    params: list[tuple[Any, ...]], text: str, device: Any
) -> None:
    interface = devmod.Interface([devmod.Param(name, kind, at=at) for name, kind, at in params])
    info = devmod.FunctionInfo(
        "resample", ["handle"] * len(params), ["blockIdx.x"], interface=interface
    )
    loaded = devmod.create(
        "cuda", module().inspect_source("ptx").encode(), "ptx", {"resample": info}
    )
    assert text in refusal(devmod.FormatError, loaded.get_function, "resample")


OBJECTS = """
typedef cudaTextureObject_t Picture;
struct Pair { cudaTextureObject_t one, two; };
extern "C" __global__ void k(const Picture picture, unsigned long long number, Pair pair, cudaTextureObject_t linear,
                             cudaTextureObject_t cube, cudaTextureObject_t unused, float *out)
{
    out[0] = tex2D<float>(picture, 0, 0) + tex2D<float>(number, 0, 0) + tex2D<float>(pair.one, 0, 0) + tex1Dfetch<float>(linear, 3)
           + texCubemap<float>(cube, 0, 0, 1);
}
"""


def test_which_parameters_are_images() -> None:
    """A number, a member of a struct, linear memory and a cube map stay numbers: other libraries
    make their objects.
    """
    f = devmod.compile(OBJECTS, "cuda -arch=compute_80").functions["k"]
    assert str(f.interface) == (
        "<Interface (picture: image 2d float r, picture_sampler: sampler, number: uint64, "
        "pair: {one: uint64, two: uint64}, linear: uint64, cube: uint64, unused: image r, unused_sampler: sampler, …) any block>"
    )
    types = ["uint64", "uint64", "uint8x16", "uint64", "uint64", "uint64", "handle"]
    declared = devmod.compile(
        OBJECTS, "cuda -arch=compute_80", fmap={"k": devmod.FunctionInfo("k", types)}
    ).functions["k"]
    assert declared.arg_types == tuple(types)


def test_arrays_of_other_libraries_are_images(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA array of CuPy or pycuda is an image, also without the flag of surfaces. Its texels of
    8 and 16 bits are integers.
    """
    cuda = SimpleNamespace(get_current_stream=lambda index: SimpleNamespace(ptr=0))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]

    def array(flags: int, form: tuple[int, ...], library: str = "cupy") -> Any:
        with device.context:
            handle = device.driver.call("create_array", pack("<3Q3I4x", *form, flags))
        if library == "cupy":
            return library_class("CUDAarray", "cupy.cuda.texture")(ptr=handle)
        return library_class("Array", "pycuda._driver")(handle=handle)

    texels = np.random.default_rng(5).random((5, 7, 4), "float32")
    source, target = array(0, (7, 5, 0, 32, 4), "pycuda"), array(2, (7, 5, 0, 32, 4))
    (image, stream), (result, _) = ADOPTION.adopt_array(source), ADOPTION.adopt_array(target)
    assert (image.shape, image.format, image.layers, stream) == (
        (7, 5),
        "rgba32float",
        0,
        device.default_stream,
    )
    image.copy_from(texels)
    module()["resample"](
        source, device.sampler(), target, 7, 5, threads=(7, 5), stream=device.default_stream
    )
    assert np.array_equal(result.numpy(), texels)
    forms = {
        (3, 0, 0, 1, 1): "r8uint",
        (3, 4, 0, 9, 2): "rg16sint",
        (3, 4, 5, 16, 4): "rgba16float",
        (3, 0, 2, 10, 1): "r32sint",
    }
    images = {
        form: ADOPTION.adopt_array(array(form == (3, 0, 2, 10, 1), form))[0] for form in forms
    }
    assert {form: each.format for form, each in images.items()} == forms
    assert [(each.shape, each.layers) for each in images.values()] == [
        ((3,), 0),
        ((3, 4), 0),
        ((3, 4, 5), 0),
        ((3,), 2),
    ]

    def error(*arguments: Any) -> str:
        return error_of(lambda: module()["resample"](*arguments, 7, 5, threads=(7, 5)))

    label = "the cuda function 'resample': argument"
    assert error(source, device.sampler(), source) == (
        f"{label} 3 'target' is a CUDA array without a surface, which CUDA_ARRAY3D_SURFACE_LDST gives it"
    )
    # A program checks the arrays of each call, also behind a call of the same sizes.
    step = "resample(source=a, source_sampler=s, target=b, width=w, height=h, threads=(w, h), block=(8, 4))"
    declared: dict[str, Any] = {
        "inputs": ["a: rgba32float[h, w]"],
        "outputs": ["b: rgba32float[h, w]"],
        "samplers": ["s: nearest clamp"],
    }
    program = devmod.program("p", module(), **declared, steps=[step])["p"].on(device)
    program(source, b=target)
    other = library_class("CUDAarray", "cupy.cuda.texture")(ptr=target.ptr)
    overlap = "the cuda program 'p': the argument 'b' overlaps the argument 'a', and the program writes to one of them; pass a copy of it"
    assert error_of(program, target, b=other) == overlap
    assert error_of(program, target, b=source) == (
        f"the cuda program 'p', step 1: {label} 3 'target' ('b' of the program) is a CUDA array without a surface, which CUDA_ARRAY3D_SURFACE_LDST gives it"
    )
    gone = library_class("CUDAarray", "cupy.cuda.texture")(ptr=0)
    assert error(gone, device.sampler(), target) == (
        f"{label} 1 'source' is a CUDA array that the driver refuses: cuArray3DGetDescriptor: CUDA_ERROR_INVALID_HANDLE (invalid resource "
        "handle)"
    )


@pytest.mark.parametrize(
    ("form", "flags"),
    [((7, 5, 0, 0xB1, 4), 0), ((7, 5, 0, 1, 3), 0), ((7, 7, 6, 1, 4), 4)],
    ids=["format", "channels", "cube"],
)
def test_arrays_that_are_no_images(
    form: tuple[int, ...], flags: int, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pack("<3Q3I4x", *form, flags)
    call = type(device.driver).call

    def call_or_describe(driver: Any, operation: str, *arguments: Any) -> Any:
        if operation != "array_form":  # the collector may destroy handles meanwhile
            return call(driver, operation, *arguments)
        memmove(arguments[0], data, len(data))
        return None

    monkeypatch.setattr(type(device.driver), "call", call_or_describe)
    assert refusal(ConversionError, image_over, device, 1, None) == (
        f"is a CUDA array of the format {form[3]:#x} with {form[4]} channels and the flags {flags:#x}; expected 1, 2 or 4 channels of a "
        "number, and no flags but CUDA_ARRAY3D_LAYERED (0x1) and CUDA_ARRAY3D_SURFACE_LDST (0x2)"
    )
