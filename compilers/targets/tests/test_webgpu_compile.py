"""The compiler of WGSL: payloads, error texts, and the check by naga."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import sys
import warnings
from pathlib import Path

import pytest
from each_case import raised, refusal

import devmod

K = "@compute @workgroup_size(1) fn k() { }"
EXAMPLES = Path(__file__).parents[3] / "examples" / "webgpu"
TWO = "@compute @workgroup_size(1) fn one() { }\n@compute @workgroup_size(2) fn two() { }\n"


PATH_OF_MACHINE = os.environ.get("PATH")


@pytest.fixture(autouse=True)
def no_naga(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide a naga that is installed on this machine."""
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
    assert module.inspect_source() == TWO
    assert module.origin == devmod.Origin(
        "webgpu",
        "devmod WGSL reader 1",
        (),
        {"pair.wgsl": hashlib.sha256(TWO.encode()).hexdigest()},
    )
    assert module.functions["two"].launch_param_tags == (
        "blockIdx.x",
        "blockIdx.y",
        "blockIdx.z",
        "threadIdx.x",
        "threadIdx.y",
        "threadIdx.z",
    )


def test_an_entry_called_main_has_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "softmax.wgsl"
    path.write_text("@compute @workgroup_size(1) fn main() { }", encoding="utf-8")
    assert {key: info.name for key, info in devmod.compile(path, "webgpu").functions.items()} == {
        "softmax": "main"
    }
    assert list(devmod.compile(path, "webgpu", name="other").functions) == ["other"]
    assert list(devmod.compile(path.read_text("utf-8"), "webgpu").functions) == ["main"]
    assert refusal(
        devmod.CompileError, devmod.compile, TWO.replace("one", "main"), "webgpu", name="two"
    ) == (
        "the WGSL source <text> has the entry points 'main' and 'two', and the function name of 'main' is also 'two'; "
        "pass another name in name="
    )


def test_a_declared_fmap_is_checked_and_names_the_function() -> None:
    text = "@group(0) @binding(0) var<storage> x: array<f32>; @compute @workgroup_size(4) fn k() { _ = x[0]; }"
    module = devmod.compile(text, "webgpu", fmap={"mine": devmod.FunctionInfo("k", [])})
    assert module.functions["mine"].name == "k"
    assert module.functions["mine"].arg_types == ("handle",)
    for fmap, wrong in (
        (
            {"mine": devmod.FunctionInfo("j", [])},
            "the declared fmap maps 'mine' to the webgpu function 'j', which is missing in the source. Functions in the source: 'k'",
        ),
        (
            {"k": devmod.FunctionInfo("k", ["handle"] * 2)},
            "the declared fmap gives the webgpu function 'k' 2 arguments; at <text>:1 it has 1",
        ),
        (
            {"k": devmod.FunctionInfo("k", ["float32"])},
            "the declared fmap gives argument 1 ('x') of the webgpu function 'k' the type 'float32'; at <text>:1 it is 'handle'",
        ),
    ):
        assert refusal(devmod.CompileError, devmod.compile, text, "webgpu", fmap=fmap) == wrong


