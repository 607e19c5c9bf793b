"""The common code of runtimes for drivers with CUDA's model. Importing it loads no driver and no
driver library.

- `api` describes one vendor's API, and `driver` calls it by ctypes.
- `handles` owns the driver's handles. `device` and `copies` use them.
- `module`, `binaries` and `kernel` load a payload and launch its kernels.
- `adoption` takes the arrays and streams of other libraries, and `contexts` makes devices over
  their contexts and streams.

The README describes the interface, and docs/design/driver-api.md has the reasons.
"""

from __future__ import annotations

import sys
from typing import Any


def is_for_hip(package: str) -> bool:
    """Return whether PyTorch or CuPy, which the process has imported, uses HIP in place of CUDA."""
    module: Any = sys.modules.get(package)
    if package == "torch":
        return bool(getattr(getattr(module, "version", None), "hip", None))
    if package == "cupy":
        runtime = getattr(getattr(module, "cuda", None), "runtime", None)
        return bool(getattr(runtime, "is_hip", False))
    return False
