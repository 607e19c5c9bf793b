"""The OpenCL module: before a driver is opened, builds, the cache, refused payloads."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads, run_python
from each_case import check_each, raised, refusal
from opencl_kernels import ADD, add_info, adder, kernel

import devmod
from devmod import FunctionInfo, Param
from devmod_opencl import devices
from devmod_readers.options.opencl import VERSIONS, doubts_of


def run_add(function: Any, n: int = 64, scale: float = 1) -> None:
    a, b, c = np.arange(n, dtype="float32"), np.ones(n, "float32"), np.zeros(n, "float32")
    function(a, b, c, n, grid=1, block=n)
    np.testing.assert_array_equal(c, scale * (a + b))


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, device: Any) -> list[str]:
    """Return the options of each source that the driver builds, a list that grows."""
    return watch_builds(monkeypatch)


def watch_builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from devmod_opencl import _driver

    options_of_builds: list[str] = []
    real = _driver.build_source

    def build(context: Any, handle: Any, text: str, options: tuple[str, ...], what: str) -> Any:
        options_of_builds.append(" ".join(options))
        return real(context, handle, text, options, what)

    monkeypatch.setattr(_driver, "build_source", build)
    return options_of_builds


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each import of the driver fail."""
    monkeypatch.setitem(sys.modules, "devmod_opencl._driver", None)
    for name in ("_device", "_launch", "_program"):
        monkeypatch.delitem(sys.modules, f"devmod_opencl.{name}", raising=False)


# -- before any driver


@pytest.mark.row("R16", "R40")
@pytest.mark.parametrize(
    ("fmt", "code", "text"),
    [
        ("cl", b"", "the opencl payload of format 'cl' is empty"),
        ("clbin", b"", "the opencl payload of format 'clbin' is empty"),
        (
            "clbin",
            b"\x03\x02\x23\x07" + bytes(16),
            "the opencl payload of format 'clbin' is SPIR-V; use the format 'il' for kernels of OpenCL, or a vulkan module for shaders",
        ),
        ("il", b"", "the opencl payload of format 'il' is empty"),
        (
            "il",
            b"kernel",
            "the opencl payload of format 'il' begins with 0x6e72656b; expected SPIR-V's magic number 0x07230203",
        ),
        (
            "il",
            b"\x03\x02\x23\x07\0",
            "the opencl payload of format 'il' is truncated: it has 5 bytes; expected a multiple of 4",
        ),
        (
            "cl",
            b"kernel \xff",
            "the opencl payload of format 'cl' is not UTF-8 text: byte 7 is 0xff",
        ),
        (
            "cl",
            b"kernel \0",
            "the opencl payload of format 'cl' has a zero byte at 7, which ends a source",
        ),
        (
            "xclbin",
            b"nonsense",
            "the opencl payload of format 'xclbin' is not such a file: expected b'xclbin2' at its start, got b'nonsense'",
        ),
        (
            "aocx",
            b"nonsense",
            "the opencl payload of format 'aocx' is not such a file: expected b'\\x7fELF' at its start, got b'nonsense'",
        ),
    ],
)
def test_invalid_payloads_are_refused_before_a_driver_is_opened(
    fmt: str, code: bytes, text: str, no_driver: None
) -> None:
    module = devmod.create("opencl", code, fmt, {"add": add_info()})
    # Creating a module does not check its payload.
    assert devmod.load_from_bytes("opencl", module.save_to_bytes()).format == fmt
    assert refusal(devmod.FormatError, module.get_function, "add") == text


