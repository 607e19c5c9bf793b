"""Equal shaders of a module: a file has them once, they share memory, and the module's bytes are
unchanged.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from alone import core_alone as core_alone
from distributions import install
from stored import blobs_of, file_of, pages_of
from work import assert_linear

import devmod
from devmod._formats import repeats
from devmod_workbench._cli import main

pytestmark = pytest.mark.once  # the bytes of files

SOURCE = b"kernel void k() { /* " + bytes(range(48, 96)) * 100 + b" */ }"
INFO = devmod.FunctionInfo("k", ["handle"])


def module_of(shaders: dict[str, bytes], kind: str = "metal") -> Any:
    return devmod.create_with_fallback(
        kind,
        shaders,
        {"metal": "metal", "webgpu": "wgsl", "vulkan": "spv"}[kind],
        dict.fromkeys(shaders, INFO),
    )


def one_source(count: int = 9, source: bytes = SOURCE, kind: str = "metal") -> Any:
    """Return a module with one source under the name of each function, as a compiler makes it."""
    return module_of({f"k{number}": source for number in range(count)}, kind)


def repeats_of(data: bytes, number: int = 0) -> Any:
    return pages_of(data)[0]["modules"][number].get("repeats")


@pytest.mark.row("R17", "R18", "R19")
@pytest.mark.parametrize("compress", [None, "zstd"])
@pytest.mark.parametrize("kind", ["metal", "webgpu", "vulkan"])
def test_the_file_has_a_source_once_and_the_bytes_are_the_same(
    kind: str, compress: str | None
) -> None:
    made = one_source(kind=kind)
    wire = made.save_to_bytes()
    assert wire.count(SOURCE) == 9
    data = devmod.dumps(made, compress=compress)
    assert (len(repeats_of(data)), len(repeats_of(data)[0])) == (1, 10)
    assert len(data) < len(SOURCE) + 1500
    loaded: Any = devmod.loads(data)
    assert loaded.size == len(wire)
    assert loaded.save_to_bytes() == b"".join(loaded.wire_parts()) == wire
    assert loaded.functions == made.functions
    assert len({id(shader) for shader in loaded.code.values()}) == 1
    assert loaded.code == made.code
    assert devmod.dumps(loaded) == data
    assert devmod.dumps(devmod.loads(data), compress="none") == devmod.dumps(made)
    both = devmod.loads(
        devmod.dumps(devmod.bundle(loaded, devmod.loads(devmod.dumps(one_source(12)))))
    )
    assert [each.save_to_bytes() for each in both.imports] == [wire, one_source(12).save_to_bytes()]


def test_several_sources_and_an_empty_one() -> None:
    other = SOURCE[::-1]
    made = module_of(
        {"a": SOURCE, "b": other, "c": b"", "d": SOURCE, "e": other, "f": b"", "g": b"alone"}
    )
    data = devmod.dumps(made)
    assert [len(each) for each in repeats_of(data)] == [3, 3]
    assert devmod.loads(data).save_to_bytes() == made.save_to_bytes()


@pytest.mark.parametrize(
    "shaders",
    [{"a": b"x" * 900, "b": b"x" * 900}, {"a": SOURCE, "b": SOURCE[:-1] + b" "}, {"a": SOURCE}, {}],
)
def test_a_file_that_would_save_little_has_no_repeats(shaders: dict[str, bytes]) -> None:
    data = devmod.dumps(module_of(shaders))
    assert repeats_of(data) is None


def test_a_source_with_many_uses_is_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the repeats of any module are within the limit of readers."""
    monkeypatch.setattr(repeats, "MAX_REPEATS", 8)
    made = one_source(10)
    data = devmod.dumps(made)
    assert [len(each) - 2 for each in repeats_of(data)] == [7, 1]
    assert len({id(shader) for shader in devmod.loads(data).code.values()}) == 2  # type: ignore[attr-defined]
    assert devmod.loads(data).size == len(made.save_to_bytes())  # type: ignore[attr-defined]


