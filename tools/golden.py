"""Write the golden files of the present format version: tests/golden/v<version>/.

A module of each kind from fixed payloads, as its bytes, and all of them as one tree in a .devmod file. The payloads need not be real code:
wrapping parses none of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import devmod
from devmod._formats.index import VERSION
from environments import ROOT

FOLDER = ROOT / "tests" / "golden" / f"v{VERSION}"

_TAGS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "tirx.use_dyn_shared_memory")
PLAIN = devmod.FunctionInfo("add_kernel", ("handle", "handle", "int32", "float16x4"), _TAGS, (0, 1, 0, 0))
SHADER = devmod.FunctionInfo(
    "main",
    ("handle", "uint32"),
    interface=devmod.Interface(
        [
            devmod.Param("x", "buffer", "float32", "rw", (0, 1)),
            devmod.Param("n", "scalar", "uint32", at=(0, 4), extra={"of tomorrow": [1, None, b"\0"]}),
        ],
        blocks=[devmod.Block("push", 16)],
        block=(64, 1, 1),
        extra={"unknown": True},
    ),
)


def modules() -> Iterator[devmod.Module]:
    """A module of each kind."""
    add = {"add": PLAIN}
    yield devmod.create_with_fallback("cuda", b".version 8.3\n.target sm_90\n.address_size 64\n", "ptx", add)
    yield devmod.create_with_fallback("rocm", b"\x7fELF" + bytes(60), "hsaco", add)
    yield devmod.create_with_fallback("opencl", "__kernel void add_kernel() {} // \N{GREEK SMALL LETTER MU}\n".encode(), "cl", add)
    yield devmod.create_with_fallback("hexagon", b"\x7fELF" + bytes(60), "so", add)
    shaders = {"add": PLAIN, "scale": SHADER}
    yield devmod.create_with_fallback("metal", {"add": b"kernel void add_kernel()", "scale": b"kernel void main0()"}, "metal", shaders)
    words = struct.pack("<5I", 0x07230203, 0x00010300, 0, 8, 0)
    packed = struct.pack("<IQ", 0, 5) + words
    yield devmod.create_with_fallback("vulkan", {"add": packed, "scale": packed}, "spv", shaders)
    yield devmod.create_with_fallback("webgpu", {"scale": b"@compute @workgroup_size(64) fn main() {}"}, "wgsl", {"scale": SHADER})


def tree() -> devmod.Module:
    """All of them: four candidates, the first of which imports the others."""
    cuda, *rest = modules()
    for module in rest[3:]:
        cuda.import_module(module)
    return devmod.bundle(cuda, *rest[:3])


def write() -> None:
    """Write the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for module in modules():
        (FOLDER / f"{module.kind}.bytes").write_bytes(module.save_to_bytes())
    devmod.save(tree(), FOLDER / "tree.devmod")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.stat().st_size:8}  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    write()
