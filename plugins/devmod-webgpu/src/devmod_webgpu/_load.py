"""Import wgpu and parse its C types.

wgpu passes C types to cffi as texts, and cffi parses each at its first use: 13 ms, in which an
interrupt may leave cffi's lock held or a type incomplete. Here cffi parses all of them as the
fields of one struct.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from contextlib import suppress
from importlib import import_module
from types import CodeType

from devmod.backend import Once
from devmod_runtime import call_uninterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACKAGE = "wgpu.backends.wgpu_native"
#: A type, a pointer, an array, or a function, as wgpu's code has them.
_FORM = re.compile(r"(?P<name>\w+)(?:(?: const)?[ *]*(?P<array>\[\])?|\([\w *,]+\))")
_BASIC_TYPES = (
    "char",
    "int32_t",
    "intptr_t",
    "size_t",
    "uint8_t",
    "uint32_t",
    "uint64_t",
    "uintptr_t",
    "void",
)
_STRUCT = "struct devmod_types"
_once = Once()


def load_wgpu() -> None:
    """Import wgpu.

    Raises
    ------
    ImportError, OSError, RuntimeError
        wgpu cannot be imported.
    """
    call_uninterrupted(_once.get, "wgpu", _import)


def _import() -> bool:
    import_module("wgpu.backends.auto")
    with suppress(Exception):  # of another wgpu or cffi: each type is then parsed at its first use
        _parse_types(sys.modules[_PACKAGE].ffi)
    return True


def _parse_types(ffi: Any) -> None:
    """Store the types of wgpu's code in cffi's cache. It is no part of cffi's interface: one of
    another form stays as it is.
    """
    cache = ffi._parsed_types
    names = {*ffi.list_types()[0], *_BASIC_TYPES}
    keys: list[str] = []
    fields: list[str] = []
    texts = _texts()
    pointers = {f"{name} *" for name in texts & names}
    for text in sorted((texts | pointers) - {*cache, "void"}):
        form = _FORM.fullmatch(text)
        if form is not None and form["name"] in names:
            field = f"f{len(keys)}"
            keys.append(text)
            if form["array"]:
                fields.append(f"{text.removesuffix('[]')} (*{field})[];")
            elif "(" in text:
                fields.append(text.replace("(", f" (*{field})(", 1) + ";")
            else:
                fields.append(f"{text} {field};")
    expected = ffi.typeof(keys[0])
    if cache[keys[0]] == (expected, False):
        ffi.cdef(f"{_STRUCT} {{ {' '.join(fields)} }};")
        for key, (_, field) in zip(keys, ffi.typeof(_STRUCT).fields, strict=True):
            type_ = field.type
            if key.endswith("[]"):
                type_ = type_.item
            cache[key] = (type_, "(" in key)


def _texts() -> set[str]:
    """Return the text constants of wgpu's code."""
    codes: deque[CodeType] = deque()
    for name, module in sys.modules.copy().items():
        if not name.startswith(_PACKAGE):
            continue
        loader = getattr(module, "__loader__", None)
        read = getattr(loader, "get_code", None)
        if read is not None:
            codes.append(read(name))
    texts = set()
    while codes:
        for constant in codes.popleft().co_consts:
            if isinstance(constant, str):
                texts.add(constant)
            elif isinstance(constant, CodeType):
                codes.append(constant)
    return texts
