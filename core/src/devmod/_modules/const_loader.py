"""const_loader: named constants, and functions (init symbols) that return them (R20). Core
implements it.
"""

from __future__ import annotations

from functools import partial

from devmod._formats import wire as _wire
from devmod._formats.msgpack import Reader
from devmod._modules.module import Module
from devmod._util.buffers import flat, read_only_view
from devmod._util.digest import sha256_of
from devmod._values.dtypes import STRUCT_FORMATS, DType, array_bytes, dtype_name, parse_dtype
from devmod._values.info import FunctionInfo
from devmod.errors import (
    ArgumentError,
    FormatError,
    count_text,
    function_not_found,
    list_names,
    pip_install,
    quote_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod import Device
    from devmod._arrays.array import Array
    from devmod._formats.parts import StoredPart
    from devmod._values.code import Binary, Functions

    #: The start and the end of the elements of a constant in a module's bytes, and its name.
    Span = tuple[int, int, str]

KIND = "const_loader"
#: The same limit as NumPy's.
MAX_DIMENSIONS = 64
#: Element types by their codes in the struct module. The size of integers depends on the platform,
#: so they have a prefix alone.
_FORMATS = {fmt: name for name, fmt in STRUCT_FORMATS.items() if name != "uint1"} | {"c": "uint8"}
_FORMATS |= dict.fromkeys("bhilqn", "int") | dict.fromkeys("BHILQN", "uint")


class ConstantTensor:
    """A tensor: its type, its shape, and its bytes in C order.

    Parameters
    ----------
    dtype, shape
        Its type and its shape.
    data
        Its bytes, or a function that reads them at their first use.
    part
        The part of an open file that has its bytes; None if there is none.
    """

    __slots__ = ("_data", "dtype", "part", "shape")

    def __init__(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        data: Binary | Callable[[], Binary],
        part: StoredPart | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.part = part
        self._data = data

    @property
    def data(self) -> Binary:
        """The bytes. FormatError if they are damaged."""
        data = self._data
        if callable(data):
            data = self._data = data()
        return data

    @property
    def nbytes(self) -> int:
        """The number of bytes, which are not read."""
        return array_bytes(self.dtype, self.shape)

    @property
    def form(self) -> str:
        """The type and the shape: ``float32[3, 4]``."""
        return f"{dtype_name(self.dtype)}{[*self.shape]}"

    @property
    def identity(self) -> str:
        """The form, a space, and the SHA-256 of the bytes. Those of a part are not read."""
        digest = sha256_of(self.data) if self.part is None else self.part.digest
        return f"{self.form} {digest.hex()}"

    @property
    def is_read(self) -> bool:
        """Whether its bytes are in memory."""
        return not callable(self._data)


class ConstLoaderModule(Module):
    """Named constants; see `devmod.const_loader`.

    Parameters
    ----------
    tensors
        The constants by name.
    by_symbol
        Init symbol to the names of the constants that it returns.
    wire
        The bytes from which the module was loaded, or None.
    spans
        In these bytes, the start and the end of the elements of constants in the form that devmod
        writes, and of parts, in their order.
    """

    def __init__(
        self,
        tensors: Mapping[str, ConstantTensor],
        by_symbol: Mapping[str, Iterable[str]],
        *,
        wire: memoryview | None = None,
        spans: Sequence[Span] = (),
    ) -> None:
        self.tensors = {name: tensors[name] for name in sorted(tensors)}
        self.by_symbol = {symbol: tuple(names) for symbol, names in by_symbol.items()}
        self._wire = wire
        self._spans = spans
        for symbol, names in self.by_symbol.items():
            missing = [name for name in names if name not in self.tensors]
            if missing:
                raise FormatError(
                    f"const_loader: the init symbol {quote_name(symbol)} names constants that do not exist: {list_names(missing)}",
                    kind=KIND,
                )

    @property
    def kind(self) -> str:
        return KIND

    @property
    def functions(self) -> Functions:
        """The init symbols: functions without arguments."""
        return {symbol: FunctionInfo(symbol, ()) for symbol in self.by_symbol}

    @property
    def function_names(self) -> Collection[str]:
        return self.by_symbol.keys()

    def get_function(
        self, name: str, query_imports: bool = False
    ) -> Callable[[], tuple[Array, ...]]:
        """Return a function that returns the tuple of an init symbol's constants, in order.

        Raises
        ------
        FunctionNotFoundError
            There is no such init symbol.
        """
        owner = self._find_owner(name, query_imports)
        if owner is not self:
            function: Callable[[], tuple[Array, ...]] = owner.get_function(name)
            return function
        return partial(self._constants, name, self.by_symbol[name])

    def _constants(
        self, symbol: str, names: Sequence[str], *args: object, **keywords: object
    ) -> tuple[Array, ...]:
        if args or keywords:
            raise ArgumentError(
                f"the const_loader function {symbol!r} takes no arguments; {len(args) + len(keywords)} given",
                kind=KIND,
                function=symbol,
            )
        self.read_together(names)
        return tuple(map(self.get_global, names))

    def read_together(self, names: Iterable[str]) -> None:
        """Read some constants before their use, with few requests to a server."""
        from devmod._formats.parts import read_together

        parts = []
        for name in names:
            constant = self.tensors.get(name)
            if constant is not None and constant.part is not None and not constant.is_read:
                parts.append(constant.part)
        read_together(parts)

    def get_global(self, name: str, device: Device | None = None, **options: Any) -> Array:
        """Return a constant as a read-only array in the host's memory."""
        if device is not None or options:
            raise ArgumentError(
                "the constants of a const_loader are in the host's memory: get_global takes their name alone",
                kind=KIND,
            )
        constant = self.tensors.get(name)
        if constant is None:
            raise function_not_found(KIND, name, self.tensors, noun="constant")
        from devmod._arrays.host_array import HostArray

        return HostArray(constant.data, constant.shape, dtype_name(constant.dtype))

    def wire_parts(self) -> Sequence[Binary]:
        return self._join(1 << 63, [])  # none is as large

    def file_parts(self, least: int) -> tuple[Sequence[Binary], list[ConstantTensor]]:
        """Return the module's bytes for a file, and the constants of `least` bytes or more, in
        whose place they have positions.
        """
        parts: list[ConstantTensor] = []
        return self._join(least, parts), parts

    def _join(self, least: int, parts: list[ConstantTensor]) -> Sequence[Binary]:
        """Return the module's bytes in pieces. Constants of `least` bytes or more are added to
        `parts`, and have their positions there.
        """
        result: list[Binary] = []
        head = bytearray()
        for before, name in self._pieces():
            head += before
            if name is None:
                continue
            tensor = self.tensors[name]
            if tensor.nbytes >= least:
                head += _wire.pack(len(parts), f"the {KIND} module", KIND)
                parts.append(tensor)
                continue
            subject = f"the constant {quote_name(name)} of the {KIND} module"
            _wire.append_binary(result, head, tensor.data, subject, KIND)
        result.append(bytes(head))
        return result

    def _pieces(self) -> Iterator[tuple[Binary, str | None]]:
        """Yield the bytes before the elements of each constant, and its name; then the other
        bytes.
        """
        if self._wire is None:
            yield from _encode(self.tensors, self.by_symbol)
            return
        at = 0
        for start, end, name in self._spans:
            yield self._wire[at:start], name
            at = end
        yield self._wire[at:], None


def const_loader(tensors: Mapping[str, Any], by_symbol: Mapping[str, Iterable[str]]) -> Module:
    """Create a module of constants, for other modules to import.

    Parameters
    ----------
    tensors
        Name to host array: NumPy, DLPack, or any other buffer. Writable arrays are copied.
    by_symbol
        Init symbol to the names of the constants that it returns, in order.

    Raises
    ------
    FormatError
        A name is not a string, a value is not a host array, or an init symbol names a constant that
        does not exist.
    """
    constants = {name: as_constant(name, tensor) for name, tensor in items_of(tensors, "tensors")}
    symbols = {}
    for symbol, names in items_of(by_symbol, "by_symbol"):
        subject = f"const_loader: the init symbol {symbol!r} takes a sequence of names"
        if isinstance(names, str) or not hasattr(names, "__iter__"):
            raise FormatError(f"{subject}, not {type(names).__name__}", kind=KIND)
        symbols[symbol] = tuple(names)
        if not all(isinstance(name, str) for name in symbols[symbol]):
            raise FormatError(f"{subject}, not {list(symbols[symbol])}", kind=KIND)
    return ConstLoaderModule(constants, symbols)


def create(
    code: Mapping[str, Any], fmt: str, fmap: Mapping[str, Iterable[str]], source: object
) -> Module:
    """Create a const_loader from ``code`` and ``fmap``, the two maps of `const_loader` (R2). Core
    registers this creator.

    Raises
    ------
    FormatError
        As for `const_loader`; or a format or a source is given.
    """
    if fmt or source:
        raise FormatError(
            "const_loader has neither a format nor a source; call create('const_loader', tensors, '', by_symbol)",
            kind=KIND,
        )
    return const_loader(code, fmap)


# The layout: two msgpack objects, one after the other.
#
#   map   str (a constant's name; written in the order of the names) -> array of 3:
#           0  [code u8, bits u8, lanes u16], DLPack's data type
#           1  array of its dimensions
#           2  bin, the elements in C order, little-endian; of a part of a file an integer, its
#              position in `parts` of the module's record
#   map   str (an init symbol) -> array of names
def load_from_bytes(data: memoryview, parts: Sequence[StoredPart] = ()) -> ConstLoaderModule:
    """Load a module from the bytes of `Module.save_to_bytes`. The constants are slices of `data`.

    Parameters
    ----------
    data
        The bytes.
    parts
        The parts of the module, for its bytes in a file.

    Raises
    ------
    FormatError
        `data` is not the bytes of such a module; the message has the constant and the offset.
    """
    reader = Reader(read_only_view(data), f"the bytes of the {KIND} module", KIND)
    tensors: dict[str, ConstantTensor] = {}
    spans = []
    reader.field = "constants"
    for _ in range(reader.read_map()):
        reader.field = "constants"
        name = reader.read_key(tensors)
        reader.field = f"constant {quote_name(name)}"
        tensors[name], start = _read_constant(reader, name, parts)
        if start is not None:
            spans.append((start, reader.at, name))
    by_symbol: dict[str, list[str]] = {}
    reader.field = "init symbols"
    for _ in range(reader.read_map()):
        reader.field = "init symbols"
        symbol = reader.read_key(by_symbol)
        reader.field = f"init symbol {quote_name(symbol)}"
        by_symbol[symbol] = [reader.read_str() for _ in range(reader.read_array())]
    reader.finish()
    return ConstLoaderModule(tensors, by_symbol, wire=reader.data, spans=spans)


def _read_constant(
    reader: Reader, name: str, parts: Sequence[StoredPart]
) -> tuple[ConstantTensor, int | None]:
    """Read a constant. Also return where its elements begin, if `Module.save_to_bytes` gives them
    the same form again.
    """
    start = reader.at
    count = reader.read_array()
    if count != 3:
        raise reader.error(f"expected [type, shape, elements], found an array of {count}", start)
    dtype = _wire.read_dtype(reader)
    dimensions = reader.read_array()
    if dimensions > MAX_DIMENSIONS:
        raise reader.error(f"{dimensions} dimensions, and the maximum is {MAX_DIMENSIONS}", start)
    shape = tuple(reader.read_int(0, 2**63 - 1) for _ in range(dimensions))
    at = reader.at
    if parts and not reader.is_at_bin():
        part = parts[reader.read_int(0, len(parts) - 1)]
        subject = f"{reader.subject}: constant {quote_name(name)}"
        read = partial(_read_part, part, dtype, shape, subject)
        return ConstantTensor(dtype, shape, read, part), at
    data = reader.read_bin()
    problem = _size_problem(len(data), dtype, shape)
    if problem:
        raise reader.error(problem, at)
    constant = ConstantTensor(dtype, shape, data)
    is_shortest = reader.at - at == len(data) + _wire.binary_head_size(len(data))
    return constant, at if is_shortest else None


def _read_part(part: StoredPart, dtype: DType, shape: tuple[int, ...], subject: str) -> Binary:
    """Return the elements of a constant that is a part."""
    part.check_features()
    problem = _size_problem(part.entry.stored_size, dtype, shape)
    if problem:
        raise FormatError(f"{subject}: a part of {problem}", kind=KIND)
    return part.data()


def _size_problem(size: int, dtype: DType, shape: tuple[int, ...]) -> str:
    expected = array_bytes(dtype, shape)
    if size == expected:
        return ""
    return f"{count_text(size, 'byte')} for {dtype_name(dtype)} of shape {shape}, which takes {expected}"


def _encode(
    tensors: Mapping[str, ConstantTensor], by_symbol: Mapping[str, Iterable[str]]
) -> Iterator[tuple[Binary, str | None]]:
    """Yield the bytes of a new module, as `ConstLoaderModule._pieces`."""
    head = _wire.map_header(len(tensors))
    for name, constant in tensors.items():
        subject = f"the constant {quote_name(name)} of the {KIND} module"
        head += _wire.pack(name, subject, KIND) + _wire.array_header(3)
        head += _wire.pack(constant.dtype, subject, KIND)
        head += _wire.pack(constant.shape, subject, KIND)
        yield head, name
        head = b""
    symbols = {symbol: list(names) for symbol, names in by_symbol.items()}
    yield head + _wire.pack(symbols, f"the {KIND} module", KIND), None


# -- from arrays


def items_of(values: Mapping[str, Any], subject: str) -> list[tuple[str, Any]]:
    if not hasattr(values, "items"):
        raise FormatError(
            f"const_loader: {subject} is a map of names, not {type(values).__name__}", kind=KIND
        )
    items = list(values.items())
    for name, _ in items:
        if not isinstance(name, str):
            raise FormatError(
                f"const_loader: {subject} is a map of names; {name!r} is not a string", kind=KIND
            )
    return items


def constant_identity(name: str, tensor: Any) -> str:
    """Return what tells a constant of a model from others: its type, its shape, and the SHA-256 of
    its elements, as in ``float32[3, 4] 5f70bf…``.
    """
    return as_constant(name, tensor).identity


def as_constant(name: str, tensor: Any) -> ConstantTensor:
    """Return the constant of a host array. FormatError if it is none."""
    from devmod._arrays.array import Array
    from devmod._arrays.host_array import HostArray

    if isinstance(tensor, HostArray):  # its buffer has integers for bfloat16 and fp8
        return ConstantTensor(parse_dtype(tensor.dtype), tensor.shape, tensor.data)
    if isinstance(tensor, Array):
        tensor = tensor.numpy()
    try:
        view = memoryview(tensor)
    except (TypeError, ValueError, BufferError):
        return _through_numpy(name, tensor)
    data: Binary
    dtype = _dtype_of(name, view)
    if view.readonly and view.c_contiguous:
        data = flat(view)
    else:
        data = view.tobytes()
    return ConstantTensor(dtype, view.shape or (), data)


def _through_numpy(name: str, tensor: Any) -> ConstantTensor:
    """Return the constant of an array without a plain buffer: DLPack, and NumPy arrays of the types
    in ml_dtypes.
    """
    subject = f"const_loader: the constant {name!r}"
    if not hasattr(tensor, "__dlpack__"):
        raise FormatError(
            f"{subject} is a host array (NumPy, DLPack or another buffer), not {type(tensor).__name__}",
            kind=KIND,
        )
    try:
        import numpy as np
    except ImportError:
        raise FormatError(
            f"{subject} is a DLPack array, and reading it needs NumPy: {pip_install('numpy')}",
            kind=KIND,
        ) from None
    from devmod._arrays.elements import dtype_name_of, elements_of

    try:
        array = tensor
        if not isinstance(array, np.ndarray):
            array = np.from_dlpack(tensor)
        dtype = parse_dtype(dtype_name_of(array.dtype))
        data = elements_of(array.copy(order="C")).tobytes()
        return ConstantTensor(dtype, array.shape, data)
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise FormatError(f"{subject} cannot be read: {error}", kind=KIND) from error


def _dtype_of(name: str, view: memoryview) -> DType:
    import sys

    native = "<" if sys.byteorder == "little" else ">"
    code = view.format.lstrip("@=" + native)
    element_format = _FORMATS.get(code)
    if element_format is None:
        raise FormatError(
            f"const_loader: the constant {name!r} has elements of the format {view.format!r}, which is not supported",
            kind=KIND,
        )
    if element_format in ("int", "uint"):
        element_format += str(8 * view.itemsize)
    return parse_dtype(element_format)
