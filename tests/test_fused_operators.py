"""Operators that onnxruntime's optimizer writes in the place of several: those of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import refusal

from devmod.errors import CompileError

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
import onnx
from onnx_models import check_close, computed, expected, program

pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("renders_here")]
RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def bytes_of(kind: str, *shape: int) -> Any:
    return RANDOM.integers(0, 100, shape).astype(kind)


#: The angles of 8 positions.
ROTARY = {"cos": np.cos(floats(8, 4)), "sin": np.sin(floats(8, 4))}
WIDE = {"cos": np.cos(floats(8, 8)), "sin": np.sin(floats(8, 8))}


def groups(batch: int, count: int) -> dict[str, Any]:
    """Return the values of a GroupQueryAttention with earlier positions."""
    return {
        "q": floats(batch, count, 64),
        "k": floats(batch, count, 32),
        "v": floats(batch, count, 32),
        "pk": floats(batch, 2, 5, 16),
        "pv": floats(batch, 2, 5, 16),
        "lengths": np.array([4, 2][:batch], "int32"),
        "total": np.array([5], "int32"),
    }


HEADS: dict[str, Any] = {name: floats(2, 3, 16) for name in "qkv"}
#: The operator, its values by name, of which those in capitals are constants; its attributes, and
#: the number of its outputs.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], int]] = {
    "FusedConv": (
        "FusedConv",
        {"x": floats(1, 3, 6, 6), "W": floats(4, 3, 3, 3), "B": floats(4), "z": floats(1, 4, 4, 4)},
        {"activation": "Relu"},
        1,
    ),
    "FusedConv with numbers": (
        "FusedConv",
        {"x": floats(1, 3, 6, 6), "W": floats(4, 3, 3, 3)},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
        1,
    ),
    "FusedMatMul": (
        "FusedMatMul",
        {"a": floats(2, 4, 3), "b": floats(2, 5, 4)},
        {"alpha": 0.25, "transA": 1, "transB": 1},
        1,
    ),
    "FusedMatMul of a batch": (
        "FusedMatMul",
        {"a": floats(3, 2, 4), "b": floats(2, 4, 5)},
        {"transBatchA": 1},
        1,
    ),
    "MatMulIntegerToFloat": (
        "MatMulIntegerToFloat",
        {
            "a": bytes_of("uint8", 3, 8),
            "W": bytes_of("int8", 8, 5),
            "S": np.float32(0.1),
            "T": abs(floats(5)),
            "Y": np.uint8(7),
            "Z": bytes_of("int8", 5),
            "B": floats(5),
        },
        {},
        1,
    ),
    "DynamicQuantizeMatMul": (
        "DynamicQuantizeMatMul",
        {
            "a": floats(3, 8),
            "W": bytes_of("int8", 8, 5),
            "T": abs(floats(5)),
            "Z": bytes_of("int8", 5),
            "B": floats(5),
        },
        {},
        1,
    ),
    "SimplifiedLayerNormalization": (
        "SimplifiedLayerNormalization",
        {"x": floats(2, 3, 8), "S": floats(8)},
        {"epsilon": 0.01},
        1,
    ),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization",
        {"x": floats(2, 3, 8), "s": floats(2, 3, 8), "S": floats(8), "B": floats(8)},
        {"epsilon": 0.01},
        4,
    ),
    "SkipLayerNormalization": (
        "SkipLayerNormalization",
        {
            "x": floats(2, 3, 8),
            "s": floats(2, 3, 8),
            "S": floats(8),
            "O": floats(8),
            "B": floats(8),
        },
        {"epsilon": 0.01},
        4,
    ),
    "FastGelu": ("FastGelu", {"x": floats(2, 8) * 3, "B": floats(8)}, {}, 1),
    "BiasGelu": ("BiasGelu", {"x": floats(2, 8) * 3, "B": floats(8)}, {}, 1),
    "QuickGelu": ("QuickGelu", {"x": floats(2, 8) * 3}, {}, 1),
    "RotaryEmbedding": (
        "RotaryEmbedding",
        {"x": floats(2, 3, 16), "p": RANDOM.integers(0, 8, (2, 3)), **ROTARY},
        {},
        1,
    ),
    "RotaryEmbedding of heads": (
        "RotaryEmbedding",
        {"x": floats(2, 2, 3, 8), "P": np.array([4]), **ROTARY},
        {"interleaved": 1},
        1,
    ),
    "RotaryEmbedding of a part": (
        "RotaryEmbedding",
        {"x": floats(2, 3, 24), "p": RANDOM.integers(0, 8, (2, 3)), **ROTARY},
        {"rotary_embedding_dim": 8, "num_heads": 2},
        1,
    ),
    "MultiHeadAttention": ("MultiHeadAttention", {**HEADS, "B": floats(48)}, {"num_heads": 2}, 1),
    "MultiHeadAttention of earlier positions": (
        "MultiHeadAttention",
        HEADS,
        {"num_heads": 2, "unidirectional": 1, "scale": 0.2},
        1,
    ),
    "MultiHeadAttention, packed": (
        "MultiHeadAttention",
        {"q": np.stack([HEADS[name].reshape(2, 3, 2, 8) for name in "qkv"], 3)},
        {"num_heads": 2, "unidirectional": 1, "scale": 0.2},
        1,
    ),
    "MultiHeadAttention with a mask": (
        "MultiHeadAttention",
        {
            **HEADS,
            "": None,
            "m": np.array([[1, 1, 0], [1, 0, 0]], "int32"),
            "b": floats(1, 2, 3, 3),
        },
        {"num_heads": 2},
        1,
    ),
    "MultiHeadAttention with a past": (
        "MultiHeadAttention",
        {
            **HEADS,
            "": None,
            " ": None,
            "  ": None,
            "pk": floats(2, 2, 4, 8),
            "pv": floats(2, 2, 4, 8),
        },
        {"num_heads": 2},
        3,
    ),
    "GroupQueryAttention": (
        "GroupQueryAttention",
        groups(2, 1),
        {"num_heads": 4, "kv_num_heads": 2},
        3,
    ),
    "GroupQueryAttention with angles": (
        "GroupQueryAttention",
        {**groups(1, 3), **WIDE},
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "softcap": 2.0},
        3,
    ),
    "GroupQueryAttention in a window": (
        "GroupQueryAttention",
        groups(1, 2),
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 2, "scale": 0.3},
        3,
    ),
    "GroupQueryAttention of a prompt": (
        "GroupQueryAttention",
        {
            "q": floats(2, 5, 128),
            "": None,
            " ": None,
            "  ": None,
            "   ": None,
            "lengths": np.array([4, 4], "int32"),
            "total": np.array([5], "int32"),
            **WIDE,
        },
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1},
        3,
    ),
}


def write(case: str) -> dict[str, Any]:
    """Write a model of one node, and return its inputs."""
    operator, values, attributes, count = CASES[case]
    inputs = {}
    constants = []
    for name, each in values.items():
        if each is None:
            continue
        if name.islower() and name != "total":
            inputs[name] = each
        else:
            constants.append(onnx.numpy_helper.from_array(np.asarray(each), name))
    domain = "com.microsoft"
    if operator == "SimplifiedLayerNormalization":
        domain = ""
    outputs = [f"y{number}" for number in range(count)]
    named = outputs
    if operator.startswith("Skip"):  # onnxruntime gives the mean and the deviation on GPUs alone
        named = ["y0", "", "", "y3"]
        outputs = ["y0", "y3"]
    names = [name.strip() for name in values]
    node = onnx.helper.make_node(operator, names, named, domain=domain, **attributes)
    info = onnx.helper.make_tensor_value_info
    types = onnx.helper.np_dtype_to_tensor_dtype
    given = [info(name, types(each.dtype), each.shape) for name, each in inputs.items()]
    results = [info(name, 1, None) for name in outputs]
    graph = onnx.helper.make_graph([node], "graph", given, results, constants)
    versions = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=versions)
    model.ir_version = 10
    onnx.save(model, "case.onnx")
    return inputs


@pytest.mark.parametrize("case", CASES)
def test_the_results_are_those_of_onnxruntime(case: str) -> None:
    inputs = write(case)
    if case.endswith("packed"):  # which onnxruntime has on GPUs alone
        wanted = expected(write("MultiHeadAttention of earlier positions"))
        write(case)
    else:
        wanted = expected(inputs)
    most = 1e-5 * max(1.0, float(max(abs(each).max() for each in wanted)))
    check_close(computed(inputs), wanted, most)


def test_a_program_on_devices() -> None:
    inputs = write("GroupQueryAttention with angles")
    wanted = expected(inputs)
    both = program("opencl", "webgpu")
    for kind in ("opencl", "webgpu"):
        first_device(kind)
        check_close(both.on(kind)(*inputs.values()), wanted, 1e-4)


@pytest.mark.parametrize(
    ("case", "attributes", "error"),
    [
        (
            "FusedConv",
            {"activation": "Mish"},
            "FusedConv (output 'y0'): the activation 'Mish' is unknown",
        ),
        (
            "RotaryEmbedding",
            {"scale": 2.0},
            "RotaryEmbedding (output 'y0'): packed batches and a scale are not supported",
        ),
        (
            "GroupQueryAttention",
            {"smooth_softmax": 1},
            "GroupQueryAttention (output 'y0'): smooth_softmax is not supported",
        ),
    ],
)
def test_what_is_not_supported(
    case: str, attributes: dict[str, Any], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, values, own, count = CASES[case]
    monkeypatch.setitem(CASES, case, (operator, values, own | attributes, count))
    inputs = write(case)
    assert refusal(CompileError, computed, inputs) == error
