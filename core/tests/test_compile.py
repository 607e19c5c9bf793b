"""devmod.compile: its arguments, its results and its errors."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from each_case import check_texts, refusal
from forked import python

import devmod
from devmod._values.origin import Origin
from devmod._values.spec import TargetSpec
from devmod_targets.authoring import CompileRequest, Payload

KERNEL = "kernel void k(global float *x, int n) { x[0] = n; }\n"
GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
Register = Callable[[str, str, object], None]


def info(*types: str, name: str = "k", tags: tuple[str, ...] = ()) -> devmod.FunctionInfo:
    return devmod.FunctionInfo(name, types, tags)


def refused(error: type[devmod.DevmodError], *arguments: object, **named: object) -> str:
    return refusal(error, devmod.compile, *arguments, **named)


@pytest.fixture
def toy(register: Register, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[CompileRequest]]:
    """A target `toy` of somebody else's, whose compiler remembers what it was asked; `toy(result)`
    makes it return that.
    """

    def install(result: object = None, grid: bool = True) -> list[CompileRequest]:
        asked: list[CompileRequest] = []

        def compiler(request: CompileRequest) -> object:
            asked.append(request)
            code = f"{request.text}@{request.target.arch}".encode()
            return result or Payload(
                "toy",
                code,
                "bin",
                {"f": devmod.FunctionInfo("f", [])},
                None,
                Origin(str(request.target), "toycc 1"),
            )

        module = types.ModuleType("devmod_toy_compiler")
        module.compile = compiler  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "devmod_toy_compiler", module)
        register(
            "devmod.targets",
            "toy",
            TargetSpec(
                "toy",
                title="Toy",
                distribution="devmod-toy",
                formats=["bin"],
                languages={"toy": "Toy", "ty": "Toy"},
                compiler="devmod_toy_compiler:compile",
                has_grid=grid,
            ),
        )
        return asked

    return install


# -- the source and the target


@pytest.mark.row("R29", "R39")
def test_a_target_needs_no_runtime_and_no_driver() -> None:
    script = (
        "import sys, devmod\n"
        f"module = devmod.compile({KERNEL!r}, 'opencl')\n"
        "assert type(module).__name__ == 'FallbackModule', module\n"
        "bad = {'pyopencl', 'ctypes.util', 'devmod_opencl', 'numpy', 'socket', 'urllib'} & set(sys.modules)\n"
        "assert not bad, bad\n"
        "assert not [line for line in open('/proc/self/maps') if 'libOpenCL' in line or 'libpocl' in line]\n"
    )
    # The first listing of an environment's distributions imports importlib.metadata, which imports
    # socket.
    for each in (f"import devmod\ndevmod.compile({KERNEL!r}, 'opencl')", script):
        subprocess.run(
            [sys.executable, "-c", each],
            check=True,
            env=os.environ | {"DEVMOD_COMPILE_FORCE_FALLBACK": "1"},
        )


@pytest.mark.row("R29", "R39")
@pytest.mark.parametrize(
    ("source", "target"), [(KERNEL, "opencl"), ("@compute @workgroup_size(1) fn k() {}", "webgpu")]
)
def test_a_compile_imports_no_introspection(source: str, target: str) -> None:
    """`dataclasses` imports `inspect`, `ast`, `dis` and `tokenize`, which takes longer than the
    rest of a small compile.
    """
    script = (
        "import sys, devmod\n"
        f"devmod.compile({source!r}, {target!r})\n"
        "bad = {'dataclasses', 'inspect', 'dis', 'tokenize', 'numpy'} & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    # The first listing of an environment's distributions imports importlib.metadata.
    for each in (f"import devmod\ndevmod.compile({source!r}, {target!r})", script):
        subprocess.run(
            [sys.executable, "-c", each],
            check=True,
            env=os.environ | {"DEVMOD_COMPILE_FORCE_FALLBACK": "1"},
        )


def test_a_file_and_its_text_give_one_payload(tmp_path: Path) -> None:
    path = tmp_path / "k.cl"
    path.write_text(KERNEL)
    module = devmod.compile(path, devmod.Target("opencl"))
    assert module.save_to_bytes() == devmod.compile(KERNEL, "opencl").save_to_bytes()
    assert (module.kind, module.format, module.source) == ("opencl", "cl", {"cl": KERNEL})
    assert module.functions["k"].launch_param_tags == GRID


def test_a_str_is_text_and_a_path_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cl").write_text(KERNEL)
    assert refused(devmod.CompileError, "k.cl", "opencl") == (
        "the source is a str of one line that ends in '.cl': a str is always text. For the file, pass pathlib.Path('k.cl')"
    )
    assert refused(devmod.CompileError, " sub/K.CU\n", "opencl").endswith(
        "For the file, pass pathlib.Path('sub/K.CU')"
    )
    hint = ". The source is the str 'kernels/add.cl.in', and a str is always text. For the file, pass pathlib.Path('kernels/add.cl.in')"
    assert refused(devmod.CompileError, "kernels/add.cl.in", "opencl").endswith(hint)
    assert "pathlib" not in refused(devmod.CompileError, "kernel void f() { int x = ; }", "opencl")
    assert len(refused(devmod.CompileError, "kernels/" + "x" * 10_000, "opencl")) < 1000
    assert (
        refused(devmod.CompileError, KERNEL.encode(), "opencl")
        == "a source is a str (text) or an os.PathLike (a file), not bytes"
    )
    assert devmod.compile(Path("k.cl"), "opencl").source == {"cl": KERNEL}
    with pytest.raises(FileNotFoundError):
        devmod.compile(Path("no.cl"), "opencl")
    with pytest.raises(IsADirectoryError):
        devmod.compile(tmp_path, "opencl")


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        (
            "k.comp",
            "webgpu",
            "GLSL by its suffix, a source for vulkan; webgpu takes WGSL (.wgsl), Slang (.slang)",
        ),
        (
            "k.SPV",
            "webgpu",
            "SPIR-V by its suffix, a source for vulkan; webgpu takes WGSL (.wgsl), Slang (.slang)",
        ),
        ("k.metal", "opencl", "MSL by its suffix, a source for metal; opencl takes OpenCL C (.cl)"),
        (
            "k.wgsl",
            "vulkan",
            "WGSL by its suffix, a source for webgpu; vulkan takes GLSL (.comp), GLSL (.glsl), HLSL (.hlsl), SPIR-V (.spv), Slang (.slang), "
            "OpenCL C (.cl)",
        ),
    ],
)
def test_a_source_file_of_another_target_is_refused(
    name: str, kind: str, what: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"\x03\x02\x23\x07")
    language = what.partition(" takes ")[2].partition(" (")[0]
    assert refused(devmod.CompileError, tmp_path / name, kind) == (
        f"{name} is {what}. If the suffix is wrong, pass the language: devmod.compile(…, language={language!r})"
    )


@pytest.mark.parametrize("suffix", ["assembly", "object"])
def test_a_suffix_that_is_the_name_of_a_language_is_unknown(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"k.{suffix}").write_text(KERNEL)
    assert list(devmod.compile(tmp_path / f"k.{suffix}", "opencl").functions) == ["k"]


def test_the_language_overrides_the_suffix(tmp_path: Path) -> None:
    (tmp_path / "k.comp").write_text("kernel void k(global float *x) {}")
    assert list(devmod.compile(tmp_path / "k.comp", "opencl", language="OpenCL C").functions) == [
        "k"
    ]


def test_a_str_with_a_lone_surrogate_is_refused() -> None:
    assert refused(devmod.CompileError, "// \ud800\n" + KERNEL, "opencl") == (
        "<text>:1: the source has the character '\\ud800', which UTF-8 cannot encode"
    )


def test_the_error_for_a_kind_without_a_compiler(register: Register) -> None:
    register(
        "devmod.targets",
        "npu",
        TargetSpec("npu", title="NPU", distribution="devmod-npu", formats=["bin", "text"]),
    )
    assert refused(devmod.CompileError, "text", "npu") == (
        "this release of devmod has no compiler for npu. A payload from another compiler can be wrapped: "
        "devmod.create_with_fallback('npu', code, fmt, fmap), with fmt one of bin, text"
    )


@pytest.mark.row("R4")
def test_the_error_for_an_unknown_kind() -> None:
    assert refused(devmod.NotRegisteredError, "text", "nobodys -arch=x").startswith(
        "devmod.targets.nobodys is not registered"
    )
    assert refused(devmod.FormatError, "text", "No Kind").startswith(
        "the target 'No Kind' has 'Kind', which is not of the form"
    )


def test_invalid_arguments() -> None:
    check_texts(
        {
            "name= is a function's name, not ''": {"name": ""},
            "opencl has no language 'CUDA C++'; its languages: 'OpenCL C'": {
                "language": "CUDA C++"
            },
            "options= is a sequence of strings, not 3": {"options": 3},
            "options= has 3; each is a string": {"options": ["-w", 3]},
            "name_expressions= is a sequence of strings, not 'f<int>'": {
                "name_expressions": "f<int>"
            },
            "include= has '/no/such/folder', which is not a folder": {"include": "/no/such/folder"},
            "include= has 3; each is a folder's path": {"include": [3]},
            "include= is a folder's path, or a sequence of them, not 3": {"include": 3},
        },
        lambda arguments: refused(devmod.CompileError, KERNEL, "opencl", **arguments),
    )


# -- a target of somebody else's


def test_the_request_of_a_compiler(
    toy: Callable[..., list[CompileRequest]], tmp_path: Path
) -> None:
    asked = toy()
    (tmp_path / "wave.ty").write_text("program")
    fmap = {"f": devmod.FunctionInfo("f", [])}
    devmod.compile(
        tmp_path / "wave.ty",
        "toy -x=1",
        fmap=fmap,
        options="-a -b",
        defines={"N": 1},
        include=str(tmp_path),
        name_expressions=["f<int>"],
    )
    (request,) = asked
    assert (request.text, request.name, request.folder, request.stem) == (
        "program",
        "wave.ty",
        str(tmp_path),
        "wave",
    )
    assert (request.language, str(request.target), request.fmap) == ("Toy", "toy -x=1", fmap)
    assert (request.options, request.defines, request.include) == (
        ("-a", "-b"),
        {"N": "1"},
        (str(tmp_path),),
    )
    assert request.name_expressions == ("f<int>",)
    devmod.compile("text", "toy", name="entry", language="ty")
    assert (asked[1].name, asked[1].folder, asked[1].stem, asked[1].language) == (
        "<text>",
        "",
        "entry",
        "Toy",
    )


def test_a_default_needs_an_interface(toy: Callable[..., list[CompileRequest]]) -> None:
    toy()
    text = "block= needs the interface of 'f', and the compiler found none: declare it with fmap="
    assert refused(devmod.CompileError, "text", "toy", block=64) == text


def test_one_architecture_returns_a_module_and_several_a_bundle(
    toy: Callable[..., list[CompileRequest]],
) -> None:
    toy()
    one = devmod.compile("text", "toy -arch=a")
    assert (one.kind, one.origin) == ("toy", Origin("toy -arch=a", "toycc 1"))
    several = devmod.compile("text", "toy -arch=b,a")
    assert several.kind == "bundle"
    assert [str(module.origin.target) for module in several.imports if module.origin] == [
        "toy -arch=b",
        "toy -arch=a",
    ]
    assert list(several.functions) == ["f"]


def test_a_compiler_may_join_architectures(toy: Callable[..., list[CompileRequest]]) -> None:
    requests = toy()
    sys.modules["devmod_toy_compiler"].variants = lambda target: (target,)  # type: ignore[attr-defined]
    module = devmod.compile("text", "toy -arch=b,a")
    assert (module.kind, module.origin) == ("toy", Origin("toy -arch=b,a", "toycc 1"))
    assert [request.target.archs for request in requests] == [("b", "a")]


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("result", "what"),
    [("bytes", "str"), (Payload("cuda", b"", "ptx", {}), "a payload of kind 'cuda'")],
)
def test_a_broken_compiler_is_named(
    result: object, what: str, toy: Callable[..., list[CompileRequest]]
) -> None:
    toy(result)
    assert refused(devmod.PluginError, "text", "toy") == (
        f"the compiler of the target 'toy' (devmod_toy_compiler:compile) is broken: it returned {what}, not a devmod Payload of that kind"
    )


@pytest.mark.row("R8")
def test_a_missing_compiler_is_named(register: Register) -> None:
    spec = TargetSpec(
        "toy",
        title="Toy",
        distribution="devmod-toy",
        formats=["bin"],
        compiler="devmod_no_such:compile",
    )
    register("devmod.targets", "toy", spec)
    assert refused(devmod.PluginError, "text", "toy") == (
        "the compiler of the target 'toy' (devmod_no_such:compile) is broken: ModuleNotFoundError: No module named 'devmod_no_such'"
    )


# -- a declared fmap, merged over reflection


@pytest.mark.row("R35")
def test_declared_tags_are_merged() -> None:
    def tags(*declared: str) -> tuple[str, ...]:
        return (
            devmod.compile(KERNEL, "opencl", fmap={"k": info(tags=declared)})
            .functions["k"]
            .launch_param_tags
        )

    assert tags() == GRID
    assert tags("tirx.use_dyn_shared_memory", "tirx.use_cooperative_launch", "clusterCtaIdx.x") == (
        *GRID,
        "tirx.use_cooperative_launch",
        "clusterCtaIdx.x",
        "tirx.use_dyn_shared_memory",
    )
    assert tags("blockIdx.x", "threadIdx.x") == ("blockIdx.x", "threadIdx.x")
    assert refusal(devmod.CompileError, tags, "vthread.q").startswith(
        "the opencl function 'k' of the declared fmap cannot be called: its launch tag 'vthread.q' is unknown; expected blockIdx, "
    )
    assert tags("tirx.use_dyn_shared_memory", "blockIdx.x") == (
        "blockIdx.x",
        "tirx.use_dyn_shared_memory",
    )


def test_reflection_fills_in_a_declared_function() -> None:
    found = devmod.compile(KERNEL, "opencl").functions["k"]
    assert devmod.compile(KERNEL, "opencl", fmap={"k": info()}).functions == {"k": found}
    assert devmod.compile(KERNEL, "opencl", fmap={"k": info("handle", "int32")}).functions == {
        "k": found
    }
    own = devmod.Interface([devmod.Param("a", "buffer"), devmod.Param("b", "scalar", "int32")])
    declared = devmod.FunctionInfo("k", (), interface=None)
    assert (
        devmod.compile(KERNEL, "opencl", fmap={"k": declared}).functions["k"].interface
        == found.interface
    )
    declared = devmod.FunctionInfo("k", ["handle", "int32"], ["blockIdx.x"], [7], own)
    assert devmod.compile(KERNEL, "opencl", fmap={"k": declared}).functions["k"] == declared


def test_a_declared_function_may_have_another_name() -> None:
    source = KERNEL + "kernel void other(global float *x) {}\n"
    module = devmod.compile(source, "opencl", fmap={"mine": info(), "also": info()})
    assert list(module.functions) == ["mine", "also", "other"]
    assert module.functions["mine"].name == "k"


def test_a_declared_fmap_that_contradicts_the_source() -> None:
    check_texts(
        {
            "the declared fmap gives the opencl function 'k' 1 arguments; at <text>:1 it has 2": {
                "k": info("handle")
            },
            "the declared fmap gives argument 2 ('n') of the opencl function 'k' the type 'float32'; at <text>:1 it is 'int32'": {
                "k": info("handle", "float32")
            },
            "the declared fmap gives argument 1 ('x') of the opencl function 'k' the type 'float32'; at <text>:1 it is 'handle'": {
                "k": info("float32", "int32")
            },
            "the declared fmap maps 'm' to the opencl function 'm', which is missing in the source. Functions in the source: 'k'": {
                "m": info(name="m")
            },
        },
        lambda fmap: refused(devmod.CompileError, KERNEL, "opencl", fmap=fmap),
    )


def test_an_invalid_declared_fmap() -> None:
    with pytest.raises(devmod.FormatError):
        devmod.compile(KERNEL, "opencl", fmap={"k": 3})  # type: ignore[dict-item]


# -- R38: the inputs alone


@pytest.mark.row("R38")
def test_the_payload_depends_on_the_inputs_alone(tmp_path: Path) -> None:
    outputs = set()
    for index, folder in enumerate((tmp_path / "one", tmp_path / "two" / "deeper")):
        (folder / "src" / "inc").mkdir(parents=True)
        (folder / "src" / "k.cl").write_text(
            '#include "x.h"\n#include <inc.h>\n' + KERNEL.replace("n;", "n + X + INC;")
        )
        (folder / "src" / "x.h").write_text("#pragma once\n#define X 1\n")
        (folder / "src" / "inc" / "inc.h").write_text("#define INC 1\n")
        (folder / "noise").mkdir()
        (folder / "noise" / "stdint.h").write_text("typedef int int32_t;\n")
        script = (
            "import devmod, pathlib, sys\n"
            "module = devmod.compile(pathlib.Path(sys.argv[1]), 'opencl', include=sys.argv[2], options=['-w'], defines={'A': 1, 'B': 2})\n"
            "sys.stdout.buffer.write(devmod.dumps(module))\n"
        )
        environment = os.environ | {
            "PYTHONHASHSEED": str(index + 1),
            "CPATH": str(folder / "noise"),
            "DEVMOD_COMPILE_FORCE_FALLBACK": "01"[index],
        }
        if index:
            environment.pop(
                "DEVMOD_PLUGINS_ALLOW", None
            )  # and with whatever runtimes are installed here
            environment["DEVMOD_COMPILE_FORCE_FALLBACK"] = ""
        source = folder / "src" / "k.cl" if index else Path("src/k.cl")
        include = folder / "src" / "inc" if index else Path("src/inc")
        done = subprocess.run(
            [sys.executable, "-c", script, str(source), str(include)],
            check=True,
            capture_output=True,
            cwd=folder,
            env=environment,
        )
        outputs.add(done.stdout)
        assert str(tmp_path).encode() not in done.stdout
    assert len(outputs) == 1


@pytest.mark.row("R38")
def test_headers_of_the_host_are_never_read(tmp_path: Path) -> None:
    source = "#include <stdint.h>\nkernel void k(global int32_t *x) {}\n"
    message = refused(devmod.CompileError, source, "opencl")
    assert message == (
        "the OpenCL C source does not compile: <text>:1:10: error: 'stdint.h' file not found. No folder was searched: "
        "include= is empty. Add the folder that contains it: include=['FOLDER']"
    )
    (tmp_path / "stdint.h").write_text("typedef int int32_t;\n")
    script = f"import devmod\ndevmod.compile({source!r}, 'opencl')"
    done = python("-c", script, env=os.environ | {"CPATH": str(tmp_path)})
    assert "CompileError" in done.stderr


@pytest.mark.parametrize("kind", ["opencl", "vulkan", "webgpu", "metal"])
def test_the_error_without_the_build_side_has_the_command(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "devmod_targets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoBuildSide(), *sys.meta_path])
    assert refused(devmod.ToolchainNotFoundError, KERNEL, kind) == (
        f'{kind} cannot be compiled here: its compiler is not installed. To add it: pip install "devmod-core[build-{kind}]"'
    )


def test_the_error_of_another_wheels_kind_without_the_build_side_has_the_command(
    toy: Callable[..., list[CompileRequest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = toy()
    for name in [name for name in sys.modules if name.partition(".")[0] == "devmod_targets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoBuildSide(), *sys.meta_path])
    assert refused(devmod.ToolchainNotFoundError, "text", "toy") == (
        "toy cannot be compiled here: devmod-targets is not installed. To add it: pip install devmod-targets"
    )
    assert requests == []


class NoBuildSide:
    """An importer that does not find devmod_targets."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "devmod_targets":
            raise ModuleNotFoundError(f"No module named {name!r}", name="devmod_targets")
