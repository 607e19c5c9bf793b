"""A mistyped build option is refused where a kernel is built, for each kind and at each door."""

from __future__ import annotations

import shutil
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import printed_by
from each_case import check_each, refusal
from hatchling.builders.wheel import WheelBuilder
from test_compile_nvcc import missing

import devmod
from devmod_readers.options import cuda, metal, opencl, rocm
from devmod_readers.options.table import OptionTable

pytestmark = pytest.mark.skipif(find_spec("clang") is None, reason="libclang is not installed")
CL = "kernel void k(global float *x) { x[0] = 1; }\n"
C = "void k(int *x) { x[0] = 1; }\n"
GLSL = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"
HLSL = "[numthreads(1, 1, 1)] void main() {}\n"
CUDA = 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n'
IR = "define ptx_kernel void @k() { ret void }\n"
METAL = "#include <metal_stdlib>\nkernel void k(device int *x [[buffer(0)]]) { x[0] = 1; }\n"
WGSL = "@compute @workgroup_size(1) fn k() {}\n"
SLANG = '[shader("compute")] [numthreads(1, 1, 1)] void k() {}\n'
#: The options of the specification of OpenCL (clBuildProgram), by their first versions. For the
#: versions that -cl-std names, the first version is their own.
SPECIFIED = {
    "1.0": "-cl-single-precision-constant -cl-denorms-are-zero -cl-opt-disable -cl-strict-aliasing -cl-mad-enable -cl-no-signed-zeros "
    "-cl-unsafe-math-optimizations -cl-finite-math-only -cl-fast-relaxed-math -w -Werror",
    "1.1": "-cl-std=CL1.1",
    "1.2": "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -cl-kernel-arg-info",
    "2.0": "-cl-std=CL2.0 -cl-uniform-work-group-size -g",
    "2.1": "-cl-no-subgroup-ifp",
    "3.0": "-cl-std=CL3.0",
}
#: Of the extension cl_ext_cxx_for_opencl.
CPP = {"-cl-std=CLC++": "2.0", "-cl-std=CLC++1.0": "2.0", "-cl-std=CLC++2021": "3.0"}
VERSIONS = {
    option: version for version, options in SPECIFIED.items() for option in options.split()
} | CPP
TABLES = {"cuda": cuda.TABLE, "metal": metal.TABLE, "opencl": opencl.TABLE, "rocm": rocm.TABLE}


def tables() -> dict[str, OptionTable]:
    """Return all tables: those of payloads, and those of compilers that run here."""
    from devmod_targets.authoring.clang_build import _SUPPORTED
    from devmod_targets.vulkan._clspv import TABLE

    return {**TABLES, "clang": _SUPPORTED, "clspv": TABLE}


# -- each row


@pytest.mark.parametrize(
    ("name", "rows"),
    [("cuda", 128), ("metal", 38), ("opencl", 23), ("rocm", 64), ("clang", 309), ("clspv", 70)],
)
def test_each_row_is_taken_and_is_the_hint_for_its_misspelling(name: str, rows: int) -> None:
    table = tables()[name]
    options = [*table.words, *(f"{each}=" for each in table.values)]
    assert len(options) == len(set(options)) == rows

    def check(option: str) -> None:
        assert option in table or option.endswith("=")
        stem, equals, value = option.partition("=")
        misspelt = f"{stem[:-2]}{stem[-1]}{equals}{value}"
        if len(misspelt) >= 6 and misspelt not in table:
            hint = table.hint(misspelt)
            assert hint.startswith(". Did you mean '-")
            assert stem[:4] in hint

    check_each(options, check)


def test_the_options_of_opencl_are_those_of_the_specification() -> None:
    assert VERSIONS == opencl.VERSIONS


