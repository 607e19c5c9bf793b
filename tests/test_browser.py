"""The npm package in Chromium: results compared with NumPy, network requests, and errors."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples" / "demo")]

import cases  # noqa: E402 - the demo's kernels with their results in NumPy
from browser_driver import PRELUDE, Browser, FileServer, decode_array, encode_array, file_server  # noqa: E402
from transformer_port import PROJECT as TRANSFORMER  # noqa: E402
from transformer_port import cases as transformer_cases  # noqa: E402

WGSL = ROOT / "examples" / "webgpu"
TVM = ROOT / "core" / "tests" / "vectors" / "tvm"


@pytest.fixture
def page(empty_page: Browser) -> Browser:
    return empty_page


def run(page: Browser, body: str, argument: Any = None) -> Any:
    """Run the body of an async function in the page, with the package as `kit`."""
    return page.evaluate(PRELUDE + body, argument)


def fallback(
    code: dict[str, str], fmap: dict[str, devmod.FunctionInfo], monkeypatch: pytest.MonkeyPatch
) -> devmod.Module:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    return devmod.create_with_fallback(
        "webgpu", {name: text.encode() for name, text in code.items()}, "wgsl", fmap
    )


def compiled(text: str) -> bytes:
    return devmod.dumps(devmod.compile(text, "webgpu"))


# -- the examples, with the demo's own references


class DeviceBuffer:
    """An array on the browser's device."""

    def __init__(self, page: Browser, number: int, shape: tuple[int, ...], dtype: str) -> None:
        self._page, self.number, self._shape, self._dtype = page, number, shape, dtype

    def numpy(self) -> np.ndarray:
        size = int(np.prod(self._shape)) * np.dtype(self._dtype).itemsize
        found = run(
            self._page,
            """
            const [number, size] = argument;
            const room = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
            const encoder = device.createCommandEncoder();
            encoder.copyBufferToBuffer(buffers[number], 0, room, 0, size);
            device.queue.submit([encoder.finish()]);
            await room.mapAsync(GPUMapMode.READ);
            return text(new Uint8Array(room.getMappedRange()));
            """,
            [self.number, size],
        )
        return decode_array(found, self._dtype).reshape(self._shape)


class DeviceImage:
    """An image of bytes, or a sampler, on the browser's device."""

    def __init__(self, page: Browser, number: int) -> None:
        self._page, self.number = page, number

    def numpy(self) -> np.ndarray:
        shape, data = run(
            self._page,
            "return [buffers[argument].arrayShape, text(await buffers[argument].read())]",
            self.number,
        )
        return decode_array(data, "uint8").reshape(shape)


class BrowserModule:
    """A bundle in a browser, for the cases of the demo: its calls are bound launches. It is its own
    device, with buffers and images.
    """

    def __init__(self, page: Browser, address: str) -> None:
        self.page = page
        start = "window.device = await kit.defaultDevice(); window.buffers = []; window.bundle = await kit.open(argument);"
        run(page, start, address)

    def from_numpy(self, array: np.ndarray) -> DeviceBuffer:
        made = self.empty(array.shape, str(array.dtype))
        write = "device.queue.writeBuffer(buffers[argument[0]], 0, bytes(argument[1]))"
        run(self.page, write, [made.number, encode_array(array)])
        return made

    def empty(self, shape: tuple[int, ...], dtype: str) -> DeviceBuffer:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        usage = "GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST"
        number = run(
            self.page,
            f"return buffers.push(device.createBuffer({{ size: argument, usage: {usage} }})) - 1",
            size,
        )
        return DeviceBuffer(self.page, number, shape, dtype)

    def image_from_numpy(self, array: np.ndarray) -> DeviceImage:
        height, width = array.shape[:2]
        make = "new Uint8Array(bytes(argument[0])), { width: argument[1], height: argument[2] }"
        return self._image(f"kit.imageFrom({make})", [encode_array(array), width, height])

    def image(self, shape: tuple[int, ...], format: str) -> DeviceImage:
        return self._image("kit.image(...argument)", [shape, format])

    def sampler(self, **options: str) -> DeviceImage:
        return self._image("kit.sampler(argument)", options)

    def _image(self, make: str, argument: Any) -> DeviceImage:
        return DeviceImage(
            self.page, run(self.page, f"return buffers.push(await {make}) - 1", argument)
        )

    def __getitem__(self, name: str) -> Callable[..., None]:
        return partial(self._call, name)

    def _call(
        self,
        name: str,
        /,
        *args: Any,
        grid: Any = None,
        block: Any = None,
        threads: Any = None,
        **named: Any,
    ) -> None:
        """Call with the same names as in Python, or by position: `args` or `named` is empty."""

        def given(value: Any) -> Any:
            return (
                {"buffer": value.number}
                if isinstance(value, (DeviceBuffer, DeviceImage))
                else value
            )

        config = {"grid": grid, "block": block, "threads": threads}
        run(
            self.page,
            """
            const [name, args, config] = argument;
            const own = (value) => (typeof value === "object" ? buffers[value.buffer] : value);
            const given = Array.isArray(args) ? args.map(own) : Object.fromEntries(Object.entries(args).map(([key, value]) => [key, own(value)]));
            const f = await bundle.getFunction(name);
            const launch = await f.bind(given, config);
            launch.launch();
            launch.launch(); // again, before the first has finished
            await launch.done();
            launch.destroy();
            """,
            [
                name,
                [given(value) for value in args]
                or {key: given(value) for key, value in named.items()},
                {key: value for key, value in config.items() if value is not None},
            ],
        )


