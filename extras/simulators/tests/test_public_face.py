"""What tests of the wheels use: the names, importing them, and the errors of a stand-in that cannot
be built or was misused.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
import subprocess
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from each_case import refusal

from devmod_simulators import (
    BuildError,
    DriverLibrary,
    StandinLibrary,
    UnavailableError,
    ViolationError,
    libcuda,
)
from devmod_simulators.drivers.generated import driver_files, runtime_files
from devmod_standins import libamdhip64, metal

ROOT = Path(__file__).resolve().parents[3]
SOURCES, STANDINS = (
    ROOT / "extras" / "simulators" / "src",
    ROOT / "extras" / "simulators" / "standins",
)
PACKAGES = {"devmod_simulators", "devmod_standins"}
MODULES = (
    *sorted(PACKAGES),
    "devmod_standins.metal",
    "devmod_simulators.ptx",
    "devmod_standins.rdna3",
)


def test_an_import_loads_no_driver_and_needs_nothing_but_python() -> None:
    program = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\nbefore = set(sys.modules)\nimport devmod_simulators\nprint(*set(sys.modules) - before)"
    imported = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) == {
        "devmod_simulators"
    }
    maps = f"import sys; sys.path.insert(0, {str(STANDINS)!r})\nimport {', '.join(MODULES)}\nprint(open('/proc/self/maps').read())"
    if Path("/proc/self/maps").exists():
        loaded = subprocess.run(
            [sys.executable, "-I", "-c", maps], capture_output=True, text=True, check=True
        ).stdout
        assert "libcuda" not in loaded
        assert "libamdhip64" not in loaded


def test_nothing_outside_the_folder_uses_another_name() -> None:
    """A wheel uses the names of the wheel alone."""
    public = {
        f"{module}.{name}" for module in MODULES for name in import_module(module).__all__
    } | set(MODULES)
    used = set()
    for path in ROOT.glob("**/*.py"):
        parts = path.relative_to(ROOT).parts
        if (
            parts[:2] == ("extras", "simulators")
            or parts[0] == "build"
            or path.name == "test_two_places.py"  # it compares lists of the folder with others
            or {".venv", "node_modules"} & {*parts}
            or not re.search("devmod_(simulators|standins)", path.read_text())
        ):
            continue
        assert "src" not in parts or "devmod_standins" not in path.read_text(), (
            f"{path} belongs to a wheel"
        )
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in PACKAGES:
                used |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                used |= {
                    alias.name for alias in node.names if alias.name.partition(".")[0] in PACKAGES
                }
    assert used
    assert used <= public


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    library = StandinLibrary("libmade-up.so", (tmp_path,), "worker", ())
    for function in (library.build, library.environment):
        assert refusal(UnavailableError, function) == (
            "no C compiler is installed (cc), which builds the stand-in for libmade-up.so; Debian and Ubuntu: apt-get install gcc libc6-dev"
        )


@pytest.mark.volume_but
def test_without_a_header_that_a_build_reads(tmp_path: Path) -> None:
    library = StandinLibrary(
        "libmade-up.so", (tmp_path,), "worker", (), lambda: [tmp_path], generate=driver_files
    )
    assert refusal(UnavailableError, library.build) == (
        f"{tmp_path}/cudaTypedefs.h cannot be read, which a stand-in needs: No such file or directory; install its package again: pip install --force-reinstall"
    )


@pytest.mark.volume_but
def test_a_function_of_the_driver_that_its_header_lacks(tmp_path: Path) -> None:
    names = ("driver_types", "cuda_egl_interop", "cuda_gl_interop", "cuda_vdpau_interop", "cuda")
    for name in names:
        (tmp_path / f"{name}.h").touch()
    prototype = "extern cudaError_t cudaThreadSynchronize(void);\n"
    (tmp_path / "cuda_runtime_api.h").write_text(prototype)
    library = StandinLibrary(
        "libmade-up.so", (tmp_path,), "", (), lambda: [tmp_path], generate=runtime_files
    )
    assert refusal(BuildError, library.build) == (
        "libcudart/forwards.txt has cuCtxSynchronize for cudaThreadSynchronize, and cuda.h has no such function: correct the name, or build with the headers of a newer CUDA"
    )


def test_files_that_do_not_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    (tmp_path / "wrong.c").write_text("int wrong(void) { return missing; }\n")
    with pytest.raises(
        BuildError, match=r"^the stand-in for libmade-up\.so does not compile:\n(.*\n)+.*missing"
    ):
        StandinLibrary("libmade-up.so", (tmp_path,), "worker", ()).build()
    assert "building libmade-up.so, once" in screen.getvalue()


#: A compiler that waits until another process has started it too.
COMPILER = """#!/bin/sh
touch {folder}/started.$$
for turn in $(seq 200); do
    [ "$(ls {folder}/started.* | wc -l)" -ge 2 ] && break
    sleep 0.1
