"""Streams of CUDA."""

from __future__ import annotations

from devmod_runtime.driver_api.stream import DriverStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._device import CudaDevice


class CudaStream(DriverStream):
    """A stream of CUDA."""

    device: CudaDevice

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol, and the handle. Other libraries make streams of their own from it."""
        return 0, self.handle
