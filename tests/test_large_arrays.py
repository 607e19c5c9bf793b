"""Arrays that are larger than WebGPU binds are in parts, in programs of tinygrad and ONNX. A small
limit stands for 128 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from browser_driver import Browser
from browser_programs import BrowserDevice
from command_line import call
from each_case import refusal, some
from tinygrad_cases import checked, results

import devmod
from devmod import ArgumentError
from devmod.backend import walk
from devmod.interop import tinygrad as interop
from devmod_readers.programs import read_program

pytest.importorskip("tinygrad", reason="tinygrad is not installed")
pytestmark = [pytest.mark.row("R47"), pytest.mark.usefixtures("renders_here")]
BOTH = ["opencl", "webgpu"]
RANDOM = np.random.default_rng(7)
TABLE = RANDOM.standard_normal((1000, 64)).astype("float32")
#: The first and the last rows of three parts.
TOKENS = np.array([0, 383, 384, 767, 768, 999], "int32")


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Give WebGPU another limit of bytes."""
    return lambda most: monkeypatch.setitem(interop._MOST_BYTES, "webgpu", most)


def tensor(array: Any) -> Any:
    from tinygrad import Tensor

    return Tensor(array).realize()


class Tied:
    """A table whose rows are read, and with which they are multiplied."""

    def __init__(self, table: Any) -> None:
        self.table = tensor(table)

    def __call__(self, tokens: Any) -> dict[str, Any]:
        x = self.table[tokens]
        return {"x": x, "scores": x @ self.table.T}


def export(function: Any, *inputs: Any, targets: Any = BOTH, **options: Any) -> devmod.Module:
    module = interop.export(function, *inputs, targets=targets, name="f", **options)
    return devmod.loads(devmod.dumps(module))


def shapes(module: devmod.Module, role: str) -> dict[str, list[int]]:
    """The shapes of a program's arrays, which all kinds have."""
    found = []
    part: Any
    for part in walk(module):
        if part.kind == "program":
            program = read_program("f", part.functions["f"], part.code["f"])
            sides = {each.name: [int(str(s)) for s in each.shape] for each in program.arrays(role)}
            found.append(sides)
    assert all(each == found[0] for each in some(found))
    return found[0]


def parameters(module: devmod.Module) -> list[int]:
    """The numbers of parameters of WebGPU's kernels."""
    found = [info.interface for name, info in module.functions.items() if "_webgpu_k" in name]
    return sorted(len(each.params) for each in found if each)


@pytest.mark.row("R37")
def test_a_table_is_in_parts_by_rows(limit: Callable[[int], None]) -> None:
    limit(100_000)
    reports: list[str] = []
    module = export(Tied(TABLE), tensor(TOKENS), report=reports.append)
    parts = {"table_0": [384, 64], "table_1": [384, 64], "table_2": [232, 64]}
    assert shapes(module, "constant") == parts
    assert "'table' is table_0, table_1, table_2 in the program" in reports
    # Those of the rows, a copy, and a product for each part.
    assert parameters(module) == [2, 3, 3, 3, 5]
    for kind in BOTH:
        f: Any = module["f"].on(first_device(kind))
        x, scores = f(TOKENS)
        np.testing.assert_array_equal(x, TABLE[TOKENS])
        np.testing.assert_allclose(scores, TABLE[TOKENS] @ TABLE.T, atol=1e-4)
    assert shapes(export(Tied(TABLE), tensor(TOKENS), targets="opencl"), "constant") == {
        "table": [1000, 64]
    }


@pytest.mark.parametrize(
    ("most", "parts"),
    [(256_000, {"table": [1000, 64]}), (255_999, {"table_0": [960, 64], "table_1": [40, 64]})],
)
def test_the_limit_at_both_ends(
    limit: Callable[[int], None], most: int, parts: dict[str, list[int]]
) -> None:
    limit(most)
    module = export(Tied(TABLE), tensor(TOKENS), targets="webgpu")
    assert shapes(module, "constant") == parts


def added_rows() -> Any:
    table = tensor(TABLE)
    return lambda x: x @ table, RANDOM.standard_normal((5, 1000))


def rows_beyond_the_limit() -> Any:
    table = tensor(np.tile(TABLE.reshape(1, -1), (2, 1)))
    return lambda x: (table * x).sum(1), TABLE[:2, :1]


def computed_constant() -> Any:
    table = (tensor(TABLE).T * 2).contiguous()
    return lambda x: x @ table, TABLE[:6]


