"""The import of wgpu, whose C types are those of an earlier process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backend_checks import run_python
from webgpu_shaders import ALONE

IMPORT = """
import sys, cffi
FFI = cffi.FFI

class Finder:
    def find_spec(self, name, *_):
        if name == "wgpu.backends.wgpu_native._ffi" and "thread" in sys.argv:
            class Other(cffi.FFI): pass
            print(isinstance(cffi.FFI(backend=None), FFI), isinstance(Other(), FFI))
        if name == "wgpu.backends.wgpu_native._helpers" and "version" in sys.argv:
            sys.modules["wgpu.backends.wgpu_native._ffi"].ffi.set_unicode(False)

sys.meta_path.insert(0, Finder())
import devmod
x = devmod.device("webgpu").zeros(1, "uint32")
print(x.numpy(), "pycparser" in sys.modules, cffi.FFI is FFI)
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))


def imported(argument: str = "") -> str:
    return run_python(f"import sys; sys.argv.append({argument!r}){IMPORT}", **ALONE)


def test_only_the_first_process_parses_the_header_of_wgpu() -> None:
    assert imported() == "[0] True True\n"
    assert imported() == "[0] False True\n"
    # A version of wgpu that uses cffi otherwise has cffi's own FFI.
    assert imported("version") == "[0] True True\n"


def test_another_thread_may_import_a_package_with_cffi_at_the_same_time() -> None:
    assert imported("thread") == "True True\n[0] True True\n"
