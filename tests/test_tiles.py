"""Kernels in tiles, for GPUs: what they compute on the devices here, and which have them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import check_each, refusal

import devmod
from devmod.errors import ArgumentError, ToolchainNotFoundError
from devmod.interop import tinygrad as interop
from devmod_simulators import UnavailableError, libcuda
from devmod_standins import libamdhip64, rdna3

pytest.importorskip("tinygrad", reason="tinygrad is not installed")
from test_convolutions import convolution
from tinygrad import Tensor, Variable

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("exporting_on_cpu")]
RANDOM = np.random.default_rng(13)
#: A word that each of these kernels has, and no other.
MARK = "own_column"


def array(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def integers(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let an export have tiles wherever there may be some. The result gets the texts."""
    from devmod_models._tinygrad import render

    own = render._tiles
    result: list[str] = []

    def chosen(sink: Any, kind: str, name: str, optimizations: str, **options: Any) -> Any:
        found = own(sink, kind, name, optimizations or "TILES", **options)
        result.append(found["text"] if found else "")
        return found

    monkeypatch.setattr(render, "_product", lambda *_: None)
    monkeypatch.setattr(render, "_tiles", chosen)
    return result


def exported(function: Callable[..., Any], *arrays: Any, target: str) -> devmod.Module:
    names = [f"x{number}" for number in range(len(arrays))]
    inputs = map(Tensor, arrays)
    return interop.export(function, *inputs, targets=target, name="f", names=names)


def check(
    kind: str, function: Callable[..., Any], wanted: Any, *arrays: Any, most: float = 1e-5
) -> None:
    """Compare a program with the result that is expected, on each device of a kind."""
    first_device(kind)
    made: Any = exported(function, *arrays, target=kind)["f"]
    for device in devmod.devices(kind):
        got = np.asarray(made.on(device)(*arrays))
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))
        largest = abs(wanted[np.isfinite(wanted)]).max()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=most * largest)


def wide(*arrays: Any) -> list[Any]:
    return [each.astype(np.float64) for each in arrays]


def products() -> dict[str, Any]:
    """Return the function, the result that is expected, and the inputs of each case."""
    cases: dict[str, Any] = {}
    # Rows, sum and columns: those of a whole tile, of none, and of a part of one at each border.
    for rows, length, columns in ((64, 32, 64), (1, 33, 70), (70, 17, 1), (35, 2, 67), (5, 48, 16)):
        a, b = array(rows, length), array(length, columns)
        wanted = np.matmul(*wide(a, b))
        label = f"{rows} {length} {columns}"
        cases[label] = (lambda a, b: a @ b, wanted, a, b)
        cases[f"{label}, turned"] = (
            lambda a, b: a.transpose(0, 1) @ b.transpose(0, 1), wanted, a.T.copy(), b.T.copy(),
        )  # fmt: skip
    a, b, bias, other = array(33, 20), array(20, 41), array(41), array(33, 41)
    wanted = np.maximum(np.matmul(*wide(a, b)) + bias, 0.25) * other - 2.5
    cases["what follows"] = (
        lambda a, b, bias, other: (a @ b + bias).maximum(0.25) * other - 2.5,
        *(wanted, a, b, bias, other),
    )
    a, scale = array(33, 20), array(20)
    wanted = np.matmul(*wide(1 / (1 + np.exp(-a.astype(np.float64))) * scale, b))
    cases["a computed factor"] = (lambda a, b, s: (a.sigmoid() * s) @ b, wanted, a, b, scale)
    a, b = array(3, 34, 20), array(3, 20, 35)
    cases["a batch"] = (lambda a, b: a @ b, np.matmul(*wide(a, b)), a, b)
    a, b = array(2, 19, 4, 9), array(2, 4, 9, 18)
    wanted = np.einsum("nsha,nhab->nshb", *wide(a, b)).reshape(2, 19, 72)
    cases["heads"] = (
        lambda a, b: (a.transpose(1, 2) @ b).transpose(1, 2).reshape(2, 19, 72), wanted, a, b,
    )  # fmt: skip
    for label, shape, filters, pads, options in (
        ("3 × 3", (2, 5, 9, 11), (18, 5, 3, 3), (1, 1, 1, 1), {}),
        ("steps", (1, 4, 10, 13), (17, 4, 3, 3), (1, 1, 1, 1), {"stride": (2, 2)}),
        ("other pads and holes", (1, 3, 12, 9), (6, 3, 2, 3), (0, 3, 2, 1), {"hole": (3, 2)}),
        ("groups", (1, 6, 8, 9), (8, 3, 3, 3), (1, 1, 1, 1), {"groups": 2}),
    ):
        x, w, bias = array(*shape), array(*filters), array(filters[0])
        own = {{"hole": "dilation"}.get(name, name): each for name, each in options.items()}
        wanted = convolution(x, w, pads, **options) + bias.reshape(1, -1, 1, 1)
        cases[label] = (
            lambda x, w, b, pads=pads, own=own: x.conv2d(w, b, padding=pads, **own),
            *(wanted, x, w, bias),
        )
    return cases


