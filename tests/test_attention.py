"""Kernels of attention that are written by hand: which kernels become one, and what it computes on
devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import check_each

import devmod
from devmod.interop import tinygrad as interop

pytest.importorskip("tinygrad", reason="tinygrad is not installed")
from tinygrad import Tensor, Variable

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("exporting_on_cpu")]
RANDOM = np.random.default_rng(5)
#: A line that each of these kernels has, and no other.
MARK = "float16 most = -INFINITY;"


def array(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def exported(function: Callable[..., Any], *arrays: Any, target: str = "opencl") -> devmod.Module:
    names = [f"x{number}" for number in range(len(arrays))]
    inputs = map(Tensor, arrays)
    return interop.export(function, *inputs, targets=target, name="f", names=names)


def attention(q: Any, k: Any, v: Any, added: Any = 0.0) -> Any:
    """Return the attention of heads, in float64."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    with np.errstate(all="ignore"):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + added
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


def by_tinygrad(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **options: Any) -> Tensor:
    return q.scaled_dot_product_attention(k, v, attn_mask=mask, **options)


def check(function: Callable[..., Any], wanted: Any, *arrays: Any) -> None:
    """Compare a program with the result that is expected, on each device of OpenCL."""
    first_device("opencl")
    program: Any = exported(function, *arrays)["f"]
    for device in devmod.devices("opencl"):
        got = np.asarray(program.on(device)(*arrays))
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


#: Heads, queries, keys, and the size of a head: those of whole tiles, of none, and of parts.
SIZES = [
    *((2, 32, 32, 32), (3, 1, 64, 64), (1, 7, 33, 19), (2, 33, 17, 128), (1, 50, 60, 16)),
    *((2, 16, 16, 16), (1, 67, 16, 40), (4, 2, 100, 24), (1, 129, 31, 16), (2, 9, 47, 100)),
]


def test_attention_of_each_size(texts: list[str]) -> None:
    cases = {str(sizes): sizes for sizes in SIZES}

    def run(label: str) -> None:
        heads, queries, keys, size = cases[label]
        texts.clear()
        q, k, v = (
            array(2, heads, queries, size),
            array(2, heads, keys, size),
            array(2, heads, keys, size),
        )
        check(by_tinygrad, attention(q, k, v), q, k, v)
        assert texts[0].count("__kernel") == texts[0].count(MARK) == 1

    check_each(cases, run)


def split(x: Tensor) -> Tensor:
    """Return (batch, positions, all of 4 heads) as heads."""
    return x.reshape(x.shape[0], x.shape[1], 4, -1).transpose(1, 2)


def split_array(x: Any) -> Any:
    return x.reshape(x.shape[0], x.shape[1], 4, -1).swapaxes(1, 2)


def of_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention as layers of transformers have it."""
    return by_tinygrad(*map(split, (q, k, v))).transpose(1, 2).reshape(q.shape) * 2 + q


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Return heads turned by angles."""
    half = x.shape[-1] // 2
    one, two = x[..., :half], x[..., half:]
    return (one * angles.cos() - two * angles.sin()).cat(
        one * angles.sin() + two * angles.cos(), dim=-1
    )


