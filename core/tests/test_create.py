"""create, create_with_fallback, load_from_bytes, load_from_file: runtime modules and fallbacks."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributions import install, run
from each_case import check_texts, raised, refusal
from support import KINDS, MAP_KINDS, sample

import devmod
from devmod._plugins.specs import find_spec
from devmod.backend import Payload, PayloadModule, module_of

Register = Callable[[str, str, object], None]


class RuntimeModule(PayloadModule):
    """A runtime module of any kind. Its functions return their own name."""

    def get_function(self, name: str, query_imports: bool = False) -> object:
        owner, info = self.find_function(name, query_imports)
        return (lambda: info.name) if owner is self else owner.get_function(name, query_imports)


def maker(kind: str) -> Callable[..., devmod.Module]:
    spec = find_spec(kind)
    assert spec is not None
    return lambda code, fmt, fmap, source: RuntimeModule(spec, fmt, fmap, code, source)


@pytest.mark.row("R18", "R23", "R28", "R29")
@pytest.mark.parametrize("kind", KINDS)
def test_the_fallback_equals_the_runtime_module_except_for_running(
    kind: str, register: Register
) -> None:
    code, fmt, fmap = sample(kind)
    fallback = devmod.create_with_fallback(kind, code, fmt, fmap, {fmt: "text"})
    register("devmod.create", kind, maker(kind))
    real = devmod.create_with_fallback(kind, code, fmt, fmap, {fmt: "text"})
    assert isinstance(real, RuntimeModule)
    assert not isinstance(fallback, RuntimeModule)
    assert fallback.kind == real.kind == kind
    assert fallback.format == real.format == fmt
    assert fallback.functions == real.functions == fmap
    assert fallback.save_to_bytes() == real.save_to_bytes()
    assert fallback.inspect_source() == real.inspect_source()
    assert fallback.property_mask == 1
    assert real.property_mask == 3
    assert real["add"]() == "add_kernel"


@pytest.mark.row("R18", "R25", "R42")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("runtime", [False, True])
def test_the_module_of_a_payload_has_its_origin(
    kind: str, runtime: bool, register: Register
) -> None:
    register("devmod.create", kind, maker(kind))
    code, fmt, fmap = sample(kind)
    origin = devmod.Origin(kind, "a compiler", ["-O2"])
    module = module_of(Payload(kind, code, fmt, fmap, {fmt: "text"}, origin), runtime=runtime)
    assert isinstance(module, RuntimeModule) is runtime
    assert module.source == {fmt: "text"}
    assert module.origin == devmod.loads(devmod.dumps(module)).origin == origin
    plain = devmod.create_with_fallback(kind, code, fmt, fmap)
    assert module.save_to_bytes() == plain.save_to_bytes()
    assert plain.origin is None


@pytest.mark.row("R25", "R28")
@pytest.mark.parametrize(
    ("value", "forced"),
    [
        ("1", True),
        ("yes", True),
        ("0", False),
        ("", False),
        ("false", False),
        ("FALSE", False),
        ("False", False),
        ("no", True),
    ],
)
def test_a_fallback_can_be_forced(
    value: str, forced: bool, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("devmod.create", "cuda", maker("cuda"))
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", value)
    module = devmod.create_with_fallback("cuda", *sample("cuda"))
    assert isinstance(module, RuntimeModule) is not forced
    if not forced:
        return
    # The runtime is installed: no word of its missing.
    text = refusal(devmod.RuntimeNotLinkedError, module.get_function, "add")
    assert text == (
        "the cuda function 'add' cannot be used here: this module is a fallback, made while DEVMOD_COMPILE_FORCE_FALLBACK was set. "
        "It can be inspected and saved. To run it, make it again without that, or load what it saves, where the CUDA runtime is "
        "installed (pip install devmod-cuda)"
    )
    assert refusal(
        devmod.RuntimeNotLinkedError, devmod.bundle(module).get_function, "add"
    ).endswith(
        "cuda/cuda: a fallback, made while DEVMOD_COMPILE_FORCE_FALLBACK was set; pip install devmod-cuda"
    )
    assert isinstance(devmod.create("cuda", *sample("cuda")), RuntimeModule)


@pytest.mark.row("R25", "R28")
@pytest.mark.parametrize(
    ("variable", "value", "todo"),
    [
        ("DEVMOD_PLUGINS_DENY", "acme-cuda", "remove acme-cuda from DEVMOD_PLUGINS_DENY"),
        ("DEVMOD_PLUGINS_ALLOW", "acme-other", "add acme-cuda to DEVMOD_PLUGINS_ALLOW"),
    ],
)
def test_a_fallback_of_an_excluded_runtime_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, todo: str
) -> None:
    install(tmp_path.resolve(), "acme-cuda", groups={"devmod.create": {"cuda": "acme_cuda:create"}})
    monkeypatch.syspath_prepend(str(tmp_path.resolve()))
    monkeypatch.delenv("DEVMOD_PLUGINS_ALLOW")
    monkeypatch.setenv(variable, value)
    module = devmod.create_with_fallback("cuda", *sample("cuda"))
    for ask, what in (
        (lambda: module.get_function("add"), "function 'add'"),
        (lambda: module.get_global("w"), "global 'w'"),
    ):
        assert refusal(devmod.RuntimeNotLinkedError, ask) == (
            f"the cuda {what} cannot be used here: this module is a fallback, made while {variable} excluded acme-cuda. It can be "
            f"inspected and saved. To run it, {todo} and make it again, or load what it saves where acme-cuda may be used"
        )
    assert refusal(
        devmod.RuntimeNotLinkedError, devmod.bundle(module).get_function, "add"
    ).endswith(f"cuda/cuda: a fallback, made while {variable} excluded acme-cuda")


@pytest.mark.row("R28", "R8")
def test_a_broken_plugin_is_never_a_silent_fallback(register: Register) -> None:
    register("devmod.create", "metal", lambda code, fmt, fmap, source: "not a module")
    assert (
        refusal(devmod.PluginError, devmod.create_with_fallback, "metal", *sample("metal"))
        == "devmod.create.metal is broken: the function registered in this process returned str, not a devmod.Module"
    )
    assert isinstance(devmod.create_with_fallback("vulkan", *sample("vulkan")), devmod.Module)


@pytest.mark.row("R8", "R9", "R28")
@pytest.mark.parametrize(
    ("distributions", "error"),
    [(["acme-metal"], "PluginError"), (["acme-metal", "acme-two"], "ConflictError")],
)
def test_an_entry_that_cannot_be_used_is_never_a_silent_fallback(
    distributions: list[str], error: str, tmp_path: Path
) -> None:
    for name in distributions:
        install(tmp_path / "site", name, groups={"devmod.create": {"metal": "acme_metal:create"}})
    (tmp_path / "site" / "acme_metal.py").write_text("import not_there\n")
    program = """
    import devmod
    try:
        print(devmod.create_with_fallback("metal", {}, "metal", {}))
    except devmod.DevmodError as error:
        print(type(error).__name__)
    """
    assert run(program, [tmp_path / "site"], tmp_path / "cache")[0] == f"{error}\n"


@pytest.mark.row("R8", "R24")
@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (
            lambda code, fmt, fmap, source: maker("rocm")(b"", "hip", {}, {}),
            "returned a module of kind 'rocm', not 'cuda'",
        ),
        (
            lambda code, fmt, fmap, source: devmod.create_with_fallback("opencl", b"", "cl", {}),
            "returned a fallback; a fallback exists at build time only",
        ),
    ],
)
def test_the_result_of_a_creator_is_checked(make: object, wrong: str, register: Register) -> None:
    register("devmod.create", "cuda", make)
    assert wrong in refusal(devmod.PluginError, devmod.create, "cuda", *sample("cuda"))


@pytest.mark.row("R28")
@pytest.mark.parametrize("forced", ["", "1"])
def test_a_kind_without_a_target_has_no_fallback(
    forced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", forced)
    error = raised(devmod.NotRegisteredError, devmod.create_with_fallback, "acme", b"", "bin", {})
    assert error.key == "devmod.create.acme"


@pytest.mark.row("R1", "R24")
@pytest.mark.parametrize("kind", KINDS)
def test_a_miss_of_create_and_load_names_the_key_and_the_wheel(kind: str) -> None:
    for act, key in (
        (lambda: devmod.create(kind, *sample(kind)), "create"),
        (lambda: devmod.load_from_bytes(kind, b""), "load_from_bytes"),
    ):
        text = refusal(devmod.NotRegisteredError, act)
        assert f"devmod.{key}.{kind}" in text
        assert f"pip install devmod-{kind}" in text


@pytest.mark.row("R11", "R14")
@pytest.mark.parametrize("kind", KINDS)
def test_code_is_bytes_or_a_map(kind: str) -> None:
    _, fmt, fmap = sample(kind)
    wrong: Any = b"x" if kind in MAP_KINDS else {"add": b"x"}
    text = refusal(devmod.FormatError, devmod.create_with_fallback, kind, wrong, fmt, fmap)
    expected = (
        f"a map of entry name to bytes, not {type(wrong).__name__}"
        if kind in MAP_KINDS
        else f"bytes, not {type(wrong).__name__}"
    )
    assert text == f"{kind}: the code is {expected}"


@pytest.mark.row("R14")
def test_an_unknown_format_lists_the_known_ones() -> None:
    assert (
        refusal(devmod.FormatError, devmod.create_with_fallback, "cuda", b"", "spv", {})
        == "cuda has no format 'spv'; its formats: cuda, ptx, cubin, fatbin"
    )


@pytest.mark.row("R14", "R16")
def test_the_formats_of_each_kind() -> None:
    formats = {kind: find_spec(kind).formats for kind in KINDS}  # type: ignore[union-attr]
    assert formats == {
        "cuda": ("cuda", "ptx", "cubin", "fatbin"),
        "rocm": ("hsaco", "hip"),
        "metal": ("metal", "metallib"),
        "vulkan": ("spv",),
        "opencl": ("cl", "il", "clbin", "xclbin", "awsxclbin", "aocx"),
        "hexagon": ("so",),
        "webgpu": ("wgsl",),
    }


def test_wrong_arguments_are_refused() -> None:
    check_texts(
        {
            "opencl: the fmap is a map of str to FunctionInfo, not int": (b"", "cl", 3),
            "opencl: the fmap is a map of str to FunctionInfo; it has 'f': str": (
                b"",
                "cl",
                {"f": "x"},
            ),
            "opencl: the source is a map of format to text; it has 'cl': int": (
                b"",
                "cl",
                {},
                {"cl": 3},
            ),
            "opencl: the source is a map of format to text, not int": (b"", "cl", {}, 3),
        },
        lambda arguments: refusal(
            devmod.FormatError, devmod.create_with_fallback, "opencl", *arguments
        ),
    )


def test_a_module_copies_mutable_arguments() -> None:
    code, fmap, source = bytearray(b"kernel"), {"f": devmod.FunctionInfo("f", [])}, {"cl": "text"}
    module = devmod.create_with_fallback("opencl", code, "cl", fmap, source)
    before = module.save_to_bytes()
    viewed = devmod.create_with_fallback(
        "opencl", memoryview(code).toreadonly(), "cl", fmap, source
    )
    code[:] = b"change"
    fmap.clear()
    source.clear()
    assert module.save_to_bytes() == viewed.save_to_bytes() == before
    assert [*module.functions] == ["f"]
    assert module.source == {"cl": "text"}


@pytest.mark.row("R25", "R27")
@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("cuda", "CUDA"),
        ("rocm", "ROCm"),
        ("metal", "Metal"),
        ("vulkan", "Vulkan"),
        ("opencl", "OpenCL"),
        ("hexagon", "Hexagon"),
        ("webgpu", "WebGPU"),
    ],
)
def test_the_error_of_a_fallback_names_the_missing_runtime(kind: str, title: str) -> None:
    def explode(code: bytes) -> bytes:
        raise AssertionError("a fallback compiled something")

    module = devmod.create_with_fallback(kind, *sample(kind))
    devmod.set_compiler(kind, explode)
    try:
        assert refusal(devmod.RuntimeNotLinkedError, module.get_function, "add") == (
            f"the {kind} function 'add' cannot be used here: this module is a fallback, made while the {title} runtime was not "
            f"installed. It can be inspected and saved. To run it: pip install devmod-{kind}"
        )
        assert (
            refusal(devmod.FunctionNotFoundError, module.get_function, "ad")
            == f"the {kind} module has no function 'ad'; it has: 'add'. Did you mean 'add'?"
        )
        with pytest.raises(devmod.RuntimeNotLinkedError, match="global 'table'"):
            module.get_global("table")
    finally:
        devmod.set_compiler(kind, None)


@pytest.mark.row("R25")
def test_a_fallback_searches_its_imports_with_query_imports() -> None:
    root = devmod.create_with_fallback("opencl", b"", "cl", {"one": devmod.FunctionInfo("one", [])})
    root.import_module(devmod.create_with_fallback("cuda", *sample("cuda")))
    with pytest.raises(devmod.FunctionNotFoundError):
        root.get_function("add")
    with pytest.raises(devmod.RuntimeNotLinkedError, match="pip install devmod-cuda"):
        root.get_function("add", query_imports=True)
    with pytest.raises(devmod.FunctionNotFoundError):
        root.get_function("three", query_imports=True)


@pytest.mark.row("R13", "R26")
@pytest.mark.parametrize(
    ("kind", "fmt", "source", "asked", "text"),
    [
        ("cuda", "cubin", {"cuda": "src"}, "", "src"),
        ("cuda", "cubin", {"cuda": "src"}, "cubin", ""),
        ("cuda", "ptx", {"cuda": "src"}, "", "src"),
        ("cuda", "ptx", {"cuda": "src"}, "ptx", "CODE"),
        ("cuda", "ptx", {"cuda": b"\xff\0src"}, "", "CODE"),
        ("cuda", "ptx", {"cuda": b"\xff\0src"}, "cuda", ""),
        ("cuda", "ptx", {"ptx": b"listing"}, "ptx", "CODE"),
        ("rocm", "hsaco", {"ll": "l", "hip": b"h"}, "", "l"),
        ("cuda", "ptx", {"cuda": "src"}, "cuda", "src"),
        ("cuda", "ptx", {"ptx": "listing"}, "ptx", "listing"),
        ("rocm", "hsaco", {"ll": "l", "asm": "a"}, "", "a"),
        ("rocm", "hsaco", {"ll": "l", "asm": "a", "hip": "h"}, "", "h"),
        ("rocm", "hsaco", {"ll": "l"}, "", "l"),
        ("metal", "metal", {}, "", "ONE\nTWO"),
        ("metal", "metallib", {}, "", ""),
        ("metal", "metallib", {"metal": "m"}, "", "m"),
        ("vulkan", "spv", {"spv": "; SPIR-V"}, "", "; SPIR-V"),
        ("opencl", "cl", {}, "cl", "CODE"),
        ("opencl", "clbin", {"cl": "k"}, "", "k"),
        ("hexagon", "so", {"asm": "a", "obj": b"\x00o"}, "", "a"),
        ("hexagon", "so", {"asm": "a", "obj": b"\x00o"}, "obj", ""),
        ("hexagon", "so", {"asm": b"a"}, "", ""),
        ("webgpu", "wgsl", {}, "", "ONE\nTWO"),
        ("webgpu", "wgsl", {"wgsl": "whole"}, "", "whole"),
        ("webgpu", "wgsl", {"wgsl": "whole"}, "wgsl", "whole"),
        ("opencl", "cl", {}, "nothing", ""),
    ],
)
def test_inspect_source(
    kind: str, fmt: str, source: dict[str, str | bytes], asked: str, text: str
) -> None:
    code: Any = {"one": b"ONE", "two": b"TWO"} if kind in MAP_KINDS else b"CODE"
    module = devmod.create_with_fallback(kind, code, fmt, {}, source)
    assert module.inspect_source(asked) == text
    assert module.source == source


@pytest.mark.row("R5", "R24")
def test_load_from_bytes_passes_the_bytes_and_raises_the_loaders_errors(register: Register) -> None:
    seen: list[memoryview] = []

    class Own(Exception):
        pass

    def load(data: memoryview) -> devmod.Module:
        seen.append(data)
        if not data:
            raise Own("mine")
        return maker("cuda")(bytes(data), "ptx", {}, {})

    register("devmod.load_from_bytes", "cuda", load)
    data = bytearray(b"module bytes")
    assert devmod.load_from_bytes("cuda", data).kind == "cuda"
    assert isinstance(seen[0], memoryview)
    assert seen[0].readonly
    assert seen[0].obj is data, "the bytes were copied"
    with pytest.raises(Own, match="mine"):
        devmod.load_from_bytes("cuda", b"")
    error = raised(devmod.ArgumentError, devmod.load_from_bytes, "cuda", "text")
    assert str(error) == (
        "load_from_bytes('cuda', data): data is bytes or another buffer, not str. devmod.load_from_file(path) takes a path"
    )
    assert error.argument == "data"


@pytest.mark.row("R5", "R43")
def test_load_from_bytes_takes_any_buffer(register: Register) -> None:
    seen: list[memoryview] = []

    def load(data: memoryview) -> devmod.Module:
        seen.append(data)
        return maker("cuda")(bytes(data), "ptx", {}, {})

    register("devmod.load_from_bytes", "cuda", load)
    square = memoryview(bytes(range(16))).cast("B", (4, 4))
    buffers: list[Any] = [
        memoryview(b"a-b-c-")[::2],
        square,
        np.zeros((0, 3), np.int32),
        np.asfortranarray(np.eye(2, dtype=np.int16)),
        array("i"),
    ]
    for data in buffers:
        devmod.load_from_bytes("cuda", data)
        assert bytes(seen[-1]) == memoryview(data).tobytes()
        assert (seen[-1].format, seen[-1].ndim, seen[-1].contiguous, seen[-1].readonly) == (
            "B",
            1,
            True,
            True,
        )


@pytest.mark.row("R19")
@pytest.mark.parametrize("view", [lambda data: data, lambda data: memoryview(data).toreadonly()])
def test_constants_are_copied_from_a_writable_buffer(view: Any) -> None:
    """The module is used and saved later, when the caller may have overwritten the buffer."""
    wire = devmod.const_loader({"w": b"abcd"}, {}).save_to_bytes()
    data = bytearray(wire)
    module = devmod.load_from_bytes("const_loader", view(data))
    data[:] = bytes(len(data))
    assert module.save_to_bytes() == wire
    assert bytes(memoryview(module.get_global("w"))) == b"abcd"


@pytest.mark.row("R2", "R24")
def test_an_alias_loads_a_module_of_its_kind(register: Register) -> None:
    register("devmod.load_from_bytes", "hsaco", lambda data: maker("rocm")(b"", "hsaco", {}, {}))
    assert devmod.load_from_bytes("hsaco", b"").kind == "rocm"
    register("devmod.load_from_bytes", "hip", lambda data: maker("cuda")(b"", "ptx", {}, {}))
    assert "returned a module of kind 'cuda', not 'rocm'" in refusal(
        devmod.PluginError, devmod.load_from_bytes, "hip", b""
    )


@pytest.mark.row("R2", "R22")
def test_load_from_file_selects_the_loader_by_format_or_suffix(
    register: Register, tmp_path: Path
) -> None:
    calls: list[tuple[str, str]] = []

    def load(path: str, fmt: str) -> devmod.Module:
        calls.append((path, fmt))
        return maker("cuda")(b"", "ptx", {}, {})

    for name in ("ptx", "cuda"):
        register("devmod.load_from_file", name, load)
    devmod.load_from_file(tmp_path / "k.ptx")
    devmod.load_from_file(str(tmp_path / "K.PTX"))
    devmod.load_from_file(tmp_path / "k.cu")
    devmod.load_from_file(tmp_path / "k.bin", "ptx")
    assert calls == [
        (str(tmp_path / name), fmt)
        for name, fmt in (("k.ptx", "ptx"), ("K.PTX", "ptx"), ("k.cu", "cuda"), ("k.bin", "ptx"))
    ]
    assert (
        refusal(devmod.FormatError, devmod.load_from_file, "kernel")
        == "'kernel' has no suffix, so its format is unknown; pass the format: load_from_file(path, 'ptx')"
    )
    with pytest.raises(
        devmod.NotRegisteredError, match=r"devmod\.load_from_file\.clbin.*pip install devmod-opencl"
    ):
        devmod.load_from_file("k.clbin")


@pytest.mark.row("R2")
def test_load_from_file_selects_the_loader_of_a_shared_object_by_machine(
    register: Register, tmp_path: Path
) -> None:
    def elf(machine: int, order: int = 1) -> bytes:
        return (
            b"\x7fELF\x01"
            + bytes([order])
            + bytes(12)
            + machine.to_bytes(2, "little" if order == 1 else "big")
        )

    path = tmp_path / "k.so"
    path.write_bytes(elf(164))
    with pytest.raises(
        devmod.NotRegisteredError,
        match=r"devmod\.load_from_file\.so_hexagon.*pip install devmod-hexagon",
    ):
        devmod.load_from_file(path)
    register(
        "devmod.load_from_file", "so_hexagon", lambda path, fmt: maker("hexagon")(b"", "so", {}, {})
    )
    assert devmod.load_from_file(path).kind == "hexagon"
    register(
        "devmod.load_from_file", "so_4660", lambda path, fmt: maker("hexagon")(b"", "so", {}, {})
    )
    path.write_bytes(elf(4660, order=2))
    assert devmod.load_from_file(path).kind == "hexagon"
    path.write_bytes(b"not ELF")
    assert (
        refusal(devmod.FormatError, devmod.load_from_file, path)
        == f"{str(path)!r} is not a shared object: it does not begin with an ELF header"
    )
    with pytest.raises(FileNotFoundError):
        devmod.load_from_file(tmp_path / "none.so")


@pytest.mark.row("R6", "R39")
def test_building_and_saving_import_no_backend_and_no_numpy(tmp_path: Path) -> None:
    code = """
import sys, devmod
info = devmod.FunctionInfo("f", ["handle"])
for kind, fmt in [("cuda", "ptx"), ("opencl", "cl"), ("hexagon", "so")]:
    devmod.create_with_fallback(kind, b"code", fmt, {"f": info}).save_to_bytes()
heavy = {"numpy", "pyopencl", "importlib.metadata", "pluggy", "clang"} & set(sys.modules)  # a cold read of a folder has importlib_metadata
assert not heavy, heavy
assert not [name for name in sys.modules if name.startswith("devmod_")]
"""
    env = {"DEVMOD_COMPILE_FORCE_FALLBACK": "1", "DEVMOD_CACHE_DIR": str(tmp_path), "PATH": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
