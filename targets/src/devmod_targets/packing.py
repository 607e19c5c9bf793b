"""Libraries: the payloads in a folder or a wheel become the modules of one file, and files again. Nothing of them is run."""

from __future__ import annotations

import mmap
import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import devmod
from devmod import FunctionInfo, Origin, Param
from devmod.backend import DYNAMIC_SHARED_MEMORY, FallbackModule, find_spec, loads_own, open_regular, payload_of, replacing, walk
from devmod.errors import DevmodError, FormatError, quote_name
from devmod_readers.nvidia import ParamPlace
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring import merge_declared
from devmod_targets.cuda.signatures.declared import without_types
from devmod_targets.cuda.signatures.types import bytes_argument
from devmod_targets.interop.offload import read_kernels

#: The kind and the format of a payload by its suffix.
SUFFIXES = {
    ".cubin": ("cuda", "cubin"), ".ptx": ("cuda", "ptx"), ".hsaco": ("rocm", "hsaco"), ".co": ("rocm", "hsaco"), ".spv": ("vulkan", "spv"),
    ".metallib": ("metal", "metallib"), ".wgsl": ("webgpu", "wgsl"),
}  # fmt: skip
#: The limits on a stranger's folder or wheel: its entries, the bytes of one file, and the characters of a name.
MAX_ENTRIES, MAX_BYTES, MAX_NAME = 1 << 20, 1 << 28, 512
#: The bytes of the payloads that are in memory at a time.
_BATCH = 1 << 25
#: The characters that no name of a file has on some system.
_OTHERS = set('\\:*?"<>|')
#: The key of an interface of which the payload has the sizes alone.
OPAQUE = "opaque"


class PayloadFile(NamedTuple):
    """A payload: its name, with "/" between folders, and the function that reads it. The name may be that of its metadata."""

    name: str
    read: Callable[[str], bytes | None]


def payload_files(paths: Iterable[str | os.PathLike[str]]) -> list[PayloadFile]:
    """Return the payloads in folders, wheels and files, sorted by their names. Links are not followed, and pipes and devices not read.

    Raises
    ------
    FormatError
        A folder or a wheel has too many entries, two payloads have one name, or a name cannot be that of a file.
    OSError
        A path cannot be read.
    """
    files: dict[str, PayloadFile] = {}
    for each in paths:
        path = os.fspath(each)
        names: Iterable[str]
        read: Callable[[str], bytes | None]
        if stat.S_ISDIR(os.stat(path).st_mode):
            names, read = _folder_names(path), partial(_read_below, path)
        elif zipfile.is_zipfile(path):
            names, read = _archive(path)
        else:
            names, read = [os.path.basename(path)], partial(_read_below, os.path.dirname(path))
        for name in names:
            if os.path.splitext(name)[1].lower() in SUFFIXES:
                if name in files or not _is_plain(name):
                    problem = "is there twice" if name in files else "is a name that no file may have"
                    raise FormatError(f"{path!r}: the payload {quote_name(name[:MAX_NAME])} {problem}")
                files[name] = PayloadFile(name, read)
    return [files[name] for name in sorted(files)]


def _is_plain(name: str) -> bool:
    """Return whether a name is that of a file below a folder, on each system."""
    parts = name.split("/")
    return len(name) <= MAX_NAME and name.isprintable() and not any(each in ("", ".", "..") or set(each) & _OTHERS for each in parts)


def _folder_names(folder: str) -> Iterator[str]:
    count = 0
    for place, folders, files in os.walk(folder):
        folders.sort()
        count += len(folders) + len(files)
        if count > MAX_ENTRIES:
            raise FormatError(f"{folder!r} has more than {MAX_ENTRIES} entries")
        for each in files:
            path = os.path.join(place, each)
            if stat.S_ISREG(os.lstat(path).st_mode):
                yield os.path.relpath(path, folder).replace(os.sep, "/")


