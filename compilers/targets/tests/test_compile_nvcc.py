"""CUDA C++ with host code, compiled by nvcc (``-compiler=nvcc``): kernels, signatures, reproducible
bytes and errors. nvcc is the real one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest
from backend_checks import run_python
from each_case import raised, refusal

import devmod
from devmod.backend import find_program
from devmod_readers.nvidia import fatbin_members, read_cubin, read_ptx
from devmod_targets._executables import clear_caches
from devmod_targets.authoring import CompilerReport

WHEELS = {
    "nvcc": "nvidia-cuda-nvcc",
    "nvvm": "nvidia-nvvm",
    "cuda headers": "nvidia-cuda-runtime",
    "cccl": "nvidia-cuda-cccl",
    "crt": "nvidia-cuda-crt",
}


def missing() -> str:
    """Return what nvcc lacks here; "" if it can compile."""
    for wheel in WHEELS.values():
        try:
            version(wheel)
        except PackageNotFoundError:
            return f"the wheel {wheel} is not installed"
    return "" if sys.platform == "linux" and find_program("g++") else "nvcc needs Linux and g++"


pytestmark = [pytest.mark.once, pytest.mark.skipif(bool(missing()), reason=missing())]

SAXPY = 'extern "C" __global__ void saxpy(float a, const float *x, float *y) { int i = threadIdx.x; y[i] = a * x[i] + y[i]; }\n'
#: A program as examples of CUDA have it: kernels of all forms, and the code of the host that
#: launches them.
PROGRAM = """
#include <cstdio>
#include <vector>
#include <cooperative_groups.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s:%d", __FILE__, __LINE__); } } while (0)
struct Grid { int width; float spacing[2]; };
enum class Mode { fast, exact };
__constant__ float weights[4];
__device__ int counter;
#if defined(__CUDACC_RTC__) || !defined(__GNUC__)
#error this branch is not for nvcc and g++
#endif

template <class T, int N> __global__ void scale(T *x, const T by, std::size_t n) {
  auto grid = cg::this_grid();
  for (std::size_t i = grid.thread_rank(); i < n; i += grid.size()) x[i] *= by * T(N);
}
extern "C" __global__ void __launch_bounds__(128) blend(const __half *in, float *out, Grid grid, Mode mode) {
  extern __shared__ float cache[];
  cache[threadIdx.x] = __half2float(in[threadIdx.x]) * weights[0];
  if (int(threadIdx.x) < grid.width && mode == Mode::fast) out[threadIdx.x] = cache[threadIdx.x] / grid.spacing[0];
}
static __global__ void count(unsigned char *flags) { if (flags[threadIdx.x]) atomicAdd(&counter, 1); }
namespace { __global__ void hidden(float4 *p) { p->x = 1; } }
namespace ns { __global__ void over(int *x) { *x = 1; } __global__ void over(double *x) { *x = 1; } }

