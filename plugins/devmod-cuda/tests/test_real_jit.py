"""The PTX that devmod writes and reads, with the compiler of NVIDIA's driver:
libnvidia-ptxjitcompiler of CUDA 12.2 and 12.4, without a GPU.

The library exports the functions of the PTX Compiler API (nvPTXCompilerCreate and so on), which the
CUDA toolkit documents as a static library. cuModuleLoadDataEx calls the same compiler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from backend_checks import code_of
from cuda_kernels import adder
from real_drivers import DRIVERS, WITHOUT_A_CARD, present, version_of
from vendor_runtime import VendorRuntime

import devmod
from devmod_cuda._calls import ptx_version
from devmod_readers.nvidia import KernelEntry, read_cubin, read_ptx

pytestmark = WITHOUT_A_CARD
FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parents[2] / "examples" / "cuda"
LLVM_IR = """
define ptx_kernel void @scale(ptr %out, float %by, <2 x float> %bias, i64 %n) {
  %value = extractelement <2 x float> %bias, i32 1
  %sum = fadd float %value, %by
  store float %sum, ptr %out
  ret void
}
"""

COMPILE = """
import ctypes, json, sys
from ctypes import byref, c_char_p, c_size_t, c_void_p
jit = ctypes.CDLL("libnvidia-ptxjitcompiler.so.1")
def check(status):
    assert not status, status
def read(compiler, size, read):
    count = c_size_t()
    check(jit[size](compiler, byref(count)))
    place = ctypes.create_string_buffer(count.value + 1)
    check(jit[read](compiler, place))
    return place.raw[:count.value]
def build(arch, text):
    compiler, code = c_void_p(), text.encode()
    check(jit.nvPTXCompilerCreate(byref(compiler), c_size_t(len(code)), code))
    option = f"--gpu-name={arch}".encode()
    status = jit.nvPTXCompilerCompile(compiler, 1, (c_char_p * 1)(option))
    if status:
        result = read(compiler, "nvPTXCompilerGetErrorLogSize", "nvPTXCompilerGetErrorLog").decode()
    else:
        result = read(compiler, "nvPTXCompilerGetCompiledProgramSize", "nvPTXCompilerGetCompiledProgram").hex()
    check(jit.nvPTXCompilerDestroy(byref(compiler)))
    return [status, result]
print(json.dumps([build(*each) for each in json.load(open(sys.argv[1]))]))
"""


class Compiler:
    """The PTX compiler of one driver."""

    def __init__(self, runtime: VendorRuntime, folder: Path) -> None:
        self.runtime, self.folder = runtime, folder
        self.version = version_of(runtime)
        self.ptx = ptx_version(self.version)

    def build(self, *programs: tuple[str, str]) -> list[Any]:
        """Return a cubin, or the log of errors, for each architecture and text."""
        path = self.folder / "programs.json"
        path.write_text(json.dumps(programs))
        answers = json.loads(self.runtime.run(COMPILE, str(path)))
        return [log.rstrip("\0") if status else bytes.fromhex(log) for status, log in answers]


@pytest.fixture(params=DRIVERS, ids=lambda runtime: runtime.name)
def compiler(request: pytest.FixtureRequest, tmp_path: Path) -> Compiler:
    """The PTX compiler of each supported version of the driver."""
    return Compiler(present(request.param), tmp_path)


def places(entries: Mapping[str, KernelEntry]) -> dict[str, list[tuple[int, int]]]:
    """Return the offset and the size of each parameter of each kernel."""
    return {
        name: [(place.offset, place.size) for place in entry.params]
        for name, entry in entries.items()
    }


def empty(version: str) -> str:
    """Return PTX of a version, with a kernel that does nothing."""
    return f".version {version}\n.target sm_80\n.address_size 64\n.visible .entry k() {{ ret; }}\n"


@pytest.mark.row("R40")
def test_the_newest_ptx_of_a_driver(compiler: Compiler) -> None:
    """`device.arch` has that version, and devmod refuses newer PTX before the driver sees it."""
    major, minor = compiler.ptx.split(".")
    newer = f"{major}.{int(minor) + 1}"
    taken, refused = compiler.build(("sm_80", empty(compiler.ptx)), ("sm_80", empty(newer)))
    assert taken[:4] == b"\x7fELF"
    assert refused == (
        f"ptxas application ptx input, line 1; fatal   : Unsupported .version {newer}; current version is '{compiler.ptx}'\n"
    )


def test_ptx_of_llvm_ir_is_taken(compiler: Compiler) -> None:
    spec = devmod.plugins.find_spec("cuda")
    assert spec is not None
    assert spec.architecture is not None
    texts = {
        f"sm_{arch}": code_of(
            devmod.compile(
                LLVM_IR,
                f"cuda -arch=compute_{arch}",
                language="LLVM IR",
                options="--cuda-feature=+ptx80",
            )
        ).decode()
        for arch in ("75", "80", "90")
    }
    for (arch, text), cubin in zip(texts.items(), compiler.build(*texts.items()), strict=True):
        assert (
            places(read_cubin(cubin))
            == places(read_ptx(text))
            == {"scale": [(0, 8), (8, 4), (16, 8), (24, 8)]}
        )
        assert spec.architecture("cubin", cubin) == arch


@pytest.mark.row("R40")
def test_ptx_that_is_too_new_for_a_driver(compiler: Compiler) -> None:
    """NVRTC writes the newest PTX, whatever the architecture."""
    text = code_of(adder()).decode()
    version = re.search(r"\.version (\S+)", text)
    assert version is not None
    assert compiler.build(("sm_90", text)) == [
        f"ptxas application ptx input, line {text[: version.start()].count(chr(10)) + 1}; fatal   : Unsupported .version {version[1]}; "
        f"current version is '{compiler.ptx}'\n"
    ]


@cache
def example_texts() -> dict[str, str]:
    """Return the PTX of the examples and of clang, by their names."""
    texts = {
        path.name: code_of(devmod.compile(path, "cuda -arch=compute_80")).decode()
        for path in sorted(EXAMPLES.glob("*.cu"))
    }
    return texts | {
        name: (FOLDER / "vectors" / name).read_text() for name in ("clang-O0.ptx", "clang-O2.ptx")
    }


def test_the_readers_of_ptx_and_of_cubins_agree_with_the_compiler(compiler: Compiler) -> None:
    """The same text with the driver's version in its first line: the examples, and what clang
    writes.
    """
    texts = {
        name: re.sub(r"\.version \S+", f".version {compiler.ptx}", text, count=1)
        for name, text in example_texts().items()
    }
    for (name, text), cubin in zip(
        texts.items(), compiler.build(*(("sm_80", text) for text in texts.values())), strict=True
    ):
        assert isinstance(cubin, bytes), (name, cubin)
        ptx, built = read_ptx(text), read_cubin(cubin)
        assert ptx, name
        assert places(built) == places(ptx), name
        assert {entry: each.block for entry, each in built.items()} == {
            entry: each.block for entry, each in ptx.items()
        }, name
