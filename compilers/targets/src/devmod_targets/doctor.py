"""What `devmod.doctor` checks of the build side: whether a small kernel of each kind compiles here,
and by which compiler.
"""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod import Module, Target
from devmod.errors import DevmodError, ToolchainNotFoundError
from devmod.plugins import find_spec
from devmod_targets._toolchain import SmallKernel, find_toolchain
from devmod_targets.build.matrix import suffix_of
from devmod_targets.compilation import compile_source


@HookimplMarker("devmod")
def devmod_doctor(kind: str) -> list[tuple[str, str, str]]:
    """Return whether a kernel of the kind compiles."""
    toolchain = find_toolchain(kind)
    if toolchain is None:
        return []
    try:
        module = compile_small(kind, toolchain.kernel)
    except ToolchainNotFoundError as error:
        return [("compiler", "not installed", str(error))]
    except DevmodError as error:
        return [("compiler", "problem", str(error))]
    return [
        (
            "compiler",
            "ok",
            f"compiles by {module.origin.toolchain if module.origin else 'its compiler'}",
        )
    ]


def compile_small(kind: str, kernel: SmallKernel) -> Module:
    """Return the module of a small kernel of a kind's toolchain."""
    spec = find_spec(kind)
    toolchain = find_toolchain(kind)
    assert spec is not None
    assert toolchain is not None
    return compile_source(
        spec,
        toolchain.source(kernel),
        Target.parse(f"{kind} {kernel.options}"),
        name="f",
        language=suffix_of(kernel.file),
        runtime=False,
        listings=False,
    )


def small_payload(kind: str) -> bytes:
    """Return the bytes of the module that runs on each device of a kind: the file
    ``small_kernel.module`` of its runtime.
    """
    toolchain = find_toolchain(kind)
    assert toolchain is not None
    return compile_small(kind, toolchain.portable or toolchain.kernel).save_to_bytes()
