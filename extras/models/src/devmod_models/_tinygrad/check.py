"""The results of a program on a device, and those of a model by another program than tinygrad, each
in a process of its own: a driver or a model may end it. This imports no tinygrad.
"""

from __future__ import annotations

import operator
import os
from functools import partial
from importlib.util import find_spec
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

import devmod
from devmod.backend import temporary_folder, walk
from devmod.errors import (
    CompileError,
    DeviceMemoryError,
    DeviceNotFoundError,
    describe_error,
    pip_install,
)
from devmod.plugins import registered
from devmod.worker import Worker, answer_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: The errors of a device that cannot run a program. Other errors are those of the program.
_UNUSABLE = (CompileError, DeviceNotFoundError, DeviceMemoryError)
_OWN = "tinygrad on the CPU"
#: The kinds whose languages let a compiler assume that no number is NaN or infinite.
FAST = ("webgpu", "metal", "vulkan")
#: The largest difference of a result, as a part of the largest magnitude, and both.
Difference = tuple[float, float, float]
#: Where each node alone is right, a difference of this many movements is allowed: of how far a
#: result moves if the last digits of each value change.
_MOST_MOVEMENTS = 10
#: Operators with windows that auto_pad may pad.
_PADDED = ("AveragePool", "Conv", "LpPool", "MaxPool")
#: The most seconds of a device, of onnxruntime, and of onnx.reference, which computes in Python.
SECONDS = {"": 300.0, "onnxruntime": 300.0, "onnx.reference": 30.0}


def tolerance(module: devmod.Module) -> float:
    """Return the part of the largest magnitude by which the floats of a module may differ."""
    types = set[str]()
    for part in walk(module):
        for info in part.functions.values():
            if info.interface is not None:
                types.update(each.type for each in info.interface.params)
    if types & {"float16", "bfloat16"}:
        return 1e-2
    return 1e-4


def compare(
    what: str,
    got: Any,
    wanted: Any,
    program: str,
    allowed: float,
    movement: float = 0.0,
    *,
    judges_all: bool = True,
) -> Difference:
    """Compare a result with that of a program, and return the difference. Unless it `judges_all`,
    only where that is finite.

    Raises
    ------
    CompileError
        They differ by more than the part `allowed` of the largest magnitude, or an integer differs;
        and by more than `_MOST_MOVEMENTS` times the `movement` of the result. Or one of them alone
        is NaN or infinite.
    """
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        other = f"{wanted.dtype}{list(wanted.shape)}"
        raise CompileError(f"{what} is {got.dtype}{list(got.shape)}; {program} gives {other}")
    numbers = wanted.astype(np.float64)
    is_judged = np.isfinite(numbers)
    if judges_all:
        own = got.astype(np.float64)
        are_finite = is_judged & np.isfinite(own)
        is_other = (own != numbers) & ~(np.isnan(own) & np.isnan(numbers)) & ~are_finite
        if is_other.any():
            place = tuple(map(int, np.argwhere(is_other)[0]))
            raise CompileError(
                f"{what} is {own[place]} at {list(place)}, where that of {program} is {numbers[place]}"
            )
    numbers = numbers[is_judged]
    scale = float(abs(numbers).max(initial=0))
    difference = float(abs(got.astype(np.float64)[is_judged] - numbers).max(initial=0))
    is_integer = wanted.dtype.kind in "iub"
    if is_integer:
        allowed = 0.0
    most = max(allowed * scale, _MOST_MOVEMENTS * movement)
    is_close = difference <= most
    if is_integer and not movement:  # those beyond 2**53 are no floats
        is_close = bool((got == wanted).all())
    if not is_close:  # also if it is NaN
        raise CompileError(
            f"{what} differs by {difference:.1e} from that of {program}, whose largest magnitude is {scale:.2g}: "
            f"at most {most:.1e} is allowed"
        )
    return difference / (scale or 1), difference, scale


def compare_all(
    place: str,
    results: Sequence[Any],
    expected: Sequence[Any],
    program: str,
    allowed: float,
    movements: Sequence[float] = (),
    *,
    judges_all: bool = True,
) -> list[Difference]:
    """Compare all results of a place with those of a program, and return the differences."""
    differences = []
    rows = zip(results, expected, movements or [0.0] * len(results), strict=True)
    for number, (got, wanted, movement) in enumerate(rows):
        what = f"result {number} of {place}"
        differences.append(
            compare(what, got, wanted, program, allowed, movement, judges_all=judges_all)
        )
    return differences


def with_other_digits(array: Any, random: np.random.Generator, allowed: float) -> Any:
    """Return an array whose numbers have other last digits: a tenth of what is allowed. With less,
    few numbers get to another step of a quantization, and it is chance whether one does. Whole
    numbers stay: they may be indices, or such steps.
    """
    if array.dtype.kind != "f":
        return array
    part = allowed / 10
    changed = array * (1 + random.uniform(-part, part, array.shape))
    return np.where(array == np.rint(array), array, changed).astype(array.dtype)


