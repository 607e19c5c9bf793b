"""ONNX's operators that run a cell for each position of a sequence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import metal_standin
import numpy as np
import pytest
from backend_checks import first_device
from each_case import check_each, refusal, some
from metal_double import replace_metal

import devmod
from devmod.errors import CompileError
from devmod.interop import tinygrad as interop

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
import onnx
from onnx.reference import ReferenceEvaluator
from onnx_models import check_close, check_half, computed, expected, program, save, traced

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("renders_here")]
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
    "LSTM with limits below its states": (
        "LSTM",
        {"clip": 0.2, "initial": True, "direction": "bidirectional"},
    ),
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


def random(*shape: int) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.5).astype("float32")


def write(
    operator: str,
    length: int | str = 5,
    lengths: bool | Sequence[int] = False,
    initial: bool = False,
    peepholes: bool = False,
    size: int = 6,
    batch: int = 3,
    **attributes: Any,
) -> dict[str, Any]:
    """Write a model of one node, and return its inputs."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[operator] * size
    positions = length if isinstance(length, int) else 5
    inputs = {"x": random(positions, batch, 4)}
    state = (directions, batch, size)
    if attributes.get("layout"):
        inputs["x"] = random(batch, positions, 4)
        state = (batch, directions, size)
    constants = {
        "w": random(directions, rows, 4),
        # Sums of more products would move a result by the last digits of a state.
        "r": random(directions, rows, size) * np.float32(min(1, 12 / size)),
        "b": random(directions, 2 * rows),
    }
    if lengths:
        own = [5, 2, 1] if lengths is True else lengths
        constants["lengths"] = np.resize(np.array(own, "int32"), batch)
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
    first = {}
    if isinstance(length, str):
        first["x"] = length
    save([node], inputs, constants, outputs, first)
    return inputs


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_results_are_those_of_onnx(case: tuple[str, dict[str, Any]]) -> None:
    operator, options = case
    inputs = write(operator, **options)
    if "layout" in options:  # onnxruntime has no sequences with the batch first
        wanted: Any = ReferenceEvaluator("case.onnx").run(None, inputs)
    else:
        wanted = expected(inputs)
    check_close(computed(inputs), wanted)


