"""Small models of ONNX in the file case.onnx, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import devmod
from devmod.interop import tinygrad as interop


def save(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any],
    outputs: Sequence[str],
    first: Mapping[str, str] | None = None,
) -> None:
    """Write a model whose inputs have the shapes of arrays; `first` has the names of the first
    lengths of an input, separated by spaces.
    """
    info = onnx.helper.make_tensor_value_info
    given = []
    for name, each in inputs.items():
        lengths = (first or {}).get(name, "").split()
        type_ = onnx.helper.np_dtype_to_tensor_dtype(each.dtype)
        given.append(info(name, type_, [*lengths, *each.shape[len(lengths) :]]))
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


def expected(inputs: Mapping[str, Any]) -> list[Any]:
    """The results of onnxruntime, without its warnings of constants that no branch reads."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # On a processor with AVX2 and without VNNI, sums of uint8 times int8 saturate without this.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1  # each thread quantizes the rows of its own together
    session = runtime.InferenceSession("case.onnx", options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def runner(half: str = "", **dims: Any) -> Any:
    """What runs the model; with `half` as by `devmod onnx --half`. Return the model too."""
    from devmod_models._tinygrad.half import halved
    from devmod_models._tinygrad.onnx import Runner
    from devmod_models.onnx import read_model

    model = read_model("case.onnx", dims)
    if half:
        model = halved(model, half)
    return model, Runner(model)


def computed(inputs: Mapping[str, Any], half: str = "") -> list[Any]:
    """What tinygrad computes. To optimize kernels takes longer than to run them."""
    from devmod_models._tinygrad.onnx import array_of, tensor_of
    from devmod_models._tinygrad.record import settings

    tensors = {name: tensor_of(each) for name, each in inputs.items()}
    with settings(NOOPT=1):
        return [*map(array_of, runner(half)[1].run(tensors).values())]


def traced(half: str = "", **dims: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Trace the model, and return its function, the inputs and the constants."""
    from devmod_models._tinygrad.onnx import choose_inputs, example_tensors, function

    model, own = runner(half, **dims)
    example = example_tensors(model, choose_inputs(model, {})[-1][0])
    own.trial(example)
    constants = {name: each for name, each in own.constants.items() if each.shape}
    return function(own, example), example, constants


def program(*targets: str, half: str = "", **dims: Any) -> Any:
    """Export the model, and return its program p."""
    function, example, constants = traced(half, **dims)
    module = interop.export(
        function,
        *example.values(),
        targets=targets,
        name="p",
        names=list(example),
        constants=constants,
    )
    return devmod.loads(devmod.dumps(module))["p"]


def check_close(got: Any, wanted: Iterable[Any], most: float = 1e-5) -> None:
    """Compare results, of which a program returns one alone as it is."""
    if not isinstance(got, (tuple, list)):
        got = (got,)
    for one, two in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=most)


def check_half(got: Any, wanted: Iterable[Any]) -> None:
    """Compare results of half precision, which differ."""
    if not isinstance(got, (tuple, list)):
        got = (got,)
    for one, two in zip(got, wanted, strict=True):
        assert one.dtype == "float32"
        assert 0 < abs(one - two).max() <= 1e-2 * abs(two).max()
