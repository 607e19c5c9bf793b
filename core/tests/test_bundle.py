"""The .devmod file: its contents, and the guarantees of saving and opening."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgpack
import pytest
from each_case import refusal
from stored import Raw, entry, headed, module_of, pages_of, row
from support import KINDS

import devmod


def with_origin(module: devmod.Module, origin: devmod.Origin) -> devmod.Module:
    module.__dict__["_devmod_origin"] = origin
    return module


def all_of(module: devmod.Module) -> list[devmod.Module]:
    return [module, *(each for child in module.imports for each in all_of(child))]


# -- the file


def test_the_layout_of_a_file() -> None:
    module = with_origin(
        module_of(code=b"kernel", fmap={"f": devmod.FunctionInfo("k", [])}),
        devmod.Origin("opencl", "libclang 18"),
    )
    data = devmod.dumps(module)
    blob = module.save_to_bytes()
    page = (
        b"\x81\xa7modules\x91\x87"
        b"\xa4kind\xa6opencl\xa6format\xa2cl\xa9functions\x91\xa1f\xa4rank\x00"
        b"\xa6origin\x82\xa6target\xa6opencl\xa9toolchain\xablibclang 18"
        b"\xa4size" + bytes([len(blob)]) + b"\xa6sha256\xc4\x20" + hashlib.sha256(blob).digest()
    )
    head = (
        b"\x82\xaacandidates\x01\xa5pages\x91\x96\x01\xcc"
        + bytes([len(page), len(blob)])
        + b"\xc4\x20"
    )
    head += hashlib.sha256(page).digest() + b"\x00\xc4\x00"
    start = (
        b"\x89devmod\n\x06\0\0\0"
        + len(head).to_bytes(4, "little")
        + hashlib.sha256(head).digest()
        + head
        + page
    )
    assert data == start + bytes(-len(start) % 64) + blob


@pytest.mark.row("R18", "R19", "R21", "R24")
def test_a_loaded_tree_of_every_kind_saves_the_same_bytes(tmp_path: Path) -> None:
    modules = [module_of(kind) for kind in KINDS]
    modules.append(devmod.const_loader({"w": b"1234"}, {"init": ["w"]}))
    for importer, imported in pairwise(modules):
        importer.import_module(imported)
    path = tmp_path / "tree.devmod"
    devmod.save(modules[0], path)
    found = all_of(devmod.load(path))
    for made, stored in zip(modules, found, strict=True):
        assert (stored.kind, stored.format, stored.functions) == (
            made.kind,
            made.format,
            made.functions,
        )
        assert stored.inspect_source() == made.inspect_source()
        assert stored.save_to_bytes() == made.save_to_bytes()
        assert stored.property_mask == 3
    assert devmod.dumps(devmod.load(path)) == path.read_bytes() == devmod.dumps(modules[0])
    assert devmod.dumps(devmod.load_from_file(path)) == path.read_bytes()


def strided(data: bytes) -> memoryview:
    return memoryview(bytes(byte for each in data for byte in (each, 0)))[::2]


@pytest.mark.row("R43")
@pytest.mark.parametrize(
    "make",
    [
        bytes,
        bytearray,
        memoryview,
        lambda data: memoryview(data)[:],
        lambda data: memoryview(data).cast("b"),
        strided,
    ],
)
def test_a_bundle_loads_from_any_buffer_as_from_a_file(make: Any, tmp_path: Path) -> None:
    module = devmod.bundle(module_of("cuda"), module_of())
    devmod.save(module, tmp_path / "k.devmod")
    data = devmod.dumps(module)
    assert data == (tmp_path / "k.devmod").read_bytes()
    loaded = devmod.loads(make(data))
    assert [each.functions for each in loaded.imports] == [
        each.functions for each in devmod.load(tmp_path / "k.devmod").imports
    ]
    assert devmod.dumps(loaded) == data


def test_a_writable_buffer_may_change_after_loading() -> None:
    data = bytearray(devmod.dumps(module_of()))
    module = devmod.loads(data)
    data[:] = bytes(len(data))
    assert module.save_to_bytes() == module_of().save_to_bytes()


@pytest.mark.row("R21")
def test_a_module_that_is_imported_twice_is_one_blob() -> None:
    shared = devmod.const_loader({"w": bytes(100_000)}, {})
    first, second = module_of("cuda"), module_of()
    for each in (first, second):
        each.import_module(shared)
    data = devmod.dumps(devmod.bundle(first, second, shared))
    assert len(data) < 110_000
    a, b, c = devmod.loads(data).imports
    assert a.imports[0] is b.imports[0] is c
    assert [each.kind for each in (a, b, c)] == ["cuda", "opencl", "const_loader"]


def test_loading_returns_one_root_or_a_bundle_of_several() -> None:
    assert devmod.loads(devmod.dumps(devmod.bundle(module_of()))).kind == "opencl"
    several = devmod.loads(
        devmod.dumps(devmod.bundle(module_of("webgpu"), module_of(), module_of("cuda")))
    )
    assert several.kind == "bundle"
    assert [each.kind for each in several.imports] == ["webgpu", "opencl", "cuda"]


def test_a_bundle_inside_a_tree_keeps_its_place() -> None:
    root = module_of()
    root.import_module(devmod.bundle(module_of("cuda"), devmod.bundle(module_of("metal"))))
    found = devmod.loads(devmod.dumps(root))
    assert [each.kind for each in all_of(found)] == ["opencl", "bundle", "cuda", "bundle", "metal"]
    assert devmod.dumps(found) == devmod.dumps(root)


@pytest.mark.row("R42")
def test_an_origin_travels_outside_the_modules_bytes() -> None:
    origin = devmod.Origin(
        "cuda -arch=sm_90", "nvcc 13.0", ["-O3"], {"k.cu": "00" * 32}, {"later": [1, {"a": None}]}
    )
    module = with_origin(module_of("cuda"), origin)
    assert module.save_to_bytes() == module_of("cuda").save_to_bytes()
    found = devmod.loads(devmod.dumps(module))
    assert found.origin == origin
    assert devmod.dumps(found) == devmod.dumps(module)
    assert devmod.loads(devmod.dumps(module_of("cuda"))).origin is None


@pytest.mark.row("R40")
def test_the_index_has_the_architecture_of_the_payload() -> None:
    ptx = b".version 8.0\n.target sm_70\n.address_size 64\n"
    shaders = {name: b"\0\0\0\0" + bytes(8) + b"" for name in ("a", "b")}
    (found,) = pages_of(
        devmod.dumps(
            devmod.bundle(
                module_of("cuda", code=ptx, fmt="ptx"),
                module_of("vulkan", code=shaders),
                module_of("webgpu"),
            )
        )
    )
    (ptx_entry, vulkan, webgpu) = sorted(found["modules"], key=lambda each: each["kind"])
    assert ptx_entry["variant"] == devmod.backend.find_spec("cuda").architecture("ptx", ptx) != ""
    assert "variant" not in vulkan
    assert "variant" not in webgpu


@pytest.mark.row("R40")
@pytest.mark.parametrize("kind", KINDS)
def test_no_payload_is_refused_for_what_is_inside_it(kind: str) -> None:
    spec = devmod.backend.find_spec(kind)
    for fmt in spec.formats:
        for junk in (b"", b"\xff" * 7, b"\x7fELF", bytes(4096)):
            code = {"add": junk} if spec.shader_map else junk
            found = devmod.loads(devmod.dumps(module_of(kind, fmt=fmt, code=code)))
            assert (found.format, found.code) == (fmt, code)


def test_a_module_of_a_plugins_own_class_is_described_from_its_bytes() -> None:
    ptx = b".version 8.0\n.target sm_70\n.address_size 64\n"
    made = module_of("cuda", code=ptx, fmt="ptx")
    own = Raw("cuda", made.save_to_bytes(), "ptx", ("add",))
    assert devmod.dumps(own) == devmod.dumps(made)


def test_a_module_of_an_unknown_kind_is_stored_unchanged() -> None:
    data = devmod.dumps(Raw("npu", b"\x01\x02", "elf", ("f", "g")))
    found = devmod.loads(data)
    assert (found.kind, found.format, list(found.functions), found.inspect_source()) == (
        "npu",
        "elf",
        ["f", "g"],
        "",
    )
    assert devmod.dumps(found) == data
    assert refusal(devmod.NotRegisteredError, found.get_function, "f") == (
        "devmod.load_from_bytes.npu is not registered, and no known distribution provides it; by convention it would be "
        "devmod-npu; install that only if you trust its publisher"
    )


# -- the same bytes everywhere


@pytest.mark.row("R38", "R42")
def test_the_bytes_depend_on_the_tree_alone(tmp_path: Path) -> None:
    script = """
