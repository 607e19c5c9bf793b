"""The manifest of `devmod build`: what its keys mean, and the plan that follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal

import devmod
from devmod_targets._cli.compile import assign
from devmod_targets.build import plan_of, read_manifest
from devmod_targets.build.build import build_manifest
from devmod_targets.build.manifest import KernelEntry, Manifest
from devmod_targets.build.plan import Job, Plan

CL = "kernel void {0}(global float *x) {{ x[get_global_id(0)] *= 2; }}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has sources of several languages."""
    monkeypatch.chdir(tmp_path)
    for name in ("twice.cl", "twice.comp", "twice.cu", "blur.comp", "fast.cu", "k.ll", "k.inc"):
        Path(name).write_text("")
    for name in ("include", "own", "common"):
        Path(name).mkdir()
    return tmp_path


def plan(text: str, *targets: str) -> Plan:
    Path("devmod.toml").write_text(text)
    return plan_of(read_manifest(), targets)


def rows(text: str, *targets: str) -> list[tuple[str, str, str]]:
    return [(job.kernel, job.source, job.target) for job in plan(text, *targets).jobs]


EXAMPLE = """\
output = "kernels.devmod"
targets = ["opencl", "vulkan", "cuda -arch=sm_80,sm_90,compute_90"]
[kernels.twice]
sources = ["twice.cl", "twice.comp", "twice.cu"]     # each goes to the targets that take its language
defines = { WIDTH = 16 }
[kernels.twice.target.cuda]
options = ["--use_fast_math"]
"""


SLANG_KINDS = ["vulkan", "webgpu", "metal", "hexagon"]


@pytest.mark.parametrize(
    ("sources", "languages"),
    [
        (["k.cl", "k.cu"], {"opencl": "cl", "cuda": "cu", "rocm": "cu"}),
        (
            ["k.slang", "k.cu"],
            {"cuda": "cu", "rocm": "slang"} | dict.fromkeys(SLANG_KINDS, "slang"),
        ),
        (["k.cu", "k.slang"], {"cuda": "cu", "rocm": "cu"} | dict.fromkeys(SLANG_KINDS, "slang")),
        (
            ["k.cl", "k.slang"],
            {"opencl": "cl", "cuda": "slang", "rocm": "slang"}
            | dict.fromkeys(SLANG_KINDS, "slang"),
        ),
        (["k.hip", "k.cu", "k.cl"], {"opencl": "cl", "cuda": "cu", "rocm": "hip"}),
        (["k.slang", "k.hip", "k.comp"], {"cuda": "slang", "rocm": "hip", "vulkan": "comp"}),
        (
            ["k.cl", "other.cl", "k.slang", "k.cu", "other.cu"],
            {"opencl": "cl", "cuda": "cu", "rocm": "slang", "hexagon": "slang"},
        ),
    ],
)
def test_a_target_gets_one_language_its_own_or_the_first(
    folder: Path, sources: list[str], languages: dict[str, str]
) -> None:
    for name in sources:
        (folder / name).touch()
    arch = {"cuda": " -arch=sm_80", "rocm": " -arch=gfx1100", "hexagon": " -arch=v66"}
    targets = json.dumps([kind + arch.get(kind, "") for kind in languages])
    result = rows(f"targets = {targets}\n[kernels.k]\nsources = {json.dumps(sources)}\n")
    expected = [
        (kind, source)
        for kind, language in languages.items()
        for source in sources
        if source.endswith(f".{language}")
    ]
    assert [(target.partition(" ")[0], source) for _, source, target in result] == expected
    paths = [Path(name) for name in sources]
    command = {
        (target, str(paths[index])) for index, target, _ in assign(paths, list(languages), None)
    }
    assert command == set(expected)


def test_macros_of_all_kernels_are_for_the_languages_that_have_macros(folder: Path) -> None:
    (folder / "twice.wgsl").write_text("")
    result = plan(
        """\
targets = ["opencl", "webgpu", "cuda -arch=sm_80"]
defines = { WIDTH = 16 }
include = ["common"]
[target.cuda]
defines = { FAST = 1 }
[kernels.twice]
sources = ["twice.cl", "twice.wgsl", "twice.cu"]
[kernels.k]
sources = ["k.ll"]
targets = ["cuda -arch=sm_80"]
"""
    )
    assert [(job.source, job.defines, job.include) for job in result.jobs] == [
        ("twice.cl", (("WIDTH", 16),), ("common",)),
        ("twice.wgsl", (("WIDTH", 16),), ("common",)),
        ("twice.cu", (("WIDTH", 16), ("FAST", 1)), ("common",)),
        ("k.ll", (), ()),
    ]


