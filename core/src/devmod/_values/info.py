"""The signature of a function: TVM's FunctionInfo with a fifth field, the interface.

All four classes are immutable values. Module bytes and metadata files have the maps that ``to_dict`` returns. ``extra`` has the unknown
keys of a map, which are written after the known ones.
"""

from __future__ import annotations

from devmod._values.dtypes import parse_dtype
from devmod._values.value import Value
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    #: The place of an argument or a block: None (its number), an index, a pair, or "push".
    Place = int | str | tuple[int, int] | None

PARAM_KINDS = ("buffer", "scalar", "uniform", "local", "image", "sampler")
ACCESSES = ("", "r", "w", "rw")


class Param(Value):
    """One argument of a function.

    Parameters
    ----------
    name
        The name in the source; "" if it is unknown.
    kind
        "buffer", "scalar", "uniform", "local", "image" or "sampler".
    type
        A buffer's element type or a scalar's type, such as "float32"; "uint8xN" for a struct of N bytes; "" if it is unknown.
    access
        "r", "w" or "rw" for a buffer; "" if it is unknown.
    at
        The place: ``(set, binding)`` for Vulkan and WebGPU, an index for Metal, ``(number of the block, byte offset)``
        for a scalar in a block, None if the place is the number of the argument.
    align
        The alignment of a struct in bytes; 0 for the alignment of the type.
    size
        The declared size of a buffer in bytes, which is the smallest size of an array: 64 for ``array<u32, 16>``. An array without a
        length counts as 0 bytes. 0: unknown, or no lower bound.
    extra
        Unknown keys, unchanged.

    Raises
    ------
    FormatError
        A field is invalid.
    """

    __slots__ = ("access", "align", "at", "extra", "kind", "name", "size", "type")
    name: str
    kind: str
    type: str
    access: str
    at: Place
    align: int
    size: int
    extra: Mapping[str, Any]

    def __init__(
        self,
        name: str,
        kind: str,
        type: str = "",  # noqa: A002 - the field's name in the format
        access: str = "",
        at: Place = None,
        align: int = 0,
        size: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        where = f"the parameter {name!r}"
        if not isinstance(name, str):
            raise FormatError(f"a parameter's name is a string, not {_type(name)}")
        if kind not in PARAM_KINDS:
            raise FormatError(f"{where} has the kind {kind!r}; a kind is one of {', '.join(PARAM_KINDS)}")
        if access not in ACCESSES:
            raise FormatError(f"{where} has the access {access!r}; an access is 'r', 'w', 'rw' or ''")
        if not isinstance(type, str):
            raise FormatError(f"{where} has a type that is not a string: {_type(type)}")
        if type:
            parse_dtype(type)
        _check_count(align, f"the alignment of {where}")
        _check_count(size, f"the size of {where}")
        self._set(name=name, kind=kind, type=type, access=access, at=_place(at, where), align=align, size=size, extra=dict(extra or {}))

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. Empty fields are omitted."""
        result: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.type:
            result["type"] = self.type
        if self.access:
            result["access"] = self.access
        if self.at is not None:
            result["at"] = list(self.at) if isinstance(self.at, tuple) else self.at
        if self.align:
            result["align"] = self.align
        if self.size:
            result["size"] = self.size
        return result | dict(self.extra)

    @classmethod
    def from_dict(cls, data: object) -> Param:
        """Return the parameter of a map from `to_dict`, or the Param itself.

        Raises
        ------
        FormatError
            `data` is not such a map.
        """
        if isinstance(data, Param):
            return data
        rest = _str_map(data, "a parameter")
        try:
            name, kind = rest.pop("name"), rest.pop("kind")
        except KeyError as error:
            raise FormatError(f"a parameter has no {error.args[0]!r}") from None
        type_, access, at = rest.pop("type", ""), rest.pop("access", ""), rest.pop("at", None)
        return cls(name, kind, type_, access, at, rest.pop("align", 0), rest.pop("size", 0), rest)


class Block(Value):
    """A block of memory with scalars: its place ("push", an index or (set, binding)) and its size in bytes."""

    __slots__ = ("at", "extra", "size")
    at: Place
    size: int
    extra: Mapping[str, Any]

    def __init__(self, at: Place, size: int, extra: Mapping[str, Any] | None = None) -> None:
        _check_count(size, "the size of a block")
        self._set(at=_place(at, "a block", push=True), size=size, extra=dict(extra or {}))

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have."""
        return {"at": list(self.at) if isinstance(self.at, tuple) else self.at, "size": self.size} | dict(self.extra)

    @classmethod
    def from_dict(cls, data: object) -> Block:
        """Return the block of a map from `to_dict`. Raise FormatError for other objects."""
        rest = _str_map(data, "a block")
        try:
            at, size = rest.pop("at"), rest.pop("size")
        except KeyError as error:
            raise FormatError(f"a block has no {error.args[0]!r}") from None
        return cls(at, size, rest)


class Interface(Value):
    """The parameters of a function, from reflection when it was compiled.

    Parameters
    ----------
    params
        One Param for each argument, in the order of the call.
    blocks
        The blocks with the scalars, each a Block.
    block
        The fixed number of threads in a block, ``(x, y, z)``; None if the caller chooses it.
    extra
        Unknown keys, unchanged.
    """

    __slots__ = ("block", "blocks", "extra", "params")
    params: tuple[Param, ...]
    blocks: tuple[Block, ...]
    block: tuple[int, int, int] | None
    extra: Mapping[str, Any]

    def __init__(
        self,
        params: Iterable[Param] = (),
        blocks: Iterable[Block] = (),
        block: Sequence[int] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        params, blocks = tuple(params), tuple(blocks)
        if not all(isinstance(param, Param) for param in params):
            raise FormatError("the params of an interface are Param objects")
        if not all(isinstance(entry, Block) for entry in blocks):
            raise FormatError("the blocks of an interface are Block objects")
        fixed: tuple[int, int, int] | None = None
        if block is not None:
            if not isinstance(block, (list, tuple)) or len(block) != 3:
                raise FormatError(f"a fixed block of threads is three numbers, not {block!r}")
            for count in block:
                _check_count(count, "a fixed block of threads")
            fixed = (block[0], block[1], block[2])
        self._set(params=params, blocks=blocks, block=fixed, extra=dict(extra or {}))

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. Empty fields are omitted."""
        result: dict[str, Any] = {"params": [param.to_dict() for param in self.params]}
        if self.blocks:
            result["blocks"] = [entry.to_dict() for entry in self.blocks]
        if self.block is not None:
            result["block"] = list(self.block)
        return result | dict(self.extra)

    @classmethod
    def from_dict(cls, data: object) -> Interface:
        """Return the interface of a map from `to_dict`. Raise FormatError for other objects."""
        rest = _str_map(data, "an interface")
        params, blocks = rest.pop("params", []), rest.pop("blocks", [])
        if not isinstance(params, list) or not isinstance(blocks, list):
            raise FormatError("the params and blocks of an interface are lists")
        return cls(map(Param.from_dict, params), map(Block.from_dict, blocks), rest.pop("block", None), rest)


class FunctionInfo(Value):
    """The signature of one function, for callers and drivers.

    Parameters
    ----------
    name
        The symbol or entry point for the driver. Callers use the key in the fmap.
    arg_types
        The type of each argument, as in NumPy or TVM: "handle" for a buffer, "float32", "int32", "float16x4".
    launch_param_tags
        TVM's launch parameter tags (R35), such as "blockIdx.x".
    arg_extra_tags
        TVM's extra tags: an int for each argument, or empty.
    interface
        The parameters from reflection, or None.

    Notes
    -----
    The first four fields are TVM's ``FunctionInfo`` (src/runtime/metadata.h there).
    """

    __slots__ = ("arg_extra_tags", "arg_types", "interface", "launch_param_tags", "name")
    name: str
    arg_types: tuple[str, ...]
    launch_param_tags: tuple[str, ...]
    arg_extra_tags: tuple[int, ...]
    interface: Interface | None

    def __init__(
        self,
        name: str,
        arg_types: Iterable[str],
        launch_param_tags: Iterable[str] = (),
        arg_extra_tags: Iterable[int] = (),
        interface: Interface | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise FormatError(f"a function's name is a string, not {_type(name)}")
        where = f"the function {name!r}"
        if isinstance(arg_types, str) or isinstance(launch_param_tags, str):
            raise FormatError(f"{where}: arg_types and launch_param_tags are sequences of strings, not a string")
        try:
            types, tags, extra = tuple(arg_types), tuple(launch_param_tags), tuple(arg_extra_tags)
        except TypeError as error:
            raise FormatError(f"{where}: arg_types, launch_param_tags and arg_extra_tags are sequences ({error})") from None
        for text in types:
            parse_dtype(text)
        if not all(isinstance(tag, str) for tag in tags):
            raise FormatError(f"{where} has a launch_param_tag that is not a string")
        if not all(type(tag) is int and -(2**31) <= tag < 2**31 for tag in extra):
            raise FormatError(f"{where} has an arg_extra_tag that is not an int of 32 bits")
        if interface is not None and not isinstance(interface, Interface):
            raise FormatError(f"{where} has an interface that is not an Interface: {_type(interface)}")
        if interface is not None and len(interface.params) != len(types):
            raise FormatError(f"{where} has {len(types)} arg_types and an interface of {len(interface.params)} params")
        self._set(name=name, arg_types=types, launch_param_tags=tags, arg_extra_tags=extra, interface=interface)


def _type(value: object) -> str:
    return type(value).__name__


def _check_count(value: object, what: str) -> None:
    if type(value) is not int or not 0 <= value < 2**63:
        raise FormatError(f"{what} is invalid: expected an int of at least 0, got {value!r}")


def _place(at: object, where: str, *, push: bool = False) -> Place:
    if at is None or (push and at == "push"):
        return "push" if at == "push" else None
    if type(at) is int and 0 <= at < 2**63:
        return at
    if isinstance(at, (list, tuple)) and len(at) == 2 and all(type(part) is int and 0 <= part < 2**63 for part in at):
        return (at[0], at[1])
    raise FormatError(f"{where} has the place {at!r}; a place is an index or a pair of indices")


def _str_map(data: object, what: str) -> dict[str, Any]:
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise FormatError(f"{what} is a map with string keys, not {_type(data)}")
    return dict(data)
