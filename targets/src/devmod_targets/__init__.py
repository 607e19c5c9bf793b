"""The build side of devmod's own targets, a folder for each kind: ``compile.py`` drives its toolchain.

What core must know of a kind to wrap, save, load and inspect its payloads, its spec and the reader of its architecture, is core's
(``devmod.targets``); a spec names its compiler here as a string. What compilers share is core's too: `devmod.backend`.
"""