@pytest.mark.parametrize(
    ("target", "options", "text"),
    [
        (
            "webgpu -arch=sm_90",
            {},
            "the target 'webgpu -arch=sm_90' names an architecture, and webgpu has none. Use the target 'webgpu'",
        ),
        (
            "webgpu",
            {"options": "-O2"},
            "the webgpu target accepts no options but -DNAME=VALUE, got '-O2'",
        ),
        (
            "webgpu",
            {"name_expressions": ["k<f32>"]},
            "name_expressions= is not supported for WGSL, which has no templates",
        ),
    ],
)
def test_arguments_for_other_languages_are_refused(
    target: str, options: dict[str, object], text: str
) -> None:
    message = refusal(devmod.CompileError, devmod.compile, K, target, **options)
    assert message == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("@compute fn k() {}", "1:13: the compute entry 'k' has no @workgroup_size(…)"),
        (
            "@compute @workgroup_size(0) fn k() {}",
            "1:32: the @workgroup_size of 'k' contains 0; expected integers from 1",
        ),
        (
            "@compute @workgroup_size(1.5) fn k() {}",
            "1:34: the @workgroup_size of 'k' contains 1.5; expected integers from 1",
        ),
        (
            "@compute @workgroup_size(1,1,1,1) fn k() {}",
            "1:38: the @workgroup_size of 'k' has 4 numbers; expected one to three",
        ),
        (
            "@compute @workgroup_size(N) fn k() {}",
            "1:26: expected a constant expression, got the undeclared name 'N'",
        ),
        (
            "fn N() {} @compute @workgroup_size(N) fn k() {}",
            "1:36: expected a constant expression, got the fn 'N'",
        ),
        (
            "const a = a + 1; @compute @workgroup_size(a) fn k() {}",
            "1:7: the const 'a' depends on itself",
        ),
        (
            "@compute @workgroup_size(1 / 0) fn k() {}",
            "1:28: this constant expression is invalid: its value is undefined or out of range",
        ),
        (
            "@compute @workgroup_size(1 << 70) fn k() {}",
            "1:28: this constant expression is invalid: its value is undefined or out of range",
        ),
        (
            "enable f16; @compute @workgroup_size(u32(f16(65520))) fn k() {}",
            "1:42: this constant expression is invalid: its value is undefined or out of range",
        ),
        (
            "@compute @workgroup_size(4294967296u) fn k() {}",
            "1:26: this constant expression is invalid: its value is undefined or out of range",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<i64>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:45: the type i64 has 64 bits, which WGSL does not support; use two u32, or the target vulkan",
        ),
        (
            "@compute @workgroup_size(1) fn k() { let a = 1lu; }",
            "1:46: the type u64 has 64 bits, which WGSL does not support; use two u32, or the target vulkan",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<f16>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:45: f16 requires the extension f16; write 'enable f16;' before all declarations",
        ),
        (
            "@compute @workgroup_size(1) fn k() { let a = 1.5h; }",
            "1:46: f16 requires the extension f16; write 'enable f16;' before all declarations",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<bool>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:36: the variable 'x' contains bool, which is not allowed in storage memory; use u32",
        ),
        (
            "struct S { a: u32, b: vec2<bool> } @group(0) @binding(0) var<uniform> x: S; @compute @workgroup_size(1) fn k() { _ = x.a; }",
            "1:71: the variable 'x' contains vec2<bool>, which is not allowed in uniform memory",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<flaot>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:45: unknown type 'flaot': it is neither declared nor predeclared in WGSL",
        ),
        (
            "struct S { a: T } @compute @workgroup_size(1) fn k() {  }",
            "1:15: unknown type 'T': it is neither declared nor predeclared in WGSL",
        ),
        (
            "struct S { a: S } @compute @workgroup_size(1) fn k() {  }",
            "1:8: the struct 'S' contains itself",
        ),
        (
            "alias A = B; alias B = A; @compute @workgroup_size(1) fn k() {  }",
            "1:7: the alias 'A' contains itself",
        ),
        (
            "@group(0) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:24: the variable 'x' has no @binding(…)",
        ),
        (
            "@binding(0) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:26: the variable 'x' has no @group(…)",
        ),
        (
            "var x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:5: the variable 'x' has no address space; write for example var<storage, read_write> or var<private>",
        ),
        (
            "@group(0) @binding(-1) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:37: the @binding of 'x' is invalid; expected one constant integer from 0",
        ),
        (
            "@group(0) @binding(0) var<storage, write> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:43: the variable 'x' has the access mode 'write'; expected read or read_write",
        ),
        (
            "var<push_constant> x: u32; @compute @workgroup_size(1) fn k() { _ = x; }",
            (
                "1:20: the variable 'x' has the address space 'push_constant'; expected storage, uniform, private or workgroup"
            ),
        ),
        (
            "struct S { a: array<f32>, b: u32 } @compute @workgroup_size(1) fn k() {  }",
            "1:12: the member 'a' has no fixed size, which is allowed for the last member only",
        ),
        (
            "@group(0) @binding(0) var<uniform> x: array<f32, 4>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            (
                "1:36: the uniform 'x' contains array<f32, 4> with a stride of 4 bytes; expected a multiple of 16. Use "
                "vectors of four as elements, or a storage variable"
            ),
        ),
        (
            "@group(0) @binding(0) var<uniform> x: array<vec4f>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:36: the uniform 'x' contains an array without a length; make it a storage variable",
        ),
        (
            "@group(0) @binding(0) var<uniform> x: atomic<u32>; @compute @workgroup_size(1) fn k() { _ = &x; }",
            "1:36: the uniform 'x' contains atomic<u32>; make it a storage variable",
        ),
        (
            "struct T { x: f32 } struct S { t: T, b: f32 } @group(0) @binding(0) var<uniform> x: S; @compute @workgroup_size(1) fn k() { _ = x.b; }",
            (
                "1:82: the uniform 'x' has a member 4 bytes after the start of T; expected a multiple of 16. Add @align(16) to that member"
            ),
        ),
        (
            "struct T { x: f32 } struct S { b: f32, t: T } @group(0) @binding(0) var<uniform> x: S; @compute @workgroup_size(1) fn k() { _ = x.b; }",
            "1:82: the uniform 'x' contains T at the offset 4; expected a multiple of 16. Add @align(16)",
        ),
        (
            "override N: u32; @group(0) @binding(0) var<storage> x: array<f32, N>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:53: the length of the array 'x' depends on an override, which is allowed in workgroup memory only",
        ),
        (
            "const a = 1; const a = 2; @compute @workgroup_size(1) fn k() {  }",
            "1:20: 'a' is declared twice; the first time at <text>:1",
        ),
        (
            "@id(1) override a = 1; @id(1) override b = 2; @compute @workgroup_size(1) fn k() { _ = a + b; }",
            "1:40: the overrides 'a' and 'b' have the same @id, 1",
        ),
        (
            "let a = 1; @compute @workgroup_size(1) fn k() {  }",
            (
                "1:1: expected a declaration (var, const, override, alias, struct, fn), got 'let'; 'let' is allowed in "
                "functions only, use 'const' at module scope"
            ),
        ),
        (
            "const a; @compute @workgroup_size(1) fn k() {  }",
            "1:8: expected '=' and a value after the const 'a', got ';'",
        ),
        (
            "enable f16, ; const a = 1; enable f16; @compute @workgroup_size(1) fn k() {  }",
            "1:35: 'enable' must precede all declarations",
        ),
        ("/* never /* ends */", "1:1: this comment has no end; expected '*/'"),
        (
            "@compute @workgroup_size(1) fn k() { let a = 1 }",
            "1:48: expected ';' after a statement, got '}'",
        ),
        (
            "@compute @workgroup_size(1) fn k() { let a 1; }",
            "1:44: expected '=' and a value after the let 'a', got '1'",
        ),
        (
            "@compute @workgroup_size(1) fn k() { x[0] = ; }",
            "1:45: expected an expression, got ';'",
        ),
        (
            "@compute @workgroup_size(1) fn k() { if (true) return; }",
            "1:48: expected '{' after the previous token, got 'return'",
        ),
        (
            "@compute @workgroup_size(1) fn k() { a + b; }",
            "1:40: expected an assignment or a call, got '+'",
        ),
        (
            "@compute @workgroup_size(1) fn k() { for (var i = 0; i < 3) {} }",
            "1:59: expected ';' after the condition of 'for', got ')'",
        ),
        (
            "@compute @workgroup_size(1) fn k() { switch 1 { 2 {} } }",
            "1:49: expected 'case', 'default' or '}', got '2'",
        ),
        (
            "@compute @workgroup_size(1) fn k() { 1abc = 2; }",
            "1:38: '1abc' is neither a valid number nor a valid name",
        ),
        ("@compute @workgroup_size(1) fn k() { ", "1:38: expected '}', got the end of the source"),
        (
            "@compute @workgroup_size(1) fn k() { let __a = 1; }",
            "1:42: '__a' is not a valid name: a name cannot be '_' or begin with '__'",
        ),
        (
            "@compute @workgroup_size(1) fn smooth() {}",
            "1:32: 'smooth' is not a valid name: WGSL reserves the word. Choose another name",
        ),
        (
            "struct S { type: u32 }",
            "1:12: 'type' is not a valid name: WGSL reserves the word. Choose another name",
        ),
        (
            "@group(0) @binding(0) var<storage> x: array<f32, 4611686018427387904>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:39: the array has 18446744073709551616 bytes; expected at most 4611686018427387904",
        ),
        (
            "@group(0) @group(0) @binding(0) var<storage> x: array<f32>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "1:12: the attribute '@group' is repeated",
        ),
        (
            "struct S { @align(3) a: u32 } @compute @workgroup_size(1) fn k() {  }",
            "1:22: the member 'a' has @align(3); expected a power of two that is a multiple of 4",
        ),
        (
            "struct S { @size(1) a: u32 } @compute @workgroup_size(1) fn k() {  }",
            "1:21: the member 'a' has @size(1); expected at least 4 for u32",
        ),
        (
            "struct S { a: u32, a: u32 } @compute @workgroup_size(1) fn k() {  }",
            "1:20: 'S' has two members 'a'",
        ),
        (
            "struct S { } @compute @workgroup_size(1) fn k() {  }",
            "1:8: the struct 'S' has no members",
        ),
        (
            "override a: vec2f; @compute @workgroup_size(1) fn k() {  }",
            "1:10: the override 'a' has the type vec2<f32>; expected bool, i32, u32, f32 or f16",
        ),
    ],
)
def test_errors_in_the_source_are_refused_with_line_and_column(source: str, text: str) -> None:
    error = raised(devmod.CompileError, devmod.compile, source, "webgpu")
    assert str(error) == f"the WGSL source is refused at <text>:{text}"
    assert error.kind == "webgpu"