def test_macros_and_folders_of_a_slang_kernel_are_for_every_kind(folder: Path) -> None:
    (folder / "k.slang").write_text("")
    result = plan(
        """\
targets = ["vulkan", "webgpu", "metal", "cuda -arch=sm_80", "rocm -arch=gfx1100", "hexagon -arch=v66"]
include = ["common"]
[kernels.k]
sources = ["k.slang"]
include = ["own"]
defines = { WIDTH = 16 }
"""
    )
    assert [(job.defines, job.include) for job in result.jobs] == [
        ((("WIDTH", 16),), ("own", "common"))
    ] * 6


def test_each_source_goes_to_the_targets_that_take_its_language(folder: Path) -> None:
    result = plan(EXAMPLE)
    assert result == Plan(
        read_manifest(),
        (
            Job("twice", str(folder), "twice.cl", "opencl", name="twice", defines=(("WIDTH", 16),)),
            Job(
                "twice", str(folder), "twice.comp", "vulkan", name="twice", defines=(("WIDTH", 16),)
            ),
            *(
                Job(
                    "twice",
                    str(folder),
                    "twice.cu",
                    f"cuda -arch={arch}",
                    name="twice",
                    defines=(("WIDTH", 16),),
                    options=("--use_fast_math",),
                )
                for arch in ("sm_80", "sm_90", "compute_90")
            ),
        ),
    )
    assert result.output == str(folder / "kernels.devmod")
    assert str(result.jobs[2]) == "twice.cu for cuda -arch=sm_80"
    assert result.jobs[2].kind == "cuda"


def test_a_job_has_the_arguments_of_compile(folder: Path) -> None:
    Path("sum.cl").write_text(
        "kernel void sum(global float *x, local float *s) { x[get_local_id(0)] = s[0] = N; }\n"
    )
    (job,) = plan(
        'targets = ["opencl"]\n[kernels.sum]\nsources = ["sum.cl"]\ninclude = ["include"]\ndefines = { N = 2.5, DEBUG = true, T = "int" }\n'
        'options = ["-cl-fast-relaxed-math"]\nblock = [16, 4]\nlocal = { s = "4/thread" }\n'
    ).jobs
    assert job.arguments() == {
        "name": "sum",
        "language": None,
        "fmap": None,
        "options": ("-cl-fast-relaxed-math",),
        "defines": {"N": 2.5, "DEBUG": True, "T": "int"},
        "include": (str(folder / "include"),),
        "name_expressions": (),
        "block": (16, 4),
        "local": {"s": devmod.Local(per_thread=4)},
        "shared_memory": None,
        "aliases": None,
        "subgroup": None,
        "tune": None,
        "constraints": (),
        "sizes": (),
        "grid": None,
    }
    module = devmod.compile(Path(job.path), job.target, **job.arguments())
    interface = module.functions["sum"].interface
    assert interface is not None
    assert (interface.default_block, interface.params[1].default) == (
        (16, 4, 1),
        devmod.Local(per_thread=4),
    )
    assert module.origin is not None
    assert module.origin.options == ("-cl-fast-relaxed-math", "-DN=2.5", "-DDEBUG=1", "-DT=int")


def test_more_specific_tables_come_last_and_their_includes_first() -> None:
    (job,) = plan("""\
targets = ["cuda -arch=sm_90"]
options = ["-a"]
include = ["common"]
defines = { A = 1, B = 1, C = 1, D = 1 }
[target.cuda]
options = ["-b"]
defines = { B = 2, C = 2, D = 2 }
[kernels.twice]
sources = ["twice.cu"]
options = ["-c"]
include = ["include", "common"]
defines = { C = 3, D = 3 }
[kernels.twice.target."cuda -arch=sm_90"]
options = ["-e"]
[kernels.twice.target.cuda]
options = ["-d"]
include = ["own"]
defines = { D = 4 }
""").jobs
    assert job.options == ("-a", "-b", "-c", "-d", "-e")
    assert job.defines == (("A", 1), ("B", 2), ("C", 3), ("D", 4))
    assert job.include == ("own", "include", "common")