@pytest.mark.parametrize("kind", ["opencl", "vulkan", "webgpu"])
def test_products_and_convolutions_of_each_form(kind: str, tiles: list[str]) -> None:
    cases = products()

    def run(label: str) -> None:
        tiles.clear()
        check(kind, *cases[label])
        assert MARK in tiles[0]

    check_each(cases, run)


def integer_product(a: Tensor, zero: Tensor, b: Tensor) -> Tensor:
    return (a.cast("int32") - zero.cast("int32")) @ b.cast("int32")


@pytest.mark.parametrize("kind", ["opencl", "vulkan"])
def test_products_of_float16_and_of_integers(kind: str, tiles: list[str]) -> None:
    """Sums of float16 are of float32, and those of 8 bits are exact."""
    a, zero, b = integers("uint8", 37, 41), np.array([131], "uint8"), integers("int8", 41, 35)
    wanted = (a.astype(np.int64) - 131) @ b.astype(np.int64)
    check(kind, integer_product, wanted, a, zero, b, most=0)
    assert MARK in tiles[0]

    tiles.clear()
    x, w = array(37, 300), array(300, 35).astype(np.float16)
    half = x.astype(np.float16)
    wanted = np.matmul(*wide(half, w))
    check(kind, lambda x, w: (x.half() @ w).float(), wanted, x, w, most=1e-3)
    assert MARK in tiles[0]


@pytest.mark.parametrize("kind", ["opencl", "webgpu"])
def test_rows_and_batches_whose_number_a_call_chooses(kind: str, texts: list[str]) -> None:
    """They have tiles without a search."""
    device = first_device(kind)
    count = Variable("count", 1, 70)
    weight, filters = array(33, 45), array(17, 4, 3, 3)
    held = [Tensor(each).realize() for each in (weight, filters)]
    rows = interop.export(
        lambda x: (x @ held[0]).relu(),
        Tensor.empty(70, 33)[: count.bind(3)],
        targets=kind,
        name="f",
    )
    images = interop.export(
        lambda x: x.conv2d(held[1], padding=1), Tensor.empty(70, 4, 6, 7)[: count.bind(3)], targets=kind, name="f",
    )  # fmt: skip
    assert [MARK in each for each in texts] == [True, True]
    for number in (1, 5, 64, 65, 70):
        x = array(number, 33)
        wanted = np.maximum(np.matmul(*wide(x, weight)), 0)
        np.testing.assert_allclose(rows["f"].on(device)(x), wanted, rtol=0, atol=1e-4)
    for number in (1, 3, 70):
        x = array(number, 4, 6, 7)
        wanted = convolution(x, filters, (1, 1, 1, 1))
        np.testing.assert_allclose(images["f"].on(device)(x), wanted, rtol=0, atol=1e-4)


def test_more_parts_than_a_grid_has_blocks(texts: list[str]) -> None:
    """A kind without that limit has another kernel."""
    first_device("webgpu")
    device = first_device("opencl")
    count = Variable("count", 1, 66_000)
    x, y = array(66_000, 16, 16), array(66_000, 16, 16)

    def export(kind: str) -> devmod.Module:
        inputs = [Tensor(each)[: count.bind(3)] for each in (x, y)]
        return interop.export(lambda x, y: x @ y, *inputs, targets=kind, name="f")

    text = refusal(ArgumentError, export, "webgpu")
    assert "a grid of up to 66000 blocks in one dimension, of which it has 65535" in text
    texts.clear()
    made = export("opencl")
    assert [MARK in each for each in texts] == [False]
    np.testing.assert_allclose(made["f"].on(device)(x, y), np.matmul(x, y), rtol=0, atol=1e-4)