import sys, devmod
info = devmod.FunctionInfo("k", ["handle"], ["blockIdx.x"])
a = devmod.create_with_fallback("cuda", b"x" * 3000000, "cuda", {"k": info, "z": info, "b": info})
b = devmod.create_with_fallback("webgpu", {"k": b"fn", "a": b"fn2"}, "wgsl", {"k": info})
a.import_module(devmod.const_loader({"w": b"12", "a": b"3"}, {"i": ["w", "a"]}))
devmod.save(devmod.bundle(a, b), sys.argv[1])
"""
    saved = set()
    for number, zone in enumerate(("UTC", "Asia/Tokyo")):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        env = os.environ | {"PYTHONHASHSEED": str(number), "TZ": zone, "HOME": str(folder)}
        subprocess.run(
            [sys.executable, "-c", script, str(folder / f"{number}.devmod")],
            check=True,
            env=env,
            cwd=folder,
        )
        saved.add((folder / f"{number}.devmod").read_bytes())
    assert len(saved) == 1
    assert str(tmp_path).encode() not in saved.pop()


@pytest.mark.row("R6", "R24", "R39", "R41")
def test_loading_listing_and_saving_import_no_backend(tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "devmod_cuda-9.dist-info").mkdir(parents=True)
    (package / "devmod_cuda.py").write_text("print('imported')\n")
    (package / "devmod_cuda-9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: devmod-cuda\nVersion: 9\n"
    )
    groups = ("create", "load_from_bytes", "device")
    (package / "devmod_cuda-9.dist-info" / "entry_points.txt").write_text(
        "".join(f"[devmod.{group}]\ncuda = devmod_cuda:f\n" for group in groups)
    )
    devmod.save(devmod.bundle(module_of("cuda"), module_of("opencl")), tmp_path / "k.devmod")
    script = """
