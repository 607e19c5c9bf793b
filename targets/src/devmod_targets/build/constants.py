"""Read the constants of a manifest: NumPy's .npy and .npz without pickles, and safetensors."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod import Module, load_from_bytes
from devmod.backend import dtype_name_of, open_regular, parse_dtype
from devmod.errors import FormatError, did_you_mean, list_names, not_installed
from devmod_targets.safetensors import SafetensorsFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devmod.backend import Binary
    from devmod_targets.build.manifest import Constants, ConstantsFile


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
    tensors: dict[str, _Tensor] = {}
    owners: dict[str, str] = {}
    for file in constants.files:
        for name, tensor in _read(os.path.join(folder, *file.path.split("/")), file):
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


def _npz(
    path: str, shown: str, stack: ExitStack
) -> tuple[dict[str, Any], Callable[[str], _Tensor]]:
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


def _safetensors(
    path: str, shown: str, stack: ExitStack
) -> tuple[dict[str, Any], Callable[[str], _Tensor]]:
    file = stack.enter_context(open_regular(path))
    tensors = SafetensorsFile(file, shown)

    def read(name: str) -> _Tensor:
        place = tensors.place(name)
        file.seek(place.begin)
        data = file.read(place.end - place.begin)
        if len(data) != place.end - place.begin:
            raise FormatError(f"{name!r} of {shown} cannot be read: the file became shorter")
        return _Tensor(place.dtype, place.shape, data)

    return tensors.header, read
