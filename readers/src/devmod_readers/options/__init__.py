"""The options that the source of a payload may have: those of NVRTC in ``cuda``, and of clang in ``rocm``."""
