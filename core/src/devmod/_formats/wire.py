"""A module's bytes: what `save_to_bytes` gives and `load_from_bytes` takes (R17 to R19).

Wrapping and reading parse nothing of the payload itself, and copy nothing of it: it is a part of its own when written, a
slice of the buffer when read.
"""

from __future__ import annotations

from devmod._dtypes import DType, dtype_name, parse_dtype
from devmod._formats.msgpack import MAX_VALUES, Reader, shown
from devmod._info import FunctionInfo, Interface, Param
from devmod.errors import ArgumentError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod._formats.msgpack import Known
    from devmod._payload import Binary, Code
    from devmod.targets import TargetSpec

    Signature = tuple[list[str], list[str], list[int]]

#: The bytes that one binary of msgpack holds at most.
MAX_BIN = 0xFFFFFFFF


def encode(spec: TargetSpec, fmt: str, fmap: Mapping[str, FunctionInfo], code: Code) -> tuple[Binary, ...]:
    """A module's bytes, in parts: the payload, or each shader, is a part of its own and is not copied.

    Raises
    ------
    FormatError
        A payload is over 4 GiB, or a name or a value has no form in msgpack.
    """
    parts: list[Binary] = []
    head = bytearray()
    for field in spec.fields:
        if field == "fmt":
            head += pack(fmt, f"the format of the {spec.kind} module", spec.kind)
        elif field == "fmap":
            head += _pack_fmap(fmap, spec.kind)
        elif isinstance(code, (bytes, memoryview)):
            append_binary(parts, head, code, f"the code of the {spec.kind} module", spec.kind)
        else:
            head += map_header(len(code))
            for name, shader in code.items():
                what = f"the shader {name!r} of the {spec.kind} module"
                head += pack(name, what, spec.kind)
                append_binary(parts, head, shader, what, spec.kind)
    if head:
        parts.append(bytes(head))
    return tuple(parts)


# The layout, each field one msgpack object, one after the other, in the order of the kind's TargetSpec.fields (most kinds:
# fmt, fmap, code; WebGPU: fmap, code):
#
#   fmt    str    one of the kind's formats
#   fmap   map    str (the name that callers use) -> array of 4 or 5:
#                   0  str    the symbol or entry point given to the driver
#                   1  array  of arguments, each [code u8, bits u8, lanes u16], DLPack's data type
#                   2  array  of str, the launch parameter tags
#                   3  array  of i32, the extra tags
#                   4  map    the interface (Interface.to_dict); left out where there is none
#   code   bin    the payload; for a kind with a shader map:
#          map    str (the entry's name) -> bin
#
# Nothing follows the last field. Written: shortest forms, maps in insertion order. Read: any valid form.
def decode(spec: TargetSpec, data: Binary) -> tuple[str, dict[str, FunctionInfo], Code]:
    """The format, the functions and the code in a module's bytes; the code is slices of `data`.

    Raises
    ------
    FormatError
        `data` is not a module's bytes: the message names the kind, the field and the offset.
    """
    reader = Reader(flat(data), f"the bytes of the {spec.kind} module", spec.kind)
    fmt = spec.formats[0]
    fmap: dict[str, FunctionInfo] = {}
    code: Code = b""
    for field in spec.fields:
        reader.field = field
        if field == "fmt":
            fmt = reader.read_str()
        elif field == "fmap":
            fmap = _read_fmap(reader)
        elif spec.shader_map:
            code = _read_shaders(reader)
        else:
            code = reader.read_bin()
    reader.finish()
    return fmt, fmap, code


def flat(data: Any) -> memoryview:
    """Any buffer as a flat view of its bytes.

    Raises
    ------
    FormatError
        `data` is no buffer, or not a contiguous one.
    """
    try:
        view = memoryview(data)
    except TypeError:
        raise FormatError(f"expected bytes or another buffer, not {type(data).__name__}") from None
    if not view.c_contiguous:
        raise FormatError("expected a contiguous buffer; this one has strides")
    if view.ndim == 1 and view.format == "B":
        return view
    return view.cast("B") if view.nbytes else memoryview(b"")


def snapshot(data: Any, call: str) -> memoryview:
    """What a caller gave as bytes, as a flat view that nobody writes to: of a writable or a strided buffer a copy.

    Raises
    ------
    ArgumentError
        `data` is no buffer; the message names `call`.
    """
    try:
        view = memoryview(data)
    except TypeError:
        raise ArgumentError(f"{call}: data is bytes or another buffer, not {type(data).__name__}", argument="data") from None
    return flat(view if view.readonly and view.c_contiguous else view.tobytes())


def kept(data: Binary) -> memoryview:
    """Bytes that a module keeps, as a flat view that nobody writes to: a copy where what lies under `data` is writable.

    A read-only view of a bytearray changes with it; what is mapped from a file or is bytes is not copied.
    """
    view = data if isinstance(data, memoryview) else flat(data)
    under = view.obj  # None for a buffer of C's, which says for itself whether it may be written to
    fixed = view.readonly and (under is None or memoryview(under).readonly)
    return flat(view if fixed and view.c_contiguous else view.tobytes())


# -- writing


