"""Assemble PTX to a cubin, with the library of the wheel nvidia-nvjitlink. No driver is needed.

NVRTC has no function for it, and the wheel nvidia-nvptxcompiler contains a static library alone.
"""

from __future__ import annotations

from importlib import import_module

from devmod.backend import compile_error
from devmod.errors import CompileError, ToolchainNotFoundError, not_installed
from devmod_targets.cuda import _wheels, nvrtc
from devmod_targets.cuda._log import diagnostics, read_reports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACKAGE = "nvidia-nvjitlink"


def assemble(ptx: bytes, arch: str, name: str, *, verbose: bool = False) -> tuple[bytes, str, list[str]]:
    """Return the cubin of PTX, the library's name and version, and with `verbose` the assembler's reports.

    Parameters
    ----------
    ptx
        The PTX.
    arch
        The architecture, such as "sm_90".
    name
        The name of the PTX for messages.

    Raises
    ------
    ToolchainNotFoundError
        The library is not installed.
    CompileError
        The PTX has errors, or is for a newer architecture.
    """
    library = _load(name)
    try:
        options = [f"-arch={arch}", *(["-Xptxas=-v"] if verbose else [])]
        handle = library.create(len(options), options)
    except Exception as error:
        raise CompileError(
            f"the PTX {name} cannot be assembled for {arch}: nvJitLink does not support this architecture", kind="cuda"
        ) from error
    try:
        library.add_data(handle, library.InputType.PTX, ptx, len(ptx), name)
        library.complete(handle)
        cubin = bytearray(library.get_linked_cubin_size(handle))
        library.get_linked_cubin(handle, cubin)
        report = bytearray(library.get_info_log_size(handle))
        library.get_info_log(handle, report)
    except Exception as error:
        log = bytearray(library.get_error_log_size(handle))
        library.get_error_log(handle, log)
        text = log.rstrip(b"\0").decode("utf-8", "replace")
        errors, _ = diagnostics(text, name, name)
        raise compile_error("cuda", "PTX", errors or [f"{name}: error: {error}"], text) from error
    finally:
        library.destroy(handle)
    reports = read_reports(report.rstrip(b"\0").decode("utf-8", "replace"), f"the assembler's report on {name} for {arch}")
    return bytes(cubin), f"nvjitlink {_wheels.version(_PACKAGE) or '.'.join(map(str, library.version()))}", reports


def _load(name: str) -> Any:
    try:
        bindings = import_module("cuda.bindings")
        path = _wheels.library(int(str(bindings.__version__).partition(".")[0]), "nvJitLink")
        if not path:
            raise ImportError("the wheel is not installed")
        _wheels.preload(path)
        return import_module("cuda.bindings.nvjitlink")
    except (ImportError, OSError) as error:
        command = f"pip install {_PACKAGE}" if _wheels.version("cuda-bindings") else f"{nvrtc.INSTALL_BUILD} {_PACKAGE}"
        missing = not_installed(f"the library nvJitLink (the wheel {_PACKAGE})", command, "cuda", "nvidia")
        raise ToolchainNotFoundError(
            f"the PTX {name} cannot be assembled to a cubin here: {missing}. Or name an architecture compute_: the PTX is then stored as "
            "it is, and the driver assembles it",
            kind="cuda",
        ) from error
