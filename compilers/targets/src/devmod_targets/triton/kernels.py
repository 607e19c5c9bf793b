"""Compile a JIT function with Triton, for processors of NVIDIA and AMD. No driver is needed.

Triton reads environment variables and writes a cache. Here it has an empty cache, and none of the
user's variables, so that the result depends on the function, its types, constants and options
alone.
"""

from __future__ import annotations

import inspect
import io
import os
import re
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from devmod.backend import RLock, temporary_folder
from devmod.errors import (
    CompileError,
    FormatError,
    ToolchainNotFoundError,
    describe_error,
    did_you_mean,
    list_names,
    not_installed,
)
from devmod_readers.triton import UnsupportedError, parts_of
from devmod_targets.triton.signature import expand_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from devmod import Target
    from devmod_readers.triton import Parts, Specialization

    #: Types, constants or options, by name.
    _Values = Mapping[str, Any]
    _Own = dict[str, Any]
    #: The types, the constants, the attributes and the options of a compile.
    _Compiled = tuple[_Own, Mapping[Any, Any], Mapping[tuple[int, ...], Any], _Values]


_CUDA_ARCH = re.compile(r"(?:sm|compute)_(\d+)[af]?")
_AMD_ARCH = re.compile(r"gfx[0-9a-f]{3,4}")
#: The alignment that Triton has an attribute for, and the value for which it drops an argument.
_HINTS = ("16", "1")
#: The letters of Triton for the hints of a record.
_LETTERS = {"16": "D", "2G": "S"}
#: Options of Triton that follow from the target, or that name files.
_RESERVED = ("arch", "backend_name", "base_arch", "extern_libs", "ir_override", "warp_size")
_PLACE = re.compile(r"at (\d+):\d+:")
#: The environment variables that Triton, its MLIR and its LLVM read, in versions 3.2 to 3.9. Some
#: change the code, or load a plugin.
_VARIABLES = re.compile(
    r"(?:TRITON|AMDGCN|NVPTX|MLIR)_\w+|(?:DISABLE_(?:LLVM|PTXAS)|LLVM_(?:IR|ENABLE|PASS|EXTRACT)|ALLOW_LHS_TMEM|STORE_TMEM)_\w+"
    r"|DISABLE_(?:FAST_REDUCTION|MMA_V\d)|PTXAS_OPTIONS|USE_IR_LOC"
)
#: Triton reads the environment of the process.
_lock = RLock()


def compile_kernel(
    function: Any,
    signature: _Values,
    constants: _Values,
    options: _Values,
    target: Target,
) -> Any:
    """Return the kernel that Triton compiles.

    Parameters
    ----------
    function
        The JIT function, or an autotuner around it, whose `configurations_of` are variants.
    signature
        The types of the arguments by name, such as "*fp32", "i32" or "*fp32:16". A tuple has a
        tuple of types.
    constants
        The values of constant arguments by name. Others have the default of the function.
    options
        Triton's options, such as ``num_warps``.
    target
        The target, with one architecture.

    Raises
    ------
    ToolchainNotFoundError
        Triton is not installed.
    CompileError
        `function` is no JIT function, an argument has neither a type nor a value, an option or the
        architecture is unknown, or Triton refuses the function.
    """
    kind = target.kind
    jit = _jit_function(function, kind)

    def parts(backend: Any) -> _Compiled:
        types, values, attributes = _arguments(
            jit, str(jit.__name__), signature, constants, backend, kind
        )
        return types, values, attributes, options

    return _compile(jit, target, parts)


def compile_specialization(
    function: Any, kernel: Specialization, target: Target
) -> tuple[Any, Parts]:
    """Return the kernel that Triton compiles for a specialization of a record, and what identifies
    it. The parameters and the errors are those of `compile_kernel`.
    """
    jit = _jit_of_record(function, kernel, target)
    found: list[Parts] = []

    def parts(backend: Any) -> _Compiled:
        compiled = _decode_kernel(kernel, backend)
        found.append(_parts(jit, compiled, backend, target.kind))
        return compiled

    return _compile(jit, target, parts), found[0]


def identify(function: Any, kernel: Specialization, target: Target) -> Parts:
    """Return what identifies the kernel of `compile_specialization`, which is not compiled."""
    jit = _jit_of_record(function, kernel, target)
    with _own_environment():
        gpu = _target_of(target)
        backend = import_triton(target.kind, "triton.compiler.compiler").make_backend(gpu)
        return _parts(jit, _decode_kernel(kernel, backend), backend, target.kind)


