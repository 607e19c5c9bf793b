"""Compile CUDA C++ at the receiver (R30), with the NVRTC of ``devmod-cuda[jit]`` and a cache on the
disk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from devmod.backend import DiskCache, environment_flag, environment_text, find_spec
from devmod.errors import CompileError, ToolchainNotFoundError, not_installed, pip_install
from devmod.targets import CHECKS_VARIABLE

#: What pip installs for the compiler of the receiver.
DISTRIBUTION = "devmod-cuda[jit]"
_CACHE = DiskCache("cuda")
#: The contents of a cache entry: the format of the image, a line break, and the image. The text is
#: a part of the key.
_FORM = "format and image"
#: The distributions whose versions determine NVRTC's output.
_WHEELS = ("nvidia_cuda_", "cuda_bindings-")


def compile_source(
    text: str, options: Sequence[str], arch: str, name: str = ""
) -> tuple[str, bytes]:
    """Compile a source for an architecture.

    Parameters
    ----------
    text, options
        The source and its build options.
    arch
        The architecture, such as "sm_90" or "compute_90". For one that NVRTC does not support, PTX
        of an older one is made.
    name
        The name of the source, for the lines that the simulated GPU shows; "" if it is unknown.

    Returns
    -------
    str, bytes
        "cubin" or "ptx", and the image.

    Raises
    ------
    CompileError, ToolchainNotFoundError
        The source has errors, NVRTC does not support the architecture, or is not installed.
    """
    lines = lines_for_simulator()
    file = name if lines and name else "kernel.cu"
    key = _CACHE.key(
        _FORM,
        _toolchain(),
        lines and f"{lines} of {file}",
        arch,
        "\0".join(options),
        text,
    )
    fmt, _, image = (_CACHE.read(key) or b"").partition(b"\n")
    if image:
        return fmt.decode(), image
    nvrtc = _compiler()
    supported = nvrtc.arch_names(distribution=DISTRIBUTION)
    actual = arch if arch in supported else _nearest(arch, supported)
    arguments = [*options, f"-arch={actual}"]
    if lines and "-lineinfo" not in options:
        arguments.append("-lineinfo")
    program = nvrtc.compile_program(text, file, arguments, distribution=DISTRIBUTION)
    # A cubin for a device of the list above needs no compilation by the driver.
    result = ("ptx", program.ptx) if actual.startswith("compute_") else ("cubin", program.cubin)
    _CACHE.write(key, result[0].encode() + b"\n" + result[1])
    return result


def lines_for_simulator() -> str:
    """Return why PTX needs the lines of its source: "checks" or "errors" of the simulated GPU, or
    "".
    """
    if environment_text(CHECKS_VARIABLE):
        return "checks"
    is_below_command = "libdevmod_cubins" in environment_text("LD_PRELOAD")
    if is_below_command or environment_text("DEVMOD_CUDA_DRIVER") == "simulator":
        return "errors"
    return ""


def _compiler() -> Any:
    """Return the module that calls NVRTC. ToolchainNotFoundError: its wheel is not installed."""
    try:
        from devmod_targets.cuda import nvrtc
    except ModuleNotFoundError as error:
        if error.name != "devmod_targets":
            raise
        text = not_installed("devmod-targets", DISTRIBUTION, "devmod_targets")
        raise ToolchainNotFoundError(
            f"CUDA C++ cannot be compiled here: {text}", kind="cuda"
        ) from None
    return nvrtc


def choose_arch(archs: Sequence[str], device_arch: str) -> str:
    """Return the architecture to compile for.

    Parameters
    ----------
    archs
        The architectures of the target that the program has set. The best of those that the device
        runs is used; without one, that of the device.
    device_arch
        The architecture of the device, such as "sm_90:ptx8.7"; "" for the first of `archs`.
    """
    device = device_arch.partition(":")[0]
    if not device:
        return archs[0]
    spec: Any = find_spec("cuda")
    ranks = {arch: number for arch in archs if (number := spec.rank(arch, device)) is not None}
    chosen = max(ranks, key=lambda arch: ranks[arch]) if ranks else device
    # NVIDIA's own variable: the driver ignores cubins and compiles PTX.
    is_forced = not ranks and environment_flag("CUDA_FORCE_PTX_JIT")
    if is_forced or lines_for_simulator():  # the simulated GPU executes PTX alone
        return chosen.replace("sm_", "compute_")
    return chosen


def _nearest(arch: str, supported: Sequence[str]) -> str:
    """Return the newest architecture of `supported` whose PTX runs on a device of `arch`, which
    NVRTC does not support.
    """
    number = int("".join(filter(str.isdigit, arch)) or 0)
    older = [
        int(name.removeprefix("compute_"))
        for name in supported
        if name.startswith("compute_") and name[-1].isdigit()
    ]
    fitting = [each for each in older if each <= number]
    if not fitting or not arch.startswith("sm_"):
        raise CompileError(
            f"the cuda source cannot be compiled for {arch}: this NVRTC supports {', '.join(supported)}. "
            f"To use another one: {pip_install(DISTRIBUTION, '--upgrade')}",
            kind="cuda",
        )
    return f"compute_{max(fitting)}"


@cache
def _toolchain() -> str:
    """Return the versions of the wheels that compile, without loading them: their folders of
    metadata.
    """
    from importlib.util import find_spec as find_module

    module = find_module("nvidia")
    paths = (module.submodule_search_locations or ()) if module is not None else ()
    folders = {os.path.dirname(path) for path in paths}
    names = {
        name
        for folder in folders
        for name in os.listdir(folder)
        if name.startswith(_WHEELS) and name.endswith(".dist-info")
    }
    return "\0".join(sorted(names))
