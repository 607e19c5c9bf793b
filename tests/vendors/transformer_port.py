"""examples/applications/transformer, built for one target and checked on a device: the same test
for each kind.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import devmod

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "applications" / "transformer"
sys.path.insert(0, str(PROJECT))

from transformer import (  # noqa: E402
    Config,
    Reference,
    add_model,
    check_decoding,
    check_kernels,
    new_text,
    random_weights,
)
from transformer.checks import cases  # noqa: E402

__all__ = ["PROJECT", "build_transformer", "cases", "check_transformer"]

#: A model for emulators, which execute one instruction after another. A row of `down` has 54 bytes,
#: so that every other one is not aligned.
SMALL = Config(size=32, heads=2, kv_heads=1, hidden=96, layers=1, vocabulary=16, context=4)


def build_transformer(folder: Path, *targets: str) -> devmod.Module:
    """Build the kernels for some targets, or for those of the manifest. Skip the test if a compiler
    is missing.
    """
    result = devmod.build(PROJECT, targets=targets, output=folder / "kernels.devmod", cache=False)
    for failure in result.failures:
        if failure.error == "ToolchainNotFoundError":
            pytest.skip(str(failure))
    result.raise_for_failures()
    return devmod.load(folder / "kernels.devmod")


def check_transformer(device: Any, target: str, folder: Path) -> None:
    """Build the kernels for a target, and compare each kernel, and each step of the program with a
    small model, with NumPy.
    """
    weights = random_weights(SMALL)
    module = devmod.loads(
        devmod.dumps(add_model(build_transformer(folder, target), SMALL, weights))
    )
    assert check_kernels(module, device) == 11
    step, prompt = module["step"].on(device), (3, 9)
    tokens, error = check_decoding(step, Reference(SMALL, weights), prompt, SMALL.context)
    # SwiftShader's sine and cosine are off by 2e-4; Vulkan allows 2**-11.
    assert error < (1e-4 if device.name.startswith("SwiftShader") else 1e-5)

    # The prepared launches alone, without a copy between the steps.
    text = new_text(step, SMALL, prompt)
    launch = step.bind(**text, logits=device.empty(SMALL.vocabulary, "float32"))
    for _ in range(SMALL.context):
        launch()
    assert text["tokens"].numpy().tolist() == tokens
    assert text["position"].numpy().tolist() == [SMALL.context]
