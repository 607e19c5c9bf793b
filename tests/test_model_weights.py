"""`devmod onnx --weights`: other values for the constants of a file, without the compilers."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call

import devmod

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
FLOAT = onnx.TensorProto.FLOAT
pytestmark = [
    pytest.mark.row("R51"),
    pytest.mark.skipif(find_spec("tinygrad") is None, reason="tinygrad is not installed"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def weights(seed: int) -> dict[str, Any]:
    """What a training changes. Of `a.b` and `a_b`, the first has the other's name in a program."""
    random = np.random.default_rng(seed).standard_normal
    shapes = {"a.b": (32, 40), "a_b": (40,), "x.in_": (40,), "x_in": (40,), "right": (30, 40)}
    return {name: random(shape).astype(np.float32) for name, shape in shapes.items()}


#: What stands in kernels and in shapes, or is computed when the file is made. Kernels also use
#: `left` and `axes`, from which other constants and a shape come.
FIXED: dict[str, Any] = {
    "scale": np.array(0.125, np.float32),
    "axes": np.array([-1], np.int64),
    "left": np.arange(30, dtype=np.float32).reshape(1, 30),
    "unused": np.arange(5, dtype=np.float32),
    "empty": np.zeros((0, 2), np.float32),
    "divisor": np.arange(1, 41, dtype=np.int32),
}


NODES = """
    m = MatMul("x.in", "a.b")
    n = Mul(m, a_b)
    o = Mul(n, scale)
    soft = Softmax(left)
    folded = MatMul(soft, right)
    p = Add(o, folded)
    q = Add(p, x_in)
    r = Mul(q, "x.in_")
    j = Div(i, divisor)
    k = Cast <to=1> (j)
    s = Add(r, k)
    t = Add(s, offset)
    last = Cast <to=1> (axes)
    u = Add(t, last)
    y = Reshape(u, axes)
"""


def save_model(path: str, values: dict[str, Any]) -> None:
    offset = onnx.numpy_helper.from_array(values["offset"])
    nodes = [onnx.helper.make_node("Constant", [], ["offset"], value=offset)]
    nodes += onnx.parser.parse_graph(f"g () => () {{ {NODES} }}").node
    inputs = [
        onnx.helper.make_tensor_value_info("x.in", FLOAT, [1, 32]),
        onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT32, [40]),
    ]
    outputs = [onnx.helper.make_tensor_value_info("y", FLOAT, [40])]
    constants = [
        onnx.numpy_helper.from_array(each, name)
        for name, each in values.items()
        if name != "offset"
    ]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, constants)
    versions = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=versions), path)


def full(seed: int) -> dict[str, Any]:
    offset = np.random.default_rng(seed).standard_normal(40).astype(np.float32)
    return {**weights(seed), **FIXED, "offset": offset}


def expected(x: Any, i: Any, values: dict[str, Any]) -> Any:
    soft = np.exp(FIXED["left"] - 29) / np.exp(FIXED["left"] - 29).sum()
    y = (x @ values["a.b"]) * values["a_b"] * 0.125 + soft @ values["right"]
    y = (y + values["x_in"]) * values["x.in_"] + i // FIXED["divisor"] + values["offset"]
    return (y + FIXED["axes"]).reshape(-1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the model for two kinds, made once."""
    folder = tmp_path_factory.mktemp("made")
    save_model(str(folder / "m.onnx"), full(1))
    words = ["-t", "opencl", "-t", "webgpu", "--no-check", "-q", "-o", "m.devmod"]
    command = [sys.executable, "-m", "devmod", "onnx", "m.onnx", *words]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "m.devmod"


def check(path: str, values: dict[str, Any]) -> None:
    random = np.random.default_rng(7)
    x = random.standard_normal((1, 32)).astype(np.float32)
    i = random.integers(0, 900, 40).astype(np.int32)
    for device in devmod.devices("opencl", "webgpu"):
        result = devmod.load(path)["m"].on(device)(x, i)
        np.testing.assert_allclose(result, expected(x, i, values), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("form", ["onnx", "safetensors"])
def test_a_file_gets_the_weights_of_another(
    made: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    check(str(made), full(1))
    new = full(2)
    if form == "onnx":
        save_model("new.onnx", new)
    else:
        # What a framework saves: the trained arrays, without those of the exporter.
        safetensors.save_file({**weights(2), "offset": new["offset"]}, "new.safetensors")
    words = ("onnx", "--weights", f"new.{form}", str(made))
    status, out, err = call(capsys, *words)
    assert (status, err) == (0, "")
    about = f", with the constants of new.{form}; its results were not compared\n"
    assert out.startswith("new.devmod: ")
    assert out.endswith(about)
    check("new.devmod", new)
    first = Path("new.devmod").read_bytes()
    assert call(capsys, *words, "-q") == (0, "", "")
    assert Path("new.devmod").read_bytes() == first


def test_the_file_is_the_one_that_the_compilers_make(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model("m.onnx", full(3))
    call(capsys, "onnx", "--weights", "m.onnx", str(made), "-o", "replaced.devmod")
    words = ("-t", "opencl", "-t", "webgpu", "--no-check", "-o", "compiled.devmod")
    assert call(capsys, "onnx", "m.onnx", *words)[0] == 0
    assert Path("replaced.devmod").read_bytes() == Path("compiled.devmod").read_bytes()


@pytest.mark.parametrize("name", sorted(FIXED))
def test_a_value_that_is_folded_stays(
    made: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    values = full(1)
    values[name] = np.ones((1, 2), np.float32) if name == "empty" else values[name] * 2
    save_model("other.onnx", values)
    status, out, err = call(capsys, "onnx", "--weights", "other.onnx", str(made))
    assert (status, out) == (1, "")
    assert err == (
        f"devmod: error: other.onnx does not fit {made}: make the file from the model again, since kernels or computed constants "
        f"have another value of {name!r}\n"
    )
    assert not Path("other.devmod").exists()


def test_each_array_has_the_name_of_the_model_if_it_can(made: Path) -> None:
    """A constant `a.b` was a_b in the program, and `a_b` was a_b_2."""
    values = full(1)
    for module in devmod.backend.walk(devmod.load(made)):
        if module.kind == "const_loader":
            for own, name in {"a_b": "a_b", "a_b_2": "a.b", "x_in_": "x.in_"}.items():
                array = module.get_global(own).numpy()
                np.testing.assert_array_equal(array, values[name])


def test_inputs_have_their_own_names(capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        g (float[4] "x.1", float[4] x_1) => (float[4] y) { y = Sub("x.1", x_1) }
    """)
    onnx.save(model, "sub.onnx")
    status, out, _ = call(capsys, "onnx", "sub.onnx", "-t", "opencl", "--no-check")
    assert status == 0
    about = "input x_1_2: float32[4]; input x_1: float32[4]; output y: float32[4]; 'x.1' is x_1_2"
    assert about in out


