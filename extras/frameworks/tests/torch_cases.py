"""Programs as operations of PyTorch. `test_frameworks.py` runs these in one process.

The CPU build of PyTorch has no CUDA tensors. The function under the schema is called with doubles
of them, on the stand-in driver.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from backend_checks import first_device
from foreign_arrays import collect_exports
from framework_programs import HALVES, SOURCE, error_of, path_fixture, stranger
from page_cases import check_page
from pictures_port import PROJECT as PICTURES
from pictures_port import TOLERANCES, check, make_picture
from standin_cuda import CUDA
from torch.autograd import forward_ad
from torch.library import opcheck
from transformer_port import (
    SMALL,
    Config,
    Reference,
    add_model,
    build_transformer,
    check_decoding,
    random_weights,
)

import devmod
import devmod_frameworks.torch as frameworks
from devmod_workbench._cli import main

__all__ = ["path_fixture"]

#: PyTorch's own warnings, of its older parts and of its compiler.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning"
)


@pytest.fixture(name="ops", scope="session")
def ops_fixture(path: Path) -> Any:
    """The operations of the file."""
    return frameworks.register(devmod.load(path), "cases")


@pytest.fixture(name="x")
def x_fixture() -> torch.Tensor:
    """A matrix."""
    return torch.linspace(-1, 2, 24).reshape(3, 8)


@pytest.fixture(name="w")
def w_fixture() -> torch.Tensor:
    """The weights of its columns."""
    return torch.linspace(1, 3, 8)


def operation(
    namespace: str, name: str, monkeypatch: pytest.MonkeyPatch, module: devmod.Module
) -> Any:
    """Register a module, and return the object under the schema of a program."""
    made = {}
    real = frameworks._Operation.__init__

    def remember(self: Any, program: Any, *args: Any) -> None:
        real(self, program, *args)
        made[program.name] = self

    monkeypatch.setattr(frameworks._Operation, "__init__", remember)
    frameworks.register(module, namespace)
    return made[name]


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first_device("opencl")
    check_page("Call programs from PyTorch", tmp_path, monkeypatch, capsys)


# -- the applications


def test_the_picture_application(tmp_path: Path) -> None:
    devmod.build(
        PICTURES, targets=["opencl"], output=tmp_path / "pictures.devmod", cache=False
    ).raise_for_failures()
    ops = frameworks.register(devmod.load(tmp_path / "pictures.devmod"), "pictures")
    picture = make_picture(48, 40)
    given = torch.from_numpy(picture), 61, 35
    opcheck(ops.enhance, given)
    opcheck(ops.stages, (*given, torch.zeros(256, dtype=torch.uint32)))

    def call(name: str, *args: Any, **keywords: Any) -> Any:
        results = getattr(ops, name)(
            *map(tensor, args), **{key: tensor(each) for key, each in keywords.items()}
        )
        return [each.numpy() for each in results] if isinstance(results, tuple) else results.numpy()

    def tensor(value: Any) -> Any:
        return torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    module: Any = {
        name: SimpleNamespace(on=lambda _, name=name: lambda *a, **k: call(name, *a, **k))
        for name in ("stages", "enhance")
    }
    differences = check(module, devmod.device("opencl"), picture, 61, 35)
    assert {
        name: value for name, value in differences.items() if not value <= TOLERANCES[name]
    } == {}


def test_the_transformer_application(tmp_path: Path) -> None:
    weights = random_weights(SMALL)
    module = add_model(build_transformer(tmp_path, "opencl"), SMALL, weights, has_state=False)
    ops = frameworks.register(devmod.loads(devmod.dumps(module)), "transformer")

    class Step:
        """The operation in the place of the program, and tensors in the place of device arrays."""

        device = SimpleNamespace(
            zeros=lambda shape, dtype: torch.zeros(shape, dtype=getattr(torch, dtype)),
            from_numpy=lambda array: torch.from_numpy(array),
        )

        def state(self, context: int) -> dict[str, torch.Tensor]:
            names = [
                f"{name}_{number}" for number in range(SMALL.layers) for name in ("keys", "values")
            ]
            return {name: torch.zeros(context, SMALL.kv_size) for name in names}

        def __call__(self, *, state: dict[str, torch.Tensor], **given: Any) -> Any:
            return ops.step(**given, **state)

    tokens, _ = check_decoding(Step(), Reference(SMALL, weights), (3, 9), SMALL.context)
    assert len(tokens) == SMALL.context
    caches = [torch.zeros(SMALL.context, SMALL.kv_size) for _ in range(2)]
    opcheck(
        ops.step,
        (2, torch.tensor(tokens, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), *caches),
    )
    opcheck(ops.layer, layer_arguments(SMALL, weights, *caches))


def layer_arguments(config: Config, weights: Any, *caches: torch.Tensor) -> tuple[Any, ...]:
    """Return the arguments of the program `layer` for the first layer."""

    def words(name: str) -> torch.Tensor:
        return torch.from_numpy(np.frombuffer(weights[f"{name}_0"].tobytes(), np.uint32).copy())

    def norm(name: str) -> torch.Tensor:
        return torch.from_numpy(weights[f"{name}_0"])

    matrices = [words(name) for name in ("query", "key", "value", "output")]
    position = torch.zeros(1, dtype=torch.int32)
    frequencies = torch.from_numpy(config.frequencies.copy())
    numbers = config.heads, config.kv_heads, config.hidden, config.epsilon
    middle = norm("hidden_norm"), *[words(name) for name in ("gate", "up", "down")]
    return (
        norm("attention_norm"),
        *matrices,
        *middle,
        frequencies,
        position,
        *numbers,
        torch.ones(config.size),
        *caches,
    )


# -- numbers


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("weigh", [torch.rand(3, 5, requires_grad=True), torch.rand(5, requires_grad=True)]),
        ("weigh_backward", [torch.rand(3, 5), torch.rand(3, 5), torch.rand(5)]),
        ("fours", [torch.rand(3, 5)]),
        ("pair", [torch.rand(6)]),
        ("shift", [torch.rand(4)]),
        ("shift", [torch.rand(4), 7]),
        ("ramp", [6]),
        ("ramp", [4, 2.0]),
        *[(f"minus_{each}", [torch.rand(6).to(getattr(torch, each))]) for each in HALVES],
    ],
)
def test_opcheck(ops: Any, name: str, arguments: list[Any]) -> None:
    opcheck(getattr(ops, name), tuple(arguments))


def expected(x: Any, w: Any) -> list[Any]:
    """Return the results of `model` in NumPy."""
    y = np.sin(w)
    fours = np.add.reduceat(x * w, np.arange(0, x.shape[1], 4), axis=1)
    return [fours + 1, y + np.sin(y), x[0] + 3, np.arange(2 * x.shape[0], dtype=np.float32) / 2]


class Model(torch.nn.Module):
    """A model of operations of both libraries."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = self.ops.pair(w)
        row = x[0].clone()
        self.ops.shift(row, 3)
        return self.ops.fours(self.ops.weigh(x, w)) + 1, y + z, row, self.ops.ramp(2 * x.shape[0])


