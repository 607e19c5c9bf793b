"""Programs in the npm package, in Chromium: their numbers beside NumPy's, and their messages beside
Python's.
"""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np
import pytest
from each_case import some

import devmod
import devmod_readers.programs as readers
from devmod._modules.programs import candidate_of
from devmod.backend import expression_text, walk
from devmod_runtime._program.temporaries import share

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "tests"),
    str(ROOT / "tests" / "vendors"),
    str(ROOT / "compilers" / "readers" / "tests"),
]

import random_programs  # noqa: E402
import test_program_calls as calls  # noqa: E402
import test_program_repeats as repeats  # noqa: E402
import test_program_state as states  # noqa: E402
import test_program_views as views  # noqa: E402
import test_programs as strangers  # noqa: E402 - of devmod-readers
import test_programs_by_kind as by_kind  # noqa: E402
import tinygrad_cases  # noqa: E402
from backend_checks import first_device  # noqa: E402
from browser_driver import Browser, decode_array, encode_array, run_in_node  # noqa: E402
from browser_programs import BrowserDevice  # noqa: E402
from pictures_port import check_pictures  # noqa: E402
from transformer_port import SMALL, build_transformer  # noqa: E402

from devmod.interop import tinygrad as interop  # noqa: E402

pytestmark = pytest.mark.row("R45")
DIGITS = ROOT / "examples" / "applications" / "digits"


@pytest.fixture
def device(empty_page: Browser) -> BrowserDevice:
    return BrowserDevice(empty_page)


class Programs:
    """The programs of a module, as `module[name]` of Python."""

    def __init__(self, device: BrowserDevice, module: devmod.Module) -> None:
        self._device, self._module = device, module

    def __getitem__(self, name: str) -> Any:
        return self._device.program(self._module, name)


# -- the numbers of NumPy


@pytest.mark.row("R47")
def test_the_digits(device: BrowserDevice) -> None:
    test = np.load(DIGITS / "test.npz")
    classify = device.program(devmod.load(DIGITS / "digits.devmod"), "classify")
    for count in (1, 3, 40):
        digits, scores = classify(test["pictures"][:count])
        assert (digits.shape, scores.shape) == ((count,), (count, 10))
        assert (digits == scores.argmax(1)).all()
    assert (digits == test["labels"][:40]).mean() > 0.9


@pytest.mark.row("R37")
def test_the_transformer(device: BrowserDevice, tmp_path: Path) -> None:
    from transformer import Reference, add_model, check_decoding, random_weights

    weights = random_weights(SMALL)
    step = device.program(add_model(build_transformer(tmp_path, "webgpu"), SMALL, weights), "step")
    _, error = check_decoding(step, Reference(SMALL, weights), (3, 9), SMALL.context)
    assert error < 1e-4


@pytest.mark.row("R37")
def test_the_pictures(
    device: BrowserDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devmod, "load", lambda path, load=devmod.load: Programs(device, load(path)))
    check_pictures(device, "webgpu", tmp_path)


def test_the_main_path(device: BrowserDevice) -> None:
    f = device.program(calls.normalize("webgpu"), "normalize")
    x, weight = calls.X, calls.W
    for epsilon in (1e-5, 1.0):
        assert calls.equal(f(x, weight, epsilon=epsilon), calls.expected(epsilon=epsilon))
    on_device = device.from_numpy(x), device.from_numpy(weight)
    for arguments in (on_device, (on_device[0], weight), (x, on_device[1])):
        assert calls.equal(f(*arguments).numpy(), calls.expected())
    for rows in (0, 1, 3, 5):
        assert calls.equal(f(x[:rows], weight), calls.expected(x[:rows]))
    host, result = np.zeros_like(x), device.empty((5, 8), "float32")
    assert f(x, weight, y=host) is host
    assert f(x, weight, y=result) is result
    assert calls.equal(host, calls.expected())
    assert calls.equal(result, calls.expected())
    result = device.empty((5, 8), "float32")
    launch = f.bind(*on_device, y=result)
    for _ in range(2):
        launch()
    assert calls.equal(result, calls.expected())


def test_several_programs_of_one_name_and_views_of_other_types(device: BrowserDevice) -> None:
    module = devmod.loads(
        devmod.dumps(devmod.bundle(by_kind.squares("opencl"), by_kind.squares("webgpu")))
    )
    squares = device.program(module, "squares")
    assert len(squares.program.steps) == 2
    np.testing.assert_allclose(
        squares(by_kind.X), by_kind.X.sum(1) ** 2 * by_kind.W[[0, 1, 2, 3, 0]], rtol=1e-5
    )
    flip = device.program(views.flip(), "p")
    for count in (4, 64, 9):
        x = np.arange(count) % 3 == 0
        assert flip(x).tolist() == (~x).tolist()


def test_the_times_of_steps(device: BrowserDevice) -> None:
    """Each step has the time of all of its turns, where the device measures."""
    f = device.program(repeats.file_of(repeats.NESTED, "webgpu"), "p")
    wanted = f(repeats.X, more=2)
    body = """
    const f = programs.at(-1);
    const { features } = device;
    const run = async (more, has) => {
      Object.defineProperty(device, "features", { value: has ? features : new Set(), configurable: true });
      const { results, times } = await f.profile(new Float32Array(bytes(argument)), { more, rows: 7 });
      return [text(results.y), times];
    };
    const found = [await run(2, true), await run(0, true), await run(2, false)];
    delete device.features;
    return found;
    """
    measured, none, without = device.run(body, encode_array(repeats.X))
    for y, _ in (measured, without):
        assert decode_array(y, "float32").reshape(wanted.shape).tolist() == wanted.tolist()
    steps = len(f.program.steps)
    assert len(measured[1]) == steps
    assert min(measured[1]) > 0
    assert len(none[1]) == steps
    assert min(none[1]) == 0
    assert without[1] is None


