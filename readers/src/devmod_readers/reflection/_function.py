"""A function as a reader found it."""

from __future__ import annotations

from devmod.backend import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod import Block, Param


class ReflectedFunction(Value):
    """A function as a reader found it in the source or binary.

    Parameters
    ----------
    symbol
        Its symbol or entry point.
    types
        The type of each argument as in FunctionInfo.arg_types; "" for an unknown type.
    params
        The params of its interface, one for each argument.
    block
        Its fixed block of threads, or None.
    location
        Its place in the source for messages, such as "k.cl:12".
    blocks
        The blocks of memory that contain its scalars.
    extra
        The fields of its interface that only some kinds have.
    default_block, open_block
        The fields of its interface; both are ignored if `block` is fixed.
    tags
        TVM's launch parameter tags in addition to those of the grid and the block.
    extra_tags
        TVM's extra tags: an int for each argument, or empty.
    """

    __slots__ = (
        "block",
        "blocks",
        "default_block",
        "extra",
        "extra_tags",
        "location",
        "open_block",
        "params",
        "symbol",
        "tags",
        "types",
    )
    block: tuple[int, int, int] | None
    blocks: tuple[Block, ...]
    default_block: tuple[int, int, int] | None
    open_block: bool
    extra: Mapping[str, Any]
    params: tuple[Param, ...]
    symbol: str
    types: tuple[str, ...]
    location: str
    tags: tuple[str, ...]
    extra_tags: tuple[int, ...]

    def __init__(
        self,
        symbol: str,
        types: Sequence[str],
        params: Sequence[Param],
        block: tuple[int, int, int] | None = None,
        location: str = "",
        *,
        blocks: Sequence[Block] = (),
        extra: Mapping[str, Any] | None = None,
        default_block: tuple[int, int, int] | None = None,
        open_block: bool = False,
        tags: Sequence[str] = (),
        extra_tags: Sequence[int] = (),
    ) -> None:
        self._set(
            symbol=symbol,
            types=tuple(types),
            params=tuple(params),
            block=block,
            default_block=default_block if block is None else None,
            open_block=open_block and block is None,
            location=location,
            blocks=tuple(blocks),
            extra=dict(extra or {}),
            tags=tuple(tags),
            extra_tags=tuple(extra_tags),
        )