def test_eager_compiled_and_exported_models_compute_what_numpy_does(
    ops: Any, x: torch.Tensor, w: torch.Tensor
) -> None:
    model = Model(ops)
    sizes = torch.export.Dim("rows", min=2, max=6), torch.export.Dim("columns", min=5)
    dynamic = ({0: sizes[0], 1: sizes[1]}, {0: sizes[1]})
    models = [
        model,
        torch.compile(model, fullgraph=True, dynamic=True),
        torch.export.export(model, (x, w), dynamic_shapes=dynamic).module(),
    ]
    for given in ((x, w), (x[:2, :6].contiguous(), w[:6].contiguous())):
        wanted = expected(*[each.numpy() for each in given])
        for each in models:
            for found, array in zip(each(*given), wanted, strict=True):
                np.testing.assert_allclose(found.numpy(), array, rtol=1e-5)


def test_an_exported_length_begins_behind_the_guard_of_ceildiv(ops: Any, x: torch.Tensor) -> None:
    class Fours(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.fours(x)  # type: ignore[no-any-return]

    with pytest.raises(Exception, match="Not all values of columns"):
        torch.export.export(
            Fours(), (x,), dynamic_shapes=({1: torch.export.Dim("columns", min=2)},)
        )
    for size in (torch.export.Dim("columns", min=5), torch.export.Dim.DYNAMIC):
        program = torch.export.export(Fours(), (x,), dynamic_shapes=({1: size},)).module()
        torch.testing.assert_close(program(x[:, :6].contiguous()), ops.fours(x[:, :6]))


def test_equal_names_are_equal_symbols(ops: Any, x: torch.Tensor, w: torch.Tensor) -> None:
    class Weigh(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return ops.weigh(x, w)  # type: ignore[no-any-return]

    dims = torch.export.Dim("columns"), torch.export.Dim("others")
    with pytest.raises(Exception, match="must always be equal"):
        torch.export.export(Weigh(), (x, w), dynamic_shapes=({1: dims[0]}, {0: dims[1]}))
    text = "dimension 1 of the argument 'w' is 4, and expected is columns, which is 8"
    with pytest.raises(RuntimeError, match=text):
        ops.weigh(x.to("meta"), w[:4].to("meta"))


@pytest.mark.parametrize("dtype", HALVES)
def test_floats_of_16_bits(ops: Any, dtype: str) -> None:
    values = torch.linspace(-2, 2, 8).to(getattr(torch, dtype))
    minus = getattr(ops, f"minus_{dtype}")
    for given in (values, values[::2]):
        result = minus(given)
        assert result.dtype is given.dtype
        assert torch.equal(result, -given)
    assert ops.upper(torch.tensor([1.0, -2.5])).tolist() == [1.0, -2.5]


def test_strided_tensors_are_copied(ops: Any, x: torch.Tensor, w: torch.Tensor) -> None:
    torch.testing.assert_close(ops.weigh(x.T.contiguous().T, w.repeat_interleave(2)[::2]), x * w)
    both = torch.zeros(8)
    ops.shift(both[::2])
    assert both.tolist() == [2, 0] * 4
    halves = torch.ones(4, 4, dtype=torch.float16)
    assert torch.equal(ops.minus_float16(halves[:, 1]), -halves[:, 1])


def test_an_output_that_no_thread_writes_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch allocates it, and here fills it with NaN."""
    kernel = devmod.compile(
        "kernel void put(global float *y) { y[get_global_id(0)] = 1; }", "opencl", block=1
    )
    module = devmod.program(
        "idle",
        kernel,
        inputs=["x: float32[n, m]", "k: int32"],
        outputs=["y: float32[n]"],
        steps=["put(y=y, threads=n * k)"],
    )
    put = frameworks.register(module, "idle", strict=True).idle
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    try:
        assert [put(torch.zeros(3, 4), k).tolist() for k in (1, 0, 1, 0)] == [[1] * 3, [0] * 3] * 2
    finally:
        torch.use_deterministic_algorithms(False)


def test_strict_refuses_strided_tensors(path: Path, x: torch.Tensor, w: torch.Tensor) -> None:
    ops = frameworks.register(devmod.load(path), "strictly", strict=True)
    torch.testing.assert_close(ops.weigh(x, w), x * w)
    ops.weigh(
        x, own := w.clone().requires_grad_()
    ).sum().backward()  # of which the gradient is one number in all places
    torch.testing.assert_close(own.grad, x.sum(0))
    assert error_of(ops.weigh, x.T.contiguous().T, w) == (
        "the program 'weigh': the argument 'x' is not contiguous, and strict=True refuses that: x.contiguous()"
    )


def test_autocast_changes_no_argument(ops: Any, x: torch.Tensor, w: torch.Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.weigh(x, w).dtype is torch.float32
        assert "the argument 'x' is an array of bfloat16" in error_of(ops.weigh, x @ x.T, w[:3])


# -- gradients


def test_gradcheck(ops: Any, x: torch.Tensor, w: torch.Tensor) -> None:
    given = x[:, :4].clone().requires_grad_(), w[:4].clone().requires_grad_()
    with pytest.warns(UserWarning, match="not a double precision"):
        assert torch.autograd.gradcheck(ops.weigh, given, eps=0.125, atol=1e-3, rtol=1e-3)


def test_a_training_loop_ends_at_the_loss_of_pytorch(
    ops: Any, x: torch.Tensor, w: torch.Tensor
) -> None:
    def train(weigh: Callable[..., torch.Tensor]) -> float:
        torch.manual_seed(3)
        layer, own = torch.nn.Linear(8, 8), torch.nn.Parameter(w.clone())
        optimizer = torch.optim.SGD([*layer.parameters(), own], lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            loss = (weigh(torch.tanh(layer(x)), own) - x).square().mean()
            loss.backward()
            optimizer.step()
        return loss.item()

    wanted = train(torch.mul)
    assert wanted < 1
    for weigh in (ops.weigh, torch.compile(ops.weigh)):
        assert train(weigh) == pytest.approx(wanted, rel=1e-5)


def test_a_gradient_that_a_program_does_not_have(
    ops: Any, x: torch.Tensor, w: torch.Tensor
) -> None:
    own = w.clone().requires_grad_()
    text = (
        "the program 'pair': the argument 'x' requires a gradient, and the program has no 'backward': call it in torch.no_grad(), "
        "or pass x.detach()"
    )
    assert error_of(ops.pair, own) == text
    with pytest.raises(Exception, match="has no 'backward'"):
        torch.compile(ops.pair, backend="aot_eager")(own)
    with torch.no_grad():
        torch.testing.assert_close(ops.pair(own)[0], own.sin())
    torch.testing.assert_close(ops.pair(own.detach())[0], own.sin())
    module = one_input_gradient()
    half = frameworks.register(module, "half")
    torch.testing.assert_close(
        torch.autograd.grad(half.weigh(x.requires_grad_(), w).sum(), x)[0], w.expand(3, 8)
    )
    assert error_of(half.weigh(x, own).sum().backward) == (
        "the program 'weigh': the argument 'w' requires a gradient, and the backward 'to_x' has no 'grad_w': pass w.detach()"
    )


def jvp(function: Any) -> Any:
    """Return the function of the tangents of a function, by forward mode outside of
    `torch.func`.
    """

    def result(x: torch.Tensor) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(
                function(forward_ad.make_dual(x, torch.ones_like(x)))
            ).tangent

    return result


#: What the argument x of a function is, in an error.
NO_BACKWARD = "requires a gradient, and the program has no 'backward': call it in torch.no_grad(), or pass x.detach()"
OF_FUNC = "requires a gradient of torch.func, which programs do not have: use torch.autograd.grad, or pass x.detach()"
TANGENT = "has a tangent, and programs have no forward mode: pass x.detach()"
REVERSE = {
    "grad": torch.func.grad,
    "vjp": lambda function: lambda x: torch.func.vjp(function, x),
    "jacrev": torch.func.jacrev,
    "hessian": torch.func.hessian,
    "vmap of grad": lambda function: (
        lambda x: torch.vmap(torch.func.grad(function))(x.repeat(2, 1, 1))
    ),
    "grad of vmap": lambda function: torch.func.grad(
        lambda x: torch.vmap(function)(x.repeat(2, 1, 1)).sum()
    ),
    "compiled": lambda function: torch.compile(
        torch.func.grad(function), backend="aot_eager", fullgraph=True
    ),
}
FORWARD = {
    "jvp": lambda function: lambda x: torch.func.jvp(function, (x,), (x,)),
    "jacfwd": torch.func.jacfwd,
    "dual": jvp,
}


@pytest.mark.parametrize("name", [*REVERSE, *FORWARD, "eager", "functional"])
def test_a_derivative_that_a_program_does_not_have_is_refused(
    ops: Any, x: torch.Tensor, w: torch.Tensor, name: str
) -> None:
    others = {"eager": lambda function: lambda x: function(x.clone().requires_grad_())}
    others["functional"] = lambda function: lambda x: torch.autograd.functional.jvp(function, x, x)
    transform = (REVERSE | FORWARD | others)[name]
    # PyTorch has the other half of the derivative.
    text = f"the program 'fours': the argument 'x' {TANGENT if name in FORWARD else NO_BACKWARD}"
    assert text in str(raised_by(transform(lambda x: (ops.fours(x).sum() * x).sum()), x))
    if name in FORWARD or name in ("hessian", "grad", "compiled"):
        text = f"the program 'weigh': the argument 'x' {TANGENT if name in FORWARD else OF_FUNC}"
        assert text in str(raised_by(transform(lambda x: ops.weigh(x, w).sum()), x))

    def update(x: torch.Tensor) -> torch.Tensor:
        ops.shift(y := x.reshape(-1) * 1)
        return y.sum()

    if "vmap" not in name:
        assert "the program 'shift': the argument 'x'" in str(raised_by(transform(update), x))


def raised_by(function: Any, *args: Any) -> Exception:
    """Return the error of devmod that a call raises, or the error of PyTorch's compiler that has
    its text.
    """
    with pytest.raises((devmod.ArgumentError, RuntimeError)) as caught:
        function(*args)
    return caught.value


@pytest.mark.parametrize("stop", ["detach", "no_grad"])
def test_what_is_not_differentiated_runs(ops: Any, w: torch.Tensor, stop: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad() if stop == "no_grad" else nullcontext():
            y = ops.pair(x if stop == "no_grad" else x.detach())[0]
        return (y * x).sum()

    for grad in (
        torch.func.grad(function),
        torch.compile(torch.func.grad(function), backend="aot_eager", fullgraph=True),
    ):
        torch.testing.assert_close(grad(w), w.sin())
    if stop == "detach":
        torch.testing.assert_close(
            torch.func.jvp(function, (w,), (torch.ones(8),))[1], w.sin().sum()
        )
    with torch.inference_mode():
        torch.testing.assert_close(function(w), (w.sin() * w).sum())


def test_a_second_derivative_is_that_of_backward(x: torch.Tensor, w: torch.Tensor) -> None:
    ops, own = frameworks.register(one_input_gradient(), "half"), x.clone().requires_grad_()

    def grad(function: Any) -> torch.Tensor:
        return torch.autograd.grad(function(ops.weigh(own * own, w)).sum(), own, create_graph=True)[
            0
        ]

    # `weigh` is linear in x: its own second derivative is 0, and that of the square is 2.
    torch.testing.assert_close(
        torch.autograd.grad(grad(torch.neg).sum(), own)[0], -2 * w.expand(3, 8)
    )
    assert (
        error_of(grad, torch.square)
        == f"the program 'to_x': the argument 'grad_y' {NO_BACKWARD.replace('x.', 'grad_y.')}"
    )


CACHED = """
import sys
from concurrent.futures import ThreadPoolExecutor
import torch
import devmod
import devmod_frameworks.torch
from torch._dynamo.utils import counters

ops = devmod_frameworks.torch.register(devmod.load(sys.argv[1]), "cached")

def run():
    x = torch.ones(1, 3).requires_grad_()
    torch.compile(ops.p)(x, torch.full((3,), 2.0)).sum().backward()
    return x.grad.tolist()

with ThreadPoolExecutor(1) as pool:  # a tag that was set in another thread has no effect in this one
    print(pool.submit(run).result(), counters["aot_autograd"]["autograd_cache_hit"])
"""


def test_a_graph_in_the_cache_of_torch_compile_is_of_this_version_of_the_file(
    path: Path, tmp_path: Path
) -> None:
    for version in "ab":
        keys = {
            "inputs": ["grad_y: float32[rows, columns]", "w: float32[columns]"],
            "outputs": ["grad_x: float32[rows, columns]"],
        }
        arrays = {
            "inputs": ["x: float32[rows, columns]", "w: float32[columns]"],
            "outputs": ["y: float32[rows, columns]"],
        }
        module = devmod.compile(SOURCE, "opencl", block=1)
        first = "scale(x=grad_y, w=w, y=grad_x, columns=columns, threads=rows * columns)"
        for name in "ab":  # the gradient of the second version is not that of the first
            steps = (
                [first]
                if name == "a"
                else [first.replace("grad_x", "t"), first.replace("grad_y", "t")]
            )
            more = {} if name == "a" else {"temporaries": ["t: float32[rows, columns]"]}
            module = devmod.program(f"gradient_{name}", module, steps=steps, **keys, **more)
        step = "scale(x=x, w=w, y=y, columns=columns, threads=rows * columns)"
        devmod.save(
            devmod.program("p", module, steps=step, backward=f"gradient_{version}", **arrays),
            tmp_path / f"{version}.devmod",
        )
    script = tmp_path / "cached.py"
    script.write_text(CACHED)
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    found = []
    for version in "aab":
        command = [sys.executable, "-W", "ignore", script, tmp_path / f"{version}.devmod"]
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        found.append(process.stdout or process.stderr)
    assert found == ["[[2.0, 2.0, 2.0]] 0\n", "[[2.0, 2.0, 2.0]] 1\n", "[[4.0, 4.0, 4.0]] 0\n"]


def one_input_gradient() -> Any:
    """Return programs of which the backward has one gradient of two."""
    steps = "scale(x=grad_y, w=w, y=grad_x, columns=columns, threads=rows * columns)"
    keys = {
        "inputs": ["grad_y: float32[rows, columns]", "w: float32[columns]"],
        "outputs": ["grad_x: float32[rows, columns]"],
    }
    module = devmod.program("to_x", devmod.compile(SOURCE, "opencl", block=1), steps=steps, **keys)
    arrays = {
        "inputs": ["x: float32[rows, columns]", "w: float32[columns]"],
        "outputs": ["y: float32[rows, columns]"],
    }
    step = "scale(x=x, w=w, y=y, columns=columns, threads=rows * columns)"
    return devmod.program("weigh", module, steps=step, backward="to_x", **arrays)


def test_an_update_is_a_change_for_autograd(ops: Any) -> None:
    y, own = torch.ones(4), torch.ones(4, requires_grad=True)
    product = (own * y).sum()
    ops.shift(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():
        fresh = torch.zeros(2)
        ops.shift(fresh)
        assert fresh.tolist() == [2, 2]


@pytest.mark.parametrize("mode", [nullcontext, torch.no_grad, torch.inference_mode])
def test_an_update_of_a_view_that_negates(ops: Any, w: torch.Tensor, mode: Any) -> None:
    for view in (torch._neg_view, lambda base: torch.complex(base, base).conj().imag):
        with mode():
            part = view(w)
            version = None if part.is_inference() else part._version
            wanted = part + 2
            ops.shift(part)
            torch.testing.assert_close(part, wanted)
            assert version is None or part._version > version


def test_an_update_whose_elements_share_memory_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift = operation("shared", "shift", monkeypatch, devmod.load(path))
    text = "program 'shift': the argument 'x' has elements that share memory"
    for given in (torch.zeros(1).expand(4), torch.zeros(5).as_strided((4,), (0,))):
        # The type is one that NumPy lacks.
        assert (
            error_of(shift._call, [given]) == f"the {text}, and the program writes to it: x.clone()"
        )
        shift.run(torch.zeros(2))
        assert error_of(shift.run, given) == (
            f"the opencl {text} (its strides are (0,)), and the program may write to it; pass a copy, or device.from_numpy(array)"
        )
    shift.run(torch.zeros(1).expand(1))
    shift.run(torch.zeros(1, 0).expand(1, 0)[0])


# -- errors


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        (
            "weigh",
            [torch.ones(2, 3).double(), torch.ones(3)],
            "the program 'weigh': the argument 'x' is an array of float64; expected float32: x.to(torch.float32)",
        ),
        (
            "weigh",
            [torch.ones(3), torch.ones(3)],
            "the program 'weigh': the argument 'x' has 1 dimensions; expected 2",
        ),
        (
            "weigh",
            [torch.ones(2, 3), torch.ones(4)],
            "the opencl program 'weigh': the argument 'w' has the shape (4,); dimension 1 is 4, and expected is columns, which is 3",
        ),
        (
            "weigh",
            [torch.ones(2, 3), torch.ones(3, device="meta")],
            "the program 'weigh': the argument 'w' is on meta, and 'x' on cpu; expected one device: w.to('cpu')",
        ),
        (
            "ramp",
            [3],
            "the opencl program 'ramp': it requires n % 2 == 0, and that is 1 == 0 with n=3",
        ),
        (
            "ramp",
            [-2],
            "the opencl program 'ramp': the shape of 'y' is (-2,), which has a negative length",
        ),
    ],
    ids=["dtype", "rank", "length", "devices", "requires", "negative"],
)
def test_an_argument_that_is_refused(ops: Any, name: str, arguments: list[Any], text: str) -> None:
    for call, first in ((ops.weigh, (torch.ones(2, 3), torch.ones(3))), (ops.ramp, (2,))):
        call(*first)  # the first call of an operation checks more itself
    assert error_of(getattr(ops, name), *arguments) == text


def test_a_tensor_of_another_type_in_a_call_of_the_program_itself(path: Path) -> None:
    assert error_of(devmod.load(path)["pair"], torch.ones(3).double()) == (
        "the opencl program 'pair': the argument 'x' is an array of float64, and the program takes float32; convert it before the call: "
        "array = array.to(torch.float32)"
    )


def test_a_device_for_which_the_file_has_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = operation("elsewhere", "pair", monkeypatch, devmod.load(path))
    xpu = SimpleNamespace(
        device=torch.device("xpu", 0), dtype=torch.float32, shape=(4,), requires_grad=False
    )
    assert error_of(pair._call, [xpu]) == (
        "the program 'pair': the tensors are on xpu:0; expected the CPU, or CUDA with kernels of kind cuda: pass x.cpu()"
    )
    monkeypatch.setattr(
        torch.version, "hip", "6.4"
    )  # of PyTorch for ROCm, whose tensors are on "cuda"
    assert "kernels of kind rocm" in error_of(pair._call, [xpu])


def test_a_file_is_registered_once(path: Path, ops: Any) -> None:
    assert frameworks.register(devmod.load(path), "cases") is ops
    other = one_input_gradient()
    assert error_of(frameworks.register, other, "cases") == (
        f"register: a module in memory has a program 'weigh', and so has {str(path)!r}, whose programs, or other options, are registered "
        "there. Give the file another namespace than 'torch.ops.cases'"
    )
    assert not hasattr(ops, "to_x")
    assert "other options" in error_of(frameworks.register, devmod.load(path), "cases", strict=True)
    assert error_of(frameworks.register, devmod.load(path), "cases", device="opencl:0") == (
        f"register: the program 'weigh_backward' of {str(path)!r} is registered there for the default device, and this call has the device opencl:0. "
        "Give the file another namespace than 'torch.ops.cases'"
    )
    library = torch.library.Library("taken", "FRAGMENT")
    library.define("pair(Tensor x) -> Tensor")
    assert error_of(frameworks.register, devmod.load(path), "taken") == (
        f"register: torch.ops.taken has a 'pair' that is not of devmod. Give {str(path)!r} another namespace"
    )
    for namespace in ("a.b", "", 5, "größe"):
        assert error_of(frameworks.register, devmod.load(path), namespace).startswith(
            f"register: the namespace is {namespace!r}; expected"
        )


def test_the_device_of_cpu_tensors(path: Path, w: torch.Tensor) -> None:
    ops = frameworks.register(devmod.load(path), "on_device", device="opencl:0")
    torch.testing.assert_close(ops.pair(w)[0], w.sin())
    wrong = frameworks.register(devmod.load(path), "on_nothing", device="opencl:99")
    with pytest.raises(devmod.DeviceNotFoundError, match="99"):
        wrong.pair(w)


# -- files of strangers


INJECTED = "p(Tensor x) -> Tensor; q"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"name": INJECTED},
            f"{INJECTED!r} is no name: expected an identifier that is no keyword of Python",
        ),
        (
            {"array": "x, Tensor(a!) z"},
            "'x, Tensor(a!) z' is no name: expected an identifier that is no keyword of Python",
        ),
        (
            {"array": "größe"},
            "the name 'größe' begins with two underscores, or has characters that are not ASCII: no framework takes it",
        ),
        ({"dtype": "uint1"}, "'x' is an array of uint1, which PyTorch does not have"),
        (
            {"dtype": "float8_e4m3b11fnuz"},
            "'x' is an array of float8_e4m3b11fnuz, which PyTorch does not have",
        ),
        (
            {"scalars": {"e": float("inf")}},
            "the argument 'e' has the default inf, which a schema cannot have",
        ),
        ({"backward": "q"}, "backward: the module has no program 'q'"),
        ({"name": "name"}, "torch.ops.strange has a 'name' that is not of devmod"),
        (
            {"name": "__init__"},
            "the name '__init__' begins with two underscores, or has characters that are not ASCII",
        ),
    ],
)
def test_a_file_of_a_stranger_is_refused(given: Any, text: str) -> None:
    before = len(frameworks._libraries)
    assert text in error_of(frameworks.register, stranger(**given), "strange")
    assert len(frameworks._libraries) == before


@pytest.mark.parametrize("name", ["Tensor", "int", "self", "out", "SymInt", "a0", "default"])
def test_names_that_a_schema_uses_itself(name: str) -> None:
    ops = frameworks.register(stranger(f"of_{name}", name, scalars={"e": 1e-30}), "names")
    assert getattr(ops, f"of_{name}")(**{name: torch.ones(3)}).tolist() == [1, 1, 1]


# -- CUDA


class Double:
    """What the function under the schema uses of a CUDA tensor."""

    __module__ = "torch"
    requires_grad = False

    def __init__(self, array: Any, *, base: Any = None) -> None:
        self.array, self.base = array, base

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: getattr(torch, self.array.dtype))
    device = property(lambda self: torch.device("cuda", self.array.device.index))

    def is_contiguous(self) -> bool:
        return self.base is None

    def stride(self) -> tuple[int, ...]:
        return (2,)

    def contiguous(self) -> Double:
        return Double(self.array.device.from_numpy(self.array.numpy()))

    def copy_(self, other: Double) -> None:
        self.base.append(other.array.numpy())

    def new_empty(self, shape: tuple[int, ...], dtype: Any) -> Double:
        return Double(self.array.device.empty(shape, str(dtype).removeprefix("torch.")))

    def numpy(self) -> None:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self) -> None:
        raise AssertionError("an operation on CUDA copies nothing to the host")

    def data_ptr(self) -> int:
        return int(self.array.memory)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.array.device.index

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        return self.array.__dlpack__(stream=stream, max_version=max_version)


@pytest.fixture(name="standin")
def standin_fixture(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The stand-in driver, with PyTorch's current stream."""
    driver = CUDA.standin()
    with driver.shown():
        for variable, value in CUDA.child_environment().items():
            monkeypatch.setenv(variable, value)
        device: Any = devmod.device("cuda")
        own = device.stream()
        stream = type("Stream", (), {"__module__": "torch.cuda.streams"})()
        stream.cuda_stream, stream.device_index = own.handle, 0
        stream.kept = own  # PyTorch destroys no stream
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: stream)
        yield driver


def cuda_programs() -> devmod.Module:
    """Return programs of CUDA's kernels."""
    from cuda_kernels import adder

    names = {"inputs": ["a: float32[n]", "b: float32[n]"], "outputs": ["c: float32[n]"]}
    module = devmod.program(
        "plus", adder(), steps="add(a=a, b=b, c=c, n=n, grid=ceildiv(n, 64), block=64)", **names
    )
    return devmod.program(
        "double", module, updates=["x: float32[n]"], steps="twice(x=x, grid=1, block=n)"
    )


def test_a_call_with_cuda_tensors_neither_copies_nor_waits(
    standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plus = operation("on_cuda", "plus", monkeypatch, cuda_programs())
    device: Any = devmod.device("cuda")
    a, b = (Double(device.from_numpy(np.arange(64, dtype=np.float32))) for _ in "ab")
    kept = [plus.call(a, b), collect_exports(device)]
    before = {name: standin.calls(function) for name, function in CUDA.functions.items()}
    kept.append(plus.call(a, b))
    used = {
        name: count
        for name, function in CUDA.functions.items()
        if (count := standin.calls(function) - before[name])
    }
    assert used == {
        "allocate": 1,
        # Once for each tensor, for the number of its stream: a handle may be used again.
        "enter_context": 2 + 4,
        "launch": 1,
    }  # the double allocates in the place of PyTorch
    assert kept[-1].array.numpy().tolist() == (2 * np.arange(64)).tolist()


def test_a_strided_cuda_tensor_is_copied_and_its_update_is_copied_back(
    standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = operation("strided_cuda", "double", monkeypatch, cuda_programs())
    device: Any = devmod.device("cuda")
    written: list[Any] = []
    double.call(Double(device.from_numpy(np.arange(8, dtype=np.float32)), base=written))
    assert [each.tolist() for each in written] == [[0, 2, 4, 6, 8, 10, 12, 14]]


def test_cuda_tensors_that_are_refused(
    standin: Any, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = devmod.device("cuda")
    a = Double(device.zeros(8, "float32"))
    pair = operation("opencl_alone", "pair", monkeypatch, devmod.load(path))
    assert error_of(pair.call, a) == (
        "the program 'pair': the tensors are on cuda:0, where the file has nothing to run: the program 'pair' cannot run on "
        f"{CUDA.device}: the candidates of its kernel 'sines' are of kind opencl. Build the file with a target of kind cuda, or pass x.cpu()"
    )
    devmod.build(
        PICTURES, targets=["opencl"], output=tmp_path / "pictures.devmod", cache=False
    ).raise_for_failures()
    enhance = operation(
        "pictures_cuda", "enhance", monkeypatch, devmod.load(tmp_path / "pictures.devmod")
    )
    picture = Double(device.zeros((4, 4, 4), "uint8"))
    assert error_of(enhance.call, picture, 4, 4) == (
        "the program 'enhance': the tensors are on cuda:0, and an image is no tensor there: pass x.cpu()"
    )
    plus = operation("mixed_cuda", "plus", monkeypatch, cuda_programs())
    text = "the program 'plus': the argument 'b' is on cpu, and 'a' on cuda:0; expected one device: b.to('cuda:0')"
    assert error_of(plus.call, a, torch.zeros(8)) == text


# -- memory and processes


def test_calls_keep_no_memory(ops: Any, x: torch.Tensor, w: torch.Tensor) -> None:
    own, halves, update = w.clone().requires_grad_(), w.half(), torch.zeros(4)

    def work(count: int) -> None:
        for number in range(count):
            ops.weigh(x, w)
            if number % 10 == 0:
                ops.weigh(x[:, :1], own[:1]).sum().backward()
                ops.minus_float16(halves)
                ops.minus_bfloat16(
                    torch.zeros(1 + number, dtype=torch.bfloat16)
                )  # more shapes than are kept
                ops.shift(update)

    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    work(1000)
    before = blocks(), resident()
    work(10_000)
    assert blocks() - before[0] < 5000  # one object for two calls
    assert resident() - before[1] < 8 << 20


def resident() -> int:
    """Return the bytes of this process in memory; 0 where the system has no /proc."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * 4096 if file.exists() else 0


WORKERS = """
import sys
import torch
import devmod
import devmod_frameworks.torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, number):
        devmod_frameworks.torch.register(devmod.load(sys.argv[1]), "workers")  # a spawned worker has to
        return torch.ops.workers.pair(torch.full((2,), float(number)))[0]

def load(**options):
    print([round(batch[0, 0].item(), 3) for batch in DataLoader(Numbers(), num_workers=1, **options)])

if __name__ == "__main__":
    ops = devmod_frameworks.torch.register(devmod.load(sys.argv[1]), "workers")
    load(multiprocessing_context="fork")
    ops.pair(torch.ones(2))
    load(multiprocessing_context="spawn")
    try:
        load(multiprocessing_context="fork")
    except devmod.LaunchError as error:
        print("was forked after their driver was opened" in str(error))
"""


def test_workers_of_a_data_loader(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    process = subprocess.run(
        [sys.executable, script, path], capture_output=True, text=True, check=False, timeout=600
    )
    assert process.stdout == 2 * "[0.0, 0.841, 0.909]\n" + "True\n", process.stderr


def test_a_package_of_devmod_init(tmp_path: Path) -> None:
    """The wheel of `devmod init --torch` passes the tests that it has, from a folder on the
    path.
    """
    pytest.importorskip("hatchling")
    project, site = tmp_path / "project", tmp_path / "site"
    project.mkdir()
    assert main(["init", str(project), "--torch", "fast_ops"]) == 0

    def run(*command: str) -> str:
        process = subprocess.run(
            [sys.executable, *command],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if "is not installed. To add it" in process.stdout + process.stderr:
            pytest.skip("a compiler of the seven kinds is missing")
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    environment = os.environ | {"PYTHONPATH": str(site)}
    run("-c", "from hatchling.build import build_wheel; build_wheel('dist')")
    (wheel,) = (project / "dist").iterdir()
    assert wheel.name == "fast_ops-0.1.0-py3-none-any.whl"
    with ZipFile(wheel) as file:
        file.extractall(site)
    assert "3 passed" in run("-m", "pytest", "-q", "tests")
