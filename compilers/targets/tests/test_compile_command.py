"""`devmod compile` with several sources and targets: each source is compiled for the targets that
take its language.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from command_line import printed_by
from each_case import check_texts, raised

import devmod
from devmod_workbench._cli import main

CL = "kernel void {0}(global float *x) {{ x[get_global_id(0)] *= 2; }}\n"
GLSL = """\
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Data { float x[]; };
void main() { x[gl_GlobalInvocationID.x] *= 2; }
"""
WGSL = """\
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn twice(@builtin(global_invocation_id) id: vec3u) { x[id.x] *= 2; }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has sources of several languages."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "twice.cl": CL.format("twice"),
        "once.cl": CL.format("once"),
        "twice.wgsl": WGSL,
        "twice.inc": CL.format("twice"),
        "twice.c": CL.format("twice"),
        "twice.metal": "",
        "readme.txt": "",
    }.items():
        Path(name).write_text(text)
    return tmp_path


def compiled(*arguments: str) -> list[tuple[str, list[str]]]:
    """Return the kind and the functions of each module of the file."""
    assert main(["compile", "-q", *arguments, "-o", "out.devmod"]) == 0
    module = devmod.load("out.devmod")
    modules = module.imports if module.kind == "bundle" else (module,)
    return [(each.kind, list(each.functions)) for each in modules]


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["compile", *arguments, "-o", "out.devmod"]) == 2
    assert not Path("out.devmod").exists()
    return capsys.readouterr().err.partition("\ndevmod: error: ")[2].rstrip("\n")


def test_a_command_without_a_target_has_examples_of_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "k.cu"]) == 2
    assert capfd.readouterr().err.splitlines()[-1] == (
        "devmod: error: Missing option '-t' / '--target'. Give the kind to compile for, "
        'such as -t opencl or -t "cuda -arch=sm_90"'
    )


