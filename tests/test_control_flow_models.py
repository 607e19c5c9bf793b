"""ONNX's If, Loop and Scan, where what they decide is known at the export."""

from __future__ import annotations

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal

from devmod.errors import CompileError

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
import onnx
from onnx_models import check_close, check_half, computed, expected, program, save, traced

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("renders_here")]
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


def loop(nodes: str, value: str = "float[4] v", results: str = "float[] next") -> str:
    """The body of a loop, in ONNX's language."""
    return f"body (int64 i, bool go, {value}) => (bool goes, {results}) {{ {nodes} }}"


def branch(nodes: str) -> str:
    return f"branch () => (float[] z) {{ {nodes} }}"


#: Halves what is carried, and adds a row.
ADD_ROW = """
    row = Gather <axis=0> (x, i)
    halved = Mul(v, half)
    next = Add(halved, row)
"""
#: Also gives the sum of that and the number of the turn.
NUMBERED = loop(
    f"{ADD_ROW} number = Cast <to=1> (i) each = Add(next, number) goes = Identity(go)",
    results="float[] next, float[] each",
)
FIRST_TWO = loop(f"goes = Less(i, two) {ADD_ROW}")
IN_LOOP = (
    f"If <then_branch = {branch('z = Add(v, one)')}, else_branch = {branch('z = Sub(v, one)')}>"
)
BRANCHING = loop(f"""
    never = Greater(zero, two)
    own = {IN_LOOP} (never)
    row = Gather <axis=0> (x, i)
    next = Add(own, row)
    goes = Identity(go)
""")
GROWING = loop("next = Concat <axis=0> (v, x) goes = Identity(go)", "float[] v")
#: Its second turn has another branch than the first one.
CHANGING = loop(
    f"""
        own_shape = Shape(v)
        rows = Gather(own_shape, zero)
        is_long = Greater(rows, count)
        more = If <then_branch = {branch("z = Add(x, one)")}, else_branch = {branch("z = Sub(x, one)")}> (is_long)
        next = Concat <axis=0> (v, more)
        goes = Identity(go)
    """,
    "float[] v",
)
SUMS = """
    body (float[4] v, float[4] row) => (float[] next, float[] each) {
        next = Add(v, row)
        each = Mul(next, half)
    }
"""
IS_LARGE = "shape = Shape(x) rows = Gather(shape, zero) large = Greater(rows, three)"
PLUS = branch("z = Add(x, one)")
MINUS = branch("z = Sub(x, one)")
PLUS_FIRST = branch("z = Add(first, one)")
MINUS_FIRST = branch("z = Sub(first, one)")
#: A branch within a branch, by a length.
INNER = branch(f"""
    own_shape = Shape(x)
    own_rows = Gather(own_shape, zero)
    is_equal = Equal(own_rows, count)
    z = If <then_branch = {PLUS}, else_branch = {MINUS}> (is_equal)
""")
CHOICE = f"y = If <then_branch = {PLUS}, else_branch = {MINUS}> (large)"
#: Its first value is the row of three turns before.
LATE = """
    body (float[4] u, float[4] v, float[4] w, float[4] row) => (float[] a, float[] b, float[] c) {
        a = Identity(v)
        b = Identity(w)
        c = Identity(row)
    }
"""
BACKWARD = "scan_input_directions = [1], scan_output_directions = [1]"
CASES = {
    "a loop": (f"y, z = Loop <body = {NUMBERED}> (count, , first)", 1),
    "a loop with a condition that goes on": (
        f"y, z = Loop <body = {NUMBERED}> (count, true, first)",
        1,
    ),
    "a loop whose condition ends it": (f"y = Loop <body = {FIRST_TWO}> (count, true, first)", 0),
    "a loop without a limit": (f"y = Loop <body = {FIRST_TWO}> (, true, first)", 0),
    "a loop whose value grows": (f"y = Loop <body = {GROWING}> (two, true, x)", 0),
    "a scan": (f"y, z = Scan <body = {SUMS}, num_scan_inputs = 1, {BACKWARD}> (first, x)", 1),
    "a branch": (f"{IS_LARGE} {CHOICE}", 0),
    "a result that no input decides": ("y = ConstantOfShape <value = float[1] {0.5}> (single)", 0),
    "a loop whose branches differ": (f"y = Loop <body = {CHANGING}> (two, true, x)", 0),
    "a loop with a branch": (f"y = Loop <body = {BRANCHING}> (count, , first)", 1),
    "a branch behind one that no input decides": (
        f"""
            never = Greater(zero, two)
            c = If <then_branch = {PLUS_FIRST}, else_branch = {MINUS_FIRST}> (never)
            {IS_LARGE}
            b = If <then_branch = {PLUS}, else_branch = {MINUS}> (large)
            y = Add(b, c)
        """,
        0,
    ),
    "a branch of a branch": (
        f"{IS_LARGE} y = If <then_branch = {INNER}, else_branch = {MINUS}> (large)",
        0,
    ),
}


