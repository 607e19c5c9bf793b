"""The compiler of CUDA C++: formats, architectures, headers, options, errors and reproducible
bytes. NVRTC is the real one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest
from each_case import check_texts, raised, refusal

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod_readers.nvidia import fatbin_members, read_cubin, read_ptx
from devmod_targets.cuda import nvrtc

KERNELS = Path(__file__).parent / "kernels" / "cuda_build"
SAXPY = 'extern "C" __global__ void saxpy(float a, const float *x, float *y) { int i = threadIdx.x; y[i] = a * x[i] + y[i]; }\n'
SCALE = "template <class T> __global__ void scale(T *x, T by) { x[threadIdx.x] *= by; }\n"
WHEELS = {
    "nvrtc": "nvidia-cuda-nvrtc",
    "cuda headers": "nvidia-cuda-runtime",
    "cccl": "nvidia-cuda-cccl",
    "crt": "nvidia-cuda-crt",
}
WITH_NVCC = 'nvcc takes host code: run pip install "devmod-core[build-cuda-nvcc]", and add -compiler=nvcc to the target'
WITHOUT_HOST = f"NVRTC has no headers of the host's compiler. {WITH_NVCC}"
DEVICE_ALONE = f"NVRTC compiles the code of the device alone. {WITH_NVCC}"
TOOLCHAIN = ", ".join(f"{part} {version(name)}" for part, name in WHEELS.items())


refused = partial(refusal, devmod.CompileError, devmod.compile)


def binary(module: devmod.Module) -> bytes:
    """Return the payload of a module."""
    return b"".join(bytes(part) for part in module.wire_parts())


# -- formats and architectures
# ----------------------------------------------------------------------------------------

#: The sources of the examples that cuda can have.
EXAMPLES = [
    each
    for pattern in ("cuda/*.cu", "rocm/*.hip", "one_source/*.slang", "applications/*/kernels/*.cu")
    for each in sorted((Path(__file__).resolve().parents[3] / "examples").glob(pattern))
]


def test_a_real_architecture_gives_a_cubin() -> None:
    module = devmod.compile(SAXPY, "cuda -arch=sm_90")
    assert (module.kind, module.format) == ("cuda", "cubin")
    assert (
        str(module.functions["saxpy"].interface)
        == "<Interface (a: float32, x: float32* r, y: float32* rw)>"
    )
    assert b"\x7fELF" in binary(module)
    assert set(module.source) == {"cuda", "ptx"}
    assert module.inspect_source() == SAXPY
    assert ".target sm_90" in module.inspect_source("ptx")


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda path: path.name)
def test_an_example_compiles_with_the_nvrtc_of_this_environment(source: Path) -> None:
    """`make lowest` and `make frameworks` run this with NVRTC's lowest version, and with the one
    that PyTorch requires.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "NVRTC has warnings about the HIP source"
        )  # of AMD's pragmas
        assert devmod.compile(source, "cuda -arch=compute_75").format == "ptx"


def test_a_virtual_architecture_gives_ptx() -> None:
    module = devmod.compile(SAXPY, "cuda -arch=compute_80")
    assert module.format == "ptx"
    assert module.inspect_source() == SAXPY
    assert list(read_ptx(module.inspect_source("ptx"))) == ["saxpy"]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_90a", "sm_100f", "sm_121"])
def test_the_variant_of_a_cubin_is_its_architecture(arch: str) -> None:
    from devmod.targets.cuda.architecture import architecture

    cubin = nvrtc.compile_program(SAXPY, "k.cu", [f"-arch={arch}"]).cubin
    assert architecture("cubin", cubin) == arch.removesuffix("f")


@pytest.mark.row("R40")
def test_several_architectures_give_variants(tmp_path: Path) -> None:
    module = devmod.compile(SAXPY, "cuda -arch=sm_80,sm_90,compute_90")
    assert module.kind == "bundle"
    assert [each.format for each in module.imports] == ["cubin", "cubin", "ptx"]
    assert [each.origin.target for each in module.imports if each.origin] == [
        "cuda -arch=sm_80",
        "cuda -arch=sm_90",
        "cuda -arch=compute_90",
    ]
    devmod.save(module, tmp_path / "saxpy.devmod")
    loaded = devmod.load(tmp_path / "saxpy.devmod")
    assert [binary(each) for each in loaded.imports] == [binary(each) for each in module.imports]


