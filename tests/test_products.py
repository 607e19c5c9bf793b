"""Kernels of products of matrices that are written by hand: which kernels are such products, and
what they compute on devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import check_each

import devmod
from devmod.backend import walk
from devmod.interop import tinygrad as interop

pytest.importorskip("tinygrad", reason="tinygrad is not installed")
from tinygrad import Tensor, Variable

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("exporting_on_cpu")]
RANDOM = np.random.default_rng(3)
#: A line that each of these kernels has, and no other.
MARK = "int outer ="


def array(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def tensor(*shape: int) -> Any:
    return Tensor(array(*shape)).realize()


def exported(function: Callable[..., Any], *arrays: Any, target: str = "opencl") -> devmod.Module:
    names = [f"x{number}" for number in range(len(arrays))]
    inputs = map(Tensor, arrays)
    return interop.export(function, *inputs, targets=target, name="f", names=names)


def program(function: Callable[..., Any], *arrays: Any, target: str = "opencl") -> Any:
    return exported(function, *arrays, target=target)["f"]


def check(function: Callable[..., Any], *arrays: Any, kind: str = "opencl") -> None:
    """Compare a program with tinygrad on the CPU, on each device of a kind."""
    wanted = function(*map(Tensor, arrays)).numpy()
    first_device(kind)
    made = program(function, *arrays, target=kind)
    for device in devmod.devices(kind):
        got = np.asarray(made.on(device)(*arrays))
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))
        largest = abs(wanted[np.isfinite(wanted)]).max()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * largest)


def times(first: Tensor, second: Tensor) -> Tensor:
    return first @ second


def times_transposed(first: Tensor, second: Tensor) -> Tensor:
    return first @ second.transpose(-1, -2)


def transposed_times(first: Tensor, second: Tensor) -> Tensor:
    return first.transpose(-1, -2) @ second


def with_everything(first: Tensor, second: Tensor, bias: Tensor, other: Tensor) -> Tensor:
    return (times(first, second) + bias).gelu() + other.relu()


#: Rows, sum and columns: those of a whole tile, of none, and of a part of one at each border.
SIZES = [
    *((16, 32, 32), (1, 64, 64), (64, 64, 1), (7, 33, 19), (5, 17, 17), (13, 40, 5)),
    *((9, 16, 4), (100, 50, 70), (3, 31, 16), (8, 47, 18)),
]


@pytest.mark.parametrize("kind", ["opencl", "vulkan"])
def test_products_of_each_size(
    kind: str, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On vulkan, a search alone chooses them."""
    if kind != "opencl":
        choose_products(monkeypatch)
    cases: dict[str, Any] = {}
    sizes = SIZES
    if kind != "opencl":
        sizes = SIZES[1:5]
    for rows, length, columns in sizes:
        first = array(rows, length)
        second = array(length, columns)
        label = f"{rows} {length} {columns}"
        cases[label] = (times, first, second)
        cases[f"{label} transposed"] = (times_transposed, first, second.T.copy())
        cases[f"transposed {label}"] = (transposed_times, first.T.copy(), second)

    def run(label: str) -> None:
        texts.clear()
        check(*cases[label], kind=kind)
        assert MARK in texts[0]

    check_each(cases, run)


