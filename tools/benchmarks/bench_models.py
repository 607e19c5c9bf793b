"""Whole models of one file beside tinygrad's own JIT on the same OpenCL device, and beside
onnxruntime on the same processor.

    python tools/benchmarks/bench_models.py [--rounds 200]

The models have random weights: a perceptron, a small convolutional network, and two layers of a
transformer. ResNet-18 is tuned, too. Each round runs the JIT, a call with device arrays and a
prepared launch in turn, each with a wait for its end; figures are medians. Both sides run kernels
of tinygrad's OpenCL renderer on Intel's runtime (`make test-setup`): tinygrad does not know the
trick by which PoCL compiles for any processor. If the volume tests have fetched the wheels magika,
rapidocr-onnxruntime, ddddocr and onnxruntime into build/onnx-models, their models run on each
OpenCL device and by onnxruntime too. Each model is tuned on these devices, and its calls are
compared with those of the same file without its records.
Whole models, products of matrices, attention, convolutions and recurrent layers are compared with
onnxruntime by the time of the processor, in turns, without tuning.
The exit code is 1 if a ratio is over its bound.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from timing import check, medians_of, record

import devmod

ROOT = Path(__file__).resolve().parents[2]
BOUNDS = {"a call": 1.0, "a prepared launch": 0.9}
#: The most time of a tuned call on Intel's runtime, of that with tinygrad's heuristic. No device
#: takes more than `MOST`.
TUNED = {"magika": 0.7, "boxes": 0.7, "resnet": 0.7}
MOST = 1.05
#: The rows, the sum and the columns of products, and the most processor time of a call on Intel's
#: runtime, of onnxruntime's.
PRODUCTS = [(480, 512, 512), (48, 576, 1600), (240, 1152, 400), (128, 512, 512)]
PROCESSOR = 1.3
#: The heads, the queries, the keys and the size of a head; the channels, the filters, their size,
#: the length of the image, the step and the groups; and the most processor time of these.
ATTENTION = [(8, 128, 128, 64), (12, 197, 197, 64), (8, 512, 512, 64), (8, 1, 512, 64)]
CONVOLUTIONS = [
    *((3, 64, 7, 224, 2, 1), (3, 32, 3, 112, 1, 1), (32, 32, 5, 56, 1, 1), (16, 16, 9, 28, 1, 1)),
    *((64, 64, 3, 56, 1, 1), (64, 128, 3, 56, 2, 1), (512, 512, 3, 7, 1, 1), (64, 128, 1, 56, 1, 1)),
    *((64, 64, 3, 56, 1, 64), (64, 64, 5, 56, 2, 64), (96, 96, 7, 28, 1, 96), (64, 64, 3, 28, 1, 8)),
]  # fmt: skip
OTHERS = 2.5
#: The same of a recurrent layer.
RECURRENT = 6.0
#: The operator, the gates, the positions, the sequences, the features, the size of a state, and the
#: direction of recurrent layers.
LAYERS = [
    ("LSTM", 4, 491, 1, 192, 192, "forward"),
    ("LSTM", 4, 491, 1, 64, 256, "bidirectional"),
    ("GRU", 3, 491, 1, 64, 128, "forward"),
    ("GRU", 3, 491, 4, 64, 128, "reverse"),
    ("LSTM", 4, 491, 8, 96, 96, "forward"),
]
#: The calls of a turn.
CALLS = 20
#: The calls of a turn of a whole model.
FEW_CALLS = 5
#: For how long a model's kernels of the heuristic are measured, at most about.
SECONDS = 10
ONNX = {
    "magika": ("magika/models/standard_v3_3/model.onnx", (1, 2048), np.int32),
    "direction": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        (1, 3, 48, 192),
        np.float32,
    ),
    "boxes": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        (1, 3, 160, 320),
        np.float32,
    ),
    "characters": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        (1, 3, 48, 320),
        np.float32,
    ),
}
#: Those that are compared by the time of the processor alone.
MORE = {
    "common": ("ddddocr/common.onnx", (1, 1, 64, 160), np.float32),
    "detection": ("ddddocr/common_det.onnx", (1, 3, 416, 416), np.float32),
}


def models(device: str) -> dict[str, tuple[Any, Any]]:
    """Return each model, a function of a Tensor, and its input. Its weights are on a device of
    tinygrad's.
    """
    from tinygrad import Tensor

    numbers = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return Tensor(
            (numbers.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32),
            device=device,
        ).realize()

    first = weight(512, 784)
    second = weight(512, 512)
    third = weight(10, 512)
    one = weight(32, 1, 5, 5)
    two = weight(64, 32, 3, 3)
    last = weight(10, 6400)
    table = weight(512, 64)
    layers = []
    for _ in range(2):
        layer = {"q": weight(64, 64), "k": weight(64, 64), "v": weight(64, 64)}
        layers.append(layer | {"up": weight(64, 256)})
    down = [weight(256, 64) for _ in layers]

    def perceptron(x: Any) -> Any:
        return (x @ first.T).relu().linear(second.T).relu() @ third.T

    def convolutions(x: Any) -> Any:
        return x.conv2d(one).relu().max_pool2d(2).conv2d(two).relu().flatten(1) @ last.T

    def heads(x: Any) -> Any:
        return x.reshape(1, 16, 4, 16).transpose(1, 2)

    def transformer(tokens: Any) -> Any:
        x = table[tokens]
        for layer, back in zip(layers, down, strict=True):
            q = heads(x.layernorm() @ layer["q"])
            k = heads(x.layernorm() @ layer["k"])
            v = heads(x.layernorm() @ layer["v"])
            x = x + q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(
                1, 16, 64
            )
            x = x + (x.layernorm() @ layer["up"]).gelu() @ back
        return x @ table.T

    return {
        "perceptron": (perceptron, numbers.standard_normal((4, 784)).astype(np.float32)),
        "convolutions": (convolutions, numbers.standard_normal((2, 1, 28, 28)).astype(np.float32)),
        "transformer": (transformer, numbers.integers(0, 512, (1, 16)).astype(np.int32)),
    }


def resnet(device: str) -> tuple[Any, Any]:
    """Return ResNet-18, a function of a Tensor, with random weights and its normalizations folded
    into its convolutions, and its input.
    """
    from tinygrad import Tensor

    numbers = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        deviation = (2 / np.prod(shape[1:])) ** 0.5
        return Tensor(
            (numbers.standard_normal(shape) * deviation).astype(np.float32), device=device
        ).realize()

    first = weight(64, 3, 7, 7)
    blocks: list[dict[str, Any]] = []
    channels = 64
    for width in (64, 128, 256, 512):
        for stride in (1 if width == channels else 2, 1):
            block = {
                "stride": stride,
                "one": weight(width, channels, 3, 3),
                "two": weight(width, width, 3, 3),
            }
            if width != channels:
                block["shortcut"] = weight(width, channels, 1, 1)
            blocks.append(block)
            channels = width
    last = weight(1000, 512)

    def classes(x: Any) -> Any:
        x = x.conv2d(first, stride=2, padding=3).relu().max_pool2d(3, 2, padding=1)
        for block in blocks:
            stride = block["stride"]
            inner = x.conv2d(block["one"], stride=stride, padding=1).relu()
            inner = inner.conv2d(block["two"], padding=1)
            if "shortcut" in block:
                x = x.conv2d(block["shortcut"], stride=stride)
            x = (x + inner).relu()
        return x.mean((2, 3)) @ last.T

    return classes, numbers.standard_normal((1, 3, 224, 224)).astype(np.float32)


def beside_the_jit(rounds: int) -> bool:
    """Measure the models, and return whether a ratio is over its bound."""
    runtime = Path(sys.prefix) / "lib" / "libintelocl.so"
    device = next(
        (each for each in devmod.devices() if each.kind == "opencl" and "pthread" not in each.name),
        None,
    )
    if device is None or not runtime.exists():
        print(
            "tinygrad's JIT is not measured: Intel's OpenCL runtime is not here (make test-setup)"
        )
        return False
    place = "CL"  # the one platform of Intel's loader
    for_loader = {
        "OPENCL_PATH": str(runtime.with_name("libOpenCL.so.1")),
        "OCL_ICD_FILENAMES": str(runtime),
        "DEV": place,
    }
    os.environ |= for_loader
    from tinygrad import Device, Tensor, TinyJit

    from devmod.interop import tinygrad

    own: Any = Device[place]
    for each in for_loader:  # else processes of the searches have no device of Intel's
        del os.environ[each]
    failed = False
    for label, (fn, x) in models(place).items():
        jit = TinyJit(partial(realized, fn))
        tensor = Tensor(x, device=place).realize()
        expected = [jit(tensor) for _ in range(3)][-1].numpy()
        with tinygrad.cpu():
            exported, example = models_on_cpu(label)
            module = tinygrad.export(exported, example, targets="opencl", name=label)
        f: Any = devmod.loads(devmod.dumps(module))[label].on(device)
        array = device.from_numpy(x)
        out = device.empty(expected.shape, "float32")
        f(array, y=out)
        np.testing.assert_allclose(out.numpy(), expected, rtol=0, atol=1e-4 * abs(expected).max())
        launch = f.bind(array, y=out)
        runs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "tinygrad's JIT": (partial(jit, tensor), own.synchronize),
            "a call": (partial(f, array, y=out), device.synchronize),
            "a prepared launch": (launch, device.synchronize),
        }
        times: dict[str, list[float]] = defaultdict(list)
        for _ in range(rounds):
            for each, (run, wait) in runs.items():
                run()  # the first one after another context's takes up to three times as long
                wait()
                began = time.perf_counter()
                run()
                wait()
                times[each].append(time.perf_counter() - began)
        medians = medians_of(times)
        for each, bound in BOUNDS.items():
            failed |= check(
                f"{label}, {each}",
                medians[each] / medians["tinygrad's JIT"],
                bound,
                of="tinygrad's JIT",
            )
    return failed


def beside_the_heuristic(label: str, module: Any, x: Any, rounds: int) -> bool:
    """Measure a tuned model on each OpenCL device beside itself without records, and return whether
    a ratio is over its bound.
    """
    failed = False
    for device in devmod.devices("opencl"):
        array = device.from_numpy(x)
        tuned: Any = devmod.loads(module)[label].on(device)
        os.environ["DEVMOD_TUNE"] = "off"
        plain: Any = devmod.loads(module)[label].on(device)  # it chooses here
        plain(array)
        del os.environ["DEVMOD_TUNE"]
        began = time.perf_counter()
        plain(array)
        device.synchronize()
        once = time.perf_counter() - began
        times: dict[str, list[float]] = defaultdict(list)
        for _ in range(min(rounds, ceil(SECONDS / once))):
            for each, f in {"tuned": tuned, "plain": plain}.items():
                f(array)
                device.synchronize()
                began = time.perf_counter()
                f(array)
                device.synchronize()
                times[each].append(time.perf_counter() - began)
        medians = medians_of(times)
        name = runtime_of(device)
        bound = MOST
        if name != "PoCL":
            bound = TUNED.get(label, MOST)
        failed |= check(
            f"{label}, tuned, {name}",
            medians["tuned"] / medians["plain"],
            bound,
            of="the heuristic's kernels",
        )
    return failed


def runtime_of(device: Any) -> str:
    """Return the name of an OpenCL device's runtime."""
    return "PoCL" if device.name.startswith("pthread") else "Intel's runtime"


