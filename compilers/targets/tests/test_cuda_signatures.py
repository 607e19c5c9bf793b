"""The signatures of CUDA C++ kernels, read from real compiles: types, members, names, launch
limits, and what libclang cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from each_case import raised, refusal

import devmod

pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
from devmod_targets.authoring._mangled import parse_function, parse_signature
from devmod_targets.cuda import nvrtc
from devmod_targets.cuda.signatures import prelude, reader
from devmod_targets.cuda.signatures.types import DTYPES

pytestmark = pytest.mark.once  # what NVRTC and libclang make of a source
KERNELS = Path(__file__).parent / "kernels" / "cuda"
K = 'extern "C" __global__ void '


def member(each: devmod.Member) -> str:
    type_ = each.type or f"{{{', '.join(map(member, each.members))}}}"
    return f"{each.name} {type_}{list(each.shape) if each.shape else ''}@{each.offset}"


def param(each: devmod.Param) -> str:
    text = each.type or "?"
    text = f"{each.access} {text}*" if each.kind == "buffer" else text
    text += f" align {each.align}" if each.align else ""
    text += f" size {each.size}" if each.size else ""
    return f"{each.name}: {text}" + (
        f" {{{', '.join(map(member, each.members))}}}" if each.members else ""
    )


def signature(info: devmod.FunctionInfo) -> list[str]:
    assert info.interface is not None
    assert [
        each.type if each.kind == "scalar" else "handle" for each in info.interface.params
    ] == list(info.arg_types)
    return [param(each) for each in info.interface.params]


def compile_text(text: str, **options: object) -> dict[str, devmod.FunctionInfo]:
    return dict(devmod.compile(text, "cuda -arch=sm_90", **options).functions)  # type: ignore[arg-type]


def signature_of(text: str, **options: object) -> list[str]:
    (info,) = compile_text(text, **options).values()
    return signature(info)


def error_of(text: str, **options: object) -> devmod.CompileError:
    return raised(devmod.CompileError, compile_text, text, **options)


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The expressions of each probe. A program has at most one."""
    calls: list[list[str]] = []
    probe = reader._probe

    def counted(
        request: object, source: object, options: object, expressions: Sequence[str]
    ) -> object:
        calls.append(list(expressions))
        return probe(request, source, options, expressions)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "_probe", counted)
    return calls