class InOddParts(devmod.Module):
    """A module of a plugin, whose parts are not those of its shaders."""

    kind, format = "metal", "metal"
    functions = {"k": INFO}

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        raise NotImplementedError

    def wire_parts(self) -> Sequence[bytes]:
        wire = module_of({"k": SOURCE * 2}).save_to_bytes()
        at = wire.index(SOURCE)
        return [wire[:at], SOURCE, b"", SOURCE, wire[at + 2 * len(SOURCE) :]]


def test_equal_parts_that_are_no_shaders_are_not_shared() -> None:
    data = devmod.dumps(InOddParts())
    assert repeats_of(data) is None
    assert devmod.loads(data).save_to_bytes() == InOddParts().save_to_bytes()


# -- loading


class Loaders:
    """The two loaders of a runtime, with what they got."""

    def __init__(self) -> None:
        self.codes: list[dict[str, memoryview]] = []
        self.wires: list[bytes] = []

    def create(self, code: Any, fmt: Any, fmap: Any, source: Any) -> Any:
        self.codes.append(code)
        return Real("metal")

    def load_from_bytes(self, data: memoryview) -> Any:
        self.wires.append(bytes(data))
        return Real("metal")


class Real(devmod.Module):
    def __init__(self, kind: str) -> None:
        self._kind = kind

    @property
    def kind(self) -> str:
        return self._kind

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        return name


@pytest.mark.row("R24")
def test_the_runtime_gets_shaders_that_share_memory(
    register: Callable[[str, str, object], None],
) -> None:
    loaders = Loaders()
    register("devmod.create", "metal", loaders.create)
    register("devmod.load_from_bytes", "metal", loaders.load_from_bytes)
    assert devmod.loads(devmod.dumps(one_source())).get_function("k3") == "k3"
    assert loaders.wires == []
    (code,) = loaders.codes
    assert code == one_source().code
    assert len({id(shader) for shader in code.values()}) == 1


@pytest.mark.row("R24")
def test_a_runtime_that_only_loads_bytes_gets_them(
    register: Callable[[str, str, object], None],
) -> None:
    loaders = Loaders()
    register("devmod.load_from_bytes", "metal", loaders.load_from_bytes)
    assert devmod.loads(devmod.dumps(one_source())).get_function("k3") == "k3"
    assert loaders.wires == [one_source().save_to_bytes()]


