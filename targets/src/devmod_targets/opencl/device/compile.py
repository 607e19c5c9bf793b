"""Compile OpenCL C for a kind whose own compiler takes LLVM IR: cuda and rocm.

clang compiles the program to LLVM IR, in which the built-in functions of OpenCL C are declared alone. devmod defines those that the program
calls (`_definitions`), and LLVM links them and optimizes. The kind's compiler makes the image, as of any LLVM IR.
"""

from __future__ import annotations

import re

from devmod import FunctionInfo, Origin, Target
from devmod.backend import find_spec
from devmod.errors import compile_error
from devmod_readers.options.opencl import is_supported
from devmod_targets.authoring import Payload, complete_source, merge_declared
from devmod_targets.opencl.clang import ClangProgram, call_place, calls_of, check_calls, has_level
from devmod_targets.opencl.compile import read
from devmod_targets.opencl.device._adapt import adapt
from devmod_targets.opencl.device._definitions import define
from devmod_targets.opencl.device._images import GEOMETRIES
from devmod_targets.opencl.device._names import read_builtins, rename, rename_own
from devmod_targets.opencl.device._prints import PrintError, read_prints
from devmod_targets.opencl.device._processors import PROCESSORS, MissingFunctionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devmod.errors import CompileError
    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets.authoring import CompileRequest, SelfContainedSource
    from devmod_targets.opencl.device._names import Builtin
    from devmod_targets.opencl.device._processors import Processor


def compile(request: CompileRequest, compiler: Callable[[CompileRequest], Payload]) -> Payload:  # noqa: A001 - what it does
    """Compile an OpenCL C source for cuda or rocm.

    Parameters
    ----------
    request
        The compile request. Options that are not OpenCL's are those of the kind's compiler of LLVM IR.
    compiler
        The kind's compiler.

    Returns
    -------
    Payload
        The payload of the kind's compiler, with the functions of the source.

    Raises
    ------
    ToolchainNotFoundError
        ziglang, libclang, or the library of mathematics that the source needs is not installed.
    CompileError
        The source has errors, no kernel, or a function or a parameter that the kind does not have.
    """
    if request.name_expressions:
        raise request.error("name_expressions= is not supported for OpenCL C, which has no templates")
    ir_target = _ir_target(request)
    own = [option for option in request.options if _is_of_opencl(option)]
    rest = [option for option in request.options if not _is_of_opencl(option)]
    source = complete_source(request.replace(options=own), dialect=("-x", "cl", "-target", "spir64"))
    kernels, reader, standard = _read(request, source)
    types = {name: _adapted(request, name, kernel) for name, kernel in kernels.items()}
    processor = PROCESSORS[request.target.kind](request.replace(options=rest, target=ir_target))
    program = ClangProgram(request, source, standard)
    text, warnings = program.compile([*processor.flags, "-fno-discard-value-names"], "-emit-llvm")
    own_text = text.decode()
    check_calls(request, source, calls_of(own_text))
    try:
        changed, prints = read_prints(adapt(rename_own(own_text, kernels), processor.calling_convention))
    except PrintError as error:
        raise request.error(f"{call_place(request, source, 'printf')}: error: {error}") from None
    if prints and request.target.kind == "cuda" and "vprintf" in kernels:
        place = kernels["vprintf"].location
        raise request.error(f"{place}: error: the kernel 'vprintf' has the name of CUDA's function that printf uses: rename it")
    code, libraries, modules = _link(request, source, processor, changed)
    if prints:
        lines, printing = processor.prints(prints)
        code, modules = f"{code}\n{lines}", [*modules, *printing]
    declared = {name: FunctionInfo(each.symbol, [_THREE.sub(_bytes, type_) for type_ in each.types]) for name, each in types.items()}
    level = [] if has_level(rest) else ["-O0" if "-cl-opt-disable" in own else "-O3"]
    inner = request.replace(
        text=code,
        data=b"",
        modules=modules,
        language="LLVM IR",
        target=ir_target,
        fmap=declared,
        options=[*rest, *level],
        defines={},
        include=(),
    )
    payload = compiler(inner)
    tools = [payload.origin.toolchain if payload.origin else ""]
    if ir_target != request.target:
        assert isinstance(payload.code, (bytes, memoryview))
        ptx = request.replace(text=bytes(payload.code).decode(), language="PTX", fmap=declared, options=(), defines={}, include=())
        payload = compiler(ptx)
        tools.append(payload.origin.toolchain if payload.origin else "")
    if prints and request.target.kind == "rocm":
        from devmod_targets.rocm.compile import dropped_print

        warnings = [*warnings, *dropped_print(request, call_place(request, source, "printf"))]
    program.warn(warnings)
    spec = find_spec(request.target.kind)
    assert spec is not None
    options = (*source.options, *rest, *(f"-D{name}={value}" for name, value in source.defines.items()))
    origin = Origin(str(request.target), ", ".join(filter(None, [*tools, *libraries, reader])), options, source.sources)
    sources = {**payload.source, "ll": code}
    fmap = merge_declared(spec, types, request.fmap)
    return payload.replace(fmap=fmap, origin=origin, files=source.files, source=sources)


