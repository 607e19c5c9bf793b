"""`devmod init`: the manifest that it writes, and the files that it does not overwrite."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import printed_by

from devmod_targets.build import plan_of, read_manifest
from devmod_targets.build.plan import Job
from devmod_targets.build.result import JobResult, Outcome, result_of
from devmod_targets.build.skeleton import failures_in, find_sources
from devmod_workbench._cli import main

CL = "kernel void k(global float *x) { x[0] = 1; }\n"
GLSL = "#version 450\nvoid main() {}\n"
CUDA = 'extern "C" __global__ void k(float *x) {}\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_files(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_sources_of_one_name_are_one_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    write_files(
        {
            "blur.cl": CL,
            "shaders/blur.comp": GLSL,
            "cuda/matmul.cu": CUDA,
            "cuda/tile.cu": "// a header\n",  # no kernel
            "readme.md": "",
            ".venv/lib/x.cl": CL,
            "build/x.cl": CL,
            "host.c": "int main() {}\n",
        }
    )
    assert printed_by(capsys, "init") == (
        "devmod.toml: 3 sources. To build them: devmod build\n",
        "Trying 5 compiles of sources that are for several kinds\n",
    )
    assert [(job.kernel, job.source, job.target) for job in plan_of(read_manifest()).jobs] == [
        ("blur", "blur.cl", "cuda -arch=sm_80"),
        ("blur", "blur.cl", "cuda -arch=sm_90"),
        ("blur", "blur.cl", "cuda -arch=compute_90"),
        ("blur", "shaders/blur.comp", "vulkan"),
        ("blur", "blur.cl", "opencl"),
        ("matmul", "cuda/matmul.cu", "cuda -arch=sm_80"),
        ("matmul", "cuda/matmul.cu", "cuda -arch=sm_90"),
        ("matmul", "cuda/matmul.cu", "cuda -arch=compute_90"),
    ]
    text = Path("devmod.toml").read_text()
    assert text.splitlines()[0] == "#:schema ./devmod.schema.json"
    assert (
        json.loads(Path("devmod.schema.json").read_text())["title"]
        == "The manifest of devmod build"
    )
    assert 'skip = ["vulkan", "opencl"]' in text


def test_a_slang_module_without_entry_points_is_no_kernel(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files(
        {
            "twice.slang": 'import shapes;\n[shader("compute")] [numthreads(64, 1, 1)] void twice() {}\n',
            "lib/shapes.slang": "module shapes;\npublic float twice(float x) { return 2 * x; }\n",
        }
    )
    assert printed_by(capsys, "init").out == "devmod.toml: 1 source. To build them: devmod build\n"
    jobs = plan_of(read_manifest()).jobs
    assert {job.source for job in jobs} == {"twice.slang"}
    assert [kind for kind, _ in itertools.groupby(job.kind for job in jobs)] == [
        "cuda",
        "rocm",
        "metal",
        "vulkan",
        "hexagon",
        "webgpu",
    ]


SLANG = """
[shader("compute")] [numthreads(64, 1, 1)]
void NAME(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> x) { x[id.x] *= 2; BODY }
"""


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The compilers of Slang and Hexagon, in this process."""
    # An import of slangpy would stay for other tests.
    if not (find_spec("slangpy") and find_spec("ziglang")):
        pytest.skip("needs the compilers of Slang and Hexagon")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path.parent / f"{tmp_path.name}-cache"))


@pytest.mark.usefixtures("compilers")
def test_a_kind_for_which_a_source_does_not_compile_is_commented_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    barrier = "GroupMemoryBarrierWithGroupSync();"
    targets = ["-t", "vulkan", "-t", "hexagon -arch=v68", "-t", "webgpu"]
    reason = (
        "sum.slang for hexagon -arch=v68: sum.slang:3: GroupMemoryBarrierWithGroupSync is not supported on hexagon: the threads of a block "
        "run one after the other there, without barriers, atomics and waves. Compile the file without this entry point for hexagon"
    )
    write_files({"sum.slang": SLANG.replace("NAME", "sum").replace("BODY", barrier)})
    assert main(["init", *targets]) == 0
    note = f"devmod: note: the kernel 'sum' is left out for hexagon: {reason}\n"
    assert (
        capsys.readouterr().err
        == f"Trying 3 compiles of sources that are for several kinds\n{note}"
    )
    text = Path("devmod.toml").read_text()
    assert (
        f'targets = [\n    "vulkan",\n    # "hexagon -arch=v68",  # {reason}\n    "webgpu",\n]\n'
        in text
    )
    assert "skip" not in text
    assert main(["build", "-q"]) == 0
    write_files(
        {"scale.slang": SLANG.replace("NAME", "scale").replace("BODY", ""), "copy.comp": GLSL}
    )
    assert main(["init", "-q", "--force", *targets]) == 0
    text = Path("devmod.toml").read_text()
    assert 'targets = ["vulkan", "hexagon -arch=v68", "webgpu"]\n' in text
    assert (
        f'[kernels.sum]\nsources = ["sum.slang"]\n# hexagon is left out: {reason}\nskip = ["hexagon"]\n'
        in text
    )
    assert '[kernels.scale]\nsources = ["scale.slang"]\n\n' in text
    capsys.readouterr()
    # The compiles of `init`, but for the shader of one kind.
    assert "5 from the cache" in printed_by(capsys, "build").out