done
exec cc "$@"
"""
BUILD = """
import sys
from pathlib import Path
from devmod_simulators import StandinLibrary
from devmod_simulators.drivers import build
folder = Path(sys.argv[1])
build.CACHE = folder / "cache"
print(StandinLibrary("libmade-up.so", (folder / "sources",), "worker", ()).build())
"""


@pytest.mark.volume_but
def test_two_processes_build_a_library_at_once(tmp_path: Path) -> None:
    """Both compile; the library has its name when it is complete, and one process gives it."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "made_up.c").write_text(
        "int seven(void);\nint seven(void) { return 7; }\n"
    )
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(folder=tmp_path))
    compiler.chmod(0o755)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path)],
            env=os.environ | {"CC": str(compiler)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [each.communicate() for each in processes]
    assert len(list(tmp_path.glob("started.*"))) == 2
    assert outputs[0] == outputs[1]
    path, errors = outputs[0]
    assert errors == ""
    assert ctypes.CDLL(path.rstrip()).seven() == 7
    folder = Path(path).parent
    assert [each.name for each in folder.iterdir()] == ["libmade-up.so"]
    assert {each.name for each in folder.parent.iterdir()} == {folder.name, "included"}


@pytest.mark.parametrize("library", [libcuda, libamdhip64], ids=lambda library: library.soname)
def test_a_violation_is_an_error_at_the_end(library: DriverLibrary) -> None:
    try:
        driver = library.load()
    except UnavailableError as error:
        pytest.skip(str(error))

    def use() -> None:
        with driver.shown():
            if library is libcuda:
                context = ctypes.c_void_p()
                assert driver.api.cuInit(0) == 0
                assert driver.api.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
                assert driver.api.cuCtxSetCurrent(context) == 0
                driver.api.cuMemFree_v2(ctypes.c_void_p(5))
                assert driver.api.cuCtxSetCurrent(None) == 0
                assert driver.api.cuDevicePrimaryCtxRelease_v2(0) == 0
            else:
                driver.api.hipFree(ctypes.c_void_p(5))

    with pytest.raises(
        ViolationError, match=r"^0x5 is freed and is not the start of a device allocation$"
    ):
        use()
    with driver.shown():
        assert driver.violations == []


@pytest.mark.skipif(bool(metal.missing()), reason=metal.missing())
def test_a_kernel_of_metal_samples_a_texture() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
kernel void shift(texture2d<float> t [[texture(0)]], texture2d<float, access::write> u [[texture(1)]], sampler s [[sampler(0)]],
                  uint2 i [[thread_position_in_grid]])
{
    constexpr sampler own(coord::pixel, filter::linear, address::clamp_to_edge);
    u.write(i.y ? t.sample(own, float2(i.x + 1, 0)) : t.sample(s, float2((i.x + 1.5f) / 3, 0)), i);
}
"""
    source, target = bytearray(b"\x00\x33\xff"), bytearray(6)
    textures = {
        ("texture", 0): metal.Texture("r8unorm", (3, 1, 1), 0, source),
        ("texture", 1): metal.Texture("r8unorm", (3, 2, 1), 0, target),
    }
    sampler = {("sampler", 0): metal.Sampler("nearest", "repeat", True)}
    metal.compile_kernel(text, "shift")(textures | sampler, (3, 2, 1), (1, 1, 1))
    assert list(target) == [0x33, 0xFF, 0, 26, 0x99, 0xFF]


@pytest.mark.skipif(bool(metal.missing()), reason=metal.missing())
def test_kernels_of_metal_share_a_source_and_their_threads_share_memory() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
static float sum(float value, threadgroup float *scratch, uint i, uint threads)
{
    scratch[i] = value;
    for (uint stride = threads / 2; stride > 0; stride /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (i < stride)
            scratch[i] += scratch[i + stride];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return scratch[0];
}
kernel void halves(device const half *x [[buffer(0)]], device float *y [[buffer(1)]], uint i [[thread_position_in_threadgroup]],
                   uint group [[threadgroup_position_in_grid]], uint threads [[threads_per_threadgroup]])
{
    threadgroup float scratch[4];
    y[group * threads + i] = sum((float)x[group * threads + i], scratch, i, threads);
}
kernel void negative(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = -x[i]; }
"""
    numbers = np.array([1, -2, 0.5, 65504, 2**-24, 0, 2**-15, -(2**-24)], "float16")
    x, y = bytearray(numbers.tobytes()), bytearray(32)
    metal.compile_kernel(text, "halves")({("buffer", 0): x, ("buffer", 1): y}, (2, 1, 1), (4, 1, 1))
    metal.compile_kernel(text, "negative")({("buffer", 0): y}, (8, 1, 1), (1, 1, 1))
    assert np.frombuffer(y, "float32").tolist() == [-65503.5] * 4 + [-(2**-15)] * 4


@pytest.mark.skipif(bool(metal.missing()), reason=metal.missing())
def test_threads_of_metal_that_shuffle_wait_for_their_simd_group_alone() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
static half most(half value)
{
    for (ushort delta = 16; delta > 0; delta /= 2)
        value = max(value, simd_shuffle_down(value, delta));
    return simd_shuffle(value, 0);
}
kernel void sums(device half *x [[buffer(0)]], device long *n [[buffer(1)]], uint i [[thread_position_in_threadgroup]])
{
    threadgroup half result[1];
    if (i < 32) {
        const half value = most(x[i]);
        if (i == 0)
            result[0] = value;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[i] = select(x[i], half(result[0] + 0.5h), i >= 32);
    n[i] = min(max(n[i], (long)i), (long)40);
}
"""
    x, n = np.arange(64, dtype="float16") % 32, np.full(64, 1 << 40)
    n[:48] = -1
    data, numbers = bytearray(x.tobytes()), bytearray(n.tobytes())
    metal.compile_kernel(text, "sums")(
        {("buffer", 0): data, ("buffer", 1): numbers}, (1, 1, 1), (64, 1, 1)
    )
    assert np.frombuffer(data, "float16").tolist() == [*range(32), *[31.5] * 32]
    assert np.frombuffer(numbers, "int64").tolist() == [*range(40), *[40] * 24]