def hard_sigmoid(x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return np.clip(alpha * x + beta, 0, 1)


#: The formulas of ONNX's page of the operator RNN, with the defaults of the operators of the same
#: names. Each has the keys of its numbers.
FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "Affine": (lambda x, alpha=1.0, beta=0.0: alpha * x + beta, "alpha beta"),
    "Elu": (lambda x, alpha=1.0: np.where(x < 0, alpha * (np.exp(x) - 1), x), "alpha"),
    "HardSigmoid": (hard_sigmoid, "alpha beta"),
    "LeakyRelu": (lambda x, alpha=0.01: np.where(x < 0, alpha * x, x), "alpha"),
    "Relu": (lambda x: np.maximum(x, 0), ""),
    "ScaledTanh": (lambda x, alpha=1.0, beta=1.0: alpha * np.tanh(beta * x), "alpha beta"),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ""),
    "Softplus": (lambda x: np.log(1 + np.exp(x)), ""),
    "Softsign": (lambda x: x / (1 + abs(x)), ""),
    "Tanh": (np.tanh, ""),
    "ThresholdedRelu": (lambda x, alpha=1.0: np.where(x > alpha, x, 0), "alpha"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_activation_with_its_own_numbers_and_with_the_defaults(name: str) -> None:
    """The first direction has numbers of its own, and the second one the defaults."""
    function, keys = FUNCTIONS[name]
    numbers = {key: value for key, value in (("alpha", 0.7), ("beta", 0.3)) if key in keys}
    inputs = {"x": random(1, 20, 4) * 6}
    constants = {"w": random(2, 6, 4), "r": random(2, 6, 6)}
    node = onnx.helper.make_node(
        "RNN",
        ["x", "w", "r"],
        ["y"],
        hidden_size=6,
        direction="bidirectional",
        activations=[name, name],
        **{f"activation_{key}": [value] for key, value in numbers.items()},
    )
    save([node], inputs, constants, ["y"])
    (y,) = computed(inputs)
    for number, values in enumerate((numbers, {})):
        sums = inputs["x"][0] @ constants["w"][number].T
        assert sums.min() < -3
        assert sums.max() > 3
        np.testing.assert_allclose(y[0, number], function(sums, **values), atol=1e-5)


def test_each_activation_of_onnx_has_a_formula() -> None:
    names = re.findall(r"^\* (\w+)\(x\) +- ", onnx.defs.get_schema("RNN").doc, re.M)
    assert sorted(names) == sorted(FUNCTIONS)


@pytest.mark.parametrize("half", ["all", "weights"])
@pytest.mark.parametrize(
    "case", ["LSTM of both directions", "GRU", "GRU with a late reset", "RNN of lengths"]
)
def test_half_precision(case: str, half: str) -> None:
    operator, options = CASES[case]
    inputs = write(operator, **options)
    check_half(computed(inputs, half), expected(inputs))


@pytest.mark.parametrize("half", ["all", "weights"])
@pytest.mark.parametrize("magnitude", [0.02, 1e-6])
def test_a_quantized_lstm_of_half_precision(half: str, magnitude: float) -> None:
    """Its integers stay. The scales of its weights may be smaller than float16 has."""
    inputs = write_quantized(magnitude)
    check_half(computed(inputs, half), expected(inputs))


def test_a_quantized_lstm() -> None:
    inputs = write_quantized(0.02)
    check_close(computed(inputs), expected(inputs), 1e-4)


def test_each_direction_of_a_quantized_lstm_has_its_own_scale() -> None:
    inputs = write_quantized(0.02, (0.01, 0.05))
    check_close(computed(inputs), expected(inputs), 1e-4)


def test_a_quantized_lstm_of_inputs_on_a_grid() -> None:
    """Many inputs are halfway between two steps, so that the last digit of the scale decides."""
    inputs = write_quantized(0.02)
    for most in (1, 3, 7):
        numbers = np.random.default_rng(most).integers(0, 511, inputs["x"].shape)
        numbers.flat[:2] = 0, 510
        grid = {"x": numbers.astype("float32") / 510 * np.float32(most)}
        check_close(computed(grid), expected(grid))


#: The lengths of sequences: with ends of which no position is last, none and only lengths of 0.
LENGTHS = ([5, 2, 3], [3, 4, 2], [4, 0, 3], [0, 0, 0], [2, 5, 0])


def test_a_quantized_lstm_of_lengths() -> None:
    """What is quantized together are the states of a turn, whose sequences may have ended, and the
    inputs up to the longest sequence. Those behind it are larger than all others.
    """

    def run(case: str) -> None:
        lengths, direction, has_states = CASES_OF_LENGTHS[case]
        scales = (0.01, 0.05) if direction == "bidirectional" else (0.03,)
        inputs = write_quantized(0.02, scales, lengths, direction, has_states=has_states)
        inputs["x"][max(lengths) :] *= 9
        check_close(computed(inputs), expected(inputs), 1e-6)

    check_each(CASES_OF_LENGTHS, run)


CASES_OF_LENGTHS = {
    f"{lengths} {direction} {has_states}": (lengths, direction, has_states)
    for lengths in LENGTHS
    for direction in ("forward", "reverse", "bidirectional")
    # Without the states, onnxruntime quantizes memory that it has not written for a length of 0.
    for has_states in (True, False)[: 1 + all(lengths)]
}


def test_lengths_of_a_quantized_lstm_that_a_call_chooses() -> None:
    for direction in ("forward", "reverse"):
        write_quantized(0.02, (0.04,), "lengths", direction, positions="positions")
        own = program("opencl", positions=(1, 6)).on(first_device("opencl"))
        for count, lengths in ((5, [5, 2, 3]), (3, [0, 2, 3]), (6, [4, 2, 1])):
            inputs = {"x": random(count, 3, 4), "lengths": np.array(lengths, "int32")}
            check_close(own(**inputs), expected(inputs), 1e-6)


def test_a_sequence_without_positions_has_no_last_state() -> None:
    """Zeros, whatever its first state is, as in onnxruntime."""

    def run(operator: str) -> None:
        for direction in ("forward", "reverse", "bidirectional"):
            inputs = write(operator, lengths=[3, 0, 5], initial=True, direction=direction)
            got = computed(inputs)
            check_close(got, expected(inputs))
            assert all(not each[:, 1].any() for each in some(got[1:]))

    check_each(GATES, run)


def test_numbers_are_quantized_once() -> None:
    """No kernel of a product rounds: it would do so for each column."""
    from tinygrad.uop.ops import Ops

    from devmod_models._tinygrad.record import each_call, record

    write_quantized(0.02)
    function, example, constants = traced()
    rounding = 0
    for call in each_call(record(function, example, None, constants).calls):
        operators = {each.op for each in call.src[0].toposort()}
        rounding += Ops.TRUNC in operators
        assert not {Ops.TRUNC, Ops.REDUCE} <= operators
    assert rounding


def write_quantized(
    magnitude: float,
    scales: Sequence[float] = (0.01,),
    lengths: Sequence[int] | str = (),
    direction: str = "",
    *,
    has_states: bool = True,
    positions: str = "",
) -> dict[str, Any]:
    """Microsoft's: the weights are transposed, and have a scale for each column or for all. Each
    direction has one of the scales of the states. `lengths` may be the name of an input.
    """
    directions = len(scales)
    integers = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": integers.integers(-90, 90, (directions, 4, 24)).astype("int8"),
        "r": integers.integers(-90, 90, (directions, 6, 24)).astype("int8"),
        "b": random(directions, 48),
        "ws": (abs(random(directions, 24)) + 0.1) * np.float32(magnitude),
        "wz": np.zeros((directions, 24), "int8"),
        "rs": np.array(scales, "float32"),
        "rz": np.zeros((directions,), "int8"),
    }
    inputs = {"x": random(5, 3, 4) * np.float32(0.02 / magnitude)}
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    if isinstance(lengths, str):
        inputs["lengths"] = np.array([5, 2, 3], "int32")
    elif lengths:
        constants["lengths"] = np.array(lengths, "int32")
    if lengths:
        names[4] = "lengths"
    outputs = ["y" if has_states else "", "last", "cell"]
    node = onnx.helper.make_node(
        "DynamicQuantizeLSTM",
        names,
        outputs,
        hidden_size=6,
        direction=direction or ["forward", "bidirectional"][directions - 1],
        domain="com.microsoft",
    )
    first = {"x": positions} if positions else None
    save([node], inputs, constants, list(filter(None, outputs)), first)
    return inputs