def test_what_no_turn_uses_is_not_cleared(device: BrowserDevice) -> None:
    """Of two repeats, one runs: a call has its two launches alone."""
    text = """
    @group(0) @binding(0) var<storage> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn copy(@builtin(global_invocation_id) id: vec3u) { if (id.x < arrayLength(&x)) { y[id.x] = x[id.x]; } }"""
    steps = ["copy(x=x, y={}, threads=n)", "copy(x={}, y=y, threads=n)"]
    module = devmod.program(
        "p",
        devmod.compile(text, "webgpu"),
        inputs=["x: float32[n]"],
        outputs=["y: float32[n]"],
        temporaries=["a: float32[n]", "b: float32[n]"],
        steps=[
            devmod.repeat("1 - min(1, n // 5)", "short", [each.format("a") for each in steps]),
            devmod.repeat("min(1, n // 5)", "long", [each.format("b") for each in steps]),
        ],
    )
    device.program(module, "p")
    body = """
    let launches = 0;
    const own = GPUComputePassEncoder.prototype.dispatchWorkgroups;
    GPUComputePassEncoder.prototype.dispatchWorkgroups = function (...grid) { launches += 1; return own.apply(this, grid); };
    const found = [];
    for (const length of [4, 8]) {
      const { y } = await programs.at(-1)(new Float32Array(length).fill(length));
      found.push([...y]);
    }
    GPUComputePassEncoder.prototype.dispatchWorkgroups = own;
    return [launches, found];
    """
    launches, found = device.run(body)
    assert found == [[4.0] * 4, [8.0] * 8]
    assert launches == 4


def test_a_state_and_its_first_value(device: BrowserDevice) -> None:
    f = device.program(
        states.counter("total: float32[4] = first", "webgpu", constants=["first: float32[4]"]), "p"
    )
    one, other = f.state(), f.state()
    for number in range(3):
        assert f(states.FIRST, state=one).tolist() == (states.FIRST * (number + 2)).tolist()
    assert f(states.FIRST, state=other).tolist() == (states.FIRST * 2).tolist()
    assert one["total"].numpy().tolist() == (states.FIRST * 4).tolist()
    f = device.program(
        states.counter("total: float32[size, 2] = 0", "webgpu", requires=["size * 2 == rows"]), "p"
    )
    assert f(np.ones(4, "float32"), state=f.state(size=2), size=2).tolist() == [1.0] * 4


def test_repeats(device: BrowserDevice) -> None:
    f = device.program(repeats.file_of(repeats.NESTED, "webgpu"), "p")
    for more in (0, 2):
        order = repeats.nested_order(more)
        assert calls.equal(f(repeats.X, more=more), repeats.expected(repeats.X, order))
    x, y = device.from_numpy(repeats.X), device.empty((7, 5), "float32")
    launch = f.bind(x, y=y, more=1)
    for _ in range(2):
        launch()
        assert calls.equal(y, repeats.expected(repeats.X, repeats.nested_order(1)))
    step = repeats.STEP.format("i")
    f = device.program(repeats.file_of(devmod.repeat("more - 1", "i", step), "webgpu"), "p")
    refused = "the webgpu program 'p': "
    for more, text in (
        (0, "the repeat of 'i' has more - 1 turns, and that is -1 with more=0"),
        (2**20 + 2, "its repeats have 1048577 launches, and a call has at most 1048576"),
    ):
        with pytest.raises(AssertionError, match=f"ArgumentError: {re.escape(refused + text)}\n"):
            f(repeats.X, more=more)
    assert not f(repeats.X, more=1).any()


def test_a_program_with_an_unknown_need_is_refused(device: BrowserDevice) -> None:
    module = repeats.file_of(devmod.repeat(1, "i", repeats.STEP.format("i")), "webgpu")
    owner: Any = next(each for each in walk(module) if each.kind == "program")
    info = owner.functions["p"]
    needs = info.replace(interface=info.interface.replace(needs=["loops", "repeat"]))
    newer = devmod.create_with_fallback("program", owner.code, "steps1", {"p": needs})
    newer.import_module(owner.imports[0])
    later = devmod.bundle(newer, owner.imports[0], mixed=True)
    text = "webgpu: it needs 'loops', which a newer devmod-webgpu has\n"
    with pytest.raises(AssertionError, match=text):
        device.program(later, "p")


CLEARS = """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> n: i32;
@compute @workgroup_size(4) fn add(@builtin(global_invocation_id) id: vec3u) { if (i32(id.x) < n) { y[id.x] += f32(id.x) + 1; } }"""
TOTAL = """
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn total() { var sum = 0.0; for (var i = 0u; i < arrayLength(&x); i++) { sum += x[i]; } y[0] = sum; }"""


