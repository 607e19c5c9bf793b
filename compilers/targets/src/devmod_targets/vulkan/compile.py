"""The compiler of Vulkan: it compiles GLSL, HLSL and OpenCL C to SPIR-V, and reflects, validates
and optimizes SPIR-V.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from devmod import Origin
from devmod.backend import find_program
from devmod.errors import (
    CompileError,
    DevmodError,
    FormatError,
    compile_error,
)
from devmod.targets.vulkan import SPEC
from devmod_targets._text import COMMENT, dropped_print
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    check_target_options,
    merge_declared,
    options_and_defines,
    warn_caller,
)
from devmod_targets.authoring._process import compiler_folder
from devmod_targets.authoring._source import define_options
from devmod_targets.vulkan import _slangpy
from devmod_targets.vulkan._programs import (
    COMPILERS,
    INSTALL_COMPILER,
    Compiler,
    Environment,
    check_wanted,
    find_compiler,
    find_library,
    find_optimizer,
    join_names,
    run,
    version,
)
from devmod_targets.vulkan._shader_text import Files, text_with_defines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devmod_readers.reflection import ReflectedFunction, ReflectedShader
    from devmod_targets.vulkan._clspv import Clspv

    _Functions = dict[str, ReflectedFunction]
    #: The functions of a source, and the SPIR-V of each by its symbol.
    _Compiled = tuple[_Functions, dict[str, bytes]]

#: The architectures of the target: a version of Vulkan with its newest SPIR-V, or a version of
#: SPIR-V.
_ENVIRONMENTS = {
    "vulkan1.0": ("1.0", "1.0"),
    "vulkan1.1": ("1.1", "1.3"),
    "vulkan1.2": ("1.2", "1.5"),
    "vulkan1.3": ("1.3", "1.6"),
    "spirv1.0": ("1.0", "1.0"),
    "spirv1.3": ("1.1", "1.3"),
    "spirv1.4": ("1.1", "1.4"),
    "spirv1.5": ("1.2", "1.5"),
    "spirv1.6": ("1.3", "1.6"),
}
_DEFAULT = "vulkan1.1"
_LOST_TURNS = (
    "clspv compiles a loop in a loop to wrong code, in which the inner loop does not repeat. End the inner loop by its own condition, "
    "and test after it whether the outer one ends"
)
#: The version for OpenCL C by default: pointers can be null from then on. Each device of
#: devmod-vulkan takes it.
_SPIRV_OF_KERNELS = "1.4"
#: The versions of OpenCL C whose atomic functions have an order of memory.
_ATOMICS_WITH_ORDER = ("-cl-std=CL2", "-cl-std=CL3", "-cl-std=CLC++")
_OPTIMIZE = ("-O", "-Os", "-O0")
#: Compiler options that devmod sets itself, or that change the output format.
_RESERVED_OPTIONS = (
    r"-(?:V|G|H|S|e|E|l|c|h|i|m|q|s|t|v|x|S.*|o.*|V\d*|G\d*|Fo.*|Fc.*|Fh.*|Fi.*|P|spirv|M.*|mfmt.*|std=.*)$"
    r"|--(?:target-env|target-spv|client|source-entrypoint|sep|entry-point|stdin|version|help|depfile|vn|variable-name|dump.*)(?:=.*)?$"
    r"|-f(?:shader-stage|entry-point|spv-target-env)=.*$"
)
# Where to change: an option of the compilers of Vulkan: glslang, glslc and dxc
#   also: `compilers/targets/src/devmod_targets/vulkan/_slangpy.py` (`DEBUG_LEVELS`), if the library
#     of slangpy takes it; `compilers/targets/src/devmod_targets/vulkan/_clspv.py` (`_FLAGS`,
#     `_VALUES`) for one of clspv
#   tests: `compilers/targets/tests/test_vulkan_compile.py`,
#     `compilers/targets/tests/test_hostile_options.py`
#: The options of glslang, glslc and dxc that change the code or the diagnostics, and their values.
#: Others name files and libraries.
_SUPPORTED = (
    r"(?a)-(?:g0?|gVS?|w|r|R|C|d|Od)|-U[A-Za-z_]\w*|-W[A-Za-z0-9-]*"
    r"|--(?:auto|enhanced|flatten|hlsl|invert|keep|nan|no|relaxed|resource|set|shift|suppress|uniform)-[\w-]+(?:=\w+)?"
    r"|--(?:quiet|glsl-version|ku|nsf|iy|am[bl]|fua|rsb|s[a-z]{2,4})"
    r"|-f(?:auto|cbuffer|finite|hlsl|image|invert|nan|no|preserve|resource|sampler|spv|ssbo|texture|uav|ubo|vk)-[\w-]+(?:=[\w.,-]+)?"
    r"|-O[1-3]|-T\w+|-HV|-Z[a-z]{1,2}|-G[a-z]{2}|-enable-16bit-types|-no-warnings"
    r"|\w+"
)
_ENTRY = r"(?i)\[\s*numthreads\b[^\]]*\](?:\s*\[[^\]]*\])*\s*(?:\w+\s+)*?void\s+(\w+)\s*\("
_MAX_ENTRIES = 256
#: spirv-val's errors for numbers and names that a later version of SPIR-V may define.
_UNKNOWN_TO_VALIDATOR = r"Invalid (?:[\w -]+ operand|opcode): \d+|Unknown (?:extension|extended instruction set)|Invalid SPIR-V version"
#: The message of a validator about an instruction of a module, which it counts from 1.
_INVALID = re.compile(r"\bline (?P<number>\d+): (?P<text>.*)")
#: What to write in place of code that clspv compiles to invalid SPIR-V, by a word of the reason.
_ADVICE = {
    "ConvertUToPtr": ". Vulkan makes no pointers from integers: use an index",
    "ConvertPtrToU": ". Vulkan has no addresses of pointers: use an index",
}
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


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a shader.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the functions that are reflected from the
        SPIR-V.

    Returns
    -------
    Payload
        The SPIR-V of each compute entry point, of kind "vulkan".

    Raises
    ------
    ToolchainNotFoundError
        No compiler for the language is installed, or spirv-opt is missing.
    CompileError
        The source has errors, no compute entry point, or one that devmod cannot call. `log`
        contains the tools' output.
    """
    if request.name_expressions:
        raise request.error(
            "name_expressions= is not supported for shaders, which have no templates"
        )
    check_target_options(request.target, ("arch",))
    environment = environment_of(request)
    stage = _STAGES.get(os.path.splitext(request.name)[1][1:].lower())
    if stage:
        raise request.error(
            f"{request.name} is {stage} shader by its suffix; expected a compute shader (.comp)"
        )
    options, defines = options_and_defines(request)
    level, compiler, options = _own_options(request, options)
    request = request.replace(options=options, defines=defines)
    try:
        with ExitStack() as stack:
            build = Build(request, environment, level, stack)
            if request.language == "SPIR-V":
                reflected, codes = build.spirv(compiler)
            elif request.language == "OpenCL C":
                reflected, codes = build.opencl(compiler)
            else:
                reflected, codes = build.source(compiler)
    except OSError as error:
        if isinstance(error, DevmodError):
            raise
        raise request.error(
            f"cannot compile {request.name}: a temporary file or folder cannot be used: {error.strerror}"
        ) from error

    reflected = {
        name: _with_memory(request, function, codes[function.symbol])
        for name, function in reflected.items()
    }
    declared = dict(request.fmap or {})
    for name, info in list(declared.items()):
        if info.name in build.left_out:
            del declared[name]
    fmap = merge_declared(SPEC, reflected, declared)
    assert SPEC.unpack is not None
    packed = {symbol: SPEC.unpack(data) for symbol, data in codes.items()}
    code = {name: packed[info.name] for name, info in fmap.items()}

    recorded_options = []
    if compiler:
        recorded_options.append(f"--compiler={compiler}")
    if level:
        recorded_options.append(level)
    recorded_options += [*request.options, *define_options(request.defines)]
    extra = {}
    if build.left_out:
        extra["left_out"] = build.left_out
    toolchain = ", ".join(build.toolchain)
    origin = Origin(str(request.target), toolchain, tuple(recorded_options), build.sources, extra)
    warn_caller(request, build.warnings, doubts=build.doubts)
    texts = {}
    if build.texts:
        texts["spv"] = "\n".join(build.texts)
    return Payload(
        "vulkan", code, "spv", fmap, texts, origin, build.files, unvalidated=build.unvalidated
    )


