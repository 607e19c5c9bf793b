"""`devmod onnx`: models as files, the check before a file is written, and what ends the process
that traces a stranger's model.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from command_line import call
from each_case import refusal

import devmod
from devmod.backend import walk
from devmod.worker import Worker
from devmod_models import _command, tinygrad
from devmod_models._tinygrad import check
from devmod_readers.programs import read_program

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
stored = onnx.numpy_helper.from_array
RANDOM = np.random.default_rng(1)
GETENV = os.getenv
RELU = "y = Relu(x)"
pytestmark = pytest.mark.row("R47")


def constant(name: str, *shape: int) -> Any:
    return stored(RANDOM.standard_normal(shape).astype(np.float32), name)


def numbers(name: str, *values: int) -> Any:
    return stored(np.array(values), name)


def write(
    path: str, nodes: str, inputs: Any, outputs: Any, constants: Any = (), result: int = FLOAT
) -> None:
    """Write a model whose nodes are in ONNX's language, and whose results have one type."""
    parsed = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
    values = [
        onnx.helper.make_tensor_value_info(name, dtype, shape)
        for name, (dtype, shape) in inputs.items()
    ]
    results = [onnx.helper.make_tensor_value_info(name, result, None) for name in outputs]
    graph = onnx.helper.make_graph(parsed.node, "g", values, results, list(constants))
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), path)


NOTE = "the input 'x.in' leaves its first length open, which is 1 here; for another: --dim batch=N; for one that each call chooses: --dim batch=1..N"
WEIGHT = constant("fc/w", 8, 5)


def classifier(*shape: Any) -> None:
    nodes = 'a = MatMul("x.in", "fc/w") y = Relu(a)'
    write("small.onnx", nodes, {"x.in": (FLOAT, shape or ["batch", 8])}, ["y"], [WEIGHT])


class WorkerHere:
    """A worker whose module runs in this process: another one imports tinygrad, onnx and a driver,
    which takes longer than most models. `devmod_in_process` has real ones.
    """

    def __init__(self, name: str, request: Any, **_: Any) -> None:
        self.answers: list[Any] = []
        module: Any = sys.modules[name]
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
            patch.setattr(module, "answer_writer", lambda: self.answers.append)
            patch.setattr(os, "getenv", GETENV)  # the module that traces replaces it
            patch.setattr(resource, "setrlimit", lambda *_: None)
            module.main(request)

    def __enter__(self) -> WorkerHere:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def answer(self, seconds: float) -> Any:
        return self.answers.pop(0)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (_command, check):
        monkeypatch.setattr(module, "Worker", WorkerHere)
    # On a busy machine the import of onnx.reference alone may take its 30 seconds.
    monkeypatch.setitem(check.SECONDS, "onnx.reference", 300.0)


@pytest.fixture
def _no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the check compare with the other program alone: a process for a device takes 0.5 s."""
    monkeypatch.setenv("DEVMOD_PLUGINS_DENY", "devmod-opencl")


@pytest.fixture
def made(capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns what `devmod onnx` prints for OpenCL, after it has succeeded without a note."""

    def run(*words: str) -> str:
        status, out, err = call(capsys, "onnx", *words, "-t", "opencl")
        assert (status, err) == (0, "")
        return out

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns the error of `devmod onnx` for OpenCL."""

    def run(*words: str) -> str:
        status, out, err = call(capsys, "onnx", *words, "-t", "opencl")
        assert (status, out) == (1, "")
        return err.removeprefix("devmod: error: ")

    return run


def expected(x: Any) -> Any:
    return np.maximum(x @ onnx.numpy_helper.to_array(WEIGHT), 0)


def test_a_model_is_checked_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier()
    (tmp_path / "bin").mkdir()
    for name in ("ld", "gcc"):  # PoCL's; there is no clang
        if program := shutil.which(name):
            (tmp_path / "bin" / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("DEV", "NONE")
    monkeypatch.setattr(_command, "Worker", Worker)
    status, out, err = call(capsys, "onnx", "small.onnx", "-t", "opencl", "-t", "webgpu")
    assert (status, err) == (0, f"devmod: note: {NOTE}\n")
    first, checked, *devices, how, _ = out.split("\n")
    shapes = "input x_in: float32[1, 8]; output y: float32[1, 5]; 'x.in' is x_in"
    assert first == f"small: 1 kernel, 1 step, 1 constant (160 B); {shapes}"
    program = re.escape(REFERENCE_PROGRAM)
    assert re.match(rf"checked on tinygrad:CPU against {program}: worst error ", checked)
    assert devices
    assert all(line.startswith(("checked on ", "not checked")) for line in devices)
    assert how == 'y = devmod.load("small.devmod")["small"](x_in)'
    x = RANDOM.standard_normal((1, 8)).astype(np.float32)
    for device in devmod.devices("opencl", "webgpu"):
        np.testing.assert_allclose(
            devmod.load("small.devmod")["small"].on(device)(x), expected(x), rtol=1e-5
        )
    first_bytes = Path("small.devmod").read_bytes()
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("DEBUG", "4")
    words = ("onnx", "small.onnx", "-t", "opencl", "-t", "webgpu", "-q", "--no-check")
    assert call(capsys, *words)[:2] == (0, "")
    assert Path("small.devmod").read_bytes() == first_bytes


def test_a_model_on_vulkan(capsys: pytest.CaptureFixture[str]) -> None:
    """clspv compiles the text of OpenCL."""
    first_device("vulkan")
    nodes = "c = Conv <pads=[1,1,1,1]> (x, filters) r = Relu(c) m = MaxPool <kernel_shape=[3,3]> (r) f = Flatten(m) s = MatMul(f, w) y = Softmax(s)"
    constants = [constant("filters", 8, 3, 3, 3), constant("w", 280, 5)]
    write("small.onnx", nodes, {"x": (FLOAT, ["rows", 3, 9, 7])}, ["y"], constants)
    words = ("onnx", "small.onnx", "-t", "opencl", "-t", "vulkan", "--dim", "rows=1..4")
    status, out, err = call(capsys, *words)
    assert (status, err) == (0, "")
    lines = [line for line in out.split("\n") if "vulkan:0" in line]
    assert [line.rpartition(" ")[2] for line in lines] == ["(rows=1)", "(rows=4)"]
    assert all(line.startswith("checked on ") for line in lines)


@pytest.mark.row("R52")
def test_a_model_is_tuned_on_the_devices_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one, and with few variants: the processes of each take seconds."""
    from devmod_models._tinygrad.candidates import Candidates

    devices = devmod.devices("opencl")[:1]
    monkeypatch.setattr(devmod, "devices", lambda *_: devices)
    monkeypatch.setattr(Candidates, "neighbours", lambda *_: ())
    classifier()
    words = ("onnx", "small.onnx", "-t", "opencl", "--tune", "--no-check")
    _, tuned, *others = call(capsys, *words)[1].split("\n")
    if tuned.startswith("tuned"):
        assert re.fullmatch(r"tuned on .* \(opencl\): 1 kernel takes [01]\.\d\d of the time", tuned)
    else:
        assert (
            tuned == "not tuned: no device here runs a slow kernel faster with other optimizations"
        )
    assert others[-3] == "not checked: --no-check"
    x = RANDOM.standard_normal((1, 8)).astype(np.float32)
    for device in devices:
        y = devmod.load("small.devmod")["small"].on(device)(x)
        np.testing.assert_allclose(y, expected(x), rtol=1e-5)


def test_a_call_chooses_a_length(made: Any) -> None:
    classifier("rows", 8)
    out = made("small.onnx", "--dim", "rows=1..9")
    assert "input x_in: float32[rows, 8]; output y: float32[rows, 5]" in out
    if devmod.devices("opencl"):
        assert "(rows=1)\n" in out
        assert "(rows=9)\n" in out


#: The nodes by which PyTorch writes shapes: of heads, of a mask, of a table of positions, of the
#: last position.
LENGTHS = """
    s = Shape(x)
    b = Gather(s, i0)
    n = Gather(s, i1)
    b1 = Unsqueeze(b, v0)
    n1 = Unsqueeze(n, v0)
    heads = Concat <axis=0> (b1, n1, v2, v_1)
    h = Reshape(x, heads)
    t = Slice(table, v0, n1, v0)
    ht = Mul(h, t)
    all = Size(x)
    size = Cast <to=1> (all)
    scaled = Div(ht, size)
    rank = Shape(heads)
    ones = ConstantOfShape <value = int64[1] {1}> (rank)
    open = Mul(ones, i_1)
    is_open = Equal(heads, open)
    mask = Where(is_open, ones, heads)
    e = Expand(bias, mask)
    r = Range(i0, n, i1)
    rf = Cast <to=1> (r)
    rc = Reshape(rf, column)
    position = Add(e, rc)
    a = Add(scaled, position)
    bn = Slice(heads, v0, v2, v0, v1)
    flat = Concat <axis=0> (bn, v_1)
    n0 = Squeeze(n1, v0)
    half = Div(n0, i2)
    middle = Reshape(half, v_1)
    y = Reshape(a, flat)
    first = Slice(y, v0, middle, v1)
    later = Slice(y, v1, end, v1)
"""


def test_nodes_that_compute_with_a_length_that_a_call_chooses(made: Any) -> None:
    scalars = [stored(np.array(value), f"i{value}".replace("-", "_")) for value in (0, 1, 2, -1)]
    lists = {"v0": [0], "v1": [1], "v2": [2], "v_1": [-1], "column": [-1, 1, 1], "end": [2**63 - 1]}
    vectors = [numbers(name, *values) for name, values in lists.items()]
    constants = [*scalars, *vectors, constant("table", 9, 2, 3), constant("bias", 1, 1, 1, 3)]
    write(
        "shapes.onnx",
        LENGTHS,
        {"x": (FLOAT, ["batch", "n", 6])},
        ["y", "first", "later"],
        constants,
    )
    out = made("shapes.onnx", "--no-check", "--dim", "n=2..9", "--dim", "batch=1..2")
    assert (
        "output y: float32[batch, n, 6]; output first: float32[batch, n // 2, 6]; output later: float32[batch, n + -1, 6]"
        in out
    )
    program = devmod.load("shapes.devmod")["shapes"]
    from onnx.reference import ReferenceEvaluator

    reference = ReferenceEvaluator("shapes.onnx")
    for device in devmod.devices("opencl")[:1]:
        for batch, length in ((1, 2), (2, 5), (2, 9)):
            x = RANDOM.standard_normal((batch, length, 6)).astype(np.float32)
            for got, want in zip(program.on(device)(x), reference.run(None, {"x": x}), strict=True):  # type: ignore[attr-defined]
                np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(-1, -(2**62), -1), (-2, -6, -1), (-1, 1, -1), (3, 0, -1), (-1, -4, -2), (90, -90, -1)],
)
def test_a_slice_backwards_along_a_length_that_a_call_chooses(
    start: int, end: int, step: int, made: Any
) -> None:
    slices = {"start": start, "end": end, "zero": 0, "step": step}
    constants = [numbers(name, value) for name, value in slices.items()]
    nodes = "y = Slice(x, start, end, zero, step)"
    write("back.onnx", nodes, {"x": (FLOAT, ["n", 3])}, ["y"], constants)
    made("back.onnx", "--no-check", "--dim", "n=4..40")
    program: Any = devmod.load("back.devmod")["back"]
    for length in (4, 5, 11, 40):
        x = RANDOM.standard_normal((length, 3)).astype(np.float32)
        got = program.on(devmod.devices("opencl")[0])(x)
        np.testing.assert_array_equal(got, x[start:end:step])


