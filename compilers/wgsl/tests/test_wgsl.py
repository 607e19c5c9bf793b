"""The reader of WGSL: arguments, layouts, overrides and workgroups of each entry point."""

from __future__ import annotations

from typing import Any

import pytest
from each_case import refusal

import devmod
from devmod import Block, Member, Param
from devmod_readers.reflection import ReflectedFunction, ReflectedShader, reflected_function
from devmod_wgsl import _reflect

pytestmark = pytest.mark.once  # a text, which the reader reads itself


def info_of(text: str, name: str = "main") -> devmod.FunctionInfo:
    return devmod.compile(text, "webgpu").functions[name]


def params_of(declarations: str, body: str) -> tuple[tuple[Param, ...], tuple[Block, ...]]:
    info = info_of(f"{declarations}\n@compute @workgroup_size(1) fn main() {{ {body} }}")
    assert info.interface is not None
    return info.interface.params, info.interface.blocks


def uniform(members: str, extra: str = "") -> tuple[tuple[Param, ...], tuple[Block, ...]]:
    return params_of(
        f"{extra} struct U {{ {members} }} @group(0) @binding(0) var<uniform> u: U;", "_ = u;"
    )


@pytest.mark.parametrize(
    ("type_name", "dtype", "align", "least", "size"),
    [
        ("array<f32>", "float32", 0, 0, 0),
        ("array<u32, 4>", "uint32", 0, 16, 16),
        ("array<vec2<i32>>", "int32x2", 0, 8, 0),
        ("array<vec3f>", "float32x3", 0, 16, 0),
        ("array<vec4u>", "uint32x4", 0, 16, 0),
        ("vec3<f32>", "float32x3", 0, 12, 12),
        ("atomic<i32>", "int32", 0, 0, 4),
        ("array<atomic<u32>, N * 2>", "uint32", 0, 24, 24),
        ("array<mat4x4<f32>>", "float32x16", 0, 64, 0),
        ("array<mat3x3f>", "float32x12", 0, 48, 0),
        ("mat2x3<f32>", "float32x8", 0, 32, 32),
        ("array<array<f32, 4>>", "float32", 0, 16, 0),
        ("array<S>", "uint8x32", 16, 32, 0),
        ("S", "uint8x32", 16, 32, 32),
        ("Alias", "float32", 0, 0, 0),
        ("Ends", "uint32", 0, 8, 4),
        ("Mixed", "", 0, 32, 16),
    ],
)
def test_element_types(type_name: str, dtype: str, align: int, least: int, size: int) -> None:
    declared = """
        const N = 3; alias Alias = array<f32>;
        struct S { a: vec3f, b: f32, @align(16) c: u32 }
        struct Ends { count: atomic<u32>, rest: array<u32> }
        struct Mixed { count: u32, rest: array<vec4f> }
    """
    (param,), blocks = params_of(
        f"{declared} @group(2) @binding(7) var<storage, read_write> x: {type_name};", "_ = &x;"
    )
    members = (
        [Member("a", "float32x3", 0), Member("b", "float32", 12), Member("c", "uint32", 16)]
        if align
        else []
    )
    assert param == Param(
        "x",
        "buffer",
        dtype,
        "rw",
        (2, 7),
        align,
        size,
        members,
        extra={"least": least} if least else None,
    )
    assert blocks == ()


def test_half_precision() -> None:
    info = info_of(
        "enable f16; @group(0) @binding(0) var<storage> x: array<vec2<f16>>; struct U { a: f16, b: vec3h, c: f16 }"
        "@group(0) @binding(1) var<uniform> u: U; @compute @workgroup_size(1) fn main() { _ = x[0]; _ = u.a; }"
    )
    assert info.arg_types == ("handle", "float16", "float16x3", "float16")
    assert info.interface is not None
    assert [param.at for param in info.interface.params] == [(0, 0), (0, 0), (0, 8), (0, 14)]
    assert info.interface.blocks == (Block((0, 1), 16, name="u"),)
    assert info.interface.extra == {"features": ["shader-f16"]}