def test_a_target_table_may_be_for_one_variant() -> None:
    jobs = plan("""\
targets = ["cuda -arch=sm_80,sm_90"]
[kernels.twice]
sources = ["twice.cu"]
block = 32
[kernels.twice.target."cuda -arch=sm_90"]
sources = ["fast.cu"]
block = { twice = 64 }
local = { twice = { s = 8 } }
""").jobs
    assert [(job.target, job.source, job.block, job.local) for job in jobs] == [
        ("cuda -arch=sm_80", "twice.cu", (("", (32,)),), ()),
        ("cuda -arch=sm_90", "fast.cu", (("twice", (64,)),), ((("twice", "s"), (8, False)),)),
    ]
    assert jobs[1].arguments()["block"] == {"twice": (64,)}
    assert jobs[1].arguments()["local"] == {"twice": {"s": devmod.Local(8)}}


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("1", 1),
        ('"4/thread"', devmod.Local(per_thread=4)),
        ("{ twice = 1024 }", {"twice": 1024}),
        ('{ twice = "999999999999999999/thread" }', {"twice": devmod.Local(per_thread=10**18 - 1)}),
    ],
)
def test_the_default_of_dynamic_shared_memory(text: str, given: Any) -> None:
    first, second = plan(f"""\
targets = ["cuda -arch=sm_80,sm_90"]
[kernels.twice]
sources = ["twice.cu"]
shared_memory = 7
[kernels.twice.target."cuda -arch=sm_90"]
shared_memory = {text}
""").jobs
    assert first.arguments()["shared_memory"] == 7
    assert second.arguments()["shared_memory"] == given


def test_aliases_of_several_tables_apply_together() -> None:
    jobs = plan("""\
targets = ["opencl", "cuda -arch=sm_90"]
aliases = { x = ["a"], y = ["b", "c"] }
[target.cuda]
aliases = { z = ["d"] }
[kernels.twice]
sources = ["twice.cl", "twice.cu"]
aliases = { y = ["e"] }
[kernels.twice.target.cuda]
subgroup = 32
""").jobs
    assert [(job.aliases, job.subgroup) for job in jobs] == [
        ((("x", ("a",)), ("y", ("e",))), 0),
        ((("x", ("a",)), ("y", ("e",)), ("z", ("d",))), 32),
    ]
    assert [job.arguments()["subgroup"] for job in jobs] == [None, 32]
    assert jobs[0].arguments()["aliases"] == {"x": ("a",), "y": ("e",)}


def test_a_fatbin_is_one_job() -> None:
    text = 'targets = ["cuda -arch=sm_80,sm_90 -format=fatbin"]\n[kernels.twice]\nsources = ["twice.cu"]\n'
    assert rows(text) == [("twice", "twice.cu", "cuda -arch=sm_80,sm_90 -format=fatbin")]


def test_a_kernel_may_have_its_own_targets_and_leave_some_out() -> None:
    text = """\
targets = ["opencl", "vulkan"]
[kernels.blur]
sources = ["blur.comp"]
skip = ["opencl"]
[kernels.twice]
sources = ["twice.cu"]
targets = ["cuda -arch=compute_90"]
"""
    assert rows(text) == [
        ("blur", "blur.comp", "vulkan"),
        ("twice", "twice.cu", "cuda -arch=compute_90"),
    ]


def test_a_source_without_a_suffix_of_its_language_names_it() -> None:
    text = (
        'targets = ["opencl"]\n[kernels.k]\nsources = [{ path = "k.inc", language = "OpenCL C" }]\n'
    )
    assert [job.language for job in plan(text).jobs] == ["OpenCL C"]
    text = 'targets = ["opencl", "vulkan"]\n[kernels.k]\nsources = ["twice.comp"]\n[kernels.k.target.opencl]\nsources = ["k.inc"]\nlanguage = "cl"\n'
    assert [(job.source, job.language) for job in plan(text).jobs] == [
        ("k.inc", "cl"),
        ("twice.comp", ""),
    ]


def test_one_file_is_a_source_of_two_languages() -> None:
    text = 'targets = ["cuda -arch=sm_90", "rocm -arch=gfx90a"]\n[kernels.k]\nsources = ["twice.cu", { path = "twice.cu", language = "HIP" }]\n'
    assert [(job.source, job.language, job.target) for job in plan(text).jobs] == [
        ("twice.cu", "", "cuda -arch=sm_90"),
        ("twice.cu", "HIP", "rocm -arch=gfx90a"),
    ]


