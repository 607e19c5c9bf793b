"""Creating and loading a module of one kind. Only this file decides between the runtime's module
and the fallback.
"""

from __future__ import annotations

import os
import sys

from devmod._formats.trust import check_raw, check_raw_file
from devmod._modules.module import Module
from devmod._plugins import registry
from devmod._plugins.discovery import shared_scan
from devmod._plugins.lookup import call_entry, lookup
from devmod._plugins.specs import find_spec, format_of_suffix, spec_of_loader
from devmod._util.buffers import snapshot
from devmod._util.environment import environment_flag
from devmod.errors import FormatError, NotRegisteredError, describe_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from typing_extensions import Buffer

    from devmod._modules.fallback import FallbackModule
    from devmod._values.code import Code, Functions, Source
    from devmod._values.payload import Payload
    from devmod._values.spec import TargetSpec

    #: For const_loader, the two are its maps.
    AnyCode = Code | Mapping[str, Any]
    AnyFunctions = Functions | Mapping[str, Iterable[str]]

CREATE = "devmod.create"
LOAD_FROM_BYTES = "devmod.load_from_bytes"
LOAD_FROM_FILE = "devmod.load_from_file"
_FORCE = "DEVMOD_COMPILE_FORCE_FALLBACK"


def create(
    kind: str, code: AnyCode, fmt: str, fmap: AnyFunctions, source: Source | None = None
) -> Module:
    """Create the runtime's module of a payload. The first get_function opens the driver, not this
    function.

    Parameters
    ----------
    kind
        The backend's kind, such as "cuda"; or "const_loader", with the two maps of
        `devmod.const_loader`.
    code
        The payload: bytes, or for the multi-shader kinds (metal, vulkan, webgpu) a map of entry
        name to bytes. const_loader: a map of name to array.
    fmt
        The payload's format, such as "ptx"; "" for const_loader.
    fmap
        The functions by name. const_loader: a map of init symbol to the names of its constants.
    source
        Source and listings by format, for inspection. `save` writes them on request alone.

    Raises
    ------
    NotRegisteredError
        The kind's runtime is not installed; the message has the command that installs it.
    PluginError, ConflictError
        The installed runtime is broken, or two distributions provide it.
    FormatError
        The payload is invalid for the kind.
    TrustError
        A policy refuses payloads without an index.

    Notes
    -----
    Follows TVM's ``ffi.Module.create.<kind>`` (PR 19449).
    """
    check_raw(f"create({kind!r}, …)")
    creator = lookup(CREATE, kind)
    from devmod._values.payload import Payload

    payload = Payload(kind, code, fmt, fmap, source)  # type: ignore[arg-type]
    return _create_checked(creator, find_spec(kind), payload)


def create_with_fallback(
    kind: str, code: AnyCode, fmt: str, fmap: AnyFunctions, source: Source | None = None
) -> Module:
    """Create the runtime's module if the kind's runtime is installed, and a fallback otherwise.

    The fallback has the same kind and saves the same bytes; it cannot run. The environment variable
    DEVMOD_COMPILE_FORCE_FALLBACK forces a fallback, unless it is empty, "0" or "false" (in any
    case). The parameters are those of `create`.

    Raises
    ------
    NotRegisteredError
        The runtime is not installed, and the kind has no target spec, which a fallback needs.
    PluginError, ConflictError
        The installed runtime is broken, or two distributions provide it. A fallback never hides
        this error.
    FormatError
        The payload is invalid for the kind.
    TrustError
        A policy refuses payloads without an index.
    """
    check_raw(f"create_with_fallback({kind!r}, …)")
    return create_own(kind, code, fmt, fmap, source)


def create_own(
    kind: str, code: AnyCode, fmt: str, fmap: AnyFunctions, source: Source | None = None
) -> Module:
    """Like `create_with_fallback`, of a payload that this program compiled itself: no policy is
    asked.
    """
    from devmod._values.payload import Payload

    return _create(Payload(kind, code, fmt, fmap, source))  # type: ignore[arg-type]


