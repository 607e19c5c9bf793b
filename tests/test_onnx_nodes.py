"""The node cases of onnx.backend.test: each is computed rightly, or refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import devmod
from devmod.errors import CompileError

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
import onnx
import onnx_models
import onnx_suite
from each_case import check_each, refusal
from onnx.helper import make_node

import onnx_counts

pytestmark = [
    pytest.mark.usefixtures("renders_here"),
    pytest.mark.row("R47"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the cases divide by zero
    pytest.mark.filterwarnings("ignore:Non-empty compiler output"),  # of PoCL
]
#: Operators that tinygrad lacks, or computes wrongly in some case: those of few cases. The others
#: are in the test of all operators.
FEW = (
    *("Adagrad", "BitCast", "CausalConvWithState", "Col2Im", "ConvInteger", "CumProd"),
    *("DeformConv", "Det", "DynamicQuantizeLinear", "LpNormalization", "MaxUnpool", "Mod"),
    *("MelWeightMatrix", "Momentum", "OptionalHasElement", "Range", "ReverseSequence"),
    *("RoiAlign", "SpaceToDepth", "STFT", "SwiGLU"),
)
#: The operators of which `make test` computes a case on devices: those of this project, and those
#: that tinygrad writes otherwise for devices.
ON_DEVICES = {
    "BitShift": "test_bitshift_left_int32_shift_ge_width",
    "Col2Im": "test_col2im_pads",
    "Det": "test_det_nd",
    "DynamicQuantizeLinear": "test_dynamicquantizelinear",
    "GridSample": "test_gridsample_reflection_padding",
    "IsNaN": "test_isnan_float16",
    "TfIdfVectorizer": "test_tfidfvectorizer_tf_batch_uniandbigrams_skip5",
}


def check(case: Any) -> None:
    (outcome,) = onnx_suite.outcomes(case).values()
    assert not onnx_suite.is_fault(case.name, outcome), outcome


@pytest.mark.parametrize("operator", FEW)
def test_each_case_is_right_or_refused(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devmod, "devices", lambda *_: [])
    check_each(onnx_suite.cases(operator)[operator], check)


@pytest.mark.volume
@pytest.mark.parametrize("part", ["1/4", "2/4", "3/4", "4/4"])
def test_all_cases_are_right_or_refused(part: str, capfd: pytest.CaptureFixture[str]) -> None:
    """On tinygrad's CPU, and on a device of each kind that is here."""
    with capfd.disabled():  # the progress
        outcomes = onnx_counts.run([], onnx_counts.present_places(), part)
    assert outcomes
    assert onnx_counts.faults(outcomes) == []


def check_with_constants(case: Any) -> None:
    for constants, outcome in onnx_suite.outcomes_with_constants(case).items():
        text = f"{case.name} with the constants {constants}: {outcome}"
        assert not onnx_suite.is_fault(case.name, outcome), text


@pytest.mark.parametrize("operator", ["Gather", "GatherElements", "OneHot", "Where"])
def test_each_subset_of_the_inputs_may_be_constants(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devmod, "devices", lambda *_: [])
    check_each(onnx_suite.cases(operator)[operator], check_with_constants)


@pytest.mark.volume
@pytest.mark.parametrize("part", range(8))
def test_each_subset_of_the_inputs_of_all_cases_may_be_constants(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devmod, "devices", lambda *_: [])
    cases = [case for several in onnx_suite.cases().values() for case in several]
    check_each(cases[part::8], check_with_constants)


@pytest.mark.parametrize(
    "index", [[[0, 1, 2, 3]], [[2]], [[0], [15]], [[0, 1, 2]] * 4, [3, -1], [*range(12)], -2, []]
)
def test_constant_indices_of_any_shape(index: Any) -> None:
    """Each BERT and GPT-2 of PyTorch's exporter has one of two dimensions."""
    x = np.arange(48, dtype="float32").reshape(16, 3)
    constants = {"i": np.array(index, "int64")}
    for axis in (0, 1):
        if axis and np.size(index) and abs(np.max(index)) > 2:
            continue
        node = make_node("Gather", ["x", "i"], ["y"], axis=axis)
        onnx_models.save([node], {"x": x}, constants, "y")
        (got,) = onnx_models.computed({"x": x})
        np.testing.assert_array_equal(got, np.take(x, constants["i"], axis))


