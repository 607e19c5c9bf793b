"""CUDA C++ that is compiled at the receiver (R30), its cache, and compilers that replace NVRTC
(R31).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads, run_python
from cuda_kernels import add_info, info_of
from each_case import raised, refusal
from ptx_sources import ptx_of
from standin_cuda import child_environment, on_hardware

import devmod
from devmod import FunctionInfo, Param

SOURCE = """
#ifndef SCALE
#define SCALE 1
#endif
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = SCALE * (a[i] + b[i]);
}
"""


def adder(source: str = SOURCE) -> devmod.Module:
    return devmod.create("cuda", source.encode(), "cuda", {"add": add_info()})


def run_add(function: Any, n: int = 64, scale: float = 1) -> None:
    a, b, c = np.arange(n, dtype="float32"), np.ones(n, "float32"), np.zeros(n, "float32")
    function(a, b, c, n, grid=1, block=n)
    np.testing.assert_array_equal(c, scale * (a + b))


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cuda"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the options of each compilation, a list that grows."""
    from devmod_targets.cuda import nvrtc

    options_of_builds: list[list[str]] = []
    real = nvrtc.compile_program

    def compile_program(text: str, name: str, options: Any, **more: Any) -> Any:
        options_of_builds.append(list(options))
        return real(text, name, options, **more)

    monkeypatch.setattr(nvrtc, "compile_program", compile_program)
    return options_of_builds


def arch_of(device: Any) -> str:
    """Return the architecture that a source is compiled for: the stand-in driver executes PTX."""
    plain: str = device.arch.partition(":")[0]
    return plain if on_hardware() else plain.replace("sm_", "compute_")