#: The files, their kernels, and the parameters of each, with "|" between them.
SIGNATURES: dict[str, dict[str, str]] = {
    "numbers": {
        "integers": "b: bool|c: int8|sc: int8|uc: uint8|s: int16|us: uint16|i: int32|u: uint32|l: int64|ul: uint64|ll: int64|ull: uint64|"
        "size: uint64|u16: uint16|i64: int64|c16: uint16|c32: uint32|w: int32|out: rw int32*",
        "floats": "f: float32|d: float64|h: float16|h1: float16|b: bfloat16|b1: bfloat16|e4: float8_e4m3fn|e5: float8_e5m2|h2: float16x2|"
        "b2: bfloat16x2|out: rw float32*",
        "vectors": "f4: float32x4|f3: float32x3|f2: float32x2|f1: float32|i4: int32x4|u3: uint32x3|uc4: uint8x4|c3: int8x3|s2: int16x2|"
        "d2: float64x2|ll2: int64x2|ul4: uint64x4|d4: float64x4|d: uint32x3|out: rw float32*",
        "names": "w: uint64|r: float32|i: int32|p: uint32|s: uint8|n: int32|c: int32|v: float32|out: rw int32*",
        # A texture of linear memory is a number of 64 bits, and a pointer to a function is an
        # address.
        "handles": "texture: uint64|surface: 1d|callback: uint64|out: rw int32*",
    },
    "pointers": {
        "qualifiers": "a: r float32*|b: r float32*|c: rw float32*|d: r float32*|e: rw int32*|f: r int32*|g: rw float32*|h: r float32*|"
        "i: r ?*|j: rw ?*",
        # A three-vector takes the memory of three numbers.
        "elements": "h: rw float16*|b: rw bfloat16*|e4: rw float8_e4m3fn*|e5: r float8_e5m2*|h2: rw float16x2*|f4: rw float32x4*|"
        "f3: rw float32*|i3: r int32*|uc4: rw uint8x4*|flags: rw bool*|colors: rw int16*|text: rw int8*|counts: rw uint64*",
        "structs": "p: rw uint8x8* align 4 {x float32@0, y float32@4}|q: r uint8x8* align 4 {x float32@0, y float32@4}|w: rw uint8x4* align 4|o: rw ?*|rows: rw uint64*|fixed: r uint64*|"
        "points: rw uint64*",
        "arrays": "a: rw int32* size 64|b: r float32*|m: rw float32*|rows: r float32*|r: rw float32* size 16|point: r uint8x8* align 4 size 8 {x float32@0, y float32@4}|"
        "n: rw int32* size 24",
    },
    "structs": {
        "layouts": "a: uint8x32 align 8 {tag int8@0, value float64@8, counts int32[3]@16}|"
        "b: uint8x64 align 16 {one {a int16@0, h float16@2}@0, many {a int16@0, h float16@2}[2]@4, v float32x4@16, w float32x3[2]@32}|"
        "c: uint8x4 align 4|d: uint8x8 align 4 {n int32@0, word uint8[4]@4}|e: uint8x8 align 4|"
        "f: uint8x24 align 8 {data uint64@0, index uint64@8, n uint64@16}|g: uint8x8 align 4|"
        "h: uint8x5 align 1 {a int8@0, b int32@1}|i: uint8x32 align 32 {x float32@0}|"
        "j: uint8x12 align 4 {x int32@0, y int32@4, z int32@8}|k: uint8x24 align 8 {on bool@0, next uint64@8, mode uint32@16}|"
        "l: uint8x32 align 8 {tag int8@0, value float64@8, counts int32[3]@16}|out: rw float32*",
        "classes": "e: uint8 align 1|a: uint8x12 align 4 {items float16[3]@0, size int32@8}|f: uint8x4 align 4 {scale float32@0}|"
        "out: rw float32*",
    },
    "names": {
        "image::filters::blur": "in: r float32*|out: rw float32*",
        "image::v2::sharpen": "p: rw float32*",
        "image::plain_in_namespace": "p: rw float32*",
        "image::hidden": "p: rw float32*",
        "over(int*)": "p: rw int32*",
        "over(float*, int)": "p: rw float32*|n: int32",
        "set_int": "p: rw int32*|value: int32",
        "set_double": "p: rw float64*|value: float64",
        "internal": "p: rw int32*",
        "declared_before": "p: rw int32*|q: r float32*",
        "by_macro": "p: rw float32*",
        "defaults": "p: rw float32*|n: int32|scale: float32",
        "trailing": "p: rw int32*",
        "attributes": "n: int32|p: rw float32*",
        "scale<double, 2>": "data: rw float64*|factor: float64|n: int32",
        "scale<float>": "data: rw float32*|factor: float32|n: int32",
        "convert<float>": "out: rw float64*|in: r float32*|traits: uint8 align 1",
        "many<int, double>": "out: rw float32*|values_0: int32|values_1: float64",
        "image::fill<unsigned char>": "p: rw uint8*|value: uint8",
    },
    "launch_forms": {
        "plain": "a: r float32*|b: rw float32*|n: int32",
        "bounded": "a: rw float32*|x: int8|y: int16|z: bool|r: uint8x32 align 8 {tag int8@0, value float64@8, counts int32[3]@16}|"
        "w: uint8x4 align 4",
        "shifted": "line: uint8x128 align 128 {bytes int8[128]@0}|address: int64|v: float32x4",
        "nothing": "",
        "calls": "n: int32",
        "fixed": "a: rw float32*",
        "fixed_cluster": "a: rw float32*",
        "cluster": "a: rw float32*",
        "small_cluster": "a: rw float32*",
    },
    "templates": {
        "outer::inner::nested<const __half*>": "t: r float16*|p: uint8x8 align 4 {a int32@0, b int32@4}|q: r uint64*",
        "outer::inner::nested<Pair>": "t: uint8x8 align 4 {a int32@0, b int32@4}|p: uint8x8 align 4 {a int32@0, b int32@4}|"
        "q: r uint8x8* align 4 {a int32@0, b int32@4}",
        "apply<Op::Add, float>": "x: rw float32*",
        "fill<4, float>": "x: rw float32* size 16|n: int32",
        "unwrap<Box, float>": "c: uint8x4 align 4 {v float32@0}|p: rw float32*",
        "zip<int, float, char>": "a: uint8 align 1|b_0: rw float32*|b_1: rw int8*",
        "map<twice>": "p: rw int32*",
        "dependent<Traits>": "p: rw float32*|q: r uint8x4* align 4 size 4 {z int32@0}|: uint8 align 1",
        "numbers<-5LL, 'a', true>": "p: rw int32*",
        "member<Pair>": "m: uint8x8 align 8|t: rw uint8x8* align 4 {a int32@0, b int32@4}",
        "(void(*)(float*, int))overloaded<float>": "p: rw float32*|n: int32",
        "(void(*)(float*))overloaded<float>": "p: rw float32*",
        "(void(*)(int*))overloaded<int>": "special: rw int32*",
    },
    "matmul": {
        "matmul_plain": "a: r float32*|b: r float32*|c: rw float32*|m: int32|n: int32|k: int32",
        "matmul_tensor_cores": "a: r float16*|b: r float16*|c: rw float32*|n: int32",
        "matmul_tiled<float, float>": "a: r float32*|b: r float32*|c: rw float32*|n: int32|alpha: float32",
        "matmul_tiled<__half, float>": "a: r float16*|b: r float16*|c: rw float16*|n: int32|alpha: float32",
    },
    "reduction": {
        "sum_tree": "in: r float32*|out: rw float32*|n: uint32",
        "dot": "x: r float64*|y: r float64*|result: rw float64*|n: uint64",
        "histogram": "pixels: r uint8*|bins: rw uint32*|count: uint32",
        "scan_block<256>": "in: r int32*|out: rw int32*|sums: rw int32*|n: int32",
    },
    "physics": {
        "accelerate": "bodies: r uint8x32* align 16 {position float32x4@0, velocity float32x3@16, mass float32@28}|forces: rw float32*|count: int32|softening: float32",
        "diffuse": "in: r float64*|out: rw float64*|grid: uint8x24 align 4 {width int32@0, height int32@4, spacing float32[2]@8, "
        "flow {rate float32@0, periodic bool@4}@16}|dt: float64",
        "advance": "bodies: rw uint8x32* align 16 {position float32x4@0, velocity float32x3@16, mass float32@28}|forces: r float32*|options: uint8x16 align 8 {seed uint64@0, step uint32@8, mode int32@12}|"
        "count: int32",
    },
    "network": {
        "softmax": "in: r float32*|out: rw float32*|rows: int32|cols: int32",
        "embed": "tokens: r int32*|table: r bfloat16*|out: rw bfloat16*|width: uint32",
        "rotate": "p: rw complex64*|z: complex128|a: uint8x16 align 4 {elems float32[4]@0}|q: rw uint16*|n: int64",
        "quantize": "in: r float16x2*|out: rw float8_e4m3fnx2*|scale: r float32*|n: uint32",
        "layers::activate<float, layers::Relu>": "in: r float32*|out: rw float32*|n: int64|function: uint8 align 1",
        "layers::activate<__nv_bfloat16, layers::Scale>": "in: r bfloat16*|out: rw bfloat16*|n: int64|"
        "function: uint8x4 align 4 {factor float32@0}",
        "layers::layer_norm<half>": "out: rw float16*|in: r float16*|weight: r float16*|bias: r float16*|width: int32|eps: float32",
    },
    "images": {
        "sobel": "image: 2d|image_sampler: ?|edges: 2d|width: int32|height: int32",
        "to_gray": "rgba: r uint8x4*|gray: rw uint8*|count: uint32",
        "mandelbrot": "iterations: rw uint8*|corner: float64x2|step: float64|size: uint16x2|limit: int16",
        "rotate": "signal: rw float32x2*|factor: float32x2|range: r int32* size 8",
    },
}
INSTANCES = {
    "names": ["scale<float>", "convert<float>", "many<int, double>", "image::fill<unsigned char>"],
    "templates": [
        "apply<Op::Add, float>",
        "fill<4, float>",
        "unwrap<Box, float>",
        "zip<int, float, char>",
        "map<twice>",
        "dependent<Traits>",
        "numbers<-5LL, 'a', true>",
        "member<Pair>",
        "(void(*)(float*, int))overloaded<float>",
        "(void(*)(float*))overloaded<float>",
        "(void(*)(int*))overloaded<int>",
    ],
    "matmul": ["matmul_tiled<float, float>", "matmul_tiled<__half, float>"],
    "network": [
        "layers::activate<float, layers::Relu>",
        "layers::activate<__nv_bfloat16, layers::Scale>",
        "layers::layer_norm<half>",
    ],
}


