"""Models and kernels of TVM, built for a kind and run on it. Another process imports this too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op as nn_op
from tvm.relax.frontend.nn import spec
from tvm.s_tir import dlight

#: The kinds for which TVM's wheel has a code generator, and a device or its double is here.
KINDS = ("opencl", "webgpu")
VECTORS = Path(__file__).resolve().parents[3] / "core" / "tests" / "vectors" / "tvm"
D, H, LENGTH = 32, 2, 16


#: What a model is made of: its function of an emitter and of its inputs, and their shapes.
MODELS: dict[str, tuple[Any, ...]] = {
    "vadd": (lambda emit, a, b: emit(op.add(a, b)), (1024,), (1024,)),
    "matmul": (lambda emit, a, b: emit(op.matmul(a, b)), (64, 48), (48, 80)),
    "softmax": (lambda emit, a: emit(op.nn.softmax(a, axis=-1)), (32, 100)),
    "convolution": (
        lambda emit, a, w: emit(op.nn.conv2d(a, w, padding=1)),
        (1, 3, 16, 16),
        (8, 3, 3, 3),
    ),
    "argsort": (lambda emit, a: emit(op.argsort(a, axis=-1, dtype="int32")), (4, 50)),
    "mlp": (
        lambda emit, x, w, v: emit(op.matmul(emit(op.nn.relu(emit(op.matmul(x, w)))), v)),
        (4, 32),
        (32, 64),
        (64, 10),
    ),
}


def device(kind: str, index: int = 0) -> Any:
    return tvm.runtime.device("cpu" if kind == "llvm" else kind, index)


def compiled(module: Any, kind: str) -> Any:
    """Compile a module of Relax; "llvm" is the CPU of TVM itself."""
    if kind == "llvm":
        return tvm.compile(module, target=tvm.target.Target("llvm"))
    target = tvm.target.Target({"kind": kind}, host="llvm")
    with target:
        module = relax.transform.LegalizeOps()(module)
        schedules = (
            dlight.gpu.Matmul(),
            dlight.gpu.Reduction(),
            dlight.gpu.GeneralReduction(),
            dlight.gpu.Fallback(),
        )
        # TVM's schedule of a matrix product for Metal ends the process.
        module = dlight.ApplyDefaultSchedule(*schedules[kind == "metal" :])(module)
    return tvm.compile(module, target=target)


def model(name: str) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """Return a model and its inputs."""
    build, *shapes = MODELS[name]
    block = relax.BlockBuilder()
    parameters = [
        relax.Var(f"x{number}", relax.TensorType(shape, "float32"))
        for number, shape in enumerate(shapes)
    ]
    with block.function("main", parameters):
        with block.dataflow():
            result = block.emit_output(build(block.emit, *parameters))
        block.emit_func_output(result)
    random = np.random.default_rng(0)
    return block.get(), [random.standard_normal(shape).astype("float32") for shape in shapes]


def run(executable: Any, kind: str, inputs: list[Any]) -> np.ndarray[Any, Any]:
    """Run a compiled model in Relax's VM."""
    machine, place = relax.VirtualMachine(executable, device(kind)), device(kind)
    result: np.ndarray[Any, Any] = machine["main"](
        *(tvm.runtime.tensor(each, device=place) for each in inputs)
    ).numpy()
    return result


class _Transformer(nn.Module):
    def __init__(self) -> None:
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 64), nn.Linear(64, D)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.keys, self.values = (nn.KVCache(LENGTH, [H, D // H]) for _ in range(2))

    def forward(self, x: nn.Tensor, total: tvm.tirx.Var) -> Any:
        q, k, v = (
            nn_op.reshape(each(self.norm(x)), (1, H, D // H)) for each in (self.q, self.k, self.v)
        )
        self.keys.append(k)
        self.values.append(v)
        q, k, v = (
            nn_op.permute_dims(each, [1, 0, 2])
            for each in (q, self.keys.view(total), self.values.view(total))
        )
        weights = nn_op.softmax(nn_op.matmul(q, nn_op.permute_dims(k, [0, 2, 1])) / 4.0, axis=-1)
        x = x + self.o(
            nn_op.reshape(nn_op.permute_dims(nn_op.matmul(weights, v), [1, 0, 2]), (1, D))
        )
        return x + self.down(nn_op.gelu(self.up(x)))


def transformer(kind: str, tokens: int = 5) -> np.ndarray[Any, Any]:
    """Return what a block of a transformer computes of some tokens. Its caches are written in
    place.
    """
    inputs = {
        "x": spec.Tensor([1, D], "float32"),
        "total": int,
        "$": {"param_mode": "packed", "effect_mode": "packed"},
    }
    module, parameters = _Transformer().export_tvm({"forward": inputs})[:2]
    random, place = np.random.default_rng(0), device(kind)
    weights = [
        (random.standard_normal([*map(int, each.shape)]) * 0.2).astype("float32")
        for _, each in parameters
    ]
    machine = relax.VirtualMachine(compiled(module, kind), place)
    state, results = machine["_initialize_effect"](), []
    tensors = [tvm.runtime.tensor(each, device=place) for each in weights]
    for number, x in enumerate(random.standard_normal((tokens, 1, D)).astype("float32")):
        y, state = machine["forward"](
            tvm.runtime.tensor(x, device=place),
            tvm.runtime.ShapeTuple([number + 1]),
            state,
            tensors,
        )
        results.append(y.numpy())
    return np.stack(results)