@pytest.mark.parametrize(
    ("nodes", "error"),
    [
        (
            "y = Slice(x, last, first, zero, back)",
            "the kernel 'm_opencl_k0' for opencl: a length or a grid has CMPLT, which no expression of a program has; a fixed length may do (--dim)",
        ),
        (
            "s = Shape(x) m = ReduceMax(s) y = Expand(x, m)",
            "Expand (output 'y'): a shape or an option is computed from a length that a call chooses; a fixed length may do (--dim)",
        ),
        (
            "s0 = Size(x)"
            + "".join(f" s{n + 1} = Mul(s{n}, s{n})" for n in range(40))
            + " y = Expand(x, s40)",
            "Mul (output 's5'): tinygrad cannot trace it: OverflowError: a length has more than 63 bits; a fixed length may do (--dim)",
        ),
    ],
)
def test_what_depends_on_a_length_and_is_no_program(nodes: Any, error: str, refused: Any) -> None:
    write(
        "m.onnx",
        nodes,
        {"x": (FLOAT, ["n"])},
        ["y"],
        [numbers("zero", 0), numbers("back", -1), numbers("last", 6), numbers("first", 1)],
    )
    assert refused("m.onnx", "--dim", "n=2..9") == f"m.onnx: {error}\n"


def loop(count: int) -> None:
    """Write a loop that doubles x in each turn."""
    parsed = onnx.parser.parse_graph("g () => () { d = Identity(c) w = Add(v, v) }")
    info = onnx.helper.make_tensor_value_info
    inputs = [
        info("i", INT64, []),
        info("c", onnx.TensorProto.BOOL, []),
        info("v", FLOAT, [4]),
    ]
    outputs = [info("d", onnx.TensorProto.BOOL, []), info("w", FLOAT, [4])]
    body = onnx.helper.make_graph(parsed.node, "b", inputs, outputs)
    node = onnx.helper.make_node("Loop", ["n", "t", "x"], ["y"], body=body)
    constants = [numbers("n", count), stored(np.array(True), "t")]
    values = [info("x", FLOAT, [4])]
    graph = onnx.helper.make_graph([node], "g", values, [info("y", FLOAT, None)], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 16)])
    onnx.save(model, "large.onnx")


@pytest.mark.usefixtures("_no_devices")
def test_what_is_too_large_is_refused_before_it_takes_time(refused: Any) -> None:
    most = (1 << 31) - 1
    many = f"elements, more than the {most} that a kernel indexes"
    for nodes, shape, error in (
        ("y = Tile(x, k)", [4], f"Tile (output 'y'): its output 'y' has 4000000000 {many}"),
        ("y = Expand(x, k)", [1, 3], f"Expand (output 'y'): its output 'y' has 3000000000 {many}"),
        (
            RELU,
            [1 << 20, 1 << 20],
            f"the input 'x' has up to {1 << 40} {many}; choose smaller lengths (--dim)",
        ),
        (
            RELU,
            [10**10],
            f"the input 'x', axis 0: expected a length of at most {most}, got 10000000000",
        ),
    ):
        constants = [stored(np.array([10**9, 1][: len(shape)]), "k")]
        write("large.onnx", nodes, {"x": (FLOAT, shape)}, ["y"], constants)
        assert refused("large.onnx", "--no-check") == f"large.onnx: {error}\n"
    loop(10**12)
    assert refused("large.onnx", "--no-check") == (
        "large.onnx: Loop (output 'y'): it has more than 256 turns that differ, or whose condition decides\n"
    )


def test_a_missing_architecture_is_reported_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_command, "Worker", None)
    classifier(3, 8)
    status, _, err = call(capsys, "onnx", "small.onnx", "-t", "opencl", "-t", "cuda")
    assert status == 1
    assert err.startswith(
        "devmod: error: the target 'cuda' names no architecture. Name those of the devices: "
    )


def test_names_that_calls_and_expressions_have(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "a = Add(max, device) b = Mul(a, constants) min = Sub(b, state)"
    inputs = {each: (FLOAT, ["ceildiv", 4]) for each in ("max", "device", "constants", "state")}
    write("min.onnx", nodes, inputs, ["min"])
    words = ("onnx", "min.onnx", "-t", "opencl", "-t", "webgpu", "--dim", "ceildiv=1..3")
    words += ("--no-check",)
    status, out, err = call(capsys, *words)
    note = "devmod: note: the program is _min, since min is reserved for calls and expressions\n"
    assert (status, err) == (0, note)
    first, *_, last = out.splitlines()
    assert first.endswith(
        "input _max: float32[_ceildiv, 4]; input _device: float32[_ceildiv, 4]; "
        "input _constants: float32[_ceildiv, 4]; input _state: float32[_ceildiv, 4]; output _min: float32[_ceildiv, 4]; "
        "'max' is _max; 'device' is _device; 'constants' is _constants; 'state' is _state; 'min' is _min"
    )
    assert last == '_min = devmod.load("_min.devmod")["_min"](_max, _device, _constants, _state)'


def test_a_call_with_another_batch_learns_how_to_make_the_file(
    capsys: pytest.CaptureFixture[str], made: Any
) -> None:
    need_opencl()
    classifier()
    assert call(capsys, "onnx", "small.onnx", "-t", "opencl", "--no-check", "-q")[0] == 0
    function = devmod.load("small.devmod")["small"]
    assert (
        refusal(devmod.ArgumentError, function, np.zeros((3, 8), np.float32))
        == "the opencl program 'small': the argument 'x_in' has the shape (3, 8); dimension 1 is 3, and expected is 1. "
        "For up to N, make the file by devmod onnx with --dim batch=1..N"
    )
    assert (
        refusal(devmod.ArgumentError, function, np.zeros((1, 9), np.float32))
        == "the opencl program 'small': the argument 'x_in' has the shape (1, 9); dimension 2 is 9, and expected is 8"
    )
    made("small.onnx", "--no-check", "-q", "--dim", "batch=1..9")
    x = RANDOM.standard_normal((9, 8)).astype(np.float32)
    np.testing.assert_allclose(
        devmod.load("small.devmod")["small"](x), expected(x), rtol=1e-5, atol=1e-6
    )


def test_inputs_of_bfloat16(made: Any, refused: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    need_opencl()
    brain = onnx.TensorProto.BFLOAT16
    nodes = "f = Cast <to=1> (x) y = Relu(f)"
    write("brain.onnx", nodes, {"x": (brain, [2, 3])}, ["y"])
    x = np.array([[-1, 2.5, 3], [0.5, -6, 7]], ml_dtypes.bfloat16)
    np.save("x.npy", x)
    out = made("brain.onnx", "--inputs", "x.npy")
    assert "input x: bfloat16[2, 3]; output y: float32[2, 3]" in out
    assert out.count("worst error 0.0e+00 of 7\n") == 2
    want = np.maximum(x.astype(np.float32), 0)
    np.testing.assert_array_equal(devmod.load("brain.devmod")["brain"](x), want)
    assert refused("brain.onnx", "-t", "webgpu") == (
        "brain.onnx: the program 'brain' cannot be made for webgpu: its output 'y' needs bfloat16 in an array. "
        "Kinds with bfloat16: opencl, vulkan, cuda, rocm, metal\n"
    )


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ("y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, lengths)", ()),
        ("y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lengths)", ()),
        ("t = Neg(x) y = ReverseSequence<batch_axis = 0, time_axis = 1>(t, lengths)", ()),
        (
            'i = Cast<to = 6>(lengths) y = RNN<hidden_size = 5>(x, w, r, "", i)',
            (constant("w", 1, 5, 2), constant("r", 1, 5, 5)),
        ),
    ],
)
@pytest.mark.usefixtures("_no_devices")
def test_lengths_of_sequences_in_the_check_are_those_of_the_axis(
    nodes: str, weights: Any, made: Any
) -> None:
    """onnxruntime refuses longer ones, and onnx.reference has something else for these."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write(
        "sequences.onnx",
        nodes,
        {"x": (FLOAT, [3, 3, 2]), "lengths": (INT64, [3])},
        ["y"],
        weights,
    )
    assert "against onnxruntime: " in made("sequences.onnx")


@pytest.mark.usefixtures("_no_devices")
def test_the_check_quantizes_no_factor_that_a_model_does_not_quantize(made: Any) -> None:
    """onnxruntime does so beside weights that are dequantized, if no option says otherwise."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    weight = stored(RANDOM.integers(-128, 128, (20, 33)).astype(np.int8), "w")
    scale, zero = stored(np.full(33, 0.5, np.float32), "s"), stored(np.zeros(33, np.int8), "z")
    nodes = "f = DequantizeLinear<axis = 1>(w, s, z) y = MatMul(x, f)"
    write("dequantized.onnx", nodes, {"x": (FLOAT, [40, 20])}, ["y"], [weight, scale, zero])
    assert "against onnxruntime: " in made("dequantized.onnx")


@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize(("operator", "zeros"), [("Div", 0), ("Mod", [1, 0, 2])])
def test_integers_are_not_divided_by_zero(
    operator: str, zeros: Any, made: Any, refused: Any
) -> None:
    """It ends the process on a CPU."""
    divisor = stored(np.array(zeros, np.int32), "z")
    int32 = onnx.TensorProto.INT32
    write(
        "d.onnx",
        f"y = {operator}(x, z)",
        {"x": (int32, [3])},
        ["y"],
        [divisor],
    )
    error = f"{operator} (output 'y'): it divides integers by 'z', which has a zero"
    assert refused("d.onnx") == f"d.onnx: {error}\n"
    nodes = f"y = {operator}(x, d)"
    write("d.onnx", nodes, {"x": (int32, [600]), "d": (int32, [600])}, ["y"])
    made("d.onnx")