def test_the_format_is_chosen_by_the_target() -> None:
    formats = {
        "cuda -arch=sm_90 -format=ptx": "ptx",
        "cuda -arch=sm_90 -format=cubin": "cubin",
        "cuda -arch=sm_90 -format=fatbin": "fatbin",
        "cuda -arch=sm_90 -format=cuda": "cuda",
        "cuda -format=cuda": "cuda",
    }
    assert {target: devmod.compile(SAXPY, target).format for target in formats} == formats


def test_a_fatbin_has_a_member_for_each_architecture() -> None:
    module = devmod.compile(SAXPY, "cuda -arch=sm_80,sm_90a,compute_90 -format=fatbin")
    assert (module.format, list(module.functions)) == ("fatbin", ["saxpy"])
    data = bytes(module.wire_parts()[-1])
    members = fatbin_members(data)
    number = module.inspect_source("ptx").partition(".version ")[2].split()[0]
    assert [(member.kind, member.arch) for member in members] == [
        ("cubin", "sm_80"),
        ("cubin", "sm_90a"),
        ("ptx", f"compute_90:ptx{number}"),
    ]
    assert list(read_cubin(members[0].data)) == ["saxpy"]
    from devmod.targets.cuda.architecture import architecture

    assert architecture("fatbin", data) == f"sm_80,sm_90a,compute_90:ptx{number}"
    assert module.origin is not None
    assert (
        module.origin.toolchain
        == f"{TOOLCHAIN}, libclang {version('libclang')}, nvfatbin {version('nvidia-nvfatbin')}"
    )


def test_functions_that_differ_between_architectures_have_no_fatbin() -> None:
    text = (
        '#if __CUDA_ARCH__ >= 900\nextern "C" __global__ void late(int *x) { x[0] = 1; }\n#endif\n'
        + SAXPY
    )
    assert refused(text, "cuda -arch=sm_80,sm_90 -format=fatbin") == (
        "the function 'late' differs between sm_80 and sm_90, and a fatbin has one signature; compile without -format=fatbin for variants"
    )


def test_targets_that_do_not_fit() -> None:
    check_texts(
        {
            "the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=sm_80,sm_90,compute_90'. Or keep the source, "
            "which the receiver compiles: 'cuda -format=cuda'. PTX, cubin, fatbin need none: pass the language, as in devmod.compile(…, "
            "language='PTX')": "cuda",
            "the target 'cuda -arch=compute_90 -format=cubin' requests a cubin of a virtual architecture; write -arch=sm_90, or -format=ptx": "cuda -arch=compute_90 -format=cubin",
            "the target 'cuda -arch=sm_90 -format=spv' has the option -format=spv; expected -format=cuda, -format=ptx, -format=cubin, "
            "-format=fatbin or -compiler=nvcc": "cuda -arch=sm_90 -format=spv",
            "the target 'cuda -arch=sm_90 -fast=1' has the option -fast; expected -format=cuda, -format=ptx, -format=cubin, "
            "-format=fatbin or -compiler=nvcc": "cuda -arch=sm_90 -fast=1",
            "the target 'cuda -arch=sm_80,sm_90 -format=cuda' keeps the source, which is the same for all architectures; name at most one": "cuda -arch=sm_80,sm_90 -format=cuda",
        },
        lambda target: refused(SAXPY, target),
    )


def test_an_unknown_architecture_lists_those_that_nvrtc_knows() -> None:
    numbers = ", ".join(
        name.removeprefix("sm_") for name in nvrtc.arch_names() if name.startswith("sm_")
    )
    number = ".".join(map(str, nvrtc.version()))
    assert refused(SAXPY, "cuda -arch=sm_42") == (
        f"NVRTC {number} does not support the architecture 'sm_42'; it supports sm_ and compute_ with {numbers}"
    )


# -- the origin
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R42")
def test_the_origin() -> None:
    module = devmod.compile(
        KERNELS / "matmul.cu",
        "cuda -arch=sm_90",
        options=["--use_fast_math"],
        defines={"TILE": 8},
        include=KERNELS / "include",
    )
    digests = {
        name: hashlib.sha256((KERNELS / place).read_bytes()).hexdigest()
        for name, place in SOURCES.items()
    }
    toolchain = f"{TOOLCHAIN}, libclang {version('libclang')}"
    assert module.origin == devmod.Origin(
        "cuda -arch=sm_90", toolchain, ["--use_fast_math", "-DTILE=8"], digests
    )


