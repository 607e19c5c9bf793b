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


def model_of(torch: Any, forward: Any) -> Any:
    """A module with the function."""

    class Own(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return forward(x)

    return Own()


@pytest.mark.filterwarnings("ignore")
def test_results_by_name_and_an_input_that_the_model_changes(torch: Any) -> None:
    need_opencl()
    x = torch.ones(3)
    model = model_of(torch, lambda x: {"two": x.add_(1), "four": x * 2})
    module = interop.export(model, (x,), targets="opencl")
    assert x.tolist() == [1, 1, 1]
    two, four = module["own"](np.ones(3, "float32"))
    assert (two.tolist(), four.tolist()) == ([2] * 3, [4] * 3)
    assert [each.name for each in module.functions["own"].interface.params] == ["x", "two", "four"]


@pytest.mark.filterwarnings("ignore")
def test_what_no_program_returns_or_takes(torch: Any) -> None:
    def text(model: Any, x: Any = None, **options: Any) -> str:
        given = torch.ones(3) if x is None else x
        return refusal(
            devmod.DevmodError, interop.export, model, (given,), targets="opencl", **options
        )

    assert (
        text(len)
        == "torch.export: the model is builtin_function_or_method; expected a torch.nn.Module"
    )
    expected = "model returned {}; expected a Tensor, or several of them"
    for value, types in ((None, "NoneType"), ((), "nothing"), ([[1], 2], "list, int")):
        assert text(model_of(torch, lambda _, value=value: value)) == expected.format(types)
    one = model_of(torch, lambda x: x + torch.rand(3))
    assert text(one, outputs=["a", "b"]) == "outputs has 2 names; model has 1 results"
    halves = torch.ones(3, dtype=torch.bfloat16)
    assert text(one, halves) == (
        "torch.export: 'x' is torch.bfloat16, which NumPy does not have. Export model.float() with other arguments"
    )
    assert text(one).startswith("own: ")


def test_pytorch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    text = refusal(ToolchainNotFoundError, interop.export, None, (), targets="opencl")
    missing = not_installed("PyTorch", "torch", "torch")
    assert text == f"models of PyTorch cannot be exported here: {missing}"
