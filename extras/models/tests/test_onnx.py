"""Models of ONNX: lengths, constants in every form, external data, and files that no program can be
made of.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import check_texts, raised, refusal

import devmod
from devmod import ArgumentError, CompileError, FormatError
from devmod_models.onnx import Range, read_model

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
FLOAT = onnx.TensorProto.FLOAT
node, value_info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def model_of(
    *nodes: Any, constants: Any = (), inputs: Any = None, outputs: Any = ("y",), **more: Any
) -> Any:
    """A model, by default of the node y = Relu(x)."""
    inputs = {"x": [1, 2]} if inputs is None else inputs
    values = [
        value_info(name, FLOAT, shape) if shape is None or isinstance(shape, list) else shape
        for name, shape in inputs.items()
    ]
    results = [value_info(name, FLOAT, None) for name in outputs]
    graph = onnx.helper.make_graph(
        list(nodes) or [node("Relu", ["x"], ["y"])], "g", values, results, list(constants)
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], **more)


def external(location: str, **entries: Any) -> Any:
    """The initializer w of `VALUES` in another file."""
    tensor = onnx.TensorProto(
        name="w", data_type=FLOAT, dims=VALUES.shape, data_location=onnx.TensorProto.EXTERNAL
    )
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def read(folder: Path, model: Any, **dims: Any) -> Any:
    path = folder / "m.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return read_model(path, dims)


@pytest.mark.row("R47")
@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        (["batch", 3, "rows"], {"batch": 2, "rows": (1, 64)}, (2, 3, Range("rows", 1, 64))),
        (["batch", 3], {}, (1, 3)),
        ([-1, 0, 3], {"x.1": 5}, (1, 5, 3)),
        (["?", "?"], {"x.0": 4, "x.1": (2, 9)}, (4, Range("x.1", 2, 9))),
        (["n", "n"], {"n": 7}, (7, 7)),
        ([None, 3, "w"], {"x": [2, 3, (1, 8)]}, (2, 3, Range("w", 1, 8))),
        (["rows", 3], {"": [5, 3], "rows": (1, 9)}, (Range("rows", 1, 9), 3)),
        ([2, "x"], {"x": (1, 9)}, (2, Range("x", 1, 9))),
        ([2, "x"], {"x": 5}, (2, 5)),
        ([2, "x"], {"x": [2, (3, 4)]}, (2, Range("x", 3, 4))),
        (None, {"x": [2, 3]}, (2, 3)),
        ([], {}, ()),
    ],
)
def test_lengths(tmp_path: Path, shape: Any, dims: Any, expected: Any) -> None:
    assert read(tmp_path, model_of(inputs={"x": shape}), **dims).inputs == {
        "x": ("float32", expected)
    }


def test_a_first_length_that_is_chosen_is_in_the_notes(tmp_path: Path) -> None:
    note = "the input 'x' leaves its first length open, which is 1 here; for another: --dim x.0=N; for one that each call chooses: --dim x.0=1..N"
    assert read(tmp_path, model_of(inputs={"x": ["?", 3]})).notes == (note,)


def test_optional_inputs_are_always_given(tmp_path: Path) -> None:
    tensor = onnx.helper.make_tensor_type_proto(FLOAT, [2])
    optional = onnx.helper.make_optional_type_proto(tensor)
    inputs = {"x": [2], "o": onnx.helper.make_value_info("o", optional)}
    nodes = [
        node("OptionalHasElement", ["o"], ["h"]),
        node("OptionalGetElement", ["o"], ["y"]),
        node("ReverseSequence", ["x", "x"], ["z"]),
    ]
    model = read(tmp_path, model_of(*nodes, inputs=inputs))
    assert model.inputs == {"x": ("float32", (2,)), "o": ("float32", (2,))}
    assert [each.operator for each in model.nodes] == [each.op_type for each in nodes]
    assert model.notes == ("the input 'o' is optional, and each call gives it",)


def test_inputs_without_elements_are_constants(tmp_path: Path) -> None:
    model = read(tmp_path, model_of(inputs={"x": [1, 2], "e": [3, "n"]}), n=0)
    assert list(model.inputs) == ["x"]
    assert (model.constants["e"].dtype, model.constants["e"].shape) == ("float32", (3, 0))
    assert model.notes == ("the input 'e' has no elements, and no call gives it",)


def test_the_lengths_that_nobody_chose(tmp_path: Path) -> None:
    inputs = {"x": ["batch", 2], "y": ["?", 2], "z": ["rows", 2], "w": [4, 2]}
    model = read(
        tmp_path, model_of(node("Relu", ["x"], ["v"]), inputs=inputs, outputs=["v"]), rows=3
    )
    assert model.chosen == ("batch", "y.0")


def test_the_oldest_and_later_versions_of_the_operators(tmp_path: Path) -> None:
    old, new = model_of(node("Relu", ["x"], ["y"], consumed_inputs=[0])), model_of()
    old.opset_import[0].version, new.opset_import[0].version = 1, 999
    assert [each.attributes for each in read(tmp_path, old).nodes] == [{}]
    newest = onnx.defs.onnx_opset_version()
    note = f"its operators are of version 999, and the package onnx knows {newest}: newer rules are not followed"
    assert read(tmp_path, new).notes == (note,)


@pytest.mark.parametrize(
    ("shape", "dims", "error"),
    [
        (
            ["b", "?", "h", "?"],
            {"b": 1},
            "the model leaves lengths open, so choose them: --dim x.1=N --dim h=N --dim x.3=N. A range such as 1..512 in the place of N is a length that each call chooses",
        ),
        (
            None,
            {},
            "the model leaves lengths open, so choose them: --dim x=N,N,…. A range such as 1..512 in the place of N is a length that each call chooses",
        ),
        ([1, 3], {"x": [1, 4]}, "the input 'x', axis 1: expected 3, got 4"),
        ([1, 3], {"x.1": (1, 4)}, "the input 'x', axis 1: expected 3, got 1 to 4"),
        ([1, 3], {"x": 4}, "the input 'x' has 2 dimensions, and its lengths are [4]"),
        (
            ["rows"],
            {"row": 4},
            "no input and no length of one has the name 'row'. Did you mean 'rows'? The inputs: 'x'; their lengths: 'rows'",
        ),
        (
            ["n"],
            {"n": (5, 4)},
            "the input 'x', axis 0: expected a length of 1 or more, or a range of them, got 5 to 4",
        ),
        (
            ["n"],
            {"n": 1 << 31},
            "the input 'x', axis 0: expected a length of at most 2147483647, got 2147483648",
        ),
    ],
)
def test_lengths_that_are_missing_or_wrong(
    tmp_path: Path, shape: Any, dims: Any, error: str
) -> None:
    refused = raised(ArgumentError, lambda: read(tmp_path, model_of(inputs={"x": shape}), **dims))
    assert (str(refused), refused.argument) == (f"{tmp_path / 'm.onnx'}: {error}", "dims")


@pytest.mark.row("R47")
def test_constants_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(8) + VALUES.tobytes())
    os.symlink("data", tmp_path / "link")
    tensor = onnx.helper.make_tensor
    constants = [
        external("link/w.bin", offset=8, length=24),
        tensor("typed", FLOAT, [2, 3], VALUES.ravel()),
        tensor("half", onnx.TensorProto.FLOAT16, [2], [0.5, -2.0]),
        tensor("brain", onnx.TensorProto.BFLOAT16, [1], b"\x80\x3f", raw=True),
        tensor("flag", onnx.TensorProto.BOOL, [2], b"\x02\x00", raw=True),
        onnx.TensorProto(name="empty", data_type=FLOAT, dims=[0, 3], raw_data=bytes(12)),
        tensor("number", onnx.TensorProto.INT64, [], [7]),
    ]
    inside = node("Constant", [], ["inside"], value=constants[1])
    model = read(
        tmp_path,
        model_of(
            inside,
            node("Relu", ["x"], ["y"]),
            constants=constants,
            inputs={"x": [1, 2], "typed": [2, 3]},
        ),
    )
    values = {name: (each.dtype.name, each.tolist()) for name, each in model.constants.items()}
    matrix = ("float32", VALUES.tolist())
    assert values == {
        "w": matrix,
        "typed": matrix,
        "inside": matrix,
        "half": ("float16", [0.5, -2.0]),
        "brain": ("bfloat16", [1.0]),
        "flag": ("bool", [True, False]),
        "empty": ("float32", []),
        "number": ("int64", 7),
    }
    assert (list(model.inputs), [each.operator for each in model.nodes]) == (["x"], ["Relu"])


OUTSIDE = "is not below the model's folder; copy it there"


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (external("../secret"), f"its external data is in '../secret', which {OUTSIDE}"),
        (external("link"), f"its external data is in 'link', which {OUTSIDE}"),
        (
            external("folder/../../secret"),
            f"its external data is in 'folder/../../secret', which {OUTSIDE}",
        ),
        (
            external("../m-secret/w.bin"),
            f"its external data is in '../m-secret/w.bin', which {OUTSIDE}",
        ),
        (external("/etc/passwd"), f"its external data is in '/etc/passwd', which {OUTSIDE}"),
        (
            external(""),
            "its external data is not described by a location, an offset and a length: {'location': ''}",
        ),
        (
            external("w.bin", offset=-8),
            "its external data is not described by a location, an offset and a length: {'location': 'w.bin', 'offset': '-8'}",
        ),
        (
            external("w.bin", offset=9),
            "'w.bin' has 32 bytes, and constants of more are said to be in it",
        ),
        (
            external("w.bin", length=1 << 40),
            "it has 24 bytes, and its external data has 1099511627776",
        ),
        (
            external("none.bin"),
            "its external data in 'none.bin' cannot be read: No such file or directory",
        ),
        (external("folder"), "its external data in 'folder' cannot be read: Is a directory"),
        (
            external("a\0b"),
            "its external data is not described by a location, an offset and a length: {'location': 'a\\x00b'}",
        ),
        (
            onnx.TensorProto(name="w", data_type=FLOAT, dims=[2, 3], raw_data=bytes(20)),
            "cannot reshape array of size 5 into shape (2,3)",
        ),
        (
            onnx.TensorProto(name="w", data_type=FLOAT, dims=[2, 3], float_data=[1]),
            "cannot reshape array of size 1 into shape (2,3)",
        ),
        (
            onnx.TensorProto(name="w", data_type=FLOAT, dims=[-2, -3], raw_data=bytes(24)),
            "a length is negative",
        ),
    ],
)
def test_data_that_is_elsewhere_or_not_there(tmp_path: Path, tensor: Any, error: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    (tmp_path / "m-secret").mkdir()
    (tmp_path / "m-secret" / "w.bin").write_bytes(bytes(64))
    folder = tmp_path / "m"
    (folder / "folder").mkdir(parents=True)
    (folder / "w.bin").write_bytes(bytes(32))
    os.symlink("../secret", folder / "link")
    assert refusal(FormatError, read, folder, model_of(constants=[tensor])) == (
        f"{folder / 'm.onnx'}: the initializer 'w', float32{list(tensor.dims)}: {error}"
    )


def test_constants_take_no_more_than_their_file_has(tmp_path: Path) -> None:
    """Those with the same bytes share them."""
    (tmp_path / "w.bin").write_bytes(bytes(8) + VALUES.tobytes())
    tensors = [external("w.bin", offset=offset) for offset in (0, 8)]
    for number, each in enumerate(tensors):
        each.name = f"w{number}"
    constants = read(tmp_path, model_of(constants=tensors)).constants
    assert np.array_equal(constants["w1"], VALUES)
    assert np.shares_memory(constants["w0"][0, 2:], constants["w1"][0, :1])


RESULT = [onnx.helper.make_tensor_value_info("z", FLOAT, None)]
BRANCH = onnx.helper.make_graph([node("Relu", ["x"], ["z"])], "t", [], RESULT)


def deep(depth: int) -> Any:
    """A branch with branches in it."""
    branch = BRANCH
    for _ in range(depth):
        inner = node("If", ["x"], ["y"], then_branch=branch, else_branch=BRANCH)
        result = [onnx.helper.make_tensor_value_info("y", FLOAT, None)]
        branch = onnx.helper.make_graph([inner], "t", [], result)
    return branch


def test_the_values_of_graphs_in_nodes_have_names_of_their_own(tmp_path: Path) -> None:
    model = model_of(node("If", ["x"], ["y"], then_branch=BRANCH, else_branch=BRANCH))
    (found,) = read(tmp_path, model).nodes
    then, other = found.attributes["then_branch"], found.attributes["else_branch"]
    assert {then.outputs, other.outputs} == {("z",), ("z_2",)}
    assert [each.outputs for each in other.nodes] == [other.outputs]
    assert found.uses == {"x", "z", "z_2"}


def test_what_no_program_has(tmp_path: Path) -> None:
    check_texts(
        {
            "Relu (output 'y'): the attribute 'body' is control flow": model_of(
                node("Relu", ["x"], ["y"], body=BRANCH)
            ),
            "If (output 'y'): graphs are nested more than 8 deep": model_of(
                node("If", ["x"], ["y"], then_branch=deep(8), else_branch=BRANCH)
            ),
            "SplitToSequence (output 'y'): no program has sequences, optional values or strings": model_of(
                node("SplitToSequence", ["x"], ["y"])
            ),
            "the initializer 'w' has ONNX's element type string, which no program has; the types are float32, uint8, int8, uint16, int16, int32, int64, bool, float16, float64, uint32, uint64, bfloat16": model_of(
                constants=[onnx.helper.make_tensor("w", 8, [1], [b"a"])]
            ),
            "the input 'x' is no tensor; no program has sequences, optional values or maps": model_of(
                inputs={"x": onnx.helper.make_tensor_sequence_value_info("x", FLOAT, [1])}
            ),
            "Relu (output 'y') is a function of the model; write the model with onnx.inliner.inline_local_functions first": model_of(
                functions=[onnx.helper.make_function("", "Relu", ["x"], ["y"], [], [])]
            ),
        },
        lambda model: refusal(CompileError, read, tmp_path, model),
        start=f"{tmp_path / 'm.onnx'}: ",
    )


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (model_of().SerializeToString()[:-3], "this is no model of ONNX, or it is damaged: "),
        (b"", "the graph has no output"),
        (
            model_of(node("Relu", ["z"], ["y"])),
            "Relu (output 'y'): no input, initializer or earlier node has the name of its input 'z'",
        ),
        (
            model_of(node("Relu", ["x"], ["x"])),
            "Relu (output 'x'): another value has the name of its output 'x'",
        ),
        (
            model_of(constants=[onnx.numpy_helper.from_array(VALUES, "w")] * 2),
            "2 of the initializers have the name 'w'",
        ),
        (
            model_of(node("If", ["x"], ["y"], then_branch=BRANCH)),
            "If (output 'y'): expected the graph 'else_branch' with 0 inputs and 1 outputs",
        ),
        (
            model_of(node("Loop", ["", "", "x"], ["y"], body=BRANCH)),
            "Loop (output 'y'): expected the graph 'body' with 3 inputs and 2 outputs",
        ),
        (
            model_of(node("Scan", ["x"], ["y"], body=BRANCH, num_scan_inputs=2)),
            "Scan (output 'y'): expected the graph 'body' with 1 inputs and 1 outputs",
        ),
        (model_of(outputs=["z"]), "no node has the output 'z' of the graph"),
        (
            model_of(node("Relu", ["x"], ["y"], domain="a.b")),
            "Relu (output 'y'): the model imports no version of the operators of a.b",
        ),
        (
            model_of(node("Relu", ["x"], ["y"], text=b"\xff")),
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_damaged_files(tmp_path: Path, model: Any, error: str) -> None:
    message = refusal(FormatError, read, tmp_path, model)
    text = f"{tmp_path / 'm.onnx'}: {error}"
    assert message[: len(text)] == text


def test_a_graph_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmod_models.onnx.MAX_NODES", 2)
    with pytest.raises(FormatError, match=r"m\.onnx: the graph has 3 nodes, more than 2$"):
        read(tmp_path, model_of(*[node("Relu", ["x"], [name]) for name in "yzw"]))
    monkeypatch.setattr("devmod_models.onnx.MAX_BYTES", 10)
    with pytest.raises(
        FormatError,
        match=r"m\.onnx: the file has \d+ bytes, more than 10; store its constants as external data$",
    ):
        read(tmp_path, model_of())


def test_the_package_onnx_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    text = refusal(devmod.ToolchainNotFoundError, read_model, tmp_path / "m.onnx", {})
    advice = 'the package onnx is not installed. To add it: pip install "devmod-core[onnx]"'
    assert text == f"files of ONNX cannot be read here: {advice}"
