"""Find and run the programs that compile and process SPIR-V.

Each runs in a temporary folder on files with fixed names, so that its output contains no path of
the user.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from devmod.backend import find_program
from devmod.errors import CompileError, ToolchainNotFoundError, not_installed
from devmod_targets._executables import version_of
from devmod_targets.authoring import CompileRequest
from devmod_targets.authoring._process import run_program
from devmod_targets.authoring._source import define_options
from devmod_targets.vulkan import _slangpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


#: The values of ``--compiler=`` by language. The first installed one is the default. "spirv-tools"
#: are the programs for SPIR-V.
COMPILERS = {
    "GLSL": (_slangpy.NAME, "glslangValidator", "glslang", "glslc"),
    "HLSL": ("glslangValidator", "glslang", "glslc", "dxc"),
    "OpenCL C": ("clspv", "pyclspv"),
    "SPIR-V": (_slangpy.NAME, "spirv-tools"),
}
INSTALL_COMPILER = (
    "Debian and Ubuntu: apt install glslang-tools spirv-tools; Fedora: dnf install glslang spirv-tools; macOS: brew install glslang "
    "spirv-tools; elsewhere: the Vulkan SDK"
)
_WHEEL = "devmod-core[build-vulkan]"
_INSTALL_TOOLS = (
    "Debian and Ubuntu: apt install spirv-tools; Fedora: dnf install spirv-tools; macOS: brew install spirv-tools; elsewhere: the "
    "Vulkan SDK"
)
#: Projects whose name differs from their executable.
_PROJECTS = {"glslangValidator": "glslang", "glslc": "shaderc"}
_VERSION = r"(?:Glslang Version: (?:\d+:)?|SPIRV-Tools v|shaderc v?|dxcompiler\D*)(\d+(?:\.\d+)+)"


class Environment(NamedTuple):
    """The versions of Vulkan and of SPIR-V that a shader is compiled for, such as "1.1" and
    "1.3".
    """

    vulkan: str
    spirv: str

    @property
    def tool_name(self) -> str:
        """The name of the environment in the options of spirv-val and spirv-opt."""
        if (self.vulkan, self.spirv) == ("1.1", "1.4"):
            return "vulkan1.1spv1.4"
        return f"vulkan{self.vulkan}"


class Compiler(NamedTuple):
    """An installed compiler.

    Attributes
    ----------
    name, path
        The name and the path of its program.
    """

    name: str
    path: str

    @property
    def toolchain(self) -> str:
        """Its project and version, such as "glslang 12.0.0"."""
        return f"{_PROJECTS.get(self.name, self.name)} {version(self.path)}"

    def command(
        self, request: CompileRequest, entry: str, environment: Environment, file: str, out: str
    ) -> list[str]:
        """Return the command that compiles `file` to the SPIR-V file `out`."""
        hlsl = request.language == "HLSL"
        options = [*define_options(request.defines), *request.options]
        if self.name == "dxc":
            target = environment.tool_name.replace("spv", "spirv")
            command = [self.path, "-spirv", f"-fspv-target-env={target}", "-E", entry]
            if not any(option.startswith("-T") for option in options):
                command += ["-T", "cs_6_0"]
            return [*command, *options, "-Fo", out, file]
        if self.name == "glslc":
            command = [
                self.path,
                "-fshader-stage=comp",
                "-x",
                request.language.lower(),
                f"--target-env=vulkan{environment.vulkan}",
                f"--target-spv=spv{environment.spirv}",
            ]
            if hlsl:
                command.append(f"-fentry-point={entry}")
            return [*command, *options, "-o", out, file]
        command = [
            self.path,
            "--target-env",
            f"vulkan{environment.vulkan}",
            "--target-env",
            f"spirv{environment.spirv}",
            "-S",
            "comp",
        ]
        if hlsl:
            command += ["-D", "-e", entry, "--source-entrypoint", entry]
        return [*command, *options, "-o", out, file]

    def preprocess(self, request: CompileRequest, file: str) -> list[str] | None:
        """Return the command that preprocesses `file` to stdout; None if the compiler has none."""
        if self.name == "dxc":
            return None
        command = [self.path, "-E"]
        if self.name == "glslc":
            command += ["-fshader-stage=comp", "-x", request.language.lower()]
        else:
            command += ["-S", "comp"]
            if request.language == "HLSL":
                command.append("-D")
        return [*command, *define_options(request.defines), file]


def find_compiler(language: str, wanted: str, source: str) -> Compiler | _slangpy.Library:
    """Return the compiler with the name `wanted`, or the first installed one for the language.

    Raises
    ------
    ToolchainNotFoundError
        The compiler is not installed.
    CompileError
        The compiler `wanted` does not support the language.
    """
    check_wanted(language, wanted)
    names = COMPILERS[language]
    if wanted:
        names = (wanted,)
    for name in names:
        if name == _slangpy.NAME:
            library = _slangpy.find_library(source)
            if library:
                return library
        elif path := find_program(name):
            return Compiler(name, path)

    missing = not_installed(join_names(names), _WHEEL, _slangpy.NAME)
    if _slangpy.NAME not in names:
        missing = f"{join_names(names)} is not installed. To add it: {INSTALL_COMPILER}"
    elif not wanted:
        missing = f"{missing}. Or {INSTALL_COMPILER}"
    raise ToolchainNotFoundError(
        f"cannot compile the {language} source {source}: {missing}", kind="vulkan"
    )


def find_library(wanted: str, source: str) -> _slangpy.Library | None:
    """Return the library that validates and optimizes SPIR-V, unless the programs of spirv-tools do
    so.

    Raises
    ------
    ToolchainNotFoundError
        The library is `wanted` and not installed.
    CompileError
        `wanted` has another name.
    """
    check_wanted("SPIR-V", wanted)
    if wanted == "spirv-tools":
        return None
    library = _slangpy.find_library(source)
    if wanted == _slangpy.NAME and not library:
        missing = not_installed(_slangpy.NAME, _WHEEL, _slangpy.NAME)
        raise ToolchainNotFoundError(
            f"cannot validate the SPIR-V of {source}: {missing}", kind="vulkan"
        )
    return library


def check_wanted(language: str, wanted: str) -> None:
    known = COMPILERS[language]
    if wanted and wanted not in known:
        raise CompileError(
            f"the vulkan option '--compiler={wanted}' is invalid for {language}; expected {join_names(known)}",
            kind="vulkan",
        )


def join_names(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def find_optimizer(source: str) -> str:
    """Return the path of spirv-opt. It is required, because without it the same source would
    compile to other bytes.

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
    def printed() -> str:
        _, output = run([path, "--version"], os.sep)
        match = re.search(_VERSION, output)
        if match:
            return match[1]
        return ""

    return version_of(path, printed) or "unknown"


def run(
    command: Sequence[str], folder: str, meanwhile: Callable[[], None] = lambda: None
) -> tuple[int, str]:
    """Return the result of `run_program`, in this process's environment: a Vulkan SDK may need
    it.
    """
    return run_program(
        command, folder, name=os.path.basename(command[0]), kind="vulkan", meanwhile=meanwhile
    )
