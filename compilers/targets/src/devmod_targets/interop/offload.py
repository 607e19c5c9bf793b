"""Containers of device code that other compilers wrote, loaded as variants.
`devmod_readers.offload` takes them apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import devmod
from devmod.backend import check_raw, check_raw_file, create_own, file_name, find_spec
from devmod.errors import ArgumentError, FormatError, list_names
from devmod_readers.amdgpu import find_kernels, read_code_object
from devmod_readers.metallib import read_metallib
from devmod_readers.nvidia import KernelEntry, ParamPlace, index_cubin, read_cubin, read_ptx
from devmod_readers.offload import OffloadImage
from devmod_readers.offload import read_images as read_images
from devmod_targets.authoring import CompileRequest, merge_declared
from devmod_targets.authoring._types import Functions, Reflected
from devmod_targets.cuda.signatures.declared import (
    declaration_error,
    declared_kernels,
    with_entry,
    without_types,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from typing_extensions import Buffer

    from devmod import FunctionInfo
    from devmod_readers.reflection import ReflectedFunction

    #: A function of an image, and the entries of the image's kernels by symbol.
    _Chosen = tuple[ReflectedFunction, Mapping[str, KernelEntry]]


__all__ = ["load"]


def load(
    data: Buffer | str | os.PathLike[str], fmap: Mapping[str, devmod.FunctionInfo] | Iterable[str]
) -> devmod.Module:
    """Return the module of a container of device code: a bundle of variants, or the module itself
    if there is one image.

    Parameters
    ----------
    data
        The container, or the path of its file.
    fmap
        The functions, or the names of kernels whose types an image contains: in the mangled name of
        a C++ kernel, or in PTX that marks its pointers. An image becomes a variant with those of
        them that it contains. Images without any of them, and images that devmod does not run, are
        ignored.

    Raises
    ------
    FormatError
        The container is damaged, it has no image that devmod runs, no image has one of the
        functions, or no image contains the types of a kernel that is named.
    ToolchainNotFoundError
        The container is compressed with zstd, and Python has no decompressor.
    ArgumentError
        `data` is neither a buffer nor a path.
    TrustError
        A policy refuses payloads without an index.
    OSError
        The file cannot be read.
    """
    if isinstance(data, (str, os.PathLike)):
        check_raw_file(file_name(data))
    else:
        check_raw("offload.load(data, fmap)")
    images = read_images(data)
    usable = [image for image in images if image.kind]
    missing: dict[str, None] = {}
    if isinstance(fmap, Mapping):
        missing = dict.fromkeys(fmap)
        found = [_declared_functions(image, fmap) for image in usable]
    else:
        found = image_functions([(image.kind, image.fmt, image.data) for image in usable], fmap)
    modules = []
    for image, functions in zip(usable, found, strict=True):
        if functions:
            modules.append(create_own(image.kind, bytes(image.data), image.fmt, functions))
            for key in functions:
                missing.pop(key, None)
    if not modules or missing:
        listed = list_names(f"{image.fmt or 'unknown'} {image.name}".rstrip() for image in images)
        what = "fmap names no function"
        if missing:
            what = f"no image has the functions {list_names(missing)}"
        raise FormatError(f"the container cannot be loaded: {what}; its images are: {listed}")
    if len(modules) == 1:
        return modules[0]
    return devmod.bundle(*modules)


def _declared_functions(image: OffloadImage, fmap: Mapping[str, FunctionInfo]) -> Functions:
    """Return those of the functions that an image has."""
    own = _function_names(image, {info.name for info in fmap.values()})
    return {key: info for key, info in fmap.items() if info.name in own}


def _function_names(image: OffloadImage, symbols: Collection[str]) -> Collection[str]:
    """Return the functions of an image, at least those of the symbols that it has."""
    if image.fmt == "ptx":
        return read_ptx(bytes(image.data).decode("utf-8", "replace"))
    if image.fmt == "cubin":
        return index_cubin(image.data)
    return find_kernels(image.data, symbols)


# -- The signatures of kernels that the images of a container have.


def image_functions(
    images: Sequence[tuple[str, str, memoryview]], names: Iterable[str]
) -> list[Functions]:
    """Return for each image those of the named functions that it contains.

    The types are those of the first image that has them, the block and the limits of a launch those
    of the image itself.

    Parameters
    ----------
    images
        The kind, the format and the bytes of each image.
    names
        The symbols of kernels, or their qualified C++ names.

    Raises
    ------
    ArgumentError
        `names` is not a sequence of names.
    FormatError
        No image has a kernel of a name, none contains its types, or the images have arguments of
        different sizes.
    """
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise ArgumentError(
            f"offload.load(data, fmap): fmap is a map of name to FunctionInfo, or names of kernels such as ['add'], not {names!r}",
            argument="fmap",
        )
    kernels = [read_kernels(kind, fmt, data) for kind, fmt, data in images]
    results: list[Functions] = [{} for _ in images]
    for name in names:
        chosen = {}
        for number, (functions, entries) in enumerate(kernels):
            function = _select(functions, name)
            if function is not None:
                chosen[number] = (function, entries)
        if not chosen:
            known: dict[str, None] = {}
            for functions, _ in kernels:
                known |= dict.fromkeys(functions)
            raise FormatError(
                f"the container cannot be loaded: no image has the kernel {name!r}; its kernels: {list_names(known)}"
            )
        typed = _typed_function(name, chosen.values())
        _check_sizes(name, chosen.values())
        # A cubin does not contain the tag, and the PTX beside it does.
        tags = max((function.tags for function, _ in chosen.values()), key=len)
        for number, (_, entries) in chosen.items():
            own = with_entry(typed, entries[typed.symbol]).replace(tags=tags)
            spec = find_spec(images[number][0])
            assert spec is not None
            results[number] |= merge_declared(spec, {name: own}, None)
    return results


def _select(functions: Reflected, name: str) -> ReflectedFunction | None:
    """Return the function of a name or a symbol; None if there is none."""
    for key, function in functions.items():
        if name in (key, function.symbol):
            return function
    return None


def _typed_function(name: str, chosen: Collection[_Chosen]) -> ReflectedFunction:
    """Return the first function whose image has its types. Raise FormatError if none has."""
    for function, entries in chosen:
        if not without_types({name: function}, entries):
            return function
    function, entries = next(iter(chosen))
    symbol = without_types({name: function}, entries)
    text = declaration_error("the container", symbol, {name: function}, entries)
    raise FormatError(text, function=name)


def _check_sizes(name: str, chosen: Collection[_Chosen]) -> None:
    """Raise FormatError for images with arguments of different sizes."""
    sizes = set()
    for function, entries in chosen:
        sizes.add(tuple(place.size for place in entries[function.symbol].params or ()))
    if len(sizes) > 1:
        listed = " and ".join(str(list(each)) for each in sorted(sizes))
        raise FormatError(
            f"the container cannot be loaded: its images have arguments of different sizes for the kernel {name!r}: {listed} bytes. "
            "Load each image with devmod.interop.offload.read_images(data)",
            function=name,
        )


def read_kernels(
    kind: str, fmt: str, data: memoryview
) -> tuple[dict[str, ReflectedFunction], Mapping[str, KernelEntry]]:
    """Return the kernels of an image by name and by symbol."""
    entries = {}
    if kind == "metal":
        functions = read_metallib(bytes(data))
        for name, function in functions.items():
            entries[name] = KernelEntry(name, () if all(function.types) else None)
        return functions, entries
    if kind == "cuda" and fmt == "ptx":
        entries = read_ptx(bytes(data).decode("utf-8", "replace"))
    elif kind == "cuda":
        entries = read_cubin(data)
    else:
        for name, kernel in read_code_object(data).items():
            places = []
            for each in kernel.visible_arguments:
                is_pointer = each.kind == "global_buffer"
                places.append(ParamPlace(each.offset, each.size, is_pointer=is_pointer))
            entries[name] = KernelEntry(name, tuple(places), kernel.block)
    return declared_kernels(CompileRequest("", None), entries.values()), entries
