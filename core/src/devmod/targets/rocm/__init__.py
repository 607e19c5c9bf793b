"""The build side of ROCm."""