def test_a_remainder_that_changes_nothing() -> None:
    from tinygrad.uop.ops import AxisType, UOp

    from devmod_models._tinygrad.tiles import is_below

    count = UOp.variable("count", 1, 70)
    row, element = UOp.range(count, 1, AxisType.WEAK), UOp.range(33, 2, AxisType.WEAK)
    place = row * 33 + element
    assert is_below(place, count * 33)
    assert not is_below(place + 1, count * 33)
    assert not is_below(place, count * 32)
    assert not is_below(place, UOp.variable("other", 1, 70) * 33)
    assert not is_below(element - row, count * 33)


def test_the_tile_depends_on_the_shape_and_the_kind_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a call chooses the rows, the largest number counts. Of fixed lengths, a search alone
    has tiles, and narrow results have none.
    """
    from devmod_models._tinygrad import render

    own = render._tiles
    found: dict[str, Any] = {}

    def seen(sink: Any, kind: str, *arguments: Any, **options: Any) -> Any:
        result = own(sink, kind, *arguments, **options)
        if result:
            found[kind] = result["optimizations"]
        return result

    monkeypatch.setattr(render, "_tiles", seen)
    kinds = ["opencl", "vulkan", "webgpu", "rocm -arch=gfx942", "metal"]
    named = ("opencl", "rocm", "webgpu")
    for shape, wanted in {
        (512, 64, 768): {**dict.fromkeys(named, "TILES 64 64"), "vulkan": "TILES 64 32"},
        (512, 64, 80): dict.fromkeys((*named, "vulkan"), "TILES 32 32"),
        (16, 64, 900): dict.fromkeys((*named, "vulkan"), "TILES 16 64"),
        (900, 64, 16): dict.fromkeys((*named, "vulkan"), "TILES 64 16"),
        (12, 64, 48): {},
        (64, 8, 64): {},
    }.items():
        rows, length, columns = shape
        weight = Tensor(array(length, columns)).realize()
        for given in (
            Tensor.empty(rows, length),
            Tensor.empty(rows, length)[: Variable("n", 1, rows).bind(2)],
        ):
            found.clear()
            interop.export(lambda a, w=weight: a @ w, given, targets=kinds, name="f", names=["a"])
            is_open = not isinstance(given.shape[0], int)
            assert found == (wanted if is_open else {})


#: The other backends are not loaded beside a simulated device.
OTHERS = {"DEVMOD_PLUGINS_DENY": "devmod-hexagon,devmod-opencl,devmod-vulkan,devmod-webgpu"}
#: The cases of a simulated device.
FEW = ("64 32 64", "1 33 70", "steps")


def run_few(target: str, word: str, *options: str) -> None:
    """Run cases with kernels of an optimization on the simulated devices of this process."""
    from devmod_models._tinygrad import render

    def missing() -> None:
        raise ToolchainNotFoundError("NVRTC is not installed")

    interop._MANY = 1000
    if options:
        interop.nvrtc.version = missing
    own = render._render_kind
    found = []

    def chosen(*arguments: Any) -> Any:
        found.append(own(*arguments[:4], word))
        return found[-1]

    render._render_kind = chosen
    cases = products()
    with interop.cpu():
        for label in FEW:
            function, wanted, *arrays = cases[label]
            made: Any = exported(function, *arrays, target=target)["f"]
            got = np.asarray(made.on(target.split()[0])(*arrays))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * abs(wanted).max())
    assert [each["optimizations"].split()[0] for each in found] == [word] * len(FEW)


@pytest.mark.parametrize(
    ("target", "word", "options"),
    [
        ("cuda -arch=compute_80", "TILES", ()),
        ("cuda -arch=compute_80", "TILES", ("without NVRTC",)),
        ("cuda -arch=compute_80", "PRODUCT", ("without NVRTC",)),
        ("rocm -arch=gfx1100", "TILES", ()),
        ("rocm -arch=gfx1100", "PRODUCT", ()),
    ],
)
def test_simulated_devices_run_the_text_of_opencl(
    target: str, word: str, options: tuple[str, ...]
) -> None:
    """cuda with NVRTC has CUDA C++."""
    try:
        if target.startswith("cuda"):
            environment = libcuda.environment(arch="90")
        elif reason := rdna3.missing():
            pytest.skip(reason)
        else:
            environment = {
                **libamdhip64.environment(),
                rdna3.VARIABLE: str(rdna3.folder()),
                "CC": "",
            }
    except UnavailableError as error:
        pytest.skip(str(error))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, __file__, target, word, *options],
        env=os.environ | OTHERS | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    run_few(*sys.argv[1:])
