"""The target spec of WebGPU."""
