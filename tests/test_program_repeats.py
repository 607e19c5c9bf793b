"""Repeats of programs: groups of steps that run several times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal

import devmod
from devmod import ArgumentError
from devmod_workbench._cli import main

pytestmark = pytest.mark.row("R45")
KINDS = ("cuda", "rocm", "metal", "vulkan", "opencl", "hexagon", "webgpu")
CELL = "if (i < n) { h[i] = h[i] * factor + x[t * n + i]; y[t * n + i] = h[i]; }"
CL = f"""
kernel void cell(global const float *x, global float *h, global float *y, int t, int n, float factor) {{
  int i = get_global_id(0); {CELL}
}}"""
CU = f"""
extern "C" __global__ void cell(const float *x, float *h, float *y, int t, int n, float factor) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x; {CELL}
}}"""
MSL = f"""#include <metal_stdlib>
kernel void cell(device const float *x [[buffer(0)]], device float *h [[buffer(1)]], device float *y [[buffer(2)]],
                 constant int &t [[buffer(3)]], constant int &n [[buffer(4)]], constant float &factor [[buffer(5)]],
                 uint id [[thread_position_in_grid]]) {{ int i = id; {CELL} }}"""
C = f"""
void cell(const float *x, float *h, float *y, int t, int n, float factor) {{ for (int i = 0; i < n; i++) {CELL} }}"""
WGSL = """
struct P { t: i32, n: i32, factor: f32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> h: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> p: P;
@compute @workgroup_size(64) fn cell(@builtin(global_invocation_id) id: vec3u) {
  let i = i32(id.x);
  if (i < p.n) { h[i] = h[i] * p.factor + x[p.t * p.n + i]; y[p.t * p.n + i] = h[i]; }
}"""
TEXTS = {
    "cuda": (CU, "cuda -arch=compute_80"),
    "rocm": (CU, "rocm -arch=gfx1100"),
    "metal": (MSL, "metal"),
    "vulkan": (CL, "vulkan"),
    "opencl": (CL, "opencl"),
    "hexagon": (C, "hexagon -arch=v66"),
    "webgpu": (WGSL, "webgpu"),
}
STEP = "cell(x=x, h=h, y=y, t={}, n=n, factor=factor, threads=n)"
DECLARED: dict[str, Any] = {
    "inputs": ["x: float32[rows, n]", "factor: float32 = 0.5", "more: int32 = 0"],
    "outputs": ["y: float32[rows, n] = 0"],
    "temporaries": ["h: float32[n] = 0"],
}
X = np.random.default_rng(0).normal(size=(7, 5)).astype("float32")


def kernels(*kinds: str) -> devmod.Module:
    modules = []
    for kind in kinds:
        text, target = TEXTS[kind]
        block = None
        if kind not in ("hexagon", "webgpu"):
            block = 64
        language = {"cuda": "CUDA C++", "rocm": "HIP", "vulkan": "OpenCL C"}.get(kind)
        modules.append(devmod.compile(text, target, name="cell", block=block, language=language))
    return devmod.bundle(*modules)


def file_of(steps: Any, *kinds: str, **changes: Any) -> devmod.Module:
    """A program that was written to a file."""
    module = devmod.program("p", kernels(*kinds), steps=steps, **{**DECLARED, **changes})
    return devmod.loads(devmod.dumps(module))


def program(steps: Any, *kinds: str, **changes: Any) -> Any:
    return file_of(steps, *kinds, **changes)["p"]


def forward(*kinds: str) -> Any:
    """Each row, from the first to the last."""
    return program(devmod.repeat("rows", "t", STEP.format("t")), *kinds)


def expected(x: Any, order: Any = None, factor: float = 0.5) -> Any:
    h = np.zeros(x.shape[1], x.dtype)
    y = np.zeros_like(x)
    for t in range(len(x)) if order is None else order:
        h = h * np.float32(factor) + x[t]
        y[t] = h
    return y


NESTED = [
    devmod.repeat(
        "rows // 2 - 1",
        "i",
        [
            devmod.repeat(2, "j", STEP.format("rows - 1 - (i * 2 + j)")),
            STEP.format("rows - 1 - i * 2"),
        ],
    ),
    devmod.repeat("more", "i", STEP.format("i")),
    STEP.format(0),
]


def nested_order(more: int) -> list[int]:
    """The rows of the steps of `NESTED`, for 7."""
    return [6, 5, 6, 4, 3, 4, *range(more), 0]


@pytest.fixture(scope="module")
def every_kind() -> Any:
    return forward(*KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_run_once_for_each_turn(kind: str, every_kind: Any) -> None:
    device = first_device(kind)
    f = every_kind.on(kind)
    for rows in (7, 1, 0, 3):
        assert np.allclose(f(X[:rows]), expected(X[:rows]), atol=1e-5)
    assert np.allclose(f(X, factor=0.25), expected(X, factor=0.25), atol=1e-5)
    x = device.from_numpy(X)
    y = device.zeros((7, 5), "float32")
    f(x, y=y)
    assert np.allclose(y.numpy(), expected(X), atol=1e-5)
    y = device.zeros((7, 5), "float32")
    launch = f.bind(x, y=y, factor=0.75)
    for _ in range(2):
        launch()
        assert np.allclose(y.numpy(), expected(X, factor=0.75), atol=1e-5)


def test_what_a_turn_reads_again_shares_no_memory_with_what_another_step_of_it_writes() -> None:
    text = """
kernel void twice(global const float *x, global float *y) { y[get_global_id(0)] = 2 * x[get_global_id(0)]; }
kernel void add(global const float *x, global float *y) { y[get_global_id(0)] += x[get_global_id(0)]; }"""
    turn = [f"{step}, threads=n)" for step in ("twice(x=a, y=b", "twice(x=b, y=c", "add(x=c, y=y")]
    f = devmod.program(
        "p",
        devmod.compile(text, "opencl", block=1),
        inputs=["x: float32[n]"],
        outputs=["y: float32[n] = 0"],
        temporaries=["a: float32[n]", "b: float32[n]", "c: float32[n]"],
        steps=["twice(x=x, y=a, threads=n)", devmod.repeat(3, "t", turn)],
    )["p"].on(first_device("opencl"))
    x = np.arange(5, dtype="float32")
    assert f(x).tolist() == (3 * 8 * x).tolist()


@pytest.mark.parametrize("kind", ["opencl", "webgpu"])
@pytest.mark.parametrize("guarded", [False, True])
def test_repeats_within_repeats(kind: str, guarded: bool) -> None:
    """The inner one runs twice for each turn of the outer one, backward, and behind both is one
    more.
    """
    first_device(kind)
    f = program(NESTED, "opencl", "webgpu").on(kind)
    for more in (0, 2):
        if guarded:
            with devmod.guard():
                found = f(X, more=more)
        else:
            found = f(X, more=more)
        assert np.allclose(found, expected(X, nested_order(more)), atol=1e-5)


def test_what_begins_cleared_is_cleared_once() -> None:
    """Also where the first step that uses it is within a repeat, and where no turn runs."""
    first_device("opencl")
    f = program([devmod.repeat("more", "i", [STEP.format(0), STEP.format("i")])], "opencl")
    f(X, more=7)  # leaves numbers in the memory
    assert not f(X, more=0).any()
    order = [0, 0, 0, 1, 0, 2]
    assert np.allclose(f(X, more=3), expected(X, order), atol=1e-6)


def test_what_no_turn_uses_is_not_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two repeats, one runs: the temporaries of the other cost nothing."""
    device = first_device("opencl")
    text = """
    kernel void copy(global const float *x, global float *y, int n) { int i = get_global_id(0); if (i < n) y[i] = x[i]; }"""
    module = devmod.program(
        "p",
        devmod.compile(text, "opencl", block=64),
        inputs=["x: float32[n]"],
        outputs=["y: float32[n]"],
        temporaries=["a: float32[n]", "b: float32[n]"],
        steps=[
            devmod.repeat(
                "1 - min(1, n // 5)",
                "short",
                ["copy(x=x, y=a, n=n, threads=n)", "copy(x=a, y=y, n=n, threads=n)"],
            ),
            devmod.repeat(
                "min(1, n // 5)",
                "long",
                ["copy(x=x, y=b, n=n, threads=n)", "copy(x=b, y=y, n=n, threads=n)"],
            ),
        ],
    )
    cleared: list[int] = []
    start_clear = type(device).start_clear

