"""Steps that give an array as elements of another type, and arrays of no dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import raised, refusal

import devmod
from devmod import ArgumentError, FormatError

pytestmark = pytest.mark.row("R45")
CL = """
kernel void flip(global const uint *x, global uint *y, int words) {
  int i = get_global_id(0); if (i < words) y[i] = x[i] ^ 0x01010101u;
}
kernel void total(global const float *x, global float *y, int n) {
  float sum = 0; for (int i = 0; i < n; i++) sum += x[i]; if (get_global_id(0) == 0) y[0] = sum;
}
kernel void scale(global const float *x, global const float *by, global float *y, int n) {
  int i = get_global_id(0); if (i < n) y[i] = x[i] * by[0];
}"""
WGSL = """
@group(0) @binding(0) var<storage> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@group(0) @binding(2) var<uniform> words: i32;
@compute @workgroup_size(4) fn flip(@builtin(global_invocation_id) id: vec3u) {
  if (i32(id.x) < words) { y[id.x] = x[id.x] ^ 0x01010101u; }
}"""
FLIP = "flip(x=x.view(uint32), y=y.view(uint32), words=ceildiv(n, 4), threads=ceildiv(n, 4))"
DECLARED: dict[str, Any] = {"inputs": ["x: bool[n]"], "outputs": ["y: bool[n]"], "steps": [FLIP]}


def flip(**declared: Any) -> devmod.Module:
    kernels = devmod.bundle(
        devmod.compile(CL, "opencl", block=4), devmod.compile(WGSL, "webgpu", name="flip")
    )
    return devmod.loads(devmod.dumps(devmod.program("p", kernels, **{**DECLARED, **declared})))


@pytest.mark.parametrize("kind", ["opencl", "webgpu"])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_kernel_sees_booleans_as_words(kind: str, guarded: bool) -> None:
    device = first_device(kind)
    f: Any = flip()["p"].on(kind)
    with devmod.guard() if guarded else device.stream():
        for count in (4, 64, 8):
            x = np.arange(count) % 3 == 0
            assert f(x).tolist() == (~x).tolist()
            assert f(x[:]).dtype == bool
            y = device.empty(count, "bool")
            assert f(device.from_numpy(x), y=y) is y
            assert y.numpy().tolist() == (~x).tolist()
            y.copy_from(x)
            f.bind(device.from_numpy(x), y=y)()
            assert y.numpy().tolist() == (~x).tolist()


def test_a_temporary_a_constant_and_a_part_of_an_array_are_seen_as_words() -> None:
    device = first_device("opencl")
    module = devmod.bundle(
        devmod.compile(CL, "opencl", block=4),
        devmod.const_loader({"c": np.arange(8, dtype="uint8")}, {}),
        mixed=True,
    )
    steps = [
        "flip(x=c.view(uint32), y=t.view(uint32), words=2, threads=2)",
        "flip(x=t.view(uint32), y=y.view(uint32), words=2, threads=2)",
        "flip(x=x.view(uint32), y=z, words=2, threads=2)",
    ]
    declared = {
        "inputs": ["x: uint8[2, 4]"],
        "outputs": ["y: int8[4, 2]", "z: uint32[2]"],
        "temporaries": ["t: int16[4]"],
        "constants": ["c: uint8[8]"],
    }
    f: Any = devmod.loads(devmod.dumps(devmod.program("p", module, steps=steps, **declared)))["p"]  # type: ignore[arg-type]
    x = np.arange(64 * 4, dtype="uint8").reshape(64, 4)
    part = device.from_numpy(x)[32:34]  # 128 bytes into the memory
    wanted = (x[32:34] ^ 1).tobytes()
    for given in (x[32:34], part):
        y, z = (
            np.asarray(each if isinstance(each, np.ndarray) else each.numpy()) for each in f(given)
        )
        assert y.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert z.tobytes() == wanted
    assert f.constants["c"].numpy().tolist() == list(range(8))


def test_the_padding_of_an_array_counts_where_a_device_pads() -> None:
    """WebGPU's buffers have multiples of four bytes. Elsewhere a kernel that reads them would read
    what is behind the array.
    """
    first_device("webgpu")
    first_device("opencl")
    module, x = flip(), np.arange(9) % 2 == 0
    assert module["p"].on("webgpu")(x).tolist() == (~x).tolist()  # type: ignore[attr-defined]
    error = raised(ArgumentError, lambda: module["p"].on("opencl")(x))
    text = "the opencl program 'p': step 1 ('flip'): 'x' has 9 bytes, and each uint32 of 'x.view(uint32)' has 4"
    assert (str(error), error.argument) == (text, "x")


def test_steps_that_see_an_array_by_different_types_are_checked_each() -> None:
    first_device("opencl")
    source = "kernel void word(global const void *x, global uint *y, int i) { y[i] = ((global const uint *)x)[0]; }"
    steps = [
        f"word(x=x.view({each}), y=y, i={number}, threads=1)"
        for number, each in enumerate(("uint8", "uint32"))
    ]
    module = devmod.compile(source, "opencl", block=1)
    f: Any = devmod.program(
        "p", module, inputs=["x: int16[n]"], outputs=["y: uint32[2]"], steps=steps
    )["p"]
    assert f(np.array([1, 0x0203], "int16")).tolist() == [0x02030001] * 2
    with pytest.raises(ArgumentError, match=r"step 2 \('word'\): 'x' has 6 bytes"):
        f(np.zeros(3, "int16"))


WRONG = {
    "x.view(float32)": "argument 'x': 'x.view(float32)' is an array of float32, and the kernel takes uint32. ",
    "x.view(uint32x4)": "argument 'x': 'x.view(uint32x4)': an array of uint32x4 cannot be seen; expected numbers, such as x.view(uint32)",
    "x.view(word)": "argument 'x': 'x': 'word' is not a type: expected a name such as 'float32'",
    "n.view(uint32)": "argument 'x': 'n.view(uint32)' is the view of an array, and 'n' is none",
    "z.view(uint32)": "argument 'x': 'z.view(uint32)' is the view of an array, and 'z' is none",
    "x.view(uint32, 4)": "has 'x.view(uint32, 4)'; a view is of an array, as one type of elements, such as x.view(uint32)",
    "y.view(uint32)": "argument 'x': the kernel reads 'y', which no step before has written. ",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_view_is_refused_when_the_program_is_made(text: str) -> None:
    assert WRONG[text] in refusal(
        FormatError, flip, steps=[FLIP.replace("x=x.view(uint32)", f"x={text}")]
    )


def test_an_input_seen_as_words_is_still_read_only_and_no_program_takes_a_view() -> None:
    with pytest.raises(FormatError, match="the kernel may write to it, and 'x' is an input"):
        flip(
            steps=[FLIP.replace("y=y.view", "y=x.view").replace("x=x.view", "x=y.view")],
            outputs=["y: bool[n] = 0"],
        )
    with pytest.raises(
        FormatError, match="its argument 'x' takes an array of bool and 1 dimensions"
    ):
        devmod.program(
            "q",
            flip(),
            inputs=["x: bool[n]"],
            outputs=["y: bool[n]"],
            steps=["p(x=x.view(bool), y=y)"],
        )


def test_a_program_in_another_one_keeps_its_views() -> None:
    first_device("opencl")
    steps = ["p(x=flags, y=t)", "p(x=t, y=y)"]
    module = devmod.program(
        "q",
        flip(),
        inputs=["flags: bool[n]"],
        outputs=["y: bool[n]"],
        temporaries=["t: bool[n]"],
        steps=steps,
    )
    x = np.arange(8) % 3 == 0
    assert module["q"].on("opencl")(x).tolist() == x.tolist()  # type: ignore[attr-defined]


# -- arrays of no dimension


@pytest.mark.usefixtures("in_process")
def test_an_array_of_no_dimension_is_one_number_of_a_device() -> None:
    device = first_device("opencl")
    module = devmod.bundle(
        devmod.compile(CL, "opencl", block=1),
        devmod.const_loader({"half": np.float32(0.5)}, {}),
        mixed=True,
    )
    steps = [
        "total(x=x, y=sum, n=n, threads=1)",
        "scale(x=sum, by=by, y=t, n=1, threads=1)",
        "scale(x=t, by=half, y=mean, n=1, threads=1)",
    ]
    module = devmod.program(
        "p",
        module,
        inputs=["x: float32[n]", "by: float32[()]"],
        outputs=["mean: float32[()]", "sum: float32[()]"],
        temporaries=["t: float32[()]"],
        constants=["half: float32[()]"],
        steps=steps,
    )
    f: Any = devmod.loads(devmod.dumps(module))["p"]
    assert "x: float32[n], by: float32[()]" in repr(f)
    x = np.arange(5, dtype="float32")
    for by in (np.array(3, "float32"), device.from_numpy(np.array(3, "float32"))):
        mean, total = (each if isinstance(each, np.ndarray) else each.numpy() for each in f(x, by))
        assert (mean.shape, mean.dtype, float(mean), float(total)) == (
            (),
            np.dtype("float32"),
            15.0,
            10.0,
        )
    with pytest.raises(ArgumentError, match="the argument 'by' has 1 dimensions; expected 0"):
        f(x, np.ones(1, "float32"))
    found = devmod.verify(devmod.bundle(module), "p").functions["p"]
    assert {each.outcome for each in found} <= {"reference", "agrees", "ran"}
