"""The compiler of Metal: it reads kernels on any machine, and its payload is the source."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from each_case import check_texts, raised, refusal

import devmod
from devmod_targets.authoring import clang

VECTORS = Path(__file__).parents[3] / "core" / "tests" / "vectors" / "tvm"
BEGIN = "#include <metal_stdlib>\nusing namespace metal;\n"
Row = tuple[str, str, str, str, Any, int]


def compiled(source: str, **keywords: Any) -> devmod.Module:
    return devmod.compile(BEGIN + source, "metal", **keywords)


def shape(info: devmod.FunctionInfo) -> list[Row]:
    assert info.interface is not None
    return [
        (param.name, param.kind, param.type, param.access, param.at, param.align)
        for param in info.interface.params
    ]


def row(source: str, **keywords: Any) -> list[Row]:
    """Return the arguments of a source's only kernel."""
    ((_, info),) = compiled(source, **keywords).functions.items()
    return shape(info)


# -- arguments


@pytest.mark.row("R12")
@pytest.mark.parametrize(
    ("argument", "param"),
    [
        ("device float *x", ("x", "buffer", "float32", "rw", 0, 0)),
        ("device const float *x", ("x", "buffer", "float32", "r", 0, 0)),
        ("const device float4 *x", ("x", "buffer", "float32x4", "r", 0, 0)),
        ("constant half2 *x", ("x", "buffer", "float16x2", "r", 0, 0)),
        ("device bfloat *x", ("x", "buffer", "bfloat16", "rw", 0, 0)),
        ("device bfloat4 *x", ("x", "buffer", "bfloat16x4", "rw", 0, 0)),
        ("device packed_float3 *x", ("x", "buffer", "float32", "rw", 0, 0)),
        ("device atomic_uint *x", ("x", "buffer", "uint32", "rw", 0, 0)),
        ("volatile device atomic_float *x", ("x", "buffer", "float32", "rw", 0, 0)),
        ("device atomic<ulong> &x", ("x", "buffer", "uint64", "rw", 0, 0)),
        ("device float3x3 *x", ("x", "buffer", "uint8x48", "rw", 0, 16)),
        ("device void *x", ("x", "buffer", "", "rw", 0, 0)),
        ("device uchar4 &x", ("x", "buffer", "uint8x4", "rw", 0, 0)),
        ("constant int &x", ("x", "scalar", "int32", "", 0, 0)),
        ("const constant ulong &x", ("x", "scalar", "uint64", "", 0, 0)),
        ("constant bool &x", ("x", "scalar", "bool", "", 0, 0)),
        ("constant half &x", ("x", "scalar", "float16", "", 0, 0)),
        ("constant bfloat &x", ("x", "scalar", "bfloat16", "", 0, 0)),
        ("constant float3 &x", ("x", "scalar", "float32x3", "", 0, 0)),
        ("constant packed_half2 &x", ("x", "scalar", "float16x2", "", 0, 0)),
        ("constant float4x4 &x", ("x", "scalar", "uint8x64", "", 0, 16)),
        ("constant Plain &x", ("x", "scalar", "uint8x32", "", 0, 16)),
        ("constant Of<half> &x", ("x", "scalar", "uint8x8", "", 0, 4)),
        ("constant Large &x", ("x", "buffer", "uint8x8000", "r", 0, 4)),
        ("device Many &x", ("x", "buffer", "float16x4", "rw", 0, 0)),
        ("device Headed &x", ("x", "buffer", "", "rw", 0, 0)),
        ("constant int x[4]", ("x", "buffer", "int32", "r", 0, 0)),
        ("constant float m[3][4]", ("m", "buffer", "float32", "r", 0, 0)),
        ("device uint (&x)[16]", ("x", "buffer", "uint32", "rw", 0, 0)),
        ("threadgroup float *x", ("x", "local", "float32", "", 0, 0)),
        ("threadgroup Plain &x [[threadgroup(3)]]", ("x", "local", "uint8x32", "", 3, 16)),
        ("texture2d<float> x", ("x", "image", "2d", "r", 0, 0)),
        ("texture2d<half, access::write> x [[texture(2)]]", ("x", "image", "2d", "w", 2, 0)),
        ("texture3d<uint, access::read_write> x", ("x", "image", "3d", "rw", 0, 0)),
        ("array<texture2d<half, access::read>, 4> x [[texture(1)]]", ("x", "image", "", "r", 1, 0)),
        (
            "texture2d<float, access::write, memory_coherence_device> x",
            ("x", "image", "2d", "w", 0, 0),
        ),
        ("coherent device float *x", ("x", "buffer", "float32", "rw", 0, 0)),
        ("volatile coherent(system) device uint *x", ("x", "buffer", "uint32", "rw", 0, 0)),
        ("depth2d<float> x", ("x", "image", "", "r", 0, 0)),
        ("sampler x [[sampler(1)]]", ("x", "sampler", "", "", 1, 0)),
        ("device float *x [[buffer(7)]]", ("x", "buffer", "float32", "rw", 7, 0)),
        ("device float *x [[ buffer( Second ) ]]", ("x", "buffer", "float32", "rw", 9, 0)),
        (
            "device float *x [[buffer(2 * Second + (BASE - 1))]]",
            ("x", "buffer", "float32", "rw", 21, 0),
        ),
        ("AT(5) x [[buffer(5), function_constant(WITH)]]", ("x", "buffer", "int8", "r", 5, 0)),
    ],
)
def test_argument_types_and_kinds(argument: str, param: Row) -> None:
    source = (
        "struct Plain { float4 a; char b; }; struct Large { int a[2000]; }; template <class T> struct Of { T a; int b; };\n"
        "struct Many { half4 x[1]; }; struct Headed { uint n; float x[1]; };\n"
        "enum Index { First, Second = 9 }; constant int BASE = 4; constant bool WITH [[function_constant(0)]];\n"
        "#define AT(n) device const char *\n"
        f"kernel void k({argument}, uint3 i [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {{}}"
    )
    assert row(source) == [param]


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("argument", "size"),
    [
        ("device uint *x", 0),
        ("device uint (&x)[16]", 64),
        ("device array<float3, 5> &x", 80),
        ("device Plain &x", 32),
        ("constant Large &x", 8000),
        ("device Open &x", 0),
    ],
)
def test_a_reference_has_the_size_of_its_object(argument: str, size: int) -> None:
    declared = "struct Plain { float4 a; char b; }; struct Large { int a[2000]; }; struct Open { half4 x[1]; };\n"
    ((_, info),) = compiled(f"{declared}kernel void k({argument}) {{}}").functions.items()
    assert info.interface is not None
    assert [param.size for param in info.interface.params] == [size]


