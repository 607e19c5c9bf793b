"""The compiler of HIP and LLVM IR for AMD GPUs. docs/design/rocm.md has the reasons."""
