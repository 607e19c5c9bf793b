"""Random interfaces, as in a damaged or hostile file: they raise only devmod's errors, and the
process continues.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import random
import numpy as np
import devmod
from devmod import Block, FunctionInfo, Interface, Param

rng = random.Random({seed})
IMAGE = devmod.device("webgpu").image((4, 4), "r32float")
SAMPLER = devmod.device("webgpu").sampler(filter="linear")
TEXT = (
    b"override N: u32 = 4; @group(0) @binding(0) var<storage, read_write> x: array<u32>; @group(0) @binding(1) var<uniform> u: vec4<u32>;"
    b"@group(1) @binding(0) var t: texture_2d<f32>; @group(1) @binding(1) var s: sampler;"
    b"@compute @workgroup_size(N) fn k() {{ x[0] = u.x; }}"
    b"@compute @workgroup_size(1) fn image() {{ x[0] = u32(textureSampleLevel(t, s, vec2f(), 0.0).x); }}"
)
NUMBERS = [0, 1, 2, 4, 7, 16, 255, 1000, 1001, 65535, 65536, 2**31, 2**32 - 1, 2**32, 2**53, 2**62]
STRANGE = [None, 1, -1, "x", [], {{}}, [1], ["shader-f16"], [{{}}], 2**70, True, 1.5, [[0]], [-1, 0, [0]], [0, -1, -1], "\\ud800"]


def place():
    return rng.choice([(0, 0), (0, 1), (1, 0), (1, 1), None, 3, (rng.choice(NUMBERS), rng.choice(NUMBERS)), (0, rng.choice(NUMBERS))])


def image_attempt():
    def mostly(usual, *others):
        return rng.choice(others) if rng.random() < 0.12 else usual

    params = [
        Param(
            "t", "image", mostly("2d", "", "1d", "3d", "2d_array"), mostly("r", "", "w", "rw"), mostly((1, 0), (0, 0), (1, 1), (2**40, 0)),
            format=mostly("", "r32float", "rgba8uint", "x", "\\0", "\\ud800"), sample=mostly("float", "", "int", "uint"),
        ),
        Param("s", "sampler", at=mostly((1, 1), (1, 0), None, (1, 2))),
        Param("x", "buffer", "uint32", mostly("rw", "r", ""), mostly((0, 0), (1, 0))),
    ]
    info = FunctionInfo("image", ["handle"] * 3, (), (), Interface(params))
    f = devmod.create("webgpu", {{"k": TEXT}}, "wgsl", {{"k": info}})["k"]
    f(mostly(IMAGE, SAMPLER, None), mostly(SAMPLER, IMAGE, 3), np.zeros(4, "uint32"), grid=1, block=1)


def attempt():
    kinds = [rng.choice(["buffer", "buffer", "scalar", "uniform", "local", "image", "sampler"]) for _ in range(rng.randint(0, 3))]
    types = [rng.choice(["uint32", "float32x3", "uint8x16", "float64", "bool"]) if each in ("scalar", "uniform") else "handle" for each in kinds]
    params = [
        Param(
            rng.choice(["a", "", "\\ud800"]), kind,
            rng.choice(["", "2d", "2d", "3d", "1d_array"]) if kind == "image" else "" if kind == "sampler"
            else rng.choice(["", "float32", "uint8x80"]) if type_ == "handle" else type_,
            rng.choice(["", "r", "rw", "w"]), place(), rng.choice([0, 4]),
            extra={{"least": rng.choice([*NUMBERS, -1, "s", None])}} if rng.random() < 0.3 else None,
            format=rng.choice(["", "", "r32float", "rgba8uint", "x", "\\0", "\\ud800"]) if kind == "image" else "",
            sample=rng.choice(["", "float", "float", "uint"]) if kind == "image" else "",
        )
        for kind, type_ in zip(kinds, types)
    ]
    blocks = [Block(rng.choice(["push", (0, 1), (0, 2), place()]), rng.choice(NUMBERS)) for _ in range(rng.randint(0, 2))]
    extra = {{key: rng.choice(STRANGE) for key in ("features", "constants", "block_constants", "workgroup_memory") if rng.random() < 0.15}}
    if rng.random() < 0.4:
        extra["constants"] = [{{"name": "N", "type": "uint32", "default": 4}}]
    interface = Interface(params, blocks, rng.choice([None, (4, 1, 1), (0, 0, 0), (2**40, 1, 1)]), extra)
    info = FunctionInfo(
        rng.choice(["k", "k", "image", "\\ud800", "k\\0"]), types, ["blockIdx.x", "paramWriteAccess:[1]"], (), interface if rng.random() < 0.9 else None
    )
    f = devmod.create("webgpu", {{"k": TEXT}}, "wgsl", {{"k": info}})["k"]
    if rng.random() < 0.3:
        f = f.specialize(N=rng.choice([1, 0, 2, 5000]))
    args = [
        IMAGE if kind == "image" else SAMPLER if kind == "sampler"
        else np.zeros(rng.choice([0, 1, 4, 20]), "float32") if each == "handle" else rng.choice([1, b"0" * 16, (1, 2, 3), 1.0, True])
        for each, kind in zip(types, kinds)
    ]
    f(*args, grid=rng.choice([1, 2]), **({{}} if interface.block else {{"block": 4}}))


ran = 0
for _ in range(150):
    try:
        rng.choice([attempt, attempt, image_attempt])()
        ran += 1
    except devmod.DevmodError:
        pass
print("some ran" if ran else "none ran")
"""


@pytest.mark.volume_but("1")
@pytest.mark.row("R40")
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_random_interfaces(seed: int, device: Any) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(seed=seed)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
        timeout=120,
    )
    assert (process.returncode, process.stdout) == (0, "some ran\n"), process.stderr
