"""ONNX's operators that run a cell for each position of a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal

import devmod
from devmod.errors import CompileError
from devmod.interop import tinygrad as interop

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
pytestmark = pytest.mark.row("R47")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "LSTM": ("LSTM", {}),
    "LSTM of one position": ("LSTM", {"length": 1}),
    "LSTM from the end": ("LSTM", {"direction": "reverse", "initial": True}),
    "LSTM of both directions": (
        "LSTM",
        {"direction": "bidirectional", "lengths": True, "initial": True, "peepholes": True},
    ),
    "LSTM with limits": ("LSTM", {"clip": 0.3, "input_forget": 1}),
    "LSTM with other functions": (
        "LSTM",
        {
            "activations": ["HardSigmoid", "Softsign", "LeakyRelu"],
            "activation_alpha": [0.3, 0.2],
            "activation_beta": [0.4],
        },
    ),
    "LSTM, batch first": ("LSTM", {"layout": 1, "initial": True}),
    "GRU": ("GRU", {"direction": "reverse", "initial": True}),
    "GRU with a late reset": (
        "GRU",
        {"linear_before_reset": 1, "direction": "bidirectional", "lengths": True},
    ),
    "GRU, batch first": ("GRU", {"layout": 1}),
    "RNN": (
        "RNN",
        {
            "direction": "bidirectional",
            "activations": ["LeakyRelu", "ThresholdedRelu"],
            "activation_alpha": [0.1, 0.2],
        },
    ),
    "RNN of lengths": ("RNN", {"lengths": True, "direction": "reverse"}),
}


@pytest.fixture(autouse=True)
def _cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with interop.cpu():
        yield


def random(*shape: int) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.5).astype("float32")


def write(
    operator: str,
    length: int | str = 5,
    lengths: bool = False,
    initial: bool = False,
    peepholes: bool = False,
    **attributes: Any,
) -> dict[str, Any]:
    """Write a model of one node, and return its inputs."""
    size = 6
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[operator] * size
    positions = length if isinstance(length, int) else 5
    inputs = {"x": random(positions, 3, 4)}
    state = (directions, 3, size)
    if attributes.get("layout"):
        inputs["x"] = random(3, positions, 4)
        state = (3, directions, size)
    constants = {
        "w": random(directions, rows, 4),
        "r": random(directions, rows, size),
        "b": random(directions, 2 * rows),
    }
    if lengths:
        constants["lengths"] = np.array([5, 2, 1], "int32")
    if initial:
        inputs["h"] = random(*state)
        if operator == "LSTM":
            inputs["c"] = random(*state)
    if peepholes:
        constants["p"] = random(directions, 3 * size)
    known = {*inputs, *constants, ""}
    names = []
    for name in ("x", "w", "r", "b", "lengths", "h", "c", "p"):
        names.append(name if name in known else "")
    outputs = ["y", "last", "cell"][: 3 if operator == "LSTM" else 2]
    while not names[-1]:
        names.pop()
    node = onnx.helper.make_node(operator, names, outputs, hidden_size=size, **attributes)
    save([node], inputs, constants, outputs, {"x": length} if isinstance(length, str) else {})
    return inputs


def save(
    nodes: list[Any],
    inputs: dict[str, Any],
    constants: dict[str, Any],
    outputs: list[str],
    first: dict[str, str],
) -> None:
    info = onnx.helper.make_tensor_value_info
    given = []
    for name, each in inputs.items():
        given.append(info(name, 1, [first.get(name, each.shape[0]), *each.shape[1:]]))
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        given,
        [info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(each, name) for name, each in constants.items()],
    )
    versions = [onnx.helper.make_opsetid("", 22), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=versions)
    model.ir_version = 10
    onnx.save(model, "case.onnx")


def expected(inputs: dict[str, Any], *, batch_first: bool = False) -> list[Any]:
    """The results of onnxruntime, which has lengths; it has no sequences with the batch first."""
    if batch_first:
        from onnx.reference import ReferenceEvaluator

        results: list[Any] = ReferenceEvaluator("case.onnx").run(None, inputs)
        return results
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # each thread quantizes the rows of its own together
    session = runtime.InferenceSession("case.onnx", options, providers=["CPUExecutionProvider"])
    results = session.run(None, inputs)
    return list(results)


def computed(inputs: dict[str, Any], half: str = "") -> list[Any]:
    """What tinygrad computes; with `half` as by `devmod onnx --half`."""
    from devmod_models._tinygrad.half import Precision, halved
    from devmod_models._tinygrad.onnx import Runner, tensor_of
    from devmod_models.onnx import read_model

    tensors = {name: tensor_of("float32", each) for name, each in inputs.items()}
    model = read_model("case.onnx", {})
    precision = None
    if half:
        model, names = halved(model)
        precision = Precision(model.constants, names, computes=half == "all")
    return [each.numpy() for each in Runner(model, precision).run(tensors).values()]


def check_half(inputs: dict[str, Any], half: str) -> None:
    for one, two in zip(computed(inputs, half), expected(inputs), strict=True):
        assert one.dtype == "float32"
        assert 0 < abs(one - two).max() <= 1e-2 * abs(two).max()


def program(targets: list[str], **dims: Any) -> Any:
    """Export the model, and return the module and the program of the first target."""
    from devmod_models._tinygrad.onnx import Function, Runner, choose_inputs, example_tensors
    from devmod_models.onnx import read_model

    model = read_model("case.onnx", dims)
    runner = Runner(model)
    example = example_tensors(model, choose_inputs(model, {})[-1][1])
    runner.trial(example, is_read=False)
    constants = {name: each for name, each in runner.constants.items() if each.shape}
    module = interop.export(
        Function(runner, list(example)),
        *example.values(),
        targets=targets,
        name="p",
        names=list(example),
        constants=constants,
    )
    return devmod.loads(devmod.dumps(module))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_results_are_those_of_onnx(case: tuple[str, dict[str, Any]]) -> None:
    operator, options = case
    inputs = write(operator, **options)
    wanted = expected(inputs, batch_first=bool(options.get("layout")))
    for one, two in zip(computed(inputs), wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("half", ["all", "weights"])
@pytest.mark.parametrize(
    "case", ["LSTM of both directions", "GRU", "GRU with a late reset", "RNN of lengths"]
)
def test_half_precision(case: str, half: str) -> None:
    operator, options = CASES[case]
    check_half(write(operator, **options), half)


@pytest.mark.parametrize("half", ["all", "weights"])
@pytest.mark.parametrize("magnitude", [0.02, 1e-6])
def test_a_quantized_lstm_of_half_precision(half: str, magnitude: float) -> None:
    """Its integers stay. The scales of its weights may be smaller than float16 has."""
    check_half(write_quantized(magnitude), half)


def test_a_quantized_lstm() -> None:
    inputs = write_quantized(0.02)
    for one, two in zip(computed(inputs), expected(inputs), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)


def write_quantized(magnitude: float) -> dict[str, Any]:
    """Microsoft's: the weights are transposed, and have a scale for each column or for all."""
    integers = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": integers.integers(-90, 90, (1, 4, 24)).astype("int8"),
        "r": integers.integers(-90, 90, (1, 6, 24)).astype("int8"),
        "b": random(1, 48),
        "ws": (abs(random(1, 24)) + 0.1) * np.float32(magnitude),
        "wz": np.zeros((1, 24), "int8"),
        "rs": np.full((1,), 0.01, "float32"),
        "rz": np.zeros((1,), "int8"),
    }
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = onnx.helper.make_node(
        "DynamicQuantizeLSTM", names, ["y", "last", "cell"], hidden_size=6, domain="com.microsoft"
    )
    inputs = {"x": random(5, 3, 4) * np.float32(0.02 / magnitude)}
    save([node], inputs, constants, ["y", "last", "cell"], {})
    return inputs