def _read_below(folder: str, name: str) -> bytes | None:
    try:
        with open_regular(os.path.join(folder, name)) as file:
            return _bounded(file.read(MAX_BYTES + 1), name)
    except FileNotFoundError:
        return None


def _archive(path: str) -> tuple[list[str], Callable[[str], bytes | None]]:
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - (1 << 16) - 98, 0))
        tail = file.read()
    # The module zipfile reads the whole directory: its size is in the record at the end, or in that of large archives.
    at, large = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    size = int.from_bytes(tail[at + 12 : at + 16], "little") if large < 0 else int.from_bytes(tail[large + 40 : large + 48], "little")
    if size > MAX_ENTRIES * 64:
        raise FormatError(f"{path!r} has a directory of {size} bytes; the limit is {MAX_ENTRIES * 64}")
    archive = zipfile.ZipFile(path)
    infos = {each.filename: each for each in archive.infolist() if not each.is_dir()}

    def read(name: str) -> bytes | None:
        if name not in infos:
            return None
        try:
            with archive.open(infos[name]) as file:
                data = file.read(MAX_BYTES + 1)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
            raise FormatError(f"{path!r}: {quote_name(name)} cannot be read: {error}") from None
        return _bounded(data, name)

    return list(infos), read


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise FormatError(f"{quote_name(name)} has more than {MAX_BYTES} bytes")
    return data


def pack(files: Sequence[PayloadFile], output: Path, *, opaque: bool, compress: str | None, done: Callable[[int], object]) -> int:
    """Write a library of payloads, and return how many of its functions have sizes without types. `done` is called with numbers of files.

    Raises
    ------
    FormatError
        There is no payload, one is damaged, or its functions are unknown; without `opaque` also if their types are.
    OSError
        A file cannot be read, or the output cannot be written.
    """
    if not files:
        raise FormatError(f"there is no payload with one of the suffixes {', '.join(SUFFIXES)}")
    taken: set[tuple[str, str, str]] = set()
    modules: list[devmod.Module] = []
    batch: list[devmod.Module] = []
    total = unknown = 0
    for number, file in enumerate(files, 1):
        data = file.read(file.name) or b""
        try:
            batch.append(_module(file, data, opaque, taken))
        except DevmodError as error:
            raise FormatError(f"{quote_name(file.name)} cannot be packed: {error}") from None
        unknown += sum(info.interface is not None and OPAQUE in info.interface.extra for info in batch[-1].functions.values())
        total += len(data)
        done(1)
        if total >= _BATCH or number == len(files):
            with TemporaryFile(dir=os.path.dirname(os.path.realpath(output))) as part:  # its modules are in memory no more
                part.write(devmod.dumps(devmod.bundle(*batch, mixed=True), compress=compress))
                part.flush()
                root = loads_own(mmap.mmap(part.fileno(), 0, access=mmap.ACCESS_READ))  # type: ignore[arg-type]
            modules += root.imports if root.kind == "bundle" else [root]
            batch, total = [], 0
    devmod.save(devmod.bundle(*modules, mixed=True), output)
    return unknown


def _module(file: PayloadFile, data: bytes, opaque: bool, taken: set[tuple[str, str, str]]) -> devmod.Module:
    stem, suffix = os.path.splitext(file.name)
    kind, fmt = SUFFIXES[suffix.lower()]
    spec = find_spec(kind)
    assert spec is not None
    code: Any = data
    metadata = file.read(f"{stem}.tvm_meta.json")
    if metadata is not None:
        fmap = devmod.load_metadata_from_json(metadata)
    elif kind in ("vulkan", "webgpu"):
        made: Any = devmod.compile(data if kind == "vulkan" else data.decode(), kind, language="SPIR-V" if kind == "vulkan" else "WGSL")
        fmap, code = made.functions, made.code
    else:
        fmap = _functions(spec, kind, fmt, data, opaque)
    if spec.shader_map and code is data:
        code = dict.fromkeys(fmap, data)
    variant = spec.architecture(fmt, data) if spec.architecture is not None and not spec.shader_map else ""
    names = {}
    for name in fmap:  # a call would reach the first of two kernels with one name for one architecture
        names[name] = name if (kind, variant, name) not in taken else f"{stem}:{name}"
        taken.add((kind, variant, names[name]))
    if isinstance(code, Mapping):
        code = {names.get(name, name): shader for name, shader in code.items()}
    module = FallbackModule(spec, fmt, {names[name]: info for name, info in fmap.items()}, code)
    module.__dict__["_devmod_origin"] = Origin(kind, sources={file.name: sha256(data).hexdigest()})
    return module


