"""Triton's JIT functions: a language of cuda and rocm (`compile`), and the call of Triton's compiler (`kernels`)."""
