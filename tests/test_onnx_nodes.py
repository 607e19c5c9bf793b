"""The node cases of onnx.backend.test: each is computed rightly, or refused in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod
from devmod.errors import CompileError, DevmodError
from devmod.interop import tinygrad as interop

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
pytestmark = [
    pytest.mark.row("R47"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the cases divide by zero
]
#: Operators that tinygrad computes wrongly in some case, and those of few cases beside them.
OPERATORS = (
    *("Adagrad", "Adam", "Attention", "ConvInteger", "DynamicQuantizeLinear", "LpNormalization"),
    *("MaxUnpool", "Mod", "Momentum", "OptionalGetElement", "OptionalHasElement"),
    *("QuantizeLinear", "ReverseSequence", "Shape", "Slice"),
)
#: The cases in which onnxruntime, the reference where it is installed, gives what tinygrad gives.
AS_ONNXRUNTIME = ("test_maxunpool_export_with_output_shape",)
#: What a program or tinygrad does not have.
REFUSALS = (
    r"which no program has",
    r"tinygrad does not have this operator",
    r"no program has sequences",
    r"is no tensor; no program has sequences",
    r"is control flow",
    r"NotImplementedError: nonpad_kv_seqlen is not supported",
    r"tinygrad computes it wrongly",
    r"AssertionError: only float32 is supported",
    r"is an empty array of shape",
    r"NotImplementedError: antialias is not implemented",
    r"ValueError: invalid coordinate_transformation_mode",
    r"got an unexpected keyword argument",
    r"a step of training, which no program has",
)


@cache
def cases() -> dict[str, list[Any]]:
    """The cases of each operator: those of one node. Those of all operators take 5 s."""
    from onnx.backend.test.case import node

    for operator in (*OPERATORS, "ReduceSum"):
        import_module(f"{node.__name__}.{operator.lower()}")
    result: dict[str, list[Any]] = {}
    for case in node._NodeTestCases:
        operators = [each.op_type for each in case.model.graph.node]
        if len(operators) == 1:
            result.setdefault(operators[0], []).append(case)
    return result


@pytest.fixture(autouse=True)
def _cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(devmod, "devices", lambda *_: [])
    with interop.cpu():
        yield


def write(model: Any, arrays: dict[str, Any], constants: list[str]) -> None:
    """Write a model of which some inputs are constants."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    inputs = [each for each in made.graph.input if each.name in arrays]
    del made.graph.input[:]
    made.graph.input.extend(each for each in inputs if each.name not in constants)
    for name in constants:
        made.graph.initializer.append(onnx.numpy_helper.from_array(arrays[name], name))
    onnx.save(made, "case.onnx")


def results(arrays: dict[str, Any], constants: list[str]) -> list[Any]:
    """What tinygrad computes."""
    from devmod_models._tinygrad.onnx import Runner, array_of, example_tensors
    from devmod_models.onnx import read_model

    empty = {name: list(each.shape) for name, each in arrays.items() if 0 in each.shape}
    model = read_model("case.onnx", {name: empty[name] for name in empty if name not in constants})
    given = {name: arrays[name] for name in model.inputs}
    return [array_of(each) for each in Runner(model).trial(example_tensors(model, given)).values()]


def differs(got: Any, wanted: Any) -> bool:
    wanted = np.asarray(wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return True
    if wanted.dtype.kind in "iub":
        return bool((got != wanted).any())
    exact = wanted.astype(np.float64)
    is_finite = np.isfinite(exact)
    if not np.array_equal(got.astype(np.float64)[~is_finite], exact[~is_finite], equal_nan=True):
        return True
    allowed = 1e-4 if wanted.dtype in (np.float32, np.float64) else 1e-2
    allowed *= abs(exact[is_finite]).max(initial=0)
    return not (
        abs(got.astype(np.float64) - exact)[is_finite] <= allowed
    ).all()  # also if it is NaN


def outcome(case: Any) -> str:
    """Return "right", "wrong", or the text of a refusal. Options of a case are inputs, and get
    constants if they must be.
    """
    (inputs, wanted), *_ = case.data_sets
    arrays = {}
    for value, array in zip(case.model.graph.input, inputs, strict=False):
        if array is None or isinstance(array, list):
            return "a sequence, or nothing: no program has sequences"
        arrays[value.name] = np.asarray(array)
    options = [name for name, each in arrays.items() if each.dtype.kind in "iub" and each.ndim < 2]
    small = [name for name, each in arrays.items() if each.ndim < 2]
    text = ""
    for constants in ([], options, small, [*arrays]):
        write(case.model, arrays, constants)
        try:
            got = results(arrays, constants)
        except DevmodError as error:
            text = str(error)
            if "depends on the data of an input" in text:
                continue
            return text
        if any(map(differs, got, wanted)):
            return refused(case, arrays, constants, wanted)
        return "right"
    return text


def refused(case: Any, arrays: dict[str, Any], constants: list[str], wanted: Any) -> str:
    """Return how the check refuses a wrong result; "wrong" if it does not."""
    from devmod_models._tinygrad.onnx import export

    names = [name for name in arrays if name not in constants]
    for name in names:
        np.save(f"{name}.npy", arrays[name])
    request = {
        "model": "case.onnx",
        "targets": ["opencl"],
        "name": "f",
        "dims": {},
        "inputs": {name: f"{name}.npy" for name in names},
        "output": "case.devmod",
        "file": "case.devmod",
        "is_checked": True,
    }
    try:
        export(request, lambda *_: None)
    except CompileError as error:
        return str(error)
    return "wrong"


@pytest.mark.volume_but(
    *("ConvInteger", "DynamicQuantizeLinear", "LpNormalization", "MaxUnpool"),
    *("Mod", "OptionalHasElement", "Momentum", "Adagrad"),
)
@pytest.mark.parametrize("operator", OPERATORS)
def test_each_case_is_right_or_refused(operator: str) -> None:
    outcomes = {case.name: outcome(case) for case in cases()[operator]}
    strange = {
        name: text
        for name, text in outcomes.items()
        if text != "right"
        and not any(re.search(each, text) for each in REFUSALS)
        and not (find_spec("onnxruntime") and name in AS_ONNXRUNTIME)
    }
    assert strange == {}


@pytest.mark.parametrize(
    "name",
    [
        "test_dynamicquantizelinear",
        "test_l2normalization_axis_0",
        "test_optional_get_element_optional_tensor",
        "test_optional_has_element_tensor_input",
        "test_reduce_sum_empty_set",
        "test_shape_start_greater_than_end",
    ],
)
def test_cases_that_were_wrong_or_refused(name: str) -> None:
    found = [each for several in cases().values() for each in several if each.name == name]
    if not found:
        pytest.skip(f"this version of onnx has no {name}")
    assert outcome(found[0]) == "right"