def _jit_of_record(function: Any, kernel: Specialization, target: Target) -> Any:
    jit = _jit_function(function, target.kind)
    if list(kernel.arguments) != list(jit.arg_names):
        raise CompileError(
            f"the record has {kernel.function} with the arguments {list_names(kernel.arguments)}, and the function has "
            f"{list_names(jit.arg_names)}: record again",
            kind=target.kind,
            function=str(jit.__name__),
        )
    return jit


def _decode_kernel(kernel: Specialization, backend: Any) -> _Compiled:
    arguments = kernel.arguments
    if backend.target.backend == "hip" and ":2G" not in str(arguments):
        arguments = {name: _below_2g(each) for name, each in arguments.items()}
    signature: _Own = {}
    values: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    for number, (name, argument) in enumerate(arguments.items()):
        signature[name] = _decode_argument(argument, (number,), values, attributes, backend)
    return signature, values, attributes, kernel.options


def _parts(jit: Any, compiled: _Compiled, backend: Any, kind: str) -> Parts:
    signature, values, attributes, options = compiled
    try:
        return parts_of(
            jit,
            signature,
            values,
            attributes,
            vars(backend.parse_options(dict(options))),
            backend.target,
            str(import_triton(kind).__version__),
            import_triton(kind, "triton._C.libtriton").get_cache_invalidating_env_vars(),
        )
    except (UnsupportedError, ValueError) as error:
        raise CompileError(
            f"{jit.__name__} does not compile: {error}", kind=kind, function=str(jit.__name__)
        ) from error


def _compile(jit: Any, target: Target, parts: Callable[[Any], _Compiled]) -> Any:
    """Return the kernel that Triton compiles. `parts` returns the types, the constants, the
    attributes and the options for a backend of Triton.
    """
    kind = target.kind
    name = str(jit.__name__)
    compiler = import_triton(kind, "triton.compiler")
    gpu = _target_of(target)
    printed = io.StringIO()
    with _own_environment(), redirect_stdout(printed):
        backend = import_triton(kind, "triton.compiler.compiler").make_backend(gpu)
        types, values, attributes, options = parts(backend)
        known = sorted(set(vars(backend.parse_options({}))) - set(_RESERVED))
        for option in options:
            if option not in known:
                hint = did_you_mean(option, known) or f"; its options are {list_names(known)}"
                raise CompileError(
                    f"Triton has no option {option!r} for {kind}{hint}", kind=kind, function=name
                )
        try:
            expand_signature(name, types, [], None)
            source = compiler.ASTSource(jit, signature=types, constexprs=values, attrs=attributes)
            return import_triton(kind).compile(
                source, target=gpu, options=backend.parse_options(dict(options)).__dict__
            )
        except Exception as error:
            raise _compile_error(jit, name, target, error, printed.getvalue()) from error


def _below_2g(argument: Any) -> Any:
    """Return an argument with the hint of AMD's backend that a pointer is to less than 2 GB. Triton
    finds it at a launch on a GPU of AMD alone, and arrays of 2 GB are rare.
    """
    if isinstance(argument, list):
        return list(map(_below_2g, argument))
    if isinstance(argument, str) and argument.startswith("*"):
        return f"{argument}:2G"
    return argument


def _decode_argument(
    argument: Any,
    path: tuple[int, ...],
    values: dict[tuple[int, ...], Any],
    attributes: dict[tuple[int, ...], Any],
    backend: Any,
) -> Any:
    """Return the type of an argument of a record. Add its value, or its attributes, by its path."""
    if isinstance(argument, dict):
        values[path] = _decode(argument["value"])
        return "constexpr"
    if isinstance(argument, list):
        return tuple(
            _decode_argument(each, (*path, number), values, attributes, backend)
            for number, each in enumerate(argument)
        )
    type_, *hints = argument.split(":")
    words = ""
    for hint in hints:
        if hint not in _LETTERS:
            raise FormatError(
                f"the hint {hint!r} of {argument!r} is none of {list_names(_LETTERS)}"
            )
        words += _LETTERS[hint]
    if words:
        attributes[path] = backend.parse_attr(words)
    return type_


def _decode(value: Any) -> Any:
    """Return a constant of a record."""
    if not isinstance(value, dict):
        return value
    name, content = next(iter(value.items()), ("", None))
    if name == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if name == "tuple" and isinstance(content, list):
        return tuple(map(_decode, content))
    if name == "type":
        try:
            return import_triton("", "triton.language").dtype(content)
        except Exception as error:  # Triton asserts that it has the type
            raise FormatError(
                f"the record has the type {content!r}, and Triton has no such one"
            ) from error
    if name == "function" and isinstance(content, str):
        return find_function(content)
    raise FormatError(f"the record has the constant {value!r}, which is of no known form")


