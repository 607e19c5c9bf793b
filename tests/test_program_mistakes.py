"""A kernel and a program name the same mistake in the same sentence. What differs is the name of
the one, and how it counts arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import raised

import devmod

pytestmark = pytest.mark.row("R34", "R45")
SOURCE = """
kernel void add(global const float *x, global float *y, float a) { y[get_global_id(0)] += a * x[get_global_id(0)]; }
kernel void copy(read_only image2d_t x, write_only image2d_t y) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(y, at, read_imagef(x, at));
}"""


@pytest.fixture(scope="module")
def calls() -> Any:
    """The kernels and programs of the same arguments, and values that they take."""
    device, other = first_device("opencl"), first_device("vulkan")
    kernels = devmod.compile(SOURCE, "opencl", block=1)
    adding = {
        "inputs": ["x: float32[n]", "a: float32"],
        "updates": ["y: float32[n]"],
        "steps": ["add(x=x, y=y, a=a, threads=n)"],
    }
    copying = {
        "inputs": ["x: rgba8unorm[h, w]"],
        "updates": ["y: rgba8unorm[h, w]"],
        "steps": ["copy(x=x, y=y, threads=(w, h))"],
    }
    module = devmod.program("image", devmod.program("array", kernels, **adding), **copying)
    loaded = devmod.loads(devmod.dumps(module))
    return SimpleNamespace(
        device=device,
        other=other,
        x=np.ones(8, "float32"),
        image=device.image((4, 4), "rgba8unorm"),
        array=[loaded["add"], loaded["array"]],
        picture=[loaded["copy"], loaded["image"]],
    )


class Foreign:
    """An array of CUDA's memory."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("nothing exports it")


def read_only(device: Any) -> Any:
    import pyopencl as cl
    import pyopencl.array as cl_array

    queue = cl.CommandQueue(device.context)
    return cl_array.Array(
        queue, (8,), "float32", data=cl.Buffer(device.context, cl.mem_flags.READ_ONLY, 32)
    )


