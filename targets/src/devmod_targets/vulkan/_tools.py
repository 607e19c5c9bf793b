"""Find and run the programs that compile and process SPIR-V.

Each runs in a temporary folder on files with fixed names, so that its output contains no path of the user.
"""

from __future__ import annotations

import os
import re
from functools import cache

from devmod.backend import find_program
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_targets.authoring._process import run_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMPILERS = {"GLSL": ("glslangValidator", "glslang", "glslc"), "HLSL": ("glslangValidator", "glslang", "glslc", "dxc")}
_INSTALL_COMPILER = (
    "Debian and Ubuntu: apt install glslang-tools spirv-tools; Fedora: dnf install glslang spirv-tools; macOS: brew install glslang "
    "spirv-tools; elsewhere: the Vulkan SDK. There is no pip package of it"
)
_INSTALL_TOOLS = (
    "Debian and Ubuntu: apt install spirv-tools; Fedora: dnf install spirv-tools; macOS: brew install spirv-tools; elsewhere: the "
    "Vulkan SDK"
)
#: Projects whose name differs from their executable.
_PROJECTS = {"glslangValidator": "glslang", "glslc": "shaderc"}
_VERSION = re.compile(r"(?:Glslang Version: (?:\d+:)?|SPIRV-Tools v|shaderc v?|dxcompiler\D*)(\d+(?:\.\d+)+)")


class Environment:
    """The versions of Vulkan and of SPIR-V that a shader is compiled for, such as "1.1" and "1.3"."""

    __slots__ = ("spirv", "vulkan")

    def __init__(self, vulkan: str, spirv: str) -> None:
        self.vulkan, self.spirv = vulkan, spirv

    @property
    def tool_name(self) -> str:
        """The name of the environment in the options of spirv-val and spirv-opt."""
        return "vulkan1.1spv1.4" if (self.vulkan, self.spirv) == ("1.1", "1.4") else f"vulkan{self.vulkan}"


class Compiler:
    """An installed compiler.

    Attributes
    ----------
    name, path
        The name and the path of its program.
    toolchain
        Its project and version, such as "glslang 12.0.0".
    """

    __slots__ = ("name", "path", "toolchain")

    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.toolchain = f"{_PROJECTS.get(name, name)} {version(path)}"

    def command(
        self, language: str, entry: str, environment: Environment, defines: Mapping[str, str], options: Sequence[str], file: str, out: str
    ) -> list[str]:
        """Return the command that compiles `file` to the SPIR-V file `out`."""
        hlsl = language == "HLSL"
        if self.name == "dxc":
            target = "vulkan1.1spirv1.4" if environment.tool_name == "vulkan1.1spv1.4" else f"vulkan{environment.vulkan}"
            command = [self.path, "-spirv", f"-fspv-target-env={target}", "-E", entry]
            command += [] if any(option.startswith("-T") for option in options) else ["-T", "cs_6_0"]
            return [*command, *_macros(defines), *options, "-Fo", out, file]
        if self.name == "glslc":
            command = [self.path, "-fshader-stage=comp", "-x", language.lower(), f"--target-env=vulkan{environment.vulkan}"]
            command += [f"--target-spv=spv{environment.spirv}", *([f"-fentry-point={entry}"] if hlsl else [])]
            return [*command, *_macros(defines), *options, "-o", out, file]
        command = [self.path, "--target-env", f"vulkan{environment.vulkan}", "--target-env", f"spirv{environment.spirv}", "-S", "comp"]
        command += ["-D", "-e", entry, "--source-entrypoint", entry] if hlsl else []
        return [*command, *_macros(defines), *options, "-o", out, file]

    def preprocess(self, language: str, defines: Mapping[str, str], file: str) -> list[str] | None:
        """Return the command that preprocesses `file` to stdout; None if the compiler has none."""
        if self.name == "dxc":
            return None
        command = [self.path, "-E"]
        command += ["-fshader-stage=comp", "-x", language.lower()] if self.name == "glslc" else ["-S", "comp"]
        command += ["-D"] if language == "HLSL" and self.name != "glslc" else []
        return [*command, *_macros(defines), file]


def _macros(defines: Mapping[str, str]) -> list[str]:
    return [f"-D{name}={value}" for name, value in defines.items()]


def find_compiler(language: str, wanted: str, source: str) -> Compiler:
    """Return the compiler with the name `wanted`, or the first installed one for the language.

    Raises
    ------
    ToolchainNotFoundError
        The compiler is not installed.
    CompileError
        The compiler `wanted` does not support the language.
    """
    known = _COMPILERS[language]
    if wanted and wanted not in known:
        raise CompileError(
            f"the vulkan option '--compiler={wanted}' is invalid for {language}; expected {_join_names(known)}", kind="vulkan"
        )
    for name in [wanted] if wanted else known:
        path = find_program(name)
        if path:
            return Compiler(name, path)
    names = wanted or _join_names(known)
    raise ToolchainNotFoundError(
        f"cannot compile the {language} source {source}: {names} is not installed. {_INSTALL_COMPILER}", kind="vulkan"
    )


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def find_optimizer(source: str) -> str:
    """Return the path of spirv-opt. It is required, because without it the same source would compile to other bytes.

    Raises
    ------
    ToolchainNotFoundError
        spirv-opt is not installed.
    """
    path = find_program("spirv-opt")
    if path:
        return path
    raise ToolchainNotFoundError(
        f"cannot optimize the shader of {source}: spirv-opt is not installed. {_INSTALL_TOOLS}. Or pass the option -O0 to store the "
        "compiler's output",
        kind="vulkan",
    )


def version(path: str) -> str:
    """Return the version of a program; "unknown" if it prints none."""
    try:
        return _version(path, os.stat(path).st_mtime_ns)
    except OSError:
        return "unknown"


@cache
def _version(path: str, _: int) -> str:
    match = _VERSION.search(run([path, "--version"], os.sep)[1])
    return match[1] if match else "unknown"


def run(command: Sequence[str], folder: str) -> tuple[int, str]:
    """Return the result of `run_program`, in this process's environment: a Vulkan SDK may need it."""
    return run_program(command, folder, name=os.path.basename(command[0]), kind="vulkan")
