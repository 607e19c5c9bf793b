"""devmod_targets.cuda.nvrtc: NVRTC of the wheel, with the headers in memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from each_case import raised, refusal

import devmod
from devmod_targets.cuda import _wheels, nvrtc
from devmod_targets.cuda._headers import host_headers

SAXPY = 'extern "C" __global__ void saxpy(float a, const float *x, float *y) { int i = threadIdx.x; y[i] = a * x[i] + y[i]; }\n'


def compile_sm90(text: str, *options: str, **arguments: object) -> nvrtc.Program:
    return nvrtc.compile_program(text, "k.cu", ["-arch=sm_90", *options], **arguments)  # type: ignore[arg-type]


def test_a_real_architecture_gives_a_cubin_and_ptx() -> None:
    program = compile_sm90(SAXPY)
    assert program.cubin.startswith(b"\x7fELF")
    assert program.ptx.startswith(b"//")
    assert b".visible .entry saxpy(" in program.ptx
    assert b"\0" not in program.ptx
    assert program.log == ""
    assert program.version == nvrtc.version() >= (12, 0)


def test_a_virtual_architecture_gives_ptx_alone() -> None:
    program = nvrtc.compile_program(SAXPY, "k.cu", ["-arch=compute_80"])
    assert b".target sm_80" in program.ptx
    assert program.cubin == b""


def test_errors_have_the_line_of_the_program_and_the_compilers_words() -> None:
    error = raised(
        devmod.CompileError, compile_sm90, "\n\n__global__ void k(float *x) { x[0] = missing; }\n"
    )
    assert (
        str(error)
        == 'the CUDA C++ source does not compile: k.cu:3: error: identifier "missing" is undefined'
    )
    assert error.log.startswith('k.cu(3): error: identifier "missing" is undefined')
    assert 'in the compilation of "k.cu".' in error.log


def test_errors_of_the_assembler_and_of_options() -> None:
    assert refusal(
        devmod.CompileError,
        compile_sm90,
        "__global__ void k(float *x) { __shared__ float s[99999]; s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[int(x[2])]; }\n",
    ) == (
        "the CUDA C++ source does not compile: ptxas: error: Entry function '_Z1kPf' uses too much shared data (0x61a7c bytes, 0xc000 max)"
    )
    assert (
        refusal(devmod.CompileError, compile_sm90, SAXPY, "--nonsense")
        == "the CUDA C++ source does not compile: nvrtc: error: unrecognized option --nonsense found"
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="builds libraries with cc")
def test_the_library_of_the_builtin_functions_is_found_without_a_run_path(tmp_path: Path) -> None:
    """NVRTC 13.0 opens it by name, and its wheel is in no folder that the system's loader
    searches.
    """
    name = "libnvrtc-builtins.so.13.0"
    text = f'#include <dlfcn.h>\nint finds_builtins(void) {{ return dlopen("{name}", RTLD_LAZY) != 0; }}\n'
    for library, source in ((name, "int builtins;\n"), ("libnvrtc.so.13", text)):
        (tmp_path / "library.c").write_text(source)
        command = [
            "cc",
            "-shared",
            "-fPIC",
            f"-Wl,-soname,{library}",
            "-o",
            str(tmp_path / library),
            str(tmp_path / "library.c"),
            "-ldl",
        ]
        subprocess.run(command, check=True)
    path = str(tmp_path / "libnvrtc.so.13")
    code = f"import ctypes; from devmod_targets.cuda import _wheels; _wheels.preload({path!r}); print(ctypes.CDLL({path!r}).finds_builtins())"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "1\n"
    )


def test_name_expressions_have_mangled_names() -> None:
    text = "template <class T> __global__ void scale(T *x, T by) { x[threadIdx.x] *= by; }\n"
    program = compile_sm90(text, name_expressions=["scale<float>", "scale<double>"])
    assert dict(program.lowered) == {
        "scale<float>": "_Z5scaleIfEvPT_S0_",
        "scale<double>": "_Z5scaleIdEvPT_S0_",
    }
    assert refusal(
        devmod.CompileError, compile_sm90, text, name_expressions=["scale<float>", "absent<int>"]
    ) == (
        "name_expressions= ('scale<float>', 'absent<int>') does not compile: identifier \"absent\" is undefined"
    )


#: A part of another header, and one for which NVIDIA's own headers need C++17.
PART, NEWER = "hip/devmod_arithmetic.h", "hip/hip_cooperative_groups.h"


@pytest.mark.once
@pytest.mark.parametrize(
    ("standard", "header"),
    [
        pytest.param(
            standard,
            header,
            marks=[] if standard == "c++17" and header != NEWER else [pytest.mark.volume],
        )
        for standard in ("c++11", "c++17", "c++20")
        for header in sorted(host_headers())
        if header != PART and (standard, header) != ("c++11", NEWER)
    ],
)
def test_every_host_header_compiles_by_itself(header: str, standard: str) -> None:
    assert compile_sm90(f"#include <{header}>\n{SAXPY}", f"-std={standard}").log == ""


def test_the_host_headers_define_what_kernels_use() -> None:
    """They are included together, but for the one whose headers of NVIDIA take 2 s. test_family.py
    compiles that.
    """
    names = "".join(f"#include <{header}>\n" for header in host_headers() if header != NEWER)
    assert compile_sm90(names + CHECKS).log == ""


CHECKS = """
using namespace std;
template <class T> using L = numeric_limits<T>;
static_assert(L<int>::max() == INT_MAX && L<int>::min() == INT_MIN && L<unsigned>::max() == UINT_MAX && L<unsigned>::min() == 0);
static_assert(L<long long>::max() == LLONG_MAX && L<long long>::min() == LLONG_MIN && L<uint64_t>::max() == UINT64_MAX);
static_assert(L<char>::max() == 127 && L<int8_t>::min() == -128 && L<short>::digits == 15 && L<bool>::digits == 1);
static_assert(L<float>::max() == FLT_MAX && L<double>::lowest() == -DBL_MAX && L<double>::infinity() > DBL_MAX);
static_assert(L<double>::quiet_NaN() != L<double>::quiet_NaN() && INFINITY > FLT_MAX && NAN != NAN && M_PI > 3.14);
static_assert(is_same_v<decay_t<const int (&)[3]>, const int *> && is_pointer_v<int *const> && !is_pointer_v<int>);
static_assert(is_unsigned_v<char16_t> && is_signed_v<float> && !is_signed_v<int *> && is_convertible_v<int, float>);
static_assert(INT64_MIN < 0 && UINT8_MAX == 255 && INT_LEAST16_MAX == 32767 && SIZE_MAX == ULLONG_MAX && sizeof(intptr_t) == 8);
struct pair_of { char a; int b; };
extern "C" __global__ void k(float *x, const char *s, int *i) {
  x[0] = std::sin(x[1]) + std::max(1.f, x[2]) + std::pow(x[3], 2.f) + std::abs(x[4]) + sqrtf(x[5]) + std::fma(x[0], x[1], x[2]);
  i[0] = (int)std::strlen(s) + std::strcmp(s, s) + std::memcmp(s, s, 3) + (int)offsetof(pair_of, b) + std::isnan(x[0]);
  std::swap(x[0], x[1]);
  assert(i[0]);
  printf("%d", i[0]);
}
"""


@pytest.mark.volume
@pytest.mark.once
def test_the_standard_headers_of_cuda_std_and_ours_are_compatible() -> None:
    ours = "".join(f"#include <{header}>\n" for header in host_headers())
    theirs = "".join(
        f"#include <cuda/std/{name}>\n"
        for name in ("cstdint", "climits", "cfloat", "cmath", "limits", "type_traits")
    )
    assert compile_sm90(theirs + ours + SAXPY).log == ""
    assert compile_sm90(ours + theirs + SAXPY).cubin


@pytest.mark.row("R38")
def test_no_folder_of_the_host_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nearby.h").write_text("#define NEARBY 1\n")
    monkeypatch.chdir(tmp_path)
    for include in ('"nearby.h"', "<nearby.h>", "<sys/types.h>"):
        with pytest.raises(devmod.CompileError, match="open source file"):
            compile_sm90(f"#include {include}\n{SAXPY}")


def test_headers_in_memory_come_first() -> None:
    program = compile_sm90(
        '#include "tile.h"\n#include <stdint.h>\n' + SAXPY,
        headers={"tile.h": "#define TILE 4\n", "stdint.h": ""},
    )
    assert program.cubin
    assert refusal(
        devmod.CompileError,
        compile_sm90,
        '#include "tile.h"\n' + SAXPY,
        headers={"tile.h": "\nint x = missing;\n"},
    ).startswith("the CUDA C++ source does not compile: tile.h:2: error: ")


def test_threads_compile_at_once() -> None:
    results: dict[int, bytes] = {}

    def work(index: int) -> None:
        results[index] = compile_sm90(SAXPY.replace("a * x", f"{index} * x")).cubin

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[index] for index in range(4)] == [
        compile_sm90(SAXPY.replace("a * x", f"{index} * x")).cubin for index in range(4)
    ]


def test_a_missing_nvrtc_names_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(_wheels, "library", lambda major: "")
    text = refusal(devmod.ToolchainNotFoundError, nvrtc.version)
    import cuda.bindings

    assert text == (
        f"CUDA C++ cannot be compiled here: NVRTC (the wheel nvidia-cuda-nvrtc, for cuda-bindings {cuda.bindings.__version__}) "
        'is not installed. To add it: pip install "devmod-core[build-cuda]"'
    )
    with pytest.raises(
        devmod.ToolchainNotFoundError, match=r'To add it: pip install "devmod-cuda\[jit\]"$'
    ):
        nvrtc.version(distribution="devmod-cuda[jit]")


def test_a_mac_is_told_that_nvidia_has_no_wheels_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(_wheels, "library", lambda major: "")
    monkeypatch.setattr(sys, "platform", "darwin")
    text = refusal(devmod.ToolchainNotFoundError, nvrtc.version)
    assert text.startswith("CUDA C++ cannot be compiled here: NVRTC (the wheel nvidia-cuda-nvrtc")
    assert text.endswith(
        " is not installed. NVIDIA has wheels for Linux and Windows, none for macOS: compile on one of these"
    )


def test_a_missing_cuda_bindings_names_its_install() -> None:
    program = (
        "import sys; sys.modules['cuda'] = None\n"
        "import devmod\nfrom devmod_targets.cuda import nvrtc\n"
        "try: nvrtc.version()\nexcept devmod.ToolchainNotFoundError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == (
        "CUDA C++ cannot be compiled here: cuda-bindings, through which NVRTC is called, is not installed. "
        'To add it: pip install "devmod-core[build-cuda]"\n'
    )


def test_the_toolchain_names_the_wheels() -> None:
    from importlib.metadata import version

    expected = [f"{part} {version(name)}" for part, name in _wheels.HEADERS.items()]
    assert nvrtc.toolchain() == ", ".join([f"nvrtc {version('nvidia-cuda-nvrtc')}", *expected])


def test_the_architectures() -> None:
    names = nvrtc.arch_names()
    assert {"sm_80", "sm_90", "sm_90a", "compute_90", "compute_90a"} <= set(names)
    assert "sm_80a" not in names


def test_an_old_nvrtc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    number = ".".join(map(str, nvrtc.version()))
    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(nvrtc, "_OLDEST", (99, 0))
    assert refusal(devmod.ToolchainNotFoundError, nvrtc.version) == (
        f"CUDA C++ cannot be compiled here: this process has loaded NVRTC {number}, and devmod needs 99.0 or newer. "
        'To upgrade it: pip install "devmod-core[build-cuda]" --upgrade'
    )


def test_an_nvrtc_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    damaged = tmp_path / "libnvrtc.so.13"
    damaged.write_bytes(b"damaged")
    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(_wheels, "library", lambda major: str(damaged))
    text = refusal(devmod.ToolchainNotFoundError, nvrtc.version)
    assert text.startswith("CUDA C++ cannot be compiled here: NVRTC cannot be loaded (")
    assert text.endswith('). To repair it: pip install "devmod-core[build-cuda]" --force-reinstall')


def test_a_text_with_a_zero_character() -> None:
    assert (
        refusal(devmod.CompileError, compile_sm90, SAXPY + "\0")
        == "k.cu:2: the source has a zero character"
    )


@pytest.mark.row("R38")
def test_symbols_of_anonymous_namespaces_have_no_random_part() -> None:
    """Without a seed, NVRTC writes the number of the process into them."""
    text = "namespace { template <class T> __global__ void hidden(T *x) { x[0] = 1; } }\n"
    program = (
        "from devmod_targets.cuda.nvrtc import compile_program\n"
        f"print(compile_program({text!r}, 'k.cu', ['-arch=sm_90'], name_expressions=['hidden<int>']).lowered['hidden<int>'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (
        result.stdout.strip()
        == compile_sm90(text, name_expressions=["hidden<int>"]).lowered["hidden<int>"]
    )


@pytest.mark.parametrize(
    ("header", "distribution"),
    [
        ("cuda_fp16.h", "nvidia-cuda-runtime"),
        ("cuda/std/atomic", "nvidia-cuda-cccl"),
        ("crt/mma.h", "nvidia-cuda-crt"),
    ],
)
def test_a_missing_wheel_with_headers_names_its_install(
    header: str, distribution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(_wheels, "include_folders", lambda major: ())
    monkeypatch.setattr(_wheels, "version", lambda name: "")
    assert refusal(devmod.CompileError, compile_sm90, f"#include <{header}>\n{SAXPY}") == (
        f'the CUDA C++ source does not compile: k.cu:1: error: could not open source file "{header}" (no directories in search list). '
        f'It is in the wheel {distribution}, which is not installed. To add it: pip install "devmod-core[build-cuda]"'
    )
