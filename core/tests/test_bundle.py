"""The .devmod file: what it holds, what saving and opening it promise, and what is refused."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgpack
import pytest
from stored import Raw, entry, file_of
from support import KINDS, sample

import devmod


def module_of(kind: str = "opencl", **changes: Any) -> devmod.Module:
    code, fmt, fmap = sample(kind)
    given = {"code": code, "fmt": fmt, "fmap": fmap} | changes
    return devmod.create_with_fallback(kind, given["code"], given["fmt"], given["fmap"])


def with_origin(module: devmod.Module, origin: devmod.Origin) -> devmod.Module:
    module.__dict__["_devmod_origin"] = origin
    return module


def index_of(data: bytes) -> dict[str, Any]:
    return msgpack.unpackb(data[48 : 48 + int.from_bytes(data[12:16], "little")])


def all_of(module: devmod.Module) -> list[devmod.Module]:
    return [module, *(each for child in module.imports for each in all_of(child))]


# -- the file


def test_the_layout_of_a_file() -> None:
    module = with_origin(module_of(code=b"kernel", fmap={"f": devmod.FunctionInfo("k", [])}), devmod.Origin("opencl", "libclang 18"))
    data = devmod.dumps(module)
    blob = module.save_to_bytes()
    index = (
        b"\x82\xa5roots\x91\x00\xa7modules\x91\x87"
        b"\xa4kind\xa6opencl\xa6format\xa2cl\xa9functions\x91\xa1f"
        b"\xa6origin\x82\xa6target\xa6opencl\xa9toolchain\xablibclang 18"
        b"\xa6offset\x00\xa4size" + bytes([len(blob)]) + b"\xa6sha256\xc4\x20" + hashlib.sha256(blob).digest()
    )
    assert index_of(data) == msgpack.unpackb(index)
    head = b"\x89devmod\n\x01\0\0\0" + len(index).to_bytes(4, "little") + hashlib.sha256(index).digest() + index
    assert data == head + bytes(-len(head) % 64) + blob


@pytest.mark.row("R18", "R19", "R21", "R24")
def test_a_tree_of_every_kind_comes_back_stored_and_saves_the_same(tmp_path: Path) -> None:
    modules = [module_of(kind) for kind in KINDS]
    modules.append(devmod.const_loader({"w": b"1234"}, {"init": ["w"]}))
    for importer, imported in pairwise(modules):
        importer.import_module(imported)
    path = tmp_path / "tree.devmod"
    devmod.save(modules[0], path)
    found = all_of(devmod.load(path))
    for made, stored in zip(modules, found, strict=True):
        assert (stored.kind, stored.format, stored.functions) == (made.kind, made.format, made.functions)
        assert stored.inspect_source() == made.inspect_source()
        assert stored.save_to_bytes() == made.save_to_bytes()
        assert stored.property_mask == 3
    assert devmod.dumps(devmod.load(path)) == path.read_bytes() == devmod.dumps(modules[0])
    assert devmod.dumps(devmod.load_from_file(path)) == path.read_bytes()


@pytest.mark.row("R43")
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda data: memoryview(data)[:], lambda data: memoryview(data).cast("b")])
def test_a_bundle_loads_from_any_buffer_as_from_a_file(make: Any, tmp_path: Path) -> None:
    module = devmod.bundle(module_of("cuda"), module_of())
    devmod.save(module, tmp_path / "k.devmod")
    data = devmod.dumps(module)
    assert data == (tmp_path / "k.devmod").read_bytes()
    loaded = devmod.loads(make(data))
    assert [each.functions for each in loaded.imports] == [each.functions for each in devmod.load(tmp_path / "k.devmod").imports]
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
    assert len(data) < 102_000
    a, b, c = devmod.loads(data).imports
    assert a.imports[0] is b.imports[0] is c
    assert [each.kind for each in (a, b, c)] == ["cuda", "opencl", "const_loader"]


def test_one_root_comes_back_as_itself_and_several_as_a_bundle() -> None:
    assert devmod.loads(devmod.dumps(devmod.bundle(module_of()))).kind == "opencl"
    several = devmod.loads(devmod.dumps(devmod.bundle(module_of("webgpu"), module_of(), module_of("cuda"))))
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
    origin = devmod.Origin("cuda -arch=sm_90", "nvcc 13.0", ["-O3"], {"k.cu": "00" * 32}, {"later": [1, {"a": None}]})
    module = with_origin(module_of("cuda"), origin)
    assert module.save_to_bytes() == module_of("cuda").save_to_bytes()
    found = devmod.loads(devmod.dumps(module))
    assert found.origin == origin
    assert devmod.dumps(found) == devmod.dumps(module)
    assert devmod.loads(devmod.dumps(module_of("cuda"))).origin is None


@pytest.mark.row("R40")
def test_the_index_names_the_architecture_that_the_payload_itself_says() -> None:
    ptx = b".version 8.0\n.target sm_70\n.address_size 64\n"
    shaders = {name: b"\0\0\0\0" + bytes(8) + b"" for name in ("a", "b")}
    found = index_of(
        devmod.dumps(devmod.bundle(module_of("cuda", code=ptx, fmt="ptx"), module_of("vulkan", code=shaders), module_of("webgpu")))
    )
    ptx_entry, vulkan, webgpu = found["modules"]
    assert ptx_entry["variant"] == devmod.targets.find_spec("cuda").architecture("ptx", ptx) != ""
    assert "variant" not in vulkan
    assert "variant" not in webgpu


@pytest.mark.row("R40")
@pytest.mark.parametrize("kind", KINDS)
def test_no_payload_is_refused_for_what_is_inside_it(kind: str) -> None:
    spec = devmod.targets.find_spec(kind)
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


def test_a_kind_that_nobody_knows_here_is_stored_as_it_came() -> None:
    data = devmod.dumps(Raw("npu", b"\x01\x02", "elf", ("f", "g")))
    found = devmod.loads(data)
    assert (found.kind, found.format, list(found.functions), found.inspect_source()) == ("npu", "elf", ["f", "g"], "")
    assert devmod.dumps(found) == data
    with pytest.raises(devmod.NotRegisteredError) as caught:
        found.get_function("f")
    assert str(caught.value) == (
        "devmod.load_from_bytes.npu is not registered, and no known distribution provides it. By convention it would be "
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
        subprocess.run([sys.executable, "-c", script, str(folder / f"{number}.devmod")], check=True, env=env, cwd=folder)
        saved.add((folder / f"{number}.devmod").read_bytes())
    assert len(saved) == 1
    assert str(tmp_path).encode() not in saved.pop()


@pytest.mark.row("R6", "R24", "R39", "R41")
def test_loading_listing_and_saving_import_no_backend(tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "devmod_cuda-9.dist-info").mkdir(parents=True)
    (package / "devmod_cuda.py").write_text("print('imported')\n")
    (package / "devmod_cuda-9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: devmod-cuda\nVersion: 9\n")
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
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "k.devmod")], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


# -- written whole or not at all


def test_a_process_that_is_killed_while_it_saves_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    before = path.read_bytes()
    script = """
