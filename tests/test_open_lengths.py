"""Models of which a call chooses lengths give what onnxruntime gives, for each length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import check_each, raised, refusal

from devmod.errors import ArgumentError, CompileError
from devmod.interop import tinygrad as interop

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("tinygrad", reason="tinygrad is not installed")
import onnx
from onnx_models import check_close, expected, program

pytestmark = pytest.mark.row("R47")
RANDOM = np.random.default_rng(104)
#: The lengths of the calls: n is 2 to 9.
LENGTHS = (2, 3, 6, 9)
#: Lists of integers that nodes use by their names.
LISTS = {
    "v0": [0],
    "v1": [1],
    "v2": [2],
    "v3": [3],
    "v4": [4],
    "v5": [5],
    "v01": [0, 1],
    "places": [[0, 1, -1], [-2, 1, 0]],
    "rows": [[0], [-1], [1], [0]],
    "pairs": [[0, 3], [-1, 1], [1, -4]],
    "m1": [-1],
    "m2": [-2],
    "m3": [-3],
    "last": [2**63 - 1],
    "first": [-(2**63)],
}
#: Nodes that compute y from x, of float32[n, 4], and from a table of 9 rows.
CASES = {
    "a part that ends at a number or at the length": "y = Slice(x, v0, v5, v0)",
    "a part that begins at a number or at the length": "y = Slice(x, v1, v5, v0)",
    "the last ones, of which there may be fewer": "y = Slice(x, m2, last, v0)",
    "all but the last": "y = Slice(x, first, m1, v0)",
    "each second one": "y = Slice(x, v0, last, v0, v2)",
    "each third one from the second on": "y = Slice(x, v1, last, v0, v3)",
    "as many rows of a table": "s = Shape(x) n = Slice(s, v0, v1) y = Slice(table, v0, n, v0)",
    "the last row, by the length": "s = Shape(x) n = Slice(s, v0, v1) b = Sub(n, v1) y = Slice(x, b, n, v0)",
    "sums so far": "y = CumSum(x, i0)",
    "sums of those before": "y = CumSum<exclusive = 1>(x, i0)",
    "sums of all later": "y = CumSum<reverse = 1, exclusive = 1>(x, i0)",
    "a convolution": "t = Transpose(x) b = Unsqueeze(t, v0) y = Conv<pads = [1, 1]>(b, w3)",
    "one with steps": "t = Transpose(x) b = Unsqueeze(t, v0) y = Conv<pads = [1, 1], strides = [2]>(b, w3)",
    "one with gaps": "t = Transpose(x) b = Unsqueeze(t, v0) y = Conv<pads = [2, 3], strides = [3], dilations = [2]>(b, w3)",
    "a large step": "t = Transpose(x) b = Unsqueeze(t, v0) y = Conv<pads = [0, 1], strides = [5]>(b, w3)",
    "largest numbers of windows": "t = Transpose(x) b = Unsqueeze(t, v0) y = MaxPool<kernel_shape = [2], strides = [2]>(b)",
    "means of windows at the border": "t = Transpose(x) b = Unsqueeze(t, v0) y = AveragePool<kernel_shape = [3], pads = [1, 1], strides = [2]>(b)",
    "each second one of a fixed axis": "y = Slice(x, v0, last, v1, v2)",
    "each third one of it from behind": "y = Slice(x, m1, first, v1, m3)",
    "rows at places": "y = Gather(x, places)",
    "numbers at places": "b = Transpose(x) y = Gather<axis = 1>(b, places)",
    "elements at places": "y = GatherND(x, pairs)",
    "places of the largest": "p = ArgMax(x) y = Cast<to = 1>(p)",
    "last places of the least": "c = Clip(x, zero) p = ArgMin<select_last_index = 1, keepdims = 0>(c) y = Cast<to = 1>(p)",
    "sums at places": 'y = ScatterND<reduction = "add">(x, rows, w3r)',
    "windows of two axes": "b = Unsqueeze(x, v01) y = MaxPool<kernel_shape = [2, 3], strides = [2, 1], pads = [1, 0, 0, 1]>(b)",
}
#: Nodes that compute y from x, of float32[batch, 4, n].
BATCHES = {
    "steps and gaps": "y = Conv<pads = [2, 3], strides = [3], dilations = [2]>(x, w3)",
    "heads": "s = Shape(x) b = Slice(s, v0, v1) h = Concat<axis = 0>(b, v2, v2, m1) r = Reshape(x, h) t = Transpose<perm = [0, 3, 1, 2]>(r) f = Concat<axis = 0>(b, m1, v4) y = Reshape(t, f)",
    "halves of what a convolution gives": "c = Conv<strides = [2], pads = [1, 1]>(x, w3) t = Transpose<perm = [0, 2, 1]>(c) s = Shape(t) b = Slice(s, v0, v1) f = Concat<axis = 0>(b, m1, v1) y = Reshape(t, f)",
    "each element twice": 'y = Resize(x, "", twice)',
    "each element three times": 'y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, "", thrice)',
    "the nearest of corners": 'y = Resize<coordinate_transformation_mode = "align_corners", nearest_mode = "round_prefer_ceil">(x, "", twice)',
    "numbers between two": 'y = Resize<mode = "linear">(x, "", twice)',
    "half as many": 'y = Resize<mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel">(x, "", half)',
    "halves, each twice": 'h = MaxPool<kernel_shape = [2], strides = [2]>(x) y = Resize(h, "", twice)',
    "beside the input, cropped": 'h = MaxPool<kernel_shape = [2], strides = [2]>(x) u = Resize(h, "", twice) s = Shape(u) n = Slice(s, v2, v3) c = Slice(x, v0, n, v2) y = Concat<axis = 1>(c, u)',
    "a third of them, thrice": 'h = MaxPool<kernel_shape = [3], strides = [3]>(x) y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(h, "", thrice)',
    "seven of ten": 'y = Resize<mode = "linear", coordinate_transformation_mode = "asymmetric">(x, "", most)',
    "numbers of a polynomial": 'e = Unsqueeze(x, v2) r = Resize<mode = "cubic">(e, "", wide) y = Squeeze(r, v2)',
    "one without those outside": 'e = Unsqueeze(x, v2) r = Resize<mode = "cubic", exclude_outside = 1, cubic_coeff_a = -0.5>(e, "", wide) y = Squeeze(r, v2)',
    "as many as another length": 's = Shape(x) n = Slice(s, v2, v3) d = Mul(n, v2) m = Add(d, v1) b = Slice(s, v0, v1) f = Concat<axis = 0>(b, v4, m) y = Resize<mode = "linear">(x, "", "", f)',
    "a fixed number": 's = Shape(x) b = Slice(s, v0, v1) f = Concat<axis = 0>(b, v4, v5) y = Resize<mode = "linear">(x, "", "", f)',
    "a transposed convolution": "y = ConvTranspose<strides = [2]>(x, w4)",
    "one with gaps and more at the end": "y = ConvTranspose<strides = [3], dilations = [2], pads = [1, 2], output_padding = [1]>(x, w4)",
    "one with wider pads than its filter": "y = ConvTranspose<strides = [4], pads = [1, 2]>(x, w2)",
    "twice as many": 'y = ConvTranspose<strides = [2], auto_pad = "SAME_UPPER">(x, w4)',
    "with more padding at the start": 'y = ConvTranspose<strides = [2], auto_pad = "SAME_LOWER">(x, w4)',
    "a filter that is smaller than its step": 'y = ConvTranspose<strides = [5], auto_pad = "SAME_UPPER">(x, w2)',
    "one without padding": 'y = ConvTranspose<strides = [2], auto_pad = "VALID">(x, w4)',
    "windows that cover all": "y = MaxPool<kernel_shape = [2], strides = [2], ceil_mode = 1>(x)",
    "wide windows that cover all": "y = MaxPool<kernel_shape = [3], strides = [2], dilations = [2], pads = [2, 1], ceil_mode = 1>(x)",
    "windows that may begin behind the end": "y = MaxPool<kernel_shape = [2], strides = [3], pads = [0, 1], ceil_mode = 1>(x)",
    "means of windows that cover all": "y = AveragePool<kernel_shape = [3], strides = [2], pads = [1, 1], ceil_mode = 1>(x)",
    "means with the border": "y = AveragePool<kernel_shape = [3], strides = [2], pads = [1, 0], ceil_mode = 1, count_include_pad = 1>(x)",
    "twice SAME": 'c = Conv<auto_pad = "SAME_UPPER", strides = [2]>(x, w3) m = MaxPool<auto_pad = "SAME_LOWER", kernel_shape = [2], strides = [2]>(c) y = MaxPool<auto_pad = "SAME_UPPER", kernel_shape = [2]>(m)',
    "halves of SAME beside the input": 'c = Conv<auto_pad = "SAME_LOWER", strides = [2]>(x, w3) e = Slice(x, v0, v2, v1) h = Slice(e, v0, last, v2, v2) y = Add(c, h)',
    "an odd scale": 'y = Resize<mode = "linear">(x, "", odd)',
    "a scale that rounds": 'y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, "", fine)',
    "a scale that keeps short lengths": 'y = Resize<mode = "linear">(x, "", fifth)',
    "the nearest of short lengths": 'y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "ceil">(x, "", fifth)',
    "five of a transposed convolution": "y = ConvTranspose<strides = [3], output_shape = [5]>(x, w4)",
    "the upper five": 'y = ConvTranspose<strides = [2], output_shape = [5], auto_pad = "SAME_UPPER">(x, w4)',
    "frequencies": "t = Transpose<perm = [0, 2, 1]>(x) r = Slice(t, v0, v1, v2) y = DFT<axis = 1>(r)",
    "half of them": "t = Transpose<perm = [0, 2, 1]>(x) r = Slice(t, v0, v1, v2) y = DFT<axis = 1, onesided = 1>(r)",
    "numbers of frequencies": "t = Transpose<perm = [0, 2, 1]>(x) r = Slice(t, v0, v2, v2) y = DFT<axis = 1, inverse = 1>(r)",
    "frequencies of five": "t = Transpose<perm = [0, 2, 1]>(x) r = Slice(t, v0, v1, v2) y = DFT<axis = 1>(r, i5)",
    "a mask of the positions so far": "s = Shape(x) n = Slice(s, v2, v3) e = Squeeze(n, v0) r = Range(i0, e, i1) row = Unsqueeze(r, v0) column = Unsqueeze(r, v1) seen = LessOrEqual(row, column) t = Transpose<perm = [0, 2, 1]>(x) p = MatMul(t, x) y = Where(seen, p, low)",
}


def write(nodes: str, *shape: Any) -> None:
    """Write case.onnx."""
    parsed = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
    info = onnx.helper.make_tensor_value_info
    arrays = {name: np.array(each) for name, each in LISTS.items()}
    arrays |= {"i0": np.array(0), "i1": np.array(1), "low": np.array(-9, np.float32)}
    arrays["zero"] = np.array(0, np.float32)
    arrays["i5"] = np.array(5)
    arrays["wide"] = np.array([1, 1, 1, 2], np.float32)
    for name, scale in (
        ("twice", 2),
        ("thrice", 3),
        ("odd", 1.3456),
        ("fine", 2.4999998),
        ("fifth", 1.2),
        ("half", 0.5),
        ("most", 0.7),
    ):
        arrays[name] = np.array([1, 1, scale], np.float32)
    for name, sides in (
        ("table", (9, 4)),
        ("w3", (2, 4, 3)),
        ("w3r", (4, 4)),
        ("w4", (4, 2, 5)),
        ("w2", (4, 2, 2)),
    ):
        arrays[name] = RANDOM.standard_normal(sides).astype(np.float32)
    used = {name for node in parsed.node for name in node.input}
    constants = [
        onnx.numpy_helper.from_array(each, name) for name, each in arrays.items() if name in used
    ]
    inputs = [info("x", onnx.TensorProto.FLOAT, shape)]
    outputs = [info("y", onnx.TensorProto.FLOAT, None)]
    graph = onnx.helper.make_graph(parsed.node, "g", inputs, outputs, constants)
    opset = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)
    onnx.save(model, "case.onnx")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Render in this process: another one imports tinygrad first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interop, "_MANY", 1000)
    with interop.cpu():
        yield


def test_nodes_along_a_length_that_a_call_chooses() -> None:
    device = first_device("opencl")

    def check(name: str) -> None:
        write(CASES[name], "n", 4)
        f = program("opencl", n=(min(LENGTHS), max(LENGTHS))).on(device)
        for length in LENGTHS:
            x = RANDOM.standard_normal((length, 4)).astype(np.float32)
            (wanted,) = expected({"x": x})
            if wanted.size:  # no array of a program is empty
                check_close(f(x), [wanted])

    check_each(CASES, check)


def test_nodes_with_two_lengths_that_a_call_chooses() -> None:
    device = first_device("opencl")

    def check(name: str) -> None:
        write(BATCHES[name], "batch", 4, "n")
        f = program("opencl", batch=(1, 3), n=(3, 9)).on(device)
        for batch, length in ((1, 3), (3, 9), (2, 6), (1, 5)):
            x = RANDOM.standard_normal((batch, 4, length)).astype(np.float32)
            check_close(f(x), expected({"x": x}))

    check_each(BATCHES, check)


#: Windows with auto_pad: an operator, its inputs, the size and the gaps of a window, and more.
WINDOWS = (
    ("Conv", "x, w3", 3, 1, ""),
    ("Conv", "x, w3", 3, 3, ""),
    ("MaxPool", "x", 3, 1, ""),
    ("MaxPool", "x", 2, 2, ", ceil_mode = 1"),
    ("AveragePool", "x", 4, 1, ""),
    ("AveragePool", "x", 3, 1, ", count_include_pad = 1"),
    ("LpPool", "x", 3, 2, ", p = 1"),
)


def test_windows_that_auto_pad_pads() -> None:
    """Of onnxruntime with the pads by ONNX's formula, since its own auto_pad has no gaps and no
    steps that are wider than a window.
    """
    device = first_device("opencl")
    cases = {}
    for window in WINDOWS:
        for step, mode in ((2, "SAME_UPPER"), (3, "SAME_LOWER"), (5, "SAME_UPPER")):
            cases[f"{window} {step} {mode}"] = (*window, step, mode)
    cases["no steps"] = (*WINDOWS[0], 1, "SAME_LOWER")

    def check(name: str) -> None:
        operator, inputs, size, gap, more, step, mode = cases[name]
        rest = f"kernel_shape = [{size}], strides = [{step}]{more}"
        if gap > 1:
            rest += f", dilations = [{gap}]"
        state = RANDOM.bit_generator.state
        write(f'y = {operator}<auto_pad = "{mode}", {rest}>({inputs})', "batch", 4, "n")
        f = program("opencl", batch=(1, 3), n=(3, 9)).on(device)
        for batch, length in ((1, 3), (3, 9), (2, 6), (1, 5)):
            x = RANDOM.standard_normal((batch, 4, length)).astype(np.float32)
            least = (-(-length // step) - 1) * step + (size - 1) * gap + 1
            pads = max(0, least - length)
            first, last = pads // 2, pads - pads // 2
            if mode == "SAME_LOWER":
                first, last = last, first
            own = rest.replace(", ceil_mode = 1", "")
            with pytest.MonkeyPatch.context() as patch:
                own_random = np.random.default_rng(0)
                own_random.bit_generator.state = state  # the same filter
                patch.setattr(f"{__name__}.RANDOM", own_random)
                write(
                    f"y = {operator}<pads = [{first}, {last}], {own}>({inputs})", batch, 4, length
                )
            check_close(f(x), expected({"x": x}))

    check_each(cases, check)


#: Nodes that compute y from x, of float32[batch, 4, n], where n is a multiple of 4.
MULTIPLES = {
    "halves of halves are quarters": "h = MaxPool<kernel_shape = [2], strides = [2]>(x) q = MaxPool<kernel_shape = [2], strides = [2]>(h) e = Slice(x, v0, last, v2, v4) y = Add(q, e)",
    "parts": "s = Shape(x) b = Slice(s, v0, v2) h = Concat<axis = 0>(b, m1, v4) r = Reshape(x, h) y = ReduceMax<keepdims = 0>(r, m1)",
    "a convolution with steps": "y = Conv<pads = [1, 1], strides = [2]>(x, w3)",
}


def test_lengths_that_are_multiples() -> None:
    device = first_device("opencl")

    def check(name: str) -> None:
        write(MULTIPLES[name], "batch", 4, "n")
        f = program("opencl", batch=(1, 3), n=(4, 16, 4)).on(device)
        for batch, length in ((1, 4), (3, 16), (2, 12)):
            x = RANDOM.standard_normal((batch, 4, length)).astype(np.float32)
            check_close(f(x), expected({"x": x}))
        text = refusal(ArgumentError, f, np.zeros((1, 4, 6), np.float32))
        assert "n % 4 == 0" in text

    check_each(MULTIPLES, check)


def test_multiples_that_do_not_fit() -> None:
    write(MULTIPLES["parts"], "batch", 4, "n")
    assert refusal(ArgumentError, program, "opencl", batch=1, n=(4, 15, 4)) == (
        "case.onnx: the input 'x', axis 2: its lengths are multiples of 4, and 4 to 15 is given: expected two of them"
    )


#: A model that repeats each row of a text, as one of speech does: how often depends on data.
SPEECH = """
    <ir_version: 10, opset_import: ["": 18]>
    speech (float[rows, 4] text, float noisy) => (float[frames, 3] sound)
    <float[4, 3] w = {1, 2, -1, 0, 3, -2, 4, 1, 0, -3, 2, 5}, int64 zero = {0}, int64 one = {1},
     int64[1] last = {-1}, int64[1] axis = {0}>
    {
        sums = ReduceSum <keepdims = 0> (text, last)
        long = Abs(sums)
        rounded = Ceil(long)
        counts = Cast <to = 7> (rounded)
        ends = CumSum(counts, zero)
        states = MatMul(text, w)
        count = ReduceSum <keepdims = 0> (counts)
        frames = Range(zero, count, one)
        column = Unsqueeze(frames, last)
        row = Unsqueeze(ends, axis)
        is_behind = GreaterOrEqual(column, row)
        numbers = Cast <to = 7> (is_behind)
        places = ReduceSum <keepdims = 0> (numbers, last)
        repeated = Gather(states, places)
        noise = RandomNormalLike(repeated)
        scaled = Mul(noise, noisy)
        sound = Add(repeated, scaled)
    }
