"""Tensor maps: the descriptor of an array, as an argument of kernels with and without an
interface.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import run_python
from each_case import raised, refusal
from ptx_sources import ptx_of
from standin_cuda import child_environment

import devmod
import devmod_cuda
from devmod import FunctionInfo, Interface, Param

#: Copies the bytes of its tensor map.
SOURCE = """
struct __align__(64) Map { unsigned long long words[16]; };
extern "C" __global__ void k(int n, const __grid_constant__ Map map, unsigned long long *out) {
    if (threadIdx.x < 16) out[threadIdx.x] = map.words[threadIdx.x] + n;
}"""
TAGS = ["blockIdx.x", "threadIdx.x"]
OUT = Param("out", "buffer", "uint64", "w")
N = Param("n", "scalar", "int32")


def kernel(info: FunctionInfo) -> Any:
    return devmod.create("cuda", ptx_of(SOURCE).encode(), "ptx", {"k": info})["k"]


@pytest.fixture
def array(device: Any) -> Any:
    return device.from_numpy(np.arange(64 * 32, dtype="float32").reshape(64, 32))


@pytest.mark.row("R35")
@pytest.mark.parametrize(
    "info",
    [
        FunctionInfo("k", ["int32", "handle", "handle"], TAGS, [0, 1, 0]),
        FunctionInfo(
            "k",
            ["int32", "uint8x128", "handle"],
            TAGS,
            (),
            Interface([N, Param("map", "scalar", "uint8x128", align=64), OUT]),
        ),
        FunctionInfo(
            "k",
            ["int32", "handle", "handle"],
            TAGS,
            [0, 1, 0],
            Interface([N, Param("map", "buffer"), OUT]),
        ),
    ],
)
def test_a_kernel_gets_the_descriptor_by_value(
    info: FunctionInfo, device: Any, array: Any, standin: Any
) -> None:
    f = kernel(info)
    tensor_map = devmod_cuda.tensor_map(array, (16, 32))
    assert len(tensor_map) == 128
    out = np.zeros(16, "uint64")
    f(0, tensor_map, out, grid=1, block=32)
    assert out.tobytes() == bytes(tensor_map)
    on_device = device.zeros(16, "uint64")
    launch = f.bind(1, tensor_map, on_device, grid=1, block=32)
    launch()
    assert (on_device.numpy() - 1).tobytes() == bytes(tensor_map)
    assert (
        standin.last_launch["params"]
        == (
            (1).to_bytes(4, "little")
            + bytes(60)
            + bytes(tensor_map)
            + int(on_device.memory).to_bytes(8, "little")
        ).hex()
    )
    text = refusal(devmod.ArgumentError, f, 0, array, out, grid=1, block=32)
    name = " 'map'" if info.interface is not None else ""
    assert text == (
        f"the cuda function 'k': argument 2{name}: an array of shape (64, 32) is not a struct of 128 bytes; pass bytes, or a NumPy record of "
        "that size"
    )


def test_a_tensor_map_keeps_its_array_and_is_for_one_process(device: Any, array: Any) -> None:
    tensor_map = devmod_cuda.tensor_map(
        array, [16, 32], steps=(1, 2), swizzle="128B", l2_promotion="256B", fill="nan"
    )
    assert (
        repr(tensor_map)
        == f"<TensorMap of <Array float32[64, 32] on {device}> in boxes of [16, 32]>"
    )
    assert (tensor_map.array, tensor_map.box) == (array, (16, 32))
    assert tensor_map != devmod_cuda.tensor_map(array, [16, 32])
    assert (
        refusal(TypeError, pickle.dumps, tensor_map)
        == "a TensorMap has an address of this process and cannot be pickled; make one there"
    )
    del array
    gc.collect()
    assert tensor_map.array.numpy()[0, :3].tolist() == [0, 1, 2]


def test_the_dimensions_are_in_the_order_of_the_array(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def encode(self: Any, *arguments: Any) -> bytes:
        calls.append(arguments)
        return bytes(128)

    monkeypatch.setattr(type(device.driver), "encode_tensor_map", encode)
    array = device.zeros((5, 7, 64), "float16")
    devmod_cuda.tensor_map(
        array, (2, 3, 32), steps=(1, 2, 4), interleave="none", swizzle="64B", l2_promotion="64B"
    )
    assert calls == [(6, array.memory, (64, 7, 5), [128, 896], (32, 3, 2), (4, 2, 1), 0, 2, 1, 0)]


@pytest.mark.parametrize(
    ("shape", "dtype", "box", "options", "argument", "text"),
    [
        ((8, 32), "float32x4", (8, 32), {}, "array", "supports elements of uint8, int8, bool, "),
        (
            (),
            "float32",
            (),
            {},
            "array",
            "takes an array of 1 to 5 dimensions with elements, got the shape ()",
        ),
        (
            (2,) * 6,
            "float32",
            (2,) * 6,
            {},
            "array",
            "takes an array of 1 to 5 dimensions with elements, got the shape (2, 2, 2, 2, 2, 2)",
        ),
        (
            (0, 32),
            "float32",
            (1, 32),
            {},
            "array",
            "takes an array of 1 to 5 dimensions with elements, got the shape (0, 32)",
        ),
        (
            (8, 32),
            "float32",
            (8,),
            {},
            "box",
            "takes box= with an int from 1 to 256 for each of the 2 dimensions, got (8,)",
        ),
        (
            (8, 32),
            "float32",
            (257, 32),
            {},
            "box",
            "takes box= with an int from 1 to 256 for each of the 2 dimensions, got (257, 32)",
        ),
        (
            (8, 32),
            "float32",
            (8, 0),
            {},
            "box",
            "takes box= with an int from 1 to 256 for each of the 2 dimensions, got (8, 0)",
        ),
        (
            (8, 32),
            "float32",
            (8, 2.0),
            {},
            "box",
            "takes box= with an int from 1 to 256 for each of the 2 dimensions, got (8, 2.0)",
        ),
        (
            (8, 32),
            "float32",
            (8, 32),
            {"steps": (1, 9)},
            "steps",
            "takes steps= with an int from 1 to 8 for each of the 2 dimensions, got (1, 9)",
        ),
        (
            (8, 32),
            "float32",
            (8, 32),
            {"interleave": "16B"},
            "interleave",
            "takes interleave='16B' for 3 dimensions or more, got the shape (8, 32)",
        ),
        (
            (2, 8, 32),
            "float32",
            (2, 8, 32),
            {"interleave": "32B", "swizzle": "64B"},
            "swizzle",
            "takes interleave='32B' with swizzle='32B', got swizzle='64B'",
        ),
        (
            (2, 8, 12),
            "float32",
            (2, 8, 12),
            {"interleave": "32B", "swizzle": "32B"},
            "array",
            "needs rows of a multiple of 32 bytes, got the shape (2, 8, 12) of float32; pad the rows",
        ),
        (
            (8, 32),
            "int32",
            (8, 32),
            {"fill": "nan"},
            "fill",
            "takes fill='nan' for elements of float16, bfloat16, float32 and float64, got int32",
        ),
        (
            (8, 32),
            "float32",
            (8, 3),
            {},
            "box",
            "needs a multiple of 16 bytes in the last dimension, got 3 elements of 4 bytes",
        ),
        (
            (8, 64),
            "float32",
            (8, 32),
            {"swizzle": "64B"},
            "box",
            "takes at most 64 bytes in the last dimension with swizzle='64B', got 128",
        ),
        (
            (8, 64),
            "float32",
            (8, 32),
            {"swizzle": "48B"},
            "swizzle",
            "takes swizzle= as one of 'none', '32B', '64B', '128B', got '48B'",
        ),
        (
            (8, 64),
            "float32",
            (8, 32),
            {"fill": 0},
            "fill",
            "takes fill= as one of 'zeros', 'nan', got 0",
        ),
        (
            (8, 33),
            "float32",
            (8, 32),
            {},
            "array",
            "needs rows of a multiple of 16 bytes, got the shape (8, 33) of float32; pad the rows",
        ),
    ],
)
def test_invalid_arguments(
    shape: Sequence[int],
    dtype: str,
    box: Any,
    options: dict[str, Any],
    argument: str,
    text: str,
    device: Any,
    standin: Any,
) -> None:
    calls = standin.calls("cuTensorMapEncodeTiled")
    error = raised(
        devmod.ArgumentError,
        lambda: devmod_cuda.tensor_map(device.zeros(shape, dtype), box, **options),
    )
    assert str(error).startswith(f"devmod_cuda.tensor_map {text}")
    assert (error.kind, error.argument) == ("cuda", argument)
    assert standin.calls("cuTensorMapEncodeTiled") == calls


def test_arrays_that_have_no_tensor_map(device: Any) -> None:
    host: Any = np.zeros((8, 32), "float32")
    assert refusal(devmod.ArgumentError, devmod_cuda.tensor_map, host, (8, 32)).startswith(
        "devmod_cuda.tensor_map takes an array of a cuda device, got array("
    )
    view = device.zeros(64, "float32")[1:33]
    assert (
        refusal(devmod.ArgumentError, devmod_cuda.tensor_map, view, (32,))
        == "devmod_cuda.tensor_map takes an array that begins at a multiple of 16 bytes; copy the view"
    )


def test_an_interleaved_array_begins_at_a_multiple_of_its_chunks(device: Any) -> None:
    view = device.zeros(4 * 2 * 8 * 8 + 8, "float32")[4:-4].reshape(4, 2, 8, 8)
    assert devmod_cuda.tensor_map(view, (4, 2, 8, 8), interleave="16B").array is view
    assert (
        refusal(
            devmod.ArgumentError,
            devmod_cuda.tensor_map,
            view,
            (4, 2, 8, 8),
            interleave="32B",
            swizzle="32B",
        )
        == "devmod_cuda.tensor_map takes an array that begins at a multiple of 32 bytes; copy the view"
    )


def test_an_array_on_another_device(cuda_driver: str, tmp_path: Path) -> None:
    devmod.save(
        devmod.create(
            "cuda",
            ptx_of(SOURCE).encode(),
            "ptx",
            {"k": FunctionInfo("k", ["int32", "handle", "handle"], TAGS, [0, 1, 0])},
        ),
        tmp_path / "tvm.devmod",
    )
    interface = Interface([N, Param("map", "scalar", "uint8x128", align=64), OUT])
    info = FunctionInfo("k", ["int32", "uint8x128", "handle"], TAGS, (), interface)
    devmod.save(
        devmod.create("cuda", ptx_of(SOURCE).encode(), "ptx", {"k": info}),
        tmp_path / "named.devmod",
    )
    program = (
        "import numpy as np, devmod, devmod_cuda\n"
        "first, second = devmod.device('cuda', 0), devmod.device('cuda', 1)\n"
        "tensor_map = devmod_cuda.tensor_map(second.zeros((8, 32), 'float32'), (8, 32))\n"
        "out = first.zeros(16, 'uint64')\n"
        f"f, named = (devmod.load(f'{tmp_path}/{{name}}.devmod')['k'] for name in ('tvm', 'named'))\n"
        "for call in (\n"
        "    lambda: f(0, tensor_map, out, grid=1, block=32),\n"
        "    lambda: f.bind(0, tensor_map, out, grid=1, block=32),\n"
        "    lambda: named(0, tensor_map, np.zeros(16, 'uint64'), grid=1, block=32),\n"
        "):\n"
        "    try: call()\n"
        "    except devmod.ArgumentError as error: print(error, error.argument)\n"
        "result = np.zeros(16, 'uint64')\n"
        "f.on(second)(0, tensor_map, result, grid=1, block=32)\n"
        "print(out.numpy().tolist() == [0] * 16, result.tobytes() == bytes(tensor_map))\n"
    )
    environment = child_environment(devices=2) | {"DEVMOD_CUDA_DRIVER": cuda_driver}
    name = "(simulated GPU (devmod-simulators))"
    text = (
        f"is a tensor map of an array on cuda device 1 {name}, and the launch is on cuda device 0 {name}; make the tensor map of an array on "
        "that device, or call f.on(array.device)"
    )
    assert run_python(program, **environment).splitlines() == [
        f"the cuda function 'k': argument 2 {text} 2",
        f"the cuda function 'k': argument 2 {text} 2",
        f"the cuda function 'k': argument 2 'map' {text} map",
        "True True",
    ]


def test_what_the_driver_refuses(device: Any, array: Any, standin: Any) -> None:
    standin.set("fail", "cuTensorMapEncodeTiled=1")
    assert (
        refusal(devmod.LaunchError, devmod_cuda.tensor_map, array, (16, 32))
        == f"{device} cannot create a tensor map of {array!r} in boxes of [16, 32]: CUDA_ERROR_INVALID_VALUE (invalid argument)"
    )


def test_a_device_without_tensor_maps(cuda_driver: str, standin: Any) -> None:
    program = (
        "import devmod, devmod_cuda\n"
        "try: devmod_cuda.tensor_map(devmod.device('cuda').zeros((8, 32), 'float32'), (8, 32))\n"
        "except devmod.LaunchError as error: print(error)\n"
    )
    environment = child_environment(arch=86) | {"DEVMOD_CUDA_DRIVER": cuda_driver}
    assert run_python(program, **environment) == (
        "cuda device 0 (simulated GPU (devmod-simulators)) (sm_86) has no tensor maps, which sm_90 and newer support\n"
    )
