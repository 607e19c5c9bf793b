"""Each way by which the content of a stored module gets out of it: a changed byte is noticed before
anything of it is used (R41, R46).
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import call as run
from each_case import some
from signing import policy, rule, signed

import devmod
from devmod import FunctionInfo, Interface, Param, backend
from devmod._modules.stored import StoredModule
from devmod.backend import loads_own, walk
from devmod.interop import tvm
from devmod_workbench._cli._known import KNOWN

pytestmark = [pytest.mark.row("R41", "R46"), pytest.mark.once]
SOURCES = Path(__file__).parents[3]
DAMAGED = "SHA-256 is not the one in the index"

#: A way takes the module with the part in question, and the root of the file.
Way = Callable[[Any, devmod.Module], object]

#: The arguments of members that have some.
ARGUMENTS = {
    "get_function": ["scale"],
    "__getitem__": ["scale"],
    "get_global": ["c"],
    "__contains__": ["x"],
}
#: The public members that hand out nothing, those for a save, which compares the digests itself,
#: and those that no program uses.
INSIDE = (
    "check has_digest import_module imports parts release unpack unverified sources write_to_file"
)
INSIDE += " __abstractmethods__ __dict__ __slots__ __weakref__ __getattr__"
#: The functions that take modules. A text is the way by which the content gets out there.
WAYS: dict[str, Way | str] = {
    "Module.read_together": lambda module, root: [
        module.read_together(["large"]),
        module.get_global("large"),
    ],
    "Module.write_to_file": lambda module, root: [
        module.write_to_file("raw.cl"),
        Path("raw.cl").read_bytes(),
    ],
    "devmod.bench": "Module.get_function",
    "devmod.bundle": lambda module, root: devmod.bundle(root, module, mixed=True),
    "devmod.dumps": lambda module, root: devmod.dumps(module, compress="zstd", with_sources=True),
    "devmod.explain": lambda module, root: str(devmod.explain(root, device="opencl")),
    "devmod.program": lambda module, root: [
        *program("more", root if module.kind == "program" else module)
    ],
    "devmod.replace_constants": lambda module, root: devmod.replace_constants(
        root, {"c": memoryview(b"4321")}, partial=True
    ),
    "devmod.save": lambda module, root: [devmod.save(root, "saved"), Path("saved").read_bytes()],  # type: ignore[func-returns-value]
    "devmod.tune": "Module.get_function",
    "devmod.verify": lambda module, root: str(devmod.verify(root)),
    "backend.fitting_devices": "Module.functions",
    "backend.interface_of": "Module.functions",
    "backend.is_tuned": "Module.functions",
    "backend.newer_program": lambda module, root: backend.newer_program("copy", module),
    "backend.payload_of": lambda module, root: backend.payload_of(module),
    "backend.read_program": lambda module, root: backend.read_program("copy", module),
    "backend.verify_rest": lambda module, root: backend.verify_rest(root),  # type: ignore[func-returns-value]
    "backend.walk": lambda module, root: [each.kind for each in walk(root)],
    "tvm.dump_imports": lambda module, root: tvm.dump_imports(module),
    "tvm.dump_module_bytes": lambda module, root: tvm.dump_module_bytes(module),
    "devmod_models.tinygrad.check": "Module.get_function",
    "devmod_targets.compilation.files_read": "Module.origin",
    "devmod_targets.compilation.left_out_of": "Module.origin",
    "devmod_targets.compilation.validation_of": "Module.origin",
    "devmod_targets.programs.make_program": "devmod.program",
    "devmod_frameworks.jax.register": "Module.get_function",
    "devmod_frameworks.torch.register": "Module.get_function",
    "devmod_frameworks.tvm_ffi.register": "Module.get_function",
}
#: The commands that open a file, with their options, and those that open none. `unpack` opens those
#: of `pack` alone: its own tests have one. `pin` reads the header alone.
COMMANDS = (
    "bench scale",
    "bundle -o out.devmod",
    "check",
    "inspect --source",
    "run scale f=1 --threads 1",
    "sign --key acme.pem --name acme/f --version 3",
    "verify",
    "view --no-open",
)
OTHERS = "demo tune simulate build cache compile conformance devices doctor init keygen new-backend onnx pack pin plugins profile triton unpack"

BYTES = "save dumps bundle save_to_bytes wire_parts verify get_global "
PAYLOAD = f"{BYTES} code inspect_source payload_of dump_module_bytes dump_imports "
CALLED = f"{PAYLOAD} program get_function __getitem__ write_to_file"
#: A change of each part of the file: the kind of its module, bytes, others of the same size, and
#: the ways that must notice it at least.
PARTS = {
    "a text": ("opencl", b"] *= f", b"] -= f", CALLED),
    "the functions": ("opencl", b"float32", b"int32!!", CALLED),
    "a shader map": ("webgpu", b"] *= 2", b"] -= 2", PAYLOAD),
    "a constant": (
        "const_loader",
        b"\xc4\x041234",
        b"\xc4\x044321",
        f"{BYTES} dump_module_bytes dump_imports",
    ),
    "a large constant": (
        "const_loader",
        b"5678",
        b"8765",
        "save dumps bundle save_to_bytes wire_parts verify dump_module_bytes dump_imports "
        "read_together",
    ),
    "a program": ("program", b"scale", b"evil!", f"{BYTES} code payload_of program read_program"),
    "the sources": ("opencl", b"// fine", b"// evil", "save dumps bundle source inspect_source"),
}


def program(name: str, kernels: devmod.Module) -> devmod.Module:
    step = devmod.step("scale", x="x", f=2.0, threads="n", block=1)
    return devmod.program(name, kernels, updates=["x: float32[n]"], steps=[step])


@pytest.fixture(name="data")
def data_fixture(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A file with a module for each of PARTS. No runtime and no driver is used."""
    pytest.importorskip(
        "devmod_targets", reason='devmod-targets is not installed: pip install "devmod-core[build]"'
    )
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-trust")
    params = [Param("x", "buffer", "float32", "rw"), Param("f", "scalar", "float32")]
    scale = FunctionInfo(
        "scale", ["handle", "float32"], ["blockIdx.x", "threadIdx.x"], (), Interface(params)
    )
    text = b"kernel void scale(global float *x, float f) { x[get_global_id(0)] *= f; }"
    kernel = devmod.create_with_fallback("opencl", text, "cl", {"scale": scale}, {"hip": "// fine"})
    twice = FunctionInfo("twice", ["handle"], ["blockIdx.x", "paramWriteAccess:[1]"])
    shader = devmod.create_with_fallback(
        "webgpu", {"twice": b"fn twice() { x[0] *= 2; }"}, "wgsl", {"twice": twice}
    )
    tensors = {"c": memoryview(b"1234"), "large": memoryview(b"5678" * 1024)}
    constants = devmod.const_loader(tensors, {"init": ["c"]})
    whole = devmod.bundle(
        program("copy", devmod.bundle(kernel, mixed=True)), shader, constants, mixed=True
    )
    return devmod.dumps(whole, with_sources=True)


