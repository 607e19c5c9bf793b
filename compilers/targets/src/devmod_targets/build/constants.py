"""Read the constants of a manifest: NumPy's .npy and .npz without pickles, and safetensors."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from devmod import Module, load_from_bytes
from devmod.backend import HostArray, array_bytes, dtype_name_of, open_regular, parse_dtype
from devmod.errors import (
    FormatError,
    ToolchainNotFoundError,
    did_you_mean,
    list_names,
    not_installed,
)
from devmod_targets._paths import below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devmod_targets.build.manifest import Constants, ConstantsFile

    #: The arrays of a file by name, and the function that reads one.
    _Arrays = tuple[dict[str, Any], Callable[[str], HostArray]]

#: The element types of safetensors.
_SAFETENSORS_TYPES = {
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
#: The limit on an error of safetensors, which may have a text of the file.
_MAX_TEXT = 200


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


def _read(path: str, file: ConstantsFile) -> Iterator[tuple[str, HostArray]]:
    stem, suffix = os.path.splitext(os.path.basename(path))
    if suffix.lower() == ".npy":
        yield file.name or stem, _numpy_file(path, file.path)
        return
    with ExitStack() as stack:
        names: dict[str, Any]
        if suffix.lower() == ".npz":
            names, read = _npz(path, file.path, stack)
        else:
            names = read_safetensors(path, file.path)
            read = names.__getitem__
        for name in file.names:
            if name not in names:
                raise FormatError(
                    f"{file.path} has no array {name!r}; it has {list_names(names)}{did_you_mean(name, names)}"
                )
        for name in file.names or names:
            yield name, read(name)


def _numpy_file(path: str, shown: str) -> HostArray:
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

    def read(name: str) -> HostArray:
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


def _tensor(np: Any, array: Any, shown: str) -> HostArray:
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
        return HostArray(array.tobytes(), array.shape, dtype_name_of(array.dtype))
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


def read_safetensors(path: str, shown: str) -> dict[str, HostArray]:
    """Return the arrays of a file .safetensors by name. They are in the mapped file, and are read
    when they are used.

    Raises
    ------
    FormatError
        The file is damaged, or has an element type that constants do not have.
    ToolchainNotFoundError
        The package that reads the file is not installed.
    OSError
        The file cannot be read.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        missing = not_installed(
            "the package safetensors", "devmod-targets[safetensors]", "safetensors"
        )
        raise ToolchainNotFoundError(f"{shown} cannot be read: {missing}") from error
    import mmap

    result: dict[str, HostArray] = {}
    with open_regular(path) as file:
        try:
            with safe_open(path, "numpy") as tensors:
                found = [(name, tensors.get_slice(name)) for name in tensors.offset_keys()]
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            # The library has checked that the tensors fill the file, in this order, to its end.
            for name, tensor in reversed(found):
                dtype = _SAFETENSORS_TYPES[tensor.get_dtype()]
                at = len(data) - array_bytes(parse_dtype(dtype), tensor.get_shape())
                result[name] = HostArray(data[at:], tensor.get_shape(), dtype)
                data = data[:at]
        except SafetensorError as error:
            problem = str(error)[:_MAX_TEXT]
            raise FormatError(f"{shown}: this is no file of safetensors: {problem}") from None
        except KeyError as error:
            raise FormatError(f"{shown}: no constant has the element type {error}") from None
    return result
