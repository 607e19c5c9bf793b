"""Programs: lists of launches with named shapes, which run the kernels of the module's import.

The code is a map from program to its steps (`devmod_readers.programs`). The format is the version
of the steps.
"""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "program",
    title="program",
    distribution="devmod-runtime",
    formats=("steps1",),
    shader_map=True,
    suffixes={},
    has_grid=False,
)
