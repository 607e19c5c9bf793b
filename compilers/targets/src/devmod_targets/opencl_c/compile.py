"""Compile OpenCL C for a kind whose code LLVM writes: clang compiles the program to LLVM IR and
links the built-in functions, and the kind's compiler of LLVM IR writes the code.

The functions are those of libclc, and devmod's own where libclc has none. The signature is that of
the kind opencl, so that one call serves both.
"""

from __future__ import annotations

import math
import re

from devmod import FunctionInfo
from devmod.errors import CompileError, ToolchainNotFoundError, compile_error, not_installed
from devmod_readers.options.opencl import TABLE, VERSIONS
from devmod_targets._text import find_code
from devmod_targets.authoring import Payload, complete_source, merge_declared
from devmod_targets.authoring._source import line_directive
from devmod_targets.libclc import describe
from devmod_targets.opencl._names import read_builtins
from devmod_targets.opencl.clang import ClangProgram, call_place, check_calls
from devmod_targets.opencl.compile import COMMON_WARNINGS, read
from devmod_targets.opencl_c._adapt import adapt
from devmod_targets.opencl_c._prints import PrintError, read_prints
from devmod_targets.opencl_c.processor import LANGUAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets._compilers import Compiler
    from devmod_targets.authoring import CompileRequest, SelfContainedSource
    from devmod_targets.opencl_c.processor import Processor

#: The most threads of a block on the GPUs of NVIDIA and AMD.
_MOST_THREADS = 1024
#: LLVM's errors about a function that exceeds a limit, and about an instruction in asm.
_LIMIT = re.compile(
    r"^error: [^\n]*?:\d+:\d+: (?P<problem>[^\n]* exceeds limit \(\d+\)) in function '(?P<name>[\w.$]+)'",
    re.MULTILINE,
)
_INSTRUCTION = re.compile(
    r"^<inline asm>:\d+:\d+: error: (?P<problem>[^\n]*)\n(?P<text>[^\n]*)", re.MULTILINE
)
_ASM = r"\b(?:__asm__|__asm|asm)\b"
_LEVEL = re.compile(r"-O[0-5sz]?")
#: A function of a module in LLVM IR text with its body, and a call there.
_BODY = re.compile(r"^define [^\n]*?@([\w.$]+)\((.*?)^\}", re.MULTILINE | re.DOTALL)
_CALLED = re.compile(r"@([\w.$]+)\(")
_USED = re.compile(r"@([\w.$]+)")
_INTERNAL = "define internal "
_DECLARATIONS = re.compile(r"^declare [^\n]*\n", re.MULTILINE)
#: The temporary folder in a file's name for line numbers.
_FOLDER = re.compile(r'(?<=, )directory: "[^"\n]*"(?=[,)][^"\n]*$)', re.MULTILINE)
#: A vector of three elements, which LLVM IR has as an array of bytes (`_adapt`).
_THREE = re.compile(r"[a-z]+(\d+)x3")
#: Lets a pointer of another type be a warning.
_OTHER_POINTERS = "-Wno-error=incompatible-pointer-types"
#: Line numbers in the code. ``-g`` is OpenCL's option, and the others are CUDA's.
_LINES = ("-g", "-lineinfo", "--generate-line-info")


def compile_opencl(
    request: CompileRequest, processor: Processor, compiler: Compiler
) -> tuple[Payload, list[str]]:
    """Compile an OpenCL C source.

    Parameters
    ----------
    request
        The compile request. Its target is one for LLVM IR.
    processor
        The processors of the kind.
    compiler
        The kind's compiler of LLVM IR.

    Returns
    -------
    Payload
        The payload of that compiler. Its functions have the names and the parameters of the source.
    list of str
        clang's warnings.

    Raises
    ------
    ToolchainNotFoundError
        ziglang or libclang is not installed.
    CompileError
        The source has errors or no kernel, or the kind lacks something that it uses. `log` contains
        clang's messages.
    """
    if request.name_expressions:
        raise request.error(
            "name_expressions= is not supported for OpenCL C, which has no templates"
        )
    processor.check_clang()
    front, rest = _split_options(request, processor)
    source = complete_source(
        request.replace(options=front), dialect=("-x", "cl", "-target", "spir64")
    )
    kernels, reader, standard = _read(request, source, processor)
    modules = processor.modules(source.text)
    text, warnings = _link(request, source, processor, standard, rest, modules)
    check_calls(request, source, _calls(text))
    text = adapt(text, processor.convention, processor.attributes(kernels))
    text = _with_prints(request, source, processor, text)
    text = _check_functions(request, source, text)
    inner = [each for each in rest if each not in _LINES]
    if not any(map(_LEVEL.fullmatch, inner)):
        level = "-O3"
        if "-cl-opt-disable" in front:
            level = "-O0"
        inner.append(level)
    declared = {
        name: FunctionInfo(kernel.symbol, [_in_bytes(type_) for type_ in kernel.types])
        for name, kernel in kernels.items()
    }
    try:
        payload = compiler(
            request.replace(
                text=text,
                data=b"",
                language="LLVM IR",
                fmap=declared,
                options=inner,
                defines={},
                include=(),
            )
        )
    except CompileError as error:
        raise _with_place(request, source, kernels, error) from None
    for kernel in kernels.values():
        _check_kernel(request, kernel, processor.problem_of_code(kernel, payload), "")
    if warnings:
        title = "clang has warnings about the OpenCL C source:"
        warnings = ["\n".join([title, *warnings])]
    return _with_signatures(request, source, kernels, payload, rest, reader), warnings


