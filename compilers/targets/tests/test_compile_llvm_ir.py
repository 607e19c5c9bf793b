"""LLVM IR compiles to PTX with the clang of the wheel ziglang."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from each_case import check_texts, refusal

import devmod
from devmod_readers.nvidia import read_ptx
from devmod_targets.authoring import _process, zig

SCALE = Path(__file__).parent / "kernels" / "cuda_build" / "scale.ll"
TARGET = "cuda -arch=compute_80"


def refused(
    source: object,
    target: str = TARGET,
    error: type[devmod.DevmodError] = devmod.CompileError,
    **arguments: object,
) -> str:
    return refusal(error, devmod.compile, source, target, **arguments)


def bitcode() -> bytes:
    result = zig.run_zig(
        [
            "clang",
            "-target",
            "nvptx64-nvidia-cuda",
            "-emit-llvm",
            "-c",
            "-x",
            "ir",
            "k.ll",
            "-o",
            "k.bc",
        ],
        {"k.ll": SCALE.read_bytes()},
        "k.bc",
        kind="cuda",
    )
    assert result.status == 0, result.log
    assert result.output.startswith(b"BC\xc0\xde")
    return result.output


def test_text_compiles_to_ptx() -> None:
    module = devmod.compile(SCALE, TARGET)
    assert (module.kind, module.format) == ("cuda", "ptx")
    info = module.functions["scale"]
    assert info.arg_types == ("handle", "handle", "float32", "int32", "float32x2")
    assert (
        str(info.interface)
        == "<Interface (x: void* r, y: void* rw, by: float32, n: int32, bias: float32x2)>"
    )
    assert module.inspect_source("ll") == SCALE.read_text()
    assert ".target sm_80" in module.inspect_source("ptx")
    digest = hashlib.sha256(SCALE.read_bytes()).hexdigest()
    assert module.origin == devmod.Origin(
        TARGET, f"ziglang {version('ziglang')}", ["-O3"], {"scale.ll": digest}
    )


@pytest.mark.parametrize(("arch", "version"), [("75", "6.3"), ("80", "7.0"), ("100", "8.6")])
def test_the_version_of_ptx_is_the_lowest_of_the_architecture(arch: str, version: str) -> None:
    """Not that of a CUDA which the machine may have."""
    module = devmod.compile(SCALE, f"cuda -arch=compute_{arch}", language="ll")
    assert f"\n.version {version}\n" in module.inspect_source("ptx")


def test_another_version_of_ptx() -> None:
    text = devmod.compile(SCALE, TARGET, options=["--cuda-feature=+ptx80", "-O1"]).inspect_source(
        "ptx"
    )
    assert ".version 8.0" in text
    assert list(read_ptx(text)) == ["scale"]


def test_bitcode_compiles_to_the_same_ptx(tmp_path: Path) -> None:
    (tmp_path / "scale.bc").write_bytes(bitcode())
    module = devmod.compile(tmp_path / "scale.bc", TARGET)
    assert module.inspect_source("ptx") == devmod.compile(SCALE, TARGET).inspect_source("ptx")
    assert module.functions["scale"] == devmod.compile(SCALE, TARGET).functions["scale"]
    assert "define ptx_kernel void @scale" in module.inspect_source("ll")
    assert devmod.compile(bitcode(), TARGET).save_to_bytes() == module.save_to_bytes()


def test_declared_types_override_the_signs_of_integers() -> None:
    declared = ("handle", "handle", "float32", "uint32", "float32x2")
    module = devmod.compile(SCALE, TARGET, fmap={"scale": devmod.FunctionInfo("scale", declared)})
    assert module.functions["scale"].arg_types == declared


def test_structs_by_value() -> None:
    text = (
        "%pair = type { i32, double }\n"
        "define ptx_kernel void @k(ptr byval(%pair) align 8 %p, half %h, i1 %flag, ptr writeonly %out) {\n"
        "  store half %h, ptr %out\n  ret void\n}\n"
    )
    info = devmod.compile(text, TARGET, language="LLVM IR").functions["k"]
    assert info.arg_types == ("uint8x16", "float16", "bool", "handle")
    assert info.interface is not None
    assert [(param.align, param.access) for param in info.interface.params] == [
        (8, ""),
        (0, ""),
        (0, ""),
        (0, "w"),
    ]


def test_targets_that_do_not_fit() -> None:
    check_texts(
        {
            "LLVM IR compiles to PTX, and 'sm_80' alone requests a cubin: write -arch=compute_80, or -format=ptx": "cuda -arch=sm_80",
            "LLVM IR compiles to PTX for one architecture: expected a target such as 'cuda -arch=compute_80', got 'cuda -format=cuda'": "cuda -format=cuda",
            "the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=compute_80'. PTX, cubin, fatbin need none": "cuda",
        },
        lambda target: refused(SCALE, target),
    )


def test_an_unknown_architecture_lists_those_that_clang_knows() -> None:
    text = refused(SCALE, "cuda -arch=compute_42")
    assert text.startswith(
        f"ziglang {version('ziglang')} does not support the architecture 'compute_42'; it supports sm_"
    )
    assert " sm_90a, " in text


def test_errors_have_clangs_words_and_line() -> None:
    text = SCALE.read_text().replace("fmul float %v", "fmul float %absent")
    assert (
        refused(text, language="ll")
        == "the LLVM IR source does not compile: <text>:16:19: error: use of undefined value '%absent'"
    )


def test_invalid_sources_and_options_are_refused() -> None:
    text = SCALE.read_text()
    assert refused(text.replace("ptx_kernel ", ""), language="ll") == (
        "the LLVM IR <text> has no kernel: give a function the calling convention ptx_kernel"
    )
    called = (
        text.replace("fmul float %v, %by", "call float @__nv_expf(float %v)")
        + "declare float @__nv_expf(float)\n"
    )
    assert refused(called, language="ll") == (
        "<text> calls the function '__nv_expf', which it does not define (a function of libdevice: link libdevice into the IR first)"
    )
    assert refused(SCALE, options=["-mllvm"]) == (
        "the option '-mllvm' is not supported for LLVM IR; expected -O0 to -O3, --cuda-feature=+ptx80 (the version of PTX) or "
        "-ffp-contract=off"
    )
    assert refused(SCALE, defines={"A": 1}) == (
        "defines=, include= and name_expressions= are not supported for LLVM IR, which has no preprocessor"
    )


def test_a_missing_ziglang_names_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert refused(SCALE, error=devmod.ToolchainNotFoundError) == (
        "cuda cannot be compiled here: the compiler clang of the wheel ziglang is not installed. "
        'To add it: pip install "devmod-core[build-llvm]"'
    )


@pytest.mark.row("R38")
def test_the_bytes_depend_on_no_folder_and_no_environment(tmp_path: Path) -> None:
    program = f"import devmod, pathlib; print(devmod.dumps(devmod.compile(pathlib.Path('scale.ll'), {TARGET!r})).hex())"
    results = []
    for number in (1, 2):
        folder = tmp_path / ("deep/" * number)
        folder.mkdir(exist_ok=True)
        (folder / "scale.ll").write_bytes(SCALE.read_bytes())
        home = folder / "home"
        home.mkdir()
        environment = dict(
            os.environ,
            HOME=str(home),
            CPATH=str(folder),
            CCC_OVERRIDE_OPTIONS="+-O0" if number == 2 else "",
        )
        results.append(
            subprocess.run(
                [sys.executable, "-c", program],
                capture_output=True,
                check=True,
                cwd=folder,
                env=environment,
            ).stdout
        )
        assert not list(home.iterdir())
    assert results[0] == results[1]


def test_zig_writes_nothing_into_its_wheel(tmp_path: Path) -> None:
    folder = Path(zig.find_zig(kind="cuda")).parent
    before = sorted(folder.iterdir())
    result = zig.run_zig(["clang", "--version"], {}, kind="cuda")
    assert (result.status, result.output) == (0, b"")
    assert "clang version" in result.log
    assert sorted(folder.iterdir()) == before


def test_a_program_of_zig_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_process, "TIMEOUT", 0)
    assert (
        refusal(devmod.CompileError, zig.run_zig, ["clang", "--version"], {}, kind="cuda")
        == "zig clang was stopped: it exceeded the time limit of 0 seconds"
    )


ARRAYS_OF_THREE = """\
target triple = "nvptx64-nvidia-cuda"
%pairs = type { [2 x <3 x i8>], i16 }
@numbers = addrspace(1) global [2 x <3 x i32>] [<3 x i32> <i32 1, i32 2, i32 3>, <3 x i32> <i32 4, i32 5, i32 6>]
@records = addrspace(1) global [2 x %pairs] [%pairs { [2 x <3 x i8>] [<3 x i8> <i8 1, i8 2, i8 3>, <3 x i8> <i8 4, i8 5, i8 6>], i16 7 }, %pairs zeroinitializer]
@text = addrspace(1) global [9 x i8] c"<3 x i8>\\00"
define ptx_kernel void @k(ptr addrspace(1) %x) {
  %value = load %pairs, ptr addrspace(1) @records, align 4
  %number = extractvalue %pairs %value, 1
  store i16 %number, ptr addrspace(1) %x, align 2
  ret void
}
"""


def test_arrays_of_vectors_of_three_have_the_bytes_between_them() -> None:
    ptx = str(devmod.compile(ARRAYS_OF_THREE, TARGET, language="LLVM IR").inspect_source("ptx"))
    for name, size, values in (
        ("numbers", 32, "1,0,0,0,2,0,0,0,3,0,0,0,0,0,0,0,4,0,0,0,5,0,0,0,6"),
        ("records", 24, "1,2,3,0,4,5,6,0,7"),
        ("text", 9, ",".join(str(each) for each in b"<3 x i8>")),
    ):
        match = re.search(rf"\.global [^\n]* {name}\[(\d+)\] = {{([^}}]*)}};", ptx)
        assert match, name
        assert int(match[1]) == size
        assert match[2].replace(" ", "") == values
