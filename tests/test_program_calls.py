"""Calls of programs: the main path on each kind, and on OpenCL what a call takes, returns and
refuses.
"""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device, run_python

import devmod
from devmod import ArgumentError

pytestmark = pytest.mark.row("R45")
KINDS = ("opencl", "vulkan", "webgpu", "hexagon")
SUMS, SCALE = (
    "float s = 0; for (int c = 0; c < columns; c++) s += x[row * columns + c] * x[row * columns + c]; sums[row] += s;",
    "sums[i / columns]",
)
CL = f"""
kernel void square_sums(global const float *x, global float *sums, int rows, int columns) {{
  int row = get_global_id(0); if (row < rows) {{ {SUMS} }}
}}
kernel void scale(global const float *x, global const float *sums, global const float *weight, global float *y, int rows, int columns,
                  float epsilon) {{
  int i = get_global_id(0);
  if (i < rows * columns) y[i] = x[i] / sqrt({SCALE} / columns + epsilon) * weight[i % columns];
}}"""
C = f"""
#include <math.h>
void square_sums(const float *x, float *sums, int rows, int columns) {{ for (int row = 0; row < rows; row++) {{ {SUMS} }} }}
void scale(const float *x, const float *sums, const float *weight, float *y, int rows, int columns, float epsilon) {{
  for (int i = 0; i < rows * columns; i++) y[i] = x[i] / sqrtf({SCALE} / columns + epsilon) * weight[i % columns];
}}"""
GLSL = {
    "square_sums": f"""#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ float x[]; }};
layout(binding = 1) buffer S {{ float sums[]; }};
layout(push_constant) uniform P {{ int rows; int columns; }};
void main() {{ int row = int(gl_GlobalInvocationID.x); if (row < rows) {{ {SUMS} }} }}""",
    "scale": f"""#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ float x[]; }};
layout(binding = 1) readonly buffer S {{ float sums[]; }};
layout(binding = 2) readonly buffer W {{ float weight[]; }};
layout(binding = 3) buffer Y {{ float y[]; }};
layout(push_constant) uniform P {{ int rows; int columns; float epsilon; }};
void main() {{
  int i = int(gl_GlobalInvocationID.x);
  if (i < rows * columns) y[i] = x[i] / sqrt({SCALE} / columns + epsilon) * weight[i % columns];
}}""",
}
WGSL = {
    "square_sums": """
struct P { rows: i32, columns: i32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(64) fn square_sums(@builtin(global_invocation_id) id: vec3u) {
  let row = i32(id.x);
  for (var c = 0; row < p.rows && c < p.columns; c++) { sums[row] += x[row * p.columns + c] * x[row * p.columns + c]; }
}""",
    "scale": """
struct P { rows: i32, columns: i32, epsilon: f32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage> sums: array<f32>;
@group(0) @binding(2) var<storage> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> p: P;
@compute @workgroup_size(64) fn scale(@builtin(global_invocation_id) id: vec3u) {
  let i = i32(id.x);
  if (i < p.rows * p.columns) { y[i] = x[i] * inverseSqrt(sums[i / p.columns] / f32(p.columns) + p.epsilon) * weight[i % p.columns]; }
}""",
}
NORMALIZE: dict[str, Any] = {
    "inputs": ["x: float32[rows, columns]", "weight: float32[columns]", "epsilon: float32 = 1e-5"],
    "outputs": ["y: float32[rows, columns]"],
    "temporaries": ["sums: float32[rows] = 0"],
    "requires": ["columns % 4 == 0"],
    "steps": [
        "square_sums(x=x, sums=sums, rows=rows, columns=columns, threads=rows)",
        "scale(x=x, sums=sums, weight=weight, y=y, rows=rows, columns=columns, epsilon=epsilon, threads=rows * columns)",
    ],
}
X, W = np.random.default_rng(0).normal(size=(5, 8)).astype("float32"), np.arange(8, dtype="float32")


def expected(x: Any = X, weight: Any = W, epsilon: float = 1e-5) -> Any:
    return x / np.sqrt((x * x).mean(1, keepdims=True) + epsilon) * weight


def equal(found: Any, wanted: Any) -> bool:
    return np.allclose(found if isinstance(found, np.ndarray) else found.numpy(), wanted, atol=1e-4)


def candidates(kind: str) -> list[devmod.Module]:
    """The kernels of `NORMALIZE` for a kind."""
    if kind == "opencl":
        return [devmod.compile(CL, "opencl", block=64)]
    if kind == "hexagon":
        return [devmod.compile(C, "hexagon -arch=v66")]
    return [
        devmod.compile(text, kind, name=name)
        for name, text in (GLSL if kind == "vulkan" else WGSL).items()
    ]


def normalize(*kinds: str) -> devmod.Module:
    """A file with the program, for some kinds."""
    module = devmod.program(
        "normalize",
        devmod.bundle(*[each for kind in kinds for each in candidates(kind)]),
        **NORMALIZE,
    )
    return devmod.loads(devmod.dumps(module))


@pytest.fixture(scope="module")
def every_kind() -> devmod.Module:
    return normalize(*KINDS)


@pytest.mark.row("R40", "R45")
def test_a_program_lists_the_devices_on_which_it_runs(every_kind: devmod.Module) -> None:
    first_device("opencl")
    opencl, vulkan = normalize("opencl"), normalize("vulkan")
    for module, kinds in (
        (every_kind, KINDS),
        (opencl, ("opencl",)),
        (devmod.bundle(opencl, vulkan), ("opencl", "vulkan")),
    ):
        f: Any = module["normalize"]
        found = devmod.devices(*kinds)
        assert f.devices() == found
        assert [f.on(device).device for device in found] == found


@pytest.fixture
def function(every_kind: devmod.Module) -> Any:
    """The program on the first OpenCL device."""
    return every_kind["normalize"].on(first_device("opencl"))


def made(source: str, name: str = "p", *others: devmod.Module, **declared: Any) -> Any:
    """A program of kernels in OpenCL C."""
    first_device("opencl")
    module = devmod.bundle(devmod.compile(source, "opencl", block=1), *others, mixed=True)
    return devmod.loads(devmod.dumps(devmod.program(name, module, **declared)))[name]