@pytest.mark.row("R12")
@pytest.mark.parametrize(
    ("argument", "described"),
    [
        ("texture1d<int>", "1d int r"),
        ("texture2d<half>", "2d float r"),
        ("texture3d<uint, access::read_write>", "3d uint rw"),
        ("texture1d_array<short, access::read>", "1d_array int r"),
        ("texture2d_array<ushort, access::write>", "2d_array uint w"),
        ("texture2d<Texel, HOW>", "2d float w"),
    ],
)
def test_textures(argument: str, described: str) -> None:
    source = f"typedef half Texel; constant access HOW = access::write;\nkernel void k({argument} x [[texture(3)]]) {{}}"
    ((_, info),) = compiled(source).functions.items()
    assert str(info).startswith(f"<FunctionInfo k(x: image {described})")
    assert shape(info)[0][4] == 3


def test_the_interface_has_what_a_call_refuses() -> None:
    source = (
        "kernel void k(array<texture2d<half, access::read>, 4> a, depth2d<float> b, texturecube<float> c, texture2d_ms<float> d,\n"
        "              texture_buffer<float> e, texture2d<ulong> f, array<sampler, 2> s) {}\n"
        "kernel void fine(texture2d<float> t, texture2d<float, access::read> u, sampler s) { t.sample(s, float2(0)); }"
    )
    extra = {
        name: [param.extra for param in info.interface.params]
        for name, info in compiled(source).functions.items()
    }
    names = (
        "arrays of textures",
        "depth2d",
        "texturecube",
        "texture2d_ms",
        "texture_buffer",
        "texture2d of unsigned long",
    )
    assert extra == {
        "k": [{"unsupported": name} for name in (*names, "arrays of samplers")],
        "fine": [{"sampled": True}, {}, {}],
    }