def module_of(payload: Payload, *, runtime: bool = True) -> Module:
    """Create the module of a payload that this program compiled itself, with its origin. No policy
    is asked.

    Parameters
    ----------
    payload
        The payload.
    runtime
        Whether to make the module of an installed runtime, as `create_with_fallback` does. A
        fallback saves the same bytes, and imports no runtime.
    """
    if runtime:
        module = _create(payload)
    else:
        module = _fallback_of(payload)
    module._devmod_payload = payload
    module._devmod_origin = payload.origin
    return module


def _create(payload: Payload) -> Module:
    kind = payload.kind
    forced = environment_flag(_FORCE)
    with shared_scan():
        spec = find_spec(kind)
        creator = None
        if spec is None:
            creator = lookup(CREATE, kind)
        elif not forced:
            creator = registry.find(CREATE, kind)
        if creator is not None:
            return _create_checked(creator, spec, payload)
        module = _fallback_of(payload)
        if forced:
            module.variable = _FORCE
            return module
        for group in (CREATE, LOAD_FROM_BYTES):
            excluded = registry.excluded_claim(group, kind)
            if excluded is not None:
                claim, module.variable = excluded
                module.excluded = claim.distribution
                break
        return module


def _fallback_of(payload: Payload) -> FallbackModule:
    from devmod._modules.fallback import FallbackModule

    spec = find_spec(payload.kind)
    assert spec is not None
    return FallbackModule(spec, payload.fmt, payload.fmap, payload.code, payload.source)


def load_from_bytes(kind: str, data: Buffer) -> Module:
    """Load the runtime's module from the bytes of `Module.save_to_bytes`.

    Parameters
    ----------
    kind
        The kind, or an alias of one ("hsaco", "hip").
    data
        Any object with the buffer protocol. The loader receives a flat, read-only memoryview. Only
        a strided buffer is copied.

    Raises
    ------
    NotRegisteredError
        The kind's runtime is not installed. Loading never returns a fallback.
    ArgumentError
        `data` has no buffer.
    TrustError
        A policy refuses bytes without an index.
    Exception
        Exceptions of the loader are raised unchanged.
    """
    check_raw(f"load_from_bytes({kind!r}, data)")
    return load_stored(kind, data)


def load_stored(kind: str, data: Buffer) -> Module:
    """Like `load_from_bytes`, of bytes in an open file, or of devmod itself: no policy is asked."""
    loader = lookup(LOAD_FROM_BYTES, kind)
    view = snapshot(
        data,
        f"load_from_bytes({kind!r}, data)",
        "devmod.load_from_file(path)",
        kind=kind,
        copies=False,
    ).toreadonly()
    expected = ""
    # Constants have no spec, and each miss reads the folders of sys.path.
    if kind != "const_loader":
        spec = spec_of_loader(kind)
        if spec is not None:
            expected = spec.kind
    return _call(LOAD_FROM_BYTES, kind, expected, loader, view)


def create_shared(kind: str, fmt: str, fmap: Functions, code: Code) -> Module | None:
    """Load the runtime's module of shaders that share memory, as `create` does.

    Joined bytes would repeat the shaders. Return None if one distribution provides the loader for
    bytes, and another one `create`. The caller has looked up the loader.
    """
    creator = registry.find(CREATE, kind)
    if creator is None:
        return None
    loader = registry.used_claim(LOAD_FROM_BYTES, kind)
    if registry.used_claim(CREATE, kind).distribution != loader.distribution:
        return None
    from devmod._values.payload import Payload

    return _create_checked(creator, find_spec(kind), Payload(kind, code, fmt, fmap))


