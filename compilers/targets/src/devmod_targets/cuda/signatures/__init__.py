"""The signatures of CUDA's kernels. `reader` reads those of a program; `declared` has those of a
binary whose source is not read.
"""
