"""The node cases of onnx.backend.test: whether a program computes them rightly, or why it is
refused. tools/onnx_counts.py writes the counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import onnx

from devmod.errors import CompileError, DevmodError
from devmod.interop import tinygrad as interop

#: The modules of operators that have another name.
_MODULES = {
    "CausalConvWithState": "causal_conv_with_state",
    "LinearAttention": "linear_attention",
    "Range": "rangeop",
}
#: The operators whose kernels run several times: their trace has one turn alone.
REPEATED = ("DynamicQuantizeLSTM", "GRU", "If", "LSTM", "Loop", "RNN", "Scan")
RIGHT = "right"
WRONG = "wrong"
#: Why a case is refused: the class, and the texts of its errors.
CLASSES = {
    "strings": r"element type 8,|has strings|sequences, optional values or strings|StringNormalizer|Regex|StringSplit|StringConcat|LabelEncoder",
    "sequences and optional values": r"sequence|is no tensor|Optional",
    "types of 8, 4 and 2 bits": r"element type (17|18|19|20|21|22|23|24|25|26)\b",
    "preview and training": r"ai\.onnx\.preview|step of training",
    "decision trees and other classic models": r"ai\.onnx\.ml",
    "shapes that depend on data": r"depends on the data of an input|'(NonMaxSuppression|NonZero|Unique)'",
    "random numbers": r"Bernoulli|makes random numbers",
    "control flow": r"control flow|'(If|Loop|Scan)'",
    "recurrent layers": r"'(GRU|LSTM|RNN|DynamicQuantizeLSTM)'",
    "arrays without elements": r"is an empty array of shape",
    "resizing with antialias or crops": r"antialias is not implemented|tf_crop_and_resize",
    "element types that WebGPU lacks": r"Kinds with (float64|bfloat16|float16)",
}
_ROUNDED = "the case has four digits of its results"
_SAMPLED = "onnxruntime gives what the program gives, and the case other numbers"
#: The cases that are not right for another reason.
OTHERS = {
    "test_loop11": "the check refuses the result",
    "test_scan_sum": "Scan of version 8",
    "test_averagepool_2d_ceil_last_window_starts_on_pad": _ROUNDED,
    "test_maxunpool_export_with_output_shape": _SAMPLED,
    "test_resize_downsample_scales_cubic_align_corners": _SAMPLED,
    "test_resize_downsample_scales_linear_align_corners": _SAMPLED,
}


@cache
def cases(*operators: str) -> dict[str, list[Any]]:
    """The cases of operators by name; of all, without a name, which takes 5 s. Those of several
    nodes are the operator's that they expand.
    """
    from onnx.backend.test.case import node

    for operator in operators:
        module = _MODULES.get(operator, operator.lower())
        import_module(f"{node.__name__}.{module}")
    if not operators:
        import_all(node)
    result: dict[str, list[Any]] = {}
    for case in sorted(node._NodeTestCases, key=lambda each: each.name):
        names = [each.op_type for each in case.model.graph.node]
        if len(names) == 1 and (not operators or names[0] in operators):
            result.setdefault(names[0], []).append(case)
    return result


def import_all(package: Any) -> None:
    """Import the modules of a package."""
    from pkgutil import walk_packages

    for each in walk_packages(package.__path__, package.__name__ + "."):
        import_module(each.name)


def write(model: Any, arrays: dict[str, Any], constants: Sequence[str]) -> None:
    """Write a model of which some inputs are constants."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    inputs = [each for each in made.graph.input if each.name in arrays]
    del made.graph.input[:]
    made.graph.input.extend(each for each in inputs if each.name not in constants)
    for name in constants:
        made.graph.initializer.append(onnx.numpy_helper.from_array(arrays[name], name))
    onnx.save(made, "case.onnx")


