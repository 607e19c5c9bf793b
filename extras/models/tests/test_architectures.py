"""Small nets of many architectures are right on each kind, or refused in words: `make frameworks`
runs some of them, and with ALL=1 all.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
import architecture_calls
import torch
from architectures import NETS, hf
from each_case import raised

import devmod
from devmod.errors import ArgumentError
from devmod.interop import torch as interop

pytestmark = [
    pytest.mark.row("R47"),
    pytest.mark.filterwarnings("ignore"),  # of exporters, and of PoCL's compiler
]
CASES = [f"{name}-{form}" for name in NETS for form in architecture_calls.forms_of(NETS[name])]
VALUES = "depends on the values of a tensor, which no program has: "
LOOP = "the Python code of the model depends on it, as a loop over positions does. Leave it out of `dynamic`"
SLIDING = (
    "torch.export: the results depend on what former calls have changed, and that is no state of a program: "
    "'past_key_values.layers.0.cumulative_length_int' is 0 before the first call, and then 1. State is a tensor that keeps its shape and type: "
    "replace each layer of the cache that has a sliding window by one of the length of all tokens: cache.layers[i] = StaticLayer(max_cache_len)"
)
#: What is refused, with a part of the text that names a way or a reason.
REFUSED = {
    "encodec-fixed": VALUES,
    "encodec-open": VALUES,
    "mamba-open": LOOP,
    "rwkv-open": LOOP,
}


@pytest.mark.volume_but("bert-open", "gpt2-cache", "resnet-fixed", "gcn-open", "mamba-open")
@pytest.mark.parametrize("case", CASES)
def test_a_net_is_right_or_refused_in_words(case: str) -> None:
    if not all(devmod.devices(kind) for kind in architecture_calls.KINDS):
        pytest.skip("no device of OpenCL and of WebGPU is here")
    name, _, form = case.rpartition("-")
    found = architecture_calls.outcome(name, form)
    if case in REFUSED:
        assert REFUSED[case] in found.error
    else:
        assert found.is_right, found


def test_a_cache_with_sliding_windows_is_refused_with_a_way() -> None:
    """That of the corpus takes the way."""
    torch.manual_seed(0)
    net = NETS["mistral"]
    model = net.make().eval()
    cache = hf.StaticCache(config=model.config, max_cache_len=8)
    arguments = {"input_ids": torch.tensor([[3]]), "past_key_values": cache}
    error = raised(ArgumentError, lambda: interop.export(model, (), arguments, targets="opencl"))
    assert str(error).startswith(SLIDING.partition("'past")[0])
    assert str(error).endswith(SLIDING.rpartition("State is")[2])


@pytest.mark.parametrize(
    ("error", "differences", "is_right"),
    [
        ("", {"cpu": 0.0, "opencl": 1e-7, "webgpu": 9e-5}, True),
        ("", {"cpu": 0.0, "opencl": 1e-7, "webgpu": 2e-4}, False),
        ("", {"cpu": 0.0, "opencl": float("nan"), "webgpu": 1e-7}, False),
        ("", {"cpu": 0.0, "opencl": 1e-7, "webgpu": "cannot run"}, False),
        ("", {"cpu": 0.0, "opencl": 1e-7}, False),
        ("refused", {}, False),
    ],
)
def test_what_is_right(error: str, differences: dict[str, float | str], *, is_right: bool) -> None:
    assert architecture_calls.Outcome(error, differences).is_right == is_right