def test_what_begins_cleared_is_zero_in_each_call_and_arrays_of_no_dimension(
    device: BrowserDevice,
) -> None:
    kernels = devmod.bundle(
        devmod.compile(CLEARS, "webgpu", name="add"), devmod.compile(TOTAL, "webgpu", name="total")
    )
    steps = [
        "add(y=t, n=n, threads=n)",
        "total(x=t, y=u, grid=1)",
        "add(y=y, n=n // 2, threads=n // 2)",
        "total(x=y, y=loss, grid=1)",
    ]
    module = devmod.program(
        "p",
        kernels,
        inputs=["n: int32"],
        outputs=["y: float32[n] = 0", "loss: float32[()]"],
        temporaries=["t: float32[n] = 0", "u: float32[1]"],
        steps=steps,
    )
    f = device.program(module, "p")
    for n in (5, 70_000, 5, 2):
        y, loss = f(n)
        expected = np.where(np.arange(n) < n // 2, np.arange(n) + 1, 0)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_allclose(loss, expected.sum(), rtol=1e-3)
    given = np.full(5, 7, "float32")
    assert f(5, y=given)[0] is given
    assert given.tolist() == [1, 2, 0, 0, 0]


@pytest.mark.parametrize(
    "seeds",
    [
        range(10),
        *(pytest.param(range(at, at + 38), marks=pytest.mark.volume) for at in range(10, 200, 38)),
    ],
    ids=str,
)
def test_random_programs(device: BrowserDevice, seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        program = random_programs.RandomProgram("webgpu", random)
        f = device.program(program.module, "p")
        for number in range(4):
            n, m = random.choice(random_programs._LENGTHS), random.choice(random_programs._LENGTHS)
            values = np.random.default_rng(random.randrange(1 << 32))
            names = (*program.inputs, *program.updates)
            given = {
                name: values.integers(
                    0, 1 << 32, program.value(program.lengths[name], n, m), "uint32"
                )
                for name in names
            }
            expected = program.expected(given, n, m)
            # An empty array takes four bytes on a device, from which its length cannot be told.
            words: dict[str, Any] = {
                name: device.from_numpy(value)
                if len(value) and random.random() < 0.4
                else value.copy()
                for name, value in given.items()
            }
            for name in program.outputs:
                if len(expected[name]) and random.random() < 0.3:
                    words[name] = np.full_like(expected[name], 0xEEEE)
            results = f(**words)
            results = results if isinstance(results, tuple) else (results,)
            what = f"seed {seed}, call {number}, n={n}, m={m}"
            for name, result in [
                *zip(program.outputs, results, strict=True),
                *((each, words[each]) for each in program.updates),
            ]:
                np.testing.assert_array_equal(
                    result if isinstance(result, np.ndarray) else result.numpy(),
                    expected[name],
                    f"{what}: {name}",
                )


#: The small models whose types SwiftShader has in Chromium.
MODELS = [
    each
    for each in tinygrad_cases.NAMES
    if each not in ("float64", "bfloat16", "bfloat16 weights", "half")
]


@pytest.mark.row("R47")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[] if at % 6 == 0 else pytest.mark.volume)
        for at, each in enumerate(MODELS)
    ],
)
def test_small_models_of_tinygrad(device: BrowserDevice, name: str) -> None:
    pytest.importorskip("tinygrad")
    with interop.cpu():
        function, inputs = tinygrad_cases.cases()[name].made()
        names = [f"x{number}" for number in range(len(inputs))]
        module = interop.export(function, *inputs, targets="webgpu", name="f", names=names)
        wanted = tinygrad_cases.results(function(*inputs))
        found = device.program(module, "f")(*[each.numpy() for each in inputs])
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert one.shape == other.shape
        tolerance = 1e-2 if other.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(
            one.astype("float64"), other.astype("float64"), rtol=tolerance, atol=tolerance
        )


# -- the messages of Python


def as_in_javascript(message: str) -> str:
    """Return a message of Python in the words of JavaScript."""
    message = (
        re.sub(r"\b(grid|state)=(?=[ :])", r"\1", message)
        .replace("None is", "null is")
        .replace("got int", "got 3")
    )
    return message.replace(
        "s = f.state() makes it, and f(…, state=s) uses it",
        "s = await f.state() makes it, and f(…, { state: s }) uses it",
    )


FAILURE = """
const found = [];
for (const [program, args, names] of argument) {
  try {
    await programs[program](...args.map(decoded), ...(names.length ? [decoded(names)] : []));
    found.push(null);
  } catch (error) {
    found.push([error.name, error.message, error.argument]);
  }
}
return found;
"""
X, W, F = calls.X, calls.W, states.FIRST
#: Calls of two programs that both languages refuse: the arguments by position and by name.
WRONG: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    **{
        name: ("normalize", make(None), keywords)
        for name, (make, keywords, _) in calls.WRONG.items()
        if name not in ("a rank", "vectors", "an output's shape", "a requirement")
    },
    "a requirement": ("normalize", (X[:, :6].copy(), W[:6]), {"rows": 5, "columns": 6}),
    "a type": ("normalize", (X.astype("float64"), W), {}),
    "a text": ("normalize", ("x", W), {}),
    "a text for a number": ("normalize", (X, W, "1"), {}),
    "a great number": ("normalize", (X, W, 1e300), {}),
    "one too many": ("count", (F, F), {"state": {"total": F}}),
    "no state": ("count", (F,), {}),
    "no arrays": ("count", (F,), {"state": 3}),
    "too few": ("count", (F,), {"state": {"x": 1}}),
    "by name": ("count", (F,), {"total": F, "state": {"total": F}}),
    "a shape of the state": ("count", (F,), {"state": {"total": F[:3].copy()}}),
}


