"""ROCm: HIP and LLVM IR compile to code objects with the clang and lld of the wheel ziglang, and
the machine code is executed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import check_error, code_of
from device_library import DEVICE_LIBS, needs_device_libs
from two_folders import origin_in_two_folders

import devmod
from devmod import FunctionInfo
from devmod_readers.amdgpu import read_code_object
from devmod_standins import rdna3

pytestmark = pytest.mark.once  # what clang makes of a source

KERNELS = """
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>

struct How { float factor; int count; };
namespace shapes { __global__ void fill(float *x, float value) { x[threadIdx.x + blockIdx.x * blockDim.x] = value; } }

extern "C" __global__ void axpy(const float *__restrict x, float *y, How how)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < how.count)
        y[i] += how.factor * x[i];
}

extern "C" __global__ __launch_bounds__(256) void softmax(const float *x, float *y, int columns)
{
    __shared__ float part[64];
    int t = threadIdx.x;
    const float *row = x + blockIdx.x * columns;
    float most = -INFINITY, sum = 0;
    for (int i = t; i < columns; i += blockDim.x)
        most = fmaxf(most, row[i]);
    part[t] = most;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (t < half)
            part[t] = fmaxf(part[t], part[t + half]);
        __syncthreads();
    }
    most = part[0];
    __syncthreads();
    for (int i = t; i < columns; i += blockDim.x)
        sum += expf(row[i] - most);
    part[t] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    for (int i = t; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = expf(row[i] - most) / part[0];
}

extern "C" __global__ void lanes(const int *x, int *y)
{
    int t = threadIdx.x, v = x[t];
    y[t] = __shfl_xor(v, 1);
    y[64 + t] = __shfl_up(v, 2);
    y[128 + t] = __shfl_down(v, 3);
    y[192 + t] = __shfl(v, 5);
    y[256 + t] = __popcll(__ballot(v & 1));
    y[320 + t] = gridDim.x * 100 + blockDim.x;
    y[384 + t] = __shfl_up(v, 1, 8);
}

