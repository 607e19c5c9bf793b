"""set_compiler and the hooks (R31)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest
from distributions import install, run
from each_case import raised, refusal
from support import KINDS, sample

import devmod
from devmod_runtime import run_compiler

pytestmark = pytest.mark.row("R31")
#: The results that two kinds accept from a replaced compiler, and their formats, as in messages.
OPENCL = ("elf or pocl or spirv or text", "cl, il, clbin, xclbin, awsxclbin, aocx")
CUDA = ("elf or fatbin or text", "cuda, ptx, cubin, fatbin")
hookimpl = pluggy.HookimplMarker("devmod")
Register = Callable[[str, str, object], None]


@pytest.fixture(autouse=True)
def no_compilers() -> Iterator[None]:
    yield
    for kind in KINDS:
        devmod.set_compiler(kind, None)


def test_the_pluggy_manager_is_made_once_for_each_set_of_plugins(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []

    class Manager(pluggy.PluginManager):
        def __init__(self, name: str) -> None:
            results.append(name)
            super().__init__(name)

    class Plugin:
        def __init__(self, result: bytes) -> None:
            self.result = result

        @hookimpl
        def devmod_compile(self, kind: str) -> bytes:
            return self.result

    monkeypatch.setattr(pluggy, "PluginManager", Manager)
    register("devmod.hooks", "devmod_compile.opencl", Plugin(b"first"))
    assert [run_compiler(b"kernel", devmod.Target("opencl")) for _ in range(3)] == [
        ("cl", b"first")
    ] * 3
    assert len(results) == 1
    devmod.register("devmod.hooks", "devmod_compile.opencl", Plugin(b"second"), replace=True)
    assert [run_compiler(b"kernel", devmod.Target("opencl")) for _ in range(2)] == [
        ("cl", b"second")
    ] * 2
    assert len(results) == 2
    devmod.register("devmod.hooks", "devmod_compile.opencl", None, replace=True)
    assert run_compiler(b"kernel", devmod.Target("opencl")) is None


def test_no_compiler_is_replaced_by_default() -> None:
    assert run_compiler(b"kernel", devmod.Target("opencl")) is None


@pytest.mark.parametrize(
    ("kind", "returned", "payload"),
    [
        ("cuda", b"\x7fELF...", ("cubin", b"\x7fELF...")),
        ("cuda", b".version 8.0", ("ptx", b".version 8.0")),
        ("cuda", ("fatbin", b"\x50\xed"), ("fatbin", b"\x50\xed")),
        ("cuda", b".version 8.0\0", ("ptx", b".version 8.0\0")),
        ("cuda", b"\x50\xed\x55\xba\x01\0", ("fatbin", b"\x50\xed\x55\xba\x01\0")),
        ("rocm", b"\x7fELF", ("hsaco", b"\x7fELF")),
        ("rocm", b"__CLANG_OFFLOAD_BUNDLE__\x01", ("hsaco", b"__CLANG_OFFLOAD_BUNDLE__\x01")),
        ("rocm", b"CCOB\x02\0", ("hsaco", b"CCOB\x02\0")),
        ("rocm", b"\x10\xff\x10\xad\x01", ("hsaco", b"\x10\xff\x10\xad\x01")),
        ("rocm", "// μ".encode(), ("hip", "// μ".encode())),
        ("metal", b"MTLB\x01\x80", ("metallib", b"MTLB\x01\x80")),
        ("metal", b"kernel", ("metal", b"kernel")),
        ("webgpu", b"@compute", ("wgsl", b"@compute")),
        ("vulkan", b"\x07\x23\x02\x03", ("spv", b"\x07\x23\x02\x03")),
        ("opencl", b"poclbin\0\x08", ("clbin", b"poclbin\0\x08")),
        ("opencl", b"\x03\x02\x23\x07", ("il", b"\x03\x02\x23\x07")),
        ("vulkan", b"\x03\x02\x23\x07", ("spv", b"\x03\x02\x23\x07")),
        ("opencl", b"kernel void", ("cl", b"kernel void")),
        ("opencl", ("clbin", b"poclbin"), ("clbin", b"poclbin")),
        ("hexagon", b"\x7fELF", ("so", b"\x7fELF")),
    ],
)
def test_the_format_of_a_compilers_result_follows_from_magic_bytes_or_is_given(
    kind: str, returned: Any, payload: tuple[str, bytes]
) -> None:
    seen: list[bytes] = []

    def compiler(code: bytes) -> Any:
        seen.append(code)
        return returned

    devmod.set_compiler(kind, compiler)
    assert run_compiler(memoryview(b"the code"), devmod.Target(kind)) == payload
    assert seen == [b"the code"]
    devmod.set_compiler(kind, None)
    assert run_compiler(b"the code", devmod.Target(kind)) is None


@pytest.mark.row("R16")
@pytest.mark.parametrize(
    ("kind", "returned", "error", "message"),
    [
        (
            "opencl",
            3,
            devmod.CompileError,
            "the compiler set for opencl returned int; it must return bytes or (format, bytes)",
        ),
        (
            "opencl",
            None,
            devmod.CompileError,
            "the compiler set for opencl returned NoneType; it must return bytes or (format, bytes)",
        ),
        (
            "opencl",
            ("ptx", b""),
            devmod.FormatError,
            "the compiler set for opencl returned the format 'ptx'; its formats: cl, il, clbin, xclbin, awsxclbin, aocx",
        ),
        *(
            (
                kind,
                returned,
                devmod.FormatError,
                f"the compiler set for {kind} returned {result} bytes. Expected {expected} bytes; for another payload, return (format, bytes), "
                f"with one of the formats {formats}",
            )
            for kind, returned, result, expected, formats in (
                ("opencl", b"MTLB", "metallib", *OPENCL),
                ("opencl", b"BC\xc0\xde", "unknown", *OPENCL),
                ("opencl", b"a\0b", "unknown", *OPENCL),
                ("opencl", b"", "no", *OPENCL),
                ("vulkan", b"text", "text", "spirv", "spv"),
                ("vulkan", b"\x7fELF", "elf", "spirv", "spv"),
                ("cuda", b"CCOB\x02", "compressed_offload_bundle", *CUDA),
                ("cuda", b"__CLANG_OFFLOAD_BUNDLE__", "offload_bundle", *CUDA),
                ("cuda", b"\x10\xff\x10\xad", "offload_binary", *CUDA),
                ("hexagon", b"\x50\xed\x55\xba", "fatbin", "elf", "so"),
                ("webgpu", b"poclbin\0", "pocl", "text", "wgsl"),
            )
        ),
    ],
)
def test_an_invalid_result_of_a_compiler_is_rejected(
    kind: str, returned: Any, error: type[devmod.DevmodError], message: str
) -> None:
    devmod.set_compiler(kind, lambda code: returned)
    assert refusal(error, run_compiler, b"", devmod.Target(kind)) == message


def test_the_exception_of_a_compiler_passes_through() -> None:
    devmod.set_compiler("opencl", lambda code: {}["missing"])  # type: ignore[arg-type, return-value]
    with pytest.raises(KeyError, match="missing"):
        run_compiler(b"", devmod.Target("opencl"))


def test_set_compiler_checks_its_arguments() -> None:
    text = refusal(devmod.CompileError, devmod.set_compiler, "opencl", "gcc")
    assert text == "set_compiler('opencl', …) takes a function, not str"
    assert refusal(devmod.CompileError, devmod.set_compiler, "acme", bytes).startswith(
        "nothing can be compiled for the kind 'acme': devmod.targets.acme is not registered, and no known distribution provides it; "
    )
    assert refusal(devmod.CompileError, devmod.set_compiler, "ptx", bytes) == (
        "nothing can be compiled for the kind 'ptx': devmod.targets.ptx is not registered: ptx is a format of cuda, not a kind; "
        "devmod.create('cuda', code, 'ptx', fmap) takes a payload in memory, devmod.load_from_file(path) a payload file"
    )


@pytest.mark.row("R38")
def test_a_replaced_compiler_changes_no_bytes() -> None:
    before = devmod.create_with_fallback("opencl", *sample("opencl")).save_to_bytes()
    devmod.set_compiler("opencl", lambda code: ("clbin", b"compiled"))
    assert devmod.create_with_fallback("opencl", *sample("opencl")).save_to_bytes() == before


def plugin(answer: Any, calls: list[tuple[str, bytes]]) -> object:
    @hookimpl
    def devmod_compile(kind: str, code: bytes) -> Any:
        calls.append((kind, code))
        return answer

    return SimpleNamespace(devmod_compile=devmod_compile)


def test_the_first_result_of_the_compile_hooks_is_used(register: Register) -> None:
    calls: list[tuple[str, bytes]] = []
    register("devmod.hooks", "devmod_compile", plugin(None, calls))
    assert run_compiler(b"code", devmod.Target("opencl")) is None
    register("devmod.hooks", "devmod_compile.opencl", plugin(("clbin", b"bin"), calls))
    register("devmod.hooks", "devmod_compile.cuda", plugin(b"never asked for opencl", []))
    assert run_compiler(b"code", devmod.Target("opencl")) == ("clbin", b"bin")
    assert set(calls) == {("opencl", b"code")}
    devmod.set_compiler("opencl", lambda code: b"set_compiler has priority")
    assert run_compiler(b"code", devmod.Target("opencl")) == ("cl", b"set_compiler has priority")


@pytest.mark.row("R8")
def test_a_hook_with_a_wrong_signature_is_rejected(register: Register) -> None:
    @hookimpl
    def devmod_compile(code: bytes, device: str) -> bytes:
        return b""

    register(
        "devmod.hooks", "devmod_compile.opencl", SimpleNamespace(devmod_compile=devmod_compile)
    )
    error = raised(devmod.PluginError, lambda: run_compiler(b"", devmod.Target("opencl")))
    assert str(error).startswith(
        "devmod.hooks.devmod_compile.opencl is broken: the plugin registered in this process cannot be registered: "
        "Plugin 'devmod.hooks.devmod_compile.opencl in this process' for hook 'devmod_compile'"
    )
    assert "device" in str(error)
    assert error.__cause__ is not None


@pytest.mark.row("R8")
def test_a_plugin_without_the_hook_is_rejected(register: Register) -> None:
    register(
        "devmod.hooks",
        "devmod_compile.opencl",
        SimpleNamespace(devmod_compile=lambda kind, code: b""),
    )
    assert refusal(devmod.PluginError, run_compiler, b"", devmod.Target("opencl")) == (
        "devmod.hooks.devmod_compile.opencl is broken: the plugin registered in this process has no devmod_compile marked with "
        "pluggy.HookimplMarker('devmod')"
    )


@pytest.mark.row("R8")
def test_the_error_of_an_installed_hook_names_its_distribution(tmp_path: Path) -> None:
    groups = {"devmod.hooks": {"devmod_compile.opencl": "hooked:plugin"}}
    site = tmp_path / "site"
    install(site, "acme-hooks", groups=groups, modules={"hooked": "plugin = object()\n"})
    program = """
        import devmod
        from devmod_runtime import run_compiler
        try:
            run_compiler(b"", devmod.Target("opencl"))
        except devmod.PluginError as error:
            print(error.distribution, error.key)
    """
    out, _ = run(program, [site], tmp_path / "cache")
    assert out == "acme-hooks devmod.hooks.devmod_compile.opencl\n"


@pytest.mark.row("R6")
def test_pluggy_is_imported_only_when_there_is_a_hook() -> None:
    code = "import sys, devmod\nfrom devmod_runtime import run_compiler\nassert run_compiler(b'', devmod.Target('opencl')) is None\nassert 'pluggy' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={"DEVMOD_PLUGINS_ALLOW": "devmod-core"}
    )


@pytest.mark.row("R41")
def test_a_hook_may_reject_a_bundle_before_its_runtime_is_called(register: Register) -> None:
    seen: list[tuple[object, ...]] = []
    loaded: list[bytes] = []

    @hookimpl
    def devmod_verify(
        place: str, head: bytes, size: int, signature: bytes | None, policies: tuple[str, ...]
    ) -> None:
        seen.append((place, head, size, signature, policies))
        if len(seen) == 1:
            raise PermissionError("not signed by us")

    def load(data: memoryview) -> devmod.Module:
        loaded.append(bytes(data))
        return Real()

    class Real(devmod.Module):
        kind = "opencl"

        def get_function(self, name: str, query_imports: bool = False) -> Any:
            return name

    register("devmod.load_from_bytes", "opencl", load)
    register("devmod.hooks", "devmod_verify", SimpleNamespace(devmod_verify=devmod_verify))
    module = devmod.create_with_fallback("opencl", *sample("opencl"))
    data = devmod.dumps(module)
    stored = devmod.loads(data)
    assert [*stored.functions] == ["add"]
    assert not seen
    with pytest.raises(PermissionError, match="not signed by us"):
        stored["add"]
    assert not loaded
    assert stored["add"] == "add"
    assert loaded == [module.save_to_bytes()]
    assert (
        seen
        == [("memory", data[: 48 + int.from_bytes(data[12:16], "little")], len(data), None, ())] * 2
    )


@pytest.mark.row("R8", "R41")
@pytest.mark.volume_but("devmod_verify.trust", "devmod_verify.")
@pytest.mark.parametrize(
    "name",
    ["devmod_verify.trust", "devmod_verify.opencl", "devmod_verify.", "devmod_verify.Trust.x"],
)
def test_a_verify_hook_with_a_kind_refuses_each_bundle(tmp_path: Path, name: str) -> None:
    hook = "import pluggy\n@pluggy.HookimplMarker('devmod')\ndef devmod_verify(place, head): pass\n"
    site = tmp_path / "site"
    install(
        site,
        "acme-trust",
        groups={"devmod.hooks": {name: "acme_trust"}},
        modules={"acme_trust": hook},
    )
    install(
        site,
        "acme-npu",
        groups={"devmod.load_from_bytes": {"npu": "acme_npu:load"}},
        modules={"acme_npu": NPU},
    )
    error, stored = run(LOAD, [site], tmp_path / "cache")[0].splitlines()
    assert error == (
        f"PluginError devmod.hooks.{name} cannot be used: acme-trust 1.0 declares the entry point {name!r}, and the hook devmod_verify "
        "takes no kind, so the plugin would check no file. Its publisher renames the entry point to 'devmod_verify'. To load files without "
        "its check: pip uninstall acme-trust"
    )
    assert stored == "False"  # the runtime was not imported
    denied = run(LOAD, [site], tmp_path / "cache", {"DEVMOD_PLUGINS_DENY": "acme-trust"})[
        0
    ].splitlines()
    assert denied == ["f of npu", "True"]


#: A runtime, and a program that loads a bundle of its kind.
NPU = """
import devmod
class Npu(devmod.Module):
    kind = "npu"
    def get_function(self, name, query_imports=False):
        return f"{name} of npu"
