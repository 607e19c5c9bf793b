"""`devmod triton record` and `build`: with a stand-in for Triton, and with Triton where it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import devmod
from devmod_readers.triton import (
    Choice,
    Specialization,
    choices_text,
    read_choices,
    read_record,
    write_record,
)
from devmod_targets.build import plan_of, read_manifest
from devmod_targets.build.build import input_files
from devmod_targets.build.pool import Pool
from devmod_targets.build.result import Outcome
from devmod_targets.triton import driver_library
from devmod_targets.triton.driver_library import build_libraries
from devmod_workbench._cli import main

STAND_IN = Path(__file__).parent / "standin_triton/site-packages"
HAS_TRITON = find_spec("triton") is not None
KERNELS = """
import triton
import triton.language as tl


@triton.jit
def helper(x):
    return x


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, helper(tl.load(x + i, mask=inside)) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def wrong(x):
    undefined


def kernel():
    pass


def builtin():
    pass


builtin.__triton_builtin__ = True
"""
ARGUMENTS = {
    "x": "*fp32:16",
    "y": "*fp32:16",
    "out": "*fp32:16",
    "n": "i32",
    "BLOCK": {"value": 256},
}
ADD = Specialization("packaged_kernels:add", ARGUMENTS, {"num_warps": 4})


@pytest.fixture(params=["stand-in", "installed"])
def version(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The version of Triton, or of its stand-in, which can be imported beside kernels here."""
    if request.param == "installed":
        pytest.importorskip("triton", reason="needs triton, a wheel of 286 MB")
    elif HAS_TRITON:
        pytest.skip("Triton itself is installed")
    else:
        for name in [each for each in sys.modules if each.partition(".")[0] == "triton"]:
            del sys.modules[name]
        monkeypatch.syspath_prepend(str(STAND_IN))
    (tmp_path / "packaged_kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent)])
    import triton

    yield triton.__version__
    sys.modules.pop("packaged_kernels", None)
    if request.param == "stand-in":
        for name in [each for each in sys.modules if each.partition(".")[0] == "triton"]:
            del sys.modules[name]


def write(
    version: str, *kernels: Specialization, path: str = "k.json", choices: tuple[Choice, ...] = ()
) -> None:
    Path(path).write_text(write_record(version, kernels, choices))


def build(*words: str) -> int:
    """Run the command without a C compiler, which makes the library of the driver."""
    status = main(["triton", "build", *words, "-j", "1"])
    assert isinstance(status, int)
    return status


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No C compiler, and the headers of Python, which a machine may lack."""
    monkeypatch.setenv("CC", "/missing/cc")
    headers = tmp_path / "include"
    headers.mkdir()
    (headers / "Python.h").touch()
    paths = {**sysconfig.get_paths(), "include": str(headers)}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: paths)


TARGETS = ("-t", "cuda -arch=compute_90,sm_90", "-t", "rocm -arch=gfx1100")


@pytest.mark.usefixtures("no_compiler")
def test_a_record_becomes_a_file_that_devmod_and_triton_read(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(version, ADD)
    assert build("k.json", *TARGETS, "-o", "k.devmod") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"[\d.]+ (CPU|kB)", r"… \1", line) for line in lines] == [
        "the file has no library of Triton's driver, so each machine compiles it: cc cannot be run: No such file or directory",
        "cuda -arch=compute_90: 1 of 1 kernel, … CPU seconds",
        "cuda -arch=sm_90: 1 of 1 kernel, … CPU seconds",
        "rocm -arch=gfx1100: 1 of 1 kernel, … CPU seconds",
        "k.devmod: … kB, 3 kernels",
    ]
    data = Path("k.devmod").read_bytes()
    root = devmod.load("k.devmod")
    found = sorted((each.kind, each.format) for each in root.imports)
    assert found == [("cuda", "cubin"), ("cuda", "ptx"), ("rocm", "hsaco")]
    for module in root.imports:
        (name,) = module.functions
        entry = json.loads(module.source["json"])
        assert re.fullmatch(r"add\.[0-9a-f]{32}", name)
        assert entry["parts"]["function"] == "packaged_kernels:add"
        assert entry["parts"]["triton"] == version
        assert entry["metadata"]["num_warps"] == 4
        assert not {"hash", "extern_libs"} & entry["metadata"].keys()
        assert os.getcwd() not in module.source["json"]
        hint = ":2G" if module.kind == "rocm" else ""
        arguments = json.loads(entry["parts"]["arguments"])
        assert arguments["x"].partition(":16")[2] == hint
    names = {each.format: next(iter(each.functions)) for each in root.imports}
    assert names["cubin"] == names["ptx"] != names["hsaco"]
    # Again, from the cache: the same bytes.
    assert build("k.json", *TARGETS, "-o", "again.devmod", "-q") == 0
    assert Path("again.devmod").read_bytes() == data
    assert capsys.readouterr().out == ""
    del sys.modules["packaged_kernels"]  # builds compile in this process here
    source = Path("packaged_kernels.py")
    source.write_text(KERNELS.replace("return x", "return x + 1"))
    assert build("k.json", *TARGETS, "-o", "changed.devmod", "-q") == 0
    changed = {next(iter(each.functions)) for each in devmod.load("changed.devmod").imports}
    assert changed.isdisjoint(names.values())


@pytest.mark.usefixtures("no_compiler")
def test_without_the_headers_of_python_each_machine_compiles_the_library(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "include" / "Python.h").unlink()
    write(version, ADD)
    assert build("k.json", "-t", "cuda -arch=sm_90", "-o", "k.devmod") == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "the file has no library of Triton's driver, so each machine compiles it: the headers of Python are not installed"
    )


@pytest.mark.usefixtures("no_compiler")
def test_the_library_of_the_driver_loads_that_of_cuda(
    version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program may have loaded it for itself alone."""
    assert version
    monkeypatch.delenv("CC")
    if not any(map(shutil.which, ("gcc", "clang", "cc"))):
        pytest.skip("no C compiler is installed")
    source = "int cuInit(unsigned);\nint start(void) { return cuInit(0); }\n"
    monkeypatch.setattr(driver_library, "driver_source", lambda *_: source)
    libraries, lines = build_libraries(["cuda -arch=sm_90"], [], 1, cache=False)
    (data,) = libraries.values()
    assert not lines
    assert b"\0libcuda.so.1\0" in data


def test_a_file_of_triton_3_6_has_the_launcher_of_each_signature(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those for AMD have a place for the path of HIP's library."""
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    if not any(map(shutil.which, ("gcc", "clang", "cc"))) or not headers.exists():
        pytest.skip("no C compiler, or no header of Python, is installed")
    search = "_get_path_to_hip_runtime_dylib"
    nvidia = import_module("triton.backends.nvidia.driver")
    amd = import_module("triton.backends.amd.driver")

    def launcher(constants: Any, signature: Any, descriptors: Any) -> str:
        assert not constants
        assert not descriptors
        return f'#include "cuda.h"\nconst char *types = "{list(signature.values())}";\n'

    def launcher_of_amd(_constants: Any, signature: Any, size: int, _descriptors: Any) -> str:
        path = getattr(amd, search)()
        return f'const char *path = "{path}";\nconst char *types = "{len(signature)} {size}";\n'

    monkeypatch.setattr(nvidia, "make_launcher", launcher, raising=False)
    monkeypatch.setattr(amd, "make_launcher", launcher_of_amd, raising=False)
    before = getattr(amd, search)
    types = ["*fp32", "*fp32", "*fp32", "i32", "constexpr"]
    half = ["*fp32", "*fp16", "*fp32", "i32", "constexpr"]
    path = "/*py_libhip_search_path*/"
    sources = [launcher({}, dict(enumerate(each)), None) for each in (types, half)]
    sources.append(f'const char *path = "{path}";\nconst char *types = "5 32";\n')
    other = ADD._replace(arguments={**ARGUMENTS, "BLOCK": {"value": 512}})
    more = ADD._replace(arguments={**ARGUMENTS, "y": "*fp16:16"})
    write(version, ADD, other, more)
    assert build("k.json", *TARGETS, "-o", "k.devmod") == 0
    assert getattr(amd, search) is before
    (loader,) = (each for each in devmod.load("k.devmod").imports if each.kind == "const_loader")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    names = {f"__triton_launcher.{sha256(each.encode()).hexdigest()[:32]}" for each in sources}
    found = {name.removesuffix(suffix) for name in loader.functions}
    assert {name for name in found if name.startswith("__triton")} == names
    assert sorted(name.partition(".")[0] for name in found - names) == ["cuda_utils", "hip_utils"]
    texts = {name: bytes(memoryview(loader[name]()[0])) for name in loader.functions}
    assert sum(path.ljust(4096, "/").encode() + b"\0" in each for each in texts.values()) == 2
    assert sum(b"'*fp16'" in each for each in texts.values()) == 1
    # Again, from the cache: the same bytes.
    monkeypatch.delattr(driver_library, "run_program")
    assert build("k.json", *TARGETS, "-o", "again.devmod") == 0
    assert Path("again.devmod").read_bytes() == Path("k.devmod").read_bytes()


@pytest.mark.usefixtures("no_compiler")
def test_what_cannot_be_compiled_is_a_line_and_the_rest_is_in_the_file(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: dict[str, dict[str, Any]] = {
        "packaged_kernels:gone is gone: the module has no 'gone'. Record again": {
            "function": "packaged_kernels:gone"
        },
        "'no_module', the module of no_module:add, cannot be imported: ModuleNotFoundError: No module named 'no_module'. --include FOLDER adds "
        "a folder to sys.path": {"function": "no_module:add"},
        "packaged_kernels:test.<locals>.add is inside of another function, and has no import path: compile it in the run that records it "
        "(devmod triton record -t TARGET -o FILE.devmod)": {
            "function": "packaged_kernels:test.<locals>.add"
        },
        "packaged_kernels:kernel is a function without @triton.jit here. Its package may not use Triton without a GPU: compile it in the run that "
        "records it (devmod triton record -t TARGET -o FILE.devmod)": {
            "function": "packaged_kernels:kernel"
        },
        "the record has packaged_kernels:add with the arguments 'x', and the function has 'x', 'y', 'out', 'n', 'BLOCK': record again": {
            "arguments": {"x": "*fp32"}
        },
        "Triton has no option 'num_warp' for cuda. Did you mean 'num_warps'?": {
            "options": {"num_warp": 8}
        },
        "the record has the type 'fp17', and Triton has no such one": {
            "arguments": {**ARGUMENTS, "BLOCK": {"value": {"type": "fp17"}}}
        },
        "the hint '8' of '*fp32:8' is none of '16', '2G'": {
            "arguments": {**ARGUMENTS, "x": "*fp32:8"}
        },
    }
    kernels = [ADD._replace(**change) for change in cases.values()]
    write(version, ADD, *kernels)
    Path("broken.json").write_text(
        write_record(version, [Specialization("packaged_kernels:wrong", {"x": "*fp32"}, {})])
    )
    assert build("k.json", "broken.json", "-t", "cuda -arch=sm_90", "-o", "k.devmod") == 1
    out = capsys.readouterr().out
    for text, kernel in zip(cases, kernels, strict=True):
        assert f"failed for cuda -arch=sm_90: {kernel}: {text}\n" in out
    assert "packaged_kernels:wrong(x: *fp32): the Triton function 'wrong' does not compile" in out
    assert "\ncuda -arch=sm_90: 1 of 10 kernels, " in out
    assert build("broken.json", "-t", "cuda -arch=sm_90", "-o", "none.devmod") == 1
    assert "none.devmod was not written: no kernel could be compiled" in capsys.readouterr().err
    assert not Path("none.devmod").exists()


@pytest.mark.usefixtures("no_compiler")
def test_a_builtin_of_triton_is_a_constant_and_no_kernel(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    constant = {"value": {"function": "packaged_kernels:builtin"}}
    write(version, ADD._replace(arguments={**ARGUMENTS, "BLOCK": constant}))
    build("k.json", "-t", "cuda -arch=sm_90", "-o", "k.devmod")
    assert "without @triton.jit here" not in capsys.readouterr().out
    write(version, ADD._replace(function="packaged_kernels:builtin"))
    assert build("k.json", "-t", "cuda -arch=sm_90", "-o", "k.devmod") == 1
    assert "expected a function with @triton.jit, got function" in capsys.readouterr().out


@pytest.mark.usefixtures("no_compiler")
def test_a_compile_that_ends_its_process_is_a_line(
    version: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Triton's compiler ends the process for some types that a person may write."""
    write(version, ADD)
    killed = Outcome(error="WorkerError", message="the worker process ended")
    monkeypatch.setattr(Pool, "run", lambda _pool, jobs: enumerate([killed for _ in jobs]))
    assert build("k.json", "-t", "cuda -arch=sm_90", "-o", "k.devmod") == 1
    assert capsys.readouterr().out == (
        f"failed for cuda -arch=sm_90: {ADD}: Triton crashed, or the machine has too little memory. Correct the types in the record, or "
        "record again; or try fewer processes (-j 1)\n"
    )


@pytest.mark.usefixtures("no_compiler")
def test_records_of_other_versions_and_bad_commands(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("3.0.0", ADD)
    target = ("-t", "cuda -arch=sm_90")
    assert build("k.json", *target, "-o", "k.devmod") == 0
    assert capsys.readouterr().out.startswith(
        f"k.json was recorded with Triton 3.0.0, and {version} compiles it: a program with 3.0.0 uses none of it\n"
    )
    Path("bad.json").write_text("{}")
    for words, text in (
        (("k.json", "-o", "k.devmod"), 'no target is given: -t "cuda -arch=sm_80,sm_90"'),
        (("k.json", *target, "-o", "k.json"), "k.json does not end in .devmod"),
        (
            ("k.json", "-t", "opencl", "-o", "k.devmod"),
            "Triton compiles for cuda and rocm, and not",
        ),
        (("bad.json", *target, "-o", "k.devmod"), "bad.json is no record of Triton's kernels: "),
        (("k.json", *target, "-o", "no/k.devmod"), "no/"),
    ):
        assert build(*words) != 0
        assert text in capsys.readouterr().err


@pytest.mark.usefixtures("no_compiler")
def test_a_file_has_the_choices_of_its_processors_and_its_version(version: str) -> None:
    choice = Choice("m:f", "ab", "cuda:90:32:132", [1], {"BLOCK": 2}, 0.5, [])
    other = choice._replace(gpu="cuda:80:32:108")
    write(version, ADD, choices=(other, choice))
    write("3.0.0", ADD, path="old.json", choices=(choice._replace(key=[2]),))
    target = ("-t", "cuda -arch=sm_90")
    assert build("k.json", "old.json", *target, "-o", "k.devmod", "-q") == 0
    *_, constants = devmod.load("k.devmod").imports
    (text,) = constants["autotune"]()
    assert read_choices(bytes(memoryview(text)), "") == (version, [choice])
    assert bytes(memoryview(text)) == choices_text(version, [choice])
    assert build("k.json", "-t", "rocm -arch=gfx1100", "-o", "k.devmod", "-q") == 0
    assert devmod.load("k.devmod").kind == "rocm"


RECORDER = """
import json, os, sys
lines = json.loads(sys.argv[1])
with open(os.path.join(os.environ["DEVMOD_TRITON_RECORD"], "1.jsonl"), "w") as file:
    for line in lines:
        print(json.dumps(line), file=file)
    print('{"kernel', file=file)
assert os.environ["TRITON_CACHE_MANAGER"] == "devmod_runtime.triton:CacheManager"
sys.exit(int(sys.argv[2]))
"""


def test_a_record_is_merged_over_runs_and_has_the_status_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def record(*lines: Any, status: int = 0) -> tuple[int, str]:
        words = [sys.executable, "-c", RECORDER, json.dumps(lines), str(status)]
        code = main(["triton", "record", "-o", "k.json", "--", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    def line(kernel: Specialization, version: str = "3.9.0") -> dict[str, Any]:
        return {"triton": version, "kernel": kernel._asdict()}

    choice = Choice("m:f", "ab", "cuda:90:32:132", [1], {"BLOCK": 2}, 0.5, [])
    other = ADD._replace(options={"num_warps": 8})
    assert record(status=3) == (
        3,
        f"{sys.executable} compiled nothing with Triton, so k.json is as before. Give a command that launches kernels, on a GPU or below `devmod simulate`\n",
    )
    assert not Path("k.json").exists()
    assert record(line(ADD), {"choice": choice._asdict()}) == (0, "k.json: 1 kernel\n")
    code, out = record(line(other), line(ADD), {"skipped": "m:g: why"}, {"skipped": "m:g: why"})
    assert (code, out) == (0, "not recorded: m:g: why\nk.json: 2 kernels\n")
    assert read_record(Path("k.json").read_text(), "") == ("3.9.0", [ADD, other], [choice])
    before = Path("k.json").read_bytes()
    code, out = record(line(ADD, "3.7.1"))
    assert code == 1
    assert (
        "k.json is the record of a run with Triton 3.9.0, and this run had 3.7.1: choose another file for -o"
        in out
    )
    assert Path("k.json").read_bytes() == before
    Path("package.json").write_text("{}")
    for words, text in (
        # The command is not run: it may take hours.
        (["-o", "package.json", "--", "no-such-program"], "package.json is no record of Triton's"),
        (["-o", "k.devmod", "--", "true"], "k.devmod: a record is a file such as kernels.json"),
        (["-t", "cuda -arch=sm_90", "-o", "k.json", "--", "true"], "k.json: a record is a file"),
        (["-o", "k.json", "--", "no-such-program"], "'no-such-program' cannot be started: "),
    ):
        assert main(["triton", "record", *words]) != 0
        assert text in capsys.readouterr().err


MANIFEST = """
targets = ["cuda -arch=compute_90,sm_90", "rocm -arch=gfx1100", "opencl"]
triton_records = ["k.json"]
"""


@pytest.mark.usefixtures("no_compiler")
def test_a_manifest_has_the_kernels_of_a_record(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(version, ADD)
    folder = Path("source/packages")
    folder.mkdir(parents=True)
    Path("packaged_kernels.py").rename(folder / "packaged_kernels.py")
    Path("devmod.toml").write_text(f'{MANIFEST}include = ["source/packages"]\n')
    assert main(["build"]) == 1
    assert (
        "devmod.toml is not built: the compile of 'k.json' imports the modules of Triton's functions"
        in capsys.readouterr().err
    )
    assert not Path("kernels.devmod").exists()
    allowed = ("build", "--allow-python", "-j", "1")
    assert main([*allowed]) == 0
    captured = capsys.readouterr()
    assert "the file has no library of Triton's driver" in captured.err
    kilobytes = r"kernels\.devmod: [\d.]+ kB, "
    assert re.fullmatch(rf"{kilobytes}3 kernels of Triton's records\n", captured.out)
    assert main([*allowed, "--plan"]) == 0
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [tuple(filter(None, map(str.strip, row))) for row in rows] == [
        ("k.json", "k.json", "cuda -arch=compute_90", "compile"),
        ("k.json", "k.json", "cuda -arch=sm_90", "compile"),
        ("k.json", "k.json", "rocm -arch=gfx1100", "compile"),
    ]
    assert main([*allowed, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["jobs"], report["triton_kernels"]) == ([], 3)
    found = devmod.load("kernels.devmod").imports
    assert sorted((each.kind, each.format) for each in found) == [
        ("cuda", "cubin"),
        ("cuda", "ptx"),
        ("rocm", "hsaco"),
    ]
    assert all(json.loads(each.source["json"])["parts"]["triton"] == version for each in found)
    data = Path("kernels.devmod").read_bytes()
    assert build("k.json", *TARGETS, "-I", str(folder), "-o", "k.devmod", "-q") == 0
    assert Path("k.devmod").read_bytes() == data
    # One target, with a kernel that cannot be compiled: Triton compiles it at its launch.
    write(version, ADD, ADD._replace(function="packaged_kernels:gone"))
    capsys.readouterr()
    assert main([*allowed, "-t", "rocm"]) == 0
    assert "failed for rocm -arch=gfx1100: packaged_kernels:gone(" in capsys.readouterr().err
    assert [each.kind for each in [devmod.load("kernels.devmod")]] == ["rocm"]
    write(version, ADD._replace(function="packaged_kernels:gone"))
    assert main([*allowed]) == 1
    assert "no kernel of " in capsys.readouterr().err


def test_mistakes_of_records_in_a_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("devmod.toml").write_text('targets = ["opencl"]\ntriton_records = ["k.json"]\n')
    assert main(["build", "--allow-python"]) == 1
    assert "'k.json' does not exist" in capsys.readouterr().err
    Path("k.json").write_text(write_record("3.9.0", [ADD]))
    assert main(["build", "--allow-python"]) == 1
    assert "no target is of the kinds of Triton, 'cuda', 'rocm'" in capsys.readouterr().err


def test_a_source_distribution_has_the_records(tmp_path: Path) -> None:
    (tmp_path / "devmod.toml").write_text(MANIFEST)
    (tmp_path / "k.json").write_text(write_record("3.9.0", [ADD]))
    paths = input_files(plan_of(read_manifest(tmp_path)))
    assert [Path(path).name for path in paths] == ["devmod.toml", "k.json"]
