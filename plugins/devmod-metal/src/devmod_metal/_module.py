"""The real Metal module."""

from __future__ import annotations

from devmod.backend import RealModule, read_payload
from devmod.targets import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from devmod import FunctionInfo
    from devmod.backend import Launcher
    from devmod.targets import TargetSpec
    from devmod_metal._library import Libraries


class MetalModule(RealModule):
    """A map of shaders, source or libraries. Each is built for a device at the first get_function that needs it there."""

    @classmethod
    def create(
        cls, code: Mapping[str, bytes | memoryview], fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None
    ) -> Self:
        """The module of a payload; the arguments are those of `devmod.create`."""
        return cls(_spec(), fmt, fmap, code, source)

    @classmethod
    def load(cls, data: bytes | memoryview) -> Self:
        """The module in the bytes that `save_to_bytes` gave."""
        return cls.from_wire(_spec(), data)

    @classmethod
    def read(cls, path: str, fmt: str) -> Self:
        """The module of a payload file and the metadata file beside it."""
        fmt, fmap, code = read_payload(_spec(), path, fmt)
        return cls(_spec(), fmt, fmap, code)

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        entry = self.entry(name, info)
        shader = self._libraries().shader(entry, *self.payload(entry))
        from devmod_metal._launch import MetalLauncher

        return MetalLauncher(name, info, shader)

    def _libraries(self) -> Libraries:
        from devmod_metal._library import Libraries

        made: Libraries = self.once("libraries", Libraries)
        return made


def _spec() -> TargetSpec:
    spec = find_spec("metal")
    assert spec is not None  # it is one of core's own
    return spec
