"""The readers of `devmod build`: the manifest with the lines of its keys, and safetensors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from devmod_targets.build import plan_of, read_manifest
from devmod_targets.build.constants import load_constants
from devmod_targets.build.document import ManifestError, key_lines, read_document
from devmod_targets.build.manifest import Constants, ConstantsFile

#: The files that the seeds name.
_FILES = ("a.cl", "a.wgsl", "a.cu", "k.ll", "k.inc", "w.npy")
MANIFEST = """\
output = "kernels.devmod"
targets = ["opencl", 'webgpu', "cuda -arch=sm_80,sm_90"]  # three
compress = "zstd:19"
[target.cuda]
options = [
    "-O2",
]
[kernels.a]
sources = ["a.cl", "a.wgsl", { path = "a.cu", language = "CUDA C++" }]
defines = { WIDTH = 16, "F(x)" = "x", SCALE = 1.5, DEBUG = true }
block = [16, 4]
local = { s = "4/thread", f = { t = 8 } }
kernels.x = \"\"\"
text\"\"\"
[kernels.a.target."cuda -arch=sm_90"]
name_expressions = ["f<int>"]
[kernels."b c"]
skip = ["opencl", "webgpu"]
target.cuda.sources = ["k.ll"]
[kernels."b c".functions.k]
params = [{ name = "x", kind = "buffer", type = "float32", access = "rw" }, { name = "n", kind = "scalar", type = "int32" }]
[[unknown]]
when = 1979-05-27T07:32:00Z
[constants]
files = ["w.npy"]
functions = { load = ["w"] }
"""


def read_manifest_file(
    data: bytes, scratch: Callable[[str, bytes], str], breach: type[Exception]
) -> None:
    """Read a manifest and plan its jobs. The keys of the scanner of lines are those of tomllib."""
    for name in _FILES:
        scratch(name, b"")
    path = scratch("devmod.toml", data)
    try:
        document = read_document(path)  # its limits are those of the scanner too
    except ManifestError:
        pass
    else:
        text = data.decode("utf-8-sig")
        values = document.data
        lines = key_lines(text)
        last = text.count("\n") + 1
        if set(lines) != set(_paths(values)) or not all(
            1 <= line <= last for line in lines.values()
        ):
            raise breach("the keys with lines are not those of tomllib")
    try:
        for job in plan_of(read_manifest(path)).jobs:
            job.arguments()
    except ManifestError as error:
        if not error.problems or any(not each.text or not each.key for each in error.problems):
            raise breach(f"a mistake has no key or no text: {error}") from None
        raise


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for key, each in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield (*path, key)
        yield from _paths(each, (*path, key))


def read_safetensors(
    data: bytes, scratch: Callable[[str, bytes], str], breach: type[Exception]
) -> None:
    """Read a safetensors file. The input is a byte that may falsify the length, the header in JSON
    up to a zero, and the data.
    """
    header, _, content = data[1:].partition(b"\0")
    length = len(header) + max(0, (data[0] if data else 0) - 24)
    path = Path(scratch("m.safetensors", length.to_bytes(8, "little") + header + content))
    module = load_constants(os.fspath(path.parent), Constants((ConstantsFile(path.name),)))
    if len(module.save_to_bytes()) > 2 * len(data) + 1000:
        raise breach("the constants are larger than the file")


def safetensors_seeds() -> list[bytes]:
    """Return sound files: every type, and an empty one."""
    header = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
    }
    header["b"] = {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]}
    return [b"\0" + json.dumps(header).encode() + b"\0" + bytes(range(12)), b"\0{}\0"]
