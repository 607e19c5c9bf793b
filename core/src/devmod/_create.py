"""Making a module and loading one kind's: the one place that decides between the real module and the fallback."""

from __future__ import annotations

import os
import sys

from devmod import _registry
from devmod._module import Module
from devmod.errors import ArgumentError, FormatError, NotRegisteredError, said
from devmod.targets import find_spec, format_of_suffix, spec_of_loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from typing_extensions import Buffer

    from devmod._info import FunctionInfo
    from devmod._payload import Code, Source
    from devmod.targets import TargetSpec

CREATE = "devmod.create"
LOAD_FROM_BYTES = "devmod.load_from_bytes"
LOAD_FROM_FILE = "devmod.load_from_file"


def create(kind: str, code: Code, fmt: str, fmap: Mapping[str, FunctionInfo], source: Source | None = None) -> Module:
    """Make the real module of a payload. No driver is opened: that waits for the first get_function.

    Parameters
    ----------
    kind
        The backend's kind, such as "cuda".
    code
        The payload: bytes, or for the multi-shader kinds (metal, vulkan, webgpu) a map of entry name to bytes.
    fmt
        The payload's format, such as "ptx".
    fmap
        The functions by the names that callers use.
    source
        Source and listings by format, for inspection; never saved.

    Raises
    ------
    NotRegisteredError
        The kind's runtime is not installed; the message has the command that adds it.
    PluginError, ConflictError
        It is installed and broken, or two distributions bring it.
    FormatError
        The payload is not of the kind's form.

    Notes
    -----
    Follows TVM's ``ffi.Module.create.<kind>`` (PR 19449).
    """
    maker = _registry.lookup(CREATE, kind)
    return _make(maker, find_spec(kind), kind, code, fmt, fmap, source)


def create_with_fallback(kind: str, code: Code, fmt: str, fmap: Mapping[str, FunctionInfo], source: Source | None = None) -> Module:
    """Make the real module where the kind's runtime is installed, and the fallback where it is not.

    The fallback has the same kind and saves the same bytes; it cannot run. It is made also when the environment variable
    DEVMOD_COMPILE_FORCE_FALLBACK is neither empty nor "0". The parameters are those of `create`.

    Raises
    ------
    NotRegisteredError
        The runtime is not installed, and no target spec knows the kind, so there can be no fallback.
    PluginError, ConflictError
        The runtime is installed and broken: that is never hidden behind a fallback.
    FormatError
        The payload is not of the kind's form.
    """
    forced = os.environ.get("DEVMOD_COMPILE_FORCE_FALLBACK", "") not in ("", "0")
    spec = find_spec(kind)
    if spec is None or not forced:
        try:
            maker = _registry.lookup(CREATE, kind)
        except NotRegisteredError:
            if spec is None:
                raise
        else:
            return _make(maker, spec, kind, code, fmt, fmap, source)
    from devmod._fallback import FallbackModule

    assert spec is not None
    made = FallbackModule(spec, fmt, fmap, code, source)
    made.forced = forced
    return made


def load_from_bytes(kind: str, data: Buffer) -> Module:
    """Make the real module from bytes that `Module.save_to_bytes` gave.

    Parameters
    ----------
    kind
        The kind, or an alias of one ("hsaco", "hip").
    data
        Any object with the buffer protocol. It is handed on as a flat, read-only memoryview, without a copy but of a strided one.

    Raises
    ------
    NotRegisteredError
        The kind's runtime is not installed: a fallback is never loaded.
    ArgumentError
        `data` has no buffer.
    Exception
        What the loader raises comes through unchanged.
    """
    loader = _registry.lookup(LOAD_FROM_BYTES, kind)
    try:
        view = memoryview(data).toreadonly()
    except TypeError:
        raise ArgumentError(
            f"load_from_bytes({kind!r}, data): data is bytes or another buffer, not {type(data).__name__}", kind=kind, argument="data"
        ) from None
    if not view.c_contiguous:
        view = memoryview(view.tobytes())
    elif view.format != "B" or view.ndim != 1:
        view = view.cast("B") if view.nbytes else memoryview(b"")
    spec = spec_of_loader(kind)
    return _checked(_registry.called(LOAD_FROM_BYTES, kind, loader, view), LOAD_FROM_BYTES, kind, spec.kind if spec else "")


