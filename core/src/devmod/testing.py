"""Tests of kernels: this name is the module `devmod_workbench.testing` of devmod-workbench."""

from __future__ import annotations

import sys

from devmod import _runtime, _workbench

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_workbench.testing import assert_kernel as assert_kernel
    from devmod_workbench.testing import draws as draws

_workbench("devmod.testing")
_runtime("devmod.testing")
__import__("devmod_workbench.testing")  # by its name: core imports no other wheel
sys.modules[__name__] = sys.modules["devmod_workbench.testing"]


def __getattr__(name: str) -> object:
    """Return a name of the workbench's module for an import that has waited for this one's, in
    another thread: Python gives it this module.
    """
    return getattr(sys.modules["devmod_workbench.testing"], name)