def changed(data: bytes, part: str) -> bytes:
    """Return the file with one part changed. The header, the index and with it the digests stay."""
    kind, old, new, _ = PARTS[part]
    (module,) = [
        each
        for each in walk(loads_own(data))
        if isinstance(each, StoredModule) and each.kind == kind
    ]
    found: Any = module.entry
    if part == "the sources":
        assert module.sources is not None
        found = module.sources.entry
    if part == "a large constant":
        found = module.parts[0].entry
    at, end = found.offset, found.offset + found.size
    assert (len(old), old in data[at:end]) == (len(new), True)
    return data[:at] + data[at:end].replace(old, new) + data[end:]


def plain(value: object) -> object:
    """Return what a way hands out, to be compared."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (devmod.Module, memoryview)):
        return devmod.dumps(value) if isinstance(value, devmod.Module) else bytes(value)
    return [*map(plain, value)] if isinstance(value, (list, tuple, Iterator)) else repr(value)


def outcomes(kind: str) -> dict[str, object]:
    """Return what each way hands out of a file, or the text of its error."""
    found: dict[str, object] = {}
    members = [
        name
        for name in dir(StoredModule)
        if not hasattr(object, name) and (name[0] != "_" or name[-1] == "_")
    ]
    for name in (*(f"Module.{name}" for name in members if name not in INSIDE.split()), *WAYS):
        root, way, short = devmod.load("k/f.devmod"), WAYS.get(name), name.rpartition(".")[2]
        (module,) = [each for each in walk(root) if each.kind == kind]
        try:
            value = (
                getattr(module, short)
                if way is None
                else ""
                if isinstance(way, str)
                else way(module, root)
            )
            if callable(value) and not isinstance(value, devmod.Module):
                value = value(*ARGUMENTS.get(short, ()))
            found[short] = plain(value)
        except devmod.DevmodError as error:
            found[short] = f"{type(error).__name__}: {error}"
    return found


@pytest.mark.parametrize("is_signed", [False, True], ids=["no policy", "policy"])
@pytest.mark.parametrize("part", PARTS)
def test_no_way_hands_out_what_was_changed(
    part: str, is_signed: bool, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed("k/f.devmod", data=data)
    if is_signed:
        monkeypatch.setenv("DEVMOD_TRUST", policy(rule()))
    kind, *_, ways = PARTS[part]
    before = outcomes(kind)
    Path("k/f.devmod").write_bytes(changed(data, part))
    after = outcomes(kind)
    refused = {name for name, found in after.items() if DAMAGED in str(found)}
    assert {*ways.split()} - refused == set()
    # Without a policy a look-up hashes no payload, nor does `explain`, which describes one on the
    # devices that are open.
    differ = {name for name in after.keys() - refused if after[name] != before[name]}
    assert differ - (set() if is_signed else {"functions", "_repr_html_", "explain"}) == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_uses_a_file_that_was_changed(
    command: str, data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *options = command.split()
    if name == "view":
        pytest.importorskip(
            "devmod_webgpu", reason="devmod-webgpu, which brings the command, is not installed"
        )
    signed("k/f.devmod", data=data)
    monkeypatch.delenv("DEVMOD_PLUGINS_ALLOW")
    monkeypatch.setenv("DEVMOD_TRUST", policy(rule()))
    Path("k/f.devmod").write_bytes(changed(data, "a text"))
    status, out, err = run(capsys, name, "k/f.devmod", *options)
    assert (status, DAMAGED in out + err, "-= f" in out + err, Path("out.devmod").exists()) == (
        1,
        True,
        False,
        False,
    )


def test_each_way_out_is_in_the_table() -> None:
    """A new function that takes a module, or a new command, fails here until a test above uses
    it.
    """
    taking, users = set(), set()
    for place in (devmod, backend, tvm):
        for name in getattr(place, "__all__", dir(place)):
            value: Any = getattr(place, name)
            if inspect.isfunction(value) and re.search(
                r"\bModule\b", str(inspect.signature(value).parameters)
            ):
                taking.add(f"{place.__name__.rpartition('.')[2]}.{name}")
    for path in some(SOURCES.glob("*/src/devmod*/**/*.py")):
        text = path.read_text()
        users |= {path.name} if ".unverified" in text else set()
        for each in (
            ast.parse(text).body
            if path.parent.name.startswith("devmod_") and path.name[0] != "_"
            else ()
        ):
            if (
                isinstance(each, ast.FunctionDef)
                and each.name[0] != "_"
                and re.search(r"\bModule\b", ast.unparse(each.args))
            ):
                taking.add(f"{path.parent.name}.{path.stem}.{each.name}")
    assert (
        taking - WAYS.keys(),
        KNOWN.keys() - {*OTHERS.split(), *(each.split()[0] for each in COMMANDS)},
    ) == (set(), set())
    assert users == {
        "save.py"
    }  # it compares the digest with the one that it computes for the new file