@pytest.mark.filterwarnings("ignore:NVRTC has warnings")
@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str, probes: list[list[str]]) -> None:
    expected = {
        function: text.split("|") if text else [] for function, text in SIGNATURES[name].items()
    }
    path = KERNELS / f"{name}.cu"
    module = devmod.compile(path, "cuda -arch=sm_90", name_expressions=INSTANCES.get(name, ()))
    assert {function: signature(info) for function, info in module.functions.items()} == expected
    assert probes == []


def test_symbols_are_those_of_the_compiler() -> None:
    """The key is the qualified name, and FunctionInfo.name is the symbol."""
    functions = devmod.compile(
        KERNELS / "names.cu", "cuda -arch=sm_90", name_expressions=INSTANCES["names"]
    ).functions
    symbols = {name: info.name for name, info in functions.items()}
    assert re.fullmatch(r"_ZN5image\d+_GLOBAL__N__\w+6hiddenEPf", symbols.pop("image::hidden"))
    assert symbols == {
        "image::filters::blur": "_ZN5image7filters4blurEPKfPf",
        "image::v2::sharpen": "_ZN5image2v27sharpenEPf",
        "image::plain_in_namespace": "plain_in_namespace",
        "over(int*)": "_Z4overPi",
        "over(float*, int)": "_Z4overPfi",
        "set_int": "_Z7set_intPii",
        "set_double": "_Z10set_doublePdd",
        "internal": "_Z8internalPi",
        "declared_before": "_Z15declared_beforePiPKf",
        "by_macro": "by_macro",
        "defaults": "_Z8defaultsPfif",
        "trailing": "trailing",
        "attributes": "_Z10attributesiPf",
        "scale<double, 2>": "_Z5scaleIdLi2EEvPT_S0_i",
        "scale<float>": "_Z5scaleIfLi4EEvPT_S0_i",
        "convert<float>": "_Z7convertIfEvPN6TraitsIT_E4typeEPKS1_S2_",
        "many<int, double>": "_Z4manyIJidEEvPfDpT_",
        "image::fill<unsigned char>": "_ZN5image4fillIhEEvPT_S1_",
    }