@pytest.fixture(scope="module")
def examples() -> bytes:
    """All examples in WGSL, and TVM's kernels, as one bundle."""
    modules: list[devmod.Module] = [
        devmod.compile(path, "webgpu") for path in sorted(WGSL.glob("*.wgsl"))
    ]
    for name in ("vadd", "matmul"):
        modules += devmod.interop.tvm.load_imports(
            (TVM / f"{name}.webgpu.tvmimports").read_bytes()
        ).imports
    return devmod.dumps(devmod.bundle(*modules))


@pytest.mark.row("R12", "R33", "R37")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number < 2 else [pytest.mark.volume])
        for number, name in enumerate(cases.CASES)
    ],
)
def test_the_examples_agree_with_numpy(
    page: Browser, server: FileServer, examples: bytes, name: str
) -> None:
    server.files["examples.devmod"] = examples
    case, _ = cases.CASES[name]
    module = BrowserModule(page, "examples.devmod")
    result = case(module, module, ROOT)
    assert result.error <= result.tolerance


@pytest.mark.row("R12", "R37")
def test_the_kernels_of_the_transformer_agree_with_numpy(page: Browser, server: FileServer) -> None:
    made = {case.name: case for case in transformer_cases()}
    sources = [TRANSFORMER / "kernels" / "webgpu" / f"{name}.wgsl" for name in made]
    server.files["transformer.devmod"] = devmod.dumps(
        devmod.bundle(*(devmod.compile(source, "webgpu") for source in sources))
    )
    calls = []
    for name, case in made.items():
        arrays = {
            key: [str(array.dtype), encode_array(array)]
            for key, array in case.arguments.items()
            if isinstance(array, np.ndarray)
        }
        config = {"threads": case.threads} if case.grid is None else {"grid": case.grid}
        calls.append([name, case.arguments | arrays, config])
    found = run(
        page,
        """
        const bundle = await kit.open("transformer.devmod");
        const types = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array };
        const results = {};
        for (const [name, args, config] of argument) {
          const array = ([type, data]) => new types[type](bytes(data));
          const given = Object.fromEntries(Object.entries(args).map(([key, value]) => [key, Array.isArray(value) ? array(value) : value]));
          await (await bundle.getFunction(name)).run(given, config);
          results[name] = Object.fromEntries(Object.entries(given).filter(([, value]) => value.buffer).map(([key, value]) => [key, text(value)]));
        }
        return results;
        """,
        calls,
    )
    for name, case in made.items():
        for key, data in found[name].items():
            given = case.arguments[key]
            case.arguments[key] = decode_array(data, str(given.dtype)).reshape(given.shape)
        case.check()


@pytest.mark.row("R34", "R35")
def test_tvms_vectors_run_as_tvm_calls_them(
    page: Browser, server: FileServer, examples: bytes
) -> None:
    """Launch values after the arguments, y before x in one of them; host arrays, copied in and
    back.
    """
    server.files["tvm.devmod"] = examples
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(-1, 1, 4096).astype(np.float32) for _ in range(2))
    found = run(
        page,
        """
        const bundle = await kit.open("tvm.devmod");
        const [a, b] = argument.map((each) => new Float32Array(bytes(each)));
        const vadd = await bundle.getFunction("vadd_kernel");
        const sum = new Float32Array(1024);
        await vadd.run([a.slice(0, 1024), b.slice(0, 1024), sum, 16, 64]);
        const matmul = await bundle.getFunction("matmul_kernel");
        const product = new Float32Array(4096);
        await matmul.run([a, b, product, 8, 8, 8, 8]);
        return [text(sum), text(product), vadd.block, await failure(() => vadd.run([a, b, sum], { threads: 1024, block: 32 }))];
        """,
        [encode_array(a), encode_array(b)],
    )
    assert found[2:] == [
        [64, 1, 1],
        [
            "ArgumentError",
            "the webgpu function 'vadd_kernel' is built for blocks of (64, 1, 1) threads, and (32, 1, 1) was given; omit block",
        ],
    ]
    assert np.array_equal(decode_array(found[0], "float32"), a[:1024] + b[:1024])
    assert np.allclose(
        decode_array(found[1], "float32").reshape(64, 64),
        a.reshape(64, 64) @ b.reshape(64, 64),
        atol=1e-5,
    )


