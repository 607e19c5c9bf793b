"""The shaders of a module. Each is compiled once for each device that needs it; functions with
equal shaders share a library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devmod.backend import Once
from devmod.errors import CompileError, FormatError, LaunchError, list_names
from devmod_metal._device import MetalDevice, metal
from devmod_metal._interface import ConstantValue, MetalError, Pipeline
from devmod_runtime import Builds, source_text

#: The first bytes of a metallib.
_MAGIC = b"MTLB"


def read_shader(libraries: Once, entry: str, fmt: str, code: bytes | memoryview) -> Shader:
    """Return a shader of a module. Check its payload, without a driver.

    Parameters
    ----------
    libraries
        The libraries of the module.
    entry, fmt, code
        The key of the shader, its format and its bytes.

    Raises
    ------
    FormatError
        The payload is not valid for Metal.
    """
    subject = f"the metal shader {entry!r} of format {fmt!r}"
    data = bytes(code)
    if fmt == "metal":
        source_text("metal", subject, data)
    elif not data.startswith(_MAGIC):
        raise FormatError(
            f"{subject} is not such a file: expected {_MAGIC!r} at its start, got {data[:8]!r}",
            kind="metal",
        )
    shader = Shader(libraries, fmt, data)
    _ = shader.options  # an option that is not allowed is an error here
    return shader


class Shader(Builds):
    """One shader with one set of constants: its library and its pipelines on each device."""

    kind = source_format = "metal"

    def __init__(
        self,
        libraries: Once,
        fmt: str,
        code: bytes,
        constants: Mapping[str, object] | None = None,
        others: Sequence[str] = (),
    ) -> None:
        super().__init__(fmt, code, constants, others)
        self._libraries = libraries

    def specialize(self, constants: Mapping[str, object], others: Sequence[str] = ()) -> Shader:
        """Return the shader with values for constants of its source, as the base class. `others`
        are its function constants.
        """
        if not constants:
            return self
        if self.fmt != "metal":
            raise LaunchError(
                f"a metal function of format {self.fmt!r} has no constant {next(iter(constants))!r} to specialize: its defines were fixed "
                "when it was built. Use the source (format 'metal'), or a function constant",
                kind="metal",
            )
        return Shader(self._libraries, self.fmt, self.code, {**self._set, **constants}, others)

    def library(self, device: MetalDevice) -> Any:
        """Return Metal's library, built once for all threads and functions.

        Raises
        ------
        CompileError, FormatError
            Metal refuses the source or the library.
        """
        return self._libraries.get((device, self.text or self.code), lambda: self._build(device))

    def _build(self, device: MetalDevice) -> Any:
        if self.fmt != "metal":
            try:
                return metal().load(device.handle, self.code)
            except MetalError as error:
                raise FormatError(
                    f"{device} does not support the metallib: {error}. A library runs on the macOS that it was built for, and later; "
                    "use the source (format 'metal') for others",
                    kind="metal",
                ) from error
        try:
            return metal().compile(device.handle, self.text, self.options)
        except MetalError as error:
            log = str(error)
            lines = [line.strip() for line in log.splitlines() if "error:" in line][:3] or [
                log[:200]
            ]
            raise CompileError(
                f"{device} cannot build the metal source: {'; '.join(lines)}", kind="metal", log=log
            ) from error

    def pipeline(
        self, device: MetalDevice, name: str, constants: Sequence[ConstantValue]
    ) -> Pipeline:
        """Return the pipeline of a function.

        Raises
        ------
        CompileError, FormatError
            The library cannot be built, or has no such function.
        MetalError
            Metal cannot create the pipeline.
        """
        library = self.library(device)
        names = metal().functions(library)
        if name not in names:
            raise FormatError(
                f"the metal library has no function {name!r}, which the payload's fmap names; it has: {list_names(names) or 'none'}",
                kind="metal",
            )
        return metal().pipeline(device.handle, library, name, constants)
