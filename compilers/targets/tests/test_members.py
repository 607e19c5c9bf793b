"""The members of structs by value and in buffers, as each reader finds them."""

from __future__ import annotations

import warnings

import pytest
from each_case import refusal

import devmod
from devmod import Member, Param
from devmod.backend import find_spec
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring import merge_declared

pytestmark = pytest.mark.once  # what libclang reads in a source

METAL = "#include <metal_stdlib>\nusing namespace metal;\n"


def params(source: str, kind: str) -> tuple[Param, ...]:
    """Return the params of a source's only function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # unknown names
        (info,) = devmod.compile(source, kind).functions.values()
    assert info.interface is not None
    return info.interface.params


IN = Member(
    "in",
    "",
    16,
    [Member("x", "float32", 0), Member("v", "float32x3", 16, shape=[2], strides=[16])],
    48,
    [2, 3],
    [144, 48],
)


def test_an_opencl_struct() -> None:
    source = """
typedef enum { A, B } Mode;
struct In { float x; float3 v[2]; };
struct P {
    char t; struct In in[2][3]; struct { int q; half r; }; union { int i; float f; } u; Mode mode; uchar tail[3]; ulong4 last;
};
kernel void f(global int *out, const struct P p, int n) { out[0] = n; }
"""
    out, p, n = params(source, "opencl")
    (buffer,) = params(
        source.replace("global int *out, const struct P p, int n", "global struct P *p").replace(
            "out[0] = n", ""
        ),
        "opencl",
    )
    assert (buffer.kind, buffer.type, buffer.align, buffer.members) == (
        "buffer",
        p.type,
        p.align,
        p.members,
    )
    assert (p.kind, p.type, p.align) == ("scalar", "uint8x384", 32)
    assert p.members == (
        Member("t", "int8", 0),
        IN,
        Member("q", "int32", 304),
        Member("r", "float16", 308),
        Member("u", "uint8", 312, shape=[4], strides=[1]),
        Member("mode", "uint32", 316),
        Member("tail", "uint8", 320, shape=[3], strides=[1]),
        Member("last", "uint64x4", 352),
    )
    assert (out.members, n.members) == ((), ())


def test_a_metal_struct() -> None:
    source = (
        METAL
        + """
struct In { float x; float3 v[2]; };
struct P { char t; In in[2][3]; float4x3 m; array<half2, 3> a; packed_float3 q; bool on; float3x3 n[2]; constant float *address; };
kernel void f(constant P &p, constant float4x4 &m, constant array<float, 4> &a, uint i [[thread_position_in_grid]]) {}
"""
    )
    p, m, a = params(source, "metal")
    kinds = "device P *p, device float4x4 *m, device array<float, 4> *a, device P &one,"
    buffers = params(
        source.replace("constant P &p, constant float4x4 &m, constant array<float, 4> &a,", kinds),
        "metal",
    )
    assert [(each.kind, each.type, each.members) for each in buffers] == [
        ("buffer", p.type, p.members),
        ("buffer", m.type, ()),
        ("buffer", a.type, ()),
        ("buffer", p.type, p.members),
    ]
    assert (p.kind, p.type, p.align) == ("scalar", "uint8x512", 16)
    assert p.members == (
        Member("t", "int8", 0),
        IN,
        Member("m", "float32x3", 304, shape=[4], strides=[16]),
        Member("a", "float16x2", 368, shape=[3], strides=[4]),
        Member("q", "float32x3", 380),
        Member("on", "bool", 392),
        Member("n", "float32x3", 400, shape=[2, 3], strides=[48, 16]),
        Member("address", "uint8", 496, shape=[8], strides=[1]),
    )
    assert m.members == (Member("", "float32x4", shape=[4], strides=[16]),)
    assert a.members == (Member("", "float32", shape=[4], strides=[4]),)


def test_a_wgsl_struct() -> None:
    source = """
