"""Stored modules: listed and inspected without loading, loaded once at the first use, saved
unchanged.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from each_case import raised, refusal, some
from stored import BAD_TYPE, THREE, Raw, entry, file_of, from_wire, module_of
from support import KINDS, MAP_KINDS, sample

import devmod
from devmod._values.origin import Origin
from devmod_workbench._cli import main

Register = Callable[[str, str, object], None]


def stored(kind: str = "opencl", **changes: Any) -> devmod.Module:
    code, fmt, fmap = sample(kind)
    given = {"code": code, "fmt": fmt, "fmap": fmap} | changes
    return devmod.loads(
        devmod.dumps(devmod.create_with_fallback(kind, given["code"], given["fmt"], given["fmap"]))
    )


@pytest.mark.row("R24", "R26")
@pytest.mark.parametrize("kind", KINDS)
def test_inspection_needs_no_runtime(kind: str) -> None:
    code, fmt, fmap = sample(kind)
    made, found = devmod.create_with_fallback(kind, code, fmt, fmap), stored(kind)
    assert (found.kind, found.format, found.functions, found.code) == (kind, fmt, fmap, code)
    for name in ("", fmt, "asm", "nonsense"):
        assert found.inspect_source(name) == made.inspect_source(name)
    assert dict(found.source) == {}
    assert repr(found) == f"<StoredModule {kind}/{fmt}: add>"


@pytest.mark.row("R26")
def test_the_texts_of_several_shaders_are_joined() -> None:
    found = stored("webgpu", code={"a": b"one", "b": b"two"})
    assert found.inspect_source() == found.inspect_source("wgsl") == "one\ntwo"


@pytest.mark.row("R4", "R24")
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_use_of_a_missing_kind_raises_the_registrys_error(kind: str) -> None:
    text = refusal(devmod.NotRegisteredError, devmod.load_from_bytes, kind, b"")
    error = raised(devmod.NotRegisteredError, lambda: stored(kind)["add"])
    assert str(error) == text
    assert error.key == f"devmod.load_from_bytes.{kind}"


@pytest.mark.row("R5", "R24")
def test_the_real_module_is_loaded_from_the_very_bytes_at_the_first_use(register: Register) -> None:
    seen: list[memoryview] = []
    register(
        "devmod.load_from_bytes",
        "opencl",
        lambda data: seen.append(data) or Raw("opencl", bytes(data)),
    )
    found = stored()
    wire = found.save_to_bytes()
    assert seen == []
    assert found.get_function("add")() == "add"
    assert found["add"]() == "add"
    (data,) = seen
    assert data.readonly
    assert bytes(data) == wire == found.save_to_bytes()


class Real(devmod.backend.PayloadModule):
    """A runtime module, as a wheel provides it, without a driver."""

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        return lambda: name


@pytest.mark.row("R18", "R19")
@pytest.mark.parametrize("kind", KINDS)
def test_real_fallback_and_stored_modules_of_one_payload_save_the_same(
    kind: str, register: Register
) -> None:
    code, fmt, fmap = sample(kind)
    spec = devmod.backend.find_spec(kind)
    made = [devmod.create_with_fallback(kind, code, fmt, fmap)]
    register(
        "devmod.create", kind, lambda code, fmt, fmap, source: Real(spec, fmt, fmap, code, source)
    )
    register(
        "devmod.load_from_bytes",
        kind,
        lambda data: Real(spec, *devmod.backend.decode(spec, data), wire=data),
    )
    made.append(devmod.create(kind, code, fmt, fmap, {"asm": "; never saved"}))
    made.append(devmod.load_from_bytes(kind, made[0].save_to_bytes()))
    made += [devmod.loads(devmod.dumps(each)) for each in tuple(made)]
    assert [type(each).__name__ for each in made] == [
        "FallbackModule",
        "Real",
        "Real",
        *["StoredModule"] * 3,
    ]
    assert len({each.save_to_bytes() for each in made}) == 1
    assert len({devmod.dumps(each) for each in made}) == 1
    assert made[-1].get_function("add")() == "add"


class Importing(devmod.backend.PayloadModule):
    """A runtime module whose functions return what `query` finds in its imports."""

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        owner, _ = self.find_function(name, query_imports)
        if owner is not self:
            return owner.get_function(name)
        found = [
            list(each.function_names) for each in self.imports
        ]  # before the function is returned
        return lambda: (self, found)


@pytest.fixture
def importing(register: Register) -> Callable[[str], None]:
    def provide(kind: str) -> None:
        spec = devmod.backend.find_spec(kind)
        register(
            "devmod.load_from_bytes",
            kind,
            lambda data: Importing(spec, *devmod.backend.decode(spec, data), wire=data),
        )

    return provide


def with_imports() -> devmod.Module:
    """An opencl module that imports constants and a bundle of two candidates."""
    root = module_of("opencl")
    root.import_module(devmod.const_loader({"w": b"abc"}, {"init": ["w"]}))
    blur = {"blur": devmod.FunctionInfo("blur", [])}
    root.import_module(devmod.bundle(module_of("cuda", fmap=blur), module_of("rocm", fmap=blur)))
    return root


@pytest.mark.row("R21", "R24")
def test_the_real_module_has_the_imports_before_its_first_function(
    importing: Callable[[str], None],
) -> None:
    importing("opencl")
    data = devmod.dumps(with_imports())
    root = devmod.loads(data)
    real, found = root["add"]()
    assert type(real) is Importing
    assert found == [["init"], ["blur"]]
    assert real.imports == root.imports
    assert [each.kind for each in real.imports] == ["const_loader", "bundle"]
    (constant,) = real.get_function("init", query_imports=True)()
    assert bytes(constant) == b"abc"
    with pytest.raises(devmod.FunctionNotFoundError):
        real.get_function("init")
    assert real.save_to_bytes() == root.save_to_bytes()
    assert devmod.dumps(real) == devmod.dumps(root) == data


@pytest.mark.row("R24")
def test_the_imports_of_the_real_module_are_those_of_the_stored_one_at_each_look_up(
    importing: Callable[[str], None],
) -> None:
    importing("opencl")
    importing("cuda")
    root = stored("opencl")
    real, found = root["add"]()
    assert (found, real.imports) == ([], ())
    root.import_module(stored("cuda"))
    assert root["add"]() == (real, [["add"]])
    inner, _ = real.imports[0]["add"]()
    assert (inner.kind, real.imports) == ("cuda", root.imports)


@pytest.mark.row("R24")
def test_a_module_without_imports_keeps_those_that_its_loader_gave_it(register: Register) -> None:
    spec = devmod.backend.find_spec("opencl")

    def load(data: memoryview) -> devmod.Module:
        module = Importing(spec, *devmod.backend.decode(spec, data), wire=data)
        module.import_module(module_of("cuda"))
        return module

    register("devmod.load_from_bytes", "opencl", load)
    root = stored("opencl")
    assert (root["add"]()[1], root.imports) == ([["add"]], ())


def test_a_tree_with_real_modules_has_no_cycle_of_references(
    importing: Callable[[str], None],
) -> None:
    importing("opencl")
    importing("cuda")
    gc.collect()
    gc.disable()
    try:
        root = devmod.loads(devmod.dumps(with_imports()))
        real, _ = root["add"]()
        inner, _ = root.imports[1].imports[0]["blur"]()
        alive = [
            weakref.ref(each)
            for each in (root, real, inner, *root.imports, *root.imports[1].imports)
        ]
        del root, real, inner
        assert [each() for each in alive] == [None] * len(alive)
    finally:
        gc.enable()


def test_an_unknown_function_loads_nothing(register: Register) -> None:
    register("devmod.load_from_bytes", "opencl", lambda data: pytest.fail("was loaded"))
    assert (
        refusal(devmod.FunctionNotFoundError, stored().get_function, "ad")
        == "the opencl module has no function 'ad'; it has: 'add'. Did you mean 'add'?"
    )


def test_imports_are_asked_where_that_is_wanted(register: Register) -> None:
    register("devmod.load_from_bytes", "cuda", lambda data: Raw("cuda", bytes(data)))
    root = devmod.create_with_fallback("opencl", b"", "cl", {})
    middle = devmod.create_with_fallback("metal", {}, "metal", {})
    root.import_module(middle)
    middle.import_module(
        devmod.create_with_fallback("cuda", b"", "cuda", {"deep": devmod.FunctionInfo("d", [])})
    )
    found = devmod.loads(devmod.dumps(root))
    assert found.get_function("deep", query_imports=True)() == "deep"
    for query in (False, True):
        assert refusal(
            devmod.FunctionNotFoundError,
            found.get_function,
            "deep" if not query else "none",
            query_imports=query,
        ).startswith("the opencl module has no function ")


def test_globals_come_from_the_real_module(register: Register) -> None:
    class WithGlobal(Raw):
        def get_global(self, name: str, device: object = None, **options: object) -> Any:
            return f"global {name}"

    register("devmod.load_from_bytes", "opencl", lambda data: WithGlobal("opencl", bytes(data)))
    assert stored().get_global("table") == "global table"


@pytest.mark.row("R32")
def test_many_threads_load_once_and_share_a_failure_which_is_not_cached(register: Register) -> None:
    calls = []
    release = threading.Event()
    failing = True

    def load(data: memoryview) -> devmod.Module:
        calls.append(threading.get_ident())
        assert release.wait(30)
        if failing:
            raise OSError("the driver is busy")
        return Raw("opencl", bytes(data))

    register("devmod.load_from_bytes", "opencl", load)
    found = stored()

    def ask_in_threads(count: int) -> list[object]:
        results: list[object] = []
        barrier = threading.Barrier(count + 1)

        def ask() -> None:
            barrier.wait()
            try:
                results.append(found.get_function("add")())
            except OSError as error:
                results.append(error)

        threads = [threading.Thread(target=ask) for _ in range(count)]
        for thread in threads:
            thread.start()
        barrier.wait()
        # All but the one that loads are waiting for it, or soon will be; those that come later
        # would load anew.
        while not calls:
            pass
        threading.Event().wait(0.2)
        release.set()
        for thread in threads:
            thread.join()
        return results

    errors = ask_in_threads(64)
    assert len(calls) == 1
    assert len(errors) == 64
    assert len({id(error) for error in errors}) == 1
    assert str(errors[0]) == "the driver is busy"
    failing = False
    assert found.get_function("add")() == "add"
    assert len(calls) == 2
    assert found.get_function("add")() == "add"
    assert len(calls) == 2


def test_a_loader_that_needs_itself_raises(register: Register) -> None:
    found = stored()
    register("devmod.load_from_bytes", "opencl", lambda data: found.get_function("add"))
    with pytest.raises(RuntimeError, match=r"^making 'real' needs 'real' itself$"):
        found.get_function("add")


@pytest.mark.row("R24")
@pytest.mark.parametrize("kind", KINDS)
def test_a_raw_payload_is_written_as_the_fallback_writes_it(kind: str, tmp_path: Path) -> None:
    code, fmt, fmap = sample(kind)
    suffix = next(
        key for key, value in devmod.backend.find_spec(kind).suffixes.items() if value == fmt
    )
    for folder, module in (
        ("a", devmod.create_with_fallback(kind, code, fmt, fmap)),
        ("b", stored(kind)),
    ):
        (tmp_path / folder).mkdir()
        module.write_to_file(tmp_path / folder / f"k.{suffix}")
    for name in (f"k.{suffix}", "k.tvm_meta.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_kind_without_a_spec_has_no_raw_payload_that_we_know(tmp_path: Path) -> None:
    assert (
        refusal(devmod.FormatError, from_wire("npu", b"123").write_to_file, tmp_path / "k.npu")
        == "a module of kind 'npu' has no raw payload to write; use devmod.save"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_index_with_another_format_than_the_bytes_is_refused(register: Register) -> None:
    """Also by a runtime, which decodes the bytes itself."""
    loaded: list[bytes] = []
    register("devmod.load_from_bytes", "opencl", loaded.append)
    code = devmod.create_with_fallback("opencl", b"", "cl", {"f": devmod.FunctionInfo("k", [])})
    found = devmod.loads(devmod.dumps(Raw("opencl", code.save_to_bytes(), "il", ("f",))))
    text = "the bundle in memory: the index gives the opencl module the format 'il', and its bytes have 'cl'"
    for use in (lambda: found["f"], lambda: found.functions, lambda: found.code):
        assert refusal(devmod.FormatError, use) == text
    assert not loaded


def test_an_index_that_names_other_functions_than_the_bytes_is_refused() -> None:
    data = devmod.create_with_fallback(
        "opencl", b"", "cl", {"real": devmod.FunctionInfo("r", [])}
    ).save_to_bytes()
    found = from_wire("opencl", data, ("listed",))
    text = refusal(devmod.FormatError, lambda: found.functions)
    assert text == (
        "the bundle in memory: the index gives the opencl module the functions 'listed', and its bytes have 'real'"
    )


@pytest.mark.row("R8")
def test_a_broken_target_spec_spoils_its_own_kind_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = devmod.create_with_fallback("opencl", b"", "cl", {"f": devmod.FunctionInfo("f", [])})
    data = devmod.dumps(devmod.bundle(Raw("npu", b"x", functions=("f",)), sound))
    info = tmp_path / "devmod_npu-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: devmod-npu\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[devmod.targets]\nnpu = devmod_npu_that_is_not_there:SPEC\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-npu")
    npu, opencl = devmod.loads(data).imports
    assert list(opencl.functions) == ["f"]
    with pytest.raises(devmod.PluginError, match=r"^devmod\.targets\.npu is broken: devmod-npu 1"):
        npu.functions  # noqa: B018
    assert devmod.dumps(devmod.loads(data)) == data


@pytest.mark.parametrize("kind", MAP_KINDS)
def test_shaders_are_slices_of_the_stored_bytes(kind: str) -> None:
    found = stored(kind)
    assert all(
        isinstance(shader, memoryview) and shader.readonly for shader in some(found.code.values())
    )


# -- contents that are decoded at their first use


@pytest.mark.row("R19")
def test_an_invalid_function_is_refused_at_its_first_use_and_affects_no_other() -> None:
    module = from_wire("opencl", THREE, ("a", "bad", "b"))
    assert list(module.functions) == ["a", "bad", "b"]
    assert (module.functions["a"].name, module.functions["b"].name) == ("k", "l")
    for _ in range(2):
        assert refusal(devmod.FormatError, lambda: module.functions["bad"]) == BAD_TYPE
    assert repr(module) == "<StoredModule opencl/cl: a, bad, b>"
    assert module.save_to_bytes() == THREE


@pytest.mark.row("R19")
def test_an_invalid_function_of_a_candidate_affects_no_other_function_of_a_bundle() -> None:
    module = devmod.bundle(from_wire("opencl", THREE, ("a", "bad", "b")), stored("cuda"))
    assert list(module.functions) == ["a", "bad", "b", "add"]
    assert (module.functions["a"].name, module.functions["add"].name) == ("k", "add_kernel")
    assert refusal(devmod.FormatError, lambda: module.functions["bad"]) == BAD_TYPE


@pytest.mark.row("R19")
def test_inspect_shows_an_invalid_function_and_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(from_wire("opencl", THREE, ("a", "bad", "b")), path)
    for options in ((), ("--verify",)):
        assert main(["inspect", *options, str(path)]) == 1
        lines = capsys.readouterr().out.splitlines()
        at = lines.index(f"  bad(…) is damaged: {BAD_TYPE}")
        assert (lines[at - 1], lines[at + 1]) == ("  a()", "  b()")


@pytest.mark.row("R19", "R42")
def test_an_invalid_origin_is_refused_at_its_first_use_and_affects_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    blob = b"\xa2cl\x80\xc4\x03abc"
    good, bad = {"target": "opencl"}, {"target": 1}
    modules = [entry(blob, functions=None, origin=origin) for origin in (good, bad)]
    data = file_of({"roots": [0, 1], "modules": modules}, blob + bytes(64 - len(blob)) + blob)
    root = devmod.loads(data)
    first, second = root.imports
    assert first.origin == Origin("opencl")
    with pytest.raises(devmod.FormatError) as caught:
        _ = second.origin
    problem = "modules, 1, origin: the target and the toolchain of an origin are strings, at byte "
    assert f"the index of the bundle in memory: {problem}" in str(caught.value)
    assert second.save_to_bytes() == blob
    path = tmp_path / "k.devmod"
    path.write_bytes(data)
    assert main(["inspect", "--verify", str(path)]) == 1
    assert problem in capsys.readouterr().err
    with pytest.raises(devmod.FormatError, match=problem):
        devmod.dumps(root)


def test_bytes_in_memory_do_not_depend_on_the_file(tmp_path: Path) -> None:
    """A mapped file that is truncated ends the process that reads it."""
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    module = devmod.loads(path.read_bytes())
    os.truncate(path, 0)
    assert module.save_to_bytes() == module_of().save_to_bytes()


def test_a_file_that_is_replaced_stays_complete_where_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    module = devmod.load(path)
    devmod.save(module_of("cuda", code=b"other"), path)
    assert module.save_to_bytes() == module_of().save_to_bytes()
