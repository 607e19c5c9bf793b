"""CUDA devices."""

from __future__ import annotations

from devmod.errors import DeviceNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device


def devices() -> Sequence[Device]:
    """Return the CUDA devices in the driver's order."""
    raise DeviceNotFoundError("libcuda.so.1 is not found", kind="cuda")