def test_one_source_has_the_name_of_the_kernel_and_several_have_their_stems() -> None:
    jobs = plan("""\
targets = ["vulkan", "opencl"]
[kernels.smooth]
sources = ["blur.comp", "twice.cl"]
[kernels.many]
sources = ["twice.comp", { path = "./blur.comp", name = "soft" }]
skip = ["opencl"]
[kernels.named]
sources = ["k.inc"]
language = "GLSL"
name = "other"
targets = ["vulkan"]
""").jobs
    assert [(job.source, job.name) for job in jobs] == [
        ("blur.comp", "smooth"),
        ("twice.cl", "smooth"),
        ("twice.comp", ""),
        ("blur.comp", "soft"),
        ("k.inc", "other"),
    ]


def test_functions_are_declared_where_the_source_does_not_show_their_arguments() -> None:
    jobs = plan("""\
targets = ["cuda -arch=sm_90", "rocm -arch=gfx1100"]
[kernels.k.functions.k]
arg_types = ["handle", "int32"]
launch_param_tags = ["blockIdx.x", "threadIdx.x"]
[kernels.k.target.cuda]
sources = ["k.ll"]
[kernels.k.target.rocm]
sources = ["k.ll"]
[kernels.k.target.rocm.functions.k]
name = "_Z1kPfi"
params = [
    { name = "x", kind = "buffer", type = "float32", access = "rw" },
    { name = "n", kind = "scalar", type = "int32" },
]
""").jobs
    first, second = (job.arguments()["fmap"]["k"] for job in jobs)
    assert first == devmod.FunctionInfo("k", ("handle", "int32"), ("blockIdx.x", "threadIdx.x"))
    assert (second.name, second.arg_types) == ("_Z1kPfi", ("handle", "int32"))
    assert [str(param.name) for param in second.interface.params] == ["x", "n"]


@pytest.mark.parametrize("name", ["pyproject.toml", "."])
def test_a_pyproject_may_hold_the_manifest(name: str) -> None:
    Path("pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.devmod]\ntargets = ["opencl"]\n[tool.devmod.kernels.twice]\nsources = ["twice.cl"]\n'
    )
    manifest = read_manifest(name)
    assert (manifest.path, manifest.targets, [kernel.name for kernel in manifest.kernels]) == (
        "pyproject.toml",
        ("opencl",),
        ["twice"],
    )


def test_a_manifest_is_read_from_another_folder_by_any_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my.toml").write_bytes(
        b'\xef\xbb\xbftargets = ["opencl"]\r\n[kernels.twice]\r\nsources = ["twice.cl"]\r\n'
    )
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    manifest = read_manifest(Path("..", "my.toml"))
    assert (manifest.path, manifest.folder) == ("../my.toml", str(folder))
    assert plan_of(manifest).jobs[0].path == str(folder / "twice.cl")


def test_the_settings_of_the_file() -> None:
    manifest = plan(EXAMPLE + "[constants]\nfiles = []\n").manifest
    assert (manifest.mixed, manifest.with_sources, manifest.compress) == (False, False, "")
    result = plan(
        'compress = "zstd:19"\nmixed = true\nwith_sources = true\n'
        + EXAMPLE.replace("kernels.devmod", "sub/../out/k.devmod")
    )
    manifest = result.manifest
    assert (manifest.mixed, manifest.with_sources, manifest.compress) == (True, True, "zstd:19")
    assert result.output == str(Path.cwd() / "out" / "k.devmod")


def test_strict_is_an_option_of_each_compile() -> None:
    text = EXAMPLE.replace("[kernels.twice.target", 'options = ["--werror"]\n[kernels.twice.target')
    options = [job.options for job in plan(text).jobs]
    strict = [(*each, "--strict") for each in options]
    assert [job.options for job in plan("strict = true\n" + text).jobs] == strict
    Path("devmod.toml").write_text(text)
    assert [job.options for job in plan_of(read_manifest(), strict=True).jobs] == strict


@pytest.mark.parametrize(
    ("targets", "wanted"),
    [
        (("vulkan",), ["vulkan"]),
        (
            ("cuda", "opencl"),
            ["opencl", "cuda -arch=sm_80", "cuda -arch=sm_90", "cuda -arch=compute_90"],
        ),
        (("cuda -arch=sm_90",), ["cuda -arch=sm_90"]),
        (("cuda -arch=sm_80,sm_90",), ["cuda -arch=sm_80", "cuda -arch=sm_90"]),
    ],
)
def test_a_plan_of_some_targets(targets: tuple[str, ...], wanted: list[str]) -> None:
    assert [target for _, _, target in rows(EXAMPLE, *targets)] == wanted


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("vulcan", ". Did you mean 'vulkan'?"),
        ("cuda -arch=sm_70", ". Did you mean 'cuda -arch=sm_90'?"),
        ("metal", ""),
    ],
)
def test_a_target_that_the_manifest_lacks(target: str, text: str) -> None:
    message = refusal(devmod.FormatError, plan, EXAMPLE, target)
    names = "'opencl', 'vulkan', 'cuda -arch=sm_80', 'cuda -arch=sm_90', 'cuda -arch=compute_90'"
    assert message == f"devmod.toml has no target '{target}'; its targets are {names}{text}"


