"""The compiler of HIP and LLVM IR for AMD GPUs."""