#: The same after a product, which --half computes in float16.
PRODUCT = "p = MatMul(x, w)"
OF_PRODUCT = branch("z = Add(p, one)")
TIMES = loop("next = MatMul(v, w) goes = Identity(go)", "float[5, 4] v")
LONGER = loop("next = Concat <axis=0> (v, p) goes = Identity(go)", "float[] v")
HALVES = {
    "a loop": (f"{PRODUCT} y = Loop <body = {TIMES}> (three, , p)", 1),
    "a loop whose value grows": (f"{PRODUCT} y = Loop <body = {LONGER}> (two, true, x)", 0),
    "a scan": (f"{PRODUCT} y, z = Scan <body = {SUMS}, num_scan_inputs = 1> (first, p)", 1),
    "a branch": (
        f"{PRODUCT} {IS_LARGE} y = If <then_branch = {OF_PRODUCT}, else_branch = {MINUS}> (large)",
        0,
    ),
}


def write(nodes: str) -> None:
    parsed = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node
    save(parsed, {"x": X}, CONSTANTS, parsed[-1].output)


@pytest.mark.parametrize(("nodes", "repeats"), CASES.values(), ids=CASES)
def test_control_flow_that_is_known(nodes: str, repeats: int) -> None:
    first_device("opencl")
    write(nodes)
    wanted = expected({"x": X})
    check_close(computed({"x": X}), wanted, 1e-6)
    f = program("opencl")
    assert len(f.program.repeats) == repeats
    check_close(f(X), wanted, 1e-6)


@pytest.mark.parametrize("half", ["all", "weights"])
@pytest.mark.parametrize(("nodes", "repeats"), HALVES.values(), ids=HALVES)
def test_half_precision(nodes: str, repeats: int, half: str) -> None:
    first_device("opencl", "fp16")
    write(nodes)
    f = program("opencl", half=half)
    assert len(f.program.repeats) == repeats
    check_half(f(X), expected({"x": X}))


def test_what_depends_on_data_is_refused() -> None:
    depends = "depends on the data of an input or on the turn, and no program has that"
    sums = "sum = ReduceSum <keepdims=0> (x) large = Greater(sum, half) turns = Cast <to=7> (sum)"
    for last, text in (
        (CHOICE, f"If (output 'y'): its condition {depends}"),
        (
            f"y, z = Loop <body = {NUMBERED}> (turns, , first)",
            f"Loop (output 'y'): its count {depends}",
        ),
        (
            f"""
                late, later, last = Scan <body = {LATE}, num_scan_inputs = 1> (first, first, first, x)
                total = ReduceSum <keepdims=0> (late)
                is_more = Greater(total, half)
                y = If <then_branch = {PLUS}, else_branch = {MINUS}> (is_more)
            """,
            f"If (output 'y'): its condition {depends}",
        ),
    ):
        write(f"{sums} {last}")
        assert refusal(CompileError, traced) == text
