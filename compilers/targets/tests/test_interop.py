"""devmod.interop has the modules of devmod-targets, and names that wheel if it is missing."""

from __future__ import annotations

import sys
from operator import attrgetter
from pathlib import Path

import pytest
from each_case import refusal
from recorded_triton import recorded_kernel

import devmod
from devmod.interop import offload, triton

OFFLOAD = Path(__file__).parents[3] / "compilers/readers/tests/vectors/offload"


def test_the_functions_reach_the_readers() -> None:
    add = triton.load(recorded_kernel("add"), "ptx")
    assert add.format == "ptx"
    assert [image.fmt for image in offload.read_images(OFFLOAD / "images.fatbin")] == [
        "cubin",
        "ptx",
    ]
    assert offload.load(OFFLOAD / "images.fatbin", add.functions).kind == "bundle"


class Missing:
    """A finder for an environment without devmod-targets."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "devmod_targets":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("name", ["offload", "triton.load", "triton.compile"])
def test_without_devmod_targets_the_error_names_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [each for each in sys.modules if each.split(".")[0] == "devmod_targets"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    assert refusal(devmod.ToolchainNotFoundError, attrgetter(name), devmod.interop) == (
        f"devmod.interop.{name} cannot be used here: devmod-targets is not installed. To add it: pip install devmod-targets"
    )
