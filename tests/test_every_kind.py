"""Modules of every kind and format, with payloads that no driver runs: the kit's rows about bytes
and files, imports, missing drivers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backend_checks import check_memory_error, first_device, run_python

import devmod
from devmod import FunctionInfo
from devmod.backend import find_spec
from devmod.plugins import find
from devmod.targets import KINDS
from devmod_conformance import Conformance, Sample, run
from small_kernels import payloads  # tools/small_kernels.py

INFO = FunctionInfo("k", ["handle", "int32"], ["blockIdx.x", "threadIdx.x"])
ROWS = ("R18", "R19-same", "R22-round", "R23-same-kind", "R26")


def spec_of(kind: str) -> Any:
    spec = find_spec(kind)
    assert spec is not None
    return spec


def code_of(kind: str) -> Any:
    """Return a payload. Vulkan's has a flag and the number of its words, and Hexagon's has the
    header by which a file is recognized.
    """
    headers = {
        "vulkan": bytes(4) + b"\1" + bytes(7) + b"\3\2#\7",
        "hexagon": b"\x7fELF\1\1\1" + bytes(9) + b"\3\0\xa4\0",
    }
    code = headers.get(kind, b"// a payload")
    return {"k": code} if spec_of(kind).shader_map else code


@pytest.mark.row("R14", "R18", "R19", "R22", "R23", "R26")
@pytest.mark.parametrize(
    ("kind", "fmt"), [(kind, fmt) for kind in KINDS for fmt in spec_of(kind).formats]
)
def test_a_module_of_each_format_equals_its_fallback(kind: str, fmt: str) -> None:
    source = dict.fromkeys((*spec_of(kind).source_keys, "x"), "a text")
    case = Conformance()
    case.kind, case.samples = kind, [Sample(code_of(kind), fmt, {"k": INFO}, source=source)]
    assert [(result.row.id, result.outcome, result.reason) for result in run(case, ROWS)] == [
        (row, "passed", "") for row in ROWS
    ]


@pytest.mark.row("R5", "R6", "R39")
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_is_made_saved_and_loaded_without_numpy(kind: str) -> None:
    """The kit's rows R6 and R23-lazy show that no driver is imported."""
    formats = [
        fmt for fmt in spec_of(kind).formats if fmt != "cuda"
    ]  # CUDA C++ may be compiled by create
    program = (
        f"import sys, devmod, devmod_{kind}\n"
        f"for fmt in {formats}:\n"
        f"    module = devmod.create({kind!r}, {code_of(kind)!r}, fmt, {{'k': devmod.FunctionInfo('k', [])}})\n"
        f"    devmod.load_from_bytes({kind!r}, module.save_to_bytes()).save_to_bytes()\n"
        "    module.inspect_source()\n"
        "print('numpy' in sys.modules)\n"
    )
    assert run_python(program) == "False\n"