def test_the_output_has_the_validator_and_strict_needs_one(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "naga is not installed, or it failed. To install it: npm install -g naga-wasm@30, or cargo install naga-cli"
    monkeypatch.setenv("PATH", "")
    command = ["compile", "twice.wgsl", "-t", "webgpu", "-o", "out.devmod"]
    assert (
        printed_by(capsys, *command).out.splitlines()[0]
        == f"webgpu wgsl: twice (not validated: {missing})"
    )
    (folder / "more.wgsl").write_text("@compute @workgroup_size(1) fn more() { }\n")
    assert printed_by(capsys, "compile", "more.wgsl", *command[1:]).out.splitlines()[:2] == [
        f"webgpu wgsl: more (not validated: {missing})",
        "webgpu wgsl: twice (not validated, as above)",
    ]
    assert (
        printed_by(capsys, *command, "--strict", status=1).err
        == f"devmod: error: --strict needs a validator for the WGSL source: {missing}\n"
    )
    if os.name != "nt":  # the stand-in for naga is a script
        (folder / "naga").write_text(f"#!{sys.executable} -IS\n")
        (folder / "naga").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        assert (
            printed_by(capsys, *command, "--strict").out.splitlines()[0]
            == "webgpu wgsl: twice (validated by naga)"
        )
    (folder / "twice.cl").write_text(
        "kernel void twice(global float *x) { x[0] = arm_width(1); }\n"
    )
    assert (
        "--strict turns this warning into an error: some devices may refuse"
        in printed_by(
            capsys, "compile", "twice.cl", "-t", "opencl", "-o", "out.devmod", "--strict", status=1
        ).err
    )


def test_each_failed_architecture_has_a_line_and_partial_keeps_the_others(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    pytest.importorskip("ziglang", reason="needs the compiler of ROCm")
    broken = "\n#ifdef __gfx1100__\n  oops();\n#endif\n"
    (folder / "twice.hip").write_text(
        f'extern "C" __global__ void twice(float *x) {{ x[threadIdx.x] *= 2;{broken}}}\n'
    )
    why = (
        "the HIP source does not compile: twice.hip:3:3: error: use of undeclared identifier 'oops'"
    )
    line = f"  twice.hip for rocm -arch=gfx1100: {why}\n"
    command = [
        "compile",
        "twice.hip",
        "-t",
        "rocm -arch=gfx90a,gfx1100,gfx1030",
        "-o",
        "out.devmod",
    ]
    assert main(command) == 1
    head = "devmod: error: 1 of 3 compiles failed, and nothing was written; --partial keeps the others:\n"
    assert capsys.readouterr() == ("", head + line)
    assert not Path("out.devmod").exists()
    captured = printed_by(capsys, *command, "--partial", status=1)
    assert (
        captured.err
        == f"devmod: error: 1 of 3 compiles failed, and out.devmod has the others:\n{line}"
    )
    assert captured.out.splitlines()[0] == "rocm hsaco: twice"
    module = devmod.load("out.devmod")
    assert [each.origin and each.origin.target for each in module.imports] == [
        "rocm -arch=gfx90a",
        "rocm -arch=gfx1030",
    ]
    assert devmod.dumps(module) == devmod.dumps(
        devmod.compile(Path("twice.hip"), "rocm -arch=gfx90a,gfx1030")
    )
    error = raised(
        devmod.CompileError, devmod.compile, Path("twice.hip"), "rocm -arch=gfx90a,gfx1100"
    )
    assert error.__notes__ == [
        "The target was 'rocm -arch=gfx1100', of 'rocm -arch=gfx90a,gfx1100'"
    ]
    (folder / "broken.cl").write_text("kernel void broken(global float *x) { oops; }\n")
    assert printed_by(
        capsys,
        "compile",
        "twice.hip",
        "broken.cl",
        "-t",
        "rocm -arch=gfx1100",
        "-t",
        "opencl",
        "-o",
        "out.devmod",
        "--partial",
        status=1,
    ).err.splitlines()[1:] == [
        line.rstrip(),
        "  broken.cl for opencl: the OpenCL C source does not compile: broken.cl:1:39: error: use of undeclared identifier 'oops'",
    ]


def test_an_error_of_every_architecture_is_printed_once(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    pytest.importorskip("ziglang", reason="needs the compiler of ROCm")
    (folder / "twice.hip").write_text('extern "C" __global__ void twice(float *x) { oops(); }\n')
    for partial in ([], ["--partial"]):
        err = printed_by(
            capsys,
            "compile",
            "twice.hip",
            "-t",
            "rocm -arch=gfx90a,gfx1100",
            "-o",
            "out.devmod",
            *partial,
            status=1,
        ).err
        assert err.startswith("devmod: error: the HIP source does not compile")
        assert err.count("twice.hip:1:46: error: use of undeclared identifier 'oops'") == 1
    assert not Path("out.devmod").exists()
    assert (
        "out.hsaco holds one raw payload, and this is 2"
        in printed_by(
            capsys,
            "compile",
            "twice.hip",
            "-t",
            "rocm -arch=gfx90a,gfx1100",
            "-o",
            "out.hsaco",
            status=2,
        ).err
    )


def test_one_file_for_two_kinds() -> None:
    assert compiled("twice.cl", "twice.wgsl", "-t", "opencl", "-t", "webgpu") == [
        ("opencl", ["twice"]),
        ("webgpu", ["twice"]),
    ]
    module = devmod.load("out.devmod")
    separate = [
        devmod.compile(Path("twice.cl"), "opencl"),
        devmod.compile(Path("twice.wgsl"), "webgpu"),
    ]
    assert devmod.dumps(module) == devmod.dumps(devmod.bundle(*separate))


def test_an_entry_point_main_among_several_sources_has_a_note(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "scale.wgsl").write_text(WGSL.replace("fn twice", "fn main"))
    (folder / "main0.metal").write_text(
        "kernel void main0(device float *x [[buffer(0)]]) { x[0] *= 2; }\n"
    )
    (folder / "half.metal").write_text(
        "kernel void main0(device float *x [[buffer(0)]]) { x[0] *= 2; }\n"
    )
    text = "devmod: note: the entry point 'main' of {} is the function {!r}, after the file. For another name: --name NAME\n"
    command = [
        "compile",
        "-t",
        "opencl",
        "-t",
        "webgpu",
        "-t",
        "metal",
        "-o",
        "out.devmod",
        "twice.cl",
        "scale.wgsl",
    ]
    assert printed_by(capsys, *command, "main0.metal").err == text.format("scale.wgsl", "scale")
    assert printed_by(capsys, *command, "half.metal").err == text.format(
        "scale.wgsl", "scale"
    ) + text.format("half.metal", "half")
    for quiet in (["-q"], ["--name", "twice"]):
        assert printed_by(capsys, *command, "half.metal", *quiet).err == ""
    # The output has its name, and there is no other.
    assert main(["compile", "scale.wgsl", "-t", "webgpu", "-o", "out.devmod"]) == 0
    assert capsys.readouterr().err == ""


def test_several_sources_of_one_language() -> None:
    assert compiled("twice.cl", "twice.wgsl", "once.cl", "-t", "webgpu", "-t", "opencl") == [
        ("opencl", ["twice"]),
        ("webgpu", ["twice"]),
        ("opencl", ["once"]),
    ]


def test_a_language_is_for_the_sources_whose_suffix_shows_none() -> None:
    wanted = [("opencl", ["twice"]), ("webgpu", ["twice"])]
    assert (
        compiled(
            "twice.inc", "twice.wgsl", "-t", "opencl", "-t", "webgpu", "--language", "OpenCL C"
        )
        == wanted
    )
    assert (
        compiled("twice.c", "twice.wgsl", "-t", "opencl", "-t", "webgpu", "--language", "cl")
        == wanted
    )
    assert compiled("twice.c", "-t", "opencl", "--language", "OpenCL C") == wanted[:1]


def test_sources_without_a_suffix_for_one_kind_are_in_its_first_language() -> None:
    assert compiled("twice.inc", "once.cl", "-t", "opencl") == [
        ("opencl", ["twice"]),
        ("opencl", ["once"]),
    ]


def test_standard_input_among_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Input:
        buffer = io.BytesIO(WGSL.encode())

        @staticmethod
        def isatty() -> bool:
            return False

    takes = "opencl takes OpenCL C (.cl); webgpu takes WGSL (.wgsl), Slang (.slang)"
    assert usage_error(capsys, "-", "twice.cl", "-t", "opencl", "-t", "webgpu") == (
        f"standard input has no suffix, so its language is unknown; give it with --language. {takes}"
    )
    monkeypatch.setattr(sys, "stdin", Input)
    assert compiled("-", "twice.cl", "-t", "opencl", "-t", "webgpu", "--language", "WGSL") == [
        ("webgpu", ["twice"]),
        ("opencl", ["twice"]),
    ]


def test_sources_and_targets_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    check_texts(
        {
            "twice.cu is for none of the targets: rocm gets the Slang, because a target gets its own language, or else that of the first "
            "source. Compile it into a file of its own": [
                "twice.slang",
                "twice.cu",
                "-t",
                "rocm -arch=gfx90a",
            ],
            "twice.metal is MSL, which none of the targets takes: opencl takes OpenCL C (.cl); webgpu takes WGSL (.wgsl), Slang (.slang). Add -t metal, "
            "or give --language": ["twice.cl", "twice.metal", "-t", "opencl", "-t", "webgpu"],
            "the suffix of readme.txt does not show its language; give it with --language. opencl takes OpenCL C (.cl); webgpu takes WGSL "
            "(.wgsl), Slang (.slang)": ["twice.cl", "readme.txt", "-t", "opencl", "-t", "webgpu"],
            "no target takes the language 'MSL': opencl takes OpenCL C (.cl); webgpu takes WGSL (.wgsl), Slang (.slang). It is a language "
            "of metal": [
                "twice.inc",
                "twice.wgsl",
                "-t",
                "opencl",
                "-t",
                "webgpu",
                "--language",
                "MSL",
            ],
            "no target takes the language 'Basic': opencl takes OpenCL C (.cl); webgpu takes WGSL (.wgsl), Slang (.slang)": [
                "twice.inc",
                "twice.wgsl",
                "-t",
                "opencl",
                "-t",
                "webgpu",
                "--language",
                "Basic",
            ],
            "no source is for the target 'webgpu': webgpu takes WGSL (.wgsl), Slang (.slang). Add a source, or leave it out": [
                "twice.cl",
                "-t",
                "opencl",
                "-t",
                "webgpu",
            ],
            "the target 'opencl' is given twice": [
                "twice.cl",
                "once.cl",
                "-t",
                "opencl",
                "-t",
                "opencl",
            ],
            "twice.cl and twice.cl both have a function 'twice'; rename one, or write two files": [
                "twice.cl",
                "twice.cl",
                "-t",
                "opencl",
            ],
        },
        lambda arguments: usage_error(capsys, *arguments),
    )


def test_an_unknown_kind_is_the_error_of_compile(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "devmod-npu"
        in printed_by(
            capsys,
            "compile",
            "twice.cl",
            "twice.wgsl",
            "-t",
            "opencl",
            "-t",
            "npu",
            "-o",
            "out.devmod",
            status=1,
        ).err
    )


def test_a_target_without_an_architecture_is_an_error_before_the_first_compile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("broken.cl").write_text("kernel void twice(global float *x) { x[0] = ; }\n")
    assert (
        main(
            ["compile", "broken.cl", "twice.c", "-t", "opencl", "-t", "hexagon", "-o", "out.devmod"]
        )
        == 1
    )
    message = (
        "the target 'hexagon' names no architecture. Name those of the devices: 'hexagon -arch=v68'"
    )
    assert capsys.readouterr() == ("", f"devmod: error: {message}\n")


def test_compression(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = "@compute @workgroup_size(1) fn k() {}\n" + "// a comment\n" * 200
    (tmp_path / "k.wgsl").write_text(source)
    for name, options in {"plain": [], "small": ["--compress", "zstd"]}.items():
        assert (
            main(["compile", "-q", "k.wgsl", "-t", "webgpu", "-o", f"{name}.devmod", *options]) == 0
        )
    assert (tmp_path / "small.devmod").stat().st_size < (
        tmp_path / "plain.devmod"
    ).stat().st_size - 2000
    assert devmod.load("small.devmod").inspect_source() == source
    assert printed_by(
        capfd,
        "compile",
        "-q",
        "k.wgsl",
        "-t",
        "webgpu",
        "-o",
        "k2.wgsl",
        "--compress",
        "zstd",
        status=2,
    ).err.endswith(
        "--compress and --with-sources are for files that end in .devmod, and k2.wgsl is a raw payload\n"
    )
    assert (
        printed_by(
            capfd,
            "compile",
            "-q",
            "k.wgsl",
            "-t",
            "webgpu",
            "-o",
            "k.devmod",
            "--compress",
            "gzip",
            status=1,
        ).err
        == "devmod: error: compress: expected 'zstd', 'zstd:LEVEL' with a level from 1 to 22, or 'none', got 'gzip'\n"
    )
    assert not (tmp_path / "k.devmod").exists()


def test_the_sources_of_a_binary_payload() -> None:
    pytest.importorskip("ziglang", reason="ziglang is not installed")
    Path("k.c").write_text("void k(float *x) { *x = 1; }\n")
    assert (
        main(
            ["compile", "-q", "k.c", "-t", "hexagon -arch=v66", "-o", "k.devmod", "--with-sources"]
        )
        == 0
    )
    assert {"asm", "obj"} <= set(devmod.load("k.devmod").source)


PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry fill(.param .u64 out, .param .f32 value, .param .u32 n) { ret; }\n"


def test_functions_of_an_image() -> None:
    Path("k.ptx").write_text(PTX)
    for text, name in (
        ("fill(handle, float32,int32)", "fill"),
        ("ns::f(int*, int)=fill(handle,float32,int32)", "ns::f(int*, int)"),
    ):
        assert (
            main(["compile", "-q", "k.ptx", "-t", "cuda", "--function", text, "-o", "k.devmod"])
            == 0
        )
        info = devmod.load("k.devmod").functions[name]
        assert (info.name, info.arg_types) == ("fill", ("handle", "float32", "int32"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["fill"],
            "--function fill: expected a name and the types of the arguments, such as 'scale(handle, float32)'",
        ),
        (["f(int32)", "f(int32)"], "--function f(int32): f is given twice"),
        (
            ["f(floaty)"],
            "--function f(floaty): 'floaty' is not a type: expected a name such as 'float32', 'int64', 'uint8', 'bool', 'bfloat16', "
            "'handle', or one with lanes such as 'float16x4'",
        ),
    ],
)
def test_invalid_functions(
    capsys: pytest.CaptureFixture[str], texts: list[str], message: str
) -> None:
    Path("k.ptx").write_text(PTX)
    assert (
        usage_error(
            capsys,
            "k.ptx",
            "-t",
            "cuda",
            *(word for text in texts for word in ("--function", text)),
        )
        == message
    )


def test_werror_makes_a_warning_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("step.cl").write_text(CL.format("step"))
    warning = (
        printed_by(capsys, "compile", "step.cl", "-t", "opencl")
        .err.rstrip("\n")
        .removeprefix("devmod: warning: ")
    )
    assert warning.startswith(
        "step.cl:1: warning: the kernel 'step' has the name of a built-in function"
    )
    assert (
        printed_by(
            capsys, "compile", "step.cl", "-t", "opencl", "--werror", "-o", "out.devmod", status=1
        ).err
        == f"devmod: error: --werror turns this warning into an error: {warning}\n"
    )
    assert not Path("out.devmod").exists()


def test_the_advice_of_a_warning_has_the_options_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("newer.cl").write_text(
        "kernel void newer(global int *x) { generic int *p = x; p[0] = 1; }\n"
    )
    assert printed_by(capsys, "compile", "newer.cl", "-t", "opencl").err.endswith(
        ". Add --option -cl-std=CL2.0\n"
    )


def test_a_warning_for_each_architecture_is_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("k.hip").write_text("__global__ void k(int *x) { if (x[0] = 1) x[1] = 2; }\n")
    assert (
        printed_by(
            capsys, "compile", "k.hip", "-t", "rocm -arch=gfx1100,gfx90a", "-t", "rocm -arch=gfx942"
        ).err.count(" warning: using the result of an assignment as a condition")
        == 1
    )


def test_an_output_that_cannot_be_written_is_an_error_before_the_compile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("broken.cl").write_text("kernel void twice(global float *x) { x[0] = ; }\n")
    Path("folder.devmod").mkdir()
    for output, reason in (
        ("missing/k.devmod", f"{os.getcwd()}/missing/: No such file or directory"),
        ("folder.devmod", "folder.devmod: Is a directory"),
    ):
        assert printed_by(
            capsys, "compile", "broken.cl", "-t", "opencl", "-o", output, status=1
        ) == ("", f"devmod: error: {reason}\n")
    assert printed_by(
        capsys, "compile", "broken.cl", "twice.cl", "-t", "opencl", "-o", "k.cl", status=2
    ).err.endswith(
        "devmod: error: k.cl holds one raw payload, and this is 2; choose a name that ends in .devmod\n"
    )


@pytest.mark.parametrize(
    ("output", "at", "text"),
    [
        ("out.devmod", "compile", "out.devmod was not written"),
        ("old.devmod", "save", "old.devmod is unchanged"),
        ("out.cl", "compile", "out.cl was not written, out.tvm_meta.json was not written"),
        ("-", "compile", ""),
    ],
)
def test_ctrl_c_prints_the_state_of_the_output(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    at: str,
    text: str,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    Path("old.devmod").write_bytes(b"old")
    monkeypatch.setattr(devmod, at, interrupt)
    assert printed_by(capsys, "compile", "twice.cl", "-t", "opencl", "-o", output, status=130) == (
        "",
        f"\ninterrupted{text and ': '}{text}\n",
    )


def test_ctrl_c_after_the_output_was_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save = devmod.save

    def save_and_interrupt(module: devmod.Module, path: Path, **options: object) -> None:
        save(module, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(devmod, "save", save_and_interrupt)
    for command in (["compile", "twice.cl", "-t", "opencl"], ["bundle", "out.devmod"]):
        assert printed_by(capsys, *command, "-o", "out.devmod", status=130) == (
            "",
            "\ninterrupted: out.devmod was written\n",
        )
    assert list(devmod.load("out.devmod")) == ["twice"]


def test_every_argument_of_compile_has_an_option() -> None:
    from inspect import signature

    from devmod_targets.spelling import OPTIONS, SHELL, SHELL_OF_OTHERS, respell

    assert set(OPTIONS) == set(signature(devmod.compile).parameters)
    for text, wanted in {
        "give it another name with name=": "give it another name with --name",
        "declare the function in fmap= with its arg_types": "declare the function in --function with its arg_types",
        "pass the language: devmod.compile(…, language='GLSL')": "pass the language: --language GLSL",
        "add its folder: include=['a b'] (and 2 more in .log)": "add its folder: -I 'a b' (and 2 more)",
        "an instance, such as name_expressions=['scale<float>'], in name_expressions=": (
            "an instance, such as --name-expression 'scale<float>', in --name-expression"
        ),
        "block=(64, 1, 1) contradicts the source": "--block 64,1,1 contradicts the source",
        "devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)}) for g": "--function 'NAME(TYPE, ...)' for g",
        "fmap={'f': devmod.FunctionInfo('f', ('handle', 'int32')), 'g': devmod.FunctionInfo('_g', ()), …}.": (
            "--function 'f(handle, int32)' --function 'g=_g()' …."
        ),
        "give it by function, as in local={'sum': {'scratch': Local(per_thread=4)}}": (
            "give it by function, as in --local sum.scratch=4/thread"
        ),
        "'-DX=1 name=1', --language=cl, x.name= 1, the_name= and target=='a'": (
            "'-DX=1 name=1', --language=cl, x.name= 1, the_name= and target=='a'"
        ),
    }.items():
        assert respell(text, SHELL) == wanted
    for text, wanted in {
        "the suffix: devmod.compile(…, language='GLSL')": "the suffix: devmod compile … --language GLSL",
        "declare fmap={'f': devmod.FunctionInfo('f', ('handle',)), 'g': devmod.FunctionInfo('g', ())}": (
            "declare devmod compile … --function 'f(handle)' --function 'g()'"
        ),
        "pass include=['a b']": "pass devmod compile … -I 'a b'",
    }.items():
        assert respell(text, SHELL_OF_OTHERS) == wanted


@pytest.mark.parametrize("kind", ["opencl", "webgpu"])
def test_a_name_that_no_function_gets_is_an_error(
    capsys: pytest.CaptureFixture[str], folder: Path, kind: str
) -> None:
    suffix, texts = {
        "opencl": ("cl", ["kernel void NAME(global float *x) { x[0] = 1; }"] * 2),
        "webgpu": (
            "wgsl",
            [
                "@group(0) @binding(0) var<storage, read_write> x: array<f32>;",
                *["@compute @workgroup_size(1) fn NAME() { x[0] = 1; }"] * 2,
            ],
        ),
    }[kind]
    names = iter("ab")
    Path(f"k.{suffix}").write_text(
        "\n".join(each.replace("NAME", next(names)) if "NAME" in each else each for each in texts)
    )
    text = f"-n is the function's name of an entry point 'main', and k.{suffix} has 'a', 'b'. Leave -n out, or give a function the name 'zz'"
    for name, expected in (
        ("zz", f"devmod: error: {text.replace('-n', '--name')} in the source\n"),
        ("a", ""),
    ):
        status = main(
            ["compile", f"k.{suffix}", "-q", "-t", kind, "-o", "k.devmod", "--name", name]
        )
        assert (status, capsys.readouterr().err) == (int(name == "zz"), expected)
