"""The format and the architectures of a CUDA target."""

from __future__ import annotations

from devmod import Target
from devmod.errors import CompileError
from devmod.targets.cuda import SPEC
from devmod_targets.cuda import nvrtc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The architecture for which a source without one is checked. Kernels with features of one architecture (``sm_90a``) name it.
_CHECKED = "compute_90"


def variants(target: Target) -> tuple[Target, ...]:
    """Return a target for each payload: one for each architecture, or one for all of a fatbin or a source."""
    return (target,) if dict(target.options).get("format") in ("fatbin", "cuda") else target.variants()


def check_format(target: Target) -> str:
    """Return the value of ``-format=``; "" without it.

    Raises
    ------
    CompileError
        The target has another option, or an unknown format.
    """
    options = dict(target.options)
    fmt: str = options.pop("format", "")
    if options or (fmt and fmt not in SPEC.formats):
        what = f"-{next(iter(options))}" if options else f"-format={fmt}"
        raise CompileError(
            f"the target {str(target)!r} has the option {what}; expected -format=cuda, -format=ptx, -format=cubin or -format=fatbin",
            kind="cuda",
        )
    return fmt


def payload_format(target: Target) -> str:
    """Return the format of the payload: that of ``-format=``, or by default a cubin for ``sm_`` and PTX for ``compute_``.

    The target has an architecture unless its format is "cuda" (`TargetSpec.needs_arch`).

    Raises
    ------
    CompileError
        The target has another option, an unknown format, or a format that does not fit its architecture.
    """
    fmt = check_format(target)
    if fmt == "cubin" and target.archs[0].startswith("compute_"):
        number = target.archs[0].removeprefix("compute_")
        raise CompileError(
            f"the target {str(target)!r} requests a cubin of a virtual architecture; write -arch=sm_{number}, or -format=ptx", kind="cuda"
        )
    if fmt == "cuda" and len(target.archs) > 1:
        raise CompileError(
            f"the target {str(target)!r} keeps the source, which is the same for all architectures; name at most one", kind="cuda"
        )
    return fmt or ("cubin" if target.archs[0].startswith("sm_") else "ptx")


def nvrtc_arch(arch: str) -> str:
    """Return an architecture for NVRTC; "" is that for which a source is checked.

    Raises
    ------
    CompileError
        NVRTC does not support it.
    """
    known = nvrtc.arch_names()
    if not arch:
        return _CHECKED if _CHECKED in known else known[-1]
    if arch not in known:
        number = ".".join(map(str, nvrtc.version()))
        raise CompileError(f"NVRTC {number} does not support the architecture {arch!r}; it supports {_short(known)}", kind="cuda")
    return arch


def _short(names: Sequence[str]) -> str:
    """Return the architectures for a message: the numbers, since each exists with ``sm_`` and ``compute_``."""
    numbers = [name.removeprefix("sm_") for name in names if name.startswith("sm_")]
    return f"sm_ and compute_ with {', '.join(numbers)}"