def test_the_log_shows_the_line() -> None:
    error = raised(
        devmod.CompileError, devmod.compile, "const a = 1;\n\tconst b: flaot = 2;", "webgpu"
    )
    assert error.log == (
        "<text>:2:11: error: unknown type 'flaot': it is neither declared nor predeclared in WGSL\n   const b: flaot = 2;\n            ^"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "fn f() { }",
            "the WGSL source <text> has no compute entry: mark a function with @compute",
        ),
        ("", "the WGSL source <text> has no compute entry: mark a function with @compute"),
        (
            "@group(0) @binding(0) var<storage> x: array<f32>; @group(0) @binding(0) var<storage> y: array<f32>;\n"
            "@compute @workgroup_size(1) fn k() { _ = x[0] + y[0]; }",
            "the webgpu function 'k' at <text>:2 uses two variables at @group(0) @binding(0), 'x' and 'y'; give one of them another binding",
        ),
        (
            "@group(0) @binding(0) var<uniform> x: array<vec4f, 100000>; @compute @workgroup_size(1) fn k() { _ = x[0]; }",
            "the webgpu function 'k' at <text>:1 takes 'x' of 1600000 bytes by value; expected 1 to 65535 bytes. Make it a buffer",
        ),
    ],
)
def test_sources_that_devmod_cannot_call_are_refused(source: str, text: str) -> None:
    assert refusal(devmod.CompileError, devmod.compile, source, "webgpu") == text


