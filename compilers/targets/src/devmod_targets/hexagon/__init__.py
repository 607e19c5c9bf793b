"""The compiler of C, C++ and LLVM IR for Hexagon. docs/design/hexagon.md has the reasons."""
