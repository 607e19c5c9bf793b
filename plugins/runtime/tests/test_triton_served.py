"""Kernels of files for Triton's launches (R60), with a stand-in for Triton."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forked
import pytest
from each_case import check_texts, refusal

import devmod
from devmod.backend import Payload, module_of
from devmod_readers.triton import Choice, choices_text, lines_of, parts_of, source_digest

STAND_IN = str(Path(__file__).parent / "standin_triton/site-packages")
KERNELS = """
import triton
SCALE = 3


def helper(x):
    return x + SCALE


@triton.jit
def add(x, n):
    return helper(x)


@triton.jit
def scale(x, n):
    return x * SCALE
"""
#: A program that launches both kernels, and a third specialization.
LAUNCHES = """
import kernels_of_test as k
import triton
print(k.add.launch("*fp32", "i32"), k.scale.launch("*fp32", "i32"), k.add.launch("*fp16", "i32"))
print(triton.compiled)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a program with kernels, and no trace of Triton behind a test."""
    (tmp_path / "kernels_of_test.py").write_text(KERNELS)
    for name in ("DEVMOD_TRITON", "TRITON_CACHE_MANAGER", "DEVMOD_TRUST", "CUDA_FORCE_PTX_JIT"):
        monkeypatch.delenv(name, raising=False)
    path = [STAND_IN, str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # of a source that changes at once
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(STAND_IN)
    before = {name: module for name, module in sys.modules.items() if _is_ours(name)}
    for name in before:
        del sys.modules[name]
    yield tmp_path
    for name in [name for name in sys.modules if _is_ours(name)]:
        del sys.modules[name]
    sys.modules.update(before)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in ("triton", "kernels_of_test")


def module(
    name: str, code: bytes, types: tuple[str, ...] = ("*fp32", "i32"), **changes: Any
) -> Any:
    """Return the module of a kernel, as `devmod triton build` makes it."""
    import kernels_of_test  # type: ignore[import-not-found]

    fields: dict[str, Any] = {
        "function": getattr(kernels_of_test, name),
        "signature": dict(zip(("x", "n"), types, strict=True)),
        "constants": {},
        "attributes": {},
        "options": {"num_warps": 4, "enable_fp_fusion": True, "extern_libs": ()},
        "target": SimpleNamespace(backend="cuda", arch=90, warp_size=32),
        "triton": "3.9.0",
        "environment": {},
    }
    fmt = changes.pop("fmt", "ptx")
    recorded = changes.pop("recorded", {})
    metadata = changes.pop("metadata", {})
    parts = parts_of(**fields | changes)
    text = json.dumps(
        {"parts": parts._asdict() | recorded, "metadata": {"name": name, "shared": 0} | metadata}
    )
    info = devmod.FunctionInfo(name, ["handle", "int32"])
    fmap = {f"{name}.{parts.identity}": info}
    payload = Payload("cuda", code, fmt, fmap, {"json": text})
    return module_of(payload, runtime=False)


def write(path: str, *modules: Any) -> None:
    """Write a file of kernels."""
    root = modules[0] if len(modules) == 1 else devmod.bundle(*modules, mixed=True)
    devmod.save(root, path, with_sources=True)


def run(script: str = LAUNCHES, **variables: str) -> tuple[list[str], str]:
    """Return the lines that a program prints, and its standard error."""
    done = forked.python("-c", script, env=os.environ | variables)
    return done.stdout.splitlines(), done.stderr


MANAGER = {"TRITON_CACHE_MANAGER": "devmod_runtime.triton:CacheManager"}
SERVE = 'from devmod.interop import triton as t\nt.serve("k.devmod"{})\n'


@pytest.mark.row("R60")
@pytest.mark.parametrize("way", ["call", "call behind the import", "variable"])
def test_a_recorded_specialization_is_not_compiled_and_any_other_is(way: str) -> None:
    write("k.devmod", module("add", b"from a file"), module("scale", b"scaled"))
    if way == "variable":
        lines, error = run(DEVMOD_TRITON="k.devmod", **MANAGER)
    else:
        before = "import triton\n" if "behind" in way else ""
        lines, error = run(before + SERVE.format("") + LAUNCHES)
    assert lines == ["b'from a file' b'scaled' b'compiled'", "['add']"]
    assert error == (
        "devmod: Triton compiled 1 kernel not in 'k.devmod': kernels_of_test:add(x: *fp16, n: i32) "
        "enable_fp_fusion=True: no file has these arguments\n"
    )
    _, error = run(DEVMOD_TRITON="k.devmod", DEVMOD_LOG="debug", **MANAGER)
    assert "\ndevmod: 2 Triton kernels came from 'k.devmod'\n" in error


@pytest.mark.row("R60")
def test_the_line_at_the_end_has_four_kernels_and_the_number_of_the_others() -> None:
    write("k.devmod", module("add", b"1"))
    script = "import kernels_of_test as k\nfor each in {}: k.add.launch(each, 'i32')"
    kinds = ["*fp16", "*bf16", "*i8", "*i16", "*i32"]
    for number, others in ((5, "1 other"), (6, "2 others")):
        names = [*kinds, "*i64"][:number]
        _, error = run(script.format(names), DEVMOD_TRITON="k.devmod", **MANAGER)
        assert error.startswith(f"devmod: Triton compiled {number} kernels not in 'k.devmod': ")
        assert error.count("no file has these arguments") == 4
        assert error.endswith(f"; and {others} (DEVMOD_LOG=debug)\n")


@pytest.mark.row("R60")
def test_a_changed_source_is_compiled(folder: Path) -> None:
    write("k.devmod", module("add", b"old"), module("scale", b"old"))
    launches = LAUNCHES.replace(', k.add.launch("*fp16", "i32")', "")
    path = folder / "kernels_of_test.py"
    for old, new, expected in (
        ("import triton", "import triton\n\n# lower in the file\n", "b'old' b'old'"),
        ("return helper(x)", "return helper(x) + 1", "b'compiled' b'old'"),
        ("x + SCALE", "x - SCALE", "b'compiled' b'old'"),
        ("SCALE = 3", "SCALE = 4", "b'compiled' b'compiled'"),
    ):
        path.write_text(KERNELS.replace(old, new, 1))
        lines, error = run(launches, DEVMOD_TRITON="k.devmod", **MANAGER)
        assert lines[0] == expected
        assert error.count("its source has changed") == expected.count("compiled")


@pytest.mark.row("R60")
def test_another_kernel_with_the_same_key_of_triton_is_compiled() -> None:
    write("k.devmod", module("add", b"old"))
    script = (
        "import kernels_of_test as k\nfor k.SCALE in (3, 4, 3):\n"
        "    print(k.add.launch('*fp32', 'i32'))\n"
    )
    lines, error = run(script, DEVMOD_TRITON="k.devmod", **MANAGER)
    assert lines == ["b'old'", "b'compiled'", "b'old'"]
    assert error.endswith("its source has changed\n")


@pytest.mark.row("R60")
def test_strict_is_an_error_that_says_what_to_record() -> None:
    write("k.devmod", module("add", b"1"))
    script = (
        SERVE.format(", strict=True") + "import kernels_of_test as k, devmod\n"
        "print(k.add.launch('*fp32', 'i32'))\n"
        "try:\n    k.scale.launch('*fp32', 'i32')\nexcept devmod.LaunchError as error:\n    print(error)\n"
        "import os, triton; print(triton.compiled, os.environ['DEVMOD_TRITON'].endswith(':strict'))\n"
    )
    lines, error = run(script)
    assert lines == [
        "b'1'",
        "the Triton kernel kernels_of_test:scale(x: *fp32, n: i32) enable_fp_fusion=True is not in 'k.devmod': no file has the function, and "
        "DEVMOD_TRITON is 'strict'. Record a run that launches it (devmod triton record -o kernels.json -- COMMAND), and build the file again "
        "(devmod triton build)",
        "[] True",
    ]
    assert error == ""


@pytest.mark.row("R60")
def test_why_a_kernel_of_the_file_does_not_fit() -> None:
    sm_80 = SimpleNamespace(backend="cuda", arch=80, warp_size=32)
    options = {"num_warps": 8, "enable_fp_fusion": True, "extern_libs": ()}
    constant = {"constants": {(1,): 2}}

    def reason(change: dict[str, Any]) -> str:
        variables = change.pop("variables", {})
        before = change.pop("before", "")
        write("k.devmod", module("add", b"1", **change))
        script = before + "import kernels_of_test as k\nk.add.launch('*fp32', 'i32')\n"
        _, error = run(script, DEVMOD_TRITON="k.devmod", **MANAGER, **variables)
        return error.rpartition("=True: ")[2].strip()

    knobs = "import triton.knobs as s\n"
    check_texts(
        {
            "the file was compiled by Triton 3.7.1": {"triton": "3.7.1"},
            "no file has it for cuda:90": {"target": sm_80},
            "no file has these options": {"options": options},
            "no file has these arguments": constant,
            'these variables are set: {"DISABLE_LLVM_OPT": "1"}': {
                "variables": {"DISABLE_LLVM_OPT": "1"}
            },
            "knobs.compilation.override is set": {
                "before": f"{knobs}s.compilation.override = True\n"
            },
            "knobs.amd.swap_mir is set": {"before": f"{knobs}s.amd.swap_mir = '/mir'\n"},
            "knobs.amd.scalarize_packed_fops is set": {
                "before": f"{knobs}s.amd.scalarize_packed_fops = True\n"
            },
            "add_stages_inspection_hook changes Triton's passes": {
                "before": f"{knobs}s.runtime.add_stages_inspection_hook = print\n"
            },
            "": {"variables": {"TRITON_DISABLE_LINE_INFO": "1"}},
        },
        reason,
    )


@pytest.mark.row("R60")
def test_each_kernel_of_a_function_is_read_once_for_all_differences() -> None:
    others = [module("add", b"1", options={"num_warps": each}) for each in (1, 2, 8)]
    write("k.devmod", *others)
    write("more.devmod", module("add", b"1", ("*fp16", "i32")))
    script = (
        "import json\nimport kernels_of_test as k\nfrom devmod_runtime._triton import served\n"
        "read = served._entry_of\nseen = []\n"
        "served._entry_of = lambda module: seen.append(1) or read(module)\n"
        "for each in ('*fp64', '*i8', '*i16'): k.add.launch(each, 'i32')\nprint(len(seen))\n"
        "from devmod.interop import triton\ntriton.serve('more.devmod')\n"
        "print(k.add.launch('*fp16', 'i32'), k.add.launch('*u8', 'i32'), len(seen))\n"
    )
    lines, _ = run(script, DEVMOD_TRITON="k.devmod", **MANAGER)
    assert lines == ["3", "b'1' b'compiled' 8"]


def test_the_first_of_two_files_serves_and_ptx_where_the_driver_is_to_compile_it() -> None:
    write("1.devmod", module("add", b"first"))
    write("2.devmod", module("add", b"second"), module("scale", b"scaled"))
    launches = LAUNCHES.replace(', k.add.launch("*fp16", "i32")', "")
    both = os.pathsep.join(("1.devmod", "2.devmod"))
    lines, error = run(launches, DEVMOD_TRITON=both, **MANAGER)
    assert (lines[0], error) == ("b'first' b'scaled'", "")
    cubin = Path(__file__).parents[3] / "compilers/targets/tests/vectors/triton/add.cuda.cubin"
    code = cubin.read_bytes()
    write("k.devmod", module("add", b"text"), module("add", code, fmt="cubin"))
    script = "import kernels_of_test as k\nprint(k.add.launch('*fp32', 'i32')[:4])\n"
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER)[0] == [str(code[:4])]
    variables = {"DEVMOD_TRITON": "k.devmod", "CUDA_FORCE_PTX_JIT": "1", **MANAGER}
    assert run(script, **variables)[0] == ["b'text'"]


@pytest.mark.row("R60")
def test_damaged_files_and_those_that_a_policy_refuses_serve_nothing(folder: Path) -> None:
    write("k.devmod", module("add", b"the code of this kernel"), module("scale", b"scaled"))
    data = (folder / "k.devmod").read_bytes()
    (folder / "k.devmod").write_bytes(data.replace(b"this kernel", b"that kernel"))
    lines, error = run(DEVMOD_TRITON="k.devmod", **MANAGER)
    assert lines == ["b'compiled' b'scaled' b'compiled'", "['add', 'add']"]
    assert "k.devmod': the cuda module with 'add." in error
    changed = data.replace(b'"name": "add"', b'"name": "odd"')
    assert changed != data
    (folder / "k.devmod").write_bytes(changed)
    lines, error = run(DEVMOD_TRITON="k.devmod", **MANAGER)
    assert lines == ["b'compiled' b'scaled' b'compiled'", "['add', 'add']"]
    assert "has no metadata of Triton" in error
    write("k.devmod", module("add", b"1", recorded={"triton": "3.7.1"}))
    lines, error = run(DEVMOD_TRITON="k.devmod", **MANAGER)
    assert lines[0].startswith("b'compiled' ")
    assert "has the metadata of another kernel" in error
    (folder / "policy.toml").write_text("")
    script = (
        "try:\n    import kernels_of_test as k; k.add.launch('*fp32', 'i32')\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
        "import triton; print(triton.compiled)"
    )
    variables = {"DEVMOD_TRUST": str(folder / "policy.toml"), "DEVMOD_TRITON": "k.devmod"}
    lines, _ = run(script, **variables, **MANAGER)
    assert lines[0].endswith("Error")
    assert lines[1] == "[]"


@pytest.mark.row("R60")
def test_another_file_serves_a_kernel_that_is_damaged_in_the_first(folder: Path) -> None:
    launch = "import kernels_of_test as k, triton\nprint(k.add.launch('*fp32', 'i32'))"
    paths = {"DEVMOD_TRITON": f"first.devmod{os.pathsep}second.devmod", "DEVMOD_LOG": "debug"}
    for name in ("first", "second"):
        write(f"{name}.devmod", module("add", f"the code of {name}".encode()))
    assert run(launch, **paths, **MANAGER)[0] == ["b'the code of first'"]
    path = folder / "first.devmod"
    path.write_bytes(path.read_bytes().replace(b"code of", b"evil of"))
    lines, error = run(launch, **paths, **MANAGER)
    assert lines == ["b'the code of second'"]
    assert "Get the file again from where it came. Another file has the kernel\n" in error
    path = folder / "second.devmod"
    path.write_bytes(path.read_bytes().replace(b"code of", b"evil of"))
    lines, error = run(launch, **paths, **MANAGER)
    assert lines == ["b'compiled'"]
    assert f"{str(path)!r}: the cuda module with 'add." in error


@pytest.mark.row("R60")
def test_a_file_that_the_variable_names_is_missing(folder: Path) -> None:
    script = (
        "import kernels_of_test as k\ntry:\n    k.add.launch('*fp32', 'i32')\n"
        "except OSError as error:\n    print(error, error.__notes__)\n"
    )
    lines, _ = run(script, DEVMOD_TRITON="missing.devmod", **MANAGER)
    note = "DEVMOD_TRITON names it. Correct the path there, or unset the variable: then Triton compiles its kernels"
    path = str(folder / "missing.devmod")
    assert lines == [f"[Errno 2] No such file or directory: {path!r} {[note]}"]


def test_what_cannot_be_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_runtime import triton

    devmod.save(devmod.const_loader({"w": b"1"}, {"f": ["w"]}), "other.devmod")
    path = str(folder / "other.devmod")
    assert refusal(devmod.FormatError, triton.serve, "other.devmod") == (
        f"{path!r} has no kernels of `devmod triton build`"
    )
    assert refusal(devmod.ArgumentError, triton.serve, f"a{os.pathsep}b") == (
        f"serve(path): the path {folder / 'a'!s}{os.pathsep}b' has {os.pathsep!r}, which separates paths in DEVMOD_TRITON"
    ).replace("path /", "path '/")
    assert refusal(FileNotFoundError, triton.serve, "missing.devmod")
    text = "serve(names): expected a dict such as {__name__: 'my_kernels'}, got "
    for names, shown in (
        ("scaled_add", "'scaled_add'"),
        ({"a": 3}, "'a': 3"),
        ({3: "a"}, "3: 'a'"),
        ({"a-b": "my-kernels"}, "'a-b': 'my-kernels'"),
        ({"a": "b."}, "'a': 'b.'"),
    ):
        error = refusal(devmod.ArgumentError, triton.serve, "other.devmod", names=names)
        assert error == text + shown
    write("k.devmod", module("add", b"1"))
    script = (
        "import sys\nsys.modules['triton'] = None\nimport devmod, devmod_runtime.triton as t\n"
        "try:\n    t.serve('k.devmod')\nexcept devmod.ToolchainNotFoundError as error:\n    print(error)\n"
    )
    lines, _ = run(script)
    assert lines == [
        f"{str(folder / 'k.devmod')!r} cannot be served: Triton is not installed. To add it: pip install triton"
    ]
    script = (
        "import devmod._util.temporary as t, os, tempfile\n"
        "def refuse(name, mode=0): raise PermissionError(13, 'Permission denied', name)\n"
        "os.mkdir = refuse\n"
        f"try:\n    {SERVE.format('').splitlines()[0]}\n    t.serve('k.devmod')\n"
        "except OSError as error:\n    print(error.errno, error.strerror.partition('(')[0])\n"
    )
    lines, _ = run(script)
    assert lines == [
        "13 'k.devmod' cannot be served: Triton opens kernels as files, and no folder can be written "
    ]


def test_kernels_are_in_memory_where_no_temporary_folder_can_be_written() -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("there is no /dev/shm here")
    write("k.devmod", module("add", b"1"))
    script = (
        "import os\nmkdir = os.mkdir\n"
        "def refuse(name, mode=0o777):\n"
        "    if not name.startswith('/dev/shm/'): raise PermissionError(13, 'Permission denied', name)\n"
        "    mkdir(name, mode)\n"
        "os.mkdir = refuse\n"
        "import kernels_of_test as k\nprint(k.add.launch('*fp32', 'i32'))\n"
        "from devmod_runtime._triton.hooks import server\nprint(server.folder()[:9])\n"
    )
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER) == (["b'1'", "/dev/shm/"], "")


#: Look up a library of a driver, as Triton does before it compiles one.
LIBRARY = """
import kernels_of_test as k
from triton.runtime import build, driver
k.add.launch("*fp32", "i32")
path = build.library({source!r}, {name!r})
print(path and open(path, "rb").read())
"""
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def library_of(stem: str, source: str, content: bytes) -> Any:
    """Return the module with a library for a source, as `devmod triton build` makes it."""
    name = f"{stem}.{sha256(source.encode()).hexdigest()[:32]}{SUFFIX}"
    return devmod.const_loader({name: content}, {name: [name]})


def test_a_machine_without_a_c_compiler_takes_the_library_of_the_driver() -> None:
    source = Path(STAND_IN, "triton/backends/nvidia/driver.c").read_text()
    script = LIBRARY.format(source=source, name="cuda_utils")
    for each, expected in ((source, "b'library'"), (f"{source} ", "None")):
        write("k.devmod", module("add", b"1"), library_of("cuda_utils", each, b"library"))
        assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER) == ([expected], "")


def test_the_library_of_amds_driver_gets_the_path_of_this_machine() -> None:
    source = Path(STAND_IN, "triton/backends/amd/driver.c").read_text()
    place = b"/*py_libhip_search_path*/".ljust(4096, b"/")
    library = library_of("hip_utils", source, b"<" + place + b"\0>")
    write("k.devmod", module("add", b"1"), library)
    script = LIBRARY.format(source="with the path", name="hip_utils")
    path = b"/opt/r\xc3\xb6cm/libamdhip64.so"
    expected = [str(b"<" + path.ljust(4096, b"\0") + b"\0>")]
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER) == (expected, "")


@pytest.mark.parametrize("backend", ["cuda", "hip"])
def test_the_launcher_of_a_signature_is_served_to_triton_3_6(backend: str) -> None:
    fields: dict[str, Any] = {"target": SimpleNamespace(backend=backend, arch=90, warp_size=32)}
    text, source = ("{0: '*fp32', 1: 'i32'} None",) * 2
    before = (
        "from triton.backends.nvidia import driver\n"
        "driver.make_launcher = lambda constants, *rest: ' '.join(map(str, rest))\n"
    )
    if backend == "hip":
        text = "{0: '*fp32', 1: 'i32'} 64 None /opt/röcm/libamdhip64.so"
        source = text.replace("/opt/röcm/libamdhip64.so", "/*py_libhip_search_path*/")
        before = (
            "from triton.runtime import driver as d\nd.target.backend = 'hip'\n"
            "from triton.backends.amd import driver\n"
            "path = driver._get_path_to_hip_runtime_dylib()\n"
            "driver.make_launcher = lambda constants, *rest: ' '.join(map(str, (*rest, path)))\n"
        )
    script = before + LIBRARY.format(source=text, name="__triton_launcher")
    other = before + LIBRARY.format(source=text.replace("i32", "i64"), name="__triton_launcher")
    kernel = module("add", b"1", metadata={"warp_size": 64}, **fields)
    write("k.devmod", kernel, library_of("__triton_launcher", source, b"launcher"))
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER) == (["b'launcher'"], "")
    assert run(other, DEVMOD_TRITON="k.devmod", **MANAGER) == (["None"], "")


@pytest.mark.row("R60")
def test_a_damaged_library_is_compiled_and_an_error_where_files_alone_serve(folder: Path) -> None:
    source = Path(STAND_IN, "triton/backends/nvidia/driver.c").read_text()
    script = LIBRARY.format(source=source, name="cuda_utils")
    library = library_of("cuda_utils", source, b"the code of this library")
    write("k.devmod", module("add", b"1"), library)
    path = folder / "k.devmod"
    path.write_bytes(path.read_bytes().replace(b"this library", b"that library"))
    lines, error = run(script, DEVMOD_TRITON="k.devmod", **MANAGER)
    assert lines == ["None"]
    assert error.startswith(
        f"devmod: Triton compiled 1 kernel not in 'k.devmod': the library cuda_utils: {str(path)!r}: "
    )
    guarded = script.replace("\n", "\n    ").replace("    \n", "\n")
    script = f"try:{guarded}pass\nexcept Exception as error:\n    print(type(error).__name__)\n"
    lines, error = run(script, DEVMOD_TRITON=f"k.devmod{os.pathsep}strict", **MANAGER)
    assert (lines, error) == (["FormatError"], "")


@pytest.mark.row("R60")
def test_a_kernel_is_served_whose_constants_json_does_not_have(folder: Path) -> None:
    types = "class dtype(str):\n    primitive_bitwidth = 16\n\n\nKIND = (dtype('fp16'), 2)\n"
    path = folder / "kernels_of_test.py"
    path.write_text(f"{KERNELS}\n\n{types}")
    import kernels_of_test

    constants = {"constants": {(1,): (kernels_of_test.KIND,)}}
    write("k.devmod", module("add", b"of the tuple", ("*fp32", "constexpr"), **constants))
    script = (
        "import kernels_of_test as k\nfrom triton.runtime import jit\n"
        "def refuse(*_): raise TypeError('Object of type dtype is not JSON serializable')\n"
        "jit.serialize_specialization_data = refuse\n"
        "print(k.add.launch('*fp32', 'constexpr', constants={(1,): (k.KIND,)}))\n"
    )
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER) == (["b'of the tuple'"], "")


def test_other_hooks_and_another_cache_stay() -> None:
    write("k.devmod", module("add", b"1"))
    script = """
