"""examples/applications/transformer, built for one target and checked on a device: the same test for each kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import devmod

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "applications" / "transformer"
sys.path.insert(0, str(PROJECT))

from transformer import Config, Decoder, Reference, Weights, check_decoding, check_kernels  # noqa: E402
from transformer.checks import cases  # noqa: E402

__all__ = ["PROJECT", "build_transformer", "cases", "check_transformer"]

#: A model for emulators, which execute one instruction after another. A row of `down` has 54 bytes, so that every other one is not aligned.
SMALL = Config(size=32, heads=2, kv_heads=1, hidden=96, layers=1, vocabulary=16, context=4)


def build_transformer(folder: Path, *targets: str) -> devmod.Module:
    """Build the kernels for some targets, or for those of the manifest. Skip the test if a compiler is missing."""
    result = devmod.build(PROJECT, targets=targets, output=folder / "transformer.devmod", cache=False)
    for failure in result.failures:
        if failure.error == "ToolchainNotFoundError":
            pytest.skip(str(failure))
    result.raise_for_failures()
    return devmod.load(folder / "transformer.devmod")


def check_transformer(device: Any, target: str, folder: Path) -> None:
    """Build the kernels for a target, and compare each kernel and each step of a small model with NumPy."""
    kernels = build_transformer(folder, target)
    assert check_kernels(kernels, device) == 11
    weights = Weights.random(SMALL)
    decoder = Decoder(kernels, device, SMALL, weights, prompt=(3, 9))
    # SwiftShader's sine and cosine are off by 2e-4; Vulkan allows 2**-11.
    bound = 1e-4 if device.name.startswith("SwiftShader") else 1e-5
    assert check_decoding(decoder, Reference(SMALL, weights), SMALL.context) < bound

    # The prepared launches alone, without a copy between the steps.
    tokens = decoder.tokens.numpy()
    decoder.restart()
    for _ in range(SMALL.context):
        decoder.step()
    assert decoder.tokens.numpy().tolist() == tokens.tolist()
    assert decoder.position.numpy().tolist() == [SMALL.context]