import sys, devmod
devmod.save(devmod.create_with_fallback("cuda", bytes(400 << 20), "cubin", {}), sys.argv[1])
"""
    child = subprocess.Popen([sys.executable, "-c", script, str(path)])
    try:
        partial = None
        deadline = time.monotonic() + 60
        while partial is None and child.poll() is None and time.monotonic() < deadline:
            partial = next(tmp_path.glob(".k.devmod.*.partial"), None)
    finally:
        child.kill()
        child.wait()
    assert partial is not None
    assert child.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert devmod.load(path).save_to_bytes() == module_of().save_to_bytes()
    assert partial.exists()


def test_saving_over_a_file_that_is_open_leaves_what_was_loaded_alone(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    module = devmod.load(path)
    devmod.save(module_of("cuda"), path)
    assert module.save_to_bytes() == module_of().save_to_bytes()
    devmod.save(module, path)
    assert devmod.load(path).kind == "opencl"


def test_a_tree_that_cannot_be_saved_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    before = path.read_bytes()

    class Unsaved(Raw):
        save_to_bytes = devmod.Module.save_to_bytes

    broken = module_of()
    broken.import_module(Unsaved("cuda", b""))
    with pytest.raises(devmod.FormatError) as caught:
        devmod.save(broken, path)
    assert str(caught.value) == "a module of kind 'cuda' cannot be saved to bytes"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_bundle_has_no_bytes_of_its_own() -> None:
    for act in (devmod.bundle(module_of()).save_to_bytes, devmod.bundle(module_of()).wire_parts):
        with pytest.raises(devmod.FormatError) as caught:
            act()
        assert str(caught.value) == "a bundle has no bytes of its own; devmod.save and devmod.dumps write it with all it holds"


def test_permission_bits_links_and_sync(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    mask = os.umask(0o027)
    try:
        devmod.save(module_of(), path, sync=True)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    devmod.save(module_of("cuda"), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    link = tmp_path / "link.devmod"
    link.symlink_to(path.name)
    devmod.save(module_of("webgpu"), link)
    assert link.is_symlink()
    assert devmod.load(path).kind == "webgpu"
    long = tmp_path / ("n" * 255)
    devmod.save(module_of(), str(long))
    assert devmod.load(os.fsencode(long)).kind == "opencl"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["k.devmod", "link.devmod", "n" * 255]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("missing/k.devmod", FileNotFoundError, "[Errno 2] No such file or directory: {path!r}"),
        ("folder", IsADirectoryError, "[Errno 21] Is a directory: {path!r}"),
        ("file/k.devmod", NotADirectoryError, "[Errno 20] Not a directory: {path!r}"),
        ("n" * 256, OSError, "[Errno 36] File name too long: {path!r}"),
    ],
)
@pytest.mark.parametrize("act", ["save", "load"])
def test_what_the_system_refuses_is_an_os_error_with_the_path_that_was_given(
    act: str, name: str, error: type[OSError], said: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    path = str(tmp_path / name)
    with pytest.raises(error) as caught:
        devmod.load(path) if act == "load" else devmod.save(module_of(), path)
    assert str(caught.value) == said.format(path=path)
    assert caught.value.filename == path
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


PERMISSIONS = """
import os, pathlib, sys
import devmod
closed = pathlib.Path(sys.argv[1], "closed")
module = devmod.create_with_fallback("opencl", b"", "cl", {})
devmod.save(module, closed.with_name("k.devmod"))
devmod.load(closed.with_name("k.devmod"))
if os.geteuid() == 0:  # root may do all of this; what is imported so far is enough for nobody
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
closed.mkdir()
path = closed / "k.devmod"
devmod.save(module, path)
def failed(act):
    try:
        act()
    except PermissionError as error:
        return str(error)