def refusal(call: Callable[..., object], *args: Any, **named: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        call(*args, **named)
    return str(caught.value)


# -- each kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.row("R17", "R18", "R33", "R34", "R37")
def test_the_main_path_on_each_kind(every_kind: devmod.Module, kind: str) -> None:
    device = first_device(kind)
    f: Any = every_kind["normalize"].on(kind)
    x, weight = device.from_numpy(X), device.from_numpy(W)
    for epsilon in (1e-5, 1.0):
        found = f(X, W, epsilon=epsilon)
        assert isinstance(found, np.ndarray)
        assert equal(found, expected(epsilon=epsilon))
    for arguments in ((x, weight), (x, W), (X, weight)):
        assert type(found := f(*arguments)) is type(x)
        assert (found.device, equal(found, expected())) == (device, True)
    for rows in (0, 1, 3, 5):
        assert equal(f(X[:rows], W), expected(X[:rows]))
        assert equal(f(device.from_numpy(X[:rows]), W), expected(X[:rows]))
    host, result = np.zeros_like(X), device.empty((5, 8), "float32")
    assert f(X, W, y=host) is host
    assert f(X, W, y=result) is result
    assert equal(host, expected())
    assert equal(result, expected())
    host[:] = 0
    assert f(x, W, y=host) is host
    assert equal(host, expected())
    # Not contiguous, in and out.
    base, out = np.zeros((10, 16), "float32"), np.zeros((10, 16), "float32")
    base[::2, ::2] = X
    f(base[::2, ::2], W, y=out[::2, ::2])
    assert equal(out[::2, ::2], expected())
    assert not out[1::2].any()
    bound = f.bind(x, weight, y=result)
    result.copy_from(np.zeros_like(X))
    for _ in range(3):
        bound()
    device.synchronize()
    assert equal(result, expected())
    assert bound.time() > 0
    stream = device.stream()
    with stream:
        found = f(x, weight)
    assert equal(found, expected())
    assert equal(f(X, W, stream=stream), expected())
    assert f.temporary_bytes(rows=5, columns=8) == 20


def test_a_program_works_after_its_device_lost_the_memory() -> None:
    """A kernel that ends the runner of a Hexagon device takes the program's temporaries and
    constants with it.
    """
    device = first_device("hexagon")
    kernels = devmod.compile(
        C + "void spoil(int *x) { x[0] = *(volatile int *)16; }", "hexagon -arch=v66"
    )
    constants = devmod.const_loader({"weight": W}, {"init": ["weight"]})
    declared = {
        **NORMALIZE,
        "inputs": [NORMALIZE["inputs"][0], NORMALIZE["inputs"][2]],
        "constants": [NORMALIZE["inputs"][1]],
    }
    f: Any = devmod.loads(
        devmod.dumps(
            devmod.program("normalize", devmod.bundle(kernels, constants, mixed=True), **declared)
        )
    )["normalize"]
    for _ in range(2):
        assert equal(f(X), expected())
        assert equal(f(device.from_numpy(X)), expected())
        with pytest.raises(devmod.LaunchError, match="a kernel has ended its runner"):
            kernels["spoil"](np.zeros(1, "int32"))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_on_one_stream_and_on_two(
    every_kind: devmod.Module, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, count = first_device(kind), 1000 if kind == "opencl" else 100
    f: Any = every_kind["normalize"].on(device)
    inputs = [
        (device.from_numpy(X[:rows]), device.empty((rows, 8), "float32")) for rows in range(1, 6)
    ]
    weight = device.from_numpy(W)
    streams = [device.stream(), device.stream()]
    problems: list[BaseException] = []

    def call(stream: Any, seed: int) -> None:
        try:
            for number in range(count):
                (x, _), rows = inputs[(number + seed) % 5], (number + seed) % 5 + 1
                y = f(x, weight, stream=stream)
                if number % 10 == 0:
                    assert equal(y, expected(X[:rows]))
        except BaseException as error:
            problems.append(error)

    def run(*used: Any) -> None:
        threads = [
            threading.Thread(target=call, args=(stream, seed)) for seed, stream in enumerate(used)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert problems == []

    run(*streams)
    run(streams[0], streams[0])
    # The buffers of temporaries and the launches are there: with the outputs given, a call
    # allocates nothing.
    for x, y in inputs:
        f(x, weight, y=y, stream=streams[0])
    plans = len(f._plans)
    sizes: list[int] = []
    allocate = type(device).allocate
    monkeypatch.setattr(
        type(device), "allocate", lambda self, size: sizes.append(size) or allocate(self, size)
    )
    for _ in range(20):
        for x, y in inputs:
            f(x, weight, y=y, stream=streams[0])
    assert (sizes, len(f._plans)) == ([], plans)


def sums(kind: str, **declared: Any) -> Any:
    """A program that adds the squares of each row to an output, which has three elements more."""
    rest: dict[str, Any] = {
        "inputs": ["x: float32[rows, columns]"],
        "outputs": ["sums: float32[rows + 3]"],
        "steps": NORMALIZE["steps"][:1],
    }
    return devmod.loads(
        devmod.dumps(devmod.program("p", devmod.bundle(*candidates(kind)), **rest | declared))
    )["p"].on(kind)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarded", [False, True])
def test_an_output_that_begins_cleared_is_zero_in_each_call(kind: str, guarded: bool) -> None:
    device, wanted = first_device(kind), [*(X * X).sum(1).tolist(), 0, 0, 0]
    f, host = sums(kind, outputs=["sums: float32[rows + 3] = 0"]), np.ones(8, "float32")
    with devmod.guard() if guarded else nullcontext():
        x, part = device.from_numpy(X), device.from_numpy(np.ones(192, "float32"))
        bound = f.bind(x, sums=part[64:72])
        for _ in range(2):
            assert equal(f(X), wanted)
            assert equal(f(x), wanted)
            assert equal(f(X, sums=host), wanted)
            f(x, sums=part[128:136])
            bound()
            assert equal(part, [1] * 64 + wanted + [1] * 56 + wanted + [1] * 56)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarded", [False, True])
def test_an_output_that_no_thread_writes_is_zero_unless_it_is_given(
    kind: str, guarded: bool
) -> None:
    device = first_device(kind)
    two_steps: dict[str, Any] = {
        "outputs": ["y: float32[2, 4]"],
        "inputs": ["x: float32[rows, columns]", "one: float32[4]"],
        "temporaries": ["sums: float32[rows + 3]"],
        "steps": [
            NORMALIZE["steps"][0],
            "scale(x=one, sums=sums, weight=one, y=y, rows=1, columns=4, epsilon=1, threads=4)",
        ],
    }
    f, of_temporary = sums(kind), sums(kind, **two_steps)
    with devmod.guard() if guarded else nullcontext():
        spoiled = [device.from_numpy(np.full(8, 7, "float32")) for _ in range(8)]
        device.synchronize()
        del spoiled
        for empty in (X[:0], device.from_numpy(X[:0])):
            for _ in range(2):
                assert equal(f(empty), [0] * 3)
            assert equal(
                of_temporary(empty, np.ones(4, "float32"), y=np.zeros((2, 4), "float32")),
                [[1] * 4, [0] * 4],
            )
        given = np.ones(3, "float32")
        assert f(X[:0], sums=given).tolist() == [1] * 3
        f.call_into_new(X[:0], sums=given)
        assert given.tolist() == [0] * 3


def test_an_image_that_no_thread_writes_is_zero() -> None:
    f = made(
        INC,
        inputs=["picture: rgba8uint[height, width]", "k: int32"],
        outputs=["result: rgba8uint[height, width]"],
        temporaries=["t: int32[1]"],
        steps=["inc(source=picture, result=result, t=t, threads=(width * k, height))"],
    )
    picture = np.zeros((2, 2, 4), np.uint8)
    spoiled = [f.device.image_from_numpy(picture + 7, "rgba8uint") for _ in range(8)]
    del spoiled
    assert [np.unique(f(picture, k)).tolist() for k in (1, 0, 1, 0)] == [[1], [0], [1], [0]]
    with devmod.guard():
        assert not f(picture, 0).any()


# -- OpenCL: arguments


def test_a_merged_file_runs_each_part(tmp_path: Path) -> None:
    first_device("opencl")
    first_device("vulkan")
    for kind in ("opencl", "vulkan"):
        devmod.save(normalize(kind), tmp_path / f"{kind}.devmod")
    devmod.save(
        devmod.program(
            "triple",
            devmod.compile(
                "kernel void scale(global const int *x, global int *y) { int i = get_global_id(0); y[i] = 3 * x[i]; }",
                "opencl",
            ),
            inputs=["x: int32[n]"],
            outputs=["y: int32[n]"],
            steps=["scale(x=x, y=y, threads=n, block=1)"],
        ),
        tmp_path / "other.devmod",
    )
    files = [str(tmp_path / f"{name}.devmod") for name in ("opencl", "vulkan", "other")]
    command = [
        sys.executable,
        "-m",
        "devmod",
        "bundle",
        *files,
        "--mixed",
        "-o",
        str(tmp_path / "all.devmod"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    for prefer in ("opencl", "vulkan"):
        module = devmod.load(tmp_path / "all.devmod", prefer=(prefer,))
        assert list(module) == ["normalize", "square_sums", "scale", "triple"]
        f = module["normalize"]
        assert (f.kind, devmod.explain(module, "normalize").best("normalize").kind) == (
            prefer,
            prefer,
        )  # type: ignore[attr-defined, union-attr]
        for kind in ("vulkan", "opencl"):
            assert equal(f.on(kind)(X, W), expected())
            assert f.on(kind).kind == kind  # type: ignore[attr-defined]
        assert module["triple"](np.arange(4, dtype="int32")).tolist() == [0, 3, 6, 9]
    assert refusal(lambda: f.on(first_device("webgpu"))).startswith(
        "the program 'normalize' cannot run on webgpu device 0"
    )


@pytest.mark.row("R16", "R33")
def test_a_candidate_that_cannot_be_built_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    first_device("opencl")
    broken, sound = candidates("opencl")[0], candidates("opencl")[0]
    module = devmod.program("normalize", devmod.bundle(broken, sound), **NORMALIZE)

    def refuse(name: str, device: object) -> None:
        raise devmod.DeviceNotFoundError(f"{name} cannot be built")

    monkeypatch.setattr(broken, "_function_on", refuse)
    assert equal(module["normalize"](X, W), expected())
    monkeypatch.setattr(sound, "_function_on", refuse)
    with pytest.raises(devmod.DeviceNotFoundError) as caught:
        devmod.program("other", module, **NORMALIZE)["other"](X, W)
    assert (
        str(caught.value)
        == "the program 'other' cannot run here:\n  1. opencl: scale cannot be built"
    )


@pytest.mark.row("R30", "R47")
def test_a_program_that_is_not_built_yet_is_named_like_others() -> None:
    first_device("opencl")
    f: Any = devmod.program("normalize", candidates("opencl")[0], **NORMALIZE)["normalize"]
    before = type(f).__name__, repr(f)
    with pytest.raises(AttributeError, match="'ProgramFunction' object has no attribute 'shape'"):
        getattr(f, "shape")  # noqa: B009 - mypy knows the class
    assert (type(f).__name__, repr(f)) == before
    assert equal(f(X, W), expected())


@pytest.mark.row("R30", "R47")
def test_a_program_on_one_device_is_built_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver's compiler may end the process: the first device's does not run for the second."""
    first_device("opencl")
    payload = candidates("opencl")[0]
    module = devmod.program("normalize", payload, **NORMALIZE)
    built: list[str] = []
    build = payload._function_on

    def note(name: str, device: Any) -> Any:
        built.append(str(device))
        return build(name, device)

    monkeypatch.setattr(payload, "_function_on", note)
    for device in devmod.devices("opencl")[::-1]:
        built.clear()
        assert equal(module["normalize"].on(device)(X, W), expected())
        assert {*built} == {str(device)}


TWO_DEVICES = """
import sys
sys.path.insert(0, TESTS)
import numpy as np, os, pyopencl as cl, pyopencl.array as ca
from test_program_calls import *
one, two = (devmod.device("opencl", number) for number in (0, 1))
module = normalize("opencl")
f = module["normalize"]
assert f.device is one
for array in (two.from_numpy(X), ca.to_device(cl.CommandQueue(two.context), X)):
    y = f(array, W)
    assert y.device is two and equal(y, expected())
result = two.empty((5, 8), "float32")
bound = f.bind(two.from_numpy(X), two.from_numpy(W), y=result)
bound()
assert bound.stream.device is two and equal(result, expected())
on = f.on(two)
assert equal(on(X, W), expected())
where = "is on opencl device 0 (%s), and {} is on opencl device 1 (%s); a launch runs on one device: copy the array through the host"
names = tuple(str(each).partition("(")[2][:-1] for each in (one, two))
label = "the opencl program 'normalize'"
text = f"{label}: the argument 'x' " + (where % names).format("the program")
assert refusal(lambda: on(one.from_numpy(X), W)) == text
text = f"{label}: the argument 'weight' " + (where % names).format("the argument 'x'")
assert refusal(lambda: f(two.from_numpy(X), one.from_numpy(W))) == text
text = f"{label} was given stream=, which is a stream of {two}: the program is on {one}"
assert refusal(lambda: f(X, W, stream=two.stream())) == text
os.environ["DEVMOD_DEVICE"] = "opencl:1"
assert module["normalize"].device is two
assert devmod.explain(module, "normalize").best("normalize").device == "opencl:1"
"""


@pytest.mark.row("R33")
def test_device_arrays_decide_between_two_devices() -> None:
    if first_device("opencl").platform != "Portable Computing Language":  # type: ignore[attr-defined]
        pytest.skip("only PoCL can show several devices of one processor")
    run_python(
        f"TESTS = {str(Path(__file__).parent)!r}\n{TWO_DEVICES}", POCL_DEVICES="pthread pthread"
    )


class Exported:
    """An array of another library, by DLPack."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.row("R34")
def test_arrays_of_other_libraries(function: Any) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array

    result = np.zeros_like(X)
    given = Exported(result)
    assert function(Exported(X), Exported(W), y=given) is given
    assert equal(result, expected())
    queue = cl.CommandQueue(function.device.context)
    x, y = cl_array.to_device(queue, X), cl_array.zeros(queue, (5, 8), np.float32)
    assert equal(function(x, W), expected())
    assert function(x, W, y=y) is y
    assert equal(y.get(), expected())
    assert equal(function(x, W, stream=queue), expected())
    read_only = cl_array.Array(
        queue,
        (5, 8),
        "float32",
        data=cl.Buffer(function.device.context, cl.mem_flags.READ_ONLY, 160),
    )
    text = "the opencl program 'normalize': "
    assert refusal(function, x, W, y=read_only) == (
        f"{text}the argument 'y' is an array of shape (5, 8) that is read-only, and the program may write to it; pass an array that kernels "
        "may write to"
    )
    overlap = f"{text}the argument 'y' overlaps the argument 'x', and the program writes to one of them; pass a copy of it"
    assert (
        refusal(function, x, W, y=x)
        == refusal(lambda: function(x, W, y=x.ravel().reshape(5, 8)))
        == overlap
    )
    whole = cl_array.zeros(
        queue, 128, np.float32
    )  # each slice is a sub-buffer, which PoCL begins at a multiple of 128 bytes
    first, second, third = (whole[at : at + 40].reshape(5, 8) for at in (0, 32, 64))
    first[:] = X
    assert (
        refusal(function, first, W, y=second)
        == refusal(lambda: function(second, W, y=whole[:40].reshape(5, 8)))
        == overlap
    )
    assert function(first, W, y=third) is third
    assert equal(third.get(), expected())


#: What a call of `normalize` refuses: the arguments by position, those by name, and the text after
#: the program.
WRONG: dict[str, tuple[Callable[[Any], tuple[Any, ...]], dict[str, Any], str]] = {
    "a missing input": (lambda device: (X,), {}, "it also needs 'weight'"),
    "too many": (
        lambda device: (X, W, 1, 2),
        {},
        "it takes 3 arguments by position, 'x', 'weight', 'epsilon'; 4 given",
    ),
    "twice": (lambda device: (X, W), {"x": X}, "the argument 'x' is given by position and by name"),
    "an unknown name": (
        lambda device: (X, W),
        {"epsilom": 1},
        "it has no argument 'epsilom'; it has 'x', 'weight', 'epsilon', 'y'. Did you mean 'epsilon'?",
    ),
    "a temporary": (
        lambda device: (X, W),
        {"sums": X},
        "it has no argument 'sums'; it has 'x', 'weight', 'epsilon', 'y'",
    ),
    "a grid": (
        lambda device: (X, W),
        {"grid": 1},
        "it takes no grid=: the steps of a program have their own, which follow from the shapes and the scalars of the call",
    ),
    "a requirement": (
        lambda device: (X[:, :6].copy(), W[:6]),
        {},
        "it requires columns % 4 == 0, and that is 2 == 0 with columns=6",
    ),
    "a length": (
        lambda device: (X, W[:4]),
        {},
        "the argument 'weight' has the shape (4,); dimension 1 is 4, and expected is columns, which is 8",
    ),
    "a rank": (lambda device: (X[None], W), {}, "the argument 'x' has 3 dimensions; expected 2"),
    "vectors": (
        lambda device: (device.zeros((5, 2), "float32x4"), W),
        {},
        "the argument 'x' is an array of float32x4, and the program takes float32",
    ),
    "an output's shape": (
        lambda device: (X, W),
        {"y": np.zeros((5, 4), "float32")},
        "the argument 'y' has the shape (5, 4), and the program returns (5, 8)",
    ),
    "no number": (lambda device: (X, W, None), {}, "the argument 'epsilon': None is not a number"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.row("R34")
def test_a_wrong_call_names_the_argument(function: Any, case: str) -> None:
    make, keywords, text = WRONG[case]
    arguments = make(function.device)
    assert refusal(function, *arguments, **keywords) == f"the opencl program 'normalize': {text}"


#: What takes the place of good arguments in a call of `normalize` after one with device arrays of
#: these shapes, and the text of the error after the program.
LATER: dict[str, tuple[int, Callable[[Any], Any], str]] = {
    "another type": (
        0,
        lambda device: device.zeros((5, 8), "int32"),
        "the argument 'x' is an array of int32, and the program takes float32; convert it before the call: array = "
        "device.from_numpy(array.numpy().astype(np.float32))",
    ),
    "a view that begins anywhere": (
        0,
        lambda device: device.zeros(41, "float32")[1:].reshape(5, 8),
        "the argument 'x' is a view that begins 4 bytes into its memory, and {device} takes arguments that begin at a multiple of "
        "{alignment} bytes (view_alignment); copy it: array = device.empty(view.shape, view.dtype); array.copy_from(view)",
    ),
    "another kind": (
        1,
        lambda device: first_device("vulkan").zeros(8, "float32"),
        "the argument 'weight' is on {other}, and the program is on {device}; a launch runs on one device: copy the array through "
        "the host",
    ),
    "a list": (
        0,
        lambda device: [1],
        "the argument 'x' is a list, and the program takes an array of float32; pass np.array(values, np.float32)",
    ),
    "a shape": (
        0,
        lambda device: device.zeros((5, 4), "float32"),
        "the argument 'weight' has the shape (8,); dimension 1 is 8, and expected is columns, which is 4",
    ),
    "no number": (2, lambda device: None, "the argument 'epsilon': None is not a number"),
    "a great number": (
        2,
        lambda device: 1e300,
        "the argument 'epsilon': 1e+300 does not fit float32",
    ),
}


@pytest.mark.parametrize("case", LATER)
@pytest.mark.row("R34")
def test_a_call_is_checked_like_the_first_one_with_its_shapes(function: Any, case: str) -> None:
    device = function.device
    good = [device.from_numpy(X), device.from_numpy(W), 0.5]
    function(*good)
    place, make, text = LATER[case]
    arguments = list(good)
    arguments[place] = make(device)
    assert refusal(function, *arguments) == "the opencl program 'normalize': " + text.format(
        device=device,
        other=first_device("vulkan"),
        alignment=device.limits["view_alignment"],
    )
    assert equal(function(*good), expected(epsilon=0.5))


def test_a_call_after_one_with_its_shapes_has_values_of_its_own(function: Any) -> None:
    device = function.device
    x, weight = device.from_numpy(X), device.from_numpy(W)
    first = function(x, weight, 0.5)
    half = device.from_numpy(X / 2)
    found = [
        function(half, weight, 0.5),
        function(x, device.from_numpy(2 * W), 0.5),
        function(x, weight, 2),
        function(x, weight, np.float64(1e-5)),
        function(x, weight),
        function(x, weight=weight),
        function(device.from_numpy(np.tile(X, (4, 1)))[:5], weight, 0.5),
    ]
    wanted = [
        expected(X / 2, epsilon=0.5),
        expected(weight=2 * W, epsilon=0.5),
        expected(epsilon=2),
        *[expected()] * 3,
        expected(epsilon=0.5),
    ]
    assert all(map(equal, found, wanted))
    assert equal(first, expected(epsilon=0.5))  # no later call wrote to it
    assert isinstance(function(X, W, 0.5), np.ndarray)
    other = device.stream()
    for _ in range(2):
        assert equal(function(x, weight, 0.5, stream=other), expected(epsilon=0.5))
        with other:
            assert equal(function(x, weight, 0.5), expected(epsilon=0.5))
    with pytest.raises(devmod.ArgumentError, match="was given stream=, which is a list"):
        function(x, weight, 0.5, stream=[other])


def test_a_call_after_one_with_its_shapes_waits_in_its_own_stream(function: Any) -> None:
    import pyopencl as cl

    device = function.device
    x, weight = device.from_numpy(X * 3), device.from_numpy(W)
    other = device.stream()
    for stream in (None, other):
        function(x, weight, 0.25, stream=stream)
    device.synchronize()
    begin = cl.UserEvent(device.context)
    cl.enqueue_barrier(other.queue, wait_for=[begin])
    try:
        result = function(device.from_numpy(X * 7), weight, 0.75, stream=other)
        found = np.empty_like(X)
        cl.enqueue_copy(device.default_stream.queue, found, result.memory)  # numpy() waits for all
        assert not equal(found, expected(X * 7, epsilon=0.75))
    finally:
        begin.set_status(cl.command_execution_status.COMPLETE)
    other.synchronize()
    assert equal(result, expected(X * 7, epsilon=0.75))


@pytest.mark.row("R34")
def test_overlaps_and_views(function: Any) -> None:
    device = function.device
    base = np.zeros((12, 8), "float32")
    base[:5] = X
    function(base[:5], W, y=base[5:10])
    assert equal(base[5:10], expected(base[:5]))
    text = "the opencl program 'normalize': the argument 'y' overlaps the argument 'x', and the program writes to one of them; pass a copy of it"
    assert refusal(lambda: function(base[:5], W, y=base[4:9])) == text
    array = device.from_numpy(np.tile(X, (4, 1)))
    assert equal(function(array[:4], W, y=array[16:]), expected(X[:4]))
    assert refusal(lambda: function(array[:5], W, y=array[4:9])) == text
    assert refusal(lambda: function.bind(array[:4], device.from_numpy(W), y=array[:4])) == text
    empty = device.empty((0, 8), "float32")
    assert function(empty, W, y=empty).shape == (0, 8)
    # One array for two inputs is no overlap.
    ones = np.ones((8, 8), "float32")
    assert equal(function(ones, ones[0]), expected(ones, ones[0]))


def increments(role: str, count: int, *, length: str = "n", **more: Any) -> Any:
    """A program of many arrays of a role. Each step takes one."""
    source = "kernel void inc(global int *y) { y[get_global_id(0)] += 1; } kernel void get(global const int *x) { }"
    names, updates = (
        [f"a{number}" for number in range(count)],
        ["u: int32[n]"] if role == "inputs" else [],
    )
    arrays = [
        f"{name}: int32[{length.format(number)}]{' = 0' if role == 'outputs' else ''}"
        for number, name in enumerate(names)
    ]
    step, rest = (
        ("get", "x") if role == "inputs" else ("inc", "y"),
        [devmod.step("inc", y="u", threads="n")] if updates else [],
    )
    steps = [*rest, *(devmod.step(step[0], **{step[1]: name}, threads=1) for name in names)]
    return made(
        source,
        **{
            "updates": updates,
            "inputs": ["x: int32[n]"] if role == "outputs" else [],
            role: arrays,
            "steps": steps,
        }
        | more,
    )


def whole(count: int) -> Any:
    return np.zeros((count, 4), "int32")


MANY: dict[str, tuple[str, Callable[[Any, int], Any]]] = {
    "updates on the host": (
        "updates",
        lambda device, count: [np.zeros(4, "int32") for _ in range(count)],
    ),
    "rows of one array": ("updates", lambda device, count: list(whole(count))),
    "updates on the device": (
        "updates",
        lambda device, count: [device.zeros(4, "int32") for _ in range(count)],
    ),
    "views of one array on the device": (
        "updates",
        lambda device, count: [
            whole[at : at + 4]
            for whole in [device.zeros(64 * count, "int32")]
            for at in range(0, 64 * count, 64)
        ],
    ),
    "one array for all inputs": (
        "inputs",
        lambda device, count: [*[np.zeros(4, "int32")] * count, np.zeros(4, "int32")],
    ),
    "outputs": ("outputs", lambda device, count: [np.zeros(4, "int32")]),
}


@pytest.mark.parametrize("case", MANY)
def test_the_work_of_a_first_call_is_linear_in_its_arrays(case: str) -> None:
    from work import assert_linear  # processes of other tests import this file

    role, arguments = MANY[case]

    def call(count: int) -> Callable[[], object]:
        f = increments(role, count)
        arrays = arguments(f.device, count)
        assert f.steps  # it is built
        return lambda: (f._plans.clear(), f._layouts.clear(), f(*arrays))

    assert_linear(call, 100)


def test_the_work_of_a_first_call_is_linear_in_what_it_requires() -> None:
    from work import assert_linear

    def call(count: int) -> Callable[[], object]:
        f, x = (
            increments("updates", 1, requires=[f"n * 2 + {number} > 0" for number in range(count)]),
            np.zeros(4, "int32"),
        )
        assert f.steps  # it is built
        return lambda: (f._plans.clear(), f(x))

    assert_linear(call, 100)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.row("R34")
def test_an_overlap_of_many_arrays_is_found(seed: int) -> None:
    rng, count = np.random.default_rng(seed), 40
    f = increments("updates", count, length="n{0}")
    base, on_device = np.zeros((count * 64, 2), "int32"), f.device.zeros(count * 64, "int32")

    def arrays(places: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Views of the host with a step, forwards and backwards, and contiguous ones of the
        device.
        """
        forwards = [base[at : at + 64 : 2, 0] for at in places]
        return (
            forwards,
            [base[at + 63 : at + 1 : -2, number % 2] for number, at in enumerate(places)],
            [on_device[at : at + 64] for at in places],
        )

    places = rng.permutation(count) * 64
    for group in arrays(places):
        f(*group)
    assert base.sum() == 2 * count
    one, two = sorted(rng.choice(count, 2, replace=False))
    places[two] = places[one] // 64 * 64
    text = "the opencl program 'p': the argument {1} overlaps the argument {0}, and the program writes to one of them; pass a copy of it"
    for group in (arrays(places)[0], arrays(places)[2]):
        assert refusal(f, *group) == text.format(f"'a{one}'", f"'a{two}'")  # type: ignore[misc]
    reads, many = (
        increments("inputs", count, length="n{0}"),
        [np.zeros(8, "int32") for _ in range(count)],
    )
    many[one] = np.zeros(160, "int32")[32:96]
    for start in (0, 16, 48, 80, 96):
        update = many[one].base[start : start + 32]
        if start in (0, 96):
            reads(*many, update)
        else:
            assert refusal(reads, *many, update) == text.format(
                *sorted((f"'a{one}'", "'u'"), key=[*map(repr, reads.arrays)].index)
            )  # type: ignore[misc]


def test_bind_needs_device_arrays_and_outputs(function: Any) -> None:
    device = function.device
    x, weight, y = device.from_numpy(X), device.from_numpy(W), device.empty((5, 8), "float32")
    text = "the opencl program 'normalize': "
    assert refusal(function.bind, x, weight) == f"{text}bind needs its outputs by name: 'y'"
    host = f"{text}the argument 'weight' is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)"
    assert refusal(function.bind, x, W, y=y) == host
    bound = function.bind(x, weight, y=y)
    assert refusal(bound, x).startswith(
        "a prepared launch of the opencl program 'normalize' takes no arguments"
    )
    bound()
    assert equal(y, expected())


SCALARS = {
    "a": "int8",
    "b": "uint8",
    "c": "int16",
    "d": "uint16",
    "e": "int32",
    "f": "uint32",
    "g": "int64",
    "h": "uint64",
    "i": "float32",
    "j": "float64",
}
NARROW = {
    "a": 128,
    "b": -1,
    "c": 40000,
    "d": 65536,
    "e": 2**31,
    "f": -1,
    "g": 2**63,
    "h": 2**64,
    "i": 1e39,
    "j": "x",
}


@pytest.mark.row("R34")
def test_scalars_of_each_type() -> None:
    source = (
        "kernel void put(global double *y, char a, uchar b, short c, ushort d, int e, uint f, long g, ulong h, float i, double j) "
        "{ y[0] = a; y[1] = b; y[2] = c; y[3] = d; y[4] = e; y[5] = f; y[6] = g; y[7] = h; y[8] = i; y[9] = j; }"
    )
    f = made(
        source,
        inputs=[
            f"{name}: {dtype}{' = 3' if name in 'bdj' else ''}" for name, dtype in SCALARS.items()
        ],
        outputs=["y: float64[10]"],
        steps=[f"put(y=y, {', '.join(f'{name}={name}' for name in SCALARS)}, threads=1)"],
    )
    assert f.names == (*"acefghi", *"bdj")
    assert f(-1, -2, 5, 6, 7, 8, 9.5).tolist() == [-1, 3, -2, 3, 5, 6, 7, 8, 9.5, 3]
    assert f(1, 2, 3, 4, 5, 6, 7, 200, 65535, 0.25).tolist() == [
        1,
        200,
        2,
        65535,
        3,
        4,
        5,
        6,
        7,
        0.25,
    ]
    assert f(**dict.fromkeys("acefgh", np.int8(1)), i=np.float64(2)).tolist() == [
        1,
        3,
        1,
        3,
        1,
        1,
        1,
        1,
        2,
        3,
    ]
    zeros: dict[str, Any] = dict.fromkeys("acefghi", 0)
    for name, value in NARROW.items():
        text = refusal(f, **{**zeros, name: value})  # type: ignore[misc]
        assert text.startswith(f"the opencl program 'p': the argument '{name}': {value!r} ")
    assert refusal(f, **{**zeros, "e": 2.0}).endswith(
        "the argument 'e': 2.0 is a float, and int32 takes an int; pass 2"
    )


@pytest.mark.row("R34")
def test_a_float_has_its_declared_type_in_every_kernel() -> None:
    source = "kernel void put(global double *y, double a, double b, double c, double d) { y[0] = a; y[1] = b; y[2] = c; y[3] = d; }"
    f = made(
        source,
        inputs=["a: float16", "b: bfloat16", "c: float32 = 0.1", "d: float64 = 0.1"],
        outputs=["y: float64[4]"],
        steps=["put(y=y, a=a, b=b, c=c, d=d, threads=1)"],
    )
    wanted = [float(np.float16(0.1)), 0.10009765625, float(np.float32(0.1)), 0.1]
    assert f(0.1, 0.1).tolist() == wanted
    assert f(np.float64(0.1), 0.1, Fraction(1, 10)).tolist() == wanted
    assert f(0.1, 0.1, 2**24 + 1, 2**24 + 1).tolist()[2:] == [2**24, 2**24 + 1]
    special = [
        -0.0,
        float("inf"),
        float("-inf"),
        2.0**-24,
        -(2.0**-133),
        1.0 + 2**-8,
        1.0 + 3 * 2**-8,
    ]
    assert [f(0, each)[1].hex() for each in special] == [
        each.hex() for each in (*special[:5], 1.0, 1.0 + 2**-6)
    ]
    assert np.isnan(f(0, float("nan"))[1])


ADD = "kernel void add(global int *t, global const int *w) { t[get_global_id(0)] += w[get_global_id(0)]; }"


def test_steps_of_one_kernel_have_checks_of_their_own_where_their_arrays_differ() -> None:
    f = made(
        "kernel void twice(global float4 *x) { x[get_global_id(0)] *= 2; }",
        updates=["a: float32[n]", "b: float32[m]"],
        steps=["twice(x=a, threads=1)", "twice(x=b, threads=1)"],
    )
    a, b = np.ones(8, "float32"), np.ones(6, "float32")
    assert refusal(f, a, b).startswith("the opencl program 'p', step 2: ")
    assert a.tolist() == [1] * 8
    f(a, b[:4])
    assert (a.tolist(), b.tolist()) == ([2] * 4 + [1] * 4, [2] * 4 + [1, 1])
    assert refusal(f, a, b).startswith("the opencl program 'p', step 2: ")


def test_a_launch_of_a_later_call_is_refused_as_in_a_first_call() -> None:
    source = "kernel void put(global int *y, int k) { y[0] = k; }"
    threads = "(n - 1) * 1099511627776 + 1"
    one = np.zeros(1, "int32")
    two = np.zeros(2, "int32")
    for number in ("n", "n * 2147483647"):
        steps = [f"put(y=y, k={number}, threads=({threads}, {threads}))"]
        texts = []
        for first in (two, one):
            f = made(source, inputs=["x: int32[n]"], outputs=["y: int32[n]"], steps=steps)
            if first is one:
                f(one)
            with pytest.raises((ArgumentError, devmod.LaunchError)) as caught:
                f(two)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
        assert ("fit int32" in texts[0]) is (number != "n")


@pytest.mark.row("R20")
def test_updates_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    device = first_device("opencl")
    constants = devmod.const_loader({"w": np.arange(4, dtype="int32")}, {"init": ["w"]})
    uploads: list[Any] = []
    from_numpy = type(device).from_numpy
    monkeypatch.setattr(
        type(device),
        "from_numpy",
        lambda self, array: uploads.append(array) or from_numpy(self, array),
    )
    declared: dict[str, Any] = {"updates": ["t: int32[n]"], "constants": ["w: int32[n]"]}
    f = made(ADD, "twice", constants, **declared, steps=["add(t=t, w=w, threads=n)"] * 2)
    host, on_device = np.zeros(4, "int32"), device.zeros(4, "int32")
    for array in (host, on_device):
        assert f(array) is None
    assert host.tolist() == on_device.numpy().tolist() == [0, 2, 4, 6]
    f.module["twice"](device.zeros(4, "int32"))
    assert len([each for each in uploads if each is not host]) == 1
    bound = f.bind(on_device)
    bound()
    assert on_device.numpy().tolist() == [0, 4, 8, 12]
    columns = np.zeros((4, 3), "int32")
    f(columns[:, 1])
    assert columns.T.tolist() == [[0] * 4, [0, 2, 4, 6], [0] * 4]
    assert (
        refusal(f, np.zeros(5, "int32"))
        == "the opencl program 'twice': the argument 'w' has the shape (4,); dimension 1 is 4, and expected is n, which is 5"
    )


@pytest.mark.row("R34")
def test_several_outputs_and_images() -> None:
    source = """
    kernel void invert(read_only image2d_t source, sampler_t how, write_only image2d_t result) {
      int2 at = (int2)(get_global_id(0), get_global_id(1));
      write_imagef(result, at, 1 - read_imagef(source, how, (convert_float2(at) + 0.5f) / convert_float2(get_image_dim(source))));
    }
    kernel void count(read_only image2d_t source, global uint *total) {
      atomic_add(total, (uint)(read_imagef(source, (int2)(get_global_id(0), get_global_id(1))).x * 255 + 0.5f));
    }"""
    f = made(
        source,
        inputs=["picture: rgba8unorm[height, width]"],
        outputs=["back: rgba8unorm[height, width]", "total: uint32[1]"],
        temporaries=["inverse: rgba8unorm[height, width]", "unused: uint32[1] = 0"],
        samplers=["how: nearest clamp"],
        steps=[
            "invert(source=picture, how=how, result=inverse, threads=(width, height))",
            "invert(source=inverse, how=how, result=back, threads=(width, height))",
            "count(source=picture, total=unused, threads=(width, height))",
            "count(source=inverse, total=total, threads=1)",
        ],
    )
    device = f.device
    picture = np.random.default_rng(0).integers(0, 256, (7, 9, 4), np.uint8)
    back, total = f(picture)
    assert np.array_equal(back, picture)
    assert total.shape == (1,)
    image = device.image_from_numpy(picture)
    back, total = f(image)
    assert np.array_equal(back.numpy(), picture)
    host, result = np.zeros_like(picture), device.image((9, 7), "rgba8unorm")
    assert f(picture, back=host)[0] is host
    assert f(image, back=result)[0] is result
    assert np.array_equal(host, picture)
    assert np.array_equal(result.numpy(), picture)
    for height in range(1, 8):  # the images of other sizes
        assert np.array_equal(f(picture[:height])[0], picture[:height])
    for case, text in (
        (
            {"picture": picture[:0]},
            "the argument 'picture' has the shape (0, 9, 4), and an image has lengths of 1 or more",
        ),
        (
            {"picture": picture[..., :3]},
            "the argument 'picture' has the shape (7, 9, 3); expected (height, width, 4) for an image of rgba8unorm",
        ),
        (
            {"picture": device.image((9, 7), "r32float")},
            "the argument 'picture' is an image of r32float, and the program takes rgba8unorm",
        ),
        (
            {"picture": device.zeros((7, 9), "uint8")},
            "the argument 'picture' is an array of shape (7, 9), and the program takes an image of rgba8unorm, such as device.image_from_numpy(array), whose format you choose",
        ),
        (
            {"picture": image, "back": image},
            "the argument 'back' overlaps the argument 'picture', and the program writes to one of them; pass a copy of it",
        ),
        (
            {"picture": picture, "back": picture},
            "the argument 'back' overlaps the argument 'picture', and the program writes to one of them; pass a copy of it",
        ),
        (
            {"picture": image, "back": device.image((9, 6), "rgba8unorm")},
            "the argument 'back' has the shape (6, 9), and the program returns (7, 9)",
        ),
    ):
        assert refusal(f, **case) == f"the opencl program 'p': {text}"  # type: ignore[misc]


# -- temporaries


CHAIN = """
kernel void put(global const int *x, global int *y) { y[get_global_id(0)] = x[get_global_id(0)] + 1; }
kernel void add(global const int *x, global int *y) { y[get_global_id(0)] += x[get_global_id(0)]; }
"""


def chain(count: int) -> Any:
    """A program of temporaries, of which two live at once. The odd ones begin cleared."""
    names = [f"t{number}" for number in range(count)]
    steps = [
        f"{'add' if number % 2 else 'put'}(x={'x' if not number else names[number - 1]}, y={name}, threads=n)"
        for number, name in enumerate(names)
    ]
    return made(
        CHAIN,
        inputs=["x: int32[n]"],
        outputs=["y: int32[n]"],
        temporaries=[
            f"{name}: int32[n]{' = 0' if number % 2 else ''}" for number, name in enumerate(names)
        ],
        steps=[*steps, f"put(x={names[-1]}, y=y, threads=n)"],
    )


def test_temporaries_share_buffers_and_are_cleared_in_each_call() -> None:
    f = chain(12)
    x = np.arange(1000, dtype="int32")
    assert refusal(f, x, x).endswith(": it takes 1 argument by position, 'x'; 2 given")
    array, result = f.device.from_numpy(x), f.device.empty(1000, "int32")
    bound = f.bind(array, y=result)
    assert f.temporary_bytes(n=np.int64(1000)) == 2 * 4000
    for _ in range(3):
        assert np.array_equal(f(x), x + 7)
        assert np.array_equal(f(array).numpy(), x + 7)
        bound()
        assert np.array_equal(result.numpy(), x + 7)
        assert np.array_equal(f(x[:10]), x[:10] + 7)
    assert refusal(f.temporary_bytes) == "the program 'p': it also needs 'n'"
    assert (
        refusal(f.temporary_bytes, n=1, m=2) == "the program 'p': it has no length 'm'; it has 'n'"
    )
    assert (
        refusal(f.temporary_bytes, n="1")
        == "the program 'p': the length 'n' is an integer, got '1'"
    )


def test_a_buffer_that_is_too_small_is_freed_before_its_successor_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = chain(12)
    device, stream = f.device, f.device.stream()
    small, large = (device.from_numpy(np.arange(n, dtype="int32")) for n in (10, 1000))
    allocate = type(device).allocate
    made_buffers: list[Any] = []
    users: list[int] = []

    def note(self: Any, nbytes: int) -> Any:
        if len(made_buffers) > 1:
            users.append(sys.getrefcount(made_buffers[1]))
        made_buffers.append(allocate(self, nbytes))
        return made_buffers[-1]

    monkeypatch.setattr(type(device), "allocate", note)
    f(small, stream=stream)  # its output, and two temporaries
    users.clear()
    f(large, stream=stream)
    unused = [object()]
    alone = sys.getrefcount(unused[0])
    assert users[1] == alone


INC = """
kernel void inc(read_only image2d_t source, write_only image2d_t result, global int *t) {
  int2 at = (int2)(get_global_id(0), get_global_id(1)); write_imageui(result, at, read_imageui(source, at) + 1); t[0] = 0;
}"""


def images(count: int) -> Any:
    """A program of temporary images, each one more than the image before. A temporary array is
    cleared before the second step.
    """
    names = ["picture", *[f"t{number}" for number in range(count)], "result"]
    return made(
        INC,
        inputs=["picture: rgba8uint[height, width]"],
        outputs=["result: rgba8uint[height, width]"],
        temporaries=[
            "first: int32[1]",
            "t: int32[1] = 0",
            *[f"{name}: rgba8uint[height, width]" for name in names[1:-1]],
        ],
        steps=[
            f"inc(source={a}, result={b}, t={'first' if a == 'picture' else 't'}, threads=(width, height))"
            for a, b in pairwise(names)
        ],
    )


@pytest.mark.parametrize("how", ["in a handler of a signal", "in a thread, after 32 other streams"])
@pytest.mark.row("R32")
def test_a_call_between_the_launches_of_another_has_images_of_its_own(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, another = images(4), images(1)
    device, stream = f.device, f.device.stream()
    pictures = [
        device.image_from_numpy(np.full((4, 4, 4), value, np.uint8), "rgba8uint")
        for value in (0, 100)
    ]
    inner: list[Any] = []
    clear = type(device).start_clear

    def call() -> None:
        inner.append(f(pictures[1], stream=stream))

    def clear_and_call(*arguments: Any) -> Any:
        monkeypatch.undo()
        if how.startswith("in a handler"):
            call()
        else:
            for other in [device.stream() for _ in range(32)]:
                another(pictures[1], stream=other)
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        return clear(*arguments)

    f(pictures[0], stream=stream)
    monkeypatch.setattr(type(device), "start_clear", clear_and_call)
    outer = f(pictures[0], stream=stream)
    assert [np.unique(each.numpy()).tolist() for each in (outer, *inner)] == [[5], [105]]


def test_temporary_images_share_memory_and_a_stream_keeps_those_of_few_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = images(9)
    device, stream = f.device, f.device.stream()
    create, made_images = type(device).create_image, []
    monkeypatch.setattr(
        type(device),
        "create_image",
        lambda self, image: made_images.append(image) or create(self, image),
    )

    def count(height: int, *, bound: bool = False) -> int:
        """The temporary images that a call makes."""
        picture, result = (device.image((4, height), "rgba8uint") for _ in range(2))
        picture.copy_from(np.zeros((height, 4, 4), np.uint8))
        made_images.clear()
        f.bind(picture, result=result, stream=stream)() if bound else f(
            picture, result=result, stream=stream
        )
        assert np.unique(result.numpy()).tolist() == [10]
        return len(made_images)

    assert [count(4), count(4), count(4, bound=True), count(5), count(4)] == [2, 0, 2, 2, 0]
    assert [count(height) for height in range(6, 21)] == [2] * 15
    assert [count(4), count(20)] == [2, 0]


def test_temporaries_that_the_device_has_no_memory_for_name_the_program() -> None:
    f = made(
        CHAIN,
        inputs=["x: int32[n]"],
        outputs=["y: int32[n]"],
        temporaries=["t: int32[n * 1099511627776]"],
        steps=[
            "put(x=x, y=t, threads=n)",
            "put(x=t, y=y, threads=n)",
        ],
    )
    x, y = f.device.from_numpy(np.zeros(1000, "int32")), f.device.empty(1000, "int32")
    for call in (lambda: f(x), lambda: f.bind(x, y=y)):
        with pytest.raises(devmod.DeviceMemoryError) as caught:
            call()
        assert str(caught.value).startswith(
            f"the opencl program 'p': {f.device} cannot allocate 4398046511104000 bytes: "
        )


@pytest.mark.parametrize("seed", range(5))
def test_no_two_temporaries_that_live_at_once_share_a_buffer(seed: int) -> None:
    from devmod_runtime._program.temporaries import share

    rng = np.random.default_rng(seed)
    starts, lengths = rng.integers(0, 60, 80), rng.integers(0, 12, 80)
    lives = {
        str(number): (int(start), int(start + length))
        for number, (start, length) in enumerate(zip(starts, lengths, strict=True))
    }
    sizes = {name: int(rng.integers(0, 100)) for name in (*lives, "of no step")}
    buffers, totals = share(sizes, lives)
    assert buffers.keys() == lives.keys()
    assert totals == sorted(totals, reverse=True)
    successors: list[Any] = []
    for number, total in enumerate(totals):
        successors += pairwise(
            sorted(lives[each] for each, own in buffers.items() if own == number)
        )
        assert total == max(sizes[name] for name, buffer in buffers.items() if buffer == number)
    assert successors
    assert all(one[1] < two[0] for one, two in successors)


def least(sizes: dict[str, int], lives: dict[str, tuple[int, int]]) -> int:
    """The least bytes of whole buffers: the n-th largest holds the n-th largest temporary of each
    step.
    """
    steps = [
        [sizes[name] for name, (start, end) in lives.items() if start <= step <= end]
        for step in range(80)
    ]
    return sum(map(max, zip_longest(*(sorted(each, reverse=True) for each in steps), fillvalue=0)))


def test_the_temporaries_of_a_decoder_take_the_fewest_bytes() -> None:
    """The layers of a transformer, for several sizes."""
    from devmod_runtime._program.temporaries import share

    for size, hidden, context, heads in (
        (64, 192, 64, 4),
        (256, 672, 128, 8),
        (288, 768, 256, 6),
        (4096, 11008, 2048, 32),
    ):
        layer = {
            "y": (size, 0, 17),
            "q": (size, 1, 10),
            "k": (size // 2, 2, 6),
            "v": (size // 2, 3, 6),
            "scores": (heads * context, 7, 9),
        }
        layer |= {"g": (hidden, 13, 16), "u": (hidden, 14, 15)}
        sizes = {f"{number}{name}": each[0] for number in range(4) for name, each in layer.items()}
        lives = {
            f"{number}{name}": (20 * number + each[1], 20 * number + each[2])
            for number in range(4)
            for name, each in layer.items()
        }
        assert sum(share(sizes, lives)[1]) == least(sizes, lives)


def test_the_buffers_of_few_streams_are_kept(function: Any) -> None:
    from devmod_runtime._program import temporaries

    for _ in range(80):
        assert equal(function(X, W, stream=function.device.stream()), expected())
    assert len(temporaries._memories) <= 32


def test_threads_that_call_one_prepared_program_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    f = made(
        CHAIN,
        inputs=["x: int32[n]"],
        updates=["total: int32[n]"],
        temporaries=["t: int32[n] = 0"],
        steps=["add(x=x, y=t, threads=n)", "add(x=t, y=total, threads=n)"],
    )
    device = f.device
    x, total = device.from_numpy(np.ones(4, "int32")), device.zeros(4, "int32")
    bound, stream = f.bind(x, total), device.default_stream
    clear = type(device).start_clear

    def clear_and_let_others_run(*arguments: Any) -> Any:
        result = clear(*arguments)
        time.sleep(1e-4)
        return result

    monkeypatch.setattr(type(device), "start_clear", clear_and_let_others_run)
    for call in (bound, lambda: f(x, total, stream=stream)):
        threads = [
            threading.Thread(target=lambda call=call: [call() for _ in range(50)]) for _ in range(4)
        ]  # type: ignore[misc]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert total.numpy().tolist() == [400] * 4


def test_a_number_that_a_later_call_cannot_convert_and_what_no_step_writes() -> None:
    source = (
        "kernel void put(global int *y, int k) { int i = get_global_id(0); if (i != 1) y[i] = k; }"
    )
    steps = ["put(y=y, k=k, threads=3)", "put(y=y, k=k, threads=3)"]
    f = devmod.program(
        "p",
        devmod.compile(source, "opencl", block=1),
        inputs=["k: int64"],
        outputs=["y: int32[3]"],
        steps=steps,
    )["p"]
    assert f(7, y=np.full(3, -1, "int32")).tolist() == [
        7,
        -1,
        7,
    ]  # an output that is given keeps what is not written
    text = "the opencl program 'p', step 1: the opencl function 'put': argument 2 'k': 1099511627776 does not fit int32"
    assert refusal(f, 2**40).startswith(text)
    f(7)
    assert refusal(f, 2**40).startswith(text)


@pytest.mark.row("R34")
def test_a_step_without_threads_is_checked_like_the_others() -> None:
    source = "kernel void put(global int *y, int v) { y[get_global_id(0)] = v; }"
    one, two = "put(y=y, v=1, threads=n)", "put(y=y, v=6 // k, threads=n)"
    for steps in ([two], [one, two], [two, one]):
        f = made(source, inputs=["x: int32[n]", "k: int32"], outputs=["y: int32[n]"], steps=steps)
        for x in (np.zeros(0, "int32"), np.zeros(2, "int32")):
            assert f(x, 2).tolist() == [3 if steps[-1] == two else 1] * len(x)
            number = steps.index(two) + 1
            assert (
                refusal(f, x, 0)
                == f"the opencl program 'p': step {number} ('put'): 6 // k divides by zero"
            )  # type: ignore[misc]
    steps = ["put(y=y, v=2147483647 * k, threads=n)"]
    f = made(source, inputs=["x: int32[n]", "k: int32"], outputs=["y: int32[n]"], steps=steps)
    assert refusal(f, np.zeros(0, "int32"), 2) == (
        "the opencl program 'p', step 1: the opencl function 'put': argument 2 'v': 4294967294 does not fit int32 (-2147483648 to "
        "2147483647)"
    )


# -- launches that fail


def in_place(kind: str, **declared: Any) -> Any:
    """A program that adds to an update before it reads it."""
    rest: dict[str, Any] = {
        "inputs": ["x: float32[rows, columns]", "weight: float32[columns]"],
        "outputs": ["y: float32[rows, columns]"],
        "updates": ["u: float32[rows]"],
        "steps": [
            NORMALIZE["steps"][0].replace("sums=sums", "sums=u"),
            NORMALIZE["steps"][1]
            .replace("sums=sums", "sums=u")
            .replace("epsilon=epsilon", "epsilon=0"),
        ],
    }
    return devmod.loads(
        devmod.dumps(devmod.program("p", devmod.bundle(*candidates(kind)), **rest | declared))
    )["p"].on(kind)  # type: ignore[attr-defined]


@pytest.mark.row("R34")
def test_what_webgpu_cannot_bind_is_refused_before_the_first_launch() -> None:
    device, f = first_device("webgpu"), in_place("webgpu")
    x, weight = device.from_numpy(X), device.from_numpy(W)
    whole = device.from_numpy(np.zeros(256, "float32"))
    u, y = whole[:5], whole[64:104].reshape(5, 8)
    text = (
        "the webgpu program 'p', step 2: the webgpu function 'scale': argument 4 'y' and argument 2 'sums' ('u' of the program) are views of one "
        "buffer, and the shader declares one of them as read-only. WebGPU forbids this in one launch; pass a copy for one of them"
    )
    for _ in range(2):
        with pytest.raises(ArgumentError) as caught:
            f(x, weight, u, y=y)
        assert (str(caught.value), caught.value.function, caught.value.argument) == (text, "p", "y")
        f(
            x, weight, device.zeros(5, "float32"), y=device.empty((5, 8), "float32")
        )  # the launches are cached from now on
    assert refusal(f.bind, x, weight, u, y=y) == text
    assert not whole.numpy().any()


@pytest.mark.parametrize(
    ("kind", "limit"),
    [("vulkan", "maxStorageBufferRange"), ("webgpu", "maxStorageBufferBindingSize")],
)
@pytest.mark.row("R34")
def test_an_array_beyond_a_limit_is_refused_before_the_first_launch(kind: str, limit: str) -> None:
    device = first_device(kind)
    most = device.limits[limit]
    if most > 1 << 28:
        pytest.skip("the limit is too large for a test")
    steps = [NORMALIZE["steps"][0].replace("sums=sums", f"sums={name}") for name in ("u", "large")]
    f = in_place(
        kind,
        inputs=["x: float32[rows, columns]"],
        outputs=[],
        temporaries=[f"large: float32[rows + {most // 4 - 4}]"],
        steps=steps,
    )
    x, u = device.from_numpy(X), device.zeros(5, "float32")
    stream = device.stream()  # which keeps the large buffer
    for call in (lambda: f(x, u, stream=stream), lambda: f.bind(x, u)):
        with pytest.raises(devmod.LaunchError) as caught:
            call()
        assert str(caught.value) == (
            f"the {kind} program 'p', step 2: the {kind} function 'square_sums' cannot be launched on {device}: its {limit} is {most}, but "
            f"argument 2 'sums' ('large' of the program) has {most + 4} bytes"
        )
    assert not u.numpy().any()


def test_a_launch_that_fails_names_the_program_and_the_step() -> None:
    device, f = first_device("hexagon"), in_place("hexagon")
    spoil = devmod.compile(
        "void spoil(int *x) { x[0] = *(volatile int *)16; }", "hexagon -arch=v66"
    )
    crash: Any = devmod.program(
        "q", spoil, updates=["x: int32[n]"], steps=["spoil(x=x, threads=n)"]
    )["q"]
    x, weight, u, y = (
        device.from_numpy(each)
        for each in (X, W, np.zeros(5, "float32"), np.zeros((5, 8), "float32"))
    )
    bound = f.bind(x, weight, u, y=y)
    with pytest.raises(
        devmod.LaunchError,
        match=r"^the hexagon program 'q': hexagon device 0 .*: a kernel has ended its runner",
    ):
        crash(np.zeros(1, "int32"))  # the device reports it after the launch
    with (
        devmod.guard(),
        pytest.raises(
            devmod.LaunchError,
            match=r"^the hexagon program 'q', step 1: hexagon device 0 .*: a kernel has",
        ),
    ):
        crash(np.zeros(1, "int32"))
    lost = "an array of hexagon device 0 .* cannot be used: its runner has ended"
    with pytest.raises(devmod.LaunchError, match=f"^the hexagon program 'p', step 1: {lost}"):
        bound()
    x, u, y = (
        device.from_numpy(each) for each in (X, np.zeros(5, "float32"), np.zeros((5, 8), "float32"))
    )
    for call in (lambda: f(x, weight, u), lambda: f.bind(x, weight, u, y=y)):
        with pytest.raises(devmod.LaunchError, match=f"^the hexagon program 'p', step 2: {lost}"):
            call()


def test_a_prepared_launch_that_the_driver_refuses_has_a_note_of_its_step(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a driver keeps its class and its text."""
    kernel = type(function.functions["scale"].open(function.device))

    def refuse() -> None:
        raise OSError("refused")

    prepare = kernel.prepare
    monkeypatch.setattr(
        kernel,
        "prepare",
        lambda self, *args: refuse if self._name == "scale" else prepare(self, *args),
    )
    device = function.device
    bound = function.bind(
        device.from_numpy(X), device.from_numpy(W), y=device.empty((5, 8), "float32")
    )
    with pytest.raises(OSError, match=r"^refused") as caught:
        bound()
    assert caught.value.__notes__ == ["in the opencl program 'normalize', step 2"]


# -- interrupts and forks


INTERRUPTED = """
import sys
sys.path.insert(0, TESTS)
import random, signal
from contextlib import suppress
from test_program_calls import *
from devmod_runtime._program.temporaries import memory_of
f = normalize("opencl")["normalize"]
stream, rng, interrupts = f.device.stream(), random.Random(1), 0
bound = f.bind(f.device.from_numpy(X), f.device.from_numpy(W), y=f.device.empty((5, 8), "float32"), stream=stream)

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
while interrupts < 100:
    rows = rng.randint(1, 5)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.random() * 0.001 + 1e-6)
            bound() if rng.random() < 0.3 else f(X[:rows], W, stream=stream)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupts += 1
    assert not memory_of(stream).lock._is_owned() and not memory_of(stream).is_used
    assert equal(f(X[:rows], W, stream=stream), expected(X[:rows]))


def call_in_handler(*_):  # in the middle of another call
    calls.append(equal(f(X, W, stream=stream), expected()))
    with suppress(devmod.LaunchError):  # "a handler of a signal launches a prepared program that the signal interrupted"
        bound()

calls = []
signal.signal(signal.SIGALRM, call_in_handler)
while len(calls) < 100:
    signal.setitimer(signal.ITIMER_REAL, rng.random() * 0.001 + 1e-6)
    assert equal(f(X, W, stream=stream), expected())
    bound()
signal.setitimer(signal.ITIMER_REAL, 0)
assert all(calls)
import os
child = os.fork()
if not child:
    refused = 0
    for act in (lambda: f(X, W), bound, bound.time, lambda: f.bind(X, W, y=X), lambda: f.on("opencl")):
        try:
            act()
        except devmod.LaunchError as error:
            refused += "forked" in str(error)
    os._exit(refused)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="timers and forks are POSIX's")
@pytest.mark.row("R32")
def test_an_interrupt_leaves_the_locks_free_and_a_child_is_refused() -> None:
    first_device("opencl")
    run_python(f"TESTS = {str(Path(__file__).parent)!r}\n{INTERRUPTED}", "-W", "ignore")


# -- what a program shows of itself


def test_a_program_describes_itself(function: Any) -> None:
    arguments = (
        "x: 'float32[rows, columns]', weight: 'float32[columns]', epsilon: 'float32' = 1e-05"
    )
    keywords = "y: 'float32[rows, columns]' = None, stream=None"
    assert (
        str(inspect.signature(function))
        == f"({arguments}, *, {keywords}) -> 'float32[rows, columns]'"
    )
    text = "normalize(x: float32[rows, columns], weight: float32[columns], epsilon: float32 = 1e-05) -> y: float32[rows, columns]"
    assert repr(function) == f"<Program opencl {text}>"
    assert (function.__name__, function.kind, function.device) == (
        "normalize",
        "opencl",
        first_device("opencl"),
    )
    lines = inspect.getdoc(function).splitlines()  # type: ignore[union-attr]
    assert (lines[0], lines[-1]) == (
        f"The program {text} on opencl.",
        "    scale, square_sums, in 2 steps",
    )
    assert "y: float32[rows, columns], by name; default: a new array, which is returned" in lines
    assert "<caption>opencl program normalize</caption>" in function._repr_html_()
    assert "<td>weight</td><td>float32[columns]</td>" in function._repr_html_()
    with pytest.raises(
        TypeError,
        match=r"^cannot pickle or copy 'ProgramFunction' object: it belongs to this process",
    ):
        pickle.dumps(function)
    text = "the steps of a program have their own, which follow from the shapes and the scalars of the call"
    assert (
        refusal(lambda: function[2, 64])
        == f"the opencl program 'normalize': f[…] is no launch: {text}"
    )
    assert (
        refusal(function.on, 3)
        == "the opencl program 'normalize': on() takes a device, such as 'opencl', got int"
    )
