"""Kernels of convolutions that are written by hand: what they compute on devices."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import check_each

import devmod
from devmod.interop import tinygrad as interop

pytest.importorskip("tinygrad", reason="tinygrad is not installed")
from tinygrad import Tensor

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("exporting_on_cpu")]
RANDOM = np.random.default_rng(7)
#: A line that each of these kernels has, and no other.
MARK = "int segment ="


def array(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def convolution(
    x: Any,
    weight: Any,
    pads: Any = (0, 0, 0, 0),
    stride: Any = (1, 1),
    hole: Any = (1, 1),
    groups: int = 1,
) -> Any:
    """Return a convolution in float64. `pads` are those at the left, right, top and bottom."""
    left, right, top, bottom = pads
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    count, channels, height, width = weight.shape
    rows = (x.shape[2] - hole[0] * (height - 1) - 1) // stride[0] + 1
    columns = (x.shape[3] - hole[1] * (width - 1) - 1) // stride[1] + 1
    result = np.zeros((x.shape[0], count, rows, columns))
    own = count // groups
    for group, i, j in product(range(groups), range(height), range(width)):
        inputs = x[:, group * channels : (group + 1) * channels]
        part = inputs[:, :, i * hole[0] :, j * hole[1] :][:, :, :: stride[0], :: stride[1]]
        part = part[:, :, :rows, :columns]
        filters = weight[group * own : (group + 1) * own, :, i, j].astype(np.float64)
        with np.errstate(invalid="ignore"):
            result[:, group * own : (group + 1) * own] += np.einsum("oc,ncyx->noyx", filters, part)
    return result


def check(function: Any, wanted: Any, *arrays: Any) -> None:
    """Compare a program with the result that is expected, on each device of OpenCL."""
    first_device("opencl")
    names = [f"x{number}" for number in range(len(arrays))]
    module = interop.export(function, *map(Tensor, arrays), targets="opencl", name="f", names=names)
    for device in devmod.devices("opencl"):
        got = np.asarray(module["f"].on(device)(*arrays))
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))
        largest = abs(wanted[np.isfinite(wanted)]).max()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * largest)


#: The input, the filters, the pads, and the steps, holes and groups.
CASES: dict[str, Any] = {
    "colors": ((1, 3, 19, 40), (16, 3, 7, 7), (3, 3, 3, 3), {"stride": (2, 2)}),
    "colors, 3 × 3": ((2, 3, 12, 33), (8, 3, 3, 3), (1, 1, 1, 1), {}),
    "5 × 5": ((1, 8, 9, 20), (70, 8, 5, 5), (2, 2, 2, 2), {}),
    "9 × 9": ((1, 2, 17, 17), (6, 2, 9, 9), (4, 4, 4, 4), {}),
    "7 columns": ((1, 24, 7, 7), (65, 24, 3, 3), (1, 1, 1, 1), {}),
    "5 columns, many channels": ((1, 300, 5, 5), (9, 300, 3, 3), (1, 1, 1, 1), {}),
    "13 columns": ((1, 4, 6, 13), (3, 4, 3, 3), (1, 1, 1, 1), {}),
    "130 columns": ((1, 2, 4, 130), (5, 2, 3, 3), (1, 1, 1, 1), {}),
    "261 columns": ((1, 2, 3, 261), (1, 2, 3, 3), (1, 1, 1, 1), {}),
    "depthwise": ((1, 6, 11, 20), (6, 1, 3, 3), (1, 1, 1, 1), {"groups": 6}),
    "depthwise, steps": ((2, 5, 21, 37), (5, 1, 5, 5), (2, 2, 2, 2), {"groups": 5, "stride": (2, 2)}),
    "groups": ((1, 8, 9, 18), (12, 4, 3, 3), (1, 1, 1, 1), {"groups": 2}),
    "steps of 3 and 2": ((1, 4, 20, 50), (4, 4, 3, 5), (2, 2, 1, 1), {"stride": (2, 3)}),
    "holes": ((1, 4, 20, 30), (4, 4, 3, 3), (2, 2, 3, 3), {"hole": (3, 2)}),
    "holes and steps": ((1, 4, 21, 41), (4, 4, 3, 3), (3, 3, 2, 2), {"hole": (2, 3), "stride": (1, 2)}),
    "other pads": ((1, 4, 9, 21), (4, 4, 4, 4), (0, 3, 2, 1), {}),
    "other pads and steps": ((1, 4, 9, 43), (4, 4, 2, 4), (3, 0, 0, 1), {"stride": (1, 2)}),
    "one row": ((1, 4, 5, 30), (6, 4, 1, 7), (3, 3, 0, 0), {}),
    "points with steps": ((1, 20, 9, 41), (6, 20, 1, 1), (0, 0, 0, 0), {"stride": (2, 2)}),
}  # fmt: skip


def test_convolutions_of_each_form(texts: list[str]) -> None:
    def run(label: str) -> None:
        texts.clear()
        shape, filters, pads, options = CASES[label]
        x, weight, bias = array(*shape), array(*filters), array(filters[0])

        def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            names = {"hole": "dilation", "stride": "stride", "groups": "groups"}
            own = {names[name]: value for name, value in options.items()}
            return x.conv2d(weight, bias, padding=pads, **own).relu()

        wanted = convolution(x, weight, pads, **options) + bias.reshape(1, -1, 1, 1)
        check(program, np.maximum(wanted, 0), x, weight, bias)
        assert MARK in texts[0]

    check_each(CASES, run)


def test_what_follows_and_the_last_columns(texts: list[str]) -> None:
    """A row of less than a vector reads no element behind it."""
    weight = array(10, 10, 3, 3)
    for columns in (5, 7, 13, 16, 18, 35):
        x = array(1, 10, 4, columns)
        texts.clear()

        def program(x: Tensor, weight: Tensor) -> Tensor:
            return (x.conv2d(weight, padding=1) + x).relu() * x

        wanted = np.maximum(convolution(x, weight, (1, 1, 1, 1)) + x, 0) * x
        check(program, wanted, x, weight)
        assert MARK in texts[0]


def test_other_dimensions(texts: list[str]) -> None:
    line, weight = array(2, 6, 50), array(7, 6, 5)
    own = convolution(line[:, :, None], weight[:, :, None], (2, 2, 0, 0))[:, :, 0]
    check(lambda x, w: x.conv2d(w, padding=2), own, line, weight)
    assert MARK in texts[0]
    cube, filters = array(1, 3, 6, 7, 20), array(4, 3, 2, 3, 3)
    wanted = sum(
        convolution(cube[:, :, place : place + 5].swapaxes(1, 2).reshape(5, 3, 7, 20), filters[:, :, place], (1, 1, 1, 1))
        for place in range(2)
    )  # fmt: skip
    check(
        lambda x, w: x.conv2d(w, padding=(1, 1, 1, 1, 0, 0)),
        wanted.swapaxes(0, 1)[None],
        cube,
        filters,
    )


def test_a_border_is_zero_beside_numbers_that_are_not_finite(texts: list[str]) -> None:
    x, weight = array(1, 4, 12, 23), array(8, 4, 3, 3)
    x[0, 0, 0, 0] = np.nan
    x[0, 1, 11, 5] = np.inf
    x[0, 2, 6, 22] = -np.inf
    for stride in (1, 2):
        texts.clear()
        wanted = convolution(x, weight, (1, 1, 1, 1), (stride, stride))
        check(lambda x, w, s=stride: x.conv2d(w, padding=1, stride=s), wanted, x, weight)
        assert MARK in texts[0]


def test_kernels_of_another_form(texts: list[str]) -> None:
    """Products have nothing to copy, and a border of another kind keeps its kernel."""
    check(
        lambda x, w: x @ w,
        *(lambda x, w: (x.astype(float) @ w, x, w))(array(20, 32), array(32, 48)),
    )
    assert MARK not in texts[0]
    texts.clear()
    x, weight = array(1, 8, 10, 20), array(16, 8, 1, 1)
    check(lambda x, w: x.conv2d(w), convolution(x, weight), x, weight)
    assert MARK not in texts[0]


def test_quotients_that_the_borders_decide() -> None:
    """tinygrad has them in the index of an element beside other kernels. Without them, the index is
    the same wherever the element is in the array.
    """
    from tinygrad.uop.ops import AxisType, Ops, UOp

    from devmod_models._tinygrad.products import _Factor

    column, row, channel, i, j = (
        UOp.range(length, number, AxisType.WEAK) for number, length in enumerate((5, 4, 3, 3, 3))
    )
    own_row = (row * 2 + i + 7) % 8
    own_channel = (((i + 1) // 2 + row + 3) // 4 + channel + 2) % 3
    index = column * 2 + j + own_row * 10 + own_channel * 80 + -1
    one = UOp.const(1, index.dtype)
    factor = _Factor(UOp.sink(), index, [(column + j, one, False), (row + i, one, False)])
    found = factor.narrowed()
    assert {each.op for each in found.index.toposort()} == {Ops.ADD, Ops.MUL, Ops.CONST, Ops.RANGE}
    for c, r, k, a, b in product(range(5), range(4), range(3), range(3), range(3)):
        place = {column: c, row: r, channel: k, i: a, j: b}
        numbers = {each: UOp.const(value, index.dtype) for each, value in place.items()}
        conditions = [x.substitute(numbers).simplify().val for x, _, _ in found.conditions]
        is_inside = c * 2 + b >= 1 and r * 2 + a >= 1
        assert is_inside == all(each >= 1 for each in conditions)
        if is_inside:
            wanted = k * 80 + (r * 2 + a - 1) * 10 + c * 2 + b - 1
            assert found.index.substitute(numbers).simplify().val == wanted
