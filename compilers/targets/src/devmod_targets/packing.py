"""Libraries: the payloads in a folder or a wheel become the modules of one file, and files again.
Nothing of them is run.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, BinaryIO, NamedTuple, TypeVar

import devmod
from devmod import FunctionInfo, Origin, Param
from devmod.backend import (
    DYNAMIC_SHARED_MEMORY,
    Payload,
    find_spec,
    loads_own,
    module_of,
    open_regular,
    payload_of,
    walk,
)
from devmod.errors import DevmodError, FormatError, quote_name
from devmod_readers.nvidia import ParamPlace
from devmod_targets._paths import below
from devmod_targets.authoring import decode_source, merge_declared
from devmod_targets.cuda.signatures.declared import without_types
from devmod_targets.cuda.signatures.types import bytes_argument
from devmod_targets.interop.offload import read_kernels

T = TypeVar("T")
#: The kind and the format of a payload by its suffix.
SUFFIXES = {
    ".cubin": ("cuda", "cubin"),
    ".ptx": ("cuda", "ptx"),
    ".hsaco": ("rocm", "hsaco"),
    ".co": ("rocm", "hsaco"),
    ".spv": ("vulkan", "spv"),
    ".metallib": ("metal", "metallib"),
    ".wgsl": ("webgpu", "wgsl"),
}
#: The limits on a stranger's folder or wheel: its entries, the bytes of one file, and the
#: characters of a name.
MAX_ENTRIES = 1 << 20
MAX_BYTES = 1 << 28
MAX_NAME = 512
#: A wheel may unpack to this many times its size, and `MAX_BYTES`.
MAX_RATIO = 64
#: The bytes of the payloads that are in memory at a time.
_BATCH = 1 << 25
#: What no name of a file below a folder has, on some system: these characters, an empty part, a dot
#: at its end, and a device's name.
_ODD = re.compile(
    r"""[\\:*?"<>|] | [. ](?:/|\Z) | (?:\A|/)(?:/|\Z) | (?:\A|/)(?:con|prn|aux|nul|com\d|lpt\d)(?:[./]|\Z)""",
    re.IGNORECASE | re.VERBOSE,
)
#: The key of an interface of which the payload has the sizes alone.
OPAQUE = "opaque"

#: Returns the bytes of a file.
_Read = Callable[[str], bytes | None]


class PayloadFile(NamedTuple):
    """A payload: its name, with "/" between folders, and the function that reads it. The name may
    be that of its metadata.
    """

    name: str
    read: _Read


def payload_files(paths: Iterable[str | os.PathLike[str]]) -> list[PayloadFile]:
    """Return the payloads in folders, wheels and files, sorted by their names. Links are not
    followed, and pipes and devices not read.

    Raises
    ------
    FormatError
        A folder or a wheel has too many entries, two payloads have one name, or a name cannot be
        that of a file.
    OSError
        A path cannot be read.
    """
    files = {}
    for each in paths:
        path = os.fspath(each)
        names: Iterable[str]
        read: _Read
        if stat.S_ISDIR(os.stat(path).st_mode):
            names = _folder_names(path)
            read = partial(_read_below, path)
        else:
            names, read = _file_names(path)
        for name in names:
            if os.path.splitext(name)[1].lower() not in SUFFIXES:
                continue
            subject = f"{path!r}: the payload {quote_name(name[:MAX_NAME])}"
            if name in files:
                raise FormatError(f"{subject} is there twice")
            if not _is_plain(name):
                raise FormatError(f"{subject} is a name that no file may have")
            files[name] = PayloadFile(name, read)
    return [files[name] for name in sorted(files)]


def _is_plain(name: str) -> bool:
    """Return whether a name is that of a file below a folder, on each system."""
    return len(name) <= MAX_NAME and name.isprintable() and not _ODD.search(name)


def _folder_names(folder: str) -> Iterator[str]:
    count = 0
    places = [""]
    for place in places:  # grows
        with os.scandir(os.path.join(folder, place)) as entries:
            for each in entries:
                count += 1
                if count > MAX_ENTRIES:
                    raise FormatError(f"{folder!r} has more than {MAX_ENTRIES} entries")
                if each.is_dir(follow_symlinks=False):
                    places.append(f"{place}{each.name}/")
                elif each.is_file(follow_symlinks=False):
                    yield place + each.name


def _read_below(folder: str, name: str, *, links: bool = False) -> bytes | None:
    path = os.path.join(folder, name)
    if not os.path.exists(path) or (os.path.islink(path) and not links):
        return None
    with open_regular(path) as file:
        return _bounded(file.read(MAX_BYTES + 1), name)


