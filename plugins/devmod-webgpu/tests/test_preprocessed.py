"""Shaders with directives, of the shapes that public projects have: variants by defines, common
declarations, tables, shared files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import refusal

import devmod

#: One file for several operations and element types, with bindings by number.
BINARY = """\
#ifdef TYPE_F32
#define T f32
#elif defined(TYPE_I32)
#define T i32
#else
#error define TYPE_F32 or TYPE_I32
#endif
#define SRC_BINDING 0
#define DST_BINDING (SRC_BINDING + 2)
#define AT(buffer) buffer[id.x]
#include "params.tmpl"
@group(0) @binding(SRC_BINDING) var<storage, read> a: array<T>;
@group(0) @binding(SRC_BINDING + 1) var<storage, read> b: array<T>;
@group(0) @binding(DST_BINDING) var<storage, read_write> y: array<T>;
fn apply(a: T, b: T) -> T {
#if OP == 0
    return a + b;
#elif OP == 1 && defined(SCALE)
    return a * b * T(SCALE);
#else
    return a - b;
#endif
}
@compute @workgroup_size(WG_SIZE)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x < params.n { AT(y) = apply(AT(a), AT(b)); }
}
"""
PARAMS = """\
#ifndef PARAMS
#define PARAMS
#define WG_SIZE 64
struct Params { n: u32 }
@group(0) @binding(DST_BINDING + 1) var<uniform> params: Params;
#endif
"""
#: Blocks of eight numbers of four bits with one scale; each thread has a part that a macro unrolls.
BLOCKS = """\
#import block
#define NIBBLE(word, i) (f32((word >> (4u * (i))) & 0xFu) - 8.0)
#define PART(i) y[at + i] = NIBBLE(block.words, i) * block.scale;
#define PARTS(i) PART(i) PART(i + 1u)
@group(0) @binding(0) var<storage, read> x: array<Block>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(32) fn unpack(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= arrayLength(&x) { return; }
    let block = x[id.x];
    let at = 8u * id.x;
    PARTS(0u)
    PARTS(2u) PARTS(4u)
    PARTS(
        6u
    )
}
"""


@pytest.mark.row("R12", "R34")
@pytest.mark.parametrize(
    ("defines", "dtype", "result"),
    [
        ({"TYPE_F32": None, "OP": 0}, "float32", lambda a, b: a + b),
        ({"TYPE_F32": None, "OP": 1, "SCALE": 0.5}, "float32", lambda a, b: a * b / 2),
        ({"TYPE_I32": None, "OP": 1, "SCALE": 3, "WG_SIZE": 8}, "int32", lambda a, b: a * b * 3),
        ({"TYPE_I32": None, "OP": 2}, "int32", lambda a, b: a - b),
    ],
)
def test_variants_of_one_file(
    tmp_path: Path, device: Any, defines: dict[str, Any], dtype: str, result: Any
) -> None:
    (tmp_path / "binary.wgsl").write_text(BINARY)
    (tmp_path / "params.tmpl").write_text(PARAMS)
    f = devmod.compile(tmp_path / "binary.wgsl", "webgpu", defines=defines)["binary"]
    assert f.block == (defines.get("WG_SIZE", 64), 1, 1)
    a, b = np.arange(100).astype(dtype), np.arange(100)[::-1].astype(dtype)
    y = np.zeros_like(a)
    f(a=a, b=b, y=y, n=100, threads=100)
    assert (y == result(a, b)).all()


def test_a_shared_file_and_macros_with_parameters(tmp_path: Path, device: Any) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "blocks.wgsl").write_text(BLOCKS)
    (tmp_path / "shared" / "block.wgsl").write_text("struct Block { scale: f32, words: u32 }\n")
    f = devmod.compile(tmp_path / "blocks.wgsl", "webgpu")["unpack"]
    numbers = np.random.default_rng(1).integers(0, 16, (40, 8)).astype("uint32")
    x = np.zeros(40, [("scale", "float32"), ("words", "uint32")])
    x["scale"] = np.arange(40)
    x["words"] = (numbers << (4 * np.arange(8, dtype="uint32"))).sum(1, dtype="uint32")
    y = np.zeros((40, 8), "float32")
    f(x=x, y=y, threads=40)
    assert (y == (numbers.astype("float32") - 8) * np.arange(40)[:, None]).all()


@pytest.mark.filterwarnings("ignore:the WGSL source")
def test_an_error_of_the_device_has_the_users_file_and_line(
    tmp_path: Path, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # without a naga at build time
    (tmp_path / "k.wgsl").write_text(
        '#include "part.wgsl"\n@compute @workgroup_size(1) fn k() { _ = part(1u); }\n'
    )
    (tmp_path / "part.wgsl").write_text("\n\nfn part(a: u32) -> u32 { return a * 2.5; }\n")
    module = devmod.compile(tmp_path / "k.wgsl", "webgpu")
    assert "cannot build the webgpu source: part.wgsl:3:" in refusal(
        devmod.CompileError, module.get_function, "k"
    )
