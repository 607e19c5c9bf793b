"""The features that a function can need of a device: one table for compilers, readers and
backends.
"""

from __future__ import annotations

from typing import NamedTuple

from devmod.errors import list_names, pip_install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: What an interface with the key ``tune`` needs, so that a reader without variants refuses it.
TUNED = "tuned"
#: The needs that a program may have here. No other one of the known needs is of a program.
PROGRAM_NEEDS = ("repeat",)


class Feature(NamedTuple):
    """A feature that a function can need.

    Attributes
    ----------
    meaning
        What a device with the feature has, for documentation.
    spirv
        The capabilities of SPIR-V that need it, by number.
    opencl
        OpenCL's extensions, of which a device with the feature has one.
    wgsl
        The extension that WGSL enables for it; "" if there is none.
    webgpu
        The name of WebGPU's feature; "" if there is none.
    """

    meaning: str
    spirv: tuple[int, ...] = ()
    opencl: tuple[str, ...] = ()
    wgsl: str = ""
    webgpu: str = ""


# Where to change: a need of functions, or a driver's name of one
#   also: `docs/arrays-and-devices.md`; how OpenCL C shows it:
#     `compilers/targets/src/devmod_targets/opencl/_needs.py` (`_FEATURES`); `_device.py` of a
#     backend whose devices always have it; the other readers of files:
#     `extras/browser/js/src/checks.js`, with WebGPU's names in `pipeline.js` beside it,
#     `compilers/readers/c/devmod_reader.c` and `tests/spec_reader.py`
#   tests: `tests/test_repository.py`, `tests/test_two_places.py`, `tests/test_new_members.py`
#: The features by the names in `Interface.needs`. Compilers write these names and no others, and
#: devices report them.
FEATURES = {
    "fp16": Feature(
        "floating-point numbers of 16 bits", (9,), ("cl_khr_fp16",), "f16", "shader-f16"
    ),
    "fp64": Feature("floating-point numbers of 64 bits", (10,), ("cl_khr_fp64", "cl_amd_fp64")),
    "image_writes_3d": Feature("writes to 3-D images", (), ("cl_khr_3d_image_writes",)),
    "images": Feature("images and samplers", (13, 14, 15)),
    "int64_atomics": Feature(
        "atomic operations on integers of 64 bits", (12,), ("cl_khr_int64_base_atomics",)
    ),
    "launch_constants": Feature(
        "specialization by the block and the local memory of a call, as kernels of clspv need it"
    ),
    "processor": Feature("a device that is a processor of the host, and no GPU"),
    "subgroup_size": Feature(
        "kernels that require a number of threads in a subgroup",
        (),
        ("cl_intel_required_subgroup_size",),
    ),
    "subgroups": Feature(
        "functions of subgroups",
        (58, 61),
        ("cl_khr_subgroups", "cl_intel_subgroups"),
        "subgroups",
        "subgroups",
    ),
}

_KNOWN = frozenset((*FEATURES, TUNED, *PROGRAM_NEEDS))


def unknown_needs(needs: Iterable[str]) -> tuple[str, ...]:
    """Return those of the needs of a function that this devmod does not know."""
    return tuple([each for each in needs if each not in _KNOWN])


def newer_text(needs: Iterable[str]) -> str:
    """Return the end of a message about needs that only a newer devmod reads."""
    upgrade = pip_install("--upgrade devmod-core devmod-runtime")
    return f"needs {list_names(needs)}, which a newer devmod reads: {upgrade}"