def test_masks_and_layouts(texts: list[str]) -> None:
    q, k, v = array(2, 4, 50, 32), array(2, 4, 60, 32), array(2, 4, 60, 32)
    mask = array(2, 1, 50, 60)
    keys = RANDOM.integers(0, 2, (2, 60))
    keys[:, 0] = 1
    bias = array(4, 50, 60)
    rows = [array(2, length, 128) for length in (50, 60, 60)]
    heads = [*map(split_array, rows)]
    own = attention(*heads).swapaxes(1, 2).reshape(2, 50, 128) * 2 + rows[0]
    few = array(2, 1, 60, 32), array(2, 1, 60, 32)
    causal = np.triu(np.full((50, 60), -np.inf), 1)
    cases: dict[str, Any] = {
        "an added mask": (by_tinygrad, attention(q, k, v, mask), q, k, v, mask),
        "a mask of booleans": (
            lambda q, k, v, mask: by_tinygrad(q, k, v, mask > 0),
            attention(q, k, v, np.where(mask > 0, 0, -np.inf)),
            *(q, k, v, mask),
        ),
        "causal": (
            lambda q, k, v: by_tinygrad(q, k, v, is_causal=True),
            attention(q, k, v, causal),
            *(q, k, v),
        ),
        "a mask of keys": (
            lambda q, k, v, keys: by_tinygrad(
                q, k, v, (1 - keys.reshape(2, 1, 1, 60).cast("float32")) * -10000
            ),
            attention(q, k, v, (1 - keys.reshape(2, 1, 1, 60)) * -10000.0),
            *(q, k, v, keys),
        ),
        "a bias of heads": (by_tinygrad, attention(q, k, v, bias), q, k, v, bias),
        "rows": (of_rows, own, *rows),
        "keys in columns": (
            lambda q, k, v: by_tinygrad(q, k.transpose(-1, -2), v),
            attention(q, k, v),
            *(q, k.swapaxes(-1, -2).copy(), v),
        ),
        "heads that share keys": (
            lambda q, k, v: by_tinygrad(q, *(each.repeat_interleave(4, 1) for each in (k, v))),
            attention(q, *(each.repeat(4, 1) for each in few)),
            *(q, *few),
        ),
        "a scaled query": (
            lambda q, k, v: ((q * 32**-0.5) @ k.transpose(-1, -2)).softmax(-1) @ v,
            attention(q, k, v),
            *(q, k, v),
        ),
        "one query": (
            lambda q, k, v: by_tinygrad(q[:, :, -1:], k, v),
            attention(q[:, :, -1:], k, v),
            *(q, k, v),
        ),
        "keys of a cache": (
            lambda q, k, new, v: by_tinygrad(q, k.cat(new, dim=2)[:, :, 10:], v),
            attention(q, np.concatenate([k, k[:, :, :10]], 2)[:, :, 10:], v),
            *(q, k, k[:, :, :10].copy(), v),
        ),
    }  # fmt: skip

    def run(label: str) -> None:
        texts.clear()
        check(*cases[label])
        assert texts[0].count(MARK) == 1
        assert texts[0].count("__kernel") == 1

    check_each(cases, run)


def test_turned_heads(texts: list[str]) -> None:
    """Queries and keys are computed in the kernel of the scores."""
    q, k, v, angles = array(2, 4, 40, 32), array(2, 4, 40, 32), array(2, 4, 40, 32), array(40, 16)

    def program(q: Tensor, k: Tensor, v: Tensor, angles: Tensor) -> Tensor:
        return by_tinygrad(turned(q, angles), turned(k, angles), v)

    wanted = by_numpy_turned(q, angles), by_numpy_turned(k, angles)
    check(program, attention(*wanted, v), q, k, v, angles)


def by_numpy_turned(x: Any, angles: Any) -> Any:
    one, two = np.split(x.astype(np.float64), 2, -1)
    angles = angles.astype(np.float64)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([one * cos - two * sin, one * sin + two * cos], -1)


def test_numbers_that_are_not_finite(texts: list[str]) -> None:
    """A masked row has no numbers, and no other row has the NaN of one."""
    q, k, v = array(1, 2, 20, 32), array(1, 2, 37, 32), array(1, 2, 37, 32)
    mask = np.zeros((1, 1, 20, 37), np.float32)
    mask[0, 0, 3] = -np.inf
    mask[0, 0, 4, :36] = -np.inf
    q[0, 0, 7, 5] = np.nan
    q[0, 1, 11] = np.inf
    v[0, 1, 2, 9] = np.inf
    check(by_tinygrad, attention(q, k, v, mask), q, k, v, mask)
    assert MARK in texts[0]


