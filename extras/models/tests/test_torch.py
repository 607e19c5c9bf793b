"""Models of PyTorch as programs: `make frameworks` runs these with PyTorch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from each_case import raised, refusal
from vision_package import import_torchvision

import devmod
from devmod.errors import ArgumentError, CompileError, ToolchainNotFoundError, not_installed
from devmod.interop import torch as interop
from devmod_models import torch as exporters


@pytest.fixture
def torch() -> Any:
    package = pytest.importorskip("torch", reason="PyTorch is not installed")
    import_torchvision(package)  # transformers imports it
    return package


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


@pytest.mark.filterwarnings("ignore")
def test_ranges_of_a_length_with_kernels_of_their_own(torch: Any) -> None:
    """The model is called with both ends of each range."""
    need_opencl()
    model = network(torch)
    x = torch.randn(2, 3, 8, 8)
    lines: list[str] = []
    module = interop.export(
        model,
        (x,),
        targets="opencl",
        dynamic={"x": {0: ("batch", 1, 9)}},
        buckets={"batch": [1, 4, 9]},
        report=lines.append,
    )
    assert lines[0].endswith("; batch has kernels of its own for 1, 2 to 4 and 5 to 9")
    compared = [each.rpartition(" (")[2] for each in lines if " against PyTorch: " in each]
    assert compared == [f"batch={count})" for count in (1, 2, 4, 5, 9, 2)]
    model.eval()
    for count in (1, 3, 8):
        batch = torch.randn(count, 3, 8, 8)
        want = model(batch).detach().numpy()
        np.testing.assert_allclose(module["net"](batch.numpy()), want, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_ranges_that_do_not_divide_a_length(torch: Any) -> None:
    def text(model: Any, **buckets: Any) -> str:
        return refusal(
            devmod.DevmodError,
            interop.export,
            model,
            (torch.randn(2, 3, 8, 8),),
            targets="opencl",
            dynamic={"x": {0: ("batch", 1, 9)}},
            buckets=buckets,
        )

    assert text(network(torch), batch=[4, 8]) == (
        "torch.export: the length 'batch', which is 1 to 9: expected the last lengths of two or more ranges in ascending order, from 1 on and 9 last, got 4, 8"
    )

    def forward(x: Any) -> Any:
        if x.shape[0] > 4:
            raise RuntimeError("too many")
        return x * 2

    assert text(model_of(torch, forward), batch=[4, 9]) == (
        "torch.export: the model cannot be called with batch = 5, which `buckets` has: RuntimeError: too many"
    )


@pytest.mark.filterwarnings("ignore")
def test_an_error_about_a_length_names_the_argument(torch: Any) -> None:
    place = (torch.tensor([0]),)
    model = model_of(torch, lambda x: x.index_put(place, torch.ones(1)))
    text = refusal(
        devmod.DevmodError,
        interop.export,
        model,
        (torch.ones(3),),
        targets="opencl",
        dynamic={"x": {0: ("n", 1, 9)}},
    )
    assert text.endswith("; a fixed length may do (leave it out of `dynamic`)")


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


@pytest.mark.filterwarnings("ignore")
def test_bags_of_embeddings(torch: Any) -> None:
    """torch.onnx writes them by a loop over sequences."""
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")

    class Bags(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__()
            self.sums = torch.nn.EmbeddingBag(20, 4, mode="sum")
            self.means = torch.nn.EmbeddingBag(20, 4, **options)
            self.most = torch.nn.EmbeddingBag(20, 4, mode="max")

        def forward(self, indices: Any, weights: Any) -> Any:
            sums = self.sums(indices, per_sample_weights=weights)
            return {"sums": sums, "means": self.means(indices), "most": self.most(indices)}

    need_opencl()
    torch.manual_seed(0)
    indices = torch.tensor([[3, 3, 0], [19, 1, 7]])
    weights = torch.rand(2, 3)
    model = Bags()
    own = torch.nn.functional.embedding_bag
    module = interop.export(model, (indices, weights), targets="opencl")
    assert torch.nn.functional.embedding_bag is own
    found = module["bags"](indices.numpy(), weights.numpy())
    for got, want in zip(found, model(indices, weights).values(), strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), atol=1e-6)
    other = Bags(padding_idx=3)
    text = refusal(CompileError, interop.export, other, (indices, weights), targets="opencl")
    assert text.endswith(
        "no program has sequences, optional values or strings. "
        "torch.onnx writes an EmbeddingBag with offsets, a padding_idx or a max_norm by them: "
        "give it indices of two dimensions without these, or use Embedding and a sum"
    )


@pytest.fixture(params=["dynamo", "TorchScript"])
def exporter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both exporters of torch.onnx: the newer one needs onnxscript."""
    name: str = request.param
    if name == "TorchScript":
        monkeypatch.setattr(exporters, "find_spec", lambda _: None)
    else:
        pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    return name