class _LimitedFile:
    """A file for the module zipfile, which reads a directory whole: a call of `read` raises
    FormatError if it would return more than `most` bytes.
    """

    def __init__(self, file: BinaryIO, most: int) -> None:
        self.most = most
        self.seek = file.seek
        self.tell = file.tell
        self.seekable = file.seekable
        self._read = file.read
        weakref.finalize(self, file.close)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self.most:
            size = self.most + 1
        data = self._read(size)
        if len(data) > self.most:
            raise FormatError(f"its directory has more than {self.most} bytes")
        return data


def _file_names(path: str) -> tuple[list[str], _Read]:
    """Return the names in a wheel, or that of the file, and the function that reads them."""
    with open_regular(path) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - (1 << 16) - 22, 0))
        tail = file.read()
    if b"PK\5\6" not in tail or os.path.splitext(path)[1].lower() in SUFFIXES:
        return [os.path.basename(path)], partial(_read_below, os.path.dirname(path), links=True)
    # Of the records at the end, one that zipfile does not use may have another size.
    limited: Any = _LimitedFile(open_regular(path), MAX_ENTRIES * 64)
    archive = _read_archive(partial(zipfile.ZipFile, limited), repr(path))
    limited.most = MAX_BYTES + 1
    infos = [each for each in archive.infolist() if not each.is_dir()]
    unpacked = sum(each.file_size for each in infos)
    most = MAX_BYTES + MAX_RATIO * end
    if unpacked > most:
        raise FormatError(f"{path!r} unpacks to {unpacked} bytes; the limit for its size is {most}")

    def read(name: str) -> bytes | None:
        if name not in archive.NameToInfo:
            return None
        subject = f"{path!r}: {quote_name(name)}"
        method = archive.NameToInfo[name].compress_type
        # zipfile unpacks all that it has read by another method, whatever the size should be.
        if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(
                f"{subject} has the compression method {method}; devmod reads 0 (stored) and 8 (deflated). "
                "Unpack the file, and give the folder"
            )
        with _read_archive(partial(archive.open, name), subject) as file:
            return _bounded(_read_archive(partial(file.read, MAX_BYTES + 1), subject), name)

    return [each.filename for each in infos], read


def _read_archive(read: Callable[[], T], subject: str) -> T:
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - zlib and zipfile have their own
        raise FormatError(f"{subject} cannot be read: {error}") from None


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise FormatError(f"{quote_name(name)} has more than {MAX_BYTES} bytes")
    return data


def pack(
    files: Sequence[PayloadFile],
    output: Path,
    *,
    opaque: bool,
    compress: str | None,
    done: Callable[[int], object],
) -> int:
    """Write a library of payloads, and return how many of its functions have sizes without types.
    `done` is called with numbers of files.

    Raises
    ------
    FormatError
        There is no payload, one is damaged, or its functions are unknown; without `opaque` also if
        their types are.
    OSError
        A file cannot be read, or the output cannot be written.
    """
    if not files:
        raise FormatError(f"there is no payload with one of the suffixes {', '.join(SUFFIXES)}")
    taken: set[tuple[str, str, str]] = set()
    modules: list[devmod.Module] = []
    batch = []
    total = unknown = 0
    for number, file in enumerate(files, 1):
        data = file.read(file.name) or b""
        try:
            batch.append(_module(file, data, opaque, taken))
        except DevmodError as error:
            raise FormatError(f"{quote_name(file.name)} cannot be packed: {error}") from None
        for info in batch[-1].functions.values():
            if info.interface is not None and OPAQUE in info.interface.extra:
                unknown += 1
        total += len(data)
        done(1)
        if total >= _BATCH or number == len(files):
            # In a file, its modules are in memory no more.
            with TemporaryFile(dir=os.path.dirname(os.path.realpath(output))) as part:
                part.write(devmod.dumps(devmod.bundle(*batch, mixed=True), compress=compress))
                part.flush()
                root = loads_own(mmap.mmap(part.fileno(), 0, access=mmap.ACCESS_READ))  # type: ignore[arg-type]
            modules += root.imports if root.kind == "bundle" else [root]
            batch = []
            total = 0
    devmod.save(devmod.bundle(*modules, mixed=True), output)
    return unknown


def _module(
    file: PayloadFile, data: bytes, opaque: bool, taken: set[tuple[str, str, str]]
) -> devmod.Module:
    stem, suffix = os.path.splitext(file.name)
    kind, fmt = SUFFIXES[suffix.lower()]
    spec = find_spec(kind)
    assert spec is not None
    fmap, code = _read_payload(file, spec, fmt, data, opaque)

    variant = ""
    if spec.architecture is not None and not spec.shader_map:
        variant = spec.architecture(fmt, data)
    # A call would reach the first of two kernels with one name for one architecture.
    names = {}
    for name in fmap:
        is_taken = (kind, variant, name) in taken
        names[name] = f"{stem}:{name}" if is_taken else name
        taken.add((kind, variant, names[name]))
    if isinstance(code, Mapping):
        code = {names.get(name, name): shader for name, shader in code.items()}
    functions = {names[name]: info for name, info in fmap.items()}
    origin = Origin(kind, sources={file.name: sha256(data).hexdigest()})
    return module_of(Payload(kind, code, fmt, functions, origin=origin), runtime=False)


