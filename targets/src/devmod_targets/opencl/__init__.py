"""The build side of OpenCL."""
