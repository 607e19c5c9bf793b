"""The SPIR-V that naga, the compiler in the wheel wgpu, writes for WGSL. The wheel has no function
that returns it, so it is taken where wgpu passes it to the driver of Vulkan.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from devmod.backend import find_program
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring._library import ask_library
from devmod_targets.authoring._process import compiler_folder, run_program
from devmod_targets.spirv_ptx import Translation, translate
from devmod_wgsl import survey_wgsl

if TYPE_CHECKING:
    from collections.abc import Mapping

_KIND = "webgpu"
_SOURCE = "capture_spirv.c"
#: Has the path of the library for the process.
_VARIABLE = "DEVMOD_CAPTURE_SPIRV"
_INSTALL = (
    "Debian and Ubuntu: apt install gcc libc6-dev libvulkan1 mesa-vulkan-drivers; pip install wgpu"
)


def compile_to_spirv(
    text: str, name: str, entry: str, constants: Mapping[str, float] | None = None
) -> bytes:
    """Compile an entry point of WGSL to SPIR-V with the lines of the source. Indices are not
    checked, and loops are not bounded: a sanitizer sees what the source does.

    Parameters
    ----------
    text, name
        The source, and the name of its file.
    entry
        The name of the entry point.
    constants
        Values of overrides, in place of the defaults.

    Raises
    ------
    CompileError
        naga refuses the source; `log` has its output.
    ToolchainNotFoundError
        The wheel wgpu, a C compiler or a driver of Vulkan is missing, or the system is not Linux.
    """
    compiler = find_program(os.environ.get("CC", "cc"))
    missing = ""
    if not sys.platform.startswith("linux"):
        missing = "Linux"
    elif find_spec("wgpu") is None:
        missing = "the wheel wgpu"
    elif not compiler:
        missing = "a C compiler (cc)"
    if missing or not compiler:
        raise ToolchainNotFoundError(
            f"the translation of WGSL needs {missing}; {_INSTALL}", kind=_KIND
        )
    with compiler_folder() as folder:
        library = _build(compiler, folder)
        status, (spirv,), log = ask_library(
            _KIND,
            f"wgpu cannot compile {name}",
            _INSTALL,
            {
                "module": "devmod_targets.webgpu._naga_process",
                "forks": False,
                "variable": _VARIABLE,
            },
            {"name": Path(name).name, "entry": entry, "constants": dict(constants or {})},
            text.encode(),
            settings={_VARIABLE: library},
        )
    if status == 2:
        raise ToolchainNotFoundError(
            f"the translation of WGSL needs a device of wgpu on Vulkan: {log}; {_INSTALL}",
            kind=_KIND,
        )
    if status:
        raise CompileError(
            f"wgpu does not compile the entry {entry!r} of {name}: {log.strip()}",
            kind=_KIND,
            function=entry,
            log=log,
        )
    return spirv


def _build(compiler: str, folder: str) -> str:
    """Compile the library that sees the shaders, and return its path."""
    source = str(Path(__file__).with_name(_SOURCE))
    path = str(Path(folder, "capture.so"))
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wl,-soname,libvulkan.so.1", source]
    status, output = run_program([*command, "-o", path, "-ldl"], folder, name=compiler, kind=_KIND)
    if status:
        raise CompileError(
            f"{compiler} does not compile {_SOURCE}: {output}", kind=_KIND, log=output
        )
    return path


def translate_wgsl(text: str, name: str) -> dict[str, Translation]:
    """Translate the compute entry points of a WGSL source to PTX, each to a module of its own.

    Parameters
    ----------
    text, name
        The source, and the name of its file.

    Returns
    -------
    dict of str to Translation
        The translations by the names of the entry points. The parameters are those of WGSL.

    Raises
    ------
    CompileError
        As `compile_to_spirv` and `devmod_targets.spirv_ptx.translate`.
    """
    entries, _, _ = survey_wgsl(text, name)
    result = {}
    for entry, function in entries.items():
        spirv = compile_to_spirv(text, name, entry)
        own = {entry: _with_places_of_vulkan(function)}
        result[entry] = translate(spirv, location=name, interfaces=own, clear_shared=True)
    return result


def _with_places_of_vulkan(function: ReflectedFunction) -> ReflectedFunction:
    """Return a function with the bindings that wgpu gives its arguments for Vulkan: those of a
    group are numbered without gaps.
    """
    bound = [param.at for param in function.params if param.kind != "scalar"]
    bound += [block.at for block in function.blocks]
    places = sorted({place for place in bound if isinstance(place, tuple)})
    numbers: dict[object, tuple[int, int]] = {}
    for group, binding in places:
        before = sum(other < binding for owner, other in places if owner == group)
        numbers[group, binding] = group, before

    params = []
    for param in function.params:
        if param.kind != "scalar" and param.at in numbers:
            param = param.replace(at=numbers[param.at])
        params.append(param)
    blocks = [block.replace(at=numbers.get(block.at, block.at)) for block in function.blocks]
    return function.replace(params=tuple(params), blocks=tuple(blocks))