#: A vector of three elements, which LLVM IR has as an array of bytes (`_adapt`).
_THREE = re.compile(r"\w+?(\d+)x3")


def _bytes(match: re.Match[str]) -> str:
    return f"uint8x{3 * int(match[1]) // 8}"


def _is_of_opencl(option: str) -> bool:
    return (option.startswith(("-D", "-U")) or is_supported(option)) and not has_level([option])


def _ir_target(request: CompileRequest) -> Target:
    """Return the target for which the program is compiled to LLVM IR and then to an image or to PTX.

    A cubin is assembled from PTX.
    """
    target: Target = request.target
    options = dict(target.options)
    fmt = options.pop("format", "")
    kept = {"cuda": "cuda", "rocm": "hip"}[target.kind]
    if fmt == kept or options:
        what = f"the option -format={fmt}" if fmt == kept else f"the option -{next(iter(options))}"
        raise request.error(
            f"{request.name} is OpenCL C, which clang compiles here for {target.kind}; the target {str(target)!r} has {what}. Leave it out"
        )
    if target.kind == "rocm" or fmt == "ptx":
        return target
    if len(target.archs) != 1:
        raise request.error(
            f"OpenCL C compiles for one architecture at a time; the target {str(target)!r} requests a fatbin. Name several architectures "
            "without -format=fatbin: they give variants"
        )
    return Target("cuda", arch=target.archs[0].replace("sm_", "compute_"))


def _read(request: CompileRequest, source: SelfContainedSource) -> tuple[Mapping[str, ReflectedFunction], str, str]:
    kernels, reader, standard = read(request, source, [])  # clang decides here, so the doubts about devices are none
    if not kernels:
        raise request.error(f"the OpenCL C source {request.name} has no kernel: mark a function with __kernel")
    return kernels, reader, standard


def _adapted(request: CompileRequest, name: str, kernel: ReflectedFunction) -> ReflectedFunction:
    """Return a kernel with the types of its image: a local parameter is an offset into the shared memory of the launch."""
    kind = request.target.kind
    types = list(kernel.types)
    for index, param in enumerate(kernel.params):
        if (param.kind in ("image", "sampler") and kind != "cuda") or (param.kind == "image" and param.type not in GEOMETRIES):
            what = "a sampler" if param.kind == "sampler" else "an image"
            what += "" if param.kind == "sampler" or param.type in GEOMETRIES else " of linear memory, of depths or of samples"
            raise request.error(
                f"{kernel.location}: the kernel {name!r} takes {param.name!r}, {what}, which devmod does not have in OpenCL C for "
                f"{kind}: pass an array and compute the filter in the kernel, or compile for opencl",
                function=name,
                argument=param.name,
            )
        if param.kind == "local":
            types[index] = "uint32"
    if kernel.subgroup is not None and kind == "cuda" and kernel.subgroup != 32:
        raise request.error(f"{kernel.location}: the kernel {name!r} requires sub-groups of {kernel.subgroup}, and those of cuda have 32")
    needs = tuple(each for each in kernel.needs if each in _NEEDS.get(kind, ()))
    return kernel.replace(types=tuple(types), needs=needs)


#: The needs that devices of a kind may not have. Every GPU of the two kinds has the others.
_NEEDS: dict[str, tuple[str, ...]] = {}


def _link(request: CompileRequest, source: SelfContainedSource, processor: Processor, text: str) -> tuple[str, list[str], list[bytes]]:
    """Return the program, the libraries that it has of others, and the modules with the built-in functions that it calls."""
    builtins = read_builtins(text, processor.spaces)
    if not builtins:
        return text, [], []
    text, renamed = rename(text, builtins)
    definitions, unknown = define(renamed, has_images=request.target.kind == "cuda")
    if unknown:
        raise _missing(request, source, unknown, builtins)
    try:
        lines, libraries, modules = processor.compile(definitions)
    except MissingFunctionError as error:
        name = next((each.name for each in builtins if each.name.rpartition("_")[2] == error.name), error.name)
        from devmod_targets.rocm.compile import ADVICE

        raise request.error(
            f"{call_place(request, source, name)}: error: the program calls the built-in function {name!r}, which amdgcn does not compute "
            f"by itself for these types: {ADVICE}"
        ) from None
    return text + lines, libraries, modules


def _missing(request: CompileRequest, source: SelfContainedSource, names: Sequence[str], builtins: Sequence[Builtin]) -> CompileError:
    """Return the error for functions that devmod does not have for the kind. A function that is no built-in has no mangled name."""
    kind = request.target.kind
    errors = []
    for name in dict.fromkeys(names):
        symbol = next(each.symbol for each in builtins if each.name == name)
        what = "built-in function" if symbol != name else "function"
        end = f"which devmod does not have for {kind}" if what != "function" else "which it does not define"
        errors.append(f"{call_place(request, source, name)}: error: the program calls the {what} {name!r}, {end}")
    return compile_error(kind, "OpenCL C", errors, "\n".join(errors))
