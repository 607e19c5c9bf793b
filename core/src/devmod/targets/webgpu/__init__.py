"""WebGPU: a map of entry name to WGSL text. There is one format, so the module's bytes do not have
it (R17).
"""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "webgpu",
    title="WebGPU",
    distribution="devmod-webgpu",
    formats=("wgsl",),
    text_formats=("wgsl",),
    shader_map=True,
    fields=("fmap", "code"),
    source_keys=("wgsl",),
    default_source=("wgsl",),
    languages={"wgsl": "WGSL", "slang": "Slang"},
    preprocessed=("WGSL", "Slang"),
    compiler="devmod_targets.webgpu.compile:compile",
    toolchain="devmod_targets.webgpu.toolchain:TOOLCHAIN",
    build_extra="build-webgpu",
    compiled_as={"text": "wgsl"},
    check="devmod_wgsl.payload:check",
    dimensions="devmod_readers.payloads.webgpu:dimensions",
    handles={"wgpu": ("GPUDevice", "GPUQueue")},
)
