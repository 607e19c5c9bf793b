"""The implementation of `devmod.compile`: reading the source, checking the arguments, calling the
kind's compiler, making the module.

`devmod.compile` calls `compile_source`. Programs call `devmod.compile`.

docs/design/targets.md has the reasons.
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard

import devmod
from devmod import Local, Target
from devmod.backend import DYNAMIC_SHARED_MEMORY, check_fmap
from devmod.errors import (
    CompileError,
    FormatError,
    PluginError,
    ToolchainNotFoundError,
    did_you_mean,
    list_names,
)
from devmod.targets import KINDS
from devmod_targets._arguments import folders, macros, strings
from devmod_targets._compilers import (
    SUBGROUP_SIZES,
    architecture_problem,
    import_compiler,
    is_default,
)
from devmod_targets._read_source import file_hint, language_of, read_source, resembles_path
from devmod_targets._text import is_utf8
from devmod_targets._toolchain import SmallKernel, Toolchain, find_toolchain
from devmod_targets.authoring import CompileRequest, Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from devmod import FunctionInfo, Interface, Module, TargetSpec
    from devmod_targets._compilers import Compiler

    Path = str | os.PathLike[str]
    Define = str | int | float | bool | None
    Locals = Mapping[str, Local | Mapping[str, Local]]
    SharedMemory = int | Local | Mapping[str, int | Local]
    Functions = Mapping[str, FunctionInfo]
    #: Those that are added one by one.
    OwnNames = dict[str, str]
    #: The names, or the digests, of files or of parameters by others.
    Names = Mapping[str, str]


#: The options of devmod itself, for every target.
_WERROR = "--werror"
_STRICT = "--strict"
_PARTIAL = "--partial"
#: The languages with a compiler or a translator of their own, and its module. Core's kinds use it,
#: unless the language is their default.
_FRONT_ENDS = {"Slang": "devmod_targets.slang.compile", "Triton": "devmod_targets.triton.compile"}
#: The attribute of a module with the result of `validation_of`.
_VALIDATION = "_devmod_validation"
#: The key of an origin with the functions that `--partial` has left out.
_LEFT_OUT = "left_out"


def compile_source(
    spec: TargetSpec,
    source: Path | bytes | bytearray | memoryview,
    target: Target,
    *,
    name: str | None = None,
    language: str | None = None,
    fmap: Mapping[str, FunctionInfo] | None = None,
    options: str | Iterable[str] = (),
    defines: Mapping[str, Define] | None = None,
    include: Path | Iterable[Path] = (),
    name_expressions: Iterable[str] = (),
    runtime: bool = True,
    listings: bool = True,
    root: str = "",
    **others: Any,
) -> Module:
    """Return the module of a source. `devmod.compile` documents the parameters and the errors.

    Parameters
    ----------
    spec
        The spec of the target's kind. It names a compiler.
    source, target, name, language, fmap, options, defines, include, name_expressions
        The arguments of `devmod.compile`, with the target parsed.
    runtime
        Whether to make the module of an installed runtime. A fallback saves the same bytes, and
        imports no runtime.
    listings, root
        Those of `CompileRequest`.
    others
        The further arguments of `devmod.compile`. Some change the interfaces of the functions; the
        compiler gets all of them.
    """
    try:
        compiler, variants = import_compiler(spec)
        text = read_source(source, spec, language)
        _check_name(name)
        own_language = _checked_language(spec, target, language, text.suffix)
        if isinstance(options, str):
            options = options.split()
        all_options = strings("options", options)
        if fmap is not None:
            fmap = check_fmap(spec.kind, fmap)
        request = partial(
            CompileRequest,
            text.text,
            data=text.data or b"",
            name=text.shown_name,
            folder=text.folder,
            stem=name or os.path.splitext(text.name)[0] or "main",
            language=own_language,
            fmap=fmap,
            options=tuple(each for each in all_options if each not in (_WERROR, _STRICT, _PARTIAL)),
            warnings_as_errors=_WERROR in all_options,
            strict=_STRICT in all_options,
            partial=_PARTIAL in all_options,
            defines=macros(defines),
            include=folders(include),
            name_expressions=strings("name_expressions", name_expressions),
            listings=listings,
            root=root,
            others=others,
        )
        is_tuned = _is_tuned(own_language, others)
        change = partial(
            _with_arguments,
            spec.kind,
            names=_names(others.get("aliases")),
            subgroup=_subgroup(others.get("subgroup")),
            block=others.get("block"),
            grid=others.get("grid"),
            tuned=is_tuned,
            local=others.get("local"),
            shared_memory=others.get("shared_memory"),
        )
        compile_one = partial(_compile, spec, compiler, change)
        modules = []
        for variant in variants(target):
            try:
                own = request(variant)
                if is_tuned:
                    payloads = _payloads(own, compile_one)
                else:
                    # Not in a function: warnings name the caller of `devmod.compile` by frames.
                    payloads = [compile_one(own)]
                for payload in payloads:
                    modules.append(_module(spec, own, payload, name=name, runtime=runtime))
            except CompileError as error:
                _explain(error, source)
                if variant != target:
                    error.add_note(f"The target was {str(variant)!r}, of {str(target)!r}")
                raise
        if len(modules) == 1:
            return modules[0]
        return devmod.bundle(*modules)
    except CompileError as error:
        error.kind = error.kind or spec.kind
        raise


def _check_name(name: object) -> None:
    if name is not None and not (isinstance(name, str) and name):
        raise CompileError(f"name= is a function's name, not {name!r}")


def _checked_language(spec: TargetSpec, target: Target, language: str | None, suffix: str) -> str:
    """Return the language of a source. Raise CompileError if the target must name an architecture
    for it.
    """
    known = language_of(spec, language, suffix)
    result = known or next(iter(spec.languages.values()), "")
    problem = architecture_problem(spec, target, result, assumed=not known)
    if problem:
        raise CompileError(problem)
    return result


def _explain(error: CompileError, source: object) -> None:
    """Add a hint to the error of a source that may be intended as a path."""
    if isinstance(error, ToolchainNotFoundError):
        return
    if isinstance(source, str) and resembles_path(source):
        is_text = f"The source is the str {source.strip()!r}, and a str is always text"
        error.args = (f"{error}. {is_text}. {file_hint(source)}",)


def _payloads(request: CompileRequest, compile_one: Compiler) -> list[Payload]:
    """Return the payloads of a tuned function for one target."""
    from devmod_targets.tuning import compile_variants

    configurations = None
    if request.language in _FRONT_ENDS:
        front_end = import_module(_FRONT_ENDS[request.language])
        configurations = getattr(front_end, "configurations", None)
    return compile_variants(request, compile_one, configurations)


def _is_tuned(language: str, others: Mapping[str, Any]) -> bool:
    """Return whether a source may have variants. A function of Triton may have its own."""
    if language == "Triton":
        return True
    return any(others.get(name) for name in ("tune", "constraints", "sizes", "grid"))


def _compile(
    spec: TargetSpec,
    compiler: Compiler,
    change: Callable[..., Functions],
    request: CompileRequest,
) -> Payload:
    """Return the payload of a request, with the arguments of `devmod.compile` in its functions."""
    front_end = _FRONT_ENDS.get(request.language)
    payload: object
    if front_end and spec.kind in KINDS and not is_default(spec, request.language):
        payload = import_module(front_end).compile(request, compiler)
    else:
        payload = compiler(request)
    payload = _checked_payload(spec, payload)
    if request.strict and payload.unvalidated:
        raise CompileError(
            f"--strict needs a validator for the {request.language} source: {payload.unvalidated}"
        )
    # A text of WGSL has no directives any more.
    if payload.fmt in spec.source_formats and spec.preprocessed and payload.fmt != "wgsl":
        _check_closed(payload)
    left_out = ()
    if payload.origin is not None:
        left_out = tuple(payload.origin.extra.get(_LEFT_OUT, ()))
    return payload.replace(fmap=change(payload.fmap, left_out=left_out))


def _module(
    spec: TargetSpec, request: CompileRequest, payload: Payload, *, name: str | None, runtime: bool
) -> Module:
    # A fallback has its name from the kernel. Another kind than core's may use the name in another
    # way.
    if runtime and name is not None and name not in payload.fmap and spec.kind in KINDS:
        raise CompileError(
            f"name= is the function's name of an entry point 'main', and {request.name} has {list_names(payload.fmap)}. Leave name= out, "
            f"or give a function the name {name!r} in the source"
        )
    if runtime:
        from devmod.backend import create_own

        module = create_own(payload.kind, payload.code, payload.fmt, payload.fmap, payload.source)
    else:
        from devmod.backend import FallbackModule

        module = FallbackModule(spec, payload.fmt, payload.fmap, payload.code, payload.source)
    # `create` has no parameter for the origin and for the files.
    module.__dict__["_devmod_origin"] = payload.origin
    module.__dict__[_VALIDATION] = (payload.validator, payload.unvalidated)
    if payload.files is not None:
        module.__dict__["_devmod_files"] = {**_own_file(request), **payload.files}
    return module


def _checked_payload(spec: TargetSpec, payload: object) -> Payload:
    """Return what a compiler returned. Raise PluginError for another thing than a payload of the
    kind.
    """
    got = type(payload).__name__
    if isinstance(payload, Payload):
        if payload.kind == spec.kind:
            return payload
        got = f"a payload of kind {payload.kind!r}"
    raise PluginError(
        f"the compiler of the target {spec.kind!r} ({spec.compiler}) is broken: it returned {got}, not a devmod Payload of that kind",
        kind=spec.kind,
        key=f"devmod.targets.{spec.kind}",
    )


def validation_of(module: Module) -> tuple[str, str]:
    """Return `Payload.validator` and `Payload.unvalidated` of a module that was compiled in this
    process.
    """
    result: tuple[str, str] = vars(module).get(_VALIDATION, ("", ""))
    return result


def left_out_of(module: Module) -> dict[str, str]:
    """Return the functions that a compile with ``--partial`` has left out, with their places."""
    modules = module.imports if module.kind == "bundle" else (module,)
    result: dict[str, str] = {}
    for each in modules:
        if each.origin is not None:
            result |= each.origin.extra.get(_LEFT_OUT, {})
    return result


def _check_closed(payload: Payload) -> None:
    """Raise CompileError for a source that receivers refuse because it could name one of their
    files.
    """
    from devmod_readers.sources import closed_source

    if isinstance(payload.code, (bytes, memoryview)):
        codes = [bytes(payload.code)]
    else:
        codes = [bytes(code) for code in payload.code.values()]
    for code in dict.fromkeys(codes):  # the kernels of one file have equal texts
        try:
            closed_source(payload.kind, code.decode())
        except FormatError as error:
            raise CompileError(str(error)) from None


def _own_file(request: CompileRequest) -> OwnNames:
    """Return the source itself if it is a file, path to SHA-256."""
    if not request.folder:
        return {}
    return {os.path.join(request.folder, request.name): request.digest}


def files_read(module: Module) -> OwnNames | None:
    """Return the files that the compile of a module has read, path to SHA-256; None if they are
    unknown.
    """
    files: OwnNames = {}
    modules = module.imports if module.kind == "bundle" else (module,)
    for each in modules:
        read = each.__dict__.get("_devmod_files")
        if read is None:
            return None
        files |= read
    return files


# -- What `devmod.compile` writes into the interfaces: other names of parameters, the size of
# subgroups, and the defaults of calls. These are the block of threads and the sizes of local
# memory.


#: What is known of a kind without a toolchain.
_UNKNOWN = Toolchain("", SmallKernel(""))


def _with_arguments(
    kind: str,
    fmap: Functions,
    *,
    names: Names,
    subgroup: int | None,
    block: Any,
    grid: Any,
    tuned: bool,
    local: Locals | None,
    shared_memory: SharedMemory | None,
    left_out: Sequence[str] = (),
) -> Functions:
    """Return the functions with the arguments of `devmod.compile` in their interfaces.

    Parameters
    ----------
    kind, fmap
        The kind, for a message, and the functions.
    names
        The names of parameters in the source, each with the name to use.
    subgroup, block, grid, local, shared_memory
        The arguments of `devmod.compile`.
    tuned
        Whether the functions have variants.
    left_out
        The functions that do not compile, which the arguments may name.

    Raises
    ------
    CompileError
        An argument is invalid, contradicts the kernel, or is for a function or a parameter that
        does not exist.
    """
    result = dict(fmap)
    for name, info in fmap.items():
        if names:
            info = _renamed(kind, name, info, names)
        if subgroup is not None:
            info = _with_subgroup(kind, name, info, subgroup)
        result[name] = info
    fmap = dict(result)
    if left_out:
        block = _without(block, left_out)
        grid = _without(grid, left_out)
        local = _without(local, left_out)
        shared_memory = _without(shared_memory, left_out)

    if isinstance(local, SharedDefaults):
        local = local.locals_of(fmap)
    if isinstance(shared_memory, SharedDefaults):
        shared_memory = shared_memory.blocks_of(fmap)
    for name, dims in _blocks(fmap, "block", block).items():
        if _is_block(dims):
            result[name] = _with_block(kind, name, result[name], dims)
        elif tuned:
            result[name] = _with_expressions("block", name, result[name], dims)
        else:
            raise CompileError(
                f"block= of {name!r} is an expression of constants, which only a tuned function has: pass tune= too, or numbers",
                function=name,
                argument="block",
            )
    result = with_grid(result, grid)
    for (name, parameter), default in _locals(fmap, local).items():
        result[name] = _with_local(result[name], parameter, default)
    for name, size in _shared_memory(kind, fmap, shared_memory).items():
        result[name] = _with_shared_memory(name, result[name], size)
    return result


def _without(value: Any, functions: Sequence[str]) -> Any:
    """Return an argument of `devmod.compile` without the values of some functions."""
    if not hasattr(value, "items") or isinstance(value, SharedDefaults):
        return value
    return {name: each for name, each in value.items() if name not in functions}


def _names(aliases: Mapping[str, Iterable[str]] | None) -> OwnNames:
    """Return the names of `aliases`, each with the name to use."""
    if aliases is None:
        return {}
    if not hasattr(aliases, "items"):
        raise CompileError(
            f"aliases= is a map of a parameter's name to its names in the sources, not {aliases!r}"
        )
    result: OwnNames = {}
    for alias, names in aliases.items():
        if not (isinstance(alias, str) and alias and is_utf8(alias)):
            raise CompileError(
                f"aliases= has the name {alias!r}; a name is a string of UTF-8 with characters"
            )
        for name in strings("aliases", names):
            if not name:
                raise CompileError(
                    f"aliases= has an empty name for {alias!r}: a parameter without a name has no alias",
                    argument="aliases",
                )
            if result.setdefault(name, alias) != alias:
                raise CompileError(
                    f"aliases= has {name!r} twice: for {result[name]!r} and for {alias!r}",
                    argument="aliases",
                )
    return result


def _renamed(kind: str, name: str, info: FunctionInfo, names: Names) -> FunctionInfo:
    """Return a function whose parameters and blocks have the names to use."""
    interface = info.interface
    if interface is None:
        return info

    def renamed(noun: str, items: Iterable[Any]) -> list[Any]:
        owners: OwnNames = {}
        result = []
        for item in items:
            new = names.get(item.name, item.name)
            other = owners.setdefault(new, item.name)
            if other != item.name:
                raise CompileError(
                    f"aliases= gives two {noun} of the {kind} function {name!r} the name {new!r}: {other!r} and {item.name!r}. Only one of "
                    "them can have it",
                    function=name,
                    argument="aliases",
                )
            result.append(item.replace(name=new))
        return result

    params = renamed("parameters", interface.params)
    blocks = renamed("blocks", interface.blocks)
    return info.replace(interface=interface.replace(params=params, blocks=blocks))


def _subgroup(size: Any) -> int | None:
    if size is None or (type(size) is int and size in SUBGROUP_SIZES):
        return size
    raise CompileError(
        f"subgroup= is the number of threads in a subgroup, a power of two from 1 to 128, not {size!r}",
        argument="subgroup",
    )


def _with_subgroup(kind: str, name: str, info: FunctionInfo, size: int) -> FunctionInfo:
    interface = info.interface
    toolchain = find_toolchain(kind) or _UNKNOWN
    own = toolchain.subgroup
    if own is None and interface is not None:
        own = interface.subgroup
    if own == size:
        return info
    if own is not None:
        raise CompileError(
            f"subgroup={size} contradicts the source: the {kind} function {name!r} runs with subgroups of {own} threads",
            function=name,
            argument="subgroup",
        )
    if interface is None or not toolchain.requires_subgroups:
        if toolchain.subgroup_hint:
            why = toolchain.subgroup_hint.format(size)
        elif interface is None:
            why = "the interface is unknown: declare it with fmap="
        else:
            why = "the source does not require one"
        raise CompileError(
            f"subgroup={size} cannot be required of the {kind} function {name!r}: {why}",
            function=name,
            argument="subgroup",
        )
    return info.replace(interface=interface.replace(subgroup=size))


def _blocks(fmap: Functions, argument: str, value: Any) -> dict[str, tuple[Any, ...]]:
    """Return the values of the argument `block` or `grid` by function."""
    if value is None:
        return {}
    if isinstance(value, SharedDefaults):
        value = value.blocks_of(fmap)
    if not hasattr(value, "items"):
        return dict.fromkeys(fmap, _dims(argument, f"{argument}=", value))
    result = {}
    for name, dims in value.items():
        _check_function(fmap, argument, name)
        result[name] = _dims(argument, f"{argument}= of {name!r}", dims)
    return result


def _is_block(dims: Any) -> TypeGuard[tuple[int, int, int]]:
    return len(dims) == 3 and all(type(each) is int for each in dims)


def _dims(argument: str, subject: str, value: Any) -> tuple[Any, ...]:
    """Return a block of three numbers, or the expressions of a tuned function."""
    parts = list(value) if isinstance(value, (list, tuple)) else [value]
    if argument == "grid" or any(isinstance(part, str) for part in parts):
        from devmod_targets.tuning import read_expressions

        return read_expressions(argument, subject, parts)
    try:
        numbers = [int(part.__index__()) for part in parts]
    except (AttributeError, TypeError):
        numbers = []
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1 or max(numbers) >= 2**31:
        expected = (
            "expected the threads of a block, an int of 1 or more, or up to three for x, y, z"
        )
        raise CompileError(f"{subject}: {expected}, got {value!r}", argument="block")
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def _interface_of(argument: str, name: str, info: FunctionInfo) -> Interface:
    """Return the interface of a function, which an argument completes."""
    if info.interface is None:
        raise CompileError(
            f"{argument}= needs the interface of {name!r}, and the compiler found none: declare it with fmap=",
            function=name,
            argument=argument,
        )
    return info.interface


def _with_block(
    kind: str, name: str, info: FunctionInfo, block: tuple[int, int, int]
) -> FunctionInfo:
    interface = _interface_of("block", name, info)
    if interface.block == block:
        return info
    if interface.block is not None:
        raise CompileError(
            f"block={block} contradicts the source: the {kind} function {name!r} is built for blocks of {interface.block} threads",
            function=name,
            argument="block",
        )
    return info.replace(interface=interface.replace(default_block=block))


def with_grid(fmap: Functions, grid: Any) -> dict[str, FunctionInfo]:
    """Return functions with the argument `grid` of `devmod.compile`."""
    result = dict(fmap)
    for name, dims in _blocks(fmap, "grid", grid).items():
        result[name] = _with_expressions("grid", name, result[name], dims)
    return result


def _with_expressions(
    argument: str, name: str, info: FunctionInfo, expressions: tuple[Any, ...]
) -> FunctionInfo:
    """Return a function with the expressions of its grid or of its block, which
    `tuning.compile_variants` completes to the key ``tune``.
    """
    interface = _interface_of(argument, name, info)
    tune = {**interface.extra.get("tune", {}), argument: [*expressions]}
    return info.replace(interface=interface.replace(extra={**interface.extra, "tune": tune}))


def _with_local(info: FunctionInfo, parameter: str, default: Local) -> FunctionInfo:
    interface = info.interface
    assert interface is not None  # it has the parameter
    params = list(interface.params)
    for index, param in enumerate(params):
        if param.name == parameter:
            params[index] = param.replace(default=default)
    return info.replace(interface=interface.replace(params=params))


def _with_shared_memory(name: str, info: FunctionInfo, size: int | Local) -> FunctionInfo:
    interface = _interface_of("shared_memory", name, info)
    return info.replace(interface=interface.replace(shared_memory=size))


def _locals(fmap: Functions, local: Locals | None) -> dict[tuple[str, str], Local]:
    """Return the defaults by function and parameter."""
    if local is None:
        return {}
    if not hasattr(local, "items"):
        raise CompileError(
            f"local= is a map of a parameter's name to a devmod.Local, not {local!r}"
        )
    result: dict[tuple[str, str], Local] = {}
    names = {name: _local_names(info) for name, info in fmap.items()}
    for key, value in local.items():
        if hasattr(value, "items"):
            _check_function(fmap, "local", key)
            for parameter, default in value.items():
                _check_parameter(parameter, names[key], f"the function {key!r} has")
                result[key, parameter] = _check_local(parameter, default)
            continue
        owners = [name for name, parameters in names.items() if key in parameters]
        if not owners:
            _check_parameter(key, [*chain.from_iterable(names.values())], "there are")
        if len(owners) > 1:
            raise CompileError(
                f"local= has {key!r}, which is a parameter of {list_names(owners)}: give it by function, as in "
                f"local={{{owners[0]!r}: {{{key!r}: {value!r}}}}}",
                argument="local",
            )
        result[owners[0], key] = _check_local(key, value)
    return result


def _shared_memory(
    kind: str, fmap: Functions, value: SharedMemory | None
) -> dict[str, int | Local]:
    """Return the default of dynamic shared memory by function."""
    users = [name for name, info in fmap.items() if _uses_shared_memory(info)]
    if value is None:
        return {}
    toolchain = find_toolchain(kind) or _UNKNOWN
    if isinstance(value, (int, Local)):
        size = _shared_size("", value)
        if toolchain.has_shared_memory and not users:
            names = list(fmap)
            raise CompileError(
                "shared_memory= is given, and no function of the source shows that it uses dynamic shared memory. Give it by "
                f"function, as in shared_memory={{{names[0]!r}: {size!r}}}",
                argument="shared_memory",
            )
        return dict.fromkeys(users, size)
    if not hasattr(value, "items"):
        _shared_size("", value)
    result = {}
    for name, each in value.items():
        _check_function(fmap, "shared_memory", name)
        size = _shared_size(name, each)
        if toolchain.has_shared_memory or name in users:
            result[name] = size
    return result


def _uses_shared_memory(info: FunctionInfo) -> bool:
    return DYNAMIC_SHARED_MEMORY in info.launch_param_tags


def _shared_size(name: str, value: Any) -> int | Local:
    if isinstance(value, Local) or (type(value) is int and 0 < value < 2**63):
        return value
    of = f" of {name!r}" if name else ""
    raise CompileError(
        f"shared_memory={of}: expected bytes of 1 or more, such as 1024, or devmod.Local(per_thread=4), got {value!r}",
        argument="shared_memory",
    )


class SharedDefaults(dict[str, Any]):
    """The argument `block` or `local`, by function, of several sources.

    Each source takes what is for its own functions.

    Attributes
    ----------
    unused
        What no source has taken yet: ``sum``, ``scratch`` or ``sum.scratch``.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.unused: dict[str, None] = {}
        for key, value in values.items():
            if hasattr(value, "items"):
                for parameter in value:
                    self.unused[f"{key}.{parameter}"] = None
            else:
                self.unused[key] = None

    def blocks_of(self, fmap: Functions) -> dict[str, Any]:
        """Return the blocks of the functions of a source."""
        own = {}
        for name, dims in self.items():
            if name in fmap:
                own[name] = dims
                self.unused.pop(name, None)
        return own

    def locals_of(self, fmap: Functions) -> dict[str, Any]:
        """Return the default sizes of local memory for the parameters of a source."""
        names = {name: _local_names(info) for name, info in fmap.items()}
        own = {}
        for key, value in self.items():
            if not hasattr(value, "items"):
                if any(key in parameters for parameters in names.values()):
                    own[key] = value
                    self.unused.pop(key, None)
                continue
            for parameter, default in value.items():
                if parameter in names.get(key, ()):
                    own.setdefault(key, {})[parameter] = default
                    self.unused.pop(f"{key}.{parameter}", None)
        return own


def _local_names(info: FunctionInfo) -> list[str]:
    if info.interface is None:
        return []
    return [param.name for param in info.interface.params if param.kind == "local" and param.name]


def _check_local(parameter: str, value: object) -> Local:
    if not isinstance(value, Local):
        raise CompileError(
            f"local= has {value!r} for {parameter!r}: expected a devmod.Local, such as devmod.Local(1024) or devmod.Local(per_thread=4)",
            argument=parameter,
        )
    return value


def _check_function(fmap: Functions, argument: str, name: str) -> None:
    if name not in fmap:
        raise CompileError(
            f"{argument}= has {name!r}, and the source has no such function; it has: {list_names(fmap)}{did_you_mean(str(name), fmap)}",
            argument=argument,
        )


def _check_parameter(name: str, parameters: Sequence[str], have: str) -> None:
    if name not in parameters:
        raise CompileError(
            f"local= has {name!r}, which is not a parameter of local memory; {have}: {list_names(dict.fromkeys(parameters))}"
            f"{did_you_mean(str(name), parameters)}",
            argument="local",
        )