@pytest.mark.row("R34")
def test_wrong_calls_have_the_messages_of_python(device: BrowserDevice) -> None:
    first_device("webgpu")
    normalize, count = (
        calls.normalize("webgpu"),
        states.counter("total: float32[4] = 0", "webgpu", requires=["rows == 4"]),
    )
    python: dict[str, Any] = {"normalize": normalize["normalize"], "count": count["p"]}
    numbers = {
        "normalize": device.program(normalize, "normalize"),
        "count": device.program(count, "p"),
    }
    listed = []
    for program, args, named in WRONG.values():
        f = numbers[program]
        names = {"rows": 5, "columns": 8} if program == "normalize" else {}
        listed.append(
            [
                f._number,
                [f._encoded(each) for each in args],
                [[name, f._encoded(each)] for name, each in (names | named).items()],
            ]
        )
    found = dict(zip(WRONG, device.run(FAILURE, listed), strict=True))
    for case, (program, args, named) in WRONG.items():
        python_named = {
            name: each for name, each in named.items() if name not in ("rows", "columns")
        }
        with pytest.raises(devmod.ArgumentError) as caught:
            python[program](*args, **python_named)
        expected = as_in_javascript(str(caught.value)).replace("got int", "got 3")
        expected = expected.replace(
            "array = array.astype(np.float32)", "array = Float32Array.from(array)"
        )
        assert found[case] == ["ArgumentError", expected, caught.value.argument], case


def test_a_number_that_is_infinite_in_its_type(device: BrowserDevice) -> None:
    module = devmod.program(
        "p",
        devmod.bundle(devmod.compile(KERNELS, "webgpu", name="scale")),
        inputs=["x: float32[n]", "a: bfloat16"],
        outputs=["y: float32[n]"],
        steps=["scale(x=x, y=y, a=a, n=n, on=1, threads=n)"],
    )
    f = device.program(module, "p")
    text = "the argument 'a': 1e\\+300 does not fit bfloat16"
    with pytest.raises(AssertionError, match=text):
        f(X[0], 1e300)


#: Calls that only JavaScript has: its arrays have no shape.
FLAT: list[tuple[str, str, str]] = [
    (
        "f(x, w)",
        "x",
        "the argument 'x' of 160 bytes leaves the lengths 'rows', 'columns' open; give them by name: rows: …",
    ),
    (
        "f(x, w, { rows: 5, columns: 6 })",
        "x",
        "the argument 'x' has 40 elements, and expected are 30: its shape [rows, columns] is (5, 6)",
    ),
    ("f(x, w, { rows: 1.5 })", "rows", "the length 'rows' is an integer, got 1.5"),
    (
        "f(x, w, { y: new Float32Array(3) })",
        "y",
        "the argument 'y' has 3 elements, and the program returns (5, 8)",
    ),
    (
        "f(x, w, { y: x })",
        "y",
        "the argument 'y' overlaps the argument 'x', and the program writes to one of them; pass a copy of it",
    ),
    (
        "f.bind(x, w, { y: x })",
        "x",
        "the argument 'x' is in the host's memory, and bind takes device buffers: pass a GPUBuffer",
    ),
    ("f.bind(buffer, buffer)", "y", "bind needs its outputs by name: 'y'"),
    ("f.state()", "state", "it has no state"),
    ("g.state({ rows: 3 })", "rows", "its state has no length 'rows' to give"),
    ("h.state({ size: 1.5 })", "size", "the length 'size' is an integer, got 1.5"),
    (
        "f(x, w, { rows: 5, y: gone })",
        "y",
        "the argument 'y' is in an ArrayBuffer that was transferred; pass a copy",
    ),
    (
        "f(x, w, 10n ** 400n, { rows: 5 })",
        "epsilon",
        "the argument 'epsilon': a bigint of many digits does not fit a floating-point type",
    ),
]


@pytest.mark.row("R34")
def test_wrong_calls_of_arrays_without_a_shape(device: BrowserDevice) -> None:
    device.program(calls.normalize("webgpu"), "normalize")
    device.program(states.counter("total: float32[4] = 0", "webgpu", requires=["rows == 4"]), "p")
    device.program(
        states.counter("total: float32[size, 2] = 0", "webgpu", requires=["size * 2 == rows"]), "p"
    )
    body = """
    const gone = new Float32Array(40);
    structuredClone(0, { transfer: [gone.buffer] });
    const [f, g, h] = programs, [x, w] = [new Float32Array(40), new Float32Array(8)], found = [];
    const buffer = device.createBuffer({ size: 160, usage: GPUBufferUsage.STORAGE });
    const given = { columns: 8 };
    for (const act of [CALLS]) {
      try { found.push(await act()); } catch (error) { found.push([error.argument, error.message]); }
    }
    return [found, f.names, f.name, Object.keys(await f(x, w, { rows: 5 }))];
    """
    acts = [call.replace("f(x, w", "f(x, w") for call, _, _ in FLAT]
    # `weight: float32[columns]` gives the columns, so that only one length of x is open; an array
    # of another length gives none.
    acts[0] = (
        "(async () => { const h = await (await kit.open(bytes(argument))).getFunction('grid', { device }); return h(x); })()"
    )
    grid = devmod.program(
        "grid",
        devmod.compile(TOTAL, "webgpu", name="total"),
        inputs=["x: float32[rows, columns]"],
        outputs=["y: float32[1]"],
        steps=["total(x=x, y=y, grid=1)"],
    )
    listed = ", ".join(f"() => {each}" for each in acts)
    found, names, name, results = device.run(
        body.replace("CALLS", listed), b64encode(devmod.dumps(grid)).decode()
    )
    labels = ["grid", *({"f": "normalize"}.get(call[0], "p") for call, _, _ in FLAT[1:])]
    assert found == [
        [argument, f"the webgpu program '{label}': {text}"]
        for label, (_, argument, text) in zip(labels, FLAT, strict=True)
    ]
    assert (names, name, results) == (["x", "weight", "epsilon"], "normalize", ["y"])


