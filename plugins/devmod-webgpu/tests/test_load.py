"""The import of wgpu, whose C types are those of an earlier process."""

from __future__ import annotations

from pathlib import Path

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


def imported(cache: Path, argument: str = "") -> str:
    program = f"import sys; sys.argv.append({argument!r}){IMPORT}"
    return run_python(program, **ALONE, DEVMOD_CACHE_DIR=str(cache))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the first process prints, and its cache."""
    cache = tmp_path_factory.mktemp("cache")
    return imported(cache), cache


@pytest.mark.usefixtures("device")
def test_only_the_first_process_parses_the_header_of_wgpu(first: tuple[str, Path]) -> None:
    assert first[0] == "[0] True True\n"
    assert imported(first[1]) == "[0] False True\n"


@pytest.mark.usefixtures("device")
def test_a_version_of_wgpu_that_uses_cffi_otherwise_has_cffis_own_ffi(
    first: tuple[str, Path],
) -> None:
    assert imported(first[1], "version") == "[0] True True\n"


@pytest.mark.usefixtures("device")
def test_another_thread_may_import_a_package_with_cffi_at_the_same_time(tmp_path: Path) -> None:
    assert imported(tmp_path, "thread") == "True True\n[0] True True\n"
