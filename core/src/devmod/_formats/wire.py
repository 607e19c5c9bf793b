"""Encode and decode a module's bytes: the result of `save_to_bytes` and the argument of
`load_from_bytes` (R17 to R19).

The payload is neither parsed nor copied. `encode` returns it as a separate part; `decode` returns a
slice of the buffer.
"""

from __future__ import annotations

from _collections_abc import Mapping  # collections.abc, without the package collections
from operator import attrgetter

from devmod._formats.msgpack import Reader
from devmod._util.buffers import flat
from devmod._values.dtypes import DType, dtype_name, parse_dtype
from devmod._values.info import FunctionInfo, Interface, newer_interface
from devmod.errors import FormatError, count_text, list_names, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from devmod._formats.repeats import Repeats
    from devmod._values.code import Binary, Code, Contents, Fields, Functions
    from devmod._values.spec import TargetSpec

#: The maximum size of a msgpack binary in bytes.
MAX_BIN = 0xFFFFFFFF
#: The numbers of items of a function: without an interface, with one, and of a tuned function.
_ITEMS = (4, 5, 6)
_EXTRA = attrgetter("extra")


def encode(spec: TargetSpec, fmt: str, fmap: Functions, code: Code) -> tuple[Binary, ...]:
    """Return a module's bytes in parts. The payload, or each shader, is a separate part and is not
    copied.

    Raises
    ------
    FormatError
        A payload is over 4 GiB, or msgpack cannot represent a name or a value.
    """
    parts: list[Binary] = []
    head = bytearray()
    kind = spec.kind
    pack = packer(kind)
    for field in spec.fields:
        if field == "fmt":
            head += pack(fmt, f"the format of the {kind} module")
        elif field == "fmap":
            head += _pack_fmap(fmap, kind, pack)
        elif isinstance(code, (bytes, memoryview)):
            append_binary(parts, head, code, f"the code of the {kind} module", kind)
        else:
            head += map_header(len(code))
            for name, shader in code.items():
                subject = f"the shader {name!r} of the {kind} module"
                head += pack(name, subject)
                append_binary(parts, head, shader, subject, kind)
    if head:
        parts.append(bytes(head))
    return tuple(parts)


def split_payloads(spec: TargetSpec, parts: Sequence[Binary]) -> Sequence[Binary]:
    """Return a module's bytes in parts, as `encode` does: each payload is a part.

    `parts` are those of `encode`, or one part. It stays one if it is of another form.
    """
    if len(parts) != 1:
        return parts
    data = flat(parts[0])
    reader = Reader(data, "", spec.kind)
    pieces = []
    end = 0
    try:
        for field in spec.fields:
            if field != "code":
                reader.skip()
                continue
            count = 1
            if spec.shader_map:
                count = reader.read_map()
            for _ in range(count):
                if spec.shader_map:
                    reader.read_str()
                payload = reader.read_bin()
                pieces += [data[end : reader.at - len(payload)], payload]
                end = reader.at
    except FormatError:  # the runtime raises the error at the first use
        return parts
    if end < len(data):
        pieces.append(data[end:])
    return pieces


def share_shaders(spec: TargetSpec, parts: Sequence[Binary]) -> tuple[Sequence[Binary], Repeats]:
    """Return the parts of a module's bytes for a file, which has equal shaders once, and the
    repeats. `parts` are as for `split_payloads`.
    """
    from devmod._formats.repeats import share

    shared, repeats = share(split_payloads(spec, parts))
    try:
        if repeats:
            decode(spec, b"".join(shared), repeats)  # the parts of a class of a plugin may be any
    except FormatError:  # as above
        return parts, ()
    return shared, repeats