# -- a stranger's programs

KERNELS = """
struct P { n: i32, on: u32 };
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> a: f32;
@group(0) @binding(3) var<uniform> p: P;
@group(0) @binding(4) var picture: texture_2d<f32>;
@group(0) @binding(5) var how: sampler;
@group(0) @binding(6) var target_: texture_storage_2d<rgba8unorm, write>;
@compute @workgroup_size(8) fn scale(@builtin(global_invocation_id) id: vec3u) {
  if (i32(id.x) < p.n + i32(p.on)) { y[id.x] = a * x[id.x]; }
}
@compute @workgroup_size(8, 8) fn shade(@builtin(global_invocation_id) id: vec3u) {
  textureStore(target_, id.xy, textureSampleLevel(picture, how, vec2f(id.xy), 0.0));
}"""
SCALE: dict[str, Any] = {"x": "x", "y": "y", "a": "a", "n": "n", "on": 1}
SHADE: dict[str, Any] = {"picture": "image", "how": "linear", "target_": "drawn"}
#: What a step gives in place of good values, to the kernel `scale` or `shade`: the program is
#: refused, but for the first two.
STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "good": ("scale", {}),
    "a good image": ("shade", {}),
    "an unknown argument": ("scale", {"z": "x"}),
    "a near argument": ("shade", {"pictures": "image"}),
    "an array of another type": ("scale", {"x": "whole"}),
    "a number for an array": ("scale", {"x": 5}),
    "an expression for an array": ("scale", {"x": ["+", "n", 1]}),
    "a boolean for an array": ("scale", {"x": True}),
    "an array for a number": ("scale", {"a": "x"}),
    "a sampler for an array": ("scale", {"x": "linear"}),
    "a sampler for a number": ("scale", {"n": "linear"}),
    "an image for an array": ("scale", {"x": "image"}),
    "an array for an image": ("shade", {"picture": "x"}),
    "a number for an image": ("shade", {"picture": 1.5}),
    "a number for a sampler": ("shade", {"how": "n"}),
    "an image of another format": ("shade", {"target_": "grey"}),
    "an image of integers": ("shade", {"picture": "levels"}),
    "a float for an integer": ("scale", {"n": 2.0}),
    "a small float for an integer": ("scale", {"n": 1e-7}),
    "a negative zero for an integer": ("scale", {"n": -0.0}),
    "a large float for an integer": ("scale", {"n": 1e16}),
    "a float scalar for an integer": ("scale", {"n": "a"}),
    "a boolean for an integer": ("scale", {"n": False}),
    "a boolean for a float": ("scale", {"a": True}),
    "a great integer": ("scale", {"n": 2**31}),
    "a negative integer": ("scale", {"on": -1}),
    "a great float": ("scale", {"a": 1e39}),
    "an input that is written": ("scale", {"y": "x"}),
    "a constant that is written": ("scale", {"y": "c"}),
    "twice": ("scale", {"x": "u", "y": "u"}),
    "not yet written": ("scale", {"x": "t"}),
    "a view of another type": ("scale", {"x": ["view", "x", "uint32"]}),
    "a view of no array": ("scale", {"x": ["view", "a", "float32"]}),
    "a view of vectors": ("scale", {"x": ["view", "x", "float32x4"]}),
    "an unbound name": ("scale", {"n": "m"}),
    "an unbound name in an expression": ("scale", {"n": ["*", "nn", 2]}),
    "an array in an expression": ("scale", {"n": ["*", "x", 2]}),
    "a float in an expression": ("scale", {"n": ["*", "a", 2]}),
    "grid and threads": ("scale", {"": {"grid": [1], "threads": [1]}}),
    "neither": ("scale", {"": {}}),
    "another block": ("scale", {"": {"threads": [1], "block": [16]}}),
    "an unbound grid": ("scale", {"": {"grid": ["m"]}}),
}
VERDICTS = """
const { open } = await import("./index.js");
const { readProgram } = await import("./programs.js");
const { checkKernels, checkNames } = await import("./programchecks.js");
const { DevmodError } = await import("./errors.js");
const found = [];
for (const data of argument) {
  try {
    const bundle = await open(Uint8Array.from(Buffer.from(data, "base64")));
    const contents = await bundle.modules.find(({ kind }) => kind === "program").contents();
    const program = readProgram("p", contents.functions.get("p"), contents.shaders.get("p"));
    checkNames(program);
    const functions = new Map();
    for (const module of bundle.webgpuModules) for (const [name, info] of await module.functions()) functions.set(name, info);
    checkKernels(program, new Map(program.kernels.map((name) => [name, { label: "webgpu/wgsl", interface: functions.get(name).interface }])));
    found.push(null);
  } catch (error) {
    found.push(error instanceof DevmodError ? [error.name, error.kind, error.function, error.argument, error.message] : String(error.stack));
  }
}
return found;
"""


