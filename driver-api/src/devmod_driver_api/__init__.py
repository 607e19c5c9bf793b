"""devmod-driver-api: what runtimes share whose driver has CUDA's model. Importing it loads no driver and no driver library.

`api` describes one vendor's API, and `driver` calls it. `device`, `stream`, `graph`, `copies` and `adoption` are built on these two.
"""

from __future__ import annotations