def differs(got: Any, wanted: Any) -> bool:
    """Whether a result differs by more than 1e-4 of the largest magnitude, or 1e-2 of half
    precision.
    """
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return True
    if wanted.dtype.kind in "iub":
        return bool((got != wanted).any())
    exact = wanted.astype(np.float64)
    is_finite = np.isfinite(exact)
    if not np.array_equal(got.astype(np.float64)[~is_finite], exact[~is_finite], equal_nan=True):
        return True
    allowed = 1e-2
    if wanted.dtype in (np.float32, np.float64):
        allowed = 1e-4
    # Some cases have four digits of the results.
    allowed = allowed * abs(exact[is_finite]).max(initial=0) + 1e-5
    difference = abs(got.astype(np.float64) - exact)[is_finite]
    return not (difference <= allowed).all()  # also if it is NaN


def array_of(value: Any) -> Any:
    """An array of a case; None for a sequence, or nothing."""
    if value is None or isinstance(value, (list, dict)):
        return None
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value)


def outcome(case: Any, kinds: Iterable[str] = ()) -> str:
    """Return RIGHT, WRONG with a place, or the text of a refusal.

    Inputs that give a shape or an option get constants if they must be. A case that is right on
    tinygrad's CPU is run on a device of each kind.
    """
    (inputs, results), *_ = case.data_sets
    arrays = {}
    for value, given in zip(case.model.graph.input, inputs, strict=False):
        arrays[value.name] = array_of(given)
    wanted = [array_of(each) for each in results]
    if any(each is None for each in (*arrays.values(), *wanted)):
        return "a sequence, or nothing: no program has sequences"
    options = [name for name, each in arrays.items() if each.dtype.kind in "iub" and each.ndim < 2]
    small = [name for name, each in arrays.items() if each.ndim < 2]
    text = ""
    for constants in ([], options, small, [*arrays]):
        write(case.model, arrays, constants)
        try:
            return run(arrays, constants, wanted, kinds)
        except DevmodError as error:
            text = str(error)
            if "depends on the data of an input" not in text:
                return text
    return text


def run(
    arrays: dict[str, Any], constants: Sequence[str], wanted: Sequence[Any], kinds: Iterable[str]
) -> str:
    """Return the outcome of the model in the file."""
    from devmod_models._tinygrad import onnx as models
    from devmod_models._tinygrad.check import run_program
    from devmod_models._tinygrad.record import record, settings
    from devmod_models.onnx import read_model

    empty = {}
    for name, each in arrays.items():
        if 0 in each.shape and name not in constants:
            empty[name] = list(each.shape)
    model = read_model("case.onnx", empty)
    given = {name: arrays[name] for name in model.inputs}
    runner = models.Runner(model)
    example = models.example_tensors(model, given)
    traced = runner.trial(example)
    if any(each.operator in REPEATED for each in model.nodes):
        function = models.Function(runner, list(example))
        constants_by_name = {name: each for name, each in runner.constants.items() if each.shape}
        recording = record(function, example, None, constants_by_name)
        got = [models.array_of(each) for each in recording.evaluate([*given.values()])]
    else:
        with settings(NOOPT=1):
            got = [models.array_of(each) for each in traced.values()]
    if any(map(differs, got, wanted)):
        return refused(given)
    if not given:
        return RIGHT
    for kind in kinds:
        function = models.Function(runner, list(example))
        module = interop.export(
            function, *example.values(), targets=kind, name="f", names=list(example)
        )
        got = run_program(module, "f", kind, *given.values())
        if any(map(differs, got, wanted)):
            return f"{WRONG} on {kind}"
    return RIGHT


def refused(arrays: dict[str, Any]) -> str:
    """Return how the check refuses a wrong result; WRONG if it does not."""
    from devmod_models._tinygrad.onnx import export

    for name, each in arrays.items():
        np.save(f"{name}.npy", each)
    request = {
        "model": "case.onnx",
        "targets": ["opencl"],
        "name": "f",
        "dims": {},
        "inputs": {name: f"{name}.npy" for name in arrays},
        "output": "case.devmod",
        "file": "case.devmod",
        "is_checked": True,
        "is_tuned": False,
        "half": "",
        "expected": {},
    }
    try:
        export(request, lambda *_: None)
    except CompileError as error:
        return str(error)
    return WRONG


def class_of(name: str, text: str) -> str:
    """Return the class of a refusal; "" for none."""
    for label, pattern in CLASSES.items():
        if re.search(pattern, text):
            return label
    return OTHERS.get(name, "")