def test_bfloat16_and_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from tinygrad import Tensor

    from devmod.interop import tinygrad

    with tinygrad.cpu():
        layer = Tensor(np.arange(4, dtype=np.float32)).cast("bfloat16").realize()
        cache = Tensor(np.arange(4, dtype=np.float32) + 1).realize()
        turned = Tensor(np.arange(4, dtype=np.float32).reshape(2, 2)).realize().T

        def f(x: Any) -> dict[str, Any]:
            cache.assign(cache + x).realize()
            return {"y": cache * layer.float() + turned.reshape(4)}

        module = tinygrad.export(f, Tensor.empty(4), targets="opencl", name="f")
    devmod.save(module, "f.devmod")
    values = {"layer": np.full(4, 2, ml_dtypes.bfloat16), "cache": np.ones(4, np.float32)}
    safetensors.save_file(values, "new.safetensors")
    assert call(capsys, "onnx", "--weights", "new.safetensors", "f.devmod", "-q") == (0, "", "")
    for device in devmod.devices("opencl")[:1]:
        function: Any = devmod.load("new.devmod")["f"].on(device)
        result = function(np.ones(4, np.float32), state=function.state())
        np.testing.assert_array_equal(result, np.array([4, 6, 5, 7], np.float32))
    # Its elements are in another order than those of a tensor of its name.
    with pytest.raises(devmod.ArgumentError, match="no constant has the name 'turned'"):
        devmod.replace_constants(module, {**values, "turned": np.zeros((2, 2), np.float32)})


HEADER = json.dumps({"a": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]}}).encode()


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.safetensors", b"no header", "a.safetensors: this is no file of safetensors: "),
        ("a.safetensors", b"", "a.safetensors: this is no file of safetensors: "),
        (
            "a.safetensors",
            len(HEADER).to_bytes(8, "little") + HEADER + b"ab",
            "a.safetensors: no constant has the element type 'F8_E8M0'\n",
        ),
        ("a.onnx", b"no model", "a.onnx: this is no model of ONNX, or it is damaged: "),
        ("a.npz", b"", "a.npz: expected a file .safetensors or .onnx\n"),
    ],
)
def test_files_that_are_no_weights(
    made: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, text: str
) -> None:
    Path(name).write_bytes(data)
    status, out, err = call(capsys, "onnx", "--weights", name, str(made), "-o", "new.devmod")
    assert (status, out) == (1, "")
    assert err.startswith(f"devmod: error: {text}")
    assert len(err.splitlines()) == 1
    assert not Path("new.devmod").exists()


def test_safetensors_is_advised_where_it_is_missing(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    Path("a.safetensors").touch()
    assert call(capsys, "onnx", "--weights", "a.safetensors", str(made)) == (
        1,
        "",
        "devmod: error: a.safetensors cannot be read: the package safetensors is not installed. To add it: "
        'pip install "devmod-targets[safetensors]"\n',
    )


EXCLUDED = "--weights gives a .devmod file other constants: it takes no --target, --name, --dim, --buckets, --constant, --state, --inputs, --tune and --half"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-t", "opencl"], EXCLUDED),
        (["--name", "n"], EXCLUDED),
        (["--dim", "n=1"], EXCLUDED),
        (["--buckets", "1,2"], EXCLUDED),
        (["--inputs", "x.npy"], EXCLUDED),
        (
            ["-o", "m.devmod"],
            "m.devmod is the model; writing to it would overwrite it. Name another file: --output",
        ),
        (
            ["-o", "a.onnx"],
            "a.onnx is the file of the weights; writing to it would overwrite it. Name another file: --output",
        ),
    ],
)
def test_options_that_weights_exclude(
    capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    Path("m.devmod").write_bytes(b"old")
    Path("a.onnx").write_bytes(b"old")
    status, out, err = call(capsys, "onnx", "--weights", "a.onnx", "m.devmod", *words)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == f"devmod: error: {text}"
    assert Path("m.devmod").read_bytes() == Path("a.onnx").read_bytes() == b"old"


def test_a_model_needs_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capsys, "onnx", "m.onnx")
    assert status == 2
    assert (
        err.splitlines()[-1]
        == "devmod: error: Missing option '-t' / '--target' or '--weights'. A target, such as opencl or \"cuda -arch=compute_80\", one for each kind."
    )