@pytest.mark.parametrize(
    ("type_name", "param"),
    [
        ("texture_1d<f32>", Param("t", "image", "1d", "r", sample="float")),
        ("texture_2d<i32>", Param("t", "image", "2d", "r", sample="int")),
        ("texture_3d<u32>", Param("t", "image", "3d", "r", sample="uint")),
        ("texture_2d_array<Texel>", Param("t", "image", "2d_array", "r", sample="float")),
        ("Texture", Param("t", "image", "2d", "r", sample="float")),
        (
            "texture_storage_1d<r32float, read>",
            Param("t", "image", "1d", "r", format="r32float", sample="float"),
        ),
        (
            "texture_storage_2d<rgba8unorm, write>",
            Param("t", "image", "2d", "w", format="rgba8unorm", sample="float"),
        ),
        (
            "texture_storage_3d<rg16sint, read_write>",
            Param("t", "image", "3d", "rw", format="rg16sint", sample="int"),
        ),
        (
            "texture_storage_2d_array<bgra8unorm, write>",
            Param("t", "image", "2d_array", "w", format="bgra8unorm", sample="float"),
        ),
        ("Storage", Param("t", "image", "2d", "rw", format="r32uint", sample="uint")),
        ("sampler", Param("t", "sampler")),
    ],
)
def test_images_and_samplers(type_name: str, param: Param) -> None:
    declared = "alias Texel = f32; alias Texture = texture_2d<Texel>; alias Storage = Inner; alias Inner = texture_storage_2d<r32uint, read_write>;"
    params, blocks = params_of(f"{declared} @group(1) @binding(2) var t: {type_name};", "_ = t;")
    assert params == (param.replace(at=(1, 2)),)
    assert blocks == ()


