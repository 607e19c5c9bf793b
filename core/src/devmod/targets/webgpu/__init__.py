"""The build side of WebGPU."""