SOURCES = {"matmul.cu": "matmul.cu", "tile.h": "tile.h", "shape.h": "include/shape.h"}


# -- reproducible bytes
# --------------------------------------------------------------------------------------------------

#: Compile several programs, and print the digest of each.
_COMPILE_ALL = """
import hashlib, json, pathlib, sys
import devmod
cases = json.load(sys.stdin)
for text, target, options, expressions in cases:
    source = pathlib.Path("matmul.cu") if text is None else text
    module = devmod.compile(source, target, options=options, name_expressions=expressions, include="include")
    print(hashlib.sha256(devmod.dumps(module)).hexdigest(), sorted(module.source))
"""
_ASSERTION = (
    "#define CCCL_ENABLE_DEVICE_ASSERTIONS\n#include <cuda/std/array>\n"
    'extern "C" __global__ void k(int *x) { cuda::std::array<int, 4> a = {1, 2, 3, 4}; x[0] = a[x[1]]; }\n'
)
_FP16 = '#include <cuda_fp16.h>\nextern "C" __global__ void k(__half *x) { x[0] = __hadd(x[1], x[2]); }\n'
_ANONYMOUS = "namespace { __device__ int count; template <class T> __global__ void hidden(T *x) { x[0] = count++; } }\n"
_CASES: list[tuple[str | None, str, list[str], list[str]]] = [
    (None, "cuda -format=cuda", ["--use_fast_math"], []),
    (_FP16, "cuda -arch=sm_90", ["-G"], []),
    (_ANONYMOUS, "cuda -arch=sm_90", [], ["hidden<int>"]),
    (None, "cuda -arch=sm_80,compute_90 -format=fatbin", [], []),
    (None, "cuda -arch=sm_90", ["-G"], []),
    (None, "cuda -arch=compute_90", ["--device-debug"], []),
    (_FP16, "cuda -arch=sm_90", ["--generate-line-info"], []),
    (
        _ASSERTION,
        "cuda -arch=sm_90",
        [],
        [],
    ),  # its PTX takes 3 s more, and the cubin is assembled from it
    (None, "cuda -arch=sm_90", [], []),
    (None, "cuda -arch=sm_90", ["-lineinfo"], []),
    (None, "cuda -arch=sm_90 -format=ptx", ["-lineinfo"], []),
]


@pytest.mark.once
@pytest.mark.row("R38")
@pytest.mark.parametrize(
    "cases",
    [_CASES[:4], pytest.param(_CASES[4:], marks=pytest.mark.volume)],
    ids=["some", "the others"],
)
def test_the_bytes_depend_on_no_folder_and_no_process(
    tmp_path: Path, cases: list[tuple[str | None, str, list[str], list[str]]]
) -> None:
    """The second process has another current folder, home, temporary folder and location of
    NVIDIA's wheels.
    """
    results = []
    import nvidia  # a namespace package

    for number in (1, 2):
        folder = tmp_path / f"place {number}" / ("deeper" * number)
        (folder / "home").mkdir(parents=True)
        for place in ("matmul.cu", "tile.h", "include/shape.h"):
            (folder / place).parent.mkdir(exist_ok=True)
            (folder / place).write_bytes((KERNELS / place).read_bytes())
        environment = dict(
            os.environ,
            HOME=str(folder / "home"),
            TMPDIR=str(folder / "home"),
            PYTHONHASHSEED=str(number),
        )
        if number == 2:
            (folder / "packages" / "nvidia").mkdir(parents=True)
            (folder / "packages" / "nvidia" / "cu13").symlink_to(
                Path(next(iter(nvidia.__path__))) / "cu13"
            )
            environment["PYTHONPATH"] = os.pathsep.join(
                [str(folder / "packages"), *filter(None, [os.environ.get("PYTHONPATH")])]
            )
        result = subprocess.run(
            [sys.executable, "-c", _COMPILE_ALL],
            input=json.dumps(cases),
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
        )
        assert result.returncode == 0, result.stderr
        assert not list((folder / "home").iterdir())
        results.append(result.stdout.splitlines())
    assert len(results[0]) == len(cases)
    assert results[0] == results[1]


@pytest.mark.parametrize("option", ["-lineinfo", "-G"])
def test_line_information_names_the_files_without_folders(option: str) -> None:
    module = devmod.compile(
        KERNELS / "matmul.cu",
        "cuda -arch=sm_90 -format=ptx",
        options=[option],
        include=KERNELS / "include",
        defines={"TILE": 4},
    )
    files = {
        line.split('"')[1] for line in module.inspect_source("ptx").splitlines() if ".file" in line
    }
    assert files == {f"{os.sep}matmul.cu"}


