"""What core knows of the kind: enough to compile, wrap, save, load and inspect host modules where nothing can run them."""

from __future__ import annotations

from devmod.targets import TargetSpec

SPEC = TargetSpec(
    "host",
    title="host",
    distribution="devmod-host",
    formats=("c",),
    text_formats=("c",),
    source_keys=("c",),
    default_source=("c",),
    languages={"c": "C"},
    # A string: this file is imported by every look-up of the kind, the compiler by `devmod.compile` alone.
    compiler="devmod_host._compile:compile",
    # What a replaced compiler (devmod.set_compiler) returns is another C source.
    compiled_as={"text": "c"},
)
