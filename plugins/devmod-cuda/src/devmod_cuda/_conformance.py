"""Entry point ``devmod.conformance.cuda``: kernels with their expected results, for `devmod conformance cuda` and this plugin's tests.

The kernels are stored as PTX (`_samples`), so that the kit needs no compiler. One more kernel is compiled by the receiver.
"""

from __future__ import annotations

from contextlib import contextmanager

from devmod import FunctionInfo
from devmod.backend import GRID_TAGS
from devmod_conformance import Call, Conformance, Sample, axpy_call, count_call, linear_functions, transpose_call
from devmod_cuda._samples import LINEAR, LINEAR_PTX, SHIFT_PTX, TRANSPOSE_PTX
from devmod_runtime.driver_api.conformance import shift, shift_info, shift_table, watch_builds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Compiled by the receiver.
_SCALE = """extern "C" __global__ void scale(float *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] *= FACTOR;
}
"""


class CudaConformance(Conformance):
    """PTX with an interface, without one (as TVM declares functions), and CUDA C++ that the receiver compiles."""

    kind = "cuda"
    driver_modules = ("pycuda",)
    driver_libraries = ("libcuda.so",)
    samples = (
        Sample(
            LINEAR_PTX.encode(),
            "ptx",
            linear_functions(GRID_TAGS),
            source={"cuda": LINEAR},
            calls=[axpy_call(), count_call()],
        ),
        Sample(
            TRANSPOSE_PTX.encode(),
            "ptx",
            {"transpose": FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], GRID_TAGS)},
            calls=[transpose_call()],
        ),
        Sample(
            SHIFT_PTX.encode(),
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
        Sample(LINEAR_PTX.replace("mov.u32 %r3,", "mov.u32 %r3").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(LINEAR_PTX.replace("6.4", "99.0").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(LINEAR_PTX.replace("sm_52", "sm_999").encode(), "ptx", linear_functions(GRID_TAGS)),
        Sample(LINEAR_PTX.encode(), "ptx", {"k": FunctionInfo("other", ["handle"])}),
        Sample(LINEAR_PTX.encode(), "ptx", {"k": FunctionInfo("axpy", ["handle"])}),
        Sample(b"no ELF file", "cubin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x7fELF" + bytes(60), "cubin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x50\xed\x55\xba" + bytes(12), "fatbin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"//devmod: --fdevice-time-trace=x\n", "cuda", {"k": FunctionInfo("k", ["handle"])}),
    )

    @contextmanager
    def builds(self, sample: Sample, on_build: Callable[[], None]) -> Iterator[None]:
        """Call `on_build` each time the driver loads an image."""
        with watch_builds(on_build):
            yield