@pytest.mark.usefixtures("_no_devices")
def test_arrays_without_elements(capsys: pytest.CaptureFixture[str], refused: Any) -> None:
    nodes = "y = Concat <axis=1> (x, e)"
    write("e.onnx", nodes, {"x": (FLOAT, [2, 3]), "e": (FLOAT, [2, "n"])}, ["y"])
    status, out, err = call(capsys, "onnx", "e.onnx", "-t", "opencl", "--dim", "n=0")
    assert (status, err) == (
        0,
        "devmod: note: the input 'e' has no elements, and no call gives it\n",
    )
    assert "input x: float32[2, 3]; output y: float32[2, 3]\n" in out
    bounds = [numbers("from", 2), numbers("to", 2)]
    write(
        "e.onnx",
        "y = Slice(x, from, to)",
        {"x": (FLOAT, [3, 2])},
        ["y"],
        bounds,
    )
    error = "'y' is an empty array of shape (0, 2), which no kernel has"
    assert refused("e.onnx") == f"e.onnx: {error}\n"


def test_a_node_leaves_its_input_as_it_was(made: Any) -> None:
    """tinygrad's ScatterND assigns its first input, which another node uses."""
    nodes = "y = ScatterND(x, i, u) z = Neg(x)"
    indices = stored(np.array([[1], [3]]), "i")
    inputs = {"x": (FLOAT, [4, 3]), "u": (FLOAT, [2, 3])}
    write("s.onnx", nodes, inputs, ["y", "z"], [indices])
    made("s.onnx", "--no-check")
    x, u = (RANDOM.standard_normal(shape).astype(np.float32) for _, shape in inputs.values())
    y = x.copy()
    y[[1, 3]] = u
    for device in devmod.devices("opencl")[:1]:
        one, two = devmod.load("s.devmod")["s"].on(device)(x, u)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(one, y)
        np.testing.assert_array_equal(two, -x)


def test_small_integers_wrap(made: Any) -> None:
    """The sum of a kernel in C is an int. The check compares with another program."""
    inputs = {}
    nodes = ""
    for dtype in ("INT8", "UINT8", "INT16", "UINT16"):
        inputs[dtype] = (getattr(onnx.TensorProto, dtype), [32])
        calls = [f"{operator}({dtype}, {dtype})" for operator in ("Add", "Mul", "Sub")]
        if dtype == "UINT8":
            calls.append(f'BitShift <direction="LEFT"> ({dtype}, {dtype})')
        if not dtype.startswith("U"):
            calls += [f"Neg({dtype})", f"Abs({dtype})"]
        # One kernel computes results and the sum of their casts.
        for number, each in enumerate(calls):
            own = f"{dtype}{number}"
            nodes += f" w{own} = {each} f{own} = Cast <to=1> (w{own})"
        nodes += f" y{dtype} = Sum({', '.join(f'f{dtype}{n}' for n in range(len(calls)))})"
    # -128, whose opposite int8 does not have, is among so many.
    inputs["INT8"] = (inputs["INT8"][0], [4096])
    write("s.onnx", nodes, inputs, [f"y{dtype}" for dtype in inputs])
    assert "checked on tinygrad:CPU against onnx" in made("s.onnx", "-t", "webgpu")


@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize(("order", "batch"), [(0, "1..4"), (1, "2")])
def test_the_indices_of_maxima_are_those_of_the_whole_array(
    order: int, batch: str, made: Any
) -> None:
    sides = "kernel_shape=[2, 2], strides=[2, 2]"
    nodes = f"y, i = MaxPool <storage_order={order}, ceil_mode=1, {sides}> (x)"
    results = ["y", "i"]
    if not order:
        nodes += f" z = MaxUnpool <{sides}> (y, i)"
        results.append("z")
    write("p.onnx", nodes, {"x": (FLOAT, ["n", 3, 4, 6])}, results)
    onnx_model = onnx.load("p.onnx")
    onnx_model.graph.output[1].type.tensor_type.elem_type = INT64
    onnx.save(onnx_model, "p.onnx")
    out = made("p.onnx", "--dim", f"n={batch}")
    assert "checked on tinygrad:CPU against onnxruntime" in out


@pytest.mark.usefixtures("_no_devices")
def test_constants_of_each_form_are_outputs(made: Any) -> None:
    """Those of several numbers had to be copied in each call, which no program does."""
    forms = {"value_float": 2.5, "value_floats": [1.0, 2.0], "value_int": -1, "value_ints": [3, -4]}
    nodes = "y = Relu(x)"
    for name, value in forms.items():
        nodes += f" {name} = Constant <{name}={value}> ()"
    write("c.onnx", nodes, {"x": (FLOAT, [2])}, ["y", *forms])
    model = onnx.load("c.onnx")
    for each in model.graph.output[3:]:
        each.type.tensor_type.elem_type = INT64
    onnx.save(model, "c.onnx")
    made("c.onnx")
    for device in devmod.devices("opencl")[:1]:
        program: Any = devmod.load("c.devmod")["c"].on(device)
        results = program(np.zeros(2, np.float32))
        assert [each.tolist() for each in map(np.asarray, results[1:])] == [*forms.values()]