def test_textures_that_a_kernel_may_read_with_a_sampler() -> None:
    source = (
        "float4 of(texture2d<float> t, sampler s) { return t.sample(s, float2(0)); }\n"
        "template <class T> kernel void k(texture2d<T> a, texture2d<T> b, texture2d<T> ab, sampler s, uint2 i [[thread_position_in_grid]])\n"
        "{ T x = a.get_width() + a . read(i).x + ab.read(i).x; of(b, s); }\n"
        'template [[host_name("k")]] kernel void k(texture2d<float>, texture2d<float>, texture2d<float>, sampler, uint2);\n'
        "kernel void l(texture2d<float> a, texture2d<float> b, sampler s) { a.gather(s, float2(0)); b.get_height(); }\n"
    )
    found = compiled(source).functions.items()
    sampled = {
        name: [param.name for param in info.interface.params if param.extra.get("sampled")]
        for name, info in found
    }
    assert sampled == {"k": ["b"], "l": ["a"]}


def test_arguments_are_ordered_by_table_and_index() -> None:
    source = (
        "kernel void k(threadgroup int *t, device int *d [[buffer(3)]], constant int &c, texture2d<float> u, device int *e [[buffer(0)]],\n"
        "              threadgroup int *v [[threadgroup(0)]], constant int &f, sampler s, texture2d<float> w [[texture(0)]]) {}"
    )
    # Those without an index take the first that are free, in their order.
    assert [(name, kind, at) for name, kind, _, _, at, _ in row(source)] == [
        ("e", "buffer", 0),
        ("c", "scalar", 1),
        ("f", "scalar", 2),
        ("d", "buffer", 3),
        ("v", "local", 0),
        ("t", "local", 1),
        ("w", "image", 0),
        ("u", "image", 1),
        ("s", "sampler", 0),
    ]


def test_unsupported_arguments_are_refused() -> None:
    check_texts(
        {
            "the argument 'x' of the kernel 'k' has the type 'float', which devmod does not support": "float x",
            "the argument 'x' of the kernel 'k' points into no address space; expected device, constant or threadgroup": "thread float *x",
            "the argument 'x' of the kernel 'k' has the attribute [[buffer(N)]], whose value is unknown; write a number": "device float *x [[buffer(N)]]",
            f"the argument 'x' of the kernel 'k' has the attribute [[buffer({'0 + ' * 25}…)]], whose value is unknown; write a number": f"device float *x [[buffer({'0 + ' * 30}N)]]",
            "the argument 'x' of the kernel 'k' has the buffer index 31; expected at most 30": "device float *x [[buffer(31)]]",
            "the argument 'x' of the kernel 'k' has the threadgroup index 31; expected at most 30": "threadgroup float *x [[threadgroup(31)]]",
            "the argument 'x31' of the kernel 'k' has the buffer index 31; expected at most 30": ", ".join(
                f"device float *x{i}" for i in range(32)
            ),
            "the argument 'y' of the kernel 'k' has the same buffer index 2 as 'x'": "device float *x [[buffer(2)]], constant int &y [[buffer(2)]]",
        },
        lambda argument: refusal(devmod.CompileError, compiled, f"kernel void k({argument}) {{}}"),
        start="<text>:3: ",
    )


def test_a_function_constant_selects_one_of_two_arguments_with_the_same_index() -> None:
    source = (
        "constant bool wide [[function_constant(0)]]; constant bool narrow = !wide;\n"
        "kernel void k(device float *x [[buffer(0), function_constant(narrow)]], device float4 *y [[buffer(0), function_constant(wide)]]) {}"
    )
    assert [(each[0], each[4]) for each in row(source)] == [("x", 0), ("y", 0)]


# -- texts that are no programs


_KERNEL = "kernel void k(device float *x [[buffer(0)]]) {}\n"