@pytest.mark.parametrize(
    "type_name",
    [
        *(
            "texture_cube<f32>",
            "texture_cube_array<f32>",
            "texture_multisampled_2d<f32>",
            "texture_external",
            "texture_depth_2d",
        ),
        *(
            "texture_depth_2d_array",
            "texture_depth_cube",
            "texture_depth_multisampled_2d",
            "sampler_comparison",
        ),
        *("binding_array<texture_2d<f32>, 4>", "binding_array<sampler>"),
    ],
)
def test_textures_that_devmod_does_not_have_are_refused_where_an_entry_uses_them(
    type_name: str,
) -> None:
    variable = f"@group(0) @binding(0) var t: {type_name};"
    with pytest.raises(devmod.CompileError) as caught:
        params_of(variable, "_ = t;")
    name = type_name.partition("<")[0]
    assert str(caught.value) == (
        f"the WGSL source is refused at <text>:1:27: the compute entry 'main' uses 't', a {name}, which devmod does not support; expected "
        "texture_1d, _2d, _3d or _2d_array, texture_storage_1d, _2d, _3d or _2d_array, or sampler"
    )
    if name != "binding_array":  # of which the compiler warns
        assert params_of(variable, "") == ((), ())


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (
            "var t: texture_2d;",
            "texture_2d requires the type of its texels, f32, i32 or u32, for example texture_2d<f32>",
        ),
        (
            "var t: texture_3d<vec4f>;",
            "texture_3d requires the type of its texels, f32, i32 or u32, for example texture_3d<f32>",
        ),
        (
            "var t: texture_1d<f32, read>;",
            "texture_1d requires the type of its texels, f32, i32 or u32, for example texture_1d<f32>",
        ),
        (
            "var t: texture_storage_2d<rgba8unorm>;",
            "texture_storage_2d requires a format and the access read, write or read_write, for example texture_storage_2d<rgba8unorm, write>",
        ),
        (
            "var t: texture_storage_1d<r32uint, atomic>;",
            "texture_storage_1d requires a format and the access read, write or read_write, for example texture_storage_1d<rgba8unorm, write>",
        ),
        (
            "var t: texture_storage_2d<rgb10a2unorm, write>;",
            "'rgb10a2unorm' is not a format of images in devmod; expected one such as rgba8unorm, r32float or rg16uint",
        ),
        (
            "var t: texture_storage_2d<8, write>;",
            "the first argument is not a format of images in devmod; expected one such as rgba8unorm, r32float or rg16uint",
        ),
        (
            "var t: texture_storage_2d<f, write>; alias f = f32;",
            "texture_storage_2d requires a format and an access of WGSL, and this source declares 'f' itself",
        ),
        (
            "var t: texture_storage_2d<r32uint, write>; const write = 1;",
            "texture_storage_2d requires a format and an access of WGSL, and this source declares 'write' itself",
        ),
        (
            "var t: texture_1d_array<f32>;",
            "unknown type 'texture_1d_array': it is neither declared nor predeclared in WGSL",
        ),
        (
            "var<private> t: texture_2d<f32>;",
            "the variable 't' is a texture_2d<f32>, which has no address space; write 'var' without one",
        ),
        (
            "var<storage> t: sampler;",
            "the variable 't' is a sampler, which has no address space; write 'var' without one",
        ),
    ],
)
def test_invalid_images(variable: str, said: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        params_of(f" @group(0) @binding(0)      {variable}", "")
    column = 29 + (variable.index("t:") if "space" in said else variable.index("texture"))
    assert str(caught.value) == f"the WGSL source is refused at <text>:1:{column}: {said}"


@pytest.mark.parametrize(
    ("enabled", "attribute", "needs", "subgroup", "features"),
    [
        ("", "", (), None, []),
        ("enable f16;", "", ("fp16",), None, ["shader-f16"]),
        ("enable subgroups, f16;", "", ("fp16", "subgroups"), None, ["subgroups", "shader-f16"]),
        (
            "enable subgroups; enable subgroup_size_control; const S = 16;",
            "@subgroup_size(2 * S)",
            ("subgroups",),
            32,
            ["subgroups", "subgroup-size-control"],
        ),
        (
            "enable subgroups, subgroup_size_control; override S = 16;",
            "@subgroup_size(S)",
            ("subgroups",),
            None,
            ["subgroups", "subgroup-size-control"],
        ),
        ("enable primitive_index;", "", (), None, ["primitive-index"]),
    ],
)
def test_needs_are_those_of_the_module(
    enabled: str, attribute: str, needs: tuple[str, ...], subgroup: int | None, features: list[str]
) -> None:
    interface = info_of(
        f"{enabled} @compute @workgroup_size(32) {attribute} fn main() {{}}"
    ).interface
    assert interface is not None
    assert (interface.needs, interface.subgroup, interface.extra.get("features", [])) == (
        needs,
        subgroup,
        features,
    )


@pytest.mark.parametrize(
    ("value", "shown"), [("24", "24"), ("true", "True"), ("1.5", "1.5"), ("2, 2", "0")]
)
def test_an_invalid_subgroup_size(value: str, shown: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        info_of(f"@compute @workgroup_size(32) @subgroup_size({value}) fn main() {{}}")
    assert str(caught.value).endswith(
        f": the @subgroup_size of 'main' is {shown}; expected one power of two"
    )


@pytest.mark.parametrize(
    ("members", "offsets", "size"),
    [
        ("a: f32, b: f32", [0, 4], 8),
        ("a: f32, b: vec2f, c: f32", [0, 8, 16], 24),
        ("a: vec3f, b: f32", [0, 12], 16),
        ("a: f32, b: vec3u", [0, 16], 32),
        ("a: f32, @align(16) b: i32", [0, 16], 32),
        ("@size(16) a: f32, b: f32,", [0, 16], 20),
        ("a: Alias, b: Alias", [0, 16], 32),
    ],
)
def test_each_uniform_member_is_a_scalar_argument(
    members: str, offsets: list[int], size: int
) -> None:
    params, blocks = uniform(members, "alias Alias = vec4<f32>;")
    assert [param.at for param in params] == [(0, offset) for offset in offsets]
    assert {param.kind for param in params} == {"scalar"}
    assert blocks == (Block((0, 0), size, name="u"),)


@pytest.mark.parametrize(
    ("members", "type_name", "described"),
    [
        ("m: mat4x4f", "uint8x64", [Member("m", "float32x4", shape=[4], strides=[16])]),
        (
            "a: f32, @align(16) s: S",
            "uint8x32",
            [Member("a", "float32"), Member("s", "", 16, [Member("x", "float32")], 16)],
        ),
        ("a: array<vec4f, 3>", "uint8x48", [Member("a", "float32x4", shape=[3], strides=[16])]),
    ],
)
def test_other_uniforms_are_one_value(
    members: str, type_name: str, described: list[Member]
) -> None:
    params, blocks = uniform(members, "struct S { @size(16) x: f32 }")
    assert params == (Param("u", "uniform", type_name, at=(0, 0), align=16, members=described),)
    assert blocks == ()


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ("size(11)", "size(11); expected at least 12 for vec3<f32>"),
        ("align(8)", "align(8); expected a power of two that is a multiple of 16"),
        ("align(24)", "align(24); expected a power of two that is a multiple of 16"),
        ("align(48)", "align(48); expected a power of two that is a multiple of 16"),
        ("align(0)", "align(0); expected a power of two that is a multiple of 16"),
    ],
)
def test_a_member_with_less_than_its_type_needs(attribute: str, problem: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        uniform(f"@{attribute} a: vec3f")
    assert str(caught.value).endswith(f"the member 'a' has @{problem}")


@pytest.mark.parametrize("attribute", ["size(12)", "size(13)", "align(16)", "align(32)"])
def test_a_member_with_what_its_type_needs(attribute: str) -> None:
    assert uniform(f"@{attribute} a: vec3f")


def test_a_uniform_without_a_struct() -> None:
    params, blocks = params_of("@group(1) @binding(0) var<uniform> n: vec2<u32>;", "_ = n;")
    assert params == (Param("n", "scalar", "uint32x2", at=(0, 0)),)
    assert blocks == (Block((1, 0), 8),)


def test_arguments_are_ordered_by_group_and_binding() -> None:
    info = info_of(
        "@group(1) @binding(0) var<storage, read> d: array<f32>; @group(0) @binding(3) var<storage, read_write> c: array<f32>;"
        "struct P { n: u32, a: f32 } @group(0) @binding(1) var<uniform> p: P; @group(0) @binding(0) var<storage> a: array<i32>;"
        "@compute @workgroup_size(8, 4) fn main() { c[0] = f32(a[0]) + d[0] + p.a; }"
    )
    assert info.interface is not None
    assert [param.name for param in info.interface.params] == ["a", "n", "a", "c", "d"]
    assert [param.access for param in info.interface.params] == ["r", "", "", "rw", "r"]
    assert info.interface.block == (8, 4, 1)
    assert info.arg_types == ("handle", "uint32", "float32", "handle", "handle")


MANY = """
// One /* comment.
/* A comment /* in a comment */ // still one
*/
enable f16;
requires readonly_and_readwrite_storage_textures;
diagnostic(off, derivative_uniformity);
@group(0) @binding(0) var<storage, read_write> first: array<u32>;
@group(0) @binding(1) var<storage, read_write> second: array<u32>;
@group(0) @binding(0) var<storage, read_write> third: array<f32>;
@group(0) @binding(2) var<storage, read_write> hidden: array<u32>;
@group(0) @binding(3) var picture: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(4) var seen: texture_2d<f32>;
@group(0) @binding(5) var how: sampler;
const_assert 1 < 2;
const table = array(1u, 2u, 3u);
const pair = vec2(4, 5);
var<private> state: vec2<u32>;
var<workgroup> shared_: array<array<vec4<f32>, table[2]>, pair.y>;
fn deeper(p: ptr<function, u32>) -> u32 { *p += second[0]; return *p; }
@must_use fn helper(x: u32) -> u32 { var y = x; return deeper(&y); }

@compute @workgroup_size(64) fn one() {
    let hidden = 3u;                       // hides the variable
    for (var second = 0u; second < 4u; second++) { first[second] = hidden; }
    if (hidden < 4u) { } else if hidden >> 1u > 2u { } else { }
    switch hidden { case 1u, 2u: { } case 3u { } default { } }
    loop { if hidden > 2u { break; } continue; continuing { state.x -= 1u; break if state.x == 0u; } }
    while state.x < 3u { state.x <<= 1u; }
    { let hidden = f16(2.5h); _ = hidden; }
    @diagnostic(off, derivative_uniformity) if true { return; }
}
@compute @workgroup_size(pair.x, select(1, 2, 3 > 2)) fn two() { first[0] = helper(1u) + shared_[0][0].x > 1 ; }
@compute @workgroup_size(max(2u, 3), 8 / 3, (1 << 2) % 3) fn three() { third[0] = (third[1]); _ = hidden[0]; }
@compute @workgroup_size(1) fn four() { textureStore(picture, vec2(0, 0), textureSampleLevel(seen, how, vec2f(), 0)); }
@fragment fn shown() -> @location(0) vec4<f32> { return vec4<f32>(); }
"""


def test_each_entry_has_the_variables_that_it_uses() -> None:
    functions = devmod.compile(MANY, "webgpu").functions
    found = {
        name: [(p.name, p.kind, p.access) for p in info.interface.params]
        for name, info in functions.items()
        if info.interface
    }
    assert found == {
        "one": [("first", "buffer", "rw")],
        "two": [("first", "buffer", "rw"), ("second", "buffer", "rw")],
        "three": [("third", "buffer", "rw"), ("hidden", "buffer", "rw")],
        "four": [("picture", "image", "w"), ("seen", "image", "r"), ("how", "sampler", "")],
    }
    assert [info.interface and info.interface.block for info in functions.values()] == [
        (64, 1, 1),
        (4, 2, 1),
        (3, 2, 1),
        (1, 1, 1),
    ]


def test_a_local_name_is_visible_after_its_declaration_only() -> None:
    params, _ = params_of(
        "@group(0) @binding(0) var<storage> x: array<u32>;", "{ let x = x[0]; _ = x; }"
    )
    assert [param.name for param in params] == ["x"]
    params, _ = params_of(
        "@group(0) @binding(0) var<storage> x: array<u32>;", "{ let x = 1; } _ = x[0];"
    )
    assert [param.name for param in params] == ["x"]
    params, _ = params_of(
        "@group(0) @binding(0) var<storage> x: array<u32>; struct S { x: u32 } var<private> s: S;",
        "_ = s.x;",
    )
    assert params == ()


@pytest.mark.parametrize(
    "body",
    [
        "if n < 3 { let q = 4 > n; }",
        "let q = n < 3; let r = 4 > n;",
        "switch n { case 1: { } default: { if n < 3 { } } } _ = 4 > n;",
        "var a = array<bool, 2>(n < 2, (n > 3)); a[select(0, 1, n < 3)] = n > 4;",
        "let v = vec2<array<f32, (4 >> 1)>>; _ = 1;",
        "for (var i = 0; i < n; i++) { n <<= 1u; n >>= 2u; n = n >> 1u << 2u; }",
        "_ = (n < 2) == (n > 3 || n >= 1);",
    ],
)
def test_less_and_greater_are_no_template_list(body: str) -> None:
    params, _ = params_of(
        "@group(0) @binding(0) var<storage> x: array<u32>;", f"var n = x[0]; {body}"
    )
    assert [param.name for param in params] == ["x"]


def test_overrides() -> None:
    info = info_of("""
        @id(7) override SIZE: u32 = 64;
        override HALF = SIZE / 2;
        override scale: f32;
        override on = true;
        override count = 3;
        override unused = 1.0;
        override strange = dot(vec2(1, 2), vec2(3, 4));
        var<workgroup> memory: array<f32, SIZE>;
        @compute @workgroup_size(SIZE, HALF, count + 1)
        fn main() { if on { memory[0] = scale + f32(strange); } }
    """)
    assert info.interface is not None
    assert info.interface.extra == {
        "constants": [
            {"name": "SIZE", "id": 7, "type": "uint32", "default": 64},
            {"name": "HALF", "type": "uint32", "default": 32},
            {"name": "scale", "type": "float32"},
            {"name": "on", "type": "bool", "default": True},
            {"name": "count", "type": "int32", "default": 3},
        ],
        "block_constants": [0, [0, 1], [4]],
        "workgroup_memory": 256,
    }
    assert info.interface.block == (64, 32, 4)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0x1F", 31),
        ("0X10u", 16),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3),
        ("-7 / -2", 3),
        ("-7 / 2 + 5", 2),
        ("-7 % 4 + 5", 2),
        ("17 % 5", 2),
        ("select(1, 5, N << 2 > 3)", 5),
        ("select(1, 5, N <= 3 && 4 >= 3)", 5),
        ("1 << 4 >> 2", 4),
        ("5 & 6 | 8", 12),
        ("5 ^ 1", 4),
        ("~-5", 4),
        ("5--2", 7),
        ("5---2", 3),
        ("u32(3.9)", 3),
        ("i32(true) + 1", 2),
        ("min(4, 9)", 4),
        ("clamp(12, 1, 8)", 8),
        ("abs(-3)", 3),
        ("u32(0x1p4)", 16),
        ("u32(1e1)", 10),
        ("select(2, 3, 1 < 2 && !(4 >= 5))", 3),
        ("vec3(1, 2, 3).z", 3),
        ("array(4, 5)[1]", 5),
        ("vec2<u32>(6).y", 6),
        ("N", 2),
        ("M", 6),
        ("u32(F * 2)", 3),
    ],
)
def test_constant_expressions(expression: str, value: int) -> None:
    info = info_of(
        f"const N = 2; const M: u32 = N * 3; const F = 1.5f; @compute @workgroup_size({expression}) fn main() {{}}"
    )
    assert info.interface is not None
    assert info.interface.block == (value, 1, 1)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("u32(c * 100)", 29),
        ("u32(0.29 * 100)", 28),
        ("u32(0.29f * 100)", 29),
        ("u32(S(0.29) * 100)", 29),
        ("u32(0.29h * 100h)", 29),
        ("u32(2049.5h)", 2050),
        ("u32(s * 100)", 29),
        ("u32(16777216f + 1f - 16777210f)", 6),
        ("u32(vec2f(0.29).y * 100)", 29),
        ("u32(vec2<f32>(1, 0.29).y * 100)", 29),
        ("u32(vec2(0.29).y * 100)", 28),
        ("u32(vec2(0.29, 1f).x * 100)", 29),
        ("u32(V(0.29).x * 100)", 29),
        ("u32(v.x * 100)", 29),
        ("u32(array(0.29, 1.0)[1 - 1] * 100)", 28),
        ("u32(array(0.29, 1.0)[N] * 100)", 29),
        ("u32(select(0.29, 1.0, N > 0) * 100)", 29),
        ("u32(((1 << (31 + N)) >> 31) + 3)", 2),
        ("(vec2u(0).x - 1) >> 28", 15),
        ("u32(f32(-5)) + 1", 1),
    ],
)
def test_constant_expressions_are_rounded_to_their_type(expression: str, value: int) -> None:
    info = info_of(
        "enable f16; alias S = f32; alias V = vec2<S>; const c: f32 = 0.29; override s: S = 0.29; override N: u32 = 0;"
        f"const v: V = vec2(0.29, 1); @compute @workgroup_size({expression}) fn main() {{}}"
    )
    assert info.interface is not None
    assert info.interface.block == (value, 1, 1)


