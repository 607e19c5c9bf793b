"""Vulkan on the build side: GLSL and HLSL to SPIR-V, reflected, validated and optimized; and SPIR-V as it is."""

from __future__ import annotations

import os
import re
from tempfile import TemporaryDirectory

from devmod._payload import CompileRequest, Origin, Payload
from devmod.errors import CompileError, FormatError, source_refused
from devmod.targets._declared import Found, merge, tell
from devmod.targets._shader import found_shader
from devmod.targets._source import options_and_defines
from devmod.targets.vulkan.spec import SPEC
from devmod_targets.vulkan import _tools
from devmod_targets.vulkan._files import Files
from devmod_targets.vulkan._reflect import reflect
from devmod_targets.vulkan._tools import Compiler, Environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What a target may name: a version of Vulkan, with the newest SPIR-V that it takes, or a version of SPIR-V.
_ENVIRONMENTS = {
    "vulkan1.0": Environment("1.0", "1.0"),
    "vulkan1.1": Environment("1.1", "1.3"),
    "vulkan1.2": Environment("1.2", "1.5"),
    "vulkan1.3": Environment("1.3", "1.6"),
    "spirv1.0": Environment("1.0", "1.0"),
    "spirv1.3": Environment("1.1", "1.3"),
    "spirv1.4": Environment("1.1", "1.4"),
    "spirv1.5": Environment("1.2", "1.5"),
    "spirv1.6": Environment("1.3", "1.6"),
}
_DEFAULT = "vulkan1.1"
_OPTIMIZE = ("-O", "-Os", "-O0")
#: What devmod gives the compilers itself, and what makes them write something else.
_OURS = re.compile(
    r"-(?:V|G|H|S|e|E|l|c|h|i|m|q|s|t|v|x|S.*|o.*|V\d*|G\d*|Fo.*|Fc.*|Fh.*|Fi.*|P|spirv|M.*|mfmt.*|std=.*)$"
    r"|--(?:target-env|target-spv|client|source-entrypoint|sep|entry-point|stdin|version|help|depfile|vn|variable-name|dump.*)(?:=.*)?$"
    r"|-f(?:shader-stage|entry-point|spv-target-env)=.*$"
)
_STAGES = {
    "vert": "a vertex",
    "frag": "a fragment",
    "geom": "a geometry",
    "tesc": "a tessellation control",
    "tese": "a tessellation evaluation",
    "mesh": "a mesh",
    "task": "a task",
    "rgen": "a ray generation",
    "rint": "an intersection",
    "rahit": "an any-hit",
    "rchit": "a closest-hit",
    "rmiss": "a miss",
    "rcall": "a callable",
}
_ENTRY = re.compile(r"\[\s*numthreads\b[^\]]*\](?:\s*\[[^\]]*\])*\s*(?:\w+\s+)*?void\s+(\w+)\s*\(", re.IGNORECASE)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_MOST_ENTRIES = 256


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """The payload of a shader.

    Parameters
    ----------
    request
        The source and what belongs to it. Its fmap is merged over what the SPIR-V says.

    Raises
    ------
    ToolchainNotFoundError
        No compiler for the language is installed, or no spirv-opt.
    CompileError
        The source has errors, no compute entry, or one that cannot be called; `log` has all that was said.
    """
    if request.name_expressions:
        raise CompileError("name_expressions= instantiates templates, and shaders have none", kind="vulkan")
    environment = _environment(request)
    stage = _STAGES.get(os.path.splitext(request.name)[1][1:].lower())
    if stage:
        raise CompileError(f"{request.name} is {stage} shader by its name; devmod runs compute shaders (.comp)", kind="vulkan")
    options, defines = options_and_defines(request)
    level, wanted, options = _own_options(options)
    build = _Build(request, environment, level)
    with TemporaryDirectory(prefix="devmod-") as folder:
        if request.language == "SPIR-V":
            made = build.spirv(folder, options, defines)
        else:
            made = build.source(folder, options, defines, wanted)
    found, codes = made
    fmap = merge(SPEC, found, request.fmap)
    assert SPEC.unpack is not None
    packed = {symbol: SPEC.unpack(data) for symbol, data in codes.items()}
    listed = (*(f"--compiler={name}" for name in (wanted,) if name), *(one for one in (level,) if one), *options)
    origin = Origin(
        str(request.target),
        ", ".join(build.toolchain),
        (*listed, *(f"-D{name}={value}" for name, value in defines.items())),
        build.sources,
    )
    code = {name: packed[info.name] for name, info in fmap.items()}
    tell(build.warnings)
    return Payload("vulkan", code, "spv", fmap, {"spv": "\n".join(build.texts)} if build.texts else {}, origin)