@pytest.mark.parametrize("text", ["[[a /* ", "[[a (]] ", "[[a )) ", "[[a [[)) ", "[[a { ", "[[a, "])
def test_attributes_that_never_end_are_not_read_to_the_end_again_and_again(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    from devmod_targets.metal import _rewrite

    scanned = 0

    class Counted:
        """A pattern that counts the characters up to the end of each match."""

        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def finditer(self, source: str, start: int) -> Iterator[re.Match[str]]:
            nonlocal scanned
            for match in self.pattern.finditer(source, start):
                scanned += match.end() - start
                start = match.end()
                assert scanned < 50 * len(source)
                yield match
            scanned += len(source) - start

        def search(self, source: str, start: int) -> re.Match[str] | None:
            return next(self.finditer(source, start), None)

    for name in ("_TOKEN", "_PIECE"):
        monkeypatch.setattr(_rewrite, name, Counted(getattr(_rewrite, name)))
    source = _KERNEL + text * 5_000
    _rewrite.Rewritten(source)
    assert len(source) <= scanned < 50 * len(source)


@pytest.mark.volume_but("minus-metal", "choice-opencl", "comment-opencl", "string-metal")
@pytest.mark.parametrize("kind", ["metal", "opencl"])
@pytest.mark.parametrize(
    "deep",
    [
        "- ",
        "(int)",
        "1?1:",
        "x[0]=",
        "1+",
        "/*\n#define */" + "1+" * 900,
        '"\\\n#define "[0]+' + "1+" * 900,
    ],
    ids=["minus", "cast", "choice", "assignment", "sum", "comment", "string"],
)
def test_deep_nesting_in_clang_raises_and_does_not_end_the_process(kind: str, deep: str) -> None:
    space, language = ("device", "Metal") if kind == "metal" else ("global", "OpenCL C")
    assert refusal(
        devmod.CompileError,
        devmod.compile,
        f"kernel void k({space} float *x) {{ x[0] = {deep * (250_000 // len(deep))}1; }}",
        kind,
    ) == (
        f"libclang crashes on the {language} source <text>: an expression, a statement or brackets are nested too deeply. "
        "Split it into steps, with variables or a loop"
    )


@pytest.mark.parametrize(
    "statement",
    ["if (x[0] > 0) x[0] = 1; else " * 700 + ";", "x[0] = " + "x[0] + " * 600 + "1;"],
    ids=["choices", "sum"],
)
@pytest.mark.parametrize("kind", ["metal", "opencl"])
def test_generated_sources_are_read(kind: str, statement: str) -> None:
    space = "device" if kind == "metal" else "global"
    assert list(
        devmod.compile(f"kernel void k({space} float *x) {{ {statement} }}", kind).functions
    ) == ["k"]


def test_a_list_of_macros_is_read_without_a_trial_in_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trial(_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr(clang, "_survives", trial)
    macros = "".join(f"#define A{number}(x) \\\n ((x) + {number})\n" for number in range(500))
    assert list(
        compiled(f"{macros}kernel void k(device float *x) {{ x[0] = A7(1); }}").functions
    ) == ["k"]


def test_at_most_a_thousand_errors_are_reported() -> None:
    error = raised(devmod.CompileError, compiled, "+;\n" * 3000)
    assert len(error.log.splitlines()) == 1000


# -- kernels


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            "kernel void a() {} [[kernel]] void b() {} vertex float4 v() { return 0; } void c() {}",
            ["a", "b"],
        ),
        ("namespace one { kernel void a() {} }", ["one::a"]),
        ('extern "C" kernel void a() {}', ["a"]),
        ("template <class T> kernel void a(device T *x) {}\nkernel void b() {}", ["b"]),
        (
            "template <class T> [[kernel]] void a(device T *x [[buffer(2)]]) {}\n"
            "#define make(name, T) \\\n  template [[host_name( \\\n  name)]] [[kernel]] decltype(a<T>) a<T>;\n"
            'make("a_" "half", half) make("a_int", int)',
            ["a_half", "a_int"],
        ),
        (
            "template <class T> kernel void a(device T *x) {}\n"
            'template [[host_name("whole")]] kernel void a<uint>(device uint *x [[buffer(1)]]);',
            ["whole"],
        ),
        ('[[host_name("other")]] kernel void a() {}', ["other"]),
        ("#if __METAL_VERSION__ >= 310\nkernel void newer() {}\n#endif", ["newer"]),
    ],
)
def test_which_kernels_there_are(source: str, names: list[str]) -> None:
    assert [info.name for info in compiled(source).functions.values()] == names


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("kernel void k(device float *x) {}\nkernel void k(device int *x) {}", "k"),
        ('[[host_name("k")]] kernel void a() {}\nkernel void k() {}', "k"),
        (
            "template <class T> kernel void a(device T *x) {}\n"
            'template [[host_name("b")]] kernel void a<int>(device int *x); template [[host_name("b")]] kernel void a<uint>(device uint *x);',
            "b",
        ),
    ],
    ids=["overloads", "a host_name", "two host_names"],
)
def test_two_kernels_with_the_same_name_are_refused(source: str, name: str) -> None:
    text = refusal(devmod.CompileError, compiled, source)
    last = 3 + source.count("\n")
    assert text == (
        f"<text>:{last if name == 'b' else 3} and <text>:{last}: two kernels have the name {name!r}; rename one of them"
    )


