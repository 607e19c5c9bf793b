"""Containers of device code that other compilers wrote, loaded as variants. `devmod_readers.offload` takes them apart."""

from __future__ import annotations

from collections.abc import Mapping

import devmod
from devmod.errors import FormatError, list_names
from devmod_readers.nvidia import read_cubin, read_ptx
from devmod_readers.offload import read_images
from devmod_targets.interop._signatures import image_functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable

    from typing_extensions import Buffer

    from devmod_readers.offload import OffloadImage

__all__ = ["load"]


def load(data: Buffer | str | os.PathLike[str], fmap: Mapping[str, devmod.FunctionInfo] | Iterable[str]) -> devmod.Module:
    """Return the module of a container of device code: a bundle of variants, or the module itself if there is one image.

    Parameters
    ----------
    data
        The container, or the path of its file.
    fmap
        The functions, or the names of kernels whose types an image contains: in the mangled name of a C++ kernel, or in PTX that marks
        its pointers. An image becomes a variant with those of them that it contains. Images without any of them, and images that
        devmod does not run, are ignored.

    Raises
    ------
    FormatError
        The container is damaged, it has no image that devmod runs, no image has one of the functions, or no image contains the types of
        a kernel that is named.
    ToolchainNotFoundError
        The container is compressed with zstd, and Python has no decompressor.
    ArgumentError
        `data` is neither a buffer nor a path.
    OSError
        The file cannot be read.
    """
    images = read_images(data)
    usable = [image for image in images if image.kind]
    if isinstance(fmap, Mapping):
        symbols = {info.name for info in fmap.values()}
        names = [_function_names(image, symbols) for image in usable]
        found = [{key: info for key, info in fmap.items() if info.name in own} for own in names]
    else:
        found = image_functions([(image.kind, image.fmt, image.data) for image in usable], fmap)
    modules = []
    missing = dict.fromkeys(fmap if isinstance(fmap, Mapping) else ())
    for image, functions in zip(usable, found, strict=True):
        if functions:
            modules.append(devmod.create_with_fallback(image.kind, bytes(image.data), image.fmt, functions))
            missing = {key: None for key in missing if key not in functions}
    if not modules or missing:
        listed = list_names(f"{image.fmt or 'unknown'} {image.name}".rstrip() for image in images)
        what = f"no image has the functions {list_names(missing)}" if missing else "fmap names no function"
        raise FormatError(f"the container cannot be loaded: {what}; its images are: {listed}")
    return devmod.bundle(*modules) if len(modules) > 1 else modules[0]


def _function_names(image: OffloadImage, symbols: Collection[str]) -> Collection[str]:
    """Return those of the symbols that are functions of an image."""
    if image.fmt == "ptx":
        return read_ptx(bytes(image.data).decode("utf-8", "replace"), symbols).keys()
    if image.fmt == "cubin":
        return read_cubin(image.data, symbols).keys()
    # A kernel of an AMD code object has a descriptor, whose symbol ends in ".kd".
    data = bytes(image.data)
    return {symbol for symbol in symbols if b"\0" + symbol.encode() + b".kd\0" in data}
