"""The compiler of OpenCL C."""
