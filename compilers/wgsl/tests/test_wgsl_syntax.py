"""The syntax of WGSL: what each construct takes, and what it expects instead of another token."""

from __future__ import annotations

import pytest
from each_case import refusal

import devmod
from devmod.errors import CompileError
from devmod_wgsl import read_wgsl

MAIN = "@compute @workgroup_size(1) fn main() { }"
#: Statements that are valid.
STATEMENTS = [
    *["", ";;", "{ }", "return;", "return 1;", "discard;", "const_assert 1 < 2;"],
    *["if 1 { }", "if (1) { } else { }", "if 1 { } else if 2 { } else if 3 { } else { }"],
    *[
        "while 1 { }",
        "loop { }",
        "loop { continuing { break if 1; } }",
        "loop { break; continue; }",
    ],
    *["for (;;) { }", "for (var i = 0; i < 3; i++) { }", "for (a = 1; ; a -= 2) { }"],
    *[
        "switch 1 { }",
        "switch 1 { case 1: { } }",
        "switch 1 { case 1, 2, default { } default: { } }",
    ],
    *["switch (1) @diagnostic(off, a) { case 1, : { } case 2, { } }"],
    *["var a;", "var a: u32;", "var<private> a = 1;", "let a = 1;", "const a: u32 = 1;", "_ = 1;"],
    *["a();", "a(1, 2);", "a(1, 2,);", "a++;", "a.b[1]--;", "*a = 1;", "(*a).b = 1;", "a <<= 1;"],
    *[
        "a >>= 1;",
        "a |= b & c;",
        "@diagnostic(off, a) { }",
        "_ = a - -b; _ = a--b;",
        "_ = !a && ~b == -c;",
    ],
    *[
        "_ = a[b[c]];",
        "_ = array<vec2<f32>, 3>();",
        "_ = a.b.c;",
        "_ = true || false;",
        "_ = 0x1p4f;",
    ],
]
#: Statements, and the end of the error of each.
INVALID: list[tuple[str, str]] = [
    ("return 1 }", "expected ';' after 'return' and its value, got '}'"),
    ("discard }", "expected ';' after 'discard', got '}'"),
    ("break 1; }", "expected ';' after 'break', got '1'"),
    ("break if 1 }", "expected ';' after 'break', got '}'"),
    ("continue 1; }", "expected ';' after 'continue', got '1'"),
    ("const_assert 1 }", "expected ';' after const_assert, got '}'"),
    ("a() }", "expected ';' after a statement, got '}'"),
    ("a = 1 b }", "expected ';' after a statement, got 'b'"),
    ("if { }", "expected an expression, got '{'"),
    ("if 1 a; }", "expected '{' after the previous token, got 'a'"),
    ("if 1 { } else a; }", "expected '{' after the previous token, got 'a'"),
    ("if 1 { } else if { } }", "expected an expression, got '{'"),
    ("while { }", "expected an expression, got '{'"),
    ("while 1; }", "expected '{' after the previous token, got ';'"),
    ("loop 1 }", "expected '{' after the previous token, got '1'"),
    ("for a; ; { }", "expected '(' after 'for', got 'a'"),
    ("for (var a { }", "expected ';' after the beginning of 'for', got '{'"),
    ("for (; 1) { }", "expected ';' after the condition of 'for', got ')'"),
    ("for (;; a++; { }", "expected ')' after the step of 'for', got ';'"),
    ("for (;;) a; }", "expected '{' after the previous token, got 'a'"),
    ("switch { }", "expected an expression, got '{'"),
    ("switch 1 case 1 { }", "expected '{' after the value of 'switch', got 'case'"),
    ("switch 1 { a { } }", "expected 'case', 'default' or '}', got 'a'"),
    ("switch 1 { case { } }", "expected an expression, got '{'"),
    ("switch 1 { default a }", "expected '{' after the previous token, got 'a'"),
    ("var 1; }", "expected a name after 'var', got '1'"),
    ("let a; }", "expected '=' and a value after the let 'a', got ';'"),
    ("const a: u32; }", "expected '=' and a value after the const 'a', got ';'"),
    ("var a: 1; }", "expected a type, got '1'"),
    ("var a: if; }", "expected a type, got 'if'"),
    ("_ 1; }", "expected '=' after '_', got '1'"),
    ("a; }", "expected an assignment or a call, got ';'"),
    ("a == 1; }", "expected an assignment or a call, got '='"),
    ("a <= 1; }", "expected an assignment or a call, got '<'"),
    ("a != 1; }", "expected an assignment or a call, got '!'"),
    ("a >= 1; }", "expected an assignment or a call, got '>'"),
    ("a + 1; }", "expected an assignment or a call, got '+'"),
    ("a[1 = 2; }", "expected ']' after an index, got '='"),
    ("a.1 = 2; }", "expected an assignment or a call, got '.1'"),
    ("a.; }", "expected a member's name after '.', got ';'"),
    ("_ = (1; }", "expected ')' after an expression, got ';'"),
    ("_ = a(1; }", "expected ')' after an argument, got ';'"),
    ("_ = a(1 2); }", "expected ')' after an argument, got '2'"),
    ("_ = ; }", "expected an expression, got ';'"),
    ("_ = if; }", "expected an expression, got 'if'"),
    ("_ = 1 +; }", "expected an expression, got ';'"),
    ("@diagnostic(off, a) a(); }", "expected a statement that accepts attributes, got 'a'"),
    ("@diagnostic(off { }", "expected ')', got '{'"),
    ("@1 { }", "expected an attribute's name after '@', got '1'"),
    ("var __a = 1; }", "'__a' is not a valid name: a name cannot be '_' or begin with '__'"),
    ("let _ = 1; }", "'_' is not a valid name: a name cannot be '_' or begin with '__'"),
    (
        "let class = 1; }",
        "'class' is not a valid name: WGSL reserves the word. Choose another name",
    ),
    ("{ ", "expected '}', got the end of the source"),
]
#: Declarations that are valid.
DECLARATIONS = [
    *[";", "enable f16;", "enable f16, subgroups,;", "requires a, b;", "diagnostic(off, a);"],
    *["const_assert 1 < 2;", "const a = 1;", "const a: u32 = 1;", "override a: u32;"],
    *[
        "@id(3) override a: u32 = 1 + 2;",
        "alias a = u32;",
        "var<private> a: u32;",
        "struct a { b: u32 }",
    ],
    *["struct a { @size(16) b: u32, c: vec3<f32>, }", "var<private> a: u32 = 1;"],
    *[
        "fn a() { }",
        "fn a(b: u32) -> u32 { }",
        "fn a(b: u32, c: f32,) { }",
        "@must_use fn a() -> @location(0) f32 { }",
    ],
]
INVALID_DECLARATIONS: list[tuple[str, str]] = [
    ("enable;", "expected an extension's name after 'enable'"),
    ("enable f16", "expected ';' after enable, got the end of the source"),
    ("enable 1;", "expected an extension's name, got '1'"),
    ("alias a = u32; enable f16;", "'enable' must precede all declarations"),
    ("alias a = u32; requires b;", "'requires' must precede all declarations"),
    ("diagnostic(off, a)", "expected ';' after a diagnostic directive, got the end of the source"),
    ("diagnostic off;", "expected '(' after this word, got 'off'"),
    ("diagnostic(off;", "expected ')', got ';'"),
    ("const_assert 1", "expected ';' after const_assert, got the end of the source"),
    ("const a;", "expected '=' and a value after the const 'a', got ';'"),
    ("const a = 1", "expected ';' after the const 'a', got the end of the source"),
    ("override a = 1 fn", "expected ';' after the override 'a', got 'fn'"),
    ("let a = 1;", "'let' is allowed in functions only, use 'const' at module scope"),
    ("a = 1;", "expected a declaration (var, const, override, alias, struct, fn), got 'a'"),
    ("alias a u32;", "expected '=' after an alias, got 'u32'"),
    ("alias = u32;", "expected a name after 'alias', got '='"),
    ("alias a = u32", "expected ';' after the alias 'a', got the end of the source"),
    ("var<1> a: u32;", "expected an address space or an access mode, got '1'"),
    ("var<private; a", "expected '>' after an address space, got ';'"),
    ("struct a b: u32 }", "expected '{' after a struct's name, got 'b'"),
    ("struct a { b u32 }", "expected ':' after the member 'b', got 'u32'"),
    ("struct a { b: u32; }", "expected '}' after a member, got ';'"),
    ("struct a { 1: u32 }", "expected a member's name, got '1'"),
    ("struct a { b: u32, b: f32 }", "'a' has two members 'b'"),
    ("fn a { }", "expected '(' after a function's name, got '{'"),
    ("fn a(b) { }", "expected ':' after the parameter 'b', got ')'"),
    ("fn a(b: u32 c: u32) { }", "expected ')' after a parameter, got 'c'"),
    ("fn a(b: u32, b: u32) { }", "'a' has two parameters 'b'"),
    ("fn a() - u32 { }", "expected '>' after '-', got 'u32'"),
    ("fn a() -> { }", "expected a type, got '{'"),
    ("fn a() ;", "expected '{' after the previous token, got ';'"),
    ("@id(1) @id(2) override a: u32;", "the attribute '@id' is repeated"),
    ("@id(1 override a: u32;", "expected ')' after the value of '@id', got 'override'"),
    ("fn a() { } fn a() { }", "'a' is declared twice; the first time at "),
    ("const a: vec2<f32 = 1;", "expected '=' and a value after the const 'a', got '<'"),
    ("override a;", "the override 'a' has neither a type nor a value"),
    ("struct a { }", "the struct 'a' has no members"),
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement(statement: str) -> None:
    assert [*read_wgsl(f"{MAIN} fn f() {{ {statement} }}", "the shader")] == ["main"]


@pytest.mark.parametrize(("statement", "problem"), INVALID)
def test_an_invalid_statement(statement: str, problem: str) -> None:
    text = f"{MAIN} fn f() {{ {statement}"
    assert refusal(CompileError, read_wgsl, text, "the shader").endswith(problem)


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_a_declaration(declaration: str) -> None:
    assert [*read_wgsl(f"{declaration} {MAIN}", "the shader")] == ["main"]


@pytest.mark.parametrize(("declaration", "problem"), INVALID_DECLARATIONS)
def test_an_invalid_declaration(declaration: str, problem: str) -> None:
    assert problem in refusal(CompileError, read_wgsl, declaration, "the shader")


@pytest.mark.parametrize("arguments", ["", "<>", "<u32, 2, 3>"])
def test_the_arguments_of_an_array(arguments: str) -> None:
    text = f"@group(0) @binding(0) var<storage> a: array{arguments}; {MAIN.replace('{ }', '{ _ = a; }')}"
    problem = "array requires an element type and an optional length, for example array<f32, 4>"
    assert problem in refusal(CompileError, devmod.compile, text, "webgpu")


@pytest.mark.parametrize(("number", "is_refused"), [(0, False), (65535, False), (65536, True)])
def test_the_id_of_an_override(number: int, is_refused: bool) -> None:
    used = MAIN.replace("{ }", "{ _ = a; }")
    text = f"@id({number}) override a: u32 = 1; {used}"
    if is_refused:
        problem = "the @id of 'a' is 65536; expected at most 65535"
        assert problem in refusal(CompileError, devmod.compile, text, "webgpu")
    else:
        assert [*devmod.compile(text, "webgpu").functions] == ["main"]