extern "C" __global__ void count(const int *values, unsigned *counts, float *sum, __half *h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&counts[values[i] & 7], 1u);
    atomicMax(&counts[8], (unsigned)values[i]);
    atomicInc(&counts[9], 9);
    atomicAdd(sum, 0.5f);
    h[i] = __float2half(__half2float(h[i]) * 2);
}
"""
#: Each function of the headers, with its reference and the error in docs/rocm.md, relative to 1 +
#: |reference|.
MATH = {
    "expf(v)": (np.exp, 2e-7),
    "exp2f(v)": (np.exp2, 2e-7),
    "logf(fabsf(v) + 0.5f)": (lambda v: np.log(np.abs(v) + 0.5), 4e-7),
    "log10f(fabsf(v) + 1)": (lambda v: np.log10(np.abs(v) + 1), 2e-7),
    "sqrtf(fabsf(v))": (lambda v: np.sqrt(np.abs(v)), 2e-7),
    "rsqrtf(fabsf(v) + 1)": (lambda v: 1 / np.sqrt(np.abs(v) + 1), 2e-7),
    "sinf(v)": (np.sin, 2e-7),
    "cosf(v)": (np.cos, 2e-7),
    "tanhf(v)": (np.tanh, 2e-7),
    "sinhf(v)": (np.sinh, 4e-7),
    "coshf(v)": (np.cosh, 2e-7),
    "erff(v)": (np.vectorize(math.erf), 5e-7),
    "powf(fabsf(v) + 0.25f, 1.75f)": (lambda v: (np.abs(v) + 0.25) ** 1.75, 6e-7),
    "powf(-2.0f, (float)((int)v))": (lambda v: (-2.0) ** np.trunc(v), 0),
    "fmodf(v, 0.75f)": (lambda v: np.fmod(v, 0.75), 0),
    "fmaf(v, v, 1.5f)": (lambda v: v * v + 1.5, 2e-7),
    "roundf(v)": (lambda v: np.trunc(v + np.copysign(0.5, v)), 0),
    "floorf(v) + ceilf(v) + truncf(v)": (lambda v: np.floor(v) + np.ceil(v) + np.trunc(v), 0),
}
ARCHS = (
    "gfx906",
    "gfx90a",
    "gfx90a:sramecc+:xnack-",
    "gfx942",
    "gfx1030",
    "gfx1100",
    "gfx1201",
    "gfx11-generic",
)


@pytest.fixture(scope="module")
def kernels() -> devmod.Module:
    return devmod.compile(KERNELS, "rocm -arch=gfx1100", language="HIP")


def test_signatures_come_from_the_source(kernels: devmod.Module) -> None:
    assert [f"{name} {info}" for name, info in kernels.functions.items()] == [
        "shapes::fill <FunctionInfo _ZN6shapes4fillEPff(x: float32* rw, value: float32) any block subgroup 32>",
        "axpy <FunctionInfo axpy(x: float32* r, y: float32* rw, how: {factor: float32, count: int32}) any block subgroup 32>",
        "softmax <FunctionInfo softmax(x: float32* r, y: float32* rw, columns: int32) subgroup 32>",
        "lanes <FunctionInfo lanes(x: int32* r, y: int32* rw) subgroup 32>",
        "count <FunctionInfo count(values: int32* r, counts: uint32* rw, sum: float32* rw, h: float16* rw) any block subgroup 32>",
    ]
    assert list(kernels.source) == ["hip", "asm"]


DYNAMIC = """
extern __shared__ float tile[];
__device__ __attribute__((noinline)) float get(int i) { return tile[i]; }
__device__ float other(int i) { extern __shared__ float again[]; return again[i]; }
extern "C" __global__ void direct(float *x) { tile[threadIdx.x] = x[0]; __syncthreads(); x[0] = tile[1]; }
extern "C" __global__ void called(float *x) { x[0] = get(3) + other(2); }
extern "C" __global__ void fixed(float *x) { __shared__ float t[64]; t[threadIdx.x] = x[0]; __syncthreads(); x[0] = t[1]; }
extern "C" __global__ void none(float *x) { x[0] = 1; }
template <class T> __global__ void macro(T *x) { HIP_DYNAMIC_SHARED(T, t); t[threadIdx.x] = x[0]; __syncthreads(); x[0] = t[1]; }
template __global__ void macro<int>(int *);
"""


@pytest.mark.row("R35")
@pytest.mark.parametrize("place", ["source", "header", "kept source", "LLVM IR"])
def test_dynamic_shared_memory_is_the_last_launch_tag(place: str, tmp_path: Path) -> None:
    if place == "header":
        (tmp_path / "tile.h").write_text(DYNAMIC)
        module = devmod.compile('#include "tile.h"\n', GFX1100, language="HIP", include=[tmp_path])
    elif place == "source":
        module = devmod.compile(DYNAMIC, GFX1100, language="HIP")
    elif place == "kept source":
        module = devmod.compile(DYNAMIC, "rocm -format=hip", language="HIP")
    else:
        made = devmod.compile(DYNAMIC, GFX1100, language="HIP", options=["-save-temps"])
        module = devmod.compile(made.inspect_source("ll"), GFX1100, language="LLVM IR")
    tags = {name: info.launch_param_tags for name, info in module.functions.items()}
    assert {name for name, each in tags.items() if each[-1] == "tirx.use_dyn_shared_memory"} == {
        "direct",
        "called",
        "macro<int>" if "macro<int>" in tags else "_Z5macroIiEvPT_",
    }
    assert tags["none"] == tags["fixed"] == tags["direct"][:-1]


@pytest.mark.row("R35")
def test_tvm_launches_a_dumped_module_with_dynamic_shared_memory() -> None:
    module = devmod.compile(DYNAMIC.partition("template")[0], GFX1100, language="HIP")
    loaded = devmod.interop.tvm.load_module_bytes(
        "rocm", devmod.interop.tvm.dump_module_bytes(module)
    )
    assert loaded.functions["direct"].launch_param_tags[-1] == "tirx.use_dyn_shared_memory"


@pytest.mark.row("R40")
@pytest.mark.volume_but("gfx90a:sramecc+:xnack-", "gfx1201", "gfx11-generic")
@pytest.mark.parametrize("arch", ARCHS)
def test_each_architecture_is_that_of_the_code_object(arch: str) -> None:
    from devmod.plugins import find_spec

    spec = find_spec("rocm")
    assert spec is not None
    assert spec.architecture is not None
    module = devmod.compile(KERNELS, f"rocm -arch={arch}", language="HIP")
    assert spec.architecture("hsaco", code_of(module)) == arch


def test_the_code_object_has_the_limits_of_its_kernels(kernels: devmod.Module) -> None:
    entries = read_code_object(code_of(kernels))
    assert entries["softmax"].max_threads == 256
    assert entries["softmax"].shared_bytes == 256
    assert [(each.offset, each.size, each.kind) for each in entries["axpy"].visible_arguments] == [
        (0, 8, "global_buffer"),
        (8, 8, "global_buffer"),
        (16, 8, "by_value"),
    ]
    assert entries["axpy"].symbol == "axpy.kd"
    memory = {
        name: info.interface.extra.get("workgroup_memory")
        for name, info in kernels.functions.items()
        if info.interface is not None
    }
    assert memory["softmax"] == read_code_object(code_of(kernels))["softmax"].shared_bytes > 0
    assert memory["axpy"] is None


@pytest.mark.parametrize(
    "damage",
    [lambda code: code[:50], lambda code: b"MZ" + code[2:], lambda code: code[: len(code) // 2]],
)
def test_a_damaged_code_object_is_refused(kernels: devmod.Module, damage: Any) -> None:
    with pytest.raises(
        devmod.FormatError,
        match="the rocm payload of format 'hsaco' is damaged, or is not a code object: ",
    ):
        read_code_object(damage(code_of(kernels)))


VECTORS = """
#include <hip/hip_fp16.h>
struct Mixed { float4 a; int2 b; float3 c; };
namespace own { struct float4 { char a; }; }
__global__ void k(const float4 *a, float4 b, uchar4 *c, float3 *d, float3 e, Mixed f, double2 g, __half2 h, const volatile long2 *i, own::float4 j)
{
    d[0].x = (2 * a[0] + b * a[1] - 3.0f).y + (e / 2.0f).z;
}
"""


def test_vectors_of_the_headers_are_vectors() -> None:
    (info,) = devmod.compile(VECTORS, "rocm -arch=gfx90a", language="HIP").functions.values()
    assert info.interface is not None
    assert [str(param) for param in info.interface.params] == [
        "<Param a: float32x4* r>",
        "<Param b: float32x4>",
        "<Param c: uint8x4* rw>",
        "<Param d: float32* rw>",
        "<Param e: float32x3>",
        "<Param f: {a: float32x4, b: int32x2, c: float32x3}>",
        "<Param g: float64x2>",
        "<Param h: float16x2>",
        "<Param i: int64x2* r>",
        "<Param j: {a: int8}>",
    ]


def test_the_types_of_vectors_are_those_of_cuda() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    text = """
    struct Step { float dt; float3 gravity; uchar3 flags; float2 pairs[3]; };
    extern "C" __global__ void step(float3 *points, Step s, float3 wind, ulong3 count, short1 one)
    {
        points[threadIdx.x].x += s.gravity.x * s.dt + wind.y + count.z + one.x;
    }
    """
    cuda = devmod.compile(text, "cuda -arch=sm_80", language="CUDA C++")
    rocm = devmod.compile(text, "rocm -arch=gfx90a", language="HIP")
    assert str(cuda.functions["step"].interface).removesuffix(">") + " subgroup 64>" == str(
        rocm.functions["step"].interface
    )
    assert list(devmod.bundle(cuda, rocm)) == ["step"]  # which compares the members


STRUCTS = """
struct Pair { float a; int b; };
extern "C" __global__ void __launch_bounds__(64) scale(const float *__restrict__ x, float *y, Pair p, long long n, char c, bool on)
{
    if (on)
        y[0] = x[n] * p.a + p.b + c;
}
"""
GFX1100 = "rocm -arch=gfx1100"


def test_every_language_gives_the_same_code_object() -> None:
    module = devmod.compile(STRUCTS, GFX1100, language="HIP", options=["-save-temps"])
    assert list(module.source) == ["hip", "asm", "ll"]
    assert module.inspect_source("llvm") == module.source["ll"]
    assert module.origin is not None
    assert module.origin.options == ()
    plain = devmod.compile(STRUCTS, GFX1100, language="HIP")
    assert (list(plain.source), code_of(plain)) == (["hip", "asm"], code_of(module))
    # IR has neither signs nor the types of elements and members.
    ir = devmod.compile(module.source["ll"], GFX1100, language="LLVM IR")
    assert [str(info) for info in ir.functions.values()] == [
        "<FunctionInfo scale(void* r, void* w, uint8x8, int64, int8, bool) subgroup 32>"
    ]
    assert (list(ir.source), code_of(ir)) == (["ll", "asm"], code_of(module))
    assembly = devmod.compile(
        module.source["asm"], GFX1100, language="assembly", fmap=module.functions
    )
    assert (list(assembly.source), code_of(assembly)) == (["asm"], code_of(module))
    assert assembly.functions == module.functions


def test_bitcode_compiles(tmp_path: Path) -> None:
    from devmod_targets.authoring.clang_build import find_toolchain
    from devmod_targets.rocm.compile import SPEC

    (tmp_path / "k.ll").write_text(
        'target triple = "amdgcn-amd-amdhsa"\ndefine amdgpu_kernel void @k(ptr addrspace(1) %x) {\n  ret void\n}\n'
    )
    assert find_toolchain(SPEC, "").clang(
        [
            "-x",
            "ir",
            "-target",
            "amdgcn-amd-amdhsa",
            "-nogpulib",
            "-emit-llvm",
            "-c",
            "k.ll",
            "-o",
            "k.bc",
        ],
        str(tmp_path),
        "rocm",
    ) == (0, "")
    module = devmod.compile(tmp_path / "k.bc", "rocm -arch=gfx90a")
    assert [str(info) for info in module.functions.values()] == [
        "<FunctionInfo k(x: void* rw) subgroup 64>"
    ]
    assert list(module.source) == ["asm", "ll"]


def test_assembly_needs_declared_kernels() -> None:
    source = devmod.compile(STRUCTS, GFX1100, language="HIP").source["asm"]
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(source, GFX1100, language="assembly"),
        "the signatures of scale in <text> are unknown. Declare them: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})",
    )
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(
            source,
            GFX1100,
            language="assembly",
            fmap={"scale": FunctionInfo("scale", ["handle", "int32"])},
        ),
        "the declared fmap gives the rocm kernel 'scale' arguments of [8, 4] bytes, and the code object has arguments of [8, 8, 8, 8, 1, 1]",
    )
    check_error(
        devmod.CompileError,
        lambda: devmod.compile("nonsense\n", GFX1100, language="assembly"),
        "the assembly source does not compile: <text>:1:1: error: invalid instruction",
    )
    check_error(
        devmod.CompileError,
        lambda: devmod.compile("s_nop 0\n", GFX1100, language="assembly"),
        "the assembly source <text> has no kernel: describe it in .amdgpu_metadata",
    )


TEMPLATES = """
template <class T> struct Pair { struct Item { T value; int index; }; };
namespace shapes { template <class T> __global__ void scale(T *x, const T *y, T factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = y[i] * factor;
} }
namespace { template <class T> __global__ void hidden(typename Pair<T>::Item item, T *x) { x[0] = item.value; } }
template <class... T> __global__ void add(float *x, T... rest) { x[0] = (rest + ...); }
static __global__ void set(int *x) { x[0] = 1; }
static __global__ void set(float *x) { x[0] = 1; }
template __global__ void shapes::scale<double>(double *, const double *, double, int);
"""


def test_name_expressions_instantiate_templates() -> None:
    expressions = [
        "shapes::scale<float>",
        "&hidden<int>",
        "add<int, double>",
        "(void (*)(float *))set",
    ]
    module = devmod.compile(
        TEMPLATES, "rocm -arch=gfx1100", language="HIP", name_expressions=expressions
    )
    assert [f"{name} {info}" for name, info in module.functions.items()] == [
        "set <FunctionInfo _ZL3setPi(x: int32* rw) any block subgroup 32>",
        "shapes::scale<double> <FunctionInfo _ZN6shapes5scaleIdEEvPT_PKS1_S1_i(x: float64* rw, y: float64* r, factor: float64, n: int32) any block subgroup 32>",
        "shapes::scale<float> <FunctionInfo _ZN6shapes5scaleIfEEvPT_PKS1_S1_i(x: float32* rw, y: float32* r, factor: float32, n: int32) any block subgroup 32>",
        "hidden<int> <FunctionInfo _ZN12_GLOBAL__N_16hiddenIiEEvN4PairIT_E4ItemEPS2_(item: {value: int32, index: int32}, x: int32* rw) any block subgroup 32>",
        "add<int, double> <FunctionInfo _Z3addIJidEEvPfDpT_(x: float32* rw, rest_0: int32, rest_1: float64) any block subgroup 32>",
        "(void (*)(float *))set <FunctionInfo _ZL3setPf(x: float32* rw) any block subgroup 32>",
    ]
    assert module.source["hip"] == TEMPLATES
    plain = devmod.compile(TEMPLATES, "rocm -arch=gfx1100", language="HIP")
    assert list(plain.functions) == ["set(int*)", "set(float*)", "shapes::scale<double>"]


@pytest.mark.parametrize(
    ("target", "declaration"),
    [
        *(
            ("rocm -arch=gfx1100", each)
            for each in (
                "typedef signed long long int64_t;\ntypedef unsigned long long uint64_t;",
                "using int64_t = long long int;",
                "typedef char int8_t;\ntypedef long long int64_t;",
                "#include <stdint.h>",
            )
        ),
        ("rocm -format=hip", "using int64_t = long long int;"),
        ("cuda -arch=compute_80", "using int64_t = long long int;"),
    ],
)
def test_a_program_may_define_the_types_of_stdint(target: str, declaration: str) -> None:
    """As for NVRTC and hiprtc, which have none. The program also needs a header that few kernels
    use.
    """
    text = f'{declaration}\nextern "C" __global__ void k(int64_t *x, int n) {{ x[0] = __dp4a(n, n, n); }}\n'
    module = devmod.compile(text, target, language="HIP" if target.endswith("hip") else "CUDA C++")
    assert "k(x: int64* rw, n: int32)" in str(module.functions["k"])


def test_a_warning_about_a_template_is_one_and_the_headers_have_none() -> None:
    head = "template <int N> __global__ void k(float *x, int n) { if (n = N) x[0] = n; }\n"
    text = head + "".join(
        f"template __global__ void k<{number}>(float *, int);\n" for number in range(100)
    )
    with pytest.warns(UserWarning, match=".") as records:
        devmod.compile(
            text, "rocm -arch=gfx1100", language="HIP", options=["-Wall", "-Wconversion"]
        )
    (record,) = records
    lines = [
        line.partition(" warning: ")[::2]
        for line in str(record.message).splitlines()
        if " warning: " in line
    ]
    assert lines == [
        (
            "<text>:1:61:",
            "using the result of an assignment as a condition without parentheses [-Wparentheses]",
        ),
        (
            "<text>:1:73:",
            "implicit conversion from 'int' to 'float' may lose precision [-Wimplicit-int-float-conversion]",
        ),
    ]


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "a mistake": (
        {"source": "__global__ void k(int *x) { x[0] = nonsense; }"},
        "the HIP source does not compile: <text>:1:36: error: use of undeclared identifier 'nonsense'",
    ),
    "no architecture": (
        {"target": "rocm"},
        "the target 'rocm' names no architecture. Name those of the devices: 'rocm -arch=gfx90a,gfx1100'. Or keep the source, which the "
        "receiver compiles: 'rocm -format=hip'",
    ),
    "an unknown architecture": (
        {"target": "rocm -arch=sm_90"},
        "the target 'rocm -arch=sm_90' has the unknown architecture 'sm_90'; expected a name such as gfx90a, gfx1100, gfx942:xnack- or "
        "gfx11-generic",
    ),
    "no kernel": (
        {"source": "__device__ int k;"},
        "the HIP source <text> has no kernel: mark a function with __global__; a template needs an instance, such as "
        "name_expressions=['scale<float>']",
    ),
    "a function of the device library": (
        {"source": "__global__ void k(double *x) { x[0] = exp(x[0]); }"},
        "the HIP source <text> uses __ocml_exp_f64, which amdgcn does not compute by itself. The functions __ocml_… are those of ROCm's device "
        "library: use the float functions that docs/rocm.md lists, or name the folder of ROCm's device library with the option "
        "-device-libs=FOLDER or the environment variable DEVMOD_ROCM_DEVICE_LIBS (Debian and Ubuntu: apt install rocm-device-libs, "
        "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode; Debian 13: rocm-device-libs-17, /usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode; the wheel triton has it in triton/backends/amd/lib)",
    ),
    "a function of the user": (
        {
            "source": "__device__ float helper(float, int);\n__global__ void k(float *x) { x[0] = helper(x[1], 2); }"
        },
        "the HIP source <text> uses helper(float, int), without a definition. Define it in the source or in a header that it includes: a code "
        "object is linked from one source",
    ),
    "a function of the user, beside one with the name of a rarely used one": (
        {
            "source": "__device__ void __stcg(float *p, float v);\n__device__ void __nanosleep(unsigned) {}\n__global__ void k(float *x) { __stcg(x, 1); }"
        },
        "the HIP source <text> uses __stcg(float*, float), without a definition. Define it in the source or in a header that it includes: a "
        "code object is linked from one source",
    ),
    "functions of both": (
        {
            "source": "namespace n { __device__ int __ocml_f(); __device__ double f(); }\n__global__ void k(double *x) { x[0] = exp(n::f()); }"
        },
        "the HIP source <text> uses n::f(), without a definition. Define it in the source or in a header that it includes: a code object is "
        "linked from one source. It also uses __ocml_exp_f64, which amdgcn does not compute by itself. The functions __ocml_… are those of "
        "ROCm's device library: use the float functions that docs/rocm.md lists, or name the folder of ROCm's device library with the option "
        "-device-libs=FOLDER or the environment variable DEVMOD_ROCM_DEVICE_LIBS (Debian and Ubuntu: apt install rocm-device-libs, "
        "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode; Debian 13: rocm-device-libs-17, /usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode; the wheel triton has it in triton/backends/amd/lib)",
    ),
    "a header of a library": (
        {"source": "#include <hipblas/hipblas.h>\n__global__ void k(int *x) {}"},
        "the HIP source does not compile: <text>:1:10: fatal error: 'hipblas/hipblas.h' file not found",
    ),
    "an option for the target": (
        {"options": ["-march=gfx90a"]},
        "the rocm option '-march=gfx90a' is not supported: devmod sets the architecture, the files, the headers and the kind of output itself",
    ),
    "a name expression with a mistake": (
        {"name_expressions": ["absent<int>"]},
        "name_expressions= ('absent<int>') does not compile: use of undeclared identifier 'absent'",
    ),
    "a name expression of a function that is no kernel": (
        {
            "source": "template <class T> __device__ T f(T x) { return x; }\n__global__ void k() {}",
            "name_expressions": ["f<int>"],
        },
        "name_expressions= contains 'f<int>', which names no kernel of the source",
    ),
    "a declared kernel that the source does not have": (
        {"fmap": {"k": FunctionInfo("other", ["handle"])}},
        "the declared fmap names the rocm kernel 'other', which <text> does not have. It has _Z1kPi",
    ),
    "an instance that its name does not identify": (
        {
            "source": "template <class T> __global__ void k(T *x) { x[0] = 1; }\ntemplate <class T> __global__ void k(T *x, int n) { x[n] = 1; }\n"
            "template __global__ void k<int>(int *);"
        },
        "the signatures of _Z1kIiEvPT_ in <text> are unknown. Declare them: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, "
        "arg_types)})",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_a_remedy(name: str) -> None:
    arguments, text = ERRORS[name]
    call = {
        "source": "__global__ void k(int *x) { x[0] = 1; }",
        "target": "rocm -arch=gfx90a",
        "language": "HIP",
    } | arguments
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(call.pop("source"), call.pop("target"), **call),
        text,
    )


@pytest.mark.row("R38")
def test_the_bytes_depend_on_the_inputs_alone(tmp_path: Path) -> None:
    files = {
        "k.hip": '#include "near.h"\n#include <far.h>\n__global__ void k(int *x) { x[0] = NEAR + FAR + N + sizeof __FILE__ + sizeof far_name; }\n',
        "near.h": "#define NEAR 1\n",
        "include/far.h": "#define FAR 2\nstatic const char far_name[] = __FILE__;\n",
    }
    assert (
        origin_in_two_folders(tmp_path, "rocm -arch=gfx90a", files)
        == "['far.h', 'k.hip', 'near.h'] ('-DN=3',)"
    )


DOUBLES = """
__global__ void doubles(const double *x, double *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = exp(x[i]) + sin(x[i]) + pow(fabs(x[i]) + 1, 1.5) + tanh(x[i]) + atan2f((float)x[i], 2.0f);
}
"""


@needs_device_libs
@pytest.mark.volume_but("gfx942", "gfx11-generic")
@pytest.mark.parametrize(
    "arch", ["gfx906", "gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx11-generic"]
)
def test_the_device_library_has_the_functions_of_double(
    arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_option = devmod.compile(
        DOUBLES, f"rocm -arch={arch}", language="HIP", options=[f"-device-libs={DEVICE_LIBS}"]
    )
    monkeypatch.setenv("DEVMOD_ROCM_DEVICE_LIBS", str(DEVICE_LIBS))
    by_variable = devmod.compile(DOUBLES, f"rocm -arch={arch}", language="HIP")
    assert by_option.save_to_bytes() == by_variable.save_to_bytes()
    assert by_option.origin == by_variable.origin
    assert by_option.origin is not None
    assert "device library sha256:" in by_option.origin.toolchain
    assert str(DEVICE_LIBS) not in repr(by_option.origin)


@needs_device_libs
def test_a_function_that_the_device_library_lacks() -> None:
    source = 'extern "C" __device__ double __ocml_none_f64(double);\n__global__ void k(double *x) { x[0] = __ocml_none_f64(exp(x[1])); }'
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(
            source, GFX1100, language="HIP", options=[f"-device-libs={DEVICE_LIBS}"]
        ),
        "the HIP source <text> uses __ocml_none_f64, which the given device library of ROCm does not define",
    )


def test_a_folder_without_the_device_library_is_named(tmp_path: Path) -> None:
    check_error(
        devmod.ToolchainNotFoundError,
        lambda: devmod.compile(
            DOUBLES, "rocm -arch=gfx90a", language="HIP", options=[f"-device-libs={tmp_path}"]
        ),
        f"-device-libs={tmp_path} has no ocml.bc; name the folder of ROCm's device library with the option -device-libs=FOLDER or the "
        "environment variable DEVMOD_ROCM_DEVICE_LIBS (Debian and Ubuntu: apt install rocm-device-libs, "
        "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode; Debian 13: rocm-device-libs-17, /usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode; the wheel triton has it in triton/backends/amd/lib)",
    )


needs_emulator = pytest.mark.skipif(bool(rdna3.missing()), reason=rdna3.missing() or "-")


@needs_emulator
@pytest.mark.row("R37")
def test_compiled_kernels_compute_on_the_emulator(kernels: devmod.Module, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    emulator = rdna3.Emulator(code_of(kernels), tmp_path)
    x, y = rng.random(200, "float32"), rng.random(200, "float32")
    expected = y.copy()
    expected[:190] += np.float32(2.5) * x[:190]
    emulator.add(
        "axpy",
        x,
        y,
        np.float32(2.5).tobytes() + np.int32(190).tobytes(),
        grid=(4, 1, 1),
        block=(64, 1, 1),
    )
    a, b = rng.standard_normal((3, 100), "float32") * 3, np.zeros((3, 100), "float32")
    emulator.add("softmax", a, b, np.int32(100), grid=(3, 1, 1), block=(64, 1, 1))
    v, out = (np.arange(64, dtype="int32") * 3) % 17, np.zeros(64 * 7, "int32")
    emulator.add("lanes", v, out, grid=(1, 1, 1), block=(64, 1, 1))
    values, counts, total = (
        rng.integers(0, 99, 128, "int32"),
        np.zeros(10, "uint32"),
        np.zeros(1, "float32"),
    )
    halves = rng.random(128).astype("float16")
    doubled = halves * np.float16(2)
    emulator.add("count", values, counts, total, halves, grid=(2, 1, 1), block=(64, 1, 1))
    emulator.run()

    np.testing.assert_allclose(y, expected, rtol=1e-6)
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    np.testing.assert_allclose(b, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
    t = np.arange(64)
    lane, wave = t & 31, t & ~31
    odd = np.repeat([(v[:32] & 1).sum(), (v[32:] & 1).sum()], 32)
    rows = [
        v[t ^ 1],
        v[np.where(lane >= 2, t - 2, t)],
        v[np.where(lane + 3 < 32, t + 3, t)],
        v[wave + 5],
        odd,
        np.full(64, 164),
    ]
    np.testing.assert_array_equal(out.reshape(7, 64), [*rows, v[np.where(t & 7, t - 1, t)]])
    np.testing.assert_array_equal(counts[:8], np.bincount(values & 7, minlength=8))
    assert counts[8] == values.max()
    assert counts[9] == 128 % 10
    assert total[0] == 64
    np.testing.assert_array_equal(halves, doubled)


@pytest.mark.volume
@needs_emulator
def test_an_instance_computes_on_the_emulator(tmp_path: Path) -> None:
    module = devmod.compile(
        TEMPLATES, "rocm -arch=gfx1100", language="HIP", name_expressions=["shapes::scale<short>"]
    )
    emulator = rdna3.Emulator(code_of(module), tmp_path)
    x, y = np.zeros(70, "int16"), np.arange(70, dtype="int16")
    emulator.add(
        module.functions["shapes::scale<short>"].name,
        x,
        y,
        np.int16(3),
        np.int32(69),
        grid=(2, 1, 1),
        block=(64, 1, 1),
    )
    emulator.run()
    np.testing.assert_array_equal(x, [*range(0, 207, 3), 0])


@needs_emulator
@needs_device_libs
def test_functions_of_the_device_library_compute_on_the_emulator(tmp_path: Path) -> None:
    module = devmod.compile(
        DOUBLES, "rocm -arch=gfx1100", language="HIP", options=[f"-device-libs={DEVICE_LIBS}"]
    )
    emulator = rdna3.Emulator(code_of(module), tmp_path)
    x, y = np.linspace(-3, 3, 64), np.zeros(64)
    emulator.add("_Z7doublesPKdPdi", x, y, np.int32(64), grid=(1, 1, 1), block=(64, 1, 1))
    emulator.run()
    expected = (
        np.exp(x)
        + np.sin(x)
        + (np.abs(x) + 1) ** 1.5
        + np.tanh(x)
        + np.arctan2(x.astype("float32"), np.float32(2))
    )
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@needs_emulator
def test_the_math_functions_have_the_errors_of_the_page(tmp_path: Path) -> None:
    lines = "".join(f"    y[{number} * n + i] = {text};\n" for number, text in enumerate(MATH))
    source = f"__global__ void maths(const float *x, float *y, int n)\n{{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    float v = x[i];\n{lines}}}\n"
    module = devmod.compile(source, "rocm -arch=gfx1100", language="HIP")
    emulator = rdna3.Emulator(code_of(module), tmp_path)
    x = np.linspace(-7, 7, 256, dtype="float32")
    y = np.zeros((len(MATH), 256), "float32")
    name = next(iter(module.functions.values())).name
    emulator.add(name, x, y, np.int32(256), grid=(4, 1, 1), block=(64, 1, 1))
    emulator.run()
    for row, (text, (reference, bound)) in zip(y, MATH.items(), strict=True):
        expected = reference(x.astype("float64"))
        error = np.abs(row - expected) / (1 + np.abs(expected))
        assert error.max() <= bound, f"{text}: {error.max():.3g} at {x[error.argmax()]}"


@pytest.mark.parametrize(
    ("arch", "options", "lanes"),
    [("gfx1100", [], 32), ("gfx1100", ["-mwavefrontsize64"], 64), ("gfx90a", [], 64)],
)
def test_the_size_of_a_wave_is_a_constant_expression(
    arch: str, options: list[str], lanes: int
) -> None:
    """As in ROCm before 7, on which rocPRIM relies. A struct of the host may have a member of this
    name.
    """
    text = f"""
    #include <hip/hip_runtime.h>
    constexpr unsigned lanes() {{ return warpSize; }}
    static_assert(lanes() == {lanes}, "lanes");
    template <class T> __device__ const T &least(const T &a, const T &b) {{ return a < b ? a : b; }}
    struct Properties {{ int warpSize; }};
    __global__ void k(int *x) {{ __shared__ int part[warpSize]; part[threadIdx.x] = x[threadIdx.x]; x[0] = least(warpSize, part[1]); }}
    """
    module = devmod.compile(text, f"rocm -arch={arch}", language="HIP", options=options)
    assert list(module.functions) == ["k"]
