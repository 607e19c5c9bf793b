"""What `devmod.compile` writes into the interfaces: other names of parameters, the size of
subgroups, and the defaults of calls. These are the block of threads and the sizes of local memory.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard

from devmod import Local
from devmod.backend import DYNAMIC_SHARED_MEMORY
from devmod.errors import CompileError, did_you_mean, list_names
from devmod_targets._arguments import strings
from devmod_targets._compilers import SUBGROUP_SIZES
from devmod_targets._text import is_utf8
from devmod_targets._toolchain import SmallKernel, Toolchain, find_toolchain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from devmod import FunctionInfo, Interface
    from devmod.backend import Payload
    from devmod_targets._arguments import Arguments

    Locals = Mapping[str, Local | Mapping[str, Local]]
    SharedMemory = int | Local | Mapping[str, int | Local]
    Functions = Mapping[str, FunctionInfo]
    #: Those that are added one by one.
    OwnNames = dict[str, str]
    #: The names, or the digests, of files or of parameters by others.
    Names = Mapping[str, str]


#: What is known of a kind without a toolchain.
_UNKNOWN = Toolchain("", SmallKernel(""))


def with_arguments(
    payload: Payload, given: Arguments, *, tuned: bool, left_out: Sequence[str]
) -> Functions:
    """Return the functions of a payload with the arguments of `devmod.compile` in their interfaces.

    Parameters
    ----------
    payload, given
        The payload, and the arguments.
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
    kind = payload.kind
    names = _renames(given.aliases)
    result = dict(payload.fmap)
    for name, info in payload.fmap.items():
        if names:
            info = _renamed(kind, name, info, names)
        if given.subgroup is not None:
            info = _with_subgroup(kind, name, info, given.subgroup)
        result[name] = info
    fmap = dict(result)
    block = _without(given.block, left_out)
    grid = _without(given.grid, left_out)
    local = _without(given.local, left_out)
    shared_memory = _without(given.shared_memory, left_out)

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
    if not functions or not hasattr(value, "items") or isinstance(value, SharedDefaults):
        return value
    return {name: each for name, each in value.items() if name not in functions}


def _renames(aliases: Mapping[str, Iterable[str]] | None) -> OwnNames:
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


def is_tuned(language: str, given: Arguments) -> bool:
    """Return whether a source may have variants. A function of Triton may have its own."""
    if language == "Triton":
        return True
    return bool(given.tune or given.constraints or given.sizes or given.grid)


def check_arguments(given: Arguments) -> None:
    """Raise CompileError for arguments `aliases` and `subgroup` that are wrong for any source."""
    _renames(given.aliases)
    size = given.subgroup
    if size is not None and not (type(size) is int and size in SUBGROUP_SIZES):
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
