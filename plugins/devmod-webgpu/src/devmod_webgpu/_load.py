"""Import wgpu with the C types of an earlier process.

In each process wgpu has cffi parse its C header, and each C type at its first use, in which an
interrupt may leave cffi's lock held or a type incomplete. cffi can write what it has parsed as
Python code. devmod's cache has the data of this code, and `cffi.FFI` uses it while wgpu is
imported.
"""

from __future__ import annotations

import sys
from importlib import import_module

from devmod.backend import DiskCache, Once, temporary_folder
from devmod_runtime import call_uninterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACKAGE = "wgpu.backends."
_CACHE = DiskCache("webgpu")
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
    import cffi

    original = cffi.FFI

    class FFI(original):  # type: ignore[misc, valid-type]
        # Another thread may import another package that uses cffi.
        def __new__(cls, *_: Any, **__: Any) -> Any:
            if sys._getframe(1).f_globals.get("__name__", "").startswith(_PACKAGE):
                return _ParsedFFI()
            return super().__new__(cls)

    cffi.FFI = FFI
    try:
        import_module(f"{_PACKAGE}auto")
    except Exception:  # noqa: BLE001 - of another wgpu or cffi; others are raised again below
        for name in sys.modules.copy():
            if name.startswith(_PACKAGE):
                del sys.modules[name]
    finally:
        cffi.FFI = original
    import_module(f"{_PACKAGE}auto")
    return True


class _ParsedFFI:
    """An FFI whose types were parsed by cffi in an earlier process, unless this is the first."""

    def __init__(self) -> None:
        self._header = ""
        self._types = import_module("_cffi_backend").FFI()

    def cdef(self, header: str) -> None:
        """Declare the types and functions of a header."""
        import cffi
        import msgpack  # type: ignore[import-untyped]

        self._header += header
        key = _CACHE.key("types 1", sys.version, cffi.__version__, self._header)
        stored = _CACHE.read(key)
        if stored is None:
            stored = msgpack.packb(_parse(self._header))
            _CACHE.write(key, stored)
        arguments = msgpack.unpackb(stored, use_list=False)
        self._types = type(self._types)("wgpu", **arguments)

    def set_source(self, *_: object) -> None:
        """Do nothing: nothing is compiled."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._types, name)


def _parse(header: str) -> dict[str, Any]:
    """Return the arguments of the FFI in the Python code that cffi writes for a header."""
    import ast
    from pathlib import Path

    import cffi

    ffi = cffi.api.FFI()
    ffi.cdef(header)
    ffi.set_source("wgpu", None, compiler_verbose=0)
    with temporary_folder() as folder:
        path = Path(folder, "wgpu.py")
        ffi.emit_python_code(str(path))
        call: Any = ast.parse(path.read_bytes()).body[-1]
    return {each.arg: ast.literal_eval(each.value) for each in call.value.keywords}