@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize(("size", "optimized"), [(8, 1), (700, 2)])
def test_the_check_optimizes_long_kernels_alone(
    size: int, optimized: int, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    """The kernel for OpenCL is always optimized, unless it is written by hand, as one without the
    sine. The CPU's of a model of speech took 20 s.
    """
    from tinygrad.codegen.opt import heuristic

    calls = []
    own = heuristic.hand_coded_optimizations

    def observed(scheduler: Any) -> Any:
        calls.append(scheduler)
        return own(scheduler)

    monkeypatch.setattr(heuristic, "hand_coded_optimizations", observed)
    nodes = "product = MatMul(x, w) y = Sin(product)"
    inputs = {"x": (FLOAT, [size, size])}
    write("m.onnx", nodes, inputs, ["y"], [constant("w", size, size)])
    made("m.onnx")
    assert len(calls) == optimized


@pytest.mark.usefixtures("_no_devices")
def test_inputs_that_are_alike_have_different_numbers(made: Any) -> None:
    """The difference of two inputs is not zero, which a wrong result may be, too."""
    write(
        "s.onnx",
        "y = Sub(x, z)",
        {"x": (FLOAT, [9]), "z": (FLOAT, [9])},
        ["y"],
    )
    out = made("s.onnx")
    assert "the same everywhere" not in out


@pytest.mark.usefixtures("_no_devices")
def test_a_convolution_with_omitted_outputs_and_inputs(made: Any) -> None:
    one = stored(np.float32(0.7), "one")
    empty = onnx.TensorProto(name="empty", data_type=FLOAT, dims=[0], raw_data=bytes(8))
    nodes = """
        c = Conv <pads=[1, 1, 1, 1]> (x, w, b)
        d, "" = Dropout(c)
        e = Clip(d, "", one)
        f = Concat <axis=1> (e, e)
        y = GlobalMaxPool(f)
    """
    write(
        "conv.onnx",
        nodes,
        {"x": (FLOAT, [-1, 3, "?", "?"])},
        ["y", "x"],
        [constant("w", 4, 3, 3, 3), constant("b", 4), one, empty],
    )
    np.save("x.npy", RANDOM.standard_normal((2, 3, 6, 5)).astype(np.float32))
    out = made("conv.onnx", "--inputs", "x.npy", "--name", "net", "-o", "n.devmod")
    assert (
        "input x: float32[2, 3, 6, 5]; output y: float32[2, 8, 1, 1]; output x_2: float32[2, 3, 6, 5]; 'x' is x_2\n"
        in out
    )
    assert out.endswith('y, x_2 = devmod.load("n.devmod")["net"](x)\n')


@pytest.mark.usefixtures("_no_devices")
def test_indices_are_within_their_table(made: Any) -> None:
    nodes = "i = Unsqueeze(ids, axes) y = Gather(table, i)"
    write(
        "3t.onnx",
        nodes,
        {"ids": (INT64, [64])},
        ["y"],
        [constant("table", 3, 2), numbers("axes", 0)],
    )
    out = made("3t.onnx")
    assert out.startswith("_3t: ")
    assert "finite" not in out
    assert "same everywhere" not in out


@pytest.mark.parametrize(
    ("nodes", "words", "error"),
    [
        (
            "y = Reshape(x, s)",
            [],
            "Reshape (output 'y'): a shape or an option depends on the data of an input. That is control flow, which no program has. An input that is always the same can be an initializer of the model. Else cut the model there with onnx.utils.extract_model: each call of the second part chooses the length",
        ),
        (
            "n = RandomNormalLike(x) y = Add(x, n)",
            [],
            'RandomNormalLike (output \'n\'): it draws random numbers, which no program has. Give them as an input: onnx.utils.extract_model(FILE, "cut.onnx", ["x", "s", "n"], ["y"]) cuts the model there',
        ),
        (
            "y = Frobnicate(x)",
            [],
            "Frobnicate (output 'y'): tinygrad does not have this operator. It lacks 'Frobnicate'",
        ),
        (
            "y = Tanh <nonsense=1> (x)",
            [],
            "Tanh (output 'y'): tinygrad cannot trace it: TypeError: ElementwiseMixin.tanh() got an unexpected keyword argument 'nonsense'",
        ),
        (
            RELU,
            ["--dim", "rows=3"],
            "no input and no length of one has the name 'rows'. The inputs: 'x', 's'; their lengths: 'x.0', 'x.1', 's.0'\n",
        ),
        (
            RELU,
            ["--inputs", "x=bad.npy"],
            "--inputs x: expected float32[2, 6], got float64[2, 6]",
        ),
        (
            RELU,
            ["--inputs", "x=bad.npz"],
            "--inputs bad.npz: expected a file .npy with one array, got an archive .npz\n",
        ),
        (
            RELU,
            ["--inputs", "x=m.onnx"],
            "--inputs m.onnx: expected a file .npy with one array of numbers, got another file\n",
        ),
        (
            RELU,
            ["--inputs", "x=none.npy"],
            "--inputs none.npy: No such file or directory\n",
        ),
    ],
)
def test_what_is_no_program_is_an_error(nodes: Any, words: Any, error: str, refused: Any) -> None:
    write("m.onnx", nodes, {"x": (FLOAT, [2, 6]), "s": (INT64, [2])}, ["y"])
    np.save("bad.npy", np.ones((2, 6)))
    np.savez("bad.npz", x=np.ones((2, 6), np.float32))
    Path("m.devmod").write_bytes(b"old")
    err = refused("m.onnx", *words)
    assert err.startswith(f"m.onnx: {error}")
    assert len(err.splitlines()) == 1
    assert Path("m.devmod").read_bytes() == b"old"


def test_given_arrays_that_differ_in_a_length_are_an_error(refused: Any) -> None:
    both = {name: (FLOAT, ["batch", 2]) for name in "ab"}
    write("m.onnx", "y = Add(a, b)", both, ["y"])
    for rows, name in enumerate(both, 2):
        np.save(f"{name}.npy", np.ones((rows, 2), np.float32))
    words = ["--dim", "batch=1..4", "--inputs", "a=a.npy", "--inputs", "b=b.npy"]
    assert refused("m.onnx", *words).startswith(
        "m.onnx: --inputs b: expected float32[batch, 2], got float32[3, 2]"
    )


#: The program whose results are the reference of the check.
REFERENCE_PROGRAM = "onnxruntime" if find_spec("onnxruntime") else "onnx.reference"


def need_opencl() -> None:
    if not devmod.devices("opencl"):
        pytest.skip("no OpenCL device is here")


@pytest.fixture
def replace(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gives an operator another function of tinygrad's Tensors."""
    with tinygrad.cpu():
        from devmod_models._tinygrad.operators import OPERATORS
    return partial(monkeypatch.setitem, OPERATORS)


def test_a_length_that_an_operator_of_tinygrad_does_not_take(replace: Any, refused: Any) -> None:
    def operator(x: Any) -> Any:
        raise RuntimeError("symbolic shape not supported")

    replace("Relu", operator)
    write("m.onnx", "y = Relu(x)", {"x": (FLOAT, ["n"])}, ["y"])
    assert refused("m.onnx", "--dim", "n=2..9") == (
        "m.onnx: Relu (output 'y'): tinygrad cannot trace it: a length that each call chooses decides what it does; a fixed length may do (--dim)\n"
    )


@pytest.mark.usefixtures("_no_devices")
def test_a_chain_of_nodes_has_several_kernels(made: Any) -> None:
    """The time of a kernel rises faster than its operations: 3,000 in one took minutes."""
    names = ["x", *[f"a{number}" for number in range(299)], "y"]
    nodes = " ".join(f"{two} = Sin({one})" for one, two in pairwise(names))
    write("deep.onnx", nodes, {"x": (FLOAT, [4])}, ["y"])
    assert made("deep.onnx", "--no-check").startswith("deep: 2 kernels, 3 steps, 0 constants; ")


# -- Ranges of a length with kernels of their own.


def soften(*shape: Any) -> None:
    """Write a model whose results depend on all rows."""
    nodes = "a = MatMul(x, w) s = Softmax<axis = -2>(a) y = MatMul(s, v)"
    write(
        "soft.onnx",
        nodes,
        {"x": (FLOAT, shape)},
        ["y"],
        [constant("w", 8, 16), constant("v", 16, 4)],
    )


RANGES = ("--dim", "n=1..9", "--buckets", "1,4,9")


def test_ranges_of_a_length(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has kernels of its own, and the check has both ends of each."""
    need_opencl()
    soften("n", 8)
    lines = made("soft.onnx", *RANGES).splitlines()
    assert lines[0].endswith(
        "input x: float32[n, 8]; output y: float32[n, 4]; n has kernels of its own for 1, 2 to 4 and 5 to 9"
    )
    for program in (REFERENCE_PROGRAM, "tinygrad on the CPU"):
        compared = [each for each in lines if f" against {program}: " in each]
        ends = [re.search(r"\(.*\)$", each) for each in compared]
        assert [each and each[0] for each in ends] == [f"(n={n})" for n in (1, 2, 4, 5, 9)]
    f = devmod.load("soft.devmod")["soft"]
    session = check.Reference("soft.onnx")
    for count in (1, 2, 3, 4, 5, 7, 9):
        x = RANDOM.standard_normal((count, 8)).astype(np.float32)
        np.testing.assert_allclose(f(x), session.results({"x": x})["y"], atol=1e-5)
    assert "it requires n <= 9, and that is 10 <= 9" in refusal(
        devmod.ArgumentError, f, np.zeros((10, 8), np.float32)
    )
    status, out, _ = call(capsys, "inspect", "soft.devmod")
    assert status == 0
    for line in (
        "for n_1 in range(1 - min(1, n // 2))",
        "for n_2_to_4 in range(min(1, n // 2) - min(1, n // 5))",
        "for n_5_to_9 in range(min(1, n // 5))",
    ):
        assert line in out
    (own, *_) = (each for each in walk(devmod.load("soft.devmod")) if each.kind == "program")
    steps = read_program("soft", own.functions["soft"], own.code["soft"])
    for one, two in pairwise(steps.repeats):
        kernels = [
            {each.kernel for each in steps.steps[part.first : part.end]} for part in (one, two)
        ]
        assert kernels[0].isdisjoint(kernels[1])


@pytest.mark.usefixtures("_no_devices")
def test_ranges_of_one_of_several_lengths_that_are_multiples(made: Any) -> None:
    soften("batch", "n", 8)
    words = ("--dim", "batch=1..2", "--dim", "n=2..10:2", "--buckets", "n=4,10")
    lines = made("soft.onnx", *words).splitlines()
    assert lines[0].endswith("; n has kernels of its own for 2 to 4 and 6 to 10")
    ends = [re.search(r"\(.*\)$", each) for each in lines if "tinygrad:CPU" in each]
    assert [each and each[0] for each in ends] == [
        "(n=2, batch=1)",
        "(n=4, batch=2)",
        "(n=6, batch=1)",
        "(n=10, batch=2)",
    ]


@pytest.mark.usefixtures("_no_devices")
def test_ranges_of_a_length_that_an_array_of_the_check_has(made: Any) -> None:
    """The other ranges are checked with random numbers."""
    soften("n", 8)
    np.save("x.npy", np.ones((3, 8), np.float32))
    lines = made("soft.onnx", *RANGES, "--inputs", "x.npy").splitlines()
    ends = [re.search(r"\(.*\)$", each) for each in lines if "tinygrad:CPU" in each]
    assert [each and each[0] for each in ends] == [f"(n={n})" for n in (1, 5, 9, 3)]


def test_ranges_of_a_length_of_a_model_with_state(made: Any) -> None:
    """All ranges have the same state."""
    need_opencl()
    nodes = "s = ReduceSum<keepdims = 0>(x) k2 = Add(k, s) y = Add(x, k2)"
    inputs = {"x": (FLOAT, ["n"]), "k": (FLOAT, [1])}
    write("sums.onnx", nodes, inputs, ["y", "k2"])
    made("sums.onnx", "--state", "k=k2", *RANGES)
    f = devmod.load("sums.devmod")["sums"]
    state = f.state()
    total = 0
    for count in (1, 5, 2, 1, 9):
        total += count
        assert f(np.ones(count, np.float32), state=state).tolist() == [total + 1] * count


def test_a_range_that_is_wrong_is_found(replace: Any, refused: Any) -> None:
    """Each other range is right."""

    def operator(x: Any) -> Any:
        is_second = getattr(x.shape[0], "vmax", x.shape[0]) == 4
        return x.relu() + int(is_second)

    replace("Relu", operator)
    write("m.onnx", RELU, {"x": (FLOAT, ["n"])}, ["y"])
    assert "differs by 1.0e+00" in refused("m.onnx", *RANGES)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["--dim", "n=4"],
            "no length is chosen by each call: give one its first and last value, such as 1 and 64 (--dim)",
        ),
        (
            ["--dim", "n=1..9", "--dim", "batch=1..2"],
            "each call chooses several lengths; name the one: 'batch', 'n' (--buckets)",
        ),
        (
            [
                *("--dim", "n=1..9", "--dim", "batch=1..2"),
                *("--buckets", "n=2,9", "--buckets", "batch=1,2"),
            ],
            "one length alone has ranges with kernels of their own, got 'n', 'batch' (--buckets)",
        ),
        (
            ["--dim", "n=1..9", "--buckets", "m=2,9"],
            "no length that each call chooses has the name 'm'. Those are 'n' (--buckets)",
        ),
        (
            ["--dim", "n=1..9", "--buckets", "4,4,9"],
            "the length 'n', which is 1 to 9: expected the last lengths of two or more ranges in ascending order, got 4, 4, 9 (--buckets)",
        ),
        (
            ["--dim", "n=1..9", "--buckets", "9"],
            "the length 'n', which is 1 to 9: expected the last lengths of two or more ranges in ascending order, got 9 (--buckets)",
        ),
        (
            ["--dim", "n=3..9", "--buckets", "2,9"],
            "the length 'n', which is 3 to 9: expected the last lengths of two or more ranges in ascending order, from 3 on and 9 last, got 2, 9 (--buckets)",
        ),
        (
            ["--dim", "n=1..9"],
            "the length 'n', which is 1 to 9: expected the last lengths of two or more ranges in ascending order, from 1 on and 9 last, got 4, 8 (--buckets)",
        ),
        (
            ["--dim", "n=2..8:2", "--buckets", "5,8"],
            "the length 'n', which is 2 to 8: expected the last lengths of two or more ranges in ascending order, multiples of 2, got 5, 8 (--buckets)",
        ),
    ],
)
def test_ranges_that_do_not_divide_a_length(words: Any, error: str, refused: Any) -> None:
    soften("batch", "n", 8)
    if "--buckets" not in words:
        words = [*words, "--buckets", "4,8"]
    assert refused("soft.onnx", *words) == f"soft.onnx: {error}\n"


STATES = ("--state", "k=k2", "--state", "v=v2")


def decoder() -> None:
    """Write a model with two states: k is halved and gets x, and v gets the old k."""
    nodes = "a = Mul(k, half) k2 = Add(a, x) s = ReduceSum<keepdims = 0>(k) y = Add(s, x) v2 = Identity(k) old = Identity(v)"
    inputs = {name: (FLOAT, [4]) for name in ("x", "k", "v")}
    half = stored(np.float32(0.5), "half")
    write("decoder.onnx", nodes, inputs, ["y", "k2", "v2", "old"], [half])


def test_inputs_that_are_state(made: Any) -> None:
    """Each next value is computed from the old ones, and so is each result."""
    decoder()
    first = np.array([1, 2, 3, 4], "float32")
    np.save("k.npy", first)
    lines = made("decoder.onnx", *STATES, "--inputs", "k=k.npy").splitlines()
    assert lines[0].endswith(
        "input x: float32[4]; output y: float32[4]; output old: float32[4]; state k: float32[4]; state v: float32[4]"
    )
    assert lines[1].startswith(f"checked on tinygrad:CPU against {REFERENCE_PROGRAM}: worst error ")
    assert lines[1].endswith(", in 3 calls")
    loaded = 'f = devmod.load("decoder.devmod")["decoder"]'
    assert lines[-3:] == [loaded, "state = f.state()", "y, old = f(x, state=state)"]
    need_opencl()
    f = devmod.load("decoder.devmod")["decoder"]
    state = f.state()
    k, v = first, np.zeros(4, "float32")
    for number in range(4):
        x = np.full(4, number, "float32")
        y, old = f(x, state=state)
        np.testing.assert_allclose(y, k.sum() + x)
        np.testing.assert_allclose(old, v)
        k, v = k / 2 + x, k


@pytest.mark.usefixtures("_no_devices")
def test_a_state_of_a_model_with_a_length_of_the_call(made: Any) -> None:
    nodes = "s = ReduceSum<keepdims = 0>(x) k2 = Add(k, s) y = Mul(x, k)"
    write("sums.onnx", nodes, {"x": (FLOAT, ["n"]), "k": (FLOAT, [1])}, ["y", "k2"])
    _, *checked = made("sums.onnx", "--state", "k=k2", "--dim", "n=1..5").splitlines()
    against = rf"checked on tinygrad:CPU against {re.escape(REFERENCE_PROGRAM)}: "
    for line, length in zip(checked[::2], (1, 5), strict=False):
        assert re.fullmatch(rf"{against}worst error \S+ of \S+, in 3 calls \(n={length}\)", line)


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
def test_a_state_that_is_wrong_in_the_second_call_is_an_error(replace: Any, refused: Any) -> None:
    """The state begins with zeros, so the first call is right."""
    replace("Mul", lambda x, y: x * y * 1.5)
    decoder()
    assert refused("decoder.onnx", *STATES).startswith(
        "decoder.onnx: Mul (output 'a'): devmod computes it wrongly: "
    )


def rate(*shape: int) -> None:
    """Write a model with a branch that an input decides."""
    graphs = []
    for name, nodes in (("fast", "a = Add(x, x)"), ("slow", "a = Mul(x, x)")):
        parsed = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
        result = [onnx.helper.make_tensor_value_info("a", FLOAT, None)]
        graphs.append(onnx.helper.make_graph(parsed.node, name, [], result))
    parsed = onnx.parser.parse_graph("g () => () { c = Equal(sr, k) }").node
    branch = onnx.helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])
    values = [
        onnx.helper.make_tensor_value_info("x", FLOAT, [3]),
        onnx.helper.make_tensor_value_info("sr", INT64, shape),
    ]
    outputs = [onnx.helper.make_tensor_value_info("y", FLOAT, None)]
    graph = onnx.helper.make_graph([*parsed, branch], "g", values, outputs, [numbers("k", 16000)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 16)])
    onnx.save(model, "rate.onnx")


def test_an_input_that_is_a_constant_decides_a_branch(made: Any, refused: Any) -> None:
    rate(1)
    text = refused("rate.onnx")
    assert "depends on the data of an input" in text
    x = np.array([3, 4, 5], "float32")
    for number, wanted in (("16000", x + x), ("8000", x * x)):
        first, checked, *_ = made("rate.onnx", "--constant", f"sr={number}").splitlines()
        assert first.endswith("; input x: float32[3]; output y: float32[3]")
        assert checked.startswith(f"checked on tinygrad:CPU against {REFERENCE_PROGRAM}: ")
        if devmod.devices("opencl"):
            np.testing.assert_array_equal(devmod.load("rate.devmod")["rate"](x), wanted)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            "srr=1",
            "a constant is given for the input 'srr', and the model has no such input. Did you mean 'sr'? The inputs: 'x', 'sr'",
        ),
        ("sr=1.5", "the input 'sr' is int64, and 1.5 is no number of this type"),
        (
            "sr=9223372036854775808",
            "the input 'sr' is int64, and 9223372036854775808 is no number of this type",
        ),
        (
            "x=1,2",
            "the input 'x' is float32[3], and 2 numbers are given: expected one, or one for each element of fixed lengths",
        ),
    ],
)
def test_constants_that_do_not_fit(words: str, error: str, refused: Any) -> None:
    rate(1)
    assert refused("rate.onnx", "--constant", words) == f"rate.onnx: {error}\n"


def test_states_that_no_program_has(refused: Any, capsys: pytest.CaptureFixture[str]) -> None:
    decoder()
    start = "a state is an input and the output that is its next value, and the model has no"
    for words, error in (
        ("kk=k2", f"{start} input 'kk'. Did you mean 'k'? The inputs: 'x', 'k', 'v'"),
        ("k=k22", f"{start} output 'k22'. Did you mean 'k2'? The outputs: 'y', 'k2', 'v2', 'old'"),
    ):
        assert refused("decoder.onnx", "--state", words) == f"decoder.onnx: {error}\n"
    status, _, err = call(capsys, "onnx", "decoder.onnx", "-t", "opencl", "--state", "k")
    assert status == 2
    assert err.endswith(
        "--state k: expected an input and the output that is its next value, such as cache=new_cache\n"
    )
    write("one.onnx", "k2 = Add(k, x)", {"x": (FLOAT, [2]), "k": (FLOAT, [2])}, ["k2"])
    assert refused("one.onnx", "--state", "k=k2") == (
        "one.onnx: each output is the next value of a state: 'k2'. A program has a result\n"
    )
    nodes = "k2 = Concat<axis = 0>(k, x) y = Add(x, x)"
    write("grows.onnx", nodes, {"x": (FLOAT, [1]), "k": (FLOAT, ["n"])}, ["y", "k2"])
    assert refused("grows.onnx", "--state", "k=k2", "--dim", "n=1..4") == (
        "grows.onnx: the input 'k' is state, which has one shape, and each call chooses a length of it; choose that now: --dim k=N,N,…\n"
    )
    assert refused("grows.onnx", "--state", "k=k2", "--dim", "n=4") == (
        "grows.onnx: the state 'k' is float32[4], and its next value 'k2' is float32[5]; a state keeps its shape\n"
    )
    nodes = "k2 = Concat<axis = 0>(k, x) y = Add(x, x)"
    write("any.onnx", nodes, {"x": (FLOAT, ["m"]), "k": (FLOAT, [4])}, ["y", "k2"])
    assert refused("any.onnx", "--state", "k=k2", "--dim", "m=1..4") == (
        "any.onnx: the state 'k' is float32[4], and its next value 'k2' is float32[(m + 4)]; a state keeps its shape\n"
    )
    np.save("k.npy", np.zeros(4))
    assert refused("grows.onnx", "--state", "k=k2", "--inputs", "k=k.npy") == (
        "grows.onnx: --inputs k: expected float32[4], got float64[4]\n"
    )


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize(("module", "maker"), [("tinygrad.nn.onnx", "tinygrad"), ("m", "devmod")])
def test_an_operator_that_is_computed_wrongly_is_named(
    module: str, maker: str, replace: Any, made: Any, refused: Any
) -> None:
    """All devices compute what tinygrad does on the CPU: only another program shows the mistake."""

    def wrong(x: Any) -> Any:
        return x.relu() + 1

    wrong.__module__ = module
    replace("Relu", wrong)
    nodes = 'a = MatMul(x, "fc/w") b = Relu(a) y = Neg(b)'
    write("wrong.onnx", nodes, {"x": (FLOAT, [3, 8])}, ["a", "y"], [WEIGHT])
    assert re.fullmatch(
        rf"wrong\.onnx: Relu \(output 'b'\): {maker} computes it wrongly: its output 'b' differs by 1\.0e\+00 "
        rf"from that of {re.escape(REFERENCE_PROGRAM)}, whose largest magnitude is [\d.]+: at most [\d.e-]+ is allowed\n",
        refused("wrong.onnx"),
    )
    assert not Path("wrong.devmod").exists()
    assert made("wrong.onnx", "--no-check").splitlines()[1] == "not checked: --no-check"
    assert Path("wrong.devmod").exists()


def test_a_kernel_that_is_wrong_is_not_written(
    refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tinygrad on the CPU gives what the reference gives, so the kernel for OpenCL is wrong."""
    need_opencl()
    own = devmod.compile
    monkeypatch.setattr(
        devmod,
        "compile",
        lambda text, *given, **more: own(text.replace("0.0f", "0.5f"), *given, **more),
    )
    classifier(3, 8)
    error = refused("small.onnx")
    assert error.startswith("small.onnx: result 0 of 'small' on opencl:0 differs by ")
    assert " from that of tinygrad on the CPU, whose largest magnitude is " in error
    assert not Path("small.devmod").exists()


@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize(
    ("node", "lengths"),
    [
        ('LpPool<p = 1, kernel_shape = [2], strides = [4], auto_pad = "SAME_UPPER">', "8"),
        ('LpPool<kernel_shape = [3], dilations = [2], auto_pad = "SAME_LOWER">', "7"),
        ('MaxPool<kernel_shape = [1], strides = [3], auto_pad = "SAME_UPPER">', "2..9"),
        (
            'AveragePool<kernel_shape = [2], dilations = [2], strides = [2], auto_pad = "SAME_LOWER">',
            "4..8",
        ),
        ('Conv<strides = [5], auto_pad = "SAME_UPPER">', "4"),
        ('ConvTranspose<strides = [5], auto_pad = "SAME_UPPER">', "4"),
        ('ConvTranspose<strides = [2], auto_pad = "VALID">', "4"),
    ],
)
def test_pads_that_other_programs_forget(node: str, lengths: str, made: Any) -> None:
    """onnxruntime shifts a window that is smaller than its step, or refuses it, and forgets gaps.
    By ONNX's page, pads are 0 or more, and as many as give a window for each step.
    """
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    weight = ""
    constants = []
    if node.startswith("Conv"):
        weight = ", w"
        constants = [constant("w", 3, 3, 1)]
    nodes = f"r = Relu(x) y = {node}(r{weight})"
    text = f"g () => () {{ {nodes} }}"
    graph = onnx.helper.make_graph(
        onnx.parser.parse_graph(text).node,
        "g",
        [onnx.helper.make_tensor_value_info("x", FLOAT, [2, 3, "n"])],
        [onnx.helper.make_tensor_value_info("y", FLOAT, None)],
        constants,
    )
    versions = [onnx.helper.make_opsetid("", 22)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=versions, ir_version=10), "pads.onnx")
    lines = made("pads.onnx", "--dim", f"n={lengths}").splitlines()
    assert lines[1].startswith("checked on tinygrad:CPU against onnxruntime: worst error ")


@pytest.mark.usefixtures("_no_devices")
def test_a_program_that_computes_the_least_length_alone(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = check._run_model

    def run(request: Any, inputs: Any) -> Any:
        if len(inputs[0]) == 9:
            raise ValueError("too large")
        return own(request, inputs)

    monkeypatch.setattr(check, "_run_model", run)
    monkeypatch.setattr(check, "is_here", lambda program: program == "onnx.reference")
    classifier()
    lines = made("small.onnx", "--dim", "batch=2..9").splitlines()
    assert lines[1].startswith("checked on tinygrad:CPU against onnx.reference: worst error ")
    assert lines[3].startswith(
        "not compared with another program: onnx.reference: ValueError: too large; "
    )
    assert lines[3].endswith(" (batch=9)")


def test_a_device_that_runs_the_least_length_alone(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with too little memory does."""
    first_device("opencl")
    own = check.try_calls

    def tried(module: Any, name: str, device: str, calls: Any) -> Any:
        rows = [*calls]
        if len(rows[0][0][0]) == 9:
            return "out of memory", []
        return own(module, name, device, rows)

    monkeypatch.setattr(check, "try_calls", tried)
    monkeypatch.setattr(devmod, "devices", lambda *_: [first_device("opencl")])
    classifier()
    lines = made("small.onnx", "--dim", "batch=2..9").splitlines()
    assert [line.partition(":")[0] for line in lines[1:5]] == [
        "checked on tinygrad",
        "checked on opencl",
        "checked on tinygrad",
        "not checked on opencl",
    ]
    assert lines[4] == "not checked on opencl:0: out of memory (batch=9)"


def test_a_device_whose_compiler_aborts_is_not_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each device has a process of its own, so the others are checked."""
    devices = [*devmod.devices("opencl")[:1], *devmod.devices("webgpu")[:1]]
    if len(devices) < 2:
        pytest.skip("no OpenCL device is here, or no WebGPU device")
    monkeypatch.setattr(devmod, "devices", lambda *_: devices)
    monkeypatch.setattr(check, "is_here", lambda _: False)
    monkeypatch.setattr(check, "Worker", Worker)
    plant("import os; os.abort()", "wgpu", monkeypatch)
    classifier(3, 8)
    status, out, err = call(capsys, "onnx", "small.onnx", "-t", "opencl", "-t", "webgpu")
    assert (status, err) == (0, "")
    checked, unchecked = out.splitlines()[2:4]
    assert unchecked == "not checked on webgpu:0: it ends the process with signal 6"
    assert checked.startswith("checked on opencl:0 against tinygrad on the CPU: worst error ")
    assert Path("small.devmod").exists()


@pytest.mark.row("R53")
@pytest.mark.parametrize(
    ("code", "seconds", "problem"),
    [
        ("import time; time.sleep(60)", 1, "it takes longer than 1 s"),
        ("raise ValueError('no such operator')", 300, "ValueError: no such operator"),
        ("import os; os._exit(3)", 300, "it ends the process with exit status 3"),
    ],
)
def test_a_reference_that_fails(
    code: str, seconds: int, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "Worker", Worker)
    monkeypatch.setattr(check, "is_here", lambda _: True)
    monkeypatch.setattr(check, "SECONDS", dict.fromkeys(check.SECONDS, seconds))
    plant(code, "onnx", monkeypatch)
    reference = check.Reference("small.onnx")
    assert (reference.results({}), reference.program) == ({}, "")
    assert reference.problem == f"onnxruntime: {problem}; onnx.reference: {problem}"


@pytest.mark.row("R53")
def test_the_next_reference_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"onnxruntime": {"error": "it fails"}, "onnx.reference": {"reply": ["y"]}}
    monkeypatch.setattr(check, "is_here", lambda _: True)
    monkeypatch.setattr(check, "_ask", lambda request, *_: (answers[request["program"]], [3]))
    reference = check.Reference("small.onnx")
    assert reference.results({}) == {"y": 3}
    assert (reference.program, reference.problem) == ("onnx.reference", "onnxruntime: it fails")


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
def test_without_a_reference_a_line_says_so(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    """tinygrad alone is compared then."""
    monkeypatch.setattr(check, "is_here", lambda _: False)
    classifier(3, 8)
    advice = f"to compare with onnxruntime: {devmod.errors.pip_install('onnxruntime')}"
    assert f"\nnot compared with another program: {advice}\n" in made("small.onnx")


#: Numbers that are the last digits of others: enlarged, and with a half between two steps.
LAST_DIGITS = {
    "enlarged": "y = Mul(c, large)",
    "quantized": "h = Add(c, half) q = QuantizeLinear(h, one) y = DequantizeLinear(q, one)",
}


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize("nodes", LAST_DIGITS.values(), ids=LAST_DIGITS)
def test_results_whose_nodes_are_right_may_differ_in_sum(
    nodes: str, replace: Any, made: Any
) -> None:
    """Where no node alone is wrong, many have enlarged the last digits: 1e8 times here."""
    weight = constant("w", 16, 30)
    x = RANDOM.standard_normal((1, 16)).astype(np.float32)
    close = (x.astype(np.float64) @ onnx.numpy_helper.to_array(weight)).astype(np.float32)
    numbers = {"large": 1e8, "half": 0.5, "one": 1.0}
    scalars = [stored(np.float32(value), name) for name, value in numbers.items()]
    constants = [weight, stored(close, "b"), *scalars]
    nodes = f"a = MatMul(x, w) c = Sub(a, b) {nodes}"
    write("sums.onnx", nodes, {"x": (FLOAT, [1, 16])}, ["y"], constants)
    np.save("x.npy", x)
    replace("MatMul", lambda a, b: sum(a[:, n : n + 1] * b[n : n + 1] for n in range(16)))
    out = made("sums.onnx", "--inputs", "x.npy")
    (line,) = [each for each in out.splitlines() if each.startswith("checked on tinygrad:CPU")]
    assert re.fullmatch(
        rf"checked on tinygrad:CPU against {REFERENCE_PROGRAM}: worst error \S+ of \S+; each node alone is right, "
        r"and other last digits of its values move a result by \S+",
        line,
    )


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize(
    "nodes", ["y = Neg(b)", "q = QuantizeLinear(b, one) y = DequantizeLinear(q, one)"]
)
def test_nodes_that_are_wrong_together_are_an_error(nodes: str, replace: Any, refused: Any) -> None:
    """Each node alone is right, and last digits make no such difference."""
    replace("Relu", lambda x: x.relu() + (not x.uop.base.is_realized))
    nodes = f'a = MatMul(x, "fc/w") b = Relu(a) {nodes}'
    constants = [WEIGHT, stored(np.float32(1), "one")]
    write("wrong.onnx", nodes, {"x": (FLOAT, [3, 8])}, ["y"], constants)
    assert re.fullmatch(
        r"wrong\.onnx: result 0 of tinygrad on the CPU, where each node alone is right, differs by 1\.0e\+00 "
        rf"from that of {re.escape(REFERENCE_PROGRAM)}, whose largest magnitude is [\d.]+: at most [\d.e-]+ is allowed\n",
        refused("wrong.onnx"),
    )
    assert not Path("wrong.devmod").exists()


@pytest.mark.row("R53")
def test_a_device_may_take_another_step_of_a_quantization(
    made: Any, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last digit of a product decides about a step. No other difference is allowed."""
    need_opencl()
    nodes = "h = Mul(x, k) q = QuantizeLinear(h, one) y = DequantizeLinear(q, one)"
    scalars = [stored(np.float32(value), name) for name, value in (("k", 0.5), ("one", 1.0))]
    write("steps.onnx", nodes, {"x": (FLOAT, [4])}, ["y"], scalars)
    np.save("x.npy", np.array([5, 7, 9, 8], "float32"))
    own = devmod.compile

    def with_factor(factor: str) -> None:
        def changed(text: str, *given: Any, **more: Any) -> Any:
            return own(text.replace("0.5f", factor), *given, **more)

        monkeypatch.setattr(devmod, "compile", changed)

    with_factor("0.50001f")
    (line,) = [
        each for each in made("steps.onnx", "--inputs", "x.npy").splitlines() if "opencl:0" in each
    ][:1]
    assert "worst error 1.0e+00 of" in line
    assert "; other last digits of its values move a result by 1.0e+00" in line
    with_factor("9.5f")
    assert "differs by" in refused("steps.onnx", "--inputs", "x.npy")


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize("magnitude", [1e-6, 1.0, 1e6])
def test_results_of_each_magnitude_are_judged(magnitude: float, replace: Any, refused: Any) -> None:
    """A part of the largest magnitude may differ."""
    replace("Relu", lambda x: x.relu() * 1.001)
    weight = stored(onnx.numpy_helper.to_array(WEIGHT) * np.float32(magnitude), "w")
    write("wrong.onnx", "a = MatMul(x, w) y = Relu(a)", {"x": (FLOAT, [3, 8])}, ["y"], [weight])
    start = "wrong.onnx: Relu (output 'y'): devmod computes it wrongly: its output 'y' differs by "
    assert refused("wrong.onnx").startswith(start)


#: A result, that of the reference, how far the result moves, and whether the two are close where a
#: hundredth of the largest magnitude is allowed.
PAIRS: dict[str, tuple[Any, Any, float, bool]] = {
    "small": (np.array([1e-5, 5.07e-6]), np.array([1e-5, 5e-6]), 0, True),
    "small, wrong": (np.array([1e-5, 5.2e-6]), np.array([1e-5, 5e-6]), 0, False),
    "large": (np.array([9e6, -4.93e6]), np.array([9e6, -5e6]), 0, True),
    "large, wrong": (np.array([9e6, -4.8e6]), np.array([9e6, -5e6]), 0, False),
    "moved": (np.array([2.0, 3.0]), np.array([2.0, 2.5]), 0.06, True),
    "moved further": (np.array([2.0, 3.0]), np.array([2.0, 2.5]), 0.04, False),
    "not finite": (np.array([1.0, np.inf, np.nan]), np.array([1.0, np.inf, np.nan]), 0, True),
    "not finite, wrong": (np.array([1.0, 7.0]), np.array([1.0, np.inf]), 0, False),
    "another sign of infinity": (np.array([1.0, -np.inf]), np.array([1.0, np.inf]), 0, False),
    "no NaN": (np.array([1.0, 0.0]), np.array([1.0, np.nan]), 9.0, False),
    "not a number": (np.array([1.0, np.nan]), np.array([1.0, 2.0]), 0, False),
    "int8": (np.array([7, -3], "int8"), np.array([7, -3], "int8"), 0, True),
    "int8, wrong": (np.array([127, -3], "int8"), np.array([127, -4], "int8"), 0, False),
    "int8, moved": (np.array([7, 3], "int8"), np.array([7, -2], "int8"), 0.5, True),
    "int8, moved further": (np.array([7, 3], "int8"), np.array([7, -3], "int8"), 0.5, False),
    "int64": (np.array([2**53 + 1, 5]), np.array([2**53 + 1, 5]), 0, True),
    "int64, wrong": (np.array([2**53 + 1, 5]), np.array([2**53, 5]), 0, False),
    "negative int64, wrong": (np.array([-(2**62) - 1]), np.array([-(2**62)]), 0, False),
    "uint64, wrong": (np.array([2**64 - 1], "uint64"), np.array([2**64 - 2], "uint64"), 0, False),
    "bool, wrong": (np.array([True, False]), np.array([True, True]), 0, False),
    "another type": (np.array([1, 2], "int32"), np.array([1, 2], "int64"), 0, False),
    "another shape": (np.array([1.0, 2.0]), np.array([[1.0, 2.0]]), 0, False),
}


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
def test_numbers_that_are_not_finite_are_judged_by_kind(replace: Any, refused: Any) -> None:
    """Compilers of WGSL and of MSL may assume that numbers are finite."""
    write("log.onnx", "a = Log(x) y = Exp(a)", {"x": (FLOAT, [3])}, ["a", "y"])
    np.save("x.npy", np.array([2, 0, -1], "float32"))
    replace("Log", lambda x: x.abs().log())
    assert refused("log.onnx", "--inputs", "x.npy") == (
        f"log.onnx: Log (output 'a'): devmod computes it wrongly: its output 'a' is 0.0 at [2], where that of {REFERENCE_PROGRAM} is nan\n"
    )
    wanted = np.array([1, np.inf], "float32")
    other = np.array([1, 7], "float32")
    module = devmod.const_loader({"x": other}, {})
    for label in ("webgpu:0", "metal:0"):
        (line,) = check.check_devices(module, "f", [(label, "", [[other]])], [[wanted]])
        assert line.startswith(f"checked on {label} against ")
    text = refusal(
        devmod.CompileError,
        check.check_devices,
        *(module, "f", [("opencl:0", "", [[other]])], [[wanted]]),
    )
    assert text == (
        "result 0 of 'f' on opencl:0 is 7.0 at [1], where that of tinygrad on the CPU is inf"
    )


#: Functions that are wrong for numbers which random ones never meet, and the errors of the check.
BORDERS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "NaN": (
        "Relu",
        lambda x: (x > 0).where(x, 0),
        r" for NaN and infinities: its output 'a' is 0\.0 at \[\d+\], where that of onnxruntime is nan",
    ),
    "an infinity": (
        "Atan",
        lambda x: (x / (1 + x * x).sqrt()).asin(),
        r" for NaN and infinities: its output 'a' is nan at \[\d+\], where that of onnxruntime is -?1\.57\d*",
    ),
    "a rounding": (
        "Round",
        lambda x: (x + 0.5).floor(),
        r" for numbers on a grid: its output 'a' differs by 1\.0e\+00 from that of onnxruntime, whose largest magnitude is 4: at most 4\.0e-04 is allowed",
    ),
    "a comparison": (
        "Sign",
        lambda x: (x >= 0).where(1.0, -1.0),
        r" for numbers on a grid: its output 'a' differs by 1\.0e\+00 from that of onnxruntime, whose largest magnitude is 1: at most 1\.0e-04 is allowed",
    ),
}


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize("case", BORDERS.values(), ids=BORDERS)
def test_what_is_wrong_at_borders_alone_is_found(
    case: tuple[str, Any, str], replace: Any, made: Any, refused: Any
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    operator, wrong, error = case
    replace(operator, wrong)
    write("m.onnx", f"a = {operator}(x) y = Neg(a)", {"x": (FLOAT, [40])}, ["y"])
    text = rf"m\.onnx: {operator} \(output 'a'\): devmod computes it wrongly{error}\n"
    assert re.fullmatch(text, refused("m.onnx"))
    np.save("x.npy", np.linspace(0.1, 4.1, 40, dtype="float32"))
    made("m.onnx", "--inputs", "x.npy")  # those that the user gives stay


@pytest.mark.row("R53")
@pytest.mark.parametrize(
    ("nodes", "change", "error"),
    [
        (
            "c = Greater(x, half) y = Cast<to = 1>(c)",
            ("0.5f<", "0.5f<="),
            "for numbers on a grid differs by 1.0e+00",
        ),
        (
            "y = Relu(x)",
            (r"\((val0\.\w)<0\.0f\)", r"(!(\1>=0.0f))"),
            "for NaN and infinities is 0.0 at ",
        ),
    ],
)
def test_a_kernel_that_is_wrong_at_borders_is_not_written(
    nodes: str, change: tuple[str, str], error: str, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_opencl()
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    own = devmod.compile

    def changed(text: str, *given: Any, **more: Any) -> Any:
        return own(re.sub(*change, text), *given, **more)

    monkeypatch.setattr(devmod, "compile", changed)
    write("m.onnx", nodes, {"x": (FLOAT, [40])}, ["y"], [stored(np.float32(0.5), "half")])
    assert f"m.onnx: result 0 of 'm' on opencl:0 {error}" in refused("m.onnx")


@pytest.mark.row("R53")
@pytest.mark.parametrize(
    "nodes",
    [
        "a = Clip(x) y = MaxPool<kernel_shape = [3]>(a)",
        "m = ReduceMax<axes = [2]>(x) y = Sub(x, m)",
        "c = Cast<to = 6>(x) y = Cast<to = 1>(c)",
        "e = Exp(x) l = Log(e) r = Round(l) y = Mul(r, x)",
        "s = Softmax(x) y = Erf(s)",
    ],
)
def test_what_is_right_at_borders_is_not_accused(
    nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("m.onnx", nodes, {"x": (FLOAT, [1, 2, 20])}, ["y"])
    words = ("onnx", "m.onnx", "-t", "opencl", "-t", "webgpu")
    assert call(capsys, *words)[0] == 0


@pytest.mark.row("R53")
@pytest.mark.parametrize("name", PAIRS)
def test_two_results_are_close_or_not(name: str) -> None:
    got, wanted, movement, is_close = PAIRS[name]
    if is_close:
        check.compare("y", got, wanted, "it", 0.01, movement)
    else:
        with pytest.raises(devmod.CompileError, match=r"^y (differs by|is) .*it"):
            check.compare("y", got, wanted, "it", 0.01, movement)


@pytest.mark.row("R53")
@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize("signed", [False, True])
def test_weights_of_eight_bits_on_any_processor(made: Any, signed: bool) -> None:
    """By itself, onnxruntime saturates sums of uint8 times int8 on processors with AVX2 and without
    VNNI. It has an exact form, but not of a convolution of int8.
    """
    kind = "int8" if signed else "uint8"
    weight = RANDOM.integers(-127, 128, (8, 16, 3, 3)).astype("int8")
    scale = stored(np.float32(0.02), "s")
    zero = stored(np.array(0 if signed else 128, kind), "z")
    nodes = "q = QuantizeLinear(x, s, z) d = QLinearConv(q, s, z, w, s, v, s, z) y = DequantizeLinear(d, s, z)"
    constants = [stored(weight, "w"), stored(np.int8(0), "v"), scale, zero]
    write("conv.onnx", nodes, {"x": (FLOAT, [1, 16, 9, 9])}, ["y"], constants)
    assert "checked on tinygrad:CPU against onnxruntime: worst error " in made("conv.onnx")


def plant(code: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the other processes run code before a package."""
    place = Path("planted", package)
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend("planted")


@pytest.fixture
def tracer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Returns the error of `devmod onnx` whose process runs some code and traces nothing."""

    def run(code: str) -> str:
        monkeypatch.setattr(_command, "Worker", Worker)
        plant(code, "tinygrad", monkeypatch)
        classifier()
        status, out, err = call(capsys, "onnx", "small.onnx", "-t", "opencl")
        assert (status, out) == (1, "")
        assert not Path("small.devmod").exists()
        return err

    return run


@pytest.mark.parametrize(
    ("code", "seconds", "end"),
    [
        ("import os; os.abort()", 600, "ends with signal 6"),
        ("import time; time.sleep(60)", 1, "has done nothing for 1 seconds"),
        ("import os; os._exit(3)", 600, "ends with exit status 3"),
    ],
)
def test_a_model_that_ends_or_hangs_the_tracer(
    code: str, seconds: int, end: str, monkeypatch: pytest.MonkeyPatch, tracer: Any
) -> None:
    monkeypatch.setattr(_command, "TIMEOUT", seconds)
    assert (
        tracer(code)
        == f"devmod: error: small.onnx: the process that traces the model {end}; nothing was written\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems limit no memory of a process")
def test_a_model_takes_at_most_the_memory_of_the_machine(tracer: Any) -> None:
    """Pages that nobody touches need no memory, so only a limit refuses the second array."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    code = f"import numpy; numpy.kept = [numpy.zeros({most * 6 // 10}, 'uint8') for _ in range(2)]"
    assert re.fullmatch(
        r"devmod: error: small\.onnx: .*MemoryError: Unable to allocate .*\n", tracer(code)
    )


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="Ctrl-C is a signal of POSIX")
def test_an_interrupt_ends_both_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo("pid")
    code = "import os, time; open('pid', 'w').write(f'{os.getpid()}\\n'); time.sleep(1000)"
    plant(code, "tinygrad", monkeypatch)
    classifier()
    words = [sys.executable, "-m", "devmod", "onnx", "small.onnx", "-t", "opencl"]
    environment = {**os.environ, "PYTHONPATH": os.path.abspath("planted")}
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
        pid = int(Path("pid").read_text())  # waits for it
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == "\ninterrupted: small.devmod was not written\n"
        assert process.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["--dim", "rows"],
            "--dim rows: expected a length, such as batch=1, rows=1..64, width=32..640:32 or x=1,3,48,192",
        ),
        (
            ["--dim", "rows=-1"],
            "--dim rows=-1: expected a length, such as batch=1, rows=1..64, width=32..640:32 or x=1,3,48,192",
        ),
        (
            ["--buckets", "n=4,8", "--buckets", "n=2,8"],
            "--buckets: expected a NAME= of its own for each, got 4,8 and 2,8",
        ),
        (
            ["--buckets", "n=4..8"],
            "--buckets n=4..8: expected the last length of each range, such as 32,128,512 or rows=32,128,512",
        ),
        (
            ["--name", "a b"],
            "the name of the program is 'a b', which is no identifier; choose another: --name NAME",
        ),
        (
            ["-o", "small.onnx"],
            "small.onnx is the model; writing to it would overwrite it. Name another file: --output",
        ),
        (
            ["--dim", "batch=1", "--dim", "batch=1..4"],
            "--dim: expected a NAME= of its own for each, got 1 and 1..4",
        ),
        (
            ["--inputs", "1.npy", "--inputs", "2.npy"],
            "--inputs: expected a NAME= of its own for each, got 1.npy and 2.npy",
        ),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], words: Any, error: str) -> None:
    classifier()
    status, out, err = call(capsys, "onnx", "small.onnx", "-t", "opencl", *words)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].removeprefix("devmod: error: ") == error


def test_a_device_that_cannot_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    """PoCL needs a linker."""
    if not any(each.name.startswith("pthread") for each in devmod.devices("opencl")):
        pytest.skip("PoCL is not here")
    monkeypatch.setenv("PATH", str(tmp_path))
    classifier(3, 8)
    out = made("small.onnx")
    assert re.search(
        r"^not checked on opencl:\d+: opencl device .* \(pthread-.*\) cannot run kernels: PoCL runs the system's linker",
        out,
        re.M,
    )
    assert Path("small.devmod").exists()


def test_a_file_that_is_missing(refused: Any) -> None:
    assert refused("none.onnx") == "none.onnx: No such file or directory\n"


# -- Half precision.


def types_of(path: str) -> dict[str, list[str]]:
    """The element types of a program's arrays, by their roles."""
    name = Path(path).stem
    part = next(each for each in walk(devmod.load(path)) if each.kind == "program")
    program = read_program(name, part.functions[name], part.code[name])
    roles = ("input", "constant", "temporary", "output")
    return {role: [array.type for array in program.arrays(role)] for role in roles}


@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize(
    ("words", "temporary"), [(["--half"], "float16"), (["--half", "weights"], "float32")]
)
def test_half_precision(words: list[str], temporary: str, made: Any) -> None:
    """Weights are float16, and with `--half` what layers give to each other. The input and the
    output are as they are.
    """
    nodes = "a = MatMul(x, w) b = Relu(a) y = MatMul(b, v)"
    weights = [constant("w", 8, 64), constant("v", 64, 3)]
    write("two.onnx", nodes, {"x": (FLOAT, [4, 8])}, ["y"], weights)
    out = made(*words, "two.onnx")
    assert "2 constants (1.4 kB)" in out
    assert types_of("two.devmod") == {
        "input": ["float32"],
        "constant": ["float16", "float16"],
        "temporary": [temporary],
        "output": ["float32"],
    }


@pytest.mark.usefixtures("_no_devices")
def test_what_half_precision_does_not_have_stays(made: Any) -> None:
    """Sums of squares, numbers beyond 65504 and a least number of 1e-12 are float32."""
    nodes = """
        a = MatMul(x, w)
        mean = ReduceMean <axes=[-1]> (a)
        d = Sub(a, mean)
        square = Mul(d, d)
        variance = ReduceMean <axes=[-1]> (square)
        sum = Add(variance, least)
        root = Sqrt(sum)
        normal = Div(d, root)
        y = Mul(normal, large)
    """
    constants = [
        stored(RANDOM.standard_normal((8, 16)).astype(np.float32), "w"),
        stored(np.float32(1e-12), "least"),
        stored(np.full(16, 1e6, np.float32), "large"),
    ]
    write("norm.onnx", nodes, {"x": (FLOAT, [4, 8])}, ["y"], constants)
    np.save("x.npy", np.full((4, 8), 1e-6, np.float32))  # whose squares float16 lacks
    made("norm.onnx", "--half", "--inputs", "x.npy")
    assert sorted(types_of("norm.devmod")["constant"]) == ["float16", "float32"]


@pytest.mark.usefixtures("_no_devices")
@pytest.mark.parametrize("number", [1e-8, 1e-7, 1e5])
def test_a_number_that_float16_lacks_is_added_in_float32(number: float, made: Any) -> None:
    """The check compares: a result is the reciprocal of the number where the sum is that alone."""
    nodes = "a = MatMul(x, w) b = Relu(a) c = Add(b, number) y = Reciprocal(c)"
    constants = [constant("w", 8, 16), stored(np.float32(number), "number")]
    write("sum.onnx", nodes, {"x": (FLOAT, [4, 8])}, ["y"], constants)
    made("sum.onnx", "--half")
    assert "float16" in types_of("sum.devmod")["constant"]


@pytest.mark.usefixtures("_no_devices")
def test_a_result_of_the_models_own_float16_has_this_type(made: Any) -> None:
    nodes = "a = MatMul(x, w) b = Relu(a) y = Cast<to=10>(b)"
    half = onnx.TensorProto.FLOAT16
    write("cast.onnx", nodes, {"x": (FLOAT, [4, 8])}, ["y"], [constant("w", 8, 16)], half)
    made("cast.onnx", "--half")
    assert types_of("cast.devmod")["output"] == ["float16"]


def test_a_device_without_float16_is_not_checked(made: Any) -> None:
    """The reason, which is that of a call, is one line here. It names the device if there are
    several.
    """
    if all("fp16" in each.features for each in devmod.devices("opencl")):
        pytest.skip("no OpenCL device without float16 is here")
    classifier(3, 8)
    out = made("--half", "small.onnx")
    assert re.search(
        r"^not checked on (opencl:\d+): the program 'small' cannot run (here|on opencl device .*\)): "
        r"1\. opencl: its kernel 'small_opencl_k0': needs fp16, which opencl device .* does not have$",
        out,
        re.M,
    )


# -- Models from the package index.

ROOT = Path(__file__).resolve().parent.parent
MODELS = {
    "magika": ("magika/models/standard_v3_3/model.onnx", (1, 2048)),
    "direction": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        (1, 3, 48, 192),
    ),
    "boxes": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", (1, 3, 160, 320)),
    "characters": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
}
#: Run by onnxruntime in a process of its own: MODEL INPUT OUTPUT.
REFERENCE = """
import sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = {session.get_inputs()[0].name: np.load(sys.argv[2])}
result = session.run(None, given)[0]
np.save(sys.argv[3], result)
"""


#: The Python for which the folder of the wheels has compiled modules.
TAG = str(sys.implementation.cache_tag)


def take_folder(own: Path, folder: Path) -> None:
    """Move a folder of wheels to its place, unless another process has done so for this Python. One
    for another Python goes: its compiled modules cannot be imported here.
    """
    done = folder / "done"
    if done.exists() and done.read_text() != TAG:
        folder.rename(own.with_name(f"{own.name}-old"))
    try:
        own.rename(folder)
    except OSError:  # it is there
        shutil.rmtree(own)
    shutil.rmtree(own.with_name(f"{own.name}-old"), ignore_errors=True)


def test_wheels_of_another_python_are_replaced_and_those_of_this_stay(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    for tag, made, expected in (
        (TAG, "first", "first"),
        (TAG, "second", "first"),
        ("cpython-30", "third", "third"),
    ):
        own = tmp_path / "own"
        own.mkdir()
        (own / "done").write_text(TAG)
        (own / made).touch()
        if folder.exists():
            (folder / "done").write_text(tag)
        take_folder(own, folder)
        assert {each.name for each in folder.iterdir()} == {"done", expected}
        assert {each.name for each in tmp_path.iterdir()} == {"models"}


@pytest.fixture(scope="module")
def wheels() -> Path:
    """The wheels with the models, and onnxruntime: in a folder that git ignores. Several processes
    of pytest may install them at the same time.
    """
    folder = ROOT / "build" / "onnx-models"
    done = folder / "done"
    if done.exists() and done.read_text() == TAG:
        return folder
    own = folder.with_name(f"onnx-models-{os.getpid()}")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--only-binary=:all:",
        "--target",
        str(own),
    ]
    run = subprocess.run(
        [*command, "magika", "rapidocr-onnxruntime", "ddddocr", "onnxruntime"],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        shutil.rmtree(own, ignore_errors=True)
        pytest.skip(
            f"the wheels with the models cannot be fetched: {run.stderr.strip().splitlines()[-1]}"
        )
    (own / "done").write_text(TAG)
    take_folder(own, folder)
    return folder


def picture(shape: tuple[int, ...]) -> Any:
    """A line of text as PaddleOCR's models get it; for magika, the bytes of this file."""
    if len(shape) == 2:
        data = np.frombuffer(Path(__file__).read_bytes(), np.uint8).astype(np.int32)
        return np.concatenate([data[:1024], data[-1024:]])[None]
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (shape[3], shape[2]), "white")
    ImageDraw.Draw(image).text((12, shape[2] // 2 - 14), "Hello 2468", fill="black", font_size=26)
    return ((np.asarray(image, np.float32) / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None].copy()


@pytest.mark.volume
@pytest.mark.filterwarnings(
    "ignore:Non-empty compiler output"
)  # of PoCL, about what it does not vectorize
@pytest.mark.parametrize("name", MODELS)
def test_models_of_others_give_what_onnxruntime_gives(
    name: str, wheels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, shape = MODELS[name]
    x = picture(shape)
    np.save("x.npy", x)
    words = [sys.executable, "-c", REFERENCE, str(wheels / path), "x.npy", "want.npy"]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": str(wheels)}, check=True)
    want = np.load("want.npy")
    status, out, err = call(
        capsys,
        "onnx",
        wheels / path,
        "-t",
        "opencl",
        "-t",
        "webgpu",
        "--inputs",
        "x.npy",
        "--name",
        name,
    )
    assert (status, [line for line in err.splitlines() if "note" not in line]) == (0, [])
    assert out.startswith(f"{name}: ")
    for device in devmod.devices("opencl", "webgpu"):
        result = devmod.load(f"{name}.devmod")[name].on(device)(x)
        np.testing.assert_allclose(
            result, want, rtol=0, atol=3e-4 * abs(want).max()
        )  # softmax of sharp logits