def slices() -> Any:
    table = tensor(TABLE)
    return lambda x: (x @ table[100:900].T, table[382:386] + 1, (table + 1) @ x[0]), TABLE[:6]


def temporaries() -> Any:
    layer = tensor(TABLE[:400, :8])

    def spread(x: Any) -> Any:
        y = (x @ layer.T).relu().contiguous()
        return y.sum(1), y.max(0), (y - y.mean(1, keepdim=True)).square().sum(1)

    return spread, TABLE[:150, :8]


def small_elements() -> Any:
    table = tensor((TABLE[:, :63] * 50).astype("int8").repeat(6, 0))
    return lambda x: table[x[0].cast("int32")], TOKENS[None]


FORMS = [
    added_rows,
    rows_beyond_the_limit,
    computed_constant,
    slices,
    temporaries,
    small_elements,
]


@pytest.mark.parametrize("form", FORMS)
def test_other_forms(
    limit: Callable[[int], None], form: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(100_000)
    devices = [first_device(kind) for kind in BOTH]
    monkeypatch.setattr(devmod, "devices", lambda *_: devices)
    function, array = form()
    x = tensor(array.astype("float32"))
    module = export(function, x, names=["x"])
    found = {**shapes(module, "constant"), **shapes(module, "temporary")}
    size = 4
    if form is small_elements:
        size = 1
    assert len(found) > 2
    assert all(np.prod(sides) * size <= 100_000 for sides in found.values())
    (line,) = interop.check(module, "f", {"x": x.numpy()}, results(function(x)))
    assert line.startswith(
        "checked on opencl:0 and webgpu:0 against tinygrad on the CPU: worst error "
    )


def test_a_state_in_parts(limit: Callable[[int], None]) -> None:
    from tinygrad import Tensor, Variable

    limit(100_000)
    cache = tensor(TABLE)
    position = Variable("position", 0, 999)

    def step(x: Any, position: Any) -> Any:
        cache[position : position + 1].assign(x.reshape(1, 64)).realize()
        return cache.sum(0)

    module = export(step, Tensor.empty(64), position.bind(3))
    assert list(shapes(module, "state")) == ["cache_0", "cache_1", "cache_2"]
    for kind in BOTH:
        f: Any = module["f"].on(first_device(kind))
        state = f.state()
        wanted = TABLE.copy()
        for number in TOKENS:
            wanted[number] = number
            y = f(np.full(64, number, "float32"), int(number), state=state)
            np.testing.assert_allclose(y, wanted.sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.row("R51")
def test_new_weights_have_the_name_and_the_shape_of_the_whole(limit: Callable[[int], None]) -> None:
    limit(23_000)  # 12 parts: table_10 is behind table_9, and the last one is used first
    table = tensor(TABLE)

    def products(x: Any) -> Any:
        return x @ table[990:].T, x @ table.T

    x = TABLE[:2]
    module = export(products, tensor(x))
    new = TABLE[::-1] * 2
    changed = devmod.replace_constants(module, {"table": new})
    for kind in BOTH:
        f: Any = changed["f"].on(first_device(kind))
        for y, rows in zip(f(x), (new[990:], new), strict=True):
            np.testing.assert_allclose(y, x @ rows.T, atol=1e-3)
    back = devmod.replace_constants(changed, {"table": TABLE})
    assert devmod.dumps(back, compress="none") == devmod.dumps(module, compress="none")
    text = refusal(ArgumentError, devmod.replace_constants, module, {"table": TABLE.T.copy()})
    given = "('table' is float32[1000, 64], and its value is float32[64, 1000])"
    problem = f"other types or shapes are given for 'table' {given}"
    assert text == f"replace_constants: {problem}"


@pytest.mark.row("R51")
def test_a_table_of_which_a_constant_is_computed_stays(limit: Callable[[int], None]) -> None:
    limit(100_000)
    table = tensor(TABLE)
    function = lambda x: (x + table.sum(0).contiguous()) @ table.T  # noqa: E731
    module = export(function, tensor(TABLE[:2]), names=["x"], targets="webgpu")
    devmod.replace_constants(module, {"table": TABLE})
    with pytest.raises(ArgumentError, match="computed constants have another value of 'table'"):
        devmod.replace_constants(module, {"table": TABLE * 2})


def test_too_many_parts_are_refused(limit: Callable[[int], None]) -> None:
    limit(50_000)
    function = Tied(TABLE)
    module = export(lambda t: function.table[t], tensor(TOKENS), names=["t"])
    assert len(shapes(module, "constant")) == 6
    limit(40_000)
    assert refusal(
        ArgumentError, export, lambda t: {"rows": function.table[t]}, tensor(TOKENS), names=["t"]
    ) == (
        "the program 'f' cannot be made for webgpu: its output 'rows' needs a kernel with 10 arrays, of which it has at most 8: "
        "'table' has 256000 bytes, and is in 8 parts, since an array has at most 40000. Store it in float16, or leave out webgpu"
    )


def test_parts_count_as_arrays_of_a_kernel(limit: Callable[[int], None]) -> None:
    """A kernel of eight arrays becomes two before its table is in parts."""
    limit(100_000)
    table = tensor(TABLE)
    others = [tensor(TABLE[n : n + 6]) for n in range(6)]

    def total(t: Any) -> Any:
        return sum(others, table[t])

    (line,) = checked(total, [tensor(TOKENS)], "webgpu")
    assert line.startswith("checked on webgpu:0")
    module = export(total, tensor(TOKENS), targets="webgpu")
    assert len(parameters(module)) >= 2
    assert max(parameters(module)) <= 8


@pytest.mark.row("R45")
def test_a_table_in_parts_in_a_browser(limit: Callable[[int], None], empty_page: Browser) -> None:
    limit(100_000)
    module = export(Tied(TABLE), tensor(TOKENS), targets="webgpu")
    x, scores = BrowserDevice(empty_page).program(module, "f")(TOKENS)
    np.testing.assert_array_equal(x, TABLE[TOKENS])
    np.testing.assert_allclose(scores, TABLE[TOKENS] @ TABLE.T, atol=1e-4)


class Decoder:
    """A transformer of 124 million random weights in 12 layers."""

    def __init__(self) -> None:
        width = 768
        self.heads = 12
        self.table = self.random(50_257, width)
        self.positions = self.random(1024, width)
        self.layers = []
        for _ in range(12):
            matrices = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
            self.layers.append([self.random(*each) for each in matrices])

    @staticmethod
    def random(*shape: int) -> Any:
        return tensor(RANDOM.standard_normal(shape, "float32") * np.float32(0.05))

    def __call__(self, tokens: Any) -> Any:
        length = tokens.shape[0]
        x = self.table[tokens] + self.positions[:length]
        for qkv, out, up, down in self.layers:
            heads = (x.layernorm() @ qkv).reshape(length, 3, self.heads, -1).permute(1, 2, 0, 3)
            attended = heads[0].scaled_dot_product_attention(heads[1], heads[2], is_causal=True)
            x = x + attended.transpose(0, 1).reshape(length, -1) @ out
            x = x + (x.layernorm() @ up).gelu() @ down
        return x.layernorm() @ self.table.T


@pytest.mark.volume
def test_a_decoder_of_124_million_weights_on_webgpu() -> None:
    first_device("webgpu")
    decoder = Decoder()
    tokens = tensor(RANDOM.integers(0, 50_257, 16).astype("int32"))
    module = interop.export(decoder, tokens, targets="webgpu", name="f")
    sides = shapes(module, "constant")
    assert sides["table_0"] == [43_648, 768]
    assert sides["table_1"] == [6609, 768]
    (line,) = interop.check(module, "f", {"tokens": tokens.numpy()}, results(decoder(tokens)))
    assert line.startswith("checked on webgpu:0")


@pytest.mark.volume
def test_a_table_of_154_megabytes_in_a_model_of_onnx(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    import onnx.parser

    for kind in BOTH:
        first_device(kind)
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 14]>
        g (int32[6] tokens) => (float[6, 50257] scores) {
            rows = Gather(table, tokens)
            turned = Transpose(table)
            scores = MatMul(rows, turned)
        }
    """)
    table = RANDOM.standard_normal((50_257, 768), "float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    onnx.save(model, "f.onnx")
    np.save("tokens.npy", TOKENS * 50)
    words = ["-t", "opencl", "-t", "webgpu", "--inputs", "tokens.npy"]
    status, out, err = call(capsys, "onnx", "f.onnx", *words)
    assert (status, err) == (0, "")
    assert "checked on tinygrad:CPU against " in out
    assert " and webgpu:0 against tinygrad on the CPU: worst error " in out