def load(data):
    return Npu()
"""
LOAD = """
import sys, devmod
class Made(devmod.Module):
    kind = "npu"
    functions = {"f": devmod.FunctionInfo("f", ())}
    get_function = None
    def save_to_bytes(self):
        return b"npu"
stored = devmod.loads(devmod.dumps(Made()))
try:
    print(stored["f"])
except Exception as error:
    print(type(error).__name__, error)
print("acme_npu" in sys.modules)
"""
MODULE = """
import pluggy
@pluggy.HookimplMarker("devmod")
def devmod_compile(kind, code):
    return code + b" by " + __name__.encode()
"""


@pytest.mark.row("R9")
@pytest.mark.parametrize("value", ["acme_jit", "acme_jit.part", "acme_jit:part"])
def test_an_installed_plugin_is_an_object_or_a_module(tmp_path: Path, value: str) -> None:
    package = {"acme_jit/__init__": "from acme_jit import part" + MODULE, "acme_jit/part": MODULE}
    (tmp_path / "site" / "acme_jit").mkdir(parents=True)
    install(
        tmp_path / "site",
        "acme-jit",
        groups={"devmod.hooks": {"devmod_compile.opencl": value}},
        modules=package,
    )
    install(
        tmp_path / "site",
        "acme-other",
        groups={"devmod.hooks": {"devmod_compile.cuda": "not_there"}},
    )
    code = "import devmod\nfrom devmod_runtime import run_compiler\nprint(run_compiler(b'made', devmod.Target('opencl')))"
    result = f"made by {value.replace(':', '.')}".encode()
    assert run(code, [tmp_path / "site"], tmp_path / "cache")[0] == f"{('cl', result)}\n"


def test_one_plugin_under_two_names_is_called_once(register: Register) -> None:
    calls: list[tuple[str, bytes]] = []
    both = plugin(None, calls)
    register("devmod.hooks", "devmod_compile", both)
    register("devmod.hooks", "devmod_compile.opencl", both)
    assert run_compiler(b"code", devmod.Target("opencl")) is None
    assert calls == [("opencl", b"code")]