path.chmod(0o400)
print(failed(lambda: devmod.save(module, path)) == f"[Errno 13] Permission denied: {str(path)!r}")
path.chmod(0)
print(failed(lambda: devmod.load(path)) == f"[Errno 13] Permission denied: {str(path)!r}")
closed.chmod(0o500)
new = closed / "new.devmod"
print(failed(lambda: devmod.save(module, new)) == f"[Errno 13] Permission denied: {str(new)!r}")
print(os.listdir(closed) == ["k.devmod"])
"""


def test_what_there_is_no_permission_for_is_a_permission_error_with_the_path() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        done = subprocess.run([sys.executable, "-c", PERMISSIONS, folder], capture_output=True, text=True)
        Path(folder, "closed").chmod(0o700)
    assert (done.stdout.split(), done.stderr) == (["True"] * 4, "")


@pytest.mark.parametrize("act", ["save", "load"])
def test_a_pipe_is_refused_and_not_waited_for(act: str, tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    with pytest.raises(devmod.FormatError) as caught:
        devmod.load(path) if act == "load" else devmod.save(module_of(), path)
    hint = {
        "load": "for bytes that are no file there is devmod.loads",
        "save": "and would be replaced by a file; give a file's path",
    }[act]
    assert str(caught.value) in (
        f"{path!r} is a device, a pipe or a socket; {hint}",
        f"{path!r} is a device, a pipe or a socket, {hint}",
    )
    assert stat.S_ISFIFO(os.stat(path).st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_says_so_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    before = path.read_bytes()
    real = open

    def full(name: str, mode: str = "r") -> Any:
        if mode != "xb":
            return real(name, mode)
        real(name, mode).close()
        return real("/dev/full", "wb")

    monkeypatch.setattr("devmod._atomic.open", full, raising=False)
    monkeypatch.delattr(os, "posix_fallocate")
    with pytest.raises(OSError, match=r"No space left on device") as caught:
        devmod.save(module_of("cuda", code=bytes(3 << 20)), path)
    assert str(caught.value) == f"[Errno 28] No space left on device: {str(path)!r}"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -- what is refused

BLOB = b"\xa2cl\x80\xc4\x03abc"
GOOD = file_of({"roots": [0], "modules": [entry(BLOB)]}, BLOB)


def refused(data: bytes) -> str:
    with pytest.raises(devmod.FormatError) as caught:
        devmod.loads(data)
    return str(caught.value)


def test_a_file_made_by_hand_is_read() -> None:
    assert devmod.loads(GOOD).save_to_bytes() == BLOB


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a bundle: it does not begin with the magic bytes of a .devmod file"),
        (b"\x7fELF" + bytes(100), "is not a bundle: it does not begin with the magic bytes of a .devmod file"),
        (GOOD.replace(b"\n", b"\r\n", 1), "is not a bundle: it does not begin with the magic bytes of a .devmod file"),
        (GOOD[:5], "is cut short: 5 bytes, and the header alone takes 48"),
        (GOOD[:47], "is cut short: 47 bytes, and the header alone takes 48"),
        (GOOD[:60], "is cut short: an index of 109 bytes, and 12 are left"),
        (GOOD[:170], "is cut short: 170 bytes, and its head alone takes 192"),
        (file_of({}, version=2), "is in version 2 of the .devmod format, and this devmod reads version 1: pip install -U devmod-core"),
        (file_of({}, version=0), "is damaged: there is no version 0 of the .devmod format"),
        (file_of({}, length=2**32 - 1), "is damaged: an index of 4294967295 bytes, and the most there is are 67108864"),
        (file_of({}, digest=bytes(32)), "is damaged: the SHA-256 of its index is not the one in its header. Get the file again"),
    ],
)
def test_a_bad_head_says_which(data: bytes, said: str) -> None:
    assert refused(data) == f"the bundle in memory {said}"


def test_a_file_is_named_in_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    path.write_bytes(b"")
    with pytest.raises(devmod.FormatError) as caught:
        devmod.load(path)
    assert str(caught.value) == f"{str(path)!r} is not a bundle: it does not begin with the magic bytes of a .devmod file"


TREE = {"kind": "bundle"}


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (b"", ": the bytes end where an object should begin, at byte 0"),
        (b"\x80\x80", ": 1 more byte follows the last field, at byte 1"),
        ([], ": expected a map, found an array, at byte 0"),
        ({}, " has no roots"),
        ({"roots": [0]}, " has no modules"),
        ({"roots": [], "modules": []}, " has no root"),
        ({"roots": 0, "modules": []}, ": roots: expected an array, found an integer, at byte 7"),
        ({"roots": [-1], "modules": []}, ": roots: -1 is not between 0 and 4294967295, at byte 8"),
        ({"roots": [1], "modules": [entry(BLOB)]}, ": the root 1 is none of its 1 modules"),
        ({"roots": [0, 0], "modules": [entry(BLOB)]}, " names a root twice"),
        ({"roots": [0], "modules": [1]}, ": modules, 0: expected a map, found an integer, at byte 18"),
        ({"roots": [0], "modules": [{}]}, ": modules, 0: no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}, at byte 18"),
        (
            {"roots": [0], "modules": [entry(BLOB, kind="a; rm -rf")]},
            ": modules, 0: no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}, at byte 18",
        ),
        ({"roots": [0], "modules": [entry(BLOB, kind=b"cuda")]}, ": modules, 0, kind: expected a string, found a binary, at byte 24"),
        (
            {"roots": [0], "modules": [entry(BLOB, size=None)]},
            ": modules, 0: a module of kind 'opencl' has an offset, size and sha256; found: offset, sha256, at byte 18",
        ),
        (
            {"roots": [0], "modules": [entry(BLOB, kind="bundle")]},
            ": modules, 0: a module of kind 'bundle' has no offset, size and sha256; found: offset, size, sha256, at byte 18",
        ),
        ({"roots": [0], "modules": [entry(BLOB, sha256=bytes(31))]}, ": modules, 0: a sha256 of 31 bytes, at byte 18"),
        ({"roots": [0], "modules": [entry(BLOB, size=-1)]}, ": modules, 0, size: -1 is not between 0 and 9223372036854775807, at byte 67"),
        ({"roots": [0], "modules": [entry(BLOB, functions="f")]}, ": modules, 0, functions: expected an array, found a string, at byte 51"),
        ({"roots": [0], "modules": [entry(BLOB, origin=[])]}, ": modules, 0, origin: expected a map, found an array, at byte 116"),
        (
            {"roots": [0], "modules": [entry(BLOB, origin={"target": 1})]},
            ": modules, 0, origin: the target and the toolchain of an origin are strings, at byte 116",
        ),
        ({"roots": [0], "modules": [TREE | {"imports": [0]}]}, ": module 0 imports 0, which may be a cycle: a number after its own is due"),
        (
            {"roots": [0], "modules": [TREE | {"imports": [1]}, TREE | {"imports": [0]}]},
            ": module 1 imports 0, which may be a cycle: a number after its own is due",
        ),
        ({"roots": [0], "modules": [TREE | {"imports": [2]}, TREE]}, ": module 0 imports 2, and there are 2 modules"),
        ({"roots": [0], "modules": [TREE, TREE]}, ": module 1 is neither a root nor imported by a module before it"),
        (
            {"roots": [0], "modules": [TREE | {"imports": [number + 1]} for number in range(70)] + [TREE]},
            ": module 64 lies more than 64 imports deep",
        ),
    ],
)
def test_a_bad_index_says_where(index: Any, said: str) -> None:
    assert refused(file_of(index, BLOB)) == f"the index of the bundle in memory{said}"


SECOND = len(BLOB) + 55  # the next multiple of 64


@pytest.mark.parametrize(
    ("first", "second", "blobs", "said"),
    [
        ({"offset": 64}, {}, BLOB, "the bytes of module 0 (opencl) have a bad offset: 64, and 0 is due"),
        (
            {},
            {"offset": 8},
            BLOB + bytes(55) + BLOB,
            "the bytes of module 1 (opencl) overlap those before them: they begin at 8, and those end at 9",
        ),
        ({}, {"offset": 0}, BLOB, "the bytes of module 1 (opencl) overlap those before them: they begin at 0, and those end at 9"),
        ({}, {"offset": 63}, BLOB + bytes(55) + BLOB, "the bytes of module 1 (opencl) have a bad offset: 63, and 64 is due"),
        ({}, {"offset": 128}, BLOB + bytes(119) + BLOB, "the bytes of module 1 (opencl) have a bad offset: 128, and 64 is due"),
        (
            {"size": 2**62},
            {"offset": 2**62},
            BLOB,
            "the bytes of module 0 (opencl) end at 4611686018427387904, and there are 9: the file is cut short, or the size is wrong",
        ),
        (
            {},
            {"offset": 64},
            BLOB + bytes(55) + BLOB[:-1],
            "the bytes of module 1 (opencl) end at 73, and there are 72: the file is cut short, or the size is wrong",
        ),
    ],
)
def test_a_bad_offset_or_size_says_whose(first: dict[str, Any], second: dict[str, Any], blobs: bytes, said: str) -> None:
    index = {"roots": [0, 1], "modules": [entry(BLOB, **first), entry(BLOB, **second)]}
    assert refused(file_of(index, blobs)) == f"the index of the bundle in memory: {said}"


def test_bytes_behind_the_last_module_are_refused() -> None:
    assert refused(GOOD + b"!") == "the bundle in memory: 1 more bytes than its index describes"


def test_keys_that_are_not_known_are_skipped() -> None:
    index = {"roots": [0], "later": [{"x": 1}], "modules": [entry(BLOB, later={"y": [None]})]}
    assert devmod.loads(file_of(index, BLOB)).save_to_bytes() == BLOB
    again = b"\x82\xa5roots\x90\xa5roots\x90"
    assert refused(file_of(again)) == "the index of the bundle in memory: the key 'roots' stands twice, at byte 8"


@pytest.mark.row("R41")
def test_a_flipped_byte_anywhere_is_found_before_the_bytes_are_used(register: Any, tmp_path: Path) -> None:
    used = []
    register("devmod.load_from_bytes", "opencl", lambda data: used.append(bytes(data)) or Raw("opencl", bytes(data), functions=("f",)))
    path = tmp_path / "k.devmod"
    data = file_of({"roots": [0], "modules": [entry(BLOB)]}, BLOB)
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        padding = 48 + int.from_bytes(data[12:16], "little") <= at < len(data) - len(BLOB)
        if padding:
            continue
        with pytest.raises(devmod.FormatError) as caught:
            devmod.load(path).get_function("f")
        if at >= len(data) - len(BLOB):
            assert str(caught.value) == (
                f"{str(path)!r}: the opencl module with 'f' is damaged: its SHA-256 is not the one in the index. "
                "Nothing of it was used. Get the file again from where it came"
            )
    assert used == []
    path.write_bytes(data)
    devmod.load(path).get_function("f")
    assert used == [BLOB]


@pytest.mark.row("R41")
def test_damage_is_not_saved_as_if_it_were_sound(tmp_path: Path) -> None:
    damaged = devmod.loads(GOOD[:-1] + b"X")
    acts = [damaged.save_to_bytes, lambda: devmod.dumps(damaged), lambda: devmod.save(damaged, tmp_path / "k.devmod")]
    acts.append(lambda: devmod.dumps(devmod.bundle(module_of("cuda", code=bytes(2 << 20)), damaged)))
    for act in acts:
        with pytest.raises(devmod.FormatError, match=r"^the bundle in memory: the opencl module with 'f' is damaged: "):
            act()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [1, None, "text", [1]])
def test_what_is_no_buffer_is_an_argument_error(data: Any) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        devmod.loads(data)
    assert str(caught.value) == f"loads(data): data is bytes or another buffer, not {type(data).__name__}"
    assert caught.value.argument == "data"


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

    with pytest.raises(devmod.FormatError) as caught:
        devmod.dumps(Circular("opencl", b""))
    assert str(caught.value) == "the opencl module imports itself, directly or through others: a program is a tree"


def test_a_tree_that_is_too_deep_or_of_a_kind_that_no_file_holds_is_refused_when_it_is_saved() -> None:
    root = module = module_of()
    for _ in range(63):
        child = module_of()
        module.import_module(child)
        module = child
    assert len(all_of(devmod.loads(devmod.dumps(root)))) == 64
    module.import_module(module_of())
    with pytest.raises(devmod.FormatError) as caught:
        devmod.dumps(root)
    assert str(caught.value) == "the index of the bundle to be saved: module 64 lies more than 64 imports deep"
    for kind in ("bundle", "No", "_lib", ""):
        with pytest.raises(devmod.FormatError) as caught:
            devmod.dumps(Raw(kind, b""))
        assert str(caught.value) == f"a Raw of kind {kind!r} cannot be saved: no file may hold such a kind"


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


def test_a_bundle_holds_modules_alone() -> None:
    with pytest.raises(devmod.FormatError) as caught:
        devmod.bundle(module_of(), "k.devmod")  # type: ignore[arg-type]
    assert str(caught.value) == "a bundle holds modules, not str"
    with pytest.raises(devmod.FormatError) as caught:
        devmod.dumps(devmod.bundle())
    assert str(caught.value) == "the index of the bundle to be saved has no root"


def test_opening_a_large_file_reads_its_index_alone(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    blob = b"\xa2cl\x80\xc6" + (2**32 - 1).to_bytes(4, "big")
    size = len(blob) + 2**32 - 1
    head = file_of({"roots": [0], "modules": [entry(blob, size=size, functions=None)]})
    with open(path, "wb") as file:  # 4 GiB, most of it a hole
        file.write(head + blob)
        file.truncate(len(head) + size)
    began = time.perf_counter()
    module = devmod.load(path)
    assert time.perf_counter() - began < 0.5  # milliseconds; hashing it all would take many seconds
    assert (module.kind, module.functions, len(module.code)) == ("opencl", {}, 2**32 - 1)
