"""Entry point ``devmod.conformance.cuda``: kernels with their expected results, for `devmod
conformance cuda` and this plugin's tests.

The kernels are stored as PTX (`samples.ptx`, `images.ptx`), so that the kit needs no compiler. One
more kernel is compiled by the receiver.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import GRID_TAGS
from devmod_conformance import C_SCALARS, Call, Conformance, Sample, linear_functions
from devmod_conformance.cuda_kernels import samples

PTX = (files("devmod_cuda") / "samples.ptx").read_text("ascii")
#: The source of `images.ptx`.
IMAGE_SOURCE = """extern "C" __global__ void sample_1d(cudaTextureObject_t source, const float *places, float4 *result)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    result[i] = tex1D<float4>(source, places[i]);
}
extern "C" __global__ void sample_2d(cudaTextureObject_t source, const float *places, float4 *result)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    result[i] = tex2D<float4>(source, places[2 * i], places[2 * i + 1]);
}
extern "C" __global__ void sample_3d(cudaTextureObject_t source, const float *places, float4 *result)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    result[i] = tex3D<float4>(source, places[3 * i], places[3 * i + 1], places[3 * i + 2]);
}
extern "C" __global__ void sample_layers(cudaTextureObject_t source, const float *places, float4 *result)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    result[i] = tex2DLayered<float4>(source, places[3 * i], places[3 * i + 1], places[3 * i + 2]);
}
extern "C" __global__ void draw(cudaSurfaceObject_t destination)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    surf2Dwrite(make_uchar4(x, y, x + y, 255), destination, x * 4, y);
}
"""

#: Compiled by the receiver.
_SCALE = """extern "C" __global__ void scale(float *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] *= FACTOR;
}
"""


def _sampling(name: str, type_: str) -> FunctionInfo:
    """Return the function that reads an image at places."""
    params = (
        Param("source", "image", type_, "r", 0, sample="float"),
        Param("source_sampler", "sampler", at=0),
        Param("places", "buffer", "float32", "r"),
        Param("result", "buffer", "float32x4", "rw"),
    )
    return FunctionInfo(name, ("handle",) * 4, GRID_TAGS, interface=Interface(params))


_IMAGES = {
    **{
        name: _sampling(name, type_)
        for name, type_ in (("sample_1d", "1d"), ("sample_2d", "2d"), ("sample_3d", "3d"))
    },
    "sample_layers": _sampling("sample_layers", "2d_array"),
    "draw": FunctionInfo(
        "draw",
        ("handle",),
        GRID_TAGS,
        interface=Interface([Param("destination", "image", "2d", "w", 0, format="rgba8unorm")]),
    ),
}


class CudaConformance(Conformance):
    """PTX with an interface, without one (as TVM declares functions), and CUDA C++ that the
    receiver compiles.
    """

    kind = "cuda"
    build_step = "devmod_driver_api.binaries.LoadedBinary.__init__"
    driver_modules = ("pycuda",)
    driver_libraries = ("libcuda.so",)
    samples = (
        *samples(PTX.encode(), "ptx", "cuda"),
        Sample.compiled(
            _SCALE,
            "cuda -format=cuda",
            defines={"FACTOR": "3"},
            calls=[
                Call(
                    "scale",
                    lambda rng: [rng.random(64, "float32")],
                    lambda x: x.__imul__(3),
                    grid=2,
                    block=32,
                )
            ],
        ),
    )
    scalars = (
        Sample.compiled(
            "\n".join(
                f'extern "C" __global__ void store_{number}({each} *result, {each} value) {{ result[0] = value; }}'
                for number, each in enumerate(C_SCALARS.values())
            ),
            "cuda -format=cuda",
        ),
    )
    images = (
        Sample(
            (files("devmod_cuda") / "images.ptx").read_bytes(),
            "ptx",
            _IMAGES,
            source={"cuda": IMAGE_SOURCE},
        ),
    )
    bad_payloads = (
        Sample(b"", "ptx", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x00\xff", "ptx", {"k": FunctionInfo("k", ["handle"])}),
        Sample(
            b".version 6.4\n.target sm_52\n.address_size 64\n.visible .entry k(",
            "ptx",
            {"k": FunctionInfo("k", ["handle"])},
        ),
        Sample(
            PTX.replace("mov.u32 %r3,", "mov.u32 %r3").encode(), "ptx", linear_functions(GRID_TAGS)
        ),
        Sample(PTX.replace("6.4", "99.0").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(PTX.replace("sm_52", "sm_999").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(PTX.encode(), "ptx", {"k": FunctionInfo("other", ["handle"])}),
        Sample(PTX.encode(), "ptx", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample(b"no ELF file", "cubin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x7fELF" + bytes(60), "cubin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x50\xed\x55\xba" + bytes(12), "fatbin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"//devmod: --fdevice-time-trace=x\n", "cuda", {"k": FunctionInfo("k", ["handle"])}),
    )

    def new_handle(self) -> object:
        return _Stream(devmod.device("cuda").stream())


class _Stream:
    """A stream of a library, with the protocol of cuda.core."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._stream.handle