def stateful(torch: Any, write: Any) -> Any:
    """A module with a cache of 4 rows as a buffer, and one as another tensor. `write` gets the
    module, x of 3 numbers and a position.
    """

    class Cached(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)
            self.register_buffer("rows", torch.zeros(4, 3))
            self.total = torch.ones(3)

        def forward(self, x: Any, at: Any) -> Any:
            write(self, self.layer(x), at)
            return self.rows.sum(0) * self.total

    torch.manual_seed(0)
    return Cached()


def by_index(model: Any, x: Any, at: Any) -> None:
    model.rows[at] = x


def by_copy(model: Any, x: Any, _: Any) -> None:
    model.rows[1:].copy_(model.rows[:-1].clone())
    model.rows[0].copy_(x)


def by_name(model: Any, x: Any, _: Any) -> None:
    model.rows = model.rows * 0.5 + x
    model.total = model.total + x.abs()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", [by_index, by_copy, by_name])
def test_tensors_that_a_call_changes_are_state(write: Any, exporter: str, torch: Any) -> None:
    need_opencl()
    model = stateful(torch, write)
    model.train()
    model.layer.eval()
    own = {**model._buffers, **model._parameters, "total": model.total}
    values = {name: each.clone() for name, each in own.items()}
    inputs = [(torch.randn(3), torch.tensor([number])) for number in range(4)]
    module = interop.export(model, inputs[0], targets="opencl")
    assert (model.training, model.layer.training) == (True, False)
    assert "forward" not in vars(model)
    for name, each in {**model._buffers, **model._parameters, "total": model.total}.items():
        assert each is own[name]
        assert torch.equal(each, values[name])
    f = module["cached"]
    state = f.state()
    assert list(state) == ["rows", "total"][: 1 + (write is by_name)]
    for x, at in inputs:
        wanted = model(x, at).detach().numpy()
        given = {"x": x.numpy(), "at": at.numpy()}
        # An exporter may leave out an input that the model does not use.
        got = f(**{name: given[name] for name in f.names}, state=state)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


class Numbers:
    """What a module may have among its attributes."""

    def __init__(self) -> None:
        self.calls = 0
        self.seen: list[Any] = []