def unwritable(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values.flags.writeable = False
    return values


IMAGE = "the {taker} takes an image{form}, such as device.image_from_numpy(array), whose format you choose"
WRITABLE = "and the {taker} may write to it; pass a copy, or device.from_numpy(array)"
#: What is called with which values in place of good ones, and the sentence: the argument, and the
#: text about it.
MISTAKES: dict[str, tuple[str, Callable[[Any], dict[str, Any]], str, str]] = {
    "None": (
        "array",
        lambda of: {"x": None},
        "x",
        "is None, and the {taker} takes an array of float32",
    ),
    "a list": (
        "array",
        lambda of: {"x": [1.0]},
        "x",
        "is a list, and the {taker} takes an array of float32; pass np.array(values, np.float32)",
    ),
    "a text": (
        "array",
        lambda of: {"y": "x"},
        "y",
        "is 'x', and the {taker} takes an array of float32",
    ),
    "a number": (
        "array",
        lambda of: {"x": np.float32(1)},
        "x",
        "is a float32, and the {taker} takes an array of float32",
    ),
    "an image": (
        "array",
        lambda of: {"x": of.image},
        "x",
        "is an Image, and the {taker} takes an array of float32",
    ),
    "a type": (
        "array",
        lambda of: {"x": of.x.astype("float64")},
        "x",
        "is an array of float64, and the {taker} takes float32; convert it before the call: array = array.astype(np.float32)",
    ),
    "a type on the device": (
        "array",
        lambda of: {"y": of.device.zeros(8, "int32")},
        "y",
        "is an array of int32, and the {taker} takes float32; convert it before the call: array = "
        "device.from_numpy(array.numpy().astype(np.float32))",
    ),
    "bytes": (
        "array",
        lambda of: {"x": bytes(32)},
        "x",
        "is an array of uint8, and the {taker} takes float32",
    ),
    "elements of less than a byte": (
        "array",
        lambda of: {"x": np.zeros(8, pytest.importorskip("ml_dtypes").int4)},
        "x",
        "has elements of int4, which have one byte each in NumPy and are packed on a device: pass device.from_numpy(array)",
    ),
    "elements of no device": (
        "array",
        lambda of: {"x": np.zeros(8, "M8[s]")},
        "x",
        "has elements of an unsupported type: no device supports elements of type datetime64[s]",
    ),
    "a read-only array": (
        "array",
        lambda of: {"y": unwritable(np.ones(8, "float32"))},
        "y",
        f"is read-only, {WRITABLE}",
    ),
    "elements that share memory": (
        "array",
        lambda of: {"y": np.lib.stride_tricks.as_strided(of.x, (8,), (0,))},
        "y",
        f"has elements that share memory (its strides are (0,)), {WRITABLE}",
    ),
    "a read-only array on the device": (
        "array",
        lambda of: {"y": read_only(of.device)},
        "y",
        "is an array of shape (8,) that is read-only, and the {taker} may write to it; pass an array that kernels may write to",
    ),
    "a view that begins anywhere": (
        "array",
        lambda of: {"x": of.device.zeros(9, "float32")[1:]},
        "x",
        "is a view that begins 4 bytes into its memory, and {device} takes arguments that begin at a multiple of {alignment} bytes "
        "(view_alignment); copy it: array = device.empty(view.shape, view.dtype); array.copy_from(view)",
    ),
    "an array of another kind": (
        "array",
        lambda of: {"x": of.other.zeros(8, "float32")},
        "x",
        "is on {other}, and the {taker} has code for opencl alone: pass a host array, array.numpy(), or build the {taker} for vulkan too",
    ),
    "an array of another library": (
        "array",
        lambda of: {"x": Foreign()},
        "x",
        "is a Foreign on CUDA device 0, whose memory this backend cannot use; copy it to the host first: tensor.cpu() in PyTorch, "
        "array.get() in CuPy, jax.device_get(array) in JAX",
    ),
    "an overlap": (
        "array",
        lambda of: {"x": of.x[:4], "y": of.x[2:6]},
        "y",
        "overlaps {x}, and the {taker} writes to one of them; pass a copy of it",
    ),
    "a text for a number": ("array", lambda of: {"a": "1"}, "a", ": '1' is not a number"),
    "a great number": ("array", lambda of: {"a": 1e300}, "a", ": 1e+300 does not fit float32"),
    "no stream": (
        "array",
        lambda of: {"stream": 3},
        "",
        "was given stream=, which is 3: expected a stream of kind opencl",
    ),
    "a stream of another kind": (
        "array",
        lambda of: {"stream": of.other.stream()},
        "",
        "was given stream=, which is a stream of {other}: expected a stream of kind opencl",
    ),
    "a host array in bind": (
        "bind",
        lambda of: {"x": of.x},
        "x",
        "is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)",
    ),
    "an array for an image": (
        "picture",
        lambda of: {"x": of.device.zeros((4, 4), "uint8")},
        "x",
        f"is an array of shape (4, 4), and {IMAGE}",
    ),
    "a list for an image": ("picture", lambda of: {"x": [1]}, "x", f"is a list, and {IMAGE}"),
    "a sampler for an image": (
        "picture",
        lambda of: {"x": of.device.sampler()},
        "x",
        f"is a Sampler, and {IMAGE}",
    ),
    "an image of three dimensions": (
        "picture",
        lambda of: {"x": of.device.image((4, 4, 1), "rgba8unorm")},
        "x",
        "is an image of type 3d, and the {taker} takes 2d",
    ),
    "an image of another kind": (
        "picture",
        lambda of: {"x": of.other.image((4, 4), "rgba8unorm")},
        "x",
        "is on {other}, and the {taker} has code for opencl alone: make it on a device of kind opencl",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_kernel_and_a_program_name_a_mistake_in_the_same_sentence(calls: Any, name: str) -> None:
    how, make, argument, text = MISTAKES[name]
    function, program = calls.picture if how == "picture" else calls.array
    good = {"x": calls.image, "y": calls.device.image((4, 4), "rgba8unorm")}
    if how != "picture":
        good = {each: calls.device.from_numpy(calls.x) for each in "xy"} | {"a": 1.0}
    values = good | make(calls)
    for call, taker, form, labels in (
        (
            function,
            "kernel",
            "",
            {each: f"argument {number} {each!r}" for number, each in enumerate(good, 1)},
        ),
        (program, "program", " of rgba8unorm", {each: f"the argument {each!r}" for each in good}),
    ):
        launch = {"threads": 8 if how != "picture" else (4, 4)} if call is function else {}
        error = raised(
            devmod.ArgumentError, call.bind if how == "bind" else call, **values, **launch
        )
        words = {
            "taker": taker,
            "form": form,
            "device": calls.device,
            "other": calls.other,
            "alignment": calls.device.limits["view_alignment"],
        }
        sentence = text.format(**words, **labels)
        subject = f": {labels[argument]}{'' if sentence[0] == ':' else ' '}" if argument else " "
        assert str(error) == f"{call.label}{subject}{sentence}"
        assert error.argument == (argument or "stream")
