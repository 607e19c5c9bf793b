"""The CUDA module: before a driver is opened, binaries, refused payloads, globals, loading and
unloading.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_kernels import ADD, add_info, adder
from each_case import raised, refusal
from ptx_sources import ptx_of

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import find_spec

GLOBALS = """
__device__ unsigned char bytes[4] = {1, 2, 3, 4};
__constant__ float factors[2] = {2, 3};
extern "C" __global__ void k(float *x) { x[threadIdx.x] *= factors[threadIdx.x & 1] + bytes[threadIdx.x & 3]; }
"""


def run_add(function: Any, n: int = 64) -> None:
    a, b, c = np.arange(n, dtype="float32"), np.ones(n, "float32"), np.zeros(n, "float32")
    function(a, b, c, n, grid=1, block=n)
    np.testing.assert_array_equal(c, a + b)


def compile_program(source: str, arch: str) -> Any:
    from devmod_targets.cuda.nvrtc import compile_program as compile_source

    return compile_source(source, "kernel.cu", [f"-arch={arch}"])


def error_of(module: devmod.Module, name: str = "add") -> devmod.DevmodError:
    return raised(devmod.DevmodError, lambda: module[name])


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each import of the driver fail."""
    monkeypatch.setitem(sys.modules, "devmod_cuda._device", None)
    monkeypatch.delitem(sys.modules, "devmod_cuda._launch", raising=False)


# -- before any driver


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("fmt", "code", "text"),
    [
        ("cuda", b"", "the cuda payload of format 'cuda' is empty"),
        ("ptx", b"\0\0", "the cuda payload of format 'ptx' is empty"),
        ("cubin", b"", "the cuda payload of format 'cubin' is empty"),
        (
            "ptx",
            b".version \xff",
            "the cuda payload of format 'ptx' is not UTF-8 text: byte 9 is 0xff",
        ),
        (
            "cuda",
            b"int \0 x;",
            "the cuda payload of format 'cuda' has a zero byte at 4, which ends a source",
        ),
        (
            "cubin",
            b"nonsense!",
            "the cuda payload of format 'cubin' is not an ELF file: expected b'\\x7fELF' at its start, got b'nonsense'",
        ),
        (
            "fatbin",
            b"nonsense!",
            "the cuda payload of format 'fatbin' is not a CUDA fatbin: expected b'P\\xedU\\xba' at its start, got b'nonsense'",
        ),
        (
            "cuda",
            b"//devmod: -I/etc\n",
            "the source's first line has the option '-I/etc', which names a path",
        ),
        (
            "cuda",
            b"//devmod: --fdevice-time-trace=trace\n",
            "the cuda source has the build option '--fdevice-time-trace=trace', which devmod-cuda does not pass to NVRTC",
        ),
    ],
)
def test_invalid_payloads_are_refused_before_a_driver_is_opened(
    fmt: str, code: bytes, text: str, no_driver: None
) -> None:
    module = devmod.create("cuda", code, fmt, {"add": add_info()})
    # Creating a module does not check its payload.
    assert devmod.load_from_bytes("cuda", module.save_to_bytes()).format == fmt
    error = error_of(module)
    assert isinstance(error, devmod.FormatError)
    assert str(error) == text
    assert error.kind == "cuda"


# -- binaries


@pytest.mark.row("R37")
@pytest.mark.parametrize("ending", [b"", b"\0", b"\n\0\0"])
def test_ptx_runs_with_and_without_the_zero_byte_of_nvrtc(ending: bytes, device: Any) -> None:
    run_add(devmod.create("cuda", ptx_of(ADD).encode() + ending, "ptx", {"add": add_info()})["add"])


@pytest.mark.row("R14", "R40")
def test_a_fatbin_runs(device: Any) -> None:
    pytest.importorskip(
        "cuda.bindings.nvfatbin", reason="this cuda-bindings is too old for nvfatbin"
    )
    module = devmod.compile(ADD, "cuda -arch=sm_75,compute_75 -format=fatbin", name="add")
    assert module.format == "fatbin"
    run_add(module["add"])


