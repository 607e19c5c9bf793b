"""const_loader: named constants, and for each init symbol those that it is handed (R20). In core, so always there."""

from __future__ import annotations

from math import prod

from devmod._dtypes import DType, dtype_name, parse_dtype
from devmod._formats import wire as _wire
from devmod._formats.msgpack import Reader, shown
from devmod._info import FunctionInfo
from devmod._module import BINARY_SERIALIZABLE, RUNNABLE, Module
from devmod.errors import FormatError, function_not_found, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from devmod._memory.array import Array
    from devmod._payload import Binary

KIND = "const_loader"
#: NumPy has the same limit.
MAX_DIMENSIONS = 64
#: Element types by their codes in the struct module; the integers, whose size is the platform's, come by their sign.
_FORMATS = {"?": "bool", "e": "float16", "f": "float32", "d": "float64", "Zf": "complex64", "Zd": "complex128", "c": "uint8"}
_FORMATS |= dict.fromkeys("bhilqn", "int") | dict.fromkeys("BHILQN", "uint")


class Constant:
    """One tensor: its type, its shape, and its bytes in C order."""

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, dtype: DType, shape: Sequence[int], data: Binary) -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.data = data


class ConstLoaderModule(Module):
    """Named constants; see `devmod.const_loader`.

    Parameters
    ----------
    tensors
        The constants by name.
    by_symbol
        Init symbol to the names of the constants that it is handed.
    wire
        The bytes that the module was loaded from, or None.
    """

    def __init__(self, tensors: Mapping[str, Constant], by_symbol: Mapping[str, Iterable[str]], *, wire: memoryview | None = None) -> None:
        self.tensors = {name: tensors[name] for name in sorted(tensors)}
        self.by_symbol = {symbol: tuple(names) for symbol, names in by_symbol.items()}
        self._wire = wire
        for symbol, names in self.by_symbol.items():
            missing = [name for name in names if name not in self.tensors]
            if missing:
                raise FormatError(
                    f"const_loader: the init symbol {shown(symbol)} is handed constants that are not there: {quoted(missing)}", kind=KIND
                )

    @property
    def kind(self) -> str:
        return KIND

    @property
    def functions(self) -> Mapping[str, FunctionInfo]:
        """The init symbols: functions without arguments."""
        return {symbol: FunctionInfo(symbol, ()) for symbol in self.by_symbol}

    @property
    def property_mask(self) -> int:
        return BINARY_SERIALIZABLE | RUNNABLE

    def get_function(self, name: str, query_imports: bool = False) -> Callable[[], tuple[Array, ...]]:
        """A function that returns the tuple of an init symbol's constants, in order.

        Raises
        ------
        FunctionNotFoundError
            There is no such init symbol.
        """
        names = self.by_symbol.get(name)
        if names is not None:
            return lambda: tuple(map(self.get_global, names))
        if query_imports:
            from devmod._tree import owner_of

            owner = owner_of(name, *self.imports)
            if owner is not None:
                found: Callable[[], tuple[Array, ...]] = owner.get_function(name)
                return found
        raise function_not_found(KIND, name, self.by_symbol)

    def get_global(self, name: str) -> Array:
        """The constant of that name, a read-only array in the host's memory."""
        constant = self.tensors.get(name)
        if constant is None:
            raise function_not_found(KIND, name, self.tensors, what="constant")
        from devmod._memory.array import HostArray

        return HostArray(constant.data, constant.shape, dtype_name(constant.dtype))

    def wire_parts(self) -> Sequence[Binary]:
        return (self._wire,) if self._wire is not None else _encode(self.tensors, self.by_symbol)


def const_loader(tensors: Mapping[str, Any], by_symbol: Mapping[str, Iterable[str]]) -> Module:
    """Make a module of constants, to import into a program.

    Parameters
    ----------
    tensors
        Name to any array of the host: NumPy, DLPack, or any other buffer. Writable ones are copied.
    by_symbol
        Init symbol to the names of the constants that it is handed, in order.

    Raises
    ------
    FormatError
        A name is not a string, a value is not such an array, or an init symbol names a constant that is not there.
    """
    constants: dict[str, Constant] = {}
    for name, tensor in _items(tensors, "tensors"):
        constants[name] = _constant(name, tensor)
    symbols: dict[str, tuple[str, ...]] = {}
    for symbol, names in _items(by_symbol, "by_symbol"):
        if isinstance(names, str):
            raise FormatError(f"const_loader: the init symbol {symbol!r} is given a sequence of names, not a string", kind=KIND)
        symbols[symbol] = tuple(names)
    return ConstLoaderModule(constants, symbols)


