"""Compiling WGSL: the payload, what is refused and in which words, and naga where it is on the PATH."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import sys
import warnings
from pathlib import Path

import pytest

import devmod

K = "@compute @workgroup_size(1) fn k() { }"
EXAMPLES = Path(__file__).parents[2] / "examples" / "webgpu"
TWO = "@compute @workgroup_size(1) fn one() { }\n@compute @workgroup_size(2) fn two() { }\n"


@pytest.fixture(autouse=True)
def no_naga(monkeypatch: pytest.MonkeyPatch) -> None:
    """A naga of the machine's own is not what is tested."""
    monkeypatch.setenv("PATH", "")


@pytest.mark.row("R11", "R12", "R13", "R17", "R29", "R42")
def test_the_payload_is_the_text_once_for_each_entry(tmp_path: Path) -> None:
    path = tmp_path / "pair.wgsl"
    path.write_text(TWO, encoding="utf-8")
    module = devmod.compile(path, "webgpu")
    assert module.format == "wgsl"
    assert dict(module.source) == {"wgsl": TWO}
    assert list(module.functions) == ["one", "two"]
    assert [info.name for info in module.functions.values()] == ["one", "two"]
    assert module.inspect_source() == f"{TWO}\n{TWO}"
    assert module.origin == devmod.Origin("webgpu", "devmod WGSL reader 1", (), {"pair.wgsl": hashlib.sha256(TWO.encode()).hexdigest()})
    assert module.functions["two"].launch_param_tags == (
        "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    )  # fmt: skip


def test_an_entry_called_main_has_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "softmax.wgsl"
    path.write_text("@compute @workgroup_size(1) fn main() { }", encoding="utf-8")
    assert {key: info.name for key, info in devmod.compile(path, "webgpu").functions.items()} == {"softmax": "main"}
    assert list(devmod.compile(path, "webgpu", name="other").functions) == ["other"]
    assert list(devmod.compile(path.read_text("utf-8"), "webgpu").functions) == ["main"]
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(TWO.replace("one", "main"), "webgpu", name="two")
    assert str(caught.value) == (
        "the WGSL source <text> has the entries 'main' and 'two', and 'main' would be called 'two' too; give it another name with name="
    )


def test_a_declared_fmap_is_checked_and_names_the_function() -> None:
    text = "@group(0) @binding(0) var<storage> x: array<f32>; @compute @workgroup_size(4) fn k() { _ = x[0]; }"
    module = devmod.compile(text, "webgpu", fmap={"mine": devmod.FunctionInfo("k", [])})
    assert module.functions["mine"].name == "k"
    assert module.functions["mine"].arg_types == ("handle",)
    for fmap, wrong in (
        ({"mine": devmod.FunctionInfo("j", [])}, "the declared fmap has 'mine' for the webgpu function 'j'; the source has: 'k'"),
        (
            {"k": devmod.FunctionInfo("k", ["handle"] * 2)},
            "the declared fmap gives the webgpu function 'k' 2 arguments; at <text>:1 it has 1",
        ),
        (
            {"k": devmod.FunctionInfo("k", ["float32"])},
            "the declared fmap gives argument 1 ('x') of the webgpu function 'k' the type 'float32'; at <text>:1 it is 'handle'",
        ),
    ):
        with pytest.raises(devmod.CompileError) as caught:
            devmod.compile(text, "webgpu", fmap=fmap)
        assert str(caught.value) == wrong


@pytest.mark.parametrize(
    ("target", "options", "text"),
    [
        ("webgpu -arch=sm_90", {}, "the target 'webgpu -arch=sm_90' names an architecture; WGSL has none: it is compiled on the device"),
        ("webgpu", {"options": "-O2"}, "the webgpu target takes no options, and '-O2' was given"),
        (
            "webgpu",
            {"defines": {"TILE": 16}},
            "defines= has 'TILE', and WGSL has no preprocessor; write 'override TILE' in the source, and set it with f.specialize(TILE=…)",
        ),
        ("webgpu", {"include": "."}, "include= names folders of includes, and WGSL has none"),
        ("webgpu", {"name_expressions": ["k<f32>"]}, "name_expressions= instantiates templates, and WGSL has none"),
    ],
)
def test_what_belongs_to_other_languages(target: str, options: dict[str, object], text: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(K, target, **options)  # type: ignore[arg-type]
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("@compute fn k() {}", "1:13: the compute entry 'k' has no @workgroup_size(…)"),
        ("@compute @workgroup_size(0) fn k() {}", "1:32: the @workgroup_size of 'k' has 0; it takes whole numbers from 1 up"),
        ("@compute @workgroup_size(1.5) fn k() {}", "1:34: the @workgroup_size of 'k' has 1.5; it takes whole numbers from 1 up"),
        ("@compute @workgroup_size(1,1,1,1) fn k() {}", "1:38: the @workgroup_size of 'k' has 4 numbers; it is up to three"),
        ("@compute @workgroup_size(N) fn k() {}", "1:26: a constant expression is due, and here is 'N', which is not declared"),
        ("fn N() {} @compute @workgroup_size(N) fn k() {}", "1:36: a constant expression is due, and here is the fn 'N'"),
        ("const a = a + 1; @compute @workgroup_size(a) fn k() {}", "1:7: the const 'a' is made from itself"),
        ("@compute @workgroup_size(1 / 0) fn k() {}", "1:28: this constant expression has no value"),
        ("@compute @workgroup_size(1 << 70) fn k() {}", "1:28: a shift takes an integer, and by less than its bits"),
        ("@compute @workgroup_size(4u + 1i) fn k() {}", "1:29: the operands are of type u32 and i32"),
        ("@compute @workgroup_size(4294967296u) fn k() {}", "1:26: 4294967296u does not fit u32"),
        (
            "@group(0) @binding(0) var<storage> x: array<i64>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:45: WGSL has no 64-bit types, and this is i64; take two u32, or the kind vulkan or cuda",
        ),
        (
            "@compute @workgroup_size(1) fn k() { let a = 1lu; }",
            "1:46: WGSL has no 64-bit types, and this is u64; take two u32, or the kind vulkan or cuda",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<f16>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:45: f16 needs the extension f16; write 'enable f16;' before all declarations",
        ),
        (
            "@compute @workgroup_size(1) fn k() { let a = 1.5h; }",
            "1:46: f16 needs the extension f16; write 'enable f16;' before all declarations",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<bool>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:36: the variable 'x' holds bool, which has no form in storage memory; take a u32",
        ),
        (
            "struct S { a: u32, b: vec2<bool> } @group(0) @binding(0) var<uniform> x: S; @compute @workgroup_size(1) fn k() { _ = x.a; }",
            "1:71: the variable 'x' holds vec2<bool>, which has no form in uniform memory",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<flaot>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:45: 'flaot' is no type: it is declared nowhere, and WGSL has none of that name",
        ),
        (
            "struct S { a: T } @compute @workgroup_size(1) fn k() {  }",
            "1:15: 'T' is no type: it is declared nowhere, and WGSL has none of that name",
        ),
        ("struct S { a: S } @compute @workgroup_size(1) fn k() {  }", "1:8: the struct 'S' holds itself"),
        ("alias A = B; alias B = A; @compute @workgroup_size(1) fn k() {  }", "1:7: the alias 'A' holds itself"),
        (
            "@group(0) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:24: the variable 'x' has no @binding(…), which tells where it is bound",
        ),
        (
            "@binding(0) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:26: the variable 'x' has no @group(…), which tells where it is bound",
        ),
        (
            "var x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:5: the variable 'x' has no address space, as in var<storage, read_write> or var<private>",
        ),
        (
            "@group(0) @binding(-1) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:37: @binding of 'x' takes one whole number from 0 up that is a constant",
        ),
        (
            "@group(0) @binding(0) var<storage, write> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:43: the access mode of 'x' is 'write'; for storage it is read or read_write",
        ),
        (
            "var<push_constant> x: u32; @compute @workgroup_size(1) fn k() { _ = x; }",
            "1:20: the address space 'push_constant' of 'x' is not one that a webgpu function can be called with",
        ),
        (
            "struct S { a: array<f32>, b: u32 } @compute @workgroup_size(1) fn k() {  }",
            "1:12: the member 'a' has no size of its own, which only the last member may lack",
        ),
        (
            "@group(0) @binding(0) var<uniform> x: array<f32, 4>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:36: the uniform 'x' holds array<f32, 4>, whose elements lie 4 bytes apart: in a uniform it must be a multiple of 16. Take vectors of four, or a storage variable",
        ),
        (
            "@group(0) @binding(0) var<uniform> x: array<vec4f>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:36: the uniform 'x' has an array without a length; make it a storage variable",
        ),
        (
            "@group(0) @binding(0) var<uniform> x: atomic<u32>; @compute @workgroup_size(1) fn k() { _ = &x; }",
            "1:36: the uniform 'x' holds atomic<u32>; make it a storage variable",
        ),
        (
            "struct T { x: f32 } struct S { t: T, b: f32 } @group(0) @binding(0) var<uniform> x: S; @compute @workgroup_size(1) fn k() { _ = x.b; }",
            "1:82: the uniform 'x' has a member right behind T; at least to a multiple of 16 bytes must be free",
        ),
        (
            "struct T { x: f32 } struct S { b: f32, t: T } @group(0) @binding(0) var<uniform> x: S; @compute @workgroup_size(1) fn k() { _ = x.b; }",
            "1:82: the uniform 'x' holds T at byte 4, which must be a multiple of 16",
        ),
        (
            "override N: u32; @group(0) @binding(0) var<storage> x: array<f32, N>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:53: the array 'x' has a length that hangs on an override, which only workgroup memory may have",
        ),
        ("const a = 1; const a = 2; @compute @workgroup_size(1) fn k() {  }", "1:20: 'a' is declared twice; the first time in line 1"),
        (
            "@id(1) override a = 1; @id(1) override b = 2; @compute @workgroup_size(1) fn k() { _ = a + b; }",
            "1:40: the overrides 'a' and 'b' have one @id, 1",
        ),
        (
            "let a = 1; @compute @workgroup_size(1) fn k() {  }",
            "1:1: a declaration is due (var, const, override, alias, struct, fn); 'let' stands in functions only, a constant of the module is a 'const', and here is 'let'",
        ),
        ("const a; @compute @workgroup_size(1) fn k() {  }", "1:8: '=' and a value are due behind the const 'a', and here is ';'"),
        ("enable f16, ; const a = 1; enable f16; @compute @workgroup_size(1) fn k() {  }", "1:35: 'enable' stands before all declarations"),
        (
            "#define N 4\n@compute @workgroup_size(1) fn k() {  }",
            "1:1: the character '#' has no meaning in WGSL, which has no preprocessor; use const and override, and Function.specialize",
        ),
        ("/* never /* ends */", "1:1: the comment that begins here does not end"),
        ("@compute @workgroup_size(1) fn k() { let a = 1 }", "1:48: ';' is due behind a statement, and here is '}'"),
        ("@compute @workgroup_size(1) fn k() { let a 1; }", "1:44: '=' and a value are due behind the let 'a', and here is '1'"),
        ("@compute @workgroup_size(1) fn k() { x[0] = ; }", "1:45: an expression is due, and here is ';'"),
        ("@compute @workgroup_size(1) fn k() { if (true) return; }", "1:48: '{' is due behind what stands before it, and here is 'return'"),
        ("@compute @workgroup_size(1) fn k() { a + b; }", "1:40: an assignment or a call is due, and here is '+'"),
        (
            "@compute @workgroup_size(1) fn k() { for (var i = 0; i < 3) {} }",
            "1:59: ';' is due behind the condition of 'for', and here is ')'",
        ),
        ("@compute @workgroup_size(1) fn k() { switch 1 { 2 {} } }", "1:49: 'case', 'default' or '}' is due, and here is '2'"),
        ("@compute @workgroup_size(1) fn k() { 1abc = 2; }", "1:38: '1abc' is neither a number nor a name"),
        ("@compute @workgroup_size(1) fn k() { ", "1:38: '}' is due, and here is the end of the source"),
        ("@compute @workgroup_size(1) fn k() { let __a = 1; }", "1:42: '__a' cannot be a name: it is '_', or begins with two of them"),
        (
            "@group(0) @binding(0) var<storage> x: array<f32, 4611686018427387904>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:39: an array of 18446744073709551616 bytes is no array of a shader",
        ),
        (
            "@group(0) @group(0) @binding(0) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:12: the attribute '@group' stands here twice",
        ),
        (
            "struct S { @align(3) a: u32 } @compute @workgroup_size(1) fn k() {  }",
            "1:22: @align(3) of 'a' is no power of two that is a multiple of 4",
        ),
        ("struct S { @size(1) a: u32 } @compute @workgroup_size(1) fn k() {  }", "1:21: @size(1) of 'a' is less than the 4 bytes of u32"),
        ("struct S { a: u32, a: u32 } @compute @workgroup_size(1) fn k() {  }", "1:20: 'S' has two members 'a'"),
        ("struct S { } @compute @workgroup_size(1) fn k() {  }", "1:8: the struct 'S' has no members"),
        ("override a: vec2f; @compute @workgroup_size(1) fn k() {  }", "1:10: an override is a bool or one number, and 'a' is vec2<f32>"),
    ],
)
def test_what_is_refused(source: str, text: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(source, "webgpu")
    assert str(caught.value) == f"the WGSL source is refused at <text>:{text}"
    assert caught.value.kind == "webgpu"


def test_the_log_shows_the_line() -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile("const a = 1;\n\tconst b: flaot = 2;", "webgpu")
    assert caught.value.log == (
        "<text>:2:11: error: 'flaot' is no type: it is declared nowhere, and WGSL has none of that name\n   const b: flaot = 2;\n            ^"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("fn f() { }", "the WGSL source <text> has no compute entry: no function in it is marked @compute"),
        ("", "the WGSL source <text> has no compute entry: no function in it is marked @compute"),
        (
            "@group(0) @binding(0) var<storage> x: array<f32>; @group(0) @binding(0) var<storage> y: array<f32>;\n"
            "@compute @workgroup_size(1) fn k() { _ = x[0] + y[0]; }",
            "the webgpu function 'k' at <text>:2 uses two variables at @group(0) @binding(0), 'x' and 'y'; give one of them another binding",
        ),
        (
            "@group(0) @binding(0) var<uniform> x: array<vec4f, 100000>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "the webgpu function 'k' at <text>:1 takes 'x' of 1600000 bytes as one value, which has to be 1 to 65535; make it a buffer",
        ),
    ],
)
def test_what_cannot_be_called(source: str, text: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(source, "webgpu")
    assert str(caught.value) == text


DEEP = {
    "brackets": "@compute @workgroup_size(" + "(" * 9999 + "1" + ")" * 9999 + ") fn k() { }",
    "braces": K.replace("{ }", "{" * 9999 + "}" * 9999),
    "unary": "@compute @workgroup_size(" + "-" * 9998 + "1) fn k() { }",
    "indices": K.replace("{ }", "{ _ = " + "x[" * 9999 + "]" * 9999 + "; }"),
    "templates": "var<private> x: " + "array<" * 9999 + "u32" + ", 1>" * 9999 + ";" + K,
    "aliases": "".join(f"alias A{i} = A{i + 1}; " for i in range(9999)) + "alias A9999 = u32;" + K,
    "constants": "".join(f"const A{i} = A{i + 1}; " for i in range(9999)) + "const A9999 = 1; @compute @workgroup_size(A0) fn k() { }",
    "else": K.replace("{ }", "{ " + "if true { } else " * 9999 + "{ } ; ? }"),
    "long": " " * (5 << 20) + K,
}


@pytest.mark.parametrize("name", DEEP)
def test_depth_and_length_have_bounds(name: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(DEEP[name], "webgpu")
    if name in ("brackets", "braces", "unary", "indices", "templates"):
        assert str(caught.value).endswith(": expressions and statements stand more than 127 deep in each other")
    if name == "long":
        assert str(caught.value) == f"the WGSL source <text> has {len(DEEP[name])} characters; the most is {4 << 20}"


def test_comments_and_functions_as_deep_as_one_likes() -> None:
    calls = "".join(f"fn g{i}() {{ g{i + 1}(); }} " for i in range(3000)) + "fn g3000() { _ = x[0]; }"
    module = devmod.compile(
        "/*" * 20000
        + "*/" * 20000
        + f"@group(0) @binding(0) var<storage> x: array<f32>; {calls} @compute @workgroup_size(1) fn k() {{ g0(); }}",
        "webgpu",
    )
    assert module.functions["k"].arg_types == ("handle",)


def test_anything_is_read_or_refused() -> None:
    """Shaders that were changed by chance: nothing but a CompileError comes of them."""
    rng = random.Random(20260)
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.wgsl"))]
    texts.append("@id(1) override A: u32 = 0x1fu; const B = vec3(1, 2, 3).y << 2; enable f16; @compute @workgroup_size(A, B) fn k() { }")
    parts = [
        *"(){}[]<>;,:.@=&|^!~-+*/%#\0\u2028\udc80é_",
        "0x",
        "1e999",
        "99999999999999999999",
        "/*",
        "*/",
        "//",
        "@id(",
        "array<",
        "override ",
    ]
    for number in range(1500):
        text = list(texts[number % len(texts)])
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(text))
            what = rng.randrange(4)
            if what == 0:
                del text[at : at + rng.randint(1, 30)]
            elif what == 1:
                text.insert(at, rng.choice(parts))
            elif what == 2:
                text[at:at] = text[rng.randrange(len(text)) :][: rng.randint(1, 60)]
            else:
                text[at] = rng.choice(parts)
            text = text or [" "]
        with contextlib.suppress(devmod.CompileError), warnings.catch_warnings(action="ignore"):
            devmod.compile("".join(text), "webgpu")


def test_a_name_that_nobody_has_is_told_of() -> None:
    with pytest.warns(UserWarning, match="mistyped") as caught:
        module = devmod.compile("@compute @workgroup_size(1) fn k() {\n let a = cis(1.0);\n _ = mxa(a, b); }", "webgpu")
    assert list(module.functions) == ["k"]
    assert [str(each.message) for each in caught] == [
        "the WGSL source <text> uses 'cis' at <text>:2, and 'mxa', 'b', which it does not declare and WGSL does not have: a name mistyped, or "
        "one that some implementations add. What compiles the source where it is received has the last word"
    ]
    assert caught[0].filename == __file__


# -- naga


def put_naga(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    program = folder / "naga"
    program.write_text(f"#!{sys.executable} -IS\nimport sys\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for naga is a script, which Windows does not run")
def test_naga_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "error: no definition in scope for identifier: `nonsense`\\n  ┌─ k.wgsl:1:34\\n  │\\n1 │ nonsense();\\n"
    put_naga(
        tmp_path,
        monkeypatch,
        f"assert sys.argv[1] == 'k.wgsl' and 'nonsense' in open(sys.argv[1]).read()\nsys.stderr.buffer.write('{said}'.encode()); sys.exit(1)",
    )
    path = tmp_path / "k.wgsl"
    path.write_text(K.replace("{ }", "{ nonsense(); }"), encoding="utf-8")
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(path, "webgpu")
    assert str(caught.value) == (
        "naga refuses the WGSL source k.wgsl:\n  error: no definition in scope for identifier: `nonsense`\n  ┌─ k.wgsl:1:34\n  │\n  1 │ nonsense();"
    )
    assert caught.value.log == said.replace("\\n", "\n").strip()


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for naga is a script, which Windows does not run")
@pytest.mark.parametrize("body", ["", "sys.exit(2)", "print('usage: naga FILE', file=sys.stderr); sys.exit(2)"])
@pytest.mark.row("R38")
def test_the_payload_is_the_same_with_and_without_naga(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = devmod.compile(TWO, "webgpu")
    put_naga(tmp_path, monkeypatch, body)
    with_naga = devmod.compile(TWO, "webgpu")
    assert with_naga.save_to_bytes() == without.save_to_bytes()
    assert with_naga.origin == without.origin