@pytest.mark.filterwarnings("ignore")
def test_what_changes_and_is_no_state(torch: Any) -> None:
    """The names are those of the attributes."""
    x = torch.ones(3)

    def text(forward: Any) -> str:
        model = model_of(torch, lambda x: forward(model, x))
        model.numbers = Numbers()
        model.past = torch.zeros(1, 3)
        found = refusal(ArgumentError, interop.export, model, (x,), targets="opencl")
        assert (model.numbers.calls, model.numbers.seen, model.past.shape) == (0, [], (1, 3))
        return found

    def count(model: Any, x: Any) -> Any:
        model.numbers.calls += 1
        return x * model.numbers.calls

    def grow(model: Any, x: Any) -> Any:
        model.past = torch.cat([model.past, x[None]])
        return model.past.sum(0)

    def collect(model: Any, x: Any) -> Any:
        model.numbers.seen.append(x)
        return sum(model.numbers.seen)

    start = "torch.export: the results depend on what former calls have changed, and that is no state of a program: "
    end = ". State is a tensor that keeps its shape and type: use register_buffer, or a cache of a fixed length, such as StaticCache"
    for forward, reason in (
        (count, "'numbers.calls' is 0 before the first call, and then 1"),
        (grow, "'past' is float32[1, 3] before the first call, and then float32[2, 3]"),
        (collect, "'numbers.seen.0' is nothing before the first call, and then float32[3]; "),
    ):
        found = text(forward)
        assert found.startswith(start + reason)
        assert found.endswith(end)

    def write(model: Any, x: Any) -> Any:
        model.past.data.mul_(0.5)
        return model.past.data.add_(x).sum(0)

    hidden = "changes by Tensor.data, or by a tensor that shares its memory, which no exporter sees"
    assert text(write) == f"{start}'past' {hidden}{end}"

    shared = model_of(torch, lambda x: shared.past.add_(x) + shared.row)
    shared.past = torch.zeros(1, 3)
    shared.row = shared.past[0]
    found = refusal(ArgumentError, interop.export, shared, (x,), targets="opencl")
    assert found == f"{start}'row' {hidden}{end}"

    def random(model: Any, x: Any) -> Any:
        return model.past.add_(torch.rand(1, 3)) + x

    assert text(random) == (
        "torch.export: the results differ if each call gets 'past' of the call before as an input. "
        "No program has random numbers; make them an input"
    )


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_module_that_changes_its_buffers(torch: Any) -> None:
    model = stateful(torch, by_copy)
    x = torch.ones(3)
    compiled = torch.jit.trace(model, (x, torch.tensor([0])))
    before = compiled.rows.clone()
    assert refusal(ArgumentError, interop.export, compiled, (x, x), targets="opencl") == (
        "torch.export: a module that torch.jit has compiled changes its buffer 'rows'. "
        "Only buffers of modules of Python become state: export the model before torch.jit.script or torch.jit.trace"
    )
    assert torch.equal(compiled.rows, before)


