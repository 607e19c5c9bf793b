"""devmod-host: the functions that its entry points name. Importing it imports no cffi and runs no
compiler.

The target spec is in this package too, and every look-up of the kind imports it. So this file
imports the module inside the functions.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(
    code: bytes | memoryview,
    fmt: str,
    fmap: Mapping[str, FunctionInfo],
    source: Mapping[str, str | bytes] | None,
) -> Module:
    """Entry point ``devmod.create.host``: return the module of a payload."""
    from devmod_host._module import HostModule

    return HostModule.create(code, fmt, fmap, source)


def load_from_bytes(data: memoryview) -> Module:
    """Entry point ``devmod.load_from_bytes.host``: return the module that the bytes contain."""
    from devmod_host._module import HostModule

    return HostModule.load(data)


def load_from_file(path: str, fmt: str) -> Module:
    """Entry point ``devmod.load_from_file.c``: return the module of a source file and its metadata
    file.
    """
    from devmod_host._module import HostModule

    return HostModule.read(path, fmt)


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.host``: return the processor, the only device."""
    from devmod_host._device import devices as list_devices

    return list_devices()