@pytest.mark.parametrize(
    "expression",
    [
        "sqrt(16.0)",
        "vec3(vec2(1, 2), 3).z",
        "array(vec2(1, 2), vec2(3, 4))[0].x",
        "4u + 1i",
        "f32(u32(5e9))",
        "f32(i32(3e9f))",
        "16777217f",
        "f32(9007199791611905)",
        "vec2u().x",
    ],
)
def test_what_the_compiler_alone_evaluates_is_unknown(expression: str) -> None:
    info = info_of(f"@compute @workgroup_size(u32({expression}), 4) fn main() {{}}")
    assert info.interface is not None
    assert info.interface.block is None


@pytest.mark.parametrize(
    ("text", "block", "constants"),
    [
        ("@compute @workgroup_size(N) fn main() {}", None, {"N": None}),
        ("@compute @workgroup_size(8 / N) fn main() {}", None, {"N": None}),
        ("@compute @workgroup_size(1u << (32 - N)) fn main() {}", None, {"N": None}),
        ("override M = 8 / N; @compute @workgroup_size(M) fn main() {}", None, {"N": None}),
        ("override M = N * 2; @compute @workgroup_size(M) fn main() {}", None, {"N": None, "M": 0}),
        (
            "var<workgroup> w: array<u32, N>; @compute @workgroup_size(4) fn main() { w[0] = 1; }",
            (4, 1, 1),
            {"N": None},
        ),
        ("@compute @workgroup_size(N + 1) fn main() {}", (1, 1, 1), {"N": 0}),
    ],
)
def test_a_default_that_makes_the_shader_invalid_must_be_replaced(
    text: str, block: object, constants: dict[str, object]
) -> None:
    info = info_of(f"override N: u32 = 0; {text}")
    assert info.interface is not None
    assert info.interface.block == block
    assert {
        each["name"]: each.get("default") for each in info.interface.extra["constants"]
    } == constants