def program_file(info: devmod.FunctionInfo, code: bytes, kernels: devmod.Module) -> devmod.Module:
    """A file with a program of which nothing was checked."""
    module = devmod.create_with_fallback("program", {"p": code}, "steps1", {"p": info})
    module.import_module(kernels)
    return devmod.bundle(module, kernels, mixed=True)


def hostile() -> dict[str, devmod.Module]:
    kernels = devmod.bundle(
        *[devmod.compile(KERNELS, "webgpu", name=name) for name in ("scale", "shade")]
    )
    given: list[Any] = [readers.Array(name, "input", "float32", ("n",)) for name in ("x",)]
    given += [
        readers.Array("y", "output", "float32", ("n",)),
        readers.Array("u", "update", "float32", ("n",)),
        readers.Scalar("a", "float32", 1.5),
    ]
    given += [
        readers.Array("whole", "input", "int32", ("n",)),
        readers.Array("c", "constant", "float32", (4,)),
        readers.Sampler("linear", "linear", "clamp"),
    ]
    given += [
        readers.Array(name, "input", "uint8", ("h", "w"), each)
        for name, each in (("image", "rgba8unorm"), ("levels", "rgba8uint"))
    ]
    given += [
        readers.Array(name, "update", "uint8", ("h", "w"), each)
        for name, each in (("drawn", "rgba8unorm"), ("grey", "r8unorm"))
    ]
    files = {}
    for name, (kernel, change) in STEPS.items():
        declared = [
            *given,
            *(
                [readers.Array("t", "temporary", "float32", ("n",))]
                if name == "not yet written"
                else []
            ),
        ]
        program = readers.Program(
            "p",
            {each.name: each for each in declared},
            (),
            (readers.Step("scale", {}), readers.Step(kernel, {})),
        )
        launch = change.get("", {"threads": ["n"]})
        steps = [
            ["scale", SCALE, {"threads": ["n"]}],
            [
                kernel,
                (SCALE if kernel == "scale" else SHADE)
                | {each: value for each, value in change.items() if each},
                launch,
            ],
        ]
        files[name] = program_file(
            readers.interface_of(program), msgpack.packb({"steps": steps}), kernels
        )
    for name, drop in (("a missing argument", "x"), ("an output that no step writes", "")):
        steps = [
            [
                "scale",
                {each: value for each, value in SCALE.items() if each != drop}
                | ({} if drop else {"y": "u"}),
                {"threads": ["n"]},
            ]
        ]
        program = readers.Program(
            "p", {each.name: each for each in given}, (), (readers.Step("scale", {}),)
        )
        files[name] = program_file(
            readers.interface_of(program), msgpack.packb({"steps": steps}), kernels
        )
    for name, (code, _) in strangers.WRONG_CODE.items():
        files[f"code: {name}"] = program_file(
            readers.interface_of(strangers.GOOD),
            code if isinstance(code, bytes) else msgpack.packb(code),
            kernels,
        )
    for name, (info, _) in strangers.WRONG_DECLARATIONS.items():
        files[f"declarations: {name}"] = program_file(
            info, readers.pack_steps(strangers.GOOD), kernels
        )
    for name, (program, _) in (strangers.NAMES | strangers.REPEAT_NAMES).items():
        files[f"names: {name}"] = program_file(
            readers.interface_of(program), readers.pack_steps(program), kernels
        )
    return files


def verdict(module: devmod.Module) -> Any:
    """Return what Python says about a program, without the signature of the kernel, which the
    package does not show.
    """
    owner = next(each for each in walk(module) if each.kind == "program")
    try:
        readers.check_names(
            program := readers.read_program("p", owner.functions["p"], owner.code["p"])
        )  # type: ignore[attr-defined]
        kernels = {
            each: [
                candidate_of(each, other)
                for other in walk(module)
                if each in other.function_names and other.kind == "webgpu"
            ]
            for each in program.kernels
        }
        readers.check_kernels(program, kernels)
    except devmod.FormatError as error:
        return [
            "FormatError",
            error.kind,
            error.function,
            error.argument,
            re.split(r"\.? As webgpu", str(error))[0],
        ]
    return None


def test_the_programs_of_strangers_have_the_verdict_of_python() -> None:
    files = hostile()
    found = run_in_node(
        VERDICTS, [b64encode(devmod.dumps(each)).decode() for each in files.values()]
    )
    expected = {name: verdict(module) for name, module in files.items()}
    assert sum(each is not None for each in expected.values()) >= 60
    for (name, wanted), got in zip(expected.items(), found, strict=True):
        assert got == (wanted and [*wanted[:4], wanted[4]]), name
    assert [name for name, each in expected.items() if each is None] == ["good", "a good image"]


