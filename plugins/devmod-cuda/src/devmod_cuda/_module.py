"""The runtime module of CUDA."""

from __future__ import annotations

from contextlib import suppress

from devmod import FunctionInfo, Target
from devmod_driver_api.module import DriverModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from devmod.backend import Binary, Code, Source
    from devmod_cuda._binaries import Binaries
    from devmod_runtime import Launcher


class CudaModule(DriverModule):
    """CUDA C++, PTX, a cubin or a fatbin. The first get_function on a device loads it, once for all
    functions.
    """

    target = "cuda"

    @classmethod
    def create(
        cls, code: Code, fmt: str, fmap: Mapping[str, FunctionInfo], source: Source | None = None
    ) -> Self:
        module = super().create(code, fmt, fmap, source)
        module._compile_early()
        return module

    @classmethod
    def load(cls, data: Binary) -> Self:
        module = super().load(data)
        module._compile_early()
        return module

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        binaries = self.binaries()
        from devmod_cuda._launch import CudaLauncher

        return CudaLauncher(info, binaries)

    def make_binaries(self, fmt: str, code: bytes, names: Sequence[str]) -> Binaries:
        from devmod_cuda._binaries import Binaries

        archs = self._target_archs()
        return Binaries(fmt, code, names, archs=archs, origin=self._devmod_origin)

    def _target_archs(self) -> tuple[str, ...]:
        """Return the architectures of the target that was current when the module was made or first
        used.
        """

        def read() -> tuple[str, ...]:
            target = Target.current()
            return target.archs if target is not None and target.kind == "cuda" else ()

        return self.once("archs", read)

    def _compile_early(self) -> None:
        """Compile a source now if the architecture is known: that of the current target, or of a
        device that is open.

        An error is raised by the first get_function, which compiles again.
        """
        if self.format != "cuda":
            return
        from devmod_cuda._binaries import open_arch

        archs = self._target_archs()
        device_arch = open_arch()
        if not device_arch and len(archs) != 1:
            return
        from devmod_cuda._jit import choose_arch, lines_for_simulator

        if lines_for_simulator():  # the name of the source is known later
            return
        # R40: what is wrong with a payload shows at the first get_function.
        with suppress(Exception):
            self.binaries().compile_early(choose_arch(archs, device_arch))