@pytest.mark.row("R14", "R40")
@pytest.mark.parametrize("options", ["-arch=sm_90", "-arch=sm_90,compute_90 -format=fatbin"])
def test_ptx_beside_a_cubin_runs_on_the_stand_in(options: str, device: Any, standin: Any) -> None:
    """It executes no cubin, which the choice prefers, so it refuses one as a driver refuses a
    binary for another device.
    """
    if "fatbin" in options:
        pytest.importorskip(
            "cuda.bindings.nvfatbin", reason="this cuda-bindings is too old for nvfatbin"
        )
    binary = devmod.compile(ADD, f"cuda {options}", name="add")
    run_add(devmod.bundle(binary, devmod.compile(ADD, "cuda -arch=compute_90", name="add"))["add"])
    if "fatbin" in options:
        run_add(binary["add"])
        return
    error = error_of(binary)
    assert isinstance(error, devmod.DeviceNotFoundError)
    assert str(error) == (
        f"the driver of {device} refuses the cuda payload of format 'cubin': CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is available for "
        "execution on the device): the simulated GPU executes PTX, and this is a cubin for sm_90. Compile for compute_90 (NVRTC: "
        "-arch=compute_90; nvcc: -gencode arch=compute_90,code=compute_90). With `devmod simulate`, cuda.core, numba-cuda, pycuda and Triton "
        "compile to PTX"
    )


