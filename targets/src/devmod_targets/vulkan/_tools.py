"""The programs that make and look at SPIR-V: which are here, how each is called, and what they said.

All run in a folder of their own on files with fixed names, so that nothing of the user's folders gets into what they write.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache

from devmod.errors import CompileError, ToolchainNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Seconds that one program may take.
PATIENCE = 120
_MOST_OUTPUT = 64 << 20
_COMPILERS = {"GLSL": ("glslangValidator", "glslang", "glslc"), "HLSL": ("glslangValidator", "glslang", "glslc", "dxc")}
_INSTALL_COMPILER = (
    "Debian and Ubuntu: apt install glslang-tools spirv-tools; Fedora: dnf install glslang spirv-tools; macOS: brew install glslang "
    "spirv-tools; elsewhere: the Vulkan SDK. There is no pip package of it"
)
_INSTALL_TOOLS = (
    "Debian and Ubuntu: apt install spirv-tools; Fedora: dnf install spirv-tools; macOS: brew install spirv-tools; elsewhere: the "
    "Vulkan SDK"
)
#: What is called otherwise than its program.
_PROJECTS = {"glslangValidator": "glslang", "glslc": "shaderc"}
_VERSION = re.compile(r"(?:Glslang Version: (?:\d+:)?|SPIRV-Tools v|shaderc v?|dxcompiler\D*)(\d+(?:\.\d+)+)")


class Environment:
    """What a shader is compiled for: versions of Vulkan and of SPIR-V, as "1.1" and "1.3"."""

    __slots__ = ("spirv", "vulkan")

    def __init__(self, vulkan: str, spirv: str) -> None:
        self.vulkan, self.spirv = vulkan, spirv

    @property
    def of_tools(self) -> str:
        """As spirv-val and spirv-opt name it."""
        return "vulkan1.1spv1.4" if (self.vulkan, self.spirv) == ("1.1", "1.4") else f"vulkan{self.vulkan}"


class Compiler:
    """A compiler that was found.

    Attributes
    ----------
    name, path
        Its program.
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
        """The command that compiles `file` to the SPIR-V file `out`."""
        hlsl = language == "HLSL"
        if self.name == "dxc":
            target = "vulkan1.1spirv1.4" if environment.of_tools == "vulkan1.1spv1.4" else f"vulkan{environment.vulkan}"
            made = [self.path, "-spirv", f"-fspv-target-env={target}", "-E", entry]
            made += [] if any(option.startswith("-T") for option in options) else ["-T", "cs_6_0"]
            return [*made, *_macros(defines), *options, "-Fo", out, file]
        if self.name == "glslc":
            made = [self.path, "-fshader-stage=comp", "-x", language.lower(), f"--target-env=vulkan{environment.vulkan}"]
            made += [f"--target-spv=spv{environment.spirv}", *([f"-fentry-point={entry}"] if hlsl else [])]
            return [*made, *_macros(defines), *options, "-o", out, file]
        made = [self.path, "--target-env", f"vulkan{environment.vulkan}", "--target-env", f"spirv{environment.spirv}", "-S", "comp"]
        made += ["-D", "-e", entry, "--source-entrypoint", entry] if hlsl else []
        return [*made, *_macros(defines), *options, "-o", out, file]

    def preprocess(self, language: str, defines: Mapping[str, str], file: str) -> list[str] | None:
        """The command that prints `file` preprocessed; None where there is none."""
        if self.name == "dxc":
            return None
        made = [self.path, "-E"]
        made += ["-fshader-stage=comp", "-x", language.lower()] if self.name == "glslc" else ["-S", "comp"]
        made += ["-D"] if language == "HLSL" and self.name != "glslc" else []
        return [*made, *_macros(defines), file]


def _macros(defines: Mapping[str, str]) -> list[str]:
    return [f"-D{name}={value}" for name, value in defines.items()]


def find_compiler(language: str, wanted: str, source: str) -> Compiler:
    """The compiler for a language: the one that is wanted, or the first that is here.

    Raises
    ------
    ToolchainNotFoundError
        There is none.
    CompileError
        The one that is wanted does not compile the language.
    """
    known = _COMPILERS[language]
    if wanted and wanted not in known:
        raise CompileError(f"the vulkan option '--compiler={wanted}': {language} is compiled by {_listed(known)}", kind="vulkan")
    for name in [wanted] if wanted else known:
        path = shutil.which(name)
        if path:
            return Compiler(name, path)
    names = wanted or _listed(known)
    raise ToolchainNotFoundError(
        f"cannot compile the {language} source {source}: {names} was not found. {_INSTALL_COMPILER}", kind="vulkan"
    )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def find_optimizer(source: str) -> str:
    """The path of spirv-opt. It belongs to the toolchain: without it the same source would give other bytes.

    Raises
    ------
    ToolchainNotFoundError
        It is not here.
    """
    path = shutil.which("spirv-opt")
    if path:
        return path
    raise ToolchainNotFoundError(
        f"cannot optimize the shader of {source}: spirv-opt was not found. {_INSTALL_TOOLS}. Or give the option -O0, which stores what the "
        "compiler makes",
        kind="vulkan",
    )


def version(path: str) -> str:
    """The version of a program, "unknown" where it does not say."""
    try:
        return _version(path, os.stat(path).st_mtime_ns)
    except OSError:
        return "unknown"


@cache
def _version(path: str, _: int) -> str:
    found = _VERSION.search(run([path, "--version"], os.curdir)[1])
    return found[1] if found else "unknown"


def run(command: Sequence[str], folder: str) -> tuple[int, str]:
    """Run a program: its exit status, and what it said on both streams.

    Raises
    ------
    CompileError
        It cannot be run, or takes too long.
    """
    name = os.path.basename(command[0])
    try:
        done = subprocess.run(  # noqa: S603 - a program from PATH, with arguments that were looked at
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name} was stopped: it took longer than {PATIENCE} seconds", kind="vulkan") from None
    except OSError as error:
        raise CompileError(f"{name} cannot be run: {error.strerror}", kind="vulkan") from error
    return done.returncode, done.stdout[:_MOST_OUTPUT].decode("utf-8", "replace")
