"""Find libdevice, NVIDIA's library of mathematics in LLVM bitcode, in the wheel nvidia-nvvm."""

from __future__ import annotations

import os
from pathlib import Path

from devmod.errors import ToolchainNotFoundError, not_installed
from devmod_targets.cuda._wheels import folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.authoring import CompileRequest

_FILE = os.path.join("nvvm", "libdevice", "libdevice.10.bc")


def find_libdevice(request: CompileRequest) -> bytes:
    """Return the bitcode of libdevice.

    Raises
    ------
    ToolchainNotFoundError
        The wheel is not installed.
    """
    folder = folder_of(_FILE)
    if not folder:
        missing = not_installed(
            "libdevice, the library of mathematics of the wheel nvidia-nvvm,", "devmod-core[build-cuda-opencl]", "nvidia"
        )
        raise ToolchainNotFoundError(
            f"the functions of mathematics that {request.name} calls cannot be compiled for {request.target.kind} here: {missing}",
            kind=request.target.kind,
        )
    return Path(folder, _FILE).read_bytes()