def _split_options(
    request: CompileRequest, processor: Processor
) -> tuple[Sequence[str], list[str]]:
    """Return the options of OpenCL, and those of the kind's compiler and of devmod.

    Raises
    ------
    CompileError
        An option is none of them.
    """
    front = []
    rest = []
    for option in request.options:
        if option in _LINES or processor.options.fullmatch(option):
            rest.append(option)
        elif option in VERSIONS or option.startswith(("-D", "-U")):
            front.append(option)
        else:
            raise request.error(
                f"the {request.target.kind} option {option!r} is not supported for OpenCL C: expected an option of OpenCL such as "
                f"-cl-std=CL2.0 or -cl-mad-enable, {processor.expected}{TABLE.hint(option)}"
            )
    return front, rest


def _read(
    request: CompileRequest, source: SelfContainedSource, processor: Processor
) -> tuple[dict[str, ReflectedFunction], str, str]:
    """Return the kernels, the program that read them, and the version of OpenCL C."""
    kind = request.target.kind
    try:
        # clang decides here, not the device's compiler, so the doubts about devices are none.
        found, reader, standard = read(request, source, [])
    except ToolchainNotFoundError as error:
        missing = not_installed("libclang", f"devmod-core[{processor.extra}]", "libclang")
        raise ToolchainNotFoundError(
            f"cannot read the kernels of the OpenCL C source {request.name}: {missing}", kind=kind
        ) from error
    if not found:
        raise request.error(
            f"the OpenCL C source {request.name} has no kernel: mark a function with __kernel"
        )
    kernels = {}
    for name, kernel in found.items():
        threads = math.prod(kernel.block or ())
        if threads > _MOST_THREADS:
            problem = f"requires a block of {threads} threads, and {kind} has at most {_MOST_THREADS}. Change reqd_work_group_size"
            _check_kernel(request, kernel, problem, "")
        _check_kernel(request, kernel, *processor.problem(kernel))
        types = list(kernel.types)
        for number, param in enumerate(kernel.params):
            if param.kind == "local":
                types[number] = "uint32"
        # Every device of the kind has what the others need.
        kernels[name] = kernel.replace(types=tuple(types), needs=(), subgroup=None)
    return kernels, reader, standard


def _check_kernel(
    request: CompileRequest, kernel: ReflectedFunction, problem: str, argument: str
) -> None:
    """Raise CompileError if there is a problem of a kernel."""
    if problem:
        raise request.error(
            f"{kernel.location}: error: the kernel {kernel.symbol!r} {problem}",
            function=kernel.symbol,
            argument=argument,
        )


def _in_bytes(type_: str) -> str:
    """Return a type, as bytes if it is a vector of three."""
    three = _THREE.fullmatch(type_)
    if three is None:
        return type_
    return f"uint8x{3 * int(three[1]) // 8}"


def _link(
    request: CompileRequest,
    source: SelfContainedSource,
    processor: Processor,
    standard: str,
    options: Sequence[str],
    modules: Sequence[bytes],
) -> tuple[str, list[str]]:
    """Return the program with the built-in functions that it calls, in LLVM IR text, and clang's
    warnings.
    """
    # A promise about the source, which clang does not know.
    own_options = tuple(each for each in source.options if each != "-cl-no-subgroup-ifp")
    source = source._replace(options=own_options)
    flags = [
        *LANGUAGE,
        *COMMON_WARNINGS,
        *processor.flags,
        "-fno-discard-value-names",
        "-Wno-linker-warnings",
        # clang 16 made it an error; it is a warning of the drivers.
        _OTHER_POINTERS,
    ]
    if any(option in _LINES for option in options):
        flags.append("-gline-tables-only")
        # The name of the temporary file is not that of the source.
        source = source._replace(text=line_directive(1, request.name) + source.text)
    files = {}
    for module in modules:
        name = f"library{modules.index(module)}.bc"
        files[name] = module
        flags += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", name]
    program = ClangProgram(request, source, standard)
    code, warnings = program.compile(flags, "-emit-llvm", files)
    if any("incompatible pointer types passing" in each for each in warnings):
        # atomic_add of a long would be the function of ints.
        flags.remove(_OTHER_POINTERS)
        code, warnings = program.compile(flags, "-emit-llvm", files)
    # LLVM drops an inline function that another file would define.
    text = code.decode().replace("define available_externally ", "define internal ")
    return _FOLDER.sub('directory: ""', text), warnings


def _calls(text: str) -> dict[str, list[str]]:
    """Return the functions that each function of a module calls, by their symbols."""
    return {match[1]: [*dict.fromkeys(_CALLED.findall(match[2]))] for match in _BODY.finditer(text)}