def test_limits_of_a_launch() -> None:
    """Fixed blocks, limits of threads, clusters and dynamic shared memory come from the PTX."""
    functions = devmod.compile(KERNELS / "launch_forms.cu", "cuda -arch=sm_90").functions
    limits = {}
    for name, info in functions.items():
        assert info.interface is not None
        tags = info.launch_param_tags
        assert tags[:6] == (
            "blockIdx.x",
            "blockIdx.y",
            "blockIdx.z",
            "threadIdx.x",
            "threadIdx.y",
            "threadIdx.z",
        )
        extra = dict(info.interface.extra)
        assert extra.pop("globals") == {"counter": ["int32", 7]}
        limits[name] = (info.interface.block, extra, tags[6:], info.interface.open_block)
    dynamic = ("tirx.use_dyn_shared_memory",)
    assert limits == {
        "plain": (None, {}, (), True),
        "bounded": (None, {"max_threads": 256}, dynamic, False),
        "shifted": (None, {}, (), True),
        "nothing": (None, {}, (), True),
        "calls": (None, {}, dynamic, False),
        "fixed": ((64, 2, 1), {}, (), False),
        "fixed_cluster": ((64, 2, 1), {"cluster": [2, 2, 1]}, (), False),
        "cluster": (None, {"cluster": [2, 1, 1]}, (), False),
        "small_cluster": (None, {"max_threads": 128}, (), False),
    }


#: The bodies of kernels of an array a and a number n, and whether the kernel gives the same result
#: with every block.
BODIES = {
    "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = sqrtf(a[i]);": True,
    "int i = threadIdx.x + blockDim.x * blockIdx.x; a[i] = __expf(a[i]);": True,
    "int i = (blockIdx.x * blockDim.x) + threadIdx.x; a[i] = i;": True,
    "int i = (int)blockIdx.x * (int)blockDim.x + (int)threadIdx.x; a[i] = i;": True,
    "int i = __umul24(blockIdx.x, blockDim.x) + threadIdx.x; a[i] = i;": True,
    "int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; a[y * n + x] = 1;": True,
    "int i = blockIdx.x * 256 + threadIdx.x; a[i] = i;": False,
    "int i = blockIdx.x * blockDim.y + threadIdx.x; a[i] = i;": False,
    "int i = 2 * blockIdx.x * blockDim.x + threadIdx.x; a[i] = i;": False,
    "int i = blockIdx.x * blockDim.x + threadIdx.x * 2; a[i] = i;": False,
    "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) a[i] = i;": False,
    "int i = blockIdx.x * blockDim.x + threadIdx.x; a[i] = i; __syncthreads();": False,
    "int i = blockIdx.x * blockDim.x + threadIdx.x; a[i] = threadIdx.x;": False,
    "__shared__ int s; s = n; a[blockIdx.x * blockDim.x + threadIdx.x] = s;": False,
    "int i = blockIdx.x * blockDim.x + threadIdx.x; a[i] = __shfl_down_sync(~0u, a[i], 1);": False,
    "int i = 2 *   blockIdx.x * blockDim.x + threadIdx.x; a[i] = i;": False,
    "int i = (unsigned char) blockIdx.x * blockDim.x + threadIdx.x; a[i] = i;": False,
    "int i = ~blockIdx.x * blockDim.x + threadIdx.x; a[i] = i;": False,
    "int i = n + blockIdx.x * blockDim.x + threadIdx.x - 1; a[i] = tex2D<float>(0, 1, 2) + cuCabsf(make_cuFloatComplex(1, i));": True,
    "helper(a);": False,
}


def test_a_kernel_is_open_for_any_block() -> None:
    """A kernel that uses its thread's number alone gives the same result with every block."""
    kernels = "".join(
        f"{K}k{number}(float *a, int n) {{ {body} }}\n" for number, body in enumerate(BODIES)
    )
    functions = compile_text(
        f"#include <cuComplex.h>\n__device__ void helper(float *a) {{ a[threadIdx.x] = 1; }}\n{kernels}"
    )
    found = {body: functions[f"k{number}"].interface for number, body in enumerate(BODIES)}
    assert {body: each.open_block for body, each in found.items() if each is not None} == BODIES


# -- what libclang does not read


def test_a_type_behind_an_unknown_condition(probes: list[list[str]]) -> None:
    """NVRTC's header defines a macro that devmod's stub of it lacks. The pointer is not read as one
    to int.
    """
    text = f"""#include <cuda_fp16.h>
    #ifdef __CUDA_FP16_TYPES_EXIST__
    typedef half element; struct Pair {{ int a; }};
    #else
    typedef int element; struct Pair {{ float a; }};
    #endif
    {K}k(element *x, int n) {{}}
    {K}l(const element *y, Pair pair, Pair *pairs) {{}}
    """
    functions = {name: signature(info) for name, info in compile_text(text).items()}
    assert functions == {
        "k": ["x: rw float16*", "n: int32"],
        "l": ["y: r float16*", "pair: uint8x4 align 4", "pairs: rw ?*"],
    }
    assert probes == [["k", "l"]]


