"""The command `devmod build`: what it prints, its exit status, and what it leaves behind when it is
interrupted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from build_project import KERNEL, is_running, wait_for, write_kernels
from command_line import printed_by
from interruptible import interruptible_python
from support import runner_commands

import devmod
from devmod_targets.build.plan import Job
from devmod_targets.build.pool import Pool
from devmod_targets.build.result import Outcome
from devmod_workbench._cli import main

COMMAND = [sys.executable, "-m", "devmod", "build"]
BROKEN = "\nkernel void k1(global float *x) { x[0] = ; }\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is a project with two kernels."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    write_kernels(tmp_path / "p", 2)
    monkeypatch.chdir(tmp_path / "p")
    return tmp_path / "p"


def hide_times(text: str) -> str:
    return re.sub(r"\d+\.\d\d\b( s\))?", lambda match: f"#.##{match[1] or ''}", text)


def test_a_build_prints_a_line_for_each_compile_and_a_table(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    captured = printed_by(capfd, "build", "-j", "1")
    assert hide_times(captured.err) == (
        "2 compiles, 1 worker\n[1/2] compiled k0.cl for opencl (#.## s)\n[2/2] compiled k1.cl for opencl (#.## s)\n"
    )
    size = f"{(project / 'k.devmod').stat().st_size / 1000:.1f} kB"
    assert hide_times(captured.out) == (
        f"target  compiled  cached  failed  CPU seconds\nopencl  2         0       0       #.##\nk.devmod: {size}, 2 compiled\n"
    )
    assert printed_by(capfd, "build") == (f"k.devmod is up to date: {size}, 2 from the cache\n", "")
    assert printed_by(capfd, "build", "-q") == ("", "")


def test_a_failure_is_printed_when_it_comes_and_at_the_end(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "k1.cl").write_text(BROKEN)
    captured = printed_by(capfd, "build", "-j", "1", status=1)
    assert hide_times(captured.err) == (
        "2 compiles, 1 worker\n"
        "[1/2] compiled k0.cl for opencl (#.## s)\n"
        "[2/2] failed k1.cl for opencl (#.## s)\n"
        "    the OpenCL C source does not compile: k1.cl:2:42: error: expected expression\n"
    )
    assert hide_times(captured.out) == (
        "target  compiled  cached  failed  CPU seconds\n"
        "opencl  1         0       1       #.##\n"
        "k.devmod was not written: 1 compiled, 1 failed\n"
        "  failed k1.cl for opencl\n"
    )
    assert not (project / "k.devmod").exists()
    assert printed_by(capfd, "build", "-q", status=1).out.endswith(
        "  k1.cl for opencl: the OpenCL C source does not compile: k1.cl:2:42: error: expected expression\n"
    )


def test_a_build_and_a_compile_print_each_line_of_a_log_once(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "k1.cl").write_text("kernel void k1(global float *x) {\n  x[0] = ;\n  x[1] = ;\n}\n")
    lines = [
        "the OpenCL C source does not compile:",
        *(f"k1.cl:{line}:10: error: expected expression" for line in (2, 3)),
    ]
    assert printed_by(capfd, "build", "-j", "1", status=1).err.splitlines()[3:] == [
        f"    {line}" for line in lines
    ]
    assert printed_by(capfd, "compile", "k1.cl", "-t", "opencl", status=1).err.splitlines() == [
        "devmod: error: " + lines[0],
        *lines[1:],
    ]
    (project / "k1.cl").write_text(
        '#include "x.h"\nkernel void k1(global float *x) {\n  x[0] = ;\n}\n'
    )
    (project / "x.h").write_text("#include <y.h>\n")
    assert printed_by(capfd, "build", "-j", "1", status=1).err.splitlines()[2:] == [
        "    the OpenCL C source does not compile: x.h:1:10: error: 'y.h' file not found. No folder was searched: include is empty. "
        'Add the folder that contains it: include = ["FOLDER"]'
    ]


def test_errors_name_the_keys_of_the_manifest(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    """The words of Python and of `devmod compile` are of no use to the author of a manifest."""

    def failure(source: str, keys: str = "", name: str = "k0.cl") -> str:
        (project / name).write_text(source)
        (project / "devmod.toml").write_text(
            f'output = "k.devmod"\ntargets = ["{kind}"]\n[kernels.k0]\nsources = ["{name}"]\n{keys}'
        )
        return (
            printed_by(capfd, "build", "-q", "--no-cache", status=1)
            .out.rpartition(f"{name} for {kind}: ")[2]
            .rstrip("\n")
        )

    kind = "opencl"
    assert failure('#include "x/y.h"\n') == (
        f"k0.cl:1: the include 'x/y.h' is missing. Searched: {str(project)!r}. Add the folder that contains it: include = [\"FOLDER\"]"
    )
    assert failure('#include "/x/y.h"\n') == (
        "k0.cl:1: the include of '/x/y.h' is an absolute path; write a path relative to a folder of include"
    )
    two = "kernel void f(local int *s, global int *x) {} kernel void g(local int *s, global int *x) {}"
    assert failure(two, 'local = { s = "4/thread" }') == (
        "local has 's', which is a parameter of 'f', 'g': give it by function, as in local = { f = { s = \"4/thread\" } }. "
        "To set it for one kind alone: [kernels.k0.target.KIND]"
    )
    assert failure(KERNEL.format(name="f", factor=2), "local = { s = 64 }") == (
        "local has 's', which is not a parameter of local memory; there are: none. To set it for one kind alone: [kernels.k0.target.KIND]"
    )
    fixed = "kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f(global int *x) {}"
    assert failure(fixed, "block = 32") == (
        "block = [32, 1, 1] contradicts the source: the opencl function 'f' is built for blocks of (64, 1, 1) threads. "
        "To set it for one kind alone: [kernels.k0.target.KIND]"
    )
    kind = "cuda"
    ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry fill(.param .u64 x, .param .f32 a) { ret; }\n"
    assert (
        'Declare the kernels that you call: [kernels.k0.functions.fill] arg_types = ["handle", "float32"]. Some of'
        in failure(ptx, name="fill.ptx")
    )


def test_annotations_of_github_have_file_and_line_under_ci(
    capfd: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "k1.cl").write_text(BROKEN)
    monkeypatch.setenv("CI", "true")
    monkeypatch.chdir(project.parent)
    lines = printed_by(capfd, "build", "p", "-q", status=1).out.splitlines()
    assert lines[0] == (
        "::error file=p/k1.cl,line=2,title=k1.cl for opencl::the OpenCL C source does not compile: k1.cl:2:42: error: expected expression"
    )
    monkeypatch.setenv("CI", "false")
    assert "::error" not in printed_by(capfd, "build", "p", "-q", status=1).out


def test_mistakes_in_the_manifest_are_annotations_under_ci(
    capfd: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = (project / "devmod.toml").read_text()
    (project / "devmod.toml").write_text(
        manifest.replace('["opencl"]', '["opncl"]') + 'sourcs = ["a:b"]\n'
    )
    monkeypatch.setenv("CI", "true")
    monkeypatch.chdir(project.parent)
    assert printed_by(capfd, "build", "p", status=1) == (
        "::error file=p/devmod.toml,line=2,title=devmod build::targets[0]: unknown target 'opncl'. Did you mean 'opencl'?\n"
        "::error file=p/devmod.toml,line=7,title=devmod build::kernels.k1.sourcs: unknown key. Did you mean 'sources'?\n",
        "devmod: error: p/devmod.toml has 2 mistakes:\n"
        "p/devmod.toml:2: targets[0]: unknown target 'opncl'. Did you mean 'opencl'?\n"
        "p/devmod.toml:7: kernels.k1.sourcs: unknown key. Did you mean 'sources'?\n",
    )
    # An error without a line, and standard output for JSON.
    (project / "devmod.toml").write_text(manifest)
    (project / "k1.cl").write_text(KERNEL.format(name="k0", factor=1))
    captured = printed_by(capfd, "build", "p", "--json", status=1)
    assert (captured.out, captured.err.splitlines()[-2]) == (
        "",
        "::error file=p/devmod.toml,title=devmod build::k0.cl (kernel 'k0') and k1.cl (kernel 'k1') both have a function 'k0' for the target "
        "'opencl'; rename one of them",
    )
    monkeypatch.delenv("CI")
    assert "::error" not in printed_by(capfd, "build", "p", status=1).out


def test_annotations_have_paths_in_the_repository(
    capfd: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "k1.cl").write_text(BROKEN)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))  # the job has a `working-directory`
    assert printed_by(capfd, "build", "-q", status=1).out.startswith("::error file=p/k1.cl,line=2,")


def test_no_text_of_a_source_or_a_compiler_is_a_command_for_a_ci_runner(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The workers' output counts too, so the build is a process of its own. Its annotations are the
    only commands.
    """
    text = "x\\n::set-output name=token::owned\\n  ::stop-commands::z\\n##[add-path]/owned"
    (project / "k0.cl").write_text(f'kernel void k0() {{}}\n_Static_assert(0, "{text}");\n')
    (project / "k0.wgsl").write_text(
        '@compute @workgroup_size(1) fn k0() { x[0] = 1;\n::set-env name=PATH::/owned "\n##[group]x\n}\n'
    )
    (project / "k1.cl").write_text(
        "kernel void k1(global float *x) { x[0] =\n::add_matcher##[group]::WIDTH; }\n"
    )
    manifest = (project / "devmod.toml").read_text()
    manifest = (
        manifest.replace('["opencl"]', '["opencl", "webgpu"]').replace(
            '["k0.cl"]', '["k0.cl", "k0.wgsl"]'
        )
        + 'skip = ["webgpu"]\n'
    )
    (project / "devmod.toml").write_text(manifest)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    command = [*COMMAND, "-j", "1"]
    text = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    ).stdout
    assert "\\x3a:set-output name=token::owned" in text
    assert all(
        re.match("::(error|warning) file=p/k[01]\\.(cl|wgsl),", line)
        for line in runner_commands(text)
    )
    assert len(runner_commands(text)) == 3
    for name, kind in (("k0.cl", "opencl"), ("k0.wgsl", "webgpu"), ("k1.cl", "opencl")):
        shown = printed_by(capfd, "compile", name, "-t", kind, status=1)
        assert runner_commands(shown.out + shown.err) == []
    (project / "raw.cl").write_text(
        "kernel void f() {}\n::set-output name=x::owned\n##[add-path]/owned\n"
    )
    (project / "raw.tvm_meta.json").write_text(
        json.dumps({"func_info": {"::add-mask::f": {"name": "f", "arg_types": []}}})
    )
    for options, line in (
        ([], ""),
        (["--source"], "| ::set-output name=x::owned\n"),
        (["--json", "--source"], ""),
    ):
        shown = printed_by(capfd, "inspect", "raw.cl", *options)
        assert "add-mask::f" in shown.out
        assert line in shown.out
        assert runner_commands(shown.out + shown.err) == []


