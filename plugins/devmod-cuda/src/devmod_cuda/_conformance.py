"""Entry point ``devmod.conformance.cuda``: kernels with their expected results, for `devmod conformance cuda` and this plugin's tests.

The kernels are stored as PTX (`samples.ptx`), so that the kit needs no compiler. One more kernel is compiled by the receiver.
"""

from __future__ import annotations

from importlib.resources import files

from devmod import FunctionInfo
from devmod.backend import GRID_TAGS
from devmod_conformance import Call, Conformance, Sample, axpy_call, count_call, linear_functions, transpose_call
from devmod_runtime.driver_api.conformance import SOURCE, shift, shift_info, shift_table

PTX = (files("devmod_cuda") / "samples.ptx").read_text("ascii")
#: Compiled by the receiver.
_SCALE = """extern "C" __global__ void scale(float *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] *= FACTOR;
}
"""


class CudaConformance(Conformance):
    """PTX with an interface, without one (as TVM declares functions), and CUDA C++ that the receiver compiles."""

    kind = "cuda"
    build_step = "devmod_runtime.driver_api.images.LoadedImage.__init__"
    driver_modules = ("pycuda",)
    driver_libraries = ("libcuda.so",)
    samples = (
        Sample(
            PTX.encode(),
            "ptx",
            linear_functions(GRID_TAGS),
            source={"cuda": SOURCE},
            calls=[axpy_call(), count_call()],
        ),
        Sample(
            PTX.encode(),
            "ptx",
            {"transpose": FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], GRID_TAGS)},
            calls=[transpose_call()],
        ),
        Sample(
            PTX.encode(),
            "ptx",
            {"shift": shift_info()},
            calls=[
                Call("shift", lambda rng: [rng.integers(0, 99, 64, "int32"), (5, 40), (1.0, 2.5, 0.5), True], shift, grid=2, block=32),
            ],
            global_arrays={"table": shift_table},
        ),
        Sample.compiled(
            _SCALE,
            "cuda -format=cuda",
            defines={"FACTOR": "3"},
            calls=[Call("scale", lambda rng: [rng.random(64, "float32")], lambda x: x.__imul__(3), grid=2, block=32)],
        ),
    )
    bad_payloads = (
        Sample(b"", "ptx", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x00\xff", "ptx", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b".version 6.4\n.target sm_52\n.address_size 64\n.visible .entry k(", "ptx", {"k": FunctionInfo("k", ["handle"])}),
        Sample(PTX.replace("mov.u32 %r3,", "mov.u32 %r3").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(PTX.replace("6.4", "99.0").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(PTX.replace("sm_52", "sm_999").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(PTX.encode(), "ptx", {"k": FunctionInfo("other", ["handle"])}),
        Sample(PTX.encode(), "ptx", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample(b"no ELF file", "cubin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x7fELF" + bytes(60), "cubin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x50\xed\x55\xba" + bytes(12), "fatbin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"//devmod: --fdevice-time-trace=x\n", "cuda", {"k": FunctionInfo("k", ["handle"])}),
    )