@pytest.mark.usefixtures("compilers")
def test_cuda_cpp_is_tried_for_rocm_if_another_source_makes_it_a_target(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ptx = CUDA.replace("{", '{ asm volatile("bar.sync 0;"); ', 1)
    write_files({"one.cu": CUDA, "ptx.cu": ptx, "hip.hip": CUDA})
    assert main(["init", "-q"]) == 0
    text = Path("devmod.toml").read_text()
    assert 'targets = ["cuda -arch=sm_80,sm_90,compute_90", "rocm -arch=gfx90a,gfx1100"]\n' in text
    assert '[kernels.hip]\nsources = ["hip.hip"]\n\n[kernels.one]\nsources = ["one.cu"]\n\n' in text
    assert (
        '[kernels.ptx]\nsources = ["ptx.cu"]\n# rocm is left out: ptx.cu for rocm -arch=gfx90a: the CUDA C++ source does not compile'
        in text
    )
    assert 'skip = ["rocm"]\n' in text


@pytest.mark.usefixtures("compilers")
def test_a_source_that_compiles_for_no_kind_is_not_commented_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It may need a macro or a folder, which the user adds to the manifest."""
    write_files(
        {
            "k.slang": SLANG.replace("NAME", "k").replace("BODY", "x[0] = WIDTH;"),
            "twice.cl": "kernel void twice() { oops; }\n",
        }
    )
    assert (
        printed_by(capsys, "init", "-t", "vulkan", "-t", "webgpu", "-t", "opencl").err
        == "Trying 4 compiles of sources that are for several kinds\n"
    )
    assert [(job.source, job.kind) for job in plan_of(read_manifest()).jobs] == [
        ("k.slang", "vulkan"),
        ("k.slang", "webgpu"),
        ("twice.cl", "vulkan"),
        ("twice.cl", "opencl"),
    ]


def test_a_missing_compiler_is_no_reason_to_leave_a_kind_out() -> None:
    def result(kind: str, error: str) -> JobResult:
        job = Job("k", "/folder", "k.slang", kind)
        return result_of(
            job, "failed" if error else "compiled", Outcome(error=error, message="one\ntwo")
        )

    assert failures_in([result("vulkan", ""), result("hexagon", "ToolchainNotFoundError")]) == {}
    assert (
        failures_in([result("vulkan", "ToolchainNotFoundError"), result("hexagon", "CompileError")])
        == {}
    )
    assert failures_in([result("vulkan", ""), result("hexagon", "CompileError")]) == {
        ("k", "hexagon"): "k.slang for hexagon: one two"
    }


def test_the_comments_are_keys_of_a_manifest() -> None:
    """Each commented key is accepted when it is in use."""
    write_files({"NAME.cu": CUDA, "NAME.cl": CL, "weights.npz": "", "include/x.h": ""})
    assert main(["init", "-q"]) == 0
    lines = Path("devmod.toml").read_text().splitlines()
    kernel = lines.index("[kernels.NAME]")
    more = lines.index("# [kernels.NAME]")
    head = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else line
        for line in lines[:kernel]
    ]
    tail = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else line
        for line in lines[more + 1 :]
    ]
    Path("devmod.toml").write_text("\n".join([*head, *lines[kernel:more], *tail]))
    manifest = read_manifest()
    (own,) = manifest.kernels
    assert (manifest.compress, manifest.with_sources, manifest.section.include) == (
        "zstd",
        True,
        ("include",),
    )
    assert manifest.target_sections[0].options == ("--use_fast_math",)
    assert (own.section.block, own.section.local) == (
        (("", (64,)),),
        ((("", "scratch"), (4, True)),),
    )
    assert own.target_sections[0].name_expressions == ("scale<float>",)
    assert [name for name, _ in own.section.fmap] == ["NAME"]
    assert manifest.constants.functions == (("load_weights", ("w", "b")),)


def test_parameters_of_local_memory_get_a_size_in_a_comment() -> None:
    write_files(
        {
            "sum.cl": "// a kernel {\n__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\nvoid sum(local const float3 *restrict s,"
            "\n __global int *x, __local uint *n, __local struct T *t)\n{ local float *p = s; }\n void help(local float *q) {}\n",
            "sum.metal": "kernel void sum(device int *x [[buffer(0)]], threadgroup half *s [[threadgroup(0)]]) { threadgroup float p[2]; }\n",
            "sum.comp": GLSL,
            "dot.cl": "kernel void dot(local double *s, global double *x) {}\n",
        }
    )
    assert main(["init", "-q"]) == 0
    lines = Path("devmod.toml").read_text().splitlines()
    first, second = lines.index("[kernels.dot]"), lines.index("[kernels.sum]")
    assert lines[first + 3 : first + 5] == [
        '# local = { s = "8/thread" }  # a default size, so that calls omit the parameter',
        "",
    ]
    assert lines[second + 2 : second + 7] == [
        "# [kernels.sum.target.opencl]  # a default size, so that one call fits every target",
        '# local = { s = "16/thread", n = "4/thread" }',
        "# [kernels.sum.target.metal]  # a default size, so that one call fits every target",
        '# local = { s = "2/thread" }',
        "",
    ]


@pytest.mark.parametrize("kinds", [(), ("cuda",)])
def test_images_of_other_builds_are_no_sources(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    for name in ("k.cu", "k.ptx", "k.cubin", "k.fatbin"):
        (tmp_path / name).write_text('extern "C" __global__ void k(int *p) { *p = 1; }')
    assert find_sources(str(tmp_path), kinds) == (["k.cu"], [])


def test_blanks_in_an_attribute_of_wgsl(tmp_path: Path) -> None:
    (tmp_path / "k.wgsl").write_text("@ compute @ workgroup_size ( 1 ) fn k() {}")
    (tmp_path / "functions.wgsl").write_text("fn f() {}")
    assert find_sources(str(tmp_path), ()) == (["k.wgsl"], [])


@pytest.mark.skipif(
    sys.platform != "linux", reason="the file systems of other systems do not take these names"
)
def test_sources_whose_names_no_manifest_can_have_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files(
        {
            os.fsdecode(b"bl\xffur.cl"): CL,
            "a\\b.cl": CL,
            "a\nb.cl": CL,
            os.fsdecode(b"\xff.txt"): "",
            "header\n.cl": "// none\n",
        }
    )
    warning = (
        "devmod: warning: left out, because a manifest takes printable names in UTF-8 without backslashes: "
        r"'a\nb.cl', 'a\\b.cl', 'bl\udcffur.cl'. Rename the files to add them"
    )
    assert main(["init"]) == 1
    none = "devmod: error: . has no sources of kernels. Write one, such as twice.cl, twice.comp or twice.cu; then: devmod init"
    assert capsys.readouterr() == ("", f"{warning}\n{none}\n")
    write_files({"k.cl": CL})
    assert printed_by(capsys, "init", "-q") == ("", "")
    assert printed_by(capsys, "init") == (
        "devmod.toml: 1 source. To build them: devmod build\n",
        f"{warning}\n",
    )
    assert [kernel.name for kernel in read_manifest().kernels] == ["k"]
    write_files({f"{number}\n.cl": CL for number in range(4)})
    assert r"'3\n.cl', 'a\nb.cl' and 2 more. Rename" in printed_by(capsys, "init", "--force").err


def test_targets_are_chosen() -> None:
    write_files({"a.cl": CL, "a.cu": CUDA, "dsp.c": "void dsp(float *x) {}\n"})
    assert (
        main(["init", "-q", "-t", "hexagon -arch=v66", "-t", "opencl", "-o", "out/k.devmod"]) == 0
    )
    plan = plan_of(read_manifest())
    assert [(job.source, job.target) for job in plan.jobs] == [
        ("a.cl", "opencl"),
        ("dsp.c", "hexagon -arch=v66"),
    ]
    assert plan.output == str(Path.cwd() / "out" / "k.devmod")


def test_a_source_whose_kernel_has_another_one_for_its_target_is_left_out() -> None:
    write_files({"k.cu": CUDA, "k.ll": CUDA, "n.cu": CUDA})
    assert main(["init", "-q", "-t", "rocm -arch=gfx90a"]) == 0
    assert [(job.kernel, job.source) for job in plan_of(read_manifest()).jobs] == [
        ("k", "k.cu"),
        ("n", "n.cu"),
    ]
    reason = "rocm gets the CUDA C++, because a target gets its own language, or else that of the first source"
    assert (
        f'sources = ["k.cu"]\n# "k.ll" is left out: {reason}\n' in Path("devmod.toml").read_text()
    )
    write_files({"k.hip": CUDA, "k.cl": CL})
    assert main(["init", "-q", "--force", "-t", "rocm -arch=gfx90a", "-t", "opencl"]) == 0
    assert (
        'sources = ["k.cl", "k.hip"]\n# "k.cu" is left out: rocm gets the HIP, because '
        in Path("devmod.toml").read_text()
    )


def test_two_sources_of_one_name_and_language_are_two_kernels() -> None:
    write_files({"a/blur.cl": CL, "b/blur.cl": CL, "odd name.cl": CL})
    assert main(["init", "-q"]) == 0
    assert [kernel.name for kernel in read_manifest().kernels] == ["a-blur", "b-blur", "odd name"]


def test_many_sources_are_on_lines_of_their_own() -> None:
    write_files(
        {
            f"{letter * 40}/k.{suffix}": text
            for letter, suffix, text in (("a", "cl", CL), ("b", "comp", GLSL), ("c", "cu", CUDA))
        }
    )
    assert main(["init", "-q"]) == 0
    assert (
        f'sources = [\n    "{"a" * 40}/k.cl",\n    "{"b" * 40}/k.comp",\n    "{"c" * 40}/k.cu",\n]\n'
        in Path("devmod.toml").read_text()
    )
    assert len(plan_of(read_manifest()).jobs) == 5


@pytest.mark.parametrize("name", ["devmod.toml", "devmod.schema.json"])
def test_a_file_is_overwritten_with_force_alone(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write_files({"a.cl": CL, name: "mine = 1\n"})
    assert printed_by(capsys, "init", status=1) == (
        "",
        f"devmod: error: {name} exists; --force overwrites it\n",
    )
    assert Path(name).read_text() == "mine = 1\n"
    assert sorted(path.name for path in Path().iterdir()) == sorted(["a.cl", name])
    assert main(["init", "--force"]) == 0
    assert read_manifest().targets == ("opencl",)
    assert main(["init"]) == 0  # the same bytes
    Path(name).unlink()
    Path(name).mkdir()
    capsys.readouterr()
    assert printed_by(capsys, "init", "--force", status=1) == (
        "",
        f"devmod: error: {name}: Is a directory\n",
    )


def test_a_file_that_has_kernels_for_a_named_target_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files({"dsp/blur.c": "void blur(float *x) {}\n"})
    assert printed_by(capsys, "init", "dsp", status=1).err == (
        "devmod: error: dsp has no sources of kernels. Write one, such as twice.cl, twice.comp or twice.cu; then: devmod init. "
        "If 'blur.c' has kernels, name their target: devmod init dsp -t 'hexagon -arch=v68'\n"
    )
    assert main(["init", "dsp", "-t", "hexagon -arch=v68"]) == 0


def test_a_pyproject_with_a_manifest_stays_the_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    write_files({"a.cl": CL, "pyproject.toml": '[tool.devmod]\ntargets = ["opencl"]\n'})
    assert printed_by(capsys, "init", "--force", status=1).err == (
        "devmod: error: pyproject.toml has [tool.devmod], a manifest; remove it first, or keep it: pyproject.toml is enough\n"
    )
    assert not Path("devmod.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            [],
            1,
            "devmod: error: . has no sources of kernels. Write one, such as twice.cl, twice.comp or twice.cu; then: devmod init",
        ),
        (
            ["-t", "vulkan"],
            1,
            "devmod: error: . has no sources of kernels for vulkan. Write one, such as twice.cl, twice.comp or twice.cu; "
            "then: devmod init",
        ),
        (["-t", "opncl"], 2, "devmod: error: unknown target 'opncl'. Did you mean 'opencl'?"),
        (
            ["-o", "k.bin"],
            1,
            "devmod: error: devmod.toml:3: output: expected a file that ends in .devmod, got 'k.bin'",
        ),
        (
            ["-o", "/k.devmod"],
            1,
            "devmod: error: devmod.toml:3: output: expected a path relative to the manifest's folder, got '/k.devmod': "
            "other machines have other folders",
        ),
        (
            ["-t", "opencl", "-t", "webgpu"],
            1,
            "devmod: error: no source is for the target 'webgpu'",
        ),
    ],
)
def test_mistakes(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    if arguments not in ([], ["-t", "vulkan"]):
        write_files({"a.cl": CL})
    assert printed_by(capsys, "init", *arguments, status=code).err.endswith(f"{text}\n")
    assert not Path("devmod.toml").exists()


def test_another_folder(capsys: pytest.CaptureFixture[str]) -> None:
    write_files({"kernels/a.cl": CL})
    assert (
        printed_by(capsys, "init", "kernels").out
        == "kernels/devmod.toml: 1 source. To build them: devmod build kernels\n"
    )
    assert [job.source for job in plan_of(read_manifest("kernels")).jobs] == ["a.cl"]
    assert tomllib.loads(Path("kernels/devmod.toml").read_text())["output"] == "kernels.devmod"


def test_ctrl_c_prints_which_files_were_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files({"k.cl": CL})
    replace = Path.replace

    def replace_and_interrupt(path: Path, target: Path) -> None:
        replace(path, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", replace_and_interrupt)
    assert printed_by(capsys, "init", status=130) == (
        "",
        "\ninterrupted: devmod.toml was written, devmod.schema.json was not written\n",
    )
    assert sorted(os.listdir()) == ["devmod.toml", "k.cl"]


def test_a_package_with_operations_of_pytorch(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """extras/frameworks/tests builds its wheel and runs its tests."""
    assert printed_by(capsys, "init", "--torch", "fast_ops") == (
        'pyproject.toml: the package fast_ops. To test it: pip install ".[opencl]" pytest; pytest\n',
        "",
    )
    written = {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert {path.partition("/")[0] for path in written} == {
        ".gitignore",
        "README.md",
        "devmod.schema.json",
        "devmod.toml",
        "kernels",
        "pyproject.toml",
        "src",
        "tests",
    }
    assert "$" not in "".join(
        text for path, text in written.items() if path != "devmod.schema.json"
    )
    project = tomllib.loads(written["pyproject.toml"])["project"]
    assert (project["name"], project["entry-points"]["devmod.bundles"]) == (
        "fast-ops",
        {"fast_ops": "fast_ops"},
    )
    jobs = plan_of(read_manifest()).jobs
    assert [(job.kernel, job.target.partition(" ")[0]) for job in jobs] == [
        ("multiply", kind)
        for kind in ("cuda", "rocm", "metal", "vulkan", "opencl", "webgpu", "hexagon")
    ]
    assert main(["init", "--torch", "fast_ops"]) == 0  # nothing has changed
    Path("tests/test_ops.py").write_text("mine")
    assert (
        printed_by(capsys, "init", "--torch", "fast_ops", status=1).err
        == "devmod: error: tests/test_ops.py exists; --force overwrites it\n"
    )
    assert main(["init", "--torch", "fast_ops", "--force", "-q"]) == 0
    assert Path("tests/test_ops.py").read_text() == written["tests/test_ops.py"]
    Path("my folder").mkdir()
    assert printed_by(capsys, "init", "my folder", "--torch", "fast_ops").out == (
        "my folder/pyproject.toml: the package fast_ops. To test it: cd 'my folder'; pip install \".[opencl]\" pytest; pytest\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        *[
            (
                [name],
                f"--torch: expected the name of a package of Python in lower case, such as fast_ops, got {name!r}",
            )
            for name in ("Fast", "a-b", "", "../up", "class", "a" * 33)
        ],
        (
            ["fast", "-t", "opencl"],
            "--torch takes neither --target nor --output: the manifest that it writes has them",
        ),
        (
            ["fast", "-o", "k.devmod"],
            "--torch takes neither --target nor --output: the manifest that it writes has them",
        ),
    ],
)
def test_a_package_that_is_not_written(
    arguments: list[str], text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in " ".join(printed_by(capsys, "init", "--torch", *arguments, status=2).err.split())
    assert not [*folder.iterdir()]
