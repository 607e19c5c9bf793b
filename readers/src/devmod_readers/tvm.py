"""Reading and writing TVM's serialization of one module's fields. Each size that is read is checked against the bytes that are left.

The layout, every integer little-endian (apache-tvm 0.27):

    bytes, str      u64 length, the bytes
    vector          u64 count, the values
    map             u64 count, key and value pairs in insertion order
    data type       u8 code, u8 bits, u16 lanes
    function info   str name; vector of data types; vector of str, the launch tags; vector of i32, the extra tags
"""

from __future__ import annotations

from devmod._modules.const_loader import MAX_DIMENSIONS, ConstantTensor
from devmod._values.dtypes import array_bytes, dtype_name, parse_dtype
from devmod._values.info import FunctionInfo
from devmod.errors import FormatError, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from devmod._values.code import Binary, Code
    from devmod._values.spec import TargetSpec

#: The first eight bytes of a tensor.
_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1


class TvmReader:
    """Reads TVM's values in sequence. Errors have ``field``, the name of the current field, and the offset."""

    __slots__ = ("at", "data", "field", "kind", "subject")

    def __init__(self, data: memoryview, subject: str, kind: str = "") -> None:
        self.data = data
        self.subject = subject
        self.kind = kind
        self.field = ""
        self.at = 0

    def error(self, problem: str, at: int | None = None) -> FormatError:
        """Return a FormatError with the field and the offset."""
        field = f"{self.field}: " if self.field else ""
        return FormatError(f"{self.subject}: {field}{problem}, at byte {self.at if at is None else at}", kind=self.kind)

    def finish(self) -> None:
        """Raise FormatError if bytes follow the last field."""
        self.field = ""
        if self.at != len(self.data):
            raise self.error(f"{len(self.data) - self.at} more bytes follow the last field")

    def read(self, size: int) -> memoryview:
        """Read `size` bytes."""
        left = len(self.data) - self.at
        if size > left:
            raise self.error(f"expected {size} bytes, and {left} are left")
        part = self.data[self.at : self.at + size]
        self.at += size
        return part

    def read_int(self, size: int, *, signed: bool = False) -> int:
        """Read an integer of `size` bytes."""
        return int.from_bytes(self.read(size), "little", signed=signed)

    def read_count(self, smallest: int) -> int:
        """Read a count of items of at least `smallest` bytes each."""
        start = self.at
        count = self.read_int(8)
        left = len(self.data) - self.at
        if count * smallest > left:
            raise self.error(f"a count of {count}, and {left} bytes are left", start)
        return count

    def read_bytes(self) -> memoryview:
        """Read a length and that number of bytes."""
        return self.read(self.read_int(8))

    def read_str(self) -> str:
        """Read a string."""
        start = self.at
        try:
            return str(self.read_bytes(), "utf-8")
        except UnicodeDecodeError:
            raise self.error("a string is not UTF-8", start) from None

    def read_key(self, previous: Mapping[str, object]) -> str:
        """Read a key of a map. Raise FormatError if it is in `previous`, the entries before it."""
        start = self.at
        key = self.read_str()
        if key in previous:
            raise self.error(f"the key {quote_name(key)} is repeated", start)
        return key

    def read_dtype(self) -> tuple[int, int, int]:
        """Read a data type."""
        return self.read_int(1), self.read_int(1), self.read_int(2)

    # -- fields

    def read_fmap(self) -> dict[str, FunctionInfo]:
        """Read a map of name to function info."""
        fmap: dict[str, FunctionInfo] = {}
        for _ in range(self.read_count(8)):
            self.field = "fmap"
            key = self.read_key(fmap)
            path = f"fmap of {quote_name(key)}"
            self.field = f"{path}, name"
            name = self.read_str()
            self.field = f"{path}, arg_types"
            types = [dtype_name(self.read_dtype()) for _ in range(self.read_count(4))]
            self.field = f"{path}, launch_param_tags"
            tags = [self.read_str() for _ in range(self.read_count(8))]
            self.field = f"{path}, arg_extra_tags"
            extra = [self.read_int(4, signed=True) for _ in range(self.read_count(4))]
            fmap[key] = FunctionInfo(name, types, tags, extra)
        return fmap

    def read_shaders(self) -> dict[str, memoryview]:
        """Read a map of entry name to bytes."""
        shaders: dict[str, memoryview] = {}
        for _ in range(self.read_count(16)):
            name = self.read_key(shaders)
            shaders[name] = self.read_bytes()
        return shaders

    # A const_loader's bytes:
    #   vector of str     the names
    #   vector of tensor  in that order, each
    #       u64 magic, u64 0; i32 device type (1, the CPU), i32 device index; i32 ndim; data type; i64 shape[ndim];
    #       i64 number of bytes; the elements
    #   vector of str     the init symbols
    #   vector            in that order, each a vector of str, the names of its constants
    def read_constants(self) -> tuple[dict[str, ConstantTensor], dict[str, list[str]]]:
        """Read the constants by name, and the names by init symbol."""
        self.field = "names"
        names: dict[str, None] = {}
        for _ in range(self.read_count(8)):
            names[self.read_key(names)] = None
        start = self.at
        count = self.read_count(44)
        if count != len(names):
            raise self.error(f"{len(names)} names and {count} tensors", start)
        tensors: dict[str, ConstantTensor] = {}
        for name in names:
            self.field = f"constant {quote_name(name)}"
            tensors[name] = self._read_tensor()
        return tensors, self._read_symbols()

    def _read_symbols(self) -> dict[str, list[str]]:
        self.field = "init symbols"
        by_symbol: dict[str, list[str]] = {}
        for _ in range(self.read_count(8)):
            by_symbol[self.read_key(by_symbol)] = []
        start = self.at
        count = self.read_count(8)
        if count != len(by_symbol):
            raise self.error(f"{len(by_symbol)} init symbols, and names for {count}", start)
        for symbol, names in by_symbol.items():
            self.field = f"init symbol {quote_name(symbol)}"
            names += [self.read_str() for _ in range(self.read_count(8))]
        return by_symbol

    def _read_tensor(self) -> ConstantTensor:
        start = self.at
        magic, reserved = self.read_int(8), self.read_int(8)
        if magic != _TENSOR_MAGIC or reserved:
            raise self.error("a tensor does not begin with TVM's magic number and a zero", start)
        device, _ = self.read_int(4, signed=True), self.read_int(4, signed=True)
        if device != _CPU:
            raise self.error(f"a tensor has the device type {device}, expected 1 (CPU)", start)
        dimensions = self.read_int(4, signed=True)
        if not 0 <= dimensions <= MAX_DIMENSIONS:
            raise self.error(f"{dimensions} dimensions, expected 0 to {MAX_DIMENSIONS}", start)
        dtype = self.read_dtype()
        shape = [self.read_int(8, signed=True) for _ in range(dimensions)]
        if any(length < 0 for length in shape):
            raise self.error(f"the shape {tuple(shape)} has a negative length", start)
        size = self.read_int(8)
        if size != array_bytes(dtype, shape):
            raise self.error(
                f"{size} bytes for {dtype_name(dtype)} of shape {tuple(shape)}, which takes {array_bytes(dtype, shape)}", start
            )
        return ConstantTensor(dtype, shape, self.read(size))


