"""The signature of a function: TVM's FunctionInfo with a fifth field, the interface.

All classes are immutable values. Module bytes and metadata files have the maps that ``to_dict``
returns. ``extra`` has the unknown keys of a map, which are written after the known ones.
"""

from __future__ import annotations

from devmod._values.dtypes import parse_dtype
from devmod._values.param import (
    Local,
    Param,
    cut_text,
    declaration_text,
    join_texts,
    parameter_text,
    short_repr,
)
from devmod._values.value import Value, check_count, is_count, read_list, read_map, read_place
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from devmod._values.value import Place


# Where to change: a field of a function's interface, such as default_block
#   here: `Interface`: the docstring, `__slots__`, `__init__` and `to_dict`
#   also: `docs/formats.md`, `tests/spec_reader.py`, `extras/browser/js/src/interface.js`,
#     `tools/fuzzing/grammar.py`; `core/src/devmod/_modules/agreement.py` if candidates must agree;
#     who fills it (`compilers/targets/src/devmod_targets/_interfaces.py`) and who obeys it
#     (`plugins/runtime/src/devmod_runtime/_launch/config.py`)
#   tests: `core/tests/test_info.py`, `tests/test_formats_page.py`, `tests/test_readers.py`
class _Tuned(Value):
    """The place of what `devmod._values.tuning.tuning_of` has read. It is no field."""

    __slots__ = ("tuning",)