def test_vectors_of_too_many_vectors_are_not_expanded() -> None:
    chain = "".join(
        f"const v{number} = vec4(v{number - 1}, v{number - 1}, v{number - 1}, v{number - 1});"
        for number in range(1, 60)
    )
    info = info_of(
        f"const v0 = vec4(1, 2, 3, 4); {chain} @compute @workgroup_size(v59.x) fn main() {{}}"
    )
    assert info.interface is not None
    assert info.interface.block is None


def test_a_sum_of_thousands() -> None:
    info = info_of(f"@compute @workgroup_size({'+'.join(['0'] * 5000)} + 2) fn main() {{ }}")
    assert info.interface is not None
    assert info.interface.block == (2, 1, 1)


def test_line_ends_of_every_kind() -> None:
    for end in ("\r\n", "\n", "\r", "\u2028", "\u0085"):
        with pytest.raises(devmod.CompileError, match=r"at <text>:3:1:"):
            devmod.compile(f"// one{end}const a = 1;{end}?", "webgpu")


def test_names_in_any_script() -> None:
    params, _ = params_of(
        "@group(0) @binding(0) var<storage> größe_τ: array<f32>;", "_ = größe_τ[0];"
    )
    assert params[0].name == "größe_τ"


def test_tvms_shaders() -> None:
    from pathlib import Path

    for name, block in (("vadd", (64, 1, 1)), ("matmul", (8, 8, 1))):
        data = (
            Path(__file__).parents[3]
            / "core"
            / "tests"
            / "vectors"
            / "tvm"
            / f"{name}.webgpu.tvmimports"
        ).read_bytes()
        module: Any = next(
            each for each in devmod.interop.tvm.load_imports(data).imports if each.kind == "webgpu"
        )
        info = info_of(module.inspect_source(), f"{name}_kernel")
        assert info.interface is not None
        assert [(p.name, p.access) for p in info.interface.params] == [
            ("A_ptr", "r"),
            ("B_ptr", "r"),
            ("C_ptr", "rw"),
            ("packGridDimX", ""),
        ]
        assert info.interface.blocks == (Block((0, 3), 4, name="podArgs"),)
        assert info.interface.block == block