#: Makes the import of a module raise ImportError.
BROKEN = """
import importlib.abc
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {!r}: raise ImportError({!r})
sys.meta_path.insert(0, Broken())
"""
#: Takes the loader of Vulkan away.
NO_LOADER = """
import types
from importlib.machinery import ModuleSpec
class Finder:
    find_spec = staticmethod(lambda name, path=None, target=None: ModuleSpec(name, Finder) if name == "vulkan._vulkancache" else None)
    create_module = staticmethod(lambda spec: types.ModuleType(spec.name))
    @staticmethod
    def exec_module(module):
        class ffi:
            @staticmethod
            def dlopen(name): raise OSError("cannot load library")
        module.ffi = ffi
sys.meta_path.insert(0, Finder)
"""
NO_PLATFORM = """
import pyopencl
def none(): raise pyopencl.LogicError("clGetPlatformIDs", -1001, "no platform")
pyopencl.get_platforms = none
"""
MISSING = [
    (
        "opencl",
        "sys.modules['pyopencl'] = None",
        'no OpenCL device can be used: pyopencl is not installed. To add it: pip install "devmod-opencl[pocl]"',
    ),
    (
        "opencl",
        BROKEN.format("pyopencl", "libOpenCL.so.1: cannot open shared object file"),
        "no OpenCL device can be used: pyopencl cannot be imported: libOpenCL.so.1: cannot open shared object file. To repair it: "
        'pip install --force-reinstall "pyopencl[pocl]"',
    ),
    ("opencl", NO_PLATFORM, ""),
    ("opencl", "import pyopencl\npyopencl.get_platforms = lambda: []", ""),
    (
        "vulkan",
        "sys.modules['vulkan'] = None",
        "no Vulkan device can be used: vulkan is not installed. To add it: pip install vulkan",
    ),
    (
        "vulkan",
        BROKEN.format("vulkan", "cffi is broken"),
        "no Vulkan device can be used: vulkan cannot be imported: cffi is broken. To repair it: pip install --force-reinstall vulkan",
    ),
    (
        "vulkan",
        NO_LOADER,
        "the Vulkan loader cannot be opened, so no Vulkan device can be used: libvulkan is not found. Install it and a driver (Debian and "
        "Ubuntu: apt install libvulkan1 mesa-vulkan-drivers, which has a device on the CPU too; for a GPU, its vendor's driver)",
    ),
]


@pytest.mark.row("R23")
@pytest.mark.parametrize(("kind", "break_it", "text"), MISSING)
def test_the_error_without_a_driver_has_the_command_that_installs_one(
    kind: str, break_it: str, text: str
) -> None:
    samples = find("devmod.conformance", kind)().samples
    code, fmap = samples[0].code, samples[0].fmap
    program = (
        f"import sys\n{break_it}\nimport devmod\n"
        f"m = devmod.loads(bytes.fromhex({devmod.dumps(devmod.create(kind, code, samples[0].fmt, fmap)).hex()!r}))\n"
        f"for ask in (lambda: m[{next(iter(fmap))!r}], lambda: devmod.device({kind!r}), lambda: m[{next(iter(fmap))!r}]):\n"
        "    try: ask()\n"
        "    except devmod.DeviceNotFoundError as error: print(error)\n"
        f"assert not devmod.devices({kind!r})\n"
    )
    # Without Intel's runtime, and without a driver of another kind.
    lines = run_python(
        program, "-W", "error", OCL_ICD_VENDORS="none", DEVMOD_PLUGINS_ALLOW=f"devmod-{kind}"
    ).splitlines()
    assert lines == lines[:1] * 3
    if text:
        assert lines[0] == text
    else:
        assert lines[0].startswith("no OpenCL device was found: ")
        assert (
            'for a device on the cpu of linux on x86-64: pip install "devmod-opencl[pocl]"'
            in lines[0].lower()
        )
        assert (
            "; on other systems, install their package of PoCL (Debian: pocl-opencl-icd); "
            in lines[0]
        )


@pytest.mark.parametrize(
    ("kind", "limit", "step", "reported"),
    [
        ("opencl", "max_mem_alloc_size", 1, ("driver_version", "memory")),
        ("vulkan", "maxMemoryAllocationSize", 1, ("driver_version", "memory")),
        ("webgpu", "maxBufferSize", 4, ("backend",)),
    ],
)
def test_a_device_is_listed_with_what_its_driver_reports(
    kind: str, limit: str, step: int, reported: tuple[str, ...]
) -> None:
    device: Any = first_device(kind)
    assert device in devmod.devices()
    assert [name for name in reported if not getattr(device, name)] == []
    most = device.limits[limit]
    check_memory_error(device, most // step * step + step, f"its {limit} is {most}")


@pytest.mark.row("R54")
@pytest.mark.parametrize("path", payloads(), ids=lambda path: path.parent.name)
def test_the_small_kernel_of_a_runtime_is_made_of_the_small_source(path: Path) -> None:
    assert path.read_bytes() == payloads()[path](), "run tools/small_kernels.py"
