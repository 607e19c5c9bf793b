"""CUDA C++ for rocm and HIP for cuda: one interface on both, host code, and the errors for what one
of them lacks.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from each_case import refusal
from family import compiled

import devmod
from devmod_targets.build import read_manifest
from devmod_targets.build.build import build_manifest

pytestmark = pytest.mark.once  # what the compilers make of a source

CUDA, ROCM = "cuda -arch=sm_80", "rocm -arch=gfx1100"
PTX = "cuda -arch=compute_80"
NVCC = "cuda -arch=sm_80 -compiler=nvcc"
ADVICE_PTX = "Inline assembly of CUDA C++ is PTX, which AMD's processors do not have. Keep it for CUDA alone, with #ifndef __HIP_PLATFORM_AMD__"


@pytest.mark.volume_but("gfx90a-warps.hip")  # devmod-rocm's test_cuda_sources.py runs warps.cu
@pytest.mark.parametrize("name", ["warps.cu", "warps.hip"])
@pytest.mark.parametrize("arch", ["gfx1100", "gfx90a"])
def test_both_vendors_have_one_interface(name: str, arch: str) -> None:
    module = compiled(name, CUDA, f"rocm -arch={arch}")  # `devmod.bundle` compares them
    assert [(each.kind, each.format) for each in module.imports] == [
        ("cuda", "cubin"),
        ("rocm", "hsaco"),
    ]
    assert list(module.functions) == ["warps", "widen", "scale<float>"]
    for each in module.imports:
        assert {path: len(digest) for path, digest in each.origin.sources.items()} == {name: 64}  # type: ignore[union-attr]


@pytest.mark.volume_but("k.cu")
@pytest.mark.parametrize("text", ["k.cu", "k.hip"])
def test_a_file_for_both_in_a_manifest(text: str, tmp_path: Path) -> None:
    header = "cuda_fp16.h" if text == "k.cu" else "hip/hip_fp16.h"
    (tmp_path / text).write_text(
        f"#include <{header}>\n__global__ void widen(const half *x, float *y) {{ y[0] = __half2float(x[0]); }}\n"
        "template <class T> __global__ void scale(T *x, T factor) { x[0] *= factor; }\n"
    )
    (tmp_path / "devmod.toml").write_text(
        f'targets = ["{CUDA}", "{ROCM}"]\n[kernels.k]\nsources = ["{text}"]\nname_expressions = ["scale<float>"]\n'
    )
    result = build_manifest(tmp_path, cache=False)
    assert [(each.job.target, each.status) for each in result.results] == [
        (CUDA, "compiled"),
        (ROCM, "compiled"),
    ]
    assert set(devmod.load(tmp_path / "kernels.devmod").functions) == {"widen", "scale<float>"}


def test_a_source_of_its_own_goes_before_one_of_the_other_vendor(tmp_path: Path) -> None:
    for suffix in ("cu", "hip"):
        (tmp_path / f"k.{suffix}").write_text('extern "C" __global__ void k(int *x) { *x = 1; }')
    (tmp_path / "devmod.toml").write_text(
        f'targets = ["{CUDA}", "{ROCM}"]\n[kernels.k]\nsources = ["k.cu", "k.hip"]\n'
    )
    result = build_manifest(tmp_path, cache=False)
    assert [(each.job.source, each.job.target) for each in result.results] == [
        ("k.cu", CUDA),
        ("k.hip", ROCM),
    ]
    (tmp_path / "devmod.toml").write_text(
        f'targets = ["{CUDA}"]\n[kernels.k]\nsources = ["k.cu", "k.hip"]\n'
    )
    assert refusal(devmod.FormatError, read_manifest, tmp_path).endswith(
        "kernels.k.sources[1]: 'k.hip' is HIP, and is for no target of the kernel: cuda gets the CUDA C++, because a target gets its own "
        "language, or else that of the first source. Make it a kernel of its own, or remove the source"
    )


MACROS = (
    "__CUDACC__",
    "__CUDA_ARCH__",
    "__HIPCC__",
    "__HIP_DEVICE_COMPILE__",
    "__HIP_PLATFORM_AMD__",
    "__HIP_PLATFORM_NVIDIA__",
)


@pytest.mark.parametrize(
    ("language", "target", "defined"),
    [
        ("CUDA C++", CUDA, MACROS[:2]),
        ("CUDA C++", ROCM, MACROS[:5]),
        ("HIP", CUDA, (*MACROS[:4], "__HIP_PLATFORM_NVIDIA__")),
        ("HIP", ROCM, MACROS[2:5]),
    ],
)
def test_the_macros_of_a_vendor(language: str, target: str, defined: tuple[str, ...]) -> None:
    source = "".join(
        f'#ifdef {name}\nextern "C" __global__ void has{name}(int *x) {{ *x = 1; }}\n#endif\n'
        for name in MACROS
    )
    assert [
        name.removeprefix("has")
        for name in devmod.compile(source, target, language=language).functions
    ] == list(defined)


def test_a_warp_has_32_threads_on_waves_of_64_lanes() -> None:
    source = """
    extern "C" __global__ void k(unsigned *x)
    {
        static_assert(sizeof(__ballot_sync(0xffffffff, 1)) == 4 && warpSize == 32, "CUDA's warps");
        x[threadIdx.x] = __match_any_sync(0xffffffff, x[threadIdx.x]) + __shfl_sync(0xffffffff, x[0], 31);
    }
    """
    wide = devmod.compile(source, "rocm -arch=gfx90a", language="CUDA C++")
    assert wide.functions["k"].interface.subgroup == 64  # type: ignore[union-attr] # of the code object
    with pytest.raises(devmod.CompileError, match="the mask of a wave of 64 lanes has 64 bits"):
        devmod.compile(source.replace("static_assert", "//"), "rocm -arch=gfx90a", language="HIP")


HOST = """
#include <{prefix}{header}>
#include <vector>
template <class T> __global__ void twice(T *x, int n) {{ if (threadIdx.x < n) x[threadIdx.x] *= 2; }}
int main()
{{
    std::vector<float> values(32);
    float *x;
    if ({prefix}Malloc(&x, 128) != {prefix}Success)
        return 1;
    {prefix}Memcpy(x, values.data(), 128, {prefix}MemcpyHostToDevice);
    {prefix}Stream_t stream;
    {prefix}StreamCreate(&stream);
    twice<float><<<1, 32, 0, stream>>>(x, 32);
    return {prefix}DeviceSynchronize() != {prefix}Success || {prefix}Free(x) != {prefix}Success;
}}
"""


@pytest.mark.volume_but("cuda-rocm", "hip-nvcc")
@pytest.mark.parametrize("target", [NVCC, ROCM], ids=["nvcc", "rocm"])
@pytest.mark.parametrize(
    ("language", "prefix", "header"),
    [("CUDA C++", "cuda", "_runtime.h"), ("HIP", "hip", "/hip_runtime.h")],
    ids=["cuda", "hip"],
)
def test_host_code_in_the_file(language: str, prefix: str, header: str, target: str) -> None:
    module = devmod.compile(HOST.format(prefix=prefix, header=header), target, language=language)
    assert list(module.functions) == ["twice<float>"]


@pytest.mark.parametrize(
    ("source", "target", "language", "expected"),
    [
        (
            '__global__ void k(unsigned *x) { asm("mov.u32 %0, %%laneid;" : "=r"(*x)); }',
            ROCM,
            "CUDA C++",
            f"the CUDA C++ source does not compile: <text>:1:38: error: invalid instruction. {ADVICE_PTX}",
        ),
        (
            '__global__ void k(float *x) { asm("ex2.approx.f32 %0, %0;" : "+f"(*x)); }',
            ROCM,
            "CUDA C++",
            f"the CUDA C++ source does not compile: <text>:1:62: error: invalid output constraint '+f' in asm. {ADVICE_PTX}",
        ),
        (
            "#include <mma.h>\n__global__ void k(float *x) {}",
            ROCM,
            "CUDA C++",
            "the CUDA C++ source does not compile: <text>:1:10: fatal error: 'mma.h' file not found. mma.h is a header of CUDA that devmod "
            "does not have for rocm: docs/rocm.md lists its headers",
        ),
        (
            "__global__ void k(cudaTextureObject_t t, float *x) { *x = tex2D<float>(t, 0, 0); }",
            ROCM,
            "CUDA C++",
            "the CUDA C++ source does not compile: <text>:1:19: error: unknown type name 'cudaTextureObject_t'. devmod has no textures and "
            "surfaces for rocm, and so no cudaTextureObject_t: pass an array and compute the filter in the kernel",
        ),
        (
            "__global__ void k(unsigned *x) { *x = __vabs4(*x); }",
            ROCM,
            "CUDA C++",
            "the CUDA C++ source does not compile: <text>:1:39: error: use of undeclared identifier '__vabs4'",
        ),
        (
            "__global__ void k(int *x) {}",
            "rocm -format=hip",
            "CUDA C++",
            "the target 'rocm -format=hip' keeps the source, and hiprtc compiles HIP alone; CUDA C++ gives a code object: 'rocm -arch=gfx90a'",
        ),
        (
            "__global__ void k(int *x) { *x = __builtin_amdgcn_s_getpc(); }",
            CUDA,
            "HIP",
            'the HIP source does not compile: <text>:1: error: identifier "__builtin_amdgcn_s_getpc" is undefined',
        ),
        (
            "#include <rocprim/rocprim.hpp>\n__global__ void k(int *x) {}",
            CUDA,
            "HIP",
            'the HIP source does not compile: <text>:1: error: cannot open source file "rocprim/rocprim.hpp". It is a header of HIP or of '
            "ROCm that devmod does not have for cuda: docs/cuda.md lists its headers of HIP",
        ),
        (
            '__global__ void k(int *x) { asm volatile("s_nop 0"); }',
            CUDA,
            "HIP",
            "the HIP source does not compile: the PTX:25: error: Parsing error near 'ret': syntax error. Inline assembly of HIP is that of "
            "AMD's processors. Keep it for ROCm alone, with #ifdef __HIP_PLATFORM_AMD__",
        ),
        (
            '__global__ void k(int *x) { asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory"); asm("mov.u32 %0, %%laneid;" : "=r"(*x)); }',
            PTX,
            "HIP",
            "the HIP source <text> has inline assembly of AMD's processors: s_waitcnt. Keep it for ROCm alone, with #ifdef "
            "__HIP_PLATFORM_AMD__",
        ),
        *(
            (
                f"__global__ void k(int *x) {{ *x = {call}(*x, 1, 64); }}",
                target,
                "HIP",
                "the HIP source does not compile: the width of a shuffle is at most the number of lanes of a warp, which is 32 on CUDA",
            )
            for call, target in [
                ("__shfl_down", CUDA),
                ("__shfl", PTX),
                ("__shfl_up", PTX),
                ("__shfl_xor", PTX),
            ]
        ),
        (
            "typedef float four __attribute__((ext_vector_type(4)));\n__global__ void k(four *x) { x[1] = x[0]; }",
            PTX,
            "HIP",
            "the HIP source <text> has the attribute ext_vector_type, which NVIDIA's compilers ignore: the type would not be a vector. Use a "
            "struct, such as float4",
        ),
        (
            'extern "C" __device__ int elsewhere();\n__global__ void k(int *x) { *x = elsewhere(); }',
            PTX,
            "CUDA C++",
            "the CUDA C++ source does not compile: it uses elsewhere, without a definition. Define it in the source or in a header that it "
            "includes",
        ),
        (
            "__global__ void k(int *x) { *x = __shfl_down(*x, 1); }",
            "rocm -arch=gfx1100",
            "HIP with waves of 64",
            "the HIP source does not compile: ./devmod-headers/devmod_hip.h: error: static assertion failed due to requirement "
            "'sizeof(int) && 0': gfx10 and gfx11 have no shuffles in waves of 64 lanes: leave out -mwavefrontsize64",
        ),
    ],
)
def test_what_one_vendor_lacks_is_an_error_with_its_name(
    source: str, target: str, language: str, expected: str
) -> None:
    language, _, wide = language.partition(" with ")
    assert (
        re.sub(
            r"(devmod_hip\.h):\d+:\d+",
            r"\1",
            refusal(
                devmod.CompileError,
                devmod.compile,
                source,
                target,
                language=language,
                options=["-mwavefrontsize64"] if wide else (),
            ),
        )
        == expected
    )


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_waves_of_64_lanes_where_32_are_the_default(arch: str) -> None:
    """The assembler must have the option too. A warp of CUDA is half a wave, and gfx12 has shuffles
    of whole waves.
    """
    language = "CUDA C++" if arch == "gfx1100" else "HIP"
    module = devmod.compile(
        "__global__ void k(int *x) { *x = __shfl_down(__any(*x), 1); }",
        f"rocm -arch={arch}",
        language=language,
        options=["-mwavefrontsize64"],
    )
    assert module.functions["k"].interface.subgroup == 64  # type: ignore[union-attr]


@pytest.mark.parametrize(("head", "line"), [("", 2), ("//devmod: --use_fast_math\n", 3)])
def test_the_lines_of_a_hip_source_for_cuda(head: str, line: int, tmp_path: Path) -> None:
    source = tmp_path / "k.hip"
    source.write_text(f"{head}\n__global__ void k(int *x) {{ *x = missing; }}")
    for defines in ({}, {"A": 1}):
        with pytest.raises(
            devmod.CompileError, match=rf'k\.hip:{line}: error: identifier "missing" is undefined'
        ):
            devmod.compile(source, CUDA, defines=defines)
