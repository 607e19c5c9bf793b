"""Programs as functions of JAX. `test_frameworks.py` runs these in one process."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from backend_checks import first_device
from framework_programs import HALVES, SOURCE, error_of, path_fixture, stranger
from page_cases import check_page

import devmod
import devmod_frameworks.jax as frameworks

__all__ = ["path_fixture"]

os.environ.setdefault(
    "XLA_FLAGS", "--xla_force_host_platform_device_count=2"
)  # JAX reads it when it opens its devices


@pytest.fixture(name="ops", scope="session")
def ops_fixture(path: Path) -> Any:
    """The functions of the file."""
    return frameworks.register(devmod.load(path))


@pytest.fixture(name="x")
def x_fixture() -> jax.Array:
    """A matrix."""
    return jnp.linspace(-1, 2, 24).reshape(3, 8)


@pytest.fixture(name="w")
def w_fixture() -> jax.Array:
    """The weights of its columns."""
    return jnp.linspace(1, 3, 8)


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first_device("opencl")
    check_page("Call programs from JAX", tmp_path, monkeypatch, capsys)


# -- numbers


def test_eager_and_compiled_functions_compute_what_numpy_does(
    ops: Any, x: jax.Array, w: jax.Array
) -> None:
    def model(x: Any, w: Any) -> Any:
        first, second = ops.pair(w)
        return ops.fours(ops.weigh(x, second)) + 1, first

    wanted = np.sin(np.sin(w)).astype(np.float32)
    fours = (np.asarray(x) * wanted).reshape(3, 2, 4).sum(2) + 1
    for function in (model, jax.jit(model)):
        sums, first = function(x, w)
        np.testing.assert_allclose(sums, fours, rtol=1e-5)
        np.testing.assert_allclose(first, np.sin(w), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(model)(x[:2], w)[0], fours[:2], rtol=1e-5)  # another shape
    np.testing.assert_allclose(
        ops.weigh(np.asarray(x), w=np.asarray(w)), np.asarray(x) * np.asarray(w), rtol=1e-6
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_floats_of_16_bits(ops: Any, dtype: str) -> None:
    x = jnp.arange(5, dtype=dtype)
    y = jax.jit(getattr(ops, f"minus_{dtype}"))(x)
    assert (y.dtype, [*map(float, y)]) == (x.dtype, [-0.0, -1, -2, -3, -4])
    assert ops.upper(jnp.asarray([1.5, -2.0])).astype(jnp.float32).tolist() == [1.5, -2]


def test_updates_are_returned_and_the_arguments_stay(ops: Any) -> None:
    x = jnp.zeros(4)
    assert ops.shift(x).tolist() == [2] * 4
    # A number that no shape depends on may be traced.
    assert jax.jit(ops.shift)(x, 7).tolist() == [7] * 4
    given = np.ones(3, np.float32)
    assert (ops.shift(given, amount=3).tolist(), given.tolist()) == ([4] * 3, [1] * 3)


def test_numbers_of_shapes_are_static(ops: Any) -> None:
    assert jax.jit(ops.ramp, static_argnames="n")(6, step=2.0).tolist() == [0, 2, 4, 6, 8, 10]
    assert ops.ramp(np.int64(2)).tolist() == [0, 0.5]
    assert ops.ramp(jnp.asarray(2)).tolist() == [0, 0.5]
    assert error_of(jax.jit(ops.ramp), 6) == (
        "the program 'ramp': the argument 'n' is traced, and shapes depend on it: pass a number of Python, or name it in static_argnames"
    )


def test_vmap_calls_the_program_for_each_element(ops: Any, w: jax.Array) -> None:
    x = jnp.arange(48.0).reshape(2, 3, 8)
    np.testing.assert_allclose(jax.jit(jax.vmap(ops.weigh, (0, None)))(x, w), x * w, rtol=1e-6)
    grads = jax.vmap(jax.grad(lambda x: ops.weigh(x, w).sum()))(x)
    np.testing.assert_allclose(grads, jnp.broadcast_to(w, x.shape))

    np.testing.assert_allclose(
        jax.vmap(jax.vmap(ops.weigh, (0, None)), (None, 1))(x, jnp.stack([w, w + 1], 1))[1],
        x * (w + 1),
        rtol=1e-6,
    )
    assert jax.vmap(ops.shift)(jnp.zeros((2, 3)), jnp.asarray([1, 2])).tolist() == [
        [1] * 3,
        [2] * 3,
    ]
    assert jax.vmap(ops.shift, (None, 0))(jnp.zeros(1), jnp.asarray([1, 2])).tolist() == [[1], [2]]
    assert jax.vmap(ops.weigh, (0, None))(x[:0], w).shape == (0, 3, 8)


def test_calls_outside_of_jit_compile_nothing_again(ops: Any, x: jax.Array, w: jax.Array) -> None:
    batch, compiled = jnp.stack([x, x]), []

    def record(name: str, *_: Any, **__: Any) -> None:
        compiled.extend([name] if name.endswith("backend_compile_duration") else [])

    calls = [
        lambda number: ops.weigh(x, w),
        lambda number: ops.shift(w, number),
        lambda number: ops.ramp(4, number),
        lambda number: jax.vjp(ops.weigh, x, w)[1](x),
        lambda number: jax.vmap(ops.weigh, (0, None))(batch, w),
        lambda number: jax.vmap(jax.vmap(ops.shift, (0, None)), (0, None))(batch, 3),
    ]
    jax.monitoring.register_event_duration_secs_listener(record)
    try:
        jax.jit(lambda x: x * 3.25)(x)
        assert compiled, "JAX reports what it compiles under another name"
        for call in calls:
            call(1)
            compiled.clear()
            for number in (1, 2, 3):
                call(number)
            assert compiled == []
    finally:
        jax.monitoring.unregister_event_duration_listener(record)


@pytest.mark.parametrize("wrap", [lambda function: function, jax.jit])
def test_shards(ops: Any, x: jax.Array, w: jax.Array, wrap: Any) -> None:
    spec, none = jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec()
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
    x = x[: len(jax.devices())]
    function = jax.shard_map(ops.weigh, mesh=mesh, in_specs=(spec, none), out_specs=spec)
    np.testing.assert_allclose(wrap(function)(x, w), x * w, rtol=1e-6)
    grads = wrap(jax.grad(lambda *args: function(*args).sum(), (0, 1)))(x, w)
    np.testing.assert_allclose(grads[0], jnp.broadcast_to(w, x.shape))
    np.testing.assert_allclose(grads[1], x.sum(0), rtol=1e-6)
    with pytest.raises(ValueError, match="out_specs"):  # a result of each shard is not one of all
        wrap(jax.shard_map(ops.weigh, mesh=mesh, in_specs=(spec, none), out_specs=none))(x, w)


# -- gradients


def test_gradients_are_those_of_jax(ops: Any, x: jax.Array, w: jax.Array) -> None:
    def loss(weigh: Any, x: Any, w: Any) -> Any:
        return (weigh(weigh(x, w), w + 1) ** 2).sum()

    for argnums in (0, 1, (0, 1)):
        ours = jax.jit(jax.grad(lambda x, w: loss(ops.weigh, x, w), argnums))(x, w)
        own = jax.grad(lambda x, w: loss(lambda x, w: x * w, x, w), argnums)(x, w)
        for each, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(own), strict=True):
            np.testing.assert_allclose(each, wanted, rtol=1e-4)


def test_a_training_loop_ends_at_the_loss_of_jax(ops: Any, x: jax.Array) -> None:
    def train(weigh: Any) -> float:
        w = jnp.zeros(8)

        @jax.jit
        def step(w: Any) -> Any:
            return w - 0.05 * jax.grad(lambda w: ((weigh(x, w) - x * 3) ** 2).mean())(w)

        for _ in range(20):
            w = step(w)
        return float(((weigh(x, w) - x * 3) ** 2).mean())

    assert train(ops.weigh) == pytest.approx(train(lambda x, w: x * w), rel=1e-5)


def test_a_gradient_that_a_program_does_not_have(ops: Any, x: jax.Array, w: jax.Array) -> None:
    assert error_of(jax.grad(lambda x: ops.fours(x).sum()), x) == (
        "the program 'fours': a gradient by the argument 'x' is asked for, and the program has no 'backward': pass jax.lax.stop_gradient(x)"
    )
    assert error_of(jax.grad(lambda step: ops.ramp(4, step).sum()), 2.0).startswith(
        "the program 'ramp': a gradient by the argument 'step'"
    )
    np.testing.assert_allclose(
        jax.grad(lambda x: (ops.fours(jax.lax.stop_gradient(x)) * x[:, :2]).sum())(x)[:, 2:], 0
    )
    module = devmod.compile(SOURCE, "opencl", block=1)
    arrays = {
        "inputs": ["x: float32[rows, columns]", "w: float32[columns]"],
        "outputs": ["y: float32[rows, columns]"],
    }
    back = {
        "inputs": ["grad_y: float32[rows, columns]", "w: float32[columns]"],
        "outputs": ["grad_x: float32[rows, columns]"],
    }
    module = devmod.program(
        "to_x",
        module,
        steps="scale(x=grad_y, w=w, y=grad_x, columns=columns, threads=rows * columns)",
        **back,
    )
    step = "scale(x=x, w=w, y=y, columns=columns, threads=rows * columns)"
    half = frameworks.register(
        devmod.program("weigh", module, steps=step, backward="to_x", **arrays)
    )
    np.testing.assert_allclose(
        jax.grad(lambda x: half.weigh(x, w).sum())(x), jnp.broadcast_to(w, x.shape)
    )
    assert error_of(jax.grad(lambda w: half.weigh(x, w).sum()), w) == (
        "the program 'weigh': a gradient by the argument 'w' is asked for, and the backward 'to_x' has no 'grad_w': "
        "pass jax.lax.stop_gradient(w)"
    )


# -- what is refused


@pytest.mark.parametrize(
    ("name", "arguments", "keywords", "text"),
    [
        (
            "weigh",
            (np.ones((2, 2)), np.ones(2)),
            {},
            "the argument 'x' is an array of float64; expected float32: x.astype(jnp.float32)",
        ),
        ("weigh", (jnp.ones(2), jnp.ones(2)), {}, "the argument 'x' has 1 dimensions; expected 2"),
        (
            "weigh",
            ([[1.0]], jnp.ones(1)),
            {},
            "the argument 'x' is list; expected an array: jnp.asarray(x)",
        ),
        (
            "weigh",
            (jnp.ones((2, 2)), jnp.ones(3)),
            {},
            "dimension 1 of the argument 'w' is 3, and expected is columns, which is 2",
        ),
        (
            "weigh",
            (jnp.ones((2, 2)),),
            {},
            "missing a required argument: 'w'; its arguments are (x, w)",
        ),
        (
            "weigh",
            (jnp.ones((2, 2)), jnp.ones(2)),
            {"v": 1},
            "got an unexpected keyword argument 'v'; its arguments are (x, w)",
        ),
        (
            "weigh",
            (jnp.ones((2, 2)),),
            {"x": 1},
            "multiple values for argument 'x'; its arguments are (x, w)",
        ),
        ("weigh", (1, 2, 3), {}, "too many positional arguments; its arguments are (x, w)"),
        ("ramp", (3,), {}, "it requires n % 2 == 0"),
        ("ramp", (2.5,), {}, "the argument 'n' is 2.5; expected an integer"),
        (
            "shift",
            (np.ones(2, np.float32), np.ones(1, np.int32)),
            {},
            "the argument 'amount': an array of shape (1,) is not a number",
        ),
        (
            "shift",
            (jnp.ones(2), jnp.ones((1, 1))),
            {},
            "the argument 'amount': an array of shape (1, 1) is not a number",
        ),
    ],
)
def test_an_argument_that_is_refused(
    ops: Any, name: str, arguments: Any, keywords: Any, text: str
) -> None:
    for function in (
        (getattr(ops, name), jax.jit(getattr(ops, name)))
        if name == "weigh" and isinstance(arguments[0], jax.Array)
        else (getattr(ops, name),)
    ):
        assert error_of(function, *arguments, **keywords) == f"the program {name!r}: {text}"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (np.ones(2, np.int32), ": an array of shape (2,) is not a number"),
        (2.5, " is float32; expected an integer"),
    ],
)
def test_a_traced_number_is_checked_when_it_is_traced(ops: Any, amount: Any, text: str) -> None:
    for function in (jax.jit(ops.shift), jax.vmap(ops.shift, (None, 0))):
        given = np.asarray(amount)[None] if function.__class__ is type(error_of) else amount
        assert (
            error_of(function, jnp.ones(2), given)
            == f"the program 'shift': the argument 'amount'{text}"
        )


def test_elements_of_64_bits_need_an_option_of_jax() -> None:
    arrays = {"inputs": ["x: float64[n]"], "outputs": ["y: float64[n]"]}
    source = "kernel void twice(global const double *x, global double *y) { y[get_global_id(0)] = 2 * x[get_global_id(0)]; }"
    module = devmod.program(
        "double",
        devmod.compile(source, "opencl", block=1),
        steps="twice(x=x, y=y, threads=n)",
        **arrays,
    )
    function = frameworks.register(module).double
    assert error_of(function, np.ones(2)) == (
        "the program 'double': 'x' is an array of float64, which JAX has only after jax.config.update('jax_enable_x64', True)"
    )
    jax.config.update("jax_enable_x64", True)
    try:
        assert function(jnp.asarray([1.5, 2])).tolist() == [3, 4]
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"dtype": "uint1"}, "'x' is an array of uint1, which JAX does not have"),
        ({"backward": "q"}, "backward: the module has no program 'q'"),
        (
            {"name": "__class__"},
            "the name '__class__' begins with two underscores, or has characters that are not ASCII",
        ),
    ],
)
def test_a_file_of_a_stranger_is_refused(given: Any, text: str) -> None:
    assert text in error_of(frameworks.register, stranger(**given))


def test_calls_keep_no_memory(ops: Any, x: jax.Array, w: jax.Array) -> None:
    grad = jax.jit(jax.grad(lambda x, w: ops.weigh(x, w).sum()))

    def run(count: int) -> int:
        for _ in range(count):
            grad(x, w).block_until_ready()
            ops.ramp(2, float(_))
        gc.collect()
        return len(gc.get_objects()) + len(jax.live_arrays())

    run(50)
    before = run(50)
    assert run(10_000) <= before + 20


def test_types_of_numpy_that_are_of_another_library(ops: Any) -> None:
    assert ops.minus_bfloat16(np.ones(2, ml_dtypes.bfloat16)).tolist() == [-1, -1]