@pytest.mark.row("R38")
@pytest.mark.parametrize("macro", ["__DATE__", "__TIME__"])
def test_the_time_of_the_build_is_refused(macro: str) -> None:
    text = (
        f"// {macro} in a comment\n"
        + SAXPY
        + f'\n__device__ const char *built = "{macro}" {macro};\n'
    )
    assert refused(text, "cuda -arch=sm_90") == (
        f"<text>:4: {macro} is the time of the build, and equal sources give equal payloads; pass a text in defines= instead"
    )
    assert devmod.compile(f"// {macro}\n{SAXPY}", "cuda -arch=sm_90").format == "cubin"
    lines = f'#line 7 "own.h"\n/*\n#line 20 "comment.h"\n*/ const char *built = {macro};\n'
    assert refused(lines + SAXPY, "cuda -arch=sm_90").startswith(
        f"own.h:9: {macro} is the time of the build"
    )


@pytest.mark.row("R39", "R29")
@pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="only glibc's loader lists the libraries that a process opens",
)
def test_no_driver_is_opened() -> None:
    program = f"import devmod; devmod.compile({SAXPY!r}, 'cuda -arch=sm_90,compute_90'); devmod.compile({SAXPY!r}, 'cuda -format=cuda')"
    control = (
        "from cuda.bindings import nvrtc\n"
        f"_, program = nvrtc.nvrtcCreateProgram({SAXPY.encode()!r}, b'k.cu', 0, [], [])\n"
        "nvrtc.nvrtcCompileProgram(program, 1, [b'-arch=sm_90'])"
    )
    opened = []
    for text in (program, control):
        environment = dict(os.environ, LD_DEBUG="files")
        result = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        opened.append([line for line in result.stderr.splitlines() if "libcuda.so" in line])
    assert opened[0] == []
    assert opened[1], "NVRTC without --no-cache opens the driver, so this test would see it"


# -- options, defines and templates
# -----------------------------------------------------------------------------------


def test_options_reach_the_compiler() -> None:
    division = 'extern "C" __global__ void k(float *x) { x[0] = x[1] / x[2]; }\n'
    plain = devmod.compile(division, "cuda -arch=compute_90").inspect_source("ptx")
    fast = devmod.compile(
        division, "cuda -arch=compute_90", options=["--use_fast_math"]
    ).inspect_source("ptx")
    assert "div.rn.f32" in plain
    assert "div.approx.ftz.f32" in fast
    text = 'template <class T> concept Any = true;\nextern "C" __global__ void k(float *x) { x[0] = 1; }\n'
    assert devmod.compile(text, "cuda -arch=sm_90", options="-std=c++20").functions
    limited = devmod.compile(
        SAXPY, "cuda -arch=sm_90", options=["--maxrregcount=32", "--fmad=false", "-Xptxas=-O1"]
    )
    assert limited.origin is not None
    assert limited.origin.options == ("--maxrregcount=32", "--fmad=false", "-Xptxas=-O1")


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("-arch=sm_80", "names an architecture; name it in the target, such as 'cuda -arch=sm_90'"),
        ("-rdc=true", "makes code that a linker must finish; a module is loaded as it is"),
        ("-dlto", "makes code that a linker must finish; a module is loaded as it is"),
        ("--create-pch=x", "reads or writes files, or gives no code"),
        ("-fdevice-time-trace=x", "reads or writes files, or gives no code"),
        (
            "--maxrregcount",
            "has no value that is supported; write it in one word, as in --maxrregcount=32",
        ),
        ("-fmad=1", "has no value that is supported; write it in one word, as in -fmad=true"),
        (
            "--wat",
            "is not supported; expected an option of NVRTC such as -std=c++20, --use_fast_math or --maxrregcount=32",
        ),
        (
            "-I/usr/include",
            "names a path; a payload is complete in itself, and its receiver has no such path. Folders of includes go into include=",
        ),
    ],
)
def test_options_that_are_refused(option: str, problem: str) -> None:
    assert (
        refused(SAXPY, "cuda -arch=sm_90", options=[option])
        == f"the cuda option {option!r} {problem}"
    )


