"""Shaders that several of the WebGPU tests use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import devmod

ADD = """
struct Scalars { n: u32 }
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<uniform> scalars: Scalars;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3u) {
    if id.x < scalars.n { c[id.x] = a[id.x] + b[id.x]; }
}
"""


#: The environment of a process that imports this file. It opens no other driver, and starts no
#: process for trials, which test_trial.py shows.
ALONE = {
    "PYTHONPATH": str(Path(__file__).parent),
    "DEVMOD_PLUGINS_ALLOW": "devmod-webgpu",
    "DEVMOD_WEBGPU_TRIAL": "0",
}


def adder() -> Any:
    """A new module with the function `add`."""
    return devmod.compile(ADD, "webgpu")


def function(declarations: str, body: str, size: str = "1") -> Any:
    """The function of a shader: ``x`` is its buffer of u32 unless the declarations say otherwise,
    ``id`` the thread.
    """
    if "binding(0)" not in declarations:
        declarations += "\n@group(0) @binding(0) var<storage, read_write> x: array<u32>;"
    text = f"{declarations}\n@compute @workgroup_size({size}) fn k(@builtin(global_invocation_id) id: vec3u) {{ {body} }}"
    return devmod.compile(text, "webgpu")["k"]
