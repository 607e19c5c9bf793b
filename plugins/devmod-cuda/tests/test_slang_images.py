"""Kernels in Slang with images and samplers, compiled for CUDA: against NumPy, and in one bundle
with Vulkan and WebGPU.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from cuda_kernels import check_samples
from each_case import refusal

import devmod

pytestmark = pytest.mark.skipif(find_spec("slangpy") is None, reason="slangpy is not installed")
SOURCE = """
Texture2D<float4> picture;
SamplerState how;
float4 at(Texture2D<float4> t, SamplerState s, float2 place) { return t.SampleLevel(s, place, 0); }
[shader("compute")] [numthreads(8, 1, 1)]
void sample(uint3 id: SV_DispatchThreadID, StructuredBuffer<float2> places, RWStructuredBuffer<float4> result)
{
    result[id.x] = at(picture, how, places[id.x]);
}
[shader("compute")] [numthreads(8, 8, 1)]
void load(uint3 id: SV_DispatchThreadID, Texture2D<int2> a, Texture2D<uint> b, WTexture2D<int2> ints, [format("r32ui")] RWTexture2D<uint> uints,
          [format("r32f")] RWTexture2D<float> floats, WTexture2D<float4> colors, RWStructuredBuffer<uint> sizes)
{
    uint width, height, levels;
    floats.GetDimensions(width, height);
    if (id.x >= width || id.y >= height)
        return;
    ints.Store(id.xy, a[id.xy] * 2);
    uints[id.xy] += b.Load(int3(id.xy, 0));
    floats[id.xy] = floats[id.xy] * 2 + picture[id.xy].w;
    colors.Store(id.xy, picture[id.xy].wzyx);
    if (any(id.xy != 0))
        return;
    sizes[0] = width;
    sizes[1] = height;
    picture.GetDimensions(0, width, height, levels);
    sizes[2] = width;
    sizes[3] = height;
    sizes[4] = levels;
}
"""


@cache
def saved(target: str) -> bytes:
    return devmod.dumps(devmod.compile(SOURCE, target, language="Slang"))


@pytest.mark.parametrize(
    ("address", "normalized"),
    [*((each, True) for each in ("clamp", "repeat", "mirror", "border")), ("clamp", False)],
)
@pytest.mark.parametrize("filter_", ["nearest", "linear"])
def test_samplers(filter_: str, address: str, normalized: bool, device: Any) -> None:
    sample = devmod.loads(saved("cuda -arch=compute_80"))["sample"]
    check_samples(
        device,
        lambda picture, how, places, result: sample(
            picture=picture, how=how, places=places, result=result, grid=25
        ),
        filter_,
        address,
        normalized=normalized,
    )


@pytest.mark.volume_but("rgba32float", "rg16snorm")
@pytest.mark.parametrize("format_", ["rgba32float", "rgba8unorm", "rg16snorm", "r16float"])
def test_one_call_for_cuda_vulkan_and_webgpu(format_: str, device: Any) -> None:
    kinds = ["vulkan", "webgpu"]
    module = devmod.bundle(
        *(devmod.loads(saved(target)) for target in ("cuda -arch=compute_80", *kinds))
    )
    others = devmod.devices(*kinds)
    rng = np.random.default_rng(4)
    a, b = (
        rng.integers(-(2**31), 2**31, (5, 7, 2), "int32"),
        rng.integers(0, 2**32, (5, 7), "uint32"),
    )
    places = rng.uniform(-0.2, 1.2, (64, 2)).astype("float32")
    results = []
    for each in (device, *others):
        picture = each.image((7, 5), format_)
        dtype = np.dtype(picture.texel.dtype)
        values = np.random.default_rng(5).random(picture.array_shape) * (
            1 if dtype.kind == "f" else np.iinfo(dtype).max
        )
        picture.copy_from(values.astype(dtype))
        how = each.sampler(address="repeat")
        images = [each.image((7, 5), name) for name in ("rg32sint", "rgba32float")]
        uints, floats = (
            each.image_from_numpy(b[::-1].copy()),
            each.image_from_numpy(np.ones((5, 7), "float32")),
        )
        sizes, sampled = np.zeros(5, "uint32"), np.zeros((64, 4), "float32")
        module["load"].on(each)(
            picture=picture,
            how=how,
            a=each.image_from_numpy(a),
            b=each.image_from_numpy(b),
            ints=images[0],
            uints=uints,
            floats=floats,
            colors=images[1],
            sizes=sizes,
            grid=1,
        )
        module["sample"].on(each)(picture=picture, how=how, places=places, result=sampled, grid=8)
        np.testing.assert_array_equal(sizes, [7, 5, 7, 5, 1])
        np.testing.assert_array_equal(images[0].numpy(), a * 2)
        np.testing.assert_array_equal(uints.numpy(), b + b[::-1])
        results.append((images[1].numpy(), floats.numpy(), sampled))
    for result in results[1:]:
        for own, other in zip(results[0], result, strict=True):
            np.testing.assert_allclose(own, other, atol=1e-6)


FUNCTION = 'struct P {{ Texture2D<float4> t; }}; [shader("compute")] [numthreads(8, 8, 1)] void f(uint3 id: SV_DispatchThreadID, RWStructuredBuffer<float4> o, {}) {{ {} }}'
TEXTURE, LEVEL = "Texture2D<float4> t", "o[0] = t.SampleLevel(s, float2(0), 0);"
HERE = "which Slang's code for cuda cannot take here"
MISSING = "which devmod does not have for cuda"
WHOLE = (
    "CUDA C++: an image takes whole texels, and has no atomics: read and write t[place] as a whole"
)


@pytest.mark.parametrize(
    ("parameters", "body", "reason"),
    [
        (
            f"{TEXTURE}, SamplerState s, SamplerState r",
            LEVEL,
            "takes the samplers 's' and 'r', and Slang's code for cuda does not have the",
        ),
        (
            "Sampler2D t",
            "",
            f"takes 't', a texture with its sampler, {HERE}: use a Texture2D and a SamplerState",
        ),
        (
            "Texture3D<float4> t",
            "",
            f"takes 't', a texture of type 3d, {HERE}: use a StructuredBuffer or a RWStructuredBuffer, or write",
        ),
        (
            "Texture2D<half4> t",
            "",
            f"takes 't', a texture of float16x4, {HERE}: use float, int or uint with 1, 2 or 4 lanes",
        ),
        (
            "ConstantBuffer<P> p",
            "",
            f"takes 'p.t', a texture in a struct, {HERE}: declare it as a parameter",
        ),
        (
            f"{TEXTURE}, SamplerState s",
            "o[0] = t.Sample(s, float2(0));",
            f"uses tex2D of Slang's CUDA C++, {MISSING}",
        ),
        (
            f"{TEXTURE}, SamplerState s",
            "o[0] = t.Gather(s, float2(0));",
            f"uses tex2Dgather of Slang's CUDA C++, {MISSING}",
        ),
        (
            "Texture2D<int4> t, SamplerState s",
            LEVEL,
            "a texture of integers has no samples: use Load",
        ),
        (
            '[format("rgba8")] RWTexture2D<float4> t',
            "t[id.xy] = 1;",
            f"uses surf2Dwrite_convert of Slang's CUDA C++, {MISSING}",
        ),
        ("RWTexture2D<float4> t", "t[id.xy].y = 1;", WHOLE),
        ("RWTexture2D<float4> t", "t[id.xy].xy = 1;", WHOLE),
        ('[format("r32ui")] RWTexture2D<uint> t', "InterlockedAdd(t[id.xy], 1);", WHOLE),
    ],
)
def test_what_cannot_be_right_is_refused(parameters: str, body: str, reason: str) -> None:
    assert reason in refusal(
        devmod.CompileError,
        devmod.compile,
        FUNCTION.format(parameters, body),
        "cuda -arch=compute_80",
        language="Slang",
    )


def test_an_image_that_is_written_has_the_format_of_its_type(device: Any) -> None:
    load = devmod.loads(saved("cuda -arch=compute_80"))["load"]
    formats = {
        "picture": "r8unorm",
        "a": "rg8sint",
        "b": "r16uint",
        "ints": "rg32sint",
        "uints": "r32uint",
        "floats": "r32float",
    }
    images = {name: device.image((7, 5), format_) for name, format_ in formats.items()}
    with pytest.raises(devmod.ArgumentError, match="rgba32float"):
        load(
            **images,
            how=device.sampler(),
            colors=device.image((7, 5), "rgba8unorm"),
            sizes=np.zeros(5, "uint32"),
            grid=1,
        )


@pytest.mark.parametrize(("format_", "alpha"), [("rgba8unorm", 0), ("rg8unorm", 1)])
def test_what_is_outside_is_transparent_black(format_: str, alpha: int, device: Any) -> None:
    module = devmod.bundle(
        *(devmod.loads(saved(target)) for target in ("cuda -arch=compute_80", "vulkan"))
    )
    places = np.full((8, 2), -1, "float32")
    for each in (device, *devmod.devices("vulkan")):
        result = np.ones((8, 4), "float32")
        how = each.sampler(address="border")
        module["sample"].on(each)(
            picture=each.image((2, 2), format_), how=how, places=places, result=result, grid=1
        )
        np.testing.assert_array_equal(result, [[0, 0, 0, alpha]] * 8, err_msg=str(each))


NAMES = """
float4 tex2DLod(float4 a) { return a * 2; }
float4 tex1Dfetch(float4 a) { return a + 1; }
[shader("compute")] [numthreads(8, 1, 1)]
void NAME(uint3 id: SV_DispatchThreadID, Texture2D<float4> CUtexObject, Texture2D<uint> o_0, SamplerState id_0, RWStructuredBuffer<float4> o,
          WTexture2D<float4> Vector, uniform float uint64_t_)
{
    o[id.x] = tex2DLod(CUtexObject[id.xy]) + tex1Dfetch(CUtexObject.SampleLevel(id_0, 0.5, 0)) * uint64_t_ + o_0[id.xy];
    Vector.Store(id.xy, o[id.x]);
}
"""


@pytest.mark.parametrize("name", ["Picture", "CUsurfObject", "tex3D", "picture_size"])
def test_names_of_the_source_that_the_prelude_has_too(name: str, device: Any) -> None:
    kinds = ("cuda -arch=compute_80", "vulkan")
    module = devmod.bundle(
        *(devmod.compile(NAMES.replace("NAME", name), each, language="Slang") for each in kinds)
    )
    colors = np.random.default_rng(6).random((1, 8, 4), "float32")
    numbers = np.arange(200, 208, dtype="uint8").reshape(1, 8)
    for each in (device, *devmod.devices("vulkan")):
        result, written, read = (
            np.zeros((8, 4), "float32"),
            each.image((8, 1), "rgba32float"),
            each.image((8, 1), "r8uint"),
        )
        read.copy_from(numbers)
        images = {"CUtexObject": each.image_from_numpy(colors), "o_0": read, "Vector": written}
        module[name].on(each)(
            **images, id_0=each.sampler(filter="nearest"), o=result, uint64_t_=0.5, grid=1
        )
        expected = colors[0] * 2 + (colors[0, 4] + 1) * 0.5 + numbers[0, :, None]
        np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=str(each))
        np.testing.assert_array_equal(written.numpy()[0], result)


def test_a_string_that_has_the_name_of_a_function_of_textures() -> None:
    source = FUNCTION.format(
        TEXTURE, 'o[0] = t[id.xy]; printf("tex3D<float4>(%f) \\"surf1Dread(", o[0].x);'
    )
    assert devmod.compile(source, "cuda -arch=compute_80", language="Slang").functions.keys() == {
        "f"
    }