def test_a_source_payload_contains_its_options_defines_and_includes() -> None:
    module = devmod.compile(
        KERNELS / "matmul.cu",
        "cuda -format=cuda",
        options=["--use_fast_math"],
        defines={"TILE": 8},
        include=KERNELS / "include",
    )
    text = module.inspect_source()
    assert text.startswith('//devmod: --use_fast_math\n#define TILE 8\n#line 1 "matmul.cu"\n')
    assert "constexpr int padded" in text
    assert str(KERNELS) not in text
    assert nvrtc.compile_program(text, "payload.cu", ["-arch=sm_90"]).cubin


def test_templates_are_named_by_their_instances() -> None:
    module = devmod.compile(
        "namespace ns {\n" + SCALE + "}\n" + SAXPY,
        "cuda -arch=sm_90",
        name_expressions=["ns::scale<float>"],
    )
    assert {name: info.name for name, info in module.functions.items()} == {
        "saxpy": "saxpy",
        "ns::scale<float>": "_ZN2ns5scaleIfEEvPT_S1_",
    }
    assert (
        str(module.functions["ns::scale<float>"].interface)
        == "<Interface (x: float32* rw, by: float32)>"
    )


def test_a_source_payload_contains_its_instances() -> None:
    module = devmod.compile(SCALE, "cuda -format=cuda", name_expressions=["scale<double>"])
    assert module.functions["scale<double>"].name == "_Z5scaleIdEvPT_S0_"
    assert list(
        read_ptx(
            nvrtc.compile_program(
                module.inspect_source(), "k.cu", ["-arch=compute_90"]
            ).ptx.decode()
        )
    ) == ["_Z5scaleIdEvPT_S0_"]
    assert refused("static " + SAXPY[11:], "cuda -format=cuda", name_expressions=["saxpy"]) == (
        "name_expressions= contains 'saxpy', a kernel that is static or in an anonymous namespace. With -format=cuda the receiver compiles "
        "<text> without the expression and drops the kernel. Give it external linkage, or compile it here, as in 'cuda -arch=sm_90'"
    )


def test_an_expression_that_does_not_exist() -> None:
    assert refused(SCALE, "cuda -arch=sm_90", name_expressions=["shift<int>"]) == (
        "name_expressions= ('shift<int>') does not compile: identifier \"shift\" is undefined"
    )


def test_a_source_without_a_kernel() -> None:
    for text in (SCALE, "__device__ int f() { return 1; }\n", ""):
        assert refused(text, "cuda -arch=sm_90") == (
            "the CUDA C++ source <text> has no kernel: mark a function with __global__; a template needs an instance, such as "
            "name_expressions=['scale<float>']"
        )


# -- headers
# --------------------------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("cuda_fp16.h", "__half h = __float2half(x[0]); x[1] = __half2float(__hadd(h, h));"),
        pytest.param(
            "cuda_bf16.h",
            "x[1] = __bfloat162float(__float2bfloat16(x[0]));",
            marks=pytest.mark.volume,
        ),
        (
            "mma.h",
            "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> f; nvcuda::wmma::fill_fragment(f, 0.0f); x[0] = f.x[0];",
        ),
        pytest.param(
            "cuda_pipeline.h",
            "__pipeline_commit(); __pipeline_wait_prior(0); x[0] = 1;",
            marks=pytest.mark.volume,
        ),
        ("vector_types.h", "float4 v = make_float4(1, 2, 3, 4); x[0] = v.x;"),
        ("cmath", "x[0] = std::exp(x[1]) + INFINITY;"),
        pytest.param(
            "cuda/std/atomic",
            "cuda::std::atomic_ref<float> r(x[0]); r.store(1.0f);",
            marks=pytest.mark.volume,
        ),
        pytest.param(
            "cooperative_groups.h",
            "cooperative_groups::this_thread_block().sync(); x[0] = 1;",
            marks=pytest.mark.volume,
        ),
    ],
)
def test_headers_of_nvidia_and_of_the_host(header: str, body: str) -> None:
    text = f'#include <{header}>\nextern "C" __global__ void k(float *x) {{ {body} }}\n'
    module = devmod.compile(text, "cuda -arch=sm_90")
    assert module.functions["k"].arg_types == ("handle",)
    interface = module.functions["k"].interface
    assert interface is not None
    assert [(param.name, param.type) for param in interface.params] == [("x", "float32")]
    # In quotes the header is NVIDIA's too, and the payload of a source contains the include alone.
    quoted = text.replace(f"<{header}>", f'"{header}"')
    assert devmod.compile(quoted, "cuda -format=cuda").inspect_source() == quoted