# -- compiling


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    "spelling",
    [
        '#include "{path}"',
        "#include <{path}>",
        '#include "../../../../../../../../../../../../..{path}"',
        '#define NAME "{path}"\n#include NAME',
        "%:include <{path}>",
        '#include_next "{path}"',
        '#if !__has_include("{path}")\n#error missing\n#endif',
    ],
)
def test_no_source_reads_a_file_of_the_receiver(spelling: str, device: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.h"
    path.write_text("#define SCALE 3\n")
    with pytest.raises(
        devmod.CompileError,
        match=r"a source payload is complete, and does not include a file of its receiver|missing",
    ):
        adder(spelling.format(path=path) + SOURCE)["add"]
    run_add(
        adder(f"#if 0\n{spelling.format(path=path)}\n#endif\n#include <cuda_fp16.h>\n" + SOURCE)[
            "add"
        ]
    )


@pytest.mark.row("R30", "R32", "R37")
def test_the_first_function_compiles_once_for_all(device: Any, builds: list[list[str]]) -> None:
    source = SOURCE + 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    fmap = {"add": add_info(), "twice": info_of("twice", [Param("x", "buffer", "float32", "rw")])}
    module = devmod.create("cuda", source.encode(), "cuda", fmap)
    data = module.save_to_bytes()
    functions = run_in_threads(module.get_function, ["add"] * 8)
    run_add(functions[0])
    x = np.ones(4, "float32")
    module["twice"](x, grid=1, block=4)
    assert x.tolist() == [2] * 4
    assert builds == [[f"-arch={arch_of(device)}"]]
    assert module.save_to_bytes() == data
    assert module.inspect_source() == source


@pytest.mark.row("R30", "R39")
def test_the_result_is_cached_on_the_disk(
    device: Any, builds: list[list[str]], cache: Path
) -> None:
    run_add(adder()["add"])
    (entry,) = cache.iterdir()
    valid = entry.read_bytes()
    run_add(adder()["add"])
    assert len(builds) == 1
    for damaged in (b"", valid[:40], valid[:-1], valid[:100] + b"\xff" + valid[101:]):
        entry.write_bytes(damaged)
        run_add(adder()["add"])
    assert len(builds) == 5
    run_add(adder("//devmod: -DSCALE=3\n" + SOURCE)["add"], scale=3)
    assert builds[-1] == ["-DSCALE=3", f"-arch={arch_of(device)}"]
    assert len(list(cache.iterdir())) == 2


def test_a_cached_source_loads_no_compiler(cuda_driver: str, standin: Any) -> None:
    module = adder()
    run_add(module["add"])
    program = (
        "import sys, devmod, numpy as np\n"
        f"m = devmod.load_from_bytes('cuda', bytes.fromhex({module.save_to_bytes().hex()!r}))\n"
        "a, c = np.ones(4, 'float32'), np.zeros(4, 'float32')\n"
        "m['add'](a, a, c, 4, grid=1, block=4)\n"
        "print(c.tolist(), 'devmod_targets.cuda.nvrtc' in sys.modules, 'cuda.bindings.nvrtc' in sys.modules)\n"
    )
    environment = child_environment() | {"DEVMOD_CUDA_DRIVER": cuda_driver}
    assert run_python(program, **environment) == "[2.0, 2.0, 2.0, 2.0] False False\n"


@pytest.mark.row("R30")
def test_a_source_compiles_at_create_and_load_when_a_device_is_open(
    device: Any, builds: list[list[str]]
) -> None:
    module = adder()
    assert builds == [[f"-arch={arch_of(device)}"]]
    run_add(module["add"])
    loaded = devmod.load_from_bytes("cuda", adder("// another\n" + SOURCE).save_to_bytes())
    assert len(builds) == 2
    run_add(loaded["add"])
    assert len(builds) == 2


@pytest.mark.row("R30")
def test_a_source_compiles_for_the_current_target_without_a_device(
    builds: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "devmod_cuda._device", None)
    adder()
    assert builds == []  # no device is open, and there is no target
    with devmod.Target("cuda", arch="sm_80"):
        data = adder().save_to_bytes()
        assert builds == [["-arch=sm_80"]]
        devmod.load_from_bytes("cuda", data)
    with devmod.Target("opencl"):
        adder()
    with devmod.Target("cuda", arch="sm_80,sm_90"):
        adder()  # several: the device decides
    assert builds == [["-arch=sm_80"]]  # the second one is cached


def test_the_best_architecture_of_the_target_is_used(device: Any, builds: list[list[str]]) -> None:
    with devmod.Target("cuda", arch="compute_75,compute_80,sm_120"):
        module = adder()
    run_add(module["add"])
    assert builds == [["-arch=compute_80"]]


@pytest.mark.row("R30")
def test_the_target_of_create_is_used_after_its_end(
    device: Any, builds: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an open device, several architectures are not compiled for when the module is
    made.
    """
    with monkeypatch.context() as patch, devmod.Target("cuda", arch="compute_75,compute_80,sm_120"):
        patch.setitem(sys.modules, "devmod_cuda._device", None)
        module = adder()
    assert builds == []
    run_add(module["add"])
    assert builds == [["-arch=compute_80"]]


def test_a_device_that_nvrtc_does_not_support(
    builds: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_cuda._jit import compile_source
    from devmod_targets.cuda import nvrtc

    names = nvrtc.arch_names()
    monkeypatch.delenv("CUDA_FORCE_PTX_JIT", raising=False)
    monkeypatch.setattr(
        nvrtc, "arch_names", lambda **_: [each for each in names if "12" not in each]
    )
    fmt, binary = compile_source(SOURCE, (), "sm_125")
    assert (fmt, builds[-1]) == ("ptx", ["-arch=compute_110"])
    assert b".target sm_110" in binary
    text = refusal(devmod.CompileError, compile_source, SOURCE, (), "sm_52")
    assert text.startswith(
        "the cuda source cannot be compiled for sm_52: this NVRTC supports sm_75, "
    )
    assert text.endswith('. To use another one: pip install "devmod-cuda[jit]" --upgrade')


@pytest.mark.row("R30", "R32")
def test_errors_of_the_source_are_raised_by_the_first_function(device: Any) -> None:
    module = adder('extern "C" __global__ void add(float *a)\n{\n  a[0] = nonsense;\n}')
    for _ in range(2):
        error = raised(devmod.CompileError, module.get_function, "add")
        assert (
            str(error)
            == 'the CUDA C++ source does not compile: kernel.cu:3: error: identifier "nonsense" is undefined'
        )
        assert 'error: identifier "nonsense" is undefined' in error.log
    assert module.format == "cuda"


def test_a_receiver_without_nvrtc(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_targets.cuda import _wheels, nvrtc

    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(_wheels, "library", lambda major: "")
    module = adder()
    assert devmod.loads(devmod.dumps(module)).functions == module.functions
    text = refusal(devmod.ToolchainNotFoundError, module.get_function, "add")
    assert text.startswith(
        "CUDA C++ cannot be compiled here: NVRTC (the wheel nvidia-cuda-nvrtc, for cuda-bindings "
    )
    assert text.endswith(') is not installed. To add it: pip install "devmod-cuda[jit]"')


class NoBuildSide:
    """A finder for an environment without devmod-targets."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "devmod_targets":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_receiver_without_the_build_side(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "devmod_targets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoBuildSide(), *sys.meta_path])
    module = adder()
    assert devmod.loads(devmod.dumps(module)).functions == module.functions
    assert refusal(devmod.ToolchainNotFoundError, module.get_function, "add") == (
        'CUDA C++ cannot be compiled here: devmod-targets is not installed. To add it: pip install "devmod-cuda[jit]"'
    )
    assert (
        refusal(devmod.FormatError, adder("//devmod: --time=report\n" + SOURCE).get_function, "add")
        == "the cuda source has the build option '--time=report', which devmod-cuda does not pass to NVRTC"
    )


