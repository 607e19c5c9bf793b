"""The parts of `devmod.interop.tinygrad` that import tinygrad: recording a function's kernels
(`record`), and their text (`render`).
"""
