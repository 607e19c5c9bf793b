"""A small conforming backend without hardware. `toy_faults` has the faults of wrong ones."""

from __future__ import annotations

from devmod import TargetSpec

TARGET = TargetSpec(
    "toy",
    title="Toy",
    distribution="devmod-toy",
    formats=("toy", "toybin"),
    text_formats=("toy",),
    source_keys=("toy",),
    default_source=("toy",),
    aliases=("toyish",),
    compiled_as={"text": "toy"},
    languages={"toysource": "Toy source"},
    compiler="devmod_toy._compile:compile",
    needs_arch={"Toy source": "t1,t2"},
)
