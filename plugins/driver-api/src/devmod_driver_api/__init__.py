"""The common code of runtimes for drivers with CUDA's model. Importing it loads no driver and no
driver library.

- `api` describes one vendor's API, and `driver` calls it by ctypes.
- `handles` owns the driver's handles. `device` and `copies` use them.
- `module`, `binaries` and `kernel` load a payload and launch its kernels.
- `adoption` takes the arrays and streams of other libraries.

The README describes the interface, and docs/design/driver-api.md has the reasons.
"""

from __future__ import annotations
