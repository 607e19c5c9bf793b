"""What runs on a device of each kind in the same way: the programs of examples/applications,
devmod's tools, and kernels in Slang.

A plugin gives its device and its target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import random_programs
from faults import check_faults
from guarded import check_guard
from one_source import PLAIN, SLANG, check_one_source
from pictures_port import check_pictures
from profiled import check_profile
from slang_computations import KERNELS, check
from slang_kernels import (
    check_basics,
    check_images,
    check_matrices,
    check_matrix_blocks,
    check_parameters,
)
from transformer_port import check_transformer

#: The cases of one source: on Metal, Slang gives no length of a buffer, which `sum` needs.
_CASES = {"metal": [name for name in SLANG if name != "sum"], "hexagon": PLAIN}


def _matrices(kind: str) -> None:
    check_matrices(kind)
    if kind != "webgpu":
        check_matrix_blocks(kind)


#: Each takes a device, a target and a folder.
_PROGRAMS: dict[str, Callable[[Any, str, Path], object]] = {
    "one source": lambda device, target, folder: check_one_source(
        device, "Slang", target, _CASES.get(device.kind, SLANG)
    ),
    "transformer": check_transformer,
    "pictures": check_pictures,
    "entry points": lambda device, target, folder: check_basics(device.kind),
    "parameters": lambda device, target, folder: check_parameters(device.kind),
    "matrices": lambda device, target, folder: _matrices(device.kind),
    "images": lambda device, target, folder: check_images(device.kind),
    # Writes outside of arrays are found, and what devmod.testing.assert_kernel finds is in the
    # table of the page.
    "guard": lambda device, target, folder: check_guard(device, target),
    "faults": lambda device, target, folder: check_faults(
        device, target, "CUDA C++" if device.kind in ("cuda", "rocm") else "Slang"
    ),
    "profile": check_profile,
    **{
        f"result: {name}": lambda device, target, folder, name=name: check(
            name, random_programs.TARGETS.get(device.kind, target)
        )
        for name in KERNELS
    },
    **{
        f"random programs, {seeds}": lambda device, target, folder, seeds=seeds: (
            random_programs.check(device, seeds)
        )
        for seeds in random_programs.SEEDS
    },
}
_MARKS = {key: [pytest.mark.row("R37")] for key in ("one source", "transformer", "pictures")}
_MARKS |= {key: [pytest.mark.row("R34")] for key in ("entry points", "parameters", "matrices")}
RANDOM = [name for name in _PROGRAMS if name.startswith("random")]


def results(names: Iterable[str]) -> tuple[str, ...]:
    """Return the programs that compare kernels of `slang_computations` with NumPy."""
    return tuple(f"result: {name}" for name in names)


def each_program(*names: str, volume: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Return a decorator that gives a test each of these programs. Most random programs, and those
    of `volume`, are in make test-all.
    """
    slow = {*volume, *RANDOM[1:]}
    marks = {
        name: [*_MARKS.get(name, []), *[pytest.mark.volume] * (name in slow)] for name in names
    }
    return pytest.mark.parametrize(
        "program", [pytest.param(_PROGRAMS[name], id=name, marks=marks[name]) for name in names]
    )
