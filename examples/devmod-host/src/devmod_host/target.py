"""The target spec. With it core compiles, wraps, saves, loads and inspects host modules on machines
that cannot run them.
"""

from __future__ import annotations

from devmod import TargetSpec

SPEC = TargetSpec(
    "host",
    title="host",
    distribution="devmod-host",
    formats=("c",),
    text_formats=("c",),
    headers=("",),  # those of the system's compiler
    source_keys=("c",),
    default_source=("c",),
    languages={"c": "C"},
    preprocessed=("C",),
    # A string: every look-up of the kind imports this file, and only `devmod.compile` imports the
    # compiler.
    compiler="devmod_host._compile:compile",
    # A replaced compiler (devmod.set_compiler) returns another C source.
    compiled_as={"text": "c"},
    check="devmod_host._check:check",
)
