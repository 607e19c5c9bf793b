"""A cast that removes the const of a parameter: the kernel may write to the array, so a call copies
it back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal

import devmod

pytestmark = pytest.mark.once  # what libclang reads in a source

#: The head of a program, what precedes the name of a kernel, the last parameter, and arguments of
#: the compile. In all of them a pointer to global memory is a ``GL float *``.
C_HEAD = "#define GL\n#define DEV\n#define SIZE unsigned long\n"
CUDA_HEAD = "#define GL\n#define DEV __device__\n#define SIZE size_t\n"
CUDA_KERNEL = 'extern "C" __global__ void'
LANGUAGES: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {
    "opencl": (
        "opencl",
        "#define GL global\n#define DEV\n#define SIZE ulong\n",
        "kernel void",
        "int n",
        {},
    ),
    "opencl-il": (
        "opencl -format=il",
        "#define GL global\n#define DEV\n#define SIZE ulong\n",
        "kernel void",
        "int n",
        {},
    ),
    "c": ("hexagon -arch=v68", C_HEAD, "void", "int n", {"language": "C"}),
    "cpp": ("hexagon -arch=v68", C_HEAD, 'extern "C" void', "int n", {"language": "C++"}),
    "metal": (
        "metal",
        "#define GL device\n#define THREAD thread\n#define DEV\n#define SIZE size_t\n",
        "kernel void",
        "constant int &n",
        {},
    ),
    "cuda": ("cuda -arch=compute_80", CUDA_HEAD, CUDA_KERNEL, "int n", {}),
    "nvcc": ("cuda -arch=compute_80 -compiler=nvcc", CUDA_HEAD, CUDA_KERNEL, "int n", {}),
    "hip-for-cuda": ("cuda -arch=compute_80", CUDA_HEAD, CUDA_KERNEL, "int n", {"language": "HIP"}),
    "hip": (
        "rocm -format=hip",
        f"#include <hip/hip_runtime.h>\n{CUDA_HEAD}",
        CUDA_KERNEL,
        "int n",
        {"language": "HIP"},
    ),
    "hip-compiled": (
        "rocm -arch=gfx90a",
        f"#include <hip/hip_runtime.h>\n{CUDA_HEAD}",
        CUDA_KERNEL,
        "int n",
        {"language": "HIP"},
    ),
}
HELPERS = """
#ifndef THREAD
#define THREAD
#endif
#define CAST(p) ((GL float *)(p))
typedef GL float *Pointer;
DEV static void write_to(GL const float *to) { ((GL float *)to)[0] = 1; }
DEV static void copy(GL const float *from, GL float *to) { ((GL int *)to)[0] = ((GL const int *)from)[0]; }
DEV static GL const float *next(GL const float *p) { return p + 1; }
struct View { GL const float *p; GL float *q; };
DEV static void write_view(struct View v) { ((GL float *)v.p)[0] = 1; }
struct Block { float v[2]; };
DEV static struct Block block_of(GL const float *p) { struct Block block = {{p[0], p[1]}}; return block; }
DEV static struct View view_of(GL const float *p) { struct View v = {p, 0}; return v; }
"""
#: Bodies that remove the const of x, and never that of i.
CASTS = (
    "((GL float *)x)[n] = 1;",
    "GL float *p = (GL float *)x; p[0] = 1;",
    "GL const float *p = x + 4; ((GL float *)p)[n] = 1;",
    "GL const float *p; p = x; *(GL float *)p = 1;",
    "*(GL float *)&x[i[0]] = 1;",
    "*(GL float *)((SIZE)x + 4) = 1;",
    "SIZE at = (SIZE)x; *(GL float *)at = 1;",
    "write_to(x);",
    "write_to(next(x));",
    "GL float *p = n > 4 ? y : (GL float *)(x + 1); *p = 1;",
    "CAST(x)[0] = 1;",
    "((Pointer)x)[0] = 1;",
    "((GL int *)(GL float *)x)[i[0]] = 1;",
    "SIZE at = 16; at += (SIZE)x; *(GL float *)at = 1;",
    "GL const float *p[2]; p[n] = x; ((GL float *)p[0])[0] = 1;",
    "struct View v; v.p = x; ((GL float *)v.p)[0] = 1;",
    "struct View v = {x, y}; write_view(v);",
    "write_view(view_of(x));",
)
CPP_CASTS = (
    "const_cast<GL float *>(x)[n] = 1;",
    "*const_cast<GL float *>(&x[i[0]]) = 1;",
    "auto p = const_cast<GL float *>(x); p[0] = 1;",
    "const_cast<GL float &>(x[i[0]]) = 1;",
    "reinterpret_cast<GL int *>(const_cast<GL float *>(x))[0] = 1;",
)
C_CONVERSIONS = ("GL float *p = x; p[0] = 1;", "GL float *p; p = x; p[0] = 1;")
#: Bodies that leave x and i const.
INNOCENT = (
    "y[0] = x[n];",
    "y[0] = ((GL const int *)x)[n];",
    "GL const int *p = (GL const int *)x; y[n] = p[0];",
    "GL const char *p = (GL const char *)x; p += n; y[0] = *(GL const float *)p;",
    "GL const float *p = (GL const float *)((GL char *)x + n); y[0] = p[0];",
    "copy((GL float *)x, y);",
    "y[(int)x[n]] = (float)x[n];",
    "*(GL int *)(y + (int)x[n]) = i[0];",
    "GL float *p = y + (SIZE)x[0]; *(GL int *)p = 1;",
    "float v = x[n]; ((GL int *)y)[(int)v] = 1;",
    "int v = n > 0 ? (int)x[n] : i[0]; ((GL int *)y)[v] = 1;",
    "y[0] = (float)((SIZE)x & 1);",
    "copy(next(x), (GL float *)(GL int *)y);",
    "struct View v = {x, y}; v.q[0] = v.p[0];",
    "struct View v; v.p = x; v.q = y; ((GL int *)v.q)[0] = 1;",
    "float v = view_of(x).p[0]; *(GL int *)(y + (int)v) = 1;",
    "struct Block b = block_of(x); y[0] = *(THREAD int *)&b;",
)


def accesses(language: str, bodies: Sequence[str], **arguments: Any) -> list[str]:
    """Return the access of x, i and y in a kernel for each body."""
    target, head, kernel, last, options = LANGUAGES[language]
    parameters = f"GL const float *x, GL const int *i, GL float *y, {last}"
    text = (
        head
        + HELPERS
        + "".join(
            f"{kernel} k{number}({parameters}) {{ {body} }}\n" for number, body in enumerate(bodies)
        )
    )
    try:
        functions = devmod.compile(text, target, **options, **arguments).functions
    except devmod.ToolchainNotFoundError as error:
        if language != "nvcc":  # its wheels are 200 MB
            raise
        pytest.skip(str(error))
    assert len(functions) == len(bodies)
    return [access_of(functions[f"k{number}"]) for number in range(len(bodies))]


def access_of(info: devmod.FunctionInfo) -> str:
    assert info.interface is not None
    return " ".join(param.access for param in info.interface.params if param.kind == "buffer")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_access_is_rw_if_a_cast_removes_const(language: str) -> None:
    is_c = language in ("opencl", "opencl-il", "opencl-for-cuda", "c")
    bodies = dict.fromkeys(
        [*CASTS, *(C_CONVERSIONS if is_c else CPP_CASTS)], "rw r rw"
    ) | dict.fromkeys(INNOCENT, "r r rw")
    assert dict(zip(bodies, accesses(language, list(bodies)), strict=True)) == bodies


@pytest.mark.row("R34")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("language", [each for each in LANGUAGES if each != "nvcc"])
def test_the_cast_is_known_with_its_line(language: str) -> None:
    target, head, kernel, last, options = LANGUAGES[language]
    bodies = {"((GL float *)x)[n] = 1;": 4, "write_to(x);": 2, "y[n] = x[0];": 0}
    kernels = "".join(
        f"{kernel} k{at}(GL const float *x, GL float *y, {last}) {{ {each} }}\n"
        for at, each in enumerate(bodies)
    )
    helper = "DEV static void write_to(GL const float *to) {\n*(GL float *)to = 1;\n}\n"
    functions = devmod.compile(head + helper + kernels, target, **options).functions.values()
    space = {"opencl": "__global ", "metal": "device "}.get(target.partition(" ")[0], "")
    found = [
        [param.extra for param in info.interface.params[:2]]
        for info in functions
        if info.interface is not None
    ]
    first = head.count("\n")
    assert found == [
        [{"const_cast": f"<text>:{first + line}: ({space}float *)"} if line else {}, {}]
        for line in bodies.values()
    ]


def test_a_program_that_gives_an_input_to_it_names_the_cast(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(
        "kernel void k(global const float *x) {\n ((global float *)x)[0] = 1;\n}\n"
    )
    assert refusal(
        devmod.FormatError,
        devmod.program,
        "p",
        devmod.compile(tmp_path / "k.cl", "opencl"),
        inputs=["x: float32[n]"],
        steps=["k(x=x, threads=n, block=1)"],
    ) == (
        "the program 'p', step 1 ('k'), argument 'x': the kernel may write to it, and 'x' is an input: keep const in the cast "
        "'k.cl:2: (__global float *)', or declare the array in updates. As opencl/cl it is k(x: float32* rw) any block"
    )


@pytest.mark.volume_but("cuda", "hip")
@pytest.mark.parametrize("language", ["cuda", "nvcc", "hip-for-cuda", "hip"])
def test_kernels_with_the_names_of_cuda_that_libclang_has_not(language: str) -> None:
    """clang drops a statement with an unknown name."""
    casts = (
        "((float *)x)[threadIdx.x + blockIdx.x * blockDim.x] = 1;",
        "if (threadIdx.x < warpSize) ((float *)x)[0] = __shfl_sync(~0u, 1.0f, 0);",
    )
    casts = casts[:1] if language.startswith("hip") else casts
    innocent = (
        "y[threadIdx.x] = ((const int *)x)[blockIdx.x];",
        "y[0] = __ldg(x + threadIdx.x); ((int *)y)[threadIdx.x] = 1;",
    )
    assert accesses(language, (*casts, *innocent)) == ["rw r rw"] * len(casts) + ["r r rw"] * 2


def test_templates_methods_and_structs() -> None:
    head = """
