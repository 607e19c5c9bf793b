"""The kinds of core: a folder for each, with its TargetSpec (``spec.py``) and its architecture reader.

The registry's table, the specs and the tests are made from the list `KINDS`. Wheels add kinds through the entry-point group
``devmod.targets``.
"""

from __future__ import annotations

#: The kinds in the order of the contract.
KINDS = ("cuda", "rocm", "metal", "vulkan", "opencl", "hexagon", "webgpu")

#: The kinds of further names under ``devmod.load_from_bytes``. A look-up of such a name then imports one spec instead of seven.
ALIASES = {"hsaco": "rocm", "hip": "rocm"}


def spec_entry(kind: str) -> str:
    """Return the entry-point value of a kind's TargetSpec."""
    return f"devmod.targets.{kind}.spec:SPEC"