def test_constants_of_the_host_need_no_include() -> None:
    text = 'extern "C" __global__ void k(float *x) { x[0] = INFINITY; x[1] = FLT_MAX; x[2] = M_PI; x[3] = INT_MAX; x[4] = NAN; }\n'
    assert devmod.compile(text, "cuda -arch=sm_90").format == "cubin"
    own = "#define M_PI 3\n" + text
    assert devmod.compile(own, "cuda -arch=sm_90").inspect_source() == own


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("vector", f"{WITHOUT_HOST}. For a header of your own, add its folder to include="),
        (
            "tuple",
            f"{WITHOUT_HOST}. <cuda/std/tuple> has the same names in the namespace cuda::std",
        ),
        (
            "curand_kernel.h",
            "It is in the wheel nvidia-curand, which is not installed. To add it: pip install nvidia-curand",
        ),
        ("cuda_own.h", f"{WITHOUT_HOST}. For a header of your own, add its folder to include="),
    ],
)
def test_a_missing_header(header: str, hint: str) -> None:
    assert refused(f"\n#include <{header}>\n{SAXPY}", "cuda -arch=sm_90") == (
        f'the CUDA C++ source does not compile: <text>:2: error: cannot open source file "{header}". {hint}'
    )


@pytest.mark.parametrize("include", ['"curand_kernel.h"', "<curand_kernel.h>"])
def test_a_missing_wheel_has_the_same_help_behind_a_header_and_in_quotes(
    tmp_path: Path, include: str
) -> None:
    (tmp_path / "k.cu").write_text(f'#include "random.h"\n{SAXPY}')
    (tmp_path / "random.h").write_text(f"#include {include}\n")
    for source, name in (
        (tmp_path / "k.cu", "random.h"),
        (f"#include {include}\n{SAXPY}", "<text>"),
    ):
        assert refused(source, "cuda -arch=sm_90") == (
            f'the CUDA C++ source does not compile: {name}:1: error: cannot open source file "curand_kernel.h". It is in the wheel '
            "nvidia-curand, which is not installed. To add it: pip install nvidia-curand"
        )


def test_a_missing_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(f'#include "absent.h"\n{SAXPY}')
    assert refused(tmp_path / "k.cu", "cuda -arch=sm_90") == (
        f"k.cu:1: the include 'absent.h' is missing. Searched: {str(tmp_path)!r}. Add the folder that contains it: include=['FOLDER']"
    )


# -- errors and warnings
# --------------------------------------------------------------------------------------------------


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "part.h").write_text("\n\ninline __device__ float f() { return missing; }\n")
    (tmp_path / "größe.cu").write_text(f'#include "part.h"\n{SAXPY}')
    error = raised(devmod.CompileError, devmod.compile, tmp_path / "größe.cu", "cuda -arch=sm_90")
    assert (
        str(error)
        == 'the CUDA C++ source does not compile: part.h:3: error: identifier "missing" is undefined'
    )
    assert 'in the compilation of "größe.cu"' in error.log
    (tmp_path / "part.h").write_text("\n")
    (tmp_path / "größe.cu").write_text(f'#include "part.h"\n{SAXPY}int x = y;\nint z = y;\n')
    text = refusal(devmod.CompileError, devmod.compile, tmp_path / "größe.cu", "cuda -arch=sm_90")
    assert text.startswith("the CUDA C++ source does not compile: größe.cu:3: error: ")
    assert " more in .log)" in text


def test_unicode_in_names_and_texts() -> None:
    text = '// größe\nextern "C" __global__ void k(int *x) { x[0] = "größe"[x[1]]; }\n'
    assert devmod.compile(text, "cuda -arch=sm_90").inspect_source() == text
    assert refused(text.replace("k(", "größe("), "cuda -arch=sm_90").startswith(
        "the CUDA C++ source does not compile: <text>:2: error: unrecognized token"
    )


def test_warnings_go_to_the_caller() -> None:
    text = 'extern "C" __global__ void k(float *x) { int unused; x[0] = 1; }\n'
    with pytest.warns(UserWarning, match="^NVRTC has warnings") as caught:
        devmod.compile(text, "cuda -arch=sm_90")
    expected = 'NVRTC has warnings about the CUDA C++ source:\n<text>:1: warning #177-D: variable "unused" was declared but never referenced'
    assert [str(each.message) for each in caught] == [expected]
    assert caught[0].filename == __file__
    assert (
        refused(text, "cuda -arch=sm_90", options=["--werror"])
        == f"--werror turns this warning into an error: {expected}"
    )


