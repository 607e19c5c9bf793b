"""Entry point ``devmod.conformance.rocm``: kernels with their expected results, for `devmod
conformance rocm` and this plugin's tests.

The code objects are stored in a clang offload bundle (`samples.bundle.xz`), one for each processor,
so that the kit needs no compiler. `devmod.compile` made each from `SOURCE`, with the clang of
ziglang 0.17. Generic processors have code object version 6, the others 5. One more kernel is
compiled by hiprtc.
"""

from __future__ import annotations

import lzma
from importlib.resources import files
from typing import Any

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import GRID_TAGS
from devmod_conformance import C_SCALARS, Call, Conformance, Sample, linear_functions
from devmod_conformance.cuda_kernels import SOURCE, samples
from devmod_readers.offload import read_images

_BUNDLE = lzma.decompress((files("devmod_rocm") / "samples.bundle.xz").read_bytes())
#: One of the code objects.
_GFX1100 = next(
    bytes(image.data) for image in read_images(_BUNDLE) if image.name.endswith("-gfx1100")
)
#: Compiled by the receiver.
_SCALE = """//devmod: -O2
#define FACTOR 3
extern "C" __global__ void scale(float *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] *= FACTOR;
}
"""


def _scale_info() -> FunctionInfo:
    return FunctionInfo(
        "scale", ["handle"], GRID_TAGS, (), Interface([Param("x", "buffer", "float32", "rw")])
    )


def _damaged(at: int, value: int) -> bytes:
    """Return a code object with another byte in its header."""
    code = bytearray(_GFX1100)
    code[at] = value
    return bytes(code)


class RocmConformance(Conformance):
    """Code objects with an interface, without one (as TVM declares functions), and HIP that the
    receiver compiles.
    """

    kind = "rocm"
    build_step = "devmod_driver_api.binaries.LoadedBinary.__init__"
    driver_libraries = ("libamdhip64",)
    samples = (
        *samples(_BUNDLE, "hsaco", "hip"),
        Sample(
            _SCALE.encode(),
            "hip",
            {"scale": _scale_info()},
            calls=[
                Call(
                    "scale",
                    lambda rng: [rng.random(64, "float32")],
                    lambda x: x.__setitem__(slice(None), x * 3),
                    grid=2,
                    block=32,
                )
            ],
        ),
        Sample.compiled(
            SOURCE, "rocm -arch=gfx1100", language="HIP"
        ),  # no calls: the device may be another one
    )
    scalars = (
        Sample(
            "\n".join(
                f'extern "C" __global__ void store_{name}({each} *result, {each} value) {{ result[0] = value; }}'
                for name, each in C_SCALARS.items()
            ).encode(),
            "hip",
            {
                f"store_{each}": FunctionInfo(f"store_{each}", ["handle", each], GRID_TAGS)
                for each in C_SCALARS
            },
        ),
    )
    bad_payloads = (
        Sample(b"", "hsaco", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"no ELF file", "hsaco", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x7fELF" + bytes(60), "hsaco", {"k": FunctionInfo("k", ["handle"])}),
        Sample(_GFX1100[:4000], "hsaco", linear_functions(GRID_TAGS)),
        Sample(_damaged(18, 62), "hsaco", linear_functions(GRID_TAGS)),
        Sample(_damaged(8, 0), "hsaco", linear_functions(GRID_TAGS)),
        Sample(_damaged(48, 0xFF), "hsaco", linear_functions(GRID_TAGS)),
        Sample(_BUNDLE[:5000], "hsaco", linear_functions(GRID_TAGS)),
        Sample(b"CCOB\x02\0\1\0" + bytes(16), "hsaco", linear_functions(GRID_TAGS)),
        Sample(_BUNDLE, "hsaco", {"k": FunctionInfo("other", ["handle"])}),
        Sample(_BUNDLE, "hsaco", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample(b"//devmod: -fplugin=x.so\n", "hip", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x00\xff", "hip", {"k": FunctionInfo("k", ["handle"])}),
    )

    def new_handle(self) -> object:
        return ihipStream_t(devmod.device("rocm").stream())


class ihipStream_t:
    """A stream of a library, as hip-python has it."""

    __module__ = "hip.hip"

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __int__(self) -> int:
        return int(self._stream.handle)