def _environment(request: CompileRequest) -> Environment:
    target = request.target
    arch = target.arch or _DEFAULT
    if arch not in _ENVIRONMENTS:
        raise CompileError(
            f"the target {str(target)!r} names the architecture {arch!r}; vulkan has: {', '.join(_ENVIRONMENTS)} (default {_DEFAULT})",
            kind="vulkan",
        )
    return _ENVIRONMENTS[arch]


def _own_options(options: Sequence[str]) -> tuple[str, str, list[str]]:
    """The level of optimization and the compiler that are asked for, each "" where none is, and the options that are left."""
    level, wanted, rest = "", "", []
    for option in options:
        if option in _OPTIMIZE:
            level = option
        elif option.startswith("--compiler="):
            wanted = option.partition("=")[2]
        elif _OURS.match(option):
            what = "the versions of Vulkan and SPIR-V come from the target, as in 'vulkan -arch=vulkan1.2'"
            if not re.search("target|client|^-[VG]", option):
                what = "devmod gives the compiler its files, stage and entries itself"
            raise CompileError(f"the vulkan option {option!r} is not taken: {what}", kind="vulkan")
        else:
            rest.append(option)
    return level, wanted, rest


class _Build:
    """One request being compiled.

    Attributes
    ----------
    toolchain, sources
        As an Origin has them.
    texts
        The disassembly of each module, where there is a disassembler.
    warnings
        What its compiler warned of.
    """

    def __init__(self, request: CompileRequest, environment: Environment, level: str) -> None:
        self.request = request
        self.environment = environment
        self.level = level
        self.toolchain: list[str] = []
        self.sources: dict[str, str] = {}
        self.texts: list[str] = []
        self.warnings: list[str] = []
        self._warnings: dict[str, None] = {}  # each once, also where several entries give it

    # -- each language

    def spirv(self, folder: str, options: Sequence[str], defines: Mapping[str, str]) -> tuple[dict[str, Found], dict[str, bytes]]:
        """The functions of a SPIR-V module and the bytes of each, which are those given unless an optimization is asked for."""
        from hashlib import sha256

        request = self.request
        for what, value in (("the option", next(iter(options), "")), ("the define", next(iter(defines), ""))):
            if value:
                raise CompileError(f"{request.name} is SPIR-V, compiled already: {what} {value!r} would do nothing", kind="vulkan")
        self.sources = {request.name: sha256(request.data).hexdigest()}
        found = self._functions(request.data, declared=True)
        major, minor = request.data[6], request.data[5]
        if request.target.archs and f"{major}.{minor}" > self.environment.spirv:
            raise CompileError(
                f"{request.name} is SPIR-V {major}.{minor}, and the target {str(request.target)!r} takes up to {self.environment.spirv}",
                kind="vulkan",
            )
        self._validate(folder, request.data)
        code = self._optimized(folder, request.data) if self.level in ("-O", "-Os") else request.data
        self._disassemble(folder, code)
        return found, dict.fromkeys((function.symbol for function in found.values()), code)

    def source(
        self, folder: str, options: Sequence[str], defines: Mapping[str, str], wanted: str
    ) -> tuple[dict[str, Found], dict[str, bytes]]:
        """The functions of a source, and the bytes of each."""
        request = self.request
        language = request.language or "GLSL"
        compiler = _tools.find_compiler(language, wanted, request.name)
        self.toolchain.append(compiler.toolchain)
        files = Files(request, language, defines)
        self.sources = files.sources
        with open(os.path.join(folder, files.file), "w", encoding="utf-8", newline="") as file:
            file.write(files.text)
        entries = self._entries(folder, compiler, files, language, defines) if language == "HLSL" else ["main"]
        found: dict[str, Found] = {}
        codes: dict[str, bytes] = {}
        for entry in entries:
            command = compiler.command(language, entry, self.environment, defines, options, files.file, "made.spv")
            data = self._compiled(folder, command, files, language)
            found |= self._functions(data, declared=language == "GLSL", several=len(entries) > 1)
            self._validate(folder, data)
            codes[entry] = data if self.level == "-O0" else self._optimized(folder, data)
        for code in dict.fromkeys(codes.values()):
            self._disassemble(folder, code)
        if self._warnings:
            self.warnings.append("\n".join([f"the {language} source has warnings:", *self._warnings]))
        return found, codes

    def _entries(self, folder: str, compiler: Compiler, files: Files, language: str, defines: Mapping[str, str]) -> list[str]:
        """The functions of a HLSL source that are marked with numthreads, in order."""
        command = compiler.preprocess(language, defines, files.file)
        text = files.text
        if command is not None:
            status, printed = _tools.run(command, folder)
            text = printed if status == 0 else text  # the compiler has words for what is wrong
        entries = list(dict.fromkeys(_ENTRY.findall(_COMMENT.sub(" ", text))))
        name = self.request.name
        if not entries:
            raise CompileError(f"the HLSL source {name} has no entry: no function in it is marked [numthreads(x, y, z)]", kind="vulkan")
        if len(entries) > _MOST_ENTRIES:
            raise CompileError(f"the HLSL source {name} has {len(entries)} entries; the most is {_MOST_ENTRIES}", kind="vulkan")
        return entries

    # -- one module

    def _compiled(self, folder: str, command: list[str], files: Files, language: str) -> bytes:
        out = os.path.join(folder, "made.spv")
        if os.path.exists(out):
            os.unlink(out)
        status, said = _tools.run(command, folder)
        errors, warnings = files.messages(said)
        if status or not os.path.exists(out):
            first = next((line for line in said.splitlines() if line.strip()), f"exit status {status}")
            raise source_refused("vulkan", language, errors or [first], "\n".join(errors + warnings) or said)
        self._warnings |= dict.fromkeys(warnings)
        with open(out, "rb") as file:
            return file.read()

    def _functions(self, data: bytes, *, declared: bool, several: bool = False) -> dict[str, Found]:
        request = self.request
        try:
            shaders = reflect(data, request.name, declared=declared)
        except FormatError as error:
            raise CompileError(f"the SPIR-V of {request.name} {error}", kind="vulkan") from None
        names = [shader.symbol for shader in shaders]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise CompileError(f"the SPIR-V of {request.name} has two compute entries named {twice!r}", kind="vulkan")
        # What everybody calls `main` is called as its file; not where that would be the name of another entry.
        called = {name: request.stem if name == "main" and request.stem not in names else name for name in names}
        return {called[shader.symbol]: found_shader("vulkan", shader) for shader in shaders}

    def _validate(self, folder: str, data: bytes) -> None:
        """Have spirv-val look at it, where it is here. It changes nothing, so the bytes do not depend on that."""
        import shutil

        path = shutil.which("spirv-val")
        if path is None:
            return
        self._write(folder, data)
        status, said = _tools.run([path, "--target-env", self._environment_of(data), "--scalar-block-layout", "given.spv"], folder)
        if status:
            lines = [line for line in said.splitlines() if line.strip()]
            first = lines[0].removeprefix("error: ") if lines else f"exit status {status}"
            raise CompileError(f"the SPIR-V of {self.request.name} is not valid, says spirv-val: {first}", kind="vulkan", log=said)

    def _optimized(self, folder: str, data: bytes) -> bytes:
        path = _tools.find_optimizer(self.request.name)
        toolchain = f"spirv-opt {_tools.version(path)}"
        if toolchain not in self.toolchain:
            self.toolchain.append(toolchain)
        self._write(folder, data)
        out = os.path.join(folder, "optimized.spv")
        if os.path.exists(out):
            os.unlink(out)
        command = [path, f"--target-env={self._environment_of(data)}", "--scalar-block-layout", self.level or "-O"]
        command += ["given.spv", "-o", "optimized.spv"]
        status, said = _tools.run(command, folder)
        if status or not os.path.exists(out):
            first = next((line for line in said.splitlines() if line.strip()), f"exit status {status}")
            raise CompileError(f"the SPIR-V of {self.request.name} cannot be optimized, says spirv-opt: {first}", kind="vulkan", log=said)
        with open(out, "rb") as file:
            return file.read()

    def _disassemble(self, folder: str, data: bytes) -> None:
        import shutil

        path = shutil.which("spirv-dis")
        if path is None:
            return
        self._write(folder, data)
        status, said = _tools.run([path, "--no-color", "given.spv"], folder)
        if status == 0:
            self.texts.append(said)

    def _write(self, folder: str, data: bytes) -> None:
        with open(os.path.join(folder, "given.spv"), "wb") as file:
            file.write(data)

    def _environment_of(self, data: bytes) -> str:
        """The environment for SPIR-V of its version, as the tools name it."""
        if self.request.language != "SPIR-V":
            return self.environment.of_tools
        names = {0: "vulkan1.0", 4: "vulkan1.1spv1.4", 5: "vulkan1.2", 6: "vulkan1.3"}
        return names.get(data[5], "vulkan1.1")