@pytest.mark.once
def test_warnings_about_nvidias_own_headers_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"#include <math.h>\n#include <cuda/std/cmath>\n{SAXPY}"
    program = nvrtc.compile_program(text, "k.cu", ["-arch=sm_90"])
    assert "INFINITY" in program.log
    monkeypatch.setattr(nvrtc, "compile_program", lambda *_, **__: program)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        devmod.compile(text, "cuda -arch=sm_90")


def test_a_declared_fmap_without_libclang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clang", None)
    monkeypatch.setitem(sys.modules, "clang.cindex", None)
    from devmod_targets.authoring import clang

    monkeypatch.setattr(clang, "_load", lambda: __import__("clang.cindex"))
    fmap = {"saxpy": devmod.FunctionInfo("saxpy", ("float32", "handle", "handle"))}
    module = devmod.compile(SAXPY, "cuda -arch=sm_90", fmap=fmap)
    assert module.functions["saxpy"].arg_types == ("float32", "handle", "handle")
    assert module.origin is not None
    assert module.origin.toolchain == TOOLCHAIN
    assert "libclang is not installed" in refusal(
        devmod.ToolchainNotFoundError, devmod.compile, SAXPY, "cuda -arch=sm_90"
    )
    fmap = {"saxpy": devmod.FunctionInfo("saxpy", ("float32",))}
    assert refused(SAXPY, "cuda -arch=sm_90", fmap=fmap) == (
        "the declared fmap has 1 arguments for the cuda function 'saxpy'; its binary has 3"
    )


# -- what users of nvcc write


def test_errors_name_the_cause() -> None:
    check_texts(
        {
            "the CUDA C++ source does not compile: <text>:1: error: Formal parameter space overflowed (32776 bytes required, max 32764 bytes "
            "allowed) in function k": 'struct S { char bytes[32768]; }; extern "C" __global__ void k(S s, int *p) { *p = s.bytes[*p]; }',
            'the CUDA C++ source does not compile: <text>:1: error: identifier "uint8_t" is undefined. #include <cstdint> declares it (and 7 '
            "more in .log)": 'extern "C" __global__ void k(uint8_t *p, int n) { *p = n; }',
            'the CUDA C++ source does not compile: <text>:1: error: identifier "__half" is undefined. #include <cuda_fp16.h> declares it': 'extern "C" __global__ void k(float *p) { __half h; }',
            f'the CUDA C++ source does not compile: <text>:2: error: identifier "cudaMalloc" is undefined. {DEVICE_ALONE} (and 1 more in .log)': f"{SAXPY}int main() {{ float *x; cudaMalloc(&x, 4); saxpy<<<1, 1>>>(1, x, x); }}",
            "the CUDA C++ source does not compile: <text>:2: error: A function without execution space annotations "
            "(__host__/__device__/__global__) is considered a host function, and host functions are not allowed in JIT mode. Consider using "
            f"-default-device flag to process unannotated functions as __device__ functions in JIT mode. {DEVICE_ALONE}": f"{SAXPY}int main() {{ saxpy<<<1, 1>>>(1, nullptr, nullptr); }}",
        },
        lambda text: refused(text, "cuda -arch=sm_90"),
    )


def test_an_error_of_the_assembler() -> None:
    text = 'extern "C" __global__ void k(int *p) { asm("nothing.u32 %0, 1;" : "=r"(*p)); }'
    message = refused(text, "cuda -arch=sm_90")
    assert re.fullmatch(
        r"the CUDA C\+\+ source does not compile: the PTX:\d+: error: Not a name of any known instruction: 'nothing'",
        message,
    ), message


@pytest.mark.parametrize("header", ["cuda.h", "cudaTypedefs.h"])
def test_the_types_of_cuda_h(header: str) -> None:
    """NVRTC rejects CUDA's own cuda.h, which declares functions of the host."""
    text = f"""#include <{header}>
    #if CUDA_VERSION >= 13000
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, CUdeviceptr address, CUtexObject image, int *p)
    {{ *p = alignof(CUtensorMap) + sizeof(CUtensorMap); }}
    #endif
    """
    for target in ("cuda -arch=sm_90", "cuda -format=cuda"):
        info = devmod.compile(text, target).functions["k"]
        assert (info.arg_types, info.arg_extra_tags) == (
            ("handle", "uint64", "uint64", "handle"),
            (1, 0, 0, 0),
        )
    assert "256" in devmod.compile(text, "cuda -arch=compute_90").inspect_source("ptx")


