"""Vulkan: a map of entry name to SPIR-V, each with its flag word (R15).

Variants: "spirv1.3", "spirv1.3:Float16+Int64" (architecture.py says what runs where).
"""

from __future__ import annotations

from devmod.errors import FormatError
from devmod.targets import TargetSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import Binary


def _bare_words(code: Binary) -> Binary:
    """The SPIR-V words of a shader value (R15), as a .spv file holds them. A flag has no place in such a file."""
    flag, count = int.from_bytes(code[:4], "little"), int.from_bytes(code[4:12], "little")
    if len(code) < 12 or len(code) != 12 + 4 * count:
        raise FormatError("the vulkan shader is not a flag, a number of words and that many words", kind="vulkan")
    if flag:
        raise FormatError(f"a .spv file has no place for the shader's flag {flag}; use devmod.save", kind="vulkan")
    return code[12:]


def _with_flag(data: Binary) -> Binary:
    """The shader value of a .spv file: flag 0, the number of words, the words."""
    if len(data) % 4:
        raise FormatError(f"a .spv file is a number of 4-byte words; this one has {len(data)} bytes", kind="vulkan")
    return bytes(4) + (len(data) // 4).to_bytes(8, "little") + bytes(data)


SPEC = TargetSpec(
    "vulkan",
    title="Vulkan",
    distribution="devmod-vulkan",
    formats=("spv",),
    shader_map=True,
    source_keys=("spv",),
    default_source=("spv",),
    languages={"comp": "GLSL", "glsl": "GLSL", "hlsl": "HLSL", "spv": "SPIR-V"},
    compiler="devmod_targets.vulkan.compile:compile",
    build_extra="build-vulkan",
    pack=_bare_words,
    unpack=_with_flag,
    compiled_as={"spirv": "spv"},
    architecture="devmod.targets.vulkan.architecture:architecture",
    rank="devmod.targets.vulkan.architecture:rank",
)
