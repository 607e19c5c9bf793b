"""TVM with the runtimes of devmod. `test_devmod_tvm.py` runs these in one process, in which OpenCL
has two devices.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import metal_standin
import numpy as np
import pytest
import tvm
import tvm_ffi
import tvm_models as models
from backend_checks import first_device, run_python
from metal_double import replace_metal
from standin_rocm import ROCM
from tvm_models import KINDS, MODELS, VECTORS

import devmod
import devmod_tvm
from devmod_standins import rdna3
from devmod_tvm import _bridge

X = np.arange(1024, dtype="float32")
PACK = tvm.get_global_func("runtime.ModulePackImportsToTensor")


def load(kind: str, data: bytes) -> Any:
    return tvm.get_global_func(f"ffi.Module.load_from_bytes.{kind}")(data)


def vector(kind: str) -> devmod.Module:
    """The kernel of TVM's ``c = a + b``."""
    return devmod.interop.tvm.load_imports(
        (VECTORS / f"vadd.{kind}.tvmimports").read_bytes()
    ).imports[0]


def tensors(kind: str, *arrays: Any, index: int = 0) -> list[Any]:
    return [tvm.runtime.tensor(each, device=models.device(kind, index)) for each in arrays]


def error_of(call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises((RuntimeError, devmod.DevmodError)) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.fixture
def vadd() -> Any:
    first_device("opencl")
    return load("opencl", devmod.interop.tvm.dump_module_bytes(vector("opencl")))["vadd_kernel"]


# -- Models


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_llvm(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_device(kind)
    module, inputs = models.model(name)
    executable = models.compiled(module, kind)
    expected = models.run(models.compiled(module, "llvm"), "llvm", inputs)
    result = models.run(executable, kind, inputs)
    np.testing.assert_allclose(
        result, expected, rtol=0, atol=0 if name in ("argsort", "vadd") else 2e-5
    )
    executable.export_library(str(tmp_path / "model.so"))
    np.savez(tmp_path / "inputs.npz", result, *inputs)
    program = (
        f"import numpy as np, tvm, tvm_models\nexpected, *inputs = np.load({str(tmp_path / 'inputs.npz')!r}).values()\n"
        f"assert (tvm_models.run(tvm.runtime.load_module({str(tmp_path / 'model.so')!r}), {kind!r}, inputs) == expected).all()"
    )
    run_python(program, PYTHONPATH=str(Path(__file__).parent))
    monkeypatch.setenv("TVM_COMPILE_FORCE_FALLBACK", "1")
    fallback, real = (
        PACK(each.mod.imports[0]).numpy().tobytes()
        for each in (models.compiled(module, kind), executable)
    )
    assert fallback == real


@pytest.mark.parametrize("kind", KINDS)
def test_a_transformer_writes_its_cache_in_place(kind: str) -> None:
    first_device(kind)
    np.testing.assert_allclose(
        models.transformer(kind), models.transformer("llvm"), rtol=0, atol=1e-5
    )


# -- Modules

GLSL = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { float a[]; }; layout(binding = 1) buffer B { float b[]; }; layout(binding = 2) buffer C { float c[]; };
void main() { c[gl_GlobalInvocationID.x] = a[gl_GlobalInvocationID.x] + b[gl_GlobalInvocationID.x]; }
"""
HIP = """extern "C" __global__ void vadd(const float *a, const float *b, float *c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}"""
C = "void main_kernel(const float *a, const float *b, float *c, int n) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }"


def foreign_bytes(kind: str) -> tuple[str, bytes, tuple[int, ...]]:
    """Return a kernel that devmod has compiled, in TVM's bytes, and the values after its arrays."""
    if kind in KINDS:
        return "vadd_kernel", devmod.interop.tvm.dump_module_bytes(vector(kind)), (16, 64)
    sources = {
        "vulkan": (GLSL, "vulkan", "glsl"),
        "rocm": (HIP, "rocm -arch=gfx1100", "HIP"),
        "hexagon": (C, "hexagon -arch=v66", "C"),
    }
    source, target, language = sources[kind]
    tags = [] if kind == "hexagon" else ["blockIdx.x", "threadIdx.x"]
    module = devmod.compile(source, target, language=language)
    _, fmt, _, code = devmod.backend.payload_of(module)  # type: ignore[misc]
    (name,) = module.functions
    info = devmod.FunctionInfo(name, ["handle"] * 3 + ["int32"] * (kind == "hexagon"), tags)
    return (
        name,
        devmod.interop.tvm.dump_module_bytes(devmod.create(kind, code, fmt, {name: info})),
        (16, 64) if tags else (1024,),
    )


@pytest.mark.parametrize("kind", [*KINDS, "vulkan", "hexagon"])
def test_loaded_bytes_run_and_are_saved_as_they_came(kind: str) -> None:
    first_device(kind)
    name, data, values = foreign_bytes(kind)
    module = load(kind, data)
    a, b, c = tensors(kind, X, X[::-1].copy(), X)
    module[name](a, b, c, *values)
    np.testing.assert_array_equal(c.numpy(), np.full(1024, 1023, "float32"))
    assert (module.kind, module.get_property_mask(), module.implements_function("none")) == (
        kind,
        3,
        False,
    )
    root = load(kind, data)
    root.import_module(module)
    assert data in PACK(root).numpy().tobytes()
    assert bool(module.inspect_source()) == (kind in KINDS)
    assert module.inspect_source("none") == ""


def test_a_module_of_rocm_in_the_memory_of_a_double() -> None:
    """TVM's name of such a module is "hip". The double has memory, and executes no machine code."""
    info = devmod.FunctionInfo("k", ["handle"], ["blockIdx.x", "threadIdx.x"])
    data = devmod.interop.tvm.dump_module_bytes(
        devmod.create("rocm", b"\x7fELF", "hsaco", {"k": info})
    )
    assert [load(name, data).kind for name in ("rocm", "hip", "hsaco")] == ["hip", "hip", "hsaco"]
    program = (
        "import numpy as np, tvm\nx = tvm.runtime.tensor(np.arange(4), device=tvm.runtime.device('rocm'))\n"
        "x._create_view([2], 'int64', 16).copyto(x._create_view([2], 'int64'))\nprint(x.device.device_name, x)\n"
        f"try:\n    tvm.get_global_func('ffi.Module.load_from_bytes.hip')({data!r})['k'](x, 1, 1)\nexcept RuntimeError as error:\n    print(error)"
    )
    assert run_python(program, **ROCM.environment()) == (
        "stand-in runtime (no GPU) [2 3 2 3]\nthe rocm payload of format 'hsaco' is truncated: it has 4 bytes; an ELF header has 64\n"
    )


def test_a_kernel_of_rocm_on_an_emulator() -> None:
    if reason := rdna3.missing():
        pytest.skip(reason)
    name, data, values = foreign_bytes("rocm")
    program = (
        "import numpy as np, tvm\nx, y = (tvm.runtime.tensor(np.arange(1024, dtype='float32'), device=tvm.runtime.device('rocm')) for _ in 'xy')\n"
        f"tvm.get_global_func('ffi.Module.load_from_bytes.hip')({data!r})[{name!r}](x, x, y, *{values})\n"
        "np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())"
    )
    run_python(program, **ROCM.environment(), **{rdna3.VARIABLE: str(rdna3.folder())})


@pytest.mark.skipif(bool(metal_standin.missing()), reason=metal_standin.missing())
def test_the_models_on_the_double_of_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs the kernels as C++ on the CPU."""
    replace_metal(monkeypatch)
    for name in MODELS:
        module, inputs = models.model(name)
        expected = models.run(models.compiled(module, "llvm"), "llvm", inputs)
        np.testing.assert_allclose(
            models.run(models.compiled(module, "metal"), "metal", inputs),
            expected,
            rtol=0,
            atol=1e-6,
        )
    np.testing.assert_allclose(
        models.transformer("metal"), models.transformer("llvm"), rtol=0, atol=1e-5
    )


def test_a_file_gives_the_kernel_that_fits_the_device(tmp_path: Path) -> None:
    """It has TVM's kernels for three kinds; a library of TVM may import its bytes."""
    devmod.save(devmod.bundle(*map(vector, ("opencl", "webgpu", "cuda"))), tmp_path / "vadd.devmod")
    module = tvm.runtime.load_module(str(tmp_path / "vadd.devmod"))
    assert module.kind == "devmod"
    for kind in KINDS:
        first_device(kind)
        for each in (module, load("devmod", (tmp_path / "vadd.devmod").read_bytes())):
            a, c = tensors(kind, X, 0 * X)
            each["vadd_kernel"](a, a, c, 16, 64)
            np.testing.assert_array_equal(c.numpy(), 2 * X)


def test_a_kernel_of_devmod_takes_tensors_of_its_types(tmp_path: Path) -> None:
    first_device("opencl")
    source = "kernel void twice(global const float *x, global float *y, int n) { y[get_global_id(0)] = n * x[get_global_id(0)]; }"
    devmod.save(devmod.compile(source, "opencl"), tmp_path / "twice.devmod")
    x, y = tensors("opencl", X, 0 * X)
    tvm.runtime.load_module(str(tmp_path / "twice.devmod"))["twice"](x, y, 2, 16, 1, 1, 64, 1, 1)
    np.testing.assert_array_equal(y.numpy(), 2 * X)


# -- Devices


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_of_a_device(kind: str) -> None:
    device, own = models.device(kind), first_device(kind)
    assert (
        device.exist,
        models.device(kind, 9).exist,
        device.device_name,
        device.driver_version,
    ) == (
        True,
        False,
        own.name,
        own.driver_version,
    )
    assert (
        min(
            device.max_threads_per_block,
            device.max_shared_memory_per_block,
            *device.max_thread_dimensions,
        )
        > 1
    )
    assert (device.warp_size, device.total_global_memory) == (1, own.memory or None)


def test_a_view_that_begins_where_its_array_has_a_page(vadd: Any) -> None:
    long, other, c = tensors("opencl", np.arange(2048, dtype="float32"), -X, 0 * X)
    vadd(long._create_view([1024], "float32", 4096), other, c, 16, 64)
    np.testing.assert_array_equal(c.numpy(), np.full(1024, 1024, "float32"))


class Foreign:
    """An array in the memory of OpenCL, whose owner is another library."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 4, 0

    def __dlpack__(self, **_: Any) -> Any:
        capsule, pointer = X.__dlpack__(), ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int.from_address(pointer(capsule, b"dltensor") + 8).value = 4
        return capsule


def test_a_tensor_of_another_owner_is_an_error(vadd: Any) -> None:
    (a,), foreign = tensors("opencl", X), tvm.runtime.from_dlpack(Foreign())
    for use in (
        lambda: vadd(a, a, foreign, 16, 64),
        foreign.numpy,
        lambda: a.copyto(foreign),
        lambda: devmod_tvm.array(foreign),
    ):
        assert NO_MEMORY in error_of(use)


def test_two_devices_of_a_kind(vadd: Any) -> None:
    a, c = tensors("opencl", X, 0 * X, index=1)
    vadd(a, a, c, 16, 64)
    first = c.copyto(models.device("opencl"))
    np.testing.assert_array_equal(first.numpy(), 2 * X)
    assert "a launch runs on one device" in error_of(vadd, a, a, first, 16, 64)


@pytest.mark.parametrize("kind", KINDS)
def test_views_and_copies_with_offsets(kind: str) -> None:
    first_device(kind)
    (x,) = tensors(kind, X)
    half, odd = x._create_view([512], "float32", 2048), x._create_view([8], "int32", 12)
    np.testing.assert_array_equal(half.numpy(), X[512:])
    odd.copyfrom(np.zeros(8, "int32"))
    half.copyto(x._create_view([512], "float32"))
    np.testing.assert_array_equal(x.numpy(), np.concatenate([X[512:], X[512:]]))


@pytest.mark.parametrize("kind", KINDS)
def test_streams(kind: str) -> None:
    first_device(kind)
    kernel, device = load(kind, foreign_bytes(kind)[1])["vadd_kernel"], models.device(kind)
    a, c, d = tensors(kind, X, 0 * X, 0 * X)
    stream, other = device.create_raw_stream(), device.create_raw_stream()
    device.set_raw_stream(stream)
    for _ in range(5):
        kernel(a, c, d, 16, 64)
        kernel(a, d, c, 16, 64)
    tvm.get_global_func("runtime.Device_StreamSyncFromTo")(device, stream, other)
    device.set_raw_stream(other)
    kernel(a, c, d, 16, 64)
    device.set_raw_stream(0)
    np.testing.assert_array_equal(d.numpy(), 11 * X)  # a copy in no stream waits for all
    d.copyto(a)
    device.sync(stream)
    for each in (stream, other):
        device.free_raw_stream(each)
    device.sync()
    np.testing.assert_array_equal(a.numpy(), 11 * X)
    assert _bridge._streams == {}


def test_arrays_pass_in_both_directions_without_a_copy(vadd: Any) -> None:
    own = devmod.device("opencl").from_numpy(X.reshape(32, 32).copy())
    tensor = devmod_tvm.tensor(own)
    assert (tuple(tensor.shape), str(tensor.dtype)) == ((32, 32), "float32")
    back = devmod_tvm.array(tensor)
    back.fill(3)
    assert own.numpy().max() == own.numpy().min() == 3
    (x,) = tensors("opencl", X)
    array = devmod_tvm.array(x._create_view([2, 256], "float32", 2048))
    vadd(x, x, x, 16, 64)
    del x
    np.testing.assert_array_equal(array.numpy(), 2 * X[512:].reshape(2, 256))
    gc.collect()
    count = len(_bridge._arrays)
    del tensor, back, array
    gc.collect()
    assert len(_bridge._arrays) == count - 2
    assert error_of(devmod_tvm.tensor, X[:1]) == (
        "tensor: expected an array of devmod on a device of 'opencl', 'vulkan', 'webgpu', 'metal', 'rocm', 'hexagon', got "
        "array([0.], dtype=float32); tvm.runtime.tensor(array, device) copies an array of the host"
    )
    assert error_of(devmod_tvm.array, X) == "array: expected a tensor of TVM, got ndarray"


NO_MEMORY = (
    "which is no memory that devmod has for TVM: it is freed, or another library's. Allocate it with TVM on this device, or take "
    "devmod_tvm.tensor(array)"
)


def test_errors_have_the_text_of_devmod(vadd: Any) -> None:
    (a, c), subject = tensors("opencl", X, X), "the opencl function 'vadd_kernel'"
    assert error_of(vadd, a) == f"{subject} takes 3 arguments and its launch values, got 1"
    assert (
        error_of(vadd, a, a, 3, 16, 64)
        == f"{subject}: argument 3 is 3; expected a tensor or a pointer"
    )
    assert (
        error_of(vadd, a, a, ctypes.c_void_p(4096), 16, 64)
        == f"{subject}: argument 3 is 0x1000, {NO_MEMORY}"
    )
    assert error_of(vadd, a, None, c, 16, 64) == f"{subject}: argument 2 is 0x0, {NO_MEMORY}"
    assert NO_MEMORY in error_of(vadd, a, tvm.runtime.tensor(X), c, 16, 64)
    assert error_of(
        tvm.runtime.empty, (4, 4), "float32", models.device("opencl"), "global.texture"
    ) == (
        "devmod-tvm allocates no memory of the scope 'global.texture' on opencl:0; expected 'global'. Compile without textures"
    )
    assert "there is no opencl device 9" in error_of(
        tvm.runtime.tensor, X, models.device("opencl", 9)
    )
    assert (
        error_of(load, "opencl", b"abc")
        == "TVM's bytes of the opencl module: fmt: expected 8 bytes, and 3 are left, at byte 0"
    )
    with pytest.raises(AttributeError, match="Module has no function 'other'"):
        load("opencl", foreign_bytes("opencl")[1])["other"]
    remote = tvm.rpc.LocalSession().device("opencl", 0)  # type: ignore[attr-defined]
    assert NO_MEMORY in error_of(devmod_tvm.array, tvm.runtime.tensor(X, device=remote))


def test_a_kernel_that_the_driver_refuses_is_an_error_of_tvm() -> None:
    first_device("opencl")
    info = devmod.FunctionInfo("bad", ["handle"], ["blockIdx.x", "threadIdx.x"])
    source = b"// Function: bad\nkernel void bad(global float *x) { x[0] = unknown_name; }"
    bad = load(
        "opencl",
        devmod.interop.tvm.dump_module_bytes(devmod.create("opencl", source, "cl", {"bad": info})),
    )["bad"]
    (x,) = tensors("opencl", X)
    assert "unknown_name" in error_of(bad, x, 1, 1)
    np.testing.assert_array_equal(x.numpy(), X)


#: For each method that TVM calls, a use of it.
USES: dict[str, Callable[[Any, Any], Any]] = {
    "attribute": lambda device, x: device.device_name,
    "allocate": lambda device, x: tvm.runtime.empty((4,), "float32", device),
    "scope": lambda device, x: tvm.runtime.empty((4, 4), "float32", device, "global.texture"),
    "write": lambda device, x: x.copyfrom(X),
    "read": lambda device, x: x.numpy(),
    "copy": lambda device, x: x.copyto(device),
    "stream": lambda device, x: device.create_raw_stream(),
    "synchronize": lambda device, x: device.sync(),
    "order": lambda device, x: tvm.get_global_func("runtime.Device_StreamSyncFromTo")(device, 0, 0),
    "free": lambda device, x: tvm.runtime.empty((4,), "float32", device) and None,
    "free_stream": lambda device, x: device.free_raw_stream(1),
}


@pytest.mark.parametrize("error", [RuntimeError("it fails"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("name", USES)
def test_a_callback_that_raises(
    name: str,
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    first_device("opencl")
    device, (x,) = models.device("opencl"), tensors("opencl", X)
    with monkeypatch.context() as patch:
        patch.setattr(_bridge._Devices, name, Mock(side_effect=error))
        if name in ("free", "free_stream"):  # a destructor of TVM cannot raise
            USES[name](device, x)
            assert capfd.readouterr().err == f"devmod-tvm: {name}: {error}\n"
        else:
            with pytest.raises(type(error), match=f"^{error}$"):
                USES[name](device, x)
    np.testing.assert_array_equal(x.numpy(), X)


def test_a_callback_of_a_module_that_raises() -> None:
    module = _bridge._make_module(
        "opencl", 3, tvm_ffi.convert(Mock(side_effect=RuntimeError("it fails")))
    )
    for use in (lambda: module["f"], lambda: PACK(module), module.inspect_source):
        assert error_of(use) == "it fails"


def test_threads_share_a_kernel(vadd: Any) -> None:
    def work(number: int) -> float:
        a, c = tensors("opencl", X, 0 * X)
        vadd(a, a, c, 16, 64)
        return float(np.abs(c.numpy() - 2 * X).max())

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(work, range(200))) == {0.0}


def test_calls_and_allocations_in_any_order_keep_no_memory(vadd: Any) -> None:
    def count(calls: int, allocations: int) -> tuple[int, int]:
        a, b, c = tensors("opencl", X, X, X)
        for _ in range(calls):
            vadd(a, b, c, 16, 64)
        for _ in range(allocations):
            a, b, c = c, tensors("opencl", X)[0], a
        models.device("opencl").sync()
        gc.collect()
        return len(_bridge._arrays), len(gc.get_objects())

    count(100, 100)
    arrays, objects = count(100, 100)
    after = count(10_000, 1_000)
    assert (after[0], after[1] <= objects + 20) == (arrays, True)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_device("opencl")
    root = Path(__file__).resolve().parents[3]
    monkeypatch.syspath_prepend(root / "tests")
    from pages import blocks

    monkeypatch.chdir(tmp_path)
    page = (root / "docs" / "frameworks.md").read_text().partition("\n## Run TVM's models on ")[2]
    pairs = [*zip(*[blocks(page)] * 2, strict=True)]
    assert {(code[0], output[0]) for code, output in pairs} == {("run", "prints")}
    Path("page.py").write_text("".join(code[2] for code, _ in pairs))  # TVM's parser reads the file
    assert run_python("import runpy\nrunpy.run_path('page.py', run_name='__main__')") == "".join(
        output[2] for _, output in pairs
    )
