"""devmod-host: what its entry points name, and nothing else. Importing it imports no cffi and runs no compiler."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device, FunctionInfo, Module


def create(code: bytes | memoryview, fmt: str, fmap: Mapping[str, FunctionInfo], source: Mapping[str, str | bytes] | None) -> Module:
    """``devmod.create.host``: the module of a payload."""
    from devmod_host._module import HostModule
    from devmod_host.target import SPEC

    return HostModule(SPEC, fmt, fmap, code, source)


def load_from_bytes(data: memoryview) -> Module:
    """``devmod.load_from_bytes.host``: the module in its bytes."""
    from devmod_host._module import HostModule
    from devmod_host.target import SPEC

    return HostModule.from_wire(SPEC, data)


def load_from_file(path: str, fmt: str) -> Module:
    """``devmod.load_from_file.c``: the module of a source file and the metadata file beside it."""
    from devmod.backend import read_payload
    from devmod_host._module import HostModule
    from devmod_host.target import SPEC

    return HostModule(SPEC, *read_payload(SPEC, path, fmt))


def devices() -> Sequence[Device]:
    """``devmod.device.host``: the processor, which is one device."""
    from devmod_host._device import devices as found

    return found()
