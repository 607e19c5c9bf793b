"""Each way by which the content of a stored module gets out of it: a changed byte is noticed before anything of it is used (R41, R46)."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from signing import policy, rule, run, signed

import devmod
import devmod.backend
from devmod import FunctionInfo, Interface, Param
from devmod._cli._known import KNOWN
from devmod._modules.stored import StoredModule
from devmod.backend import loads_own, walk
from devmod.interop import tvm

pytestmark = [pytest.mark.row("R41", "R46"), pytest.mark.once]
SOURCES = Path(__file__).parents[2]
DAMAGED = "SHA-256 is not the one in the index"


class Opened(NamedTuple):
    """A file that was opened: the module with the part in question, the root, and the path."""

    module: Any
    root: devmod.Module
    path: Path


Way = Callable[[Opened], object]

#: The arguments of members that have some.
ARGUMENTS = {"get_function": "scale", "__getitem__": "scale", "get_global": "c", "__contains__": "x"}
#: The public members that hand out nothing, and those for a save, which compares the digests itself.
INSIDE = "check has_digest import_module imports release unpack unverified source_bytes"
#: The functions that take modules, and the commands that take files. A text is the way by which the content gets out there.
WAYS: dict[str, Way | str] = {
    "Module.write_to_file": lambda it: [it.module.write_to_file("raw.cl"), Path("raw.cl").read_bytes()],
    "devmod.bench": "Module.get_function",
    "devmod.bundle": lambda it: devmod.bundle(it.root, it.module, mixed=True),
    "devmod.dumps": lambda it: devmod.dumps(it.root),
    "devmod.dumps of one": lambda it: devmod.dumps(it.module, compress="zstd", with_sources=True),
    "devmod.explain": lambda it: str(devmod.explain(it.root, device="opencl")),
    "devmod.program": lambda it: [*program("more", it.root if it.module.kind == "program" else it.module)],
    "devmod.save": lambda it: devmod.save(it.root, "saved.devmod", compress="zstd") or Path("saved.devmod").read_bytes(),  # type: ignore[func-returns-value]
    "devmod.verify": lambda it: str(devmod.verify(it.root)),
    "devmod.backend.payload_of": lambda it: devmod.backend.payload_of(it.module),
    "devmod.backend.read_program": lambda it: it.module.kind == "program" and devmod.backend.read_program("copy", it.module),
    "devmod.backend.walk": lambda it: [each.kind for each in walk(it.root)],
    "devmod.interop.tvm.dump_imports": lambda it: it.module.kind != "program" and tvm.dump_imports(it.module),
    "devmod.interop.tvm.dump_module_bytes": lambda it: it.module.kind != "program" and tvm.dump_module_bytes(it.module),
    "devmod_targets.compilation.files_read": "Module.origin",
    "devmod_targets.compilation.validation_of": "Module.origin",
    "devmod_targets.programs.make_program": "devmod.program",
    "devmod_frameworks.jax.register": "Module.get_function",
    "devmod_frameworks.torch.register": "Module.get_function",
    "devmod_frameworks.tvm_ffi.register": "Module.get_function",
}
#: The commands that open a file, with their options.
COMMANDS = {
    "bench": ["scale"],
    "bundle": ["-o", "out.devmod"],
    "check": [],
    "inspect": ["--source"],
    "push": ["oci://localhost:1/k:1"],
    "run": ["scale", "x=zeros[1]", "f=1", "--threads", "1"],
    "sign": ["--key", "acme.pem", "--name", "acme/f", "--version", "3"],
    "verify": [],
    "view": ["--no-open"],
}
#: Those that open none.
OTHERS = "build cache compile conformance devices doctor init keygen new-backend plugins profile pull"

#: A change of each part of the file: the kind of its module, and bytes that are replaced by others of the same size.
PARTS = {
    "a text": ("opencl", b"] *= f", b"] -= f"),
    "a shader map": ("webgpu", b"] *= 2", b"] -= 2"),
    "a constant": ("const_loader", b"\xc4\x041234", b"\xc4\x044321"),
    "a program": ("program", b"scale", b"evil!"),
    "the sources": ("opencl", b"// fine", b"// evil"),
    "the functions": ("opencl", b"float32", b"int32!!"),
}


def program(name: str, kernels: devmod.Module) -> devmod.Module:
    step = devmod.step("scale", x="x", f=2.0, threads="n", block=1)
    return devmod.program(name, kernels, updates=["x: float32[n]"], steps=[step])


@pytest.fixture(name="data", scope="module")
def data_fixture() -> bytes:
    """A file with a module for each of PARTS."""
    pytest.importorskip("devmod_targets", reason='devmod-targets is not installed: pip install "devmod-core[build]"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-trust")  # no runtime and no driver
        x, f = Param("x", "buffer", "float32", "rw"), Param("f", "scalar", "float32")
        scale = FunctionInfo("scale", ["handle", "float32"], ["blockIdx.x", "threadIdx.x"], (), Interface([x, f]))
        text = b"kernel void scale(global float *x, float f) { x[get_global_id(0)] *= f; }"
        kernel = devmod.create_with_fallback("opencl", text, "cl", {"scale": scale}, {"hip": "// fine"})
        twice = FunctionInfo("twice", ["handle"], ["blockIdx.x", "paramWriteAccess:[1]"])
        shader = devmod.create_with_fallback("webgpu", {"twice": b"fn twice() { x[0] *= 2; }"}, "wgsl", {"twice": twice})
        constants = devmod.const_loader({"c": memoryview(b"1234")}, {"init": ["c"]})
        whole = devmod.bundle(program("copy", devmod.bundle(kernel, mixed=True)), shader, constants, mixed=True)
        return devmod.dumps(whole, with_sources=True)


def changed(data: bytes, part: str) -> bytes:
    """Return the file with one part changed. The header, the index and with it the digests stay."""
    kind, old, new = PARTS[part]
    start = -(-(48 + int.from_bytes(data[12:16], "little")) // 64) * 64
    entry: Any
    (entry,) = [each.entry for each in walk(loads_own(data)) if isinstance(each, StoredModule) and each.kind == kind]
    entry = entry.sources if part == "the sources" else entry
    at = start + entry.offset
    before = data[at : at + entry.size]
    after = before.replace(old, new)
    assert (len(old), before != after) == (len(new), True)
    return data[:at] + after + data[at + entry.size :]


def plain(value: object) -> object:
    """Return what a way hands out, to be compared."""
    if isinstance(value, devmod.Module):
        return devmod.dumps(value)
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [*map(plain, value)] if isinstance(value, (list, tuple, Iterator)) else repr(value)


def outcome(way: Way, path: Path, kind: str) -> object:
    """Return what a way hands out of a file, or the text of its error."""
    root = devmod.load(path)
    (module,) = [each for each in walk(root) if each.kind == kind]
    try:
        return plain(way(Opened(module, root, path)))
    except devmod.DevmodError as error:
        return f"{type(error).__name__}: {error}"


def member(name: str) -> Way:
    """Return the way through a member of a module: its value, or that of a call."""

    def act(it: Opened) -> object:
        value = getattr(it.module, name)
        arguments = [ARGUMENTS[name]] if name in ARGUMENTS else []
        return value(*arguments) if callable(value) else value

    return act


def ways() -> dict[str, Way]:
    names = [name for name in dir(StoredModule) if not hasattr(object, name) and (name[0] != "_" or name[-1] == "_")]
    fields = ("__abstractmethods__", "__dict__", "__slots__", "__weakref__", "__getattr__")
    members: dict[str, Way] = {f"Module.{name}": member(name) for name in names if name not in (*fields, *INSIDE.split())}
    return members | {name: way for name, way in WAYS.items() if not isinstance(way, str)}


def refuses(found: object) -> bool:
    return DAMAGED in str(found)


@pytest.mark.parametrize("is_signed", [False, True], ids=["no policy", "policy"])
@pytest.mark.parametrize("part", PARTS)
def test_no_way_hands_out_what_was_changed(part: str, is_signed: bool, data: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-trust")
    kind, path = PARTS[part][0], folder / "k/f.devmod"
    signed("k/f.devmod", data=data)
    if is_signed:
        monkeypatch.setenv("DEVMOD_TRUST", policy(rule()))
    found = {name: (way, outcome(way, path, kind)) for name, way in ways().items()}
    path.write_bytes(changed(data, part))
    refused = set()
    for name, (way, before) in found.items():
        after = outcome(way, path, kind)
        if refuses(after):
            refused.add(name.removeprefix("Module.").removeprefix("devmod."))
        elif is_signed or name not in ("Module.functions", "Module._repr_html_"):  # a look-up hashes no payload
            assert after == before, name
    # Ways that would be no test if they failed in any case.
    expected = {"save", "dumps", "dumps of one", "bundle"} | ({"program"} if part in ("a text", "the functions", "a program") else set())
    if part == "the sources":
        expected |= {"source", "inspect_source"}
    else:
        expected |= {"save_to_bytes", "wire_parts", "verify", "get_global", "interop.tvm.dump_module_bytes", "interop.tvm.dump_imports"}
        expected |= {"code", "inspect_source", "backend.payload_of"} if kind != "const_loader" else set()
        expected |= {"get_function", "__getitem__", "write_to_file"} if kind == "opencl" else set()
        expected |= {"backend.read_program"} if kind == "program" else set()
        expected -= {"interop.tvm.dump_module_bytes", "interop.tvm.dump_imports"} if kind == "program" else set()
    assert expected <= refused, expected - refused


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_uses_a_file_that_was_changed(
    command: str, data: bytes, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "view":
        pytest.importorskip("devmod_webgpu", reason="devmod-webgpu, which brings the command, is not installed")
    signed("k/f.devmod", data=data)
    monkeypatch.setenv("DEVMOD_TRUST", policy(rule()))
    Path("k/f.devmod").write_bytes(changed(data, "a text"))
    status, out, err = run(capsys, command, "k/f.devmod", *COMMANDS[command])
    assert (status, refuses(out + err)) == (1, True)
    assert "-= f" not in out + err
    assert not Path("out.devmod").exists()


def test_each_way_out_is_in_the_table() -> None:
    """A new function that takes a module, or a new command, fails here until a test above uses it."""
    known = {name.partition(" ")[0] for name in WAYS}
    packages: list[ModuleType] = [devmod, devmod.backend, tvm]
    taking = {
        f"{each.__name__}.{name}" for each in packages for name in getattr(each, "__all__", dir(each)) if takes_module(getattr(each, name))
    }
    for path in SOURCES.glob("*/src/devmod_*/[a-z]*.py"):  # the public modules of other wheels
        for each in ast.parse(path.read_text()).body:
            if isinstance(each, ast.FunctionDef) and each.name[0] != "_" and is_module(ast.unparse(each.args)):
                taking.add(f"{path.parent.name}.{path.stem}.{each.name}")
    assert taking - known == set()
    assert KNOWN.keys() - {*COMMANDS, *OTHERS.split()} == set()


def takes_module(value: Any) -> bool:
    return inspect.isfunction(value) and any(is_module(f"x: {each.annotation}") for each in inspect.signature(value).parameters.values())


def is_module(arguments: str) -> bool:
    return "Module" in arguments.replace("'", " ").replace("|", " ").replace(".", " ").replace(",", " ").split()


def test_only_a_save_reads_bytes_that_are_not_verified() -> None:
    """It compares the digest with the one that it computes for the new file."""
    users = {
        path.name
        for path in SOURCES.glob("**/src/devmod*/**/*.py")
        if any(isinstance(each, ast.Attribute) and each.attr == "unverified" for each in ast.walk(ast.parse(path.read_text())))
    }
    assert users == {"save.py"}