def device_labels(kinds: Iterable[str], *, has_simulated: bool = True) -> list[str]:
    """Return the devices of kinds, such as "opencl:0", with simulated ones or without."""
    # Programs and bundles have kinds too, without devices.
    own = registered("devmod.device").keys() & set(kinds)
    if not own:
        return []
    return [
        f"{each.kind}:{each.index}"
        for each in devmod.devices(*sorted(own))
        if has_simulated or not each.is_simulated
    ]


def check_devices(
    module: devmod.Module,
    name: str,
    results: Iterable[tuple[str, str, Sequence[Sequence[Any]]]],
    expected: Sequence[Sequence[Any]],
    movements: Callable[[int], Sequence[float]] | None = None,
    what: str = "",
    first: int = 0,
) -> list[str]:
    """Compare the results of a program's calls on devices with those of tinygrad, and return lines
    about what was compared. `results` has each device's label, why it cannot run the program or "",
    and the results of each call. `movements` returns how far the results of a call move if the last
    digits of each value change. `what` names the inputs in errors, and
    `first` is the number of the first call.
    """
    lines = []
    checked = []
    differences: list[Difference] = []
    moved = 0.0
    allowed = tolerance(module)
    for label, problem, got in results:
        if problem:
            lines.append(f"not checked on {label}: {' '.join(problem.split())}")
            continue
        for number, (own, wanted) in enumerate(zip(got, expected, strict=True)):
            place = f"{name!r} on {label}{call_text(number, expected)}{what}"
            judges_all = label.partition(":")[0] not in FAST
            compared = partial(
                compare_all, place, own, wanted, _OWN, allowed, judges_all=judges_all
            )
            try:
                differences += compared()
            except CompileError:
                if movements is None:
                    raise
                distances = movements(first + number)
                differences += compared(distances)
                moved = max(moved, *distances)
        checked.append(label)
    if checked:
        line = summary(checked, _OWN, differences) + calls_text(expected)
        if moved:
            line += f"; other last digits of its values move a result by {moved:.1e}"
        lines.insert(0, line)
    return lines or ["not checked: no device of the file's kinds is here"]


def call_text(number: int, calls: Sequence[Any]) -> str:
    """Return which of several calls it is, for a place."""
    if len(calls) == 1:
        return ""
    return f" in call {number + 1}"


def calls_text(calls: Sequence[Any]) -> str:
    """Return how many calls were compared, if they are several."""
    if len(calls) == 1:
        return ""
    return f", in {len(calls)} calls"


def run_program(
    module: devmod.Module, name: str, device: str, /, *inputs: Any, **named: Any
) -> list[Any]:
    """Return the results of a program on a device. One with state starts with its initial state."""
    (results,) = _run_calls(module, name, device, [(inputs, named)])
    return results


def _run_calls(
    module: devmod.Module,
    name: str,
    device: str,
    calls: Iterable[tuple[Sequence[Any], Mapping[str, Any]]],
) -> list[list[Any]]:
    """Return the results of calls of a program in a row, which share one state."""
    function: Any = module[name].on(device)
    more = {}
    if function.states:
        more["state"] = function.state()
    returned = []
    for inputs, named in calls:
        results = function(*inputs, **named, **more)
        if not isinstance(results, tuple):
            results = (results,)
        returned.append([*map(np.asarray, results)])
    return returned


def try_calls(
    module: devmod.Module,
    name: str,
    device: str,
    calls: Iterable[tuple[Sequence[Any], Mapping[str, Any]]],
) -> tuple[str, list[list[Any]]]:
    """Return why a device cannot run a program, or "" and the results of calls in a row."""
    try:
        return "", _run_calls(module, name, device, calls)
    except _UNUSABLE as error:
        return str(error), []


def summary(places: Sequence[str], program: str, differences: Iterable[Difference]) -> str:
    """Return the line about what was compared with a program."""
    *others, shown = places
    if others:
        shown = f"{', '.join(others)} and {shown}"
    _, difference, scale = max(differences)
    return f"checked on {shown} against {program}: worst error {difference:.1e} of {scale:.2g}"


def remarks(expected: Iterable[Any]) -> list[str]:
    """Return lines about the results with which a comparison shows little."""
    lines = []
    kinds = f"{', '.join(FAST[:-1])} and {FAST[-1]}"
    for number, wanted in enumerate(expected):
        if not np.isfinite(wanted.astype(np.float64)).all():
            lines.append(
                f"result {number} is not finite everywhere: on {kinds}, whose compilers may assume finite numbers, "
                "the rest of it is compared"
            )
        elif not wanted.any() or (wanted.size > 1 and (wanted == wanted.flat[0]).all()):
            lines.append(f"result {number} is the same everywhere, so a wrong one may equal it")
    return lines


