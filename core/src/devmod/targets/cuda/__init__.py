"""The target spec of CUDA, and the reader of its architectures."""
