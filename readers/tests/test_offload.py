"""Containers of device code: recorded ones of LLVM's and NVIDIA's tools, other versions of them, and damaged ones."""

from __future__ import annotations

import os
import zlib
from importlib.util import find_spec
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import pytest
from recorded_triton import FOLDER as TRITON
from recorded_triton import recorded_kernel

import devmod
from devmod import FunctionInfo
from devmod_conformance.checks import check_error
from devmod_targets.interop import offload
from devmod_targets.interop import triton as triton_interop

FOLDER = Path(__file__).parent / "vectors/offload"
ADD = triton_interop.load(recorded_kernel("add")).functions
HSACO = (TRITON / "add.hip.hsaco").read_bytes()
CUBIN = (TRITON / "add.cuda.cubin").read_bytes()
PTX = (TRITON / "add.cuda.ptx").read_bytes()
PLAIN = (FOLDER / "plain.bundle").read_bytes()
ZSTD = (FOLDER / "zstd.bundle").read_bytes()
BINARY = (FOLDER / "images.offloadbinary").read_bytes()
FATBIN = (FOLDER / "images.fatbin").read_bytes()
HIP = ("rocm", "hsaco", "hipv4-amdgcn-amd-amdhsa--gfx1100", HSACO)
AMD = ("rocm", "hsaco", "amdgcn-amd-amdhsa-gfx1100", HSACO)
NVIDIA = [("cuda", fmt, "nvptx64-nvidia-cuda-sm_90a", data) for fmt, data in (("cubin", CUBIN), ("ptx", PTX))]
needs_zstd = pytest.mark.skipif(find_spec("backports.zstd") is None, reason="needs backports.zstd (devmod-targets[zstd])")


def images(data: Any) -> list[tuple[str, str, str, bytes]]:
    return [(*image[:3], bytes(image.data)) for image in offload.read_images(data)]


def compressed(version: int, method: int = 0, contents: bytes = PLAIN, **sizes: int) -> bytes:
    """Return a compressed bundle of the documented layout."""
    data = zlib.compress(contents)
    length = sizes.get("length", len(contents))
    if version == 1:
        return pack("<4sHHIQ", b"CCOB", version, method, length, 7) + data
    layout = "<4sHHIIQ" if version == 2 else "<4sHHQQQ"
    header = 24 if version == 2 else 32
    return pack(layout, b"CCOB", version, method, sizes.get("total", header + len(data)), length, 7) + data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PLAIN, [HIP]),
        (PLAIN + bytes(4096) + PLAIN, [HIP, HIP]),
        pytest.param(ZSTD, [HIP], marks=needs_zstd),
        pytest.param(ZSTD + bytes(9) + PLAIN, [HIP, HIP], marks=needs_zstd),
        (compressed(1), [HIP]),
        (compressed(2), [HIP]),
        (compressed(3) + compressed(2), [HIP, HIP]),
        (compressed(3, contents=compressed(2)), [HIP]),
        (BINARY, [AMD, *NVIDIA]),
        ((FOLDER / "offloading.o").read_bytes(), [AMD, *NVIDIA]),
        (CUBIN, [("cuda", "cubin", "", CUBIN)]),
        (HSACO, [("rocm", "hsaco", "", HSACO)]),
        (PTX, [("cuda", "ptx", "", PTX)]),
    ],
)
def test_images(data: bytes, expected: list[tuple[str, str, str, bytes]]) -> None:
    assert images(data) == expected
    assert images(bytearray(data)) == expected


def test_fatbins_and_the_sections_of_a_host() -> None:
    (cubin, ptx), host = images(FATBIN), images(FOLDER / "fatbins.o")
    assert cubin == ("cuda", "cubin", "sm_90a", CUBIN)
    assert ptx[:3] == ("cuda", "ptx", "compute_90a:ptx9.4")
    assert host == [cubin, ptx, HIP]
    assert images(str(FOLDER / "fatbins.o")) == host


@pytest.mark.row("R40")
def test_each_image_is_a_variant() -> None:
    module = offload.load(FOLDER / "offloading.o", ADD)
    assert module.kind == "bundle"
    assert [(each.kind, each.format, each.code) for each in module.imports] == [(*each[:2], each[3]) for each in (AMD, *NVIDIA)]
    variants = [each.variant for each in devmod.loads(devmod.dumps(module)).imports]
    assert variants == ["gfx1100", "sm_90a", "compute_90a:ptx9.4"]
    assert all(dict(each.functions) == ADD for each in module.imports)


def test_one_image_is_the_module_itself() -> None:
    module = offload.load(PLAIN, ADD)
    assert (module.kind, module.code, dict(module.functions)) == ("rocm", HSACO, ADD)


