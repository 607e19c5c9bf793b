"""Reports that an option requests of a compiler: registers and spills of kernels, and remarks of
optimizers.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from backend_checks import run_python
from command_line import printed_by
from each_case import refusal

import devmod
from devmod_targets.authoring import CompilerReport

TWICE = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n'
LOOP = "void loop(int *x, int n) { for (int i = 0; i < n; i++) x[i] *= 3; }\n"
PTX_REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'twice' for '{arch}'
ptxas info    : Function properties for twice
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used # registers, used 0 barriers"""


def compiled(
    source: Any, target: str, *options: str, **more: Any
) -> tuple[devmod.Module, list[str], list[str]]:
    """Return the module, the warnings and the reports, in which a number of registers is #."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always", UserWarning)
        module = devmod.compile(source, target, options=options, **more)
    own = [each for each in records if issubclass(each.category, UserWarning)]
    assert {each.filename for each in own} <= {__file__}
    reports = [
        re.sub(r"Used \d+ (registers, used 0 barriers).*", r"Used # \1", str(each.message))
        for each in own
        if is_report(each)
    ]
    return module, [str(each.message) for each in own if not is_report(each)], reports


def is_report(record: warnings.WarningMessage) -> bool:
    return issubclass(record.category, CompilerReport)


def test_nvrtc_reports_the_registers_for_each_architecture() -> None:
    text = TWICE.replace("{", "{ int unused;")
    _, texts, reports = compiled(text, "cuda -arch=sm_80,sm_90", "-Xptxas=-v")
    assert reports == [
        f"the compiler's report on <text> for {arch}:\n{PTX_REPORT.format(arch=arch)}"
        for arch in ("sm_80", "sm_90")
    ]
    assert all("warning #177-D" in each for each in texts)
    assert len(texts) == 2
    _, texts, (report,) = compiled(
        TWICE, "cuda -arch=sm_80,compute_80 -format=fatbin", "--ptxas-options=-v", "--werror"
    )
    assert (texts, report) == (
        [],
        f"the compiler's report on <text> for sm_80:\n{PTX_REPORT.format(arch='sm_80')}",
    )
    assert compiled(TWICE, "cuda -arch=sm_80")[1:] == ([], [])
    assert compiled(TWICE, "cuda -arch=compute_80", "-Xptxas=-v")[1:] == ([], [])  # no assembler


REMARKS = """
import json, warnings
import devmod
texts = []
warnings.simplefilter("always")
warnings.showwarning = lambda message, *_: texts.append(str(message))
for options in ("-opt-info=inline", ""):
    devmod.compile({text!r}, "cuda -arch=sm_80", options=options)