@pytest.mark.parametrize(
    "text",
    [
        "fn f() { "
        + "var a = (1 + 2) * 3; if a < 4 && a > 2 { a = -a; } else { a++; } " * 2000
        + "}",
        "const a = array(" + "1u << 3, vec2<f32>(0.1, -2.0).x, " * 4000 + ");",
        "fn f() { let a = vec4(" + "f32(a < b) + f32(c <= d), " * 4000 + "); }",
        "struct S { " + "m: array<vec2<f32>, 3 + 4>, " * 4000 + "}",
        "/* ( /* ( */ ( */ // (\n" * 4000,
        "fn f() { let a = " + "+".join(["b[i].x * c"] * 300) + "; }",
        "fn f() { let a = " + "(" * 250 + "1" + ")" * 250 + "; }",
        "fn f() { loop { " + "if a {} else if b {} else {} " * 4000 + "} }",
    ],
)
def test_plain_shaders_pass_the_depth_check(text: str) -> None:
    from devmod_wgsl import check_for_naga

    check_for_naga(text, "plain.wgsl")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("(" * 256, "1:256"),
        ("f(a, " * 256, "1:1277"),
        ("vec2<1, " * 256, "1:2045"),
        ("( /* /* */ ) */" * 256, "1:3826"),
        ("( // )\r" * 256, "256:1"),
        ("[{(" * 86, "1:256"),
    ],
)
def test_deeply_nested_brackets_are_refused(text: str, where: str) -> None:
    from devmod_wgsl import check_for_naga

    assert refusal(devmod.CompileError, check_for_naga, text, "deep.wgsl") == (
        f"the WGSL source is refused at deep.wgsl:{where}: brackets are nested more than 255 levels deep, on which compilers overflow their stack"
    )