def test_a_type_of_an_unknown_header(probes: list[list[str]]) -> None:
    text = f"""#include <library_types.h>
    struct Mixed {{ cudaDataType type; int n; }}; struct Known {{ float x; short y; }};
    {K}k(cudaDataType type, cudaDataType_t *types, Mixed m, Mixed *ms, Known known, Known *all, const int2 v) {{}}
    namespace a {{ {K}l(cudaDataType type, float *x) {{}} }}
    __global__ void mangled(cudaDataType type, Mixed m, const Known *known, int n = 3) {{}}
    """
    known = "uint8x8 align 4 {x float32@0, y int16@4}"
    functions = {name: signature(info) for name, info in compile_text(text).items()}
    assert functions == {
        "k": [
            "type: uint32",
            "types: rw ?*",
            "m: uint8x8 align 4",
            "ms: rw ?*",
            f"known: {known}",
            "all: rw uint8x8* align 4 {x float32@0, y int16@4}",
            "v: int32x2",
        ],
        "a::l": ["type: uint32", "x: rw float32*"],
        "mangled": [
            "type: uint32",
            "m: uint8x8 align 4",
            "known: r uint8x8* align 4 {x float32@0, y int16@4}",
            "n: int32",
        ],
    }
    assert probes == [["k", "a::l"]]  # the symbol of the other kernel has its types


def test_names_of_numbers_need_no_probe_under_an_unknown_header(probes: list[list[str]]) -> None:
    """CUB's headers take NVRTC seconds. The names of numbers in a parameter mean the same with
    every header.
    """
    text = f"""#include <library_types.h>
    #include <cstdint>
    #define NUMBER float
    struct Pair {{ int a; float b; }};
    {K}plain(const float *__restrict__ in, unsigned long long *out, const int rows[2], uint32_t n, bool, size_t size) {{}}
    {K}macro(NUMBER *x) {{}}
    {K}record(Pair pair) {{}}
    {K}longer(float *x, unsigned int intensity, cudaDataType type) {{}}
    """
    functions = {name: signature(info) for name, info in compile_text(text).items()}
    assert functions == {
        "plain": [
            "in: r float32*",
            "out: rw uint64*",
            "rows: r int32* size 8",
            "n: uint32",
            ": bool",
            "size: uint64",
        ],
        "macro": ["x: rw float32*"],
        "record": ["pair: uint8x8 align 4 {a int32@0, b float32@4}"],
        "longer": ["x: rw float32*", "intensity: uint32", "type: uint32"],
    }
    assert probes == [["macro", "record", "longer"]]


