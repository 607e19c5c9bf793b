"""The compiler of C, C++ and LLVM IR for Hexagon."""
