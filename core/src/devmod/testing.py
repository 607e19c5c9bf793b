"""Tests of kernels: this name is the module `devmod_runtime.tools.testing`, which the wheel of each
backend brings.
"""

from __future__ import annotations

import sys

from devmod import _runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime.tools.testing import assert_kernel as assert_kernel
    from devmod_runtime.tools.testing import draws as draws

_runtime("devmod.testing")
__import__("devmod_runtime.tools.testing")  # by its name: core imports no other wheel
sys.modules[__name__] = sys.modules["devmod_runtime.tools.testing"]
