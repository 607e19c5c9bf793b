"""No option names a program or a file to load, except the two with which the command line and
Python name a toolchain.
"""

from __future__ import annotations

import re

import pytest
from each_case import check_each

import devmod
from devmod_readers.options.cuda import check_options

C = "void k(int *x) { x[0] = 1; }\n"
GLSL = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"
CUDA = 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n'
IR = "define ptx_kernel void @k() { ret void }\n"
METAL = "kernel void k(device int *x [[buffer(0)]]) { x[0] = 1; }\n"
#: Each has no slash: a path is refused for every kind.
CLANG = (
    *(
        "-fplugin=evil.so",
        "-fpass-plugin=evil.so",
        "-Xclang",
        "-Xclang=-load",
        "-Xclangas=-x",
        "-load",
        "-mllvm",
        "-mllvm=-load=evil.so",
    ),
    *(
        "-mmlir",
        "-module-dependency-dir",
        "-fmodules-user-build-path",
        "-B.",
        "-Bevil",
        "--config=evil",
        "--config",
        "-fuse-ld=evil",
        "--ld-path=evil",
        "-specs=evil",
        "-resource-dir",
        "@evil",
    ),
    *(
        "-resource-dir=evil",
        "-isystemevil",
        "-include",
        "-includeevil",
        "-imacros",
        "-mlink-builtin-bitcode=evil",
        "-ivfsoverlay",
        "-Ievil",
    ),
    *(
        "-Wa,-evil",
        "-Wl,evil",
        "-Wp,-include,evil",
        "-Xlinker",
        "-Xarch_device",
        "-Xarch_host",
        "-Xassembler",
        "-Xpreprocessor",
    ),
    *(
        "-Xopenmp-target",
        "-Xoffload-linker",
        "-multi-lib-config=evil",
        "--offload-arch-tool=evil",
        "--ptxas-path=evil",
        "--gcc-toolchain=evil",
    ),
    *(
        "--gcc-install-dir=evil",
        "-ccc-gcc-name",
        "--hip-path=evil",
        "--hip-device-lib=evil",
        "--rocm-path=evil",
        "--gpu-instrument-lib=evil",
    ),
    *(
        "-fprofile-use=evil",
        "-fprofile-instr-use=evil",
        "-fprofile-list=evil",
        "-fmodule-file=evil",
        "-fmodule-map-file=evil",
    ),
    *(
        "-fmodules-cache-path=evil",
        "-fsanitize-ignorelist=evil",
        "-fembed-offload-object=evil",
        "-fthinlto-index=evil",
        "-ftime-trace=evil",
    ),
    *(
        "-foptimization-record-file=evil",
        "-fdiagnostics-log-file=evil",
        "-frandomize-layout-seed-file=evil",
        "-working-directory=evil",
    ),
    *(
        "-gcc-toolchain",
        "--sysroot=evil",
        "-o",
        "-MFevil",
        "-MJevil",
        "-Tevil",
        "--serialize-diagnostics",
        "--hipspv-pass-plugin=evil",
        "evil",
    ),
    # They search headers in other places, read and write files beside the source, or start
    # programs.
    *(
        "-fms-compatibility",
        "-fms-extensions",
        "-fborland-extensions",
        "-fapinotes",
        "-fapinotes-modules",
        "-fdelayed-template-parsing",
    ),
    *(
        "-fmodules",
        "-fcxx-modules",
        "-fimplicit-modules",
        "-fimplicit-module-maps",
        "-fbuiltin-module-map",
        "-fprebuilt-implicit-modules",
    ),
    *(
        "-fno-integrated-as",
        "-fno-integrated-cc1",
        "-fembed-bitcode",
        "-flto",
        "-fthin-link-bitcode",
        "-fsplit-dwarf-inlining",
    ),
    *(
        "-fprofile-arcs",
        "-ftest-coverage",
        "-fprofile-generate",
        "-fcs-profile-generate",
        "-fcoverage-mapping",
        "-fstack-usage",
    ),
    *(
        "-fsave-optimization-record",
        "-fproc-stat-report",
        "-fopenmp",
        "-fcrash-diagnostics",
        "-fnot-yet-known",
        "-fno-not-yet-known",
    ),
)
GLSLANG = (
    *(
        "-external",
        "-Fevil",
        "-Fdevil",
        "-Freevil",
        "--depfile",
        "--depfile=evil",
        "-flimit-file",
        "-flimit-file=evil",
        "-Ievil",
        "@evil",
    ),
    *(
        "-oevil",
        "--vn",
        "--variable-name=evil",
        "-MFevil",
        "-setrootsignature",
        "-import-binding-table",
        "-dumpbin",
        "-ftime-trace=evil",
    ),
    *("--stdin", "-P", "-link", "-recompile"),
)
NVRTC = (
    *(
        "--include-path=evil",
        "-include=evil",
        "--pre-include=evil",
        "--pch",
        "--create-pch=evil",
        "--use-pch=evil",
        "--pch-dir=evil",
        "@evil",
    ),
    *(
        "--time=evil",
        "--fdevice-time-trace=evil",
        "-ccbin",
        "-Xcompiler",
        "--ptxas-options=-evil",
        "-Xptxas=--evil=evil",
        "-dlto",
        "-Ievil",
    ),
)
CASES = [
    *(("hexagon -arch=v68", "C", C, option) for option in CLANG),
    *(("rocm -arch=gfx1100", "HIP", CUDA, option) for option in CLANG),
    *(
        ("rocm -arch=gfx1100 -format=hip", "HIP", CUDA, option)
        for option in (*CLANG, "-ftime-trace")
    ),
    *(("metal -format=metallib", "MSL", METAL, option) for option in CLANG),
    *(("metal", "MSL", METAL, option) for option in (*CLANG, "-ftime-trace")),
    *(("cuda -arch=compute_90", "LLVM IR", IR, option) for option in (*CLANG, "-ftime-trace")),
    *(("vulkan", "GLSL", GLSL, option) for option in GLSLANG),
]