def test_a_kernel_that_is_declared_first_is_one() -> None:
    assert len(row("kernel void k(device float *x);\nkernel void k(device float *x) {}")) == 1


def test_an_instance_has_the_arguments_of_its_template() -> None:
    source = (
        "template <class T, int N> kernel void a(device const vec<T, N> *x [[buffer(4)]], constant T &s [[buffer(1)]],\n"
        "                                        uint i [[thread_position_in_grid]]) {}\n"
        'template [[host_name("a_half")]] [[kernel]] decltype(a<half, 4>) a<half, 4>;'
    )
    assert row(source) == [
        ("s", "scalar", "float16", "", 1, 0),
        ("x", "buffer", "float16x4", "r", 4, 0),
    ]


def test_instances_that_are_asked_for() -> None:
    source = "template <class T> kernel void a(device T *x, constant T &s) {}\n"
    module = compiled(source, name_expressions=["a<half>", "a<metal::float4>"])
    assert {name: info.arg_types for name, info in module.functions.items()} == {
        "a<half>": ("handle", "float16"),
        "a<metal::float4>": ("handle", "float32x4"),
    }
    assert module.inspect_source().startswith(
        BEGIN + source + 'template [[host_name("a<half>")]] [[kernel]] decltype(a<half>) a<half>;\n'
    )
    for wrong in ("a", 'a<"x">', "a<int>; evil"):
        assert (
            refusal(devmod.CompileError, compiled, source, name_expressions=[wrong])
            == f"name_expressions= contains {wrong!r}; expected a template instance such as 'scale<float>'"
        )


def test_sizes_of_threadgroups() -> None:
    source = (
        "#define N 8\n[[max_total_threads_per_threadgroup(N * 32)]] kernel void most() {}\n"
        "[[required_threads_per_threadgroup(N, 4)]] kernel void fixed() {}"
    )
    functions = compiled(source).functions
    most, fixed = functions["most"].interface, functions["fixed"].interface
    assert most is not None
    assert fixed is not None
    assert (most.block, most.extra) == (None, {"max_total_threads_per_threadgroup": 256})
    assert (fixed.block, fixed.extra) == ((8, 4, 1), {})


def test_function_constants_that_a_kernel_uses() -> None:
    source = (
        "constant int TILE [[function_constant(3)]];\nconstant bool fast [[function_constant(0)]];\n"
        "constant float2 pair [[function_constant(5)]];\nconstant half unused [[function_constant(4)]];\n"
        "constant bool is_fast = is_function_constant_defined(fast) ? fast : false;\n"
        "float helper() { return is_fast ? 1 : 2; }\n"
        "kernel void one(device float *x) { x[0] = helper(); }\n"
        "kernel void two(device float *x) { x[0] = TILE; }\nkernel void none(device float *x) { x[0] = pair.x; }"
    )
    found = {
        name: dict(info.interface.extra)
        for name, info in compiled(source).functions.items()
        if info.interface is not None
    }
    assert found == {
        "one": {"constants": [{"name": "fast", "id": 0, "type": "bool"}]},
        "two": {"constants": [{"name": "TILE", "id": 3, "type": "int32"}]},
        "none": {},
    }


