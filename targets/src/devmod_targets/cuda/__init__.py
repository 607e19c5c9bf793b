"""The compiler of CUDA C++ and LLVM IR."""
