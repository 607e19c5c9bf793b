"""What reflection found and what a caller declares: their fmap, with the launch tags that `devmod.compile` writes, and the payload."""

from __future__ import annotations

from devmod._dtypes import dtype_bytes, parse_dtype
from devmod._info import Block, FunctionInfo, Interface, Param, _Value
from devmod._payload import Origin, Payload
from devmod.errors import CompileError, ToolchainNotFoundError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod._payload import CompileRequest
    from devmod.targets import TargetSpec
    from devmod.targets._source import Complete

#: One for each dimension of a launch: callers of TVM's way pass them as plain integers behind the arguments.
_GRID_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
_DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"


class Found(_Value):
    """A function as reflection found it.

    Parameters
    ----------
    symbol
        Its symbol or entry point.
    types
        A type for each argument as in FunctionInfo.arg_types; "" for one that could not be read.
    params
        Its interface's params, one an argument.
    block
        Its fixed block of threads, or None.
    where
        Where it stands, as "k.cl:12", for messages.
    blocks
        The blocks of memory that its scalars lie in.
    extra
        What its interface carries beside the fields that all kinds have.
    """

    __slots__ = ("block", "blocks", "extra", "params", "symbol", "types", "where")
    block: tuple[int, int, int] | None
    blocks: tuple[Block, ...]
    extra: Mapping[str, Any]
    params: tuple[Param, ...]
    symbol: str
    types: tuple[str, ...]
    where: str

    def __init__(
        self,
        symbol: str,
        types: Sequence[str],
        params: Sequence[Param],
        block: tuple[int, int, int] | None = None,
        where: str = "",
        *,
        blocks: Sequence[Block] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._set(
            symbol=symbol,
            types=tuple(types),
            params=tuple(params),
            block=block,
            where=where,
            blocks=tuple(blocks),
            extra=dict(extra or {}),
        )


def merge(spec: TargetSpec, found: Mapping[str, Found] | None, declared: Mapping[str, FunctionInfo] | None) -> dict[str, FunctionInfo]:
    """The fmap of a payload.

    A declared function names the symbol that it means in ``FunctionInfo.name``. Its own arg_types, tags and interface count;
    what it leaves empty comes from reflection. Functions that are not declared stay as reflection found them.

    Parameters
    ----------
    spec
        The kind's spec: whether a launch has a grid.
    found
        What reflection found, in the source's order; None where there was no reflection.
    declared
        The fmap given to `devmod.compile`, or None.

    Raises
    ------
    CompileError
        A declared function is not in the source, or contradicts it, or a type is known to neither.
    """
    declared = declared or {}
    if found is None:
        return {name: _with_tags(spec, info, info.arg_types, info.interface) for name, info in declared.items()}
    by_symbol: dict[str, dict[str, FunctionInfo]] = {}
    for name, info in declared.items():
        if all(info.name != function.symbol for function in found.values()):
            known = quoted(function.symbol for function in found.values())
            raise CompileError(
                f"the declared fmap has {name!r} for the {spec.kind} function {info.name!r}; the source has: {known}",
                kind=spec.kind,
                function=name,
            )
        by_symbol.setdefault(info.name, {})[name] = info
    merged: dict[str, FunctionInfo] = {}
    for name, function in found.items():
        for key, info in by_symbol.get(function.symbol, {name: FunctionInfo(function.symbol, ())}).items():
            merged[key] = _merge_one(spec, key, info, function)
    return merged


def _merge_one(spec: TargetSpec, name: str, info: FunctionInfo, found: Found) -> FunctionInfo:
    types = info.arg_types or found.types
    if len(types) != len(found.types):
        raise CompileError(
            f"the declared fmap gives the {spec.kind} function {name!r} {len(types)} arguments; at {found.where} it has {len(found.types)}",
            kind=spec.kind,
            function=name,
        )
    params = []
    declared = info.interface.params if info.interface is not None else found.params
    for index, (type_name, own, param, given) in enumerate(zip(types, found.types, found.params, declared, strict=True)):
        what = f"argument {index + 1} ({param.name!r})" if param.name else f"argument {index + 1}"
        for trait, said, is_ in (("kind", given.kind, param.kind), ("place", given.at, param.at)):
            if said != is_ and said is not None and is_ is not None:
                raise CompileError(
                    f"the declared fmap gives {what} of the {spec.kind} function {name!r} the {trait} {said!r}; "
                    f"at {found.where} it is {is_!r}",
                    kind=spec.kind,
                    function=name,
                    argument=param.name,
                )
        if not type_name:
            raise CompileError(
                f"the {spec.kind} function {name!r} at {found.where} passes {what} by value, and its type is not known; define it, "
                "or declare the function in fmap= with its arg_types",
                kind=spec.kind,
                function=name,
                argument=param.name,
            )
        if own and not _same(type_name, own):
            raise CompileError(
                f"the declared fmap gives {what} of the {spec.kind} function {name!r} the type {type_name!r}; "
                f"at {found.where} it is {own!r}",
                kind=spec.kind,
                function=name,
                argument=param.name,
            )
        params.append(param if own else Param(param.name, param.kind, type_name))
    interface = info.interface or Interface(params, found.blocks, found.block, found.extra)
    return _with_tags(spec, info, types, interface)


def _same(declared: str, found: str) -> bool:
    """Whether two types are one for a call: the same, or a bool and a byte."""
    if declared == found:
        return True
    one, other = parse_dtype(declared), parse_dtype(found)
    return {one[0], other[0]} == {1, 6} and dtype_bytes(one) == dtype_bytes(other)


def _with_tags(spec: TargetSpec, info: FunctionInfo, types: Sequence[str], interface: Interface | None) -> FunctionInfo:
    tags = info.launch_param_tags
    if spec.has_grid and not any(tag.startswith(("blockIdx.", "threadIdx.")) for tag in tags):
        tags = (*_GRID_TAGS, *(tag for tag in tags if tag != _DYNAMIC_SHARED), *(tag for tag in tags if tag == _DYNAMIC_SHARED))
    return FunctionInfo(info.name, types, tags, info.arg_extra_tags, interface)


def source_payload(
    spec: TargetSpec,
    fmt: str,
    request: CompileRequest,
    done: Complete,
    read: Callable[[], tuple[Mapping[str, Found], str]],
    *,
    nothing: str,
) -> Payload:
    """The payload of a source that its receiver compiles: the text as it is, its functions as far as they are known.

    Parameters
    ----------
    spec, fmt
        The target's, and the source's format there.
    request
        What was asked for. A fmap in it is merged over what is read, and is enough where the reader's library is missing.
    done
        The source, complete in itself.
    read
        Gives the functions in the source by name, and the reader with its version.
    nothing
        What is said of a source without any.

    Raises
    ------
    ToolchainNotFoundError
        `read` raised it, and nothing that would do without is declared.
    CompileError
        The source has no function, or the declared ones do not fit it.
    """
    try:
        found, toolchain = read()
    except ToolchainNotFoundError:
        # Without reflection nothing can fill in what a declared function leaves empty.
        if not request.fmap or not all(info.arg_types for info in request.fmap.values()):
            raise
        fmap, toolchain = merge(spec, None, request.fmap), ""
    else:
        if not found:
            raise CompileError(nothing, kind=spec.kind)
        fmap = merge(spec, found, request.fmap)
    options = (*done.options, *(f"-D{name}={value}" for name, value in done.defines.items()))
    origin = Origin(str(request.target), toolchain, options, done.sources)
    data = done.text.encode()
    return Payload(spec.kind, dict.fromkeys(fmap, data) if spec.shader_map else data, fmt, fmap, {fmt: done.text}, origin)


def tell(texts: Sequence[str]) -> None:
    """Warn the caller of `devmod.compile`, from within its compiler: of what a reader does not know, and a device may."""
    import warnings

    for text in texts:
        # Above the caller stand this function, the compiler, and two of devmod.compile's own.
        warnings.warn(text, UserWarning, stacklevel=5)