def test_a_program_of_both_directions() -> None:
    inputs = write("LSTM", direction="bidirectional", lengths=True, initial=True)
    wanted = expected(inputs)
    module: Any = program(["opencl", "webgpu"])
    for kind in ("opencl", "webgpu"):
        first_device(kind)
        f = module["p"].on(kind)
        assert [each.turns for each in f.program.repeats] == [5, 5]
        for one, two in zip(f(*inputs.values()), wanted, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-5)


def test_weights_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels become several where an array is in parts, before a repeat and in it."""
    monkeypatch.setitem(interop._MOST_BYTES, "webgpu", 800)
    inputs = write("GRU", direction="bidirectional", initial=True)
    wanted = expected(inputs)
    module: Any = program(["opencl", "webgpu"])
    for kind in ("opencl", "webgpu"):
        first_device(kind)
        for one, two in zip(module["p"].on(kind)(*inputs.values()), wanted, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_the_number_of_positions_may_be_a_length_of_the_call(direction: str) -> None:
    first_device("opencl")
    write("GRU", "positions", direction=direction)
    f: Any = program(["opencl"], positions=(1, 9))["p"]
    (repeat,) = f.program.repeats
    assert repeat.turns == "positions"
    for count in (5, 1, 9):
        inputs = {"x": random(count, 3, 4)}
        for one, two in zip(f(**inputs), expected(inputs), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-5)


def test_the_first_state_is_a_constant_of_a_node() -> None:
    """PyTorch writes zeros so. The trial does not compute what depends on the input."""
    first_device("opencl")
    length = onnx.numpy_helper.from_array(np.array([0.5], "float32"))
    nodes = [
        onnx.helper.make_node("ConstantOfShape", ["shape"], ["h"], value=length),
        onnx.helper.make_node("RNN", ["x", "w", "r", "", "", "h"], ["y", "last"], hidden_size=6),
    ]
    constants = {
        "shape": np.array([1, 3, 6], "int64"),
        "w": random(1, 6, 4),
        "r": random(1, 6, 6),
    }
    inputs = {"x": random(5, 3, 4)}
    save(nodes, inputs, constants, ["y", "last"], {})
    f: Any = program(["opencl"])["p"]
    for one, two in zip(f(*inputs.values()), expected(inputs), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_the_steps_do_not_depend_on_the_number_of_positions() -> None:
    from devmod_models._tinygrad.onnx import Function, Runner, choose_inputs, example_tensors
    from devmod_models._tinygrad.record import record
    from devmod_models.onnx import read_model

    counts = []
    for length in (8, 1000):
        write("LSTM", length)
        model = read_model("case.onnx", {})
        runner = Runner(model)
        example = example_tensors(model, choose_inputs(model, {})[-1][1])
        runner.trial(example, is_read=False)
        recording = record(Function(runner, list(example)), example, None, runner.constants)
        (repeat,) = recording.repeats
        assert repeat.turns == length
        counts.append((len(recording.calls), repeat.end - repeat.first))
    assert counts[0] == counts[1]
    assert counts[0][1] == 3


def test_what_a_node_cannot_have_is_refused() -> None:
    for options, text in (
        ({"direction": "back"}, "LSTM (output 'y'): the direction 'back' is unknown"),
        ({"activations": ["Tanh"]}, "LSTM (output 'y'): it has 1 activations; expected 3"),
        (
            {"activations": ["Tanh", "Gelu", "Tanh"]},
            "LSTM (output 'y'): the activation 'gelu' is unknown",
        ),
    ):
        inputs = write("LSTM", **options)
        assert refusal(CompileError, computed, inputs) == text


def test_a_variable_has_another_number_in_each_kernel() -> None:
    """Also zero, and where two kernels are the same."""
    from tinygrad import Tensor, Variable

    first_device("opencl")
    place = Variable("place", 0, 3)

    def shifted(x: Tensor) -> Tensor:
        y = Tensor.zeros(4, 3).contiguous().realize()
        for number in range(4):
            at = place.bind(number)
            other = place.bind(3 - number)
            row = x.shrink(((other, other + 1), None)).contiguous().realize()
            y.shrink(((at, at + 1), None)).assign(row * 2)
            y.realize()
        return y

    x = random(4, 3)
    f: Any = interop.export(shifted, Tensor(x), targets="opencl", name="p")["p"]
    np.testing.assert_array_equal(f(x), x[::-1] * 2)