@pytest.mark.filterwarnings("ignore")
def test_changes_without_an_effect_are_no_state(exporter: str, torch: Any) -> None:
    """A weight that each call computes anew, what a module shows of it, and a number of calls."""
    need_opencl()
    layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 3))

    class Own(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer
            self.shown = None
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.shown = self.layer(x)
            self.calls += 1
            return self.shown * 2

    model = Own()
    x = torch.randn(2, 3)
    lines: list[str] = []
    module = interop.export(model, (x,), targets="opencl", report=lines.append)
    assert (model.shown, model.calls) == (None, 0)
    assert lines[-1] == (
        "each call changes 'shown', 'calls', which no program does; the results of 3 calls do not depend on it"
    )
    np.testing.assert_allclose(module["own"](x.numpy()), model(x).detach().numpy(), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_arguments_and_results_in_parts(exporter: str, torch: Any) -> None:
    """Tensors in lists and dicts are inputs with names of their own, and numbers are options."""
    need_opencl()

    class Own(torch.nn.Module):  # type: ignore[misc]
        def forward(
            self, x: Any, pair: Any, more: Any = None, scale: float = 1, no: Any = None
        ) -> Any:
            return x * scale, (pair[0] + more["a"], pair[1] - x)

    x, a, b, c = torch.randn(4, 3)
    module = interop.export(
        Own(), (x, (a, b)), {"more": {"a": c}, "scale": 3.0, "no": None}, targets="opencl"
    )
    f = module["own"]
    assert [each.name for each in module.functions["own"].interface.params] == [
        *("x", "pair_0", "pair_1", "more_a", "y0", "y1_0", "y1_1")
    ]
    got = f(*[each.numpy() for each in (x, a, b, c)])
    for one, two in zip(got, (x * 3, a + c, b - x), strict=True):
        np.testing.assert_allclose(one, two.numpy(), atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_decoder_of_transformers_with_its_cache(exporter: str, torch: Any) -> None:
    """Keyword arguments, a ModelOutput and a StaticCache: four tokens in a row."""
    need_opencl()
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=16,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    cache = transformers.StaticCache(config=config, max_cache_len=6)
    token = torch.tensor([[3]])
    keywords = {"input_ids": token, "past_key_values": cache, "use_cache": True}
    module = interop.export(model, (), keywords, targets="opencl", name="llama")
    assert not cache.is_initialized
    f = module["llama"]
    state = f.state()
    names = ["cumulative_length", "keys", "values"]
    assert sorted(state) == sorted(
        f"past_key_values_layers_{layer}_{name}" for layer in range(2) for name in names
    )
    for number in (3, 20, 49, 0):
        token = torch.tensor([[number]])
        wanted = model(input_ids=token, past_key_values=cache, use_cache=True).logits
        got = f(token.numpy(), state=state)
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_cache_that_grows_is_named(torch: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    model = transformers.GPT2LMHeadModel(config).eval()
    keywords = {"input_ids": torch.tensor([[3]])}
    cache = transformers.DynamicCache(config=config)
    text = refusal(
        ArgumentError,
        interop.export,
        model,
        (),
        {**keywords, "past_key_values": cache},
        targets="opencl",
    )
    assert (
        "'past_key_values.layers.0.keys' is None before the first call, and then float32[1, 2, 1, 8]"
        in text
    )
    lines: list[str] = []
    module = interop.export(model, (), keywords, targets="opencl", report=lines.append, name="gpt")
    assert lines[-1] == (
        "past_key_values, a DynamicCache that the model makes in each call, is no result; an argument that is a cache is state"
    )
    f: Any = module["gpt"]
    assert (f.names, f.outputs) == (("input_ids",), ["logits"])


@pytest.mark.filterwarnings("ignore")
def test_what_the_exporter_cannot_write_is_said_in_a_line(torch: Any) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    x = torch.ones(2, 3)

    def text(forward: Any, **options: Any) -> str:
        model = model_of(torch, forward)
        return refusal(CompileError, interop.export, model, (x,), targets="opencl", **options)

    found = text(lambda x: x + 1 if x.sum() > 0 else x)
    assert found.startswith("torch.onnx cannot export the model: ")
    assert found.endswith(
        "A branch or a loop of Python depends on the values of a tensor, which no program has: "
        "compute it from shapes and numbers of Python, or by torch.where"
    )
    assert "\n" not in found

    def turns(x: Any) -> Any:
        total = x[:, 0]
        for at in range(1, x.shape[1]):
            total = total * 0.5 + x[:, at]
        return total

    assert text(turns, dynamic={"x": {1: ("n", 2, 9)}}) == (
        "torch.onnx fixes the length 'n', axis 1 of 'x': the Python code of the model depends on it, as a loop over positions does. "
        "Leave it out of `dynamic`, and export the model for each length"
    )


@pytest.mark.filterwarnings("ignore")
def test_a_mixture_of_experts_of_transformers(torch: Any) -> None:
    need_opencl()
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=4,
    )
    model = transformers.MixtralForCausalLM(config).eval()
    before = model.config._experts_implementation
    ids = torch.tensor([[3, 7, 20]])
    module = interop.export(model, (), {"input_ids": ids}, targets="opencl", name="experts")
    assert model.config._experts_implementation == before
    wanted = model(input_ids=ids).logits.detach().numpy()
    np.testing.assert_allclose(module["experts"](ids.numpy()), wanted, rtol=1e-3, atol=1e-5)


def test_pytorch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    text = refusal(ToolchainNotFoundError, interop.export, None, (), targets="opencl")
    missing = not_installed("PyTorch", "torch", "torch")
    assert text == f"models of PyTorch cannot be exported here: {missing}"