def test_a_variant_has_the_functions_that_its_image_contains() -> None:
    softmax = triton_interop.load(recorded_kernel("softmax"))
    other = pack_binary(softmax.code)
    module = offload.load(BINARY + other, {**ADD, **softmax.functions})
    assert [list(each.functions) for each in module.imports] == [["add"], ["add"], ["add"], ["softmax"]]
    assert offload.load(BINARY + other, softmax.functions).code == softmax.code


def pack_binary(image: bytes, triple: bytes = b"nvptx64", **fields: int) -> bytes:
    """Return an OffloadBinary with one string."""
    strings = pack("<QQ", 88, 95)
    texts = b"triple\0" + triple + b"\0"
    start = 88 + len(texts)
    entry = pack("<HHIQQQQ", 0, 2, 0, 72, fields.get("strings", 1), start, fields.get("length", len(image)))
    size = fields.get("size", start + len(image))
    return (
        b"\x10\xff\x10\xad" + pack("<IQQQ", fields.get("version", 1), size, 32, fields.get("entry", 40)) + entry + strings + texts + image
    )


def bundle(*entries: tuple[int, int, bytes], count: int | None = None, data: bytes = b"") -> bytes:
    table = b"".join(pack("<QQQ", offset, size, len(name)) + name for offset, size, name in entries)
    return b"__CLANG_OFFLOAD_BUNDLE__" + pack("<Q", len(entries) if count is None else count) + table + data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"hello",
            "the container is not supported: expected a CUDA fatbin, an offload bundle, an OffloadBinary, a kpack archive, PTX, or an ELF file, got "
            "b'hello' at its start",
        ),
        (PLAIN + b"xyz", "the container is invalid: expected the magic of a container at byte 4172, got b'xyz'"),
        (PLAIN[:30], "the offload bundle at byte 0 is outside of the file: bytes 24 to 32 of 30"),
        (bundle(count=2**40), "the offload bundle at byte 0 has 1099511627776 entries; expected at most 4096"),
        (bundle((0, 0, b"x" * 2000)), "entry 1 of the offload bundle at byte 0 has a name of 2000 bytes; expected at most 1024"),
        (bundle((60, 9, b"hip")), "entry 1 of the offload bundle at byte 0 is outside of the file: bytes 60 to 69 of 59"),
        (bundle((0, 80, b"hip"), (0, 80, b"hip")), "the offload bundle at byte 0 is invalid: its entries overlap"),
        (compressed(4), "the compressed offload bundle at byte 0 has version 4; devmod reads versions 1 to 3"),
        (
            compressed(2, method=9),
            "the compressed offload bundle at byte 0 has the compression method 9; devmod reads 0 (zlib) and 1 (zstd)",
        ),
        (compressed(2, total=9), "the compressed offload bundle at byte 0 is invalid: its size is 9 bytes"),
        (compressed(2, total=9999), "the compressed offload bundle at byte 0 is outside of the file: bytes 0 to 9999 of {size}"),
        (
            compressed(2, length=4000),
            "the compressed offload bundle at byte 0 is damaged: expected 4000 bytes after decompression, got 4001",
        ),
        (
            compressed(2, length=5000),
            "the compressed offload bundle at byte 0 is damaged: expected 5000 bytes after decompression, got 4172",
        ),
        (
            compressed(2, length=2**31),
            "the compressed offload bundle at byte 0 has 2147483648 bytes after decompression of {data}, which is over the limit",
        ),
        (compressed(1)[:-300], "the compressed offload bundle at byte 0 is damaged: expected 4172 bytes after decompression, got {short}"),
        (compressed(1)[:-2], "the compressed offload bundle at byte 0 is damaged: its compressed data has no end"),
        pytest.param(
            ZSTD[:12] + pack("<I", 4171) + ZSTD[16:],
            "the compressed offload bundle at byte 0 is damaged: expected 4171 bytes after decompression, got 4172",
            marks=needs_zstd,
        ),
        (pack_binary(CUBIN, version=3), "the OffloadBinary at byte 0 has version 3; devmod reads version 1"),
        (pack_binary(CUBIN)[:-1], "the OffloadBinary at byte 0 is outside of the file: bytes 0 to 4223 of 4222"),
        (pack_binary(CUBIN, size=20), "the OffloadBinary at byte 0 is invalid: its size is 20 bytes, and that of its entry 40"),
        (pack_binary(CUBIN, strings=10**6), "the OffloadBinary at byte 0 has 1000000 strings; expected at most 64"),
        (pack_binary(b"", length=1), "the image of the OffloadBinary at byte 0 is outside of the file: bytes 103 to 104 of 103"),
        (
            pack_binary(b"", triple=b"x" * 2000).rstrip(b"\0"),
            "the OffloadBinary at byte 0 is outside of the file: bytes 0 to 2096 of 2095",
        ),
        (
            pack_binary(b"", triple=b"x" * 2000),
            "the OffloadBinary at byte 0 has a string without an end: " + f"{'x' * 100!r}… (1024 characters)",
        ),
        (
            b"\x7fELF\x02\x01" + bytes(12) + pack("<H", 62) + bytes(44),
            "the host's ELF file has no device code: expected a section .nv_fatbin, .hip_fatbin or .llvm.offloading",
        ),
        (
            b"\x7fELF\x01\x01" + bytes(12) + pack("<H", 3) + bytes(44),
            "the host's file is not supported: expected a 64-bit little-endian ELF file",
        ),
        (
            (FOLDER / "offloading.o").read_bytes()[:-9],
            "the host's ELF file is damaged: its table of sections is outside of the file",
        ),
    ],
)
def test_a_damaged_container_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        offload.read_images(data)
    short = len(zlib.decompressobj().decompress(compressed(1)[20:-300]))
    sizes = {"size": len(data), "data": len(data) - 24, "short": short} if "{" in message else {}
    assert str(caught.value) == (message.format(**sizes) if sizes else message)


