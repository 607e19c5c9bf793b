"""OpenCL C as SPIR-V (`opencl -format=il`): the payload, the built-in functions, and the errors.
OpenCL C for other kinds is an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from backend_checks import code_of
from each_case import refusal
from opencl_calls import CALLS, kernel_of

import devmod
from devmod_targets.authoring import zig

pytestmark = pytest.mark.once  # what clang makes of a source

AXPY = "kernel void axpy(global float *y, global const float *x, float a, int n) { int i = get_global_id(0); if (i < n) y[i] += a * x[i]; }\n"
IL = "opencl -format=il"


def build(source: str, target: str = IL, **arguments: object) -> devmod.Module:
    return devmod.compile(source, target, language="OpenCL C", **arguments)  # type: ignore[arg-type]


@pytest.mark.row("R14", "R16")
def test_the_payload() -> None:
    module = build(AXPY)
    assert (module.kind, module.format) == ("opencl", "il")
    assert module.functions["axpy"].arg_types == ("handle", "handle", "float32", "int32")
    interface = module.functions["axpy"].interface
    assert interface is not None
    assert [(param.name, param.kind, param.type, param.access) for param in interface.params] == [
        ("y", "buffer", "float32", "rw"),
        ("x", "buffer", "float32", "r"),
        ("a", "scalar", "float32", ""),
        ("n", "scalar", "int32", ""),
    ]
    assert interface.open_block
    assert code_of(module)[:4] == b"\x03\x02\x23\x07"
    assert code_of(module) == code_of(build(AXPY))


def test_each_function_compiles() -> None:
    # LLVM does not compile a source with printf and the copies of a work-group to SPIR-V.
    calls = {name: call for name, call in CALLS.items() if name != "printf"}
    source = "".join(kernel_of(f"call_{name}", call) for name, call in calls.items())
    assert len(build(source, options=["-cl-std=CL2.0", "-w"]).functions) == len(calls)
    assert build(kernel_of("k", CALLS["printf"])).functions.keys() == {"k"}


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "float helper(float x);\nkernel void k(global float *x) { x[0] = helper(x[0]); }",
            IL,
            "the OpenCL C source does not compile: <text>:2:41: error: the program calls the function 'helper', which it does not define",
        ),
        (
            "kernel void k(read_only image2d_t a, global int *x) { x[0] = get_image_channel_order(a); }",
            IL,
            "<text>:1: error: the program calls the built-in function 'get_image_channel_order' with types for which clang has no SPIR-V. "
            "Use the source (the target 'opencl')",
        ),
        (
            "kernel void k(global int *x) {\n  x[0] = y;\n}",
            IL,
            "the OpenCL C source does not compile: <text>:2:10: error: use of undeclared",
        ),
        (
            "int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nkernel void k(global int *x) { x[0] = f(x[1]); }",
            IL,
            "<text>:1: error: the function 'f' calls itself, and OpenCL C has no recursion: use a loop",
        ),
        (
            "int __attribute__((overloadable)) f(int n);\nint g(int n) { return f(n); }\n"
            "int __attribute__((overloadable)) f(int n) { return n ? g(n - 1) : 0; }\nkernel void k(global int *x) { x[0] = f(x[1]); }",
            IL,
            "<text>:2: error: the function 'g' calls itself through 'f', and OpenCL C has no recursion: use a loop",
        ),
        (
            '// f(\nconstant char text[] = "f(";\n'
            "int f(int n) { return n ? f(n - 1) : text[0]; }\nkernel void k(global int *x) { x[0] = f(x[1]); }",
            IL,
            "<text>:3: error: the function 'f' calls itself, and OpenCL C has no recursion: use a loop",
        ),
        (
            "void f() {}",
            IL,
            "the OpenCL C source <text> has no kernel: mark a function with __kernel",
        ),
        (
            AXPY,
            "opencl -format=spv",
            "the target 'opencl -format=spv' has the option -format=spv; expected -format=cl (the default) or -format=il",
        ),
        (
            AXPY,
            "metal",
            "metal has no language 'OpenCL C'; its languages: 'MSL', 'Slang'",
        ),
    ],
)
def test_errors(source: str, target: str, message: str) -> None:
    assert refusal(devmod.CompileError, build, source, target).startswith(message)


def test_inline_functions_beside_one_of_another_file() -> None:
    """clang crashes on their linkage."""
    text = "inline float f(float x) { return x * x; }\nextern inline float g(float x) { return x + 1; }\n"
    text += "kernel void k(global float *x) { x[0] = f(g(x[0])); }"
    module = build(text)
    assert [*module.functions] == ["k"]


CRASH = "clang frontend command failed with exit code 139 (use -v to see invocation)"


@pytest.mark.parametrize(
    ("crashes", "what"),
    [
        ("h", "k.cl:2: error: clang crashes on the function 'h'"),
        ("", "k.cl: error: clang crashes on the program"),
    ],
)
def test_a_crash_of_clang_names_the_function(
    crashes: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_zig = zig.run_zig

    def crash(arguments: Any, files: Any, *rest: Any, **named: Any) -> zig.ZigResult:
        """Crash where clang writes SPIR-V for the function's body, or for any of several."""
        text = b"".join(files.values()).decode()
        bodies = set(re.findall(r"^define .*@(\w+)\(", text, re.MULTILINE))
        if "-c" in arguments and (not bodies or len(bodies) > 1 or crashes in bodies):
            return zig.ZigResult(1, f"zig: error: {CRASH}\n", b"")
        return run_zig(arguments, files, *rest, **named)

    for module in ("clang", "_il"):
        monkeypatch.setattr(f"devmod_targets.opencl.{module}.run_zig", crash)
    file = tmp_path / "k.cl"
    file.write_text(
        "int g(int x) { return x + 1; }\nint h(int x) { return x * 2; }\nkernel void k(global int *x) { x[0] = h(g(x[0])); }\n"
    )
    assert refusal(devmod.CompileError, devmod.compile, file, IL) == (
        f"{what} when it writes SPIR-V. Compile the source instead (the target 'opencl' without -format=il), or change the function"
    )


def test_the_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(AXPY)
    assert refusal(devmod.CompileError, devmod.compile, tmp_path / "k.cl", "metal") == (
        "k.cl is OpenCL C by its suffix, a source for opencl; metal takes MSL (.metal), Slang (.slang). If the suffix is wrong, pass the "
        "language: devmod.compile(…, language='MSL')"
    )


def test_without_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "ziglang" else real(name, *rest),
    )
    with pytest.raises(
        devmod.ToolchainNotFoundError, match=re.escape('pip install "devmod-core[build-opencl-il]"')
    ):
        build(AXPY)
