"""The CUDA runtime module."""

from __future__ import annotations

from devmod.backend import RuntimeModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.backend import Launcher


class CudaModule(RuntimeModule):
    """A binary of CUDA: source, PTX, a cubin or a fatbin."""

    target = "cuda"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        from devmod_cuda._device import devices

        raise NotImplementedError(devices())