EVALUATE = """
const { readExpression, evaluate, expressionText, ExpressionError } = await import("./expressions.js");
const { Reader } = await import("./msgpack.js");
const values = new Map([["n", 7n], ["rows", -3n], ["big", 2n ** 62n]]);
return argument.map((data) => {
  const reader = new Reader(Uint8Array.from(Buffer.from(data, "base64")), "the test");
  reader.wholes = true;
  const tree = readExpression(reader.readValue());
  try {
    return [expressionText(tree), String(evaluate(tree, values))];
  } catch (error) {
    return [expressionText(tree), error.message];
  }
});
"""


def test_expressions_have_the_values_and_the_texts_of_python() -> None:
    random, trees = Random(3), []

    def tree(depth: int) -> Any:
        if depth == 0 or random.random() < 0.2:
            return random.choice(
                ["n", "rows", "big", random.randint(-9, 9), random.randint(-(2**63), 2**63 - 1)]
            )
        name = random.choice([*readers.OPERATORS])
        return (
            name,
            *[
                tree(depth - 1)
                for _ in range(random.randint(2, 5) if name in ("min", "max") else 2)
            ],
        )

    trees = [tree(random.randint(0, 5)) for _ in range(2000)]
    found = run_in_node(EVALUATE, [b64encode(msgpack.packb(each)).decode() for each in trees])
    for each, got in zip(trees, found, strict=True):
        try:
            value = str(readers.evaluate(each, {"n": 7, "rows": -3, "big": 2**62}))
        except readers.ExpressionError as error:
            value = str(error)
        assert got == [expression_text(each), value]


def test_temporaries_share_memory_by_the_rule_of_python() -> None:
    random, cases = Random(5), []
    for _ in range(200):
        names = [f"t{number}" for number in range(random.randint(0, 30))]
        spans = {
            name: sorted((random.randrange(20), random.randrange(20)))
            for name in names
            if random.random() < 0.95
        }
        cases.append([{name: random.choice([4, 64, 64, 256, 1000]) for name in names}, spans])
    body = """
    const { share } = await import("./temporaries.js");
    return argument.map((each) => share(...each.map((one) => new Map(Object.entries(one))))).map(([numbers, totals]) => [Object.fromEntries(numbers), totals]);
    """
    assert run_in_node(body, cases) == [
        [*share(sizes, {name: tuple(span) for name, span in spans.items()})]
        for sizes, spans in cases
    ]


# -- the device


def test_a_call_with_another_part_of_a_buffer_reads_that_part(device: BrowserDevice) -> None:
    """Calls with the same buffers reuse their launches."""
    steps = ["total(x=x, y=y, threads=1)"]
    module = devmod.program(
        "p",
        devmod.compile(TOTAL, "webgpu"),
        inputs=["x: float32[n]"],
        outputs=["y: float32[1]"],
        steps=steps,
    )
    device.program(module, "p")
    body = """
    const buffer = device.createBuffer({ size: 768, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(buffer, 0, new Float32Array(192).map((_, at) => 1 + Math.floor(at / 64)));
    const output = device.createBuffer({ size: 4, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC });
    const found = [];
    for (const [offset, size] of argument) {
      await programs[0]({ buffer, offset, size }, { y: output });
      found.push(await read(output));
    }
    return found;
    """
    parts = [(0, 256), (256, 256), (512, 256), (512, 128), (256, 128), (256, 512), (0, 768)]
    found = device.run(body, parts)
    sums = [64, 128, 192, 96, 64, 320, 384]
    assert [decode_array(each, "float32").tolist() for each in found] == [[each] for each in sums]


def test_calls_do_not_grow(device: BrowserDevice) -> None:
    """The buffers that live after 1,000 calls are those after a few, and so are those after calls
    of 200 lengths and of 100 programs.
    """
    f = device.program(calls.normalize("webgpu"), "normalize")
    body = """
    const f = programs[argument], live = new Set();
    const [create, destroy] = [GPUDevice.prototype.createBuffer, GPUBuffer.prototype.destroy];
    GPUDevice.prototype.createBuffer = function (each) { const made = create.call(this, each); live.add(made); return made; };
    GPUBuffer.prototype.destroy = function () { live.delete(this); destroy.call(this); };
    const weight = new Float32Array(8).fill(1);
    const call = (rows) => f(new Float32Array(8 * rows).fill(2), weight, { rows });
    const counts = [];
    for (let number = 0; number < 1000; number++) {
      const { y } = await call(5);
      if (y.length !== 40 || Math.abs(y[39] - 1) > 1e-3) throw new Error(`call ${number}: ${y}`);
      if (number % 333 === 0) counts.push(live.size);
    }
    for (let rows = 1; rows < 200; rows++) await call(rows);
    const many = live.size;
    for (let rows = 1; rows < 200; rows++) await call(rows);
    const again = live.size;
    await Promise.all(Array.from({ length: 50 }, (_, at) => call(at + 1)));
    Object.assign(GPUDevice.prototype, { createBuffer: create });
    Object.assign(GPUBuffer.prototype, { destroy });
    return [counts, many, again, live.size];
    """
    counts, many, again, at_once = device.run(body, f._number)
    assert len(set(counts)) == 1
    assert many == again == at_once