DEEP = {
    "brackets": "@compute @workgroup_size(" + "(" * 9999 + "1" + ")" * 9999 + ") fn k() { }",
    "braces": K.replace("{ }", "{" * 9999 + "}" * 9999),
    "unary": "@compute @workgroup_size(" + "-" * 9998 + "1) fn k() { }",
    "indices": K.replace("{ }", "{ _ = " + "x[" * 9999 + "]" * 9999 + "; }"),
    "templates": "var<private> x: " + "array<" * 9999 + "u32" + ", 1>" * 9999 + ";" + K,
    "aliases": "".join(f"alias A{i} = A{i + 1}; " for i in range(9999)) + "alias A9999 = u32;" + K,
    "constants": "".join(f"const A{i} = A{i + 1}; " for i in range(9999))
    + "const A9999 = 1; @compute @workgroup_size(A0) fn k() { }",
    "else": K.replace("{ }", "{ " + "if true { } else " * 9999 + "{ } ; ? }"),
    "long": " " * (5 << 20) + K,
}


@pytest.mark.parametrize("name", DEEP)
def test_depth_and_length_have_bounds(name: str) -> None:
    text = refusal(devmod.CompileError, devmod.compile, DEEP[name], "webgpu")
    if name in ("brackets", "braces", "unary", "indices", "templates"):
        assert text.endswith(": expressions and statements are nested more than 127 levels deep")
    if name == "long":
        assert (
            text
            == f"the WGSL source <text> has {len(DEEP[name])} characters; the most is {4 << 20}"
        )