def find_function(path: str) -> Any:
    """Return the function of an import path, ``package.module:add``. Its module is imported.

    Raises
    ------
    CompileError
        There is no such module or function, or Triton does not have it.
    """
    module, _, name = path.partition(":")
    if "<locals>" in name:
        raise CompileError(
            f"{path} is inside of another function, and has no import path: compile it in the run that records it (devmod triton record -t "
            "TARGET -o FILE.devmod)"
        )
    try:
        found: Any = import_module(module)
    except Exception as error:  # the module is a program
        raise CompileError(
            f"{module!r}, the module of {path}, cannot be imported: {describe_error(error)}. --include FOLDER adds a folder to sys.path"
        ) from error
    for each in name.split("."):
        found = getattr(found, each, None)
    if found is None:
        raise CompileError(f"{path} is gone: the module has no {name!r}. Record again")
    is_builtin = getattr(found, "__triton_builtin__", False)
    if isinstance(found, FunctionType) and not is_builtin:  # as in vLLM
        raise CompileError(
            f"{path} is a function without @triton.jit here. Its package may not use Triton without a GPU: compile it in the run that "
            "records it (devmod triton record -t TARGET -o FILE.devmod)"
        )
    return found


def payload_format(target: Target) -> str:
    """Return the format of the payload: a cubin for ``sm_``, PTX for ``compute_``, and a code
    object for rocm.

    Raises
    ------
    CompileError
        The target is of another kind, or has an option that Triton's kernels do not have.
    """
    formats: tuple[str, ...]
    if target.kind == "rocm":
        formats = ("hsaco",)
    elif target.kind != "cuda":
        raise CompileError(
            f"Triton compiles for cuda and rocm, and not for the target {str(target)!r}",
            kind=target.kind,
        )
    elif target.arch.startswith("compute_"):
        formats = ("ptx",)
    else:
        formats = ("cubin", "ptx")
    options = dict(target.options)
    fmt = options.pop("format", formats[0])
    if options or fmt not in formats:
        expected = " or ".join(f"-format={each}" for each in formats)
        raise CompileError(
            f"the target {str(target)!r} has an option that Triton's kernels do not have; expected {expected}",
            kind=target.kind,
        )
    return fmt


def import_triton(kind: str, module: str = "triton") -> Any:
    """Return a module of Triton.

    Raises
    ------
    ToolchainNotFoundError
        Triton is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ToolchainNotFoundError(
            f"Triton functions cannot be compiled here: {not_installed('Triton', 'triton', 'triton')}",
            kind=kind,
        ) from error


def _jit_function(function: Any, kind: str) -> Any:
    """Return the JIT function inside of autotuners and heuristics."""
    inner = function
    for _ in range(8):
        if hasattr(inner, "arg_names") and hasattr(inner, "params") and hasattr(inner, "src"):
            return inner
        inner = getattr(inner, "fn", None)
    raise CompileError(
        f"expected a function with @triton.jit, got {type(function).__name__}", kind=kind
    )


def configurations_of(function: Any, kind: str) -> tuple[list[_Own], tuple[str, ...]]:
    """Return the constants of each configuration of ``@triton.autotune``, with the options that
    they are for, and the names of the arguments that decide among them. Without an autotuner there
    are none.

    Raises
    ------
    CompileError
        A configuration has a function that its launch calls.
    """
    tuner = function
    while tuner is not None and not hasattr(tuner, "configs"):
        tuner = getattr(tuner, "fn", None)
    if tuner is None:
        return [], ()

    name = str(_jit_function(function, kind).__name__)
    options = ["num_warps", "num_stages"]
    if any(getattr(each, "num_ctas", 1) != 1 for each in tuner.configs):
        options.append("num_ctas")
    if any(getattr(each, "maxnreg", None) is not None for each in tuner.configs):
        options.append("maxnreg")
    result: list[_Own] = []
    for config in tuner.configs:
        for field in ("pre_hook", "ir_override"):
            value = getattr(config, field, None)
            if value is not None:
                shown = getattr(value, "__name__", value)
                raise CompileError(
                    f"the configuration {config} of the Triton function {name!r} has the {field} {shown!r}, which a file of kernels cannot "
                    "have. Remove it, or set the constants",
                    kind=kind,
                    function=name,
                )
        constants = dict(config.kwargs)
        for option in options:
            constants[option] = getattr(config, option)
        if constants not in result:
            result.append(constants)
    return result, tuple(map(str, tuner.keys))


def _target_of(target: Target) -> Any:
    """Return Triton's GPUTarget."""
    backends = import_triton(target.kind, "triton.backends.compiler")
    return backends.GPUTarget(*_processor(target))