print(json.dumps(texts))
"""


def test_remarks_of_nvrtc_are_for_the_compile_that_requests_them() -> None:
    text = f"__device__ __noinline__ float f(float x) {{ return x * x; }}\n{TWICE.replace('*= 2', '= f(x[1])')}"
    # In a process of its own, because NVRTC prints remarks in all later compiles of the process.
    (report,) = json.loads(run_python(REMARKS.format(text=text)))
    head, *lines = report.split("\n")
    assert head == "the compiler's report on <text> for sm_80:"
    assert (
        re.sub(r":\d+: ", ": ", lines[0])
        == "remark: <text>:2: _Z1ff not inlined into twice because it should never be inlined (cost=never)"
    )
    assert len(set(lines)) == len(lines)


def test_the_assembler_reports_on_ptx() -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    ptx = devmod.compile(TWICE, "cuda -arch=compute_80").code  # type: ignore[attr-defined]
    fmap = {"twice": devmod.FunctionInfo("twice", ["handle"])}
    module, texts, (report,) = compiled(bytes(ptx), "cuda -arch=sm_80", "-Xptxas=-v", fmap=fmap)
    assert (texts, report) == (
        [],
        f"the assembler's report on <text> for sm_80:\n{PTX_REPORT.format(arch='sm_80')}",
    )
    assert module.origin is not None
    assert module.origin.options == ("-Xptxas=-v",)
    for target, options, how in (
        ("cuda -arch=sm_80", ["-Xptxas=-O1"], "takes the option -Xptxas=-v alone"),
        ("cuda", ["-Xptxas=-v"], "is stored as it is"),
    ):
        assert (
            refusal(
                devmod.CompileError, devmod.compile, bytes(ptx), target, options=options, fmap=fmap
            )
            == f"options=, defines=, include= and name_expressions= are for sources; the PTX <text> {how}"
        )


def test_clang_reports_the_registers_of_a_hip_kernel() -> None:
    _, texts, (report,) = compiled(
        TWICE, "rocm -arch=gfx90a", "-Rpass-analysis=kernel-resource-usage", "--werror"
    )
    assert texts == []
    _, (text,), _ = compiled(TWICE.replace("{", "{ int s; x += s;"), "rocm -format=hip", "-Wall")
    assert text.startswith(
        "<text>:1:58: warning: variable 's' is uninitialized when used here [-Wuninitialized]\n"
    )
    assert "generated" not in text
    assert report.startswith(
        "clang's report on <text>:\n<text>:1:1: remark: Function Name: twice [-Rpass-analysis=kernel-resource-usage]\n"
    )
    assert (
        "\n<text>:1:1: remark:     VGPRs Spill: 0 [-Rpass-analysis=kernel-resource-usage]" in report
    )


def test_remarks_and_warnings_of_clang_are_apart(tmp_path: Path) -> None:
    (tmp_path / "loop.h").write_text(f"static inline int bad(void) {{ int s; return s; }}\n{LOOP}")
    (tmp_path / "k.c").write_text('#include "loop.h"\nint use(int *x) { return bad() + x[0]; }\n')
    _, (text,), (report,) = compiled(
        tmp_path / "k.c", "hexagon -arch=v68", "-Rpass=loop-unroll", "-Wall"
    )
    assert text.split("\n")[:2] == [
        "In file included from k.c:1:",
        "loop.h:1:45: warning: variable 's' is uninitialized when used here [-Wuninitialized]",
    ]
    assert "remark" not in text
    head, first, *_ = report.split("\n")
    assert head == "clang's report on k.c:"
    assert first.startswith("loop.h:2:28: remark: ")
    assert "warning" not in report


def test_a_build_prints_the_reports_again_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVMOD_BUILD_CACHE", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("k.c").write_text(LOOP)
    Path("devmod.toml").write_text(
        'targets = ["hexagon -arch=v68"]\n[kernels.k]\nsources = ["k.c"]\noptions = ["-Rpass=loop-unroll", "--werror"]\n'
    )
    note = "devmod: note: k.c for hexagon -arch=v68: clang's report on k.c:\nk.c:1:28: remark: "
    for status in ("compiled", "unchanged", "cached"):
        if status == "cached":
            Path("kernels.devmod").unlink()
        error = printed_by(capfd, "build").err
        assert note in error, (status, error)
        assert "warning" not in error
    (job,) = json.loads(printed_by(capfd, "build", "--json").out)["jobs"]
    assert job["status"] == "cached"
    assert "warnings" not in job
    assert job["reports"][0].startswith("clang's report on k.c:\n")
    assert b"remark" not in Path("kernels.devmod").read_bytes()
    monkeypatch.setenv("CI", "true")
    assert (
        "::notice file=k.c,title=k.c for hexagon -arch=v68::clang's report on k.c:%0A"
        in printed_by(capfd, "build").out
    )
    assert printed_by(
        capfd,
        "compile",
        "k.c",
        "-t",
        "hexagon -arch=v68",
        "--option=-Rpass=loop-unroll",
        "--werror",
    ).err.startswith("devmod: note: clang's report on k.c:\n")
