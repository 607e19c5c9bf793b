"""State of programs: arrays that last from call to call, with a first value."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import raised, refusal

import devmod
from devmod import ArgumentError, FormatError
from devmod.backend import read_program
from devmod_runtime._program import plan

pytestmark = pytest.mark.row("R45")
KINDS = ("opencl", "webgpu", "hexagon")
CL = """
kernel void count(global float *total, global const float *x, global float *y, int rows) {
  int i = get_global_id(0); if (i < rows) { total[i] += x[i]; y[i] = total[i]; }
}"""
C = "void count(float *total, const float *x, float *y, int rows) { for (int i = 0; i < rows; i++) { total[i] += x[i]; y[i] = total[i]; } }"
WGSL = """
@group(0) @binding(0) var<storage, read_write> total: array<f32>;
@group(0) @binding(1) var<storage> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> rows: i32;
@compute @workgroup_size(4) fn count(@builtin(global_invocation_id) id: vec3u) {
  if (i32(id.x) < rows) { total[id.x] += x[id.x]; y[id.x] = total[id.x]; }
}"""
STEP = "count(total=total, x=x, y=y, rows=rows, threads=rows)"
FIRST = np.arange(4, dtype="float32")


def kernels(*kinds: str) -> devmod.Module:
    texts = {
        "opencl": (CL, "opencl"),
        "webgpu": (WGSL, "webgpu"),
        "hexagon": (C, "hexagon -arch=v66"),
    }
    return devmod.bundle(
        *[
            devmod.compile(*texts[kind], name="count", block=4 if kind == "opencl" else None)
            for kind in kinds
        ]
    )


def counter(state: str, *kinds: str, name: str = "p", **declared: Any) -> devmod.Module:
    """A program that adds to its state, and returns it."""
    module = devmod.bundle(kernels(*kinds), devmod.const_loader({"first": FIRST}, {}), mixed=True)
    declared = {
        "inputs": ["x: float32[rows]"],
        "outputs": ["y: float32[rows]"],
        "states": [state],
        "steps": [STEP],
        **declared,
    }
    return devmod.loads(devmod.dumps(devmod.program(name, module, **declared)))


@pytest.fixture(scope="module")
def zeros() -> devmod.Module:
    return counter("total: float32[4] = 0", *KINDS, requires=["rows == 4"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarded", [False, True])
def test_a_state_lasts_from_call_to_call(kind: str, guarded: bool) -> None:
    device = first_device(kind)
    module = counter("total: float32[4] = first", *KINDS, constants=["first: float32[4]"])
    with devmod.guard() if guarded else device.stream():
        f: Any = module["p"].on(kind)
        one, other = f.state(), f.state()
        x = np.ones(4, "float32")
        for number in (1, 2, 3):
            found = f(x, state=one)
            assert isinstance(
                found, np.ndarray
            )  # the arrays of the state are no device arrays of the caller's
            assert found.tolist() == (FIRST + number).tolist()
        assert f(device.from_numpy(x), state=other).numpy().tolist() == (FIRST + 1).tolist()
        y = device.empty(4, "float32")
        launch = f.bind(device.from_numpy(x), y=y, state=one)
        launch()
        launch()
        assert (y.numpy().tolist(), one["total"].numpy().tolist()) == ((FIRST + 5).tolist(),) * 2
        # No call writes the first value.
        assert f.constants["first"].numpy().tolist() == FIRST.tolist()


def test_two_threads_have_states_of_their_own(zeros: devmod.Module) -> None:
    first_device("opencl")
    f: Any = zeros["p"].on("opencl")
    results: dict[int, list[float]] = {}

    def run(number: int) -> None:
        state, x = f.state(), np.full(4, number, "float32")
        results[number] = [float(f(x, state=state)[0]) for _ in range(12)]

    threads = [threading.Thread(target=run, args=(number,)) for number in (1, 2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == {number: [number * count for count in range(1, 13)] for number in (1, 2)}


def test_a_state_is_arrays_by_name_that_can_be_kept_and_given_back(zeros: devmod.Module) -> None:
    first_device("opencl")
    f: Any = zeros["p"].on("opencl")
    state, x = f.state(), np.ones(4, "float32")
    f(x, state=state)
    kept = {name: array.numpy() for name, array in state.items()}
    f(x, state=state)
    assert f(x, state={**kept, "of another program": 0}).tolist() == [2.0] * 4
    assert kept["total"].tolist() == [2.0] * 4


def test_a_length_of_the_state_alone_is_given_once() -> None:
    first_device("opencl")
    f: Any = counter("total: float32[size, 2] = 0", "opencl", requires=["size * 2 == rows"])["p"]
    assert f.open_lengths == ["size"]
    with pytest.raises(devmod.ArgumentError, match="the length 'size' is an integer, got 'a'"):
        f.state(size="a")
    state = f.state(size=np.int64(2))
    assert state["total"].shape == (2, 2)
    assert f(np.ones(4, "float32"), state=state).tolist() == [1.0] * 4


CALLS: dict[str, tuple[Any, str, str]] = {
    "no state": (
        lambda f: f(FIRST),
        "it has a state, 'total': s = f.state() makes it, and f(…, state=s) uses it",
        "state",
    ),
    "no arrays": (
        lambda f: f(FIRST, state=3),
        "state= takes what f.state() returns, arrays by name: 'total'; got int",
        "state",
    ),
    "too few": (
        lambda f: f(FIRST, state={"x": 1}),
        "state= takes what f.state() returns, arrays by name: 'total'; got 'x'",
        "state",
    ),
    "by name": (
        lambda f: f(FIRST, total=FIRST, state=f.state()),
        "'total' is of the state, which state= gives",
        "total",
    ),
    "length": (lambda f: f.state(size=4), "its state has no length 'size' to give", "size"),
    "shape": (
        lambda f: f(FIRST, state={"total": FIRST[:3].copy()}),
        "the argument 'total' has the shape (3,); dimension 1 is 3, and expected is 4",
        "total",
    ),
    "overlap": (
        lambda f: f(FIRST, state={"total": FIRST}),
        "the argument 'total' overlaps the argument 'x', and the program writes to one of them; pass a copy of it",
        "total",
    ),
}


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.row("R33")
def test_a_wrong_state_names_the_argument(zeros: devmod.Module, case: str) -> None:
    first_device("opencl")
    call, text, argument = CALLS[case]
    error = raised(ArgumentError, lambda: call(zeros["p"].on("opencl")))
    assert (str(error), error.argument) == (
        f"the opencl program 'p': {text}",
        argument,
    )


def test_a_program_without_a_state_says_so_and_a_missing_length_is_named() -> None:
    first_device("opencl")
    plain: Any = counter(
        "total: float32[4] = 0", "opencl", states=[], updates=["total: float32[rows]"]
    )["p"]
    with pytest.raises(ArgumentError, match=r"^the opencl program 'p': it has no state$"):
        plain.state()
    with pytest.raises(
        ArgumentError,
        match=r"^the opencl program 'p': its state also needs 'size': f\.state\(size=…\)$",
    ):
        counter("total: float32[size] = 0", "opencl")["p"].state()  # type: ignore[attr-defined]


DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "no value": (
        {"states": ["total: float32[4]"]},
        "states: 'total: float32[4]' has no first value; a state begins as = 0, or as a constant of its type and shape",
    ),
    "one": (
        {"states": ["total: float32[4] = 1"]},
        "states: 'total: float32[4] = 1' has a value; of the arrays, only outputs, temporaries and states have one, which is 0",
    ),
    "input": (
        {"states": ["total: float32[4] = x"]},
        "'total' cannot begin as 'x': only a state can, as a constant of its type and shape",
    ),
    "type": (
        {"states": ["total: float32[4] = w"], "constants": ["w: int32[4]"]},
        "'total' cannot begin as 'w': only a state can, as a constant of its type and shape",
    ),
    "image": (
        {"states": ["total: r32float[4, 4] = 0"]},
        "the state 'total' is an image; a state is an array",
    ),
    "name": (
        {"states": ["total: float32[4] = 0"], "inputs": ["x: float32[rows]", "state: int32"]},
        "'state' is the keyword of a call that gives the program its state; take another name",
    ),
}


@pytest.mark.parametrize("case", DECLARED)
def test_a_wrong_declaration_of_a_state_is_refused(case: str) -> None:
    declared, text = DECLARED[case]
    assert refusal(FormatError, counter, "", "opencl", **declared) == f"the program 'p': {text}"


def test_a_program_gives_the_state_of_another_one_as_an_array() -> None:
    first_device("opencl")
    module = counter("total: float32[4] = 0", "opencl", name="inner")
    steps = ["inner(x=x, total=sums, y=y)", "inner(x=x, total=sums, y=y)"]
    declared = {"inputs": ["x: float32[rows]"], "outputs": ["y: float32[rows]"], "steps": steps}
    f: Any = devmod.program("outer", module, states=["sums: float32[4] = 0"], **declared)["outer"]  # type: ignore[arg-type]
    state = f.state()
    assert [f(np.ones(4, "float32"), state=state).tolist() for _ in range(2)] == [
        [2.0] * 4,
        [4.0] * 4,
    ]
    with pytest.raises(
        FormatError,
        match="its argument 'total' is written, and 'x' is no array that this program may write",
    ):
        devmod.program("outer", module, **{**declared, "steps": ["inner(x=x, total=x, y=y)"]})  # type: ignore[arg-type]


def test_the_file_has_the_state_and_its_first_value() -> None:
    module = counter("total: float32[4] = first", "opencl", constants=["first: float32[4]"])
    (owner,) = (each for each in devmod.backend.walk(module) if each.kind == "program")
    state = read_program("p", owner).declared["total"]
    assert (state.role, state.type, state.shape, state.initial, state.cleared) == (
        "state",
        "float32",
        (4,),
        "first",
        False,
    )


@pytest.mark.usefixtures("in_process")
def test_the_tools_make_the_state_of_a_call(zeros: devmod.Module) -> None:
    """verify calls a program several times: each with a new state."""
    first_device("opencl")
    first_device("webgpu")
    found = devmod.verify(zeros, "p").functions["p"]
    assert {
        each.outcome for each in found if each.device.split(":")[0] in ("opencl", "webgpu")
    } == {"reference", "agrees"}
    (measured,) = devmod.bench(zeros, "p", devices=["opencl"]).measurements
    assert not measured.problem


def test_a_new_position_prepares_the_launches_that_depend_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A text has a position of its own for each token, and most launches do not depend on it."""
    first_device("opencl")
    steps = [
        "count(total=total, x=x, y=y, rows=rows, threads=rows)",
        "count(total=total, x=x, y=y, rows=at + 1, threads=at + 1)",
    ]
    f: Any = counter(
        "total: float32[4] = 0", "opencl", inputs=["x: float32[rows]", "at: int32"], steps=steps
    )["p"].on("opencl")  # type: ignore[attr-defined]
    state, x, made = f.state(), np.ones(4, "float32"), []
    prepare = plan.Step.call
    monkeypatch.setattr(
        plan.Step,
        "call",
        lambda step, *args, **keywords: made.append(step) or prepare(step, *args, **keywords),
    )
    results = [f(x, at, state=state).tolist() for at in range(3)]
    assert results == [[2, 1, 1, 1], [4, 3, 2, 2], [6, 5, 4, 3]]
    assert len(made) == 2 + 1 + 1
    f(x[:2], 1, state=state)  # the second step has had its threads
    assert len(made) == 2 + 1 + 1 + 1