def doubts(*options: str) -> list[str]:
    """Return what a compile warns about."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        devmod.compile(CL, "opencl", options=options)
    texts = [str(each.message) for each in records]
    if not texts:
        return texts
    (text,) = texts
    head, *lines = text.splitlines()
    assert head == "some devices may refuse the OpenCL C source:"
    return lines


def test_an_option_of_a_newer_version_than_the_source_is_a_doubt() -> None:
    def check(option: str) -> None:
        for standard in ("", "CL1.1", "CL1.2", "CL2.0", "CL3.0"):
            if option.startswith("-cl-std="):
                continue
            version = VERSIONS[option]
            own = standard.removeprefix("CL") or "1.2"
            given = [f"-cl-std={standard}", option] if standard else [option]
            expected = []
            if version > own:
                expected = [
                    f"the option {option!r} is one of OpenCL {version}, and the source is of {own}"
                ]
            assert doubts(*given) == expected

    check_each(VERSIONS, check)
    for option in CPP:
        assert doubts(option) == [
            f"the option {option!r} needs the extension cl_ext_cxx_for_opencl"
        ]
    for option in ("-cl-std=CL1.1", "-cl-std=CL3.0"):
        assert doubts(option) == []


#: Options of one vendor, or of compilers that are clang.
OTHERS = {
    "-cl-nv-verbose": "is one of NVIDIA's drivers alone",
    "-cl-intel-256-GRF-per-thread": "is one of Intel's drivers alone",
    "-cl-amd-x": "is one of AMD's drivers alone",
    "-cl-arm-x=1": "is one of Arm's drivers alone",
    "-cl-img-x": "is one of Imagination's drivers alone",
    "-cl-qcom-x": "is one of Qualcomm's drivers alone",
    "-qcom-accelerate-16-bit": "is one of Qualcomm's drivers alone",
    "-UNAME": "is one of clang, and OpenCL has no such option",
    "-O": "is one of clang, and OpenCL has no such option",
    "-O3": "is one of clang, and OpenCL has no such option",
}


def test_an_option_of_some_drivers_is_a_doubt_and_an_error_with_strict() -> None:
    def check(option: str) -> None:
        (text,) = doubts(option)
        assert text.startswith(f"the option {option!r} {OTHERS[option]}")
        assert refusal(
            devmod.CompileError, devmod.compile, CL, "opencl", options=[option, "--strict"]
        ).startswith(
            "--strict turns this warning into an error: some devices may refuse the OpenCL"
        )

    check_each(OTHERS, check)
    assert len(doubts("-cl-nv-maxrregcount", "32")) == 1
    for options in (["32"], ["-cl-mad-enable", "32"], ["-cl-nv-maxrregcount=32", "16"]):
        text = refusal(devmod.CompileError, devmod.compile, CL, "opencl", options=options)
        assert text.startswith(f"the opencl option {options[-1]!r} is not supported: a receiver ")


@pytest.mark.skipif(find_spec("pyclspv") is None, reason="pyclspv is not installed")
def test_pyclspv_takes_each_of_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    table = tables()["clspv"]
    values = {r"[\w,]+": "ssbo", r"\d+": "64", "[01]": "1"}
    options = [*table.words]
    for name, pattern in table.values.items():
        value = {"enable-feature-macros": "__opencl_c_int64", "use-native-builtins": "sin"}
        options.append(f"{name}={value.get(name.lstrip('-'), values[pattern])}")
    # Of a newer clspv.
    newer = ("-scalar-block-layout", "--scalar-block-layout", "-cl-std=CLC++1.0")

    def check(option: str) -> None:
        if option not in newer:
            assert devmod.compile(CL, "vulkan", language="OpenCL C", options=[option])

    check_each(options, check)
    for option in (
        "-cl-strict-aliasing",
        "-cl-uniform-work-group-size",
        "-cl-no-subgroup-ifp",
        "-cl-nv-verbose",
    ):
        text = refusal(
            devmod.CompileError, devmod.compile, CL, "vulkan", language="OpenCL C", options=[option]
        )
        assert text.startswith(f"the vulkan option {option!r} is not supported: expected ")


def test_clang_takes_each_word_of_rocm() -> None:
    assert devmod.compile(CUDA, "rocm -format=hip", options=rocm.TABLE.words)


# -- each kind

#: The target, the language, the source, a mistyped option, and the end of the error.
MISTYPED = {
    "opencl": ("opencl", "OpenCL C", CL, "-cl-fast", "Did you mean '-cl-fast-relaxed-math'?"),
    "opencl, a version": (
        "opencl",
        "OpenCL C",
        CL,
        "-cl-std=CL22.0",
        "Did you mean '-cl-std=CL2.0'?",
    ),
    "opencl, SPIR-V": (
        "opencl -format=il",
        "OpenCL C",
        CL,
        "-cl-mad-enabel",
        "Did you mean '-cl-mad-enable'?",
    ),
    "opencl, SPIR-V, a vendor": (
        "opencl -format=il",
        "OpenCL C",
        CL,
        "-cl-nv-verbose",
        "unknown argument: '-cl-nv-verbose'",
    ),
    "vulkan": (
        "vulkan",
        "OpenCL C",
        CL,
        "-inline-entry-point",
        "Did you mean '-inline-entry-points'?",
    ),
    "cuda": (
        "cuda -format=cuda",
        "CUDA C++",
        CUDA,
        "--use_fast_mth",
        "Did you mean '--use_fast_math'?",
    ),
    "cuda, a version": (
        "cuda -format=cuda",
        "CUDA C++",
        CUDA,
        "-std=c++99",
        "nvrtc: error: invalid value for --std(-std)",
    ),
    "cuda, ptxas": (
        "cuda -format=cuda",
        "CUDA C++",
        CUDA,
        "-Xptxas=-dlcm=cz",
        "write it in one word, as in -Xptxas=-O3",
    ),
    "cuda, PTX": (
        "cuda -arch=compute_90",
        "CUDA C++",
        CUDA,
        "--fmadd=true",
        "Did you mean '--fmad=true'?",
    ),
    "cuda, nvcc": (
        "cuda -arch=sm_90 -compiler=nvcc",
        "CUDA C++",
        CUDA,
        "-lineinfos",
        "Did you mean '-lineinfo'?",
    ),
    "cuda, LLVM IR": ("cuda -arch=compute_90", "LLVM IR", IR, "-ffast-mth", "or -ffp-contract=off"),
    "rocm, source": ("rocm -format=hip", "HIP", CUDA, "-ffast-mth", "Did you mean '-ffast-math'?"),
    "rocm, a warning": (
        "rocm -format=hip",
        "HIP",
        CUDA,
        "-Wno-unusd",
        "did you mean '-Wno-unused'? [-Werror,-Wunknown-warning-option]",
    ),
    "rocm": ("rocm -arch=gfx1100", "HIP", CUDA, "-fno-fast-mth", "Did you mean '-fno-fast-math'?"),
    "hexagon": ("hexagon -arch=v68", "C", C, "-mhvxx", "Did you mean '-mhvx'?"),
    "hexagon, a warning": (
        "hexagon -arch=v68",
        "C",
        C,
        "-Wunusd",
        "did you mean '-Wunused'? [-Werror,-Wunknown-warning-option]",
    ),
    "hexagon, a version": (
        "hexagon -arch=v68",
        "C",
        C,
        "-std=c1x1",
        "invalid value 'c1x1' in '-std=c1x1'",
    ),
    "metal": ("metal", "MSL", METAL, "-ffast-maths", "Did you mean '-ffast-math'?"),
    "metal, a version": ("metal", "MSL", METAL, "-std=metal3.7", "Did you mean '-std=metal3.2'?"),
    "webgpu": ("webgpu", "WGSL", WGSL, "-O2", "accepts no options but -DNAME=VALUE, got '-O2'"),
    "vulkan, GLSL": ("vulkan", "GLSL", GLSL, "-gVSS", "such as -g"),
    "vulkan, HLSL": (
        "vulkan",
        "HLSL",
        HLSL,
        "--hlsl-iomapp",
        "--hlsl-iomapp: unrecognized command-line option (use -h for usage)",
    ),
    "slang": ("vulkan", "Slang", SLANG, "-fp-mode=fst", "such as -g"),
}
#: The packages without which a case is not run.
NEEDS = {"vulkan": "pyclspv", "slang": "slangpy"}


@pytest.mark.parametrize("case", MISTYPED)
def test_a_mistyped_option_is_refused(case: str) -> None:
    target, language, source, option, end = MISTYPED[case]
    needed = NEEDS.get(case, "")
    if needed and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    if case == "cuda, nvcc" and missing():
        pytest.skip(missing())
    if case == "vulkan, HLSL" and not shutil.which("glslangValidator"):
        pytest.skip("glslangValidator is not installed")
    text = refusal(
        devmod.CompileError, devmod.compile, source, target, language=language, options=[option]
    )
    assert text.endswith(end)


# -- each door

ERROR = "the opencl option '-cl-fast' is not supported: a receiver does not pass it to its driver. "


def test_each_door_refuses_a_mistyped_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cl").write_text(CL)
    for words in ([], ["--strict"]):
        text = printed_by(
            capfd, "compile", "k.cl", "-t", "opencl", "--option=-cl-fast", *words, status=1
        ).err
        assert text.startswith(f"devmod: error: {ERROR}")
        assert not Path("k.devmod").exists()
    Path("first.cl").write_text(f"//devmod: -cl-mad-enable -cl-fast\n{CL}")
    assert refusal(devmod.CompileError, devmod.compile, Path("first.cl"), "opencl").startswith(
        ERROR
    )

    Path("devmod.toml").write_text(
        'output = "src/pkg/k.devmod"\ntargets = ["opencl"]\n[kernels.k]\nsources = ["k.cl"]\noptions = ["-cl-fast"]\n'
    )
    Path("src/pkg").mkdir(parents=True)
    (failure,) = devmod.build(cache=False).failures
    assert failure.message.startswith(ERROR)
    Path("src/pkg/__init__.py").touch()
    Path("pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n[project]\nname = "pkg"\nversion = "1"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/pkg"]\n[tool.hatch.build.hooks.devmod]\n'
    )
    with pytest.raises(SystemExit):
        next(WheelBuilder(".").build(directory="dist", versions=["standard"]))
    assert ERROR in "".join(capfd.readouterr())