def describe_records(module: devmod.Module) -> list[str]:
    """Return lines about the time that devices take for tuned kernels."""
    times: dict[str, list[tuple[float, float]]] = {}
    for record in module.tuning_records:
        first, *others = record.measured.values()
        if first is not None:
            best = min([first, *filter(None, others)])
            times.setdefault(f"{record.device} ({record.kind})", []).append((first, best))
    lines = []
    for label, pairs in times.items():
        before, after = map(sum, zip(*pairs, strict=True))
        what = f"{len(pairs)} kernels take"
        if len(pairs) == 1:
            what = "1 kernel takes"
        lines.append(f"tuned on {label}: {what} {after / before:.2f} of the time")
    return lines or ["not tuned: no device here runs a slow kernel faster with other optimizations"]


class Reference:
    """Another program than tinygrad that computes the results of a model: the first of `programs`
    that is installed.

    Attributes
    ----------
    program
        Its name; "" if none computes them.
    problem
        Why none does.
    """

    def __init__(
        self, model: str, programs: Iterable[str] = ("onnxruntime", "onnx.reference")
    ) -> None:
        self._model = model
        #: The rest of the time of each program that may be asked.
        self._seconds = {}
        for program in programs:
            if is_here(program):
                self._seconds[program] = SECONDS[program]
        self._problems: list[str] = []

    @property
    def program(self) -> str:
        return next(iter(self._seconds), "")

    @property
    def problem(self) -> str:
        problems = [*self._problems]
        if not is_here("onnxruntime"):
            problems.append(f"to compare with onnxruntime: {pip_install('onnxruntime')}")
        return "; ".join(problems)

    def results(self, inputs: Mapping[str, Any], *, every: bool = False) -> dict[str, Any]:
        """Return the results by name, or what `every` node gives; {} if no program does."""
        request = {"model": self._model, "inputs": [*inputs], "every": every}
        for program in [*self._seconds]:
            start = monotonic()
            request["program"] = program
            answer, arrays = _ask(request, [*inputs.values()], self._seconds[program])
            self._seconds[program] -= monotonic() - start
            if "reply" in answer:
                return dict(zip(answer["reply"], arrays, strict=True))
            self._problems.append(f"{program}: {answer['error']}")
            del self._seconds[program]
        return {}


def is_here(program: str) -> bool:
    """Return whether a program is installed."""
    return find_spec(program.partition(".")[0]) is not None


def results_on(
    device: str, file: str, name: str, calls: Sequence[Sequence[Any]]
) -> tuple[str, list[list[Any]]]:
    """Return why a program cannot run on a device, or "" and the results of calls in a row.

    Raises
    ------
    CompileError
        It runs on no device.
    """
    request = {"program": "", "device": device, "file": file, "name": name, "calls": len(calls)}
    answer, arrays = _ask(request, [*chain(*calls)], SECONDS[""])
    if answer.get("is_wrong"):
        raise CompileError(f"{name!r} on {device}: {answer['error']}")
    problem = answer.get("error") or answer["reply"]
    return problem, [] if problem else _divided(arrays, len(calls))


def _divided(arrays: Sequence[Any], count: int) -> list[list[Any]]:
    """Return arrays in parts of the same length."""
    length = len(arrays) // count
    return [[*arrays[number * length :][:length]] for number in range(count)]


def _ask(request: dict[str, Any], arrays: Sequence[Any], seconds: float) -> tuple[Any, list[Any]]:
    """Return the answer of a process and its arrays. "error" is its error, or how it ended; "reply"
    has the names of a model's results, or why a device cannot run the program.
    """
    with temporary_folder() as folder:
        path = os.path.join(folder, "arrays.npz")
        np.savez(path, *arrays)
        with Worker(__name__, {**request, "arrays": path}, captures=True) as worker:
            answer = worker.answer(seconds) or {"error": f"it {worker.end_of_item(seconds)}"}
        return answer, _read(path)


def _read(path: str) -> list[Any]:
    with np.load(path, allow_pickle=False) as file:
        return list(map(typed, file.values()))


def typed(array: Any) -> Any:
    """Return an array of a file. NumPy writes bfloat16, a type of ml_dtypes, without its name."""
    if array.dtype.str != "|V2":
        return array
    import ml_dtypes  # the package onnx needs it

    return array.view(ml_dtypes.bfloat16)