@pytest.mark.parametrize("fmt", ["xclbin", "awsxclbin", "aocx"])
def test_a_vendors_binary_without_that_vendors_device(
    fmt: str, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (b"\x7fELF" if fmt == "aocx" else b"xclbin2\0") + bytes(64)
    monkeypatch.delenv("DEVMOD_DEVICE", raising=False)  # with it, there is no search for a device
    assert refusal(
        devmod.DeviceNotFoundError,
        devmod.create("opencl", code, fmt, {"add": add_info()}).get_function,
        "add",
    ) == (
        f"the opencl function 'add' cannot run on {devmod.device('opencl')}: it does not support the format {fmt!r}, a vendor's binary for "
        "its FPGAs. Install that vendor's OpenCL platform, or use the source (format 'cl')"
    )


# -- missing drivers


@pytest.mark.usefixtures("pocl")
def test_pocl_without_a_writable_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    program = "import devmod\ntry: devmod.device('opencl')\nexcept devmod.DeviceNotFoundError as error: print(error)"
    drivers = {"OCL_ICD_VENDORS": str(tmp_path), "DEVMOD_DEVICE": ""}  # PoCL's wheel alone
    output = run_python(program, POCL_CACHE_DIR=str(tmp_path / "file" / "pocl"), **drivers)
    assert output.startswith("no OpenCL device was found: the platform")
    assert (
        " none (PoCL has none if it cannot write its cache: set POCL_CACHE_DIR to a writable folder). For a device"
        in output
    )


WITHOUT_A_CACHE = """
import sys
import numpy as np, devmod
text = "kernel void one(global int *y) { y[get_global_id(0)] = 1; }"
f = devmod.compile(text, "opencl", block=1)["one"]
for device in devmod.devices("opencl")[:int(sys.argv[1])]:
    y = np.zeros(8, "int32")
    f.on(device)(y, threads=8)
    print(device.index, set(y.tolist()))
"""


def without_a_cache(home: Path, count: int = 100) -> tuple[list[str], str]:
    """Return the lines and the errors of a process that runs a kernel on each device, or on so
    many.
    """
    environment = {**os.environ, "HOME": str(home), "DEVMOD_PLUGINS_ALLOW": "devmod-opencl"}
    for name in ("XDG_CACHE_HOME", "POCL_CACHE_DIR", "DEVMOD_CACHE_DIR"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_A_CACHE, str(count)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.usefixtures("device")
def test_a_call_without_a_writable_home(tmp_path: Path) -> None:
    """As in a container: neither pyopencl's cache nor PoCL's can be created."""
    (tmp_path / "file").write_bytes(b"")
    expected = [f"{each.index} {{1}}" for each in devices()]
    assert without_a_cache(tmp_path / "file") == (expected, "")


@pytest.mark.usefixtures("device")
def test_a_call_with_a_damaged_cache_of_pyopencl(tmp_path: Path) -> None:
    before = without_a_cache(tmp_path, 1)
    caches = list(tmp_path.rglob("*.sqlite"))
    for each in caches:
        each.write_bytes(b"damaged" * 1000)
    assert caches
    assert without_a_cache(tmp_path, 1) == before


# -- building


@pytest.mark.row("R30", "R33")
def test_one_build_serves_all_functions_of_a_module(builds: list[str]) -> None:
    module = adder(ADD + "// one build")
    assert builds == []
    run_add(module["add"])
    module["twice"]
    assert builds == [""]


@pytest.fixture
def no_cache_of_the_driver(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make devmod take the driver for one that keeps no builds, such as AMD's of 2020."""
    from devmod_opencl import _launch

    monkeypatch.setattr(_launch, "_KEEP_BUILDS", ())


@pytest.mark.usefixtures("pocl")
def test_a_driver_that_keeps_its_builds_gets_no_second_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    builds = watch_builds(monkeypatch)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        run_add(adder(ADD + "// no second cache")["add"])
    assert len(builds) == 2
    sizes = [each.stat().st_size for each in (tmp_path / "opencl").glob("*")]
    assert max(sizes, default=0) < 1000  # none, or the note of a trial


def binaries(cache: Path) -> list[Path]:
    """Return the cached binaries. The note that a device has passed its trial is there too, if no
    test of this process has used the device before.
    """
    return [each for each in (cache / "opencl").iterdir() if each.stat().st_size > 1000]


@pytest.mark.usefixtures("no_cache_of_the_driver")
def test_binaries_are_cached_and_damaged_ones_are_built_again(
    builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    run_add(adder()["add"])
    (entry,) = binaries(tmp_path)
    assert entry.stat().st_mode & 0o077 == 0
    valid = entry.read_bytes()
    run_add(adder()["add"])
    assert len(builds) == 1
    for damaged in (b"", valid[:40], valid[:-1], valid[:100] + b"\xff" + valid[101:], valid + b"x"):
        entry.write_bytes(damaged)
        run_add(adder()["add"])
    run_add(adder()["add"])
    assert len(builds) == 6
    assert binaries(tmp_path) == [entry]


@pytest.mark.usefixtures("no_cache_of_the_driver")
@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("which", ["entry", "folder"])
def test_a_cached_binary_that_other_users_can_write_is_ignored(
    which: str, builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    run_add(adder()["add"])
    (entry,) = binaries(tmp_path)
    writable = entry if which == "entry" else entry.parent
    mode = writable.stat().st_mode
    writable.chmod(mode | 0o020)
    run_add(adder()["add"])
    assert len(builds) == 2
    if which == "folder":  # devmod stores nothing in such a folder, and replaces such an entry
        run_add(adder()["add"])
        assert len(builds) == 3
    writable.chmod(mode)
    run_add(adder()["add"])
    assert len(builds) == (2 if which == "entry" else 3)


@pytest.mark.usefixtures("no_cache_of_the_driver")
def test_a_source_is_built_without_a_cache_folder(
    builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "file"))
    for _ in range(2):
        run_add(adder()["add"])
    assert len(builds) == 2


def test_the_options_of_the_first_line_reach_the_compiler(builds: list[str]) -> None:
    run_add(adder("//devmod: -cl-fast-relaxed-math -DSCALE=3\n" + ADD)["add"], scale=3)
    run_add(adder("//devmod: -DSCALE=5\n" + ADD)["add"], scale=5)
    assert builds == ["-cl-fast-relaxed-math -DSCALE=3", "-DSCALE=5"]


def test_an_option_that_names_a_path_reaches_no_compiler(builds: list[str]) -> None:
    error = raised(devmod.FormatError, lambda: adder("//devmod: -I/etc\n" + ADD)["add"])
    assert str(error) == "the source's first line has the option '-I/etc', which names a path"
    assert error.kind == "opencl"
    assert builds == []


@pytest.mark.parametrize(
    "option",
    [
        "-save-temps=x",
        "-Xclang",
        "-fplugin=x.so",
        "-x",
        "-cl-std=CL2.0,x",
        "-cl-fast",
        "-cl-std=CL9",
    ],
)
def test_an_option_that_is_not_opencls_reaches_no_compiler(option: str, builds: list[str]) -> None:
    assert (
        refusal(
            devmod.FormatError,
            adder(f"//devmod: -cl-mad-enable {option}\n" + ADD).get_function,
            "add",
        )
        == f"the opencl source has the build option {option!r}, which devmod-opencl does not pass to a driver"
    )
    assert builds == []


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    "spelling",
    [
        '#include "{path}"',
        "#include <{path}>",
        '#include "x.h"',
        "#include <x.h>",
        '#include "../{folder}/x.h"',
        '#import "x.h"',
        "%:include <x.h>",
        '#define NAME "x.h"\n#include NAME',
        '# \\ \ninclude "x.h"',
        '/* " */ # /* " */ include "x.h"',
        '// a\r#include "x.h"',
        "#\finclude <x.h>",
        "#\u180einclude <x.h>",
    ],
)
def test_no_source_reads_a_file_of_the_receiver(
    spelling: str, device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.h").write_text("#define VALUE 1\n")
    text = spelling.format(path=tmp_path / "x.h", folder=tmp_path.name)
    info = FunctionInfo("k", ["handle"])
    for source in (
        f"{text}\nkernel void k(global int *x) {{ x[0] = 2; }}",
        f"#if 1\n{text}\n#endif\nkernel void k(global int *x) {{ x[0] = 2; }}",
    ):
        with pytest.raises(
            devmod.CompileError,
            match="a source payload is complete, and does not include a file of its receiver",
        ):
            devmod.create("opencl", source.encode(), "cl", {"k": info})["k"]
    dead = f"#if 0\n{text}\n#endif\n#if __has_include(<x.h>)\n#define VALUE 1\n#else\n#define VALUE 3\n#endif\n"
    module = devmod.create(
        "opencl",
        (dead + "kernel void k(global int *x) { x[0] = VALUE; }").encode(),
        "cl",
        {"k": info},
    )
    x = np.zeros(1, "int32")
    module["k"](x, grid=1, block=1)
    assert x.tolist() == [3]


@pytest.mark.row("R30")
def test_a_line_keeps_its_number_behind_an_include(device: Any) -> None:
    source = "#define CAT(a, b) a##b\n#if __has_include(<x.h>)\n#endif\nkernel void k(global int *x) { x[0] = nonsense; }"
    with pytest.raises(devmod.CompileError, match=r":4:39: "):
        devmod.create("opencl", source.encode(), "cl", {"k": FunctionInfo("k", ["handle"])})["k"]


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("before", "keyword", "directive"),
    [
        ("", "__asm__", '".incbin {}'),
        ("", "//x\\\u00a0\n__asm__", '".incbin {}'),
        ("", "//x\\\x1c\n__asm__", '".incbin {}'),
        ("#define CAT(a, b) a##b\n", "CAT(as, m)", '".incbin {}'),
        ("#define CAT(a, b) a#??=b\n", "CAT(__as, m__)", '".incbin {}'),
        (
            "#define CAT(a, b) a##b\n#define devmod_has_no_assembly __as##m__\n",
            "CAT(__as, m__)",
            '".incbin {}',
        ),
        ("//devmod: -DS(x)=#x\n", "__asm__", 'S(.inc) "bin {}'),
        ("#define S(x) /*\n*/ #x\n", "__asm__", 'S(.inc) "bin {}'),
        ("#define S(x) #x\n#define A __asm__\n", "A", 'S(.inc) "bin {}'),
    ],
)
def test_no_assembly_reads_a_file(
    before: str, keyword: str, directive: str, device: Any, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"!!!!")
    template = directive.format(f'\\"{tmp_path / "x"}\\"\\n')
    source = (
        f"{before}kernel void k(global int *x) {{ int r;\n"
        f'{keyword}("jmp 2f\\n1: " {template}2: movl 1b(%%rip), %0" : "=r"(r)); x[0] = r; }}'
    )
    with pytest.raises((devmod.FormatError, devmod.CompileError)):
        devmod.create("opencl", source.encode(), "cl", {"k": FunctionInfo("k", ["handle"])})["k"]


@pytest.mark.row("R30")
def test_plain_assembly_is_assembled(device: Any) -> None:
    """A line break in it continues the line, also in a kernel whose other text looks like a
    directive.
    """
    if platform.machine() not in {"x86_64", "AMD64"}:
        pytest.skip("the assembly is that of x86-64")
    source = (
        "// this asm has no .rept\n#define CAT(a, b) a##b\n#define TEXT(x) #x\nkernel void k(global int *x) {\n"
        '  int r;\n  asm volatile(\n    "movl $3, %0\\n\\t"\n    "incl %0"\n    : "=r"(r));\n  printf("done.");\n  x[0] = r;\n}\n'
    )
    x = np.zeros(1, "int32")
    devmod.create("opencl", source.encode(), "cl", {"k": FunctionInfo("k", ["handle"])})["k"](
        x, grid=1, block=1
    )
    assert x.tolist() == [4]


def test_errors_have_the_output_of_the_compiler(device: Any) -> None:
    error = raised(
        devmod.CompileError,
        lambda: adder("__kernel void add(__global float *a) {\n  a[0] = nonsense;\n}")["add"],
    )
    first, second = str(error).splitlines()[:2]
    assert first == f"{device.name} cannot build the opencl source: "
    assert "nonsense" in second
    assert "nonsense" in error.log
    assert len(error.log) >= len(second.strip())
    text = refusal(
        devmod.CompileError, adder("//devmod: -cl-nv-no-such-option\n" + ADD).get_function, "add"
    )
    assert text.startswith(f"{device.name} cannot build the opencl source: INVALID_BUILD_OPTIONS: ")
    assert text.endswith(": -cl-nv-no-such-option")


@pytest.mark.usefixtures("pocl")
def test_an_error_names_a_version_of_opencl_c_that_the_device_does_not_have() -> None:
    name = devmod.device("opencl").name
    line = "\n  the source asks for OpenCL C 2.0 (-cl-std=CL2.0), and the device has 1.0, 1.1, 1.2, 3.0"
    text = "__kernel void add(__global float *a) { nonsense(a); }"
    for options, is_named in (
        ("-cl-std=CL2.0", True),
        ("-cl-std=CL1.2 -cl-std=CL2.0", True),
        ("-cl-std=CL2.0 -cl-std=CL1.2", False),
        ("-cl-std=CL3.0", False),
        ("-cl-fast-relaxed-math", False),
    ):
        module = adder(f"//devmod: {options}\n{text}")
        error = refusal(devmod.CompileError, module.get_function, "add")
        assert error.startswith(f"{name} cannot build the opencl source: ")
        assert error.endswith(line) == is_named, options


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")
@pytest.mark.usefixtures("pocl")
def test_pocl_takes_each_option_of_which_a_build_has_no_doubt() -> None:
    def check(option: str) -> None:
        module = adder(f"//devmod: {option}\n" + ADD)
        if option.startswith("-cl-std=CLC++") or option == "-cl-no-subgroup-ifp":
            text = refusal(devmod.CompileError, module.get_function, "add")
            assert "INVALID_BUILD_OPTIONS" in text
            assert doubts_of([option])
        else:
            assert module.get_function("add")

    check_each(VERSIONS, check)


@pytest.mark.filterwarnings("ignore:.*has the name of a built-in function:UserWarning")
@pytest.mark.usefixtures("pocl")
def test_a_kernel_that_pocl_renames_is_named() -> None:
    assert refusal(
        devmod.FormatError,
        devmod.compile("kernel void step(global float *x) { x[0] = 1; }", "opencl").get_function,
        "step",
    ) == (
        "the built opencl program has no kernel 'step', which the payload's fmap names; it has: _cl_step. OpenCL C has a built-in function of "
        "that name: rename the kernel"
    )


def test_a_function_that_the_source_does_not_define(device: Any) -> None:
    module = devmod.create(
        "opencl",
        ADD.encode(),
        "cl",
        {"sub": FunctionInfo("sub_kernel", ["handle"]), "add": FunctionInfo("add", ["handle"])},
    )
    start, _, names = refusal(devmod.FormatError, module.get_function, "sub").rpartition(
        "; it has: "
    )
    assert (
        start
        == "the built opencl program has no kernel 'sub_kernel', which the payload's fmap names"
    )
    assert {*names.split(", ")} == {"add", "twice"}
    assert (
        refusal(devmod.FormatError, module.get_function, "add")
        == "the opencl kernel 'add' takes 4 arguments, and the payload's fmap has 1"
    )


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("argument", "declared", "kind", "text"),
    [
        (
            "__global int *x",
            "int64",
            "",
            "a __global pointer (int*) as argument 2, and the payload's fmap has int64",
        ),
        (
            "__constant int *x",
            "float64",
            "scalar",
            "a __constant pointer (int*) as argument 2, and the payload's fmap has float64",
        ),
        (
            "__local int *x",
            "handle",
            "buffer",
            "a __local pointer (int*) as argument 2, and the payload's fmap has buffer",
        ),
        (
            "__global int *x",
            "handle",
            "local",
            "a __global pointer (int*) as argument 2, and the payload's fmap has local",
        ),
        ("long x", "handle", "", "a value (long) as argument 2, and the payload's fmap has handle"),
        (
            "long x",
            "handle",
            "buffer",
            "a value (long) as argument 2, and the payload's fmap has buffer",
        ),
    ],
)
@pytest.mark.parametrize("kept", [True, False], ids=["kept by the driver", "not kept"])
def test_arguments_that_do_not_match_the_kernel_are_refused(
    kept: bool,
    argument: str,
    declared: str,
    kind: str,
    text: str,
    device: Any,
    request: pytest.FixtureRequest,
) -> None:
    if not kept:
        request.getfixturevalue("no_cache_of_the_driver")
    params = [
        devmod.Param("n", "scalar", "int32"),
        devmod.Param("x", kind or "buffer", "" if declared == "handle" else declared),
    ]
    info = FunctionInfo(
        "k", ["int32", declared], (), (), devmod.Interface(params) if kind else None
    )
    module = devmod.create(
        "opencl", f"__kernel void k(int n, {argument}) {{}}".encode(), "cl", {"k": info}
    )
    for _ in range(2):  # built, and from the cache
        assert (
            refusal(
                devmod.FormatError,
                devmod.load_from_bytes("opencl", module.save_to_bytes()).get_function,
                "k",
            )
            == f"the opencl kernel 'k' takes {text}"
        )


@pytest.mark.row("R14", "R37")
def test_a_program_binary_runs_without_a_build(device: Any, builds: list[str]) -> None:
    from devmod_opencl import _driver

    program = _driver.build_source(device.context, device.handle, ADD, (), "the source")
    builds.clear()
    module = devmod.create("opencl", _driver.binary_of(program), "clbin", {"add": add_info()})
    run_add(devmod.load_from_bytes("opencl", module.save_to_bytes())["add"])
    assert builds == []
    best = devmod.explain(module, "add", device).best("add")
    text = f"opencl:{device.index} decides: a payload of format 'clbin' is for some devices, and only a driver knows whether its own is one of them"
    assert (best.outcome, best.text) == ("unknown", text)
    assert refusal(devmod.LaunchError, module["add"].specialize, SCALE=2) == (
        "an opencl function of format 'clbin' cannot be specialized: its constants were fixed when it was built. Use the source (format 'cl')"
    )


@pytest.mark.row("R40")
@pytest.mark.parametrize("size", [8, 50, 200, 1000, 20000])
def test_a_truncated_pocl_binary_does_not_crash_pocl(
    size: int, device: Any, no_driver: None
) -> None:
    # The layout of PoCL 3.0: a header, the name and the size of the program, the program, the
    # kernels.
    binary = (
        b"poclbin\0"
        + bytes(64)
        + b"\x0b\0\0\0/program.bc"
        + (30000).to_bytes(4, "little")
        + bytes(40000)
    )
    assert (
        refusal(
            devmod.FormatError,
            devmod.create("opencl", binary[:size], "clbin", {"add": add_info()}).get_function,
            "add",
        )
        == "the opencl payload of format 'clbin' is a truncated or damaged binary of PoCL"
    )


def test_a_binary_that_the_driver_does_not_support(device: Any) -> None:
    assert refusal(
        devmod.FormatError,
        devmod.create(
            "opencl", b"not a binary of any device", "clbin", {"add": add_info()}
        ).get_function,
        "add",
    ) == (
        f"{device.name} does not support the program binary (INVALID_BINARY): a binary runs on the device and driver that built it. "
        "Use the source (format 'cl') for other devices"
    )


def test_specialize_sets_defines(device: Any, builds: list[str]) -> None:
    f = adder()["add"]
    for scale in (2, 3, 2):
        run_add(f.specialize(SCALE=scale), scale=scale)
    run_add(f.specialize(SCALE="(1 + 3)"), scale=4)
    run_add(f.specialize(SCALE=0.5), scale=0.5)
    run_add(f)
    run_add(adder("#define SCALE 7\n#line 1\n" + ADD)["add"].specialize(SCALE=2), scale=2)
    # devmod.compile writes no define over two lines, so this one stays.
    text = refusal(
        devmod.ArgumentError,
        lambda: adder(
            "#define SCALE \\\n  7\n" + ADD.replace("#ifndef SCALE\n#define SCALE 1\n#endif\n", "")
        )["add"].specialize(SCALE=2),
    )
    assert "defines 'SCALE' unconditionally" in text
    assert (
        refusal(devmod.ArgumentError, f.specialize, SKALE=2)
        == "the opencl source has no constant 'SKALE' to specialize; it has: 'SCALE'. Did you mean 'SCALE'?"
    )
    assert (
        refusal(devmod.ArgumentError, f.specialize, n=3)
        == "the opencl function 'add' has no constant 'n' to specialize: 'n' is an argument of a call; it has the constants: 'SCALE'"
    )
    assert (
        refusal(devmod.ArgumentError, f.specialize, SCALE=None)
        == "the constant 'SCALE' of the opencl source cannot be None: expected an int, a float, a bool, or the text of a define"
    )
    assert refusal(
        devmod.ArgumentError,
        adder(ADD.replace("#ifndef SCALE", "").replace("#endif", ""))["add"].specialize,
        SCALE=2,
    ) == (
        "the opencl source defines 'SCALE' unconditionally, so it cannot be specialized; write #ifndef SCALE around its #define"
    )


def test_constants_that_were_set_keep_their_values(device: Any) -> None:
    source = "__kernel void k(__global int *x) {\n#ifdef B\nx[0] = 10 * A + B;\n#else\nx[0] = A;\n#endif\n}"
    f = kernel("#define A 1\n#line 1\n" + source, "k", [Param("x", "buffer", "int32", "w")])
    x = np.zeros(1, "int32")
    two = f.specialize(B=2)
    for g, value in (
        (f, 1),
        (two, 12),
        (two.specialize(A=3), 32),
        (two.specialize(A=3).specialize(B=5), 35),
        (two.specialize(B=7), 17),
        (f, 1),
    ):
        g(x, grid=1, block=1)
        assert x[0] == value


def test_specialize_may_change_the_size_of_a_block(device: Any) -> None:
    source = """
    #ifndef TILE
    #define TILE 4
    #endif
    __kernel __attribute__((reqd_work_group_size(TILE, 1, 1))) void size(__global int *x) { x[get_global_id(0)] = get_local_size(0); }
    """
    f = kernel(source, "size", [Param("x", "buffer", "int32", "w")], (4, 1, 1))
    for function, block in ((f, 4), (f.specialize(TILE=8), 8), (f.specialize(TILE=2), 2)):
        x = np.zeros(16, "int32")
        function(x, grid=16 // block)
        assert x.tolist() == [block] * 16
    assert f.specialize(TILE=8).block == (8, 1, 1)


# -- a replaced compiler


@pytest.fixture
def set_compiler() -> Iterator[Any]:
    yield devmod.set_compiler
    devmod.set_compiler("opencl", None)


@pytest.mark.row("R31")
def test_a_replaced_compiler_may_return_a_binary(device: Any, set_compiler: Any) -> None:
    from devmod_opencl import _driver

    binary = _driver.binary_of(
        _driver.build_source(device.context, device.handle, ADD, (), "the source")
    )
    set_compiler("opencl", lambda code: ("clbin", binary))
    run_add(adder("any text")["add"])


# -- threads


@pytest.mark.row("R32")
def test_concurrent_calls_use_separate_kernel_objects(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_opencl import _launch

    barrier, real, handles = threading.Barrier(4, timeout=300), _launch._enqueue, []

    def enqueue(queue: Any, handle: Any, *rest: Any) -> Any:
        handles.append(handle)
        barrier.wait()  # all four have set their arguments, and none has launched
        return real(queue, handle, *rest)

    monkeypatch.setattr(_launch, "_enqueue", enqueue)
    f = adder()["twice"]
    arrays = [device.from_numpy(np.full(4, number, "float32")) for number in range(4)]
    for _ in range(2):
        assert run_in_threads(lambda x: f(x, grid=1, block=4), arrays) == [None] * 4
    assert [each.numpy()[0] for each in arrays] == [0, 4, 8, 12]
    assert len({each.int_ptr for each in handles}) == 4  # the second round uses the same four


@pytest.mark.usefixtures("device")
def test_an_interrupt_does_not_reach_the_import_of_pyopencl() -> None:
    """An interrupt in it may end the process, and the import of NumPy cannot be repeated."""
    program = (
        "import sys, threading, devmod\nis_main = []\n"
        "def hook(event, arguments):\n    if event == 'import' and arguments[0] in ('numpy', 'pyopencl._cl'):\n"
        "        is_main.append(threading.current_thread() is threading.main_thread())\n"
        "sys.addaudithook(hook)\ndevmod.device('opencl')\nprint({*is_main})"
    )
    assert run_python(program) == "{False}\n"