template <class T> struct Set {
    __device__ void operator()(const T *p, int at) const { *const_cast<T *>(p + at) = 1; }
    __device__ void set(const T *p) const { *(T *)p = 1; }
};
struct View { const float *p; int n; };
template <class T> __global__ void plain(const T *x, const T *y, T *z) { z[threadIdx.x] = (T)x[0] + *(const T *)(y + 1); }
template <class T> __global__ void cast(const T *x, const T *y, T *z) { *(T *)x = (T)y[0]; }
"""
    bodies = (
        "Set<float>()(x, 1);",
        "Set<float> s; s.set(y);",
        "View v = {x, 3}; *(float *)v.p = v.n;",
        "View v = {x, 3}; z[0] = v.n;",
    )
    parameters = "(const float *x, const float *y, float *z)"
    text = head + "".join(
        f'extern "C" __global__ void k{number}{parameters} {{ {body} }}\n'
        for number, body in enumerate(bodies)
    )
    module = devmod.compile(
        text, "cuda -arch=compute_80", name_expressions=["plain<float>", "cast<float>"]
    )
    assert {name: access_of(info) for name, info in module.functions.items()} == {
        "k0": "rw r rw",
        "k1": "r rw rw",
        "k2": "rw r rw",
        "k3": "r r rw",
        "plain<float>": "r r rw",
        "cast<float>": "rw r rw",
    }


def test_a_template_of_metal_with_a_host_name() -> None:
    """The form of ggml's kernel_tri."""
    text = """#include <metal_stdlib>
using namespace metal;
template <typename T, int N> kernel void tri(constant int &n, device const char *src, device const char *dst, uint3 at [[thread_position_in_grid]]) {
    device const T *from = (device const T *)(src + at.x * n);
    device T *to = (device T *)(dst + at.x * n);
    to[0] = from[N];
}
typedef decltype(tri<float, 0>) tri_t;
template [[host_name("tri_f32_0")]] kernel tri_t tri<float, 0>;
template [[host_name("tri_f32_1")]] kernel tri_t tri<float, 1>;
"""
    functions = devmod.compile(text, "metal").functions
    assert {name: access_of(info) for name, info in functions.items()} == {
        "tri_f32_0": "r rw",
        "tri_f32_1": "r rw",
    }


