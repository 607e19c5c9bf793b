"""ONNX's If, Loop and Scan, where what they decide is known at the export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal

from devmod.errors import CompileError
from devmod.interop import tinygrad as interop

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
import onnx
from onnx_models import check_close, check_half, computed, expected, program, save, traced

pytestmark = pytest.mark.row("R47")
X = np.random.default_rng(0).standard_normal((5, 4)).astype("float32")
CONSTANTS = {
    "count": np.array(5, "int64"),
    "single": np.array([1], "int64"),
    "two": np.array(2, "int64"),
    "zero": np.array(0, "int64"),
    "three": np.array(3, "int64"),
    "true": np.array(True),
    "half": np.array(0.5, "float32"),
    "one": np.array(1, "float32"),
    "first": np.ones(4, "float32"),
    "w": np.random.default_rng(1).standard_normal((4, 4)).astype("float32") / 2,
}


@pytest.fixture(autouse=True)
def _cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with interop.cpu():
        yield


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node; "-" is an input that it does not have."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return onnx.helper.make_node(operator, names, outputs.split(), **attributes)


def graph(nodes: list[Any], inputs: dict[str, Any], outputs: list[str]) -> Any:
    """A graph. The inputs have ONNX's number of their type, and their shape."""
    info = onnx.helper.make_tensor_value_info
    return onnx.helper.make_graph(
        nodes,
        "graph",
        [info(name, *each) for name, each in inputs.items()],
        [info(name, 9 if name == "goes" else 1, None) for name in outputs],
    )


#: Halves what is carried, adds a row, and gives the sum of that and the number of the turn.
ADD_ROW = [
    node("Gather", "x i", "row", axis=0),
    node("Mul", "v half", "halved"),
    node("Add", "halved row", "next"),
    node("Cast", "i", "number", to=1),
    node("Add", "next number", "each"),
    node("Identity", "go", "goes"),
]
TURN = {"i": (7, []), "go": (9, []), "v": (1, [4])}
NUMBERED = graph(ADD_ROW, TURN, ["goes", "next", "each"])
FIRST_TWO = graph([node("Less", "i two", "goes"), *ADD_ROW[:3]], TURN, ["goes", "next"])
GROWING = graph(
    [node("Concat", "v x", "next", axis=0), node("Identity", "go", "goes")],
    {**TURN, "v": (1, None)},
    ["goes", "next"],
)
SUMS = graph(
    [node("Add", "v row", "next"), node("Mul", "next half", "each")],
    {"v": (1, [4]), "row": (1, [4])},
    ["next", "each"],
)
IS_LARGE = [
    node("Shape", "x", "shape"),
    node("Gather", "shape zero", "rows"),
    node("Greater", "rows three", "large"),
]
PLUS, MINUS = (graph([node(name, "x one", "z")], {}, ["z"]) for name in ("Add", "Sub"))
#: A branch within a branch, by a length.
INNER = graph(
    [
        node("Shape", "x", "own_shape"),
        node("Gather", "own_shape zero", "own_rows"),
        node("Equal", "own_rows count", "is_equal"),
        node("If", "is_equal", "z", then_branch=PLUS, else_branch=MINUS),
    ],
    {},
    ["z"],
)
CASES: dict[str, tuple[list[Any], int]] = {
    "a loop": ([node("Loop", "count - first", "y z", body=NUMBERED)], 1),
    "a loop with a condition that goes on": (
        [node("Loop", "count true first", "y z", body=NUMBERED)],
        1,
    ),
    "a loop whose condition ends it": ([node("Loop", "count true first", "y", body=FIRST_TWO)], 0),
    "a loop whose value grows": ([node("Loop", "two true x", "y", body=GROWING)], 0),
    "a scan": (
        [
            node(
                *("Scan", "first x", "y z"),
                body=SUMS,
                num_scan_inputs=1,
                scan_input_directions=[1],
                scan_output_directions=[1],
            )
        ],
        1,
    ),
    "a branch": (
        [*IS_LARGE, node("If", "large", "y", then_branch=PLUS, else_branch=MINUS)],
        0,
    ),
    "a result that no input decides": (
        [
            node(
                *("ConstantOfShape", "single", "y"),
                value=onnx.numpy_helper.from_array(np.array([0.5], "float32")),
            )
        ],
        0,
    ),
    "a branch of a branch": (
        [*IS_LARGE, node("If", "large", "y", then_branch=INNER, else_branch=MINUS)],
        0,
    ),
}


#: The same after a product, which --half computes in float16.
PRODUCT = node("MatMul", "x w", "p")
OF_PRODUCT = graph([node("Add", "p one", "z")], {}, ["z"])
TIMES = graph(
    [node("MatMul", "v w", "next"), node("Identity", "go", "goes")],
    {**TURN, "v": (1, [5, 4])},
    ["goes", "next"],
)
LONGER = graph(
    [node("Concat", "v p", "next", axis=0), node("Identity", "go", "goes")],
    {**TURN, "v": (1, None)},
    ["goes", "next"],
)
HALVES: dict[str, tuple[list[Any], int]] = {
    "a loop": ([PRODUCT, node("Loop", "three - p", "y", body=TIMES)], 1),
    "a loop whose value grows": ([PRODUCT, node("Loop", "two true x", "y", body=LONGER)], 0),
    "a scan": ([PRODUCT, node("Scan", "first p", "y z", body=SUMS, num_scan_inputs=1)], 1),
    "a branch": (
        [PRODUCT, *IS_LARGE, node("If", "large", "y", then_branch=OF_PRODUCT, else_branch=MINUS)],
        0,
    ),
}


def write(nodes: list[Any]) -> None:
    save(nodes, {"x": X}, CONSTANTS, nodes[-1].output)


@pytest.mark.parametrize(("nodes", "repeats"), CASES.values(), ids=CASES)
def test_control_flow_that_is_known(nodes: list[Any], repeats: int) -> None:
    first_device("opencl")
    write(nodes)
    wanted = expected({"x": X})
    check_close(computed({"x": X}), wanted, 1e-6)
    f = program("opencl")
    assert len(f.program.repeats) == repeats
    check_close(f(X), wanted, 1e-6)


@pytest.mark.parametrize("half", ["all", "weights"])
@pytest.mark.parametrize(("nodes", "repeats"), HALVES.values(), ids=HALVES)
def test_half_precision(nodes: list[Any], repeats: int, half: str) -> None:
    first_device("opencl")
    write(nodes)
    f = program("opencl", half=half)
    assert len(f.program.repeats) == repeats
    check_half(f(X), expected({"x": X}))


def test_what_depends_on_data_is_refused() -> None:
    depends = "depends on the data of an input or on the turn, and no program has that"
    sums = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Greater", "sum half", "large"),
        node("Cast", "sum", "turns", to=7),
    ]
    for last, text in (
        (
            node("If", "large", "y", then_branch=PLUS, else_branch=MINUS),
            f"If (output 'y'): its condition {depends}",
        ),
        (
            node("Loop", "turns - first", "y z", body=NUMBERED),
            f"Loop (output 'y'): its count {depends}",
        ),
    ):
        write([*sums, last])
        assert refusal(CompileError, traced) == text
