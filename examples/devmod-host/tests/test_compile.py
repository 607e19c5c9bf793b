"""The build side: payloads, and the errors of invalid sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import devmod


def param(module: devmod.Module, name: str) -> list[tuple[str, str, str]]:
    interface = module.functions[name].interface
    assert interface is not None
    return [(each.name, each.kind, each.type) for each in interface.params]


def test_kernels_are_functions_that_are_neither_static_nor_inline() -> None:
    module = devmod.compile(
        "static int helper(void) { return 1; }\n"
        "inline int other(void) { return 2; }\n"
        "void prototype(int *x);\n"
        "void a(int *x) { *x = helper(); }\n"
        "void b(void) {}\n",
        "host",
    )
    assert list(module.functions) == ["a", "b"]


def test_signatures_are_read() -> None:
    module = devmod.compile(
        "#include <stdint.h>\n#include <stddef.h>\n"
        "typedef float real; struct pair { double a; int b; }; enum mode { ONE, TWO };\n"
        "void k(const real *x, real *restrict y, uint8_t c[], float m[][4], struct pair *p, void *v,\n"
        "       size_t n, long l, unsigned short h, _Bool flag, enum mode mode, char c1) {}",
        "host",
    )
    assert param(module, "k") == [
        ("x", "buffer", "float32"),
        ("y", "buffer", "float32"),
        ("c", "buffer", "uint8"),
        ("m", "buffer", "float32"),
        ("p", "buffer", "uint8x16"),
        ("v", "buffer", ""),
        ("n", "scalar", "uint64"),
        ("l", "scalar", "int64"),
        ("h", "scalar", "uint16"),
        ("flag", "scalar", "bool"),
        ("mode", "scalar", "uint32"),
        ("c1", "scalar", "int8"),
    ]
    interface = module.functions["k"].interface
    assert interface is not None
    assert [each.access for each in interface.params[:2]] == ["r", "rw"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "void k(int *x)\n{\n    *x = 1\n}",
            "the C source does not compile: <text>:3:11: expected ';' after expression",
        ),
        (
            "void k(int *x) { *x = nothing(1); }",
            "the C source does not compile: <text>:1:23: call to undeclared function 'nothing'; "
            "ISO C99 and later do not support implicit function declarations",
        ),
        (
            "#include <omp.h>\nvoid k(void) {}",
            "the C source does not compile: <text>:1:10: <omp.h> is not a header that a host payload may include; expected one of: "
            "assert.h, float.h, limits.h, math.h, stdbool.h, stddef.h, stdint.h, stdlib.h, string.h",
        ),
        (
            "\nint k(int *x) { return *x; }",
            "<text>:2: the function 'k' returns int, and a kernel returns void. Write the result through a pointer, "
            "or make a helper static",
        ),
        (
            "void k(int n, float **rows) {}",
            "<text>:1: the kernel 'k' takes 'float **' as argument 2 'rows', which devmod cannot pass; "
            "expected a number, or a pointer to numbers or structs",
        ),
        (
            "struct s { int a; }; void k(struct s v) {}",
            "<text>:1: the kernel 'k' takes 'struct s' as argument 1 'v', which devmod cannot pass; "
            "expected a number, or a pointer to numbers or structs",
        ),
        pytest.param(
            f"void k(int *x) {{ *x = {'- ' * 50_000}1; }}",
            "libclang crashes on the C source <text>: an expression, a statement or brackets are nested too deeply. "
            "Split it into steps, with variables or a loop",
            id="too deep",
        ),
        (
            "static void k(void) {}",
            "the C source <text> has no kernel: it defines no function that is neither static nor inline",
        ),
    ],
)
def test_an_invalid_source_is_an_error_with_its_line(source: str, message: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(source, "host")
    assert str(caught.value) == message


def test_lines_of_errors_are_those_of_the_source_after_an_include(tmp_path: Path) -> None:
    (tmp_path / "tile.h").write_text("#define TILE 4\n\n")
    (tmp_path / "k.c").write_text(
        '#include "tile.h"\nvoid k(int *x) { *x = TILE; }\nvoid l(int *x) { *x = }\n'
    )
    with pytest.raises(
        devmod.CompileError,
        match=r"^the C source does not compile: k\.c:3:23: expected expression$",
    ):
        devmod.compile(tmp_path / "k.c", "host", defines={"N": 4})


def test_options_that_run_programs_are_refused() -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile("void k(void) {}", "host", options="-O3 -fplugin=evil")
    assert str(caught.value) == (
        "a host payload cannot have the option '-fplugin=evil': only options for optimization, language and processor are allowed"
    )


@pytest.mark.row("R38")
def test_a_payload_does_not_depend_on_the_build_machine(tmp_path: Path) -> None:
    """Without a C compiler, in another folder and with other headers the bytes are the same."""
    script = "import sys, devmod; sys.stdout.buffer.write(devmod.compile(open('k.c').read(), 'host').save_to_bytes())"
    results = set()
    for name, path in (("a", os.environ["PATH"]), ("b", str(tmp_path))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "k.c").write_text("#include <math.h>\nvoid k(float *x) { *x = sqrtf(*x); }")
        env = {"PATH": path, "DEVMOD_COMPILE_FORCE_FALLBACK": "1", "C_INCLUDE_PATH": str(folder)}
        results.add(
            subprocess.run(
                [sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, check=True
            ).stdout
        )
    assert len(results) == 1