def test_nesting_of_comments_and_calls_is_unlimited() -> None:
    calls = (
        "".join(f"fn g{i}() {{ g{i + 1}(); }} " for i in range(3000)) + "fn g3000() { _ = x[0]; }"
    )
    module = devmod.compile(
        "/*" * 20000
        + "*/" * 20000
        + f"@group(0) @binding(0) var<storage> x: array<f32>; {calls} @compute @workgroup_size(1) fn k() {{ g0(); }}",
        "webgpu",
    )
    assert module.functions["k"].arg_types == ("handle",)


def test_random_changes_raise_compile_errors_only() -> None:
    """Shaders with random changes raise no other error than CompileError."""
    rng = random.Random(20260)
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.wgsl"))]
    texts.append(
        "@id(1) override A: u32 = 0x1fu; const B = vec3(1, 2, 3).y << 2; enable f16; @compute @workgroup_size(A, B) fn k() { }"
    )
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
    for number in range(600):
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


def test_unknown_names_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="unknown name") as caught:
        module = devmod.compile(
            "@compute @workgroup_size(1) fn k() {\n let a = cis(1.0);\n _ = mxa(a, b); }", "webgpu"
        )
    assert list(module.functions) == ["k"]
    assert [str(each.message) for each in caught] == [
        "the WGSL source <text> uses the unknown name 'cis' at <text>:2, and 'mxa', 'b'. It is neither declared nor predeclared in WGSL: "
        "correct it, or ignore this warning for an extension. The receiver's compiler decides"
    ]
    assert caught[0].filename == __file__


# -- naga


PACKAGES = Path(__file__).parents[3] / "extras" / "browser" / "js" / "node_modules"


