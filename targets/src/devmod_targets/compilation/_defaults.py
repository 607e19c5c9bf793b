"""The defaults of calls that `devmod.compile` stores in the interfaces: the block of threads, and the sizes of local memory."""

from __future__ import annotations

from devmod import Local
from devmod.errors import CompileError, did_you_mean, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo, Interface

    Dims = int | Sequence[int]
    Blocks = Dims | Mapping[str, Dims]
    Locals = Mapping[str, Local | Mapping[str, Local]]


def with_defaults(kind: str, fmap: Mapping[str, FunctionInfo], block: Blocks | None, local: Locals | None) -> Mapping[str, FunctionInfo]:
    """Return the functions with the defaults in their interfaces.

    Parameters
    ----------
    kind
        The kind, for messages.
    fmap
        The functions.
    block, local
        The arguments of `devmod.compile`.

    Raises
    ------
    CompileError
        A default is invalid, contradicts the kernel, or is for a function or a parameter that does not exist.
    """
    if block is None and local is None:
        return fmap
    result = dict(fmap)
    for name, dims in _blocks(kind, fmap, block).items():
        result[name] = _with_block(kind, name, result[name], dims)
    for (name, parameter), default in _locals(kind, fmap, local).items():
        interface = _interface(kind, name, result[name], "local")
        params = [param.replace(default=default) if param.name == parameter else param for param in interface.params]
        result[name] = result[name].replace(interface=interface.replace(params=params))
    return result


def _blocks(kind: str, fmap: Mapping[str, FunctionInfo], block: Any) -> dict[str, tuple[int, int, int]]:
    if block is None:
        return {}
    if not hasattr(block, "items"):
        dims = _dims(kind, "block=", block)
        return dict.fromkeys(fmap, dims)
    for name in block:
        _check_function(kind, fmap, "block", name)
    return {name: _dims(kind, f"block= of {name!r}", dims) for name, dims in block.items()}


def _dims(kind: str, subject: str, value: Any) -> tuple[int, int, int]:
    parts = list(value) if isinstance(value, (list, tuple)) else [value]
    try:
        numbers = [int(part.__index__()) for part in parts]
    except (AttributeError, TypeError):
        numbers = []
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1 or max(numbers) >= 2**31:
        expected = "expected the threads of a block, an int of 1 or more, or up to three for x, y, z"
        raise CompileError(f"{subject}: {expected}, got {value!r}", kind=kind, argument="block")
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def _with_block(kind: str, name: str, info: FunctionInfo, block: tuple[int, int, int]) -> FunctionInfo:
    interface = _interface(kind, name, info, "block")
    if interface.block == block:
        return info
    if interface.block is not None:
        raise CompileError(
            f"block={block} contradicts the source: the {kind} function {name!r} is built for blocks of {interface.block} threads",
            kind=kind,
            function=name,
            argument="block",
        )
    return info.replace(interface=interface.replace(default_block=block))


def _locals(kind: str, fmap: Mapping[str, FunctionInfo], local: Locals | None) -> dict[tuple[str, str], Local]:
    """Return the defaults by function and parameter."""
    if local is None:
        return {}
    if not hasattr(local, "items"):
        raise CompileError(f"local= is a map of a parameter's name to a devmod.Local, not {local!r}", kind=kind)
    result: dict[tuple[str, str], Local] = {}
    names = {name: _local_names(info) for name, info in fmap.items()}
    for key, value in local.items():
        if hasattr(value, "items"):
            _check_function(kind, fmap, "local", key)
            for parameter, default in value.items():
                _check_parameter(kind, parameter, names[key], f"the function {key!r} has")
                result[key, parameter] = _check_local(kind, parameter, default)
            continue
        owners = [name for name, parameters in names.items() if key in parameters]
        _check_parameter(kind, key, [each for parameters in names.values() for each in parameters], "there are")
        if len(owners) > 1:
            raise CompileError(
                f"local= has {key!r}, which is a parameter of {list_names(owners)}: give it by function, as in "
                f"local={{{owners[0]!r}: {{{key!r}: {value!r}}}}}",
                kind=kind,
                argument="local",
            )
        result[owners[0], key] = _check_local(kind, key, value)
    return result


def _local_names(info: FunctionInfo) -> list[str]:
    return [param.name for param in info.interface.params if param.kind == "local" and param.name] if info.interface is not None else []


def _check_local(kind: str, parameter: str, value: object) -> Local:
    if not isinstance(value, Local):
        raise CompileError(
            f"local= has {value!r} for {parameter!r}: expected a devmod.Local, such as devmod.Local(1024) or devmod.Local(per_thread=4)",
            kind=kind,
            argument=parameter,
        )
    return value


def _check_function(kind: str, fmap: Mapping[str, FunctionInfo], argument: str, name: str) -> None:
    if name not in fmap:
        raise CompileError(
            f"{argument}= has {name!r}, and the source has no such function; it has: {list_names(fmap)}{did_you_mean(str(name), fmap)}",
            kind=kind,
            argument=argument,
        )


def _check_parameter(kind: str, name: str, parameters: Sequence[str], have: str) -> None:
    if name not in parameters:
        raise CompileError(
            f"local= has {name!r}, which is not a parameter of local memory; {have}: {list_names(dict.fromkeys(parameters))}"
            f"{did_you_mean(str(name), parameters)}",
            kind=kind,
            argument="local",
        )


def _interface(kind: str, name: str, info: FunctionInfo, argument: str) -> Interface:
    if info.interface is None:
        raise CompileError(
            f"{argument}= needs the interface of {name!r}, and the compiler found none: declare it with fmap=",
            kind=kind,
            function=name,
            argument=argument,
        )
    return info.interface
