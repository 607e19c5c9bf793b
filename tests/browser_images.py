"""Kernels with images for tests of the browser. Their interfaces are written by hand, as a reader
of WGSL returns them.
"""

from __future__ import annotations

from typing import Any

import pytest

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import IMAGE_FORMATS


def param(text: str, binding: int) -> Param:
    """Return a parameter by its words: "src 2d float", "dst 2d rgba8unorm w", "s sampler", "y
    float32 rw".
    """
    name, kind, *words = text.split()
    if kind == "sampler":
        return Param(name, "sampler", at=(0, binding))
    if not kind[0].isdigit():
        return Param(name, "buffer", kind, words[0], (0, binding))
    if words[0] in ("float", "int", "uint"):
        return Param(name, "image", kind, "r", (0, binding), sample=words[0])
    sample = IMAGE_FORMATS[words[0]].sample if words[0] in IMAGE_FORMATS else ""
    return Param(name, "image", kind, words[1], (0, binding), format=words[0], sample=sample)


def kernel(
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    *params: str | Param,
    block: tuple[int, int, int] = (8, 8, 1),
    **options: Any,
) -> devmod.Module:
    """Return a module with the function k of a shader. Its interface is written here."""
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    listed = [
        each if isinstance(each, Param) else param(each, number)
        for number, each in enumerate(params)
    ]
    info = FunctionInfo(
        "k", ["handle"] * len(listed), interface=Interface(listed, block=block, **options)
    )
    return devmod.create_with_fallback("webgpu", {"k": source.encode()}, "wgsl", {"k": info})


RESIZE = """
@group(0) @binding(0) var src: texture_2d<f32>;
@group(0) @binding(1) var s: sampler;
@group(0) @binding(2) var dst: texture_storage_2d<rgba32float, write>;
@compute @workgroup_size(8, 8) fn k(@builtin(global_invocation_id) id: vec3u) {
  let size = textureDimensions(dst);
  if (any(id.xy >= size)) { return; }
  let place = (vec2f(id.xy) + 0.5) / vec2f(size) * 3.0 - 1.0;
  textureStore(dst, id.xy, textureSampleLevel(src, s, place, 0.0));
}
"""
RESIZE_PARAMS = ("src 2d float", "s sampler", "dst 2d rgba32float w")
