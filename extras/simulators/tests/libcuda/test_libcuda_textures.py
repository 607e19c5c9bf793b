"""Arrays, textures and surfaces of the stand-in CUDA driver, through cuda-bindings: NVIDIA's own
layouts of the descriptors.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cuda_calls import allocate, cuda, driver, errors, read, zeros
from ptx_sources import ptx_of

from devmod_simulators import StandinDriver

pytestmark = pytest.mark.usefixtures("context")
SOURCE = """
extern "C" __global__ void read(unsigned long long texture, float x, float y, float4 *out) { *out = tex2D<float4>(texture, x, y); }
extern "C" __global__ void level(unsigned long long texture, float level, float4 *out) { *out = tex2DLod<float4>(texture, 0.5f, 0.5f, level); }
extern "C" __global__ void fetch(unsigned long long texture, int x, int4 *out) { *out = tex1Dfetch<int4>(texture, x); }
extern "C" __global__ void write(unsigned long long surface, int x, int y) { surf2Dwrite(7.f, surface, x, y); }
extern "C" __global__ void cube(unsigned long long texture, float x, float y, float z, float4 *out) { *out = texCubemap<float4>(texture, x, y, z); }
extern "C" __global__ void cubes(unsigned long long texture, float x, float y, float z, int cube, float4 *out) { *out = texCubemapLayered<float4>(texture, x, y, z, cube); }
extern "C" __global__ void face(unsigned long long surface, int x, int y, int face) { surfCubemapwrite(7.f, surface, x, y, face); }
"""


def form(width: int, height: int = 0, depth: int = 0, flags: int = 2, channels: int = 1) -> Any:
    """Return the descriptor of an array of floats."""
    result = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    result.Width, result.Height, result.Depth, result.NumChannels, result.Flags = (
        width,
        height,
        depth,
        channels,
        flags,
    )
    result.Format = cuda.CUarray_format.CU_AD_FORMAT_FLOAT
    return result


def copy(array: Any, data: np.ndarray, *, to_array: bool, x: int = 0) -> str:
    """Copy rows of floats to an array or from it, and return the name of the error."""
    size = cuda.CUDA_MEMCPY3D()
    host, texels = ("src", "dst") if to_array else ("dst", "src")
    setattr(size, f"{host}MemoryType", cuda.CUmemorytype.CU_MEMORYTYPE_HOST)
    setattr(size, f"{host}Host", data.ctypes.data)
    setattr(size, f"{host}Pitch", data.shape[-1] * 4)
    setattr(size, f"{host}Height", data.shape[-2])
    setattr(size, f"{texels}MemoryType", cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY)
    setattr(size, f"{texels}Array", array)
    setattr(size, f"{texels}XInBytes", x)
    depth, height, width = data[None].shape[-3:]
    size.WidthInBytes, size.Height, size.Depth = 4 * width, height, depth
    return errors.cuMemcpy3D(size)


def resource(array: Any) -> Any:
    result = cuda.CUDA_RESOURCE_DESC()
    result.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    result.res.array.hArray = array
    return result


def launch(name: str, *values: tuple[Any, Any]) -> str:
    module = driver.cuModuleLoadData(ptx_of(SOURCE).encode() + b"\0")
    function = driver.cuModuleGetFunction(module, name.encode())
    numbers, types = zip(*values, strict=True)
    driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, (numbers, types), 0)
    return errors.cuCtxSynchronize()


def test_a_texture_and_a_surface_of_one_array(standin: StandinDriver) -> None:
    array = driver.cuArray3DCreate(form(4, 3))
    texels = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert copy(array, texels, to_array=True) == "CUDA_SUCCESS"
    description = cuda.CUDA_TEXTURE_DESC()
    description.addressMode = [cuda.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
    description.filterMode = cuda.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
    texture = driver.cuTexObjectCreate(resource(array), description, None)
    surface = driver.cuSurfObjectCreate(resource(array))
    out = allocate(np.zeros(4, np.float32))
    at, pointer = (2.0, ctypes.c_float), (int(out), ctypes.c_void_p)
    assert launch("read", (int(texture), ctypes.c_uint64), at, at, pointer) == "CUDA_SUCCESS"
    assert read(out, 4, np.float32) == [(5 + 6 + 9 + 10) / 4, 0, 0, 1]
    assert (
        launch("write", (int(surface), ctypes.c_uint64), (8, ctypes.c_int), (1, ctypes.c_int))
        == "CUDA_SUCCESS"
    )
    result = np.zeros((3, 4), np.float32)
    assert copy(array, result, to_array=False) == "CUDA_SUCCESS"
    texels[1, 2] = 7
    assert result.tolist() == texels.tolist()
    driver.cuTexObjectDestroy(texture)
    driver.cuSurfObjectDestroy(surface)
    driver.cuArrayDestroy(array)


@pytest.mark.parametrize(("x", "y"), [(16, 0), (-4, 0), (0, 3), (2, 0)])
def test_a_surface_write_outside_traps(x: int, y: int) -> None:
    surface = driver.cuSurfObjectCreate(resource(driver.cuArray3DCreate(form(4, 3))))
    values = ((int(surface), ctypes.c_uint64), (x, ctypes.c_int), (y, ctypes.c_int))
    assert launch("write", *values) == "CUDA_ERROR_LAUNCH_FAILED"


def test_an_object_of_another_kind_and_a_destroyed_one() -> None:
    array = driver.cuArray3DCreate(form(4, 3))
    surface, out = (
        driver.cuSurfObjectCreate(resource(array)),
        allocate(np.zeros(4, np.float32)),
    )
    at, pointer = (1.0, ctypes.c_float), (int(out), ctypes.c_void_p)
    assert (
        launch("read", (int(surface), ctypes.c_uint64), at, at, pointer)
        == "CUDA_ERROR_ILLEGAL_INSTRUCTION"
    )


def clamping() -> Any:
    """Return how a texture reads: the nearest texel inside, by its index."""
    result = cuda.CUDA_TEXTURE_DESC()
    result.addressMode = [cuda.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
    return result


@pytest.mark.volume_but
def test_linear_memory_is_read_by_an_index_and_gives_zeros_outside() -> None:
    memory, out = allocate(np.array([5, 9, 77], np.int32)), zeros(4)
    linear = cuda.CUDA_RESOURCE_DESC()
    linear.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
    linear.res.linear.devPtr = memory
    linear.res.linear.format = cuda.CUarray_format.CU_AD_FORMAT_SIGNED_INT32
    linear.res.linear.numChannels, linear.res.linear.sizeInBytes = 1, 8
    texture = driver.cuTexObjectCreate(linear, clamping(), None)
    for x, value in ((0, 5), (1, 9), (2, 0), (-1, 0)):
        values = ((int(texture), ctypes.c_uint64), (x, ctypes.c_int), (int(out), ctypes.c_void_p))
        assert launch("fetch", *values) == "CUDA_SUCCESS"
        assert read(out)[0] == value
    linear.res.linear.devPtr = int(memory) + 4  # no multiple of the texture alignment
    assert errors.cuTexObjectCreate(linear, clamping(), None) == "CUDA_ERROR_INVALID_VALUE"


def test_arguments_that_the_driver_refuses(standin: StandinDriver) -> None:
    for wrong in (
        form(0),
        form(4, flags=4),
        form(4, channels=3),
        form(4, 0, 5, flags=2),
        form(200000, 3),
        form(4, flags=1),
    ):
        assert errors.cuArray3DCreate(wrong) == "CUDA_ERROR_INVALID_VALUE"
    array, plain = (
        driver.cuArray3DCreate(form(4, 3)),
        driver.cuArray3DCreate(form(4, 3, flags=0)),
    )
    assert errors.cuSurfObjectCreate(resource(plain)) == "CUDA_ERROR_INVALID_VALUE"
    assert (
        copy(array, np.zeros((3, 4), np.float32), to_array=True, x=4) == "CUDA_ERROR_INVALID_VALUE"
    )
    assert copy(array, np.zeros((4, 4), np.float32), to_array=True) == "CUDA_ERROR_INVALID_VALUE"
    # The address mode 0 repeats, which needs normalized coordinates.
    repeated = cuda.CUDA_TEXTURE_DESC()
    assert errors.cuTexObjectCreate(resource(array), repeated, None) == "CUDA_ERROR_INVALID_VALUE"
    surface = driver.cuSurfObjectCreate(resource(array))
    driver.cuArrayDestroy(array)
    assert standin.violations == ["an array is destroyed, and 1 textures and surfaces use it"]
    driver.cuSurfObjectDestroy(surface)
    assert errors.cuArrayDestroy(array) == "CUDA_ERROR_INVALID_HANDLE"
    assert errors.cuSurfObjectDestroy(surface) == "CUDA_ERROR_INVALID_VALUE"
    assert len(standin.violations) == 3
    standin.reset()


def level_texture(mipmap: Any, **fields: Any) -> int:
    """Return a texture object of a mipmapped array."""
    source = cuda.CUDA_RESOURCE_DESC()
    source.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
    source.res.mipmap.hMipmappedArray = mipmap
    texture = cuda.CUDA_TEXTURE_DESC()
    texture.flags = 2  # normalized coordinates
    texture.maxMipmapLevelClamp = 99
    for name, value in fields.items():
        setattr(texture, name, value)
    return int(driver.cuTexObjectCreate(source, texture, None))


def test_the_levels_of_a_mipmapped_array(standin: StandinDriver) -> None:
    mipmap = driver.cuMipmappedArrayCreate(form(8, 2), 99)  # clamped to 4
    levels = [driver.cuMipmappedArrayGetLevel(mipmap, level) for level in range(4)]
    assert errors.cuMipmappedArrayGetLevel(mipmap, 4) == "CUDA_ERROR_INVALID_VALUE"
    for number, (array, size) in enumerate(
        zip(levels, [(8, 2), (4, 1), (2, 1), (1, 1)], strict=True)
    ):
        descriptor = driver.cuArray3DGetDescriptor(array)
        assert (descriptor.Width, descriptor.Height, descriptor.Depth) == (*size, 0)
        data = np.full(size[::-1], 10 * number, np.float32)
        assert copy(array, data, to_array=True) == "CUDA_SUCCESS"
    assert errors.cuArrayDestroy(levels[0]) == "CUDA_ERROR_INVALID_HANDLE"
    out = allocate(np.zeros(4, np.float32))

    def read_level(texture: int, level: float) -> float:
        types = (ctypes.c_uint64, ctypes.c_float, ctypes.c_void_p)
        values = zip((texture, level, int(out)), types, strict=True)
        assert launch("level", *values) == "CUDA_SUCCESS"
        return read(out, 4, np.float32)[0]

    nearest = level_texture(mipmap)
    read_levels = [read_level(nearest, level) for level in (-1, 0.25, 0.75, 2, 3, 9)]
    assert read_levels == [0, 0, 10, 20, 30, 30]
    linear = cuda.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
    blended = level_texture(mipmap, mipmapFilterMode=linear, mipmapLevelBias=0.5)
    assert [read_level(blended, level) for level in (0, 1.25, 9)] == [5, 17.5, 30]
    limits = level_texture(mipmap, minMipmapLevelClamp=1, maxMipmapLevelClamp=2)
    assert [read_level(limits, level) for level in (0, 3)] == [10, 20]
    for texture in (nearest, blended, limits):
        driver.cuTexObjectDestroy(texture)
    driver.cuMipmappedArrayDestroy(mipmap)
    assert errors.cuMipmappedArrayGetLevel(mipmap, 0) == "CUDA_ERROR_INVALID_HANDLE"
    assert errors.cuMipmappedArrayCreate(form(0), 1) == "CUDA_ERROR_INVALID_VALUE"
    standin.reset()


#: The direction of a place on each face of a cube, by the places along it and across: +x, -x, +y,
#: -y, +z, -z.
FACES = (
    lambda s, t: (1, -t, -s),
    lambda s, t: (-1, -t, s),
    lambda s, t: (s, 1, t),
    lambda s, t: (s, -1, -t),
    lambda s, t: (s, -t, 1),
    lambda s, t: (-s, -t, -1),
)


@pytest.mark.volume_but("2-1")
@pytest.mark.parametrize("cubes", [1, 2])
@pytest.mark.parametrize("normalized", [0, 2])
def test_the_faces_of_cubes(cubes: int, normalized: int) -> None:
    """A direction of any length meets a texel of a face."""
    array = driver.cuArray3DCreate(form(4, 4, 6 * cubes, flags=4 | (cubes > 1) | 2))
    texels = np.arange(96 * cubes, dtype=np.float32).reshape(6 * cubes, 4, 4)
    assert copy(array, texels, to_array=True) == "CUDA_SUCCESS"
    description = cuda.CUDA_TEXTURE_DESC()
    description.flags = normalized
    description.addressMode = [cuda.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
    texture, out = int(driver.cuTexObjectCreate(resource(array), description, None)), zeros(4)
    name = "cube" if cubes == 1 else "cubes"
    places = ((0, 3), (1, 0), (2, 1)) if normalized else ((3, 2),)
    for number, (column, row) in ((n, each) for n in range(6 * cubes) for each in places):
        direction = FACES[number % 6]((column - 1.5) / 2, (row - 1.5) / 2)
        values = [(texture, ctypes.c_uint64), *((3 * each, ctypes.c_float) for each in direction)]
        if cubes > 1:
            values.append((number // 6, ctypes.c_int))
        assert launch(name, *values, (int(out), ctypes.c_void_p)) == "CUDA_SUCCESS"
        assert read(out, 4, np.float32)[0] == texels[number, row, column]


def test_a_surface_of_a_cube_and_what_is_none() -> None:
    array = driver.cuArray3DCreate(form(4, 4, 6, flags=4 | 2))
    texels = np.zeros((6, 4, 4), np.float32)
    assert copy(array, texels, to_array=True) == "CUDA_SUCCESS"
    surface = int(driver.cuSurfObjectCreate(resource(array)))
    places = ((8, ctypes.c_int), (1, ctypes.c_int), (5, ctypes.c_int))
    assert launch("face", (surface, ctypes.c_uint64), *places) == "CUDA_SUCCESS"
    assert copy(array, texels, to_array=False) == "CUDA_SUCCESS"
    assert np.argwhere(texels).tolist() == [[5, 1, 2]]
    texture = int(driver.cuTexObjectCreate(resource(array), clamping(), None))
    pointer = int(zeros(4)), ctypes.c_void_p
    at = 1.0, ctypes.c_float
    flat = launch("read", (texture, ctypes.c_uint64), at, at, pointer)
    assert flat == "CUDA_ERROR_ILLEGAL_INSTRUCTION"


@pytest.mark.parametrize(
    ("size", "flags"), [((4, 3, 6), 4), ((4, 4, 5), 4), ((4, 4, 12), 4), ((4, 4, 8), 5)]
)
def test_a_cube_has_six_square_faces(size: tuple[int, int, int], flags: int) -> None:
    assert errors.cuArray3DCreate(form(*size, flags=flags)) == "CUDA_ERROR_INVALID_VALUE"
