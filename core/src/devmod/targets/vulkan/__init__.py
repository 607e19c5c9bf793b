"""Vulkan: a map of entry name to SPIR-V, each with its flag word (R15).

Variants: "spirv1.3", "spirv1.3:Float16+Int64" (architecture.py has the rules).
"""

from __future__ import annotations

from devmod._values.spec import TargetSpec
from devmod.errors import FormatError, count_text


def _bare_words(code: bytes | memoryview) -> bytes | memoryview:
    """Return the SPIR-V words of a shader value (R15), the content of a .spv file. Such a file
    cannot have a flag.
    """
    flag = int.from_bytes(code[:4], "little")
    count = int.from_bytes(code[4:12], "little")
    if len(code) < 12 or len(code) != 12 + 4 * count:
        raise FormatError(
            "the vulkan shader is not a flag, a number of words and that many words", kind="vulkan"
        )
    if flag:
        raise FormatError(
            f"a .spv file cannot have the shader's flag {flag}; use devmod.save", kind="vulkan"
        )
    return code[12:]


def _with_flag(data: bytes | memoryview) -> bytes | memoryview:
    """Return the shader value of a .spv file: flag 0, the number of words, the words."""
    if len(data) % 4:
        raise FormatError(
            f"the size of a .spv file is not a multiple of 4 bytes: got {count_text(len(data), 'byte')}",
            kind="vulkan",
        )
    return bytes(4) + (len(data) // 4).to_bytes(8, "little") + bytes(data)


SPEC = TargetSpec(
    "vulkan",
    title="Vulkan",
    distribution="devmod-vulkan",
    formats=("spv",),
    format_aliases={"vulkan": "spv"},  # TVM's name
    shader_map=True,
    source_keys=("spv",),
    default_source=("spv",),
    languages={
        "comp": "GLSL",
        "glsl": "GLSL",
        "hlsl": "HLSL",
        "spv": "SPIR-V",
        "slang": "Slang",
        "cl": "OpenCL C",
    },
    preprocessed=("GLSL", "HLSL", "Slang", "OpenCL C"),
    compiler="devmod_targets.vulkan.compile:compile",
    toolchain="devmod_targets.vulkan.toolchain:TOOLCHAIN",
    build_extra="build-vulkan",
    pack=_bare_words,
    unpack=_with_flag,
    compiled_as={"spirv": "spv"},
    architecture="devmod.targets.vulkan.architecture:architecture",
    rank="devmod.targets.vulkan.architecture:rank",
    check="devmod_readers.payloads.vulkan:check",
    dimensions="devmod_readers.payloads.vulkan:dimensions",
)