@needs_zstd
def test_zstd_without_its_checksum_is_an_error() -> None:
    from backports.zstd import CompressionParameter, compress

    data = compress(PLAIN, options={CompressionParameter.checksum_flag: 1})[:-2]
    with pytest.raises(devmod.FormatError) as caught:
        offload.read_images(pack("<4sHHIIQ", b"CCOB", 2, 1, 24 + len(data), len(PLAIN), 7) + data)
    assert str(caught.value) == "the compressed offload bundle at byte 0 is damaged: its compressed data has no end"


def test_the_entry_of_the_host_is_no_image() -> None:
    names = [b"host-x86_64-unknown-linux-gnu-", HIP[2].encode()]
    start = 32 + sum(24 + len(name) for name in names)
    data = bundle((start, 4, names[0]), (start + 4, len(HSACO), names[1]), data=b"host" + HSACO)
    assert images(data) == [HIP]


def test_containers_nested_too_deep_are_an_error() -> None:
    data = PLAIN
    for _ in range(8):
        data = compressed(2, contents=data)
    with pytest.raises(devmod.FormatError) as caught:
        offload.read_images(data)
    assert str(caught.value) == "the container is invalid: more than 8 containers enclose an image"


def test_compression_in_compression_is_bounded() -> None:
    """Each frame keeps its own limit, and the file of 2 kB would have 40 MB."""
    data = compressed(2, contents=bundle((57, 40_000_000, b"x"), data=Random(1).randbytes(1000) + b"\1" * 39_999_000))
    data = compressed(2, contents=bundle((57, len(data), b"x"), data=data))
    check_error(
        devmod.FormatError,
        lambda: offload.read_images(data),
        "the compressed offload bundle at byte 0 has 40000057 bytes after decompression, which is over the limit",
    )


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.hsaco")
    check_error(
        devmod.FormatError,
        lambda: offload.read_images(tmp_path / "k.hsaco"),
        f"{str(tmp_path / 'k.hsaco')!r} is a pipe (FIFO); expected a regular file",
    )


@needs_zstd
def test_a_frame_cannot_request_a_large_window() -> None:
    from backports.zstd import CompressionParameter, ZstdCompressor

    parts = ZstdCompressor(options={CompressionParameter.window_log: 27})
    frame = parts.compress(PLAIN[:100]) + parts.compress(PLAIN[100:], parts.FLUSH_FRAME)
    data = b"CCOB" + pack("<HHIIQ", 2, 1, 24 + len(frame), len(PLAIN), 0) + frame
    with pytest.raises(devmod.FormatError) as caught:
        offload.read_images(data)
    assert str(caught.value) == (
        "the compressed offload bundle at byte 0 is damaged: Unable to decompress Zstandard data: Frame requires too much memory for decoding"
    )


def test_an_image_that_devmod_does_not_run_is_listed_and_ignored() -> None:
    bitcode = pack_binary(b"BC\xc0\xde")
    assert images(bitcode) == [("", "", "nvptx64", b"BC\xc0\xde")]
    assert offload.load(bitcode + BINARY, ADD).kind == "bundle"
    with pytest.raises(devmod.FormatError) as caught:
        offload.load(bitcode, ADD)
    assert str(caught.value) == ("the container cannot be loaded: no image has the functions 'add'; its images are: 'unknown nvptx64'")


