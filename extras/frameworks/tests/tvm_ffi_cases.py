"""Programs as global functions of tvm-ffi, called from tvm-ffi and from TVM. `test_frameworks.py`
runs these in one process.
"""

from __future__ import annotations

import gc
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from backend_checks import first_device
from framework_programs import error_of, path_fixture, stranger
from page_cases import check_page

import devmod
import devmod_frameworks.tvm_ffi as frameworks

__all__ = ["path_fixture"]


@pytest.fixture(name="ops", scope="session")
def ops_fixture(path: Path) -> Any:
    """The functions of the file."""
    return SimpleNamespace(**frameworks.register(devmod.load(path), "cases"))


#: The folder tvm of the sources is a package for Python's finder.
HAS_TVM = any(distributions(name="apache-tvm"))
X = np.linspace(-1, 2, 24, dtype=np.float32).reshape(3, 8)
W = np.linspace(1, 3, 8, dtype=np.float32)


def tensors(*arrays: Any) -> list[Any]:
    return [tvm_ffi.from_dlpack(each) if isinstance(each, np.ndarray) else each for each in arrays]


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first_device("opencl")
    check_page("Call programs from TVM and tvm-ffi", tmp_path, monkeypatch, capsys)


def test_outputs_and_updates_are_written_in_place(ops: Any) -> None:
    y, z, n = np.zeros((3, 8), np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    ops.weigh(*tensors(X, W, y))
    np.testing.assert_allclose(y, X * W, rtol=1e-6)
    ops.pair(*tensors(W, z, n))
    np.testing.assert_allclose(n, np.sin(np.sin(W)), rtol=1e-5)
    ops.shift(*tensors(z, 3))
    np.testing.assert_allclose(z, np.sin(W) + 3, rtol=1e-5)
    ops.ramp(6, 2.0, *tensors(z[:6]))
    assert z[:6].tolist() == [0, 2, 4, 6, 8, 10]


def test_tensors_of_a_type_that_numpy_lacks(ops: Any) -> None:
    ml_dtypes = pytest.importorskip(
        "ml_dtypes", reason="ml_dtypes is not installed: make frameworks installs it"
    )
    jnp = pytest.importorskip(
        "jax.numpy", reason="JAX is not installed: make frameworks installs it"
    )
    x, y = jnp.arange(3, dtype=jnp.bfloat16), jnp.zeros(3, jnp.bfloat16)
    ops.minus_bfloat16(tvm_ffi.from_dlpack(x), out := tvm_ffi.from_dlpack(y))
    assert jnp.from_dlpack(out).tolist() == [0, -1, -2]
    del ml_dtypes


@pytest.mark.skipif(not HAS_TVM, reason="TVM is not installed: make frameworks installs it")
def test_tvm_calls_a_program(ops: Any) -> None:
    import tvm  # type: ignore[import-not-found]

    given = [tvm.runtime.tensor(each) for each in (X, W, np.zeros((3, 8), np.float32))]
    tvm.get_global_func("cases.weigh")(*given)
    np.testing.assert_allclose(given[2].numpy(), X * W, rtol=1e-6)


@pytest.mark.skipif(not HAS_TVM, reason="TVM is not installed: make frameworks installs it")
def test_a_function_of_relax_calls_a_program(ops: Any) -> None:
    import tvm
    from tvm import relax
    from tvm.script import ir as I
    from tvm.script import relax as R

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 8), "float32"), w: R.Tensor((8,), "float32")) -> R.Tensor(
            (3, 8), "float32"
        ):  # type: ignore[valid-type]
            y = R.call_dps_packed("cases.weigh", (x, w), out_ty=R.Tensor((3, 8), "float32"))
            return R.add(y, y)

    machine = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
    np.testing.assert_allclose(
        machine["main"](tvm.runtime.tensor(X), tvm.runtime.tensor(W)).numpy(), 2 * X * W, rtol=1e-6
    )


@pytest.mark.skipif(
    find_spec("jax_tvm_ffi") is None,
    reason="jax-tvm-ffi is not installed: make frameworks installs it",
)
def test_jax_calls_a_program_through_its_foreign_functions(ops: Any) -> None:
    import jax
    import jax_tvm_ffi  # type: ignore[import-not-found]

    jax_tvm_ffi.register_ffi_target(
        "cases.weigh", ops.weigh, ["args", "rets"], platform="cpu", pass_owned_tensor=True
    )
    result = jax.ShapeDtypeStruct((3, 8), np.float32)
    y = jax.jit(lambda x, w: jax.ffi.ffi_call("cases.weigh", result)(x, w) + 1)(X, W)
    np.testing.assert_allclose(y, X * W + 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("weigh", (X, W), "expected 3 arguments (x, w, y), got 2"),
        ("weigh", (X, 3, X), "the argument 'w' is int; expected a tensor"),
        (
            "weigh",
            (X, W.astype(np.float64), X),
            "the argument 'w' is an array of float64; expected float32: convert it first",
        ),
        ("weigh", (X, X, X), "the argument 'w' has 2 dimensions; expected 1"),
    ],
)
def test_an_argument_that_is_refused(ops: Any, name: str, arguments: Any, text: str) -> None:
    with pytest.raises(RuntimeError) as caught:  # tvm-ffi's, with the text of devmod's
        getattr(ops, name)(*tensors(*arguments))
    assert str(caught.value) == f"the program {name!r}: {text}"


def test_shapes_that_do_not_fit_are_errors_of_the_program(ops: Any) -> None:
    with pytest.raises(
        RuntimeError,
        match=r"the argument 'y' has the shape \(2, 8\), and the program returns \(3, 8\)",
    ):
        ops.weigh(*tensors(X, W, X[:2].copy()))


def test_a_file_is_registered_once(path: Path, ops: Any) -> None:
    assert [*frameworks.register(devmod.load(path), "cases")] == [*vars(ops)]
    assert error_of(frameworks.register, stranger("weigh"), "cases") == (
        f"register: a module in memory has a program 'weigh', and so has {str(path)!r}, whose programs, or other options, are registered "
        "there. Give the file another namespace than 'cases'"
    )
    assert error_of(frameworks.register, devmod.load(path), "cases", device="opencl:0").startswith(
        f"register: the program 'weigh_backward' of {str(path)!r} is registered there for the default device, and this call has the device opencl:0. "
    )
    tvm_ffi.register_global_func("taken.p", lambda: None)
    assert error_of(frameworks.register, stranger(), "taken").startswith(
        "register: taken has a 'p' that is not of devmod. Give "
    )
    for prefix in ("", "a.", "1", 5, "größe"):
        assert error_of(frameworks.register, devmod.load(path), prefix) == (
            f"register: the prefix is {prefix!r}; expected identifiers, such as 'mylib' or 'mylib.ops'"
        )


def test_calls_keep_no_memory(ops: Any) -> None:
    given = tensors(X, W, np.zeros((3, 8), np.float32))

    def run(count: int) -> int:
        for _ in range(count):
            ops.weigh(*given)
        gc.collect()
        return len(gc.get_objects())

    run(50)
    before = run(50)
    assert run(1_000) <= before + 20
