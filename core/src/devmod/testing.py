"""Tests of kernels: this name is the module `devmod_runtime.testing`, which the wheel of each backend brings."""

import sys

from devmod import _runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime.testing import assert_kernel as assert_kernel

sys.modules[__name__] = _runtime("devmod.testing").testing
