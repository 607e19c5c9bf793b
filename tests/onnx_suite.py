"""The node cases of onnx.backend.test: whether a program computes them rightly, or why it is
refused. tools/onnx_counts.py writes the counts.
"""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import devmod_models
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
#: The place of the results that tinygrad computes itself.
CPU = "cpu"
#: The start of the outcome of a case that ended otherwise.
FAULT = "fault: "
#: The most subsets of a case's inputs that are constants.
MOST_SUBSETS = 8
_DEPENDS = "depends on the data of an input"
#: Why a case is refused: the class, and the texts of its errors.
CLASSES = {
    "strings": r"element type 8,|has strings|sequences, optional values or strings|StringNormalizer|Regex|StringSplit|StringConcat|LabelEncoder",
    "sequences and optional values": r"sequence|is no tensor|Optional",
    "types of 8, 4 and 2 bits": r"element type (17|18|19|20|21|22|23|24|25|26)\b",
    "preview and training": r"ai\.onnx\.preview|step of training",
    "decision trees and other classic models": r"ai\.onnx\.ml",
    "shapes that depend on data": r"depends on the data of an input|'(NonMaxSuppression|NonZero|Unique)'",
    "random numbers": r"draws random numbers",
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

    with warnings.catch_warnings():
        # The modules of the cases do that, of which NumPy 2.5 warns.
        warnings.filterwarnings("ignore", "Setting the shape", DeprecationWarning)
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


def outcomes(case: Any, places: Sequence[str] = (CPU,)) -> dict[str, str]:
    """Return the outcome of a case at each place, CPU or the kind of a device: RIGHT, WRONG, or the
    text of a refusal.

    Inputs that give a shape or an option get constants if they must be.
    """
    (inputs, results), *_ = case.data_sets
    arrays = {}
    for value, given in zip(case.model.graph.input, inputs, strict=False):
        arrays[value.name] = array_of(given)
    wanted = [array_of(each) for each in results]
    if any(each is None for each in (*arrays.values(), *wanted)):
        return dict.fromkeys(places, "a sequence, or nothing: no program has sequences")
    options = [name for name, each in arrays.items() if each.dtype.kind in "iub" and each.ndim < 2]
    small = [name for name, each in arrays.items() if each.ndim < 2]
    text = ""
    for constants in ([], options, small, [*arrays]):
        write(case.model, arrays, constants)
        try:
            return run(arrays, constants, wanted, places)
        except DevmodError as error:
            text = str(error)
            if _DEPENDS not in text:
                break
    return dict.fromkeys(places, text)


def outcomes_with_constants(case: Any) -> dict[str, str]:
    """Return the outcome of a case on the CPU for subsets of its inputs as constants, at most 8: of
    each input alone, of all but one, and of all.
    """
    (inputs, results), *_ = case.data_sets
    arrays = {}
    for value, given in zip(case.model.graph.input, inputs, strict=False):
        arrays[value.name] = array_of(given)
    wanted = [array_of(each) for each in results]
    if any(each is None for each in (*arrays.values(), *wanted)):
        return {}
    names = [*arrays]
    subsets = [(name,) for name in names]
    subsets += [tuple(each for each in names if each != name) for name in names]
    subsets += [tuple(names)]
    found = {}
    for constants in [*dict.fromkeys(filter(None, subsets))][:MOST_SUBSETS]:
        write(case.model, arrays, constants)
        label = ", ".join(constants)
        try:
            (found[label],) = run(arrays, constants, wanted, [CPU]).values()
        except DevmodError as error:
            found[label] = str(error)
        except Exception as error:
            found[label] = f"{FAULT}{type(error).__name__}: {error}"
    return found


def run(
    arrays: dict[str, Any], constants: Sequence[str], wanted: Sequence[Any], places: Sequence[str]
) -> dict[str, str]:
    """Return the outcomes of the model in the file."""
    from devmod_models.onnx import read_model

    empty = {}
    for name, each in arrays.items():
        if 0 in each.shape and name not in constants:
            empty[name] = list(each.shape)
    model = read_model("case.onnx", empty)
    given = {name: arrays[name] for name in model.inputs}
    traced = Traced(model, given, [each for each in places if each != CPU])
    result = {}
    for place in places:
        try:
            got = traced.computed(place)
        except DevmodError as error:
            result[place] = str(error)
            if _DEPENDS in result[place]:
                raise
            continue
        result[place] = RIGHT
        if any(map(differs, got, wanted)):
            result[place] = refused(given, place)
    return result


class Traced:
    """A model that was traced once, for several places."""

    def __init__(self, model: Any, given: dict[str, Any], kinds: Sequence[str]) -> None:
        from devmod_models._tinygrad import onnx as models

        self._models = models
        self._kinds = kinds
        self._module: Any = None
        self._model = model
        self._given = given
        self._runner = models.Runner(model)
        #: Those of operators that run several times have no values, as in an export.
        self._example = models.example_tensors(model, {})
        if not self._is_repeated():
            for name in model.inputs:
                self._example[name] = models.tensor_of(given[name]).realize()
        self._results = self._runner.trial(self._example)

    def _is_repeated(self) -> bool:
        return any(each.operator in REPEATED for each in self._model.nodes)

    def computed(self, place: str) -> list[Any]:
        """Return the results at a place. A model without inputs has constants alone."""
        from devmod_models._tinygrad.check import run_program
        from devmod_models._tinygrad.record import record, settings

        if place != CPU and self._given:
            if self._module is None:
                try:
                    self._module = self._exported(self._kinds)
                except DevmodError:  # another kind may have it
                    self._module = self._exported([place])
                    self._kinds = [place]
            if place not in self._kinds:
                self._module = self._exported([place])
            return run_program(self._module, "f", place, *self._given.values())
        if self._is_repeated():
            constants = {name: each for name, each in self._runner.constants.items() if each.shape}
            recording = record(self._function(), self._example, None, constants)
            results: Iterable[Any] = recording.evaluate([*self._given.values()])
        else:
            results = self._results.values()
        with settings(NOOPT=1):
            return [self._models.array_of(each) for each in results]

    def _exported(self, kinds: Sequence[str]) -> Any:
        names = list(self._example)
        return interop.export(
            self._function(), *self._example.values(), targets=kinds, name="f", names=names
        )

    def _function(self) -> Any:
        return self._models.function(self._runner, self._example)


def refused(arrays: dict[str, Any], place: str) -> str:
    """Return how the check refuses a wrong result at a place; WRONG if it does not."""
    from devmod_models._tinygrad.onnx import export

    for name, each in arrays.items():
        np.save(f"{name}.npy", each)
    target = place
    if place == CPU:
        target = "opencl"
    request = {
        "model": "case.onnx",
        "targets": [target],
        "name": "f",
        "dims": {},
        "constants": {},
        "states": {},
        "labels": {},
        "buckets": {},
        "inputs": [[{name: f"{name}.npy" for name in arrays}]],
        "output": "case.devmod",
        "file": "case.devmod",
        "is_checked": True,
        "is_tuned": False,
        "half": "",
        "expected": [],
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


class Table:
    """The outcomes of cases in a file, so that a later run computes those alone that are new or
    changed.

    Each line is the JSON of one, and a later one replaces an earlier one: a run that ends early has
    written what it has computed, and several may run at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[tuple[str, str], dict[str, str]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._rows[row["case"], row["place"]] = row

    def outcome(self, case: Any, place: str) -> str:
        """Return what was computed for a case at a place; "" if it is new or changed."""
        row = self._rows.get((case.name, place), {})
        if row.get("key") != key_of(case):
            return ""
        return row["outcome"]

    def add(self, case: Any, place: str, outcome: str) -> None:
        """Write an outcome."""
        row = {"case": case.name, "place": place, "outcome": outcome, "key": key_of(case)}
        self._rows[case.name, place] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def key_of(case: Any) -> str:
    """Return a digest of a case, and of what computes it."""
    digest = sha256(_code())
    digest.update(case.model.SerializeToString())
    digest.update(pickle.dumps(case.data_sets))
    return digest.hexdigest()[:16]


@cache
def _code() -> bytes:
    """Return a digest of the models' code and of the versions that it works with."""
    digest = sha256()
    for name in ("onnx", "tinygrad"):
        digest.update(version(name).encode())
    for path in sorted(Path(devmod_models.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def is_fault(name: str, outcome: str) -> bool:
    """Return whether an outcome is neither right nor a refusal of a class."""
    if outcome == RIGHT:
        return False
    return outcome.startswith(FAULT) or not class_of(name, outcome)


def outcomes_or_faults(case: Any, places: Sequence[str]) -> dict[str, str]:
    """Return the outcome of a case at each place, also if an error is none of devmod's."""
    try:
        return outcomes(case, places)
    except Exception as error:
        return dict.fromkeys(places, f"{FAULT}{type(error).__name__}: {error}")
