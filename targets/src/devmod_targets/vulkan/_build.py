"""Build one request: run the compiler, reflect its SPIR-V, validate, optimize and disassemble it."""

from __future__ import annotations

import os
import re

from devmod.backend import find_program
from devmod.errors import CompileError, FormatError, compile_error
from devmod_readers.reflection import ReflectedFunction, ReflectedShader, reflected_function
from devmod_readers.spirv import read_module, reflect
from devmod_targets.authoring import Inliner, line_directive
from devmod_targets.authoring._included import unresolved_names
from devmod_targets.vulkan import _tools
from devmod_targets.vulkan._tools import Compiler, Environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_targets.authoring import CompileRequest


_ENTRY = re.compile(r"\[\s*numthreads\b[^\]]*\](?:\s*\[[^\]]*\])*\s*(?:\w+\s+)*?void\s+(\w+)\s*\(", re.IGNORECASE)

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)

_MAX_ENTRIES = 256

#: spirv-val's errors for numbers and names that a later version of SPIR-V may define.
_UNKNOWN_TO_VALIDATOR = re.compile(
    r"Invalid (?:[\w -]+ operand|opcode): \d+|Unknown (?:extension|extended instruction set)|Invalid SPIR-V version"
)


class Build:
    """The build of one request.

    Attributes
    ----------
    toolchain, sources
        The values for `devmod.Origin`.
    files
        The value for `Payload`.
    texts
        The disassembly of each module, if spirv-dis is installed.
    warnings, doubts
        The warnings of the tools, and those about a validator that does not know a feature.
    unvalidated
        Why no validator checked the modules; "" if one did.
    """

    def __init__(self, request: CompileRequest, environment: Environment, level: str) -> None:
        self.request = request
        self.environment = environment
        self.level = level
        self.toolchain: list[str] = []
        self.sources: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.texts: list[str] = []
        self.warnings: list[str] = []
        self.doubts: list[str] = []
        self.unvalidated = ""
        self._warnings: dict[str, None] = {}  # a dict, because several entry points cause the same warning

    # -- each language

    def spirv(
        self, folder: str, options: Sequence[str], defines: Mapping[str, str]
    ) -> tuple[dict[str, ReflectedFunction], dict[str, bytes]]:
        """Return the functions of a SPIR-V module and the bytes of each. Without an optimization option the bytes are unchanged."""
        from hashlib import sha256

        request = self.request
        for noun, value in (("the option", next(iter(options), "")), ("the define", next(iter(defines), ""))):
            if value:
                raise CompileError(f"{request.name} is compiled SPIR-V, so {noun} {value!r} has no effect; remove it", kind="vulkan")
        self.sources = {request.name: sha256(request.data).hexdigest()}
        functions = self._functions(request.data, include_unused=True)
        major, minor = request.data[6], request.data[5]
        if request.target.archs and f"{major}.{minor}" > self.environment.spirv:
            raise CompileError(
                f"{request.name} is SPIR-V {major}.{minor}; the target {str(request.target)!r} supports up to {self.environment.spirv}",
                kind="vulkan",
            )
        self._validate(folder, request.data)
        code = self._optimized(folder, request.data) if self.level in ("-O", "-Os") else request.data
        self._disassemble(folder, code)
        return functions, dict.fromkeys((function.symbol for function in functions.values()), code)

    def source(
        self, folder: str, options: Sequence[str], defines: Mapping[str, str], compiler_name: str
    ) -> tuple[dict[str, ReflectedFunction], dict[str, bytes]]:
        """Return the functions of a source, and the SPIR-V of each."""
        request = self.request
        language = request.language
        compiler = _tools.find_compiler(language, compiler_name, request.name)
        self.toolchain.append(compiler.toolchain)
        files = Files(request, language, defines)
        self.sources, self.files = files.sources, files.files
        with open(os.path.join(folder, files.file), "w", encoding="utf-8", newline="") as file:
            file.write(files.text)
        entries = self._entries(folder, compiler, files, language, defines) if language == "HLSL" else ["main"]
        functions: dict[str, ReflectedFunction] = {}
        codes: dict[str, bytes] = {}
        for entry in entries:
            command = compiler.command(language, entry, self.environment, defines, options, files.file, "compiled.spv")
            data = self._compiled(folder, command, files, language)
            functions |= self._functions(data, include_unused=language == "GLSL")
            self._validate(folder, data)
            codes[entry] = data if self.level == "-O0" else self._optimized(folder, data)
        for code in dict.fromkeys(codes.values()):
            self._disassemble(folder, code)
        if self._warnings:
            self.warnings.append("\n".join([f"the {language} source has warnings:", *self._warnings]))
        return functions, codes

    def _entries(self, folder: str, compiler: Compiler, files: Files, language: str, defines: Mapping[str, str]) -> list[str]:
        """Return the functions of a HLSL source with the attribute numthreads, in order."""
        command = compiler.preprocess(language, defines, files.file)
        text = files.text
        if command is not None:
            status, printed = _tools.run(command, folder)
            text = printed if status == 0 else text  # the compiler reports the errors later
        entries = list(dict.fromkeys(_ENTRY.findall(_COMMENT.sub(" ", text))))
        name = self.request.name
        if not entries:
            raise CompileError(f"the HLSL source {name} has no entry: mark a function with [numthreads(x, y, z)]", kind="vulkan")
        if len(entries) > _MAX_ENTRIES:
            raise CompileError(f"the HLSL source {name} has {len(entries)} entries; expected at most {_MAX_ENTRIES}", kind="vulkan")
        return entries

    # -- one module

    def _compiled(self, folder: str, command: list[str], files: Files, language: str) -> bytes:
        out = os.path.join(folder, "compiled.spv")
        if os.path.exists(out):
            os.unlink(out)
        status, output = _tools.run(command, folder)
        errors, warnings = files.messages(output)
        if status or not os.path.exists(out):
            first = next((line for line in output.splitlines() if line.strip()), f"exit status {status}")
            raise compile_error("vulkan", language, errors or [first], "\n".join(errors + warnings) or output)
        self._warnings |= dict.fromkeys(warnings)
        with open(out, "rb") as file:
            return file.read()

    def _functions(self, data: bytes, *, include_unused: bool) -> dict[str, ReflectedFunction]:
        request = self.request
        try:
            shaders = reflect(read_module(data), request.name, include_unused=include_unused)
        except FormatError as error:
            raise CompileError(f"the SPIR-V of {request.name} {error}", kind="vulkan") from None
        names = [shader.symbol for shader in shaders]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise CompileError(f"the SPIR-V of {request.name} has two compute entries named {twice!r}", kind="vulkan")
        for shader in shaders:
            self._warn_of_defaults(shader)
        # The function name of `main` is the file's stem, unless another entry point has that name.
        function_names = {name: request.stem if name == "main" and request.stem not in names else name for name in names}
        return {function_names[shader.symbol]: reflected_function("vulkan", shader) for shader in shaders}

    def _warn_of_defaults(self, shader: ReflectedShader) -> None:
        """Warn about the constants without one default: a call needs values for them."""
        for position, constant in enumerate(shader.constants):
            if constant.default is not None:
                continue
            sources = zip("xyz", shader.block_constants, strict=False)
            axes = [axis for axis, source in sources if source == position or (isinstance(source, list) and position in source)]
            size = f", one of them for the block's size in {' and '.join(axes)}" if axes else ""
            is_glsl = axes and self.request.language == "GLSL"
            advice = f" (write local_size_{axes[0]} = N beside local_size_{axes[0]}_id)" if is_glsl else ""
            warning = (
                f"{self.request.name} has the constant {constant.label!r} (id {constant.id}) with defaults that differ{size}, so each call "
                f"needs f.specialize({constant.keyword}); give it one default{advice}"
            )
            if warning not in self.warnings:
                self.warnings.append(warning)

    def _validate(self, folder: str, data: bytes) -> None:
        """Validate the module if spirv-val is installed. Validation does not change the bytes."""
        path = find_program("spirv-val")
        if not path:
            self.unvalidated = "spirv-val is not installed; it is in the package spirv-tools"
            return
        self._write(folder, data)
        status, output = _tools.run([path, "--target-env", self._tool_environment(data), "--scalar-block-layout", "input.spv"], folder)
        if status:
            lines = [line for line in output.splitlines() if line.strip()]
            first = lines[0].removeprefix("error: ") if lines else f"exit status {status}"
            if _UNKNOWN_TO_VALIDATOR.search(first):
                self.doubts.append(
                    f"the SPIR-V of {self.request.name} was not validated: spirv-val {_tools.version(path)} does not support "
                    f"it ({first}). Install a newer spirv-val to validate it"
                )
                return
            raise CompileError(f"spirv-val refuses the SPIR-V of {self.request.name}: {first}", kind="vulkan", log=output)

    def _optimized(self, folder: str, data: bytes) -> bytes:
        path = _tools.find_optimizer(self.request.name)
        toolchain = f"spirv-opt {_tools.version(path)}"
        if toolchain not in self.toolchain:
            self.toolchain.append(toolchain)
        self._write(folder, data)
        out = os.path.join(folder, "optimized.spv")
        if os.path.exists(out):
            os.unlink(out)
        command = [path, f"--target-env={self._tool_environment(data)}", "--scalar-block-layout", self.level or "-O"]
        command += ["input.spv", "-o", "optimized.spv"]
        status, output = _tools.run(command, folder)
        if status or not os.path.exists(out):
            first = next((line for line in output.splitlines() if line.strip()), f"exit status {status}")
            raise CompileError(f"spirv-opt cannot optimize the SPIR-V of {self.request.name}: {first}", kind="vulkan", log=output)
        with open(out, "rb") as file:
            return file.read()

    def _disassemble(self, folder: str, data: bytes) -> None:
        path = find_program("spirv-dis")
        if not path:
            return
        self._write(folder, data)
        status, output = _tools.run([path, "--no-color", "input.spv"], folder)
        if status == 0:
            self.texts.append(output)

    def _write(self, folder: str, data: bytes) -> None:
        with open(os.path.join(folder, "input.spv"), "wb") as file:
            file.write(data)

    def _tool_environment(self, data: bytes) -> str:
        """Return the tools' name of the environment for the module's SPIR-V version."""
        if self.request.language != "SPIR-V":
            return self.environment.tool_name
        names = {0: "vulkan1.0", 4: "vulkan1.1spv1.4", 5: "vulkan1.2", 6: "vulkan1.3"}
        return names.get(data[5], "vulkan1.1")


