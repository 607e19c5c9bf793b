"""Read the constants of a manifest: NumPy's .npy and .npz without pickles, and safetensors."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod import Module, load_from_bytes
from devmod.backend import array_bytes, dtype_name_of, open_regular, parse_dtype
from devmod.errors import FormatError, did_you_mean, list_names, not_installed
from devmod_targets._paths import below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devmod.backend import Binary
    from devmod_targets.build.manifest import Constants, ConstantsFile

    #: The arrays of a file by name, and the function that reads one.
    _Arrays = tuple[dict[str, Any], Callable[[str], "_Tensor"]]

#: The element types of safetensors.
SAFETENSORS_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
#: The largest header. The format's own limit.
_MAX_HEADER = 100_000_000
#: The limit on a value of a file in a message.
_MAX_TEXT = 200


class _Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    data: Binary


def load_constants(folder: str, constants: Constants) -> Module:
    """Return the const_loader of a manifest's constants.

    The bytes depend on the names and the arrays alone: not on the order of the files.

    Parameters
    ----------
    folder
        The manifest's folder.
    constants
        The constants of the manifest.

    Raises
    ------
    FormatError
        A file is invalid, an array has a type that constants cannot have, two have one name, or a
        named one is missing.
    OSError
        A file cannot be read.
    """
    tensors = {}
    owners: dict[str, str] = {}
    for file in constants.files:
        for name, tensor in _read(below(folder, file.path), file):
            if name in owners:
                hint = "; rename one: { path = …, name = … }" if file.path.endswith(".npy") else ""
                raise FormatError(
                    f"the constant {name!r} is in {owners[name]} and in {file.path}{hint}"
                )
            owners[name] = file.path
            tensors[name] = tensor
    symbols = {name: list(names) for name, names in constants.functions}
    for function, names in symbols.items():
        for name in names:
            if name not in tensors:
                known = list_names(tensors)
                raise FormatError(
                    f"constants.functions.{function} has {name!r}; the constants are {known}{did_you_mean(name, tensors)}"
                )
    import msgpack  # type: ignore[import-untyped]

    entries = {
        name: [list(parse_dtype(each.dtype)), list(each.shape), each.data]
        for name, each in sorted(tensors.items())
    }
    return load_from_bytes("const_loader", msgpack.packb(entries) + msgpack.packb(symbols))


def _read(path: str, file: ConstantsFile) -> Iterator[tuple[str, _Tensor]]:
    stem, suffix = os.path.splitext(os.path.basename(path))
    if suffix.lower() == ".npy":
        yield file.name or stem, _numpy_file(path, file.path)
        return
    with ExitStack() as stack:
        names: dict[str, Any]
        if suffix.lower() == ".npz":
            names, read = _npz(path, file.path, stack)
        else:
            names, read = _safetensors(path, file.path, stack)
        for name in file.names:
            if name not in names:
                raise FormatError(
                    f"{file.path} has no array {name!r}; it has {list_names(names)}{did_you_mean(name, names)}"
                )
        for name in file.names or names:
            yield name, read(name)


def _numpy_file(path: str, shown: str) -> _Tensor:
    np = _numpy(shown)
    with open_regular(path) as file, _readable(shown):
        array = np.lib.format.read_array(file, allow_pickle=False)
    return _tensor(np, array, shown)


def _npz(path: str, shown: str, stack: ExitStack) -> _Arrays:
    np = _numpy(shown)
    with _readable(shown):
        archive = np.load(stack.enter_context(open_regular(path)), allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise FormatError(f"{shown} is one array, not an archive; its suffix would be .npy")
    stack.enter_context(archive)  # a second `load` would read the directory of the archive again

    def read(name: str) -> _Tensor:
        subject = f"{name!r} of {shown}"
        with _readable(subject):
            array = archive[name]
        if not isinstance(array, np.ndarray):
            raise FormatError(f"{shown} has {name!r}, which is not an array")
        return _tensor(np, array, subject)

    return dict.fromkeys(archive.files), read


@contextmanager
def _readable(subject: str) -> Iterator[None]:
    """Raise FormatError for the exceptions of NumPy and zipfile about invalid bytes."""
    from zipfile import BadZipFile
    from zlib import error as DeflateError

    invalid = (
        ValueError,
        EOFError,
        MemoryError,
        OverflowError,
        SyntaxError,
        TypeError,
        KeyError,
        NotImplementedError,
        RuntimeError,
    )
    try:
        yield
    except (*invalid, BadZipFile, DeflateError) as error:
        raise FormatError(f"{subject} cannot be read: {error}") from None


def _tensor(np: Any, array: Any, shown: str) -> _Tensor:
    if array.dtype.hasobject or array.dtype.fields is not None:
        raise FormatError(
            f"{shown} has elements of the type {array.dtype}; a constant has numbers or booleans"
        )
    array = (
        np.ascontiguousarray(array)
        .reshape(array.shape)
        .astype(array.dtype.newbyteorder("<"), copy=False)
    )
    try:
        return _Tensor(dtype_name_of(array.dtype), array.shape, array.tobytes())
    except (TypeError, ValueError) as error:
        raise FormatError(f"{shown} has elements of the type {array.dtype}: {error}") from None


def _numpy(shown: str) -> Any:
    try:
        import numpy as np
    except ImportError:
        raise FormatError(
            f"{shown} cannot be read: {not_installed('NumPy', 'numpy', 'numpy')}"
        ) from None
    return np


# A safetensors file: the header's length (u64, little-endian), the header in JSON, the data.
#
#   header   name -> {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]},
#            and "__metadata__" with strings
def _safetensors(path: str, shown: str, stack: ExitStack) -> _Arrays:
    file = stack.enter_context(open_regular(path))
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(_MAX_HEADER, size - 8):
        raise FormatError(
            f"{shown} is not a safetensors file: its header of {length} bytes exceeds the file of {size} bytes"
        )
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{shown} is not a safetensors file: its header is not JSON: {error}"
        ) from None
    if not isinstance(header, dict):
        raise FormatError(f"{shown} is not a safetensors file: its header is not a map of tensors")
    header.pop("__metadata__", None)
    start = 8 + length
    total = 0

    def read(name: str) -> _Tensor:
        nonlocal total
        dtype, shape, begin, end = _safetensors_entry(
            header[name], f"{name!r} of {shown}", size - start
        )
        total += end - begin
        if total > size - start:  # which would multiply the file
            raise FormatError(
                f"{shown} is not a safetensors file: the bytes of its tensors overlap"
            )
        file.seek(start + begin)
        data = file.read(end - begin)
        if len(data) != end - begin:
            raise FormatError(f"{name!r} of {shown} cannot be read: the file became shorter")
        return _Tensor(dtype, shape, data)

    return header, read


def _safetensors_entry(
    entry: Any, subject: str, size: int
) -> tuple[str, tuple[int, ...], int, int]:
    """Return the type, the shape and the place of a tensor, checked against the size of the
    data.
    """
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    code: Any = fields.get("dtype")
    shape: Any = fields.get("shape")
    offsets: Any = fields.get("data_offsets")
    dtype = None
    if isinstance(code, str):
        dtype = SAFETENSORS_TYPES.get(code)
    if dtype is None:
        raise FormatError(
            f"{subject} has elements of the type {_short(code)}; expected one of {', '.join(SAFETENSORS_TYPES)}"
        )
    if not _are_counts(shape) or len(shape) > 64:
        raise FormatError(
            f"{subject} has an invalid shape: expected up to 64 integers of 0 or more, got {_short(shape)}"
        )
    if not _are_counts(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size:
        raise FormatError(
            f"{subject} has invalid offsets: expected two within {size} bytes, got {_short(offsets)}"
        )
    begin, end = offsets
    expected = array_bytes(parse_dtype(dtype), tuple(shape))
    if end - begin != expected:
        raise FormatError(
            f"{subject} has {end - begin} bytes; expected {expected} for {dtype} of the shape {shape}"
        )
    return dtype, tuple(shape), begin, end


def _are_counts(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return all(type(each) is int and 0 <= each < 2**63 for each in value)


def _short(value: Any) -> str:
    text = repr(value)
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}…"