def choose_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an export have these kernels where a search may have them."""
    from devmod_models._tinygrad import products, render

    own = render._product

    def chosen(sink: Any, kind: str, name: str, optimizations: str) -> Any:
        return own(sink, kind, name, optimizations or products.NAME)

    monkeypatch.setattr(render, "_product", chosen)


def test_what_follows_a_product_and_what_surrounds_it(texts: list[str]) -> None:
    square = array(16, 16)
    weight, large, filters = tensor(32, 48), tensor(64, 32, 3, 3), tensor(24, 32, 1, 1)
    cases: dict[str, Any] = {
        "bias, gelu and a sum": (with_everything, array(24, 32), array(32, 48), array(48), array(24, 48)),
        "a bias of rows": (lambda x, y: (x @ weight + y).relu(), array(24, 32), array(24, 1)),
        "a number": (lambda x: (x @ weight) / 3 - 2.5, array(24, 32)),
        "a comparison": (lambda x: ((x @ weight) < 0.5).where(1.0, x[:, :1]), array(24, 32)),
        "roots": (lambda x: ((x @ weight).square() + 1).sqrt().log2().exp2(), array(24, 32)),
        "a batch": (times, array(3, 24, 32), array(3, 32, 48)),
        "a batch by one matrix": (times, array(3, 24, 32), array(32, 48)),
        "heads": (
            lambda x, y: (x @ y.reshape(2, 16, 4, 16).transpose(1, 2)).transpose(1, 2).reshape(2, 16, 64),
            array(2, 4, 16, 16),
            array(2, 16, 64),
        ),
        "a convolution of points": (lambda x: x.conv2d(filters).relu(), array(2, 32, 14, 14)),
        "a convolution without a border": (lambda x: x.conv2d(large).relu(), array(2, 32, 18, 20)),
        "a square": (lambda x: x @ x, square),
    }  # fmt: skip

    def run(label: str) -> None:
        texts.clear()
        check(*cases[label])
        assert texts[0].count(MARK) == 1

    check_each(cases, run)


def test_layers_and_convolutions_in_a_row(texts: list[str]) -> None:
    """A kernel in between has a range for each axis, and its indices have remainders."""
    filters, more = tensor(16, 16, 3, 3), tensor(24, 16, 3, 3)
    colors, weight = tensor(16, 3, 7, 7), tensor(64, 64)
    cases: dict[str, Any] = {
        "layers": (lambda x: (x @ weight).relu() @ weight.T + x, array(16, 64)),
        "convolutions": (
            lambda x: (x.conv2d(filters, padding=1).relu().conv2d(filters, padding=1) + x).relu(),
            array(2, 16, 14, 14),
        ),
        "steps": (
            lambda x: x.conv2d(colors, padding=3, stride=2).relu().conv2d(more, padding=1),
            array(1, 3, 40, 44),
        ),
        "holes": (
            lambda x: x.conv2d(filters, padding=2, dilation=2).relu().conv2d(more),
            array(1, 16, 20, 7),
        ),
    }

    def run(label: str) -> None:
        texts.clear()
        check(*cases[label])
        assert texts[0].count(MARK) == 2

    check_each(cases, run)


def test_a_border_is_zero_also_below_numbers_that_are_not_finite(texts: list[str]) -> None:
    filters = tensor(16, 16, 3, 3)
    x = array(1, 16, 20, 20)
    x[0, 0, 0, 0] = np.nan
    x[0, 1, 19, 5] = np.inf
    check(lambda x: x.conv2d(filters, padding=1), x)
    assert MARK in texts[0]


def test_numbers_that_are_not_finite(texts: list[str]) -> None:
    x = array(24, 32)
    x[0, 0] = np.nan
    x[1, 1] = np.inf
    weight = tensor(32, 48)
    check(lambda x: x @ weight, x)
    assert MARK in texts[0]


def test_kernels_that_are_no_such_products(texts: list[str]) -> None:
    """They have tinygrad's kernels, and the results are right."""
    weight, small, halves = tensor(32, 48), tensor(6, 48), tensor(32, 48).half()
    cases: dict[str, Any] = {
        "a short sum": (lambda x: x @ small, array(24, 6)),
        "one number": (times, array(1, 100), array(100, 1)),
        "float16": (lambda x: (x.half() @ halves).float(), array(24, 32)),
        "a maximum": (lambda x, y: (x.reshape(24, 32, 1) * y).max(1), array(24, 32), array(32, 48)),
        "another function": (lambda x: (x @ weight).sin(), array(24, 32)),
        "a condition that is an array": (
            lambda x, y: (y > 0).where(x @ weight, 0),
            array(24, 32),
            array(24, 48),
        ),
        "a border": (lambda x: x.pad((1, 1)) @ weight, array(24, 30)),
    }

    def run(label: str) -> None:
        texts.clear()
        function, *arrays = cases[label]
        if label == "float16":  # the device may not have it
            exported(function, *arrays)
        else:
            check(function, *arrays)
        if label != "a condition that is an array":
            assert MARK not in texts[0]

    check_each(cases, run)


