"""The target spec of ROCm, and the reader of its architectures."""