    def clear(own: Any, memory: Any, nbytes: int, stream: Any) -> Any:
        cleared.append(nbytes)
        return start_clear(own, memory, nbytes, stream)

    monkeypatch.setattr(type(device), "start_clear", clear)
    f: Any = module["p"].on(device)
    for count in (4, 5):
        x = np.arange(count, dtype="float32")
        assert f(x).tolist() == x.tolist()
    assert not cleared


def test_what_a_repeat_uses_shares_no_memory_with_its_other_arrays() -> None:
    """The second array keeps its numbers over the turns, though a step alone uses it."""
    first_device("opencl")
    text = """
    kernel void copy(global const float *x, global float *y, int t, int n) { int i = get_global_id(0); if (i < n) y[i] = x[t * n + i]; }
    kernel void add(global const float *x, global float *y, int n) { int i = get_global_id(0); if (i < n) y[i] += x[i]; }"""
    module = devmod.program(
        "p",
        devmod.compile(text, "opencl", block=64),
        inputs=["x: float32[rows, n]"],
        outputs=["y: float32[n]"],
        temporaries=["row: float32[n]", "sum: float32[n] = 0"],
        steps=[
            devmod.repeat(
                "rows",
                "t",
                [
                    "copy(x=x, y=row, t=t, n=n, threads=n)",
                    "add(x=row, y=sum, n=n, threads=n)",
                ],
            ),
            "copy(x=sum, y=y, t=0, n=n, threads=n)",
        ],
    )
    f: Any = module["p"]
    assert np.allclose(f(X), X.sum(0), atol=1e-5)
    assert f.temporary_bytes(rows=7, n=5) == 40


def test_a_call_refuses_a_count_before_its_first_launch() -> None:
    first_device("opencl")
    refused = "the opencl program 'p': "
    f = program([devmod.repeat("more - 1", "i", STEP.format("i // (i - 3)"))], "opencl")
    y = np.full_like(X, 3)
    for f_, more, text in (
        (f, 0, refused + "the repeat of 'i' has more - 1 turns, and that is -1 with more=0"),
        (f, 5, refused + "step 1 ('cell'): i // (i - 3) divides by zero"),
        (
            f,
            2**20 + 2,
            refused + "its repeats have 1048577 launches, and a call has at most 1048576",
        ),
    ):
        assert refusal(ArgumentError, f_, X, more=more, y=y) == text
    assert (y == 3).all()
    f = program([devmod.repeat("more", "i", STEP.format("i * 1000000000"))], "opencl")
    assert refusal(ArgumentError, f, X, more=9, y=y) == (
        "the opencl program 'p', step 1: the opencl function 'cell': argument 4 't': 3000000000 does not fit int32 (-2147483648 to 2147483647)"
    )
    assert (y == 3).all()
    f = program(
        [devmod.repeat("more // factor_", "i", STEP.format("i"))],
        "opencl",
        inputs=[*DECLARED["inputs"], "factor_: int32 = 0"],
    )
    assert (
        refusal(ArgumentError, f, X)
        == refused + "the repeat of 'i': more // factor_ divides by zero"
    )


def test_inspect_and_verify(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    first_device("opencl")
    path = str(tmp_path / "p.devmod")
    steps = [
        devmod.repeat("rows", "t", [STEP.format("t"), devmod.repeat(2, "j", STEP.format("j"))])
    ]
    devmod.save(devmod.program("p", kernels("opencl"), steps=steps, **DECLARED), path)
    assert main(["inspect", path]) == 0
    out = capsys.readouterr().out
    assert "repeat: steps 1 to 2, for t in range(rows)\n" in out
    assert "repeat: step 2, for j in range(2)\n" in out
    assert main(["verify", path, "p", "rows=2", "n=8", "more=0"]) == 0