@pytest.mark.row("R14", "R34")
def test_a_cubin_is_loaded_and_its_parameters_are_checked(device: Any, standin: Any) -> None:
    arch = device.arch.partition(":")[0]
    code = compile_program(ADD, arch).cubin
    module = devmod.create(
        "cuda", code, "cubin", {"add": add_info(), "short": FunctionInfo("add", ["handle"])}
    )
    standin.set("skip_cubins", 1)
    arrays = [device.zeros(8, "float32") for _ in range(3)]
    module["add"](*arrays, 8, grid=2, block=4)
    device.synchronize()
    assert standin.last_launch["name"] == "add"
    expected = b"".join(int(each.memory).to_bytes(8, "little") for each in arrays) + b"\x08\0\0\0"
    assert standin.last_launch["params"] == expected.hex()
    assert (
        str(error_of(module, "short"))
        == "the cuda kernel 'add' takes 4 arguments, and the payload's fmap has 1"
    )
    assert refusal(devmod.LaunchError, module["add"].specialize, N=2) == (
        "a cuda function of format 'cubin' cannot be specialized: its constants were fixed when it was built. Use the source (format 'cuda')"
    )


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("arch", "fmt", "text"),
    [
        (
            "sm_120",
            "cubin",
            "is a cubin for sm_120, which does not run on {device}, sm_90; compile it for cuda -arch=sm_90",
        ),
        (
            "sm_90a",
            "cubin",
            "is a cubin for sm_90a, which does not run on {device}, sm_89; compile it for cuda -arch=sm_89",
        ),
        (
            "sm_80",
            "cubin",
            "is a cubin for sm_80, which does not run on {device}, sm_90; compile it for cuda -arch=sm_90",
        ),
        (
            "compute_100",
            "ptx",
            "is PTX for compute_100, which does not run on {device}, sm_90; compile it for cuda -arch=sm_90",
        ),
        (
            "sm_80,sm_86",
            "fatbin",
            "has code for sm_80, sm_86, and none of it runs on {device}, sm_90; compile it for cuda -arch=sm_90",
        ),
    ],
)
def test_a_binary_for_another_card(
    arch: str, fmt: str, text: str, cuda_driver: str, standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = fresh_device(standin, monkeypatch, arch=text.rpartition("sm_")[2])
    monkeypatch.setattr(type(device), "is_simulated", False)
    code = bytes(
        devmod.compile(
            ADD, f"cuda -arch={arch}" + (" -format=fatbin" if fmt == "fatbin" else "")
        ).code
    )  # type: ignore[attr-defined]
    calls = standin.calls("cuModuleLoadDataEx")
    error = error_of(devmod.create("cuda", code, fmt, {"add": add_info()}))
    assert isinstance(error, devmod.DeviceNotFoundError)
    assert str(error) == f"the cuda payload of format {fmt!r} " + text.format(device=device)
    assert standin.calls("cuModuleLoadDataEx") == calls


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("arch", "device_arch", "advised"),
    [("sm_80", "90", "compute_80"), ("sm_120", "90", "compute_90"), ("sm_90a", "89", "compute_89")],
)
def test_a_cubin_for_another_simulated_card_needs_ptx(
    arch: str, device_arch: str, advised: str, standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = fresh_device(standin, monkeypatch, arch=device_arch)
    code = bytes(devmod.compile(ADD, f"cuda -arch={arch}").code)  # type: ignore[attr-defined]
    error = error_of(devmod.create("cuda", code, "cubin", {"add": add_info()}))
    assert (
        str(error)
        == f"the cuda payload of format 'cubin' is a cubin for {arch}, which does not run on {device}, sm_{device_arch}; "
        f"the simulated GPU executes PTX: compile it for cuda -arch={advised}"
    )


@pytest.mark.row("R40")
def test_the_architectures_are_those_of_the_target_spec_in_use(device: Any) -> None:
    spec = copy.copy(find_spec("cuda"))
    assert spec is not None
    spec.rank = lambda variant, arch: None
    devmod.register("devmod.targets", "cuda", spec)
    try:
        error = error_of(devmod.create("cuda", ptx_of(ADD).encode(), "ptx", {"add": add_info()}))
    finally:
        devmod.register("devmod.targets", "cuda", None, replace=True)
    assert "which does not run on" in str(error)


@pytest.mark.row("R40")
def test_ptx_that_is_newer_than_the_driver(
    cuda_driver: str, standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = fresh_device(standin, monkeypatch, driver_version=12040)
    code = ptx_of(ADD).replace(".version 9.5", ".version 8.5").encode()
    assert b".version 8.5" in code
    error = error_of(devmod.create("cuda", code, "ptx", {"add": add_info()}))
    assert isinstance(error, devmod.DeviceNotFoundError)
    assert str(error) == (
        f"the cuda payload of format 'ptx' is PTX 8.5, and the driver of {device} supports PTX up to 8.4. Update the driver, or compile for "
        "that version; a cubin (cuda -arch=sm_90) needs no newer driver"
    )
    run_add(
        devmod.create("cuda", code.replace(b"8.5", b"8.4", 1), "ptx", {"add": add_info()})["add"]
    )


def fresh_device(standin: Any, monkeypatch: pytest.MonkeyPatch, **settings: object) -> Any:
    """Return the first device of a driver with other settings."""
    from devmod.backend import Once
    from devmod_cuda import _device

    for name, value in settings.items():
        standin.set(name, value)
    monkeypatch.setattr(_device, "_once", Once())
    return devmod.device("cuda")


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("fmt", "text"),
    [
        (
            "ptx",
            "the architecture of the cuda payload of format 'ptx' cannot be read: expected the directives .version and .target at its start",
        ),
        (
            "cubin",
            "the architecture of the cuda payload of format 'cubin' cannot be read: expected an ELF file for the machine 190 (CUDA)",
        ),
        (
            "fatbin",
            "the architecture of the cuda payload of format 'fatbin' cannot be read: expected an entry of PTX or of a cubin",
        ),
    ],
)
def test_an_architecture_that_cannot_be_read(fmt: str, text: str, device: Any) -> None:
    code = {
        "ptx": b"// nothing",
        "cubin": b"\x7fELF" + bytes(80),
        "fatbin": b"\x50\xed\x55\xba" + bytes(80),
    }[fmt]
    error = error_of(devmod.create("cuda", code, fmt, {"add": add_info()}))
    assert isinstance(error, devmod.FormatError)
    assert str(error) == text


@pytest.mark.row("R40")
def test_truncated_and_damaged_cubins_do_not_reach_the_driver(device: Any, standin: Any) -> None:
    code = compile_program(ADD, device.arch.partition(":")[0]).cubin
    calls = standin.calls("cuModuleLoadDataEx")
    for size in (70, 200, len(code) // 2, len(code) - 1):
        error = error_of(devmod.create("cuda", code[:size], "cubin", {"add": add_info()}))
        assert isinstance(error, devmod.FormatError)
    table = int.from_bytes(code[40:48], "little")
    for place, width in ((40, 8), (table + 64 + 24, 8), (table + 64 + 32, 8), (58, 2), (60, 2)):
        damaged = bytearray(code)
        damaged[place : place + width] = b"\xf0" * width
        error = error_of(devmod.create("cuda", bytes(damaged), "cubin", {"add": add_info()}))
        assert isinstance(error, devmod.FormatError)
    error = error_of(devmod.create("cuda", code[:-1], "cubin", {"add": add_info()}))
    assert str(error).startswith("the cubin is truncated or damaged: ")
    assert standin.calls("cuModuleLoadDataEx") == calls


def test_errors_in_ptx_have_the_log_of_the_drivers_compiler(device: Any, standin: Any) -> None:
    code = ptx_of(ADD).replace("ld.param.u64", "ld.param.u64 ???", 1)
    error = error_of(devmod.create("cuda", code.encode(), "ptx", {"add": add_info()}))
    assert isinstance(error, devmod.CompileError)
    assert error.log
    assert str(error) == f"the PTX source does not compile: {error.log}"


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (
            2,
            devmod.DeviceMemoryError,
            "{device} has too little free memory: {device} loads no module: CUDA_ERROR_OUT_OF_MEMORY (out of memory); ",
        ),
        (
            221,
            devmod.DeviceNotFoundError,
            "the driver of {device} cannot compile PTX: its compiler, libnvidia-ptxjitcompiler.so.1, is missing. Install the complete driver, "
            "or use a cubin (cuda -arch=sm_90)",
        ),
        (
            200,
            devmod.FormatError,
            "the driver of {device} refuses the cuda payload of format 'ptx': CUDA_ERROR_INVALID_IMAGE (",
        ),
        (700, devmod.LaunchError, "{device} loads no module: CUDA_ERROR_ILLEGAL_ADDRESS ("),
    ],
)
def test_what_the_driver_refuses(
    code: int, kind: type, text: str, device: Any, standin: Any
) -> None:
    module = adder()
    standin.set("fail", f"cuModuleLoadDataEx={code}")
    error = error_of(module)
    assert type(error) is kind
    assert str(error).startswith(text.format(device=device))
    standin.set("fail", None)
    run_add(module["add"])  # a failure is not cached


