"""The common code of runtimes for drivers with CUDA's model. Importing it loads no driver and no driver library.

- `api` describes one vendor's API.
- `driver` calls it by ctypes.
- `handles` owns the driver's handles. `device`, `memory`, `copies`, `stream` and `graph` use them.
- `module`, `images`, `launcher`, `kernel`, `parameters` and `limits` load a payload and launch its kernels.
- `adoption` and `dlpack` take the arrays and streams of other libraries.

docs/design/driver-api.md has the reasons.
"""

from __future__ import annotations