enable f16;
struct In { at: vec3f, power: f32, half: vec3<f16> }
struct U { w: array<vec4f, 3>, ins: array<In, 2>, m: mat3x4f, c: mat4x3<f32>, n: u32, h: mat2x2h, @size(32) last: vec2i }
@group(0) @binding(0) var<uniform> u: U;
@group(0) @binding(1) var<uniform> m: mat4x4f;
@group(0) @binding(2) var<uniform> a: array<vec4u, 2>;
@group(0) @binding(3) var<uniform> s: f32;
@compute @workgroup_size(1) fn k() { _ = u.n + a[0].x; _ = m; _ = s; }
"""
    u, m, a, s = params(source, "webgpu")
    assert (u.kind, u.type) == ("uniform", "uint8x272")
    assert u.members == (
        Member("w", "float32x4", 0, shape=[3], strides=[16]),
        Member(
            "ins",
            "",
            48,
            [
                Member("at", "float32x3", 0),
                Member("power", "float32", 12),
                Member("half", "float16x3", 16),
            ],
            32,
            [2],
            [32],
        ),
        Member("m", "float32x4", 112, shape=[3], strides=[16]),
        Member("c", "float32x3", 160, shape=[4], strides=[16]),
        Member("n", "uint32", 224),
        Member("h", "float16x2", 228, shape=[2], strides=[4]),
        Member("last", "int32x2", 240),
    )
    assert m.members == (Member("", "float32x4", shape=[4], strides=[16]),)
    assert a.members == (Member("", "uint32x4", shape=[2], strides=[16]),)
    assert s.members == ()


def test_wgsl_structs_that_contain_each_other_many_times_take_no_time() -> None:
    structs = "".join(f"struct S{n} {{ a: S{n - 1}, b: S{n - 1} }}\n" for n in range(1, 7))
    source = f"struct S0 {{ x: vec4f, y: vec4f }}\n{structs}@group(0) @binding(0) var<uniform> u: S{{}};\n@compute @workgroup_size(1) fn k() {{ _ = u.a; }}"
    assert params(source.replace("S{}", "S6"), "webgpu")[0].members
    deeper = "".join(f"struct S{n} {{ a: S{n - 1}, b: S{n - 1} }}\n" for n in range(7, 11))
    (param,) = params(deeper + source.replace("S{}", "S10"), "webgpu")
    assert (param.type, param.members) == ("uint8x32768", ())


@pytest.mark.parametrize(
    ("source", "kind", "type_"),
    [
        (
            "struct P { int a; union { int b; float c; }; }; kernel void f(struct P p) {}",
            "opencl",
            "uint8x8",
        ),
        ("union P { int a; float b; }; kernel void f(union P p) {}", "opencl", "uint8x4"),
        (
            METAL + "struct B { int a; }; struct P : B { int b; }; kernel void f(constant P &p) {}",
            "metal",
            "uint8x8",
        ),
        (
            METAL + "struct P { int a : 3; int b : 5; char c; }; kernel void f(constant P &p) {}",
            "metal",
            "uint8x4",
        ),
        (
            METAL + "struct P { int a : 8; int b; }; kernel void f(constant P &p) {}",
            "metal",
            "uint8x8",
        ),
        (
            f"struct P {{ {' '.join(f'int m{n};' for n in range(1025))} }}; kernel void f(struct P p) {{}}",
            "opencl",
            "uint8x4100",
        ),
    ],
)
def test_a_struct_that_no_members_describe_is_bytes(source: str, kind: str, type_: str) -> None:
    (p,) = params(source, kind)
    assert (p.type, p.members) == (type_, ())


def test_structs_nested_too_deeply_are_bytes() -> None:
    def source(depth: int) -> str:
        structs = "".join(f"struct S{n} {{ struct S{n - 1} m; }}; " for n in range(1, depth))
        return f"struct S0 {{ int m; }}; {structs} kernel void f(struct S{depth - 1} p) {{}}"

    assert params(source(8), "opencl")[0].members
    assert params(source(9), "opencl")[0].members == ()


@pytest.mark.parametrize("inner", ["", "struct Q { vendor_t x; }; "])
def test_a_struct_of_unknown_types_is_an_error(inner: str) -> None:
    source = f"{inner}struct P {{ {'struct Q' if inner else 'vendor_t'} x; float y; }}; kernel void f(struct P p) {{}}"
    with pytest.raises(
        devmod.CompileError,
        match=r"^the OpenCL C source does not compile: <text>:1:12: error: unknown type name 'vendor_t'",
    ):
        params(source, "opencl")


def test_the_members_of_all_functions_together_are_limited() -> None:
    spec = find_spec("opencl")
    assert spec is not None
    members = [Member(f"m{number}", "int32", 4 * number) for number in range(1000)]
    value = Param("p", "scalar", "uint8x4000", align=4, members=members)
    functions = {
        f"k{number}": ReflectedFunction(f"k{number}", ["uint8x4000"], [value])
        for number in range(66)
    }
    assert (
        refusal(devmod.CompileError, merge_declared, spec, functions, None)
        == "the arguments of the opencl functions have more than 65536 members of structs together; split the source"
    )


def test_too_many_members_of_buffers_are_omitted() -> None:
    spec = find_spec("opencl")
    assert spec is not None
    members = [Member(f"m{number}", "int32", 4 * number) for number in range(1000)]
    structs, value = (
        Param("p", kind, "uint8x4000", align=4, members=members) for kind in ("buffer", "scalar")
    )
    functions = {
        f"k{number}": ReflectedFunction(f"k{number}", ["handle"], [structs]) for number in range(66)
    }
    functions["v"] = ReflectedFunction("v", ["uint8x4000"], [value])
    infos = merge_declared(spec, functions, None).values()
    params = [
        param for info in infos if info.interface is not None for param in info.interface.params
    ]
    assert params == [structs.replace(members=())] * 66 + [value]
