"""The compiler of WebGPU's WGSL. docs/design/webgpu.md has the reasons."""