@pytest.mark.row("R9", "R24")
def test_shaders_of_one_distribution_are_not_created_by_another(
    register: Callable[[str, str, object], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader may be chosen, and `create` of another distribution need not know what it
    loads.
    """
    create = "def create(*arguments): raise AssertionError('called')\n"
    install(
        tmp_path,
        "acme-metal",
        groups={"devmod.create": {"metal": "acme_metal:create"}},
        modules={"acme_metal": create},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DEVMOD_PLUGINS_ALLOW")
    loaders = Loaders()
    register("devmod.load_from_bytes", "metal", loaders.load_from_bytes)
    assert devmod.loads(devmod.dumps(one_source())).get_function("k3") == "k3"
    assert loaders.wires == [one_source().save_to_bytes()]


@pytest.mark.row("R4", "R24")
def test_a_missing_runtime_is_the_same_error(register: Callable[[str, str, object], None]) -> None:
    loaders = Loaders()
    register("devmod.create", "metal", loaders.create)
    texts = []
    for made in (one_source(), one_source(source=b"small")):
        with pytest.raises(
            devmod.NotRegisteredError, match=r"devmod\.load_from_bytes\.metal"
        ) as caught:
            devmod.loads(devmod.dumps(made)).get_function("k0")
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert loaders.codes == []


@pytest.mark.row("R26")
def test_inspect_shows_equal_texts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = b"kernel void other() {}"
    made = module_of({"a": SOURCE, "b": other, "c": SOURCE})
    path = tmp_path / "k.devmod"
    devmod.save(made, path)
    expected = "\n".join(each.decode() for each in (SOURCE, other, SOURCE))
    assert devmod.load(path).inspect_source() == made.inspect_source() == expected
    assert main(["inspect", str(path), "--source"]) == 0
    out = capsys.readouterr().out
    assert out.count(SOURCE.decode()) == 1
    assert f"metal metal, {len(made.save_to_bytes()) / 1000:.1f} kB (4.9 kB in the file)" in out


def test_a_damaged_shader_is_found(tmp_path: Path) -> None:
    data = bytearray(devmod.dumps(one_source()))
    data[data.index(SOURCE) + 100] ^= 1
    with pytest.raises(
        devmod.FormatError, match="is damaged: its SHA-256 is not the one in the index"
    ):
        devmod.loads(bytes(data)).save_to_bytes()


@pytest.mark.parametrize("kind", ["opencl", "const_loader"])
def test_repeats_in_a_kind_without_shaders(kind: str) -> None:
    wire = {
        "opencl": b"\xa2cl\x80\xc4\x06abcabc",
        "const_loader": b"\x81\xa1c\x93\x93\x01\x08\x01\x91\x06\xc4\x06abcabc\x80",
    }[kind]
    at = wire.index(b"abc")
    stored = wire.replace(b"abcabc", b"abc", 1)
    import hashlib

    entry = {
        "kind": kind,
        "format": "cl",
        "offset": 0,
        "size": len(stored),
        "sha256": hashlib.sha256(stored).digest(),
    }
    loaded = devmod.loads(
        file_of({"roots": [0], "modules": [entry | {"repeats": [[at, 3, at + 3]]}]}, stored)
    )
    assert loaded.save_to_bytes() == wire
    with pytest.raises(devmod.FormatError, match="repeats, which only shaders have"):
        dict(loaded.functions)


# -- memory and work


@pytest.mark.row("R41")
def test_the_memory_is_that_of_one_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], register: Any
) -> None:
    loaders = Loaders()
    register("devmod.create", "metal", loaders.create)
    register("devmod.load_from_bytes", "metal", loaders.load_from_bytes)
    source, path = SOURCE * 200, tmp_path / "k.devmod"  # a megabyte, for 500 functions
    tracemalloc.start()
    try:
        made = one_source(500, source)
        devmod.save(made, path)
        devmod.save(devmod.load(path), tmp_path / "again.devmod")
        loaded: Any = devmod.load(path)
        assert len(loaded.functions) == len(loaded.code) == 500
        assert [loaded.get_function(name) for name in loaded] == list(loaded)
        assert loaders.wires == []
        for arguments in ((), ("--json",), ("--verify",), ("--source",)):
            assert main(["inspect", str(path), *arguments]) == 0
            capsys.readouterr()
        assert tracemalloc.get_traced_memory()[1] < 12 * len(source)
    finally:
        tracemalloc.stop()
    assert (tmp_path / "again.devmod").read_bytes() == path.read_bytes()
    assert path.stat().st_size < len(source) + 50_000


@pytest.mark.row("R41")
def test_an_unknown_kind_does_not_join_the_shaders() -> None:
    data = devmod.dumps(one_source(500, SOURCE * 20))
    (page,) = pages_of(data)
    page["modules"][0]["kind"] = "npu"
    loaded = devmod.loads(file_of(page, blobs_of(data)))
    tracemalloc.start()
    try:
        with pytest.raises(
            devmod.NotRegisteredError, match=r"devmod\.load_from_bytes\.npu is not registered"
        ):
            loaded.get_function("k0")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(data)


def test_the_work_is_linear_in_the_number_of_functions(register: Any) -> None:
    loaders = Loaders()
    register("devmod.create", "metal", loaders.create)
    register("devmod.load_from_bytes", "metal", loaders.load_from_bytes)

    def call(count: int) -> Callable[[], object]:
        made = one_source(count)

        def act() -> None:
            loaded: Any = devmod.loads(devmod.dumps(made))
            dict(loaded.functions)
            for name in loaded:
                loaded.get_function(name)

        return act

    assert_linear(call, 400)