def test_a_function_that_no_image_has_is_an_error() -> None:
    with pytest.raises(devmod.FormatError) as caught:
        offload.load(FATBIN, {**ADD, "sub": FunctionInfo("sub", ("handle",))})
    assert str(caught.value) == (
        "the container cannot be loaded: no image has the functions 'sub'; its images are: 'cubin sm_90a', 'ptx compute_90a:ptx9.4'"
    )
    with pytest.raises(devmod.FormatError) as caught:
        offload.load(PLAIN, {})
    assert str(caught.value) == (
        "the container cannot be loaded: fmap names no function; its images are: 'hsaco hipv4-amdgcn-amd-amdhsa--gfx1100'"
    )


def test_another_object_is_an_error() -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        offload.load(7, ADD)  # type: ignore[arg-type]
    assert str(caught.value) == "offload.load(data, fmap): data is bytes or another buffer, or a path, not int"
    with pytest.raises(FileNotFoundError):
        offload.load("missing.fatbin", ADD)


def test_without_a_decompressor_the_error_names_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "backports.zstd", None)
    monkeypatch.setitem(__import__("sys").modules, "compression.zstd", None)
    with pytest.raises(devmod.ToolchainNotFoundError) as caught:
        offload.read_images(FOLDER / "zstd.bundle")
    assert str(caught.value) == (
        "the compressed offload bundle at byte 0 is compressed with zstd, and cannot be read: backports.zstd is not installed. To add it: "
        'pip install "devmod-targets[zstd]"'
    )


def test_kernels_by_name() -> None:
    """The PTX has the types, and each image its own block: the code object requires none."""
    variants = offload.load(BINARY, iter(["add"]))
    assert [(each.kind, each.functions["add"].interface.block) for each in variants.imports] == [  # type: ignore[union-attr]
        ("rocm", None),
        ("cuda", (128, 1, 1)),
        ("cuda", (128, 1, 1)),
    ]
    assert {each.functions["add"].arg_types for each in variants.imports} == {(*ADD["add"].arg_types[:4], "handle", "handle")}
    assert devmod.interop.offload.load(PTX, ("add",)).functions["add"].arg_types[:4] == ADD["add"].arg_types[:4]
    text = "namespace ns { __global__ void scale(float *x, int n) { x[n] = 1; } } __global__ void other(float *x) { *x = 1; }"
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    from devmod_targets.cuda.nvrtc import compile_program

    cubin = compile_program(text, "k.cu", ["-arch=sm_90"]).cubin
    for name in ("ns::scale", "_ZN2ns5scaleEPfi"):
        functions = offload.load(cubin, [name]).functions
        assert {key: (info.name, str(info.interface)) for key, info in functions.items()} == {
            name: ("_ZN2ns5scaleEPfi", "<Interface (float32* rw, int32)>")
        }


@pytest.mark.parametrize(
    ("data", "names", "error", "message"),
    [
        (FATBIN, ["sub"], devmod.FormatError, "the container cannot be loaded: no image has the kernel 'sub'; its kernels: 'add'"),
        (
            FATBIN,
            [],
            devmod.FormatError,
            "the container cannot be loaded: fmap names no function; its images are: 'cubin sm_90a', 'ptx compute_90a:ptx9.4'",
        ),
        (
            FATBIN,
            "add",
            devmod.ArgumentError,
            "offload.load(data, fmap): fmap is a map of name to FunctionInfo, or names of kernels such as ['add'], not 'add'",
        ),
        (
            PLAIN,
            ["add"],
            devmod.FormatError,
            "the container does not contain the types of all arguments: the kernel 'add' takes (8 bytes, 8 bytes, 8 bytes, 4 bytes, 8 bytes, "
            "8 bytes). Declare the kernels that you call: fmap={'add': devmod.FunctionInfo('add', ('handle', 'handle', 'handle', 'int32', "
            "'handle', 'handle'))}. Some of these types are guesses by size: correct them first. 8 bytes are a pointer ('handle'), 'int64', "
            "'uint64' or 'float64', 4 bytes 'int32', 'uint32' or 'float32'",
        ),
        (
            b".version 8.0\n.target sm_80\n.visible .entry add(.param .u32 n) { ret; }\n",
            ["add", "sub"],
            devmod.FormatError,
            "the container cannot be loaded: no image has the kernel 'sub'; its kernels: 'add'",
        ),
    ],
)
def test_names_that_no_image_answers(data: bytes, names: Any, error: type[devmod.DevmodError], message: str) -> None:
    with pytest.raises(error) as caught:
        offload.load(data, names)
    assert str(caught.value) == message