SPECIAL = [1, np.nan, -np.inf, np.inf, -1]
#: Nodes, and numbers at the borders of their types.
BORDERS: dict[str, tuple[str, list[float]]] = {
    **{f"NaN in {name}": (f"y = {name}(x)", SPECIAL) for name in ("Relu", "Sign", "Shrink")},
    "NaN in Elu": ("y = Elu(x)", SPECIAL[:-1]),
    **{
        f"an infinity in {name}": (f"y = {name}(x)", [-np.inf, np.inf, 0])
        for name in ("Asinh", "Atan", "HardSwish", "Mish", "Softplus")
    },
    "a comparison of NaN": (
        "g = GreaterOrEqual(x, x) l = LessOrEqual(x, x) b = Or(g, l) y = Cast<to = 1>(b)",
        SPECIAL,
    ),
    "int64": (
        "a = Cast<to = 7>(x) b = Div(a, k) y = Cast<to = 1>(b)",
        [3e9, -5e9, 2**31, -(2**31), 2**32, -(2**32), -3, -1.5, 0.5, 1e15, -1e18],
    ),
}


@pytest.mark.parametrize("case", BORDERS.values(), ids=BORDERS)
def test_numbers_at_the_borders_of_types(case: tuple[str, list[float]]) -> None:
    nodes, numbers = case
    x = np.array(numbers, "float32")
    graph = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
    onnx_models.save(list(graph.node), {"x": x}, {"k": np.array([2], "int64")}, "y")
    wanted = onnx_models.expected({"x": x})
    np.testing.assert_array_equal(onnx_models.computed({"x": x})[0], wanted[0])
    both = onnx_models.program("opencl", "webgpu")
    for kind in ("opencl", "webgpu"):
        if devmod.devices(kind):
            np.testing.assert_array_equal(both.on(kind)(x), wanted[0])


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_cubic_samples_beyond_the_border(padding: str, align_corners: int) -> None:
    """onnx.reference moves the place to the border, and PyTorch and onnxruntime each neighbour."""
    random = np.random.default_rng(0)
    inputs = {
        "x": random.standard_normal((1, 2, 5, 6)).astype("float32"),
        "g": random.uniform(-1.6, 1.6, (1, 7, 8, 2)).astype("float32"),
    }
    options = {"mode": "cubic", "padding_mode": padding, "align_corners": align_corners}
    onnx_models.save([make_node("GridSample", ["x", "g"], ["y"], **options)], inputs, {}, "y")
    onnx_models.check_close(onnx_models.computed(inputs), onnx_models.expected(inputs))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 1.5, 2.5], [1, 1, 3, 1.2]])
@pytest.mark.parametrize(
    ("operator", "version"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)]
)
def test_old_resizes(operator: str, version: int, scales: list[float], mode: str) -> None:
    """The coordinates are those of the corners of pixels: later versions have the middles."""
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 6)).astype("float32")
    numbers = np.array(scales, "float32")
    names = ["x", "s"][: 1 + (version > 7)]
    options: dict[str, Any] = {"mode": mode}
    if version == 7:
        options["scales"] = numbers.tolist()
    node = make_node(operator, names, ["y"], **options)
    onnx_models.save([node], {"x": x}, {"s": numbers}, "y")
    model = onnx.load("case.onnx")
    model.opset_import[0].version = version
    onnx.save(model, "case.onnx")
    onnx_models.check_close(onnx_models.computed({"x": x}), onnx_models.expected({"x": x}))


@pytest.mark.parametrize("index", [[16], [[3, -17]], -17])
def test_a_constant_index_outside_of_its_axis(index: Any) -> None:
    x = np.zeros((16, 3), "float32")
    constants = {"i": np.array(index, "int64")}
    onnx_models.save([make_node("Gather", ["x", "i"], ["y"])], {"x": x}, constants, "y")
    number = next(each for each in np.ravel(index) if not -16 <= each < 16)
    assert refusal(CompileError, onnx_models.computed, {"x": x}) == (
        f"Gather (output 'y'): its index {number} in 'i' is outside of axis 0 of 'x', whose indices are -16 to 15"
    )


