"""The names of the kinds."""

from __future__ import annotations

#: The kinds that TVM's own wheel lacks.
KINDS = ("opencl", "vulkan", "webgpu", "metal", "rocm", "hexagon")
#: TVM's other names for the modules of a kind.
ALIASES = {"rocm": ("hip", "hsaco")}
#: The file format of devmod, whose modules have several kinds.
FILE = "devmod"
#: The kinds that TVM uses through devmod in this process.
registered: list[str] = []