@pytest.mark.row("R35")
def test_a_grid_over_the_limit_is_folded_as_tvm_does(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block runs once, and no extra block runs; a scalar precedes packGridDimX."""
    text = """
struct PODArgs { step: i32, packGridDimX: u32 }
@group(0) @binding(0) var<storage, read_write> counts : array<i32>;
@group(0) @binding(1) var<uniform> podArgs : PODArgs;
@compute @workgroup_size(1, 1, 1)
fn count(@builtin(workgroup_id) blockIdx : vec3<u32>, @builtin(num_workgroups) gridDim : vec3<u32>) {
  if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.packGridDimX) { return; }
  counts[blockIdx.z * gridDim.x + blockIdx.x] += podArgs.step;
}
"""
    info = devmod.FunctionInfo("count", ("handle", "int32"), ("blockIdx.x", "threadIdx.x"))
    server.files["fold.devmod"] = devmod.dumps(
        fallback({"count": text}, {"count": info}, monkeypatch)
    )
    found = run(
        page,
        """
        const count = await (await kit.open("fold.devmod")).getFunction("count");
        const made = [];
        for (const blocks of argument) {
          const counts = new Int32Array(blocks + 5);
          await count.run([counts, 3], { grid: blocks });
          made.push([counts.slice(0, blocks).every((each) => each === 3), counts.slice(blocks).every((each) => each === 0)]);
        }
        return made;
        """,
        [1, 65535, 65536, 100_003],
    )
    assert found == [[True, True]] * 4


# -- what is fetched


@pytest.mark.row("R41")
def test_one_kernel_of_a_hundred_megabytes_fetches_less_than_one(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a small kernel and a large module. The server counts the bytes that it sends."""
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    info = {"big": devmod.FunctionInfo("big", ("handle",))}
    large = devmod.create_with_fallback("cuda", b"\x7fELF" + bytes(100_000_000), "cubin", info)
    twice = devmod.compile(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
        "@compute @workgroup_size(64) fn twice(@builtin(global_invocation_id) id: vec3u) { x[id.x] *= 2.0; }",
        "webgpu",
    )
    server.files["large.devmod"] = devmod.dumps(devmod.bundle(large, twice))
    assert len(server.files["large.devmod"]) > 100_000_000
    found = run(
        page,
        """
        const bundle = await kit.open("large.devmod");
        const twice = await bundle.getFunction("twice");
        const x = Float32Array.from({ length: 128 }, (_, at) => at);
        await twice.run([x], { grid: 2 });
        return [...x];
        """,
    )
    assert found == [2 * value for value in range(128)]
    assert server.sent < 1_000_000, server.asked
    assert sum("large.devmod" in each for each in server.asked) == 2


def test_a_server_without_ranges(page: Browser, server: FileServer, examples: bytes) -> None:
    server.ranges = False
    server.files["k.devmod"] = examples
    assert run(page, 'return (await (await kit.open("k.devmod")).getFunction("sum")).name') == "sum"
    assert sum("k.devmod" in each for each in server.asked) == 1


# -- calls

SCALE = """
struct Pair { low: f32, high: f32 }
struct Scalars { factor: f32, shift: vec3f, on: u32 }
override TILE: u32 = 64;
@id(9) override extra: f32 = 0.0;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(1) @binding(1) var<uniform> scalars: Scalars;
@group(1) @binding(3) var<storage, read_write> pairs: array<Pair>;
@compute @workgroup_size(TILE)
fn scale(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < arrayLength(&y)) {
    y[id.x] = select(0.0, scalars.factor * x[id.x] + scalars.shift.z + extra, scalars.on == 1u);
  }
  if (id.x == 0u) { pairs[0].high += 1.0; }
}
"""


@pytest.mark.row("R34")
def test_bindings_scalars_structs_and_constants(page: Browser, server: FileServer) -> None:
    """Gaps in the bindings, two groups, a block with a vector, an override by name and one by
    number, an odd length.
    """
    server.files["scale.devmod"] = compiled(SCALE)
    found = run(
        page,
        """
        const scale = await (await kit.open("scale.devmod")).getFunction("scale");
        const x = new Float32Array([1, 2, 3, 4, 5]);
        const y = new Float32Array(5);
        const pairs = new Float32Array([7, 8]);
        await scale.run([x, y, 2, [0, 0, 0.5], 1, pairs], { grid: 1, block: 64 });
        const special = await scale.specialize({ TILE: 32, extra: 100 });
        const z = new Float32Array(5);
        await special.run([x, z, 2n, new Float32Array([0, 0, 0.5]), true, pairs], { grid: [1, 1], block: 32 });
        const again = new Float32Array(5); // earlier constants keep their values, as in Python
        await (await special.specialize({ 9: 1000n })).run([x, again, 2, [0, 0, 0.5], true, pairs], { grid: 1, block: 32 });
        const none = new Float32Array(5);
        await special.run([x, none, 2, [0, 0, 0.5], 1, pairs], { grid: 0 });
        const empty = new Float32Array(0);
        await scale.run([empty, empty.slice(), 2, [0, 0, 0], 1, pairs], { grid: 1 });
        return [[...y], [...z], [...pairs], [...none], again[0]];
        """,
    )
    assert found == [
        [2.5, 4.5, 6.5, 8.5, 10.5],
        [102.5, 104.5, 106.5, 108.5, 110.5],
        [7, 12],
        [0] * 5,
        1002.5,
    ]


