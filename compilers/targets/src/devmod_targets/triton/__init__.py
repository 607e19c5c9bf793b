"""Triton's JIT functions: a language of cuda and rocm (`compile`), the call of Triton's compiler
(`kernels`), and types (`signature`).
"""