def load_from_file(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Load the runtime's module from a raw payload and the metadata file beside it, or the tree of
    a ``.devmod`` file.

    Parameters
    ----------
    path
        The payload's file.
    fmt
        The payload's format. "": the format of the file's suffix.

    Raises
    ------
    NotRegisteredError
        The runtime for that format is not installed.
    FormatError
        The format is unknown, the file or its metadata is invalid, or the file is not a regular
        file.
    TrustError
        A policy refuses the file.
    OSError
        The file cannot be read: FileNotFoundError, PermissionError, IsADirectoryError.
    """
    from devmod._util.regular_files import check_regular, path_to_str, suffix_of

    name = path_to_str(
        path, "load_from_file(path)", "devmod.load_from_bytes(kind, data) takes bytes in memory"
    )
    if not fmt:
        suffix = suffix_of(name)
        if not suffix:
            raise FormatError(
                f"{name!r} has no suffix, so its format is unknown; pass the format: load_from_file(path, 'ptx')"
            )
        fmt = format_of_suffix(suffix)
    loader = lookup(LOAD_FROM_FILE, fmt)
    check_regular(name)  # a plugin's loader would block on a pipe
    if fmt != "devmod":
        check_raw_file(name)
    return _call(LOAD_FROM_FILE, fmt, "", loader, name, fmt)


def load_shared_object(path: str, fmt: str) -> Module:
    """Load a ``.so`` through the loader of its ELF machine,
    ``devmod.load_from_file.so_<machine>``.
    """
    from devmod._util.elf import TVM_LIBRARY
    from devmod._util.regular_files import open_regular
    from devmod.targets import SHARED_OBJECT
    from devmod.targets.machines import MACHINE_END, machine_name

    with open_regular(path) as file:
        machine = machine_name(file.read(MACHINE_END))
        if not machine:
            raise FormatError(
                f"{path!r} is not a shared object: it does not begin with an ELF header"
            )
        name = f"{SHARED_OBJECT}_{machine}"
        try:
            loader = lookup(LOAD_FROM_FILE, name)
        except NotRegisteredError:
            import mmap

            if mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).find(TVM_LIBRARY.encode()) >= 0:
                raise FormatError(
                    f"{path!r} is a library that TVM exported, not a payload; devmod.interop.tvm.load_library({path!r}) reads its modules"
                ) from None
            raise
    return _call(LOAD_FROM_FILE, name, "", loader, path, fmt)


def _create_checked(creator: Any, spec: TargetSpec | None, payload: Payload) -> Module:
    from devmod._modules.payload import check_fmap, check_payload

    kind, code, fmt, fmap, source, *_ = payload
    if spec is not None:
        fmt, fmap, code, source = check_payload(spec, fmt, fmap, code, source)
    elif kind != "const_loader":  # its creator checks the maps
        fmap = check_fmap(kind, fmap)
        source = dict(source or {})
    return _call(CREATE, kind, kind, creator, code, fmt, fmap, source)


def _call(group: str, name: str, kind: str, entry: object, *arguments: object) -> Module:
    """Call an entry. Return its result if it is a runtime's module of `kind` ("" for any), or raise
    PluginError with the distribution.
    """
    module = call_entry(group, name, entry, *arguments)
    fallback = sys.modules.get("devmod._modules.fallback")  # not imported: no fallback exists
    cause: Exception | None = None
    if not isinstance(module, Module):
        wrong = f"returned {type(module).__name__}, not a devmod.Module"
    elif fallback is not None and isinstance(module, fallback.FallbackModule):
        wrong = "returned a fallback; a fallback exists at build time only"
    elif not kind:
        return module
    else:
        try:
            if module.kind == kind:
                return module
            wrong = f"returned a module of kind {module.kind!r}, not {kind!r}"
        except Exception as error:  # noqa: BLE001 - a plugin's own property, which may raise anything
            wrong = f"returned a module whose kind cannot be read ({describe_error(error)})"
            cause = error
    from devmod._plugins.messages import wrong_result

    raise wrong_result(registry.used_claim(group, name), kind or name, wrong) from cause