import triton.knobs as s
from triton.runtime.cache import FileCacheManager
calls = []

def first(**arguments):
    calls.append("first")

class Cache(FileCacheManager):
    def put_group(self, filename, group):
        calls.append("cache")

s.runtime.jit_cache_hook = first
s.cache.manager_class = Cache
from devmod_runtime.triton import serve
serve("k.devmod")
import kernels_of_test as k
print(k.add.launch("*fp32", "i32"), calls)

def second(before=s.runtime.jit_cache_hook, **arguments):
    calls.append("second")
    return before(**arguments)

s.runtime.jit_cache_hook = second
print(k.scale.launch("*fp32", "i32"), calls)
calls.clear()
print(k.add.launch("*fp32", "i32"), calls)
s.runtime.jit_cache_hook = lambda **arguments: True
print(k.add.launch("*fp32", "i32"))
"""
    lines, _ = run(script)
    assert lines == [
        "b'1' ['first']",
        "b'compiled' ['first', 'second', 'first', 'cache']",
        "b'1' ['second']",
        "b'skipped'",
    ]


def test_what_no_record_can_have_is_compiled_as_without_the_hook() -> None:
    write("k.devmod", module("add", b"1"))
    script = (
        "import kernels_of_test as k\n"
        "print(k.add.launch('*fp32', 'constexpr', constants={(1,): object}))\n"
    )
    lines, error = run(script, DEVMOD_TRITON="k.devmod", **MANAGER)
    assert lines == ["b'compiled'"]
    assert error.endswith("kernels_of_test:add: the constant <class 'object'> is a type\n")
    script = (
        "import kernels_of_test as k\nk.add.is_gluon = lambda: True\nk.add.launch('*fp32', 'i32')\n"
    )
    _, error = run(script, DEVMOD_TRITON="k.devmod", **MANAGER)
    assert error.endswith("kernels_of_test:add: it is in Gluon, and not in Triton's language\n")


FORKS = """
import multiprocessing, os, sys
from devmod_runtime.triton import serve