@pytest.mark.parametrize("operator", ON_DEVICES)
def test_operators_on_devices(operator: str) -> None:
    name = ON_DEVICES[operator]
    kinds = []
    for kind in ("opencl", "webgpu"):
        has_half = any("fp16" in (each.features or ()) for each in devmod.devices(kind)[:1])
        if devmod.devices(kind) and (has_half or not name.endswith("float16")):
            kinds.append(kind)
    outcomes = outcomes_of(operator, name, *kinds)
    assert outcomes == dict.fromkeys(kinds, onnx_suite.RIGHT)


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("Attention", "test_attention_23_boolmask_fullymasked_row_nan_robustness"),
        ("Attention", "test_attention_3d_gqa_causal"),
        ("Attention", "test_attention_local_window"),
        ("BitShift", "test_bitshift_right_int32"),
        ("DFT", "test_dft_irfft"),
        ("GridSample", "test_gridsample_bicubic"),
        ("LinearAttention", "test_linear_attention_gated_delta"),
        ("LpNormalization", "test_l2normalization_axis_0"),
        ("LpPool", "test_lppool_2d_dilations"),
        ("OptionalGetElement", "test_optional_get_element_optional_tensor"),
        ("OptionalHasElement", "test_optional_has_element_tensor_input"),
        ("ReduceSum", "test_reduce_sum_empty_set"),
        ("Shape", "test_shape_start_greater_than_end"),
    ],
)
def test_cases_that_were_wrong_or_refused(operator: str, name: str) -> None:
    assert outcomes_of(operator, name, onnx_suite.CPU) == {onnx_suite.CPU: onnx_suite.RIGHT}


def test_a_signal_without_a_last_length() -> None:
    """onnxruntime takes it, and models of speech have it."""
    x = np.random.default_rng(0).standard_normal((2, 40)).astype("float32")
    constants = {"step": np.array(8), "window": np.hanning(16).astype("float32")}
    onnx_models.save([make_node("STFT", ["x", "step", "window"], ["y"])], {"x": x}, constants, "y")
    onnx_models.check_close(onnx_models.computed({"x": x}), onnx_models.expected({"x": x}))


@pytest.mark.parametrize(
    ("nodes", "numbers"),
    [
        ("q = QuantizeLinear(x, s, z) y = Cast<to = 1>(q)", {"z": np.uint8(99)}),
        ("q = QuantizeLinear(x, s, z) y = Cast<to = 1>(q)", {"z": np.int8(3)}),
        ("d = Div(x, s) y = Floor(d)", {}),
        ("d = Div(x, s) h = Add(d, half) y = Floor(d)", {"half": np.float32(0.5)}),
        ("q, t, z = DynamicQuantizeLinear(x) y = Cast<to = 1>(q)", {}),
    ],
)
def test_a_division_by_a_number_is_rounded_once(nodes: str, numbers: dict[str, Any]) -> None:
    """Numbers at the borders of steps: a product with the reciprocal gets to another step."""
    scale = np.float32(0.03)
    x = np.arange(-200, 201).astype("float32") / 2 * scale
    graph = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
    constants = {name: np.asarray(each) for name, each in {"s": scale, **numbers}.items()}
    onnx_models.save(list(graph.node), {"x": x}, constants, "y")
    (wanted,) = onnx_models.expected({"x": x})
    np.testing.assert_array_equal(onnx_models.computed({"x": x})[0], wanted)
    both = onnx_models.program("opencl", "webgpu")
    for kind in ("opencl", "webgpu"):
        if devmod.devices(kind):
            np.testing.assert_array_equal(both.on(kind)(x), wanted)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("scale", [0.02, 0.3, 0.07])
def test_products_of_quantized_numbers(domain: str, scale: float) -> None:
    """The scale of the sums is one number: 384 of them are at many places of a step."""
    random = np.random.default_rng(0)
    x = random.integers(0, 128, (16, 24)).astype("float32") * np.float32(scale)
    constants = {
        "w": random.integers(-127, 128, (24, 16)).astype("int8"),
        "s": np.array(scale, "float32"),
        "z": np.array(3, "uint8"),
        "v": np.array(1, "int8"),
    }
    names = ["q", "s", "z", "w", "s", "v", "s", "z"]
    product = make_node("QLinearMatMul", names, ["d"])
    if domain:
        names[3:6] = ["q", "s", "z"]
        product = make_node("QLinearMul", names, ["d"], domain=domain)
    nodes = [
        make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        product,
        make_node("Cast", ["d"], ["y"], to=1),
    ]
    onnx_models.save(nodes, {"x": x}, constants, "y")
    (wanted,) = onnx_models.expected({"x": x})
    np.testing.assert_array_equal(onnx_models.computed({"x": x})[0], wanted)


def outcomes_of(operator: str, name: str, *places: str) -> dict[str, str]:
    """The outcomes of a case by its name."""
    for each in onnx_suite.cases(operator)[operator]:
        if each.name == name:
            outcomes: dict[str, str] = onnx_suite.outcomes(each, places)
            return outcomes
    pytest.skip(f"this version of onnx has no {name}")
