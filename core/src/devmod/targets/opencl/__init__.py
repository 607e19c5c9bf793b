"""The target spec of OpenCL."""