# -- Put a shader's source and includes into one file, and map a compiler's messages back to the user's files.


#: The messages of compilers: glslang prints the severity first, shaderc and dxc print the location first.
_SEVERITY_FIRST = re.compile(r"(?P<severity>ERROR|WARNING): (?:(?P<file>[^:\n]*):(?P<line>\d+): )?(?P<text>.*)")
_PLACE_FIRST = re.compile(r"(?P<file>[^:\n]*):(?P<line>\d+):(?:\d+:)? (?P<severity>error|warning): (?P<text>.*)")
_COUNTED = re.compile(r"(?:\d+ (?:compilation )?errors?\b.*|'' : compilation terminated|SPIR-V is not generated.*)\s*$")


class Files:
    """The source with its includes embedded.

    GLSL's ``#line`` takes a file number, so each file has one.

    Attributes
    ----------
    file, text
        The name and the text of the file.
    sources
        The name of each source file to the SHA-256 of its text.
    files
        The value for `Payload`.
    """

    def __init__(self, request: CompileRequest, language: str, defines: Mapping[str, str]) -> None:
        self.file = "source.hlsl" if language == "HLSL" else "source.comp"
        self._names = [request.name]
        inliner = Inliner(
            request,
            frozenset(name.partition("(")[0] for name in defines),
            line_directive if language == "HLSL" else self._numbered,
        )
        self.text = inliner.inline(request.text)
        self.sources, self.files = inliner.sources, inliner.files | unresolved_names(self.text)

    def _numbered(self, number: int, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        return f"#line {number} {self._names.index(name)}\n"

    def messages(self, output: str) -> tuple[list[str], list[str]]:
        """Return the errors and the warnings in a compiler's output, each in the form ``k.comp:3: error: …``."""
        errors: list[str] = []
        warnings: list[str] = []
        for line in output.splitlines():
            match = _SEVERITY_FIRST.match(line) or _PLACE_FIRST.match(line)
            if not match or _COUNTED.match(match["text"]):
                continue
            severity = match["severity"].lower()
            place = f"{self._name(match['file'])}:{match['line']}: " if match["line"] else ""
            (errors if severity == "error" else warnings).append(f"{place}{severity}: {match['text'].strip()}")
        return errors, warnings

    def _name(self, file: str) -> str:
        if file.isdigit() and int(file) < len(self._names):
            return self._names[int(file)]
        return self._names[0] if file == self.file else file