def work():
    import kernels_of_test as k, triton
    print(k.add.launch("*fp32", "i32"), k.scale.launch("*fp32", "i32"), triton.compiled, flush=True)

if __name__ == "__main__":
    serve("k.devmod")
    for way in ("fork", "spawn"):
        child = multiprocessing.get_context(way).Process(target=work)
        child.start()
        child.join()
        assert child.exitcode == 0
"""


def test_worker_processes_are_served(folder: Path) -> None:
    write("k.devmod", module("add", b"1"))
    (folder / "workers.py").write_text(FORKS)
    done = subprocess.run(
        [sys.executable, "workers.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "b'1' b'compiled' ['scale']\n" * 2
    assert done.stderr.count("devmod: Triton compiled 1 kernel not in 'k.devmod': ") == 2


STRICT_WORKERS = """
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor

def work(name):
    import kernels_of_test as k
    return getattr(k, name).launch("*fp32", "i32")

if __name__ == "__main__":
    os.environ |= {variables}
    for way in ("fork", "spawn", "forkserver"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(way)) as pool:
            error = pool.submit(work, "scale").exception()
            print(way, pool.submit(work, "add").result(), type(error).__name__, "no file has the f" in str(error))
"""


@pytest.mark.row("R60")
def test_strict_holds_in_worker_processes_that_get_the_variables_alone(folder: Path) -> None:
    write("k.devmod", module("add", b"1"))
    variables = {"DEVMOD_TRITON": f"{folder / 'k.devmod'}:strict", **MANAGER}
    (folder / "workers.py").write_text(STRICT_WORKERS.format(variables=variables))
    done = subprocess.run(
        [sys.executable, "workers.py"], capture_output=True, text=True, check=True
    )
    expected = [f"{way} b'1' LaunchError True" for way in ("fork", "spawn", "forkserver")]
    assert done.stdout.splitlines() == expected


@pytest.mark.row("R60")
def test_a_package_that_a_loader_has_imported_under_another_name(folder: Path) -> None:
    """As the example for Hugging Face's kernels, with the steps of its `get_local_kernel`."""
    source = Path(__file__).parents[3] / "examples/hub_kernel/torch-ext/scaled_add"
    package = folder / "scaled_add"
    shutil.copytree(source, package)
    load = (
        "import importlib.util as u, sys\n"
        "name, file = '_scaled_add_cuda_1f5cf03', 'scaled_add/__init__.py'\n"
        "spec = u.spec_from_file_location(name, file)\n"
        "module = sys.modules[name] = u.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        'types = ["*fp32"] * 3 + ["i32", "fp32", "constexpr"]\n'
        "print(module.scaled_add_kernel.launch(*types, constants={(5,): 8}))\n"
    )
    assert run(load) == (["b'compiled'"], "")
    import scaled_add  # type: ignore[import-not-found]

    del sys.modules["scaled_add"]
    types = dict.fromkeys(("x", "y", "out"), "*fp32")
    signature = types | {"n": "i32", "scale": "fp32", "BLOCK": "constexpr"}
    changes = {"function": scaled_add.scaled_add_kernel, "signature": signature}
    write("scaled_add/kernels.devmod", module("add", b"1", **changes, constants={(5,): 8}))
    assert run(load) == (["b'1'"], "")
    # Without devmod-runtime, Triton compiles it.
    without = f"import sys\nsys.modules['devmod_runtime.triton'] = None\n{load}"
    assert run(without) == (["b'compiled'"], "")