def tuned_models(rounds: int) -> bool:
    """Tune the models with random weights, and return whether a ratio is over its bound."""
    from tinygrad import Tensor

    from devmod.interop import tinygrad

    failed = False
    own = models("CPU")
    for label, (fn, x) in {
        "perceptron": own["perceptron"],
        "transformer": own["transformer"],
        "resnet": resnet("CPU"),
    }.items():
        began = time.perf_counter()
        with tinygrad.cpu():
            module = tinygrad.export(fn, Tensor(x), targets="opencl", name=label, tune=[x])
        print(f"{label}: exported and tuned in {time.perf_counter() - began:.0f} s")
        failed |= beside_the_heuristic(label, devmod.dumps(module), x, rounds)
    return failed


def kernels_beside_onnxruntime(rounds: int) -> bool:
    """Measure products, attention and convolutions without tuning, and return whether a ratio is
    over its bound.
    """
    if not (find_spec("onnxruntime") and find_spec("onnx")):
        return False
    from onnx import helper
    from tinygrad import Tensor

    failed = False
    for rows, length, columns in PRODUCTS:
        failed |= beside_one_node(
            f"product of {rows} × {length} by {length} × {columns}",
            [helper.make_node("MatMul", ["a", "b"], ["y"])],
            {"a": (rows, length), "b": (length, columns)},
            lambda a, b: a @ b,
            rounds,
            PROCESSOR,
        )
    for heads, queries, keys, size in ATTENTION:
        failed |= beside_one_node(
            f"attention of {heads} heads of {size}, {queries} by {keys}",
            [
                helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
                helper.make_node("MatMul", ["q", "turned"], ["scores"]),
                helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
                helper.make_node("MatMul", ["weights", "v"], ["y"]),
            ],
            {
                "q": (1, heads, queries, size),
                "k": (1, heads, keys, size),
                "v": (1, heads, keys, size),
            },
            lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v,
            rounds,
            OTHERS,
        )
    for inputs, filters, size, length, step, groups in CONVOLUTIONS:
        pad = size // 2
        options = {"strides": [step] * 2, "pads": [pad] * 4, "group": groups}
        name = f"{size} × {size} of {inputs} by {filters}"
        if groups > 1:
            name += f" in {groups} groups"

        def convolution(
            x: Tensor, w: Tensor, *, pad: int = pad, step: int = step, groups: int = groups
        ) -> Tensor:
            return x.conv2d(w, padding=pad, stride=step, groups=groups)

        failed |= beside_one_node(
            f"convolution {name}, {length} × {length}, step {step}",
            [helper.make_node("Conv", ["x", "w"], ["y"], **options)],
            {"x": (1, inputs, length, length), "w": (filters, inputs // groups, size, size)},
            convolution,
            rounds,
            OTHERS,
        )
    for operator, gates, turns, batch, features, size, direction in LAYERS:
        directions = 1 + (direction == "bidirectional")
        node = helper.make_node(
            operator, ["x", "w", "r", "b"], ["y"], hidden_size=size, direction=direction
        )
        failed |= beside_one_node(
            f"{operator} of {turns} positions, {batch} × {features} to {size}, {direction}",
            [node],
            {
                "x": (turns, batch, features),
                "w": (directions, gates * size, features),
                "r": (directions, gates * size, size),
                "b": (directions, 2 * gates * size),
            },
            None,
            rounds,
            RECURRENT,
            scale=0.1,
        )
    return failed


def of_command(model: Any) -> Any:
    """Return what `devmod onnx` makes of a model for opencl."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "node.onnx")
        path.write_bytes(model.SerializeToString())
        target = path.with_suffix(".devmod")
        command = [sys.executable, "-m", "devmod", "onnx", str(path), "-t", "opencl", "-q"]
        subprocess.run([*command, "-o", str(target), "--name", "node"], check=True)
        return devmod.loads(target.read_bytes())


def beside_one_node(
    label: str,
    nodes: list[Any],
    shapes: dict[str, tuple[int, ...]],
    fn: Callable[..., Any] | None,
    rounds: int,
    bound: float,
    scale: float = 1.0,
) -> bool:
    """Measure a function beside the nodes of ONNX that are the same, on Intel's runtime, by the
    time of the processor; without a function, what `devmod onnx` makes of the nodes. Return whether
    the ratio is over its bound. `scale` is that of the weights.
    """
    from onnx import helper
    from tinygrad import Tensor

    from devmod.interop import tinygrad

    numbers = np.random.default_rng(0)
    arrays = {}
    for name, shape in shapes.items():
        arrays[name] = numbers.standard_normal(shape).astype(np.float32)
    # onnxruntime arranges weights when it loads the model.
    weights = []
    values = []
    for name, shape in shapes.items():
        if name in ("w", "r", "b") and "w" in shapes:
            arrays[name] *= np.float32(scale)
            weights.append(helper.make_tensor(name, 1, shape, arrays[name].ravel()))
        else:
            values.append(helper.make_tensor_value_info(name, 1, shape))
    result = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(nodes, "node", values, [result], weights)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    session = session_of(model.SerializeToString())
    feeds = {each.name: arrays[each.name] for each in session.get_inputs()}
    wanted = session.run(None, feeds)[0]
    if fn is None:
        module = of_command(model)
        arrays = feeds
    else:
        with tinygrad.cpu():
            examples = [Tensor.empty(*shape) for shape in shapes.values()]
            module = tinygrad.export(
                fn, *examples, targets="opencl", name="node", names=[*shapes], outputs=["y"]
            )
    failed = False
    for device in devmod.devices("opencl"):
        if runtime_of(device) == "PoCL":
            continue
        own = [device.from_numpy(each) for each in arrays.values()]
        out = device.empty(wanted.shape, "float32")
        launch = module["node"].on(device).bind(*own, y=out)
        launch()
        np.testing.assert_allclose(out.numpy(), wanted, rtol=0, atol=1e-4 * abs(wanted).max())
        failed |= beside_in_turns(
            label, partial(session.run, None, feeds), launch, device, rounds, bound
        )
    return failed


def beside_in_turns(
    label: str,
    reference: Callable[[], object],
    run: Callable[[], object],
    device: Any,
    rounds: int,
    bound: float,
    calls: int = CALLS,
) -> bool:
    """Measure the processor time of calls on a device beside that of onnxruntime, in turns, and
    return whether the ratio is over its bound.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for each, own in {"onnxruntime": reference, "devmod": run}.items():
            began = time.process_time()
            for _ in range(calls):
                own()
            device.synchronize()
            times[each].append(time.process_time() - began)
    medians = medians_of(times)
    return check(
        f"{label}, processor time",
        medians["devmod"] / medians["onnxruntime"],
        bound,
        of="onnxruntime",
    )


def session_of(model: Any) -> Any:
    """Return onnxruntime's session of a model, or of a path. A thread of it that waits for work
    would take time of the processor.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def whole_models_beside_onnxruntime(rounds: int) -> bool:
    """Measure models of wheels without tuning, and return whether a ratio is over its bound."""
    folder = ROOT / "build" / "onnx-models"
    failed = False
    for path, shape, dtype in {**ONNX, **MORE}.values():
        device = next(
            (each for each in devmod.devices("opencl") if runtime_of(each) != "PoCL"), None
        )
        if device is None or not (folder / path).exists():
            continue
        package = path.partition("/")[0]
        (found,) = (
            each
            for each in metadata.distributions(path=[str(folder)])
            if each.name.replace("-", "_") == package
        )
        session = session_of(str(folder / path))
        name = session.get_inputs()[0].name
        numbers = np.random.default_rng(0)
        x: Any = numbers.standard_normal(shape).astype(dtype)
        if dtype is np.int32:
            x = numbers.integers(0, 256, shape).astype(dtype)
        target = Path(tempfile.gettempdir(), f"{package}-{os.getpid()}.devmod")
        command = [sys.executable, "-m", "devmod", "onnx", str(folder / path), "-t", "opencl"]
        command += ["-q", "-o", str(target), "--name", "model"]
        dims = f"{name}={','.join(map(str, shape))}"
        subprocess.run([*command, "--dim", dims], check=True)
        f: Any = devmod.load(target)["model"].on(device)
        target.unlink()
        array = device.from_numpy(x)
        f(array)
        failed |= beside_in_turns(
            f"{package} {found.version}, {Path(path).name}",
            partial(session.run, None, {name: x}),
            partial(f, array),
            device,
            rounds,
            OTHERS,
            FEW_CALLS,
        )
    return failed


def realized(fn: Any, x: Any) -> Any:
    """Return the result of a function of a Tensor, computed."""
    return fn(x).realize()


def models_on_cpu(label: str) -> tuple[Any, Any]:
    """Return a model on tinygrad's CPU device, as an export takes it."""
    from tinygrad import Tensor

    fn, x = models("CPU")[label]
    return fn, Tensor(x)


def beside_onnxruntime(rounds: int) -> bool:
    """Record the times of models of others, and return whether a tuned one is over its bound."""
    folder = ROOT / "build" / "onnx-models"
    if not (folder / "done").exists():
        return False
    failed = False
    sys.path.append(str(folder))
    import onnxruntime

    for label, (path, shape, dtype) in ONNX.items():
        numbers = np.random.default_rng(0)
        x = (
            numbers.integers(0, 256, shape).astype(dtype)
            if dtype is np.int32
            else numbers.standard_normal(shape).astype(dtype)
        )
        target = folder / f"{label}.devmod"
        session = onnxruntime.InferenceSession(
            str(folder / path), providers=["CPUExecutionProvider"]
        )
        name = session.get_inputs()[0].name
        command = [
            sys.executable,
            "-m",
            "devmod",
            "onnx",
            str(folder / path),
            "-t",
            "opencl",
            "--tune",
            "-q",
            "-o",
            str(target),
            "--name",
            label,
        ]
        subprocess.run([*command, "--dim", f"{name}={','.join(map(str, shape))}"], check=True)
        runs: dict[str, Callable[[], Any]] = {"onnxruntime": partial(session.run, None, {name: x})}
        for device in devmod.devices():
            if device.kind == "opencl":
                f: Any = devmod.load(target)[label].on(device)
                runs[f"devmod, {runtime_of(device)}"] = partial(f, x)
        for each, run in runs.items():
            times = []
            for _ in range(rounds):
                began = time.perf_counter()
                run()
                times.append(time.perf_counter() - began)
            record(
                "A call of a model of ONNX",
                each,
                statistics.median(times[rounds // 4 :]) * 1e3,
                "ms",
                column=label,
            )
        failed |= beside_the_heuristic(label, target.read_bytes(), x, rounds)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    over = beside_the_jit(options.rounds)
    over |= whole_models_beside_onnxruntime(max(options.rounds // 10, 8))
    over |= kernels_beside_onnxruntime(max(options.rounds // 10, 8))
    over |= tuned_models(options.rounds)
    over |= beside_onnxruntime(max(options.rounds // 10, 8))
    raise SystemExit(over)
