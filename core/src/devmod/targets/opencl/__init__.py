"""OpenCL, as core must know it."""
