"""OpenCL C for cuda and rocm: clang compiles it to LLVM IR, with definitions of the built-in functions that it calls."""
