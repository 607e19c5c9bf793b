"""ROCm: HIP files with host code compile to their kernels, with the standard library of the wheel
ziglang.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backend_checks import check_error, code_of
from device_library import DEVICE_LIBS, needs_device_libs
from two_folders import origin_in_two_folders

import devmod
from devmod_readers.amdgpu import read_code_object
from devmod_standins import rdna3

pytestmark = pytest.mark.once  # what clang makes of a source
GFX1100 = "rocm -arch=gfx1100"
PROGRAM = """
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <vector>
#include <hip/hip_runtime.h>

#define CHECK(call) do { if ((call) != hipSuccess) { std::cerr << hipGetErrorString(hipGetLastError()); std::exit(EXIT_FAILURE); } } while (0)

struct How { std::uint32_t count; float factor; };

__global__ void scale(const float *x, float *y, How how, std::size_t n)
{
    std::size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(n < 1000);
    if (i < std::min<std::size_t>(n, how.count))
        y[i] = std::max(std::sqrt(x[i]) * how.factor, 1.5f) + (std::numeric_limits<int>::max() == 2147483647);
}

template <class T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
template <class F> __global__ void apply(int *x, F function) { x[threadIdx.x] = function(x[threadIdx.x]); }

int helper(const std::vector<float> &x) { return static_cast<int>(x.size()); }

int main()
{
    std::vector<float> host(64);
    float *x, *y;
    int *z = nullptr;
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    CHECK(hipMalloc(&x, host.size() * sizeof(float)));
    CHECK(hipMalloc((void **)&y, host.size() * sizeof(float)));
    CHECK(hipMemcpy(x, host.data(), host.size() * sizeof(float), hipMemcpyHostToDevice));
    scale<<<dim3(1), dim3(64), 0, hipStreamDefault>>>(x, y, How{64, 2}, helper(host));
    hipLaunchKernelGGL(fill<double>, dim3(1), dim3(64), 0, 0, (double *)x, 1.0);
    apply<<<1, 64>>>(z, [] __device__(int v) { return v + 1; });
    CHECK(hipDeviceSynchronize());
    std::cout << host[0] << properties.name << std::endl;
    return 0;
}
"""


@pytest.fixture(scope="module")
def program() -> devmod.Module:
    return devmod.compile(PROGRAM, GFX1100, language="HIP")


@pytest.mark.volume
def test_a_program_has_the_kernels_that_it_launches(program: devmod.Module) -> None:
    assert [f"{name} {info}" for name, info in program.functions.items()] == [
        "scale <FunctionInfo _Z5scalePKfPf3Howm(x: float32* r, y: float32* rw, how: {count: uint32, factor: float32}, n: uint64) subgroup 32>",
        "fill<double> <FunctionInfo _Z4fillIdEvPT_S0_(x: float64* rw, value: float64) subgroup 32>",
        "_Z5applyIZ4mainEUliE_EvPiT_ <FunctionInfo _Z5applyIZ4mainEUliE_EvPiT_(void* rw, uint8) subgroup 32>",
    ]


@pytest.mark.volume  # two compiles of the C++ library, 11 s
@pytest.mark.row("R38")
def test_the_standard_library_is_the_compilers(program: devmod.Module, tmp_path: Path) -> None:
    assert program.origin is not None
    assert list(program.origin.sources) == ["<text>"]
    assert "ziglang" in program.origin.toolchain
    assert b"libcxx" not in program.save_to_bytes()
    files = {"a.hip": '#include <vector>\n#include "b.h"\n', "include/b.h": PROGRAM}
    assert origin_in_two_folders(tmp_path, GFX1100, files) == "['a.hip', 'b.h'] ('-DN=3',)"


@pytest.mark.volume
@pytest.mark.skipif(bool(rdna3.missing()), reason=rdna3.missing() or "-")
def test_a_kernel_calls_functions_of_the_standard_library(
    program: devmod.Module, tmp_path: Path
) -> None:
    emulator = rdna3.Emulator(code_of(program), tmp_path)
    x, y = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    how = np.uint32(60).tobytes() + np.float32(2).tobytes()
    emulator.add("_Z5scalePKfPf3Howm", x, y, how, np.uint64(62), grid=(1, 1, 1), block=(64, 1, 1))
    emulator.run()
    np.testing.assert_allclose(y[:60], np.maximum(2 * np.sqrt(x[:60]), 1.5) + 1, rtol=1e-6)
    assert not y[60:].any()


def test_a_folder_above_the_standard_library_is_none_of_it() -> None:
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(
            "#include <../include/vector>\n__global__ void k(int *x) {}", GFX1100, language="HIP"
        ),
        "the HIP source does not compile: <text>:1:10: fatal error: '../include/vector' file not found",
    )


def test_a_kept_source_has_no_host_code() -> None:
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(
            "#include <vector>\n__global__ void k(int *x) {}", "rocm -format=hip", language="HIP"
        ),
        "the HIP source does not compile: <text>:1:10: fatal error: 'vector' file not found",
    )


PRINTS = '#include <cstdio>\n#include <hip/hip_runtime.h>\n__global__ void k(int *x) { if (x[0] < 0) printf("%d\\n", x[0]); x[1] = 2; }'


def test_printf_without_the_device_library_has_a_warning() -> None:
    with pytest.warns(
        UserWarning,
        match=r"printf prints nothing in a kernel: it needs ROCm's device library \(docs/rocm.md\)",
    ):
        devmod.compile(PRINTS, GFX1100, language="HIP")


@needs_device_libs
def test_printf_calls_the_device_library() -> None:
    module = devmod.compile(
        PRINTS, GFX1100, language="HIP", options=[f"-device-libs={DEVICE_LIBS}"]
    )
    (kernel,) = read_code_object(code_of(module)).values()
    assert ".value_kind:     hidden_hostcall_buffer" in str(module.source["asm"])
    assert len(kernel.visible_arguments) == 1
