"""OpenCL C for the kinds whose code LLVM writes. docs/design/opencl.md has the reasons."""