@pytest.mark.row("R34")
def test_a_call_by_names_with_threads_is_that_by_position(
    page: Browser, server: FileServer
) -> None:
    server.files["scale.devmod"] = compiled(SCALE)
    found = run(
        page,
        """
        const scale = await (await kit.open("scale.devmod")).getFunction("scale");
        const x = Float32Array.from({ length: 130 }, (_, at) => at);
        const [y, z, some] = [0, 1, 2].map(() => new Float32Array(130));
        const pairs = new Float32Array(2);
        const given = { on: 1, factor: 2, pairs, shift: [0, 0, 0.5], x };
        await scale.run([x, y, 2, [0, 0, 0.5], 1, pairs], { grid: 3 });
        await scale.run({ ...given, y: z }, { threads: 130 });
        await scale.run({ ...given, y: some }, { threads: [65, 1], block: 64 });
        await scale.run({ ...given, y: some }, { threads: 0 });
        const small = await scale.specialize({ TILE: 32 });
        return [
          x.every((value, at) => y[at] === 2 * value + 0.5 && z[at] === y[at] && some[at] === (at < 128 ? y[at] : 0)), [...pairs], scale.block,
          scale.launchConfig({ threads: [130, 3n] }), small.block, small.launchConfig({ threads: 130 }).grid,
        ];
        """,
    )
    assert found == [
        True,
        [0, 3],
        [64, 1, 1],
        {"grid": [3, 3, 1], "block": [64, 1, 1]},
        [32, 1, 1],
        [5, 1, 1],
    ]


@pytest.mark.row("R34")
def test_a_block_is_given_by_its_members_or_as_one_record(
    page: Browser, server: FileServer
) -> None:
    server.files["scale.devmod"] = compiled(SCALE)
    found = run(
        page,
        """
        const scale = await (await kit.open("scale.devmod")).getFunction("scale");
        const { device } = scale;
        const x = new Float32Array([1, 2, 3, 4]);
        const pairs = new Float32Array(2);
        const values = { factor: 2, shift: [0, 0, 0.5], on: true };
        const data = new ArrayBuffer(32);
        new Float32Array(data).set([2, 0, 0, 0, 0, 0, 0.5]);
        new Uint32Array(data)[7] = 1;
        const found = [];
        for (const given of [values, { scalars: { ...values, on: 1 } }, { scalars: [2, [0, 0, 0.5], 1] }, { scalars: data }, { scalars: new Uint32Array(data) }]) {
          const y = new Float32Array(4);
          await scale.run({ x, y, pairs, ...given }, { threads: 4 });
          found.push([...y]);
        }
        const made = [x, x, pairs].map((each) => device.createBuffer({ size: each.byteLength, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST }));
        device.queue.writeBuffer(made[0], 0, x);
        const buffers = { x: made[0], y: made[1], pairs: made[2] };
        const launch = await scale.bind({ ...buffers, scalars: data }, { threads: 4 });
        new Float32Array(data).fill(0); // the launch has its own copy
        launch.launch();
        await launch.done();
        const y = new Float32Array(4);
        await scale.run({ x: made[1], y, pairs, ...values, shift: [0, 0, 0] }, { threads: 4 });
        const refused = await failure(() => scale.run({ x, y, pairs, ...values, scalars: values }, { threads: 4 }));
        return [found, [...y], refused];
        """,
    )
    assert found[:2] == [[[2.5, 4.5, 6.5, 8.5]] * 5, [5, 9, 13, 17]]
    assert found[2] == [
        "ArgumentError",
        f"{NAME} got argument 3 'factor' twice: by name and in the record scalars; {TAKES}",
    ]


@pytest.mark.row("R34")
def test_a_struct_by_value_is_a_record_of_its_members(page: Browser, server: FileServer) -> None:
    text = """
struct Light { on: u32, colour: vec3f }
struct Scene { matrix: mat2x3f, lights: array<Light, 2>, gamma: f32 }
@group(0) @binding(0) var<uniform> scene: Scene;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn k() {
  for (var i = 0; i < 2; i++) {
    for (var j = 0; j < 3; j++) {
      y[3 * i + j] = scene.matrix[i][j];
      y[6 + 3 * i + j] = f32(scene.lights[i].on) * scene.lights[i].colour[j];
    }
  }
  y[12] = scene.gamma;
}
"""
    server.files["k.devmod"] = compiled(text)
    found = run(
        page,
        """
        const k = await (await kit.open("k.devmod")).getFunction("k");
        const y = new Float32Array(13);
        const lights = [{ on: 1, colour: [7, 8, 9] }, [2, new Float32Array([10, 11, 12])]];
        await k.run({ y, scene: { gamma: 0.5, matrix: Float32Array.of(1, 2, 3, 4, 5, 6), lights } }, { threads: 1 });
        const refused = await failure(() => k.run({ y, scene: { gamma: 0.5, matrix: [[1, 2, 3], [4, 5, "6"]], lights } }, { threads: 1 }));
        return [[...y], refused];
        """,
    )
    assert found[0] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 22, 24, 0.5]
    message = "the webgpu function 'k': argument 1 'scene': member 'scene.matrix[1]': lane 2: '6' is not a number"
    assert found[1] == ["ArgumentError", message]


