"""Slang for CUDA, ROCm and Hexagon: the arguments, the program around Slang's text, and errors."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from each_case import raised
from slang_kernels import BASICS

import devmod
from devmod import CompileError
from devmod_targets.slang import _cuda
from devmod_targets.slang._driver import Translation

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(find_spec("slangpy") is None, reason="slangpy is not installed"),
]
TARGETS = {
    "cuda": "cuda -arch=compute_80",
    "rocm": "rocm -arch=gfx1100",
    "hexagon": "hexagon -arch=v66",
}
HEAD = '[shader("compute")] [numthreads(8, 4, 1)]\n'
GLOBALS = f"""
StructuredBuffer<float> x;
cbuffer Settings {{ float a; uint n; }}
uniform int3 unused;
struct Limits {{ float least; int2 place; }};
ConstantBuffer<Limits> limits;
{HEAD}void first(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> y) {{ if (id.x < n) y[id.x] = a * x[id.x]; }}
{HEAD}void main(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> y, uniform ConstantBuffer<Limits> own) {{ y[id.x] = own.least; }}
"""
STRUCTS = f"""
struct Item {{ float s; float4 v; half3 h; uint8_t b; float2 f; bool3 flags; float3x2 m; half2x3 n; float4 rows[2]; half3 more[2]; uint64_t3 u; }};
struct Both {{ float k; StructuredBuffer<float> data; }};
{HEAD}void f(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<Item> items, uniform Item one, uniform Both both, uniform RWStructuredBuffer<float3x3> m,
       uniform RWStructuredBuffer<float3> v)
{{
    v[id.x] = items[id.y].s + one.v.x + both.k * both.data[id.x] + m[0][1][2];
}}
"""


def compiled(source: str, kind: str, **arguments: Any) -> devmod.Module:
    return devmod.compile(source, TARGETS[kind], language="Slang", **arguments)


def refused(source: str, kind: str, **arguments: Any) -> str:
    error = raised(CompileError, compiled, source, kind, **arguments)
    assert error.kind == kind
    return str(error)


def kernel(parameters: str, body: str = "") -> str:
    return f"{HEAD}void f(uint3 id : SV_DispatchThreadID, {parameters}) {{ {body} }}"


@pytest.mark.parametrize("kind", ["cuda", "rocm"])
@pytest.mark.row("R17")
def test_the_parameters_are_those_of_the_source(kind: str) -> None:
    functions = compiled(BASICS, kind, name_expressions=["map<Square, 2>"]).functions
    end = " subgroup 32" if kind == "rocm" else ""
    assert [(name, repr(info)) for name, info in functions.items()] == [
        (
            "saxpy",
            f"<FunctionInfo saxpy(x: float32* r, y: float32* rw, a: float32, n: uint32) block 64×1×1{end}>",
        ),
        (
            "total",
            f"<FunctionInfo total(x: float32* r, sums: float32* rw, n: uint32) block 64×1×1{end}>",
        ),
        ("map<Square, 2>", f"<FunctionInfo map_Square_2(y: float32* rw) block 32×1×1{end}>"),
    ]
    assert functions["saxpy"].arg_types == ("handle", "handle", "float32", "uint32")


@pytest.mark.parametrize("kind", TARGETS)
def test_the_parameters_of_a_file_come_first(kind: str) -> None:
    functions = compiled(GLOBALS, kind, name="k").functions
    of_file = "x: float32* r, a: float32, n: uint32, unused: int32x3, limits: {least: float32, place: int32x2}, y: float32* rw"
    texts = {name: repr(info).partition(" block")[0] for name, info in functions.items()}
    assert texts == {
        "first": f"<FunctionInfo first({of_file})",
        "k": f"<FunctionInfo slang_main({of_file}, own: {{least: float32, place: int32x2}})",
    }
    assert [info.interface.block for info in functions.values()] == [(8, 4, 1)] * 2  # type: ignore[union-attr]
    tags = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
    assert functions["first"].launch_param_tags[:3] == tags


@pytest.mark.parametrize("kind", TARGETS)
def test_structs_have_the_layout_of_the_code(kind: str) -> None:
    interface = compiled(STRUCTS, kind).functions["f"].interface
    assert interface is not None
    assert [param.name for param in interface.params] == [
        "items",
        "one",
        "both",
        "both_data",
        "m",
        "v",
    ]
    offsets = {member.name: member.offset for member in interface.params[0].members}
    # Slang aligns vectors on a GPU, and in C++ only their elements.
    expected = (
        [0, 4, 20, 26, 28, 36, 40, 64, 76, 108, 120]
        if kind == "hexagon"
        else [0, 16, 32, 40, 48, 56, 64, 88, 112, 144, 160]
    )
    assert (
        dict(
            zip(
                ["s", "v", "h", "b", "f", "flags", "m", "n", "rows", "more", "u"],
                expected,
                strict=True,
            )
        )
        == offsets
    )
    assert [param.type for param in interface.params[3:]] == ["float32"] * 3
    assert interface.params[2].members[0].name == "k"


@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_a_buffer_whose_length_is_read_has_a_count(kind: str) -> None:
    source = kernel(
        "uniform RWStructuredBuffer<float> y",
        "uint n, stride; y.GetDimensions(n, stride); if (id.x < n) y[id.x] = stride;",
    )
    info = compiled(source, kind).functions["f"]
    assert info.interface is not None
    assert (info.arg_types, info.interface.params[0].pack) == (
        ("handle", "uint64"),
        ("ptr:handle", "count:uint64"),
    )


@pytest.mark.parametrize("kind", TARGETS)
def test_names_that_cpp_does_not_have(kind: str) -> None:
    source = f"{HEAD}void exp(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> register, uniform int blockIdx)"
    source += "{ register[id.x] = blockIdx; }"
    (info,) = compiled(source, kind).functions.values()
    assert repr(info).startswith("<FunctionInfo slang_exp(register: float32* rw, blockIdx: int32)")


def test_an_entry_point_named_as_a_function_of_the_driver() -> None:
    """NVRTC ends its process for a kernel that is called vprintf, and prints."""
    source = '[shader("compute")] [numthreads(1, 1, 1)] void vprintf(uint3 id : SV_DispatchThreadID) { printf("%d", int(id.x)); }'
    assert (
        devmod.compile(source, "cuda -arch=compute_80", language="Slang").functions["vprintf"].name
        == "slang_vprintf"
    )


@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_functions_named_like_those_that_make_vectors(kind: str) -> None:
    functions = "".join(
        f"float {name}({type_} a) {{ return a; }}\n"
        for name in ("step2", "make_step2")
        for type_ in ("float", "int", "uint")
    )
    calls = "step2(1.5f) + step2(1) + step2(1u) + make_step2(1.5f) + make_step2(1) + make_step2(1u)"
    source = functions + kernel("uniform RWStructuredBuffer<float> y", f"y[id.x] = {calls};")
    assert list(compiled(source, kind).functions) == ["f"]


def test_the_origin_has_slang_and_the_own_compiler() -> None:
    origin = compiled(BASICS, "cuda").origin
    assert re.fullmatch(
        r"slangpy [\d.]+ \(slang [\d.]+\), nvrtc [\d.]+, .*libclang [\d.]+", origin.toolchain
    )
    assert (origin.target, list(origin.sources)) == ("cuda -arch=compute_80", ["<text>"])


@pytest.mark.parametrize("kind", ["rocm", "hexagon"])
@pytest.mark.parametrize(
    ("parameters", "name", "what"),
    [
        ("uniform Texture2D<float4> t", "t", "a texture"),
        ("uniform Texture3D<float4> t", "t", "a texture"),
        ("uniform Sampler2D<float4> t", "t", "a texture with its sampler"),
        ("uniform SamplerState s", "s", "a sampler"),
    ],
)
def test_what_rocm_and_hexagon_lack(kind: str, parameters: str, name: str, what: str) -> None:
    assert refused(kernel(parameters), kind) == (
        f"the Slang function 'f' takes {name!r}, {what}, which Slang's code for {kind} cannot take here: use a StructuredBuffer or a "
        "RWStructuredBuffer"
    )


def test_barriers_on_hexagon() -> None:
    assert refused(BASICS, "hexagon") == (
        "<text>:14: GroupMemoryBarrierWithGroupSync is not supported on hexagon: the threads of a block run one after the other there, "
        "without barriers, atomics and waves. Compile the file without this entry point for hexagon"
    )


def test_a_function_that_cpp_does_not_have() -> None:
    source = kernel(
        "uniform RWStructuredBuffer<uint> y, uniform float a", "\ny[id.x] = f32tof16_(a);"
    )
    assert refused(source, "hexagon") == (
        "<text>:3: f32tof16_ is not supported on hexagon: Slang's C++ does not have it. Compile the file without this entry point for hexagon"
    )


@pytest.mark.parametrize("kind", TARGETS)
def test_arrays_of_buffers(kind: str) -> None:
    assert refused(kernel("uniform RWStructuredBuffer<float> y[2]", "y[1][0] = 1;"), kind) == (
        "the Slang function 'f' takes 'y', an array of resources, which is no argument of devmod: declare each one"
    )


@pytest.mark.parametrize("kind", TARGETS)
def test_a_function_that_a_kind_lacks(kind: str) -> None:
    source = kernel("uniform RWStructuredBuffer<double> y", "y[id.x] = asinh(y[id.x]);")
    language = {"cuda": "CUDA C++", "rocm": "HIP", "hexagon": "C++"}[kind]
    assert refused(source, kind) == (
        f"the Slang source <text> uses F64_asinh of Slang's {language}, which devmod does not have for {kind}: compute it otherwise there"
    )


def change_text(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> list[str]:
    """Let Slang's text have `new` instead of `old`. Return a list that gets the changed lines."""
    translate = _cuda.translate
    lines = []

    def changed(*args: Any, **keywords: Any) -> Translation:
        translation = translate(*args, **keywords)
        (entry,) = translation.entries
        text = entry.code.decode()
        for line in text.split("\n"):
            if old in line:
                lines.append(line.replace(old, new))
        entries = [entry._replace(code=text.replace(old, new).encode())]
        return translation._replace(entries=entries)

    monkeypatch.setattr(_cuda, "translate", changed)
    return lines


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("RWStructuredBuffer<float> y_0, ", "", "1 parameters, and the source 2"),
        ("RWStructuredBuffer<float> y_0", "float y_0", "the type 'float' of 'y'"),
    ],
)
def test_a_text_that_slang_does_not_write(
    old: str, new: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_text(monkeypatch, old, new)
    source = kernel("uniform RWStructuredBuffer<float> y, uniform float a", "y[0] = a;")
    assert (
        refused(source, "cuda") == f"Slang's translation of <text> cannot be read: it has {problem}"
    )


#: A source whose text has each form that the module relies on.
FORMS = f"""
cbuffer Settings {{ float a; }}
Texture2D<float4> image;
RWTexture2D<float> surface;
{HEAD}void f(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> y, uniform RWByteAddressBuffer bytes)
{{
    uint width, height, levels, old;
    image.GetDimensions(0, width, height, levels);
    bytes.InterlockedAdd(4 * id.x, 1, old);
    printf("%d printf txq.width __constant__", old);
    surface[id.xy] = a + surface[id.yx] + image.Load(int3(id.xy, 0)).x;
    y[id.x] = width + height + levels;
}}
"""
GLOBALS_FORM = 'extern "C" __constant__ TYPE SLANG_globalParams;'
ATOMIC_FORM = "TYPE NAME = atomicAdd((&(BUFFER)[PLACE]), VALUE);"
SURFACE_FORM = "(IMAGE), ((PLACE)).x * BYTES, ((PLACE)).y, SLANG_CUDA_BOUNDARY_MODE)"
SIZE_FORM = (
    'asm("txq.width.b32 %0, [%2]; txq.height.b32 %1, [%2];" : "=r"(w), "=r"(h) : "l"((IMAGE)))'
)
LEVELS_FORM = "/* txq.num_mipmap_levels not available in CUDA */ NAME = 0;"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('extern "C" __global__ void f(', "__global__ void f(", 'extern "C" __global__ void f('),
        ("__global__ void f(", "__global__ void g(", 'extern "C" __global__ void f('),
        ("__constant__ GlobalParams_0 SLANG", "__constant__ GlobalParams_0 Slang", GLOBALS_FORM),
        ("(&SLANG_globalParams)", "SLANG_globalParams", "globalParams_0->NAME"),
        (
            "globalParams_0->Settings_0->a_0",
            "(*globalParams_0).Settings_0->a_0",
            "globalParams_0->NAME",
        ),
        (
            "globalParams_0->Settings_0->a_0",
            "SLANG_globalParams.Settings_0->a_0",
            "globalParams_0->NAME",
        ),
        ("make_int2 (", "make_int2<int>(", "make_float2 ("),
        ("printf(", "printf<1>(", "printf("),
        ("= atomicAdd((&(bytes_0)[", "= (uint)atomicAdd((&(bytes_0)[", ATOMIC_FORM),
        ("atomicAdd((&(bytes_0)[", "atomicAdd((&bytes_0[", ATOMIC_FORM),
        ("atomicAdd((&(bytes_0)[", "atomicAdd((&bytes_0.data[", ATOMIC_FORM),
        (", SLANG_CUDA_BOUNDARY_MODE)", ", cudaBoundaryModeZero)", SURFACE_FORM),
        (".x * 4, ", ".x * sizeof(float), ", SURFACE_FORM),
        ("txq.width.b32 %0, [%2]; txq", "txq.width.b32 %0, [%2];\\ntxq", SIZE_FORM),
        ('"=r"(w)', '"=r" (w)', SIZE_FORM),
        ("/* txq.num_mipmap_levels not available in CUDA */ ", "", LEVELS_FORM),
        ("*((&levels_0)) = 0;", "*((&levels_0)) = 0U;", LEVELS_FORM),
    ],
)
def test_another_form_of_the_text_is_refused(
    old: str, new: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = change_text(monkeypatch, old, new)
    text = refused(FORMS, "cuda")
    toolchain = re.search(r"slangpy [\d.]+ \(slang [\d.]+\)", text)
    assert toolchain
    assert text == (
        f"Slang's translation of <text> cannot be read: expected {expected!r}, got {lines[0].strip()!r}. {toolchain[0]} wrote it: "
        "install a version of slangpy that docs/slang.md names"
    )


def test_the_forms_of_the_text_are_those_of_slang() -> None:
    assert list(compiled(FORMS, "cuda").functions) == ["f"]


def test_another_function_of_textures_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    change_text(monkeypatch, "tex2Dfetch_int<", "tex2Dfetch<")
    assert refused(FORMS, "cuda") == (
        "the Slang source <text> uses tex2Dfetch of Slang's CUDA C++, which devmod does not have for cuda: compute it otherwise there"
    )


def test_lines_of_the_source(tmp_path: Path) -> None:
    """`-lineinfo` gives those of the file in Slang and of the files that it includes, without
    folders.
    """
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "twice.slang").write_text(
        "module twice;\npublic void clear(RWStructuredBuffer<float> y)\n{\n    y[0] = 0;\n}\n"
    )
    (tmp_path / "k.slang").write_text(
        "import parts.twice;\n"
        "struct Pair {\n    float a;\n\n    float2 b;\n};\n"
        "RWStructuredBuffer<float> y;\n"
        '[shader("compute")] [numthreads(8, 1, 1)]\n'
        "void f(uint3 id : SV_DispatchThreadID, uniform Pair p)\n{\n"
        "    y[id.x] = p.a + p.b.y;\n    clear(y);\n}\n"
    )
    module = devmod.compile(tmp_path / "k.slang", "cuda -arch=compute_80", options="-lineinfo")
    ptx = module.inspect_source("ptx")
    files = dict(re.findall(r'\.file\t(\d+) "(.*)"', ptx))
    assert sorted(files.values()) == [
        "/k.slang",
        "/parts/twice.slang",
        "/slang/include/prelude.h",
        "/slang/kernels.h",
    ]
    lines = {(files[file], line) for file, line in re.findall(r"\.loc\t(\d+) (\d+) ", ptx)}
    assert {("/k.slang", "11"), ("/parts/twice.slang", "4")} <= lines
    assert str(tmp_path) not in ptx
    plain = devmod.compile(tmp_path / "k.slang", "cuda -arch=compute_80").inspect_source("ptx")
    assert ".loc" not in plain
