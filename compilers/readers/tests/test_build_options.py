"""The build options of payloads: each table, and what is wrong with an option that is in none."""

from __future__ import annotations

import pytest
from each_case import refusal

from devmod.errors import CompileError, FormatError
from devmod_readers.options import cuda, metal, opencl, option_problem, rocm, split_options
from devmod_readers.options.table import OptionTable

#: For each kind, options that it supports and others.
TABLES = {
    cuda: (
        "-lineinfo --use_fast_math -ftz=true --fmad=false -std=c++20 --maxrregcount=32 -DN=a/b -UN "
        "-Xptxas=-O3 -Xptxas=--opt-level=2 --ptxas-options=-dlcm=cg -Ofc=mid -diag-error=1,20 -rdc=false",
        "-ftz -ftz=yes -std=c++2 -std --maxrregcount= -arch=sm_90 -rdc=true -DN-1 lineinfo -Xptxas=-O5 "
        "-diag-error=1, ---lineinfo",
    ),
    rocm: (
        "-O -O3 -Ofast -w -ffast-math -fno-fast-math -mcumode -mno-cumode -std=gnu++17 -ffp-contract=off "
        "-mcode-object-version=5 --gpu-max-threads-per-block=256 -DN -UN -Wall -Wno-unused -Werror=all",
        "-O4 -fcumode -mfast-math -std=c++1 -mcode-object-version=3 -Wl,-x -load -fno-no-cumode",
    ),
    metal: (
        "-ffast-math -fno-fast-math -std=metal3.0 -std=macos-metal2.4 -std=ios-metal1.0 -DN=1",
        "-std=metal5.0 -std=tvos-metal2.4 -UN -O2",
    ),
    opencl: (
        "-w -cl-std=CL3.0 -cl-mad-enable -DN=1 -UN -O -O5 -cl-nv-maxrregcount=32 -qcom-x 32 -g",
        "-cl-fast -O6 -cl-nv- -cl-nv-a=/b -save-temps= 3.2 -U1",
    ),
}


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__.rpartition(".")[2])
def test_the_options_of_a_kind(kind: object) -> None:
    supported, others = TABLES[kind]  # type: ignore[index]
    for option in supported.split():
        assert kind.is_supported(option), option  # type: ignore[attr-defined]
    for option in others.split():
        assert not kind.is_supported(option), option  # type: ignore[attr-defined]


def test_each_switch_of_cuda_and_rocm_has_both_values() -> None:
    words = cuda.TABLE.words
    assert {"--brief-diag=true", "-brief-diag=false", "--device-w", "-dw"} <= {*words}
    assert {"-fno-rounding-math", "-ftrapping-math", "-mno-tgsplit"} <= {*rocm.TABLE.words}


TABLE = OptionTable(["-first=a", "-second", "-ab"], {"-value": r"\d+"}, "-D.*")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("-firs", ""),
        ("-first", ". Did you mean '-first=a'?"),
        ("-secon", ". Did you mean '-second'?"),
        ("-secnod", ". Did you mean '-second'?"),
        ("-valeu=3", ". Did you mean '-value='?"),
        ("-value=x", ""),
        ("-value", ""),
        ("-nothing-like-it", ""),
    ],
)
def test_the_hint_of_an_option(option: str, hint: str) -> None:
    assert TABLE.hint(option) == hint


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("-arch=sm_90", "names an architecture; "),
        ("--gpu-architecture", "names an architecture; "),
        ("-rdc=true", "makes code that a linker must finish; "),
        ("-dlto", "makes code that a linker must finish; "),
        ("--pch", "reads or writes files, or gives no code"),
        ("-include-path=x", "reads or writes files, or gives no code"),
        ("-ftz", "has no value that is supported; write it in one word, as in -ftz=true"),
        (
            "--maxrregcount",
            "has no value that is supported; write it in one word, as in --maxrregcount=32",
        ),
        ("-std=x", "has no value that is supported; write it in one word, as in -std=c++20"),
        ("-jtd", "has no value that is supported; write it in one word, as in -jtd=1"),
        ("-Xptxas=x", "has no value that is supported; write it in one word, as in -Xptxas=-O3"),
        ("-linfo", "is not supported; expected an option of NVRTC such as "),
        ("-Xcompiler=-g", "is nvcc's, and NVRTC lacks it: "),
    ],
)
def test_what_is_wrong_with_an_option_of_cuda(option: str, text: str) -> None:
    for given in ([option], ["-lineinfo", option]):
        found = refusal(CompileError, cuda.check_options, given)
        assert found.startswith(f"the cuda option {option!r} {text}")