@pytest.fixture(autouse=True)
def without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option is refused before a program is started."""

    def refuse(*command: object, **_: object) -> None:
        raise AssertionError(f"{command} is started")

    monkeypatch.setattr("subprocess.run", refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)


def test_it_is_refused() -> None:
    check_each(CASES, check_refusal)


def check_refusal(case: tuple[str, str, str, str]) -> None:
    target, language, source, option = case
    with pytest.raises(devmod.CompileError, match="option") as caught:
        devmod.compile(source, target, language=language, options=[option])
    assert not isinstance(caught.value, devmod.ToolchainNotFoundError)
    assert repr(option) in str(caught.value) or repr(option.strip()) in str(caught.value)


@pytest.mark.parametrize("option", NVRTC)
def test_nvrtc_is_not_called(option: str) -> None:
    with pytest.raises(devmod.CompileError, match=f"the cuda option {re.escape(repr(option))}"):
        check_options([option])


@pytest.mark.parametrize(
    "option",
    [
        *(
            "-O3",
            "-ffast-math",
            "-fno-signed-zeros",
            "-ffp-contract=off",
            "-Wno-unused",
            "-Wframe-larger-than=100",
            "-mhvx",
        ),
        *(
            "-funroll-loops",
            "-fno-slp-vectorize",
            "-fno-exceptions",
            "-fno-rtti",
            "-fno-strict-aliasing",
            "-fwrapv",
            "-fsigned-char",
        ),
        *(
            "-fshort-enums",
            "-fno-inline-functions",
            "-fno-builtin",
            "-fno-builtin-memcpy",
            "-fno-char8_t",
            "-ffreestanding",
            "-fopenmp-simd",
        ),
    ],
)
def test_an_option_for_the_code_is_passed_on(option: str) -> None:
    with pytest.raises(AssertionError, match="is started"):
        devmod.compile(C, "hexagon -arch=v68", language="C", options=[option])