def test_kernels_that_stay(texts: list[str]) -> None:
    """An array between the four has another use, or they are another function."""
    q, k, v = array(1, 2, 20, 32), array(1, 2, 30, 32), array(1, 2, 30, 32)

    def weights(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        own = (q @ k.transpose(-1, -2)).softmax(-1).contiguous()
        return own, own @ v

    def scores(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        own = (q @ k.transpose(-1, -2)).contiguous()
        return own, own.softmax(-1) @ v

    def sums(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2)).exp() @ v

    def halves(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return by_tinygrad(q.half(), k.half(), v.half()).float()

    def across(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        own = (q @ k.transpose(-1, -2)).softmax(-2)
        return own @ v

    for function in (weights, scores, sums, halves, across):
        texts.clear()
        exported(function, q, k, v)
        assert MARK not in texts[0]


def test_weights_that_grow_with_smaller_scores(texts: list[str]) -> None:
    """The exponential of a number beside a row would be infinite."""
    q, k, v = array(1, 2, 20, 32), array(1, 2, 37, 32), array(1, 2, 37, 32)

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.transpose(-1, -2)) / 8
        weights = ((scores - scores.max(-1, keepdim=True)) * -1).exp()
        return (weights / weights.sum(-1, keepdim=True)) @ v

    check(program, attention(-q * np.sqrt(32) / 8, k, v), q, k, v)
    assert MARK not in texts[0]


def test_values_near_the_largest_number(texts: list[str]) -> None:
    q, k, v = array(1, 2, 20, 32), array(1, 2, 37, 32), array(1, 2, 37, 32)
    largest = np.abs(v).max()
    wanted = attention(q, k, v / largest)
    huge = v / largest * np.float32(2.0**127)

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return by_tinygrad(q, k, v) * 2.0**-127

    check(program, wanted, q, k, huge)
    check(program, np.ones_like(wanted), q * 0, k * 0, np.full_like(v, 2.0**127))
    assert texts[0].count(MARK) == 1


def test_factors_keep_products_finite(texts: list[str]) -> None:
    """The product of large queries and keys is infinite, that of the scaled ones is not."""
    q, k, v = array(1, 2, 20, 32), array(1, 2, 37, 32), array(1, 2, 37, 32)
    for factor, is_one in ((2.0**-12, True), (2.0**-60, False), (2.0**60, False)):

        def program(q: Tensor, k: Tensor, v: Tensor, factor: float = factor) -> Tensor:
            return ((q * factor) @ (k * factor).transpose(-1, -2)).softmax(-1) @ v

        texts.clear()
        large = np.float32(1 / factor)
        if is_one:
            large = np.float32(2.0**64)
        scale = np.float64(large * factor) ** 2 * np.sqrt(32)
        check(program, attention(q * scale, k, v), q * large, k * large, v)
        assert (MARK in texts[0]) == is_one


def test_other_kinds_have_kernels_of_tinygrad(texts: list[str]) -> None:
    q = array(1, 2, 20, 32)
    exported(by_tinygrad, q, q, q, target="vulkan")
    assert MARK not in "".join(texts)


def test_two_layers_and_what_lies_between(texts: list[str]) -> None:
    """Their kernels are not side by side."""
    q, k, v = array(1, 4, 20, 32), array(1, 4, 30, 32), array(1, 4, 30, 32)

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        first = by_tinygrad(q, k, v).relu().contiguous()
        second = by_tinygrad(q + 1, v, k).contiguous()
        return by_tinygrad(first, k, v).contiguous() + second

    once = attention(q, k, v)
    twice = attention(np.maximum(once, 0), k, v)
    check(program, twice + attention(q + 1, v, k), q, k, v)
    assert texts[0].count(MARK) == 3


def test_a_length_that_a_call_chooses(texts: list[str]) -> None:
    rows = Variable("rows", 1, 64)
    k, v = array(1, 2, 30, 32), array(1, 2, 30, 32)
    q = array(1, 2, 5, 32)
    own = Tensor.empty(1, 2, 64, 32)[:, :, : rows.bind(3)]
    inputs = [own, Tensor(k), Tensor(v)]
    module = interop.export(by_tinygrad, *inputs, targets="opencl", name="f", names=["q", "k", "v"])
    got = module["f"].on(first_device("opencl"))(q, k, v)
    np.testing.assert_allclose(got, attention(q, k, v), rtol=0, atol=1e-5)
