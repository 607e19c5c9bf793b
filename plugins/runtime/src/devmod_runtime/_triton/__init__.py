"""Kernels of files for Triton's own launches (`served`, `hooks`), and the record of what a program
compiles with it (`record`).

Triton asks a hook before it compiles a specialization, and a cache for the result. The hook here
computes Triton's key, and the cache manager answers that key with the kernel of the same identity.
So Triton launches it as one of its own. docs/design/triton.md has the reasons.
"""