NAME = "the webgpu function 'scale'"
TAKES = "it takes 6 arguments (x, y, factor, shift, on, pairs)"


@pytest.fixture(scope="module")
def scale_server() -> Iterator[FileServer]:
    with file_server() as made:
        made.files["scale.devmod"] = compiled(SCALE)
        yield made


@pytest.fixture
def scaling(browser: Browser, scale_server: FileServer) -> Browser:
    """A page with the function above as `f`. All refused calls share it, because they change
    nothing.
    """
    if browser.address() != scale_server.url:
        browser.open(scale_server.url)
        run(browser, 'window.f = await (await kit.open("scale.devmod")).getFunction("scale");')
    return browser


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("call", "name", "message"),
    [
        (
            "f.run([x, y, 2, [0, 0, 0], 1], { grid: 1 })",
            "ArgumentError",
            f"{NAME} is missing an argument: 'pairs'; {TAKES}",
        ),
        (
            "f.run([x, y, { factor: 2, shift: [0, 0, 0], on: 1 }, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME} is missing arguments: 'on', 'pairs'; {TAKES}. A record is given by name: scalars: {{…}} in place of 'factor', 'shift', 'on'",
        ),
        (
            "f.run([new Int32Array(4), y, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 1 'x' is an array of int32, and the kernel takes float32; convert it before the call: "
            "array = Float32Array.from(array)",
        ),
        (
            "f.run([x, y, 'two', [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 3 'factor': 'two' is not a number",
        ),
        (
            "f.run([x, y, 2, [0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 4 'shift': 2 lanes cannot be passed as float32x3, which has 3 lanes",
        ),
        (
            "f.run([x, y, 2, [0, 0, 0], 1, new Float32Array(3)], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 6 'pairs' has 12 bytes, which is not a whole number of structs of 8 bytes",
        ),
        (
            "f.run([x, x, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 2 'y' is the same memory as argument 1 'x', and the kernel may write to one of them: WebGPU forbids "
            "that; pass a copy of it",
        ),
        (
            "f.run([null, y, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 1 'x' is null, and the kernel takes an array of float32",
        ),
        (
            "f.bind([x, y, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 1 'x' is in the host's memory, and bind takes device buffers: pass a GPUBuffer",
        ),
        (
            "f.run([x, y, 2, [0, 0, 0], 1, p], { grid: 1, block: 32 })",
            "ArgumentError",
            f"{NAME} is built for blocks of (64, 1, 1) threads, and (32, 1, 1) was given; omit block",
        ),
        (
            "f.run([x, y, 2, [0, 0, 0], 1, p], { grid: [1, 70000] })",
            "LaunchError",
            f"{NAME} cannot be launched on this device: its maxComputeWorkgroupsPerDimension is 65535, but grid=(1, 70000, 1) has more blocks "
            "in y; launch in several parts, or let the kernel index more dimensions",
        ),
        (
            "f.run([x, y, 2, [0, 0, 0], 1, p], { threads: 5_000_000 })",
            "LaunchError",
            f"{NAME} cannot be launched on this device: its maxComputeWorkgroupsPerDimension is 65535, but grid=(78125, 1, 1) has more blocks "
            "in x. threads=5000000 in blocks of 64 needs grid=78125; launch in several parts, or let the kernel index more dimensions",
        ),
        (
            "f.run([uniform, y, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 1 'x' is a GPUBuffer without the usage STORAGE, which kernels need",
        ),
        (
            "f.run([{ buffer: small, offset: 4 }, y, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 1 'x' has the offset 4, expected a multiple of 256 on this device",
        ),
        (
            "f.run([x, y, 2, [0, 0, 0], 1, small], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 6 'pairs' has 4 bytes, but the shader's variable needs at least 8",
        ),
        (
            "f.run([{ buffer: large, size: 256 }, { buffer: large, offset: 256 }, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 2 'y' lies in the same GPUBuffer as argument 1 'x', and the kernel may write to one of them: WebGPU forbids "
            "that; pass a copy of it",
        ),
        (
            "f.run([x, large, 2, [0, 0, 0], 1, large], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 6 'pairs' is the same memory as argument 2 'y', and the kernel may write to one of them: WebGPU forbids "
            "that; pass a copy of it",
        ),
        (
            "f.run([{ buffer: large, offset: -256 }, y, 2, [0, 0, 0], 1, p], { grid: 1 })",
            "ArgumentError",
            f"{NAME}: argument 1 'x' is bound with offset -256 and size 768, which are not counts of bytes",
        ),
        (
            "f.run([x, y, 2, [0, 0, 0], 1, p], null)",
            "ArgumentError",
            f"{NAME} needs threads, the number of threads, or grid, the number of blocks: a number, or up to three numbers for x, y, z",
        ),
        (
            "kit.open('scale.devmod').then((bundle) => bundle.getFunction('scale', { device: navigator.gpu }))",
            "ArgumentError",
            f"{NAME} expects a GPUDevice as its device, got a GPU",
        ),
        (
            "kit.open('scale.devmod').then((bundle) => bundle.getFunction())",
            "ArgumentError",
            "expected the name of a function as a string, got undefined",
        ),
        (
            "f.specialize({ extra: NaN })",
            "ArgumentError",
            f"{NAME} cannot take the constant 'extra': NaN is not finite, expected a finite number",
        ),
        (
            "f.specialize({ TILES: 3 })",
            "ArgumentError",
            f"{NAME} has no constant 'TILES' to specialize; it has: 'TILE', 'extra'",
        ),
        (
            "f.specialize({ TILE: 100000 })",
            "DeviceNotFoundError",
            f"{NAME} is built for blocks of (100000, 1, 1) threads, 100000 in all, but the limit of this "
            "device is {invocations} (maxComputeInvocationsPerWorkgroup)",
        ),
    ],
)
def test_wrong_calls_are_refused_with_a_reason(
    scaling: Browser, call: str, name: str, message: str
) -> None:
    found = run(
        scaling,
        f"""
        const x = new Float32Array(4), y = new Float32Array(4), p = new Float32Array(2);
        const uniform = f.device.createBuffer({{ size: 16, usage: GPUBufferUsage.UNIFORM }});
        const small = f.device.createBuffer({{ size: 4, usage: GPUBufferUsage.STORAGE }});
        const large = f.device.createBuffer({{ size: 512, usage: GPUBufferUsage.STORAGE }});
        return [await failure(() => {call}), f.device.limits.maxComputeInvocationsPerWorkgroup];
        """,
    )
    assert found[0] == [name, message.replace("{invocations}", str(found[1]))]
    assert scaling.messages() == []