def main(request: dict[str, Any]) -> None:
    """Compute results in the new process."""
    answer = answer_writer()
    try:
        inputs = _read(request["arrays"])
        reply: Any
        results: Any
        if request["program"]:
            reply, results = _run_model(request, inputs)
        else:
            kind = request["device"].partition(":")[0]
            module = devmod.load(request["file"], prefer=(kind,))  # no other driver is opened
            calls: Any = [(each, {}) for each in _divided(inputs, request["calls"])]
            reply, own = try_calls(module, request["name"], request["device"], calls)
            results = [*chain(*own)]
        np.savez(request["arrays"], *results)
        answer({"reply": reply})
    except Exception as error:  # noqa: BLE001 - another program may raise anything
        answer({"error": describe_error(error), "is_wrong": True})


def _with_pads(model: Any, inputs: Mapping[str, Any]) -> None:
    """Give windows the pads of ONNX's auto_pad where both programs compute others: windows with
    gaps, and those that are smaller than their steps.
    """
    import onnx

    nodes = []
    for node in model.graph.node:
        options = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type in _PADDED and options.get("auto_pad", b"").startswith(b"SAME"):
            nodes.append((node, options))
    if not nodes:
        return
    shapes = _shapes(model, inputs)
    for node, options in nodes:
        sides = shapes.get(node.input[0], ())[2:]
        windows = options.get("kernel_shape")
        if windows is None:
            windows = shapes.get(node.input[1], ())[2:]
        if not all(sides) or len(windows) != len(sides):  # a length is unknown
            continue
        ones = [1] * len(sides)
        steps = options.get("strides", ones)
        gaps = options.get("dilations", ones)
        if max(gaps) == 1 and not any(map(operator.gt, steps, windows)):
            continue
        is_lower = options["auto_pad"] == b"SAME_LOWER"
        pads = _same_pads(zip(sides, windows, steps, gaps, strict=True), is_lower=is_lower)
        others = [each for each in node.attribute if each.name not in ("auto_pad", "ceil_mode")]
        others.append(onnx.helper.make_attribute("pads", pads))
        del node.attribute[:]
        node.attribute.extend(others)


def _same_pads(axes: Iterable[tuple[int, ...]], *, is_lower: bool) -> list[int]:
    """Return ONNX's pads of axes by their length, and a window's size, step and gap."""
    first = []
    last = []
    for length, size, step, gap in axes:
        whole = (-(-length // step) - 1) * step + gap * (size - 1) + 1
        pads = max(whole - length, 0)
        first.append(pads // 2)
        last.append(pads - pads // 2)
    if is_lower:
        return last + first
    return first + last


def _shapes(model: Any, inputs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of values by name, for given inputs. An unknown length is 0."""
    import onnx

    own = onnx.ModelProto.FromString(model.SerializeToString())
    del own.graph.output[:], own.graph.value_info[:]
    for value in own.graph.input:
        if value.name in inputs:
            dtype = value.type.tensor_type.elem_type
            shape = inputs[value.name].shape
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, dtype, shape))
    graph = onnx.shape_inference.infer_shapes(own, data_prop=True).graph
    result = {each.name: tuple(each.dims) for each in graph.initializer}
    for value in (*graph.input, *graph.value_info):
        sides = value.type.tensor_type.shape.dim
        result[value.name] = tuple(side.dim_value for side in sides)
    return result


def _session(model: Any) -> Any:
    """Return onnxruntime's session, whose sums of products of uint8 and int8 are exact: without the
    option, pairs of products saturate at 16 bits on a processor with AVX2 and without VNNI. With
    the option, it has no convolution of int8.
    """
    import onnxruntime

    is_threaded = all(each.op_type != "DynamicQuantizeLSTM" for each in model.graph.node)
    content = model.SerializeToString()

    def session(*, is_exact: bool) -> Any:
        options = onnxruntime.SessionOptions()
        # By default it quantizes the first factor of a product whose second one is dequantized.
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        if is_exact:
            options.add_session_config_entry("session.x64quantprecision", "1")
        if not is_threaded:
            options.intra_op_num_threads = 1  # each thread quantizes the rows of its own together
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    try:
        return session(is_exact=True)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return session(is_exact=False)


def _run_model(request: dict[str, Any], inputs: Sequence[Any]) -> tuple[list[str], Any]:
    import onnx

    model = onnx.load(request["model"])
    outputs = model.graph.output
    if request["every"]:
        made = set[str]().union(*[each.output for each in model.graph.node])
        others = made - {"", *[each.name for each in outputs]}
        outputs.extend(map(onnx.helper.make_empty_tensor_value_info, sorted(others)))
    names = [each.name for each in outputs]
    _with_pads(model, dict(zip(request["inputs"], inputs, strict=True)))
    session: Any
    if request["program"] == "onnxruntime":
        session = _session(model)
    else:
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(model)
    known = {each.name for each in model.graph.input}
    given = zip(request["inputs"], inputs, strict=True)
    return names, session.run(names, {name: each for name, each in given if name in known})