@pytest.mark.parametrize(
    "text",
    [
        "1" + "+1" * 2001,
        "!" * 2001,
        "a" + ".x" * 2001,
        "a" + "[0]" * 2001,
        "if a {}" + " else if a {}" * 2001,
    ],
)
def test_long_chains_of_operators_are_refused(text: str) -> None:
    from devmod_wgsl import check_for_naga

    with pytest.raises(
        devmod.CompileError,
        match=r"one expression has more than 2000 operators, on which compilers overflow their stack$",
    ):
        check_for_naga(text, "deep.wgsl")


def test_a_vector_of_booleans_is_of_no_buffer_and_one_of_atomics_is_an_error() -> None:
    assert params_of("var<private> flags: vec3<bool>;", "_ = flags;") == ((), ())
    variable = "var<workgroup> counts: vec2<atomic<u32>>;"
    assert refusal(devmod.CompileError, params_of, variable, "_ = &counts;") == (
        "the WGSL source is refused at <text>:1:24: "
        "expected a vector of i32, u32, f32, f16 or bool, got atomic<u32>"
    )


@pytest.mark.parametrize(("number", "is_valid"), [(2**31 - 4, True), (2**31, False)])
def test_the_largest_size_of_a_member(number: int, is_valid: bool) -> None:
    struct = f"struct S {{ @size({number}u) a: u32 }} @group(0) @binding(0) var<storage> s: S;"
    if is_valid:
        params, _ = params_of(struct, "_ = s.a;")
        assert params[0].name == "s"
        return
    assert "the @size of 'a' is invalid" in refusal(
        devmod.CompileError, params_of, struct, "_ = s.a;"
    )