def load_from_file(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Make the real module from a raw payload and the metadata file beside it; of a ``.devmod`` file, load its tree.

    Parameters
    ----------
    path
        The payload's file.
    fmt
        The payload's format; "" goes by the file's suffix.

    Raises
    ------
    NotRegisteredError
        The runtime for that format is not installed.
    FormatError
        There is neither a format nor a suffix that names one, or the file or its metadata is not of the form.
    OSError
        The file cannot be read: FileNotFoundError, PermissionError, IsADirectoryError.
    """
    name = os.fspath(path)
    if not isinstance(name, str):
        name = os.fsdecode(name)
    if not fmt:
        suffix = os.path.splitext(name)[1][1:].lower()
        if not suffix:
            raise FormatError(f"{name!r} has no suffix that names its format; give one: load_from_file(path, 'ptx')")
        fmt = format_of_suffix(suffix)
    loader = _registry.lookup(LOAD_FROM_FILE, fmt)
    return _checked(_registry.called(LOAD_FROM_FILE, fmt, loader, name, fmt), LOAD_FROM_FILE, fmt, "")


#: ELF machine numbers to the names in ``so_<machine>``; a number that is not here stands for itself.
_MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 164: "hexagon", 183: "aarch64", 190: "cuda", 224: "amdgpu", 243: "riscv", 247: "bpf"}


def load_shared_object(path: str, fmt: str) -> Module:
    """Load a ``.so`` through the loader of its ELF machine, ``devmod.load_from_file.so_<machine>``."""
    with open(path, "rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF" or head[5] not in (1, 2):
        raise FormatError(f"{path!r} is not a shared object: it does not begin with an ELF header")
    machine = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    name = f"so_{_MACHINES.get(machine, machine)}"
    loader = _registry.lookup(LOAD_FROM_FILE, name)
    return _checked(_registry.called(LOAD_FROM_FILE, name, loader, path, fmt), LOAD_FROM_FILE, name, "")


def _make(
    maker: Any, spec: TargetSpec | None, kind: str, code: Code, fmt: str, fmap: Mapping[str, FunctionInfo], source: Source | None
) -> Module:
    from devmod._payload import check_fmap, check_payload

    if spec is not None:
        fmt, fmap, code, source = check_payload(spec, fmt, fmap, code, source)
    else:
        fmap, source = check_fmap(kind, fmap), dict(source or {})
    return _checked(_registry.called(CREATE, kind, maker, code, fmt, fmap, source), CREATE, kind, kind)


def _checked(made: object, group: str, name: str, kind: str) -> Module:
    """`made` when it is a real Module of that kind ("" for any); else the PluginError that names who made it."""
    fallback = sys.modules.get("devmod._fallback")  # not there: nobody has made one
    cause: Exception | None = None
    if not isinstance(made, Module):
        wrong = f"returned {type(made).__name__}, not a devmod.Module"
    elif fallback is not None and isinstance(made, fallback.FallbackModule):
        wrong = "returned a fallback; a fallback exists at build time only"
    elif not kind:
        return made
    else:
        try:
            if made.kind == kind:
                return made
            wrong = f"returned a module of kind {made.kind!r}, not {kind!r}"
        except Exception as error:  # noqa: BLE001 - a plugin's own property, which may raise anything
            wrong = f"returned a module that cannot tell its kind ({said(error)})"
            cause = error
    from devmod._refusals import answered_wrong

    raise answered_wrong(group, name, wrong, kind or name) from cause