def test_without_devmod_targets_the_module_of_interop_serves_alone() -> None:
    script = (
        "import sys, devmod\nsys.modules['devmod_targets'] = None\n"
        "print('triton' in dir(devmod.interop), devmod.interop.triton.serve.__module__)\n"
        "try:\n    devmod.interop.triton.load\nexcept devmod.ToolchainNotFoundError as error:\n    print(error)\n"
    )
    assert run(script)[0] == [
        "True devmod_runtime.triton",
        "devmod.interop.triton.load cannot be used here: devmod-targets is not installed. To add it: pip install devmod-targets",
    ]


#: A fork while another thread is in a hook: its thread may have that one's number.
FORK_IN_A_HOOK = """
import os, threading
import triton.knobs as s
import kernels_of_test as k
from devmod_runtime.triton import serve

is_in, may_go = threading.Event(), threading.Event()

def wait(**arguments):
    if os.getpid() == parent and threading.current_thread() is other:
        is_in.set()
        may_go.wait()

parent = os.getpid()
if {before}:
    s.runtime.jit_cache_hook = wait
serve("k.devmod")
from devmod_runtime._triton import hooks
if not {before}:
    hooks._BEFORE._act = wait
other = threading.Thread(target=lambda: k.add.launch("*fp32", "i32"))
other.start()
is_in.wait()
child = os.fork()
if not child:
    hooks._BEFORE._act = hooks._find
    thread = threading.Thread(target=lambda: print(k.add.launch("*fp32", "i32"), flush=True), daemon=True)
    thread.start()
    thread.join(20)
    os._exit(thread.is_alive())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
may_go.set()
other.join()
"""