# -- writing


def module_parts(spec: TargetSpec, fmt: str, saved_format: str, fmap: Mapping[str, FunctionInfo], code: Code) -> list[Binary]:
    """Return a module's bytes for TVM's runtime, in parts.

    Parameters
    ----------
    spec, fmt, fmap, code
        The payload.
    saved_format
        The format in the module's own bytes, which may be an alias of `fmt`.

    Raises
    ------
    FormatError
        TVM's runtime cannot run the module.
    """
    from devmod.interop._tvm_calls import runnable_code

    code = runnable_code(spec, fmt, fmap, code)
    parts: list[Binary] = []
    for field in spec.fields:
        if field == "fmt":
            parts.append(_string(saved_format))
        elif field == "fmap":
            parts.append(_fmap_bytes(fmap))
        elif isinstance(code, (bytes, memoryview)):
            parts += (_integer(len(code)), code)
        else:
            parts.append(_integer(len(code)))
            for name, shader in code.items():
                parts += (_string(name), _integer(len(shader)), shader)
    return parts


def constants_parts(tensors: Mapping[str, Any], by_symbol: Mapping[str, Iterable[str]]) -> list[Binary]:
    """Return a const_loader's bytes in parts. A tensor has `dtype`, `shape` and `data`."""
    names = sorted(tensors)
    parts: list[Binary] = [_strings(names), _integer(len(names))]
    for name in names:
        tensor = tensors[name]
        parts.append(_integer(_TENSOR_MAGIC) + _integer(0) + _integer(_CPU, 4) + _integer(0, 4) + _integer(len(tensor.shape), 4))
        parts.append(_dtype(tensor.dtype) + b"".join(map(_integer, tensor.shape)) + _integer(len(tensor.data)))
        parts.append(tensor.data)
    parts += [_strings(by_symbol), _integer(len(by_symbol)), *map(_strings, by_symbol.values())]
    return parts


def _integer(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little", signed=value < 0)


def _string(text: str) -> bytes:
    """Return a string. Raise FormatError if it cannot be encoded in UTF-8."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise FormatError(f"the name {text!r} cannot be encoded in UTF-8") from None
    return _integer(len(data)) + data


def _strings(texts: Iterable[str]) -> bytes:
    items = list(texts)
    return _integer(len(items)) + b"".join(map(_string, items))


def _dtype(text_or_codes: str | tuple[int, int, int]) -> bytes:
    code, bits, lanes = parse_dtype(text_or_codes) if isinstance(text_or_codes, str) else text_or_codes
    return bytes((code, bits)) + _integer(lanes, 2)


def _fmap_bytes(fmap: Mapping[str, FunctionInfo]) -> bytes:
    """Return a map of name to function info, with TVM's four fields."""
    parts = [_integer(len(fmap))]
    for key, info in fmap.items():
        parts += (_string(key), _string(info.name))
        parts += (_integer(len(info.arg_types)), *map(_dtype, info.arg_types))
        parts.append(_strings(info.launch_param_tags))
        parts += (_integer(len(info.arg_extra_tags)), *(tag.to_bytes(4, "little", signed=True) for tag in info.arg_extra_tags))
    return b"".join(parts)