def test_a_note_names_the_settings_that_a_kind_does_not_use(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    for name in ("k0", "k1"):
        (project / f"{name}.ptx").write_text(
            f".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry {name}() {{ ret; }}\n"
        )
    manifest = (
        (project / "devmod.toml")
        .read_text()
        .replace('.cl"]', '.ptx"]')
        .replace("opencl", "cuda -arch=sm_80")
    )
    (project / "devmod.toml").write_text("defines = { WIDTH = 16 }\n" + manifest)
    assert printed_by(capfd, "build", "-j", "1").err.splitlines()[:2] == [
        "2 compiles, 1 worker",
        "devmod: note: defines of the manifest: not used for cuda, because PTX has no preprocessor",
    ]


def test_warnings_have_lines_of_their_own_also_from_the_cache(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "k1.cl").write_text("kernel void k1(global float *x) { x[0] = amd_width(1); }\n")
    expected = (
        "devmod: warning: k1.cl for opencl: some devices may refuse the OpenCL C source:\n"
        "k1.cl:1:42: warning: call of the undeclared function 'amd_width'\n"
    )
    assert expected in printed_by(capfd, "build").err
    assert printed_by(capfd, "build").err == expected
    (project / "k.devmod").unlink()
    assert printed_by(capfd, "build").err == f"2 compiles, {worker_text()}\n{expected}"


def test_the_advice_of_a_warning_has_the_keys_of_the_manifest(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "devmod.toml").write_text(
        'output = "k.devmod"\ntargets = ["opencl", "webgpu"]\n[kernels.k0]\nsources = ["k0.cl", "k0.wgsl"]\n'
    )
    (project / "k0.cl").write_text(
        "kernel void k0(global int *x) { generic int *p = x; p[get_local_id(0)] = 1; }\n"
    )
    (project / "k0.wgsl").write_text(
        "@group(0) @binding(0) var<storage, read_write> x: array<i32>;\n@compute @workgroup_size(64) fn k0() { x[0] = 1; }\n"
    )
    for _ in range(2):
        captured = printed_by(capfd, "build", "--json", "--no-cache")
        assert '. Add options = ["-cl-std=CL2.0"]\n' in captured.err
        (project / "k.devmod").unlink()
    text = "a call of 'k0' needs block on 'opencl' alone: the other candidates have blocks of 64. Compile it with this block: block = { k0 = [64] }"
    assert json.loads(captured.out)["problems"] == [text]
    assert f"devmod: warning: {text}\n" in captured.err


def test_a_kind_that_a_kernel_skips_and_no_target_has_is_a_warning(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    """The user has removed the target."""
    manifest = (
        (project / "devmod.toml")
        .read_text()
        .replace("[kernels.k1]\n", '[kernels.k1]\nskip = ["rocm", "vulkan"]\n')
    )
    manifest = manifest.replace('["opencl"]', '["opencl", "webgpu"]').replace(
        "[kernels.k0]\n", '[kernels.k0]\nskip = ["rocm", "webgpu"]\n'
    )
    (project / "devmod.toml").write_text(
        manifest.replace('sources = ["k1.cl"]', 'sources = ["k1.cl", "k1.wgsl"]')
    )
    (project / "k1.wgsl").write_text(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k1() { x[0] = 1; }\n"
    )
    lines = [
        number
        for number, line in enumerate((project / "devmod.toml").read_text().splitlines(), 1)
        if line.startswith("skip")
    ]
    expected = [
        f"devmod.toml:{lines[0]}: kernels.k0.skip: no target is of the kind 'rocm': delete it from this line",
        f"devmod.toml:{lines[1]}: kernels.k1.skip: no target is of the kind 'rocm', 'vulkan': delete this line",
    ]
    for _ in range(2):  # the second build has nothing to do
        assert printed_by(capfd, "build").err.splitlines()[:2] == [
            f"devmod: warning: {each}" for each in expected
        ]


def test_a_warning_for_each_architecture_is_shown_once(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "k0.hip").write_text("__global__ void k(int *x) { if (x[0] = 1) x[1] = 2; }\n")
    (project / "devmod.toml").write_text(
        'output = "k.devmod"\ntargets = ["rocm -arch=gfx1100,gfx90a", "rocm -arch=gfx942"]\n[kernels.k]\nsources = ["k0.hip"]\n'
    )
    assert (
        printed_by(capfd, "build").err.count(
            " warning: using the result of an assignment as a condition"
        )
        == 1
    )


def test_strict_makes_doubts_errors_also_of_cached_results(
    capfd: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "k1.cl").write_text("kernel void k1(global float *x) { x[0] = amd_width(1); }\n")
    error = (
        "--strict turns this warning into an error: some devices may refuse the OpenCL C source:"
    )
    assert main(["build"]) == 0
    assert error in printed_by(capfd, "build", "--strict", status=1).err
    result = devmod.build(strict=True)
    assert [each.failure.message.partition("\n")[0] for each in result.results if each.failure] == [
        error
    ]
    manifest = project / "devmod.toml"
    manifest.write_text("strict = true\n" + manifest.read_text())
    assert error in printed_by(capfd, "build", status=1).err


def test_a_source_that_no_validator_checked_has_a_note(
    capfd: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("k", "more"):
        (project / f"{name}.wgsl").write_text(f"@compute @workgroup_size(1) fn {name}() {{ }}\n")
    (project / "devmod.toml").write_text(
        'targets = ["webgpu"]\n[kernels.k]\nsources = ["k.wgsl", "more.wgsl"]\n'
    )
    note = (
        "devmod: note: webgpu: not validated: naga is not installed, or it failed. To install it: npm install -g naga-wasm@30, "
        "or cargo install naga-cli\n"
    )
    # It shows nothing, so the next build is the first to show the note.
    assert main(["build", "-q"]) == 0
    err = printed_by(capfd, "build", "-j1", "--no-cache").err
    assert (err.count(note), err.count("devmod: note")) == (1, 1)
    for options in ([], ["--no-cache"]):  # of the same machine: from the cache, and compiled again
        assert "not validated" not in printed_by(capfd, "build", "-j1", *options).err
    reports = [
        job["reports"] for job in json.loads(printed_by(capfd, "build", "--json").out)["jobs"]
    ]
    assert [len(each) for each in reports] == [1, 1]
    assert (
        "--strict needs a validator for the WGSL source: naga is not installed"
        in printed_by(capfd, "build", "--strict", status=1).err
    )


def worker_text() -> str:
    from devmod.worker import processors

    count = processors()
    return f"{count} worker{'' if count == 1 else 's'}"


def test_a_source_that_cannot_be_read_is_counted(
    capfd: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_targets.build import build

    real = build.closure_of

    def closure_of(path: str, *arguments: object, **options: object) -> object:
        if path.endswith("k0.cl"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(build, "closure_of", closure_of)
    assert hide_times(printed_by(capfd, "build", "-j", "1", status=1).err) == (
        "2 compiles, 1 worker\n[1/2] failed k0.cl for opencl\n    k0.cl: Permission denied\n[2/2] compiled k1.cl for opencl (#.## s)\n"
    )


def test_annotations_escape_what_github_reads_as_syntax(capfd: pytest.CaptureFixture[str]) -> None:
    from devmod_targets._cli._display import Annotations
    from devmod_targets.build.plan import Job
    from devmod_targets.build.progress import Progress
    from devmod_targets.build.result import JobResult, failure_of

    job = Job("k", "/p", "a,b:c.cl", "opencl")
    failure = failure_of(job, Outcome(error="CompileError", message="100%\nof it"))
    Annotations(Progress(), ".").add(JobResult(job, "failed", failure=failure))
    assert (
        capfd.readouterr().out
        == "::error file=a%2Cb%3Ac.cl,title=a%2Cb%3Ac.cl for opencl::100%25%0Aof it\n"
    )


@pytest.mark.parametrize("name", ["a b.wgsl", "50%.wgsl", "two::b.wgsl", "sub/ä b.wgsl"])
def test_an_annotation_has_the_line_whatever_the_name_of_the_source(
    name: str, capfd: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error, and a warning of a kind whose compiler is the device's."""
    (project / "sub").mkdir()
    (project / name).write_text("@compute @workgroup_size(1)\nfn k0() { x[0] = 1; }\n")
    (project / f"{name}.cl").write_text(f"\n{BROKEN}")
    (project / "devmod.toml").write_text(
        f'targets = ["opencl", "webgpu"]\n[kernels.k0]\nsources = ["{name}", "{name}.cl"]\n'
    )
    monkeypatch.setenv("CI", "true")
    places = [
        line.partition(",title")[0]
        for line in printed_by(capfd, "build", "-q", "--no-cache", status=1).out.splitlines()
        if line.startswith(("::error", "::warning"))
    ]
    shown = name.replace("%", "%25").replace(":", "%3A")
    assert sorted(places) == [f"::error file={shown}.cl,line=3", f"::warning file={shown},line=2"]


def test_json_has_each_job(capfd: pytest.CaptureFixture[str], project: Path) -> None:
    (project / "k1.cl").write_text(BROKEN)
    data = json.loads(printed_by(capfd, "build", "--json", status=1).out)
    assert (data["output"], data["written"], data["problems"]) == (
        str(project / "k.devmod"),
        False,
        [],
    )
    first, second = data["jobs"]
    assert {key: first[key] for key in ("kernel", "source", "target", "status")} == {
        "kernel": "k0",
        "source": "k0.cl",
        "target": "opencl",
        "status": "compiled",
    }
    assert (second["status"], second["error"], second["file"], second["line"]) == (
        "failed",
        "CompileError",
        "k1.cl",
        2,
    )


def test_compression_and_sources_are_options_and_keys_of_the_manifest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "k1.cl").write_text(KERNEL.format(name="k1", factor=9) + "// " + "many words " * 200)
    assert main(["build", "-q"]) == 0
    plain = (project / "k.devmod").read_bytes()
    assert main(["build", "-q", "--compress", "zstd"]) == 0
    small = (project / "k.devmod").read_bytes()
    assert len(small) < len(plain)
    assert [module.inspect_source() for module in devmod.loads(small).imports] == [
        module.inspect_source() for module in devmod.loads(plain).imports
    ]
    manifest = (project / "devmod.toml").read_text()
    (project / "devmod.toml").write_text('compress = "zstd"\n' + manifest)
    assert main(["build", "-q"]) == 0
    assert (project / "k.devmod").read_bytes() == small
    assert main(["build", "-q", "--compress", "none"]) == 0
    assert (project / "k.devmod").read_bytes() == plain


def test_the_sources_of_binaries_are_in_the_file_on_request(project: Path) -> None:
    if not shutil.which("glslangValidator") or not shutil.which("spirv-dis"):
        pytest.skip("glslangValidator or spirv-dis is not installed")
    text = "#version 450\nlayout(local_size_x = 1) in;\nlayout(set = 0, binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1; }\n"
    (project / "k0.comp").write_text(text)
    (project / "devmod.toml").write_text(
        'output = "k.devmod"\ntargets = ["vulkan"]\n[kernels.k0]\nsources = ["k0.comp"]\n'
    )
    assert main(["build", "-q"]) == 0
    assert b"OpFunctionEnd" not in (project / "k.devmod").read_bytes()
    assert main(["build", "-q", "--with-sources"]) == 0
    assert b"OpFunctionEnd" in (project / "k.devmod").read_bytes()
    (project / "k.devmod").unlink()
    assert main(["build", "-q", "--with-sources"]) == 0  # from the cache
    assert b"OpFunctionEnd" in (project / "k.devmod").read_bytes()


def test_a_plan_compiles_nothing(capfd: pytest.CaptureFixture[str], project: Path) -> None:
    assert main(["build", "-q"]) == 0
    (project / "k1.cl").write_text(KERNEL.format(name="k1", factor=9))
    (project / "k.devmod").unlink()
    assert printed_by(capfd, "build", "--plan").out == (
        "kernel  source  target  status\nk0      k0.cl   opencl  cached\nk1      k1.cl   opencl  compile\n"
    )
    assert [
        row["status"]
        for row in json.loads(printed_by(capfd, "build", "--plan", "--json", "--no-cache").out)
    ] == ["compile", "compile"]
    assert not (project / "k.devmod").exists()


def test_a_dry_run_compiles_everything_and_writes_nothing(
    capfd: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mistakes have a file and a line, and are annotations where CI is set."""
    before = sorted(path.name for path in project.iterdir())
    assert (
        printed_by(capfd, "build", "--dry-run").out.splitlines()[-1]
        == "k.devmod was not written, for --dry-run: 2 compiled"
    )
    shown = json.loads(printed_by(capfd, "build", "--dry-run", "--json").out)
    assert (shown["output"], shown["written"], [job["status"] for job in shown["jobs"]]) == (
        str(project / "k.devmod"),
        False,
        ["cached"] * 2,
    )
    (project / "k1.cl").write_text("__kernel void k1(__global float *x)\n{ x[0] = nothing; }\n")
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project))
    assert (
        "::error file=k1.cl,line=2,title=k1.cl for opencl::"
        in printed_by(capfd, "build", "--dry-run", status=1).out
    )
    assert sorted(path.name for path in project.iterdir()) == before


def test_options_that_contradict_each_other_are_wrong_usage(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert printed_by(capfd, "build", "--no-cache", "--cache", "x", status=2).err.endswith(
        "devmod: error: --cache and --no-cache contradict each other\n"
    )
    assert main(["build", "-j", "0"]) == 2


def test_an_unreachable_cache_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    assert printed_by(capfd, "build", "--cache", "nosuch://bucket", status=1) == (
        "",
        "devmod: error: the build cache 'nosuch://bucket' cannot be reached: ValueError: Protocol not known: nosuch\n",
    )


def test_a_cluster_without_a_scheduler_is_one_line_or_a_warning(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.setattr("devmod_targets.build.cluster._CONNECT_TIMEOUT", 0.2)
    text = printed_by(capfd, "build", "--dask", "tcp://127.0.0.1:9", status=1).err
    assert text.startswith(
        "devmod: error: the Dask cluster 'tcp://127.0.0.1:9' cannot be reached: "
    )
    assert text.count("\n") == 1
    assert main(["build", "--dask", "tcp://127.0.0.1:9", "--or-local", "-q"]) == 0


@pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)
def test_ctrl_c_leaves_the_old_file_and_nothing_else(project: Path, tmp_path: Path) -> None:
    subprocess.run([*COMMAND, "-q"], check=True)
    good = (project / "k.devmod").read_bytes()
    manifest = (project / "devmod.toml").read_text()
    manifest = manifest.replace('["k1.cl"]', '["k1.cl", "k1.comp"]\ntargets = ["opencl", "vulkan"]')
    (project / "devmod.toml").write_text(
        f'{manifest}[target.vulkan]\noptions = ["--compiler=glslangValidator"]\n'
    )
    (project / "k1.comp").write_text("#version 450\n")
    programs, temporary = tmp_path / "bin", tmp_path / "tmp"
    programs.mkdir()
    temporary.mkdir()
    compiler = programs / "glslangValidator"  # one that never ends
    compiler.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pid\nexec sleep 1000\n"
    )
    compiler.chmod(0o755)
    environment = os.environ | {"TMPDIR": str(temporary), "PATH": f"{programs}:/usr/bin:/bin"}
    before = sorted(path.name for path in project.iterdir())
    command = interruptible_python(*COMMAND[1:])
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    wait_for(lambda: (tmp_path / "pid").exists() or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.decode().endswith(
        "\n\ninterrupted: 2 of 3 compiled; the results written so far are in the cache\n"
    )
    assert b"Traceback" not in err
    assert (project / "k.devmod").read_bytes() == good
    assert sorted(path.name for path in project.iterdir()) == before
    assert list(temporary.iterdir()) == []
    assert not is_running(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("arguments", "interrupted_at", "text"),
    [
        ([], 1, "interrupted: 1 of 2 compiled; the results written so far are in the cache"),
        (["--no-cache"], 1, "interrupted: 1 of 2 compiled"),
        (["-q"], 0, "interrupted: 0 of 2 compiled"),
    ],
)
def test_ctrl_c_prints_how_much_was_compiled(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    interrupted_at: int,
    text: str,
) -> None:
    class Interrupted(Pool):
        def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
            for number, outcome in super().run(jobs):
                if number == interrupted_at:
                    raise KeyboardInterrupt
                yield number, outcome

    monkeypatch.setattr("devmod_targets.build.pool.Pool", Interrupted)
    out, err = printed_by(capfd, "build", "-j", "1", *arguments, status=130)
    shown = (
        ""
        if "-q" in arguments
        else "2 compiles, 1 worker\n"
        + "[1/2] compiled k0.cl for opencl (#.## s)\n" * interrupted_at
    )
    assert (out, hide_times(err)) == ("", f"{shown}\n{text}\n")


def test_what_an_interrupted_build_waits_for_is_below_the_ctrl_c_of_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from devmod_targets._cli._display import Annotations, LogProgress

    Annotations(LogProgress(), ".").note("writing 1 result to the cache")
    assert capfd.readouterr() == ("", "\nwriting 1 result to the cache\n")


def test_ctrl_c_before_the_first_compile_is_reported(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("devmod_targets.build.build.Task.find_inputs", interrupt)
    assert printed_by(capfd, "build", status=130) == ("", "\ninterrupted\n")


def test_a_full_disk_leaves_the_old_file(project: Path) -> None:
    resource = pytest.importorskip("resource", reason="there are no limits of processes on Windows")
    subprocess.run([*COMMAND, "-q"], check=True)
    good = (project / "k.devmod").read_bytes()
    write_kernels(project, 5)
    limit = len(good) + 100  # an entry of the cache fits, the bundle does not

    def limit_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [*COMMAND, "-q"], preexec_fn=limit_files, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"devmod: error: {project / 'k.devmod'}: File too large\n"
    assert (project / "k.devmod").read_bytes() == good
    assert not list(project.glob(".*"))
    assert main(["build", "-q"]) == 0
    assert (project / "k.devmod").read_bytes() != good


def test_a_folder_that_cannot_be_written_is_one_line(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = Path("/sys/k.devmod")
    try:
        place.open("x").close()
    except OSError as error:
        reason = error.strerror
    else:
        place.unlink()
        pytest.skip("this machine has no read-only /sys")
    assert (
        printed_by(capfd, "build", "-q", "-o", place, status=1).err
        == f"devmod: error: {place}: {reason}\n"
    )


@pytest.mark.skipif(os.name != "posix", reason="Windows has no pseudo-terminals")
def test_in_a_terminal_the_progress_is_live_and_the_terminal_is_restored(project: Path) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    import pty

    (project / "k1.cl").write_text(BROKEN)
    main_end, other_end = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color"}
    # The oldest rich takes an empty one for a setting, too.
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*COMMAND, "-j", "1"],
        stderr=other_end,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    os.close(other_end)
    parts = []
    try:
        while part := os.read(main_end, 65536):
            parts.append(part)
    except OSError:  # the other end is closed
        pass
    process.wait()
    os.close(main_end)
    output = b"".join(parts).decode()
    assert process.returncode == 1
    assert "opencl" in output
    # The first word alone has a colour: a whole text in one is hard to read.
    assert "\x1b[1;38;5;160mfailed\x1b[0m k1.cl for opencl" in output
    assert "does not compile: k1.cl:2:42: error: expected expression" in output
    assert output.index("\x1b[?25l") < output.rindex(
        "\x1b[?25h"
    )  # the cursor is hidden, and shown again