# The layout: two msgpack objects, one after the other.
#
#   map   str (a constant's name; written in the order of the names) -> array of 3:
#           0  [code u8, bits u8, lanes u16], DLPack's data type
#           1  array of its dimensions
#           2  bin, the elements in C order, little-endian
#   map   str (an init symbol) -> array of names
def load_from_bytes(data: memoryview) -> Module:
    """The module in bytes that `Module.save_to_bytes` gave; the constants are slices of `data`.

    Raises
    ------
    FormatError
        `data` is not of that form; the message names the constant and the offset.
    """
    reader = Reader(_wire.kept(data), f"the bytes of the {KIND} module", KIND)
    tensors: dict[str, Constant] = {}
    reader.field = "constants"
    for _ in range(reader.read_map()):
        reader.field = "constants"
        name = reader.read_key(tensors)
        reader.field = f"constant {shown(name)}"
        tensors[name] = _read_constant(reader)
    by_symbol: dict[str, list[str]] = {}
    reader.field = "init symbols"
    for _ in range(reader.read_map()):
        reader.field = "init symbols"
        symbol = reader.read_key(by_symbol)
        reader.field = f"init symbol {shown(symbol)}"
        by_symbol[symbol] = [reader.read_str() for _ in range(reader.read_array())]
    reader.finish()
    return ConstLoaderModule(tensors, by_symbol, wire=reader.data)


def size_of(dtype: DType, shape: Iterable[int]) -> int:
    """The bytes of a tensor. Elements of less than a byte lie packed, but for TVM's bool (a uint of 1 bit), which takes one."""
    code, bits, lanes = dtype
    if (code, bits, lanes) == (1, 1, 1):
        bits = 8
    return (prod(shape) * bits * lanes + 7) // 8


def _read_constant(reader: Reader) -> Constant:
    start = reader.at
    count = reader.read_array()
    if count != 3:
        raise reader.error(f"expected [type, shape, elements], found an array of {count}", start)
    dtype = _wire.read_dtype(reader)
    dimensions = reader.read_array()
    if dimensions > MAX_DIMENSIONS:
        raise reader.error(f"{dimensions} dimensions, and the most there are is {MAX_DIMENSIONS}", start)
    shape = tuple(reader.read_int(0, 2**63 - 1) for _ in range(dimensions))
    at = reader.at
    data = reader.read_bin()
    if len(data) != size_of(dtype, shape):
        raise reader.error(f"{len(data)} bytes for {dtype_name(dtype)} of shape {shape}, which takes {size_of(dtype, shape)}", at)
    return Constant(dtype, shape, data)


def _encode(tensors: Mapping[str, Constant], by_symbol: Mapping[str, Iterable[str]]) -> tuple[Binary, ...]:
    parts: list[Binary] = []
    head = bytearray(_wire.map_header(len(tensors)))
    for name, constant in tensors.items():
        what = f"the constant {shown(name)} of the {KIND} module"
        head += _wire.pack(name, what, KIND) + _wire.array_header(3) + _wire.pack(constant.dtype, what, KIND)
        head += _wire.pack(constant.shape, what, KIND)
        _wire.append_binary(parts, head, constant.data, what, KIND)
    parts.append(bytes(head) + _wire.pack({symbol: list(names) for symbol, names in by_symbol.items()}, f"the {KIND} module", KIND))
    return tuple(parts)


# -- from arrays


def _items(given: Mapping[str, Any], what: str) -> list[tuple[str, Any]]:
    try:
        items = list(dict(given).items())
    except (TypeError, ValueError):
        raise FormatError(f"const_loader: {what} is a map of names, not {type(given).__name__}", kind=KIND) from None
    for name, _ in items:
        if not isinstance(name, str):
            raise FormatError(f"const_loader: {what} is a map of names; {name!r} is no string", kind=KIND)
    return items


def _constant(name: str, tensor: Any) -> Constant:
    from devmod._memory.array import Array, HostArray

    if isinstance(tensor, HostArray):  # its buffer shows bfloat16 and fp8 as integers
        return Constant(parse_dtype(tensor.dtype), tensor.shape, tensor.data)
    if isinstance(tensor, Array):
        tensor = tensor.numpy()
    try:
        view = memoryview(tensor)
    except (TypeError, ValueError, BufferError):
        return _through_numpy(name, tensor)
    dtype = _dtype_of(name, view)
    if view.readonly and view.c_contiguous:
        return Constant(dtype, view.shape or (), _wire.flat(view))
    return Constant(dtype, view.shape or (), view.tobytes())


def _through_numpy(name: str, tensor: Any) -> Constant:
    """A constant of what has no plain buffer: DLPack, and NumPy arrays of the types that ml_dtypes adds."""
    what = f"const_loader: the constant {name!r}"
    if not hasattr(tensor, "__dlpack__"):
        raise FormatError(f"{what} is an array of the host (NumPy, DLPack or another buffer), not {type(tensor).__name__}", kind=KIND)
    try:
        import numpy as np
    except ImportError:
        raise FormatError(f"{what} comes through DLPack, which takes NumPy to read: pip install numpy", kind=KIND) from None
    from devmod._memory.array import bytes_of, name_of

    try:
        array = tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(tensor)
        return Constant(parse_dtype(name_of(array.dtype)), array.shape, bytes_of(array.copy(order="C")).tobytes())
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise FormatError(f"{what} cannot be read: {error}", kind=KIND) from error


def _dtype_of(name: str, view: memoryview) -> DType:
    import sys

    code = view.format.lstrip("@=" + ("<" if sys.byteorder == "little" else ">"))
    found = _FORMATS.get(code)
    if found is None:
        raise FormatError(
            f"const_loader: the constant {name!r} has elements of the format {view.format!r}, which has no type here", kind=KIND
        )
    return parse_dtype(f"{found}{8 * view.itemsize}" if found in ("int", "uint") else found)