@pytest.mark.row("R40")
def test_static_shared_memory_over_the_limit_is_known_before_the_load(
    device: Any, standin: Any
) -> None:
    limit = device.limits["max_shared_memory_per_block"]
    source = 'extern "C" __global__ void k(float *y) {{ __shared__ float t[{}]; t[threadIdx.x] = y[0]; __syncthreads(); y[1] = t[1]; }}'
    module = devmod.compile(source.format(limit // 4), "cuda -arch=compute_75")
    assert devmod.explain(module).best("k") is not None
    code = bytes(module.code).replace(str(limit).encode(), str(limit + 4).encode())  # type: ignore[attr-defined]
    larger = devmod.compile(code, "cuda", language="PTX", fmap=module.functions)
    error = error_of(larger, "k")
    text = f"cannot run on {device}: its max_shared_memory_per_block is {limit}, but the kernel uses {limit + 4} bytes of shared memory"
    assert (type(error), str(error)) == (
        devmod.DeviceNotFoundError,
        f"the cuda function 'k' {text}",
    )
    assert [
        (each.outcome, each.text.partition(";")[0])
        for each in devmod.explain(larger).functions["k"]
    ] == [("refused", text)]


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("parameter", "declared", "kind", "text"),
    [
        (
            "int x",
            "int64",
            "",
            "takes 4 bytes as argument 2, and the payload's fmap has int64 of 8 bytes",
        ),
        (
            "int x",
            "handle",
            "buffer",
            "takes 4 bytes as argument 2, and the payload's fmap has a buffer of 8 bytes",
        ),
        (
            "float x",
            "int32",
            "scalar",
            "takes a parameter of PTX's type .f32 as argument 2, and the payload's fmap has int32",
        ),
        (
            "int x",
            "float32",
            "",
            "takes a parameter of PTX's type .u32 as argument 2, and the payload's fmap has float32",
        ),
        (
            "double x",
            "handle",
            "",
            "takes a parameter of PTX's type .f64 as argument 2, and the payload's fmap has handle",
        ),
        (
            "float3 x",
            "float32x4",
            "",
            "takes 12 bytes as argument 2, and the payload's fmap has float32x4 of 16 bytes",
        ),
        (
            "bool x",
            "int32",
            "scalar",
            "takes 1 bytes as argument 2, and the payload's fmap has int32 of 4 bytes",
        ),
    ],
)
def test_arguments_that_do_not_match_the_kernel_are_refused(
    parameter: str, declared: str, kind: str, text: str, device: Any
) -> None:
    params = [
        Param("n", "scalar", "int32"),
        Param("x", kind or "buffer", "" if declared == "handle" else declared),
    ]
    info = FunctionInfo("k", ["int32", declared], (), (), Interface(params) if kind else None)
    source = f'extern "C" __global__ void k(int n, {parameter}) {{}}'
    error = error_of(devmod.create("cuda", ptx_of(source).encode(), "ptx", {"k": info}), "k")
    assert isinstance(error, devmod.FormatError)
    assert str(error) == f"the cuda kernel 'k' {text}"


def test_a_function_that_the_binary_does_not_define(device: Any) -> None:
    module = devmod.create(
        "cuda",
        ptx_of(ADD).encode(),
        "ptx",
        {"sub": FunctionInfo("sub_kernel", ["handle"]), "add": add_info()},
    )
    assert str(error_of(module, "sub")) == (
        "the cuda payload of format 'ptx' has no kernel 'sub_kernel', which its fmap names; it has: 'add', 'twice', 'step', 'fault'"
    )


def test_an_offset_into_shared_memory_takes_four_bytes(device: Any) -> None:
    info = FunctionInfo("k", ["handle"], (), (), Interface([Param("scratch", "local", "float32")]))
    module = devmod.create(
        "cuda", ptx_of('extern "C" __global__ void k(float *x) {}').encode(), "ptx", {"k": info}
    )
    assert str(error_of(module, "k")) == (
        "the cuda kernel 'k' takes 8 bytes as argument 1, and the payload's fmap has an offset into shared memory of 4 bytes"
    )


# -- globals


def module_with_globals() -> devmod.Module:
    info = FunctionInfo("k", ["handle"], ["blockIdx.x", "threadIdx.x"])
    code = (
        ptx_of(GLOBALS)
        .replace("\n.global", "\n.visible .global")
        .replace("\n.const", "\n.visible .const")
    )
    return devmod.create("cuda", code.encode(), "ptx", {"k": info})


@pytest.mark.row("R20")
def test_globals_of_saved_modules_and_bundles(device: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_with_globals(), path)
    assert devmod.load(path).get_global("factors", device, dtype="float32").numpy().tolist() == [
        2,
        3,
    ]
    assert devmod.load(path).get_global("bytes").numpy().tolist() == [1, 2, 3, 4]
    bundle = devmod.bundle(module_with_globals(), module_with_globals())
    assert bundle.get_global("factors", device, dtype="float32").numpy().tolist() == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"name": "nothing"},
            "the cuda module has no global 'nothing': its binary has 'bytes', 'factors'",
        ),
        (
            {"name": "bytes", "dtype": "float64"},
            "get_global('bytes'): the variable has 4 bytes, which is not a whole number of float64",
        ),
        (
            {"name": "bytes", "device": "cuda:0"},
            "get_global('bytes') takes a device of kind cuda, such as devmod.device('cuda'), got 'cuda:0'",
        ),
        (
            {"name": "bytes", "shape": 2},
            "get_global of a cuda module takes the option dtype=, got ['shape']",
        ),
    ],
)
def test_invalid_requests_of_globals(arguments: dict[str, Any], text: str, device: Any) -> None:
    error = raised(devmod.DevmodError, lambda: module_with_globals().get_global(**arguments))
    assert str(error) == text
    assert isinstance(
        error, devmod.FunctionNotFoundError if "nothing" in text else devmod.ArgumentError
    )


def test_ptx_of_another_compiler_runs(device: Any, tmp_path: Path) -> None:
    """devmod.compile takes the file: with a declaration, and without one where the symbol contains
    the types.
    """
    plain, mangled = ptx_of(ADD), ptx_of(ADD.replace('extern "C" ', ""))
    (tmp_path / "add.ptx").write_text(plain)
    run_add(
        devmod.loads(
            devmod.dumps(devmod.compile(tmp_path / "add.ptx", "cuda", fmap={"add": add_info()}))
        )["add"]
    )
    module = devmod.loads(devmod.dumps(devmod.compile(mangled, "cuda", language="PTX")))
    assert (
        str(module.functions["add"].interface)
        == "<Interface (float32* r, float32* r, float32* rw, int32)>"
    )
    run_add(module["add"])