def test_a_shader_of_spirv_cross_is_called_as_its_file(tmp_path: Path) -> None:
    if not (shutil.which("glslangValidator") and shutil.which("spirv-cross")):
        pytest.skip("there is no glslangValidator or no spirv-cross here")
    (tmp_path / "twice.comp").write_text(
        "#version 450\nlayout(local_size_x = 64) in;\nlayout(set = 0, binding = 0) buffer X { float x[]; };\n"
        "layout(set = 0, binding = 1) uniform N { int n; vec3 v; };\nshared float t[64];\n"
        "void main() { t[gl_LocalInvocationIndex] = x[gl_GlobalInvocationID.x]; barrier();\n"
        "  if (gl_GlobalInvocationID.x < n) x[gl_GlobalInvocationID.x] = 2 * t[gl_LocalInvocationIndex] + v.x; }\n"
    )
    subprocess.run(
        ["glslangValidator", "-V", "twice.comp", "-o", "twice.spv"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=300,
    )
    subprocess.run(
        ["spirv-cross", "--msl", "twice.spv", "--output", "twice.metal"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=300,
    )
    module = devmod.compile(tmp_path / "twice.metal", "metal")
    assert [(name, info.name) for name, info in module.functions.items()] == [("twice", "main0")]
    assert [
        (kind, type_, access)
        for _, kind, type_, access, _, _ in sorted(
            shape(module.functions["twice"]), key=lambda each: each[1]
        )
    ] == [
        ("buffer", "", "rw"),
        ("scalar", "uint8x32", ""),
    ] or [kind for _, kind, *_ in shape(module.functions["twice"])]


@pytest.mark.parametrize("name", ["vadd", "matmul"])
def test_tvms_kernels(name: str) -> None:
    tree = devmod.interop.tvm.load_imports((VECTORS / f"{name}.metal.tvmimports").read_bytes())
    module = next(each for each in [tree, *tree.imports] if each.kind == "metal")
    found = devmod.compile(module.inspect_source(), "metal")
    assert {key: info.arg_types for key, info in found.functions.items()} == {
        key: info.arg_types for key, info in module.functions.items()
    }


# -- the payload


@pytest.mark.row("R11", "R30", "R38")
def test_the_payload_is_the_source_for_each_kernel(tmp_path: Path) -> None:
    (tmp_path / "tile.h").write_text("#pragma once\n#define SIDE 4\n")
    source = tmp_path / "k.metal"
    source.write_text(
        BEGIN
        + '#include "tile.h"\nkernel void a(device float *x) { x[SIDE] = TILE; }\nkernel void b() {}\n'
    )
    module = devmod.compile(
        source, "metal", defines={"TILE": 3}, options="-std=metal3.0 -fno-fast-math"
    )
    assert (module.kind, module.format, list(module.functions)) == ("metal", "metal", ["a", "b"])
    text = module.inspect_source("metal")
    assert text.startswith(
        '//devmod: -std=metal3.0 -fno-fast-math\n#define TILE 3\n#line 1 "k.metal"\n#include <metal_stdlib>\n'
    )
    assert "#define SIDE 4" in text
    assert str(tmp_path) not in text
    loaded = devmod.loads(devmod.dumps(module))
    assert loaded.save_to_bytes() == module.save_to_bytes()
    assert loaded.inspect_source() == f"{text}\n{text}"
    assert module.origin is not None
    assert module.origin.options == ("-std=metal3.0", "-fno-fast-math", "-DTILE=3")
    assert list(module.origin.sources) == ["k.metal", "tile.h"]
    again = devmod.compile(text, "metal")
    assert dict(again.functions) == dict(module.functions)
    assert again.save_to_bytes() == module.save_to_bytes()


@pytest.mark.row("R28", "R38")
def test_the_wheel_of_the_runtime_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = compiled("kernel void k(device float *x) {}")
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    fallback = compiled("kernel void k(device float *x) {}")
    assert type(fallback).__name__ == "FallbackModule"
    assert fallback.save_to_bytes() == real.save_to_bytes()
    assert refusal(devmod.RuntimeNotLinkedError, fallback.get_function, "k").startswith(
        "the metal function 'k' cannot be used here: this module is a fallback"
    )


# -- errors


@pytest.mark.parametrize(
    ("source", "errors"),
    [
        (
            "kernel void k(device float *x) {\n    x[0] = 1.0\n}\n",
            ["4:15: error: expected ';' after expression"],
        ),
        (
            "kernel void k(device float *x [[buffer(0)]],) {}\n",
            ["3:45: error: expected parameter declarator"],
        ),
        ("kernel void k(device float *x) {\n", ["3:33: error: expected '}'"]),
        (
            "/* © äöü */ kernel void k([[buffer(0)]] device float *x) { x[0] = ; }\n",
            ["3:67: error: expected expression"],
        ),
        (
            "kernel void k(device float *x, uint thread [[thread_position_in_grid]]) { x[thread] = 1; }\n",
            ["3:83: error: expected expression; 'thread' is a keyword of Metal"],
        ),
        ("#include <nowhere.h>\n", ["3:10: error: 'nowhere.h' file not found"]),
        ("#if 1\nkernel void k() {}\n", ["3:2: error: unterminated conditional directive"]),
        ("kernel void k() {}\nkernel void k() {}\n", ["4:13: error: redefinition of 'k'"]),
        (
            "struct S { int a; };\nkernel void k(device S *s) { s->b = 1; }\n",
            ["4:33: error: no member named 'b' in 'S'"],
        ),
        (
            "kernel void k() { break; }\n",
            ["3:19: error: 'break' statement not in loop or switch statement"],
        ),
    ],
)
def test_errors_have_line_column_and_words(source: str, errors: list[str]) -> None:
    error = raised(devmod.CompileError, compiled, source)
    more = f" (and {len(errors) - 1} more in .log)" if len(errors) > 1 else ""
    assert str(error) == f"the Metal source does not compile: <text>:{errors[0]}{more}"
    assert error.log == "\n".join(f"<text>:{each}" for each in errors)


def test_an_error_in_an_include_names_it(tmp_path: Path) -> None:
    (tmp_path / "part.h").write_text("\nint f() { return 1 }\n")
    (tmp_path / "k.metal").write_text('#include "part.h"\nkernel void k() {}\n')
    assert refusal(devmod.CompileError, devmod.compile, tmp_path / "k.metal", "metal").startswith(
        "the Metal source does not compile: part.h:2:19: error: expected ';' after return statement"
    )


def test_unknown_names_are_a_warning_at_the_callers_line() -> None:
    with pytest.warns(UserWarning, match="the Metal source has names") as caught:
        module = compiled(
            "kernel void k(device float *x) {\n  x[0] = nonsense(1);\n  metal::nowhere(x);\n}"
        )
    assert str(caught[0].message) == (
        "the Metal source has names that Metal does not define:\n<text>:4:10: warning: use of undeclared "
        "identifier 'nonsense'\n<text>:5:10: warning: no type named 'nowhere' in namespace 'metal'"
    )
    assert list(module.functions) == ["k"]


def test_errors_after_an_unknown_name_are_ignored() -> None:
    source = "kernel void k(device int *x) { x[0] = x[1] ? Other{x[2]} : 3; }"
    with pytest.warns(
        UserWarning, match="warning: use of undeclared identifier 'Other'\n.*warning: expected ':'"
    ):
        assert list(compiled(source).functions) == ["k"]
    with pytest.raises(devmod.CompileError, match="error: expected expression"):
        compiled("kernel void k(device int *x) { x[0] = other; x[1] = ; }")


def test_an_unknown_type() -> None:
    with pytest.warns(UserWarning, match="unknown type name 'Other'"):
        assert row("kernel void k(device Other *x) {}") == [("x", "buffer", "", "rw", 0, 0)]
    assert refusal(devmod.CompileError, row, "kernel void k(Other x [[buffer(0)]]) {}").startswith(
        "the metal function 'k' at <text>:3 takes argument 1 ('x') by value, and its type is unknown"
    )


@pytest.mark.parametrize(
    "source", ["", "void f() {}", "template <class T> kernel void f(device T *x) {}"]
)
def test_a_source_without_a_kernel(source: str) -> None:
    assert refusal(devmod.CompileError, compiled, source) == (
        "the Metal source <text> has no kernel: mark a function with kernel, or instantiate a template that is marked with it"
    )


@pytest.mark.parametrize(
    ("target", "keywords", "said"),
    [
        (
            "metal -arch=air64",
            {},
            "the target 'metal -arch=air64' names an architecture, and metal has none. Use the target 'metal'",
        ),
        (
            "metal -format=air",
            {},
            (
                "the target 'metal -format=air' has the option -format=air; expected -format=metal (the default) or -format=metallib"
            ),
        ),
        (
            "metal -os=ios",
            {},
            "the target 'metal -os=ios' has the option -os; expected '-format'",
        ),
        (
            "metal",
            {"options": "-O3"},
            (
                "the Metal option '-O3' is not supported by the receiver's compiler; expected -std=metalX.Y, -ffast-math or -fno-fast-math"
            ),
        ),
        (
            "metal",
            {"options": "-I/usr"},
            "the metal option '-I/usr' names a path; a payload is complete in itself, and its receiver has no such path. Folders of includes go "
            "into include=",
        ),
    ],
)
def test_unsupported_targets_and_options_are_refused(
    target: str, keywords: dict[str, Any], said: str
) -> None:
    assert (
        refusal(devmod.CompileError, devmod.compile, "kernel void k() {}", target, **keywords)
        == said
    )


def test_without_libclang_a_declared_fmap_is_enough(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["clang"] = None
import devmod
from devmod_targets.authoring import clang
source = "kernel void k(device float *x, constant int &n) {}"
m = devmod.compile(source, "metal", fmap={"k": devmod.FunctionInfo("k", ["handle", "int32"])})
print(m.functions["k"].arg_types, m.functions["k"].interface, repr(m.origin.toolchain))
try: devmod.compile(source, "metal")
except devmod.ToolchainNotFoundError as error: print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines() == [
        "('handle', 'int32') None ''",
        'cannot read the kernels of the Metal source: libclang is not installed. Either run pip install "devmod-core[build-metal]", or declare the '
        "kernels: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})",
    ]


# -- a library of Apple's compiler

#: What xcrun does, as far as it is asked: it tells a version, and "compiles" by writing what it was
#: given.
_XCRUN = """#!{python}
import sys
arguments = sys.argv[1:]
assert arguments[:3] == ["-sdk", "macosx", "metal"], arguments
if {broken!r}:
    sys.exit({broken!r})
if arguments[3:] == ["--version"]:
    print("Apple metal version 32023.35 (metalfe-32023.35)\\nTarget: air64-apple-darwin24.0.0")
    sys.exit()
*options, _, out, source = arguments[3:]
text = open(source).read()
if "nonsense" in text:
    sys.exit(source + ":2:9: error: use of undeclared identifier 'nonsense'\\n1 error generated.")
open(out, "wb").write(b"MTLB" + " ".join(options).encode() + b"|" + text.encode())
"""


@pytest.fixture
def xcrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a replacement of xcrun first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def put(broken: str = "") -> None:
        path = folder / "xcrun"
        path.write_text(_XCRUN.format(python=sys.executable, broken=broken))
        path.chmod(0o755)

    put()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return put


@pytest.mark.row("R38", "R42")
def test_a_metallib_is_built_on_request(xcrun: Any) -> None:
    source = "kernel void k(device float *x) {}\nkernel void l(constant int &n) {}\n"
    module = devmod.compile(source, "metal -format=metallib", options="-std=metal3.1 -O2")
    assert (module.format, list(module.functions)) == ("metallib", ["k", "l"])
    assert module.functions["l"].arg_types == ("int32",)
    data = module.save_to_bytes()
    assert data.count(b"MTLB-std=metal3.1 -O2|//devmod: -std=metal3.1 -O2\n") == 2
    assert (
        module.inspect_source()
        == module.inspect_source("metal")
        == f'//devmod: -std=metal3.1 -O2\n#line 1 "<text>"\n{source}'
    )
    assert module.origin is not None
    assert module.origin.toolchain.startswith(
        "Apple metal version 32023.35 (metalfe-32023.35); libclang "
    )
    assert module.origin.target == "metal -format=metallib"
    # Without being asked for, it is the source: also where the compiler is there.
    assert devmod.compile(source, "metal").format == "metal"


def test_errors_of_apples_compiler_are_compile_errors(xcrun: Any) -> None:
    error = raised(
        devmod.CompileError,
        devmod.compile,
        "kernel void k(device float *x) {\n x[0] = nonsense; }",
        "metal -format=metallib",
    )
    assert (
        str(error)
        == "the Metal source does not compile: <text>:2:9: error: use of undeclared identifier 'nonsense'"
    )
    assert (
        error.log
        == "<text>:2:9: error: use of undeclared identifier 'nonsense'\n1 error generated."
    )
    xcrun('xcrun: error: unable to find utility "metal"')
    assert refusal(
        devmod.ToolchainNotFoundError,
        devmod.compile,
        "kernel void k() {}",
        "metal -format=metallib",
    ) == (
        'cannot build a metallib: xcrun finds no Metal compiler (xcrun: error: unable to find utility "metal"). '
        "Install Xcode with its Metal toolchain, or compile for the target 'metal'"
    )


@pytest.mark.skipif(shutil.which("xcrun") is not None, reason="there is an xcrun here")
def test_a_metallib_without_a_mac_is_refused() -> None:
    assert refusal(
        devmod.ToolchainNotFoundError,
        devmod.compile,
        "kernel void k() {}",
        "metal -format=metallib",
    ) == (
        "cannot build a metallib: xcrun, a part of Xcode with Apple's Metal compiler, is not installed. Compile "
        "on a Mac with Xcode, or for the target 'metal', whose payload is the source that the receiver's Metal "
        "compiles"
    )
