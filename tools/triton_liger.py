"""Operations of liger-kernel, forward and backward, for tools/triton_packages.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from liger_kernel.ops import (
    cross_entropy,
    fused_add_rms_norm,
    geglu,
    group_norm,
    jsd,
    kl_div,
    layer_norm,
    relu_squared,
    rms_norm,
    rope,
    softmax,
    sparsemax,
    swiglu,
    tvd,
)

ROWS, COLUMNS = 4, 128


def normal(*shape: int) -> torch.Tensor:
    """Return random numbers, of which the operation has a gradient."""
    return torch.randn(*(shape or (ROWS, COLUMNS))).requires_grad_()


def distribution() -> torch.Tensor:
    """Return logarithms of probabilities."""
    return torch.log_softmax(torch.randn(ROWS, COLUMNS), -1).requires_grad_()


def rotated(length: int) -> list[torch.Tensor]:
    """Return queries, keys, and the cosines and sines of angles."""
    angles = torch.randn(1, length, 64)
    return [normal(1, 2, length, 64), normal(1, 2, length, 64), angles.cos(), angles.sin()]


def weight() -> torch.Tensor:
    """Return a number for each column."""
    return normal(COLUMNS)


OPERATIONS: dict[str, Callable[[], Any]] = {
    "rms_norm": lambda: rms_norm.LigerRMSNormFunction.apply(normal(), weight(), 1e-6),
    "fused_add_rms_norm": lambda: fused_add_rms_norm.LigerFusedAddRMSNormFunction.apply(
        normal(), normal(), weight(), 1e-6
    ),
    "layer_norm": lambda: layer_norm.LigerLayerNormFunction.apply(
        normal(), weight(), weight(), 1e-6
    ),
    "group_norm": lambda: group_norm.LigerGroupNormFunction.apply(
        normal(2, 8, 16), normal(8), normal(8), 8, 4, 1e-6
    ),
    "swiglu": lambda: swiglu.LigerSiLUMulFunction.apply(normal(), normal()),
    "geglu": lambda: geglu.LigerGELUMulFunction.apply(normal(), normal()),
    "relu_squared": lambda: relu_squared.LigerReLUSquaredFunction.apply(normal()),
    "softmax": lambda: softmax.LigerSoftmaxFunction.apply(normal()),
    "sparsemax": lambda: sparsemax.LigerSparsemaxFunction.apply(normal(), -1),
    "rope": lambda: rope.LigerRopeFunction.apply(*rotated(16)),
    "kl_div": lambda: kl_div.LigerKLDivLossFunction.apply(
        distribution(), distribution().detach().exp(), "batchmean", False, 1e-10
    ),
    "jsd": lambda: jsd.LigerJSDFunction.apply(
        distribution(), distribution().detach(), None, 0.5, -100
    ),
    "tvd": lambda: tvd.LigerTVDLossFunction.apply(
        distribution().detach().exp().requires_grad_(), distribution().detach().exp()
    ),
    "cross_entropy": lambda: cross_entropy.LigerCrossEntropyFunction.apply(
        normal(), torch.randint(0, COLUMNS, (ROWS,)), None
    ),
}


def main() -> None:
    """Call each operation, and print those that fail."""
    for name, operation in OPERATIONS.items():
        try:
            results = operation()
            if isinstance(results, torch.Tensor):
                results = [results]
            numbers = [each for each in results if isinstance(each, torch.Tensor)]
            sum(each.sum() for each in numbers if each.requires_grad).backward()
        except Exception as error:  # noqa: BLE001 - the others are called
            print(f"{name}: {type(error).__name__}: {error}")


main()