# The layout: the fields in the order of the kind's TargetSpec.fields, each one msgpack object. Most
# kinds have fmt, fmap and code; WebGPU has fmap and code.
#
#   fmt    str    one of the kind's formats
#   fmap   map    str (the name that callers use) -> array of 4 to 6:
#                   0  str    the symbol or entry point for the driver
#                   1  array  of the types of the arguments, each DLPack's data type
#                             [code u8, bits u8, lanes u16]
#                   2  array  of str, the launch parameter tags
#                   3  array  of i32, the extra tags
#                   4  map    the interface (Interface.to_dict); missing if there is no interface
#                   5  map    its key tune, which is not in that map; missing if it has none
#   code   bin    the payload
#          map    str (the name of an entry) -> bin, for a kind with a shader map
#
# No bytes follow the last field. `encode` writes the shortest forms and maps in insertion order.
# `decode` accepts any valid form.
def decode(spec: TargetSpec, data: Binary, repeats: Repeats = ()) -> Contents:
    """Return the format, the functions and the code in a module's bytes; with `repeats`, in those
    of a file.

    The code is slices of `data`. An alias of a format is resolved. The framing of all fields is
    checked here; the contents of a function are decoded and checked at its first use.

    Raises
    ------
    FormatError
        `data` is not a module's bytes: the message names the kind, the field and the offset.
    """
    size = len(data)
    if repeats:
        from devmod._formats.repeats import repeated_size

        size += repeated_size(repeats)
    reader = Reader(flat(data), f"the bytes of the {spec.kind} module", spec.kind, size=size)
    if repeats and not spec.shader_map:
        raise reader.error("repeats, which only shaders have")
    fmt = spec.formats[0]
    fmap: Functions = {}
    code: Code = b""
    for field in spec.fields:
        reader.field = field
        if field == "fmt":
            fmt = spec.canonical_format(reader.read_str())
        elif field == "fmap":
            fmap = _read_fmap(reader)
        elif spec.shader_map:
            from devmod._formats.repeats import read_shaders  # few kinds have shaders

            code = read_shaders(reader, repeats)
        else:
            code = reader.read_bin()
    reader.finish()
    return fmt, fmap, code


# -- writing


def pack(value: object, subject: str, kind: str = "") -> bytes:
    """Return `value` in msgpack's shortest forms. Raise FormatError, which names `subject`, if
    msgpack cannot represent it.
    """
    return packer(kind)(value, subject)