@pytest.mark.parametrize("way", ["throws", "is invalid"])
def test_a_call_after_one_for_which_the_device_had_no_memory(
    device: BrowserDevice, way: str
) -> None:
    """A buffer for which there is no memory is not kept, neither that of temporaries nor that of a
    constant.
    """
    device.program(calls.normalize("webgpu"), "normalize")
    device.program(
        states.counter("total: float32[4] = first", "webgpu", constants=["first: float32[4]"]), "p"
    )
    body = """
    const [f, g] = programs, create = GPUDevice.prototype.createBuffer;
    const normalize = async (rows) => (await f(new Float32Array(8 * rows).fill(2), new Float32Array(8).fill(1), { rows })).y.length;
    const states = { state: await g.state() }, x = new Float32Array(4);
    const found = [await normalize(5)];
    for (const call of [() => normalize(500), async () => (await g(x, states)).y.length]) {
      GPUDevice.prototype.createBuffer = function (each) {
        if (argument === "throws") throw new RangeError("too large");
        return create.call(this, { ...each, usage: each.usage | 3 });
      };
      found.push((await failure(call))[0]);
      GPUDevice.prototype.createBuffer = create;
      found.push(await normalize(5), await call());
    }
    return found;
    """
    assert device.run(body, way) == [40, "LaunchError", 40, 4000, "LaunchError", 40, 4]


def test_constants_are_fetched_by_range_and_uploaded_once(
    device: BrowserDevice, server: Any
) -> None:
    data = (DIGITS / "digits.devmod").read_bytes()
    server.files["digits.devmod"] = data
    body = """
    const create = GPUDevice.prototype.createBuffer, counts = [];
    GPUDevice.prototype.createBuffer = function (each) { counts[counts.length - 1].push(each.size); return create.call(this, each); };
    const bundle = await kit.open("digits.devmod");
    for (let number = 0; number < 2; number++) {
      const f = await bundle.getFunction("classify", { device });
      counts.push([]);
      await f(new Uint8Array(64));
    }
    Object.assign(GPUDevice.prototype, { createBuffer: create });
    return counts;
    """
    first, second = device.run(body)
    weights = [16 * 3 * 3 * 4, 32 * 16 * 3 * 3 * 4, 512 * 10 * 4]
    assert [size in first for size in weights] == [True] * 3
    assert [size in second for size in weights] == [False] * 3
    asked = [each for each in server.asked if each.startswith("digits")]
    assert all("bytes=" in each for each in some(asked))
    assert server.sent < len(data)


def test_a_lost_device_is_named_and_a_new_one_is_used(browser: Browser, server: Any) -> None:
    browser.open(server.url)
    device = BrowserDevice(browser)
    server.files["digits.devmod"] = (DIGITS / "digits.devmod").read_bytes()
    body = """
    const bundle = await kit.open("digits.devmod");
    const f = await bundle.getFunction("classify");
    const x = new Uint8Array(64).fill(9);
    const before = await f(x);
    const pending = failure(() => f(x));
    f.device.destroy();
    const errors = [(await pending)?.[0] ?? null, await failure(() => f(x))];
    const again = await bundle.getFunction("classify");
    const after = await again(x);
    return [errors, after.digit[0] === before.digit[0], again.device !== f.device];
    """
    (pending, *errors), same, is_new = device.run(body)
    assert pending in (None, "DeviceLostError", "LaunchError")
    text = "the webgpu program 'classify': the GPU device was lost (it was destroyed). Ask for the function again: it then uses a new device"
    assert (errors, same, is_new) == ([["DeviceLostError", text]], True, True)
    browser.open(server.url)


def test_what_a_browser_refuses_is_named(device: BrowserDevice) -> None:
    kernels = devmod.compile(CLEARS, "webgpu", name="add")

    def program(shape: str, **declared: Any) -> str:
        options: dict[str, Any] = {
            "inputs": ["n: int32"],
            "outputs": [f"y: float32[{shape}] = 0"],
            "steps": ["add(y=y, n=n, threads=n)"],
            **declared,
        }
        return b64encode(devmod.dumps(devmod.program("p", kernels, **options))).decode()

    opencl = devmod.program(
        "p",
        devmod.compile("kernel void k(global float *y) { y[0] = 1; }", "opencl", block=1),
        outputs=["y: float32[1]"],
        steps=["k(y=y, threads=1)"],
    )
    files = [
        program("100_000_000"),
        program("n"),
        program("n, n, n, n"),
        b64encode(devmod.dumps(opencl)).decode(),
    ]
    body = """
    const adapter = await navigator.gpu.requestAdapter();
    const small = await adapter.requestDevice(); // the limits of any device
    const found = [];
    for (const data of argument) {
      found.push(await failure(async () => {
        const f = await (await kit.open(bytes(data))).getFunction("p", { device: small });
        await f(50_000_000);
      }));
    }
    small.destroy();
    return found;
    """
    fixed, of_call, many, none = device.run(body, files)
    limit = "but the limit of this device is 134217728 (maxStorageBufferBindingSize)"
    assert fixed == [
        "DeviceNotFoundError",
        f"the program 'p' cannot run here:\n  1. webgpu: it cannot run on this device: the array 'y' has 400000000 bytes, {limit}",
    ]
    assert of_call == [
        "ArgumentError",
        f"the webgpu program 'p': the array 'y' has 200000000 bytes, {limit}",
    ]
    shape = "(50000000, 50000000, 50000000, 50000000)"
    assert many == [
        "ArgumentError",
        f"the webgpu program 'p': the array 'y' of shape {shape} has more bytes than 64 bits can count",
    ]
    assert none[0] == "NoModuleError"
