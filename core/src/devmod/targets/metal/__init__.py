"""Metal: a map of entry name to MSL text or a metallib."""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "metal",
    title="Metal",
    distribution="devmod-metal",
    formats=("metal", "metallib"),
    text_formats=("metal",),
    headers=("",),
    assembler=False,
    shader_map=True,
    source_keys=("metal",),
    default_source=("metal",),
    languages={"metal": "MSL", "slang": "Slang"},
    preprocessed=("MSL", "Slang"),
    compiler="devmod_targets.metal.compile:compile",
    toolchain="devmod_targets.metal.toolchain:TOOLCHAIN",
    build_extra="build-metal",
    compiled_as={"metallib": "metallib", "text": "metal"},
    check="devmod_readers.payloads.metal:check",
    dimensions="devmod_readers.payloads.metal:dimensions",
)