def test_a_large_value_a_shader_without_a_default_and_a_feature(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["k.devmod"] = compiled(
        "override n: u32;\n@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn k() { x[0] = n; }"
    )
    interface = devmod.Interface(extra={"features": ["no-such-feature"]})
    info = devmod.FunctionInfo("k", (), interface=interface)
    server.files["feature.devmod"] = devmod.dumps(
        fallback({"k": "@compute @workgroup_size(1) fn k() {}"}, {"k": info}, monkeypatch)
    )
    found = run(
        page,
        """
        const k = await (await kit.open("k.devmod")).getFunction("k");
        const x = new Uint32Array(1);
        const refused = await failure(() => k.run([x], { grid: 1 }));
        await (await k.specialize({ n: 7 })).run([x], { grid: 1 });
        return [refused, x[0], await failure(async () => (await kit.open("feature.devmod")).getFunction("k"))];
        """,
    )
    assert found == [
        [
            "LaunchError",
            "the webgpu function 'k' has constants without a value; set them: await f.specialize({ n: … })",
        ],
        7,
        [
            "DeviceNotFoundError",
            "the webgpu function 'k' needs the feature 'no-such-feature', which this device does not support",
        ],
    ]


def test_a_device_of_the_callers_and_a_launch_in_the_callers_pass(
    page: Browser, server: FileServer
) -> None:
    server.files["k.devmod"] = compiled(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn up() { x[0] += 1u; }"
    )
    found = run(
        page,
        """
        const device = await (await navigator.gpu.requestAdapter()).requestDevice();
        const up = await (await kit.open("k.devmod")).getFunction("up", { device });
        const buffer = device.createBuffer({ size: 4, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC });
        const launch = await up.bind([buffer], { grid: 1 });
        const encoder = device.createCommandEncoder();
        const pass = encoder.beginComputePass();
        launch.encode(pass);
        launch.encode(pass);
        pass.end();
        const room = device.createBuffer({ size: 4, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
        encoder.copyBufferToBuffer(buffer, 0, room, 0, 4);
        device.queue.submit([encoder.finish()]);
        await room.mapAsync(GPUMapMode.READ);
        return [up.device === device, new Uint32Array(room.getMappedRange())[0]];
        """,
    )
    assert found == [True, 2]


def test_failed_launches_and_destroyed_launches_raise(page: Browser, server: FileServer) -> None:
    """Neither fails silently."""
    server.files["k.devmod"] = compiled(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn up() { x[0] += 1u; }"
    )
    found = run(
        page,
        """
        const up = await (await kit.open("k.devmod")).getFunction("up");
        const buffer = up.device.createBuffer({ size: 4, usage: GPUBufferUsage.STORAGE });
        const launch = await up.bind([buffer], { grid: 1 });
        launch.launch();
        await launch.done();
        buffer.destroy();
        launch.launch();
        const refused = await failure(() => launch.done());
        const second = await failure(() => launch.done());
        launch.destroy();
        const pass = up.device.createCommandEncoder().beginComputePass();
        return [refused, second, await failure(() => launch.launch()), await failure(() => launch.encode(pass))];
        """,
    )
    assert found[0][0] == "LaunchError"
    assert found[0][1].startswith("the webgpu function 'up': ")
    assert "destroyed" in found[0][1]
    assert found[1] is None
    assert (
        found[2:]
        == [
            [
                "LaunchError",
                "the webgpu function 'up': this launch was destroyed; bind the function again",
            ]
        ]
        * 2
    )


# -- what cannot run


def test_a_shader_that_does_not_compile_is_quoted_with_its_line(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "@compute @workgroup_size(1)\nfn broken() {\n  let x: u32 = nothing;\n}\n"
    server.files["k.devmod"] = devmod.dumps(
        fallback({"broken": text}, {"broken": devmod.FunctionInfo("broken", ())}, monkeypatch)
    )
    name, message = run(
        page, 'return failure(async () => (await kit.open("k.devmod")).getFunction("broken"))'
    )
    assert name == "CompileError"
    head, *log = message.split("\n")
    assert head == "the webgpu function 'broken' does not compile in this browser:"
    assert log[0].startswith("line 3, column 16: ")
    assert "nothing" in log[0]
    assert log[1:] == ["    let x: u32 = nothing;", "                 ^"]


def test_an_interface_that_differs_from_the_shader_is_a_launch_error(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "@group(0) @binding(5) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn k() { x[0] = 1.0; }"
    interface = devmod.Interface([devmod.Param("x", "buffer", "float32", "rw", (0, 0))])
    info = devmod.FunctionInfo("k", ("handle",), interface=interface)
    server.files["k.devmod"] = devmod.dumps(fallback({"k": text}, {"k": info}, monkeypatch))
    name, message = run(
        page, 'return failure(async () => (await kit.open("k.devmod")).getFunction("k"))'
    )
    assert name == "LaunchError"
    assert message.startswith("the webgpu function 'k' cannot be built on this device: ")
    assert "@binding(5)" in message or "binding: 5" in message


@pytest.mark.row("R4", "R24")
def test_a_bundle_without_a_webgpu_module_lists_its_modules(
    page: Browser, server: FileServer
) -> None:
    server.files["k.devmod"] = (ROOT / "tests" / "golden" / "v1" / "variants.devmod").read_bytes()
    kinds = {module.kind for module in devmod.loads(server.files["k.devmod"]).imports}
    assert "webgpu" not in kinds
    name, message = run(
        page, 'return failure(async () => (await kit.open("k.devmod")).getFunction("add"))'
    )
    assert name == "NoModuleError"
    head, listed = message.split(" It has: ")
    assert (
        head
        == f"'{server.url}k.devmod' has no webgpu module, so none of its functions can run in a browser."
    )
    assert listed.endswith(
        ". Compile its sources for webgpu too (devmod compile … -t webgpu), and save both in one file with devmod.bundle"
    )
    for kind in kinds:
        assert kind in listed


def test_a_function_that_only_other_kinds_have(page: Browser, server: FileServer) -> None:
    server.files["k.devmod"] = (ROOT / "tests" / "golden" / "v1" / "tree.devmod").read_bytes()
    found = run(page, 'return failure(async () => (await kit.open("k.devmod")).getFunction("add"))')
    assert found[0] == "FunctionNotFoundError"
    assert found[1].startswith(
        f"'{server.url}k.devmod' has no webgpu function 'add'; there is: 'scale'. It exists for cuda ptx for compute_90"
    )


@pytest.mark.row("R41")
def test_a_damaged_module_is_refused_before_it_is_used(
    page: Browser, server: FileServer, examples: bytes
) -> None:
    damaged = bytearray(examples)
    damaged[damaged.index(b"fn mandelbrot") + 3] ^= 1
    server.files["k.devmod"] = bytes(damaged)
    found = run(
        page, 'return failure(async () => (await kit.open("k.devmod")).getFunction("mandelbrot"))'
    )
    message = (
        f"'{server.url}k.devmod': the webgpu module with 'mandelbrot' is damaged: its SHA-256 is not the one in the index. "
        "Nothing of it was used. Get the file again from where it came"
    )
    assert found == ["FormatError", message]


def test_http_compresses_a_file_that_the_page_fetches_whole(
    page: Browser, server: FileServer, examples: bytes
) -> None:
    """What the error for compressed bytes says: write the file without, and let HTTP compress
    it.
    """
    packed = devmod.dumps(devmod.loads(examples), compress="zstd")
    server.files["packed.devmod"] = packed
    use = 'return failure(async () => (await kit.open("packed.devmod")).getFunction("mandelbrot"))'
    message = (
        f"'{server.url}packed.devmod': the webgpu module with 'mandelbrot' is compressed with zstd, which browsers cannot decompress. "
        "Write the file without compression: devmod bundle kernels.devmod -o plain.devmod --compress none. "
        "HTTP compresses it on the way, if the page opens the whole response: await open(await (await fetch(url)).blob())"
    )
    assert run(page, use) == ["FormatError", message]
    server.files["plain.devmod"] = devmod.dumps(devmod.loads(packed), compress="none")
    assert server.files["plain.devmod"] == examples
    server.compresses, server.sent = True, 0
    whole = 'const bundle = await kit.open(await (await fetch("plain.devmod")).blob());'
    assert (
        run(page, f'{whole} return (await bundle.getFunction("mandelbrot")).name') == "mandelbrot"
    )
    assert server.sent < len(examples) / 2
    assert (
        run(page, 'return (await (await kit.open("plain.devmod")).getFunction("mandelbrot")).name')
        == "mandelbrot"
    )


def test_a_lost_device_raises_and_is_replaced(page: Browser, server: FileServer) -> None:
    server.files["k.devmod"] = compiled(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn up() { x[0] += 1u; }"
    )
    found = run(
        page,
        """
        const bundle = await kit.open("k.devmod");
        const up = await bundle.getFunction("up");
        up.device.destroy();
        await up.device.lost;
        const x = new Uint32Array(1);
        const refused = await failure(() => up.run([x], { grid: 1 }));
        await (await bundle.getFunction("up")).run([x], { grid: 1 });
        const device = await kit.requestDevice();
        const other = await bundle.getFunction("up", { device });
        device.destroy();
        await device.lost;
        return [refused, x[0], (await failure(() => other.run([x], { grid: 1 })))[1]];
        """,
    )
    lost = "the webgpu function 'up': the GPU device was lost (it was destroyed). Ask for the function again"
    assert found == [
        ["DeviceLostError", f"{lost}: it then uses a new device"],
        1,
        f"{lost}, with a new device of yours",
    ]


def test_a_lost_device_and_an_array_deleted_while_a_kernel_runs(
    page: Browser, server: FileServer
) -> None:
    server.files["k.devmod"] = compiled(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn up() { x[0] += 1u; }"
    )
    found = run(
        page,
        """
        const bundle = await kit.open("k.devmod");
        const up = await bundle.getFunction("up");
        const x = new Uint32Array(1);
        const running = failure(() => up.run([x], { grid: 1 }));
        structuredClone(x.buffer, { transfer: [x.buffer] });
        const gone = await running;
        const lost = failure(() => up.run([new Uint32Array(1)], { grid: 1 }));
        up.device.destroy();
        return [gone, await lost];
        """,
    )
    assert found[0] == [
        "LaunchError",
        "the webgpu function 'up': an array was transferred or resized while it ran, so its results cannot be copied back",
    ]
    assert found[1][0] == "DeviceLostError"


def test_more_than_one_function_of_a_text_is_one_shader_module(
    page: Browser, server: FileServer
) -> None:
    server.files["k.devmod"] = compiled(
        "@compute @workgroup_size(1) fn one() {}\n@compute @workgroup_size(1) fn two() {}"
    )
    found = run(
        page,
        """
        const device = await kit.requestDevice();
        let count = 0;
        const original = device.createShaderModule.bind(device);
        device.createShaderModule = (given) => (count++, original(given));
        const bundle = await kit.open("k.devmod");
        await Promise.all(["one", "two", "one"].map((name) => bundle.getFunction(name, { device })));
        return count;
        """,
    )
    assert found == 1


def test_a_file_from_the_disk(page: Browser, examples: bytes) -> None:
    digest = hashlib.sha256(examples).hexdigest()
    found = run(
        page,
        """
        const file = new File([bytes(argument)], "dropped.devmod");
        const bundle = await kit.open(file);
        const hash = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
        const hex = [...new Uint8Array(hash)].map((each) => each.toString(16).padStart(2, "0")).join("");
        return [hex, bundle.place, (await bundle.getFunction("mandelbrot")).name];
        """,
        encode_array(np.frombuffer(examples, np.uint8)),
    )
    assert found == [digest, "'dropped.devmod'", "mandelbrot"]


def test_without_webgpu_the_package_reads_bundles_and_raises_for_kernels(
    browser: Browser, server: FileServer, examples: bytes
) -> None:
    server.files["k.devmod"] = examples
    browser.open(server.url, {"script": "GPU.prototype.requestAdapter = async () => null"})
    found = run(
        browser,
        """
        const bundle = await kit.open("k.devmod");
        const source = await bundle.find("mandelbrot").inspectSource();
        const refused = await failure(() => bundle.getFunction("mandelbrot"));
        Object.defineProperty(navigator, "gpu", { value: undefined });
        return [refused, source.includes("fn mandelbrot"), await failure(() => bundle.getFunction("mandelbrot"))];
        """,
    )
    browser.open("about:blank")  # the other tests have WebGPU
    adapter = "this browser supports WebGPU but found no adapter: there is no supported GPU, or its driver is blocked (see chrome://gpu or about:support)"
    missing = (
        "this browser does not support WebGPU, so no kernel can run. Chrome and Edge 113, Safari 26, Firefox 141 and newer support it; "
        "on Linux it may need to be enabled (chrome://flags/#enable-unsafe-webgpu, dom.webgpu.enabled)"
    )
    assert found == [["DeviceNotFoundError", adapter], True, ["DeviceNotFoundError", missing]]