@pytest.fixture
def naga_wasm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make npm's package appear to be installed globally."""
    node = shutil.which("node", path=PATH_OF_MACHINE)
    if os.name == "nt" or node is None or not (PACKAGES / "naga-wasm").is_dir():
        pytest.skip(
            "node and npm's naga-wasm are not here, or not for POSIX (make test-setup installs the package)"
        )
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "node_modules").mkdir(parents=True)
    program = tmp_path / "bin" / "node"
    program.write_text(f'#!/bin/sh\nexec "{node}" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "lib" / "node_modules" / "naga-wasm").symlink_to(PACKAGES / "naga-wasm")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"]))


HEAD = "struct S { a: f32 }\n@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@group(0) @binding(1) var<storage, read_write> s: S;\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "s.b = 1.0;",
            "invalid field accessor `b`\n   @compute @workgroup_size(1) fn k() { s.b = 1.0; }\n",
        ),
        ("let n = 2u; x[0] = n * x[1];", "Entry point k at Compute is invalid: Expression ["),
        ("x[0] = nonsense(1.0);", "no definition in scope for identifier: `nonsense`\n"),
    ],
)
def test_npms_naga_checks_types(body: str, said: str, naga_wasm: None) -> None:
    place, _, sentence = (
        refusal(
            devmod.CompileError,
            devmod.compile,
            f"{HEAD}@compute @workgroup_size(1) fn k() {{ {body} }}",
            "webgpu",
        )
        .partition(": ")[2]
        .partition(": ")
    )
    assert place.startswith("<text>:4:")
    assert sentence.startswith(said)


def test_npms_naga_names_the_included_file(naga_wasm: None, tmp_path: Path) -> None:
    (tmp_path / "k.wgsl").write_text(
        f'{HEAD}#include "part.wgsl"\n@compute @workgroup_size(1) fn k() {{ x[0] = part(s); }}\n'
    )
    (tmp_path / "part.wgsl").write_text(
        "#define MEMBER b\n#define OF(s, name) s.name\nfn part(s: S) -> f32 {\n return OF(s, MEMBER);\n}\n"
    )
    assert refusal(devmod.CompileError, devmod.compile, tmp_path / "k.wgsl", "webgpu").startswith(
        "naga refuses the WGSL source: part.wgsl:4:11: invalid field accessor `b`\n    return s.b;\n"
    )


@pytest.mark.row("R38")
def test_npms_naga_does_not_change_the_payload(
    naga_wasm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = HEAD + "@compute @workgroup_size(1) fn k() { x[0] = s.a; }"
    newer = (
        "enable subgroups;\n"
        + HEAD
        + "@compute @workgroup_size(1) fn k() { x[0] = subgroupAdd(s.a); }"
    )
    module = devmod.compile(plain, "webgpu")
    with pytest.warns(
        UserWarning,
        match="naga cannot check the WGSL source: <text>:1:8: the `subgroups` enable-extension is not yet supported",
    ):
        made_newer = devmod.compile(newer, "webgpu")
    monkeypatch.setenv("PATH", "")
    assert module.save_to_bytes() == devmod.compile(plain, "webgpu").save_to_bytes()
    assert made_newer.save_to_bytes() == devmod.compile(newer, "webgpu").save_to_bytes()
    assert module.origin == devmod.compile(plain, "webgpu").origin


#: A node that is asked for the package of the folder in its last argument, and finds one error.
NODE = "import os, sys\nassert os.getcwd() == os.path.dirname(sys.argv[-1])\nprint('error: by ' + sys.argv[-1])"


def put_program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{sys.executable} -IS\n{body}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def put_package(prefix: Path) -> Path:
    package = prefix / "lib" / "node_modules" / "naga-wasm"
    (package / "dist" / "wasm").mkdir(parents=True)
    (package / "dist" / "wasm" / "naga_bg.wasm").write_bytes(b"")
    return package


@pytest.mark.skipif(
    os.name == "nt", reason="the stand-in for node is a script, which Windows does not run"
)
@pytest.mark.parametrize(
    "place",
    [
        "variable",
        "node",
        "~/.npmrc",
        "etc/npmrc",
        "$NPM_CONFIG_USERCONFIG",
        "$npm_config_globalconfig",
    ],
)
def test_npms_package_is_where_npm_installs_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    for folder in (project, project / "node_modules"):
        put_package(folder)  # a stranger's
    monkeypatch.chdir(project)
    put_program(tmp_path / "bin", "node", NODE)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("NPM_CONFIG_PREFIX", ".")
    assert devmod.compile(K, "webgpu")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    own = tmp_path if place == "node" else tmp_path / "home" / "own"
    package = put_package(own)
    if place == "variable":
        monkeypatch.setenv("NPM_CONFIG_PREFIX", str(own))
    elif place != "node":
        monkeypatch.delenv("NPM_CONFIG_PREFIX")
        path = tmp_path / place.replace("~", "home").lstrip("$")
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"; prefix = /nowhere\nprefix={project}\nregistry=x\n prefix = '${{HOME}}/own' \n"
        )
        if place.startswith("$"):
            monkeypatch.setenv(path.name, str(path))
    with pytest.raises(devmod.CompileError, match=f"naga refuses the WGSL source: .*by {package}"):
        devmod.compile(K, "webgpu")


