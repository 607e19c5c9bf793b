"""The compiler of CUDA C++ and LLVM IR. docs/design/cuda.md has the reasons."""
