"""`devmod pack` and `devmod unpack`: a stranger's folder or wheel becomes one file, and files
again, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alone import core_alone as core_alone
from command_line import call as run
from each_case import refusal, some

import devmod
from devmod.backend import Payload, module_of
from devmod_targets import packing

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tools"))
from fuzzing import seeds  # noqa: E402

VECTORS = ROOT / "core" / "tests" / "vectors" / "arch"
BINARIES = ("sm_75.cubin", "sm_80.cubin", "gfx1030.hsaco", "compute_90.ptx", "plain.spv")
WGSL = "@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(64) fn fill() { x[0] = 1.0; }"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with payloads, and with files that are none."""
    place = tmp_path / "kernels"
    (place / "web").mkdir(parents=True)
    for name in BINARIES:
        (place / name).write_bytes((VECTORS / name).read_bytes())
    (place / "web" / "fill.wgsl").write_text(WGSL)
    (place / "setup.py").write_text("raise SystemExit('it was run')")
    (place / "README.txt").write_text("kernels")
    return place


def contents(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.suffix in packing.SUFFIXES
    }


@pytest.mark.row("R19", "R50")
@pytest.mark.parametrize("as_wheel", [False, True], ids=["folder", "wheel"])
def test_files_come_out_as_they_went_in(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, as_wheel: bool
) -> None:
    source = folder
    if as_wheel:
        source = tmp_path / "kernels-1.0-py3-none-any.whl"
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in some(sorted(folder.rglob("*"))):
                archive.write(path, path.relative_to(folder))
    library, out = tmp_path / "library.devmod", tmp_path / "out"
    assert run(capsys, "pack", source, "-o", library, "--opaque") == (
        0,
        f"{library}: {os.path.getsize(library) / 1000:.1f} kB, 6 files\n"
        "4 functions with the sizes of the parameters alone: a call gives bytes or arrays by position.\n",
        "",
    )
    root = devmod.load(library)
    names = [next(iter(each.origin.sources)) for each in root.imports if each.origin is not None]
    assert names == sorted(contents(folder))
    assert [each.origin.sources for each in root.imports if each.origin is not None] == [
        {name: hashlib.sha256(data).hexdigest()} for name, data in sorted(contents(folder).items())
    ]
    assert sorted(root) == ["fill", "main", "scale"]
    assert run(capsys, "unpack", library, "-o", out) == (0, f"{out}: 6 files\n", "")
    assert contents(out) == contents(folder)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_kernels_without_types_need_the_option(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library.devmod"
    assert run(capsys, "pack", folder, "-o", library) == (
        1,
        "",
        "devmod: error: 'compute_90.ptx' cannot be packed: it does not have the types of the kernel 'scale'. --opaque takes the sizes of its "
        "parameters alone\n",
    )
    assert not library.exists()
    code, out, _ = run(capsys, "pack", folder / "sm_80.cubin", "-o", library, "--opaque")
    assert (code, out.count(" kB, 1 file\n1 function with the sizes ")) == (0, 1)
    info = devmod.load(library).functions["scale"]
    assert info.interface is not None
    assert [(each.name, each.kind, each.type) for each in info.interface.params] == [
        ("", "scalar", "handle"),
        ("", "scalar", "uint8x4"),
        ("", "scalar", "uint8x4"),
    ]
    assert info.arg_types == ("uint64", "uint8x4", "uint8x4")
    assert (
        "\n  scale(handle, uint8x4, uint8x4), opaque: sizes without types\n"
        in run(capsys, "inspect", library)[1]
    )


def test_a_kernel_of_the_same_name_and_architecture_has_the_name_of_its_file(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "again.cubin").write_bytes((VECTORS / "sm_80.cubin").read_bytes() + b"\0")
    packing.pack(
        packing.payload_files([folder]),
        tmp_path / "k.devmod",
        opaque=True,
        compress=None,
        done=lambda count: None,
    )
    assert sorted(devmod.load(tmp_path / "k.devmod")) == ["fill", "main", "scale", "sm_80:scale"]


def test_a_metadata_file_has_the_functions(folder: Path, tmp_path: Path) -> None:
    (folder / "k.metallib").write_bytes(seeds.metallib({"scale": None}))
    for name in ("k", "sm_75", "plain"):
        (folder / f"{name}.tvm_meta.json").write_text(
            '{"func_info": {"f": {"name": "scale", "arg_types": ["handle", "int32", "int32"]}}}'
        )
    pack(folder, tmp_path)
    found = {
        each.format: each.functions
        for each in devmod.load(tmp_path / "k.devmod").imports
        if "f" in each.functions
    }
    assert {fmt: functions["f"].arg_types for fmt, functions in found.items()} == dict.fromkeys(
        ("metallib", "cubin", "spv"), ("handle", "int32", "int32")
    )
    assert packing.unpack(tmp_path / "k.devmod", tmp_path / "out") == 7
    assert contents(tmp_path / "out") == contents(folder)


METAL = """#include <metal_stdlib>
using namespace metal;
constant bool flag [[function_constant(3)]];
[[kernel, max_total_threads_per_threadgroup(128)]] void k(constant uint &n, device float *x, constant half3 &h, constant int *m,
    threadgroup half4 *t, uint i [[thread_position_in_grid]]) { if (flag) x[i] = n; }
"""


def test_a_metallib_has_the_arguments_that_a_compiler_reads(folder: Path, tmp_path: Path) -> None:
    constant = {"object": 1, "access": 1}
    nodes = [
        seeds.metal_argument(1, "float", "x", 4),
        seeds.metal_argument(3, "int", "m", 4, space=2, access=1),
        seeds.metal_argument(0, "half4", "t", 8, space=3),
        seeds.metal_argument(2, "half3", "h", 8, **constant),
        seeds.metal_argument(0, "uint", "n", 4, **constant),
        {0: 0x41000, 1: {1: "uint", 2: "i"}},
        {0: 0x1003, 1: {0: 128}},
        {0: 0x80000, 1: {0: "bool", 1: "flag", 2: 3}},
    ]
    path = folder / "k.metallib"
    path.write_bytes(seeds.metallib({"k": nodes}))
    packing.pack(
        packing.payload_files([path]),
        tmp_path / "k.devmod",
        opaque=False,
        compress=None,
        done=lambda count: None,
    )
    assert (
        devmod.load(tmp_path / "k.devmod").functions
        == devmod.compile(METAL, "metal", language="MSL").functions
    )
    path.write_bytes(seeds.metallibs()[0])
    for opaque, problem in [
        (
            False,
            "it does not have the types of the kernel 'old'. --opaque takes the sizes of its parameters alone",
        ),
        (True, "it does not have the sizes of the parameters of the kernel 'old'"),
    ]:
        assert (
            refusal(
                devmod.FormatError,
                packing.pack,
                packing.payload_files([path]),
                tmp_path / "k.devmod",
                opaque=opaque,
                compress=None,
                done=lambda count: None,
            )
            == f"'k.metallib' cannot be packed: {problem}"
        )
    path.write_bytes(b"MTLB" + bytes(84))
    with pytest.raises(
        devmod.FormatError,
        match=r"^'k.metallib' cannot be packed: the metallib is damaged: expected \d bytes at \d+",
    ):
        pack(path, tmp_path)


def test_a_shader_that_is_no_text(folder: Path, tmp_path: Path) -> None:
    (folder / "web" / "fill.wgsl").write_bytes(b"@compute \xff")
    with pytest.raises(devmod.FormatError, match=r"^'web/fill\.wgsl' cannot be packed: .*UTF-8"):
        pack(folder, tmp_path)


def pack(source: Path, tmp_path: Path) -> None:
    packing.pack(
        packing.payload_files([source]),
        tmp_path / "k.devmod",
        opaque=True,
        compress=None,
        done=lambda count: None,
    )


# -- strangers


def test_links_pipes_and_what_is_none_are_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.cubin").write_bytes((VECTORS / "sm_90.cubin").read_bytes())
    (folder / "link.cubin").symlink_to(tmp_path / "secret.cubin")
    (folder / "places").symlink_to(tmp_path)
    (folder / "endless").symlink_to(folder)
    os.mkfifo(folder / "pipe.cubin")
    (folder / "folder.cubin").mkdir()
    (folder / "sm_80.tvm_meta.json").symlink_to(tmp_path / "secret.cubin")
    assert [each.name for each in packing.payload_files([folder])] == sorted(
        [*BINARIES, "web/fill.wgsl"]
    )
    pack(folder, tmp_path)
    pack(folder / "link.cubin", tmp_path)  # its user names it
    with pytest.raises(devmod.FormatError, match="is a pipe"):
        packing.payload_files([folder / "pipe.cubin"])


def test_a_folder_is_bounded(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_BYTES", 1 << 16)
    with (folder / "large.cubin").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(devmod.FormatError, match=r"^'large\.cubin' has more than 65536 bytes$"):
        pack(folder, tmp_path)
    (folder / "large.cubin").unlink()
    monkeypatch.setattr(packing, "MAX_ENTRIES", 5)
    with pytest.raises(devmod.FormatError, match="has more than 5 entries"):
        packing.payload_files([folder])
    assert [path.name for path in tmp_path.iterdir()] == ["kernels"]


NAMES = [
    "../out",
    "/etc/k",
    "a//k",
    "c:k",
    "a\\k",
    "\x1b[2J",
    "a\nk",
    "k" * 600,
    "NUL",
    "a/con",
    "aux.d/k",
    "a./k",
    "a /k",
]


@pytest.mark.parametrize("name", [f"{name}.cubin" for name in NAMES])
def test_a_name_that_no_file_may_have(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "k.whl", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), (VECTORS / "sm_80.cubin").read_bytes())
    with pytest.raises(devmod.FormatError, match=r"is a name that no file may have"):
        pack(tmp_path / "k.whl", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["k.whl"]


@pytest.mark.parametrize("name", ["out.devmod", "k.cubin", "k.whl"])
def test_no_output_is_one_of_the_files(
    capsys: pytest.CaptureFixture[str], folder: Path, name: str
) -> None:
    problem = f"{folder / name} may be one of the files to pack; writing to it would overwrite it. Choose the suffix .devmod"
    code, _, error = run(capsys, "pack", folder, "-o", folder / name, "--opaque")
    assert (code, problem in error) == ((0, False) if name == "out.devmod" else (2, True))


def test_ctrl_c_leaves_the_old_file(folder: Path, tmp_path: Path) -> None:
    pack(folder / "web", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for last in range(len(BINARIES) + 1):
        done = partial(interrupt, iter([*[None] * last, KeyboardInterrupt]))
        with pytest.raises(KeyboardInterrupt):
            packing.pack(
                packing.payload_files([folder]),
                tmp_path / "k.devmod",
                opaque=True,
                compress=None,
                done=done,
            )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def interrupt(ends: Iterator[type[BaseException] | None], count: int) -> None:
    if error := next(ends):
        raise error


def test_two_payloads_of_one_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(devmod.FormatError, match=r"the payload 'compute_90\.ptx' is there twice"):
        packing.payload_files([folder, folder / "compute_90.ptx"])
    with zipfile.ZipFile(tmp_path / "k.whl", "w") as archive:
        archive.writestr("j.cubin", b"first")
        archive.writestr("k.cubin", b"second")
    (tmp_path / "k.whl").write_bytes(
        (tmp_path / "k.whl").read_bytes().replace(b"j.cubin", b"k.cubin")
    )
    with pytest.raises(devmod.FormatError, match=r"the payload 'k\.cubin' is there twice"):
        packing.payload_files([tmp_path / "k.whl"])
    with pytest.raises(devmod.FormatError, match="there is no payload with one of the suffixes"):
        packing.pack([], tmp_path / "k.devmod", opaque=True, compress=None, done=lambda count: None)


def test_an_archive_is_bounded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert packing.MAX_BYTES == 268435456
    monkeypatch.setattr(packing, "MAX_BYTES", 1 << 16)
    path = tmp_path / "k.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large.cubin", bytes(packing.MAX_BYTES + 1))
    with pytest.raises(devmod.FormatError, match=r"^'large\.cubin' has more than 65536 bytes$"):
        pack(path, tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") + 42] = 9  # the place of the file
    path.write_bytes(data)
    with pytest.raises(devmod.FormatError, match=r"'large\.cubin' cannot be read: "):
        pack(path, tmp_path)
    path.write_bytes(data.replace(b"PK\1\2", b"PK\1\1"))
    with pytest.raises(
        devmod.FormatError, match=r"k\.whl' cannot be read: Bad magic number for central directory$"
    ):
        packing.payload_files([path])
    monkeypatch.setattr(packing, "MAX_RATIO", 0)
    path.write_bytes(data)
    with pytest.raises(
        devmod.FormatError,
        match=r"k\.whl' unpacks to 65537 bytes; the limit for its size is 65536$",
    ):
        packing.payload_files([path])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_whose_method_has_no_bound_is_refused(
    method: int, folder: Path, tmp_path: Path
) -> None:
    """The size in the directory is less than what zipfile would have in memory."""
    path = tmp_path / "k.whl"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("k.cubin", bytes(1 << 20))
        archive.writestr("README.txt", "this may have any method")
        archive.write(folder / "sm_75.cubin", "sm_75.cubin", zipfile.ZIP_DEFLATED)
    small, large = packing.payload_files([path])[::-1]
    assert small.read(small.name) == (folder / "sm_75.cubin").read_bytes()
    assert refusal(devmod.FormatError, lambda: large.read(large.name)) == (
        f"{str(path)!r}: 'k.cubin' has the compression method {method}; devmod reads 0 (stored) and 8 (deflated). Unpack the file, and "
        "give the folder"
    )


def test_the_directory_of_an_archive_is_bounded_by_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of a record that no archive uses have another size."""
    monkeypatch.setattr(packing, "MAX_ENTRIES", 16)
    most = packing.MAX_ENTRIES * 64
    path = tmp_path / "k.whl"
    fake = b"PK\6\6" + bytes(52)
    for count in (10, 40):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("k.cubin", b"payload")
            for number in range(count):
                archive.writestr(f"f{number}", b"")
            archive.comment = fake
        if count == 10:
            assert [each.name for each in packing.payload_files([path])] == ["k.cubin"]
            continue
        assert refusal(devmod.FormatError, lambda: packing.payload_files([path])) == (
            f"{str(path)!r} cannot be read: its directory has more than {most} bytes"
        )


def packed(name: str, kind: str, code: Any, fmt: str, words: bytes = b"payload") -> devmod.Module:
    """Return a module with the origin that `devmod pack` gives a file of `words`."""
    origin = devmod.Origin(kind, sources={name: hashlib.sha256(words).hexdigest()})
    return module_of(Payload(kind, code, fmt, {}, origin=origin), runtime=False)


def test_unpack_writes_no_shader_with_a_flag_that_its_file_cannot_have(tmp_path: Path) -> None:
    words = (VECTORS / "plain.spv").read_bytes()
    for flag in (0, 1):
        shader = flag.to_bytes(4, "little") + (len(words) // 4).to_bytes(8, "little") + words
        module = packed("k.spv", "vulkan", {"k": shader}, "spv", words)
        devmod.save(module, tmp_path / f"{flag}.devmod")
    assert packing.unpack(tmp_path / "0.devmod", tmp_path / "out") == 1
    assert (tmp_path / "out" / "k.spv").read_bytes() == words
    with pytest.raises(devmod.FormatError, match="has no files of `devmod pack`"):
        packing.unpack(tmp_path / "1.devmod", tmp_path / "other")


@pytest.mark.parametrize("name", ["../k.cubin", "/tmp/k.cubin", "a/../../k.cubin", ""])
def test_unpack_writes_into_its_folder_alone(tmp_path: Path, name: str) -> None:
    devmod.save(packed(name, "cuda", b"payload", "cubin"), tmp_path / "k.devmod")
    with pytest.raises(
        devmod.FormatError, match=r"which cannot be written there|has no files of `devmod pack`"
    ):
        packing.unpack(tmp_path / "k.devmod", tmp_path / "out")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "k.devmod",
        "out",
    ]


def test_unpack_replaces_nothing(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path)
    with pytest.raises(devmod.FormatError, match="is not empty"):
        packing.unpack(tmp_path / "k.devmod", folder)
    with pytest.raises(devmod.FormatError, match="is not a bundle"):
        packing.unpack(folder / "sm_80.cubin", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    one = packed("k.cubin", "cuda", b"payload", "cubin")
    two = packed("k.cubin", "rocm", b"payload", "hsaco")
    devmod.save(devmod.bundle(one, two), tmp_path / "twice.devmod")
    with pytest.raises(devmod.FormatError, match="which cannot be written there"):
        packing.unpack(tmp_path / "twice.devmod", tmp_path / "out")


@pytest.mark.row("R18")
def test_unpack_writes_nothing_that_was_changed(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path)
    library = tmp_path / "k.devmod"
    library.write_bytes(library.read_bytes().replace(b"x[0] = 1.0", b"x[0] = 2.0"))
    with pytest.raises(devmod.FormatError, match="SHA-256"):
        packing.unpack(library, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