INNER = "struct In { a: f32, @align(32) b: f32 }"
STORED = "@group(0) @binding(0) var<storage, read_write> x: array<Out>; @compute @workgroup_size(1) fn main() { x[1].n = 1u; }"


@pytest.mark.parametrize("members", ["n: u32, m: In", "m: In, n: u32", "n: u32, m: array<In, 2>"])
def test_an_alignment_that_naga_ignores_is_a_warning(members: str) -> None:
    kind = "array<In, 2>" if "array" in members else "In"
    text = (
        f"the struct 'Out' at <text>:2 has the member 'm' of {kind}, which an @align inside it aligns to 32 bytes. naga, the compiler of wgpu "
        "and Firefox, ignores that alignment here and lays the struct out incorrectly. Write @align(32) before the member too"
    )
    with pytest.warns(UserWarning, match="naga") as caught:
        info_of(f"{INNER}\nstruct Out {{ {members} }} {STORED}")
    assert [str(each.message) for each in caught] == [text]
    info_of(
        f"{INNER}\nstruct Out {{ {members.replace('m:', '@align(32) m:')} }} {STORED}"
    )  # warnings are errors
    info_of(
        f"{INNER}\nstruct Out {{ {members} }} var<private> x: array<Out, 2>; @compute @workgroup_size(1) fn main() {{ x[1].n = 1u; }}"
    )


@pytest.mark.parametrize("type_name", ["Out", "array<Out, 2>", "Top"])
def test_matrices_on_which_naga_ends_the_process(type_name: str) -> None:
    from devmod_wgsl import check_for_naga

    text = (
        "struct In { a: vec4f, m: mat4x2f } struct Out { i: In } struct Top { o: array<Out, 3> }\n"
        f"@group(0) @binding(0) var<uniform> u: {type_name}; @compute @workgroup_size(1) fn main() {{ _ = u; }}"
    )
    said = (
        "the uniform 'u' contains a matrix of two rows in In, a member of Out. naga, the compiler of wgpu and "
        "Firefox, ends the process on it. Make it a storage variable, or replace the matrix by vectors"
    )
    assert (
        refusal(devmod.CompileError, check_for_naga, text, "<text>")
        == f"the WGSL source is refused at <text>:2:36: {said}"
    )
    with pytest.warns(UserWarning, match="naga") as warned:
        info_of(text)
    assert [str(each.message) for each in warned] == [f"<text>:2: {said}"]
    for fine in ("mat4x3f", "array<vec4f, 2>"):
        check_for_naga(text.replace("mat4x2f", fine), "<text>")
    check_for_naga(text.replace("i: In", "i: array<In, 1>"), "<text>")
    check_for_naga(text.replace("uniform", "storage"), "<text>")


def test_entry_points_are_immutable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points share their resources, which are read once."""
    shaders = set()

    def add(kind: str, shader: ReflectedShader) -> ReflectedFunction:
        shaders.add(shader)
        return reflected_function(kind, shader)

    monkeypatch.setattr(_reflect, "reflected_function", add)
    info_of("""
        override N: u32 = 8;
        struct U { a: f32, b: mat4x4f }
        @group(0) @binding(0) var<uniform> u: U;
        @group(0) @binding(1) var<storage, read_write> x: array<vec4f>;
        @compute @workgroup_size(N, N * 2) fn main() { x[0] = u.b * x[1]; }
    """)
    (shader,) = shaders
    assert shader.block_constants == (0, (0,), -1)