def test_memory_that_no_kernel_writes_stays_r() -> None:
    text = "kernel void k(constant float *x, global int *y) { constant int *p = (constant int *)x; y[0] = p[0]; }"
    assert access_of(devmod.compile(text, "opencl").functions["k"]) == "r rw"
    text = "kernel void k(constant float *x, device int *y) { constant int *p = (constant int *)x; y[0] = p[0]; }"
    assert access_of(devmod.compile(text, "metal").functions["k"]) == "r rw"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("opencl", "k.cl"),
        ("hexagon -arch=v68", "k.cpp"),
        ("rocm -format=hip", "k.hip"),
        ("cuda -arch=compute_80", "k.cu"),
    ],
)
def test_a_cast_in_a_header(target: str, name: str, tmp_path: Path) -> None:
    _, head, kernel, last, _ = next(
        each for each in LANGUAGES.values() if each[0] == target and (each[2] != "void")
    )
    (tmp_path / "set.h").write_text(
        "DEV static void set(GL const float *to) { ((GL float *)to)[0] = 1; }\n"
    )
    source = tmp_path / name
    source.write_text(
        f'{head}#include "set.h"\n{kernel} k(GL const float *x, GL const float *y, {last}) {{ set(x); }}\n'
    )
    assert access_of(devmod.compile(source, target).functions["k"]) == "rw r"


def test_a_deep_expression() -> None:
    deep = "(" * 100 + "x" + " + 1)" * 100
    text = f"kernel void k(global const float *x, global const float *y) {{ *(global float *){deep} = {re.sub('x', 'y[0]', deep)}; }}"
    assert access_of(devmod.compile(text, "opencl").functions["k"]) == "rw r"