def _with_prints(
    request: CompileRequest, source: SelfContainedSource, processor: Processor, text: str
) -> str:
    """Return a program with the kind's functions in place of printf."""
    try:
        text, prints = read_prints(text)
    except PrintError as error:
        place = call_place(request, source, "printf")
        raise request.error(f"{place}: error: {error}") from None
    if not prints:
        return text
    if "@vprintf(" in text:
        place = call_place(request, source, "vprintf")
        raise request.error(
            f"{place}: error: the function 'vprintf' of the source has the name of the driver's, which printf calls. Rename it"
        )
    return f"{text}\n{processor.define_prints(prints)}"


def _without_unused(text: str) -> str:
    """Return a module without the functions that no kernel calls."""
    bodies = {match[1]: match for match in _BODY.finditer(text)}
    used = set(_USED.findall(_DECLARATIONS.sub("", _BODY.sub("", text))))
    used |= {name for name, match in bodies.items() if not match[0].startswith(_INTERNAL)}
    waiting = [*used]
    while waiting:
        match = bodies.get(waiting.pop())
        if match is not None:
            new = set(_USED.findall(match[2])) - used
            used |= new
            waiting += new
    text = _BODY.sub(lambda match: match[0] if match[1] in used else "", text)

    def declared(line: re.Match[str]) -> str:
        return line[0] if used.intersection(_USED.findall(line[0])) else ""

    return _DECLARATIONS.sub(declared, text)


# Where to change: a built-in function of OpenCL C on CUDA and ROCm
#   here: `compilers/targets/src/devmod_targets/opencl_c/headers/`, unless libclc has it; a new
#     header goes to `compilers/targets/src/devmod_targets/cuda/_opencl_c.py`, and to that of ROCm,
#     with the words of sources that need it; for SPIR-V
#     `compilers/targets/src/devmod_targets/opencl/_definitions.py`
#   tests: `compilers/targets/tests/test_compile_opencl_c.py`; of the accuracy
#     `compilers/targets/tests/test_opencl_math.py`
def _check_functions(request: CompileRequest, source: SelfContainedSource, text: str) -> str:
    """Return a program without functions that it does not use, if one of them needs a function that
    nothing defines.

    Raises
    ------
    CompileError
        A kernel needs such a function.
    """
    undefined = [each for each in read_builtins(text) if each.symbol != "vprintf"]
    if undefined:
        text = _without_unused(text)
        undefined = [each for each in read_builtins(text) if each.symbol != "vprintf"]
    errors = []
    for builtin in undefined:
        name = builtin.name
        problem = f"the built-in function {name!r}, which devmod does not have for {request.target.kind} with these types"
        # A function of the program has no mangled symbol.
        if builtin.symbol == name:
            problem = f"the function {name!r}, which it does not define"
        errors.append(f"{call_place(request, source, name)}: error: the program calls {problem}")
    if errors:
        errors = list(dict.fromkeys(errors))
        raise _error(request, errors)
    return text


def _with_place(
    request: CompileRequest,
    source: SelfContainedSource,
    kernels: Mapping[str, ReflectedFunction],
    error: CompileError,
) -> CompileError:
    """Return the error of the kind's compiler with the place in the source, if it names a function
    or an instruction of the source.
    """
    errors = []
    for match in _LIMIT.finditer(error.log):
        name = match["name"].removeprefix("__clang_ocl_kern_imp_")
        if name in kernels:
            place = kernels[name].location
        else:
            place = call_place(request, source, name)
        errors.append(f"{place}: error: {match['problem']} in the function {name!r}")
    place, _ = find_code(_ASM, source.text, request.name)
    if find_code(f"{_ASM}(?s:.*){_ASM}", source.text, request.name)[1]:
        place = request.name
    for match in _INSTRUCTION.finditer(error.log):
        errors.append(f"{place}: error: {match['problem']} in asm: {match['text'].strip()}")
    if not errors:
        return error
    return compile_error(request.target.kind, "OpenCL C", [*dict.fromkeys(errors)], error.log)


def _error(request: CompileRequest, errors: list[str]) -> CompileError:
    return compile_error(request.target.kind, "OpenCL C", errors, "\n".join(errors))


def _with_signatures(
    request: CompileRequest,
    source: SelfContainedSource,
    kernels: Mapping[str, ReflectedFunction],
    payload: Payload,
    options: Sequence[str],
    reader: str,
) -> Payload:
    """Return the payload of the kind's compiler with the signatures of the source."""
    own = {}
    for name, kernel in kernels.items():
        interface = payload.fmap[name].interface
        if interface is not None:
            kernel = kernel.replace(extra={**kernel.extra, **interface.extra})
        own[name] = kernel
    tools = f"{describe()}, {reader}"
    if payload.origin is not None:
        tools = f"{payload.origin.toolchain}, {tools}"
    source = source._replace(options=(*source.options, *options))
    return payload.replace(
        fmap=merge_declared(request.spec, own, request.fmap),
        origin=source.origin(request, tools),
        files=source.files,
    )