@pytest.mark.parametrize("before", [True, False], ids=["the other hook", "the lock"])
def test_a_fork_is_served_while_another_thread_is_in_a_hook(folder: Path, before: bool) -> None:
    write("k.devmod", module("add", b"1"))
    done = subprocess.run(
        [sys.executable, "-c", FORK_IN_A_HOOK.replace("{before}", str(before))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["b'1'", "0"]


def test_a_fork_has_files_of_its_own() -> None:
    write("k.devmod", module("add", b"1"))
    script = (
        "import os, kernels_of_test as k\nk.add.launch('*fp32', 'i32')\n"
        "from devmod_runtime._triton.hooks import server\n"
        "def paths():\n    k.add.launch('*fp32', 'i32')\n"
        "    return [path for group in server._groups.values() for path in group.values()]\n"
        "before = paths()\n"
        "if not os.fork():\n    own = paths()\n    print(len(own), set(own).isdisjoint(before), flush=True)\n    server._close(os.getpid())\n    os._exit(0)\n"
        "os.wait()\nprint(all(map(os.path.exists, before)))\n"
    )
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER)[0] == ["2 True", "True"]


#: Launches of an autotuned function, whose GPU, source and configurations may have changed.
TUNED = """
import sys
import kernels_of_test as k
from triton.runtime import autotuner, driver
{change}
tuner = autotuner.Autotuner(k.add, ["n"], *{blocks})
class Array:
    dtype = "fp32"
print(tuner.run(Array, {n}), autotuner.measured)
"""


def choices(**changes: Any) -> bytes:
    """Return the choices of a file: BLOCK 128 of 128 and 256, for n 100 on a GPU of 132
    multiprocessors.
    """
    import kernels_of_test

    config = {"BLOCK": 128, "num_warps": 4}
    fields: dict[str, Any] = {
        "function": "kernels_of_test:add",
        "source": source_digest(kernels_of_test.add),
        "gpu": "cuda:90:32:132",
        "key": [100, "fp32"],
        "config": config,
        "milliseconds": 0.5,
        "others": [[config | {"BLOCK": 256}, None]],
    }
    version = changes.pop("triton", "3.9.0")
    return choices_text(version, [Choice(**fields | changes)])


def write_choices(text: bytes) -> None:
    constants = devmod.const_loader({"autotune": text}, {"autotune": ["autotune"]})
    write("k.devmod", module("add", b"1"), constants)


@pytest.mark.row("R60")
def test_a_choice_of_autotune_is_served_for_an_equal_gpu_alone() -> None:
    def result(change: str = "", blocks: str = "(256, 128)", n: int = 100) -> tuple[str, str]:
        script = TUNED.format(change=change, blocks=blocks, n=n)
        lines, error = run(script, DEVMOD_TRITON="k.devmod", DEVMOD_LOG="debug", **MANAGER)
        reasons = [line for line in error.splitlines() if "measures the conf" in line]
        return lines[0], " ".join(reasons).partition("kernels_of_test:add: ")[2]

    first = "k.scale.launch('*fp32', 'i32')\n"  # sets the hooks, as any launch before it
    measured = "256 [256, 128]"
    write_choices(choices())
    assert result(first) == ("128 []", "")
    serve = "from devmod_runtime.triton import serve; serve('k.devmod')"
    assert result(serve) == ("128 []", "")
    for change, options, reason in (
        ("driver.properties['multiprocessor_count'] = 114", {}, "no file has a choice"),
        ("driver.target.arch = 80", {}, "no file has a choice"),
        ("k.SCALE = 4", {}, "no file has a choice"),
        ("", {"n": 101}, "no file has a choice"),
        ("del driver.properties['multiprocessor_count']", {}, "KeyError: "),
    ):
        found, text = result(f"{first}{change}", **options)
        assert (found, text[: len(reason)]) == (measured, reason)
    assert result(first, blocks="(256, 128, 64)") == ("256 [256, 128, 64]", "the file has others")
    assert result(first, blocks="(256,)") == ("256 []", "")
    changed = f"{first}import triton.knobs as s; s.compilation.override = True"
    assert result(changed) == (measured, "")
    write_choices(choices(triton="3.8.0"))
    assert result(first)[0] == measured
    for bad in (b"[]", b"{", choices(key=3), choices(others=[{}])):
        write_choices(bad)
        assert result(first)[0] == measured


@pytest.mark.row("R60")
@pytest.mark.parametrize("chosen", [256, 128, 64])
def test_the_first_launch_of_a_process_with_the_variable_alone_takes_the_choice(
    chosen: int,
) -> None:
    def result(n: int) -> list[str]:
        script = TUNED.format(change="", blocks=blocks, n=n) + "print(vars(tuner).keys())"
        lines, error = run(script, DEVMOD_TRITON="k.devmod", **MANAGER)
        assert error == ""
        assert "_bench" not in lines.pop()
        return lines

    blocks = (256, 128, 64)
    configs = {each: {"BLOCK": each, "num_warps": 4} for each in blocks}
    config = configs.pop(chosen)
    write_choices(choices(config=config, others=[[each, 1.0] for each in configs.values()]))
    assert result(100) == [f"{chosen} []"]
    assert result(101) == ["256 [256, 128, 64]"]


#: The function is Triton's InterpretedFunction, as with TRITON_INTERPRET=1.
INTERPRETED = """
class InterpretedFunction:
    def __init__(self, fn):
        self.fn = fn

k.add = InterpretedFunction(k.add.fn)
"""
#: `early_config_prune` of the program may return any iterable, with which Triton alone works.
ITERATED = """
prune = autotuner.Autotuner.prune_configs

def prune_configs(self, kwargs):
    return (each for each in prune(self, kwargs))

autotuner.Autotuner.prune_configs = prune_configs
k.scale.launch("*fp32", "i32")
"""


@pytest.mark.row("R60")
def test_what_autotune_has_in_a_program_ends_no_launch() -> None:
    def result(change: str, blocks: str = "(256, 128)") -> tuple[str, str]:
        script = TUNED.format(change=change, blocks=blocks, n=100)
        lines, error = run(script, DEVMOD_TRITON="k.devmod", DEVMOD_LOG="debug", **MANAGER)
        reasons = [line for line in error.splitlines() if "measures the conf" in line]
        return lines[0], " ".join(reasons)

    first = "k.scale.launch('*fp32', 'i32')\n"
    write_choices(choices())
    found, reason = result(f"{first}{INTERPRETED}")
    assert found == "256 [256, 128]"
    assert "the configurations of a function: AttributeError: " in reason
    assert result(ITERATED) == ("128 []", "")
    assert result(ITERATED, "(256, 128, 64)")[0] == "256 [256, 128, 64]"


@pytest.mark.row("R60")
def test_choices_that_were_changed_or_that_a_policy_refuses_are_not_served(folder: Path) -> None:
    write_choices(choices())
    path = folder / "k.devmod"
    path.write_bytes(path.read_bytes().replace(b'"BLOCK": 128', b'"BLOCK": 256'))
    script = TUNED.format(change="k.scale.launch('*fp32', 'i32')", blocks="(256, 128)", n=100)
    lines, error = run(script, DEVMOD_TRITON="k.devmod", DEVMOD_LOG="debug", **MANAGER)
    assert lines == ["256 [256, 128]"]
    assert "choices of autotune are not served: " in error


@pytest.mark.row("R60")
def test_a_choice_is_recorded_with_its_gpu_and_all_times(folder: Path) -> None:
    script = TUNED.format(change="k.add.launch('*fp32', 'i32')", blocks="(256, 128)", n=100)
    run(script, DEVMOD_TRITON_RECORD=str(folder), **MANAGER)
    (choice,) = [Choice(**each["choice"]) for each in lines_of(str(folder)) if "choice" in each]
    text = choices_text("3.9.0", [choice])
    assert text == choices(
        config={"BLOCK": 256, "num_warps": 4},
        milliseconds=1 / 256,
        others=[[{"BLOCK": 128, "num_warps": 4}, 1 / 128]],
    )


def test_a_program_whose_name_cannot_be_imported_is_recorded_with_a_target_alone(
    folder: Path,
) -> None:
    (folder / "my-program.py").write_text(
        f"{KERNELS}\n"
        "import json, os\nfrom devmod_runtime._triton import record\n"
        "text = json.dumps({'options': {'num_warps': 4}})\n"
        "given = {'signature': {'x': '*fp32', 'n': 'i32'}, 'constants': {}, 'configs': [{}], 'specialization_data': text}\n"
        "record._compile_now = lambda *_: None\n"
        "record.record(add, given)\nos.environ['DEVMOD_TRITON_TARGETS'] = 'cuda'\nrecord.record(add, given)\n"
    )
    variables = os.environ | {"DEVMOD_TRITON_RECORD": str(folder)}
    subprocess.run([sys.executable, "my-program.py"], check=True, env=variables)
    skipped, recorded = lines_of(str(folder))
    assert skipped["skipped"].startswith("my-program:add: UnsupportedError: no import has this ")
    assert recorded["kernel"]["function"] == "my-program:add"


def test_a_kernel_stays_found_while_another_thread_looks_for_it() -> None:
    write("k.devmod", module("add", b"1"))
    script = """
import kernels_of_test as k
k.add.launch("*fp32", "i32")
from devmod_runtime._triton.hooks import server
found, answer = [], server._answer
server._answer = lambda seen: (found.append(seen.key in server._answers), answer(seen))[1]
k.add.launch("*fp32", "i32")
print(found)
"""
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER) == (["[True]"], "")


