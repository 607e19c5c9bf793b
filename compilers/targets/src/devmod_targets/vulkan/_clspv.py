"""clspv, which compiles OpenCL C to SPIR-V for Vulkan: the program, or the wheel pyclspv, which
runs in a process of its own.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from devmod.backend import environment_text, find_program
from devmod.errors import CompileError, ToolchainNotFoundError, compile_error, not_installed
from devmod.worker import can_start_python
from devmod_readers.options.opencl import VERSIONS
from devmod_readers.options.table import OptionTable
from devmod_targets._text import place_of
from devmod_targets.authoring._library import ask_library, wheel_version
from devmod_targets.authoring._process import run_program

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "clspv"
WHEEL = "pyclspv"
#: The environment variable that names the program.
VARIABLE = "DEVMOD_CLSPV"
DISTRIBUTION = "devmod-core[build-vulkan-opencl]"
_GET_PROGRAM = f"get clspv itself (https://github.com/google/clspv), and put it into PATH or name it by {VARIABLE}"
#: What to try after a crash, whose reason clspv does not print.
_ADVICE = "Leave out statements until it compiles, to find the one that clspv does not support"
#: What each source is compiled with: the types of arguments, and vectors of 8 and 16.
_OWN = ("-cl-kernel-arg-info", "-long-vector")
_INLINE = "-inline-entry-points"
_GENERIC = ("-cl-std=CL2", "-cl-std=CLC++")
#: The option for constants that are arrays, whose other form may be invalid.
CONSTANTS = "-module-constants-in-storage-buffer"
#: The options about warnings, which devmod does not show.
_WITHOUT_EFFECT = (*_OWN, "-w", "-Werror")
#: The options of OpenCL that clspv lacks.
_MISSING = (
    "-cl-no-subgroup-ifp",
    "-cl-strict-aliasing",
    "-cl-uniform-work-group-size",
)
#: The options of clspv that change the code. Others name files or formats.
_FLAGS = (
    "cl-native-math constant-args-ubo inline-entry-points long-vector module-constants-in-storage-buffer pod-pushconstant pod-ubo "
    "relaxed-ubo-layout rewrite-packed-structs scalar-block-layout std430-ubo-layout uniform-workgroup-size vec3-to-vec4"
)
_VALUES = {
    "cluster-pod-kernel-args": "[01]",
    "enable-feature-macros": r"[\w,]+",
    "fp16": "[01]",
    "fp64": "[01]",
    "int8": "[01]",
    "max-pushconstant-size": r"\d+",
    "max-ubo-size": r"\d+",
    "no-16bit-storage": r"[\w,]+",
    "no-8bit-storage": r"[\w,]+",
    "use-native-builtins": r"[\w,]+",
    "work-dim": "[01]",
}
TABLE = OptionTable(
    [
        *(option for option in VERSIONS if option not in _MISSING),
        "-O2",
        "-O3",
        *(f"{dashes}{name}" for dashes in ("-", "--") for name in _FLAGS.split()),
    ],
    {f"{dashes}{name}": value for dashes in ("-", "--") for name, value in _VALUES.items()},
    "-D.*",
)
_ERROR = re.compile(
    r"^(?P<place>source(?:\.cl)?:(?P<line>\d+)(?P<column>:\d+: )|[^\n:]+:\d+:\d+: |)(?:fatal )?error: (?P<text>.*)$",
    re.MULTILINE,
)
#: The characters of a line that clspv printed, in an error.
_MOST_TEXT = 500
_FILE = "source.cl"
#: The names of the source in the debug information of the wheel and of the program.
UNNAMED = ("source", _FILE)
_OUT = "compiled.spv"


class SourceError(CompileError):
    """An error of clspv with its reason and a line of the source."""


class Clspv(NamedTuple):
    """An installed clspv.

    Attributes
    ----------
    path
        The path of the program; "" for the wheel.
    toolchain
        Its name and version.
    """

    path: str
    toolchain: str

    def compile(
        self, name: str, text: str, options: Sequence[str], spirv: str, folder: str
    ) -> bytes:
        """Compile a source, and return the SPIR-V.

        Parameters
        ----------
        name, text
            The name of the source, for messages, and its text with all includes.
        options, spirv
            Its options, and the version of SPIR-V.
        folder
            A temporary folder, for the program.

        Raises
        ------
        SourceError
            The source has errors.
        CompileError
            clspv crashes, exceeds the time limit, or prints no reason.
        """
        used = [each for each in options if each not in _WITHOUT_EFFECT]
        used += [f"--spv-version={spirv}", *_OWN]
        # clspv requires it where a pointer without an address space is generic.
        if _INLINE not in used and any(each.startswith(_GENERIC) for each in used):
            used.append(_INLINE)
        if self.path:
            Path(folder, _FILE).write_text(text, encoding="utf-8", newline="")
            command = [self.path, *used, _FILE, "-o", _OUT]
            status, log = run_program(command, folder, name=self.path, kind="vulkan")
            if status < 0:
                raise CompileError(
                    f"{self.path} cannot compile {name}: it was ended by the signal {-status}. {_ADVICE}",
                    kind="vulkan",
                    log=log,
                )
            code = b""
            path = Path(folder, _OUT)
            if path.is_file():
                code = path.read_bytes()
        else:
            status, (code,), log = ask_library(
                "vulkan",
                f"{self.toolchain} cannot compile {name}",
                f"{_ADVICE}. Or {_GET_PROGRAM}",
                {"module": "devmod_targets.vulkan._clspv_process", "forks": True},
                {"options": " ".join(used)},
                text.encode(),
            )
        if code and not status:
            return code
        errors = []
        for match in _ERROR.finditer(log):
            place = match["place"]
            if match["line"]:
                # clspv's own checks ignore the #line directives.
                rest = text.split("\n", int(match["line"]) - 1)[-1]
                place = place_of(len(text) - len(rest), text, name) + match["column"]
            errors.append(f"{place}error: {match['text']}")
        if not errors:
            last = log.strip().rpartition("\n")[2][:_MOST_TEXT]
            reason = last or f"it printed no reason (exit status {status})"
            text = f"{self.toolchain} cannot compile {name}: {reason}"
            raise CompileError(text, kind="vulkan", log=log)
        text = str(compile_error("vulkan", "OpenCL C", errors, log))
        raise SourceError(text, kind="vulkan", log=log)


def find_clspv(wanted: str, source: str) -> Clspv:
    """Return the program that the user names or that is in PATH, else the wheel.

    Parameters
    ----------
    wanted
        PROGRAM or WHEEL for one of them; "" for the first one.
    source
        The name of the source, for messages.

    Raises
    ------
    ToolchainNotFoundError
        It is not installed.
    """
    if wanted != WHEEL:
        path = _program()
        if path:
            _, log = run_program([path, "--version"], os.sep, name=path, kind="vulkan")
            versions = re.findall(r"\d+(?:\.\d+)+", log)
            return Clspv(path, " ".join(["clspv", *versions[:1]]))
        named = environment_text(VARIABLE)
        if named:
            raise ToolchainNotFoundError(
                f"cannot compile the OpenCL C source {source}: {VARIABLE}={named} is not a program",
                kind="vulkan",
            )
    if wanted != PROGRAM and can_start_python():
        found = find_spec(WHEEL)
        if found is not None:
            # `wheel_version` takes a file of a package; pyclspv is one file without a package.
            file = os.path.join(os.path.dirname(found.origin or ""), WHEEL, WHEEL)
            return Clspv("", wheel_version(WHEEL, file))
    missing = not_installed("clspv", DISTRIBUTION, WHEEL)
    raise ToolchainNotFoundError(
        f"cannot compile the OpenCL C source {source} for vulkan: {missing}. {WHEEL} has wheels for Linux on x86-64 alone; "
        f"elsewhere, {_GET_PROGRAM}",
        kind="vulkan",
    )


def _program() -> str:
    """Return the path of the program; "" if there is none. A named program is the only choice."""
    return find_program(environment_text(VARIABLE) or PROGRAM)


def clspv_files(_options: Sequence[str]) -> list[str]:
    """Return the files on which a build depends: the program that the user names."""
    path = _program()
    if not path:
        return []
    return [path]