def pack(value: object, what: str, kind: str = "") -> bytes:
    """`value` in msgpack's shortest forms; FormatError, naming `what`, where it has none."""
    from msgpack import packb  # type: ignore[import-untyped]

    try:
        packed: bytes = packb(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise FormatError(f"{what} cannot be written: {error}", kind=kind) from None
    return packed


def map_header(count: int) -> bytes:
    """The bytes that a map of `count` pairs begins with."""
    if count < 16:
        return bytes((0x80 | count,))
    return b"\xde" + count.to_bytes(2, "big") if count <= 0xFFFF else b"\xdf" + count.to_bytes(4, "big")


def array_header(count: int) -> bytes:
    """The bytes that an array of `count` items begins with."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count <= 0xFFFF else b"\xdd" + count.to_bytes(4, "big")


def bin_header(size: int, what: str, kind: str = "") -> bytes:
    """The bytes that a binary of `size` bytes begins with; FormatError where msgpack has no binary of that size."""
    if size > MAX_BIN:
        raise FormatError(f"{what} is {size} bytes; a module's bytes hold at most {MAX_BIN} in one piece (4 GiB)", kind=kind)
    if size <= 0xFF:
        return bytes((0xC4, size))
    return b"\xc5" + size.to_bytes(2, "big") if size <= 0xFFFF else b"\xc6" + size.to_bytes(4, "big")


def append_binary(parts: list[Binary], head: bytearray, payload: Binary, what: str, kind: str) -> None:
    """Move `head` and the header of a binary into `parts`, and the payload behind them."""
    head += bin_header(len(payload), what, kind)
    parts.append(bytes(head))
    parts.append(payload)
    head.clear()


def _pack_fmap(fmap: Mapping[str, FunctionInfo], kind: str) -> bytes:
    made: dict[str, list[object]] = {}
    for name, info in fmap.items():
        entry: list[object] = [info.name, list(map(parse_dtype, info.arg_types)), info.launch_param_tags, info.arg_extra_tags]
        if info.interface is not None:
            entry.append(info.interface.to_dict())
        made[name] = entry
    what = f"the fmap of the {kind} module"
    packed = pack(made, what, kind)
    # msgpack's packer takes some values that a reader of ours refuses. Only unknown keys and sheer size bring such.
    if len(packed) >= MAX_VALUES or any(_has_extra(info.interface) for info in fmap.values()):
        _read_fmap(Reader(memoryview(packed), f"{what} cannot be written", kind))
    return packed


def _has_extra(interface: Interface | None) -> bool:
    if interface is None:
        return False
    return bool(interface.extra) or any(p.extra for p in interface.params) or any(b.extra for b in interface.blocks)


# -- reading


class _Known:
    """What functions have in common, read once."""

    def __init__(self) -> None:
        self.signatures: Known[Signature] = []
        self.interfaces: Known[Interface] = []
        self.params: Known[Param] = []
        self.values: dict[str, Known[object]] = {}


def _read_fmap(reader: Reader) -> dict[str, FunctionInfo]:
    fmap: dict[str, FunctionInfo] = {}
    known = _Known()
    for _ in range(reader.read_map()):
        reader.field = "fmap"
        name = reader.read_key(fmap)
        fmap[name] = _read_info(reader, f"fmap of {shown(name)}", known)
    return fmap


def _read_info(reader: Reader, where: str, known: _Known) -> FunctionInfo:
    start, reader.field = reader.at, where
    count = reader.read_array()
    if count not in (4, 5):
        raise reader.error(f"expected an array of 4 or 5, found one of {count}", start)
    reader.field = f"{where}, name"
    symbol = reader.read_str()
    types, tags, extra = _read_signature(reader, where, known)
    reader.field = f"{where}, interface"
    interface = reader.shared(known.interfaces, lambda: _read_interface(reader, start, known)) if count == 5 else None
    try:
        return FunctionInfo(symbol, types, tags, extra, interface)
    except FormatError as error:
        raise reader.error(str(error), start) from None


def _read_signature(reader: Reader, where: str, known: _Known) -> Signature:
    """The types, the tags and the extra tags."""

    def read() -> Signature:
        reader.field = f"{where}, arg_types"
        types = [dtype_name(read_dtype(reader)) for _ in range(reader.read_array())]
        reader.field = f"{where}, launch_param_tags"
        tags = [reader.read_str() for _ in range(reader.read_array())]
        reader.field = f"{where}, arg_extra_tags"
        return types, tags, [reader.read_int(-(2**31), 2**31 - 1) for _ in range(reader.read_array())]

    # Three objects in a row end as surely as one does.
    return reader.shared(known.signatures, read)


def _read_interface(reader: Reader, start: int, known: _Known) -> Interface:
    def read_param() -> Param:
        value = reader.read_value(2)
        try:
            return Param.from_dict(value)
        except FormatError as error:
            raise reader.error(str(error), start) from None

    found: dict[str, object] = {}
    for _ in range(reader.read_map()):
        key = reader.read_key(found)
        if key == "params" and reader.at_array:
            found[key] = [reader.shared(known.params, read_param) for _ in range(reader.read_array())]
        else:
            found[key] = reader.shared(known.values.setdefault(key, []), lambda: reader.read_value(1))
    try:
        return Interface.from_dict(found)
    except FormatError as error:
        raise reader.error(str(error), start) from None


def read_dtype(reader: Reader) -> DType:
    """A data type as [code, bits, lanes]."""
    start = reader.at
    count = reader.read_array()
    if count != 3:
        raise reader.error(f"expected a type as [code, bits, lanes], found an array of {count}", start)
    return reader.read_int(0, 0xFF), reader.read_int(0, 0xFF), reader.read_int(0, 0xFFFF)


def _read_shaders(reader: Reader) -> Mapping[str, memoryview]:
    shaders: dict[str, memoryview] = {}
    for _ in range(reader.read_map()):
        name = reader.read_key(shaders)
        shaders[name] = reader.read_bin()
    return shaders