def test_threads_are_served_at_once() -> None:
    write("k.devmod", module("add", b"1"), module("scale", b"2"))
    script = """
import sys, threading
import kernels_of_test as k, triton
sys.setswitchinterval(1e-6)
barrier, found = threading.Barrier(8), []

def work(number):
    barrier.wait()
    for _ in range(20):
        kernel = (k.add, k.scale)[number % 2]
        found.append((kernel.launch("*fp32", "i32"), number % 2))

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(found), set(found) == {(b"1", 0), (b"2", 1)}, triton.compiled)
"""
    assert run(script, DEVMOD_TRITON="k.devmod", **MANAGER) == (["160 True []"], "")


@pytest.mark.row("R60")
def test_strict_without_a_file_is_an_error() -> None:
    script = "import kernels_of_test as k\nk.add.launch('*fp32', 'i32')"
    _, error = run(script, DEVMOD_TRITON="strict", **MANAGER)
    assert "is not in a file: no file has the function, and DEVMOD_TRITON is 'strict'" in error


def test_a_package_with_a_bundle_is_served_without_a_change_of_the_program(folder: Path) -> None:
    """A wheel has kernels.devmod and an entry point; the environment has Triton's variable."""
    for name in ("my_kernels", "other_kernels", "plain_kernels"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("import sys\nprint(__name__)\n")
        info = folder / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[devmod.bundles]\n{name} = {name}\n")
    write("my_kernels/k.devmod", module("add", b"of a package"))
    write("other_kernels/k.devmod", module("scale", b"of another"))
    devmod.save(devmod.const_loader({"w": b"1"}, {"f": ["w"]}), "plain_kernels/k.devmod")
    script = "import my_kernels, plain_kernels\n" + LAUNCHES
    lines, error = run(script, **MANAGER)
    # The other package is not imported, so its kernels cannot be launched.
    assert lines[:2] == ["my_kernels", "plain_kernels"]
    assert lines[2:] == ["b'of a package' b'compiled' b'compiled'", "['scale', 'add']"]
    assert error.startswith("devmod: Triton compiled 2 kernels not in 'my_kernels': ")
    later = script + "import other_kernels\nprint(k.scale.launch('*fp32', 'i32'))\n"
    assert run(later, **MANAGER)[0][-2:] == ["other_kernels", "b'of another'"]
    _, error = run(script, DEVMOD_TRITON="strict", **MANAGER)
    assert (
        "kernels_of_test:scale(x: *fp32, n: i32) enable_fp_fusion=True is not in 'my_kern" in error
    )
    denied = run(script, DEVMOD_PLUGINS_DENY="my_kernels", **MANAGER)
    assert denied[0][2].startswith("b'compiled' ")
    data = (folder / "my_kernels/k.devmod").read_bytes()
    (folder / "my_kernels/k.devmod").write_bytes(data[:-100])
    lines, error = run(script, DEVMOD_LOG="debug", **MANAGER)
    assert lines[2].startswith("b'compiled' ")
    assert "the bundle 'my_kernels' is not served to Triton: " in error
    script = "import kernels_of_test as k, sys\nk.add.launch('*fp32', 'i32')\nprint('devmod' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