def test_a_kernel_that_a_macro_of_an_unknown_header_declares(
    probes: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libclang does not see the kernel; NVRTC spells its types."""
    include = tmp_path / "include"
    include.mkdir()
    (include / "vendor.h").write_text(
        '#define VENDOR_KERNEL(name, T) extern "C" __global__ void name(T *first, const T *second, T third)\n'
    )
    folders = (str(include), *nvrtc.include_folders())
    monkeypatch.setattr(nvrtc, "include_folders", lambda: folders)
    compile_program = nvrtc.compile_program
    for module in (reader, nvrtc):
        monkeypatch.setattr(
            module,
            "compile_program",
            lambda *args, **options: compile_program(*args, **{**options, "folders": folders}),
        )
    text = "#include <vendor.h>\nVENDOR_KERNEL(k, double) { *first = *second + third; }\n__global__ void other(float *p) { *p = 1; }\n"
    functions = {name: signature(info) for name, info in compile_text(text).items()}
    assert functions == {
        "other": ["p: rw float32*"],
        "k": [": rw float64*", ": r float64*", ": float64"],
    }
    assert probes == [["k"]]


def test_names_of_parameters_that_libclang_does_not_parse() -> None:
    text = """#include <cuda/std/ratio>
    __global__ void k(cuda::std::ratio<1, 2> half /* a, b */, const cuda::std::ratio<3> *more, int n = 4, float rows[2] = nullptr)
    { rows[0] = n; }
    """
    assert signature_of(text) == [
        "half: uint8 align 1",
        "more: r ?*",
        "n: int32",
        "rows: rw float32*",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "#include <cuComplex.h>\n" + K + "k(cuComplex *p, cuDoubleComplex z) {}",
            "p: rw float32x2*|z: float64x2",
        ),
        (
            "#include <mma.h>\n" + K + "k(const half *p, __nv_bfloat16 *q) {}",
            "p: r float16*|q: rw bfloat16*",
        ),
        (
            "#include <type_traits>\n"
            + K
            + "k(std::conditional_t<sizeof(long) == 8, double, float> *p) {}",
            "p: rw float64*",
        ),
        (
            "#include <limits>\n#include <climits>\nstruct P { char x[UCHAR_MAX]; };"
            + K
            + "k(P p) {}",
            "p: uint8x255 align 1 {x int8[255]@0}",
        ),
        (
            "struct P { char x[UCHAR_MAX]; };\n#ifdef FLT_MAX\ntypedef float T;\n#else\ntypedef int T;\n#endif\n"
            + K
            + "k(P p, T *q) {}",
            "p: uint8x255 align 1 {x int8[255]@0}|q: rw float32*",
        ),
        (
            "#define N (4 * sizeof(float))\nstruct P { float x[N]; };"
            + K
            + "k(P p, int (*rows)[N]) {}",
            "p: uint8x64 align 4 {x float32[16]@0}|rows: rw int32*",
        ),
        (
            "__device__ constexpr int f(int x) { return x * 2; }\nstruct P { float x[f(3)]; };"
            + K
            + "k(P p) {}",
            "p: uint8x24 align 4 {x float32[6]@0}",
        ),
        (
            "__device__ auto f(int x) { return x * 2.0f; }\n" + K + "k(decltype(f(1)) *p) {}",
            "p: rw float32*",
        ),
        (
            'using F = void(float *, int); extern "C" __global__ F k; __global__ void k(float *a, int b) {}',
            "a: rw float32*|b: int32",
        ),
        (
            "template <class T> struct V { T x, y; };\nstruct S;\n"
            + K
            + "k(V<float> *v, const V<V<int>> *w, S *s) {}",
            "v: rw uint8x8* align 4 {x float32@0, y float32@4}|w: r uint8x16* align 4 {x {x int32@0, y int32@4}@0, y {x int32@0, y int32@4}@8}|s: rw ?*",
        ),
        (
            "struct __half { float a, b; };\n" + K + "k(__half *own, __half value) {}",
            "own: rw uint8x8* align 4 {a float32@0, b float32@4}|value: uint8x8 align 4 {a float32@0, b float32@4}",
        ),
        (
            "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\nstruct __align__(8) H { half2 a; half b[2]; };\n"
            + K
            + "k(H h, __half_raw r, __nv_half n, __nv_bfloat16_raw b, __nv_fp8_storage_t s) {}",
            "h: uint8x8 align 8 {a float16x2@0, b float16[2]@4}|r: uint8x2 align 2 {x uint16@0}|n: float16|b: uint8x2 align 2 {x uint16@0}|s: uint8",
        ),
        (
            "#pragma pack(push, 1)\nstruct A { char c; double d; };\n#pragma pack(pop)\nstruct B { A a; alignas(16) int z; };\n"
            + K
            + "k(A a, B b) {}",
            "a: uint8x9 align 1 {c int8@0, d float64@1}|b: uint8x32 align 16 {a {c int8@0, d float64@1}@0, z int32@16}",
        ),
        (K + "k(int, float *) {}", ": int32|: rw float32*"),
        (
            "namespace n { struct S { int a; }; template <class T> struct V { T t; }; }\n__global__ void k(n::V<n::S> v, n::S *s) {}",
            "v: uint8x4 align 4 {t {a int32@0}@0}|s: rw uint8x4* align 4 {a int32@0}",
        ),
        (
            "#if __CUDACC_VER_MAJOR__ >= 12 && CUDART_VERSION >= 12000 && defined(__CUDACC_RTC__) && __cplusplus >= 201703L && __CUDA_ARCH__ == 900\n"
            "typedef float T;\n#else\ntypedef double T;\n#endif\n" + K + "k(T *p) {}",
            "p: rw float32*",
        ),
        (
            "#if defined(__GNUC__) || defined(__clang__) || defined(_MSC_VER) || defined(__linux__)\ntypedef double T;\n#else\ntypedef float T;\n"
            "#endif\n" + K + "k(T *p) {}",
            "p: rw float32*",
        ),
        (
            "#include <cuda_fp16.h>\n#ifdef USE_HALF\ntypedef half T;\n#else\ntypedef float T;\n#endif\n"
            + K
            + "k(T *p) {}",
            "p: rw float32*",
        ),
        (
            "#ifndef N\n#define N 3\n#endif\nstruct P { int x[N]; };" + K + "k(P p) {}",
            "p: uint8x12 align 4 {x int32[3]@0}",
        ),
        (
            "template <class T> struct P { T *data; int n; };"
            + K
            + "k(const P<const int> *q, P<const int *> p) {}",
            "q: r uint8x16* align 8 {data uint64@0, n int32@8}|p: uint8x16 align 8 {data uint64@0, n int32@8}",
        ),
        ("#define V(n) float##n\n" + K + "k(V(4) v, V(2) *p) {}", "v: float32x4|p: rw float32x2*"),
        (
            "struct A { int x; }; struct B { A a; };" + K + "k(B b, const A &a) {}",
            "b: uint8x4 align 4 {a {x int32@0}@0}|a: r uint8x4* align 4 size 4 {x int32@0}",
        ),
    ],
)
def test_declarations_that_need_no_probe(text: str, expected: str, probes: list[list[str]]) -> None:
    assert signature_of(text) == expected.split("|")
    assert probes == []


def test_options_and_defines_reach_libclang(probes: list[list[str]]) -> None:
    text = (
        "template <class T> concept Any = true;\nstruct P { int x[N]; };"
        + K
        + "k(P p, ELEMENT *e) {}"
    )
    assert signature_of(text, options=["-std=c++20"], defines={"N": "2", "ELEMENT": "double"}) == [
        "p: uint8x8 align 4 {x int32[2]@0}",
        "e: rw float64*",
    ]
    assert probes == []


def test_kernels_in_a_header(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "kernels.cuh").write_text(
        "#pragma once\nstruct Params { float a; int n; };\n"
        + K
        + "in_header(Params p, float *x) {}\n"
    )
    path = tmp_path / "main.cu"
    path.write_text('#include "inc/kernels.cuh"\n\n' + K + "own(const Params *p) {}\n")
    functions = {
        name: signature(info)
        for name, info in devmod.compile(path, "cuda -arch=sm_90").functions.items()
    }
    assert functions == {
        "in_header": ["p: uint8x8 align 4 {a float32@0, n int32@4}", "x: rw float32*"],
        "own": ["p: r uint8x8* align 4 {a float32@0, n int32@4}"],
    }
    # The place of an error is that in the header.
    assert (
        refusal(
            devmod.CompileError,
            devmod.compile,
            path,
            "cuda -arch=sm_90",
            fmap={"in_header": devmod.FunctionInfo("in_header", ("float32",))},
        )
        == "the declared fmap gives the cuda function 'in_header' 1 arguments; at kernels.cuh:3 it has 2"
    )


def test_tensor_maps() -> None:
    text = f"struct alignas(64) CUtensorMap {{ unsigned long long opaque[16]; }};\n{K}k(const __grid_constant__ CUtensorMap map, float *p) {{}}"
    (info,) = compile_text(text).values()
    assert info.arg_types == ("handle", "handle")
    assert info.arg_extra_tags == (1, 0)
    assert info.interface is not None
    assert param(info.interface.params[0]) == "map: uint8x128 align 64 {opaque uint64[16]@0}"


def test_each_variant_has_its_kernels() -> None:
    text = (
        f"{K}old(float *p) {{}}\n#if __CUDA_ARCH__ >= 900\n{K}fresh(float *p, int n) {{}}\n#endif"
    )
    module = devmod.compile(text, "cuda -arch=sm_80,sm_90")
    assert [list(each.functions) for each in module.imports] == [["old"], ["old", "fresh"]]
    fresh = module.imports[1].functions["fresh"]
    assert signature(fresh) == ["p: rw float32*", "n: int32"]


# -- declarations and errors


def test_instances_of_one_spelling_are_all_in_the_module() -> None:
    """Two overloads of a function have one spelling as an argument of a template."""
    module = devmod.compile(
        """
        __device__ int twice(int x) { return 2 * x; }
        __device__ float twice(float x) { return 2 * x; }
        template <auto f> __global__ void map(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = f(x[threadIdx.x]); }
        template __global__ void map<static_cast<int (*)(int)>(twice)>(float *, int);
        template __global__ void map<static_cast<float (*)(float)>(twice)>(float *, int);
        """,
        "cuda -arch=compute_80",
        options=["-std=c++17"],
    )
    assert sorted(module.functions) == [
        "_Z3mapIXadL_Z5twicefEEEvPfi",
        "_Z3mapIXadL_Z5twiceiEEEvPfi",
    ]
    assert {str(info.interface) for info in module.functions.values()} == {
        "<Interface (x: float32* rw, n: int32)>"
    }


def test_declared_functions_are_compared_with_the_source() -> None:
    text = K + "k(float *x, int n) {}"
    info = compile_text(
        text,
        fmap={"mine": devmod.FunctionInfo("k", ("handle", "int32"), ("blockIdx.x", "threadIdx.x"))},
    )["mine"]
    assert info.launch_param_tags == ("blockIdx.x", "threadIdx.x")
    assert signature(info) == ["x: rw float32*", "n: int32"]
    assert str(error_of(text, fmap={"k": devmod.FunctionInfo("k", ("handle", "float32"))})) == (
        "the declared fmap gives argument 2 ('n') of the cuda function 'k' the type 'float32'; at <text>:1 it is 'int32'"
    )
    assert str(error_of(text, fmap={"l": devmod.FunctionInfo("l", ("handle",))})) == (
        "the declared fmap maps 'l' to the cuda function 'l', which is missing in the source. Functions in the source: 'k'"
    )


def test_a_layout_that_the_binary_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """libclang reads another size than NVRTC compiled: the error has both, and a declared signature
    replaces the reading.
    """
    text = prelude.text("").replace("typedef unsigned long size_t;", "typedef unsigned int size_t;")
    monkeypatch.setattr(prelude, "text", lambda _: text)
    source = "struct P { size_t n; };\n" + K + "k(float *x, P p) {}"
    error = error_of(source)
    assert str(error) == (
        "the cuda kernel 'k' at <text>:2 takes argument 2 ('p') as uint8x4 of 4 bytes in the source, and as .align 8 .b8[8] of 8 bytes in its "
        "PTX. libclang and NVRTC read the source differently. Declare the kernel in fmap= with its arg_types"
    )
    assert error.function == "k"
    declared = devmod.FunctionInfo("k", ("handle", "uint8x8"))
    assert compile_text(source, fmap={"k": declared})["k"].arg_types == declared.arg_types
    assert str(error_of(source, fmap={"k": devmod.FunctionInfo("k", ("handle", "uint8x4"))})) == (
        "the declared fmap gives argument 2 ('p') of the cuda function 'k' the type 'uint8x4'; at <text>:2 it is 'uint8x8'"
    )


def test_the_probe_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that neither libclang nor NVRTC spells are to be declared."""

    def fails(*_: object, **__: object) -> object:
        raise devmod.CompileError("no")

    monkeypatch.setattr(reader, "compile_program", fails)
    text = f"#include <library_types.h>\n{K}k(cudaDataType *types, cudaDataType type, int n) {{}}"
    assert str(error_of(text)) == (
        "the cuda function 'k' at <text>:2 takes argument 1 ('types') by value, and its type is unknown. Define the type, or declare the "
        "function in fmap= with its arg_types"
    )
    declared = devmod.FunctionInfo("k", ("handle", "int32", "int32"))
    assert compile_text(text, fmap={"k": declared})["k"].arg_types == declared.arg_types
    assert str(
        error_of(text, fmap={"k": devmod.FunctionInfo("k", ("handle", "handle", "int32"))})
    ) == (
        "the declared arguments of the cuda kernel 'k' are not those of its image: expected 3 arguments (.u64 (8 bytes), .u32 (4 bytes), .u32 "
        "(4 bytes)), got 3 (handle (8 bytes), handle (8 bytes), int32 (4 bytes))"
    )


# -- parts


def test_the_layouts_of_cuda_types_are_those_of_nvrtc() -> None:
    """NVRTC's own headers give each type of the prelude the same size and alignment."""
    headers = [f"#include <cuda_{name}.h>" for name in ("fp16", "bf16", "fp8", "fp6", "fp4")]
    names = sorted(DTYPES)
    text = "\n".join(
        [*headers, "template <class T> struct Probe { T value; };"]
        + [f"{K}k{number}({name} value, {name} *p) {{}}" for number, name in enumerate(names)]
    )
    functions = compile_text(
        text, options=["-diag-suppress=1444"]
    )  # CUDA's warning about deprecated types
    for number, name in enumerate(names):
        value, memory = signature(functions[f"k{number}"])
        dtype = DTYPES[name]
        assert value == f"value: {dtype}", name
        assert memory == f"p: rw {dtype.removesuffix('x3')}*", name


@pytest.mark.parametrize(
    ("symbol", "signature"),
    [
        ("_Z4vaddPKfS0_Pfi", "vadd(const float*, const float*, float*, int)"),
        (
            "_ZN2ns2k2EPKfP6__half6float4iPVi1E1SPKS8_PPfbwDsxymac",
            "ns::k2(const float*, __half*, float4, int, int*, E, S, const S*, float**, bool, wchar_t, char16_t, long long, unsigned long long, "
            "unsigned long, signed char, char)",
        ),
        ("_Z5scaleIfEvPT_S0_i", "scale<float>(float*, float, int)"),
        ("_ZN36_GLOBAL__N__00000000_4_k_cu_6718cbdc4anonEPi", "anon(int*)"),
        ("_ZL4statPi", "stat(int*)"),
        ("_Z1rIJifPKdEEvDpT_", "r<int, float, const double*>(int, float, const double*)"),
        ("_Z1rIJifEEvDpPKT_", "r<int, float>(const int*, const float*)"),
        ("_Z2ttILi3ELb1ELin4EfEvPT2_", "tt<3, true, -4, float>(float*)"),
        ("_Z1kPN4cuda3std3__47complexIfEE", "k(cuda::std::__4::complex<float>*)"),
        ("_Z3fooIN2ns1AIiEEEvPT_PS2_", "foo<ns::A<int>>(ns::A<int>*, ns::A<int>*)"),
        ("_ZN2ns1kIfNS_1BEEEvPT_PKT0_PNS_1CE", "ns::k<float, ns::B>(float*, const ns::B*, ns::C*)"),
        ("_Z1kRA4_KfPFviE", "k(const float[4]&, function*)"),
        ("_Z1kv", "k()"),
        ("k", None),
        ("_Z", None),
        ("_Z1", None),
        ("_Z5ab", None),
        ("_Z1kS0_", None),
        ("_Z1kT_", None),
        ("_Z1kP", None),
        ("_ZN1k", None),
        (
            "_Z1kIXadL_Z4stepPfiPKfiS2_iiifEEEvS0_S2_iii",
            "k<&step>(float*, const float*, int, int, int)",
        ),
        (
            "_ZN2ns1kI5blockXadL_ZN38_INTERNAL_99ff598f_10_program_cu__Z1fv3dotEPKvRKiEEEEvS4_PS5_PT_Pf",
            "ns::k<block, &dot>(const void*, const int*, block*, float*)",
        ),
        ("_Z1kIXadL_Z1gIiEvT_EEEvi", "k<&g<int>>(int)"),
        ("_Z1kP1SIXadL_Z1fvEEE", "k(S<&f>*)"),
        ("_Z1kIL_Z1gEEvi", "k<g>(int)"),
        (
            "_Z1kIfLb0EEvPT_St17integral_constantIbXT0_EE",
            "k<float, false>(float*, std::integral_constant<bool, false>)",
        ),
        ("_Z1kIXplT_EEvi", None),
        ("_Z1kIXadL_Z1fv", None),
        ("_Z1k" + "P" * 100 + "i", None),
    ],
)
def test_mangled_names(symbol: str, signature: str | None) -> None:
    parts = parse_function(symbol)
    assert (parts.signature() if parts is not None else None) == signature


def test_mangled_names_of_the_probe() -> None:
    types = parse_signature("_Z10devmod_sigIFvP7__half2PiPA4_fPFviEEE")
    assert types is not None
    assert [each.spelling() for each in types] == ["__half2*", "int*", "float[4]*", "function*"]
    for other in ("devmod_sig", "_Z10devmod_sig", "_Z10devmod_sigIiE", "_Z10devmod_sigIFvP"):
        assert parse_signature(other) is None