@pytest.mark.skipif(
    os.name == "nt", reason="the stand-in for naga is a script, which Windows does not run"
)
def test_strict_needs_naga(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "naga is not installed, or it failed. To install it: npm install -g naga-wasm@30, or cargo install naga-cli"
    plain = devmod.compile(K, "webgpu")
    assert (
        refusal(devmod.CompileError, devmod.compile, K, "webgpu", options="--strict")
        == f"--strict needs a validator for the WGSL source: {missing}"
    )
    with pytest.raises(
        devmod.CompileError,
        match=r"^--strict turns this warning into an error: the WGSL source <text> uses the unknown name 'a'",
    ):
        devmod.compile(K.replace("{ }", "{ _ = a; }"), "webgpu", options="--strict")
    put_naga(tmp_path, monkeypatch, "")
    assert devmod.compile(K, "webgpu", options="--strict").save_to_bytes() == plain.save_to_bytes()
    put_naga(
        tmp_path, monkeypatch, "print('error: not yet supported', file=sys.stderr); sys.exit(1)"
    )
    with pytest.raises(
        devmod.CompileError,
        match=r"^--strict turns this warning into an error: naga cannot check the WGSL source",
    ):
        devmod.compile(K, "webgpu", options="--strict")


def put_naga(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    program = folder / "naga"
    program.write_text(f"#!{sys.executable} -IS\nimport sys\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.skipif(
    os.name == "nt", reason="the stand-in for naga is a script, which Windows does not run"
)
def test_naga_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "error: no definition in scope for identifier: `nonsense`\\n  ┌─ k.wgsl:1:34\\n  │\\n1 │ nonsense();\\n"
    put_naga(
        tmp_path,
        monkeypatch,
        f"assert sys.argv[1] == 'k.wgsl' and 'nonsense' in open(sys.argv[1]).read()\nsys.stderr.buffer.write('{message}'.encode()); sys.exit(1)",
    )
    path = tmp_path / "k.wgsl"
    path.write_text(K.replace("{ }", "{ nonsense(); }"), encoding="utf-8")
    error = raised(devmod.CompileError, devmod.compile, path, "webgpu")
    assert str(error) == (
        "naga refuses the WGSL source: k.wgsl:1:34: no definition in scope for identifier: `nonsense`\n   nonsense();"
    )
    assert error.log == message.replace("\\n", "\n").strip()


@pytest.mark.skipif(
    os.name == "nt", reason="the stand-in for naga is a script, which Windows does not run"
)
@pytest.mark.parametrize(
    "body", ["", "sys.exit(2)", "print('usage: naga FILE', file=sys.stderr); sys.exit(2)"]
)
@pytest.mark.row("R38")
def test_the_payload_is_the_same_with_and_without_naga(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = devmod.compile(TWO, "webgpu")
    put_naga(tmp_path, monkeypatch, body)
    with_naga = devmod.compile(TWO, "webgpu")
    assert with_naga.save_to_bytes() == without.save_to_bytes()
    assert with_naga.origin == without.origin