def test_two_expressions_of_one_kernel() -> None:
    text = "template <class T> __global__ void fill(T *p) { *p = 1; }"
    functions = devmod.compile(
        text, "cuda -arch=sm_90", name_expressions=["fill<int>", "fill<signed int>"]
    ).functions
    assert {name: info.name for name, info in functions.items()} == dict.fromkeys(
        ["fill<int>", "fill<signed int>"], "_Z4fillIiEvPT_"
    )


def test_an_old_standard_and_long_double() -> None:
    text = 'extern "C" __global__ void k(long double x, long double *p, int n) { p[n] = x; }'
    for standard in ("c++03", "c++11", "c++20"):
        info = devmod.compile(text, "cuda -arch=sm_90", options=[f"-std={standard}"]).functions["k"]
        assert str(info.interface) == "<Interface (x: float64, p: float64* rw, n: int32) any block>"


def test_options_in_the_form_of_nvcc() -> None:
    check_texts(
        {
            "'-std' has no value that is supported; write it in one word, as in -std=c++20": [
                "-std",
                "c++17",
            ],
            "'--maxrregcount' has no value that is supported; write it in one word, as in --maxrregcount=32": [
                "--maxrregcount",
                "32",
            ],
            "'-Xptxas' has no value that is supported; write it in one word, as in -Xptxas=-O3": [
                "-Xptxas",
                "-v",
            ],
            "'-dopt' has no value that is supported; write it in one word, as in -dopt=on": [
                "-dopt"
            ],
            "'-O3' is nvcc's, and NVRTC lacks it: it compiles and optimizes the code of the device alone. Leave it out": [
                "-O3"
            ],
            "'--expt-relaxed-constexpr' is nvcc's, and NVRTC lacks it: it compiles and optimizes the code of the device alone. Leave it out, "
            "or compile with nvcc, as in 'cuda -arch=sm_90 -compiler=nvcc'. -default-device makes functions without __device__ functions of the device": [
                "--expt-relaxed-constexpr"
            ],
        },
        lambda options: refused(
            'extern "C" __global__ void k() {}', "cuda -arch=sm_90", options=options
        ),
        start="the cuda option ",
    )


#: The interface of a kernel that takes a struct of an address and a count.
SPAN_SOURCE = """
struct span { float *data; unsigned long long count; };
extern "C" __global__ void k(span x, int n) { if (n < x.count) x.data[n] = 3; }"""
SPAN_PARAMS = [
    Param("x", "buffer", "float32", "rw", pack=("ptr:handle", "count:uint64")),
    Param("n", "scalar", "int32"),
]


@pytest.mark.row("R12")
@pytest.mark.parametrize(
    "target", ["cuda -arch=sm_90", "cuda -arch=compute_90", "rocm -arch=gfx1100"]
)
def test_a_struct_is_declared_as_the_values_of_a_buffer(target: str) -> None:
    info = FunctionInfo("k", ["handle", "uint64", "int32"], interface=Interface(SPAN_PARAMS))
    language = "HIP" if target.startswith("rocm") else None
    module = devmod.compile(SPAN_SOURCE, target, fmap={"k": info}, language=language)
    assert module.functions["k"].interface == info.interface
    assert module.functions["k"].arg_types == info.arg_types
    # The binary itself is declared in the same way.
    if target.endswith("compute_90"):
        wrapped = devmod.compile(bytes(module.code), target, fmap={"k": info}, language="PTX")  # type: ignore[attr-defined]
        assert wrapped.functions["k"].interface == info.interface
    three = SPAN_PARAMS[0].replace(pack=("ptr:handle", "count:uint64", "shape0:uint64"))
    wrong = FunctionInfo(
        "k", ["handle", "uint64", "uint64", "int32"], interface=Interface([three, *SPAN_PARAMS[1:]])
    )
    with pytest.raises(devmod.CompileError, match=r"4 arguments; at|4 arguments for the"):
        devmod.compile(SPAN_SOURCE, target, fmap={"k": wrong}, language=language)
