"""The runtime module of ROCm."""

from __future__ import annotations

from devmod_driver_api.module import DriverModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import FunctionInfo
    from devmod_rocm._binaries import RocmBinaries
    from devmod_runtime import Launcher


class RocmModule(DriverModule):
    """A code object, a container of code objects, or HIP source, which hiprtc compiles at the first
    get_function.
    """

    target = "rocm"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        binaries = self.binaries()
        from devmod_rocm._launch import RocmLauncher

        return RocmLauncher(info, binaries)

    def make_binaries(self, fmt: str, code: bytes, names: Sequence[str]) -> RocmBinaries:
        from devmod_rocm._binaries import RocmBinaries

        return RocmBinaries(fmt, code, names)
