"""Callers' buffers as flat views of their bytes."""

from __future__ import annotations

from os import PathLike

from devmod.errors import ArgumentError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._values.code import Binary


def flat(data: Any) -> memoryview:
    """Return any buffer as a flat view of its bytes.

    Raises
    ------
    FormatError
        `data` is not a buffer, or is not contiguous.
    """
    try:
        view = memoryview(data)
    except TypeError:
        raise FormatError(f"expected bytes or another buffer, not {type(data).__name__}") from None
    if not view.c_contiguous:
        raise FormatError("expected a contiguous buffer; this one has strides")
    if view.ndim == 1 and view.format == "B":
        return view
    if not view.nbytes:
        return memoryview(b"")
    return view.cast("B")


def snapshot(
    data: Any, call: str, path_call: str = "", *, kind: str = "", copies: bool = True
) -> memoryview:
    """Return a caller's bytes as a flat view. A strided buffer is copied; with `copies` a writable
    one too, so that the view is read-only.

    Raises
    ------
    ArgumentError
        `data` is not a buffer. The message names `call`; if `data` is a path, it also names
        `path_call`, which takes a path.
    """
    try:
        view = memoryview(data)
    except TypeError:
        text = f"{call}: data is bytes or another buffer, not {type(data).__name__}"
        if path_call and isinstance(data, (str, PathLike)):
            text += f". {path_call} takes a path"
        raise ArgumentError(text, kind=kind, argument="data") from None
    if not view.c_contiguous or (copies and not view.readonly):
        return flat(view.tobytes())
    return flat(view)


def read_only_view(data: Binary) -> memoryview:
    """Return bytes for a module to keep, as a flat read-only view. They are copied if the object
    that owns them is writable.

    A read-only view of a bytearray changes with it. A mapped file and bytes are not copied.
    """
    view = data
    if not isinstance(view, memoryview):
        view = flat(data)
    under = view.obj  # None for a buffer from C; its own flag is then right
    fixed = view.readonly and (under is None or memoryview(under).readonly)
    if not fixed or not view.c_contiguous:
        return flat(view.tobytes())
    return flat(view)