def _with_memory(
    request: CompileRequest, function: ReflectedFunction, code: bytes
) -> ReflectedFunction:
    """Return a function with the shared memory of its final code: the optimizer removes what
    nothing reads.
    """
    if "workgroup_memory" not in function.extra:
        return function
    from devmod_readers.spirv import read_module, reflect

    shaders = reflect(read_module(code), request.name, include_unused=False)
    memory = next(shader.workgroup_memory for shader in shaders if shader.symbol == function.symbol)
    extra = dict(function.extra)
    del extra["workgroup_memory"]
    if memory:
        extra["workgroup_memory"] = memory
    return function.replace(extra=extra)


def environment_of(request: CompileRequest) -> Environment:
    """Return the versions of the target. Raise CompileError for an unknown architecture."""
    target = request.target
    arch = target.arch or _DEFAULT
    if arch not in _ENVIRONMENTS:
        raise request.error(
            f"the target {str(target)!r} has the unknown architecture {arch!r}; expected {', '.join(_ENVIRONMENTS)} (default {_DEFAULT})"
        )
    return Environment(*_ENVIRONMENTS[arch])


def _own_options(request: CompileRequest, options: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the optimization level and the compiler from the options, "" if not given, and the
    other options.
    """
    level = ""
    compiler = ""
    rest = []
    for option in options:
        if option in _OPTIMIZE:
            level = option
        elif option.startswith("--compiler="):
            compiler = option.partition("=")[2]
        elif request.language == "OpenCL C":
            rest.append(option)  # clspv has other options
        elif re.match(_RESERVED_OPTIONS, option):
            reason = "the target sets the versions of Vulkan and SPIR-V, for example 'vulkan -arch=vulkan1.2'"
            if not re.search("target|client|^-[VG]", option):
                reason = "devmod sets the compiler's files, stage and entry points itself"
            raise request.error(f"the vulkan option {option!r} is not supported: {reason}")
        elif not re.fullmatch(_SUPPORTED, option):
            raise request.error(
                f"the vulkan option {option!r} is not supported; expected an option of the compiler for the code or its diagnostics, such "
                "as -g"
            )
        else:
            rest.append(option)
    return level, compiler, rest


class Build:
    """The build of one request.

    Attributes
    ----------
    toolchain, sources
        The values for `devmod.Origin`.
    files
        The value for `Payload`.
    left_out
        The kernels that do not compile, with their places; empty unless the request is partial.
    texts
        The disassembly of each module, if spirv-dis is installed.
    warnings, doubts
        The warnings of the tools, and those about a validator that does not know a feature.
    unvalidated
        Why no validator checked the modules; "" if one did.
    """

    def __init__(
        self, request: CompileRequest, environment: Environment, level: str, stack: ExitStack
    ) -> None:
        self.request = request
        self._stack = stack
        self.environment = environment
        self.level = level
        self.toolchain: list[str] = []
        self.sources: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        self.texts: list[str] = []
        self.warnings: list[str] = []
        self.doubts: list[str] = []
        self.unvalidated = ""
        # A dict, because several entry points cause the same warning.
        self._warnings: dict[str, None] = {}
        #: None if the programs of spirv-tools run.
        self._library: _slangpy.Library | None = None

    @cached_property
    def _folder(self) -> str:
        """The folder of the programs. A library needs none."""
        return self._stack.enter_context(compiler_folder())

    # -- each language

    def spirv(self, tools_name: str) -> _Compiled:
        """Return the functions of a SPIR-V module and the bytes of each. Without an optimization
        option the bytes are unchanged.
        """
        request = self.request
        useless = ""
        if request.options:
            useless = f"the option {request.options[0]!r}"
        elif request.defines:
            useless = f"the define {next(iter(request.defines))!r}"
        if useless:
            raise request.error(
                f"{request.name} is compiled SPIR-V, so {useless} has no effect; remove it"
            )

        self._library = find_library(tools_name, request.name)
        self.sources = {request.name: request.digest}
        functions = self._functions(request.data, include_unused=True)
        version = f"{request.data[6]}.{request.data[5]}"
        if request.target.archs and version > self.environment.spirv:
            raise request.error(
                f"{request.name} is SPIR-V {version}; the target {str(request.target)!r} supports up to {self.environment.spirv}"
            )
        self._validate(request.data)
        return functions, self._one_module(functions, request.data)

    def opencl(self, compiler_name: str) -> _Compiled:
        """Return the kernels of an OpenCL C source and their SPIR-V. Without an optimization option
        it is that of clspv.
        """
        from devmod_targets.vulkan._clspv import find_clspv
        from devmod_targets.vulkan._kernels import compile_kernels
        from devmod_targets.vulkan._opencl import read_source, with_places

        request = self.request
        check_wanted("OpenCL C", compiler_name)
        compiler = find_clspv(compiler_name, request.name)
        kernels = read_source(request, self.doubts)
        source = kernels.source
        self.sources |= source.sources
        self.files |= source.files
        self.toolchain += [compiler.toolchain, kernels.reader]
        tools_name = ""
        if self.level == "-Os":
            tools_name = "spirv-tools"  # the library lacks it
        self._library = find_library(tools_name, request.name)
        (functions, code), refused = compile_kernels(
            request, kernels, lambda text: self._by_clspv(compiler, text, source.options)
        )
        compiled = {}
        for name, kernel in kernels.kernels.items():
            if name in refused:
                self.left_out[name] = kernel.location
                self.warnings.append(f"the kernel {name!r} is left out: {refused[name]}")
            else:
                compiled[name] = kernel
        functions = with_places(request, compiled, functions)
        return functions, self._one_module(functions, code)

    def _one_module(self, functions: _Functions, code: bytes) -> dict[str, bytes]:
        """Return the module of all functions by their symbols. It is optimized by an option
        alone.
        """
        if self.level in ("-O", "-Os"):
            code = self._optimized(code)
        self._disassemble(code)
        return {function.symbol: code for function in functions.values()}

    def _by_clspv(
        self, compiler: Clspv, text: str, options: Sequence[str]
    ) -> tuple[_Functions, bytes]:
        """Return the functions and the SPIR-V of a text. If it is invalid, clspv puts the constants
        into a buffer.
        """
        from devmod_readers.spirv import loses_turns, read_module, relax_atomics, with_exits_first
        from devmod_targets.vulkan._clspv import CONSTANTS

        spirv = self.environment.spirv
        if not self.request.target.archs:
            spirv = _SPIRV_OF_KERNELS
        code = compiler.compile(self.request.name, text, options, spirv, self._folder)
        functions = self._functions(code, include_unused=False)
        module = read_module(code)
        if loses_turns(module):
            raise self.request.error(_LOST_TURNS)
        if not any(each.startswith(_ATOMICS_WITH_ORDER) for each in options):
            relax_atomics(module)
        code = with_exits_first(module)
        try:
            self._validate(code)
        except CompileError as error:
            if CONSTANTS in options:
                raise
            with suppress(CompileError):
                return self._by_clspv(compiler, text, [*options, CONSTANTS])
            raise self._invalid(compiler, text, [*options, "-g"], spirv, error) from None
        return functions, code

    def _invalid(
        self, compiler: Clspv, text: str, options: Sequence[str], spirv: str, error: CompileError
    ) -> CompileError:
        """Return the error for the invalid SPIR-V of clspv, with the line of the source if the
        options make clspv write it.
        """
        from devmod_readers.spirv import line_of, read_module
        from devmod_targets.vulkan._clspv import UNNAMED

        place = ""
        name = self.request.name
        problem = _INVALID.search(str(error))
        with suppress(CompileError, FormatError):
            code = compiler.compile(name, text, options, spirv, self._folder)
            problem = _INVALID.search(self._validator_problem(code)[1]) or problem
            if problem:
                place = line_of(read_module(code), int(problem["number"]))
        if not problem:
            return error
        reason = f"clspv compiles this to invalid SPIR-V ({problem['text'].strip()})"
        advice = next((each for word, each in _ADVICE.items() if word in reason), "")
        if place:
            file, _, line = place.rpartition(":")
            if file in UNNAMED:
                file = name
            reason = f"{file}:{line}: error: {reason}"
        return self.request.error(reason + advice, log=error.log)

    def source(self, compiler_name: str) -> _Compiled:
        """Return the functions of a source, and the SPIR-V of each."""
        request = self.request
        language = request.language
        compiler = find_compiler(language, compiler_name, request.name)
        files = Files(request)
        self.sources = files.sources
        self.files = files.files
        entries = ["main"]
        if isinstance(compiler, Compiler):
            path = os.path.join(self._folder, files.file)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(files.text)
            if language == "HLSL":
                entries = self._entries(compiler, files)
        else:
            self._library = compiler
        functions: _Functions = {}
        codes: dict[str, bytes] = {}
        for entry in entries:
            if isinstance(compiler, Compiler):
                command = compiler.command(
                    request, entry, self.environment, files.file, "compiled.spv"
                )
                data, output, failure = _written(
                    self._folder, command, "compiled.spv", lambda: self._prepare(compiler)
                )
            else:
                data, output, failure = self._compiled_by(compiler, files)
            errors, warnings = files.messages(output)
            if failure:
                raise compile_error(
                    "vulkan", language, errors or [failure], "\n".join(errors + warnings) or output
                )
            self._warnings |= dict.fromkeys(warnings)
            functions |= self._functions(data, include_unused=language == "GLSL")
            self._validate(data)
            if self.level != "-O0":
                data = self._optimized(data)
            codes[entry] = data

        for code in dict.fromkeys(codes.values()):
            self._disassemble(code)
        dropped = dropped_print(request.name, request.text, b"".join(codes.values()))
        if dropped:
            self._warnings[dropped] = None
        if self._warnings:
            title = f"the {language} source has warnings:"
            self.warnings.append("\n".join([title, *self._warnings]))
        return functions, codes

    def _entries(self, compiler: Compiler, files: Files) -> list[str]:
        """Return the functions of a HLSL source with the attribute numthreads, in order."""
        command = compiler.preprocess(self.request, files.file)
        text = files.text
        if command is not None:
            status, printed = run(command, self._folder)
            # The compiler reports the errors later.
            if status == 0:
                text = printed
        name = self.request.name
        entries = hlsl_entries(text, name)
        if len(entries) > _MAX_ENTRIES:
            raise self.request.error(
                f"the HLSL source {name} has {len(entries)} entries; expected at most {_MAX_ENTRIES}"
            )
        return entries

    # -- one module

    def _compiled_by(self, library: _slangpy.Library, files: Files) -> _slangpy.Answer:
        """Compile GLSL by the library. Return the module, the messages, and if it fails the first
        of them.
        """
        options = self.request.options
        for option in options:
            if option not in _slangpy.DEBUG_LEVELS:
                raise self.request.error(self._unsupported_by_library(option))
        text = text_with_defines(files.text, self.request.defines)
        return library.compile(
            text, self.environment.spirv, options, lambda: self._prepare(library)
        )

    def _unsupported_by_library(self, option: str) -> str:
        names = [name for name in COMPILERS[self.request.language] if name != _slangpy.NAME]
        advice = (
            f"install {join_names(names)} ({INSTALL_COMPILER}), and pass --compiler= with its name"
        )
        for name in names:
            program = name
            if name == "spirv-tools":
                program = "spirv-opt"
            if find_program(program):
                advice = f"use {name}, which is installed: pass --compiler={name}"
                break
        return (
            f"the vulkan option {option!r} is not supported by the library of slangpy, which takes -O, -O0, "
            f"{', '.join(_slangpy.DEBUG_LEVELS)}. For other options, {advice}"
        )

    def _prepare(self, compiler: Compiler | _slangpy.Library) -> None:
        """Do what needs no module, while the compiler runs: find out its version, and import the
        reader of its output.
        """
        if not self.toolchain:
            self.toolchain.append(compiler.toolchain)
        import_module("devmod_readers.spirv")

    def _functions(self, data: bytes, *, include_unused: bool) -> _Functions:
        from devmod_readers.reflection import reflected_function
        from devmod_readers.spirv import read_module, reflect

        request = self.request
        try:
            shaders = reflect(read_module(data), request.name, include_unused=include_unused)
        except FormatError as error:
            raise request.error(f"the SPIR-V of {request.name} {error}") from None
        names = [shader.symbol for shader in shaders]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise request.error(
                f"the SPIR-V of {request.name} has two compute entries named {twice!r}"
            )
        for shader in shaders:
            self._warn_of_defaults(shader)
        functions = {}
        for shader in shaders:
            name = shader.symbol
            # The function name of `main` is the file's stem, unless another entry point has that
            # name.
            if name == "main" and request.stem not in names:
                name = request.stem
            functions[name] = reflected_function("vulkan", shader)
        return functions

    def _warn_of_defaults(self, shader: ReflectedShader) -> None:
        """Warn about the constants without one default: a call needs values for them."""
        for position, constant in enumerate(shader.constants):
            if constant.default is not None:
                continue
            axes = []
            for axis, source in zip("xyz", shader.block_constants, strict=False):
                if source == position or (isinstance(source, tuple) and position in source):
                    axes.append(axis)
            size = ""
            advice = ""
            if axes:
                size = f", one of them for the block's size in {' and '.join(axes)}"
                if self.request.language == "GLSL":
                    advice = f" (write local_size_{axes[0]} = N beside local_size_{axes[0]}_id)"
            warning = (
                f"{self.request.name} has the constant {constant.label!r} (id {constant.id}) with defaults that differ{size}, so each call "
                f"needs f.specialize({constant.keyword}); give it one default{advice}"
            )
            if warning not in self.warnings:
                self.warnings.append(warning)

    def _validate(self, data: bytes) -> None:
        """Validate the module if a validator is installed. Validation does not change the bytes."""
        toolchain, failure, output = self._validator_problem(data)
        name = toolchain.partition(" ")[0]
        if re.search(_UNKNOWN_TO_VALIDATOR, failure):
            self.doubts.append(
                f"the SPIR-V of {self.request.name} was not validated: {toolchain} does not support it ({failure}). Install a newer {name} "
                "to validate it"
            )
        elif failure:
            raise self.request.error(
                f"{name} refuses the SPIR-V of {self.request.name}: {failure}", log=output
            )

    def _validator_problem(self, data: bytes) -> tuple[str, str, str]:
        """Return the validator with its version, why it refuses a module, "" if it does not, and
        its messages.
        """
        if self._library:
            _, output, failure = self._library.validate(data)
            toolchain = self._library.toolchain
        else:
            path = find_program("spirv-val")
            if not path:
                self.unvalidated = "spirv-val is not installed; it is in the package spirv-tools"
                return "", "", ""
            toolchain = f"spirv-val {version(path)}"
            self._write(data)
            environment = self._tool_environment(data)
            command = [path, "--target-env", environment, "--scalar-block-layout", "input.spv"]
            status, output = run(command, self._folder)
            failure = _first_line(output, status)
        return toolchain, failure.removeprefix("error: "), output

    def _optimized(self, data: bytes) -> bytes:
        if self._library:
            if self.level == "-Os":
                raise self.request.error(self._unsupported_by_library("-Os"))
            tool = _slangpy.NAME
            toolchain = self._library.toolchain
            optimized, output, failure = self._library.optimize(data)
        else:
            tool = "spirv-opt"
            path = find_optimizer(self.request.name)
            toolchain = f"spirv-opt {version(path)}"
            self._write(data)
            command = [
                path,
                f"--target-env={self._tool_environment(data)}",
                "--scalar-block-layout",
                self.level or "-O",
                "input.spv",
                "-o",
                "optimized.spv",
            ]
            optimized, output, failure = _written(self._folder, command, "optimized.spv")
        if toolchain not in self.toolchain:
            self.toolchain.append(toolchain)
        if failure:
            raise self.request.error(
                f"{tool} cannot optimize the SPIR-V of {self.request.name}: {failure}", log=output
            )
        return optimized

    def _disassemble(self, data: bytes) -> None:
        if not self.request.listings:
            return
        if self._library:
            text, _, failure = self._library.disassemble(data)
            output = text.decode("utf-8", "replace")
        else:
            path = find_program("spirv-dis")
            if not path:
                return
            self._write(data)
            status, output = run([path, "--no-color", "input.spv"], self._folder)
            failure = str(status or "")
        if not failure:
            self.texts.append(output)

    def _write(self, data: bytes) -> None:
        with open(os.path.join(self._folder, "input.spv"), "wb") as file:
            file.write(data)

    def _tool_environment(self, data: bytes) -> str:
        """Return the tools' name of the environment for the module's SPIR-V version."""
        if self.request.language not in ("SPIR-V", "OpenCL C"):
            return self.environment.tool_name
        return {0: "vulkan1.0", 4: "vulkan1.1spv1.4", 5: "vulkan1.2", 6: "vulkan1.3"}.get(
            data[5], "vulkan1.1"
        )


def hlsl_entries(text: str, name: str) -> list[str]:
    """Return the functions of a HLSL source with the attribute numthreads, in order. Raise
    CompileError if there is none.
    """
    entries = list(dict.fromkeys(re.findall(_ENTRY, re.sub(COMMENT, " ", text))))
    if not entries:
        raise CompileError(
            f"the HLSL source {name} has no entry: mark a function with [numthreads(x, y, z)]",
            kind="vulkan",
        )
    return entries


def _written(
    folder: str, command: Sequence[str], name: str, meanwhile: Callable[[], None] = lambda: None
) -> _slangpy.Answer:
    """Run a program that writes a file. Return the file, the messages, and if it fails the first of
    them.
    """
    out = os.path.join(folder, name)
    if os.path.exists(out):
        os.unlink(out)
    status, output = run(command, folder, meanwhile)
    if status or not os.path.exists(out):
        return b"", output, _first_line(output, status or "0")
    with open(out, "rb") as file:
        return file.read(), output, ""


def _first_line(output: str, status: object) -> str:
    """Return the first line of the messages of a program that has failed; "" if its status is 0."""
    if not status:
        return ""
    return next(filter(str.strip, output.splitlines()), f"exit status {status}")