def _read_payload(
    file: PayloadFile, spec: devmod.TargetSpec, fmt: str, data: bytes, opaque: bool
) -> tuple[Mapping[str, FunctionInfo], Any]:
    """Return the functions of a payload, and its code as its module takes it."""
    metadata = file.read(f"{os.path.splitext(file.name)[0]}.tvm_meta.json")
    made: Any
    if metadata is not None:
        fmap = devmod.load_metadata_from_json(metadata)
    elif spec.kind == "vulkan":
        made = devmod.compile(data, spec.kind, language="SPIR-V")
        return made.functions, made.code
    elif spec.kind == "webgpu":
        text = decode_source(data, file.name, spec.kind)
        made = devmod.compile(text, spec.kind, language="WGSL")
        return made.functions, made.code
    else:
        fmap = _functions(spec, spec.kind, fmt, data, opaque)
    if not spec.shader_map:
        return fmap, data
    shader = spec.unpack(data) if spec.unpack is not None else data
    return fmap, dict.fromkeys(fmap, shader)


def _functions(
    spec: devmod.TargetSpec, kind: str, fmt: str, data: bytes, opaque: bool
) -> dict[str, FunctionInfo]:
    """Return the kernels of a binary. With `opaque`, a parameter of unknown type is bytes, or of 8
    bytes an array or a number.
    """
    functions, entries = read_kernels(kind, fmt, memoryview(data))
    if not entries:
        raise FormatError("it has no kernel")
    unknown = without_types(functions, entries)
    if unknown and not opaque:
        raise FormatError(
            f"it does not have the types of the kernel {unknown!r}. --opaque takes the sizes of its parameters alone"
        )
    known = {}
    for name, function in functions.items():
        places = entries[function.symbol].params
        if all(function.types) and (places is not None or function.types):
            known[name] = function
            continue
        if places is None:
            raise FormatError(
                f"it does not have the sizes of the parameters of the kernel {function.symbol!r}"
            )
        types = list(function.types or [""] * len(places))
        params = list(function.params or [Param("", "scalar")] * len(places))
        for index, (type_, place) in enumerate(zip(types, places, strict=True)):
            if not type_:
                types[index], params[index] = _by_size(place)
        known[name] = function.replace(
            types=types,
            params=params,
            extra={**function.extra, OPAQUE: True},
            tags=(DYNAMIC_SHARED_MEMORY,),  # a binary does not have whether it uses some
        )
    return merge_declared(spec, known, None)


def _by_size(place: ParamPlace) -> tuple[str, Param]:
    if place.size == 8:
        return "uint64", Param("", "scalar", "handle")
    return bytes_argument(place)[:2]


def unpack(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> int:
    """Write the payloads of a file as the files that they were, into a new folder: all of them, or
    none. Return how many.

    Raises
    ------
    FormatError
        A payload is damaged, no module has the name of its file, or a name cannot be that of a
        file; or the folder is not empty.
    OSError
        The file cannot be read, or the folder not be written.
    """
    root = devmod.load(path)
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise FormatError(f"{os.fspath(folder)!r} is not empty. Give the name of a new folder")
    with TemporaryDirectory(
        prefix=".", suffix=".partial", dir=folder, ignore_cleanup_errors=True
    ) as part:
        count = sum(_write_files(module, part) for module in walk(root))
        for each in os.listdir(part):
            os.rename(os.path.join(part, each), os.path.join(folder, each))
    if not count:
        raise FormatError(
            f"{os.fspath(path)!r} has no files of `devmod pack`. In Python, module.write_to_file writes any payload"
        )
    return count


def _write_files(module: devmod.Module, folder: str) -> int:
    names = {}
    origin = module.origin
    if origin is not None:
        names = {digest: name for name, digest in origin.sources.items()}
    payload = payload_of(module) if names else None
    if payload is None:
        return 0
    spec, _, _, code = payload
    codes = [*code.values()] if isinstance(code, Mapping) else [code]
    count = 0
    for code in dict.fromkeys(codes):
        if spec.pack is not None:
            try:
                code = spec.pack(code)
            except FormatError:  # a shader that is no file's content
                continue
        data = bytes(code)
        name = names.get(sha256(data).hexdigest())
        if name is None:
            continue
        place = below(folder, name)
        if not _is_plain(name) or os.path.lexists(place):
            raise FormatError(
                f"the {module.kind} module has the file {quote_name(name[:MAX_NAME])}, which cannot be written there"
            )
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "xb") as file:
            file.write(data)
        count += 1
    if hasattr(module, "release"):
        module.release()
    return count
