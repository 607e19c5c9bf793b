"""The compiler of OpenCL C. docs/design/opencl.md has the reasons."""
