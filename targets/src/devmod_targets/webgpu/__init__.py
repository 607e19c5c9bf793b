"""The build side of WebGPU."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod.targets._declared import Found


def read_wgsl(text: str, name: str, constants: Mapping[str, Any] | None = None) -> dict[str, Found]:
    """The compute entries of a WGSL text by name, as `devmod.compile` reads them.

    Parameters
    ----------
    text, name
        The text, and what messages call it.
    constants
        Values for its overrides, by name: what its workgroups are with them.

    Raises
    ------
    CompileError
        It is no WGSL, or an entry cannot be called.
    """
    from devmod_targets.webgpu._reflect import read

    return read(text, name, constants)


def check_for_naga(text: str, name: str) -> None:
    """Refuse a text on which naga, the compiler of wgpu, would end the process.

    Parameters
    ----------
    text, name
        The text, and what messages call it.

    Raises
    ------
    CompileError
        Brackets or operators stand deeper in each other than any shader needs, or a uniform has matrices that naga cannot take.
    """
    from devmod_targets.webgpu._depth import check_depth
    from devmod_targets.webgpu._reflect import check_matrices

    check_depth(text, name)
    check_matrices(text, name)