#: What the kernels of layers compute differently: vectors of 16 with a rest and without, tiles of
#: rows, sequences that a thread shares, blocks of more and of fewer threads than units.
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a rest of a vector": ("LSTM", {"size": 20, "batch": 1, "initial": True}),
    "vectors and a rest": (
        "LSTM",
        {"size": 35, "batch": 2, "lengths": True, "initial": True, "peepholes": True},
    ),
    "two vectors": (
        "LSTM",
        {"size": 32, "batch": 4, "direction": "bidirectional", "lengths": True, "peepholes": True},
    ),
    "more units than threads": ("LSTM", {"size": 260, "batch": 1, "length": 2}),
    "a block for each unit": (
        "LSTM",
        {
            "size": 270,
            "batch": 2,
            "direction": "bidirectional",
            "lengths": True,
            "initial": True,
            "peepholes": True,
        },
    ),
    "a block for each unit with a late reset": (
        "GRU",
        {"size": 300, "batch": 3, "length": 2, "linear_before_reset": 1, "direction": "reverse"},
    ),
    "an early reset that stays": ("GRU", {"size": 310, "batch": 1, "length": 2}),
    "fewer rows than a tile": ("LSTM", {"size": 3, "batch": 5, "input_forget": 1}),
    "an early reset": ("GRU", {"size": 35, "batch": 4, "initial": True, "lengths": True}),
    "a late reset": (
        "GRU",
        {"size": 19, "batch": 6, "linear_before_reset": 1, "direction": "reverse", "lengths": True},
    ),
    "a long reset": ("GRU", {"size": 140, "batch": 1, "direction": "bidirectional"}),
    "no gates": ("RNN", {"size": 21, "batch": 8, "direction": "bidirectional", "initial": True}),
}


def check_layer(label: str, *kinds: str) -> None:
    """Compare a layer of LAYERS with onnxruntime, on the devices of kinds."""
    operator, options = LAYERS[label]
    inputs = write(operator, **options)
    wanted = expected(inputs)
    each = program(*kinds)
    for device in devmod.devices(*kinds):
        f = each.on(device)
        # A block does not read as many weights in each turn: each is a launch.
        launches = [each.end - each.first for each in f.program.repeats]
        if device.kind == "opencl" or options["size"] <= 256:
            assert launches == []
        elif label == "an early reset that stays":
            assert launches == [3]
        else:
            assert launches == [1] * len(launches) != []
        check_close(f(*inputs.values()), wanted)


def test_a_layer_is_one_kernel_on_each_kind() -> None:
    first_device("opencl")
    present = [kind for kind in ("opencl", "vulkan", "webgpu") if devmod.devices(kind)]
    check_each(LAYERS, lambda label: check_layer(label, *present))