def _functions(spec: devmod.TargetSpec, kind: str, fmt: str, data: bytes, opaque: bool) -> dict[str, FunctionInfo]:
    """Return the kernels of a binary. With `opaque`, a parameter of unknown type is bytes, or of 8 bytes an array or a number."""
    functions, entries = read_kernels(kind, fmt, memoryview(data))
    if not entries:
        raise FormatError("it has no kernel")
    unknown = without_types(functions, entries)
    if unknown and not opaque:
        raise FormatError(f"it does not have the types of the kernel {unknown!r}. --opaque takes the sizes of its parameters alone")
    known: dict[str, ReflectedFunction] = {}
    for name, function in functions.items():
        places = entries[function.symbol].params
        if all(function.types) and (places is not None or function.types):
            known[name] = function
            continue
        if places is None:
            raise FormatError(f"it does not have the sizes of the parameters of the kernel {function.symbol!r}")
        own = zip(function.types or [""] * len(places), function.params or [Param("", "scalar")] * len(places), places, strict=True)
        arguments = [(type_, param) if type_ else _by_size(place) for type_, param, place in own]
        known[name] = function.replace(
            types=[type_ for type_, _ in arguments],
            params=[param for _, param in arguments],
            extra={**function.extra, OPAQUE: True},
            tags=(DYNAMIC_SHARED_MEMORY,),  # a binary does not have whether it uses some
        )
    return merge_declared(spec, known, None)


def _by_size(place: ParamPlace) -> tuple[str, Param]:
    if place.size == 8:
        return "uint64", Param("", "scalar", "handle")
    argument = bytes_argument(place)
    return argument.type, argument.param


def unpack(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> int:
    """Write the payloads of a file as the files that they were, into a new folder. Return how many.

    Raises
    ------
    FormatError
        A payload is damaged, no module has the name of its file, or a name cannot be that of a file; or the folder is not empty.
    OSError
        The file cannot be read, or the folder not be written.
    """
    target = os.path.abspath(folder)
    os.makedirs(target, exist_ok=True)
    if os.listdir(target):
        raise FormatError(f"{os.fspath(folder)!r} is not empty. Give the name of a new folder")
    count = 0
    for module in walk(devmod.load(path)):
        if module.origin is None or not module.origin.sources:
            continue
        found = payload_of(module)
        codes = [] if found is None else list(dict.fromkeys(found[3].values())) if isinstance(found[3], Mapping) else [found[3]]
        for code in codes:
            data = bytes(code)[12:] if module.kind == "vulkan" else bytes(code)
            digest = sha256(data).hexdigest()
            name = next((name for name, each in module.origin.sources.items() if each == digest), "")
            place = os.path.join(target, *name.split("/"))
            if not name:
                continue
            if not _is_plain(name) or os.path.lexists(place):
                raise FormatError(f"the {module.kind} module has the file {quote_name(name[:MAX_NAME])}, which cannot be written there")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with replacing(place, within=target) as file:
                file.write(data)
            count += 1
        if hasattr(module, "release"):
            module.release()
    if not count:
        raise FormatError(f"{os.fspath(path)!r} has no module with the name of its file, as `devmod pack` writes it")
    return count