def test_values_of_a_manifest_are_public() -> None:
    Path("devmod.toml").write_text(EXAMPLE)
    manifest = read_manifest()
    assert isinstance(manifest, Manifest)
    (kernel,) = manifest.kernels
    assert isinstance(kernel, KernelEntry)
    settings: Any = kernel.section
    assert [source.path for source in settings.sources] == ["twice.cl", "twice.comp", "twice.cu"]
    assert hash(plan(EXAMPLE)) == hash(plan(EXAMPLE))


def test_a_shader_has_the_name_of_the_kernel_beside_other_kinds(folder: Path) -> None:
    """Several shaders have the names of their files, which is an error where the other kinds have
    the kernel.
    """
    Path("twice.cl").write_text(CL.format("twice"))
    shader = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn main() { x[0] *= 2; }\n"
    Path("k.wgsl").write_text(shader)
    Path("other.wgsl").write_text(shader)
    text = 'targets = ["opencl", "webgpu"]\n[kernels.twice]\nsources = ["twice.cl", "k.wgsl"]\n'
    many = text.replace('"k.wgsl"', '"k.wgsl", "other.wgsl"')
    for manifest, names in (
        (text, ["twice"]),
        (many.replace("kernels.twice", "kernels.all"), ["twice", "k", "other"]),
        (many.replace('"k.wgsl"', '{ path = "k.wgsl", name = "twice" }'), ["twice", "other"]),
    ):
        Path("devmod.toml").write_text(manifest)
        build_manifest(workers=1, cache=False).raise_for_failures()
        assert list(devmod.load("kernels.devmod")) == names
    Path("devmod.toml").write_text(many)
    assert refusal(devmod.FormatError, build_manifest, workers=1, cache=False) == (
        "the kernel 'twice' has no function 'twice' for the target 'webgpu', which other targets have: the entry points 'main' of its files "
        "are 'k', 'other'. Name one: { path = \"k.wgsl\", name = \"twice\" }"
    )


def test_two_functions_of_one_name_for_one_target_are_an_error(folder: Path) -> None:
    for name in ("twice.cl", "k.inc"):
        Path(name).write_text(CL.format("twice"))
    Path("kernels.devmod").write_bytes(b"old")
    text = 'targets = ["opencl"]\n[kernels.twice]\nsources = ["twice.cl"]\n[kernels.other]\nsources = ["k.inc"]\nlanguage = "cl"\n'
    Path("devmod.toml").write_text(text)
    assert refusal(devmod.FormatError, build_manifest, workers=1, cache=False) == (
        "twice.cl (kernel 'twice') and k.inc (kernel 'other') both have a function 'twice' for the target 'opencl'; rename one of them"
    )
    assert Path("kernels.devmod").read_bytes() == b"old"
    # One source, compiled twice: a define can name the second.
    one = 'targets = ["opencl"]\n[kernels.twice]\nsources = ["twice.cl"]\n[kernels.wide]\nsources = ["twice.cl"]\n'
    Path("devmod.toml").write_text(f"{one}defines = {{ WIDE = 1 }}\n")
    assert refusal(devmod.FormatError, build_manifest, workers=1, cache=False) == (
        "twice.cl (kernel 'twice') and twice.cl (kernel 'wide') both have a function 'twice' for the target 'opencl'; "
        'rename one of them, such as by its defines: { twice = "…" }'
    )
    Path("devmod.toml").write_text(f'{one}defines = {{ WIDE = 1, twice = "other" }}\n')
    assert build_manifest(workers=1, cache=False).written
    assert list(devmod.load("kernels.devmod")) == ["twice", "other"]
    Path("devmod.toml").write_text(text)
    Path("k.inc").write_text(CL.format("thrice"))
    assert build_manifest(workers=1, cache=False).written
    assert list(devmod.load("kernels.devmod")) == ["twice", "thrice"]