def test_a_kernel_that_the_source_does_not_define(device: Any) -> None:
    module = devmod.create(
        "cuda", SOURCE.encode(), "cuda", {"sub": FunctionInfo("sub", ["handle"])}
    )
    text = refusal(devmod.FormatError, module.get_function, "sub")
    fmt = "cubin" if on_hardware() else "ptx"
    assert (
        text
        == f"the cuda payload of format {fmt!r} has no kernel 'sub', which its fmap names; it has: 'add'"
    )


# -- constants


def test_specialize_sets_defines(device: Any, builds: list[list[str]]) -> None:
    f = adder()["add"]
    for scale in (2, 3, 2):
        run_add(f.specialize(SCALE=scale), scale=scale)
    assert len(builds) == 3
    run_add(f.specialize(SCALE="(1 + 3)"), scale=4)
    run_add(f.specialize(SCALE=0.5), scale=0.5)
    run_add(f)
    other = devmod.create(
        "cuda", f"#ifdef OTHER\n#endif\n{SOURCE}".encode(), "cuda", {"add": f.info}
    )["add"]
    run_add(other.specialize(SCALE=3).specialize(OTHER=1), scale=3)


def test_specialize_may_change_the_block_that_the_kernel_requires(device: Any) -> None:
    source = """
    #ifndef SIZE
    #define SIZE 32
    #endif
    extern "C" __global__ void __block_size__((SIZE, 1, 1)) k(int *x) { x[blockIdx.x * SIZE + threadIdx.x] = SIZE; }
    """
    interface = devmod.Interface([Param("x", "buffer", "int32", "w")], block=(32, 1, 1))
    info = FunctionInfo("k", ["handle"], ["blockIdx.x", "threadIdx.x"], (), interface)
    f = devmod.create("cuda", source.encode(), "cuda", {"k": info})["k"]
    for size, function in ((32, f), (64, f.specialize(SIZE=64))):
        assert function.block == (size, 1, 1)
        x = np.zeros(128, "int32")
        function(x, grid=128 // size)
        assert x.tolist() == [size] * 128


# -- replaced compilers


@pytest.mark.row("R31")
@pytest.mark.parametrize("form", ["bytes", "pair"])
def test_a_program_replaces_the_compiler(form: str, device: Any, builds: list[list[str]]) -> None:
    inputs = []

    def compiler(code: bytes) -> Any:
        inputs.append(code)
        ptx = ptx_of(SOURCE.replace("SCALE 1", "SCALE 7")).encode()
        return ptx if form == "bytes" else ("ptx", ptx)

    devmod.set_compiler("cuda", compiler)
    try:
        module = adder()
        for _ in range(2):
            run_add(module["add"], scale=7)
        assert inputs == [SOURCE.encode()]
        assert builds == []
        assert module.inspect_source() == SOURCE
        assert devmod.load_from_bytes("cuda", module.save_to_bytes()).format == "cuda"
    finally:
        devmod.set_compiler("cuda", None)


@pytest.mark.row("R31")
def test_a_replaced_compiler_may_return_another_source(
    device: Any, builds: list[list[str]]
) -> None:
    devmod.set_compiler("cuda", lambda code: ("cuda", code.replace(b"SCALE 1", b"SCALE 5")))
    try:
        run_add(adder()["add"], scale=5)
    finally:
        devmod.set_compiler("cuda", None)
    assert len(builds) == 1


@pytest.mark.row("R31", "R32")
def test_the_exception_of_a_replaced_compiler_is_raised_by_the_first_function(device: Any) -> None:
    def fail(code: bytes) -> bytes:
        raise ZeroDivisionError

    devmod.set_compiler("cuda", fail)
    try:
        module = adder()
        with pytest.raises(ZeroDivisionError):
            module["add"]
    finally:
        devmod.set_compiler("cuda", None)
    run_add(module["add"])