"""


def test_a_length_that_depends_on_data_is_read_between_two_programs() -> None:
    """Both errors name the way. The parts compute what the whole does."""
    device = first_device("opencl")
    model = onnx.parser.parse_model(SPEECH)
    onnx.save(model, "case.onnx")
    text = refusal(CompileError, program, "opencl", rows=(2, 9))
    assert text == (
        "RandomNormalLike (output 'noise'): it draws random numbers, which no program has. Give them as an input: "
        'onnx.utils.extract_model(FILE, "cut.onnx", ["text", "noisy", "noise"], ["sound"]) cuts the model there'
    )
    onnx.save(model, "whole.onnx")
    inputs = ["text", "noisy", "noise"]
    onnx.utils.extract_model("whole.onnx", "case.onnx", inputs, ["sound"])
    text = refusal(CompileError, program, "opencl", rows=(2, 9), noise=[(1, 90), 3])
    assert text.startswith("Range (output 'frames'): a shape or an option depends on the data")
    onnx.utils.extract_model("whole.onnx", "case.onnx", ["text"], ["ends", "states"])
    first = program("opencl", rows=(2, 9)).on(device)
    inputs = ["ends", "states", "frames", "noisy", "noise"]
    onnx.utils.extract_model("whole.onnx", "case.onnx", inputs, ["sound"])
    frames: dict[str, Any] = {"frames": [(1, 90)], "noise": [(1, 90), 3]}
    second = program("opencl", rows=(2, 9), **frames).on(device)
    for length in (2, 7, 9):
        rows = RANDOM.standard_normal((length, 4)).astype(np.float32)
        ends, states = map(np.asarray, first(rows))
        count = int(ends[-1])
        noise = RANDOM.standard_normal((count, 3)).astype(np.float32)
        got = second(ends, states, np.arange(count), np.array(0.5, np.float32), noise)
        weights = onnx.numpy_helper.to_array(model.graph.initializer[0])
        times = np.ceil(abs(rows.sum(1))).astype(int)
        check_close(got, [np.repeat(rows @ weights, times, 0) + 0.5 * noise])


def test_what_stays_refused_along_a_length() -> None:
    """In words, with a next step that the command and Python's doors write in their own way."""
    for nodes, text in (
        (
            "y = ConvTranspose<strides = [2], output_shape = [10]>(x, w4)",
            "ConvTranspose (output 'y'): its output_shape has 10, and the least length that a call chooses gives 9; a fixed length may do",
        ),
        (
            "t = Transpose<perm = [0, 2, 1]>(x) r = Slice(t, v0, v2, v2) y = DFT<axis = 1, inverse = 1, onesided = 1>(r)",
            "DFT (output 'y'): it is inverse and one-sided along a length that each call chooses; a fixed length may do",
        ),
        (
            "r = Slice(x, v3, last, v2) y = MaxPool<kernel_shape = [2], strides = [2]>(r)",
            "MaxPool (output 'y'): a window of 2 elements may be wider than a length that is computed from those of a call; a fixed length may do",
        ),
        (
            'h = MaxPool<kernel_shape = [2], strides = [2]>(x) u = Resize(h, "", twice) y = Concat<axis = 1>(x, u)',
            "Concat (output 'y'): its inputs 0 and 1 have the lengths n and ((n // 2) * 2) along axis 2: expected the same for each call. Crop or pad one to the Shape of the other, or choose multiples; a fixed length may do",
        ),
    ):
        write(nodes, "batch", 4, "n")
        error = raised(CompileError, lambda: program("opencl", batch=(1, 3), n=(3, 9)))
        assert (str(error), error.argument) == (text, "length")
    write('y = Resize(x, "", half)', "batch", 4, "n")
    assert refusal(CompileError, program, "opencl", batch=(1, 3), n=(1, 9)) == (
        "Resize (output 'y'): its scale 0.5 gives no element for 1, the least length that a call chooses"
    )
    write('y = Resize(x, "", odd)', "batch", 4, "n")
    error = raised(CompileError, lambda: program("opencl", batch=(1, 3), n=(3, 1 << 20)))
    assert (str(error), error.argument) == (
        "Resize (output 'y'): its scale 1.3456 gives lengths up to 1410963 that no fraction of small numbers gives; a fixed length may do",
        "length",
    )
