"""The kinds of core: a package for each, with its TargetSpec (``SPEC``) and its architecture
reader.

The registry's table, the specs and the tests are made from the table `NAMES`. Wheels add kinds
through the entry-point group ``devmod.targets``.

docs/design/modules.md has the reasons.
"""

from __future__ import annotations

# Where to change: a kind that goes: to drop or to remove one, such as hexagon
#   here: its line of `NAMES`, and its package in this folder
#   also: `plugins/` and `compilers/targets/src/devmod_targets/` have a folder of the kind;
#     `core/pyproject.toml` has its entry and its extras, `pyproject.toml` its extra;
#     `docs/contract.md` has it in R2 and R14, and each list of kinds has its name:
#     `git grep -li NAME` prints the files. docs/api.md promises a deprecation first
#   tests: `tests/test_repository.py`, `tests/test_two_places.py`, `tests/test_formats_page.py`
# Where to change: an eighth kind of core's own
#   here: `NAMES`, and a package in this folder with the TargetSpec `SPEC`
#   also: `core/pyproject.toml`, group `devmod.targets`; each list of kinds
#   tests: `tests/test_two_places.py`, `tests/test_repository.py`, `tests/test_new_members.py`
#: The kinds in the order of the contract, with all names by which the spec of each may be found:
#: its file formats and suffixes, the suffixes of its sources, and its aliases. A look-up imports
#: only the specs that have the name.
NAMES = {
    "cuda": ("bc", "cl", "cu", "cubin", "cuda", "fatbin", "hip", "ll", "ptx", "py", "slang"),
    "rocm": ("bc", "cl", "cu", "hip", "hsaco", "ll", "py", "s", "slang"),
    "metal": ("metal", "metallib", "slang"),
    "vulkan": ("cl", "comp", "glsl", "hlsl", "slang", "spv"),
    "opencl": ("aocx", "awsxclbin", "cl", "clbin", "il", "xclbin"),
    "hexagon": ("bc", "c", "cpp", "ll", "o", "s", "slang", "so"),
    "webgpu": ("slang", "wgsl"),
    "program": (),
}
#: The kind of programs, which have no device and no compiler of their own: their kernels have.
PROGRAM = "program"
#: The kinds of devices.
KINDS = tuple(kind for kind in NAMES if kind != PROGRAM)
#: The kind that messages propose first: each processor is a device of it.
EXAMPLE = "opencl"
#: The kind of the simulated GPU of devmod-simulators.
SIMULATED = "cuda"
#: The environment variable with the checks of the simulated GPU, in processes that run with them.
CHECKS_VARIABLE = "DEVMOD_STANDIN_SANITIZE"
#: The format of shared objects. The name of a loader has their machine too: ``so_<machine>``.
SHARED_OBJECT = "so"


def spec_entry(kind: str) -> str:
    """Return the entry-point value of a kind's TargetSpec."""
    return f"devmod.targets.{kind}:SPEC"
