"""Models of PyTorch as programs: `make frameworks` runs these with PyTorch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from each_case import raised, refusal

import devmod
from devmod.errors import ArgumentError, ToolchainNotFoundError, not_installed
from devmod.interop import torch as interop


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def network(torch: Any) -> Any:
    """A convolution, a normalization and a layer, with random weights."""

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.fc = torch.nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3)))

    torch.manual_seed(0)
    return Net()


def need_opencl() -> None:
    if not devmod.devices("opencl"):
        pytest.skip("no OpenCL device is here")


@pytest.mark.filterwarnings("ignore")  # the exporter of TorchScript is deprecated
def test_a_model_with_a_batch_and_new_weights(torch: Any) -> None:
    need_opencl()
    model = network(torch)
    model.train()
    x = torch.randn(2, 3, 8, 8)
    lines: list[str] = []
    module = interop.export(
        model, (x,), targets="opencl", dynamic={"x": {0: ("batch", 1, 16)}}, report=lines.append
    )
    assert model.training
    assert lines[0].endswith("input x: float32[batch, 3, 8, 8]; output y: float32[batch, 4]")
    assert lines[1].startswith("checked on tinygrad:CPU against PyTorch: worst error ")
    model.eval()
    for count in (1, 16):
        batch = torch.randn(count, 3, 8, 8)
        want = model(batch).detach().numpy()
        np.testing.assert_allclose(module["net"](batch.numpy()), want, atol=1e-5)
    changed = devmod.replace_constants(module, {"fc.bias": np.ones(4, np.float32)}, partial=True)
    batch = torch.randn(1, 3, 8, 8)
    want = model(batch).detach().numpy() - model.fc.bias.detach().numpy() + 1
    np.testing.assert_allclose(changed["net"](batch.numpy()), want, atol=1e-5)


@pytest.mark.parametrize(
    ("args", "options", "argument", "text"),
    [
        ((1,), {}, "args", "torch.export: the argument 0 is int; expected a Tensor"),
        (
            (np.zeros(3),),
            {"dynamic": {"z": {0: ("n", 1, 2)}}},
            "args",
            "torch.export: the argument 0 is ndarray; expected a Tensor",
        ),
    ],
)
def test_arguments_that_do_not_fit(
    args: Any, options: Any, argument: str, text: str, torch: Any
) -> None:
    error = raised(
        ArgumentError, lambda: interop.export(network(torch), args, targets="opencl", **options)
    )
    assert (str(error), error.argument) == (text, argument)


def test_an_input_of_dynamic_that_the_model_does_not_have(torch: Any) -> None:
    assert (
        refusal(
            ArgumentError,
            interop.export,
            network(torch),
            (torch.randn(1, 3, 8, 8),),
            targets="opencl",
            dynamic={"z": {0: ("n", 1, 2)}},
        )
        == "torch.export: dynamic has 'z'; the arguments are x"
    )


def test_pytorch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    text = refusal(ToolchainNotFoundError, interop.export, None, (), targets="opencl")
    missing = not_installed("PyTorch", "torch", "torch")
    assert text == f"models of PyTorch cannot be exported here: {missing}"
