"""The options that the source of a payload may have: those of NVRTC in ``cuda``, of clang in ``rocm``, and of drivers in ``opencl``."""
