"""Stand-ins for shared libraries of vendors: C sources, their build, and the processes that execute
kernels for them.
"""
