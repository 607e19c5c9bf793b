"""WebGPU, as core must know it."""