def test_the_options_of_nvcc() -> None:
    alone = "is nvcc's, and NVRTC lacks it: it compiles and optimizes the code of the device alone. Leave it out"
    nvcc = ", or compile with nvcc, as in 'cuda -arch=sm_90 -compiler=nvcc'"
    default = ". -default-device makes functions without __device__ functions of the device"
    for option, text in (
        ("-O2", alone),
        ("--extended-lambda", alone + nvcc),
        ("--expt-relaxed-constexpr", alone + nvcc + default),
    ):
        assert (
            refusal(CompileError, cuda.check_options, [option])
            == f"the cuda option {option!r} {text}"
        )
        cuda.check_options([option], is_nvcc=True)
    text = "is for the code or the compiler of the host, or for files; "
    for option in ("-Xcompiler=-g", "-O", "-ccbin"):
        found = refusal(CompileError, cuda.check_options, [option], is_nvcc=True)
        assert found.startswith(f"the cuda option {option!r} {text}")
    cuda.check_values(["-lineinfo", "-nothing", "-std=x"])
    for option in ("-std", "--Xptxas"):
        assert "has no value" in refusal(CompileError, cuda.check_values, ["-lineinfo", option])
    assert cuda.writes_folders(["-w", "--device-debug"])
    assert cuda.writes_folders(["-G"])
    assert not cuda.writes_folders(["-w", "-Gx"])


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("-w -DN=1", ""),
        ("-cl-nv-maxrregcount 32 -w", ""),
        ("-cl-nv-maxrregcount=32 32", "32"),
        ("-w 32", "32"),
        ("32", "32"),
        ("-cl-nv-maxrregcount 32 33", "33"),
        ("-w -cl-fast -x", "-cl-fast"),
    ],
)
def test_the_first_option_that_opencl_does_not_support(options: str, found: str) -> None:
    assert opencl.unsupported(options.split()) == found


DOUBTS = [
    ("-w -cl-std=CL1.2 -cl-kernel-arg-info", []),
    ("-cl-std=CL1.1 -cl-kernel-arg-info", ["is one of OpenCL 1.2, and the source is of 1.1"]),
    ("-g", ["is one of OpenCL 2.0, and the source is of 1.2"]),
    ("-cl-std=CL3.0 -cl-std=CL1.1 -g", []),
    ("-O2", ["is one of clang, and OpenCL has no such option"]),
    ("-cl-std=CLC++2021", ["needs the extension cl_ext_cxx_for_opencl"]),
    (
        "-cl-qcom-a -qcom-b",
        ["is one of Qualcomm's drivers alone, and devmod does not check its spelling"] * 2,
    ),
]


@pytest.mark.parametrize(("options", "doubts"), DOUBTS)
def test_why_drivers_may_refuse_an_option(options: str, doubts: list[str]) -> None:
    found = opencl.doubts_of(options.split())
    assert [each.split("' ", 1)[1] for each in found] == doubts


@pytest.mark.parametrize(
    ("option", "starts"),
    [
        ("-w", ""),
        ("32", ""),
        ("-I.", "names a path; "),
        ("--sysroot=x", "names a path; "),
        ("-o", "names a path; "),
        ("-ox", ""),
        ("-a=/b", "names a path; "),
        ("-a\\b", "names a path; "),
        ("a/b", "names a path; "),
        ("a.b", "is no option and no value of one"),
        ("-a.b", ""),
    ],
)
def test_what_is_wrong_with_any_option(option: str, starts: str) -> None:
    found = option_problem(option)
    assert found.startswith(starts)
    assert bool(found) is bool(starts)


def test_the_options_in_the_first_line() -> None:
    text = "//devmod: -w  -DN=a/b\n//devmod: -g\ncode"
    assert split_options(text) == (("-w", "-DN=a/b"), text)
    assert split_options("//devmod:") == ((), "//devmod:")
    assert split_options("\n" + text) == ((), "\n" + text)
    assert refusal(FormatError, split_options, "//devmod: -w -Ix\ncode", "rocm") == (
        "the source's first line has the option '-Ix', which names a path"
    )