def packer(kind: str = "") -> Callable[[object, str], bytes]:
    """Return `pack` for many values of a kind."""
    import msgpack  # type: ignore[import-untyped]

    pack_value: Callable[[object], bytes] = msgpack.Packer().pack

    def pack(value: object, subject: str) -> bytes:
        try:
            return pack_value(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            # UnicodeEncodeError is a ValueError.
            raise FormatError(f"{subject} cannot be written: {error}", kind=kind) from None

    return pack


def map_header(count: int) -> bytes:
    """Return the head of a map of `count` pairs."""
    import msgpack

    head: bytes = msgpack.Packer().pack_map_header(count)
    return head


def array_header(count: int) -> bytes:
    """Return the head of an array of `count` items."""
    import msgpack

    head: bytes = msgpack.Packer().pack_array_header(count)
    return head


def binary_head_size(size: int) -> int:
    """Return the number of bytes before a binary of `size` bytes, as devmod writes it."""
    if size <= 0xFF:
        return 2
    if size <= 0xFFFF:
        return 3
    return 5


def append_binary(
    parts: list[Binary], head: bytearray, payload: Binary, subject: str, kind: str
) -> None:
    """Append `head`, the head of the binary and the payload to `parts`, and clear `head`.
    FormatError if it is too large for msgpack.
    """
    size = len(payload)
    if size > MAX_BIN:
        raise FormatError(
            f"{subject} is {count_text(size, 'byte')}; a module's bytes hold at most {MAX_BIN} in one piece (4 GiB)",
            kind=kind,
        )
    width = binary_head_size(size) - 1
    head += (0xC4 + width // 2 << 8 * width | size).to_bytes(width + 1, "big")
    parts += (bytes(head), payload)
    head.clear()


def _pack_fmap(fmap: Functions, kind: str, pack: Callable[[object, str], bytes]) -> bytes:
    subject = f"the fmap of the {kind} module"
    parts = [map_header(len(fmap))]
    has_extra = False
    for name, info in fmap.items():
        types = [*map(parse_dtype, info.arg_types)]
        fields: list[object] = [info.name, types, info.launch_param_tags, info.arg_extra_tags]
        if info.interface is not None:
            interface = info.interface.to_dict()
            tune = interface.pop("tune", None)
            fields.append(interface)
            if tune is not None:
                fields.append(tune)
            has_extra = has_extra or _has_extra(info.interface)
        parts += (pack(name, subject), pack(fields, subject))
    packed = b"".join(parts)
    if has_extra:  # msgpack's packer accepts some values that `Reader` refuses
        dict(_read_fmap(Reader(memoryview(packed), f"{subject} cannot be written", kind)))
    return packed


def _has_extra(interface: Interface) -> bool:
    """Return whether an interface has keys that devmod does not know."""
    return (
        bool(interface.extra)
        or any(map(_EXTRA, interface.params))
        or any(map(_EXTRA, interface.blocks))
    )


# -- reading


class StoredFunctions(Mapping[str, FunctionInfo]):
    """The functions in a module's bytes. Each is decoded at its first use. The bytes of the
    functions alone are kept.

    Parameters
    ----------
    reader
        A reader of the bytes, at the end of the functions.
    start
        The offset of the functions.
    places
        The name of each function to the offset of its array, whose framing was checked.

    Raises
    ------
    FormatError
        On access to a function whose contents are invalid. The other functions are not affected.
    """

    __slots__ = ("_base", "_data", "_decoded", "_kind", "_places", "_size", "_subject")

    def __init__(self, reader: Reader, start: int, places: dict[str, int]) -> None:
        self._data = bytes(reader.data[start : reader.at])
        self._subject = reader.subject
        self._kind = reader.kind
        self._base = start
        self._size = reader.size
        self._places = places
        self._decoded: dict[str, FunctionInfo] = {}

    def __getitem__(self, name: str) -> FunctionInfo:
        info = self._decoded.get(name)
        if info is None:
            info = self._decoded[name] = self.read(name)
        return info

    def packed(self, name: str) -> bytes:
        """Return the bytes of a function."""
        reader = Reader(self._data, self._subject, self._kind)
        start = reader.at = self._places[name] - self._base
        reader.skip()
        return self._data[start : reader.at]

    def read(self, name: str) -> FunctionInfo:
        """Decode a function, and do not keep the result."""
        # The limits hold for all functions together: they were checked with the framing.
        reader = Reader(self._data, self._subject, self._kind, size=self._size)
        reader.base = self._base
        reader.at = self._places[name] - self._base
        return _read_info(reader, f"fmap of {quote_name(name)}")

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<functions {list_names(self)}>"


def _read_fmap(reader: Reader) -> StoredFunctions:
    places: dict[str, int] = {}
    first = reader.at
    for _ in range(reader.read_map()):
        reader.field = "fmap"
        name = reader.read_key(places)
        places[name] = at = reader.at
        try:
            count = reader.read_array()
        except FormatError:
            count = 0
        is_valid = count in _ITEMS and reader.skip(4)
        if is_valid and count > 4:
            is_valid = reader.skip(free=True)
        if is_valid and count > 5:
            is_valid = reader.skip_apart()
        if not is_valid:
            reader.at = at  # the strict reader raises the error that names the field
            _read_info(reader, f"fmap of {quote_name(name)}")
    return StoredFunctions(reader, first, places)


def _read_info(reader: Reader, subject: str) -> FunctionInfo:
    start = reader.at
    reader.field = subject
    count = reader.read_array()
    if count not in _ITEMS:
        raise reader.error(f"expected an array of 4 to 6, found one of {count}", start)
    reader.field = f"{subject}, name"
    symbol = reader.read_str()
    reader.field = f"{subject}, arg_types"
    types = [dtype_name(read_dtype(reader)) for _ in range(reader.read_array())]
    reader.field = f"{subject}, launch_param_tags"
    tags = reader.read_texts()
    reader.field = f"{subject}, arg_extra_tags"
    extra = [reader.read_int(-(2**31), 2**31 - 1) for _ in range(reader.read_array())]
    reader.field = f"{subject}, interface"
    fields: dict[str, object] | None = None
    if count > 4:
        fields = reader.read_map_object()
    tune = None
    if count > 5:
        reader.field = f"{subject}, tune"
        tune = reader.read_map_apart()
        reader.field = f"{subject}, interface"
    try:
        interface = _interface_of(fields, tune)
        return FunctionInfo(symbol, types, tags, extra, interface)
    except FormatError as error:
        raise reader.error(str(error), start) from None


def _interface_of(fields: Fields | None, tune: Fields | None) -> Interface | None:
    """Return the interface of a function's last items, of which either may be missing."""
    if fields is None:
        return None
    if "tune" in fields:
        problem = "the interface has the key 'tune', which is an item of the function"
        return newer_interface(fields, FormatError(problem))
    if tune is not None:
        fields["tune"] = tune
    return Interface.from_dict(fields)


def read_dtype(reader: Reader) -> DType:
    """Read a data type, [code, bits, lanes]."""
    start = reader.at
    count = reader.read_array()
    if count != 3:
        raise reader.error(
            f"expected a type as [code, bits, lanes], found an array of {count}", start
        )
    return reader.read_int(0, 0xFF), reader.read_int(0, 0xFF), reader.read_int(0, 0xFFFF)
