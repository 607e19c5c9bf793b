"""Sources of several kernels of which clspv does not compile all: the error names the kernels with
their lines, and ``--partial`` keeps the others.
"""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_by
from each_case import refusal

import devmod
from devmod_targets.authoring import _process

pytestmark = [
    pytest.mark.skipif(find_spec("clang") is None, reason="libclang is not installed"),
    pytest.mark.skipif(
        find_spec("pyclspv") is None,
        reason="pyclspv is not installed: it has wheels for Linux on x86-64 alone",
    ),
]
FIRST = "kernel void first(global float *x) { x[0] = 1; }\n"
#: pyclspv 0.0.1 ends with signal 11 on two loops before a branch.
CRASHING = """kernel void crashing(global uint *x, int n, local float *sums, global float *means) {
  int i = get_local_id(0), step = get_local_size(0);
  float sum = 0;
  for (int a = i; a < n; a += step) sum += x[a];
  sums[i] = sum;
  float other = 0;
  for (int b = i; b < n; b += step) other += x[b];
  if (i < 16) sums[i] += sums[i + 16];
  means[0] = sums[0] + other;
}
"""
PRINTING = 'kernel void printing(global float *x) {\n  printf("%f", x[0]);\n}\n'
LAST = "kernel void last(global float *x) { x[0] = 2; }\n"
SOURCE = FIRST + CRASHING + PRINTING + LAST
CRASH = f"k.cl:2: error: the kernel 'crashing': pyclspv {version('pyclspv')} cannot compile k.cl: its process ends with signal 11."
NO_PRINTS = "k.cl:13:3: error: printf has no output on Vulkan. Put it under #ifndef VULKAN, or write the values to an array"
LEFT_OUT = {"crashing": "k.cl:2", "printing": "k.cl:12"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which has the source. pyclspv compiles it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVMOD_CLSPV", "")
    monkeypatch.setenv("PATH", "")
    (tmp_path / "k.cl").write_text(SOURCE)
    return tmp_path


def refused(source: str, **given: Any) -> str:
    Path("k.cl").write_text(source)
    return refusal(devmod.CompileError, devmod.compile, Path("k.cl"), "vulkan", **given)


def compiled(source: str, **given: Any) -> tuple[devmod.Module, list[str]]:
    """Return the module of a partial compile, and its warnings."""
    Path("k.cl").write_text(source)
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        module = devmod.compile(Path("k.cl"), "vulkan", options=["--partial"], **given)
    return module, [str(each.message) for each in records]


def names_of(source: str) -> list[str]:
    return list(compiled(source)[0].functions)


# -- one source


def test_the_error_names_each_kernel_and_the_option() -> None:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(Path("k.cl"), "vulkan")
    assert str(caught.value).startswith(CRASH)
    assert str(caught.value).endswith(
        " (and 1 more in .log). The option --partial leaves out 'crashing', 'printing', and keeps 'first', 'last'"
    )
    first, second = caught.value.log.splitlines()
    assert first.startswith(CRASH)
    assert second == NO_PRINTS
    assert caught.value.function == "crashing"


def test_partial_keeps_exactly_the_others() -> None:
    module, texts = compiled(SOURCE)
    assert list(module.functions) == ["first", "last"]
    assert len(texts) == 2
    assert texts[0].startswith(f"the kernel 'crashing' is left out: {CRASH}")
    assert texts[1] == f"the kernel 'printing' is left out: {NO_PRINTS}"
    without = FIRST + "\n" * CRASHING.count("\n") + "\n" * 3 + LAST
    assert module.code == compiled(without)[0].code  # type: ignore[attr-defined]
    assert module.origin
    assert module.origin.options == ()
    assert module.origin.extra == {"left_out": LEFT_OUT}
    stored = devmod.loads(devmod.dumps(module)).origin
    assert stored == module.origin


def test_a_complete_compile_is_the_same_with_the_option() -> None:
    Path("k.cl").write_text(FIRST + LAST)
    module, texts = compiled(FIRST + LAST)
    assert not texts
    assert devmod.dumps(module) == devmod.dumps(devmod.compile(Path("k.cl"), "vulkan"))
    of_opencl = devmod.compile(Path("k.cl"), "opencl", options=["--partial"])
    assert devmod.dumps(of_opencl) == devmod.dumps(devmod.compile(Path("k.cl"), "opencl"))


def test_without_a_kernel_that_compiles_it_is_an_error() -> None:
    for options in ([], ["--partial"]):
        text = refused(CRASHING + PRINTING, options=options)
        assert text.startswith(CRASH.replace(":2:", ":1:"))
        assert text.endswith(" (and 1 more in .log)")
        text = refused(PRINTING, options=options)
        assert text == NO_PRINTS.replace(":13:", ":2:")


def test_a_kernel_is_left_out_for_what_it_calls() -> None:
    helper = 'void show(float x) { printf("%f", x); }\n'
    calling = "kernel void calling(global float *x) { show(x[0]); }\n"
    assert names_of(helper + FIRST + calling) == ["first"]
    assert names_of(LAST + CRASHING + FIRST) == ["last", "first"]
    of_kernel = "kernel void second(global uint *x, local float *s, global float *m) { crashing(x, 3, s, m); }"
    assert names_of(FIRST + CRASHING + of_kernel) == ["first"]
    assert names_of(FIRST + CRASHING + "kernel void second(global float *x) { first(x); }") == [
        "first",
        "second",
    ]


#: Sources, and the kernels that are kept.
FORMS = {
    "a prototype": (
        "kernel void crashing(global uint *x, int n, local float *sums, global float *means);\n"
        + FIRST
        + CRASHING,
        ["first"],
    ),
    "an attribute, in one line with another kernel": (
        FIRST.rstrip() + " __attribute__((reqd_work_group_size(64, 1, 1))) " + CRASHING + LAST,
        ["first", "last"],
    ),
    "characters of several bytes": (
        "/* ü→ */" + FIRST + "/* é */ " + CRASHING + LAST,
        ["first", "last"],
    ),
    "a macro that the next kernel uses": (
        CRASHING.replace("  float sum", "#define TWO \\\n  2\n  float sum")
        + LAST.replace("= 2", "= TWO"),
        ["last"],
    ),
    "a head in two branches, and a directive in a comment": (
        "#ifdef VULKAN\n"
        + CRASHING.replace(
            "{\n", "{ /*\n#else\n*/\n#else\nkernel void other(global float *x) {\n#endif\n", 1
        )
        + LAST,
        ["last"],
    ),
    "kernels of a macro": (
        "#define KERNEL(name, value) kernel void name(global float *x) { x[0] = value; }\n"
        "#define MANY(body) kernel void crashing(global float *x) body\n"
        + "KERNEL(one, 1) KERNEL(two, 2) MANY({ for (;;); })\n",
        ["one", "two"],
    ),
    "a macro of two kernels, one of which crashes": (
        "#define BOTH kernel void one(global float *x) { for (;;); } kernel void two(global float *x) {}\n"
        "BOTH\n" + FIRST,
        ["first"],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_kernels_are_left_out_of_each_form_of_a_source(form: str) -> None:
    source, kept = FORMS[form]
    assert names_of(source) == kept


def test_defaults_and_declarations_may_name_what_is_left_out() -> None:
    given: dict[str, Any] = {
        "block": {"crashing": 64, "first": 32},
        "local": {"crashing": {"sums": devmod.Local(256)}},
        "fmap": {
            "crashing": devmod.FunctionInfo("crashing", ("handle", "int32", "handle", "handle"))
        },
    }
    functions = compiled(SOURCE, **given)[0].functions
    assert list(functions) == ["first", "last"]
    assert functions["first"].interface
    assert functions["first"].interface.default_block == (32, 1, 1)
    assert "no such function" in refused(FIRST + LAST, block={"crashing": 64})


def test_a_time_limit_is_not_met_for_each_kernel(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = folder / "clspv"
    program.write_text(
        f"#!{sys.executable}\nimport sys, time\n"
        "if '--version' in sys.argv: sys.exit('clspv version 16.0.1')\n"
        "open('" + str(folder / "runs") + "', 'a').write('.')\ntime.sleep(60)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("DEVMOD_CLSPV", str(program))
    monkeypatch.setattr(_process, "TIMEOUT", 1)
    text = refused(FIRST + LAST, options=["--partial"])
    assert text == f"{program} was stopped: it exceeded the time limit of 1 seconds"
    assert (folder / "runs").read_text() == "."


# -- invalid SPIR-V


def test_invalid_spirv_is_named_by_the_line_of_the_source() -> None:
    text = refused(
        FIRST
        + "kernel void k(global float *x, uint at) {\n  global float *y = (global float *)at;\n  y[0] = x[0];\n}\n"
    )
    assert text.startswith(
        "k.cl:3: error: clspv compiles this to invalid SPIR-V (Opcode ConvertUToPtr "
    )
    assert text.endswith(
        "). Vulkan makes no pointers from integers: use an index. The option --partial leaves out 'k', and keeps 'first'"
    )
    Path("part.h").write_text(
        "\n\nglobal float *from(uint at) {\n  return (global float *)at;\n}\n"
    )
    text = refused(
        '#include "part.h"\nkernel void k(global float *x, uint at) { *from(at) = x[0]; }\n'
    )
    assert text.startswith("part.h:4: error: clspv compiles this to invalid SPIR-V (Opcode Conv")


def test_what_is_no_cause_of_a_crash_is_not_named() -> None:
    rest = "  if (i < 16) sums[i] += sums[i + 16];"
    table = "  local uint table[4][8];\n  table[i / 8][i % 8] = i;\n"
    source = CRASHING.replace(rest, f"{table}  atomic_add(&table[0][i], (uint)sum);\n{rest}")
    assert "Possible causes" not in refused(source)


# -- a size_t of 64 bits


def test_a_source_that_needs_a_size_t_of_32_bits_is_refused_for_both_kinds() -> None:
    source = (
        "kernel void k(global uint *x) {\n  x[0] = min((uint)3 + get_local_size(0), x[1]);\n}\n"
    )
    error = "the OpenCL C source does not compile: k.cl:2:10: error: call to 'min' is ambiguous"
    assert refused(source) == f"{error}, where size_t has 64 bits, as on most devices of OpenCL"
    assert refusal(devmod.CompileError, devmod.compile, Path("k.cl"), "opencl") == error
    cast = source.replace("get_local_size(0)", "(uint)get_local_size(0)")
    assert names_of(cast) == ["k"]


# -- the commands


def test_the_command_keeps_the_others_with_status_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("compile", "k.cl", "-t", "opencl", "-t", "vulkan", "-o", "k.devmod")
    text = printed_by(capsys, *command, status=1).err
    assert "1 of 2 compiles failed, and nothing was written; --partial keeps the others" in text
    assert not (folder / "k.devmod").exists()
    captured = printed_by(capsys, *command, "--partial", status=1)
    assert captured.err.endswith(
        "devmod: error: 1 of 2 compiles left out kernels, and k.devmod has the others:\n"
        "  k.cl for vulkan: without 'crashing' (k.cl:2), 'printing' (k.cl:12)\n"
    )
    assert f"devmod: warning: the kernel 'printing' is left out: {NO_PRINTS}\n" in captured.err
    of_opencl, of_vulkan = devmod.load("k.devmod").imports
    assert list(of_opencl.functions) == ["first", "crashing", "printing", "last"]
    assert list(of_vulkan.functions) == ["first", "last"]
    shown = printed_by(capsys, "inspect", "k.devmod").out
    assert "  left out, for they did not compile: crashing, printing\n" in shown

    (folder / "other.cl").write_text(PRINTING.replace("printing", "other"))
    command = ("compile", "k.cl", "other.cl", "-t", "vulkan", "--partial", "-o", "2.devmod")
    lines = printed_by(capsys, *command, status=1).err.splitlines()[-3:]
    assert lines[0] == "devmod: error: 1 of 2 compiles failed, and 2.devmod has the others:"
    assert lines[1].startswith("  other.cl for vulkan: other.cl:2:3: error: printf ")
    assert lines[2].startswith("  k.cl for vulkan: without 'crashing' (k.cl:2), ")
    command = ("compile", "other.cl", "-t", "vulkan", "--partial", "-o", "none.devmod")
    assert "other.cl:2:3: error: printf" in printed_by(capsys, *command, status=1).err
    assert not (folder / "none.devmod").exists()


def test_a_build_keeps_the_others_with_status_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good.cl").write_text("kernel void good(global float *x) { x[0] = 3; }\n")
    (folder / "devmod.toml").write_text(
        'output = "k.devmod"\ntargets = ["vulkan"]\n[kernels.k]\nsources = ["k.cl"]\n[kernels.good]\nsources = ["good.cl"]\n'
    )
    command = ("build", "--cache", "cache", "-j", "1")
    captured = printed_by(capsys, *command, status=1)
    assert "The option --partial leaves out 'crashing', 'printing'" in captured.err
    assert not (folder / "k.devmod").exists()
    for _ in range(2):  # the part is not stored, and the other result was
        captured = printed_by(capsys, *command, "--partial", status=1)
        assert "left out 'crashing' (k.cl:2), 'printing' (k.cl:12), for --partial" in captured.err
        assert "the kernel 'crashing' is left out: " in captured.err
        assert captured.out.rstrip().endswith("1 from the cache, 1 failed")
        assert set(devmod.load("k.devmod")) == {"first", "last", "good"}
    (folder / "k.cl").write_text(FIRST + LAST)
    printed_by(capsys, *command, "--partial")
    assert "up to date" in printed_by(capsys, *command).out