import sys, devmod
module = devmod.load(sys.argv[1])
assert [list(each.functions) for each in module.imports] == [["add"], ["add"]]
assert module.imports[0].inspect_source() and module.imports[0].format == "cuda"
devmod.save(module, sys.argv[1] + "2")
assert "devmod_cuda" not in sys.modules and "numpy" not in sys.modules
"""
    env = os.environ | {"PYTHONPATH": str(package), "DEVMOD_PLUGINS_ALLOW": ""}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "k.devmod")],
        env=env,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


# -- trees


def test_a_cycle_is_refused_when_it_is_made_and_when_it_is_saved() -> None:
    first, second = module_of(), module_of("cuda")
    first.import_module(second)
    for importer, imported in ((second, first), (first, first)):
        with pytest.raises(devmod.FormatError, match="cycle"):
            importer.import_module(imported)
    node = devmod.bundle(first)
    with pytest.raises(devmod.FormatError, match="cycle"):
        second.import_module(node)

    class Circular(Raw):
        @property
        def imports(self) -> tuple[devmod.Module, ...]:
            return (first, self)

    assert (
        refusal(devmod.FormatError, devmod.dumps, Circular("opencl", b""))
        == "the opencl module imports itself, directly or through others: a file is a tree"
    )


def test_a_tree_that_is_too_deep_or_of_a_kind_that_no_file_holds_is_refused_when_it_is_saved() -> (
    None
):
    root = module = module_of()
    for _ in range(63):
        child = module_of()
        module.import_module(child)
        module = child
    assert len(all_of(devmod.loads(devmod.dumps(root)))) == 64
    module.import_module(module_of())
    assert (
        refusal(devmod.FormatError, devmod.dumps, root)
        == "the index of the bundle to be saved: module 64 is more than 64 imports deep"
    )
    for kind in ("bundle", "No", "_lib", ""):
        assert (
            refusal(devmod.FormatError, devmod.dumps, Raw(kind, b""))
            == f"a Raw of kind {kind!r} cannot be saved: no file may hold such a kind"
        )


def test_a_wide_and_shared_tree_is_saved_without_walking_it_again_and_again() -> None:
    layer = [module_of()]
    for _ in range(40):  # two ways through each of 40 layers: 2**40 paths
        above = [module_of(), module_of()]
        for each in above:
            for below in layer:
                each.import_module(below)
        layer = above
    found = devmod.loads(devmod.dumps(devmod.bundle(*layer)))
    with pytest.raises(devmod.FunctionNotFoundError):
        found.imports[0].get_function("nothing", query_imports=True)


def test_a_bundle_contains_modules_alone() -> None:
    text = refusal(devmod.FormatError, lambda: devmod.bundle(module_of(), "k.devmod"))
    assert text == "a bundle holds modules, not str"
    assert (
        refusal(devmod.FormatError, devmod.bundle) == "a bundle holds modules, and none was given"
    )


@pytest.mark.parametrize("save", [devmod.dumps, lambda module: devmod.save(module, "never.devmod")])
def test_only_modules_are_saved(save: Any) -> None:
    assert refusal(devmod.FormatError, save, None) == "expected a Module to save, got NoneType"
    text = refusal(devmod.FormatError, lambda: devmod.save("never.devmod", module_of()))
    assert text == "expected a Module to save, got str. The module comes before the path"


def test_opening_a_large_file_reads_its_index_alone(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    blob = b"\xa2cl\x80\xc6" + (2**32 - 1).to_bytes(4, "big")
    size = len(blob) + 2**32 - 1
    page = msgpack.packb({"modules": [entry(blob, size=size, functions=None, rank=0)]})
    head = headed({"candidates": 1, "pages": [row(page, 1, size)]}, page)
    with open(path, "wb") as file:  # 4 GiB, most of it a hole
        file.write(head + blob)
        file.truncate(len(head) + size)
    module = devmod.load(
        path
    )  # the digest in the index is of the first bytes alone: to hash all would be an error
    assert (module.kind, module.functions, module.size) == ("opencl", {}, size)  # type: ignore[attr-defined]


def test_computed_imports_are_requested_once() -> None:
    class Dynamic(Raw):
        @property
        def imports(self) -> tuple[devmod.Module, ...]:
            return (module_of("cuda"), module_of("metal"))

    found = devmod.loads(devmod.dumps(Dynamic("opencl", b"")))
    assert [each.kind for each in all_of(found)] == ["opencl", "cuda", "metal"]


def test_the_parts_of_a_plugins_module_may_be_any_buffers() -> None:
    class Parts(Raw):
        def wire_parts(self) -> Any:
            return [bytearray(b"ab"), memoryview(b"cdef").cast("H"), b""]

    assert devmod.loads(devmod.dumps(Parts("npu", b""))).save_to_bytes() == b"abcdef"
