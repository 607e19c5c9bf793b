"""Operations of flash-linear-attention, forward and backward, for tools/triton_packages.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fla.modules.l2norm import l2norm
from fla.modules.layernorm import rms_norm
from fla.ops.hgrn import fused_recurrent_hgrn
from fla.ops.linear_attn import fused_recurrent_linear_attn
from fla.ops.retention import fused_recurrent_retention
from fla.ops.simple_gla import chunk_simple_gla, fused_recurrent_simple_gla

#: The batch, the length, the heads and their size.
SHAPE = (1, 32, 2, 16)


def normal(*shape: int) -> torch.Tensor:
    """Return random numbers, of which the operation has a gradient."""
    return torch.randn(*(shape or SHAPE)).requires_grad_()


def gates(*shape: int) -> torch.Tensor:
    """Return logarithms of gates."""
    return torch.nn.functional.logsigmoid(torch.randn(*shape)).requires_grad_()


OPERATIONS: dict[str, Callable[[], Any]] = {
    "l2norm": lambda: l2norm(normal()),
    "rms_norm": lambda: rms_norm(normal(4, 64), normal(64), None),
    "fused_recurrent_linear_attn": lambda: fused_recurrent_linear_attn(
        normal(), normal(), normal(), normalize=False
    ),
    "fused_recurrent_retention": lambda: fused_recurrent_retention(normal(), normal(), normal()),
    "fused_recurrent_simple_gla": lambda: fused_recurrent_simple_gla(
        normal(), normal(), normal(), gates(*SHAPE[:3])
    ),
    "chunk_simple_gla": lambda: chunk_simple_gla(normal(), normal(), normal(), gates(*SHAPE[:3])),
    "fused_recurrent_hgrn": lambda: fused_recurrent_hgrn(normal(1, 32, 64), gates(1, 32, 64)),
}


def main() -> None:
    """Call each operation, and print those that fail."""
    for name, operation in OPERATIONS.items():
        try:
            result = operation()
            if isinstance(result, tuple):
                result = result[0]
            result.sum().backward()
        except Exception as error:  # noqa: BLE001 - the others are called
            print(f"{name}: {type(error).__name__}: {error}")


main()