class Block(Value):
    """A block of memory with scalars: its place ("push", an index or (set, binding)) and its size
    in bytes.

    A call may give its scalars as one record under its `name`; "" if the source has no name for it.
    """

    __slots__ = ("at", "extra", "name", "size")
    at: Place
    size: int
    extra: Mapping[str, Any]
    name: str

    def __init__(
        self, at: Place, size: int, extra: Mapping[str, Any] | None = None, name: str = ""
    ) -> None:
        check_count(size, "the size of a block")
        if not isinstance(name, str):
            raise FormatError(f"a block's name is a string, not {type(name).__name__}")
        self._set(
            at=read_place(at, "a block", push=True), size=size, extra=dict(extra or {}), name=name
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. An empty name is omitted."""
        return {"at": None} | self._written(("at", "size"))

    @classmethod
    def from_dict(cls, data: object) -> Block:
        """Return the block of a map from `to_dict`. Raise FormatError for other objects."""
        rest = read_map(data, "a block", "at", "size")
        fields = cls._taken(rest)
        return cls(extra=rest, **fields)


class Interface(_Tuned):
    """The parameters of a function, from reflection when it was compiled.

    Parameters
    ----------
    params
        One Param for each argument, in the order of the call.
    blocks
        The blocks with the scalars, each a Block.
    block
        The fixed number of threads in a block, ``(x, y, z)``; None if the caller chooses it.
    default_block
        The block of a call that names none; None without a default. `block` overrides it.
    open_block
        Whether the kernel gives the same result with every block, so that the backend may choose
        one.
    shared_memory
        The dynamic shared memory of a call that names none: bytes, or ``Local(per_thread=n)`` for n
        bytes for each thread of a block. 0: there is no default.
    extra
        Unknown keys, unchanged.
    needs
        What the device must have, by name: "fp16", "fp64", "image_writes_3d", "images",
        "int64_atomics", "subgroup_size", "subgroups", … They are sorted.
    subgroup
        The number of threads in a subgroup with which the kernel must run; None for any.
    """

    __slots__ = (
        "block",
        "blocks",
        "default_block",
        "extra",
        "needs",
        "open_block",
        "params",
        "shared_memory",
        "subgroup",
    )
    params: tuple[Param, ...]
    blocks: tuple[Block, ...]
    block: tuple[int, int, int] | None
    default_block: tuple[int, int, int] | None
    open_block: bool
    shared_memory: int | Local
    extra: Mapping[str, Any]
    needs: tuple[str, ...]
    subgroup: int | None

    def __init__(
        self,
        params: Iterable[Param] = (),
        blocks: Iterable[Block] = (),
        block: Sequence[int] | None = None,
        extra: Mapping[str, Any] | None = None,
        *,
        default_block: Sequence[int] | None = None,
        open_block: bool = False,
        shared_memory: int | Local | Mapping[str, int] = 0,
        needs: Iterable[str] = (),
        subgroup: int | None = None,
    ) -> None:
        params = tuple(params)
        blocks = tuple(blocks)
        if not all(isinstance(param, Param) for param in params):
            raise FormatError("the params of an interface are Param objects")
        if blocks and not all(isinstance(entry, Block) for entry in blocks):
            raise FormatError("the blocks of an interface are Block objects")
        if type(open_block) is not bool:
            raise FormatError(f"open_block is a boolean, not {type(open_block).__name__}")
        names = tuple(needs)
        if isinstance(needs, str) or not all(isinstance(name, str) for name in names):
            raise FormatError(f"the needs of an interface are strings, not {needs!r}")
        if subgroup is not None:
            check_count(subgroup, "the subgroup of an interface", 1)
        self._set(
            params=params,
            blocks=blocks,
            block=_threads(block, "a fixed block of threads", 0),
            default_block=_threads(default_block, "a default block of threads", 1),
            open_block=open_block,
            shared_memory=_shared_memory(shared_memory),
            extra=dict(extra or {}),
            needs=tuple(sorted(set(names))),
            subgroup=subgroup,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have. Empty fields are omitted."""
        result = self._written(("params",))
        if isinstance(self.shared_memory, Local):
            result["shared_memory"] = {"per_thread": self.shared_memory.per_thread}
        return result

    @classmethod
    def from_dict(cls, data: object) -> Interface:
        """Return the interface of a map from `to_dict`, or that of a newer function. Raise
        FormatError for other objects.
        """
        try:
            return cls._read(data)
        except FormatError as error:
            return newer_interface(data, error)

    @classmethod
    def _read(cls, data: object) -> Interface:
        rest = read_map(data, "an interface")
        params = read_list(rest.pop("params", []), "the params of an interface")
        blocks = read_list(rest.pop("blocks", []), "the blocks of an interface")
        fields = cls._taken(rest)
        if "needs" in fields:
            read_list(fields["needs"], "the needs of an interface")
        return cls(map(Param.from_dict, params), map(Block.from_dict, blocks), extra=rest, **fields)

    @property
    def newer(self) -> tuple[str, ...]:
        """The unknown needs of a newer function: its interface does not follow the rules that this
        devmod knows. `extra` then has its whole map, and `params` is empty. () for all others.
        """
        if "params" not in self.extra:
            return ()
        from devmod._values.features import unknown_needs

        return unknown_needs(self.needs)

    @property
    def values(self) -> tuple[Param, ...]:
        """One Param for each parameter of the kernel: those of `params`, and the values of a
        `Param.pack` in its place.
        """
        values: list[Param] = []
        for param in self.params:
            values += param.values
        return tuple(values)

    def __repr__(self) -> str:
        return short_repr("Interface", interface_text(self, short=True))


class FunctionInfo(Value):
    """The signature of one function, for callers and drivers.

    Parameters
    ----------
    name
        The symbol or entry point for the driver. Callers use the key in the fmap.
    arg_types
        The type of each value that the kernel takes, as in NumPy or TVM: "handle" for a buffer, an
        image, a sampler or local memory, "float32", "int32", "float16x4". A parameter is one value,
        or the values of its `Param.pack`.
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
            raise FormatError(f"a function's name is a string, not {type(name).__name__}")
        subject = f"the function {name!r}"
        # Drivers take UTF-8.
        if not name.isascii() and any("\ud800" <= char <= "\udfff" for char in name):
            raise FormatError(f"{subject} has a character that UTF-8 cannot encode")
        if isinstance(arg_types, str) or isinstance(launch_param_tags, str):
            raise FormatError(
                f"{subject}: arg_types and launch_param_tags are sequences of strings, not a string"
            )
        try:
            types = tuple(arg_types)
            tags = tuple(launch_param_tags)
            extra = tuple(arg_extra_tags)
        except TypeError as error:
            raise FormatError(
                f"{subject}: arg_types, launch_param_tags and arg_extra_tags are sequences ({error})"
            ) from None
        for text in types:
            parse_dtype(text)
        if not all(isinstance(tag, str) for tag in tags):
            raise FormatError(f"{subject} has a launch_param_tag that is not a string")
        if not all(type(tag) is int and -(2**31) <= tag < 2**31 for tag in extra):
            raise FormatError(f"{subject} has an arg_extra_tag that is not an int of 32 bits")
        if interface is not None:
            interface = _checked_interface(interface, len(types), subject)
        self._set(
            name=name,
            arg_types=types,
            launch_param_tags=tags,
            arg_extra_tags=extra,
            interface=interface,
        )

    def __repr__(self) -> str:
        return short_repr("FunctionInfo", signature_text(self.name, self, short=True))


def newer_interface(data: object, problem: FormatError) -> Interface:
    """Return the interface of a newer function, whose map does not follow the rules here.

    Raises
    ------
    FormatError
        `problem`: each of its needs is known, so that the map is damaged.
    """
    from devmod._values.features import unknown_needs

    needs = None
    if isinstance(data, dict):
        needs = data.get("needs")
    if not isinstance(needs, list) or not all(isinstance(each, str) for each in needs):
        raise problem
    if not unknown_needs(needs):
        raise problem
    # No other interface has this key in `extra`.
    return Interface(extra={"params": [], **data}, needs=needs)  # type: ignore[dict-item]


def _checked_interface(interface: object, expected: int, subject: str) -> Interface:
    """Return an interface that has as many values as the function has types, or that of a newer
    function.
    """
    if not isinstance(interface, Interface):
        raise FormatError(
            f"{subject} has an interface that is not an Interface: {type(interface).__name__}"
        )
    count = 0
    for param in interface.params:
        count += len(param.pack) or 1
    if count == expected or interface.newer:
        return interface
    problem = f"{subject} has {expected} arg_types and an interface of {count} values"
    return newer_interface(interface.to_dict(), FormatError(problem))


def _threads(value: Sequence[int] | None, subject: str, least: int) -> tuple[int, int, int] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        raise FormatError(f"{subject} is three numbers, not {value!r}")
    for count in value:
        check_count(count, subject, least)
    return (value[0], value[1], value[2])


def _shared_memory(value: object) -> int | Local:
    """Return the default of dynamic shared memory: bytes, or a Local of bytes for each thread."""
    if isinstance(value, Local):
        if value.per_thread:
            return value
        return value.nbytes
    if isinstance(value, dict):
        size = value.get("per_thread")
        if len(value) != 1 or not is_count(size) or not size:
            raise FormatError(
                "the shared memory of an interface is invalid: expected an int of at least 0, or a map with the key per_thread and an "
                f"int of at least 1, got {value!r}"
            )
        return Local(per_thread=size)
    check_count(value, "the shared memory of an interface")
    assert isinstance(value, int)
    return value


def signature_text(name: str, info: FunctionInfo, *, short: bool = False) -> str:
    """Return a function as one line: its name, its parameters and its block. `short` cuts long
    ones.
    """
    if info.interface is not None:
        return f"{cut_text(name, short)}{interface_text(info.interface, short=short)}"
    return f"{cut_text(name, short)}({join_texts(info.arg_types, short)})"


def interface_text(interface: Interface, *, short: bool = False) -> str:
    """Return the parameters, the records, the result, the block and the needs: ``(n: int32) record
    p block 64×1×1 needs fp16``.
    """
    from devmod._values.features import TUNED, newer_text

    if interface.newer:
        return f"(…) {newer_text(interface.newer)}"
    if "kernels" in interface.extra:
        return _program_text(interface, short)
    params = [parameter_text(each) for each in interface.params]
    parts = [f"({join_texts(params, short)})"]
    records = [block.name for block in interface.blocks if block.name]
    if records:
        parts.append(f"record {join_texts(records, short)}")
    result = interface.extra.get("result")
    if result:
        parts.append(f"-> {result}")
    block = block_text(interface)
    if block:
        parts.append(block)
    if interface.subgroup:
        parts.append(f"subgroup {interface.subgroup}")
    needs = [name for name in interface.needs if name != TUNED]
    if needs:
        parts.append(f"needs {join_texts(needs, short)}")
    if len(needs) < len(interface.needs):
        parts.append(TUNED)
    return " ".join(parts)


def _program_text(interface: Interface, short: bool) -> str:
    """Return the signature of a program: ``(x: float32[n], a: float32 = 2.0) -> y: float32[n]``."""
    given = []
    returned = []
    for param in interface.params:
        role = param.extra.get("role")
        if role in ("input", "update"):
            given.append(declaration_text(param))
        elif role == "output":
            returned.append(declaration_text(param))
    text = f"({join_texts(given, short)})"
    if returned:
        text += f" -> {join_texts(returned, short)}"
    return text


def block_text(interface: Interface) -> str:
    """Return the block of a launch: ``block 64×1×1``, ``default block 64×1×1``, ``any block``; ""
    if the call chooses it.
    """
    if interface.block is not None:
        return f"block {'×'.join(map(str, interface.block))}"
    if interface.default_block is not None:
        return f"default block {'×'.join(map(str, interface.default_block))}"
    if interface.open_block:
        return "any block"
    return ""


def shorten(dims: tuple[int, int, int]) -> int | tuple[int, ...]:
    """Return dimensions as a call gives them: without ones at the end, and an int for x alone."""
    x, y, z = dims
    if z != 1:
        return dims
    if y != 1:
        return x, y
    return x
