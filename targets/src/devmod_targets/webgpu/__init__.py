"""The compiler of WebGPU's WGSL."""