@pytest.mark.skipif(bool(metal_standin.missing()), reason=metal_standin.missing())
@pytest.mark.volume_but("an early reset", "a block for each unit")
@pytest.mark.parametrize("label", LAYERS)
def test_a_layer_is_one_kernel_on_metal(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double runs the kernels as C++ on the CPU."""
    replace_metal(monkeypatch)
    check_layer(label, "metal")


def test_a_layer_has_each_activation() -> None:
    """On numbers below and above each limit."""
    first_device("opencl")
    first_device("webgpu")

    def run(name: str) -> None:
        function, keys = FUNCTIONS[name]
        numbers = {key: value for key, value in (("alpha", 0.7), ("beta", 0.3)) if key in keys}
        inputs = {"x": random(2, 20, 4) * 6}
        constants = {"w": random(1, 18, 4), "r": np.zeros((1, 18, 18), "float32")}
        options = {f"activation_{key}": [value] for key, value in numbers.items()}
        node = onnx.helper.make_node(
            "RNN", ["x", "w", "r"], ["y"], hidden_size=18, activations=[name], **options
        )
        save([node], inputs, constants, ["y"])
        sums = inputs["x"] @ constants["w"][0].T
        assert sums.min() < -3
        assert sums.max() > 3
        own = program("opencl", "webgpu")
        for kind in ("opencl", "webgpu"):
            f = own.on(kind)
            assert not f.program.repeats
            got = f(inputs["x"])
            np.testing.assert_allclose(got[:, 0], function(sums, **numbers), atol=1e-5)

    check_each(FUNCTIONS, run)


def test_weights_that_a_model_computes_are_whole_first() -> None:
    """A product and a transposition have no array of their own."""
    first_device("opencl")
    inputs = {"x": random(5, 3, 4), "scale": random(1, 24, 1)}
    nodes = [
        onnx.helper.make_node("Transpose", ["turned"], ["plain"], perm=[0, 2, 1]),
        onnx.helper.make_node("Mul", ["plain", "scale"], ["r"]),
        onnx.helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=6),
    ]
    constants = {"w": random(1, 24, 4), "turned": random(1, 6, 24)}
    save(nodes, inputs, constants, ["y"])
    f = program("opencl")
    assert not f.program.repeats
    check_close(f(*inputs.values()), expected(inputs))


def test_weights_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels become several where an array is in parts, before a repeat and in it."""
    monkeypatch.setitem(interop._MOST_BYTES, "webgpu", 800)
    inputs = write("GRU", direction="bidirectional", initial=True)
    wanted = expected(inputs)
    both = program("opencl", "webgpu")
    for kind in ("opencl", "webgpu"):
        first_device(kind)
        check_close(both.on(kind)(*inputs.values()), wanted)


def test_the_number_of_positions_may_be_a_length_of_the_call() -> None:
    first_device("opencl")
    first_device("webgpu")
    for large in (False, True):
        write("GRU", "positions", direction="reverse", size=400 if large else 6)
        both = program("opencl", "webgpu", positions=(1, 9))
        for kind in ("opencl", "webgpu"):
            f = both.on(kind)
            turns = [each.turns for each in f.program.repeats]
            assert turns == (["positions"] if large and kind == "webgpu" else [])
            for count in (5, 1, 9):
                inputs = {"x": random(count, 3, 4)}
                check_close(f(**inputs), expected(inputs))


def test_the_number_of_sequences_may_be_a_length_of_the_call() -> None:
    """Arrays have room for the most sequences at each position."""
    first_device("webgpu")
    device = first_device("opencl")
    classes = {
        "opencl": device.features,
        "opencl, no processor": device.features - {"processor"},
        "webgpu": device.features,
    }
    for operator, size in (("LSTM", 20), ("GRU", 20), ("LSTM", 270)):
        write(operator, "positions batch", size=size, direction="reverse")
        both = program("opencl", "webgpu", positions=(1, 6), batch=(1, 4))

        def run(label: str, both: Any = both) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(device, "features", classes[label])
                f = both.on(label.partition(",")[0])
                for count, batch in ((5, 3), (1, 1), (6, 2), (6, 4)):
                    inputs = {"x": random(count, batch, 4)}
                    check_close(f(**inputs), expected(inputs))

        check_each(classes, run)


def test_more_sequences_than_blocks() -> None:
    """Then each turn is the kernels of its operations, which share them out."""
    write("RNN", 2, size=2, batch=70000)
    inputs = {"x": random(2, 70000, 4)}
    wanted = expected(inputs)
    both = program("opencl", "vulkan", "webgpu")
    for kind, repeats in (("opencl", 0), ("vulkan", 1), ("webgpu", 1)):
        first_device(kind)
        f = both.on(kind)
        assert len(f.program.repeats) == repeats
        check_close(f(*inputs.values()), wanted)


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
    save(nodes, inputs, constants, ["y", "last"])
    check_close(program("opencl")(*inputs.values()), expected(inputs))


def test_the_steps_do_not_depend_on_the_number_of_positions() -> None:
    from devmod_models._tinygrad.record import Repeat, record

    counts = []
    for length in (8, 1000):
        write("LSTM", length)
        function, example, constants = traced()
        recording = record(function, example, None, constants)
        (repeat,) = [each for each in recording.calls if isinstance(each, Repeat)]
        assert repeat.turns == length
        counts.append((len(recording.calls), len(repeat.calls)))
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