def processor_text(target: Target) -> str:
    """Return Triton's backend, its name of the processor, and the threads of a warp, as identities
    and choices have them.
    """
    return ":".join(map(str, _processor(target)))


def _processor(target: Target) -> tuple[str, int | str, int]:
    """Return Triton's backend, its name of the processor, and the threads of a warp."""
    if target.kind == "cuda":
        expected = "sm_90 or compute_90"
        cuda = _CUDA_ARCH.fullmatch(target.arch)
        if cuda:
            return "cuda", int(cuda[1]), 32
    else:
        expected = "gfx942 or gfx1100"
        if target.kind == "rocm" and _AMD_ARCH.fullmatch(target.arch):
            if len(target.arch) == 6:  # gfx90a and gfx942
                return "hip", target.arch, 64
            return "hip", target.arch, 32
    raise CompileError(
        f"the target {str(target)!r} names no processor of Triton; expected a name such as {expected}",
        kind=target.kind,
    )


def _arguments(
    jit: Any,
    name: str,
    signature: _Values,
    constants: _Values,
    backend: Any,
    kind: str,
) -> tuple[_Own, _Own, dict[tuple[int, ...], Any]]:
    """Return the types of the arguments, the values of those that are constants, and the attributes
    that hints give.
    """
    for key in (*signature, *constants):
        if key not in jit.arg_names:
            hint = did_you_mean(key, jit.arg_names)
            if not hint:
                hint = f"; its parameters are {list_names(jit.arg_names)}"
            raise CompileError(
                f"the Triton function {name!r} has no parameter {key!r}{hint}",
                kind=kind,
                function=name,
            )
    types: _Own = {}
    values = {}
    attributes: dict[tuple[int, ...], Any] = {}
    for number, param in enumerate(jit.params):
        key = str(param.name)
        if key in constants:
            types[key] = "constexpr"
            values[key] = constants[key]
        elif key in signature:
            type_ = signature[key]
            hint = ""
            if isinstance(type_, str):
                type_, _, hint = type_.partition(":")
            if hint and hint not in _HINTS:
                raise CompileError(
                    f"the type {signature[key]!r} of {key!r} has the hint {hint!r}; expected :16 (a multiple of 16) or :1 (the value 1)",
                    kind=kind,
                    function=name,
                )
            types[key] = type_
            if hint == "1":
                types[key] = "constexpr"
                values[key] = 1
            elif hint:
                attributes[number,] = backend.parse_attr("D")
        elif getattr(param, "has_default", param.default is not inspect.Parameter.empty):
            types[key] = "constexpr"
            values[key] = param.default
        else:
            what = 'no type, such as "*fp32" or "i32"'
            if param.is_constexpr:
                what = "no value: it is a tl.constexpr"
            raise CompileError(
                f"the parameter {key!r} of the Triton function {name!r} has {what}",
                kind=kind,
                function=name,
            )
    return types, values, attributes


@contextmanager
def _own_environment() -> Iterator[None]:
    with _lock, temporary_folder() as folder:
        own = {
            name: os.environ.pop(name) for name in list(os.environ) if _VARIABLES.fullmatch(name)
        }
        # Line information has the folder of the source (R38). The default of the last one depends
        # on Triton's version.
        added = {
            "TRITON_CACHE_DIR": folder,
            "TRITON_DISABLE_LINE_INFO": "1",
            "TRITON_DEFAULT_FP_FUSION": "1",
        }
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                os.environ.pop(name, None)
            os.environ.update(own)


def _compile_error(
    jit: Any, name: str, target: Target, error: Exception, printed: str
) -> CompileError:
    """Return the error of a function that Triton refuses, with the place in its file."""
    text = str(error).strip()
    place = _PLACE.match(text)
    where = ""
    if place:
        source, first = inspect.getsourcelines(jit.fn)
        start = next(
            (number for number, line in enumerate(source) if line.lstrip().startswith("def ")), 0
        )
        where = f"{os.path.basename(inspect.getfile(jit.fn))}:{first + start + int(place[1]) - 1}: "
    elif not isinstance(error, FormatError):
        where = f"{type(error).__name__}: "
    reason = _reason(text, has_place=place is not None)
    return CompileError(
        f"the Triton function {name!r} does not compile for {target}: {where}{reason}",
        kind=target.kind,
        function=name,
        log="\n".join(filter(None, (text, printed))),
    )


def _reason(text: str, *, has_place: bool) -> str:
    """Return the line of a message that has the reason: with a place the last one."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    # Of the assembler's messages, the first one is the reason.
    for line in lines:
        if line.startswith("ptxas "):
            return line.strip()
    if has_place:
        return lines[-1].strip()
    return lines[0].strip()
