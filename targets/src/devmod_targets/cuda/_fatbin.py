"""Join cubins and PTX to a fatbin, with the library of the wheel nvidia-nvfatbin."""

from __future__ import annotations

from importlib import import_module

from devmod.errors import CompileError, ToolchainNotFoundError, not_installed
from devmod_targets.cuda import _wheels, nvrtc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Members are stored as they are: a reader of the variants needs no decompressor, and a bundle may compress its payloads.
_OPTIONS = ("-64", "-host=linux", "-compress=false")


def join(members: Sequence[tuple[str, bytes]], name: str) -> tuple[bytes, str]:
    """Return a fatbin and the library's name and version.

    Parameters
    ----------
    members
        The architecture and the image of each member: a cubin for ``sm_``, PTX for ``compute_``.
    name
        The name of the program, which tools show.

    Raises
    ------
    ToolchainNotFoundError
        The library is not installed.
    """
    try:
        library = import_module("cuda.bindings.nvfatbin")
        major = int(str(import_module("cuda.bindings").__version__).partition(".")[0])
        path = _wheels.library(major, "nvfatbin")
        if not path:
            raise ImportError("the wheel is not installed")
        _wheels.preload(path)
        version = ".".join(map(str, library.version()))
    except (ImportError, OSError, RuntimeError) as error:
        missing = not_installed("the library nvfatbin (the wheel nvidia-nvfatbin)", nvrtc.DISTRIBUTION, "cuda", "nvidia")
        raise ToolchainNotFoundError(
            f"the fatbin cannot be made here: {missing}. Or leave out -format=fatbin: several architectures then give variants", kind="cuda"
        ) from error
    handle = library.create(_OPTIONS, len(_OPTIONS))
    try:
        for arch, image in members:
            prefix, _, number = arch.partition("_")
            if prefix == "sm":
                library.add_cubin(handle, image, len(image), number, name)
            else:
                library.add_ptx(handle, image + b"\0", len(image) + 1, number, name, "")
        data = bytearray(library.size(handle))
        library.get(handle, data)
    except Exception as error:
        raise CompileError(f"the fatbin of {name} cannot be made: nvfatbin reported {error}", kind="cuda") from error
    finally:
        library.destroy(handle)
    return bytes(data), f"nvfatbin {_wheels.version('nvidia-nvfatbin') or version}"