int main() {
  std::vector<float> host(100, 1.0f);
  float *device = nullptr;
  CHECK(cudaMalloc(&device, host.size() * sizeof(float)));
  scale<float, 2><<<1, 32>>>(device, 3.0f, host.size());
  count<<<1, 32>>>(nullptr);
  hidden<<<1, 1>>>(nullptr);
  printf("%zu", host.size());
}
"""
INTERFACES = {
    "blend": "<Interface (in: float16* r, out: float32* rw, grid: {width: int32, spacing: float32[2]}, mode: int32)>",
    "count": "<Interface (flags: uint8* rw)>",
    "hidden": "<Interface (p: float32x4* rw) any block>",
    "ns::over(int*)": "<Interface (x: int32* rw) any block>",
    "ns::over(double*)": "<Interface (x: float64* rw) any block>",
    "scale<float, 2>": "<Interface (x: float32* rw, by: float32, n: uint64)>",
}


refused = partial(refusal, devmod.CompileError, devmod.compile)


# -- kernels, formats and signatures
# ----------------------------------------------------------------------------------


def test_a_program_with_host_code_gives_its_kernels() -> None:
    assert "NVRTC has no headers of the host's compiler. nvcc takes host code" in refused(
        PROGRAM, "cuda -arch=sm_90"
    )
    module = devmod.compile(PROGRAM, "cuda -arch=sm_90 -compiler=nvcc")
    assert module.format == "cubin"
    assert {name: str(info.interface) for name, info in module.functions.items()} == INTERFACES
    assert module.functions["blend"].launch_param_tags[6:] == ("tirx.use_dyn_shared_memory",)
    assert (module.inspect_source(), set(module.source)) == (PROGRAM, {"cuda", "ptx"})
    assert module.origin is not None
    host = subprocess.run(
        ["g++", "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()
    parts = module.origin.toolchain.split(", ")
    assert parts[:6] == [
        *(f"{part} {version(wheel)}" for part, wheel in WHEELS.items()),
        f"g++ {host}",
    ]
    assert [each.rpartition(" ")[0] for each in parts[6:]] == ["host headers", "libclang"]
    assert module.origin.target == "cuda -arch=sm_90 -compiler=nvcc"


@pytest.mark.volume
def test_a_fatbin_has_a_member_for_each_architecture() -> None:
    fatbin = devmod.compile(SAXPY, "cuda -arch=sm_90a,compute_80 -compiler=nvcc -format=fatbin")
    members = fatbin_members(bytes(fatbin.wire_parts()[-1]))
    assert [(member.kind, member.arch.partition(":")[0]) for member in members] == [
        ("cubin", "sm_90a"),
        ("ptx", "compute_80"),
    ]
    assert (
        list(read_cubin(members[0].data)) == list(read_ptx(members[1].data.decode())) == ["saxpy"]
    )


def test_name_expressions_instantiate_templates() -> None:
    text = """
    #include <utility>
    template <class T, int N> __global__ void fill(T *out, const T (&values)[N]) { out[0] = values[N - 1]; }
    template <class T> static __global__ void zero(std::pair<T, int> *pairs, unsigned count) { pairs->first = T(count); }
    __global__ void plain(int *x) { *x = 1; }
    __device__ int total;
    """
    names = ["fill<float, 3>", "&zero<short>", "plain", "&total"]
    module = devmod.compile(text, "cuda -arch=sm_90 -compiler=nvcc", name_expressions=names)
    assert {name: str(info.interface) for name, info in module.functions.items()} == {
        "fill<float, 3>": "<Interface (out: float32* rw, values: float32* r) any block>",
        "zero<short>": "<Interface (pairs: {first: int16, second: int32}* rw, count: uint32) any block>",
        "plain": "<Interface (x: int32* rw) any block>",
    }
    assert refused(
        text, "cuda -arch=sm_90 -compiler=nvcc", name_expressions=["fill<Missing, 3>"]
    ) == (
        "name_expressions= ('fill<Missing, 3>') does not compile: identifier \"Missing\" is undefined"
    )


@pytest.mark.volume
def test_instances_that_host_code_launches() -> None:
    text = """
    #include <cstdlib>
    namespace cub { template <class T> __global__ void EmptyKernel(T) {} }  // as CUB's, which its own host code launches
    __device__ float twice(float x) { return 2 * x; }
    template <float (*F)(float)> __global__ void map(float *x, const unsigned n) { if (threadIdx.x < n) x[threadIdx.x] = F(x[threadIdx.x]); }
    int main(int, char **arguments) { cub::EmptyKernel<<<1, 1>>>(1); map<twice><<<1, 32>>>(nullptr, std::atoi(arguments[1])); }
    """
    module = devmod.compile(text, "cuda -arch=compute_80 -compiler=nvcc")
    assert [(name, str(info.interface)) for name, info in module.functions.items()] == [
        ("map<&twice>", "<Interface (x: float32* rw, n: uint32)>")
    ]


@pytest.mark.volume
def test_lines_with_an_absolute_path() -> None:
    """Generators of code write them."""
    text = '#include <vector>\n#line 5 "/home/me/k.cu"\nextern "C" __global__ void k(float *p, const int *q) { p[0] = q[0]; }\n'
    for folder in ("/home/me", "/usr/include"):
        module = devmod.compile(
            text.replace("/home/me", folder), "cuda -arch=compute_80 -compiler=nvcc"
        )
        assert (
            str(module.functions["k"].interface)
            == "<Interface (p: float32* rw, q: int32* r) any block>"
        )


@pytest.mark.volume
def test_kernels_that_take_lambdas() -> None:
    text = """
    template <class F> __global__ void each(int n, F f) { int i = threadIdx.x; if (i < n) f(i); }
    void run(float *p, int n) {
      each<<<1, 32>>>(n, [=] __device__(int i) { p[i] = 1; });
      each<<<1, 32>>>(n, [=] __device__(int i) { p[i] = n; });
    }
    void run(double *p, int n) { each<<<1, 32>>>(n, [=] __device__(int i) { p[i] = 1; }); }
    namespace ns { template <class T> void fill(T *p) { each<<<1, 32>>>(3, [=] __device__(int i) { p[i] = T(1); }); } }
    int main() { ns::fill((short *)nullptr); each<<<1, 1>>>(1, [] __device__(int) {}); }
    """
    module = devmod.compile(
        text, "cuda -arch=compute_80 -compiler=nvcc", options=["--extended-lambda"]
    )
    assert {name: str(info.interface) for name, info in module.functions.items()} == {
        "each<run(float*, int)::{lambda(int)#1}>": "<Interface (n: int32, f: uint8x8)>",
        "each<run(float*, int)::{lambda(int)#2}>": "<Interface (n: int32, f: uint8x16)>",
        "each<run(double*, int)::{lambda(int)#1}>": "<Interface (n: int32, f: uint8x8)>",
        "each<ns::fill<short>(short*)::{lambda(int)#1}>": "<Interface (n: int32, f: uint8x8)>",
        "each<main()::{lambda(int)#1}>": "<Interface (n: int32, f: uint8)>",
    }


@pytest.mark.volume
def test_a_declared_fmap_without_libclang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clang", None)
    monkeypatch.setitem(sys.modules, "clang.cindex", None)
    from devmod_targets.authoring import clang

    monkeypatch.setattr(clang, "_load", lambda: __import__("clang.cindex"))
    target, fmap = (
        "cuda -arch=sm_90 -compiler=nvcc",
        {"saxpy": devmod.FunctionInfo("saxpy", ("float32", "handle", "handle"))},
    )
    assert list(devmod.compile(SAXPY, target, fmap=fmap).functions) == ["saxpy"]
    with_expression = refusal(
        devmod.ToolchainNotFoundError,
        devmod.compile,
        SAXPY,
        target,
        fmap=fmap,
        name_expressions=["saxpy"],
    )
    assert with_expression.startswith(
        "cannot read the kernels of the CUDA C++ source: libclang is not installed."
    )


# -- includes, options, warnings and reports
# --------------------------------------------------------------------------


def test_user_includes_are_embedded_and_errors_have_their_lines(tmp_path: Path) -> None:
    (tmp_path / "größe.cu").write_text(
        '#include <vector>\n#include "part.h"\n#include "stdio.h"\n' + SAXPY
    )
    (tmp_path / "part.h").write_text("#pragma once\ninline int half(int x) { return x / 2; }\n")
    module = devmod.compile(tmp_path / "größe.cu", "cuda -arch=compute_80 -compiler=nvcc")
    assert module.origin is not None
    assert sorted(module.origin.sources) == ["größe.cu", "part.h"]
    (tmp_path / "part.h").write_text("\n\n__device__ int half(int x) { return missing; }\n")
    assert refused(tmp_path / "größe.cu", "cuda -arch=compute_80 -compiler=nvcc") == (
        'the CUDA C++ source does not compile: part.h:3: error: identifier "missing" is undefined'
    )
    (tmp_path / "part.h").write_text("#include <absent.h>\n")
    assert refused(tmp_path / "größe.cu", "cuda -arch=compute_80 -compiler=nvcc") == (
        'the CUDA C++ source does not compile: part.h:1: error: cannot open source file "absent.h". For a header of your own, add its '
        "folder to include="
    )
    (tmp_path / "part.h").write_text('#include "nvtx3/absent.h"\n')
    assert refused(tmp_path / "größe.cu", "cuda -arch=compute_80 -compiler=nvcc") == (
        'the CUDA C++ source does not compile: part.h:1: error: cannot open source file "nvtx3/absent.h". It is in the wheel nvidia-nvtx, '
        "which is not installed. To add it: pip install nvidia-nvtx"
    )


@pytest.mark.row("R38")
def test_a_file_of_the_machine_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define SECRET 1\n")
    include = f"#if 1\n#include <{secret}>\n#endif\n"
    assert refused(include + SAXPY, "cuda -arch=compute_80 -compiler=nvcc") == (
        f"the CUDA C++ source <text> includes the file {str(secret)!r}, which is outside the folders of the compilers' headers. Write a "
        "path relative to a folder of include="
    )
    secret.write_text("not a directive\n# text of the file\n")
    error = raised(
        devmod.CompileError, devmod.compile, include + SAXPY, "cuda -arch=compute_80 -compiler=nvcc"
    )
    assert "of the file" not in error.log


@pytest.mark.volume
def test_a_dollar_of_an_option_reaches_the_preprocessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvcc prints commands for a shell with variables of its own, such as TOP, and the user's
    options as they are.
    """
    program = tmp_path / "g++"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/arguments\nexec {find_program("g++")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    devmod.compile(
        SAXPY,
        "cuda -arch=compute_80 -compiler=nvcc",
        options=["-UX=a$TOP-H", "-UY=$_SPACE_b$_SPACE_-H"],
    )
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert "X=a$TOP-H" in arguments
    assert "Y=$_SPACE_b$_SPACE_-H" in arguments


def test_libclang_reads_a_program_while_cicc_compiles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the program again only if the PTX has other instances of templates than those in
    launches.
    """
    from devmod_targets.authoring.clang import Libclang
    from devmod_targets.cuda import nvcc

    events: list[str] = []
    parse, run_program = Libclang.parse, nvcc.run_program

    def count(self: Libclang, main: str, *arguments: object, **options: object) -> object:
        events.append("libclang")
        return parse(self, main, *arguments, **options)  # type: ignore[arg-type]

    def run(*arguments: object, name: str, **options: object) -> object:
        result = run_program(*arguments, name=name, **options)  # type: ignore[arg-type]
        events.append(name)
        return result

    monkeypatch.setattr(Libclang, "parse", count)
    monkeypatch.setattr(nvcc, "run_program", run)
    assert list(
        devmod.compile(SAXPY, "cuda -arch=compute_80,sm_90 -format=fatbin -compiler=nvcc").functions
    ) == ["saxpy"]
    assert events.count("libclang") == 1
    for launch, rest in (
        ("k<int> <<<1, 1>>>(nullptr)", []),
        ("k<<<1, 1>>>((int *)nullptr)", ["libclang"]),
    ):
        events.clear()
        template = f"template <class T> __global__ void k(T *x) {{}} int main() {{ {launch}; }}\n"
        assert list(devmod.compile(template, "cuda -arch=compute_80 -compiler=nvcc").functions) == [
            "k<int>"
        ]
        assert events[events.index("g++") :] == ["g++", "libclang", "cicc", *rest]


@pytest.mark.row("R38")
@pytest.mark.parametrize(
    ("lines", "line", "made"),
    [
        ("HASH include FILE", 5, "# include {file}"),
        ("HASH define V 3", 5, "# define V 3"),
        ("%: define HASH2 %:\nHASH2 include FILE", 6, "%: include {file}"),
        ("\\ EMPTY\nHASH include FILE", 5, "\\"),
        ("HASH pragma unroll \\ EMPTY\nHASH include FILE", 5, "# pragma unroll \\"),
        ("#define UNROLL #pragma unroll\nUNROLL\nHASH include FILE", 7, "# include {file}"),
        ("%\\ EMPTY\n:include FILE", 5, "%\\"),
        (
            'int i = 1\'0; const char *s = "R\\"("; char c = \'"\';\nHASH include FILE\nconst char *e = ")";',
            6,
            "# include {file}",
        ),
    ],
)
def test_a_directive_that_a_macro_makes_is_refused(
    lines: str, line: int, made: str, tmp_path: Path
) -> None:
    """cicc preprocesses what the preprocessor has printed."""
    header = tmp_path / "header.h"
    header.write_text("const int EVIL = 1;\n")
    text = f'#define HASH #\n#define EMPTY\n#define FILE "{header}"\n\n{lines}\n{SAXPY}'
    message = refusal(
        devmod.CompileError, devmod.compile, text, "cuda -arch=compute_80 -compiler=nvcc"
    )
    made = made.format(file=f'"{header}"')
    assert message == (
        f"the CUDA C++ source does not compile: <text>:{line}: error: a macro makes {made!r}, of which nvcc makes a directive of the "
        "preprocessor. Write the directive without a macro"
    )


@pytest.mark.volume
def test_directives_in_raw_strings_and_pragmas_are_text() -> None:
    raw = '\n# 1 "/usr/include/stdio.h"\n  #include <vector>\n\t\\a\\\n"?\\?/\n)'
    text = f"""
    #define UNROLL _Pragma("unroll 2")
    __device__ const char s[] = u8R"x({raw})x" "end";
    static_assert(sizeof(s) == {len(raw) + 4}, "size");
    static_assert(__LINE__ == {5 + raw.count(chr(10))}, "line");
    extern "C" __global__ void k(char *p, int n) {{ UNROLL for (int i = 0; i < n; i++) p[i] = s[i]; }}
    """
    module = devmod.compile(text, "cuda -arch=compute_80 -compiler=nvcc")
    assert str(module.functions["k"].interface) == "<Interface (p: int8* rw, n: int32)>"
    data = ", ".join(map(str, f"{raw}end".encode()))
    assert data in module.inspect_source("ptx")


@pytest.mark.volume
def test_a_macro_makes_a_pragma() -> None:
    """As CUTLASS does: nvcc preprocesses a program twice, so that the pragma has its effect."""
    text = """#define UNROLL #pragma unroll 3
    extern "C" __global__ void k(float *p, const float *q) {
        UNROLL
        for (int i = 0; i < 3; i++) p[i] = sqrtf(q[i]);
    }
    """
    target = "cuda -arch=compute_80 -compiler=nvcc"
    unrolled, rolled = (
        devmod.compile(each, target).inspect_source("ptx")
        for each in (text, text.replace("unroll 3", "unroll 1"))
    )
    assert (unrolled.count("sqrt.rn.f32"), rolled.count("sqrt.rn.f32")) == (3, 1)


def test_options_of_nvcc() -> None:
    text = "#include <vector>\nconstexpr int seven() { return 7; }\n" + SAXPY.replace(
        "a * x[i]", "seven() * a * x[i]"
    )
    target = "cuda -arch=sm_90 -compiler=nvcc"
    with pytest.warns(CompilerReport, match="registers"):
        devmod.compile(
            text,
            target,
            options=["--expt-relaxed-constexpr", "-O2", "--extended-lambda", "-Xptxas=-v"],
        )
    assert refused(SAXPY, target, options=["-Xcompiler=-fplugin=x.so"]) == (
        "the cuda option '-Xcompiler=-fplugin=x.so' is for the code or the compiler of the host, or for files; a payload has the code of "
        "the device. Leave it out"
    )
    assert refused(SAXPY, target, options="-default-device") == (
        "the CUDA C++ source does not compile: nvcc: error: Unknown option '-default-device'"
    )
    assert refused(SAXPY, "cuda -arch=compute_80", options="--extended-lambda") == (
        "the cuda option '--extended-lambda' is nvcc's, and NVRTC lacks it: it compiles and optimizes the code of the device alone. Leave "
        "it out, or compile with nvcc, as in 'cuda -arch=sm_90 -compiler=nvcc'"
    )


@pytest.mark.volume
@pytest.mark.parametrize("compiler", ["", " -compiler=nvcc"])
def test_a_quote_in_a_name_and_lines(compiler: str, tmp_path: Path) -> None:
    (tmp_path / 'a"b.cu').write_text(SAXPY)
    target = f"cuda -arch=sm_90{compiler}"
    assert list(devmod.compile(tmp_path / 'a"b.cu', target).functions) == ["saxpy"]
    for option in ("-lineinfo", "-G"):
        assert refused(tmp_path / 'a"b.cu', target, options=option) == (
            f"the file 'a\"b.cu' has a quote in its name, which PTX with {option} cannot have. Rename the file"
        )


@pytest.mark.volume
def test_warnings_of_both_compilers() -> None:
    text = "#include <vector>\n#warning of the preprocessor\n" + SAXPY.replace(
        "{ int i", "{ int unused; int i"
    )
    with pytest.warns(UserWarning, match="nvcc has warnings") as caught:
        devmod.compile(text, "cuda -arch=compute_80 -compiler=nvcc")
    assert [str(each.message) for each in caught] == [
        "nvcc has warnings about the CUDA C++ source:\n<text>:2: warning: #warning of the preprocessor [-Wcpp]\n"
        '<text>:3: warning #177-D: variable "unused" was declared but never referenced'
    ]


# -- errors about the target and the machine
# --------------------------------------------------------------------------


def test_targets_that_nvcc_does_not_take() -> None:
    assert refused(SAXPY, "cuda -format=cuda -compiler=nvcc") == (
        "the target 'cuda -format=cuda -compiler=nvcc' keeps the source, which the receiver compiles with NVRTC; leave out -compiler=nvcc"
    )
    assert refused(SAXPY, "cuda -arch=sm_90 -compiler=clang") == (
        "the target 'cuda -arch=sm_90 -compiler=clang' has the option -compiler=clang; expected -format=cuda, -format=ptx, -format=cubin, "
        "-format=fatbin or -compiler=nvcc"
    )
    assert refused(
        "define void @k() { ret void }", "cuda -arch=compute_80 -compiler=nvcc", language="LLVM IR"
    ) == (
        "the target 'cuda -arch=compute_80 -compiler=nvcc' has the option -compiler=nvcc, and <text> is LLVM IR. Leave it out"
    )
    number = ".".join(version("nvidia-cuda-nvcc").split(".")[:2])
    assert refused(SAXPY, "cuda -arch=sm_52 -compiler=nvcc").startswith(
        f"nvcc {number} does not support the architecture 'sm_52'; it supports sm_ and compute_ with 75, 80, "
    )


def test_a_machine_without_gxx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(
        devmod.ToolchainNotFoundError, devmod.compile, SAXPY, "cuda -arch=sm_90 -compiler=nvcc"
    ) == (
        "CUDA C++ cannot be compiled here with -compiler=nvcc: nvcc needs the host's C++ compiler, and PATH has no g++. Install it with the "
        "system's package manager, as in apt install g++"
    )
    (tmp_path / "g++").write_text("#!/bin/sh\necho other\n")
    (tmp_path / "g++").chmod(0o755)
    assert refusal(
        devmod.ToolchainNotFoundError, devmod.compile, SAXPY, "cuda -arch=sm_90 -compiler=nvcc"
    ) == (
        f"CUDA C++ cannot be compiled here with -compiler=nvcc: {tmp_path / 'g++'} does not report its version and its folders as g++ does. "
        "Install g++"
    )


@pytest.mark.volume
def test_gxx_is_a_program_that_looks_for_the_real_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As that of ccache does: it runs the next g++ of PATH."""
    (tmp_path / "g++").write_text(
        '#!/bin/sh\ncase "$PATH" in *:*) ;; *) exit 1;; esac\nPATH="${PATH#*:}"\nexec g++ "$@"\n'
    )
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert list(
        devmod.compile(
            "#include <vector>\n" + SAXPY, "cuda -arch=compute_80 -compiler=nvcc"
        ).functions
    ) == ["saxpy"]


def test_a_machine_without_the_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_targets.cuda import _wheels

    monkeypatch.setattr(
        _wheels, "version", lambda name: "" if name == "nvidia-nvvm" else version(name)
    )
    assert refusal(
        devmod.ToolchainNotFoundError, devmod.compile, SAXPY, "cuda -arch=sm_90 -compiler=nvcc"
    ) == (
        "CUDA C++ cannot be compiled here with -compiler=nvcc: nvcc (the wheel nvidia-nvvm) is not installed. To add it: pip install "
        '"devmod-core[build-cuda-nvcc]"'
    )


# -- the same bytes everywhere
# ----------------------------------------------------------------------------------------

BUILD = """
import hashlib, pathlib, warnings
import devmod
warnings.simplefilter("ignore")
for options in ("-lineinfo", "-G"):
    module = devmod.compile(pathlib.Path("k.cu"), "cuda -arch=sm_90 -compiler=nvcc", options=options, name_expressions=["at<3>"])
    data = devmod.dumps(module)
    print(options, hashlib.sha256(data).hexdigest(), hashlib.sha256(module.inspect_source("ptx").encode()).hexdigest())
    for word in ("/tmp", "site-packages", "/usr/", "devmod-"):
        numbers = [", ".join(map(str, word.encode())), ",".join(map(str, word.encode()))]
        assert not any(each in module.inspect_source("ptx") for each in (word, *numbers)), (options, word)
"""
PLACES = """
#include <cassert>
#include <vector>
#include <cuda/std/cstdint>
static __device__ int counter;
namespace { __global__ void hidden(int *x) { x[0] = counter++; assert(x[0] > 0); } }
template <int N> __global__ void at(const char **file, std::int32_t *values) { file[0] = __FILE__; values[N] = __builtin_strlen(__builtin_FILE()); }
void launch() { hidden<<<1, 1>>>(nullptr); }
"""


@pytest.mark.row("R38")
def test_the_bytes_depend_on_no_folder_and_on_no_variable(tmp_path: Path) -> None:
    (nvidia,) = [
        each
        for each in find_spec("nvidia").submodule_search_locations
        if os.path.exists(os.path.join(each, "cu13"))
    ]  # type: ignore[union-attr, union-attr]
    results = set()
    user = {"NVCC_APPEND_FLAGS": "-G", "NVCC_PREPEND_FLAGS": "-DX", "CPATH": str(tmp_path)}
    for name, variables in (("one", {}), ("another place", user)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "k.cu").write_text(PLACES)
        if variables:  # the same wheels in another folder, and another temporary folder
            (folder / "wheels" / "nvidia").mkdir(parents=True)
            (folder / "wheels" / "nvidia" / "cu13").symlink_to(os.path.join(nvidia, "cu13"))
            variables |= {
                "PYTHONPATH": str(folder / "wheels"),
                "TMPDIR": str(folder),
                "HOME": str(folder),
            }
        results.add(run_python(f"import os; os.chdir({str(folder)!r})\n{BUILD}", **variables))
    assert len(results) == 1, results


@pytest.mark.volume
@pytest.mark.row("R38")
@pytest.mark.parametrize("options", [(), ("-lineinfo",), ("-G",)])
def test_a_program_without_external_names_has_the_same_bytes(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """cicc's own identifier of such a program has the number of its process."""
    results = set()
    for folder in (tmp_path / "one", tmp_path / "one", tmp_path / "another"):
        folder.mkdir(exist_ok=True)
        (folder / "k.cu").write_text(
            "namespace { __device__ int v; __global__ void k(int *p) { p[0] = v++; } }\n"
        )
        module = devmod.compile(
            folder / "k.cu",
            "cuda -arch=sm_90,compute_80 -compiler=nvcc -format=fatbin",
            options=options,
        )
        results.add(devmod.dumps(module))
    assert len(results) == 1


@pytest.mark.volume
@pytest.mark.row("R38")
def test_the_base_file_is_the_source(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__device__ const char s[] = __BASE_FILE__;\n"
        'extern "C" __global__ void k(char *p, int n) { static_assert(sizeof(s) == 5, "k.cu"); p[n] = s[n]; }\n'
    )
    ptx = devmod.compile(tmp_path / "k.cu", "cuda -arch=compute_80 -compiler=nvcc").inspect_source(
        "ptx"
    )
    assert ", ".join(map(str, b"k.cu")) in ptx


@pytest.mark.row("R38")
def test_a_pasted_name_of_the_time_is_refused() -> None:
    text = (
        "#define PASTE(a, b) a##b\n#define CLOCK(a, b) PASTE(a, b)\n__device__ const char s[] = CLOCK(__TIME, STAMP__);\n"
        + SAXPY
    )
    assert refused(text, "cuda -arch=compute_80 -compiler=nvcc") == (
        "<text>:3: __TIMESTAMP__ is the time of the build, and equal sources give equal payloads; pass a text in defines= instead"
    )


def test_a_changed_header_of_the_host_is_another_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A g++ with a folder of headers before its own."""
    (tmp_path / "include").mkdir()
    (tmp_path / "g++").write_text(
        f'#!/bin/sh\nexec {shutil.which("g++")} -isystem {tmp_path / "include"} "$@"\n'
    )
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    origins = set()
    for text in ("#define HALF 1\n", "#define HALF 2\n"):
        (tmp_path / "include" / "own_of_host.h").write_text(text)
        module = devmod.compile(
            "#include <own_of_host.h>\n" + SAXPY, "cuda -arch=compute_80 -compiler=nvcc"
        )
        origins.add(module.origin)
    assert len({origin.toolchain for origin in origins if origin}) == 2


@pytest.mark.volume
def test_the_key_of_a_build_has_the_compilers_and_the_hosts_headers() -> None:
    from devmod_targets.build import toolchains
    from devmod_targets.build.plan import Job

    def key(target: str) -> list[str]:
        clear_caches()
        return toolchains.toolchain_of(Job("k", "", "k.cu", target)).splitlines()

    lines = key("cuda -arch=sm_90 -compiler=nvcc")
    assert f"nvidia-cuda-nvcc {version('nvidia-cuda-nvcc')}" in lines
    assert [line for line in lines if line.startswith("g++ ")]
    assert [line for line in lines if line.startswith("host headers ")]
    assert not [line for line in key("cuda -arch=sm_90") if line.startswith(("g++", "host"))]


@pytest.mark.volume
def test_the_key_of_a_build_has_headers_below_a_linked_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_targets.build import toolchains
    from devmod_targets.build.plan import Job

    for name in ("include", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "include" / "part").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "include")  # a cycle
    (tmp_path / "g++").write_text(
        f'#!/bin/sh\nexec {shutil.which("g++")} -nostdinc -isystem {tmp_path / "include"} "$@"\n'
    )
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    keys = set()
    for text in ("#define HALF 1\n", "#define HALF 2\n", "#define HALF 2\n"):
        (tmp_path / "elsewhere" / "own_of_host.h").write_text(text)
        clear_caches()
        keys.add(toolchains.toolchain_of(Job("k", "", "k.cu", "cuda -arch=sm_90 -compiler=nvcc")))
    assert len(keys) == 2


@pytest.mark.volume
def test_a_build_is_cached_by_its_inputs(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#include <vector>\n#include "part.h"\n' + SAXPY)
    (tmp_path / "part.h").write_text("#define PART 1\n")
    manifest = tmp_path / "devmod.toml"
    manifest.write_text(
        'output = "k.devmod"\ntargets = ["cuda -arch=compute_80 -compiler=nvcc"]\n[kernels.k]\nsources = ["k.cu"]\n'
    )

    def run() -> tuple[list[str], bytes]:
        result = devmod.build(manifest, cache=tmp_path / "cache")
        return [each.status for each in result.results], (tmp_path / "k.devmod").read_bytes()

    first, second = run(), run()
    assert (first[0], second[0], first[1] == second[1]) == (["compiled"], ["cached"], True)
    (tmp_path / "part.h").write_text("#define PART 2\n")
    assert run()[0] == ["compiled"]
