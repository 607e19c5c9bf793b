"""The build side of CUDA."""