def test_a_length_that_a_call_chooses_has_the_kernel_of_before(texts: list[str]) -> None:
    rows = Variable("rows", 1, 64)
    weight = tensor(32, 48)
    x = array(5, 32)
    module = interop.export(
        lambda x: x @ weight, Tensor.empty(64, 32)[: rows.bind(3)], targets="opencl", name="f"
    )
    assert MARK not in texts[0]
    got = module["f"].on(first_device("opencl"))(x)
    np.testing.assert_allclose(got, x @ weight.numpy(), rtol=0, atol=1e-4)


def test_an_array_that_is_changed_in_place_is_no_product(texts: list[str]) -> None:
    """Another tile may read what one has written."""
    held = tensor(32, 32)
    weight = tensor(32, 32)
    before = held.numpy().copy()

    def step(x: Tensor) -> Tensor:
        held.assign(held @ weight + x).realize()
        return held + 0

    function = program(step, array(32, 32)).on(first_device("opencl"))
    x = array(32, 32)
    got = function(x, state=function.state())
    np.testing.assert_allclose(got, before @ weight.numpy() + x, rtol=0, atol=1e-4)


def test_a_device_that_is_no_processor_has_other_kernels() -> None:
    """One file has both. What is not written by hand has the same text in both."""
    first_device("opencl")
    x, w = array(24, 33), array(33, 40)

    def function(x: Tensor, w: Tensor) -> Tensor:
        return ((x @ w).contiguous() + 1).sum(0)

    data = devmod.dumps(exported(function, x, w))
    wanted = (x.astype(np.float64) @ w + 1).sum(0)
    found = {}
    for device in devmod.devices("opencl"):
        own = device.features
        assert "processor" in own
        for label, features in {"processor": own, "gpu": own - {"processor"}}.items():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(device, "features", features)
                f: Any = devmod.loads(data)["f"].on(device)
                np.testing.assert_allclose(f(x, w), wanted, rtol=0, atol=1e-4)
                found[label] = list(f.program.kernels)
    assert found == {
        "processor": ["f_opencl_k0", "f_opencl_k1"],
        "gpu": ["f_opencl_general_k0", "f_opencl_general_k1"],
    }
    needs: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for each in walk(devmod.loads(data)):
        if each.kind == "opencl":
            texts |= dict.fromkeys(each.functions, each.inspect_source())
            for name, info in each.functions.items():
                needs[name] = info.interface.needs  # type: ignore[union-attr]
    assert needs == {
        **dict.fromkeys(found["processor"], ("processor",)),
        **dict.fromkeys(found["gpu"], ()),
    }
    assert MARK in texts["f_opencl_k0"]
    general = texts["f_opencl_general_k0"]
    assert MARK not in general
    second = texts["f_opencl_k0"].partition("__kernel void f_opencl_k1(")[2]
    assert second
    assert general.partition("__kernel void f_opencl_general_k1(")[2] == second


def test_a_program_without_kernels_by_hand_fits_each_device() -> None:
    parts = [
        each for each in walk(exported(lambda x: x * 2 + 1, array(30))) if each.kind == "opencl"
    ]
    (kernels,) = parts
    assert [*kernels.functions] == ["f_opencl_k0"]
    assert kernels.functions["f_opencl_k0"].interface.needs == ()  # type: ignore[union-attr]
