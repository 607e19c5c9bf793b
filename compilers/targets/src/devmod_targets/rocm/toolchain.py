"""What the payloads of ROCm depend on, and its smallest kernels."""

from __future__ import annotations

import os
from collections.abc import Sequence

from devmod.backend import environment_text
from devmod_targets._toolchain import Clang, SmallKernel, Toolchain, option_value

_DEVICE_LIBS = ("ocml.bc", "ockl.bc", "ocml.amdgcn.bc", "ockl.amdgcn.bc")


def _device_libraries(options: Sequence[str]) -> list[str]:
    folder = option_value(options, "-device-libs=")
    folder = folder or environment_text("DEVMOD_ROCM_DEVICE_LIBS")
    if not folder:
        return []
    paths = [os.path.join(folder, name) for name in _DEVICE_LIBS]
    return [*filter(os.path.isfile, paths)]


TOOLCHAIN = Toolchain(
    __package__,
    SmallKernel("small_kernel.hip", "-arch=gfx1100"),
    SmallKernel("small_kernel.hip", "-format=hip"),
    entries={"hip": "__global__"},
    ambiguous=("ll", "bc", "s"),
    declared=("py",),
    wheels=("libclang", "ziglang"),
    files=_device_libraries,
    has_shared_memory=True,
    clang=Clang(("devmod_hip.h",)),
)
